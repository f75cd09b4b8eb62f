// SPDX-License-Identifier: GPL-2.0-only
/* The random delays and orders of a round, equal for all systems. */
#include <string.h>
#include "../common/random.h"
#include "bench.h"

/* Random deadlines about half a minute ahead. */
#define DELAY_MIN	(15 * SEC)
#define DELAY_RANGE	(30 * SEC)

static __u64 seed = 1;

void random_seed(uint64_t number)
{
	seed = 88172645463325252ULL + number;
}

uint64_t random_next(void)
{
	return xorshift64(&seed);
}

void fill_random(uint64_t *values, uint32_t count, uint64_t from, uint64_t range)
{
	uint32_t i;

	for (i = 0; i < count; i++)
		values[i] = from + random_next() % range;
}

void shuffle(uint32_t *order, uint32_t count)
{
	uint32_t i;

	for (i = 0; i < count; i++) {
		uint32_t j = random_next() % (i + 1);

		order[i] = order[j];
		order[j] = i;
	}
}

void bench_wrong_expiry(const struct bench *b, uint64_t timer, uint64_t now)
{
	if (timer >= b->pending)
		die("unknown timer %llu expired", (unsigned long long)timer);
	if (b->seen[timer])
		die("timer %llu expired twice", (unsigned long long)timer);
	die("timer %llu expired %llu ns early", (unsigned long long)timer,
	    (unsigned long long)(b->base + b->delay[timer] - now));
}

void bench_init(struct bench *b, uint32_t pending)
{
	uint32_t *rearm_order = allocate(pending, sizeof(*rearm_order));
	uint32_t *cancel_order = allocate(pending, sizeof(*cancel_order));
	uint64_t *delay = allocate(pending, sizeof(*delay));
	uint64_t *later = allocate(pending, sizeof(*later));

	/* Independent of what was measured before. */
	random_seed(pending);
	shuffle(rearm_order, pending);
	shuffle(cancel_order, pending);
	fill_random(delay, pending, DELAY_MIN, DELAY_RANGE);
	fill_random(later, pending, DELAY_MIN, DELAY_RANGE);
	*b = (struct bench) {
		.pending = pending,
		.rearm_order = rearm_order,
		.cancel_order = cancel_order,
		.delay = delay,
		.later = later,
		.handles = allocate(pending, sizeof(*b->handles)),
		.seen = allocate(pending, sizeof(*b->seen)),
	};
}

void bench_exit(struct bench *b)
{
	release(b->rearm_order, b->pending, sizeof(*b->rearm_order));
	release(b->cancel_order, b->pending, sizeof(*b->cancel_order));
	release(b->delay, b->pending, sizeof(*b->delay));
	release(b->later, b->pending, sizeof(*b->later));
	release(b->handles, b->pending, sizeof(*b->handles));
	release(b->seen, b->pending, sizeof(*b->seen));
}

void bench_forget_seen(struct bench *b)
{
	memset(b->seen, 0, b->pending);
	b->collected = 0;
}
