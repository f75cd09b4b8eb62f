/* SPDX-License-Identifier: MIT */
/*
 * The settings of a queue
 *
 * All functions are called by the server's main thread.
 */
#ifndef HTW_REDIS_SETTINGS_H
#define HTW_REDIS_SETTINGS_H

#include "queue.h"

enum setting {
	SETTING_LEASE,		/* ms until a job that was taken comes again */
	SETTING_TRIES,	/* after so many a job is dead; 0: no limit */
	SETTING_BACKOFF,	/* ms to wait after the first attempt that failed */
	SETTING_CEILING,	/* ms of the longest wait */
	SETTING_JITTER,		/* per cent of a wait that are left to chance */
	SETTING_MAXLEN,		/* trim the stream to so many entries; 0: do not */
	SETTING_MAXAGE,		/* trim entries that are older, in ms; 0: do not */
	SETTING_PAUSED,
	SETTINGS,
};

/* What a queue, which may be NULL, is set to. */
int64_t setting(const struct queue *q, enum setting which);

/* After which wait, in ms, to try a job again that had so many attempts; another one each time. */
int64_t settings_wait(const struct queue *q, uint32_t attempts);

/* Add names and values to a map that is being replied, with this many pairs. */
#define SETTINGS_PAIRS	SETTINGS
void settings_reply(RedisModuleCtx *ctx, const struct queue *q);

/* For the data type. */
void settings_copy(struct queue *to, const struct queue *from);
void settings_digest(RedisModuleDigest *digest, const struct queue *q);
void settings_save(RedisModuleIO *io, const struct queue *q);
bool settings_load(RedisModuleIO *io, struct queue *q);
void settings_rewrite(RedisModuleIO *io, RedisModuleString *stream, const struct queue *q);

/* Create HTW.SET. Return: REDISMODULE_OK or REDISMODULE_ERR. */
int settings_init(RedisModuleCtx *ctx);

#endif
