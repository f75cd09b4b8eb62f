/* SPDX-License-Identifier: MIT */
/*
 * Creating commands, with what ACLs and COMMAND DOCS know of them
 */
#ifndef HTW_REDIS_COMMAND_H
#define HTW_REDIS_COMMAND_H

#include "redismodule.h"

/**
 * struct command - a command to create
 * @name: its name
 * @function: what it does
 * @flags: as for RedisModule_CreateCommand()
 * @categories: of ACLs, where the server lets a module name them
 * @summary: for COMMAND DOCS
 * @arity: the number of words, or minus the least number
 * @key: what it does with the key that is its first argument; zero if it has none
 */
struct command {
	const char *name;
	RedisModuleCmdFunc function;
	const char *flags;
	const char *categories;
	const char *summary;
	int arity;
	uint64_t key;
};

/* While the module is loaded. Return: REDISMODULE_OK or REDISMODULE_ERR. */
int command_create(RedisModuleCtx *ctx, const struct command *c);

#endif
