// SPDX-License-Identifier: GPL-2.0-only
/* HTW_ADVANCE */
#include "areas.h"
#include "subject.h"

static const struct call the_call = { "HTW_ADVANCE", HTW_ADVANCE, 0, sizeof(struct htw_advance) };

void check_advance(void)
{
	const struct call *call = &the_call;
	struct htw_advance advance, valid;
	struct htw_event ev[4];
	struct subject s;
	__u64 id[3];

	if (!supported(call->name, call->cmd, HTW_FEATURE_MANUAL))
		return;
	s = open_witnessed();
	begin("ns: relative");
	for (unsigned int i = 0; i < 3; i++)
		id[i] = started(&s, (struct htw_add){
			.deadline = (3 - i) * SEC, .cookie = COOKIE });
	valid = (struct htw_advance){ .ns = 2 * SEC, .expired = POISON };
	advance = valid;
	expect_result("the call", 0, htw_call(s.fd, call->cmd, &advance));
	s.now += 2 * SEC;
	expect_number("expired", 2, advance.expired);
	advance.expired = POISON;
	expect(!memcmp(&advance, &valid, sizeof(valid)), "more than expired was written");
	if (expect_result("read()", 2, get(&s, ev, 4))) {
		expect_event(&s, &ev[0], id[2], COOKIE, 0);
		expect_event(&s, &ev[1], id[1], COOKIE, 0);
	}

	begin("ns: absolute, with HTW_F_ABS");
	advance = (struct htw_advance){ .ns = s.now + SEC, .expired = POISON, .flags = HTW_F_ABS };
	expect_result("the call", 0, htw_call(s.fd, call->cmd, &advance));
	s.now += SEC;
	expect_number("expired", 1, advance.expired);
	expect_result("read()", 1, get(&s, ev, 4));
	advance.expired = POISON;
	expect_result("to the present", 0, htw_call(s.fd, call->cmd, &advance));
	expect_number("expired then", 0, advance.expired);
	begin("ns: zero");
	advance = (struct htw_advance){ .expired = POISON };
	expect_result("the call", 0, htw_call(s.fd, call->cmd, &advance));
	expect_number("expired", 0, advance.expired);
	begin("ns: EINVAL for a time in the past");
	advance = (struct htw_advance){ .ns = s.now - 1, .expired = POISON, .flags = HTW_F_ABS };
	fails(&s, call, &advance, EINVAL, "1 ns before now");
	begin("ns: EINVAL for a time out of range");
	advance = (struct htw_advance){ .ns = ~0ULL, .expired = POISON, .flags = HTW_F_ABS };
	fails(&s, call, &advance, EINVAL, "U64_MAX");
	advance.flags = 0;
	fails(&s, call, &advance, EINVAL, "by U64_MAX");

	FAILS_WITH_BITS(&s, call, &valid, flags, HTW_F_ABS);
	FAILS_WITH_BITS(&s, call, &valid, reserved0, 0);
	FAILS_WITH_BITS(&s, call, &valid, reserved, 0);
	fails_with_pointers(&s, call, &valid);
	fails_read_only(&s, call, &valid);
	close_subject(&s);

	begin("EINVAL on a running clock");
	s = open_fresh();
	s.witness = start(&s, 0);
	advance = valid;
	fails(&s, call, &advance, EINVAL, "the call");
	close_subject(&s);
}
