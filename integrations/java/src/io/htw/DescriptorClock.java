// SPDX-License-Identifier: MIT
package io.htw;

import java.io.IOException;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.spi.AbstractInterruptibleChannel;
import java.util.concurrent.locks.ReentrantLock;

/** Has the kernel's clock: waits for libhtw's descriptor, as that of the device. */
final class DescriptorClock extends Clock {
    private boolean waits;

    DescriptorClock(long handle, ReentrantLock lock) {
        super(handle, lock);
    }

    @Override
    long start(long delayNs, long cookie) {
        return Native.startAfter(handle, delayNs, cookie);
    }

    @Override
    int take(long[] cookies) {
        return Native.take(handle, -1, cookies);
    }

    @Override
    long advance(long timeoutNs) {
        return timeoutNs;
    }

    @Override
    void await(long ns) throws InterruptedException {
        waits = true;
        lock.unlock();
        try {
            new Wait().await(ns);
        } finally {
            lock.lock();
            waits = false;
        }
    }

    @Override
    void wake() {
        if (waits) {
            Native.wake(handle);
        }
    }

    /**
     * One wait that Thread.interrupt() ends. The base class has what interrupt() calls while a thread
     * is between begin() and end(): it closes the channel, which here wakes the thread.
     */
    private final class Wait extends AbstractInterruptibleChannel {
        void await(long ns) throws InterruptedException {
            try {
                begin();
                try {
                    Native.await(handle, ns);
                } finally {
                    end(true);
                }
            } catch (ClosedByInterruptException interrupted) {
                Thread.interrupted();
                throw new InterruptedException();
            } catch (IOException cannotBe) {
                throw new AssertionError(cannotBe);
            }
        }

        @Override
        protected void implCloseChannel() {
            Native.wake(handle);
        }
    }
}
