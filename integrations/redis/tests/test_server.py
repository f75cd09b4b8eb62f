# SPDX-License-Identifier: MIT
"""What the server shows of the module: notifications, INFO, CONFIG, COMMAND DOCS, tracking."""

import threading

import pytest
import redis
from server import Htw, Jobs, at_once, pairs, wait

HOUR = 3600 * 1000
QUEUE = "htw:{jobs}:jobs"


def notified(r, classes):
    """Have the server notify, and return a function that gets the next events."""
    r.config_set("notify-keyspace-events", classes)
    channel = r.pubsub()
    channel.psubscribe("__keyevent@*")
    assert channel.get_message(timeout=60)["type"] == "psubscribe"

    def events(count):
        messages = [channel.get_message(timeout=60) for _ in range(count)]
        return [(m["channel"].partition("__:")[2], m["data"]) for m in messages]

    return events


def test_notifications(server, r, htw):
    events = notified(r, "Egd")
    htw.add("jobs", HOUR, "p", "ID", "a")
    htw.add("jobs", HOUR, "p", "ID", "b")
    htw.mod("jobs", "a", 2 * HOUR)
    htw.cancel("jobs", "b", "none")
    htw.cancel("jobs", "none")
    htw.mod("jobs", "none", 1)
    assert events(4) == [("htw.add", QUEUE), ("htw.add", QUEUE), ("htw.mod", QUEUE), ("htw.cancel", QUEUE)]
    htw.cancel("jobs", "a")
    assert events(2) == [("htw.cancel", QUEUE), ("del", QUEUE)]
    at_once(r, ("HTW.ADD", "jobs", 1, "p"), ("HTW.ADD", "jobs", 50, "p"))
    assert events(5) == [("htw.add", QUEUE), ("htw.add", QUEUE), ("htw.fire", QUEUE), ("htw.fire", QUEUE),
                         ("del", QUEUE)]
    r.config_set("notify-keyspace-events", "Et")
    in_5 = Htw(server.client(db=5))
    in_5.add("jobs", 1, "p")
    assert events(1) == [("xadd", "jobs")]


ENTRY = "1-1"
CHANGES = {
    "HTW.ADD": ("HTW.ADD jobs 3600000 p", ["htw.add"]),
    "HTW.AT": ("HTW.AT jobs 9000000000000 p", ["htw.add"]),
    "HTW.MADD": ("HTW.MADD jobs 3600000 p 3600000 q", ["htw.add"]),
    "HTW.MOD": ("HTW.MOD jobs a 3600000", ["htw.mod"]),
    "HTW.CANCEL": ("HTW.CANCEL jobs a", ["htw.cancel", "del"]),
    "delivery": ("HTW.MOD jobs a 0", ["htw.mod", "htw.fire", "del"]),
    "HTW.SET": ("HTW.SET jobs LEASE 5", ["htw.set"]),
    "HTW.TAKE": ("HTW.TAKE jobs g c", ["htw.lease"]),
    "HTW.EXTEND": ("HTW.EXTEND jobs g c 3600000 1-1", ["htw.lease"]),
    "HTW.FAIL": ("HTW.FAIL jobs g c 1-1 RETRY 3600000", ["htw.lease"]),
    "HTW.FAIL DEAD": ("HTW.FAIL jobs g c 1-1 DEAD", ["htw.lease", "del"]),
    "HTW.DONE": ("HTW.DONE jobs g 1-1", ["htw.lease", "del"]),
    "lease ends": ("HTW.EXTEND jobs g c 0 1-1", ["htw.lease", "htw.lease"]),
}


@pytest.mark.parametrize("command, expected", CHANGES.values(), ids=CHANGES.keys())
def test_changes(r, command, expected):
    """What changes a queue is a change of its key and of the stream's, and notified of as its key's."""
    words = command.split()
    if words[0] in ("HTW.MOD", "HTW.CANCEL"):
        r.execute_command("HTW.ADD", "jobs", HOUR, "p", "ID", "a")
    if "g" in words:
        r.xadd("jobs", {"a": "b"}, id=ENTRY)
    if "g" in words and words[0] != "HTW.TAKE":
        # The entry stays, so that the server does not say for us that the stream has changed.
        r.xgroup_create("jobs", "other", "0")
        Jobs(r).take("c", "LEASE", HOUR)
    events = notified(r, "Egd")
    with r.pipeline() as queue, r.pipeline() as stream:
        queue.watch(QUEUE)
        stream.watch("jobs")
        r.execute_command(*words)
        assert events(len(expected)) == [(event, QUEUE) for event in expected]
        for watcher in queue, stream:
            watcher.multi()
            watcher.ping()
            with pytest.raises(redis.WatchError):
                watcher.execute()


def test_change_by_who_waited(server, r):
    """What a worker takes that has waited is a change as well."""
    thread = threading.Thread(target=lambda: Jobs(server.client()).take("c", "BLOCK", 0))
    thread.start()
    wait(lambda: r.info("clients")["blocked_clients"] == 1, "worker")
    events = notified(r, "Egd")
    r.xadd("jobs", {"a": "b"})
    assert events(1) == [("htw.lease", QUEUE)]
    thread.join()


def test_info(r, htw):
    """All of HTW.INFO is in INFO, with names that exporters can use."""
    htw.add("jobs", HOUR, "p")
    htw.add("jobs", 1, "p")
    htw.delivered("jobs", 1)
    section = r.info("htw")
    assert section == {f"htw_{name.replace('-', '_')}": value for name, value in htw.info().items()}
    assert (section["htw_pending"], section["htw_armed"], section["htw_delivered"]) == (1, 1, 1)
    assert "htw_pending" in r.info("everything") and section["htw_memory"] > 1000


def test_config(r, htw):
    assert r.config_get("htw.*") == {"htw.expire": "no", "htw.backend": "process", "htw.limit": "0"}
    r.config_set("htw.expire", "yes")
    assert htw.info()["expire"] in ("on", "scanning")
    htw.expire("off")
    assert r.config_get("htw.expire") == {"htw.expire": "no"}
    for name, value in (("htw.limit", 100), ("htw.backend", "any"), ("htw.expire", "only")):
        with pytest.raises(redis.ResponseError):
            r.config_set(name, value)


def test_config_of_a_file(servers):
    """The file's values count from the start, and arguments overrule them; CONFIG REWRITE keeps what was set."""
    server = servers.make("--save", "", "--htw.expire", "yes", "--htw.limit", "1000")
    htw = Htw(server.start().client())
    assert (htw.info()["expire"], htw.info()["limit"]) in (("on", 1000), ("scanning", 1000))
    server.stop()
    server.module = ("LIMIT", "2000", "EXPIRE", "off")
    htw = Htw(server.start().client())
    assert (htw.info()["expire"], htw.info()["limit"]) == ("off", 2000)
    assert htw.r.config_get("htw.limit") == {"htw.limit": "2000"}
    server.stop()
    with pytest.raises(ChildProcessError):
        servers.start("--htw.backend", "disk")


def test_docs(server):
    """COMMAND DOCS has the arguments, as redis-cli shows them."""
    connection = redis.Connection(port=server.port, decode_responses=True)
    connection.send_command("COMMAND", "DOCS", "htw.add", "htw.at", "htw.madd", "htw.cancel", "htw.mod", "htw.take", "htw.list", "htw.set",
                            "htw.info", "htw.expire")
    docs = pairs(connection.read_response())

    def words(arguments):
        return " ".join(word(pairs(a)) for a in arguments)

    def word(a):
        if a["type"] == "oneof":
            text = "|".join(word(pairs(sub)) for sub in a["arguments"])
        elif a["type"] == "block":
            text = words(a["arguments"])
        else:
            text = a["name"] if a["type"] != "pure-token" else ""
        if "multiple" in a.get("flags", ()):
            text += f" [{text} ...]"
        text = " ".join(filter(None, [a.get("token"), text]))
        return f"[{text}]" if "optional" in a.get("flags", ()) else text

    options = "[ID id] [REPLACE] [ONCE once] [EVERY every] [FIELDS name value [name value ...]]"
    each = "milliseconds payload " + options.replace("FIELDS", "FIELDS count")
    assert {name: words(pairs(doc)["arguments"]) for name, doc in docs.items()} == {
        "htw.add": f"stream milliseconds payload {options}",
        "htw.at": f"stream unix-time-milliseconds payload {options}",
        "htw.madd": f"stream {each} [{each} ...]",
        "htw.cancel": "stream id [id ...]",
        "htw.mod": "stream id milliseconds [ABSTTL]",
        "htw.take": "stream group consumer [COUNT count] [LEASE lease] [BLOCK block]",
        "htw.list": "stream PENDING [BY TIME|ID]|LEASED group [CURSOR cursor] [COUNT count]",
        "htw.set": "stream name value [name value ...]",
        "htw.info": "[stream [id]]",
        "htw.expire": "ON|OFF",
    }


def test_tracking(server, r, htw):
    """A client that has read a queue or its stream is told when that changes, also by a timeout."""
    htw.add("jobs", HOUR, "p", "ID", "a")
    listener = redis.Connection(port=server.port, decode_responses=True)
    listener.connect()
    listener.send_command("CLIENT", "ID")
    number = listener.read_response()
    reader = redis.Connection(port=server.port, decode_responses=True)

    def ask(*command):
        reader.send_command(*command)
        return reader.read_response()

    def told():
        """Wait for the next message, and return the keys in it."""
        assert listener.can_read(60)
        return listener.read_response()[2]

    listener.send_command("SUBSCRIBE", "__redis__:invalidate")
    listener.read_response()
    ask("CLIENT", "TRACKING", "ON", "REDIRECT", number)
    for read, key in (("HTW.INFO", "jobs"), ("TYPE", QUEUE)):
        for change in (["HTW.MOD", "jobs", "a", 2 * HOUR], ["HTW.ADD", "jobs", HOUR, "p", "ID", "b"],
                       ["HTW.CANCEL", "jobs", "b"]):
            ask(read, key)
            r.execute_command(*change)
            assert told() == [key], change
    ask("TYPE", QUEUE)
    r.rename(QUEUE, "parked")
    assert told() == [QUEUE]
    r.rename("parked", QUEUE)
    at = htw.now() + 100
    htw.mod("jobs", "a", 100)
    for read, key in (("XLEN", "jobs"), ("TYPE", QUEUE), ("HTW.INFO", "jobs")):
        ask(read, key)
    assert {*told(), *told()} == {"jobs", QUEUE} and htw.now() >= at
