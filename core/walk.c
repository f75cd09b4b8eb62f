// SPDX-License-Identifier: GPL-2.0-only
/*
 * HTW_CANCEL_ALL, HTW_LIST and HTW_HARVEST: walks over all timers of a context
 *
 * A walk goes over the slots in the order of their numbers, up to those that
 * there were when it began, with the lock of one base held for some timers at a
 * time. What was started before stays in its slot until its id ends, so a walk
 * meets it. A slot that is used again during the walk may be met or not.
 */

#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "calls.h"
#include "copied.h"

static_assert(sizeof(struct htw_cancel_all_args) == 16);
static_assert(sizeof(struct htw_list_args) == 32);

/*
 * Timers that are visited, and slots, or pages that were given back, that are
 * looked at while a base's lock is held.
 */
#define HTW_WALK_TIMERS		16u
#define HTW_WALK_LOOKS		256u

/**
 * struct htw_walk - a walk in progress; on the stack of its task
 * @call: what it does with timers; a base is locked
 * @base: the base that is locked first in the next step, probably that of the
 *	next timer
 * @slot: the next one
 * @end: where it ends
 * @states: of &enum htw_list_flag: timers that it visits
 * @most: as many at most
 * @done: those that it has reported, or ended
 * @reports: it writes them to @to
 * @ends: it ends them
 * @to: the program's array
 * @found: timers of one base, the one that is locked
 */
struct htw_walk {
	struct htw_call call;
	struct htw_base *base;
	u32 slot;
	u32 end;
	u32 states;
	u32 most;
	u32 done;
	bool reports;
	bool ends;
	struct htw_timer_info __user *to;
	struct htw_timer *found[HTW_WALK_TIMERS];
};

static void htw_walk_init(struct htw_walk *w, struct htw_context *ctx, u32 slot, u32 states)
{
	*w = (struct htw_walk){};
	w->base = htw_context_guess(ctx);
	w->slot = slot;
	w->end = w->base ? htw_ids_pages(&ctx->ids) * HTW_PAGE_SLOTS : 0;
	w->states = states;
}

/* Is a timer, whose base is locked, in a state that the walk is for? */
static bool htw_walk_wants(const struct htw_walk *w, const struct htw_timer *t)
{
	return w->states & BIT(htw_call_state(&w->call, t) - HTW_STATE_PENDING);
}

/*
 * The timer in the next slot, if it is alive, with its base locked. Return:
 * NULL if it is not, or if it is of another base than those that have been
 * found: then @other is set.
 */
static struct htw_timer *htw_walk_lock(struct htw_walk *w, bool found, bool *other)
{
	struct htw_timer *t = htw_call_look_up(&w->call, w->slot);

	if (htw_ids_page(&w->call.ctx->ids, t) == htw_pages_hole()) {
		/* Its last slot. */
		w->slot |= HTW_PAGE_SLOTS - 1;
		return NULL;
	}
	if (htw_base_has(w->call.base, t))
		return t;
	if (!(READ_ONCE(t->key) & HTW_TIMER_LIVE))
		return NULL;
	*other = found;
	return found ? NULL : htw_call_lock_slot(&w->call, t, w->slot);
}

/*
 * Find the next timers that are of one base, and leave that locked. Return: how
 * many, up to @most; perhaps none, though there are more.
 */
static u32 htw_walk_step(struct htw_walk *w, struct htw_context *ctx, u32 most)
{
	u32 looks = HTW_WALK_LOOKS, n = 0;
	bool other = false;

	htw_call_begin(&w->call, ctx, w->base);
	w->call.relocked = false;
	/* Taking another lock may have moved nodes down: the step ends, and others run. */
	for (; w->slot < w->end && n < most && looks && !w->call.relocked; w->slot++, looks--) {
		struct htw_timer *t = htw_walk_lock(w, n, &other);

		if (t && htw_walk_wants(w, t))
			w->found[n++] = t;
		if (other)
			break;
	}
	return n;
}

static void htw_walk_cancel(struct htw_walk *w, struct htw_timer *t)
{
	if (trace_htw_cancel_enabled())
		trace_htw_cancel(w->call.ctx, htw_ids_number(&w->call.ctx->ids, t), 0);
	htw_call_cancel(&w->call, t);
}

/*
 * Report the timers that a step has found. Memory that is not present is not
 * waited for. Return: how many have been written; the walk goes on at the first
 * that has not.
 */
static u32 htw_walk_report(struct htw_walk *w, u32 n)
{
	struct htw_timer_info entries[HTW_WALK_TIMERS];
	u32 written;

	for (u32 i = 0; i < n; i++)
		htw_call_report(&w->call, w->found[i], &entries[i]);
	pagefault_disable();
	written = htw_copy_out(w->to + w->done, entries, n, sizeof(*entries));
	pagefault_enable();
	if (written < n)
		w->slot = lower_32_bits(htw_ids_number(&w->call.ctx->ids, w->found[written]));
	return written;
}

/*
 * Walk: report timers, end those whose entries have been written, or do either.
 * Return: 0 or a negative error; @w->done says what has been done.
 */
static int htw_walk_run(struct htw_walk *w, struct htw_context *ctx)
{
	while (w->done < w->most && w->slot < w->end) {
		u32 n = htw_walk_step(w, ctx, min(w->most - w->done, HTW_WALK_TIMERS));
		u32 written = w->reports ? htw_walk_report(w, n) : n;

		for (u32 i = 0; w->ends && i < written; i++)
			htw_walk_cancel(w, w->found[i]);
		w->done += written;
		w->base = w->call.base;
		htw_call_unlock(&w->call);
		htw_pages_shrink(ctx, HTW_WALK_TIMERS);
		cond_resched();

		if (fatal_signal_pending(current))
			return -EINTR;
		/* Have the memory present, or know that it cannot be. */
		if (written < n && clear_user(w->to + w->done, sizeof(*w->to)))
			return -EFAULT;
		/* Not for the work of a completion of io_uring, which is no signal. */
		if (w->reports && task_sigpending(current))
			return -EINTR;
	}
	return 0;
}

/**
 * htw_walk_cancel_all() - HTW_CANCEL_ALL
 * @ctx: the context
 * @arg: out: how many timers have ended
 *
 * Context: may sleep.
 * Return: as described at &struct htw_cancel_all_args.
 */
long htw_walk_cancel_all(struct htw_context *ctx, struct htw_cancel_all_args __user *arg)
{
	struct htw_cancel_all_args all;
	struct htw_walk w;
	int ret;

	if (copy_from_user(&all, arg, sizeof(all)))
		return -EFAULT;
	if (all.flags | all.reserved)
		return -EINVAL;
	if (put_user(0, &arg->count))
		return -EFAULT;
	htw_walk_init(&w, ctx, 0, HTW_LIST_PENDING | HTW_LIST_DUE | HTW_LIST_DISARMED);
	w.most = U32_MAX;
	w.ends = true;
	ret = htw_walk_run(&w, ctx);
	if (ret)
		return ret;
	return put_user((u64)w.done, &arg->count) ? -EFAULT : 0;
}

/**
 * htw_walk_list() - HTW_LIST and HTW_HARVEST
 * @ctx: the context
 * @arg: the program's array and where to go on
 * @harvest: end the timers
 *
 * Context: may sleep.
 * Return: as described at &struct htw_list_args.
 */
long htw_walk_list(struct htw_context *ctx, struct htw_list_args __user *arg, bool harvest)
{
	u32 all = HTW_LIST_PENDING | HTW_LIST_DUE | HTW_LIST_DISARMED;
	struct htw_list_args list;
	struct htw_walk w;
	int ret;

	if (copy_from_user(&list, arg, sizeof(list)))
		return -EFAULT;
	if (list.flags & ~all || list.reserved || list.cursor > U32_MAX)
		return -EINVAL;

	/* Before a harvest ends a timer. */
	if (put_user(0, &arg->done) || put_user(list.cursor, &arg->cursor))
		return -EFAULT;

	htw_walk_init(&w, ctx, list.cursor, list.flags ?: all);
	w.most = list.count;
	w.reports = true;
	w.ends = harvest;
	w.to = u64_to_user_ptr(list.entries);
	ret = htw_walk_run(&w, ctx);
	if (ret == -EFAULT && !w.done)
		return ret;

	/*
	 * Also if a signal has ended it before it found a timer: the next call
	 * goes on there.
	 */
	if (put_user(w.done, &arg->done) || put_user((u64)w.slot, &arg->cursor))
		return -EFAULT;
	return w.done ? 0 : ret;
}
