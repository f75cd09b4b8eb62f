# SPDX-License-Identifier: MIT
"""An echo server in asyncio that closes connections on which nothing has come for a while.

Each connection has one timer, which is moved whenever something comes: all of them share one
file descriptor, however many there are. The program is its own client, for a test: it runs
for a second, and exits with 0 if exactly the connections that were silent have been closed.
"""

import asyncio
import sys

import htw
from htw import aio

IDLE = 0.4      # seconds without a message after which a connection is closed


class Server:
    def __init__(self, timers):
        self.timers = timers
        self.closed = 0

    async def serve(self, reader, writer):
        """Echo until the client goes, or says nothing for too long."""
        idle = self.timers.call_later(IDLE, self.give_up, writer)
        try:
            while data := await reader.read(4096):
                idle.rearm(IDLE)
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            idle.cancel()       # it does not begin after this
            writer.close()

    def give_up(self, writer):
        self.closed += 1
        writer.close()


async def client(port, messages):
    """Send a message every 0.1 s, then be silent; return whether the server closes in time."""
    time = asyncio.get_running_loop().time
    sent = time()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for i in range(messages):
        sent = time()
        writer.write(b"%d" % i)
        if await reader.read(4096) != b"%d" % i:
            return False
        await asyncio.sleep(0.1)
    end = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return end == b"" and time() - sent >= IDLE


async def main():
    async with aio.Timers() as timers:
        where = "the module" if timers.backend == htw.DEVICE else "this process"
        print(f"timeouts are kept by {where}")
        service = Server(timers)
        server = await asyncio.start_server(service.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        good = await asyncio.gather(*(client(port, i % 6) for i in range(60)))
        server.close()
        print(f"{service.closed} of {len(good)} idle connections closed, {sum(good)} in time")
        return 0 if all(good) and service.closed == len(good) and not len(timers) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
