// SPDX-License-Identifier: MIT
package io.htw;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.ref.Cleaner;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Objects;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;

/**
 * A timer for very many tasks, on libhtw: with the timing wheel in the process, or in the kernel by
 * {@code /dev/htw}.
 *
 * <p>Like Kafka's {@code SystemTimer}, it has no thread that looks at the clock: a thread of the
 * program calls {@link #advanceClock} again and again. Tasks run in a thread of the timer's own, one
 * after the other, in the order in which they were due. A task never runs before its delay is over,
 * and runs once, or {@link TimerTask#cancel} returns true.
 *
 * <p>All methods may be called by any thread; of several that call advanceClock(), one at a time
 * advances, and the others wait for it.
 */
public final class HtwTimer implements Timer {
    private static final Cleaner CLEANER = Cleaner.create();

    // Guards the tasks, their state, the handle of libhtw, and what follows up to closed.
    private final ReentrantLock lock = new ReentrantLock();
    private final Tasks tasks = new Tasks();
    private final Clock clock;
    // add() has handed a task to the executor since advanceClock() looked.
    private boolean handedOver;
    private boolean closed;

    // Held by the thread that advances; taken before the other lock. Guards the next two.
    private final ReentrantLock advancing = new ReentrantLock();
    // What was taken from libhtw, and the executor has not yet got.
    private final ArrayDeque<Run> due = new ArrayDeque<>();
    private final long[] cookies = new long[Native.BATCH];

    private final Backend backend;
    private final Executor executor;
    // The timer's own, or null.
    private final Worker worker;
    private final Cleaner.Cleanable handle;

    /**
     * Creates a timer in the process, with a tick of a millisecond.
     *
     * @param executorName name of the thread that runs the tasks, after {@code executor-}
     * @throws UncheckedIOException if there can be no more descriptors
     */
    public HtwTimer(String executorName) {
        this(new Builder(executorName));
    }

    private HtwTimer(Builder b) {
        final long opened;

        worker = b.executor == null ? new Worker(b.name) : null;
        executor = worker == null ? b.executor : worker.service;
        try {
            opened = b.openHandle();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        handle = CLEANER.register(this, new Release(opened, lock, advancing, worker));
        backend = Native.backend(opened) == Backend.DEVICE.number ? Backend.DEVICE : Backend.PROCESS;
        clock = backend == Backend.DEVICE || b.descriptor
                ? new DescriptorClock(opened, lock) : new ManualClock(opened, lock, !b.manual);
    }

    /**
     * Begins the description of a timer.
     *
     * @param executorName name of the thread that runs the tasks, after {@code executor-}
     * @return a builder with the defaults
     */
    public static Builder builder(String executorName) {
        return new Builder(executorName);
    }

    /** Describes a timer. */
    public static final class Builder {
        private final String name;
        private Backend backend = Backend.PROCESS;
        private Duration tick = Duration.ZERO;
        private long limit;
        private Executor executor;
        private boolean manual;
        private boolean descriptor;

        private Builder(String name) {
            this.name = Objects.requireNonNull(name);
        }

        /**
         * Says where the timer is kept; in the process if this is not called.
         *
         * @param where the backend
         * @return this
         */
        public Builder backend(Backend where) {
            this.backend = Objects.requireNonNull(where);
            return this;
        }

        /**
         * Sets the tick: a task is late by up to that much. A millisecond, or the module's, if this is not
         * called.
         *
         * @param length from 10 microseconds to a second
         * @return this
         */
        public Builder tick(Duration length) {
            if (length.isNegative() || length.isZero() || length.compareTo(Duration.ofSeconds(1)) > 0) {
                throw new IllegalArgumentException("a tick of " + length);
            }
            this.tick = length;
            return this;
        }

        /**
         * Sets the most tasks that wait at a time. 67,108,864 if this is not called, on the device its
         * module's max_timers.
         *
         * @param most the number
         * @return this
         */
        public Builder limit(long most) {
            if (most <= 0) {
                throw new IllegalArgumentException("a limit of " + most);
            }
            this.limit = most;
            return this;
        }

        /**
         * Has tasks run by this executor instead of a thread of the timer's own. close() does not
         * shut it down. {@code Runnable::run} runs them in advanceClock(), or in add() if they have
         * no delay.
         *
         * @param runs the executor
         * @return this
         */
        public Builder executor(Executor runs) {
            this.executor = Objects.requireNonNull(runs);
            return this;
        }

        /**
         * Has a clock that stands still but for advanceClock(), which moves it by its argument and does
         * not wait: for tests that take no time. Only in the process.
         *
         * @return this
         */
        public Builder manualClock() {
            this.manual = true;
            return this;
        }

        /** For tests: wait for libhtw's descriptor in the process as well, as on the device. */
        Builder descriptor() {
            this.descriptor = true;
            return this;
        }

        /**
         * Creates the timer.
         *
         * @return the timer
         * @throws java.nio.file.NoSuchFileException if there is no device
         * @throws java.nio.file.AccessDeniedException if it may not be opened
         * @throws IOException if it cannot be opened for another reason
         * @throws IllegalArgumentException if the backend cannot have such a timer
         */
        public HtwTimer open() throws IOException {
            try {
                return new HtwTimer(this);
            } catch (UncheckedIOException e) {
                throw e.getCause();
            }
        }

        private long openHandle() throws IOException {
            if (manual && backend != Backend.PROCESS) {
                throw new IllegalArgumentException("the manual clock is only in the process");
            }
            return Native.open(backend.number, descriptor, tick.toNanos(), limit);
        }
    }

    /**
     * Returns where the timer is kept.
     *
     * @return {@link Backend#DEVICE} or {@link Backend#PROCESS}
     */
    public Backend backend() {
        return backend;
    }

    /**
     * Adds a task, which runs after its delay, counted from now. If that is zero or less, it is
     * handed to the executor at once.
     *
     * @param timerTask the task. If it is waiting, in whichever timer, it is moved here and runs once
     * @throws RejectedExecutionException if the timer is at its limit, or closed. The task is in no
     *     timer then
     */
    @Override
    public void add(TimerTask timerTask) {
        Run now = null;

        synchronized (timerTask) {
            timerTask.moveTo(this);
            lock.lock();
            try {
                timerTask.slot = TimerTask.NONE;
                if (closed) {
                    throw new RejectedExecutionException("the timer is closed");
                }
                timerTask.starts++;
                if (timerTask.delayMs <= 0) {
                    timerTask.slot = TimerTask.QUEUED;
                    now = new Run(timerTask);
                    handedOver = true;
                    clock.wake();
                } else {
                    start(timerTask);
                }
            } finally {
                lock.unlock();
            }
        }
        // Without the task's monitor, as the executor may run it here.
        if (now != null) {
            try {
                executor.execute(now);
            } catch (RejectedExecutionException e) {
                timerTask.cancel();
                throw e;
            }
        }
    }

    private void start(TimerTask task) {
        final int slot = tasks.add(task);
        boolean started = false;

        try {
            task.id = clock.start(TimeUnit.MILLISECONDS.toNanos(task.delayMs), slot);
            task.slot = slot;
            started = true;
        } finally {
            if (!started) {
                tasks.remove(slot);
            }
        }
    }

    /** As TimerTask.cancel(); the caller holds the task's monitor, and it was added here last. */
    boolean stop(TimerTask task) {
        lock.lock();
        try {
            if (task.slot == TimerTask.NONE || task.slot == TimerTask.BEGUN) {
                return false;
            }
            if (task.slot >= 0 && !closed) {
                tasks.remove(task.slot);
                Native.stop(clock.handle, task.id);
            }
            task.slot = TimerTask.NONE;
            // A run that is queued is void, also if the task is added anew.
            task.starts++;
            return true;
        } finally {
            lock.unlock();
        }
    }

    /** As TimerTask.isCancelled(); likewise. */
    boolean isStopped(TimerTask task) {
        lock.lock();
        try {
            return task.slot == TimerTask.NONE;
        } finally {
            lock.unlock();
        }
    }

    /**
     * Waits until a task is due, and hands all that are due to the executor.
     *
     * @param timeoutMs how long to wait in milliseconds; zero or less does not wait. With the manual
     *     clock, by how much to move it
     * @return whether a task was due. False as well if the timer is closed meanwhile
     * @throws InterruptedException if the thread is interrupted while it waits. No task is lost
     * @throws IllegalStateException if the timer is closed, or in a task that advanceClock() runs
     */
    @Override
    public boolean advanceClock(long timeoutMs) throws InterruptedException {
        final long timeout = TimeUnit.MILLISECONDS.toNanos(Math.max(timeoutMs, 0));
        final long began = System.nanoTime();

        if (advancing.isHeldByCurrentThread()) {
            throw new IllegalStateException("advanceClock() within a task that it runs");
        }
        if (!advancing.tryLock(timeout, TimeUnit.NANOSECONDS)) {
            return false;
        }
        try {
            return advance(timeout, began);
        } finally {
            advancing.unlock();
        }
    }

    private boolean advance(long timeout, long began) throws InterruptedException {
        // What comes due while tasks are handed over may be the next call's: so this one ends.
        int most;

        lock.lock();
        try {
            if (closed) {
                throw new IllegalStateException("the timer is closed");
            }
            if (!waitForTasks(clock.advance(timeout), began)) {
                return false;
            }
            most = tasks.size();
        } finally {
            lock.unlock();
        }
        handOver();
        for (; most > 0; most -= Native.BATCH) {
            lock.lock();
            try {
                if (!collect()) {
                    break;
                }
            } finally {
                lock.unlock();
            }
            handOver();
        }
        return true;
    }

    /** Waits until the first tasks are collected. Returns false if there are none. */
    private boolean waitForTasks(long timeout, long began) throws InterruptedException {
        while (!collect() && !handedOver) {
            final long left = timeout - (System.nanoTime() - began);

            if (closed || left <= 0) {
                return false;
            }
            clock.await(left);
        }
        handedOver = false;
        return true;
    }

    /**
     * Collects a batch of tasks that are due. Returns whether there is something to hand over. The
     * caller has both locks; that of the tasks is free at times.
     */
    private boolean collect() {
        int count = Native.BUSY;

        while (!closed && (count = clock.take(cookies)) == Native.BUSY) {
            // A long bucket of the wheel moves down in parts. Others may want the lock meanwhile.
            lock.unlock();
            lock.lock();
        }
        for (int i = 0; i < count; i++) {
            final TimerTask task = tasks.remove(cookies[i]);

            // On the device an administrator may change a timer, but nobody else starts one.
            if (task != null) {
                task.slot = TimerTask.QUEUED;
                due.add(new Run(task));
            }
        }
        return !due.isEmpty();
    }

    /**
     * Hands what was collected to the executor. If that throws, or a task that it runs at once does,
     * the rest stays for the next advanceClock().
     */
    private void handOver() {
        Run first;

        while ((first = due.peek()) != null) {
            boolean accepted = false;

            try {
                executor.execute(first);
                accepted = true;
            } finally {
                if (accepted || first.isOver()) {
                    due.poll();
                }
            }
        }
    }

    @Override
    public int size() {
        lock.lock();
        try {
            return tasks.size();
        } finally {
            lock.unlock();
        }
    }

    /**
     * Ends the timer. Tasks that wait do not run any more. Those that were due do: it waits for them
     * for 5 seconds, then interrupts their thread and waits for that, for another 5 seconds; but not
     * if a task calls it, nor for an executor that is not the timer's own. It may be called again.
     */
    @Override
    public void close() {
        lock.lock();
        try {
            if (!closed) {
                closed = true;
                clock.wake();
            }
        } finally {
            lock.unlock();
        }
        handle.clean();
        lock.lock();
        try {
            tasks.clear();
        } finally {
            lock.unlock();
        }
        if (worker != null) {
            worker.end();
        }
    }

    /** One run of a task, from when it is due. */
    private final class Run implements Runnable {
        private final TimerTask task;
        private final int start;

        /** The caller holds the lock. */
        Run(TimerTask task) {
            this.task = task;
            this.start = task.starts;
        }

        private boolean isWanted() {
            return task.starts == start && task.slot == TimerTask.QUEUED;
        }

        /** Has it begun, or was it cancelled? */
        boolean isOver() {
            lock.lock();
            try {
                return !isWanted();
            } finally {
                lock.unlock();
            }
        }

        @Override
        public void run() {
            lock.lock();
            try {
                if (!isWanted()) {
                    return;
                }
                task.slot = TimerTask.BEGUN;
            } finally {
                lock.unlock();
            }
            task.run();
        }
    }

    /** The thread that runs tasks. It knows no timer, so that one that is left can be collected. */
    private static final class Worker implements ThreadFactory {
        final ExecutorService service;
        private final String name;
        private volatile Thread thread;

        Worker(String name) {
            this.name = "executor-" + name;
            this.service = Executors.newFixedThreadPool(1, this);
        }

        @Override
        public Thread newThread(Runnable runnable) {
            thread = new Thread(runnable, name);
            return thread;
        }

        void end() {
            service.shutdown();
            if (Thread.currentThread() == thread) {
                return;
            }
            try {
                if (!service.awaitTermination(5, TimeUnit.SECONDS)) {
                    service.shutdownNow();
                    service.awaitTermination(5, TimeUnit.SECONDS);
                }
            } catch (InterruptedException e) {
                service.shutdownNow();
                Thread.currentThread().interrupt();
            }
        }
    }

    /**
     * Closes the handle, by close() or when the timer is collected; so it refers to no timer. It waits
     * for the thread that advances, unless it is this one, and for each call of libhtw: a call may be
     * under way when its timer is collected.
     */
    private static final class Release implements Runnable {
        private final long opened;
        private final ReentrantLock lock;
        private final ReentrantLock advancing;
        private final Worker worker;

        Release(long opened, ReentrantLock lock, ReentrantLock advancing, Worker worker) {
            this.opened = opened;
            this.lock = lock;
            this.advancing = advancing;
            this.worker = worker;
        }

        @Override
        public void run() {
            advancing.lock();
            lock.lock();
            try {
                Native.close(opened);
            } finally {
                lock.unlock();
                advancing.unlock();
            }
            if (worker != null) {
                worker.service.shutdown();
            }
        }
    }
}
