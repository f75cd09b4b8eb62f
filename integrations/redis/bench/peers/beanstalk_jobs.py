# SPDX-License-Identifier: MIT
"""beanstalkd: add jobs, or work on them; see peers.py."""

import os
import socket
import sys
import time

LEASE = int(os.environ.get("LEASE_MS", 30000)) // 1000


def add(sock, count, begin, rate):
    replies = sock.makefile("rb")
    for first in range(0, count, 1000):
        last = min(first + 1000, count)
        commands = b""
        for n in range(first, last):
            due = begin + n * 1000 / rate
            body = str(due).encode()
            # Its delays are whole seconds: never early means up to a second late.
            delay = max(0, -int(-(due / 1000 - time.time()) // 1))
            commands += b"put 0 %d %d %d\r\n%s\r\n" % (delay, LEASE, len(body), body)
        sock.sendall(commands)
        for _ in range(first, last):
            assert replies.readline().startswith(b"INSERTED")


def work(sock, count):
    replies = sock.makefile("rb")
    while count:
        sock.sendall(b"reserve\r\n")
        word, number, size = replies.readline().split()
        assert word == b"RESERVED", word
        due = float(replies.read(int(size) + 2))
        print(f"late {time.time() * 1000 - due}", flush=True)
        if "HOLD" in os.environ:
            time.sleep(3600)
        sock.sendall(b"delete %s\r\n" % number)
        assert replies.readline() == b"DELETED\r\n"
        count -= 1


if __name__ == "__main__":
    server = socket.create_connection(("127.0.0.1", int(os.environ["PORT"])))
    if sys.argv[1] == "work":
        print("ready", flush=True)
        work(server, int(sys.argv[2]))
    else:
        add(server, int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
