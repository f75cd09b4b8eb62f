# SPDX-License-Identifier: MIT
"""Celery: its application; see peers.py."""

import os
import sys
import time
from datetime import datetime, timezone

from celery import Celery

app = Celery("jobs", broker=f"redis://127.0.0.1:{os.environ['PORT']}/0")
app.conf.update(task_ignore_result=True, task_acks_late=True, worker_redirect_stdouts=False,
                task_reject_on_worker_lost=True, worker_send_task_events=False, broker_connection_retry_on_startup=True,
                broker_transport_options={"visibility_timeout": int(os.environ.get("LEASE_S", 3600))})


@app.task(name="job")
def job(due):
    print(f"late {time.time() * 1000 - due}", flush=True)
    if os.environ.get("HOLD"):
        time.sleep(3600)


if __name__ == "__main__":
    count, begin, rate = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
    with app.producer_pool.acquire(block=True) as producer:
        for n in range(count):
            due = begin + n * 1000 / rate
            job.apply_async((due,), eta=datetime.fromtimestamp(due / 1000, timezone.utc), producer=producer)
