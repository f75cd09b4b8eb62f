// SPDX-License-Identifier: MIT

import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Java's own, a heap, which removes what is cancelled. */
final class Scheduled extends Subject {
    private final ScheduledThreadPoolExecutor executor = new ScheduledThreadPoolExecutor(1);

    Scheduled() {
        executor.setRemoveOnCancelPolicy(true);
    }

    @Override
    Object add(long delayMs) {
        return executor.schedule(ran, delayMs, TimeUnit.MILLISECONDS);
    }

    @Override
    void add(long delayMs, Runnable runs) {
        executor.schedule(runs, delayMs, TimeUnit.MILLISECONDS);
    }

    @Override
    void cancel(Object task) {
        ((Future<?>) task).cancel(false);
    }

    @Override
    void advance(long ms) throws InterruptedException {
        Thread.sleep(ms);
    }

    @Override
    int size() {
        return executor.getQueue().size();
    }

    @Override
    public void close() {
        executor.shutdownNow();
    }
}
