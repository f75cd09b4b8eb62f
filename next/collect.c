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
#include <linux/wait.h>

#include "alarm.h"
#include "collect.h"
#include "compat.h"
#include "context.h"
#include "delay.h"
#include "wait.h"

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
	/* Another task may have read a later clock, and found it due. */
	ev->fired = max(now, t->deadline);
	ev->missed = 0;
	ev->flags = 0;
	ev->reserved = 0;
	if (likely(htw_timer_is_plain(t)))
		return;
	ev->missed = htw_timer_missed(t, now);
	if (t->flags & HTW_TIMER_KEEP ||
	    htw_arith_continues(t->interval, t->firings, ev->missed + 1))
		ev->flags = HTW_EVENT_MORE;
}

/*
 * Take up to @room events of timers that are due, in order, and put the timers
 * on @taken.
 */
static u32 htw_collect_take(struct htw_base *base, struct htw_event *events, u32 room, u64 now,
			    struct list_head *taken, unsigned int *budget)
{
	const struct htw_ids *ids = &base->ctx->ids;
	const u64 tick = htw_base_tick(base, now);
	struct htw_wheel *w = &base->wheel;
	u32 n = 0;

	lockdep_assert_held(&base->lock);

	while (n < room && htw_wheel_collect_due(w, tick, budget)) {
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
	const u64 fired = missed + 1;

	lockdep_assert_held(&base->lock);

	if (htw_arith_continues(t->interval, t->firings, fired)) {
		t->deadline = htw_arith_next(t->deadline, t->interval, fired);
		if (t->firings)
			t->firings -= fired;
		htw_base_start(base, t, htw_base_tick_up(base, t->deadline), t->flags);
		return true;
	}
	if (!(t->flags & HTW_TIMER_KEEP))
		return false;
	t->interval = 0;
	t->firings = 0;
	htw_node_init(&t->node);
	WRITE_ONCE(t->state, HTW_IDLE);
	return true;
}

/*
 * End the first @count of the timers taken, or start them again, and put the
 * others back.
 */
static void htw_collect_end(struct htw_base *base, const struct htw_event *events, u32 count,
			    u32 n, struct list_head *taken)
{
	struct list_head *last = taken, *entry, *next;
	LIST_HEAD(ended);
	u32 freed = 0;

	lockdep_assert_held(&base->lock);

	entry = taken->next;
	for (u32 i = 0; i < count; i++, entry = next) {
		struct htw_timer *t = list_entry(entry, struct htw_timer, node.list);

		next = entry->next;
		if (unlikely(!htw_timer_is_plain(t))) {
			__htw_list_del(entry);
			if (htw_collect_go_on(base, t, events[i].missed))
				continue;
			__htw_list_add(entry, last);
		}
		freed++;
		/*
		 * Most end here: they stay linked, and go to the free list
		 * together.
		 */
		if (likely(htw_timer_end(t)))
			last = entry;
		else
			__htw_list_del(entry);
	}
	list_cut_position(&ended, taken, last);
	base->wheel.pending += n - count;
	list_splice(taken, &base->wheel.due);
	if (freed)
		htw_ids_return(&base->ctx->ids, &ended, freed);
}

/*
 * Copy @count events. Return: how many have been copied as a whole; @to has
 * advanced by these.
 */
static u32 htw_collect_copy(const struct htw_event *events, u32 count, struct iov_iter *to)
{
	const size_t size = sizeof(*events);
	size_t bytes;
	u32 n;

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

/*
 * Somebody has looked at a base. If nothing is due any more, what will be is
 * told again. If something stays, nobody need be told, and all the time others
 * have seen that: one who queues himself now, and looks, must not go to sleep.
 */
static void htw_collect_looked(struct htw_base *base, bool due)
{
	lockdep_assert_held(&base->lock);

	if (due) {
		WRITE_ONCE(base->told, true);
		htw_base_mark(base);
		return;
	}
	/*
	 * In this order: htw_alarm_decide() and htw_base_tell() have the other
	 * one.
	 */
	clear_bit(htw_base_bit(base), READ_ONCE(base->ctx->work));
	smp_mb__after_atomic();	/* see above */
	htw_delay_atomic();
	WRITE_ONCE(base->told, false);
	WRITE_ONCE(base->again, 0);
}

/* What is left of a base. */
enum htw_left {
	HTW_LEFT_NONE,
	HTW_LEFT_DUE,		/* more that is due */
	HTW_LEFT_FAULT,		/* the same, but its event could not be copied */
	HTW_LEFT_MOVE,		/* buckets to be moved down */
};

/* Take events of a base. Return: how many were read. */
static u32 htw_collect_base(struct htw_base *base, struct iov_iter *to, u64 now,
			    enum htw_left *left)
{
	struct htw_event events[HTW_COLLECT_EVENTS] __uninitialized;
	u32 room = min_t(size_t, iov_iter_count(to) / sizeof(*events), HTW_COLLECT_EVENTS);
	unsigned int budget = HTW_BASE_LOOKS;
	u32 n, copied = 0;
	LIST_HEAD(taken);

	*left = HTW_LEFT_NONE;
	htw_base_lock(base, now);
	n = htw_collect_take(base, events, room, now, &taken, &budget);
	if (n) {
		copied = htw_collect_copy(events, n, to);
		htw_collect_end(base, events, copied, n, &taken);
	}
	if (copied < n)
		*left = HTW_LEFT_FAULT;
	else if (htw_base_look(base, now, &budget))
		*left = HTW_LEFT_DUE;
	else if (!budget)
		*left = HTW_LEFT_MOVE;
	htw_collect_looked(base, *left == HTW_LEFT_DUE || *left == HTW_LEFT_FAULT);
	if (copied)
		WRITE_ONCE(base->again, 0);
	htw_base_publish(base);
	htw_base_drop_lock(base);
	htw_base_check_alarm(base);
	/* Who is woken next may not run. */
	if (*left == HTW_LEFT_DUE && htw_wait_has_others(base->ctx))
		htw_alarm_again(base);
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

/*
 * The next base at which somebody should look, from @ctx->turn on; NULL if
 * there is none.
 */
static struct htw_base *htw_collect_next(struct htw_context *ctx)
{
	const unsigned int bits = htw_context_bits(ctx);
	const unsigned long *work = READ_ONCE(ctx->work);
	unsigned int bit = find_next_bit(work, bits, READ_ONCE(ctx->turn));

	if (bit >= bits)
		bit = find_first_bit(work, bits);
	if (bit >= bits)
		return NULL;
	WRITE_ONCE(ctx->turn, bit);
	return htw_context_at_bit(ctx, bit);
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

/*
 * Read what is due. The bases take turns: one that has more than fits comes
 * last in the next call.
 *
 * Return: bytes read; 0 if nothing is due; a negative error if nothing was
 * read.
 */
static ssize_t htw_collect_available(struct htw_context *ctx, struct iov_iter *to)
{
	const size_t size = sizeof(struct htw_event);
	u32 looks = HTW_COLLECT_LOOKS / HTW_BASE_LOOKS;
	u64 now = htw_clock_now(ctx->clock);
	struct htw_base *base;
	ssize_t done = 0;

	while (iov_iter_count(to) >= size && (base = htw_collect_next(ctx))) {
		enum htw_left left;

		for (;;) {
			u32 n = htw_collect_base(base, to, now, &left);

			done += n * size;
			/* An alarm may have rung since the clock was read. */
			if (!n)
				now = htw_clock_now(ctx->clock);
			if (left != HTW_LEFT_MOVE || !looks)
				break;
			looks--;
		}
		if (left == HTW_LEFT_FAULT) {
			/*
			 * Where memory is another program's, that may take for
			 * ever.
			 */
			htw_collect_pass_on(ctx);
			if (!htw_collect_fault_in(to))
				return done ?: -EFAULT;
		}
		if (fatal_signal_pending(current))
			return done ?: -EINTR;
		cond_resched();
	}
	WRITE_ONCE(ctx->turn, READ_ONCE(ctx->turn) + 1);
	return done;
}

/*
 * Who begins to wait, and has queued himself, sets what others did not get to
 * set.
 */
static void htw_collect_check_alarms(struct htw_context *ctx)
{
	const unsigned int bits = htw_context_bits(ctx);

	for (unsigned int bit = 0; bit < bits; bit++) {
		struct htw_base *base = htw_context_at_bit(ctx, bit);

		if (base)
			htw_base_check_alarm(base);
	}
}

/* Wait until there is a base at which somebody should look. */
static int htw_collect_wait(struct htw_context *ctx)
{
	DEFINE_WAIT(wait);
	int ret = 0;

	for (;;) {
		htw_delay();
		prepare_to_wait_exclusive(&ctx->readers, &wait, TASK_INTERRUPTIBLE);
		htw_delay_atomic();
		if (htw_context_has_work(ctx))
			break;
		htw_collect_check_alarms(ctx);
		if (signal_pending(current)) {
			ret = -ERESTARTSYS;
			break;
		}
		schedule();
	}
	finish_wait(&ctx->readers, &wait);
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
 * -EFAULT or -ERESTARTSYS.
 */
ssize_t htw_collect_read(struct htw_context *ctx, struct iov_iter *to, bool nonblock)
{
	bool waited = false;
	ssize_t ret;

	if (iov_iter_count(to) < sizeof(struct htw_event))
		return -EINVAL;

	for (;;) {
		/* A task that is dying takes nothing: nobody would see it. */
		if (fatal_signal_pending(current)) {
			ret = -EINTR;
			break;
		}
		ret = htw_collect_available(ctx, to);
		if (ret)
			break;
		if (nonblock) {
			ret = -EAGAIN;
			break;
		}
		waited = true;
		ret = htw_collect_wait(ctx);
		if (ret)
			break;
	}
	if (waited)
		htw_collect_pass_on(ctx);
	return ret;
}

/*
 * Is a timer of a base due? Move some buckets down; @budget: out: zero if there
 * are more.
 */
static bool htw_collect_look_at(struct htw_base *base, unsigned int *budget)
{
	const u64 now = htw_clock_now(base->ctx->clock);
	bool due;

	*budget = HTW_BASE_LOOKS;
	htw_base_lock(base, now);
	due = htw_base_look(base, now, budget);
	htw_collect_looked(base, due);
	htw_base_publish(base);
	/* Its alarm is set by the caller. */
	htw_base_drop_lock(base);
	return due;
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
	const unsigned int bits = htw_context_bits(ctx);
	bool due = false;

	for (unsigned int bit = 0; bit < bits && !due; bit++) {
		struct htw_base *base = htw_context_at_bit(ctx, bit);
		unsigned int budget;

		if (!base || !test_bit(bit, READ_ONCE(ctx->work)))
			continue;
		for (;;) {
			due = htw_collect_look_at(base, &budget);
			if (due || budget || !looks)
				break;
			looks--;
		}
		cond_resched();
	}
	htw_collect_check_alarms(ctx);
	return due;
}
