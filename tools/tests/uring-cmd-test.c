// SPDX-License-Identifier: GPL-2.0-only
/*
 * Commands of io_uring: HTW_ADD, HTW_CANCEL, HTW_MOD and HTW_VECTOR as SQEs
 *
 * Each way to have io_uring make the call is a variant: in io_uring_enter(), by
 * a worker, or by the thread of IORING_SETUP_SQPOLL.
 */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "htw-timens.h"
#include "htw-uring.h"

#define MANY		100000U
#ifndef READ_ONCE
#define READ_ONCE(x)	(*(volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, v) (*(volatile typeof(x) *)&(x) = (v))
#endif

/* Adds of a vector beyond which a worker carries it out. */
#define AT_ONCE		256U

FIXTURE(cmd) {
	struct io_uring ring;
	int fd;
};

FIXTURE_VARIANT(cmd) {
	unsigned int flags;
	unsigned int sqe_flags;
};

FIXTURE_VARIANT_ADD(cmd, enter) {
	.flags = 0,
};

FIXTURE_VARIANT_ADD(cmd, deferred) {
	.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
};

FIXTURE_VARIANT_ADD(cmd, worker) {
	.sqe_flags = IOSQE_ASYNC,
};

FIXTURE_VARIANT_ADD(cmd, sqpoll) {
	.flags = IORING_SETUP_SQPOLL,
};

FIXTURE_SETUP(cmd)
{
	int ret;

	self->fd = htw_open(O_NONBLOCK);
	ASSERT_LE(0, self->fd);
	ret = io_uring_queue_init(512, &self->ring, variant->flags);
	if (ret == -ENOSYS || ret == -EPERM)
		SKIP(return, "no io_uring");
	ASSERT_EQ(0, ret);
}

FIXTURE_TEARDOWN(cmd)
{
	io_uring_queue_exit(&self->ring);
	close(self->fd);
}

#define CMD_TEST(name) TEST_F_TIMEOUT(cmd, name, TEST_SECONDS)

#define cmd(op, arg)	submit(&self->ring, prep(&self->ring, self->fd, op, arg), \
			       variant->sqe_flags)

/* Voluntary context switches of this process's workers: each time that one has nothing to do. */
static long worker_switches(void)
{
	char path[300], buf[4096], *at;
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	long sum = 0;

	while (tasks && (entry = readdir(tasks))) {
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
		if (htw_read_file(path, buf, sizeof(buf)) || !strstr(buf, "iou-wrk"))
			continue;
		at = strstr(buf, "\nvoluntary_ctxt_switches:");
		sum += 1 + (at ? atol(strchr(at, ':') + 1) : 0);
	}
	if (tasks)
		closedir(tasks);
	return sum;
}

/* ---- what a command does ---- */

CMD_TEST(as_the_ioctl)
{
	struct htw_add_args add = htw_rel(HOUR, 7);
	struct htw_mod_args mod = { .deadline = 2 * HOUR, .flags = HTW_MOD_DEADLINE };
	struct htw_cancel_args cancel;
	struct htw_event ev;

	add.interval = MSEC;
	ASSERT_EQ(0, cmd(HTW_ADD, &add));
	EXPECT_NE(POISON, add.id);
	EXPECT_EQ(7, htw_query(self->fd, add.id).cookie);
	EXPECT_EQ(MSEC, htw_query(self->fd, add.id).interval);
	EXPECT_GE(HOUR, htw_query(self->fd, add.id).remaining);

	mod.id = add.id;
	mod.state = POISON32;
	ASSERT_EQ(0, cmd(HTW_MOD, &mod));
	EXPECT_EQ(HTW_STATE_PENDING, mod.state);
	EXPECT_LT(HOUR, htw_query(self->fd, add.id).remaining);

	cancel = htw_cancel_of(add.id);
	cancel.flags = 0;
	ASSERT_EQ(0, cmd(HTW_CANCEL, &cancel));
	EXPECT_EQ(7, cancel.cookie);
	EXPECT_LT(HOUR, cancel.remaining);
	EXPECT_EQ(HTW_STATE_PENDING, cancel.state);
	EXPECT_EQ(0, htw_timers(self->fd));

	/* And it fires, never early. */
	add = htw_abs(now_ns() + 2 * MSEC, 8);
	ASSERT_EQ(0, cmd(HTW_ADD, &add));
	ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
	EXPECT_EQ(8, ev.cookie);
	EXPECT_EQ(add.id, ev.id);
	EXPECT_EQ(add.deadline, ev.deadline);
	EXPECT_NOT_EARLY(&ev);
}

CMD_TEST(vectors)
{
	static __u64 ids[MANY], deadlines[MANY], some[MANY];
	const unsigned int counts[] = { 0, 1, AT_ONCE, AT_ONCE + 1, 5000, MANY };
	unsigned int i, n, at;

	for (i = 0; i < ARRAY_SIZE(counts); i++) {
		struct htw_vector_args v;

		for (n = 0; n < counts[i]; n++)
			deadlines[n] = HOUR + n;
		v = htw_vector_add(ids, deadlines, deadlines, counts[i]);
		ASSERT_EQ(0, cmd(HTW_VECTOR, &v));
		ASSERT_EQ(counts[i], v.done);
		ASSERT_EQ(0, v.failed);
		ASSERT_EQ(counts[i], htw_timers(self->fd));

		v = htw_vector_add(ids, deadlines, NULL, counts[i]);
		v.op = HTW_OP_MOD;
		v.flags = HTW_MOD_DEADLINE;
		/* Work for the task, as a completion of another request, may end it early. */
		for (at = 0; at < counts[i]; at += v.done) {
			v.ids = (uintptr_t)(ids + at);
			v.deadlines = (uintptr_t)(deadlines + at);
			v.count = counts[i] - at;
			ASSERT_EQ(0, cmd(HTW_VECTOR, &v));
			ASSERT_LT(0, v.done);
			ASSERT_EQ(0, v.failed);
		}
		memcpy(some, ids, counts[i] * sizeof(*ids));
		for (at = 0; at < counts[i]; at += v.done) {
			v = htw_vector_cancel(some + at, counts[i] - at);
			ASSERT_EQ(0, cmd(HTW_VECTOR, &v));
			ASSERT_LT(0, v.done);
			ASSERT_EQ(0, v.failed);
		}
		ASSERT_EQ(0, htw_timers(self->fd));

		/* Those that have ended. */
		n = counts[i] < 100 ? counts[i] : 100;
		v = htw_vector_cancel(ids, n);
		ASSERT_EQ(0, cmd(HTW_VECTOR, &v));
		EXPECT_EQ(n, v.failed);
		for (at = 0; at < n; at++)
			EXPECT_EQ(-ENOENT, HTW_ID_ERROR(ids[at]));
	}
}

CMD_TEST(errors_of_the_ioctl)
{
	struct htw_cancel_args cancel = htw_cancel_of(12345);
	struct htw_mod_args mod = { .id = 12345, .flags = HTW_MOD_COOKIE };
	struct htw_add_args add = htw_rel(HOUR, 1), bad = htw_rel(HOUR, 1);
	struct htw_vector_args v = htw_vector_cancel(NULL, 1);

	cancel.flags = 0;
	EXPECT_EQ(-ENOENT, cmd(HTW_CANCEL, &cancel));
	EXPECT_EQ(POISON, cancel.cookie);
	EXPECT_EQ(-ENOENT, cmd(HTW_MOD, &mod));
	bad.flags = 1 << 7;
	EXPECT_EQ(-EINVAL, cmd(HTW_ADD, &bad));
	EXPECT_EQ(POISON, bad.id);
	EXPECT_EQ(-EINVAL, cmd(HTW_VECTOR, &v));
	EXPECT_EQ(-EFAULT, cmd(HTW_ADD, NULL));
	EXPECT_EQ(-EFAULT, cmd(HTW_CANCEL, (void *)PAGE));
	EXPECT_EQ(-EFAULT, cmd(HTW_MOD, (void *)PAGE));
	EXPECT_EQ(-EFAULT, cmd(HTW_VECTOR, (void *)PAGE));
	EXPECT_EQ(-EFAULT, cmd(HTW_ADD, htw_read_only(&add, sizeof(add))));
	EXPECT_EQ(0, htw_timers(self->fd));
}

/* An address of 64 bits is not cut to those of a 32-bit program. */
CMD_TEST(high_address)
{
	struct htw_add_args add = htw_rel(HOUR, 1);
	struct io_uring_sqe *sqe = prep(&self->ring, self->fd, HTW_ADD, &add);
	struct htw_uring_args args = { .arg = (uintptr_t)&add | 1ULL << 63 };

	memcpy((char *)sqe + SQE_CMD, &args, sizeof(args));
	EXPECT_EQ(-EFAULT, submit(&self->ring, sqe, variant->sqe_flags));
	EXPECT_EQ(POISON, add.id);
}

/* What else is in the SQE: one thing at a time. */
CMD_TEST(reserved)
{
	struct htw_add_args add = htw_rel(HOUR, 1);
	const struct iovec buffer = { &add, sizeof(add) };
	struct io_uring_sqe *sqe;
	unsigned int i;

	for (i = 8; i < 16; i++) {
		sqe = prep(&self->ring, self->fd, HTW_ADD, &add);
		((char *)sqe)[SQE_CMD + i] = 1;
		EXPECT_EQ(-EINVAL, submit(&self->ring, sqe, variant->sqe_flags)) {
			TH_LOG("byte %u", i);
		}
	}
	ASSERT_EQ(0, io_uring_register_buffers(&self->ring, &buffer, 1));
	for (i = 0; i < 32; i++) {
		sqe = prep(&self->ring, self->fd, HTW_ADD, &add);
		sqe->rw_flags = 1U << i;
		EXPECT_EQ(-EINVAL, submit(&self->ring, sqe, variant->sqe_flags)) {
			TH_LOG("flag %u", i);
		}
	}
	EXPECT_EQ(POISON, add.id);
	EXPECT_EQ(0, htw_timers(self->fd));
	EXPECT_EQ(0, cmd(HTW_ADD, &add));
}

CMD_TEST(other_commands)
{
	static const unsigned int others[] = {
		0, 1, HTW_SETUP, HTW_INFO, HTW_QUERY, HTW_CANCEL_ALL, HTW_LIST, HTW_HARVEST,
		HTW_ADVANCE, _IOWR(HTW_IOC, 0x0b, struct htw_add_args),
		_IOW(HTW_IOC, 0x02, struct htw_add_args), _IOR(HTW_IOC, 0x02, struct htw_add_args),
		_IOWR('x', 0x02, struct htw_add_args), _IOWR(HTW_IOC, 0x02, __u64[5]),
		_IOR(HTW_IOC, 0x01, __u64[32]),
	};
	const __u64 id = htw_start(self->fd, HOUR, 1);
	unsigned int i, k;
	__u64 arg[64];

	for (i = 0; i < ARRAY_SIZE(others); i++) {
		memset(arg, 0xa5, sizeof(arg));
		EXPECT_EQ(-ENOTTY, cmd(others[i], arg)) {
			TH_LOG("command %x", others[i]);
		}
		for (k = 0; k < ARRAY_SIZE(arg); k++)
			EXPECT_EQ(POISON, arg[k]);
	}
	EXPECT_EQ(HTW_STATE_PENDING, htw_query(self->fd, id).state);
}

/* A structure of a newer header. */
CMD_TEST(larger)
{
	struct {
		struct htw_add_args add;
		__u64 more;
	} large = { .add = htw_rel(HOUR, 1) };
	const unsigned int op = _IOWR(HTW_IOC, 0x02, large);

	ASSERT_EQ(0, cmd(op, &large));
	EXPECT_EQ(HTW_STATE_PENDING, htw_query(self->fd, large.add.id).state);
	large.more = 1;
	EXPECT_EQ(-E2BIG, cmd(op, &large));
	EXPECT_EQ(1, htw_timers(self->fd));
}

CMD_TEST(access_mode)
{
	const int readable = open(HTW_DEVICE, O_RDONLY), writable = open(HTW_DEVICE, O_WRONLY);
	static const unsigned int ops[] = { HTW_ADD, HTW_CANCEL, HTW_MOD, HTW_VECTOR };
	struct htw_add_args add = htw_rel(HOUR, 1);
	unsigned int i;
	__u64 arg[8];

	memset(arg, 0xa5, sizeof(arg));
	for (i = 0; i < ARRAY_SIZE(ops); i++)
		EXPECT_EQ(-EBADF, submit(&self->ring, prep(&self->ring, readable, ops[i], arg),
					 variant->sqe_flags));
	for (i = 0; i < ARRAY_SIZE(arg); i++)
		EXPECT_EQ(POISON, arg[i]);
	EXPECT_EQ(0, submit(&self->ring, prep(&self->ring, writable, HTW_ADD, &add),
			    variant->sqe_flags));
	close(readable);
	close(writable);
}

CMD_TEST(limits)
{
	static __u64 ids[AT_ONCE], deadlines[AT_ONCE];
	struct htw_vector_args v = htw_vector_add(ids, deadlines, NULL, AT_ONCE);
	struct htw_add_args add = htw_rel(HOUR, 1);
	unsigned int i;

	ASSERT_EQ(0, htw_set_up(self->fd, (struct htw_setup_args){ .limit = 100 }));
	for (i = 0; i < AT_ONCE; i++)
		deadlines[i] = HOUR;
	ASSERT_EQ(0, cmd(HTW_VECTOR, &v));
	EXPECT_EQ(AT_ONCE, v.done);
	EXPECT_EQ(AT_ONCE - 100, v.failed);
	EXPECT_EQ(-ENOSPC, HTW_ID_ERROR(ids[100]));
	EXPECT_EQ(-ENOSPC, cmd(HTW_ADD, &add));
	EXPECT_EQ(0, htw_stop(self->fd, ids[0]));
	EXPECT_EQ(0, cmd(HTW_ADD, &add));
}

/* Each after the one before it, also where one is a worker's. */
CMD_TEST(linked)
{
	static __u64 ids[MANY], deadlines[MANY];
	struct htw_vector_args many = htw_vector_add(ids, deadlines, NULL, MANY);
	/* The id that HTW_ADD writes is the one that HTW_CANCEL reads; flags are the cookie. */
	union {
		struct htw_add_args add;
		struct htw_cancel_args cancel;
	} timer = { .add = htw_rel(HOUR, 0) };
	const unsigned int flags = variant->sqe_flags | IOSQE_IO_LINK;
	unsigned int i;

	for (i = 0; i < MANY; i++)
		deadlines[i] = HOUR;
	prep(&self->ring, self->fd, HTW_ADD, &timer)->flags = flags;
	prep(&self->ring, self->fd, HTW_VECTOR, &many)->flags = flags;
	prep(&self->ring, self->fd, HTW_CANCEL, &timer)->flags = flags;
	/* It is unknown now. */
	prep(&self->ring, self->fd, HTW_CANCEL, &timer)->flags = flags;
	prep(&self->ring, self->fd, HTW_VECTOR, &many)->flags = variant->sqe_flags;
	ASSERT_LE(0, io_uring_submit(&self->ring));
	EXPECT_EQ(0, result(&self->ring));
	EXPECT_EQ(0, result(&self->ring));
	EXPECT_EQ(0, result(&self->ring));
	/* The state of the cancelled timer is where HTW_CANCEL has it. */
	EXPECT_EQ(HTW_STATE_PENDING, timer.cancel.state);
	EXPECT_EQ(-ENOENT, result(&self->ring));
	EXPECT_EQ(-ECANCELED, result(&self->ring));
	EXPECT_EQ(MANY, htw_timers(self->fd));
}

CMD_TEST(registered_file)
{
	struct htw_add_args add = htw_rel(5 * MSEC, 3);
	struct io_uring_sqe *sqe;
	struct htw_event ev;

	ASSERT_EQ(0, io_uring_register_files(&self->ring, &self->fd, 1));
	sqe = prep(&self->ring, 0, HTW_ADD, &add);
	EXPECT_EQ(0, submit(&self->ring, sqe, variant->sqe_flags | IOSQE_FIXED_FILE));
	ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
	EXPECT_EQ(3, ev.cookie);
	/* It keeps the context. */
	close(self->fd);
	sqe = prep(&self->ring, 0, HTW_ADD, &add);
	EXPECT_EQ(0, submit(&self->ring, sqe, variant->sqe_flags | IOSQE_FIXED_FILE));
	self->fd = htw_open(O_NONBLOCK);
}

/* Timers are charged to the user who opened the device, with any credentials of the call. */
CMD_TEST(personality)
{
	struct htw_add_args add = htw_rel(HOUR, 3);
	struct io_uring_sqe *sqe;
	int nobody;

	ASSERT_EQ(0, seteuid(NOBODY));
	nobody = io_uring_register_personality(&self->ring);
	ASSERT_EQ(0, seteuid(0));
	ASSERT_LT(0, nobody);
	sqe = prep(&self->ring, self->fd, HTW_ADD, &add);
	sqe->personality = nobody;
	EXPECT_EQ(0, submit(&self->ring, sqe, variant->sqe_flags));
	EXPECT_EQ(HTW_STATE_PENDING, htw_query(self->fd, add.id).state);
	EXPECT_LT(0, htw_info(self->fd).bytes);
}

/* In a time namespace an absolute deadline is the caller's, as those of the ioctl. */
static bool deadline_in_namespace(unsigned int flags, unsigned int sqe_flags)
{
	const __u64 when = now_ns() + HOUR;
	struct htw_add_args add = htw_abs(when, 1);
	struct htw_mod_args mod = {
		.deadline = when + HOUR, .flags = HTW_MOD_DEADLINE | HTW_F_ABS,
	};
	__u64 id, deadline = when + 2 * HOUR;
	struct htw_vector_args v = htw_vector_add(&id, &deadline, NULL, 1);
	const int fd = htw_open(O_NONBLOCK);
	struct io_uring ring;
	bool right;

	v.flags = HTW_F_ABS;
	if (fd < 0 || io_uring_queue_init(8, &ring, flags))
		return false;
	right = !submit(&ring, prep(&ring, fd, HTW_ADD, &add), sqe_flags) &&
		htw_query(fd, add.id).deadline == when &&
		htw_query(fd, add.id).remaining <= HOUR;
	mod.id = add.id;
	right = right && !submit(&ring, prep(&ring, fd, HTW_MOD, &mod), sqe_flags) &&
		htw_query(fd, add.id).deadline == when + HOUR &&
		!submit(&ring, prep(&ring, fd, HTW_VECTOR, &v), sqe_flags) &&
		htw_query(fd, id).deadline == deadline &&
		htw_query(fd, id).remaining <= 3 * HOUR;
	io_uring_queue_exit(&ring);
	return right;
}

CMD_TEST(time_namespace)
{
	const int status = in_namespace(86400, 86400,
		deadline_in_namespace(variant->flags, variant->sqe_flags));

	if (status == 77)
		SKIP(return, "no time namespaces");
	EXPECT_EQ(0, status);
}

/* Argument of any command, and what is around it. */
union any {
	struct htw_add_args add;
	struct htw_mod_args mod;
	struct htw_cancel_args cancel;
	struct htw_vector_args vector;
	__u64 words[16];
};

/* A call at random, as often right as not. Return: its number. */
static unsigned int draw_call(union any *arg, __u64 *seed, const __u64 *known, __u64 *array)
{
	static const __u64 times[8] = { 0, 1, HOUR, 2 * HOUR, ~0ULL, 1ULL << 63, HOUR, HOUR };
	const __u64 random = xorshift64(seed) >> 8;
	const __u64 id = random & 32 ? known[random % 8] : random;
	const __u64 when = random & 64 ? xorshift64(seed) : xorshift64(seed) % HOUR;
	unsigned int command = HTW_VECTOR;

	memset(arg, 0, sizeof(*arg));
	switch (random % 5) {
	case 0:
	case 1:
		command = HTW_ADD;
		arg->add = htw_rel(when, random);
		arg->add.flags = (random >> 16) & (random >> 32) & 7;
		arg->add.interval = random & 128 ? when : 0;
		break;
	case 2:
		command = HTW_MOD;
		arg->mod = (struct htw_mod_args){
			.id = id, .deadline = when, .flags = HTW_MOD_DEADLINE,
		};
		arg->mod.flags ^= (random >> 16) & (random >> 32) & 0x1f01;
		break;
	case 3:
		command = HTW_CANCEL;
		arg->cancel = htw_cancel_of(id);
		arg->cancel.flags = (random >> 16) % 8 == 1;
		break;
	default:
		for (unsigned int i = 0; i < 8; i++)
			array[i] = random & 256 ? known[i] : i;
		arg->vector = htw_vector_add(array, times, NULL, (random >> 16) % 8);
		arg->vector.op = (random >> 20) % 4;
		if (arg->vector.op == HTW_OP_CANCEL)
			arg->vector.deadlines = 0;
		if (arg->vector.op == HTW_OP_MOD)
			arg->vector.flags = HTW_MOD_DEADLINE;
	}
	/* One word that is another one. */
	if ((random >> 40) % 8 == 0 && command != HTW_VECTOR)
		arg->words[(random >> 44) % 7] ^= xorshift64(seed);
	if ((random >> 40) % 16 == 1)
		command += 8 << 16;
	return command;
}

/* On two contexts, whose time stands still, the same calls do the same, whoever makes them. */
CMD_TEST(same_as_the_ioctl)
{
	const struct htw_setup_args setup = {
		.flags = HTW_SETUP_CLOCK, .clock = (__u32)HTW_CLOCK_MANUAL, .limit = 500,
	};
	const int other = htw_open(O_NONBLOCK);
	__u64 seed = 12345, known[2][8] = { 0 };
	unsigned int i, done = 0, failed = 0;

	ASSERT_EQ(0, htw_set_up(self->fd, setup));
	ASSERT_EQ(0, htw_set_up(other, setup));
	for (i = 0; i < 4000; i++) {
		__u64 array[8], result_array[8];
		union any by_ioctl, by_ring;
		__u64 before = seed;
		unsigned int command = draw_call(&by_ioctl, &seed, known[0], array), k;
		int ret = htw_call(other, command, &by_ioctl);

		memcpy(result_array, array, sizeof(array));
		draw_call(&by_ring, &before, known[1], array);
		ASSERT_EQ(ret, cmd(command, &by_ring)) {
			TH_LOG("call %u, command %x", i, command);
		}
		/* The first word is the id, of which a part is the context's own. */
		for (k = 1; k < ARRAY_SIZE(by_ring.words); k++) {
			ASSERT_EQ(by_ioctl.words[k], by_ring.words[k]) {
				TH_LOG("call %u, command %x, word %u", i, command, k);
			}
		}
		for (k = 0; command == HTW_VECTOR && k < 8; k++)
			ASSERT_EQ(HTW_ID_ERROR(result_array[k]), HTW_ID_ERROR(array[k]));
		if (!ret && _IOC_NR(command) == _IOC_NR(HTW_ADD)) {
			known[0][i % 8] = by_ioctl.add.id;
			known[1][i % 8] = by_ring.add.id;
		}
		ASSERT_EQ(htw_timers(other), htw_timers(self->fd));
		done += !ret;
		failed += !!ret;
	}
	EXPECT_LT(500, done);
	EXPECT_LT(500, failed);
	close(other);
}

/* ---- what ends meanwhile ---- */

/* What there is agrees: the count, and the timers that are listed. */
static bool is_consistent(int fd)
{
	static struct htw_timer_info entries[1024];
	struct htw_list_args list = htw_list_of(entries, ARRAY_SIZE(entries));
	__u64 listed = 0;
	struct htw_cancel_all_args all = { .flags = 0 };

	do {
		if (htw_call(fd, HTW_LIST, &list))
			return false;
		listed += list.done;
	} while (list.done);
	if (htw_timers(fd) != listed || htw_call(fd, HTW_CANCEL_ALL, &all) || all.count != listed)
		return false;
	return !htw_timers(fd) && htw_start(fd, HOUR, 1) && htw_timers(fd) == 1 &&
	       !htw_call(fd, HTW_CANCEL_ALL, &all) && all.count == 1;
}

CMD_TEST(ring_closed_meanwhile)
{
	static __u64 ids[MANY], deadlines[MANY];
	static struct htw_add_args adds[100];
	int i, k;

	for (i = 0; i < (int)MANY; i++)
		deadlines[i] = HOUR;
	for (i = 0; i < 20; i++) {
		struct htw_vector_args v = htw_vector_add(ids, deadlines, NULL, MANY);
		struct io_uring ring;

		ASSERT_EQ(0, io_uring_queue_init(128, &ring, variant->flags));
		prep(&ring, self->fd, HTW_VECTOR, &v)->flags = variant->sqe_flags;
		for (k = 0; k < 100; k++) {
			adds[k] = htw_rel(HOUR, k);
			prep(&ring, self->fd, HTW_ADD, &adds[k])->flags = variant->sqe_flags;
		}
		ASSERT_EQ(101, io_uring_submit(&ring));
		sleep_until(now_ns() + i * 200 * USEC);
		io_uring_queue_exit(&ring);
		ASSERT_TRUE(htw_eventually(is_consistent(self->fd)));
	}
}

/* A process that is killed while it submits what takes long. */
CMD_TEST(killed_meanwhile)
{
	static __u64 ids[MANY], deadlines[MANY];
	int i, status;

	for (i = 0; i < (int)MANY; i++)
		deadlines[i] = HOUR;
	for (i = 0; i < 20; i++) {
		const pid_t pid = fork();

		ASSERT_LE(0, pid);
		if (!pid) {
			struct io_uring ring;

			if (io_uring_queue_init(128, &ring, variant->flags))
				_exit(1);
			for (;;) {
				struct htw_vector_args add, cancel;

				add = htw_vector_add(ids, deadlines, NULL, MANY);
				cancel = htw_vector_cancel(ids, MANY);
				submit(&ring, prep(&ring, self->fd, HTW_VECTOR, &add),
				       variant->sqe_flags);
				submit(&ring, prep(&ring, self->fd, HTW_VECTOR, &cancel),
				       variant->sqe_flags);
			}
		}
		sleep_until(now_ns() + (20 + i) * MSEC);
		ASSERT_EQ(0, kill(pid, SIGKILL));
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_TRUE(WIFSIGNALED(status));
		ASSERT_TRUE(htw_eventually(is_consistent(self->fd)));
	}
}

struct mapper {
	char *at;
	size_t size;
	bool stop;
};

/* Take memory away, and give other memory, all the time. */
static void *map_and_unmap(void *arg)
{
	struct mapper *m = arg;

	while (!READ_ONCE(m->stop)) {
		if (mmap(m->at, m->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
			 0) == MAP_FAILED ||
		    mmap(m->at, m->size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
			return m;
	}
	return NULL;
}

/* What was memory when a command was submitted is none when it is made, or is other memory. */
CMD_TEST(unmapped_meanwhile)
{
	enum { SQES = 64, PAGES = 16 };
	struct mapper m = { .size = PAGES * PAGE };
	unsigned int i, k, faults = 0;
	pthread_t thread;
	void *failed;

	m.at = mmap(NULL, m.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, m.at);
	ASSERT_EQ(0, pthread_create(&thread, NULL, map_and_unmap, &m));
	for (i = 0; i < 100; i++) {
		__u64 *array = (__u64 *)m.at;
		struct htw_vector_args v = htw_vector_add(array, array, NULL, 5000);

		for (k = 0; k < SQES; k++) {
			const unsigned int op = k % 3 ? HTW_ADD : k % 2 ? HTW_MOD : HTW_CANCEL;

			prep(&self->ring, self->fd, op, m.at + (k + 1) * PAGE / 4 - 8)->flags =
				variant->sqe_flags;
		}
		prep(&self->ring, self->fd, HTW_VECTOR, &v)->flags = variant->sqe_flags;
		ASSERT_LE(0, io_uring_submit(&self->ring));
		for (k = 0; k < SQES + 1; k++) {
			const int ret = result(&self->ring);

			ASSERT_TRUE(!ret || ret == -EFAULT || ret == -ENOENT || ret == -EINVAL) {
				TH_LOG("result %d", ret);
			}
			faults += ret == -EFAULT;
		}
	}
	WRITE_ONCE(m.stop, true);
	ASSERT_EQ(0, pthread_join(thread, &failed));
	EXPECT_EQ(NULL, failed);
	EXPECT_TRUE(is_consistent(self->fd));
	munmap(m.at, m.size);
	if (!faults && __test_passed(_metadata))
		SKIP(return, "no memory was gone when it was written to");
}

/* More completions than there is room for: each comes, and each id is known. */
CMD_TEST(completions_overflow)
{
	enum { SQES = 400, ROUNDS = 8 };
	static struct htw_add_args adds[ROUNDS][SQES];
	static bool seen[ROUNDS][SQES];
	struct io_uring_cqe *cqe;
	unsigned int i, k, count = 0;

	memset(seen, 0, sizeof(seen));
	for (i = 0; i < ROUNDS; i++) {
		for (k = 0; k < SQES; k++) {
			struct io_uring_sqe *sqe;

			adds[i][k] = htw_rel(HOUR, k);
			/* With IORING_SETUP_SQPOLL there is room when the thread has been there. */
			ASSERT_TRUE(htw_eventually(io_uring_sq_space_left(&self->ring)));
			sqe = prep(&self->ring, self->fd, HTW_ADD, &adds[i][k]);
			sqe->flags = variant->sqe_flags;
			sqe->user_data = i * SQES + k;
		}
		ASSERT_LE(0, io_uring_submit(&self->ring));
	}
	for (; count < ROUNDS * SQES; count++) {
		struct __kernel_timespec ts = { .tv_sec = EVENTUALLY / SEC };

		ASSERT_EQ(0, io_uring_wait_cqe_timeout(&self->ring, &cqe, &ts));
		ASSERT_EQ(0, cqe->res);
		i = cqe->user_data / SQES;
		k = cqe->user_data % SQES;
		ASSERT_FALSE(seen[i][k]);
		seen[i][k] = true;
		io_uring_cqe_seen(&self->ring, cqe);
		ASSERT_EQ(HTW_STATE_PENDING, htw_query(self->fd, adds[i][k].id).state);
	}
	EXPECT_EQ(ROUNDS * SQES, htw_timers(self->fd));
	EXPECT_EQ(0, io_uring_cq_ready(&self->ring));
}

/* ---- what sleeps, and what does not; other rings ---- */

#define HTW_RING(ring, entries, flags)					\
	struct io_uring ring;						\
	if (io_uring_queue_init(entries, &(ring), flags))		\
		SKIP(return, "no such ring")

/* What needs no worker completes before io_uring_enter() returns: pages, bases, levels are new. */
HTW_TEST(at_once)
{
	enum { ROUNDS = 40, EACH = 128 };
	static struct htw_add_args adds[ROUNDS][EACH];
	static struct htw_cancel_args cancels[EACH];
	static struct htw_mod_args mods[EACH];
	__u64 ids[AT_ONCE], deadlines[AT_ONCE];
	struct htw_vector_args v = htw_vector_add(ids, deadlines, NULL, AT_ONCE);
	int i, k;
	HTW_RING(ring, 3 * EACH, 0);

	for (k = 0; k < (int)AT_ONCE; k++)
		deadlines[k] = HOUR;
	for (i = 0; i < ROUNDS; i++) {
		for (k = 0; k < EACH; k++) {
			adds[i][k] = htw_rel(HOUR, k);
			prep(&ring, self->fd, HTW_ADD, &adds[i][k]);
		}
		prep(&ring, self->fd, HTW_VECTOR, &v);
		ASSERT_EQ(EACH + 1, io_uring_submit(&ring));
		ASSERT_EQ(EACH + 1, io_uring_cq_ready(&ring));
		for (k = 0; k < EACH + 1; k++)
			ASSERT_EQ(0, result(&ring));
		ASSERT_EQ(AT_ONCE, v.done);
		ASSERT_EQ(0, v.failed);
	}
	ASSERT_EQ(ROUNDS * (EACH + AT_ONCE), htw_timers(self->fd));
	for (i = 0; i < ROUNDS; i++) {
		for (k = 0; k < EACH; k++) {
			mods[k] = (struct htw_mod_args){
				.id = adds[i][k].id, .deadline = HOUR, .flags = HTW_MOD_DEADLINE,
			};
			cancels[k] = htw_cancel_of(adds[i][k].id);
			cancels[k].flags = 0;
			prep(&ring, self->fd, HTW_MOD, &mods[k]);
			prep(&ring, self->fd, HTW_CANCEL, &cancels[k]);
		}
		ASSERT_EQ(2 * EACH, io_uring_submit(&ring));
		ASSERT_EQ(2 * EACH, io_uring_cq_ready(&ring));
		for (k = 0; k < 2 * EACH; k++)
			ASSERT_EQ(0, result(&ring));
	}
	EXPECT_EQ(ROUNDS * AT_ONCE, htw_timers(self->fd));
	EXPECT_EQ(0, worker_switches());
	io_uring_queue_exit(&ring);
}

/* A worker carries out what may take memory several times. */
HTW_TEST(by_a_worker)
{
	static __u64 ids[MANY], deadlines[MANY];
	struct htw_vector_args v = htw_vector_add(ids, deadlines, NULL, AT_ONCE + 1);
	HTW_RING(ring, 8, 0);

	ASSERT_EQ(0, submit(&ring, prep(&ring, self->fd, HTW_VECTOR, &v), 0));
	EXPECT_EQ(AT_ONCE + 1, v.done);
	EXPECT_LT(0, worker_switches());
	io_uring_queue_exit(&ring);
}

struct grower {
	int fd;
	bool stop;
};

/* Have the context grow and shrink all the time: both take its mutex. */
static void *grow_and_shrink(void *arg)
{
	struct grower *g = arg;
	static __u64 ids[20000];

	while (!READ_ONCE(g->stop))
		htw_stop_many(g->fd, ids, htw_start_many(g->fd, now_ns() + HOUR, 0, 20000, ids));
	return NULL;
}

/* While another task holds the context's mutex to add pages, a worker makes the call. */
HTW_TEST(beside_one_that_grows)
{
	enum { ROUNDS = 20, ADDS = 64 };
	static struct htw_add_args adds[ROUNDS][ADDS];
	static __u64 ids[ROUNDS][AT_ONCE], deadlines[AT_ONCE];
	struct htw_vector_args v[ROUNDS];
	struct grower g = { .fd = self->fd };
	const __u64 end = now_ns() + EVENTUALLY;
	pthread_t thread;
	long switches;
	int i, k;
	HTW_RING(ring, ROUNDS * (ADDS + 1), 0);

	if (htw_cpus() < 2)
		SKIP(return, "one CPU");
	for (k = 0; k < (int)AT_ONCE; k++)
		deadlines[k] = HOUR;
	ASSERT_EQ(0, pthread_create(&thread, NULL, grow_and_shrink, &g));
	ASSERT_EQ(0, htw_pin(1));
	do {
		for (i = 0; i < ROUNDS; i++) {
			for (k = 0; k < ADDS; k++) {
				adds[i][k] = htw_rel(HOUR, k);
				prep(&ring, self->fd, HTW_ADD, &adds[i][k]);
			}
			v[i] = htw_vector_add(ids[i], deadlines, NULL, AT_ONCE);
			prep(&ring, self->fd, HTW_VECTOR, &v[i]);
		}
		ASSERT_EQ(ROUNDS * (ADDS + 1), io_uring_submit(&ring));
		for (i = 0; i < ROUNDS * (ADDS + 1); i++)
			ASSERT_EQ(0, result(&ring));
		for (i = 0; i < ROUNDS; i++) {
			for (k = 0; k < ADDS; k++)
				ASSERT_EQ(0, htw_stop(self->fd, adds[i][k].id));
			ASSERT_EQ(AT_ONCE, v[i].done);
			ASSERT_EQ(AT_ONCE, htw_stop_many(self->fd, ids[i], AT_ONCE));
		}
	} while (!worker_switches() && now_ns() < end);
	WRITE_ONCE(g.stop, true);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	/* The workers end with the ring. */
	switches = worker_switches();
	EXPECT_EQ(0, htw_timers(self->fd));
	io_uring_queue_exit(&ring);
	if (!switches && __test_passed(_metadata))
		SKIP(return, "no add or vector met the mutex of the context locked within %llu s",
		     EVENTUALLY / SEC);
}

/* A program may use an SQE again once it is submitted, while a worker is busy with others. */
HTW_TEST(sqe_is_used_again)
{
	enum { VECTORS = 8 };
	static __u64 ids[VECTORS][1000], deadlines[1000], no_ids[1000000];
	struct htw_vector_args v[VECTORS], slow;
	unsigned int one[2] = { 1, 1 };
	int i, k;
	HTW_RING(ring, 2 * VECTORS, 0);

	ASSERT_EQ(0, io_uring_register_iowq_max_workers(&ring, one));
	for (k = 0; k < 1000; k++)
		deadlines[k] = HOUR;
	ASSERT_NE(0, htw_start(self->fd, HOUR, 1));
	for (i = 0; i < 10; i++) {
		slow = htw_vector_cancel(no_ids, ARRAY_SIZE(no_ids));
		prep(&ring, self->fd, HTW_VECTOR, &slow)->flags = IOSQE_ASYNC;
		for (k = 0; k < VECTORS; k++) {
			v[k] = htw_vector_add(ids[k], deadlines, NULL, 1000);
			prep(&ring, self->fd, HTW_VECTOR, &v[k]);
		}
		ASSERT_EQ(VECTORS + 1, io_uring_submit(&ring));
		memset(ring.sq.sqes, 0xff, 2 * VECTORS * sizeof(*ring.sq.sqes));
		for (k = 0; k < VECTORS + 1; k++)
			EXPECT_EQ(0, result(&ring));
		for (k = 0; k < VECTORS; k++) {
			EXPECT_EQ(1000, v[k].done);
			EXPECT_EQ(1000, htw_stop_many(self->fd, ids[k], 1000));
		}
	}
	EXPECT_EQ(1, htw_timers(self->fd));
	io_uring_queue_exit(&ring);
}

/* Refused, or as on another ring where the kernel lets it, as newer ones do. */
HTW_TEST(iopoll)
{
	struct htw_add_args add = htw_rel(HOUR, 1);
	int ret;
	HTW_RING(ring, 8, IORING_SETUP_IOPOLL);

	ret = submit(&ring, prep(&ring, self->fd, HTW_ADD, &add), 0);
	EXPECT_TRUE(ret == -EOPNOTSUPP || ret == 0) {
		TH_LOG("result %d", ret);
	}
	EXPECT_EQ(!ret, htw_timers(self->fd));
	io_uring_queue_exit(&ring);
}

/* What follows in an SQE of twice the size is zero as well. */
HTW_TEST(sqe128)
{
	struct htw_add_args add = htw_rel(HOUR, 1);
	struct io_uring_sqe *sqe;
	unsigned int i;
	HTW_RING(ring, 8, IORING_SETUP_SQE128 | IORING_SETUP_CQE32);

	for (i = 16; i < 80; i += 7) {
		sqe = prep(&ring, self->fd, HTW_ADD, &add);
		memset(sqe + 1, 0, sizeof(*sqe));
		((char *)sqe)[SQE_CMD + i] = 1;
		EXPECT_EQ(-EINVAL, submit(&ring, sqe, 0));
	}
	sqe = prep(&ring, self->fd, HTW_ADD, &add);
	memset(sqe + 1, 0, sizeof(*sqe));
	EXPECT_EQ(0, submit(&ring, sqe, 0));
	EXPECT_EQ(1, htw_timers(self->fd));
	io_uring_queue_exit(&ring);
}

TEST_HARNESS_MAIN
