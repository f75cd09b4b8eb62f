/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A timer of a context: its states, and which lock guards it
 *
 * A timer is 64 bytes, and 64 slots are a page, of which the first is the
 * page's header. An id is a slot number and a generation, so that a lookup is
 * arithmetic, and for an id that has ended the generations differ. The same
 * list links take a timer from its page's chain into a wheel and back: nothing
 * is allocated between HTW_ADD and read(), so neither expiring nor starting
 * again can fail.
 */
#ifndef _HTW_TIMER_H
#define _HTW_TIMER_H

#include <linux/kernel.h>
#include <linux/mm.h>

#include "htw_arith.h"
#include "htw_wheel.h"

/**
 * enum htw_timer_state - values of &htw_timer.state
 * @HTW_FREE: free, or of an add that has not started it yet
 * @HTW_PENDING: in the wheel of &htw_timer.base, until its event is taken
 * @HTW_IDLE: kept and disarmed
 *
 * From its start until it is free a timer belongs to one base, whose lock
 * guards all of it.
 */
enum htw_timer_state {
	HTW_FREE = 0,
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
 * union htw_key - where a timer is, and what it does, read at once
 * @base: index of the base to which it belongs
 * @state: of &enum htw_timer_state
 * @flags: of &enum htw_timer_flag
 * @all: the three
 */
union htw_key {
	struct {
		u16 base;
		u8 state;
		u8 flags;
	};
	u32 all;
};

/**
 * struct htw_timer - a timer of a context
 * @node: the wheel's part; its list also links free timers
 * @deadline: when it is due, in ns of the context's clock
 * @cookie: the program's
 * @interval: ns, zero for a one-shot timer
 * @generation: upper half of the id; another one each time that it is taken
 * @firings: how many firings are left, zero for without end
 * @base: &htw_key.base
 * @state: &htw_key.state
 * @flags: &htw_key.flags
 * @key: the three
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
		union htw_key key;
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
 * @generation: of the timers that were taken last: there has been no later one
 *	(&htw_ids.lock)
 * @used: timers that are not free, or that the page has not; one more if it is
 *	retired (&htw_ids.lock)
 * @free: the links of its first free timer, from where next leads to the
 *	others, or NULL (&htw_ids.lock)
 * @list: in &htw_ids.pages, if a timer is free (&htw_ids.lock)
 * @header: the above as a timer, %HTW_FREE for ever, so that an id with its
 *	slot matches nothing
 * @timers: the timers
 *
 * Aligned to its size, so that a timer's address leads to it.
 */
struct htw_page {
	union {
		struct {
			u32 slot;
			u32 generation;
			u32 used;
			struct list_head *free;
			struct list_head list;
		};
		struct htw_timer header;
	};
	struct htw_timer timers[];
};

static_assert(sizeof(struct htw_timer) == 64);
static_assert(offsetofend(struct htw_page, list) <= offsetof(struct htw_timer, key));

/* &htw_key.all by shifts: compilers would build the struct in memory. */
static inline u32 htw_timer_key(unsigned int base, u8 state, u8 flags)
{
#ifdef __LITTLE_ENDIAN
	return (u16)base | (u32)state << 16 | (u32)flags << 24;
#else
	return base << 16 | (u32)state << 8 | flags;
#endif
}

/*
 * Firings of a periodic timer that is due, which came after the one that is
 * still to be read.
 */
static inline u64 htw_timer_missed(const struct htw_timer *t, u64 now)
{
	return t->interval ? htw_arith_missed(t->deadline, t->interval, t->firings, now, false) : 0;
}

#endif /* _HTW_TIMER_H */
