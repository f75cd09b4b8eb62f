/* SPDX-License-Identifier: MIT */
/*
 * Keys with a TTL: delete each when it is due
 *
 * All functions are called by the server's main thread.
 */
#ifndef HTW_REDIS_KEYS_H
#define HTW_REDIS_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "redismodule.h"

struct keys_status {
	bool on;
	bool scanning;		/* keys that had a TTL before are being looked for */
	uint64_t tracked;
	uint64_t expired;
	uint64_t untracked;	/* not, as the clock was at its limit */
};

void keys_init(void);

/* HTW.EXPIRE: track keys, or leave them to the server. */
void keys_set_on(bool on);

/* As timeouts_set_active(). */
void keys_set_active(bool active);

/* A key of the selected database may have got a TTL, or another one. */
void keys_changed(RedisModuleCtx *ctx, RedisModuleString *name);

/* A key of the selected database has gone, or its TTL has. */
void keys_gone(RedisModuleCtx *ctx, RedisModuleString *name);

/* As timeouts_flush() and timeouts_swap(). */
void keys_flush(int db);
void keys_swap(int db, int other);

void keys_status(struct keys_status *status);

#endif
