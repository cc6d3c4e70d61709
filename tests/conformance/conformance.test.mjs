// The official MCP conformance suite against the daemon, both requirement sets, each scenario a case:
// the product with a baseline that lists what wants fixtures, and the test build, which has them.
// A scenario that a baseline names as a whole is no case here; the suite's own verdict is one, which
// fails on what is not in the baseline and on what is in it but passes.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { build, repository, startDaemon } from '../api/lib/daemon.mjs';

const SETS = ['2026-07-28', '2025-11-25'];
const WITHIN_MS = 5 * 60_000;

const suite = path.join(repository, 'tests/node_modules/@modelcontextprotocol/conformance');
const here = (name) => fileURLToPath(new URL(name, import.meta.url));

// Helpers of the VMM come from the product's build: no virtual machine is started.
const vm = {
	warden: path.join(build, 'skerry-warden'),
	kernel: path.join(build, 'guest/vmlinux'),
	initramfs: path.join(build, 'guest/initramfs.cpio'),
	lib_dir: path.join(build, 'src/vmm'),
};
const builds = [
	{ name: 'product', folder: build },
	{ name: 'fixtures', folder: process.env.SKERRY_FIXTURES_BUILD_DIR, config: { vm } },
];

// The scenarios of a set that a server is scored by or that the suite holds back ("pending" for its own
// reference server). The extension of tasks is none of ours.
function scenariosOf(set) {
	const lines = fs.readFileSync(path.join(suite, 'requirements', `${set}.yaml`), 'utf8').split('\n');
	const scenarios = [];
	let section, name;

	for (const line of lines) {
		section = line.match(/^(\w+):$/)?.[1] ?? section;
		if (section === 'server')
			scenarios.push(...(line.match(/^ {2}- (\S+)$/)?.slice(1) ?? []));
		if (section !== 'not_scored')
			continue;
		name = line.match(/^ {2}- scenario: (\S+)$/)?.[1] ?? name;
		if (/^ {4}leg: client$/.test(line))
			name = undefined;
		if (name && /^ {4}reason: (pending|added-after-release)$/.test(line))
			scenarios.push(name);
	}
	return scenarios;
}

// {whole: scenarios, single: checks}. The reason stands above each.
function readBaseline(file) {
	const text = fs.readFileSync(file, 'utf8');
	const entries = [...text.matchAll(/^ {2}- ([^:\s]+)(?::(\S+))?$/gm)];

	return {
		whole: entries.filter(([, , check]) => !check).map(([, scenario]) => scenario),
		single: new Set(entries.map(([, , check]) => check).filter(Boolean)),
	};
}

async function runSuite(daemon, set, baseline, out) {
	const args = ['server', '--url', new URL('/mcp', daemon.url).href, '--requirements', set];
	const child = spawn(path.join(repository, 'scripts/node'),
		[path.join(suite, 'dist/index.js'), ...args, '--expected-failures', baseline, '-o', out], {
			stdio: ['ignore', 'pipe', 'pipe'],
			timeout: WITHIN_MS,
			env: {
				...process.env,
				NODE_TEST_CONTEXT: undefined,
				NODE_OPTIONS: `--import=${here('bearer.mjs')}`,
				SKERRY_NODE_MINIMUM: '22',
				SKERRY_TEST_URL: daemon.url,
				SKERRY_API_KEY: daemon.key,
			},
		});
	let text = '';

	for (const stream of [child.stdout, child.stderr])
		stream.on('data', (data) => (text += data));
	const [code, signal] = await once(child, 'close');

	return { code: code ?? signal, text };
}

// What a scenario's own report says: the suite writes one folder for each.
function checksOf(out, scenario) {
	const folder = fs.readdirSync(out).find((name) => name.match(/^server-(.*)-\d{4}-\d\d-\d\dT[\d-]+Z$/)?.[1] === scenario);

	assert.ok(folder, `${scenario} did not run`);
	return JSON.parse(fs.readFileSync(path.join(out, folder, 'checks.json'), 'utf8'));
}

const isBad = (check) => /FAILURE|WARNING/.test(check.status);

function assertPassed(checks, allowed) {
	const wrong = checks.filter((check) => isBad(check) && !allowed.has(check.id));

	assert.deepEqual(wrong.map((check) => `${check.id}: ${check.errorMessage}`), []);
	assert.ok(checks.some((check) => check.status === 'SUCCESS'), 'no check was made');
}

for (const { name, folder, config } of builds)
	for (const set of SETS) {
		const baseline = here(`baseline-${name}-${set}.yml`);
		const { whole, single } = readBaseline(baseline);

		describe(`${name}, ${set}`, () => {
			const out = fs.mkdtempSync(path.join(os.tmpdir(), 'skerry-conformance-'));
			let verdict;

			before(async () => {
				const daemon = await startDaemon({ config, folder });

				try {
					verdict = await runSuite(daemon, set, baseline, out);
				} finally {
					await daemon.stop();
				}
			}, { timeout: WITHIN_MS + 60_000 });
			after(() => fs.rmSync(out, { recursive: true, force: true }));

			for (const scenario of scenariosOf(set).filter((wanted) => !whole.includes(wanted)))
				test(scenario, () => assertPassed(checksOf(out, scenario), single));

			test('nothing fails that the baseline does not name, nothing is named that passes', () => {
				assert.equal(verdict.code, 0, verdict.text.slice(-4000));
				for (const scenario of whole) {
					const checks = checksOf(out, scenario);

					assert.ok(checks.some(isBad) || !checks.some(({ status }) => status === 'SUCCESS'), `${scenario} passes`);
				}
			});
		});
	}
