# SPDX-License-Identifier: MIT
"""Timers: a set of timers and their events."""

import array
import ctypes
import errno
import os
import select
import struct
import threading
import time
import weakref
from itertools import chain, islice, repeat
from operator import length_hint
from typing import (Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Set,
                    SupportsIndex, Tuple)

from ._library import (ANY, DEVICE, EVENT, EVENT_MORE, F_ABS, F_KEEP, F_PUT_OFF, LEVELS, NEVER, PROCESS,
                       SECOND, SETUP_CLOCK, SETUP_EXACT, SETUP_ORDERED, U64, WORDS_OF_OPEN, Add, Cancel,
                       Info, Query, Seconds, Setup, delay as delay_ns, duration, error, library, number)

_ROW = struct.Struct(EVENT)
_FIRST, _MOST = 256, 16384      # events that one call of htw_read() asks for
_ENTRIES = 1024                 # of htw_list_in() and htw_harvest()
_MSEC = 1000000
_STATES = {1: "pending", 2: "due", 3: "disarmed"}


class Event(NamedTuple):
    """A timer has fired.

    taken_ns: when the event was taken from the library.
    missed: further firings of a periodic timer that came due before this one was read.
    more: the timer is periodic or kept, and its id stays valid.
    """

    id: int
    cookie: Any
    deadline_ns: int
    taken_ns: int
    missed: int
    more: bool

    @property
    def late(self) -> float:
        """Time from the deadline until the event was taken, in seconds."""
        return (self.taken_ns - self.deadline_ns) / SECOND


class Pending(NamedTuple):
    """A timer, as query(), list() and harvest() report it.

    remaining, interval: in seconds; zero if it is due, and if it is not periodic.
    missed: firings that came due after the one that is still to be read.
    firings: how many are left, with those; zero for no limit.
    state: "pending"; "due", and its event was not handed out; or "disarmed": kept.
    """

    id: int
    cookie: Any
    deadline_ns: int
    remaining: float
    interval: float
    missed: int
    firings: int
    state: str


class _Batch:
    """What one htw_read() returned: raw, and once somebody wants it, as Events.

    Events stay here until they are handed out. A signal handler that raises an exception can
    run between any two steps of Python code, but not within a call of a function that is not
    written in Python. So a single such call reads them and notes how many there are, and a
    single such call takes an event and hands it out.
    """

    __slots__ = ("raw", "counts", "made", "ended", "passed")

    def __init__(self, size: int) -> None:
        self.raw: Any = ctypes.create_string_buffer(size * _ROW.size)
        self.counts: List[int] = []     # the result of htw_read()
        # At 0: events; an iterator over ids, which is where the handing out is; these ids; and
        # those of events with more, of which some may have been handed out.
        self.made: Dict[int, Tuple[Dict[int, Event], Iterator[int], List[int], Set[int]]] = {}
        self.passed = 0                 # so many ids were looked at for that
        self.ended: List[int] = []      # ids whose cookies are still to be dropped

    def __len__(self) -> int:
        return len(self.made[0][0]) if self.made else self.counts[0] if self.counts else 0

    def keep(self, events: Iterable[Event]) -> None:
        """Store the events that the raw ones stand for, unless that was done already.

        A timer has one event: of a periodic one that fired again meanwhile, the first.
        """
        kept: Dict[int, Event] = {}
        for event in events:
            first = kept.get(event.id)
            if first is not None:
                event = first._replace(missed=first.missed + 1 + event.missed, more=event.more)
            kept[event.id] = event
        self.ended = [event.id for event in kept.values() if not event.more]
        ids = list(kept)
        self.made.setdefault(0, (kept, iter(ids), ids, {event.id for event in kept.values() if event.more}))
        self.raw = None

    def count_ended(self) -> int:
        """Return how many events are the last of their timers.

        Each id is looked at once, however often this is called. Whatever interrupts it, to do
        a part once more changes nothing. What is handed out meanwhile still counts.
        """
        events, rest, ids, more = self.made[0]
        left = len(events)
        now = len(ids) - length_hint(rest)
        more.difference_update(ids[self.passed:now])
        self.passed = now
        return left - len(more)

    def withdraw(self, id_: int) -> bool:
        """Drop the event of a timer; return whether there was one."""
        events, _, _, more = self.made[0]
        more.discard(id_)
        return events.pop(id_, None) is not None


class Timers:
    """A set of timers. Cookies may be any objects; they are held until the timer ends.

    backend: DEVICE, PROCESS, or ANY: the device if it can be opened, or else this process.
    clock: time.CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME, or MANUAL, which only
    advance() moves. limit: most timers. tick: in seconds; or exact: the finest that needs no
    privilege, 10 us. ordered: one wheel for all CPUs, so that events of the device come in the
    order of ticks. slots: of each level of the wheels.

    All methods may be called by several threads at once, and by signal handlers.
    """

    def __init__(self, backend: int = ANY, *, clock: Optional[int] = None, limit: Optional[int] = None,
                 tick: Optional[Seconds] = None, exact: bool = False, ordered: bool = False,
                 slots: Optional[Sequence[int]] = None) -> None:
        if backend not in (DEVICE, PROCESS, ANY):
            raise ValueError("backend is none of htw.DEVICE, htw.PROCESS and htw.ANY")
        setup = Setup(flags=(SETUP_EXACT if exact else 0) | (SETUP_ORDERED if ordered else 0))
        if clock is not None:
            setup.flags |= SETUP_CLOCK
            setup.clock = number(clock, 31, "clock")
        if limit is not None:
            setup.limit = number(limit, 64, "limit", 1)
        if tick is not None:
            setup.tick_ns = number(duration(tick, "tick"), 64, "tick", 1)
        if slots is not None:
            slots = tuple(slots)
            if not 1 <= len(slots) <= LEVELS:
                raise ValueError(f"slots are those of 1 to {LEVELS} levels")
            setup.levels = len(slots)
            for level, count in enumerate(slots):
                setup.slots[level] = number(count, 32, "slots")
        self._open_by("htw_open", backend == DEVICE, backend, setup)

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
        # Reentrant, because signal handlers and __del__() of cookies may come in between.
        self._lock = threading.RLock()
        self._closed = False
        self._waiting: Set[object] = set()
        self._wake: Tuple[int, ...] = ()        # a pipe; to write to it ends waits
        self._batches: List[_Batch] = []
        self._reading: Optional[_Batch] = None  # the one that htw_read() writes to
        self._portion: Any = None               # what htw_harvest() writes to
        self._portions: List[int] = []          # its result
        self._harvested: Dict[int, Pending] = {}
        # By id, not by a number given to the library as the cookie: other processes can
        # start timers on a descriptor, with any cookie.
        self._cookies: Dict[int, Any] = {}
        self._handle = ctypes.c_void_p()
        result = getattr(self._lib, function)(ctypes.byref(self._handle), *arguments)
        if result < 0:
            raise error(result, device, WORDS_OF_OPEN)
        self._device = self._lib.htw_backend(self._handle) == DEVICE
        _all.add(self)

    def close(self) -> None:
        """End all timers; on the device, unless another process has the descriptor.

        Another thread's wait() ends, with a ValueError.
        """
        with self._lock:
            self._closed = True
            self._drop_unread()
            self._cookies.clear()
            if not self._waiting:
                self._free()
            elif self._wake:
                os.write(self._wake[1], b"x")

    def _free(self) -> None:
        """Free what no thread uses any more."""
        if self._handle:
            self._lib.htw_close(self._handle)
            self._handle.value = None
        for end in self._wake:
            os.close(end)
        self._wake = ()

    def _forked(self) -> None:
        """In a child of fork(): its threads are gone, and unread events are the parent's."""
        self._lock = threading.RLock()
        self._waiting = set()
        self._drop_unread()

    def _drop_unread(self) -> None:
        """Forget the events that were read and not handed out; loops over them end."""
        for batch in self._batches:
            batch.counts[:] = [0]
            if batch.made:
                batch.made[0][3].clear()
                batch.made[0][0].clear()
        self._batches.clear()

    def __enter__(self) -> "Timers":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        """A copy would be a second owner of what the library has allocated."""
        raise TypeError("timers cannot be copied or pickled")

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        """Return the number of timers: pending, due and not handed out, and kept."""
        with self._lock:
            # Others than those with more events have ended in the library.
            read = 0
            for batch in list(self._batches):
                self._events(batch)
                read += batch.count_ended()
            return int(self._info().timers) + read

    def _open(self) -> ctypes.c_void_p:
        if self._closed:
            raise ValueError("these timers are closed")
        return self._handle

    def _check(self, result: int) -> int:
        if result < 0:
            raise error(result, self._device)
        return result

    def _info(self) -> Info:
        info = Info()
        with self._lock:
            self._check(self._lib.htw_info(self._open(), info))
        return info

    def fileno(self) -> int:
        """Return the descriptor, for select, selectors or an event loop.

        It is readable when read() should be called. If a loop over read() was left before its
        end, call read() again before waiting for the descriptor.
        """
        with self._lock:
            return int(self._lib.htw_fd(self._open()))

    @property
    def backend(self) -> int:
        """DEVICE or PROCESS."""
        self._open()
        return DEVICE if self._device else PROCESS

    @property
    def tick(self) -> float:
        """The wheel's tick in seconds: no timer is later than that."""
        return int(self._info().tick_ns) / SECOND

    def now(self) -> int:
        """Return the present in ns, on the clock of the deadlines."""
        with self._lock:
            return int(self._lib.htw_now(self._open()))

    # One timer.

    def _start(self, add: Add, cookie: Any) -> int:
        add.cookie = _raw(cookie)
        with self._lock:
            try:
                self._check(self._lib.htw_add(self._open(), add))
                self._cookies[add.id] = cookie
                return int(add.id)
            except BaseException:
                self._undo([add.id])
                raise

    def _undo(self, ids: Iterable[int]) -> None:
        """Stop timers whose ids nobody has got."""
        for id_ in filter(None, ids):
            self._lib.htw_cancel(self._handle, Cancel(id=id_))
            self._cookies.pop(id_, None)

    def after(self, delay: Seconds, cookie: Any = None, *, slack: Seconds = 0, keep: bool = False) -> int:
        """Start a timer that expires after @delay seconds; return its id.

        With @keep its id stays valid, for rearm(), until it is stopped.
        """
        return self._start(Add(deadline=delay_ns(delay), slack=duration(slack, "slack"),
                               flags=F_KEEP if keep else 0), cookie)

    def at(self, when_ns: int, cookie: Any = None, *, slack: Seconds = 0, keep: bool = False) -> int:
        """Start a timer that expires at @when_ns, a time as of now(); return its id."""
        return self._start(Add(deadline=number(when_ns, 64, "when_ns"), slack=duration(slack, "slack"),
                               flags=F_ABS | (F_KEEP if keep else 0)), cookie)

    def every(self, interval: Seconds, cookie: Any = None, *, first: Optional[Seconds] = None,
              firings: int = 0, slack: Seconds = 0) -> int:
        """Start a periodic timer, which keeps its phase; return its id.

        It expires after @first seconds, or @interval, and then every @interval; in all
        @firings times, or for ever. An interval below a tick is rounded up to one.
        """
        ns = duration(interval, "interval")
        if not ns:
            raise ValueError("an interval of zero")
        return self._start(Add(deadline=delay_ns(interval if first is None else first), interval=ns,
                               firings=number(firings, 32, "firings"), slack=duration(slack, "slack")),
                           cookie)

    def timeout(self, delay: Seconds, cookie: Any = None, *, slack: Seconds = 0) -> int:
        """Start a timer that put_off() can move; return its id."""
        return self._start(Add(deadline=delay_ns(delay), slack=duration(slack, "slack"), flags=F_PUT_OFF),
                           cookie)

    def put_off(self, id_: int, delay: Seconds) -> None:
        """Move the deadline of a timeout() to @delay seconds from now.

        Of several calls the last counts, but the timer does not expire before the time that it
        was started or rearmed for.

        Makes no system call. Raise KeyError if the timeout has ended, or its event was read,
        or @id_ is that of another timer.
        """
        id_, ns = number(id_, 64, "id_"), delay_ns(delay)
        with self._lock:
            when = min(int(self._lib.htw_now(self._open())) + ns, NEVER - 1)
            self._ended(self._lib.htw_put_off(self._open(), id_, when), id_)

    def rearm(self, id_: int, delay: Seconds) -> None:
        """Move a timer to @delay seconds from now. Raise KeyError if it has ended.

        It has ended if its event was read, by read() or wait(), even if the loop over the
        events has not come to it. Of a periodic or kept timer such an event is withdrawn.
        """
        id_, ns = number(id_, 64, "id_"), delay_ns(delay)
        with self._lock:
            self._ended(self._lib.htw_rearm(self._open(), id_, ns), id_)
            self._withdraw(id_)

    def _ended(self, result: int, id_: int) -> None:
        if result == -errno.ENOENT:
            raise KeyError(id_)
        self._check(result)

    def stop(self, id_: int) -> bool:
        """Stop a timer: no event of it is handed out any more.

        Return False if it had ended: its last event has been handed out, or there is no such
        timer.
        """
        cancel = Cancel(id=number(id_, 64, "id_"))
        with self._lock:
            result = self._lib.htw_cancel(self._open(), cancel)
            withdrawn = self._withdraw(cancel.id)
            if result == -errno.ENOENT:
                return withdrawn
            self._check(result)
            self._cookies.pop(cancel.id, None)
            return True

    def query(self, id_: int) -> Pending:
        """Report a timer. Raise KeyError if it has ended."""
        query = Query(id=number(id_, 64, "id_"))
        with self._lock:
            found = (self._events(batch).get(query.id) for batch in self._batches)
            unread = next(filter(None, found), None)
            result = self._lib.htw_query(self._open(), query)
            if result == -errno.ENOENT and unread is not None:
                return _due(unread)
            self._ended(result, query.id)
            return self._pending(query, unread)

    # Many timers.

    def after_many(self, delays: Iterable[Seconds], cookies: Optional[Iterable[Any]] = None) -> List[int]:
        """Start many timers with one call, all or none; return their ids."""
        deadlines = array.array("Q", map(delay_ns, delays))
        count = len(deadlines)
        objects = [None] * count if cookies is None else list(cookies)
        if len(objects) != count:
            raise ValueError("need as many cookies as delays")
        ids, raw = array.array("Q", bytes(8 * count)), array.array("Q", map(_raw, objects))
        results = array.array("i", bytes(4 * count))
        addresses = [a.buffer_info()[0] for a in (deadlines, raw, ids)]
        to_results = results.buffer_info()[0]
        with self._lock:
            try:
                failed = self._lib.htw_add_many(self._open(), None, *addresses, count, to_results)
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
        timers, deadlines = _ids(ids), array.array("Q", map(delay_ns, delays))
        count = len(timers)
        if len(deadlines) != count:
            raise ValueError("need as many delays as ids")
        results = array.array("i", bytes(4 * count))
        addresses = [a.buffer_info()[0] for a in (timers, deadlines)]
        to_results = results.buffer_info()[0]
        with self._lock:
            self._check(self._lib.htw_rearm_many(self._open(), *addresses, count, 0, to_results))
            if self._batches:
                for id_, result in zip(timers, results):
                    if not result:
                        self._withdraw(id_)
        return [id_ for id_, result in zip(timers, results) if result]

    def list(self) -> List[Pending]:
        """Report all timers: pending, due and not handed out, and kept."""
        cursor, entries, found = U64(0), (Query * _ENTRIES)(), []
        with self._lock:
            unread = self._unread()
            while True:
                count = self._lib.htw_list_in(self._open(), 0, cursor, entries, _ENTRIES)
                if count == -errno.EAGAIN:      # it has looked at many, and found none
                    continue
                if not self._check(count):
                    break
                found += [self._pending(q, unread.pop(q.id, None)) for q in entries[:count]]
            return found + [_due(event) for event in unread.values()]

    def harvest(self) -> List[Pending]:
        """Stop all timers, and return a list of them, for a shutdown.

        Those that are due and whose events were not handed out are among them. If an exception
        ends it, as that of a signal handler, the next harvest() has all of them.
        """
        found: List[Pending] = []
        try:
            with self._lock:
                self._note_harvested()
                if self._portion is None:
                    self._portion = (Query * _ENTRIES)()
                cursor, count = U64(0), 1
                while count:
                    arguments = (self._open(),), (cursor,), (self._portion,), (_ENTRIES,)
                    self._portions.extend(map(self._lib.htw_harvest, *arguments))
                    count = self._portions[0]
                    self._note_harvested()
                    self._check(count)
                self._adopt(self._reading)
                for event in self._unread().values():
                    timer = self._harvested.get(event.id)
                    self._harvested[event.id] = _due(event) if timer is None else _due(event)._replace(
                        interval=timer.interval, firings=timer.firings)
                found = list(self._harvested.values())
                for timer in found:
                    self._cookies.pop(timer.id, None)
                self._drop_unread()
                self._harvested.clear()
                return found
        except BaseException:
            # Also in the end of the block above, where nothing is held any more.
            with self._lock:
                self._harvested.update({timer.id: timer for timer in found})
            raise

    def _note_harvested(self) -> None:
        """Keep what htw_harvest() has returned, maybe to a call that was interrupted."""
        for count in self._portions:
            for q in self._portion[:max(count, 0)]:
                self._harvested[q.id] = self._pending(q, None)
        self._portions.clear()

    def _pending(self, query: Query, unread: Optional[Event]) -> Pending:
        cookie = self._cookies.get(query.id, query.cookie)
        interval = query.interval / SECOND
        if unread is not None:
            return _due(unread)._replace(interval=interval, firings=query.firings)
        return Pending(query.id, cookie, query.deadline, query.remaining / SECOND, interval, query.missed,
                       query.firings, _STATES[query.state])

    # Events.

    def read(self, limit: Optional[int] = None) -> Iterator[Event]:
        """Return an iterator over the expirations so far, at most @limit, without waiting.

        An event is in these timers until the iterator hands it out: if the loop ends early,
        the next read() has the others. What expires later comes with a later read().

        With a limit it may return fewer, and leave the descriptor readable, so as not to take
        long when very many timers that were far away come near at once.
        """
        most = NEVER if limit is None else number(limit, 63, "limit")
        with self._lock:
            self._fetch(most)
            batches = self._batches.copy()
        events = chain.from_iterable(map(self._hand_out, batches))
        return events if limit is None else islice(events, most)

    def wait(self, timeout: Optional[Seconds] = None) -> List[Event]:
        """Wait for expirations and return a list of them; empty after @timeout seconds."""
        end = None if timeout is None else time.monotonic_ns() + delay_ns(timeout)
        while True:
            events: List[Event] = []
            try:
                events.extend(self.read())
                if events:
                    return events
            except BaseException:
                self._give_back(events)
                raise
            left = -1 if end is None else end - time.monotonic_ns()
            if end is not None and left <= 0:
                return []
            self._block(left)

    def _block(self, ns: int) -> None:
        """Wait until there may be something to read, or the timers are closed.

        By poll(), because close() can end that. Its timeout is in ms, so the library waits
        for the rest, which close() can wait for. Signal handlers run, and the wait goes on.
        """
        me = object()
        try:
            with self._lock:
                if not self._wake:
                    self._wake = os.pipe()
                wake = self._wake[0]
                self._waiting.add(me)
                handle, fd = self._open(), self._lib.htw_fd(self._open())
            if 0 <= ns < _MSEC:
                result = self._lib.htw_wait(handle, ns)
                if result != -errno.EINTR:
                    self._check(result)
                return
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            poll.register(wake, select.POLLIN)
            for _, happened in poll.poll(None if ns < 0 else min(ns // _MSEC, 2**31 - 1)):
                if happened & select.POLLNVAL:
                    self._check(-errno.EBADF)
        finally:
            with self._lock:
                self._waiting.discard(me)
                if self._closed and not self._waiting:
                    self._free()

    def _fetch(self, limit: int) -> None:
        """Read what is due into batches, until @limit events are there.

        Ends, however fast timers are started meanwhile: after as many events as there were
        timers, or in the process, where they are in order, after what was due when it began.
        """
        self._adopt(self._reading)
        left, size, begin, due = limit - sum(map(len, self._batches)), _FIRST, None, U64()
        while left > 0:
            self._reading = batch = _Batch(size)
            raw, want = batch.raw, min(size, left)
            arguments = (self._open(),), (raw,), (want,)
            batch.counts.extend(map(self._lib.htw_read, *arguments))
            self._adopt(batch)
            count = self._check(batch.counts[0])
            left -= count
            size = min(4 * size, _MOST)
            # Who asks for portions does not want to wait for all of them.
            if count < want and (self._device or limit != NEVER):
                break
            if begin is None:
                begin, left = self.now(), min(left, int(self._info().timers))
            elif not self._device and count and _ROW.unpack_from(raw, (count - 1) * _ROW.size)[2] > begin:
                break
            # In the process, to move a long bucket down takes several calls.
            if count < want and (self._lib.htw_next_time(self._open(), due) < 0 or due.value > begin):
                break

    def _adopt(self, batch: Optional[_Batch]) -> None:
        """Add what was read, maybe by a call that an exception has ended since."""
        if batch is not None and batch.counts and batch.counts[0] > 0 and batch not in self._batches:
            self._batches.append(batch)
        self._reading = None

    def _events(self, batch: _Batch) -> Dict[int, Event]:
        """Return the events of a batch that were not handed out."""
        with self._lock:
            raw = batch.raw     # before the test: a signal handler may come in between
            if not batch.made:
                rows = _ROW.iter_unpack(memoryview(raw)[:batch.counts[0] * _ROW.size])
                find = self._cookies.get
                batch.keep([Event(id_, find(id_, cookie), deadline, taken, missed, bool(flags & EVENT_MORE))
                            for id_, cookie, deadline, taken, missed, flags, _ in rows])
            for id_ in batch.ended:
                self._cookies.pop(id_, None)
            batch.ended = []
            return batch.made[0][0]

    def _hand_out(self, batch: _Batch) -> Iterator[Event]:
        """Return an iterator that takes events out of a batch."""
        with self._lock:
            while self._batches and self._batches[0].made and not self._batches[0]:
                del self._batches[0]
            events, ids = self._events(batch), batch.made[0][1]
        pop: Any = events.pop
        # An event that was withdrawn is None.
        return filter(None, map(pop, ids, repeat(None)))

    def _give_back(self, events: List[Event]) -> None:
        if events:
            batch = _Batch(0)
            batch.counts.append(0)
            batch.keep(events)
            batch.ended = []
            with self._lock:
                self._batches.insert(0, batch)

    def _unread(self) -> Dict[int, Event]:
        """Return the events that were read and not handed out, by timer."""
        unread: Dict[int, Event] = {}
        for batch in self._batches:
            for id_, event in self._events(batch).items():
                unread.setdefault(id_, event)
        return unread

    def _withdraw(self, id_: int) -> bool:
        """Drop events of a timer that were not handed out; return whether there were any."""
        found = False
        for batch in self._batches:
            if not batch.made:
                self._events(batch)
            if batch.withdraw(id_):
                found = True
        return found

    def advance(self, seconds: Seconds) -> bool:
        """Advance a MANUAL clock; return whether something is due."""
        ns = duration(seconds, "seconds")
        with self._lock:
            return bool(self._check(self._lib.htw_advance(self._open(), ns, 0)))


def _raw(cookie: Any) -> int:
    """Return what other processes see of a cookie."""
    return cookie if type(cookie) is int and 0 <= cookie <= NEVER else 0


def _ids(values: Iterable[SupportsIndex]) -> "array.array[int]":
    return array.array("Q", (number(value, 64, "id") for value in values))


def _due(event: Event) -> Pending:
    return Pending(event.id, event.cookie, event.deadline_ns, 0.0, 0.0, event.missed, 0, "due")


_all: "weakref.WeakSet[Timers]" = weakref.WeakSet()


def _after_fork() -> None:
    for timers in list(_all):
        timers._forked()


os.register_at_fork(after_in_child=_after_fork)
