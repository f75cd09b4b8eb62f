// SPDX-License-Identifier: MIT
/*
 * The module's clock: libhtw on the wall clock, driven by the server's event loop
 *
 * The server calls readable() when a timer has expired. That callback has no context of a kind
 * in which several commands can be replicated as one transaction, but the callback of a module
 * timer has: so a module timer of no length runs the rest, in the same turn of the event loop.
 *
 * While a failover pauses the server, nothing may be written, as a replica would not get it.
 * Then the descriptor, which stays readable, is not watched until a module timer finds that the
 * pause is over.
 */
#include "clock.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Clients wait while timers are handled: bounds of one turn. */
#define TURN_TIMERS	1000
#define TURN_US		5000

#define PAUSE_MS	10

#define LIMIT_PROCESS	(1u << 26)

#define KIND_MASK	3u

static struct htw *clock_htw;
static RedisModuleCtx *clock_ctx;
static clock_due_fn *handlers[KIND_MASK + 1];
static bool (*make_room)(void);
static RedisModuleTimerID turn_timer;
static bool turn_is_due;

static void readable(int fd, void *data, int mask);

static void watch(void)
{
	if (RedisModule_EventLoopAdd(htw_fd(clock_htw), REDISMODULE_EVENTLOOP_READABLE, readable,
				     NULL) != REDISMODULE_OK)
		RedisModule_Log(clock_ctx, "warning", "cannot watch the clock: %s",
				strerror(errno));
}

static void unwatch(void)
{
	RedisModule_EventLoopDel(htw_fd(clock_htw), REDISMODULE_EVENTLOOP_READABLE);
}

static void resume(RedisModuleCtx *ctx, void *data)
{
	(void)ctx;
	(void)data;
	turn_is_due = false;
	watch();
}

/*
 * Read one event at a time: handling one may stop the timers of others, whose events, if they had
 * been read already, would refer to freed memory.
 */
static void turn(RedisModuleCtx *ctx, void *data)
{
	const uint64_t end = RedisModule_MonotonicMicroseconds() + TURN_US;
	struct htw_event event;
	unsigned int n;

	(void)data;
	turn_is_due = false;
	if (RedisModule_AvoidReplicaTraffic()) {
		unwatch();
		turn_is_due = true;
		turn_timer = clock_call(PAUSE_MS, resume);
		return;
	}
	for (n = 0; n < TURN_TIMERS && htw_read(clock_htw, &event, 1) > 0; n++) {
		const uint64_t what = event.cookie & ~(uint64_t)KIND_MASK;

		handlers[event.cookie & KIND_MASK](ctx, (void *)(uintptr_t)what);
		if (RedisModule_MonotonicMicroseconds() > end)
			break;
	}
}

static void readable(int fd, void *data, int mask)
{
	(void)fd;
	(void)data;
	(void)mask;
	if (turn_is_due)
		return;
	turn_is_due = true;
	turn_timer = clock_call(0, turn);
}

/*
 * The server's account. The process's timers are in memory that libhtw has from the system; the
 * server would not see it in used_memory and maxmemory. So as much is allocated from the server
 * and never touched: it counts, and takes no memory but addresses.
 */
#define BLOCK_BYTES	(1u << 20)

static void **blocks;
static size_t nr_blocks;

static void *block_new(void)
{
	const uintptr_t page = sysconf(_SC_PAGESIZE);
	char *block = RedisModule_Alloc(BLOCK_BYTES);
	const uintptr_t begin = ((uintptr_t)block + page - 1) & -page;
	const uintptr_t end = ((uintptr_t)block + BLOCK_BYTES) & -page;

	/* The allocator may have had something there before. */
	madvise((void *)begin, end - begin, MADV_DONTNEED);
	return block;
}

static void set_blocks(size_t count)
{
	if (nr_blocks == count)
		return;
	while (nr_blocks > count)
		RedisModule_Free(blocks[--nr_blocks]);
	blocks = RedisModule_Realloc(blocks, (count + 1) * sizeof(*blocks));
	while (nr_blocks < count)
		blocks[nr_blocks++] = block_new();
}

static int open_backend(enum htw_backend backend, uint64_t limit)
{
	struct htw_setup_args setup = {
		.flags = HTW_SETUP_CLOCK | HTW_SETUP_ORDERED,
		.clock = CLOCK_REALTIME,
		.limit = limit,
	};

	if (!limit && backend == HTW_BACKEND_PROCESS)
		setup.limit = LIMIT_PROCESS;
	return htw_open(&clock_htw, backend, &setup);
}

int clock_open(RedisModuleCtx *ctx, enum htw_backend backend, uint64_t limit)
{
	int ret;

	ret = open_backend(backend == HTW_BACKEND_ANY ? HTW_BACKEND_DEVICE : backend, limit);
	if (backend == HTW_BACKEND_ANY &&
	    (ret == -ENOENT || ret == -ENODEV || ret == -ENXIO || ret == -EACCES || ret == -EPERM ||
	     ret == -ENOSYS))
		ret = open_backend(HTW_BACKEND_PROCESS, limit);
	if (ret)
		return ret;
	clock_ctx = RedisModule_GetDetachedThreadSafeContext(ctx);
	watch();
	return 0;
}

void clock_close(void)
{
	if (!clock_htw)
		return;
	if (turn_is_due)
		clock_call_off(turn_timer);
	turn_is_due = false;
	unwatch();
	set_blocks(0);
	RedisModule_Free(blocks);
	blocks = NULL;
	htw_close(clock_htw);
	clock_htw = NULL;
	RedisModule_FreeThreadSafeContext(clock_ctx);
	clock_ctx = NULL;
}

void clock_handle_limit(bool (*make)(void))
{
	make_room = make;
}

void clock_handle(enum clock_kind kind, clock_due_fn *due)
{
	handlers[kind] = due;
}

static uint64_t ns(int64_t ms)
{
	return ms < 0 ? 0 : (uint64_t)ms * 1000000;
}

int clock_start(enum clock_kind kind, void *what, int64_t due, uint64_t *timer)
{
	const uint64_t cookie = (uintptr_t)what | kind;
	int ret;

	do
		ret = htw_at(clock_htw, ns(due), cookie, timer);
	while ((ret == -ENOSPC || ret == -EDQUOT) && make_room && make_room());
	return ret;
}

void clock_move(uint64_t timer, int64_t due)
{
	struct htw_mod_args mod = {
		.id = timer,
		.deadline = ns(due),
		.flags = HTW_F_ABS | HTW_MOD_DEADLINE,
	};

	/* It has not been read, and so it exists. */
	RedisModule_Assert(!htw_mod(clock_htw, &mod));
}

void clock_stop(uint64_t *timer)
{
	if (!*timer)
		return;
	RedisModule_Assert(!htw_stop(clock_htw, *timer));
	*timer = 0;
}

void clock_stop_many(uint64_t *timers[], unsigned int count)
{
	uint64_t ids[CLOCK_MANY];
	unsigned int n;

	RedisModule_Assert(count <= CLOCK_MANY);
	for (n = 0; n < count; n++) {
		ids[n] = *timers[n];
		*timers[n] = 0;
	}
	RedisModule_Assert(!htw_stop_many(clock_htw, ids, count, NULL));
}

RedisModuleTimerID clock_call(int64_t ms, RedisModuleTimerProc call)
{
	return RedisModule_CreateTimer(clock_ctx, ms, call, NULL);
}

void clock_call_off(RedisModuleTimerID id)
{
	RedisModule_Assert(RedisModule_StopTimer(clock_ctx, id, NULL) == REDISMODULE_OK);
}

void clock_account(void)
{
	struct htw_info_args info = { 0 };

	if (htw_backend(clock_htw) != HTW_BACKEND_PROCESS)
		return;
	htw_info(clock_htw, &info);
	set_blocks(info.bytes / BLOCK_BYTES);
}

void clock_status(struct clock_status *status)
{
	struct htw_info_args info = { 0 };

	htw_info(clock_htw, &info);
	status->backend = htw_backend(clock_htw) == HTW_BACKEND_DEVICE ? "device" : "process";
	status->timers = info.timers;
	status->limit = info.limit;
	status->bytes = info.bytes;
}
