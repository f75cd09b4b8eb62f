// SPDX-License-Identifier: GPL-2.0-only
/*
 * Timers in the kernel at the machine's own speed, with the cache misses that
 * counting instructions leaves out
 *
 * Built into a kernel for ARCH=um, which runs as a process of the machine.
 * Measures during boot, prints a line for each figure and stops.
 */

#include <linux/init.h>
#include <linux/prandom.h>
#include <linux/printk.h>
#include <linux/reboot.h>
#include <linux/sched.h>
#include <linux/sort.h>

#include "bench_set.h"

#define NATIVE_ROUNDS	9
#define NATIVE_ENOUGH	200000u

/* Longer than a round takes on a busy machine: no timer may expire. */
#define DELAY_MIN	(600 * (u64)NSEC_PER_SEC)
#define DELAY_RANGE	(30 * (u64)NSEC_PER_SEC)

enum native_op {
	NATIVE_ADD,
	NATIVE_REARM,
	NATIVE_CANCEL,
	NATIVE_OPS,
};

static const char * const native_op_names[NATIVE_OPS] = { "add", "rearm", "cancel" };

static const struct bench_system * const native_systems[] = {
	&bench_htw, &bench_timer_list, &bench_hrtimer,
};

static const u32 native_pending[] __initconst = { 1000, 4000000 };

/* Picoseconds for each operation, by round. */
static u64 native_results[ARRAY_SIZE(native_systems)][NATIVE_OPS][NATIVE_ROUNDS] __initdata;

static void __init native_shuffle(struct rnd_state *rnd, u32 *order, u32 count)
{
	for (u32 i = 0; i < count; i++) {
		u32 j = prandom_u32_state(rnd) % (i + 1);

		order[i] = order[j];
		order[j] = i;
	}
}

static void __init native_fill(struct bench_set *set)
{
	struct rnd_state rnd;

	prandom_seed_state(&rnd, set->pending);
	native_shuffle(&rnd, set->rearm_order, set->pending);
	native_shuffle(&rnd, set->cancel_order, set->pending);
	for (u32 i = 0; i < set->pending; i++) {
		set->delay[i] = DELAY_MIN + (((u64)prandom_u32_state(&rnd) * DELAY_RANGE) >> 32);
		set->later[i] = DELAY_MIN + (((u64)prandom_u32_state(&rnd) * DELAY_RANGE) >> 32);
	}
}

/* Start, re-arm and stop all timers, repeatedly if they are few. */
static int __init native_round(struct bench_set *set, const struct bench_system *system,
			       u64 *picoseconds[NATIVE_OPS], unsigned int round)
{
	u64 ns[NATIVE_OPS] = {}, count = 0, t;
	u32 wrong = 0;
	int ret;

	ret = bench_open(set, system);
	if (ret)
		return ret;
	while (count < NATIVE_ENOUGH) {
		set->base = ktime_get_ns();
		t = set->base;
		wrong += system->add(set);
		ns[NATIVE_ADD] += ktime_get_ns() - t;
		t = ktime_get_ns();
		wrong += system->rearm(set, set->pending);
		ns[NATIVE_REARM] += ktime_get_ns() - t;
		t = ktime_get_ns();
		wrong += system->cancel(set, set->pending);
		ns[NATIVE_CANCEL] += ktime_get_ns() - t;
		count += set->pending;
	}
	bench_close(set);
	for (unsigned int op = 0; op < NATIVE_OPS; op++)
		picoseconds[op][round] = div64_u64(ns[op] * 1000, count);
	return wrong || atomic_read(&set->collected) ? -EBADMSG : 0;
}

static int __init native_compare(const void *a, const void *b)
{
	const u64 *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void __init native_print(u32 pending)
{
	for (unsigned int s = 0; s < ARRAY_SIZE(native_systems); s++) {
		for (unsigned int op = 0; op < NATIVE_OPS; op++) {
			u64 *r = native_results[s][op];

			sort(r, NATIVE_ROUNDS, sizeof(*r), native_compare, NULL);
			pr_info("htw-bench: %s %s %u %llu ps\n", native_systems[s]->name,
				native_op_names[op], pending, r[NATIVE_ROUNDS / 2]);
		}
	}
}

/* The systems take turns, so that other load on the machine hits all of them. */
static int __init native_measure(u32 pending)
{
	struct bench_set *set = &bench_set;
	int ret;

	ret = bench_prepare(set, pending);
	if (ret)
		return ret;
	native_fill(set);
	for (unsigned int round = 0; round < NATIVE_ROUNDS && !ret; round++) {
		for (unsigned int s = 0; s < ARRAY_SIZE(native_systems) && !ret; s++) {
			u64 *results[NATIVE_OPS];

			for (unsigned int op = 0; op < NATIVE_OPS; op++)
				results[op] = native_results[s][op];
			ret = native_round(set, native_systems[s], results, round);
			cond_resched();
		}
	}
	if (!ret)
		native_print(pending);
	bench_forget(set);
	return ret;
}

static int __init native_init(void)
{
	int ret = 0;

	for (unsigned int i = 0; i < ARRAY_SIZE(native_pending) && !ret; i++)
		ret = native_measure(native_pending[i]);
	pr_info("htw-bench: done, result %d\n", ret);
	kernel_halt();
	return 0;
}
late_initcall_sync(native_init);
