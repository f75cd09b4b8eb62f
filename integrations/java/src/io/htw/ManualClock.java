// SPDX-License-Identifier: MIT
package io.htw;

import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Moves the manual clock of libhtw: along with the system's, or only as it is told. No call to the
 * kernel is made for the time, and a wait is one of Java's.
 */
final class ManualClock extends Clock {
    private final boolean follows;
    private final Condition changed;
    private final long origin = System.nanoTime();

    // The time, if it does not follow the system's.
    private long told;

    // A timer that is due before this ends the wait; nobody waits while it is the least number.
    private long waitsUntil = Long.MIN_VALUE;

    ManualClock(long handle, ReentrantLock lock, boolean follows) {
        super(handle, lock);
        this.follows = follows;
        this.changed = lock.newCondition();
    }

    private long now() {
        return follows ? System.nanoTime() - origin : told;
    }

    private static long sum(long a, long b) {
        return a > Long.MAX_VALUE - b ? Long.MAX_VALUE : a + b;
    }

    @Override
    long start(long delayNs, long cookie) {
        final long when = sum(now(), delayNs);
        final long id = Native.startAt(handle, when, cookie);

        if (when < waitsUntil) {
            changed.signal();
        }
        return id;
    }

    @Override
    int take(long[] cookies) {
        return Native.take(handle, now(), cookies);
    }

    @Override
    long advance(long timeoutNs) {
        if (follows) {
            return timeoutNs;
        }
        told = sum(told, timeoutNs);
        return 0;
    }

    @Override
    void await(long ns) throws InterruptedException {
        waitsUntil = Native.nextTime(handle);
        try {
            final long left = Math.min(ns, waitsUntil - now());

            if (left > 0) {
                changed.awaitNanos(left);
            }
        } finally {
            waitsUntil = Long.MIN_VALUE;
        }
    }

    @Override
    void wake() {
        changed.signal();
    }
}
