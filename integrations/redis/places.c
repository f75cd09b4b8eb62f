// SPDX-License-Identifier: MIT
/*
 * Where queues are: in a database, or gone
 *
 * Each database has a list of its queues, and counts. Nothing that a client does to a queue or to
 * a database as a whole takes time for each timeout: a queue whose key goes is put in the list of
 * those that are gone, and a database that is flushed becomes such a list itself. Their timers are
 * stopped in portions, between which the server serves its clients; then a thread frees the
 * memory. A queue that is renamed or moved goes and comes again within the command, before any of
 * its timers has been stopped.
 *
 * Both the server, perhaps in a thread of its own, and this file have to be done with a queue
 * before it is freed: each sets its bit of &queue.ended, and who is second frees it. A list that is
 * gone lasts until the last of its queues has been freed.
 */
#include "places.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "clock.h"
#include "lease.h"
#include "queue.h"

#define GONE		(-1)

/* How long clients wait for a portion. */
#define PORTION_US	1000

/* A queue with so few is ended at once. */
#define FEW		64

static struct database **places;
static int nr;

/* Those that a replica is loading, if it is. */
static struct database **arriving;
static int nr_arriving;
static bool is_arriving;

/* Where queues go one by one; the last in the list of what is gone. */
static struct database alone = { .number = GONE, .users = 1 };
static struct database *gone = &alone;

/* The queue whose timers are being stopped, and how far that is. */
static struct queue *ending;
static RedisModuleDictIter *ending_at;
static bool portion_is_due;

/* Queues that the thread is to free. */
static struct queue *to_free;
static bool is_freeing;
static pthread_mutex_t free_lock = PTHREAD_MUTEX_INITIALIZER;

/* Databases. */

static struct database *place_new(int db)
{
	struct database *home = RedisModule_Calloc(1, sizeof(*home));

	home->number = db;
	atomic_init(&home->users, 1);
	return home;
}

static void place_put(struct database *home)
{
	if (atomic_fetch_sub(&home->users, 1) == 1)
		RedisModule_Free(home);
}

struct database *place_at(int db)
{
	return db < nr ? places[db] : NULL;
}

int nr_places(void)
{
	return nr;
}

/* The database of a number, in a list of them; made if there is none yet. */
static struct database *place_in(struct database ***list, int *count, int db)
{
	if (db >= *count) {
		*list = RedisModule_Realloc(*list, (db + 1) * sizeof(**list));
		memset(*list + *count, 0, (db + 1 - *count) * sizeof(**list));
		*count = db + 1;
	}
	if (!(*list)[db])
		(*list)[db] = place_new(db);
	return (*list)[db];
}

static struct database *place_of(int db)
{
	return place_in(&places, &nr, db);
}

/* Counts. */

void count_pending(struct queue *q, int64_t count)
{
	if (!q->home)
		return;
	q->home->counts.pending += count;
	if (!q->stream)
		q->home->counts.parked += count;
}

/* The timers are counted whether or not the queue has a place. */
void count_armed(struct queue *q, int64_t count)
{
	q->armed += count;
	if (!q->home)
		return;
	if (q->stream)
		q->home->counts.armed += count;
	else
		q->home->counts.armed_parked += count;
}

void count_waiting(struct queue *q, int64_t count)
{
	q->waiting += count;
	if (q->home && q->stream)
		q->home->counts.waiting += count;
}

void count_failing(struct queue *q, int64_t count)
{
	if (q->home)
		q->home->counts.failing += count;
}

/* Count all that a queue has, in its place, @sign times. */
static void count_queue(const struct queue *q, int sign)
{
	struct counts *counts = &q->home->counts;

	counts->pending += sign * (int64_t)queue_size(q);
	if (q->stream) {
		counts->streams += sign;
		counts->armed += sign * (int64_t)q->armed;
		counts->waiting += sign * (int64_t)q->waiting;
	} else {
		counts->parked += sign * (int64_t)queue_size(q);
		counts->armed_parked += sign * (int64_t)q->armed;
	}
	if (q->reason)
		counts->failing += sign;
}

struct counts places_counts(void)
{
	struct counts sum = { 0 };
	int n;

	for (n = 0; n < nr; n++) {
		if (!places[n])
			continue;
		sum.streams += places[n]->counts.streams;
		sum.pending += places[n]->counts.pending;
		sum.parked += places[n]->counts.parked;
		sum.armed += places[n]->counts.armed;
		sum.waiting += places[n]->counts.waiting;
		sum.due += places[n]->counts.due;
		sum.failing += places[n]->counts.failing;
	}
	return sum;
}

uint64_t timers_ending(void)
{
	const struct database *home;
	uint64_t sum = 0;

	for (home = gone; home; home = home->next)
		sum += home->counts.armed + home->counts.armed_parked;
	return sum;
}

/* Freeing. */

static void free_queue(struct queue *q)
{
	struct database *home = q->home;

	queue_free_memory(q);
	if (home)
		place_put(home);
}

static void *free_queues(void *arg)
{
	struct queue *q;

	(void)arg;
	for (;;) {
		pthread_mutex_lock(&free_lock);
		q = to_free;
		if (q)
			to_free = q->next;
		else
			is_freeing = false;
		pthread_mutex_unlock(&free_lock);
		if (!q)
			return NULL;
		free_queue(q);
	}
}

/* Have the thread do it, which ends when nothing is left. */
static void free_in_background(struct queue *q)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;
	bool start;
	int ret;

	pthread_mutex_lock(&free_lock);
	q->next = to_free;
	to_free = q;
	start = !is_freeing;
	is_freeing = true;
	pthread_mutex_unlock(&free_lock);
	if (!start)
		return;

	/* Signals are for the server's threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	ret = pthread_create(&thread, &attr, free_queues, NULL);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	/* There can be no more threads: clients wait. */
	if (ret)
		free_queues(NULL);
}

static void free_somewhere(struct queue *q)
{
	if (queue_size(q) > FEW)
		free_in_background(q);
	else
		free_queue(q);
}

void place_freed(struct queue *q)
{
	if (atomic_fetch_or(&q->ended, FREED) & STOPPED)
		free_queue(q);
}

/* Going. */

bool place_is_live(const struct queue *q)
{
	return q->home && q->home->number != GONE;
}

static void link_queue(struct queue *q, struct database *home)
{
	q->home = home;
	atomic_fetch_add(&home->users, 1);
	q->next = home->placed;
	if (q->next)
		q->next->link = &q->next;
	home->placed = q;
	q->link = &home->placed;
	count_queue(q, 1);
}

static void unlink_queue(struct queue *q)
{
	*q->link = q->next;
	if (q->next)
		q->next->link = q->link;
	q->link = NULL;
	count_queue(q, -1);
}

static void end_iteration(void)
{
	if (ending_at)
		RedisModule_DictIteratorStop(ending_at);
	ending_at = NULL;
	ending = NULL;
}

static void forget_names(struct queue *q)
{
	if (q->key)
		RedisModule_FreeString(NULL, q->key);
	if (q->stream)
		RedisModule_FreeString(NULL, q->stream);
	q->key = q->stream = NULL;
}

/* A queue that is gone has no timer any more. */
static void ended(struct queue *q)
{
	if (q == ending)
		end_iteration();
	unlink_queue(q);
	forget_names(q);
	if (atomic_fetch_or(&q->ended, STOPPED) & FREED)
		free_somewhere(q);
}

/* Stop the next timers of a queue's timeouts. */
static void stop_batch(struct queue *q)
{
	uint64_t *timers[CLOCK_MANY];
	struct timeout *t;
	unsigned int n = 0;

	if (q != ending) {
		end_iteration();
		ending = q;
		/* Nobody changes what is gone. */
		ending_at = RedisModule_DictIteratorStartC(q->by_id, "^", NULL, 0);
	}
	while (q->armed > n && n < CLOCK_MANY &&
	       RedisModule_DictNextC(ending_at, NULL, (void **)&t))
		if (t->timer && !t->in_line)
			timers[n++] = &t->timer;
	clock_stop_many(timers, n);
	count_armed(q, -(int64_t)n);
}

/* Stop the next timers of a queue, those of leases as the last. Return: false if it had none. */
static bool stop_some(struct queue *q)
{
	if (!q->armed)
		return leases_end_some(q);
	stop_batch(q);
	return true;
}

/* The first queue that is gone; lists that are empty are put. */
static struct queue *first_gone(void)
{
	struct database *home;

	while (!gone->placed && gone != &alone) {
		home = gone;
		gone = home->next;
		place_put(home);
	}
	return gone->placed;
}

/* Stop timers for some time. Return: false if there are no more queues that are gone. */
static bool end_some(uint64_t us)
{
	const uint64_t end = RedisModule_MonotonicMicroseconds() + us;
	struct queue *q;

	do {
		q = first_gone();
		if (!q)
			return false;
		if (!stop_some(q))
			ended(q);
	} while (RedisModule_MonotonicMicroseconds() < end);
	return true;
}

static void end_soon(void);

static void portion(RedisModuleCtx *ctx, void *data)
{
	(void)ctx;
	(void)data;
	portion_is_due = false;
	if (end_some(PORTION_US))
		end_soon();
}

static void end_soon(void)
{
	if (portion_is_due)
		return;
	portion_is_due = true;
	clock_call(0, portion);
}

bool place_make_room(void)
{
	const uint64_t before = timers_ending();
	bool any;

	do
		any = end_some(0);
	while (any && before && timers_ending() == before);
	return any;
}

void place_enter(struct queue *q, int db, RedisModuleString *key, RedisModuleString *stream,
		 bool is_loaded)
{
	if (q == ending)
		end_iteration();
	if (q->link)
		unlink_queue(q);
	forget_names(q);
	if (q->home)
		place_put(q->home);
	atomic_store(&q->ended, 0);
	q->key = key;
	q->stream = stream;
	link_queue(q, is_loaded && is_arriving ? place_in(&arriving, &nr_arriving, db) :
						 place_of(db));
}

void place_correct(struct queue *q, int db)
{
	struct database *home = q->home;

	unlink_queue(q);
	link_queue(q, place_of(db));
	place_put(home);
}

void place_leave(struct queue *q)
{
	struct database *home = q->home;

	unlink_queue(q);
	link_queue(q, &alone);
	place_put(home);
	if (q->armed + leases_count(q) <= FEW) {
		while (q->armed)
			stop_batch(q);
		/* It may come again within the command: none is freed. */
		leases_disarm(q);
		ended(q);
		return;
	}
	end_soon();
}

static void flush(struct database **home)
{
	if (!*home)
		return;
	(*home)->number = GONE;
	(*home)->next = gone;
	gone = *home;
	*home = NULL;
	end_soon();
}

void place_flush(int db)
{
	if (db < nr)
		flush(&places[db]);
}

void place_arrive(void)
{
	is_arriving = true;
}

void place_arrived(bool completed)
{
	struct database **list = completed ? places : arriving;
	const int count = completed ? nr : nr_arriving;
	int n;

	for (n = 0; n < count; n++)
		flush(&list[n]);
	RedisModule_Free(list);
	if (completed) {
		places = arriving;
		nr = nr_arriving;
	}
	arriving = NULL;
	nr_arriving = 0;
	is_arriving = false;
}

void place_swap(int db, int other)
{
	struct database *first = place_of(db), *second = place_of(other);

	first->number = other;
	second->number = db;
	places[db] = second;
	places[other] = first;
}
