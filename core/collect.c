// SPDX-License-Identifier: GPL-2.0-only
/*
 * Collecting: the one loop that expires timers, in the task that reads
 *
 * Events are written to the reader's memory under the base's lock, and only
 * timers whose events are there leave the wheel: there is no queue of expired
 * timers, and nothing to be given back. The copy must not sleep: it stops at a
 * page that is not present, which is then faulted in without the lock.
 */

#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include <trace/events/htw.h>

#include "bases.h"
#include "collect.h"
#include "compat.h"
#include "pages.h"
#include "ring.h"

static_assert(sizeof(struct htw_event) == 48);

/* Events that are taken while a base's lock is held. */
#define HTW_COLLECT_EVENTS	32u
/* Nodes that a call which waits looks at, to move buckets down. */
#define HTW_COLLECT_LOOKS	4096u

/*
 * Fill in an event field by field: a compound literal would be cleared first,
 * and then written.
 */
static __always_inline void htw_event_fill(struct htw_event *ev, const struct htw_ids *ids,
					   const struct htw_timer *t, u64 now)
{
	ev->id = htw_ids_number(ids, t);
	ev->cookie = t->cookie;
	ev->deadline = t->deadline;
	/* The clock may have been set back, by less than a tick. */
	ev->taken = max(now, t->deadline);
	ev->missed = 0;
	ev->flags = 0;
	ev->reserved = 0;
	if (likely(htw_timer_is_plain(t)))
		return;
	ev->missed = htw_timer_missed(t, now);
	if (t->key & HTW_TIMER_KEEP ||
	    htw_arith_continues(t->interval, t->firings, ev->missed + 1))
		ev->flags = HTW_EVENT_MORE;
}

/*
 * Take up to @room events of timers that are due at @tick, in order, and put
 * the timers on @taken. @now: the time, read with the base's lock held.
 */
static u32 htw_collect_take(struct htw_base *base, struct htw_event *events, u32 room, u64 tick,
			    u64 now, struct list_head *taken, unsigned int *budget)
{
	const struct htw_ids *ids = base->ids;
	struct htw_wheel *w = &base->wheel;
	u32 n = 0;

	lockdep_assert_held(&base->lock);

	while (n < room && htw_base_collect_due(base, tick, budget)) {
		struct list_head *entry = &w->due;
		LIST_HEAD(part);

		do {
			entry = entry->next;
			htw_event_fill(&events[n++], ids,
				       list_entry(entry, struct htw_timer, node.list), now);
		} while (n < room && entry->next != &w->due);
		list_cut_position(&part, &w->due, entry);
		list_splice_tail(&part, taken);
	}
	w->pending -= n;
	return n;
}

/*
 * Start a periodic timer for its next firing; disarm a kept one. Return: false
 * if it has ended.
 */
static bool htw_collect_go_on(struct htw_base *base, struct htw_timer *t, u64 missed)
{
	u64 fired = missed + 1;

	lockdep_assert_held(&base->lock);

	if (htw_arith_continues(t->interval, t->firings, fired)) {
		t->deadline = htw_arith_next(t->deadline, t->interval, fired);
		if (t->firings)
			t->firings -= fired;
		htw_base_start(base, t, htw_base_tick_up(base, t->deadline),
			       t->key & HTW_TIMER_FLAGS);
		return true;
	}
	if (!(t->key & HTW_TIMER_KEEP))
		return false;
	t->interval = 0;
	t->firings = 0;
	htw_node_init(&t->node);
	base->nr_idle++;
	WRITE_ONCE(t->key, t->key & ~(HTW_TIMER_PENDING | HTW_TIMER_PERIODIC));
	return true;
}

/*
 * End the first @count of @n timers taken, unless they go on, and put the
 * others back.
 */
static void htw_collect_end(struct htw_base *base, const struct htw_event *events, u32 count,
			    u32 n, struct list_head *taken)
{
	const struct htw_ids *ids = base->ids;
	struct list_head *entry = taken->next, *next;

	lockdep_assert_held(&base->lock);

	for (u32 i = 0; i < count; i++, entry = next) {
		struct htw_timer *t = list_entry(entry, struct htw_timer, node.list);

		next = entry->next;
		if (likely(htw_timer_is_plain(t)) || !htw_collect_go_on(base, t, events[i].missed))
			htw_ids_return(base, ids, t);
	}
	taken->next = entry;
	entry->prev = taken;
	list_splice(taken, &base->wheel.due);
	base->wheel.pending += n - count;
}

/*
 * When a timer was due: its tick, or when it was armed with its deadline
 * passed.
 */
static u64 htw_collect_due(const struct htw_base *base, const struct htw_timer *t)
{
	return max(t->node.expires * base->tick_ns, t->deadline);
}

/*
 * Count and trace how late the first @count of the timers taken are. They are
 * in the order of ticks, so if the first and the last are about as late, all
 * are.
 */
static void htw_collect_count(struct htw_base *base, const struct list_head *taken, u32 count,
			      u64 now)
{
	const struct htw_timer *t = list_first_entry(taken, struct htw_timer, node.list);
	const struct htw_timer *last = list_last_entry(taken, struct htw_timer, node.list);
	u64 late, least;

	lockdep_assert_held(&base->lock);

	base->taken += count;
	late = now - min(now, htw_collect_due(base, t));
	least = now - min(now, htw_collect_due(base, last));
	if (htw_late_bin(late) == htw_late_bin(least) && !trace_htw_expire_enabled()) {
		htw_late_count(&base->taken_late, late, count);
		return;
	}
	list_for_each_entry(t, taken, node.list) {
		if (!count--)
			break;
		late = now - min(now, htw_collect_due(base, t));
		htw_late_count(&base->taken_late, late, 1);
		trace_htw_expire(base->ctx, t, now);
	}
}

/*
 * Copy @count events, as the reader's time namespace has them: @offset. Return:
 * how many have been copied as a whole; @to has advanced by these.
 */
static u32 htw_collect_copy(struct htw_event *events, u32 count, s64 offset, struct iov_iter *to)
{
	size_t size = sizeof(*events);
	size_t bytes;
	u32 n;

	for (n = 0; offset && n < count; n++) {
		events[n].deadline = htw_clock_to_user(events[n].deadline, offset);
		events[n].taken = htw_clock_to_user(events[n].taken, offset);
	}

	pagefault_disable();
	bytes = copy_to_iter(events, count * size, to);
	n = bytes / size;
	iov_iter_revert(to, bytes % size);

	/* arm64 stops at the widest access that does not fit. */
	for (; n < count; n++) {
		bytes = copy_to_iter(&events[n], size, to);
		if (bytes < size) {
			iov_iter_revert(to, bytes);
			break;
		}
	}
	pagefault_enable();
	return n;
}

/* What is left of a base. */
enum htw_left {
	HTW_LEFT_NONE,
	HTW_LEFT_DUE,		/* more that is due */
	HTW_LEFT_FAULT,		/* the same, but its event could not be copied */
	HTW_LEFT_MOVE,		/* buckets to be moved down */
};

/*
 * Take events of a base; without @to only look whether some are due. @now: the
 * time at which the call has begun, and for how long it goes on.
 *
 * Return: how many were read.
 */
static u32 htw_collect_base(struct htw_base *base, struct iov_iter *to, u64 now, s64 offset,
			    enum htw_left *left)
{
	struct htw_event events[HTW_COLLECT_EVENTS] __uninitialized;
	unsigned int budget = HTW_BASE_LOOKS;
	u32 room = 0, n, copied = 0;
	void *levels = NULL;
	LIST_HEAD(taken);
	u64 tick, at;

	if (to)
		room = min_t(size_t, iov_iter_count(to) / sizeof(*events), HTW_COLLECT_EVENTS);
	tick = htw_base_lock(base, &now);

	/*
	 * Another task may have read a later clock, and found timers due, or
	 * taken some.
	 */
	at = htw_context_now(base->ctx);
	if (at < now) {
		/* CLOCK_REALTIME was set back after the call had begun. */
		now = at;
		tick = htw_base_bring_up(base, &now);
	}
	n = htw_collect_take(base, events, room, tick, at, &taken, &budget);
	if (n) {
		copied = htw_collect_copy(events, n, offset, to);
		htw_collect_count(base, &taken, copied, at);
		htw_collect_end(base, events, copied, n, &taken);
		/*
		 * What is to be moved down does not delay events that have been
		 * taken.
		 */
		budget = min(budget, HTW_COLLECT_EVENTS);
	}
	if (copied)
		WRITE_ONCE(base->again, 0);

	*left = HTW_LEFT_NONE;
	if (copied < n)
		*left = HTW_LEFT_FAULT;
	else if (htw_base_look(base, now, &budget))
		*left = HTW_LEFT_DUE;
	else if (!budget)
		*left = HTW_LEFT_MOVE;
	if (!base->wheel.pending)
		levels = htw_base_remove_levels(base);
	htw_base_publish(base);
	htw_ring_settle(base, now, *left == HTW_LEFT_DUE || *left == HTW_LEFT_FAULT);
	htw_base_free_levels(base, levels);
	return copied;
}

/*
 * Fault in the memory for an event by writing to it.
 * fault_in_iov_iter_writeable() only checks that there is a page: if the write
 * fails for another reason, such as a wrong MTE tag on arm64, the caller would
 * try for ever.
 */
static bool htw_collect_fault_in(struct iov_iter *to)
{
	static const struct htw_event none;
	size_t written = copy_to_iter(&none, sizeof(none), to);

	iov_iter_revert(to, written);
	return written == sizeof(none);
}

/**
 * htw_collect_pass_on() - wake another reader if something is due
 * @ctx: the context; no lock is held
 *
 * For a task that may have been woken alone, and does not take all.
 */
void htw_collect_pass_on(struct htw_context *ctx)
{
	htw_delay();
	if (htw_context_has_work(ctx) && wq_has_sleeper(&ctx->readers))
		wake_up(&ctx->readers);
}

/**
 * struct htw_read - a read in progress
 * @to: destination
 * @now: the time at which the call has begun, or found nothing since
 * @offset: of the reader's time namespace
 * @looks: how often it still moves down what need not be yet
 * @done: bytes read
 */
struct htw_read {
	struct iov_iter *to;
	u64 now;
	s64 offset;
	u32 looks;
	ssize_t done;
};

/* Read what is due in a base. Return: 0, or an error that ends the call. */
static int htw_collect_from(struct htw_base *base, struct htw_read *r)
{
	while (htw_base_has_work(base, r->now)) {
		enum htw_left left;
		u32 n = htw_collect_base(base, r->to, r->now, r->offset, &left);

		r->done += n * sizeof(struct htw_event);
		/* An alarm may have rung since the clock was read. */
		if (!n)
			r->now = htw_context_now(base->ctx);
		if (left == HTW_LEFT_FAULT) {
			/*
			 * Where memory is another program's, that may take for
			 * ever.
			 */
			htw_collect_pass_on(base->ctx);
			if (!htw_collect_fault_in(r->to))
				return -EFAULT;
		}
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();

		/*
		 * What is to be moved down later need not be, but a bucket that
		 * has come may have what is due.
		 */
		if (left == HTW_LEFT_NONE || iov_iter_count(r->to) < sizeof(struct htw_event) ||
		    (left == HTW_LEFT_MOVE && (!r->looks || r->done) &&
		     READ_ONCE(base->first) > r->now))
			break;
		if (left == HTW_LEFT_MOVE)
			r->looks -= !!r->looks;
	}
	return 0;
}

/*
 * Read what is due. The bases take turns: one that has more than fits comes
 * last in the next call.
 *
 * Return: bytes read; 0 if nothing is due; a negative error if nothing was
 * read.
 */
static ssize_t htw_collect_available(struct htw_context *ctx, struct iov_iter *to)
{
	struct htw_read r = { .to = to, .looks = HTW_COLLECT_LOOKS / HTW_BASE_LOOKS };
	/*
	 * Read once: who does not see others looks at the first base, also if they get an array
	 * meanwhile.
	 */
	struct htw_base **others = READ_ONCE(ctx->others);
	/* Pairs with htw_bases_make(): the settings are read after that. */
	struct htw_base *first = smp_load_acquire(&ctx->first);
	unsigned int places = others ? nr_cpu_ids : 1;
	unsigned int turn = READ_ONCE(ctx->turn);
	int ret = 0;

	if (!first)
		return 0;
	r.now = htw_context_now(ctx);
	r.offset = htw_clock_offset(ctx->clock);
	htw_delay();
	for (unsigned int i = 0; i < places && !ret; i++, turn++) {
		struct htw_base *base;

		turn = turn < places ? turn : 0;
		base = others ? READ_ONCE(others[turn]) : first;
		if (base)
			ret = htw_collect_from(base, &r);
		if (iov_iter_count(to) < sizeof(struct htw_event)) {
			turn++;
			break;
		}
	}
	WRITE_ONCE(ctx->turn, turn);

	if (r.done) {
		struct htw_base *base;

		htw_context_for_each_base(ctx, base)
			htw_ring_rest(base, r.now);
		return r.done;
	}
	/* Not before events are returned, which would be late by that. */
	htw_pages_shrink(ctx, 0);
	return ret;
}

/*
 * Wake a reader. One that a signal has woken already counts as well: it reads,
 * or passes the wake-up on. So softirq does not go on to the next.
 */
static int htw_collect_wake(struct wait_queue_entry *wait, unsigned int mode, int flags, void *key)
{
	woken_wake_function(wait, mode, flags, key);
	list_del_init_careful(&wait->entry);
	return 1;
}

/*
 * Wait for an event and read. The task looks when it has queued itself: then it
 * is woken for what comes after that, and for the rest of a bucket that it has
 * not moved down.
 */
static ssize_t htw_collect_wait(struct htw_context *ctx, struct iov_iter *to)
{
	DEFINE_WAIT_FUNC(wait, htw_collect_wake);
	ssize_t ret;

	for (;;) {
		htw_delay();
		/* Pairs with wq_has_sleeper(). */
		prepare_to_wait_exclusive(&ctx->readers, &wait, TASK_RUNNING);
		htw_delay();
		/* A task that is dying takes nothing: nobody would see it. */
		ret = fatal_signal_pending(current) ? -EINTR : htw_collect_available(ctx, to);
		if (ret)
			break;
		if (signal_pending(current)) {
			ret = -ERESTARTSYS;
			break;
		}
		htw_delay();
		wait_woken(&wait, TASK_INTERRUPTIBLE, MAX_SCHEDULE_TIMEOUT);
	}

	finish_wait(&ctx->readers, &wait);
	htw_collect_pass_on(ctx);
	return ret;
}

/**
 * htw_collect_read() - read whole events
 * @ctx: the context
 * @to: destination
 * @nonblock: do not wait for an event
 *
 * Context: may sleep.
 * Return: bytes read; -EAGAIN, -EINVAL if there is no room for an event,
 * -EFAULT, -ERESTARTSYS, or -EINTR if the task is killed.
 */
ssize_t htw_collect_read(struct htw_context *ctx, struct iov_iter *to, bool nonblock)
{
	ssize_t ret;

	if (iov_iter_count(to) < sizeof(struct htw_event))
		return -EINVAL;
	if (fatal_signal_pending(current))
		return -EINTR;
	ret = htw_collect_available(ctx, to);
	if (ret)
		return ret;
	return nonblock ? -EAGAIN : htw_collect_wait(ctx, to);
}

/**
 * htw_collect_poll() - is a timer due?
 * @ctx: the context; who waits is queued
 *
 * Moves some of what is to be moved down: that is work of who waits. If that is
 * not all, the alarm rings at once for the rest.
 *
 * Context: may sleep.
 */
bool htw_collect_poll(struct htw_context *ctx)
{
	u32 looks = HTW_COLLECT_LOOKS / HTW_BASE_LOOKS;
	struct htw_base *base;
	enum htw_left left;

	htw_context_for_each_base(ctx, base) {
		u64 now = htw_context_now(ctx);

		while (htw_base_has_work(base, now)) {
			htw_collect_base(base, NULL, now, 0, &left);
			if (left == HTW_LEFT_DUE)
				return true;
			if (fatal_signal_pending(current))
				return false;
			cond_resched();
			/* On the manual clock no alarm rings for the rest. */
			if (left != HTW_LEFT_MOVE || (!looks && ctx->clock != HTW_MANUAL))
				break;
			looks -= !!looks;
			now = htw_context_now(ctx);
		}
	}
	return false;
}
