// SPDX-License-Identifier: GPL-2.0-only
/* HTW_MOD, alone and in HTW_VECTOR */
#include "areas.h"
#include "subject.h"

static const struct call calls[] = {
	{ "HTW_MOD", HTW_MOD, 0, sizeof(struct htw_mod_args) },
	{ "HTW_VECTOR of HTW_OP_MOD", HTW_VECTOR, HTW_OP_MOD, sizeof(struct htw_mod_args) },
};

/*
 * Change a timer that is in @state, which must succeed without writing more than that; return
 * its HTW_QUERY.
 */
static struct htw_timer_info mod_and_query(struct subject *s, const struct call *call,
					   struct htw_mod_args mod, __u32 state)
{
	struct htw_mod_args before;

	mod.state = POISON32;
	before = mod;
	expect_result("the call", 0, perform(s, call, &mod));
	if (!call->op) {
		expect_number("state before", state, mod.state);
		before.state = mod.state;
	}
	expect(!memcmp(&before, &mod, sizeof(mod)), "more than the state was written");
	return query_of(s, mod.id);
}

static void check_mod_due(struct subject *s, const struct call *call)
{
	struct htw_add_args add = valid_add();
	struct htw_timer_info query;
	struct htw_event ev[2];
	struct htw_mod_args mod;

	add.deadline = 1;
	begin("a due timer: armed anew, and no event comes");
	mod = (struct htw_mod_args){
		.id = start_due(s, add), .deadline = HOUR, .flags = HTW_MOD_DEADLINE };
	query = mod_and_query(s, call, mod, HTW_STATE_DUE);
	expect_number("state", HTW_STATE_PENDING, query.state);
	expect_result("read()", -EAGAIN, get(s, ev, 1));
	expect_result("HTW_CANCEL", 0, stop(s, mod.id));

	begin("a due timer, without a deadline: its event has the new cookie");
	mod = (struct htw_mod_args){
		.id = start_due(s, add), .cookie = 5, .flags = HTW_MOD_COOKIE };
	query = mod_and_query(s, call, mod, HTW_STATE_DUE);
	expect_number("state", HTW_STATE_DUE, query.state);
	if (expect_result("read()", 1, get(s, ev, 2)))
		expect_event(s, ev, mod.id, 5, 0);

	begin("a due timer, with firings: its event is the first of them");
	mod = (struct htw_mod_args){
		.id = start_due(s, add), .interval = 10 * s->tick, .firings = 2,
		.flags = HTW_MOD_INTERVAL };
	query = mod_and_query(s, call, mod, HTW_STATE_DUE);
	expect_number("firings", 2, query.firings);
	if (expect_result("read()", 1, get(s, ev, 2)))
		expect_event(s, ev, mod.id, COOKIE, HTW_EVENT_MORE);
	pass(s, 10 * s->tick);
	if (expect_result("read() of the last", 1, get(s, ev, 2)))
		expect_event(s, ev, mod.id, COOKIE, 0);
}

static void check_mod_states(struct subject *s, const struct call *call)
{
	struct htw_add_args add = valid_add();
	struct htw_timer_info query;
	struct htw_event ev[2];
	struct htw_mod_args mod;

	begin("a kept, disarmed timer: armed again");
	add.deadline = 1;
	add.flags = HTW_F_KEEP;
	mod = (struct htw_mod_args){
		.id = start_due(s, add), .deadline = s->tick, .flags = HTW_MOD_DEADLINE };
	expect_result("read()", 1, get(s, ev, 2));
	query = mod_and_query(s, call, mod, HTW_STATE_DISARMED);
	expect_number("state", HTW_STATE_PENDING, query.state);
	pass(s, s->tick);
	if (expect_result("read() again", 1, get(s, ev, 2)))
		expect_event(s, ev, mod.id, COOKIE, HTW_EVENT_MORE);
	stop(s, mod.id);

	begin("id: ENOENT for a stale id and for invalid ids");
	mod.state = POISON32;
	mod.deadline = HOUR;
	fails(s, call, &mod, ENOENT, "cancelled");
	mod.id = 0;
	fails(s, call, &mod, ENOENT, "0");
	mod.id = ~0ULL;
	fails(s, call, &mod, ENOENT, "U64_MAX");
	add.flags = 0;
	mod.id = start_due(s, add);
	expect_result("read()", 1, get(s, ev, 2));
	fails(s, call, &mod, ENOENT, "taken");
}

static void check_mod_fields(struct subject *s, const struct call *call)
{
	const __u64 id = start(s, 0);
	struct htw_timer_info before, query;
	struct htw_mod_args mod;

	begin("deadline: relative");
	query = mod_and_query(s, call, (struct htw_mod_args){
		.id = id, .deadline = 2 * HOUR, .flags = HTW_MOD_DEADLINE }, HTW_STATE_PENDING);
	expect_number("deadline", s->now + 2 * HOUR, query.deadline);
	expect_number("cookie", COOKIE, query.cookie);

	begin("deadline: absolute, with HTW_F_ABS");
	query = mod_and_query(s, call, (struct htw_mod_args){
		.id = id, .deadline = (1ULL << 62) + 7, .flags = HTW_MOD_DEADLINE | HTW_F_ABS },
		HTW_STATE_PENDING);
	expect_number("deadline", (1ULL << 62) + 7, query.deadline);

	begin("deadline: U64_MAX");
	query = mod_and_query(s, call, (struct htw_mod_args){
		.id = id, .deadline = ~0ULL, .flags = HTW_MOD_DEADLINE }, HTW_STATE_PENDING);
	expect_number("deadline", ~0ULL, query.deadline);

	begin("interval, firings: to periodic and back");
	before = query;
	mod = (struct htw_mod_args){
		.id = id, .interval = HOUR, .firings = 7, .flags = HTW_MOD_INTERVAL };
	query = mod_and_query(s, call, mod, HTW_STATE_PENDING);
	expect_number("interval", HOUR, query.interval);
	expect_number("firings", 7, query.firings);
	expect_number("deadline", before.deadline, query.deadline);
	mod.interval = mod.firings = 0;
	query = mod_and_query(s, call, mod, HTW_STATE_PENDING);
	expect_number("interval, back", 0, query.interval);
	expect_number("firings, back", 0, query.firings);

	begin("interval: less than a tick is a tick");
	mod.interval = 1;
	query = mod_and_query(s, call, mod, HTW_STATE_PENDING);
	expect_number("interval", s->tick, query.interval);
	mod.interval = 0;
	mod_and_query(s, call, mod, HTW_STATE_PENDING);

	begin("cookie: another value, and zero");
	query = mod_and_query(s, call, (struct htw_mod_args){
		.id = id, .cookie = 5, .flags = HTW_MOD_COOKIE }, HTW_STATE_PENDING);
	expect_number("cookie", 5, query.cookie);
	query = mod_and_query(s, call, (struct htw_mod_args){
		.id = id, .flags = HTW_MOD_COOKIE }, HTW_STATE_PENDING);
	expect_number("cookie", 0, query.cookie);
	expect_number("deadline", before.deadline, query.deadline);

	begin("slack: changes nothing that HTW_QUERY reports");
	before = query;
	query = mod_and_query(s, call, (struct htw_mod_args){
		.id = id, .slack = SEC, .flags = HTW_MOD_SLACK }, HTW_STATE_PENDING);
	expect(!memcmp(&before, &query, sizeof(query)), "HTW_QUERY differs");

	begin("all fields at once");
	query = mod_and_query(s, call, (struct htw_mod_args){
		.id = id, .deadline = HOUR, .interval = 2 * HOUR, .slack = 1, .cookie = 9,
		.flags = HTW_MOD_DEADLINE | HTW_MOD_INTERVAL | HTW_MOD_SLACK | HTW_MOD_COOKIE,
		.firings = 3 }, HTW_STATE_PENDING);
	expect_number("deadline", s->now + HOUR, query.deadline);
	expect_number("interval", 2 * HOUR, query.interval);
	expect_number("firings", 3, query.firings);
	expect_number("cookie", 9, query.cookie);
	expect_result("HTW_CANCEL", 0, stop(s, id));
}

static void check_mod_refused(struct subject *s, const struct call *call)
{
	struct htw_mod_args valid = {
		.id = s->witness, .cookie = 1, .flags = HTW_MOD_COOKIE, .state = POISON32,
	};
	struct htw_mod_args mod = valid;

	begin("a field whose flag is not set must be zero");
	mod.deadline = HOUR;
	fails(s, call, &mod, EINVAL, "deadline");
	mod = valid;
	mod.interval = HOUR;
	fails(s, call, &mod, EINVAL, "interval");
	mod = valid;
	mod.firings = 1;
	fails(s, call, &mod, EINVAL, "firings");
	mod = valid;
	mod.slack = 1;
	fails(s, call, &mod, EINVAL, "slack");
	mod = valid;
	mod.flags = HTW_MOD_DEADLINE;
	mod.deadline = HOUR;
	fails(s, call, &mod, EINVAL, "cookie");
	begin("flags: EINVAL without any HTW_MOD bit");
	mod = (struct htw_mod_args){ .id = s->witness };
	fails(s, call, &mod, EINVAL, "0");
	mod.flags = HTW_F_ABS;
	fails(s, call, &mod, EINVAL, "HTW_F_ABS");
	begin("firings: EINVAL for a one-shot timer");
	mod = (struct htw_mod_args){ .id = s->witness, .firings = 1, .flags = HTW_MOD_INTERVAL };
	fails(s, call, &mod, EINVAL, "without an interval");
	/*
	 * HTW_F_ABS needs HTW_MOD_DEADLINE; the other flags are tested with
	 * their own fields.
	 */
	valid = (struct htw_mod_args){
		.id = s->witness, .deadline = HOUR, .flags = HTW_MOD_DEADLINE };
	FAILS_WITH_BITS(s, call, &valid, flags, HTW_F_ABS | HTW_MOD_DEADLINE | HTW_MOD_INTERVAL |
			HTW_MOD_COOKIE | HTW_MOD_SLACK);
	if (call->op)
		return;
	FAILS_WITH_BITS(s, call, &valid, reserved, 0);
	fails_with_pointers(s, call, &valid);
	begin("argument: EFAULT if it cannot be written; the timer is changed");
	valid.id = start(s, 0);
	valid.deadline = 2 * HOUR;
	expect_result("the call", -EFAULT,
		      make_call(s->fd, HTW_MOD, read_only(&valid, sizeof(valid))));
	expect_number("deadline", s->now + 2 * HOUR, query_of(s, valid.id).deadline);
	stop(s, valid.id);
}

static void check_mod_by(const struct call *call)
{
	struct subject s = open_witnessed();

	group(call->name);
	check_mod_fields(&s, call);
	check_mod_states(&s, call);
	check_mod_due(&s, call);
	check_mod_refused(&s, call);
	close_subject(&s);
}

void check_mod(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		check_mod_by(&calls[i]);
}
