# SPDX-License-Identifier: MIT
"""HTW.EXPIRE on: keys are deleted when their TTL has passed."""

import re
from pathlib import Path

import pytest
import redis
from server import Htw, at_once, pairs, wait

HOUR = 3600 * 1000


@pytest.fixture
def r(server):
    """A server that by itself only deletes keys that are asked for."""
    client = server.client()
    client.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", "0")
    client.config_set("notify-keyspace-events", "Exg")
    return client


@pytest.fixture
def on(htw):
    htw.expire("on")
    scanned(htw)
    return htw


def scanned(htw):
    wait(lambda: htw.info()["expire"] == "on", "end of the scan")


def expired(server):
    events = server.client().pubsub(ignore_subscribe_messages=True)
    events.psubscribe("__keyevent@*__:expired")
    events.get_message(timeout=60)
    return events


def next_expired(events, count=1):
    """Wait for notifications; return names of keys."""
    names = []
    while len(names) < count:
        message = events.get_message(timeout=60)
        assert message, f"{len(names)} of {count} notifications"
        names.append(message["data"])
    return names


def test_off(server, r, htw):
    r.set("k", "v", px=1)
    htw.add("jobs", 300)
    htw.delivered("jobs", 1)
    assert r.dbsize() == 2 and htw.info()["keys"] == htw.info()["expired"] == 0
    assert htw.info()["expire"] == "off"


# With a TTL of {ms} ms or {s} s.
SETS = {
    "SET PX": [("SET", "k", "v", "PX", "{ms}")],
    "SET EX": [("SET", "k", "v", "EX", "{s}")],
    "PSETEX": [("PSETEX", "k", "{ms}", "v")],
    "PEXPIRE": [("SET", "k", "v"), ("PEXPIRE", "k", "{ms}")],
    "EXPIRE on a list": [("RPUSH", "k", "v"), ("EXPIRE", "k", "{s}")],
    "GETEX": [("SET", "k", "v"), ("GETEX", "k", "PX", "{ms}")],
    "sooner": [("SET", "k", "v", "EX", "3600"), ("PEXPIRE", "k", "{ms}")],
    "SET again": [("SET", "k", "v", "EX", "3600"), ("SET", "k", "v", "PX", "{ms}")],
    "SET KEEPTTL": [("SET", "k", "v", "PX", "{ms}"), ("SET", "k", "w", "KEEPTTL")],
    "APPEND": [("SET", "k", "v", "PX", "{ms}"), ("APPEND", "k", "w")],
    "persist, then again": [("SET", "k", "v", "PX", "{ms}"), ("PERSIST", "k"), ("PEXPIRE", "k", "{ms}")],
    "without TTL, then again": [("SET", "k", "v", "EX", "3600"), ("SET", "k", "v"), ("PEXPIRE", "k", "{ms}")],
    "RENAME": [("SET", "j", "v", "PX", "{ms}"), ("RENAME", "j", "k")],
    "RENAME over another": [("SET", "j", "v", "PX", "{ms}"), ("SET", "k", "v", "EX", "3600"), ("RENAME", "j", "k")],
    "in a script": [("EVAL", "redis.call('SET', KEYS[1], 'v', 'PX', {ms})", "1", "k")],
}


def with_ttl(commands, seconds):
    """Fill in the TTL; less than a second if that is zero."""
    return [tuple(word.format(ms=seconds * 1000 or 50, s=seconds or 1) for word in command)
            for command in commands]


@pytest.mark.parametrize("commands", SETS.values(), ids=SETS.keys())
def test_key_is_tracked(r, on, commands):
    for command in with_ttl(commands, 3600):
        r.execute_command(*command)
    assert (on.info()["keys"], on.info()["timers"]) == (1, 1)


@pytest.mark.parametrize("commands", SETS.values(), ids=SETS.keys())
def test_key_ends(server, r, on, commands):
    events = expired(server)
    *_, info = at_once(r, *with_ttl(commands, 0), ("HTW.INFO",))
    assert pairs(info)["keys"] == 1
    assert next_expired(events) == ["k"]
    assert r.dbsize() == 0
    info = on.info()
    assert (info["expired"], info["keys"], info["timers"]) == (1, 0, 0)
    assert r.info("stats")["expired_keys"] == 1


KEEPS = {
    "PERSIST": [("PERSIST", "k")],
    "DEL": [("DEL", "k")],
    "UNLINK": [("UNLINK", "k")],
    "GETDEL": [("GETDEL", "k")],
    "RENAME": [("RENAME", "k", "elsewhere"), ("PERSIST", "elsewhere")],
    "MOVE": [("MOVE", "k", "2")],
    "EXPIRE in the past": [("PEXPIREAT", "k", "1")],
    "FLUSHDB": [("FLUSHDB",)],
    "FLUSHALL ASYNC": [("FLUSHALL", "ASYNC")],
}


@pytest.mark.parametrize("commands", KEEPS.values(), ids=KEEPS.keys())
def test_timer_ends_with_the_key(r, on, commands):
    """A timer does not stay when key or TTL has gone."""
    r.set("k", "v", ex=3600)
    assert on.info()["timers"] == 1
    for command in commands:
        r.execute_command(*command)
    info = on.info()
    moved = 1 if commands[0][0] == "MOVE" else 0
    assert (info["keys"], info["timers"], info["expired"]) == (moved, moved, 0)


def test_set_takes_the_ttl_away(server, r, on):
    """SET notifies of no TTL: the timer finds the key without one."""
    at_once(r, ("SET", "k", "v", "PX", 50), ("SET", "k", "w"))
    wait(lambda: not on.info()["timers"], "end of the timer")
    assert r.get("k") == "w" and on.info()["expired"] == 0


def test_later(server, r, on):
    """A TTL that is put off again and again has one timer."""
    for n in range(100):
        r.set("k", "v", px=60000 + n)
    for n in range(100):
        r.pexpire("k", 50000 + n)
    assert on.info()["timers"] == 1
    r.pexpire("k", 10)
    wait(lambda: not on.info()["timers"], "end of the key")
    assert r.dbsize() == 0


def test_no_misses(server, r, on):
    """A key that is deleted is notified of as such, and counts as no miss of a client's."""
    r.config_set("notify-keyspace-events", "Exgm")
    events = server.client().pubsub(ignore_subscribe_messages=True)
    events.psubscribe("__keyevent@*__:*")
    events.get_message(timeout=60)
    r.set("k", "v", px=1)
    wait(lambda: on.info()["expired"], "end of the key")
    assert [events.get_message(timeout=60)["channel"].split(":")[1] for _ in range(2)] == \
        ["expire", "expired"]
    r.get("a client's")
    assert events.get_message(timeout=60)["data"] == "a client's"
    assert r.info("stats")["keyspace_misses"] == 1


IN_THE_PAST = {
    "SET": [("SET", "k", "v", "PXAT", "1")],
    "SET over another": [("SET", "k", "v", "EX", "3600"), ("SET", "k", "v", "PXAT", "1")],
    "MULTI": [("MULTI",), ("SET", "k", "v", "PXAT", "1"), ("SET", "j", "v"), ("EXEC",)],
    "script": [("EVAL", "redis.call('SET', KEYS[1], 'v', 'PXAT', 1)", "1", "k")],
    "RENAME": [("SET", "j", "v", "PXAT", "1"), ("SET", "i", "v"), ("RENAME", "i", "k"),
               ("PEXPIREAT", "k", "1")],
}


@pytest.mark.parametrize("commands", IN_THE_PAST.values(), ids=IN_THE_PAST.keys())
def test_ttl_in_the_past(servers, commands):
    """The key goes, and goes on the replica."""
    master, replica = (servers.start("--save", "", module=("EXPIRE", "on")) for _ in range(2))
    replica.client().replicaof("127.0.0.1", master.port)
    wait(lambda: replica.client().info("replication").get("master_link_status") == "up", "link")
    r = redis.Redis(port=master.port, decode_responses=True, single_connection_client=True)
    r.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", "0")
    for command in commands:
        r.execute_command(*command)
    wait(lambda: not Htw(r).info()["keys"], "end of the key")
    offset = r.info("replication")["master_repl_offset"]
    wait(lambda: replica.client().info("replication")["slave_repl_offset"] >= offset, "replication")
    assert not master.client().exists("k") and Htw(r).info()["timers"] == 0
    digests = [server.client().execute_command("DEBUG", "DIGEST") for server in (master, replica)]
    assert digests[0] == digests[1]


def test_never_early(server, r, on):
    """When a key has gone, its TTL has passed."""
    events = expired(server)
    due = {}
    for n in range(1000):
        at = on.now() + 2000 + n % 300
        r.set(f"k{n}", "v", pxat=at)
        due[f"k{n}"] = at
    for name in next_expired(events, 1000):
        assert on.now() > due.pop(name)
    assert not due


def test_keys_from_before(server, r, htw):
    """A scan finds keys that had their TTL before, in all databases, while keys come and go."""
    events = expired(server)
    pipe = r.pipeline(transaction=False)
    for n in range(20000):
        pipe.set(f"far{n}", "v", ex=3600)
    for n in range(500):
        pipe.set(f"k{n}", "v", px=3000)
    pipe.execute()
    other = server.client(db=11)
    for n in range(100):
        other.set(f"o{n}", "v", px=3000)
    htw.expire("on")
    for n in range(20000):
        pipe.delete(f"far{n}") if n % 2 else pipe.persist(f"far{n}")
    pipe.execute()
    names = next_expired(events, 600)
    assert sorted(names) == sorted([f"k{n}" for n in range(500)] + [f"o{n}" for n in range(100)])
    scanned(htw)
    assert (r.dbsize(), htw.info()["keys"], htw.info()["timers"]) == (10000, 0, 0)


def test_swap(server, r, on):
    other = server.client(db=1)
    other.set("b", "v", ex=3600)
    *_, info = at_once(r, ("SET", "a", "v", "PX", 100), ("SWAPDB", 0, 1), ("HTW.INFO",))
    assert pairs(info)["keys"] == 2
    wait(lambda: on.info()["keys"] == 1, "end of a key")
    assert r.dbsize() == 1 and other.dbsize() == 0
    r.delete("b")
    assert on.info()["timers"] == 0


def test_off_again(r, on):
    for n in range(100):
        r.set(n, "v", ex=3600)
    on.expire("off")
    assert (on.info()["keys"], on.info()["timers"]) == (0, 0)
    on.expire("ON")
    scanned(on)
    assert on.info()["keys"] == 100


def test_eviction(r, on):
    r.set("k", "v", ex=3600)
    r.config_set("maxmemory-policy", "volatile-ttl")
    r.config_set("maxmemory", 1)
    with pytest.raises(redis.ResponseError):
        r.set("j", "v")
    assert (r.info()["evicted_keys"], on.info()["timers"]) == (1, 0)


def test_restart_with_keys(servers):
    """Keys that are loaded are tracked, and those that came due meanwhile go at once."""
    server = servers.start("--appendonly", "yes", "--appendfsync", "always", "--save", "",
                           module=("EXPIRE", "on"))
    r = server.client()
    for n in range(100):
        r.set(f"far{n}", "v", ex=3600)
        r.set(f"k{n}", "v", px=300)
    server.kill()
    server.start()
    r, htw = server.client(), Htw(server.client())
    r.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", "0")
    scanned(htw)
    wait(lambda: htw.info()["keys"] == 100, "end of the keys that are due")
    wait(lambda: r.dbsize() == 100)


def test_replication(servers):
    """The master's deletions reach the replica, which tracks nothing until it is promoted."""
    master, replica = (servers.start("--save", "", module=("EXPIRE", "on")) for _ in range(2))
    for server in (master, replica):
        server.client().execute_command("DEBUG", "SET-ACTIVE-EXPIRE", "0")
    replica.client().replicaof("127.0.0.1", master.port)
    wait(lambda: replica.client().info("replication").get("master_link_status") == "up", "link")
    r, htw = master.client(), Htw(master.client())
    for n in range(100):
        r.set(f"k{n}", "v", px=100)
        r.set(f"far{n}", "v", ex=3600)
    wait(lambda: htw.info()["expired"] == 100, "end of keys")
    wait(lambda: replica.client().dbsize() == 100, "end of keys on the replica")
    assert Htw(replica.client()).info()["timers"] == 0
    # With writes paused the master deletes none of the others.
    at_once(r, *(("PEXPIRE", f"far{n}", 300) for n in range(100)),
            ("CLIENT", "PAUSE", 600000, "WRITE"))
    offset = r.info("replication")["master_repl_offset"]
    wait(lambda: replica.client().info("replication")["slave_repl_offset"] >= offset, "replication")
    master.kill()
    replica.client().replicaof("NO", "ONE")
    wait(lambda: Htw(replica.client()).info()["expired"] == 100, "end of keys on the promoted replica")
    assert replica.client().dbsize() == 0


def test_pause(server, r, on):
    """Keys stay while a failover pauses writes, and go after it."""
    control = server.client()
    with r.pipeline(transaction=True) as pipe:
        pipe.set("k", "v", px=100)
        pipe.execute_command("CLIENT", "PAUSE", "600000", "WRITE")
        pipe.execute()
    due = on.now() + 200
    wait(lambda: on.now() > due, "time at which it is due")
    assert control.dbsize() == 1
    control.execute_command("CLIENT", "UNPAUSE")
    wait(lambda: control.dbsize() == 0, "end of the key")


def test_limit(servers):
    """Keys beyond the limit are left to the server, and counted."""
    server = servers.start("--save", "", module=("LIMIT", "5", "EXPIRE", "on"))
    r, htw = server.client(), Htw(server.client())
    scanned(htw)
    # So that on a busy machine the server is not the first to delete them.
    r.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", "0")
    *_, info = at_once(r, *(("SET", n, "v", "PX", 100) for n in range(8)), ("HTW.INFO",))
    assert (pairs(info)["keys"], pairs(info)["untracked"]) == (5, 3)
    wait(lambda: r.dbsize() == 3, "end of the module's keys")
    assert htw.info()["expired"] == 5
    r.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", "1")
    wait(lambda: r.dbsize() == 0, "end of all keys")


def test_scan_beyond_the_limit(servers):
    """The search for keys ends, and counts, where timeouts have used up the limit."""
    server = servers.start("--save", "", module=("LIMIT", "10"))
    r, htw = server.client(), Htw(server.client())
    for n in range(8):
        htw.add("jobs", HOUR, "p")
    at_once(r, *(("SET", n, "v", "EX", 3600) for n in range(20000)))
    htw.expire("on")
    scanned(htw)
    assert (htw.info()["keys"], htw.info()["untracked"]) == (2, 19998)
    r.flushall()
    assert htw.info()["timers"] == 0


def test_swap_with_itself(r, on):
    """The server tells of SWAPDB with one database twice, too."""
    for n in range(100):
        r.set(n, "v", ex=3600)
    r.swapdb(0, 0)
    for n in range(200):
        r.set(n, "v", px=300)
    assert on.info()["keys"] == 200
    wait(lambda: r.dbsize() == 0, "end of the keys")


@pytest.mark.parametrize("end", [2**63 - 1, 2**63 - 2, 2**63 // 10**6 + 1])
def test_ttl_that_never_ends(server, r, on, end):
    """Beyond what the clock can hold: the key is not looked at again and again."""
    r.set("k", "v", pxat=end)
    assert on.info()["keys"] == 1

    def naps():
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", status, re.MULTILINE)[1])

    # A server that had something to do all the time would not sleep; an idle one does ten times a second.
    before = naps()
    wait(lambda: naps() > before + 10, "naps of the server")
    r.delete("k")
    assert on.info()["keys"] == 0
