// Tries several fixes at once, each in a fork of one prepared sandbox, and says which one works.

import { Skerry } from 'skerry';

const candidates = ['a - b', 'a + b', 'a * b'];
const client = new Skerry();

await using prepared = await client.create({ timeout_minutes: 10 });
await prepared.files.write('test.py', 'from sum import add\nassert add(2, 3) == 5\n');
const { sandboxes } = await prepared.fork({ count: candidates.length });

await Promise.all(sandboxes.map(async (sandbox, i) => {
	await using fork = sandbox;
	await fork.files.write('sum.py', `def add(a, b):\n    return ${candidates[i]}\n`);
	const { exit_code } = await fork.exec('python3 test.py');

	console.log(`candidate ${candidates[i]}: ${exit_code === 0 ? 'works' : 'fails'}`);
}));
