// SPDX-License-Identifier: GPL-2.0-only
/*
 * Many commands of io_uring in one submission: another task that wants the CPU
 * does not wait for all of them
 *
 * With a virtual clock, as lateness is asserted.
 *
 * VM options: --icount
 */
#include <pthread.h>

#include "htw-uring.h"

#define SQES		4096
/* Without a look in between a submission takes 3 ms. */
#define LATE_MOST	(300 * USEC)

#ifndef READ_ONCE
#define READ_ONCE(x)	(*(volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, v) (*(volatile typeof(x) *)&(x) = (v))
#endif

static struct htw_add_args adds[SQES];
static struct htw_mod_args mods[SQES];
static struct htw_cancel_args cancels[SQES];

/* A task of high priority, which wants to run now and then. */
struct other {
	pthread_t thread;
	bool stop;
	__u64 wakeups, worst;
};

static void *wake_up(void *arg)
{
	const struct sched_param param = { .sched_priority = 50 };
	struct other *o = arg;

	if (sched_setscheduler(0, SCHED_FIFO, &param))
		return NULL;
	while (!READ_ONCE(o->stop)) {
		const __u64 when = now_ns() + 100 * USEC;
		__u64 late;

		sleep_until(when);
		late = now_ns() - when;
		if (late > o->worst)
			o->worst = late;
		o->wakeups++;
	}
	return NULL;
}

/* Submit them all, beside the other task; return how late that was. */
static __u64 submit_beside(struct io_uring *ring, struct other *o, bool *is_right)
{
	unsigned int i;

	*o = (struct other){ 0 };
	*is_right = !pthread_create(&o->thread, NULL, wake_up, o) &&
		    htw_eventually(READ_ONCE(o->wakeups) > 100);
	/* It is on its way; what came before is not of interest. */
	WRITE_ONCE(o->worst, 0);
	WRITE_ONCE(o->wakeups, 0);
	*is_right = io_uring_submit(ring) == SQES && *is_right;
	*is_right = htw_eventually(READ_ONCE(o->wakeups) > 1) && *is_right;
	WRITE_ONCE(o->stop, true);
	*is_right = !pthread_join(o->thread, NULL) && *is_right;
	for (i = 0; i < SQES; i++)
		*is_right = !result(ring) && *is_right;
	return o->worst;
}

HTW_TEST(others_do_not_wait_for_a_submission)
{
	static const char * const names[] = { "HTW_ADD", "HTW_MOD", "HTW_CANCEL" };
	struct io_uring ring;
	struct other other;
	bool is_right;

	if (htw_cpus() > 1)
		SKIP(return, "not for a clock that goes on by itself: needs one CPU with --icount");
	ASSERT_EQ(0, io_uring_queue_init(SQES, &ring, 0));
	for (int kind = 0; kind < 3; kind++) {
		__u64 late;

		for (int i = 0; i < SQES; i++) {
			if (kind == 0) {
				adds[i] = htw_rel(HOUR + i * USEC, i);
				prep(&ring, self->fd, HTW_ADD, &adds[i]);
			} else if (kind == 1) {
				mods[i] = (struct htw_mod_args){
					.id = adds[i].id, .deadline = 2 * HOUR + i * MSEC,
					.flags = HTW_MOD_DEADLINE,
				};
				prep(&ring, self->fd, HTW_MOD, &mods[i]);
			} else {
				cancels[i] = htw_cancel_of(adds[i].id);
				cancels[i].flags = 0;
				prep(&ring, self->fd, HTW_CANCEL, &cancels[i]);
			}
		}
		late = submit_beside(&ring, &other, &is_right);
		EXPECT_TRUE(is_right);
		EXPECT_GE(LATE_MOST, late);
		TH_LOG("%s: %llu us late at most, woken %llu times", names[kind], late / USEC,
		       other.wakeups);
	}
	EXPECT_EQ(0, htw_timers(self->fd));
	io_uring_queue_exit(&ring);
}

TEST_HARNESS_MAIN
