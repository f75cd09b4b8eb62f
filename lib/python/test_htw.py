#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Tests of the module htw: on the device if $HTW_BACKEND is "device", or else in the process."""

import contextlib
import copy
import ctypes
import dis
import errno
import faulthandler
import gc
import os
import pickle
import selectors
import signal
import sys
import threading
import time
import unittest
import warnings
import weakref
from datetime import timedelta
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import islice
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import htw  # noqa: E402

BACKEND = {"device": htw.DEVICE, "process": htw.PROCESS}[os.environ.get("HTW_BACKEND", "process")]
# Python 3.8 has no name for it.
CLOCK_TAI = 11
# Machines with the device are emulated.
ROUNDS = 20 if BACKEND == htw.DEVICE else 100


# Seconds after which what a test waits for will not come, and after which a test does not end.
PATIENCE, LIMIT = (300, 900) if BACKEND == htw.DEVICE else (120, 600)


class Limited:
    """A test that does not end is ended, and what its threads were at is printed."""

    def run(self, result=None):
        faulthandler.dump_traceback_later(LIMIT, exit=True)
        try:
            return super().run(result)
        finally:
            faulthandler.cancel_dump_traceback_later()


class Case(Limited, unittest.TestCase):
    """A test that has a limit."""


@contextlib.contextmanager
def storm(handle):
    """Have signals come, each a while after the handler of the last one has ended.

    With an interval timer they nest without end on a machine that is slower than that.
    """
    def handler(*_):
        try:
            handle()
        finally:
            if going:
                signal.setitimer(signal.ITIMER_REAL, 0.0003)

    going, before = True, signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0003)
        yield
    finally:
        going = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def until(condition):
    """Iterate until a condition is true; fail if it does not become true."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            faulthandler.dump_traceback()
            raise AssertionError(f"not within {PATIENCE} s")
        yield


def join(*threads):
    """Wait for threads; fail if they do not end."""
    for thread in threads:
        thread.join(PATIENCE)
        if thread.is_alive():
            faulthandler.dump_traceback()
            raise AssertionError(f"{thread.name} does not end")


class Steps:
    """Runs functions, and calls a handler before one of the steps that the module makes in them.

    That is where a signal handler can come. Those that raise an exception are called only where
    the interpreter looks for signals, as no "with" is safe elsewhere: after a call, and at a jump
    back itself, which is not always in the try statement that the loop is in.
    """

    PLACE = str(Path(htw.__file__).parent)
    CALLS, JUMPS = ("CALL", "RESUME"), ("JUMP_BACKWARD", "JUMP_ABSOLUTE")

    def __init__(self, at=0, handler=None, raises=False, times=1):
        self.count, self.at, self.handler, self.raises, self.times = 0, at, handler, raises, times
        self.before, self.codes = "", {}

    def step(self, code, offset):
        looks = self.before.startswith(self.CALLS)
        if self.raises:
            opcodes = self.codes.setdefault(code, code.co_code)
            self.before = dis.opname[opcodes[offset]]
            looks = looks or self.before in self.JUMPS
        if looks or not self.raises:
            self.count += 1
            if self.at <= self.count < self.at + self.times:
                self.before = ""    # if it raises an exception, this step is not made
                self.handler()

    def trace(self, frame, event, _):
        if not frame.f_code.co_filename.startswith(self.PLACE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            self.step(frame.f_code, frame.f_lasti)
        return self.trace

    def monitor(self, code, offset):
        if not code.co_filename.startswith(self.PLACE):
            return sys.monitoring.DISABLE
        self.step(code, offset)
        return None

    def watch(self, begin):
        # Not each opcode of a function is traced by 3.13.0, which has this instead.
        if not hasattr(sys, "monitoring"):
            sys.settrace(self.trace if begin else None)
            return
        monitoring, tool = sys.monitoring, sys.monitoring.DEBUGGER_ID
        if begin:
            monitoring.use_tool_id(tool, "test_htw")
            monitoring.register_callback(tool, monitoring.events.INSTRUCTION, self.monitor)
        monitoring.set_events(tool, monitoring.events.INSTRUCTION if begin else 0)
        if not begin:
            monitoring.free_tool_id(tool)

    def run(self, function, *args):
        self.watch(True)
        try:
            return function(*args)
        finally:
            self.watch(False)


class Thing:
    """An object that can be a cookie and be weakly referenced."""


class ManualClock(Case):
    def setUp(self):
        self.timers = htw.Timers(BACKEND, clock=htw.MANUAL)

    def tearDown(self):
        self.timers.close()

    def test_one(self):
        thing = Thing()
        id_ = self.timers.after(1.5, thing)
        self.assertEqual(len(self.timers), 1)
        self.assertEqual(self.timers.advance(1.4), 0)
        self.assertEqual(list(self.timers.read()), [])
        self.assertEqual(self.timers.advance(0.1), 1)
        event, = self.timers.read()
        self.assertIs(event.cookie, thing)
        self.assertEqual((event.id, event.deadline_ns, event.missed, event.more), (id_, 1500000000, 0, False))
        self.assertEqual(event.late, 0)
        self.assertEqual(len(self.timers), 0)

    def test_rounds_up(self):
        self.timers.after(1e-9 / 3, "x")
        self.assertFalse(self.timers.advance(0))
        self.assertTrue(self.timers.advance(self.timers.tick))

    def test_at(self):
        self.timers.advance(10)
        self.timers.at(11 * 10**9, "x")
        self.assertEqual(self.timers.advance(1), 1)
        self.assertEqual(self.timers.now(), 11 * 10**9)

    def test_past_and_never(self):
        self.timers.advance(2)
        ids = [self.timers.after(past) for past in (-1, -1e300, float("-inf"))] + [self.timers.at(1)]
        self.assertEqual(ids, [e.id for e in self.timers.read()])
        for never in (1e11, 1e300, 10**30, float("inf")):
            self.assertTrue(self.timers.stop(self.timers.after(never)))
        self.assertTrue(self.timers.stop(self.timers.at(2**64 - 1)))

    def test_stop(self):
        id_ = self.timers.after(1, "x")
        self.assertTrue(self.timers.stop(id_))
        self.assertFalse(self.timers.stop(id_))
        self.assertEqual(self.timers.advance(2), 0)
        id_ = self.timers.after(1, "y")
        self.timers.advance(1)
        self.assertEqual([e.cookie for e in self.timers.read()], ["y"])
        self.assertFalse(self.timers.stop(id_))

    def test_stop_of_an_unread_timer(self):
        for start in (self.timers.after, self.timers.every):
            id_ = start(1, "x")
            self.timers.advance(1)
            self.assertTrue(self.timers.stop(id_))
            self.assertEqual((len(self.timers), self.timers._cookies), (0, {}))
            self.assertEqual(list(self.timers.read()), [])

    def test_rearm(self):
        id_ = self.timers.after(1, "x")
        self.timers.rearm(id_, 5)
        self.assertEqual(self.timers.advance(4), 0)
        self.assertEqual(self.timers.advance(1), 1)
        list(self.timers.read())
        with self.assertRaises(KeyError):
            self.timers.rearm(id_, 1)

    def test_rearm_many(self):
        ids = self.timers.after_many([1, 2, 3])
        self.timers.stop(ids[1])
        self.assertEqual(self.timers.rearm_many(ids, [7, 8, 5]), [ids[1]])
        self.assertEqual(self.timers.advance(4), 0)
        self.assertTrue(self.timers.advance(10))
        self.assertEqual([e.id for e in self.timers.read()], [ids[2], ids[0]])
        self.assertEqual(self.timers.rearm_many([], []), [])
        with self.assertRaises(ValueError):
            self.timers.rearm_many(ids, [1])

    def test_every(self):
        id_ = self.timers.every(2, "beat")
        for _ in range(3):
            self.timers.advance(2)
            event, = self.timers.read()
            self.assertEqual((event.cookie, event.more), ("beat", True))
        self.assertTrue(self.timers.stop(id_))
        with self.assertRaises(ValueError):
            self.timers.every(0)

    def test_interval_below_a_tick(self):
        id_ = self.timers.every(1e-9, first=0)
        self.assertEqual(self.timers.query(id_).interval, self.timers.tick)
        self.timers.advance(3 * self.timers.tick)
        event, = self.timers.read()
        self.assertEqual(event.missed, 3)

    def test_firings(self):
        self.timers.every(1, "x", firings=2)
        self.timers.advance(1)
        self.assertEqual([e.more for e in self.timers.read()], [True])
        self.timers.advance(1)
        self.assertEqual([e.more for e in self.timers.read()], [False])
        self.assertEqual(len(self.timers), 0)

    def test_many(self):
        ids = self.timers.after_many([i / 1000 for i in range(1, 1001)], range(1000))
        self.assertEqual(len(set(ids)), 1000)
        self.assertTrue(self.timers.advance(1))
        self.assertEqual([e.cookie for e in self.timers.read()], list(range(1000)))
        self.assertEqual((self.timers.after_many([]), self.timers.after_many([], [])), ([], []))
        with self.assertRaises(ValueError):
            self.timers.after_many([1, 2], ["x"])

    def test_all_or_none(self):
        with htw.Timers(BACKEND, clock=htw.MANUAL, limit=5) as few:
            with self.assertRaises(OSError) as caught:
                few.after_many([1] * 6, range(6))
            self.assertEqual(caught.exception.errno, errno.ENOSPC)
            self.assertEqual((len(few), few._cookies), (0, {}))
            few.after_many([1] * 5)
            with self.assertRaises(OSError):
                few.after(1)
            self.assertEqual(len(few._cookies), 5)

    def test_harvest(self):
        self.timers.after_many([i + 1 for i in range(600)], range(600))
        self.timers.every(7, "beat")
        kept = self.timers.after(0, "kept", keep=True)
        self.assertEqual([event.id for event in self.timers.read()], [kept])
        self.timers.after(0, "due")
        pending = {p.cookie: p for p in self.timers.harvest()}
        self.assertEqual(set(pending), {*range(600), "beat", "kept", "due"})
        self.assertEqual((pending["kept"].state, pending["due"].state), ("disarmed", "due"))
        self.assertEqual((pending[9].remaining, pending["beat"].interval), (10, 7))
        self.assertEqual((len(self.timers), self.timers._cookies), (0, {}))

    def test_cookies_are_let_go(self):
        def references(end):
            thing = Thing()
            reference = weakref.ref(thing)
            end(self.timers.after(1, thing))
            del thing
            gc.collect()
            return reference()

        self.assertIsNone(references(self.timers.stop))
        self.assertIsNone(references(lambda _: (self.timers.advance(1), list(self.timers.read()))))
        self.assertIsNotNone(references(lambda _: None))

    def test_copies(self):
        """Two owners of what the library has allocated would free it twice."""
        for use in (copy.copy, copy.deepcopy, pickle.dumps):
            with self.assertRaisesRegex(TypeError, "cannot be copied"):
                use(self.timers)
            gc.collect()
        self.assertEqual(len(self.timers), 0)

    def test_closed(self):
        self.timers.close()
        self.timers.close()
        with self.assertRaises(ValueError):
            self.timers.after(1)

    def test_wrong_setup(self):
        for setup in ({"clock": CLOCK_TAI}, {"limit": 2**40}, {"tick": 100}, {"slots": (1,)},
                      {"tick": 1, "slots": (1,)}, {"tick": 1, "exact": True}):
            with self.assertRaises(OSError):
                htw.Timers(BACKEND, **setup)
        for setup in ({"limit": 0}, {"tick": 0}, {"slots": ()}, {"slots": (2,) * 9}):
            with self.assertRaises(ValueError):
                htw.Timers(BACKEND, **setup)
        with self.assertRaises(OSError):
            htw.Timers.from_fd(0)

    def test_descriptors(self):
        """All are closed, also of those that could not be opened."""
        before = os.listdir("/proc/self/fd")
        with htw.Timers(BACKEND) as timers:
            timers.wait(0.002)
        with self.assertRaises(OSError):
            htw.Timers(BACKEND, clock=CLOCK_TAI)
        self.assertEqual(os.listdir("/proc/self/fd"), before)

    def test_unclosed(self):
        for close, expected in ((False, [ResourceWarning]), (True, [])):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                timers = htw.Timers(BACKEND)
                fd = timers.fileno()
                if close:
                    timers.close()
                del timers
                gc.collect()
            self.assertEqual([w.category for w in caught], expected)
            with self.assertRaises(OSError):
                os.fstat(fd)


class Setup(Case):
    """What Timers() is asked for is what it gets."""

    def info(self, **setup):
        with htw.Timers(BACKEND, **setup) as timers:
            info = timers._info()
            return timers.tick, info.limit, info.clock, info.flags, tuple(info.slots[:info.levels])

    def test_one_by_one(self):
        tick, limit, clock, flags, slots = self.info()
        self.assertEqual((clock, flags), (time.CLOCK_MONOTONIC, 0))
        self.assertEqual(self.info(limit=7), (tick, 7, clock, flags, slots))
        self.assertEqual(self.info(slots=(60, 50, 40)), (tick, limit, clock, flags, (60, 50, 40)))
        self.assertEqual(self.info(ordered=True), (tick, limit, clock, 4, slots))
        self.assertEqual(self.info(clock=time.CLOCK_BOOTTIME), (tick, limit, time.CLOCK_BOOTTIME, 1, slots))
        self.assertEqual(self.info(exact=True)[0], 1e-5)
        self.assertEqual(self.info(tick=0.25)[0], 0.25)

    def test_all(self):
        self.assertEqual(self.info(clock=htw.MANUAL, tick=1e-9, limit=3, ordered=True, slots=[4] * 8),
                         (1e-9, 3, htw.MANUAL, 5, (4,) * 8))

    def test_ordered(self):
        order = [i * 37 % 100 for i in range(100)]
        # None is due before all have been started, however slow the machine is.
        for ahead in (10**8, 10**9, 10**10):
            with htw.Timers(BACKEND, ordered=True) as timers:
                begin = timers.now() + ahead
                for i in order:
                    timers.at(begin + int(2 * timers.tick * 10**9) * i, i)
                if timers.now() >= begin:
                    continue
                came = []
                for _ in until(lambda: len(came) >= 100):
                    came += [event.cookie for event in timers.wait(60)]
                self.assertEqual(came, list(range(100)))
                return
        self.fail("to start 100 timers takes 10 s")


class RealClock(Case):
    def test_wait(self):
        with htw.Timers(BACKEND) as timers:
            begin = time.monotonic()
            timers.after(0.02, "x")
            self.assertEqual([e.cookie for e in timers.wait(60)], ["x"])
            self.assertGreaterEqual(time.monotonic(), begin + 0.02)
            self.assertEqual(timers.wait(0.01), [])
            self.assertEqual(timers.wait(0), [])

    def test_selector(self):
        with htw.Timers(BACKEND) as timers, selectors.DefaultSelector() as selector:
            selector.register(timers, selectors.EVENT_READ)
            timers.after_many([0.001 * i for i in range(50)], range(50))
            came = []
            for _ in until(lambda: len(came) >= 50):
                self.assertTrue(selector.select(60))
                came += timers.read()
            self.assertEqual({e.cookie for e in came}, set(range(50)))
            self.assertTrue(all(e.late >= 0 for e in came))

    def test_backend(self):
        with htw.Timers(htw.ANY) as timers:
            self.assertIn(timers.backend, (htw.DEVICE, htw.PROCESS))


class Unread(Case):
    """Events that were read from the library, and not handed out, are in the timers."""

    def setUp(self):
        self.timers = htw.Timers(BACKEND, clock=htw.MANUAL)

    def tearDown(self):
        self.timers.close()

    def due(self, count):
        ids = self.timers.after_many([1] * count, range(count))
        self.timers.advance(1)
        return ids

    def cookies(self):
        return [e.cookie for e in self.timers.read()]

    def test_break(self):
        self.due(1000)
        for event in self.timers.read():
            break
        self.assertEqual(event.cookie, 0)
        self.assertEqual(len(self.timers), 999)
        self.assertEqual(self.cookies(), list(range(1, 1000)))
        self.assertEqual((len(self.timers), self.timers._cookies), (0, {}))

    def test_next(self):
        self.due(1000)
        self.assertEqual([next(self.timers.read()).cookie for _ in range(1000)], list(range(1000)))
        self.assertIsNone(next(self.timers.read(), None))

    def test_exceptions(self):
        for kind in (ValueError, StopIteration, GeneratorExit, KeyboardInterrupt, SystemExit):
            with self.subTest(kind):
                self.due(300)
                with self.assertRaises(kind):
                    for _ in self.timers.read():
                        raise kind
                self.assertEqual(self.cookies(), list(range(1, 300)))

    def test_an_iterator_that_is_kept(self):
        self.due(600)
        events = self.timers.read()
        first = [next(events).cookie for _ in range(10)]
        self.assertEqual(first + [next(self.timers.read()).cookie] + [e.cookie for e in events],
                         list(range(600)))
        self.assertEqual(self.cookies(), [])
        self.due(1)
        self.assertEqual(list(events), [])
        self.assertEqual(self.cookies(), [0])

    def test_wait_has_them(self):
        self.due(300)
        next(self.timers.read())
        self.assertEqual([e.cookie for e in self.timers.wait(0)], list(range(1, 300)))

    def test_limit(self):
        self.due(600)
        self.assertEqual([len(list(self.timers.read(n))) for n in (0, 1, 299, 200, 200)], [0, 1, 299, 200, 100])

    def test_threads(self):
        """Each event is handed out once, whatever the number of threads."""
        came, together = [], threading.Barrier(4)

        def reader(mine, read):
            together.wait()
            for _ in until(lambda: not len(self.timers)):
                mine.extend(e.id for e in read())
                mine.extend(e.id for e in self.timers.read(1))

        ids = self.due(500 * ROUNDS)
        reads = [self.timers.read, self.timers.read, lambda: self.timers.read(7), lambda: self.timers.wait(0)]
        threads = []
        for read in reads:
            came.append([])
            threads.append(threading.Thread(target=reader, args=(came[-1], read)))
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            for thread in threads:
                thread.start()
            join(*threads)
        finally:
            sys.setswitchinterval(interval)
        self.assertEqual(sorted(sum(came, [])), sorted(ids))

    def test_stop(self):
        ids = self.due(600)
        for event in self.timers.read():
            stopped = [self.timers.stop(id_) for id_ in (ids[0], ids[1], ids[599])]
            break
        self.assertEqual((event.id, stopped), (ids[0], [False, True, True]))
        self.assertEqual(self.cookies(), list(range(2, 599)))

    def test_stop_of_a_periodic_one(self):
        ids = [self.timers.every(1, i) for i in range(10)]
        self.timers.advance(1)
        next(self.timers.read())
        self.assertTrue(self.timers.stop(ids[5]))
        self.timers.advance(1)
        self.assertEqual(sorted(set(self.cookies())), [0, 1, 2, 3, 4, 6, 7, 8, 9])

    def test_rearm(self):
        kept, once, beat = (self.timers.after(2, "kept", keep=True), self.timers.after(2, "once"),
                            self.timers.every(2, "beat"))
        self.timers.after(1)
        self.timers.advance(2)
        self.assertIsNone(next(self.timers.read()).cookie)
        with self.assertRaises(KeyError):
            self.timers.rearm(once, 5)
        self.timers.rearm(kept, 5)
        self.assertEqual(self.timers.rearm_many([beat, once], [5, 5]), [once])
        self.assertEqual(self.cookies(), ["once"])
        self.timers.advance(5)
        self.assertEqual(self.cookies(), ["kept", "beat"])

    def test_reports(self):
        once, beat = self.timers.after(1, "once"), self.timers.every(1, "beat")
        self.timers.after(3, "later")
        self.timers.after(0)
        self.timers.advance(1)
        self.assertIsNone(next(self.timers.read()).cookie)
        self.assertEqual((self.timers.query(once).state, self.timers.query(beat).state), ("due", "due"))
        states = {"once": ("due", 0, 0), "beat": ("due", 0, 1), "later": ("pending", 2, 0)}
        self.assertEqual({p.cookie: (p.state, p.remaining, p.interval) for p in self.timers.list()}, states)
        self.assertEqual(len(self.timers), 3)
        self.assertEqual({p.cookie: (p.state, p.remaining, p.interval) for p in self.timers.harvest()}, states)
        self.assertEqual((self.cookies(), len(self.timers), self.timers._cookies), ([], 0, {}))
        for id_ in (once, beat):
            with self.assertRaises(KeyError):
                self.timers.query(id_)

    def test_len_of_mixed_ones(self):
        """len() counts each timer once, whatever was handed out, stopped or moved meanwhile."""
        for _ in range(2):
            ids = [start(1, i) for i in range(400) for start in
                   (self.timers.after, self.timers.every, lambda s, i: self.timers.after(s, i, keep=True))]
            self.timers.advance(1)
            events = self.timers.read()
            for count, event in enumerate(events):
                if count % 7 == 0:
                    self.timers.stop(ids[-count])
                    self.timers.stop(ids[count + 1])
                elif count % 11 == 0 and event.more:
                    self.timers.rearm(event.id, 10)
                    self.timers.rearm(ids[count // 3 * 3 + 4], 10)
                if count % 3:
                    self.assertEqual(len(self.timers), len(self.timers.list()), count)
                if count == 300:
                    break
            for event in self.timers.read():
                self.assertEqual(len(self.timers), len(self.timers.list()))
            self.assertEqual(len(self.timers), len(self.timers.list()))
            for id_ in ids:
                self.timers.stop(id_)
            self.assertEqual((len(self.timers), self.timers._cookies), (0, {}))

    def test_cost_within_a_loop(self):
        """Of each event it is the same, however many there are: counted in steps of the module."""
        def cost(count, use):
            self.timers.after_many([1] * count)
            beats = [self.timers.every(1) for _ in range(count)]
            self.timers.advance(1)
            steps = Steps()
            for number, event in enumerate(self.timers.read()):
                # From the first to the last, as what comes late may cost more.
                if number % (count // 10) == 0:
                    steps.run(use, event, beats)
                else:
                    use(event, beats)
            self.timers.harvest()
            return steps.count

        for name, use in (("len", lambda event, _: len(self.timers)),
                          ("query", lambda _, beats: self.timers.query(beats[-1])),
                          ("stop", lambda event, beats: self.timers.stop(beats[event.id % len(beats)])),
                          ("read", lambda event, beats: next(self.timers.read(), None))):
            few, many = cost(20, use), cost(1000, use)
            self.assertGreater(few, 100, name)
            self.assertLess(many, 2 * few, name)

    def test_closed(self):
        self.due(600)
        came = []
        for event in self.timers.read():
            came.append(event)
            self.timers.close()
        self.assertEqual(len(came), 1)

    def test_timers_of_others(self):
        """A cookie that somebody else gave to a timer on the descriptor is only a number."""
        mine = self.timers.after(2, "mine")
        for cookie in (0, 1, mine, 2**64 - 1):
            add = htw._timers.Add(deadline=10**9, cookie=cookie)
            self.assertEqual(self.timers._lib.htw_add(self.timers._handle, ctypes.byref(add)), 0)
        self.timers.advance(1)
        self.assertEqual(self.cookies(), [0, 1, mine, 2**64 - 1])
        self.timers.advance(1)
        self.assertEqual(self.cookies(), ["mine"])


class Boom(Exception):
    """A signal handler's."""


# Each returns the ids of the timers that it took, and that no other call has any more.
USES = {
    "after": lambda t, _: [t.after(100)][1:],
    "at": lambda t, _: [t.at(10**12)][1:],
    "every": lambda t, _: [t.every(100)][1:],
    "timeout": lambda t, _: [t.timeout(100)][1:],
    "after_many": lambda t, _: t.after_many([100, 200])[2:],
    "rearm": lambda t, ids: t.rearm(ids["later"], 50) or [],
    "rearm_many": lambda t, ids: t.rearm_many([ids["later"], ids["beat"]], [50, 60])[2:],
    "put_off": lambda t, ids: t.put_off(ids["timeout"], 70) or [],
    "stop": lambda t, ids: [id_ for id_ in (ids["due"], ids["unread"], ids["stopped"]) if t.stop(id_)],
    "query": lambda t, ids: [t.query(ids["later"]).id, t.query(ids["beat"]).id][2:],
    "list": lambda t, _: t.list()[:0],
    "len": lambda t, _: [len(t)][1:],
    "now": lambda t, _: [t.now(), t.tick, t.fileno()][3:],
    "advance": lambda t, _: [t.advance(0)][1:],
    "next": lambda t, _: [event.id for event in islice(t.read(), 1)],
    "read": lambda t, _: [event.id for event in t.read()],
    "wait": lambda t, _: [event.id for event in t.wait(0)],
    "sleep": lambda t, _: [event.id for event in t.wait(0.0011)],
    "harvest": lambda t, _: [timer.id for timer in t.harvest()],
}


class Handlers(Case):
    """Signal handlers that come between any two steps of a method."""

    def timers(self):
        """Return timers in all states, and their ids."""
        t = htw.Timers(BACKEND, clock=htw.MANUAL)
        self.addCleanup(t.close)
        ids = {"first": t.after(0), "unread": t.after(0), "unread beat": t.every(1, first=0)}
        self.assertEqual(next(t.read()).id, ids.pop("first"))
        ids.update(due=t.after(0), second=t.after(0), beat=t.every(2, first=0), later=t.after(1000),
                   stopped=t.after(1000), timeout=t.timeout(1000), kept=t.after(1000, keep=True))
        return t, ids

    def steps(self, use, raises=False):
        t, ids = self.timers()
        steps = Steps(raises=raises)
        steps.run(USES[use], t, ids)
        self.assertGreater(steps.count, 5 if raises else 50, use)
        return range(1, steps.count + 2, 1 if raises else 200 // ROUNDS)

    def check(self, t, ids, *taken):
        """Each timer was taken once, or is left."""
        taken = [list(part) for part in taken] + [[timer.id for timer in t.harvest()]]
        for name, id_ in ids.items():
            times = sum(part.count(id_) for part in taken)
            # An event of a periodic timer does not end it.
            self.assertIn(times, (1, 2, 3) if "beat" in name else (1,), name)
        self.assertEqual((len(t), t._cookies), (0, {}))

    def test_each_in_each(self):
        refused = allowed = 0
        for use in USES:
            for step in self.steps(use):
                handler = list(USES)[step // 2 % len(USES)]
                with self.subTest(use=use, step=step, handler=handler):
                    t, ids = self.timers()
                    inner = None

                    def handle():
                        nonlocal inner
                        try:
                            inner = USES[handler](t, ids)
                        except KeyError:
                            inner = []
                        except RuntimeError as problem:
                            self.assertIn("signal handler", str(problem))

                    try:
                        outer = Steps(step, handle).run(USES[use], t, ids)
                    except KeyError:        # what the handler took
                        outer = []
                    refused, allowed = refused + (inner is None), allowed + (inner is not None)
                    self.check(t, ids, outer, inner or [])
                    t.close()
        self.assertGreater(refused, 5 * ROUNDS)
        self.assertGreater(allowed, 5 * ROUNDS)

    def test_iterators_in_each(self):
        """A loop over events may go on at any step of a method, in a handler or another thread."""
        for use in ("read", "wait", "harvest", "list", "len", "stop", "rearm_many"):
            for step in self.steps(use):
                with self.subTest(use=use, step=step):
                    t, ids = self.timers()
                    events, inner = t.read(), []
                    next(t.read())      # so that the first comes to the end of what there is
                    ids.pop("unread")
                    ids["third"] = t.after(0)
                    outer = Steps(step, lambda: inner.extend(e.id for e in events)).run(USES[use], t, dict(
                        ids, unread=0))
                    self.check(t, ids, outer, inner)
                    t.close()

    def test_close_in_each(self):
        for use in USES:
            ended = 0
            for step in self.steps(use):
                with self.subTest(use=use, step=step):
                    t, ids = self.timers()
                    descriptors = [t.fileno(), *t._wake]
                    try:
                        Steps(step, t.close).run(USES[use], t, ids)
                    except ValueError as problem:
                        self.assertIn("closed", str(problem))
                        ended += 1
                    t.close()
                    for fd in descriptors:
                        with self.assertRaises(OSError):
                            os.fstat(fd)
                    self.assertEqual((t._cookies, len(t._unread)), ({}, 0))
            self.assertGreater(ended, 5, use)

    def test_exceptions_in_each(self):
        """They take along at most what the method was about to return."""
        self.raise_in_each(1)

    def test_two_exceptions_in_each(self):
        """The second comes while the first is on its way."""
        self.raise_in_each(2)

    def raise_in_each(self, times):
        def boom():
            raise Boom

        for use in USES:
            raised = 0
            for step in self.steps(use, True):
                with self.subTest(use=use, step=step):
                    t, ids = self.timers()
                    taken = []
                    try:
                        taken = Steps(step, boom, True, times).run(USES[use], t, ids)
                    except Boom:
                        raised += 1
                        self.assertFalse(t._lock._is_owned() or t._waiting)
                        if use in ("stop", "next", "wait", "sleep", "harvest"):
                            left = {timer.id for timer in t.list()}
                            taken = [id_ for id_ in ids.values() if id_ not in left]
                        elif use == "read":
                            # Of one loop, as this is no function of C, the event at hand.
                            left = {timer.id for timer in t.list()}
                            taken = [id_ for id_ in ids.values() if id_ not in left]
                            self.assertLessEqual(len(taken), 1)
                    self.check(t, ids, taken)
                    t.close()
            self.assertGreater(raised, 3, use)

    def test_storm(self):
        """Each event is taken once, by the program, by handlers, and by another thread."""
        def handle():
            nonlocal turn
            turn += 1
            handler = names[turn % len(names)]
            try:
                mine.extend(USES[handler](t, ids))
                allowed.append(handler)
            except KeyError:
                pass
            except RuntimeError:
                refused.append(handler)

        def other():
            while not over.is_set():
                try:
                    theirs.extend(e.cookie for e in t.read(3))
                    t.stop(t.after(100))
                    len(t)
                except Exception as problem:
                    problems.append(problem)

        names = ["after", "rearm", "put_off", "query", "list", "len", "now", "advance"]
        turn, mine, refused, allowed, theirs, problems, came = 0, [], [], [], [], [], []
        over, started = threading.Event(), 0
        t, ids = self.timers()
        list(t.read())
        thread = threading.Thread(target=other)
        thread.start()
        try:
            with storm(handle):
                for _ in until(lambda: len(refused) > ROUNDS and len(allowed) > ROUNDS):
                    t.after_many([0] * 10, range(started, started + 10))
                    started += 10
                    came.extend(e.cookie for e in t.read())
                    came.extend(e.cookie for e in t.wait(0.0005))
        finally:
            over.set()
            join(thread)
        came.extend(e.cookie for e in t.read())
        self.assertEqual(problems, [])
        self.assertEqual(sorted(c for c in came + theirs if c is not None), list(range(started)))

    def test_storm_of_reads(self):
        """Each event is taken once, whether the program or a handler reads or harvests."""
        def handle():
            nonlocal turn
            turn += 1
            try:
                mine.extend(x.cookie for x in (t.harvest() if turn % 5 == 0 else t.read(3)))
                allowed.append(1)
            except RuntimeError:
                refused.append(1)

        turn, mine, refused, allowed, came, started = 0, [], [], [], [], 0
        t = htw.Timers(BACKEND)
        with storm(handle):
            for _ in until(lambda: len(refused) > ROUNDS and len(allowed) > ROUNDS):
                t.after_many([0] * 300 + [100], range(started, started + 301))
                started += 301
                came.extend(e.cookie for e in t.read())
                if started % 7 == 0:
                    came.extend(p.cookie for p in t.harvest())
        came.extend(p.cookie for p in t.harvest())
        t.close()
        self.assertEqual(sorted(came + mine), list(range(started)))

    def test_close_by_signals(self):
        before = signal.getsignal(signal.SIGALRM)
        try:
            for use in USES:
                for round_ in range(ROUNDS // 5):
                    t, ids = self.timers()
                    signal.signal(signal.SIGALRM, lambda *_, t=t: t.close())
                    signal.setitimer(signal.ITIMER_REAL, 0.00005 + 0.00001 * round_)
                    with self.assertRaisesRegex(ValueError, "closed"):
                        for _ in until(lambda: False):
                            try:
                                USES[use](t, ids)
                            except KeyError:
                                pass
                    signal.setitimer(signal.ITIMER_REAL, 0)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def test_within_wait(self):
        """wait() sleeps: its thread's handlers are refused, close() ends it, others may call."""
        def handle(*_):
            for use in USES:
                try:
                    USES[use](t, ids)
                    said.append(use)
                except RuntimeError as problem:
                    said.append(str(problem)[:11])
            t.close()

        def other():
            for _ in until(lambda: t._waiting):
                pass
            for use in USES:
                if use not in ("harvest", "close"):
                    USES[use](t, ids)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGALRM)

        said, before = [], signal.signal(signal.SIGALRM, handle)
        try:
            for timeout in (None, PATIENCE):
                said.clear()
                t, ids = self.timers()
                list(t.read())
                thread = threading.Thread(target=other)
                thread.start()
                fd = t.fileno()
                with self.assertRaisesRegex(ValueError, "closed"):
                    while True:
                        t.wait(timeout)
                join(thread)
                self.assertEqual(said, ["this thread"] * len(USES))
                with self.assertRaises(OSError):
                    os.fstat(fd)
        finally:
            signal.signal(signal.SIGALRM, before)

    def test_raising_storm(self):
        """What read() has not handed out stays; wait() and harvest() lose at most what they return."""
        def handle(*_):
            if armed:
                raise Boom

        armed, missed, before = False, [], signal.signal(signal.SIGALRM, handle)
        uses = {"read": lambda: came.extend(t.read()), "wait": lambda: came.extend(t.wait(0)),
                "harvest": lambda: came.extend(t.harvest())}
        try:
            for use in uses:
                interrupted = 0
                for round_ in range(ROUNDS):
                    with htw.Timers(BACKEND, clock=htw.MANUAL) as t:
                        ids = t.after_many([1] * 2000)
                        t.advance(1)
                        came, tries, lost = [], 0, 0
                        for _ in until(lambda: not len(t)):
                            had = len(came) + len(t)
                            try:
                                armed, tries = True, tries + 1
                                signal.setitimer(signal.ITIMER_REAL, 0.00002 * (round_ + 37 * tries % 100 + 1))
                                uses[use]()
                                armed = False
                            except Boom:
                                armed = False
                                interrupted += 1
                            signal.setitimer(signal.ITIMER_REAL, 0)
                            lost += had - len(came) - len(t)
                        self.assertEqual(len({x.id for x in came}), len(came))
                        self.assertEqual(len(came) + lost, len(ids))
                        if use == "read":
                            self.assertEqual(lost, 0)
                if not interrupted:
                    missed.append(use)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        if missed:
            self.skipTest(f"no signal has come within {', '.join(missed)}")

    def test_cookies_that_call(self):
        """__del__() of a cookie may call, unless an object's is called in between by a collection."""
        class Caller:
            def __init__(self, t):
                self.t = t

            def __del__(self):
                try:
                    len(self.t)
                    said.append("called")
                except Exception as problem:
                    said.append(type(problem).__name__)

        said, t = [], htw.Timers(BACKEND, clock=htw.MANUAL)
        t.stop(t.after(1, Caller(t)))
        t.after(1, Caller(t))
        t.advance(1)
        list(t.read())
        for start in (t.after, t.every):
            start(1, Caller(t))
        t.advance(1)
        next(t.read())
        t.harvest()
        self.assertEqual(said, ["called"] * 4)
        t.after(1, Caller(t))
        t.close()
        self.assertEqual(said[4:], ["ValueError"])


class ReadEnds(Case):
    """What read() returns was due when it began."""

    def test_restarted_at_once(self):
        for count in (1, 256, 257, 5000):
            with self.subTest(count), htw.Timers(BACKEND, clock=htw.MANUAL) as timers:
                timers.after_many([0] * count)
                for _ in range(3):
                    again = 0
                    for _ in timers.read():
                        timers.after(0)
                        again += 1
                    self.assertEqual(again, count)

    def test_faster_than_the_reader(self):
        with htw.Timers(BACKEND) as timers:
            for _ in range(50 * ROUNDS):
                timers.every(timers.tick, first=0)
            for event in timers.read():
                begin = event.taken_ns
                break
            for _ in range(3):
                count, began = 0, timers.now()
                for event in timers.read():
                    count += 1
                    time.sleep(1e-6)
                self.assertLessEqual(count, 150 * ROUNDS)      # with those that the last one left
            self.assertGreater(began, begin)

    def test_started_by_another_thread(self):
        def one_by_one():
            for _ in range(10):
                timers.at(0)

        for start in (lambda: timers.after_many([0] * 1000), one_by_one):
            with htw.Timers(BACKEND) as timers:
                over = threading.Event()

                def feed():
                    while not over.is_set():
                        start()

                thread = threading.Thread(target=feed)
                thread.start()
                try:
                    came = 0
                    for _ in until(lambda: came >= 100 * ROUNDS):
                        came += sum(1 for _ in timers.read())
                finally:
                    over.set()
                    join(thread)

    def test_long_bucket(self):
        """read() finds all that is due, also if very many timers come near at once."""
        with htw.Timers(BACKEND, clock=htw.MANUAL) as timers:
            timers.after_many([5 * 3600] * (500 * ROUNDS), range(500 * ROUNDS))
            timers.advance(5 * 3600 - 1)
            self.assertEqual(sum(1 for _ in timers.read()), 0)
            timers.advance(1)
            came = [e.cookie for e in timers.read(10)]
            came += [e.cookie for e in timers.read()]
            self.assertEqual(came, list(range(500 * ROUNDS)))


class Numbers(Case):
    def setUp(self):
        self.timers = htw.Timers(BACKEND, clock=htw.MANUAL)

    def tearDown(self):
        self.timers.close()

    def test_integers_beyond_their_field(self):
        t, id_ = self.timers, self.timers.after(100, keep=True)
        uses = [
            (64, lambda n: t.stop(n)), (64, lambda n: t.query(n)), (64, lambda n: t.rearm(n, 1)),
            (64, lambda n: t.rearm_many([id_, n], [1, 1])), (64, lambda n: t.put_off(n, 1)),
            (64, lambda n: t.at(n)), (32, lambda n: t.every(1, firings=n)), (63, lambda n: t.read(n)),
            (64, lambda n: htw.Timers(BACKEND, limit=n)), (31, lambda n: htw.Timers(BACKEND, clock=n)),
            (32, lambda n: htw.Timers(BACKEND, tick=1, slots=(n, 64))),
            (31, lambda n: htw.Timers.from_fd(n)), (2, lambda n: htw.Timers(n)),
        ]
        for bits, use in uses:
            for value in (2**bits, 2**bits + id_, -1, -2**bits, -2**64 + 1, 2**bits + 1, 10**30):
                with self.subTest(bits=bits, value=value), self.assertRaises(ValueError):
                    use(value)
            for value in (1.5, "1", None, b"1"):
                if bits not in (2,) and not (bits in (63, 64, 31) and value is None):
                    with self.subTest(bits=bits, value=value), self.assertRaises(TypeError):
                        use(value)
        with self.assertRaises(ValueError):
            htw.Timers(BACKEND, tick=1, slots=[2] * 9)
        self.assertEqual((len(t), t.query(id_).remaining), (1, 100))

    def test_ids_that_are_none(self):
        t, live = self.timers, self.timers.after(100)
        old = t.after(1)
        t.stop(old)
        with htw.Timers(BACKEND, clock=htw.MANUAL) as others:
            foreign = others.after(1)
            self.assertEqual(len(others), 1)
        numbers = [0, 1, old, 2**64 - 1, 0x20000000, old ^ 2**32, old ^ 2**63]
        for bit in range(64):
            numbers.append(live ^ 1 << bit)
        for id_ in numbers + ([foreign] if BACKEND == htw.PROCESS else []):
            with self.subTest(id=id_):
                self.assertFalse(t.stop(id_))
                for use in (t.query, lambda n: t.rearm(n, 1), lambda n: t.put_off(n, 1)):
                    with self.assertRaises(KeyError):
                        use(id_)
                self.assertEqual(t.rearm_many([id_], [1]), [id_])
        self.assertEqual([p.id for p in t.list()], [live])

    def test_seconds(self):
        ns = htw._library.exact_ns
        for seconds, expected in (
                (0.067, 67000000), (0.1, 10**8), (0.29, 290000000), (1.1, 1100000000), (1e-9, 1), (1e-10, 1),
                (1e-9 / 3, 1), (5e-324, 1), (0.1 + 0.2, 300000001), (4.35, 4350000000), (-0.5, -500000000),
                (123456789.123456789, 123456789123456790), (1e9 + 0.1, 1000000000100000000), (2**40, 2**40 * 10**9),
                (True, 10**9), (Fraction(1, 3), 333333334), (Decimal("0.067"), 67000000),
                (Decimal("1e-10"), 1), (timedelta(microseconds=1), 1000), (timedelta(days=-1), -86400 * 10**9)):
            self.assertEqual(ns(seconds), expected, seconds)
        for step in range(1, 10**9, 999983):
            self.assertEqual(ns(step / 10**9), step)
            exact = Decimal(repr(step / 7e6)) * 10**9
            self.assertTrue(0 <= ns(step / 7e6) - exact < 1, step)
        for seconds in (float("nan"), Decimal("nan")):
            for use in (self.timers.after, self.timers.every, self.timers.advance, self.timers.wait,
                        lambda n: self.timers.after(1, slack=n), lambda n: self.timers.after_many([1, n])):
                with self.assertRaises(ValueError):
                    use(seconds)
        for seconds in (-1, -1e-9, -1e-10, Fraction(-1, 10**12), Decimal("-1e-20"), float("inf"), float("-inf"), 1e11,
                        2**64):
            for use in (self.timers.every, self.timers.advance, lambda n: self.timers.after(1, slack=n),
                        lambda n: htw.Timers(BACKEND, tick=n)):
                with self.assertRaises(ValueError):
                    use(seconds)
        for seconds in ("1", None, [1], 1j):
            with self.assertRaises(TypeError):
                self.timers.after(seconds)
        self.assertEqual(len(self.timers), 0)

    def test_numbers_of_very_many_digits(self):
        """They neither take long nor make Python complain of their length."""
        longs = [sign * n for n in (10**5000, 10**10**6, Fraction(10**5000, 3)) for sign in (1, -1)]
        longs += [Decimal(text) for text in ("1e999999", "-1e999999", "1e999999999999999999",
                                             "-1." + "1" * 10**6, "-1e-8", "1" * 10**6, "sNaN", "-sNaN", "NaN123")]
        durations = (self.timers.every, self.timers.advance, lambda n: self.timers.after(1, slack=n),
                     lambda n: htw.Timers(BACKEND, tick=n))
        whole = (self.timers.stop, self.timers.query, self.timers.at, lambda n: htw.Timers(BACKEND, limit=n),
                 lambda n: self.timers.rearm(n, 1), lambda n: self.timers.rearm_many([n], [1]))
        for index, value in enumerate(longs):
            for use in durations + (whole if isinstance(value, int) else ()):
                with self.subTest(index), self.assertRaisesRegex(ValueError, "not (between|a number)") as caught:
                    use(value)
                self.assertLess(len(str(caught.exception)), 200)
        ns = htw._library.exact_ns
        for text, expected in (("1e-999999", 1), ("-1e-999999", 0), ("0e999999", 0), ("0e-999999", 0),
                               ("1e-999999999999999999", 1), ("0." + "3" * 10**6, 333333334),
                               ("-0." + "3" * 10**6, -333333333), ("18446744073.709551615", 2**64 - 1),
                               ("99999999999999999999.9999999991", 10**29)):
            self.assertEqual(ns(Decimal(text)), expected, text[:30])
        for value, expected in ((Decimal("1e999999"), 2**64 - 1), (Decimal("-1e999999"), 0), (10**10**6, 2**64 - 1),
                                (Fraction(-10**5000, 3), 0)):
            self.assertEqual(htw._library.delay(value), expected)
        with localcontext() as context:
            context.prec = 3
            self.assertEqual(ns(Decimal("1.23456789")), 1234567890)
        self.assertEqual(len(self.timers), 0)

    def test_a_timer_comes_at_its_time(self):
        for ms in range(1, 1000):
            self.timers.after(ms / 1000)
            self.assertTrue(self.timers.advance(ms / 1000), ms)
            self.assertEqual(len(list(self.timers.read())), 1)

    def test_cookies_for_others(self):
        """What fits into the library's cookie is one for other processes as well."""
        for cookie, raw in ((7, 7), (2**64 - 1, 2**64 - 1), (2**64, 0), (-1, 0), (True, 0), ("x", 0), (None, 0)):
            query = htw._library.Query(id=self.timers.after(1, cookie))
            self.assertEqual(self.timers._lib.htw_query(self.timers._handle, query), 0)
            self.assertEqual(query.cookie, raw)
            self.assertIs(self.timers.query(query.id).cookie, cookie)


class PutOff(Case):
    def test_put_off(self):
        with htw.Timers(BACKEND, clock=htw.MANUAL) as timers:
            id_ = timers.timeout(2, "x")
            timers.advance(1)
            timers.put_off(id_, 3)
            self.assertEqual(timers.query(id_).remaining, 3)
            timers.advance(2)
            self.assertEqual(list(timers.read()), [])
            timers.put_off(id_, 2)
            timers.advance(1.5)
            self.assertEqual(list(timers.read()), [])
            timers.advance(1)
            self.assertEqual([e.cookie for e in timers.read()], ["x"])
            for ended in (id_, timers.after(1)):
                with self.assertRaises(KeyError):
                    timers.put_off(ended, 1)
            id_ = timers.timeout(1, "never")
            timers.put_off(id_, float("inf"))
            timers.advance(1e9)
            self.assertTrue(timers.stop(id_))


class Errors(Case):
    """An error names the device, if it is the device's, and the cause."""

    def test_words(self):
        name = "/dev/htw" if BACKEND == htw.DEVICE else None
        with htw.Timers(BACKEND, clock=htw.MANUAL, limit=1) as timers:
            timers.after(1)
            with self.assertRaisesRegex(OSError, "limit") as caught:
                timers.after(1)
            self.assertEqual((caught.exception.errno, caught.exception.filename), (errno.ENOSPC, name))
        with self.assertRaisesRegex(OSError, "clock"):
            htw.Timers(BACKEND, clock=CLOCK_TAI)
        with self.assertRaisesRegex(OSError, "not a descriptor of the device.*'/dev/htw'"):
            htw.Timers.from_fd(0)

    @unittest.skipIf(os.path.exists("/dev/htw"), "there is a device")
    def test_no_device(self):
        with self.assertRaisesRegex(FileNotFoundError, "modprobe htw.*'/dev/htw'"):
            htw.Timers(htw.DEVICE)

    def test_each_kind(self):
        for code, kind, words in ((errno.EACCES, PermissionError, "group htw"), (errno.EPERM, PermissionError, "CAP_SYS"),
                                  (errno.EDQUOT, OSError, "Disk quota exceeded")):
            problem = htw._library.error(-code, True, htw._library.WORDS_OF_OPEN)
            self.assertIs(type(problem), kind)
            self.assertRegex(str(problem), words)
            self.assertEqual((problem.errno, problem.filename), (code, "/dev/htw"))

    def test_a_failed_start_leaves_nothing(self):
        with htw.Timers(BACKEND, clock=htw.MANUAL, limit=5) as timers:
            timers.after_many([1] * 3)
            for use in (lambda: timers.after_many([0] * 3), lambda: timers.every(0),
                        lambda: timers.after_many([1, "x"]), lambda: timers.after_many([1], [])):
                with self.assertRaises((OSError, TypeError, ValueError)):
                    use()
                self.assertEqual((len(timers), len(timers._cookies)), (3, 3))


def exit_code(status):
    """What os.waitstatus_to_exitcode() returns, which Python 3.8 does not have."""
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)


def in_child(function):
    """Return how a child of fork() that calls a function ends: its exit status, or minus the signal."""
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        status = 99
        try:
            status = function() or 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(status)
    try:
        for _ in until(lambda: os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)):
            time.sleep(0.002)
    except AssertionError:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        status = os.waitpid(pid, 0)[1]
    return exit_code(status)


class Fork(Case):
    def test_unread_events_are_the_parents(self):
        with htw.Timers(BACKEND, clock=htw.MANUAL) as timers:
            timers.after_many([1] * 600, range(600))
            timers.advance(1)
            came = []
            for event in timers.read():
                came.append(event.cookie)
                if event.cookie == 10:
                    status = None
                    pid = os.fork()
                    if not pid:
                        continue
                    status = exit_code(os.waitpid(pid, 0)[1])
            if status is None:
                os._exit(len(came))
            self.assertEqual((status, came), (11, list(range(600))))

    def test_child(self):
        """A child can close its copies; all else is an error."""
        with htw.Timers(BACKEND) as timers, htw.Timers(BACKEND) as second:
            timers.after(0, "x")

            def child():
                nonlocal timers
                for use in (timers.read, lambda: timers.after(1), lambda: timers.wait(0), lambda: len(timers)):
                    try:
                        use()
                    except PermissionError as problem:
                        if "fork" in str(problem):
                            continue
                    return 1
                second.close()
                timers.close()
                del timers
                return 0

            self.assertEqual(in_child(child), 0)
            self.assertEqual([e.cookie for e in timers.wait(60)], ["x"])

    def test_lock_of_another_thread(self):
        """fork() while another thread is within a call."""
        with htw.Timers(BACKEND) as timers:
            over = threading.Event()

            def busy():
                while not over.is_set():
                    for id_ in timers.after_many([10] * 100):
                        timers.stop(id_)

            threads = [threading.Thread(target=busy) for _ in range(2)]
            for thread in threads:
                thread.start()
            try:
                for _ in range(ROUNDS // 2):
                    self.assertEqual(in_child(timers.close), 0)
            finally:
                over.set()
                join(*threads)


class Waiting(Case):
    def test_signals(self):
        """A handled signal does not end wait(); one whose handler raises does."""
        handled = []
        before = signal.signal(signal.SIGALRM, lambda *_: handled.append(time.monotonic()))
        try:
            with htw.Timers(BACKEND) as timers:
                for timeout in (0.2, 0.0009):
                    signal.setitimer(signal.ITIMER_REAL, timeout / 10, timeout / 10)
                    begin = time.monotonic()
                    self.assertEqual(timers.wait(timeout), [])
                    self.assertGreaterEqual(time.monotonic(), begin + timeout)
                    signal.setitimer(signal.ITIMER_REAL, 0)
                self.assertGreater(len(handled), 5)
                timers.after(0.05, "x")
                signal.setitimer(signal.ITIMER_REAL, 0.01)
                self.assertEqual([e.cookie for e in timers.wait()], ["x"])
                signal.signal(signal.SIGALRM, lambda *_: 1 / 0)
                signal.setitimer(signal.ITIMER_REAL, 0.01)
                with self.assertRaises(ZeroDivisionError):
                    timers.wait(60)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def test_close(self):
        """close() while other threads wait."""
        for timeout in (None, 60):
            timers, ended = htw.Timers(BACKEND), []
            fd = timers.fileno()

            def waiter():
                try:
                    timers.wait(timeout)
                except ValueError:
                    ended.append(1)

            threads = [threading.Thread(target=waiter, daemon=True) for _ in range(3)]
            for thread in threads:
                thread.start()
            for _ in until(lambda: len(timers._waiting) >= 3):
                time.sleep(0.001)
            timers.close()
            join(*threads)
            self.assertEqual(len(ended), 3)
            with self.assertRaises(OSError):
                os.fstat(fd)

    def test_close_while_others_call(self):
        for _ in range(ROUNDS // 4):
            timers, ended = htw.Timers(BACKEND), []

            def worker():
                try:
                    while True:
                        timers.stop(timers.after(1))
                        timers.wait(0.0001)
                        timers.now()
                except ValueError:
                    ended.append(1)

            threads = [threading.Thread(target=worker, daemon=True) for _ in range(3)]
            for thread in threads:
                thread.start()
            time.sleep(0.001)
            timers.close()
            join(*threads)
            self.assertEqual(len(ended), 3)

    def test_by_another_thread(self):
        with htw.Timers(BACKEND) as timers:
            thread = threading.Timer(0.02, timers.after, (0, "x"))
            thread.start()
            self.assertEqual([e.cookie for e in timers.wait(60)], ["x"])
            join(thread)

    def test_closed_by_somebody_else(self):
        """No descriptor of these takes its number."""
        with htw.Timers(BACKEND) as timers:
            fd = timers.fileno()
            copy = os.dup(fd)
            os.close(fd)
            with self.assertRaises(OSError) as caught:
                timers.wait(60)
            self.assertEqual(caught.exception.errno, errno.EBADF)
            os.dup2(copy, fd)
            os.close(copy)


if __name__ == "__main__":
    unittest.main()
