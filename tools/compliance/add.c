// SPDX-License-Identifier: GPL-2.0-only
/* HTW_ADD, alone and in HTW_VECTOR */
#include "areas.h"
#include "subject.h"

static const struct call calls[] = {
	{ "HTW_ADD", HTW_ADD, 0, sizeof(struct htw_add_args) },
	{ "HTW_VECTOR of HTW_OP_ADD", HTW_VECTOR, HTW_OP_ADD, sizeof(struct htw_add_args) },
};

/* Start a timer and return its HTW_QUERY. */
static struct htw_timer_info add_and_query(struct subject *s, const struct call *call,
					   struct htw_add_args *add)
{
	struct htw_add_args before = *add;
	struct htw_timer_info query;

	expect_result("the call", 0, perform(s, call, add));
	expect(add->id && add->id != POISON, "id is %#llx", add->id);
	before.id = add->id;
	expect(!memcmp(&before, add, sizeof(*add)), "more than the id was written");
	expect(!HTW_ID_IS_ERROR(add->id), "id %#llx is an error's", add->id);
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
	struct htw_timer_info query;
	struct htw_event ev[2];
	struct htw_add_args add;

	begin("deadline: relative");
	add = valid_add();
	query = add_and_query(s, call, &add);
	expect_number("deadline of HTW_QUERY", s->now + HOUR, query.deadline);
	stop(s, add.id);

	begin("deadline: absolute, with HTW_F_ABS");
	add = valid_add();
	add.flags = HTW_F_ABS;
	add.deadline = (1ULL << 62) + 7;
	query = add_and_query(s, call, &add);
	expect_number("deadline of HTW_QUERY", add.deadline, query.deadline);
	stop(s, add.id);

	begin("deadline: later than 2^63 - 1 never comes");
	for (size_t i = 0; i < 2 * ARRAY_SIZE(never); i++) {
		add = valid_add();
		add.deadline = never[i / 2];
		add.flags = i % 2 ? HTW_F_ABS : 0;
		query = add_and_query(s, call, &add);
		if (add.deadline == ~0ULL)
			expect_number("deadline of HTW_QUERY", ~0ULL, query.deadline);
		pass(s, HOUR);
		expect_result("read()", -EAGAIN, get(s, ev, 1));
		expect_result("HTW_CANCEL", 0, stop(s, add.id));
	}

	begin("deadline: zero and past are due at once");
	for (unsigned int i = 0; i < 2; i++) {
		add = valid_add();
		add.deadline = 0;
		add.flags = i ? HTW_F_ABS : 0;
		expect_result("the call", 0, perform(s, call, &add));
		expect_number("state", HTW_STATE_DUE, state_of(s, add.id));
		expect_number("poll()", POLLIN, poll_fd(s, 0));
		if (expect_result("read()", 1, get(s, ev, 2)))
			expect_event(s, ev, add.id, COOKIE, 0);
	}

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
	struct htw_add_args add;

	begin("interval: less than a tick is a tick");
	for (size_t i = 0; i < ARRAY_SIZE(below); i++) {
		add = valid_add();
		add.deadline = s->tick;
		add.interval = below[i];
		expect_result("the call", 0, perform(s, call, &add));
		expect_number("interval of HTW_QUERY", s->tick, query_of(s, add.id).interval);
		pass(s, 10 * s->tick);
		expect_result("read()", 1, get(s, ev, 2));
		expect_number("missed", 9, ev[0].missed);
		expect_result("HTW_CANCEL", 0, stop(s, add.id));
	}

	begin("interval: a tick, and U64_MAX");
	add = valid_add();
	add.interval = s->tick;
	add_and_query(s, call, &add);
	expect_result("HTW_CANCEL", 0, stop(s, add.id));
	add = valid_add();
	add.interval = ~0ULL;
	add_and_query(s, call, &add);
	expect_result("HTW_CANCEL", 0, stop(s, add.id));

	begin("firings: EINVAL for a one-shot timer");
	add = valid_add();
	add.firings = 1;
	fails(s, call, &add, EINVAL, "1");
	add.firings = ~0U;
	fails(s, call, &add, EINVAL, "U32_MAX");

	begin("firings: exactly that many, missed ones included");
	add = valid_add();
	add.deadline = 10 * s->tick;
	add.interval = 10 * s->tick;
	add.firings = 4;
	add_and_query(s, call, &add);
	for (unsigned int i = 0; i < 3; i++) {
		pass(s, i == 1 ? 20 * s->tick : 10 * s->tick);
		if (!expect_result("read()", 1, get(s, ev, 2)))
			break;
		expect_event(s, ev, add.id, COOKIE, i < 2 ? HTW_EVENT_MORE : 0);
		expect_number("missed", i == 1, ev[0].missed);
	}
	expect_result("HTW_CANCEL", -ENOENT, stop(s, add.id));
}

static void check_add_kept(struct subject *s, const struct call *call)
{
	struct htw_add_args add = valid_add();
	struct htw_event ev[2];

	begin("flags: HTW_F_KEEP");
	add.flags = HTW_F_KEEP;
	add.deadline = s->tick;
	add_and_query(s, call, &add);
	pass(s, s->tick);
	if (expect_result("read()", 1, get(s, ev, 2)))
		expect_event(s, ev, add.id, COOKIE, HTW_EVENT_MORE);
	expect_number("state", HTW_STATE_DISARMED, state_of(s, add.id));
	expect_result("HTW_CANCEL", 0, stop(s, add.id));
	expect_result("HTW_CANCEL again", -ENOENT, stop(s, add.id));
}

static void check_add_limit(const struct call *call)
{
	struct subject s = open_fresh();
	struct htw_add_args add = valid_add(), other = valid_add();

	begin("ENOSPC at the limit, until a timer is cancelled");
	expect_result("HTW_SETUP", 0, htw_set_up(s.fd, (struct htw_setup_args){ .limit = 2 }));
	s.witness = start(&s, 0);
	expect_result("up to it", 0, perform(&s, call, &other));
	fails(&s, call, &add, ENOSPC, "at it");
	expect_result("HTW_CANCEL", 0, stop(&s, other.id));
	expect_result("below it again", 0, perform(&s, call, &add));
	close_subject(&s);
}

static void check_add_by(const struct call *call)
{
	const __u64 cookies[] = { 0, ~0ULL, COOKIE };
	struct subject s = open_witnessed();
	struct htw_add_args add = valid_add(), other = valid_add();
	struct htw_event ev;

	group(call->name);
	begin("id: written, and unique");
	add_and_query(&s, call, &add);
	add_and_query(&s, call, &other);
	expect(add.id != other.id, "two timers have id %#llx", add.id);
	expect_result("HTW_CANCEL", 0, stop(&s, add.id));
	expect_result("HTW_CANCEL of the other", 0, stop(&s, other.id));

	check_add_deadlines(&s, call);
	check_add_periodic(&s, call);
	check_add_kept(&s, call);

	begin("slack: any value");
	for (unsigned int bit = 0; bit <= 64; bit++) {
		add = valid_add();
		add.slack = bit < 64 ? 1ULL << bit : ~0ULL;
		add_and_query(&s, call, &add);
		expect_result("HTW_CANCEL", 0, stop(&s, add.id));
	}

	begin("cookie: returned unchanged");
	for (unsigned int i = 0; i < ARRAY_SIZE(cookies); i++) {
		add = valid_add();
		add.deadline = s.tick;
		add.cookie = cookies[i];
		expect_result("the call", 0, perform(&s, call, &add));
		pass(&s, s.tick);
		if (expect_result("read()", 1, get(&s, &ev, 1)))
			expect_event(&s, &ev, add.id, add.cookie, 0);
	}

	add = valid_add();
	FAILS_WITH_BITS(&s, call, &add, flags, HTW_F_ABS | HTW_F_KEEP);
	if (!call->op) {
		fails_with_pointers(&s, call, &add);
		fails_read_only(&s, call, &add);
	}
	close_subject(&s);
	check_add_limit(call);
}

void check_add(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		check_add_by(&calls[i]);
}
