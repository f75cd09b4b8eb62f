// SPDX-License-Identifier: MIT
/*
 * Fuzz target: compares the wheel with a sorted list, for afl++ (tools/fuzz)
 *
 * The first bytes of an input are the geometry of a wheel and its initial tick; each
 * following byte is an operation, with its arguments behind it. The model is an array that
 * is searched for its minimum. A difference ends in abort().
 *
 * wheel-fuzz -r COUNT runs COUNT pseudo-random inputs, the same ones each time. For other
 * arguments see input.h.
 */
#include "../../htw_wheel.h"
#include "input.h"

#include <stdlib.h>
#include <linux/numa.h>

#define NODES		48

struct timer {
	struct htw_node node;
	u64 tick;	/* when it has to expire */
	u64 key;	/* the tick by which timers are ordered */
	u64 serial;	/* orders timers of one key */
	bool pending;
};

static struct timer timers[NODES];
static struct htw_wheel wheel;
static u64 now, serials, pending;
/*
 * @mixed: since a rewind, timers that had been due may expire in another order.
 * @disordered: after a second rewind before that was over, all pending timers may.
 */
static bool mixed, disordered;

#define CHECK(condition) do {							\
	if (!(condition)) {							\
		fprintf(stderr, "%s:%d: %s (now %llu)\n", __FILE__, __LINE__,	\
			#condition, (unsigned long long)now);			\
		abort();							\
	}									\
} while (0)

/* The first timer to expire of those that are due by tick @by, or NULL. */
static struct timer *first_due(u64 by)
{
	struct timer *best = NULL, *t;

	for (t = timers; t < timers + NODES; t++)
		if (t->pending && t->key <= by &&
		    (!best || t->key < best->key ||
		     (t->key == best->key && t->serial < best->serial)))
			best = t;
	return best;
}

static u64 earliest(void)
{
	const struct timer *t = first_due(U64_MAX);

	return t ? t->key : HTW_NEVER;
}

/* A timer whose tick has come already is ordered after those that are due. */
static void set_key(struct timer *t)
{
	t->key = max(t->tick, wheel.cursor - 1);
	t->serial = serials++;
}

static void start(struct timer *t, u64 tick)
{
	const u64 next = wheel.next;
	bool ahead;

	t->tick = tick;
	t->node.expires = tick;
	set_key(t);
	t->pending = true;
	pending++;
	ahead = htw_wheel_start(&wheel, &t->node);
	/* A start that makes the next work earlier has to say so. */
	CHECK(ahead == (wheel.next < next));
	CHECK(wheel.next <= t->key || wheel.next <= tick);
}

static void stop(struct timer *t)
{
	htw_wheel_stop(&wheel, &t->node);
	t->pending = false;
	pending--;
}

static void restart(struct timer *t, u64 tick)
{
	t->tick = tick;
	htw_wheel_unlink(&wheel, &t->node);
	t->node.expires = tick;
	set_key(t);
	htw_wheel_link(&wheel, &t->node);
}

/*
 * Expire within a budget and compare with the model's order. During a rewind, timers may
 * be due that the wheel has not found yet.
 */
static void expire(unsigned int budget)
{
	struct htw_node *n;
	bool looking;

	while ((n = htw_wheel_expire(&wheel, now, &budget))) {
		struct timer *t = container_of(n, struct timer, node);

		CHECK(t->pending);
		CHECK(t->tick <= now);
		CHECK(mixed || disordered || t == first_due(now));
		t->pending = false;
		pending--;
	}
	if (list_empty(&wheel.due) && list_empty(&wheel.overflow_scan))
		mixed = false;
	if (!pending)
		disordered = false;
	if (!budget)
		return;
	looking = !list_empty(&wheel.overflow_scan);
	CHECK(looking || !first_due(now));
	if (htw_wheel_cascade(&wheel, &budget) && !(looking && first_due(now))) {
		wheel.next = htw_wheel_next(&wheel);
		/* In time for the first timer, and only if there is one. */
		CHECK(wheel.next <= earliest());
		CHECK(wheel.next > now);
		CHECK(pending || wheel.next == HTW_NEVER);
	} else {
		wheel.next = 0;
	}
}

static void expire_all(void)
{
	do {
		wheel.next = 0;		/* as a base does during a turn */
		expire(1000);
	} while (!wheel.next);
	CHECK(!first_due(now));
}

/* Rewind the wheel; timers that are not due keep their order. */
static void rewind_to(u64 to)
{
	struct timer *order[NODES], *t;
	unsigned int count = 0, i;

	while ((t = first_due(U64_MAX))) {
		order[count++] = t;
		t->pending = false;
	}
	now = to;
	htw_wheel_rewind(&wheel, now);
	disordered |= mixed;
	mixed = true;
	for (i = 0; i < count; i++) {
		order[i]->pending = true;
		set_key(order[i]);
	}
}

static void evict_all(void)
{
	struct htw_node *n;

	while ((n = htw_wheel_evict(&wheel))) {
		struct timer *t = container_of(n, struct timer, node);

		CHECK(t->pending);
		t->pending = false;
		pending--;
	}
	CHECK(!pending);
}

static void coalesce(struct input *in)
{
	const u64 first = now + number(in, 20), last = first + number(in, 20);
	const u64 tick = htw_wheel_coalesce(&wheel, first, last);

	CHECK(tick >= first && tick <= last);
}

/*
 * Timers have different deadlines within a tick: the slot number says which. Those that are
 * looked at all belong to the tick after the present one.
 */
static bool has_come(const struct htw_node *n, u64 time)
{
	const struct timer *t = container_of(n, struct timer, node);

	CHECK(t->pending && t->tick == now + 1);
	return (u64)(t - timers) % 8 <= time;
}

/* Start a timer whose deadline came within the present tick, as the module does. */
static void start_due(struct timer *t)
{
	const u64 time = (t - timers) / 8, next = wheel.next;
	struct timer *order[NODES], *o;
	unsigned int count = 0, i;
	bool ahead = false, in_order, last_is_due;

	/* The next tick's timers in the order in which they were started. */
	for (o = timers; o < timers + NODES; o++) {
		if (!o->pending || o->tick != now + 1)
			continue;
		for (i = count++; i && order[i - 1]->serial > o->serial; i--)
			order[i] = order[i - 1];
		order[i] = o;
	}
	last_is_due = count && has_come(&order[count - 1]->node, time);
	in_order = htw_wheel_make_due(&wheel, now, has_come, time, &ahead);
	CHECK(ahead == (wheel.next < next));
	if (now + 1 >= wheel.level[0].end) {
		CHECK(!in_order);
	} else {
		CHECK(in_order == (count <= 32 || !last_is_due));
		/* Those that were made due, in their order. */
		for (i = 0; i < count && i < 32; i++) {
			if (!has_come(&order[i]->node, time))
				continue;
			order[i]->tick = now;
			set_key(order[i]);
		}
	}
	start(t, in_order ? now : now + 1);
}

static void operation(struct input *in)
{
	const u8 op = byte(in);
	struct timer *t = &timers[byte(in) % NODES];
	u64 to;

	switch (op % 16) {
	case 0 ... 4:
		to = now + number(in, 40);
		if (t->pending)
			restart(t, to);
		else
			start(t, to);
		break;
	case 5:
		if (t->pending)
			stop(t);
		break;
	case 6:
		/* In the past, or at any tick. */
		to = op & 16 ? number(in, 64) : now - min(now, number(in, 16));
		if (!t->pending)
			start(t, to);
		break;
	case 7 ... 9:
		now += number(in, 12);
		expire(1 + byte(in) % 8);
		break;
	case 10:
		now += number(in, 40);
		expire_all();
		break;
	case 11:
		/* Sleep until the next work. */
		expire_all();
		if (wheel.next != HTW_NEVER && wheel.next < 1ULL << 62) {
			now = max(now, wheel.next);
			expire_all();
		}
		break;
	case 12:
		htw_wheel_forward(&wheel, now);
		if ((op & 48) == 48 && !t->pending)
			start_due(t);
		break;
	case 13:
		rewind_to(now - min(now, number(in, 30)));
		break;
	case 14:
		coalesce(in);
		break;
	case 15:
		expire(1 + byte(in));
		if (op & 16)
			evict_all();
		break;
	}
	CHECK(wheel.pending == pending);
	/* Stay away from the last ticks. */
	if (now > 1ULL << 62)
		in->at = in->size;
}

static void run(const u8 *data, size_t size)
{
	struct input in = { .data = data, .size = size };
	struct htw_geometry geo;
	const char *why;
	unsigned int l;

	memset(&geo, 0, sizeof(geo));
	geo.levels = 1 + byte(&in) % HTW_WHEEL_MAX_LEVELS;
	for (l = 0; l < geo.levels; l++) {
		const u8 slots = byte(&in);

		geo.slots[l] = slots < 8 ? 1u << (slots + 1) : slots;
	}
	if (htw_geometry_check(&geo, &why))
		return;
	memset(timers, 0, sizeof(timers));
	pending = 0;
	serials = 0;
	mixed = false;
	disordered = false;
	now = number(&in, 48);
	if (htw_wheel_init(&wheel, &geo, now, GFP_KERNEL, NUMA_NO_NODE))
		abort();
	while (in.at < in.size)
		operation(&in);
	/* Expire all that is left, but for ticks that are too far away. */
	expire_all();
	while (wheel.next < 1ULL << 62) {
		now = max(now, wheel.next);
		expire_all();
	}
	CHECK(wheel.pending == pending);
	evict_all();
	htw_wheel_destroy(&wheel);
}

static void run_random(unsigned long count)
{
	static u8 data[INPUT_MAX];
	u64 state = 88172645463325252ULL;
	unsigned long i;
	size_t n, size;

	for (i = 0; i < count; i++) {
		size = 16 + i % 1000;
		for (n = 0; n < size; n++) {
			state ^= state << 13;
			state ^= state >> 7;
			state ^= state << 17;
			data[n] = state >> 32;
		}
		/* Wheels of up to five levels. */
		data[0] = i % 5;
		run(data, size);
	}
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "-r")) {
		run_random(strtoul(argv[2], NULL, 10));
		printf("%s made-up inputs\n", argv[2]);
		return 0;
	}
	return run_inputs(argc, argv);
}
