// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: random calls, compared with a simple model
 *
 * The model is a list of timers by the ticks at which they are due, and then in the order
 * in which they were armed. On the manual clock each result of each call is known by it.
 */
#include <kunit/test.h>
#include <linux/list.h>
#include <linux/prandom.h>

#include "htw_kunit.h"

/* Timers at a time. */
#define SLOTS			220u
/* Entries of a vector. */
#define MOST			25u
/* Nodes that are looked at to make way for a timer that is due at once. */
#define LOOKS			32u

/* Manual clocks and wheels that are tried. */
struct shape {
	const char *name;
	u64 tick;
	u32 levels;
	u32 slots[HTW_MAX_LEVELS];
};

static const struct shape shapes[] = {
	{ "a tick of 1 ns", 1 },
	{ "a tick of 7 ns", 7 },
	{ "a tick of 1 ms", NSEC_PER_MSEC },
	{ "two slots", 10, 1, { 2 } },
	{ "few odd slots", 3, 3, { 2, 3, 5 } },
	{ "75 slots for 3000 ticks", 1000, 3, { 10, 60, 5 } },
	{ "eight levels", 100, 8, { 2, 2, 2, 2, 2, 2, 2, 2 } },
	{ "a long level", 1, 1, { 2048 } },
	{ "powers of two", 1, 3, { 64, 64, 64 } },
};

/**
 * struct expected - what a timer is to be
 * @entry: in &struct model.armed, if it is armed
 * @id: its id; zero if there is none
 * @deadline: its deadline
 * @tick: when it is due, in ticks
 * @interval: its interval
 * @slack: its slack
 * @cookie: its cookie; the lower half is its index
 * @firings: firings left
 * @keep: it is kept
 */
struct expected {
	struct list_head entry;
	u64 id;
	u64 deadline;
	u64 tick;
	u64 interval;
	u64 slack;
	u64 cookie;
	u32 firings;
	bool keep;
};

/**
 * struct model - a device, and what it is to do
 * @f: the device
 * @rnd: where the calls come from
 * @tick_ns: its tick
 * @now: the time
 * @timers: how many there are
 * @armed: in the order in which they come
 * @all: all timers
 * @events: what was read
 */
struct model {
	struct htw_test_file *f;
	struct rnd_state rnd;
	u64 tick_ns;
	u64 now;
	u32 timers;
	struct list_head armed;
	struct expected all[SLOTS];
	struct htw_event events[SLOTS];
};

static u32 pick(struct model *m, u32 below)
{
	return prandom_u32_state(&m->rnd) % below;
}

/* A number of any magnitude up to 2^@bits. */
static u64 pick_magnitude(struct model *m, u32 bits)
{
	const u64 r = (u64)prandom_u32_state(&m->rnd) << 32 | prandom_u32_state(&m->rnd);

	return r >> (63 - pick(m, bits));
}

static bool is_armed(const struct expected *e)
{
	return !list_empty(&e->entry);
}

static bool is_due(const struct model *m, const struct expected *e)
{
	return is_armed(e) && e->tick <= m->now / m->tick_ns;
}

static u32 state_of(const struct model *m, const struct expected *e)
{
	if (!is_armed(e))
		return HTW_STATE_DISARMED;
	return is_due(m, e) ? HTW_STATE_DUE : HTW_STATE_PENDING;
}

static u64 missed_by(const struct model *m, const struct expected *e)
{
	u64 missed;

	if (!e->interval || !is_due(m, e))
		return 0;
	missed = (m->now - e->deadline) / e->interval;
	return e->firings ? min_t(u64, missed, e->firings - 1) : missed;
}

static u64 remaining_of(const struct model *m, const struct expected *e)
{
	return is_armed(e) && e->deadline > m->now ? e->deadline - m->now : 0;
}

/* Put a timer behind all others that are due no later. */
static void queue(struct model *m, struct expected *e, u64 tick)
{
	struct expected *before;

	e->tick = tick;
	list_for_each_entry_reverse(before, &m->armed, entry)
		if (before->tick <= tick)
			break;
	list_add(&e->entry, &before->entry);
}

/*
 * A timer is due at once: those that wait for the next tick, and whose deadlines have
 * come, are so before it, up to a number of them that are looked at; none, if its own
 * came before this tick.
 */
static u64 tick_at_once(struct model *m, u64 deadline)
{
	const u64 present = m->now / m->tick_ns;
	struct expected *e, *next;
	u32 looks = LOOKS;

	if (deadline <= present * m->tick_ns)
		return present;
	list_for_each_entry_safe(e, next, &m->armed, entry) {
		if (e->tick <= present)
			continue;
		if (e->tick > present + 1)
			break;
		if (!looks--)
			break;
		if (e->deadline > m->now)
			continue;
		list_del(&e->entry);
		queue(m, e, present);
	}
	return present;
}

static void arm(struct model *m, struct expected *e, u64 deadline, bool absolute)
{
	u64 due;

	if (is_armed(e))
		list_del_init(&e->entry);
	e->deadline = deadline;
	if (!absolute)
		e->deadline = m->now + deadline < deadline ? U64_MAX : m->now + deadline;
	if (e->deadline <= m->now) {
		queue(m, e, tick_at_once(m, e->deadline));
		return;
	}
	due = htw_test_due_with_slack(e->deadline, e->slack, m->tick_ns);
	/* That a deadline is rounded up may not fit. */
	queue(m, e, due < e->deadline ? U64_MAX : due / m->tick_ns);
}

static void end(struct model *m, struct expected *e)
{
	if (is_armed(e))
		list_del_init(&e->entry);
	e->id = 0;
	m->timers--;
}

/* What taking a timer's event says and does. */
static void take(struct model *m, struct expected *e, const struct htw_event *event)
{
	struct kunit *test = m->f->test;
	const u64 missed = missed_by(m, e), fired = missed + 1;
	const bool goes_on = e->interval && (!e->firings || e->firings > fired);

	KUNIT_ASSERT_EQ(test, event->id, e->id);
	KUNIT_ASSERT_EQ(test, event->cookie, e->cookie);
	KUNIT_ASSERT_EQ(test, event->deadline, e->deadline);
	KUNIT_ASSERT_EQ(test, event->taken, m->now);
	KUNIT_ASSERT_EQ(test, event->missed, missed);
	KUNIT_ASSERT_EQ(test, event->flags, goes_on || e->keep ? HTW_EVENT_MORE : 0);
	list_del_init(&e->entry);
	if (goes_on) {
		u64 next;

		if (check_add_overflow(e->deadline + missed * e->interval, e->interval, &next))
			next = U64_MAX;
		e->deadline = next;
		if (e->firings)
			e->firings -= fired;
		queue(m, e, htw_tick_up(next, m->tick_ns));
	} else if (e->keep) {
		e->interval = 0;
		e->firings = 0;
	} else {
		end(m, e);
	}
}

static struct expected *pick_free(struct model *m)
{
	u32 i = pick(m, SLOTS);

	while (m->all[i].id)
		i = (i + 1) % SLOTS;
	return &m->all[i];
}

/* A timer, or now and then none. */
static struct expected *pick_timer(struct model *m)
{
	u32 i = pick(m, SLOTS);

	for (u32 k = 0; k < SLOTS && !m->all[i].id && pick(m, 50); k++)
		i = (i + 1) % SLOTS;
	return &m->all[i];
}

static u64 pick_interval(struct model *m)
{
	return pick(m, 3) ? 0 : 1 + pick_magnitude(m, 30);
}

static u64 pick_deadline(struct model *m, bool absolute)
{
	const u64 from = absolute ? m->now : 0;

	switch (pick(m, 12)) {
	case 0:
		return absolute ? pick_magnitude(m, 64) % (m->now + 1) : 0;
	case 1:
		return absolute ? m->now : U64_MAX - pick(m, 3);
	case 2:
		return from + pick_magnitude(m, 62);
	case 3:
		/* On a tick. */
		return from + pick(m, 20) * m->tick_ns;
	default:
		return from + pick_magnitude(m, 14) * (1 + pick(m, 2) * (m->tick_ns / 2));
	}
}

/* Intervals below a tick are rounded up. */
static u64 interval_of(const struct model *m, u64 interval)
{
	return interval ? max(interval, m->tick_ns) : 0;
}

static void random_add(struct model *m)
{
	struct expected *e = pick_free(m);
	struct htw_add_args add = {
		.interval = pick_interval(m),
		.slack = pick(m, 4) ? 0 : pick_magnitude(m, 30),
		.flags = pick(m, 3) ? 0 : HTW_F_KEEP,
		.cookie = (u64)prandom_u32_state(&m->rnd) << 32 | (e - m->all),
	};

	if (add.interval)
		add.firings = pick(m, 6);
	if (pick(m, 2))
		add.flags |= HTW_F_ABS;
	add.deadline = pick_deadline(m, add.flags & HTW_F_ABS);
	*e = (struct expected) {
		.id = htw_test_add(m->f, &add), .interval = interval_of(m, add.interval),
		.slack = add.slack, .cookie = add.cookie, .firings = add.firings,
		.keep = add.flags & HTW_F_KEEP,
	};
	INIT_LIST_HEAD(&e->entry);
	m->timers++;
	arm(m, e, add.deadline, add.flags & HTW_F_ABS);
}

static void random_cancel(struct model *m)
{
	struct kunit *test = m->f->test;
	struct expected *e = pick_timer(m);
	struct htw_cancel_args out;

	if (!e->id) {
		htw_test_expect_no_timer(m->f, prandom_u32_state(&m->rnd));
		return;
	}
	KUNIT_ASSERT_EQ(test, htw_test_cancel(m->f, e->id, &out), 0);
	KUNIT_ASSERT_EQ(test, out.state, state_of(m, e));
	KUNIT_ASSERT_EQ(test, out.cookie, e->cookie);
	KUNIT_ASSERT_EQ(test, out.missed, missed_by(m, e));
	KUNIT_ASSERT_EQ(test, out.remaining, remaining_of(m, e));
	end(m, e);
}

/* Change fields of the model's timer as HTW_MOD does. */
static void mod(struct model *m, struct expected *e, const struct htw_mod_args *mod)
{
	if (mod->flags & HTW_MOD_INTERVAL) {
		e->interval = interval_of(m, mod->interval);
		e->firings = mod->firings;
	}
	if (mod->flags & HTW_MOD_COOKIE)
		e->cookie = mod->cookie;
	if (mod->flags & HTW_MOD_SLACK)
		e->slack = mod->slack;
	if (mod->flags & HTW_MOD_DEADLINE)
		arm(m, e, mod->deadline, mod->flags & HTW_F_ABS);
}

static struct htw_mod_args pick_mod(struct model *m, struct expected *e)
{
	static const u32 fields[] = {
		HTW_MOD_DEADLINE, HTW_MOD_INTERVAL, HTW_MOD_COOKIE, HTW_MOD_SLACK,
	};
	struct htw_mod_args mod = { .id = e->id, .flags = fields[pick(m, 4)] };

	for (u32 i = 0; i < 4; i++)
		if (!pick(m, 3))
			mod.flags |= fields[i];
	if (mod.flags & HTW_MOD_DEADLINE) {
		if (pick(m, 2))
			mod.flags |= HTW_F_ABS;
		mod.deadline = pick_deadline(m, mod.flags & HTW_F_ABS);
	}
	if (mod.flags & HTW_MOD_INTERVAL)
		mod.interval = pick_interval(m);
	if (mod.interval)
		mod.firings = pick(m, 6);
	if (mod.flags & HTW_MOD_COOKIE)
		mod.cookie = (u64)prandom_u32_state(&m->rnd) << 32 | (e - m->all);
	if (mod.flags & HTW_MOD_SLACK)
		mod.slack = pick(m, 2) ? 0 : pick_magnitude(m, 30);
	return mod;
}

static void random_mod(struct model *m)
{
	struct kunit *test = m->f->test;
	struct expected *e = pick_timer(m);
	struct htw_mod_args args = pick_mod(m, e);
	u32 state;

	if (!e->id)
		return;
	state = state_of(m, e);
	KUNIT_ASSERT_EQ(test, htw_test_mod(m->f, &args), 0);
	KUNIT_ASSERT_EQ(test, args.state, state);
	mod(m, e, &args);
}

/* Where each operation may make way for others, one vector may do more of that than the next. */
static bool is_crowded(const struct model *m)
{
	const u64 next = m->now / m->tick_ns + 1;
	const struct expected *e;
	u32 n = 0;

	list_for_each_entry(e, &m->armed, entry)
		n += e->tick == next;
	return n + MOST > LOOKS;
}

static void random_vector(struct model *m)
{
	const u32 op = 1 + pick(m, 3), count = 1 + pick(m, MOST);
	struct htw_test_file *f = m->f;
	struct kunit *test = f->test;
	struct htw_vector_args v = { .op = op, .count = count };
	struct htw_mod_args fields = {};
	struct expected *e[MOST];
	u64 arrays[3][MOST];
	u32 failed = 0;

	if (op == HTW_OP_ADD && m->timers + count > SLOTS)
		return;
	if (op == HTW_OP_MOD) {
		fields = pick_mod(m, &m->all[0]);
	} else if (op == HTW_OP_ADD) {
		fields.flags = (pick(m, 2) ? HTW_F_ABS : 0) | (pick(m, 4) ? 0 : HTW_F_KEEP);
		fields.interval = pick_interval(m);
		fields.firings = fields.interval ? pick(m, 6) : 0;
		fields.slack = pick(m, 4) ? 0 : pick_magnitude(m, 30);
	}
	v.flags = fields.flags;
	v.interval = fields.interval;
	v.firings = fields.firings;
	v.slack = fields.slack;
	v.ids = f->to;
	if (op == HTW_OP_ADD || fields.flags & HTW_MOD_DEADLINE)
		v.deadlines = f->to + sizeof(arrays[0]);
	if (op == HTW_OP_ADD || fields.flags & HTW_MOD_COOKIE)
		v.cookies = f->to + 2 * sizeof(arrays[0]);
	for (u32 i = 0; i < count; i++) {
		e[i] = pick_timer(m);
		arrays[0][i] = op == HTW_OP_ADD ? 0 : e[i]->id;
		arrays[1][i] = pick_deadline(m, v.flags & HTW_F_ABS);
		if (is_crowded(m) && arrays[1][i] <= (v.flags & HTW_F_ABS ? m->now : 0))
			arrays[1][i] = U64_MAX;
	}
	for (u32 i = 0; i < count; i++) {
		if (op == HTW_OP_ADD) {
			e[i] = pick_free(m);
			/* Not to be picked again. */
			e[i]->id = HTW_TEST_POISON;
		}
		arrays[2][i] = (u64)prandom_u32_state(&m->rnd) << 32 | (e[i] - m->all);
	}
	htw_test_write(test, f->to, arrays, sizeof(arrays));
	KUNIT_ASSERT_EQ(test, htw_test_call(f, HTW_VECTOR, &v), 0);
	KUNIT_ASSERT_EQ(test, v.done, count);
	htw_test_read(test, arrays[0], f->to, sizeof(arrays[0]));

	for (u32 i = 0; i < count; i++) {
		if (op == HTW_OP_ADD) {
			*e[i] = (struct expected) {
				.id = arrays[0][i], .interval = interval_of(m, v.interval),
				.slack = v.slack, .cookie = arrays[2][i], .firings = v.firings,
				.keep = v.flags & HTW_F_KEEP,
			};
			INIT_LIST_HEAD(&e[i]->entry);
			m->timers++;
			arm(m, e[i], arrays[1][i], v.flags & HTW_F_ABS);
		} else if (!e[i]->id) {
			KUNIT_ASSERT_EQ(test, arrays[0][i], (u64)-ENOENT);
			failed++;
		} else {
			KUNIT_ASSERT_EQ(test, arrays[0][i], e[i]->id);
			fields.deadline = arrays[1][i];
			fields.cookie = arrays[2][i];
			if (op == HTW_OP_MOD)
				mod(m, e[i], &fields);
			else
				end(m, e[i]);
		}
	}
	KUNIT_ASSERT_EQ(test, v.failed, failed);
}

static void random_advance(struct model *m)
{
	const u64 by = pick(m, 30) ? pick_magnitude(m, 12) * (1 + pick(m, 2) * (m->tick_ns / 2)) :
				     pick_magnitude(m, 45);
	const struct expected *first;

	if (m->now + by > S64_MAX)
		return;
	m->now += by;
	first = list_first_entry_or_null(&m->armed, struct expected, entry);
	KUNIT_ASSERT_EQ(m->f->test, htw_test_advance_to(m->f, m->now), first && is_due(m, first));
}

static void random_read(struct model *m)
{
	const u32 want = pick(m, 4) ? 1 + pick(m, SLOTS) : 1 + pick(m, 5);
	struct kunit *test = m->f->test;
	const u32 n = htw_test_take(m->f, m->events, want);
	const struct expected *first;

	for (u32 i = 0; i < n; i++) {
		struct expected *e = list_first_entry(&m->armed, struct expected, entry);

		KUNIT_ASSERT_FALSE(test, list_empty(&m->armed));
		KUNIT_ASSERT_TRUE(test, is_due(m, e));
		take(m, e, &m->events[i]);
	}
	first = list_first_entry_or_null(&m->armed, struct expected, entry);
	if (n < want && first)
		KUNIT_ASSERT_FALSE_MSG(test, is_due(m, first),
				       "deadline %llu, tick %llu, now %llu, tick %llu; %u of %u read",
				       first->deadline, first->tick, m->now, m->now / m->tick_ns,
				       n, want);
}

static void expect_entry(struct model *m, const struct expected *e,
			 const struct htw_timer_info *info)
{
	struct kunit *test = m->f->test;

	KUNIT_ASSERT_EQ(test, info->id, e->id);
	KUNIT_ASSERT_EQ(test, info->state, state_of(m, e));
	KUNIT_ASSERT_EQ(test, info->deadline, e->deadline);
	KUNIT_ASSERT_EQ(test, info->remaining, remaining_of(m, e));
	KUNIT_ASSERT_EQ(test, info->interval, e->interval);
	KUNIT_ASSERT_EQ(test, info->cookie, e->cookie);
	KUNIT_ASSERT_EQ(test, info->missed, missed_by(m, e));
	KUNIT_ASSERT_EQ(test, info->firings, e->firings);
	KUNIT_ASSERT_EQ(test, info->flags, e->keep ? HTW_F_KEEP : 0);
}

/* HTW_LIST or HTW_HARVEST of timers in some states. */
static void random_walk(struct model *m, unsigned int cmd)
{
	struct htw_list_args list = {
		.entries = m->f->to, .count = SLOTS, .flags = pick(m, 8),
	};
	struct kunit *test = m->f->test;
	u32 expected = 0;

	KUNIT_ASSERT_EQ(test, htw_test_call(m->f, cmd, &list), 0);
	for (u32 i = 0; i < SLOTS; i++)
		expected += m->all[i].id && (!list.flags ||
					     list.flags & BIT(state_of(m, &m->all[i]) - 1));
	KUNIT_ASSERT_EQ(test, list.done, expected);
	for (u32 i = 0; i < list.done; i++) {
		struct htw_timer_info info;

		htw_test_read(test, &info, m->f->to + i * sizeof(info), sizeof(info));
		KUNIT_ASSERT_LT(test, (u32)info.cookie, SLOTS);
		expect_entry(m, &m->all[(u32)info.cookie], &info);
		if (cmd == HTW_HARVEST)
			end(m, &m->all[(u32)info.cookie]);
	}
}

static void random_cancel_all(struct model *m)
{
	struct htw_cancel_all_args all = {};

	KUNIT_ASSERT_EQ(m->f->test, htw_test_call(m->f, HTW_CANCEL_ALL, &all), 0);
	KUNIT_ASSERT_EQ(m->f->test, all.count, m->timers);
	for (u32 i = 0; i < SLOTS; i++)
		if (m->all[i].id)
			end(m, &m->all[i]);
}

/* What looks, and changes nothing. */
static void expect_model(struct model *m)
{
	const struct expected *first = list_first_entry_or_null(&m->armed, struct expected, entry);
	const struct htw_info_args info = htw_test_info(m->f);
	const struct expected *e = pick_timer(m);
	struct kunit *test = m->f->test;

	KUNIT_ASSERT_EQ(test, info.timers, m->timers);
	/* Nothing is due before that. */
	if (!first)
		KUNIT_ASSERT_EQ(test, info.next, U64_MAX);
	else if (first->tick <= S64_MAX / m->tick_ns)
		KUNIT_ASSERT_LE(test, info.next, max(m->now, first->tick * m->tick_ns));
	KUNIT_ASSERT_EQ(test, htw_test_is_readable(m->f), first && is_due(m, first));
	if (e->id) {
		const struct htw_timer_info now = htw_test_info_of(m->f, e->id);

		expect_entry(m, e, &now);
	}
}

static void get_shape_desc(const struct shape *shape, char *desc)
{
	strscpy(desc, shape->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(shape, shapes, get_shape_desc);

static void random_call(struct model *m)
{
	const u32 what = pick(m, 100);

	if (what < 20 && m->timers < SLOTS)
		random_add(m);
	else if (what < 30)
		random_cancel(m);
	else if (what < 48)
		random_mod(m);
	else if (what < 55)
		random_vector(m);
	else if (what < 75)
		random_advance(m);
	else if (what < 95)
		random_read(m);
	else if (what < 98)
		random_walk(m, HTW_LIST);
	else if (what < 99)
		random_walk(m, HTW_HARVEST);
	else if (!pick(m, 20))
		random_cancel_all(m);
}

static void as_the_model(struct kunit *test)
{
	const u32 rounds = IS_ENABLED(CONFIG_UML) ? 20 : 2, calls = 1500;
	const struct shape *shape = test->param_value;
	struct htw_setup_args setup = {
		.flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL, .tick_ns = shape->tick,
		.levels = shape->levels,
	};
	struct model *m = htw_test_array(test, 1, sizeof(*m));

	memcpy(setup.slots, shape->slots, sizeof(setup.slots));
	for (u32 seed = 1; seed <= rounds; seed++) {
		memset(m, 0, sizeof(*m));
		m->f = htw_test_open(test);
		htw_test_setup(m->f, &setup);
		m->tick_ns = shape->tick;
		INIT_LIST_HEAD(&m->armed);
		prandom_seed_state(&m->rnd, seed);
		for (u32 i = 0; i < SLOTS; i++)
			INIT_LIST_HEAD(&m->all[i].entry);
		for (u32 i = 0; i < calls; i++) {
			random_call(m);
			expect_model(m);
		}
		htw_test_close(m->f);
	}
}

static struct kunit_case htw_model_cases[] = {
	KUNIT_CASE_PARAM(as_the_model, shape_gen_params),
	{}
};

static struct kunit_suite htw_model_suite = {
	.name = "htw_model",
	.test_cases = htw_model_cases,
};

kunit_test_suite(htw_model_suite);

MODULE_DESCRIPTION("KUnit: random calls, compared with a model");
MODULE_LICENSE("GPL");
