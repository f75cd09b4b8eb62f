// SPDX-License-Identifier: MIT
/*
 * Timeouts that are due: append them to their streams
 *
 * A timeout is appended to its stream and removed from its queue in one transaction, for the
 * replicas and for the append-only file. If the stream cannot take it, it stays, and is tried
 * again after a second; as is what comes due for that stream meanwhile, without trying each.
 */
#include <stdio.h>

#include "clock.h"
#include "queue.h"

#define RETRY_MS	1000

static struct {
	uint64_t delivered;
	uint64_t failed;
	int64_t max_late;
} totals;

static void remove_and_close(RedisModuleKey *key, struct queue *q, struct timeout *t)
{
	queue_remove(q, t);
	if (!queue_size(q))
		RedisModule_DeleteKey(key);
	RedisModule_CloseKey(key);
}

/* Append to the stream, with this id of the entry. Return: false if that cannot be done. */
static bool append_as(RedisModuleCtx *ctx, RedisModuleString *stream, const char *entry,
		      RedisModuleString *id, const struct timeout *t, int64_t now)
{
	RedisModuleCallReply *reply;
	bool ok;

	reply = RedisModule_Call(ctx, "XADD", "!sccsclclcb", stream, entry, "id", id,
				 "due", (long long)t->due, "late", (long long)(now - t->due),
				 "payload", payload_of(t), (size_t)t->payload_len);
	ok = reply && RedisModule_CallReplyType(reply) != REDISMODULE_REPLY_ERROR;
	if (reply)
		RedisModule_FreeCallReply(reply);
	return ok;
}

/*
 * Append to the stream. The entry's id is the time, which XADD would take from before the timer
 * expired: since 7.2 servers read the clock once in a turn of the event loop. XADD chooses if the
 * stream has a later id already.
 */
static bool append(RedisModuleCtx *ctx, RedisModuleString *stream, RedisModuleString *id,
		   const struct timeout *t, int64_t now)
{
	char entry[32];

	snprintf(entry, sizeof(entry), "%lld-*", (long long)now);
	return append_as(ctx, stream, entry, id, t, now) ||
	       append_as(ctx, stream, "*", id, t, now);
}

/*
 * Deliver a timeout that is due. The key may have a TTL and end when it is opened, and what
 * others do on an entry in the stream may end the queue or the timeout, so both are looked up
 * afterwards. That queue and timeout exist at the beginning is known, as their timer does.
 */
static void deliver(RedisModuleCtx *ctx, void *what)
{
	struct timeout *t = what;
	struct queue *q = t->queue;
	const int64_t now = RedisModule_Milliseconds();
	const int64_t late = now - t->due;
	RedisModuleString *name, *stream, *id;
	RedisModuleKey *key;
	size_t id_len;
	const char *s;
	bool ok;

	timeout_expired(t);
	/* Not for longer, if the clock has been set back. */
	if (now < q->retry && q->retry <= now + RETRY_MS) {
		timeout_retry(ctx, t, q->retry);
		return;
	}

	name = RedisModule_HoldString(NULL, q->key);
	stream = RedisModule_HoldString(NULL, q->stream);
	id = RedisModule_CreateString(NULL, t->bytes, t->id_len);
	RedisModule_SelectDb(ctx, q->db);
	key = RedisModule_OpenKey(ctx, name, REDISMODULE_READ | REDISMODULE_WRITE);
	if (queue_in(key) != q) {
		RedisModule_CloseKey(key);
		goto out;
	}
	RedisModule_CloseKey(key);
	ok = append(ctx, stream, id, t, now);
	key = RedisModule_OpenKey(ctx, name, REDISMODULE_READ | REDISMODULE_WRITE);
	s = RedisModule_StringPtrLen(id, &id_len);
	if (queue_in(key) != q || queue_find(q, s, id_len) != t) {
		RedisModule_CloseKey(key);
	} else if (ok) {
		RedisModule_Replicate(ctx, "HTW.CANCEL", "ss", stream, id);
		RedisModule_SignalModifiedKey(ctx, name);
		remove_and_close(key, q, t);
		totals.delivered++;
		if (late > totals.max_late)
			totals.max_late = late;
	} else {
		RedisModule_CloseKey(key);
		q->retry = now + RETRY_MS;
		timeout_retry(ctx, t, q->retry);
		totals.failed++;
	}
out:
	RedisModule_FreeString(NULL, name);
	RedisModule_FreeString(NULL, stream);
	RedisModule_FreeString(NULL, id);
}

void deliver_status(struct timeouts_status *status)
{
	status->delivered = totals.delivered;
	status->failed = totals.failed;
	status->max_late = totals.max_late;
}

void deliver_init(void)
{
	clock_handle(CLOCK_TIMEOUT, deliver);
}
