# SPDX-License-Identifier: MIT
"""Leases on replicas, at a failover, and in a cluster."""

import threading

import pytest
import redis
from server import Htw, Jobs, has_slot, in_step, link, same, wait

HOUR = 3600 * 1000
QUEUE = "htw:{jobs}:jobs"


def blocked(client, jobs, *words):
    """Start a worker that waits. Return its thread, and what it gets or the error."""
    got = []

    def work():
        try:
            got.extend(jobs.take("waiting", "BLOCK", 0, *words))
        except redis.RedisError as error:
            got.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    wait(lambda: client.info("clients")["blocked_clients"] == 1, "worker")
    return thread, got


def test_replica(pair):
    """All that workers do is done on the replica, which ends no lease."""
    master, replica = pair
    r, jobs = master.client(), Jobs(master.client())
    jobs.set("TRIES", 3, "MAXLEN", 1000)
    for n in range(20):
        r.xadd("jobs", {"n": n})
    taken = jobs.take("one", "COUNT", 12, "LEASE", 50)
    wait(lambda: jobs.ended() == 12, "end of the leases")
    taken = jobs.take("two", "COUNT", 10, "LEASE", HOUR)
    jobs.done(*taken[:3])
    jobs.fail("two", taken[3], "RETRY", HOUR, "ERROR", "no room")
    jobs.fail("two", taken[4], "DEAD", "ERROR", "no time")
    jobs.extend("two", 2 * HOUR, taken[5])
    jobs.extend("two", 0, taken[6], taken[7])
    wait(lambda: jobs.ended() == 4, "end of the leases")
    r.xdel("jobs", taken[6].entry)
    assert len(jobs.take("three", "COUNT", 3, "LEASE", HOUR)) == 3
    in_step(master, replica)
    assert same(master, replica)
    copy = Htw(replica.client())
    assert copy.info()["timers"] == 0 and copy.info("jobs")["leased"] == Htw(r).info("jobs")["leased"] > 0
    for words in (("TAKE", "jobs", "g", "c"), ("DONE", "jobs", "g", "1-1"), ("SET", "jobs", "PAUSED", 1)):
        with pytest.raises(redis.ReadOnlyError):
            copy.r.execute_command("HTW." + words[0], *words[1:])
    assert len(copy.r.execute_command("HTW.LIST", "jobs", "LEASED", "g")[1]) > 0


def test_over_for_who_waits(pair):
    """Who waits when a job proves to be over goes on waiting, and the replica does it as well."""
    master, replica = pair
    r, jobs = master.client(), Jobs(master.client())
    r.xadd("jobs", {"a": "b"})
    [job] = jobs.take("one", "LEASE", HOUR)
    r.xadd("jobs", {"a": "c"})
    jobs.take("one", "LEASE", HOUR)
    thread, got = blocked(r, Jobs(master.client()))
    with r.pipeline() as both:
        both.execute_command("HTW.EXTEND", "jobs", "g", "one", 0, job.entry)
        both.xdel("jobs", job.entry)
        assert both.execute() == [1, 1]
    wait(lambda: r.xpending("jobs", "g")["pending"] == 1, "end of what is over")
    in_step(master, replica)
    assert same(master, replica) and thread.is_alive()
    entry = r.xadd("jobs", {"a": "d"})
    thread.join(60)
    assert [job.entry for job in got] == [entry]
    in_step(master, replica)
    assert same(master, replica) and r.xpending("jobs", "g")["pending"] == 2


def test_promotion(pair):
    """After the master's crash the promoted replica ends the leases, none before its time."""
    master, replica = pair
    r, jobs = master.client(), Jobs(master.client())
    entries = [r.xadd("jobs", {"n": n}) for n in range(100)]
    end = Htw(r).now() + 1500
    assert len(jobs.take("one", "COUNT", 100, "LEASE", 1500)) == 100
    assert jobs.r.wait(1, 60000) == 1
    master.kill()
    promoted = Jobs(replica.client())
    promoted.r.replicaof("NO", "ONE")
    got = []
    while len(got) < 100:
        got += promoted.take("two", "COUNT", 100, "BLOCK", 0)
        assert Htw(promoted.r).now() >= end
    assert sorted(job.entry for job in got) == sorted(entries) and {job.attempts for job in got} == {2}
    assert promoted.done(*got) == 100


def test_demotion(pair):
    """A master that becomes a replica ends no lease, and who waits there is told so."""
    master, replica = pair
    r, jobs = master.client(), Jobs(master.client())
    r.xadd("jobs", {"a": "b"})
    [job] = jobs.take("one", "LEASE", HOUR)
    thread, got = blocked(r, Jobs(master.client()))
    assert jobs.r.wait(1, 60000) == 1
    replica.client().replicaof("NO", "ONE")
    link(replica, master)
    thread.join()
    assert len(got) == 1 and "UNBLOCKED" in got[0]
    assert Htw(r).info()["timers"] == 0
    promoted = Jobs(replica.client())
    assert Htw(promoted.r).info()["timers"] == 1
    assert promoted.extend("one", 0, job) == 1
    assert promoted.take("two", "BLOCK", 0)[0][:2] == (job.entry, 2)


def test_too_few_replicas(pair):
    """A job that is given up waits while this server may not write."""
    master, _ = pair
    r, jobs = master.client(), Jobs(master.client())
    jobs.set("TRIES", 1)
    r.xadd("jobs", {"a": "b"})
    jobs.take("one", "LEASE", 1500)
    r.config_set("min-replicas-to-write", 5)
    with pytest.raises(redis.ResponseError, match="NOREPLICAS"):
        jobs.take("one")
    end = Htw(r).now() + 1700
    wait(lambda: Htw(r).now() > end)
    assert r.xlen("jobs") == 1 and not r.exists("dead:{jobs}:jobs")
    r.config_set("min-replicas-to-write", 0)
    wait(lambda: r.xlen("dead:{jobs}:jobs") == 1, "dead job")
    assert r.xlen("jobs") == 0


def test_slot_moves(cluster):
    """Leases move with their slot, and end at the new node; in between nobody says what may be wrong."""
    client = redis.RedisCluster(host="127.0.0.1", port=cluster[0].port, decode_responses=True)
    slot = client.keyslot("jobs")
    source = next(n for n in cluster if has_slot(n, slot))
    target = next(n for n in cluster if n is not source)
    jobs = Jobs(source.client())
    for n in range(3):
        jobs.r.xadd("jobs", {"n": n})
    taken = jobs.take("one", "COUNT", 3, "LEASE", HOUR)
    thread, got = blocked(source.client(), Jobs(source.client()))
    ids = {n: n.client().execute_command("CLUSTER", "MYID") for n in cluster}
    target.client().execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source])
    source.client().execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target])
    for key in (QUEUE, "jobs"):
        source.client().migrate("127.0.0.1", target.port, [key], 0, 60000)
        for words in (("TAKE", "c"), ("DONE", taken[0].entry), ("EXTEND", "one", 1, taken[0].entry),
                      ("FAIL", "one", taken[0].entry)):
            with pytest.raises(redis.ResponseError, match="TRYAGAIN|ASK"):
                source.client().execute_command("HTW." + words[0], "jobs", "g", *words[1:])
    for node in (target, source, *cluster):
        node.client().execute_command("CLUSTER", "SETSLOT", slot, "NODE", ids[target])
    thread.join()
    assert len(got) == 1 and "MOVED" in got[0]
    moved = Jobs(target.client())
    assert moved.extend("one", 0, taken[1]) == 1
    [job] = moved.take("two", "BLOCK", 0)
    assert (job.entry, job.attempts) == (taken[1].entry, 2)
    assert moved.done(*taken) == 3
    assert Htw(target.client()).info()["timers"] == Htw(source.client()).info()["timers"] == 0


def test_ttl_of_the_queue_of_who_waits(pair):
    """A queue that expires as a waiting worker is served has expired on the replica as well."""
    master, replica = pair
    r, jobs = master.client(), Jobs(master.client())
    r.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", "0")
    jobs.set("LEASE", HOUR)
    thread, got = blocked(r, Jobs(master.client()))
    r.pexpire(QUEUE, 1)
    until = Htw(r).now() + 20
    wait(lambda: Htw(r).now() > until)
    r.xadd("jobs", {"a": "b"})
    thread.join(60)
    assert len(got) == 1
    in_step(master, replica)
    assert same(master, replica)
    replica.client().replicaof("NO", "ONE")
    assert Htw(replica.client()).info("jobs")["leased"] == 1


def test_group_on_the_replica(pair):
    """The replica knows as well as the master what the group has read, also where that is unknown."""
    master, replica = pair
    r, jobs = master.client(), Jobs(master.client())
    entries = [r.xadd("jobs", {"n": n}) for n in range(4)]
    jobs.take("one")
    r.xdel("jobs", entries[2])
    jobs.take("one")
    in_step(master, replica)
    assert r.xinfo_groups("jobs") == replica.client().xinfo_groups("jobs")


def test_dead_job_while_its_slot_moves(cluster):
    """What is given up and may be at the other node is to be tried again, and is appended afterwards."""
    slot = redis.RedisCluster(host="127.0.0.1", port=cluster[0].port).keyslot("jobs")
    source = next(n for n in cluster if has_slot(n, slot))
    target = next(n for n in cluster if n is not source)
    jobs = Jobs(source.client())
    jobs.r.xadd("jobs", {"a": "b"})
    [job] = jobs.take("one", "LEASE", HOUR)
    there = target.client().execute_command("CLUSTER", "MYID")
    jobs.r.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", there)
    with pytest.raises(redis.ResponseError, match="TRYAGAIN"):
        jobs.fail("one", job, "DEAD", "ERROR", "no room")
    jobs.r.execute_command("CLUSTER", "SETSLOT", slot, "STABLE")
    wait(lambda: jobs.r.xlen("dead:{jobs}:jobs") == 1, "dead job")
