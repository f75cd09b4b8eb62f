// SPDX-License-Identifier: GPL-2.0-only
/*
 * HTW_ADD, HTW_CANCEL, HTW_MOD and HTW_VECTOR: results and errors
 */
#include "htw-test.h"

#include <sched.h>
#include <sys/wait.h>

#define MANY	1000

HTW_TEST(add_relative)
{
	struct htw_add_args add = { .deadline = 5 * MSEC, .cookie = 42 };
	struct htw_event ev;
	__u64 before, after;

	before = now_ns();
	ASSERT_EQ(0, htw_add(self->fd, &add));
	after = now_ns();
	EXPECT_NE(0, add.id);
	ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
	EXPECT_EQ(add.id, ev.id);
	EXPECT_EQ(42, ev.cookie);
	EXPECT_LE(before + 5 * MSEC, ev.deadline);
	EXPECT_GE(after + 5 * MSEC, ev.deadline);
	EXPECT_GE(ev.taken, ev.deadline);
	EXPECT_EQ(0, ev.missed);
	EXPECT_EQ(0, ev.flags);
	EXPECT_EQ(0, ev.reserved);
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, &ev, 1));
	EXPECT_EQ(-ENOENT, htw_stop(self->fd, add.id));
}

HTW_TEST(add_absolute)
{
	struct htw_add_args add = { .deadline = now_ns() + 5 * MSEC + 1, .flags = HTW_F_ABS };
	struct htw_event ev;

	ASSERT_EQ(0, htw_add(self->fd, &add));
	ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
	EXPECT_EQ(add.deadline, ev.deadline);
	EXPECT_GE(ev.taken, ev.deadline);
}

/* Whose clock is ahead of the machine's by 1,000 s. Return the number of what fails. */
static int in_time_namespace(int fd)
{
	struct htw_add_args add = { .deadline = now_ns() + 5 * MSEC, .flags = HTW_F_ABS };
	struct htw_event ev;

	if (add.deadline < 1000 * SEC)
		return 1;
	if (htw_add(fd, &add) || htw_collect(fd, &ev, 1) != 1 || ev.id != add.id)
		return 2;
	if (ev.deadline != add.deadline || ev.taken < ev.deadline || ev.taken > now_ns())
		return 3;
	add = (struct htw_add_args){ .deadline = 20 * SEC, .flags = HTW_F_ABS };
	if (htw_add(fd, &add) || htw_read(fd, &ev, 1) != 1)
		return 4;
	return 0;
}

HTW_TEST(add_in_time_namespace)
{
	static const char offset[] = "monotonic 1000 0\n";
	int offsets, status = -1;
	pid_t pid;

	if (unshare(CLONE_NEWTIME))
		SKIP(return, "needs CAP_SYS_ADMIN and time namespaces");
	offsets = open("/proc/self/timens_offsets", O_WRONLY);
	ASSERT_EQ((ssize_t)strlen(offset), write(offsets, offset, strlen(offset)));
	close(offsets);
	pid = fork();
	if (!pid)
		_exit(in_time_namespace(self->fd));
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

HTW_TEST(add_due_at_once)
{
	struct htw_add_args adds[] = {
		{ .deadline = 0 },
		{ .deadline = 0, .flags = HTW_F_ABS },
		{ .deadline = now_ns() - 1, .flags = HTW_F_ABS },
	};
	struct htw_event ev;

	for (unsigned int i = 0; i < ARRAY_SIZE(adds); i++) {
		ASSERT_EQ(0, htw_add(self->fd, &adds[i]));
		/* It does not wait for a tick. */
		ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
		EXPECT_EQ(adds[i].id, ev.id);
	}
}

/* Deadlines so large that adding to them overflows. */
HTW_TEST(add_never)
{
	const __u64 deadlines[] = {
		~0ULL, ~0ULL - 1, ~0ULL >> 1, 1ULL << 63, 99 * 365 * 24 * HOUR,
	};
	__u64 ids[2 * ARRAY_SIZE(deadlines)];
	struct htw_cancel_args cancel;
	struct htw_event ev;

	for (unsigned int i = 0; i < ARRAY_SIZE(ids); i++) {
		struct htw_add_args add = { .deadline = deadlines[i / 2], .flags = i % 2 };

		ASSERT_EQ(0, htw_add(self->fd, &add));
		ids[i] = add.id;
	}
	EXPECT_FALSE(htw_is_readable(self->fd, 20 * MSEC));
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, &ev, 1));
	for (unsigned int i = 0; i < ARRAY_SIZE(ids); i++) {
		cancel = (struct htw_cancel_args){ .id = ids[i] };
		EXPECT_EQ(0, htw_call(self->fd, HTW_CANCEL, &cancel));
		EXPECT_LT(HOUR, cancel.remaining);
		EXPECT_EQ(HTW_STATE_PENDING, cancel.state);
	}
}

HTW_TEST(add_errors)
{
	struct htw_add_args bad[] = {
		{ .flags = 1 << 1 }, { .flags = 1U << 31 }, { .flags = HTW_MOD_DEADLINE },
		{ .firings = 1 },
	}, good = { .cookie = 1 };
	int reads = open("/dev/htw", O_RDONLY);
	struct htw_add_args *unwritable = read_only_copy(&good, sizeof(good));
	struct htw_event ev;

	for (unsigned int i = 0; i < ARRAY_SIZE(bad); i++)
		EXPECT_EQ(-EINVAL, htw_add(self->fd, &bad[i]));
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_ADD, NULL));
	/* Nothing is started whose id the program does not get. */
	ASSERT_NE(NULL, unwritable);
	for (unsigned int i = 0; i < 200; i++)
		ASSERT_EQ(-EFAULT, htw_add(self->fd, unwritable));
	EXPECT_EQ(-EBADF, htw_add(reads, &good));
	EXPECT_EQ(-ENOTTY, htw_call(self->fd, _IO(HTW_IOC, 0x1f), NULL));
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, &ev, 1));
	close(reads);
}

HTW_TEST(cancel)
{
	struct htw_cancel_args cancel = { 0 };
	struct htw_event ev;

	cancel.id = htw_start(self->fd, HOUR, 7);
	ASSERT_EQ(0, htw_call(self->fd, HTW_CANCEL, &cancel));
	EXPECT_EQ(7, cancel.cookie);
	EXPECT_EQ(HTW_STATE_PENDING, cancel.state);
	EXPECT_GE(HOUR, cancel.remaining);
	EXPECT_LT(HOUR - PATIENCE, cancel.remaining);
	EXPECT_EQ(-ENOENT, htw_call(self->fd, HTW_CANCEL, &cancel));

	/* Also if it is due. */
	cancel.id = htw_start(self->fd, 0, 8);
	ASSERT_TRUE(htw_is_readable(self->fd, PATIENCE));
	ASSERT_EQ(0, htw_call(self->fd, HTW_CANCEL, &cancel));
	EXPECT_EQ(8, cancel.cookie);
	EXPECT_EQ(HTW_STATE_DUE, cancel.state);
	EXPECT_EQ(0, cancel.remaining);
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, &ev, 1));
	EXPECT_FALSE(htw_is_readable(self->fd, 0));

	EXPECT_EQ(-ENOENT, htw_stop(self->fd, 0));
	EXPECT_EQ(-ENOENT, htw_stop(self->fd, ~0ULL));
	cancel.flags = 1;
	EXPECT_EQ(-EINVAL, htw_call(self->fd, HTW_CANCEL, &cancel));
}

/* An id is of one context, and of one timer for ever. */
HTW_TEST(ids)
{
	int other = htw_open(O_NONBLOCK);
	__u64 last = 0, id;

	/* It has a page, with the same numbers. */
	ASSERT_NE(0, htw_start(other, HOUR, 0));
	for (unsigned int i = 0; i < MANY; i++) {
		id = htw_start(self->fd, HOUR, i);
		ASSERT_NE(0, id);
		ASSERT_NE(last, id);
		ASSERT_EQ(-ENOENT, htw_stop(self->fd, last));
		ASSERT_EQ(-ENOENT, htw_stop(other, id));
		ASSERT_EQ(0, htw_stop(self->fd, id));
		last = id;
	}
	close(other);
}

HTW_TEST(mod_deadline)
{
	__u64 id = htw_start(self->fd, HOUR, 1), far = htw_start(self->fd, 10 * MSEC, 2);
	struct htw_mod_args mod = { .id = id, .deadline = 5 * MSEC, .flags = HTW_MOD_DEADLINE };
	struct htw_event ev;

	ASSERT_EQ(0, htw_call(self->fd, HTW_MOD, &mod));
	EXPECT_EQ(HTW_STATE_PENDING, mod.state);
	ASSERT_EQ(0, htw_move(self->fd, far, now_ns() + HOUR, HTW_F_ABS));
	ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
	EXPECT_EQ(id, ev.id);
	EXPECT_EQ(-ENOENT, htw_call(self->fd, HTW_MOD, &mod));

	/* What is due can be put off. */
	ASSERT_EQ(0, htw_move(self->fd, far, 0, 0));
	ASSERT_TRUE(htw_is_readable(self->fd, PATIENCE));
	mod = (struct htw_mod_args){ .id = far, .deadline = HOUR, .flags = HTW_MOD_DEADLINE };
	ASSERT_EQ(0, htw_call(self->fd, HTW_MOD, &mod));
	EXPECT_EQ(HTW_STATE_DUE, mod.state);
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, &ev, 1));
}

HTW_TEST(mod_cookie_and_interval)
{
	__u64 id = htw_start(self->fd, 0, 1);
	struct htw_mod_args mod = {
		.id = id, .cookie = 2, .interval = HOUR, .firings = 2,
		.flags = HTW_MOD_COOKIE | HTW_MOD_INTERVAL,
	};
	struct htw_event ev;

	ASSERT_EQ(0, htw_call(self->fd, HTW_MOD, &mod));
	ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
	EXPECT_EQ(2, ev.cookie);
	EXPECT_EQ(HTW_EVENT_MORE, ev.flags);
	EXPECT_EQ(0, htw_stop(self->fd, id));
}

HTW_TEST(mod_errors)
{
	__u64 id = htw_start(self->fd, HOUR, 1);
	struct htw_mod_args bad[] = {
		{ .flags = 0 },
		{ .flags = 1 << 1 },
		{ .flags = HTW_MOD_COOKIE | HTW_F_ABS },
		{ .flags = HTW_MOD_COOKIE, .deadline = 1 },
		{ .flags = HTW_MOD_COOKIE, .interval = 1 },
		{ .flags = HTW_MOD_COOKIE, .firings = 1 },
		{ .flags = HTW_MOD_DEADLINE, .cookie = 1 },
		{ .flags = HTW_MOD_INTERVAL, .firings = 1 },
		{ .flags = HTW_MOD_DEADLINE, .reserved = 1 },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(bad); i++) {
		bad[i].id = id;
		EXPECT_EQ(-EINVAL, htw_call(self->fd, HTW_MOD, &bad[i]));
	}
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_MOD, NULL));
	EXPECT_EQ(-ENOENT, htw_move(self->fd, id + 1, 0, 0));
	EXPECT_EQ(0, htw_stop(self->fd, id));
}

static struct htw_vector_args vector(__u32 op, __u64 *ids, __u64 *deadlines, __u64 *cookies,
				     __u32 count)
{
	return (struct htw_vector_args){
		.op = op, .ids = (__u64)(uintptr_t)ids, .deadlines = (__u64)(uintptr_t)deadlines,
		.cookies = (__u64)(uintptr_t)cookies, .count = count,
	};
}

HTW_TEST(vectors)
{
	static __u64 ids[MANY], deadlines[MANY], cookies[MANY], stale[MANY];
	static struct htw_event ev[MANY];
	struct htw_vector_args v = vector(HTW_OP_ADD, ids, deadlines, cookies, MANY);

	for (unsigned int i = 0; i < MANY; i++) {
		deadlines[i] = HOUR + i;
		cookies[i] = i;
	}
	ASSERT_EQ(0, htw_call(self->fd, HTW_VECTOR, &v));
	EXPECT_EQ(MANY, v.done);
	EXPECT_EQ(0, v.failed);
	memcpy(stale, ids, sizeof(ids));

	/* Every third one is cancelled, and the others are moved. */
	for (unsigned int i = 0; i < MANY; i += 3)
		ASSERT_EQ(0, htw_stop(self->fd, ids[i]));
	for (unsigned int i = 0; i < MANY; i++)
		deadlines[i] = now_ns() + i * MSEC / 50;
	v = vector(HTW_OP_MOD, ids, deadlines, NULL, MANY);
	v.flags = HTW_MOD_DEADLINE | HTW_F_ABS;
	ASSERT_EQ(0, htw_call(self->fd, HTW_VECTOR, &v));
	EXPECT_EQ(MANY, v.done);
	EXPECT_EQ((MANY + 2) / 3, v.failed);
	for (unsigned int i = 0; i < MANY; i++)
		ASSERT_EQ(i % 3 ? 0 : -ENOENT, HTW_ID_ERROR(ids[i]));

	ASSERT_EQ((int)(MANY - v.failed), htw_collect(self->fd, ev, MANY - v.failed));
	for (unsigned int i = 0; i < MANY - v.failed; i++) {
		ASSERT_GE(ev[i].taken, ev[i].deadline);
		ASSERT_EQ(1, ids[ev[i].cookie] == ev[i].id);
		ids[ev[i].cookie] = 0;
	}

	v = vector(HTW_OP_CANCEL, stale, NULL, NULL, MANY);
	ASSERT_EQ(0, htw_call(self->fd, HTW_VECTOR, &v));
	EXPECT_EQ(MANY, v.failed);
}

HTW_TEST(vector_errors)
{
	__u64 ids[2] = { 0 }, deadlines[2] = { HOUR, HOUR };
	struct htw_vector_args bad[] = {
		vector(0, ids, deadlines, NULL, 2),
		vector(HTW_OP_ADD, NULL, deadlines, NULL, 2),
		vector(HTW_OP_ADD, ids, NULL, NULL, 2),
		vector(HTW_OP_CANCEL, ids, deadlines, NULL, 2),
		vector(HTW_OP_MOD, ids, NULL, NULL, 2),
	}, v = vector(HTW_OP_ADD, NULL, NULL, NULL, 0);
	__u64 *unwritable = read_only_copy(ids, sizeof(ids));

	for (unsigned int i = 0; i < ARRAY_SIZE(bad); i++)
		EXPECT_EQ(-EINVAL, htw_call(self->fd, HTW_VECTOR, &bad[i]));
	EXPECT_EQ(0, htw_call(self->fd, HTW_VECTOR, &v));
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_VECTOR, NULL));
	v = vector(HTW_OP_ADD, unwritable, deadlines, NULL, 2);
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_VECTOR, &v));
}

TEST_HARNESS_MAIN
