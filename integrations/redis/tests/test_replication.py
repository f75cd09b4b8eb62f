# SPDX-License-Identifier: MIT
"""Replicas, failover, and a cluster."""

import time

import pytest
import redis
from server import Htw, has_slot, in_step, link, manage, pairs, same, wait

HOUR = 3600 * 1000


def test_replica_arms_nothing(pair):
    master, replica = pair
    htw, copy = Htw(master.client()), Htw(replica.client())
    for n in range(100):
        htw.add("far", HOUR, n)
    for n in range(100):
        htw.add("jobs", n, n)
    htw.mod("far", htw.add("far", HOUR, "moved"), 2 * HOUR)
    htw.cancel("far", htw.add("far", HOUR, "cancelled"))
    htw.delivered("jobs", 100)
    in_step(master, replica)
    assert same(master, replica)
    assert copy.info("far")["pending"] == 101
    assert copy.info()["armed"] == copy.info()["timers"] == copy.info()["delivered"] == 0
    assert [e["payload"] for e in copy.delivered("jobs", 100)] == \
        [e["payload"] for e in htw.delivered("jobs", 100)]
    with pytest.raises(redis.ReadOnlyError):
        copy.add("jobs", 1)


def test_full_synchronisation(servers):
    """A replica that comes later, with timeouts of its own, has the master's and no others."""
    master, replica = servers.start("--save", ""), servers.start("--save", "")
    Htw(replica.client()).add("mine", HOUR)
    assert Htw(replica.client()).info()["timers"] == 1
    for n in range(100):
        Htw(master.client()).add("jobs", HOUR, n)
    link(master, replica)
    in_step(master, replica)
    info = Htw(replica.client()).info()
    assert (info["pending"], info["armed"], info["timers"]) == (100, 0, 0)
    assert same(master, replica)


# What a replica has not seen when it is linked again is more than the backlog of its master holds.
SWAPDB = ("--save", "", "--repl-diskless-load", "swapdb", "--repl-backlog-size", "16384")


def cut(master, replica):
    """Have a replica load all when it is linked again, and serve what it has meanwhile."""
    replica.client().replicaof("127.0.0.1", 1)
    master.client().set("large", "x" * 100000)


def test_synchronisation_beside_the_old_data(servers):
    """repl-diskless-load swapdb: a replica serves what it has until all of the master's is there."""
    master, replica = servers.start(*SWAPDB), servers.start(*SWAPDB)
    htw, copy = Htw(master.client()), Htw(replica.client())
    for n in range(100):
        copy.add("mine", HOUR, n)
    link(master, replica)
    wait(lambda: not copy.info()["timers"], "end of the timers")
    for round_ in range(3):
        for n in range(100):
            htw.add("jobs", HOUR, "p", "ID", f"{round_}-{n}")
            Htw(master.client(db=3)).add("jobs", HOUR, "p", "ID", f"{round_}-{n}")
        in_step(master, replica)
        cut(master, replica)
        htw.cancel("jobs", f"{round_}-0")
        link(master, replica)
        in_step(master, replica)
        assert same(master, replica)
        info = copy.info()
        assert (info["pending"], info["armed"], info["timers"]) == (200 * round_ + 199 - round_, 0, 0)
    assert "Skipping diskless-load" not in replica.text()
    assert master.client().info()["sync_full"] == 4
    replica.client().replicaof("NO", "ONE")
    wait(lambda: copy.info()["armed"] == copy.info()["timers"] == 597, "promotion")
    replica.client().flushall(asynchronous=True)
    wait(lambda: not copy.info()["timers"], "end of the timers")


def test_databases_that_were_loaded_beside_the_old_data(servers):
    """Timeouts are in the database of their queue, though Redis 7.0 says that all are in 0."""
    master, replica = servers.start(*SWAPDB), servers.start(*SWAPDB)
    databases = (0, 3, 5)
    htw = {db: Htw(master.client(db=db)) for db in databases}
    copy = {db: Htw(replica.client(db=db)) for db in databases}
    link(master, replica)
    for db in databases:
        htw[db].add("jobs", HOUR, db, "ID", "a")
        for n in range(100):
            htw[db].add("far", HOUR, n)
    cut(master, replica)
    link(master, replica)
    in_step(master, replica)
    assert master.client().info()["sync_full"] == 2 and same(master, replica)
    replica.client().replicaof("NO", "ONE")
    assert copy[0].info()["armed"] == copy[0].info()["timers"] == 303
    # Delivered where it is.
    for db in databases:
        assert copy[db].mod("jobs", "a", 0) == 1
        assert [e["payload"] for e in copy[db].delivered("jobs", 1)] == [str(db)]
    # Flushed where it is, and nowhere else.
    for db, left in ((3, 200), (0, 100), (5, 0)):
        copy[db].r.flushdb(asynchronous=True)
        assert copy[0].info()["pending"] == left
        wait(lambda n=left: copy[0].info()["timers"] == n, f"{left} timers")


@pytest.mark.parametrize("completed", [True, False], ids=["completed", "aborted"])
def test_changes_while_data_are_loaded_beside_the_old(servers, completed):
    """What a client adds meanwhile, where it may, goes with the old data, or stays with them."""
    loaded, added = 2000, 100
    master = servers.start(*SWAPDB, "--rdbcompression", "no")
    replica = servers.start(*SWAPDB, "--replica-read-only", "no",
                            "--loading-process-events-interval-bytes", "1024")
    r, copy = replica.client(), Htw(replica.client())
    with master.client().pipeline(transaction=False) as pipe:
        for n in range(loaded):
            pipe.execute_command("HTW.ADD", f"jobs-{n}", HOUR, "p" * 10000, "ID", "a")
        pipe.execute()
    link(master, replica)
    dump = redis.Redis(port=replica.port).dump("htw:{jobs-0}:jobs-0")
    cut(master, replica)
    # 20 ms for each key: what is done here takes a small part of the 40 s. All of them are more
    # than sockets hold, so the master can end in the middle.
    r.config_set("key-load-delay", 20000)
    r.replicaof("127.0.0.1", master.port)
    wait(lambda: r.info("persistence")["async_loading"], "load")
    with r.pipeline(transaction=False) as pipe:
        for n in range(added):
            pipe.execute_command("HTW.ADD", "mine", HOUR, "p", "ID", n)
        pipe.restore("htw:{restored}:restored", 0, dump)
        pipe.rename("htw:{jobs-1}:jobs-1", "htw:{renamed}:renamed")
        pipe.execute_command("HTW.INFO")
        pipe.info("persistence")
        *_, info, persistence = pipe.execute()
    assert persistence["async_loading"] and pairs(info)["pending"] == loaded + added + 1
    if not completed:
        master.kill()
    r.config_set("key-load-delay", 0)
    if completed:
        wait(lambda: r.info("replication").get("master_link_status") == "up", "link")
        in_step(master, replica)
        assert same(master, replica)
        pending, stream, id_ = loaded, "jobs-1", "a"
    else:
        wait(lambda: not r.info("persistence")["async_loading"], "end of the load")
        pending, stream, id_ = loaded + added + 1, "mine", 0
    r.replicaof("NO", "ONE")
    info = copy.info()
    assert info["pending"] == info["armed"] == info["timers"] == pending
    assert copy.mod(stream, id_, 0) == 1
    copy.delivered(stream, 1)
    r.flushall(asynchronous=True)
    assert copy.info()["pending"] == 0
    wait(lambda: not copy.info()["timers"], "end of the timers")


def test_replica_without_the_module(servers):
    """What the page says of it: the server's doing, which the module cannot help."""
    master, replica = servers.start("--save", ""), servers.make("--save", "")
    replica.module = None
    replica.start()
    link(master, replica)
    htw = Htw(master.client())
    htw.add("jobs", HOUR, "p")
    htw.add("jobs", 0, "p")
    htw.delivered("jobs", 1)
    in_step(master, replica)
    assert "CRITICAL" in replica.text() and replica.client().keys() == []
    replica.client().replicaof("no", "one")
    replica.client().replicaof("127.0.0.1", master.port)
    wait(lambda: replica.process.poll() is not None, "end of the replica")
    assert "no matching module type 'htw-queue'" in replica.text()


def test_keyspace_on_a_replica(pair):
    """What is done to queues on the master is done on the replica, and arms nothing there."""
    master, replica = pair
    r, htw, copy = master.client(), Htw(master.client()), Htw(replica.client())
    for stream in "abcd":
        htw.add(stream, HOUR, "p")
    r.rename("htw:{a}:a", "htw:{e}:e")
    r.copy("htw:{b}:b", "htw:{f}:f")
    r.move("htw:{c}:c", 3)
    r.unlink("htw:{d}:d")
    r.swapdb(0, 3)
    in_step(master, replica)
    assert same(master, replica)
    assert (copy.info()["pending"], copy.info()["armed"], copy.info()["timers"]) == (4, 0, 0)
    replica.client().replicaof("NO", "ONE")
    assert copy.info()["armed"] == 4
    assert Htw(replica.client(db=3)).info("e")["armed"] == 1


def test_promotion(pair):
    """After the master's crash, the promoted replica delivers all that had been replicated."""
    master, replica = pair
    htw = Htw(master.client())
    added = [htw.add("jobs", n % 700, n) for n in range(1000)]
    assert htw.r.wait(1, 60000) == 1
    master.kill()
    promoted = Htw(replica.client())
    promoted.r.replicaof("NO", "ONE")
    ids = [e["id"] for e in promoted.delivered("jobs", 1000)]
    assert sorted(ids) == sorted(added)
    assert promoted.info()["pending"] == promoted.info()["timers"] == 0


def test_demotion(pair):
    """A master that becomes a replica disarms; its former replica goes on."""
    master, replica = pair
    htw = Htw(master.client())
    for n in range(100):
        htw.add("jobs", 500, n)
    htw.add("far", HOUR)
    assert htw.r.wait(1, 60000) == 1
    replica.client().replicaof("NO", "ONE")
    link(replica, master)
    assert htw.info()["armed"] == htw.info()["timers"] == 0
    promoted = Htw(replica.client())
    assert len(promoted.delivered("jobs", 100)) == 100
    in_step(replica, master)
    assert same(master, replica)


def test_coordinated_failover(pair):
    """FAILOVER pauses the master and hands over: each is delivered exactly once."""
    master, replica = pair
    htw = Htw(master.client())
    added = [htw.add("jobs", n % 400, n) for n in range(400)]
    htw.r.execute_command("FAILOVER")
    wait(lambda: replica.client().info("replication")["role"] == "master", "failover")
    wait(lambda: master.client().info("replication").get("master_link_status") == "up", "link")
    promoted = Htw(replica.client())
    assert sorted(e["id"] for e in promoted.delivered("jobs", 400)) == sorted(added)
    wait(lambda: not promoted.info()["pending"])
    in_step(replica, master)
    assert same(master, replica)


def test_sentinel(servers):
    """Sentinel promotes the replica of a master that crashed."""
    master, replica = servers.start("--save", ""), servers.start("--save", "")
    link(master, replica)
    sentinel = servers.make(sentinel=True)
    (sentinel.directory / "sentinel.conf").write_text(
        f"sentinel monitor jobs 127.0.0.1 {master.port} 1\n"
        # Sentinel promotes no replica whose link was down ten times as long before it noticed.
        "sentinel down-after-milliseconds jobs 2000\nsentinel failover-timeout jobs 5000\n")
    sentinel.start()
    wait(lambda: sentinel.client().sentinel_slaves("jobs"), "replica known to Sentinel")
    htw = Htw(master.client())
    added = [htw.add("jobs", n * 5, n) for n in range(400)]
    assert htw.r.wait(1, 60000) == 1
    before = {fields["id"] for _, fields in htw.r.xrange("jobs")}
    master.kill()
    wait(lambda: sentinel.client().sentinel_get_master_addr_by_name("jobs")[1] == replica.port,
         "failover")
    wait(lambda: replica.client().info("replication")["role"] == "master", "promotion")
    ids = [e["id"] for e in Htw(replica.client()).delivered("jobs", 400)]
    assert sorted(ids) == sorted(added) and before <= set(ids)


def test_order_after_promotion(pair):
    """What is overdue comes by its time, and equal times as they were added."""
    master, replica = pair
    htw = Htw(master.client())
    first = htw.now() + 4000
    dues = [first + n % 3 for n in range(100)]
    for n, due in enumerate(dues):
        htw.at("jobs", due, n, "ID", 1000 - n)
    # Again at the same time: now they come in this order.
    for n in range(0, 100, 9):
        htw.mod("jobs", 1000 - n, dues[n], "ABSTTL")
    assert htw.r.wait(1, 60000) == 1 and htw.now() < first
    master.kill()
    wait(lambda: Htw(replica.client()).now() > first + 10, "time at which all are due")
    replica.client().replicaof("no", "one")
    got = [int(e["payload"]) for e in Htw(replica.client()).delivered("jobs", 100)]
    assert got == sorted(range(100), key=lambda n: (n % 3, n % 9 == 0, n))


def test_cluster(cluster):
    """Streams on three nodes: each timeout is delivered by its node."""
    client = redis.RedisCluster(host="127.0.0.1", port=cluster[0].port, decode_responses=True)
    streams = [f"jobs-{n}" for n in range(60)] + [f"{{user{n}}}:jobs" for n in range(60)]
    for stream in streams:
        for n in range(5):
            client.execute_command("HTW.ADD", stream, n * 50, n)
    for stream in streams:
        wait(lambda s=stream: client.xlen(s) == 5, f"entries of {stream}")
    delivered = [Htw(node.client()).info()["delivered"] for node in cluster]
    assert sum(delivered) == 600 and min(delivered) > 0
    # A node sends clients of a stream to the node that has its slot.
    with pytest.raises(redis.ResponseError, match="^MOVED "):
        for stream in streams:
            cluster[0].client().execute_command("HTW.ADD", stream, 1, "p")


def test_slot_moves(cluster):
    """Pending timeouts move with their slot, and are delivered by its new node."""
    client = redis.RedisCluster(host="127.0.0.1", port=cluster[0].port, decode_responses=True)
    slot = client.keyslot("jobs")
    source = next(n for n in cluster if has_slot(n, slot))
    target = next(n for n in cluster if n is not source)
    for n in range(100):
        Htw(source.client()).add("jobs", HOUR, n, "ID", n)
    client.xadd("jobs", {"payload": "earlier"})
    ids = {n: n.client().execute_command("CLUSTER", "MYID") for n in cluster}
    target.client().execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source])
    source.client().execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target])
    # In between, the stream is at the old node and the queue at the new one, which cannot append.
    source.client().migrate("127.0.0.1", target.port, ["htw:{jobs}:jobs"], 0, 60000)
    assert Htw(source.client()).info()["timers"] == 0
    moved = Htw(target.client())
    assert moved.info()["timers"] == 100
    asking = redis.Redis(port=target.port, decode_responses=True, single_connection_client=True)
    for n in range(100):
        asking.execute_command("ASKING")
        assert asking.execute_command("HTW.MOD", "jobs", n, 0) == 1
    wait(lambda: moved.info()["failed"], "an attempt")
    # It is added to a queue that is there, and neither node begins a second one.
    asking.execute_command("ASKING")
    assert asking.execute_command("HTW.ADD", "jobs", 0, "p", "ID", "100") == "100"
    with pytest.raises(redis.ResponseError, match="slot is being moved"):
        Htw(source.client()).add("jobs", 0, "p")
    asking.execute_command("ASKING")
    with pytest.raises(redis.ResponseError, match="slot is being moved"):
        asking.execute_command("HTW.ADD", "{jobs}other", 0, "p")
    assert Htw(source.client()).info()["pending"] == 0 and moved.info()["streams"] == 1
    source.client().migrate("127.0.0.1", target.port, ["jobs"], 0, 60000)
    for node in (target, source, *cluster):
        node.client().execute_command("CLUSTER", "SETSLOT", slot, "NODE", ids[target])
    wait(lambda: target.client().xlen("jobs") == 102, "entries at the new node")
    got = [fields.get("id") for _, fields in target.client().xrange("jobs")]
    assert sorted(got[1:], key=int) == [str(n) for n in range(101)]
    Htw(target.client()).add("{jobs}other", 0, "p")


MOVING = "slot is being moved"

COMMANDS = (
    ("HTW.ADD", "jobs", HOUR, "p", "ID", "b"),
    ("HTW.MOD", "jobs", "a", HOUR),
    ("HTW.INFO", "jobs", "a"),
    ("HTW.INFO", "jobs"),
    ("HTW.CANCEL", "jobs", "a"),
)


@pytest.mark.parametrize("moved_first", ["queue", "stream", "queue, no stream", "nothing, no stream"])
def test_no_answer_while_a_slot_moves(cluster, moved_first):
    """That a timeout is not pending is said only by a node that knows."""
    client = redis.RedisCluster(host="127.0.0.1", port=cluster[0].port, decode_responses=True)
    slot = client.keyslot("jobs")
    source = next(n for n in cluster if has_slot(n, slot))
    target = next(n for n in cluster if n is not source)
    Htw(source.client()).add("jobs", HOUR, "p", "ID", "a")
    if "no stream" not in moved_first:
        source.client().xadd("jobs", {"payload": "earlier"})
    ids = {n: n.client().execute_command("CLUSTER", "MYID") for n in cluster}
    target.client().execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source])
    source.client().execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target])
    moved = {"queue": "htw:{jobs}:jobs", "stream": "jobs"}.get(moved_first.split(",")[0])
    if moved:
        source.client().migrate("127.0.0.1", target.port, [moved], 0, 60000)
    asking = redis.Redis(port=target.port, decode_responses=True, single_connection_client=True)

    def ask(*words):
        """As clients of clusters do: at the old node first, and where it sends them then."""
        try:
            return source.client().execute_command(*words)
        except redis.ResponseError as error:
            if not str(error).startswith("ASK "):
                raise
        asking.execute_command("ASKING")
        return asking.execute_command(*words)

    for words in COMMANDS:
        if moved_first == "queue, no stream":
            assert ask(*words) not in (0, None)
        else:
            with pytest.raises(redis.ResponseError, match=MOVING):
                ask(*words)
    for key in {"jobs", "htw:{jobs}:jobs"} - {moved}:
        source.client().migrate("127.0.0.1", target.port, [key], 0, 60000)
    for node in (target, source, *cluster):
        node.client().execute_command("CLUSTER", "SETSLOT", slot, "NODE", ids[target])
    # Now the answer is true: also of a stream that has none.
    htw = Htw(target.client())
    assert htw.cancel("{jobs}other", "a") == htw.mod("{jobs}other", "a", 0) == 0
    assert htw.info("{jobs}other", "a") is None and htw.info("{jobs}other")["pending"] == 0
    if moved_first != "queue, no stream":
        assert htw.cancel("jobs", "a") == 1


def replicates(node, replica, master):
    """Does a node know that one replicates the other?"""
    lines = node.client().execute_command("CLUSTER", "NODES").splitlines()
    return any((fields[0], fields[3]) == (replica, master) for fields in map(str.split, lines))


def test_cluster_promotion(servers, cluster):
    """The replica of a node that crashed takes its slots and its timeouts over."""
    # However long the election takes, it is a candidate.
    replica = servers.start("--save", "", "--cluster-enabled", "yes", "--cluster-node-timeout",
                            "2000", "--cluster-replica-validity-factor", "0")
    source = cluster[0]
    ids = {n: n.client().execute_command("CLUSTER", "MYID") for n in (source, replica)}
    manage("add-node", f"127.0.0.1:{replica.port}", f"127.0.0.1:{source.port}", "--cluster-slave",
           "--cluster-master-id", ids[source])
    # The other nodes vote for a replica that they know, and hear of it from its master at first.
    for node in cluster[1:]:
        wait(lambda n=node: replicates(n, ids[replica], ids[source]), "knowledge of the replica")
    client = redis.RedisCluster(host="127.0.0.1", port=cluster[1].port, decode_responses=True)
    stream = next(f"jobs-{n}" for n in range(1000) if has_slot(source, client.keyslot(f"jobs-{n}")))
    wait(lambda: replica.client().info("replication").get("master_link_status") == "up", "link")
    htw = Htw(source.client())
    added = [htw.add(stream, 1000, n) for n in range(100)]
    assert htw.r.wait(1, 60000) == 1
    source.kill()
    wait(lambda: replica.client().info("replication")["role"] == "master", "promotion")
    assert sorted(e["id"] for e in Htw(replica.client()).delivered(stream, 100)) == sorted(added)


def test_cluster_replica_is_restarted(servers, cluster):
    """A replica that has not heard of its master since it was started is none itself."""
    replica = servers.start("--save", "3600 1", "--cluster-enabled", "yes", "--cluster-node-timeout",
                            "2000", "--cluster-replica-no-failover", "yes", module=("EXPIRE", "on"))
    source = cluster[0]
    ids = {n: n.client().execute_command("CLUSTER", "MYID") for n in (source, replica)}
    manage("add-node", f"127.0.0.1:{replica.port}", f"127.0.0.1:{source.port}", "--cluster-slave",
           "--cluster-master-id", ids[source])
    wait(lambda: replica.client().info("replication").get("master_link_status") == "up", "link")
    client = redis.RedisCluster(host="127.0.0.1", port=source.port, decode_responses=True)
    stream = next(f"jobs-{n}" for n in range(1000) if has_slot(source, client.keyslot(f"jobs-{n}")))
    htw = Htw(source.client())
    for n in range(20):
        htw.add(stream, 1000, n)
    htw.r.set(f"{{{stream}}}:ttl", "v", px=1000)
    due = htw.now() + 1000
    assert htw.r.wait(1, 60000) == 1
    source.kill()
    replica.stop()
    wait(lambda: time.time() * 1000 > due + 100, "time at which all are due")
    replica.start()
    r = replica.client()
    time.sleep(1)
    info = Htw(r).info()
    assert r.dbsize() == 2 and info["failed"] == 0
    assert (info["pending"], info["armed"], info["waiting"]) == (20, 0, 0)
    assert info["deliveries"] == "replica"
    # It becomes one by a failover.
    r.execute_command("CLUSTER", "FAILOVER", "TAKEOVER")
    assert len(Htw(r).delivered(stream, 20)) == 20
    wait(lambda: r.dbsize() == 1, "end of the key with a TTL")


def test_cluster_is_down(cluster):
    """Nothing is delivered where no client may write; what is due then waits, and is told."""
    client = redis.RedisCluster(host="127.0.0.1", port=cluster[0].port, decode_responses=True)
    stream = next(f"jobs-{n}" for n in range(1000) if has_slot(cluster[0], client.keyslot(f"jobs-{n}")))
    r = cluster[0].client()
    htw = Htw(r)
    r.config_set("cluster-allow-reads-when-down", "yes")
    for node in cluster[1:]:
        node.kill()
    wait(lambda: "cluster_state:fail" in r.execute_command("CLUSTER", "INFO"), "failure")
    with pytest.raises(redis.ResponseError):
        htw.add(stream, 0, "p")
    r.config_set("cluster-require-full-coverage", "no")
    for node in cluster[1:]:
        node.start()
    wait(lambda: "cluster_state:ok" in r.execute_command("CLUSTER", "INFO"), "recovery")
    for n in range(10):
        htw.add(stream, 12000, n)
    for node in cluster[1:]:
        node.kill()
    wait(lambda: "cluster_state:fail" in r.execute_command("CLUSTER", "INFO"), "failure")
    wait(lambda: htw.info()["waiting"] == 10, "time at which they are due")
    info = htw.info()
    assert "down" in info["deliveries"] and info["failed"] == info["delivered"] == 0
    for node in cluster[1:]:
        node.start()
    assert [int(e["payload"]) for e in htw.delivered(stream, 10)] == list(range(10))


