# SPDX-License-Identifier: MIT
"""AsyncTimers: timers in an asyncio loop."""

import asyncio
import collections
import contextvars
import os
from typing import Any, Callable, Deque, List, Optional, Set, TypeVar

from ._library import ANY, Seconds
from ._timers import Event, Timers

_TURN = 256     # events that are handled in one turn of the loop

T = TypeVar("T")


class Call:
    """A scheduled call, like asyncio.TimerHandle, that can also be moved.

    missed: of a periodic call, how many firings came due before it was made, beyond the one
    that it is made for. For the function, while it runs.
    """

    __slots__ = ("_timers", "_function", "_args", "_context", "_interval", "_id", "_soon", "_cancelled",
                 "missed", "__weakref__")

    def __init__(self, timers: "AsyncTimers", function: Callable[..., object], args: Any,
                 context: Optional[contextvars.Context], interval: Optional[Seconds] = None) -> None:
        if not callable(function):
            raise TypeError(f"{function!r} cannot be called")
        self._timers, self._function, self._args, self._interval = timers, function, args, interval
        self._context = contextvars.copy_context() if context is None else context
        self._id = 0                # zero if no timer is pending
        self._soon: Optional[asyncio.Handle] = None     # of the loop, from when it is due on
        self._cancelled = False
        self.missed = 0

    def __repr__(self) -> str:
        state = "cancelled" if self._cancelled else "pending" if self._id else "due"
        return f"<htw.Call {state} {self._function!r}>"

    def _start(self, delay: Seconds) -> None:
        timers = self._timers.timers
        if self._interval is None:
            self._id = timers.after(delay, self)
        else:
            self._id = timers.every(self._interval, self, first=delay)

    def _due(self, event: Event, loop: asyncio.AbstractEventLoop) -> None:
        if event.id != self._id:        # moved or cancelled, and void
            return
        self.missed = event.missed
        # The loop makes the call: with its own treatment of exceptions, and of debug mode.
        self._soon = loop.call_soon(self._function, *self._args, context=self._context)
        if not event.more:
            self._id = 0

    def _forget_due(self) -> None:
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None

    def cancel(self) -> None:
        """Cancel the call: it does not begin any more. Does nothing if it was made."""
        self._cancelled = True
        self._forget_due()
        if self._id and self._timers._timers is not None:
            self._timers._timers.stop(self._id)
        self._id = 0
        self._function, self._args = _nothing, ()

    def cancelled(self) -> bool:
        """Return whether it was cancelled."""
        return self._cancelled

    def rearm(self, delay: Seconds) -> None:
        """Have the call made @delay seconds from now, and only then, also if it was made.

        A periodic call continues from there. Raise RuntimeError if it was cancelled.
        """
        if self._cancelled:
            raise RuntimeError("the call was cancelled")
        try:
            if not self._id:
                raise KeyError
            self._timers.timers.rearm(self._id, delay)
        except KeyError:
            # It is due, or was made, or was stopped by somebody else.
            old = self._id
            self._start(delay)
            if old:
                self._timers.timers.stop(old)
        self._forget_due()


def _nothing() -> None:
    """Stands for the function of a call that was cancelled."""


def _wake(sleep: "asyncio.Future[None]") -> None:
    if not sleep.done():
        sleep.set_result(None)


class AsyncTimers:
    """Timers in an asyncio loop, which watches one descriptor for all of them.

    To be created and used in the thread of the loop. Arguments are those of Timers.
    """

    def __init__(self, backend: int = ANY, **setup: Any) -> None:
        self._loop = asyncio.get_running_loop()
        self._pid = os.getpid()
        self._due: Deque[Event] = collections.deque()
        self._batch: List[Call] = []            # what this turn of the loop gave to it
        self._sleeps: Set["asyncio.Future[None]"] = set()
        self._timers: Optional[Timers] = Timers(backend, **setup)
        self._loop.add_reader(self._timers.fileno(), self._expired)

    async def __aenter__(self) -> "AsyncTimers":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all timers: no call begins any more, and sleeps are cancelled."""
        timers, self._timers = self._timers, None
        if timers is None:
            return
        # What a child of fork() does to the loop's epoll set, it does to its parent's.
        if os.getpid() == self._pid and not self._loop.is_closed():
            self._loop.remove_reader(timers.fileno())
        timers.close()
        self._due.clear()
        for call in self._batch:
            call._forget_due()
        for sleep in self._sleeps:
            if not self._loop.is_closed():
                sleep.cancel()

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        """Return the number of pending calls and sleeps."""
        return len(self.timers)

    @property
    def timers(self) -> Timers:
        """The underlying Timers. Do not start or read timers on it."""
        if self._timers is None:
            raise ValueError("these timers are closed")
        return self._timers

    def _expired(self) -> None:
        """Give what is due to the loop: one batch, so that it serves others in between."""
        if self._timers is None:
            return
        done = False
        try:
            self._due.extend(self._timers.read(_TURN - len(self._due)))
            self._batch = [e.cookie for e in self._due if isinstance(e.cookie, Call)]
            while self._due:
                event = self._due[0]
                if isinstance(event.cookie, Call):
                    event.cookie._due(event, self._loop)
                elif event.cookie in self._sleeps:
                    self._loop.call_soon(_wake, event.cookie)
                # Others are of other processes that have the descriptor.
                self._due.popleft()
            done = True
        except OSError:
            # Nothing will come any more, and the descriptor may stay readable.
            self.close()
            raise
        finally:
            # After a KeyboardInterrupt the descriptor does not tell of what has been read.
            if not done and self._timers is not None and not self._loop.is_closed():
                self._loop.call_soon(self._expired)

    def call_after(self, delay: Seconds, function: Callable[..., object], *args: Any,
                   context: Optional[contextvars.Context] = None) -> Call:
        """Call a function after @delay seconds; return a Call, to cancel or move it.

        It is called as by the loop's call_later(): in @context, or a copy of the caller's.
        """
        call = Call(self, function, args, context)
        call._start(delay)
        return call

    def call_every(self, interval: Seconds, function: Callable[..., object], *args: Any,
                   first: Optional[Seconds] = None,
                   context: Optional[contextvars.Context] = None) -> Call:
        """Call a function after @first seconds, or @interval, and then every @interval.

        If the loop was too late for several firings, the function is called once for them:
        see Call.missed.
        """
        call = Call(self, function, args, context, interval)
        call._start(interval if first is None else first)
        return call

    async def sleep(self, delay: Seconds, result: Optional[T] = None) -> Optional[T]:
        """Sleep like asyncio.sleep()."""
        timers = self.timers
        future: "asyncio.Future[None]" = self._loop.create_future()
        id_ = 0
        try:
            self._sleeps.add(future)
            id_ = timers.after(delay, future)
            await future
            return result
        finally:
            self._sleeps.discard(future)
            if id_ and (future.cancelled() or not future.done()) and self._timers is not None:
                timers.stop(id_)
