// SPDX-License-Identifier: GPL-2.0-only
/*
 * Holds a device against include/uapi/linux/htw.h: for every call and every
 * field one valid use, then one input off at a time
 *
 * What a call may write is poisoned before and looked at after. After a call
 * that failed, its argument, HTW_INFO and a timer that it had nothing to do
 * with must be as they were. Time is a manual clock's wherever there is one.
 */
#include <getopt.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "check.h"
#include "subject.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

static const struct call call_setup = { "HTW_SETUP", HTW_SETUP, 0, sizeof(struct htw_setup) };
static const struct call call_info = { "HTW_INFO", HTW_INFO, 0, sizeof(struct htw_info) };
static const struct call call_batch = { "HTW_BATCH", HTW_BATCH, 0, sizeof(struct htw_batch) };
static const struct call call_vector = {
	"HTW_VECTOR", HTW_VECTOR, 0, sizeof(struct htw_vector)
};
static const struct call call_cancel_all = {
	"HTW_CANCEL_ALL", HTW_CANCEL_ALL, 0, sizeof(struct htw_cancel_all)
};
static const struct call call_list = { "HTW_LIST", HTW_LIST, 0, sizeof(struct htw_list) };
static const struct call call_harvest = {
	"HTW_HARVEST", HTW_HARVEST, 0, sizeof(struct htw_list)
};
static const struct call call_advance = {
	"HTW_ADVANCE", HTW_ADVANCE, 0, sizeof(struct htw_advance)
};
static const struct call calls_add[] = {
	{ "HTW_ADD", HTW_ADD, 0, sizeof(struct htw_add) },
	{ "HTW_BATCH of HTW_OP_ADD", HTW_BATCH, HTW_OP_ADD, sizeof(struct htw_add) },
};
static const struct call calls_cancel[] = {
	{ "HTW_CANCEL", HTW_CANCEL, 0, sizeof(struct htw_cancel) },
	{ "HTW_BATCH of HTW_OP_CANCEL", HTW_BATCH, HTW_OP_CANCEL, sizeof(struct htw_cancel) },
};
static const struct call calls_mod[] = {
	{ "HTW_MOD", HTW_MOD, 0, sizeof(struct htw_mod) },
	{ "HTW_BATCH of HTW_OP_MOD", HTW_BATCH, HTW_OP_MOD, sizeof(struct htw_mod) },
};
static const struct call calls_query[] = {
	{ "HTW_QUERY", HTW_QUERY, 0, sizeof(struct htw_query) },
	{ "HTW_BATCH of HTW_OP_QUERY", HTW_BATCH, HTW_OP_QUERY, sizeof(struct htw_query) },
};

static const struct {
	const char *name;
	unsigned long cmd;
	__u64 feature;
} commands[] = {
	{ "HTW_SETUP", HTW_SETUP, HTW_FEATURE_SETUP },
	{ "HTW_INFO", HTW_INFO, HTW_FEATURE_ADD },
	{ "HTW_ADD", HTW_ADD, HTW_FEATURE_ADD },
	{ "HTW_CANCEL", HTW_CANCEL, HTW_FEATURE_ADD },
	{ "HTW_MOD", HTW_MOD, HTW_FEATURE_MOD },
	{ "HTW_QUERY", HTW_QUERY, HTW_FEATURE_MOD },
	{ "HTW_BATCH", HTW_BATCH, HTW_FEATURE_ADD },
	{ "HTW_CANCEL_ALL", HTW_CANCEL_ALL, HTW_FEATURE_ALL },
	{ "HTW_LIST", HTW_LIST, HTW_FEATURE_ALL },
	{ "HTW_HARVEST", HTW_HARVEST, HTW_FEATURE_ALL },
	{ "HTW_ADVANCE", HTW_ADVANCE, HTW_FEATURE_MANUAL },
	{ "HTW_FLUSH", HTW_FLUSH, HTW_FEATURE_RING },
	{ "HTW_VECTOR", HTW_VECTOR, HTW_FEATURE_VECTOR },
};

/* ENOTTY, and a poisoned page as it was. */
static bool is_unknown(struct subject *s, unsigned long cmd, const char *what)
{
	unsigned char arg[4096];
	bool right = true;

	memset(arg, 0xa5, sizeof(arg));
	remember(s);
	right &= expect_result(what, -ENOTTY, call_fd(s->fd, cmd, arg));
	for (size_t i = 0; i < sizeof(arg); i++)
		right &= expect(arg[i] == 0xa5, "%s: byte %zu of the argument was written to",
				what, i);
	expect_same_state(s, what);
	return right;
}

static bool is_command(unsigned long cmd)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (commands[i].cmd == cmd)
			return true;
	}
	return false;
}

static void check_commands(void)
{
	static const unsigned long directions[] = {
		_IOC_NONE, _IOC_READ, _IOC_WRITE, _IOC_READ | _IOC_WRITE,
	};
	static const unsigned int sizes[] = { 0, 1, 4, 8, 24, 64, 1024, _IOC_SIZEMASK };
	struct subject s = open_witnessed();
	char what[64];

	group("commands");
	begin("every other number of the magic is ENOTTY");
	for (unsigned int nr = 0; nr < 256; nr++) {
		bool used = false;

		for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
			used |= _IOC_NR(commands[i].cmd) == nr;
		for (size_t d = 0; !used && d < ARRAY_SIZE(directions); d++) {
			snprintf(what, sizeof(what), "number %#x, direction %lu", nr,
				 directions[d]);
			is_unknown(&s, _IOC(directions[d], HTW_IOC, nr, 64), what);
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		const unsigned long cmd = commands[i].cmd;

		begin("%s with another direction is ENOTTY", commands[i].name);
		for (size_t d = 0; d < ARRAY_SIZE(directions); d++) {
			const unsigned long other = _IOC(directions[d], HTW_IOC, _IOC_NR(cmd),
							 _IOC_SIZE(cmd));

			snprintf(what, sizeof(what), "direction %lu", directions[d]);
			if (!is_command(other))
				is_unknown(&s, other, what);
		}
		begin("%s with another size is ENOTTY", commands[i].name);
		for (int near = -1; near <= 1; near += 2) {
			if (!_IOC_SIZE(cmd) && near < 0)
				continue;
			snprintf(what, sizeof(what), "size %d", (int)_IOC_SIZE(cmd) + near);
			is_unknown(&s, cmd + near * (1L << _IOC_SIZESHIFT), what);
		}
		for (size_t k = 0; k < ARRAY_SIZE(sizes); k++) {
			const unsigned long other = _IOC(_IOC_DIR(cmd), HTW_IOC, _IOC_NR(cmd),
							 sizes[k]);

			snprintf(what, sizeof(what), "size %u", sizes[k]);
			if (!is_command(other))
				is_unknown(&s, other, what);
		}
		begin("%s with another magic is ENOTTY", commands[i].name);
		is_unknown(&s, cmd ^ (0x0f << _IOC_TYPESHIFT), "magic 0xf6");
	}
	close_subject(&s);
}

/* A call whose feature is not announced. Returns whether it is there. */
static bool supported(const char *name, unsigned long cmd, __u64 feature)
{
	struct subject s;

	group(name);
	if (has(feature))
		return true;
	note("not supported");
	s = open_witnessed();
	begin("without its feature it is ENOTTY");
	is_unknown(&s, cmd, "the call");
	close_subject(&s);
	return false;
}

static void check_info(void)
{
	const struct call *call = &call_info;
	struct subject s = open_subject();
	struct htw_info info, again;
	bool zero = true;

	group(call->name);
	begin("every field is written");
	memset(&info, 0xa5, sizeof(info));
	expect_result("the call", 0, call_fd(s.fd, HTW_INFO, &info));
	memset(&again, 0x5a, sizeof(again));
	expect_result("the call", 0, call_fd(s.fd, HTW_INFO, &again));
	expect(!memcmp(&info, &again, sizeof(info)), "with another poison it says something else");

	begin("features: no bit that has no meaning");
	expect_number("the others", 0, info.features & ~(2ULL * HTW_FEATURE_VECTOR - 1));
	expect(info.features & HTW_FEATURE_ADD, "HTW_FEATURE_ADD is not there");

	begin("tick_ns, limit: not zero");
	expect(info.tick_ns && info.limit, "tick_ns %llu, limit %llu", info.tick_ns, info.limit);

	begin("timers, expired: what there is");
	expect_number("timers of a fresh fd", 0, info.timers);
	expect_number("expired of a fresh fd", 0, info.expired);
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

	begin("clock, home_cpu, flags, ring_entries: of a fresh fd");
	expect_number("clock", CLOCK_MONOTONIC, announced.clock);
	expect_number("home_cpu", -1, announced.home_cpu);
	expect_number("flags", 0, announced.flags);
	expect_number("ring_entries", 0, announced.ring_entries);

	begin("levels, slots: as many as count, the rest zero");
	expect(info.levels >= 1 && info.levels <= HTW_MAX_LEVELS, "levels is %u", info.levels);
	for (unsigned int l = 0; l < HTW_MAX_LEVELS; l++)
		expect(!info.slots[l] == (l >= info.levels), "slots[%u] is %u", l, info.slots[l]);

	begin("reserved fields: zero");
	for (size_t i = 0; i < ARRAY_SIZE(info.reserved); i++)
		zero &= !info.reserved[i];
	expect(zero && !info.reserved0, "they are not");

	begin("argument: EFAULT at NULL and at other addresses that cannot be used");
	for (size_t i = 0; i < ARRAY_SIZE(bad_addresses); i++)
		expect_result("the call", -EFAULT,
			      call_fd(s.fd, HTW_INFO, (void *)bad_addresses[i]));
	expect_result("where its last byte cannot be used", -EFAULT,
		      call_fd(s.fd, HTW_INFO, before_hole(sizeof(info) - 1)));
	fails_read_only(&s, call, &info);
	close_subject(&s);
}

/* An fd that has had no timer. */
static struct subject open_fresh(void)
{
	struct subject s = { .fd = open(device, O_RDWR | O_CLOEXEC | O_NONBLOCK) };

	return s;
}

/* The call succeeds on a fresh fd, and HTW_INFO says so then. */
static struct htw_info set_up(const char *what, struct htw_setup setup)
{
	struct subject s = open_fresh();
	struct htw_setup before = setup;
	struct htw_info info;

	expect_result(what, 0, call_fd(s.fd, HTW_SETUP, &setup));
	expect(!memcmp(&before, &setup, sizeof(setup)), "%s: the argument was written to", what);
	info = info_of(&s);
	expect_number("flags of HTW_INFO", setup.flags, info.flags);
	close(s.fd);
	return info;
}

static void setup_fails(const char *what, struct htw_setup setup, int error)
{
	struct subject s = open_fresh();

	fails(&s, &call_setup, &setup, error, what);
	close(s.fd);
}

/* What HTW_SETUP returns to a user without privileges; 1 where we cannot be one. */
static int setup_as_nobody(struct htw_setup setup)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		struct subject s = open_fresh();

		if (setresuid(65534, 65534, 65534))
			_exit(255);
		_exit(-call_fd(s.fd, HTW_SETUP, &setup));
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) ||
	    WEXITSTATUS(status) == 255)
		return 1;
	return -WEXITSTATUS(status);
}

static void check_setup(void)
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

	begin("nothing asked for");
	set_up("the call", none);

	for (size_t i = 0; i < ARRAY_SIZE(clocks); i++) {
		setup = (struct htw_setup){ .flags = HTW_SETUP_CLOCK, .clock = clocks[i].id };
		if (clocks[i].id == HTW_CLOCK_MANUAL && !has(HTW_FEATURE_MANUAL)) {
			begin("clock: HTW_CLOCK_MANUAL is EINVAL without its feature");
			setup_fails("the call", setup, EINVAL);
			continue;
		}
		begin("clock: %s", clocks[i].name);
		info = set_up("the call", setup);
		expect_number("clock of HTW_INFO", clocks[i].id, info.clock);
	}
	begin("clock: EINVAL for any other");
	for (size_t i = 0; i < ARRAY_SIZE(no_clocks); i++) {
		char what[32];

		snprintf(what, sizeof(what), "clock %d", no_clocks[i]);
		setup_fails(what, (struct htw_setup){
			.flags = HTW_SETUP_CLOCK, .clock = no_clocks[i] }, EINVAL);
	}

	begin("tick_ns, levels, slots: a private wheel");
	info = set_up("60,60,12 at 1 s", private);
	expect_number("tick_ns", SEC, info.tick_ns);
	expect_number("levels", 3, info.levels);
	for (unsigned int l = 0; l < HTW_MAX_LEVELS; l++)
		expect_number("slots", private.slots[l], info.slots[l]);
	begin("tick_ns: EINVAL for zero");
	setup = private;
	setup.tick_ns = 0;
	setup_fails("the call", setup, EINVAL);
	begin("tick_ns: EINVAL for U64_MAX and what is zero in 32 bits");
	setup.tick_ns = ~0ULL;
	setup_fails("U64_MAX", setup, EINVAL);
	setup.tick_ns = 1ULL << 32;
	setup_fails("2^32", setup, EINVAL);
	setup.tick_ns = (1ULL << 32) + 1000000;
	setup_fails("2^32 + 1 ms", setup, EINVAL);
	begin("levels: EINVAL for zero and more than HTW_MAX_LEVELS");
	setup = private;
	setup.levels = HTW_MAX_LEVELS + 1;
	setup_fails("9", setup, EINVAL);
	setup.levels = ~0U;
	setup_fails("U32_MAX", setup, EINVAL);
	setup = private;
	setup.levels = 0;
	memset(setup.slots, 0, sizeof(setup.slots));
	setup_fails("0", setup, EINVAL);
	begin("slots: EINVAL for one that counts and is zero");
	for (unsigned int l = 0; l < private.levels; l++) {
		setup = private;
		setup.slots[l] = 0;
		setup_fails("the call", setup, EINVAL);
	}
	begin("slots: EINVAL for one that does not count and is not zero");
	for (unsigned int l = private.levels; l < HTW_MAX_LEVELS; l++) {
		setup = private;
		setup.slots[l] = 2;
		setup_fails("the call", setup, EINVAL);
	}
	begin("slots: EINVAL for U32_MAX");
	for (unsigned int l = 0; l < private.levels; l++) {
		setup = private;
		setup.slots[l] = ~0U;
		setup_fails("the call", setup, EINVAL);
	}

	begin("limit: taken");
	info = set_up("the call", (struct htw_setup){ .flags = HTW_SETUP_LIMIT, .limit = 3 });
	expect_number("limit of HTW_INFO", 3, info.limit);
	begin("limit: the module's own is the largest");
	info = set_up("as large", (struct htw_setup){
		.flags = HTW_SETUP_LIMIT, .limit = announced.limit });
	expect_number("limit of HTW_INFO", announced.limit, info.limit);
	setup_fails("one more", (struct htw_setup){
		.flags = HTW_SETUP_LIMIT, .limit = announced.limit + 1 }, EINVAL);
	setup_fails("U64_MAX", (struct htw_setup){
		.flags = HTW_SETUP_LIMIT, .limit = ~0ULL }, EINVAL);
	setup_fails("2^32 + 1", (struct htw_setup){
		.flags = HTW_SETUP_LIMIT, .limit = (1ULL << 32) + 1 }, EINVAL);

	begin("home_cpu: taken");
	info = set_up("CPU 0", (struct htw_setup){ .flags = HTW_SETUP_HOME });
	expect_number("home_cpu of HTW_INFO", 0, info.home_cpu);
	begin("home_cpu: EINVAL for what is no CPU");
	setup_fails("-1", (struct htw_setup){ .flags = HTW_SETUP_HOME, .home_cpu = -1 }, EINVAL);
	setup_fails("INT_MAX", (struct htw_setup){
		.flags = HTW_SETUP_HOME, .home_cpu = INT32_MAX }, EINVAL);
	setup_fails("INT_MIN", (struct htw_setup){
		.flags = HTW_SETUP_HOME, .home_cpu = INT32_MIN }, EINVAL);

	if (has(HTW_FEATURE_RING)) {
		begin("ring_entries: taken");
		info = set_up("64", (struct htw_setup){
			.flags = HTW_SETUP_RING, .ring_entries = 64 });
		expect_number("ring_entries of HTW_INFO", 64, info.ring_entries);
		begin("ring_entries: EINVAL for what is no power of two");
		setup_fails("0", (struct htw_setup){ .flags = HTW_SETUP_RING }, EINVAL);
		setup_fails("3", (struct htw_setup){
			.flags = HTW_SETUP_RING, .ring_entries = 3 }, EINVAL);
		setup_fails("2^21", (struct htw_setup){
			.flags = HTW_SETUP_RING, .ring_entries = 1 << 21 }, EINVAL);
		setup_fails("U32_MAX", (struct htw_setup){
			.flags = HTW_SETUP_RING, .ring_entries = ~0U }, EINVAL);
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
	FAILS_WITH_BITS(&s, &call_setup, &none, flags, known);
	FAILS_WITH_BITS(&s, &call_setup, &none, reserved0, 0);
	FAILS_WITH_BITS(&s, &call_setup, &none, reserved, 0);
	fails_with_pointers(&s, &call_setup, &none);
	begin("argument: it is not written, so it need not be writable");
	expect_result("the call", 0, call_fd(s.fd, HTW_SETUP, read_only(&none, sizeof(none))));

	begin("EBUSY once there was a timer, also after it has gone");
	id = start(&s, 0);
	setup = (struct htw_setup){ .flags = HTW_SETUP_LIMIT, .limit = 3 };
	fails(&s, &call_setup, &setup, EBUSY, "with a timer");
	expect_result("HTW_CANCEL", 0, stop(&s, id, 0));
	fails(&s, &call_setup, &setup, EBUSY, "after its end");
	close_subject(&s);

	begin("an HTW_ADD that failed does not count");
	s = open_fresh();
	expect_result("HTW_ADD", -EFAULT,
		      call_fd(s.fd, HTW_ADD, read_only(&(struct htw_add){ .deadline = HOUR },
						       sizeof(struct htw_add))));
	expect_result("HTW_SETUP", 0, call_fd(s.fd, HTW_SETUP, &setup));
	close_subject(&s);

	setup = private;
	setup.tick_ns = 50000;
	if (setup_as_nobody(none)) {
		note("EPERM not checked: we cannot become an unprivileged user");
		return;
	}
	begin("EPERM: a tick below 100 us, to an unprivileged user");
	expect_result("50 us", -EPERM, setup_as_nobody(setup));
	setup.tick_ns = 100000;
	expect_result("100 us", 0, setup_as_nobody(setup));
	begin("EPERM: more than 4096 slots, to an unprivileged user");
	setup = private;
	setup.slots[0] = setup.slots[1] = 2047;
	setup.slots[2] = 2;
	expect_result("4096", 0, setup_as_nobody(setup));
	setup.slots[2] = 3;
	expect_result("4097", -EPERM, setup_as_nobody(setup));
}

static struct htw_add valid_add(void)
{
	return (struct htw_add){
		.id = POISON,
		.deadline = HOUR,
		.cookie = COOKIE,
	};
}

/* Carries an add out, which succeeds, and tells what HTW_QUERY says then. */
static struct htw_query add_and_query(struct subject *s, const struct call *call,
				      struct htw_add *add)
{
	struct htw_add before = *add;
	struct htw_query query = { 0 };

	expect_result("the call", 0, perform(s, call, add));
	expect(add->id && add->id != POISON, "id is %#llx", add->id);
	before.id = add->id;
	expect(!memcmp(&before, add, sizeof(*add)), "more than the id was written");
	if (!has(HTW_FEATURE_MOD))
		return query;
	query = query_of(s, add->id);
	expect_number("id of HTW_QUERY", add->id, query.id);
	expect_number("cookie of HTW_QUERY", add->cookie, query.cookie);
	expect_number("interval of HTW_QUERY", add->interval, query.interval);
	expect_number("firings of HTW_QUERY", add->firings, query.firings);
	expect_number("flags of HTW_QUERY", add->flags & ~HTW_F_ABS, query.flags);
	return query;
}

/* One that came when it was due and says all that was asked for. */
static void expect_event(const struct subject *s, const struct htw_event *ev, __u64 id,
			 __u64 cookie, __u32 flags)
{
	expect_number("id of the event", id, ev->id);
	expect_number("cookie of the event", cookie, ev->cookie);
	expect(ev->fired >= ev->deadline, "fired %llu before the deadline %llu",
	       ev->fired, ev->deadline);
	if (s->manual)
		expect(ev->fired <= s->now, "fired %llu after now, %llu", ev->fired, s->now);
	expect_number("flags of the event", flags, ev->flags);
	expect_number("reserved of the event", 0, ev->reserved);
}

static void check_add_deadlines(struct subject *s, const struct call *call)
{
	static const __u64 never[] = { ~0ULL, ~0ULL - 1, 1ULL << 63, (1ULL << 63) - 1 };
	struct htw_query query;
	struct htw_event ev[2];
	struct htw_add add;

	begin("deadline: from now");
	add = valid_add();
	query = add_and_query(s, call, &add);
	if (s->manual)
		expect_number("deadline of HTW_QUERY", s->now + HOUR, query.deadline);
	stop(s, add.id, 0);

	begin("deadline: on the clock, with HTW_F_ABS");
	add = valid_add();
	add.flags = HTW_F_ABS;
	add.deadline = (1ULL << 62) + 7;
	query = add_and_query(s, call, &add);
	if (has(HTW_FEATURE_MOD))
		expect_number("deadline of HTW_QUERY", add.deadline, query.deadline);
	stop(s, add.id, 0);

	begin("deadline: one that never comes");
	for (size_t i = 0; i < 2 * ARRAY_SIZE(never); i++) {
		add = valid_add();
		add.deadline = never[i / 2];
		add.flags = i % 2 ? HTW_F_ABS : 0;
		query = add_and_query(s, call, &add);
		if (add.deadline == ~0ULL && has(HTW_FEATURE_MOD))
			expect_number("deadline of HTW_QUERY", ~0ULL, query.deadline);
		if (s->manual)
			pass(s, HOUR);
		expect_result("read()", -EAGAIN, get(s, ev, 1));
		expect_result("HTW_CANCEL", 0, stop(s, add.id, 0));
	}

	begin("deadline: zero and past expire at once");
	for (unsigned int i = 0; i < 2; i++) {
		add = valid_add();
		add.deadline = 0;
		add.flags = i ? HTW_F_ABS : 0;
		expect_result("the call", 0, perform(s, call, &add));
		expect_number(s->manual ? "poll(), without HTW_ADVANCE" : "poll()", POLLIN,
			      poll_fd(s, s->manual ? 1000 : FOREVER_MS));
		if (s->manual)
			pass(s, 0);
		if (expect_result("read()", 1, get(s, ev, 2)))
			expect_event(s, ev, add.id, COOKIE, 0);
	}

	if (!s->manual)
		return;
	begin("deadline: not a tick early, and at most a tick late");
	add = valid_add();
	add.deadline = 10 * s->tick + 1;
	expect_result("the call", 0, perform(s, call, &add));
	pass(s, 10 * s->tick);
	expect_result("read() 1 ns before it", -EAGAIN, get(s, ev, 1));
	pass(s, s->tick);
	expect_result("read() a tick after that", 1, get(s, ev, 2));
	expect_event(s, ev, add.id, COOKIE, 0);
}

static void check_add_periodic(struct subject *s, const struct call *call)
{
	const __u64 below[] = { 1, s->tick - 1 };
	struct htw_event ev[2];
	struct htw_add add;

	begin("interval: at least one tick");
	add = valid_add();
	add.interval = s->tick;
	add_and_query(s, call, &add);
	expect_result("HTW_CANCEL", 0, stop(s, add.id, 0));
	for (size_t i = 0; i < ARRAY_SIZE(below); i++) {
		add = valid_add();
		add.interval = below[i];
		if (below[i])
			fails(s, call, &add, EINVAL, i ? "a tick less 1 ns" : "1 ns");
	}

	begin("interval: U64_MAX");
	add = valid_add();
	add.interval = ~0ULL;
	add_and_query(s, call, &add);
	expect_result("HTW_CANCEL", 0, stop(s, add.id, 0));

	begin("firings: EINVAL for a one-shot timer");
	add = valid_add();
	add.firings = 1;
	fails(s, call, &add, EINVAL, "1");
	add.firings = ~0U;
	fails(s, call, &add, EINVAL, "U32_MAX");

	add = valid_add();
	add.interval = 10 * s->tick;
	add.firings = 3;
	if (!has(HTW_FEATURE_FIRINGS)) {
		begin("firings: EINVAL without their feature");
		fails(s, call, &add, EINVAL, "the call");
		return;
	}
	begin("firings: no more than that");
	add.deadline = 10 * s->tick;
	add_and_query(s, call, &add);
	for (unsigned int i = 0; i < 3; ) {
		if (!expect(pass(s, 10 * s->tick), "it does not expire") ||
		    !expect_result("read()", 1, get(s, ev, 2)))
			break;
		i += 1 + ev[0].missed;
		expect_event(s, ev, add.id, COOKIE, i < 3 ? HTW_EVENT_MORE : 0);
		if (s->manual)
			expect_number("missed", 0, ev[0].missed);
	}
	expect_result("HTW_CANCEL", -ENOENT, stop(s, add.id, 0));
}

/* Sets the clock, by as little as can be, and back. */
static void check_clock_set(struct subject *real, const struct call *call)
{
	struct timex tx = { .modes = ADJ_SETOFFSET | ADJ_NANO, .time = { .tv_usec = 1 } };
	struct htw_add add = valid_add();
	struct htw_event ev[2] = { 0 };

	begin("flags: HTW_F_CANCEL_ON_SET, and the clock is set");
	add.flags = HTW_F_CANCEL_ON_SET;
	expect_result("the call", 0, perform(real, call, &add));
	if (adjtimex(&tx) < 0) {
		note("the clock cannot be set");
		return;
	}
	tx.time.tv_sec = -1;
	tx.time.tv_usec = SEC - 1;
	adjtimex(&tx);
	expect(poll_fd(real, FOREVER_MS) == POLLIN, "it does not expire");
	expect_result("read()", 1, get(real, ev, 2));
	expect_number("id of the event", add.id, ev[0].id);
	expect_number("cookie of the event", COOKIE, ev[0].cookie);
	expect_number("flags of the event", HTW_EVENT_CLOCK_SET, ev[0].flags);
	expect(ev[0].fired < ev[0].deadline, "fired %llu, deadline %llu", ev[0].fired,
	       ev[0].deadline);
	expect_result("HTW_CANCEL", -ENOENT, stop(real, add.id, 0));
}

static void check_add_flags(struct subject *s, const struct call *call)
{
	struct htw_event ev[2];
	struct htw_add add;

	add = valid_add();
	add.flags = HTW_F_KEEP;
	if (has(HTW_FEATURE_KEEP)) {
		begin("flags: HTW_F_KEEP");
		add.deadline = s->tick;
		add_and_query(s, call, &add);
		expect(pass(s, s->tick), "it does not expire");
		if (expect_result("read()", 1, get(s, ev, 2)))
			expect_event(s, ev, add.id, COOKIE, HTW_EVENT_MORE);
		expect_result("HTW_CANCEL", 0, stop(s, add.id, 0));
		expect_result("HTW_CANCEL again", -ENOENT, stop(s, add.id, 0));
	} else {
		begin("flags: HTW_F_KEEP is EINVAL without its feature");
		fails(s, call, &add, EINVAL, "the call");
	}

	add = valid_add();
	add.flags = HTW_F_CANCEL_ON_SET;
	if (has(HTW_FEATURE_CANCEL_ON_SET)) {
		struct htw_setup setup = { .flags = HTW_SETUP_CLOCK, .clock = CLOCK_REALTIME };
		struct subject real = open_fresh();

		begin("flags: HTW_F_CANCEL_ON_SET, with CLOCK_REALTIME");
		expect_result("HTW_SETUP", 0, call_fd(real.fd, HTW_SETUP, &setup));
		add_and_query(&real, call, &add);
		expect_result("HTW_CANCEL", 0, stop(&real, add.id, 0));
		check_clock_set(&real, call);
		close_subject(&real);

		begin("flags: HTW_F_CANCEL_ON_SET is EINVAL with another clock");
		fails(s, call, &add, EINVAL, "the call");
	} else {
		begin("flags: HTW_F_CANCEL_ON_SET is EINVAL without its feature");
		fails(s, call, &add, EINVAL, "the call");
	}
}

static void check_add(const struct call *call)
{
	const __u64 cookies[] = { 0, ~0ULL, COOKIE };
	struct subject s = open_witnessed();
	struct htw_add add = valid_add(), other = valid_add();
	struct htw_event ev;

	group(call->name);
	begin("id: written, and each timer's own");
	add_and_query(&s, call, &add);
	add_and_query(&s, call, &other);
	expect(add.id != other.id, "two timers have id %#llx", add.id);
	expect_result("HTW_CANCEL", 0, stop(&s, add.id, 0));
	expect_result("HTW_CANCEL of the other", 0, stop(&s, other.id, 0));

	check_add_deadlines(&s, call);
	check_add_periodic(&s, call);
	check_add_flags(&s, call);

	begin("slack: any%s", has(HTW_FEATURE_SLACK) ? "" :
	      " but zero is EINVAL without its feature");
	for (unsigned int bit = 0; bit <= 64; bit++) {
		add = valid_add();
		add.slack = bit < 64 ? 1ULL << bit : ~0ULL;
		if (!has(HTW_FEATURE_SLACK)) {
			fails(&s, call, &add, EINVAL, "the call");
			continue;
		}
		add_and_query(&s, call, &add);
		expect_result("HTW_CANCEL", 0, stop(&s, add.id, 0));
	}

	begin("cookie: any comes back");
	for (unsigned int i = 0; i < ARRAY_SIZE(cookies); i++) {
		add = valid_add();
		add.deadline = s.tick;
		add.cookie = cookies[i];
		expect_result("the call", 0, perform(&s, call, &add));
		expect(pass(&s, s.tick), "it does not expire");
		if (expect_result("read()", 1, get(&s, &ev, 1)))
			expect_event(&s, &ev, add.id, add.cookie, 0);
	}

	add = valid_add();
	FAILS_WITH_BITS(&s, call, &add, flags, HTW_F_ABS | HTW_F_KEEP | HTW_F_CANCEL_ON_SET);
	FAILS_WITH_BITS(&s, call, &add, reserved, 0);
	if (!call->op) {
		fails_with_pointers(&s, call, &add);
		fails_read_only(&s, call, &add);
	}
	close_subject(&s);

	if (has(HTW_FEATURE_SETUP)) {
		struct htw_setup setup = { .flags = HTW_SETUP_LIMIT, .limit = 2 };

		s = open_fresh();
		begin("ENOSPC at the limit, until a timer is cancelled");
		expect_result("HTW_SETUP", 0, call_fd(s.fd, HTW_SETUP, &setup));
		s.witness = start(&s, 0);
		expect_result("up to it", 0, perform(&s, call, &other));
		fails(&s, call, &add, ENOSPC, "at it");
		expect_result("HTW_CANCEL", 0, stop(&s, other.id, 0));
		expect_result("below it again", 0, perform(&s, call, &add));
		close_subject(&s);
	}
}

static struct htw_cancel cancel_of(__u64 id, __u32 flags)
{
	return (struct htw_cancel){
		.id = id,
		.remaining = POISON,
		.cookie = POISON,
		.missed = POISON,
		.flags = flags,
	};
}

/* Cancels, and looks at all that is written then. */
static void expect_cancel(struct subject *s, const struct call *call, __u64 id, __u32 flags,
			  int result, __u64 remaining, __u64 missed)
{
	struct htw_cancel cancel = cancel_of(id, flags);

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
	begin("id: ENOENT for one that has ended, and for what never was one");
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		char what[32];

		snprintf(what, sizeof(what), "id %#llx", ids[i]);
		cancel = cancel_of(ids[i], 0);
		fails(s, call, &cancel, ENOENT, what);
	}
	expect_result("HTW_CANCEL of the one that there is", 0, stop(s, again, 0));
}

static void check_cancel(const struct call *call)
{
	struct subject s = open_witnessed();
	struct htw_add add = valid_add();
	struct htw_cancel cancel;
	struct htw_event ev[2];
	__u64 id;

	group(call->name);
	begin("a pending timer: 0, and what was left");
	expect_cancel(&s, call, start(&s, 0), 0, 0, HOUR, 0);
	expect_number("timers", 1, info_of(&s).timers);

	begin("flags: HTW_CANCEL_DISCARD on a pending timer");
	expect_cancel(&s, call, start(&s, 0), HTW_CANCEL_DISCARD, 0, HOUR, 0);
	expect_number("timers", 1, info_of(&s).timers);

	add.deadline = 1;
	begin("one that waits to be read: EALREADY, and it is its last");
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

	begin("missed: what a periodic timer has missed");
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
		begin("one that is kept and not armed: 0");
		add.flags = HTW_F_KEEP;
		id = start_expired(&s, add);
		expect_result("read()", 1, get(&s, ev, 2));
		expect_cancel(&s, call, id, 0, 0, 0, 0);
		add.flags = 0;
	}

	begin("id: ENOENT for one that was read");
	id = start_expired(&s, add);
	expect_result("read()", 1, get(&s, ev, 2));
	cancel = cancel_of(id, 0);
	fails(&s, call, &cancel, ENOENT, "the call");
	check_cancel_ids(&s, call);

	cancel = cancel_of(start(&s, 0), 0);
	FAILS_WITH_BITS(&s, call, &cancel, flags, HTW_CANCEL_DISCARD);
	FAILS_WITH_BITS(&s, call, &cancel, reserved0, 0);
	FAILS_WITH_BITS(&s, call, &cancel, reserved, 0);
	if (!call->op) {
		fails_with_pointers(&s, call, &cancel);
		begin("argument: EFAULT where it cannot be written, and it is cancelled");
		expect_result("the call", -EFAULT,
			      call_fd(s.fd, HTW_CANCEL, read_only(&cancel, sizeof(cancel))));
		expect_result("HTW_CANCEL again", -ENOENT, stop(&s, cancel.id, 0));
	}
	close_subject(&s);
}

/* Changes a timer, which succeeds; the argument is only read. */
static struct htw_query mod_and_query(struct subject *s, const struct call *call,
				      struct htw_mod mod)
{
	const struct htw_mod before = mod;

	expect_result("the call", 0, perform(s, call, &mod));
	expect(!memcmp(&before, &mod, sizeof(mod)), "the argument was written to");
	return query_of(s, mod.id);
}

static void check_mod_states(struct subject *s, const struct call *call)
{
	struct htw_add add = valid_add();
	struct htw_query query;
	struct htw_event ev[2];
	struct htw_mod mod;

	add.deadline = 1;
	begin("one that waits to be read: taken back and armed");
	mod = (struct htw_mod){ .id = start_expired(s, add), .deadline = HOUR,
				.flags = HTW_MOD_DEADLINE };
	query = mod_and_query(s, call, mod);
	expect_number("state", HTW_STATE_PENDING, query.state);
	expect_number("expired", 0, info_of(s).expired);
	expect_result("read()", -EAGAIN, get(s, ev, 1));
	expect_result("HTW_CANCEL", 0, stop(s, mod.id, 0));

	if (has(HTW_FEATURE_KEEP)) {
		begin("one that is kept and not armed: armed again");
		add.flags = HTW_F_KEEP;
		mod.id = start_expired(s, add);
		expect_result("read()", 1, get(s, ev, 2));
		query = query_of(s, mod.id);
		expect_number("state before", HTW_STATE_DISARMED, query.state);
		mod.deadline = s->tick;
		query = mod_and_query(s, call, mod);
		expect_number("state", HTW_STATE_PENDING, query.state);
		expect(pass(s, s->tick), "it does not expire");
		if (expect_result("read() again", 1, get(s, ev, 2)))
			expect_event(s, ev, mod.id, COOKIE, HTW_EVENT_MORE);
		stop(s, mod.id, 0);
	}

	begin("id: ENOENT for one that has ended, and for what never was one");
	mod.deadline = HOUR;
	fails(s, call, &mod, ENOENT, "cancelled");
	mod.id = 0;
	fails(s, call, &mod, ENOENT, "0");
	mod.id = ~0ULL;
	fails(s, call, &mod, ENOENT, "U64_MAX");
}

static void check_mod_fields(struct subject *s, const struct call *call)
{
	const __u64 id = start(s, 0);
	struct htw_query before, query;
	struct htw_mod mod;

	begin("deadline: from now");
	query = mod_and_query(s, call, (struct htw_mod){
		.id = id, .deadline = 2 * HOUR, .flags = HTW_MOD_DEADLINE });
	if (s->manual)
		expect_number("deadline", s->now + 2 * HOUR, query.deadline);
	expect_number("cookie", COOKIE, query.cookie);

	begin("deadline: on the clock, with HTW_F_ABS");
	query = mod_and_query(s, call, (struct htw_mod){
		.id = id, .deadline = (1ULL << 62) + 7, .flags = HTW_MOD_DEADLINE | HTW_F_ABS });
	expect_number("deadline", (1ULL << 62) + 7, query.deadline);

	begin("deadline: U64_MAX");
	query = mod_and_query(s, call, (struct htw_mod){
		.id = id, .deadline = ~0ULL, .flags = HTW_MOD_DEADLINE });
	expect_number("deadline", ~0ULL, query.deadline);

	begin("interval, firings: to periodic and back");
	before = query;
	mod = (struct htw_mod){ .id = id, .interval = HOUR, .flags = HTW_MOD_INTERVAL };
	mod.firings = has(HTW_FEATURE_FIRINGS) ? 7 : 0;
	query = mod_and_query(s, call, mod);
	expect_number("interval", HOUR, query.interval);
	expect_number("firings", mod.firings, query.firings);
	expect_number("deadline", before.deadline, query.deadline);
	mod.interval = mod.firings = 0;
	query = mod_and_query(s, call, mod);
	expect_number("interval, back", 0, query.interval);
	expect_number("firings, back", 0, query.firings);

	begin("cookie: another, and zero");
	query = mod_and_query(s, call, (struct htw_mod){
		.id = id, .cookie = 5, .flags = HTW_MOD_COOKIE });
	expect_number("cookie", 5, query.cookie);
	query = mod_and_query(s, call, (struct htw_mod){ .id = id, .flags = HTW_MOD_COOKIE });
	expect_number("cookie", 0, query.cookie);
	expect_number("deadline", before.deadline, query.deadline);

	mod = (struct htw_mod){ .id = id, .slack = SEC, .flags = HTW_MOD_SLACK };
	if (has(HTW_FEATURE_SLACK)) {
		begin("slack: changes nothing that is told");
		before = query;
		query = mod_and_query(s, call, mod);
		before.remaining = query.remaining;
		expect(!memcmp(&before, &query, sizeof(query)), "HTW_QUERY differs");
	} else {
		begin("slack: EINVAL without its feature");
		fails(s, call, &mod, EINVAL, "the call");
	}

	begin("all fields at once");
	query = mod_and_query(s, call, (struct htw_mod){
		.id = id, .deadline = HOUR, .interval = 2 * HOUR, .cookie = 9,
		.flags = HTW_MOD_DEADLINE | HTW_MOD_INTERVAL | HTW_MOD_COOKIE });
	expect_number("interval", 2 * HOUR, query.interval);
	expect_number("cookie", 9, query.cookie);
	expect_result("HTW_CANCEL", 0, stop(s, id, 0));
}

static void check_mod(const struct call *call)
{
	struct subject s = open_witnessed();
	struct htw_mod mod, valid;

	group(call->name);
	check_mod_fields(&s, call);
	check_mod_states(&s, call);

	s.witness = start(&s, 0);
	valid = (struct htw_mod){ .id = s.witness, .cookie = 1, .flags = HTW_MOD_COOKIE };
	begin("a field whose flag is not set must be zero");
	mod = valid;
	mod.deadline = HOUR;
	fails(&s, call, &mod, EINVAL, "deadline");
	mod = valid;
	mod.interval = HOUR;
	fails(&s, call, &mod, EINVAL, "interval");
	mod = valid;
	mod.firings = 1;
	fails(&s, call, &mod, EINVAL, "firings");
	mod = valid;
	mod.slack = 1;
	fails(&s, call, &mod, EINVAL, "slack");
	mod = (struct htw_mod){ .id = s.witness, .deadline = HOUR, .cookie = 1,
				.flags = HTW_MOD_DEADLINE };
	fails(&s, call, &mod, EINVAL, "cookie");
	begin("flags: EINVAL for none of the HTW_MOD bits");
	mod = (struct htw_mod){ .id = s.witness };
	fails(&s, call, &mod, EINVAL, "0");
	mod.flags = HTW_F_ABS;
	fails(&s, call, &mod, EINVAL, "HTW_F_ABS");
	begin("interval: EINVAL below one tick, firings: EINVAL for a one-shot timer");
	mod = (struct htw_mod){ .id = s.witness, .interval = 1, .flags = HTW_MOD_INTERVAL };
	fails(&s, call, &mod, EINVAL, "an interval of 1 ns");
	mod.interval = s.tick - 1;
	fails(&s, call, &mod, EINVAL, "an interval of a tick less 1 ns");
	mod.interval = 0;
	mod.firings = 1;
	fails(&s, call, &mod, EINVAL, "firings without an interval");
	/* With a deadline HTW_F_ABS has a meaning; the others bring theirs. */
	valid = (struct htw_mod){ .id = s.witness, .deadline = HOUR, .flags = HTW_MOD_DEADLINE };
	FAILS_WITH_BITS(&s, call, &valid, flags, HTW_F_ABS | HTW_MOD_INTERVAL | HTW_MOD_COOKIE |
			HTW_MOD_SLACK);
	FAILS_WITH_BITS(&s, call, &valid, reserved, 0);
	if (!call->op) {
		fails_with_pointers(&s, call, &valid);
		begin("argument: it is not written, so it need not be writable");
		expect_result("the call", 0, call_fd(s.fd, HTW_MOD,
						     read_only(&valid, sizeof(valid))));
	}
	close_subject(&s);
}

static void check_query(const struct call *call)
{
	struct subject s = open_witnessed();
	struct htw_add add = valid_add();
	struct htw_query query, valid;
	struct htw_event ev[2];

	group(call->name);
	begin("a pending timer: every field");
	add.interval = 10 * s.tick;
	add.firings = has(HTW_FEATURE_FIRINGS) ? 9 : 0;
	add.flags = has(HTW_FEATURE_KEEP) ? HTW_F_KEEP : 0;
	add.deadline = 10 * s.tick;
	query = valid = (struct htw_query){ .id = started(&s, add) };
	expect_result("the call", 0, perform(&s, call, &query));
	if (s.manual) {
		expect_number("deadline", s.now + 10 * s.tick, query.deadline);
		expect_number("remaining", 10 * s.tick, query.remaining);
		expect_number("state", HTW_STATE_PENDING, query.state);
	}
	expect_number("id", valid.id, query.id);
	expect_number("interval", add.interval, query.interval);
	expect_number("cookie", COOKIE, query.cookie);
	expect_number("firings", add.firings, query.firings);
	expect_number("flags", add.flags, query.flags);

	begin("one that waits to be read: state, missed");
	expect(pass(&s, 35 * s.tick), "it does not expire");
	query = valid;
	expect_result("the call", 0, perform(&s, call, &query));
	expect_number("state", HTW_STATE_EXPIRED, query.state);
	expect_number("remaining", 0, query.remaining);
	if (s.manual) {
		expect_number("deadline", s.now - 25 * s.tick, query.deadline);
		expect_number("missed", 2, query.missed);
	}

	begin("one that was read and goes on: the next deadline");
	expect_result("read()", 1, get(&s, ev, 2));
	query = valid;
	expect_result("the call", 0, perform(&s, call, &query));
	if (s.manual) {
		expect_number("state", HTW_STATE_PENDING, query.state);
		expect_number("deadline", s.now + 5 * s.tick, query.deadline);
		expect_number("remaining", 5 * s.tick, query.remaining);
		expect_number("missed", 0, query.missed);
		if (has(HTW_FEATURE_FIRINGS))
			expect_number("firings", 6, query.firings);
	}
	expect(stop(&s, valid.id, HTW_CANCEL_DISCARD) != -ENOENT, "the timer has gone");

	if (has(HTW_FEATURE_KEEP)) {
		begin("one that is kept and not armed: state");
		add = valid_add();
		add.flags = HTW_F_KEEP;
		add.deadline = 1;
		query = (struct htw_query){ .id = start_expired(&s, add) };
		expect_result("read()", 1, get(&s, ev, 2));
		expect_result("the call", 0, perform(&s, call, &query));
		expect_number("state", HTW_STATE_DISARMED, query.state);
		expect_number("remaining", 0, query.remaining);
		expect_number("flags", HTW_F_KEEP, query.flags);
		stop(&s, query.id, 0);
	}

	begin("id: ENOENT for one that has ended, and for what never was one");
	fails(&s, call, &valid, ENOENT, "cancelled");
	query = (struct htw_query){ .id = 0 };
	fails(&s, call, &query, ENOENT, "0");
	query.id = ~0ULL;
	fails(&s, call, &query, ENOENT, "U64_MAX");

	valid = (struct htw_query){ .id = start(&s, 0) };
	FAILS_WITH_BITS(&s, call, &valid, deadline, 0);
	FAILS_WITH_BITS(&s, call, &valid, remaining, 0);
	FAILS_WITH_BITS(&s, call, &valid, interval, 0);
	FAILS_WITH_BITS(&s, call, &valid, cookie, 0);
	FAILS_WITH_BITS(&s, call, &valid, missed, 0);
	FAILS_WITH_BITS(&s, call, &valid, firings, 0);
	FAILS_WITH_BITS(&s, call, &valid, state, 0);
	FAILS_WITH_BITS(&s, call, &valid, flags, 0);
	if (!call->op) {
		fails_with_pointers(&s, call, &valid);
		fails_read_only(&s, call, &valid);
	}
	close_subject(&s);
}

static struct htw_op op_add(void)
{
	return (struct htw_op){
		.op = HTW_OP_ADD, .result = POISON32, .add = valid_add(),
	};
}

static struct htw_batch batch_of(const void *ops, __u32 count)
{
	return (struct htw_batch){
		.ops = (uintptr_t)ops, .count = count, .done = POISON32,
	};
}

static void stop_all(const struct subject *s, const struct htw_op *ops, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		expect_result("HTW_CANCEL of what was added", 0, stop(s, ops[i].add.id, 0));
}

static void check_batch_entries(struct subject *s)
{
	static const __u16 no_ops[] = { 0, 5, 6, 7, 0xff, 0x100, 0x101, 0x7fff, 0x8001, 0xffff };
	struct htw_op ops[5], before;
	struct htw_batch batch;

	begin("several operations, in order, each with its own result");
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		ops[i] = op_add();
	ops[1].add.reserved = 1;
	ops[3] = (struct htw_op){ .op = HTW_OP_CANCEL, .result = POISON32,
				  .cancel = cancel_of(0, 0) };
	before = ops[1];
	before.result = -EINVAL;
	batch = batch_of(ops, 5);
	expect_result("the call", 0, call_fd(s->fd, HTW_BATCH, &batch));
	expect_number("done", 5, batch.done);
	expect_result("result 0", 0, ops[0].result);
	expect_result("result 1, with a reserved field", -EINVAL, ops[1].result);
	expect_result("result 2", 0, ops[2].result);
	expect_result("result 3, a cancel of id 0", -ENOENT, ops[3].result);
	expect_result("result 4", 0, ops[4].result);
	expect(!memcmp(&before, &ops[1], sizeof(before)), "entry 1 was written to");
	ops[1] = ops[2];
	ops[2] = ops[4];
	stop_all(s, ops, 3);

	begin("ops[].op: EINVAL for the entry where there is none such");
	for (size_t i = 0; i < ARRAY_SIZE(no_ops); i++) {
		ops[0] = op_add();
		ops[0].op = no_ops[i];
		before = ops[0];
		before.result = -EINVAL;
		remember(s);
		batch = batch_of(ops, 1);
		expect_result("the call", 0, call_fd(s->fd, HTW_BATCH, &batch));
		expect_result("its result", -EINVAL, ops[0].result);
		expect(!memcmp(&before, &ops[0], sizeof(before)), "the entry was written to");
		expect_same_state(s, "after it");
	}
	begin("ops[].reserved: EINVAL for the entry for each bit");
	for (unsigned int bit = 0; bit < 16; bit++) {
		ops[0] = op_add();
		ops[0].reserved = 1 << bit;
		remember(s);
		batch = batch_of(ops, 1);
		expect_result("the call", 0, call_fd(s->fd, HTW_BATCH, &batch));
		expect_result("its result", -EINVAL, ops[0].result);
		expect_same_state(s, "after it");
	}
	if (has(HTW_FEATURE_MOD))
		return;
	begin("ops[].op: EINVAL for HTW_OP_MOD and HTW_OP_QUERY without their feature");
	for (unsigned int i = 0; i < 2; i++) {
		ops[0] = (struct htw_op){ .op = i ? HTW_OP_QUERY : HTW_OP_MOD };
		batch = batch_of(ops, 1);
		expect_result("the call", 0, call_fd(s->fd, HTW_BATCH, &batch));
		expect_result("its result", -EINVAL, ops[0].result);
	}
}

/* An array of which only some entries can be used. */
static void check_batch_cut(struct subject *s)
{
	static const unsigned int usable[] = { 1, 63, 64, 65, 200 };
	struct htw_batch batch;
	struct htw_op *ops;

	begin("done: how far the array can be used");
	for (size_t i = 0; i < ARRAY_SIZE(usable); i++) {
		ops = before_hole(usable[i] * sizeof(*ops));
		for (unsigned int k = 0; k < usable[i]; k++)
			ops[k] = op_add();
		batch = batch_of(ops, i % 2 ? ~0U : usable[i] + 1);
		remember(s);
		expect_result("the call", 0, call_fd(s->fd, HTW_BATCH, &batch));
		expect_number("done", usable[i], batch.done);
		expect_number("timers", s->info.timers + usable[i], info_of(s).timers);
		for (unsigned int k = 0; k < usable[i]; k++)
			expect_result("a result", 0, ops[k].result);
		stop_all(s, ops, usable[i]);
	}

	begin("ops: EFAULT where none can be read, and nothing has happened");
	for (size_t i = 0; i < ARRAY_SIZE(bad_addresses); i++) {
		batch = batch_of((void *)bad_addresses[i], 1);
		remember(s);
		expect_result("the call", -EFAULT, call_fd(s->fd, HTW_BATCH, &batch));
		expect(batch.done == POISON32 || !batch.done, "done is %u", batch.done);
		expect_same_state(s, "after it");
	}
	begin("ops: EFAULT where none can be written, and done counts none");
	batch = batch_of(read_only(&(struct htw_op[]){ op_add() }, sizeof(*ops)), 1);
	expect_result("the call", -EFAULT, call_fd(s->fd, HTW_BATCH, &batch));
	expect(batch.done == POISON32 || !batch.done, "done is %u", batch.done);
}

static void check_batch(void)
{
	struct subject s = open_witnessed();
	struct htw_op ops[2] = { op_add(), op_add() };
	struct htw_batch batch, valid = batch_of(ops, 1);

	group("HTW_BATCH");
	begin("count: only so many");
	batch = valid;
	expect_result("the call", 0, call_fd(s.fd, HTW_BATCH, &batch));
	expect_number("done", 1, batch.done);
	batch.done = POISON32;
	expect(!memcmp(&batch, &valid, sizeof(batch)), "more than done was written");
	expect_result("its result", 0, ops[0].result);
	expect_number("the result behind it", (__s32)POISON32, ops[1].result);
	expect_number("timers", 2, info_of(&s).timers);
	stop_all(&s, ops, 1);
	begin("count: zero");
	batch = batch_of(NULL, 0);
	expect_result("the call", 0, call_fd(s.fd, HTW_BATCH, &batch));
	expect_number("done", 0, batch.done);

	check_batch_entries(&s);
	check_batch_cut(&s);
	close_subject(&s);

	s = open_witnessed();
	FAILS_WITH_BITS(&s, &call_batch, &valid, flags, 0);
	FAILS_WITH_BITS(&s, &call_batch, &valid, reserved0, 0);
	FAILS_WITH_BITS(&s, &call_batch, &valid, reserved, 0);
	fails_with_pointers(&s, &call_batch, &valid);
	begin("argument: EFAULT where it cannot be written; the entry tells what happened");
	ops[0] = op_add();
	expect_result("the call", -EFAULT,
		      call_fd(s.fd, HTW_BATCH, read_only(&valid, sizeof(valid))));
	expect_number("timers", 1 + !ops[0].result, info_of(&s).timers);
	close_subject(&s);
}

static struct htw_vector vector_of(__u16 op, __u32 flags, const __u64 *ids,
				   const __u64 *deadlines, const __u64 *cookies)
{
	return (struct htw_vector){
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

/* The vector is carried out, and says so where it should and nowhere else. */
static void vector_does(const struct subject *s, struct htw_vector v, __u32 done, __u32 failed)
{
	struct htw_vector before = v;

	expect_result("the call", 0, call_fd(s->fd, HTW_VECTOR, &v));
	expect_number("done", done, v.done);
	expect_number("failed", failed, v.failed);
	before.done = v.done;
	before.failed = v.failed;
	expect(!memcmp(&before, &v, sizeof(v)), "more than done and failed was written");
}

/* EINVAL, and of the argument, the ids and the timers none is changed. */
static void vector_fails(struct subject *s, struct htw_vector v, const char *what)
{
	const __u64 *ids = (const __u64 *)(uintptr_t)v.ids;
	__u64 before[2] = { ids ? ids[0] : 0, ids ? ids[1] : 0 };

	fails(s, &call_vector, &v, EINVAL, what);
	expect(!ids || !memcmp(before, ids, sizeof(before)), "%s: ids were written", what);
}

static void check_vector_ops(struct subject *s)
{
	const __u64 deadlines[] = { HOUR, 2 * HOUR, 0 }, cookies[] = { COOKIE, ~COOKIE };
	__u64 ids[3] = { POISON, POISON, POISON }, was[2];
	struct htw_vector v = vector_of(HTW_OP_ADD, 0, ids, deadlines, cookies);
	struct htw_event ev[3];

	begin("HTW_OP_ADD: as many as count, each with its own deadline and cookie");
	vector_does(s, v, 2, 0);
	expect_number("timers", s->witness ? 3 : 2, info_of(s).timers);
	expect_number("the id behind them", POISON, ids[2]);
	for (int i = 0; i < 2; i++) {
		struct htw_query query = query_of(s, ids[i]);

		expect_number("state", HTW_STATE_PENDING, query.state);
		expect_number("cookie", cookies[i], query.cookie);
		if (s->manual)
			expect_number("deadline", s->now + deadlines[i], query.deadline);
	}
	memcpy(was, ids, sizeof(was));
	begin("HTW_OP_MOD: deadlines, and cookies that are zero where there is no array");
	v = vector_of(HTW_OP_MOD, HTW_MOD_DEADLINE | HTW_MOD_COOKIE | HTW_F_ABS, ids,
		      (__u64[]){ ~0ULL, ~0ULL - 1 }, NULL);
	vector_does(s, v, 2, 0);
	expect(!memcmp(was, ids, sizeof(was)), "ids were written");
	for (int i = 0; i < 2; i++) {
		expect_number("deadline", ~0ULL - i, query_of(s, ids[i]).deadline);
		expect_number("cookie", 0, query_of(s, ids[i]).cookie);
	}
	begin("HTW_OP_MOD: interval, firings and slack of all of them");
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
	begin("failed: counts, the error stands in place of the id, and the others are done");
	stop(s, ids[0], 0);
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

	begin("HTW_OP_CANCEL: EALREADY, and HTW_CANCEL_DISCARD drops the event");
	for (__u32 flags = 0; flags <= HTW_CANCEL_DISCARD; flags++) {
		for (int i = 0; i < 2; i++)
			ids[i] = start_expired(s, (struct htw_add){ .deadline = 1 });
		v = vector_of(HTW_OP_CANCEL, flags, ids, NULL, NULL);
		vector_does(s, v, 2, 2);
		for (int i = 0; i < 2; i++)
			expect_number("an id", (__u64)-EALREADY, ids[i]);
		expect_result("read()", flags ? -EAGAIN : 2, get(s, ev, 3));
	}

	begin("count: zero, without arrays");
	v = vector_of(HTW_OP_ADD, 0, NULL, NULL, NULL);
	v.count = 0;
	vector_does(s, v, 0, 0);
	v.op = HTW_OP_CANCEL;
	vector_does(s, v, 0, 0);

	begin("ENOSPC at the limit for those that are too many");
	if (has(HTW_FEATURE_SETUP)) {
		struct subject few = open_fresh();
		struct htw_setup setup = { .flags = HTW_SETUP_LIMIT, .limit = 1 };

		expect_result("HTW_SETUP", 0, call_fd(few.fd, HTW_SETUP, &setup));
		v = vector_of(HTW_OP_ADD, 0, ids, deadlines, NULL);
		vector_does(&few, v, 2, 1);
		expect_number("timers", 1, info_of(&few).timers);
		expect_number("ids[1]", (__u64)-ENOSPC, ids[1]);
		expect_result("HTW_CANCEL", 0, stop(&few, ids[0], 0));
		close(few.fd);
	}
}

static void check_vector_cut(struct subject *s)
{
	static const char *const arrays[] = { "ids", "deadlines", "cookies" };
	static const unsigned int usable[] = { 1, 127, 128, 129, 300 };
	static const __u32 count = 400;
	static __u64 ids[400], deadlines[400];
	struct htw_vector v;

	for (__u32 i = 0; i < count; i++)
		deadlines[i] = HOUR;
	for (unsigned int which = 0; which < 3; which++) {
		begin("done: how far the array can be used: %s", arrays[which]);
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
					      stop(s, which ? ids[k] : array[k], 0));
			expect_same_state(s, "after it");
		}
	}

	begin("ids, deadlines, cookies: EFAULT where none can be used, and nothing has happened");
	for (size_t i = 0; i < 3 * ARRAY_SIZE(bad_addresses); i++) {
		if (!bad_addresses[i / 3])
			continue;
		v = vector_of(HTW_OP_ADD, 0, ids, deadlines, deadlines);
		(&v.ids)[i % 3] = bad_addresses[i / 3];
		remember(s);
		expect_result("the call", -EFAULT, call_fd(s->fd, HTW_VECTOR, &v));
		expect(v.done == POISON32 || !v.done, "done is %u", v.done);
		expect(v.failed == POISON32 || !v.failed, "failed is %u", v.failed);
		expect_same_state(s, "after it");
	}
	begin("HTW_OP_ADD: EFAULT where ids cannot be written, and no timer is left");
	v = vector_of(HTW_OP_ADD, 0, read_only(deadlines, 16), deadlines, NULL);
	remember(s);
	expect_result("the call", -EFAULT, call_fd(s->fd, HTW_VECTOR, &v));
	expect_same_state(s, "after it");
	begin("HTW_OP_MOD, HTW_OP_CANCEL: ids need not be writable where none fails");
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
	const struct htw_vector valid[] = {
		vector_of(HTW_OP_ADD, 0, ids, deadlines, NULL),
		vector_of(HTW_OP_MOD, HTW_MOD_DEADLINE, ids, deadlines, NULL),
		vector_of(HTW_OP_CANCEL, 0, ids, NULL, NULL),
	};
	static const __u16 no_ops[] = { 0, HTW_OP_QUERY, 5, 0xff, 0x101, 0x8001, 0xffff };
	const __u32 known[] = {
		HTW_F_ABS | HTW_F_KEEP, HTW_F_ABS | HTW_MOD_DEADLINE | HTW_MOD_INTERVAL |
		HTW_MOD_COOKIE | HTW_MOD_SLACK, HTW_CANCEL_DISCARD,
	};
	struct htw_vector v;

	begin("op: EINVAL where there is none such");
	for (size_t i = 0; i < ARRAY_SIZE(no_ops); i++) {
		v = valid[0];
		v.op = no_ops[i];
		vector_fails(s, v, "the call");
	}
	for (size_t i = 0; i < ARRAY_SIZE(valid); i++) {
		static const char *const names[] = { "HTW_OP_ADD", "HTW_OP_MOD", "HTW_OP_CANCEL" };

		begin("ids: EINVAL for none, %s", names[i]);
		v = valid[i];
		v.ids = 0;
		vector_fails(s, v, "the call");
		begin("deadlines: EINVAL for none that is needed and one that is not, %s",
		      names[i]);
		v = valid[i];
		v.deadlines ^= (uintptr_t)deadlines;
		vector_fails(s, v, "the call");
		FAILS_WITH_BITS(s, &call_vector, &valid[i], flags, known[i]);
		FAILS_WITH_BITS(s, &call_vector, &valid[i], reserved0, 0);
		FAILS_WITH_BITS(s, &call_vector, &valid[i], reserved, 0);
		FAILS_WITH_BITS(s, &call_vector, &valid[i], firings, 0);
		if (i)
			FAILS_WITH_BITS(s, &call_vector, &valid[i], interval, 0);
		if (i)
			FAILS_WITH_BITS(s, &call_vector, &valid[i], slack, 0);
		if (!i)
			continue;
		begin("cookies: EINVAL for some that are not asked for, %s", names[i]);
		v = valid[i];
		v.cookies = (uintptr_t)deadlines;
		vector_fails(s, v, "the call");
	}
	begin("interval: EINVAL for less than a tick");
	v = valid[0];
	v.interval = s->tick - 1;
	vector_fails(s, v, "HTW_OP_ADD");
	v = valid[1];
	v.flags |= HTW_MOD_INTERVAL;
	v.interval = s->tick - 1;
	vector_fails(s, v, "HTW_OP_MOD");
	begin("flags: EINVAL for HTW_OP_MOD that changes nothing");
	v = valid[1];
	v.deadlines = 0;
	for (v.flags = 0; v.flags <= HTW_F_ABS; v.flags++)
		vector_fails(s, v, "the call");

	fails_with_pointers(s, &call_vector, &valid[0]);
	begin("argument: EFAULT where it cannot be written; the array tells what happened");
	ids[0] = 0;
	v = vector_of(HTW_OP_ADD, 0, ids, (__u64[]){ HOUR }, NULL);
	v.count = 1;
	remember(s);
	expect_result("the call", -EFAULT,
		      call_fd(s->fd, HTW_VECTOR, read_only(&v, sizeof(v))));
	expect_number("timers", s->info.timers + !!ids[0], info_of(s).timers);
}

static void check_vector(void)
{
	struct subject s = open_witnessed();

	check_vector_ops(&s);
	check_vector_cut(&s);
	check_vector_fields(&s);
	close_subject(&s);
}

static void check_cancel_all(void)
{
	const struct call *call = &call_cancel_all;
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
		      "count: what was pending or kept, not what waits to be read");
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
		expect_result("the call", 0, call_fd(s.fd, call->cmd, &all));
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
			      call_fd(s.fd, call->cmd, &all));
		expect_number("count then", 0, all.count);
		close_subject(&s);
	}
	begin("on a fresh fd");
	s = open_fresh();
	all = valid;
	expect_result("the call", 0, call_fd(s.fd, call->cmd, &all));
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

static struct htw_list list_of(const void *entries, __u32 count)
{
	return (struct htw_list){
		.entries = (uintptr_t)entries, .count = count, .done = POISON32,
	};
}

/* Pages through @count timers, @room at a time. */
static void check_pages(struct subject *s, const struct call *call, const __u64 *ids,
			unsigned int count, unsigned int room)
{
	struct htw_query entries[room + 1], asked[count];
	unsigned int told[256] = { 0 }, calls = 0;
	struct htw_list list = list_of(entries, room), before;

	for (unsigned int i = 0; i < count; i++)
		asked[i] = query_of(s, ids[i]);
	do {
		memset(entries, 0xa5, sizeof(entries));
		before = list;
		before.done = list.done = POISON32;
		if (!expect_result("the call", 0, call_fd(s->fd, call->cmd, &list)))
			return;
		before.cursor = list.cursor;
		before.done = list.done;
		expect(!memcmp(&before, &list, sizeof(list)),
		       "more than cursor and done was written");
		if (!expect(list.done <= room, "done is %u", list.done))
			return;
		for (unsigned int n = 0; n < list.done; n++) {
			for (unsigned int i = 0; i < count; i++) {
				if (ids[i] != entries[n].id)
					continue;
				told[i]++;
				if (!s->manual)
					entries[n].remaining = 0;
				expect(!has(HTW_FEATURE_MOD) ||
				       !memcmp(&entries[n], &asked[i], sizeof(*asked)),
				       "an entry is not what HTW_QUERY says");
			}
		}
		expect(entries[list.done].id == POISON, "written behind the last entry");
	} while (list.done && calls++ < 10 * count);
	for (unsigned int i = 0; i < count; i++)
		expect_number("how often a timer was told", 1, told[i]);
	expect_number("done at the end", 0, list.done);
}

static void check_list(const struct call *call)
{
	const bool harvest = call->cmd == HTW_HARVEST;
	static const unsigned int rooms[] = { 1, 7, 63, 200 };
	struct htw_query entries[4], *last;
	struct subject s = open_subject();
	struct htw_list list, valid;
	struct htw_event ev[2];
	__u64 ids[150];

	for (size_t r = 0; r < ARRAY_SIZE(rooms); r++) {
		begin("all that is pending, each once, %u at a time", rooms[r]);
		for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
			ids[i] = started(&s, (struct htw_add){
				.deadline = HOUR + i * SEC, .cookie = i,
				.interval = i % 2 ? HOUR : 0 });
		check_pages(&s, call, ids, ARRAY_SIZE(ids), rooms[r]);
		expect_number("timers then", harvest ? 0 : ARRAY_SIZE(ids), info_of(&s).timers);
		for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
			expect_result("HTW_CANCEL", harvest ? -ENOENT : 0, stop(&s, ids[i], 0));
	}

	begin("only what is pending");
	if (has(HTW_FEATURE_KEEP)) {
		start_expired(&s, (struct htw_add){ .deadline = 1, .flags = HTW_F_KEEP });
		expect_result("read()", 1, get(&s, ev, 2));
	}
	start_expired(&s, (struct htw_add){ .deadline = 1 });
	remember(&s);
	list = list_of(entries, 4);
	expect_result("the call", 0, call_fd(s.fd, call->cmd, &list));
	expect_number("done", 0, list.done);
	expect_same_state(&s, "after it");
	close_subject(&s);

	begin("on a fresh fd: done is zero");
	s = open_fresh();
	list = list_of(entries, 4);
	expect_result("the call", 0, call_fd(s.fd, call->cmd, &list));
	expect_number("done", 0, list.done);
	close_subject(&s);

	s = open_witnessed();
	begin("cursor: where nothing can be, there is nothing, or EINVAL");
	for (unsigned int bit = 16; bit < 64; bit++) {
		int ret;

		list = list_of(entries, 4);
		list.cursor = 1ULL << bit;
		remember(&s);
		ret = call_fd(s.fd, call->cmd, &list);
		expect(ret == -EINVAL || (!ret && !list.done), "bit %u: came %s, done %u", bit,
		       result_name(ret), list.done);
		expect_same_state(&s, "after it");
	}

	begin("entries: EFAULT where none can be written, and nothing has happened");
	for (size_t i = 0; i < ARRAY_SIZE(bad_addresses); i++) {
		list = list_of((void *)bad_addresses[i], 1);
		fails(&s, call, &list, EFAULT, "an address that cannot be used");
	}
	list = list_of(read_only(&entries, sizeof(entries)), 1);
	fails(&s, call, &list, EFAULT, "memory that cannot be written");
	list = list_of((char *)before_hole(sizeof(*last)) + 1, 1);
	fails(&s, call, &list, EFAULT, "an entry whose last byte cannot be written");

	begin("entries: what cannot be told stays%s", harvest ? " armed" : "");
	ids[0] = start(&s, 0);
	ids[1] = start(&s, 0);
	last = before_hole(2 * sizeof(*last));
	list = list_of(last, 3);
	expect_result("the call", 0, call_fd(s.fd, call->cmd, &list));
	expect_number("done", 2, list.done);
	expect_number("timers", harvest ? 1 : 3, info_of(&s).timers);
	list.entries = (uintptr_t)entries;
	expect_result("the call from there", 0, call_fd(s.fd, call->cmd, &list));
	expect_number("done then", 1, list.done);
	expect(entries[0].id != last[0].id && entries[0].id != last[1].id, "told twice");
	close_subject(&s);

	s = open_witnessed();
	valid = list_of(entries, 4);
	FAILS_WITH_BITS(&s, call, &valid, flags, 0);
	FAILS_WITH_BITS(&s, call, &valid, reserved0, 0);
	FAILS_WITH_BITS(&s, call, &valid, reserved, 0);
	fails_with_pointers(&s, call, &valid);
	fails_read_only(&s, call, &valid);
	close_subject(&s);
}

static void check_advance(void)
{
	const struct call *call = &call_advance;
	struct htw_advance advance, valid;
	struct htw_event ev[4];
	struct subject s;
	__u64 id[3];

	if (!supported(call->name, call->cmd, HTW_FEATURE_MANUAL))
		return;
	s = open_witnessed();
	begin("ns: by how much");
	for (unsigned int i = 0; i < 3; i++)
		id[i] = started(&s, (struct htw_add){
			.deadline = (3 - i) * SEC, .cookie = COOKIE });
	valid = (struct htw_advance){ .ns = 2 * SEC, .expired = POISON };
	advance = valid;
	expect_result("the call", 0, call_fd(s.fd, call->cmd, &advance));
	s.now += 2 * SEC;
	expect_number("expired", 2, advance.expired);
	advance.expired = POISON;
	expect(!memcmp(&advance, &valid, sizeof(valid)), "more than expired was written");
	if (expect_result("read()", 2, get(&s, ev, 4))) {
		expect_event(&s, &ev[0], id[2], COOKIE, 0);
		expect_event(&s, &ev[1], id[1], COOKIE, 0);
	}

	begin("ns: to which time, with HTW_F_ABS");
	advance = (struct htw_advance){ .ns = s.now + SEC, .expired = POISON, .flags = HTW_F_ABS };
	expect_result("the call", 0, call_fd(s.fd, call->cmd, &advance));
	s.now += SEC;
	expect_number("expired", 1, advance.expired);
	expect_result("read()", 1, get(&s, ev, 4));
	advance.expired = POISON;
	expect_result("to where it is", 0, call_fd(s.fd, call->cmd, &advance));
	expect_number("expired then", 0, advance.expired);
	begin("ns: zero");
	advance = (struct htw_advance){ .expired = POISON };
	expect_result("the call", 0, call_fd(s.fd, call->cmd, &advance));
	expect_number("expired", 0, advance.expired);
	begin("ns: EINVAL for a time that has been");
	advance = (struct htw_advance){ .ns = s.now - 1, .expired = POISON, .flags = HTW_F_ABS };
	fails(&s, call, &advance, EINVAL, "1 ns before now");
	begin("ns: EINVAL for a time that never comes");
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

	begin("EINVAL on a clock that moves by itself");
	s = open_fresh();
	s.witness = start(&s, 0);
	advance = valid;
	fails(&s, call, &advance, EINVAL, "the call");
	close_subject(&s);
}

static void check_flush(void)
{
	struct subject s;

	if (!supported("HTW_FLUSH", HTW_FLUSH, HTW_FEATURE_RING))
		return;
	begin("it is there");
	s = open_fresh();
	expect(call_fd(s.fd, HTW_FLUSH, NULL) != -ENOTTY, "came ENOTTY");
	close_subject(&s);
}

static void check_read(void)
{
	static const size_t small[] = { 0, 1, 8, sizeof(struct htw_event) - 1 };
	struct subject s = open_witnessed();
	struct htw_event ev[4], *p;
	__u64 id[3];
	char what[32];

	group("read, readv");
	begin("EAGAIN where nothing waits");
	expect_result("read()", -EAGAIN, get(&s, ev, 4));

	begin("every field of an event is written, and nothing behind it");
	id[0] = start_expired(&s, (struct htw_add){ .deadline = 1, .cookie = COOKIE });
	if (expect_result("read()", 1, get(&s, ev, 4))) {
		expect_event(&s, &ev[0], id[0], COOKIE, 0);
		expect_number("missed", 0, ev[0].missed);
		if (s.manual) {
			expect_number("deadline", s.now - s.tick + 1, ev[0].deadline);
			expect_number("fired", s.now, ev[0].fired);
		}
		expect_number("behind it", POISON, ev[1].id);
	}

	begin("EINVAL for a buffer too small for one");
	for (unsigned int waiting = 0; waiting < 2; waiting++) {
		if (waiting)
			for (unsigned int i = 0; i < 3; i++)
				id[i] = start_expired(&s, (struct htw_add){
					.deadline = 1, .cookie = COOKIE });
		for (size_t i = 0; i < ARRAY_SIZE(small); i++) {
			snprintf(what, sizeof(what), "%zu bytes", small[i]);
			remember(&s);
			memset(ev, 0xa5, sizeof(ev));
			expect_result(what, -EINVAL, syscall(SYS_read, s.fd, ev, small[i]) < 0 ?
				      -errno : 0);
			expect_number("what was written", POISON, ev[0].id);
			expect_same_state(&s, what);
		}
	}

	begin("EFAULT, and the event stays");
	for (size_t i = 0; i < ARRAY_SIZE(bad_addresses); i++) {
		remember(&s);
		expect_result("read()", -EFAULT, syscall(SYS_read, s.fd, bad_addresses[i],
							 sizeof(*ev)) < 0 ? -errno : 0);
		expect_same_state(&s, "after it");
	}
	expect_result("read() to memory that cannot be written", -EFAULT,
		      syscall(SYS_read, s.fd, read_only(ev, sizeof(*ev)), sizeof(*ev)) < 0 ?
		      -errno : 0);
	p = before_hole(sizeof(*p));
	expect_result("read() one byte too far", -EFAULT,
		      syscall(SYS_read, s.fd, (char *)p + 1, sizeof(*p)) < 0 ? -errno : 0);
	expect_same_state(&s, "after it");

	begin("as many whole events as fit, in order");
	memset(ev, 0xa5, sizeof(ev));
	expect_number("read() of 95 bytes", sizeof(*ev),
		      syscall(SYS_read, s.fd, ev, 2 * sizeof(*ev) - 1));
	expect_event(&s, &ev[0], id[0], COOKIE, 0);
	expect_number("behind it", POISON, ev[1].id);
	expect_number("read() of two, where the second cannot be written", sizeof(*p),
		      syscall(SYS_read, s.fd, p, 2 * sizeof(*p)));
	expect_event(&s, p, id[1], COOKIE, 0);
	expect_result("read() of four", 1, get(&s, ev, 4));
	expect_event(&s, &ev[0], id[2], COOKIE, 0);

	begin("readv, with an event across its buffers");
	for (unsigned int i = 0; i < 2; i++)
		id[i] = start_expired(&s, (struct htw_add){ .deadline = 1, .cookie = COOKIE });
	memset(ev, 0xa5, sizeof(ev));
	{
		struct iovec iov[] = {
			{ ev, 7 }, { NULL, 0 }, { (char *)ev + 7, 48 }, { (char *)ev + 55, 80 },
		};

		expect_number("readv()", 2 * sizeof(*ev), readv(s.fd, iov, ARRAY_SIZE(iov)));
		expect_event(&s, &ev[0], id[0], COOKIE, 0);
		expect_event(&s, &ev[1], id[1], COOKIE, 0);
		expect_number("behind them", POISON, ev[2].id);
		expect_result("readv() again", -EAGAIN, readv(s.fd, iov, ARRAY_SIZE(iov)) < 0 ?
			      -errno : 0);
		expect_result("readv() of 47 bytes", -EINVAL,
			      readv(s.fd, (struct iovec[]){ { ev, 40 }, { ev, 7 } }, 2) < 0 ?
			      -errno : 0);
	}

	begin("a periodic event: HTW_EVENT_MORE, missed");
	id[0] = start_expired(&s, (struct htw_add){
		.deadline = 1, .cookie = COOKIE, .interval = 10 * s.tick });
	if (s.manual)
		pass(&s, 70 * s.tick);
	if (expect_result("read()", 1, get(&s, ev, 4))) {
		expect_event(&s, &ev[0], id[0], COOKIE, HTW_EVENT_MORE);
		if (s.manual)
			expect_number("missed", 7, ev[0].missed);
	}
	stop(&s, id[0], HTW_CANCEL_DISCARD);
	close_subject(&s);
}

static void check_poll(void)
{
	struct subject s = open_witnessed();
	struct htw_event ev[2];

	group("poll");
	begin("not readable, and never writable, while nothing waits");
	expect_number("poll()", 0, poll_fd(&s, 0));
	begin("readable until all is read");
	start_expired(&s, (struct htw_add){ .deadline = 1 });
	start_expired(&s, (struct htw_add){ .deadline = 1 });
	expect_number("poll() with two", POLLIN, poll_fd(&s, 0));
	expect_result("read()", 1, get(&s, ev, 1));
	expect_number("poll() with one", POLLIN, poll_fd(&s, 0));
	expect_result("read()", 1, get(&s, ev, 1));
	expect_number("poll() with none", 0, poll_fd(&s, 0));
	begin("not readable when the expiration was dropped");
	stop(&s, start_expired(&s, (struct htw_add){ .deadline = 1 }), HTW_CANCEL_DISCARD);
	expect_number("poll()", 0, poll_fd(&s, 0));
	close_subject(&s);
}

/* A negative errno where it cannot be mapped. */
static long map(const struct subject *s, size_t size, int prot, int flags, off_t offset)
{
	void *p = mmap(NULL, size, prot, flags, s->fd, offset);

	return p == MAP_FAILED ? -errno : (long)p;
}

static void map_fails(struct subject *s, size_t size, int prot, int flags, off_t offset,
		      int error, const char *what)
{
	remember(s);
	expect_result(what, -error, map(s, size, prot, flags, offset));
	expect_same_state(s, what);
}

static void check_ring(void)
{
	const struct htw_setup setup = {
		.flags = HTW_SETUP_RING | HTW_SETUP_CLOCK, .ring_entries = 128,
		.clock = HTW_CLOCK_MANUAL,
	};
	const size_t size = (sizeof(struct htw_ring) + 128 * sizeof(struct htw_event) +
			     page - 1) / page * page;
	struct subject s = { .fd = open(device, O_RDWR | O_CLOEXEC | O_NONBLOCK) };
	const int prot = PROT_READ | PROT_WRITE;
	const struct htw_event *events;
	struct htw_ring *ring;
	struct htw_event ev;
	__u64 id[129];
	long p;

	group("the ring");
	if (!has(HTW_FEATURE_RING | HTW_FEATURE_MANUAL)) {
		note("not announced");
		close_subject(&s);
		return;
	}
	begin("ENXIO without one");
	map_fails(&s, page, prot, MAP_SHARED, HTW_OFF_RING, ENXIO, "mmap()");
	expect_result("HTW_FLUSH", -ENXIO, call_fd(s.fd, HTW_FLUSH, NULL));
	expect_result("HTW_SETUP", 0, call_fd(s.fd, HTW_SETUP, (void *)&setup));
	s.manual = true;
	s.tick = info_of(&s).tick_ns;

	begin("mmap: EINVAL for another length, place or way");
	map_fails(&s, size - page, prot, MAP_SHARED, HTW_OFF_RING, EINVAL, "a page less");
	map_fails(&s, size + page, prot, MAP_SHARED, HTW_OFF_RING, EINVAL, "a page more");
	map_fails(&s, size - page, prot, MAP_SHARED, HTW_OFF_RING + page, EINVAL, "behind it");
	map_fails(&s, size, prot, MAP_PRIVATE, HTW_OFF_RING, EINVAL, "MAP_PRIVATE");
	begin("HTW_FLUSH: ENXIO while it is not mapped");
	expect_result("HTW_FLUSH", -ENXIO, call_fd(s.fd, HTW_FLUSH, NULL));

	begin("mmap: to read only");
	p = map(&s, size, PROT_READ, MAP_SHARED, HTW_OFF_RING);
	if (expect(p > 0 || p < -4095, "it cannot be mapped"))
		munmap((void *)p, size);
	begin("mmap: to read and write");
	p = map(&s, size, prot, MAP_SHARED, HTW_OFF_RING);
	if (!expect(p > 0 || p < -4095, "it cannot be mapped")) {
		close_subject(&s);
		return;
	}
	ring = (struct htw_ring *)p;
	events = (struct htw_event *)(ring + 1);
	expect_number("entries", 128, ring->entries);
	expect_number("tail, head, flags", 0, ring->tail | ring->head | ring->flags);
	begin("read(): EBUSY while it is mapped");
	expect_result("read()", -EBUSY, get(&s, &ev, 1));

	begin("an expiration is pushed, and has been read then");
	for (int i = 0; i < 129; i++)
		id[i] = start(&s, 0);
	pass(&s, HOUR);
	expect_number("tail", 128, ring->tail);
	expect_number("id", id[0], events[0].id);
	expect_number("cookie", COOKIE, events[0].cookie);
	expect_number("deadline", HOUR, events[0].deadline);
	expect_number("missed, flags, reserved", 0,
		      events[0].missed | events[0].flags | events[0].reserved);
	expect_result("HTW_CANCEL", -ENOENT, stop(&s, id[0], 0));
	expect_number("poll()", POLLIN, poll_fd(&s, 0));
	begin("what does not fit waits, and HTW_RING_OVERFLOW says so");
	expect_number("flags", HTW_RING_OVERFLOW, ring->flags);
	expect_number("expired of HTW_INFO", 1, info_of(&s).expired);
	expect_number("timers of HTW_INFO", 1, info_of(&s).timers);
	expect_result("HTW_FLUSH", 0, call_fd(s.fd, HTW_FLUSH, NULL));
	begin("HTW_FLUSH: moves what there is room for");
	__atomic_store_n(&ring->head, 3, __ATOMIC_RELEASE);
	expect_result("HTW_FLUSH", 1, call_fd(s.fd, HTW_FLUSH, NULL));
	expect_number("tail", 129, ring->tail);
	expect_number("id", id[128], events[0].id);
	expect_number("flags", 0, ring->flags);
	expect_result("HTW_FLUSH", 0, call_fd(s.fd, HTW_FLUSH, NULL));
	begin("not readable once all is used");
	__atomic_store_n(&ring->head, 129, __ATOMIC_RELEASE);
	expect_number("poll()", 0, poll_fd(&s, 0));
	expect_number("timers of HTW_INFO", 0, info_of(&s).timers);
	begin("read() again once it is unmapped");
	munmap(ring, size);
	expect_result("read()", -EAGAIN, get(&s, &ev, 1));
	close_subject(&s);
}

static void check_table(void)
{
	const __u64 chunks = (announced.limit + 62) / 63;
	const size_t most = (chunks * 512 + page - 1) / page * page;
	const int prot = PROT_READ | PROT_WRITE;
	struct subject s = open_subject();
	struct htw_query query;
	struct htw_event ev[2];
	volatile __u64 *word;
	__u64 id[3];
	long p;

	group("the table");
	if (!has(HTW_FEATURE_TABLE | HTW_FEATURE_MANUAL | HTW_FEATURE_MOD)) {
		note("not announced");
		close_subject(&s);
		return;
	}
	begin("mmap: EINVAL for more than the limit needs, another place or way");
	map_fails(&s, most + page, prot, MAP_SHARED, HTW_OFF_TABLE, EINVAL, "a page more");
	map_fails(&s, page, prot, MAP_SHARED, HTW_OFF_TABLE + page, EINVAL, "behind it");
	map_fails(&s, page, prot, MAP_PRIVATE, HTW_OFF_TABLE, EINVAL, "MAP_PRIVATE");
	begin("mmap: all that the limit needs");
	p = map(&s, most, prot, MAP_SHARED, HTW_OFF_TABLE);
	if (expect(p > 0 || p < -4095, "it cannot be mapped"))
		munmap((void *)p, most);
	begin("mmap: to read only");
	p = map(&s, page, PROT_READ, MAP_SHARED, HTW_OFF_TABLE);
	if (expect(p > 0 || p < -4095, "it cannot be mapped"))
		munmap((void *)p, page);
	begin("mmap: some of it");
	p = map(&s, page, prot, MAP_SHARED, HTW_OFF_TABLE);
	if (!expect(p > 0 || p < -4095, "it cannot be mapped")) {
		close_subject(&s);
		return;
	}
	word = (volatile __u64 *)p;

	begin("HTW_ADD writes zero, as armed");
	for (int i = 0; i < 3; i++) {
		id[i] = start(&s, 0);
		expect(id[i] && HTW_ID_SLOT(id[i]) < page / 8, "ids begin with low slots");
		expect_number("the word", 0, word[HTW_ID_SLOT(id[i])]);
	}
	begin("a later deadline, and disarmed: HTW_QUERY tells it");
	query = query_of(&s, id[0]);
	word[HTW_ID_SLOT(id[0])] = query.deadline + HOUR;
	word[HTW_ID_SLOT(id[1])] = HTW_DISARMED;
	word[HTW_ID_SLOT(id[2])] = query.deadline - 1;
	expect_number("deadline", query.deadline + HOUR, query_of(&s, id[0]).deadline);
	expect_number("remaining", 2 * HOUR, query_of(&s, id[0]).remaining);
	expect_number("state", HTW_STATE_DISARMED, query_of(&s, id[1]).state);
	expect_number("remaining", 0, query_of(&s, id[1]).remaining);
	expect_number("deadline of one with an earlier word", query.deadline,
		      query_of(&s, id[2]).deadline);
	begin("only what has no later word expires");
	pass(&s, HOUR);
	if (expect_result("read()", 1, get(&s, ev, 2))) {
		expect_number("id", id[2], ev[0].id);
		expect_number("deadline", query.deadline, ev[0].deadline);
		expect_number("flags", HTW_EVENT_MORE, ev[0].flags);
	}
	begin("at the later deadline, once");
	pass(&s, HOUR);
	if (expect_result("read()", 1, get(&s, ev, 2))) {
		expect_number("id", id[0], ev[0].id);
		expect_number("deadline", query.deadline + HOUR, ev[0].deadline);
	}
	word[HTW_ID_SLOT(id[0])] = query.deadline + 2 * HOUR;
	pass(&s, HOUR);
	expect_result("read()", -EAGAIN, get(&s, ev, 2));
	begin("HTW_MOD arms again, and writes zero");
	for (int i = 0; i < 2; i++) {
		struct htw_mod mod = {
			.id = id[i], .deadline = HOUR, .flags = HTW_MOD_DEADLINE,
		};

		expect_number("state", HTW_STATE_DISARMED, query_of(&s, id[i]).state);
		expect_result("HTW_MOD", 0, call_fd(s.fd, HTW_MOD, &mod));
		expect_number("the word", 0, word[HTW_ID_SLOT(id[i])]);
	}
	pass(&s, HOUR);
	expect_result("read()", 2, get(&s, ev, 2));
	begin("the id lives until HTW_CANCEL");
	for (int i = 0; i < 3; i++) {
		expect_result("HTW_CANCEL", 0, stop(&s, id[i], 0));
		expect_result("HTW_CANCEL again", -ENOENT, stop(&s, id[i], 0));
	}
	expect_number("timers of HTW_INFO", 0, info_of(&s).timers);
	close_subject(&s);
}

static void check_mmap(void)
{
	static const struct {
		const char *name;
		__u64 feature;
		off_t offset;
	} maps[] = {
		{ "the ring", HTW_FEATURE_RING, HTW_OFF_RING },
		{ "the table", HTW_FEATURE_TABLE, HTW_OFF_TABLE },
		{ "anything else", ~0ULL, 1LL << 40 },
	};
	struct subject s = open_witnessed();

	group("mmap");
	for (size_t i = 0; i < ARRAY_SIZE(maps); i++) {
		if (has(maps[i].feature))
			continue;
		begin("%s cannot be mapped where there is none", maps[i].name);
		remember(&s);
		expect(mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, s.fd,
			    maps[i].offset) == MAP_FAILED, "it was mapped");
		expect_same_state(&s, "after it");
	}
	close_subject(&s);
}

static void usage(FILE *to)
{
	fprintf(to, "Usage: htw-compliance [OPTION]...\n"
		"Checks a device against the promises of linux/htw.h.\n\n"
		"  -d, --device PATH   instead of /dev/htw\n"
		"  -q, --quiet         print only what fails, and the last line\n"
		"  -h, --help          print this\n\n"
		"Exit status: 0 where all checks passed, 1 where one failed or the device\n"
		"cannot be opened, 2 for wrong usage.\n");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "device", required_argument, NULL, 'd' },
		{ "quiet", no_argument, NULL, 'q' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 }
	};
	int c;

	while ((c = getopt_long(argc, argv, "d:qh", options, NULL)) != -1) {
		switch (c) {
		case 'd':
			device = optarg;
			break;
		case 'q':
			checks.quiet = true;
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (optind < argc) {
		usage(stderr);
		return 2;
	}

	page = sysconf(_SC_PAGESIZE);
	c = open(device, O_RDWR | O_CLOEXEC);
	if (c < 0 || ioctl(c, HTW_INFO, &announced)) {
		fprintf(stderr, "%s: %s\n", device, strerror(errno));
		return 1;
	}
	close(c);

	check_commands();
	check_info();
	check_setup();
	for (size_t i = 0; i < ARRAY_SIZE(calls_add); i++)
		check_add(&calls_add[i]);
	for (size_t i = 0; i < ARRAY_SIZE(calls_cancel); i++)
		check_cancel(&calls_cancel[i]);
	if (supported("HTW_MOD", HTW_MOD, HTW_FEATURE_MOD)) {
		for (size_t i = 0; i < ARRAY_SIZE(calls_mod); i++)
			check_mod(&calls_mod[i]);
	}
	if (supported("HTW_QUERY", HTW_QUERY, HTW_FEATURE_MOD)) {
		for (size_t i = 0; i < ARRAY_SIZE(calls_query); i++)
			check_query(&calls_query[i]);
	}
	check_batch();
	if (supported("HTW_VECTOR", HTW_VECTOR, HTW_FEATURE_VECTOR))
		check_vector();
	check_cancel_all();
	if (supported("HTW_LIST", HTW_LIST, HTW_FEATURE_ALL))
		check_list(&call_list);
	if (supported("HTW_HARVEST", HTW_HARVEST, HTW_FEATURE_ALL))
		check_list(&call_harvest);
	check_advance();
	check_flush();
	check_read();
	check_poll();
	check_mmap();
	check_ring();
	check_table();
	end();

	printf("%u passed, %u failed\n", checks.passed, checks.failed);
	return checks.failed ? 1 : 0;
}
