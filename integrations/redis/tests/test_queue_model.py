# SPDX-License-Identifier: MIT
"""Random commands on a queue, beside a model of it; and workers that die, on servers that are killed."""

import contextlib
import random
import threading
import time

import pytest
import redis
from server import Htw, Jobs, pairs, wait, wait_for_aof

HOUR = 3600 * 1000
QUEUE = "htw:{jobs}:jobs"
DEAD = "dead:{jobs}:jobs"
CONSUMERS = ["one", "two", "three"]

AOF = ("--appendonly", "yes", "--appendfsync", "always", "--save", "", "--auto-aof-rewrite-percentage", "1",
       "--auto-aof-rewrite-min-size", "50kb")


def key(entry):
    return tuple(int(part) for part in entry.split("-"))


class Model:
    """What docs/queue.md says of one group, with leases that end only when they are told to."""

    def __init__(self):
        self.entries = {}
        self.is_there = False   # the stream, if only an empty one
        self.last = None        # of the group; None: there is no group
        self.pending = {}       # entry: [consumer, attempts]
        self.leases = {}        # entry: leased, failed or ended
        self.failed = {}        # entry: attempts when it failed, until it is taken
        self.ended = []
        self.dead = []
        self.attempts = 0

    def forget(self, entry):
        self.failed.pop(entry, None)
        if self.leases.pop(entry, None) == "ended":
            self.ended.remove(entry)

    def lease(self, entry, state):
        failed = self.pending[entry][1] if state == "failed" else self.failed.get(entry)
        self.forget(entry)
        self.leases[entry] = state
        if failed and state != "leased":
            self.failed[entry] = failed
        if state == "ended":
            self.ended.append(entry)

    def finish(self, entry):
        if self.last is None or entry not in self.pending:
            return 0
        del self.pending[entry]
        self.entries.pop(entry, None)
        return 1

    def bury(self, entry):
        self.dead.append(self.entries[entry])
        self.finish(entry)
        self.forget(entry)

    def is_last(self, entry):
        return self.attempts and self.pending[entry][1] >= self.attempts

    def ends_as_over(self, entry):
        """Is a job over? Then it has no lease more, nor the group one that was deleted."""
        if entry in self.pending and entry in self.entries:
            return False
        self.pending.pop(entry, None)
        self.forget(entry)
        return True

    def expire(self, entry):
        """The timer of a lease has expired."""
        if self.ends_as_over(entry):
            return
        if self.is_last(entry):
            self.bury(entry)
        else:
            self.lease(entry, "ended")

    def add(self, entry, number):
        self.entries[entry] = number
        self.is_there = True

    def take(self, consumer, count):
        taken = []
        while self.ended and len(taken) < count:
            entry = self.ended[0]
            if self.ends_as_over(entry):
                continue
            self.pending[entry] = [consumer, self.pending[entry][1] + 1]
            self.lease(entry, "leased")
            taken.append((entry, self.pending[entry][1], self.entries[entry]))
        if len(taken) == count:
            return taken
        if not self.is_there:
            return taken
        if self.last is None:
            self.last = (0, 0)
        for entry in sorted((e for e in self.entries if key(e) > self.last), key=key)[:count - len(taken)]:
            self.last = key(entry)
            self.pending[entry] = [consumer, 1]
            self.lease(entry, "leased")
            taken.append((entry, 1, self.entries[entry]))
        return taken

    def done(self, entry):
        count = self.finish(entry)
        self.forget(entry)
        return count

    def is_of(self, consumer, entry):
        return entry in self.pending and self.pending[entry][0] == consumer

    def extend(self, consumer, entry):
        if not self.is_of(consumer, entry) or entry not in self.entries:
            return 0
        if self.failed.get(entry) == self.pending[entry][1]:
            return 0
        self.lease(entry, "leased")
        return 1

    def fail(self, consumer, entry, is_dead, retry):
        if not self.is_of(consumer, entry) or entry not in self.entries:
            return None
        if is_dead or self.is_last(entry):
            self.bury(entry)
            return -1
        self.lease(entry, "failed")
        return retry

    def claim(self, consumer, entry):
        if entry in self.pending and entry not in self.entries:
            del self.pending[entry]
        elif entry in self.pending:
            self.pending[entry] = [consumer, self.pending[entry][1] + 1]

    def destroy(self):
        self.last = None
        self.pending.clear()

    def restart(self):
        """What had ended ends again."""
        for entry in list(self.ended):
            self.expire(entry)


class Pair:
    """A server and the model, which get the same commands."""

    def __init__(self, server, seed):
        self.server = server
        self.random = random.Random(seed)
        self.model = Model()
        self.number = 0
        self.connect()

    def connect(self):
        self.r = self.server.client()
        self.jobs = Jobs(self.r)

    def entry(self):
        """An entry to try: mostly one that is taken."""
        from_ = self.random.choice([self.model.pending, self.model.pending, self.model.leases, self.model.entries])
        return self.random.choice([*from_, "1-1"])

    def consumer(self, entry):
        return self.random.choice([self.model.pending.get(entry, CONSUMERS)[0], *CONSUMERS])

    def add(self):
        for _ in range(self.random.randrange(1, 6)):
            self.number += 1
            self.model.add(self.r.xadd("jobs", {"n": self.number}), self.number)

    def take(self, count=None):
        count = count or self.random.choice([1, 1, 2, 10])
        consumer = self.random.choice(CONSUMERS)
        got = self.jobs.take(consumer, "COUNT", count, "LEASE", HOUR)
        return [(job.entry, job.attempts, int(job.fields["n"])) for job in got], self.model.take(consumer, count)

    def compare_take(self):
        got, expected = self.take()
        assert got == expected

    def done(self):
        entry = self.entry()
        assert self.r.execute_command("HTW.DONE", "jobs", "g", entry) == self.model.done(entry)

    def end(self):
        entry = self.entry()
        consumer = self.consumer(entry)
        got = self.r.execute_command("HTW.EXTEND", "jobs", "g", consumer, 0, entry)
        assert got == self.model.extend(consumer, entry)
        if got:
            self.model.expire(entry)

    def extend(self):
        entry = self.entry()
        consumer = self.consumer(entry)
        got = self.r.execute_command("HTW.EXTEND", "jobs", "g", consumer, HOUR, entry)
        assert got == self.model.extend(consumer, entry)

    def fail(self):
        entry = self.entry()
        consumer, is_dead = self.consumer(entry), self.random.random() < 0.2
        retry = self.random.choice([0, HOUR])
        words = ["DEAD"] if is_dead else ["RETRY", retry]
        got = self.r.execute_command("HTW.FAIL", "jobs", "g", consumer, entry, *words, "ERROR", "text")
        assert got == self.model.fail(consumer, entry, is_dead, retry)
        if got == 0:
            self.model.expire(entry)

    def delete(self):
        entry = self.entry()
        self.r.xdel("jobs", entry)
        self.model.entries.pop(entry, None)

    def acknowledge(self):
        entry = self.entry()
        self.r.xack("jobs", "g", entry)
        if self.model.last is not None:
            self.model.pending.pop(entry, None)

    def claim(self):
        entry, consumer = self.entry(), self.random.choice(CONSUMERS)
        if self.model.last is None:
            return
        self.r.xclaim("jobs", "g", consumer, 0, [entry])
        self.model.claim(consumer, entry)

    def destroy(self):
        if self.model.last is not None:
            self.r.xgroup_destroy("jobs", "g")
        self.model.destroy()

    def drop(self):
        self.r.delete("jobs")
        self.model.entries.clear()
        self.model.is_there = False
        self.model.destroy()

    def attempts(self):
        self.model.attempts = self.random.choice([0, 0, 2, 3])
        self.jobs.set("TRIES", self.model.attempts)

    def retry(self):
        dead = self.r.xrange(DEAD)
        if not dead:
            return
        entry, fields = self.random.choice(dead)
        before = set(self.model.entries)
        assert self.r.execute_command("HTW.RETRY", "jobs", entry) == 1
        [new] = [e for e, _ in self.r.xrange("jobs") if e not in before]
        self.model.add(new, int(fields["n"]))
        self.model.dead.remove(int(fields["n"]))

    def restart(self):
        how = self.random.choice(["kill", "reload", "rewrite"])
        if how == "reload":
            self.r.execute_command("DEBUG", "RELOAD")
        else:
            if how == "rewrite":
                self.r.config_set("aof-use-rdb-preamble", self.random.choice(["yes", "no"]))
                with contextlib.suppress(redis.ResponseError):
                    self.r.bgrewriteaof()
                wait_for_aof(self.r)
            self.server.kill()
            self.server.start()
            self.connect()
        # The server's own rewrite with commands leaves out what is pending of entries that are deleted.
        kept = self.rows()
        for entry in [e for e in self.model.pending if e not in self.model.entries and e not in kept]:
            del self.model.pending[entry]
        self.model.restart()
        self.compare()
        # In the order of their ends; several may have ended within a ms.
        got, expected = self.take(10000)
        assert sorted(got) == sorted(expected)

    def rows(self):
        rows = self.r.xpending_range("jobs", "g", "-", "+", 10000) if self.model.last is not None else []
        return {row["message_id"]: [row["consumer"], row["times_delivered"]] for row in rows}

    def is_settled(self):
        info = pairs(self.r.execute_command("HTW.INFO", "jobs"))
        return info["ended"] == len(self.model.ended) and info["leased"] == len(self.model.leases)

    def compare(self):
        wait(self.is_settled, f"settling: {self.model.__dict__}")
        assert self.rows() == self.model.pending
        assert {entry: int(fields["n"]) for entry, fields in self.r.xrange("jobs")} == self.model.entries
        assert sorted(int(fields["n"]) for _, fields in self.r.xrange(DEAD)) == sorted(self.model.dead)


STEPS = {"add": 20, "compare_take": 25, "done": 15, "end": 20, "extend": 5, "fail": 10, "delete": 3, "acknowledge": 4,
         "claim": 4, "destroy": 0.4, "drop": 0.4, "attempts": 1, "retry": 2, "restart": 0.7}


@pytest.mark.parametrize("seed", [23089, *(random.randrange(10**6) for _ in range(3))])
def test_model(servers, seed):
    pair = Pair(servers.start(*AOF), seed)
    replica = servers.start("--save", "", "--replicaof", "127.0.0.1", str(pair.server.port))
    for _ in range(700):
        [step] = pair.random.choices(list(STEPS), list(STEPS.values()))
        getattr(pair, step)()
        pair.compare()
    wait(lambda: pair.r.info("replication")["connected_slaves"] == 1, "replica")
    wait(lambda: replica.client().info("replication").get("master_link_status") == "up", "link")
    pair.add()
    assert pair.r.wait(1, 60000) == 1
    assert replica.client().execute_command("DEBUG", "DIGEST") == pair.r.execute_command("DEBUG", "DIGEST")
    assert Htw(replica.client()).info()["timers"] == 0


class Load:
    """Workers that do what they like, and what is known of each job by its number."""

    def __init__(self, server):
        self.server = server
        self.lock = threading.Lock()
        self.serial = 0
        # Of those that are unsure the reply to HTW.DONE is lost.
        self.added, self.done, self.unsure = set(), {}, set()
        # By number and attempt: when it was asked for and had, and when the next may be had at the earliest.
        self.taken, self.free = {}, {}
        self.wrong = []

    def had(self, job, asked):
        job.fields.setdefault("n", job.fields.get("payload"))
        attempt = job.fields["n"], job.attempts
        with self.lock:
            if attempt in self.taken:
                self.wrong.append(f"{job} was taken twice")
            if self.done.get(job.fields["n"], asked) < asked:
                self.wrong.append(f"{job} was done")
            self.taken[attempt] = time.time() * 1000
        return attempt

    def check(self):
        """Replies may be read late, so only what a reply says counts, and when it was there at the latest."""
        for (number, attempt), now in self.taken.items():
            early = self.free.get((number, attempt - 1), 0) - now
            if early > 0:
                self.wrong.append(f"{number} had attempt {attempt} {early} ms too early")
        assert not self.wrong, "\n".join(self.wrong[:30])

    def is_safe(self, _client):
        """Is what this client has been told what it will find, whatever happens?"""
        return True

    def finish(self):
        """All the rest is done by who lives, and then nothing is left or missing."""
        jobs, htw = Jobs(self.server.client()), Htw(self.server.client())
        while jobs.r.xlen("jobs") or htw.info("jobs")["pending"]:
            asked = time.time() * 1000
            for job in jobs.take("last", "COUNT", 100, "BLOCK", 100):
                number, _ = self.had(job, asked)
                assert jobs.done(job) == 1
                self.done[number] = time.time() * 1000
        assert htw.info()["timers"] == 0
        assert self.added <= set(self.done) | self.unsure

    def work(self, name, stop):
        jobs, htw = Jobs(self.server.client()), Htw(self.server.client())
        with contextlib.suppress(redis.ConnectionError):
            while not stop.is_set():
                self.turn(name, jobs, htw)

    def turn(self, name, jobs, htw):
        if random.random() < 0.4:
            with self.lock:
                self.serial += 1
                number = str(self.serial)
            if random.random() < 0.5:
                jobs.r.xadd("jobs", {"n": number})
            else:
                jobs.r.execute_command("HTW.ADD", "jobs", random.choice([0, 5, 50]), number, "ID", number)
            if self.is_safe(jobs.r):
                self.added.add(number)
        lease = random.choice([20, 60, 200])
        # Both clocks are this machine's.
        asked = int(time.time() * 1000)
        for job in jobs.take(name, "COUNT", random.choice([1, 3]), "LEASE", lease, "BLOCK", 50):
            attempt = self.had(job, asked)
            fate = random.random()
            now = int(time.time() * 1000)
            if fate < 0.5:
                self.unsure.add(attempt[0])
                if jobs.done(job) and self.is_safe(jobs.r):
                    self.done[attempt[0]] = time.time() * 1000
            elif fate < 0.65:
                ms = random.choice([0, 30])
                if jobs.fail(name, job, "RETRY", ms) is not None:
                    self.free[attempt] = now + ms
            elif fate < 0.75:
                # It may be that the lease had ended, and that the job is another's by now.
                self.free[attempt] = now + 100 if jobs.extend(name, 100, job) else asked + lease
            else:
                self.free[attempt] = asked + lease


def test_kill_under_load(servers):
    """
    With appendfsync always, whenever the server is killed: no job is lost; none comes again after it was done, nor
    before its lease has ended; and each attempt is counted.
    """
    server = servers.start(*AOF)
    load = Load(server)
    for _ in range(5):
        stop = threading.Event()
        threads = [threading.Thread(target=load.work, args=(f"w{n}", stop)) for n in range(4)]
        before = len(load.done)
        for thread in threads:
            thread.start()
        wait(lambda: len(load.done) > before + random.randrange(100, 500), "load")
        server.kill()
        stop.set()
        for thread in threads:
            thread.join()
        server.start()
    load.finish()
    load.check()
    assert len(load.done) > 500
