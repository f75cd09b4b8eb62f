// SPDX-License-Identifier: GPL-2.0-only
/*
 * The limit of a user, all descriptors together: EDQUOT, and room again
 *
 * What counts is memory, in timers of 64 bytes: pages of timers, wheels and what belongs to them.
 * HTW_INFO says how much that is.
 *
 * Needs a module loaded with a limit that can be reached.
 *
 * VM options: --module-args max_user_timers=10000
 */
#include "htw-test.h"

#define PARAMETER	HTW_MODULE "max_user_timers"
#define REFUSED		HTW_MODULE "refused"
/* A higher limit would test the machine's memory. */
#define SENSIBLE	2000000ULL
/* Size of a timer, by which memory counts. */
#define NODE		64
/* Descriptors that use all of the limit: a large one, and smaller ones for what that leaves. */
#define FDS		6

#define LIMITED()							\
	const __u64 limit = htw_file_number(PARAMETER);			\
									\
	if (limit > SENSIBLE)						\
		SKIP(return, "max_user_timers=%llu is too many to use up", limit);	\
	ASSERT_EQ(0, chmod(HTW_DEVICE, 0666))

static bool as_user(uid_t uid)
{
	return !setresgid(uid, uid, uid) && !setresuid(uid, uid, uid);
}

#define STEP(cond) do {							\
	if (!(cond)) {							\
		TH_LOG("not so: %s", #cond);				\
		return false;						\
	}								\
} while (0)

/* Add a timer: store its id and return zero, or return the errno. */
static int add_one(int fd, __u64 *id)
{
	struct htw_add_args add = htw_rel(HOUR, 1);
	int ret = htw_call(fd, HTW_ADD, &add);

	if (!ret)
		*id = add.id;
	return ret;
}

/* Start timers on one descriptor after the other until each fails. Return how many there are. */
static __u64 fill(int *fds)
{
	__u64 all = 0;

	for (unsigned int i = 0; i < FDS; i++) {
		fds[i] = htw_open(O_NONBLOCK);
		all += htw_start_many(fds[i], ~0ULL, 0, SENSIBLE, NULL);
	}
	return all;
}

static void close_all(const int *fds)
{
	for (unsigned int i = 0; i < FDS; i++)
		close(fds[i]);
}

/* Is the limit used up, and is the sum of what each descriptor holds what the user does? */
static bool is_full(struct __test_metadata *_metadata, const int *fds, __u64 limit)
{
	const struct htw_info_args info = htw_info(fds[0]);
	const __u64 refused = htw_file_number(REFUSED);
	__u64 bytes = 0, id;

	for (unsigned int i = 0; i < FDS; i++) {
		STEP(add_one(fds[i], &id) == -EDQUOT);
		bytes += htw_info(fds[i]).bytes;
	}
	STEP(htw_file_number(REFUSED) >= refused + FDS);
	STEP(info.user_limit == limit);
	STEP(info.user_timers <= limit && info.user_timers + 20 > limit);
	STEP(bytes == info.user_timers * NODE);
	return true;
}

static bool use_up(struct __test_metadata *_metadata, uid_t uid, __u64 limit)
{
	__u64 ids[2] = { POISON, POISON }, deadlines[2] = { ~0ULL, ~0ULL };
	struct htw_vector_args vector = htw_vector_add(ids, deadlines, NULL, 2);
	struct htw_setup_args setup = { .limit = 10 };
	struct htw_cancel_all_args all = { 0 };
	struct htw_timer_info entry;
	struct htw_list_args harvest = htw_list_of(&entry, 1);
	struct htw_event ev;
	__u64 id, started;
	int fds[FDS], small;

	STEP(as_user(uid));
	/*
	 * An add that fails at the descriptor's own limit does not count for
	 * the user.
	 */
	small = htw_open(O_NONBLOCK);
	STEP(small >= 0 && !htw_set_up(small, setup));
	STEP(htw_start_many(small, ~0ULL, 0, SENSIBLE, NULL) == setup.limit);
	STEP(htw_info(small).bytes < 40 * NODE);
	STEP(!close(small));
	started = fill(fds);
	/* Headers of pages, the wheel, and what is left. */
	STEP(started > limit * 9 / 10 && started < limit);
	STEP(is_full(_metadata, fds, limit));

	/* There is room for one timer of a vector. */
	STEP(!htw_call(fds[0], HTW_HARVEST, &harvest) && harvest.done == 1);
	STEP(!htw_call(fds[0], HTW_VECTOR, &vector));
	STEP(vector.done == 2 && vector.failed == 1);
	STEP(HTW_ID_ERROR(ids[1]) == -EDQUOT && !htw_stop(fds[0], ids[0]));

	/* There is room for one timer, and again after it is read. */
	STEP(htw_start(fds[0], 0, 1));
	STEP(add_one(fds[0], &id) == -EDQUOT);
	STEP(htw_wait_readable(fds[0]));
	STEP(add_one(fds[0], &id) == -EDQUOT);
	STEP(htw_read(fds[0], &ev, 1) == 1);
	STEP(!add_one(fds[0], &id));
	STEP(add_one(fds[0], &id) == -EDQUOT);

	/* After a cancel. */
	STEP(!htw_stop(fds[0], id));
	/* But that room is the descriptor's. */
	STEP(add_one(fds[1], &id) == -EDQUOT);
	STEP(!add_one(fds[0], &id));
	STEP(add_one(fds[0], &id) == -EDQUOT);

	/* That of a burst is everybody's, without a close. */
	STEP(!htw_call(fds[0], HTW_CANCEL_ALL, &all));
	STEP(htw_start_many(fds[1], ~0ULL, 0, SENSIBLE, NULL) > limit * 7 / 10);
	for (unsigned int i = 0; i < FDS; i++)
		htw_start_many(fds[i], ~0ULL, 0, SENSIBLE, NULL);
	STEP(is_full(_metadata, fds, limit));
	/* After a close as well. */
	close_all(fds);
	STEP(fill(fds) == started);
	close_all(fds);
	fds[0] = htw_open(O_NONBLOCK);
	STEP(htw_info(fds[0]).user_timers == 0 && htw_info(fds[0]).bytes == 0);
	return true;
}

HTW_TEST(used_up_and_free_again)
{
	LIMITED();
	EXPECT_TRUE(htw_in_child(use_up(_metadata, 65534, limit)));
}

/* Use all of the limit in a process of a user's. Return: its id, or a negative one. */
static pid_t fill_in_child(uid_t uid, __u64 limit)
{
	int pair[2], fds[FDS];
	char byte = 0;
	pid_t pid;

	if (pipe(pair))
		return -1;
	pid = fork();
	if (!pid) {
		if (as_user(uid) && fill(fds) > limit / 2 && write(pair[1], "y", 1) == 1)
			pause();
		_exit(1);
	}
	close(pair[1]);
	if (read(pair[0], &byte, 1) != 1)
		byte = 0;
	close(pair[0]);
	return byte == 'y' ? pid : -1;
}

/* What a user holds. */
static bool holds(uid_t uid, __u64 timers)
{
	return as_user(uid) && htw_info(htw_open(O_NONBLOCK)).user_timers == timers;
}

/* A killed process leaves nothing behind. */
HTW_TEST(after_kill)
{
	int status, round;

	LIMITED();
	for (round = 0; round < 3; round++) {
		pid_t pid = fill_in_child(65533, limit);

		ASSERT_LT(0, pid);
		EXPECT_FALSE(htw_in_child(holds(65533, 0)));
		ASSERT_EQ(0, kill(pid, SIGKILL));
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_TRUE(htw_in_child(holds(65533, 0)));
	}
}

/* Users are counted separately, and root has no such limit. */
HTW_TEST(each_user_has_its_own)
{
	int mine = htw_open(O_NONBLOCK), status;
	pid_t pid;
	__u64 id;

	LIMITED();
	pid = fill_in_child(65532, limit);
	ASSERT_LT(0, pid);
	EXPECT_TRUE(htw_in_child(as_user(65531) && !add_one(htw_open(O_NONBLOCK), &id)));
	EXPECT_TRUE(htw_in_child(as_user(65532) &&
				 add_one(htw_open(O_NONBLOCK), &id) == -EDQUOT));
	EXPECT_EQ(~0ULL, htw_info(mine).user_limit);
	ASSERT_LT(limit, self->limit);
	EXPECT_EQ(limit + 1, htw_start_many(mine, ~0ULL, 0, limit + 1, NULL));
	EXPECT_LT(limit, htw_info(mine).user_timers);
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	close(mine);
}

/* Who has a single timer is small: a wheel and a part of a page. */
static bool one_timer_each(struct __test_metadata *_metadata, uid_t uid, __u64 limit)
{
	__u64 i, id, each = 0;
	int fd = -1;

	STEP(as_user(uid));
	for (i = 0; !i || i < limit / each; i++) {
		fd = htw_open(O_NONBLOCK);
		STEP(fd >= 0 && !add_one(fd, &id));
		if (!i)
			each = htw_info(fd).user_timers;
		STEP(htw_info(fd).user_timers == (i + 1) * each);
	}
	STEP(each > 1 && each * NODE <= PAGE * 3 / 4);
	fd = htw_open(O_NONBLOCK);
	STEP(fd >= 0 && add_one(fd, &id) == -EDQUOT);
	return true;
}

HTW_TEST(one_timer_each)
{
	LIMITED();
	EXPECT_TRUE(htw_in_child(one_timer_each(_metadata, 65528, limit)));
}

/* A wheel's levels are pages, however few slots it has, and go without at the limit. */
static bool levels(struct __test_metadata *_metadata, uid_t uid, __u64 limit)
{
	const struct htw_setup_args setup = { .levels = 1, .slots = { 2 } };
	int fd, fds[FDS];
	__u64 small, id;

	STEP(as_user(uid));
	fd = htw_open(O_NONBLOCK);
	STEP(!htw_set_up(fd, setup));
	STEP(htw_start_many(fd, ~0ULL, 0, 63, NULL) == 63);
	small = htw_info(fd).bytes;
	STEP(!add_one(fd, &id));
	STEP(htw_info(fd).bytes == small + PAGE);
	close(fd);

	/* Without them, timers work as well. */
	fd = htw_open(O_NONBLOCK);
	STEP(htw_start_many(fd, ~0ULL, 0, 63, NULL) == 63);
	fill(fds);
	STEP(add_one(fds[FDS - 1], &id) == -EDQUOT);
	small = htw_info(fd).bytes;
	for (int i = 0; i < 14; i++)
		STEP(!add_one(fd, &id));
	STEP(htw_info(fd).bytes == small);
	STEP(htw_start(fd, 0, 1) && htw_wait_readable(fd));
	return true;
}

HTW_TEST(levels_count)
{
	LIMITED();
	EXPECT_TRUE(htw_in_child(levels(_metadata, 65527, limit)));
}

/* Who closes a descriptor and opens another one does not fail at the limit meanwhile. */
static bool reopen(struct __test_metadata *_metadata, uid_t uid, __u64 limit)
{
	__u64 started = 0, now;
	int fds[FDS], round;

	STEP(as_user(uid));
	for (round = 0; round < 20; round++) {
		now = fill(fds);
		STEP(now > limit / 2 && (!round || now == started));
		started = now;
		close_all(fds);
	}
	return true;
}

HTW_TEST(reopened_at_the_limit)
{
	LIMITED();
	EXPECT_TRUE(htw_in_child(reopen(_metadata, 65526, limit)));
}

/* Timers are charged to the opener of the descriptor. */
HTW_TEST(charged_to_the_opener)
{
	__u64 id;

	LIMITED();
	/*
	 * Opened by root and used by another user: only the descriptor's limit
	 * holds.
	 */
	if (self->limit > limit)
		EXPECT_TRUE(htw_in_child(as_user(65530) &&
					 htw_start_many(self->fd, ~0ULL, 0, limit + 1, NULL) ==
						 limit + 1));
	EXPECT_TRUE(htw_in_child(as_user(65530) && !add_one(htw_open(O_NONBLOCK), &id)));
}

TEST_HARNESS_MAIN
