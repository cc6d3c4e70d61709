import { Skerry } from 'skerry';

const client = new Skerry(); // SKERRY_URL, SKERRY_API_KEY

await using sandbox = await client.create({ timeout_minutes: 10 });
await sandbox.files.write('answer.py', 'print(6 * 7)');
const { stdout } = await sandbox.exec('python3 answer.py', { check: true });

console.log(stdout); // destroyed here, whatever happens
