// SPDX-License-Identifier: GPL-2.0-only
/* HTW_ADVANCE */
#include "areas.h"
#include "subject.h"

static const struct call the_call = {
	"HTW_ADVANCE", HTW_ADVANCE, 0, sizeof(struct htw_advance_args)
};

void check_advance(void)
{
	const struct call *call = &the_call;
	struct htw_advance_args advance, valid;
	struct htw_event ev[4];
	struct subject s;
	__u64 id[3];

	group(call->name);
	s = open_witnessed();
	begin("the clock starts at zero");
	expect_number("deadline of a timer due in 1000 hours", 1000 * HOUR,
		      query_of(&s, s.witness).deadline);

	begin("ns: relative");
	for (unsigned int i = 0; i < 3; i++)
		id[i] = started(&s, (struct htw_add_args){
			.deadline = (3 - i) * SEC, .cookie = COOKIE });
	valid = (struct htw_advance_args){ .ns = 2 * SEC, .due = POISON32 };
	advance = valid;
	expect_result("the call", 0, htw_call(s.fd, call->cmd, &advance));
	s.now += 2 * SEC;
	expect_number("due", 1, advance.due);
	advance.due = POISON32;
	expect(!memcmp(&advance, &valid, sizeof(valid)), "more than due was written");
	if (expect_result("read()", 2, get(&s, ev, 4))) {
		expect_event(&s, &ev[0], id[2], COOKIE, 0);
		expect_event(&s, &ev[1], id[1], COOKIE, 0);
	}

	begin("ns: absolute, with HTW_F_ABS");
	advance = (struct htw_advance_args){
		.ns = s.now + SEC, .due = POISON32, .flags = HTW_F_ABS };
	expect_result("the call", 0, htw_call(s.fd, call->cmd, &advance));
	s.now += SEC;
	expect_number("due", 1, advance.due);
	expect_result("read()", 1, get(&s, ev, 4));
	advance.due = POISON32;
	expect_result("to the present", 0, htw_call(s.fd, call->cmd, &advance));
	expect_number("due then", 0, advance.due);
	begin("ns: zero");
	advance = (struct htw_advance_args){ .due = POISON32 };
	expect_result("the call", 0, htw_call(s.fd, call->cmd, &advance));
	expect_number("due", 0, advance.due);

	begin("due: 1 as long as the event has not been taken");
	id[0] = start_due(&s, (struct htw_add_args){ .deadline = 1, .cookie = COOKIE });
	advance = (struct htw_advance_args){ .due = POISON32 };
	expect_result("the call", 0, htw_call(s.fd, call->cmd, &advance));
	expect_number("due", 1, advance.due);
	expect_result("HTW_CANCEL", 0, stop(&s, id[0]));
	advance.due = POISON32;
	expect_result("the call", 0, htw_call(s.fd, call->cmd, &advance));
	expect_number("due after HTW_CANCEL", 0, advance.due);

	begin("ns: EINVAL for a time in the past");
	advance = (struct htw_advance_args){ .ns = s.now - 1, .flags = HTW_F_ABS };
	fails(&s, call, &advance, EINVAL, "1 ns before now");
	begin("ns: EINVAL for a time out of range");
	advance = (struct htw_advance_args){ .ns = ~0ULL, .flags = HTW_F_ABS };
	fails(&s, call, &advance, EINVAL, "U64_MAX");
	advance.flags = 0;
	fails(&s, call, &advance, EINVAL, "by U64_MAX");
	advance.ns = (1ULL << 63) - s.now;
	fails(&s, call, &advance, EINVAL, "1 ns beyond the end");

	FAILS_WITH_BITS(&s, call, &valid, flags, HTW_F_ABS);
	fails_with_pointers(&s, call, &valid);
	fails_read_only(&s, call, &valid);
	close_subject(&s);

	begin("ns: to the end of the clock");
	s = open_subject();
	advance = (struct htw_advance_args){
		.ns = (1ULL << 63) - 1, .due = POISON32, .flags = HTW_F_ABS };
	expect_result("the call", 0, htw_call(s.fd, call->cmd, &advance));
	expect_number("due", 0, advance.due);
	close_subject(&s);

	begin("EINVAL on a running clock");
	s = open_fresh();
	s.witness = start(&s, 0);
	advance = valid;
	fails(&s, call, &advance, EINVAL, "the call");
	close_subject(&s);
}
