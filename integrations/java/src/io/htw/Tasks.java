// SPDX-License-Identifier: MIT
package io.htw;

/**
 * The tasks that wait, by the number that their timers have as cookies: so libhtw refers to no
 * object of Java, and a task that is removed here can be collected. Guarded by the timer's lock.
 */
final class Tasks {
    private static final int SMALL = 1024;

    private TimerTask[] tasks;
    // A stack of the free numbers below next.
    private int[] free;
    private int freed;
    private int next;

    Tasks() {
        clear();
    }

    /** Forgets all tasks. */
    void clear() {
        tasks = new TimerTask[16];
        free = new int[16];
        freed = 0;
        next = 0;
    }

    int size() {
        return next - freed;
    }

    int add(TimerTask task) {
        final int slot;

        if (freed > 0) {
            slot = free[--freed];
        } else {
            if (next == tasks.length) {
                grow();
            }
            slot = next++;
        }
        tasks[slot] = task;
        return slot;
    }

    private void grow() {
        // Both before either is replaced: memory may be short.
        final TimerTask[] larger = new TimerTask[2 * tasks.length];
        final int[] moreFree = new int[2 * tasks.length];

        System.arraycopy(tasks, 0, larger, 0, next);
        System.arraycopy(free, 0, moreFree, 0, freed);
        tasks = larger;
        free = moreFree;
    }

    /** Removes a task. Returns null if there is none of this number. */
    TimerTask remove(long slot) {
        final TimerTask task;

        if (slot < 0 || slot >= next) {
            return null;
        }
        task = tasks[(int) slot];
        if (task == null) {
            return null;
        }
        tasks[(int) slot] = null;
        free[freed++] = (int) slot;
        // Memory comes back after a burst.
        if (size() == 0 && tasks.length > SMALL) {
            clear();
        }
        return task;
    }
}
