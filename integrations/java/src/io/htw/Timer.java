// SPDX-License-Identifier: MIT
package io.htw;

/**
 * Runs tasks when their time has come, as {@code org.apache.kafka.server.util.timer.Timer} does.
 */
public interface Timer extends AutoCloseable {
    /**
     * Adds a task, which runs after its delay, counted from now.
     *
     * @param timerTask the task. If it is waiting in a timer, it is moved here and runs once
     */
    void add(TimerTask timerTask);

    /**
     * Waits until tasks are due, and has all of them run.
     *
     * @param timeoutMs how long to wait in milliseconds; zero or less does not wait
     * @return whether a task was due
     * @throws InterruptedException if the thread is interrupted while it waits. No task is lost
     */
    boolean advanceClock(long timeoutMs) throws InterruptedException;

    /**
     * Returns the number of tasks that wait for their time.
     *
     * @return their number
     */
    int size();

    /** Ends the timer. What waits does not run any more. */
    @Override
    void close();
}
