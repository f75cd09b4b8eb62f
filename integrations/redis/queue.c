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
 * then does the value go, perhaps in another thread. So the timers of a queue are stopped when it
 * loses its place, and free() touches memory alone.
 *
 * Each pending timeout of a placed queue is armed while this server is active, which is: a
 * master, and not loading. A timeout that could not be armed because the clock is at its limit is
 * tried again each second. What is due is delivered by deliver.c.
 */
#include "queue.h"

#include <pthread.h>
#include <string.h>

#include "clock.h"

#define PREFIX		"htw:{"
#define RETRY_MS	1000

static struct queue *placed;
static pthread_t main_thread;
static bool active;
static bool rearm_is_due;
/* The log has said that the clock is at its limit, and not all has been armed since. */
static bool is_logged;

/* Of all placed queues. */
static struct {
	uint64_t streams;
	uint64_t pending;
	uint64_t armed;
	uint64_t parked;
} totals;

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
	t->id_len = id_len;
	t->payload_len = payload_len;
	memcpy(t->bytes, id, id_len);
	memcpy(t->bytes + id_len, payload, payload_len);
	return t;
}

static void count_pending(const struct queue *q, int64_t count)
{
	totals.pending += count;
	if (!q->stream)
		totals.parked += count;
}

static void count_armed(struct queue *q, int count)
{
	q->armed += count;
	totals.armed += count;
}

static void rearm(RedisModuleCtx *ctx, void *data);

static void rearm_later(RedisModuleCtx *ctx)
{
	if (rearm_is_due)
		return;
	rearm_is_due = true;
	RedisModule_CreateTimer(ctx, RETRY_MS, rearm, NULL);
}

bool timeout_retry(RedisModuleCtx *ctx, struct timeout *t, int64_t when)
{
	if (!clock_start(CLOCK_TIMEOUT, t, when, &t->timer)) {
		count_armed(t->queue, 1);
		return true;
	}
	if (!is_logged)
		RedisModule_Log(ctx, "warning",
				"the clock is at its limit: timeouts wait for room");
	is_logged = true;
	rearm_later(ctx);
	return false;
}

void timeout_expired(struct timeout *t)
{
	t->timer = 0;
	count_armed(t->queue, -1);
}

int timeout_arm_new(struct timeout *t)
{
	return active ? clock_start(CLOCK_TIMEOUT, t, t->due, &t->timer) : 0;
}

static void disarm(struct timeout *t)
{
	if (t->timer)
		count_armed(t->queue, -1);
	clock_stop(&t->timer);
}

/* Queues. */

struct queue *queue_new(void)
{
	struct queue *q = RedisModule_Calloc(1, sizeof(*q));

	q->by_id = RedisModule_CreateDict(NULL);
	return q;
}

uint64_t queue_size(const struct queue *q)
{
	return RedisModule_DictSize(q->by_id);
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
	if (q->link)
		count_pending(q, 1);
	if (t->timer)
		count_armed(q, 1);
	return true;
}

void queue_remove(struct queue *q, struct timeout *t)
{
	disarm(t);
	if (q->link)
		count_pending(q, -1);
	RedisModule_DictDelC(q->by_id, t->bytes, t->id_len, NULL);
	q->bytes -= RedisModule_MallocSize(t);
	RedisModule_Free(t);
}

/* Arm what is not armed and shall be. Return: false if the clock is at its limit. */
static bool queue_arm(RedisModuleCtx *ctx, struct queue *q)
{
	RedisModuleDictIter *i;
	struct timeout *t;

	if (!active || !q->stream || q->armed == queue_size(q))
		return true;
	for_each_timeout(t, q, i) {
		if (t->timer || timeout_retry(ctx, t, t->due))
			continue;
		RedisModule_DictIteratorStop(i);
		return false;
	}
	return true;
}

static void queue_disarm(struct queue *q)
{
	RedisModuleDictIter *i;
	struct timeout *t;

	if (!q->armed)
		return;
	for_each_timeout(t, q, i)
		disarm(t);
}

void queue_place(struct queue *q, int db, const RedisModuleString *key)
{
	main_thread = pthread_self();
	q->db = db;
	q->key = RedisModule_CreateStringFromString(NULL, key);
	q->stream = stream_name(q->key);
	q->next = placed;
	if (q->next)
		q->next->link = &q->next;
	placed = q;
	q->link = &placed;
	totals.streams += q->stream ? 1 : 0;
	count_pending(q, queue_size(q));
}

void queue_displace(struct queue *q)
{
	if (!q->link)
		return;
	/* A queue that was placed still when the server frees it in the background. */
	RedisModule_Assert(pthread_equal(pthread_self(), main_thread));
	queue_disarm(q);
	totals.streams -= q->stream ? 1 : 0;
	count_pending(q, -(int64_t)queue_size(q));
	*q->link = q->next;
	if (q->next)
		q->next->link = q->link;
	q->link = NULL;
	RedisModule_FreeString(NULL, q->key);
	if (q->stream)
		RedisModule_FreeString(NULL, q->stream);
	q->stream = NULL;
}

/* Arm what had to wait, in all queues, until the clock is at its limit again. */
static void arm_all(RedisModuleCtx *ctx)
{
	struct queue *q;

	for (q = placed; q; q = q->next)
		if (!queue_arm(ctx, q))
			return;
	is_logged = false;
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
		rearm_later(ctx);
}

void queue_free(void *value)
{
	struct queue *q = value;
	RedisModuleDictIter *i;
	struct timeout *t;

	/* Only a value that was loaded and never became a key's is placed still. */
	queue_displace(q);
	for_each_timeout(t, q, i)
		RedisModule_Free(t);
	RedisModule_FreeDict(NULL, q->by_id);
	RedisModule_Free(q);
}

struct queue *queue_in(RedisModuleKey *key)
{
	if (!key || RedisModule_ModuleTypeGetType(key) != queue_type)
		return NULL;
	return RedisModule_ModuleTypeGetValue(key);
}

/* The module's side. */

void timeouts_set_active(RedisModuleCtx *ctx, bool on)
{
	struct queue *q;

	active = on;
	if (on)
		arm_all(ctx);
	else
		for (q = placed; q; q = q->next)
			queue_disarm(q);
}

void timeouts_flush(int db)
{
	struct queue *q, *next;

	for (q = placed; q; q = next) {
		next = q->next;
		if (db == -1 || q->db == db)
			queue_displace(q);
	}
}

void timeouts_swap(int db, int other)
{
	struct queue *q;

	for (q = placed; q; q = q->next) {
		if (q->db == db)
			q->db = other;
		else if (q->db == other)
			q->db = db;
	}
}

void timeouts_moved(RedisModuleCtx *ctx, RedisModuleString *name)
{
	RedisModuleKey *key = RedisModule_OpenKey(ctx, name, REDISMODULE_READ |
						  REDISMODULE_OPEN_KEY_NOTOUCH);
	struct queue *q = queue_in(key);

	RedisModule_CloseKey(key);
	if (!q)
		return;
	queue_displace(q);
	queue_place(q, RedisModule_GetSelectedDb(ctx), name);
	queue_arm(ctx, q);
}

void timeouts_status(struct timeouts_status *status)
{
	status->streams = totals.streams;
	status->pending = totals.pending;
	status->armed = totals.armed;
	status->parked = totals.parked;
	deliver_status(status);
}
