// SPDX-License-Identifier: GPL-2.0-only
/*
 * Operations on all timers of a context: HTW_CANCEL_ALL, HTW_LIST, HTW_HARVEST
 * and HTW_NEXT
 *
 * Pages are walked in order, each in a separate section, and each slot is
 * visited once: a timer that exists throughout is met exactly once, even while
 * others are added, cancelled and moved.
 */

#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "copied.h"
#include "ops.h"
#include "pool.h"
#include "section.h"
#include "walk.h"

/* Timers in the first bucket that HTW_NEXT looks at, before it looks at all timers instead. */
#define HTW_NEXT_LOOKS		63u

static_assert(sizeof(struct htw_cancel_all) == 32);
static_assert(sizeof(struct htw_list) == 48);
static_assert(sizeof(struct htw_next) == 72);

/**
 * htw_walk_cancel() - cancel all timers of a page
 * @ctx: the context, settled
 * @page: number of the page, below htw_context_pages()
 * @flags: as &htw_cancel.flags
 *
 * Return: how many were pending, or kept and disarmed.
 */
u64 htw_walk_cancel(struct htw_context *ctx, u32 page, u32 flags)
{
	struct htw_timer *timers;
	struct htw_section s;
	u64 count = 0;
	u32 i = 0;

	while (i < HTW_PAGE_TIMERS) {
		htw_section_begin(&s, ctx);
		timers = htw_section_page(&s, page)->timers;
		do {
			struct htw_cancel cancel = { .flags = flags };
			struct htw_timer *t = &timers[i];

			if (!htw_timer_is_live(t))
				continue;
			/* If the slot is reused from here on, this id is stale. */
			cancel.id = htw_timer_id(t);
			count += !htw_section_cancel(&s, t, &cancel, false);
		} while (++i < HTW_PAGE_TIMERS &&
			 !htw_section_should_end(&s, 1));
		htw_section_end(&s);
	}
	return count;
}

/**
 * htw_op_cancel_all() - HTW_CANCEL_ALL
 * @ctx: the context
 * @arg: the program's &struct htw_cancel_all
 *
 * Context: may sleep.
 * Return: as described at &struct htw_cancel_all.
 */
long htw_op_cancel_all(struct htw_context *ctx,
		       struct htw_cancel_all __user *arg)
{
	struct htw_cancel_all all;
	u64 count = 0;

	if (copy_from_user(&all, arg, sizeof(all)))
		return -EFAULT;
	if (all.flags & ~HTW_CANCEL_DISCARD || all.reserved[0] ||
	    all.reserved[1] || !htw_op_ring_tail_is_valid(ctx, all.ring_tail))
		return -EINVAL;

	/* Fail before any timer is cancelled if the result cannot be written. */
	if (put_user(all.count, &arg->count))
		return -EFAULT;

	for (u32 page = 0; page < htw_section_pages(ctx); page++) {
		count += htw_walk_cancel(ctx, page, all.flags);
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}

	if (put_user(count, &arg->count) ||
	    put_user(htw_context_ring_tail(ctx), &arg->ring_tail))
		return -EFAULT;
	return 0;
}

/* Stop and free a pending timer. */
static void htw_walk_take(struct htw_section *s, struct htw_timer *t,
			  enum htw_timer_state state)
{
	if (state == HTW_PENDING)
		htw_base_stop(s->base, &t->node);
	else
		list_del(&t->node.list);
	htw_section_free(s, t);
}

/* The &enum htw_list_flag that selects an entry. */
static u32 htw_walk_flag(const struct htw_query *query)
{
	switch (query->state) {
	case HTW_STATE_PENDING:
		return HTW_LIST_PENDING;
	case HTW_STATE_EXPIRED:
		return HTW_LIST_EXPIRED;
	default:
		return HTW_LIST_DISARMED;
	}
}

/*
 * Lock the timer in a slot and describe it in @entry.
 *
 * Return: the timer; NULL, and nothing is locked, if there is none.
 */
static struct htw_timer *htw_walk_lock(struct htw_section *s, u32 slot,
				       enum htw_timer_state *state,
				       struct htw_query *entry)
{
	struct htw_timer *t = htw_section_find(s, slot);

	if (!htw_timer_is_live(t))
		return NULL;
	*state = htw_section_lock_timer(s, t);
	if (*state == HTW_FREE || *state == HTW_RESERVED) {
		htw_section_unlock_timer(s, *state);
		return NULL;
	}
	htw_timer_fill_query(t, *state, htw_context_override(s->ctx, t), s->now, entry);
	return t;
}

/**
 * htw_walk_list() - list timers of a page, as many as one section may look at
 * @ctx: the context, settled
 * @slot: first slot, in a page below htw_context_pages(); on return, where to
 *	go on
 * @entries: output
 * @room: size of @entries, at least 1
 * @which: of &enum htw_list_flag
 *
 * Return: the number of entries.
 */
u32 htw_walk_list(struct htw_context *ctx, u32 *slot, struct htw_query *entries,
		  u32 room, u32 which)
{
	u32 end = round_down(*slot, HTW_PAGE_SLOTS) + HTW_PAGE_SLOTS;
	struct htw_section s;
	u32 n = 0;

	htw_section_begin(&s, ctx);
	do {
		enum htw_timer_state state;

		if (!htw_walk_lock(&s, *slot, &state, &entries[n]))
			continue;
		htw_section_unlock_timer(&s, state);
		n += !!(htw_walk_flag(&entries[n]) & which);
	} while (++*slot < end && n < room && !htw_section_should_end(&s, 1));
	htw_section_end(&s);
	return n;
}

/* Write an entry without sleeping; false if that would fault. */
static bool htw_walk_put(struct htw_query __user *to,
			 const struct htw_query *entry)
{
	bool written;

	pagefault_disable();
	written = !copy_to_user(to, entry, sizeof(*entry));
	pagefault_enable();
	return written;
}

/*
 * Take pending timers out of a page. *@slot is as for htw_walk_list(). Entries
 * are written to @entries of the program, which has room for @room, at least 1.
 * *@stuck says whether writing the next one would fault.
 *
 * A timer is taken out only after its entry has been written, and under the
 * same lock, so it never has to be put back.
 *
 * Return: how many were taken out.
 */
static u32 htw_walk_harvest(struct htw_context *ctx, u32 *slot,
			    struct htw_query __user *entries, u32 room,
			    bool *stuck)
{
	u32 end = round_down(*slot, HTW_PAGE_SLOTS) + HTW_PAGE_SLOTS;
	struct htw_section s;
	u32 n = 0;

	*stuck = false;
	htw_section_begin(&s, ctx);
	do {
		enum htw_timer_state state;
		struct htw_query entry;
		struct htw_timer *t;

		t = htw_walk_lock(&s, *slot, &state, &entry);
		if (!t)
			continue;
		if (entry.state == HTW_STATE_PENDING) {
			*stuck = !htw_walk_put(entries + n, &entry);
			if (!*stuck) {
				htw_walk_take(&s, t, state);
				n++;
			}
		}
		htw_section_unlock_timer(&s, state);
		if (*stuck)
			break;
	} while (++*slot < end && n < room && !htw_section_should_end(&s, 2));
	htw_section_end(&s);
	return n;
}

/*
 * List some timers from *@slot on, through the buffer @entries.
 *
 * Return: how many were written to @user; -EFAULT if none could be, though
 * there are some.
 */
static int htw_walk_list_batch(struct htw_context *ctx, u32 *slot,
			       struct htw_query __user *user, u32 room,
			       u32 which, struct htw_query *entries)
{
	u32 n = htw_walk_list(ctx, slot, entries, room, which);
	u32 written = htw_copy_out(user, entries, n, sizeof(*entries));

	if (written == n)
		return n;
	*slot = HTW_ID_SLOT(entries[written].id);
	return written ?: -EFAULT;
}

/*
 * The same for HTW_HARVEST. Memory is faulted in by writing to it, which fails
 * for any reason that keeps an entry from being written.
 */
static int htw_walk_harvest_batch(struct htw_context *ctx, u32 *slot,
				  struct htw_query __user *user, u32 room)
{
	bool stuck;
	u32 n;

	n = htw_walk_harvest(ctx, slot, user, room, &stuck);
	if (stuck && !n && clear_user(user, sizeof(*user)))
		return -EFAULT;
	return n;
}

/*
 * List or harvest timers from @list->cursor on, as many as there is room for.
 * To list them, @entries is a buffer for a page's.
 *
 * Return: 0; -EFAULT or -EINTR if no entry was written.
 */
static int htw_walk_list_all(struct htw_context *ctx, struct htw_list *list,
			     bool harvest, struct htw_query *entries)
{
	struct htw_query __user *user = u64_to_user_ptr(list->entries);
	u32 which = list->flags ?: HTW_LIST_PENDING;

	list->done = 0;
	while (list->done < list->count &&
	       list->cursor / HTW_PAGE_SLOTS < htw_section_pages(ctx)) {
		u32 room = min(list->count - list->done, HTW_PAGE_TIMERS);
		u32 slot = list->cursor;
		int n;

		if (harvest)
			n = htw_walk_harvest_batch(ctx, &slot,
						   user + list->done, room);
		else
			n = htw_walk_list_batch(ctx, &slot, user + list->done,
						room, which, entries);
		if (n < 0)
			return list->done ? 0 : n;
		list->done += n;
		list->cursor = slot;
		/* Without an entry, -EINTR would lose the cursor: go on unless killed. */
		if (list->done ? signal_pending(current) : fatal_signal_pending(current))
			return list->done ? 0 : -EINTR;
		cond_resched();
	}
	return 0;
}

/**
 * htw_op_list() - HTW_LIST and HTW_HARVEST
 * @ctx: the context
 * @arg: the program's &struct htw_list
 * @harvest: which of the two
 *
 * Context: may sleep.
 * Return: as described at &struct htw_list.
 */
long htw_op_list(struct htw_context *ctx, struct htw_list __user *arg,
		 bool harvest)
{
	u32 known = harvest ? 0 : HTW_LIST_PENDING | HTW_LIST_EXPIRED | HTW_LIST_DISARMED;
	struct htw_query *entries = NULL;
	struct htw_list list;
	int ret;

	if (copy_from_user(&list, arg, sizeof(list)))
		return -EFAULT;
	if (list.cursor > U32_MAX || list.flags & ~known || list.reserved[0] ||
	    list.reserved[1])
		return -EINVAL;
	if (harvest ? !htw_op_ring_tail_is_valid(ctx, list.ring_tail) : list.reserved0)
		return -EINVAL;

	/* Fail before any timer is taken out if the result cannot be written. */
	if (copy_to_user(arg, &list, sizeof(list)))
		return -EFAULT;

	if (!harvest) {
		entries = kmalloc_array(HTW_PAGE_TIMERS, sizeof(*entries),
					GFP_KERNEL);
		if (!entries)
			return -ENOMEM;
	}

	ret = htw_walk_list_all(ctx, &list, harvest, entries);
	kfree(entries);
	if (ret)
		return ret;

	if (harvest)
		list.ring_tail = htw_context_ring_tail(ctx);
	return copy_to_user(arg, &list, sizeof(list)) ? -EFAULT : 0;
}

/* Copy the timer of a page that expires first to @next, if it does so before @next. */
static void htw_walk_next_in_page(struct htw_context *ctx, u32 page,
				  struct htw_query *next)
{
	u32 end = (page + 1) * HTW_PAGE_SLOTS;
	u32 slot = end - HTW_PAGE_TIMERS;
	struct htw_section s;

	while (slot < end) {
		htw_section_begin(&s, ctx);
		do {
			enum htw_timer_state state;
			struct htw_query entry;

			if (!htw_walk_lock(&s, slot, &state, &entry))
				continue;
			htw_section_unlock_timer(&s, state);
			if (entry.state == HTW_STATE_PENDING &&
			    (!next->id || entry.deadline < next->deadline))
				*next = entry;
		} while (++slot < end && !htw_section_should_end(&s, 1));
		htw_section_end(&s);
	}
}

/* Are all pending timers in the private wheel, with the deadlines that count? */
static bool htw_walk_wheel_has_all(const struct htw_context *ctx)
{
	lockdep_assert_held(&ctx->lock);

	/* Timers on @rearm are pending, but not in the wheel yet. */
	return list_empty(&ctx->rearm) && !ctx->table;
}

/*
 * Look up the first timer in the context's private wheel, without visiting all
 * pages.
 *
 * Return: false if that is not possible: there is none, a table of deadlines
 * overrides it, or its first bucket holds too many timers.
 */
static bool htw_walk_next_in_wheel(struct htw_context *ctx,
				   struct htw_query *next)
{
	struct htw_node *n;
	struct htw_section s;
	bool found;

	if (!ctx->private_base || READ_ONCE(ctx->table))
		return false;
	htw_section_begin(&s, ctx);
	spin_lock(&ctx->lock);
	found = htw_walk_wheel_has_all(ctx);
	spin_unlock(&ctx->lock);
	found = found &&
		htw_wheel_first_node(&s.base->wheel, HTW_NEXT_LOOKS, &n);
	if (found && n)
		htw_timer_fill_query(container_of(n, struct htw_timer, node.node),
				     HTW_PENDING, 0, s.now, next);
	htw_section_end(&s);
	return found;
}

/* Fill in the pending timer that expires first. Return 0, -ENOENT or -EINTR. */
static int htw_walk_next(struct htw_context *ctx, struct htw_query *next)
{
	next->id = 0;
	if (!htw_context_is_settled(ctx))
		return -ENOENT;
	if (htw_walk_next_in_wheel(ctx, next))
		return next->id ? 0 : -ENOENT;
	for (u32 page = 0; page < htw_section_pages(ctx); page++) {
		htw_walk_next_in_page(ctx, page, next);
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return next->id ? 0 : -ENOENT;
}

/**
 * htw_op_next() - HTW_NEXT
 * @ctx: the context
 * @arg: the program's &struct htw_next
 *
 * Context: may sleep.
 * Return: as described at &struct htw_next.
 */
long htw_op_next(struct htw_context *ctx, struct htw_next __user *arg)
{
	struct htw_next next;
	int ret;

	if (copy_from_user(&next, arg, sizeof(next)))
		return -EFAULT;
	if (next.flags || next.reserved0 || next.reserved)
		return -EINVAL;
	ret = htw_walk_next(ctx, &next.timer);
	if (ret)
		return ret;
	return copy_to_user(arg, &next, sizeof(next)) ? -EFAULT : 0;
}
