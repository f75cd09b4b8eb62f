// SPDX-License-Identifier: GPL-2.0-only
/*
 * HTW_F_CANCEL_ON_SET: expire timers when CLOCK_REALTIME is set
 *
 * The timekeeper's notifier runs under the timekeeper's lock, with interrupts
 * off. It only increments the count and queues an irq_work, which queues a work
 * item: queueing work may read the clock, which must not happen while the clock
 * is being written. The work then has each user's work item walk the timers of
 * that user's listening contexts, so that a user with millions of them does not
 * delay the others.
 *
 * A timer keeps the low two bits of the count at which it was armed
 * (HTW_TIMER_SETS). If they differ from the present count, the clock was set
 * since, and the walk expires the timer. The event of a timer that had expired
 * already is flagged by the walk or by the reader, whichever comes first. A
 * context keeps the count of its last complete walk. If the two bits may have
 * wrapped around since, all its timers count as older: a timer may expire
 * without need, but is never missed.
 *
 * A walk cannot miss a timer that is being armed. The count is read under the
 * lock of the base that the timer is armed on, and the walk begins by taking
 * and dropping each of these locks. A timer armed before that is found by the
 * walk; one armed later has the new count. So has one on a base, or of a
 * context, that the walk did not find yet: both are published before, with a
 * full barrier.
 */

#include <linux/irq_work.h>
#include <linux/kcov.h>
#include <linux/pvclock_gtod.h>
#include <linux/timekeeper_internal.h>

#include "cancel_on_set.h"
#include "clock_sets.h"
#include "delivery.h"
#include "section.h"
#include "wake.h"

/* Offset of CLOCK_REALTIME to CLOCK_MONOTONIC (the timekeeper's lock). */
static ktime_t htw_clock_offset;

static void htw_cancel_on_set_notify_user(struct htw_user *user, void *unused)
{
	/* Unlocked: a context that listens only now has no timer that was armed before. */
	if (!list_empty_careful(&user->listeners))
		queue_work(htw_wq, &user->clock_work);
}

static void htw_cancel_on_set_notify_all(struct work_struct *work)
{
	htw_users_for_each(htw_cancel_on_set_notify_user, NULL);
}

static DECLARE_WORK(htw_cancel_on_set_work, htw_cancel_on_set_notify_all);

static void htw_cancel_on_set_queue(struct irq_work *work)
{
	queue_work(htw_wq, &htw_cancel_on_set_work);
}

static DEFINE_IRQ_WORK(htw_cancel_on_set_irq_work, htw_cancel_on_set_queue);

/*
 * Called at each update of the timekeeper, that is, each tick. @was_set is also
 * true for a new clocksource or offset of TAI, hence the comparison.
 */
static int htw_cancel_on_set_notify(struct notifier_block *nb,
				    unsigned long was_set, void *data)
{
	const struct timekeeper *tk = data;

	if (!was_set || tk->offs_real == htw_clock_offset)
		return NOTIFY_DONE;
	htw_clock_offset = tk->offs_real;
	/* Within the clock's seqcount: a reader of the new time also reads the new count. */
	atomic_inc(&htw_clock_sets);
	irq_work_queue(&htw_cancel_on_set_irq_work);
	return NOTIFY_OK;
}

static struct notifier_block htw_cancel_on_set_notifier = {
	.notifier_call = htw_cancel_on_set_notify,
};

/* Was the clock set since a timer was armed, so that it expires? */
static bool htw_cancel_on_set_for(const struct htw_context *ctx,
				  struct htw_timer *t,
				  enum htw_timer_state state)
{
	switch (state) {
	case HTW_PENDING:
	case HTW_REARM:
		/* If the table disarms it, its event will say so when it is armed again. */
		return htw_clock_sets_check(ctx, t) &&
		       htw_context_override(ctx, t) != HTW_DISARMED;
	case HTW_EXPIRED:
		return htw_clock_sets_check(ctx, t);
	default:
		return false;
	}
}

/* Expire a timer that was armed before the clock was set. */
static void htw_cancel_on_set_expire(struct htw_section *s, struct htw_delivery *delivery,
				     struct htw_timer *t, enum htw_timer_state state)
{
	switch (state) {
	case HTW_PENDING:
		htw_base_stop(s->base, &t->node);
		spin_lock(&s->ctx->lock);
		htw_delivery_clock_set(delivery, t);
		spin_unlock(&s->ctx->lock);
		break;
	case HTW_REARM:
		list_del(&t->node.list);
		htw_delivery_clock_set(delivery, t);
		break;
	default:	/* queued already; htw_clock_sets_check() has flagged its event */
		break;
	}
}

/* One section's part of a page, from index @i on. Return: the index to go on with. */
static u32 htw_cancel_on_set_walk_some(struct htw_context *ctx, u32 page, u32 i)
{
	struct htw_delivery delivery;
	struct htw_timer *timers;
	struct htw_section s;

	htw_delivery_begin(&delivery, NULL, NULL);
	htw_section_begin(&s, ctx);
	/* Until the waiters are woken: a task preempted in between would keep them asleep. */
	local_bh_disable();
	rcu_read_lock();
	timers = htw_section_page(&s, page)->timers;
	do {
		struct htw_timer *t = &timers[i];
		enum htw_timer_state state;

		if (!htw_timer_is_live(t))
			continue;
		state = htw_section_lock_timer(&s, t);
		if (htw_cancel_on_set_for(ctx, t, state))
			htw_cancel_on_set_expire(&s, &delivery, t, state);
		htw_section_unlock_timer(&s, state);
	} while (++i < HTW_PAGE_TIMERS && !htw_section_should_end(&s, 1));
	htw_section_end(&s);
	htw_delivery_wake(&delivery);
	rcu_read_unlock();
	local_bh_enable();
	return i;
}

/* Wait until timers that are being armed with the old count are in a wheel. */
static void htw_cancel_on_set_wait_for_adds(struct htw_context *ctx)
{
	unsigned int cpu;

	/* After the count was read, look for bases: pairs with htw_bases_publish(). */
	smp_mb();
	for_each_possible_cpu(cpu) {
		struct htw_base *base = ctx->private_base ?:
						htw_bases_on(ctx->bases, cpu);

		if (base) {
			spin_lock_bh(&base->lock);
			spin_unlock_bh(&base->lock);
		}
		if (ctx->private_base)
			break;
	}
}

static void htw_cancel_on_set_walk(struct htw_context *ctx)
{
	u32 sets = htw_clock_sets_count();

	if (sets == ctx->sets_seen)
		return;
	htw_cancel_on_set_wait_for_adds(ctx);
	for (u32 page = 0; page < htw_section_pages(ctx); page++) {
		for (u32 i = 0; i < HTW_PAGE_TIMERS;) {
			i = htw_cancel_on_set_walk_some(ctx, page, i);
			cond_resched();
		}
	}
	/* If the clock was set meanwhile, this work has been queued again. */
	WRITE_ONCE(ctx->sets_seen, sets);
}

/* &htw_user.clock_work: walk the timers of a user's listening contexts. */
void htw_cancel_on_set_walk_user(struct work_struct *work)
{
	struct htw_user *user = container_of(work, struct htw_user, clock_work);
	struct htw_context *ctx;

	kcov_remote_start_common(user->kcov_handle);
	mutex_lock(&user->listeners_mutex);
	list_for_each_entry(ctx, &user->listeners, listener) {
		htw_cancel_on_set_walk(ctx);
		cond_resched();
	}
	mutex_unlock(&user->listeners_mutex);
	kcov_remote_stop();
}

/**
 * htw_cancel_on_set_listen() - allow a context timers with %HTW_TIMER_CANCEL_ON_SET
 * @ctx: the context, on CLOCK_REALTIME and without a timer
 *
 * Context: may sleep, as long as the user's contexts are walked; called once
 * for a context, by HTW_SETUP.
 */
void htw_cancel_on_set_listen(struct htw_context *ctx)
{
	mutex_lock(&ctx->user->listeners_mutex);
	ctx->sets_seen = htw_clock_sets_count();
	list_add_tail(&ctx->listener, &ctx->user->listeners);
	/*
	 * On the list before a timer is stamped with the count. Pairs with the queueing of
	 * htw_cancel_on_set_work, between the increment and the look at the list.
	 */
	smp_mb();
	/* Pairs with htw_context_listens(): @sets_seen is set before the first timer. */
	smp_store_release(&ctx->listens, true);
	mutex_unlock(&ctx->user->listeners_mutex);
}

/* Undo htw_cancel_on_set_listen(), if it was called; no timer is added any more. May sleep. */
void htw_cancel_on_set_leave(struct htw_context *ctx)
{
	if (!ctx->listens)
		return;
	mutex_lock(&ctx->user->listeners_mutex);
	list_del(&ctx->listener);
	mutex_unlock(&ctx->user->listeners_mutex);
}

/* Have the timekeeper notify us, until htw_cancel_on_set_exit(). Costs a comparison per tick. */
void htw_cancel_on_set_init(void)
{
	pvclock_gtod_register_notifier(&htw_cancel_on_set_notifier);
}

/* May sleep. */
void htw_cancel_on_set_exit(void)
{
	/* In this order, as each of the three may have queued the next one. */
	pvclock_gtod_unregister_notifier(&htw_cancel_on_set_notifier);
	irq_work_sync(&htw_cancel_on_set_irq_work);
	cancel_work_sync(&htw_cancel_on_set_work);
}
