// SPDX-License-Identifier: MIT
/*
 * The pending timeouts of a stream: names, places, timers
 *
 * The pending timeouts of a stream are one key, a queue, next to it: for the stream "jobs" it is
 * "htw:{jobs}:jobs", and for "{7}jobs" it is "htw:{7}:{7}jobs". So the two are always in the same
 * slot of a cluster, and the queue is renamed, copied, moved, evicted, dumped and deleted as any
 * key is. The name says which stream the timeouts are for, and nothing else does: whoever renames
 * a stream renames its queue with it. A queue under any other name is parked: its timeouts stay,
 * and are not armed.
 *
 * A queue is placed while we know which key it is in: from loading, a command, or a notification
 * on. The server tells us before it deletes the key, by unlink() or the event of a flush; only
 * then does the value go, perhaps in another thread. Its timers are stopped later, see places.c.
 *
 * Each pending timeout of a placed queue is armed while this server is active, which is: a
 * master, and not loading. A timeout that could not be armed because the clock is at its limit is
 * tried again each second. What is due stands in its queue's line until it is delivered by
 * deliver.c: as the clock has it, and what was due before it could be armed, by its time. Equal
 * times come as they were added; files have the timeouts in that order.
 */
#include "queue.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "extra.h"
#include "lease.h"
#include "places.h"
#include "settings.h"

#define PREFIX		"htw:{"
#define RETRY_MS	1000
#define LINE_MIN	8

/* The queue with a line whose turn it is, or NULL for the first of another database's. */
static struct queue *turn_of;
static int turn_db;
static uint64_t last_order;
static pthread_t main_thread;
static bool active;
static bool rearm_is_due;
/* A queue that was paused has left its key, and the server has not notified of that yet. */
static bool paused_went;
/* The log has said that the clock is at its limit, and not all has been armed since. */
static bool is_logged;

/* Names. */

/*
 * Find the part of a key's name that Redis Cluster hashes.
 *
 * Return: its first byte; its length is written to @len.
 */
static const char *hash_tag(const char *name, size_t *len)
{
	const char *open = memchr(name, '{', *len);
	const char *close;

	if (!open)
		return name;
	open++;
	close = memchr(open, '}', name + *len - open);
	if (!close || close == open)
		return name;
	*len = close - open;
	return open;
}

RedisModuleString *queue_name(RedisModuleCtx *ctx, RedisModuleString *stream)
{
	RedisModuleString *name;
	size_t len, tag_len;
	const char *s, *tag;

	s = RedisModule_StringPtrLen(stream, &len);
	tag_len = len;
	tag = hash_tag(s, &tag_len);
	if (!tag_len || memchr(tag, '}', tag_len))
		return NULL;
	name = RedisModule_CreateString(ctx, PREFIX, strlen(PREFIX));
	RedisModule_StringAppendBuffer(ctx, name, tag, tag_len);
	RedisModule_StringAppendBuffer(ctx, name, "}:", 2);
	RedisModule_StringAppendBuffer(ctx, name, s, len);
	return name;
}

RedisModuleString *stream_name(RedisModuleString *name)
{
	RedisModuleString *stream, *expected;
	const char *s, *end;
	size_t len;
	bool same;

	s = RedisModule_StringPtrLen(name, &len);
	if (len < strlen(PREFIX) || memcmp(s, PREFIX, strlen(PREFIX)))
		return NULL;
	end = memchr(s, '}', len);
	if (!end || end + 1 == s + len || end[1] != ':')
		return NULL;
	stream = RedisModule_CreateString(NULL, end + 2, s + len - (end + 2));
	expected = queue_name(NULL, stream);
	same = expected && !RedisModule_StringCompare(expected, name);
	if (expected)
		RedisModule_FreeString(NULL, expected);
	if (same)
		return stream;
	RedisModule_FreeString(NULL, stream);
	return NULL;
}

/* Timeouts. */

struct timeout *timeout_new(const char *id, size_t id_len, int64_t due, const char *payload,
			    size_t payload_len)
{
	struct timeout *t = RedisModule_Alloc(sizeof(*t) + id_len + payload_len);

	t->queue = NULL;
	t->due = due;
	t->timer = 0;
	t->order = ++last_order;
	t->id_len = id_len;
	t->in_line = 0;
	t->payload_len = payload_len;
	memcpy(t->bytes, id, id_len);
	memcpy(t->bytes + id_len, payload, payload_len);
	return t;
}

static void rearm(RedisModuleCtx *ctx, void *data);

void timeouts_rearm_later(RedisModuleCtx *ctx)
{
	if (rearm_is_due)
		return;
	rearm_is_due = true;
	RedisModule_CreateTimer(ctx, RETRY_MS, rearm, NULL);
}

/* Arm a timeout; later, if the clock is at its limit. Return: false if so. */
static bool arm(RedisModuleCtx *ctx, struct timeout *t)
{
	if (!clock_start(CLOCK_TIMEOUT, t, t->due, &t->timer)) {
		count_armed(t->queue, 1);
		return true;
	}
	if (!is_logged)
		RedisModule_Log(ctx, "warning",
				"the clock is at its limit: timeouts wait for room");
	is_logged = true;
	timeouts_rearm_later(ctx);
	return false;
}

int timeout_arm_new(struct timeout *t)
{
	return active ? clock_start(CLOCK_TIMEOUT, t, t->due, &t->timer) : 0;
}

/* Lines. */

/* Its line is delivered, if it has one. */
static void due_enter(struct queue *q)
{
	struct database *home = q->home;

	if (q->due_link || !q->waiting || !q->stream)
		return;
	q->next_due = home->first_due;
	if (q->next_due)
		q->next_due->due_link = &q->next_due;
	home->first_due = q;
	q->due_link = &home->first_due;
	home->counts.due++;
}

static void due_leave(struct queue *q)
{
	if (!q->due_link)
		return;
	if (turn_of == q)
		turn_of = q->next_due;
	*q->due_link = q->next_due;
	if (q->next_due)
		q->next_due->due_link = q->due_link;
	q->due_link = NULL;
	q->home->counts.due--;
}

/* Make room for one more: where others have left, if that is half of it, or in more memory. */
static void line_grow(struct queue *q)
{
	uint64_t n, left = 0;

	if (q->line_size && q->waiting <= q->line_size / 2) {
		for (n = q->line_begin; n < q->line_end; n++) {
			struct timeout *t = q->line[n - q->line_first];

			if (!t)
				continue;
			q->line[left] = t;
			t->timer = q->line_begin + left++;
		}
		q->line_first = q->line_begin;
		q->line_end = q->line_begin + left;
		return;
	}
	q->line_size = q->line_size ? 2 * q->line_size : LINE_MIN;
	q->line = RedisModule_Realloc(q->line, q->line_size * sizeof(*q->line));
}

static void line_drop(struct queue *q)
{
	RedisModule_Free(q->line);
	q->line = NULL;
	q->line_size = 0;
}

static void line_enter(struct timeout *t)
{
	struct queue *q = t->queue;

	if (q->line_end - q->line_first == q->line_size)
		line_grow(q);
	q->line[q->line_end - q->line_first] = t;
	t->timer = q->line_end++;
	t->in_line = 1;
	count_waiting(q, 1);
	due_enter(q);
}

static void line_leave(struct timeout *t)
{
	struct queue *q = t->queue;

	q->line[t->timer - q->line_first] = NULL;
	t->timer = 0;
	t->in_line = 0;
	count_waiting(q, -1);
	if (q->waiting)
		return;
	q->line_first = q->line_begin = q->line_end = 0;
	if (q->line_size > LINE_MIN)
		line_drop(q);
	due_leave(q);
}

struct timeout *queue_first_due(struct queue *q)
{
	if (!q->waiting)
		return NULL;
	while (!q->line[q->line_begin - q->line_first])
		q->line_begin++;
	return q->line[q->line_begin - q->line_first];
}

struct queue *queue_next_due(void)
{
	struct queue *q;
	int n;

	for (n = 0; !turn_of && n < nr_places(); n++) {
		turn_db = (turn_db + 1) % nr_places();
		if (place_at(turn_db))
			turn_of = place_at(turn_db)->first_due;
	}
	q = turn_of;
	if (q)
		turn_of = q->next_due;
	return q;
}

uint64_t queues_due(void)
{
	return places_counts().due;
}

bool timeout_expired(struct timeout *t)
{
	t->timer = 0;
	count_armed(t->queue, -1);
	/* It is gone or parked, and its timers have not been stopped. */
	if (!place_is_live(t->queue) || !t->queue->stream)
		return false;
	if (!extra_is_kept(t))
		line_enter(t);
	return true;
}

static void disarm(struct timeout *t)
{
	if (t->in_line) {
		line_leave(t);
		return;
	}
	if (t->timer)
		count_armed(t->queue, -1);
	clock_stop(&t->timer);
}

void timeout_move(RedisModuleCtx *ctx, struct timeout *t, int64_t due)
{
	t->due = due;
	t->order = ++last_order;
	if (t->in_line) {
		line_leave(t);
		arm(ctx, t);
	} else if (t->timer) {
		clock_move(t->timer, due);
	}
}

/* Queues. */

struct queue *queue_new(void)
{
	struct queue *q = RedisModule_Calloc(1, sizeof(*q));

	q->by_id = RedisModule_CreateDict(NULL);
	atomic_init(&q->ended, STOPPED);
	return q;
}

uint64_t queue_size(const struct queue *q)
{
	return RedisModule_DictSize(q->by_id);
}

bool queue_is_empty(const struct queue *q)
{
	return !queue_size(q) && !q->leases && !q->settings;
}

bool queue_is_active(const struct queue *q)
{
	return active && q->stream;
}

struct timeout *queue_find(struct queue *q, const char *id, size_t id_len)
{
	return RedisModule_DictGetC(q->by_id, (void *)id, id_len, NULL);
}

bool queue_insert(struct queue *q, struct timeout *t)
{
	if (RedisModule_DictSetC(q->by_id, t->bytes, t->id_len, t) != REDISMODULE_OK)
		return false;
	t->queue = q;
	q->bytes += RedisModule_MallocSize(t);
	count_pending(q, 1);
	if (t->timer)
		count_armed(q, 1);
	return true;
}

void queue_remove(struct queue *q, struct timeout *t)
{
	disarm(t);
	extra_remove(t);
	count_pending(q, -1);
	RedisModule_DictDelC(q->by_id, t->bytes, t->id_len, NULL);
	q->bytes -= RedisModule_MallocSize(t);
	RedisModule_Free(t);
}

static int compare(const void *first, const void *second)
{
	const struct in_order *a = first, *b = second;

	if (a->due != b->due)
		return a->due < b->due ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

struct in_order *queue_in_order(const struct queue *q)
{
	struct in_order *all = RedisModule_Alloc(queue_size(q) * sizeof(*all)), *next = all;
	RedisModuleDictIter *i;
	struct timeout *t;

	for_each_timeout(t, q, i)
		*next++ = (struct in_order){ t->due, t->order, t };
	qsort(all, next - all, sizeof(*all), compare);
	return all;
}

/*
 * Arm what is not armed. What is due enters the line, by its time; so does what was armed and has
 * become due meanwhile, and what was in line already. An id that was kept until now ends by a timer
 * that expires at once.
 */
static bool arm_rest(RedisModuleCtx *ctx, struct queue *q)
{
	const uint64_t size = queue_size(q);
	const int64_t now = RedisModule_Milliseconds();
	struct in_order *all = queue_in_order(q);
	uint64_t n;
	bool ok = true;

	for (n = 0; n < size && all[n].due <= now; n++)
		disarm(all[n].timeout);
	for (n = 0; ok && n < size; n++) {
		struct timeout *t = all[n].timeout;

		if (t->due <= now && !extra_is_kept(t))
			line_enter(t);
		else if (!t->timer && !t->in_line)
			ok = arm(ctx, t);
	}
	RedisModule_Free(all);
	return ok;
}

/* Arm what is not armed and shall be. Return: false if the clock is at its limit. */
static bool queue_arm(RedisModuleCtx *ctx, struct queue *q)
{
	bool ok = true;

	if (!active || !q->stream)
		return true;
	if (q->armed + q->waiting != queue_size(q))
		ok = arm_rest(ctx, q);
	if (q->waiting)
		deliver_soon();
	return ok && leases_arm(q);
}

static void queue_disarm(struct queue *q)
{
	RedisModuleDictIter *i;
	struct timeout *t;

	leases_disarm(q);
	if (!q->armed && !q->waiting)
		return;
	for_each_timeout(t, q, i)
		disarm(t);
}

static void place(struct queue *q, int db, const RedisModuleString *name, bool is_loaded)
{
	RedisModuleString *key = RedisModule_CreateStringFromString(NULL, name);

	main_thread = pthread_self();
	place_enter(q, db, key, stream_name(key), is_loaded);
	due_enter(q);
}

void queue_place(struct queue *q, int db, const RedisModuleString *name)
{
	place(q, db, name, false);
}

/* For RESTORE as well; its event leads to timeouts_moved(), and so to queue_place(). */
void queue_place_loaded(struct queue *q, int db, const RedisModuleString *name)
{
	place(q, db, name, true);
}

void queue_displace(struct queue *q)
{
	if (!place_is_live(q))
		return;
	if (setting(q, SETTING_PAUSED))
		paused_went = true;
	due_leave(q);
	deliver_ok(q);
	place_leave(q);
}

/* Arm what had to wait, in all queues, until the clock is at its limit again. */
static void arm_all(RedisModuleCtx *ctx)
{
	struct queue *q;
	int n;

	for (n = 0; n < nr_places(); n++)
		for (q = place_at(n) ? place_at(n)->placed : NULL; q; q = q->next)
			if (!queue_arm(ctx, q))
				return;
	is_logged = false;
}

static void disarm_all(void)
{
	struct queue *q;
	int n;

	for (n = 0; n < nr_places(); n++)
		for (q = place_at(n) ? place_at(n)->placed : NULL; q; q = q->next)
			queue_disarm(q);
}

static void rearm(RedisModuleCtx *ctx, void *data)
{
	struct clock_status status;

	(void)data;
	rearm_is_due = false;
	clock_status(&status);
	if (status.timers < status.limit)
		arm_all(ctx);
	else
		timeouts_rearm_later(ctx);
}

void queue_free(void *value)
{
	struct queue *q = value;

	/*
	 * A value that was loaded and never became a key's is placed still. In another thread
	 * nothing but the mark is touched: the memory stays until the main thread is done.
	 */
	if (pthread_equal(pthread_self(), main_thread))
		queue_displace(q);
	place_freed(q);
}

void queue_free_memory(struct queue *q)
{
	RedisModuleDictIter *i;
	struct timeout *t;

	for_each_timeout(t, q, i)
		RedisModule_Free(t);
	leases_free(q);
	extras_free(q);
	RedisModule_Free(q->settings);
	RedisModule_FreeDict(NULL, q->by_id);
	RedisModule_Free(q->line);
	RedisModule_Free(q->reason);
	RedisModule_Free(q);
}

struct queue *queue_in(RedisModuleKey *key)
{
	if (!key || RedisModule_ModuleTypeGetType(key) != queue_type)
		return NULL;
	return RedisModule_ModuleTypeGetValue(key);
}

struct queue *queue_make(RedisModuleCtx *ctx, RedisModuleKey *key, RedisModuleString *name)
{
	struct queue *q = queue_in(key);

	if (q)
		return q;
	q = queue_new();
	RedisModule_ModuleTypeSetValue(key, queue_type, q);
	queue_place(q, RedisModule_GetSelectedDb(ctx), name);
	return q;
}

RedisModuleKey *queue_open(RedisModuleCtx *ctx, struct queue *q, RedisModuleString *name)
{
	RedisModuleKey *key;

	/* Has the server freed it without saying so? */
	if (atomic_load(&q->ended) & FREED) {
		queue_displace(q);
		return NULL;
	}
	RedisModule_SelectDb(ctx, q->home->number);
	key = RedisModule_OpenKey(ctx, name, REDISMODULE_READ | REDISMODULE_WRITE);
	/* If it was not, it may be by now, and its memory gone: its address alone is looked at. */
	if (queue_in(key) == q)
		return key;
	RedisModule_CloseKey(key);
	return NULL;
}

/* The module's side. */

void timeouts_set_active(RedisModuleCtx *ctx, bool on)
{
	active = on;
	if (on)
		arm_all(ctx);
	else
		disarm_all();
}

void timeouts_flush(int db)
{
	int n;

	turn_of = NULL;
	for (n = 0; n < nr_places(); n++)
		if (db == -1 || db == n)
			place_flush(n);
}

void timeouts_swap(int db, int other)
{
	place_swap(db, other);
}

void timeouts_arrive(void)
{
	place_arrive();
}

static bool is_in_database(RedisModuleCtx *ctx, const struct queue *q, int db)
{
	RedisModuleKey *key;
	bool found;

	if (RedisModule_SelectDb(ctx, db) != REDISMODULE_OK)
		return false;
	key = RedisModule_OpenKey(ctx, q->key, REDISMODULE_READ | REDISMODULE_OPEN_KEY_NOTOUCH);
	found = queue_in(key) == q;
	RedisModule_CloseKey(key);
	return found;
}

/* Find the database of a queue, which is probably that of the one before. */
static int find_database(RedisModuleCtx *ctx, const struct queue *q, int guess)
{
	int db;

	if (is_in_database(ctx, q, guess))
		return guess;
	for (db = 0; RedisModule_SelectDb(ctx, db) == REDISMODULE_OK; db++)
		if (is_in_database(ctx, q, db))
			return db;
	return q->home->number;
}

/* Are there keys in other databases than the first? */
static bool are_other_keys(RedisModuleCtx *ctx)
{
	int db;

	for (db = 1; RedisModule_SelectDb(ctx, db) == REDISMODULE_OK; db++)
		if (RedisModule_DbSize(ctx))
			return true;
	return false;
}

/*
 * While a replica loads beside its data, Redis 7.0 says of each value that it is in database 0
 * (redis/redis#12947). If all queues are said to be there, and other databases have keys, look for
 * each. No key expires before the load has ended.
 */
static void correct_places(RedisModuleCtx *ctx)
{
	const int selected = RedisModule_GetSelectedDb(ctx);
	struct queue *q, *next;
	int n, db = 0;

	for (n = 1; n < nr_places(); n++)
		if (place_at(n) && place_at(n)->placed)
			return;
	if (place_at(0) && are_other_keys(ctx)) {
		for (q = place_at(0)->placed; q; q = next) {
			next = q->next;
			db = find_database(ctx, q, db);
			if (db != q->home->number)
				place_correct(q, db);
		}
	}
	RedisModule_SelectDb(ctx, selected);
}

void timeouts_arrived(RedisModuleCtx *ctx, bool completed)
{
	turn_of = NULL;
	place_arrived(completed);
	if (completed)
		correct_places(ctx);
}

/* If @name is a queue's key, have the workers that block in HTW.TAKE on its stream try again. */
static void wake(RedisModuleCtx *ctx, RedisModuleString *name)
{
	RedisModuleString *stream = stream_name(name);

	if (!stream)
		return;
	if (active)
		RedisModule_SignalKeyAsReady(ctx, stream);
	RedisModule_FreeString(NULL, stream);
}

void timeouts_gone(RedisModuleCtx *ctx, RedisModuleString *name)
{
	if (paused_went)
		wake(ctx, name);
	paused_went = false;
}

void timeouts_moved(RedisModuleCtx *ctx, RedisModuleString *name)
{
	RedisModuleKey *key = RedisModule_OpenKey(ctx, name, REDISMODULE_READ |
						  REDISMODULE_OPEN_KEY_NOTOUCH);
	struct queue *q = queue_in(key);

	RedisModule_CloseKey(key);
	wake(ctx, name);
	if (!q)
		return;
	queue_displace(q);
	queue_place(q, RedisModule_GetSelectedDb(ctx), name);
	queue_arm(ctx, q);
}

void timeouts_status(struct timeouts_status *status)
{
	const struct counts counts = places_counts();

	status->streams = counts.streams;
	status->pending = counts.pending;
	status->armed = counts.armed;
	status->waiting = counts.waiting;
	status->parked = counts.parked;
	status->failing = counts.failing;
	status->ending = timers_ending();
	deliver_status(status);
}
