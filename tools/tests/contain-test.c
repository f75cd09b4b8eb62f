// SPDX-License-Identifier: GPL-2.0-only
/*
 * However a user goes about it, he takes no more than his share of a CPU, and
 * makes nobody else's timers late
 *
 * Each test is an attack of ../contain/attackers.c, beside a task that counts, 10 ms timers of
 * two users who have no part in it, and a module's callouts. To be run where time
 * is counted in instructions: tools/vm/run --icount --mem 4G -- contain-test. For one of
 * them, contain-test -t NAME.
 */
#include "htw-test.h"

#include "../contain/contain.h"

#include <stdarg.h>

/* In percent, what a task on that CPU may lose: to one user, and to all together. */
#define SHARE		28
#define HALF		52
/* Most lateness of others' timers: a tick, and 1 ms; then half a millisecond more to be read. */
#define LATE		(2 * MSEC)
#define LATE_READ	(LATE + MSEC / 2)

void die(const char *format, ...)
{
	va_list args;

	printf("# ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	/* KSFT_FAIL, of this test's process or of one that it started. */
	_exit(1);
}


/* As short as they can be: the figures repeat. */
static const struct contain_times usual = {
	.alone = SEC / 10,
	.burst = 300 * MSEC,
	.settle = 700 * MSEC,
	.sustained = 500 * MSEC,
	.idle = 300 * MSEC,
	.disarmed = 500 * MSEC,
};

static void report(struct __test_metadata *_metadata, const struct attack *a,
		   const struct contain_result *r)
{
	unsigned int phase, who;

	TH_LOG("%s", a->what);
	TH_LOG("loss: burst %.1f%%, sustained %.1f%%; disarmed it does %.1f%%; %llu expirations",
	       r->loss[PHASE_BURST], r->loss[PHASE_SUSTAINED], r->disarmed,
	       (unsigned long long)r->expired);
	for (phase = 0; phase < PHASES; phase++)
		for (who = 0; who < VICTIMS; who++) {
			const struct lateness *l = &r->late[phase][who];

			TH_LOG("late: %-9s %-7s: fired %8.3f ms, read %8.3f ms, %llu came",
			       phase_names[phase], victim_names[who], l->fired / 1e6,
			       l->read / 1e6, (unsigned long long)l->count);
		}
}

/* @share: what it may take, in percent. Root's own timers may be late where it attacks. */
static void check(struct __test_metadata *_metadata, const char *name, int share)
{
	const struct attack *a = attack_find(name);
	struct contain_result r;
	unsigned int phase, who;

	ASSERT_NE(NULL, a);
	contain_measure(a, &usual, &r);
	report(_metadata, a, &r);
	EXPECT_GE(HALF, r.loss[PHASE_BURST]);
	EXPECT_GE(share, r.loss[PHASE_SUSTAINED]);
	EXPECT_EQ(0, r.early);
	EXPECT_EQ(0, r.lost);
	for (phase = 0; phase < PHASES; phase++)
		for (who = 0; who < VICTIMS; who++) {
			const struct lateness *l = &r.late[phase][who];

			EXPECT_LT(0, l->count);
			EXPECT_EQ(0, l->early);
			EXPECT_EQ(0, l->wrong);
			if (!a->users && who == VICTIM_ROOT)
				continue;
			EXPECT_GE(LATE, l->fired);
			EXPECT_GE(LATE_READ, l->read);
		}
}

#define CONTAIN_TEST(name, share)						\
	HTW_TEST(name) { check(_metadata, #name, share); }

CONTAIN_TEST(nobody, SHARE)
CONTAIN_TEST(one_context, SHARE)
CONTAIN_TEST(two_clocks, SHARE)
CONTAIN_TEST(three_clocks, SHARE)
CONTAIN_TEST(private_wheels, SHARE)
CONTAIN_TEST(two_users, HALF)
CONTAIN_TEST(co_prime, SHARE)
CONTAIN_TEST(many_users, HALF)
CONTAIN_TEST(waiters, SHARE)
CONTAIN_TEST(nested_waiters, SHARE)
CONTAIN_TEST(sigio, SHARE)
CONTAIN_TEST(reopening, SHARE)
CONTAIN_TEST(many_contexts, SHARE)
CONTAIN_TEST(table, SHARE)
CONTAIN_TEST(bursts, SHARE)
CONTAIN_TEST(privileged, HALF)
CONTAIN_TEST(ten_thousand, SHARE)
CONTAIN_TEST(hundred_thousand, SHARE)
CONTAIN_TEST(million, SHARE)

TEST_HARNESS_MAIN
