// SPDX-License-Identifier: GPL-2.0-only
/* HTW_MOD, alone and in HTW_BATCH */
#include "areas.h"
#include "subject.h"

static const struct call calls[] = {
	{ "HTW_MOD", HTW_MOD, 0, sizeof(struct htw_mod) },
	{ "HTW_BATCH of HTW_OP_MOD", HTW_BATCH, HTW_OP_MOD, sizeof(struct htw_mod) },
};

/*
 * Change a timer, which must succeed without writing the argument; return its
 * HTW_QUERY.
 */
static struct htw_query mod_and_query(struct subject *s, const struct call *call,
				      struct htw_mod mod)
{
	const struct htw_mod before = mod;

	expect_result("the call", 0, perform(s, call, &mod));
	expect(!memcmp(&before, &mod, sizeof(mod)), "the argument was written to");
	return query_of(s, mod.id);
}

static void check_mod_states(struct subject *s, const struct call *call)
{
	struct htw_add add = valid_add();
	struct htw_query query;
	struct htw_event ev[2];
	struct htw_mod mod;

	add.deadline = 1;
	begin("an expired, unread timer: taken back and armed");
	mod = (struct htw_mod){ .id = start_expired(s, add), .deadline = HOUR,
				.flags = HTW_MOD_DEADLINE };
	query = mod_and_query(s, call, mod);
	expect_number("state", HTW_STATE_PENDING, query.state);
	expect_number("expired", 0, info_of(s).expired);
	expect_result("read()", -EAGAIN, get(s, ev, 1));
	expect_result("HTW_CANCEL", 0, stop(s, mod.id, 0));

	if (has(HTW_FEATURE_KEEP)) {
		begin("a kept, disarmed timer: armed again");
		add.flags = HTW_F_KEEP;
		mod.id = start_expired(s, add);
		expect_result("read()", 1, get(s, ev, 2));
		query = query_of(s, mod.id);
		expect_number("state before", HTW_STATE_DISARMED, query.state);
		mod.deadline = s->tick;
		query = mod_and_query(s, call, mod);
		expect_number("state", HTW_STATE_PENDING, query.state);
		expect(pass(s, s->tick), "it does not expire");
		if (expect_result("read() again", 1, get(s, ev, 2)))
			expect_event(s, ev, mod.id, COOKIE, HTW_EVENT_MORE);
		stop(s, mod.id, 0);
	}

	begin("id: ENOENT for a stale id and for invalid ids");
	mod.deadline = HOUR;
	fails(s, call, &mod, ENOENT, "cancelled");
	mod.id = 0;
	fails(s, call, &mod, ENOENT, "0");
	mod.id = ~0ULL;
	fails(s, call, &mod, ENOENT, "U64_MAX");
}

static void check_mod_fields(struct subject *s, const struct call *call)
{
	const __u64 id = start(s, 0);
	struct htw_query before, query;
	struct htw_mod mod;

	begin("deadline: relative");
	query = mod_and_query(s, call, (struct htw_mod){
		.id = id, .deadline = 2 * HOUR, .flags = HTW_MOD_DEADLINE });
	if (s->manual)
		expect_number("deadline", s->now + 2 * HOUR, query.deadline);
	expect_number("cookie", COOKIE, query.cookie);

	begin("deadline: absolute, with HTW_F_ABS");
	query = mod_and_query(s, call, (struct htw_mod){
		.id = id, .deadline = (1ULL << 62) + 7, .flags = HTW_MOD_DEADLINE | HTW_F_ABS });
	expect_number("deadline", (1ULL << 62) + 7, query.deadline);

	begin("deadline: U64_MAX");
	query = mod_and_query(s, call, (struct htw_mod){
		.id = id, .deadline = ~0ULL, .flags = HTW_MOD_DEADLINE });
	expect_number("deadline", ~0ULL, query.deadline);

	begin("interval, firings: to periodic and back");
	before = query;
	mod = (struct htw_mod){ .id = id, .interval = HOUR, .flags = HTW_MOD_INTERVAL };
	mod.firings = has(HTW_FEATURE_FIRINGS) ? 7 : 0;
	query = mod_and_query(s, call, mod);
	expect_number("interval", HOUR, query.interval);
	expect_number("firings", mod.firings, query.firings);
	expect_number("deadline", before.deadline, query.deadline);
	mod.interval = mod.firings = 0;
	query = mod_and_query(s, call, mod);
	expect_number("interval, back", 0, query.interval);
	expect_number("firings, back", 0, query.firings);

	begin("cookie: another value, and zero");
	query = mod_and_query(s, call, (struct htw_mod){
		.id = id, .cookie = 5, .flags = HTW_MOD_COOKIE });
	expect_number("cookie", 5, query.cookie);
	query = mod_and_query(s, call, (struct htw_mod){ .id = id, .flags = HTW_MOD_COOKIE });
	expect_number("cookie", 0, query.cookie);
	expect_number("deadline", before.deadline, query.deadline);

	mod = (struct htw_mod){ .id = id, .slack = SEC, .flags = HTW_MOD_SLACK };
	if (has(HTW_FEATURE_SLACK)) {
		begin("slack: changes nothing that HTW_QUERY reports");
		before = query;
		query = mod_and_query(s, call, mod);
		before.remaining = query.remaining;
		expect(!memcmp(&before, &query, sizeof(query)), "HTW_QUERY differs");
	} else {
		begin("slack: EINVAL without the feature");
		fails(s, call, &mod, EINVAL, "the call");
	}

	begin("all fields at once");
	query = mod_and_query(s, call, (struct htw_mod){
		.id = id, .deadline = HOUR, .interval = 2 * HOUR, .cookie = 9,
		.flags = HTW_MOD_DEADLINE | HTW_MOD_INTERVAL | HTW_MOD_COOKIE });
	expect_number("interval", 2 * HOUR, query.interval);
	expect_number("cookie", 9, query.cookie);
	expect_result("HTW_CANCEL", 0, stop(s, id, 0));
}

static void check_mod_by(const struct call *call)
{
	struct subject s = open_witnessed();
	struct htw_mod mod, valid;

	group(call->name);
	check_mod_fields(&s, call);
	check_mod_states(&s, call);

	s.witness = start(&s, 0);
	valid = (struct htw_mod){ .id = s.witness, .cookie = 1, .flags = HTW_MOD_COOKIE };
	begin("a field whose flag is not set must be zero");
	mod = valid;
	mod.deadline = HOUR;
	fails(&s, call, &mod, EINVAL, "deadline");
	mod = valid;
	mod.interval = HOUR;
	fails(&s, call, &mod, EINVAL, "interval");
	mod = valid;
	mod.firings = 1;
	fails(&s, call, &mod, EINVAL, "firings");
	mod = valid;
	mod.slack = 1;
	fails(&s, call, &mod, EINVAL, "slack");
	mod = (struct htw_mod){ .id = s.witness, .deadline = HOUR, .cookie = 1,
				.flags = HTW_MOD_DEADLINE };
	fails(&s, call, &mod, EINVAL, "cookie");
	begin("flags: EINVAL without any HTW_MOD bit");
	mod = (struct htw_mod){ .id = s.witness };
	fails(&s, call, &mod, EINVAL, "0");
	mod.flags = HTW_F_ABS;
	fails(&s, call, &mod, EINVAL, "HTW_F_ABS");
	begin("interval: EINVAL below one tick, firings: EINVAL for a one-shot timer");
	mod = (struct htw_mod){ .id = s.witness, .interval = 1, .flags = HTW_MOD_INTERVAL };
	fails(&s, call, &mod, EINVAL, "an interval of 1 ns");
	mod.interval = s.tick - 1;
	fails(&s, call, &mod, EINVAL, "an interval of a tick less 1 ns");
	mod.interval = 0;
	mod.firings = 1;
	fails(&s, call, &mod, EINVAL, "firings without an interval");
	/*
	 * HTW_F_ABS needs HTW_MOD_DEADLINE; the other flags are tested with
	 * their own fields.
	 */
	valid = (struct htw_mod){ .id = s.witness, .deadline = HOUR, .flags = HTW_MOD_DEADLINE };
	FAILS_WITH_BITS(&s, call, &valid, flags, HTW_F_ABS | HTW_MOD_INTERVAL | HTW_MOD_COOKIE |
			HTW_MOD_SLACK);
	FAILS_WITH_BITS(&s, call, &valid, reserved, 0);
	if (has(HTW_FEATURE_UNREAD)) {
		begin("HTW_MOD_UNREAD: EINVAL without a table");
		mod = (struct htw_mod){ .id = s.witness, .deadline = 1, .firings = 1,
					.flags = HTW_MOD_UNREAD };
		fails(&s, call, &mod, EINVAL, "the call");
	}
	if (!call->op) {
		fails_with_pointers(&s, call, &valid);
		begin("argument: not written, so it may be read-only");
		expect_result("the call", 0, htw_call(s.fd, HTW_MOD,
						      read_only(&valid, sizeof(valid))));
	}
	close_subject(&s);
}

void check_mod(void)
{
	if (!supported("HTW_MOD", HTW_MOD, HTW_FEATURE_MOD))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		check_mod_by(&calls[i]);
}
