// SPDX-License-Identifier: GPL-2.0-only
/*
 * libhtw and fork(): a child closes its copies, and can do nothing else with them
 */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wclobbered"

#include "kselftest_harness.h"
#include "../libhtw.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#define HOUR		(3600 * HTW_SEC)
#define POISON		0xa5a5a5a5a5a5a5a5ULL
#define EVENTUALLY	(90 * (int64_t)HTW_SEC)
#define TEST_SECONDS	240

/* A child that waits for a lock is killed, and has failed. */
#define CHILD_SECONDS	20

enum { CHILDREN = 200, COPIES = 5 };

/*
 * What a test forks: a handle with shards, or on the device with others of their own, and a
 * dispatcher on one of them.
 */
struct copies {
	struct htw *htw, *shard[3];
	struct htw_dispatcher *d;
};

FIXTURE(forked) {
	struct copies c;
};

FIXTURE_VARIANT(forked) {
	enum htw_backend backend;
};

FIXTURE_VARIANT_ADD(forked, process) { HTW_BACKEND_PROCESS };
FIXTURE_VARIANT_ADD(forked, device) { HTW_BACKEND_DEVICE };

FIXTURE_SETUP(forked)
{
	if (variant->backend == HTW_BACKEND_DEVICE && access("/dev/htw", R_OK | W_OK))
		SKIP(return, "no device");
}

FIXTURE_TEARDOWN(forked)
{
}

/* What is so with one of the backends. */
FIXTURE(one_backend) {
};

FIXTURE_SETUP(one_backend)
{
}

FIXTURE_TEARDOWN(one_backend)
{
}

static struct htw_setup_args manual(void)
{
	return (struct htw_setup_args){ .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL };
}

static void nothing(struct htw_dispatcher *d, uint64_t call, void *arg)
{
}

/* Timers beside those of a handle. */
static int open_shard(struct htw **shard, struct htw *htw, const struct htw_setup_args *setup)
{
	return htw_backend(htw) == HTW_BACKEND_PROCESS ? htw_shard(shard, htw) :
		htw_open(shard, HTW_BACKEND_DEVICE, setup);
}

static bool open_copies(struct copies *c, enum htw_backend backend,
			const struct htw_setup_args *setup)
{
	int i;

	if (htw_open(&c->htw, backend, setup))
		return false;
	for (i = 0; i < 3; i++)
		if (open_shard(&c->shard[i], c->htw, setup))
			return false;
	return !htw_dispatcher_new(&c->d, c->shard[2]);
}

static void close_copies(struct copies *c)
{
	int i;

	htw_dispatcher_free(c->d);
	for (i = 0; i < 3; i++)
		htw_close(c->shard[i]);
	htw_close(c->htw);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* In a child: close in the order that a number says. Return: an exit status. */
static int close_in_order(struct copies *c, unsigned int number)
{
	struct htw *const handles[] = { c->htw, c->shard[0], c->shard[1], c->shard[2] };
	const int fds[] = { htw_fd(handles[0]), htw_fd(handles[1]), htw_fd(handles[2]),
			    htw_fd(handles[3]) };
	unsigned int left = COPIES, which[COPIES] = { 0, 1, 2, 3, 4 }, i;

	alarm(CHILD_SECONDS);
	for (; left; number /= left, left--) {
		i = number % left;
		errno = 4711;
		if (which[i] == 4)
			htw_dispatcher_free(c->d);
		else
			htw_close(handles[which[i]]);
		if (errno != 4711)
			return 2;
		which[i] = which[left - 1];
	}
	for (i = 0; i < 4; i++)
		if (is_open(fds[i]))
			return 3;
	return 0;
}

static int exit_of(pid_t child)
{
	int status;

	if (child < 0 || waitpid(child, &status, 0) != child)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* Threads that hold each lock as often as they can. */
static struct {
	struct copies *c;
	bool stop;
} busy;

static bool goes_on(void)
{
	return !__atomic_load_n(&busy.stop, __ATOMIC_RELAXED);
}

static void *use_timers(void *arg)
{
	struct copies *c = busy.c;
	struct htw_timer_info entries[8];
	struct htw_event ev[8];
	uint64_t id[3], cursor;
	int i;

	while (goes_on()) {
		htw_timeout(c->htw, HOUR, 1, &id[0]);
		htw_after(c->shard[0], 0, 1, &id[1]);
		htw_after(c->shard[1], HOUR, 1, &id[2]);
		htw_read(c->shard[0], ev, 8);
		cursor = 0;
		htw_list(c->htw, &cursor, entries, 8);
		htw_advance(c->htw, 1, 0);
		/* Those of other shards take the lock of the family; the device has none. */
		for (i = 0; i < 3; i++)
			htw_stop(c->shard[i], id[i]);
		htw_stop(c->shard[1], id[0]);
		htw_stop(c->shard[0], id[2]);
		htw_wait(c->shard[1], 0);
	}
	return NULL;
}

static void *use_shards(void *arg)
{
	struct htw *shard;
	uint64_t id;

	while (goes_on()) {
		if (open_shard(&shard, busy.c->shard[1], NULL))
			continue;
		htw_after(shard, HOUR, 1, &id);
		htw_close(shard);
	}
	return NULL;
}

static void *use_dispatcher(void *arg)
{
	uint64_t call;

	while (goes_on()) {
		htw_call_after(busy.c->d, HOUR, nothing, NULL, &call);
		htw_call_after(busy.c->d, 0, nothing, NULL, NULL);
		htw_dispatch(busy.c->d, 0);
		htw_call_again(busy.c->d, call, HOUR);
		htw_call_stop(busy.c->d, call);
	}
	return NULL;
}

TEST_F_TIMEOUT(forked, closed_in_any_order_beside_threads, TEST_SECONDS)
{
	void *(*const uses[])(void *) = { use_timers, use_timers, use_shards, use_dispatcher };
	const struct htw_setup_args setup = manual();
	pthread_t threads[ARRAY_SIZE(uses)];
	unsigned int number, i;
	pid_t child;
	int failed;

	ASSERT_TRUE(open_copies(&self->c, variant->backend, &setup));
	busy.c = &self->c;
	busy.stop = false;
	for (i = 0; i < ARRAY_SIZE(uses); i++) {
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, uses[i], NULL));
	}
	for (number = 0; number < CHILDREN; number++) {
		child = fork();
		if (!child)
			_exit(close_in_order(&self->c, number));
		failed = exit_of(child);
		EXPECT_EQ(0, failed) TH_LOG("child %u", number);
		/* Each that hangs takes its time. */
		if (failed)
			break;
	}
	__atomic_store_n(&busy.stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < ARRAY_SIZE(uses); i++) {
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	}
	close_copies(&self->c);
}

/* How many of the calls in a child did not end as they should. */
static unsigned int wrong;

#define IS_REFUSED(call) do {							\
	const int64_t __ret = (errno = 4711, (call));				\
										\
	if (__ret != -EPERM || errno != 4711) {					\
		printf("# %s:%d: %s is %lld, errno %d\n", __FILE__, __LINE__,	\
		       #call, (long long)__ret, errno);				\
		wrong++;							\
	}									\
} while (0)

/* Each call, on a handle or a shard, with ids of timers that there are and that there are not. */
static void every_call(struct htw *htw, uint64_t id, bool manual_clock)
{
	uint64_t out = POISON, cursor = 0, ids[2] = { id, id }, deadlines[2] = { 1, 1 };
	struct htw_cancel_args cancel = { .id = id }, cancel_before = cancel;
	struct htw_timer_info query = { .id = id }, query_before = query;
	struct htw_add_args add = { .id = POISON };
	struct htw *shard = (struct htw *)&out;
	struct htw_dispatcher *d = NULL;
	int results[2] = { 4711, 4711 };
	struct htw_event ev[2];
	struct htw_info_args info;

	memset(&info, 0xa5, sizeof(info));
	IS_REFUSED(htw_shard(&shard, htw));
	IS_REFUSED(htw_info(htw, &info));
	IS_REFUSED(htw_reserve(htw, 10));
	IS_REFUSED(htw_after(htw, 0, 1, &out));
	IS_REFUSED(htw_after(htw, 0, 1, NULL));
	IS_REFUSED(htw_timeout(htw, 0, 1, &out));
	IS_REFUSED(htw_at(htw, 0, 1, &out));
	IS_REFUSED(htw_every(htw, 0, HOUR, 1, &out));
	IS_REFUSED(htw_rearm(htw, id, 0));
	IS_REFUSED(htw_stop(htw, id));
	IS_REFUSED(htw_add(htw, &add));
	IS_REFUSED(htw_cancel(htw, &cancel));
	IS_REFUSED(htw_mod(htw, &(struct htw_mod_args){ .id = id, .flags = HTW_MOD_DEADLINE }));
	IS_REFUSED(htw_query(htw, &query));
	IS_REFUSED(htw_remaining(htw, id, &out));
	IS_REFUSED(htw_next_time(htw, &out));
	IS_REFUSED(htw_add_many(htw, NULL, deadlines, NULL, ids, 2, results));
	IS_REFUSED(htw_rearm_many(htw, ids, deadlines, 2, 0, results));
	IS_REFUSED(htw_stop_many(htw, ids, 2, results));
	IS_REFUSED(htw_read(htw, ev, 2));
	IS_REFUSED(htw_wait(htw, 0));
	IS_REFUSED(htw_wait(htw, -1));
	IS_REFUSED(htw_pwait(htw, HTW_SEC, NULL));
	IS_REFUSED(htw_cancel_all(htw));
	IS_REFUSED(htw_list(htw, &cursor, &query, 1));
	IS_REFUSED(htw_list_in(htw, HTW_LIST_DUE, &cursor, &query, 1));
	IS_REFUSED(htw_harvest(htw, &cursor, &query, 1));
	if (manual_clock)
		IS_REFUSED(htw_advance(htw, 1, 0));
	IS_REFUSED(htw_put_off(htw, id, 2 * HOUR));
	IS_REFUSED(htw_put_off_inline(htw, id, 2 * HOUR));
	IS_REFUSED(htw_dispatcher_new(&d, htw));

	/* Nothing was stored. */
	wrong += out != POISON || cursor || ids[0] != id || ids[1] != id || add.id != POISON;
	wrong += shard != (struct htw *)&out || results[0] != 4711 || results[1] != 4711 || d;
	wrong += memcmp(&cancel, &cancel_before, sizeof(cancel)) != 0;
	wrong += memcmp(&query, &query_before, sizeof(query)) != 0;
	wrong += info.timers != POISON;
}

static void every_call_of_dispatcher(struct htw_dispatcher *d, uint64_t call)
{
	struct htw_pending_call pending = { };
	uint64_t out = POISON, cursor = 0;

	IS_REFUSED(htw_dispatch(d, 0));
	IS_REFUSED(htw_dispatch(d, -1));
	IS_REFUSED(htw_call_after(d, 0, nothing, NULL, &out));
	IS_REFUSED(htw_call_at(d, 0, nothing, NULL, &out));
	IS_REFUSED(htw_call_every(d, 0, HOUR, nothing, NULL, &out));
	IS_REFUSED(htw_call_again(d, call, 0));
	IS_REFUSED(htw_call_stop(d, call));
	IS_REFUSED(htw_call_stop_wait(d, call));
	wrong += out != POISON;
	wrong += htw_dispatcher_shutdown(d, &cursor, &pending, 1) != 0;
}

/* Time left until the timerfd of a handle in the process expires. */
static int64_t left_of(const struct htw *htw)
{
	struct itimerspec spec;

	if (htw_backend(htw) != HTW_BACKEND_PROCESS)
		return 0;
	if (timerfd_gettime(htw_fd(htw), &spec))
		return -1;
	return spec.it_value.tv_sec * (int64_t)HTW_SEC + spec.it_value.tv_nsec;
}

/* In a child, nothing but closing works, whatever the clock, and the parent does not notice. */
TEST_F_TIMEOUT(forked, all_else_is_refused, TEST_SECONDS)
{
	const struct htw_setup_args setups[] = { { }, manual() };
	unsigned int s, i;

	for (s = 0; s < ARRAY_SIZE(setups); s++) {
		struct htw *handles[3], *own;
		uint64_t ids[3], own_id, call;
		int64_t left[3];
		struct htw_timer_info query;
		struct htw_event ev;
		struct copies c;
		pid_t child;

		ASSERT_TRUE(open_copies(&self->c, variant->backend, &setups[s]));
		c = self->c;
		handles[0] = c.htw;
		handles[1] = c.shard[0];
		handles[2] = c.shard[1];
		for (i = 0; i < 3; i++) {
			ASSERT_EQ(0, htw_timeout(handles[i], HOUR, i, &ids[i]));
		}
		ASSERT_EQ(0, htw_call_after(c.d, HOUR, nothing, NULL, &call));
		for (i = 0; i < 3; i++)
			left[i] = left_of(handles[i]);

		fflush(stdout);
		child = fork();
		if (!child) {
			alarm(CHILD_SECONDS);
			wrong = 0;
			for (i = 0; i < 9; i++)
				every_call(handles[i / 3], ids[i % 3], s);
			every_call(c.htw, 77, s);
			every_call(c.htw, 0, s);
			every_call_of_dispatcher(c.d, call);
			/* What does not use the timers does not fail. */
			wrong += htw_backend(c.htw) != variant->backend;
			wrong += htw_fd(c.htw) < 0;
			htw_now(c.htw);
			/* A handle of its own. */
			wrong += htw_open(&own, variant->backend, NULL) != 0;
			wrong += htw_after(own, 0, 5, &own_id) != 0;
			wrong += htw_wait(own, EVENTUALLY) != 1;
			wrong += htw_read(own, &ev, 1) != 1 || ev.id != own_id;
			for (i = 0; i < 3 && variant->backend == HTW_BACKEND_PROCESS; i++)
				wrong += own_id == ids[i];
			/* And a child of its own has neither. */
			fflush(stdout);
			child = fork();
			if (!child) {
				wrong = 0;
				every_call(own, own_id, false);
				every_call(c.htw, ids[0], s);
				htw_close(own);
				close_copies(&c);
				fflush(stdout);
				_exit(wrong);
			}
			wrong += exit_of(child) != 0;
			wrong += htw_after(own, 0, 6, &own_id) != 0;
			htw_close(own);
			close_copies(&c);
			fflush(stdout);
			_exit(wrong > 100 ? 100 : wrong);
		}
		EXPECT_EQ(0, exit_of(child));

		for (i = 0; i < 3; i++) {
			struct pollfd pfd = { .fd = htw_fd(handles[i]), .events = POLLIN };

			EXPECT_EQ(0, poll(&pfd, 1, 0));
			EXPECT_LE(left_of(handles[i]), left[i]);
			EXPECT_LE(left[i] - 60 * (int64_t)HTW_SEC, left_of(handles[i]));
			query = (struct htw_timer_info){ .id = ids[i] };
			EXPECT_EQ(0, htw_query(handles[i], &query));
			EXPECT_EQ(i, query.cookie);
			EXPECT_LE(query.remaining, HOUR);
			EXPECT_EQ(0, htw_put_off(handles[i], ids[i], HOUR));
			EXPECT_EQ(0, htw_stop(handles[i], ids[i]));
		}
		EXPECT_EQ(0, htw_call_stop(c.d, call));
		close_copies(&c);
	}
}

/*
 * At the fork the parent has events to read, timers that are put off, and timers that it has ended
 * but not told the kernel of yet. A child takes no event and ends no timer, also if it closes its
 * copy of the handle.
 */
TEST_F_TIMEOUT(forked, events_are_the_parents, TEST_SECONDS)
{
	enum { TIMERS = 20, READ = 5, PUT_OFF = 5 };
	const struct htw_setup_args setup = manual();
	struct htw_event ev[TIMERS];
	unsigned int i, closes;
	uint64_t ids[TIMERS];
	struct htw *htw;
	pid_t child;

	for (closes = 0; closes < 2; closes++) {
		ASSERT_EQ(0, htw_open(&htw, variant->backend, &setup));
		for (i = 0; i < TIMERS; i++) {
			ASSERT_EQ(0, htw_timeout(htw, HTW_SEC, i, &ids[i]));
		}
		for (i = 0; i < PUT_OFF; i++) {
			ASSERT_EQ(0, htw_put_off(htw, ids[i], 2 * HTW_SEC));
		}
		ASSERT_EQ(1, htw_advance(htw, HTW_SEC, 0));
		ASSERT_EQ(READ, htw_read(htw, ev, READ));
		EXPECT_EQ(PUT_OFF, ev[0].cookie);

		fflush(stdout);
		child = fork();
		if (!child) {
			alarm(CHILD_SECONDS);
			wrong = 0;
			IS_REFUSED(htw_wait(htw, 0));
			IS_REFUSED(htw_read(htw, ev, 1));
			IS_REFUSED(htw_read(htw, ev, 0));
			for (i = 0; i < TIMERS; i++) {
				IS_REFUSED(htw_put_off(htw, ids[i], HOUR));
				IS_REFUSED(htw_put_off_inline(htw, ids[i], HOUR));
				IS_REFUSED(htw_stop(htw, ids[i]));
			}
			IS_REFUSED(htw_cancel_all(htw));
			wrong += htw_now(htw) != HTW_SEC;
			if (closes)
				htw_close(htw);
			fflush(stdout);
			_exit(wrong > 100 ? 100 : wrong);
		}
		EXPECT_EQ(0, exit_of(child));

		ASSERT_EQ(TIMERS - READ - PUT_OFF, htw_read(htw, ev, TIMERS));
		EXPECT_EQ(READ + PUT_OFF, ev[0].cookie);
		EXPECT_EQ(1, htw_advance(htw, HTW_SEC, 0));
		ASSERT_EQ(PUT_OFF, htw_read(htw, ev, TIMERS));
		EXPECT_EQ(0, ev[0].cookie);
		EXPECT_EQ(2 * HTW_SEC, ev[0].deadline);
		EXPECT_EQ(0, htw_cancel_all(htw));
		htw_close(htw);
	}
}

/*
 * epoll forgets a descriptor only with its last copy: that of a handle that the opener has
 * closed is silent, although a child still has it.
 */
TEST_F_TIMEOUT(one_backend, closed_by_the_opener, TEST_SECONDS)
{
	static const uint64_t delays[] = { 0, HTW_MSEC, 20 * HTW_MSEC };
	struct epoll_event event = { .events = EPOLLIN };
	unsigned int i, way, k;
	int hold[2], ep;
	char byte;

	for (way = 0; way < 2 * ARRAY_SIZE(delays); way++) {
		struct htw *htw, *shard, *with;
		uint64_t id;
		pid_t child;

		ASSERT_EQ(0, pipe(hold));
		ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, NULL));
		ASSERT_EQ(0, htw_shard(&shard, htw));
		with = way % 2 ? shard : htw;
		ep = epoll_create1(EPOLL_CLOEXEC);
		ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, htw_fd(with), &event));
		for (k = 0; k < 3; k++) {
			ASSERT_EQ(0, htw_after(with, delays[way / 2] + k * HTW_MSEC, k, &id));
		}
		if (!delays[way / 2]) {
			ASSERT_EQ(1, epoll_wait(ep, &event, 1, EVENTUALLY / HTW_MSEC));
		}
		child = fork();
		if (!child) {
			close(hold[1]);
			/* Until the parent has looked. */
			_exit(read(hold[0], &byte, 1) != 0);
		}
		if (way % 2)
			htw_close(shard);
		htw_close(htw);
		for (i = 0; i < 5; i++) {
			EXPECT_EQ(0, epoll_wait(ep, &event, 1, 10));
		}
		close(hold[1]);
		close(hold[0]);
		EXPECT_EQ(0, exit_of(child));
		close(ep);
	}
}

/* The timers of the device are shared, by a handle for a copy of the descriptor. */
TEST_F_TIMEOUT(one_backend, shared_by_the_device, TEST_SECONDS)
{
	const struct htw_setup_args setup = manual();
	struct htw *htw, *other;
	struct htw_event ev;
	uint64_t id, byte = 0;
	pid_t child;
	int fd[2];

	if (access("/dev/htw", R_OK | W_OK))
		SKIP(return, "no device");
	ASSERT_EQ(0, pipe(fd));
	ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_DEVICE, &setup));
	child = fork();
	if (!child) {
		alarm(CHILD_SECONDS);
		wrong = htw_open_fd(&other, dup(htw_fd(htw))) != 0;
		htw_close(htw);
		wrong += htw_after(other, HTW_SEC, 8, &id) != 0;
		wrong += write(fd[1], &id, sizeof(id)) != sizeof(id);
		htw_close(other);
		_exit(wrong);
	}
	EXPECT_EQ(0, exit_of(child));
	ASSERT_EQ(sizeof(byte), read(fd[0], &byte, sizeof(byte)));
	EXPECT_EQ(1, htw_advance(htw, HTW_SEC, 0));
	ASSERT_EQ(1, htw_read(htw, &ev, 1));
	EXPECT_EQ(byte, ev.id);
	EXPECT_EQ(8, ev.cookie);
	htw_close(htw);
}

TEST_HARNESS_MAIN
