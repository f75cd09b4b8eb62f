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
 * @args: its arguments, for COMMAND DOCS
 */
struct command {
	const char *name;
	RedisModuleCmdFunc function;
	const char *flags;
	const char *categories;
	const char *summary;
	int arity;
	uint64_t key;
	RedisModuleCommandArg *args;
};

/* The argument that is the key. */
#define ARG_STREAM	\
	{ .name = "stream", .type = REDISMODULE_ARG_TYPE_KEY, .key_spec_index = 0 }

/* Another one: its type without its prefix, the word before it or NULL, and flags. */
#define ARG(its_name, its_type, its_token, its_flags)						\
	{ .name = (its_name), .type = REDISMODULE_ARG_TYPE_##its_type, .key_spec_index = -1,	\
	  .token = (its_token), .flags = (its_flags) }
#define ARG_OPTIONAL	REDISMODULE_CMD_ARG_OPTIONAL
#define ARG_MULTIPLE	REDISMODULE_CMD_ARG_MULTIPLE

/* While the module is loaded. Return: REDISMODULE_OK or REDISMODULE_ERR. */
int command_create(RedisModuleCtx *ctx, const struct command *c);

#endif
