#!/usr/bin/env node
// SPDX-License-Identifier: MIT
// Add the next of a job's times by a calendar, as cron does, if it has not been added.
//
//   cron.mjs [--url redis://HOST:PORT] [--stream jobs] NAME 'MINUTE HOUR DAY MONTH WEEKDAY' ZONE COMMAND
//   cron.mjs report '30 8 * * 1-5' Europe/Lisbon 'send-report'
//
// The job is for a worker whose payloads are commands for the shell, as worker.mjs: it runs this
// program again, and then COMMAND. So whoever takes one adds the next: no other process has to run. A
// job that is tried again, or a second start of the same, finds that it has been added. To end it:
// HTW.LIST jobs PENDING BY ID says which NAME@... to HTW.CANCEL. It needs ioredis and cron-parser, from
// npm, in this directory, or where NODE_PATH says.
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const require = createRequire(import.meta.url);
const Redis = require('ioredis');
const { CronExpressionParser } = require('cron-parser');

// For so long after its time a job is not added anew by who has a clock that is behind.
const HOUR = 3600 * 1000;

const { values: options, positionals } = parseArgs({
	allowPositionals: true,
	options: {
		url: { type: 'string', default: 'redis://localhost:6379' },
		stream: { type: 'string', default: 'jobs' },
	},
});
if (positionals.length !== 4) {
	console.error('usage: cron.mjs [--url URL] [--stream STREAM] NAME TIMES ZONE COMMAND');
	process.exit(2);
}
const [name, times, tz, command] = positionals;

// Of several that were missed none is made up for: they are over.
const at = CronExpressionParser.parse(times, { tz }).next();
const again = [fileURLToPath(import.meta.url), ...process.argv.slice(2)]
	.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ');
const client = new Redis(options.url);

await client.call('HTW.AT', options.stream, at.getTime(), `${again} && ${command}`,
	'ID', `${name}@${at.toISOString()}`, 'ONCE', HOUR);
client.disconnect();
