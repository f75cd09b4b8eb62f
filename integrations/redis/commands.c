// SPDX-License-Identifier: MIT
/*
 * The commands on pending timeouts
 *
 * They are replicated with absolute times and with the ids that were chosen, so that a replica,
 * or a server that reads its append-only file, gets the same timeouts.
 */
#include <string.h>
#include <strings.h>

#include "clock.h"
#include "command.h"
#include "extra.h"
#include "lease.h"
#include "queue.h"
#include "settings.h"

#define ERROR_STREAM	"ERR the stream's name is empty, or has a '}' without a hash tag"
#define ERROR_LIMIT	"LIMIT no more timers: see 'limit' in HTW.INFO"
#define ERROR_TIME	"ERR invalid time in milliseconds"
#define ERROR_BUSY	"BUSYID a timeout with this id is pending"

#define READ_WRITE	(REDISMODULE_READ | REDISMODULE_WRITE)

/* Does a command come from a file or from the master? It was accepted before. */
static bool is_obeyed(int flags)
{
	return flags & (REDISMODULE_CTX_FLAGS_LOADING | REDISMODULE_CTX_FLAGS_REPLICATED);
}

/*
 * May a queue that is not here be at another node? So it may while its slot is being moved, unless
 * stream and queue are both here: that is when the server serves a command with two keys. A
 * replica's answer is that of its master a moment ago.
 */
static bool may_be_elsewhere(RedisModuleCtx *ctx, RedisModuleString *stream,
			     RedisModuleString *name)
{
	const int flags = RedisModule_GetContextFlags(ctx);
	RedisModuleCallReply *reply;

	if (!(flags & REDISMODULE_CTX_FLAGS_CLUSTER) || !(flags & REDISMODULE_CTX_FLAGS_MASTER) ||
	    is_obeyed(flags))
		return false;
	reply = RedisModule_Call(ctx, "EXISTS", "ss", stream, name);
	if (!reply)
		return true;
	RedisModule_FreeCallReply(reply);
	return false;
}

int open_queue(RedisModuleCtx *ctx, RedisModuleString *stream, int mode, RedisModuleString **name,
	       RedisModuleKey **key)
{
	const char *error;

	*name = queue_name(ctx, stream);
	if (!*name) {
		RedisModule_ReplyWithError(ctx, ERROR_STREAM);
		return REDISMODULE_ERR;
	}
	*key = RedisModule_OpenKey(ctx, *name, mode);
	if (queue_in(*key))
		return REDISMODULE_OK;
	if (RedisModule_KeyType(*key) != REDISMODULE_KEYTYPE_EMPTY)
		error = REDISMODULE_ERRORMSG_WRONGTYPE;
	else if (may_be_elsewhere(ctx, stream, *name))
		error = ERROR_MOVING;
	else
		return REDISMODULE_OK;
	RedisModule_ReplyWithError(ctx, error);
	return REDISMODULE_ERR;
}

/*
 * What HTW.INFO and HTW.LIST say is cached under the stream's name, as that is the command's
 * argument.
 */
bool queue_changed(RedisModuleCtx *ctx, RedisModuleString *stream, RedisModuleString *name,
		   RedisModuleKey **key, const char *event)
{
	const struct queue *q = queue_in(*key);
	const bool is_gone = q && queue_is_empty(q);

	if (is_gone)
		RedisModule_DeleteKey(*key);
	RedisModule_CloseKey(*key);
	*key = NULL;
	RedisModule_SignalModifiedKey(ctx, stream);
	RedisModule_SignalModifiedKey(ctx, name);
	RedisModule_NotifyKeyspaceEvent(ctx, REDISMODULE_NOTIFY_MODULE, event, name);
	if (is_gone)
		RedisModule_NotifyKeyspaceEvent(ctx, REDISMODULE_NOTIFY_GENERIC, "del", name);
	return is_gone;
}

/* A stream, or no key yet? What was accepted before may be for a key of another type by now. */
static bool takes_entries(RedisModuleCtx *ctx, RedisModuleString *stream)
{
	RedisModuleKey *key;
	int type;

	if (is_obeyed(RedisModule_GetContextFlags(ctx)))
		return true;
	key = RedisModule_OpenKey(ctx, stream, READ_WRITE);
	type = RedisModule_KeyType(key);
	RedisModule_CloseKey(key);
	return type == REDISMODULE_KEYTYPE_EMPTY || type == REDISMODULE_KEYTYPE_STREAM;
}

/*
 * Parse a time in ms, from now unless @absolute; a negative one is over already.
 *
 * Return: it as absolute, or -1.
 */
static int64_t parse_due(RedisModuleString *arg, bool absolute)
{
	const int64_t now = absolute ? 0 : RedisModule_Milliseconds();
	long long ms;

	if (RedisModule_StringToLongLong(arg, &ms) != REDISMODULE_OK || ms > CLOCK_MAX_MS - now)
		return -1;
	return ms < 0 ? now : now + ms;
}

/* An id that no timeout of the queue has; of those made here none comes twice. */
static RedisModuleString *new_id(RedisModuleCtx *ctx, struct queue *q)
{
	static long long last_ms, sequence;
	RedisModuleString *id;
	size_t len;
	const char *s;

	do {
		const long long now = RedisModule_Milliseconds();

		sequence = now > last_ms ? 0 : sequence + 1;
		last_ms = now > last_ms ? now : last_ms;
		id = RedisModule_CreateStringPrintf(ctx, "%lld-%lld", last_ms, sequence);
		s = RedisModule_StringPtrLen(id, &len);
	} while (q && queue_find(q, s, len));
	return id;
}

/* Replicate an add, with the id that was chosen. */
static void replicate_add(RedisModuleCtx *ctx, RedisModuleString *stream, const struct timeout *t,
			  RedisModuleString *payload, bool replace)
{
	RedisModuleString **words;
	const size_t count = extra_words(ctx, t, &words);

	if (replace)
		RedisModule_Replicate(ctx, "HTW.AT", "slscv", stream, (long long)t->due, payload,
				      "REPLACE", words, count);
	else
		RedisModule_Replicate(ctx, "HTW.AT", "slsv", stream, (long long)t->due, payload,
				      words, count);
	RedisModule_Free(words);
}

/* Add a timeout as was asked for; the options' fields are taken over, or left. */
static int add_as(RedisModuleCtx *ctx, RedisModuleString **argv, int64_t due,
		  struct extra_options *o)
{
	RedisModuleString *name, *id = o->id;
	const char *s, *payload;
	size_t len, payload_len;
	struct timeout *t, *old;
	RedisModuleKey *key;
	struct queue *q;
	bool is_busy;

	if (due < 0)
		return RedisModule_ReplyWithError(ctx, ERROR_TIME);
	payload = RedisModule_StringPtrLen(argv[3], &payload_len);
	if (payload_len > PAYLOAD_MAX - o->extra.fields_len)
		return RedisModule_ReplyWithError(ctx, "ERR the payload is too long");
	if (!takes_entries(ctx, argv[1]))
		return RedisModule_ReplyWithError(ctx, REDISMODULE_ERRORMSG_WRONGTYPE);
	if (open_queue(ctx, argv[1], READ_WRITE, &name, &key) != REDISMODULE_OK)
		return REDISMODULE_OK;
	q = queue_in(key);
	if (!id)
		id = new_id(ctx, q);
	s = RedisModule_StringPtrLen(id, &len);
	old = q ? queue_find(q, s, len) : NULL;
	is_busy = old && !extra_is_free(old);
	if (is_busy && o->extra.once)
		return RedisModule_ReplyWithNull(ctx);
	if (is_busy && !o->replace)
		return RedisModule_ReplyWithError(ctx, ERROR_BUSY);

	t = timeout_new(s, len, due, payload, payload_len);
	if (timeout_arm_new(t)) {
		RedisModule_Free(t);
		return RedisModule_ReplyWithError(ctx, ERROR_LIMIT);
	}
	q = queue_make(ctx, key, name);
	if (old)
		queue_remove(q, old);
	queue_insert(q, t);
	extra_set(t, &o->extra);
	o->extra.fields = NULL;
	replicate_add(ctx, argv[1], t, argv[3], old);
	queue_changed(ctx, argv[1], name, &key, "htw.add");
	return RedisModule_ReplyWithString(ctx, id);
}

/*
 * HTW.ADD and HTW.AT stream milliseconds payload [ID id] [REPLACE] [ONCE ms] [EVERY ms]
 * [FIELDS name value [name value ...]]
 */
static int add(RedisModuleCtx *ctx, RedisModuleString **argv, int argc, bool absolute)
{
	struct extra_options options;
	const char *error;

	if (argc < 4)
		return RedisModule_WrongArity(ctx);
	RedisModule_AutoMemory(ctx);
	error = extra_parse(argv + 4, argc - 4, &options);
	if (error)
		RedisModule_ReplyWithError(ctx, error);
	else
		add_as(ctx, argv, parse_due(argv[2], absolute), &options);
	extra_drop(&options.extra);
	return REDISMODULE_OK;
}

/* HTW.MADD stream milliseconds payload [milliseconds payload ...] */
static int command_madd(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
	const int count = (argc - 2) / 2;
	RedisModuleString *name, *id;
	struct timeout **all;
	RedisModuleKey *key;
	struct queue *q;
	const char *error = NULL;
	int n;

	if (argc < 4 || argc % 2)
		return RedisModule_WrongArity(ctx);
	RedisModule_AutoMemory(ctx);
	if (!takes_entries(ctx, argv[1]))
		return RedisModule_ReplyWithError(ctx, REDISMODULE_ERRORMSG_WRONGTYPE);
	if (open_queue(ctx, argv[1], READ_WRITE, &name, &key) != REDISMODULE_OK)
		return REDISMODULE_OK;
	/* All are made before any is inserted, so that all or none are added. */
	all = RedisModule_PoolAlloc(ctx, count * sizeof(*all));
	for (n = 0; !error && n < count; n++) {
		const int64_t due = parse_due(argv[2 + 2 * n], false);
		const char *s, *payload;
		size_t len, payload_len;

		payload = RedisModule_StringPtrLen(argv[3 + 2 * n], &payload_len);
		id = new_id(ctx, queue_in(key));
		s = RedisModule_StringPtrLen(id, &len);
		all[n] = timeout_new(s, len, due, payload, payload_len);
		if (due < 0)
			error = ERROR_TIME;
		else if (timeout_arm_new(all[n]))
			error = ERROR_LIMIT;
	}
	if (error) {
		while (n--) {
			clock_stop(&all[n]->timer);
			RedisModule_Free(all[n]);
		}
		return RedisModule_ReplyWithError(ctx, error);
	}
	q = queue_make(ctx, key, name);
	RedisModule_ReplyWithArray(ctx, count);
	for (n = 0; n < count; n++) {
		queue_insert(q, all[n]);
		RedisModule_ReplyWithStringBuffer(ctx, all[n]->bytes, all[n]->id_len);
		replicate_add(ctx, argv[1], all[n], argv[3 + 2 * n], false);
	}
	queue_changed(ctx, argv[1], name, &key, "htw.add");
	return REDISMODULE_OK;
}

static int command_add(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
	return add(ctx, argv, argc, false);
}

static int command_at(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
	return add(ctx, argv, argc, true);
}

/* HTW.CANCEL stream id [id ...] */
static int command_cancel(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
	RedisModuleString *name;
	RedisModuleKey *key;
	bool is_changed = false;
	long long count = 0;
	struct timeout *t;
	struct queue *q;
	int i;

	if (argc < 3)
		return RedisModule_WrongArity(ctx);
	RedisModule_AutoMemory(ctx);
	if (open_queue(ctx, argv[1], READ_WRITE, &name, &key) != REDISMODULE_OK)
		return REDISMODULE_OK;
	q = queue_in(key);
	for (i = 2; q && i < argc; i++) {
		size_t len;
		const char *s = RedisModule_StringPtrLen(argv[i], &len);

		t = queue_find(q, s, len);
		if (!t)
			continue;
		/* An id that is kept is free again, but nothing was pending. */
		count += extra_is_kept(t) ? 0 : 1;
		queue_remove(q, t);
		is_changed = true;
	}
	if (is_changed) {
		RedisModule_ReplicateVerbatim(ctx);
		queue_changed(ctx, argv[1], name, &key, "htw.cancel");
	}
	return RedisModule_ReplyWithLongLong(ctx, count);
}

/* HTW.MOD stream id milliseconds [ABSTTL] */
static int command_mod(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
	RedisModuleString *name;
	RedisModuleKey *key;
	struct timeout *t;
	struct queue *q;
	int64_t due;
	size_t len;
	const char *s;

	if (argc != 4 && argc != 5)
		return RedisModule_WrongArity(ctx);
	RedisModule_AutoMemory(ctx);
	if (argc == 5 && strcasecmp(RedisModule_StringPtrLen(argv[4], NULL), "ABSTTL"))
		return RedisModule_ReplyWithError(ctx, "ERR syntax error");
	due = parse_due(argv[3], argc == 5);
	if (due < 0)
		return RedisModule_ReplyWithError(ctx, ERROR_TIME);
	if (open_queue(ctx, argv[1], READ_WRITE, &name, &key) != REDISMODULE_OK)
		return REDISMODULE_OK;
	q = queue_in(key);
	s = RedisModule_StringPtrLen(argv[2], &len);
	t = q ? queue_find(q, s, len) : NULL;
	if (!t || extra_is_kept(t))
		return RedisModule_ReplyWithLongLong(ctx, 0);
	timeout_move(ctx, t, due);
	RedisModule_Replicate(ctx, "HTW.MOD", "sslc", argv[1], argv[2], (long long)due, "ABSTTL");
	queue_changed(ctx, argv[1], name, &key, "htw.mod");
	return RedisModule_ReplyWithLongLong(ctx, 1);
}

static int reply_field(RedisModuleCtx *ctx, const char *name, long long value)
{
	RedisModule_ReplyWithCString(ctx, name);
	return RedisModule_ReplyWithLongLong(ctx, value);
}

static int reply_timeout(RedisModuleCtx *ctx, struct queue *q, RedisModuleString *id)
{
	struct timeout *t;
	size_t len;
	const char *s = RedisModule_StringPtrLen(id, &len);

	t = q ? queue_find(q, s, len) : NULL;
	if (!t || extra_is_kept(t))
		return RedisModule_ReplyWithNull(ctx);
	RedisModule_ReplyWithMap(ctx, 2);
	RedisModule_ReplyWithCString(ctx, "due");
	RedisModule_ReplyWithLongLong(ctx, t->due);
	RedisModule_ReplyWithCString(ctx, "payload");
	return RedisModule_ReplyWithStringBuffer(ctx, payload_of(t), t->payload_len);
}

int commands_reply_info(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
	RedisModuleString *name;
	RedisModuleKey *key;
	struct queue *q;

	if (open_queue(ctx, argv[1], REDISMODULE_READ, &name, &key) != REDISMODULE_OK)
		return REDISMODULE_OK;
	q = queue_in(key);
	if (argc == 3)
		return reply_timeout(ctx, q, argv[2]);
	RedisModule_ReplyWithMap(ctx, 11 + TAKE_PAIRS + SETTINGS_PAIRS);
	RedisModule_ReplyWithCString(ctx, "key");
	RedisModule_ReplyWithString(ctx, name);
	reply_field(ctx, "pending", q ? queue_size(q) : 0);
	reply_field(ctx, "armed", q ? q->armed : 0);
	reply_field(ctx, "waiting", q ? q->waiting : 0);
	reply_field(ctx, "memory", q ? queue_memory(q) : 0);
	/* Since the stream has not taken an entry. */
	reply_field(ctx, "attempts", q ? q->attempts : 0);
	RedisModule_ReplyWithCString(ctx, "reason");
	RedisModule_ReplyWithCString(ctx, q && q->reason ? q->reason : "");
	reply_field(ctx, "next-try", q && q->reason ? q->retry : 0);
	reply_field(ctx, "leased", q ? leases_count(q) : 0);
	reply_field(ctx, "ended", q ? leases_ended(q) : 0);
	reply_field(ctx, "failed", q ? leases_failed(q) : 0);
	take_reply_info(ctx, argv[1], name);
	settings_reply(ctx, q);
	return REDISMODULE_OK;
}

#define WRITES	(REDISMODULE_CMD_KEY_RW | REDISMODULE_CMD_KEY_UPDATE)

/* What COMMAND DOCS says of the arguments. */
static RedisModuleCommandArg field_args[] = {
	ARG("name", STRING, NULL, 0),
	ARG("value", STRING, NULL, 0),
	{ 0 },
};

/* What may follow in any order, FIELDS as the last. */
#define ADD_OPTIONS										\
	ARG("id", STRING, "ID", ARG_OPTIONAL),							\
	ARG("replace", PURE_TOKEN, "REPLACE", ARG_OPTIONAL),					\
	ARG("once", INTEGER, "ONCE", ARG_OPTIONAL),						\
	ARG("every", INTEGER, "EVERY", ARG_OPTIONAL),						\
	{ .name = "fields", .type = REDISMODULE_ARG_TYPE_BLOCK, .key_spec_index = -1,		\
	  .token = "FIELDS", .flags = ARG_OPTIONAL | ARG_MULTIPLE, .subargs = field_args }

static RedisModuleCommandArg add_args[] = {
	ARG_STREAM,
	ARG("milliseconds", INTEGER, NULL, 0),
	ARG("payload", STRING, NULL, 0),
	ADD_OPTIONS,
	{ 0 },
};

static RedisModuleCommandArg at_args[] = {
	ARG_STREAM,
	ARG("unix-time-milliseconds", UNIX_TIME, NULL, 0),
	ARG("payload", STRING, NULL, 0),
	ADD_OPTIONS,
	{ 0 },
};

static RedisModuleCommandArg each_args[] = {
	ARG("milliseconds", INTEGER, NULL, 0),
	ARG("payload", STRING, NULL, 0),
	{ 0 },
};

static RedisModuleCommandArg madd_args[] = {
	ARG_STREAM,
	{ .name = "timeout", .type = REDISMODULE_ARG_TYPE_BLOCK, .key_spec_index = -1,
	  .flags = ARG_MULTIPLE, .subargs = each_args },
	{ 0 },
};

static RedisModuleCommandArg cancel_args[] = {
	ARG_STREAM,
	ARG("id", STRING, NULL, ARG_MULTIPLE),
	{ 0 },
};

static RedisModuleCommandArg mod_args[] = {
	ARG_STREAM,
	ARG("id", STRING, NULL, 0),
	ARG("milliseconds", INTEGER, NULL, 0),
	ARG("absttl", PURE_TOKEN, "ABSTTL", ARG_OPTIONAL),
	{ 0 },
};

int commands_init(RedisModuleCtx *ctx)
{
	static const struct command commands[] = {
		{ "htw.add", command_add, "write deny-oom fast", "write fast",
		  "Append a payload to a stream after some milliseconds.", -4, WRITES, add_args },
		{ "htw.at", command_at, "write deny-oom fast", "write fast",
		  "Append a payload to a stream at a Unix time in milliseconds.", -4, WRITES,
		  at_args },
		{ "htw.madd", command_madd, "write deny-oom", "write",
		  "Append payloads to a stream, each after some milliseconds.", -4, WRITES,
		  madd_args },
		{ "htw.cancel", command_cancel, "write fast", "write fast",
		  "End pending timeouts of a stream.", -3, WRITES, cancel_args },
		{ "htw.mod", command_mod, "write fast", "write fast",
		  "Give a pending timeout of a stream a new time.", -4, WRITES, mod_args },
		{ .name = NULL },
	}, *c;

	for (c = commands; c->name; c++)
		if (command_create(ctx, c) != REDISMODULE_OK)
			return REDISMODULE_ERR;
	return REDISMODULE_OK;
}
