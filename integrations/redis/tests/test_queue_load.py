# SPDX-License-Identifier: MIT
"""Workers at work while masters crash, and while slots move from node to node."""

import collections
import random
import threading
import time

import redis
from redis.exceptions import TryAgainError
from server import PATIENCE, Htw, has_slot, link, pairs, wait
from test_queue_model import Load

HOUR = 3600 * 1000


class Confirmed(Load):
    """What counts is what a replica has confirmed: the rest may be lost with its master."""

    def is_safe(self, client):
        return client.wait(1, PATIENCE * 1000) == 1

    def had(self, job, asked):
        """An attempt that only the dead master knew of is made again."""
        attempt = job.fields.get("n", job.fields.get("payload")), job.attempts
        with self.lock:
            if self.done.get(attempt[0], asked) < asked:
                self.wrong.append(f"{job} was done")
        return attempt


def test_masters_crash(servers):
    """Whenever a master crashes: of what WAIT has confirmed no job is lost, and none comes again that was done."""
    master, replica = servers.start("--save", ""), servers.start("--save", "")
    link(master, replica)
    load = Confirmed(master)
    for _ in range(4):
        stop = threading.Event()
        threads = [threading.Thread(target=load.work, args=(f"w{n}", stop)) for n in range(4)]
        before = len(load.done)
        for thread in threads:
            thread.start()
        wait(lambda: len(load.done) > before + random.randrange(50, 200), "load")
        master.kill()
        stop.set()
        for thread in threads:
            thread.join()
        replica.client().replicaof("NO", "ONE")
        master, replica = replica, servers.start("--save", "")
        link(master, replica)
        load.server = master
    load.finish()
    load.check()
    assert len(load.done) > 200


class Moving:
    """Who adds, cancels and works in a cluster, and what each was told."""

    STREAMS = [f"jobs-{n}" for n in range(6)]

    def __init__(self, nodes):
        self.port = nodes[0].port
        self.stop, self.end = threading.Event(), threading.Event()
        self.added, self.cancelled, self.taken = set(), set(), collections.Counter()
        self.wrong = []

    def ask(self, client, *words):
        """Ask until it is not said to be tried again, and nothing has been done."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return client.execute_command(*words)
            except TryAgainError:
                assert time.monotonic() < end, words
                time.sleep(0.001)

    def run(self, work, *arguments):
        client = redis.RedisCluster(host="127.0.0.1", port=self.port, decode_responses=True, socket_timeout=PATIENCE)
        try:
            work(client, *arguments)
        except Exception as error:  # noqa: BLE001
            self.wrong.append(repr(error))

    def add(self, client, first, step):
        for number in range(first, 10**9, step):
            if self.stop.is_set():
                return
            stream = self.STREAMS[number % len(self.STREAMS)]
            # One that is far off is there to be cancelled, wherever it has moved to.
            is_far = number % 3 == 0
            ms = HOUR if is_far else random.choice([0, 5, 50, 200])
            self.ask(client, "HTW.ADD", stream, ms, number, "ID", number)
            self.added.add(str(number))
            if not is_far:
                continue
            if self.ask(client, "HTW.CANCEL", stream, number) != 1:
                self.wrong.append(f"{stream} {number} was not there to be cancelled")
            self.cancelled.add(str(number))

    def work(self, client, name):
        while not self.end.is_set():
            for stream in self.STREAMS:
                for entry, _, fields in self.ask(client, "HTW.TAKE", stream, "g", name, "COUNT", 10, "LEASE", HOUR):
                    self.taken[pairs(fields)["id"]] += 1
                    if self.ask(client, "HTW.DONE", stream, "g", entry) != 1:
                        self.wrong.append(f"{stream} {entry} of {fields} was not there to be done")


def move(nodes, slot):
    """Move a slot to another node, key by key in any order, as redis-cli does."""
    source = next(n for n in nodes if has_slot(n, slot))
    target = random.choice([n for n in nodes if n is not source])
    here, there = source.client(), target.client()
    ids = [n.execute_command("CLUSTER", "MYID") for n in (here, there)]
    there.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
    here.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
    while True:
        keys = here.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 10)
        if not keys:
            break
        here.migrate("127.0.0.1", target.port, [random.choice(keys)], 0, PATIENCE * 1000)
    for node in (target, source, *nodes):
        node.client().execute_command("CLUSTER", "SETSLOT", slot, "NODE", ids[1])


def test_slots_move(cluster):
    """While slots move: each job is cancelled or comes, and that once; what cannot be known is to be asked again."""
    load = Moving(cluster)
    client = redis.RedisCluster(host="127.0.0.1", port=cluster[0].port, decode_responses=True)
    adders = [threading.Thread(target=load.run, args=(load.add, n, 2)) for n in range(2)]
    workers = [threading.Thread(target=load.run, args=(load.work, f"w{n}")) for n in range(3)]
    for thread in adders + workers:
        thread.start()
    try:
        for _ in range(30):
            before = len(load.taken)
            move(cluster, client.keyslot(random.choice(load.STREAMS)))
            wait(lambda: load.wrong or len(load.taken) > before, "work")
        load.stop.set()
        for thread in adders:
            thread.join()
        wait(lambda: load.wrong or len(load.taken) + len(load.cancelled) == len(load.added), "the last jobs")
    finally:
        load.stop.set()
        load.end.set()
        for thread in adders + workers:
            thread.join()
    assert not load.wrong, "\n".join(load.wrong[:30])
    assert set(load.taken) | load.cancelled == load.added and not set(load.taken) & load.cancelled
    assert max(load.taken.values()) == 1
    assert len(load.taken) > 300 and load.cancelled
    refused = [node.client().info("errorstats").get("errorstat_TRYAGAIN") for node in cluster]
    assert any(refused)
    for node in cluster:
        assert Htw(node.client()).info()["timers"] == 0
