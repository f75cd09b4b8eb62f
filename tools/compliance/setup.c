// SPDX-License-Identifier: GPL-2.0-only
/* HTW_SETUP */
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include "areas.h"
#include "subject.h"

static const struct call the_call = { "HTW_SETUP", HTW_SETUP, 0, sizeof(struct htw_setup_args) };

/* The call succeeds on a new descriptor, and HTW_INFO reports the result. */
static struct htw_info_args set_up(const char *what, struct htw_setup_args setup)
{
	struct subject s = open_fresh();
	struct htw_setup_args before = setup;
	struct htw_info_args info;

	expect_result(what, 0, htw_call(s.fd, HTW_SETUP, &setup));
	expect(!memcmp(&before, &setup, sizeof(setup)), "%s: the argument was written to", what);
	info = info_of(&s);
	expect_number("flags of HTW_INFO", setup.flags, info.flags);
	close(s.fd);
	return info;
}

static void setup_fails(const char *what, struct htw_setup_args setup, int error)
{
	struct subject s = open_fresh();

	fails(&s, &the_call, &setup, error, what);
	close(s.fd);
}

/*
 * The result of HTW_SETUP for a user without privileges; 1 if the user cannot
 * be changed.
 */
static int setup_as_nobody(struct htw_setup_args setup)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		struct subject s = open_fresh();

		if (setresuid(65534, 65534, 65534))
			_exit(255);
		_exit(-htw_call(s.fd, HTW_SETUP, &setup));
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) ||
	    WEXITSTATUS(status) == 255)
		return 1;
	return -WEXITSTATUS(status);
}

/* A setup with a wheel of its own. */
static const struct htw_setup_args wheel = {
	.tick_ns = SEC, .levels = 3, .slots = { 60, 60, 12 },
};

static void check_clocks(void)
{
	static const struct {
		const char *name;
		int id;
	} clocks[] = {
		{ "CLOCK_MONOTONIC", CLOCK_MONOTONIC }, { "CLOCK_BOOTTIME", CLOCK_BOOTTIME },
		{ "CLOCK_REALTIME", CLOCK_REALTIME }, { "HTW_CLOCK_MANUAL", HTW_CLOCK_MANUAL },
	};
	static const int no_clocks[] = {
		2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 16, -1, -2, -6, INT32_MAX, INT32_MIN,
		HTW_CLOCK_MANUAL + 1, HTW_CLOCK_MANUAL - 1,
	};
	struct htw_info_args info;

	for (size_t i = 0; i < ARRAY_SIZE(clocks); i++) {
		begin("clock: %s", clocks[i].name);
		info = set_up("the call", (struct htw_setup_args){
			.flags = HTW_SETUP_CLOCK, .clock = clocks[i].id });
		expect_number("clock of HTW_INFO", clocks[i].id, info.clock);
	}
	begin("clock: EOPNOTSUPP for any other clock");
	for (size_t i = 0; i < ARRAY_SIZE(no_clocks); i++) {
		char what[32];

		snprintf(what, sizeof(what), "clock %d", no_clocks[i]);
		setup_fails(what, (struct htw_setup_args){
			.flags = HTW_SETUP_CLOCK, .clock = no_clocks[i] }, EOPNOTSUPP);
	}
	begin("clock: EINVAL without its flag");
	setup_fails("the call", (struct htw_setup_args){ .clock = CLOCK_BOOTTIME }, EINVAL);
}

static void check_ticks(void)
{
	static const __u64 ticks[] = { 1000, 10000, 1000000, 1234567, SEC };
	static const __u64 out_of_range[] = {
		1, 999, SEC + 1, 1ULL << 32, (1ULL << 32) + 1000000, ~0ULL,
	};
	struct htw_setup_args setup = { .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL };
	struct htw_info_args info;

	begin("tick_ns: from 1 us to 1 s for a privileged user");
	for (size_t i = 0; i < ARRAY_SIZE(ticks); i++) {
		info = set_up("the call", (struct htw_setup_args){ .tick_ns = ticks[i] });
		expect_number("tick_ns of HTW_INFO", ticks[i], info.tick_ns);
	}
	begin("tick_ns: ERANGE for others");
	for (size_t i = 0; i < ARRAY_SIZE(out_of_range); i++)
		setup_fails("the call", (struct htw_setup_args){
			.tick_ns = out_of_range[i] }, ERANGE);
	begin("tick_ns: from 1 ns on the manual clock");
	setup.tick_ns = 1;
	info = set_up("the call", setup);
	expect_number("tick_ns of HTW_INFO", 1, info.tick_ns);

	begin("flags: HTW_SETUP_EXACT is a tick of 10 us");
	info = set_up("the call", (struct htw_setup_args){ .flags = HTW_SETUP_EXACT });
	expect_number("tick_ns of HTW_INFO", 10000, info.tick_ns);
	begin("flags: HTW_SETUP_EXACT with tick_ns is EINVAL");
	setup_fails("the call", (struct htw_setup_args){
		.flags = HTW_SETUP_EXACT, .tick_ns = 10000 }, EINVAL);

	begin("EPERM for an unprivileged user: a tick below 10 us");
	setup = (struct htw_setup_args){ .tick_ns = 10000 };
	if (setup_as_nobody(setup)) {
		skip("we cannot become an unprivileged user");
		return;
	}
	setup.tick_ns = 9999;
	expect_result("9,999 ns", -EPERM, setup_as_nobody(setup));
	setup = (struct htw_setup_args){ .flags = HTW_SETUP_EXACT };
	expect_result("HTW_SETUP_EXACT", 0, setup_as_nobody(setup));
	setup = (struct htw_setup_args){
		.flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL, .tick_ns = 1 };
	expect_result("1 ns on the manual clock", 0, setup_as_nobody(setup));
}

static void check_geometry(void)
{
	struct htw_setup_args setup = wheel;
	struct htw_info_args info;

	begin("levels, slots: applied");
	info = set_up("60,60,12 at 1 s", wheel);
	expect_number("levels", 3, info.levels);
	for (unsigned int l = 0; l < HTW_MAX_LEVELS; l++)
		expect_number("slots", wheel.slots[l], info.slots[l]);
	begin("levels: ERANGE for more than HTW_MAX_LEVELS");
	setup.levels = HTW_MAX_LEVELS + 1;
	setup_fails("9", setup, ERANGE);
	setup.levels = ~0U;
	setup_fails("U32_MAX", setup, ERANGE);
	begin("slots: ERANGE if not from 2 to 2048 in a level that is used");
	for (unsigned int l = 0; l < wheel.levels; l++) {
		static const __u32 slots[] = { 0, 1, 2049, ~0U };

		for (size_t i = 0; i < ARRAY_SIZE(slots); i++) {
			setup = wheel;
			setup.slots[l] = slots[i];
			setup_fails("the call", setup, ERANGE);
		}
		setup = wheel;
		setup.slots[l] = 2;
		set_up("2", setup);
		setup.slots[l] = 2048;
		set_up("2048", setup);
	}
	begin("slots: EINVAL unless zero in a level that is not used");
	for (unsigned int l = wheel.levels; l < HTW_MAX_LEVELS; l++) {
		setup = wheel;
		setup.slots[l] = 2;
		setup_fails("the call", setup, EINVAL);
	}
	for (unsigned int l = 0; l < HTW_MAX_LEVELS; l++) {
		setup = (struct htw_setup_args){ 0 };
		setup.slots[l] = 2;
		setup_fails("without levels", setup, EINVAL);
	}
	begin("slots: ERANGE if their product is above 2^61");
	setup = (struct htw_setup_args){
		.levels = 6, .slots = { 2048, 2048, 2048, 2048, 2048, 64 } };
	set_up("2^61", setup);
	setup.slots[5] = 128;
	setup_fails("2^62", setup, ERANGE);
}

static void check_limit(void)
{
	struct htw_info_args info;

	begin("limit: applied");
	info = set_up("3", (struct htw_setup_args){ .limit = 3 });
	expect_number("limit of HTW_INFO", 3, info.limit);
	begin("limit: at most the module's");
	info = set_up("as large", (struct htw_setup_args){ .limit = announced.limit });
	expect_number("limit of HTW_INFO", announced.limit, info.limit);
	setup_fails("one more", (struct htw_setup_args){ .limit = announced.limit + 1 }, ERANGE);
	setup_fails("U64_MAX", (struct htw_setup_args){ .limit = ~0ULL }, ERANGE);
	setup_fails("2^32 + 1", (struct htw_setup_args){ .limit = (1ULL << 32) + 1 }, ERANGE);

	begin("event_size: that of struct htw_event, or EINVAL");
	info = set_up("that", (struct htw_setup_args){ .event_size = sizeof(struct htw_event) });
	expect_number("event_size of HTW_INFO", sizeof(struct htw_event), info.event_size);
	setup_fails("1", (struct htw_setup_args){ .event_size = 1 }, EINVAL);
	setup_fails("a byte less", (struct htw_setup_args){
		.event_size = sizeof(struct htw_event) - 1 }, EINVAL);
	setup_fails("8 bytes more", (struct htw_setup_args){
		.event_size = sizeof(struct htw_event) + 8 }, EINVAL);
	setup_fails("U32_MAX", (struct htw_setup_args){ .event_size = ~0U }, EINVAL);
}

/* When the call is too late. */
static void check_once(void)
{
	struct htw_setup_args none = { 0 }, setup = { .limit = 3 };
	struct subject s = open_fresh();
	__u64 id;

	begin("all fields zero: nothing changes, also afterwards");
	remember(&s);
	expect_result("the call", 0, htw_call(s.fd, HTW_SETUP, &none));
	expect_same_state(&s, "after it");
	expect_result("a setup then", 0, htw_call(s.fd, HTW_SETUP, &setup));
	begin("EBUSY the second time");
	fails(&s, &the_call, &setup, EBUSY, "the same");
	expect_result("with all fields zero", 0, htw_call(s.fd, HTW_SETUP, &none));
	close_subject(&s);

	s = open_fresh();
	begin("EBUSY after the first timer, also after it has ended");
	id = start(&s, 0);
	fails(&s, &the_call, &setup, EBUSY, "with a timer");
	expect_result("HTW_CANCEL", 0, stop(&s, id));
	fails(&s, &the_call, &setup, EBUSY, "after its end");
	close_subject(&s);

}

void check_setup(void)
{
	struct htw_setup_args valid = { .limit = 3 };
	struct subject s;

	group(the_call.name);
	check_clocks();
	check_ticks();
	check_geometry();
	check_limit();
	begin("flags: HTW_SETUP_ORDERED");
	set_up("the call", (struct htw_setup_args){ .flags = HTW_SETUP_ORDERED });
	check_once();

	s = open_fresh();
	FAILS_WITH_BITS(&s, &the_call, &valid, flags,
			HTW_SETUP_CLOCK | HTW_SETUP_EXACT | HTW_SETUP_ORDERED);
	fails_with_pointers(&s, &the_call, &valid);
	begin("argument: not written, so it may be read-only");
	expect_result("the call", 0, htw_call(s.fd, HTW_SETUP, read_only(&valid, sizeof(valid))));
	close_subject(&s);
}
