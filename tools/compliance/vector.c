// SPDX-License-Identifier: GPL-2.0-only
/* HTW_VECTOR */
#include "areas.h"
#include "subject.h"

static const struct call the_call = {
	"HTW_VECTOR", HTW_VECTOR, 0, sizeof(struct htw_vector_args)
};

static struct htw_vector_args vector_of(__u32 op, __u32 flags, const __u64 *ids,
					const __u64 *deadlines, const __u64 *cookies)
{
	return (struct htw_vector_args){
		.ids = (uintptr_t)ids,
		.deadlines = (uintptr_t)deadlines,
		.cookies = (uintptr_t)cookies,
		.count = 2,
		.done = POISON32,
		.failed = POISON32,
		.flags = flags,
		.op = op,
	};
}

/*
 * The vector is done; @done and @failed are as expected, and nothing else is
 * written.
 */
static void vector_does(const struct subject *s, struct htw_vector_args v, __u32 done,
			__u32 failed)
{
	struct htw_vector_args before = v;

	expect_result("the call", 0, make_call(s->fd, HTW_VECTOR, &v));
	expect_number("done", done, v.done);
	expect_number("failed", failed, v.failed);
	before.done = v.done;
	before.failed = v.failed;
	expect(!memcmp(&before, &v, sizeof(v)), "more than done and failed was written");
}

/* EINVAL; the argument, the ids and the timers do not change. */
static void vector_fails(struct subject *s, struct htw_vector_args v, const char *what)
{
	const __u64 *ids = (const __u64 *)(uintptr_t)v.ids;
	__u64 before[2] = { ids ? ids[0] : 0, ids ? ids[1] : 0 };

	fails(s, &the_call, &v, EINVAL, what);
	expect(!ids || !memcmp(before, ids, sizeof(before)), "%s: ids were written", what);
}

static void check_vector_ops(struct subject *s)
{
	const __u64 deadlines[] = { HOUR, 2 * HOUR, 0 }, cookies[] = { COOKIE, ~COOKIE };
	__u64 ids[3] = { POISON, POISON, POISON }, was[2];
	struct htw_vector_args v = vector_of(HTW_OP_ADD, 0, ids, deadlines, cookies);
	struct htw_event ev[3];
	struct subject few;

	begin("HTW_OP_ADD: count timers, each with its own deadline and cookie");
	vector_does(s, v, 2, 0);
	expect_number("timers", s->witness ? 3 : 2, info_of(s).timers);
	expect_number("the id behind them", POISON, ids[2]);
	for (int i = 0; i < 2; i++) {
		struct htw_timer_info query = query_of(s, ids[i]);

		expect_number("state", HTW_STATE_PENDING, query.state);
		expect_number("cookie", cookies[i], query.cookie);
		expect_number("deadline", s->now + deadlines[i], query.deadline);
	}
	memcpy(was, ids, sizeof(was));
	begin("HTW_OP_MOD: deadlines, and zero cookies without an array");
	v = vector_of(HTW_OP_MOD, HTW_MOD_DEADLINE | HTW_MOD_COOKIE | HTW_F_ABS, ids,
		      (__u64[]){ ~0ULL, ~0ULL - 1 }, NULL);
	vector_does(s, v, 2, 0);
	expect(!memcmp(was, ids, sizeof(was)), "ids were written");
	for (int i = 0; i < 2; i++) {
		expect_number("deadline", ~0ULL - i, query_of(s, ids[i]).deadline);
		expect_number("cookie", 0, query_of(s, ids[i]).cookie);
	}
	begin("HTW_OP_MOD: interval, firings and slack of all timers");
	v = vector_of(HTW_OP_MOD, HTW_MOD_INTERVAL | HTW_MOD_SLACK, ids, NULL, NULL);
	v.interval = HOUR;
	v.firings = 5;
	v.slack = SEC;
	vector_does(s, v, 2, 0);
	for (int i = 0; i < 2; i++) {
		expect_number("interval", HOUR, query_of(s, ids[i]).interval);
		expect_number("firings", 5, query_of(s, ids[i]).firings);
		expect_number("deadline", ~0ULL - i, query_of(s, ids[i]).deadline);
	}
	begin("failed: a count; the errno replaces the id, and the others are done");
	stop(s, ids[0]);
	v = vector_of(HTW_OP_MOD, HTW_MOD_COOKIE, ids, NULL, cookies);
	vector_does(s, v, 2, 1);
	expect_number("ids[0] of HTW_OP_MOD", (__u64)-ENOENT, ids[0]);
	expect_number("ids[1] of HTW_OP_MOD", was[1], ids[1]);
	expect_number("cookie", cookies[1], query_of(s, was[1]).cookie);
	ids[0] = was[0];
	v = vector_of(HTW_OP_CANCEL, 0, ids, NULL, NULL);
	vector_does(s, v, 2, 1);
	expect_number("ids[0] of HTW_OP_CANCEL", (__u64)-ENOENT, ids[0]);
	expect_number("ids[1] of HTW_OP_CANCEL", was[1], ids[1]);
	expect_number("state", 0, query_of(s, was[1]).state);

	begin("HTW_OP_CANCEL: due timers, of which no event comes");
	for (int i = 0; i < 2; i++)
		was[i] = ids[i] = start_due(s, (struct htw_add_args){ .deadline = 1 });
	v = vector_of(HTW_OP_CANCEL, 0, ids, NULL, NULL);
	vector_does(s, v, 2, 0);
	expect(!memcmp(was, ids, sizeof(was)), "ids were written");
	expect_result("read()", -EAGAIN, get(s, ev, 3));

	begin("count: zero, without arrays");
	v = vector_of(HTW_OP_ADD, 0, NULL, NULL, NULL);
	v.count = 0;
	vector_does(s, v, 0, 0);
	v.op = HTW_OP_CANCEL;
	vector_does(s, v, 0, 0);

	begin("ENOSPC for the entries beyond the limit");
	few = open_fresh();
	expect_result("HTW_SETUP", 0, htw_set_up(few.fd, (struct htw_setup_args){ .limit = 1 }));
	v = vector_of(HTW_OP_ADD, 0, ids, deadlines, NULL);
	vector_does(&few, v, 2, 1);
	expect_number("timers", 1, info_of(&few).timers);
	expect_number("ids[1]", (__u64)-ENOSPC, ids[1]);
	expect_result("HTW_CANCEL", 0, stop(&few, ids[0]));
	close(few.fd);
}

static void check_vector_cut(struct subject *s)
{
	static const char *const arrays[] = { "ids", "deadlines", "cookies" };
	static const unsigned int usable[] = { 1, 127, 128, 129, 300 };
	static const __u32 count = 400;
	static __u64 ids[400], deadlines[400];
	struct htw_vector_args v;

	for (__u32 i = 0; i < count; i++)
		deadlines[i] = HOUR;
	for (unsigned int which = 0; which < 3; which++) {
		begin("done: entries before the first inaccessible one of %s", arrays[which]);
		for (size_t i = 0; i < ARRAY_SIZE(usable); i++) {
			__u64 *array = before_hole(usable[i] * sizeof(*array));

			memcpy(array, deadlines, usable[i] * sizeof(*array));
			memset(ids, 0xa5, sizeof(ids));
			v = vector_of(HTW_OP_ADD, 0, ids, deadlines, deadlines);
			v.count = i % 2 ? count : usable[i] + 1;
			(&v.ids)[which] = (uintptr_t)array;
			remember(s);
			vector_does(s, v, usable[i], 0);
			expect_number("timers", s->info.timers + usable[i], info_of(s).timers);
			if (which)
				expect_number("the next id", POISON, ids[usable[i]]);
			for (unsigned int k = 0; k < usable[i]; k++)
				expect_result("HTW_CANCEL of what was added", 0,
					      stop(s, which ? ids[k] : array[k]));
			expect_same_state(s, "after it");
		}
	}

	begin("ids, deadlines, cookies: EFAULT if none is accessible, and nothing is done");
	for (size_t i = 0; i < 3 * ARRAY_SIZE(bad_addresses); i++) {
		if (!bad_addresses[i / 3])
			continue;
		v = vector_of(HTW_OP_ADD, 0, ids, deadlines, deadlines);
		(&v.ids)[i % 3] = bad_addresses[i / 3];
		remember(s);
		expect_result("the call", -EFAULT, make_call(s->fd, HTW_VECTOR, &v));
		expect(v.done == POISON32 || !v.done, "done is %u", v.done);
		expect(v.failed == POISON32 || !v.failed, "failed is %u", v.failed);
		expect_same_state(s, "after it");
	}
	begin("HTW_OP_ADD: EFAULT if ids cannot be written, and no timer is left");
	v = vector_of(HTW_OP_ADD, 0, read_only(deadlines, 16), deadlines, NULL);
	remember(s);
	expect_result("the call", -EFAULT, make_call(s->fd, HTW_VECTOR, &v));
	expect_same_state(s, "after it");
	begin("HTW_OP_MOD, HTW_OP_CANCEL: ids may be read-only if no entry fails");
	v = vector_of(HTW_OP_ADD, 0, ids, deadlines, NULL);
	vector_does(s, v, 2, 0);
	v = vector_of(HTW_OP_MOD, HTW_MOD_DEADLINE, read_only(ids, 16), deadlines, NULL);
	vector_does(s, v, 2, 0);
	v = vector_of(HTW_OP_CANCEL, 0, (__u64 *)(uintptr_t)v.ids, NULL, NULL);
	vector_does(s, v, 2, 0);
}

static void check_vector_fields(struct subject *s)
{
	const __u64 deadlines[] = { 0, 0 };
	__u64 ids[2] = { start(s, 0), start(s, 0) };
	const struct htw_vector_args valid[] = {
		vector_of(HTW_OP_ADD, 0, ids, deadlines, NULL),
		vector_of(HTW_OP_MOD, HTW_MOD_DEADLINE, ids, deadlines, NULL),
		vector_of(HTW_OP_CANCEL, 0, ids, NULL, NULL),
	};
	static const __u32 no_ops[] = { 0, 4, 5, 0xff, 0x101, 0x8001, 0x10001, ~0U };
	const __u32 known[] = {
		HTW_F_ABS | HTW_F_KEEP, HTW_F_ABS | HTW_MOD_DEADLINE | HTW_MOD_INTERVAL |
		HTW_MOD_COOKIE | HTW_MOD_SLACK, 0,
	};
	struct htw_vector_args v;

	begin("op: EINVAL for an unknown operation");
	for (size_t i = 0; i < ARRAY_SIZE(no_ops); i++) {
		v = valid[0];
		v.op = no_ops[i];
		vector_fails(s, v, "the call");
	}
	for (size_t i = 0; i < ARRAY_SIZE(valid); i++) {
		static const char *const names[] = { "HTW_OP_ADD", "HTW_OP_MOD", "HTW_OP_CANCEL" };

		begin("ids: EINVAL for NULL, %s", names[i]);
		v = valid[i];
		v.ids = 0;
		vector_fails(s, v, "the call");
		begin("deadlines: EINVAL for a missing and for an unused array, %s",
		      names[i]);
		v = valid[i];
		v.deadlines ^= (uintptr_t)deadlines;
		vector_fails(s, v, "the call");
		FAILS_WITH_BITS(s, &the_call, &valid[i], flags, known[i]);
		FAILS_WITH_BITS(s, &the_call, &valid[i], firings, 0);
		if (i)
			FAILS_WITH_BITS(s, &the_call, &valid[i], interval, 0);
		if (i)
			FAILS_WITH_BITS(s, &the_call, &valid[i], slack, 0);
		if (!i)
			continue;
		begin("cookies: EINVAL for an unused array, %s", names[i]);
		v = valid[i];
		v.cookies = (uintptr_t)deadlines;
		vector_fails(s, v, "the call");
	}
	begin("flags: EINVAL for HTW_OP_MOD that changes nothing");
	v = valid[1];
	v.deadlines = 0;
	for (v.flags = 0; v.flags <= HTW_F_ABS; v.flags++)
		vector_fails(s, v, "the call");

	fails_with_pointers(s, &the_call, &valid[0]);
	begin("argument: EFAULT if it cannot be written; the array has the results");
	ids[0] = 0;
	v = vector_of(HTW_OP_ADD, 0, ids, (__u64[]){ HOUR }, NULL);
	v.count = 1;
	remember(s);
	expect_result("the call", -EFAULT,
		      make_call(s->fd, HTW_VECTOR, read_only(&v, sizeof(v))));
	expect_number("timers", s->info.timers + !!ids[0], info_of(s).timers);
}

void check_vector(void)
{
	struct subject s;

	group(the_call.name);
	s = open_witnessed();
	check_vector_ops(&s);
	check_vector_cut(&s);
	check_vector_fields(&s);
	close_subject(&s);
}
