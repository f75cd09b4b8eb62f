# SPDX-License-Identifier: MIT
"""A queue of many timeouts keeps nobody waiting when it goes or moves."""

import time

import pytest
from server import PATIENCE, Htw, at_once, pairs, wait

HOUR = 3600 * 1000
QUEUE = "htw:{jobs}:jobs"
MANY = 500_000

# Milliseconds of the server; with one thing done for each timeout it takes from 70 on. Beside other
# work the server may not run for as long, but not each time.
SHORT = 15
TRIES = 5

FILL = """
for n = 1, ARGV[1] do redis.call('HTW.ADD', KEYS[1], ARGV[2] + n, 'payload', 'ID', n) end
"""


def fill(r, stream="jobs", count=MANY):
    r.eval(FILL, 1, stream, count, HOUR)
    assert Htw(r).info(stream)["armed"] == count


def took(r, *command):
    """Run a command, and return how long the server was at it, in ms, and what HTW.INFO says then."""
    r.config_resetstat()
    _, info = at_once(r, command, ("HTW.INFO",))
    stats = r.info("commandstats")
    [ms] = [value["usec"] / 1000 for name, value in stats.items()
            if name.partition("|")[0] == f"cmdstat_{command[0].lower()}"]
    return ms, pairs(info)


def ending(htw):
    """Wait until all timers are stopped; return how many numbers were seen on the way."""
    seen, end = set(), time.monotonic() + PATIENCE
    while 0 not in seen:
        seen.add(htw.info()["ending"])
        assert time.monotonic() < end
    return len(seen)


GONE = {
    "UNLINK": ["UNLINK", QUEUE],
    "DEL": ["DEL", QUEUE],
    "SET": ["SET", QUEUE, "value"],
    "RENAME": ["RENAME", "other", QUEUE],
    "FLUSHDB": ["FLUSHDB", "ASYNC"],
    "FLUSHALL": ["FLUSHALL", "ASYNC"],
}


@pytest.mark.parametrize("command", GONE.values(), ids=GONE.keys())
def test_gone(r, htw, command):
    """The timers are stopped in portions, and others are served meanwhile."""
    for _ in range(TRIES):
        r.delete(QUEUE)
        fill(r)
        r.set("other", "value")
        ms, info = took(r, *command)
        assert (info["pending"], info["armed"], info["streams"]) == (0, 0, 0)
        assert info["ending"] == info["timers"] == MANY
        seen = ending(htw)
        assert htw.info()["timers"] == 0
        # All, none, and something in between.
        if ms < SHORT and seen > 2:
            break
    else:
        pytest.fail(f"{ms} ms, {seen} numbers")
    r.delete(QUEUE)
    htw.add("jobs", 1, "p")
    assert htw.delivered("jobs", 1)[0]["payload"] == "p"


MOVES = (["RENAME", QUEUE, "htw:{tasks}:tasks"], ["MOVE", "htw:{tasks}:tasks", 5], ["SWAPDB", 0, 5],
         ["RENAME", "htw:{tasks}:tasks", "parked"], ["RENAME", "parked", QUEUE])


def test_moved(server, r, htw):
    """A queue that is renamed or moved keeps its timers."""
    fill(r)
    shortest = [SHORT] * len(MOVES)
    for _ in range(TRIES):
        for n, command in enumerate(MOVES):
            ms, info = took(r, *command)
            shortest[n] = min(shortest[n], ms)
            assert (info["pending"], info["timers"], info["ending"]) == (MANY, MANY, 0)
            assert (info["armed"], info["parked"]) == ((0, MANY) if command[-1] == "parked" else (MANY, 0))
        if max(shortest) < SHORT:
            break
    assert max(shortest) < SHORT, shortest
    htw.mod("jobs", MANY, 0)
    assert [e["id"] for e in htw.delivered("jobs", 1)] == [str(MANY)]


def test_room_of_those_that_are_gone(servers):
    """Timers of what was deleted are no reason to refuse new ones."""
    r = servers.start("--save", "", module=("LIMIT", "10000")).client()
    htw = Htw(r)
    for command in (["DEL", QUEUE], ["FLUSHALL", "ASYNC"]):
        fill(r, count=10000)
        with r.pipeline(transaction=True) as pipe:
            pipe.execute_command(*command)
            for n in range(10000):
                pipe.execute_command("HTW.ADD", "tasks", HOUR, "p")
            pipe.execute_command("HTW.INFO")
            pipe.execute()
        assert htw.info()["armed"] == htw.info()["timers"] == 10000
        r.flushall()
        ending(htw)


def test_due_while_it_goes(r, htw):
    """What comes due in a queue that is gone comes nowhere."""
    for n in range(3):
        r.delete("tasks")
        r.eval("for n = 1, ARGV[1] do redis.call('HTW.ADD', 'jobs', 100 + n % 100, 'p') end "
               f"redis.call('{['UNLINK', 'RENAME', 'FLUSHDB'][n]}', unpack(ARGV, 2))", 0, 200_000,
               *[[QUEUE], [QUEUE, "parked"], []][n])
        htw.add("tasks", 300, "p")
        htw.delivered("tasks", 1)
        ending(htw)
        assert not r.exists("jobs")
        assert htw.info()["delivered"] == n + 1 and htw.info()["armed"] == 0
    assert htw.info()["timers"] == 0


def test_order_after_parking(r, htw):
    """Some are in line, some came due while parked, some are due later: all come in order."""
    r.set("jobs", "no stream")
    fill = "for n = 1, 300 do redis.call('HTW.ADD', 'tasks', n * 3, n) end redis.call('RENAME', KEYS[1], KEYS[2])"
    r.eval(fill, 2, "htw:{tasks}:tasks", QUEUE)
    wait(lambda: htw.info("jobs")["waiting"] > 50, "some in line")
    r.rename(QUEUE, "parked")
    now = htw.now()
    wait(lambda: htw.now() > now + 200, "some due while parked")
    r.delete("jobs")
    r.rename("parked", QUEUE)
    assert [e["payload"] for e in htw.delivered("jobs", 300)] == [str(n) for n in range(1, 301)]
