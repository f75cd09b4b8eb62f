/* SPDX-License-Identifier: MIT */
/* What the controller has: a counter of ticks, a way to sleep, and a debugger that prints */
#ifndef MACHINE_H
#define MACHINE_H

#include <stdint.h>

/* Start to count ticks. @cycles: of the processor, in each tick; at most 2^24. */
void machine_start_ticks(uint32_t cycles);

/* The ticks so far, modulo 2^32. */
uint32_t machine_ticks(void);

/* Sleep until the count is not @seen any more. */
void machine_wait(uint32_t seen);

/* By semihosting, which a debugger or an emulator does: without one, this is a fault. */
void machine_print(const char *text);
_Noreturn void machine_exit(int status);

#endif /* MACHINE_H */
