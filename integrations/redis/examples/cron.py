#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Add the next of a job's times by a calendar, as cron does, if it has not been added.

  cron.py [--url redis://HOST:PORT] [--stream jobs] NAME 'MINUTE HOUR DAY MONTH WEEKDAY' ZONE COMMAND
  cron.py report '30 8 * * mon-fri' Europe/Lisbon 'send-report'

The job is for a worker whose payloads are commands for the shell, as worker.py: it runs this program
again, and then COMMAND. So whoever takes one adds the next: no other process has to run. A job that
is tried again, or a second start of the same, finds that it has been added. To end it:
HTW.LIST jobs PENDING BY ID says which NAME@... to HTW.CANCEL.
"""

import argparse
import shlex
import sys
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import redis
from croniter import croniter

# For so long after its time a job is not added anew by who has a clock that is behind.
HOUR = 3600 * 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--url", default="redis://localhost:6379")
    parser.add_argument("--stream", default="jobs")
    parser.add_argument("name")
    parser.add_argument("times", help="minute, hour, day, month, weekday, and perhaps second")
    parser.add_argument("zone")
    parser.add_argument("command")
    options = parser.parse_args()

    # Of several that were missed none is made up for: they are over.
    at = croniter(options.times, datetime.now(ZoneInfo(options.zone))).get_next(datetime)
    again = shlex.join([str(Path(__file__).resolve()), *sys.argv[1:]])
    redis.from_url(options.url).execute_command(
        "HTW.AT", options.stream, round(at.timestamp() * 1000), f"{again} && {options.command}",
        "ID", f"{options.name}@{at.isoformat()}", "ONCE", HOUR)


if __name__ == "__main__":
    main()
