// SPDX-License-Identifier: MIT
/*
 * Timeouts that are due: append them to their streams
 *
 * A timeout is appended to its stream and removed from its queue in one transaction, for the
 * replicas and for the append-only file. The server is asked to treat XADD as it would a client's:
 * so it refuses while it would refuse writes, and then all that is due waits, until one is tried
 * again. If only this stream cannot take it, the line of its queue waits, and its first is tried
 * again each second.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "extra.h"
#include "places.h"
#include "queue.h"
#include "settings.h"

#define RETRY_MS	1000
#define REFUSED_MS	100
#define PAUSE_MS	10

/* Clients wait meanwhile; and other streams. */
#define TURN_US		5000
#define TURN_TIMEOUTS	100

/* The least time between two lines of the log about streams that take nothing. */
#define LOG_MS		10000

#define REASON_MAX	256

/* What has become of the first of a line. */
enum result {
	DELIVERED,	/* there are more */
	ENDED,		/* there may be no more, and no queue */
	FAILED,		/* this stream cannot take it */
	REFUSED,	/* no stream can, as this server may not write */
};

/* Why this server may not write; empty if it may, or has not been asked since. */
static char refused[REASON_MAX];

static RedisModuleTimerID drain_timer;
static bool drain_is_due;
static int64_t drain_at;

static struct {
	uint64_t delivered;
	uint64_t failed;
	int64_t max_late;
} totals;

/* How many times of a repeated timeout have passed since the one that is due. */
static int64_t missed_of(const struct timeout *t, const struct extra *e, int64_t now)
{
	return now > t->due ? (now - t->due) / e->every : 0;
}

/*
 * A timeout that has been delivered, and is due again, or whose id is kept. The next time is in
 * phase with the first, and never now: whoever falls behind is not overrun.
 *
 * Return: false if it ends.
 */
static bool go_on(RedisModuleCtx *ctx, RedisModuleString *stream, RedisModuleString *id,
		  struct timeout *t, int64_t now)
{
	const struct extra *e = extra_of(t);
	const struct extra kept = { .is_kept = true };

	if (e && e->every) {
		const int64_t next = t->due + (missed_of(t, e, now) + 1) * e->every;

		if (next > CLOCK_MAX_MS)
			return false;
		timeout_move(ctx, t, next);
		RedisModule_Replicate(ctx, "HTW.MOD", "sslc", stream, id, (long long)next,
				      "ABSTTL");
		return true;
	}
	if (e && e->once) {
		/* Another in its place, without what was delivered. */
		struct timeout *new = timeout_new(t->bytes, t->id_len, now + e->once, "", 0);
		struct queue *q = t->queue;

		queue_remove(q, t);
		if (timeout_arm_new(new))
			timeouts_rearm_later(ctx);
		queue_insert(q, new);
		extra_set(new, &kept);
		RedisModule_Replicate(ctx, "HTW.AT", "slccscc", stream, (long long)new->due, "",
				      "ID", id, "REPLACE", "KEPT");
		return true;
	}
	return false;
}

/*
 * Remove what was delivered, unless it goes on, and notify; who is notified may end the queue.
 *
 * Return: ENDED, if nothing is in line any more; the queue may be gone.
 */
static enum result remove_and_close(RedisModuleCtx *ctx, RedisModuleString *name,
				    RedisModuleKey *key, struct queue *q,
				    RedisModuleString *stream, RedisModuleString *id,
				    struct timeout *t, int64_t now)
{
	enum result result;

	if (!go_on(ctx, stream, id, t, now)) {
		RedisModule_Replicate(ctx, "HTW.CANCEL", "ss", stream, id);
		queue_remove(q, t);
	}
	if (queue_changed(ctx, stream, name, &key, "htw.fire"))
		return ENDED;
	key = RedisModule_OpenKey(ctx, name, REDISMODULE_READ | REDISMODULE_WRITE);
	result = queue_in(key) == q && q->waiting ? DELIVERED : ENDED;
	RedisModule_CloseKey(key);
	return result;
}

/* What the server says of a command that failed, without the end of its line. */
static void get_reason(RedisModuleCallReply *reply, char *reason)
{
	const char *s = NULL;
	size_t len = 0;

	if (reply)
		s = RedisModule_CallReplyStringPtr(reply, &len);
	if (!s)
		len = 0;
	while (len && (s[len - 1] == '\r' || s[len - 1] == '\n'))
		len--;
	snprintf(reason, REASON_MAX, "%.*s", (int)len, s ? s : "");
}

/* What an entry is made of, but its id. */
struct content {
	RedisModuleString *stream;
	RedisModuleString *trim[3];	/* for XADD, before the id of the entry */
	size_t trims;
	int64_t length;			/* to which it is trimmed after that, or zero */
	RedisModuleString **fields;	/* those after the ones that all have */
	size_t count;
	const struct timeout *timeout;
	RedisModuleString *id;
	int64_t now;
};

static RedisModuleString *word(RedisModuleCtx *ctx, const char *s)
{
	return RedisModule_CreateString(ctx, s, strlen(s));
}

/* How the settings of the queue trim its stream. */
static void get_trim(RedisModuleCtx *ctx, struct content *c, const struct queue *q)
{
	const int64_t length = setting(q, SETTING_MAXLEN), age = setting(q, SETTING_MAXAGE);

	if (!length && !age)
		return;
	/* XADD takes one of them; if both are set, the length comes after it. */
	c->length = age ? length : 0;
	c->trim[0] = word(ctx, age ? "MINID" : "MAXLEN");
	c->trim[1] = word(ctx, "~");
	c->trim[2] = RedisModule_CreateStringFromLongLong(ctx, !age ? length :
							  c->now > age ? c->now - age : 0);
	c->trims = 3;
}

static void get_content(RedisModuleCtx *ctx, struct content *c, const struct queue *q)
{
	const struct timeout *t = c->timeout;
	const struct extra *e = extra_of(t);
	RedisModuleString **own = NULL;
	size_t count = 0, n = 0;

	get_trim(ctx, c, q);
	if (e)
		count = extra_fields(ctx, e, &own);
	c->fields = RedisModule_Alloc((count + 4) * sizeof(*c->fields));
	if (e && e->every) {
		const int64_t missed = missed_of(t, e, c->now);

		c->fields[n++] = word(ctx, "missed");
		c->fields[n++] = RedisModule_CreateStringFromLongLong(ctx, missed);
	}
	if (t->payload_len || !count) {
		c->fields[n++] = word(ctx, "payload");
		c->fields[n++] = RedisModule_CreateString(ctx, payload_of(t), t->payload_len);
	}
	if (count)
		memcpy(c->fields + n, own, count * sizeof(*own));
	c->count = n + count;
	RedisModule_Free(own);
}

static void free_content(RedisModuleCtx *ctx, struct content *c)
{
	while (c->count--)
		RedisModule_FreeString(ctx, c->fields[c->count]);
	while (c->trims--)
		RedisModule_FreeString(ctx, c->trim[c->trims]);
	RedisModule_Free(c->fields);
}

/*
 * Append to the stream, with this id of the entry. "S" has the server refuse it as for a script:
 * with too few replicas, or after an error of its disk; "E" has it say why.
 *
 * Return: DELIVERED, FAILED or REFUSED, with the reason.
 */
static enum result append_as(RedisModuleCtx *ctx, struct content *c, const char *entry,
			     char *reason)
{
	const int64_t due = c->timeout->due;
	RedisModuleCallReply *reply;
	enum result result = DELIVERED;

	errno = 0;
	reply = RedisModule_Call(ctx, "XADD", "!SEsvccsclclv", c->stream, c->trim, c->trims, entry,
				 "id", c->id, "due", (long long)due, "late",
				 (long long)(c->now - due), c->fields, c->count);
	if (!reply || RedisModule_CallReplyType(reply) == REDISMODULE_REPLY_ERROR) {
		/* These are the server's; what the command itself replies leaves errno alone. */
		result = errno == ESPIPE || errno == ENETDOWN || errno == EROFS ? REFUSED : FAILED;
		get_reason(reply, reason);
	}
	if (reply)
		RedisModule_FreeCallReply(reply);
	return result;
}

static void trim(RedisModuleCtx *ctx, RedisModuleString *stream, int64_t length)
{
	RedisModuleCallReply *reply = RedisModule_Call(ctx, "XTRIM", "!sccl", stream, "MAXLEN", "~",
						       (long long)length);

	if (reply)
		RedisModule_FreeCallReply(reply);
}

/*
 * Append to the stream. The entry's id is the time, which XADD would take from before the timer
 * expired: since 7.2 servers read the clock once in a turn of the event loop. XADD chooses if the
 * stream has a later id already.
 */
static enum result append(RedisModuleCtx *ctx, const struct queue *q, RedisModuleString *stream,
			  RedisModuleString *id, const struct timeout *t, int64_t now, char *reason)
{
	struct content content = { .stream = stream, .timeout = t, .id = id, .now = now };
	enum result result;
	char entry[32];

	get_content(ctx, &content, q);
	snprintf(entry, sizeof(entry), "%lld-*", (long long)now);
	result = append_as(ctx, &content, entry, reason);
	if (result == FAILED)
		result = append_as(ctx, &content, "*", reason);
	if (result == DELIVERED && content.length)
		trim(ctx, stream, content.length);
	free_content(ctx, &content);
	return result;
}

void deliver_ok(struct queue *q)
{
	if (!q->reason)
		return;
	RedisModule_Free(q->reason);
	q->reason = NULL;
	q->attempts = 0;
	q->retry = 0;
	count_failing(q, -1);
}

static void failed(RedisModuleCtx *ctx, struct queue *q, int64_t now, const char *reason)
{
	static int64_t logged;

	if (q->reason)
		RedisModule_Free(q->reason);
	else
		count_failing(q, 1);
	q->reason = RedisModule_Strdup(reason);
	q->attempts++;
	q->retry = now + RETRY_MS;
	totals.failed++;
	if (now >= logged && now < logged + LOG_MS)
		return;
	logged = now;
	RedisModule_Log(ctx, "warning",
			"cannot append to the stream '%s' of database %d, attempt %llu: %s; "
			"%llu wait for it, and %llu streams in all take nothing",
			RedisModule_StringPtrLen(q->stream, NULL), q->home->number,
			(unsigned long long)q->attempts, reason, (unsigned long long)q->waiting,
			(unsigned long long)places_counts().failing);
}

/*
 * Deliver the first in line. The key may have a TTL and end when it is opened, and what others do
 * on an entry in the stream may end the queue or the timeout, so both are looked up afterwards.
 * That queue and timeout exist at the beginning is known, as they are in line.
 */
static enum result deliver(RedisModuleCtx *ctx, struct queue *q)
{
	struct timeout *t = queue_first_due(q);
	const int64_t now = RedisModule_Milliseconds();
	const int64_t late = now - t->due;
	RedisModuleString *name, *stream, *id;
	enum result result = ENDED;
	char reason[REASON_MAX];
	RedisModuleKey *key;
	size_t id_len;
	const char *s;

	name = RedisModule_HoldString(NULL, q->key);
	stream = RedisModule_HoldString(NULL, q->stream);
	id = RedisModule_CreateString(NULL, t->bytes, t->id_len);
	key = queue_open(ctx, q, name);
	if (!key)
		goto out;
	RedisModule_CloseKey(key);

	result = append(ctx, q, stream, id, t, now, reason);
	snprintf(refused, sizeof(refused), "%s", result == REFUSED ? reason : "");
	key = RedisModule_OpenKey(ctx, name, REDISMODULE_READ | REDISMODULE_WRITE);
	s = RedisModule_StringPtrLen(id, &id_len);
	if (queue_in(key) != q || queue_find(q, s, id_len) != t) {
		RedisModule_CloseKey(key);
		result = ENDED;
	} else if (result == DELIVERED) {
		deliver_ok(q);
		result = remove_and_close(ctx, name, key, q, stream, id, t, now);
		totals.delivered++;
		if (late > totals.max_late)
			totals.max_late = late;
	} else {
		RedisModule_CloseKey(key);
		if (result == FAILED)
			failed(ctx, q, now, reason);
	}
out:
	RedisModule_FreeString(NULL, name);
	RedisModule_FreeString(NULL, stream);
	RedisModule_FreeString(NULL, id);
	return result;
}

/* For how long to leave a line alone, in ms: not for longer, if the clock has been set back. */
static int64_t wait_of(const struct queue *q)
{
	const int64_t ms = q->retry - RedisModule_Milliseconds();

	return ms > 0 && ms <= RETRY_MS ? ms : 0;
}

static void drain_in(int64_t ms);

/*
 * Deliver what is in line, some of each in turn.
 *
 * Return: when to go on, in ms.
 */
static int64_t drain_lines(RedisModuleCtx *ctx)
{
	const uint64_t end = RedisModule_MonotonicMicroseconds() + TURN_US;
	uint64_t lines = queues_due();
	int64_t again = RETRY_MS;

	while (lines--) {
		struct queue *q = queue_next_due();
		enum result result = DELIVERED;
		int64_t ms;
		int n;

		if (!q)
			break;
		if (setting(q, SETTING_PAUSED))
			continue;
		ms = wait_of(q);
		for (n = 0; !ms && n < TURN_TIMEOUTS && result == DELIVERED; n++) {
			result = deliver(ctx, q);
			if (result == REFUSED)
				return REFUSED_MS;
			if (RedisModule_MonotonicMicroseconds() > end)
				return 0;
		}
		if (result == FAILED)
			ms = RETRY_MS;
		if (ms < again)
			again = ms;
	}
	return again;
}

static void drain(RedisModuleCtx *ctx, void *data)
{
	int64_t ms = PAUSE_MS;

	(void)data;
	drain_is_due = false;
	if (!RedisModule_AvoidReplicaTraffic())
		ms = drain_lines(ctx);
	if (queues_due())
		drain_in(ms);
}

/* Not later than a call that is due already. */
static void drain_in(int64_t ms)
{
	const int64_t at = RedisModule_MonotonicMicroseconds() / 1000 + ms;

	if (drain_is_due && drain_at <= at)
		return;
	if (drain_is_due)
		clock_call_off(drain_timer);
	drain_is_due = true;
	drain_at = at;
	drain_timer = clock_call(ms, drain);
}

void deliver_soon(void)
{
	drain_in(0);
}

/* An id has been kept for its time, and is free, whatever holds up what is to be delivered. */
static void free_id(RedisModuleCtx *ctx, struct timeout *t)
{
	struct queue *q = t->queue;
	RedisModuleString *name = RedisModule_HoldString(NULL, q->key);
	RedisModuleString *stream = RedisModule_HoldString(NULL, q->stream);
	RedisModuleString *id = RedisModule_CreateString(NULL, t->bytes, t->id_len);
	RedisModuleKey *key = queue_open(ctx, q, name);

	if (key) {
		RedisModule_Replicate(ctx, "HTW.CANCEL", "ss", stream, id);
		queue_remove(q, t);
		queue_changed(ctx, stream, name, &key, "htw.cancel");
	}
	RedisModule_FreeString(NULL, name);
	RedisModule_FreeString(NULL, stream);
	RedisModule_FreeString(NULL, id);
}

/* Deliver a timeout whose timer has expired, or have it wait with those that are in line. */
static void due(RedisModuleCtx *ctx, void *what)
{
	struct timeout *t = what;
	struct queue *q = t->queue;

	if (!timeout_expired(t))
		return;
	if (!t->in_line) {
		free_id(ctx, t);
		return;
	}
	if (setting(q, SETTING_PAUSED))
		return;
	if (q->waiting > 1 || (*refused && queues_due() > 1)) {
		drain_in(*refused ? REFUSED_MS : wait_of(q));
		return;
	}
	switch (deliver(ctx, q)) {
	case FAILED:
		drain_in(RETRY_MS);
		break;
	case REFUSED:
		drain_in(REFUSED_MS);
		break;
	default:
		break;
	}
}

void deliver_status(struct timeouts_status *status)
{
	status->delivered = totals.delivered;
	status->failed = totals.failed;
	status->max_late = totals.max_late;
	status->refused = *refused && queues_due() ? refused : NULL;
}

void deliver_init(void)
{
	clock_handle(CLOCK_TIMEOUT, due);
}
