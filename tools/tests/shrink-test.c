// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory is given back after a burst, without close()
 *
 * Measured as the charge of the cgroup that each test runs in. The kernel
 * decides when, so the tests wait for it.
 *
 * Slow: 40 s.
 */
#include "htw-memory.h"

#include <pthread.h>

#define COUNT		200000
#define SURVIVORS	(COUNT / 100)
/* Most memory that is kept for the next burst. */
#define KEPT		MIB

static __u64 ids[COUNT], others[COUNT];
static char group[160], current[200];

static __u64 charged(void)
{
	return htw_file_number(current);
}

/* Move this process to a cgroup of its own. */
static bool enter_group(void)
{
	char root[100], file[200];

	if (!memory_cgroup(root, sizeof(root)))
		return false;
	snprintf(group, sizeof(group), "%s/htw-shrink-test-%d", root, getpid());
	snprintf(current, sizeof(current), "%s/memory.current", group);
	snprintf(file, sizeof(file), "%s/cgroup.procs", group);
	/* Touch all memory of the test before measuring. */
	memset(ids, 0xff, sizeof(ids));
	memset(others, 0xff, sizeof(others));
	return !mkdir(group, 0755) && !htw_write_file(file, "0");
}

/* The charge of a context that has been used and holds no timers. */
static __u64 baseline(int fd)
{
	htw_start_many(fd, ~0ULL, 0, BATCH, ids);
	htw_stop_many(fd, ids, BATCH);
	return charged();
}

static void shuffle(__u64 *array, __u64 count)
{
	__u64 random = 0x9e3779b97f4a7c15ULL, i, n, swap;

	for (i = count; i > 1; i--) {
		n = xorshift64(&random) % i;
		swap = array[i - 1];
		array[i - 1] = array[n];
		array[n] = swap;
	}
}

static int compare(const void *a, const void *b)
{
	const __u64 x = *(const __u64 *)a, y = *(const __u64 *)b;

	return x < y ? -1 : x > y;
}

#define EXPECT_BACK(most)	EXPECT_TRUE(htw_eventually(charged() <= (most)))

#define NEEDS_GROUP() do {						\
	if (!enter_group())						\
		SKIP(return, "no cgroup2 memory controller");	\
} while (0)

HTW_TEST(after_cancels)
{
	__u64 before;
	int round;

	NEEDS_GROUP();
	before = baseline(self->fd);
	for (round = 0; round < 2; round++) {
		ASSERT_EQ(COUNT, htw_start_many(self->fd, ~0ULL, 0, COUNT, ids));
		ASSERT_LE(before + COUNT * NODE, charged() + SLACK);
		ASSERT_EQ(COUNT, htw_stop_many(self->fd, ids, COUNT));
		EXPECT_BACK(before + KEPT + SLACK);
	}
	EXPECT_EQ(0, htw_timers(self->fd));
}

HTW_TEST(after_reading)
{
	static struct htw_event ev[BATCH];
	__u64 before, read = 0;
	int n;

	NEEDS_GROUP();
	before = baseline(self->fd);
	ASSERT_EQ(COUNT, htw_start_many(self->fd, 0, 0, COUNT, NULL));
	ASSERT_LE(before + COUNT * NODE, charged() + SLACK);
	while (read < COUNT && htw_wait_readable(self->fd)) {
		n = htw_read(self->fd, ev, BATCH);
		ASSERT_LT(0, n);
		read += n;
	}
	ASSERT_EQ(COUNT, read);
	EXPECT_BACK(before + KEPT + SLACK);
}

HTW_TEST(after_cancel_all)
{
	struct htw_cancel_all all = { .flags = 0 };
	__u64 before;

	NEEDS_GROUP();
	before = baseline(self->fd);
	ASSERT_EQ(COUNT, htw_start_many(self->fd, ~0ULL, 0, COUNT, NULL));
	ASSERT_EQ(0, htw_call(self->fd, HTW_CANCEL_ALL, &all));
	ASSERT_EQ(COUNT, all.count);
	EXPECT_BACK(before + KEPT + SLACK);
}

/* List all pending timers in @to and return their number. */
static __u64 list(int fd, __u64 *cursor, __u64 *to, __u64 room)
{
	struct htw_query entries[BATCH];
	struct htw_list arg = { .cursor = *cursor, .entries = (uintptr_t)entries };
	__u64 n = 0, i;

	do {
		arg.count = room - n < BATCH ? room - n : BATCH;
		if (htw_call(fd, HTW_LIST, &arg))
			break;
		for (i = 0; i < arg.done; i++)
			to[n++] = entries[i].id;
	} while (arg.done && n < room);
	*cursor = arg.cursor;
	return n;
}

/* A random per cent survives: half of the pages hold such a timer. */
HTW_TEST(after_random_cancels)
{
	const __u64 share = COUNT * NODE * 55 / 100;
	__u64 before, cursor = 0, n;

	NEEDS_GROUP();
	before = baseline(self->fd);
	ASSERT_EQ(COUNT, htw_start_many(self->fd, ~0ULL, 0, COUNT, ids));
	shuffle(ids, COUNT);
	ASSERT_EQ(COUNT - SURVIVORS,
		  htw_stop_many(self->fd, ids + SURVIVORS, COUNT - SURVIVORS));
	/* A list that has begun continues. */
	n = list(self->fd, &cursor, others, SURVIVORS / 3);
	ASSERT_EQ(SURVIVORS / 3, n);
	EXPECT_BACK(before + share + SLACK);
	n += list(self->fd, &cursor, others + n, COUNT - n);
	ASSERT_EQ(SURVIVORS, n);
	qsort(ids, SURVIVORS, sizeof(*ids), compare);
	qsort(others, SURVIVORS, sizeof(*others), compare);
	EXPECT_EQ(0, memcmp(ids, others, SURVIVORS * sizeof(*ids)));

	EXPECT_EQ(SURVIVORS, htw_stop_many(self->fd, ids, SURVIVORS));
	EXPECT_BACK(before + KEPT + SLACK);
}

static __u32 last_page(const __u64 *array)
{
	__u32 last = 0, i;

	for (i = 0; i < COUNT; i++) {
		if (HTW_ID_SLOT(array[i]) / 64 > last)
			last = HTW_ID_SLOT(array[i]) / 64;
	}
	return last;
}

/* Slots are reused, ids are not. */
HTW_TEST(ids_stay_stale)
{
	__u64 before, i;

	NEEDS_GROUP();
	before = baseline(self->fd);
	ASSERT_EQ(COUNT, htw_start_many(self->fd, ~0ULL, 0, COUNT, ids));
	shuffle(ids, COUNT);
	ASSERT_EQ(COUNT, htw_stop_many(self->fd, ids, COUNT));
	EXPECT_BACK(before + KEPT + SLACK);
	EXPECT_EQ(0, htw_stop_many(self->fd, ids, COUNT));

	ASSERT_EQ(COUNT, htw_start_many(self->fd, ~0ULL, 0, COUNT, others));
	EXPECT_EQ(0, htw_stop_many(self->fd, ids, COUNT));
	EXPECT_EQ(COUNT, htw_timers(self->fd));
	/* These are the same slots. */
	EXPECT_EQ(last_page(ids), last_page(others));
	qsort(ids, COUNT, sizeof(*ids), compare);
	qsort(others, COUNT, sizeof(*others), compare);
	for (i = 0; i < COUNT; i++)
		ASSERT_EQ(NULL, bsearch(&others[i], ids, COUNT, sizeof(*ids), compare));
	EXPECT_EQ(COUNT, htw_stop_many(self->fd, others, COUNT));
	EXPECT_BACK(before + KEPT + SLACK);
}

/* Under steady load no memory is given back and allocated again. */
HTW_TEST(steady_load_keeps_it)
{
	__u64 least = ~0ULL, at = 0, start, now;

	NEEDS_GROUP();
	ASSERT_EQ(COUNT, htw_start_many(self->fd, ~0ULL, 0, COUNT, ids));
	/* Now a third is in use. */
	ASSERT_EQ(COUNT - COUNT / 3, htw_stop_many(self->fd, ids + COUNT / 3, COUNT - COUNT / 3));
	start = charged();
	for (now = now_ns(); now_ns() < now + 4 * SEC;) {
		ASSERT_EQ(BATCH, htw_stop_many(self->fd, ids + at, BATCH));
		ASSERT_EQ(BATCH, htw_start_many(self->fd, ~0ULL, 0, BATCH, ids + at));
		at = (at + BATCH) % (COUNT / 3 - BATCH);
		if (charged() < least)
			least = charged();
	}
	EXPECT_LE(start, least + SLACK);
}

/*
 * Two CPUs add and cancel bursts on several descriptors in turn, so that each
 * rests now and then; a third thread lists.
 */
#define FDS		12
#define BURST		6000
#define TORTURE		(15 * SEC)

struct torture {
	pthread_t thread;
	int *fds;
	int cpu;
	__u64 random;
	__u64 bursts;
	const char *wrong;
};

static void *burst(void *arg)
{
	__u64 *held[FDS] = { NULL }, *stale = calloc(BURST, sizeof(*stale)), nr[FDS] = { 0 };
	struct torture *t = arg;
	__u64 end = now_ns() + TORTURE, kept, was = 0;
	int f, was_of = 0;

	htw_pin(t->cpu);
	for (f = 0; f < FDS; f++)
		held[f] = calloc(BURST, sizeof(**held));
	while (now_ns() < end && !t->wrong) {
		f = xorshift64(&t->random) % FDS;
		if (htw_start_many(t->fds[f], ~0ULL, 0, BURST - nr[f], held[f] + nr[f]) !=
		    BURST - nr[f])
			t->wrong = "an add failed";
		shuffle(held[f], BURST);
		kept = xorshift64(&t->random) % 3 ? 0 : xorshift64(&t->random) % (BURST / 50);
		if (htw_stop_many(t->fds[f], held[f] + kept, BURST - kept) != BURST - kept)
			t->wrong = "a timer was lost";
		if (htw_stop_many(t->fds[was_of], stale, was))
			t->wrong = "a stale id hit";
		was = BURST - kept;
		was_of = f;
		memcpy(stale, held[f] + kept, was * sizeof(*stale));
		nr[f] = kept;
		t->bursts++;
	}
	for (f = 0; f < FDS; f++) {
		if (htw_stop_many(t->fds[f], held[f], nr[f]) != nr[f])
			t->wrong = "a timer was lost in the end";
	}
	return NULL;
}

static void *list_all(void *arg)
{
	struct torture *t = arg;
	__u64 end = now_ns() + TORTURE, cursor;
	static __u64 to[3 * BURST];

	while (now_ns() < end) {
		cursor = 0;
		if (list(t->fds[xorshift64(&t->random) % FDS], &cursor, to, ARRAY_SIZE(to)) >
		    2 * BURST)
			t->wrong = "more is pending than can be";
		t->bursts++;
	}
	return NULL;
}

HTW_TEST(bursts_on_two_cpus)
{
	struct torture t[3];
	int fds[FDS], i;

	for (i = 0; i < FDS; i++) {
		fds[i] = htw_open(O_NONBLOCK);
		ASSERT_LE(0, fds[i]);
	}
	for (i = 0; i < 3; i++) {
		t[i] = (struct torture){
			.fds = fds,
			.cpu = i ? htw_other_cpu() : 0,
			.random = i + 1,
		};
		ASSERT_EQ(0, pthread_create(&t[i].thread, NULL, i < 2 ? burst : list_all, &t[i]));
	}
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, pthread_join(t[i].thread, NULL));
		EXPECT_EQ(NULL, t[i].wrong) {
			TH_LOG("%s", t[i].wrong);
		}
	}
	TH_LOG("%llu and %llu bursts, %llu lists", t[0].bursts, t[1].bursts, t[2].bursts);
	for (i = 0; i < FDS; i++) {
		EXPECT_EQ(0, htw_timers(fds[i]));
		close(fds[i]);
	}
}

/* Close at each stage of giving memory back: before, between and after the steps. */
HTW_TEST(close_meanwhile)
{
	enum { STEPS = 120 };
	int fds[STEPS], i;
	__u64 start;

	for (i = 0; i < STEPS; i++) {
		fds[i] = htw_open(O_NONBLOCK);
		ASSERT_LE(0, fds[i]);
	}
	start = now_ns();
	for (i = 0; i < STEPS; i++) {
		ASSERT_EQ(BURST, htw_start_many(fds[i], ~0ULL, 0, BURST, ids));
		ASSERT_EQ(BURST, htw_stop_many(fds[i], ids, BURST));
	}
	for (i = 0; i < STEPS; i++) {
		sleep_until(start + i * 1500 * MSEC / STEPS);
		EXPECT_EQ(0, close(fds[(i * 7) % STEPS]));
	}
}

TEST_HARNESS_MAIN
