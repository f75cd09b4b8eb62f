// SPDX-License-Identifier: GPL-2.0-only
/* HTW_INFO */
#include <time.h>
#include "areas.h"
#include "subject.h"

static const struct call the_call = { "HTW_INFO", HTW_INFO, 0, sizeof(struct htw_info_args) };

void check_info(void)
{
	const struct call *call = &the_call;
	struct subject s = open_subject();
	struct htw_info_args info, again;
	struct htw_event ev[3];
	__u64 id;

	group(call->name);
	begin("every field is written");
	memset(&info, 0xa5, sizeof(info));
	expect_result("the call", 0, htw_call(s.fd, HTW_INFO, &info));
	memset(&again, 0x5a, sizeof(again));
	expect_result("the call", 0, htw_call(s.fd, HTW_INFO, &again));
	expect(!memcmp(&info, &again, sizeof(info)), "the result depends on the buffer's contents");

	begin("features: no unknown bit");
	expect_number("features", HTW_FEATURE_FIRST | HTW_FEATURE_URING, info.features);

	begin("tick_ns, limit: not zero");
	expect(info.tick_ns && info.limit, "tick_ns %llu, limit %llu", info.tick_ns, info.limit);

	begin("timers: pending, due and kept");
	expect_number("timers of a new descriptor", 0, info.timers);
	start(&s, 0);
	expect_number("timers after HTW_ADD", 1, info_of(&s).timers);
	expect(start_due(&s, (struct htw_add_args){ .deadline = 1 }), "a timer is not due");
	expect_number("timers with a due one", 2, info_of(&s).timers);
	expect(start_due(&s, (struct htw_add_args){ .deadline = 1, .flags = HTW_F_KEEP }),
	       "a kept timer is not due");
	expect_number("timers with a kept one", 3, info_of(&s).timers);
	expect_result("read()", 2, get(&s, ev, 3));
	expect_number("timers, one kept, after read()", 2, info_of(&s).timers);

	begin("bytes, user_timers, user_limit: what timers take");
	expect(info_of(&s).bytes, "two timers take no bytes");
	expect(info_of(&s).user_timers >= 2, "user_timers is %llu", info_of(&s).user_timers);
	expect(info.user_limit >= info.user_timers, "user_limit is %llu", info.user_limit);

	begin("next: no later than the first timer; U64_MAX without one");
	expect_number("next of a new descriptor", ~0ULL, info.next);
	expect(info_of(&s).next <= HOUR, "next is %llu", info_of(&s).next);
	id = started(&s, (struct htw_add_args){ .deadline = 2 * s.tick });
	expect(info_of(&s).next <= s.now + 2 * s.tick, "next is %llu", info_of(&s).next);
	pass(&s, 2 * s.tick);
	expect(info_of(&s).next <= s.now, "next is %llu with a due timer", info_of(&s).next);
	expect_result("HTW_CANCEL", 0, stop(&s, id));

	begin("clock, flags, event_size: of a new descriptor");
	expect_number("clock", CLOCK_MONOTONIC, announced.clock);
	expect_number("flags", 0, announced.flags);
	expect_number("event_size", sizeof(struct htw_event), announced.event_size);

	begin("levels, slots: slots of each level, zero after the last");
	expect(info.levels >= 1 && info.levels <= HTW_MAX_LEVELS, "levels is %u", info.levels);
	for (unsigned int l = 0; l < HTW_MAX_LEVELS; l++)
		expect(!info.slots[l] == (l >= info.levels), "slots[%u] is %u", l, info.slots[l]);

	begin("argument: EFAULT at NULL and other invalid addresses");
	for (size_t i = 0; i < ARRAY_SIZE(bad_addresses); i++)
		expect_result("the call", -EFAULT,
			      htw_call(s.fd, HTW_INFO, (void *)bad_addresses[i]));
	expect_result("if its last byte is inaccessible", -EFAULT,
		      htw_call(s.fd, HTW_INFO, before_hole(sizeof(info) - 1)));
	fails_read_only(&s, call, &info);
	close_subject(&s);
}
