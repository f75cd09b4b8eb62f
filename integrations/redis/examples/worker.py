#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Work on the jobs of a stream, some at a time, until SIGTERM or SIGINT.

  worker.py [--url redis://HOST:PORT] [--stream jobs] [--group workers] [--jobs 4] [--lease 30000]

A job's payload is a command for the shell here; put your own work into do(). A job that is being
worked on has its lease extended; one that fails is tried again, by the queue's settings. After
SIGTERM no job is taken any more, and those that were are finished.
"""

import argparse
import asyncio
import os
import signal
import socket

import redis.asyncio as redis


async def do(fields, attempts):
    """Do a job; an exception makes it fail."""
    process = await asyncio.create_subprocess_shell(fields[b"payload"], env={**os.environ, "ATTEMPT": str(attempts)})
    try:
        if await process.wait():
            raise RuntimeError(f"exit status {process.returncode}")
    finally:
        if process.returncode is None:
            process.kill()


class Worker:
    def __init__(self, options):
        self.options = options
        # Entries are bytes, which need not be text.
        self.client = redis.from_url(options.url)
        self.where = options.stream, options.group
        self.stopping = False

    async def ask(self, command, *words):
        """Run a command until the server can: it is restarted, becomes a replica, the queue moves."""
        while True:
            try:
                return await self.client.execute_command(command, *self.where, *words)
            except redis.RedisError as problem:
                print(f"{command}: {problem}", flush=True)
                if self.stopping and command == "HTW.TAKE":
                    return []
                await asyncio.sleep(0.2)

    async def extend(self, name, entry, work):
        """Extend the lease, in time for two more tries; end the work if it is another's by now."""
        while True:
            await asyncio.sleep(self.options.lease / 3000)
            if not await self.ask("HTW.EXTEND", name, self.options.lease, entry):
                work.cancel()
                return

    async def run(self, name, entry, attempts, fields):
        work = asyncio.create_task(do(fields, attempts))
        extending = asyncio.create_task(self.extend(name, entry, work))
        [problem] = await asyncio.gather(work, return_exceptions=True)
        extending.cancel()
        if problem is None:
            await self.ask("HTW.DONE", entry)
        elif isinstance(problem, asyncio.CancelledError):
            print(f"{entry.decode()}: another worker has it", flush=True)
        else:
            wait = await self.ask("HTW.FAIL", name, entry, "ERROR", str(problem))
            print(f"{entry.decode()}: {problem}; again in {wait} ms (-1: given up, None: another has it)", flush=True)

    async def serve(self, number):
        """Do one job after the other, under a name that is used for one job at a time."""
        name = f"{socket.gethostname()}-{os.getpid()}-{number}"
        while not self.stopping:
            for entry, attempts, fields in await self.ask("HTW.TAKE", name, "LEASE", self.options.lease, "BLOCK", 1000):
                await self.run(name, entry, attempts, dict(zip(fields[::2], fields[1::2])))

    def stop(self):
        self.stopping = True

    async def main(self):
        for number in signal.SIGTERM, signal.SIGINT:
            asyncio.get_running_loop().add_signal_handler(number, self.stop)
        await asyncio.gather(*(self.serve(number) for number in range(self.options.jobs)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--url", default="redis://localhost:6379")
    parser.add_argument("--stream", default="jobs")
    parser.add_argument("--group", default="workers")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--lease", type=int, default=30000)
    asyncio.run(Worker(parser.parse_args()).main())
