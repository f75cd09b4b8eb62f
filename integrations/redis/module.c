// SPDX-License-Identifier: MIT
/*
 * htw for Redis and Valkey: exact timeouts and TTLs
 *
 * This file loads and unloads the module, and passes on what the server notifies of. See
 * README.md for what the module does and which file is what.
 */
#include <string.h>
#include <strings.h>

#include "clock.h"
#include "command.h"
#include "keys.h"
#include "queue.h"

#define EXPORT	__attribute__((visibility("default")))

#define USAGE	"the arguments are: BACKEND process|device|any, EXPIRE off|on|only, LIMIT timers"

struct options {
	enum htw_backend backend;
	long long limit;
	bool expire;
	bool timeouts;
};

/* Is the server a master, and are its data loaded? */
static bool is_master, is_loading;
static struct options options;

static void update_active(RedisModuleCtx *ctx)
{
	static bool was_active;
	const bool active = is_master && !is_loading;

	if (active == was_active)
		return;
	was_active = active;
	timeouts_set_active(ctx, active);
	keys_set_active(active);
}

/* What the server notifies of. */

/* Is it one of these events? The list ends with NULL. */
static bool is_one(const char *event, const char *const *events)
{
	while (*events && strcmp(event, *events))
		events++;
	return *events;
}

static int on_key_event(RedisModuleCtx *ctx, int type, const char *event, RedisModuleString *key)
{
	static const char *const gone[] = {
		"del", "expired", "evicted", "persist", "rename_from", "move_from", NULL
	};
	static const char *const moved[] = { "rename_to", "move_to", "copy_to", "restore", NULL };
	static int moved_from;

	(void)type;
	if (!strcmp(event, "move_from"))
		moved_from = RedisModule_GetSelectedDb(ctx);
	if (!strcmp(event, "expire")) {
		keys_changed(ctx, key);
	} else if (is_one(event, gone)) {
		keys_gone(ctx, key);
	} else if (is_one(event, moved)) {
		if (options.timeouts)
			timeouts_moved(ctx, key);
		keys_changed(ctx, key);
	}
	/*
	 * Valkey 8.1 notifies of this with the client's own context, and leaves the client, be it a
	 * replica's master, in the other database (valkey-io/valkey#4024).
	 */
	if (!strcmp(event, "move_to"))
		RedisModule_SelectDb(ctx, moved_from);
	return REDISMODULE_OK;
}

static void on_role(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t sub, void *data)
{
	(void)event;
	(void)data;
	is_master = sub == REDISMODULE_EVENT_REPLROLECHANGED_NOW_MASTER;
	update_active(ctx);
}

static void on_loading(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t sub, void *data)
{
	(void)event;
	(void)data;
	is_loading = sub != REDISMODULE_SUBEVENT_LOADING_ENDED &&
		     sub != REDISMODULE_SUBEVENT_LOADING_FAILED;
	update_active(ctx);
}

static void on_flush(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t sub, void *data)
{
	const RedisModuleFlushInfo *info = data;

	(void)ctx;
	(void)event;
	if (sub != REDISMODULE_SUBEVENT_FLUSHDB_START)
		return;
	timeouts_flush(info->dbnum);
	keys_flush(info->dbnum);
}

static void on_swap(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t sub, void *data)
{
	const RedisModuleSwapDbInfo *info = data;

	(void)ctx;
	(void)event;
	(void)sub;
	timeouts_swap(info->dbnum_first, info->dbnum_second);
	keys_swap(info->dbnum_first, info->dbnum_second);
}

/* Commands. */

/* HTW.EXPIRE on|off */
static int command_expire(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
	const char *s;

	if (argc != 2)
		return RedisModule_WrongArity(ctx);
	s = RedisModule_StringPtrLen(argv[1], NULL);
	if (strcasecmp(s, "on") && strcasecmp(s, "off"))
		return RedisModule_ReplyWithError(ctx, "ERR argument must be 'on' or 'off'");
	keys_set_on(!strcasecmp(s, "on"));
	return RedisModule_ReplyWithSimpleString(ctx, "OK");
}

static void reply_field(RedisModuleCtx *ctx, const char *name, long long value)
{
	RedisModule_ReplyWithCString(ctx, name);
	RedisModule_ReplyWithLongLong(ctx, value);
}

/* HTW.INFO [stream [id]] */
static int command_info(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
	struct timeouts_status timeouts;
	struct clock_status clock;
	struct keys_status keys;

	if (argc > 3)
		return RedisModule_WrongArity(ctx);
	RedisModule_AutoMemory(ctx);
	if (argc > 1 && !options.timeouts)
		return RedisModule_ReplyWithError(ctx, "ERR htw was loaded with EXPIRE only");
	if (argc > 1)
		return commands_reply_info(ctx, argv, argc);
	timeouts_status(&timeouts);
	clock_status(&clock);
	keys_status(&keys);
	RedisModule_ReplyWithMap(ctx, 15);
	RedisModule_ReplyWithCString(ctx, "version");
	RedisModule_ReplyWithCString(ctx, htw_version());
	RedisModule_ReplyWithCString(ctx, "backend");
	RedisModule_ReplyWithCString(ctx, clock.backend);
	reply_field(ctx, "timers", clock.timers);
	reply_field(ctx, "limit", clock.limit);
	reply_field(ctx, "streams", timeouts.streams);
	reply_field(ctx, "pending", timeouts.pending);
	reply_field(ctx, "armed", timeouts.armed);
	reply_field(ctx, "parked", timeouts.parked);
	reply_field(ctx, "delivered", timeouts.delivered);
	reply_field(ctx, "failed", timeouts.failed);
	reply_field(ctx, "max-late", timeouts.max_late);
	RedisModule_ReplyWithCString(ctx, "expire");
	RedisModule_ReplyWithCString(ctx, !keys.on ? "off" : keys.scanning ? "scanning" : "on");
	reply_field(ctx, "keys", keys.tracked);
	reply_field(ctx, "expired", keys.expired);
	reply_field(ctx, "untracked", keys.untracked);
	return REDISMODULE_OK;
}

/* Loading. */

static bool parse_backend(struct options *o, const char *value)
{
	static const struct {
		const char *name;
		enum htw_backend backend;
	} backends[] = {
		{ "process", HTW_BACKEND_PROCESS },
		{ "device", HTW_BACKEND_DEVICE },
		{ "any", HTW_BACKEND_ANY },
		{ NULL, 0 },
	}, *b;

	for (b = backends; b->name && strcasecmp(value, b->name); b++)
		;
	o->backend = b->backend;
	return b->name;
}

static bool parse_expire(struct options *o, const char *value)
{
	o->expire = strcasecmp(value, "off");
	o->timeouts = strcasecmp(value, "only");
	return !o->timeouts || !o->expire || !strcasecmp(value, "on");
}

/* Parse the module's arguments: pairs of a name and a value. */
static bool parse(RedisModuleCtx *ctx, struct options *o, RedisModuleString **argv, int argc)
{
	int i;

	for (i = 0; i < argc; i += 2) {
		const char *name = RedisModule_StringPtrLen(argv[i], NULL);
		const char *value = i + 1 < argc ? RedisModule_StringPtrLen(argv[i + 1], NULL) : "";
		bool ok = false;

		if (!strcasecmp(name, "backend"))
			ok = parse_backend(o, value);
		else if (!strcasecmp(name, "expire"))
			ok = parse_expire(o, value);
		else if (!strcasecmp(name, "limit"))
			ok = i + 1 < argc && RedisModule_StringToLongLong(argv[i + 1], &o->limit) ==
			     REDISMODULE_OK && o->limit > 0;
		if (ok)
			continue;
		RedisModule_Log(ctx, "warning", "bad argument: %s %s; " USAGE, name, value);
		return false;
	}
	return true;
}

static bool subscribe(RedisModuleCtx *ctx)
{
	const struct {
		RedisModuleEvent event;
		RedisModuleEventCallback callback;
	} events[] = {
		{ RedisModuleEvent_ReplicationRoleChanged, on_role },
		{ RedisModuleEvent_Loading, on_loading },
		{ RedisModuleEvent_FlushDB, on_flush },
		{ RedisModuleEvent_SwapDB, on_swap },
		{ .callback = NULL },
	}, *e;

	for (e = events; e->callback; e++)
		if (RedisModule_SubscribeToServerEvent(ctx, e->event, e->callback) !=
		    REDISMODULE_OK)
			return false;
	return RedisModule_SubscribeToKeyspaceEvents(ctx, REDISMODULE_NOTIFY_GENERIC |
						     REDISMODULE_NOTIFY_EXPIRED |
						     REDISMODULE_NOTIFY_EVICTED,
						     on_key_event) == REDISMODULE_OK;
}

static bool create_commands(RedisModuleCtx *ctx)
{
	static const struct command expire = {
		"htw.expire", command_expire, "admin deny-script fast", "admin dangerous fast",
		"Delete keys when their TTL ends, or leave them to the server.", 2, 0
	};
	static const struct command info = {
		"htw.info", command_info, "readonly fast no-mandatory-keys", "read fast",
		"Show the module, a stream's timeouts, or one of them.", -1,
		REDISMODULE_CMD_KEY_RO | REDISMODULE_CMD_KEY_ACCESS
	};

	return command_create(ctx, &expire) == REDISMODULE_OK &&
	       command_create(ctx, &info) == REDISMODULE_OK;
}

static int init(RedisModuleCtx *ctx)
{
	const int flags = RedisModule_GetContextFlags(ctx);

	if (options.timeouts &&
	    (type_init(ctx) != REDISMODULE_OK || commands_init(ctx) != REDISMODULE_OK))
		return REDISMODULE_ERR;
	deliver_init();
	keys_init();
	if (!create_commands(ctx) || !subscribe(ctx))
		return REDISMODULE_ERR;
	is_master = flags & REDISMODULE_CTX_FLAGS_MASTER;
	is_loading = flags & REDISMODULE_CTX_FLAGS_LOADING;
	keys_set_on(options.expire);
	update_active(ctx);
	return REDISMODULE_OK;
}

EXPORT int RedisModule_OnLoad(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
EXPORT int RedisModule_OnUnload(RedisModuleCtx *ctx);

int RedisModule_OnLoad(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
	int ret;

	if (RedisModule_Init(ctx, "htw", 1, REDISMODULE_APIVER_1) != REDISMODULE_OK)
		return REDISMODULE_ERR;
	if (!RedisModule_EventLoopAdd) {
		RedisModule_Log(ctx, "warning", "htw needs Redis 7.0 or newer, or Valkey");
		return REDISMODULE_ERR;
	}
	options = (struct options){ .backend = HTW_BACKEND_PROCESS, .timeouts = true };
	if (!parse(ctx, &options, argv, argc))
		return REDISMODULE_ERR;
	/* A key that was opened to write and left alone has not changed for who watches it. */
	RedisModule_SetModuleOptions(ctx, REDISMODULE_OPTIONS_HANDLE_IO_ERRORS |
				     REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED);
	ret = clock_open(ctx, options.backend, options.limit);
	if (ret) {
		RedisModule_Log(ctx, "warning", "cannot open the clock: %s", strerror(-ret));
		return REDISMODULE_ERR;
	}
	if (init(ctx) != REDISMODULE_OK) {
		RedisModule_Log(ctx, "warning", "cannot register the data type or the commands");
		clock_close();
		return REDISMODULE_ERR;
	}
	return REDISMODULE_OK;
}

/*
 * Called only if the module has no data type (EXPIRE only): the server refuses to unload one that
 * has, as it could not free its values any more.
 */
int RedisModule_OnUnload(RedisModuleCtx *ctx)
{
	is_master = false;
	update_active(ctx);
	clock_close();
	return REDISMODULE_OK;
}
