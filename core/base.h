/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A base: a context's wheel on a CPU, with its lock
 *
 * Only tasks take the lock. A base has two times. @next, before which there is
 * no work, is written under the base's lock; @armed, when its alarm rings,
 * under the alarm's. A task that has written @next sets the alarm if @armed is
 * later, before it drops the base's lock. The callback writes that a base is
 * not armed before it reads @next, so that one of the two sees what the other
 * has written:
 *
 *	task				alarm
 *	WRITE @next			WRITE @armed = never
 *	smp_mb()			smp_mb()
 *	READ @armed			READ @next
 *
 * When a timer is due, the callback sets @told, and then has tasks woken.
 * While it is set, the alarm is not set for what is due next: timers that no
 * task reads cost nothing. A task that leaves nothing due takes it back. Who
 * begins to wait queues itself, and then looks. docs/waking.md has all of it.
 */
#ifndef _HTW_BASE_H
#define _HTW_BASE_H

#include <linux/spinlock.h>
#include <linux/timerqueue.h>

#include "clock.h"
#include "delay.h"
#include "timer.h"

struct htw_alarms;
struct htw_context;
struct htw_ids;

/*
 * Nodes that are looked at while a base's lock is held, so that it is for no
 * more than 50 us.
 */
#define HTW_BASE_LOOKS		1024u
/* As how many of those a step to the next tick with timers counts. */
#define HTW_BASE_STEP		48u
/* As how many a step into the next window counts, for each level. */
#define HTW_BASE_WINDOW		64u

#define HTW_LATE_BINS		20

/**
 * enum htw_place - where a base is, under its alarm's lock
 * @HTW_NOWHERE: in no queue
 * @HTW_TIMED: in the alarm's queue, for a time
 * @HTW_HELD: in the alarm's list for the time when softirq may wake a reader
 * @HTW_SHORT: left to the work item whose wake-ups are short
 * @HTW_LONG: left to the other one
 * @HTW_CLOSED: nowhere for good: its file is closed, or the clock is the manual
 *	one, which has no alarm
 */
enum htw_place {
	HTW_NOWHERE,
	HTW_TIMED,
	HTW_HELD,
	HTW_SHORT,
	HTW_LONG,
	HTW_CLOSED,
};

/* The work items of a user: HTW_SHORT and HTW_LONG less HTW_SHORT. */
#define HTW_WORKS		2

/**
 * enum htw_wake - whom to wake, and for what
 * @HTW_WAKE_READER: one task that blocks in read()
 * @HTW_WAKE_READERS: all of them
 * @HTW_WAKE_POLLERS: the poll queue, and who asked for SIGIO
 * @HTW_WAKE_IN: a timer is due; without it a bucket is to be moved down, and
 *	poll queues are woken without EPOLLIN
 */
enum htw_wake {
	HTW_WAKE_READER		= BIT(0),
	HTW_WAKE_READERS	= BIT(1),
	HTW_WAKE_POLLERS	= BIT(2),
	HTW_WAKE_IN		= BIT(3),
};

/**
 * struct htw_late - a histogram of lateness
 * @bins: below 1, 2, 4, ... times 1024 ns; the last one all that is later
 */
struct htw_late {
	u64 bins[HTW_LATE_BINS];
};

/**
 * struct htw_base - a context's wheel on a CPU
 * @lock: guards @wheel and all timers that belong to this base, with their pages;
 *	taken by tasks alone. Order: this, the alarm's
 * @index: of the CPU; never changes
 * @key: &htw_timer.key of its timers that are pending, without flags; never
 *	changes
 * @told: that a timer is due has been announced (alarm's lock; cleared under
 *	both)
 * @place: of &enum htw_place (alarm's lock)
 * @owed: of &enum htw_wake: what the work item is to do to which it was left
 *	(alarm's lock)
 * @again: how often it has been announced once more since an event was taken
 *	(alarm's lock; cleared without)
 * @clock: of all times here; never changes
 * @ctx: whose it is; never changes
 * @ids: that context's; never changes
 * @tick_ns: a tick of @wheel; never changes
 * @next_tick: &htw_wheel.next when @next was written
 * @next: no work before this time, in ns of the clock (written under @lock)
 * @first_tick: the tick of @first, or that of a timer which was started since
 *	for an earlier one
 * @first: nothing is due before this time; later than @next if a bucket is to
 *	be moved down before it (written under @lock)
 * @is_guess: @first is of a bucket that has not been moved down: perhaps
 *	nothing is due then (written under @lock)
 * @is_stale: a timer was started that may be due before @first
 * @alarms: of the user, one of which its alarm is; never changes
 * @armed: when the alarm rings, or %HTW_NEVER; zero if it is %HTW_HELD or
 *	%HTW_CLOSED (alarm's lock)
 * @node: in &htw_alarm.queue (alarm's lock)
 * @entry: in &htw_alarm.left or &htw_alarm.held (alarm's lock)
 * @wheel: the timers, in ticks of the clock
 * @pages: those in which some timers are free, and some are used
 * @empty: those in which none is used
 * @nr_pages: its pages, retired ones as well
 * @nr_empty: how many are in @empty
 * @nr_idle: timers that are kept and disarmed
 * @taken: events that were taken (written under @lock)
 * @cancelled: timers that calls have ended (written under @lock)
 * @alarm_late: how late the alarm rang, after @next (alarm's lock)
 * @taken_late: how late events were taken, after their ticks (written under
 *	@lock)
 */
struct htw_base {
	spinlock_t lock;	/* order: this, the alarm's */
	u16 index;
	u32 key;
	bool told;
	u8 place;
	u8 owed;
	u8 again;
	bool is_guess;
	bool is_stale;
	u8 clock;
	struct htw_context *ctx;
	struct htw_ids *ids;
	u64 tick_ns;
	u64 next_tick;
	u64 next;
	u64 first_tick;
	u64 first;
	struct htw_alarms __percpu *alarms;
	u64 armed;
	union {
		struct timerqueue_node node;
		struct list_head entry;
	};
	struct htw_wheel wheel;
	struct list_head pages;
	struct list_head empty;
	u32 nr_pages;
	u32 nr_empty;
	u32 nr_idle;
	u64 taken;
	u64 cancelled;
	struct htw_late alarm_late;
	struct htw_late taken_late;
};

u64 htw_base_bring_up(struct htw_base *base, u64 *now);
bool htw_base_collect_due(struct htw_base *base, u64 tick, unsigned int *budget);
bool htw_base_look(struct htw_base *base, u64 now, unsigned int *budget);
bool htw_base_catch_up(struct htw_base *base, u64 now, unsigned int *budget);
void htw_base_publish(struct htw_base *base);

/* The bin of a lateness, in ns. */
static inline unsigned int htw_late_bin(u64 ns)
{
	return min(fls64(ns >> 10), HTW_LATE_BINS - 1);
}

/* Count some that were as late. Readers do not lock. */
static inline void htw_late_count(struct htw_late *late, u64 ns, u32 count)
{
	u64 *bin = &late->bins[htw_late_bin(ns)];

	WRITE_ONCE(*bin, *bin + count);
}

/* The tick that a time is in. */
static inline u64 htw_base_tick(const struct htw_base *base, u64 now)
{
	return div64_u64(now, base->tick_ns);
}

/* The first tick that is not before a time, which is not zero. */
static inline u64 htw_base_tick_up(const struct htw_base *base, u64 time)
{
	return htw_base_tick(base, time - 1) + 1;
}

/*
 * Lock a base, and bring it up to the present: *@now, which becomes later if
 * another task has read a later clock. Return: the tick of that.
 */
static inline u64 htw_base_lock(struct htw_base *base, u64 *now) __acquires(&base->lock)
{
	u64 tick = htw_base_tick(base, *now);

	spin_lock(&base->lock);
	if (base->wheel.cursor != tick + 1)
		return htw_base_bring_up(base, now);
	return tick;
}

/* A timer is started for a tick. */
static inline void htw_base_note_tick(struct htw_base *base, u64 tick)
{
	if (unlikely(tick < base->first_tick)) {
		base->first_tick = tick;
		base->is_stale = true;
	}
}

/* Start a timer that is in no wheel. @flags: of &enum htw_timer_key. */
static inline void htw_base_start(struct htw_base *base, struct htw_timer *t, u64 tick, u32 flags)
{
	lockdep_assert_held(&base->lock);

	htw_node_init(&t->node);
	htw_wheel_start(&base->wheel, &t->node, tick);
	htw_base_note_tick(base, tick);
	WRITE_ONCE(t->key, base->key | flags);
}

/*
 * Move a timer that is in the wheel: htw_wheel_restart() would look whether it
 * is.
 */
static inline void htw_base_move(struct htw_base *base, struct htw_timer *t, u64 tick)
{
	lockdep_assert_held(&base->lock);

	htw_wheel_unlink(&base->wheel, &t->node);
	t->node.expires = tick;
	htw_wheel_link(&base->wheel, &t->node);
	htw_base_note_tick(base, tick);
}

/* Is a timer live, and does it belong to this base? That is stable if the base is locked. */
static inline bool htw_base_has(const struct htw_base *base, const struct htw_timer *t)
{
	return ((READ_ONCE(t->key) ^ base->key) & HTW_TIMER_OWNER) == 0;
}

/*
 * Should a task that wants events, or is about to wait for some, look at it?
 * After it has queued itself.
 */
static inline bool htw_base_has_work(const struct htw_base *base, u64 now)
{
	if (READ_ONCE(base->told) || READ_ONCE(base->next) <= now)
		return true;
	/* It may be timed for its first timer alone, and the clock set back since. */
	return base->clock == HTW_REALTIME && READ_ONCE(base->armed) > READ_ONCE(base->next);
}

#endif /* _HTW_BASE_H */
