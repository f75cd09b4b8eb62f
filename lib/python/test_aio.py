#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of htw.aio: on the device if $HTW_BACKEND is "device", or else in the process."""

import asyncio
import contextvars
import copy
import errno
import functools
import gc
import os
import pickle
import signal
import sys
import threading
import time
import unittest
import warnings
import weakref
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import htw  # noqa: E402
from htw import aio  # noqa: E402
from htw._library import error  # noqa: E402
from test_htw import BACKEND, ROUNDS, Case, Limited, Steps, join, until  # noqa: E402

try:
    from test.test_asyncio import test_timeouts as peer
except ImportError:
    peer = None
try:
    import uvloop
except ImportError:
    uvloop = None


class AsyncCase(Limited, unittest.IsolatedAsyncioTestCase):
    """A test in a loop that has a limit."""


class Thing:
    """An object that can be weakly referenced."""


class Asyncio(AsyncCase):
    async def asyncSetUp(self):
        asyncio.get_running_loop().set_debug(False)
        self.timers = aio.Timers(backend=BACKEND)

    async def asyncTearDown(self):
        self.timers.close()

    async def test_copies(self):
        call = self.timers.call_later(1, print)
        for what in (self.timers, call):
            for use in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.assertRaisesRegex(TypeError, "cannot be copied"):
                    use(what)

    async def test_cancel_of_what_cannot_begin(self):
        """As in a finally clause, where an error would take the place of another."""
        call = self.timers.call_later(1, print)
        self.timers.close()
        call.cancel()
        self.assertTrue(call.cancelled())

        other = aio.Timers(backend=htw.PROCESS)
        call = other.call_later(1, print)
        pid = os.fork()
        if not pid:
            wrong = 1
            try:
                call.cancel()
                wrong = 0
            finally:
                os._exit(wrong)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.assertEqual(len(other), 1)
        other.close()

    async def test_sleep(self):
        begin = time.monotonic()
        self.assertEqual(await self.timers.sleep(0.02, "rested"), "rested")
        self.assertGreaterEqual(time.monotonic(), begin + 0.02)
        await asyncio.gather(*(self.timers.sleep(0.001 * (i % 20)) for i in range(300)))
        self.assertEqual(len(self.timers), 0)

    async def test_cancelled_sleep(self):
        task = asyncio.create_task(self.timers.sleep(3600))
        await asyncio.sleep(0)
        self.assertEqual(len(self.timers), 1)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertEqual(len(self.timers), 0)
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(self.timers.sleep(3600), 0.01)
        self.assertEqual(len(self.timers), 0)

    async def test_calls(self):
        called, over = [], asyncio.Event()
        beat = self.timers.call_every(0.005, lambda: (called.append("beat"), len(called) >= 5 and over.set()))
        never = self.timers.call_later(0.001, called.append, "never")
        never.cancel()
        never.cancel()
        await asyncio.wait_for(over.wait(), 60)
        beat.cancel()
        self.assertEqual(set(called), {"beat"})
        self.assertEqual(len(self.timers), 0)

    async def test_exception(self):
        problems, done = [], asyncio.Event()
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        self.timers.call_later(0, lambda: 1 / 0)
        self.timers.call_later(0.001, done.set)
        await asyncio.wait_for(done.wait(), 60)
        self.assertIsInstance(problems[0]["exception"], ZeroDivisionError)

    async def test_close_with_sleepers(self):
        task = asyncio.create_task(self.timers.sleep(3600))
        await asyncio.sleep(0)
        self.timers.close()
        with self.assertRaises(asyncio.CancelledError):
            await asyncio.wait_for(task, 60)

    async def test_contexts(self):
        variable, seen, over = contextvars.ContextVar("variable", default=0), [], asyncio.Event()
        for value in (1, 2, 3):
            variable.set(value)
            self.timers.call_later(0.001 * value, lambda: (seen.append(variable.get()), variable.set(9)))
        other = contextvars.copy_context()
        other.run(variable.set, 4)
        self.timers.call_later(0.004, lambda: seen.append(variable.get()), context=other)
        variable.set(5)
        self.timers.call_later(0.005, over.set)
        await asyncio.wait_for(over.wait(), 60)
        self.assertEqual((seen, variable.get()), ([1, 2, 3, 4], 5))

    async def test_rearm(self):
        came, over = [], asyncio.Event()
        call = self.timers.call_later(3600, lambda: (came.append("x"), over.set()))
        for again in range(3):
            call.rearm(0.001)
            await asyncio.wait_for(over.wait(), 60)
            over.clear()
        self.assertEqual(came, ["x"] * 3)
        call.cancel()
        with self.assertRaises(RuntimeError):
            call.rearm(1)
        self.timers.close()
        with self.assertRaises(ValueError):
            self.timers.call_later(1, print)

    async def test_not_callable(self):
        with self.assertRaises(TypeError):
            self.timers.call_later(0, "x")
        self.assertEqual(len(self.timers), 0)

    async def test_what_the_loop_would_refuse(self):
        """It is refused at once, whether the loop is in debug mode or not."""
        async def coroutine():
            pass

        begun = coroutine()
        for debug in (True, False):
            asyncio.get_running_loop().set_debug(debug)
            for wrong in (coroutine, begun, functools.partial(coroutine), 7, None):
                for start in (self.timers.call_later, self.timers.call_every):
                    with self.assertRaises(TypeError):
                        start(1, wrong)
            for wrong in ({}, "x", 0):
                with self.assertRaises(TypeError):
                    self.timers.call_later(1, print, context=wrong)
        begun.close()
        self.assertEqual(len(self.timers), 0)

    async def test_names_in_debug_mode(self):
        """The loop names the function in its messages, and where it is."""
        def fail_here():
            raise ValueError

        problems, loop = [], asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: problems.append(context))
        self.timers.call_later(0, fail_here)
        for _ in until(lambda: problems):
            await asyncio.sleep(0)
        self.assertIn("fail_here", repr(problems[0]["handle"]) + problems[0]["message"])

    async def test_repr(self):
        states, over = [], asyncio.Event()
        call = self.timers.call_later(0.001, lambda: (states.append(repr(call)), over.set()))
        beat = self.timers.call_every(0.001, lambda: states.append(repr(beat)), first=3600)
        states += [repr(call), repr(beat)]
        await asyncio.wait_for(over.wait(), 60)
        call.rearm(3600)
        states.append(repr(call))
        call.cancel()
        self.timers.close()
        states += [repr(call), repr(beat)]
        self.assertEqual([s.split()[1] for s in states],
                         ["pending", "pending", "made", "pending", "cancelled", "closed"])

    async def test_descriptor_closed_by_somebody_else(self):
        problems = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        sleeper = asyncio.create_task(self.timers.sleep(3600))
        await asyncio.sleep(0)
        self.timers._set.read = lambda limit: (_ for _ in ()).throw(error(-errno.EBADF, False))
        self.timers.call_later(0, print)
        with self.assertRaises(asyncio.CancelledError):
            await asyncio.wait_for(sleeper, 60)
        self.assertEqual([type(p["exception"]) for p in problems], [OSError])


class AsyncioInterrupted(Case):
    """A call that ends by an exception of any kind takes nothing away from the others."""

    def try_one(self, kind, leaves):
        loop, problems, came = asyncio.new_event_loop(), [], []
        loop.set_exception_handler(lambda _, context: problems.append(context["exception"]))

        def fail():
            raise kind

        async def begin():
            timers = aio.Timers(backend=BACKEND, clock=htw.MANUAL)
            for i in range(600):
                timers.call_later(1, fail if i % 100 == 50 else came.append, *([] if i % 100 == 50 else [i]))
            sleeps = [asyncio.ensure_future(timers.sleep(1)) for _ in range(10)]
            await asyncio.sleep(0)
            timers.advance(1)
            return timers, sleeps

        timers, sleeps = loop.run_until_complete(begin())
        left = 0
        while left <= 600:
            try:
                loop.run_until_complete(asyncio.wait_for(asyncio.gather(*sleeps), 60))
                break
            except BaseException as problem:
                self.assertIs(type(problem), kind)
                left += 1
        # The loop may have been left with calls that it has not made.
        for _ in until(lambda: len(came) >= 594):
            try:
                loop.run_until_complete(asyncio.sleep(0))
            except kind:
                left += 1
        self.assertEqual(came, [i for i in range(600) if i % 100 != 50])
        self.assertEqual((left, len(problems)), (6, 0) if leaves else (0, 6))
        self.assertEqual(len(timers), 0)
        timers.close()
        loop.close()

    def test_kinds(self):
        class Own(BaseException):
            pass

        for kind, leaves in ((ValueError, False), (asyncio.CancelledError, False), (GeneratorExit, False),
                             (Own, False), (KeyboardInterrupt, True), (SystemExit, True)):
            with self.subTest(kind):
                self.try_one(kind, leaves)

    def test_interrupted_as_the_loop_gets_a_call(self):
        """The call is made once, even if an exception comes when the loop has got it."""
        class Base(BaseException):
            pass

        class Plain(Exception):
            pass

        for kind in (Base, Plain, TimeoutError):
            for early in (True, False):
                loop, came = asyncio.new_event_loop(), []
                loop.set_exception_handler(lambda *_: None)
                before, left = loop.call_soon, {"a", "b", "beat"}

                def call_soon(function, *args, context=None):
                    fails = args and args[0] in left
                    left.difference_update(args)
                    if fails and early:
                        raise kind
                    handle = before(function, *args, context=context)
                    if fails:
                        raise kind
                    return handle

                async def begin():
                    timers = aio.Timers(backend=BACKEND, clock=htw.MANUAL)
                    for name in "ab":
                        timers.call_later(1, came.append, name)
                    timers.call_every(1, came.append, "beat")
                    timers.call_later(1, came.append, "end")
                    return timers

                timers = loop.run_until_complete(begin())
                timers.advance(1)
                loop.call_soon = call_soon
                for _ in until(lambda: "end" in came):
                    try:
                        loop.run_until_complete(asyncio.sleep(0))
                    except Base:
                        pass
                loop.run_until_complete(asyncio.sleep(0))
                self.assertEqual((sorted(came), left), (["a", "b", "beat", "end"], set()), (kind, early))
                timers.close()
                loop.close()

    def test_loops(self):
        """Timers of a closed loop, or of another one than runs, are refused at once."""
        async def begin():
            timers = aio.Timers(backend=BACKEND)
            return timers, timers.call_later(3600, print), timers.call_every(3600, print)

        async def use():
            for start in (lambda: timers.call_later(1, print), lambda: timers.call_every(1, print),
                          lambda: call.rearm(1), lambda: beat.rearm(1)):
                with self.assertRaisesRegex(RuntimeError, words):
                    start()
            with self.assertRaisesRegex(RuntimeError, words):
                await timers.sleep(1)
            self.assertEqual(len(timers), 2)

        loop, other = asyncio.new_event_loop(), asyncio.new_event_loop()
        timers, call, beat = loop.run_until_complete(begin())
        timers.call_later(3600, print).cancel()         # its loop does not run, but will
        words = "another event loop"
        other.run_until_complete(use())
        loop.close()
        words = "Event loop is closed"
        other.run_until_complete(use())
        with self.assertRaisesRegex(RuntimeError, words):
            call.rearm(1)
        call.cancel()
        self.assertEqual(len(timers), 1)
        timers.close()
        other.close()

    def test_interrupted_reader(self):
        """A signal handler that raises at any step of the loop's reader loses no call."""
        class Boom(BaseException):
            pass

        def boom(*_):
            if armed:
                raise Boom

        async def begin(called):
            timers = aio.Timers(backend=BACKEND, clock=htw.MANUAL)
            for i in range(300):
                timers.call_later(1, called, i)
            timers.advance(1)
            return timers

        async def end():
            for _ in until(lambda: len(came) >= 300):
                await asyncio.sleep(0)

        armed = False
        before = signal.signal(signal.SIGALRM, boom)
        loop = asyncio.new_event_loop()
        try:
            for round_ in range(ROUNDS):
                came = set()
                timers = loop.run_until_complete(begin(came.add))
                reader = timers._expired
                try:
                    armed = True
                    signal.setitimer(signal.ITIMER_REAL, 0.00002 * (round_ + 1))
                    for _ in range(3):
                        reader()
                    armed = False
                except Boom:
                    armed = False
                signal.setitimer(signal.ITIMER_REAL, 0)
                loop.run_until_complete(asyncio.wait_for(end(), 60))
                timers.close()
                timers = reader = None
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            loop.close()


class AsyncioManualClock(AsyncCase):
    """Timers that have expired before the loop reads them."""

    async def asyncSetUp(self):
        asyncio.get_running_loop().set_debug(False)
        self.timers = aio.Timers(backend=BACKEND, clock=htw.MANUAL)
        self.called = []

    async def asyncTearDown(self):
        self.timers.close()

    async def test_cancelled_unread(self):
        handles = [self.timers.call_later(1, self.called.append, "call"),
                   self.timers.call_every(1, self.called.append, "beat")]
        self.assertTrue(self.timers.advance(1))
        for handle in handles:
            handle.cancel()
        self.assertEqual((len(self.timers), self.timers._set._cookies), (0, {}))
        over = asyncio.Event()
        self.timers.call_later(1, over.set)
        self.timers.advance(1)
        await asyncio.wait_for(over.wait(), 60)
        self.assertEqual(self.called, [])

    async def test_cancelled_by_another_call(self):
        self.timers.call_later(1, lambda: handle.cancel())
        handle = self.timers.call_later(2, self.called.append, "call")
        over = asyncio.Event()
        self.timers.call_later(3, over.set)
        self.assertTrue(self.timers.advance(3))
        await asyncio.wait_for(over.wait(), 60)
        self.assertEqual(self.called, [])

    async def test_a_batch_in_each_turn(self):
        turns = []
        for _ in range(2000):
            self.timers.call_later(1, lambda: turns.append(turn))
        self.timers.advance(1)
        turn = 0
        for _ in until(lambda: len(turns) >= 2000):
            await asyncio.sleep(0)
            turn += 1
        most = max(turns.count(t) for t in set(turns))
        self.assertLessEqual(most, 256)
        self.assertGreater(most, 100)
        self.assertEqual(turns, sorted(turns))

    async def test_calls_that_start_each_other(self):
        async def others():
            for _ in range(50):
                await asyncio.sleep(0)

        def again():
            self.timers.call_later(0, again)

        for _ in range(1000):
            again()
        await asyncio.wait_for(others(), 60)

    async def test_calls_that_were_made_are_let_go(self):
        things = []
        for count in (1, 200, 300):
            for start in (self.timers.call_later, self.timers.call_every):
                for _ in range(count):
                    thing, out = Thing(), []
                    out.append(start(1, lambda thing, out: out[0].cancel() if start != self.timers.call_later
                                     else out.clear(), thing, out))
                    things.append(weakref.ref(thing))
                del thing, out
                self.timers.advance(1)
                for _ in until(lambda: not len(self.timers)):
                    await asyncio.sleep(0)
                for _ in range(3):      # until the loop has dropped its handles
                    await asyncio.sleep(0)
                gc.collect()
                self.assertEqual(sum(1 for thing in things if thing() is not None), 0)

    async def test_one_that_cannot_be_given_to_the_loop(self):
        """The others are made, and the error is reported, not for ever."""
        def call_soon(function, *args, context=None):
            if context is wrong:
                raise ValueError("no")
            return before(function, *args, context=context)

        loop, problems, wrong = asyncio.get_running_loop(), [], contextvars.copy_context()
        before = loop.call_soon
        loop.set_exception_handler(lambda _, context: problems.append(context["exception"]))
        for i in range(300):
            self.timers.call_later(1, self.called.append, i, context=wrong if i in (0, 7, 8, 299) else None)
        self.timers._set.after(1, [])         # a cookie that cannot be hashed
        over = asyncio.Event()
        self.timers.call_later(2, over.set)
        self.timers.advance(2)
        loop.call_soon = call_soon
        try:
            await asyncio.wait_for(over.wait(), 60)
            for _ in range(10):
                await asyncio.sleep(0)
        finally:
            del loop.call_soon
        self.assertEqual(self.called, [i for i in range(300) if i not in (0, 7, 8, 299)])
        self.assertLessEqual(len(problems), 8)
        self.assertEqual({type(p) for p in problems}, {ValueError})

    async def test_repr_when_due(self):
        states = []
        self.timers.call_later(1, lambda: states.extend(map(repr, (call, beat))))
        call = self.timers.call_later(1, print)
        beat = self.timers.call_every(1, print)
        self.timers.advance(1)
        for _ in until(lambda: states):
            await asyncio.sleep(0)
        call.cancel()
        beat.cancel()
        self.assertEqual([s.split()[1] for s in states], ["due", "due"])

    async def test_missed(self):
        over, missed = asyncio.Event(), []
        beat = self.timers.call_every(1, lambda: (missed.append(beat.missed), over.set()), first=2)
        for seconds, expected in ((2, 0), (3, 2), (1, 0)):
            over.clear()
            self.timers.advance(seconds)
            await asyncio.wait_for(over.wait(), 60)
            self.assertEqual(missed.pop(), expected)

    async def test_moved_when_due(self):
        """cancel() and rearm() of a call that is in the loop's hands, and has not begun."""
        def move():
            late.rearm(10)
            gone.cancel()
            beat.rearm(10)

        self.timers.call_later(1, move)
        late = self.timers.call_later(1, self.called.append, "late")
        gone = self.timers.call_later(1, self.called.append, "gone")
        beat = self.timers.call_every(1, self.called.append, "beat")
        self.timers.advance(5)
        for _ in range(10):
            await asyncio.sleep(0)
        self.assertEqual((self.called, len(self.timers)), ([], 2))
        self.timers.advance(10)
        for _ in until(lambda: len(self.called) >= 2):
            await asyncio.sleep(0)
        self.assertEqual(self.called, ["late", "beat"])

    async def test_events_of_others(self):
        add = htw._timers.Add(deadline=0, cookie=1)
        self.assertEqual(self.timers._set._lib.htw_add(self.timers._set._handle, add), 0)
        self.timers._set.after(0, "x")
        over = asyncio.Event()
        self.timers.call_later(0, over.set)
        await asyncio.wait_for(over.wait(), 60)

    async def test_closed_unread(self):
        task = asyncio.create_task(self.timers.sleep(1))
        await asyncio.sleep(0)
        self.assertEqual(self.timers.advance(1), 1)
        self.timers.close()
        with self.assertRaises(asyncio.CancelledError):
            await asyncio.wait_for(task, 60)

    async def test_closed_by_another_call(self):
        self.timers.call_later(1, self.timers.close)
        task = asyncio.create_task(self.timers.sleep(2))
        await asyncio.sleep(0)
        self.timers.call_later(3, self.called.append, "call")
        self.assertTrue(self.timers.advance(3))
        with self.assertRaises(asyncio.CancelledError):
            await asyncio.wait_for(task, 60)
        self.assertEqual(self.called, [])


class Semantics(AsyncCase):
    """Handles and timeouts, on asyncio's loop."""

    async def asyncSetUp(self):
        self.loop = asyncio.get_running_loop()
        self.loop.set_debug(False)
        self.timers = aio.Timers(backend=BACKEND)

    async def asyncTearDown(self):
        self.timers.close()

    async def test_call_at(self):
        when, done = self.timers.time() + 0.02, self.loop.create_future()
        handle = self.timers.call_at(when, lambda: done.set_result(self.timers.time()))
        self.assertAlmostEqual(handle.when(), when, places=6)
        self.assertGreaterEqual(await done, when)
        for never in (float("inf"), 1e300):
            self.timers.call_at(never, print).cancel()
        for past in (float("-inf"), -1e300, 0):
            done = self.loop.create_future()
            self.timers.call_at(past, done.set_result, None)
            await asyncio.wait_for(done, 60)
        for nan in float("nan"), Decimal("nan"):
            with self.assertRaises(ValueError):
                self.timers.call_at(nan, print)
            for use in self.timers.timeout, self.timers.timeout_at:
                with self.assertRaises(ValueError):
                    async with use(nan):
                        pass
            async with self.timers.timeout(None) as limit:
                with self.assertRaises(ValueError):
                    limit.reschedule(nan)
        for delay in 10**400, Decimal(3600), Fraction(7200, 2), timedelta(hours=1), float("inf"):
            async with self.timers.timeout(delay):
                await asyncio.sleep(0)
        for past in -10**400, timedelta(0), Decimal("-1e-30"), float("-inf"):
            with self.assertRaises(TimeoutError):
                async with self.timers.timeout(past):
                    await asyncio.sleep(60)
        self.assertEqual(len(self.timers), 0)

    async def test_callable_that_has_every_attribute(self):
        done = self.loop.create_future()
        with mock.patch("builtins.print") as anything:
            anything.side_effect = lambda: done.set_result(None)
            anything.__code__ = mock.call.anything
            self.timers.call_later(0, anything)
            await asyncio.wait_for(done, 60)

    async def test_time_is_the_loops(self):
        before = self.loop.time()
        self.assertTrue(before <= self.timers.time() <= self.loop.time())

    async def test_cancel_leaves_nothing(self):
        things = []
        for _ in range(1000):
            thing = Thing()
            handle = self.timers.call_later(3600, print, thing)
            things.append((weakref.ref(thing), handle))
            handle.cancel()
        del thing
        self.assertEqual([r() for r, _ in things if r()], [])
        self.assertEqual((len(self.timers), self.timers._core._cookies), (0, {}))

    async def test_rearm_earlier_and_later(self):
        came = []
        handle = self.timers.call_later(0.01, lambda: came.append(self.timers.time()))
        handle.rearm(3600)
        handle.rearm(0.03)
        due = handle.when()
        for _ in until(lambda: came):
            await asyncio.sleep(0.001)
        self.assertGreaterEqual(came[0], due)
        handle.rearm(0.03)      # once it was made
        handle.rearm(0.05)
        due = handle.when()
        for _ in until(lambda: len(came) >= 2):
            await asyncio.sleep(0.001)
        self.assertGreaterEqual(came[1], due)
        self.assertEqual(len(self.timers), 0)

    async def test_periodic_keeps_its_phase(self):
        came = []
        begin = self.timers.time()
        beat = self.timers.call_every(0.02, lambda: (came.append(self.timers.time()), time.sleep(0.005)))
        for _ in until(lambda: len(came) >= 5):
            await asyncio.sleep(0.001)
        beat.cancel()
        number = 0
        for at in came:         # never before its place in the phase
            number += 1
            self.assertGreaterEqual(at, begin + 0.02 * number)
        with self.assertRaises(ValueError):
            self.timers.call_every(0, print)

    async def test_another_thread(self):
        handle, said = self.timers.call_later(3600, print), []

        def use():
            for wrong in (lambda: self.timers.call_later(1, print), lambda: self.timers.call_every(1, print),
                          lambda: self.timers.call_at(1, print), lambda: handle.rearm(1), handle.cancel,
                          lambda: handle.rearm_at(1), self.timers.close, lambda: aio.Timers(self.loop)):
                try:
                    wrong()
                    said.append("nothing")
                except RuntimeError as problem:
                    said.append(str(problem))

        thread = threading.Thread(target=use)
        thread.start()
        for _ in until(lambda: not thread.is_alive()):
            await asyncio.sleep(0.001)
        self.assertEqual(len(said), 8)
        for words in said:
            self.assertIn("call_soon_threadsafe", words)
        self.assertFalse(handle.cancelled())
        self.assertEqual(len(self.timers), 1)

    async def test_another_thread_in_debug_mode(self):
        """As by the loop's call_later()."""
        handle, limit, said = self.timers.call_later(3600, print), self.timers.timeout(3600), []

        def use():
            for wrong in (lambda: self.loop.call_later(1, print), lambda: self.timers.call_later(1, print),
                          lambda: self.timers.call_every(1, print), lambda: self.timers.call_at(1, print),
                          lambda: handle.rearm(1), lambda: handle.rearm_at(1), lambda: handle.rearm(7200),
                          handle.cancel, lambda: limit.reschedule(1), lambda: limit.reschedule(None),
                          lambda: limit.reschedule(0), lambda: self.timers.sleep(1).send(None), self.timers.close):
                try:
                    wrong()
                    said.append("nothing")
                except Exception as problem:
                    said.append(type(problem).__name__)

        self.loop.set_debug(True)
        async with limit:
            thread = threading.Thread(target=use)
            thread.start()
            for _ in until(lambda: not thread.is_alive()):
                await asyncio.sleep(0.001)
            self.assertEqual(said, ["RuntimeError"] * 13)
            self.assertEqual(len(self.timers), 2)

    async def test_forked(self):
        handle = self.timers.call_later(3600, print)
        pid = os.fork()
        if not pid:
            good = 0
            for wrong in (lambda: self.timers.call_later(1, print), lambda: handle.rearm(1)):
                try:
                    wrong()
                except PermissionError as problem:
                    good += "fork" in str(problem)
            handle.cancel()
            self.timers.close()
            os._exit(good)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 2)
        self.assertEqual(len(self.timers), 1)
        await asyncio.wait_for(self.timers.sleep(0.001), 60)

    async def test_close_within_a_timeout(self):
        async def limited():
            async with self.timers.timeout(3600):
                await asyncio.sleep(7200)

        task = asyncio.create_task(limited())
        await asyncio.sleep(0)
        self.timers.close()
        with self.assertRaises(asyncio.CancelledError):
            await asyncio.wait_for(task, 60)

    async def test_timeout_leaves_nothing(self):
        for _ in range(100):
            async with self.timers.timeout(3600):
                await asyncio.sleep(0)
        self.assertEqual((len(self.timers), self.timers._core._cookies, self.timers._waits), (0, {}, set()))

    async def test_timeout_states(self):
        limit = self.timers.timeout(3600)
        with self.assertRaisesRegex(RuntimeError, "has not been entered"):
            limit.reschedule(None)
        async with limit:
            with self.assertRaisesRegex(RuntimeError, "already been entered"):
                await limit.__aenter__()
        with self.assertRaisesRegex(RuntimeError, "Cannot change state of finished Timeout"):
            limit.reschedule(None)

    async def test_timeout_earlier_and_in_the_past(self):
        for when in (lambda: self.timers.time() + 0.01, lambda: 0):
            with self.assertRaises(TimeoutError):
                async with self.timers.timeout(3600) as limit:
                    limit.reschedule(when())
                    await asyncio.sleep(3600)
            self.assertTrue(limit.expired())
        async with self.timers.timeout(3600) as limit:
            limit.reschedule(0)
            limit.reschedule(self.timers.time() + 3600)
            await asyncio.sleep(0.001)
        self.assertFalse(limit.expired())

    async def test_cancelled_beside_an_expiry(self):
        """A cancellation from outside is not swallowed, whichever came first."""
        async def limited():
            async with self.timers.timeout(0.005) as limit:
                try:
                    await asyncio.sleep(3600)
                finally:
                    for _ in until(lambda: limit.expired()):
                        time.sleep(0.001)
                        await asyncio.sleep(0)

        task = asyncio.create_task(limited())
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(task.cancel)
        with self.assertRaises(asyncio.CancelledError):
            await task

    async def test_timeout_after_a_cancellation(self):
        try:
            asyncio.current_task().cancel()
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            pass
        with self.assertRaises(TimeoutError):
            async with self.timers.timeout(0):
                await asyncio.sleep(1)
        asyncio.current_task().uncancel()

    async def test_the_cause(self):
        with self.assertRaises(TimeoutError) as caught:
            async with self.timers.timeout(0.001):
                await asyncio.sleep(1)
        self.assertIsInstance(caught.exception.__cause__, asyncio.CancelledError)
        with self.assertRaises(KeyError) as caught:
            async with self.timers.timeout(0.001):
                try:
                    await asyncio.sleep(1)
                finally:
                    raise KeyError
        self.assertIsInstance(caught.exception.__context__, TimeoutError)


class Handlers(Case):
    """Signal handlers that come between any two steps of a method."""

    def setUp(self):
        self.loop = asyncio.new_event_loop()
        self.addCleanup(self.loop.close)
        self.loop.set_exception_handler(lambda *_: None)

    def timers(self, came):
        """Return timers, and calls in all states."""
        t = aio.Timers(self.loop, BACKEND, clock=htw.MANUAL)
        self.addCleanup(t.close)
        calls = {name: t.call_later(1, came.append, name) for name in ("due", "stopped", "later")}
        calls["beat"] = t.call_every(1, came.append, "beat")
        calls["later"].rearm(1000)
        t.advance(1)
        return t, calls

    USES = {
        "call_later": lambda t, _: t.call_later(1000, print).cancel(),
        "call_every": lambda t, _: t.call_every(1000, print),
        "rearm": lambda t, calls: calls["later"].rearm(2000),
        "rearm earlier": lambda t, calls: calls["later"].rearm(500),
        "rearm beat": lambda t, calls: calls["beat"].rearm(1000),
        "cancel": lambda t, calls: calls["stopped"].cancel(),
        "len": lambda t, _: len(t),
        "time": lambda t, _: t.time(),
        "reader": lambda t, _: t._expired(),
    }

    def at_each(self, handle, raises=False):
        for use, call in self.USES.items():
            t, calls = self.timers([])
            steps = Steps(raises=raises)
            steps.run(call, t, calls)
            self.assertGreater(steps.count, 5 if raises else 20, use)
            t.close()
            for step in range(1, steps.count + 2, 1 if raises else 100 // ROUNDS):
                with self.subTest(use=use, step=step):
                    came = []
                    t, calls = self.timers(came)
                    ended = None
                    try:
                        Steps(step, lambda: handle(t, calls, step), raises).run(call, t, calls)
                    except (ValueError, RuntimeError, KeyboardInterrupt, OSError) as problem:
                        ended = problem
                    yield use, t, calls, came, ended
                    t.close()

    def run_loop(self):
        for _ in range(5):
            self.loop.run_until_complete(asyncio.sleep(0))

    def test_close(self):
        closed = 0
        for _, t, _, came, ended in self.at_each(lambda t, *_: t.close()):
            t.close()
            closed += ended is not None
            if ended is not None:
                self.assertIn("closed", str(ended))
            self.run_loop()
            self.assertEqual(came, [])
            with self.assertRaises(ValueError):
                t.call_later(1, print)
        self.assertGreater(closed, ROUNDS)

    def test_each(self):
        """Calls that are due are made once, if they were not cancelled, whatever a handler does."""
        def handle(t, calls, step):
            name, use = list(self.USES.items())[step % (len(self.USES) - 1)]
            try:
                use(t, calls)
                done.append(name)
            except RuntimeError as problem:
                self.assertIn("signal handler", str(problem))
                refused.append(name)

        refused, done, all_done = [], [], 0
        for use, _, calls, came, ended in self.at_each(handle):
            self.assertIsNone(ended)
            self.run_loop()
            wanted = {"due", "beat", "stopped"}
            if "rearm beat" in (use, *done):
                wanted.discard("beat")
                came = [name for name in came if name != "beat"]
            if "cancel" in (use, *done):
                wanted.discard("stopped")
                came = [name for name in came if name != "stopped" or not calls["stopped"].cancelled()]
            self.assertEqual(sorted(came), sorted(wanted))
            all_done += len(done)
            done.clear()
        self.assertGreater(len(refused), ROUNDS)
        self.assertGreater(all_done, ROUNDS)

    def test_raise_at_each(self):
        """Calls that are due are made once, wherever a handler raises an exception, of any kind."""
        def handle(*_):
            raise problem

        raised = 0
        for problem in KeyboardInterrupt(), BrokenPipeError(errno.EPIPE, "a handler's own"):
            raised += self.raise_at_each(handle)
        self.assertGreater(raised, 100)

    def raise_at_each(self, handle):
        raised = 0
        for use, _, _, came, ended in self.at_each(handle, raises=True):
            raised += ended is not None
            self.run_loop()
            wanted = {"due": 1, "beat": 1, "stopped": 1}
            for name in {"rearm beat": ("beat",), "cancel": ("stopped",)}.get(use, ()):
                wanted[name] = min(came.count(name), 1)
            self.assertEqual({name: came.count(name) for name in wanted}, wanted)
        return raised


class Loops(Case):
    """Where timers are not closed, and loops of others."""

    def test_unclosed(self):
        loop = asyncio.new_event_loop()
        timers = aio.Timers(loop, BACKEND)
        loop.close()
        with self.assertRaisesRegex(RuntimeError, "Event loop is closed"):
            timers.call_later(1, print)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del timers
            gc.collect()
        self.assertIn(ResourceWarning, [w.category for w in caught])

    def test_no_loop(self):
        with self.assertRaisesRegex(RuntimeError, "no running event loop"):
            aio.Timers()
        with self.assertRaises(TypeError):
            aio.Timers(7)
        loop = asyncio.new_event_loop()
        loop.close()
        with self.assertRaisesRegex(RuntimeError, "Event loop is closed"):
            aio.Timers(loop, BACKEND)

    @unittest.skipUnless(uvloop, "no uvloop")
    def test_uvloop(self):
        async def main():
            async with aio.Timers(backend=BACKEND) as timers:
                came, done = [], asyncio.Event()
                first = timers.call_later(0.01, came.append, "first")
                first.rearm(0.02)
                timers.call_later(0.015, came.append, "never").cancel()
                timers.call_later(0.04, done.set)
                when = timers.time() + 0.03
                timers.call_at(when, lambda: came.append(timers.time() >= when))
                await asyncio.wait_for(done.wait(), 60)
                self.assertEqual(came, ["first", True])
                with self.assertRaises(TimeoutError):
                    async with timers.timeout(0.01) as limit:
                        await asyncio.sleep(3600)
                with self.assertRaises(TimeoutError):
                    async with timers.timeout(3600) as limit:
                        limit.reschedule(0)
                        limit.reschedule(timers.time() + 0.001)
                        await asyncio.sleep(3600)
                problems = []
                asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
                timers.call_later(0, lambda: 1 / 0)
                await timers.sleep(0.005)
                self.assertIsInstance(problems[0]["exception"], ZeroDivisionError)
                self.assertEqual(len(timers), 0)

        loop = uvloop.new_event_loop()
        loop.run_until_complete(main())
        timers = aio.Timers(loop, BACKEND)
        loop.close()
        timers.close()


if peer:
    class PeerTimeouts(Limited, peer.TimeoutTests):
        """CPython's own tests of asyncio.timeout(), with these timers instead."""

        async def asyncSetUp(self):
            self.timers = aio.Timers(backend=BACKEND)
            for name in ("timeout", "timeout_at"):
                patch = mock.patch.object(asyncio, name, getattr(self.timers, name))
                patch.start()
                self.addCleanup(patch.stop)

        async def asyncTearDown(self):
            self.timers.close()
else:
    class PeerTimeouts(Case):
        @unittest.skip("CPython's tests are not installed (libpython3.*-testsuite)")
        def test_all(self):
            """CPython's own tests of asyncio.timeout()."""


class Fork(Case):
    def test_loop(self):
        """A child that leaves by an exception takes nothing away from its parent's loop."""
        async def parent():
            status = None
            timers = aio.Timers(backend=BACKEND)
            async with timers:
                pid = os.fork()
                if not pid:
                    raise SystemExit(7)
                status = os.waitpid(pid, 0)[1]
                await asyncio.wait_for(timers.sleep(0.01), 60)
                return status

        loop = asyncio.new_event_loop()
        me = os.getpid()
        try:
            status = loop.run_until_complete(parent())
        except SystemExit:
            os._exit(7 if os.getpid() != me else 99)
        loop.close()
        self.assertEqual(os.waitstatus_to_exitcode(status), 7)


if __name__ == "__main__":
    unittest.main()
