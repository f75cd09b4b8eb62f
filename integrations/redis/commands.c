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
#include "queue.h"

#define ERROR_STREAM	"ERR the stream's name is empty, or has a '}' without a hash tag"
#define ERROR_LIMIT	"LIMIT no more timers: see 'limit' in HTW.INFO"
#define ERROR_TIME	"ERR invalid time in milliseconds"
#define ERROR_ID	"ERR the id of a timeout has from 1 to 1024 bytes"
#define ERROR_MOVING	"TRYAGAIN the stream's slot is being moved"

/*
 * Open the queue of a stream. If this cannot be, reply with an error.
 *
 * Return: REDISMODULE_OK with the key, which may be empty.
 */
static int open_queue(RedisModuleCtx *ctx, RedisModuleString *stream, RedisModuleString **name,
		      RedisModuleKey **key)
{
	*name = queue_name(ctx, stream);
	if (!*name) {
		RedisModule_ReplyWithError(ctx, ERROR_STREAM);
		return REDISMODULE_ERR;
	}
	*key = RedisModule_OpenKey(ctx, *name, REDISMODULE_READ | REDISMODULE_WRITE);
	if (RedisModule_KeyType(*key) != REDISMODULE_KEYTYPE_EMPTY && !queue_in(*key)) {
		RedisModule_ReplyWithError(ctx, REDISMODULE_ERRORMSG_WRONGTYPE);
		return REDISMODULE_ERR;
	}
	return REDISMODULE_OK;
}

/* Does a command come from a file or from the master? It was accepted before. */
static bool is_obeyed(int flags)
{
	return flags & (REDISMODULE_CTX_FLAGS_LOADING | REDISMODULE_CTX_FLAGS_REPLICATED);
}

/* A stream, or no key yet? What was accepted before may be for a key of another type by now. */
static bool takes_entries(RedisModuleCtx *ctx, int flags, RedisModuleString *stream)
{
	RedisModuleKey *key;
	int type;

	if (is_obeyed(flags))
		return true;
	key = RedisModule_OpenKey(ctx, stream, REDISMODULE_READ | REDISMODULE_WRITE);
	type = RedisModule_KeyType(key);
	RedisModule_CloseKey(key);
	return type == REDISMODULE_KEYTYPE_EMPTY || type == REDISMODULE_KEYTYPE_STREAM;
}

/*
 * May a queue be created that is not here? While a slot is being moved, it may be on the other
 * node, and could not be moved to where there is another: so the server must find both keys here,
 * or no key is moved.
 */
static bool may_create(RedisModuleCtx *ctx, int flags, RedisModuleString *stream,
		       RedisModuleString *name)
{
	RedisModuleCallReply *reply;

	if (!(flags & REDISMODULE_CTX_FLAGS_CLUSTER) || is_obeyed(flags))
		return true;
	reply = RedisModule_Call(ctx, "EXISTS", "ss", stream, name);
	if (!reply)
		return false;
	RedisModule_FreeCallReply(reply);
	return true;
}

/* Parse a time in ms, from now unless @absolute. Return: it as absolute, or -1. */
static int64_t parse_due(RedisModuleString *arg, bool absolute)
{
	const int64_t now = absolute ? 0 : RedisModule_Milliseconds();
	long long ms;

	if (RedisModule_StringToLongLong(arg, &ms) != REDISMODULE_OK || ms < 0 ||
	    ms > CLOCK_MAX_MS - now)
		return -1;
	return now + ms;
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

/* HTW.ADD and HTW.AT stream milliseconds payload [ID id] */
static int add(RedisModuleCtx *ctx, RedisModuleString **argv, int argc, bool absolute)
{
	RedisModuleString *name, *id = NULL;
	const char *s, *payload;
	size_t len, payload_len;
	RedisModuleKey *key;
	struct timeout *t;
	struct queue *q;
	int64_t due;
	int flags;

	if (argc != 4 && argc != 6)
		return RedisModule_WrongArity(ctx);
	RedisModule_AutoMemory(ctx);
	if (argc == 6) {
		s = RedisModule_StringPtrLen(argv[4], NULL);
		if (strcasecmp(s, "ID"))
			return RedisModule_ReplyWithError(ctx, "ERR syntax error");
		id = argv[5];
		RedisModule_StringPtrLen(id, &len);
		if (!len || len > ID_MAX)
			return RedisModule_ReplyWithError(ctx, ERROR_ID);
	}
	due = parse_due(argv[2], absolute);
	if (due < 0)
		return RedisModule_ReplyWithError(ctx, ERROR_TIME);
	payload = RedisModule_StringPtrLen(argv[3], &payload_len);
	if (payload_len > UINT32_MAX)
		return RedisModule_ReplyWithError(ctx, "ERR the payload is too long");
	flags = RedisModule_GetContextFlags(ctx);
	if (!takes_entries(ctx, flags, argv[1]))
		return RedisModule_ReplyWithError(ctx, REDISMODULE_ERRORMSG_WRONGTYPE);
	if (open_queue(ctx, argv[1], &name, &key) != REDISMODULE_OK)
		return REDISMODULE_OK;
	q = queue_in(key);
	if (!q && !may_create(ctx, flags, argv[1], name))
		return RedisModule_ReplyWithError(ctx, ERROR_MOVING);
	if (!id)
		id = new_id(ctx, q);
	s = RedisModule_StringPtrLen(id, &len);
	if (q && queue_find(q, s, len))
		return RedisModule_ReplyWithError(ctx, "BUSYID a timeout with this id is pending");

	t = timeout_new(s, len, due, payload, payload_len);
	if (timeout_arm_new(t)) {
		RedisModule_Free(t);
		return RedisModule_ReplyWithError(ctx, ERROR_LIMIT);
	}
	if (!q) {
		q = queue_new();
		RedisModule_ModuleTypeSetValue(key, queue_type, q);
		queue_place(q, RedisModule_GetSelectedDb(ctx), name);
	}
	queue_insert(q, t);
	RedisModule_SignalModifiedKey(ctx, name);
	RedisModule_Replicate(ctx, "HTW.AT", "slscs", argv[1], (long long)due, argv[3], "ID", id);
	return RedisModule_ReplyWithString(ctx, id);
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
	long long count = 0;
	struct timeout *t;
	struct queue *q;
	int i;

	if (argc < 3)
		return RedisModule_WrongArity(ctx);
	RedisModule_AutoMemory(ctx);
	if (open_queue(ctx, argv[1], &name, &key) != REDISMODULE_OK)
		return REDISMODULE_OK;
	q = queue_in(key);
	for (i = 2; q && i < argc; i++) {
		size_t len;
		const char *s = RedisModule_StringPtrLen(argv[i], &len);

		t = queue_find(q, s, len);
		if (!t)
			continue;
		queue_remove(q, t);
		count++;
	}
	if (q && !queue_size(q))
		RedisModule_DeleteKey(key);
	if (count) {
		RedisModule_SignalModifiedKey(ctx, name);
		RedisModule_ReplicateVerbatim(ctx);
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
	if (open_queue(ctx, argv[1], &name, &key) != REDISMODULE_OK)
		return REDISMODULE_OK;
	q = queue_in(key);
	s = RedisModule_StringPtrLen(argv[2], &len);
	t = q ? queue_find(q, s, len) : NULL;
	if (!t)
		return RedisModule_ReplyWithLongLong(ctx, 0);
	t->due = due;
	if (t->timer)
		clock_move(t->timer, due);
	RedisModule_SignalModifiedKey(ctx, name);
	RedisModule_Replicate(ctx, "HTW.MOD", "sslc", argv[1], argv[2], (long long)due, "ABSTTL");
	return RedisModule_ReplyWithLongLong(ctx, 1);
}

static int reply_timeout(RedisModuleCtx *ctx, struct queue *q, RedisModuleString *id)
{
	struct timeout *t;
	size_t len;
	const char *s = RedisModule_StringPtrLen(id, &len);

	t = q ? queue_find(q, s, len) : NULL;
	if (!t)
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

	name = queue_name(ctx, argv[1]);
	key = name ? RedisModule_OpenKey(ctx, name, REDISMODULE_READ) : NULL;
	q = queue_in(key);
	if (key && !q)
		return RedisModule_ReplyWithError(ctx, REDISMODULE_ERRORMSG_WRONGTYPE);
	if (argc == 3)
		return reply_timeout(ctx, q, argv[2]);
	RedisModule_ReplyWithMap(ctx, 4);
	RedisModule_ReplyWithCString(ctx, "key");
	if (name)
		RedisModule_ReplyWithString(ctx, name);
	else
		RedisModule_ReplyWithNull(ctx);
	RedisModule_ReplyWithCString(ctx, "pending");
	RedisModule_ReplyWithLongLong(ctx, q ? queue_size(q) : 0);
	RedisModule_ReplyWithCString(ctx, "armed");
	RedisModule_ReplyWithLongLong(ctx, q ? q->armed : 0);
	RedisModule_ReplyWithCString(ctx, "memory");
	return RedisModule_ReplyWithLongLong(ctx, q ? queue_memory(q) : 0);
}

#define WRITES	(REDISMODULE_CMD_KEY_RW | REDISMODULE_CMD_KEY_UPDATE)

int commands_init(RedisModuleCtx *ctx)
{
	static const struct command commands[] = {
		{ "htw.add", command_add, "write deny-oom fast", "write fast",
		  "Append a payload to a stream after some milliseconds.", -4, WRITES },
		{ "htw.at", command_at, "write deny-oom fast", "write fast",
		  "Append a payload to a stream at a Unix time in milliseconds.", -4, WRITES },
		{ "htw.cancel", command_cancel, "write fast", "write fast",
		  "End pending timeouts of a stream.", -3, WRITES },
		{ "htw.mod", command_mod, "write fast", "write fast",
		  "Give a pending timeout of a stream a new time.", -4, WRITES },
		{ .name = NULL },
	}, *c;

	for (c = commands; c->name; c++)
		if (command_create(ctx, c) != REDISMODULE_OK)
			return REDISMODULE_ERR;
	return REDISMODULE_OK;
}
