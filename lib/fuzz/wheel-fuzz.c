// SPDX-License-Identifier: MIT
/*
 * Fuzz target: compares the wheel with a sorted list, for afl++ (tools/fuzz)
 *
 * The first bytes of an input are the geometry of the levels that a wheel has, or may be given
 * later, and its initial tick; each
 * following byte is an operation, with its arguments behind it. The model is an array that
 * is searched for its minimum. A difference ends in abort().
 *
 * wheel-fuzz -r COUNT runs COUNT pseudo-random inputs, the same ones each time. For other
 * arguments see input.h.
 */
#include <assert.h>
#define HTW_ASSERT(condition)	assert(condition)
#include "../../wheel/check.h"
#include "input.h"

#include <stdlib.h>

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
static struct htw_geometry geometry;
static void *memory;

#define CHECK(condition) do {							\
	if (!(condition)) {							\
		fprintf(stderr, "%s:%d: %s (now %llu)\n", __FILE__, __LINE__,	\
			#condition, (unsigned long long)now);			\
		abort();							\
	}									\
} while (0)

/*
 * The first timer to expire of those that are due by tick @by, or NULL. After HTW_LAST_TICK none
 * expires.
 */
static struct timer *first_due(u64 by)
{
	struct timer *best = NULL, *t;

	by = min(by, HTW_LAST_TICK);
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
	const bool is_ahead = htw_wheel_is_ahead(&wheel, tick);
	bool ahead;

	CHECK(!is_ahead || tick <= HTW_LAST_TICK);
	CHECK(!htw_node_pending(&t->node));
	t->tick = tick;
	set_key(t);
	t->pending = true;
	pending++;
	ahead = htw_wheel_start(&wheel, &t->node, tick);
	CHECK(htw_node_pending(&t->node));
	/* A start that makes the next work earlier has to say so. */
	CHECK(ahead == (wheel.next < next));
	CHECK(is_ahead || !ahead);
	CHECK(tick > HTW_LAST_TICK || wheel.next <= t->key || wheel.next <= tick);
}

/* A later tick, up to the last there is. */
static u64 later(u64 tick, u64 distance)
{
	return tick + distance < tick ? HTW_NEVER : tick + distance;
}

/* A tick at the end of its range, or near the present. */
static u64 end_tick(struct input *in)
{
	const u64 ticks[] = { 0, wheel.cursor - 1, wheel.cursor, HTW_LAST_TICK - 1, HTW_LAST_TICK,
			      HTW_LAST_TICK + 1, HTW_NEVER - 1, HTW_NEVER };

	return ticks[byte(in) % 8];
}

static void stop(struct timer *t)
{
	htw_wheel_stop(&wheel, &t->node);
	CHECK(!htw_node_pending(&t->node));
	t->pending = false;
	pending--;
}

static void restart(struct timer *t, u64 tick)
{
	t->tick = tick;
	set_key(t);
	htw_wheel_restart(&wheel, &t->node, tick);
}

/*
 * Expire within a budget and compare with the model's order. As long as there are unsorted
 * timers, some may be due that the wheel has not found yet.
 */
static void expired(struct htw_node *n, void *arg)
{
	struct timer *t = container_of(n, struct timer, node);

	(void)arg;
	CHECK(t->pending);
	CHECK(t->tick <= now);
	CHECK(t == first_due(now));
	CHECK(!htw_node_pending(n));
	t->pending = false;
	pending--;
}

/* Either one timer a call, or all in one call. */
static void expire(unsigned int budget)
{
	const u64 next = wheel.next;
	struct htw_node *n;
	bool looking;

	if (budget % 2) {
		if (!htw_wheel_advance(&wheel, now, &budget, expired, NULL)) {
			/* There is more to do at once. */
			CHECK(!list_empty(&wheel.unsorted) || !first_due(now) ||
			      htw_wheel_next(&wheel) <= now);
			wheel.next = budget ? 0 : next;
			return;
		}
		CHECK(!first_due(now));
	} else {
		while ((n = htw_wheel_expire(&wheel, now, &budget)))
			expired(n, NULL);
	}
	if (!budget)
		return;
	looking = !list_empty(&wheel.unsorted);
	CHECK(looking || !first_due(now));
	if (htw_wheel_cascade(&wheel, &budget) && !(looking && first_due(now))) {
		htw_wheel_next(&wheel);
		/* In time for the first timer, if there is one; without levels, just then. */
		CHECK(wheel.next <= earliest());
		CHECK(wheel.levels || wheel.next == earliest());
		CHECK(wheel.next > min(now, HTW_LAST_TICK));
		CHECK((earliest() == HTW_NEVER) == (wheel.next == HTW_NEVER));
	} else {
		wheel.next = 0;
	}
}

/* Fill the list of due nodes, and leave them there. */
static void collect(unsigned int budget)
{
	if (htw_wheel_collect_due(&wheel, now, &budget)) {
		CHECK(budget);
		CHECK(container_of(wheel.due.next, struct timer, node.list) == first_due(now));
	} else {
		CHECK(!budget || !list_empty(&wheel.unsorted) || !first_due(now));
	}
	wheel.next = 0;		/* there may be more to do at once */
}

/* The clock was read before that of an earlier call: what is not due by that does not expire. */
static void expire_earlier(unsigned int budget, u64 distance)
{
	const u64 earlier = now - min(now, distance);
	struct htw_node *n;

	if (budget % 2)
		htw_wheel_advance(&wheel, earlier, &budget, expired, NULL);
	else
		while ((n = htw_wheel_expire(&wheel, earlier, &budget)))
			expired(n, NULL);
	wheel.next = 0;
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

	if (to >= wheel.cursor - 1) {
		const struct htw_wheel before = wheel;

		now = to;
		htw_wheel_rewind(&wheel, now);
		CHECK(!memcmp(&wheel, &before, sizeof(wheel)));
		return;
	}
	while ((t = first_due(U64_MAX))) {
		order[count++] = t;
		t->pending = false;
	}
	now = to;
	htw_wheel_rewind(&wheel, now);
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

static void count_pending(struct htw_node *n, void *count)
{
	CHECK(container_of(n, struct timer, node)->pending);
	++*(u64 *)count;
}

#if HTW_WHEEL_LEVELS
/* Memory that is too small is refused, and nothing is changed. */
static void add_levels(void)
{
	const size_t bytes = htw_geometry_bytes(&geometry);
	const struct htw_wheel before = wheel;

	CHECK(!htw_wheel_add_levels(&wheel, &geometry, memory, bytes - 1));
	CHECK(!htw_wheel_add_levels(&wheel, &geometry, NULL, bytes));
	CHECK(!memcmp(&wheel, &before, sizeof(wheel)));
	CHECK(htw_wheel_add_levels(&wheel, &geometry, memory, bytes));
	CHECK(wheel.next <= max(earliest(), now) || wheel.next <= before.next);
}

static void allocate_levels(void)
{
	memory = malloc(htw_geometry_bytes(&geometry));
	if (!memory)
		abort();
}

static void remove_levels(void)
{
	const void *given = wheel.levels ? memory : NULL;

	CHECK(htw_wheel_remove_levels(&wheel) == given);
}

static bool is_shape(const struct htw_geometry *geo)
{
	return !htw_geometry_error(geo);
}
#else
/* All operations are as they are, on a wheel that gets no levels. */
static void add_levels(void)
{
}

static void allocate_levels(void)
{
}

static void remove_levels(void)
{
}

static bool is_shape(const struct htw_geometry *geo)
{
	return geo->levels;
}
#endif

/* Levels are added to a wheel with timers, and taken from one without. */
static void add_or_remove_levels(void)
{
	u64 count = 0;

	if (!wheel.levels)
		add_levels();
	else if (!pending)
		remove_levels();
	htw_wheel_walk(&wheel, count_pending, &count);
	CHECK(count == pending);
}

static unsigned int zeros(u64 x)
{
	return x ? (unsigned int)__builtin_ctzll(x) : 64;
}

/* A time of any magnitude, or the last ones there are. */
static u64 any_time(struct input *in)
{
	const u8 where = byte(in);

	if (where < 64)
		return later(now, number(in, 20));
	if (where < 128)
		return HTW_NEVER - number(in, 20);
	return number(in, 64);
}

/* The time that tick @tick comes at; HTW_NEVER if there is none. */
static u64 time_of(u64 tick, u64 tick_ns)
{
	u64 time;

	return __builtin_mul_overflow(tick, tick_ns, &time) ? HTW_NEVER : time;
}

/* Ticks of times, times of ticks, sums: none wraps. */
static void times(struct input *in)
{
	const u64 first = any_time(in), slack = any_time(in), last = later(first, slack);
	const u64 tick_ns = 1 + number(in, 30), time = htw_coalesce(first, last);
	const u64 up = htw_tick_up(first, tick_ns);
	const u64 within = htw_tick_within(first, slack, tick_ns);
	const int timeout = htw_tick_timeout(up, tick_ns, last);
	const u64 left = time_of(up, tick_ns) - last;
	u64 other, i;

	CHECK(htw_time_after(first, slack) == last);
	CHECK(htw_tick_time(first, tick_ns) == time_of(first, tick_ns));
	CHECK(time >= first && time <= last);
	for (other = first, i = 0; other <= last && other >= first && i < 100; other++, i++)
		CHECK(zeros(other) <= zeros(time));

	/* The first tick that is not before it. */
	CHECK(time_of(up, tick_ns) >= first);
	CHECK((up == HTW_NEVER) == (first == HTW_NEVER));
	CHECK(up == HTW_NEVER || !up || time_of(up - 1, tick_ns) < first);
	CHECK(time_of(within, tick_ns) >= first);
	CHECK(within == up || (first + slack == last && time_of(within, tick_ns) <= last));

	if (time_of(up, tick_ns) == HTW_NEVER)
		CHECK(timeout == -1);
	else if (time_of(up, tick_ns) <= last)
		CHECK(!timeout);
	else
		CHECK(timeout == 0x7fffffff ? left > 0x7ffffffeULL * 1000000 :
		      timeout > 0 && (u64)timeout * 1000000 >= left &&
		      ((u64)timeout - 1) * 1000000 < left);
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
	bool ahead = false, in_order;

	/* The next tick's timers in the order in which they were started. */
	for (o = timers; o < timers + NODES && now < HTW_LAST_TICK; o++) {
		if (!o->pending || o->tick != now + 1)
			continue;
		for (i = count++; i && order[i - 1]->serial > o->serial; i--)
			order[i] = order[i - 1];
		order[i] = o;
	}
	in_order = htw_wheel_make_due(&wheel, now, has_come, time, &ahead);
	CHECK(ahead == (wheel.next < next));
	/* None waits for a tick that does not come. */
	CHECK(in_order || now < HTW_LAST_TICK);
	/* Those that were made due, in their order: all that are, or the first of them. */
	for (i = 0; i < count; i++) {
		o = order[i];
		if (o->node.expires == now + 1) {
			CHECK(!in_order || !has_come(&o->node, time));
			continue;
		}
		CHECK(o->node.expires == now && has_come(&o->node, time));
		o->tick = now;
		set_key(o);
	}
	if (wheel.levels && now < HTW_LAST_TICK)
		CHECK(in_order == (now + 1 < wheel.level[0].end && count <= 32));
	else
		/* A list may have nodes of other ticks in front: no more than 32 are looked at. */
		CHECK(in_order || pending > 32 || !list_empty(&wheel.unsorted) || count);
	start(t, in_order ? now : now + 1);
}

/* It looks at all slots, so not after each operation. */
static void check_wheel(void)
{
	const char *error = htw_wheel_check(&wheel);

	if (!error)
		return;
	fprintf(stderr, "htw_wheel_check(): %s (now %llu)\n", error, (unsigned long long)now);
	abort();
}

static void operation(struct input *in)
{
	const u8 op = byte(in);
	struct timer *t = &timers[byte(in) % NODES];
	u64 to;

	switch (op % 16) {
	case 0 ... 4:
		to = (op & 0xf0) == 0xf0 ? end_tick(in) : later(now, number(in, 40));
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
		now = (op & 0xf0) == 0xf0 ? max(now, end_tick(in)) : later(now, number(in, 12));
		expire(1 + byte(in) % 8);
		break;
	case 10:
		now = (op & 0xf0) == 0xf0 ? max(now, end_tick(in)) : later(now, number(in, 40));
		expire_all();
		break;
	case 11:
		/* Sleep until the next work. */
		expire_all();
		if (wheel.next != HTW_NEVER) {
			now = max(now, wheel.next);
			expire_all();
		}
		break;
	case 12:
		if ((op & 0xf0) == 0xf0)
			now = max(now, end_tick(in));
		htw_wheel_forward(&wheel, now);
		if ((op & 48) == 48 && !t->pending)
			start_due(t);
		break;
	case 13:
		rewind_to((op & 0xf0) == 0xf0 ? end_tick(in) : now - min(now, number(in, 30)));
		break;
	case 14:
		if ((op & 48) == 48)
			expire_earlier(1 + byte(in) % 8, number(in, 16));
		else if (op & 16)
			collect(1 + byte(in) % 8);
		else
			times(in);
		break;
	case 15:
		expire(1 + byte(in));
		if (op & 16)
			evict_all();
		if (op & 32)
			add_or_remove_levels();
		check_wheel();
		break;
	}
	CHECK(wheel.pending == pending);
}

static void run(const u8 *data, size_t size)
{
	struct input in = { .data = data, .size = size };
	const u8 shape = byte(&in);
	unsigned int l;

	memset(&geometry, 0, sizeof(geometry));
	geometry.levels = 1 + shape % HTW_WHEEL_MAX_LEVELS;
	for (l = 0; l < geometry.levels; l++) {
		const u8 slots = byte(&in);

		geometry.slots[l] = slots < 8 ? 1u << (slots + 1) : slots;
	}
	if (!is_shape(&geometry))
		return;
	allocate_levels();
	memset(timers, 0, sizeof(timers));
	pending = 0;
	serials = 0;
	now = number(&in, 48);
	/* Or soon before time ends, or when it has. */
	if (shape & 64)
		now = now % 64 ? HTW_LAST_TICK - now % 4096 : HTW_NEVER - now / 64 % 4;
	htw_wheel_init(&wheel, now);
	if (shape & 128)
		add_levels();
	while (in.at < in.size)
		operation(&in);
	check_wheel();
	/* Expire all that ever does. */
	expire_all();
	while (wheel.next != HTW_NEVER) {
		now = max(now, wheel.next);
		expire_all();
	}
	CHECK(!first_due(HTW_NEVER));
	CHECK(wheel.pending == pending);
	evict_all();
	remove_levels();
	free(memory);
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
		/* Wheels of up to five levels, at any time and soon before it ends. */
		data[0] = i % 5 | (i % 16 == 7 ? 64 : 0);
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
