// SPDX-License-Identifier: GPL-2.0-only
/*
 * HTW_SETUP while another thread uses the descriptor: no call finds a timer
 * before the first is added, and none touches a wheel of another base
 */
#include "htw-cpu.h"

#include <pthread.h>
#include <stdatomic.h>

#define ROUNDS		400
#define IDS		128

/**
 * struct race - shared by the two threads
 * @fd: the descriptor of this round
 * @round: incremented with each new @fd
 * @seen: the last round in which the other thread has made a call
 * @stop: ends the other thread
 * @op: the operation it tries on guessed ids
 */
struct race {
	int fd;
	atomic_int round;
	atomic_int seen;
	atomic_bool stop;
	__u16 op;
};

/* The ids of a context's first timers are predictable: slot, and generation 1 or 2. */
static void guess(__u64 *ids)
{
	for (unsigned int i = 0; i < IDS; i++)
		ids[i] = (1ULL + i / 64) << 32 | (i % 64 ?: 1);
}

static void *use_what_is_there(void *data)
{
	struct race *race = data;
	__u64 ids[IDS], deadlines[IDS] = { };
	struct htw_vector v = {
		.ids = (uintptr_t)ids,
		.deadlines = race->op == HTW_OP_MOD ? (uintptr_t)deadlines : 0,
		.flags = race->op == HTW_OP_MOD ? HTW_MOD_DEADLINE : 0,
		.count = IDS,
		.op = race->op,
	};

	htw_pin(0);	/* a private wheel's base belongs to CPU 0 */
	for (unsigned int i = 0; i < IDS; i++)
		deadlines[i] = 3600 * SEC;
	while (!race->stop) {
		const int round = race->round;

		guess(ids);
		ioctl(race->fd, HTW_VECTOR, &v);
		race->seen = round;
	}
	return NULL;
}

static void run_race(struct __test_metadata *_metadata, __u16 op, int clock)
{
	/*
	 * The id cannot be written: the add leaves a page of timers, none of
	 * them in use.
	 */
	void *unwritable = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct race race = { .fd = open(HTW_DEVICE, O_RDWR | O_CLOEXEC), .op = op };
	pthread_t thread;

	ASSERT_NE(MAP_FAILED, unwritable);
	htw_pin(1);	/* if it exists */
	ASSERT_GE(race.fd, 0);
	ASSERT_EQ(0, pthread_create(&thread, NULL, use_what_is_there, &race));
	for (unsigned int i = 1; i <= ROUNDS; i++) {
		const int fd = open(HTW_DEVICE, O_RDWR | O_CLOEXEC), before = race.fd;
		struct htw_add add = { .deadline = 3600 * SEC };

		ASSERT_GE(fd, 0);
		ASSERT_EQ(-EFAULT, htw_call(fd, HTW_ADD, unwritable));
		race.fd = fd;
		race.round = i;
		while (race.seen != (int)i)
			sched_yield();
		close(before);
		for (unsigned int k = 0; k < i * 7 % 3000; k++)
			__asm__ volatile("" : : : "memory");
		ASSERT_EQ(0, htw_setup_clock(fd, clock));
		ASSERT_EQ(0, htw_call(fd, HTW_ADD, &add));
	}
	race.stop = true;
	pthread_join(thread, NULL);
	close(race.fd);
	munmap(unwritable, PAGE);
	/* Wrong counts or a wrong wheel also show as a warning in the log. */
	if (pending_on(0) == ~0ULL || pending_on(1) == ~0ULL)
		SKIP(return, "no debugfs, or one CPU");
	ASSERT_TRUE(htw_eventually(pending_on(0) + pending_on(1) == 0));
}

HTW_TEST(ids_that_are_guessed_are_not_cancelled)
{
	run_race(_metadata, HTW_OP_CANCEL, HTW_CLOCK_MANUAL);
}

HTW_TEST(nor_moved)
{
	run_race(_metadata, HTW_OP_MOD, HTW_CLOCK_MANUAL);
}

HTW_TEST(nor_on_another_clock)
{
	run_race(_metadata, HTW_OP_MOD, CLOCK_BOOTTIME);
}

TEST_HARNESS_MAIN
