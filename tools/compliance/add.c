// SPDX-License-Identifier: GPL-2.0-only
/* HTW_ADD, alone and in HTW_BATCH */
#include <sys/timex.h>
#include <time.h>
#include "areas.h"
#include "subject.h"

static const struct call calls[] = {
	{ "HTW_ADD", HTW_ADD, 0, sizeof(struct htw_add) },
	{ "HTW_BATCH of HTW_OP_ADD", HTW_BATCH, HTW_OP_ADD, sizeof(struct htw_add) },
};

/* Start a timer and return its HTW_QUERY. */
static struct htw_query add_and_query(struct subject *s, const struct call *call,
				      struct htw_add *add)
{
	struct htw_add before = *add;
	struct htw_query query = { 0 };

	expect_result("the call", 0, perform(s, call, add));
	expect(add->id && add->id != POISON, "id is %#llx", add->id);
	before.id = add->id;
	expect(!memcmp(&before, add, sizeof(*add)), "more than the id was written");
	if (!has(HTW_FEATURE_MOD))
		return query;
	query = query_of(s, add->id);
	expect_number("id of HTW_QUERY", add->id, query.id);
	expect_number("cookie of HTW_QUERY", add->cookie, query.cookie);
	expect_number("interval of HTW_QUERY", add->interval, query.interval);
	expect_number("firings of HTW_QUERY", add->firings, query.firings);
	expect_number("flags of HTW_QUERY", add->flags & ~HTW_F_ABS, query.flags);
	return query;
}

static void check_add_deadlines(struct subject *s, const struct call *call)
{
	static const __u64 never[] = { ~0ULL, ~0ULL - 1, 1ULL << 63, (1ULL << 63) - 1 };
	struct htw_query query;
	struct htw_event ev[2];
	struct htw_add add;

	begin("deadline: relative");
	add = valid_add();
	query = add_and_query(s, call, &add);
	if (s->manual)
		expect_number("deadline of HTW_QUERY", s->now + HOUR, query.deadline);
	stop(s, add.id, 0);

	begin("deadline: absolute, with HTW_F_ABS");
	add = valid_add();
	add.flags = HTW_F_ABS;
	add.deadline = (1ULL << 62) + 7;
	query = add_and_query(s, call, &add);
	if (has(HTW_FEATURE_MOD))
		expect_number("deadline of HTW_QUERY", add.deadline, query.deadline);
	stop(s, add.id, 0);

	begin("deadline: U64_MAX never comes");
	for (size_t i = 0; i < 2 * ARRAY_SIZE(never); i++) {
		add = valid_add();
		add.deadline = never[i / 2];
		add.flags = i % 2 ? HTW_F_ABS : 0;
		query = add_and_query(s, call, &add);
		if (add.deadline == ~0ULL && has(HTW_FEATURE_MOD))
			expect_number("deadline of HTW_QUERY", ~0ULL, query.deadline);
		if (s->manual)
			pass(s, HOUR);
		expect_result("read()", -EAGAIN, get(s, ev, 1));
		expect_result("HTW_CANCEL", 0, stop(s, add.id, 0));
	}

	begin("deadline: zero and past expire at once");
	for (unsigned int i = 0; i < 2; i++) {
		add = valid_add();
		add.deadline = 0;
		add.flags = i ? HTW_F_ABS : 0;
		expect_result("the call", 0, perform(s, call, &add));
		expect_number(s->manual ? "poll(), without HTW_ADVANCE" : "poll()", POLLIN,
			      poll_fd(s, s->manual ? 1000 : FOREVER_MS));
		if (s->manual)
			pass(s, 0);
		if (expect_result("read()", 1, get(s, ev, 2)))
			expect_event(s, ev, add.id, COOKIE, 0);
	}

	if (!s->manual)
		return;
	begin("deadline: not a tick early, and at most a tick late");
	add = valid_add();
	add.deadline = 10 * s->tick + 1;
	expect_result("the call", 0, perform(s, call, &add));
	pass(s, 10 * s->tick);
	expect_result("read() 1 ns before it", -EAGAIN, get(s, ev, 1));
	pass(s, s->tick);
	expect_result("read() a tick after that", 1, get(s, ev, 2));
	expect_event(s, ev, add.id, COOKIE, 0);
}

static void check_add_periodic(struct subject *s, const struct call *call)
{
	const __u64 below[] = { 1, s->tick - 1 };
	struct htw_event ev[2];
	struct htw_add add;

	begin("interval: at least one tick");
	add = valid_add();
	add.interval = s->tick;
	add_and_query(s, call, &add);
	expect_result("HTW_CANCEL", 0, stop(s, add.id, 0));
	for (size_t i = 0; i < ARRAY_SIZE(below); i++) {
		add = valid_add();
		add.interval = below[i];
		if (below[i])
			fails(s, call, &add, EINVAL, i ? "a tick less 1 ns" : "1 ns");
	}

	begin("interval: U64_MAX");
	add = valid_add();
	add.interval = ~0ULL;
	add_and_query(s, call, &add);
	expect_result("HTW_CANCEL", 0, stop(s, add.id, 0));

	begin("firings: EINVAL for a one-shot timer");
	add = valid_add();
	add.firings = 1;
	fails(s, call, &add, EINVAL, "1");
	add.firings = ~0U;
	fails(s, call, &add, EINVAL, "U32_MAX");

	add = valid_add();
	add.interval = 10 * s->tick;
	add.firings = 3;
	if (!has(HTW_FEATURE_FIRINGS)) {
		begin("firings: EINVAL without the feature");
		fails(s, call, &add, EINVAL, "the call");
		return;
	}
	begin("firings: exactly that many");
	add.deadline = 10 * s->tick;
	add_and_query(s, call, &add);
	for (unsigned int i = 0; i < 3; ) {
		if (!expect(pass(s, 10 * s->tick), "it does not expire") ||
		    !expect_result("read()", 1, get(s, ev, 2)))
			break;
		i += 1 + ev[0].missed;
		expect_event(s, ev, add.id, COOKIE, i < 3 ? HTW_EVENT_MORE : 0);
		if (s->manual)
			expect_number("missed", 0, ev[0].missed);
	}
	expect_result("HTW_CANCEL", -ENOENT, stop(s, add.id, 0));
}

/* Step the clock by the least amount, and back. */
static void check_clock_set(struct subject *real, const struct call *call)
{
	struct timex tx = { .modes = ADJ_SETOFFSET | ADJ_NANO, .time = { .tv_usec = 1 } };
	struct htw_add add = valid_add();
	struct htw_event ev[2] = { 0 };

	begin("flags: HTW_F_CANCEL_ON_SET, and the clock is set");
	add.flags = HTW_F_CANCEL_ON_SET;
	expect_result("the call", 0, perform(real, call, &add));
	if (adjtimex(&tx) < 0) {
		skip("the clock cannot be set");
		return;
	}
	tx.time.tv_sec = -1;
	tx.time.tv_usec = SEC - 1;
	adjtimex(&tx);
	expect(poll_fd(real, FOREVER_MS) == POLLIN, "it does not expire");
	expect_result("read()", 1, get(real, ev, 2));
	expect_number("id of the event", add.id, ev[0].id);
	expect_number("cookie of the event", COOKIE, ev[0].cookie);
	expect_number("flags of the event", HTW_EVENT_CLOCK_SET, ev[0].flags);
	expect(ev[0].fired < ev[0].deadline, "fired %llu, deadline %llu", ev[0].fired,
	       ev[0].deadline);
	expect_result("HTW_CANCEL", -ENOENT, stop(real, add.id, 0));
}

static void check_add_flags(struct subject *s, const struct call *call)
{
	struct htw_event ev[2];
	struct htw_add add;

	add = valid_add();
	add.flags = HTW_F_KEEP;
	if (has(HTW_FEATURE_KEEP)) {
		begin("flags: HTW_F_KEEP");
		add.deadline = s->tick;
		add_and_query(s, call, &add);
		expect(pass(s, s->tick), "it does not expire");
		if (expect_result("read()", 1, get(s, ev, 2)))
			expect_event(s, ev, add.id, COOKIE, HTW_EVENT_MORE);
		expect_result("HTW_CANCEL", 0, stop(s, add.id, 0));
		expect_result("HTW_CANCEL again", -ENOENT, stop(s, add.id, 0));
	} else {
		begin("flags: HTW_F_KEEP is EINVAL without the feature");
		fails(s, call, &add, EINVAL, "the call");
	}

	add = valid_add();
	add.flags = HTW_F_CANCEL_ON_SET;
	if (has(HTW_FEATURE_CANCEL_ON_SET)) {
		struct htw_setup setup = { .flags = HTW_SETUP_CLOCK, .clock = CLOCK_REALTIME };
		struct subject real = open_fresh();

		begin("flags: HTW_F_CANCEL_ON_SET, with CLOCK_REALTIME");
		expect_result("HTW_SETUP", 0, htw_call(real.fd, HTW_SETUP, &setup));
		add_and_query(&real, call, &add);
		expect_result("HTW_CANCEL", 0, stop(&real, add.id, 0));
		check_clock_set(&real, call);
		close_subject(&real);

		begin("flags: HTW_F_CANCEL_ON_SET is EINVAL on other clocks");
		fails(s, call, &add, EINVAL, "the call");
	} else {
		begin("flags: HTW_F_CANCEL_ON_SET is EINVAL without the feature");
		fails(s, call, &add, EINVAL, "the call");
	}
}

static void check_add_by(const struct call *call)
{
	const __u64 cookies[] = { 0, ~0ULL, COOKIE };
	struct subject s = open_witnessed();
	struct htw_add add = valid_add(), other = valid_add();
	struct htw_event ev;

	group(call->name);
	begin("id: written, and unique");
	add_and_query(&s, call, &add);
	add_and_query(&s, call, &other);
	expect(add.id != other.id, "two timers have id %#llx", add.id);
	expect_result("HTW_CANCEL", 0, stop(&s, add.id, 0));
	expect_result("HTW_CANCEL of the other", 0, stop(&s, other.id, 0));

	check_add_deadlines(&s, call);
	check_add_periodic(&s, call);
	check_add_flags(&s, call);

	begin("slack: any value%s", has(HTW_FEATURE_SLACK) ? "" :
	      " but zero is EINVAL without the feature");
	for (unsigned int bit = 0; bit <= 64; bit++) {
		add = valid_add();
		add.slack = bit < 64 ? 1ULL << bit : ~0ULL;
		if (!has(HTW_FEATURE_SLACK)) {
			fails(&s, call, &add, EINVAL, "the call");
			continue;
		}
		add_and_query(&s, call, &add);
		expect_result("HTW_CANCEL", 0, stop(&s, add.id, 0));
	}

	begin("cookie: returned unchanged");
	for (unsigned int i = 0; i < ARRAY_SIZE(cookies); i++) {
		add = valid_add();
		add.deadline = s.tick;
		add.cookie = cookies[i];
		expect_result("the call", 0, perform(&s, call, &add));
		expect(pass(&s, s.tick), "it does not expire");
		if (expect_result("read()", 1, get(&s, &ev, 1)))
			expect_event(&s, &ev, add.id, add.cookie, 0);
	}

	add = valid_add();
	FAILS_WITH_BITS(&s, call, &add, flags, HTW_F_ABS | HTW_F_KEEP | HTW_F_CANCEL_ON_SET);
	FAILS_WITH_BITS(&s, call, &add, reserved, 0);
	if (!call->op) {
		fails_with_pointers(&s, call, &add);
		fails_read_only(&s, call, &add);
	}
	close_subject(&s);

	if (has(HTW_FEATURE_SETUP)) {
		struct htw_setup setup = { .flags = HTW_SETUP_LIMIT, .limit = 2 };

		s = open_fresh();
		begin("ENOSPC at the limit, until a timer is cancelled");
		expect_result("HTW_SETUP", 0, htw_call(s.fd, HTW_SETUP, &setup));
		s.witness = start(&s, 0);
		expect_result("up to it", 0, perform(&s, call, &other));
		fails(&s, call, &add, ENOSPC, "at it");
		expect_result("HTW_CANCEL", 0, stop(&s, other.id, 0));
		expect_result("below it again", 0, perform(&s, call, &add));
		close_subject(&s);
	}
}

void check_add(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		check_add_by(&calls[i]);
}
