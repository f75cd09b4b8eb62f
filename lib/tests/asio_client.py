#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Usage: lib/tests/asio_client.py MILLISECONDS CONNECTIONS PROGRAM
Open that many connections to examples/asio.cc, which closes them when they have been idle for so long:
a third is never used, a third gets a message while all are opened and one later, a third is closed
from here. None may be closed early, all are closed, messages come back, and no timer is left.
"""

import resource
import select
import socket
import subprocess
import sys
import time


def main():
    idle, count, program = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with subprocess.Popen([*program, str(idle), str(count)], stdout=subprocess.PIPE, text=True) as server:
        port = int(server.stdout.readline())
        poll = select.epoll()
        clients, since, said, early, closed, echoed = {}, {}, {}, 0, 0, 0

        # It may cross the server's close; what came back was before that.
        def say(fd):
            said[fd] = time.monotonic()
            clients[fd].send(b"word")

        for number in range(count):
            # The deadline counts from when the server takes it, which is later.
            before = time.monotonic()
            client = socket.create_connection(("127.0.0.1", port))
            clients[client.fileno()] = client
            since[client.fileno()] = before
            poll.register(client, select.EPOLLIN)
            if number % 3 == 1:
                say(client.fileno())
        for number, fd in enumerate(list(clients)):
            if number % 3 == 2:
                clients.pop(fd).close()
        again = set(list(clients)[1::2])
        end = time.monotonic() + 120
        while clients and time.monotonic() < end:
            for fd, _ in poll.poll(1):
                try:
                    data = clients[fd].recv(100)
                except ConnectionResetError:
                    data = b""
                if data:
                    since[fd] = said[fd]
                    echoed += data == b"word"
                    if fd in again:
                        again.remove(fd)
                        say(fd)
                    continue
                early += time.monotonic() - since[fd] < idle / 1000
                closed += 1
                poll.unregister(fd)
                clients.pop(fd).close()
        last = server.stdout.readline().strip() if not clients else ""
        if clients:
            server.kill()
    print(f"{closed} closed for being idle, {early} early, {echoed} messages came back, "
          f"{len(clients)} left open; the server: {last}")
    third = count // 3
    return not (server.returncode == 0 and not clients and not early and closed == count - third
                and echoed >= third and last == "all are closed, 0 timers are left")


if __name__ == "__main__":
    sys.exit(main())
