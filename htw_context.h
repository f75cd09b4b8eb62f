/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A context: what one open() of /dev/htw holds, and what can be done with it
 *
 * Nothing here touches user memory; that is htw_chardev.c's.
 */
#ifndef _HTW_CONTEXT_H
#define _HTW_CONTEXT_H

#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <uapi/linux/htw.h>

#include "htw_timer.h"

/**
 * struct htw_context - what one open() of /dev/htw holds
 * @lock: guards what is said below; taken with bottom halves off, inside a
 *	base's lock
 * @expired: timers that expired and wait to be read, in firing order (@lock)
 * @rearm: timers to be armed again (@lock)
 * @free: timers that can be reserved (@lock)
 * @nr_expired: how many are on @expired (@lock)
 * @nr_timers: how many are not free (@lock)
 * @limit: the most that @nr_timers may be; never changes
 * @wait: for an expiration
 * @grow: serialises growing; nothing is locked inside but @lock
 * @nr_chunks: how many chunks there are (@grow)
 * @dir: the chunks, in pages of pointers (written under @grow, read without)
 * @free_work: frees all this a grace period after close
 *
 * Chunks are added, and go with the context only, so a timer that was found
 * stays memory of the same kind for as long as the file is held.
 */
struct htw_context {
	spinlock_t lock;
	struct list_head expired;
	struct list_head rearm;
	struct list_head free;
	u32 nr_expired;
	u32 nr_timers;
	u32 limit;
	wait_queue_head_t wait;
	struct mutex grow;
	u32 nr_chunks;
	struct htw_chunk ***dir;
	struct rcu_work free_work;
};

/**
 * struct htw_run - a run of operations, carried out with bottom halves off
 * @base: the base whose lock is held, or NULL
 * @now: the time as of which all of the run is done, in ns
 * @freed: timers that were freed, to be given back at the end
 * @nr_freed: how many
 */
struct htw_run {
	struct htw_base *base;
	u64 now;
	struct list_head freed;
	u32 nr_freed;
};

/**
 * struct htw_delivery - a run of expirations
 * @context: the context whose lock is held, or NULL
 * @now: when the timers fired, in ns
 */
struct htw_delivery {
	struct htw_context *context;
	u64 now;
};

#define HTW_DIR_PAGE		512u
#define HTW_CONTEXT_MAX		(HTW_DIR_PAGE * HTW_DIR_PAGE * HTW_CHUNK_TIMERS)

int htw_context_init(void);
void htw_context_exit(void);

struct htw_context *htw_context_alloc(u32 limit);
void htw_context_close(struct htw_context *ctx);

int htw_context_reserve(struct htw_context *ctx, struct list_head *timers, u32 want);
void htw_context_unreserve(struct htw_context *ctx, struct list_head *timers);
struct htw_timer *htw_context_find(struct htw_context *ctx, u64 id);

void htw_run_begin(struct htw_run *run);
void htw_run_lock(struct htw_run *run, struct htw_base *base);
void htw_run_add(struct htw_run *run, struct htw_timer *t, const struct htw_add *add);
int htw_run_cancel(struct htw_run *run, struct htw_context *ctx, struct htw_cancel *cancel);
void htw_run_end(struct htw_run *run, struct htw_context *ctx);

u32 htw_context_peek(struct htw_context *ctx, struct htw_event *events, u32 count, u64 now);
void htw_context_take(struct htw_context *ctx, u32 count, u64 now);
void htw_context_rearm(struct htw_context *ctx);

void htw_delivery_begin(struct htw_delivery *d, u64 now);
void htw_deliver(struct htw_delivery *d, struct htw_node *n);
void htw_delivery_end(struct htw_delivery *d);

#endif /* _HTW_CONTEXT_H */
