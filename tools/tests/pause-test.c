// SPDX-License-Identifier: GPL-2.0-only
/*
 * How long a call that has much to do, or an alarm, keeps a task of real-time
 * priority on its CPU from running
 *
 * Slow: a minute, with two CPUs that count instructions in turn; 6.1 does not end there.
 * VM options: --icount --cpus 2 --mem 2G
 */
#include "htw-test.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define PAUSE		(100 * USEC)
/* Timers in each of two bases, which are to be moved down. */
#define COUNT		100000
#define BATCH		256
#define READERS		3000
/* A call's own pauses are there each time that it is made, those of the kernel's other work not. */
#define TRIES		3

static volatile bool stop;
static volatile __u64 longest;

/* How long tasks have run on CPU 1, in ns. */
static __u64 ran_on_cpu_1(int schedstat)
{
	char text[4096];
	ssize_t len = pread(schedstat, text, sizeof(text) - 1, 0);
	char *line;
	__u64 ran;

	text[len > 0 ? len : 0] = '\0';
	line = strstr(text, "\ncpu1 ");
	if (!line || sscanf(line, " cpu1 %*u %*u %*u %*u %*u %*u %llu", &ran) != 1)
		return POISON;
	return ran;
}

/*
 * Sleep most of the time, and note how late that ends. As the CPUs count instructions in turn, the
 * time in which CPU 1 runs a task passes here as well: that is taken off.
 */
static void *watch(void *arg)
{
	const struct sched_param param = { .sched_priority = 50 };
	const int schedstat = open("/proc/schedstat", O_RDONLY);
	__u64 ran = 0;

	htw_pin(0);
	if (sched_setscheduler(0, SCHED_FIFO, &param) || ran_on_cpu_1(schedstat) == POISON)
		longest = HOUR;
	for (unsigned int turn = 0; !stop; turn++) {
		__u64 at, late, elsewhere;

		if (turn % 20 == 0)
			ran = ran_on_cpu_1(schedstat);
		at = now_ns() + 50 * USEC;
		sleep_until(at);
		late = now_ns() - at;
		if (late > PAUSE) {
			elsewhere = ran_on_cpu_1(schedstat) - ran;
			late -= elsewhere < late ? elsewhere : late;
		}
		if (late > longest)
			longest = late;
	}
	close(schedstat);
	return arg;
}

/* Is it to be tried, as there was a long pause each time? */
static bool is_to_try(unsigned int *tries)
{
	if (*tries && longest <= PAUSE)
		return false;
	if (*tries)
		printf("# a real-time task waited %llu us\n", longest / USEC);
	return (*tries)++ < TRIES;
}

FIXTURE(pauses) {
	int fd;
	pthread_t watcher;
};

FIXTURE_SETUP(pauses)
{
	ASSERT_EQ(0, htw_pin(0));
	self->fd = htw_open(O_NONBLOCK);
	ASSERT_LE(0, self->fd);
	stop = false;
	ASSERT_EQ(0, pthread_create(&self->watcher, NULL, watch, NULL));
}

FIXTURE_TEARDOWN(pauses)
{
	stop = true;
	pthread_join(self->watcher, NULL);
	close(self->fd);
}

static __u64 deadlines[BATCH];

static int vector(int fd, unsigned int op, __u64 *ids, __u32 count, __u64 deadline)
{
	struct htw_vector_args v = {
		.op = op,
		.ids = (uintptr_t)ids,
		.count = count,
		.deadlines = op == HTW_OP_CANCEL ? 0 : (uintptr_t)deadlines,
		.flags = op == HTW_OP_ADD ? HTW_F_ABS :
			 op == HTW_OP_MOD ? HTW_F_ABS | HTW_MOD_DEADLINE : 0,
	};

	for (unsigned int i = 0; i < BATCH; i++)
		deadlines[i] = deadline;
	return htw_call(fd, HTW_VECTOR, &v) ?: v.failed;
}

/* Start many timers on a CPU, and keep the ids of the first ones. */
static int fill(int fd, int cpu, __u64 *first, __u64 deadline)
{
	__u64 ids[BATCH];
	int ret = 0;

	htw_pin(cpu);
	for (unsigned int i = 0; i < COUNT && !ret; i += BATCH) {
		ret = vector(fd, HTW_OP_ADD, ids, BATCH, deadline);
		if (!i)
			memcpy(first, ids, sizeof(ids));
	}
	htw_pin(0);
	return ret;
}

/* The ids of a vector are in turn of one base and of the other. */
static void expect_short_turns(struct __test_metadata *_metadata, int fd, unsigned int op)
{
	__u64 here[BATCH], there[BATCH];
	unsigned int tries = 0;

	while (is_to_try(&tries)) {
		__u64 due = now_ns() + 5 * SEC;

		ASSERT_EQ(0, htw_call(fd, HTW_CANCEL_ALL, &(struct htw_cancel_all_args){}));
		ASSERT_EQ(0, fill(fd, 0, here, due));
		ASSERT_EQ(0, fill(fd, 1, there, due));
		for (unsigned int i = 0; i < BATCH; i += 2)
			here[i] = there[i];
		/* Now both are to be moved down. */
		sleep_until(due - 120 * MSEC);
		longest = 0;
		ASSERT_EQ(0, vector(fd, op, here, BATCH, now_ns() - MSEC));
	}
	EXPECT_GE(PAUSE, longest);
}

TEST_F_TIMEOUT(pauses, cancel_of_two_bases, TEST_SECONDS)
{
	expect_short_turns(_metadata, self->fd, HTW_OP_CANCEL);
}

TEST_F_TIMEOUT(pauses, mod_of_two_bases, TEST_SECONDS)
{
	expect_short_turns(_metadata, self->fd, HTW_OP_MOD);
}

/* The slots that a walk looks at are in turn of one base and of the other, and none is listed. */
TEST_F_TIMEOUT(pauses, list_of_two_bases, TEST_SECONDS)
{
	struct htw_timer_info entry;
	struct htw_list_args list = htw_list_of(&entry, 1);
	unsigned int tries = 0;
	__u64 ids[BATCH];

	list.flags = HTW_LIST_DISARMED;
	while (is_to_try(&tries)) {
		__u64 due = now_ns() + 5 * SEC;

		ASSERT_EQ(0, htw_call(self->fd, HTW_CANCEL_ALL, &(struct htw_cancel_all_args){}));
		/* More pages than bases. */
		ASSERT_EQ(0, vector(self->fd, HTW_OP_ADD, ids, BATCH, due));
		for (unsigned int i = 0; i < 600; i++) {
			htw_pin(i % 2);
			ASSERT_NE(0, htw_start_abs(self->fd, due, 0));
		}
		ASSERT_EQ(0, fill(self->fd, 0, ids, due));
		ASSERT_EQ(0, fill(self->fd, 1, ids, due));
		sleep_until(due - 120 * MSEC);
		longest = 0;
		list.cursor = 0;
		ASSERT_EQ(0, htw_call(self->fd, HTW_LIST, &list));
		EXPECT_EQ(0, list.done);
	}
	EXPECT_GE(PAUSE, longest);
}

/* The directory of pages grows. */
TEST_F_TIMEOUT(pauses, million_added, TEST_SECONDS)
{
	unsigned int tries = 0;
	__u64 ids[BATCH];

	while (is_to_try(&tries)) {
		close(self->fd);
		self->fd = htw_open(0);
		ASSERT_LE(0, self->fd);
		longest = 0;
		for (unsigned int i = 0; i < 1048576; i += BATCH)
			ASSERT_EQ(0, vector(self->fd, HTW_OP_ADD, ids, BATCH, now_ns() + HOUR));
	}
	EXPECT_GE(PAUSE, longest);
}

static struct shared {
	int fd;
	pid_t tids[READERS];
	unsigned int count;
} *shared;

static void nothing(int sig)
{
	(void)sig;
}

static void *reader(void *arg)
{
	struct htw_event ev;

	shared->tids[(uintptr_t)arg] = gettid();
	__atomic_fetch_add(&shared->count, 1, __ATOMIC_ACQ_REL);
	for (;;)
		htw_read(shared->fd, &ev, 1);
	return NULL;
}

/* A process whose threads all block in read(). */
static void crowd(void)
{
	const struct sigaction action = { .sa_handler = nothing, .sa_flags = SA_RESTART };
	pthread_attr_t attr;
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	htw_pin(0);
	sigaction(SIGUSR1, &action, NULL);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 16384);
	for (uintptr_t i = 0; i < READERS; i++)
		if (pthread_create(&thread, &attr, reader, (void *)i))
			_exit(1);
	for (;;)
		pause();
}

/* How long the alarm of a timer takes the CPU from this task, which does not sleep. */
static __u64 longest_gap(int fd)
{
	__u64 last = now_ns(), end = last + 5 * MSEC, worst = 0, now;

	htw_start(fd, 2 * MSEC, 1);
	for (; last < end; last = now) {
		now = now_ns();
		if (now - last > worst)
			worst = now - last;
	}
	return worst;
}

/* A signal has woken all that block in read(), and they do not get to run. */
TEST(readers_that_do_not_run)
{
	const struct sched_param param = { .sched_priority = 10 };
	pid_t pid;

	ASSERT_EQ(0, htw_pin(0));
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	ASSERT_NE(MAP_FAILED, shared);
	shared->fd = htw_open(0);
	ASSERT_LE(0, shared->fd);
	pid = fork();
	if (!pid)
		crowd();
	ASSERT_TRUE(htw_eventually(__atomic_load_n(&shared->count, __ATOMIC_ACQUIRE) == READERS));
	/* The last one to count itself sleeps as well. */
	sleep_until(now_ns() + 200 * MSEC);

	ASSERT_EQ(0, sched_setscheduler(0, SCHED_FIFO, &param));
	for (unsigned int i = 0; i < READERS; i++)
		ASSERT_EQ(0, tgkill(pid, shared->tids[i], SIGUSR1));
	EXPECT_GE(PAUSE, longest_gap(shared->fd));
	kill(pid, SIGKILL);
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	close(shared->fd);
}

TEST_HARNESS_MAIN
