// SPDX-License-Identifier: MIT

/** What is measured: a timer with tasks that run {@link #ran}. */
abstract class Subject implements AutoCloseable {
    /** Called by each task. */
    volatile Runnable ran = () -> { };

    /** Starts a task and returns it. */
    abstract Object add(long delayMs);

    /** Starts a task that calls this instead. */
    abstract void add(long delayMs, Runnable runs);

    abstract void cancel(Object task);

    /** Waits for tasks, if a thread of the program has to. */
    abstract void advance(long ms) throws InterruptedException;

    abstract int size();

    @Override
    public abstract void close();
}
