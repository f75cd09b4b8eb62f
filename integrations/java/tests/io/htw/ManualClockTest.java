// SPDX-License-Identifier: MIT
package io.htw;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.RejectedExecutionException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** When tasks run, to the millisecond: with a clock that stands still. */
class ManualClockTest {
    private HtwTimer timer;
    private final List<Integer> ran = new ArrayList<>();

    private final class Numbered extends TimerTask {
        private final int number;

        Numbered(int number, long delayMs) {
            super(delayMs);
            this.number = number;
        }

        @Override
        public void run() {
            ran.add(number);
        }
    }

    @BeforeEach
    void open() throws IOException {
        timer = HtwTimer.builder("test").manualClock().executor(Runnable::run).open();
    }

    @AfterEach
    void close() {
        timer.close();
    }

    private Numbered add(int number, long delayMs) {
        final Numbered task = new Numbered(number, delayMs);

        timer.add(task);
        return task;
    }

    @Test
    void runsAtItsTimeAndNotBefore() throws Exception {
        add(1, 10);
        assertFalse(timer.advanceClock(9));
        assertEquals(List.of(), ran);
        assertEquals(1, timer.size());
        assertTrue(timer.advanceClock(1));
        assertEquals(List.of(1), ran);
        assertEquals(0, timer.size());
        assertFalse(timer.advanceClock(1000));
        assertEquals(List.of(1), ran);
    }

    @Test
    void withoutDelayRunsAtOnce() throws Exception {
        add(1, 0);
        add(2, -5);
        add(3, Long.MIN_VALUE);
        assertEquals(List.of(1, 2, 3), ran);
        assertEquals(0, timer.size());
        assertTrue(timer.advanceClock(0), "tasks ran");
        assertFalse(timer.advanceClock(0), "and not again");
    }

    @Test
    void inTheOrderOfDeadlinesThenOfAdding() throws Exception {
        add(3, 7);
        add(1, 5);
        add(4, 7);
        add(2, 5);
        assertTrue(timer.advanceClock(100));
        assertEquals(List.of(1, 2, 3, 4), ran);
    }

    @Test
    void moreThanABatch() throws Exception {
        final List<Integer> all = new ArrayList<>();

        for (int i = 0; i < 10 * Native.BATCH + 3; i++) {
            add(i, 1 + i / 100);
            all.add(i);
        }
        assertEquals(all.size(), timer.size());
        assertTrue(timer.advanceClock(1000));
        assertEquals(all, ran);
        assertEquals(0, timer.size());
    }

    @Test
    void cancelled() throws Exception {
        final Numbered task = add(1, 5);

        assertFalse(task.isCancelled());
        assertTrue(task.cancel());
        assertTrue(task.isCancelled());
        assertFalse(task.cancel(), "twice");
        assertEquals(0, timer.size());
        assertFalse(timer.advanceClock(10));
        assertEquals(List.of(), ran);
        timer.add(task);
        assertFalse(task.isCancelled());
        assertTrue(timer.advanceClock(10));
        assertEquals(List.of(1), ran);
        assertFalse(task.cancel(), "after it has run");
        assertFalse(task.isCancelled());
    }

    @Test
    void neverAdded() {
        final Numbered task = new Numbered(1, 5);

        assertTrue(task.isCancelled());
        assertFalse(task.cancel());
    }

    @Test
    void addedTwiceRunsOnceAtTheLaterTime() throws Exception {
        final Numbered task = add(1, 10);

        timer.advanceClock(6);
        timer.add(task);
        assertEquals(1, timer.size());
        assertFalse(timer.advanceClock(9));
        assertTrue(timer.advanceClock(1));
        assertFalse(timer.advanceClock(100));
        assertEquals(List.of(1), ran);
    }

    @Test
    void movesToAnotherTimer() throws Exception {
        try (HtwTimer other = HtwTimer.builder("other").manualClock().executor(Runnable::run).open()) {
            final Numbered task = add(1, 10);

            other.add(task);
            assertEquals(0, timer.size());
            assertEquals(1, other.size());
            assertFalse(timer.advanceClock(20));
            assertTrue(other.advanceClock(20));
            assertEquals(List.of(1), ran);
            timer.add(task);
            assertTrue(task.cancel());
            assertEquals(0, timer.size());
        }
    }

    @Test
    void addsItselfAgain() throws Exception {
        timer.add(new TimerTask(10) {
            @Override
            public void run() {
                ran.add(1);
                timer.add(this);
            }
        });
        for (int i = 1; i <= 5; i++) {
            assertTrue(timer.advanceClock(10));
            assertEquals(i, ran.size());
        }
        // A clock that is moved far still ends the call.
        assertTrue(timer.advanceClock(1000));
        assertEquals(6, ran.size());
        assertEquals(1, timer.size());
    }

    @Test
    void oneTaskCancelsAnotherThatIsDue() throws Exception {
        final Numbered second = new Numbered(2, 5);

        timer.add(new TimerTask(5) {
            @Override
            public void run() {
                ran.add(1);
                assertTrue(second.cancel());
            }
        });
        timer.add(second);
        add(3, 5);
        assertTrue(timer.advanceClock(5));
        assertEquals(List.of(1, 3), ran);
    }

    @Test
    void oneTaskMovesAnotherThatIsDue() throws Exception {
        final Numbered second = new Numbered(2, 5);

        timer.add(new TimerTask(5) {
            @Override
            public void run() {
                ran.add(1);
                timer.add(second);
            }
        });
        timer.add(second);
        assertTrue(timer.advanceClock(5));
        assertEquals(List.of(1), ran);
        assertTrue(timer.advanceClock(5));
        assertEquals(List.of(1, 2), ran);
    }

    @Test
    void whatIsThrownLosesNoOther() throws Exception {
        add(1, 5);
        timer.add(new TimerTask(5) {
            @Override
            public void run() {
                throw new IllegalCallerException("on purpose");
            }
        });
        add(2, 5);
        add(3, 6);
        assertThrows(IllegalCallerException.class, () -> timer.advanceClock(10));
        assertEquals(List.of(1), ran);
        assertTrue(timer.advanceClock(0));
        assertEquals(List.of(1, 2, 3), ran);
    }

    @Test
    void whatTheExecutorRefusesIsTriedAgain() throws Exception {
        final boolean[] full = {true};

        try (HtwTimer t = HtwTimer.builder("test").manualClock().executor(run -> {
            if (full[0]) {
                throw new RejectedExecutionException("full");
            }
            run.run();
        }).open()) {
            final Numbered cancelled = new Numbered(2, 5);

            t.add(new Numbered(1, 5));
            t.add(cancelled);
            assertThrows(RejectedExecutionException.class, () -> t.advanceClock(5));
            assertThrows(RejectedExecutionException.class, () -> t.add(new Numbered(9, 0)));
            assertTrue(cancelled.cancel());
            full[0] = false;
            assertTrue(t.advanceClock(0));
            assertEquals(List.of(1), ran);
        }
    }

    @Test
    void notWithinItself() throws Exception {
        timer.add(new TimerTask(1) {
            @Override
            public void run() {
                assertThrows(IllegalStateException.class, () -> timer.advanceClock(1));
                ran.add(1);
            }
        });
        assertTrue(timer.advanceClock(1));
        assertEquals(List.of(1), ran);
    }

    @Test
    void closedByATask() throws Exception {
        final Numbered waits = add(2, 50);

        timer.add(new TimerTask(1) {
            @Override
            public void run() {
                ran.add(1);
                timer.close();
            }
        });
        assertTrue(timer.advanceClock(1));
        assertEquals(List.of(1), ran);
        assertTrue(waits.cancel(), "nothing will run it");
        assertThrows(IllegalStateException.class, () -> timer.advanceClock(100));
    }

    @Test
    void delaysWithoutEnd() throws Exception {
        final Numbered never = add(1, Long.MAX_VALUE);

        add(2, Long.MAX_VALUE / 1_000_000);
        add(3, 10);
        assertTrue(timer.advanceClock(1_000_000_000_000L));
        assertEquals(List.of(3), ran);
        assertEquals(2, timer.size());
        assertTrue(never.cancel());
        assertEquals(1, timer.size());
        // The clock stops at its end.
        timer.advanceClock(Long.MAX_VALUE);
        timer.advanceClock(Long.MAX_VALUE);
    }

    @Test
    void ticksRoundUp() throws Exception {
        try (HtwTimer t = HtwTimer.builder("test").manualClock().tick(Duration.ofMillis(10))
                .executor(Runnable::run).open()) {
            t.add(new Numbered(1, 11));
            assertFalse(t.advanceClock(19));
            assertTrue(t.advanceClock(1));
        }
    }

    /** Random steps, held against a sorted map. */
    @Test
    void asAModelHasIt() throws Exception {
        final Random random = new Random(45);
        final TreeMap<Long, List<Integer>> model = new TreeMap<>();
        final List<Numbered> tasks = new ArrayList<>();
        final List<Long> deadlines = new ArrayList<>();
        long now = 0;

        for (int step = 0; step < 100_000; step++) {
            final int what = random.nextInt(100);

            if (what < 55) {
                final long delay = 1L + (random.nextInt(4) == 0 ? random.nextInt(1_000_000) : random.nextInt(300));

                tasks.add(add(tasks.size(), delay));
                deadlines.add(now + delay);
                model.computeIfAbsent(now + delay, key -> new ArrayList<>()).add(tasks.size() - 1);
            } else if (what < 95 && !tasks.isEmpty()) {
                final int number = random.nextInt(tasks.size());
                final List<Integer> bucket = model.get(deadlines.get(number));
                final boolean waits = bucket != null && bucket.remove((Integer) number);

                assertEquals(waits, tasks.get(number).cancel());
            } else {
                final long by = random.nextInt(20) == 0 ? random.nextInt(100_000) : random.nextInt(50);
                final List<Integer> expected = new ArrayList<>();

                now += by;
                model.headMap(now, true).values().forEach(expected::addAll);
                model.headMap(now, true).clear();
                ran.clear();
                assertEquals(!expected.isEmpty(), timer.advanceClock(by));
                assertEquals(expected, ran);
            }
            if (step % 1000 == 0) {
                assertEquals(model.values().stream().mapToInt(List::size).sum(), timer.size());
            }
        }
    }
}
