// SPDX-License-Identifier: GPL-2.0-only
/*
 * Waiting: poll(), epoll by level and by edge, tasks that block in read()
 */
#include "htw-test.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <sys/wait.h>

static int watch(int fd, __u32 events)
{
	struct epoll_event event = { .events = EPOLLIN | events };
	int epfd = epoll_create1(EPOLL_CLOEXEC);

	return epfd < 0 || epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) ? -1 : epfd;
}

static bool is_ready(int epfd, __u64 ns)
{
	struct epoll_event event;

	return epoll_wait(epfd, &event, 1, ns / MSEC) == 1;
}

HTW_TEST(poll)
{
	struct htw_add_args add = { .deadline = now_ns() + 20 * MSEC, .flags = HTW_F_ABS };

	ASSERT_EQ(0, htw_add(self->fd, &add));
	EXPECT_FALSE(htw_is_readable(self->fd, 0));
	ASSERT_TRUE(htw_is_readable(self->fd, PATIENCE));
	EXPECT_LE(add.deadline, now_ns());
	EXPECT_EQ(0, htw_stop(self->fd, add.id));
	EXPECT_FALSE(htw_is_readable(self->fd, 0));
}

HTW_TEST(level)
{
	int epfd = watch(self->fd, 0);
	struct htw_event ev[3];

	for (unsigned int i = 0; i < 3; i++)
		ASSERT_NE(0, htw_start(self->fd, 5 * MSEC, i));
	for (unsigned int i = 0; i < 3; i++) {
		ASSERT_TRUE(is_ready(epfd, PATIENCE));
		ASSERT_EQ(1, htw_read(self->fd, ev, 1));
	}
	EXPECT_FALSE(is_ready(epfd, 0));
	close(epfd);
}

/* Each expiry is an edge, and so is what a reader leaves. */
HTW_TEST(edge)
{
	int epfd = watch(self->fd, EPOLLET);
	struct htw_event ev[4];

	for (unsigned int i = 0; i < 10; i++) {
		ASSERT_NE(0, htw_start(self->fd, (i % 3) * 3 * MSEC, i));
		ASSERT_TRUE(is_ready(epfd, PATIENCE));
		ASSERT_EQ(1, htw_read(self->fd, ev, 4));
		ASSERT_EQ(-EAGAIN, htw_read(self->fd, ev, 4));
	}
	EXPECT_FALSE(is_ready(epfd, 20 * MSEC));

	ASSERT_NE(0, htw_start(self->fd, 0, 1));
	ASSERT_TRUE(is_ready(epfd, PATIENCE));
	/* Each add of what is due at once is one, too. */
	ASSERT_NE(0, htw_start(self->fd, 0, 2));
	ASSERT_TRUE(is_ready(epfd, PATIENCE));
	ASSERT_EQ(1, htw_read(self->fd, ev, 1));
	ASSERT_TRUE(is_ready(epfd, PATIENCE));
	ASSERT_EQ(1, htw_read(self->fd, ev, 1));
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, ev, 1));

	/* What is not read is told once. */
	ASSERT_NE(0, htw_start(self->fd, MSEC, 3));
	ASSERT_TRUE(is_ready(epfd, PATIENCE));
	EXPECT_FALSE(is_ready(epfd, 600 * MSEC));
	close(epfd);
}

/* A task that sleeps until a later timer is woken for an earlier one. */
HTW_TEST(earlier)
{
	int epfd = watch(self->fd, EPOLLET);
	__u64 id = htw_start(self->fd, HOUR, 1);
	struct htw_event ev;
	pid_t pid;

	EXPECT_FALSE(is_ready(epfd, 0));
	pid = fork();
	if (!pid) {
		sleep_until(now_ns() + 20 * MSEC);
		_exit(htw_move(self->fd, id, 10 * MSEC, 0) ? 1 : 0);
	}
	ASSERT_TRUE(is_ready(epfd, PATIENCE));
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	EXPECT_EQ(id, ev.id);
	EXPECT_EQ(pid, waitpid(pid, NULL, 0));
	close(epfd);
}

struct reader {
	pthread_t thread;
	int fd;
	int result;
};

static void *read_one(void *arg)
{
	struct reader *r = arg;
	struct htw_event ev;

	r->result = htw_read(r->fd, &ev, 1);
	return NULL;
}

/* One is woken, and passes on what it does not take. */
HTW_TEST(blocked_readers)
{
	struct reader readers[8];
	int fd = htw_open(0);

	ASSERT_LE(0, fd);
	for (unsigned int i = 0; i < ARRAY_SIZE(readers); i++) {
		readers[i].fd = fd;
		ASSERT_EQ(0, pthread_create(&readers[i].thread, NULL, read_one, &readers[i]));
	}
	sleep_until(now_ns() + 20 * MSEC);
	for (unsigned int i = 0; i < ARRAY_SIZE(readers); i++)
		ASSERT_NE(0, htw_start(fd, 10 * MSEC, i));
	for (unsigned int i = 0; i < ARRAY_SIZE(readers); i++) {
		ASSERT_EQ(0, pthread_join(readers[i].thread, NULL));
		EXPECT_EQ(1, readers[i].result);
	}
	close(fd);
}

static bool pin(unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return !sched_setaffinity(0, sizeof(set), &set);
}

/* Keep the first CPU from others until *@arg says so, or for half a second. */
static void *hog(void *arg)
{
	const struct sched_param param = { .sched_priority = 50 };
	const __u64 end = now_ns() + 500 * MSEC;

	if (!pin(0) || sched_setscheduler(0, SCHED_FIFO, &param))
		return (void *)1;
	while (!__atomic_load_n((int *)arg, __ATOMIC_RELAXED) && now_ns() < end)
		;
	return NULL;
}

static void *read_one_on_first_cpu(void *arg)
{
	return pin(0) ? read_one(arg) : NULL;
}

/* The first reader gets no CPU: the other one has what is due a tick later. */
HTW_TEST(reader_that_does_not_run)
{
	struct reader first = { .fd = htw_open(0) };
	struct htw_event ev;
	int stop = 0;
	pthread_t thread;
	void *failed;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs two CPUs");
	ASSERT_TRUE(pin(1));
	ASSERT_EQ(0, pthread_create(&first.thread, NULL, read_one_on_first_cpu, &first));
	sleep_until(now_ns() + 20 * MSEC);
	ASSERT_EQ(0, pthread_create(&thread, NULL, hog, &stop));
	sleep_until(now_ns() + 20 * MSEC);
	for (unsigned int i = 1; i <= 10; i++)
		ASSERT_NE(0, htw_start(first.fd, i * 10 * MSEC, i));
	for (unsigned int i = 1; i <= 10; i++) {
		ASSERT_EQ(1, htw_read(first.fd, &ev, 1));
		EXPECT_EQ(i, ev.cookie);
		EXPECT_GT(200 * MSEC, ev.taken - ev.deadline);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	ASSERT_EQ(0, pthread_join(thread, &failed));
	EXPECT_EQ(NULL, failed);
	ASSERT_NE(0, htw_start(first.fd, 0, 0));
	ASSERT_EQ(0, pthread_join(first.thread, NULL));
	EXPECT_EQ(1, first.result);
	close(first.fd);
}

static void ignore(int signal)
{
	(void)signal;
}

HTW_TEST(interrupted)
{
	struct sigaction action = { .sa_handler = ignore };
	struct itimerspec soon = { .it_value.tv_nsec = 20 * MSEC };
	int fd = htw_open(0);
	struct htw_event ev;
	timer_t timer;

	ASSERT_EQ(0, sigaction(SIGALRM, &action, NULL));
	ASSERT_EQ(0, timer_create(CLOCK_MONOTONIC, NULL, &timer));
	ASSERT_EQ(0, timer_settime(timer, 0, &soon, NULL));
	EXPECT_EQ(-EINTR, htw_read(fd, &ev, 1));
	timer_delete(timer);
	close(fd);
}

/* Some that have been woken are killed: others read. */
HTW_TEST(killed)
{
	int fd = htw_open(0);
	struct htw_event ev;

	for (unsigned int round = 0; round < 20; round++) {
		struct reader reader = { .fd = fd };
		pid_t pids[3];

		for (unsigned int i = 0; i < ARRAY_SIZE(pids); i++) {
			pids[i] = fork();
			if (!pids[i])
				_exit(htw_read(fd, &ev, 1) != 1);
		}
		sleep_until(now_ns() + 2 * MSEC);
		ASSERT_EQ(0, pthread_create(&reader.thread, NULL, read_one, &reader));
		/* One for each of them, and one. */
		for (unsigned int i = 0; i <= ARRAY_SIZE(pids); i++)
			ASSERT_NE(0, htw_start(fd, MSEC, round));
		sleep_until(now_ns() + (round % 8) * MSEC / 4);
		for (unsigned int i = 0; i < ARRAY_SIZE(pids); i++)
			kill(pids[i], SIGKILL);
		ASSERT_EQ(0, pthread_join(reader.thread, NULL));
		ASSERT_EQ(1, reader.result);
		for (unsigned int i = 0; i < ARRAY_SIZE(pids); i++)
			waitpid(pids[i], NULL, 0);
		while (htw_is_readable(fd, 0))
			ASSERT_LT(0, htw_read(fd, &ev, 1));
	}
	close(fd);
}

/*
 * Tasks that start, move and cancel timers, and others that wait in each way:
 * none is lost, early or read twice.
 */
#define SLOTS		500
#define STARTERS	2
#define WAITERS		5
#define STRESS		(6 * SEC)
/* The cookie of timers that end a task that waits. */
#define LAST		(~0ULL)

/* What a timer has come to. */
enum fate { NONE, STARTED, ENDED };

static struct {
	int fd;
	atomic_bool stop, seldom;
	atomic_int fates[STARTERS * SLOTS];
	atomic_ullong started, ended, wrong, early, worst;
} stress;

static void *starter(void *arg)
{
	unsigned int me = (uintptr_t)arg, seed = me + 1;
	__u64 ids[SLOTS] = { 0 };

	while (!stress.stop) {
		unsigned int i = rand_r(&seed) % SLOTS, what = rand_r(&seed) % 8;
		atomic_int *fate = &stress.fates[me * SLOTS + i];
		/* Mostly soon, sometimes in another window, and some at once. */
		__u64 ns = what ? rand_r(&seed) % (what == 7 ? 600 * MSEC : 6 * MSEC) : 0;

		if (*fate != STARTED) {
			*fate = STARTED;
			stress.started++;
			ids[i] = htw_start(stress.fd, ns, me * SLOTS + i);
			if (!ids[i])
				stress.wrong++;
		} else if (what > 3) {
			htw_move(stress.fd, ids[i], ns, 0);
		} else if (!htw_stop(stress.fd, ids[i])) {
			stress.ended++;
			if (atomic_exchange(fate, ENDED) != STARTED)
				stress.wrong++;
		}
		if (what == 5 || stress.seldom)
			sleep_until(now_ns() + rand_r(&seed) % (3 * MSEC));
	}
	return NULL;
}

/* Return how many are to end a task that waits. */
static unsigned int took(const struct htw_event *ev, int count)
{
	unsigned int last = 0;

	for (int i = 0; i < count; i++) {
		unsigned long long late = ev[i].taken - ev[i].deadline, worst = stress.worst;

		if (ev[i].taken < ev[i].deadline)
			stress.early++;
		if (ev[i].cookie == LAST) {
			last++;
			continue;
		}
		if (atomic_exchange(&stress.fates[ev[i].cookie], ENDED) != STARTED)
			stress.wrong++;
		while (late > worst && !atomic_compare_exchange_weak(&stress.worst, &worst, late))
			;
		stress.ended++;
	}
	return last;
}

static int read_now(struct htw_event *ev, size_t count)
{
	const struct iovec iov = { ev, count * sizeof(*ev) };
	ssize_t n = preadv2(stress.fd, &iov, 1, -1, RWF_NOWAIT);

	return n < 0 ? -errno : n / (ssize_t)sizeof(*ev);
}

static void *waiter(void *arg)
{
	unsigned int me = (uintptr_t)arg, last = 0;
	int epfd = watch(stress.fd, me ? EPOLLET : 0), n;
	struct htw_event ev[40];

	while (!last) {
		if (me >= 2) {
			n = htw_read(stress.fd, ev, me == 2 ? 40 : 1);
			last = took(ev, n > 0 ? n : 0);
			continue;
		}
		/* By level, and by edge. */
		if (!is_ready(epfd, PATIENCE))
			continue;
		do {
			n = read_now(ev, me ? 40 : 3);
			last += took(ev, n > 0 ? n : 0);
		} while (me && n > 0);
	}
	/* Leave the others theirs. */
	while (--last)
		htw_start(stress.fd, 0, LAST);
	close(epfd);
	return NULL;
}

HTW_TEST(everything)
{
	pthread_t starters[STARTERS], waiters[WAITERS];
	__u64 end;

	stress.fd = htw_open(0);
	ASSERT_LE(0, stress.fd);
	for (uintptr_t i = 0; i < STARTERS; i++)
		ASSERT_EQ(0, pthread_create(&starters[i], NULL, starter, (void *)i));
	for (uintptr_t i = 0; i < WAITERS; i++)
		ASSERT_EQ(0, pthread_create(&waiters[i], NULL, waiter, (void *)i));
	sleep_until(now_ns() + STRESS / 2);
	stress.seldom = true;
	sleep_until(now_ns() + STRESS / 2);
	stress.stop = true;
	for (unsigned int i = 0; i < STARTERS; i++)
		pthread_join(starters[i], NULL);

	/* Those that wait have to take all that is left by themselves. */
	end = now_ns() + PATIENCE;
	while (stress.ended < stress.started && now_ns() < end)
		sleep_until(now_ns() + 10 * MSEC);
	TH_LOG("%llu timers, at most %llu us late", stress.started, stress.worst / 1000);
	EXPECT_EQ(stress.started, stress.ended);
	EXPECT_LT(stress.worst, PATIENCE / 4);
	EXPECT_EQ(0, stress.early);
	EXPECT_EQ(0, stress.wrong);
	for (unsigned int i = 0; i < WAITERS; i++)
		ASSERT_NE(0, htw_start(stress.fd, 0, LAST));
	for (unsigned int i = 0; i < WAITERS; i++)
		pthread_join(waiters[i], NULL);
	close(stress.fd);
}

TEST_HARNESS_MAIN
