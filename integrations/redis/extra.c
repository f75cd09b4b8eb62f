// SPDX-License-Identifier: MIT
/*
 * What some timeouts have besides their payload: fields, repetition, and ids that are kept
 *
 * It is kept apart, by the timeout's id, so that the many that have nothing do not pay for it.
 */
#include "extra.h"

#include <string.h>
#include <strings.h>

#include "clock.h"

/* What the dictionary takes for one, roughly. */
#define ENTRY_BYTES	48

struct extras {
	RedisModuleDict *by_id;
	size_t bytes;
};

/* Options. */

static bool is_word(RedisModuleString *arg, const char *word)
{
	return !strcasecmp(RedisModule_StringPtrLen(arg, NULL), word);
}

static bool parse_ms(RedisModuleString *arg, int64_t *ms)
{
	long long value;

	if (RedisModule_StringToLongLong(arg, &value) != REDISMODULE_OK || value < 1 ||
	    value > CLOCK_MAX_MS / 2)
		return false;
	*ms = value;
	return true;
}

/* Return: false if they are too long for an entry. */
static bool parse_fields(RedisModuleString **argv, int argc, struct extra *e)
{
	size_t total = 0, len;
	const char *s;
	char *to;
	int i;

	for (i = 0; i < argc; i++) {
		RedisModule_StringPtrLen(argv[i], &len);
		total += sizeof(uint32_t) + len;
		if (total > PAYLOAD_MAX)
			return false;
	}
	e->fields_len = total;
	e->fields = to = RedisModule_Alloc(total);
	for (i = 0; i < argc; i++) {
		uint32_t n;

		s = RedisModule_StringPtrLen(argv[i], &len);
		n = len;
		memcpy(to, &n, sizeof(n));
		memcpy(to + sizeof(n), s, len);
		to += sizeof(n) + len;
	}
	return true;
}

static const char *check(const struct extra_options *o)
{
	size_t len;

	if (o->id) {
		RedisModule_StringPtrLen(o->id, &len);
		if (!len || len > ID_MAX)
			return "ERR the id of a timeout has from 1 to 1024 bytes";
	} else if (o->replace || o->extra.once || o->extra.is_kept) {
		return "ERR REPLACE and ONCE need an ID";
	}
	if (o->extra.once && (o->replace || o->extra.every))
		return "ERR ONCE excludes REPLACE and EVERY";
	return NULL;
}

/* How many words are names and values, from those after FIELDS on. Return: -1 if it is wrong. */
static int count_fields(RedisModuleString **argv, int argc, bool is_counted)
{
	long long count;

	if (!is_counted)
		return argc % 2 ? -1 : argc;
	if (RedisModule_StringToLongLong(argv[0], &count) != REDISMODULE_OK || count < 1 ||
	    count > (argc - 1) / 2)
		return -1;
	return 2 * count;
}

const char *extra_parse(RedisModuleString **argv, int argc, struct extra_options *o, int *used)
{
	static const char syntax[] = "ERR syntax error";
	int i, count;

	*o = (struct extra_options){ 0 };
	for (i = 0; i < argc; i++) {
		const bool has_value = i + 1 < argc;

		if (is_word(argv[i], "replace")) {
			o->replace = true;
		} else if (is_word(argv[i], "kept")) {
			o->extra.is_kept = true;
		} else if (has_value && is_word(argv[i], "id")) {
			o->id = argv[++i];
		} else if (has_value && is_word(argv[i], "once")) {
			if (!parse_ms(argv[++i], &o->extra.once))
				return "ERR invalid time in milliseconds";
		} else if (has_value && is_word(argv[i], "every")) {
			if (!parse_ms(argv[++i], &o->extra.every))
				return "ERR invalid time in milliseconds";
		} else if (has_value && !o->extra.fields && is_word(argv[i], "fields")) {
			count = count_fields(argv + i + 1, argc - i - 1, used);
			if (count < 0)
				return syntax;
			i += used ? 1 : 0;
			if (!parse_fields(argv + i + 1, count, &o->extra))
				return "ERR the fields are too long";
			i += count;
		} else {
			if (!used)
				return syntax;
			break;
		}
	}
	if (used)
		*used = i;
	return check(o);
}

void extra_drop(struct extra *e)
{
	RedisModule_Free(e->fields);
	e->fields = NULL;
}

/* One by one. */

const struct extra *extra_of(const struct timeout *t)
{
	const struct extras *all = t->queue->extras;

	return all ? RedisModule_DictGetC(all->by_id, (void *)t->bytes, t->id_len, NULL) : NULL;
}

bool extra_is_kept(const struct timeout *t)
{
	const struct extra *e = extra_of(t);

	return e && e->is_kept;
}

bool extra_is_free(const struct timeout *t)
{
	return t->due <= RedisModule_Milliseconds() && extra_is_kept(t);
}

static size_t bytes_of(const struct extra *e)
{
	return RedisModule_MallocSize((void *)e) +
	       (e->fields ? RedisModule_MallocSize(e->fields) : 0);
}

void extra_remove(const struct timeout *t)
{
	struct extra *e = (struct extra *)extra_of(t);
	struct queue *q = t->queue;

	if (!e)
		return;
	RedisModule_DictDelC(q->extras->by_id, (void *)t->bytes, t->id_len, NULL);
	q->extras->bytes -= bytes_of(e);
	extra_drop(e);
	RedisModule_Free(e);
	if (RedisModule_DictSize(q->extras->by_id))
		return;
	RedisModule_FreeDict(NULL, q->extras->by_id);
	RedisModule_Free(q->extras);
	q->extras = NULL;
}

static bool is_any(const struct extra *e)
{
	return e->every || e->once || e->is_kept || e->fields;
}

void extra_set(struct timeout *t, const struct extra *e)
{
	struct queue *q = t->queue;
	struct extra *new;

	extra_remove(t);
	if (!is_any(e))
		return;
	if (!q->extras) {
		q->extras = RedisModule_Calloc(1, sizeof(*q->extras));
		q->extras->by_id = RedisModule_CreateDict(NULL);
	}
	new = RedisModule_Alloc(sizeof(*new));
	*new = *e;
	RedisModule_DictSetC(q->extras->by_id, t->bytes, t->id_len, new);
	q->extras->bytes += bytes_of(new);
}

size_t extra_fields(RedisModuleCtx *ctx, const struct extra *e, RedisModuleString ***fields)
{
	const char *s = e->fields, *end = s + e->fields_len;
	size_t count = 0;
	uint32_t len;

	/* Each has its length before it. */
	*fields = RedisModule_Alloc((e->fields_len / sizeof(len) + 1) * sizeof(**fields));
	while (s < end) {
		memcpy(&len, s, sizeof(len));
		(*fields)[count++] = RedisModule_CreateString(ctx, s + sizeof(len), len);
		s += sizeof(len) + len;
	}
	return count;
}

static RedisModuleString *word(RedisModuleCtx *ctx, const char *s)
{
	return RedisModule_CreateString(ctx, s, strlen(s));
}

size_t extra_words(RedisModuleCtx *ctx, const struct timeout *t, RedisModuleString ***words)
{
	const struct extra *e = extra_of(t);
	RedisModuleString **fields = NULL, **all;
	size_t n = 0, count = e ? extra_fields(ctx, e, &fields) : 0;

	*words = all = RedisModule_Alloc((count + 8) * sizeof(*all));
	all[n++] = word(ctx, "ID");
	all[n++] = RedisModule_CreateString(ctx, t->bytes, t->id_len);
	if (e && e->every) {
		all[n++] = word(ctx, "EVERY");
		all[n++] = RedisModule_CreateStringFromLongLong(ctx, e->every);
	}
	if (e && e->once) {
		all[n++] = word(ctx, "ONCE");
		all[n++] = RedisModule_CreateStringFromLongLong(ctx, e->once);
	}
	if (e && e->is_kept)
		all[n++] = word(ctx, "KEPT");
	if (count)
		all[n++] = word(ctx, "FIELDS");
	memcpy(all + n, fields, count * sizeof(*fields));
	RedisModule_Free(fields);
	return n + count;
}

/* All of a queue's. */

#define for_each_extra(e, q, i, id, len)							\
	for (i = RedisModule_DictIteratorStartC((q)->extras->by_id, "^", NULL, 0);		\
	     ((id) = RedisModule_DictNextC(i, &(len), (void **)&(e))) ||			\
	     (RedisModule_DictIteratorStop(i), false);)

size_t extras_memory(const struct queue *q)
{
	const struct extras *all = q->extras;

	return all ? sizeof(*all) + all->bytes + RedisModule_DictSize(all->by_id) * ENTRY_BYTES : 0;
}

void extras_free(struct queue *q)
{
	RedisModuleDictIter *i;
	struct extra *e;
	const char *id;
	size_t len;

	if (!q->extras)
		return;
	for_each_extra(e, q, i, id, len) {
		extra_drop(e);
		RedisModule_Free(e);
	}
	RedisModule_FreeDict(NULL, q->extras->by_id);
	RedisModule_Free(q->extras);
	q->extras = NULL;
}

void extras_copy(struct queue *to, const struct queue *from)
{
	RedisModuleDictIter *i;
	struct extra *e, copy;
	const char *id;
	size_t len;

	if (!from->extras)
		return;
	for_each_extra(e, from, i, id, len) {
		copy = *e;
		if (e->fields) {
			copy.fields = RedisModule_Alloc(e->fields_len);
			memcpy(copy.fields, e->fields, e->fields_len);
		}
		extra_set(queue_find(to, id, len), &copy);
	}
}

void extras_digest(RedisModuleDigest *digest, const struct queue *q)
{
	RedisModuleDictIter *i;
	struct extra *e;
	const char *id;
	size_t len;

	if (!q->extras)
		return;
	for_each_extra(e, q, i, id, len) {
		RedisModule_DigestAddStringBuffer(digest, id, len);
		RedisModule_DigestAddLongLong(digest, e->every);
		RedisModule_DigestAddLongLong(digest, e->once);
		RedisModule_DigestAddLongLong(digest, e->is_kept);
		RedisModule_DigestAddStringBuffer(digest, e->fields ? e->fields : "",
						  e->fields_len);
		RedisModule_DigestEndSequence(digest);
	}
}

/* The fields one by one: their lengths in memory are this machine's. */
void extras_save(RedisModuleIO *io, const struct queue *q)
{
	RedisModuleDictIter *i;
	struct extra *e;
	const char *id;
	size_t len;

	RedisModule_SaveUnsigned(io, q->extras ? RedisModule_DictSize(q->extras->by_id) : 0);
	if (!q->extras)
		return;
	for_each_extra(e, q, i, id, len) {
		RedisModuleString **fields;
		const size_t count = extra_fields(NULL, e, &fields);
		size_t n;

		RedisModule_SaveStringBuffer(io, id, len);
		RedisModule_SaveSigned(io, e->every);
		RedisModule_SaveSigned(io, e->once);
		RedisModule_SaveUnsigned(io, e->is_kept);
		RedisModule_SaveUnsigned(io, count);
		for (n = 0; n < count; n++) {
			RedisModule_SaveString(io, fields[n]);
			RedisModule_FreeString(NULL, fields[n]);
		}
		RedisModule_Free(fields);
	}
}

static bool load_fields(RedisModuleIO *io, uint64_t count, struct extra *e)
{
	RedisModuleString **fields = NULL;
	uint64_t n;
	bool ok = true;

	for (n = 0; ok && n < count; n++) {
		/* As many as there really are: the number may be anything. */
		if (!(n & (n - 1)))
			fields = RedisModule_Realloc(fields, (n ? 2 * n : 1) * sizeof(*fields));
		fields[n] = RedisModule_LoadString(io);
		ok = fields[n];
	}
	if (!ok)
		n--;
	ok = ok && (!count || parse_fields(fields, count, e));
	while (n--)
		RedisModule_FreeString(NULL, fields[n]);
	RedisModule_Free(fields);
	return ok;
}

static bool is_time(int64_t ms)
{
	return ms >= 0 && ms <= CLOCK_MAX_MS / 2;
}

/* Return: false if the input ends or is not what extras_save() writes. */
static bool load_one(RedisModuleIO *io, struct queue *q)
{
	struct extra e = { 0 };
	struct timeout *t;
	uint64_t count;
	size_t len;
	char *id = RedisModule_LoadStringBuffer(io, &len);

	if (!id)
		return false;
	t = queue_find(q, id, len);
	RedisModule_Free(id);
	e.every = RedisModule_LoadSigned(io);
	e.once = RedisModule_LoadSigned(io);
	e.is_kept = RedisModule_LoadUnsigned(io);
	count = RedisModule_LoadUnsigned(io);
	if (RedisModule_IsIOError(io) || !t || !is_time(e.every) || !is_time(e.once) ||
	    count % 2 || count > INT32_MAX || !load_fields(io, count, &e))
		return false;
	extra_set(t, &e);
	return true;
}

bool extras_load(RedisModuleIO *io, struct queue *q)
{
	uint64_t count = RedisModule_LoadUnsigned(io);

	while (!RedisModule_IsIOError(io) && count--)
		if (!load_one(io, q))
			return false;
	return !RedisModule_IsIOError(io);
}
