// SPDX-License-Identifier: MIT
// BullMQ: add jobs, or work on them; see peers.py.

import { Queue, Worker } from "bullmq";

const connection = { host: "127.0.0.1", port: Number(process.env.PORT), maxRetriesPerRequest: null };
const name = "jobs";

async function add(count, begin, rate) {
  const queue = new Queue(name, { connection });
  for (let done = 0; done < count; ) {
    const jobs = [];
    for (; done < count && jobs.length < 1000; done++) {
      const due = begin + (done * 1000) / rate;
      jobs.push({ name: "job", data: { due }, opts: { delay: Math.max(0, due - Date.now()), removeOnComplete: true } });
    }
    await queue.addBulk(jobs);
  }
  await queue.close();
}

function work(count) {
  const hold = "HOLD" in process.env;
  const options = { connection, concurrency: hold ? 1 : 100 };
  if (process.env.LEASE_MS) {
    options.lockDuration = Number(process.env.LEASE_MS);
    options.stalledInterval = Number(process.env.LEASE_MS);
  }
  const worker = new Worker(name, async (job) => {
    console.log(`late ${Date.now() - job.data.due}`);
    if (hold)
      await new Promise(() => setInterval(() => 0, 1000));
  }, options);
  worker.on("completed", () => { if (!--count) worker.close().then(() => process.exit(0)); });
  worker.on("ready", () => console.log("ready"));
  worker.on("error", (error) => { console.error(error); process.exit(1); });
}

if (process.argv[2] === "work")
  work(Number(process.argv[3]));
else
  await add(...process.argv.slice(2).map(Number));
