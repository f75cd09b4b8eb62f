# SPDX-License-Identifier: MIT
"""Timers: a set of timers and their events."""

import array
import ctypes
import errno
import functools
import os
import select
import struct
import threading
import time
import warnings
import weakref
from threading import get_ident
from typing import (Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple, TypeVar,
                    cast)

from ._events import ROW, Event, Pending, Unread, due, pending
from ._library import (ADD, ANY, DEVICE, F_ABS, F_KEEP, F_PUT_OFF, NEVER, PROCESS, SECOND, U64, WORDS_OF_OPEN, Add,
                       Info, Query, Seconds, delay as delay_ns, duration, error, library, make_setup, number, raw_cookie)

_ADD = struct.Struct(ADD)
_FIRST, _MOST = 256, 16384      # events that one call of htw_read() asks for
_ENTRIES = 1024                 # of htw_list_in() and htw_harvest()
_MSEC = 1000000
_CLOSED = "these timers are closed"
_NESTED = ("this thread is in a method of these timers already: a signal handler, or __del__() of an object that "
           "was collected, came in between; a handler sets a flag, or uses loop.add_signal_handler()")

F = TypeVar("F", bound=Callable[..., Any])


def exclusive(method: F) -> F:
    """Have a method run alone, and only while the timers are open.

    Other threads wait for it. Its own thread can come again only by a signal handler, __del__()
    or a trace function, between two steps, and is refused. What shows that is the lock itself:
    an exception that such a handler raises could leave anything else behind. close() is not
    refused, and leaves it to the method that is at work to free what that uses.
    """
    @functools.wraps(method)
    def call(self: "Timers", *args: Any, **kwargs: Any) -> Any:
        if self._lock._is_owned() or self._waiting and get_ident() in self._waiting:
            raise RuntimeError(_NESTED)
        result = None
        try:
            with self._lock:
                if not self._closed:
                    if self._unread.counts:     # an exception came before they were kept
                        self._unread.keep(self._cookies)
                    result = method(self, *args, **kwargs)
                closed = self._closed
        finally:
            if self._closed:
                self._free()
        if closed:
            raise ValueError(_CLOSED)
        return result

    return cast(F, call)


class Timers:
    """A set of timers. Cookies may be any objects; they are held until the timer ends.

    backend: DEVICE, PROCESS, or ANY: the device if it can be opened, or else this process.
    clock: time.CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME, or MANUAL, which only
    advance() moves. limit: most timers. tick: in seconds; or exact: the finest that needs no
    privilege, 10 us. ordered: one wheel for all CPUs, so that events of the device come in the
    order of ticks. slots: of each level of the wheels.

    All methods may be called by several threads at once. A signal handler that comes while its
    thread is in one of them gets a RuntimeError from all but close(). If it raises an
    exception, that may take with it what the method was about to return.
    """

    _closed = True      # until it has been opened

    def __init__(self, backend: int = ANY, *, clock: Optional[int] = None, limit: Optional[int] = None,
                 tick: Optional[Seconds] = None, exact: bool = False, ordered: bool = False,
                 slots: Optional[Sequence[int]] = None) -> None:
        if backend not in (DEVICE, PROCESS, ANY):
            raise ValueError("backend is none of htw.DEVICE, htw.PROCESS and htw.ANY")
        self._open_by("htw_open", backend == DEVICE, backend,
                      make_setup(clock, limit, tick, exact, ordered, slots))

    @classmethod
    def from_fd(cls, fd: int) -> "Timers":
        """Use a descriptor of the device that was inherited or received.

        The objects behind the cookies of its timers are unknown. Those cookies are int: the
        object itself if it was an int between 0 and 2**64 - 1, or else zero.
        """
        self = cls.__new__(cls)
        self._open_by("htw_open_fd", True, number(fd, 31, "fd"))
        return self

    def _open_by(self, function: str, device: bool, *arguments: object) -> None:
        self._lib = library()
        self._lock: Any = threading.RLock()
        self._waiting: Set[int] = set()         # threads in wait(), which are there without the lock
        self._unread = Unread()
        # By id, not by a number given to the library as the cookie: other processes can
        # start timers on a descriptor, with any cookie.
        self._cookies: Dict[int, Any] = {}
        self._add, self._raw = Add(), ctypes.create_string_buffer(_FIRST * ROW.size)
        self._device = self._inherited = False
        self._handle = ctypes.c_void_p()
        self._wake: Sequence[int] = os.pipe()   # what is written there ends waits
        self._closed = False
        result = getattr(self._lib, function)(ctypes.byref(self._handle), *arguments)
        if result < 0:
            self.close()
            raise error(result, device, WORDS_OF_OPEN)
        self._device = self._lib.htw_backend(self._handle) == DEVICE
        _all.add(self)

    def close(self) -> None:
        """End all timers; on the device, unless another process has the descriptor.

        A wait(), or another method that a signal handler of the same thread has interrupted to
        call this, ends with a ValueError.
        """
        if self._closed and not self._handle:
            return
        interrupted = self._lock._is_owned()
        with self._lock:
            self._closed = True
            if self._waiting:
                os.write(self._wake[1], b"x")
        if not interrupted:
            self._free()

    def _free(self) -> None:
        """Free what was closed and no thread uses any more."""
        with self._lock:
            if not self._waiting:
                handle, self._handle.value = self._handle.value, None
                ends, self._wake = self._wake, ()
                try:
                    if handle:
                        self._lib.htw_close(handle)
                finally:
                    list(map(os.close, ends))
        # Without the lock, because __del__() of cookies may come here.
        self._unread.clear()
        self._cookies.clear()

    def _forked(self) -> None:
        """In a child of fork(): its threads are gone, and unread events are the parent's."""
        self._lock, self._inherited = threading.RLock(), True
        self._waiting.clear()
        self._unread.clear()

    def __enter__(self) -> "Timers":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        """A copy would be a second owner of what the library has allocated."""
        raise TypeError("timers cannot be copied or pickled")

    def __del__(self) -> None:
        if not self._closed:
            if not self._inherited:
                warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self)
            self.close()

    def __bool__(self) -> bool:
        return True

    @exclusive
    def __len__(self) -> int:
        """Return the number of timers: pending, due and not handed out, and kept."""
        return int(self._info().timers) + len(self._unread.ended)

    def _check(self, result: int, id_: Optional[int] = None) -> int:
        if result < 0:
            raise error(result, self._device) if id_ is None or result != -errno.ENOENT else KeyError(id_)
        return result

    def _info(self) -> Info:
        info = Info()
        self._check(self._lib.htw_info(self._handle, info))
        return info

    @exclusive
    def fileno(self) -> int:
        """Return the descriptor, for select, selectors or an event loop.

        It is readable when read() should be called. If a loop over read() was left before its
        end, call read() again before waiting for the descriptor.
        """
        return int(self._lib.htw_fd(self._handle))

    @property
    def backend(self) -> int:
        """DEVICE or PROCESS."""
        if self._closed:
            raise ValueError(_CLOSED)
        return DEVICE if self._device else PROCESS

    @property
    @exclusive
    def tick(self) -> float:
        """The wheel's tick in seconds: no timer is later than that."""
        return int(self._info().tick_ns) / SECOND

    @exclusive
    def now(self) -> int:
        """Return the present in ns, on the clock of the deadlines."""
        return int(self._lib.htw_now(self._handle))

    # One timer.

    def _begin(self, cookie: Any, flags: int, deadline: int, interval: int = 0, slack: int = 0,
               firings: int = 0) -> int:
        _ADD.pack_into(self._add, 0, 0, deadline, interval, slack, raw_cookie(cookie), flags, firings)
        try:
            self._check(self._lib.htw_add(self._handle, self._add))
            id_ = int(self._add.id)
            self._cookies[id_] = cookie
            return id_
        except BaseException:
            self._undo([self._add.id])
            raise

    _start = exclusive(_begin)

    def _undo(self, ids: Iterable[int]) -> None:
        """Stop timers whose ids no caller has got."""
        for id_ in filter(None, ids):
            self._lib.htw_stop(self._handle, id_)
            self._cookies.pop(id_, None)

    def after(self, delay: Seconds, cookie: Any = None, *, slack: Seconds = 0, keep: bool = False) -> int:
        """Start a timer that expires after @delay seconds; return its id.

        With @keep its id stays valid, for rearm(), until it is stopped.
        """
        return self._start(cookie, F_KEEP if keep else 0, delay_ns(delay), 0, duration(slack, "slack"))

    def at(self, when_ns: int, cookie: Any = None, *, slack: Seconds = 0, keep: bool = False) -> int:
        """Start a timer that expires at @when_ns, a time as of now(); return its id."""
        return self._start(cookie, F_ABS | (F_KEEP if keep else 0), number(when_ns, 64, "when_ns"), 0,
                           duration(slack, "slack"))

    def every(self, interval: Seconds, cookie: Any = None, *, first: Optional[Seconds] = None,
              firings: int = 0, slack: Seconds = 0) -> int:
        """Start a periodic timer, which keeps its phase; return its id.

        It expires after @first seconds, or @interval, and then every @interval; in all
        @firings times, or for ever. An interval below a tick is rounded up to one.
        """
        ns = duration(interval, "interval")
        if not ns:
            raise ValueError("an interval of zero")
        return self._start(cookie, 0, delay_ns(interval if first is None else first), ns,
                           duration(slack, "slack"), number(firings, 32, "firings"))

    def timeout(self, delay: Seconds, cookie: Any = None, *, slack: Seconds = 0) -> int:
        """Start a timer that put_off() can move; return its id."""
        return self._start(cookie, F_PUT_OFF, delay_ns(delay), 0, duration(slack, "slack"))

    @exclusive
    def put_off(self, id_: int, delay: Seconds) -> None:
        """Move the deadline of a timeout() to @delay seconds from now.

        Of several calls the last counts, but the timer does not expire before the time that it
        was started or rearmed for.

        Makes no system call. Raise KeyError if the timeout has ended, or its event was read,
        or @id_ is that of another timer.
        """
        id_, ns = number(id_, 64, "id_"), delay_ns(delay)
        when = min(int(self._lib.htw_now(self._handle)) + ns, NEVER - 1)
        self._check(self._lib.htw_put_off(self._handle, id_, when), id_)

    @exclusive
    def rearm(self, id_: int, delay: Seconds) -> None:
        """Move a timer to @delay seconds from now. Raise KeyError if it has ended.

        It has ended if its event was read, by read() or wait(), even if the loop over the
        events has not come to it. Of a periodic or kept timer such an event is withdrawn.
        """
        id_, ns = number(id_, 64, "id_"), delay_ns(delay)
        self._check(self._lib.htw_rearm(self._handle, id_, ns), id_)
        self._unread.again.pop(id_, None)

    def stop(self, id_: int) -> bool:
        """Stop a timer: no event of it is handed out any more.

        Return False if it had ended: its last event has been handed out, or there is no such
        timer.
        """
        return self._stop(number(id_, 64, "id_"))[0]

    @exclusive
    def _stop(self, id_: int) -> Tuple[bool, Any]:
        """Return also what is let go, because __del__() of it may come here."""
        try:
            result = self._lib.htw_stop(self._handle, id_)
        finally:
            cookie, event = self._cookies.pop(id_, None), self._unread.pop(id_)
        if result == -errno.ENOENT:
            return event is not None, event
        self._check(result)
        return True, (event, cookie)

    @exclusive
    def query(self, id_: int) -> Pending:
        """Report a timer. Raise KeyError if it has ended."""
        query = Query(id=number(id_, 64, "id_"))
        ended = self._unread.ended.get(query.id)
        if ended is not None:
            return due(ended)
        self._check(self._lib.htw_query(self._handle, query), query.id)
        return pending(query, self._cookies.get(query.id, query.cookie), self._unread.again.get(query.id))

    # Many timers.

    def after_many(self, delays: Iterable[Seconds], cookies: Optional[Iterable[Any]] = None) -> List[int]:
        """Start many timers with one call, all or none; return their ids."""
        deadlines = array.array("Q", map(delay_ns, delays))
        objects = [None] * len(deadlines) if cookies is None else list(cookies)
        if len(objects) != len(deadlines):
            raise ValueError("need as many cookies as delays")
        return self._start_many(deadlines, objects)

    @exclusive
    def _start_many(self, deadlines: "array.array[int]", objects: List[Any]) -> List[int]:
        count = len(deadlines)
        ids, raw = array.array("Q", bytes(8 * count)), array.array("Q", map(raw_cookie, objects))
        results = array.array("i", bytes(4 * count))
        addresses = [a.buffer_info()[0] for a in (deadlines, raw, ids)]
        try:
            failed = self._lib.htw_add_many(self._handle, None, *addresses, count, results.buffer_info()[0])
            if failed:
                self._check(failed)
                self._check(min(results))
            self._cookies.update(zip(ids, objects))
            return ids.tolist()
        except BaseException:
            self._undo(ids)
            raise

    def rearm_many(self, ids: Iterable[int], delays: Iterable[Seconds]) -> List[int]:
        """Move many timers with one call; return a list of the ids that have ended."""
        timers = array.array("Q", (number(id_, 64, "id") for id_ in ids))
        deadlines = array.array("Q", map(delay_ns, delays))
        if len(deadlines) != len(timers):
            raise ValueError("need as many delays as ids")
        return self._rearm_many(timers, deadlines)

    @exclusive
    def _rearm_many(self, ids: "array.array[int]", deadlines: "array.array[int]") -> List[int]:
        results = array.array("i", bytes(4 * len(ids)))
        addresses = [a.buffer_info()[0] for a in (ids, deadlines)]
        self._check(self._lib.htw_rearm_many(self._handle, *addresses, len(ids), 0, results.buffer_info()[0]))
        if self._unread.again:
            for id_, result in zip(ids, results):
                if not result:
                    self._unread.again.pop(id_, None)
        return [id_ for id_, result in zip(ids, results) if result]

    @exclusive
    def list(self) -> List[Pending]:
        """Report all timers: pending, due and not handed out, and kept."""
        cursor, entries, found = U64(0), (Query * _ENTRIES)(), []       # type: Any, Any, List[Pending]
        ended, again = self._unread.ended.copy(), self._unread.again.copy()
        while True:
            count = self._lib.htw_list_in(self._handle, 0, cursor, entries, _ENTRIES)
            if count == -errno.EAGAIN:      # it has looked at many, and found none
                continue
            if not self._check(count):
                return found + [due(event) for event in ended.values()]
            found += [pending(q, self._cookies.get(q.id, q.cookie), again.get(q.id)) for q in entries[:count]]

    @exclusive
    def harvest(self) -> List[Pending]:
        """Stop all timers, and return a list of them, for a shutdown.

        Those that are due and whose events were not handed out are among them.
        """
        cursor, entries, found, count = U64(0), (Query * _ENTRIES)(), {}, 1
        while count:
            try:
                count = self._check(self._lib.htw_harvest(self._handle, cursor, entries, _ENTRIES))
                for q in entries[:count]:
                    found[q.id] = pending(q, self._cookies.pop(q.id, q.cookie), None)
            except BaseException:
                for q in entries:
                    self._cookies.pop(q.id, None)
                raise
        # Those of a harvest() before, if two exceptions came in it.
        if not self._info().timers:
            self._cookies.clear()
        for event in self._unread.hand_out(NEVER):
            timer = found.get(event.id)
            found[event.id] = due(event) if timer is None else due(event, timer.interval, timer.firings)
        return [*found.values()]

    # Events.

    def read(self, limit: Optional[int] = None) -> Iterator[Event]:
        """Return an iterator over the expirations so far, at most @limit, without waiting.

        An event is in these timers until the iterator hands it out: if the loop ends early,
        the next read() has the others. What expires later comes with a later read().

        With a limit it may return fewer, and leave the descriptor readable, so as not to take
        long when very many timers that were far away come near at once.
        """
        return self._read(NEVER if limit is None else number(limit, 63, "limit"))

    @exclusive
    def _read(self, most: int) -> Iterator[Event]:
        """Read what is due, until @most events are there.

        Ends, however fast timers are started meanwhile: after as many events as there were
        timers, or in the process, where they are in order, after what was due when it began.
        """
        left, size, begin, next_ = most - len(self._unread), _FIRST, None, U64()
        while left > 0:
            want = min(size, left)
            raw = self._raw if want <= _FIRST else ctypes.create_string_buffer(want * ROW.size)
            count = self._check(self._unread.take(self._lib.htw_read, self._handle, raw, want, self._cookies))
            left -= count
            size = min(4 * size, _MOST)
            # Who asks for portions does not want to wait for all of them.
            if count < want and (self._device or most != NEVER):
                break
            if begin is None:
                begin = int(self._lib.htw_now(self._handle))
                if count == want:
                    left = min(left, int(self._info().timers))
            elif not self._device and count and ROW.unpack_from(raw, (count - 1) * ROW.size)[2] > begin:
                break
            # In the process, to move a long bucket down takes several calls.
            if count < want and (self._lib.htw_next_time(self._handle, next_) < 0 or next_.value > begin):
                break
        return self._unread.hand_out(most)

    def wait(self, timeout: Optional[Seconds] = None) -> List[Event]:
        """Wait for expirations and return a list of them; empty after @timeout seconds."""
        end = None if timeout is None else time.monotonic_ns() + delay_ns(timeout)
        while True:
            events = list(self.read())
            left = -1 if end is None else end - time.monotonic_ns()
            if events or end is not None and left <= 0:
                return events
            self._block(left)

    def _block(self, ns: int) -> None:
        """Wait until there may be something to read, or the timers are closed.

        By poll(), because close() can end that. Its timeout is in ms, so the library waits
        for the rest, which close() can wait for. Signal handlers run, and the wait goes on.
        """
        me = get_ident()
        try:
            with self._lock:
                self._waiting.add(me)
                if self._closed:
                    return
                fd = self._lib.htw_fd(self._handle)
            if 0 <= ns < _MSEC:
                result = self._lib.htw_wait(self._handle, ns)
                if result != -errno.EINTR:
                    self._check(result)
                return
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            poll.register(self._wake[0], select.POLLIN)
            happened = dict(poll.poll(None if ns < 0 else min(ns // _MSEC, 2**31 - 1)))
            if select.POLLNVAL & happened.get(fd, 0):
                self._check(-errno.EBADF)
        finally:
            self._waiting.discard(me)
            if self._closed:
                self._free()

    @exclusive
    def advance(self, seconds: Seconds) -> bool:
        """Advance a MANUAL clock; return whether something is due."""
        return bool(self._check(self._lib.htw_advance(self._handle, duration(seconds, "seconds"), 0)))


_all: "weakref.WeakSet[Timers]" = weakref.WeakSet()


def _after_fork() -> None:
    for timers in list(_all):
        timers._forked()


os.register_at_fork(after_in_child=_after_fork)
