// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory: charged to the cgroup that uses it, given back by close and by death
 *
 * Measured as the charge of a cgroup in which a child uses the device.
 *
 * Slow: 40 s.
 */
#include "htw-memory.h"

#include <signal.h>
#include <sys/resource.h>

/* Most bytes for a pending timer, everything included. */
#define NODE_MOST	72

#define COUNT		300000
#define IN_USE		20000
/* Just enough timers that pages are allocated ahead, and how often that is repeated. */
#define SOME			(64 * 63 + 1)
#define CLOSES			100

/* A user's limit, and what somebody tries to hold with it: timers of a descriptor, descriptors. */
#define USER_LIMIT		200000ULL
#define HOLD_TIMERS		(100 * 1008)
#define HOLDERS_MOST		8000
/* Most bytes of a user: for a timer of its limit, and for a descriptor. */
#define USER_MOST		74
#define DESCRIPTOR_MOST		2048
#define LIMIT_FILE		HTW_MODULE "max_user_timers"

/* A child in its own cgroup, which carries out commands of one byte. */
struct child {
	char group[160];
	char current[200];
	__u64 before;
	pid_t pid;
	int to, from;
};

static bool add(int fd, __u64 deadline, __u64 count)
{
	return htw_start_many(fd, deadline, 0, count, NULL) == count;
}

/* Pending on both CPUs; some expired and unread. */
static bool add_all_kinds(int fd)
{
	return !htw_pin(0) && add(fd, ~0ULL, COUNT / 2) &&
	       !htw_pin(htw_other_cpu()) && add(fd, 0, COUNT / 4) &&
	       add(fd, now_ns() + 2 * SEC, COUNT / 4);
}

static bool use_once(int fd)
{
	static struct htw_event ev[IN_USE / 2];
	static __u64 ids[IN_USE / 2];

	return htw_start_many(fd, ~0ULL, 0, IN_USE / 2, ids) == IN_USE / 2 &&
	       add(fd, 0, IN_USE / 2) &&
	       htw_stop_many(fd, ids, IN_USE / 2) == IN_USE / 2 &&
	       htw_collect(fd, ev, IN_USE / 2) == IN_USE / 2 && !htw_timers(fd);
}

/**
 * struct shape - how to hold as much memory as the user's limit allows
 * @command: the child's command
 * @holders: descriptors
 * @timers: of each, but not beyond the limit
 * @stay: of so many one stays; zero if none does
 * @slots: of the wheel's only level; zero for the usual levels
 */
struct shape {
	char command;
	unsigned int holders;
	__u64 timers;
	unsigned int stay;
	__u32 slots;
};

static const struct shape shapes[] = {
	/* One timer in each page. */
	{ .command = 'p', .holders = 10, .timers = HOLD_TIMERS, .stay = 63 },
	/* None in pages that are too few to be given back. */
	{ .command = 'd', .holders = 200, .timers = 15 + 16 * 63 },
	/* One timer. */
	{ .command = '1', .holders = HOLDERS_MOST, .timers = 1, .stay = 1 },
	/* A wheel of two slots for just as many timers as it takes to have it. */
	{ .command = 'w', .holders = 1000, .timers = 64, .stay = 1, .slots = 2 },
};

static bool hold(const struct shape *shape)
{
	const struct htw_setup_args setup = { .levels = 1, .slots = { shape->slots } };
	static __u64 ids[HOLD_TIMERS];

	for (unsigned int i = 0; i < shape->holders; i++) {
		const int fd = htw_open(O_NONBLOCK);
		__u64 count, stop = 0;

		if (fd < 0 || (shape->slots && htw_set_up(fd, setup)))
			return false;
		count = htw_start_many(fd, ~0ULL, 0, shape->timers, ids);
		for (__u64 j = 0; j < count; j++) {
			if (!shape->stay || j % shape->stay)
				ids[stop++] = ids[j];
		}
		if (htw_stop_many(fd, ids, stop) != stop)
			return false;
	}
	return true;
}

/* Let this process and its children have so many descriptors. */
static bool allow_descriptors(rlim_t count)
{
	const struct rlimit limit = { .rlim_cur = count, .rlim_max = count };

	return !setrlimit(RLIMIT_NOFILE, &limit);
}

static void serve(int from, int to)
{
	int fd = -1, i;
	char what;

	while (read(from, &what, 1) == 1) {
		bool ok = true;

		switch (what) {
		case 'o':
			fd = htw_open(O_NONBLOCK);
			ok = fd >= 0;
			break;
		case 'a':
			ok = add(fd, ~0ULL, COUNT);
			break;
		case 'k':
			ok = add_all_kinds(fd);
			break;
		case 'u':
			for (i = 0; i < 20 && ok; i++)
				ok = use_once(fd);
			break;
		case 'm':
			for (i = 0; i < CLOSES && ok; i++) {
				const int more = htw_open(O_NONBLOCK);

				ok = more >= 0 && add(more, ~0ULL, SOME) && !close(more);
			}
			break;
		case 'n':
			ok = as_nobody();
			break;
		case 'c':
			ok = !close(fd);
			break;
		default:
			for (i = 0; shapes[i].command != what; i++)
				;
			ok = hold(&shapes[i]);
		}
		what = ok ? 'y' : 'n';
		if (write(to, &what, 1) != 1)
			break;
	}
	_exit(0);
}

static bool ask(struct child *c, char what)
{
	char answer = 0;

	return write(c->to, &what, 1) == 1 && read(c->from, &answer, 1) == 1 &&
	       answer == 'y';
}

static __u64 charged(const struct child *c)
{
	return htw_file_number(c->current);
}

/* The child joins its cgroup before it opens the device. */
static bool start_child(struct child *c, const char *root)
{
	int there[2], back[2];
	char file[200];

	snprintf(c->group, sizeof(c->group), "%s/htw-memory-test", root);
	snprintf(c->current, sizeof(c->current), "%s/memory.current", c->group);
	snprintf(file, sizeof(file), "%s/cgroup.procs", c->group);
	rmdir(c->group);
	if (mkdir(c->group, 0755) || pipe(there) || pipe(back))
		return false;
	c->pid = fork();
	if (c->pid < 0)
		return false;
	if (!c->pid) {
		close(there[1]);
		close(back[0]);
		if (htw_write_file(file, "0"))
			_exit(1);
		serve(there[0], back[1]);
	}
	close(there[0]);
	close(back[1]);
	c->to = there[1];
	c->from = back[0];
	/* Run each command once, so that the child's own memory is charged already. */
	if (!ask(c, 'o') || !ask(c, 'u'))
		return false;
	/* What is kept for later must not count. */
	if (!ask(c, 'c') || !ask(c, 'o'))
		return false;
	c->before = charged(c);
	return c->before != ~0ULL;
}

static bool end_child(struct child *c)
{
	close(c->to);
	close(c->from);
	waitpid(c->pid, NULL, 0);
	return htw_eventually(!rmdir(c->group));
}

/* Start a child in a cgroup of its own; skip the test if memory is not accounted. */
#define START_CHILD(c)								\
	do {									\
		char root_[100];						\
										\
		if (!memory_cgroup(root_, sizeof(root_)))			\
			SKIP(return, "no cgroup2 memory controller");		\
		ASSERT_TRUE(start_child(c, root_));				\
	} while (0)

HTW_TEST(charged_to_the_cgroup)
{
	struct child c;
	__u64 held;

	ASSERT_LE(COUNT, self->limit);
	START_CHILD(&c);
	ASSERT_TRUE(ask(&c, 'a'));
	held = charged(&c) - c.before;
	TH_LOG("%llu bytes a timer", held / COUNT);
	EXPECT_LE(COUNT * NODE, held + SLACK);
	EXPECT_GE(COUNT * NODE_MOST + SLACK, held);
	EXPECT_TRUE(end_child(&c));
}

HTW_TEST(given_back_by_close)
{
	struct child c;
	int round;

	ASSERT_LE(COUNT, self->limit);
	START_CHILD(&c);
	for (round = 0; round < 4; round++) {
		ASSERT_TRUE(ask(&c, 'k'));
		EXPECT_LE(c.before + COUNT * NODE, charged(&c) + SLACK);
		ASSERT_TRUE(ask(&c, 'c'));
		ASSERT_TRUE(htw_eventually(charged(&c) <= c.before + SLACK)) {
			TH_LOG("%llu KiB not given back", (charged(&c) - c.before) >> 10);
		}
		ASSERT_TRUE(ask(&c, 'o'));
	}
	EXPECT_TRUE(end_child(&c));
}

HTW_TEST(given_back_by_kill)
{
	struct child c;
	int status;

	ASSERT_LE(COUNT, self->limit);
	START_CHILD(&c);
	ASSERT_TRUE(ask(&c, 'k'));
	EXPECT_LE(c.before + COUNT * NODE, charged(&c) + SLACK);
	ASSERT_EQ(0, kill(c.pid, SIGKILL));
	ASSERT_EQ(c.pid, waitpid(c.pid, &status, 0));
	ASSERT_TRUE(WIFSIGNALED(status));
	EXPECT_TRUE(htw_eventually(charged(&c) <= SLACK)) {
		TH_LOG("%llu KiB not given back", charged(&c) >> 10);
	}
	EXPECT_TRUE(htw_eventually(!rmdir(c.group)));
}

/* Pages that were allocated ahead and never used are freed, too. */
HTW_TEST(many_closes_leave_nothing)
{
	struct child c;

	START_CHILD(&c);
	ASSERT_TRUE(ask(&c, 'm'));
	ASSERT_TRUE(htw_eventually(charged(&c) <= c.before + SLACK)) {
		TH_LOG("%llu KiB not given back", (charged(&c) - c.before) >> 10);
	}
	EXPECT_TRUE(end_child(&c));
}

/* Memory depends on how many timers exist at once, not on how many ever existed. */
HTW_TEST(does_not_grow_with_use)
{
	struct child c;
	__u64 after;

	ASSERT_LE(IN_USE, self->limit);
	START_CHILD(&c);
	ASSERT_TRUE(ask(&c, 'u'));
	after = charged(&c);
	ASSERT_TRUE(ask(&c, 'u'));
	/*
	 * If each left its memory behind, 20 rounds of 20,000 timers would hold
	 * 24 MiB.
	 */
	EXPECT_GE(after + SLACK, charged(&c));
	EXPECT_TRUE(end_child(&c));
}

/* What a user holds is bounded by its limit, however few timers it has. */
HTW_TEST(bounded_by_the_users_limit)
{
	char root[100], old[32], text[32];
	unsigned int i;

	if (!memory_cgroup(root, sizeof(root)))
		SKIP(return, "no cgroup2 memory controller");
	ASSERT_TRUE(open_to_all());
	ASSERT_TRUE(allow_descriptors(HOLDERS_MOST + 100));
	ASSERT_EQ(0, htw_read_file(LIMIT_FILE, old, sizeof(old)));
	snprintf(text, sizeof(text), "%llu", USER_LIMIT);
	ASSERT_EQ(0, htw_write_file(LIMIT_FILE, text));
	for (i = 0; i < ARRAY_SIZE(shapes); i++) {
		const __u64 most = USER_LIMIT * USER_MOST + shapes[i].holders * DESCRIPTOR_MOST;
		struct child c;
		__u64 held;

		ASSERT_TRUE(start_child(&c, root));
		EXPECT_TRUE(ask(&c, 'n'));
		EXPECT_TRUE(ask(&c, shapes[i].command));
		held = charged(&c) - c.before;
		TH_LOG("%c: %llu KiB, %llu bytes for a timer of the limit", shapes[i].command,
		       held >> 10, held / USER_LIMIT);
		EXPECT_GE(most + SLACK, held);
		/* It is possible to hold most of it. */
		EXPECT_LE(USER_LIMIT * NODE / 2, held);
		EXPECT_TRUE(end_child(&c));
	}
	ASSERT_EQ(0, htw_write_file(LIMIT_FILE, old));
}

TEST_HARNESS_MAIN
