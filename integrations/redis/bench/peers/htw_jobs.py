# SPDX-License-Identifier: MIT
"""htw: add jobs, or work on them; see peers.py."""

import os
import sys
import time

import redis

LEASE = int(os.environ.get("LEASE_MS", 30000))


def add(r, count, begin, rate):
    for first in range(0, count, 1000):
        pipe = r.pipeline(transaction=False)
        for n in range(first, min(first + 1000, count)):
            due = begin + n * 1000 / rate
            pipe.execute_command("HTW.AT", "jobs", int(due), due)
        pipe.execute()


def work(r, count):
    while count > 0:
        entries = []
        for entry, _, fields in r.execute_command("HTW.TAKE", "jobs", "all", f"worker-{os.getpid()}", "COUNT",
                                                  1 if "HOLD" in os.environ else 100, "LEASE", LEASE, "BLOCK", 0):
            print(f"late {time.time() * 1000 - float(fields[fields.index('payload') + 1])}", flush=True)
            entries.append(entry)
        if "HOLD" in os.environ:
            time.sleep(3600)
        r.execute_command("HTW.DONE", "jobs", "all", *entries)
        count -= len(entries)


if __name__ == "__main__":
    server = redis.Redis(port=int(os.environ["PORT"]), decode_responses=True)
    if sys.argv[1] == "work":
        print("ready", flush=True)
        work(server, int(sys.argv[2]))
    else:
        add(server, int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
