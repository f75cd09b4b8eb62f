# SPDX-License-Identifier: MIT
"""The example workers, each by itself, under kill -9 of some of them now and then."""

import contextlib
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from server import Htw, Jobs, wait

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
DEAD = "dead:{jobs}:jobs"

AOF = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")


def node_modules():
    """Return where ioredis is, or None."""
    for directory in (os.environ.get("HTW_NODE_MODULES", ""), EXAMPLES / "node_modules", "/usr/share/nodejs"):
        if directory and (Path(directory) / "ioredis").is_dir():
            return str(directory)
    return None


class Workers:
    """Processes that are replaced when they are killed."""

    def __init__(self, command, server, log, count):
        self.command = [*command, "--url", f"redis://127.0.0.1:{server.port}", "--jobs", "3", "--lease", "2000"]
        self.log = log
        self.all = [self.start() for _ in range(count)]
        self.killed = set()

    def start(self):
        # A session of its own, so that its work dies with it.
        with open(self.log, "ab") as log:
            return subprocess.Popen(self.command, stdout=log, stderr=log, start_new_session=True)

    def kill_one(self):
        n = random.randrange(len(self.all))
        self.killed.add(str(self.all[n].pid))
        self.end(self.all[n])
        self.all[n] = self.start()

    @staticmethod
    def end(process):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self):
        """Have all stop by themselves."""
        for process in self.all:
            process.terminate()
        return [process.wait(60) for process in self.all]

    def kill(self):
        for process in self.all:
            self.end(process)


def node(monkeypatch, *modules):
    """Let programs for node find modules of npm, or skip the test."""
    if not node_modules():
        pytest.skip("no ioredis: set HTW_NODE_MODULES to the directory where npm has installed it")
    for module in modules:
        if not (Path(node_modules()) / module).is_dir():
            pytest.skip(f"no {module} in {node_modules()}")
    monkeypatch.setenv("NODE_PATH", node_modules())


@pytest.fixture(params=["worker.py", "worker.mjs", "worker.go"])
def command(request, monkeypatch, tmp_path):
    if request.param.endswith(".py"):
        return [str(EXAMPLES / request.param)]
    if request.param.endswith(".go"):
        # Debian's packages of Go are sources, and no modules.
        monkeypatch.setenv("GO111MODULE", "off")
        monkeypatch.setenv("GOPATH", "/usr/share/gocode")
        subprocess.run(["go", "vet", EXAMPLES / request.param], check=True)
        subprocess.run(["go", "build", "-o", tmp_path / "worker", EXAMPLES / request.param], check=True)
        return [str(tmp_path / "worker")]
    node(monkeypatch)
    return ["node", str(EXAMPLES / request.param)]


def test_workers(servers, tmp_path, command):
    """
    Each job is done at least once, and none twice but those whose worker was killed; those that fail are tried again and
    given up; one that takes longer than its lease is extended; and workers that are asked to stop finish what they have.
    """
    server = servers.start(*AOF)
    htw, jobs = Htw(server.client()), Jobs(server.client(), group="workers")
    jobs.set("BACKOFF", 30, "CEILING", 60)
    done = tmp_path / "done"
    # One write of a line is one piece, whoever else writes.
    for n in range(150):
        htw.add("jobs", n * 10, f"sleep {n % 5 * 0.02}; echo job-{n} $PPID >> {done}")
    htw.add("jobs", 0, f"sleep 5; echo long $PPID >> {done}")
    htw.add("jobs", 0, f"test $ATTEMPT -ge 2 && echo second $PPID >> {done}")
    workers = Workers(command, server, tmp_path / "log", 3)
    try:
        for _ in range(6):
            time.sleep(random.uniform(0.1, 0.4))
            workers.kill_one()
        # It is done by the three that live from now on.
        wait(lambda: not htw.info("jobs")["pending"] and not jobs.r.xlen("jobs"), f"end of all jobs: {tmp_path / 'log'}")
        # Not before: an attempt that is killed counts as well.
        jobs.set("TRIES", 3)
        htw.add("jobs", 0, "exit 7")
        [[_, dead]] = wait(lambda: jobs.r.xrange(DEAD), "dead job")
        assert dead["payload"] == "exit 7" and dead["dead-error"] == "exit status 7" and dead["dead-attempts"] == "3"
        htw.add("jobs", 0, f"sleep 0.5; echo last $PPID >> {done}")
        wait(lambda: htw.info("jobs")["leased"] == 1, "last job")
        assert workers.stop() == [0, 0, 0]
    finally:
        workers.kill()
    by = {}
    for line in done.read_text().splitlines():
        name, pid = line.split()
        by.setdefault(name, []).append(pid)
    assert set(by) == {"long", "second", "last"} | {f"job-{n}" for n in range(150)}
    # Whoever has done what another did again was killed before he said so.
    assert {pid for pids in by.values() for pid in pids[:-1]} <= workers.killed
    assert htw.info()["timers"] == 0 and jobs.r.xpending("jobs", "workers")["pending"] == 0


def test_worker_stays(servers, tmp_path, command):
    """It goes on after a payload that is no text, a restart, and when its server was a replica; and can be stopped then."""
    server = servers.start(*AOF)
    htw, jobs = Htw(server.client()), Jobs(server.client(), group="workers")
    jobs.set("TRIES", 1)
    done = tmp_path / "done"
    workers = Workers(command, server, tmp_path / "log", 1)

    def comes(name):
        Htw(server.client()).add("jobs", 0, f"echo {name} >> {done}")
        wait(lambda: done.exists() and name in done.read_text().split(), f"{name}: {tmp_path / 'log'}")

    try:
        htw.add("jobs", 0, b"\xff\xfe")
        wait(lambda: jobs.r.xlen(DEAD) == 1, "dead job")
        comes("first")
        server.kill()
        server.start()
        comes("restarted")
        client = server.client()
        wait(lambda: client.info("clients")["blocked_clients"] == 3, "workers that wait")
        client.replicaof("127.0.0.1", "1")
        wait(lambda: any(word in (tmp_path / "log").read_bytes() for word in (b"READONLY", b"read only", b"UNBLOCKED")),
             "word of the replica")
        client.replicaof("NO", "ONE")
        comes("promoted")
        # It has said so: what it has done it would say as long as it takes.
        wait(lambda: not server.client().xlen("jobs"), "end of all jobs")
        server.kill()
        assert workers.stop() == [0]
    finally:
        workers.kill()


@pytest.mark.parametrize("program", ["cron.py", "cron.mjs"])
def test_calendar(servers, tmp_path, monkeypatch, program):
    """Each time comes once, however often the calendar is started, and while workers are killed."""
    if program.endswith(".mjs"):
        node(monkeypatch, "cron-parser")
    server = servers.start(*AOF)
    htw, jobs = Htw(server.client()), Jobs(server.client(), group="workers")
    jobs.set("BACKOFF", 30, "CEILING", 30)
    # As another group has not done them, entries stay.
    jobs.r.xgroup_create("jobs", "watch", "0", mkstream=True)
    done = tmp_path / "done"
    command = f"test $ATTEMPT -ge 2 && echo done >> {done}"
    for _ in range(2):
        subprocess.run([EXAMPLES / program, "--url", f"redis://127.0.0.1:{server.port}", "it's", "* * * * * *",
                        "America/New_York", command], check=True)
    workers = Workers([str(EXAMPLES / "worker.py")], server, tmp_path / "log", 2)
    try:
        for _ in range(3):
            time.sleep(random.uniform(0.5, 1))
            workers.kill_one()
        wait(lambda: done.exists() and len(done.read_text().split()) >= 4, f"four seconds: {tmp_path / 'log'}")
    finally:
        workers.kill()
    ids = [fields["id"] for _, fields in jobs.r.xrange("jobs")]
    assert len(set(ids)) == len(ids) >= 4 and all(id_.startswith("it's@20") for id_ in ids)
