// SPDX-License-Identifier: GPL-2.0-only
/*
 * DPDK's rte_timer: a skip list in the process, for each of its threads
 *
 * Built only where libdpdk is installed: see ../Makefile.
 */
#include "bench.h"

#ifdef HTW_BENCH_DPDK

#include <rte_eal.h>
#include <rte_timer.h>

static struct rte_timer *timers;
static struct bench *current;
/* Time of the first expiration that a call passes on. */
static uint64_t collected_at;

/* No memory but malloc()'s, no devices, and quiet. */
static void rte_prepare(struct bench *b)
{
	static char arguments[][32] = {
		"htw-bench", "--no-huge", "--no-shconf", "-l", "0", "--no-pci", "--no-telemetry",
		"--log-level=lib.eal:error",
	};
	char *pointers[ARRAY_SIZE(arguments) + 1] = { NULL };
	static bool ready;
	unsigned int i;

	current = b;
	for (i = 0; i < ARRAY_SIZE(arguments); i++)
		pointers[i] = arguments[i];
	if (!ready && (rte_eal_init(ARRAY_SIZE(arguments), pointers) < 0 ||
		       rte_timer_subsystem_init()))
		die("rte_timer: DPDK cannot be initialized");
	ready = true;
}

static void rte_open(struct bench *b)
{
	timers = allocate(b->pending, sizeof(*timers));
}

static void expired(struct rte_timer *timer, void *arg)
{
	(void)arg;
	if (unlikely(!collected_at))
		collected_at = now_ns();
	bench_expired(current, timer - timers, collected_at);
}

/*
 * To counts of the processor, and a thousandth more: DPDK takes their frequency for a multiple of
 * 10 MHz.
 */
static inline uint64_t counts(uint64_t ns)
{
	return (ns + ns / 1024) * (rte_get_timer_hz() / 1e9);
}

static inline void reset(uint32_t i, uint64_t ns)
{
	if (unlikely(rte_timer_reset(&timers[i], counts(ns), SINGLE, 0, expired, NULL) ||
		     !rte_timer_pending(&timers[i])))
		die("rte_timer: timer %u was not started", i);
}

static void rte_add(struct bench *b)
{
	uint32_t i;

	for (i = 0; i < b->pending; i++) {
		rte_timer_init(&timers[i]);
		reset(i, b->delay[i]);
	}
}

static void rte_rearm(struct bench *b, uint32_t count)
{
	uint32_t k;

	for (k = 0; k < count; k++)
		reset(b->rearm_order[k], b->later[k]);
}

static void rte_cancel(struct bench *b, uint32_t count)
{
	uint32_t k;

	for (k = 0; k < count; k++) {
		struct rte_timer *timer = &timers[b->cancel_order[k]];

		if (unlikely(!rte_timer_pending(timer) || rte_timer_stop(timer)))
			die("rte_timer: timer %u did not stop", b->cancel_order[k]);
	}
}

static void rte_collect(struct bench *b)
{
	(void)b;
	collected_at = 0;
	rte_timer_manage();
}

static void rte_close(struct bench *b)
{
	uint32_t i;

	for (i = 0; i < b->pending; i++)
		if (rte_timer_pending(&timers[i]))
			rte_timer_stop(&timers[i]);
	release(timers, b->pending, sizeof(*timers));
}

const struct system system_rte_timer = {
	.name = "rte_timer",
	.prepare = rte_prepare,
	.open = rte_open,
	.add = rte_add,
	.rearm = rte_rearm,
	.cancel = rte_cancel,
	.collect = rte_collect,
	.close = rte_close,
};

#else

static const char *rte_missing(uint32_t pending)
{
	(void)pending;
	return "htw-bench was built without DPDK (tools/deps bench-peers)";
}

const struct system system_rte_timer = {
	.name = "rte_timer",
	.missing = rte_missing,
};

#endif
