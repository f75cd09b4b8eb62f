// SPDX-License-Identifier: MIT

import org.apache.kafka.server.util.timer.SystemTimer;
import org.apache.kafka.server.util.timer.TimerTask;

/** The SystemTimer that stands first on the class path: Kafka's own, or that over htw. */
final class Kafka extends Subject {
    private final SystemTimer timer = new SystemTimer("bench");

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
