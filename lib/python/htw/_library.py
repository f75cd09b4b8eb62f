# SPDX-License-Identifier: MIT
"""libhtw by ctypes: its structures and functions, errors in words, numbers that fit."""

import ctypes
import errno
import math
import operator
import os
from datetime import timedelta
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any, Dict, Optional, Sequence, SupportsIndex, Union

Seconds = Union[int, float, Fraction, Decimal, timedelta]

DEVICE, PROCESS, ANY = 1, 2, 3
MANUAL = 0x68747700

F_ABS, F_KEEP, F_PUT_OFF = 1, 2, 0x80000000
EVENT_MORE = 1
SETUP_CLOCK, SETUP_EXACT, SETUP_ORDERED = 1, 2, 4
LEVELS = 8
SECOND = 1000000000
NEVER = 2**64 - 1

U32, U64, I32 = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int32


class Setup(ctypes.Structure):
    _fields_ = [("flags", U32), ("clock", I32), ("tick_ns", U64), ("limit", U64), ("event_size", U32),
                ("levels", U32), ("slots", U32 * LEVELS)]


class Info(ctypes.Structure):
    _fields_ = [("features", U64), ("tick_ns", U64), ("limit", U64), ("timers", U64), ("bytes", U64),
                ("user_limit", U64), ("user_timers", U64), ("next", U64), ("clock", I32), ("flags", U32),
                ("event_size", U32), ("levels", U32), ("slots", U32 * LEVELS)]


class Add(ctypes.Structure):
    _fields_ = [("id", U64), ("deadline", U64), ("interval", U64), ("slack", U64), ("cookie", U64),
                ("flags", U32), ("firings", U32)]


class Cancel(ctypes.Structure):
    _fields_ = [("id", U64), ("remaining", U64), ("cookie", U64), ("missed", U64), ("flags", U32),
                ("state", U32)]


class Query(ctypes.Structure):
    _fields_ = [("id", U64), ("deadline", U64), ("remaining", U64), ("interval", U64), ("cookie", U64),
                ("missed", U64), ("firings", U32), ("state", ctypes.c_uint16), ("flags", ctypes.c_uint16)]


# struct htw_event: id, cookie, deadline, taken, missed, flags, reserved
EVENT = "QQQQQII"
# as Add
ADD = "QQQQQII"

_HANDLE, _ARRAY = ctypes.c_void_p, ctypes.c_void_p
_FUNCTIONS: Dict[str, Any] = {
    "htw_open": (ctypes.c_int, ctypes.POINTER(_HANDLE), ctypes.c_int, ctypes.POINTER(Setup)),
    "htw_open_fd": (ctypes.c_int, ctypes.POINTER(_HANDLE), ctypes.c_int),
    "htw_close": (None, _HANDLE),
    "htw_backend": (ctypes.c_int, _HANDLE),
    "htw_fd": (ctypes.c_int, _HANDLE),
    "htw_now": (U64, _HANDLE),
    "htw_info": (ctypes.c_int, _HANDLE, ctypes.POINTER(Info)),
    "htw_add": (ctypes.c_int, _HANDLE, ctypes.POINTER(Add)),
    "htw_rearm": (ctypes.c_int, _HANDLE, U64, U64),
    "htw_put_off": (ctypes.c_int, _HANDLE, U64, U64),
    "htw_cancel": (ctypes.c_int, _HANDLE, ctypes.POINTER(Cancel)),
    "htw_stop": (ctypes.c_int, _HANDLE, U64),
    "htw_query": (ctypes.c_int, _HANDLE, ctypes.POINTER(Query)),
    "htw_next_time": (ctypes.c_int, _HANDLE, ctypes.POINTER(U64)),
    "htw_add_many": (ctypes.c_int, _HANDLE, ctypes.POINTER(Add), _ARRAY, _ARRAY, _ARRAY, ctypes.c_uint,
                     _ARRAY),
    "htw_rearm_many": (ctypes.c_int, _HANDLE, _ARRAY, _ARRAY, ctypes.c_uint, ctypes.c_uint, _ARRAY),
    "htw_read": (ctypes.c_int, _HANDLE, _ARRAY, ctypes.c_uint),
    "htw_wait": (ctypes.c_int, _HANDLE, ctypes.c_int64),
    "htw_list_in": (ctypes.c_int, _HANDLE, ctypes.c_uint, ctypes.POINTER(U64), ctypes.POINTER(Query),
                    ctypes.c_uint),
    "htw_harvest": (ctypes.c_int, _HANDLE, ctypes.POINTER(U64), ctypes.POINTER(Query), ctypes.c_uint),
    "htw_advance": (ctypes.c_int, _HANDLE, U64, ctypes.c_uint),
}
_lib: Any = None


def library() -> Any:
    """Return the shared library; load it on first use."""
    global _lib
    if _lib is None:
        name = os.environ.get("LIBHTW") or "libhtw.so.0"
        try:
            lib = ctypes.CDLL(name)
        except OSError as problem:
            raise OSError(f"{problem}: install libhtw0, or run ldconfig after make install, "
                          "or let LIBHTW name it") from None
        for function, (result, *arguments) in _FUNCTIONS.items():
            try:
                entry = getattr(lib, function)
            except AttributeError:
                raise OSError(f"{name} is older than this module: it has no {function}()") from None
            entry.restype, entry.argtypes = result, arguments
        _lib = lib
    return _lib


NO_DEVICE = "no such device: load the module (modprobe htw), or use htw.PROCESS"
WORDS_OF_OPEN = {
    errno.ENOENT: NO_DEVICE,
    errno.ENODEV: NO_DEVICE,
    errno.ENXIO: NO_DEVICE,
    errno.EACCES: "permission denied: the members of the group htw may open it",
    errno.EPERM: "a tick below 10 us needs CAP_SYS_RESOURCE",
    errno.ENOSYS: "the module is older than the library needs",
    errno.EOPNOTSUPP: "timers cannot be on this clock",
    errno.ERANGE: "limit, tick or slots are out of range",
    errno.EINVAL: "not a descriptor of the device, or wrong arguments",
}
WORDS = {
    errno.ENOSPC: "there are as many timers as the limit allows",
    errno.EDQUOT: "the user has as many timers as the module's max_user_timers allows",
    errno.EINVAL: "not possible for these timers",
    errno.EPERM: "the timers belong to the process that opened them; a child of fork() opens its own",
    errno.EBADF: "something else has closed the descriptor",
    errno.EOPNOTSUPP: "these timers cannot do that",
}


def error(result: int, device: bool, words: Dict[int, str] = WORDS) -> OSError:
    """Return the exception for a negative errno, which names the device and the cause."""
    cause = words.get(-result) or os.strerror(-result)
    problem = OSError(-result, cause, "/dev/htw") if device else OSError(-result, cause)
    problem.of_library = True       # type: ignore[attr-defined]
    return problem


def number(value: SupportsIndex, bits: int, name: str, least: int = 0) -> int:
    """Return an integer that fits into an unsigned field; ctypes would truncate it."""
    value = operator.index(value)
    if not least <= value < 1 << bits:
        raise ValueError(f"{name} is {_shown(value)}: not between {least} and 2**{bits} - 1")
    return value


def raw_cookie(cookie: Any) -> int:
    """Return what other processes see of a cookie."""
    return cookie if type(cookie) is int and 0 <= cookie <= NEVER else 0


def _shown(value: Any) -> str:
    """Return a number for a message. To print a very long one takes long, and Python may refuse to."""
    if isinstance(value, (int, Fraction)):
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > 256:
            return "a number of very many digits"
    return str(value)[:80]


def exact_ns(seconds: Seconds) -> int:
    """Convert seconds to ns, rounding up, so that no timer is early.

    A float stands for the shortest decimal number that it is printed as, which is what was
    written. Raise OverflowError if it is infinite or far beyond every clock, ValueError for NaN.
    """
    if type(seconds) is int:
        return seconds * SECOND
    if isinstance(seconds, float):
        if not abs(seconds) < 1e6:
            if math.isinf(seconds):
                raise OverflowError("infinite")
            return _round_up_decimal(Decimal(repr(float(seconds))))
        # Decimals of at most 15 digits survive the way to a float and back, so this one is
        # the shortest.
        ns = round(seconds * SECOND)
        return ns if ns / SECOND == seconds else _round_up_decimal(Decimal(repr(float(seconds))))
    if isinstance(seconds, timedelta):
        return seconds // timedelta(microseconds=1) * 1000
    if isinstance(seconds, Decimal):
        return _round_up_decimal(seconds)
    return _round_up(seconds)


# Enough digits for what _round_up_decimal() leaves, whatever the program's own context is.
_DIGITS = Context(prec=40, rounding=ROUND_CEILING, traps=[])
_NS = Decimal("1e-9")


def _round_up_decimal(seconds: Decimal) -> int:
    """Round without the whole number as an integer, which may have 10**18 digits."""
    if seconds.is_nan():
        raise ValueError("not a number")
    if seconds.is_infinite() or seconds and seconds.adjusted() > 20:
        raise OverflowError("infinite")
    return int(seconds.quantize(_NS, context=_DIGITS).scaleb(9, context=_DIGITS))


def _round_up(seconds: Any) -> int:
    try:
        numerator, denominator = seconds.as_integer_ratio()
    except AttributeError:
        raise TypeError(f"seconds are a number or a timedelta, not {type(seconds).__name__}") from None
    return -int(-numerator * SECOND // denominator)


def delay(seconds: Seconds) -> int:
    """Convert a delay to ns. What has passed is zero; what nobody lives to see is never."""
    try:
        ns = exact_ns(seconds)
        return ns if 0 <= ns <= NEVER else 0 if ns < 0 else NEVER
    except OverflowError:
        return NEVER if seconds > 0 else 0      # type: ignore[operator]


def as_float(seconds: Seconds) -> float:
    """Return seconds as a float; what is beyond every clock is infinite."""
    try:
        return exact_ns(seconds) / SECOND
    except OverflowError:
        return math.inf if seconds > 0 else -math.inf       # type: ignore[operator]


def duration(seconds: Seconds, name: str) -> int:
    """Convert a length of time to ns."""
    ns: Optional[int] = None
    try:
        ns = exact_ns(seconds)
    except OverflowError:
        pass
    # Only what is negative is rounded up to zero.
    if ns is None or not 0 <= ns <= NEVER or not ns and seconds:
        raise ValueError(f"{name} is {_shown(seconds)}: not between 0 and 2**64 - 1 ns")
    return ns


def make_setup(clock: Optional[int], limit: Optional[int], tick: Optional[Seconds], exact: bool, ordered: bool,
               slots: Optional[Sequence[int]]) -> Setup:
    """Return what a set of timers is opened with; what is None is left to the library."""
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
    return setup
