# SPDX-License-Identifier: MIT
"""Timeouts of streams on one server."""

import random
import re
import socket
import time
from pathlib import Path

import pytest
import redis
from server import Htw, at_once, pairs, wait

HOUR = 3600 * 1000
PAGE = Path(__file__).resolve().parents[3] / "docs/many-machines.md"


def nothing_is_armed(htw):
    info = htw.info()
    return info["armed"] == info["pending"] == info["timers"] == 0


def test_due(r, htw):
    before = htw.now()
    id_, info = at_once(r, ("HTW.ADD", "jobs", 50, "hello"), ("HTW.INFO", "jobs"))
    assert pairs(info)["pending"] == 1
    [entry] = htw.delivered("jobs", 1)
    assert entry["id"] == id_
    assert entry["payload"] == "hello"
    assert entry["due"] >= before + 50
    assert htw.info()["delivered"] == 1
    assert nothing_is_armed(htw)
    assert r.keys() == ["jobs"]


def test_reader_is_woken(r, htw):
    """A consumer that waits for the stream gets the entry."""
    r.xgroup_create("jobs", "workers", id="0", mkstream=True)
    htw.add("jobs", 20, "a")
    [[_, [[entry, fields]]]] = r.xreadgroup("workers", "w1", {"jobs": ">"}, block=60000)
    assert fields["payload"] == "a"
    assert r.xpending("jobs", "workers")["pending"] == 1
    # Another worker claims what the first does not acknowledge.
    [[claimed, _]] = r.xclaim("jobs", "workers", "w2", 0, [entry])
    assert claimed == entry and r.xack("jobs", "workers", entry) == 1


def test_group_of_the_page(r, htw):
    """The group that the page makes gets the page's first timeout, which came before it."""
    [words] = re.findall("`(XGROUP CREATE .*?)`", PAGE.read_text(encoding="utf-8"))
    htw.add("jobs", 0, "send mail 7")
    htw.delivered("jobs", 1)
    r.execute_command(*words.split())
    [[_, [[_, fields]]]] = r.xreadgroup("workers", "w1", {"jobs": ">"}, block=1000)
    assert fields["payload"] == "send mail 7"


def test_each_goes_to_one_worker(r, htw):
    r.xgroup_create("jobs", "workers", id="0", mkstream=True)
    for n in range(200):
        htw.add("jobs", n % 20, n)
    got = []
    while len(got) < 200:
        for worker in ("w1", "w2"):
            for _, entries in r.xreadgroup("workers", worker, {"jobs": ">"}, 7, block=60000):
                got += [int(fields["payload"]) for _, fields in entries]
            if len(got) == 200:
                break
    assert sorted(got) == list(range(200))


def test_past_is_due_at_once(htw):
    now = htw.now()
    htw.at("jobs", 0, "a")
    htw.at("jobs", now - 5000, "b")
    first, second = htw.delivered("jobs", 2)
    assert [first["payload"], second["payload"]] == ["a", "b"]
    assert first["due"] == 0 and second["late"] >= 5000


@pytest.mark.parametrize("ms", [-1, -HOUR, -2**63])
def test_negative_is_due_at_once(r, htw, ms):
    """A delay that was computed from a time that has passed; -1 before it, and -2^63."""
    before = htw.now()
    htw.add("jobs", ms, "added")
    htw.at("jobs", ms, "at")
    htw.add("jobs", HOUR, "moved", "ID", "a")
    assert htw.mod("jobs", "a", ms) == 1
    dues = {e["payload"]: e["due"] for e in htw.delivered("jobs", 3)}
    assert dues["at"] == 0 and before <= dues["added"] <= dues["moved"] <= htw.now()


def test_order_and_count(r, htw):
    """Many at random times come in the order of their times, each once."""
    start = htw.now() + 1000
    pipe = r.pipeline(transaction=False)
    due = {str(n): start + random.randrange(1000) for n in range(5000)}
    for n, when in due.items():
        pipe.execute_command("HTW.AT", "jobs", when, n, "ID", f"id-{n}")
    pipe.execute()
    # What was due already comes as it was added.
    added = htw.now()
    entries = htw.delivered("jobs", 5000)
    assert {entry["payload"]: entry["due"] for entry in entries} == due
    assert len(entries) == 5000
    order = [entry["due"] for entry in entries if entry["due"] > added]
    assert order == sorted(order)
    assert nothing_is_armed(htw)


def test_streams_and_databases(server, r, htw):
    other = Htw(server.client(db=3))
    htw.add("a", 10, "in 0")
    htw.add("b", 10, "in 0")
    other.add("a", 10, "in 3")
    assert [e["payload"] for e in htw.delivered("a", 1) + other.delivered("a", 1)] == ["in 0", "in 3"]
    assert len(htw.delivered("b", 1)) == 1


def test_binary(server):
    raw = redis.Redis(port=server.port)
    stream, payload, id_ = b"\x00{st\xff}\r\n", bytes(range(256)) * 300, b"\x00 \xff"
    assert raw.execute_command("HTW.ADD", stream, 10, payload, "ID", id_) == id_
    wait(lambda: raw.xlen(stream) == 1)
    [[_, fields]] = raw.xrange(stream)
    assert (fields[b"payload"], fields[b"id"]) == (payload, id_)


def test_cancel(r, htw):
    ids = [htw.add("jobs", HOUR, n) for n in range(5)]
    assert htw.cancel("jobs", ids[0]) == 1
    assert htw.cancel("jobs", ids[0]) == 0
    assert htw.cancel("jobs", ids[1], "unknown", ids[2], ids[2]) == 2
    assert htw.info()["timers"] == htw.info("jobs")["pending"] == 2
    assert htw.cancel("jobs", *ids) == 2
    assert htw.cancel("jobs", "x") == 0 and htw.cancel("none", "x") == 0
    assert r.keys() == [] and nothing_is_armed(htw)


def test_mod(r, htw):
    sooner, later = htw.add("jobs", HOUR, "sooner"), "later"
    assert at_once(r, ("HTW.ADD", "jobs", 30, "later", "ID", later),
                   ("HTW.MOD", "jobs", later, HOUR)) == [later, 1]
    assert htw.mod("jobs", sooner, 60) == 1
    assert [e["payload"] for e in htw.delivered("jobs", 1)] == ["sooner"]
    due = htw.now() + 20
    assert htw.mod("jobs", later, due, "absttl") == 1
    assert htw.info("jobs", later) in ({"due": due, "payload": "later"}, None)
    assert htw.delivered("jobs", 2)[1]["due"] == due
    assert htw.mod("jobs", later, 1) == 0 and htw.mod("none", "x", 1) == 0
    assert nothing_is_armed(htw)


def test_ids(htw):
    """Ids made by the module differ; one that is given is used, and pending only once."""
    ids = [htw.add("jobs", HOUR) for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert htw.add("jobs", HOUR, "a", "ID", "mine") == "mine"
    with pytest.raises(redis.ResponseError, match="^BUSYID "):
        htw.add("jobs", 1, "b", "id", "mine")
    assert htw.info("jobs", "mine")["payload"] == "a"
    assert htw.info("jobs")["pending"] == 1001
    # Another stream has ids of its own, and one that has ended can come again.
    htw.add("other", HOUR, "c", "ID", "mine")
    htw.cancel("jobs", "mine")
    htw.add("jobs", HOUR, "d", "ID", "mine")


LATEST = (2**63 - 1) // 10**6

BAD = {
    "no payload": (("HTW.ADD", "jobs", "1"), "ERR wrong number of arguments"),
    "id without value": (("HTW.ADD", "jobs", "1", "p", "ID"), "ERR syntax error"),
    "too many": (("HTW.ADD", "jobs", "1", "p", "ID", "a", "b"), "ERR syntax error"),
    "other word": (("HTW.ADD", "jobs", "1", "p", "IDS", "a"), "ERR syntax error"),
    "empty id": (("HTW.ADD", "jobs", "1", "p", "ID", ""), "ERR the id of a timeout"),
    "long id": (("HTW.ADD", "jobs", "1", "p", "ID", "x" * 1025), "ERR the id of a timeout"),
    "no number": (("HTW.ADD", "jobs", "1s", "p"), "ERR invalid time"),
    "fraction": (("HTW.ADD", "jobs", "1.5", "p"), "ERR invalid time"),
    "too large": (("HTW.ADD", "jobs", str(LATEST), "p"), "ERR invalid time"),
    "beyond 64 bits": (("HTW.ADD", "jobs", str(2**64), "p"), "ERR invalid time"),
    "below 64 bits": (("HTW.ADD", "jobs", str(-2**63 - 1), "p"), "ERR invalid time"),
    "largest": (("HTW.ADD", "jobs", str(2**63 - 1), "p"), "ERR invalid time"),
    "at too large": (("HTW.AT", "jobs", str(LATEST + 1), "p"), "ERR invalid time"),
    "empty stream": (("HTW.ADD", "", "1", "p"), "ERR the stream's name"),
    "brace": (("HTW.ADD", "a}b", "1", "p"), "ERR the stream's name"),
    "empty tag": (("HTW.ADD", "{}b", "1", "p"), "ERR the stream's name"),
    "no stream": (("HTW.ADD", "string", "1", "p"), "WRONGTYPE"),
    "queue of another type": (("HTW.ADD", "taken", "1", "p"), "WRONGTYPE"),
    "cancel without id": (("HTW.CANCEL", "jobs"), "ERR wrong number of arguments"),
    "cancel, other type": (("HTW.CANCEL", "taken", "a"), "WRONGTYPE"),
    "mod without time": (("HTW.MOD", "jobs", "a"), "ERR wrong number of arguments"),
    "mod, no number": (("HTW.MOD", "jobs", "kept", "soon"), "ERR invalid time"),
    "mod, other word": (("HTW.MOD", "jobs", "kept", "5", "ABS"), "ERR syntax error"),
    "mod, other type": (("HTW.MOD", "taken", "a", "5"), "WRONGTYPE"),
    "info, other type": (("HTW.INFO", "taken"), "WRONGTYPE"),
    "info, too many": (("HTW.INFO", "jobs", "a", "b"), "ERR wrong number of arguments"),
    "expire without value": (("HTW.EXPIRE",), "ERR wrong number of arguments"),
    "expire, other value": (("HTW.EXPIRE", "maybe"), "ERR argument must be"),
}


@pytest.mark.parametrize("command, error", BAD.values(), ids=BAD.keys())
def test_bad_input(r, htw, command, error):
    r.set("string", "x")
    r.set("htw:{taken}:taken", "x")
    htw.add("jobs", HOUR, "p", "ID", "kept")
    before = htw.info(), htw.info("jobs", "kept"), r.dbsize()
    with pytest.raises(redis.ResponseError) as raised:
        r.execute_command(*command)
    assert str(raised.value).startswith(error.removeprefix("ERR ")), raised.value
    assert (htw.info(), htw.info("jobs", "kept"), r.dbsize()) == before


def test_latest(htw):
    assert htw.at("jobs", LATEST, "p", "ID", "a") == "a"
    assert htw.info("jobs", "a")["due"] == LATEST
    assert htw.info()["armed"] == 1


def test_limit(servers):
    server = servers.start("--save", "", module=("LIMIT", "10"))
    htw = Htw(server.client())
    ids = [htw.add("jobs", HOUR, n) for n in range(10)]
    with pytest.raises(redis.ResponseError, match="^LIMIT "):
        htw.add("jobs", 1, "more")
    with pytest.raises(redis.ResponseError, match="^LIMIT "):
        htw.add("other", 1, "more")
    assert htw.info()["pending"] == 10 and not htw.r.exists("htw:{other}:other")
    htw.cancel("jobs", ids[0])
    htw.add("other", 1, "more")
    assert len(htw.delivered("other", 1)) == 1


def test_more_than_the_limit_are_loaded(servers):
    """What cannot be armed for lack of timers is delivered when there is room."""
    server = servers.start("--appendonly", "yes", "--appendfsync", "always", "--save", "")
    htw = Htw(server.client())
    for n in range(30):
        htw.add("jobs", HOUR, n, "ID", n)
    server.kill()
    server.module = ("LIMIT", "7")
    server.start()
    htw = Htw(server.client())
    assert (htw.info()["pending"], htw.info()["armed"]) == (30, 7)
    for n in range(30):
        htw.mod("jobs", n, 0)
    assert sorted(int(e["payload"]) for e in htw.delivered("jobs", 30)) == list(range(30))
    assert server.text().count("the clock is at its limit") == 1


def test_stream_becomes_another_type(r, htw):
    """What cannot be appended stays pending, and is tried again."""
    at_once(r, ("HTW.ADD", "late", 0, "p", "ID", "a"), ("SET", "late", "x"))
    wait(lambda: htw.info()["failed"], "failed attempt")
    info = htw.info("late")
    assert info["pending"] == info["waiting"] == 1 and info["armed"] == 0
    assert info["attempts"] >= 1 and info["reason"].startswith("WRONGTYPE")
    assert htw.now() - 1000 < info["next-try"] <= htw.now() + 1000
    assert htw.info()["failing"] == htw.info()["waiting"] == 1
    r.delete("late")
    [entry] = htw.delivered("late", 1)
    assert entry["late"] > 0 and entry["id"] == "a"
    assert htw.info()["failing"] == htw.info()["waiting"] == 0


def test_payload_that_no_stream_takes(server, r, htw):
    """What XADD would refuse is refused when it is added, and holds nothing up."""
    r.config_set("proto-max-bulk-len", 2**31)
    r.config_set("client-query-buffer-limit", 2**31)
    size, piece = 2**30, bytes(2**20)
    with socket.create_connection(("127.0.0.1", server.port)) as s:
        s.sendall(f"*4\r\n$7\r\nHTW.ADD\r\n$4\r\njobs\r\n$1\r\n0\r\n${size}\r\n".encode())
        for _ in range(size // len(piece)):
            s.sendall(piece)
        s.sendall(b"\r\n")
        assert s.recv(100).startswith(b"-ERR the payload is too long")
    htw.add("jobs", 0, "p")
    assert len(htw.delivered("jobs", 1)) == 1 and htw.info()["failed"] == 0


def test_failures_are_logged(server, r, htw):
    """The log says which stream takes nothing, and why; seldom, however many there are."""
    streams = [f"late-{n}" for n in range(50)]
    at_once(r, *(("HTW.ADD", stream, 0, "p") for stream in streams),
            *(("SET", stream, "x") for stream in streams))
    wait(lambda: htw.info()["failed"] >= 100, "failed attempts")
    assert htw.info()["failing"] == 50
    lines = [line for line in server.text().splitlines() if "cannot append to the stream 'late-" in line]
    assert len(lines) == 1 and "WRONGTYPE" in lines[0], lines


def test_moved_and_cancelled_while_they_wait(r, htw):
    """What is due and cannot be delivered is pending, as anything else."""
    at_once(r, ("SET", "other", "x"), *(("HTW.AT", "jobs", n, n, "ID", n) for n in range(100)),
            ("RENAME", "other", "jobs"))
    wait(lambda: htw.info("jobs")["waiting"] == 100, "all in line")
    assert htw.cancel("jobs", *range(0, 100, 2)) == 50
    for n in range(1, 100, 4):
        assert htw.mod("jobs", n, HOUR) == 1
    info = htw.info("jobs")
    assert (info["pending"], info["waiting"], info["armed"]) == (50, 25, 25)
    r.delete("jobs")
    assert [int(e["payload"]) for e in htw.delivered("jobs", 25)] == list(range(3, 100, 4))
    r.delete("htw:{jobs}:jobs")
    assert nothing_is_armed(htw)


def test_order_of_what_waits(r, htw):
    """What comes due when a stream is tried again follows what was due before."""
    at_once(r, ("SET", "jobs", "x"), ("RENAME", "jobs", "other"), ("HTW.AT", "jobs", 1, 0),
            ("RENAME", "other", "jobs"))
    wait(lambda: htw.info("jobs")["attempts"], "an attempt")
    again = htw.info("jobs").get("next-try")
    dues = [again + n for n in range(-50, 5)]
    assert htw.now() < dues[0]
    at_once(r, ("RENAME", "jobs", "other"), *(("HTW.AT", "jobs", due, due) for due in dues))
    assert [int(e["payload"]) for e in htw.delivered("jobs", 56)] == [0, *dues]


REFUSALS = {
    "too few replicas": "NOREPLICAS",
    "error of the disk": "MISCONF",
}


@pytest.mark.parametrize("error", REFUSALS.values(), ids=REFUSALS.keys())
def test_no_deliveries_where_writes_are_refused(server, r, htw, error):
    """While the server refuses clients' writes, what is due waits, and HTW.INFO says so."""
    due = htw.now() + 2000
    at_once(r, *(("HTW.AT", "jobs", due, n) for n in range(1000)))
    if error == "MISCONF":
        (server.directory / "dump.rdb").mkdir()
        r.config_set("save", "3600 1000000")
        r.bgsave()
        wait(lambda: r.info("persistence")["rdb_last_bgsave_status"] == "err", "error of a save")
    else:
        r.config_set("min-replicas-to-write", 1)
    assert htw.now() < due
    wait(lambda: htw.info()["waiting"] == 1000, "timeouts in line")
    time.sleep(0.3)
    info = htw.info()
    assert info["deliveries"].startswith(error), info
    assert (info["pending"], info["failed"], info["delivered"], r.exists("jobs")) == (1000, 0, 0, 0)
    with pytest.raises(redis.ResponseError):
        r.set("k", "v")
    r.config_set("stop-writes-on-bgsave-error", "no")
    r.config_set("min-replicas-to-write", 0)
    assert [int(e["payload"]) for e in htw.delivered("jobs", 1000)] == list(range(1000))
    assert htw.info()["deliveries"] == "on" and htw.info()["waiting"] == 0



def test_many_for_a_stream_of_another_type(r, htw):
    """One of them is tried each second, and not all."""
    began = time.monotonic()
    at_once(r, ("SET", "other", "x"), *(("HTW.ADD", "jobs", 0, n) for n in range(500)),
            ("RENAME", "other", "jobs"))
    wait(lambda: htw.info()["failed"] >= 2, "failed attempts")
    assert htw.info("jobs")["pending"] == htw.info()["pending"] == 500
    assert htw.info()["failed"] <= time.monotonic() - began + 1
    r.delete("jobs")
    assert sorted(int(e["payload"]) for e in htw.delivered("jobs", 500)) == list(range(500))
    assert nothing_is_armed(htw)


def test_stream_ahead_of_the_clock(r, htw):
    """An entry follows those that are there, even one with an id in the future."""
    r.xadd("jobs", {"payload": "future"}, id=f"{htw.now() + HOUR}-7")
    htw.add("jobs", 0, "now")
    wait(lambda: r.xlen("jobs") == 2, "entry")
    assert r.xrange("jobs")[1][1]["payload"] == "now"


def test_transaction_and_script(r, htw):
    with r.pipeline(transaction=True) as pipe:
        pipe.execute_command("HTW.ADD", "jobs", HOUR, "p", "ID", "a")
        pipe.execute_command("HTW.MOD", "jobs", "a", 1)
        pipe.set("k", "v")
        assert pipe.execute() == ["a", 1, True]
    assert len(htw.delivered("jobs", 1)) == 1
    assert r.eval("return redis.call('HTW.ADD', KEYS[1], 1, ARGV[1], 'ID', 'b')", 1, "jobs", "q") == "b"
    assert htw.delivered("jobs", 2)[1]["payload"] == "q"


def test_watch(r, htw):
    """The queue is a key: a transaction that watches it fails when it changes."""
    htw.add("jobs", HOUR)
    with r.pipeline() as pipe:
        pipe.watch("htw:{jobs}:jobs")
        htw.add("jobs", HOUR)
        pipe.multi()
        pipe.set("k", "v")
        with pytest.raises(redis.WatchError):
            pipe.execute()


def test_watch_of_what_stays(r, htw):
    """What changes nothing is no change for who watches the queue or the stream."""
    htw.add("jobs", HOUR, "p", "ID", "a")
    with r.pipeline() as pipe:
        pipe.watch("htw:{jobs}:jobs", "jobs", "htw:{none}:none")
        with pytest.raises(redis.ResponseError, match="^BUSYID "):
            htw.add("jobs", HOUR, "p", "ID", "a")
        assert htw.cancel("jobs", "b") == htw.mod("jobs", "b", 1) == htw.cancel("none", "a") == 0
        pipe.multi()
        pipe.set("k", "v")
        assert pipe.execute() == [True]


def test_no_misses(r, htw):
    """That there is no stream or no queue yet is no miss of a client's."""
    r.config_set("notify-keyspace-events", "Em")
    events = r.pubsub(ignore_subscribe_messages=True)
    events.psubscribe("__keyevent@*__:*")
    events.get_message(timeout=60)
    htw.add("jobs", 0, "p")
    wait(lambda: htw.info()["delivered"], "entry")
    assert r.info("stats")["keyspace_misses"] == 0
    r.get("a client's")
    assert events.get_message(timeout=60)["data"] == "a client's"


def test_pause(server, r, htw):
    """While a failover pauses writes, nothing is appended."""
    due = htw.now() + 200
    with r.pipeline(transaction=True) as pipe:
        pipe.execute_command("HTW.AT", "jobs", due, "p")
        pipe.execute_command("CLIENT", "PAUSE", "600000", "WRITE")
        pipe.execute()
    wait(lambda: htw.now() > due + 100, "time at which it was due")
    assert htw.info("jobs")["pending"] == 1 and not r.exists("jobs")
    server.client().execute_command("CLIENT", "UNPAUSE")
    [entry] = htw.delivered("jobs", 1)
    assert entry["late"] >= 100
