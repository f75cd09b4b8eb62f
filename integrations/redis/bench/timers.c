// SPDX-License-Identifier: MIT
/*
 * For the benchmark only: timeouts of streams by the server's own module timers
 *
 * TIMERS.ADD stream milliseconds payload appends the payload to the stream when it is due, by
 * RM_CreateTimer(). Nothing is saved or replicated but the entry, and nothing can be cancelled:
 * it is the least that such a module has to do.
 */
#include <string.h>

#include "redismodule.h"

struct timeout {
	RedisModuleString *stream;
	RedisModuleString *payload;
	long long due;
};

static void deliver(RedisModuleCtx *ctx, void *data)
{
	struct timeout *t = data;
	RedisModuleCallReply *reply;

	reply = RedisModule_Call(ctx, "XADD", "!sccsclcl", t->stream, "*", "payload", t->payload,
				 "due", t->due, "late", RedisModule_Milliseconds() - t->due);
	if (reply)
		RedisModule_FreeCallReply(reply);
	RedisModule_FreeString(NULL, t->stream);
	RedisModule_FreeString(NULL, t->payload);
	RedisModule_Free(t);
}

static int command_add(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
	struct timeout *t;
	long long ms;

	if (argc != 4)
		return RedisModule_WrongArity(ctx);
	if (RedisModule_StringToLongLong(argv[2], &ms) != REDISMODULE_OK || ms < 0)
		return RedisModule_ReplyWithError(ctx, "ERR invalid time in milliseconds");
	t = RedisModule_Alloc(sizeof(*t));
	t->stream = RedisModule_CreateStringFromString(NULL, argv[1]);
	t->payload = RedisModule_CreateStringFromString(NULL, argv[3]);
	t->due = RedisModule_Milliseconds() + ms;
	RedisModule_CreateTimer(ctx, ms, deliver, t);
	return RedisModule_ReplyWithLongLong(ctx, 1);
}

int RedisModule_OnLoad(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

int RedisModule_OnLoad(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
	(void)argv;
	(void)argc;
	if (RedisModule_Init(ctx, "timers", 1, REDISMODULE_APIVER_1) != REDISMODULE_OK)
		return REDISMODULE_ERR;
	return RedisModule_CreateCommand(ctx, "timers.add", command_add, "write deny-oom fast", 1,
					 1, 1);
}
