// SPDX-License-Identifier: MIT
package io.htw;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;

/** Counts its runs, and says when the last one was. */
class Task extends TimerTask {
    final AtomicInteger runs = new AtomicInteger();
    final CountDownLatch ran = new CountDownLatch(1);
    volatile long at;

    Task(long delayMs) {
        super(delayMs);
    }

    @Override
    public void run() {
        at = System.nanoTime();
        runs.incrementAndGet();
        ran.countDown();
    }
}
