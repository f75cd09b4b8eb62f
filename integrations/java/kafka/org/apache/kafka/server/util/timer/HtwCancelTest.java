// SPDX-License-Identifier: MIT
package org.apache.kafka.server.util.timer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What Kafka's own tests leave out: its tasks are cancelled and added again over htw. */
@Timeout(60)
class HtwCancelTest {
    private static final long AGES = 3_600_000;

    private final SystemTimer timer = new SystemTimer("test");

    private static final class Counted extends TimerTask {
        private final AtomicInteger runs = new AtomicInteger();

        Counted(long delayMs) {
            super(delayMs);
        }

        @Override
        public void run() {
            runs.incrementAndGet();
        }
    }

    @AfterEach
    void close() {
        timer.close();
    }

    @Test
    void cancelled() throws Exception {
        final Counted task = new Counted(5);

        timer.add(task);
        assertFalse(task.isCancelled());
        assertEquals(1, timer.size());
        task.cancel();
        assertTrue(task.isCancelled());
        assertEquals(0, timer.size());
        assertFalse(timer.advanceClock(20));
        assertEquals(0, task.runs.get());
    }

    @Test
    void addedAgain() throws Exception {
        final Counted task = new Counted(5);

        timer.add(task);
        timer.add(task);
        assertEquals(1, timer.size());
        assertTrue(timer.advanceClock(AGES));
        assertFalse(timer.advanceClock(20));
        timer.close();
        assertEquals(1, task.runs.get());
    }

    @Test
    void refused() {
        final Counted task = new Counted(5);

        timer.close();
        assertThrows(RejectedExecutionException.class, () -> timer.add(task));
        assertTrue(task.isCancelled());
    }

    /** Each task is cancelled by another thread as it is added, or as it comes due. */
    @Test
    void exactly() throws Exception {
        final int count = 50_000;
        final List<Counted> tasks = new ArrayList<>();
        final AtomicInteger added = new AtomicInteger();
        final CountDownLatch done = new CountDownLatch(1);
        final Thread advancer = new Thread(() -> {
            try {
                while (done.getCount() > 0 || timer.size() > 0) {
                    timer.advanceClock(1);
                }
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
        });
        final Thread canceller = new Thread(() -> {
            for (int i = 0; i < count; i++) {
                while (added.get() + i % 2 < i) {
                    Thread.onSpinWait();
                }
                tasks.get(i).cancel();
            }
        });

        for (int i = 0; i < count; i++) {
            tasks.add(new Counted(1 + i % 2));
        }
        advancer.start();
        canceller.start();
        for (int i = 0; i < count; i++) {
            added.set(i);
            timer.add(tasks.get(i));
        }
        canceller.join();
        done.countDown();
        advancer.join();
        timer.close();
        assertEquals(0, timer.size());
        for (Counted task : tasks) {
            assertTrue(task.isCancelled() ? task.runs.get() <= 1 : task.runs.get() == 1);
        }
        assertTrue(tasks.stream().mapToInt(task -> task.runs.get()).sum() > 0);
    }
}
