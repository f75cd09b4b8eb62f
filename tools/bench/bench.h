/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the parts of htw-bench share
 *
 * A system is something that keeps timeouts. All systems get the same number of
 * timers, the same delays and the same random order, and every result is checked.
 * Work is counted in instructions of the whole guest, by rdtsc in a VM whose
 * time-stamp counter counts them (tools/vm/run --icount).
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "../common/clock.h"

/* Operations in one call, and events collected by one. */
#define BATCH		256U

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#ifndef likely	/* the wheel's port has them as well */
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
 * @pending: their number
 * @rearm_order: their numbers in random order, for re-arming
 * @cancel_order: in another order: what re-arming moves to the end of a list
 *	would else be found at its beginning
 * @delay: when each is due, in ns from when it is added
 * @later: the same for re-arming
 * @base: CLOCK_MONOTONIC before the first was added: none is due before its
 *	delay has passed since
 * @handles: the system's id, or the like, of each timer
 * @seen: the timers that have been collected
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
 * @name: as reports call it
 * @missing: NULL, or the reason why it cannot hold @pending timers
 * @bound: the most operations of a kind that are worth waiting for; NULL or
 *	zero where all are done
 * @prepare: takes over what is to be done, where that needs memory that is no
 *	timer's; or NULL
 * @open: makes room, for what the program itself must hold as well: not counted
 * @add: starts all timers, with their delays
 * @rearm: gives the first @count in random order their new delay
 * @cancel: stops the first @count in random order
 * @collect: collects expirations without waiting, with bench_expired()
 * @close: ends all
 * @cleanup: undoes @prepare
 * @polls: @collect takes no system call where there is nothing, so a program would
 *	call it while it waits
 * @closes: whether what @close does is a cost of each timer's own, and counted
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

extern const struct system system_htw, system_htw_vector, system_htw_batch;
extern const struct system system_htw_ring, system_htw_table;
extern const struct system system_timerfd, system_posix, system_io_uring;
extern const struct system system_libevent, system_libev, system_libuv;
extern const struct system system_libhtw, system_wheel;
extern const struct system system_htw_kernel, system_timer_list, system_hrtimer;

__attribute__((format(printf, 1, 2), noreturn))
void die(const char *format, ...);

/* Allocates memory with all pages present, so that no page fault is counted later. */
void *allocate(size_t count, size_t size);
void release(void *p, size_t count, size_t size);

/* Under icount, the number of instructions that the guest has executed. */
static inline uint64_t instructions(void)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

/* The same numbers each time for the same @pending. */
void bench_init(struct bench *b, uint32_t pending);
void bench_exit(struct bench *b);
void bench_forget_seen(struct bench *b);

/* The same numbers follow the same seed. */
void random_seed(uint64_t number);
uint64_t random_next(void);
void fill_random(uint64_t *values, uint32_t count, uint64_t from, uint64_t range);
void shuffle(uint32_t *order, uint32_t count);

void bench_wrong_expiry(const struct bench *b, uint64_t timer, uint64_t now)
	__attribute__((noreturn));

/* Timer number @timer has been delivered, and the clock shows @now. */
static inline void bench_expired(struct bench *b, uint64_t timer, uint64_t now)
{
	if (unlikely(timer >= b->pending || b->seen[timer] || now < b->base + b->delay[timer]))
		bench_wrong_expiry(b, timer, now);
	b->seen[timer] = 1;
	b->collected++;
}

#endif /* BENCH_H */
