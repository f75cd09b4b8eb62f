/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A base: a context's wheel on a CPU, with its lock
 *
 * Only tasks take the lock. A base has two times. @next, before which there is
 * no work, is written under the base's lock; @armed, when its alarm rings,
 * under the alarm's. A task that has dropped the base's lock sets the alarm if
 * @armed is later than @next. It may not be the one that wrote @next: that may
 * have been preempted, or throttled, after it dropped the lock. The alarm writes
 * that a base is not armed before it reads @next, so that one of the two sees
 * what the other has written:
 *
 *	task				alarm
 *	WRITE @next			WRITE @armed = never
 *	smp_mb()			smp_mb()
 *	READ @armed			READ @next
 *
 * When a timer is due, the tasks that wait are woken and @told is set. While it
 * is set, the alarm is not set for the base, but by htw_alarm_again(): timers
 * that no task reads cost nothing. read() and poll() clear it when they find no
 * timer due. A task checks for due timers itself before it sleeps.
 */
#ifndef _HTW_BASE_H
#define _HTW_BASE_H

#include <linux/bitops.h>
#include <linux/math64.h>
#include <linux/spinlock.h>
#include <linux/timerqueue.h>

#include "clock.h"
#include "delay.h"
#include "timer.h"

struct htw_alarm;
struct htw_context;

/*
 * Nodes that are looked at while a base's lock is held, so that it is for no
 * more than 50 us.
 */
#define HTW_BASE_LOOKS		1024u

/**
 * struct htw_base - a context's wheel on a CPU
 * @lock: guards @wheel and all timers that belong to this base; taken by tasks
 *	alone. Order: this, the context's, the alarm's
 * @index: of the CPU; never changes
 * @told: who waits has been told that there is something due; set by the alarm
 *	as well, without the lock, and cleared under it
 * @again: how often the alarm has told it again since something was taken
 *	(alarm's lock; cleared without)
 * @is_again: it stands in the alarm to be told again (alarm's lock)
 * @ctx: never changes
 * @tick_ns: a tick of @wheel; never changes
 * @next_tick: &htw_wheel.next when @next was written
 * @next: no work before this time, in ns of the clock (written under @lock)
 * @first_tick: the tick of @first, or that of a timer which was started since
 *	for an earlier one
 * @first: nothing is due before this time; later than @next if a bucket is to
 *	be moved down before it (written under @lock)
 * @is_stale: a timer was started that may be due before @first
 * @armed: when the alarm rings, or %HTW_NEVER (alarm's lock)
 * @alarm: in whose queue it is, or was (that alarm's lock)
 * @node: in &htw_alarm.queue (alarm's lock)
 * @wheel: the timers, in ticks of the clock
 */
struct htw_base {
	spinlock_t lock;	/* order: this, the context's, the alarm's */
	u16 index;
	bool told;
	u8 again;
	bool is_again;
	bool is_stale;
	struct htw_context *ctx;
	u64 tick_ns;
	u64 next_tick;
	u64 next;
	u64 first_tick;
	u64 first;
	u64 armed;
	struct htw_alarm *alarm;
	struct timerqueue_node node;
	struct htw_wheel wheel;
};

int htw_bases_init(void);
void htw_bases_exit(void);
struct htw_base *htw_base_alloc(struct htw_context *ctx, unsigned int index);
void htw_base_free(struct htw_base *base);
void *__htw_base_alloc_levels(const struct htw_base *base);
void htw_base_add_levels(struct htw_base *base, void **levels);
void htw_base_free_levels(const struct htw_base *base, void *levels);
bool htw_base_look(struct htw_base *base, u64 now, unsigned int *budget);
void htw_base_publish(struct htw_base *base);
void htw_base_tell(struct htw_base *base, u64 now);
void htw_alarm_set(struct htw_base *base);

/* Timers of a base beyond which it has levels: those of the sorted list. */
#define HTW_BASE_FEW		63u

/*
 * Memory for a base that has no levels, and is about to need some; NULL if it
 * does not.
 */
static inline void *htw_base_alloc_levels(const struct htw_base *base, u32 more)
{
	/* Not locked: a guess. */
	if (data_race(base->wheel.levels || base->wheel.pending + more <= HTW_BASE_FEW))
		return NULL;
	return __htw_base_alloc_levels(base);
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

/* Lock a base, and bring it up to the present. */
static inline void htw_base_lock(struct htw_base *base, u64 now)
{
	const u64 tick = htw_base_tick(base, now);

	spin_lock(&base->lock);
	if (base->wheel.cursor != tick + 1)
		htw_wheel_forward(&base->wheel, tick);
}

/* A timer is started for a tick. */
static inline void htw_base_note_tick(struct htw_base *base, u64 tick)
{
	if (unlikely(tick < base->first_tick)) {
		base->first_tick = tick;
		base->is_stale = true;
	}
}

/*
 * Start a timer that is in no wheel; it belongs to the base from then on.
 * @flags: &htw_timer.flags.
 */
static inline void htw_base_start(struct htw_base *base, struct htw_timer *t, u64 tick, u8 flags)
{
	lockdep_assert_held(&base->lock);

	htw_node_init(&t->node);
	htw_wheel_start(&base->wheel, &t->node, tick);
	htw_base_note_tick(base, tick);
	/*
	 * With the index, by which others find the lock that guards it. Pairs
	 * with htw_call_is_at().
	 */
	smp_store_release(&t->key, htw_timer_key(base->index, HTW_PENDING, flags));
}

/*
 * Set the alarm if it rings later than there is work, and nobody has been told
 * of it.
 */
static inline void htw_base_check_alarm(struct htw_base *base)
{
	if (unlikely(READ_ONCE(base->armed) > READ_ONCE(base->next)) && !READ_ONCE(base->told)) {
		htw_delay();
		htw_alarm_set(base);
	}
}

/*
 * Drop a base's lock: others see what was published before this task reads when
 * the alarm rings.
 */
static inline void htw_base_drop_lock(struct htw_base *base)
{
	spin_unlock(&base->lock);
	htw_delay();
	/* Pairs with htw_alarm_decide(). */
	smp_mb();
}

/*
 * Unlock a base after operations on its timers, at the time @now. Tells who
 * waits if something is due, and sets the alarm for what is not.
 */
static inline void htw_base_unlock(struct htw_base *base, u64 now)
{
	if (unlikely(base->is_stale || htw_wheel_next_is_stale(&base->wheel, base->next_tick)))
		htw_base_publish(base);
	if (unlikely(base->next <= now) && !READ_ONCE(base->told)) {
		htw_base_tell(base, now);
		return;
	}
	htw_base_drop_lock(base);
	htw_base_check_alarm(base);
}

#endif /* _HTW_BASE_H */
