// SPDX-License-Identifier: GPL-2.0-only
/* HTW_QUERY */
#include "areas.h"
#include "subject.h"

static const struct call the_call = {
	"HTW_QUERY", HTW_QUERY, 0, sizeof(struct htw_timer_info)
};

/* What is asked about @id; all else may hold anything. */
static struct htw_timer_info query_for(__u64 id)
{
	struct htw_timer_info query;

	memset(&query, 0xa5, sizeof(query));
	query.id = id;
	return query;
}

static void check_query_states(struct subject *s)
{
	struct htw_add_args add = valid_add();
	struct htw_timer_info query;
	struct htw_event ev[2];
	__u64 id;

	begin("a pending timer: every field");
	add.interval = 10 * s->tick;
	add.firings = 9;
	add.flags = HTW_F_KEEP;
	add.deadline = 10 * s->tick;
	id = started(s, add);
	query = query_for(id);
	expect_result("the call", 0, perform(s, &the_call, &query));
	expect_number("deadline", s->now + 10 * s->tick, query.deadline);
	expect_number("remaining", 10 * s->tick, query.remaining);
	expect_number("state", HTW_STATE_PENDING, query.state);
	expect_number("id", id, query.id);
	expect_number("interval", add.interval, query.interval);
	expect_number("cookie", COOKIE, query.cookie);
	expect_number("missed", 0, query.missed);
	expect_number("firings", add.firings, query.firings);
	expect_number("flags", HTW_F_KEEP, query.flags);

	begin("a due timer: state, missed");
	pass(s, 35 * s->tick);
	query = query_for(id);
	expect_result("the call", 0, perform(s, &the_call, &query));
	expect_number("state", HTW_STATE_DUE, query.state);
	expect_number("remaining", 0, query.remaining);
	expect_number("deadline", s->now - 25 * s->tick, query.deadline);
	expect_number("missed", 2, query.missed);
	expect_number("firings", 9, query.firings);

	begin("a periodic timer after a read: the next deadline");
	expect_result("read()", 1, get(s, ev, 2));
	query = query_for(id);
	expect_result("the call", 0, perform(s, &the_call, &query));
	expect_number("state", HTW_STATE_PENDING, query.state);
	expect_number("deadline", s->now + 5 * s->tick, query.deadline);
	expect_number("remaining", 5 * s->tick, query.remaining);
	expect_number("missed", 0, query.missed);
	expect_number("firings", 6, query.firings);

	begin("a kept timer that has had all its firings: disarmed, and one-shot");
	pass(s, 100 * s->tick);
	expect_result("read()", 1, get(s, ev, 2));
	query = query_for(id);
	expect_result("the call", 0, perform(s, &the_call, &query));
	expect_number("state", HTW_STATE_DISARMED, query.state);
	expect_number("remaining", 0, query.remaining);
	expect_number("interval", 0, query.interval);
	expect_number("firings", 0, query.firings);
	expect_number("missed", 0, query.missed);
	expect_number("flags", HTW_F_KEEP, query.flags);
	expect_result("HTW_CANCEL", 0, stop(s, id));

	begin("id: ENOENT for a stale id and for invalid ids");
	query = query_for(id);
	fails(s, &the_call, &query, ENOENT, "cancelled");
	query = query_for(0);
	fails(s, &the_call, &query, ENOENT, "0");
	query = query_for(~0ULL);
	fails(s, &the_call, &query, ENOENT, "U64_MAX");
}

void check_query(void)
{
	struct subject s = open_witnessed();
	struct htw_timer_info valid = query_for(s.witness);

	group(the_call.name);
	check_query_states(&s);
	fails_with_pointers(&s, &the_call, &valid);
	fails_read_only(&s, &the_call, &valid);
	close_subject(&s);
}
