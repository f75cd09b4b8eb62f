# SPDX-License-Identifier: MIT
"""Timeout: limits the time within an "async with", as asyncio.timeout() does."""

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional, Type

if TYPE_CHECKING:
    from .aio import Timers

# As asyncio calls them.
_CREATED, _ENTERED, _EXPIRING, _EXPIRED, _EXITED = "created", "active", "expiring", "expired", "finished"


class Timeout:
    """What asyncio.Timeout is, with a timer of htw: made by Timers.timeout() and timeout_at().

    When the time is over, the task is cancelled, and the CancelledError becomes a TimeoutError
    as it leaves the block; unless the task has been cancelled by others as well.
    """

    __slots__ = ("_timers", "_when", "_state", "_task", "_cancelling", "_handle")

    def __init__(self, timers: "Timers", when: Optional[float]) -> None:
        self._timers, self._when, self._state = timers, when, _CREATED
        self._task: Optional["asyncio.Task[Any]"] = None
        self._cancelling = 0    # requests to cancel the task that are older than this
        self._handle: Any = None        # of these timers, or of the loop if the time was over

    def __repr__(self) -> str:
        when = ""
        if self._state is _ENTERED:
            when = f" when={None if self._when is None else round(self._when, 3)}"
        return f"<Timeout [{self._state}]{when}>"

    def when(self) -> Optional[float]:
        """Return the deadline, on the clock of Timers.time(), or None."""
        return self._when

    def expired(self) -> bool:
        """Return whether the time was over within the block."""
        return self._state in (_EXPIRING, _EXPIRED)

    def reschedule(self, when: Optional[float]) -> None:
        """Move the deadline, or do without one."""
        if self._state is _CREATED:
            raise RuntimeError("Timeout has not been entered")
        if self._state is not _ENTERED:
            raise RuntimeError(f"Cannot change state of {self._state} Timeout")
        timers, handle = self._timers, self._handle
        if when is not None:
            timers._at(when)    # refuses what is no number
        if when is not None and when > timers.time():
            if hasattr(handle, "rearm_at"):
                handle.rearm_at(when)
                handle = None
            else:
                self._handle = timers.call_at(when, self._expire)
        else:
            timers._check()
            self._handle = None if when is None else timers._loop.call_soon(self._expire)
        self._when = when
        if handle is not None:
            handle.cancel()

    async def __aenter__(self) -> "Timeout":
        if self._state is not _CREATED:
            raise RuntimeError("Timeout has already been entered")
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("Timeout should be used inside a task")
        self._task, self._cancelling = task, task.cancelling()
        self._state = _ENTERED
        try:
            self.reschedule(self._when)
        except BaseException:
            self._state = _EXITED
            raise
        self._timers._waits.add(self)
        return self

    async def __aexit__(self, exc_type: Optional[Type[BaseException]], exc_val: Optional[BaseException],
                        exc_tb: Optional[TracebackType]) -> None:
        self._timers._waits.discard(self)
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.cancel()
        if self._state is not _EXPIRING:
            self._state = _EXITED
            return
        self._state = _EXPIRED
        assert self._task is not None
        # If others have asked for it as well, the task is to be cancelled.
        if self._task.uncancel() > self._cancelling or exc_val is None:
            return
        if isinstance(exc_val, asyncio.CancelledError):
            raise TimeoutError from exc_val
        _name_cause(exc_val)
        if isinstance(exc_val, BaseExceptionGroup):
            for one in exc_val.exceptions:
                _name_cause(one)

    def _expire(self) -> None:
        self._handle = None
        self._state = _EXPIRING
        assert self._task is not None
        self._task.cancel()

    def cancel(self) -> None:
        """The timers are closed, and its end will not come: cancel the task instead."""
        if self._state is _ENTERED and self._when is not None and self._task is not None:
            self._task.cancel("the timers of a timeout were closed")


def _name_cause(problem: BaseException) -> None:
    """Have what was raised in answer to a cancellation say that this was a TimeoutError."""
    while problem.__context__ is not None:
        cause = problem.__context__
        if isinstance(cause, asyncio.CancelledError):
            problem.__context__ = TimeoutError()
            problem.__context__.__context__ = problem.__context__.__cause__ = cause
            return
        problem = cause
