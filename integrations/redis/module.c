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
#include "lease.h"
#include "list.h"
#include "places.h"
#include "queue.h"
#include "settings.h"

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

/* The clock is open, and the data type and the commands are there. */
static bool is_open;

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

/*
 * Is this server a master? A cluster's replica that has been started has no master yet, until it
 * hears of it; but it knows that it is a replica.
 */
static bool ask_is_master(RedisModuleCtx *ctx)
{
	const char *id = RedisModule_GetMyClusterID();
	char name[REDISMODULE_NODE_ID_LEN + 1] = "";
	int flags;

	if (!(RedisModule_GetContextFlags(ctx) & REDISMODULE_CTX_FLAGS_MASTER))
		return false;
	if (!id)
		return true;
	/* It is not terminated. */
	memcpy(name, id, REDISMODULE_NODE_ID_LEN);
	return RedisModule_GetClusterNodeInfo(ctx, name, NULL, NULL, NULL, &flags) ==
	       REDISMODULE_OK && flags & REDISMODULE_NODE_MASTER;
}

static void update_role(RedisModuleCtx *ctx)
{
	is_master = ask_is_master(ctx);
	update_active(ctx);
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
		if (options.timeouts)
			timeouts_gone(ctx, key);
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
	(void)sub;
	(void)data;
	update_role(ctx);
}

/* A node of a cluster that had no master yet changes its role without that event. */
static void on_cron(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t sub, void *data)
{
	clock_account();
	if (RedisModule_GetMyClusterID())
		on_role(ctx, event, sub, data);
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

/* A replica may load its master's data beside its own. */
static void on_async_load(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t sub, void *data)
{
	(void)event;
	(void)data;
	if (sub == REDISMODULE_SUBEVENT_REPL_ASYNC_LOAD_STARTED)
		timeouts_arrive();
	else
		timeouts_arrived(ctx, sub == REDISMODULE_SUBEVENT_REPL_ASYNC_LOAD_COMPLETED);
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

/* A field of HTW.INFO and of the server's INFO: a text, or a number. */
struct field {
	const char *name;
	const char *text;
	long long number;
};

#define FIELDS_MAX	24

/* Return: "on", or why nothing is delivered at present. */
static const char *deliveries(const struct timeouts_status *timeouts)
{
	if (is_loading)
		return "loading";
	if (!is_master)
		return "replica";
	if (RedisModule_AvoidReplicaTraffic())
		return "paused";
	return timeouts->refused ? timeouts->refused : "on";
}

/* Return: how many fields there are. */
static int get_fields(struct field *fields)
{
	struct timeouts_status timeouts;
	struct clock_status clock;
	struct keys_status keys;
	struct field *f = fields;

	timeouts_status(&timeouts);
	clock_status(&clock);
	keys_status(&keys);
	*f++ = (struct field){ "version", htw_version(), 0 };
	*f++ = (struct field){ "backend", clock.backend, 0 };
	*f++ = (struct field){ "timers", NULL, clock.timers };
	*f++ = (struct field){ "ending", NULL, timeouts.ending };
	*f++ = (struct field){ "limit", NULL, clock.limit };
	*f++ = (struct field){ "memory", NULL, clock.bytes };
	*f++ = (struct field){ "streams", NULL, timeouts.streams };
	*f++ = (struct field){ "pending", NULL, timeouts.pending };
	*f++ = (struct field){ "armed", NULL, timeouts.armed };
	*f++ = (struct field){ "waiting", NULL, timeouts.waiting };
	*f++ = (struct field){ "parked", NULL, timeouts.parked };
	*f++ = (struct field){ "deliveries", deliveries(&timeouts), 0 };
	*f++ = (struct field){ "delivered", NULL, timeouts.delivered };
	*f++ = (struct field){ "failed", NULL, timeouts.failed };
	*f++ = (struct field){ "failing", NULL, timeouts.failing };
	*f++ = (struct field){ "max-late", NULL, timeouts.max_late };
	*f++ = (struct field){ "expire", !keys.on ? "off" : keys.scanning ? "scanning" : "on", 0 };
	*f++ = (struct field){ "keys", NULL, keys.tracked };
	*f++ = (struct field){ "expired", NULL, keys.expired };
	*f++ = (struct field){ "untracked", NULL, keys.untracked };
	return f - fields;
}

/* HTW.INFO [stream [id]] */
static int command_info(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
	struct field fields[FIELDS_MAX];
	int count, n;

	if (argc > 3)
		return RedisModule_WrongArity(ctx);
	RedisModule_AutoMemory(ctx);
	if (argc > 1 && !options.timeouts)
		return RedisModule_ReplyWithError(ctx, "ERR htw was loaded with EXPIRE only");
	if (argc > 1)
		return commands_reply_info(ctx, argv, argc);
	count = get_fields(fields);
	RedisModule_ReplyWithMap(ctx, count);
	for (n = 0; n < count; n++) {
		RedisModule_ReplyWithCString(ctx, fields[n].name);
		if (fields[n].text)
			RedisModule_ReplyWithCString(ctx, fields[n].text);
		else
			RedisModule_ReplyWithLongLong(ctx, fields[n].number);
	}
	return REDISMODULE_OK;
}

/* The server's INFO, as exporters read it. */
static void on_info(RedisModuleInfoCtx *ctx, int for_crash_report)
{
	struct field fields[FIELDS_MAX];
	char name[32];
	int count, n;
	char *c;

	/* A lock may be held. */
	if (for_crash_report || RedisModule_InfoAddSection(ctx, NULL) != REDISMODULE_OK)
		return;
	count = get_fields(fields);
	for (n = 0; n < count; n++) {
		strcpy(name, fields[n].name);
		for (c = name; *c; c++)
			if (*c == '-')
				*c = '_';
		if (fields[n].text)
			RedisModule_InfoAddFieldCString(ctx, name, fields[n].text);
		else
			RedisModule_InfoAddFieldLongLong(ctx, name, fields[n].number);
	}
}

/* Configuration. */

static void set_expire(bool on)
{
	options.expire = on;
	if (is_open)
		keys_set_on(on);
}

static int config_get_expire(const char *name, void *data)
{
	(void)name;
	(void)data;
	return options.expire;
}

static int config_set_expire(const char *name, int value, void *data, RedisModuleString **error)
{
	(void)name;
	(void)data;
	(void)error;
	set_expire(value);
	return REDISMODULE_OK;
}

static int config_get_backend(const char *name, void *data)
{
	(void)name;
	(void)data;
	return options.backend;
}

static int config_set_backend(const char *name, int value, void *data, RedisModuleString **error)
{
	(void)name;
	(void)data;
	(void)error;
	options.backend = value;
	return REDISMODULE_OK;
}

static long long config_get_limit(const char *name, void *data)
{
	(void)name;
	(void)data;
	return options.limit;
}

static int config_set_limit(const char *name, long long value, void *data,
			    RedisModuleString **error)
{
	(void)name;
	(void)data;
	(void)error;
	options.limit = value;
	return REDISMODULE_OK;
}

/* HTW.EXPIRE on|off */
static int command_expire(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
	const char *s;

	if (argc != 2)
		return RedisModule_WrongArity(ctx);
	s = RedisModule_StringPtrLen(argv[1], NULL);
	if (strcasecmp(s, "on") && strcasecmp(s, "off"))
		return RedisModule_ReplyWithError(ctx, "ERR argument must be 'on' or 'off'");
	set_expire(!strcasecmp(s, "on"));
	return RedisModule_ReplyWithSimpleString(ctx, "OK");
}

/* What the configuration file has, which the module's arguments overrule. */
static int load_configuration(RedisModuleCtx *ctx)
{
	static const char * const backends[] = { "process", "device", "any" };
	static const int values[] = {
		HTW_BACKEND_PROCESS, HTW_BACKEND_DEVICE, HTW_BACKEND_ANY
	};

	if (RedisModule_RegisterBoolConfig(ctx, "expire", 0, REDISMODULE_CONFIG_DEFAULT,
					   config_get_expire, config_set_expire, NULL, NULL) !=
	    REDISMODULE_OK)
		return REDISMODULE_ERR;
	if (RedisModule_RegisterEnumConfig(ctx, "backend", HTW_BACKEND_PROCESS,
					   REDISMODULE_CONFIG_IMMUTABLE, (const char **)backends,
					   values, 3, config_get_backend, config_set_backend, NULL,
					   NULL) != REDISMODULE_OK)
		return REDISMODULE_ERR;
	if (RedisModule_RegisterNumericConfig(ctx, "limit", 0, REDISMODULE_CONFIG_IMMUTABLE, 0,
					      UINT32_MAX, config_get_limit, config_set_limit, NULL,
					      NULL) != REDISMODULE_OK)
		return REDISMODULE_ERR;
	return RedisModule_LoadConfigs(ctx);
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
		{ RedisModuleEvent_CronLoop, on_cron },
		{ RedisModuleEvent_Loading, on_loading },
		{ RedisModuleEvent_FlushDB, on_flush },
		{ RedisModuleEvent_SwapDB, on_swap },
		{ RedisModuleEvent_ReplAsyncLoad, on_async_load },
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
	static RedisModuleCommandArg values[] = {
		{ .name = "on", .type = REDISMODULE_ARG_TYPE_PURE_TOKEN, .key_spec_index = -1,
		  .token = "ON" },
		{ .name = "off", .type = REDISMODULE_ARG_TYPE_PURE_TOKEN, .key_spec_index = -1,
		  .token = "OFF" },
		{ 0 },
	};
	static RedisModuleCommandArg expire_args[] = {
		{ .name = "value", .type = REDISMODULE_ARG_TYPE_ONEOF, .key_spec_index = -1,
		  .subargs = values },
		{ 0 },
	};
	static RedisModuleCommandArg id_args[] = {
		ARG_STREAM,
		{ .name = "id", .type = REDISMODULE_ARG_TYPE_STRING, .key_spec_index = -1,
		  .flags = REDISMODULE_CMD_ARG_OPTIONAL },
		{ 0 },
	};
	static RedisModuleCommandArg info_args[] = {
		{ .name = "which", .type = REDISMODULE_ARG_TYPE_BLOCK, .key_spec_index = -1,
		  .flags = REDISMODULE_CMD_ARG_OPTIONAL, .subargs = id_args },
		{ 0 },
	};
	static const struct command expire = {
		"htw.expire", command_expire, "admin deny-script fast", "admin dangerous fast",
		"Delete keys when their TTL ends, or leave them to the server.", 2, 0,
		expire_args
	};
	static const struct command info = {
		"htw.info", command_info, "readonly fast no-mandatory-keys", "read fast",
		"Show the module, a stream's timeouts, or one of them.", -1,
		REDISMODULE_CMD_KEY_RO | REDISMODULE_CMD_KEY_ACCESS, info_args
	};

	return command_create(ctx, &expire) == REDISMODULE_OK &&
	       command_create(ctx, &info) == REDISMODULE_OK;
}

static int init(RedisModuleCtx *ctx)
{
	if (options.timeouts &&
	    (type_init(ctx) != REDISMODULE_OK || commands_init(ctx) != REDISMODULE_OK ||
	     take_init(ctx) != REDISMODULE_OK || settings_init(ctx) != REDISMODULE_OK ||
	     list_init(ctx) != REDISMODULE_OK))
		return REDISMODULE_ERR;
	clock_handle_limit(place_make_room);
	deliver_init();
	keys_init();
	if (!create_commands(ctx) || !subscribe(ctx) ||
	    RedisModule_RegisterInfoFunc(ctx, on_info) != REDISMODULE_OK)
		return REDISMODULE_ERR;
	is_loading = RedisModule_GetContextFlags(ctx) & REDISMODULE_CTX_FLAGS_LOADING;
	is_open = true;
	set_expire(options.expire);
	update_role(ctx);
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
	if (load_configuration(ctx) != REDISMODULE_OK || !parse(ctx, &options, argv, argc))
		return REDISMODULE_ERR;
	/* A key that was opened to write and left alone has not changed for who watches it. */
	RedisModule_SetModuleOptions(ctx, REDISMODULE_OPTIONS_HANDLE_IO_ERRORS |
				     REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD |
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
	is_open = false;
	update_active(ctx);
	clock_close();
	return REDISMODULE_OK;
}
