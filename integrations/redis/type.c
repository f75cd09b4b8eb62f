// SPDX-License-Identifier: MIT
/*
 * The data type of pending timeouts: RDB, AOF, copies, memory
 */
#include <string.h>

#include "clock.h"
#include "extra.h"
#include "lease.h"
#include "queue.h"
#include "settings.h"

#define TYPE_NAME	"htw-queue"
/* The first version had no leases and no settings. */
#define ENCODING	2

/* What libhtw takes for a timeout besides its own memory. */
#define TIMER_BYTES	64

/* How many entries of the dictionary are looked at to tell what all take. */
#define SAMPLES		100

RedisModuleType *queue_type;

static void queue_unlink(RedisModuleString *key, const void *value)
{
	(void)key;
	queue_displace((struct queue *)value);
}

static size_t queue_effort(RedisModuleString *key, const void *value)
{
	(void)key;
	return queue_size(value) + leases_count(value);
}

/* How many bytes two ids have in common at their beginning. */
static size_t common(const struct timeout *a, const struct timeout *b)
{
	size_t len = 0;

	while (len < a->id_len && len < b->id_len && a->bytes[len] == b->bytes[len])
		len++;
	return len;
}

/*
 * What a radix tree takes for an id that has its last @own bytes for itself: a leaf, a node for
 * those but the first, and for that one a place in the node before.
 */
static size_t entry_bytes(size_t own)
{
	size_t bytes = 16 + 1 + sizeof(void *) + 2;

	if (own > 1)
		bytes += (4 + own - 1 + 7) / 8 * 8 + sizeof(void *);
	return bytes;
}

/* What the dictionary takes, by the first @samples of it; zero for all. */
static size_t dictionary_bytes(const struct queue *q, size_t samples)
{
	struct timeout *last = NULL, *t;
	size_t before = 0, bytes = 0, n = 0;
	RedisModuleDictIter *i = RedisModule_DictIteratorStartC(q->by_id, "^", NULL, 0);

	while ((!samples || n < samples) && RedisModule_DictNextC(i, NULL, (void **)&t)) {
		if (last) {
			const size_t after = common(last, t);

			bytes += entry_bytes(last->id_len - (before > after ? before : after));
			before = after;
			n++;
		}
		last = t;
	}
	RedisModule_DictIteratorStop(i);
	return n ? bytes / n * queue_size(q) + bytes % n * queue_size(q) / n :
	       last ? entry_bytes(last->id_len) : 0;
}

static size_t queue_memory_by(const struct queue *q, size_t samples)
{
	return sizeof(*q) + q->bytes + q->line_size * sizeof(*q->line) + q->armed * TIMER_BYTES +
	       dictionary_bytes(q, samples) + leases_memory(q) + extras_memory(q);
}

size_t queue_memory(const void *value)
{
	return queue_memory_by(value, SAMPLES);
}

/* MEMORY USAGE key SAMPLES n: its default of five is too few. */
static size_t queue_memory_sampled(RedisModuleKeyOptCtx *ctx, const void *value, size_t samples)
{
	(void)ctx;
	return queue_memory_by(value, samples && samples < SAMPLES ? SAMPLES : samples);
}

static void *queue_copy(RedisModuleString *from, RedisModuleString *to, const void *value)
{
	const struct queue *q = value;
	struct queue *copy = queue_new();
	RedisModuleDictIter *i;
	struct timeout *t, *new;

	(void)from;
	(void)to;
	for_each_timeout(t, q, i) {
		new = timeout_new(t->bytes, t->id_len, t->due, payload_of(t), t->payload_len);
		new->order = t->order;
		queue_insert(copy, new);
	}
	leases_copy(copy, q);
	settings_copy(copy, q);
	extras_copy(copy, q);
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
	leases_digest(digest, q);
	settings_digest(digest, q);
	extras_digest(digest, q);
}

static void queue_save(RedisModuleIO *io, void *value)
{
	const struct queue *q = value;
	const uint64_t size = queue_size(q);
	struct in_order *all = queue_in_order(q);
	uint64_t n;

	RedisModule_SaveUnsigned(io, size);
	for (n = 0; n < size; n++) {
		const struct timeout *t = all[n].timeout;

		RedisModule_SaveStringBuffer(io, t->bytes, t->id_len);
		RedisModule_SaveSigned(io, t->due);
		RedisModule_SaveStringBuffer(io, payload_of(t), t->payload_len);
	}
	RedisModule_Free(all);
	leases_save(io, q);
	settings_save(io, q);
	extras_save(io, q);
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

	if (version < 1 || version > ENCODING) {
		RedisModule_LogIOError(io, "warning", "timeouts of unknown version %d", version);
		return NULL;
	}
	count = RedisModule_LoadUnsigned(io);
	if (RedisModule_IsIOError(io))
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
	if ((version > 1 && (!leases_load(io, q) || !settings_load(io, q) ||
			     !extras_load(io, q))) ||
	    queue_is_empty(q)) {
		RedisModule_LogIOError(io, "warning", "leases or settings cannot be loaded");
		queue_free(q);
		return NULL;
	}
	if (key)
		queue_place_loaded(q, RedisModule_GetDbIdFromIO(io), key);
	return q;
}

static void rewrite_timeout(RedisModuleIO *io, RedisModuleString *stream, const struct timeout *t)
{
	RedisModuleString **words;
	const size_t count = extra_words(NULL, t, &words);
	size_t n;

	RedisModule_EmitAOF(io, "HTW.AT", "slbv", stream, (long long)t->due, payload_of(t),
			    (size_t)t->payload_len, words, count);
	for (n = 0; n < count; n++)
		RedisModule_FreeString(NULL, words[n]);
	RedisModule_Free(words);
}

/* No command can address a parked queue: fill one that has a name, and rename it. */
static void queue_rewrite(RedisModuleIO *io, RedisModuleString *key, void *value)
{
	RedisModuleString *stream = stream_name(key), *parked = NULL;
	const struct queue *q = value;
	const uint64_t size = queue_size(q);
	struct in_order *all;
	const char *s;
	uint64_t n;
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
	all = queue_in_order(q);
	for (n = 0; n < size; n++) {
		const struct timeout *t = all[n].timeout;

		rewrite_timeout(io, stream, t);
	}
	RedisModule_Free(all);
	leases_rewrite(io, stream, q);
	settings_rewrite(io, stream, q);
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
		.mem_usage2 = queue_memory_sampled,
		.digest = queue_digest,
		.free = queue_free,
		.free_effort = queue_effort,
		.unlink = queue_unlink,
		.copy = queue_copy,
	};

	queue_type = RedisModule_CreateDataType(ctx, TYPE_NAME, ENCODING, &methods);
	return queue_type ? REDISMODULE_OK : REDISMODULE_ERR;
}
