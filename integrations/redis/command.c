// SPDX-License-Identifier: MIT
/*
 * Creating commands, with what ACLs and COMMAND DOCS know of them
 */
#include "command.h"

/* Since Redis 7.2. Before, no category has a module's commands, and ACLs have to name them. */
static int set_categories(RedisModuleCommand *command, const char *categories)
{
	int (*set)(RedisModuleCommand *command, const char *categories);

	if (RedisModule_GetApi("RedisModule_SetCommandACLCategories", &set) != REDISMODULE_OK)
		return REDISMODULE_OK;
	return set(command, categories);
}

int command_create(RedisModuleCtx *ctx, const struct command *c)
{
	RedisModuleCommandKeySpec keys[] = {
		{
			.flags = c->key,
			.begin_search_type = REDISMODULE_KSPEC_BS_INDEX,
			.bs.index.pos = 1,
			.find_keys_type = REDISMODULE_KSPEC_FK_RANGE,
			.fk.range = { .lastkey = 0, .keystep = 1, .limit = 0 },
		},
		{ 0 },
	};
	const RedisModuleCommandInfo info = {
		.version = REDISMODULE_COMMAND_INFO_VERSION,
		.summary = c->summary,
		.arity = c->arity,
		.key_specs = c->key ? keys : NULL,
		.args = c->args,
	};
	const int key = c->key ? 1 : 0;
	RedisModuleCommand *command;

	if (RedisModule_CreateCommand(ctx, c->name, c->function, c->flags, key, key, key) !=
	    REDISMODULE_OK)
		return REDISMODULE_ERR;
	command = RedisModule_GetCommand(ctx, c->name);
	if (!command || RedisModule_SetCommandInfo(command, &info) != REDISMODULE_OK)
		return REDISMODULE_ERR;
	return set_categories(command, c->categories);
}
