/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * How htw-bench drives timers in the kernel: /dev/htw_bench
 *
 * The module does what htw-bench's own loops do for other systems, with the
 * same delays and orders, so that one program measures all.
 */
#ifndef HTW_BENCH_H
#define HTW_BENCH_H

#include <linux/ioctl.h>
#include <linux/types.h>

/**
 * struct htw_bench_prepare - argument of HTW_BENCH_PREPARE
 * @pending: number of timers
 * @reserved: zero
 * @rearm_order: address of their numbers, __u32, in the order to re-arm them
 * @cancel_order: the same for cancelling
 * @delay: address of their delays, __u64, in ns
 * @later: the same for re-arming
 */
struct htw_bench_prepare {
	__u32 pending;
	__u32 reserved;
	__u64 rearm_order;
	__u64 cancel_order;
	__u64 delay;
	__u64 later;
};

/* Argument of HTW_BENCH_OPEN. */
enum htw_bench_system_number {
	HTW_BENCH_HTW,
	HTW_BENCH_TIMER_LIST,
	HTW_BENCH_HRTIMER,
	HTW_BENCH_SYSTEMS,
};

#define HTW_BENCH_IOC		0xfa

#define HTW_BENCH_PREPARE	_IOW(HTW_BENCH_IOC, 0, struct htw_bench_prepare)
/* The others have an argument by value, or none. */
#define HTW_BENCH_OPEN		_IO(HTW_BENCH_IOC, 1)	/* system */
#define HTW_BENCH_ADD		_IO(HTW_BENCH_IOC, 2)
#define HTW_BENCH_REARM		_IO(HTW_BENCH_IOC, 3)	/* count */
#define HTW_BENCH_CANCEL	_IO(HTW_BENCH_IOC, 4)	/* count */
#define HTW_BENCH_COLLECT	_IO(HTW_BENCH_IOC, 5)	/* returns the number of expirations */
#define HTW_BENCH_CLOSE		_IO(HTW_BENCH_IOC, 6)

#endif /* HTW_BENCH_H */
