// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory is given back after a burst, by the calls that end timers
 *
 * Measured as the charge of the cgroup that each test runs in, and as HTW_INFO
 * says.
 *
 * Slow: 50 s.
 */
#include "htw-memory.h"

#include <pthread.h>
#include <sys/mman.h>

#define COUNT		200000
#define SURVIVORS	(COUNT / 100)
/* Most memory that a context keeps for the next burst: 17 pages, and their directory. */
#define KEPT		(40 * PAGE)

static __u64 ids[COUNT], others[COUNT], burst_ids[COUNT];
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
	memset(burst_ids, 0xff, sizeof(burst_ids));
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

/* A context has given back all but @most, when its call has returned. qsort() has memory, too. */
#define EXPECT_BACK(fd, before, most) do {				\
	EXPECT_GE((__u64)(most), htw_info(fd).bytes);			\
	EXPECT_TRUE(htw_eventually(charged() <= (before) + (most) + 2 * SLACK));	\
} while (0)

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
		EXPECT_BACK(self->fd, before, KEPT);
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
	/* Not by a read that has events, but by who is about to wait. */
	EXPECT_FALSE(htw_due(self->fd));
	EXPECT_BACK(self->fd, before, KEPT);
}

HTW_TEST(after_cancel_all)
{
	struct htw_cancel_all_args all = { .flags = 0 };
	__u64 before;

	NEEDS_GROUP();
	before = baseline(self->fd);
	ASSERT_EQ(COUNT, htw_start_many(self->fd, ~0ULL, 0, COUNT, NULL));
	ASSERT_EQ(0, htw_call(self->fd, HTW_CANCEL_ALL, &all));
	ASSERT_EQ(COUNT, all.count);
	EXPECT_BACK(self->fd, before, KEPT);
}

/* List all pending timers in @to and return their number. */
static __u64 list(int fd, __u64 *cursor, __u64 *to, __u64 room)
{
	struct htw_timer_info entries[BATCH];
	struct htw_list_args arg = { .cursor = *cursor, .entries = (uintptr_t)entries };
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

/*
 * A random per cent survives: half of the pages hold such a timer. They are looked at each time
 * that half of the timers have ended, and 72 per cent held one when two per cent were left.
 */
HTW_TEST(after_random_cancels)
{
	const __u64 share = COUNT * NODE * 75 / 100;
	__u64 before, cursor = 0, n;

	NEEDS_GROUP();
	before = baseline(self->fd);
	ASSERT_EQ(COUNT, htw_start_many(self->fd, ~0ULL, 0, COUNT, ids));
	shuffle(ids, COUNT);
	ASSERT_EQ(COUNT - SURVIVORS,
		  htw_stop_many(self->fd, ids + SURVIVORS, COUNT - SURVIVORS));
	EXPECT_BACK(self->fd, before, share);
	/* A list that has begun continues when other pages are given back. */
	n = list(self->fd, &cursor, others, SURVIVORS / 3);
	ASSERT_EQ(SURVIVORS / 3, n);
	ASSERT_EQ(COUNT, htw_start_many(self->fd, ~0ULL, 0, COUNT, burst_ids));
	ASSERT_EQ(COUNT, htw_stop_many(self->fd, burst_ids, COUNT));
	n += list(self->fd, &cursor, others + n, COUNT - n);
	ASSERT_EQ(SURVIVORS, n);
	qsort(ids, SURVIVORS, sizeof(*ids), compare);
	qsort(others, SURVIVORS, sizeof(*others), compare);
	EXPECT_EQ(0, memcmp(ids, others, SURVIVORS * sizeof(*ids)));

	EXPECT_EQ(SURVIVORS, htw_stop_many(self->fd, ids, SURVIVORS));
	EXPECT_BACK(self->fd, before, KEPT);
}

static __u32 last_page(const __u64 *array)
{
	__u32 last = 0, i;

	for (i = 0; i < COUNT; i++) {
		if ((__u32)(array[i]) / 64 > last)
			last = (__u32)(array[i]) / 64;
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
	EXPECT_BACK(self->fd, before, KEPT);
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
	EXPECT_BACK(self->fd, before, KEPT);
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
	__u64 end = now_ns() + TORTURE, cursor, n, i;
	static __u64 to[3 * BURST];

	while (now_ns() < end) {
		cursor = 0;
		n = list(t->fds[xorshift64(&t->random) % FDS], &cursor, to, ARRAY_SIZE(to));
		/* More than are pending at a time, if some are started while it goes on. */
		for (i = 1; i < n; i++)
			if ((__u32)to[i] <= (__u32)to[i - 1])
				t->wrong = "a slot was listed twice";
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
		EXPECT_GE(KEPT, htw_info(fds[i]).bytes);
		close(fds[i]);
	}
}

/* Calls for a single timer give memory back as well. */
HTW_TEST(after_single_calls)
{
	enum { SOME = 20000 };
	struct htw_timer_info entry;
	struct htw_list_args harvest = htw_list_of(&entry, 1);
	struct htw_event ev;
	__u64 i;

	ASSERT_EQ(SOME, htw_start_many(self->fd, ~0ULL, 0, SOME, NULL));
	ASSERT_EQ(SOME, htw_start_many(self->fd, 0, SOME, SOME, NULL));
	ASSERT_EQ(SOME, htw_start_many(self->fd, ~0ULL, 2 * SOME, SOME, ids));
	ASSERT_TRUE(htw_wait_readable(self->fd));
	EXPECT_LE(3 * SOME * NODE, htw_info(self->fd).bytes);
	for (i = 0; i < SOME; i++) {
		/* In the order of slots. */
		ASSERT_EQ(0, htw_call(self->fd, HTW_HARVEST, &harvest));
		ASSERT_EQ(1, harvest.done);
		ASSERT_EQ(i, entry.cookie);
		ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
		ASSERT_EQ(0, htw_stop(self->fd, ids[i]));
	}
	EXPECT_EQ(0, htw_timers(self->fd));
	EXPECT_GE(KEPT, htw_info(self->fd).bytes);
}

/* The levels of a wheel go with its last timer. */
HTW_TEST(levels)
{
	__u64 few;

	ASSERT_EQ(60, htw_start_many(self->fd, ~0ULL, 0, 60, ids));
	few = htw_info(self->fd).bytes;
	ASSERT_EQ(BATCH, htw_start_many(self->fd, ~0ULL, 0, BATCH, ids + 60));
	/* Pages of timers, and some KiB of levels. */
	EXPECT_LE(few + BATCH * NODE + 2 * PAGE, htw_info(self->fd).bytes);
	ASSERT_EQ(60 + BATCH, htw_stop_many(self->fd, ids, 60 + BATCH));
	EXPECT_GE(few + (BATCH + 64) * NODE, htw_info(self->fd).bytes);
}

/* A thread that makes calls which take the context's mutex, or begin an add that fails. */
struct beside {
	pthread_t thread;
	int fd;
	bool stop;
	void (*call)(int fd);
};

static void advance_a_little(int fd)
{
	htw_advance(fd, 1, 0);
}

static void set_up_again(int fd)
{
	htw_set_up(fd, (struct htw_setup_args){ .limit = 10 });
}

/* The id cannot be written. */
static void add_in_vain(int fd)
{
	static struct htw_add_args *add;

	if (!add) {
		add = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		*add = htw_rel(HOUR, 0);
		mprotect(add, PAGE, PROT_READ);
	}
	htw_call(fd, HTW_ADD, add);
}

static void *call_beside(void *arg)
{
	struct beside *b = arg;

	htw_pin(htw_other_cpu());
	while (!__atomic_load_n(&b->stop, __ATOMIC_RELAXED))
		b->call(b->fd);
	return NULL;
}

static void end_all(int fd, const __u64 *all, __u64 count, int how)
{
	struct htw_cancel_all_args args = { 0 };

	if (how == 0)
		htw_call(fd, HTW_CANCEL_ALL, &args);
	else if (how == 1)
		htw_stop_many(fd, all, count);
	else
		for (__u64 i = 0; i < count; i++)
			htw_stop(fd, all[i]);
}

/*
 * Who ends the last timer while another call holds the mutex cannot give memory back: that
 * other call does.
 */
HTW_TEST(beside_other_calls)
{
	enum { SOME = 20000, ROUNDS = 12 };
	static void (*const calls[])(int fd) = { advance_a_little, set_up_again, add_in_vain };
	struct beside b;

	for (unsigned int c = 0; c < ARRAY_SIZE(calls); c++) {
		b = (struct beside){ .fd = htw_open(O_NONBLOCK), .call = calls[c] };
		ASSERT_LE(0, b.fd);
		ASSERT_EQ(0, htw_setup_clock(b.fd, HTW_CLOCK_MANUAL));
		for (unsigned int i = 0; i < ROUNDS; i++) {
			b.stop = false;
			ASSERT_EQ(SOME, htw_start_many(b.fd, ~0ULL, 0, SOME, ids));
			ASSERT_EQ(0, pthread_create(&b.thread, NULL, call_beside, &b));
			end_all(b.fd, ids, SOME, i % 3);
			__atomic_store_n(&b.stop, true, __ATOMIC_RELAXED);
			ASSERT_EQ(0, pthread_join(b.thread, NULL));
			ASSERT_EQ(0, htw_timers(b.fd));
			EXPECT_GE(KEPT, htw_info(b.fd).bytes) {
				TH_LOG("call %u, round %u", c, i);
			}
		}
		close(b.fd);
	}
}

TEST_HARNESS_MAIN
