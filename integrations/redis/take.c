// SPDX-License-Identifier: MIT
/*
 * The commands for workers: take jobs under a lease, extend it, end them; and leases that end
 *
 * Who has which entry, and how often it was delivered, is in the consumer group, as the server has
 * it; these commands are made of the server's own. A lease belongs to an entry that is pending in
 * its group. Others may acknowledge, delete or claim it at any time, so the group is asked whenever
 * a lease ends, and before one is given to another worker.
 *
 * Replicas and files get what the server's commands make of themselves, and HTW.LEASE with
 * absolute times, in one transaction. Redis 7.0 serves a client that was blocked on a stream
 * without a command in whose name to propagate: there all that was replicated is propagated, as
 * one transaction, when on_ready() ends, if the client was served, and at the end of each command
 * that is called meanwhile; or forgotten, if that one is not to be propagated itself. So take()
 * calls all that it calls before it replicates anything, but for commands that are propagated,
 * which take along what belongs to them.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "clock.h"
#include "command.h"
#include "lease.h"
#include "places.h"
#include "settings.h"

#define RETRY_MS	1000

#define COUNT_MAX	10000

#define READ_WRITE	(REDISMODULE_READ | REDISMODULE_WRITE)

#define ERROR_SYNTAX	"ERR syntax error"
#define ERROR_NUMBER	"ERR invalid number"
#define ERROR_ENTRY	"ERR invalid id of an entry"

/* What the server says of a lease's entry. */
enum state {
	STATE_PENDING,	/* in the group */
	STATE_OVER,	/* not in the group, or there is no group */
	STATE_UNKNOWN,	/* the server could not be asked */
};

static bool is_error(RedisModuleCallReply *reply)
{
	return !reply || RedisModule_CallReplyType(reply) == REDISMODULE_REPLY_ERROR;
}

/* Is it this error? */
static bool is_code(RedisModuleCallReply *reply, const char *code)
{
	size_t len;
	const char *s = reply ? RedisModule_CallReplyStringPtr(reply, &len) : NULL;

	return s && len >= strlen(code) && !memcmp(s, code, strlen(code));
}

/* Reply with what the server has refused one of its own commands with, given errno since. */
static int reply_error(RedisModuleCtx *ctx, RedisModuleCallReply *reply, int error)
{
	if (!reply || error == EPERM)
		return RedisModule_ReplyWithError(ctx, ERROR_MOVING);
	return RedisModule_ReplyWithCallReply(ctx, reply);
}

static bool parse_number(RedisModuleString *arg, int64_t least, int64_t most, long long *value)
{
	return RedisModule_StringToLongLong(arg, value) == REDISMODULE_OK && *value >= least &&
	       *value <= most;
}

static bool is_word(RedisModuleString *arg, const char *word)
{
	return !strcasecmp(RedisModule_StringPtrLen(arg, NULL), word);
}

struct entry {
	RedisModuleStreamID id;
	RedisModuleString *name;	/* in full: "5" is "5-0" */
};

/* What HTW.TAKE is asked for. */
struct take {
	RedisModuleString *stream;
	RedisModuleString *group;
	RedisModuleString *consumer;
	long long count;
	long long lease;	/* 0: as the queue is set to */
	long long block;	/* -1: do not */
};

/* Ids of entries from @argv on, or NULL after an error was replied. */
static struct entry *parse_entries(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
	struct entry *entries = RedisModule_PoolAlloc(ctx, argc * sizeof(*entries));
	int i;

	for (i = 0; i < argc; i++) {
		const char c = *RedisModule_StringPtrLen(argv[i], NULL);

		/* The server takes "-" and "+" for the ends of a range. */
		if (c < '0' || c > '9' ||
		    RedisModule_StringToStreamID(argv[i], &entries[i].id) != REDISMODULE_OK) {
			RedisModule_ReplyWithError(ctx, ERROR_ENTRY);
			return NULL;
		}
		entries[i].name = RedisModule_CreateStringFromStreamID(ctx, &entries[i].id);
	}
	return entries;
}

/* What leases there are for replicas and files. */

static void replicate_lease(RedisModuleCtx *ctx, RedisModuleString *stream,
			    RedisModuleString *group, const struct lease_terms *terms,
			    RedisModuleString **entries, size_t count)
{
	RedisModule_Replicate(ctx, "HTW.LEASE", "ssllcbv", stream, group,
			      (long long)terms->deadline, (long long)terms->attempts,
			      lease_words[terms->state], terms->error, terms->error_len, entries,
			      count);
}

/*
 * Entries that a consumer has taken, with a lease: as the server would say of new ones, up to the
 * last of which the group has read then, and @read in all, or -1 if the server does not know; or of
 * one that was taken before, with its error.
 */
static void replicate_taken(RedisModuleCtx *ctx, const struct take *t,
			    const struct lease_terms *terms, bool is_new, int64_t read,
			    RedisModuleString **entries, size_t count)
{
	const long long now = RedisModule_Milliseconds(), attempts = terms->attempts;
	/* An id before that of the group changes nothing. */
	const char *last = is_new ? RedisModule_StringPtrLen(entries[count - 1], NULL) : "0-0";

	RedisModule_Replicate(ctx, "XCLAIM", "ssscvclclcccc", t->stream, t->group, t->consumer, "0",
			      entries, count, "TIME", now, "RETRYCOUNT", attempts, "FORCE",
			      "JUSTID", "LASTID", last);
	if (is_new)
		RedisModule_Replicate(ctx, "XGROUP", "cssccl", "SETID", t->stream, t->group, last,
				      "ENTRIESREAD", (long long)read);
	replicate_lease(ctx, t->stream, t->group, terms, entries, count);
}

static void replicate_over(RedisModuleCtx *ctx, RedisModuleString *stream,
			   RedisModuleString *group, RedisModuleString *entry)
{
	RedisModule_Replicate(ctx, "HTW.LEASE", "ssllccs", stream, group, 0LL, 0LL, "OVER", "",
			      entry);
}

/* Remove a lease, here and for replicas. */
static void forget(RedisModuleCtx *ctx, RedisModuleString *stream, struct lease *l)
{
	RedisModuleString *group = lease_group_name(ctx, l);
	RedisModuleString *entry = RedisModule_CreateStringFromStreamID(ctx, &l->entry);

	replicate_over(ctx, stream, group, entry);
	RedisModule_FreeString(ctx, group);
	RedisModule_FreeString(ctx, entry);
	lease_remove(l);
}

/* The leases of a queue have changed. */
static void changed(RedisModuleCtx *ctx, RedisModuleString *stream, RedisModuleString *name,
		    RedisModuleKey **key)
{
	queue_changed(ctx, stream, name, key, "htw.lease");
}

/* What the server knows of entries. */

/* XPENDING of one entry, for all consumers or for one. The reply is not freed. */
static RedisModuleCallReply *ask_pending(RedisModuleCtx *ctx, RedisModuleString *stream,
					 RedisModuleString *group, RedisModuleString *entry,
					 RedisModuleString *consumer)
{
	if (consumer)
		return RedisModule_Call(ctx, "XPENDING", "Essssls", stream, group, entry, entry,
					1LL, consumer);
	return RedisModule_Call(ctx, "XPENDING", "Essssl", stream, group, entry, entry, 1LL);
}

bool take_is_there(RedisModuleCtx *ctx, RedisModuleString *stream,
		   const RedisModuleStreamID *entry)
{
	RedisModuleKey *key = RedisModule_OpenKey(ctx, stream, REDISMODULE_READ);
	RedisModuleStreamID id = *entry, found;
	bool is_there = false;
	long fields;

	if (RedisModule_StreamIteratorStart(key, 0, &id, &id) == REDISMODULE_OK) {
		is_there = RedisModule_StreamIteratorNextID(key, &found, &fields) ==
			   REDISMODULE_OK;
		RedisModule_StreamIteratorStop(key);
	}
	RedisModule_CloseKey(key);
	return is_there;
}

static enum state state_of(RedisModuleCallReply *reply, uint32_t *attempts)
{
	RedisModuleCallReply *row;
	long long count;

	if (is_code(reply, "NOGROUP"))
		return STATE_OVER;
	if (is_error(reply))
		return STATE_UNKNOWN;
	row = RedisModule_CallReplyArrayElement(reply, 0);
	if (!row)
		return STATE_OVER;
	count = RedisModule_CallReplyInteger(RedisModule_CallReplyArrayElement(row, 3));
	*attempts = count < 0 ? 0 : count > UINT32_MAX ? UINT32_MAX : count;
	return STATE_PENDING;
}

/* Has a stream one group alone? */
static bool has_one_group(RedisModuleCtx *ctx, RedisModuleString *stream)
{
	RedisModuleCallReply *reply = RedisModule_Call(ctx, "XINFO", "Ecs", "GROUPS", stream);

	return !is_error(reply) && RedisModule_CallReplyLength(reply) == 1;
}

/*
 * Acknowledge an entry, and delete it unless the stream has other groups: @only, which is asked for
 * if it is -1.
 *
 * Return: how many were pending: 1 or 0, or -1 with the server's error.
 */
static int finish(RedisModuleCtx *ctx, RedisModuleString *stream, RedisModuleString *group,
		  RedisModuleString *entry, int *only, RedisModuleCallReply **error)
{
	RedisModuleCallReply *reply;

	*error = reply = RedisModule_Call(ctx, "XACK", "!Esss", stream, group, entry);
	if (is_error(reply))
		return -1;
	if (!RedisModule_CallReplyInteger(reply))
		return 0;
	if (*only < 0)
		*only = has_one_group(ctx, stream);
	if (*only)
		RedisModule_Call(ctx, "XDEL", "!ss", stream, entry);
	return 1;
}

/* Dead jobs. */

/* The stream of the dead jobs, by the name of the queue: "dead:{jobs}:jobs". */
static RedisModuleString *dead_name(RedisModuleCtx *ctx, RedisModuleString *queue)
{
	size_t len;
	const char *s = RedisModule_StringPtrLen(queue, &len);
	RedisModuleString *dead = RedisModule_CreateString(ctx, "dead", strlen("dead"));

	RedisModule_StringAppendBuffer(ctx, dead, s + strlen("htw"), len - strlen("htw"));
	return dead;
}

void take_reply_info(RedisModuleCtx *ctx, RedisModuleString *stream, RedisModuleString *queue)
{
	RedisModuleString *dead = dead_name(ctx, queue);
	RedisModuleCallReply *reply, *row = NULL;
	RedisModuleStreamID first = { 0 };
	int64_t age = 0;

	reply = RedisModule_Call(ctx, "XLEN", "s", stream);
	RedisModule_ReplyWithCString(ctx, "length");
	RedisModule_ReplyWithLongLong(ctx, is_error(reply) ? 0 :
				      RedisModule_CallReplyInteger(reply));
	reply = RedisModule_Call(ctx, "XRANGE", "scccl", stream, "-", "+", "COUNT", 1LL);
	if (!is_error(reply))
		row = RedisModule_CallReplyArrayElement(reply, 0);
	if (row) {
		row = RedisModule_CallReplyArrayElement(row, 0);
		RedisModule_StringToStreamID(RedisModule_CreateStringFromCallReply(row), &first);
		age = RedisModule_Milliseconds() - (int64_t)first.ms;
	}
	RedisModule_ReplyWithCString(ctx, "oldest");
	RedisModule_ReplyWithLongLong(ctx, age < 0 ? 0 : age);
	reply = RedisModule_Call(ctx, "XLEN", "s", dead);
	RedisModule_ReplyWithCString(ctx, "dead");
	RedisModule_ReplyWithLongLong(ctx, is_error(reply) ? 0 :
				      RedisModule_CallReplyInteger(reply));
}

/* What a dead job has behind the fields of the job. */
static const char *const dead_fields[] = {
	"dead-group", "dead-entry", "dead-attempts", "dead-error",
};

#define DEAD_FIELDS	4

/* The names and values of an entry, of XRANGE; with room for more. They are the context's. */
static RedisModuleString **fields_of(RedisModuleCtx *ctx, RedisModuleCallReply *entry, size_t more,
				     size_t *count)
{
	RedisModuleCallReply *fields = RedisModule_CallReplyArrayElement(entry, 1);
	RedisModuleString **all;
	size_t i;

	*count = RedisModule_CallReplyLength(fields);
	all = RedisModule_PoolAlloc(ctx, (*count + more + 1) * sizeof(*all));
	for (i = 0; i < *count; i++) {
		RedisModuleCallReply *field = RedisModule_CallReplyArrayElement(fields, i);

		all[i] = RedisModule_CreateStringFromCallReply(field);
	}
	return all;
}

/*
 * Give a job up: append it to the dead ones, end it and its lease. An entry that has been deleted
 * is only ended.
 *
 * Return: NULL, or what the server has refused; then all is as before.
 */
static RedisModuleCallReply *bury(RedisModuleCtx *ctx, RedisModuleString *name,
				  RedisModuleString *stream, struct lease *l, uint32_t attempts,
				  const char *error, size_t error_len)
{
	RedisModuleString *group = lease_group_name(ctx, l);
	RedisModuleString *entry = RedisModule_CreateStringFromStreamID(ctx, &l->entry);
	RedisModuleCallReply *reply, *row, *refused = NULL;
	int only = -1;

	reply = RedisModule_Call(ctx, "XRANGE", "Esss", stream, entry, entry);
	if (is_error(reply))
		return reply;
	row = RedisModule_CallReplyArrayElement(reply, 0);
	if (row) {
		RedisModuleString **fields;
		size_t count, i;

		fields = fields_of(ctx, row, 2 * DEAD_FIELDS, &count);
		for (i = 0; i < DEAD_FIELDS; i++)
			fields[count + 2 * i] = RedisModule_CreateString(ctx, dead_fields[i],
									 strlen(dead_fields[i]));
		fields[count + 1] = RedisModule_CreateStringFromString(ctx, group);
		fields[count + 3] = RedisModule_CreateStringFromString(ctx, entry);
		fields[count + 5] = RedisModule_CreateStringFromLongLong(ctx, attempts);
		fields[count + 7] = RedisModule_CreateString(ctx, error, error_len);
		count += 2 * DEAD_FIELDS;
		reply = RedisModule_Call(ctx, "XADD", "!SEscv", dead_name(ctx, name), "*", fields,
					 count);
		if (is_error(reply))
			return reply;
	}
	if (finish(ctx, stream, group, entry, &only, &refused) < 0)
		return refused;
	forget(ctx, stream, l);
	return NULL;
}

static bool is_last_attempt(const struct queue *q, uint32_t attempts)
{
	const int64_t most = setting(q, SETTING_TRIES);

	return most && attempts >= most;
}

/* Leases that end. */

/* A lease that could not be looked at, or given up: again in a while. */
static void retry(RedisModuleCtx *ctx, struct lease *l)
{
	if (!lease_arm(l, RedisModule_Milliseconds() + RETRY_MS))
		timeouts_rearm_later(ctx);
}

/* The key is closed, unless all is as before. */
static void end(RedisModuleCtx *ctx, RedisModuleString *stream, RedisModuleString *name,
		RedisModuleKey **key, struct lease *l)
{
	struct queue *q = lease_queue(l);
	RedisModuleString *group = lease_group_name(ctx, l);
	RedisModuleString *entry = RedisModule_CreateStringFromStreamID(ctx, &l->entry);
	static const char ended[] = "lease ended";
	const char *error = ended;
	size_t error_len = strlen(ended);
	uint32_t attempts;

	switch (state_of(ask_pending(ctx, stream, group, entry, NULL), &attempts)) {
	case STATE_UNKNOWN:
		retry(ctx, l);
		return;
	case STATE_OVER:
		forget(ctx, stream, l);
		break;
	case STATE_PENDING:
		if (!take_is_there(ctx, stream, &l->entry)) {
			RedisModule_Call(ctx, "XACK", "!sss", stream, group, entry);
			forget(ctx, stream, l);
			break;
		}
		if (l->state != LEASE_DEAD && !is_last_attempt(q, attempts)) {
			lease_enter_ended(l);
			RedisModule_SignalKeyAsReady(ctx, stream);
			break;
		}
		if (l->state != LEASE_TAKEN)
			error = lease_error(l, &error_len);
		if (bury(ctx, name, stream, l, attempts, error, error_len)) {
			retry(ctx, l);
			return;
		}
		break;
	}
	changed(ctx, stream, name, key);
}

/* The key may have a TTL, and end when it is opened. A queue that is gone stops its timers soon. */
static void due(RedisModuleCtx *ctx, void *what)
{
	struct lease *l = what;
	struct queue *q = lease_queue(l);
	RedisModuleString *name, *stream;
	RedisModuleKey *key;

	lease_expired(l);
	/* It is gone or parked, and its timers have not been stopped. */
	if (!place_is_live(q) || !q->stream)
		return;
	RedisModule_AutoMemory(ctx);
	name = RedisModule_HoldString(NULL, q->key);
	stream = RedisModule_HoldString(NULL, q->stream);
	key = queue_open(ctx, q, name);
	if (key)
		end(ctx, stream, name, &key, l);
	RedisModule_CloseKey(key);
	RedisModule_FreeString(NULL, name);
	RedisModule_FreeString(NULL, stream);
}

/* HTW.TAKE */

struct taken {
	RedisModuleCallReply *entry;	/* with its fields */
	RedisModuleString *id;
	struct lease_terms terms;	/* with a copy of the error: the lease may go */
};

static bool parse_take(RedisModuleString **argv, int argc, struct take *t)
{
	int i;

	*t = (struct take){
		.stream = argv[1], .group = argv[2], .consumer = argv[3], .count = 1, .block = -1,
	};
	for (i = 4; i + 1 < argc; i += 2) {
		bool ok = false;

		if (is_word(argv[i], "count"))
			ok = parse_number(argv[i + 1], 1, COUNT_MAX, &t->count);
		else if (is_word(argv[i], "lease"))
			ok = parse_number(argv[i + 1], 1, CLOCK_MAX_MS / 2, &t->lease);
		else if (is_word(argv[i], "block"))
			ok = parse_number(argv[i + 1], 0, CLOCK_MAX_MS / 2, &t->block);
		if (!ok)
			return false;
	}
	return i == argc;
}

/*
 * Give a worker one whose lease has ended. Others may have claimed it since, so the attempts are
 * asked for again. One that is over, or has been deleted, leaves the group and has no lease more.
 *
 * Return: false if it was over, or if the server has refused to, with its error, perhaps NULL.
 */
static bool claim(RedisModuleCtx *ctx, const struct take *t, struct queue *q, struct lease *l,
		  int64_t deadline, struct taken *taken, RedisModuleCallReply **error,
		  bool *is_refused)
{
	RedisModuleString *entry = RedisModule_CreateStringFromStreamID(ctx, &l->entry);
	struct lease_terms terms = { .deadline = deadline };
	RedisModuleCallReply *reply, *row = NULL;
	enum state state;
	char *error_text;

	reply = ask_pending(ctx, t->stream, t->group, entry, NULL);
	state = state_of(reply, &terms.attempts);
	if (state == STATE_PENDING && take_is_there(ctx, t->stream, &l->entry)) {
		reply = RedisModule_Call(ctx, "XCLAIM", "Essscs", t->stream, t->group, t->consumer,
					 "0", entry);
		if (!is_error(reply))
			row = RedisModule_CallReplyArrayElement(reply, 0);
	} else if (state != STATE_UNKNOWN) {
		forget(ctx, t->stream, l);
		RedisModule_Call(ctx, "XACK", "!sss", t->stream, t->group, entry);
		return false;
	}
	if (!row) {
		*error = reply;
		*is_refused = true;
		return false;
	}
	if (terms.attempts < UINT32_MAX)
		terms.attempts++;
	terms.error = lease_error(l, &terms.error_len);
	error_text = RedisModule_PoolAlloc(ctx, terms.error_len + 1);
	memcpy(error_text, terms.error, terms.error_len);
	terms.error = error_text;
	lease_set(ctx, q, t->group, &l->entry, &terms);
	*taken = (struct taken){ row, entry, terms };
	return true;
}

/* Is there nothing under this name? */
static bool is_empty(RedisModuleCtx *ctx, RedisModuleString *name)
{
	RedisModuleKey *key = RedisModule_OpenKey(ctx, name, REDISMODULE_READ |
						  REDISMODULE_OPEN_KEY_NOTOUCH);
	const int type = RedisModule_KeyType(key);

	RedisModule_CloseKey(key);
	return type == REDISMODULE_KEYTYPE_EMPTY;
}

/*
 * Ask the server for new entries; make the group, if there is none. A stream is not made: its name
 * may be mistyped.
 *
 * Return: false, if there is none; else its reply is written, which may be an error.
 */
static bool read_new(RedisModuleCtx *ctx, const struct take *t, long long count,
		     RedisModuleCallReply **reply)
{
	bool again = true;

	for (;;) {
		errno = 0;
		*reply = RedisModule_Call(ctx, "XREADGROUP", "Ecssclcsc", "GROUP", t->group,
					  t->consumer, "COUNT", count, "STREAMS", t->stream, ">");
		if (!again || !is_code(*reply, "NOGROUP"))
			return true;
		again = false;
		errno = 0;
		if (is_empty(ctx, t->stream))
			return false;
		*reply = RedisModule_Call(ctx, "XGROUP", "!Ecssc", "CREATE", t->stream, t->group,
					  "0");
		if (is_error(*reply))
			return true;
	}
}

/* How many entries a group has read in all; -1 if the server does not know. */
static int64_t read_by(RedisModuleCtx *ctx, const struct take *t)
{
	RedisModuleCallReply *reply = RedisModule_Call(ctx, "XINFO", "cs", "GROUPS", t->stream);
	size_t len, name_len, i, k;
	const char *group = RedisModule_StringPtrLen(t->group, &len), *name;

	for (i = 0; !is_error(reply) && i < RedisModule_CallReplyLength(reply); i++) {
		RedisModuleCallReply *row = RedisModule_CallReplyArrayElement(reply, i), *value;

		name = RedisModule_CallReplyStringPtr(RedisModule_CallReplyArrayElement(row, 1),
						      &name_len);
		if (name_len != len || memcmp(name, group, len))
			continue;
		for (k = 0; k + 1 < RedisModule_CallReplyLength(row); k += 2) {
			value = RedisModule_CallReplyArrayElement(row, k + 1);
			if (is_code(RedisModule_CallReplyArrayElement(row, k), "entries-read") &&
			    RedisModule_CallReplyType(value) == REDISMODULE_REPLY_INTEGER)
				return RedisModule_CallReplyInteger(value);
		}
	}
	return -1;
}

/* Lease what the server has given, all to the same deadline. */
static void lease_new(RedisModuleCtx *ctx, const struct take *t, struct queue *q,
		      struct taken *taken, size_t count, int64_t deadline)
{
	const struct lease_terms terms = { .deadline = deadline, .attempts = 1, .error = "" };
	RedisModuleStreamID entry;
	size_t i;

	for (i = 0; i < count; i++) {
		RedisModuleCallReply *id = RedisModule_CallReplyArrayElement(taken[i].entry, 0);

		taken[i].id = RedisModule_CreateStringFromCallReply(id);
		RedisModule_StringToStreamID(taken[i].id, &entry);
		taken[i].terms = terms;
		lease_set(ctx, q, t->group, &entry, &terms);
	}
}

/* For replicas and files, when nothing is called any more: of what was taken, @nr_new are new. */
static void replicate_all(RedisModuleCtx *ctx, const struct take *t, const struct taken *taken,
			  size_t count, size_t nr_new, int64_t read)
{
	RedisModuleString **ids = RedisModule_PoolAlloc(ctx, count * sizeof(*ids));
	size_t i;

	for (i = 0; i < count; i++) {
		ids[i] = taken[i].id;
		if (i < count - nr_new)
			replicate_taken(ctx, t, &taken[i].terms, false, -1, &ids[i], 1);
	}
	if (nr_new)
		replicate_taken(ctx, t, &taken[count - 1].terms, true, read, ids + count - nr_new,
				nr_new);
}

static int reply_taken(RedisModuleCtx *ctx, const struct taken *taken, size_t count)
{
	size_t i;

	RedisModule_ReplyWithArray(ctx, count);
	for (i = 0; i < count; i++) {
		RedisModuleCallReply *entry = taken[i].entry;

		RedisModule_ReplyWithArray(ctx, 3);
		RedisModule_ReplyWithCallReply(ctx, RedisModule_CallReplyArrayElement(entry, 0));
		RedisModule_ReplyWithLongLong(ctx, taken[i].terms.attempts);
		RedisModule_ReplyWithCallReply(ctx, RedisModule_CallReplyArrayElement(entry, 1));
	}
	return REDISMODULE_OK;
}

/*
 * Take what there is, and reply.
 *
 * Return: REDISMODULE_ERR if there is nothing, and nothing was replied.
 */
static int take(RedisModuleCtx *ctx, const struct take *t)
{
	RedisModuleCallReply *reply, *error = NULL;
	struct taken *taken;
	struct lease *l;
	RedisModuleString *name;
	RedisModuleKey *key;
	struct queue *q;
	size_t count = 0, nr_new = 0;
	int64_t deadline, read = -1;
	bool wrote = false, is_refused = false;
	int error_number;

	if (open_queue(ctx, t->stream, READ_WRITE, &name, &key) != REDISMODULE_OK)
		return REDISMODULE_OK;
	q = queue_in(key);
	if (setting(q, SETTING_PAUSED))
		return REDISMODULE_ERR;
	errno = 0;
	deadline = RedisModule_Milliseconds() + (t->lease ? t->lease : setting(q, SETTING_LEASE));
	taken = RedisModule_PoolAlloc(ctx, t->count * sizeof(*taken));

	while (!is_refused && count < (size_t)t->count && (l = lease_first_ended(q, t->group))) {
		if (claim(ctx, t, q, l, deadline, &taken[count], &error, &is_refused))
			count++;
		else if (is_refused)
			break;
		wrote = true;
	}
	if (!is_refused && count < (size_t)t->count &&
	    read_new(ctx, t, t->count - count, &reply)) {
		if (is_error(reply)) {
			error = reply;
			is_refused = true;
		} else if (RedisModule_CallReplyLength(reply) == 1) {
			reply = RedisModule_CallReplyArrayElement(reply, 0);
			reply = RedisModule_CallReplyArrayElement(reply, 1);
			for (; nr_new < RedisModule_CallReplyLength(reply); nr_new++)
				taken[count + nr_new].entry =
					RedisModule_CallReplyArrayElement(reply, nr_new);
		}
	}
	error_number = errno;
	if (nr_new) {
		read = read_by(ctx, t);
		lease_new(ctx, t, queue_make(ctx, key, name), taken + count, nr_new, deadline);
	}
	/* Before anything is replicated: who is told of it may call commands. */
	if (wrote || nr_new)
		changed(ctx, t->stream, name, &key);
	/* What was claimed before is this worker's. */
	if (is_refused && !count)
		return reply_error(ctx, error, error_number);
	if (!count && !nr_new)
		return REDISMODULE_ERR;
	replicate_all(ctx, t, taken, count + nr_new, nr_new, read);
	return reply_taken(ctx, taken, count + nr_new);
}

/* Called when the stream may have something for a client that is blocked. */
static int on_ready(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
	RedisModuleString *name;
	struct take t;

	RedisModule_AutoMemory(ctx);
	if (!(RedisModule_GetContextFlags(ctx) & REDISMODULE_CTX_FLAGS_MASTER))
		return REDISMODULE_ERR;
	/* It was parsed before. */
	parse_take(argv, argc, &t);
	/*
	 * If its time is over, the queue ends now: of a key that is opened here, before another
	 * command is called, 7.0 would not tell replicas that it has ended.
	 */
	name = queue_name(ctx, t.stream);
	if (name)
		RedisModule_Call(ctx, "EXISTS", "!s", name);
	return take(ctx, &t);
}

static int on_timeout(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
	(void)argv;
	(void)argc;
	return RedisModule_ReplyWithArray(ctx, 0);
}

/* HTW.TAKE stream group consumer [COUNT n] [LEASE ms] [BLOCK ms] */
static int command_take(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
	struct take t;

	if (argc < 4)
		return RedisModule_WrongArity(ctx);
	RedisModule_AutoMemory(ctx);
	if (!parse_take(argv, argc, &t))
		return RedisModule_ReplyWithError(ctx, "ERR syntax error, or a number is invalid");
	if (take(ctx, &t) == REDISMODULE_OK)
		return REDISMODULE_OK;
	if (t.block < 0 ||
	    RedisModule_GetContextFlags(ctx) & REDISMODULE_CTX_FLAGS_DENY_BLOCKING)
		return RedisModule_ReplyWithArray(ctx, 0);
	RedisModule_BlockClientOnKeys(ctx, on_ready, on_timeout, NULL, t.block, &t.stream, 1, NULL);
	return REDISMODULE_OK;
}

/* HTW.DONE stream group entry [entry ...] */
static int command_done(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
	struct entry *entries;
	RedisModuleCallReply *error;
	RedisModuleString *name;
	RedisModuleKey *key;
	long long count = 0;
	bool is_changed = false;
	int error_number, i, n = 0, only = -1;

	if (argc < 4)
		return RedisModule_WrongArity(ctx);
	RedisModule_AutoMemory(ctx);
	entries = parse_entries(ctx, argv + 3, argc - 3);
	if (!entries || open_queue(ctx, argv[1], READ_WRITE, &name, &key) != REDISMODULE_OK)
		return REDISMODULE_OK;
	for (i = 3; i < argc; i++) {
		struct lease *l;

		errno = 0;
		n = finish(ctx, argv[1], argv[2], entries[i - 3].name, &only, &error);
		if (n < 0)
			break;
		count += n;
		l = lease_find(queue_in(key), argv[2], &entries[i - 3].id);
		if (!l)
			continue;
		forget(ctx, argv[1], l);
		is_changed = true;
	}
	error_number = errno;
	if (is_changed)
		changed(ctx, argv[1], name, &key);
	if (n < 0)
		return reply_error(ctx, error, error_number);
	return RedisModule_ReplyWithLongLong(ctx, count);
}

/* HTW.EXTEND stream group consumer ms entry [entry ...] */
static int command_extend(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
	struct entry *entries;
	RedisModuleString *name;
	RedisModuleKey *key;
	RedisModuleCallReply *reply;
	long long count = 0, ms;
	bool is_refused = false;
	int error_number, i;

	if (argc < 6)
		return RedisModule_WrongArity(ctx);
	RedisModule_AutoMemory(ctx);
	if (!parse_number(argv[4], 0, CLOCK_MAX_MS / 2, &ms))
		return RedisModule_ReplyWithError(ctx, ERROR_NUMBER);
	entries = parse_entries(ctx, argv + 5, argc - 5);
	if (!entries || open_queue(ctx, argv[1], READ_WRITE, &name, &key) != REDISMODULE_OK)
		return REDISMODULE_OK;
	for (i = 5; !is_refused && i < argc; i++) {
		struct lease_terms terms = { .deadline = RedisModule_Milliseconds() + ms };
		struct lease *l;

		errno = 0;
		reply = ask_pending(ctx, argv[1], argv[2], entries[i - 5].name, argv[3]);
		switch (state_of(reply, &terms.attempts)) {
		case STATE_UNKNOWN:
			is_refused = true;
			continue;
		case STATE_OVER:
			continue;
		case STATE_PENDING:
			break;
		}
		if (!take_is_there(ctx, argv[1], &entries[i - 5].id))
			continue;
		l = lease_find(queue_in(key), argv[2], &entries[i - 5].id);
		/*
		 * It failed, and nobody has taken it since: a worker's extension that comes
		 * just after it has said so must not make a lease of the wait.
		 */
		if (l && l->state != LEASE_TAKEN && l->attempts == terms.attempts)
			continue;
		if (l)
			terms.error = lease_error(l, &terms.error_len);
		lease_set(ctx, queue_make(ctx, key, name), argv[2], &entries[i - 5].id, &terms);
		replicate_lease(ctx, argv[1], argv[2], &terms, &entries[i - 5].name, 1);
		count++;
	}
	error_number = errno;
	if (count)
		changed(ctx, argv[1], name, &key);
	if (is_refused)
		return reply_error(ctx, reply, error_number);
	return RedisModule_ReplyWithLongLong(ctx, count);
}

struct fail {
	long long retry;	/* -1: by the backoff */
	bool is_dead;
	const char *error;
	size_t error_len;
};

static bool parse_fail(RedisModuleString **argv, int argc, struct fail *f)
{
	int i;

	*f = (struct fail){ .retry = -1, .error = "" };
	for (i = 0; i < argc; i++) {
		if (is_word(argv[i], "dead")) {
			f->is_dead = true;
		} else if (i + 1 < argc && is_word(argv[i], "retry")) {
			if (!parse_number(argv[++i], 0, CLOCK_MAX_MS / 2, &f->retry))
				return false;
		} else if (i + 1 < argc && is_word(argv[i], "error")) {
			f->error = RedisModule_StringPtrLen(argv[++i], &f->error_len);
		} else {
			return false;
		}
	}
	if (f->error_len > LEASE_ERROR_MAX)
		f->error_len = LEASE_ERROR_MAX;
	return !f->is_dead || f->retry < 0;
}

/* HTW.FAIL stream group consumer entry [RETRY ms | DEAD] [ERROR text] */
static int command_fail(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
	struct lease_terms terms = { .state = LEASE_FAILED };
	RedisModuleCallReply *reply, *refused = NULL;
	struct entry *entry;
	RedisModuleString *name;
	RedisModuleKey *key;
	struct queue *q;
	struct lease *l;
	int error_number = 0;
	struct fail f;

	if (argc < 5)
		return RedisModule_WrongArity(ctx);
	RedisModule_AutoMemory(ctx);
	if (!parse_fail(argv + 5, argc - 5, &f))
		return RedisModule_ReplyWithError(ctx, ERROR_SYNTAX);
	entry = parse_entries(ctx, argv + 4, 1);
	if (!entry || open_queue(ctx, argv[1], READ_WRITE, &name, &key) != REDISMODULE_OK)
		return REDISMODULE_OK;
	errno = 0;
	reply = ask_pending(ctx, argv[1], argv[2], entry->name, argv[3]);
	switch (state_of(reply, &terms.attempts)) {
	case STATE_UNKNOWN:
		return reply_error(ctx, reply, errno);
	case STATE_OVER:
		return RedisModule_ReplyWithNull(ctx);
	case STATE_PENDING:
		break;
	}
	if (!take_is_there(ctx, argv[1], &entry->id))
		return RedisModule_ReplyWithNull(ctx);

	q = queue_make(ctx, key, name);
	if (f.is_dead || is_last_attempt(q, terms.attempts)) {
		/* If the dead cannot be appended to, that is tried again when the lease ends. */
		terms.state = LEASE_DEAD;
		f.retry = RETRY_MS;
	} else if (f.retry < 0) {
		f.retry = settings_wait(q, terms.attempts);
	}
	terms.deadline = RedisModule_Milliseconds() + f.retry;
	terms.error = f.error;
	terms.error_len = f.error_len;
	l = lease_set(ctx, q, argv[2], &entry->id, &terms);
	replicate_lease(ctx, argv[1], argv[2], &terms, &entry->name, 1);
	if (terms.state == LEASE_DEAD) {
		errno = 0;
		refused = bury(ctx, name, argv[1], l, terms.attempts, f.error,
			       f.error_len);
		error_number = errno;
		f.retry = -1;
	}
	changed(ctx, argv[1], name, &key);
	if (refused)
		return reply_error(ctx, refused, error_number);
	return RedisModule_ReplyWithLongLong(ctx, f.retry);
}

/* Is this what bury() appends? */
static bool is_dead_job(RedisModuleString **fields, size_t count)
{
	size_t i;

	if (count < 2 * DEAD_FIELDS)
		return false;
	for (i = 0; i < DEAD_FIELDS; i++) {
		const char *s = RedisModule_StringPtrLen(fields[count - 2 * (DEAD_FIELDS - i)],
							 NULL);

		if (strcmp(s, dead_fields[i]))
			return false;
	}
	return true;
}

/* HTW.RETRY stream entry [entry ...] */
static int command_retry(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
	RedisModuleString *name, *dead;
	struct entry *entries;
	RedisModuleKey *key;
	long long done = 0;
	int i;

	if (argc < 3)
		return RedisModule_WrongArity(ctx);
	RedisModule_AutoMemory(ctx);
	entries = parse_entries(ctx, argv + 2, argc - 2);
	if (!entries || open_queue(ctx, argv[1], READ_WRITE, &name, &key) != REDISMODULE_OK)
		return REDISMODULE_OK;
	dead = dead_name(ctx, name);
	for (i = 2; i < argc; i++) {
		RedisModuleCallReply *reply, *row;
		RedisModuleString **fields;
		size_t count, used;

		errno = 0;
		reply = RedisModule_Call(ctx, "XRANGE", "Esss", dead, entries[i - 2].name,
					 entries[i - 2].name);
		if (is_error(reply))
			return reply_error(ctx, reply, errno);
		row = RedisModule_CallReplyArrayElement(reply, 0);
		if (!row)
			continue;
		fields = fields_of(ctx, row, 0, &count);
		used = is_dead_job(fields, count) ? count - 2 * DEAD_FIELDS : count;
		reply = RedisModule_Call(ctx, "XADD", "!Escv", argv[1], "*", fields, used);
		if (is_error(reply))
			return reply_error(ctx, reply, errno);
		RedisModule_Call(ctx, "XDEL", "!ss", dead, entries[i - 2].name);
		done++;
	}
	return RedisModule_ReplyWithLongLong(ctx, done);
}

/*
 * HTW.LEASE stream group deadline attempts LEASED|FAILED|DEAD|OVER error entry [entry ...], for
 * replicas and files
 */
static int command_lease(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
	struct lease_terms terms = { 0 };
	long long deadline, attempts;
	struct entry *entries;
	RedisModuleString *name;
	RedisModuleKey *key;
	int i, state = 0;
	bool is_over;

	if (argc < 8)
		return RedisModule_WrongArity(ctx);
	RedisModule_AutoMemory(ctx);
	if (!parse_number(argv[3], 0, CLOCK_MAX_MS, &deadline) ||
	    !parse_number(argv[4], 0, UINT32_MAX, &attempts))
		return RedisModule_ReplyWithError(ctx, ERROR_NUMBER);
	is_over = is_word(argv[5], "over");
	terms.deadline = deadline;
	terms.attempts = attempts;
	while (!is_over && state < LEASE_STATES && !is_word(argv[5], lease_words[state]))
		state++;
	terms.state = state;
	terms.error = RedisModule_StringPtrLen(argv[6], &terms.error_len);
	if (state == LEASE_STATES || terms.error_len > LEASE_ERROR_MAX)
		return RedisModule_ReplyWithError(ctx, ERROR_SYNTAX);
	entries = parse_entries(ctx, argv + 7, argc - 7);
	if (!entries || open_queue(ctx, argv[1], READ_WRITE, &name, &key) != REDISMODULE_OK)
		return REDISMODULE_OK;
	for (i = 0; i < argc - 7; i++) {
		struct lease *l = lease_find(queue_in(key), argv[2], &entries[i].id);

		if (!is_over)
			lease_set(ctx, queue_make(ctx, key, name), argv[2], &entries[i].id, &terms);
		else if (l)
			lease_remove(l);
	}
	RedisModule_ReplicateVerbatim(ctx);
	changed(ctx, argv[1], name, &key);
	return RedisModule_ReplyWithSimpleString(ctx, "OK");
}

#define WRITES	(REDISMODULE_CMD_KEY_RW | REDISMODULE_CMD_KEY_UPDATE)

static RedisModuleCommandArg take_args[] = {
	ARG_STREAM,
	ARG("group", STRING, NULL, 0),
	ARG("consumer", STRING, NULL, 0),
	ARG("count", INTEGER, "COUNT", ARG_OPTIONAL),
	ARG("lease", INTEGER, "LEASE", ARG_OPTIONAL),
	ARG("block", INTEGER, "BLOCK", ARG_OPTIONAL),
	{ 0 },
};

static RedisModuleCommandArg extend_args[] = {
	ARG_STREAM,
	ARG("group", STRING, NULL, 0),
	ARG("consumer", STRING, NULL, 0),
	ARG("milliseconds", INTEGER, NULL, 0),
	ARG("entry", STRING, NULL, ARG_MULTIPLE),
	{ 0 },
};

static RedisModuleCommandArg done_args[] = {
	ARG_STREAM,
	ARG("group", STRING, NULL, 0),
	ARG("entry", STRING, NULL, ARG_MULTIPLE),
	{ 0 },
};

static RedisModuleCommandArg fail_args[] = {
	ARG_STREAM,
	ARG("group", STRING, NULL, 0),
	ARG("consumer", STRING, NULL, 0),
	ARG("entry", STRING, NULL, 0),
	ARG("retry", INTEGER, "RETRY", ARG_OPTIONAL),
	ARG("dead", PURE_TOKEN, "DEAD", ARG_OPTIONAL),
	ARG("error", STRING, "ERROR", ARG_OPTIONAL),
	{ 0 },
};

static RedisModuleCommandArg retry_args[] = {
	ARG_STREAM,
	ARG("entry", STRING, NULL, ARG_MULTIPLE),
	{ 0 },
};

static RedisModuleCommandArg lease_args[] = {
	ARG_STREAM,
	ARG("group", STRING, NULL, 0),
	ARG("unix-time-milliseconds", UNIX_TIME, NULL, 0),
	ARG("attempts", INTEGER, NULL, 0),
	ARG("state", STRING, NULL, 0),
	ARG("error", STRING, NULL, 0),
	ARG("entry", STRING, NULL, ARG_MULTIPLE),
	{ 0 },
};

int take_init(RedisModuleCtx *ctx)
{
	static const struct command commands[] = {
		{ "htw.take", command_take, "write", "write blocking",
		  "Take jobs of a stream under a lease, and wait for one.", -4, WRITES, take_args },
		{ "htw.extend", command_extend, "write fast", "write fast",
		  "Let leases of a worker end later.", -6, WRITES, extend_args },
		{ "htw.done", command_done, "write fast", "write fast",
		  "End jobs that a group has taken.", -4, WRITES, done_args },
		{ "htw.fail", command_fail, "write fast", "write fast",
		  "Have a job tried again later, or give it up.", -5, WRITES, fail_args },
		{ "htw.retry", command_retry, "write deny-oom", "write",
		  "Append dead jobs to their stream anew.", -3, WRITES, retry_args },
		{ "htw.lease", command_lease, "write fast", "write fast",
		  "Set leases, as a file or a master has them.", -8, WRITES, lease_args },
		{ .name = NULL },
	}, *c;

	for (c = commands; c->name; c++)
		if (command_create(ctx, c) != REDISMODULE_OK)
			return REDISMODULE_ERR;
	clock_handle(CLOCK_LEASE, due);
	return REDISMODULE_OK;
}
