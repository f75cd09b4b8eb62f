// SPDX-License-Identifier: GPL-2.0-only
/*
 * HTW_SETUP while other threads use the descriptor: until there is a timer they
 * find none, whatever ids they try, and no wheel is touched that is not theirs
 */
#include "htw-cpu.h"
#include "htw-more.h"

#include <pthread.h>
#include <stdatomic.h>

#define ROUNDS		400
#define IDS		128

/**
 * struct race - what the two threads share
 * @fd: the descriptor of this round
 * @round: counts up when @fd is another one
 * @seen: the last round in which the other thread has called
 * @stop: it is over
 * @op: what the other thread does to ids that it guesses
 */
struct race {
	int fd;
	atomic_int round;
	atomic_int seen;
	atomic_bool stop;
	__u16 op;
};

/* Ids of a context's first timers are no secret: slot, and generation 1 or 2. */
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

	htw_pin(0);	/* a wheel of one's own is for the kernel that of CPU 0 */
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
	/* Its id cannot be written: it leaves a chunk of timers, and none in use. */
	void *unwritable = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct race race = { .fd = open(HTW_DEVICE, O_RDWR | O_CLOEXEC), .op = op };
	pthread_t thread;

	ASSERT_NE(MAP_FAILED, unwritable);
	htw_pin(1);	/* where there is one */
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
	/* What is not counted right, or in the wrong wheel, is also a warning in the log. */
	if (pending_on(0) == ~0ULL || pending_on(1) == ~0ULL)
		SKIP(return, "no debugfs here, or one CPU");
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
