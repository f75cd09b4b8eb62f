# SPDX-License-Identifier: MIT
"""rq: its job; see peers.py."""

import os
import sys
import time
from datetime import datetime, timezone

import redis


def job(due):
    print(f"late {time.time() * 1000 - due}", flush=True)
    if os.environ.get("HOLD"):
        time.sleep(3600)


if __name__ == "__main__":
    from rq import Queue
    count, begin, rate = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
    queue = Queue("jobs", connection=redis.Redis(port=int(os.environ["PORT"])))
    for n in range(count):
        due = begin + n * 1000 / rate
        queue.enqueue_at(datetime.fromtimestamp(due / 1000, timezone.utc), "rq_jobs.job", due, result_ttl=0)
