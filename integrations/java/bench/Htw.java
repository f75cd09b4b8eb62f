// SPDX-License-Identifier: MIT

import io.htw.HtwTimer;
import io.htw.TimerTask;

/** The timer for Java on libhtw; args of the backend by the property htw.backend. */
final class Htw extends Subject {
    private final HtwTimer timer;

    Htw() throws java.io.IOException {
        timer = HtwTimer.builder("bench")
            .backend(io.htw.Backend.valueOf(System.getProperty("htw.backend", "process").toUpperCase())).open();
    }

    private static final class Task extends TimerTask {
        private final Runnable runs;

        Task(long delayMs, Runnable runs) {
            super(delayMs);
            this.runs = runs;
        }

        @Override
        public void run() {
            runs.run();
        }
    }

    @Override
    Object add(long delayMs) {
        final Task task = new Task(delayMs, ran);

        timer.add(task);
        return task;
    }

    @Override
    void add(long delayMs, Runnable runs) {
        timer.add(new Task(delayMs, runs));
    }

    @Override
    void cancel(Object task) {
        ((Task) task).cancel();
    }

    @Override
    void advance(long ms) throws InterruptedException {
        timer.advanceClock(ms);
    }

    @Override
    int size() {
        return timer.size();
    }

    @Override
    public void close() {
        timer.close();
    }
}
