/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The engine: on each CPU a wheel, paced by an hrtimer
 */
#ifndef _HTW_ENGINE_H
#define _HTW_ENGINE_H

#include <linux/hrtimer.h>
#include <linux/percpu.h>
#include <linux/smp.h>
#include <linux/spinlock.h>

#include "htw_wheel.h"

/*
 * sparse counts locks by following the code. Where the lock to take or to drop
 * is data, and may be none, it cannot; lockdep looks after those.
 */
#ifdef __CHECKER__
#define htw_lock(lock)		((void)(lock))
#define htw_lock_nested(lock, subclass)	((void)(lock), (void)(subclass))
#define htw_unlock(lock)	((void)(lock))
#else
#define htw_lock(lock)		spin_lock(lock)
#define htw_lock_nested(lock, subclass)	spin_lock_nested(lock, subclass)
#define htw_unlock(lock)	spin_unlock(lock)
#endif

#define HTW_LATE_BUCKETS	24

/**
 * enum htw_clock - the clocks that wheels run on
 * @HTW_CLOCK_MONOTONIC: CLOCK_MONOTONIC
 * @HTW_CLOCK_BOOTTIME: CLOCK_BOOTTIME
 * @HTW_CLOCK_REALTIME: CLOCK_REALTIME; it can be set, also backwards
 * @HTW_CLOCKS: how many of them drive wheels on the CPUs
 * @HTW_CLOCK_STILL: moves only by htw_base_advance()
 */
enum htw_clock {
	HTW_CLOCK_MONOTONIC,
	HTW_CLOCK_BOOTTIME,
	HTW_CLOCK_REALTIME,
	HTW_CLOCKS,
	HTW_CLOCK_STILL = HTW_CLOCKS,
};

/**
 * struct htw_base - a wheel and what drives it
 * @lock: guards all below and the nodes in the wheel; taken with bottom halves
 *	off. Order: a base's lock, then a context's; two bases' locks by
 *	htw_base_lock_two()
 * @expiry_lock: held while the functions of callouts run, so that one can wait
 *	for them; taken before @lock
 * @running: the callout whose function runs, or NULL
 * @wheel: the timers, in ticks since the clock's zero
 * @hrtimer: programmed for @wheel.next; without work it is not. That of a
 *	CPU's base is started only on that CPU, or by its own callback
 * @kick: brings @hrtimer's CPU to program it, when another CPU must have it so
 * @clock: which clock; never changes
 * @tick_ns: length of a tick; never changes
 * @cpu: whose wheel this is; for a private one 0; never changes
 * @private: not a CPU's, but one context's; never changes
 * @offline: the CPU has gone and its timers have moved
 * @still_ns: the time of %HTW_CLOCK_STILL; written under @lock
 * @callbacks: how often the hrtimer's callback ran
 * @exhausted: how often it ran out of its budget
 * @rewinds: how often the clock was found to have been set back
 * @late: expirations by how late they were: below 1, 2, 4, ... times 1024 ns
 */
struct htw_base {
	spinlock_t lock;	/* order: this, then a context's */
	spinlock_t expiry_lock;	/* order: this, then @lock */
	struct htw_node *running;
	struct htw_wheel wheel;
	struct hrtimer hrtimer;
	call_single_data_t kick;
	enum htw_clock clock;
	u32 tick_ns;
	unsigned int cpu;
	bool private;
	bool offline;
	atomic64_t still_ns;
	u64 callbacks;
	u64 exhausted;
	u64 rewinds;
	u64 late[HTW_LATE_BUCKETS];
};

/* Set before the first base is made, then never changed. */
extern struct htw_geometry htw_geometry;
extern u32 htw_tick_ns;

DECLARE_PER_CPU(struct htw_base *, htw_bases[HTW_CLOCKS]);

int htw_engine_init(void);
void htw_engine_exit(void);
int htw_engine_use_clock(enum htw_clock clock);

struct htw_base *htw_base_alloc_private(enum htw_clock clock, const struct htw_geometry *geo,
					u32 tick_ns);
void htw_base_free(struct htw_base *base);

void htw_base_lock_two(struct htw_base *a, struct htw_base *b);
void htw_base_unlock_two(struct htw_base *a, struct htw_base *b);
void htw_callout_run(struct htw_base *base, struct htw_node *n);

struct htw_base *htw_base_here(enum htw_clock clock, int home);
u64 htw_clock_now(enum htw_clock clock);

/**
 * htw_base_now() - the time that a base's deadlines are compared with
 * @base: the base
 *
 * Return: its clock, in ns.
 */
static inline u64 htw_base_now(const struct htw_base *base)
{
	if (base->clock == HTW_CLOCK_STILL)
		return atomic64_read(&base->still_ns);
	return htw_clock_now(base->clock);
}

void htw_base_start(struct htw_base *base, struct htw_node *n, u64 deadline, u64 slack,
		    u64 now);
bool htw_base_restart(struct htw_base *base, struct htw_node *n, u64 deadline, u64 slack,
		      u64 now);
void htw_base_stop(struct htw_base *base, struct htw_node *n);
bool htw_base_advance(struct htw_base *base, u64 now, u64 *expired);

#endif /* _HTW_ENGINE_H */
