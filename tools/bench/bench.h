/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the parts of htw-bench share
 *
 * A system is something that keeps timeouts. All systems get the same timers,
 * the same delays and the same random order, and each result is checked. The
 * measure is instructions of the whole guest, by rdtsc in a VM whose time-stamp
 * counter counts instructions (tools/vm/run --icount).
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "../common/clock.h"
#include "report.h"

/* Operations of each call, and most events of each read. */
#define BATCH		256U

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#ifndef likely	/* also defined by lib/port/linux/compiler.h */
#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
#endif

enum op_code {
	OP_ADD,
	OP_REARM,
	OP_CANCEL,
	OP_EXPIRE,
	OP_MEMORY,
	OP_CLOSE,
	OPS,
};

extern const char * const op_names[OPS];

/**
 * struct bench - the timers of one round
 * @pending: number of timers
 * @rearm_order: their numbers in random order, for re-arming
 * @cancel_order: in another random order, so that cancels do not find their
 *	timers at the head of a list
 * @delay: delay of each, in ns from its add
 * @later: delay of each when it is re-armed
 * @base: CLOCK_MONOTONIC before the first add: no timer may expire before @base
 *	plus its delay
 * @handles: the system's id of each timer, or what it uses as one
 * @seen: timers that have been collected
 * @collected: their number
 */
struct bench {
	uint32_t pending;
	uint32_t *rearm_order;
	uint32_t *cancel_order;
	uint64_t *delay;
	uint64_t *later;
	uint64_t base;
	uint64_t *handles;
	uint8_t *seen;
	uint64_t collected;
};

/**
 * struct system - something that keeps timeouts
 * @name: name in reports
 * @missing: return NULL, or why @pending timers are not possible
 * @bound: most operations of a kind worth waiting for; NULL or zero for all
 * @prepare: allocate what is not a timer's memory; or NULL
 * @open: allocate the program's own share; not counted
 * @add: start all timers
 * @rearm: move the first @count of @rearm_order
 * @cancel: stop the first @count of @cancel_order
 * @collect: take expirations without waiting, and pass each to bench_expired()
 * @close: end all timers
 * @cleanup: undo @prepare
 * @polls: @collect is cheap if nothing has expired, so a program calls it while it waits
 * @closes: closing costs time for each timer, and is counted
 */
struct system {
	const char *name;
	const char *(*missing)(uint32_t pending);
	uint32_t (*bound)(enum op_code op, uint32_t pending);
	void (*prepare)(struct bench *b);
	void (*open)(struct bench *b);
	void (*add)(struct bench *b);
	void (*rearm)(struct bench *b, uint32_t count);
	void (*cancel)(struct bench *b, uint32_t count);
	void (*collect)(struct bench *b);
	void (*close)(struct bench *b);
	void (*cleanup)(struct bench *b);
	bool polls;
	bool closes;
};

extern const struct system system_htw, system_htw_vector, system_htw_uring, system_htw_uring_16;
extern const struct system system_timerfd, system_posix, system_io_uring;
extern const struct system system_libevent, system_libev, system_libuv;
extern const struct system system_libhtw, system_wheel, system_rte_timer;
extern const struct system system_htw_kernel, system_timer_list, system_hrtimer;

/* Allocate memory with all pages present, so that no page fault is counted later. */
void *allocate(size_t count, size_t size);
void release(void *p, size_t count, size_t size);

/* Under icount: the number of instructions that the guest has executed. */
static inline uint64_t instructions(void)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

/* Equal for equal @pending. */
void bench_init(struct bench *b, uint32_t pending);
void bench_exit(struct bench *b);
void bench_forget_seen(struct bench *b);

/* Equal seeds give equal sequences. */
void random_seed(uint64_t number);
uint64_t random_next(void);
void fill_random(uint64_t *values, uint32_t count, uint64_t from, uint64_t range);
void shuffle(uint32_t *order, uint32_t count);

void bench_wrong_expiry(const struct bench *b, uint64_t timer, uint64_t now)
	__attribute__((noreturn));

/* Record that @timer was delivered and the clock shows @now. */
static inline void bench_expired(struct bench *b, uint64_t timer, uint64_t now)
{
	if (unlikely(timer >= b->pending || b->seen[timer] || now < b->base + b->delay[timer]))
		bench_wrong_expiry(b, timer, now);
	b->seen[timer] = 1;
	b->collected++;
}

#endif /* BENCH_H */
