#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Tests of htw.py: on the device if $HTW_BACKEND is "device", or else in the process."""

import asyncio
import errno
import gc
import os
import selectors
import sys
import time
import unittest
import weakref
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import htw  # noqa: E402

BACKEND = {"device": htw.DEVICE, "process": htw.PROCESS}[os.environ.get("HTW_BACKEND", "process")]


class Thing:
    """An object that can be a cookie and be weakly referenced."""


class ManualClock(unittest.TestCase):
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
        self.assertEqual(self.timers.advance(0), 0)
        self.assertEqual(self.timers.advance(self.timers.tick), 1)

    def test_at(self):
        self.timers.advance(10)
        self.timers.at(11 * 10**9, "x")
        self.assertEqual(self.timers.advance(1), 1)
        self.assertEqual(self.timers.now(), 11 * 10**9)

    def test_out_of_range(self):
        ids = [self.timers.after(-1), self.timers.at(-1), self.timers.at(-2**64)]
        self.assertEqual(ids, [e.id for e in self.timers.read()])
        for never in (1e11, 1e300, float("inf")):
            self.assertTrue(self.timers.stop(self.timers.after(never)))
        self.assertTrue(self.timers.stop(self.timers.at(2**64 + 1)))

    def test_stop(self):
        id_ = self.timers.after(1, "x")
        self.assertTrue(self.timers.stop(id_))
        self.assertFalse(self.timers.stop(id_))
        self.assertEqual(self.timers.advance(2), 0)
        id_ = self.timers.after(1, "y")
        self.timers.advance(1)
        self.assertFalse(self.timers.stop(id_))
        self.assertEqual([e.cookie for e in self.timers.read()], ["y"])

    def test_stop_of_an_unread_timer(self):
        for setup in ({}, {"ring": 16}) if BACKEND == htw.DEVICE else ({},):
            with self.subTest(**setup), htw.Timers(BACKEND, clock=htw.MANUAL, **setup) as timers:
                for start in (timers.after, timers.every):
                    id_ = start(1, "x")
                    timers.advance(1)
                    timers.stop(id_, discard=True)
                    self.assertEqual((len(timers), timers._cookies), (0, {}))
                    self.assertEqual(list(timers.read()), [])

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
        self.assertEqual(self.timers.advance(10), 2)
        self.assertEqual([e.id for e in self.timers.read()], [ids[2], ids[0]])
        self.assertEqual(self.timers.rearm_many([], []), [])
        with self.assertRaises(ValueError):
            self.timers.rearm_many(ids, [1])

    def test_slots_without_a_tick(self):
        with self.assertRaises(ValueError):
            htw.Timers(htw.PROCESS, slots=(60, 60))

    def test_every(self):
        id_ = self.timers.every(2, "beat")
        for _ in range(3):
            self.timers.advance(2)
            event, = self.timers.read()
            self.assertEqual((event.cookie, event.more), ("beat", True))
        self.assertTrue(self.timers.stop(id_))
        with self.assertRaises(ValueError):
            self.timers.every(0)
        with self.assertRaises(OSError) as caught:
            self.timers.every(1e-9)
        self.assertEqual(caught.exception.errno, errno.EINVAL)

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
        self.assertEqual(self.timers.advance(1), 1000)
        self.assertEqual([e.cookie for e in self.timers.read()], list(range(1000)))
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
        pending = {p.cookie: p for p in self.timers.harvest()}
        self.assertEqual(set(pending), {*range(600), "beat"})
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

    def test_closed(self):
        self.timers.close()
        self.timers.close()
        with self.assertRaises(ValueError):
            self.timers.after(1)

    def test_wrong_setup(self):
        for setup in ({"clock": time.CLOCK_TAI}, {"limit": 0}, {"tick": 100}, {"tick": 1, "slots": (1,)}):
            with self.assertRaises(OSError):
                htw.Timers(BACKEND, **setup)
        if BACKEND == htw.PROCESS:
            with self.assertRaises(OSError) as caught:
                htw.Timers(BACKEND, ring=16)
            self.assertEqual(caught.exception.errno, errno.ENOTSUP)
        with self.assertRaises(OSError):
            htw.Timers.from_fd(0)


class RealClock(unittest.TestCase):
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
            while len(came) < 50:
                self.assertTrue(selector.select(60))
                came += timers.read()
            self.assertEqual({e.cookie for e in came}, set(range(50)))
            self.assertTrue(all(e.late >= 0 for e in came))

    def test_backend(self):
        with htw.Timers(htw.ANY) as timers:
            self.assertIn(timers.backend, (htw.DEVICE, htw.PROCESS))


class Asyncio(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.timers = htw.AsyncTimers(BACKEND)

    async def asyncTearDown(self):
        self.timers.close()

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
        never = self.timers.call_after(0.001, called.append, "never")
        never.cancel()
        never.cancel()
        await asyncio.wait_for(over.wait(), 60)
        beat.cancel()
        self.assertEqual(set(called), {"beat"})
        self.assertEqual(len(self.timers), 0)

    async def test_exception(self):
        problems, done = [], asyncio.Event()
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        self.timers.call_after(0, lambda: 1 / 0)
        self.timers.call_after(0.001, done.set)
        await asyncio.wait_for(done.wait(), 60)
        self.assertIsInstance(problems[0]["exception"], ZeroDivisionError)

    async def test_close_with_sleepers(self):
        task = asyncio.create_task(self.timers.sleep(3600))
        await asyncio.sleep(0)
        self.timers.close()
        with self.assertRaises(asyncio.CancelledError):
            await task


class AsyncioManualClock(unittest.IsolatedAsyncioTestCase):
    """Timers that have expired before the loop reads them."""

    async def asyncSetUp(self):
        self.timers = htw.AsyncTimers(BACKEND, clock=htw.MANUAL)
        self.called = []

    async def asyncTearDown(self):
        self.timers.close()

    async def test_cancelled_unread(self):
        handles = [self.timers.call_after(1, self.called.append, "call"),
                   self.timers.call_every(1, self.called.append, "beat")]
        self.assertEqual(self.timers.timers.advance(1), 2)
        for handle in handles:
            handle.cancel()
        self.assertEqual((len(self.timers), self.timers.timers._cookies), (0, {}))
        over = asyncio.Event()
        self.timers.call_after(1, over.set)
        self.timers.timers.advance(1)
        await asyncio.wait_for(over.wait(), 60)
        self.assertEqual(self.called, [])

    async def test_cancelled_by_another_call(self):
        self.timers.call_after(1, lambda: handle.cancel())
        handle = self.timers.call_after(2, self.called.append, "call")
        over = asyncio.Event()
        self.timers.call_after(3, over.set)
        self.assertEqual(self.timers.timers.advance(3), 3)
        await asyncio.wait_for(over.wait(), 60)
        self.assertEqual(self.called, [])

    async def test_closed_unread(self):
        task = asyncio.create_task(self.timers.sleep(1))
        await asyncio.sleep(0)
        self.assertEqual(self.timers.timers.advance(1), 1)
        self.timers.close()
        with self.assertRaises(asyncio.CancelledError):
            await asyncio.wait_for(task, 60)

    async def test_closed_by_another_call(self):
        self.timers.call_after(1, self.timers.close)
        task = asyncio.create_task(self.timers.sleep(2))
        await asyncio.sleep(0)
        self.timers.call_after(3, self.called.append, "call")
        self.assertEqual(self.timers.timers.advance(3), 3)
        with self.assertRaises(asyncio.CancelledError):
            await asyncio.wait_for(task, 60)
        self.assertEqual(self.called, [])


if __name__ == "__main__":
    unittest.main()
