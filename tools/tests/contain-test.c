// SPDX-License-Identifier: GPL-2.0-only
/*
 * However a user goes about it, he takes no more than his share of a CPU, and
 * makes nobody else's timers late
 *
 * Each test is an attack of ../contain/attackers.c, beside a task that counts, 10 ms timers of
 * two users who have no part in it, and a module's callouts. To be run where time
 * is counted in instructions: tools/vm/run --icount --mem 4G -- contain-test. For one of
 * them: contain-test -v NAME.
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
	.settle = 1100 * MSEC,
	.sustained = 500 * MSEC,
	.idle = 300 * MSEC,
	.disarmed = 500 * MSEC,
};

static void report(struct __test_metadata *_metadata, const struct attack *a,
		   const struct contain_result *r)
{
	const struct lateness *l;
	unsigned int phase;

	TH_LOG("%s", a->what);
	TH_LOG("takes %.1f%% in its burst, then %.1f%%; disarmed it leaves %.1f%%",
	       r->loss[PHASE_BURST], r->loss[PHASE_SUSTAINED], r->disarmed);
	for (phase = 0; phase < PHASES; phase++) {
		l = r->late[phase];
		TH_LOG("late in ms, %s: root %.3f, read %.3f; user %.3f, read %.3f; callouts %.3f",
		       phase_names[phase], l[VICTIM_ROOT].fired / 1e6, l[VICTIM_ROOT].read / 1e6,
		       l[VICTIM_USER].fired / 1e6, l[VICTIM_USER].read / 1e6,
		       l[VICTIM_CALLOUT].fired / 1e6);
	}
}

FIXTURE(contain) {};

FIXTURE_VARIANT(contain) {
	const char *attack;
	/* What it may take when its burst is used up. */
	int share;
};

FIXTURE_VARIANT_ADD(contain, nobody) { "nobody", 1 };
FIXTURE_VARIANT_ADD(contain, one_context) { "one_context", SHARE };
FIXTURE_VARIANT_ADD(contain, two_clocks) { "two_clocks", SHARE };
FIXTURE_VARIANT_ADD(contain, three_clocks) { "three_clocks", SHARE };
FIXTURE_VARIANT_ADD(contain, private_wheels) { "private_wheels", SHARE };
FIXTURE_VARIANT_ADD(contain, co_prime) { "co_prime", SHARE };
FIXTURE_VARIANT_ADD(contain, waiters) { "waiters", SHARE };
FIXTURE_VARIANT_ADD(contain, nested_waiters) { "nested_waiters", SHARE };
FIXTURE_VARIANT_ADD(contain, sigio) { "sigio", SHARE };
FIXTURE_VARIANT_ADD(contain, reopening) { "reopening", SHARE };
FIXTURE_VARIANT_ADD(contain, many_contexts) { "many_contexts", SHARE };
FIXTURE_VARIANT_ADD(contain, subuids) { "subuids", SHARE };
FIXTURE_VARIANT_ADD(contain, table) { "table", SHARE };
FIXTURE_VARIANT_ADD(contain, bursts) { "bursts", SHARE };
FIXTURE_VARIANT_ADD(contain, ten_thousand) { "ten_thousand", SHARE };
FIXTURE_VARIANT_ADD(contain, hundred_thousand) { "hundred_thousand", SHARE };
FIXTURE_VARIANT_ADD(contain, million) { "million", SHARE };
FIXTURE_VARIANT_ADD(contain, two_users) { "two_users", HALF };
FIXTURE_VARIANT_ADD(contain, many_users) { "many_users", HALF };
FIXTURE_VARIANT_ADD(contain, light_users) { "light_users", HALF };
FIXTURE_VARIANT_ADD(contain, privileged) { "privileged", HALF };

FIXTURE_SETUP(contain) {}

FIXTURE_TEARDOWN(contain) {}

TEST_F_TIMEOUT(contain, attack, TEST_SECONDS)
{
	const struct attack *a = attack_find(variant->attack);
	const struct lateness *l;
	struct contain_result r;
	unsigned int phase, who;

	ASSERT_NE(NULL, a);
	contain_measure(a, &usual, &r);
	report(_metadata, a, &r);
	EXPECT_GE(HALF, r.loss[PHASE_BURST]);
	EXPECT_GE(variant->share, r.loss[PHASE_SUSTAINED]);
	EXPECT_EQ(0, r.early);
	EXPECT_EQ(0, r.lost);
	for (phase = 0; phase < PHASES; phase++) {
		for (who = 0; who < VICTIMS; who++) {
			l = &r.late[phase][who];
			EXPECT_LT(0, l->count);
			EXPECT_EQ(0, l->early);
			EXPECT_EQ(0, l->wrong);
			/* Root is one user: where it attacks, it is its own victim. */
			if (!a->users && who == VICTIM_ROOT)
				continue;
			EXPECT_GE(LATE, l->fired);
			EXPECT_GE(LATE_READ, l->read);
		}
	}
}

TEST_HARNESS_MAIN
