// SPDX-License-Identifier: GPL-2.0-only
/* HTW_CANCEL and HTW_CANCEL_ALL */
#include <stdio.h>
#include "areas.h"
#include "subject.h"

static const struct call call_all = {
	"HTW_CANCEL_ALL", HTW_CANCEL_ALL, 0, sizeof(struct htw_cancel_all_args)
};

static const struct call call_one = {
	"HTW_CANCEL", HTW_CANCEL, 0, sizeof(struct htw_cancel_args)
};

/* Cancel a timer and check all output fields. */
static void expect_cancel(struct subject *s, __u64 id, __u32 state, __u64 remaining,
			  __u64 missed)
{
	struct htw_cancel_args cancel = htw_cancel_of(id);

	expect_result("the call", 0, perform(s, &call_one, &cancel));
	expect_number("state", state, cancel.state);
	expect_number("cookie", COOKIE, cancel.cookie);
	expect_number("remaining", remaining, cancel.remaining);
	expect_number("missed", missed, cancel.missed);
	expect_number("id", id, cancel.id);
	expect_number("flags", 0, cancel.flags);
	expect_number("timers then", 1, info_of(s).timers);
}

static void check_cancel_states(struct subject *s)
{
	struct htw_add_args add = valid_add();
	struct htw_event ev[2];
	__u64 id;

	begin("a pending timer: the time left");
	expect_cancel(s, start(s, 0), HTW_STATE_PENDING, HOUR, 0);

	add.deadline = 1;
	begin("a due timer: no event comes");
	expect_cancel(s, start_due(s, add), HTW_STATE_DUE, 0, 0);
	expect_number("poll()", 0, poll_fd(s, 0));
	expect_result("read()", -EAGAIN, get(s, ev, 2));

	begin("a due periodic timer: missed firings");
	add.interval = 10 * s->tick;
	id = start_due(s, add);
	pass(s, 50 * s->tick);
	expect_cancel(s, id, HTW_STATE_DUE, 0, 5);
	expect_result("read()", -EAGAIN, get(s, ev, 2));

	begin("a periodic timer whose event was taken");
	id = start_due(s, add);
	expect_result("read()", 1, get(s, ev, 2));
	expect_cancel(s, id, HTW_STATE_PENDING, 9 * s->tick + 1, 0);
	add.interval = 0;

	begin("a kept, disarmed timer");
	add.flags = HTW_F_KEEP;
	id = start_due(s, add);
	expect_result("read()", 1, get(s, ev, 2));
	expect_cancel(s, id, HTW_STATE_DISARMED, 0, 0);
}

static void check_cancel_ids(struct subject *s)
{
	struct htw_add_args due = valid_add();
	struct htw_cancel_args cancel;
	struct htw_event ev[2];
	__u64 id, again, ids[8];

	begin("id: ENOENT after the event was taken");
	due.deadline = 1;
	cancel = htw_cancel_of(start_due(s, due));
	expect_result("read()", 1, get(s, ev, 2));
	fails(s, &call_one, &cancel, ENOENT, "the call");

	id = start(s, 0);
	stop(s, id);
	again = start(s, 0);
	ids[0] = 0;
	ids[1] = 1;
	ids[2] = id;
	ids[3] = id ^ 1ULL << 63;
	ids[4] = again ^ 1ULL << 32;
	ids[5] = again & ~0U;
	ids[6] = again + (1ULL << 31);
	ids[7] = ~0ULL;
	begin("id: ENOENT for a stale id and for invalid ids");
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		char what[32];

		snprintf(what, sizeof(what), "id %#llx", ids[i]);
		cancel = htw_cancel_of(ids[i]);
		fails(s, &call_one, &cancel, ENOENT, what);
	}
	expect_result("HTW_CANCEL of the existing timer", 0, stop(s, again));
}

static void check_cancel_one(void)
{
	struct subject s = open_witnessed();
	struct htw_cancel_args cancel;
	char *p;

	group(call_one.name);
	check_cancel_states(&s);
	check_cancel_ids(&s);

	cancel = htw_cancel_of(start(&s, 0));
	FAILS_WITH_BITS(&s, &call_one, &cancel, flags, 0);
	fails_without_memory(&s, &call_one);
	begin("argument: EFAULT if it cannot be written; the timer is cancelled");
	expect_result("the call", -EFAULT,
		      make_call(s.fd, HTW_CANCEL, read_only(&cancel, sizeof(cancel))));
	expect_result("HTW_CANCEL again", -ENOENT, stop(&s, cancel.id));
	begin("argument: EFAULT if its last byte, which is out, is inaccessible");
	cancel = htw_cancel_of(start(&s, 0));
	p = before_hole(sizeof(cancel) - 1);
	memcpy(p, &cancel, sizeof(cancel) - 1);
	expect_result("the call", -EFAULT, make_call(s.fd, HTW_CANCEL, p));
	/* It may have been cancelled. */
	stop(&s, cancel.id);
	expect_number("timers", 1, info_of(&s).timers);
	close_subject(&s);
}

static void check_cancel_all(void)
{
	const struct call *call = &call_all;
	const struct htw_cancel_all_args valid = { .count = POISON };
	struct htw_cancel_all_args all = valid;
	struct htw_event ev[2];
	struct subject s = open_subject();
	__u64 kept, due;

	group(call->name);
	begin("count: timers in all states, of which no event comes");
	kept = start_due(&s, (struct htw_add_args){ .deadline = 1, .flags = HTW_F_KEEP });
	expect_result("read()", 1, get(&s, ev, 2));
	start(&s, 0);
	start(&s, 0);
	due = start_due(&s, (struct htw_add_args){ .deadline = 1 });
	expect_result("the call", 0, htw_call(s.fd, call->cmd, &all));
	expect_number("count", 4, all.count);
	expect_number("timers", 0, info_of(&s).timers);
	expect_number("poll()", 0, poll_fd(&s, 0));
	expect_result("read()", -EAGAIN, get(&s, ev, 2));
	expect_result("HTW_CANCEL of what was due", -ENOENT, stop(&s, due));
	expect_result("HTW_CANCEL of what was kept", -ENOENT, stop(&s, kept));
	all = valid;
	expect_result("the call with nothing to cancel", 0, htw_call(s.fd, call->cmd, &all));
	expect_number("count then", 0, all.count);
	close_subject(&s);

	begin("on a new descriptor");
	s = open_fresh();
	all = valid;
	expect_result("the call", 0, htw_call(s.fd, call->cmd, &all));
	expect_number("count", 0, all.count);
	close_subject(&s);

	s = open_witnessed();
	FAILS_WITH_BITS(&s, call, &valid, flags, 0);
	FAILS_WITH_BITS(&s, call, &valid, reserved, 0);
	fails_with_pointers(&s, call, &valid);
	fails_read_only(&s, call, &valid);
	close_subject(&s);
}

void check_cancel(void)
{
	check_cancel_one();
	check_cancel_all();
}
