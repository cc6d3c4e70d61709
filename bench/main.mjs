// The benchmarks, one after the other, each against a baseline of the same run.
//
//   start   fresh boot and template restore of a VM without the daemon; create over REST
//   exec    `true` over REST and MCP, in turn with the agent's own round trip
//   files   a file into a sandbox and out of it, against the agent's channel alone
//   exec_crowd  the same 1, 16 and 64 at once
//   stream  a command's output through a stream, against the agent's channel alone
//   get     requests a second of an operation that only reads, against libmicrohttpd by itself
//   auth    the same by keys that are narrowed, against one that is not
//   connections  what clients cost that wait, and a command beside them
//   memory  what an idle sandbox costs the host
//   churn   create, exec, destroy a hundred times: times, what is left behind, the daemon's growth
//   crowd   twenty sandboxes made at once
//   standby create handed over from those that stand ready, in turn with one restored cold
//   fork    how long a fork's source stands still and its child takes to answer, by written memory
//   growth  the same by the guest's memory and by the number of children
//   forkpatterns  eight candidate fixes in forks of one warm sandbox, against fresh ones in sequence
//   pause   how long a pause takes until it is durable, and a resume, by written memory
//   hundred a hundred sandboxes alive: private memory and idle CPU
//   network the egress program's cost, between network namespaces
//   ledger  usage with a million charges in the ledger, against ten
//   audit   what the record of a command, and of a change, costs it
//
// The figures are printed as a table with the aim beside them, and written as JSON.

import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';

import { auth } from './auth.mjs';
import { audit } from './audit.mjs';
import { Baseline } from './baseline.mjs';
import { churn } from './churn.mjs';
import { crowd } from './crowd.mjs';
import { connections } from './connections.mjs';
import { daemonFor, imageFile, makeWork } from './daemon.mjs';
import { exec } from './exec.mjs';
import { execCrowd } from './exec_crowd.mjs';
import { files } from './files.mjs';
import { fork, growth } from './fork.mjs';
import { forkPatterns } from './forkpatterns.mjs';
import { get } from './get.mjs';
import { hundred } from './hundred.mjs';
import { ledger } from './ledger.mjs';
import { memory } from './memory.mjs';
import { network } from './network.mjs';
import { pause } from './pause.mjs';
import { enterPlace } from './place.mjs';
import { standby } from './standby.mjs';
import { start } from './start.mjs';
import { streaming } from './stream.mjs';
import { table } from './table.mjs';

const parts = {
	start, exec, exec_crowd: execCrowd, stream: streaming, get, auth, connections, files, memory, churn, crowd, standby, fork,
	growth, forkpatterns: forkPatterns, pause, hundred, network, audit, ledger,
};

const help = `usage: bench/run [--quick] [--only PART[,PART]] [--image NAME] [--place reflink|plain] [--out FILE]

parts: ${Object.keys(parts).join(', ')}
--place is the file system of the state: with reflink as skerry init makes it (default), or as it is
--quick takes a tenth of the samples; its figures are for a look, not for comparison
`;

function options() {
	const { values } = parseArgs({
		options: {
			quick: { type: 'boolean' },
			only: { type: 'string' },
			image: { type: 'string', default: 'base' },
			place: { type: 'string', default: 'reflink' },
			out: { type: 'string' },
			help: { type: 'boolean' },
		},
	});
	const only = values.only?.split(',') ?? Object.keys(parts);
	const unknown = only.filter((name) => !parts[name]);

	if (unknown.length)
		throw new Error(`there is no part ${unknown.join(', ')}\n${help}`);
	return { ...values, only };
}

function machine(doctor) {
	return {
		cpu: os.cpus()[0]?.model,
		cpus: os.cpus().length,
		memory_gib: Math.round(os.totalmem() / 2 ** 30),
		kernel: os.release(),
		isolation: doctor.isolation,
		load_before: os.loadavg()[0],
	};
}

function report(results) {
	const rows = results.flatMap(({ rows }) => rows).map(({ what, value, baseline = '', ratio = '', aim = '', ok }) =>
		[what, value, baseline, ratio, aim, ok === undefined ? '' : ok ? 'yes' : 'NO']);

	return table(['', 'figure', 'baseline', 'ratio', 'aim', 'met'], rows);
}

async function main() {
	const chosen = options();
	const build = process.env.BUILD;

	if (chosen.help)
		return void process.stdout.write(help);
	const place = enterPlace(chosen.place);

	try {
		await measure(chosen, build, place);
	} finally {
		place.leave();
	}
}

async function measure(chosen, build, place) {
	const daemon = await daemonFor(chosen);
	const work = makeWork();
	const results = [];
	let baseline;

	try {
		baseline = new Baseline({ build, image: imageFile(daemon, chosen.image), work, memoryMb: 1024 });
		const context = { daemon, baseline, build, image: chosen.image, few: chosen.quick ? 0.1 : 1 };
		const about = { ...machine(await daemon.doctor()), state: place.kind };

		for (const name of chosen.only) {
			process.stderr.write(`${name} …\n`);
			const begun = Date.now();
			const result = await parts[name](context);

			results.push({ name, seconds: (Date.now() - begun) / 1000, ...result });
		}
		const date = new Date().toISOString().replace(/\.\d+Z$/, 'Z');
		const out = chosen.out ?? path.join(build, 'bench', `${date}.json`);

		fs.mkdirSync(path.dirname(out), { recursive: true });
		fs.writeFileSync(out, JSON.stringify({ date, quick: Boolean(chosen.quick), machine: about, results }, null, '\t'));
		process.stdout.write(`${report(results)}\n\n${about.isolation}, ${about.cpus} CPUs, state on ${about.state}; written to ${out}\n`);
		if (about.load_before > about.cpus / 2)
			process.stdout.write(`the machine was busy (load ${about.load_before.toFixed(1)} at the start): take no figure for granted\n`);
		process.exitCode = results.some(({ rows }) => rows.some(({ ok }) => ok === false)) ? 1 : 0;
	} finally {
		await baseline?.stop();
		await daemon.stop();
		fs.rmSync(work, { recursive: true, force: true });
	}
}

main().catch((error) => {
	process.stderr.write(`bench: ${error.message}\n`);
	process.exitCode = 2;
});
