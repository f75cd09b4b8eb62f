// SPDX-License-Identifier: MIT
/*
 * Keys with a TTL: delete each when it is due
 *
 * The server deletes a key whose TTL has passed when someone asks for it, or when its sampling
 * finds it. Here each such key has a timer, and when it is due the key is asked for: the server
 * then deletes it, notifies, and replicates the deletion, as ever.
 *
 * Keyspace notifications tell of TTLs that are set and of keys that go. SET without a TTL takes
 * an earlier one away and notifies of nothing that we subscribe to, as that would slow down every
 * SET: such a key is found without TTL when the timer is due. Keys that had a TTL before, from
 * loading or from before HTW.EXPIRE, are looked for by a scan in slices.
 *
 * A replica tracks nothing: it gets the deletions from its master.
 */
#include "keys.h"

#include <string.h>

#include "clock.h"

/* One slice of the scan, and the time until the next. */
#define SLICE_US	2000
#define SLICE_MS	2

/* The server keeps a key whose TTL has passed: look again after this time. */
#define AGAIN_MS	100

/* Since Redis 7.2; earlier servers ignore it. */
#define OPEN_KEY_NOEXPIRE	(1 << 19)

/*
 * Open a key without a trace: NOTOUCH leaves its access time alone, and WRITE keeps the server from
 * counting a keyspace hit or miss and from sending the "keymiss" notification, as it does both only
 * for reads.
 */
#define OPEN_QUIETLY	(REDISMODULE_READ | REDISMODULE_WRITE | REDISMODULE_OPEN_KEY_NOTOUCH)

/* In place of a time: there is no key, or its TTL has passed. */
#define EXPIRED		(-2)

/**
 * struct ttl - a key with a TTL
 * @timer: of the clock
 * @expires: the TTL's end, in ms since 1970
 * @db: its database
 * @len: length of its name
 * @name: its name
 */
struct ttl {
	uint64_t timer;
	int64_t expires;
	int32_t db;
	uint32_t len;
	char name[];
};

static bool on, active;

/* Does the server know OPEN_KEY_NOEXPIRE? */
static bool has_noexpire;

/* The tracked keys of each database, by name; NULL if there were none yet. */
static RedisModuleDict **dbs;
static int nr_dbs;

static RedisModuleScanCursor *cursor;	/* NULL if no scan is going on */
static int scan_db;
static RedisModuleTimerID scan_timer;
static bool scan_waits;		/* for scan_timer */

static uint64_t nr_tracked, nr_expired, nr_untracked;

/* When to look at a key: the server counts the last millisecond of a TTL as valid. */
static int64_t after(int64_t expires)
{
	return expires < CLOCK_MAX_MS ? expires + 1 : CLOCK_MAX_MS;
}

static struct ttl *find(int db, const char *name, size_t len)
{
	if (db >= nr_dbs || !dbs[db])
		return NULL;
	return RedisModule_DictGetC(dbs[db], (void *)name, len, NULL);
}

static void forget(struct ttl *ttl)
{
	clock_stop(&ttl->timer);
	RedisModule_DictDelC(dbs[ttl->db], ttl->name, ttl->len, NULL);
	RedisModule_Free(ttl);
	nr_tracked--;
}

static RedisModuleDict *dict_of(int db)
{
	if (db >= nr_dbs) {
		dbs = RedisModule_Realloc(dbs, (db + 1) * sizeof(*dbs));
		memset(dbs + nr_dbs, 0, (db + 1 - nr_dbs) * sizeof(*dbs));
		nr_dbs = db + 1;
	}
	if (!dbs[db])
		dbs[db] = RedisModule_CreateDict(NULL);
	return dbs[db];
}

static void track(int db, const char *name, size_t len, int64_t expires, int64_t look)
{
	struct ttl *ttl = find(db, name, len);

	if (ttl) {
		if (ttl->expires != expires)
			clock_move(ttl->timer, look);
		ttl->expires = expires;
		return;
	}
	ttl = RedisModule_Alloc(sizeof(*ttl) + len);
	ttl->expires = expires;
	ttl->db = db;
	ttl->len = len;
	memcpy(ttl->name, name, len);
	if (clock_start(CLOCK_KEY, ttl, look, &ttl->timer)) {
		RedisModule_Free(ttl);
		nr_untracked++;
		return;
	}
	RedisModule_DictSetC(dict_of(db), ttl->name, len, ttl);
	nr_tracked++;
}

static void track_key(RedisModuleCtx *ctx, RedisModuleString *name, int64_t expires, int64_t look)
{
	size_t len;
	const char *s = RedisModule_StringPtrLen(name, &len);

	track(RedisModule_GetSelectedDb(ctx), s, len, expires, look);
}

/* Return: when a key expires; REDISMODULE_NO_EXPIRE or EXPIRED. */
static mstime_t expires_at(RedisModuleCtx *ctx, RedisModuleString *name, int mode)
{
	RedisModuleKey *key = RedisModule_OpenKey(ctx, name, OPEN_QUIETLY | mode);
	mstime_t expires = EXPIRED;

	if (RedisModule_KeyType(key) != REDISMODULE_KEYTYPE_EMPTY)
		expires = RedisModule_GetAbsExpire(key);
	RedisModule_CloseKey(key);
	return expires;
}

/*
 * This is called within the command that has changed the key. If the TTL is in the past, the key
 * must not be deleted before the command is replicated, so it is looked at again afterwards.
 */
void keys_changed(RedisModuleCtx *ctx, RedisModuleString *name)
{
	mstime_t expires;

	if (!on || !active)
		return;
	expires = expires_at(ctx, name, OPEN_KEY_NOEXPIRE);
	if (expires == REDISMODULE_NO_EXPIRE)
		keys_gone(ctx, name);
	else
		track_key(ctx, name, expires, expires == EXPIRED ? 0 : after(expires));
}

void keys_gone(RedisModuleCtx *ctx, RedisModuleString *name)
{
	struct ttl *ttl;
	const char *s;
	size_t len;

	if (!nr_tracked)
		return;
	s = RedisModule_StringPtrLen(name, &len);
	ttl = find(RedisModule_GetSelectedDb(ctx), s, len);
	if (ttl)
		forget(ttl);
}

/* A TTL has passed: let the server see that, unless it was changed unnoticed. */
static void due(RedisModuleCtx *ctx, void *what)
{
	struct ttl *ttl = what;
	RedisModuleString *name = RedisModule_CreateString(NULL, ttl->name, ttl->len);
	const int64_t now = RedisModule_Milliseconds();
	const bool was_expired = ttl->expires == EXPIRED;
	mstime_t expires;

	ttl->timer = 0;
	RedisModule_SelectDb(ctx, ttl->db);
	forget(ttl);
	/* Deletes it; keys_gone(), which is called then, finds nothing any more. */
	expires = expires_at(ctx, name, 0);
	if (expires == EXPIRED) {
		nr_expired++;
		/* It was deleted by keys_changed(), and that was replicated too early. */
		if (was_expired && !has_noexpire)
			RedisModule_Replicate(ctx, "UNLINK", "s", name);
	} else if (expires != REDISMODULE_NO_EXPIRE) {
		track_key(ctx, name, expires, expires < now ? now + AGAIN_MS : after(expires));
	}
	RedisModule_FreeString(NULL, name);
}

/* The scan: not by the clock, whose limit may have been reached. */

static void scan_slice(RedisModuleCtx *ctx, void *what);

static void scan_wait(int64_t ms)
{
	scan_timer = clock_call(ms, scan_slice);
	scan_waits = true;
}

static void scan_end(void)
{
	if (!cursor)
		return;
	if (scan_waits)
		clock_call_off(scan_timer);
	scan_waits = false;
	RedisModule_ScanCursorDestroy(cursor);
	cursor = NULL;
}

static void scan_begin(void)
{
	scan_end();
	cursor = RedisModule_ScanCursorCreate();
	scan_db = 0;
	scan_wait(0);
}

static void scan_key(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleKey *key, void *data)
{
	mstime_t expires;

	(void)data;
	/* The server may leave it to us to open the key. */
	if (!key) {
		keys_changed(ctx, name);
		return;
	}
	expires = RedisModule_GetAbsExpire(key);
	if (expires != REDISMODULE_NO_EXPIRE)
		track_key(ctx, name, expires, after(expires));
}

static void scan_slice(RedisModuleCtx *ctx, void *what)
{
	const uint64_t end = RedisModule_MonotonicMicroseconds() + SLICE_US;

	(void)what;
	scan_waits = false;
	/* A failover pauses the server: keys that are opened must not expire. */
	if (RedisModule_AvoidReplicaTraffic()) {
		scan_wait(SLICE_MS);
		return;
	}
	while (RedisModule_SelectDb(ctx, scan_db) == REDISMODULE_OK) {
		while (RedisModule_Scan(ctx, cursor, scan_key, NULL)) {
			if (RedisModule_MonotonicMicroseconds() < end)
				continue;
			scan_wait(SLICE_MS);
			return;
		}
		RedisModule_ScanCursorRestart(cursor);
		scan_db++;
	}
	scan_end();
}

/* The module's side. */

static void update(void)
{
	if (on && active) {
		scan_begin();
		return;
	}
	scan_end();
	keys_flush(-1);
}

void keys_set_on(bool value)
{
	if (on == value)
		return;
	on = value;
	update();
}

void keys_set_active(bool value)
{
	active = value;
	update();
}

void keys_flush(int db)
{
	RedisModuleDictIter *i;
	struct ttl *ttl;
	int n;

	for (n = 0; n < nr_dbs; n++) {
		if ((db != -1 && n != db) || !dbs[n])
			continue;
		i = RedisModule_DictIteratorStartC(dbs[n], "^", NULL, 0);
		while (RedisModule_DictNextC(i, NULL, (void **)&ttl)) {
			clock_stop(&ttl->timer);
			RedisModule_Free(ttl);
			nr_tracked--;
		}
		RedisModule_DictIteratorStop(i);
		RedisModule_FreeDict(NULL, dbs[n]);
		dbs[n] = NULL;
	}
	if (db == -1) {
		RedisModule_Free(dbs);
		dbs = NULL;
		nr_dbs = 0;
	}
}

static void set_db(RedisModuleDict *keys, int db)
{
	RedisModuleDictIter *i;
	struct ttl *ttl;

	dict_of(db);
	RedisModule_FreeDict(NULL, dbs[db]);
	dbs[db] = keys;
	i = RedisModule_DictIteratorStartC(keys, "^", NULL, 0);
	while (RedisModule_DictNextC(i, NULL, (void **)&ttl))
		ttl->db = db;
	RedisModule_DictIteratorStop(i);
}

void keys_swap(int db, int other)
{
	RedisModuleDict *first, *second;

	if (!on || !active || db == other)
		return;
	first = dict_of(db);
	second = dict_of(other);
	dbs[db] = dbs[other] = NULL;
	set_db(second, db);
	set_db(first, other);
	/* The scan may have passed one and not the other. */
	if (cursor)
		scan_begin();
}

void keys_status(struct keys_status *status)
{
	status->on = on;
	status->scanning = cursor;
	status->tracked = nr_tracked;
	status->expired = nr_expired;
	status->untracked = nr_untracked;
}

void keys_init(void)
{
	int (*modes)(void);

	has_noexpire = RedisModule_GetApi("RedisModule_GetOpenKeyModesAll", &modes) ==
		       REDISMODULE_OK && (modes() & OPEN_KEY_NOEXPIRE);
	clock_handle(CLOCK_KEY, due);
}
