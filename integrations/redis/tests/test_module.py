# SPDX-License-Identifier: MIT
"""Loading and unloading the module."""

import contextlib
import os
import shutil
import subprocess

import pytest
import redis
from server import MODULE, ROOT, Htw, wait

HOUR = 3600 * 1000


def descriptors(server):
    """Return what the server has open but sockets."""
    pid, found = server.client().info("server")["process_id"], []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        # Our own connections come and go.
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return sorted(name for name in found if not name.startswith("socket:"))


def mappings(server):
    pid = server.client().info("server")["process_id"]
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        return maps.read()


def commands(r):
    return sorted(name for name in r.command() if name.startswith("htw"))


def load(server, r, *words):
    return r.execute_command("MODULE", "LOAD", server.inside(server.directory / "htw.so"), *words)


@pytest.fixture
def bare(servers):
    """A server that can load the module, and has not."""
    server = servers.make("--save", "", "--enable-module-command", "yes")
    server.module = None
    shutil.copy(MODULE, server.directory)
    return server.start()


def test_unload(bare):
    """With EXPIRE only the module can be unloaded, and leaves nothing, however often."""
    r = bare.client()
    before, size = descriptors(bare), r.dbsize()
    for n in range(3):
        load(bare, r, "EXPIRE", "only")
        assert commands(r) == ["htw.expire", "htw.info"]
        assert len(descriptors(bare)) > len(before)
        for m in range(1000):
            r.set(m, "v", ex=3600)
        wait(lambda: Htw(r).info()["expire"] == "on", "end of the scan")
        assert Htw(r).info()["keys"] == 1000
        r.set("soon", "v", px=1)
        # The server refuses while a module is about to be called.
        wait(lambda: r.dbsize() == 1000, "end of a key")
        r.execute_command("MODULE", "UNLOAD", "htw")
        assert descriptors(bare) == before
        assert commands(r) == [] and "htw.so" not in mappings(bare)
        r.set("k", "v", px=1)
        r.flushall()
        assert r.dbsize() == size


def test_unload_is_refused(bare):
    """The server does not unload a module with a data type; all stays as it is."""
    r = bare.client()
    load(bare, r)
    htw = Htw(r)
    htw.add("jobs", HOUR, "p")
    htw.add("jobs", 300, "q")
    with pytest.raises(redis.ResponseError, match="data type"):
        r.execute_command("MODULE", "UNLOAD", "htw")
    assert [e["payload"] for e in htw.delivered("jobs", 1)] == ["q"]
    assert htw.info()["armed"] == 1


def test_loaded_late(bare):
    """Loaded into a server with data."""
    r = bare.client()
    for n in range(100):
        r.set(n, "v", ex=3600)
    load(bare, r, "expire", "on")
    wait(lambda: Htw(r).info()["expire"] == "on", "end of the scan")
    assert Htw(r).info()["keys"] == 100


def test_loaded_late_on_a_replica(servers, bare):
    master = servers.start("--save", "")
    bare.client().replicaof("127.0.0.1", master.port)
    wait(lambda: bare.client().info("replication").get("master_link_status") == "up", "link")
    load(bare, bare.client())
    # On one connection: WAIT waits for what was written on it.
    htw = Htw(master.client())
    htw.add("jobs", HOUR)
    assert htw.r.wait(1, 60000) == 1
    info = Htw(bare.client()).info()
    assert (info["pending"], info["armed"]) == (1, 0)


RIGHTS = {
    "write only": ("%W~jobs +htw.add +htw.mod", ["HTW.ADD jobs 3600000 p ID a", "HTW.MOD jobs a 3600000"],
                   ["HTW.ADD other 3600000 p", "HTW.INFO jobs", "HTW.CANCEL jobs a"]),
    "read only": ("%R~jobs +@all", ["HTW.INFO jobs", "HTW.INFO"],
                  ["HTW.ADD jobs 3600000 p", "HTW.CANCEL jobs a", "HTW.MOD jobs a 1", "HTW.INFO other"]),
}


@pytest.mark.parametrize("rules, may, may_not", RIGHTS.values(), ids=RIGHTS.keys())
def test_rights(server, rules, may, may_not):
    """An ACL for the stream is one for its timeouts."""
    server.client().execute_command("ACL", "SETUSER", "user", "on", ">secret", *rules.split())
    user = server.client(username="user", password="secret")
    for command in may:
        user.execute_command(*command.split())
    for command in may_not:
        with pytest.raises(redis.exceptions.NoPermissionError):
            user.execute_command(*command.split())


def test_categories(r):
    """Categories have the commands, with servers that let a module say so."""
    if not r.execute_command("ACL", "CAT", "write").count("htw.add"):
        assert r.info("server")["redis_version"].startswith("7.0.")
        return
    for category, names in (("write", {"htw.add", "htw.at", "htw.cancel", "htw.mod"}),
                            ("read", {"htw.info"}), ("dangerous", {"htw.expire"})):
        assert {name for name in r.execute_command("ACL", "CAT", category)
                if name.startswith("htw.")} == names


BAD = [
    ("BACKEND",), ("BACKEND", "disk"), ("EXPIRE", "maybe"), ("LIMIT", "0"), ("LIMIT", "-1"),
    ("LIMIT", "many"), ("LIMIT",), ("FOO", "bar"), ("EXPIRE", "on", "on"),
]


@pytest.mark.parametrize("words", BAD, ids=" ".join)
def test_bad_arguments(bare, words):
    r = bare.client()
    before = descriptors(bare)
    with pytest.raises(redis.ResponseError):
        load(bare, r, *words)
    assert "the arguments are: BACKEND" in bare.text()
    assert descriptors(bare) == before and commands(r) == []


def test_limit_out_of_range(bare):
    with pytest.raises(redis.ResponseError):
        load(bare, bare.client(), "LIMIT", str(2**26 + 1))
    assert "cannot open the clock: Numerical result out of range" in bare.text()
    assert load(bare, bare.client(), "LIMIT", str(2**26)) == "OK"


@pytest.mark.skipif(os.path.exists(f"{ROOT}/dev/htw"), reason="this machine has the device")
def test_device(bare):
    """Without the device, DEVICE fails with the reason, and ANY takes the process."""
    r = bare.client()
    with pytest.raises(redis.ResponseError):
        load(bare, r, "BACKEND", "device")
    assert "cannot open the clock: No such file or directory" in bare.text()
    load(bare, r, "BACKEND", "any")
    assert Htw(r).info()["backend"] == "process"


def test_symbols():
    """The module exports its entry points and nothing of the library."""
    out = subprocess.run(["nm", "-D", "--defined-only", MODULE], capture_output=True, text=True,
                         check=True).stdout
    assert sorted(line.split()[2] for line in out.splitlines()) == \
        ["RedisModule_OnLoad", "RedisModule_OnUnload"]
