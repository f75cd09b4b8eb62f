// SPDX-License-Identifier: GPL-2.0-only
/* HTW_SETUP */
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include "areas.h"
#include "subject.h"

static const struct call the_call = { "HTW_SETUP", HTW_SETUP, 0, sizeof(struct htw_setup) };

/* The call succeeds on a new descriptor, and HTW_INFO reports the result. */
static struct htw_info set_up(const char *what, struct htw_setup setup)
{
	struct subject s = open_fresh();
	struct htw_setup before = setup;
	struct htw_info info;

	expect_result(what, 0, htw_call(s.fd, HTW_SETUP, &setup));
	expect(!memcmp(&before, &setup, sizeof(setup)), "%s: the argument was written to", what);
	info = info_of(&s);
	expect_number("flags of HTW_INFO", setup.flags, info.flags);
	close(s.fd);
	return info;
}

static void setup_fails(const char *what, struct htw_setup setup, int error)
{
	struct subject s = open_fresh();

	fails(&s, &the_call, &setup, error, what);
	close(s.fd);
}

/*
 * The result of HTW_SETUP for a user without privileges; 1 if the user cannot
 * be changed.
 */
static int setup_as_nobody(struct htw_setup setup)
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

void check_setup(void)
{
	const struct htw_setup none = { 0 };
	const struct htw_setup private = {
		.flags = HTW_SETUP_PRIVATE,
		.tick_ns = SEC, .levels = 3, .slots = { 60, 60, 12 },
	};
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
	const __u32 known = HTW_SETUP_CLOCK | HTW_SETUP_PRIVATE | HTW_SETUP_LIMIT |
			    HTW_SETUP_HOME | (has(HTW_FEATURE_RING) ? HTW_SETUP_RING : 0);
	struct htw_setup setup;
	struct htw_info info;
	struct subject s;
	__u64 id;

	if (!supported("HTW_SETUP", HTW_SETUP, HTW_FEATURE_SETUP))
		return;

	begin("no flags: nothing changes");
	set_up("the call", none);

	for (size_t i = 0; i < ARRAY_SIZE(clocks); i++) {
		setup = (struct htw_setup){ .flags = HTW_SETUP_CLOCK, .clock = clocks[i].id };
		if (clocks[i].id == HTW_CLOCK_MANUAL && !has(HTW_FEATURE_MANUAL)) {
			begin("clock: HTW_CLOCK_MANUAL is EINVAL without the feature");
			setup_fails("the call", setup, EINVAL);
			continue;
		}
		begin("clock: %s", clocks[i].name);
		info = set_up("the call", setup);
		expect_number("clock of HTW_INFO", clocks[i].id, info.clock);
	}
	begin("clock: EOPNOTSUPP for any other clock");
	for (size_t i = 0; i < ARRAY_SIZE(no_clocks); i++) {
		char what[32];

		snprintf(what, sizeof(what), "clock %d", no_clocks[i]);
		setup_fails(what, (struct htw_setup){
			.flags = HTW_SETUP_CLOCK, .clock = no_clocks[i] }, EOPNOTSUPP);
	}

	begin("tick_ns, levels, slots: a private wheel");
	info = set_up("60,60,12 at 1 s", private);
	expect_number("tick_ns", SEC, info.tick_ns);
	expect_number("levels", 3, info.levels);
	for (unsigned int l = 0; l < HTW_MAX_LEVELS; l++)
		expect_number("slots", private.slots[l], info.slots[l]);
	begin("tick_ns: ERANGE for zero");
	setup = private;
	setup.tick_ns = 0;
	setup_fails("the call", setup, ERANGE);
	begin("tick_ns: ERANGE for U64_MAX and what is zero in 32 bits");
	setup.tick_ns = ~0ULL;
	setup_fails("U64_MAX", setup, ERANGE);
	setup.tick_ns = 1ULL << 32;
	setup_fails("2^32", setup, ERANGE);
	setup.tick_ns = (1ULL << 32) + 1000000;
	setup_fails("2^32 + 1 ms", setup, ERANGE);
	begin("levels: ERANGE for zero and more than HTW_MAX_LEVELS");
	setup = private;
	setup.levels = HTW_MAX_LEVELS + 1;
	setup_fails("9", setup, ERANGE);
	setup.levels = ~0U;
	setup_fails("U32_MAX", setup, ERANGE);
	setup = private;
	setup.levels = 0;
	memset(setup.slots, 0, sizeof(setup.slots));
	setup_fails("0", setup, ERANGE);
	begin("slots: ERANGE for zero in a level that is used");
	for (unsigned int l = 0; l < private.levels; l++) {
		setup = private;
		setup.slots[l] = 0;
		setup_fails("the call", setup, ERANGE);
	}
	begin("slots: EINVAL unless zero in a level that is not used");
	for (unsigned int l = private.levels; l < HTW_MAX_LEVELS; l++) {
		setup = private;
		setup.slots[l] = 2;
		setup_fails("the call", setup, EINVAL);
	}
	begin("slots: ERANGE for U32_MAX");
	for (unsigned int l = 0; l < private.levels; l++) {
		setup = private;
		setup.slots[l] = ~0U;
		setup_fails("the call", setup, ERANGE);
	}

	begin("limit: applied");
	info = set_up("the call", (struct htw_setup){ .flags = HTW_SETUP_LIMIT, .limit = 3 });
	expect_number("limit of HTW_INFO", 3, info.limit);
	begin("limit: at most the module's");
	info = set_up("as large", (struct htw_setup){
		.flags = HTW_SETUP_LIMIT, .limit = announced.limit });
	expect_number("limit of HTW_INFO", announced.limit, info.limit);
	setup_fails("one more", (struct htw_setup){
		.flags = HTW_SETUP_LIMIT, .limit = announced.limit + 1 }, ERANGE);
	setup_fails("U64_MAX", (struct htw_setup){
		.flags = HTW_SETUP_LIMIT, .limit = ~0ULL }, ERANGE);
	setup_fails("2^32 + 1", (struct htw_setup){
		.flags = HTW_SETUP_LIMIT, .limit = (1ULL << 32) + 1 }, ERANGE);

	begin("home_cpu: applied");
	info = set_up("CPU 0", (struct htw_setup){ .flags = HTW_SETUP_HOME });
	expect_number("home_cpu of HTW_INFO", 0, info.home_cpu);
	begin("home_cpu: EINVAL for a CPU that does not exist");
	setup_fails("-1", (struct htw_setup){ .flags = HTW_SETUP_HOME, .home_cpu = -1 }, EINVAL);
	setup_fails("INT_MAX", (struct htw_setup){
		.flags = HTW_SETUP_HOME, .home_cpu = INT32_MAX }, EINVAL);
	setup_fails("INT_MIN", (struct htw_setup){
		.flags = HTW_SETUP_HOME, .home_cpu = INT32_MIN }, EINVAL);

	if (has(HTW_FEATURE_RING)) {
		begin("ring_entries: applied");
		info = set_up("64", (struct htw_setup){
			.flags = HTW_SETUP_RING, .ring_entries = 64 });
		expect_number("ring_entries of HTW_INFO", 64, info.ring_entries);
		begin("ring_entries: ERANGE if out of range, EINVAL if no power of two");
		setup_fails("0", (struct htw_setup){ .flags = HTW_SETUP_RING }, ERANGE);
		setup_fails("3", (struct htw_setup){
			.flags = HTW_SETUP_RING, .ring_entries = 3 }, EINVAL);
		setup_fails("2^21", (struct htw_setup){
			.flags = HTW_SETUP_RING, .ring_entries = 1 << 21 }, ERANGE);
		setup_fails("U32_MAX", (struct htw_setup){
			.flags = HTW_SETUP_RING, .ring_entries = ~0U }, ERANGE);
	}

	begin("a field whose flag is not set must be zero");
	setup_fails("clock", (struct htw_setup){ .clock = CLOCK_BOOTTIME }, EINVAL);
	setup_fails("tick_ns", (struct htw_setup){ .tick_ns = SEC }, EINVAL);
	setup_fails("limit", (struct htw_setup){ .limit = 3 }, EINVAL);
	setup_fails("home_cpu", (struct htw_setup){ .home_cpu = 1 }, EINVAL);
	setup_fails("levels", (struct htw_setup){ .levels = 1 }, EINVAL);
	for (unsigned int l = 0; l < HTW_MAX_LEVELS; l++) {
		setup = none;
		setup.slots[l] = 2;
		setup_fails("slots", setup, EINVAL);
	}
	setup_fails("ring_entries", (struct htw_setup){ .ring_entries = 64 }, EINVAL);

	s = open_fresh();
	FAILS_WITH_BITS(&s, &the_call, &none, flags, known);
	FAILS_WITH_BITS(&s, &the_call, &none, reserved0, 0);
	FAILS_WITH_BITS(&s, &the_call, &none, reserved, 0);
	fails_with_pointers(&s, &the_call, &none);
	begin("argument: not written, so it may be read-only");
	expect_result("the call", 0, htw_call(s.fd, HTW_SETUP, read_only(&none, sizeof(none))));

	begin("EBUSY after the first timer, also after it has ended");
	id = start(&s, 0);
	setup = (struct htw_setup){ .flags = HTW_SETUP_LIMIT, .limit = 3 };
	fails(&s, &the_call, &setup, EBUSY, "with a timer");
	expect_result("HTW_CANCEL", 0, stop(&s, id, 0));
	fails(&s, &the_call, &setup, EBUSY, "after its end");
	close_subject(&s);

	begin("a failed HTW_ADD does not count as the first timer");
	s = open_fresh();
	expect_result("HTW_ADD", -EFAULT,
		      htw_call(s.fd, HTW_ADD, read_only(&(struct htw_add){ .deadline = HOUR },
							sizeof(struct htw_add))));
	expect_result("HTW_SETUP", 0, htw_call(s.fd, HTW_SETUP, &setup));
	close_subject(&s);

	setup = private;
	setup.tick_ns = 50000;
	begin("EPERM for an unprivileged user: a tick below 100 us");
	if (setup_as_nobody(none)) {
		skip("we cannot become an unprivileged user");
		return;
	}
	expect_result("50 us", -EPERM, setup_as_nobody(setup));
	setup.tick_ns = 100000;
	expect_result("100 us", 0, setup_as_nobody(setup));
	begin("EPERM for an unprivileged user: more than 4096 slots");
	setup = private;
	setup.slots[0] = setup.slots[1] = 2047;
	setup.slots[2] = 2;
	expect_result("4096", 0, setup_as_nobody(setup));
	setup.slots[2] = 3;
	expect_result("4097", -EPERM, setup_as_nobody(setup));
}
