// SPDX-License-Identifier: MIT
package io.htw;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.ref.WeakReference;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.RejectedExecutionException;
import java.util.function.BooleanSupplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.management.ObjectName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Nothing keeps what is not needed. */
@Timeout(20)
class MemoryTest {
    private static final long AGES = 3_600_000;

    private static void collectUntil(BooleanSupplier isTrue) throws InterruptedException {
        while (!isTrue.getAsBoolean()) {
            System.gc();
            Thread.sleep(10);
        }
    }

    private static int descriptors() {
        return new File("/proc/self/fd").list().length;
    }

    /** References of native code, as a dump of the threads counts them: global and weak ones. */
    private static int references() throws Exception {
        final String dump = (String) ManagementFactory.getPlatformMBeanServer().invoke(
            new ObjectName("com.sun.management:type=DiagnosticCommand"), "threadPrint",
            new Object[] {new String[0]}, new String[] {String[].class.getName()});
        final Matcher counts = Pattern.compile("JNI global refs: (\\d+), weak refs: (\\d+)").matcher(dump);

        assertTrue(counts.find(), dump);
        return Integer.parseInt(counts.group(1)) + Integer.parseInt(counts.group(2));
    }

    @ParameterizedTest
    @EnumSource(Kind.class)
    void aCancelledTaskIsCollected(Kind kind) throws Exception {
        try (HtwTimer timer = kind.open()) {
            final List<WeakReference<Task>> cancelled = new ArrayList<>();
            final WeakReference<Task> pending = new WeakReference<>(new Task(AGES));

            timer.add(pending.get());
            for (int i = 0; i < 10_000; i++) {
                final Task task = new Task(1000 + i);

                timer.add(task);
                task.cancel();
                cancelled.add(new WeakReference<>(task));
            }
            collectUntil(() -> cancelled.stream().allMatch(task -> task.get() == null));
            assertTrue(pending.get() != null, "the timer keeps what waits");
            assertEquals(1, timer.size());
        }
    }

    @ParameterizedTest
    @EnumSource(Kind.class)
    void aTaskThatHasRunIsCollected(Kind kind) throws Exception {
        try (HtwTimer timer = kind.open()) {
            final List<WeakReference<Task>> ran = new ArrayList<>();

            for (int i = 0; i < 1000; i++) {
                final Task task = new Task(i % 3);

                timer.add(task);
                ran.add(new WeakReference<>(task));
            }
            while (timer.size() > 0) {
                timer.advanceClock(AGES);
            }
            collectUntil(() -> ran.stream().allMatch(task -> task.get() == null));
        }
    }

    @ParameterizedTest
    @EnumSource(Kind.class)
    void closeGivesTasksBack(Kind kind) throws Exception {
        final WeakReference<Task> pending = new WeakReference<>(new Task(AGES));
        final HtwTimer timer = kind.open();

        timer.add(pending.get());
        timer.close();
        collectUntil(() -> pending.get() == null);
        assertEquals(0, timer.size());
    }

    @ParameterizedTest
    @EnumSource(Kind.class)
    void closeGivesDescriptorsBack(Kind kind) throws Exception {
        kind.open().close();
        final int before = descriptors();

        for (int i = 0; i < 1000; i++) {
            try (HtwTimer timer = kind.open()) {
                timer.add(new Task(AGES));
            }
        }
        assertTrue(descriptors() < before + 100, () -> before + " before, now " + descriptors());
    }

    /** One that nobody has closed, with tasks that wait and a thread that has run one. */
    @ParameterizedTest
    @EnumSource(Kind.class)
    void aTimerThatIsLeftIsCollected(Kind kind) throws Exception {
        kind.open().close();
        final int before = descriptors();
        final WeakReference<Task> task = leave(kind, "left-" + kind);

        collectUntil(() -> task.get() == null && descriptors() <= before
                && Thread.getAllStackTraces().keySet().stream()
                    .noneMatch(thread -> thread.getName().equals("executor-left-" + kind)));
    }

    private static WeakReference<Task> leave(Kind kind, String name) throws IOException, InterruptedException {
        final HtwTimer timer = kind.open(kind.builder(name));
        final Task ran = new Task(0);
        final Task waits = new Task(AGES);

        timer.add(waits);
        timer.add(ran);
        ran.ran.await();
        return new WeakReference<>(waits);
    }

    @ParameterizedTest
    @EnumSource(Kind.class)
    void nativeCodeKeepsNoReference(Kind kind) throws Exception {
        kind.open().close();
        final int before = references();

        try (HtwTimer timer = kind.open(kind.builder("test").limit(5_000))) {
            final List<Task> tasks = new ArrayList<>();
            int refused = 0;

            for (int i = 0; i < 40_000; i++) {
                final Task task = new Task(1 + i);

                tasks.add(task);
                try {
                    timer.add(task);
                } catch (RejectedExecutionException e) {
                    refused++;
                }
                if (i % 4 == 0) {
                    tasks.get(i / 2).cancel();
                }
                timer.advanceClock(0);
            }
            assertTrue(refused > 1000 && timer.size() > 1000, refused + " refused, " + timer.size());
            assertTrue(references() <= before + 20, () -> before + " before, and then more");
        }
    }

    /** Resident memory, in bytes. */
    private static long resident() throws IOException {
        return Long.parseLong(Files.readString(Path.of("/proc/self/statm")).split(" ")[1]) * 4096;
    }

    @Test
    void nativeMemoryComesBack() throws Exception {
        long first = 0;

        for (int round = 0; round < 8; round++) {
            try (HtwTimer timer = HtwTimer.builder("test").manualClock().executor(Runnable::run).open()) {
                for (int i = 0; i < 200_000; i++) {
                    timer.add(new Task(1 + i % 100_000));
                }
                timer.advanceClock(100_001);
                assertEquals(0, timer.size());
            }
            System.gc();
            if (round == 2) {
                first = resident();
            }
        }
        final long grown = resident() - first;

        // A round has 200,000 timers: what is lost of each is five times this.
        assertTrue(grown < 40 << 20, () -> "grown by " + grown + " bytes");
    }
}
