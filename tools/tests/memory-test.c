// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory: charged to the cgroup that uses it, given back by close and by death
 *
 * Measured as the charge of a cgroup in which a child uses the device.
 *
 * Slow: 40 s.
 */
#include "htw-memory.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

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
#define HOLDERS			200
/* Most bytes of a user: for a timer of its limit, and for a descriptor. */
#define USER_MOST		74
#define DESCRIPTOR_MOST		2048
#define LIMIT_FILE		HTW_MODULE "max_user_timers"

/*
 * Tasks that open and close without a pause, how often, and most bytes of what they have closed:
 * 1,024 descriptors wait to be freed, 2 MiB. On Linux 6.1 every file that was closed waits for a
 * grace period as well, of whatever kind it is: 10,000 of those were seen on a busy host. Without
 * a limit the descriptors take 580 MB.
 */
#define CHURNERS		32
#define CHURNS			8000
/* With sanitizers, on a busy machine, all would take minutes. */
#define CHURN_NS		(90 * SEC)
#define CHURN_MOST		(16 * MIB)

/* Private wheels of a user, most bytes of one, and how often HTW_SETUP makes one and fails. */
#define WHEELS			16
#define WHEEL_MOST		(132ULL << 10)
#define SETUPS			200

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

/*
 * Hold as much memory as the user's limit allows, with as few timers: one in each page ('p'),
 * none with a table of deadlines ('t'), none in pages that are too few to be given back ('d').
 */
static bool hold(char shape)
{
	static __u64 ids[HOLD_TIMERS];
	const int holders = shape == 'd' ? HOLDERS : 10;
	const __u64 most = shape == 'd' ? 64 * 63 : HOLD_TIMERS;

	for (int i = 0; i < holders; i++) {
		const int fd = htw_open(O_NONBLOCK);
		__u64 count, stop = 0;

		if (fd < 0 || (shape == 't' && mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED,
						    fd, HTW_OFF_TABLE) == MAP_FAILED))
			return false;
		count = htw_start_many(fd, ~0ULL, 0, most, ids);
		for (__u64 j = 0; j < count; j++) {
			if (shape != 'p' || j % 63)
				ids[stop++] = ids[j];
		}
		if (htw_stop_many(fd, ids, stop) != stop)
			return false;
	}
	return true;
}

static void *churn(void *failed)
{
	const __u64 end = now_ns() + CHURN_NS;

	for (int i = 0; i < CHURNS && now_ns() < end; i++) {
		int fd;

		/* open() waits for ten seconds at most, which is too short on a busy machine. */
		do {
			fd = htw_open(O_NONBLOCK);
		} while (fd < 0 && errno == ENOMEM);
		if (fd < 0 || close(fd))
			__atomic_store_n((bool *)failed, true, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Open and close in many tasks at once: more than a single one could free. */
static bool churn_in_tasks(void)
{
	pthread_t threads[CHURNERS];
	bool failed = false;
	int i;

	for (i = 0; i < CHURNERS; i++) {
		if (pthread_create(&threads[i], NULL, churn, &failed))
			return false;
	}
	for (i = 0; i < CHURNERS; i++)
		pthread_join(threads[i], NULL);
	return !failed;
}

/* Have as many private wheels as a user may have. */
static bool set_up_wheels(void)
{
	const struct htw_setup setup = {
		.flags = HTW_SETUP_PRIVATE, .tick_ns = MSEC, .levels = 2, .slots = { 2048, 2048 },
	};
	int i;

	for (i = 0; i < WHEELS; i++) {
		if (htw_set_up(htw_open(O_NONBLOCK), setup))
			return false;
	}
	return true;
}

/* Ask for private wheels that are not used after all: there is no room for the ring. */
static bool set_up_in_vain(int fd)
{
	const struct htw_setup ring = { .flags = HTW_SETUP_RING, .ring_entries = 1 << 17 };
	struct htw_setup both = ring;
	int i;

	both.flags |= HTW_SETUP_PRIVATE;
	both.tick_ns = MSEC;
	both.levels = 2;
	both.slots[0] = both.slots[1] = 2048;
	if (htw_set_up(fd, ring))
		return false;
	fd = htw_open(O_NONBLOCK);
	for (i = 0; i < SETUPS; i++) {
		if (htw_set_up(fd, both) != -EDQUOT)
			return false;
	}
	return true;
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
		case 'x':
			ok = churn_in_tasks();
			break;
		case 'w':
			ok = set_up_wheels();
			break;
		case 's':
			ok = set_up_in_vain(htw_open(O_NONBLOCK));
			break;
		case 'n':
			ok = as_nobody();
			break;
		case 'p':
		case 't':
		case 'd':
			ok = hold(what);
			break;
		case 'c':
			ok = !close(fd);
			break;
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

static __u64 most_charged(const struct child *c)
{
	char peak[256];

	snprintf(peak, sizeof(peak), "%s/memory.peak", c->group);
	return htw_file_number(peak);
}

/* The child joins its cgroup before it opens the device. */
static bool start_child(struct child *c, const char *root)
{
	int there[2], back[2];
	char file[200];
	__u64 used;

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
	used = charged(c);
	/* What was in use is given back a moment after the close, and must not count. */
	if (!ask(c, 'c') || !htw_eventually(charged(c) + IN_USE / 2 * NODE <= used) ||
	    !ask(c, 'o'))
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

/* Nor does it add up while tasks open and close faster than one work item can free. */
HTW_TEST(closing_waits_for_freeing)
{
	struct child c;
	__u64 held;

	ASSERT_TRUE(open_to_all());
	START_CHILD(&c);
	ASSERT_TRUE(ask(&c, 'n'));
	ASSERT_TRUE(ask(&c, 'x'));
	held = most_charged(&c) - c.before;
	TH_LOG("%llu KiB", held >> 10);
	EXPECT_GE(CHURN_MOST, held);
	EXPECT_TRUE(end_child(&c));
}

/* A private wheel takes no more than its buckets. */
HTW_TEST(private_wheels)
{
	struct child c;
	__u64 held;

	ASSERT_TRUE(open_to_all());
	START_CHILD(&c);
	EXPECT_TRUE(ask(&c, 'n'));
	EXPECT_TRUE(ask(&c, 'w'));
	held = charged(&c) - c.before;
	TH_LOG("%llu bytes a wheel", held / WHEELS);
	EXPECT_GE(WHEELS * (WHEEL_MOST + DESCRIPTOR_MOST) + SLACK, held);
	EXPECT_TRUE(end_child(&c));
}

/* A private wheel counts until its memory has been given back. */
HTW_TEST(setups_that_fail_leave_nothing)
{
	char root[100], old[32], text[32];
	struct child c;
	__u64 held;

	if (!memory_cgroup(root, sizeof(root)))
		SKIP(return, "no cgroup2 memory controller");
	ASSERT_TRUE(open_to_all());
	ASSERT_EQ(0, htw_read_file(LIMIT_FILE, old, sizeof(old)));
	snprintf(text, sizeof(text), "%llu", USER_LIMIT);
	ASSERT_EQ(0, htw_write_file(LIMIT_FILE, text));
	ASSERT_TRUE(start_child(&c, root));
	EXPECT_TRUE(ask(&c, 'n'));
	EXPECT_TRUE(ask(&c, 's'));
	held = most_charged(&c) - c.before;
	TH_LOG("%llu KiB", held >> 10);
	/* The ring that takes the user's limit, and 16 wheels. */
	EXPECT_GE((1 << 17) * sizeof(struct htw_event) + WHEELS * WHEEL_MOST + SLACK, held);
	EXPECT_TRUE(end_child(&c));
	ASSERT_EQ(0, htw_write_file(LIMIT_FILE, old));
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
	const __u64 most = USER_LIMIT * USER_MOST + HOLDERS * DESCRIPTOR_MOST + SLACK;
	const char shapes[] = { 'p', 't', 'd' };
	char root[100], old[32], text[32];
	unsigned int i;

	if (!memory_cgroup(root, sizeof(root)))
		SKIP(return, "no cgroup2 memory controller");
	NEEDS(HTW_FEATURE_TABLE);
	ASSERT_TRUE(open_to_all());
	ASSERT_EQ(0, htw_read_file(LIMIT_FILE, old, sizeof(old)));
	snprintf(text, sizeof(text), "%llu", USER_LIMIT);
	ASSERT_EQ(0, htw_write_file(LIMIT_FILE, text));
	for (i = 0; i < ARRAY_SIZE(shapes); i++) {
		struct child c;
		__u64 held;

		ASSERT_TRUE(start_child(&c, root));
		EXPECT_TRUE(ask(&c, 'n'));
		EXPECT_TRUE(ask(&c, shapes[i]));
		held = charged(&c) - c.before;
		TH_LOG("%c: %llu KiB, %llu bytes for a timer of the limit", shapes[i],
		       held >> 10, held / USER_LIMIT);
		EXPECT_GE(most, held);
		/* It is possible to hold most of it. */
		EXPECT_LE(USER_LIMIT * NODE / 2, held);
		EXPECT_TRUE(end_child(&c));
	}
	ASSERT_EQ(0, htw_write_file(LIMIT_FILE, old));
}

TEST_HARNESS_MAIN
