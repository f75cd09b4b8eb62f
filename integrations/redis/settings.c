// SPDX-License-Identifier: MIT
/*
 * The settings of a queue
 *
 * A queue whose settings are all as from the start has none, so that its key goes with its last
 * job. In files and for replicas they have their names, so that there can be others in time.
 */
#include "settings.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "clock.h"
#include "command.h"

static const struct {
	const char *name;
	int64_t start;
	int64_t least;
	int64_t most;
} known[SETTINGS] = {
	[SETTING_LEASE] = { "lease", 30000, 1, CLOCK_MAX_MS / 2 },
	[SETTING_TRIES] = { "tries", 0, 0, UINT32_MAX },
	[SETTING_BACKOFF] = { "backoff", 1000, 0, CLOCK_MAX_MS / 2 },
	[SETTING_CEILING] = { "ceiling", 3600000, 0, CLOCK_MAX_MS / 2 },
	[SETTING_JITTER] = { "jitter", 25, 0, 100 },
	[SETTING_MAXLEN] = { "maxlen", 0, 0, INT64_MAX },
	[SETTING_MAXAGE] = { "maxage", 0, 0, CLOCK_MAX_MS },
	[SETTING_PAUSED] = { "paused", 0, 0, 1 },
};

static int find(const char *name, size_t len)
{
	int i;

	for (i = 0; i < SETTINGS; i++)
		if (len == strlen(known[i].name) && !strncasecmp(name, known[i].name, len))
			return i;
	return -1;
}

static bool is_valid(int which, int64_t value)
{
	return which >= 0 && value >= known[which].least && value <= known[which].most;
}

int64_t setting(const struct queue *q, enum setting which)
{
	return q && q->settings ? q->settings[which] : known[which].start;
}

static void set(struct queue *q, int which, int64_t value)
{
	int i;

	if (!q->settings) {
		q->settings = RedisModule_Alloc(SETTINGS * sizeof(*q->settings));
		for (i = 0; i < SETTINGS; i++)
			q->settings[i] = known[i].start;
	}
	q->settings[which] = value;
	for (i = 0; i < SETTINGS; i++)
		if (q->settings[i] != known[i].start)
			return;
	RedisModule_Free(q->settings);
	q->settings = NULL;
}

int64_t settings_wait(const struct queue *q, uint32_t attempts)
{
	const int64_t first = setting(q, SETTING_BACKOFF);
	int64_t most = setting(q, SETTING_CEILING), wait = first;

	if (most < first)
		most = first;
	while (attempts-- > 1 && wait && wait < most)
		wait = wait > most / 2 ? most : 2 * wait;
	/* Chance takes a part away, never more than the whole. */
	return wait - (int64_t)(drand48() * wait * setting(q, SETTING_JITTER) / 100);
}

void settings_reply(RedisModuleCtx *ctx, const struct queue *q)
{
	int i;

	for (i = 0; i < SETTINGS; i++) {
		RedisModule_ReplyWithCString(ctx, known[i].name);
		RedisModule_ReplyWithLongLong(ctx, setting(q, i));
	}
}

/* HTW.SET stream name value [name value ...] */
static int command_set(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
	RedisModuleString *name;
	RedisModuleKey *key;
	struct queue *q;
	int i;

	if (argc < 4 || argc % 2)
		return RedisModule_WrongArity(ctx);
	RedisModule_AutoMemory(ctx);
	for (i = 2; i < argc; i += 2) {
		long long value;
		size_t len;
		const char *s = RedisModule_StringPtrLen(argv[i], &len);

		if (find(s, len) < 0)
			return RedisModule_ReplyWithError(ctx, "ERR unknown setting");
		if (RedisModule_StringToLongLong(argv[i + 1], &value) != REDISMODULE_OK ||
		    !is_valid(find(s, len), value))
			return RedisModule_ReplyWithError(ctx, "ERR invalid value of a setting");
	}
	if (open_queue(ctx, argv[1], REDISMODULE_READ | REDISMODULE_WRITE, &name, &key) !=
	    REDISMODULE_OK)
		return REDISMODULE_OK;

	q = queue_make(ctx, key, name);
	for (i = 2; i < argc; i += 2) {
		long long value;
		size_t len;
		const char *s = RedisModule_StringPtrLen(argv[i], &len);

		RedisModule_StringToLongLong(argv[i + 1], &value);
		set(q, find(s, len), value);
	}
	if (queue_is_active(q) && !setting(q, SETTING_PAUSED)) {
		/* What was paused goes on. */
		deliver_soon();
		RedisModule_SignalKeyAsReady(ctx, argv[1]);
	}
	RedisModule_ReplicateVerbatim(ctx);
	queue_changed(ctx, argv[1], name, &key, "htw.set");
	return RedisModule_ReplyWithSimpleString(ctx, "OK");
}

/* For the data type. */

void settings_copy(struct queue *to, const struct queue *from)
{
	int i;

	for (i = 0; from->settings && i < SETTINGS; i++)
		set(to, i, from->settings[i]);
}

void settings_digest(RedisModuleDigest *digest, const struct queue *q)
{
	int i;

	if (!q->settings)
		return;
	for (i = 0; i < SETTINGS; i++)
		RedisModule_DigestAddLongLong(digest, q->settings[i]);
	RedisModule_DigestEndSequence(digest);
}

void settings_save(RedisModuleIO *io, const struct queue *q)
{
	int i;

	RedisModule_SaveUnsigned(io, q->settings ? SETTINGS : 0);
	for (i = 0; q->settings && i < SETTINGS; i++) {
		RedisModule_SaveStringBuffer(io, known[i].name, strlen(known[i].name));
		RedisModule_SaveSigned(io, q->settings[i]);
	}
}

bool settings_load(RedisModuleIO *io, struct queue *q)
{
	uint64_t count = RedisModule_LoadUnsigned(io);

	while (!RedisModule_IsIOError(io) && count--) {
		int64_t value;
		size_t len;
		char *name = RedisModule_LoadStringBuffer(io, &len);
		int which;

		if (!name)
			return false;
		which = find(name, len);
		RedisModule_Free(name);
		value = RedisModule_LoadSigned(io);
		if (RedisModule_IsIOError(io) || !is_valid(which, value))
			return false;
		set(q, which, value);
	}
	return !RedisModule_IsIOError(io);
}

void settings_rewrite(RedisModuleIO *io, RedisModuleString *stream, const struct queue *q)
{
	int i;

	for (i = 0; q->settings && i < SETTINGS; i++)
		RedisModule_EmitAOF(io, "HTW.SET", "scl", stream, known[i].name,
				    (long long)q->settings[i]);
}

static RedisModuleCommandArg setting_args[] = {
	ARG("name", STRING, NULL, 0),
	ARG("value", INTEGER, NULL, 0),
	{ 0 },
};

static RedisModuleCommandArg set_args[] = {
	ARG_STREAM,
	{ .name = "setting", .type = REDISMODULE_ARG_TYPE_BLOCK, .key_spec_index = -1,
	  .flags = ARG_MULTIPLE, .subargs = setting_args },
	{ 0 },
};

int settings_init(RedisModuleCtx *ctx)
{
	static const struct command command = {
		"htw.set", command_set, "write deny-oom fast", "write fast",
		"Set how a stream's jobs are leased, tried again, trimmed and paused.", -4,
		REDISMODULE_CMD_KEY_RW | REDISMODULE_CMD_KEY_UPDATE, set_args
	};

	return command_create(ctx, &command);
}
