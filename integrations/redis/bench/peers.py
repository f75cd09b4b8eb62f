#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Compare queues of delayed jobs in one run: htw, BullMQ, Celery, rq and beanstalkd; as Markdown.

Each has a server of its own, one process that adds and one that works, each written as its authors
recommend (peers/). With --pending jobs an hour away, COUNT jobs become due, RATE a second; each is
taken under a lease and ended. Then a worker is killed that has a job, with a lease of 5 s where
that can be set.

late      what the worker sees, in ms
commands  that the server has carried out for a job, from adding to ending, those of scripts as well
CPU       of the server for a job, in us
bytes     of the server for a pending job: used_memory; of beanstalkd the resident set
killed    after how many seconds the killed worker's job is taken again

What is not installed is left out, with the reason: Debian's celery, python3-rq and beanstalkd; and
BullMQ, where npm install bullmq ioredis has made the directory $HTW_NODE_MODULES.
"""

import argparse
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

import server as servers  # noqa: E402
from server import Server, free_port, wait  # noqa: E402

PEERS = HERE / "peers"
NODE_MODULES = Path(os.environ.get("HTW_NODE_MODULES", "node_modules"))
LEASE_MS = 5000
# A job that is not done by then is not waited for: what came is reported.
SECONDS = 120
HOUR = 3600 * 1000


class Redis:
    """A server without persistence."""

    def __init__(self, directory, module):
        self.server = Server(directory, "--save", "", *(() if module else ("--enable-module-command", "yes")),
                             module=("",) if module else None).start()
        self.port = self.server.port
        self.r = self.server.client()

    def usage(self):
        """Return CPU seconds, commands and bytes, as they are now."""
        info = self.r.info()
        return info["used_cpu_user"] + info["used_cpu_sys"], info["total_commands_processed"], info["used_memory"]

    def end(self):
        self.server.kill()


class Beanstalkd:
    def __init__(self, _directory, _module):
        self.port = free_port()
        self.process = subprocess.Popen(["beanstalkd", "-l", "127.0.0.1", "-p", str(self.port)])
        wait(self.usage_or_none, "beanstalkd")

    def stats(self):
        with socket.create_connection(("127.0.0.1", self.port)) as sock:
            sock.sendall(b"stats\r\n")
            replies = sock.makefile("rb")
            size = int(replies.readline().split()[1])
            lines = replies.read(size).decode().splitlines()
        return dict(line.split(": ", 1) for line in lines if ": " in line)

    def usage_or_none(self):
        with contextlib.suppress(OSError):
            return self.usage()
        return None

    def usage(self):
        stats = self.stats()
        commands = sum(int(n) for name, n in stats.items() if name.startswith("cmd-"))
        resident = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return float(stats["rusage-utime"]) + float(stats["rusage-stime"]), commands, resident

    def end(self):
        self.process.kill()
        self.process.wait()


class Peer:
    def __init__(self, name, add, work, server=Redis, missing=None):
        self.name, self.add, self.work, self.server, self.missing = name, add, work, server, missing


def python(program):
    return ["/usr/bin/python3", str(PEERS / program)]


def installed(*modules):
    """Return why Debian's Python modules are not there, or None."""
    code = ";".join(f"import {m}" for m in modules)
    done = subprocess.run(["/usr/bin/python3", "-c", code], stderr=subprocess.DEVNULL, check=False)
    return None if done.returncode == 0 else f"python3-{modules[0]} is not installed"


def node():
    if not shutil.which("node"):
        return "node is not installed"
    return None if (NODE_MODULES / "bullmq").exists() else "HTW_NODE_MODULES names no directory with bullmq"


# Modules are looked for beside the program, so it is copied there.
BULLMQ_PROGRAM = NODE_MODULES.absolute().parent / "htw-peers-bullmq.mjs"
BULLMQ = ["node", str(BULLMQ_PROGRAM)]
PEERS_OF = [
    Peer("htw", python("htw_jobs.py"), [*python("htw_jobs.py"), "work"]),
    Peer("BullMQ", BULLMQ, [*BULLMQ, "work"], missing=node()),
    Peer("Celery", python("celery_jobs.py"),
         ["/usr/bin/python3", "-m", "celery", "-A", "celery_jobs", "worker", "-c", "1", "--without-gossip",
          "--without-mingle", "-l", "WARNING"], missing=installed("celery")),
    Peer("rq", python("rq_jobs.py"),
         ["/usr/bin/python3", "-c", "import sys; from rq.cli import main; sys.argv[0] = 'rq'; main()", "worker", "--url", "redis://127.0.0.1:PORT",
          "--with-scheduler", "-w", "rq.SimpleWorker", "--quiet", "jobs"], missing=installed("rq")),
    Peer("beanstalkd", python("beanstalk_jobs.py"), [*python("beanstalk_jobs.py"), "work"], Beanstalkd,
         missing=None if shutil.which("beanstalkd") else "beanstalkd is not installed"),
]


class Worker:
    """A worker's process, and how late each of its jobs came."""

    def __init__(self, peer, port, count, **env):
        self.lags = []
        self.times = []
        command = [word.replace("PORT", str(port)) for word in peer.work]
        if command[-1] == "work":
            command.append(str(count))
        self.process = subprocess.Popen(command, cwd=PEERS, stdout=subprocess.PIPE, text=True, start_new_session=True,
                                        env={**os.environ, "PORT": str(port), "PYTHONPATH": str(PEERS), **env})
        self.thread = threading.Thread(target=self.listen)
        self.thread.start()

    def listen(self):
        for line in self.process.stdout:
            if line.startswith("late "):
                self.times.append(time.time())
                self.lags.append(float(line.split()[1]))

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.thread.join()


def add(peer, port, count, begin, rate, **env):
    subprocess.run([*peer.add, str(count), str(begin), str(rate)], cwd=PEERS, check=True,
                   env={**os.environ, "PORT": str(port), "PYTHONPATH": str(PEERS), **env})


def patient(condition, seconds):
    """Wait until a condition holds, but not for longer."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def lateness(lags):
    lags = sorted(lags)
    return [f"{lags[min(len(lags) - 1, len(lags) * p // 100)]:,.1f}" for p in (50, 99, 100)] if lags else ["-"] * 3


def load(peer, server, options, started):
    """Return the columns of a load."""
    _, _, empty = server.usage()
    if options.pending:
        add(peer, server.port, options.pending, (time.time() + 3600) * 1000, 1e6)
    # Time for adding all before the first is due: measured by what a hundredth of them takes.
    ahead = 2 + options.count / 1000
    cpu, commands, filled = server.usage()
    begin = (time.time() + ahead) * 1000
    add(peer, server.port, options.count, begin, options.rate)
    in_time = time.time() * 1000 < begin
    _, _, full = server.usage()
    bytes_each = (full - empty) / (options.pending + options.count)
    worker = Worker(peer, server.port, options.count)
    started.callback(worker.kill)
    patient(lambda: len(worker.lags) >= options.count, SECONDS + options.count / options.rate + ahead)
    # Until the last has been ended as well.
    patient(lambda: worker.process.poll() is not None, 1)
    after, count, _ = server.usage()
    came = max(1, len(worker.lags))
    return [f"{came:,}{'' if in_time else ' (adding took longer)'}", *lateness(worker.lags),
            f"{(count - commands) / came:.1f}", f"{(after - cpu) / came * 1e6:.0f}", f"{bytes_each:.0f}"]


def killed(peer, server, options, started):
    """Return after how long a killed worker's job is taken again."""
    lease = {"LEASE_MS": str(LEASE_MS), "LEASE_S": str(LEASE_MS // 1000)}
    add(peer, server.port, 1, time.time() * 1000, 1, **lease)
    first = Worker(peer, server.port, 1, HOLD="1", **lease)
    started.callback(first.kill)
    assert patient(lambda: first.lags, SECONDS), f"{peer.name}: the first worker got no job"
    second = Worker(peer, server.port, 1, **lease)
    started.callback(second.kill)
    time.sleep(1)		# it is there, and waits
    first.kill()
    at = time.time()
    came = patient(lambda: second.lags, options.killed)
    return [f"{second.times[0] - at:.1f}" if came else f"not in {options.killed}"]


def measure(part, peer, directory, options):
    """Return the columns of a part, on a server of its own; nothing that it starts is left."""
    with contextlib.ExitStack() as started:
        server = peer.server(directory / part.__name__, peer.name == "htw")
        started.callback(server.end)
        return part(peer, server, options, started)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--module", default="build/redis/htw.so", type=Path)
    parser.add_argument("--count", default=20_000, type=int)
    parser.add_argument("--pending", default=0, type=int)
    parser.add_argument("--rate", default=2000, type=int)
    parser.add_argument("--killed", default=120, type=int, help="wait so many seconds for a killed worker's job")
    parser.add_argument("peer", nargs="*")
    options = parser.parse_args()
    servers.MODULE = options.module.resolve()
    # What was started is ended then, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))

    print(f"{options.count:,} jobs, {options.rate:,} a second, with {options.pending:,} more that are due in an hour\n")
    print("| | came | late p50 | p99 | longest | commands | CPU | bytes | killed |")
    print("| --- |" + " ---: |" * 8, flush=True)
    with tempfile.TemporaryDirectory() as directory:
        for peer in PEERS_OF:
            if options.peer and peer.name not in options.peer:
                continue
            if peer.missing:
                print(f"| {peer.name} | {peer.missing} |", flush=True)
                continue
            if peer.name == "BullMQ":
                shutil.copy(PEERS / "bullmq.mjs", BULLMQ_PROGRAM)
            columns = [column for part in (load, killed)
                       for column in measure(part, peer, Path(directory) / peer.name, options)]
            print(f"| {peer.name} | " + " | ".join(columns) + " |", flush=True)


if __name__ == "__main__":
    main()
