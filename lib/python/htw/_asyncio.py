# SPDX-License-Identifier: MIT
"""AsyncTimers: timers in an asyncio loop."""

import asyncio
import collections
import contextlib
import contextvars
import inspect
import os
from typing import Any, Callable, Deque, Optional, Set, TypeVar, Union, overload

from ._library import ANY, Seconds
from ._timers import Event, Timers

_TURN = 256     # events that are handled in one turn of the loop

T = TypeVar("T")


class _Firing:
    """What the loop gets when a call is due: it makes the call once, or not at all any more.

    A signal handler that raises an exception can run between any two steps, also after the
    loop has got a call and before this is noted. So the loop may get the same one again.
    """

    __slots__ = ("_call", "_event", "_live", "__wrapped__")

    def __init__(self, event: Event) -> None:
        self._call: Call = event.cookie
        self._event, self._live = event, True
        self.__wrapped__ = self._call._function     # what the loop names in debug mode

    def __repr__(self) -> str:
        return repr(self.__wrapped__)

    def give(self, loop: asyncio.AbstractEventLoop) -> None:
        call, event = self._call, self._event
        if event.id != call._id:        # moved or cancelled, and void
            return
        if self._live:
            call._firing, call.missed = self, event.missed
            # The loop makes the call: with its own treatment of exceptions, and of debug mode.
            loop.call_soon(self, *call._args, context=call._context)
        if not event.more:
            call._id = 0

    def __call__(self, *args: Any) -> None:
        call, live = self._call, self._live
        self.void()
        if live and call._timers._timers is not None:
            self.__wrapped__(*args)

    def void(self) -> None:
        self._live = False
        self._call._firing = None


class Call:
    """A scheduled call, like asyncio.TimerHandle, that can also be moved.

    missed: of a periodic call, how many firings came due before it was made, beyond the one
    that it is made for. For the function, while it runs.
    """

    __slots__ = ("_timers", "_function", "_args", "_context", "_interval", "_id", "_firing", "_cancelled",
                 "missed", "__weakref__")

    def __init__(self, timers: "AsyncTimers", function: Callable[..., object], args: Any,
                 context: Optional[contextvars.Context], interval: Optional[Seconds] = None) -> None:
        # What the loop would refuse only when the call is due.
        if inspect.iscoroutine(function) or inspect.iscoroutinefunction(function):
            raise TypeError(f"{function!r} is a coroutine, which cannot be called")
        if not callable(function):
            raise TypeError(f"{function!r} cannot be called")
        if not (context is None or isinstance(context, contextvars.Context)):
            raise TypeError(f"{context!r} is not a context")
        self._timers, self._function, self._args, self._interval = timers, function, args, interval
        self._context = contextvars.copy_context() if context is None else context
        self._id = 0                # zero if no timer is pending
        self._firing: Optional[_Firing] = None  # in the loop's hands, and not begun
        self._cancelled = False
        self.missed = 0

    def __repr__(self) -> str:
        if self._cancelled:
            state = "cancelled"
        elif not (self._firing or self._id):
            state = "made"
        elif self._timers._timers is None:
            state = "closed"
        else:
            state = "due" if self._firing else "pending"
        return f"<htw.Call {state} {self._function!r}>"

    def __reduce__(self) -> Any:
        """A copy would have the same timer."""
        raise TypeError("calls cannot be copied or pickled")

    def _start(self, delay: Seconds) -> None:
        timers = self._timers._usable()
        if self._interval is None:
            self._id = timers.after(delay, self)
        else:
            self._id = timers.every(self._interval, self, first=delay)

    def _forget_due(self) -> None:
        if self._firing is not None:
            self._firing.void()

    def cancel(self) -> None:
        """Cancel the call: it does not begin any more. Does nothing if it was made."""
        self._cancelled = True
        self._forget_due()
        timers, id_, self._id = self._timers._timers, self._id, 0
        # It cannot begin where the timers are closed, nor in a child of fork(), whose parent's it
        # is: an error here would take the place of what a finally clause is there for.
        if id_ and timers is not None:
            with contextlib.suppress(ValueError, PermissionError):
                timers.stop(id_)
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
            self._timers._usable().rearm(self._id, delay)
        except KeyError:
            # It is due, or was made, or was stopped by somebody else.
            old = self._id
            self._start(delay)
            if old:
                self._timers._usable().stop(old)
        self._forget_due()


def _nothing() -> None:
    """Stands for the function of a call that was cancelled."""


def _wake(sleep: "asyncio.Future[None]") -> None:
    if not sleep.done():
        sleep.set_result(None)


class AsyncTimers:
    """Timers in an asyncio loop, which watches one descriptor for all of them.

    They belong to the loop that runs when they are created, and are used in its thread.
    Arguments are those of Timers.
    """

    def __init__(self, backend: int = ANY, **setup: Any) -> None:
        self._loop = asyncio.get_running_loop()
        self._pid = os.getpid()
        self._due: Deque[Union[Event, _Firing]] = collections.deque()
        self._failed: Any = None                # what could not be given to the loop
        self._sleeps: Set["asyncio.Future[None]"] = set()
        self._timers: Optional[Timers] = Timers(backend, **setup)
        self._fd = self._timers.fileno()        # also if somebody closes the timers first
        self._loop.add_reader(self._fd, self._expired)

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
            self._loop.remove_reader(self._fd)
        timers.close()
        self._due.clear()
        self._failed = None
        for sleep in self._sleeps:
            if not self._loop.is_closed():
                sleep.cancel()

    def __reduce__(self) -> Any:
        """A copy would be a second owner of the timers."""
        raise TypeError("timers cannot be copied or pickled")

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

    def _usable(self) -> Timers:
        timers = self.timers
        if self._loop.is_closed():
            raise RuntimeError("Event loop is closed")
        if asyncio._get_running_loop() not in (self._loop, None):
            raise RuntimeError("these timers belong to another event loop")
        return timers

    def _expired(self) -> None:
        """Give what is due to the loop: one batch, so that it serves others in between."""
        if self._timers is None:
            return
        done = False
        try:
            self._due.extend(self._timers.read(_TURN - len(self._due)))
        except OSError as problem:
            # Nothing will come any more, and the descriptor may stay readable; unless it is a
            # signal handler's.
            if problem.errno:
                self.close()
            raise
        else:
            while self._due:
                self._give()
            done = True
        finally:
            # After a KeyboardInterrupt the descriptor does not tell of what has been read.
            if not done and self._timers is not None and not self._loop.is_closed():
                self._loop.call_soon(self._expired)

    def _give(self) -> None:
        """Give the first that is due to the loop."""
        due = self._due[0]
        try:
            if isinstance(due, _Firing):
                due.give(self._loop)
            elif isinstance(due.cookie, Call):
                self._due[0] = _Firing(due)
                return
            elif asyncio.isfuture(due.cookie) and due.cookie in self._sleeps:
                self._loop.call_soon(_wake, due.cookie)
            # Others are of other processes that have the descriptor.
        except Exception:
            # Maybe that of a signal handler, so try once more; but not for ever.
            if self._failed is due:
                self._failed = None
                self._due.popleft()
            else:
                self._failed = due
            raise
        self._failed = None
        self._due.popleft()

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

    @overload
    async def sleep(self, delay: Seconds) -> None: ...

    @overload
    async def sleep(self, delay: Seconds, result: T) -> T: ...

    async def sleep(self, delay: Seconds, result: Optional[T] = None) -> Optional[T]:
        """Sleep like asyncio.sleep()."""
        timers = self._usable()
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
