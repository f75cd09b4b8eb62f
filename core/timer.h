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
 * enum htw_timer_key - &htw_timer.key: bits, below the index of its base
 * @HTW_TIMER_LIVE: started and not ended; without it free, or of an add that has
 *	not started it yet, and the key is zero
 * @HTW_TIMER_PENDING: in the wheel of its base, until its event is taken;
 *	without it a live timer is kept and disarmed
 * @HTW_TIMER_KEEP: %HTW_F_KEEP
 * @HTW_TIMER_PERIODIC: &htw_timer.interval is not zero
 * @HTW_TIMER_SLACK: &htw_timer.slack is not zero
 * @HTW_TIMER_BASE: lowest bit of the index
 */
enum htw_timer_key {
	HTW_TIMER_LIVE		= BIT(0),
	HTW_TIMER_PENDING	= BIT(1),
	HTW_TIMER_KEEP		= BIT(2),
	HTW_TIMER_PERIODIC	= BIT(3),
	HTW_TIMER_SLACK		= BIT(4),
	HTW_TIMER_BASE		= BIT(16),
};

/* Of a live timer: which base's it is. */
#define HTW_TIMER_OWNER		(~(HTW_TIMER_BASE - 1) | HTW_TIMER_LIVE)
/* What a timer keeps from one firing to the next. */
#define HTW_TIMER_FLAGS		(HTW_TIMER_KEEP | HTW_TIMER_PERIODIC | HTW_TIMER_SLACK)

/**
 * struct htw_timer - a timer of a context
 *
 * It belongs to one base, that of its page, whose lock guards all of it. @key can
 * be read without.
 *
 * @node: the wheel's part; its list also links free timers
 * @deadline: when it is due, in ns of the context's clock
 * @cookie: the program's
 * @interval: ns, zero for a one-shot timer
 * @generation: upper half of the id; another one each time that it is taken
 * @firings: how many firings are left, zero for without end
 * @key: of &enum htw_timer_key
 * @slack: by htw_arith_encode_slack()
 */
struct htw_timer {
	struct htw_node node;
	u64 deadline;
	u64 cookie;
	u64 interval;
	u32 generation;
	u32 firings;
	u32 key;
	u32 slack;
};

#define HTW_PAGE_SLOTS		((u32)(PAGE_SIZE / sizeof(struct htw_timer)))
#define HTW_PAGE_TIMERS		(HTW_PAGE_SLOTS - 1)
/* Slots of a context's first page, so that one with few timers is small. */
#define HTW_FIRST_SLOTS		16u

/**
 * struct htw_page - a page of timers, or the beginning of one
 *
 * It belongs to one base, whose lock guards all that changes.
 *
 * @slot: number of the header's slot, which is never an id; never changes
 * @generation: of the timers that were taken last: there has been no later one
 * @used: timers that are not free, or that the page has not
 * @free: the links of its first free timer, from where next leads to the
 *	others, or NULL
 * @list: in &htw_base.pages or &htw_base.empty, if a timer is free
 * @header: the above as a timer that is never live, so that an id with its slot
 *	matches nothing
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

/* Neither periodic nor kept: it ends with its event. */
static inline bool htw_timer_is_plain(const struct htw_timer *t)
{
	return !(t->key & (HTW_TIMER_KEEP | HTW_TIMER_PERIODIC));
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
