#!/usr/bin/env node
// SPDX-License-Identifier: MIT
// Work on the jobs of a stream, some at a time, until SIGTERM or SIGINT.
//
//   worker.mjs [--url redis://HOST:PORT] [--stream jobs] [--group workers] [--jobs 4] [--lease 30000]
//
// A job's payload is a command for the shell here; put your own work into perform(). A job that is
// being worked on has its lease extended; one that fails is tried again, by the queue's settings.
// After SIGTERM no job is taken any more, and those that were are finished. It needs ioredis, from
// npm, in this directory, or where NODE_PATH says.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';

const Redis = createRequire(import.meta.url)('ioredis');

const { values: options } = parseArgs({
	options: {
		url: { type: 'string', default: 'redis://localhost:6379' },
		stream: { type: 'string', default: 'jobs' },
		group: { type: 'string', default: 'workers' },
		jobs: { type: 'string', default: '4' },
		lease: { type: 'string', default: '30000' },
	},
});

let stopping = false;

// Do a job; an exception makes it fail. It ends early when the signal says so.
function perform(fields, attempts, signal) {
	return new Promise((resolve, reject) => {
		const child = spawn('/bin/sh', ['-c', fields.payload],
			{ stdio: 'inherit', signal, env: { ...process.env, ATTEMPT: attempts } });

		child.on('error', reject);
		child.on('exit', (code) => code ? reject(new Error(`exit status ${code}`)) : resolve());
	});
}

function connect() {
	return new Redis(options.url, { maxRetriesPerRequest: 1 })
		.on('error', (error) => console.log(`${error}`));
}

// One connection for all that does not wait.
const client = connect();

// Run a command until the server can: it is restarted, becomes a replica, the queue moves.
async function ask(connection, command, ...words) {
	for (;;) {
		try {
			return await connection.call(command, options.stream, options.group, ...words);
		} catch (error) {
			console.log(`${command}: ${error.message}`);
			if (stopping && command === 'HTW.TAKE')
				return [];
			await sleep(200);
		}
	}
}

async function run(name, entry, attempts, fields) {
	const work = new AbortController();
	// Extend the lease, in time for two more tries; end the work if it is another's by now.
	const extending = setInterval(async () => {
		if (!await ask(client, 'HTW.EXTEND', name, options.lease, entry))
			work.abort();
	}, options.lease / 3);
	const problem = await perform(fields, attempts, work.signal).then(() => null, (error) => error);

	clearInterval(extending);
	if (!problem)
		return ask(client, 'HTW.DONE', entry);
	const wait = await ask(client, 'HTW.FAIL', name, entry, 'ERROR', problem.message);
	console.log(`${entry}: ${problem.message}; again in ${wait} ms (-1: given up, null: another has it)`);
}

// Do one job after the other, under a name for one at a time, on a connection to wait with.
async function serve(_, number) {
	const name = `${hostname()}-${process.pid}-${number}`, waiting = connect();

	while (!stopping) {
		const taken = await ask(waiting, 'HTW.TAKE', name, 'LEASE', options.lease, 'BLOCK', 1000);
		for (const [entry, attempts, words] of taken) {
			const fields = {};
			for (let i = 0; i < words.length; i += 2)
				fields[words[i]] = words[i + 1];
			await run(name, entry, attempts, fields);
		}
	}
	waiting.disconnect();
}

for (const signal of ['SIGTERM', 'SIGINT'])
	process.on(signal, () => { stopping = true; });
await Promise.all(Array.from({ length: +options.jobs }, serve));
client.disconnect();
