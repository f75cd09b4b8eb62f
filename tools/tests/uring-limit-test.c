// SPDX-License-Identifier: GPL-2.0-only
/*
 * Limits, for commands of io_uring: those of the user who opened the device,
 * and of the cgroup of the process
 *
 * Needs a module loaded with a limit that can be reached.
 *
 * VM options: --module-args max_user_timers=10000
 */
#include "htw-memory.h"
#include "htw-uring.h"

#include <sys/resource.h>
#include <sys/wait.h>

#define PARAMETER	HTW_MODULE "max_user_timers"
#define REFUSED		HTW_MODULE "refused"
/* A higher limit would test the machine's memory. */
#define SENSIBLE	2000000ULL

#define COUNT		100000U
/* More than io_uring allocates at once. */
#define REQUESTS	64
/* Adds in a vector that does not need a worker. */
#define AT_ONCE		256U

#define STEP(cond) do {							\
	if (!(cond)) {							\
		TH_LOG("not so: %s", #cond);				\
		return false;						\
	}								\
} while (0)

static __u64 ids[COUNT], deadlines[COUNT];

FIXTURE(limit) {
	__u64 limit;
};

FIXTURE_VARIANT(limit) {
	unsigned int flags;
	unsigned int sqe_flags;
};

FIXTURE_VARIANT_ADD(limit, enter) {
	.flags = 0,
};

FIXTURE_VARIANT_ADD(limit, worker) {
	.sqe_flags = IOSQE_ASYNC,
};

FIXTURE_VARIANT_ADD(limit, sqpoll) {
	.flags = IORING_SETUP_SQPOLL,
};

FIXTURE_SETUP(limit)
{
	struct io_uring ring;
	const int ret = io_uring_queue_init(8, &ring, 0);

	if (ret == -ENOSYS || ret == -EPERM)
		SKIP(return, "no io_uring");
	ASSERT_EQ(0, ret);
	io_uring_queue_exit(&ring);
	self->limit = htw_file_number(PARAMETER);
	ASSERT_TRUE(open_to_all());
	for (unsigned int i = 0; i < COUNT; i++)
		deadlines[i] = ~0ULL;
}

FIXTURE_TEARDOWN(limit)
{
}

#define LIMIT_TEST(name) TEST_F_TIMEOUT(limit, name, TEST_SECONDS)

/* ---- of a user ---- */

static bool as_user(uid_t uid)
{
	return !setresgid(uid, uid, uid) && !setresuid(uid, uid, uid);
}

/* Add timers by commands until one fails. Return: its result. */
static int fill(struct io_uring *ring, int fd, unsigned int sqe_flags, __u64 most)
{
	struct htw_vector_args v = htw_vector_add(ids, deadlines, NULL, 100);
	struct htw_add_args add;
	int ret;

	/* Most of them by vectors, of which each operation has a result. */
	do {
		ret = submit(ring, prep(ring, fd, HTW_VECTOR, &v), sqe_flags);
		if (ret || v.done != 100)
			return ret ?: -EIO;
		most -= 100;
	} while (!v.failed && most > 100);
	for (; most; most--) {
		add = htw_rel(HOUR, 1);
		ret = submit(ring, prep(ring, fd, HTW_ADD, &add), sqe_flags);
		if (ret)
			return add.id == POISON ? ret : -EIO;
	}
	return 0;
}

/* All of it by commands; then what the ioctl says is what a command says. */
static bool use_up(struct __test_metadata *_metadata, uid_t uid, __u64 limit, unsigned int flags,
		   unsigned int sqe_flags)
{
	struct htw_vector_args v = htw_vector_add(ids, deadlines, NULL, 10);
	struct htw_add_args add = htw_rel(HOUR, 1);
	struct htw_cancel_args cancel;
	struct io_uring ring;
	__u64 refused;
	int fd;

	STEP(as_user(uid));
	fd = htw_open(O_NONBLOCK);
	STEP(fd >= 0 && !io_uring_queue_init(8, &ring, flags));
	STEP(htw_info(fd).user_limit == limit);
	refused = htw_file_number(REFUSED);
	STEP(fill(&ring, fd, sqe_flags, SENSIBLE) == -EDQUOT);
	STEP(htw_file_number(REFUSED) > refused);
	STEP(htw_timers(fd) > limit * 9 / 10);
	STEP(htw_info(fd).user_timers <= limit && htw_info(fd).user_timers + 80 > limit);
	STEP(htw_call(fd, HTW_ADD, &add) == -EDQUOT);
	STEP(submit(&ring, prep(&ring, fd, HTW_ADD, &add), sqe_flags) == -EDQUOT);
	STEP(!submit(&ring, prep(&ring, fd, HTW_VECTOR, &v), sqe_flags));
	STEP(v.done == 10 && v.failed == 10);
	for (unsigned int i = 0; i < 10; i++)
		STEP(HTW_ID_ERROR(ids[i]) == -EDQUOT);

	/* Room for one again. */
	STEP(htw_start(fd, 0, 1) == 0);
	{
		struct htw_timer_info entry;
		struct htw_list_args list = htw_list_of(&entry, 1);

		STEP(!htw_call(fd, HTW_LIST, &list) && list.done == 1);
		cancel = htw_cancel_of(entry.id);
		cancel.flags = 0;
	}
	STEP(!submit(&ring, prep(&ring, fd, HTW_CANCEL, &cancel), sqe_flags));
	STEP(!submit(&ring, prep(&ring, fd, HTW_ADD, &add), sqe_flags));
	STEP(submit(&ring, prep(&ring, fd, HTW_ADD, &add), sqe_flags) == -EDQUOT);

	/* Nothing is left, even if the ring is; a worker may have the file for a moment. */
	close(fd);
	fd = htw_open(O_NONBLOCK);
	STEP(htw_eventually(!htw_info(fd).user_timers) && !htw_info(fd).bytes);
	io_uring_queue_exit(&ring);
	return true;
}

LIMIT_TEST(of_the_user)
{
	if (self->limit > SENSIBLE)
		SKIP(return, "max_user_timers=%llu is too many to use up", self->limit);
	EXPECT_TRUE(htw_in_child(use_up(_metadata, 65520, self->limit, variant->flags,
					variant->sqe_flags)));
}

/* It is the opener's, whoever has made the ring, and whatever personality an SQE names. */
static bool use_with_personality(struct __test_metadata *_metadata, uid_t opener, uid_t caller,
				 __u64 limit, unsigned int flags, unsigned int sqe_flags)
{
	struct htw_vector_args v = htw_vector_add(ids, deadlines, NULL, 1000);
	struct htw_add_args add = htw_rel(HOUR, 1);
	struct io_uring_sqe *sqe;
	struct io_uring ring;
	int fd, personality;

	STEP(!setresuid(opener, opener, 0));
	fd = htw_open(O_NONBLOCK);
	STEP(!setresuid(0, 0, 0) && !setresuid(caller, caller, 0));
	STEP(fd >= 0 && !io_uring_queue_init(8, &ring, flags));
	personality = io_uring_register_personality(&ring);
	STEP(personality > 0);
	for (__u64 n = 0; n <= limit; n += 1000) {
		v.done = 0;
		sqe = prep(&ring, fd, HTW_VECTOR, &v);
		sqe->personality = personality;
		STEP(!submit(&ring, sqe, sqe_flags) && v.done == 1000);
	}
	sqe = prep(&ring, fd, HTW_ADD, &add);
	sqe->personality = personality;
	STEP(submit(&ring, sqe, sqe_flags) == (opener ? -EDQUOT : 0));
	STEP(opener ? v.failed && htw_timers(fd) < limit : !v.failed && htw_timers(fd) > limit);
	io_uring_queue_exit(&ring);
	return true;
}

LIMIT_TEST(of_the_opener)
{
	if (self->limit > SENSIBLE)
		SKIP(return, "max_user_timers=%llu is too many to use up", self->limit);
	EXPECT_TRUE(htw_in_child(use_with_personality(_metadata, 65519, 0, self->limit,
						      variant->flags, variant->sqe_flags)));
	EXPECT_TRUE(htw_in_child(use_with_personality(_metadata, 0, 65518, self->limit,
						      variant->flags, variant->sqe_flags)));
}

/* Without a worker what needs one is not done, and what needs none is. */
static bool have_no_worker(struct __test_metadata *_metadata, uid_t uid)
{
	struct htw_vector_args v = htw_vector_add(ids, deadlines, NULL, AT_ONCE + 1);
	const struct rlimit none = { 0 };
	struct io_uring ring;
	int fd;

	STEP(!setrlimit(RLIMIT_NPROC, &none) && as_user(uid));
	fd = htw_open(O_NONBLOCK);
	STEP(fd >= 0 && !io_uring_queue_init(8, &ring, 0));
	STEP(submit(&ring, prep(&ring, fd, HTW_VECTOR, &v), 0) == -ECANCELED);
	STEP(v.done == POISON32 && v.failed == POISON32 && !htw_timers(fd));
	v.count = AT_ONCE;
	STEP(!submit(&ring, prep(&ring, fd, HTW_VECTOR, &v), 0) && v.done == AT_ONCE);
	STEP(htw_timers(fd) == AT_ONCE);
	io_uring_queue_exit(&ring);
	return true;
}

HTW_TEST(of_processes)
{
	ASSERT_TRUE(open_to_all());
	EXPECT_TRUE(htw_in_child(have_no_worker(_metadata, 65517)));
}

/* ---- of a cgroup ---- */

static char groups[2][160];

static __u64 charged(const char *group)
{
	char file[200];

	snprintf(file, sizeof(file), "%s/memory.current", group);
	return htw_file_number(file);
}

static bool make_groups(void)
{
	char root[100];

	if (!memory_cgroup(root, sizeof(root)))
		return false;
	for (int i = 0; i < 2; i++) {
		snprintf(groups[i], sizeof(groups[i]), "%s/htw-uring-%d", root, i);
		rmdir(groups[i]);
		if (mkdir(groups[i], 0755))
			return false;
	}
	return true;
}

static bool remove_groups(void)
{
	return htw_eventually(!rmdir(groups[0])) && htw_eventually(!rmdir(groups[1]));
}

#define GROUPS() do {							\
	if (!make_groups())						\
		SKIP(return, "no cgroup2 memory controller");		\
} while (0)

/* How often the OOM killer has killed one of the group. */
static bool was_killed(const char *group)
{
	char file[200], text[300];

	snprintf(file, sizeof(file), "%s/memory.events", group);
	return htw_read_file(file, text, sizeof(text)) || !strstr(text, "oom_kill 0");
}

/* Let a group have so much memory, or all. @file: its memory.max, as open() needs memory. */
static bool set_memory_limit(int file, __u64 bytes)
{
	char text[32] = "max";

	if (bytes)
		snprintf(text, sizeof(text), "%llu", bytes);
	return write(file, text, strlen(text)) == (ssize_t)strlen(text);
}

/*
 * Add timers until a command fails. Nothing else here needs memory, which
 * others than htw would get from the OOM killer. Return: the last result.
 */
static int fill_memory(struct io_uring *ring, int fd, unsigned int sqe_flags, int *of_ioctl,
		       int *of_vector)
{
	struct htw_vector_args v = htw_vector_add(ids, deadlines, NULL, AT_ONCE);
	struct htw_add_args add = htw_rel(HOUR, 1);
	unsigned int n = 0;
	int ret;

	do {
		ret = submit(ring, prep(ring, fd, HTW_VECTOR, &v), sqe_flags);
		n += AT_ONCE;
	} while (!ret && !v.failed && n < COUNT * 10);
	*of_vector = ret ?: HTW_ID_ERROR(ids[AT_ONCE - 1]);
	/* Free timers of the last page. */
	do {
		add.id = POISON;
		ret = submit(ring, prep(ring, fd, HTW_ADD, &add), sqe_flags);
		/* Some memory may have come back meanwhile. */
		*of_ioctl = ret ? htw_call(fd, HTW_ADD, &add) : 0;
	} while (!*of_ioctl && n++ < COUNT * 10);
	return add.id == POISON ? ret : -EIO;
}

/* At the limit ENOMEM as of an ioctl, and nobody is killed; memory that comes back can be used. */
static bool meet_memory_limit(struct __test_metadata *_metadata, unsigned int flags,
			      unsigned int sqe_flags)
{
	struct htw_cancel_all_args all = { 0 };
	struct htw_add_args add = htw_rel(HOUR, 1);
	struct io_uring ring;
	__u64 before, first = 0, n;
	int fd, limit, of_ioctl, of_vector, of_add;
	unsigned int workers[2] = { 1, 1 };
	char file[200];

	STEP(!htw_cgroup_move(groups[0], getpid()));
	fd = htw_open(O_NONBLOCK);
	STEP(fd >= 0 && !io_uring_queue_init(REQUESTS, &ring, flags));
	memset(ids, 0xff, sizeof(ids));
	snprintf(file, sizeof(file), "%s/memory.max", groups[0]);
	limit = open(file, O_WRONLY);
	/*
	 * At the limit io_uring's own memory, for workers and requests, is the OOM killer's. There
	 * is one worker: else it makes another whenever that one has not gone to sleep yet.
	 */
	STEP(!io_uring_register_iowq_max_workers(&ring, workers));
	for (unsigned int i = 0; i < REQUESTS; i++)
		prep(&ring, fd, HTW_ADD, &add)->flags = IOSQE_ASYNC;
	STEP(io_uring_submit(&ring) == REQUESTS);
	for (unsigned int i = 0; i < REQUESTS; i++)
		STEP(!result(&ring));
	before = charged(groups[0]);
	for (int round = 0; round < 3; round++) {
		STEP(set_memory_limit(limit, before + 4 * MIB));
		of_add = fill_memory(&ring, fd, sqe_flags, &of_ioctl, &of_vector);
		STEP(set_memory_limit(limit, 0));
		if (of_add != -ENOMEM || of_ioctl != -ENOMEM || of_vector != -ENOMEM)
			TH_LOG("results %d, %d and %d", of_add, of_ioctl, of_vector);
		STEP(of_add == -ENOMEM && of_ioctl == -ENOMEM && of_vector == -ENOMEM);
		STEP(!was_killed(groups[0]));
		n = htw_timers(fd);
		/* What CPUs have charged in advance counts before. */
		STEP(n * NODE > 3 * MIB && n * NODE < 5 * MIB);
		/* As many each time: what failed has left nothing behind. */
		STEP(!round || n + n / 8 > first);
		first = round ? first : n;
		STEP(!htw_call(fd, HTW_CANCEL_ALL, &all) && all.count == n);
	}
	close(fd);
	io_uring_queue_exit(&ring);
	return htw_eventually(charged(groups[0]) <= before + MIB);
}

LIMIT_TEST(of_the_cgroup)
{
	GROUPS();
	EXPECT_TRUE(htw_in_child(meet_memory_limit(_metadata, variant->flags,
						   variant->sqe_flags)));
	EXPECT_TRUE(remove_groups());
}

/* What commands are passed, at the same address in a process and its child. */
struct shared {
	struct htw_vector_args vector;
	struct htw_add_args add;
	__u64 ids[COUNT], deadlines[COUNT];
};

static bool add_to_others_ring(struct __test_metadata *_metadata, struct shared *s,
			       struct io_uring *ring, int fd, unsigned int sqe_flags, bool is_mine)
{
	const char *mine = groups[1], *others = groups[0];
	__u64 before[2];

	STEP(!htw_cgroup_move(mine, getpid()));
	STEP(!submit(ring, prep(ring, fd, HTW_ADD, &s->add), sqe_flags));
	before[0] = charged(others);
	before[1] = charged(mine);
	STEP(!submit(ring, prep(ring, fd, HTW_VECTOR, &s->vector), sqe_flags));
	STEP(htw_timers(fd) == COUNT + 1);
	STEP(charged(is_mine ? mine : others) + MIB >= before[is_mine] + COUNT * NODE);
	STEP(charged(is_mine ? others : mine) <= before[!is_mine] + MIB);
	return true;
}

static bool share_ring(struct __test_metadata *_metadata, unsigned int flags,
		       unsigned int sqe_flags)
{
	struct io_uring ring;
	struct shared *s;
	int fd;

	STEP(!htw_cgroup_move(groups[0], getpid()));
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	STEP(s != MAP_FAILED);
	/* All of it is charged now. */
	memset(s, 0xff, sizeof(*s));
	s->vector = htw_vector_add(s->ids, s->deadlines, NULL, COUNT);
	s->add = htw_rel(HOUR, 1);
	fd = htw_open(O_NONBLOCK);
	STEP(fd >= 0 && !io_uring_queue_init(8, &ring, flags));
	return htw_in_child(add_to_others_ring(_metadata, s, &ring, fd, sqe_flags,
					       !(flags & IORING_SETUP_SQPOLL)));
}

/*
 * The process that submits is charged, also if the ring is another one's; with
 * IORING_SETUP_SQPOLL it is the one that has made the ring.
 */
LIMIT_TEST(who_is_charged)
{
	GROUPS();
	EXPECT_TRUE(htw_in_child(share_ring(_metadata, variant->flags, variant->sqe_flags)));
	EXPECT_TRUE(remove_groups());
}

TEST_HARNESS_MAIN
