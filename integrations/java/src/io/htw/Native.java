// SPDX-License-Identifier: MIT
package io.htw;

import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileSystemException;
import java.nio.file.NoSuchFileException;
import java.util.concurrent.RejectedExecutionException;

/**
 * The calls of libhtw, in jni/htw_jni.c. A handle is the address of a struct of that file, and valid
 * until it is closed: who calls sees to that. What fails throws, by one of the last two methods here.
 */
final class Native {
    /** The most events that one call takes. */
    static final int BATCH = 256;

    /** What take() returns if nothing is due yet, but there is work to be done before it can tell. */
    static final int BUSY = -1;

    static {
        System.loadLibrary("htw-jni");
    }

    private Native() {
    }

    /**
     * Opens a handle.
     *
     * @param monotonic in the process, with CLOCK_MONOTONIC instead of the manual clock
     * @param tick in ns; zero for the default
     * @param limit the most timers; zero for the default
     */
    static native long open(int backend, boolean monotonic, long tick, long limit) throws IOException;

    static native void close(long handle);

    /** Returns a number of {@link Backend}. */
    static native int backend(long handle);

    /** Starts a timer after this delay, on the handle's clock, and returns its id. */
    static native long startAfter(long handle, long ns, long cookie);

    /** Starts a timer at this time of the handle's clock, and returns its id. */
    static native long startAt(long handle, long ns, long cookie);

    /** Stops a timer; one that has ended otherwise is stopped as well. */
    static native void stop(long handle, long id);

    /**
     * Takes events of timers that are due.
     *
     * @param now with the manual clock, to where to move it; else negative
     * @param cookies out: of each event; {@link #BATCH} of them
     * @return how many, or {@link #BUSY}
     */
    static native int take(long handle, long now, long[] cookies);

    /** Returns a time before which nothing is due, Long.MAX_VALUE if that is never. */
    static native long nextTime(long handle);

    /** Waits until something may be due, wake() is called, or the time is over. */
    static native void await(long handle, long ns);

    /** Ends the present or the next await(). */
    static native void wake(long handle);

    // Called by htw_jni.c.

    private static void cannotOpen(int error, String description, int kind) throws IOException {
        final String device = "/dev/htw";

        switch (kind) {
            case NO_MEMORY:
                throw new OutOfMemoryError("htw: " + description);
            case NO_FILE:
                throw new NoSuchFileException(device, null, description + " (load the kernel module: modprobe htw)");
            case NO_PERMISSION:
                throw new AccessDeniedException(device, null, description);
            case BAD_ARGUMENT:
                throw new IllegalArgumentException("htw: tick or limit: " + description);
            default:
                throw new FileSystemException(device, null, description + " (error " + error + ")");
        }
    }

    private static void refused(int error, String description, int kind) {
        switch (kind) {
            case NO_MEMORY:
                throw new OutOfMemoryError("htw: " + description);
            case AT_LIMIT:
                throw new RejectedExecutionException("htw: no more tasks can wait: at the limit (" + description + ")");
            default:
                throw new IllegalStateException("htw: " + description + " (error " + error + ")");
        }
    }

    // Kinds of errors, as in htw_jni.c: their numbers differ between architectures.
    private static final int NO_MEMORY = 1;
    private static final int NO_FILE = 2;
    private static final int NO_PERMISSION = 3;
    private static final int BAD_ARGUMENT = 4;
    private static final int AT_LIMIT = 5;
}
