// SPDX-License-Identifier: MIT
/*
 * HTW.LIST: what is pending or leased, in pages
 *
 * A page by id or of leases is found in a dictionary. The wheel has no order of its timers, so a
 * page by time is the first of all pending timeouts behind the cursor, kept in a heap.
 */
#include "list.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "command.h"
#include "extra.h"
#include "lease.h"

#define COUNT_START	10
#define COUNT_MAX	1000
#define KEPT_MAX	1000

#define ERROR_SYNTAX	"ERR syntax error, or a number or a cursor is invalid"

struct list {
	RedisModuleString *group;	/* NULL for what is pending */
	RedisModuleString *cursor;	/* NULL for the first page */
	long long count;
	bool by_time;
};

static bool is_word(RedisModuleString *arg, const char *word)
{
	return !strcasecmp(RedisModule_StringPtrLen(arg, NULL), word);
}

/* HTW.LIST stream PENDING [BY TIME|ID] [CURSOR c] [COUNT n]; LEASED group in place of PENDING. */
static bool parse(RedisModuleString **argv, int argc, struct list *list)
{
	const bool pending = is_word(argv[2], "pending");
	int i = pending ? 3 : 4;
	size_t len;

	*list = (struct list){ .count = COUNT_START, .by_time = pending };
	if (!pending && (argc < 4 || !is_word(argv[2], "leased")))
		return false;
	if (!pending)
		list->group = argv[3];
	for (; i + 1 < argc; i += 2) {
		if (is_word(argv[i], "cursor")) {
			RedisModule_StringPtrLen(argv[i + 1], &len);
			list->cursor = len ? argv[i + 1] : NULL;
		} else if (is_word(argv[i], "count")) {
			if (RedisModule_StringToLongLong(argv[i + 1], &list->count) !=
			    REDISMODULE_OK || list->count < 1 || list->count > COUNT_MAX)
				return false;
		} else if (pending && is_word(argv[i], "by")) {
			list->by_time = is_word(argv[i + 1], "time");
			if (!list->by_time && !is_word(argv[i + 1], "id"))
				return false;
		} else {
			return false;
		}
	}
	return i == argc;
}

/* Pending timeouts. */

static void reply_timeouts(RedisModuleCtx *ctx, struct timeout **page, size_t count)
{
	size_t i;

	RedisModule_ReplyWithArray(ctx, count);
	for (i = 0; i < count; i++) {
		const struct timeout *t = page[i];
		RedisModuleString **words;
		size_t nr_words, n;

		RedisModule_ReplyWithArray(ctx, 4);
		RedisModule_ReplyWithStringBuffer(ctx, t->bytes, t->id_len);
		RedisModule_ReplyWithLongLong(ctx, t->due);
		RedisModule_ReplyWithStringBuffer(ctx, payload_of(t), t->payload_len);
		nr_words = extra_words(ctx, t, &words);
		RedisModule_ReplyWithArray(ctx, nr_words - EXTRA_ID_WORDS);
		for (n = EXTRA_ID_WORDS; n < nr_words; n++)
			RedisModule_ReplyWithString(ctx, words[n]);
		RedisModule_Free(words);
	}
}

/*
 * Skip ids that are only kept by ONCE, but no more than KEPT_MAX of them in a page, so that a page
 * has a bounded cost. Such a page may be short or empty; its cursor leads on.
 */
static int list_by_id(RedisModuleCtx *ctx, struct queue *q, const struct list *list)
{
	struct timeout **page = RedisModule_PoolAlloc(ctx, list->count * sizeof(*page)), *t;
	const struct timeout *last = NULL;
	RedisModuleDictIter *i;
	size_t len = 0;
	const char *after = list->cursor ? RedisModule_StringPtrLen(list->cursor, &len) : NULL;
	long long count = 0, kept = 0;

	i = RedisModule_DictIteratorStartC(q->by_id, after ? ">" : "^", (void *)after, len);
	while (count < list->count && kept < KEPT_MAX &&
	       RedisModule_DictNextC(i, NULL, (void **)&t)) {
		last = t;
		if (extra_is_kept(t))
			kept++;
		else
			page[count++] = t;
	}
	RedisModule_ReplyWithArray(ctx, 2);
	if (RedisModule_DictNextC(i, NULL, (void **)&t))
		RedisModule_ReplyWithStringBuffer(ctx, last->bytes, last->id_len);
	else
		RedisModule_ReplyWithCString(ctx, "");
	RedisModule_DictIteratorStop(i);
	reply_timeouts(ctx, page, count);
	return REDISMODULE_OK;
}

static bool is_before(const struct timeout *a, const struct timeout *b)
{
	return a->due < b->due || (a->due == b->due && a->order < b->order);
}

/* Let the last of all, heap[at], sink to where it belongs: the latest is at the top. */
static void sink(struct timeout **heap, size_t count, size_t at)
{
	struct timeout *t = heap[at];

	for (;;) {
		size_t child = 2 * at + 1;

		if (child + 1 < count && is_before(heap[child], heap[child + 1]))
			child++;
		if (child >= count || !is_before(t, heap[child]))
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = t;
}

/* The first behind a time and an order, sorted. Return: how many. */
static size_t find_first(struct queue *q, int64_t due, uint64_t order, struct timeout **heap,
			 size_t most)
{
	RedisModuleDictIter *i;
	struct timeout *t, *last;
	size_t count = 0, n;

	for_each_timeout(t, q, i) {
		if (t->due < due || (t->due == due && t->order <= order) || extra_is_kept(t))
			continue;
		if (count < most) {
			heap[count++] = t;
			for (n = count / 2; count == most && n--;)
				sink(heap, count, n);
		} else if (is_before(t, heap[0])) {
			heap[0] = t;
			sink(heap, count, 0);
		}
	}
	for (n = count / 2; count < most && n--;)
		sink(heap, count, n);
	for (n = count; n-- > 1;) {
		last = heap[0];
		heap[0] = heap[n];
		heap[n] = last;
		sink(heap, n, 0);
	}
	return count;
}

static int list_by_time(RedisModuleCtx *ctx, struct queue *q, const struct list *list)
{
	const size_t most = list->count + 1;
	struct timeout **page = RedisModule_PoolAlloc(ctx, most * sizeof(*page));
	int64_t due = 0;
	uint64_t order = 0;
	size_t count;
	char cursor[64] = "";

	if (list->cursor && sscanf(RedisModule_StringPtrLen(list->cursor, NULL),
				   "%" SCNd64 "-%" SCNu64, &due, &order) != 2)
		return RedisModule_ReplyWithError(ctx, ERROR_SYNTAX);
	count = find_first(q, due, order, page, most);
	if (count == most)
		snprintf(cursor, sizeof(cursor), "%" PRId64 "-%" PRIu64, page[count - 2]->due,
			 (uint64_t)page[count - 2]->order);
	RedisModule_ReplyWithArray(ctx, 2);
	RedisModule_ReplyWithCString(ctx, cursor);
	reply_timeouts(ctx, page, count == most ? count - 1 : count);
	return REDISMODULE_OK;
}

/* Leases. */

static void reply_lease(RedisModuleCtx *ctx, RedisModuleString *stream, const struct list *list,
			const struct lease *l)
{
	RedisModuleString *entry = RedisModule_CreateStringFromStreamID(ctx, &l->entry);
	RedisModuleCallReply *reply, *row = NULL;
	const char *error;
	size_t len;

	reply = RedisModule_Call(ctx, "XPENDING", "ssssl", stream, list->group, entry, entry, 1LL);
	if (reply)
		row = RedisModule_CallReplyArrayElement(reply, 0);
	RedisModule_ReplyWithArray(ctx, 6);
	RedisModule_ReplyWithString(ctx, entry);
	if (!row || !take_is_there(ctx, stream, &l->entry))
		RedisModule_ReplyWithCString(ctx, "over");
	else
		RedisModule_ReplyWithCString(ctx, l->link ? "ended" : lease_words[l->state]);
	if (row) {
		/* The group's: others may have claimed it since. */
		RedisModule_ReplyWithCallReply(ctx, RedisModule_CallReplyArrayElement(row, 1));
		RedisModule_ReplyWithCallReply(ctx, RedisModule_CallReplyArrayElement(row, 3));
	} else {
		RedisModule_ReplyWithCString(ctx, "");
		RedisModule_ReplyWithLongLong(ctx, l->attempts);
	}
	RedisModule_ReplyWithLongLong(ctx, l->deadline);
	error = lease_error(l, &len);
	RedisModule_ReplyWithStringBuffer(ctx, error, len);
}

static int list_leased(RedisModuleCtx *ctx, RedisModuleString *stream, struct queue *q,
		       const struct list *list)
{
	struct lease **page = RedisModule_PoolAlloc(ctx, list->count * sizeof(*page)), *l;
	RedisModuleDictIter *i;
	RedisModuleStreamID after;
	RedisModuleString *next;
	long long count = 0, n;
	bool is_more = false;

	if (list->cursor && RedisModule_StringToStreamID(list->cursor, &after) != REDISMODULE_OK)
		return RedisModule_ReplyWithError(ctx, ERROR_SYNTAX);
	i = lease_start(q, list->group, list->cursor ? &after : NULL);
	if (i) {
		while (count < list->count && (l = lease_next(i)))
			page[count++] = l;
		is_more = lease_next(i);
		RedisModule_DictIteratorStop(i);
	}
	RedisModule_ReplyWithArray(ctx, 2);
	if (is_more)
		next = RedisModule_CreateStringFromStreamID(ctx, &page[count - 1]->entry);
	else
		next = RedisModule_CreateString(ctx, "", 0);
	RedisModule_ReplyWithString(ctx, next);
	RedisModule_ReplyWithArray(ctx, count);
	for (n = 0; n < count; n++)
		reply_lease(ctx, stream, list, page[n]);
	return REDISMODULE_OK;
}

static int command_list(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
	RedisModuleString *name;
	RedisModuleKey *key;
	struct list list;
	struct queue *q;

	if (argc < 3)
		return RedisModule_WrongArity(ctx);
	RedisModule_AutoMemory(ctx);
	if (!parse(argv, argc, &list))
		return RedisModule_ReplyWithError(ctx, ERROR_SYNTAX);
	if (open_queue(ctx, argv[1], REDISMODULE_READ, &name, &key) != REDISMODULE_OK)
		return REDISMODULE_OK;
	q = queue_in(key);
	if (q && !list.group)
		return list.by_time ? list_by_time(ctx, q, &list) : list_by_id(ctx, q, &list);
	if (q)
		return list_leased(ctx, argv[1], q, &list);
	RedisModule_ReplyWithArray(ctx, 2);
	RedisModule_ReplyWithCString(ctx, "");
	return RedisModule_ReplyWithArray(ctx, 0);
}

static RedisModuleCommandArg order_args[] = {
	ARG("time", PURE_TOKEN, "TIME", 0),
	ARG("id", PURE_TOKEN, "ID", 0),
	{ 0 },
};

static RedisModuleCommandArg pending_args[] = {
	ARG("pending", PURE_TOKEN, "PENDING", 0),
	{ .name = "order", .type = REDISMODULE_ARG_TYPE_ONEOF, .key_spec_index = -1, .token = "BY",
	  .flags = ARG_OPTIONAL, .subargs = order_args },
	{ 0 },
};

static RedisModuleCommandArg which_args[] = {
	{ .name = "pending", .type = REDISMODULE_ARG_TYPE_BLOCK, .key_spec_index = -1,
	  .subargs = pending_args },
	ARG("group", STRING, "LEASED", 0),
	{ 0 },
};

static RedisModuleCommandArg list_args[] = {
	ARG_STREAM,
	{ .name = "which", .type = REDISMODULE_ARG_TYPE_ONEOF, .key_spec_index = -1,
	  .subargs = which_args },
	ARG("cursor", STRING, "CURSOR", ARG_OPTIONAL),
	ARG("count", INTEGER, "COUNT", ARG_OPTIONAL),
	{ 0 },
};

int list_init(RedisModuleCtx *ctx)
{
	static const struct command command = {
		"htw.list", command_list, "readonly", "read",
		"List a stream's pending timeouts, or its jobs that are leased.", -3,
		REDISMODULE_CMD_KEY_RO | REDISMODULE_CMD_KEY_ACCESS, list_args
	};

	return command_create(ctx, &command);
}
