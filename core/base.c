// SPDX-License-Identifier: GPL-2.0-only
/*
 * A base: a wheel, its lock, and the hrtimer that paces it
 *
 * A timer is started on a base of the calling CPU, so the hrtimer that may have
 * to be reprogrammed is local: it is pinned, and only its own CPU programs it.
 * It is set to the wheel's next tick with work, or not running. Stopping a
 * timer does not touch it, so it may expire once without work.
 *
 * The hrtimer's callback only schedules the base with its CPU's pacer, which
 * has it deliver what is due in turns of bounded length: see pacer.c.
 */

#include <linux/kmemleak.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "compat.h"
#include "base.h"

/* Last: it would create the tracepoints of headers after it as well. */
#define CREATE_TRACE_POINTS
#include <trace/events/htw.h>

struct htw_geometry htw_geometry;
u32 htw_tick_ns;

static const clockid_t htw_clock_ids[HTW_CLOCKS] = {
	[HTW_MONOTONIC]	= CLOCK_MONOTONIC,
	[HTW_BOOTTIME]	= CLOCK_BOOTTIME,
	[HTW_REALTIME]	= CLOCK_REALTIME,
};

/**
 * htw_base_now() - the time that a base's deadlines are compared with
 * @base: the base
 *
 * Return: its clock, in ns.
 */
u64 htw_base_now(const struct htw_base *base)
{
	if (base->clock == HTW_MANUAL)
		return atomic64_read(&base->manual_ns);
	return htw_clock_now(base->clock);
}

/*
 * The same in a turn, if @turn is not NULL: when that began, where no other
 * clock has to be read.
 */
u64 htw_base_turn_now(const struct htw_base *base, const struct htw_turn *turn)
{
	return turn && base->clock == HTW_MONOTONIC ? turn->began : htw_base_now(base);
}

/* The pacer's not_before, converted to the base's clock. */
static u64 htw_base_not_before(const struct htw_base *base)
{
	u64 ns = READ_ONCE(base->job.pacer->not_before);

	switch (base->clock) {
	case HTW_BOOTTIME:
		return ktime_to_ns(ktime_mono_to_any(ns_to_ktime(ns), TK_OFFS_BOOT));
	case HTW_REALTIME:
		return ktime_to_ns(ktime_mono_to_any(ns_to_ktime(ns), TK_OFFS_REAL));
	default:
		return ns;
	}
}

/*
 * Program the hrtimer for the wheel's next tick, but not before @earliest, nor
 * before the pacer may run. The caller is on the pacer's CPU.
 *
 * The ticks of private wheels do not coincide. If they interrupt a CPU too
 * often (see htw_pacer.crowded), a range lets them share interrupts.
 */
static void htw_base_program(struct htw_base *base, u64 earliest)
{
	const struct htw_pacer *p = base->job.pacer;
	u64 ns;

	lockdep_assert_held(&base->lock);

	if (check_mul_overflow(base->wheel.next, base->tick_ns, &ns) ||
	    ns > KTIME_MAX)
		ns = KTIME_MAX;
	ns = max3(ns, earliest, htw_base_not_before(base));
	base->programs++;
	trace_htw_program(base->cpu, ns);
	hrtimer_start_range_ns(&base->hrtimer, ns_to_ktime(ns),
			       base->private && p->crowded ? HTW_GAP_MIN_NS : 0,
			       HRTIMER_MODE_ABS_PINNED_SOFT);
}

/* Reprogram the hrtimer after &htw_wheel.next has become earlier. */
void htw_base_reprogram(struct htw_base *base)
{
	lockdep_assert_held(&base->lock);

	base->reprogram = false;
	/* While scheduled, the end of the turn programs the hrtimer. */
	if (!base->job.pacer || htw_job_is_scheduled(&base->job))
		return;
	if (base->job.pacer->cpu == raw_smp_processor_id())
		htw_base_program(base, 0);
	else
		htw_job_schedule(&base->job, 0);
}

/**
 * htw_base_double_lock() - lock two bases of one clock and user
 * @a: a base
 * @b: another one, or the same
 *
 * The base of the lower CPU is locked first, #htw_early_base last.
 *
 * Context: bottom halves are off.
 */
void htw_base_double_lock(struct htw_base *a, struct htw_base *b)
{
	if (b->cpu < a->cpu)
		swap(a, b);
	htw_lock(&a->lock);
	if (a != b)
		htw_lock_nested(&b->lock, SINGLE_DEPTH_NESTING);
}

/* Undo htw_base_double_lock(). */
void htw_base_double_unlock(struct htw_base *a, struct htw_base *b)
{
	if (a != b)
		htw_unlock(&b->lock);
	htw_unlock(&a->lock);
}

/* Have sections end. Unlike spin_is_contended(), they see this on PREEMPT_RT, too. */
static void htw_base_want(struct htw_base *base)
{
	WRITE_ONCE(base->wanted_at, jiffies);
	WRITE_ONCE(base->wanted, true);
}

/**
 * htw_base_check_clock() - rewind the wheel if its clock was set back
 * @base: the base
 * @now: what htw_base_now() returned a short while ago
 *
 * A clock that is behind the wheel's cursor was set back, and nodes started now
 * would count as past. Read it again under the lock to be sure: another CPU may
 * have moved the cursor since @now was read.
 *
 * Return: the time.
 */
u64 htw_base_check_clock(struct htw_base *base, u64 now)
{
	lockdep_assert_held(&base->lock);

	if (htw_base_tick(base, now) + 1 >= base->wheel.cursor)
		return now;
	now = htw_base_now(base);
	if (htw_base_tick(base, now) + 1 >= base->wheel.cursor)
		return now;
	htw_wheel_rewind(&base->wheel, htw_base_tick(base, now));
	base->rewinds++;
	/* That was as much work as a section may do, and there is more for a turn. */
	htw_base_want(base);
	htw_base_reprogram(base);
	return now;
}

/**
 * htw_base_forward_slow() - htw_base_forward() for a wheel that is not at the present tick
 * @base: the base
 * @now: what htw_base_now() returned a short while ago
 *
 * Return: as htw_base_forward().
 */
u64 htw_base_forward_slow(struct htw_base *base, u64 now)
{
	u64 tick;

	lockdep_assert_held(&base->lock);

	if (base->clock == HTW_REALTIME)
		now = htw_base_check_clock(base, now);
	tick = htw_base_tick(base, now);
	htw_wheel_forward(&base->wheel, tick);
	/* The cursor is ahead if another CPU has read the clock later. */
	return base->wheel.cursor <= tick + 1 ? now : htw_base_now(base);
}

/*
 * Note that nodes which are due @now do not wait for their ticks. Delivery
 * checks their deadlines if the clock was set back since.
 */
void htw_base_note_due(struct htw_base *base, u64 now)
{
	lockdep_assert_held(&base->lock);

	if (base->clock == HTW_REALTIME)
		base->due_ns = max(base->due_ns, now);
}

/**
 * htw_base_choose_tick_slow() - htw_base_choose_tick() for a node that is due, or has slack
 * @base: the base
 * @deadline: when the node is due, in ns of the base's clock
 * @slack: how much later it may expire if it shares a tick then, in ns
 * @now: what htw_base_now() returned a short while ago; zero if unknown
 *
 * Slack is used as by htw_tick_within(), on a clock that is ahead of the base's by
 * the owner's skew: so timers of one owner meet, and those of different owners,
 * whose skews are random, do not all come at once. The skew is less than an eighth
 * of the slack. The more slack there is, the more of the same bits it has, so that
 * timers with about the same slack have the same skew.
 *
 * Return: the tick. That of a node that is due has come, so the node is
 * delivered next, in the order of deadlines with others that are late.
 */
u64 htw_base_choose_tick_slow(struct htw_base *base, u64 deadline, u64 slack,
			      u64 now)
{
	u64 last, skew, time;

	lockdep_assert_held(&base->lock);

	if (deadline <= now) {
		htw_base_note_due(base, now);
		if (!deadline)
			return 0;
		return min(htw_base_tick_up(base, deadline),
			   htw_base_tick(base, now));
	}
	if (slack < base->tick_ns || check_add_overflow(deadline, slack, &last))
		return htw_tick_up(deadline, base->tick_ns);

	skew = base->skew & ((BIT_ULL(ilog2(slack)) - 1) / 8);
	time = htw_coalesce(deadline + skew, last) - skew;
	return min(htw_tick_up(time, base->tick_ns), htw_base_tick(base, last));
}

/*
 * Would starting a node on this base have another CPU's hrtimer reprogrammed?
 * Only that CPU programs it, so the node has to be started on a base of this
 * CPU instead.
 */
bool htw_base_wakes_remote(struct htw_base *base, u64 tick)
{
	lockdep_assert_held(&base->lock);

	return base->cpu != raw_smp_processor_id() && !base->private &&
	       htw_wheel_is_ahead(&base->wheel, tick);
}

/**
 * htw_base_begin_turn() - lock a base to deliver what is due
 * @base: the base
 * @turn: the turn
 * @served: out: the result of the turn, if this returns false
 *
 * Context: in the base's &htw_job.serve.
 * Return: true if the base is locked; htw_base_end_turn() ends the turn.
 */
bool htw_base_begin_turn(struct htw_base *base, const struct htw_turn *turn,
			 enum htw_served *served)
{
	if (!htw_trylock(&base->lock)) {
		htw_base_want(base);
		*served = HTW_SERVED_BUSY;
		return false;
	}
	WRITE_ONCE(base->wanted, false);
	if (base->job.pacer != turn->pacer || base->job.dead) {
		/* It was moved to another CPU's pacer, or is about to be freed. */
		htw_unlock(&base->lock);
		*served = HTW_SERVED_MORE;
		return false;
	}
	/* Suppress wake-ups until the next event is computed. */
	base->wheel.next = 0;
	return true;
}

/**
 * htw_base_end_turn() - program the hrtimer and unlock the base
 * @base: the base
 * @done: no work is left to do now
 *
 * Return: the result of the turn.
 */
enum htw_served htw_base_end_turn(struct htw_base *base, bool done)
{
	u64 next;

	lockdep_assert_held(&base->lock);

	if (done) {
		next = htw_wheel_next(&base->wheel);
		htw_job_done(&base->job);
		if (next != HTW_NEVER)
			/* The gap after this run, which sets @not_before only at its end. */
			htw_base_program(base,
					 htw_base_now(base) + HTW_GAP_MIN_NS);
	} else {
		base->exhausted++;
	}
	htw_unlock(&base->lock);
	return done ? HTW_SERVED_DONE : HTW_SERVED_MORE;
}

static enum hrtimer_restart htw_base_callback(struct hrtimer *hrtimer)
{
	struct htw_base *base = container_of(hrtimer, struct htw_base, hrtimer);

	WRITE_ONCE(base->callbacks, base->callbacks + 1);
	htw_job_fired(&base->job, base->clock == HTW_MONOTONIC ?
				  ktime_to_ns(hrtimer_get_softexpires(hrtimer)) : 0);
	return HRTIMER_NORESTART;
}

/*
 * Allocate the memory of a wheel's levels. Most wheels need a little more than a
 * power of two, to which kmalloc() rounds up, so return the pages that would not
 * be used. vmalloc() would need none of that, but frees by interrupts to all CPUs:
 * it is for fragmented memory.
 */
static void *htw_base_alloc_levels(size_t bytes, gfp_t gfp, int node)
{
	const unsigned int order = get_order(bytes);
	struct page *page;
	void *memory;

	if (bytes <= PAGE_SIZE)
		return kmalloc_node(bytes, gfp, node);
	page = alloc_pages_node(node, gfp | __GFP_NORETRY | __GFP_NOWARN, order);
	if (!page)
		return __vmalloc(bytes, gfp);

	split_page(page, order);
	for (unsigned long i = PFN_UP(bytes); i < 1UL << order; i++)
		__free_page(page + i);
	memory = page_address(page);
	/* What is in a wheel may be referenced from nowhere else. */
	kmemleak_alloc(memory, bytes, 1, gfp);
	return memory;
}

static void htw_base_free_levels(void *memory, size_t bytes)
{
	if (!memory || bytes <= PAGE_SIZE || is_vmalloc_addr(memory)) {
		kvfree(memory);
		return;
	}
	kmemleak_free(memory);
	free_pages_exact(memory, bytes);
}

/**
 * htw_base_alloc() - allocate a base
 * @init: what it is to be
 *
 * Context: may sleep if @init->gfp allows.
 * Return: the base, assigned to no CPU, or NULL.
 */
struct htw_base *htw_base_alloc(const struct htw_base_init *init)
{
	const size_t bytes = htw_geometry_bytes(init->geo);
	struct htw_base *base = kzalloc_node(sizeof(*base), init->gfp, init->node);
	void *levels = htw_base_alloc_levels(bytes, init->gfp, init->node);

	if (!base || !levels) {
		htw_base_free_levels(levels, bytes);
		kfree(base);
		return NULL;
	}

	spin_lock_init(&base->lock);
	spin_lock_init(&base->expiry_lock);
	INIT_LIST_HEAD(&base->link);
	base->owner = init->owner;
	base->clock = init->clock;
	base->tick_ns = init->tick_ns;
	base->private = init->private;
	base->levels_bytes = bytes;
	/* A manual clock wakes nobody, and is to do the same each time. */
	base->skew = init->clock == HTW_MANUAL ? 0 : init->skew;
	base->forwarded_at = jiffies - 1;
	htw_job_init(&base->job, init->flows, init->serve);
	if (base->clock != HTW_MANUAL)
		hrtimer_setup(&base->hrtimer, htw_base_callback,
			      htw_clock_ids[base->clock],
			      HRTIMER_MODE_ABS_SOFT);

	htw_wheel_init(&base->wheel, htw_base_tick(base, htw_base_now(base)));
	htw_wheel_add_levels(&base->wheel, init->geo, levels);
	return base;
}

/* Free a base to which no reference is left. */
void htw_base_destroy(struct htw_base *base)
{
	WARN_ON(base->wheel.pending);
	htw_base_free_levels(htw_wheel_remove_levels(&base->wheel), base->levels_bytes);
	kfree(base);
}

static void htw_base_free_rcu(struct rcu_head *rcu)
{
	htw_base_destroy(container_of(rcu, struct htw_base, rcu));
}

/**
 * htw_base_free() - free a base after a grace period
 * @base: the base, whose wheel is empty; on no CPU's list any more
 *
 * Context: may sleep. CPU hotplug is held off if the base was assigned to a
 * CPU.
 */
void htw_base_free(struct htw_base *base)
{
	if (base->job.pacer) {
		spin_lock_bh(&base->lock);
		htw_job_kill(&base->job);
		spin_unlock_bh(&base->lock);

		hrtimer_cancel(&base->hrtimer);
		htw_job_cancel(&base->job);
	}
	call_rcu(&base->rcu, htw_base_free_rcu);
}
