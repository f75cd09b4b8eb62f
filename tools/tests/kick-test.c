// SPDX-License-Identifier: GPL-2.0-only
/*
 * Kicks: CPUs that start each other's pacers, two at a time and more
 *
 * Each CPU starts due timers on two others, whose own timers come meanwhile. A kick is owned by one
 * CPU at a time, no timer waits for one that does not come, and kicks follow the pacer's runs. Nor
 * does a CPU wait for a task that is preempted while it kicks that CPU.
 *
 * VM options: --cpus 4
 * Slow: 20 s.
 */
#include <pthread.h>
#include <sched.h>

#include "htw-test.h"

#define CPUS		4
/* Descriptors of each CPU, in turn on the next CPU and on the one after that. */
#define WHEELS		16
#define ROUNDS		1000
#define PACERS		"/sys/kernel/debug/htw/pacers"

/**
 * struct kicker - a thread that starts timers on other CPUs
 * @cpu: where it runs
 * @private: its timers are on private wheels
 * @fds: descriptors whose timers wait on other CPUs
 * @failed: errno of what failed, or 0
 * @early: events that came early
 */
struct kicker {
	int cpu;
	bool private;
	int fds[WHEELS];
	int failed;
	unsigned int early;
};

/**
 * struct pacer - of &PACERS
 * @runs: its runs
 * @kicks: kicks that it got
 */
struct pacer {
	unsigned long long runs;
	unsigned long long kicks;
};

static bool read_pacers(struct pacer *pacers)
{
	FILE *file = fopen(PACERS, "re");
	char line[512], *runs, *kicks;
	unsigned int found = 0, cpu;

	while (file && fgets(line, sizeof(line), file)) {
		runs = strstr(line, " runs ");
		kicks = strstr(line, " kicks ");
		if (sscanf(line, "cpu %u", &cpu) == 1 && cpu < CPUS && runs && kicks &&
		    sscanf(runs, " runs %llu", &pacers[cpu].runs) == 1 &&
		    sscanf(kicks, " kicks %llu", &pacers[cpu].kicks) == 1)
			found++;
	}
	if (file)
		fclose(file);
	return found == CPUS;
}

static int open_homes(struct kicker *k)
{
	for (int i = 0; i < WHEELS; i++) {
		const int home = (k->cpu + 1 + i % 2) % CPUS;
		struct htw_setup setup = { .flags = HTW_SETUP_HOME, .home_cpu = home };

		if (k->private) {
			/* Its home is the CPU on which it is set up. */
			if (htw_pin(home))
				return errno;
			setup = (struct htw_setup) { .flags = HTW_SETUP_PRIVATE };
			setup.tick_ns = MSEC;
			setup.levels = 2;
			setup.slots[0] = 64;
			setup.slots[1] = 64;
		}
		k->fds[i] = htw_open(0);
		if (k->fds[i] < 0)
			return errno;
		if (ioctl(k->fds[i], HTW_SETUP, &setup))
			return errno;
	}
	return 0;
}

/* Start a timer that is due on each wheel, and one for which the pacer starts by itself. */
static int kick_once(struct kicker *k)
{
	struct htw_event ev[2];

	for (int i = 0; i < WHEELS; i++)
		if (!htw_start(k->fds[i], 0, 1) || !htw_start(k->fds[i], MSEC, 2))
			return errno;
	for (int i = 0; i < WHEELS; i++) {
		for (size_t want = sizeof(ev); want; ) {
			ssize_t got = read(k->fds[i], ev, want);

			if (got <= 0)
				return errno;
			want -= got;
			for (size_t n = 0; n < got / sizeof(ev[0]); n++)
				k->early += ev[n].fired < ev[n].deadline;
		}
	}
	return 0;
}

static void *kick(void *arg)
{
	struct kicker *k = arg;

	k->failed = htw_pin(k->cpu);
	for (int i = 0; i < ROUNDS && !k->failed; i++)
		k->failed = kick_once(k);
	return NULL;
}

FIXTURE(kicks) {};

FIXTURE_VARIANT(kicks) {
	bool private;
};

FIXTURE_VARIANT_ADD(kicks, shared_wheels) { false };
FIXTURE_VARIANT_ADD(kicks, private_wheels) { true };

FIXTURE_SETUP(kicks) {}

FIXTURE_TEARDOWN(kicks) {}

TEST_F_TIMEOUT(kicks, follow_runs, TEST_SECONDS)
{
	struct kicker kickers[CPUS];
	struct pacer before[CPUS], after[CPUS];
	pthread_t threads[CPUS];

	if (htw_cpus() < CPUS)
		SKIP(return, "fewer than four CPUs");
	if (access(PACERS, R_OK))
		SKIP(return, "no debugfs");
	for (int cpu = 0; cpu < CPUS; cpu++) {
		kickers[cpu] = (struct kicker) { .cpu = cpu, .private = variant->private };
		ASSERT_EQ(0, open_homes(&kickers[cpu]));
	}
	ASSERT_TRUE(read_pacers(before));
	for (int cpu = 0; cpu < CPUS; cpu++)
		ASSERT_EQ(0, pthread_create(&threads[cpu], NULL, kick, &kickers[cpu]));
	for (int cpu = 0; cpu < CPUS; cpu++)
		ASSERT_EQ(0, pthread_join(threads[cpu], NULL));
	ASSERT_TRUE(read_pacers(after));
	for (int cpu = 0; cpu < CPUS; cpu++) {
		const unsigned long long runs = after[cpu].runs - before[cpu].runs;
		const unsigned long long kicks = after[cpu].kicks - before[cpu].kicks;

		EXPECT_EQ(0, kickers[cpu].failed);
		EXPECT_EQ(0, kickers[cpu].early);
		TH_LOG("CPU %d: %llu runs, %llu kicks", cpu, runs, kicks);
		EXPECT_LT(0, kicks);
		/* One that another CPU has decided on may come after the run that it was for. */
		EXPECT_GE(runs + runs / 8 + CPUS, kicks);
		for (int i = 0; i < WHEELS; i++)
			close(kickers[cpu].fds[i]);
	}
}

/* Of each millisecond, take half from the other tasks of a CPU. */
static void *take_half(void *done)
{
	const struct sched_param priority = { .sched_priority = 50 };

	if (htw_pin(1) || sched_setscheduler(0, SCHED_FIFO, &priority))
		return "cannot become a real-time task on CPU 1";
	while (!__atomic_load_n((bool *)done, __ATOMIC_ACQUIRE)) {
		const __u64 begin = now_ns();

		while (now_ns() < begin + MSEC / 2)
			;
		sleep_until(begin + MSEC);
	}
	return NULL;
}

struct kicks_until {
	struct kicker kicker;
	bool done;
};

static void *kick_until(void *arg)
{
	struct kicks_until *k = arg;

	k->kicker.failed = htw_pin(k->kicker.cpu);
	while (!__atomic_load_n(&k->done, __ATOMIC_ACQUIRE) && !k->kicker.failed)
		k->kicker.failed = kick_once(&k->kicker);
	return NULL;
}

/* A task that starts timers on CPU 0 is preempted all the time: those of CPU 0 itself go on. */
TEST_F_TIMEOUT(kicks, of_a_preempted_task, TEST_SECONDS)
{
	struct kicks_until other = { .kicker = { .cpu = 3, .private = variant->private } };
	struct htw_add add = { .deadline = MSEC, .interval = MSEC };
	__u64 firings = 0, latest = 0;
	pthread_t taker, starter;
	bool done = false;
	void *why;
	int fd;

	if (htw_cpus() < CPUS)
		SKIP(return, "fewer than four CPUs");
	/* From CPU 1 onto CPUs 0 and 1. */
	ASSERT_EQ(0, open_homes(&other.kicker));
	other.kicker.cpu = 1;
	ASSERT_EQ(0, htw_pin(0));
	fd = htw_open(0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, pthread_create(&taker, NULL, take_half, &done));
	ASSERT_EQ(0, pthread_create(&starter, NULL, kick_until, &other));
	ASSERT_EQ(0, ioctl(fd, HTW_ADD, &add));
	while (firings < 3 * ROUNDS) {
		struct htw_event ev;

		ASSERT_EQ(sizeof(ev), read(fd, &ev, sizeof(ev)));
		EXPECT_NOT_EARLY(&ev);
		firings += 1 + ev.missed;
		if (ev.fired - ev.deadline > latest)
			latest = ev.fired - ev.deadline;
	}
	__atomic_store_n(&other.done, true, __ATOMIC_RELEASE);
	ASSERT_EQ(0, pthread_join(starter, NULL));
	__atomic_store_n(&done, true, __ATOMIC_RELEASE);
	ASSERT_EQ(0, pthread_join(taker, &why));
	EXPECT_STREQ("", why ? why : "");
	EXPECT_EQ(0, other.kicker.failed);
	EXPECT_EQ(0, other.kicker.early);
	TH_LOG("at most %.3f ms late", latest / 1e6);
	for (int i = 0; i < WHEELS; i++)
		close(other.kicker.fds[i]);
	close(fd);
}

TEST_HARNESS_MAIN
