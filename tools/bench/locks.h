/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Commands of htw-bench --workload locks to the QEMU plugin (qemu/locks.c)
 *
 * A plugin sees the addresses of stores, and not what is stored. So a command
 * is a store to LOCKS_COMMAND at an offset that is its number, after a store
 * to LOCKS_VALUE at an offset that is its value.
 */
#ifndef BENCH_LOCKS_H
#define BENCH_LOCKS_H

/* Free in each program: far below the stack, far above what is linked statically. */
#define LOCKS_COMMAND		0x100000000000UL
#define LOCKS_COMMAND_SIZE	4096UL
/* One byte for each value: the low half of a kernel address. */
#define LOCKS_VALUE		0x110000000000UL
#define LOCKS_VALUE_SIZE	(1UL << 32)

/* Largest number of CPUs of the VM: the plugin counts for each of them. */
#define LOCKS_CPUS		8U

/**
 * enum locks_command - commands
 * @LOCKS_FUNCTION: the value is where a function that takes or releases spinlocks begins
 * @LOCKS_FUNCTION_END: the value is where it ends
 * @LOCKS_MODULE: the value is where htw's code begins
 * @LOCKS_MODULE_END: the value is where it ends
 * @LOCKS_NAME: the value is a character of the name of what is counted next
 * @LOCKS_LEARN: from here on, note which CPUs use which cache lines
 * @LOCKS_COUNT: from here on, count; the value is how many operations of each CPU were learnt from
 * @LOCKS_PAUSE: stop learning or counting until the same command again
 * @LOCKS_WRITE: write what was counted, and forget it; the value is how many operations it was
 * @LOCKS_COMMANDS: their number
 */
enum locks_command {
	LOCKS_FUNCTION,
	LOCKS_FUNCTION_END,
	LOCKS_MODULE,
	LOCKS_MODULE_END,
	LOCKS_NAME,
	LOCKS_LEARN,
	LOCKS_COUNT,
	LOCKS_PAUSE,
	LOCKS_WRITE,
	LOCKS_COMMANDS,
};

#endif /* BENCH_LOCKS_H */
