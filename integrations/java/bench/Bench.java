// SPDX-License-Identifier: MIT

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.CountDownLatch;

/**
 * Measures one subject, in a JVM of its own: its class is the first argument, the numbers of tasks that
 * wait are the others. Prints lines "NAME TASKS VALUE". Times are CPU time in ns.
 */
final class Bench {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    private Bench() {
    }

    public static void main(String[] args) throws Exception {
        // The compiler has seen all of it before something counts.
        for (int i = 0; i < 3; i++) {
            measure(args[0], 20_000, false);
        }
        for (int i = 1; i < args.length; i++) {
            measure(args[0], Integer.parseInt(args[i]), true);
        }
        for (int i = 0; i < 2; i++) {
            expire(args[0], i > 0);
        }
        late(args[0]);
        System.exit(0);
    }

    private static Subject open(String name) throws Exception {
        return (Subject) Class.forName(name).getDeclaredConstructor().newInstance();
    }

    /** Advances in a thread of its own, as Kafka's reaper does. */
    private static final class Advancer extends Thread {
        private final Subject subject;
        private volatile boolean ends;

        Advancer(Subject subject) {
            this.subject = subject;
            start();
        }

        @Override
        public void run() {
            try {
                while (!ends) {
                    subject.advance(200);
                }
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }

        void end() throws InterruptedException {
            ends = true;
            join();
        }
    }

    private static void say(boolean counts, String name, int tasks, double value) {
        if (counts) {
            System.out.printf("%s %d %.1f%n", name, tasks, value);
        }
    }

    private static long heap() throws InterruptedException {
        for (int i = 0; i < 3; i++) {
            System.gc();
            Thread.sleep(20);
        }
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }

    /** Resident memory; that of the heap is in it from the start. */
    private static long resident() throws Exception {
        return Long.parseLong(Files.readString(Path.of("/proc/self/statm")).split(" ")[1]) * 4096;
    }

    private static long delay(SplittableRandom random) {
        return 600_000 + random.nextInt(600_000);
    }

    /** Cancels tasks of a range at random and starts others, and returns the CPU time of each. */
    private static double replace(Subject subject, Object[] tasks, int from, int to, int count, long seed) {
        final SplittableRandom random = new SplittableRandom(seed);
        final long before = THREADS.getCurrentThreadCpuTime();

        for (int i = 0; i < count; i++) {
            final int which = random.nextInt(from, to);

            subject.cancel(tasks[which]);
            tasks[which] = subject.add(delay(random));
        }
        return (double) (THREADS.getCurrentThreadCpuTime() - before) / count;
    }

    private static void measure(String name, int count, boolean counts) throws Exception {
        final Subject subject = open(name);
        final Advancer advancer = new Advancer(subject);
        final Object[] tasks = new Object[count];
        final SplittableRandom random = new SplittableRandom(count);
        final int replaced = counts ? 300_000 : 100_000;
        final long heapBefore = heap();
        final long residentBefore = resident();
        final List<Double> each = new ArrayList<>();
        final List<Thread> threads = new ArrayList<>();
        long before = THREADS.getCurrentThreadCpuTime();
        long began;

        for (int i = 0; i < count; i++) {
            tasks[i] = subject.add(delay(random));
        }
        say(counts, "add", count, (double) (THREADS.getCurrentThreadCpuTime() - before) / count);
        if (counts) {
            say(true, "heap", count, (double) (heap() - heapBefore) / count);
            say(true, "native", count, (double) (resident() - residentBefore) / count);
            began = System.nanoTime();
            System.gc();
            say(true, "gc", count, (System.nanoTime() - began) / 1e6);
        }

        // A task of a server: cancelled before its time, and another one is started.
        say(counts, "replace", count, replace(subject, tasks, 0, count, replaced, 1));
        for (int t = 0; t < 2; t++) {
            final int half = t;
            final Thread thread = new Thread(() -> {
                final double ns = replace(subject, tasks, half * (count / 2), (half + 1) * (count / 2), replaced, half);

                synchronized (each) {
                    each.add(ns);
                }
            });

            threads.add(thread);
        }
        began = System.nanoTime();
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        say(counts, "two-wall", count, (double) (System.nanoTime() - began) / (2 * replaced));
        say(counts, "two", count, (each.get(0) + each.get(1)) / 2);

        before = THREADS.getCurrentThreadCpuTime();
        for (Object task : tasks) {
            subject.cancel(task);
        }
        say(counts, "cancel", count, (double) (THREADS.getCurrentThreadCpuTime() - before) / count);
        if (subject.size() != 0) {
            throw new IllegalStateException(subject.size() + " tasks are left");
        }
        advancer.end();
        subject.close();
    }

    /** Tasks that come due within a second: CPU time of the process for each, of all its threads. */
    private static void expire(String name, boolean counts) throws Exception {
        final int count = 100_000;
        final Subject subject = open(name);
        final CountDownLatch left = new CountDownLatch(count);
        final com.sun.management.OperatingSystemMXBean process =
            (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        final Advancer advancer;
        final long before;

        subject.ran = left::countDown;
        for (int i = 0; i < count; i++) {
            subject.add(1000 + i % 1000);
        }
        System.gc();
        before = process.getProcessCpuTime();
        advancer = new Advancer(subject);
        left.await();
        say(counts, "expire", count, (double) (process.getProcessCpuTime() - before) / count);
        advancer.end();
        subject.close();
    }

    /** How late tasks run on a machine that has nothing else to do for them, in us. */
    private static void late(String name) throws Exception {
        final int count = 5_000;
        final Subject subject = open(name);
        final Advancer advancer = new Advancer(subject);
        final CountDownLatch left = new CountDownLatch(count);
        final long[] late = new long[count];

        for (int i = 0; i < count; i++) {
            final int which = i;
            final long delayMs = 100 + i;
            final long due = System.nanoTime() + delayMs * 1_000_000;

            subject.add(delayMs, () -> {
                late[which] = System.nanoTime() - due;
                left.countDown();
            });
        }
        left.await();
        Arrays.sort(late);
        say(true, "early", count, Arrays.stream(late).filter(ns -> ns < 0).count());
        say(true, "median", count, late[count / 2] / 1e3);
        say(true, "99%", count, late[count * 99 / 100] / 1e3);
        advancer.end();
        subject.close();
    }
}
