// SPDX-License-Identifier: MIT
package io.htw;

/** Where timers are kept. */
public enum Backend {
    /** In the kernel, by {@code /dev/htw}. */
    DEVICE(1),
    /** In this process. */
    PROCESS(2),
    /**
     * In the kernel if the device can be opened, and else in this process: if it does not exist,
     * if it may not be opened, or if the module is too old.
     */
    ANY(3);

    /** As enum htw_backend of libhtw.h. */
    final int number;

    Backend(int number) {
        this.number = number;
    }
}
