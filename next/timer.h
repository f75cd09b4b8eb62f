/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A timer of a context: its states, and which lock guards it
 *
 * A timer is 64 bytes, and 64 slots are a page, of which the first is the
 * page's header. An id is a slot number and a generation, so that a lookup is
 * arithmetic, and for an id that has ended the generations differ. The same
 * list links take a timer from the free list into a wheel and back: nothing is
 * allocated between HTW_ADD and read(), so neither expiring nor starting again
 * can fail.
 */
#ifndef _HTW_TIMER_H
#define _HTW_TIMER_H

#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/types.h>

#include <uapi/linux/htw.h>

#include "htw_arith.h"
#include "htw_wheel.h"

/**
 * enum htw_timer_state - values of &htw_timer.state
 * @HTW_FREE: on a free list, or on the way there, or never used
 * @HTW_RESERVED: of an add that has not started it yet; nothing else touches it
 * @HTW_PENDING: in the wheel of &htw_timer.base, until its event is taken
 * @HTW_IDLE: kept and disarmed
 *
 * From its start until it is free a timer belongs to one base, whose lock
 * guards all of it.
 */
enum htw_timer_state {
	HTW_FREE = 0,
	HTW_RESERVED,
	HTW_PENDING,
	HTW_IDLE,
};

/**
 * enum htw_timer_flag - bits of &htw_timer.flags
 * @HTW_TIMER_KEEP: %HTW_F_KEEP
 * @HTW_TIMER_SLACK: &htw_timer.slack is not zero
 */
enum htw_timer_flag {
	HTW_TIMER_KEEP		= BIT(0),
	HTW_TIMER_SLACK		= BIT(1),
};

/**
 * struct htw_timer - a timer of a context
 * @node: the wheel's part; its list also links free timers
 * @deadline: when it is due, in ns of the context's clock
 * @cookie: the program's
 * @interval: ns, zero for a one-shot timer
 * @generation: upper half of the id; incremented when the timer is freed
 * @firings: how many firings are left, zero for without end
 * @base: index of the base to which it belongs
 * @state: of &enum htw_timer_state
 * @flags: of &enum htw_timer_flag
 * @key: the three as one
 * @slack: by htw_arith_encode_slack()
 */
struct htw_timer {
	struct htw_node node;
	u64 deadline;
	u64 cookie;
	u64 interval;
	u32 generation;
	u32 firings;
	union {
		struct {
			u16 base;
			u8 state;
			u8 flags;
		};
		u32 key;
	};
	u32 slack;
};

#define HTW_PAGE_SLOTS		((u32)(PAGE_SIZE / sizeof(struct htw_timer)))
#define HTW_PAGE_TIMERS		(HTW_PAGE_SLOTS - 1)
/* Slots of a context's first page, so that one with few timers is small. */
#define HTW_FIRST_SLOTS		16u

/**
 * struct htw_page - a page of timers, or the beginning of one
 * @slot: number of the header's slot, which is never an id; never changes
 * @header: the above as a timer, %HTW_FREE for ever, so that an id with its
 *	slot matches nothing
 * @timers: the timers
 *
 * Aligned to its size, so that a timer's address leads to it.
 */
struct htw_page {
	union {
		u32 slot;
		struct htw_timer header;
	};
	struct htw_timer timers[];
};

static_assert(sizeof(struct htw_timer) == 64);
static_assert(offsetofend(struct htw_page, slot) <= offsetof(struct htw_timer, key));

/* The id by which programs name a timer in a slot; never zero. */
static inline u64 htw_timer_id_at(const struct htw_timer *t, u32 slot)
{
	return (u64)t->generation << 32 | slot;
}

/* &htw_timer.key by shifts: compilers would build the struct in memory. */
static inline u32 htw_timer_key(unsigned int base, u8 state, u8 flags)
{
#ifdef __LITTLE_ENDIAN
	return (u16)base | (u32)state << 16 | (u32)flags << 24;
#else
	return base << 16 | (u32)state << 8 | flags;
#endif
}

static inline u16 htw_key_base(u32 key)
{
#ifdef __LITTLE_ENDIAN
	return key;
#else
	return key >> 16;
#endif
}

static inline u8 htw_key_state(u32 key)
{
#ifdef __LITTLE_ENDIAN
	return key >> 16;
#else
	return key >> 8;
#endif
}

/* Take the first timer off a list that is not empty. */
static inline struct htw_timer *htw_timer_pop(struct list_head *list)
{
	struct htw_timer *t = list_first_entry(list, struct htw_timer, node.list);

	__htw_list_del(&t->node.list);
	return t;
}

/* Is a timer neither periodic nor kept? */
static inline bool htw_timer_is_plain(const struct htw_timer *t)
{
	return !(t->interval | (t->flags & HTW_TIMER_KEEP));
}

/* Set a timer's slack. Return: the flag that says so. */
static inline u8 htw_timer_set_slack(struct htw_timer *t, u64 slack)
{
	t->slack = htw_arith_encode_slack(slack);
	return t->slack ? HTW_TIMER_SLACK : 0;
}

/* A timer's slack, in ns; @flags: its flags. */
static inline u64 htw_timer_slack(const struct htw_timer *t, u8 flags)
{
	return flags & HTW_TIMER_SLACK ? htw_arith_decode_slack(t->slack) : 0;
}

/*
 * Firings of a periodic timer that is due, which came after the one that is
 * still to be read.
 */
static inline u64 htw_timer_missed(const struct htw_timer *t, u64 now)
{
	return t->interval ? htw_arith_missed(t->deadline, t->interval, t->firings, now, false) : 0;
}

/* ns to the deadline. */
static inline u64 htw_timer_remaining(const struct htw_timer *t, u64 now)
{
	return t->deadline > now ? t->deadline - now : 0;
}

#endif /* _HTW_TIMER_H */
