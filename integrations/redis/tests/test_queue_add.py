# SPDX-License-Identifier: MIT
"""What may be asked for when a job is added: repetition, ids that are kept, fields, many at once."""

import random
import time

import pytest
import redis
from server import Htw, at_once, in_step, link, rewrite_aof, same, wait

HOUR = 3600 * 1000
QUEUE = "htw:{jobs}:jobs"

AOF = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")
COMMANDS = (*AOF, "--aof-use-rdb-preamble", "no")


def entries(r, stream="jobs"):
    return [fields for _, fields in r.xrange(stream)]


def test_replace(r, htw):
    """A debounce: of all that were added only the last comes, at its time."""
    assert htw.add("jobs", 1, "first", "ID", "a", "REPLACE") == "a"
    wait(lambda: r.xlen("jobs") == 1)
    for n in range(20):
        htw.add("jobs", 300, n, "ID", "a", "REPLACE")
    [_, entry] = htw.delivered("jobs", 2)
    assert entry["payload"] == "19" and htw.info()["timers"] == 0
    with pytest.raises(redis.ResponseError, match="ID"):
        htw.add("jobs", 1, "p", "REPLACE")


def test_replace_leaves_nothing_of_the_old(r, htw):
    htw.add("jobs", HOUR, "p", "ID", "a", "EVERY", 1000, "FIELDS", "x", "y")
    htw.add("jobs", 0, "q", "ID", "a", "REPLACE")
    wait(lambda: r.xlen("jobs") == 1)
    [fields] = entries(r)
    assert set(fields) == {"id", "due", "late", "payload"} and not r.exists(QUEUE)


def test_once(r, htw):
    """An id that is pending, or was delivered a while ago, is not added again."""
    assert htw.add("jobs", 50, "p", "ID", "a", "ONCE", 1000) == "a"
    assert htw.add("jobs", 0, "q", "ID", "a", "ONCE", 300) is None
    [entry] = htw.delivered("jobs", 1)
    assert htw.add("jobs", 0, "q", "ID", "a", "ONCE", 300) is None
    with pytest.raises(redis.ResponseError, match="^BUSYID"):
        htw.add("jobs", 0, "q", "ID", "a")
    # It is no job.
    assert htw.info("jobs", "a") is None and htw.mod("jobs", "a", 0) == 0
    assert r.execute_command("HTW.LIST", "jobs", "PENDING") == r.execute_command("HTW.LIST", "jobs", "PENDING", "BY", "ID") == ["", []]
    wait(lambda: not r.exists(QUEUE), "end of the id")
    assert htw.now() >= entry["at"] + 1000
    assert htw.add("jobs", 0, "q", "ID", "a", "ONCE", HOUR) == "a"
    wait(lambda: r.xlen("jobs") == 2)
    # It is given free.
    assert htw.cancel("jobs", "a") == 0 and not r.exists(QUEUE)
    assert [fields["payload"] for fields in entries(r)] == ["p", "q"] and htw.info()["delivered"] == 2


def test_list_beside_ids_that_are_kept(r, htw):
    """A page by id costs what is in it, however many ids are kept: then it is short, and the cursor leads on."""
    count = 5000
    r.eval("for n = 1, ARGV[1] do redis.call('HTW.ADD', KEYS[1], 0, '', 'ID', 'k' .. n, 'ONCE', ARGV[2]) end", 1, "jobs",
           count, HOUR)
    wait(lambda: r.xlen("jobs") == count, "entries")
    for id_ in "a", "z":
        htw.add("jobs", HOUR, "p", "ID", id_)
    shown, cursor, turns = [], "", 0
    while turns == 0 or cursor:
        [cursor, page] = r.execute_command("HTW.LIST", "jobs", "PENDING", "BY", "ID", "CURSOR", cursor)
        shown += [row[0] for row in page]
        turns += 1
    assert shown == ["a", "z"] and turns == count // 1000 + 1
    assert [row[0] for row in r.execute_command("HTW.LIST", "jobs", "PENDING")[1]] == ["a", "z"]


@pytest.mark.parametrize("how", ["paused", "another type", "too few replicas", "restarted"])
def test_once_ends_on_time(servers, how):
    """What holds up deliveries does not hold up the end of an id that is kept, and nothing is left of it."""
    server, replica = servers.start(*AOF), servers.start("--save", "")
    link(server, replica)
    r, htw = server.client(), Htw(server.client())
    htw.add("jobs", 0, "p", "ID", "a", "ONCE", 1500)
    end = htw.delivered("jobs", 1)[0]["at"] + 1500
    if how == "paused":
        r.execute_command("HTW.SET", "jobs", "PAUSED", 1)
    elif how == "another type":
        r.delete("jobs")
        at_once(r, ("HTW.ADD", "jobs", 0, "q"), ("SET", "jobs", "x"))
    elif how == "restarted":
        server.stop()
        wait(lambda: time.time() * 1000 > end, "end of the id")
        server.start()
        r, htw = server.client(), Htw(server.client())
    else:
        r.config_set("min-replicas-to-write", 5)
    pending = 1 if how == "another type" else 0
    wait(lambda: htw.info("jobs")["pending"] == pending, "end of the id")
    assert htw.now() >= end
    r.config_set("min-replicas-to-write", 0)
    link(server, replica)
    in_step(server, replica)
    assert same(server, replica)
    assert r.exists(QUEUE) == (how in ("paused", "another type"))


def test_once_ends_where_it_is_asked(servers):
    """An id is free when its time is over, also before the server has come to its timer."""
    server = servers.start("--save", "")
    r, htw = server.client(), Htw(server.client())
    htw.add("jobs", 0, "p", "ID", "a", "ONCE", 300)
    htw.delivered("jobs", 1)
    [_, got] = at_once(r, ("DEBUG", "SLEEP", "0.4"), ("HTW.ADD", "jobs", HOUR, "q", "ID", "a", "ONCE", 1))
    assert got == "a" and htw.info("jobs", "a")["payload"] == "q"


def test_every(r, htw):
    """In phase with the first, whatever the lateness of each."""
    first = htw.now() + 20
    htw.at("jobs", first, "p", "ID", "a", "EVERY", 50)
    got = htw.delivered("jobs", 8)
    assert htw.cancel("jobs", "a") == 1
    due = first
    for entry in got:
        assert entry["due"] == due
        due += 50 * (1 + int(entry["missed"]))
        assert entry["due"] + 50 * int(entry["missed"]) <= entry["at"] < due
    count = r.xlen("jobs")
    assert htw.add("jobs", 60, "end") and htw.delivered("jobs", count + 1)[-1]["payload"] == "end"


def test_every_misses(r, htw):
    """What was missed while nothing was delivered is counted, and not made up for."""
    r.execute_command("HTW.SET", "jobs", "PAUSED", 1)
    first = htw.now() + 20
    htw.at("jobs", first, "p", "ID", "a", "EVERY", 10)
    wait(lambda: htw.now() > first + 400)
    r.execute_command("HTW.SET", "jobs", "PAUSED", 0)
    entry = htw.delivered("jobs", 1)[0]
    assert entry["due"] == first and int(entry["missed"]) >= 39
    assert htw.delivered("jobs", 2)[1]["due"] == first + 10 * (int(entry["missed"]) + 1)


def test_every_ends_with_the_clock(r, htw):
    htw.add("jobs", 0, "p", "EVERY", 2**62 // 1000000)
    htw.delivered("jobs", 1)
    wait(lambda: htw.info("jobs")["pending"] == 1)


def test_fields(r, htw):
    htw.add("jobs", 0, "", "ID", "a", "FIELDS", "to", "you", "text", "a b")
    htw.add("jobs", 0, "p", "ID", "b", "FIELDS", "to", "")
    wait(lambda: r.xlen("jobs") == 2)
    for fields in (first := entries(r)):
        del fields["due"], fields["late"]
    assert first == [{"id": "a", "to": "you", "text": "a b"}, {"id": "b", "payload": "p", "to": ""}]


def test_madd(r, htw):
    """Many in one command, or none."""
    got = r.execute_command("HTW.MADD", "jobs", 0, "a", HOUR, "b", 0, "c")
    assert len(set(got)) == 3
    assert [entry["payload"] for entry in htw.delivered("jobs", 2)] == ["a", "c"]
    assert htw.info("jobs", got[1])["payload"] == "b"
    with pytest.raises(redis.ResponseError, match="time"):
        r.execute_command("HTW.MADD", "jobs", 1, "a", "x", "b")
    assert htw.info("jobs")["pending"] == htw.info()["timers"] == 1


def madd(r, *jobs):
    return r.execute_command("HTW.MADD", "jobs", *(word for job in jobs for word in job))


def test_madd_options(servers):
    """Each has its own options, in any order, and what follows FIELDS is counted."""
    server, replica = servers.start(*COMMANDS), servers.start("--save", "")
    link(server, replica)
    r, htw = server.client(), Htw(server.client())
    got = madd(r, (HOUR, "p", "ID", "a", "ONCE", HOUR), (HOUR, "", "FIELDS", 2, "7", "8", "id", "9", "ID", "b"),
               (HOUR, "ID"), (HOUR, "q", "every", 5000), (HOUR, "r", "ID", "c", "REPLACE"),
               (HOUR, "7", "FIELDS", 1, "FIELDS", "1"))
    assert got[:2] == ["a", "b"] and got[4] == "c" and len(set(got)) == 6
    rows = {row[0]: row[2:] for row in r.execute_command("HTW.LIST", "jobs", "PENDING")[1]}
    assert rows == {"a": ["p", ["ONCE", str(HOUR)]], "b": ["", ["FIELDS", "7", "8", "id", "9"]], got[2]: ["ID", []],
                    got[3]: ["q", ["EVERY", "5000"]], "c": ["r", []], got[5]: ["7", ["FIELDS", "FIELDS", "1"]]}
    # Those that are there already, in the queue or in the command, are null with ONCE, and replaced with REPLACE.
    again = madd(r, (HOUR, "x", "ID", "a", "ONCE", 1), (HOUR, "y", "ID", "d", "ONCE", 1),
                 (HOUR, "z", "ID", "d", "ONCE", 1), (HOUR, "s", "ID", "c", "REPLACE"),
                 (HOUR, "t", "ID", "c", "REPLACE"))
    assert again == [None, "d", None, "c", "c"]
    assert [htw.info("jobs", id_)["payload"] for id_ in "adc"] == ["p", "y", "t"]
    assert madd(r, (HOUR, "x", "ID", "a", "ONCE", 1)) == [None]
    # One that is refused: none is added, and no timer is left.
    for words in ((HOUR, "x", "ID", "a"), (HOUR, "x", "ID", "new"), (HOUR, "x", "FIELDS", 2, "a", "b"),
                  ("FIELDS", "x")):
        with pytest.raises(redis.ResponseError):
            madd(r, (HOUR, "x", "ID", "new"), words)
    assert htw.info()["timers"] == htw.info("jobs")["pending"] == 7
    in_step(server, replica)
    assert same(server, replica)
    digest = r.execute_command("DEBUG", "DIGEST-VALUE", QUEUE)
    server.kill()
    assert server.start().client().execute_command("DEBUG", "DIGEST-VALUE", QUEUE) == digest


def test_madd_of_nothing(r, htw):
    """What is in use already changes nothing, and makes no key."""
    madd(r, (0, "p", "ID", "a", "ONCE", HOUR), (0, "p", "ID", "b"))
    htw.delivered("jobs", 2)
    with r.pipeline() as watcher:
        watcher.watch(QUEUE, "jobs")
        assert madd(r, (0, "p", "ID", "a", "ONCE", 1)) == [None]
        watcher.multi()
        watcher.ping()
        assert watcher.execute() == [True]
    assert at_once(r, ("HTW.MADD", "jobs", HOUR, "p", "ID", "c", "ONCE", 1)) == [["c"]]
    script = "return redis.call('HTW.MADD', KEYS[1], 3600000, 'p', 'ID', 'c', 'ONCE', '1', '3600000', 'q', 'ID', 'd')"
    assert r.eval(script, 1, "jobs") == [None, "d"]


MADD_BAD = {
    "1": "arguments", "1 p 2": "syntax", "1 p ONCE 5": "ID", "1 p ID a ONCE 5 EVERY 5": "ONCE", "1 p EVERY 0": "time",
    "1 p FIELDS 0": "syntax", "1 p FIELDS 1 a": "syntax", "1 p FIELDS a b": "syntax", "1 p FIELDS 1 a b c": "time",
    "1 p FIELDS 1 a b FIELDS 1 c d": "time", "1 p NEVER 5": "time", "1 p ID": "time", "1 p ID a 1 q ID a": "BUSYID",
    "1 p FIELDS 9223372036854775807 a b": "syntax", "1 p FIELDS -1 a b": "syntax",
}


@pytest.mark.parametrize("words, error", MADD_BAD.items())
def test_madd_errors(r, htw, words, error):
    for first in [], [HOUR, "p", "FIELDS", 1, "a", "b"]:
        if error == "arguments" and first:
            continue
        with pytest.raises(redis.ResponseError, match=error):
            r.execute_command("HTW.MADD", "jobs", *first, *words.split())
    assert r.dbsize() == 0 and htw.info()["timers"] == 0


def test_madd_at_the_limit(servers):
    server = servers.start("--save", "", module=("LIMIT", "5"))
    htw = Htw(server.client())
    with pytest.raises(redis.ResponseError, match="^LIMIT"):
        htw.r.execute_command("HTW.MADD", "jobs", *[HOUR, "p"] * 6)
    assert htw.info()["timers"] == 0 and not htw.r.exists(QUEUE)
    assert len(htw.r.execute_command("HTW.MADD", "jobs", *[HOUR, "p"] * 5)) == 5
    # A lease that finds no room is there all the same, and ends when there is.
    htw.r.xadd("jobs", {"a": "b"})
    assert len(htw.r.execute_command("HTW.TAKE", "jobs", "g", "one", "LEASE", 1)) == 1
    assert htw.info("jobs")["leased"] == 1
    htw.cancel("jobs", *[row[0] for row in htw.r.execute_command("HTW.LIST", "jobs", "PENDING")[1]])
    assert htw.r.execute_command("HTW.TAKE", "jobs", "g", "two", "BLOCK", 0)[0][1] == 2


def test_trim(r, htw):
    """The stream is trimmed at each job that comes due."""
    r.execute_command("HTW.SET", "jobs", "MAXLEN", 100)
    with r.pipeline(transaction=False) as pipe:
        for n in range(1000):
            pipe.xadd("jobs", {"n": n})
        pipe.execute()
    htw.add("jobs", 0, "p")
    wait(lambda: htw.info()["delivered"] == 1)
    assert 100 <= r.xlen("jobs") <= 300
    r.execute_command("HTW.SET", "jobs", "MAXLEN", 0, "MAXAGE", 1)
    last = htw.now()
    wait(lambda: htw.now() > last + 2)
    htw.add("jobs", 0, "q")
    wait(lambda: htw.info()["delivered"] == 2)
    assert r.xlen("jobs") <= 100


BAD = {"EVERY 0": "time", "EVERY": "syntax", "ONCE 5": "ID", "ID a ONCE 5 REPLACE": "ONCE", "ID a ONCE 5 EVERY 5": "ONCE",
       "FIELDS a": "syntax", "ID a NEVER": "syntax", "EVERY 9223372036854775807": "time", "ID": "syntax"}


@pytest.mark.parametrize("words, error", BAD.items())
def test_errors(r, words, error):
    with pytest.raises(redis.ResponseError, match=error):
        r.execute_command("HTW.ADD", "jobs", 1, "p", *words.split())
    assert r.dbsize() == 0


@pytest.mark.parametrize("options, rewrite", [(AOF, False), (AOF, True), (COMMANDS, True), (("--save", "3600 1"), False)],
                         ids=["aof", "aof rewritten", "commands", "rdb"])
def test_restart(servers, options, rewrite):
    server = servers.start(*options)
    replica = servers.start("--save", "")
    link(server, replica)
    r, htw = server.client(), Htw(server.client())
    htw.add("jobs", 0, "p", "ID", "kept", "ONCE", HOUR)
    htw.add("jobs", HOUR, "p", "ID", "once", "ONCE", HOUR)
    htw.add("jobs", 0, "p", "ID", "every", "EVERY", HOUR, "FIELDS", "a", "b")
    redis.Redis(port=server.port).execute_command("HTW.ADD", "jobs", HOUR, "", "FIELDS", *[bytes(range(256))] * 20)
    htw.delivered("jobs", 2)
    in_step(server, replica)
    assert same(server, replica)
    digest = r.execute_command("DEBUG", "DIGEST-VALUE", QUEUE)
    if rewrite:
        rewrite_aof(r)
    server.stop()
    server.start()
    r, htw = server.client(), Htw(server.client())
    assert r.execute_command("DEBUG", "DIGEST-VALUE", QUEUE) == digest
    assert htw.add("jobs", 0, "q", "ID", "kept", "ONCE", 1) is None
    assert r.copy(QUEUE, "parked") and r.execute_command("DEBUG", "DIGEST-VALUE", "parked") == digest
    dump = redis.Redis(port=server.port).dump(QUEUE)
    r.restore("again", 0, dump)
    assert r.execute_command("DEBUG", "DIGEST-VALUE", "again") == digest


def test_dump_that_is_broken(r, htw):
    """No byte of a dump that is changed or missing does any harm, whatever is loaded of it."""
    htw.add("jobs", HOUR, "p", "ID", "a", "EVERY", 5000, "FIELDS", "x", "y")
    htw.add("jobs", HOUR, "p", "ID", "b", "ONCE", 5000)
    r.execute_command("HTW.SET", "jobs", "LEASE", 5)
    r.xadd("jobs", {"a": "b"})
    r.execute_command("HTW.TAKE", "jobs", "g", "c")
    raw = redis.Redis(port=r.connection_pool.connection_kwargs["port"])
    raw.execute_command("DEBUG", "SET-SKIP-CHECKSUM-VALIDATION", 1)
    dump = raw.dump(QUEUE)
    # The last eight bytes are a checksum, before them is a version.
    body, loaded = dump[:-8], 0
    for at in range(len(body) - 2):
        for change in (body[:at] + bytes([random.randrange(256)]) + body[at + 1:], body[:at] + body[-2:]):
            try:
                raw.restore("again", 0, change + bytes(8), replace=True)
                loaded += 1
            except redis.ResponseError:
                pass
    assert raw.ping() and loaded > 0


@pytest.mark.parametrize("command", ["HTW.ADD", "HTW.MADD"])
def test_once_again_when_the_id_ends(servers, command):
    """An id that is taken as its time is over is taken on the replica and in the file as well."""
    server, replica = servers.start(*AOF), servers.start("--save", "")
    link(server, replica)
    r, htw = server.client(), Htw(server.client())
    htw.add("jobs", 0, "p", "ID", "a", "ONCE", 300)
    htw.delivered("jobs", 1)
    at_once(r, ("DEBUG", "SLEEP", "0.4"), (command, "jobs", HOUR, "q", "ID", "a", "ONCE", 1))
    in_step(server, replica)
    assert same(server, replica)
    assert Htw(replica.client()).info("jobs", "a")["payload"] == "q"
    digest = r.execute_command("DEBUG", "DIGEST-VALUE", QUEUE)
    server.kill()
    assert server.start().client().execute_command("DEBUG", "DIGEST-VALUE", QUEUE) == digest


def test_kept_is_not_for_clients(r, htw):
    with pytest.raises(redis.ResponseError, match="KEPT"):
        htw.add("jobs", 1000, "p", "ID", "a", "KEPT")
    assert not r.exists(QUEUE)


def test_trim_by_both(r, htw):
    """MAXLEN counts where MAXAGE is set as well."""
    r.execute_command("HTW.SET", "jobs", "MAXLEN", 100, "MAXAGE", HOUR)
    for n in range(1000):
        r.xadd("jobs", {"n": n})
    htw.add("jobs", 0, "p")
    wait(lambda: htw.info()["delivered"] == 1, "delivery")
    assert 100 <= r.xlen("jobs") <= 300
