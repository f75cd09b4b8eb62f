// SPDX-License-Identifier: MIT
package io.htw;

import java.util.concurrent.locks.ReentrantLock;

/**
 * How the time of a timer passes. All methods are called with the timer's lock held, and those that
 * use the handle, which is all, only until it is closed.
 */
abstract class Clock {
    final long handle;
    final ReentrantLock lock;

    Clock(long handle, ReentrantLock lock) {
        this.handle = handle;
        this.lock = lock;
    }

    /** Starts a timer and returns its id. */
    abstract long start(long delayNs, long cookie);

    /** Takes events, as {@link Native#take}. */
    abstract int take(long[] cookies);

    /** A call of advanceClock() begins. Returns for how long it may wait, in ns. */
    abstract long advance(long timeoutNs);

    /** Waits until something may be due, or for that long. The lock is free meanwhile. */
    abstract void await(long ns) throws InterruptedException;

    /** Ends a wait. */
    abstract void wake();
}
