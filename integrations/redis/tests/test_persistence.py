# SPDX-License-Identifier: MIT
"""What is pending survives the server, by RDB and by AOF."""

import contextlib
import random
import threading
import time

import pytest
import redis
from server import Htw, at_once, rewrite_aof, wait

HOUR = 3600 * 1000
QUEUE = "htw:{jobs}:jobs"

AOF = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")
# A rewrite writes commands rather than an RDB file.
COMMANDS = (*AOF, "--aof-use-rdb-preamble", "no")


def fill(htw):
    """Add timeouts that are far away, and one that comes due while the server is down."""
    for n in range(100):
        htw.add("jobs", HOUR + n, f"payload {n}", "ID", n)
    raw = redis.Redis(port=htw.r.connection_pool.connection_kwargs["port"])
    raw.execute_command("HTW.ADD", "jobs", HOUR, bytes(range(256)), "ID", b"\x00\xff")
    htw.cancel("jobs", "50")
    htw.mod("jobs", "51", 2 * HOUR)
    in_9 = redis.Redis(port=raw.connection_pool.connection_kwargs["port"], db=9)
    Htw(in_9).add("jobs", HOUR)


def check(server, digest, due=None):
    """After a restart all is as it was, armed again, and what came due is delivered."""
    r = server.client()
    htw = Htw(r)
    if due is not None:
        [entry] = htw.delivered("due", 1)
        assert entry["due"] == due and entry["payload"] == "p" and entry["late"] > 0
    assert r.execute_command("DEBUG", "DIGEST-VALUE", QUEUE) == digest
    info = htw.info()
    assert info["pending"] == info["armed"] == info["timers"] == 101
    assert htw.info("jobs", "50") is None
    assert htw.info("jobs", "51")["due"] > htw.now() + HOUR
    assert Htw(server.client(db=9)).info("jobs")["armed"] == 1


RESTARTS = {
    "aof": (AOF, False),
    "aof, rewritten with an RDB file": (AOF, True),
    "aof, rewritten with commands": (COMMANDS, True),
    "rdb": (("--save", "3600 1"), False),
}


@pytest.mark.parametrize("options, rewrite", RESTARTS.values(), ids=RESTARTS.keys())
def test_restart(servers, options, rewrite):
    server = servers.start(*options)
    r = server.client()
    htw = Htw(r)
    fill(htw)
    htw.add("due", HOUR, "p", "ID", "a")
    digest = r.execute_command("DEBUG", "DIGEST-VALUE", QUEUE)
    if rewrite:
        rewrite_aof(r)
        assert r.info("persistence")["aof_last_bgrewrite_status"] == "ok"
        htw.mod("jobs", "52", HOUR)
        digest = r.execute_command("DEBUG", "DIGEST-VALUE", QUEUE)
    # Nothing is delivered while writes are paused.
    due = htw.now() + 100
    at_once(r, ("HTW.MOD", "due", "a", due, "ABSTTL"), ("CLIENT", "PAUSE", 600000, "WRITE"))
    server.stop()
    wait(lambda: time.time() * 1000 > due + 200, "time at which it is due")
    server.start()
    check(server, digest, due)
    [entry] = Htw(server.client()).delivered("due", 1)
    assert entry["late"] >= 200
    # It is not delivered again.
    server.stop()
    server.start()
    check(server, digest)
    assert server.client().xlen("due") == 1


# Times in ms from a first one, as they are added; the ids are in another order.
DUES = [500, 0, 100, 0, 100, 7, 0, 500, 100, 0] * 20
IN_ORDER = sorted(range(len(DUES)), key=lambda n: DUES[n])


def add_in_no_order(r, htw, ms=1000):
    """Add timeouts that are due after @ms and more. Return when all are."""
    first = htw.now() + ms
    at_once(r, *(("HTW.AT", "jobs", first + due, n, "ID", 5000 - n * 7 % 200) for n, due in enumerate(DUES)))
    return first + max(DUES)


@pytest.mark.parametrize("options, rewrite", RESTARTS.values(), ids=RESTARTS.keys())
@pytest.mark.parametrize("overdue", [True, False], ids=["overdue", "not yet due"])
def test_order_after_a_restart(servers, options, rewrite, overdue):
    """By time, and equal times as they were added."""
    server = servers.start(*options)
    r = server.client()
    htw = Htw(r)
    end = add_in_no_order(r, htw) if overdue else add_in_no_order(r, htw, 6000)
    if rewrite:
        rewrite_aof(r)
    assert r.execute_command("CLIENT", "PAUSE", 600000, "WRITE") and not r.exists("jobs")
    server.stop()
    wait(lambda: not overdue or time.time() * 1000 > end + 10, "time at which all are due")
    server.start()
    got = [int(e["payload"]) for e in Htw(server.client()).delivered("jobs", len(DUES))]
    assert got == IN_ORDER


def test_order_after_restore_and_copy(r, htw):
    end = add_in_no_order(r, htw)
    dump = redis.Redis(port=r.connection_pool.connection_kwargs["port"]).dump(QUEUE)
    assert r.copy(QUEUE, "htw:{copy}:copy") and r.rename("htw:{copy}:copy", "parked")
    r.delete(QUEUE)
    wait(lambda: htw.now() > end, "time at which all are due")
    r.restore(QUEUE, 0, dump)
    r.rename("parked", "htw:{copy}:copy")
    for stream in ("jobs", "copy"):
        assert [int(e["payload"]) for e in htw.delivered(stream, len(DUES))] == IN_ORDER


def test_reload(server, r, htw):
    fill(htw)
    digest = r.execute_command("DEBUG", "DIGEST-VALUE", QUEUE)
    for how in (("RELOAD",), ("RELOAD", "NOSAVE")):
        r.save()
        r.execute_command("DEBUG", *how)
        check(server, digest)


def test_parked_survives_a_rewrite(servers):
    server = servers.start(*COMMANDS)
    r, htw = server.client(), Htw(server.client())
    fill(htw)
    digest = r.execute_command("DEBUG", "DIGEST-VALUE", QUEUE)
    r.rename(QUEUE, "par}ked")
    rewrite_aof(r)
    server.kill()
    server.start()
    r = server.client()
    assert r.execute_command("DEBUG", "DIGEST-VALUE", "par}ked") == digest
    r.rename("par}ked", QUEUE)
    check(server, digest)


def test_parked_beside_streams_of_like_names(servers):
    """Each queue has its own timeouts after a rewrite, whatever the streams are called."""
    server = servers.start(*COMMANDS)
    r, htw = server.client(), Htw(server.client())
    for n in range(12):
        htw.add("jobs", HOUR, "p")
        r.rename(QUEUE, f"parked{n}")
        htw.add(f"{{parked}}parked{n}", HOUR, "p")
    digest = r.execute_command("DEBUG", "DIGEST")
    rewrite_aof(r)
    server.kill()
    server.start()
    assert server.client().execute_command("DEBUG", "DIGEST") == digest
    assert Htw(server.client()).info()["parked"] == 12


def test_rewrite_for_a_key_of_another_type(servers):
    """Timeouts whose stream's key is no stream any more are in a rewritten file, too."""
    server = servers.start(*COMMANDS)
    r, htw = server.client(), Htw(server.client())
    for n in range(20):
        htw.add(f"jobs-{n}", HOUR, "p", "ID", "a")
        r.set(f"jobs-{n}", "x")
    rewrite_aof(r)
    server.kill()
    server.start()
    htw = Htw(server.client())
    assert htw.info()["pending"] == htw.info()["armed"] == 20


def test_fork(server, r, htw):
    """Timers go on while a child saves."""
    for n in range(2000):
        htw.add("jobs", n % 300, n)
    r.config_set("rdb-key-save-delay", 1000)
    for n in range(300):
        r.set(n, n)
    r.bgsave()
    entries = htw.delivered("jobs", 2000)
    assert sorted(int(e["payload"]) for e in entries) == list(range(2000))
    r.config_set("rdb-key-save-delay", 0)
    wait(lambda: not r.info("persistence")["rdb_bgsave_in_progress"], "end of the save")
    assert r.info("persistence")["rdb_last_bgsave_status"] == "ok"


@pytest.mark.parametrize("options", [AOF, COMMANDS], ids=["aof", "aof-commands"])
def test_kill_under_load(servers, options):
    """With appendfsync always, each acknowledged timeout is once in the stream after crashes."""
    server = servers.start(*options, "--auto-aof-rewrite-percentage", "1",
                           "--auto-aof-rewrite-min-size", "100kb")
    acknowledged, cancelled, unsure = set(), set(), set()
    serial = iter(range(10**9))

    def work(stop):
        htw, live = Htw(server.client()), []
        with contextlib.suppress(redis.ConnectionError):
            while not stop.is_set():
                id_ = f"id-{next(serial)}"
                htw.add("jobs", random.choice([0, 1, 5, 20, 100, 500, 1500]), id_, "ID", id_)
                acknowledged.add(id_)
                live.append(id_)
                if random.random() < 0.2:
                    id_ = random.choice(live)
                    unsure.add(id_)
                    if htw.cancel("jobs", id_):
                        cancelled.add(id_)
                    unsure.discard(id_)
                elif random.random() < 0.2:
                    htw.mod("jobs", random.choice(live), random.choice([0, 10, 300]))

    for _ in range(5):
        stop = threading.Event()
        threads = [threading.Thread(target=work, args=(stop,)) for _ in range(3)]
        before = len(acknowledged)
        for thread in threads:
            thread.start()
        wait(lambda: len(acknowledged) > before + random.randrange(200, 2000), "load")
        server.kill()
        stop.set()
        for thread in threads:
            thread.join()
        server.start()
    htw = Htw(server.client())
    wait(lambda: not htw.info()["pending"], "end of all timeouts")
    entries = htw.delivered("jobs", 1)
    ids = [entry["id"] for entry in entries]
    assert len(ids) == len(set(ids)), "one was delivered twice"
    assert acknowledged - cancelled - unsure <= set(ids), "one was lost"
    assert not cancelled & set(ids), "one was cancelled and delivered"
    assert len(acknowledged) > 1000
