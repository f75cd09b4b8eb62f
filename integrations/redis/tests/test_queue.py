# SPDX-License-Identifier: MIT
"""A stream as a queue: leases, attempts, dead jobs, as docs/queue.md has it."""

import threading
import time

import pytest
import redis
from server import Htw, Jobs, at_once, in_step, link, rewrite_aof, same, wait

HOUR = 3600 * 1000
QUEUE = "htw:{jobs}:jobs"
DEAD = "dead:{jobs}:jobs"

AOF = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")
COMMANDS = (*AOF, "--aof-use-rdb-preamble", "no")


@pytest.fixture
def jobs(r):
    return Jobs(r)


def ids(taken):
    return [job.entry for job in taken]


def test_page(r, htw, jobs):
    """The page's first job."""
    htw.add("jobs", 20, "send mail 7", "ID", "a")
    [job] = jobs.take("worker-1", "BLOCK", 0, "LEASE", 30000)
    assert job.attempts == 1 and job.fields["payload"] == "send mail 7" and job.fields["id"] == "a"
    assert jobs.done(job) == 1
    assert jobs.done(job) == 0
    assert not r.exists("jobs") or r.xlen("jobs") == 0
    assert not r.exists(QUEUE) and htw.info()["timers"] == 0


def test_lease_ends(r, htw, jobs):
    """A job that is not done comes again, not before its deadline, to whoever waits."""
    id_ = r.xadd("jobs", {"a": "b"})
    before = htw.now()
    [job] = jobs.take("one", "LEASE", 1000)
    assert job == (id_, 1, {"a": "b"})
    assert jobs.take("two") == []
    assert jobs.take("two", "BLOCK", 0) == [(id_, 2, {"a": "b"})]
    assert htw.now() >= before + 1000
    assert r.xpending_range("jobs", "g", "-", "+", 10)[0]["consumer"] == "two"
    assert r.xpending_range("jobs", "g", "-", "+", 10)[0]["times_delivered"] == 2
    assert jobs.done(job) == 1 and htw.info()["timers"] == 0


def test_order(r, jobs):
    """What has ended comes before what is new, in the order of the deadlines."""
    entries = [r.xadd("jobs", {"n": n}) for n in range(4)]
    with r.pipeline(transaction=True) as pipe:
        for lease in (300, 200, 100):
            pipe.execute_command("HTW.TAKE", "jobs", "g", "one", "LEASE", lease)
        pipe.execute()
    wait(lambda: jobs.ended() == 3, "end of the leases")
    assert ids(jobs.take("two", "COUNT", 10)) == [entries[n] for n in (2, 1, 0, 3)]


def test_extend(r, htw, jobs):
    r.xadd("jobs", {"a": "b"})
    [job] = jobs.take("one", "LEASE", 1000)
    for _ in range(6):
        time.sleep(0.2)
        assert jobs.extend("one", 1000, job) == 1
    before = htw.now()
    assert jobs.extend("two", HOUR, job) == 0
    assert jobs.take("two", "BLOCK", 0)[0].attempts == 2
    assert htw.now() - before >= 100
    # It is another's now.
    assert jobs.extend("one", HOUR, job) == 0
    # A lease of no length gives the job back.
    assert jobs.extend("two", 0, job) == 1
    assert jobs.take("one", "BLOCK", 0)[0].attempts == 3


def test_lease_for_what_was_claimed(r, jobs):
    r.xadd("jobs", {"a": "b"})
    r.xgroup_create("jobs", "g", "0")
    [[_, [[id_, _]]]] = r.xreadgroup("g", "one", {"jobs": ">"})
    assert r.execute_command("HTW.EXTEND", "jobs", "g", "one", 20, id_) == 1
    assert ids(jobs.take("two", "BLOCK", 0)) == [id_]


def test_blocked_workers_share(server, r, jobs):
    """Each job goes to one of those who wait, first come, first served."""
    got, threads = [], []

    def work(name):
        got.extend(Jobs(server.client()).take(name, "BLOCK", 0))

    for n in range(8):
        threads.append(threading.Thread(target=work, args=(f"w{n}",)))
        threads[-1].start()
    wait(lambda: r.info("clients")["blocked_clients"] == 8, "workers")
    entries = [r.xadd("jobs", {"n": n}) for n in range(8)]
    for thread in threads:
        thread.join()
    assert sorted(ids(got)) == sorted(entries)
    assert jobs.done(*got) == 8


def test_block_ends(r, jobs):
    begin = time.monotonic()
    assert jobs.take("one", "BLOCK", 50) == []
    assert time.monotonic() - begin >= 0.05


def test_no_blocking(r, jobs):
    """Not in a transaction, nor in a script."""
    assert at_once(r, ("HTW.TAKE", "jobs", "g", "c", "BLOCK", 0)) == [[]]
    script = "return redis.call('HTW.TAKE', KEYS[1], 'g', 'c', 'BLOCK', 0)"
    assert r.eval(script, 1, "jobs") == []
    id_ = r.xadd("jobs", {"a": "b"})
    assert r.eval(script, 1, "jobs") == [[id_, 1, ["a", "b"]]]
    assert at_once(r, ("HTW.DONE", "jobs", "g", id_), ("HTW.TAKE", "jobs", "g", "c")) == [1, []]


def test_other_groups_keep_the_entry(r, jobs):
    r.xadd("jobs", {"a": "b"})
    [job] = jobs.take("one")
    other = Jobs(r, group="other")
    assert other.take("one") == [job]
    assert jobs.done(job) == 1 and r.xlen("jobs") == 1
    r.xgroup_destroy("jobs", "g")
    assert other.done(job) == 1 and r.xlen("jobs") == 0


def test_done_leaves_what_was_not_delivered(r, jobs):
    r.xadd("jobs", {"a": "b"})
    jobs.take("one", "COUNT", 1)
    id_ = r.xadd("jobs", {"a": "c"})
    assert r.execute_command("HTW.DONE", "jobs", "g", id_) == 0
    assert r.xlen("jobs") == 2


OVER = {
    "acknowledged": lambda r, job: r.xack("jobs", "g", job.entry),
    "group destroyed": lambda r, job: r.xgroup_destroy("jobs", "g"),
    "stream deleted": lambda r, job: r.delete("jobs"),
    "another group": lambda r, job: (r.xgroup_destroy("jobs", "g"), r.xgroup_create("jobs", "g", "$")),
}


@pytest.mark.parametrize("how", OVER.values(), ids=OVER.keys())
def test_over(r, htw, jobs, how):
    """A lease whose entry is over ends without anything."""
    r.xadd("jobs", {"a": "b"})
    [job] = jobs.take("one", "LEASE", 50)
    how(r, job)
    wait(lambda: not htw.info()["timers"] and not r.exists(QUEUE), "end of the lease")


DELETED = {
    "xdel": lambda r, job: r.xdel("jobs", job.entry),
    "xtrim": lambda r, job: r.xtrim("jobs", maxlen=0, approximate=False),
}


@pytest.mark.parametrize("how", DELETED.values(), ids=DELETED)
def test_entry_deleted(r, htw, jobs, how):
    """An entry that is deleted under its lease does not come again, and leaves the group when that ends."""
    r.xadd("jobs", {"a": "b"})
    [job] = jobs.take("one", "LEASE", 50)
    how(r, job)
    # The worker is told.
    assert jobs.extend("one", 50, job) == 0 and jobs.fail("one", job) is None
    assert [row[1] for row in r.execute_command("HTW.LIST", "jobs", "LEASED", "g")[1]] == ["over"]
    wait(lambda: not r.exists(QUEUE), "end of the lease")
    assert r.xpending("jobs", "g")["pending"] == 0 and not htw.info()["timers"]


@pytest.mark.parametrize("how", DELETED.values(), ids=DELETED)
def test_entry_deleted_after_its_lease(r, jobs, how):
    """One that waits for a worker then is gone when one comes."""
    r.xadd("jobs", {"a": "b"})
    [job] = jobs.take("one", "LEASE", 50)
    wait(lambda: jobs.ended() == 1, "end of the lease")
    how(r, job)
    assert jobs.take("two") == []
    assert r.xpending("jobs", "g")["pending"] == 0
    assert not r.exists(QUEUE)


def test_wrong_type(r, htw, jobs):
    r.xadd("jobs", {"a": "b"})
    [job] = jobs.take("one", "LEASE", 30)
    r.rename("jobs", "kept")
    r.set("jobs", "x")
    for words in (("HTW.TAKE", "jobs", "g", "c"), ("HTW.DONE", "jobs", "g", "1-1"), ("HTW.FAIL", "jobs", "g", "c", "1-1"),
                  ("HTW.EXTEND", "jobs", "g", "c", 1, "1-1")):
        with pytest.raises(redis.ResponseError, match="^WRONGTYPE"):
            r.execute_command(*words)
    # It is tried again each second.
    r.rename("kept", "jobs")
    assert jobs.take("two", "BLOCK", 0) == [(job.entry, 2, {"a": "b"})]


@pytest.mark.parametrize("words", [("TAKE", "c"), ("DONE",)])
def test_nothing_is_left_after_an_error(r, htw, jobs, words):
    """The queue goes with its last lease, also when the command is refused then."""
    r.xadd("jobs", {"a": "b"})
    [job] = jobs.take("one")
    jobs.extend("one", 0, job)
    wait(lambda: jobs.ended() == 1, "end of the lease")
    if words == ("DONE",):
        r.xgroup_destroy("jobs", "g")
        assert r.execute_command("HTW.DONE", "jobs", "g", job.entry, "1-1") == 0
    else:
        # There is no group any more, and no second one can be made.
        r.delete("jobs")
        assert jobs.take("two") == []
    assert not r.exists(QUEUE) and htw.info()["timers"] == 0
    r.execute_command("DEBUG", "RELOAD")


def test_stream_made_again(server, r, jobs):
    """Whoever waits goes on when the stream is deleted, and gets what is appended later."""
    r.xadd("jobs", {"a": "b"})
    jobs.take("one")
    got = []
    thread = threading.Thread(target=lambda: got.extend(Jobs(server.client()).take("two", "BLOCK", 0)))
    thread.start()
    wait(lambda: r.info("clients")["blocked_clients"] == 1, "worker")
    r.delete("jobs")
    id_ = r.xadd("jobs", {"c": "d"})
    thread.join()
    assert got == [(id_, 1, {"c": "d"})]


BAD = {
    "HTW.TAKE jobs g": "arguments", "HTW.TAKE jobs g c COUNT": "syntax", "HTW.TAKE jobs g c COUNT 0": "number",
    "HTW.TAKE jobs g c COUNT 10001": "number", "HTW.TAKE jobs g c LEASE 0": "number", "HTW.TAKE jobs g c BLOCK -1": "number",
    "HTW.TAKE jobs g c LEASE 9223372036854775807": "number", "HTW.TAKE jobs g c NOW 1": "syntax", "HTW.TAKE }jobs g c": "name",
    "HTW.DONE jobs g": "arguments", "HTW.DONE jobs g x": "entry", "HTW.DONE jobs g -": "entry", "HTW.EXTEND jobs g c 1 +": "entry",
    "HTW.EXTEND jobs g c -1 1-1": "number", "HTW.FAIL jobs g c 1-1 RETRY": "syntax", "HTW.FAIL jobs g c 1-1 RETRY 1 DEAD": "syntax",
    "HTW.FAIL jobs g c 1-1 RETRY -1": "syntax", "HTW.RETRY jobs -": "entry", "HTW.SET jobs lease": "arguments",
    "HTW.SET jobs lease 0": "value", "HTW.SET jobs jitter 101": "value", "HTW.SET jobs nothing 1": "unknown",
    "HTW.SET jobs lease 1 lease": "arguments", "HTW.LEASE jobs g 1 1 NEVER x 1-1": "syntax",
    "HTW.LIST jobs ALL": "syntax", "HTW.LIST jobs LEASED": "syntax", "HTW.LIST jobs PENDING BY SIZE": "syntax",
    "HTW.LIST jobs PENDING COUNT 1001": "syntax", "HTW.LIST jobs LEASED g BY ID": "syntax",
}


MISTYPED = ["TAKE jobs g c", "TAKE jobs g c BLOCK 1", "DONE jobs g 1-1", "EXTEND jobs g c 1 1-1", "FAIL jobs g c 1-1",
            "FAIL jobs g c 1-1 DEAD", "RETRY jobs 1-1", "LIST jobs PENDING", "LIST jobs LEASED g", "INFO jobs",
            "INFO jobs a", "CANCEL jobs a", "MOD jobs a 1"]


@pytest.mark.parametrize("words", MISTYPED)
def test_no_key_is_made(r, words):
    """A stream is made by who adds alone: a name that is mistyped leaves nothing."""
    words = ("HTW." + words).split()
    r.execute_command(*words)
    at_once(r, words)
    assert r.dbsize() == 0


def test_stream_that_comes(server, r, jobs):
    """Who waits where there is no stream gets the first of all that are added."""
    got = []
    thread = threading.Thread(target=lambda: got.extend(Jobs(server.client()).take("one", "BLOCK", 0)))
    thread.start()
    wait(lambda: r.info("clients")["blocked_clients"] == 1, "worker")
    assert r.dbsize() == 0
    first, _ = at_once(r, ("XADD", "jobs", "*", "a", "b"), ("XADD", "jobs", "*", "a", "c"))
    thread.join()
    assert ids(got) == [first]


@pytest.mark.parametrize("words, error", BAD.items())
def test_errors(r, words, error):
    """A command that is refused changes nothing."""
    r.xadd("jobs", {"a": "b"})
    before = r.execute_command("DEBUG", "DIGEST")
    with pytest.raises(redis.ResponseError, match=error):
        r.execute_command(*words.split())
    assert r.execute_command("DEBUG", "DIGEST") == before


def test_fail(r, htw, jobs):
    """It comes again after the time that was asked for, with the text."""
    id_ = r.xadd("jobs", {"a": "b"})
    [job] = jobs.take("one")
    assert jobs.fail("two", job) is None
    before = htw.now()
    assert jobs.fail("one", job, "RETRY", 100, "ERROR", "no room") == 100
    assert jobs.take("two", "BLOCK", 0) == [(id_, 2, {"a": "b"})]
    assert htw.now() >= before + 100


def test_late_extension(r, htw, jobs):
    """One that comes after its job has failed changes nothing, whoever of the worker's threads sends it."""
    id_ = r.xadd("jobs", {"a": "b"})
    [job] = jobs.take("one")
    jobs.fail("one", job, "RETRY", 100)
    for ms in (HOUR, 0):
        assert jobs.extend("one", ms, job) == 0
    assert pages(r, "LEASED", "g")[0][0][1] == "failed"
    wait(lambda: jobs.ended() == 1, "end of the wait")
    assert jobs.extend("one", HOUR, job) == 0
    assert jobs.take("one") == [(id_, 2, {"a": "b"})]
    assert jobs.extend("one", HOUR, job) == 1
    # Who has claimed it has it.
    jobs.fail("one", job, "RETRY", HOUR)
    r.xclaim("jobs", "g", "two", 0, [id_])
    assert jobs.extend("one", HOUR, job) == 0 and jobs.extend("two", 0, job) == 1


def test_backoff(r, jobs):
    """Twice as long each time, at most the ceiling, less what is left to chance."""
    jobs.set("BACKOFF", 100, "CEILING", 350, "JITTER", 0)
    r.xadd("jobs", {"a": "b"})
    waits = []
    for _ in range(4):
        [job] = jobs.take("one")
        waits.append(jobs.fail("one", job))
        jobs.fail("one", job, "RETRY", 0)
        wait(lambda: jobs.ended() == 1)
    assert waits == [100, 200, 350, 350]
    jobs.set("BACKOFF", 100000, "CEILING", 0, "JITTER", 50)
    [job] = jobs.take("one")
    waits = [jobs.fail("one", job) for _ in range(50)]
    assert all(50000 <= ms <= 100000 for ms in waits) and len(set(waits)) > 10
    # Numbers as large as they can be.
    jobs.set("BACKOFF", 2**62 // 1000000, "CEILING", 2**62 // 1000000, "JITTER", 100)
    assert jobs.fail("one", job) >= 0


@pytest.mark.parametrize("how", ["fails", "lease ends", "at once"])
def test_dead(r, htw, jobs, how):
    """After so many attempts it is dead; and can be tried again from there."""
    jobs.set("TRIES", 2)
    id_ = r.xadd("jobs", {"a": "b", "c": "d"})
    [job] = jobs.take("one")
    if how == "at once":
        assert jobs.fail("one", job, "DEAD", "ERROR", "no room") == -1
        attempts, error = "1", "no room"
    elif how == "fails":
        assert jobs.fail("one", job, "RETRY", 0, "ERROR", "no time") == 0
        [job] = jobs.take("two", "BLOCK", 0)
        assert jobs.fail("two", job, "RETRY", 0, "ERROR", "no room") == -1
        attempts, error = "2", "no room"
    else:
        jobs.extend("one", 0, job)
        jobs.take("two", "BLOCK", 0, "LEASE", 20)
        attempts, error = "2", "lease ended"
    [[dead, fields]] = wait(lambda: r.xrange(DEAD), "dead job")
    assert fields == {"a": "b", "c": "d", "dead-group": "g", "dead-entry": id_, "dead-attempts": attempts, "dead-error": error}
    assert r.xlen("jobs") == 0 and r.xpending("jobs", "g")["pending"] == 0 and htw.info()["timers"] == 0
    assert r.execute_command("HTW.RETRY", "jobs", dead, "1-1") == 1
    assert r.xlen(DEAD) == 0
    [job] = jobs.take("one")
    assert job.attempts == 1 and job.fields == {"a": "b", "c": "d"} and job.entry != id_


@pytest.mark.parametrize("tries, words", [(1, ("RETRY", 0)), (1, ()), (0, ("DEAD",))])
def test_dead_cannot_be_appended_to(servers, tries, words):
    """It stays in the group as dead, is nobody's, and is tried again each second, whatever happens meanwhile."""
    server, replica = servers.start(*AOF), servers.start("--save", "")
    link(server, replica)
    r, jobs = server.client(), Jobs(server.client())
    r.set(DEAD, "x")
    jobs.set("TRIES", tries, "BACKOFF", HOUR)
    r.xadd("jobs", {"a": "b"})
    [job] = jobs.take("one")
    with pytest.raises(redis.ResponseError, match="^WRONGTYPE"):
        jobs.fail("one", job, *words, "ERROR", "no room")
    # What has been given up is not revived by another setting.
    jobs.set("TRIES", 0, "BACKOFF", 1000)
    in_step(server, replica)
    assert same(server, replica)
    for how in "as it is", "reloaded", "rewritten", "started":
        if how == "reloaded":
            r.execute_command("DEBUG", "RELOAD")
        elif how == "rewritten":
            r.config_set("aof-use-rdb-preamble", "no")
            rewrite_aof(r)
        elif how == "started":
            server.kill()
            server.start()
            r, jobs = server.client(), Jobs(server.client())
        again = Htw(r).now() + 1200
        wait(lambda until=again: Htw(r).now() > until)
        [[entry, state, *_, error]] = r.execute_command("HTW.LIST", "jobs", "LEASED", "g")[1]
        assert (entry, state, error) == (job.entry, "dead", "no room")
        assert jobs.take("two") == [] and jobs.extend("one", HOUR, job) == 0
        assert r.xpending("jobs", "g")["pending"] == 1
    r.delete(DEAD)
    [[_, fields]] = wait(lambda: r.xrange(DEAD), "dead job")
    assert (fields["dead-error"], fields["dead-attempts"]) == ("no room", "1")
    assert r.xlen("jobs") == 0 and not r.exists(QUEUE)


def test_pause(server, r, htw, jobs):
    """Nothing is taken and nothing delivered; afterwards whoever waits goes on."""
    jobs.set("PAUSED", 1)
    r.xadd("jobs", {"a": "b"})
    htw.add("jobs", 0, "p")
    assert jobs.take("one") == []
    wait(lambda: htw.info("jobs")["waiting"] == 1)
    got = []
    thread = threading.Thread(target=lambda: got.extend(Jobs(server.client()).take("two", "BLOCK", 0)))
    thread.start()
    wait(lambda: r.info("clients")["blocked_clients"] == 1, "worker")
    r.xadd("jobs", {"a": "c"})
    assert r.xlen("jobs") == 2 and htw.info()["delivered"] == 0
    jobs.set("PAUSED", 0)
    thread.join()
    assert got[0].fields == {"a": "b"}
    assert len(htw.r.xrange("jobs")) == 3 or htw.delivered("jobs", 3)


def other_dump(r):
    return redis.Redis(port=r.connection_pool.connection_kwargs["port"]).dump(OTHER)


OTHER = "htw:{other}:other"
UNPAUSED = {
    "DEL": lambda r: r.delete(QUEUE),
    "UNLINK": lambda r: r.unlink(QUEUE),
    "expires": lambda r: r.pexpire(QUEUE, 1),
    "RENAME": lambda r: r.rename(QUEUE, "parked"),
    "RENAME over it": lambda r: r.rename(OTHER, QUEUE),
    "COPY over it": lambda r: r.copy(OTHER, QUEUE, replace=True),
    "RESTORE over it": lambda r: r.restore(QUEUE, 0, other_dump(r), replace=True),
    "MOVE": lambda r: r.move(QUEUE, 7),
    "SWAPDB": lambda r: r.swapdb(0, 5),
    "FLUSHALL": lambda r: at_once(r, ("FLUSHALL",), ("XADD", "jobs", "1-1", "a", "b")),
    "in a script": lambda r: r.eval("redis.call('DEL', KEYS[1])", 1, QUEUE),
}


@pytest.mark.parametrize("how", UNPAUSED.values(), ids=UNPAUSED.keys())
def test_queue_of_who_waits_goes(server, r, htw, jobs, how):
    """Whoever waits on a queue that is paused gets what there is when the key with the setting goes, or is replaced."""
    for client in r, server.client(db=5):
        client.xadd("jobs", {"a": "b"}, id="1-1")
    htw.add("other", HOUR, "p")
    jobs.set("PAUSED", 1)
    got = []
    thread = threading.Thread(target=lambda: got.extend(Jobs(server.client()).take("one", "BLOCK", 30000)))
    thread.start()
    wait(lambda: r.info("clients")["blocked_clients"] == 1, "worker")
    how(r)
    thread.join()
    assert ids(got) == ["1-1"]


def check(r, htw, digest, taken):
    assert r.execute_command("DEBUG", "DIGEST-VALUE", QUEUE) == digest
    jobs = Jobs(r)
    wait(lambda: jobs.ended() == 1, "end of the lease")
    assert htw.info()["timers"] == 4
    # That one's lease ended while the server was down.
    assert jobs.take("two", "BLOCK", 0)[0][:2] == (taken[0].entry, 2)
    assert jobs.take("two") == []
    assert jobs.extend("two", 0, taken[1]) == 0
    assert jobs.extend("one", 0, taken[1]) == 1
    assert jobs.take("two", "BLOCK", 0)[0][:2] == (taken[1].entry, 2)
    assert jobs.done(*taken) == 5


RESTARTS = {"aof": (AOF, False), "aof rewritten": (AOF, True), "commands": (COMMANDS, True),
            "rdb": (("--save", "3600 1"), False)}


@pytest.mark.parametrize("options, rewrite", RESTARTS.values(), ids=RESTARTS.keys())
def test_restart(servers, options, rewrite):
    """Leases, failures and settings are as they were; what ended meanwhile comes at once."""
    server = servers.start(*options)
    r, htw = server.client(), Htw(server.client())
    jobs = Jobs(r)
    for n in range(5):
        r.xadd("jobs", {"n": n})
    jobs.set("BACKOFF", 123, "TRIES", 7)
    taken = jobs.take("one", "COUNT", 5, "LEASE", HOUR)
    # As bytes that need care in a file.
    redis.Redis(port=server.port).execute_command("HTW.FAIL", "jobs", "g", "one", taken[2].entry, "RETRY", HOUR,
                                                  "ERROR", b"\x00\xff\r\n" * 300)
    if rewrite:
        rewrite_aof(r)
    end = htw.now() + 1000
    at_once(r, ("HTW.EXTEND", "jobs", "g", "one", 1000, taken[0].entry), ("CLIENT", "PAUSE", 600000, "WRITE"))
    digest = r.execute_command("DEBUG", "DIGEST-VALUE", QUEUE)
    server.stop()
    wait(lambda: time.time() * 1000 > end + 100, "end of the lease")
    server.start()
    check(server.client(), Htw(server.client()), digest, taken)


@pytest.mark.parametrize("options, rewrite", RESTARTS.values(), ids=RESTARTS.keys())
def test_order_after_a_restart(servers, options, rewrite):
    """What ended while the server was down comes in the order of its ends."""
    server = servers.start(*options)
    r, htw = server.client(), Htw(server.client())
    for n in range(60):
        r.xadd("jobs", {"n": n})
    taken = Jobs(r).take("one", "COUNT", 60, "LEASE", HOUR)
    if rewrite:
        rewrite_aof(r)
    at_once(r, *(("HTW.EXTEND", "jobs", "g", "one", 1000 + n * 37 % 60 * 5, job.entry) for n, job in enumerate(taken)),
            ("CLIENT", "PAUSE", 600000, "WRITE"))
    [_, rows] = r.execute_command("HTW.LIST", "jobs", "LEASED", "g", "COUNT", 60)
    # Equal ones by entry, in which order they are listed.
    ends = sorted(((row[4], row[0]) for row in rows), key=lambda end: end[0])
    assert [entry for _, entry in ends] != [row[0] for row in rows]
    server.stop()
    wait(lambda: time.time() * 1000 > ends[-1][0] + 100, "end of the leases")
    server.start()
    jobs = Jobs(server.client())
    wait(lambda: jobs.ended() == 60, "end of the leases")
    assert ids(jobs.take("two", "COUNT", 60)) == [entry for _, entry in ends]


@pytest.mark.parametrize("count", [3, 200])
def test_parked(r, htw, jobs, count):
    """Leases of a queue whose name is no stream's do not end; when it is a stream's again, they do."""
    r.execute_command("HTW.MADD", "jobs", *["0", "p"] * count)
    htw.delivered("jobs", count)
    assert len(jobs.take("one", "COUNT", count, "LEASE", 1000)) == count
    r.rename(QUEUE, "parked")
    after = htw.now() + 1300
    wait(lambda: htw.now() > after, "the leases' deadline")
    assert jobs.ended() == 0 and jobs.take("two") == []
    r.rename("parked", QUEUE)
    wait(lambda: jobs.ended() == count, "end of the leases")
    assert [job.attempts for job in jobs.take("two", "COUNT", count)] == [2] * count


def ends_of_commands(data):
    """Return where each command of an append-only file ends."""
    at = 0
    while at < len(data):
        end = data.index(b"\r\n", at)
        if data[at:at + 1] == b"#":     # a note
            at = end + 2
            continue
        count, at = int(data[at + 1:end]), end + 2
        for _ in range(count):
            end = data.index(b"\r\n", at)
            at = end + 2 + int(data[at + 1:end]) + 2
        yield at


def test_each_prefix_of_the_file(server):
    """Wherever a file ends, what a group has delivered has a lease, also if its worker had waited."""
    server.stop()
    server.options = [*AOF, "--auto-aof-rewrite-percentage", "0"]
    r = server.start().client()
    jobs = Jobs(r)
    for how in ("XADD", "retaken", "HTW.ADD"):
        thread = threading.Thread(target=lambda: Jobs(server.client()).take("two", "BLOCK", 0, "LEASE", HOUR))
        thread.start()
        wait(lambda: r.info("clients")["blocked_clients"] == 1, "worker")
        if how == "XADD":
            r.xadd("jobs", {"a": "b"})
        elif how == "HTW.ADD":
            r.execute_command("HTW.ADD", "jobs", 0, "p")
        else:
            [row] = r.execute_command("HTW.LIST", "jobs", "LEASED", "g")[1]
            r.execute_command("HTW.EXTEND", "jobs", "g", row[2], 0, row[0])
        thread.join()
    jobs.take("three", "COUNT", 5)
    r.xadd("jobs", {"a": "d"})
    assert len(jobs.take("three", "COUNT", 5, "LEASE", HOUR)) == 1
    server.kill()
    [file] = (server.directory / "appendonlydir").glob("*.incr.aof")
    data, seen = file.read_bytes(), set()
    for end in ends_of_commands(data):
        file.write_bytes(data[:end])
        r = server.start().client()
        try:
            pending = {row["message_id"]: row["times_delivered"] for row in r.xpending_range("jobs", "g", "-", "+", 100)}
        except redis.ResponseError:
            pending = {}
        leased = {row[0]: row[3] for row in r.execute_command("HTW.LIST", "jobs", "LEASED", "g")[1]}
        assert pending == leased, end
        seen.add(len(pending))
        server.kill()
    assert seen == {0, 1, 2, 3}


def test_copy_and_restore(r, htw, jobs):
    """The queue is a key, and leases are in it."""
    for n in range(3):
        r.xadd("jobs", {"n": n})
    taken = jobs.take("one", "COUNT", 3, "LEASE", HOUR)
    jobs.fail("one", taken[1], "RETRY", HOUR, "ERROR", "no room")
    jobs.set("LEASE", 77)
    digest = r.execute_command("DEBUG", "DIGEST-VALUE", QUEUE)
    dump = redis.Redis(port=r.connection_pool.connection_kwargs["port"]).dump(QUEUE)
    r.copy(QUEUE, "parked")
    assert htw.info()["timers"] == 3
    assert r.execute_command("DEBUG", "DIGEST-VALUE", "parked") == digest
    r.delete(QUEUE)
    assert htw.info()["timers"] == 0
    r.restore(QUEUE, 0, dump)
    assert r.execute_command("DEBUG", "DIGEST-VALUE", QUEUE) == digest and htw.info()["timers"] == 3
    r.rename("jobs", "{jobs}2")
    r.rename(QUEUE, "htw:{jobs}:{jobs}2")
    assert htw.info()["timers"] == 3
    assert r.execute_command("HTW.EXTEND", "{jobs}2", "g", "one", 0, taken[0].entry) == 1
    assert Jobs(r, "{jobs}2").take("two", "BLOCK", 0)[0].entry == taken[0].entry
    r.flushall()
    wait(lambda: htw.info()["timers"] == 0, "end of all timers")


def test_other_database(server, htw):
    """A lease that ends wakes the workers of its database."""
    jobs = Jobs(server.client(db=5))
    jobs.r.xadd("jobs", {"a": "b"})
    jobs.take("one", "LEASE", 50)
    assert jobs.take("two", "BLOCK", 0)[0].attempts == 2
    jobs.r.swapdb(5, 6)
    six = Jobs(server.client(db=6))
    [row] = six.r.xpending_range("jobs", "g", "-", "+", 1)
    assert six.r.execute_command("HTW.EXTEND", "jobs", "g", "two", 30, row["message_id"]) == 1
    assert six.take("three", "BLOCK", 0)[0].attempts == 3


def test_many(r, htw, jobs):
    """Many leases that end at once, all taken again and done."""
    count = 20000
    with r.pipeline(transaction=False) as pipe:
        for n in range(count):
            pipe.xadd("jobs", {"n": n})
        pipe.execute()
    first = []
    while len(first) < count:
        first += jobs.take("one", "COUNT", 5000, "LEASE", HOUR)
    assert jobs.extend("one", 100, *first) == count
    second = []
    while len(second) < count:
        second += jobs.take("two", "COUNT", 5000, "BLOCK", 0)
    assert sorted(ids(first)) == sorted(ids(second)) and {job.attempts for job in second} == {2}
    assert jobs.done(*second) == count
    assert htw.info()["timers"] == 0 and not r.exists(QUEUE)


def pages(r, *words):
    """Return all that is listed, page by page, and the number of pages."""
    rows, cursor, count = [], "", 0
    while True:
        [cursor, page] = r.execute_command("HTW.LIST", "jobs", *words, "CURSOR", cursor)
        rows += page
        count += 1
        if not cursor:
            return rows, count
        assert page


@pytest.mark.parametrize("count", [1, 7, 40, 1000])
def test_list_pending(r, htw, count):
    """All that is pending, by time and by id, in pages of any length."""
    expected = []
    for n in range(40):
        due = htw.now() + HOUR + n * 17 % 40 // 3
        htw.at("jobs", due, f"p{n}", "ID", f"id-{n}")
        expected.append([f"id-{n}", due, f"p{n}", []])
    rows, turns = pages(r, "PENDING", "BY", "ID", "COUNT", count)
    assert rows == sorted(expected) and turns == max(1, -(-40 // count))
    rows, turns = pages(r, "PENDING", "COUNT", count)
    # A sort is stable: equal times as they were added.
    assert rows == sorted(expected, key=lambda row: row[1]) and turns == max(1, -(-40 // count))
    # A job that was added without an id is found, and cancelled.
    htw.add("jobs", 1000, "find me")
    [id_, _, payload, _] = r.execute_command("HTW.LIST", "jobs", "PENDING", "BY", "TIME")[1][0]
    assert payload == "find me" and htw.cancel("jobs", id_) == 1


@pytest.mark.parametrize("options", [("EVERY", "1000"), ("ONCE", "70"), ("FIELDS", "a", "b", "a", ""),
                                     ("EVERY", "9", "FIELDS", "x", "y")])
def test_list_options(r, htw, options):
    """A pending job is shown with the options that it was added with."""
    htw.add("jobs", HOUR, "p", "ID", "one", *options)
    for order in "TIME", "ID":
        [[id_, _, payload, shown]] = r.execute_command("HTW.LIST", "jobs", "PENDING", "BY", order)[1]
        assert (id_, payload, shown) == ("one", "p", list(options))


def test_list_leased(r, htw, jobs):
    entries = [r.xadd("jobs", {"n": n}) for n in range(12)]
    before = htw.now()
    taken = jobs.take("one", "COUNT", 6, "LEASE", HOUR) + jobs.take("two", "COUNT", 6, "LEASE", HOUR)
    jobs.fail("one", taken[1], "RETRY", HOUR, "ERROR", "no room")
    jobs.extend("two", 0, taken[7])
    r.xack("jobs", "g", entries[8])
    wait(lambda: jobs.ended() == 1, "end of a lease")
    rows, turns = pages(r, "LEASED", "g", "COUNT", 5)
    assert turns == 3 and [row[0] for row in rows] == entries
    states = ["leased"] * 12
    states[1], states[7], states[8] = "failed", "ended", "over"
    assert [row[1] for row in rows] == states
    assert [row[2] for row in rows] == ["one"] * 6 + ["two"] * 2 + [""] + ["two"] * 3
    assert {row[3] for row in rows} == {1} and rows[1][5] == "no room" and rows[0][5] == ""
    assert before + HOUR <= rows[0][4] <= htw.now() + HOUR
    assert pages(r, "LEASED", "other") == ([], 1)


@pytest.mark.parametrize("how", ["claimed", "failed", "ended"])
def test_list_attempts(pair, how):
    """The attempts that are listed are those of the job, whoever has claimed it; the replica has the same lease."""
    master, replica = pair
    r, jobs = master.client(), Jobs(master.client())
    id_ = r.xadd("jobs", {"a": "b"})
    [job] = jobs.take("one", "LEASE", HOUR)
    if how == "failed":
        jobs.fail("one", job, "RETRY", HOUR)
    elif how == "ended":
        # It can be extended by who has it, which is a lease again.
        jobs.fail("one", job, "RETRY", 300)
    for attempts in 2, 3:
        assert [entry for entry, _ in r.xclaim("jobs", "g", "two", 0, [id_])] == [id_]
        [row] = r.execute_command("HTW.LIST", "jobs", "LEASED", "g")[1]
        assert row[0] == id_ and row[2:4] == ["two", attempts]
    if how == "ended":
        wait(lambda: jobs.ended() == 1, "end of the wait")
    in_step(master, replica)
    assert same(master, replica)
    assert jobs.extend("two", HOUR, job) == 1
    in_step(master, replica)
    assert same(master, replica)
    assert r.execute_command("HTW.LIST", "jobs", "LEASED", "g")[1][0][1:4] == ["leased", "two", 3]


def test_info(r, htw, jobs):
    """Counts, and the age of the oldest job that is not done."""
    first = htw.now()
    for n in range(3):
        r.xadd("jobs", {"n": n})
        wait(lambda: htw.now() > first + 20 * n)
    [job] = jobs.take("one")
    jobs.set("LEASE", 1000)
    info = htw.info("jobs")
    assert (info["length"], info["leased"], info["ended"], info["dead"], info["lease"]) == (3, 1, 0, 0, 1000)
    assert 20 <= info["oldest"] <= htw.now() - first
    jobs.fail("one", job, "RETRY", HOUR)
    assert [htw.info("jobs")[name] for name in ("leased", "failed")] == [1, 1]
    [other] = jobs.take("one")
    assert [htw.info("jobs")[name] for name in ("leased", "failed")] == [2, 1]
    jobs.fail("one", other, "RETRY", 0)
    wait(lambda: jobs.ended() == 1, "end of the wait")
    assert htw.info("jobs")["failed"] == 2
    # Who takes it has it under a lease again.
    assert [again.entry for again in jobs.take("two")] == [other.entry]
    assert [htw.info("jobs")[name] for name in ("leased", "failed")] == [2, 1]
    jobs.fail("one", job, "DEAD")
    info = htw.info("jobs")
    assert (info["length"], info["leased"], info["failed"], info["dead"]) == (2, 1, 0, 1)


@pytest.mark.parametrize("length", [20, 170])
@pytest.mark.parametrize("paused", [0, 1])
def test_ttl_passes_when_a_lease_ends(r, htw, length, paused):
    """A queue is freed as it is opened for its lease, and nothing looks at it afterwards."""
    name = "b" * length
    queue = f"htw:{{{name}}}:{name}"
    r.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", "0")
    r.xadd(name, {"a": "b"})
    at_once(r, ("HTW.TAKE", name, "g", "one", "LEASE", 300), ("HTW.SET", name, "PAUSED", paused, "TRIES", 2),
            ("PEXPIRE", queue, 100))
    wait(lambda: not htw.info()["timers"], "end of the lease")
    assert not r.exists(queue)


def test_dead_job_of_a_binary_name(server):
    raw = redis.Redis(port=server.port)
    name = b"a\x00b"
    raw.xadd(name, {"a": "b"})
    [[entry, *_]] = raw.execute_command("HTW.TAKE", name, "g", "one")
    assert raw.execute_command("HTW.FAIL", name, "g", "one", entry, "DEAD") == -1
    assert raw.xlen(b"dead:{a\x00b}:a\x00b") == 1


def test_line_of_a_paused_queue(r, htw, jobs):
    """Jobs that leave the line of those that are due, while one stays, leave no memory behind."""
    jobs.set("PAUSED", 1)
    htw.add("jobs", 0, "first")
    for n in range(2000):
        htw.add("jobs", 0, n, "ID", n % 2, "REPLACE")
        wait(lambda: htw.info("jobs")["waiting"] == htw.info("jobs")["pending"], "the line")
    assert htw.info("jobs")["memory"] < 2500
    jobs.set("PAUSED", 0)
    assert [e["payload"] for e in htw.delivered("jobs", 3)] == ["first", "1998", "1999"]


def test_memory_is_full(r, htw, jobs):
    """Jobs that are there come due, are taken, and end; none is added."""
    htw.add("jobs", 200, "late")
    for n in range(4):
        r.xadd("jobs", {"n": n})
    r.config_set("maxmemory", 1)
    for words in (("HTW.ADD", "jobs", 0, "p"), ("HTW.SET", "jobs", "TRIES", 1), ("XADD", "jobs", "*", "a", "b")):
        with pytest.raises(redis.ResponseError, match="maxmemory"):
            r.execute_command(*words)
    taken = jobs.take("one", "COUNT", 4, "LEASE", HOUR)
    assert jobs.done(taken[0]) == 1 and jobs.fail("one", taken[1], "DEAD") == -1
    assert jobs.fail("one", taken[2], "RETRY", 0) == 0 and jobs.extend("one", 0, taken[3]) == 1
    wait(lambda: jobs.ended() == 2, "end of the leases")
    wait(lambda: htw.info()["delivered"] == 1, "delivery")
    assert len(jobs.take("two", "COUNT", 4)) == 3
    r.config_set("maxmemory", 0)
    assert r.xlen("dead:{jobs}:jobs") == 1
