// SPDX-License-Identifier: GPL-2.0-only
/*
 * How long a wheel's own work keeps softirqs waiting, whatever its geometry
 *
 * An unprivileged user chooses the geometry that costs most: with all of its buckets searched for
 * each timer, moved into a ring meanwhile, or emptied because the clock was set back. See
 * htw-softirqs.h. Only means something where time is the count of instructions.
 *
 * VM options: --icount --mem 2G
 */
#include "htw-softirqs.h"
#include "htw-ring.h"

#define NEAR		20
#define COUNT		3000
/*
 * For a rewind, which takes all occupied buckets of a wheel in one go, two windows of 2,048
 * slots for instance.
 */
#define REWIND_MAX_US	150
#define PERIODIC	9000
#define RING_ENTRIES	4096
#define SETS		40

FIXTURE(geometry) {
	int other;	/* of interrupts_start() */
};

FIXTURE_VARIANT(geometry) {
	__u32 levels;
	__u32 slots[HTW_MAX_LEVELS];
};

FIXTURE_VARIANT_ADD(geometry, as_the_module) {
	.levels = 5, .slots = { 256, 64, 64, 64, 64 },
};

FIXTURE_VARIANT_ADD(geometry, two_large) {
	.levels = 2, .slots = { 2048, 2048 },
};

FIXTURE_VARIANT_ADD(geometry, two_large_and_odd) {
	.levels = 2, .slots = { 2047, 2047 },
};

FIXTURE_VARIANT_ADD(geometry, first_is_small) {
	.levels = 3, .slots = { 2, 2047, 2047 },
};

FIXTURE_VARIANT_ADD(geometry, many_large) {
	.levels = 8, .slots = { 2, 2, 640, 640, 640, 640, 640, 640 },
};

FIXTURE_VARIANT_ADD(geometry, many_odd) {
	.levels = 8, .slots = { 2, 3, 509, 509, 509, 509, 509, 509 },
};

FIXTURE_VARIANT_ADD(geometry, many_small) {
	.levels = 8, .slots = { 2, 3, 3, 3, 3, 3, 3, 3 },
};

FIXTURE_SETUP(geometry)
{
	ASSERT_TRUE(open_to_all());
	self->other = -1;
}

FIXTURE_TEARDOWN(geometry)
{
	if (self->other >= 0)
		close(self->other);
}

#define GEOMETRY_TEST(name)	TEST_F_TIMEOUT(geometry, name, TEST_SECONDS)

static int open_wheel(const struct _fixture_variant_geometry *variant, struct htw_setup setup)
{
	int fd = -1;

	setup.flags |= HTW_SETUP_PRIVATE | HTW_SETUP_CLOCK;
	setup.levels = variant->levels;
	memcpy(setup.slots, variant->slots, sizeof(setup.slots));
	if (setresuid(28000, 28000, 0))
		return -1;
	fd = htw_open(O_NONBLOCK);
	if (fd >= 0 && htw_set_up(fd, setup)) {
		close(fd);
		fd = -1;
	}
	return setresuid(0, 0, 0) ? -1 : fd;
}

static void begin(struct __test_metadata *_metadata, struct _test_data_geometry *self)
{
	self->other = interrupts_start();
	ASSERT_LE(0, self->other);
	sleep_until(now_ns() + 11 * MSEC);
	ASSERT_TRUE(trace_softirqs(true));
}

/* One timer in the last bucket of each level: a search passes all the others. */
static bool fill_ends(int fd, const struct _fixture_variant_geometry *variant)
{
	__u64 span = 1;
	__u32 l;

	for (l = 0; l < variant->levels; l++) {
		span *= variant->slots[l];
		if (htw_start_many(fd, 2 * span - 1, 0, 1, NULL) != 1)
			return false;
	}
	return true;
}

static void advance(struct __test_metadata *_metadata, struct _test_data_geometry *self,
		    const struct _fixture_variant_geometry *variant, __u64 spacing)
{
	/* A tick that holds a timer is quickly found: many, or it takes no time. */
	enum { TIMERS = 2 * COUNT };
	struct htw_advance to = { .flags = HTW_F_ABS };
	int fd = open_wheel(variant, (struct htw_setup){
		.clock = HTW_CLOCK_MANUAL, .tick_ns = 1,
	});

	ASSERT_LE(0, fd);
	ASSERT_TRUE(fill_ends(fd, variant));
	for (unsigned int i = 0; i < TIMERS; i++)
		ASSERT_EQ(1, htw_start_many(fd, NEAR + i * spacing, 0, 1, NULL));
	begin(_metadata, self);
	to.ns = NEAR + (TIMERS + 1) * spacing;
	ASSERT_EQ(0, htw_call(fd, HTW_ADVANCE, &to));
	EXPECT_LE(TIMERS, to.expired);
	expect_short_waits(_metadata, self->other);
	self->other = -1;
	close(fd);
}

GEOMETRY_TEST(advance_searches_all_levels)
{
	static const __u64 spacings[] = { 1, 2, 5, 7 };

	for (unsigned int i = 0; i < ARRAY_SIZE(spacings); i++)
		advance(_metadata, self, variant, spacings[i]);
}

/* Periodic timers with slack wait in the queue when the ring gets room: each is armed again. */
GEOMETRY_TEST(advance_refills_the_ring)
{
	struct htw_advance to = { .flags = HTW_F_ABS, .ns = 1ULL << 51 };
	struct ring r;
	int fd = open_wheel(variant, (struct htw_setup){
		.flags = HTW_SETUP_RING, .clock = HTW_CLOCK_MANUAL, .tick_ns = 1,
		.ring_entries = RING_ENTRIES,
	});

	ASSERT_LE(0, fd);
	ASSERT_TRUE(ring_map(&r, fd, RING_ENTRIES));
	for (unsigned int i = 0; i < PERIODIC; i++) {
		struct htw_add add = {
			.deadline = 1, .interval = 1, .slack = 1ULL << 50, .flags = HTW_F_ABS,
		};

		ASSERT_EQ(0, htw_call(fd, HTW_ADD, &add));
	}
	ASSERT_EQ(0, htw_call(fd, HTW_ADVANCE, &to));
	ASSERT_LT(RING_ENTRIES, htw_info(fd).expired);
	ASSERT_EQ(COUNT, htw_start_many(fd, to.ns + NEAR, 0, COUNT, NULL));
	begin(_metadata, self);
	__atomic_store_n(&r.page->head, r.page->tail, __ATOMIC_RELEASE);
	to.ns += 2 * NEAR;
	ASSERT_EQ(0, htw_call(fd, HTW_ADVANCE, &to));
	EXPECT_LE(COUNT, to.expired);
	expect_short_waits(_metadata, self->other);
	self->other = -1;
	close(fd);
}

static int set_clock_by(int seconds)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_sec += seconds;
	return clock_settime(CLOCK_REALTIME, &ts);
}

/* A timer in each bucket, of the levels that hold times of this century. */
GEOMETRY_TEST(clock_is_set_back)
{
	const __u64 now = clock_ns(CLOCK_REALTIME);
	struct htw_op ops[BATCH];
	unsigned int n = 0;
	__u64 span = MSEC;
	int fd = open_wheel(variant, (struct htw_setup){
		.clock = CLOCK_REALTIME, .tick_ns = MSEC,
	});

	ASSERT_LE(0, fd);
	for (__u32 l = 0; l < variant->levels && span < 1000 * HOUR; l++) {
		for (__u32 i = 1; i <= 2 * variant->slots[l]; i++) {
			ops[n++] = htw_op_add(now + i * span, 0);
			if (n == BATCH || i == 2 * variant->slots[l]) {
				ASSERT_EQ(0, htw_batch_all(fd, ops, n));
				n = 0;
			}
		}
		span *= variant->slots[l];
	}
	begin(_metadata, self);
	for (unsigned int i = 0; i < SETS; i++) {
		ASSERT_EQ(0, set_clock_by(-1));
		/* At another point between two interrupts each time. */
		sleep_until(now_ns() + 10 * MSEC + i * INTERRUPT_NS / SETS);
	}
	expect_waits(_metadata, self->other, REWIND_MAX_US);
	self->other = -1;
	EXPECT_EQ(0, set_clock_by(SETS));
	close(fd);
}

TEST_HARNESS_MAIN
