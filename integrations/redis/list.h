/* SPDX-License-Identifier: MIT */
/*
 * HTW.LIST: what is pending or leased, in pages
 */
#ifndef HTW_REDIS_LIST_H
#define HTW_REDIS_LIST_H

#include "queue.h"

/* Create the command. Return: REDISMODULE_OK or REDISMODULE_ERR. */
int list_init(RedisModuleCtx *ctx);

#endif
