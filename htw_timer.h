/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A timer of a context: its states, and who may touch it when
 *
 * Timers live in chunks of one 4 KiB block, 63 and a header. A timer's slot
 * number and its generation make its id, so finding it is arithmetic, and an
 * id that has ended finds a timer of another generation. The same list links
 * take a timer from the free list to the wheel, to the queue of expirations
 * and back: nothing is allocated between the add and the read, so neither an
 * expiry nor a re-arm can fail, and no queue can overflow.
 */
#ifndef _HTW_TIMER_H
#define _HTW_TIMER_H

#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/overflow.h>

#include <uapi/linux/htw.h>

#include "htw_engine.h"
#include "htw_wheel.h"

struct htw_context;

/**
 * enum htw_timer_state - values of &htw_node.state of a timer
 * @HTW_FREE: on &htw_context.free, or on its way there
 * @HTW_RESERVED: taken by an add that has not armed it yet, or by a harvest that
 *	has not told it yet; only that one touches it
 * @HTW_PENDING: in the wheel of &htw_node.cpu, guarded by that base's lock
 * @HTW_EXPIRED: on &htw_context.expired, guarded by the context's lock
 * @HTW_REARM: to be armed: on &htw_context.rearm, on its way into a wheel,
 *	guarded by the context's lock
 * @HTW_IDLE: kept and disarmed, guarded by the context's lock
 *
 * A timer leaves a state under the lock that guards it, and becomes
 * %HTW_PENDING under the lock of its new base. Whoever holds the lock of
 * &htw_node.cpu and the context's sees a state that does not change, unless it
 * is %HTW_RESERVED.
 */
enum htw_timer_state {
	HTW_FREE = 0,
	HTW_RESERVED,
	HTW_PENDING,
	HTW_EXPIRED,
	HTW_REARM,
	HTW_IDLE,
};

/**
 * enum htw_timer_flag - bits of &htw_node.flags
 * @HTW_NODE_CALLOUT: not a context's timer, but a callout, see htw_callout.c
 * @HTW_TIMER_KEEP: %HTW_F_KEEP
 * @HTW_TIMER_STOPPED: cancelled after it expired: the expiration that waits is
 *	the last, and &htw_timer.interval holds its missed count
 */
enum htw_timer_flag {
	HTW_NODE_CALLOUT	= BIT(7),
	HTW_TIMER_KEEP		= BIT(0),
	HTW_TIMER_STOPPED	= BIT(1),
};

/**
 * struct htw_timer - a timer of a context: 64 bytes, all of it
 * @node: the wheel's part; its list also serves the context's queues
 * @deadline: when it expires or expired, in ns
 * @cookie: the program's
 * @interval: ns, zero for a one-shot timer
 * @generation: upper half of the id; goes up whenever the timer is freed
 * @firings: how many firings are left, zero for without end
 *
 * Guarded as &enum htw_timer_state tells. The generation changes only when the
 * state becomes %HTW_FREE.
 */
struct htw_timer {
	struct htw_node node;
	u64 deadline;
	u64 cookie;
	u64 interval;
	u32 generation;
	u32 firings;
};

/* Slot 0 of each chunk is its header. */
#define HTW_CHUNK_SLOTS		64u
#define HTW_CHUNK_TIMERS	(HTW_CHUNK_SLOTS - 1)

/**
 * struct htw_chunk - 63 timers
 * @ctx: whose they are; never changes
 * @slot: number of the header's slot, which is never an id; never changes
 * @header: the room of a timer
 * @timers: the timers
 *
 * Aligned to its size, so that a timer leads to it.
 */
struct htw_chunk {
	union {
		struct {
			struct htw_context *ctx;
			u32 slot;
		};
		struct htw_timer header;
	};
	struct htw_timer timers[HTW_CHUNK_TIMERS];
};

static_assert(sizeof(struct htw_timer) == 64);
static_assert(sizeof(struct htw_chunk) == 4096);

static inline struct htw_chunk *htw_chunk_of(const struct htw_timer *t)
{
	return (struct htw_chunk *)((unsigned long)t & ~(sizeof(struct htw_chunk) - 1));
}

/**
 * htw_timer_id() - the id that programs know a timer by
 * @t: the timer, which is not free
 *
 * Return: the id, never zero.
 */
static inline u64 htw_timer_id(const struct htw_timer *t)
{
	const struct htw_chunk *chunk = htw_chunk_of(t);
	const u32 slot = chunk->slot + 1 + (t - chunk->timers);

	return (u64)t->generation << 32 | slot;
}

/*
 * Has an id, so it was armed once: then its CPU means something, and its
 * context has the shape that it keeps. Without a lock this may change at once.
 */
static inline bool htw_timer_is_live(const struct htw_timer *t)
{
	/* Pairs with htw_timer_arm(). */
	const u8 state = smp_load_acquire(&t->node.state);

	return state != HTW_FREE && state != HTW_RESERVED;
}

static inline bool htw_timer_is(const struct htw_timer *t, u64 id)
{
	return t->generation == id >> 32;
}

/*
 * Ends a timer's id. The slot goes on @list, but for one whose generations
 * have run out: that would make old ids valid again.
 */
static inline void htw_timer_free(struct htw_timer *t, struct list_head *list)
{
	WRITE_ONCE(t->node.state, HTW_FREE);
	if (++t->generation)
		list_add(&t->node.list, list);
}

/*
 * Slack in 16 bits, rounded down: 10 bits of it, and how far to shift them. The
 * node has no room for more, and what is lost is less than a five-hundredth.
 */
static inline u16 htw_slack_pack(u64 slack)
{
	const unsigned int shift = max(fls64(slack), 10) - 10;

	return shift << 10 | slack >> shift;
}

static inline u64 htw_slack_unpack(u16 slack)
{
	return (u64)(slack & 1023) << (slack >> 10);
}

/* Pending on this base, whose lock is held: then it stays so. */
static inline bool htw_timer_pending_on(const struct htw_base *base, const struct htw_timer *t)
{
	lockdep_assert_held(&base->lock);

	/* Pairs with htw_timer_arm(). */
	return smp_load_acquire(&t->node.state) == HTW_PENDING &&
	       READ_ONCE(t->node.cpu) == base->cpu;
}

/* Firings that came due since the one that waits to be read. */
static inline u64 htw_timer_missed(const struct htw_timer *t, u64 now)
{
	u64 missed;

	if (t->node.flags & HTW_TIMER_STOPPED)
		return t->interval;
	if (!t->interval)
		return 0;
	/* @now may have been read before the timer fired */
	missed = div64_u64(max(now, t->node.fired) - t->deadline, t->interval);
	return t->firings ? min_t(u64, missed, t->firings - 1) : missed;
}

/* Does a periodic timer go on once the waiting expiration has been read? */
static inline bool htw_timer_goes_on(const struct htw_timer *t, u64 missed)
{
	return t->interval && !(t->node.flags & HTW_TIMER_STOPPED) &&
	       (!t->firings || t->firings > missed + 1);
}

static inline u64 htw_timer_remaining(const struct htw_timer *t, u64 now)
{
	return t->deadline > now ? t->deadline - now : 0;
}

static inline u64 htw_add_saturated(u64 a, u64 b)
{
	u64 sum;

	return check_add_overflow(a, b, &sum) ? U64_MAX : sum;
}

/* What a query or a list says of a timer that exists. */
static inline void htw_timer_tell(const struct htw_timer *t, enum htw_timer_state state,
				  u64 now, struct htw_query *query)
{
	static const u16 states[] = {
		[HTW_PENDING]	= HTW_STATE_PENDING,
		[HTW_EXPIRED]	= HTW_STATE_EXPIRED,
		[HTW_REARM]	= HTW_STATE_PENDING,
		[HTW_IDLE]	= HTW_STATE_DISARMED,
	};
	const bool stopped = t->node.flags & HTW_TIMER_STOPPED;
	const bool armed = states[state] == HTW_STATE_PENDING;

	*query = (struct htw_query) {
		.id = htw_timer_id(t),
		.deadline = t->deadline,
		.remaining = armed ? htw_timer_remaining(t, now) : 0,
		.interval = stopped ? 0 : t->interval,
		.cookie = t->cookie,
		.missed = state == HTW_EXPIRED ? htw_timer_missed(t, now) : 0,
		.firings = t->firings,
		.state = states[state],
		.flags = t->node.flags & HTW_TIMER_KEEP ? HTW_F_KEEP : 0,
	};
}

#endif /* _HTW_TIMER_H */
