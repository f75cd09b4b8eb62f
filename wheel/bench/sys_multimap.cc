// SPDX-License-Identifier: GPL-2.0-only
/* std::multimap: a red-black tree. A restart moves the tree's node, without malloc(). */
#include <climits>
#include <map>
#include <new>
#include <utility>
#include "bench.h"

#define INSTANCES	4096
#define LEAST		1
#define MOST		UINT32_MAX
/* The iterator; its nodes are counted as malloc() gives them. */
#define TIMER_BYTES	sizeof(tree::iterator)
#define HAS_NEXT	1
#define SUBTRACT_PASS	0
#define OWN_CLOCK	0

struct timer;
using tree = std::multimap<uint64_t, struct timer *>;

struct timer {
	tree::iterator at;
	uint64_t fired;
};

struct instance {
	tree timers;
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
	t->at = s->timers.emplace(tick, t);
}

static inline void restart(struct instance *s, struct timer *t, uint64_t tick)
{
	auto node = s->timers.extract(t->at);

	node.key() = tick;
	t->at = s->timers.insert(std::move(node));
}

static inline void stop(struct instance *s, struct timer *t)
{
	s->timers.erase(t->at);
}

static inline uint64_t next(struct instance *s)
{
	return s->timers.empty() ? BENCH_NEVER : s->timers.begin()->first;
}

static inline void advance(struct instance *s, uint64_t now)
{
	tree::iterator first;

	while (!s->timers.empty() && (first = s->timers.begin())->first <= now) {
		struct timer *t = first->second;

		s->timers.erase(first);
		t->fired = bench_now;
		bench_fired++;
	}
}

static void wait_for(uint64_t)
{
}

#include "life.h"
