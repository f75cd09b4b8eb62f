// SPDX-License-Identifier: GPL-2.0-only
/*
 * std::priority_queue with lazy deletion: a stop leaves the entry in the heap, a restart adds
 * another one, and an entry that is not its timer's any more is dropped when it comes first
 */
#include <climits>
#include <functional>
#include <new>
#include <queue>
#include <vector>
#include "bench.h"

#define INSTANCES	4096
#define LEAST		1
#define MOST		UINT32_MAX
/* The tick; the heap is counted as malloc() gives it. */
#define TIMER_BYTES	sizeof(uint64_t)
#define HAS_NEXT	1
#define SUBTRACT_PASS	0
#define OWN_CLOCK	0

struct timer {
	uint64_t tick;		/* zero if it is not pending */
	uint64_t fired;
};

struct entry {
	uint64_t tick;
	struct timer *timer;

	bool operator>(const entry &other) const
	{
		return tick > other.tick;
	}
};

struct instance {
	std::priority_queue<entry, std::vector<entry>, std::greater<entry>> heap;
};

static void open_instance(struct instance *s, const struct bench *)
{
	new (s) instance();
}

static void close_instance(struct instance *s)
{
	s->~instance();
}

static inline void start(struct instance *s, struct timer *t, uint64_t tick)
{
	t->tick = tick;
	s->heap.push(entry{tick, t});
}

static inline void restart(struct instance *s, struct timer *t, uint64_t tick)
{
	start(s, t, tick);
}

static inline void stop(struct instance *, struct timer *t)
{
	t->tick = 0;
}

static inline uint64_t next(struct instance *s)
{
	for (; !s->heap.empty(); s->heap.pop()) {
		const entry &first = s->heap.top();

		if (first.timer->tick == first.tick)
			return first.tick;
	}
	return BENCH_NEVER;
}

static inline void advance(struct instance *s, uint64_t now)
{
	while (!s->heap.empty() && s->heap.top().tick <= now) {
		const entry first = s->heap.top();

		s->heap.pop();
		if (first.timer->tick != first.tick)
			continue;
		first.timer->tick = 0;
		first.timer->fired = bench_now;
		bench_fired++;
	}
}

static void wait_for(uint64_t)
{
}

#include "life.h"
