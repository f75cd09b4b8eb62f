// SPDX-License-Identifier: MIT
package io.htw;

/**
 * What a {@link Timer} runs, once for each time that it is added.
 *
 * <p>Adding and cancelling may happen in any thread.
 */
public abstract class TimerTask implements Runnable {
    /** Delay in milliseconds, from when the task is added. */
    public final long delayMs;

    // In place of a slot: never added, or cancelled; due, and handed to the executor; has begun.
    static final int NONE = -1;
    static final int QUEUED = -2;
    static final int BEGUN = -3;

    // Where it was added last. Guarded by this object's monitor, which is taken before a timer's lock.
    private HtwTimer timer;

    // Guarded by the lock of that timer. The number of starts tells a run that is queued whether the
    // task was cancelled or added anew since: it only grows, so a timer that the task has left may
    // read it as well.
    int slot = NONE;
    int starts;
    long id;

    /**
     * Creates a task.
     *
     * @param delayMs its delay in milliseconds
     */
    protected TimerTask(long delayMs) {
        this.delayMs = delayMs;
    }

    /**
     * Cancels the task. The timer keeps no reference to it.
     *
     * @return true if it would have run and now will not; false if it has begun to run, was not
     *     added, or was cancelled before
     */
    public boolean cancel() {
        synchronized (this) {
            return timer != null && timer.stop(this);
        }
    }

    /**
     * Tells whether the task was cancelled, or never added. It was not if it waits, is running or
     * has run.
     *
     * @return true if it was cancelled
     */
    public boolean isCancelled() {
        synchronized (this) {
            return timer == null || timer.isStopped(this);
        }
    }

    /** Makes this the timer in which the task waits. The caller holds the task's monitor. */
    final void moveTo(HtwTimer to) {
        assert Thread.holdsLock(this);
        if (timer != null) {
            timer.stop(this);
        }
        timer = to;
    }
}
