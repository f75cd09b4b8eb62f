// SPDX-License-Identifier: GPL-2.0-only
/* HTW_CANCEL, alone and in HTW_BATCH; HTW_CANCEL_ALL */
#include <stdio.h>
#include "areas.h"
#include "subject.h"

static const struct call call_all = {
	"HTW_CANCEL_ALL", HTW_CANCEL_ALL, 0, sizeof(struct htw_cancel_all)
};

static const struct call calls[] = {
	{ "HTW_CANCEL", HTW_CANCEL, 0, sizeof(struct htw_cancel) },
	{ "HTW_BATCH of HTW_OP_CANCEL", HTW_BATCH, HTW_OP_CANCEL, sizeof(struct htw_cancel) },
};

/* Cancel a timer and check all output fields. */
static void expect_cancel(struct subject *s, const struct call *call, __u64 id, __u32 flags,
			  int result, __u64 remaining, __u64 missed)
{
	struct htw_cancel cancel = htw_cancel_of(id, flags);

	expect_result("the call", result, perform(s, call, &cancel));
	expect_number("cookie", COOKIE, cancel.cookie);
	if (s->manual) {
		expect_number("remaining", remaining, cancel.remaining);
		expect_number("missed", missed, cancel.missed);
	} else {
		expect(cancel.remaining <= remaining, "remaining is %llu", cancel.remaining);
		expect(cancel.missed != POISON, "missed was not written");
	}
	expect_number("id", id, cancel.id);
	expect_number("flags", flags, cancel.flags);
	expect(!cancel.reserved0 && !cancel.reserved[0] && !cancel.reserved[1],
	       "the reserved fields were written to");
}

static void check_cancel_ids(struct subject *s, const struct call *call)
{
	struct htw_cancel cancel;
	__u64 id, again, ids[8];

	id = start(s, 0);
	stop(s, id, 0);
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
		cancel = htw_cancel_of(ids[i], 0);
		fails(s, call, &cancel, ENOENT, what);
	}
	expect_result("HTW_CANCEL of the existing timer", 0, stop(s, again, 0));
}

static void check_cancel_by(const struct call *call)
{
	struct subject s = open_witnessed();
	struct htw_add add = valid_add();
	struct htw_cancel cancel;
	struct htw_event ev[2];
	__u64 id;

	group(call->name);
	begin("a pending timer: 0, and the time left");
	expect_cancel(&s, call, start(&s, 0), 0, 0, HOUR, 0);
	expect_number("timers", 1, info_of(&s).timers);

	begin("flags: HTW_CANCEL_DISCARD on a pending timer");
	expect_cancel(&s, call, start(&s, 0), HTW_CANCEL_DISCARD, 0, HOUR, 0);
	expect_number("timers", 1, info_of(&s).timers);

	add.deadline = 1;
	begin("an expired, unread timer: EALREADY, and no further event");
	id = start_expired(&s, add);
	expect_cancel(&s, call, id, 0, -EALREADY, 0, 0);
	expect_number("expired", 1, info_of(&s).expired);
	if (expect_result("read()", 1, get(&s, ev, 2)))
		expect_event(&s, ev, id, COOKIE, 0);

	begin("flags: HTW_CANCEL_DISCARD drops an expiration");
	id = start_expired(&s, add);
	expect_cancel(&s, call, id, HTW_CANCEL_DISCARD, -EALREADY, 0, 0);
	expect_number("expired", 0, info_of(&s).expired);
	expect_number("timers", 1, info_of(&s).timers);
	expect_result("read()", -EAGAIN, get(&s, ev, 2));

	begin("missed: firings that a periodic timer has missed");
	add.interval = 10 * s.tick;
	id = start_expired(&s, add);
	if (s.manual)
		pass(&s, 50 * s.tick);
	expect_cancel(&s, call, id, 0, -EALREADY, 0, 5);
	if (expect_result("read()", 1, get(&s, ev, 2))) {
		expect_event(&s, ev, id, COOKIE, 0);
		if (s.manual)
			expect_number("missed of the event", 5, ev[0].missed);
	}
	add.interval = 0;

	if (has(HTW_FEATURE_KEEP)) {
		begin("a kept, disarmed timer: 0");
		add.flags = HTW_F_KEEP;
		id = start_expired(&s, add);
		expect_result("read()", 1, get(&s, ev, 2));
		expect_cancel(&s, call, id, 0, 0, 0, 0);
		add.flags = 0;
	}

	begin("id: ENOENT after the event was read");
	id = start_expired(&s, add);
	expect_result("read()", 1, get(&s, ev, 2));
	cancel = htw_cancel_of(id, 0);
	fails(&s, call, &cancel, ENOENT, "the call");
	check_cancel_ids(&s, call);

	cancel = htw_cancel_of(start(&s, 0), 0);
	FAILS_WITH_BITS(&s, call, &cancel, flags, HTW_CANCEL_DISCARD);
	FAILS_WITH_BITS(&s, call, &cancel, reserved0, 0);
	FAILS_WITH_BITS(&s, call, &cancel, reserved, 0);
	if (!call->op) {
		fails_with_pointers(&s, call, &cancel);
		begin("argument: EFAULT if it cannot be written; the timer is cancelled");
		expect_result("the call", -EFAULT,
			      htw_call(s.fd, HTW_CANCEL, read_only(&cancel, sizeof(cancel))));
		expect_result("HTW_CANCEL again", -ENOENT, stop(&s, cancel.id, 0));
	}
	close_subject(&s);
}

static void check_cancel_all(void)
{
	const struct call *call = &call_all;
	const struct htw_cancel_all valid = { .count = POISON };
	struct htw_cancel_all all;
	struct htw_event ev[2];
	struct subject s;
	__u64 id, kept = 0;

	if (!supported(call->name, call->cmd, HTW_FEATURE_ALL))
		return;
	for (unsigned int discard = 0; discard < 2; discard++) {
		s = open_subject();
		begin(discard ? "flags: HTW_CANCEL_DISCARD drops expirations as well" :
		      "count: pending and kept timers, without the unread");
		if (has(HTW_FEATURE_KEEP)) {
			kept = start_expired(&s, (struct htw_add){
				.deadline = 1, .flags = HTW_F_KEEP });
			expect_result("read()", 1, get(&s, ev, 2));
		}
		start(&s, 0);
		start(&s, 0);
		id = start_expired(&s, (struct htw_add){ .deadline = 1, .cookie = COOKIE });
		all = valid;
		all.flags = discard ? HTW_CANCEL_DISCARD : 0;
		expect_result("the call", 0, htw_call(s.fd, call->cmd, &all));
		expect_number("count", kept ? 3 : 2, all.count);
		expect_number("timers", !discard, info_of(&s).timers);
		expect_number("expired", !discard, info_of(&s).expired);
		if (discard)
			expect_result("read()", -EAGAIN, get(&s, ev, 2));
		else if (expect_result("read()", 1, get(&s, ev, 2)))
			expect_event(&s, ev, id, COOKIE, 0);
		expect_number("timers after read()", 0, info_of(&s).timers);
		all = valid;
		expect_result("the call with nothing to cancel", 0,
			      htw_call(s.fd, call->cmd, &all));
		expect_number("count then", 0, all.count);
		close_subject(&s);
	}
	begin("on a new descriptor");
	s = open_fresh();
	all = valid;
	expect_result("the call", 0, htw_call(s.fd, call->cmd, &all));
	expect_number("count", 0, all.count);
	close_subject(&s);

	s = open_witnessed();
	FAILS_WITH_BITS(&s, call, &valid, flags, HTW_CANCEL_DISCARD);
	FAILS_WITH_BITS(&s, call, &valid, reserved0, 0);
	FAILS_WITH_BITS(&s, call, &valid, reserved, 0);
	fails_with_pointers(&s, call, &valid);
	fails_read_only(&s, call, &valid);
	close_subject(&s);
}

void check_cancel(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		check_cancel_by(&calls[i]);
	check_cancel_all();
}
