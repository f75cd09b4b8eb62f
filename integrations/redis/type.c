// SPDX-License-Identifier: MIT
/*
 * The data type of pending timeouts: RDB, AOF, copies, memory
 */
#include <string.h>

#include "clock.h"
#include "queue.h"

#define TYPE_NAME	"htw-queue"
#define ENCODING	1

/* What libhtw and the dictionary take for a timeout besides its own memory; the latter roughly. */
#define TIMER_BYTES	64
#define ENTRY_BYTES	48

RedisModuleType *queue_type;

static void queue_unlink(RedisModuleString *key, const void *value)
{
	(void)key;
	queue_displace((struct queue *)value);
}

static size_t queue_effort(RedisModuleString *key, const void *value)
{
	(void)key;
	return queue_size(value);
}

size_t queue_memory(const void *value)
{
	const struct queue *q = value;

	return sizeof(*q) + q->bytes + queue_size(q) * (TIMER_BYTES + ENTRY_BYTES);
}

static void *queue_copy(RedisModuleString *from, RedisModuleString *to, const void *value)
{
	const struct queue *q = value;
	struct queue *copy = queue_new();
	RedisModuleDictIter *i;
	struct timeout *t;

	(void)from;
	(void)to;
	for_each_timeout(t, q, i)
		queue_insert(copy, timeout_new(t->bytes, t->id_len, t->due, payload_of(t),
					       t->payload_len));
	return copy;
}

static void queue_digest(RedisModuleDigest *digest, void *value)
{
	struct queue *q = value;
	RedisModuleDictIter *i;
	struct timeout *t;

	for_each_timeout(t, q, i) {
		RedisModule_DigestAddStringBuffer(digest, t->bytes, t->id_len);
		RedisModule_DigestAddLongLong(digest, t->due);
		RedisModule_DigestAddStringBuffer(digest, payload_of(t), t->payload_len);
		RedisModule_DigestEndSequence(digest);
	}
}

static void queue_save(RedisModuleIO *io, void *value)
{
	struct queue *q = value;
	RedisModuleDictIter *i;
	struct timeout *t;

	RedisModule_SaveUnsigned(io, queue_size(q));
	for_each_timeout(t, q, i) {
		RedisModule_SaveStringBuffer(io, t->bytes, t->id_len);
		RedisModule_SaveSigned(io, t->due);
		RedisModule_SaveStringBuffer(io, payload_of(t), t->payload_len);
	}
}

/* Return: a timeout, or NULL if the input ends or is not what queue_save() writes. */
static struct timeout *timeout_load(RedisModuleIO *io)
{
	struct timeout *t = NULL;
	size_t id_len, payload_len;
	char *id, *payload = NULL;
	int64_t due;

	id = RedisModule_LoadStringBuffer(io, &id_len);
	if (!id)
		return NULL;
	due = RedisModule_LoadSigned(io);
	if (!RedisModule_IsIOError(io))
		payload = RedisModule_LoadStringBuffer(io, &payload_len);
	if (payload && id_len && id_len <= ID_MAX && payload_len <= UINT32_MAX && due >= 0 &&
	    due <= CLOCK_MAX_MS)
		t = timeout_new(id, id_len, due, payload, payload_len);
	RedisModule_Free(id);
	if (payload)
		RedisModule_Free(payload);
	return t;
}

static void *queue_load(RedisModuleIO *io, int version)
{
	const RedisModuleString *key = RedisModule_GetKeyNameFromIO(io);
	struct queue *q;
	struct timeout *t;
	uint64_t count;

	if (version != ENCODING) {
		RedisModule_LogIOError(io, "warning", "timeouts of unknown version %d", version);
		return NULL;
	}
	count = RedisModule_LoadUnsigned(io);
	if (RedisModule_IsIOError(io) || !count)
		return NULL;
	q = queue_new();
	while (count--) {
		t = timeout_load(io);
		if (t && queue_insert(q, t))
			continue;
		if (t)
			RedisModule_Free(t);
		RedisModule_LogIOError(io, "warning", "a timeout cannot be loaded");
		queue_free(q);
		return NULL;
	}
	if (key)
		queue_place(q, RedisModule_GetDbIdFromIO(io), key);
	return q;
}

/* No command can address a parked queue: fill one that has a name, and rename it. */
static void queue_rewrite(RedisModuleIO *io, RedisModuleString *key, void *value)
{
	RedisModuleString *stream = stream_name(key), *parked = NULL;
	struct queue *q = value;
	RedisModuleDictIter *i;
	struct timeout *t;
	const char *s;
	size_t len;
	char tag[16];

	if (!stream) {
		RedisModule_GetRandomHexChars(tag, sizeof(tag));
		stream = RedisModule_CreateStringPrintf(NULL, "{parked-%.*s}",
							(int)sizeof(tag), tag);
		s = RedisModule_StringPtrLen(key, &len);
		RedisModule_StringAppendBuffer(NULL, stream, s, len);
		parked = queue_name(NULL, stream);
	}
	for_each_timeout(t, q, i)
		RedisModule_EmitAOF(io, "HTW.AT", "slbcb", stream, (long long)t->due, payload_of(t),
				    (size_t)t->payload_len, "ID", t->bytes, (size_t)t->id_len);
	RedisModule_FreeString(NULL, stream);
	if (parked) {
		RedisModule_EmitAOF(io, "RENAME", "ss", parked, key);
		RedisModule_FreeString(NULL, parked);
	}
}

int type_init(RedisModuleCtx *ctx)
{
	RedisModuleTypeMethods methods = {
		.version = REDISMODULE_TYPE_METHOD_VERSION,
		.rdb_load = queue_load,
		.rdb_save = queue_save,
		.aof_rewrite = queue_rewrite,
		.mem_usage = queue_memory,
		.digest = queue_digest,
		.free = queue_free,
		.free_effort = queue_effort,
		.unlink = queue_unlink,
		.copy = queue_copy,
	};

	queue_type = RedisModule_CreateDataType(ctx, TYPE_NAME, ENCODING, &methods);
	return queue_type ? REDISMODULE_OK : REDISMODULE_ERR;
}
