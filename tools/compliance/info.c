// SPDX-License-Identifier: GPL-2.0-only
/* HTW_INFO */
#include <time.h>
#include "areas.h"
#include "subject.h"

static const struct call the_call = { "HTW_INFO", HTW_INFO, 0, sizeof(struct htw_info) };

void check_info(void)
{
	const struct call *call = &the_call;
	struct subject s = open_subject();
	struct htw_info info, again;
	bool zero = true;

	group(call->name);
	begin("every field is written");
	memset(&info, 0xa5, sizeof(info));
	expect_result("the call", 0, htw_call(s.fd, HTW_INFO, &info));
	memset(&again, 0x5a, sizeof(again));
	expect_result("the call", 0, htw_call(s.fd, HTW_INFO, &again));
	expect(!memcmp(&info, &again, sizeof(info)), "the result depends on the buffer's contents");

	begin("features: no unknown bit");
	expect_number("the others", 0, info.features & ~(2ULL * HTW_FEATURE_UNREAD - 1));
	expect(info.features & HTW_FEATURE_ADD, "HTW_FEATURE_ADD is missing");

	begin("tick_ns, limit: not zero");
	expect(info.tick_ns && info.limit, "tick_ns %llu, limit %llu", info.tick_ns, info.limit);

	begin("timers, expired: their numbers");
	expect_number("timers of a new descriptor", 0, info.timers);
	expect_number("expired of a new descriptor", 0, info.expired);
	start(&s, 0);
	expect_number("timers after HTW_ADD", 1, info_of(&s).timers);
	expect_number("expired after HTW_ADD", 0, info_of(&s).expired);
	expect(start_expired(&s, (struct htw_add){ .deadline = 1 }), "a timer does not expire");
	expect_number("timers after an expiration", 2, info_of(&s).timers);
	expect_number("expired after an expiration", 1, info_of(&s).expired);
	if (has(HTW_FEATURE_KEEP)) {
		struct htw_event ev[2];

		expect(start_expired(&s, (struct htw_add){ .deadline = 1, .flags = HTW_F_KEEP }),
		       "a kept timer does not expire");
		expect_number("timers with a kept one", 3, info_of(&s).timers);
		expect_result("read()", 2, get(&s, ev, 2));
		expect_number("timers, one kept, after read()", 2, info_of(&s).timers);
		expect_number("expired after read()", 0, info_of(&s).expired);
	}

	begin("clock, home_cpu, flags, ring_entries: of a new descriptor");
	expect_number("clock", CLOCK_MONOTONIC, announced.clock);
	expect_number("home_cpu", -1, announced.home_cpu);
	expect_number("flags", 0, announced.flags);
	expect_number("ring_entries", 0, announced.ring_entries);

	begin("levels, slots: slots of each level, zero after the last");
	expect(info.levels >= 1 && info.levels <= HTW_MAX_LEVELS, "levels is %u", info.levels);
	for (unsigned int l = 0; l < HTW_MAX_LEVELS; l++)
		expect(!info.slots[l] == (l >= info.levels), "slots[%u] is %u", l, info.slots[l]);

	begin("reserved fields: zero");
	for (size_t i = 0; i < ARRAY_SIZE(info.reserved); i++)
		zero &= !info.reserved[i];
	expect(zero && !info.reserved0, "they are not zero");

	begin("argument: EFAULT at NULL and other invalid addresses");
	for (size_t i = 0; i < ARRAY_SIZE(bad_addresses); i++)
		expect_result("the call", -EFAULT,
			      htw_call(s.fd, HTW_INFO, (void *)bad_addresses[i]));
	expect_result("if its last byte is inaccessible", -EFAULT,
		      htw_call(s.fd, HTW_INFO, before_hole(sizeof(info) - 1)));
	fails_read_only(&s, call, &info);
	close_subject(&s);
}
