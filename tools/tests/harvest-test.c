// SPDX-License-Identifier: GPL-2.0-only
/*
 * HTW_HARVEST into memory that changes its protection, while another thread
 * cancels
 *
 * Each timer is either harvested or still there to be cancelled.
 */
#include "htw-test.h"

#include <pthread.h>
#include <stdatomic.h>

#define ROUNDS	20000

struct race {
	int fd;
	struct htw_timer_info *page;
	atomic_uint round;	/* the round that has begun */
	atomic_uint done;	/* the last round that the harvester has finished */
	__u32 harvested;
	atomic_bool stop;
};

/* Make the memory read-only and writable again, until stopped. */
static void *protect(void *arg)
{
	struct race *r = arg;

	htw_pin(htw_other_cpu());
	while (!atomic_load(&r->stop)) {
		mprotect(r->page, PAGE, PROT_READ);
		mprotect(r->page, PAGE, PROT_READ | PROT_WRITE);
	}
	return NULL;
}

static void *harvest(void *arg)
{
	struct race *r = arg;

	for (unsigned int round = 1; round <= ROUNDS; round++) {
		struct htw_list_args list = htw_list_of(r->page, 8);
		int ret;

		while (atomic_load(&r->round) < round)
			sched_yield();
		do {
			ret = htw_call(r->fd, HTW_HARVEST, &list);
		} while (ret == -EINTR);
		r->harvested = ret ? 0 : list.done;
		atomic_store(&r->done, round);
	}
	return NULL;
}

/* Each timer is either returned by HTW_HARVEST or cancelled with result 0. */
HTW_TEST(cancel_says_enoent_only_of_what_was_told)
{
	struct race r = { .fd = self->fd };
	pthread_t protector, harvester;
	unsigned int cancelled = 0, harvested = 0;

	r.page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)r.page);
	ASSERT_EQ(0, pthread_create(&protector, NULL, protect, &r));
	ASSERT_EQ(0, pthread_create(&harvester, NULL, harvest, &r));
	for (unsigned int round = 1; round <= ROUNDS; round++) {
		const __u64 id = htw_start(self->fd, HOUR, round);
		int ret = -EINVAL;

		EXPECT_NE(0, id);
		atomic_store(&r.round, round);
		/* At once, a moment later, or after the harvest. */
		for (unsigned int i = 0; i < round % 64 * 16 && atomic_load(&r.done) < round; i++)
			sched_yield();
		ret = htw_stop(self->fd, id);
		while (atomic_load(&r.done) < round)
			sched_yield();
		if (ret)
			EXPECT_EQ(-ENOENT, ret);
		EXPECT_EQ(ret ? 1 : 0, r.harvested) {
			TH_LOG("round %u: HTW_CANCEL says %d", round, ret);
		}
		cancelled += !ret;
		harvested += r.harvested;
		EXPECT_EQ(0, htw_timers(self->fd));
		htw_call(self->fd, HTW_CANCEL_ALL, &(struct htw_cancel_all_args){});
	}
	atomic_store(&r.stop, true);
	ASSERT_EQ(0, pthread_join(protector, NULL));
	ASSERT_EQ(0, pthread_join(harvester, NULL));
	EXPECT_EQ(ROUNDS, cancelled + harvested);
	TH_LOG("%u cancelled, %u harvested", cancelled, harvested);
}

TEST_HARNESS_MAIN
