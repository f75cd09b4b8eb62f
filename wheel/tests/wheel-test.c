// SPDX-License-Identifier: MIT
/*
 * Test of the wheel as two files, in C and in C++
 *
 * It takes what a program would use, no more. Prints TAP. The module's and the
 * library's tests say more about the wheel itself.
 */
#include "htw_wheel_check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In C99, too. */
#define STATIC_ASSERT(name, condition)	typedef char name[(condition) ? 1 : -1]

STATIC_ASSERT(node_is_two_links_and_a_tick, sizeof(struct htw_node) == 2 * sizeof(void *) + 8);
STATIC_ASSERT(wheel_is_small, sizeof(struct htw_wheel) <= (sizeof(void *) == 8 ? 816 : 528));

#define FAIL(...) do {							\
	printf("# %s:%d: ", __FILE__, __LINE__);			\
	printf(__VA_ARGS__);						\
	putchar('\n');							\
	failures++;							\
} while (0)
#define CHECK(condition) do {						\
	if (!(condition))						\
		FAIL("%s", #condition);					\
} while (0)

static int failures;

static uint64_t state = 1;

static uint64_t pick(uint64_t below)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (state >> 33) % below;
}

/* The shapes in which all is tried; the first has no levels, and is the only one without them. */
static const struct htw_geometry shapes[] = {
	{ 0, { 0 } },
	{ 1, { 2 } },
	{ 3, { 8, 8, 8 } },
	{ 5, { 256, 64, 64, 64, 64 } },
	{ 3, { 60, 60, 12 } },
	{ 8, { 2, 3, 2, 3, 2, 3, 2, 3 } },
};
#define COUNT(array)	(sizeof(array) / sizeof((array)[0]))
#define SHAPES		(HTW_WHEEL_LEVELS ? COUNT(shapes) : 1)

static struct htw_wheel wheel;

#if HTW_WHEEL_LEVELS
static void add_levels(const struct htw_geometry *shape)
{
	size_t bytes = htw_geometry_bytes(shape);

	CHECK(htw_wheel_add_levels(&wheel, shape, malloc(bytes), bytes));
}

static void remove_levels(void)
{
	free(htw_wheel_remove_levels(&wheel));
}
#else
static void add_levels(const struct htw_geometry *shape)
{
	(void)shape;
}

static void remove_levels(void)
{
}
#endif

static void begin(const struct htw_geometry *shape, uint64_t now)
{
	htw_wheel_init(&wheel, now);
	if (shape->levels)
		add_levels(shape);
}

static void end(void)
{
	CHECK(!htw_wheel_count(&wheel));
	remove_levels();
}

/* What the wheel is held against: a table, in which the next is searched. */
#define TIMERS	200

struct timer {
	struct htw_node node;
	bool pending;
	uint64_t tick;		/* when it expires: not before the tick after its start */
	uint64_t order;
};

static struct timer timers[TIMERS];
static uint64_t orders;

static struct timer *first_timer(void)
{
	struct timer *best = NULL;

	for (struct timer *t = timers; t < timers + TIMERS; t++)
		if (t->pending && (!best || t->tick < best->tick ||
				   (t->tick == best->tick && t->order < best->order)))
			best = t;
	return best;
}

static uint64_t pending_timers(void)
{
	uint64_t n = 0;

	for (struct timer *t = timers; t < timers + TIMERS; t++)
		n += t->pending;
	return n;
}

static void count_one(struct htw_node *n, void *arg)
{
	struct timer *t = HTW_CONTAINER_OF(n, struct timer, node);

	CHECK(t->pending);
	++*(uint64_t *)arg;
}

/* Mostly near, so that many share one; sometimes far away; sometimes in the past. */
static uint64_t some_tick(uint64_t now)
{
	if (pick(8))
		return now + pick(40);
	return pick(4) ? now + pick(100000) : pick(now);
}

static void random_steps(const struct htw_geometry *shape, unsigned int most)
{
	uint64_t now = pick(1000), all;

	for (int i = 0; i < TIMERS; i++) {
		htw_node_init(&timers[i].node);
		timers[i].pending = false;
	}
	begin(shape, now);
	for (int step = 0; step < 4000 && !failures; step++) {
		struct timer *t = &timers[pick(most)], *first;
		uint64_t tick = some_tick(now);
		unsigned int budget = 1 + (unsigned int)pick(30);
		struct htw_node *n;
		bool ahead;
		uint64_t next;

		switch (pick(4)) {
		case 0:
		case 1:
			next = wheel.next;
			ahead = htw_wheel_restart(&wheel, &t->node, tick);
			CHECK(ahead == (wheel.next < next));
			t->pending = true;
			/* One whose tick has come is behind those that are due. */
			t->tick = tick > now ? tick : now;
			t->order = orders++;
			break;
		case 2:
			CHECK(htw_node_pending(&t->node) == t->pending);
			if (t->pending)
				htw_wheel_stop(&wheel, &t->node);
			t->pending = false;
			break;
		case 3:
			now += pick(4) ? pick(20) : pick(20000);
			htw_wheel_forward(&wheel, now);
			do {
				budget += 10;
				while ((n = htw_wheel_expire(&wheel, now, &budget))) {
					first = first_timer();
					CHECK(first && n == &first->node);
					if (!first)
						return;
					CHECK(first->tick <= now && !htw_node_pending(n));
					first->pending = false;
				}
			} while (!budget || !htw_wheel_cascade(&wheel, &budget));
			first = first_timer();
			CHECK(!first || first->tick > now);
			next = htw_wheel_next(&wheel);
			CHECK(first ? next <= first->tick : next == HTW_NEVER);
			CHECK(next > now);
			break;
		}
		CHECK(htw_wheel_count(&wheel) == pending_timers());
	}
	all = 0;
	htw_wheel_walk(&wheel, count_one, &all);
	CHECK(all == pending_timers());
	for (struct htw_node *n; (n = htw_wheel_evict(&wheel)); all--)
		HTW_CONTAINER_OF(n, struct timer, node)->pending = false;
	CHECK(!all && !pending_timers());
	end();
}

static void few_as_a_table(void)
{
	for (unsigned int i = 0; i < 10 * SHAPES; i++)
		random_steps(&shapes[i % SHAPES], 20);
}

static void many_as_a_table(void)
{
	for (unsigned int i = 0; i < 10 * SHAPES; i++)
		random_steps(&shapes[i % SHAPES], TIMERS);
}

static void expired_at(struct htw_node *n, void *arg)
{
	CHECK(n->list.next == NULL);
	*(struct htw_node **)arg = n;
}

/* A caller that only wakes at htw_wheel_next() expires each node at its tick, from any start. */
static void next_is_enough(void)
{
	for (unsigned int i = 0; i < SHAPES; i++) {
		for (int bit = 0; bit < 62; bit++) {
			static struct htw_node n;
			struct htw_node *expired = NULL;
			uint64_t power = (uint64_t)1 << bit;
			uint64_t tick = power + pick(bit < 30 ? power : 1 << 30);
			int turns = 0;

			begin(&shapes[i], 0);
			htw_wheel_start(&wheel, &n, tick);
			while (!expired && turns++ < 200) {
				uint64_t now = htw_wheel_next(&wheel);
				unsigned int budget = 64;

				CHECK(now <= tick);
				htw_wheel_advance(&wheel, now, &budget, expired_at, &expired);
				CHECK((expired != NULL) == (now == tick));
			}
			CHECK(expired == &n);
			CHECK(htw_wheel_next(&wheel) == HTW_NEVER);
			end();
		}
	}
}

/* What an expiration may do: free and stop nodes, itself and the next, and start. */
struct doer {
	struct htw_node node;
	int what;
	struct doer *other;
};

static int done;

static void do_it(struct htw_node *n, void *arg)
{
	struct doer *d = HTW_CONTAINER_OF(n, struct doer, node);

	done++;
	switch (d->what) {
	case 0:		/* frees itself */
		free(d);
		break;
	case 1:		/* stops and frees the next, and itself */
		htw_wheel_stop(&wheel, &d->other->node);
		free(d->other);
		free(d);
		break;
	case 2:		/* starts itself again, for a tick that has come */
		htw_wheel_start(&wheel, n, 0);
		break;
	case 3:		/* frees one that expires much later */
		if (htw_node_pending(&d->other->node))
			htw_wheel_stop(&wheel, &d->other->node);
		free(d->other);
		free(d);
		break;
	}
	(void)arg;
}

static struct doer *new_doer(int what, uint64_t tick)
{
	struct doer *d = (struct doer *)calloc(1, sizeof(*d));

	d->what = what;
	htw_wheel_start(&wheel, &d->node, tick);
	return d;
}

static void anything_in_an_expiration(void)
{
	for (unsigned int i = 0; i < SHAPES; i++) {
		for (int others = 0; others < 200; others += 100) {
			unsigned int budget = 10000;
			struct doer *d;

			begin(&shapes[i], 0);
			for (int k = 0; k < others; k++)
				new_doer(0, 1 + pick(100));
			for (int k = 0; k < 10; k++) {
				d = new_doer(1, 50);
				d->other = new_doer(0, 50 + (uint64_t)(k & 1));
				d = new_doer(3, 50);
				d->other = new_doer(0, 1000000);
			}
			done = 0;
			while (!htw_wheel_advance(&wheel, 200, &budget, do_it, NULL))
				budget = 1000;
			CHECK(done == others + 20);
			CHECK(!htw_wheel_count(&wheel));
			end();
		}
	}
}

/* A timer that starts itself for a tick that has come is expired again, within the budget. */
static void feeding_itself_ends(void)
{
	for (unsigned int i = 0; i < SHAPES; i++) {
		unsigned int budget = 100;
		struct doer *d;

		begin(&shapes[i], 0);
		d = new_doer(2, 10);
		done = 0;
		CHECK(htw_wheel_advance(&wheel, 9, &budget, do_it, NULL));
		CHECK(!done);
		budget = 100;
		CHECK(!htw_wheel_advance(&wheel, 10, &budget, do_it, NULL));
		CHECK(!budget && done > 90 && done <= 100);
		CHECK(htw_wheel_next(&wheel) <= 10);
		htw_wheel_stop(&wheel, &d->node);
		free(d);
		end();
	}
}

/* An advance expires as many nodes as its budget has, and later ones the rest, in order. */
static void at_most_so_many(void)
{
	for (unsigned int i = 0; i < SHAPES; i++) {
		static struct htw_node nodes[300];
		struct htw_node *n;
		int at = 0, turns = 0;

		begin(&shapes[i], 0);
		for (int k = 0; k < 300; k++) {
			htw_node_init(&nodes[k]);
			htw_wheel_start(&wheel, &nodes[k], 7);
		}
		do {
			unsigned int budget = 7;
			int took = 0;

			while ((n = htw_wheel_expire(&wheel, 7, &budget))) {
				CHECK(n == &nodes[at]);
				at++;
				took++;
			}
			CHECK(took <= 7);
		} while (at < 300 && turns++ < 500);
		CHECK(at == 300);
		end();
	}
}

#if HTW_WHEEL_LEVELS
static void memory_is_as_told(void)
{
	for (int round = 0; round < 3000; round++) {
		struct htw_geometry geo;
		size_t slots = 0, bytes, words;
		unsigned char *memory;
		static struct htw_node n;

		geo.levels = 1 + (unsigned int)pick(HTW_WHEEL_MAX_LEVELS);
		for (unsigned int l = 0; l < geo.levels; l++) {
			geo.slots[l] = 2 + (unsigned int)pick(round & 1 ? 40 : 2047);
			slots += geo.slots[l];
		}
		if (htw_geometry_error(&geo))
			continue;
		bytes = htw_geometry_bytes(&geo);
		words = HTW_GEOMETRY_WORDS(geo.levels, slots);
		CHECK(words * 8 >= bytes);
		CHECK(words * 8 < bytes + geo.levels * sizeof(long) + 8);

		memory = (unsigned char *)malloc(bytes + 1);
		memory[bytes] = 0xa5;
		htw_wheel_init(&wheel, 0);
		CHECK(!htw_wheel_add_levels(&wheel, &geo, memory, bytes - 1));
		CHECK(htw_wheel_add_levels(&wheel, &geo, memory, bytes));
		htw_wheel_start(&wheel, &n, pick((uint64_t)1 << 40));
		htw_wheel_stop(&wheel, &n);
		CHECK(memory[bytes] == 0xa5);
		CHECK(htw_wheel_remove_levels(&wheel) == (void *)memory);
		free(memory);
	}
}

static void memory_may_be_static(void)
{
	static const struct htw_geometry geo = { 3, { 256, 64, 64 } };
	static uint64_t memory[HTW_GEOMETRY_WORDS(3, 256 + 64 + 64)];
	static struct htw_node n;
	unsigned int budget = 10;

	CHECK(sizeof(memory) >= htw_geometry_bytes(&geo));
	htw_wheel_init(&wheel, 5);
	CHECK(htw_wheel_add_levels(&wheel, &geo, memory, sizeof(memory)));
	htw_wheel_start(&wheel, &n, 10);
	CHECK(!htw_wheel_expire(&wheel, 9, &budget));
	CHECK(htw_wheel_expire(&wheel, 10, &budget) == &n);
	CHECK(htw_wheel_remove_levels(&wheel) == (void *)memory);
}

static void wrong_geometries(void)
{
	struct htw_geometry geo = { 2, { 64, 64 } };

	CHECK(!htw_geometry_error(&geo));
	geo.levels = 0;
	CHECK(htw_geometry_error(&geo));
	htw_wheel_init(&wheel, 0);
	CHECK(!htw_wheel_add_levels(&wheel, &geo, &geo, SIZE_MAX) && !wheel.levels);
	geo.levels = 9;
	CHECK(htw_geometry_error(&geo));
	geo.levels = 2;
	geo.slots[1] = 1;
	CHECK(htw_geometry_error(&geo));
	geo.slots[1] = 2049;
	CHECK(htw_geometry_error(&geo));
	geo.levels = 6;
	for (int l = 0; l < 6; l++)
		geo.slots[l] = 2048;
	CHECK(htw_geometry_error(&geo));
	for (uint64_t tick_ns = 1000; tick_ns <= 1000000000; tick_ns *= 10) {
		for (uint64_t nodes = 1; nodes <= 1000000000; nodes *= 10) {
			htw_geometry_default(&geo, tick_ns, nodes);
			CHECK(!htw_geometry_error(&geo));
			CHECK(geo.slots[0] == 2048 || (geo.slots[0] >= nodes / 64 &&
						       geo.slots[0] >= 20000000 / tick_ns));
		}
	}
}

static void levels_added_later(void)
{
	static struct htw_node nodes[1000];

	for (unsigned int i = 1; i < SHAPES; i++) {
		unsigned int budget = 100000;
		struct htw_node *n;
		int at = 0;

		begin(&shapes[0], 0);
		for (int k = 0; k < 1000; k++) {
			htw_node_init(&nodes[k]);
			htw_wheel_start(&wheel, &nodes[k], 10 + (uint64_t)k / 3);
			if (k == 500)
				add_levels(&shapes[i]);
		}
		for (uint64_t now = 0; now < 1000; now++) {
			while ((n = htw_wheel_expire(&wheel, now, &budget))) {
				CHECK(n == &nodes[at] && now == 10 + (uint64_t)at / 3);
				at++;
			}
			CHECK(htw_wheel_cascade(&wheel, &budget));
		}
		CHECK(at == 1000);
		end();
	}
}
#endif

static void clock_set_back(void)
{
	for (unsigned int i = 0; i < SHAPES; i++) {
		static struct htw_node n;
		struct htw_node *first = NULL;
		unsigned int budget = 1000;

		begin(&shapes[i], 0);
		htw_wheel_start(&wheel, &n, 5000);
		CHECK(!htw_wheel_expire(&wheel, 4000, &budget));
		htw_wheel_rewind(&wheel, 100);
		CHECK(!htw_wheel_expire(&wheel, 4999, &budget));
		CHECK(htw_wheel_first_node(&wheel, 10, &first) && first == &n);
		CHECK(htw_wheel_expire(&wheel, 5000, &budget) == &n);
		end();
	}
}

static void ticks_of_deadlines(void)
{
	CHECK(htw_tick_up(0, 10) == 0 && htw_tick_up(1, 10) == 1);
	CHECK(htw_tick_up(10, 10) == 1 && htw_tick_up(11, 10) == 2);
	CHECK(htw_coalesce(100, 100) == 100);
	CHECK(htw_coalesce(100, 130) == 128);
	CHECK(htw_coalesce(65, 127) == 96);
	for (int i = 0; i < 100000; i++) {
		uint64_t deadline = pick(1 << 30), last = deadline + pick((uint64_t)1 << pick(31));
		uint64_t tick_ns = 1 + pick(100000), time = htw_coalesce(deadline, last);
		uint64_t tick = htw_tick_within(deadline, last - deadline, tick_ns);

		CHECK(time >= deadline && time <= last);
		CHECK(tick * tick_ns >= deadline);
		if (last - deadline < tick_ns)
			CHECK(tick == htw_tick_up(deadline, tick_ns));
		else
			CHECK(tick * tick_ns <= last);
	}
	/* With a second of slack all that are due within one meet at most at three ticks. */
	for (uint64_t ms = 60000, last = 0, ticks = 0; ms < 61000; ms++) {
		uint64_t tick = htw_tick_within(ms * 1000000, 1000000000, 1000000);

		ticks += tick != last;
		last = tick;
		CHECK(ticks <= 3);
	}
}

/* A wheel is in order after each kind of call, and what others have written into it is found. */
static void faults_are_found(void)
{
	static struct htw_node nodes[100];

	for (unsigned int i = 0; i < SHAPES; i++) {
		for (int count = 1; count <= 100; count += 99) {
			struct htw_node *n = &nodes[count / 2], before, *neighbour;
			unsigned int budget = 10;

			begin(&shapes[i], 0);
			for (int k = 0; k < count; k++) {
				htw_node_init(&nodes[k]);
				htw_wheel_start(&wheel, &nodes[k], 20 + 3 * (uint64_t)k * k);
			}
			CHECK(!htw_wheel_check(&wheel));
			CHECK(htw_wheel_advance(&wheel, 15, &budget, expired_at, &neighbour));
			CHECK(!htw_wheel_check(&wheel));

			before.expires = n->expires;
			n->expires = 10;
			CHECK(htw_wheel_check(&wheel) != NULL);
			n->expires = HTW_NEVER;
			CHECK(htw_wheel_check(&wheel) != NULL);
			n->expires = before.expires;

			before.list.next = n->list.next;
			n->list.next = NULL;	/* as if it was zeroed */
			CHECK(htw_wheel_check(&wheel) != NULL);
			n->list.next = &n->list;	/* a list without an end */
			CHECK(htw_wheel_check(&wheel) != NULL);
			n->list.next = before.list.next;

			wheel.pending++;
			CHECK(htw_wheel_check(&wheel) != NULL);
			wheel.pending -= 2;
			CHECK(htw_wheel_check(&wheel) != NULL);
			wheel.pending++;
			CHECK(!htw_wheel_check(&wheel));

			while (htw_wheel_evict(&wheel))
				CHECK(!htw_wheel_check(&wheel));
			end();
		}
	}
}

static void version(void)
{
	CHECK(!strcmp(HTW_WHEEL_VERSION, VERSION));
}

#define TEST(name)	{ #name, name }

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
#if HTW_WHEEL_LEVELS
	TEST(memory_is_as_told), TEST(memory_may_be_static), TEST(wrong_geometries),
	TEST(levels_added_later),
#endif
	TEST(few_as_a_table), TEST(many_as_a_table), TEST(next_is_enough),
	TEST(anything_in_an_expiration), TEST(feeding_itself_ends), TEST(at_most_so_many),
	TEST(clock_set_back), TEST(ticks_of_deadlines), TEST(faults_are_found), TEST(version),
};

int main(void)
{
	int failed = 0;

	printf("1..%d\n", (int)COUNT(tests));
	for (unsigned int i = 0; i < COUNT(tests); i++) {
		failures = 0;
		tests[i].run();
		printf("%s %s\n", failures ? "not ok" : "ok", tests[i].name);
		failed += failures != 0;
	}
	return failed != 0;
}
