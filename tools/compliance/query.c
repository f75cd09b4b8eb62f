// SPDX-License-Identifier: GPL-2.0-only
/* HTW_QUERY, alone and in HTW_BATCH */
#include "areas.h"
#include "subject.h"

static const struct call calls[] = {
	{ "HTW_QUERY", HTW_QUERY, 0, sizeof(struct htw_query) },
	{ "HTW_BATCH of HTW_OP_QUERY", HTW_BATCH, HTW_OP_QUERY, sizeof(struct htw_query) },
};

static void check_query_by(const struct call *call)
{
	struct subject s = open_witnessed();
	struct htw_add add = valid_add();
	struct htw_query query, valid;
	struct htw_event ev[2];

	group(call->name);
	begin("a pending timer: every field");
	add.interval = 10 * s.tick;
	add.firings = has(HTW_FEATURE_FIRINGS) ? 9 : 0;
	add.flags = has(HTW_FEATURE_KEEP) ? HTW_F_KEEP : 0;
	add.deadline = 10 * s.tick;
	query = valid = (struct htw_query){ .id = started(&s, add) };
	expect_result("the call", 0, perform(&s, call, &query));
	if (s.manual) {
		expect_number("deadline", s.now + 10 * s.tick, query.deadline);
		expect_number("remaining", 10 * s.tick, query.remaining);
		expect_number("state", HTW_STATE_PENDING, query.state);
	}
	expect_number("id", valid.id, query.id);
	expect_number("interval", add.interval, query.interval);
	expect_number("cookie", COOKIE, query.cookie);
	expect_number("firings", add.firings, query.firings);
	expect_number("flags", add.flags, query.flags);

	begin("an expired, unread timer: state, missed");
	expect(pass(&s, 35 * s.tick), "it does not expire");
	query = valid;
	expect_result("the call", 0, perform(&s, call, &query));
	expect_number("state", HTW_STATE_EXPIRED, query.state);
	expect_number("remaining", 0, query.remaining);
	if (s.manual) {
		expect_number("deadline", s.now - 25 * s.tick, query.deadline);
		expect_number("missed", 2, query.missed);
	}

	begin("a periodic timer after a read: the next deadline");
	expect_result("read()", 1, get(&s, ev, 2));
	query = valid;
	expect_result("the call", 0, perform(&s, call, &query));
	if (s.manual) {
		expect_number("state", HTW_STATE_PENDING, query.state);
		expect_number("deadline", s.now + 5 * s.tick, query.deadline);
		expect_number("remaining", 5 * s.tick, query.remaining);
		expect_number("missed", 0, query.missed);
		if (has(HTW_FEATURE_FIRINGS))
			expect_number("firings", 6, query.firings);
	}
	expect(stop(&s, valid.id, HTW_CANCEL_DISCARD) != -ENOENT, "the timer has ended");

	if (has(HTW_FEATURE_KEEP)) {
		begin("a kept, disarmed timer: state");
		add = valid_add();
		add.flags = HTW_F_KEEP;
		add.deadline = 1;
		query = (struct htw_query){ .id = start_expired(&s, add) };
		expect_result("read()", 1, get(&s, ev, 2));
		expect_result("the call", 0, perform(&s, call, &query));
		expect_number("state", HTW_STATE_DISARMED, query.state);
		expect_number("remaining", 0, query.remaining);
		expect_number("flags", HTW_F_KEEP, query.flags);
		stop(&s, query.id, 0);
	}

	begin("id: ENOENT for a stale id and for invalid ids");
	fails(&s, call, &valid, ENOENT, "cancelled");
	query = (struct htw_query){ .id = 0 };
	fails(&s, call, &query, ENOENT, "0");
	query.id = ~0ULL;
	fails(&s, call, &query, ENOENT, "U64_MAX");

	valid = (struct htw_query){ .id = start(&s, 0) };
	FAILS_WITH_BITS(&s, call, &valid, deadline, 0);
	FAILS_WITH_BITS(&s, call, &valid, remaining, 0);
	FAILS_WITH_BITS(&s, call, &valid, interval, 0);
	FAILS_WITH_BITS(&s, call, &valid, cookie, 0);
	FAILS_WITH_BITS(&s, call, &valid, missed, 0);
	FAILS_WITH_BITS(&s, call, &valid, firings, 0);
	FAILS_WITH_BITS(&s, call, &valid, state, 0);
	FAILS_WITH_BITS(&s, call, &valid, flags, 0);
	if (!call->op) {
		fails_with_pointers(&s, call, &valid);
		fails_read_only(&s, call, &valid);
	}
	close_subject(&s);
}

void check_query(void)
{
	if (!supported("HTW_QUERY", HTW_QUERY, HTW_FEATURE_MOD))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		check_query_by(&calls[i]);
}
