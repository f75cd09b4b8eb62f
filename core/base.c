// SPDX-License-Identifier: GPL-2.0-only
/*
 * Bases: wheels, their hrtimers, and the CPUs on which they wait
 *
 * A base is a wheel, a lock and an hrtimer. There is one for each CPU, clock and user,
 * created when that user first starts a timer there; one for each private wheel; and one
 * for each CPU's callouts. A timer is started on a base of the calling CPU, so the
 * hrtimer that may have to be reprogrammed is local: it is pinned, and only its own CPU
 * programs it. It is set to the wheel's next tick with work, or not running. Stopping a
 * timer does not touch it, so it may expire once without work.
 *
 * The hrtimer's callback only schedules the base with its CPU's pacer, which has it
 * deliver what is due in turns of bounded length: see pacer.c.
 *
 * When a CPU goes offline, the pacer of another CPU adopts its bases, and returns them
 * when it is back. No timer is moved, nothing is allocated, and nothing can fail.
 */

#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/topology.h>

#include "compat.h"
#include "base.h"

/* Last: it would create the tracepoints of headers after it as well. */
#define CREATE_TRACE_POINTS
#include <trace/events/htw.h>

struct htw_geometry htw_geometry;
u32 htw_tick_ns;

/*
 * Guards changes of the lists of bases and of users' pointers to them. A leaf; never taken in
 * softirq, and held for a few instructions. Which pacer serves a CPU's bases changes only during
 * CPU hotplug, which cpus_read_lock() holds off.
 */
static DEFINE_SPINLOCK(htw_bases_lock);
/* The bases of each CPU (htw_bases_lock; read under RCU). */
static DEFINE_PER_CPU(struct list_head, htw_cpu_bases);

/* The user that owns the bases for callouts. */
static struct htw_user_ops htw_callout_user_ops;
static struct htw_user htw_callout_user = {
	.class = HTW_CLASS_CALLOUTS,
	.ops = &htw_callout_user_ops,
};

/*
 * Holds the callouts that are started before htw_bases_init(), which takes them over;
 * only kernels with htw built in have any. Its wheel has no levels, only the overflow list.
 * Its tick is 1 ns, and it has no hrtimer: nothing expires there.
 */
struct htw_base htw_early_base = {
	.wheel = {
		.due = LIST_HEAD_INIT(htw_early_base.wheel.due),
		.overflow = LIST_HEAD_INIT(htw_early_base.wheel.overflow),
		.overflow_scan = LIST_HEAD_INIT(htw_early_base.wheel.overflow_scan),
		.overflow_min = HTW_NEVER,
		.pow2 = true,
		.level[0] = { .last = HTW_NEVER, .end = HTW_NEVER },
	},
	.lock = __SPIN_LOCK_UNLOCKED(htw_early_base.lock),
	.expiry_lock = __SPIN_LOCK_UNLOCKED(htw_early_base.expiry_lock),
	.tick_ns = 1,
	.clock = HTW_BASE_MONOTONIC,
	.cpu = HTW_CPU_EARLY,
};

DEFINE_PER_CPU(struct htw_base *, htw_callout_bases) = &htw_early_base;

static int htw_cpuhp_prepare;
static int htw_cpuhp_online;

static const clockid_t htw_clock_ids[HTW_CLOCKS] = {
	[HTW_BASE_MONOTONIC]	= CLOCK_MONOTONIC,
	[HTW_BASE_BOOTTIME]	= CLOCK_BOOTTIME,
	[HTW_BASE_REALTIME]	= CLOCK_REALTIME,
};

/**
 * htw_clock_now() - read a clock
 * @clock: which, not %HTW_BASE_MANUAL
 *
 * Return: its time in ns.
 */
u64 htw_clock_now(enum htw_clock clock)
{
	switch (clock) {
	case HTW_BASE_BOOTTIME:
		return ktime_get_boottime_ns();
	case HTW_BASE_REALTIME:
		return ktime_get_real_ns();
	default:
		return ktime_get_ns();
	}
}

/**
 * htw_base_now() - the time that a base's deadlines are compared with
 * @base: the base
 *
 * Return: its clock, in ns.
 */
u64 htw_base_now(const struct htw_base *base)
{
	if (base->clock == HTW_BASE_MANUAL)
		return atomic64_read(&base->manual_ns);
	return htw_clock_now(base->clock);
}

/* The pacer's not_before, converted to the base's clock. */
static u64 htw_base_not_before(const struct htw_base *base)
{
	const u64 ns = READ_ONCE(base->job.pacer->not_before);

	switch (base->clock) {
	case HTW_BASE_BOOTTIME:
		return ktime_to_ns(ktime_mono_to_any(ns_to_ktime(ns), TK_OFFS_BOOT));
	case HTW_BASE_REALTIME:
		return ktime_to_ns(ktime_mono_to_any(ns_to_ktime(ns), TK_OFFS_REAL));
	default:
		return ns;
	}
}

/*
 * Program the hrtimer for the wheel's next tick, but not before @earliest, nor before the
 * pacer may run. The caller is on the pacer's CPU.
 *
 * The ticks of private wheels do not coincide. If they interrupt a CPU too often (see
 * htw_pacer.crowded), a range lets them share interrupts.
 */
static void htw_base_program(struct htw_base *base, u64 earliest)
{
	const struct htw_pacer *p = base->job.pacer;
	u64 ns;

	lockdep_assert_held(&base->lock);

	if (check_mul_overflow(base->wheel.next, base->tick_ns, &ns) || ns > KTIME_MAX)
		ns = KTIME_MAX;
	ns = max3(ns, earliest, htw_base_not_before(base));
	base->programs++;
	trace_htw_program(base->cpu, ns);
	hrtimer_start_range_ns(&base->hrtimer, ns_to_ktime(ns),
			       base->private && p->crowded ? HTW_GAP_MIN_NS : 0,
			       HRTIMER_MODE_ABS_PINNED_SOFT);
}

/* Reprogram the hrtimer after &htw_wheel.next has become earlier. */
void htw_base_wake(struct htw_base *base)
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

/**
 * htw_base_check_clock() - rewind the wheel if its clock was set back
 * @base: the base
 * @now: what htw_base_now() returned a short while ago
 *
 * A clock that is behind the wheel's cursor was set back, and nodes started now would
 * count as past. Read it again under the lock to be sure: another CPU may have moved the
 * cursor since @now was read.
 *
 * Return: the time.
 */
u64 htw_base_check_clock(struct htw_base *base, u64 now)
{
	lockdep_assert_held(&base->lock);

	if (htw_tick(base, now) + 1 >= base->wheel.cursor)
		return now;
	now = htw_base_now(base);
	if (htw_tick(base, now) + 1 >= base->wheel.cursor)
		return now;
	htw_wheel_rewind(&base->wheel, htw_tick(base, now));
	base->rewinds++;
	htw_base_wake(base);
	return now;
}

/**
 * htw_base_catch_up() - htw_base_touch() for a wheel that is not at the present tick
 * @base: the base
 * @now: what htw_base_now() returned a short while ago
 *
 * Return: as htw_base_touch().
 */
u64 htw_base_catch_up(struct htw_base *base, u64 now)
{
	u64 tick;

	lockdep_assert_held(&base->lock);

	if (base->clock == HTW_BASE_REALTIME)
		now = htw_base_check_clock(base, now);
	tick = htw_tick(base, now);
	htw_wheel_touch(&base->wheel, tick);
	/* The cursor is ahead if another CPU has read the clock later. */
	return base->wheel.cursor <= tick + 1 ? now : htw_base_now(base);
}

/*
 * Note that nodes which are due @now do not wait for their ticks. Delivery checks their deadlines
 * if the clock was set back since.
 */
void htw_base_note_due(struct htw_base *base, u64 now)
{
	lockdep_assert_held(&base->lock);

	if (base->clock == HTW_BASE_REALTIME)
		base->due_ns = max(base->due_ns, now);
}

/**
 * htw_base_tick_slow() - htw_base_tick() for a node that is due, or has slack
 * @base: the base
 * @deadline: when the node is due, in ns of the base's clock
 * @slack: how much later it may expire if it shares a tick then, in ns
 * @now: what htw_base_now() returned a short while ago; zero if unknown
 *
 * Return: the tick. That of a node that is due has come, so the node is delivered
 * next, in the order of deadlines with others that are late.
 */
u64 htw_base_tick_slow(struct htw_base *base, u64 deadline, u64 slack, u64 now)
{
	u64 first, last;

	lockdep_assert_held(&base->lock);

	if (deadline <= now) {
		htw_base_note_due(base, now);
		return deadline ? min(htw_tick_up(base, deadline), htw_tick(base, now)) : 0;
	}
	first = htw_tick_up(base, deadline);
	if (check_add_overflow(deadline, slack, &last))
		return first;
	return htw_wheel_coalesce(&base->wheel, first, htw_tick(base, last));
}

/*
 * Would starting a node on this base have another CPU's hrtimer reprogrammed? Only that
 * CPU programs it, so the node has to be started on a base of this CPU instead.
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
		/* Unlike spin_is_contended(), submissions see this on PREEMPT_RT, too. */
		WRITE_ONCE(base->wanted_at, jiffies);
		WRITE_ONCE(base->wanted, true);
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
	lockdep_assert_held(&base->lock);

	if (done) {
		base->wheel.next = htw_wheel_next(&base->wheel);
		htw_job_done(&base->job);
		if (base->wheel.next != HTW_NEVER)
			/* The gap after this run, which sets @not_before only at its end. */
			htw_base_program(base, htw_base_now(base) + HTW_GAP_MIN_NS);
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
	htw_job_fired(&base->job, base->clock == HTW_BASE_MONOTONIC ?
				  ktime_to_ns(hrtimer_get_softexpires(hrtimer)) : 0);
	return HRTIMER_NORESTART;
}

/* Free a base to which no reference is left. */
static void htw_base_destroy(struct htw_base *base)
{
	htw_wheel_destroy(&base->wheel);
	kfree(base);
}

static void htw_base_free_rcu(struct rcu_head *rcu)
{
	htw_base_destroy(container_of(rcu, struct htw_base, rcu));
}

/* Remove a base from its CPU and free it after a grace period. */
static void htw_base_detach(struct htw_base *base)
{
	htw_assert_cpus_held();

	spin_lock(&htw_bases_lock);
	list_del_rcu(&base->link);
	spin_unlock(&htw_bases_lock);

	spin_lock_bh(&base->lock);
	htw_job_kill(&base->job);
	spin_unlock_bh(&base->lock);
	hrtimer_cancel(&base->hrtimer);
	htw_job_cancel(&base->job);
	call_rcu(&base->rcu, htw_base_free_rcu);
}

/**
 * htw_base_free() - free a private base
 * @base: the base, whose wheel is empty
 *
 * Context: may sleep.
 */
void htw_base_free(struct htw_base *base)
{
	if (!base->job.pacer) {
		call_rcu(&base->rcu, htw_base_free_rcu);
		return;
	}
	cpus_read_lock();
	htw_base_detach(base);
	cpus_read_unlock();
}

static struct htw_base *htw_base_alloc(struct htw_user *user, enum htw_clock clock,
				       const struct htw_geometry *geo, u32 tick_ns, gfp_t gfp,
				       int node)
{
	struct htw_base *base = kzalloc_node(sizeof(*base), gfp, node);

	if (!base)
		return NULL;
	spin_lock_init(&base->lock);
	spin_lock_init(&base->expiry_lock);
	INIT_LIST_HEAD(&base->link);
	base->user = user;
	base->clock = clock;
	base->tick_ns = tick_ns;
	base->touched = jiffies - 1;
	htw_job_init(&base->job, &user->cpus->flow, user->ops->serve);
	if (clock != HTW_BASE_MANUAL)
		hrtimer_setup(&base->hrtimer, htw_base_callback, htw_clock_ids[clock],
			      HRTIMER_MODE_ABS_SOFT);
	if (htw_wheel_init(&base->wheel, geo, htw_tick(base, htw_base_now(base)), gfp, node)) {
		kfree(base);
		return NULL;
	}
	return base;
}

/* Assign a base that is not published yet to a CPU and its pacer. */
static void htw_base_attach(struct htw_base *base, unsigned int cpu)
{
	htw_assert_cpus_held();
	lockdep_assert_held(&htw_bases_lock);

	base->cpu = cpu;
	base->job.pacer = htw_pacer_for(cpu);
	list_add_tail_rcu(&base->link, per_cpu_ptr(&htw_cpu_bases, cpu));
}

/**
 * htw_base_alloc_private() - allocate a base for one context
 * @user: the context's user
 * @clock: the clock
 * @geo: the geometry, which htw_geometry_check() has passed
 * @tick_ns: the tick
 *
 * Context: may sleep; charged to the caller's cgroup.
 * Return: the base or NULL.
 */
struct htw_base *htw_base_alloc_private(struct htw_user *user, enum htw_clock clock,
					const struct htw_geometry *geo, u32 tick_ns)
{
	struct htw_base *base = htw_base_alloc(user, clock, geo, tick_ns, GFP_KERNEL_ACCOUNT,
					       NUMA_NO_NODE);

	if (!base)
		return NULL;
	base->private = true;
	if (clock != HTW_BASE_MANUAL) {
		cpus_read_lock();
		spin_lock(&htw_bases_lock);
		htw_base_attach(base, htw_target_cpu());
		spin_unlock(&htw_bases_lock);
		cpus_read_unlock();
	}
	return base;
}

static struct htw_base *htw_base_alloc_shared(struct htw_user *user, enum htw_clock clock,
					      unsigned int cpu)
{
	gfp_t gfp = user == &htw_callout_user ? GFP_KERNEL : GFP_KERNEL_ACCOUNT;

	return htw_base_alloc(user, clock, &htw_geometry, htw_tick_ns, gfp, cpu_to_node(cpu));
}

/* Give a user a base on a CPU, unless it has one. Return that which it has then. */
static struct htw_base *htw_base_publish(struct htw_user *user, struct htw_base *made,
					 unsigned int cpu)
{
	struct htw_base **place = &per_cpu_ptr(user->cpus, cpu)->bases[made->clock];
	struct htw_base **first = &user->first[made->clock];
	struct htw_base *base;

	htw_assert_cpus_held();

	spin_lock(&htw_bases_lock);
	base = *place;
	if (!base) {
		base = made;
		htw_base_attach(base, cpu);
		/* Pairs with htw_base_on(). */
		smp_store_release(place, base);
		if (!*first) {
			/* Pairs with the address dependency in htw_base_create(). */
			smp_store_release(first, base);
		}
	}
	spin_unlock(&htw_bases_lock);
	if (base != made)
		htw_base_destroy(made);
	return base;
}

/**
 * htw_base_create() - return a user's base on a CPU, and allocate it at first use
 * @user: the user
 * @clock: the clock, not %HTW_BASE_MANUAL
 * @cpu: the CPU, online or not
 *
 * Context: may sleep; charged to the caller's cgroup.
 * Return: the base; without memory another one of that user and clock, or NULL if there
 * is none.
 */
struct htw_base *htw_base_create(struct htw_user *user, enum htw_clock clock, unsigned int cpu)
{
	struct htw_base *base = htw_base_on(&user->cpus->bases[clock], cpu);

	if (base)
		return base;
	base = htw_base_alloc_shared(user, clock, cpu);
	if (!base)
		return READ_ONCE(user->first[clock]);

	cpus_read_lock();
	base = htw_base_publish(user, base, cpu);
	cpus_read_unlock();
	return base;
}

/* Take a user's bases, which are empty, off its pointers and put them on @gone. */
static void htw_bases_take(struct htw_user *user, struct list_head *gone)
{
	unsigned int cpu;

	spin_lock(&htw_bases_lock);
	for_each_possible_cpu(cpu) {
		for (enum htw_clock clock = 0; clock < HTW_CLOCKS; clock++) {
			struct htw_base **place = &per_cpu_ptr(user->cpus, cpu)->bases[clock];

			if (*place)
				list_add_tail(&(*place)->gone, gone);
			WRITE_ONCE(*place, NULL);
		}
	}
	memset(user->first, 0, sizeof(user->first));
	spin_unlock(&htw_bases_lock);
}

static void htw_bases_free(struct list_head *gone)
{
	struct htw_base *base, *next;

	cpus_read_lock();
	list_for_each_entry_safe(base, next, gone, gone)
		htw_base_detach(base);
	cpus_read_unlock();
}

/**
 * htw_bases_put_user() - drop a context's reference to its user
 * @user: the user, whose bases are freed if this was its last context
 *
 * Context: may sleep.
 */
void htw_bases_put_user(struct htw_user *user)
{
	LIST_HEAD(gone);

	htw_user_put(user, htw_bases_take, &gone);
	htw_bases_free(&gone);
}

/**
 * htw_bases_for_each() - call a function for each base of a CPU
 * @cpu: the CPU
 * @fn: the function, which must not sleep; bases are not freed while it runs
 * @data: passed to it
 */
void htw_bases_for_each(unsigned int cpu, void (*fn)(struct htw_base *base, void *data),
			void *data)
{
	struct list_head *bases = per_cpu_ptr(&htw_cpu_bases, cpu);
	struct htw_base *base;

	rcu_read_lock();
	list_for_each_entry_rcu(base, bases, link)
		fn(base, data);
	rcu_read_unlock();
}

/* Make another pacer serve all bases of a CPU. It serves each once, to program its hrtimer. */
static void htw_bases_move(unsigned int cpu, struct htw_pacer *to)
{
	struct htw_base *base;

	htw_assert_cpus_held();

	list_for_each_entry(base, per_cpu_ptr(&htw_cpu_bases, cpu), link) {
		spin_lock_bh(&base->lock);
		WRITE_ONCE(base->job.pacer, to);
		/* If it is scheduled already, its former pacer passes it on. */
		htw_job_schedule(&base->job, 0);
		spin_unlock_bh(&base->lock);
	}
}

/*
 * Wait until the former pacer of moved bases has passed on their jobs. After that each job
 * is with its own pacer, on which htw_job_cancel() relies.
 */
static void htw_bases_finish_move(struct htw_pacer *from)
{
	htw_assert_cpus_held();

	/* Wait for CPUs that have read the old &htw_job.pacer to schedule the job there. */
	synchronize_rcu();
	htw_pacer_migrate(from);
	/* Wait for a run that took a job before that; it passes the job on itself. */
	synchronize_rcu();
}

/* A CPU is about to come online: create its base for callouts, at the first time. */
static int htw_bases_cpu_prepare(unsigned int cpu)
{
	struct htw_base *base;

	base = htw_base_on(&htw_callout_user.cpus->bases[HTW_BASE_MONOTONIC], cpu);
	if (!base) {
		base = htw_base_alloc_shared(&htw_callout_user, HTW_BASE_MONOTONIC, cpu);
		if (!base)
			return -ENOMEM;
		htw_base_publish(&htw_callout_user, base, cpu);
	}
	/* Pairs with htw_callout_base(). */
	smp_store_release(per_cpu_ptr(&htw_callout_bases, cpu), base);
	return 0;
}

/* A CPU has come online; runs on it. */
static int htw_bases_cpu_online(unsigned int cpu)
{
	struct htw_pacer *adopter;

	adopter = htw_pacer_for(cpu);
	htw_pacer_online(cpu);
	htw_bases_move(cpu, per_cpu_ptr(&htw_pacers, cpu));
	htw_bases_finish_move(adopter);
	return 0;
}

/* An online CPU other than @cpu, preferably not an isolated one. */
static unsigned int htw_cpu_other(unsigned int cpu)
{
	unsigned int other;

	for_each_online_cpu(other) {
		if (other != cpu && !htw_cpu_is_isolated(other))
			return other;
	}
	return cpumask_any_but(cpu_online_mask, cpu);
}

/* A CPU goes offline; runs on it. */
static int htw_bases_cpu_offline(unsigned int cpu)
{
	struct htw_pacer *p = per_cpu_ptr(&htw_pacers, cpu);
	struct htw_pacer *adopter = per_cpu_ptr(&htw_pacers, htw_cpu_other(cpu));
	unsigned int away;

	for_each_possible_cpu(away) {
		if (htw_pacer_for(away) != p)
			continue;
		htw_pacer_adopt(away, adopter);
		htw_bases_move(away, adopter);
	}
	htw_bases_finish_move(p);
	return 0;
}

/* Move the callouts that were started before htw_bases_init(). */
static void __init htw_bases_take_early(void)
{
	struct htw_base *base;
	struct htw_node *n;

	local_bh_disable();
	base = this_cpu_read(htw_callout_bases);
	htw_base_double_lock(base, &htw_early_base);
	while ((n = htw_wheel_evict(&htw_early_base.wheel))) {
		htw_base_touch(base, htw_base_now(base));
		if (htw_base_start(base, n, htw_base_tick(base, n->expires, 0, 0)))
			htw_base_wake(base);
	}
	htw_base_double_unlock(base, &htw_early_base);
	local_bh_enable();
}

/**
 * htw_bases_init() - set up the pacers and the bases for callouts
 * @serve: delivers callouts that are due
 *
 * Context: process, may sleep; #htw_geometry and #htw_tick_ns are set.
 * Return: 0 or a negative error.
 */
int __init htw_bases_init(htw_serve_t *serve)
{
	unsigned int cpu;
	int ret;

	htw_callout_user_ops.serve = serve;
	htw_callout_user.cpus = alloc_percpu(struct htw_user_cpu);
	if (!htw_callout_user.cpus)
		return -ENOMEM;
	htw_pacers_init();
	cpus_read_lock();
	for_each_possible_cpu(cpu) {
		INIT_LIST_HEAD(per_cpu_ptr(&htw_cpu_bases, cpu));
		htw_flow_init(&per_cpu_ptr(htw_callout_user.cpus, cpu)->flow,
			      HTW_CLASS_CALLOUTS, 0);
		/* Until it comes online; online CPUs do so below. */
		htw_pacer_adopt(cpu, per_cpu_ptr(&htw_pacers, cpumask_first(cpu_online_mask)));
	}
	ret = cpuhp_setup_state_cpuslocked(CPUHP_BP_PREPARE_DYN, "htw:prepare",
					   htw_bases_cpu_prepare, NULL);
	if (ret < 0)
		goto err;
	htw_cpuhp_prepare = ret;
	ret = cpuhp_setup_state_cpuslocked(CPUHP_AP_ONLINE_DYN, "htw:online",
					   htw_bases_cpu_online, htw_bases_cpu_offline);
	if (ret < 0)
		goto err;
	htw_cpuhp_online = ret;
	cpus_read_unlock();
	htw_bases_take_early();
	return 0;

err:
	cpus_read_unlock();
	htw_bases_exit();
	return ret;
}

/* Undo htw_bases_init(). No context and no callout is left. May sleep. */
void htw_bases_exit(void)
{
	unsigned int cpu;
	LIST_HEAD(gone);

	if (htw_cpuhp_online)
		cpuhp_remove_state_nocalls(htw_cpuhp_online);
	if (htw_cpuhp_prepare)
		cpuhp_remove_state_nocalls(htw_cpuhp_prepare);
	/* If htw is built in and htw_bases_init() has failed, callouts can still be started. */
	for_each_possible_cpu(cpu)
		WRITE_ONCE(per_cpu(htw_callout_bases, cpu), &htw_early_base);
	htw_bases_take(&htw_callout_user, &gone);
	htw_bases_free(&gone);
	htw_pacers_exit();
	rcu_barrier();		/* for htw_base_free_rcu() */
	free_percpu(htw_callout_user.cpus);
}
