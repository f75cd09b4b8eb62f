# SPDX-License-Identifier: MIT
"""Start servers with the module, alone and together, and ask them."""

import contextlib
import os
import random
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

import redis

# In what a failed test waits for: nothing that passes takes this long, however busy the machine.
PATIENCE = 120

MODULE = Path(os.environ.get("HTW_REDIS_MODULE", "htw.so")).resolve()
# Debian's redis-tools has the server, under the name of a tool; it acts by the name it is run as.
PROGRAM = os.environ.get("HTW_REDIS_PROGRAM", "/usr/bin/redis-check-rdb")
NAME = os.environ.get("HTW_REDIS_NAME", "redis-server")
# A root directory with another distribution's server in it, or "".
ROOT = os.environ.get("HTW_REDIS_ROOT", "")

_ports = set()


def free_port():
    """
    Return a TCP port that nobody uses; nor the one of its cluster bus.

    Both are below those that the kernel gives to clients, as one of them could have the port while
    a server is restarted.
    """
    while True:
        port = random.randrange(10240, 20000)
        if port in _ports:
            continue
        with contextlib.suppress(OSError), socket.socket() as s, socket.socket() as bus:
            s.bind(("127.0.0.1", port))
            bus.bind(("127.0.0.1", port + 10000))
            _ports.add(port)
            return port


def wait(condition, what="a condition"):
    """Wait until a function returns something true, and return that."""
    end = time.monotonic() + PATIENCE
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            raise TimeoutError(f"no {what} within {PATIENCE} s")
        time.sleep(0.005)


def wait_for_aof(r):
    """Wait until an append-only file that is being written anew has been."""
    wait(lambda: not r.info("persistence")["aof_rewrite_in_progress"] and
         not r.info("persistence")["aof_rewrite_scheduled"], "end of the rewrite")


def rewrite_aof(r):
    r.bgrewriteaof()
    wait_for_aof(r)


def pairs(reply):
    """Return a flat list of names and values as a dictionary."""
    return dict(zip(reply[::2], reply[1::2]))


class Server:
    """A server with a directory of its own; data survive a restart as configured."""

    def __init__(self, directory, *options, module=("",), sentinel=False):
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.options = list(options)
        self.module = module
        self.sentinel = sentinel
        self.process = None
        self.log = self.directory / "log"

    def inside(self, path):
        """Return how the server's root directory names a path."""
        return "/" + str(Path(path).relative_to(ROOT)) if ROOT else str(path)

    def command(self):
        arguments = ["--port", str(self.port), "--dir", self.inside(self.directory),
                     "--bind", "127.0.0.1", "--logfile", self.inside(self.log),
                     "--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes"]
        if self.sentinel:
            arguments = [self.inside(self.directory / "sentinel.conf"), "--sentinel", *arguments[:-4]]
        elif self.module is not None:
            # Not into the same file: a child of a server that was killed may still run it.
            (self.directory / "htw.so").unlink(missing_ok=True)
            shutil.copy(MODULE, self.directory / "htw.so")
            arguments += ["--loadmodule", self.inside(self.directory / "htw.so"),
                          *[word for word in self.module if word]]
        return [*arguments, *self.options]

    def launch(self):
        link = self.directory / NAME
        if ROOT:
            command = ["chroot", ROOT, PROGRAM]
        else:
            if not link.exists():
                link.symlink_to(PROGRAM)
            command = [str(link)]
        self.process = subprocess.Popen([*command, *self.command()], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)

    def start(self):
        """Start it and wait until it has loaded its data."""
        self.launch()
        wait(self.is_ready, f"server on port {self.port}: {self.log}")
        return self

    def is_ready(self):
        if self.process.poll() is not None:
            raise ChildProcessError(f"the server ended with {self.process.returncode}:\n{self.text()}")
        with contextlib.suppress(redis.ConnectionError, redis.BusyLoadingError):
            return self.client().ping()
        return False

    def text(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def client(self, **options):
        return redis.Redis(port=self.port, decode_responses=True, socket_timeout=PATIENCE, **options)

    def kill(self):
        """End it at once, as by a crash."""
        if self.process:
            self.process.kill()
            self.process.wait()
        self.process = None

    def stop(self):
        """End it by SHUTDOWN, which saves as configured."""
        with contextlib.suppress(redis.ConnectionError):
            self.client().shutdown()
        self.process.wait(PATIENCE)
        self.process = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *error):
        self.kill()


def at_once(client, *commands):
    """
    Run commands in one transaction, and return their replies.

    Nothing comes due between them, however busy the machine is.
    """
    with client.pipeline(transaction=True) as pipe:
        for command in commands:
            pipe.execute_command(*command)
        return pipe.execute()


class Htw:
    """The module's commands by one connection."""

    def __init__(self, client):
        self.r = client

    def add(self, stream, ms, payload="", *rest):
        return self.r.execute_command("HTW.ADD", stream, ms, payload, *rest)

    def at(self, stream, ms, payload="", *rest):
        return self.r.execute_command("HTW.AT", stream, ms, payload, *rest)

    def cancel(self, stream, *ids):
        return self.r.execute_command("HTW.CANCEL", stream, *ids)

    def mod(self, stream, id_, ms, *rest):
        return self.r.execute_command("HTW.MOD", stream, id_, ms, *rest)

    def info(self, *words):
        reply = self.r.execute_command("HTW.INFO", *words)
        return reply if reply is None else pairs(reply)

    def expire(self, value):
        return self.r.execute_command("HTW.EXPIRE", value)

    def delivered(self, stream, count):
        """Wait for so many entries, and return all as dictionaries, with the time in "at"."""
        wait(lambda: self.r.xlen(stream) >= count, f"{count} entries of {stream}")
        entries = []
        for entry, fields in self.r.xrange(stream):
            fields = dict(fields, at=int(entry.split("-")[0]))
            fields["due"], fields["late"] = int(fields["due"]), int(fields["late"])
            # Never early, and late by what it says.
            assert fields["at"] == fields["due"] + fields["late"] >= fields["due"]
            entries.append(fields)
        return entries

    def now(self):
        seconds, micros = self.r.time()
        return seconds * 1000 + micros // 1000


class Job(NamedTuple):
    """A job that was taken."""

    entry: str
    attempts: int
    fields: dict


class Jobs:
    """The commands for workers on a stream, by one connection."""

    def __init__(self, client, stream="jobs", group="g"):
        self.r = client
        self.stream = stream
        self.group = group

    def take(self, consumer, *words):
        taken = self.r.execute_command("HTW.TAKE", self.stream, self.group, consumer, *words)
        return [Job(entry, attempts, pairs(fields)) for entry, attempts, fields in taken]

    def done(self, *jobs):
        return self.r.execute_command("HTW.DONE", self.stream, self.group, *(job.entry for job in jobs))

    def extend(self, consumer, ms, *jobs):
        return self.r.execute_command("HTW.EXTEND", self.stream, self.group, consumer, ms, *(job.entry for job in jobs))

    def fail(self, consumer, job, *words):
        return self.r.execute_command("HTW.FAIL", self.stream, self.group, consumer, job.entry, *words)

    def set(self, *words):
        return self.r.execute_command("HTW.SET", self.stream, *words)

    def ended(self):
        return pairs(self.r.execute_command("HTW.INFO", self.stream))["ended"]


def link(master, replica):
    """Have a server replicate another one."""
    replica.client().replicaof("127.0.0.1", master.port)
    wait(lambda: replica.client().info("replication").get("master_link_status") == "up", "link")


def in_step(master, *replicas):
    """Wait until the replicas have what the master has written."""
    offset = master.client().info("replication")["master_repl_offset"]
    for replica in replicas:
        wait(lambda r=replica: r.client().info("replication")["slave_repl_offset"] >= offset,
             "replication")


def same(*group):
    """Have servers the same data?"""
    return len({server.client().execute_command("DEBUG", "DIGEST") for server in group}) == 1


def manage(*words):
    """Return what redis-cli says of an operation on a cluster."""
    out = subprocess.run(["redis-cli", "--cluster", *words, "--cluster-yes"], capture_output=True,
                         text=True, check=False)
    assert out.returncode == 0, out.stdout + out.stderr
    return out.stdout


def has_slot(node, slot):
    """Is a slot a node's own, as far as that knows?"""
    me = node.client().execute_command("CLUSTER", "MYID")
    for shard in node.client().execute_command("CLUSTER", "SLOTS"):
        if shard[0] <= slot <= shard[1]:
            return shard[2][2] == me
    return False
