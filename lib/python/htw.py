# SPDX-License-Identifier: MIT
"""Millions of timeouts, in the kernel or in the process: Python bindings of libhtw.

    import htw

    with htw.Timers() as timers:              # of the module, or else in this process
        timers.after(30.0, "connection 7")    # any object can be the cookie
        for event in timers.wait():
            print(event.cookie, event.late)

Delays are in seconds, as usual in Python. Times on the clock are in nanoseconds, as int,
because a float is not precise enough: Timers.now(), Event.deadline_ns.

In an asyncio loop all timers share one file descriptor:

    async with htw.AsyncTimers() as timers:
        timers.call_after(0.5, print, "half a second")
        await timers.sleep(1.0)

The shared library is libhtw.so.0, or what $LIBHTW names.
"""

import asyncio
import collections
import ctypes
import errno
import os

__all__ = ["Timers", "AsyncTimers", "Event", "Pending", "DEVICE", "PROCESS", "ANY", "MANUAL"]

DEVICE, PROCESS, ANY = 1, 2, 3
MANUAL = 0x68747700

_F_ABS, _F_KEEP = 1, 2
_CANCEL_DISCARD = 1
_EVENT_MORE = 1
_SETUP_CLOCK, _SETUP_PRIVATE, _SETUP_LIMIT, _SETUP_RING = 1, 2, 4, 16
_BATCH = 256
_NS = 1000000000
_NEVER = 2**64 - 1


class _Setup(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint32), ("clock", ctypes.c_int32), ("tick_ns", ctypes.c_uint64),
                ("limit", ctypes.c_uint64), ("home_cpu", ctypes.c_int32), ("levels", ctypes.c_uint32),
                ("slots", ctypes.c_uint32 * 8), ("ring_entries", ctypes.c_uint32),
                ("reserved0", ctypes.c_uint32), ("reserved", ctypes.c_uint64 * 3)]


class _Info(ctypes.Structure):
    _fields_ = [("features", ctypes.c_uint64), ("tick_ns", ctypes.c_uint64), ("limit", ctypes.c_uint64),
                ("timers", ctypes.c_uint64), ("expired", ctypes.c_uint64), ("clock", ctypes.c_int32),
                ("home_cpu", ctypes.c_int32), ("flags", ctypes.c_uint32), ("levels", ctypes.c_uint32),
                ("slots", ctypes.c_uint32 * 8), ("ring_entries", ctypes.c_uint32),
                ("reserved0", ctypes.c_uint32), ("table_size", ctypes.c_uint64),
                ("reserved", ctypes.c_uint32 * 4)]


class _Add(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint64), ("deadline", ctypes.c_uint64), ("interval", ctypes.c_uint64),
                ("slack", ctypes.c_uint64), ("cookie", ctypes.c_uint64), ("flags", ctypes.c_uint32),
                ("firings", ctypes.c_uint32), ("reserved", ctypes.c_uint64)]


class _Cancel(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint64), ("remaining", ctypes.c_uint64), ("cookie", ctypes.c_uint64),
                ("missed", ctypes.c_uint64), ("flags", ctypes.c_uint32), ("ring_tail", ctypes.c_uint32),
                ("reserved", ctypes.c_uint64 * 2)]


class _Query(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint64), ("deadline", ctypes.c_uint64), ("remaining", ctypes.c_uint64),
                ("interval", ctypes.c_uint64), ("cookie", ctypes.c_uint64), ("missed", ctypes.c_uint64),
                ("firings", ctypes.c_uint32), ("state", ctypes.c_uint16), ("flags", ctypes.c_uint16)]


class _Event(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint64), ("cookie", ctypes.c_uint64), ("deadline", ctypes.c_uint64),
                ("fired", ctypes.c_uint64), ("missed", ctypes.c_uint64), ("flags", ctypes.c_uint32),
                ("reserved", ctypes.c_uint32)]


_U64, _PU64 = ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint64)
_FUNCTIONS = {
    "htw_version": (ctypes.c_char_p,),
    "htw_open": (ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, ctypes.POINTER(_Setup)),
    "htw_open_fd": (ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int),
    "htw_close": (None, ctypes.c_void_p),
    "htw_backend": (ctypes.c_int, ctypes.c_void_p),
    "htw_fd": (ctypes.c_int, ctypes.c_void_p),
    "htw_now": (_U64, ctypes.c_void_p),
    "htw_info": (ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_Info)),
    "htw_add": (ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_Add)),
    "htw_rearm": (ctypes.c_int, ctypes.c_void_p, _U64, _U64),
    "htw_stop": (ctypes.c_int, ctypes.c_void_p, _U64),
    "htw_cancel": (ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_Cancel)),
    "htw_add_many": (ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_Add), _PU64, _PU64, _PU64,
                     ctypes.c_uint, ctypes.POINTER(ctypes.c_int)),
    "htw_rearm_many": (ctypes.c_int, ctypes.c_void_p, _PU64, _PU64, ctypes.c_uint, ctypes.c_uint,
                       ctypes.POINTER(ctypes.c_int)),
    "htw_read": (ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_Event), ctypes.c_uint),
    "htw_wait": (ctypes.c_int, ctypes.c_void_p, ctypes.c_int64),
    "htw_harvest": (ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_Query), ctypes.c_uint),
    "htw_advance": (ctypes.c_int64, ctypes.c_void_p, _U64, ctypes.c_uint),
}
_lib = None


def _library():
    """Return the shared library; load it on first use."""
    global _lib
    if _lib is None:
        lib = ctypes.CDLL(os.environ.get("LIBHTW", "libhtw.so.0"))
        for name, (result, *arguments) in _FUNCTIONS.items():
            function = getattr(lib, name)
            function.restype, function.argtypes = result, arguments
        _lib = lib
    return _lib


def _check(result):
    """Return @result, or raise the OSError that it stands for."""
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result


def _ns(seconds):
    """Convert seconds to ns, rounding up so that no timer is early."""
    if seconds <= 0:
        return 0
    if seconds >= _NEVER / _NS:
        return _NEVER
    return min(-int(-seconds * _NS // 1), _NEVER)


Event = collections.namedtuple("Event", "id cookie deadline_ns fired_ns missed more")
Event.__doc__ = "An expiration. `more`: the timer is periodic or kept, and its id stays valid."
Event.late = property(lambda self: (self.fired_ns - self.deadline_ns) / _NS,
                      doc="Time from the deadline to the expiration, in seconds.")

Pending = collections.namedtuple("Pending", "id cookie deadline_ns remaining interval")
Pending.__doc__ = "A pending timer; `remaining` and `interval` in seconds."


class Timers:
    """A set of timers. Cookies may be any objects; they are held until the timer ends.

    backend: DEVICE, PROCESS, or ANY: the device if it can be opened, or else this process.
    clock: time.CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME, or MANUAL, which only
    advance() moves. limit: most timers. tick: tick of a private wheel in seconds, with
    slots for each level. ring: entries of a mapped ring; only with the device.
    """

    def __init__(self, backend=ANY, *, clock=None, limit=None, tick=None, slots=None, ring=None):
        setup = _Setup()
        if clock is not None:
            setup.flags |= _SETUP_CLOCK
            setup.clock = clock
        if limit is not None:
            setup.flags |= _SETUP_LIMIT
            setup.limit = limit
        if slots is not None and tick is None:
            raise ValueError("slots are those of a private wheel, which needs a tick")
        if tick is not None:
            setup.flags |= _SETUP_PRIVATE
            setup.tick_ns = _ns(tick)
            slots = slots or (256, 64, 64, 64, 64)
            setup.levels = len(slots)
            setup.slots[:len(slots)] = slots
        if ring is not None:
            setup.flags |= _SETUP_RING
            setup.ring_entries = ring
        self._prepare()
        _check(self._lib.htw_open(ctypes.byref(self._handle), backend,
                                  ctypes.byref(setup) if setup.flags else None))

    @classmethod
    def from_fd(cls, fd):
        """Use a descriptor of the device that was inherited or received.

        The objects behind the cookies of its timers are unknown: those cookies are int.
        """
        self = cls.__new__(cls)
        self._prepare()
        _check(self._lib.htw_open_fd(ctypes.byref(self._handle), fd))
        return self

    def _prepare(self):
        self._handle = ctypes.c_void_p()
        self._lib = _library()
        self._events = (_Event * _BATCH)()
        self._cookies = {}
        self._next = 1

    def close(self):
        """End all timers; on the device, unless another process has the descriptor."""
        if self._handle:
            self._lib.htw_close(self._handle)
            self._handle = ctypes.c_void_p()
            self._cookies.clear()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None):
            self.close()

    def __len__(self):
        """Return the number of timers: pending, unread and kept."""
        return self._info().timers

    def _open(self):
        if not self._handle:
            raise ValueError("these timers are closed")
        return self._handle

    def _info(self):
        info = _Info()
        _check(self._lib.htw_info(self._open(), ctypes.byref(info)))
        return info

    def fileno(self):
        """Return the descriptor, for select, selectors or an event loop."""
        return self._lib.htw_fd(self._open())

    @property
    def backend(self):
        """DEVICE or PROCESS."""
        return self._lib.htw_backend(self._open())

    @property
    def tick(self):
        """The wheel's tick in seconds: no timer is later than that."""
        return self._info().tick_ns / _NS

    def now(self):
        """Return the present in ns, on the clock of the deadlines."""
        return self._lib.htw_now(self._open())

    def _hold(self, cookie):
        number = self._next
        self._next += 1
        self._cookies[number] = cookie
        return number

    def _start(self, deadline, cookie, interval, firings, slack, flags):
        add = _Add(deadline=deadline, interval=interval, slack=_ns(slack), firings=firings, flags=flags)
        add.cookie = self._hold(cookie)
        try:
            _check(self._lib.htw_add(self._open(), ctypes.byref(add)))
        except BaseException:
            del self._cookies[add.cookie]
            raise
        return add.id

    def after(self, delay, cookie=None, *, slack=0, keep=False):
        """Start a timer that expires after @delay seconds; return its id."""
        return self._start(_ns(delay), cookie, 0, 0, slack, _F_KEEP if keep else 0)

    def at(self, when_ns, cookie=None, *, slack=0, keep=False):
        """Start a timer that expires at @when_ns, a time as of now(); return its id."""
        return self._start(min(max(when_ns, 0), _NEVER), cookie, 0, 0, slack, _F_ABS | (_F_KEEP if keep else 0))

    def every(self, interval, cookie=None, *, first=None, firings=0, slack=0):
        """Start a periodic timer, which keeps its phase; return its id."""
        if interval <= 0:
            raise ValueError("an interval is at least one tick")
        return self._start(_ns(interval if first is None else first), cookie, _ns(interval), firings, slack, 0)

    def after_many(self, delays, cookies=None):
        """Start many timers with one call, all or none; return their ids."""
        delays = [_ns(delay) for delay in delays]
        cookies = [None] * len(delays) if cookies is None else list(cookies)
        if len(cookies) != len(delays):
            raise ValueError("need as many cookies as delays")
        array = _U64 * len(delays)
        ids, numbers = array(), array(*map(self._hold, cookies))
        results = (ctypes.c_int * len(delays))()
        failed = self._lib.htw_add_many(self._open(), None, array(*delays), numbers, ids, len(delays), results)
        if failed:
            for id_ in filter(None, ids):
                self._lib.htw_stop(self._handle, id_)
            for number in numbers:
                del self._cookies[number]
            _check(failed if failed < 0 else min(results))
        return list(ids)

    def rearm(self, id_, delay):
        """Move a timer to @delay seconds from now. Raise KeyError if it has ended."""
        result = self._lib.htw_rearm(self._open(), id_, _ns(delay))
        if result == -errno.ENOENT:
            raise KeyError(id_)
        _check(result)

    def rearm_many(self, ids, delays):
        """Move many timers with one call; return a list of the ids that have ended."""
        ids, delays = list(ids), [_ns(delay) for delay in delays]
        if len(ids) != len(delays):
            raise ValueError("need as many delays as ids")
        array, results = _U64 * len(ids), (ctypes.c_int * len(ids))()
        _check(self._lib.htw_rearm_many(self._open(), array(*ids), array(*delays), len(ids), 0, results))
        return [id_ for id_, result in zip(ids, results) if result]

    def stop(self, id_, *, discard=False):
        """Stop a timer. Return False if it has expired or ended already.

        An expiration that was not read stays readable, or is dropped with @discard.
        """
        cancel = _Cancel(id=id_, flags=_CANCEL_DISCARD if discard else 0)
        result = self._lib.htw_cancel(self._open(), ctypes.byref(cancel))
        if not result or (result == -errno.EALREADY and discard):
            self._cookies.pop(cancel.cookie, None)
        if result not in (-errno.EALREADY, -errno.ENOENT):
            _check(result)
        return not result

    def read(self):
        """Yield the expirations so far, without waiting."""
        while True:
            n = _check(self._lib.htw_read(self._open(), self._events, _BATCH))
            # Copies: the consumer may use these timers, and so the buffer.
            events = [self._event(self._events[i]) for i in range(n)]
            yield from events
            if n < _BATCH:
                return

    def _event(self, ev):
        more = bool(ev.flags & _EVENT_MORE)
        if more:
            cookie = self._cookies.get(ev.cookie, ev.cookie)
        else:
            cookie = self._cookies.pop(ev.cookie, ev.cookie)
        return Event(ev.id, cookie, ev.deadline, ev.fired, ev.missed, more)

    def wait(self, timeout=None):
        """Wait for expirations and return a list of them; empty after @timeout seconds."""
        limit = -1 if timeout is None else min(_ns(timeout), 2**63 - 1)
        _check(self._lib.htw_wait(self._open(), limit))
        return list(self.read())

    def harvest(self):
        """Stop all pending timers and return a list of them, for a shutdown."""
        entries, pending = (_Query * _BATCH)(), []
        while n := _check(self._lib.htw_harvest(self._open(), entries, _BATCH)):
            for q in entries[:n]:
                pending.append(Pending(q.id, self._cookies.pop(q.cookie, q.cookie), q.deadline,
                                       q.remaining / _NS, q.interval / _NS))
        return pending

    def advance(self, seconds):
        """Advance a MANUAL clock; return how many timers expired."""
        return _check(self._lib.htw_advance(self._open(), _ns(seconds), 0))


class _Handle:
    """A scheduled call that can be cancelled, like asyncio.TimerHandle."""

    def __init__(self, timers, function, args, future=None):
        self._timers, self.function, self.args, self.future = timers, function, args, future
        self.id = None

    def cancel(self):
        """Cancel the call. Does nothing if it was made already."""
        if self.id is not None:
            self._timers._stop(self.id)
            self.id = None

    def abandon(self):
        """End a sleep whose timers were closed."""
        self.id = None
        if self.future is not None:
            self.future.cancel()


class AsyncTimers:
    """Timers in an asyncio loop, which watches one descriptor for all of them."""

    def __init__(self, backend=ANY, **setup):
        self._timers = Timers(backend, **setup)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._timers.fileno(), self._expired)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        self.close()

    def close(self):
        """End all timers; pending sleeps are cancelled."""
        if self._timers is None:
            return
        self._loop.remove_reader(self._timers.fileno())
        # Pending, or expired and unread.
        handles = list(self._timers._cookies.values())
        self._timers.harvest()
        self._timers.close()
        self._timers = None
        for handle in handles:
            handle.abandon()

    def __len__(self):
        return len(self._timers)

    @property
    def timers(self):
        """The underlying Timers. Do not start timers on it."""
        return self._timers

    def _stop(self, id_):
        if self._timers is not None:
            self._timers.stop(id_, discard=True)

    def _expired(self):
        # The loop calls again while there is more, and serves others in between.
        for event in list(self._timers.read()):
            handle = event.cookie
            if handle.id is None:
                continue
            if not event.more:
                handle.id = None
            if self._timers is None:  # closed by a call before
                handle.abandon()
                continue
            try:
                handle.function(*handle.args)
            except Exception as problem:  # as the loop does with its own calls
                self._loop.call_exception_handler({
                    "message": f"exception in {handle.function!r}", "exception": problem})

    def call_after(self, delay, function, *args):
        """Call a function after @delay seconds; return a handle with cancel()."""
        handle = _Handle(self, function, args)
        handle.id = self._timers.after(delay, handle)
        return handle

    def call_every(self, interval, function, *args):
        """Call a function every @interval seconds; return a handle with cancel()."""
        handle = _Handle(self, function, args)
        handle.id = self._timers.every(interval, handle)
        return handle

    async def sleep(self, delay, result=None):
        """Sleep like asyncio.sleep()."""
        future = self._loop.create_future()
        handle = _Handle(self, self._wake, (future, result), future)
        handle.id = self._timers.after(delay, handle)
        try:
            return await future
        finally:
            handle.cancel()

    @staticmethod
    def _wake(future, result):
        if not future.done():
            future.set_result(result)
