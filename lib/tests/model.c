// SPDX-License-Identifier: GPL-2.0-only
/*
 * A model of libhtw, to hold the library against in any order of steps
 *
 * It holds what libhtw.h and <linux/htw.h> promise of each timer: its id, state, deadline,
 * phase, missed firings, firings left and its place among the events. Its clock is the manual
 * one, so nearly every result has one right answer. A timer is pending until a read takes it.
 */
#include "model.h"
#include "../libhtw.h"
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define TIMERS		400
#define GRAVES		256
#define SHARDS		4
#define MANY		40
#define READ_MOST	64
#define CLOCK_END	((1ULL << 63) - 1)
#define POISON		0xa5a5a5a5a5a5a5a5ULL
/* A timerfd, or the device where it leaves waking to another context, may take a moment. */
#define EVENTUALLY_MS	90000
/* In the process: timers that are all looked at, and most without levels. */
#define SURELY_FEW	32
#define WITHOUT_LEVELS	63

enum state { FREE, PENDING, DISARMED };

struct timer {
	uint64_t id, deadline, interval, cookie;
	uint64_t word;		/* what it was put off to; zero: nothing */
	uint64_t seq;		/* order of arming */
	uint64_t armed;		/* when that was */
	uint32_t firings;
	enum state state;
	unsigned int shard;
	bool kept, can_put_off;
	bool was_due;		/* as it was armed, or as another one of its deadline was */
	bool unsure;		/* if so, it may still have to wait for its tick */
};

struct set {
	struct htw *htw;
	unsigned int timers;
	unsigned int most;	/* of @timers, ever */
	int epoll;
	bool edge;		/* what is due now has been announced, or will be */
};

static const struct model_mode *mode;
static struct timer timers[TIMERS];
static struct set sets[SHARDS];
static unsigned int nr_sets;
static uint64_t graves[GRAVES];
static uint64_t now, tick, limit, seq;
static jmp_buf failed;

#define CHECK(condition, ...) do {							\
	if (!(condition)) {								\
		printf("# %s:%d: %s\n#   ", __FILE__, __LINE__, #condition);		\
		printf(__VA_ARGS__);							\
		printf("\n# clock %" PRIu64 ", tick %" PRIu64 ", limit %" PRIu64 "\n",	\
		       now, tick, limit);						\
		longjmp(failed, 1);							\
	}										\
} while (0)

#define EQUAL(expected, seen) do {							\
	const uint64_t __e = (uint64_t)(expected), __s = (uint64_t)(seen);		\
	CHECK(__e == __s, "expected %s = %" PRId64 ", seen %s = %" PRId64, #expected,	\
	      (int64_t)__e, #seen, (int64_t)__s);					\
} while (0)

static uint64_t sum(uint64_t a, uint64_t b)
{
	return a + b < a ? ~0ULL : a + b;
}

/* Ids are never used again: all that there were. */
static uint64_t *ids_seen;
static size_t ids_count, ids_room;

static void insert_id(uint64_t id)
{
	size_t i = id * 0x9e3779b97f4a7c15ULL >> 20 & (ids_room - 1);

	for (; ids_seen[i]; i = (i + 1) & (ids_room - 1))
		CHECK(ids_seen[i] != id, "id %" PRIx64 " was used before", id);
	ids_seen[i] = id;
}

static void new_id(uint64_t id)
{
	size_t i, room = ids_room;
	uint64_t *seen = ids_seen;

	CHECK(id && !HTW_ID_IS_ERROR(id), "id %" PRIx64, id);
	if (++ids_count * 2 > ids_room) {
		ids_room = room ? room * 2 : 1 << 12;
		ids_seen = calloc(ids_room, sizeof(*ids_seen));
		CHECK(ids_seen, "no memory");
		for (i = 0; i < room; i++)
			if (seen[i])
				insert_id(seen[i]);
		free(seen);
	}
	insert_id(id);
}

/* The model. */

static bool in_process(void)
{
	return mode->backend == HTW_BACKEND_PROCESS;
}

static struct timer *free_timer(void)
{
	struct timer *timer = &timers[below(TIMERS)];
	unsigned int i;

	for (i = 0; i < TIMERS && timer->state; i++)
		timer = &timers[(timer - timers + 1) % TIMERS];
	return timer->state ? NULL : timer;
}

static void end(struct timer *timer)
{
	graves[below(GRAVES)] = timer->id;
	sets[timer->shard].timers--;
	timer->state = FREE;
	timer->id = 0;
}

static uint64_t effective(const struct timer *timer)
{
	return timer->state == PENDING && timer->word > timer->deadline ? timer->word :
		timer->deadline;
}

static uint64_t missed_by_now(const struct timer *timer)
{
	uint64_t missed;

	if (timer->state == DISARMED || !timer->interval || timer->deadline > now)
		return 0;
	missed = (now - timer->deadline) / timer->interval;
	return timer->firings && missed > timer->firings - 1 ? timer->firings - 1 : missed;
}

static void set_pending(struct timer *timer, uint64_t deadline)
{
	timer->deadline = deadline;
	timer->word = 0;
	timer->seq = ++seq;
	timer->armed = now;
	timer->state = PENDING;
	timer->was_due = deadline <= now;
	timer->unsure = false;
}

/* Its event is read. */
static void deliver(struct timer *timer, struct htw_event *event)
{
	const uint64_t missed = missed_by_now(timer);
	bool more = timer->kept;

	*event = (struct htw_event){
		.id = timer->id,
		.cookie = timer->cookie,
		.deadline = effective(timer),
		.taken = now,
		.missed = missed,
	};
	if (timer->interval && timer->firings != missed + 1) {
		if (timer->firings)
			timer->firings -= missed + 1;
		more = true;
		set_pending(timer, sum(timer->deadline, sum(missed * timer->interval,
							    timer->interval)));
	} else if (more) {
		timer->state = DISARMED;
		timer->interval = 0;
		timer->firings = 0;
	} else {
		end(timer);
	}
	if (more)
		event->flags = HTW_EVENT_MORE;
}

static uint64_t tick_up(uint64_t ns)
{
	return ns > CLOCK_END ? ~0ULL : ns / tick + !!(ns % tick);
}

/* The first of those that wait for their tick in a set and have the deadline of @timer, or NULL. */
static struct timer *first_waiting_equal(const struct timer *timer)
{
	struct timer *first = NULL, *other;

	for (other = timers; other < timers + TIMERS; other++)
		if (other->state == PENDING && !other->was_due && other->shard == timer->shard &&
		    other->deadline == timer->deadline && (!first || other->seq < first->seq))
			first = other;
	return first;
}

/*
 * A timer that was due within the present tick takes those of its deadline along that wait for
 * the next one, or goes without them if the wheel holds many, or once did. On the device it may
 * wait behind them.
 */
static void take_equals_along(struct timer *timer)
{
	const struct set *set = &sets[timer->shard];
	struct timer *equal;

	if (!timer->was_due || tick_up(timer->deadline) <= now / tick)
		return;
	timer->unsure = !in_process();
	while ((equal = first_waiting_equal(timer))) {
		equal->was_due = true;
		equal->unsure = timer->unsure || set->timers > SURELY_FEW ||
				set->most > WITHOUT_LEVELS;
		equal->armed = now;
		equal->seq = ++seq;
	}
	timer->seq = ++seq;
}

/*
 * On the device one that was due may take all others along that wait for the next tick, and whose
 * deadlines have come.
 */
static void take_others_along(const struct timer *timer)
{
	struct timer *other;

	for (other = timers; other < timers + TIMERS; other++)
		if (other->state == PENDING && other->shard == timer->shard &&
		    other->deadline <= now && tick_up(other->deadline) > now / tick)
			other->unsure = true;
}

static void arm(struct timer *timer, uint64_t deadline)
{
	set_pending(timer, deadline);
	if (timer->was_due && !in_process())
		take_others_along(timer);
	take_equals_along(timer);
}

/* The tick at which it comes. If it was due when it was armed, it does not wait for the next. */
static uint64_t due_tick(const struct timer *timer)
{
	const uint64_t due = tick_up(timer->deadline), present = timer->armed / tick;

	return timer->was_due && present < due ? present : due;
}

/* It has come, but may have been put off. */
static bool has_come(const struct timer *timer)
{
	return timer->state == PENDING && (timer->was_due || due_tick(timer) <= now / tick);
}

/*
 * Is it due, for certain, and perhaps? One that was put off to a time within a tick that is not
 * complete is due if it is looked at first now, and not if it was started again before.
 */
static bool must_be_due(const struct timer *timer)
{
	return has_come(timer) && !(timer->unsure && tick_up(timer->deadline) > now / tick) &&
	       (timer->word <= timer->deadline || tick_up(timer->word) <= now / tick);
}

static bool may_be_due(const struct timer *timer)
{
	return (has_come(timer) || (!in_process() && timer->state == PENDING)) &&
	       effective(timer) <= now;
}

static bool any_of(bool (*is)(const struct timer *timer), const struct set *set)
{
	unsigned int i;

	for (i = 0; i < TIMERS; i++)
		if (timers[i].state && (!set || &sets[timers[i].shard] == set) && is(&timers[i]))
			return true;
	return false;
}

/* Move the clock of all sets. */
static void model_advance(uint64_t to)
{
	now = to;
}

static struct timer *find(uint64_t id)
{
	unsigned int i;

	for (i = 0; i < TIMERS; i++)
		if (timers[i].state && timers[i].id == id)
			return &timers[i];
	return NULL;
}

static bool add_is_valid(const struct htw_add_args *add)
{
	const bool put_off = in_process() && add->flags & HTW_F_PUT_OFF;
	const uint32_t known = HTW_F_ABS | HTW_F_KEEP | (put_off ? HTW_F_PUT_OFF : 0);

	return !(add->flags & ~known) && !(add->firings && !add->interval) &&
	       !(put_off && (add->interval || add->flags & HTW_F_KEEP));
}

/* An interval as it is kept. */
static uint64_t rounded_up(uint64_t interval)
{
	return interval && interval < tick ? tick : interval;
}

static int model_add(struct set *set, const struct htw_add_args *add, struct timer **timer)
{
	*timer = NULL;
	if (!add_is_valid(add))
		return -EINVAL;
	if (set->timers >= limit)
		return -ENOSPC;
	*timer = free_timer();
	CHECK(*timer, "the test's limit is too high");
	set->timers++;
	set->most = set->most > set->timers ? set->most : set->timers;
	**timer = (struct timer){
		.interval = rounded_up(add->interval),
		.cookie = add->cookie,
		.firings = add->firings,
		.kept = add->flags & HTW_F_KEEP,
		.can_put_off = add->flags & HTW_F_PUT_OFF,
		.shard = set - sets,
	};
	return 0;
}

/* After the id is known. */
static void model_start(struct timer *timer, const struct htw_add_args *add, uint64_t id)
{
	new_id(id);
	timer->id = id;
	arm(timer, add->flags & HTW_F_ABS ? add->deadline : sum(now, add->deadline));
}

static struct htw_timer_info model_query(const struct timer *timer, uint32_t seen);

/* @in->state: what the library says, which decides where both is right. */
static int model_cancel(const struct htw_cancel_args *in, struct htw_cancel_args *out)
{
	struct timer *timer = find(in->id);
	struct htw_timer_info info;

	*out = *in;
	if (!timer)
		return -ENOENT;
	info = model_query(timer, in->state);
	out->cookie = timer->cookie;
	out->state = info.state;
	out->missed = info.missed;
	out->remaining = info.remaining;
	end(timer);
	return 0;
}

static int model_mod(const struct htw_mod_args *mod)
{
	struct timer *timer = find(mod->id);

	if (!timer)
		return -ENOENT;
	if (mod->flags & HTW_MOD_INTERVAL) {
		timer->interval = rounded_up(mod->interval);
		timer->firings = mod->firings;
	}
	if (mod->flags & HTW_MOD_COOKIE)
		timer->cookie = mod->cookie;
	if (mod->flags & HTW_MOD_DEADLINE) {
		arm(timer, mod->flags & HTW_F_ABS ? mod->deadline : sum(now, mod->deadline));
	}
	return 0;
}

/* @seen: the state that the library says, which decides where both is right. */
static struct htw_timer_info model_query(const struct timer *timer, uint32_t seen)
{
	struct htw_timer_info query = {
		.id = timer->id,
		.deadline = effective(timer),
		.interval = timer->interval,
		.cookie = timer->cookie,
		.firings = timer->firings,
		.flags = timer->kept ? HTW_F_KEEP : 0,
	};

	if (timer->state == DISARMED)
		query.state = HTW_STATE_DISARMED;
	else if (must_be_due(timer) || (may_be_due(timer) && seen == HTW_STATE_DUE))
		query.state = HTW_STATE_DUE;
	else
		query.state = HTW_STATE_PENDING;
	if (query.state == HTW_STATE_PENDING && query.deadline > now)
		query.remaining = query.deadline - now;
	if (query.state == HTW_STATE_DUE)
		query.missed = missed_by_now(timer);
	return query;
}

static void same_query(const struct htw_timer_info *expected, const struct htw_timer_info *seen)
{
	EQUAL(expected->id, seen->id);
	EQUAL(expected->state, seen->state);
	/* The texts do not say what the deadline of a disarmed timer is. */
	if (expected->state != HTW_STATE_DISARMED)
		EQUAL(expected->deadline, seen->deadline);
	EQUAL(expected->remaining, seen->remaining);
	EQUAL(expected->interval, seen->interval);
	EQUAL(expected->cookie, seen->cookie);
	EQUAL(expected->missed, seen->missed);
	EQUAL(expected->firings, seen->firings);
	EQUAL(expected->flags, seen->flags);
}

static void same_event(const struct htw_event *expected, const struct htw_event *seen)
{
	EQUAL(expected->id, seen->id);
	EQUAL(expected->cookie, seen->cookie);
	EQUAL(expected->deadline, seen->deadline);
	EQUAL(expected->taken, seen->taken);
	EQUAL(expected->missed, seen->missed);
	EQUAL(expected->flags, seen->flags);
	EQUAL(0, seen->reserved);
}

/*
 * Must the event of @a come before that of @b? Of the same deadline or tick, if it was armed
 * before; else if its tick is earlier, unless that had come already when it was armed. One that
 * was put off is started again by some read.
 */
static bool comes_before(const struct timer *a, const struct timer *b)
{
	if (a->word > a->deadline || b->word > b->deadline)
		return false;
	/* One that perhaps was not taken along comes behind that which was due. */
	if (a->deadline == b->deadline)
		return !a->unsure && a->seq < b->seq;
	if (a->unsure || b->unsure)
		return false;
	return a->seq < b->seq ? due_tick(a) <= due_tick(b) :
	       due_tick(a) < due_tick(b) && !a->was_due;
}

/* The events say what was read; were they due, in order, and all of them? */
static void check_events(struct set *set, const struct htw_event *seen, unsigned int n,
			 unsigned int count)
{
	struct htw_event expected;
	struct timer *timer;
	unsigned int i, k;

	for (k = 0; k < n; k++) {
		timer = find(seen[k].id);
		CHECK(timer, "event %u of no timer: id %" PRIx64, k, (uint64_t)seen[k].id);
		EQUAL(set - sets, timer->shard);
		CHECK(may_be_due(timer), "event %u: deadline %" PRIu64 ", put off to %" PRIu64, k,
		      timer->deadline, timer->word);
		for (i = 0; i < TIMERS; i++)
			CHECK(&timers[i] == timer || &sets[timers[i].shard] != set ||
			      !must_be_due(&timers[i]) || !comes_before(&timers[i], timer),
			      "event %u, %" PRIu64 " armed as %" PRIu64 ", before %" PRIu64
			      " armed as %" PRIu64, k, timer->deadline, timer->seq,
			      timers[i].deadline, timers[i].seq);
		deliver(timer, &expected);
		same_event(&expected, &seen[k]);
	}
	if (n < count)
		CHECK(!any_of(must_be_due, set), "a short read left something");
}

/* Random arguments. */

static uint64_t some_ticks(unsigned int ticks)
{
	return below(ticks * tick);
}

static uint64_t some_delay(void)
{
	switch (below(12)) {
	case 0:
	case 8:
		return 0;
	case 9:
	case 10:
		return below(4) * tick;
	case 1:
	case 2:
		return some_ticks(3);
	case 3:
	case 11:
		return some_ticks(100);
	case 4:
		return below(1ULL << (10 + below(53)));
	case 5:
		return below(20) ? some_ticks(10000) : any();
	default:
		return some_ticks(1000);
	}
}

static uint64_t some_time(void)
{
	uint64_t delay = some_delay();

	switch (below(8)) {
	case 0:
		return now > delay ? now - delay : 0;
	case 1:
		return now;
	default:
		return sum(now, delay);
	}
}

static uint64_t some_interval(void)
{
	uint64_t interval = some_delay();

	return interval < tick ? interval + tick : interval;
}

/* An id, mostly of a timer; or any number, as those near one. */
static uint64_t some_id(void)
{
	unsigned int i, k = below(TIMERS);
	uint64_t id = graves[0];

	if (!below(12))
		return graves[below(GRAVES)];
	for (i = 0; i < TIMERS; i++) {
		if (timers[(k + i) % TIMERS].state) {
			id = timers[(k + i) % TIMERS].id;
			break;
		}
	}
	switch (below(60)) {
	case 0:
		return any();
	case 1:
		return id ^ 1ULL << below(64);
	case 2:
		return id + (1ULL << below(64));
	case 3:
		return graves[below(GRAVES)] ^ 1ULL << below(64);
	case 4:
		return below(64);
	case 5:
		return -below(4200);
	default:
		return id;
	}
}

static void some_add(struct htw_add_args *add)
{
	const bool absolute = below(2);

	*add = (struct htw_add_args){
		.id = POISON,
		.deadline = absolute ? some_time() : some_delay(),
		.cookie = any(),
		.flags = absolute ? HTW_F_ABS : 0,
	};
	switch (below(6)) {
	case 0:
		add->flags |= HTW_F_KEEP;
		break;
	case 1:
	case 2:
		if (in_process())
			add->flags |= HTW_F_PUT_OFF;
	}
	if (!(add->flags & HTW_F_PUT_OFF) && !below(3)) {
		add->interval = some_interval();
		if (below(2))
			add->firings = 1 + below(5);
	}
	if (!below(50))
		add->flags |= 1u << (3 + below(28));
	if (!below(50))
		add->flags |= HTW_F_KEEP;
	if (!below(50) && tick > 1)
		add->interval = 1 + below(tick - 1);
	if (!below(50))
		add->interval = some_interval();
	if (!below(50) && !add->interval)
		add->firings = 1;
}

static void some_mod(struct htw_mod_args *mod)
{
	const struct timer *timer;

	*mod = (struct htw_mod_args){ .id = some_id() };
	timer = find(mod->id);
	do {
		mod->flags |= HTW_MOD_DEADLINE << below(3);
	} while (below(2));
	if (mod->flags & HTW_MOD_DEADLINE) {
		if (below(2))
			mod->flags |= HTW_F_ABS;
		mod->deadline = mod->flags & HTW_F_ABS ? some_time() : some_delay();
	}
	/* One that can be put off has none, and is not given one. */
	if (mod->flags & HTW_MOD_INTERVAL && !(timer && timer->can_put_off) && below(3)) {
		mod->interval = some_interval();
		mod->firings = below(4);
	}
	if (mod->flags & HTW_MOD_COOKIE)
		mod->cookie = any();
}

static struct set *some_set(void)
{
	return &sets[below(nr_sets)];
}

/* The steps. */

static void step_add(void)
{
	struct set *set = some_set();
	struct timer *timer;
	struct htw_add_args add;
	int expected, seen;
	uint64_t id = POISON;

	some_add(&add);
	switch (below(5)) {
	case 0:
		add = (struct htw_add_args){ .deadline = add.deadline, .cookie = add.cookie };
		expected = model_add(set, &add, &timer);
		seen = htw_after(set->htw, add.deadline, add.cookie, &id);
		break;
	case 1:
		add = (struct htw_add_args){ .deadline = add.deadline, .cookie = add.cookie,
			.flags = HTW_F_ABS };
		expected = model_add(set, &add, &timer);
		seen = htw_at(set->htw, add.deadline, add.cookie, &id);
		break;
	case 2:
		add = (struct htw_add_args){ .deadline = add.deadline, .cookie = add.cookie,
			.interval = add.interval };
		if (!add.interval)
			add.interval = below(4) ? some_interval() : 0;
		if (!add.interval) {
			EQUAL(-EINVAL, htw_every(set->htw, add.deadline, 0, add.cookie, &id));
			EQUAL(POISON, id);
			return;
		}
		expected = model_add(set, &add, &timer);
		seen = htw_every(set->htw, add.deadline, add.interval, add.cookie, &id);
		break;
	case 3:
		if (in_process()) {
			add = (struct htw_add_args){ .deadline = add.deadline, .cookie = add.cookie,
				.flags = HTW_F_PUT_OFF };
			expected = model_add(set, &add, &timer);
			seen = htw_timeout(set->htw, add.deadline, add.cookie, &id);
			break;
		}
		__attribute__((fallthrough));
	default:
		expected = model_add(set, &add, &timer);
		seen = htw_add(set->htw, &add);
		id = add.id;
	}
	if (expected < 0) {
		EQUAL(expected, seen);
		EQUAL(POISON, id);
		return;
	}
	EQUAL(0, seen);
	model_start(timer, &add, id);
}

static void step_cancel(void)
{
	struct htw_cancel_args cancel = {
		.id = some_id(), .remaining = POISON, .cookie = POISON, .missed = POISON,
	}, out;
	struct htw *htw = some_set()->htw;
	int expected, seen;

	if (below(2)) {
		expected = model_cancel(&cancel, &out);
		EQUAL(expected, htw_stop(htw, cancel.id));
		return;
	}
	seen = htw_cancel(htw, &cancel);
	expected = model_cancel(&cancel, &out);
	EQUAL(expected, seen);
	EQUAL(out.id, cancel.id);
	if (expected == -ENOENT) {
		EQUAL(POISON, cancel.remaining);
		EQUAL(POISON, cancel.cookie);
		EQUAL(POISON, cancel.missed);
		EQUAL(0, cancel.state);
		return;
	}
	EQUAL(out.state, cancel.state);
	EQUAL(out.remaining, cancel.remaining);
	EQUAL(out.cookie, cancel.cookie);
	EQUAL(out.missed, cancel.missed);
}

static void step_mod(void)
{
	struct htw *htw = some_set()->htw;
	struct htw_mod_args mod;
	int expected;

	some_mod(&mod);
	if (below(2)) {
		mod = (struct htw_mod_args){ .id = mod.id, .flags = HTW_MOD_DEADLINE,
			.deadline = some_delay() };
		expected = model_mod(&mod);
		EQUAL(expected, htw_rearm(htw, mod.id, mod.deadline));
		return;
	}
	expected = model_mod(&mod);
	EQUAL(expected, htw_mod(htw, &mod));
}

static void step_query(void)
{
	struct htw_timer_info query = { .id = some_id() }, expected;
	struct timer *timer = find(query.id);

	if (!timer) {
		EQUAL(-ENOENT, htw_query(some_set()->htw, &query));
		return;
	}
	EQUAL(0, htw_query(some_set()->htw, &query));
	expected = model_query(timer, query.state);
	same_query(&expected, &query);
}

static void step_next(void)
{
	struct set *set = some_set();
	uint64_t earliest = ~0ULL, when = POISON;
	bool some = false, due = false;
	unsigned int i;
	int ret;

	for (i = 0; i < TIMERS; i++) {
		const struct timer *timer = &timers[i];

		if (timer->state == FREE || timer->state == DISARMED || &sets[timer->shard] != set)
			continue;
		some |= timer->state == PENDING;
		due |= must_be_due(timer);
		if (tick_up(effective(timer)) < earliest)
			earliest = tick_up(effective(timer));
	}
	ret = htw_next_time(set->htw, &when);
	if (!some && !due)
		EQUAL(-ENOENT, ret);
	else if (some && earliest <= INT64_MAX / tick)
		EQUAL(0, ret);
	if (ret) {
		/* Nothing is pending, or nothing that comes before clocks end. */
		EQUAL(-ENOENT, ret);
		EQUAL(POISON, when);
		return;
	}
	CHECK(when <= INT64_MAX, "next %" PRIu64, when);
	CHECK(when <= now || when / tick <= earliest, "next %" PRIu64 ", but tick %" PRIu64, when,
	      earliest);
	if (due)
		CHECK(when <= now, "next %" PRIu64, when);
}

static void step_add_many(void)
{
	uint64_t deadlines[MANY], cookies[MANY], ids[MANY];
	int results[MANY], expected[MANY], failures = 0;
	struct timer *timer[MANY];
	unsigned int i, n = below(MANY) + 1;
	const bool with_common = below(2);
	struct set *set = some_set();
	struct htw_add_args common, add;

	some_add(&common);
	if (!with_common)
		common = (struct htw_add_args){ };
	else if (!add_is_valid(&common)) {
		EQUAL(-EINVAL, htw_add_many(set->htw, &common, deadlines, cookies, ids, n, NULL));
		return;
	}
	for (i = 0; i < n; i++) {
		deadlines[i] = common.flags & HTW_F_ABS ? some_time() : some_delay();
		cookies[i] = any();
		add = common;
		add.deadline = deadlines[i];
		add.cookie = cookies[i];
		expected[i] = model_add(set, &add, &timer[i]);
		failures += expected[i] < 0;
		/* Reserve it. */
		if (expected[i] >= 0)
			timer[i]->state = DISARMED, timer[i]->id = 1;
	}
	common.id = common.deadline = common.cookie = POISON;
	memset(ids, 0xa5, sizeof(ids));
	memset(results, 0xa5, sizeof(results));
	EQUAL(failures, htw_add_many(set->htw, with_common ? &common : NULL, deadlines, cookies,
				     ids, n, results));
	for (i = 0; i < n; i++) {
		if (expected[i] < 0) {
			EQUAL(expected[i], results[i]);
			EQUAL(0, ids[i]);
			continue;
		}
		EQUAL(0, results[i]);
		add = common;
		add.deadline = deadlines[i];
		model_start(timer[i], &add, ids[i]);
	}
}

static void step_rearm_many(void)
{
	uint64_t ids[MANY] = { }, deadlines[MANY] = { };
	int results[MANY], expected[MANY], failures = 0;
	unsigned int i, n = below(MANY), flags = below(2) ? HTW_F_ABS : 0;

	for (i = 0; i < n; i++) {
		struct htw_mod_args mod = {
			.id = ids[i] = some_id(),
			.deadline = deadlines[i] = flags ? some_time() : some_delay(),
			.flags = HTW_MOD_DEADLINE | flags,
		};

		expected[i] = model_mod(&mod);
		failures += expected[i] < 0;
	}
	EQUAL(failures, htw_rearm_many(some_set()->htw, ids, deadlines, n, flags, results));
	for (i = 0; i < n; i++)
		EQUAL(expected[i], results[i]);
}

static void step_stop_many(void)
{
	int results[MANY], expected[MANY], failures = 0;
	unsigned int i, n = below(MANY / 4);
	uint64_t ids[MANY] = { };

	for (i = 0; i < n; i++) {
		struct htw_cancel_args cancel = { .id = ids[i] = some_id() }, out;

		expected[i] = model_cancel(&cancel, &out);
		failures += expected[i] < 0;
	}
	EQUAL(failures, htw_stop_many(some_set()->htw, ids, n, results));
	for (i = 0; i < n; i++)
		EQUAL(expected[i], results[i]);
}

static void step_read(void)
{
	struct htw_event seen[READ_MOST];
	const unsigned int count = below(4) ? 1 + below(READ_MOST) : 1 + below(3);
	struct set *set = some_set();
	int n;

	memset(seen, 0xa5, sizeof(seen));
	n = htw_read(set->htw, seen, count);
	CHECK(n >= 0 && n <= (int)count, "%d", n);
	check_events(set, seen, n, count);
	if (n < (int)count)
		set->edge = true;
}

static void step_announced(void)
{
	struct set *set = some_set();
	struct pollfd pfd = { .fd = htw_fd(set->htw), .events = POLLIN };
	struct epoll_event event;

	if (!any_of(must_be_due, set)) {
		if (!any_of(has_come, set) && !any_of(may_be_due, set))
			EQUAL(0, htw_wait(set->htw, 0));
		return;
	}
	EQUAL(1, poll(&pfd, 1, EVENTUALLY_MS));
	EQUAL(POLLIN, pfd.revents);
	EQUAL(1, htw_wait(set->htw, below(2) ? 0 : -1));
	/* An edge for what has come since the last read of all. */
	if (set->edge) {
		EQUAL(1, epoll_wait(set->epoll, &event, 1, EVENTUALLY_MS));
		set->edge = false;
	}
}

static void step_info(void)
{
	struct set *set = some_set();
	struct htw_info_args info;

	memset(&info, 0xa5, sizeof(info));
	EQUAL(0, htw_info(set->htw, &info));
	EQUAL(set->timers, info.timers);
	EQUAL(limit, info.limit);
	EQUAL(tick, info.tick_ns);
	EQUAL(HTW_CLOCK_MANUAL, info.clock);
	EQUAL(now, htw_now(set->htw));
}

static void step_list(void)
{
	const unsigned int states = below(8);
	const unsigned int asked = states ? states : 7;
	struct set *set = some_set();
	struct htw_timer_info entries[64], expected;
	bool reported[TIMERS] = { };
	uint64_t cursor = 0;
	struct timer *timer;
	unsigned int i, count;
	int n;

	do {
		count = 1 + below(64);
		if (!states)
			n = htw_list(set->htw, &cursor, entries, count);
		else
			n = htw_list_in(set->htw, states, &cursor, entries, count);
		if (n == -EAGAIN && states)
			continue;
		CHECK(n >= 0 && n <= (int)count, "%d", n);
		for (i = 0; i < (unsigned int)n; i++) {
			timer = find(entries[i].id);
			CHECK(timer, "id %" PRIx64, (uint64_t)entries[i].id);
			CHECK(!reported[timer - timers], "twice");
			reported[timer - timers] = true;
			EQUAL(set - sets, timer->shard);
			expected = model_query(timer, entries[i].state);
			same_query(&expected, &entries[i]);
			CHECK(asked & 1 << (entries[i].state - 1), "state %u", entries[i].state);
		}
	} while (n);
	for (i = 0; i < TIMERS; i++) {
		if (!timers[i].state || &sets[timers[i].shard] != set)
			continue;
		/* In whichever state it may be. */
		expected = model_query(&timers[i], HTW_STATE_DUE);
		if (expected.state == model_query(&timers[i], 0).state)
			EQUAL(!!(asked & 1 << (expected.state - 1)), reported[i]);
	}
}

static void step_harvest(void)
{
	struct set *set = some_set();
	struct htw_timer_info entries[8], expected;
	unsigned int i, parts = below(4), count;
	struct timer *timer;
	uint64_t cursor = 0;
	int n;

	while (parts--) {
		count = below(8);
		n = htw_harvest(set->htw, &cursor, entries, count);
		CHECK(n >= 0 && n <= (int)count, "%d", n);
		for (i = 0; i < (unsigned int)n; i++) {
			timer = find(entries[i].id);
			CHECK(timer, "id %" PRIx64, (uint64_t)entries[i].id);
			EQUAL(set - sets, timer->shard);
			expected = model_query(timer, entries[i].state);
			same_query(&expected, &entries[i]);
			end(timer);
		}
		if (n || !count)
			continue;
		for (i = 0; i < TIMERS; i++)
			CHECK(!timers[i].state || &sets[timers[i].shard] != set, "one is left");
	}
}

static void step_cancel_all(void)
{
	struct set *set = some_set();
	struct htw_cancel_args cancel = { }, out;
	unsigned int i, count = 0;

	if (below(20))
		return;
	for (i = 0; i < TIMERS; i++) {
		if (!timers[i].state || &sets[timers[i].shard] != set)
			continue;
		cancel.id = timers[i].id;
		count += model_cancel(&cancel, &out) == 0;
	}
	EQUAL(count, htw_cancel_all(set->htw));
}

static void step_advance(void)
{
	const bool absolute = below(2);
	struct set *set = some_set();
	uint64_t ns = below(10) ? some_ticks(20) : some_delay();
	int n;

	if (ns > CLOCK_END / 2 - now)
		ns = below(tick);
	if (!below(20) && now) {
		EQUAL(-EINVAL, htw_advance(set->htw, now - 1, HTW_F_ABS));
		EQUAL(-EINVAL, htw_advance(set->htw, CLOCK_END - now + 1, 0));
		EQUAL(-EINVAL, htw_advance(set->htw, 1, 2));
	}
	model_advance(now + ns);
	n = htw_advance(set->htw, absolute ? now : ns, absolute ? HTW_F_ABS : 0);
	CHECK(n == 0 || n == 1, "%d", n);
	if (any_of(must_be_due, NULL))
		EQUAL(1, n);
	/* One that has come may have been put off: then a read finds out. */
	if (!any_of(has_come, NULL) && !any_of(may_be_due, NULL))
		EQUAL(0, n);
}

static void step_put_off(void)
{
	const uint64_t id = some_id();
	struct timer *timer = find(id);
	struct htw *htw = some_set()->htw;
	uint64_t when = some_time();
	int ret;

	/*
	 * An earlier time is for those that have not come: another may have been started again
	 * for the later one.
	 */
	if (timer && has_come(timer))
		when = sum(effective(timer), some_delay());
	ret = below(2) ? htw_put_off(htw, id, when) : htw_put_off_inline(htw, id, when);
	if (!timer || !timer->can_put_off) {
		EQUAL(-ENOENT, ret);
		return;
	}
	EQUAL(0, ret);
	timer->word = when;
}

static const struct {
	void (*run)(void);
	unsigned int weight;
} steps[] = {
	{ step_add, 20 },
	{ step_cancel, 8 },
	{ step_mod, 12 },
	{ step_query, 8 },
	{ step_next, 2 },
	{ step_add_many, 1 },
	{ step_rearm_many, 2 },
	{ step_stop_many, 1 },
	{ step_read, 12 },
	{ step_announced, 8 },
	{ step_info, 4 },
	{ step_list, 1 },
	{ step_harvest, 1 },
	{ step_cancel_all, 1 },
	{ step_advance, 12 },
	{ step_put_off, 20 },	/* only in the process: the last one */
};

static void open_sets(void)
{
	struct htw_setup_args setup = {
		.flags = HTW_SETUP_CLOCK,
		.clock = HTW_CLOCK_MANUAL,
		.limit = limit = 1 + below(mode->shards ? TIMERS / SHARDS : TIMERS),
	};
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	struct htw_info_args info;
	unsigned int i;

	if (below(3)) {
		setup.tick_ns = 1 + below(below(2) ? 10 : 1000000);
		setup.levels = 1 + below(HTW_MAX_LEVELS);
		for (i = 0; i < setup.levels; i++)
			setup.slots[i] = 2 + below(99);
	}
	memset(timers, 0, sizeof(timers));
	memset(graves, 0, sizeof(graves));
	ids_count = 0;
	if (ids_seen)
		memset(ids_seen, 0, ids_room * sizeof(*ids_seen));
	now = 0;
	for (i = 0; i < (mode->shards ? SHARDS : 1); i++) {
		struct set *set = &sets[i];

		set->timers = set->most = 0;
		set->edge = true;
		EQUAL(0, i ? htw_shard(&set->htw, sets[below(i)].htw) :
		      htw_open(&set->htw, mode->backend, &setup));
		set->epoll = epoll_create1(EPOLL_CLOEXEC);
		CHECK(set->epoll >= 0, "errno %d", errno);
		EQUAL(0, epoll_ctl(set->epoll, EPOLL_CTL_ADD, htw_fd(set->htw), &event));
		nr_sets++;
	}
	EQUAL(0, htw_info(sets[0].htw, &info));
	tick = info.tick_ns;
}

void model_close(void)
{
	unsigned int i;

	for (i = 0; i < nr_sets; i++)
		close(sets[i].epoll);
	if (nr_sets)
		htw_close(sets[0].htw);
	nr_sets = 0;
}

bool model_open(const struct model_mode *m)
{
	mode = m;
	if (setjmp(failed)) {
		model_close();
		return false;
	}
	open_sets();
	return true;
}

static void take_step(void)
{
	const unsigned int kinds = ARRAY_SIZE(steps) - !in_process();
	unsigned int i, total = 0, kind;

	for (i = 0; i < kinds; i++)
		total += steps[i].weight;
	kind = below(total);
	for (i = 0; kind >= steps[i].weight; i++)
		kind -= steps[i].weight;
	steps[i].run();
}

bool model_step(void)
{
	if (setjmp(failed))
		return false;
	take_step();
	return true;
}
