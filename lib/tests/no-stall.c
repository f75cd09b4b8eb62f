// SPDX-License-Identifier: GPL-2.0-only
/*
 * No call stalls, however many timers there are
 *
 *   no-stall [-n TIMERS] [-v] [STATE]...
 *
 * With 4,000,000 timers in each of many states, each function is called once. A call may look at
 * 4,096 timers, and at 512 while it holds a lock, unless it is asked to return, to start or to end
 * more: a timer takes two or three cache misses, which instructions do not show. They are counted
 * where the wheel is asked to look at them. What else a call does is counted in instructions:
 * 1,000,000, and 100,000 with a lock held. The program runs itself under valgrind's callgrind,
 * which counts those, and reads what that has written. TAP: a test for each state; -v prints all
 * counts.
 */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#include "../libhtw.h"
#include "../lock.h"
#include "../../htw_wheel.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

#define HOUR		(3600 * HTW_SEC)
#define CALL_MOST	1000000ULL
#define LOCKED_MOST	100000ULL
#define NODES_MOST	4096u
#define NODES_LOCKED	512u
/* Events that a call is asked for, of which each has been a node. */
#define ASKED		64u
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define STEP		1000u
#define LABEL		400

static unsigned int timers = 4000000;

/* What is counted: a case has one or more parts, with and without a lock held. */

static char label[LABEL];
static bool counting;
static unsigned int locks, cases, nodes;

void __real_htw_lock_take(struct htw_lock *lock);
void __real_htw_lock_give(struct htw_lock *lock);
void __real_htw_lock_give_way(struct htw_lock *lock);
struct htw_node *__real_htw_wheel_expire(struct htw_wheel *w, u64 now, unsigned int *budget);
bool __real_htw_wheel_cascade(struct htw_wheel *w, unsigned int *budget);
int __real_clock_gettime(clockid_t clock, struct timespec *ts);

/* Write what was counted since the last time, and begin anew. */
static void part(char kind)
{
	char *const end = label + strlen(label);

	label[0] = kind;
	snprintf(end, label + sizeof(label) - end, "|%u", nodes);
	CALLGRIND_DUMP_STATS_AT(label);
	*end = 0;
	nodes = 0;
}

void __wrap_htw_lock_take(struct htw_lock *lock)
{
	__real_htw_lock_take(lock);
	if (counting && !locks++)
		part('-');
}

void __wrap_htw_lock_give(struct htw_lock *lock)
{
	if (counting && !--locks)
		part('+');
	__real_htw_lock_give(lock);
}

void __wrap_htw_lock_give_way(struct htw_lock *lock)
{
	if (counting && locks == 1)
		part('+');
	__real_htw_lock_give_way(lock);
	if (counting && locks == 1)
		part('-');
}

struct htw_node *__wrap_htw_wheel_expire(struct htw_wheel *w, u64 now, unsigned int *budget)
{
	const unsigned int before = *budget;
	struct htw_node *n = __real_htw_wheel_expire(w, now, budget);

	nodes += before - *budget;
	return n;
}

bool __wrap_htw_wheel_cascade(struct htw_wheel *w, unsigned int *budget)
{
	const unsigned int before = *budget;
	const bool done = __real_htw_wheel_cascade(w, budget);

	nodes += before - *budget;
	return done;
}

/* The library's clocks are ahead by this. */
static uint64_t ahead;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	const int ret = __real_clock_gettime(clock, ts);

	ts->tv_sec += ahead / HTW_SEC;
	return ret;
}

static const char *state;

/* Kinds of cases: a call; one that is asked to return or to end many. */
enum { CALL = 'c', MANY = 'm' };

static void begin(char kind, const char *call)
{
	snprintf(label, sizeof(label), "?%c%s|%s|%u", kind, state, call, ++cases);
	locks = nodes = 0;
	counting = true;
	CALLGRIND_ZERO_STATS;
}

static void end(void)
{
	part('-');
	counting = false;
}

#define COUNT_AS(kind, call) do {	\
	begin(kind, #call);		\
	(void)(call);			\
	end();				\
} while (0)

#define COUNT(call)	COUNT_AS(CALL, call)

/* What goes wrong beside. */
#define MUST(condition) do {						\
	if (!(condition)) {						\
		printf("# %s: %s failed\n", state, #condition);		\
		fflush(stdout);						\
		exit(3);						\
	}								\
} while (0)

/* States. */

static struct htw *head, *htw, *other;
static uint64_t *ids;
static uint64_t deadlines[STEP];
static struct htw_event events[1024];
static struct htw_timer_info entries[1024];

static void open_handles(const struct htw_setup_args *with)
{
	struct htw_setup_args setup = { };

	if (with)
		setup = *with;
	setup.limit = timers + 10000;
	ahead = 0;
	MUST(!htw_open(&head, HTW_BACKEND_PROCESS, &setup));
	MUST(!htw_shard(&htw, head));
	MUST(!htw_shard(&other, head));
}

/* Start them; the deadline of the n-th is @first + n * @step. */
static void start_all(const struct htw_add_args *common, uint64_t first, uint64_t step)
{
	unsigned int i, k;

	for (i = 0; i < timers; i += STEP) {
		for (k = 0; k < STEP; k++)
			deadlines[k] = first + (i + k) * step;
		MUST(!htw_add_many(htw, common, deadlines, NULL, ids + i, STEP, NULL));
	}
}

static const struct htw_add_args absolute = { .flags = HTW_F_ABS };
static const struct htw_add_args put_off = { .flags = HTW_F_ABS | HTW_F_PUT_OFF };
static const struct htw_add_args kept = { .flags = HTW_F_ABS | HTW_F_KEEP };
static const struct htw_add_args periodic = { .flags = HTW_F_ABS, .interval = HOUR };
static const struct htw_setup_args manual = { .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL };
static const struct htw_setup_args widest = {
	.tick_ns = 1000000,
	.levels = 6, .slots = { 2048, 2048, 2048, 2048, 2048, 64 },
};
static const struct htw_setup_args realtime = { .flags = HTW_SETUP_CLOCK, .clock = CLOCK_REALTIME };

static uint64_t spread(void)
{
	return HOUR / timers;
}

static void nothing_due(void)
{
	open_handles(NULL);
	start_all(&absolute, htw_now(htw) + HOUR, spread());
}

static void all_due(void)
{
	nothing_due();
	ahead = 3 * HOUR;
}

static void half_due(void)
{
	nothing_due();
	ahead = HOUR + HOUR / 2;
}

/* As many buckets as a wheel can have. */
static void widest_levels(void)
{
	open_handles(&widest);
	start_all(&absolute, htw_now(htw) + HOUR, spread());
}

static void one_bucket(void)
{
	open_handles(NULL);
	start_all(&absolute, htw_now(htw) + HOUR, 0);
}

static void one_bucket_near(void)
{
	one_bucket();
	ahead = HOUR - HTW_SEC;
}

static void one_bucket_due(void)
{
	one_bucket();
	ahead = HOUR + HTW_SEC;
}

/* Ticks of one bucket of the top level. */
static void one_long_bucket(void)
{
	open_handles(NULL);
	start_all(&absolute, htw_now(htw) + 400 * HOUR, spread());
	ahead = 399 * HOUR;
}

static void in_the_past(void)
{
	open_handles(NULL);
	start_all(NULL, 0, 0);
}

static void realtime_due(void)
{
	open_handles(&realtime);
	start_all(&absolute, htw_now(htw) + HOUR, spread());
	ahead = 3 * HOUR;
}

static void set_back(void)
{
	open_handles(&realtime);
	ahead = 100 * HOUR;
	start_all(&absolute, htw_now(htw) + HOUR, spread());
	ahead = 0;
}

static void stop_all_but(unsigned int left)
{
	unsigned int i;

	for (i = 0; i + STEP < timers; i += STEP)
		MUST(!htw_stop_many(htw, ids + i, STEP, NULL));
	MUST(!htw_stop_many(htw, ids + i, STEP - left, NULL));
}

static void one_left(void)
{
	nothing_due();
	stop_all_but(1);
}

static void none_left(void)
{
	nothing_due();
	stop_all_but(0);
}

/* One in a hundred chunks, so that much memory stays. */
static void few_left(void)
{
	unsigned int i;

	nothing_due();
	for (i = 0; i < timers; i++)
		if (i % 100000)
			MUST(!htw_stop(htw, ids[i]));
}

static void read_all(void)
{
	int n;

	do {
		n = htw_read(htw, events, 1024);
		MUST(n >= 0);
	} while (n || htw_wait(htw, 0) == 1);
}

static void all_disarmed(void)
{
	open_handles(NULL);
	start_all(&kept, 0, 0);
	read_all();
}

static void periodic_due(void)
{
	open_handles(NULL);
	start_all(&periodic, htw_now(htw) + HOUR, spread());
	ahead = 30 * HOUR;
}

/* They come, and have all been put off. */
static void all_put_off(void)
{
	unsigned int i;

	open_handles(NULL);
	start_all(&put_off, htw_now(htw) + HOUR, spread());
	ahead = 3 * HOUR;
	for (i = 0; i < timers; i++)
		MUST(!htw_put_off(htw, ids[i], htw_now(htw) + HOUR));
}

static void put_off_and_due(void)
{
	unsigned int i;

	open_handles(NULL);
	start_all(&put_off, htw_now(htw) + HOUR, 0);
	for (i = 0; i < timers; i++)
		MUST(!htw_put_off(htw, ids[i], htw_now(htw) + 2 * HOUR));
	ahead = 3 * HOUR;
}

static void manual_nothing_due(void)
{
	open_handles(&manual);
	start_all(&absolute, HOUR, spread());
}

static void manual_all_due(void)
{
	manual_nothing_due();
	COUNT(htw_advance(other, 3 * HOUR, 0));
}

static void manual_one_bucket_due(void)
{
	open_handles(&manual);
	start_all(&absolute, HOUR, 0);
	COUNT(htw_advance(other, 2 * HOUR, 0));
}

static void manual_all_put_off(void)
{
	unsigned int i;

	open_handles(&manual);
	start_all(&put_off, HOUR, spread());
	for (i = 0; i < timers; i++)
		MUST(!htw_put_off(htw, ids[i], 5 * HOUR));
	COUNT(htw_advance(other, 3 * HOUR, 0));
}

/* Each function. The handle is a shard, so that the others' calls are tried as well. */
static void each_call(void)
{
	uint64_t id, when, last = ids[timers - 1], mine[64], times[64], cursor;
	const uint64_t live = last, now = htw_now(htw);
	struct htw_cancel_args cancel;
	struct htw_timer_info query;
	struct htw_info_args info;
	struct htw_add_args add;
	struct htw *shard;
	unsigned int i;

	for (i = 0; i < 64; i++)
		times[i] = 2 * HOUR;
	COUNT(htw_info(htw, &info));
	COUNT(htw_now(htw));
	query = (struct htw_timer_info){ .id = live };
	COUNT(htw_query(htw, &query));
	query = (struct htw_timer_info){ .id = live };
	COUNT(htw_query(other, &query));
	COUNT(htw_remaining(htw, live, &when));
	COUNT(htw_next_time(htw, &when));
	cursor = 0;
	COUNT(htw_list(htw, &cursor, entries, 1));
	COUNT(htw_list(htw, &cursor, entries, 64));
	cursor = 0;
	COUNT(htw_list_in(htw, HTW_LIST_PENDING, &cursor, entries, 1));
	cursor = 0;
	COUNT(htw_list_in(htw, HTW_LIST_DUE, &cursor, entries, 1));
	cursor = 0;
	COUNT(htw_list_in(htw, HTW_LIST_DISARMED, &cursor, entries, 1));
	COUNT(htw_after(htw, 2 * HOUR, 1, &id));
	COUNT(htw_after(htw, 0, 1, &id));
	COUNT(htw_after(htw, HTW_MSEC, 1, &id));
	COUNT(htw_timeout(htw, 2 * HOUR, 1, &id));
	COUNT(htw_put_off(htw, id, now + 5 * HOUR));
	COUNT(htw_put_off_inline(htw, id, now + 6 * HOUR));
	COUNT(htw_put_off(other, id, now + 7 * HOUR));
	COUNT(htw_put_off(htw, live, now + 8 * HOUR));
	COUNT(htw_stop(htw, id));
	COUNT(htw_at(htw, now + 2 * HOUR, 1, &id));
	COUNT(htw_stop(other, id));
	COUNT(htw_every(htw, HOUR, HOUR, 1, &id));
	cancel = (struct htw_cancel_args){ .id = id };
	COUNT(htw_cancel(htw, &cancel));
	add = (struct htw_add_args){ .deadline = HOUR, .slack = HOUR };
	COUNT(htw_add(htw, &add));
	COUNT(htw_rearm(htw, add.id, 3 * HOUR));
	COUNT(htw_rearm(other, add.id, 0));
	COUNT(htw_mod(htw, &(struct htw_mod_args){ .id = live, .flags = HTW_MOD_COOKIE }));
	COUNT(htw_add_many(htw, NULL, times, NULL, mine, 64, NULL));
	COUNT(htw_rearm_many(htw, mine, times, 64, 0, NULL));
	COUNT(htw_rearm_many(other, mine, times, 64, 0, NULL));
	COUNT(htw_stop_many(htw, mine, 32, NULL));
	COUNT(htw_stop_many(other, mine + 32, 32, NULL));
	COUNT(htw_shard(&shard, htw));
	COUNT(htw_after(shard, HOUR, 1, &id));
	/* The one with which the wheel gets its levels. */
	for (i = 1; i < 63; i++)
		MUST(!htw_after(shard, i * HOUR, 1, &id));
	COUNT(htw_after(shard, HOUR, 1, &id));
	COUNT(htw_read(shard, events, 64));
	COUNT(htw_cancel_all(shard));
	COUNT(htw_close(shard));
	COUNT(htw_cancel_all(other));
	COUNT(htw_wait(htw, 0));
	COUNT(htw_wait(htw, 0));
	COUNT(htw_rearm(htw, live, 0));
	COUNT(htw_read(htw, events, 1));
	COUNT(htw_wait(htw, 0));
	for (i = 0; i < 4; i++)
		COUNT(htw_read(htw, events, 64));
	COUNT(htw_next_time(htw, &when));
	cursor = 0;
	COUNT(htw_harvest(htw, &cursor, entries, 1));
	COUNT(htw_harvest(htw, &cursor, entries, 64));
	COUNT(htw_reserve(htw, 1000));
	COUNT(htw_advance(htw, 1, 0));
	COUNT(htw_advance(htw, 0, 0));
}

static const struct {
	const char *name;
	void (*make)(void);
	bool few;	/* little is left, so that ending all is no excuse */
	bool closed;	/* try that as well */
} states[] = {
	{ "nothing is due", nothing_due, .closed = true },
	{ "all are due", all_due },
	{ "the levels are the widest", widest_levels },
	{ "half are due", half_due },
	{ "all are in one bucket", one_bucket },
	{ "all are in one bucket and near", one_bucket_near },
	{ "all are in one bucket and due", one_bucket_due },
	{ "all are in one long bucket and near", one_long_bucket },
	{ "all were started in the past", in_the_past },
	{ "all are due by the real time", realtime_due },
	{ "the clock was set back", set_back },
	{ "one is left", one_left, .few = true, .closed = true },
	{ "none is left", none_left, .few = true },
	{ "few are left", few_left, .few = true, .closed = true },
	{ "all are kept and disarmed", all_disarmed },
	{ "all are periodic and due", periodic_due },
	{ "all have come and were put off", all_put_off, .closed = true },
	{ "all were put off and are due", put_off_and_due },
	{ "nothing is due by the manual clock", manual_nothing_due },
	{ "all are due by the manual clock", manual_all_due },
	{ "all are in one bucket and due by the manual clock", manual_one_bucket_due },
	{ "all have come and were put off by the manual clock", manual_all_put_off },
};

static void run_state(unsigned int i)
{
	states[i].make();
	CALLGRIND_START_INSTRUMENTATION;
	each_call();
	/* Others wait for none of it. */
	COUNT_AS(states[i].few ? CALL : MANY, htw_cancel_all(htw));
	CALLGRIND_STOP_INSTRUMENTATION;
	htw_close(head);
	if (!states[i].closed)
		return;

	states[i].make();
	CALLGRIND_START_INSTRUMENTATION;
	COUNT_AS(states[i].few ? CALL : MANY, htw_close(htw));
	COUNT(htw_close(head));
	CALLGRIND_STOP_INSTRUMENTATION;
}

/* In portions: some calls at the beginning, in the middle and at the end. */

static bool is_sample(uint64_t done, uint64_t all)
{
	return done < 500 || (done > all / 2 && done < all / 2 + 500) || done + 500 > all;
}

#define PORTION(call) do {				\
	if (is_sample(done, timers)) {			\
		CALLGRIND_START_INSTRUMENTATION;	\
		COUNT(n = call);			\
		CALLGRIND_STOP_INSTRUMENTATION;		\
	} else {					\
		n = call;				\
	}						\
} while (0)

static void portions(void)
{
	uint64_t done = 0, cursor = 0;
	int n;

	state = "in portions";
	nothing_due();
	do {
		PORTION(htw_list(htw, &cursor, entries, 64));
		MUST(n >= 0 || n == -EAGAIN);
		done += n > 0 ? n : 0;
	} while (n);
	MUST(done == timers);
	/* The same for each state: those that are not asked for are many. */
	cursor = done = 0;
	do {
		PORTION(htw_list_in(htw, HTW_LIST_DUE, &cursor, entries, 64));
		MUST(n == 0 || n == -EAGAIN);
	} while (n);
	cursor = done = 0;
	do {
		PORTION(htw_harvest(htw, &cursor, entries, 64));
		MUST(n >= 0);
		done += n;
	} while (n);
	MUST(done == timers);
	htw_close(head);

	all_due();
	for (done = 0; done < timers; done += n) {
		PORTION(htw_read(htw, events, 64));
		MUST(n >= 0);
	}
	htw_close(head);
}

/* The slowest of many calls, found by the clock, are made again, and counted. */

enum { SLOWEST = 16 };

static struct {
	uint64_t ns;
	unsigned int number;
} slowest[SLOWEST];

static uint64_t real_time(void)
{
	struct timespec ts;

	__real_clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * HTW_SEC + ts.tv_nsec;
}

static void note_time(unsigned int number, uint64_t ns)
{
	unsigned int i, least = 0;

	for (i = 1; i < SLOWEST; i++)
		if (slowest[i].ns < slowest[least].ns)
			least = i;
	if (ns > slowest[least].ns) {
		slowest[least].ns = ns;
		slowest[least].number = number;
	}
}

static bool is_slow(unsigned int number)
{
	unsigned int i;

	for (i = 0; i < SLOWEST; i++)
		if (slowest[i].number == number)
			return true;
	return false;
}

/* Make calls 0 to timers - 1: for the clock, then for the count. */
#define EACH(call) do {							\
	unsigned int n;							\
									\
	if (!round)							\
		memset(slowest, 0, sizeof(slowest));			\
	for (n = 0; n < timers; n++) {					\
		if (!round) {						\
			const uint64_t then = real_time();		\
									\
			(void)(call);					\
			note_time(n, real_time() - then);		\
		} else if (is_slow(n)) {				\
			CALLGRIND_START_INSTRUMENTATION;		\
			COUNT(call);					\
			CALLGRIND_STOP_INSTRUMENTATION;			\
		} else {						\
			(void)(call);					\
		}							\
	}								\
} while (0)

static struct htw_dispatcher *dispatcher;
static unsigned int made;

static void made_call(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	(void)d;
	(void)call;
	(void)arg;
	made++;
}

static void open_dispatcher(void)
{
	open_handles(NULL);
	MUST(!htw_dispatcher_new(&dispatcher, htw));
}

static void close_dispatcher(void)
{
	htw_dispatcher_free(dispatcher);
	htw_close(head);
}

/* Each kind of call has tables of its own that grow and shrink. */
enum growth { STARTING, STOPPING, READING, PUTTING_OFF, CALLING, CALL_STOPPING, GROWTHS };

static void grow(enum growth growth)
{
	unsigned int round;

	for (round = 0; round < 2; round++) {
		switch (growth) {
		case STARTING:
			open_handles(NULL);
			EACH(htw_after(htw, HOUR, 1, &ids[n]));
			break;
		case STOPPING:
			nothing_due();
			EACH(htw_stop(htw, ids[n]));
			break;
		case READING:
			all_due();
			EACH(htw_read(htw, events, 1));
			break;
		case PUTTING_OFF:
			open_handles(NULL);
			EACH(htw_timeout(htw, HOUR, 1, &ids[n]));
			break;
		case CALLING:
			open_dispatcher();
			EACH(htw_call_after(dispatcher, HOUR, made_call, NULL, &ids[n]));
			htw_dispatcher_free(dispatcher);
			break;
		case CALL_STOPPING:
			open_dispatcher();
			for (unsigned int i = 0; i < timers; i++)
				MUST(!htw_call_after(dispatcher, HOUR, made_call, NULL, &ids[i]));
			EACH(htw_call_stop(dispatcher, ids[n]));
			htw_dispatcher_free(dispatcher);
			break;
		case GROWTHS:
			break;
		}
		htw_close(head);
	}
}

static void growing(void)
{
	enum growth growth;

	state = "one by one";
	for (growth = 0; growth < GROWTHS; growth++)
		grow(growth);
}

static void start_calls(void)
{
	unsigned int i;

	open_dispatcher();
	for (i = 0; i < timers; i++)
		MUST(!htw_call_after(dispatcher, HOUR + i * spread(), made_call, NULL, &ids[i]));
}

static void each_dispatcher_call(void)
{
	const uint64_t live = ids[timers - 1], more = ids[timers / 2];
	uint64_t call;

	COUNT(htw_dispatcher_set_slack(dispatcher, 0));
	COUNT(htw_call_after(dispatcher, 2 * HOUR, made_call, NULL, &call));
	COUNT(htw_call_again(dispatcher, call, 3 * HOUR));
	COUNT(htw_call_again(dispatcher, live, 3 * HOUR));
	COUNT(htw_call_missed(dispatcher, live));
	COUNT(htw_call_stop(dispatcher, call));
	COUNT(htw_call_stop_wait(dispatcher, more));
	COUNT(htw_call_every(dispatcher, HOUR, HOUR, made_call, NULL, &call));
	COUNT(htw_call_stop(dispatcher, call));
	COUNT(htw_call_after(dispatcher, 0, made_call, NULL, &call));
	COUNT(htw_dispatch(dispatcher, 0));
	COUNT(htw_dispatch(dispatcher, 0));
}

static void calls(void)
{
	static struct htw_pending_call pending[64];
	uint64_t done = 0, cursor = 0;
	unsigned int n;

	state = "of the dispatcher, nothing is due";
	start_calls();
	CALLGRIND_START_INSTRUMENTATION;
	each_dispatcher_call();
	CALLGRIND_STOP_INSTRUMENTATION;

	state = "of the dispatcher, all are due";
	ahead = 3 * HOUR;
	CALLGRIND_START_INSTRUMENTATION;
	each_dispatcher_call();
	COUNT(htw_dispatcher_shutdown(dispatcher, &cursor, pending, 1));
	CALLGRIND_STOP_INSTRUMENTATION;
	while (htw_dispatch(dispatcher, 0) > 0)
		;
	state = "of the dispatcher, none is left";
	CALLGRIND_START_INSTRUMENTATION;
	each_dispatcher_call();
	cursor = 0;
	COUNT(htw_dispatcher_shutdown(dispatcher, &cursor, pending, 1));
	CALLGRIND_STOP_INSTRUMENTATION;
	close_dispatcher();

	state = "of the dispatcher, in portions";
	start_calls();
	cursor = 0;
	do {
		PORTION(htw_dispatcher_shutdown(dispatcher, &cursor, pending, 64));
		done += n;
	} while (n);
	MUST(done == timers);
	state = "of the dispatcher, ended";
	CALLGRIND_START_INSTRUMENTATION;
	each_dispatcher_call();
	CALLGRIND_STOP_INSTRUMENTATION;
	close_dispatcher();
}

static bool wanted(const char *name, int argc, char **argv)
{
	int i;

	for (i = 0; i < argc; i++)
		if (!strcmp(name, argv[i]))
			return true;
	return !argc;
}

/* What runs under callgrind. */
static int count_all(int argc, char **argv)
{
	const struct rlimit files = { 1024, 1024 };
	unsigned int i;

	setrlimit(RLIMIT_NOFILE, &files);
	ids = calloc(timers, sizeof(*ids));
	MUST(ids);
	for (i = 0; i < ARRAY_SIZE(states); i++) {
		state = states[i].name;
		if (wanted(state, argc, argv))
			run_state(i);
	}
	if (wanted("in portions", argc, argv))
		portions();
	if (wanted("one by one", argc, argv))
		growing();
	if (wanted("of the dispatcher", argc, argv))
		calls();
	return 0;
}

/* What was counted. */

struct result {
	char name[LABEL + 100];	/* kind, state, call, number */
	uint64_t all, locked;
	unsigned int nodes, nodes_locked;
};

static struct result *results;
static size_t nr_results;

/* Parts of one case come one after the other; a case that is repeated begins with a new part. */
static void add_part(char *name, uint64_t count)
{
	char *const looked = strrchr(name, '|');
	const unsigned int n = strtoul(looked + 1, NULL, 10);
	const bool locked = name[0] == '+';
	struct result *last = nr_results ? &results[nr_results - 1] : NULL;

	*looked = 0;
	if (!last || strcmp(last->name, name + 1)) {
		results = realloc(results, ++nr_results * sizeof(*results));
		last = &results[nr_results - 1];
		*last = (struct result){ };
		snprintf(last->name, sizeof(last->name), "%s", name + 1);
	}
	last->all += count;
	if (locked && count > last->locked)
		last->locked = count;
	last->nodes += n;
	if (locked && n > last->nodes_locked)
		last->nodes_locked = n;
}

static bool read_counts(const char *path)
{
	static const char trigger[] = "desc: Trigger: Client Request: ";
	char line[LABEL + 100], name[LABEL + 100] = "";
	FILE *f = fopen(path, "r");
	unsigned long long count;

	if (!f)
		return false;
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, trigger, strlen(trigger))) {
			line[strcspn(line, "\n")] = 0;
			memmove(name, line + strlen(trigger), strlen(line + strlen(trigger)) + 1);
		} else if (sscanf(line, "totals: %llu", &count) == 1 && name[0]) {
			add_part(name, count);
			name[0] = 0;
		}
	}
	fclose(f);
	return nr_results;
}

static bool same_state(const char *a, const char *b)
{
	const size_t n = strcspn(a + 1, "|");

	return n == strcspn(b + 1, "|") && !strncmp(a + 1, b + 1, n);
}

/* TAP: a test for each state. */
static int report(bool verbose)
{
	unsigned int tests = 0, failed = 0;
	size_t i, k, locks_seen = 0, nodes_seen = 0;
	bool good;

	printf("TAP version 13\n");
	for (i = 0; i < nr_results; i = k) {
		good = true;
		for (k = i; k < nr_results && same_state(results[i].name, results[k].name); k++) {
			const struct result *r = &results[k];
			const bool bad = (r->name[0] == CALL &&
					  (r->all > CALL_MOST ||
					   r->nodes > NODES_MOST + ASKED)) ||
					 r->locked > LOCKED_MOST ||
					 r->nodes_locked > NODES_LOCKED;

			locks_seen += r->locked > 0;
			nodes_seen += r->nodes_locked == NODES_LOCKED;
			good &= !bad;
			if (bad || verbose)
				printf("# %s%.*s: %u timers, %u locked; %llu steps, %llu locked\n",
				       bad ? "too many: " : "",
				       (int)(strrchr(r->name, '|') - strchr(r->name, '|') - 1),
				       strchr(r->name, '|') + 1, r->nodes, r->nodes_locked,
				       (unsigned long long)r->all, (unsigned long long)r->locked);
		}
		tests++;
		failed += !good;
		printf("%sok %u %.*s\n", good ? "" : "not ", tests,
		       (int)strcspn(results[i].name + 1, "|"), results[i].name + 1);
	}
	/* The library may take its locks, or ask the wheel, by another function one day. */
	tests++;
	good = locks_seen && nodes_seen;
	failed += !good;
	printf("%sok %u locks and timers are seen\n", good ? "" : "not ", tests);
	printf("1..%u\n", tests);
	return !!failed;
}

int main(int argc, char **argv)
{
	char out[] = "/tmp/no-stall-XXXXXX", option_out[64], number[16];
	bool verbose = false;
	int option, status, i;
	char *args[32];
	unsigned int n;
	pid_t child;

	while ((option = getopt(argc, argv, "n:v")) != -1) {
		if (option == 'n') {
			timers = strtoul(optarg, NULL, 0) / STEP * STEP;
		} else if (option == 'v') {
			verbose = true;
		} else {
			fprintf(stderr, "usage: %s [-n TIMERS] [-v] [STATE]...\n", argv[0]);
			return 2;
		}
	}
	if (RUNNING_ON_VALGRIND)
		return count_all(argc - optind, argv + optind);

	close(mkstemp(out));
	snprintf(option_out, sizeof(option_out), "--callgrind-out-file=%s", out);
	snprintf(number, sizeof(number), "-n%u", timers);
	child = fork();
	if (!child) {
		n = 0;
		args[n++] = "valgrind";
		args[n++] = "-q";
		args[n++] = "--tool=callgrind";
		args[n++] = "--instr-atstart=no";
		args[n++] = "--combine-dumps=yes";
		/* Sums by function are enough, and quicker to write and to read. */
		args[n++] = "--dump-line=no";
		args[n++] = option_out;
		args[n++] = argv[0];
		args[n++] = number;
		for (i = optind; i < argc && n < ARRAY_SIZE(args) - 1; i++)
			args[n++] = argv[i];
		args[n] = NULL;
		execvp(args[0], args);
		perror("valgrind");
		_exit(4);
	}
	waitpid(child, &status, 0);
	if (status || !read_counts(out)) {
		printf("# valgrind ended with %d\nnot ok 1 counting\n1..1\n", status);
		unlink(out);
		return 1;
	}
	unlink(out);
	return report(verbose);
}
