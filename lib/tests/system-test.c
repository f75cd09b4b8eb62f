// SPDX-License-Identifier: GPL-2.0-only
/*
 * libhtw and the system: what fails, what the library asks for, and what it gives back
 *
 * The linker redirects what the library calls to this file (--wrap), where any of it can fail.
 */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wclobbered"

#include "kselftest_harness.h"
#include "../libhtw.h"
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>

#define HOUR		(3600 * HTW_SEC)
#define POISON		0xa5a5a5a5a5a5a5a5ULL
#define EVENTUALLY	(90 * (int64_t)HTW_SEC)
#define TEST_SECONDS	240
#define KIB		1024L
#define MIB		(1024 * KIB)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED	true
#else
#define SANITIZED	false
#endif

/* What the library calls. */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__real_reallocarray(void *block, size_t count, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *block);
void *__real_mmap64(void *at, size_t size, int prot, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t size);
int __real_timerfd_create(int clock, int flags);
int __real_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		 const sigset_t *mask);
int __real_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr);

static struct {
	unsigned int fail_at;		/* the how many-th allocation fails; zero: none */
	unsigned int allocations;
	bool fail_aligned;		/* all of aligned_alloc() */
	int fail_timerfd;		/* errno of timerfd_create(), or zero */
	long blocks, mapped;		/* that are in use */
	unsigned int polls, mutexes, mutexes_pi;
	int64_t poll_timeout;
} sys;

static bool memory_fails(void)
{
	if (++sys.allocations != sys.fail_at)
		return false;
	errno = ENOMEM;
	return true;
}

static void *counted(void *block)
{
	sys.blocks += !!block;
	return block;
}

void *__wrap_malloc(size_t size)
{
	return memory_fails() ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
	return memory_fails() ? NULL : counted(__real_calloc(count, size));
}

void *__wrap_realloc(void *block, size_t size)
{
	const bool had = block;

	if (memory_fails())
		return NULL;
	block = __real_realloc(block, size);
	sys.blocks += !!block - (had && block);
	return block;
}

void *__wrap_reallocarray(void *block, size_t count, size_t size)
{
	const bool had = block;

	if (memory_fails())
		return NULL;
	block = __real_reallocarray(block, count, size);
	sys.blocks += !!block - (had && block);
	return block;
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
	if (memory_fails())
		return NULL;
	if (sys.fail_aligned) {
		errno = ENOMEM;
		return NULL;
	}
	return counted(__real_aligned_alloc(alignment, size));
}

void __wrap_free(void *block)
{
	sys.blocks -= !!block;
	__real_free(block);
}

/* Whole pages. */
static long pages(size_t size)
{
	const size_t page = sysconf(_SC_PAGESIZE);

	return (size + page - 1) / page * page;
}

void *__wrap_mmap64(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
	void *map;

	if (memory_fails())
		return MAP_FAILED;
	map = __real_mmap64(at, size, prot, flags, fd, offset);
	if (map != MAP_FAILED)
		sys.mapped += pages(size);
	return map;
}

int __wrap_munmap(void *at, size_t size)
{
	sys.mapped -= pages(size);
	return __real_munmap(at, size);
}

int __wrap_timerfd_create(int clock, int flags)
{
	if (sys.fail_timerfd) {
		errno = sys.fail_timerfd;
		return -1;
	}
	return __real_timerfd_create(clock, flags);
}

int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		 const sigset_t *mask)
{
	sys.polls++;
	sys.poll_timeout = timeout ? timeout->tv_sec * (int64_t)HTW_SEC + timeout->tv_nsec : -1;
	return __real_ppoll(fds, count, timeout, mask);
}

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr)
{
	int protocol = PTHREAD_PRIO_NONE;

	if (attr)
		pthread_mutexattr_getprotocol(attr, &protocol);
	sys.mutexes++;
	sys.mutexes_pi += protocol == PTHREAD_PRIO_INHERIT;
	return __real_pthread_mutex_init(mutex, attr);
}

/* How many descriptors the process has. */
static int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	while (dir && readdir(dir))
		count++;
	if (dir)
		closedir(dir);
	return count;
}

static struct htw_setup_args manual(void)
{
	return (struct htw_setup_args){ .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL };
}

static uint64_t timers(struct htw *htw)
{
	struct htw_info_args info;

	return htw_info(htw, &info) ? POISON : info.timers;
}

static void nothing(struct htw_dispatcher *d, uint64_t call, void *arg)
{
}

static uint64_t never(uint64_t previous, void *arg)
{
	return previous + HOUR;
}

FIXTURE(sys) {
	int none;
};

FIXTURE_SETUP(sys)
{
	struct htw *htw;

	/* What is made once in a program. */
	ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, NULL));
	htw_close(htw);
	memset(&sys, 0, sizeof(sys));
}

FIXTURE_TEARDOWN(sys)
{
}

#define SYS_TEST(name)	TEST_F_TIMEOUT(sys, name, TEST_SECONDS)

/* Memory that is missing. */

enum { FILLED = 5000, SOME = 3000, STEP = 1000 };

/* What calls are given, and where they store. */
struct given {
	struct htw *htw, *made;
	struct htw_dispatcher *d, *made_d;
	uint64_t out, ids[SOME], deadlines[SOME];
	int results[SOME];
	unsigned int had;	/* timers before the call */
};

static int call_open(struct given *g)
{
	const struct htw_setup_args setup = manual();

	return htw_open(&g->made, HTW_BACKEND_PROCESS, &setup);
}

static int call_open_default(struct given *g)
{
	return htw_open(&g->made, HTW_BACKEND_PROCESS, NULL);
}

static int call_open_wide(struct given *g)
{
	const struct htw_setup_args setup = {
		.flags = HTW_SETUP_PI, .limit = 1 << 26,
		.tick_ns = HTW_MSEC, .levels = 3, .slots = { 2048, 2048, 2048 },
	};

	return htw_open(&g->made, HTW_BACKEND_PROCESS, &setup);
}

static int call_shard(struct given *g)
{
	return htw_shard(&g->made, g->htw);
}

static int call_after(struct given *g)
{
	return htw_after(g->htw, HOUR, 1, &g->out);
}

static int call_after_no_id(struct given *g)
{
	return htw_after(g->htw, HOUR, 1, NULL);
}

static int call_at(struct given *g)
{
	return htw_at(g->htw, HOUR, 1, &g->out);
}

static int call_every(struct given *g)
{
	return htw_every(g->htw, HOUR, HOUR, 1, &g->out);
}

static int call_timeout(struct given *g)
{
	return htw_timeout(g->htw, HOUR, 1, &g->out);
}

static int call_add(struct given *g)
{
	struct htw_add_args add = { .id = POISON, .deadline = HOUR, .flags = HTW_F_KEEP };
	int ret = htw_add(g->htw, &add);

	g->out = add.id;
	return ret;
}

static int call_reserve(struct given *g)
{
	return htw_reserve(g->htw, 10 * FILLED);
}

static int call_add_many(struct given *g)
{
	return htw_add_many(g->htw, NULL, g->deadlines, NULL, g->ids, SOME, g->results);
}

static int call_add_many_put_off(struct given *g)
{
	const struct htw_add_args common = { .flags = HTW_F_PUT_OFF };

	return htw_add_many(g->htw, &common, g->deadlines, NULL, g->ids, SOME, g->results);
}

static int call_dispatcher_new(struct given *g)
{
	return htw_dispatcher_new(&g->made_d, g->htw);
}

static int call_call_after(struct given *g)
{
	return htw_call_after(g->d, HOUR, nothing, NULL, &g->out);
}

static int call_call_every(struct given *g)
{
	return htw_call_every(g->d, HOUR, HOUR, nothing, NULL, &g->out);
}

static int call_call_schedule(struct given *g)
{
	return htw_call_schedule(g->d, never, nothing, NULL, &g->out);
}

static const struct {
	const char *name;
	unsigned int fill;	/* timers that the handle has before */
	bool on_dispatcher, many;
	int (*call)(struct given *g);
} calls[] = {
	{ "htw_open", .call = call_open },
	{ "htw_open, by default", .call = call_open_default },
	{ "htw_open, wide", .call = call_open_wide },
	{ "htw_shard", .call = call_shard },
	{ "htw_after", .call = call_after },
	{ "htw_after, full", 1023, .call = call_after },
	{ "htw_after, fuller", 16 * 1023, .call = call_after },
	{ "htw_after, no id", .call = call_after_no_id },
	{ "htw_at", .call = call_at },
	{ "htw_every", .call = call_every },
	{ "htw_timeout", .call = call_timeout },
	{ "htw_timeout, full", 1023, .call = call_timeout },
	{ "htw_add", .call = call_add },
	{ "htw_reserve", .call = call_reserve },
	{ "htw_reserve, filled", FILLED, .call = call_reserve },
	{ "htw_add_many", .many = true, .call = call_add_many },
	{ "htw_add_many, filled", FILLED, .many = true, .call = call_add_many },
	{ "htw_add_many, put off", .many = true, .call = call_add_many_put_off },
	{ "htw_dispatcher_new", .call = call_dispatcher_new },
	{ "htw_call_after", .on_dispatcher = true, .call = call_call_after },
	{ "htw_call_after, filled", 4096, .on_dispatcher = true, .call = call_call_after },
	{ "htw_call_after, full", 1023, .on_dispatcher = true, .call = call_call_after },
	{ "htw_call_every", .on_dispatcher = true, .call = call_call_every },
	{ "htw_call_schedule", .on_dispatcher = true, .call = call_call_schedule },
};

static int prepare(struct given *g, unsigned int i)
{
	unsigned int k;

	memset(g, 0xa5, sizeof(*g));
	g->htw = NULL;
	g->d = NULL;
	for (k = 0; k < SOME; k++)
		g->deadlines[k] = HOUR;
	if (htw_open(&g->htw, HTW_BACKEND_PROCESS, NULL))
		return -1;
	if (calls[i].on_dispatcher && htw_dispatcher_new(&g->d, g->htw))
		return -1;
	for (k = 0; k < calls[i].fill; k++)
		if (g->d ? htw_call_after(g->d, HOUR, nothing, NULL, NULL) :
			   htw_after(g->htw, HOUR, 1, NULL))
			return -1;
	g->had = timers(g->htw);
	return 0;
}

static void release(struct given *g)
{
	if ((uintptr_t)g->made_d != POISON)
		htw_dispatcher_free(g->made_d);
	if ((uintptr_t)g->made != POISON)
		htw_close(g->made);
	htw_dispatcher_free(g->d);
	htw_close(g->htw);
}

/* Some entries of a htw_add_many() could not be started; the others are timers. */
static void expect_part(struct __test_metadata *_metadata, struct given *g, int failed)
{
	struct htw_timer_info query;
	unsigned int i;

	EXPECT_LT(0, failed);
	EXPECT_EQ(g->had + SOME - failed, timers(g->htw));
	for (i = 0; i < SOME; i++) {
		query = (struct htw_timer_info){ .id = g->ids[i] };
		EXPECT_EQ(i < SOME - failed ? 0 : -ENOMEM, g->results[i]);
		EXPECT_EQ(i < SOME - failed, !!g->ids[i]);
		if (g->ids[i])
			EXPECT_EQ(0, htw_query(g->htw, &query));
	}
}

/* Each call, with each of its allocations failing in turn. */
SYS_TEST(no_memory)
{
	static struct given g, before;
	unsigned int i, n, failures = 0;

	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		for (n = 1; n < 100; n++) {
			const long blocks = sys.blocks, mapped = sys.mapped;
			const int fds = descriptors();
			bool failed;
			int ret;

			ASSERT_EQ(0, prepare(&g, i));
			memcpy(&before, &g, sizeof(g));
			errno = 4711;
			sys.allocations = 0;
			sys.fail_at = n;
			ret = calls[i].call(&g);
			failed = sys.allocations >= n;
			sys.fail_at = 0;
			EXPECT_EQ(4711, errno) TH_LOG("%s, allocation %u", calls[i].name, n);
			if (ret > 0) {
				EXPECT_TRUE(calls[i].many);
				expect_part(_metadata, &g, ret);
			} else if (ret) {
				EXPECT_EQ(-ENOMEM, ret)
					TH_LOG("%s, allocation %u", calls[i].name, n);
				EXPECT_EQ(0, memcmp(&g, &before, sizeof(g)))
					TH_LOG("%s, allocation %u", calls[i].name, n);
				EXPECT_EQ(g.had, timers(g.htw));
				/* And then there is memory. */
				EXPECT_EQ(0, calls[i].call(&g));
			}
			failures += !!ret;
			/* A call may do without; no call reports what did not happen. */
			if (!failed)
				EXPECT_EQ(0, ret) TH_LOG("%s", calls[i].name);
			release(&g);
			EXPECT_EQ(blocks, sys.blocks) TH_LOG("%s, allocation %u", calls[i].name, n);
			EXPECT_EQ(mapped, sys.mapped) TH_LOG("%s, allocation %u", calls[i].name, n);
			EXPECT_EQ(fds, descriptors()) TH_LOG("%s, allocation %u", calls[i].name, n);
			if (!failed)
				break;
		}
		EXPECT_GT(100, n);
	}
	/* At least those that make something. */
	EXPECT_LT(20, failures);
}

/* Start and stop a timer. */
static int once_more(struct htw *htw)
{
	uint64_t id;
	int ret = htw_after(htw, HOUR, 0, &id);

	return ret ? ret : htw_stop(htw, id);
}

/*
 * Many timers have levels in memory that may be missing when it is asked for: nothing fails, it is
 * asked for again, but not each time, and given back at the end.
 */
SYS_TEST(no_memory_for_levels)
{
	enum { FEW = 63, MANY = 20000, ROUNDS = 3000 };
	static uint64_t ids[MANY], deadlines[MANY], cookies[MANY];
	static struct htw_event ev[MANY];
	const struct htw_setup_args setup = manual();
	unsigned int i, round, got, asked, now, n;
	long blocks = sys.blocks, without;
	struct htw *htw;

	ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, &setup));
	for (i = 0; i < FEW; i++)
		ASSERT_EQ(0, htw_after(htw, HOUR, 0, NULL));
	without = sys.blocks;
	sys.fail_aligned = true;
	sys.allocations = 0;
	errno = 4711;
	ASSERT_EQ(0, htw_after(htw, HOUR, 0, NULL));
	EXPECT_EQ(4711, errno);
	EXPECT_EQ(1, sys.allocations);
	for (i = 0; i < ROUNDS; i++)
		ASSERT_EQ(0, once_more(htw));
	EXPECT_EQ(4711, errno);
	asked = sys.allocations;
	EXPECT_LT(1, asked);
	EXPECT_GT(10, asked);
	EXPECT_EQ(without, sys.blocks);
	ASSERT_EQ(FEW + 1, htw_cancel_all(htw));

	/* Without levels, and as they come with many timers, which stay in order. */
	for (round = 0; round < 3; round++) {
		const uint64_t base = htw_now(htw);

		for (i = 0; i < MANY; i++) {
			deadlines[i] = base + (1 + i * 7919ULL % MANY / 10) * HTW_SEC;
			cookies[i] = i;
		}
		sys.fail_aligned = round < 2;
		for (i = 0; i < MANY; i += STEP) {
			const struct htw_add_args common = { .flags = HTW_F_ABS };

			sys.fail_aligned &= round != 1 || i < MANY / 2;
			ASSERT_EQ(0, htw_add_many(htw, &common, deadlines + i, cookies + i, ids + i,
						  STEP, NULL));
			/* In the middle, levels come as soon as there is memory. */
			for (n = 0; !sys.fail_aligned && sys.blocks == without && n < ROUNDS; n++)
				ASSERT_EQ(0, once_more(htw));
		}
		EXPECT_EQ(round > 0, sys.blocks - without > 0);
		for (got = 0, now = 1; now <= MANY / 10; now += 100) {
			htw_advance(htw, base + (now + 99) * HTW_SEC, HTW_F_ABS);
			do {
				n = htw_read(htw, ev + got, MANY - got);
				got += n;
			} while (n || htw_wait(htw, 0) == 1);
		}
		ASSERT_EQ(MANY, got);
		for (i = 1; i < got; i++) {
			ASSERT_LE(ev[i - 1].deadline, ev[i].deadline);
			if (ev[i - 1].deadline == ev[i].deadline)
				ASSERT_LT(ev[i - 1].cookie, ev[i].cookie);
		}
	}
	htw_close(htw);
	EXPECT_EQ(blocks, sys.blocks);
}

/* A timer that cannot be moved in its chunk's memory is not lost: what ends allocates nothing. */
SYS_TEST(ending_needs_no_memory)
{
	enum { COUNT = 20000 };
	static uint64_t ids[COUNT], deadlines[COUNT];
	static struct htw_event ev[COUNT];
	static struct htw_timer_info entries[COUNT];
	const struct htw_setup_args setup = manual();
	unsigned int way, i, got;
	uint64_t cursor;
	struct htw *htw;
	int n;

	for (i = 0; i < COUNT; i++)
		deadlines[i] = 1 + i;
	for (way = 0; way < 6; way++) {
		const struct htw_add_args common = { .flags = way % 2 ? HTW_F_PUT_OFF : 0 };

		ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, &setup));
		ASSERT_EQ(0, htw_add_many(htw, &common, deadlines, NULL, ids, COUNT, NULL));
		sys.allocations = 0;
		sys.fail_at = 1;
		switch (way / 2) {
		case 0:
			EXPECT_EQ(0, htw_stop_many(htw, ids, COUNT, NULL));
			break;
		case 1:
			EXPECT_EQ(1, htw_advance(htw, HOUR, 0));
			for (got = 0; got < COUNT; got += n) {
				n = htw_read(htw, ev, COUNT);
				ASSERT_LE(0, n);
			}
			break;
		default:
			cursor = 0;
			while ((n = htw_harvest(htw, &cursor, entries, COUNT)) > 0)
				;
			EXPECT_EQ(0, n);
		}
		EXPECT_EQ(0, sys.allocations);
		sys.fail_at = 0;
		EXPECT_EQ(0, timers(htw));
		htw_close(htw);
	}
}

/* Descriptors. */

SYS_TEST(no_descriptor)
{
	static const int errors[] = { EMFILE, ENFILE, ENOMEM };
	const long blocks = sys.blocks, mapped = sys.mapped;
	struct htw *htw, *none = (struct htw *)&sys;
	unsigned int i, round;

	ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, NULL));
	for (round = 0; round < 2000; round++) {
		for (i = 0; i < ARRAY_SIZE(errors); i++) {
			sys.fail_timerfd = errors[i];
			errno = 4711;
			EXPECT_EQ(-errors[i], htw_open(&none, HTW_BACKEND_PROCESS, NULL));
			EXPECT_EQ(-errors[i], htw_shard(&none, htw));
			EXPECT_EQ(4711, errno);
			EXPECT_EQ((struct htw *)&sys, none);
		}
	}
	/* Those that failed have not used up the numbers of handles. */
	sys.fail_timerfd = 0;
	EXPECT_EQ(0, htw_shard(&none, htw));
	htw_close(none);
	htw_close(htw);
	EXPECT_EQ(blocks, sys.blocks);
	EXPECT_EQ(mapped, sys.mapped);
}

static uint64_t monotonic(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * HTW_SEC + ts.tv_nsec;
}

/* What needs the descriptor says so; the rest does not. Nothing aborts, and nothing spins. */
SYS_TEST(descriptor_closed_by_others)
{
	const struct htw_setup_args setups[] = { { }, manual() };
	static const char *const others[] = { NULL, "/dev/null", "/dev/zero", "pipe" };
	unsigned int s, o, due, i;

	for (s = 0; s < 2 * ARRAY_SIZE(others) * ARRAY_SIZE(setups); s++) {
		const bool is_manual = s % 2;
		uint64_t ids[4], deadlines[2] = { HOUR, 0 }, when, cursor = 0;
		struct htw_timer_info query, entries[4];
		struct htw_cancel_args cancel;
		struct htw_event ev[4];
		struct htw_info_args info;
		struct htw *htw, *shard;
		int fd, saved, other[2] = { -1, -1 }, ret;

		o = s / 2 % ARRAY_SIZE(others);
		due = s / 2 / ARRAY_SIZE(others);
		ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, &setups[is_manual]));
		ASSERT_EQ(0, htw_shard(&shard, htw));
		ASSERT_EQ(0, htw_timeout(htw, due ? 0 : HOUR, 1, &ids[0]));
		ASSERT_EQ(0, htw_after(shard, HOUR, 1, &ids[1]));
		fd = htw_fd(htw);
		saved = dup(fd);
		ASSERT_LE(0, saved);
		close(fd);
		if (others[o] && !strcmp(others[o], "pipe")) {
			ASSERT_EQ(0, pipe(other));
			/* One of them may have its number already. */
			if (other[0] != fd && other[1] != fd)
				ASSERT_EQ(fd, dup2(other[0], fd));
		} else if (others[o]) {
			ret = open(others[o], O_RDONLY);
			if (ret != fd) {
				ASSERT_EQ(fd, dup2(ret, fd));
				close(ret);
			}
		}

#define IS_CALM(call) do {							\
	const int64_t __ret = (errno = 4711, (call));				\
										\
	EXPECT_TRUE(__ret >= 0 || __ret == -EBADF) TH_LOG("%lld", (long long)__ret);	\
	EXPECT_EQ(4711, errno);							\
} while (0)
		sys.polls = 0;
		if (!due) {
			ret = htw_wait(htw, 200 * HTW_MSEC);
			/* A pipe that is not readable is as a descriptor with nothing to say. */
			if (!others[o]) {
				EXPECT_EQ(-EBADF, ret);
				EXPECT_EQ(-EBADF, htw_wait(htw, -1));
				/* Also where it need not be armed. */
				for (i = 0; i < 2; i++) {
					EXPECT_EQ(-EBADF, htw_wait(htw, 0));
					EXPECT_EQ(-EBADF, htw_read(htw, ev, 4));
				}
			} else {
				EXPECT_TRUE(ret == 0 || ret == -EBADF) TH_LOG("%d", ret);
			}
			/* It slept, or ended at once. */
			EXPECT_GE(4, sys.polls);
		}
		IS_CALM(htw_after(htw, 0, 1, &ids[2]));
		IS_CALM(htw_after(htw, HOUR, 1, &ids[3]));
		IS_CALM(htw_rearm(htw, ids[3], 10));
		IS_CALM(htw_rearm(shard, ids[3], 1));
		IS_CALM(htw_info(htw, &info));
		query = (struct htw_timer_info){ .id = ids[0] };
		IS_CALM(htw_query(htw, &query));
		IS_CALM(htw_remaining(htw, ids[0], &when));
		IS_CALM(htw_next_time(htw, &when));
		IS_CALM(htw_add_many(htw, NULL, deadlines, NULL, &ids[2], 2, NULL));
		IS_CALM(htw_rearm_many(htw, &ids[2], deadlines, 2, 0, NULL));
		IS_CALM(htw_list(htw, &cursor, entries, 4));
		IS_CALM(htw_put_off(htw, ids[0], HOUR));
		IS_CALM(htw_stop(htw, ids[3]));
		IS_CALM(htw_stop_many(htw, &ids[3], 1, NULL));
		cancel = (struct htw_cancel_args){ .id = ids[2] };
		IS_CALM(htw_cancel(htw, &cancel));
		if (is_manual)
			IS_CALM(htw_advance(htw, HTW_SEC, 0));
		IS_CALM(htw_after(htw, 0, 2, &ids[2]));
		/* What is due is had all the same. */
		EXPECT_EQ(1, htw_wait(htw, 0));
		EXPECT_EQ(1, htw_wait(htw, -1));
		IS_CALM(htw_read(htw, ev, 4));
		IS_CALM(htw_read(htw, ev, 4));
		if (!others[o])
			EXPECT_EQ(-EBADF, htw_wait(htw, -1));
		IS_CALM(htw_cancel_all(htw));
		cursor = 0;
		IS_CALM(htw_harvest(htw, &cursor, entries, 4));

		/* For the handle to close. */
		ASSERT_EQ(fd, dup2(saved, fd));
		htw_close(shard);
		htw_close(htw);
		close(saved);
		if (other[0] >= 0) {
			if (other[0] != fd)
				close(other[0]);
			if (other[1] != fd)
				close(other[1]);
		}
	}
}

/* Waiting. */

/* What is asked of ppoll() is what the program asked for, to the ns. */
SYS_TEST(waits_to_the_ns)
{
	static const int64_t timeouts[] = { 1, 999, 50 * HTW_USEC, 1234567, 2 * HTW_MSEC + 1 };
	struct htw *htw;
	unsigned int i;
	uint64_t begin;

	ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, NULL));
	for (i = 0; i < ARRAY_SIZE(timeouts); i++) {
		sys.polls = 0;
		begin = monotonic();
		EXPECT_EQ(0, htw_wait(htw, timeouts[i]));
		EXPECT_LE(timeouts[i], monotonic() - begin);
		/* Once, unless it was woken too early. */
		EXPECT_EQ(1, sys.polls);
		EXPECT_EQ(timeouts[i], sys.poll_timeout);
	}
	sys.polls = 0;
	EXPECT_EQ(0, htw_wait(htw, 0));
	EXPECT_EQ(0, sys.polls);
	/* Far ahead, and without an end. */
	for (i = 0; i < 2; i++) {
		const int64_t timeout = i ? INT64_MAX : -1;

		ASSERT_EQ(0, htw_after(htw, 2 * HTW_MSEC, 1, NULL));
		sys.polls = 0;
		EXPECT_EQ(1, htw_wait(htw, timeout));
		EXPECT_LT(0, sys.polls);
		EXPECT_EQ(1, htw_read(htw, &(struct htw_event){ }, 1));
	}
	htw_close(htw);
}

static volatile sig_atomic_t signals;

static void count(int signal)
{
	signals++;
}

SYS_TEST(waits_with_a_mask)
{
	const struct sigaction act = { .sa_handler = count, .sa_flags = SA_RESTART };
	sigset_t blocked, open, now;
	struct htw *htw;

	ASSERT_EQ(0, sigaction(SIGUSR1, &act, NULL));
	sigemptyset(&open);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	ASSERT_EQ(0, sigprocmask(SIG_SETMASK, &blocked, NULL));
	ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, NULL));
	signals = 0;
	ASSERT_EQ(0, raise(SIGUSR1));
	EXPECT_EQ(0, htw_wait(htw, HTW_MSEC));
	EXPECT_EQ(0, htw_pwait(htw, HTW_MSEC, NULL));
	EXPECT_EQ(0, htw_pwait(htw, HTW_MSEC, &blocked));
	EXPECT_EQ(0, signals);
	errno = 4711;
	EXPECT_EQ(-EINTR, htw_pwait(htw, EVENTUALLY, &open));
	EXPECT_EQ(4711, errno);
	EXPECT_EQ(1, signals);
	/* The mask is as it was. */
	ASSERT_EQ(0, sigprocmask(SIG_SETMASK, NULL, &now));
	EXPECT_EQ(1, sigismember(&now, SIGUSR1));
	/* What is there to read comes before a signal. */
	ASSERT_EQ(0, raise(SIGUSR1));
	ASSERT_EQ(0, htw_after(htw, 0, 1, NULL));
	EXPECT_EQ(1, htw_pwait(htw, -1, &blocked));
	htw_close(htw);
}

SYS_TEST(locks_with_priority_inheritance)
{
	struct htw_setup_args setup = { .flags = HTW_SETUP_PI };
	struct htw *htw, *shard;
	struct htw_info_args info;

	ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, &setup));
	ASSERT_EQ(0, htw_shard(&shard, htw));
	/* Of the handle, of its shard, and of both. */
	EXPECT_EQ(3, sys.mutexes);
	EXPECT_EQ(3, sys.mutexes_pi);
	ASSERT_EQ(0, htw_after(shard, 0, 1, NULL));
	EXPECT_EQ(1, htw_wait(shard, EVENTUALLY));
	htw_close(htw);
	sys.mutexes = sys.mutexes_pi = 0;
	ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, NULL));
	ASSERT_EQ(0, htw_shard(&shard, htw));
	EXPECT_EQ(0, sys.mutexes);
	htw_close(htw);
	/* The device has locks of its own. */
	if (!access("/dev/htw", R_OK | W_OK)) {
		ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_DEVICE, &setup));
		EXPECT_EQ(0, htw_info(htw, &info));
		EXPECT_EQ(0, info.flags & HTW_SETUP_PI);
		htw_close(htw);
	}
}

/* Memory. */

/* In KiB: what the process has touched, and its address space. */
static long memory(bool resident)
{
	char line[64];
	long size, touched, kib = sysconf(_SC_PAGESIZE) / KIB;
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, line, sizeof(line) - 1);

	close(fd);
	line[n > 0 ? n : 0] = 0;
	if (sscanf(line, "%ld %ld", &size, &touched) != 2)
		return -1;
	return (resident ? touched : size) * kib;
}

enum { MANY = 1000000, LEFT = 64 };

/* How a burst ends. */
static void end_all(struct __test_metadata *_metadata, struct htw *htw, unsigned int way,
		    uint64_t *ids, unsigned int n)
{
	static struct htw_timer_info entries[STEP];
	static struct htw_event ev[STEP];
	uint64_t cursor = 0;
	unsigned int i;

	switch (way) {
	case 0:
		for (i = 0; i < n; i += STEP)
			EXPECT_EQ(0, htw_stop_many(htw, ids + i, STEP, NULL));
		break;
	case 1:
		for (i = 0; i < n; i++)
			EXPECT_EQ(0, htw_stop(htw, ids[i]));
		break;
	case 2:
		EXPECT_EQ(1, htw_advance(htw, 2 * HOUR, 0));
		for (i = 0; i < n; )
			i += htw_read(htw, ev, STEP);
		break;
	case 3:
		while (htw_harvest(htw, &cursor, entries, STEP) > 0)
			;
		break;
	case 4:
		EXPECT_EQ(n, htw_cancel_all(htw));
		break;
	default:
		/* Few are left, here and there; they are ended by the caller. */
		for (i = 0; i < n; i++)
			if (i % (n / LEFT))
				EXPECT_EQ(0, htw_stop(htw, ids[i]));
	}
}

SYS_TEST(memory_comes_back)
{
	const unsigned int n = MANY;
	struct htw_setup_args setup = manual();
	uint64_t deadlines[STEP], *ids;
	unsigned int way, put_off, i, left;
	long before, burst, after;
	struct htw *htw;

	if (SANITIZED)
		SKIP(return, "sanitizers keep memory");
	setup.limit = n;
	ids = calloc(n, sizeof(*ids));
	ASSERT_NE(NULL, ids);
	memset(ids, 1, n * sizeof(*ids));
	for (i = 0; i < STEP; i++)
		deadlines[i] = HOUR + i * HTW_SEC;
	for (put_off = 0; put_off < 2; put_off++) {
		const struct htw_add_args common = { .flags = put_off ? HTW_F_PUT_OFF : 0 };

		for (way = 0; way < 6; way++) {
			ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, &setup));
			before = memory(true);
			for (i = 0; i < n; i += STEP) {
				ASSERT_EQ(0, htw_add_many(htw, &common, deadlines, NULL, ids + i,
							  STEP, NULL));
			}
			burst = memory(true);
			end_all(_metadata, htw, way, ids, n);
			left = way == 5 ? LEFT : 0;
			EXPECT_EQ(left, timers(htw));
			after = memory(true);
			/* What is left takes at most a chunk of 64 KiB, and its deadlines. */
			EXPECT_LT(before + n / KIB * 64, burst);
			EXPECT_GT(before + (burst - before) / 50 + 1024 + left * 80, after)
				TH_LOG("way %u: %ld KiB, %ld, %ld", way, before, burst, after);
			/* And the timers that are left are those. */
			for (i = 0; left && i < n; i += n / LEFT)
				EXPECT_EQ(0, htw_stop(htw, ids[i]));
			htw_close(htw);
		}
	}
	free(ids);
}

SYS_TEST(memory_of_calls_comes_back)
{
	const unsigned int n = MANY / 4;
	struct htw_pending_call *pending;
	struct htw_setup_args setup = manual();
	long before, burst, after;
	struct htw_dispatcher *d;
	uint64_t *ids, cursor = 0;
	unsigned int i, round;
	struct htw *htw;

	if (SANITIZED)
		SKIP(return, "sanitizers keep memory");
	setup.limit = n;
	ids = calloc(n, sizeof(*ids));
	pending = calloc(STEP, sizeof(*pending));
	ASSERT_TRUE(ids && pending);
	memset(ids, 1, n * sizeof(*ids));
	for (round = 0; round < 3; round++) {
		ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, &setup));
		ASSERT_EQ(0, htw_dispatcher_new(&d, htw));
		before = memory(true);
		for (i = 0; i < n; i++) {
			ASSERT_EQ(0, htw_call_after(d, HOUR, nothing, NULL, &ids[i]));
		}
		burst = memory(true);
		switch (round) {
		case 0:
			for (i = 0; i < n; i++)
				EXPECT_EQ(0, htw_call_stop(d, ids[i]));
			break;
		case 1:
			EXPECT_EQ(1, htw_advance(htw, 2 * HOUR, 0));
			for (i = 0; i < n; )
				i += htw_dispatch(d, 0);
			break;
		default:
			cursor = 0;
			while (htw_dispatcher_shutdown(d, &cursor, pending, STEP))
				;
		}
		EXPECT_EQ(0, timers(htw));
		after = memory(true);
		EXPECT_LT(before + n / KIB * 64, burst);
		EXPECT_GT(before + (burst - before) / 50 + 1024, after)
			TH_LOG("round %u: %ld KiB, %ld, %ld", round, before, burst, after);
		htw_dispatcher_free(d);
		htw_close(htw);
	}
	free(ids);
	free(pending);
}

/* An open handle touches little, and takes little address space. */
SYS_TEST(takes_little)
{
	struct htw_setup_args setup = { .limit = 1 << 26 };
	enum { HANDLES = 16 };
	struct htw *htw[HANDLES];
	long touched, size;
	unsigned int i;

	if (SANITIZED)
		SKIP(return, "sanitizers take memory");
	/* What is there once. */
	ASSERT_EQ(0, htw_open(&htw[0], HTW_BACKEND_PROCESS, &setup));
	htw_close(htw[0]);
	touched = memory(true);
	size = memory(false);
	for (i = 0; i < HANDLES; i++) {
		ASSERT_EQ(0, htw_open(&htw[i], HTW_BACKEND_PROCESS, &setup));
		ASSERT_EQ(0, htw_after(htw[i], HOUR, 1, NULL));
		ASSERT_EQ(0, htw_timeout(htw[i], HOUR, 1, NULL));
	}
	/* A page of timers and one of their deadlines, the handle, and parts of other pages. */
	EXPECT_GT(HANDLES * 10 * sysconf(_SC_PAGESIZE) / KIB, memory(true) - touched);
	EXPECT_GT(HANDLES * 512, memory(false) - size);
	TH_LOG("%ld KiB touched, %ld KiB of addresses a handle", (memory(true) - touched) / HANDLES,
	       (memory(false) - size) / HANDLES);
	for (i = 0; i < HANDLES; i++)
		htw_close(htw[i]);
}

/* As an unprivileged program whose memory must not be swapped out. */
SYS_TEST(locked_in_memory)
{
	const struct rlimit limit = { 8 * MIB, 8 * MIB };
	struct htw *htw, *shard;
	struct htw_event ev[64];
	unsigned int i;
	pid_t child;
	int status;

	if (SANITIZED)
		SKIP(return, "sanitizers take memory");
	child = fork();
	if (!child) {
		if (setrlimit(RLIMIT_MEMLOCK, &limit) || (!geteuid() && setuid(65534)))
			_exit(2);
		if (mlockall(MCL_CURRENT | MCL_FUTURE))
			_exit(3);
		if (htw_open(&htw, HTW_BACKEND_PROCESS, NULL) || htw_shard(&shard, htw))
			_exit(4);
		for (i = 0; i < 1000; i++)
			if (htw_timeout(htw, 0, i, NULL) || htw_after(shard, HOUR, i, NULL))
				_exit(5);
		for (i = 0; i < 1000 && htw_wait(htw, EVENTUALLY) == 1; )
			i += htw_read(htw, ev, 64);
		htw_close(htw);
		_exit(i != 1000 ? 6 : 0);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status) TH_LOG("exit %d", WEXITSTATUS(status));
}

TEST_HARNESS_MAIN
