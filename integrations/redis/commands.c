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

/* What is to be added. */
struct job {
	int64_t due;
	RedisModuleString *payload;
	struct extra_options options;
	RedisModuleString *id;		/* given, or made */
	struct timeout *timeout;	/* NULL if ONCE was asked for, and the id is in use */
};

/* Is an id in use, by a timeout of the queue or by one that is about to be? Either may be NULL. */
static bool is_busy(struct queue *q, RedisModuleDict *made, RedisModuleString *id)
{
	size_t len;
	const char *s = RedisModule_StringPtrLen(id, &len);
	struct timeout *old = q ? queue_find(q, s, len) : NULL;

	return (old && !extra_is_free(old)) || (made && RedisModule_DictGet(made, id, NULL));
}

/* An id that is not in use; of those made here none comes twice. */
static RedisModuleString *new_id(RedisModuleCtx *ctx, struct queue *q, RedisModuleDict *made)
{
	static long long last_ms, sequence;
	RedisModuleString *id;

	do {
		const long long now = RedisModule_Milliseconds();

		sequence = now > last_ms ? 0 : sequence + 1;
		last_ms = now > last_ms ? now : last_ms;
		id = RedisModule_CreateStringPrintf(ctx, "%lld-%lld", last_ms, sequence);
	} while (is_busy(q, made, id));
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

/* Is a job one that can be added? Return: NULL or an error. */
static const char *check(RedisModuleCtx *ctx, const struct job *job)
{
	size_t len;

	if (job->options.extra.is_kept && !is_obeyed(RedisModule_GetContextFlags(ctx)))
		return "ERR KEPT is for files and replicas";

	RedisModule_StringPtrLen(job->payload, &len);
	if (job->due < 0)
		return ERROR_TIME;
	if (len > PAYLOAD_MAX - job->options.extra.fields_len)
		return "ERR the payload is too long";
	return NULL;
}

/* Make and arm the timeout of a job, which is not inserted. Return: NULL or an error. */
static const char *make(RedisModuleCtx *ctx, struct queue *q, RedisModuleDict *made,
			struct job *job)
{
	const char *s, *payload;
	size_t len, payload_len;
	struct timeout *t;

	job->id = job->options.id;
	if (!job->id)
		job->id = new_id(ctx, q, made);
	else if (!job->options.replace && is_busy(q, made, job->id))
		return job->options.extra.once ? NULL : ERROR_BUSY;
	s = RedisModule_StringPtrLen(job->id, &len);
	payload = RedisModule_StringPtrLen(job->payload, &payload_len);
	t = timeout_new(s, len, job->due, payload, payload_len);
	if (timeout_arm_new(t)) {
		RedisModule_Free(t);
		return ERROR_LIMIT;
	}
	job->timeout = t;
	if (made)
		RedisModule_DictReplace(made, job->id, t);
	return NULL;
}

/* Insert what was made, in place of what has its id; the options' fields are taken over. */
static void insert(RedisModuleCtx *ctx, RedisModuleString *stream, struct queue *q,
		   struct job *job)
{
	struct timeout *t = job->timeout, *old = queue_find(q, t->bytes, t->id_len);
	const bool replace = old && job->options.replace;

	/* An id that was kept, and is free by the time: for replicas by a command. */
	if (old && !replace)
		RedisModule_Replicate(ctx, "HTW.CANCEL", "ss", stream, job->id);
	if (old)
		queue_remove(q, old);
	queue_insert(q, t);
	extra_set(t, &job->options.extra);
	job->options.extra.fields = NULL;
	replicate_add(ctx, stream, t, job->payload, replace);
}

/*
 * Add jobs: all are made before any is inserted, so that all are added or none.
 *
 * Return: false after an error was replied.
 */
static bool add_jobs(RedisModuleCtx *ctx, RedisModuleString *stream, struct job *jobs, int count)
{
	RedisModuleDict *made = count > 1 ? RedisModule_CreateDict(ctx) : NULL;
	const char *error = NULL;
	RedisModuleString *name;
	RedisModuleKey *key;
	struct queue *q;
	bool is_any = false;
	int n;

	for (n = 0; !error && n < count; n++)
		error = check(ctx, &jobs[n]);
	if (!error && !takes_entries(ctx, stream))
		error = REDISMODULE_ERRORMSG_WRONGTYPE;
	if (error) {
		RedisModule_ReplyWithError(ctx, error);
		return false;
	}
	if (open_queue(ctx, stream, READ_WRITE, &name, &key) != REDISMODULE_OK)
		return false;
	q = queue_in(key);
	for (n = 0; !error && n < count; n++) {
		error = make(ctx, q, made, &jobs[n]);
		is_any = is_any || jobs[n].timeout;
	}
	if (error) {
		for (n = 0; n < count; n++) {
			if (!jobs[n].timeout)
				continue;
			clock_stop(&jobs[n].timeout->timer);
			RedisModule_Free(jobs[n].timeout);
		}
		RedisModule_ReplyWithError(ctx, error);
		return false;
	}
	if (!is_any)
		return true;
	q = queue_make(ctx, key, name);
	for (n = 0; n < count; n++)
		if (jobs[n].timeout)
			insert(ctx, stream, q, &jobs[n]);
	queue_changed(ctx, stream, name, &key, "htw.add");
	return true;
}

static int reply_job(RedisModuleCtx *ctx, const struct job *job)
{
	return job->timeout ? RedisModule_ReplyWithString(ctx, job->id) :
			      RedisModule_ReplyWithNull(ctx);
}

/*
 * HTW.ADD and HTW.AT stream milliseconds payload [ID id] [REPLACE] [ONCE ms] [EVERY ms]
 * [FIELDS name value [name value ...]]
 */
static int add(RedisModuleCtx *ctx, RedisModuleString **argv, int argc, bool absolute)
{
	struct job job = { 0 };
	const char *error;

	if (argc < 4)
		return RedisModule_WrongArity(ctx);
	RedisModule_AutoMemory(ctx);
	error = extra_parse(argv + 4, argc - 4, &job.options, NULL);
	job.due = parse_due(argv[2], absolute);
	job.payload = argv[3];
	if (error)
		RedisModule_ReplyWithError(ctx, error);
	else if (add_jobs(ctx, argv[1], &job, 1))
		reply_job(ctx, &job);
	extra_drop(&job.options.extra);
	return REDISMODULE_OK;
}

/*
 * HTW.MADD stream milliseconds payload [option ...] [milliseconds payload [option ...] ...], the
 * options as of HTW.ADD, but FIELDS count name value [name value ...]
 */
static int command_madd(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
	struct job *jobs;
	const char *error = NULL;
	int i, n, used, count = 0;

	if (argc < 4)
		return RedisModule_WrongArity(ctx);
	RedisModule_AutoMemory(ctx);
	jobs = RedisModule_Calloc(argc / 2, sizeof(*jobs));
	for (i = 2; !error && i < argc; i += 2 + used) {
		struct job *job = &jobs[count++];

		used = 0;
		job->due = parse_due(argv[i], false);
		if (job->due < 0) {
			error = ERROR_TIME;
		} else if (i + 1 == argc) {
			error = "ERR syntax error";
		} else {
			job->payload = argv[i + 1];
			error = extra_parse(argv + i + 2, argc - i - 2, &job->options, &used);
		}
	}
	if (error) {
		RedisModule_ReplyWithError(ctx, error);
	} else if (add_jobs(ctx, argv[1], jobs, count)) {
		RedisModule_ReplyWithArray(ctx, count);
		for (n = 0; n < count; n++)
			reply_job(ctx, &jobs[n]);
	}
	for (n = 0; n < count; n++)
		extra_drop(&jobs[n].options.extra);
	RedisModule_Free(jobs);
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

static RedisModuleCommandArg counted_args[] = {
	ARG("count", INTEGER, NULL, 0),
	{ .name = "field", .type = REDISMODULE_ARG_TYPE_BLOCK, .key_spec_index = -1,
	  .flags = ARG_MULTIPLE, .subargs = field_args },
	{ 0 },
};

/* What may follow in any order; of HTW.ADD, FIELDS as the last. */
#define ADD_OPTIONS(more, args)									\
	ARG("id", STRING, "ID", ARG_OPTIONAL),							\
	ARG("replace", PURE_TOKEN, "REPLACE", ARG_OPTIONAL),					\
	ARG("once", INTEGER, "ONCE", ARG_OPTIONAL),						\
	ARG("every", INTEGER, "EVERY", ARG_OPTIONAL),						\
	{ .name = "fields", .type = REDISMODULE_ARG_TYPE_BLOCK, .key_spec_index = -1,		\
	  .token = "FIELDS", .flags = ARG_OPTIONAL | (more), .subargs = args }

static RedisModuleCommandArg add_args[] = {
	ARG_STREAM,
	ARG("milliseconds", INTEGER, NULL, 0),
	ARG("payload", STRING, NULL, 0),
	ADD_OPTIONS(ARG_MULTIPLE, field_args),
	{ 0 },
};

static RedisModuleCommandArg at_args[] = {
	ARG_STREAM,
	ARG("unix-time-milliseconds", UNIX_TIME, NULL, 0),
	ARG("payload", STRING, NULL, 0),
	ADD_OPTIONS(ARG_MULTIPLE, field_args),
	{ 0 },
};

static RedisModuleCommandArg each_args[] = {
	ARG("milliseconds", INTEGER, NULL, 0),
	ARG("payload", STRING, NULL, 0),
	ADD_OPTIONS(0, counted_args),
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
