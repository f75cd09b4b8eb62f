// SPDX-License-Identifier: GPL-2.0-only
/*
 * HTW_F_CANCEL_ON_SET: timers that expire when CLOCK_REALTIME is set
 *
 * The timekeeper tells of its updates under its own lock, in hardirq or with
 * interrupts off. There we only count that the clock was set, and ask for an
 * irq_work, which asks for work: waking up a worker reads the clock, which
 * must not happen while it is being written. The work has each context that
 * listens walk its timers, in work of its own, so that one with a million of
 * them keeps no other waiting.
 *
 * A timer knows the count as of which it was armed, by its last two bits. One
 * that was armed before the clock was set is so told from one that was armed
 * since, and whoever comes to it first tells it: the walk, or a reader to
 * whom it had expired anyway. A context knows for which count its last walk
 * was; where the bits have run round since, all timers are taken to be older.
 * That may tell one of them too much, but never too little.
 *
 * A walk cannot miss one that is just being armed. That happens under a
 * base's lock, the count is read there, and the walk begins by taking each of
 * these locks once: who held it before has armed its timer by then, and who
 * takes it afterwards reads the new count.
 */

#include <linux/irq_work.h>
#include <linux/pvclock_gtod.h>
#include <linux/timekeeper_internal.h>

#include "clock_sets.h"
#include "clock_was_set.h"
#include "expire.h"
#include "submit.h"
#include "wake.h"

/* What it is ahead of CLOCK_MONOTONIC; the notifier's, under the timekeeper's lock. */
static ktime_t htw_clock_offset;

/* Guards what follows, and htw_context.listens. */
static DEFINE_MUTEX(htw_listeners_mutex);
static LIST_HEAD(htw_listeners);
static bool htw_is_notified;

static void htw_clockset_notify_all(struct work_struct *work)
{
	struct htw_context *ctx;

	mutex_lock(&htw_listeners_mutex);
	list_for_each_entry(ctx, &htw_listeners, listener) {
		queue_work(htw_wq, &ctx->set_work);
		cond_resched();
	}
	mutex_unlock(&htw_listeners_mutex);
}

static DECLARE_WORK(htw_clockset_work, htw_clockset_notify_all);

static void htw_clockset_queue(struct irq_work *work)
{
	queue_work(htw_wq, &htw_clockset_work);
}

static DEFINE_IRQ_WORK(htw_clockset_irq_work, htw_clockset_queue);

/*
 * The timekeeper was updated, which it is at each tick. That the clock "was
 * set" is also said where its source changed or TAI's offset did.
 */
static int htw_clockset_notify(struct notifier_block *nb, unsigned long was_set, void *data)
{
	const struct timekeeper *tk = data;

	if (!was_set || tk->offs_real == htw_clock_offset)
		return NOTIFY_DONE;
	htw_clock_offset = tk->offs_real;
	/* Who reads the new time reads this: both are within the clock's seqcount. */
	atomic_inc(&htw_clock_sets);
	irq_work_queue(&htw_clockset_irq_work);
	return NOTIFY_OK;
}

static struct notifier_block htw_clockset_notifier = {
	.notifier_call = htw_clockset_notify,
};

/* Expires a timer that was armed before the clock was set. */
static void htw_clockset_expire(struct htw_submit *s, struct htw_delivery *delivery,
				struct htw_timer *t, enum htw_timer_state state)
{
	switch (state) {
	case HTW_PENDING:
		htw_base_stop(s->base, &t->node);
		spin_lock(&s->ctx->lock);
		htw_deliver_clock_set(delivery, t, s->now);
		spin_unlock(&s->ctx->lock);
		break;
	case HTW_REARM:
		list_del(&t->node.list);
		htw_deliver_clock_set(delivery, t, s->now);
		break;
	default:	/* expired, and now its event says why as well */
		break;
	}
}

static void htw_clockset_walk_page(struct htw_context *ctx, u32 nr)
{
	struct htw_delivery delivery;
	struct htw_timer *timers;
	struct htw_submit s;

	htw_delivery_begin(&delivery, NULL);
	htw_submit_begin(&s, ctx);
	timers = htw_submit_page(&s, nr)->timers;
	for (u32 i = 0; i < HTW_PAGE_TIMERS; i++) {
		struct htw_timer *t = &timers[i];
		enum htw_timer_state state;

		if (!htw_timer_is_live(t))
			continue;
		state = htw_submit_lock_timer(&s, t);
		if ((state == HTW_PENDING || state == HTW_REARM || state == HTW_EXPIRED) &&
		    htw_clockset_look(ctx, t))
			htw_clockset_expire(&s, &delivery, t, state);
		htw_submit_unlock_timer(&s, state);
	}
	htw_submit_end(&s);
	htw_delivery_wake(&delivery, false);
}

/* Lets those go on that are arming a timer and may have read the old count. */
static void htw_clockset_wait_for_adds(struct htw_context *ctx)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		struct htw_base *base = ctx->own ?: htw_base_on(ctx->bases, cpu);

		if (base) {
			spin_lock_bh(&base->lock);
			spin_unlock_bh(&base->lock);
		}
		if (ctx->own)
			break;
	}
}

static void htw_clockset_walk(struct work_struct *work)
{
	struct htw_context *ctx = container_of(work, struct htw_context, set_work);
	const u32 sets = htw_clockset_count();

	if (sets == ctx->sets_seen)
		return;
	htw_clockset_wait_for_adds(ctx);
	for (u32 i = 0; i < htw_context_pages(ctx); i++) {
		htw_clockset_walk_page(ctx, i);
		cond_resched();
	}
	/* If it was set meanwhile, this work has been queued again. */
	WRITE_ONCE(ctx->sets_seen, sets);
}

/**
 * htw_clockset_listen() - a context is to have timers with
 * %HTW_TIMER_CANCEL_ON_SET
 * @ctx: the context, which has no timer yet
 *
 * The first one has the timekeeper tell us of its updates; it goes on until
 * the module is unloaded, as all that takes is a comparison a tick.
 *
 * Context: may sleep.
 * Return: 0, or -EINVAL where the context's clock is not CLOCK_REALTIME.
 */
int htw_clockset_listen(struct htw_context *ctx)
{
	if (READ_ONCE(ctx->clock) != HTW_BASE_REALTIME)
		return -EINVAL;
	/* Pairs with the release below. */
	if (smp_load_acquire(&ctx->listens))
		return 0;
	mutex_lock(&htw_listeners_mutex);
	if (!htw_is_notified) {
		pvclock_gtod_register_notifier(&htw_clockset_notifier);
		htw_is_notified = true;
	}
	if (!ctx->listens) {
		INIT_WORK(&ctx->set_work, htw_clockset_walk);
		ctx->sets_seen = htw_clockset_count();
		list_add_tail(&ctx->listener, &htw_listeners);
		/* Pairs with the acquire above: its timers are older than no walk. */
		smp_store_release(&ctx->listens, true);
	}
	mutex_unlock(&htw_listeners_mutex);
	return 0;
}

/**
 * htw_clockset_leave() - undoes htw_clockset_listen(), if that was called
 * @ctx: the context, to which no timer is added any more
 *
 * Context: may sleep.
 */
void htw_clockset_leave(struct htw_context *ctx)
{
	if (!ctx->listens)
		return;
	mutex_lock(&htw_listeners_mutex);
	list_del(&ctx->listener);
	mutex_unlock(&htw_listeners_mutex);
	cancel_work_sync(&ctx->set_work);
}

/**
 * htw_clockset_exit() - stops being told; nobody listens any more
 *
 * Context: process, may sleep.
 */
void htw_clockset_exit(void)
{
	if (!htw_is_notified)
		return;
	/* Each of the three may have asked for the next one. */
	pvclock_gtod_unregister_notifier(&htw_clockset_notifier);
	irq_work_sync(&htw_clockset_irq_work);
	cancel_work_sync(&htw_clockset_work);
}
