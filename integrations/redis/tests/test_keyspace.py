# SPDX-License-Identifier: MIT
"""The pending timeouts of a stream are a key, and what is done to any key can be done to it."""

import pytest
import redis
from server import Htw, at_once, pairs, wait

HOUR = 3600 * 1000
QUEUE = "htw:{jobs}:jobs"


def fill(htw, stream="jobs", count=100):
    for n in range(count):
        htw.add(stream, HOUR, f"payload {n}", "ID", n)


def armed(htw):
    info = htw.info()
    assert info["armed"] + info["ending"] == info["timers"]
    return info["armed"]


@pytest.mark.parametrize("stream, queue", [
    ("jobs", "htw:{jobs}:jobs"),
    ("{7}jobs", "htw:{7}:{7}jobs"),
    ("a{7}b{8}", "htw:{7}:a{7}b{8}"),
    ("a{b", "htw:{a{b}:a{b"),
    ("{{7}}", "htw:{{7}:{{7}}"),
    ("7:}{7}", "htw:{7}:7:}{7}"),
    ("htw:{jobs}:jobs", "htw:{jobs}:htw:{jobs}:jobs"),
])
def test_name(servers, stream, queue):
    """The queue's name has the stream's slot, and leads back to the stream."""
    server = servers.start("--save", "", "--cluster-enabled", "yes")
    r = server.client()
    r.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    wait(lambda: "cluster_state:ok" in r.execute_command("CLUSTER", "INFO"))
    assert r.execute_command("CLUSTER", "KEYSLOT", stream) == \
        r.execute_command("CLUSTER", "KEYSLOT", queue)
    htw = Htw(r)
    htw.add(stream, HOUR, "p", "ID", "a")
    assert r.keys() == [queue] and htw.info(stream)["key"] == queue
    htw.mod(stream, "a", 0)
    [entry] = htw.delivered(stream, 1)
    assert entry["payload"] == "p"


@pytest.mark.parametrize("command", ["DEL", "UNLINK"])
def test_delete(r, htw, command):
    fill(htw)
    fill(htw, "other", 3)
    assert armed(htw) == 103
    assert r.execute_command(command, QUEUE) == 1
    assert armed(htw) == htw.info()["pending"] == 3


def test_overwrite(r, htw):
    fill(htw)
    r.set(QUEUE, "x")
    assert armed(htw) == 0
    r.delete(QUEUE)
    fill(htw)
    fill(htw, "other", 7)
    r.rename("htw:{other}:other", QUEUE)
    assert armed(htw) == htw.info("jobs")["pending"] == 7


def test_ttl_of_the_queue(r, htw):
    fill(htw)
    htw.expire("on")
    r.pexpire(QUEUE, 20)
    wait(lambda: not htw.info()["timers"], "end of the queue")
    assert htw.info()["pending"] == 0 and htw.info()["delivered"] == 0


def test_ttl_passes_when_a_timeout_is_due(r, htw):
    """The queue is deleted by being opened for delivery."""
    r.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", "0")
    at_once(r, ("HTW.ADD", "jobs", 300, "p"), ("PEXPIRE", QUEUE, 100))
    wait(lambda: not htw.info()["timers"], "end of the queue")
    assert not r.exists("jobs") and not r.exists(QUEUE)


def test_rename(r, htw):
    htw.add("jobs", HOUR, "p", "ID", "a")
    r.rename(QUEUE, "htw:{tasks}:tasks")
    assert htw.info("tasks")["armed"] == 1 and htw.info("jobs")["pending"] == 0
    htw.mod("tasks", "a", 0)
    [entry] = htw.delivered("tasks", 1)
    assert entry["id"] == "a"
    assert not r.exists("jobs")


def test_rename_of_stream_and_queue(r, htw):
    htw.add("jobs", 0, "first")
    htw.delivered("jobs", 1)
    at_once(r, ("HTW.ADD", "jobs", 50, "second"), ("RENAME", "jobs", "tasks"),
            ("RENAME", QUEUE, "htw:{tasks}:tasks"))
    assert [e["payload"] for e in htw.delivered("tasks", 2)] == ["first", "second"]


@pytest.mark.parametrize("name", ["parked", "htw:{jobs}jobs", "htw:{jobs}:tasks", "htw:{}:", "htw:{"])
def test_parked(r, htw, name):
    """A queue whose name is no stream's waits."""
    fill(htw, count=10)
    due = htw.now() + 50
    at_once(r, ("HTW.AT", "jobs", due, "p", "ID", "due"), ("RENAME", QUEUE, name))
    wait(lambda: htw.now() > due + 50, "time at which it is due")
    info = htw.info()
    assert (info["pending"], info["armed"], info["parked"]) == (11, 0, 11)
    r.rename(name, QUEUE)
    assert len(htw.delivered("jobs", 1)) == 1
    assert armed(htw) == 10 and htw.info()["parked"] == 0


def test_copy(r, htw):
    fill(htw, count=10)
    _, copied, info = at_once(r, ("HTW.ADD", "jobs", 50, "p", "ID", "due"),
                              ("COPY", QUEUE, "htw:{tasks}:tasks"), ("HTW.INFO",))
    assert copied == 1 and pairs(info)["armed"] == 22
    assert htw.delivered("jobs", 1)[0]["id"] == htw.delivered("tasks", 1)[0]["id"] == "due"
    htw.cancel("jobs", "3")
    assert htw.info("tasks", "3")["payload"] == "payload 3"
    assert r.copy(QUEUE, QUEUE, destination_db=4)
    assert armed(htw) == 9 + 10 + 9


def test_move_and_swap(server, r, htw):
    htw.add("jobs", HOUR, "p", "ID", "p")
    r.move(QUEUE, 5)
    in_5 = Htw(server.client(db=5))
    assert in_5.info("jobs")["armed"] == 1 and htw.info("jobs")["pending"] == 0
    at_once(r, ("HTW.ADD", "jobs", 50, "q"), ("SWAPDB", 0, 5))
    htw.mod("jobs", "p", 0)
    assert in_5.delivered("jobs", 1)[0]["payload"] == "q"
    assert htw.delivered("jobs", 1)[0]["payload"] == "p"


@pytest.mark.parametrize("how", ["SYNC", "ASYNC"])
def test_flush(server, r, htw, how):
    fill(htw)
    in_5 = Htw(server.client(db=5))
    fill(in_5, count=7)
    r.execute_command("FLUSHDB", how)
    assert armed(htw) == htw.info()["pending"] == 7
    fill(htw)
    r.execute_command("FLUSHALL", how)
    assert armed(htw) == htw.info()["pending"] == 0
    fill(htw, count=1)
    assert armed(htw) == 1


def test_dump_and_restore(r, htw):
    fill(htw)
    htw.add("jobs", HOUR, "p", "ID", "due")
    dump = redis.Redis(port=r.connection_pool.connection_kwargs["port"]).dump(QUEUE)
    digest = r.execute_command("DEBUG", "DIGEST-VALUE", QUEUE)
    r.delete(QUEUE)
    assert armed(htw) == 0
    r.restore(QUEUE, 0, dump)
    assert r.execute_command("DEBUG", "DIGEST-VALUE", QUEUE) == digest
    assert armed(htw) == 101
    with pytest.raises(redis.ResponseError, match="BUSYKEY"):
        r.restore(QUEUE, 0, dump)
    r.restore(QUEUE, 0, dump, replace=True)
    assert armed(htw) == 101
    # With a TTL that has passed the value is dropped right after it was loaded.
    r.restore("htw:{b}:b", 1, dump, absttl=True)
    assert armed(htw) == 101
    htw.mod("jobs", "due", 0)
    assert [e["id"] for e in htw.delivered("jobs", 1)] == ["due"]


def test_damaged_dump(r, htw):
    """What was not written by a save is refused, and leaves nothing."""
    fill(htw, count=3)
    raw = redis.Redis(port=r.connection_pool.connection_kwargs["port"])
    dump = raw.dump(QUEUE)
    r.delete(QUEUE)
    r.config_set("sanitize-dump-payload", "yes")
    body, refused = dump[:-10], 0
    for at in range(len(body)):
        for value in (0, 1, 0x7f, 0xff):
            damaged = body[:at] + bytes([value]) + body[at + 1:] + dump[-10:-8]
            damaged += crc64(damaged).to_bytes(8, "little")
            try:
                raw.restore(QUEUE, 0, damaged, replace=True)
            except redis.ResponseError:
                refused += 1
                continue
            for n in range(3):
                reply = raw.execute_command("HTW.INFO", "jobs", n)
                assert reply is None or 0 <= reply[1] <= (2**63 - 1) // 10**6
    assert refused > len(body)
    r.flushall()
    assert armed(htw) == htw.info()["pending"] == 0


def crc64(data):
    """The Jones polynomial, reflected, as in DUMP's last eight bytes."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x95ac9329ac4bc9b5 if crc & 1 else 0)
    return crc


IDS = {"made": "", "numbers": ", 'ID', n", "digests": ", 'ID', redis.sha1hex(n)",
       "paths": ", 'ID', 'some/path/that/all/have/' .. n .. '/and/an/end'"}


@pytest.mark.parametrize("word", IDS.values(), ids=IDS.keys())
def test_memory(r, htw, word):
    """The server knows what a queue takes, its timers as well, and gets it back."""
    count = 200_000

    def memory():
        return r.info("memory")["used_memory"]

    def resident():
        with open(f"/proc/{r.info('server')['process_id']}/status", encoding="utf-8") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))

    r.eval(f"for n = 1, 2 do redis.call('HTW.ADD', 'warm', '{HOUR}', n) end", 0)
    before, before_rss = memory(), resident()
    r.eval(f"for n = 1, {count} do redis.call('HTW.ADD', 'jobs', '{HOUR}', 'payload'{word}) end", 0)
    # The timers have 64 bytes each, and are counted in a moment, in units of a MiB.
    wait(lambda: memory() - before >= r.memory_usage(QUEUE) * 0.93, "account of the timers")
    held = memory() - before
    for said in (r.memory_usage(QUEUE), r.memory_usage(QUEUE, samples=0), htw.info("jobs")["memory"]):
        assert 0.9 < said / held < 1.1
    assert 0.9 < held / (resident() - before_rss) < 1.15
    r.flushall(asynchronous=True)
    wait(lambda: memory() < before + (2 << 20), "memory that is freed")
    r.memory_purge()
    wait(lambda: resident() < before_rss + (12 << 20), "memory that is given back")


def test_eviction(r, htw):
    """A queue is evicted as any key; its timers end with it."""
    fill(htw)
    r.config_set("maxmemory-policy", "allkeys-lru")
    r.config_set("maxmemory", 1)
    with pytest.raises(redis.ResponseError, match="command not allowed when used memory"):
        r.set("k", "v")
    assert armed(htw) == htw.info()["pending"] == 0 and r.info()["evicted_keys"] == 1


def test_out_of_memory(r, htw):
    """Nothing is added any more, and what is pending is delivered."""
    htw.add("jobs", 300, "p")
    r.config_set("maxmemory", 1)
    with pytest.raises(redis.ResponseError, match="command not allowed when used memory"):
        htw.add("jobs", 1, "q")
    assert [e["payload"] for e in htw.delivered("jobs", 1)] == ["p"]
    assert armed(htw) == 0
