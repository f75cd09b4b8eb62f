/* SPDX-License-Identifier: MIT */
/* What the parts of libhtw share. */
#ifndef LIBHTW_INTERNAL_H
#define LIBHTW_INTERNAL_H

#include "libhtw.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <linux/compiler.h>
#include <linux/container_of.h>
#include <linux/minmax.h>

#include "../htw_arith.h"
#include "fork.h"

#define HTW_PUBLIC		__attribute__((visibility("default")))
#define HTW_NS			1000000000ULL
#define ARRAY_SIZE(a)		(sizeof(a) / sizeof((a)[0]))

/* Timers in each call to the device. */
#define HTW_MANY		256u

/*
 * Timers that a call may look at, to move them or to start them again, beyond
 * those that it returns or is asked to start or to end. Each takes two or three
 * cache misses, so their number bounds the time, and not that of instructions.
 */
#define HTW_LOOKS		4096u

/*
 * Operations of a backend
 *
 * Each is the public function of its name, called with arguments that are not
 * NULL, and but for @close and @now not in a child of fork() (@list:
 * htw_list_in(); @ready: 1 if there is something to read, @readable: poll() says
 * so; @read: decrements @looks, how many timers it may look at; @put_off: called
 * by htw_put_off() after htw_deadline_store() has found no such timer, to look
 * again, or say why).
 * Operations that a backend lacks are NULL; the public function then returns
 * -ENOTSUP.
 */
struct htw_backend_ops {
	enum htw_backend backend;
	void (*close)(struct htw *htw);
	uint64_t (*now)(struct htw *htw);
	int (*info)(struct htw *htw, struct htw_info_args *info);
	int (*reserve)(struct htw *htw, uint64_t count);
	int (*add)(struct htw *htw, struct htw_add_args *add);
	int (*stop)(struct htw *htw, uint64_t id);
	int (*cancel)(struct htw *htw, struct htw_cancel_args *cancel);
	int (*mod)(struct htw *htw, struct htw_mod_args *mod);
	int (*query)(struct htw *htw, struct htw_timer_info *query);
	int (*next_time)(struct htw *htw, uint64_t *when);
	int (*add_many)(struct htw *htw, const struct htw_add_args *common,
			const uint64_t *deadlines, const uint64_t *cookies,
			uint64_t *ids, unsigned int count, int *results);
	int (*rearm_many)(struct htw *htw, const uint64_t *ids,
			  const uint64_t *deadlines, unsigned int count,
			  unsigned int flags, int *results);
	int (*stop_many)(struct htw *htw, const uint64_t *ids,
			 unsigned int count, int *results);
	int (*read)(struct htw *htw, struct htw_event *events,
		    unsigned int count, unsigned int *looks);
	int (*ready)(struct htw *htw, bool readable);
	int64_t (*cancel_all)(struct htw *htw);
	int (*list)(struct htw *htw, unsigned int states, uint64_t *cursor,
		    struct htw_timer_info *entries, unsigned int count);
	int (*harvest)(struct htw *htw, uint64_t *cursor,
		       struct htw_timer_info *entries, unsigned int count);
	int (*advance)(struct htw *htw, uint64_t ns, unsigned int flags);
	int (*shard)(struct htw *htw, struct htw **shard);
	int (*put_off)(struct htw *htw, uint64_t id, uint64_t when);
};

/**
 * struct htw - the part of a handle that is common to all backends, at its
 * start
 * @deadlines: of timers that can be put off; first, for htw_put_off_inline().
 *	See deadlines.h
 * @dispatcher: the one that its timers are for, or NULL; read and written
 *	atomically
 * @ops: the backend
 * @fd: descriptor to poll
 * @process: number of the process that may use it; see fork.h
 */
struct htw {
	struct htw_deadlines *deadlines;
	struct htw_dispatcher *dispatcher;
	const struct htw_backend_ops *ops;
	int fd;
	u32 process;
};

int htw_device_open(void);
int htw_device_set_up(struct htw **htw, int fd, const struct htw_setup_args *setup);
int htw_device_take(struct htw **htw, int fd);
int htw_process_open(struct htw **htw, const struct htw_setup_args *setup);

static inline uint64_t htw_clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * HTW_NS + ts.tv_nsec;
}

/* Where a time_t has 32 bits: that many seconds at most. */
static inline struct timespec htw_timespec(uint64_t ns)
{
	const uint64_t max = sizeof(time_t) == 8 ? INT64_MAX : INT32_MAX, s = ns / HTW_NS;

	return (struct timespec){ .tv_sec = s < max ? s : max, .tv_nsec = ns % HTW_NS };
}

static inline uint64_t htw_sum(uint64_t a, uint64_t b)
{
	return htw_arith_sum(a, b);
}

#endif /* LIBHTW_INTERNAL_H */
