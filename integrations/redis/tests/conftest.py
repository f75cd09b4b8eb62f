# SPDX-License-Identifier: MIT
import faulthandler
import shutil
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from server import ROOT, Htw, Server, link, manage, wait  # noqa: E402


# What hangs ends in this, a multiple of what the longest tests take, and says where it stood.
LIMIT = 600


@pytest.fixture(autouse=True)
def limit():
    def end(*_):
        faulthandler.dump_traceback(all_threads=True)
        raise TimeoutError(f"the test has taken {LIMIT} s")

    signal.signal(signal.SIGALRM, end)
    # Again, if it then waits for a thread.
    signal.setitimer(signal.ITIMER_REAL, LIMIT, 30)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)


class Servers:
    """Make servers that end with the test."""

    def __init__(self, directory):
        self.directory = directory
        self.all = []

    def make(self, *options, **more):
        server = Server(self.directory / f"server-{len(self.all)}", *options, **more)
        self.all.append(server)
        return server

    def start(self, *options, **more):
        return self.make(*options, **more).start()


@pytest.fixture
def servers(tmp_path):
    if ROOT:
        tmp_path = Path(ROOT) / tmp_path.relative_to("/")
        # pytest does not clear it, as it is not where pytest has made one.
        shutil.rmtree(tmp_path, ignore_errors=True)
        tmp_path.mkdir(parents=True)
    made = Servers(tmp_path)
    yield made
    broken = []
    for server in made.all:
        server.kill()
        text = server.text()
        if "REDIS BUG REPORT" in text or "BUG REPORT START" in text:
            broken.append(text)
    assert not broken, broken


@pytest.fixture
def server(servers):
    return servers.start("--save", "")


@pytest.fixture
def r(server):
    return server.client()


@pytest.fixture
def htw(r):
    return Htw(r)


@pytest.fixture
def pair(servers):
    """A master and its replica."""
    master, replica = servers.start("--save", ""), servers.start("--save", "")
    link(master, replica)
    return master, replica


@pytest.fixture
def cluster(servers):
    """Three nodes that have all slots."""
    nodes = [servers.start("--save", "", "--cluster-enabled", "yes", "--cluster-node-timeout",
                           "2000") for _ in range(3)]
    addresses = [f"127.0.0.1:{node.port}" for node in nodes]
    manage("create", *addresses)
    for node in nodes:
        wait(lambda n=node: "cluster_state:ok" in n.client().execute_command("CLUSTER", "INFO"),
             "cluster")
    return nodes
