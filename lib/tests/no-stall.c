// SPDX-License-Identifier: GPL-2.0-only
/*
 * No call stalls, however many timers there are
 *
 *   no-stall [-n TIMERS] [-v] [STATE]...
 *
 * With 4,000,000 timers in each of many states, each function is called once. A call may look at
 * 4,096 timers, and at 512 while it holds a lock, unless it is asked to return, to start or to end
 * more: a timer takes two or three cache misses, which steps do not show. They are counted where
 * the wheel is asked to look at them. What else a call does is counted in steps: 250,000, and
 * 25,000 with a lock held. A step is a basic block of the library, some four instructions, for
 * which the compiler has put in a call; or 16 bytes that the C library copies or fills. TAP: a
 * test for each state; -v prints the most of each call.
 */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#include "../libhtw.h"
#include "../lock.h"
#include "../../htw_wheel.h"
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define HOUR		(3600 * HTW_SEC)
#define STEPS_MOST	250000u
#define STEPS_LOCKED	25000u
#define NODES_MOST	4096u
#define NODES_LOCKED	512u
/* Events that a call is asked for, of which each has been a node. */
#define ASKED		64u
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define STEP		1000u

static unsigned int timers = 4000000;

/**
 * struct result - the most that a call took in a state
 * @state: that state
 * @call: its text
 * @asked_for_many: it may take any number of steps, and timers, in parts with the lock held
 * @steps: in all
 * @steps_locked: in one part with the lock held
 * @nodes: timers that it looked at
 * @nodes_locked: of these, in one part with the lock held
 */
struct result {
	const char *state, *call;
	bool asked_for_many;
	unsigned int steps, steps_locked, nodes, nodes_locked;
};

static struct result results[4096], current;
static unsigned int nr_results;
/* Of the part of a call that is going on: parts end where a lock is taken or given. */
static unsigned int steps, nodes, locks;
static bool counting;

void __sanitizer_cov_trace_pc(void)
{
	steps++;
}

void __real_htw_lock_take(struct htw_lock *lock);
void __real_htw_lock_give(struct htw_lock *lock);
void __real_htw_lock_give_way(struct htw_lock *lock);
struct htw_node *__real_htw_wheel_expire(struct htw_wheel *w, u64 now, unsigned int *budget);
bool __real_htw_wheel_cascade(struct htw_wheel *w, unsigned int *budget);
int __real_clock_gettime(clockid_t clock, struct timespec *ts);
void *__real_memset(void *to, int byte, size_t n);
void *__real_memcpy(void *to, const void *from, size_t n);
void *__real_realloc(void *p, size_t n);
void *__real_reallocarray(void *p, size_t n, size_t size);

static void count_bytes(size_t n)
{
	steps += n / 16;
}

void *__wrap_memset(void *to, int byte, size_t n)
{
	count_bytes(n);
	return __real_memset(to, byte, n);
}

void *__wrap_memcpy(void *to, const void *from, size_t n)
{
	count_bytes(n);
	return __real_memcpy(to, from, n);
}

void *__wrap_realloc(void *p, size_t n)
{
	count_bytes(malloc_usable_size(p));
	return __real_realloc(p, n);
}

void *__wrap_reallocarray(void *p, size_t n, size_t size)
{
	count_bytes(malloc_usable_size(p));
	return __real_reallocarray(p, n, size);
}

static void end_part(bool locked)
{
	current.steps += steps;
	current.nodes += nodes;
	if (locked) {
		current.steps_locked = max(current.steps_locked, steps);
		current.nodes_locked = max(current.nodes_locked, nodes);
	}
	steps = nodes = 0;
}

void __wrap_htw_lock_take(struct htw_lock *lock)
{
	__real_htw_lock_take(lock);
	if (counting && !locks++)
		end_part(false);
}

void __wrap_htw_lock_give(struct htw_lock *lock)
{
	if (counting && !--locks)
		end_part(true);
	__real_htw_lock_give(lock);
}

void __wrap_htw_lock_give_way(struct htw_lock *lock)
{
	if (counting && locks == 1)
		end_part(true);
	__real_htw_lock_give_way(lock);
	if (counting && locks == 1)
		end_part(false);
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

static void begin(const char *call, bool asked_for_many)
{
	current = (struct result){ .state = state, .call = call, .asked_for_many = asked_for_many };
	counting = true;
	locks = steps = nodes = 0;
}

/* The same call, again and again, is one result. */
static void end(void)
{
	struct result *r;

	end_part(false);
	counting = false;
	r = nr_results ? &results[nr_results - 1] : NULL;
	if (!r || r->state != current.state || r->call != current.call) {
		if (nr_results == ARRAY_SIZE(results))
			abort();
		results[nr_results++] = current;
		return;
	}
	r->steps = max(r->steps, current.steps);
	r->steps_locked = max(r->steps_locked, current.steps_locked);
	r->nodes = max(r->nodes, current.nodes);
	r->nodes_locked = max(r->nodes_locked, current.nodes_locked);
}

/* @many: it is asked to return or to end many. */
#define COUNT_AS(many, call) do {	\
	begin(#call, many);		\
	(void)(call);			\
	end();				\
} while (0)

#define COUNT(call)	COUNT_AS(false, call)

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
	each_call();
	/* Others wait for none of it. */
	COUNT_AS(!states[i].few, htw_cancel_all(htw));
	htw_close(head);
	if (!states[i].closed)
		return;

	states[i].make();
	COUNT_AS(!states[i].few, htw_close(htw));
	COUNT(htw_close(head));
}

/* In portions. */

static void portions(void)
{
	uint64_t done = 0, cursor = 0;
	int n;

	state = "in portions";
	nothing_due();
	do {
		COUNT(n = htw_list(htw, &cursor, entries, 64));
		MUST(n >= 0 || n == -EAGAIN);
		done += n > 0 ? n : 0;
	} while (n);
	MUST(done == timers);
	/* The same for each state: those that are not asked for are many. */
	cursor = done = 0;
	do {
		COUNT(n = htw_list_in(htw, HTW_LIST_DUE, &cursor, entries, 64));
		MUST(n == 0 || n == -EAGAIN);
	} while (n);
	cursor = done = 0;
	do {
		COUNT(n = htw_harvest(htw, &cursor, entries, 64));
		MUST(n >= 0);
		done += n;
	} while (n);
	MUST(done == timers);
	htw_close(head);

	all_due();
	for (done = 0; done < timers; done += n) {
		COUNT(n = htw_read(htw, events, 64));
		MUST(n >= 0);
	}
	htw_close(head);
}

/* One by one: each call, as tables grow and shrink. */
#define EACH(call) do {			\
	unsigned int n;			\
					\
	for (n = 0; n < timers; n++)	\
		COUNT(call);		\
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
	each_dispatcher_call();

	state = "of the dispatcher, all are due";
	ahead = 3 * HOUR;
	each_dispatcher_call();
	COUNT(htw_dispatcher_shutdown(dispatcher, &cursor, pending, 1));
	while (htw_dispatch(dispatcher, 0) > 0)
		;
	state = "of the dispatcher, none is left";
	each_dispatcher_call();
	cursor = 0;
	COUNT(htw_dispatcher_shutdown(dispatcher, &cursor, pending, 1));
	close_dispatcher();

	state = "of the dispatcher, in portions";
	start_calls();
	cursor = 0;
	do {
		COUNT(n = htw_dispatcher_shutdown(dispatcher, &cursor, pending, 64));
		done += n;
	} while (n);
	MUST(done == timers);
	state = "of the dispatcher, ended";
	each_dispatcher_call();
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

static void count_all(int argc, char **argv)
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
}

static bool is_too_much(const struct result *r)
{
	return (!r->asked_for_many && (r->steps > STEPS_MOST || r->nodes > NODES_MOST + ASKED)) ||
	       r->steps_locked > STEPS_LOCKED || r->nodes_locked > NODES_LOCKED;
}

/* TAP: a test for each state. */
static int report(bool verbose)
{
	unsigned int tests = 0, failed = 0, i, k, locks_seen = 0, nodes_seen = 0;
	bool good;

	printf("TAP version 13\n");
	for (i = 0; i < nr_results; i = k) {
		good = true;
		for (k = i; k < nr_results && results[k].state == results[i].state; k++) {
			const struct result *r = &results[k];
			const bool bad = is_too_much(r);

			locks_seen += r->steps_locked > 0;
			nodes_seen += r->nodes_locked == NODES_LOCKED;
			good &= !bad;
			if (bad || verbose)
				printf("# %s%s: %u timers, %u locked; %u steps, %u locked\n",
				       bad ? "too many: " : "", r->call, r->nodes, r->nodes_locked,
				       r->steps, r->steps_locked);
		}
		tests++;
		failed += !good;
		printf("%sok %u %s\n", good ? "" : "not ", tests, results[i].state);
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
	bool verbose = false;
	int option;

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
	count_all(argc - optind, argv + optind);
	return report(verbose);
}
