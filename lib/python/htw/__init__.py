# SPDX-License-Identifier: MIT
"""Millions of timeouts, in the kernel or in the process: Python bindings of libhtw.

    import htw

    with htw.Timers() as timers:              # of the module, or else in this process
        timers.after(30.0, "connection 7")    # any object can be the cookie
        for event in timers.wait():
            print(event.cookie, event.late)

Delays are in seconds, as usual in Python: int, float, Fraction, Decimal or timedelta. A
float counts as the decimal number that Python prints for it, so 0.067 is 67,000,000 ns.
Times on the clock are in nanoseconds, as int, because a float is not precise enough:
Timers.now(), Event.deadline_ns.

htw.aio has timers for asyncio programs, which share one file descriptor:

    async with htw.aio.Timers() as timers:
        timers.call_later(0.5, print, "half a second")
        await timers.sleep(1.0)

The shared library is libhtw.so.0, or what $LIBHTW names.
"""

from ._events import Event, Pending
from ._library import ANY, DEVICE, MANUAL, PROCESS
from ._timers import Timers

__all__ = ["Timers", "Event", "Pending", "DEVICE", "PROCESS", "ANY", "MANUAL"]
