// SPDX-License-Identifier: MIT
package io.htw;

import static org.junit.jupiter.api.Assumptions.abort;

import java.io.IOException;
import java.nio.file.NoSuchFileException;

/** The timers that tests are run on. */
enum Kind {
    /** In the process, as programs have it. */
    PROCESS,
    /** In the process, with the clock and the waits that the device has. */
    DESCRIPTOR,
    /** In the kernel, where there is a device. */
    DEVICE;

    HtwTimer.Builder builder(String name) {
        final HtwTimer.Builder b = HtwTimer.builder(name);

        switch (this) {
            case DEVICE:
                return b.backend(Backend.DEVICE);
            case DESCRIPTOR:
                return b.descriptor();
            default:
                return b;
        }
    }

    HtwTimer open() throws IOException {
        return open(builder("test"));
    }

    /** Opens it, or skips the test if there is no device. */
    HtwTimer open(HtwTimer.Builder b) throws IOException {
        try {
            return b.open();
        } catch (NoSuchFileException e) {
            if (this == DEVICE) {
                abort("no device: " + e.getMessage());
            }
            throw e;
        }
    }
}
