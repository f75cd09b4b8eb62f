/* SPDX-License-Identifier: MIT */
/*
 * The module's clock: libhtw on the wall clock, driven by the server's event loop
 *
 * All functions are called by the server's main thread.
 */
#ifndef HTW_REDIS_CLOCK_H
#define HTW_REDIS_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <libhtw.h>

#include "redismodule.h"

/* What a timer is for; at most four, as it is kept in two bits of its cookie. */
enum clock_kind {
	CLOCK_TIMEOUT,		/* a pending timeout of a stream */
	CLOCK_KEY,		/* a key with a TTL */
	CLOCK_LEASE,		/* an entry that a worker has taken */
};

/* Handle a timer that has expired; @what is as in clock_start(). */
typedef void clock_due_fn(RedisModuleCtx *ctx, void *what);

/* The latest time that the clock can hold, in ms since 1970: in the year 2262. */
#define CLOCK_MAX_MS	(INT64_MAX / 1000000)

/* What the server can be told of the clock. */
struct clock_status {
	const char *backend;
	uint64_t timers;
	uint64_t limit;
	uint64_t bytes;		/* memory of the timers */
};

/**
 * clock_open() - open the clock and watch it in the event loop
 * @ctx: the context of the module's load
 * @backend: %HTW_BACKEND_ANY takes the process if there is no device
 * @limit: of timers; zero for 2^26 in the process, and the module's own on the device
 *
 * Return: 0 or a negative errno.
 */
int clock_open(RedisModuleCtx *ctx, enum htw_backend backend, uint64_t limit);

/* Close the clock; no timer expires any more. */
void clock_close(void);

/* Set what handles timers of @kind. */
void clock_handle(enum clock_kind kind, clock_due_fn *due);

/* What ends timers that nobody needs when there is no room for one; false if there are none. */
void clock_handle_limit(bool (*make_room)(void));

/**
 * clock_start() - start a timer
 * @kind: who handles it
 * @what: aligned to four bytes
 * @due: in ms since 1970, up to %CLOCK_MAX_MS; a past time expires at once
 * @timer: out: never zero, except on failure
 *
 * Return: 0; -ENOSPC, -EDQUOT or -ENOMEM at a limit.
 */
int clock_start(enum clock_kind kind, void *what, int64_t due, uint64_t *timer);

/* Give a timer that has been started, and not been handled, a new time. */
void clock_move(uint64_t timer, int64_t due);

/* Stop a timer and zero it; it is not handled any more. Zero is no timer. */
void clock_stop(uint64_t *timer);

/* Stop and zero up to %CLOCK_MANY timers, none of which is zero. */
#define CLOCK_MANY	64
void clock_stop_many(uint64_t *timers[], unsigned int count);

/**
 * clock_call() - have the server call a function, without a timer of the clock's
 * @ms: after this time
 * @call: is called once
 *
 * Return: what clock_call_off() takes. Until the call the server does not unload the module.
 */
RedisModuleTimerID clock_call(int64_t ms, RedisModuleTimerProc call);

/* Take back a call that has not been made. */
void clock_call_off(RedisModuleTimerID id);

/* Have the server count the memory of timers in this process; call it from time to time. */
void clock_account(void);

void clock_status(struct clock_status *status);

#endif
