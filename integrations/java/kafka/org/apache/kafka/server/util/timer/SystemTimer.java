// SPDX-License-Identifier: MIT
package org.apache.kafka.server.util.timer;

import io.htw.Backend;
import io.htw.HtwTimer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.Locale;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.utils.KafkaThread;
import org.apache.kafka.common.utils.ThreadUtils;
import org.apache.kafka.common.utils.Time;

/**
 * Stands in place of Kafka's class of this name, first on the class path: the same timer with htw's
 * wheel. The property {@code htw.backend} may say {@code device} or {@code any} instead of {@code
 * process}.
 */
public class SystemTimer implements Timer {
    public static final String SYSTEM_TIMER_THREAD_PREFIX = "executor-";

    private final ExecutorService executor;
    private final HtwTimer timer;

    public SystemTimer(String executorName) {
        this(executorName, 1, 20, Time.SYSTEM.hiResClockMs());
    }

    /**
     * Creates a timer. How many slots a wheel has is htw's own matter, and a delay counts from when its
     * task is added.
     */
    public SystemTimer(String executorName, long tickMs, int wheelSize, long startMs) {
        final String backend = System.getProperty("htw.backend", "process");

        executor = Executors.newFixedThreadPool(1,
            run -> KafkaThread.nonDaemon(SYSTEM_TIMER_THREAD_PREFIX + executorName, run));
        try {
            timer = HtwTimer.builder(executorName).backend(Backend.valueOf(backend.toUpperCase(Locale.ROOT)))
                .tick(Duration.ofMillis(tickMs)).executor(executor).open();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public void add(TimerTask timerTask) {
        // The task's monitor is what its cancel() takes: none comes between the two steps.
        synchronized (timerTask) {
            final Entry entry = new Entry(timerTask, timerTask.delayMs + Time.SYSTEM.hiResClockMs());

            try {
                timer.add(entry.waiting);
            } catch (RuntimeException | Error e) {
                timerTask.cancel();
                throw e;
            }
        }
    }

    @Override
    public boolean advanceClock(long timeoutMs) throws InterruptedException {
        return timer.advanceClock(timeoutMs);
    }

    @Override
    public int size() {
        return timer.size();
    }

    @Override
    public void close() {
        timer.close();
        ThreadUtils.shutdownExecutorServiceQuietly(executor, 5, TimeUnit.SECONDS);
    }

    // For Kafka's tests.
    boolean isTerminated() {
        return executor.isTerminated();
    }

    /** Kafka's task refers to the entry that it has in a timer, and removes that to cancel it. */
    private static final class Entry extends TimerTaskEntry {
        private final Waiting waiting;

        Entry(TimerTask timerTask, long expirationMs) {
            super(timerTask, expirationMs);
            waiting = new Waiting(timerTask);
        }

        @Override
        public void remove() {
            waiting.cancel();
        }
    }

    /** The same for htw. */
    private static final class Waiting extends io.htw.TimerTask {
        private final TimerTask task;

        Waiting(TimerTask task) {
            super(task.delayMs);
            this.task = task;
        }

        @Override
        public void run() {
            task.run();
        }
    }
}
