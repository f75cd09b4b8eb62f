// SPDX-License-Identifier: GPL-2.0-only
/*
 * Operations on all timers of a context, a chunk at a time
 *
 * The chunks are walked in order and each slot is looked at once, so a timer
 * that is there all the while is met exactly once, whatever others add, cancel
 * and move meanwhile.
 */

#include "htw_clockset.h"
#include "htw_context.h"
#include "htw_engine.h"
#include "htw_run.h"

/**
 * htw_sweep_cancel() - cancels all timers of a chunk
 * @ctx: the context
 * @chunk: which chunk; below @ctx->nr_chunks
 * @flags: as &htw_cancel.flags
 *
 * Return: how many were pending, or kept and disarmed.
 */
u64 htw_sweep_cancel(struct htw_context *ctx, u32 chunk, u32 flags)
{
	struct htw_timer *timers;
	struct htw_run run;
	u64 count = 0;

	htw_run_begin(&run, ctx);
	timers = htw_run_chunk(&run, chunk)->timers;
	for (u32 i = 0; i < HTW_CHUNK_TIMERS; i++) {
		struct htw_cancel cancel = { .flags = flags };

		if (!htw_timer_is_live(&timers[i]))
			continue;
		/* Should the slot change hands now, this id finds nothing. */
		cancel.id = htw_timer_id(&timers[i]);
		count += !htw_run_cancel(&run, &timers[i], &cancel, false);
	}
	htw_run_end(&run);
	return count;
}

/* Takes a pending timer out, for htw_sweep_pending(). */
static void htw_sweep_take(struct htw_run *run, struct htw_timer *t,
			   enum htw_timer_state state, struct list_head *taken)
{
	htw_clockset_look(run->ctx, t);
	if (state == HTW_PENDING)
		htw_base_stop(run->base, &t->node);
	else
		list_del(&t->node.list);
	WRITE_ONCE(t->node.state, HTW_RESERVED);
	list_add_tail(&t->node.list, taken);
}

/**
 * htw_sweep_pending() - tells which timers of a chunk are pending
 * @ctx: the context
 * @slot: where to begin; out: where to go on. Its chunk exists
 * @entries: where to tell them
 * @room: how many entries there is room for, at least 1
 * @taken: NULL, or a list on which to put them: they are then stopped and
 *	reserved for the caller
 *
 * Return: how many were told.
 */
u32 htw_sweep_pending(struct htw_context *ctx, u32 *slot, struct htw_query *entries,
		      u32 room, struct list_head *taken)
{
	const u32 end = round_down(*slot, HTW_CHUNK_SLOTS) + HTW_CHUNK_SLOTS;
	struct htw_timer *timers;
	struct htw_run run;
	u32 n = 0;

	htw_run_begin(&run, ctx);
	timers = htw_run_chunk(&run, *slot / HTW_CHUNK_SLOTS)->timers;
	for (; *slot < end && n < room; ++*slot) {
		const u32 index = *slot % HTW_CHUNK_SLOTS;
		struct htw_timer *t = &timers[index - 1];
		enum htw_timer_state state;
		u64 word;

		if (!index || !htw_timer_is_live(t))
			continue;
		state = htw_run_lock_timer(&run, t);
		word = htw_context_word(ctx, t);
		if ((state == HTW_PENDING || state == HTW_REARM) && word != HTW_DISARMED) {
			htw_timer_tell(t, state, word, run.now, &entries[n++]);
			if (taken)
				htw_sweep_take(&run, t, state, taken);
		}
		htw_run_unlock_timer(&run, state);
	}
	htw_run_end(&run);
	return n;
}

/**
 * htw_sweep_put_back() - arms again what htw_sweep_pending() took out
 * @ctx: the context
 * @taken: the timers
 * @sets: what htw_clockset_count() returned before they were taken out
 */
void htw_sweep_put_back(struct htw_context *ctx, struct list_head *taken, u32 sets)
{
	struct htw_delivery delivery;
	struct htw_timer *t, *next;
	struct htw_run run;

	htw_delivery_begin(&delivery, NULL);
	htw_run_begin(&run, ctx);
	list_for_each_entry_safe(t, next, taken, node.list) {
		list_del(&t->node.list);
		htw_run_lock_here(&run);
		if (unlikely(htw_clockset_missed(t, sets))) {
			spin_lock(&ctx->lock);
			htw_deliver_clock_set(&delivery, t, run.now);
			spin_unlock(&ctx->lock);
		} else {
			htw_run_arm(&run, t);
		}
	}
	htw_run_end(&run);
	htw_delivery_wake(&delivery, false);
}
