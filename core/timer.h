/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A timer of a context: its states, and which lock guards it
 *
 * A page of 4 KiB holds 63 timers and a header. A timer's id is its slot number
 * and a generation, so a lookup is arithmetic, and for an id that has ended the
 * generations differ. The same list links take a timer from the free list to
 * the wheel, to the queue of expirations and back. Nothing is allocated between
 * the add and the read, so neither an expiry nor a re-arm can fail, and no
 * queue can overflow.
 */
#ifndef _HTW_TIMER_H
#define _HTW_TIMER_H

#include <linux/gfp.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <asm/byteorder.h>
#include <linux/types.h>

#include <uapi/linux/htw.h>

#include "base.h"
#include "htw_arith.h"
#include "htw_wheel.h"

struct htw_context;

/**
 * enum htw_timer_state - values of &htw_entry.state of a timer
 * @HTW_FREE: on a free list, or on the way there, or never used
 * @HTW_RESERVED: owned by an add that has not armed it yet, or by close;
 *	nothing else touches it
 * @HTW_PENDING: in the wheel of &htw_entry.cpu, guarded by that base's lock
 * @HTW_EXPIRED: on &htw_context.expired, guarded by the context's lock
 * @HTW_REARM: to be armed: on &htw_context.rearm or on the way into a wheel,
 *	guarded by the context's lock
 * @HTW_IDLE: kept and disarmed, guarded by the context's lock;
 *	&htw_entry.idle_interval is the interval that it had until its last
 *	firing, or zero
 *
 * A timer leaves a state under the lock that guards it, and becomes
 * %HTW_PENDING under the lock of its new base. With the locks of
 * &htw_entry.cpu's base and of the context held, the state does not change,
 * unless it is %HTW_RESERVED.
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
 * enum htw_timer_flag - bits of &htw_entry.flags
 * @HTW_TIMER_KEEP: %HTW_F_KEEP
 * @HTW_TIMER_STOPPED: cancelled after it expired: the queued expiration is the
 *	last, and its missed count is fixed: see htw_timer_fix_missed()
 * @HTW_TIMER_CANCEL_ON_SET: %HTW_F_CANCEL_ON_SET
 * @HTW_TIMER_CLOCK_SET: its event gets %HTW_EVENT_CLOCK_SET
 * @HTW_TIMER_SETS: low bits of htw_clock_sets_count() when it was armed
 * @HTW_TIMER_SLACK: &htw_entry.slack is not zero
 * @HTW_TIMER_ENDLESS: %HTW_TIMER_STOPPED, and it had no limit of firings
 */
enum htw_timer_flag {
	HTW_TIMER_KEEP		= BIT(0),
	HTW_TIMER_STOPPED	= BIT(1),
	HTW_TIMER_CANCEL_ON_SET	= BIT(2),
	HTW_TIMER_CLOCK_SET	= BIT(3),
	HTW_TIMER_SETS		= BIT(4) | BIT(5),
	HTW_TIMER_SLACK		= BIT(6),
	HTW_TIMER_ENDLESS	= BIT(7),
};

/**
 * struct htw_timer - a timer of a context, 64 bytes
 * @node: the base's part; its list also links the context's lists
 * @deadline: when it expires or expired, in ns
 * @cookie: the program's
 * @interval: ns, zero for a one-shot timer
 * @generation: upper half of the id; incremented when the timer is freed
 * @firings: how many firings are left, zero for without end
 * @missed_low: in place of @firings with %HTW_TIMER_ENDLESS, see
 *	htw_timer_fix_missed()
 *
 * Guarded as &enum htw_timer_state says. The generation changes only when the
 * state becomes %HTW_FREE.
 */
struct htw_timer {
	struct htw_entry node;
	u64 deadline;
	u64 cookie;
	u64 interval;
	u32 generation;
	union {
		u32 firings;
		u32 missed_low;
	};
};

/* Slot 0 of each page is its header. */
#define HTW_PAGE_SLOTS		((u32)(PAGE_SIZE / sizeof(struct htw_timer)))
#define HTW_PAGE_TIMERS		(HTW_PAGE_SLOTS - 1)

/**
 * struct htw_page - a page of timers
 * @ctx: the context that owns them; never changes
 * @slot: number of the header's slot, which is never an id; never changes
 * @table: the overrides of its slots in the table of deadlines, or NULL; set
 *	once, and read without a lock
 * @zero: never written; contains the &htw_entry.key of @header
 * @sum: of the generations when no timer was in use, or zero (shrink.c's)
 * @gone: next of the pages that have been given back and wait to be freed
 *	(shrink.c's)
 * @header: the above as a timer
 * @timers: the timers
 *
 * Aligned to its size, so that a timer's address leads to it. As a timer, the
 * header is %HTW_FREE for ever, so an id with its slot number matches nothing.
 */
struct htw_page {
	union {
		struct {
			struct htw_context *ctx;
			u32 slot;
			u64 *table;
			u64 zero;
			u64 sum;
			struct htw_page *gone;
		};
		struct htw_timer header;
	};
	struct htw_timer timers[HTW_PAGE_TIMERS];
};

static_assert(sizeof(struct htw_timer) == 64);
static_assert(sizeof(struct htw_page) == PAGE_SIZE);
static_assert(offsetofend(struct htw_page, zero) == offsetofend(struct htw_timer, node.key));

static inline struct htw_page *htw_timer_page(const struct htw_timer *t)
{
	return (struct htw_page *)((unsigned long)t & PAGE_MASK);
}

/* A timer's index in its page; the header has index 0. */
static inline u32 htw_timer_index(const struct htw_timer *t)
{
	return offset_in_page(t) / sizeof(*t);
}

/* A timer's slot number: the lower half of its id. */
static inline u32 htw_timer_slot(const struct htw_timer *t)
{
	return htw_timer_page(t)->slot + htw_timer_index(t);
}

/* The id by which programs name a timer; never zero. */
static inline u64 htw_timer_id(const struct htw_timer *t)
{
	return (u64)READ_ONCE(t->generation) << 32 | htw_timer_slot(t);
}

/*
 * Is the timer neither free nor reserved? Then it has been armed, so its CPU is
 * valid and its context's settings are final. Without a lock the answer may be
 * stale at once.
 */
static inline bool htw_timer_is_live(const struct htw_timer *t)
{
	/* Pairs with htw_timer_start(). */
	u8 state = smp_load_acquire(&t->node.state);

	return state != HTW_FREE && state != HTW_RESERVED;
}

static inline bool htw_timer_matches(const struct htw_timer *t, u64 id)
{
	return t->generation == upper_32_bits(id);
}

/*
 * End a timer's id.
 *
 * Return: false for a slot whose generations have run out: it must not be used
 * again, as that would make old ids valid.
 */
static inline bool htw_timer_end_id(struct htw_timer *t)
{
	u32 generation = t->generation + 1;

	WRITE_ONCE(t->generation, generation);
	/* Pairs with htw_shrink_page_sum(), which reads the state before the generation. */
	smp_store_release(&t->node.state, HTW_FREE);
	return generation;
}

/* End a timer's id and put the slot on @list, unless its generations have run out. */
static inline void htw_timer_free(struct htw_timer *t, struct list_head *list)
{
	if (likely(htw_timer_end_id(t)))
		__htw_list_add(&t->node.list, list);
}

/* Take the first timer off a list that is not empty. */
static inline struct htw_timer *htw_timer_pop(struct list_head *list)
{
	struct htw_timer *t = list_first_entry(list, struct htw_timer, node.list);

	__htw_list_del(&t->node.list);
	return t;
}

static inline u64 htw_timer_slack(const struct htw_timer *t)
{
	return !t->node.slack ? 0 : htw_arith_decode_slack(t->node.slack);
}

/*
 * A timer's override in the table of deadlines, or zero without a table. The
 * program may store to it at any time, so read it once.
 */
static inline u64 htw_timer_override(const struct htw_timer *t)
{
	const u64 *table = READ_ONCE(htw_timer_page(t)->table);

	return table ? READ_ONCE(table[htw_timer_index(t)]) : 0;
}

static inline void htw_timer_clear_override(const struct htw_timer *t)
{
	u64 *table = READ_ONCE(htw_timer_page(t)->table);

	if (table)
		WRITE_ONCE(table[htw_timer_index(t)], 0);
}

static inline void htw_page_free(struct htw_page *page)
{
	free_page((unsigned long)page);
}

/* &htw_entry.key by shifts: compilers would build the struct in memory. */
static inline u32 htw_timer_key(unsigned int cpu, u8 state, u8 flags)
{
#ifdef __LITTLE_ENDIAN
	return (u16)cpu | (u32)state << 16 | (u32)flags << 24;
#else
	return cpu << 16 | (u32)state << 8 | flags;
#endif
}

/* Is a timer pending on this base? If so, it is until the base's lock is dropped. */
static inline bool htw_timer_pending_on(const struct htw_base *base,
					const struct htw_timer *t)
{
	lockdep_assert_held(&base->lock);

	/* Pairs with htw_timer_start(). */
	return smp_load_acquire(&t->node.state) == HTW_PENDING &&
	       READ_ONCE(t->node.cpu) == base->cpu;
}

/*
 * Put a timer that is on no list into the wheel of a base whose lock is held,
 * to expire at htw_base_choose_tick(). Drop the lock by htw_base_unlock(),
 * unless it is held for a turn.
 */
static inline void htw_timer_start(struct htw_base *base, struct htw_timer *t,
				   u64 tick)
{
	if (htw_base_start(base, &t->node, tick))
		base->reprogram = true;
	/*
	 * Not before the CPU, by which readers of the state find the lock that
	 * guards it. Pairs with htw_timer_pending_on().
	 */
	smp_store_release(&t->node.state, HTW_PENDING);
}

/* Did a timer expire because the clock was set, ahead of its deadline? */
static inline bool htw_timer_fired_ahead(const struct htw_timer *t)
{
	return t->node.fired < t->deadline;
}

u64 htw_timer_fixed_missed(const struct htw_timer *t);

/*
 * Firings since the one whose expiration is queued, which its event reports as
 * missed. Inline for periodic expirations (docs/performance.md).
 */
static inline u64 htw_timer_missed(const struct htw_timer *t, u64 now)
{
	if (t->node.flags & HTW_TIMER_STOPPED)
		return htw_timer_fixed_missed(t);
	if (!t->interval)
		return 0;
	/* @now may have been read before the timer fired. */
	return htw_arith_missed(t->deadline, t->interval, t->firings,
				max(now, t->node.fired),
				htw_timer_fired_ahead(t));
}

/* The firings that an expiration uses up: those missed, and its own unless it fired ahead. */
static inline u64 htw_timer_firings_consumed(const struct htw_timer *t,
					     u64 missed)
{
	return missed + !htw_timer_fired_ahead(t);
}

/* Is a timer armed again when its queued expiration is read? */
static inline bool htw_timer_continues(const struct htw_timer *t, u64 missed)
{
	return !(t->node.flags & HTW_TIMER_STOPPED) &&
	       htw_arith_continues(t->interval, t->firings,
				   htw_timer_firings_consumed(t, missed));
}

/* Neither periodic, nor kept, nor cancelled while its expiration is queued. */
static inline bool htw_timer_is_plain(const struct htw_timer *t)
{
	return !(t->interval | (t->node.flags & ~HTW_TIMER_SLACK));
}

/* ns to the deadline of a timer that is armed. */
static inline u64 htw_timer_remaining(const struct htw_timer *t, u64 override,
				      u64 now)
{
	u64 deadline = max(t->deadline, override);

	return override != HTW_DISARMED && deadline > now ? deadline - now : 0;
}

void htw_timer_set_slack(struct htw_timer *t, u64 slack);
void htw_timer_fix_missed(struct htw_timer *t, u64 missed);
void htw_timer_fill_query(const struct htw_timer *t, enum htw_timer_state state,
			  u64 override, u64 now, struct htw_query *query);

#endif /* _HTW_TIMER_H */
