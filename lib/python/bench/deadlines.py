#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Usage: deadlines.py [CONNECTIONS [TURNS]]

Re-arm the deadlines of so many connections, 100 in each turn of the loop, as their messages come:
what that takes in CPU time, the loop's own work for it included, memory, and the longest turn. By asyncio's own timers (cancel
one, start another), by uvloop's, and by htw.aio on both loops: a process each.
"""

import asyncio
import resource
import subprocess
import sys
import time

BATCH = 100
IDLE = 600      # seconds: none expires


def memory():
    """Return the resident memory in MiB."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() / 2**20


async def measure(htw, connections, turns):
    loop = asyncio.get_running_loop()
    if htw:
        from htw import aio, PROCESS
        timers = aio.Timers(backend=PROCESS)
    base = memory()
    start = timers.call_later if htw else loop.call_later
    handles = [start(IDLE, print) for _ in range(connections)]
    await asyncio.sleep(0)
    longest, most = 0.0, 0.0
    before = first = time.process_time()
    for turn in range(turns):
        for i in range(turn * BATCH, turn * BATCH + BATCH):
            i = i * 7919 % connections
            if htw:
                handles[i].rearm(IDLE)
            else:
                handles[i].cancel()
                handles[i] = loop.call_later(IDLE, print)
        if turn % 100 == 0:
            most = max(most, memory() - base)
        await asyncio.sleep(0)
        now = time.process_time()
        longest = max(longest, now - before)
        before = now
    cpu = before - first
    print(f"{cpu / turns / BATCH * 1e6:.2f} us of CPU time each, at most {most * 2**20 / connections:.0f} "
          f"bytes a connection, longest turn {longest * 1e3:.1f} ms")


def main():
    if len(sys.argv) == 5:
        name, htw, connections, turns = sys.argv[1], sys.argv[2] == "htw", *map(int, sys.argv[3:])
        if name == "uvloop":
            import uvloop
            loop = uvloop.new_event_loop()
        else:
            loop = asyncio.new_event_loop()
        loop.run_until_complete(measure(htw, connections, turns))
        return
    connections, turns = [*sys.argv[1:], "100000", "10000"][:2] if len(sys.argv) < 3 else sys.argv[1:3]
    if len(sys.argv) == 2:
        turns = "10000"
    for loop in ("asyncio", "uvloop"):
        for what in ("own", "htw"):
            print(f"{loop}, {what} timers: ", end="", flush=True)
            subprocess.run([sys.executable, __file__, loop, what, connections, turns], check=True)


if __name__ == "__main__":
    main()
