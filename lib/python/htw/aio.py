# SPDX-License-Identifier: MIT
"""Timers in an asyncio loop, for programs that hold very many.

    from htw import aio

    async with aio.Timers() as timers:
        handle = timers.call_later(30, close, connection)
        handle.rearm(30)                    # something has come
        async with timers.timeout(5):
            await answer()

The loop watches one descriptor for all of them, by its add_reader(): any loop that has it will
do, uvloop's as well.
"""

import sys

if sys.version_info < (3, 11):
    raise ImportError("htw.aio needs Python 3.11 or newer")

import asyncio
import collections
import contextvars
import errno
import inspect
import math
import os
import threading
import types
import warnings
import weakref
from asyncio import _get_running_loop
from typing import Any, Callable, Deque, Optional, Set, TypeVar, Union, overload

from ._events import Event
from ._library import (ANY, F_ABS, F_PUT_OFF, NEVER, SECOND, WORDS, Seconds, as_float, delay as delay_ns, duration,
                       error)
from ._timeout import Timeout
from ._timers import Timers as _Set, exclusive

__all__ = ["Timers", "Handle", "Timeout"]

_TURN = 256     # events that are handled in one turn of the loop
_NOWHERE: Any = object()        # a loop that never runs

T = TypeVar("T")


class _Firing:
    """What the loop gets when a call is due: it makes the call once, or not at all any more.

    A signal handler that raises an exception can run between any two steps, also after the
    loop has got a call and before this is noted. So the loop may get the same one again.
    """

    __slots__ = ("_handle", "_event", "_live", "__wrapped__")

    def __init__(self, event: Event) -> None:
        self._handle: Handle = event.cookie
        self._event, self._live = event, True
        self.__wrapped__ = self._handle._callback   # what the loop names in debug mode

    def __repr__(self) -> str:
        return repr(self.__wrapped__)

    def give(self, loop: asyncio.AbstractEventLoop) -> None:
        handle, event = self._handle, self._event
        if event.id != handle._id:      # moved or cancelled, and void
            return
        if self._live:
            handle._firing, handle.missed = self, event.missed
            # The loop makes the call: with its own treatment of exceptions, and of debug mode.
            loop.call_soon(self, *handle._args, context=handle._context)
        if not event.more:
            handle._id = 0

    def __call__(self, *args: Any) -> None:
        handle, live = self._handle, self._live
        self.void()
        if live and handle._timers._set is not None:
            self.__wrapped__(*args)

    def void(self) -> None:
        self._live = False
        self._handle._firing = None


class Handle:
    """A call that is to be made, like asyncio.TimerHandle, and that can also be moved.

    missed: of a periodic call, how many firings came due before it was made, beyond the one
    that it is made for. For the function, while it runs.
    """

    __slots__ = ("_timers", "_callback", "_args", "_context", "_interval", "_id", "_deadline", "_firing",
                 "_cancelled", "missed", "__weakref__")

    def __init__(self, timers: "Timers", callback: Callable[..., object], args: Any,
                 context: Optional[contextvars.Context], interval: int = 0) -> None:
        # What the loop would refuse only when the call is due.
        code = getattr(callback, "__code__", None)
        if (code.co_flags & inspect.CO_COROUTINE if isinstance(code, types.CodeType) else
                inspect.iscoroutine(callback) or inspect.iscoroutinefunction(callback)):
            raise TypeError(f"{callback!r} is a coroutine, which cannot be called")
        if not callable(callback):
            raise TypeError(f"{callback!r} cannot be called")
        if context is None:
            context = contextvars.copy_context()
        elif not isinstance(context, contextvars.Context):
            raise TypeError(f"{context!r} is not a context")
        self._timers, self._callback, self._args, self._context = timers, callback, args, context
        self._interval = interval       # in ns; zero for one call
        self._id = self._deadline = 0   # the timer, or zero if none is pending
        self._firing: Optional[_Firing] = None  # in the loop's hands, and not begun
        self._cancelled = False
        self.missed = 0

    def __repr__(self) -> str:
        if self._cancelled:
            state = "cancelled"
        elif not (self._firing or self._id):
            state = "made"
        elif self._timers._set is None:
            state = "closed"
        else:
            state = "due" if self._firing else "pending"
        return f"<htw.aio.Handle {state} {self._callback!r}>"

    def __reduce__(self) -> Any:
        """A copy would have the same timer."""
        raise TypeError("handles cannot be copied or pickled")

    def cancel(self) -> None:
        """Cancel the call: it does not begin any more. Does nothing if it was made.

        Nothing is left behind: not the timer, nor a reference to the callback.
        """
        timers = self._timers
        # It cannot begin where the timers are closed, nor in a child of fork(), whose parent's it
        # is: an error there would take the place of what a finally clause is there for.
        if _get_running_loop() is timers._home or timers._reachable():
            try:
                _stop(timers._core, self)
            except ValueError:      # a signal handler has closed them meanwhile
                pass
        self._cancelled = True
        if self._firing is not None:
            self._firing.void()
        self._callback, self._args = _nothing, ()

    def cancelled(self) -> bool:
        """Return whether it was cancelled."""
        return self._cancelled

    def when(self) -> float:
        """Return when the call is due, on the clock of Timers.time()."""
        return (self._deadline + self._timers._origin) / SECOND

    def get_context(self) -> contextvars.Context:
        """Return the context in which the call is made."""
        return self._context

    def rearm(self, delay: Seconds) -> None:
        """Have the call made @delay seconds from now, and only then, also if it was made.

        A periodic call continues from there. Raise RuntimeError if it was cancelled.
        """
        timers = self._timers
        if _get_running_loop() is not timers._home:
            timers._check()
        _arm(timers._core, self, delay_ns(delay), False)

    def rearm_at(self, when: float) -> None:
        """Have the call made at @when, a time as of Timers.time(), and only then."""
        timers = self._timers
        if _get_running_loop() is not timers._home:
            timers._check()
        _arm(timers._core, self, timers._at(when), True)


@exclusive
def _arm(timers: _Set, call: Handle, ns: int, absolute: bool) -> None:
    """Have a call made at a time, or after a delay, and only then."""
    if call._cancelled:
        raise RuntimeError("the call was cancelled")
    lib, handle, old = timers._lib, timers._handle, call._id
    now = 0 if absolute else int(lib.htw_now(handle))
    deadline = min(now + ns, NEVER - 1)
    # Of a periodic timer, an event may have been read: that of an old id is void.
    if old and not call._interval:
        if deadline >= call._deadline:      # by a store
            moved = not lib.htw_put_off(handle, old, deadline)
        else:
            now = now or int(lib.htw_now(handle))
            moved = not lib.htw_rearm(handle, old, max(deadline - now, 0))
        if moved:
            call._deadline = deadline
            return
    flags = F_ABS if call._interval else F_ABS | F_PUT_OFF
    call._id, call._deadline = timers._begin(call, flags, deadline, call._interval), deadline
    if old:
        timers._undo([old])
    if call._firing is not None:
        call._firing.void()


@exclusive
def _stop(timers: _Set, call: Handle) -> None:
    """Stop the timer of a call."""
    timers._undo([call._id])
    call._id = 0


def _nothing() -> None:
    """Stands for the callback of a call that was cancelled."""


def _wake(sleep: "asyncio.Future[None]") -> None:
    if not sleep.done():
        sleep.set_result(None)


class Timers:
    """Timers in an asyncio loop, which watches one descriptor for all of them.

    They belong to @loop, or the one that runs, and are used in its thread. Other arguments are
    those of htw.Timers.
    """

    def __init__(self, loop: Optional[asyncio.AbstractEventLoop] = None, backend: int = ANY,
                 **setup: Any) -> None:
        self._set: Optional[_Set] = None
        if loop is None:
            loop = asyncio.get_running_loop()
        elif not isinstance(loop, asyncio.AbstractEventLoop):
            raise TypeError(f"{loop!r} is not an event loop")
        self._loop = loop
        self._home: Any = loop          # where calls are allowed without further questions
        self._pid = os.getpid()
        self._due: Deque[Union[Event, _Firing]] = collections.deque()
        self._failed: Any = None        # what could not be given to the loop
        self._waits: Set[Any] = set()   # sleeps and timeouts
        timers = _Set(backend, **setup)
        try:
            self._core = timers         # also once they are closed
            # What the loop's clock is ahead of the timers': nothing if both are CLOCK_MONOTONIC,
            # though uvloop's stands still within a turn.
            ahead = math.ceil(loop.time() * SECOND) - timers.now()
            self._origin = 0 if abs(ahead) < SECOND else ahead
            self._set = timers
            self._check()
            self._fd = timers.fileno()
            loop.add_reader(self._fd, self._expired)
        except BaseException:
            self._set = None
            timers.close()
            raise
        _all.add(self)

    async def __aenter__(self) -> "Timers":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all timers: no call begins any more; who sleeps or is in a timeout is cancelled."""
        if self._set is None:
            return
        if os.getpid() != self._pid:
            # What a child of fork() does to the loop's epoll set, it does to its parent's.
            self._shut()
            return
        if not self._loop.is_closed():
            self._refuse_other_threads()
            self._loop.remove_reader(self._fd)
        self._shut()
        waits, self._waits = self._waits, set()
        for wait in waits:
            if not self._loop.is_closed():
                wait.cancel()

    def _shut(self) -> None:
        timers, self._set, self._home = self._set, None, _NOWHERE
        if timers is not None:
            timers.close()
        self._due = collections.deque()     # a signal handler may come here while they are given
        self._failed = None

    def __del__(self) -> None:
        if self._set is not None:
            if os.getpid() == self._pid:
                warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self)
            self._set.close()

    def __reduce__(self) -> Any:
        """A copy would be a second owner of the timers."""
        raise TypeError("timers cannot be copied or pickled")

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        """Return the number of pending calls, sleeps and timeouts."""
        return len(self._open())

    def _open(self) -> _Set:
        if self._set is None:
            raise ValueError("these timers are closed")
        return self._core

    @property
    def backend(self) -> int:
        """htw.DEVICE or htw.PROCESS."""
        return self._open().backend

    @property
    def tick(self) -> float:
        """The wheel's tick in seconds: a timer is not later than that."""
        return self._open().tick

    def time(self) -> float:
        """Return the present in seconds: on the loop's clock, if that is CLOCK_MONOTONIC."""
        return (self._open().now() + self._origin) / SECOND

    def advance(self, seconds: Seconds) -> bool:
        """Advance a clock that is htw.MANUAL, for tests; return whether something is due."""
        return self._open().advance(seconds)

    # Who may call.

    def _check(self) -> None:
        """Raise an exception if timers may not be used here."""
        self._open()
        if os.getpid() != self._pid:
            raise error(-errno.EPERM, False, WORDS)
        if self._loop.is_closed():
            raise RuntimeError("Event loop is closed")
        if _get_running_loop() not in (self._loop, None):
            raise RuntimeError("these timers belong to another event loop")
        self._refuse_other_threads()

    def _refuse_other_threads(self) -> None:
        if self._loop.is_running() and _get_running_loop() is not self._loop:
            raise RuntimeError(f"these timers belong to the thread of their loop, which is not "
                               f"{threading.current_thread().name}: use loop.call_soon_threadsafe()")

    def _reachable(self) -> bool:
        """Return whether there is something to stop; raise an exception in another thread."""
        if self._set is None or os.getpid() != self._pid:
            return False
        if not self._loop.is_closed():
            self._refuse_other_threads()
        return True

    def _at(self, when: float) -> int:
        when = float(when)
        if abs(when) > NEVER / SECOND:
            return NEVER - 1 if when > 0 else 0
        return min(max(math.ceil(when * SECOND) - self._origin, 0), NEVER - 1)

    # What is due.

    def _expired(self) -> None:
        """Give what is due to the loop: one batch, so that it serves others in between."""
        if self._set is None:
            return
        done, queue = False, self._due
        try:
            queue.extend(self._core.read(_TURN - len(queue)))
        except OSError as problem:
            # Nothing will come any more, and the descriptor may stay readable; unless it is a
            # signal handler's.
            if hasattr(problem, "of_library"):
                self.close()
            raise
        except ValueError:
            if self._set is not None:       # or else a signal handler has closed them
                raise
        else:
            self._give_all(queue)
            done = True
        finally:
            # After a KeyboardInterrupt the descriptor does not tell of what has been read.
            if not done and self._set is not None and not self._loop.is_closed():
                self._loop.call_soon(self._expired)

    def _give_all(self, queue: "Deque[Union[Event, _Firing]]") -> None:
        # Not in the try statement: an exception at a loop's jump back leaves that, as of 3.12.
        while queue and self._set is not None:
            self._give(queue)

    def _give(self, queue: "Deque[Union[Event, _Firing]]") -> None:
        """Give the first that is due to the loop."""
        due = queue[0]
        try:
            if isinstance(due, _Firing):
                due.give(self._loop)
            elif isinstance(due.cookie, Handle):
                queue[0] = _Firing(due)
                return
            # Others are of other processes that have the descriptor.
        except Exception:
            # Maybe that of a signal handler, so try once more; but not for ever.
            if self._failed is due:
                self._failed = None
                queue.popleft()
            else:
                self._failed = due
            raise
        self._failed = None
        queue.popleft()

    # Calls.

    def call_later(self, delay: Seconds, callback: Callable[..., object], *args: Any,
                   context: Optional[contextvars.Context] = None) -> Handle:
        """Have a function called after @delay seconds; return a Handle, to cancel or move it.

        As by the loop's call_later(): in @context, or a copy of the caller's.
        """
        handle = Handle(self, callback, args, context)
        if _get_running_loop() is not self._home:
            self._check()
        _arm(self._core, handle, delay_ns(delay), False)
        return handle

    def call_at(self, when: float, callback: Callable[..., object], *args: Any,
                context: Optional[contextvars.Context] = None) -> Handle:
        """Have a function called at @when, a time as of time(), like the loop's call_at()."""
        handle = Handle(self, callback, args, context)
        if _get_running_loop() is not self._home:
            self._check()
        _arm(self._core, handle, self._at(when), True)
        return handle

    def call_every(self, interval: Seconds, callback: Callable[..., object], *args: Any,
                   first: Optional[Seconds] = None,
                   context: Optional[contextvars.Context] = None) -> Handle:
        """Have a function called after @first seconds, or @interval, and then every @interval.

        It keeps its phase: a call that is late does not make the next ones late. If the loop
        was too late for several, the function is called once for them: see Handle.missed.
        """
        ns = duration(interval, "interval")
        if not ns:
            raise ValueError("an interval of zero")
        handle = Handle(self, callback, args, context, ns)
        if _get_running_loop() is not self._home:
            self._check()
        _arm(self._core, handle, delay_ns(interval if first is None else first), False)
        return handle

    # Tasks.

    @overload
    async def sleep(self, delay: Seconds) -> None: ...

    @overload
    async def sleep(self, delay: Seconds, result: T) -> T: ...

    async def sleep(self, delay: Seconds, result: Optional[T] = None) -> Optional[T]:
        """Sleep like asyncio.sleep()."""
        future: "asyncio.Future[None]" = self._loop.create_future()
        handle = self.call_later(delay, _wake, future)
        try:
            self._waits.add(future)
            await future
            return result
        finally:
            self._waits.discard(future)
            handle.cancel()

    def timeout(self, delay: Optional[Seconds]) -> Timeout:
        """Return an asynchronous context manager that limits the time within, like asyncio.timeout().

        @delay is in seconds from now; None for no limit.
        """
        return Timeout(self, None if delay is None else self.time() + as_float(delay))

    def timeout_at(self, when: Optional[float]) -> Timeout:
        """As timeout(), until @when, a time as of time(), like asyncio.timeout_at()."""
        return Timeout(self, when)


_all: "weakref.WeakSet[Timers]" = weakref.WeakSet()


def _after_fork() -> None:
    """In the child: the timers are the parent's, and so is what it has read."""
    for timers in list(_all):
        timers._home = _NOWHERE
        timers._due.clear()


os.register_at_fork(after_in_child=_after_fork)
