// SPDX-License-Identifier: MIT
package io.htw;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** What all timers do whose clock is the system's. A wait that does not end as it should is over in 30 s. */
@Timeout(30)
class HtwTimerTest {
    private static final long AGES = 3_600_000;

    /** Advances in a thread of its own, as a program does, until it is closed. */
    private static final class Advancer implements AutoCloseable {
        private final HtwTimer timer;
        private final Thread thread = new Thread(this::advance);
        private volatile Throwable trouble;
        private volatile boolean ends;

        Advancer(HtwTimer timer) {
            this.timer = timer;
            thread.start();
        }

        private void advance() {
            try {
                while (!ends) {
                    timer.advanceClock(AGES);
                }
            } catch (Throwable t) {
                trouble = t;
            }
        }

        @Override
        public void close() throws Exception {
            ends = true;
            timer.add(new Task(0));
            thread.join();
            assertEquals(null, trouble);
        }
    }

    @ParameterizedTest
    @EnumSource(Kind.class)
    void neverEarlyAndOnce(Kind kind) throws Exception {
        try (HtwTimer timer = kind.open(); Advancer advancer = new Advancer(timer)) {
            final List<Task> tasks = new ArrayList<>();
            final List<Long> added = new ArrayList<>();

            for (int i = 0; i < 2000; i++) {
                final Task task = new Task(1 + i % 500);

                added.add(System.nanoTime());
                timer.add(task);
                tasks.add(task);
            }
            for (int i = 0; i < tasks.size(); i++) {
                final Task task = tasks.get(i);

                task.ran.await();
                assertTrue(task.at - added.get(i) >= TimeUnit.MILLISECONDS.toNanos(task.delayMs),
                        () -> "early: a delay of " + task.delayMs);
            }
            assertEquals(0, timer.size());
            assertFalse(tasks.stream().anyMatch(task -> task.runs.get() != 1));
        }
    }

    @ParameterizedTest
    @EnumSource(Kind.class)
    void inOneThreadOfThatName(Kind kind) throws Exception {
        try (HtwTimer timer = kind.open(kind.builder("requests")); Advancer advancer = new Advancer(timer)) {
            final List<String> names = Collections.synchronizedList(new ArrayList<>());
            final CountDownLatch left = new CountDownLatch(100);

            for (int i = 0; i < 100; i++) {
                timer.add(new TimerTask(i % 5) {
                    @Override
                    public void run() {
                        names.add(Thread.currentThread().getName());
                        left.countDown();
                    }
                });
            }
            left.await();
            assertEquals(Collections.nCopies(100, "executor-requests"), names);
        }
    }

    @ParameterizedTest
    @EnumSource(Kind.class)
    void returnsFalseAfterTheTime(Kind kind) throws Exception {
        try (HtwTimer timer = kind.open()) {
            final long began = System.nanoTime();

            timer.add(new Task(AGES));
            assertFalse(timer.advanceClock(-1));
            assertFalse(timer.advanceClock(0));
            assertFalse(timer.advanceClock(20));
            assertTrue(System.nanoTime() - began >= 20_000_000L);
        }
    }

    @ParameterizedTest
    @EnumSource(Kind.class)
    void anEarlierTaskEndsTheWait(Kind kind) throws Exception {
        try (HtwTimer timer = kind.open(); Advancer advancer = new Advancer(timer)) {
            for (int i = 0; i < 50; i++) {
                final Task far = new Task(AGES);
                final Task soon = new Task(2);

                timer.add(far);
                timer.add(soon);
                soon.ran.await();
                assertTrue(far.cancel());
            }
        }
    }

    @ParameterizedTest
    @EnumSource(Kind.class)
    void interrupted(Kind kind) throws Exception {
        try (HtwTimer timer = kind.open()) {
            final Task task = new Task(30);
            final FutureTask<Boolean> waits = new FutureTask<>(() -> timer.advanceClock(AGES));
            final Thread thread = new Thread(waits);
            final AtomicReference<Throwable> cause = new AtomicReference<>();

            thread.start();
            until(() -> thread.getState() != Thread.State.NEW && isWaiting(thread));
            thread.interrupt();
            try {
                waits.get();
            } catch (ExecutionException e) {
                cause.set(e.getCause());
            }
            assertTrue(cause.get() instanceof InterruptedException, () -> "" + cause.get());

            // Before it waits, too; and then it can be used as before.
            Thread.currentThread().interrupt();
            assertThrows(InterruptedException.class, () -> timer.advanceClock(AGES));
            assertFalse(Thread.currentThread().isInterrupted());
            timer.add(task);
            while (!timer.advanceClock(AGES)) {
                // Another cause for a return is allowed.
            }
            task.ran.await();
        }
    }

    /** Waits for a condition: what interrupts a test that takes too long does not end this. */
    private static void until(BooleanSupplier condition) {
        final long began = System.nanoTime();

        while (!condition.getAsBoolean()) {
            assertTrue(System.nanoTime() - began < TimeUnit.SECONDS.toNanos(120), "120 s");
            Thread.onSpinWait();
        }
    }

    /** Is it in the wait of advanceClock()? One in native code counts as running. */
    private static boolean isWaiting(Thread thread) {
        for (StackTraceElement frame : thread.getStackTrace()) {
            if (frame.getMethodName().equals("await")) {
                return true;
            }
        }
        return false;
    }

    @ParameterizedTest
    @EnumSource(Kind.class)
    void closeEndsTheWait(Kind kind) throws Exception {
        final HtwTimer timer = kind.open();
        final FutureTask<Boolean> waits = new FutureTask<>(() -> timer.advanceClock(AGES));
        final Thread thread = new Thread(waits);
        final Task pending = new Task(AGES);
        final Task again = new Task(5);

        timer.add(pending);
        thread.start();
        until(() -> isWaiting(thread));
        timer.close();
        assertFalse(waits.get());
        timer.close();
        assertEquals(0, timer.size());
        assertThrows(IllegalStateException.class, () -> timer.advanceClock(0));
        assertThrows(RejectedExecutionException.class, () -> timer.add(again));
        assertTrue(again.isCancelled());
        assertThrows(RejectedExecutionException.class, () -> timer.add(new Task(0)));
        assertTrue(pending.cancel(), "nothing will run it");
        assertFalse(pending.cancel());
        assertEquals(0, pending.runs.get());
    }

    @ParameterizedTest
    @EnumSource(Kind.class)
    void closeRunsWhatWasDue(Kind kind) throws Exception {
        final HtwTimer timer = kind.open();
        final CountDownLatch go = new CountDownLatch(1);
        final Task second = new Task(2);

        timer.add(new TimerTask(1) {
            @Override
            public void run() {
                try {
                    go.await();
                } catch (InterruptedException e) {
                    throw new AssertionError(e);
                }
            }
        });
        timer.add(second);
        while (timer.size() > 0) {
            timer.advanceClock(AGES);
        }
        assertEquals(0, second.runs.get(), "the first one has the thread");
        go.countDown();
        timer.close();
        assertEquals(1, second.runs.get());
    }

    @ParameterizedTest
    @EnumSource(Kind.class)
    void closedByATaskInItsThread(Kind kind) throws Exception {
        final HtwTimer timer = kind.open();
        final CountDownLatch closed = new CountDownLatch(1);

        timer.add(new TimerTask(1) {
            @Override
            public void run() {
                timer.close();
                closed.countDown();
            }
        });
        timer.advanceClock(AGES);
        // Well before the 10 s that it would wait for itself.
        assertTrue(closed.await(8, TimeUnit.SECONDS));
    }

    @ParameterizedTest
    @EnumSource(Kind.class)
    void aTaskThatThrowsStopsNoOther(Kind kind) throws Exception {
        final Task after = new Task(2);
        final AtomicReference<Throwable> seen = new AtomicReference<>();
        final Thread.UncaughtExceptionHandler before = Thread.getDefaultUncaughtExceptionHandler();

        Thread.setDefaultUncaughtExceptionHandler((thread, e) -> seen.set(e));
        try (HtwTimer timer = kind.open(); Advancer advancer = new Advancer(timer)) {
            timer.add(new TimerTask(1) {
                @Override
                public void run() {
                    throw new IllegalCallerException("on purpose");
                }
            });
            timer.add(after);
            after.ran.await();
        } finally {
            Thread.setDefaultUncaughtExceptionHandler(before);
        }
        assertTrue(seen.get() instanceof IllegalCallerException, "it is not swallowed");
    }

    @ParameterizedTest
    @EnumSource(Kind.class)
    void cancelIsExact(Kind kind) throws Exception {
        final int threads = 3;
        final int each = 20_000;
        final AtomicInteger cancelled = new AtomicInteger();
        final List<Task> all = Collections.synchronizedList(new ArrayList<>());

        try (HtwTimer timer = kind.open(); Advancer advancer = new Advancer(timer)) {
            final List<Thread> adders = new ArrayList<>();

            for (int t = 0; t < threads; t++) {
                final Thread adder = new Thread(() -> {
                    final List<Task> mine = new ArrayList<>();

                    for (int i = 0; i < each; i++) {
                        final Task task = new Task(i % 3);

                        timer.add(task);
                        mine.add(task);
                        // One that is due about now.
                        if (i >= 50) {
                            final Task older = mine.get(i - 50);

                            if (older.cancel()) {
                                cancelled.incrementAndGet();
                                assertTrue(older.isCancelled());
                                older.runs.addAndGet(1000);
                            }
                        }
                    }
                    all.addAll(mine);
                });

                adder.start();
                adders.add(adder);
            }
            for (Thread adder : adders) {
                adder.join();
            }
            assertEquals(threads * each, all.size());
            for (Task task : all) {
                if (task.runs.get() < 1000) {
                    task.ran.await();
                }
            }
            assertEquals(0, timer.size());
        }
        assertEquals(cancelled.get(), all.stream().filter(task -> task.runs.get() == 1000).count());
        assertEquals(threads * each - cancelled.get(), all.stream().filter(task -> task.runs.get() == 1).count());
    }

    /** One task that several threads add and cancel, in two timers: it is in one of them at most. */
    @ParameterizedTest
    @EnumSource(Kind.class)
    void oneTaskManyThreads(Kind kind) throws Exception {
        try (HtwTimer a = kind.open(); HtwTimer b = kind.open(); Advancer first = new Advancer(a);
                Advancer second = new Advancer(b)) {
            final Task task = new Task(1);
            final AtomicReference<Throwable> trouble = new AtomicReference<>();
            final List<Thread> threads = new ArrayList<>();

            for (int t = 0; t < 3; t++) {
                final int number = t;
                final Thread thread = new Thread(() -> {
                    try {
                        for (int i = 0; i < 20_000; i++) {
                            if (i % 3 == number) {
                                task.cancel();
                            }
                            (i % 2 == 0 ? a : b).add(task);
                            task.isCancelled();
                        }
                    } catch (Throwable e) {
                        trouble.set(e);
                    }
                });

                thread.start();
                threads.add(thread);
            }
            for (Thread thread : threads) {
                thread.join();
            }
            assertEquals(null, trouble.get());
            task.cancel();
            assertEquals(0, a.size());
            assertEquals(0, b.size());
            final int runs = task.runs.get();

            a.add(task);
            until(() -> task.runs.get() != runs);
        }
    }

    @ParameterizedTest
    @EnumSource(Kind.class)
    void severalAdvance(Kind kind) throws Exception {
        try (HtwTimer timer = kind.open(); Advancer a = new Advancer(timer)) {
            final List<Task> tasks = new ArrayList<>();

            for (int i = 0; i < 1000; i++) {
                final Task task = new Task(i % 20);

                timer.add(task);
                tasks.add(task);
                timer.advanceClock(0);
            }
            for (Task task : tasks) {
                task.ran.await();
                assertEquals(1, task.runs.get());
            }
            // Another one has it, for longer than this.
            assertFalse(timer.advanceClock(5));
        }
    }

    @ParameterizedTest
    @EnumSource(Kind.class)
    void closeWhileOthersUseIt(Kind kind) throws Exception {
        for (int round = 0; round < 100; round++) {
            final HtwTimer timer = kind.open();
            final AtomicReference<Throwable> trouble = new AtomicReference<>();
            final CountDownLatch started = new CountDownLatch(2);
            final Thread adder = new Thread(() -> {
                started.countDown();
                try {
                    for (int i = 0; ; i++) {
                        final Task task = new Task(i % 3);

                        timer.add(task);
                        timer.size();
                        if (i % 2 == 0) {
                            task.cancel();
                        }
                    }
                } catch (RejectedExecutionException e) {
                    // It is closed.
                } catch (Throwable e) {
                    trouble.set(e);
                }
            });
            final Thread advancer = new Thread(() -> {
                started.countDown();
                try {
                    while (true) {
                        timer.advanceClock(AGES);
                    }
                } catch (IllegalStateException e) {
                    // It is closed.
                } catch (Throwable e) {
                    trouble.set(e);
                }
            });

            adder.start();
            advancer.start();
            started.await();
            timer.close();
            adder.join();
            advancer.join();
            assertEquals(null, trouble.get());
        }
    }

    @ParameterizedTest
    @EnumSource(Kind.class)
    void theLimit(Kind kind) throws Exception {
        try (HtwTimer timer = kind.open(kind.builder("test").limit(100))) {
            final List<Task> tasks = new ArrayList<>();
            final Task more = new Task(AGES);

            for (int i = 0; i < 100; i++) {
                final Task task = new Task(AGES);

                timer.add(task);
                tasks.add(task);
            }
            assertThrows(RejectedExecutionException.class, () -> timer.add(more));
            assertTrue(more.isCancelled());
            assertFalse(more.cancel());
            assertEquals(100, timer.size());
            timer.add(tasks.get(0));
            assertTrue(tasks.get(7).cancel());
            timer.add(more);
            assertEquals(100, timer.size());
            assertTrue(more.cancel());
        }
    }
}
