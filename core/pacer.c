// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pacer: limits how much softirq time htw takes from a CPU
 *
 * Softirq time is charged to no task: it delays whatever runs on the CPU. So on
 * each CPU all of htw shares one budget, and only the pacer does work there.
 *
 * A job is work to be done in softirq: a wheel with due timers, or a context
 * with waiters to wake. As an interrupt handler schedules NAPI, a wheel's
 * hrtimer only puts the wheel's job on the list of its CPU's pacer
 * (htw_job_fired()). The hrtimer is not programmed again until the job has been
 * served.
 *
 * A run serves jobs until HTW_RUN_NS have passed, one turn of HTW_TURN_UNITS
 * timers after the other; flow.c says whose turn it is. After a run the CPU is
 * left alone for as long as the run took, and for HTW_GAP_MIN_NS at least. That
 * time is @not_before, and everything that could start another run honours it:
 * hrtimers of wheels, the pacer's own, and kicks. So htw takes at most half of
 * a CPU.
 *
 * Another CPU that schedules a job sends an interrupt (a kick) to have the
 * pacer's hrtimer started there. The csd of that interrupt has one owner at a
 * time, since smp_call_function_single_async() does not serialise its callers:
 * whoever sets @kicked may queue it, and its function clears the bit. Who finds
 * the list empty is not the owner for that: runs empty the list whether or not
 * a kick is in flight. While @armed no kick is needed: the run that goes on or
 * is about to start looks at the list after it has cleared @armed. So there is
 * at most one kick until the pacer has run. A CPU never waits for another one's
 * kick: it starts its own pacer.
 *
 * The time of a turn is read from the clock. Interrupts, which the clock does
 * not show, are charged at a fixed cost. The time in which the task did not run
 * is left out: on PREEMPT_RT softirqs run in threads, which others preempt, and
 * which wait for locks. What a hypervisor takes cannot be measured; a turn, or
 * a run, of more than HTW_STALL_NS counts as HTW_RUN_NS, but at most once a
 * second (htw_stalls_forgive()). Waking tasks always counts in full, but the
 * gap for it is divided (HTW_WAKE_GAP_NS).
 *
 * When a CPU goes offline, another one's pacer adopts its jobs
 * (htw_pacer_migrate()).
 *
 * Lock order: the lock that guards a job's work (a wheel's, a wait queue's),
 * then the pacer's. Starting and stopping timers takes no pacer's lock. A turn
 * only tries the locks that it needs, and the run moves on to the next flow if
 * one is contended. After HTW_MISSES of these the run ends, and the next one
 * tries again: only the users whose locks they are wait.
 */

#include <linux/jiffies.h>
#include <linux/kcov.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/rcupdate.h>
#include <linux/smp.h>

#include "compat.h"
#include "htw_wheel.h"
#include "pacer.h"
#include "off_cpu.h"

/* Contended locks after which a run ends. */
#define HTW_MISSES		8u
/* The same for jobs that are not to be served yet. */
#define HTW_LATERS		32u
/*
 * Most that is owed for work outside of softirq. A task can do such work all
 * the time, and what it owes must be forgotten soon after it has ended.
 */
#define HTW_OWED_MAX_NS		(50 * NSEC_PER_MSEC)
/*
 * For so long the waiters of a flow are put off because of what waking others
 * has taken, if none of them has proved slow. A task that wakes its own all the
 * time would else keep them asleep.
 */
#define HTW_LATER_NS		(1 * NSEC_PER_MSEC)
/*
 * The first waiters of a context whose wake-up takes long delay new flows.
 * After such a wake-up no other unknown waiters are woken in short turns for
 * this many times as long.
 */
#define HTW_SURPRISES		16u
/*
 * So long may wake-ups take that are forgiven, because a hypervisor, which no
 * clock shows, may have had the CPU: of all users together, and one part in
 * HTW_FORGIVEN_PART of the time; and of one user.
 */
#define HTW_FORGIVEN_NS		(20 * NSEC_PER_MSEC)
#define HTW_FORGIVEN_PART	16u
#define HTW_FORGIVEN_USER_NS	(10 * NSEC_PER_MSEC)
#define HTW_FORGIVEN_USER_PART	32u
/*
 * How often at least work outside of softirq goes on, whatever waking has
 * taken, if the last one took no longer.
 */
#define HTW_WORK_INTERVAL_NS	((u64)(2 * NSEC_PER_MSEC))
/* How often at least slow waiters are woken, for the same reason. */
#define HTW_SLOW_INTERVAL_NS	(20 * NSEC_PER_MSEC)
/* Above this rate of interrupts on a CPU, private wheels share them. */
#define HTW_CROWDED_PER_SEC	16000u

DEFINE_PER_CPU(struct htw_pacer, htw_pacers);

/*
 * Start the next run at @when, but not before @not_before. Called on the
 * pacer's CPU. In the callback of a wheel's hrtimer, @when may be that
 * hrtimer's expiry: the run then follows in the same softirq, after the
 * callbacks of all other wheels of that tick.
 */
static void htw_pacer_start(struct htw_pacer *p, u64 when)
{
	ktime_t at = ns_to_ktime(max(when, READ_ONCE(p->not_before)));

	WRITE_ONCE(p->armed, true);
	if (hrtimer_is_queued(&p->hrtimer) &&
	    hrtimer_get_expires(&p->hrtimer) <= at)
		return;
	hrtimer_start(&p->hrtimer, at, HRTIMER_MODE_ABS_PINNED_SOFT);
}

/* The function of a kick: in hardirq, on the pacer's CPU. The csd is unlocked already. */
static void htw_pacer_kicked(void *data)
{
	struct htw_pacer *p = data;

	p->kicks++;
	/*
	 * The next owner must find the csd unlocked, or its kick would be
	 * refused and lost. A CPU that finds the bit still set has added its
	 * job: the run looks at the list again behind a full barrier.
	 */
	clear_bit_unlock(0, &p->kicked);
	htw_pacer_start(p, 0);
}

/* Have another CPU start its pacer. Preemption is off. */
static void htw_pacer_kick(struct htw_pacer *p)
{
	if (test_and_set_bit(0, &p->kicked))
		return;
	/* The CPU went offline: htw_pacer_migrate() passes its jobs on. */
	if (smp_call_function_single_async(p->cpu, &p->csd))
		clear_bit(0, &p->kicked);
}

/*
 * Pass a job to a pacer and see to it that it runs. In an RCU read-side section
 * that began before the pacer was looked up, for htw_bases_finish_move().
 */
static void htw_pacer_add(struct htw_pacer *p, struct htw_job *job, u64 when)
{
	/* A task that is preempted before it starts or kicks the pacer would stall all jobs. */
	preempt_disable();
	/* Fully ordered: add the job, then read @armed. Pairs with htw_pacer_end_run(). */
	llist_add(&job->incoming, &p->incoming);
	if (!READ_ONCE(p->armed)) {
		if (p->cpu == smp_processor_id())
			htw_pacer_start(p, when);
		else
			htw_pacer_kick(p);
	}
	preempt_enable();
}

static void htw_job_queue(struct htw_job *job, u64 when, u32 irq_ns)
{
	if (test_and_set_bit(0, &job->scheduled))
		return;

	job->irq_ns = irq_ns;
	rcu_read_lock();
	htw_pacer_add(READ_ONCE(job->pacer), job, when);
	rcu_read_unlock();
}

/*
 * Schedule a job to be served at @when, in ns of CLOCK_MONOTONIC, or later; 0
 * for now. The caller keeps the job from being freed.
 */
void htw_job_schedule(struct htw_job *job, u64 when)
{
	const struct htw_pacer *p = READ_ONCE(job->pacer);

	htw_job_queue(job, when, READ_ONCE(p->armed) ? 0 : HTW_IRQ_COST_NS);
}

/* Count an interrupt on this CPU, and find out how many there are in a jiffy. */
static void htw_pacer_count_interrupt(struct htw_pacer *p)
{
	if (time_after(jiffies, p->window)) {
		p->crowded = p->interrupts > HTW_CROWDED_PER_SEC / HZ;
		p->window = jiffies;
		p->interrupts = 0;
	}
	p->interrupts++;
}

/*
 * htw_job_schedule() from the callback of the job's hrtimer, in softirq. Wheels
 * that expire at the same time share an interrupt.
 */
void htw_job_fired(struct htw_job *job, u64 when)
{
	struct htw_pacer *p = this_cpu_ptr(&htw_pacers);
	bool shares = when && when == p->fired_at;

	p->callbacks++;
	p->fired_at = when;
	if (!shares)
		htw_pacer_count_interrupt(p);
	htw_job_queue(job, when,
		      shares ? HTW_CALLBACK_COST_NS : HTW_IRQ_COST_NS);
}

/* Queue incoming jobs with their flows; pass on those that are another pacer's by now. */
static void htw_pacer_collect(struct htw_pacer *p, u64 now)
{
	struct llist_node *incoming;
	struct htw_job *job, *next;

	lockdep_assert_held(&p->lock);

	if (llist_empty(&p->incoming))
		return;
	incoming = llist_reverse_order(llist_del_all(&p->incoming));
	llist_for_each_entry_safe(job, next, incoming, incoming) {
		struct htw_pacer *owner = READ_ONCE(job->pacer);
		struct htw_flow *flow;

		if (READ_ONCE(job->dead))
			continue;
		if (owner != p) {
			htw_pacer_add(owner, job, 0);
			continue;
		}
		flow = per_cpu_ptr(job->flows, p->cpu);
		list_add_tail(&job->ready, &flow->jobs);
		htw_flow_charge(flow, job->irq_ns, now);
		p->irq_ns += job->irq_ns;
		job->irq_ns = 0;
		htw_flow_activate(&p->sched, flow, now);
	}
}

/*
 * May a turn at @now wake tasks of which that may take long? @has_woken: this
 * run has woken some already.
 */
static bool htw_pacer_may_be_slow(const struct htw_pacer *p,
				  struct htw_flow *flow, bool has_woken,
				  u64 now)
{
	if (!has_woken && p->owed_wake_ns < HTW_RUN_NS) {
		flow->later_since = 0;
		return true;
	}
	if (!flow->later_since)
		return false;
	if (now < flow->slow_until)
		return now - p->slow_at >= HTW_SLOW_INTERVAL_NS;
	return now - flow->later_since >= HTW_LATER_NS;
}

/* Forget one part in @part of the time. Return: what is left is less than @max. */
static bool htw_forgiven_has_room(struct htw_forgiven *f, u64 max, u32 part,
				  u64 now)
{
	if (f->ns)
		f->ns -= min(f->ns, div_u64(now - f->at, part));
	f->at = now;
	return f->ns < max;
}

/* May wake-ups of a flow's waiters that take long be forgiven at @now? */
static bool htw_pacer_may_forgive(struct htw_pacer *p, struct htw_flow *flow,
				  u64 now)
{
	bool all = htw_forgiven_has_room(&p->forgiven, HTW_FORGIVEN_NS,
					 HTW_FORGIVEN_PART, now);

	return htw_forgiven_has_room(&flow->forgiven, HTW_FORGIVEN_USER_NS,
				     HTW_FORGIVEN_USER_PART, now) && all;
}

/*
 * Serve a flow's first job. The lock is dropped meanwhile: @serving keeps the
 * flow from being freed, and the RCU read-side section keeps the job.
 * @woken_ns: for so long this run has woken tasks.
 */
static enum htw_served htw_pacer_serve(struct htw_pacer *p,
				       struct htw_flow *flow,
				       struct htw_turn *turn, u64 woken_ns,
				       u64 now)
{
	struct htw_job *job = list_first_entry(&flow->jobs, struct htw_job,
					       ready);
	enum htw_served served;

	*turn = (struct htw_turn) {
		.pacer = p,
		.flow = flow,
		.units = htw_flow_turn_units(&p->sched, flow),
		.began = now,
	};
	turn->may_be_unknown = p->owed_wake_ns + woken_ns < HTW_RUN_NS &&
			       now >= p->unknown_not_before;
	turn->may_forgive = htw_pacer_may_forgive(p, flow, now);
	turn->may_be_slow = !htw_turn_is_short(turn) &&
			    htw_pacer_may_be_slow(p, flow, woken_ns, now);
	__htw_list_del(&job->ready);
	INIT_LIST_HEAD(&job->ready);

	WRITE_ONCE(p->serving, flow);
	spin_unlock(&p->lock);
	kcov_remote_start_common(job->kcov_handle);
	served = job->serve(job, turn);
	kcov_remote_stop();
	spin_lock(&p->lock);
	WRITE_ONCE(p->serving, NULL);

	/* If it dies after this, htw_job_cancel() removes it, under this lock. */
	if (served == HTW_SERVED_DONE || READ_ONCE(job->dead))
		return served;
	if (READ_ONCE(job->pacer) == p)
		__htw_list_add_tail(&job->ready, &flow->jobs);
	else
		htw_pacer_add(job->pacer, job, 0);
	return served;
}

/* Queue a flow for its next turn. */
static void htw_pacer_requeue(struct htw_pacer *p, struct htw_flow *flow,
			      enum htw_served served, u64 now)
{
	switch (served) {
	case HTW_SERVED_BUSY:
		htw_flow_rotate(&p->sched, flow, now);
		break;
	case HTW_SERVED_LATER:
		htw_flow_demote(&p->sched, flow, now);
		break;
	default:
		htw_flow_requeue(&p->sched, flow, now);
	}
}

/*
 * Take back what is owed, by the time up to @now in which the CPU has been left
 * alone: not since work began that a run has interrupted.
 */
static void htw_pacer_take_back(struct htw_pacer *p, u64 now)
{
	u64 until = p->working_since ? min(now, p->working_since) : now;
	u64 left_alone = until - min(until, p->taken_back), ns;

	p->taken_back = max(p->taken_back, now);

	ns = min(left_alone, p->owed_ns);
	p->owed_ns -= ns;
	left_alone -= ns;
	ns = min(left_alone, p->owed_wake_ns);
	p->owed_wake_ns -= ns;
	left_alone -= ns;
	p->owed_work_ns -= min(left_alone, p->owed_work_ns);
}

/* Add to what is owed for the sake of tasks: it is limited. */
static void htw_pacer_owe(u64 *owed, u64 ns)
{
	*owed = max(*owed, min(*owed + ns, HTW_OWED_MAX_NS));
}

/* A task has worked for @ns up to @now, on this CPU, which was not left alone meanwhile. */
static void htw_pacer_note_work(struct htw_pacer *p, u64 ns, u64 now)
{
	lockdep_assert_held(&p->lock);

	htw_pacer_take_back(p, now - min(ns, now));
	p->taken_back = now;
}

/*
 * Return how long to leave the CPU alone after a run of @took ns, @wake_ns of
 * them for waking. What interrupts cost in excess of HTW_IRQ_GAP_NS, and waking
 * in excess of HTW_WAKE_GAP_NS, is added to later gaps. Until the latter has
 * been taken back, no task is woken that may take long, so it does not add up.
 */
static u64 htw_pacer_gap(struct htw_pacer *p, u64 took, u64 wake_ns, u64 now)
{
	u64 work = htw_stalls_forgive(&p->stalls, took, wake_ns, now);
	u64 irq_ns = min_t(u64, p->irq_ns, HTW_IRQ_GAP_NS);
	u64 owed_later;

	p->taken_back = now;
	/* Work outside of softirq may have had some of the last gap. */
	htw_pacer_owe(&p->owed_work_ns, p->owed_ns);
	p->owed_wake_ns += wake_ns;
	p->owed_ns = work - min(work, wake_ns) + irq_ns + HTW_RUN_COST_NS;
	owed_later = min_t(u64, p->owed_wake_ns + p->owed_work_ns,
			   HTW_WAKE_GAP_NS);
	htw_pacer_owe(&p->owed_work_ns, p->irq_ns - irq_ns);
	return max_t(u64, p->owed_ns + owed_later, HTW_GAP_MIN_NS);
}

/* Decide when the next run is to be. */
static void htw_pacer_end_run(struct htw_pacer *p)
{
	u64 resumes;

	lockdep_assert_held(&p->lock);

	if (htw_flow_sched_has_work(&p->sched)) {
		p->exhausted++;
		htw_pacer_start(p, 0);
		return;
	}
	resumes = htw_flow_sched_resume_time(&p->sched);
	if (resumes != U64_MAX)
		hrtimer_start(&p->hrtimer,
			      ns_to_ktime(max(resumes, p->not_before)),
			      HRTIMER_MODE_ABS_PINNED_SOFT);

	/*
	 * From here on, CPUs that add a job kick again. One that did not
	 * because it saw @armed set has added its job: pairs with llist_add()
	 * in htw_pacer_add(). The same look finds the job of a kick that came
	 * before, whose start hrtimer_start() above may have put off. The lock
	 * is held: htw_job_cancel() cannot collect the job before that.
	 */
	WRITE_ONCE(p->armed, false);
	/* Pairs with llist_add(), as said above. */
	smp_mb();
	if (!llist_empty(&p->incoming))
		htw_pacer_start(p, 0);
}

/* Note what a turn that ended at @now has shown of the flow's waiters. */
static void htw_pacer_note_turn(struct htw_pacer *p, struct htw_flow *flow,
				const struct htw_turn *turn,
				enum htw_served served, u64 now)
{
	if (served == HTW_SERVED_LATER && !flow->later_since)
		flow->later_since = now;
	if (turn->may_be_slow && turn->wake_ns && now < flow->slow_until)
		p->slow_at = now;
	p->forgiven.ns += turn->forgiven_ns;
	flow->forgiven.ns += turn->forgiven_ns;
	if (turn->surprised)
		p->unknown_not_before = max(p->unknown_not_before,
					    now + HTW_SURPRISES * turn->wake_ns);
}

/*
 * Serve flows for as long as a run may take, then leave the CPU alone. It began
 * at @began, when htw_softirq_off_cpu_ns() was @off_cpu.
 */
static void htw_pacer_run(struct htw_pacer *p, u64 began, u64 off_cpu)
{
	u64 run_cost = HTW_RUN_COST_NS;	/* charged with the first turn */
	u64 last = began, took = 0, wake_ns = 0;
	unsigned int misses = 0, laters = 0;
	struct htw_flow *flow;

	WRITE_ONCE(p->armed, true);
	spin_lock(&p->lock);
	htw_flow_unthrottle(&p->sched, began);
	htw_pacer_collect(p, began);
	htw_pacer_take_back(p, began);
	p->runs++;

	while (took < HTW_RUN_NS && misses < HTW_MISSES &&
	       laters < HTW_LATERS && (flow = htw_flow_next(&p->sched))) {
		enum htw_served served = HTW_SERVED_DONE;
		struct htw_turn turn = {};
		u64 now, now_off_cpu, away, ns;

		if (!list_empty(&flow->jobs))
			served = htw_pacer_serve(p, flow, &turn, wake_ns, last);

		now = htw_softirq_clock_ns(&now_off_cpu);
		away = htw_off_cpu_since(now_off_cpu, off_cpu);
		ns = now - last - min(away, now - last);
		htw_flow_charge(flow, htw_stalls_forgive(&flow->stalls, ns, turn.wake_ns, now) +
				      run_cost, now);
		took += ns;
		wake_ns += turn.wake_ns;
		run_cost = 0;
		off_cpu = now_off_cpu;
		last = now;

		misses += served == HTW_SERVED_BUSY;
		laters += served == HTW_SERVED_LATER;
		htw_pacer_note_turn(p, flow, &turn, served, now);
		htw_pacer_requeue(p, flow, served, now);
		htw_pacer_collect(p, now);
	}

	p->misses += misses;
	p->spent += took + p->irq_ns + HTW_RUN_COST_NS;
	WRITE_ONCE(p->not_before, last + htw_pacer_gap(p, took, wake_ns, last));
	p->irq_ns = 0;
	htw_pacer_end_run(p);
	spin_unlock(&p->lock);
}

static enum hrtimer_restart htw_pacer_callback(struct hrtimer *hrtimer)
{
	struct htw_pacer *p = container_of(hrtimer, struct htw_pacer, hrtimer);
	u64 off_cpu, began = htw_softirq_clock_ns(&off_cpu);

	this_cpu_ptr(&htw_pacers)->callbacks++;
	if (p->cpu != raw_smp_processor_id()) {
		/*
		 * The CPU went offline, which migrated the hrtimer. The run
		 * that @armed announced does not come. As in
		 * htw_pacer_end_run(), look at @incoming after that.
		 */
		WRITE_ONCE(p->armed, false);
		/* Pairs with llist_add(), as there. */
		smp_mb();
		if (READ_ONCE(p->adopter))
			htw_pacer_migrate(p);
		/* If the CPU is online again, it is up to its pacer; else there is no kick. */
		preempt_disable();
		htw_pacer_kick(p);
		preempt_enable();
		return HRTIMER_NORESTART;
	}
	if (began < p->not_before) {
		/* @not_before was moved after the hrtimer was started. */
		htw_pacer_start(p, 0);
		return HRTIMER_NORESTART;
	}
	/* Jobs are freed a grace period after htw_job_cancel(). */
	rcu_read_lock();
	htw_pacer_run(p, began, off_cpu);
	rcu_read_unlock();
	return HRTIMER_NORESTART;
}

/*
 * Pass a job to its present pacer. htw_bases_move() has changed that of wheels.
 * Walks of waiters still have @p; with an @adopter, which serves an offline
 * CPU, they change here. Under both locks: htw_job_cancel(), which looks at the
 * pacer that a job has, finds it there. An adopter is online and has none
 * itself, so locks are not nested the other way round.
 */
static void htw_pacer_migrate_job(struct htw_pacer *p, struct htw_job *job,
				  struct htw_pacer *adopter)
{
	lockdep_assert_held(&p->lock);

	if (READ_ONCE(job->dead))
		return;
	if (!adopter || READ_ONCE(job->pacer) != p) {
		htw_pacer_add(job->pacer, job, 0);
		return;
	}

	spin_lock_nested(&adopter->lock, SINGLE_DEPTH_NESTING);
	WRITE_ONCE(job->pacer, adopter);
	htw_pacer_add(adopter, job, 0);
	spin_unlock(&adopter->lock);
}

/* Return true if the flow has no job left. */
static bool htw_pacer_migrate_flow(struct htw_pacer *p, struct htw_flow *flow,
				   struct htw_pacer *adopter)
{
	struct htw_job *job, *next;

	list_for_each_entry_safe(job, next, &flow->jobs, ready) {
		if (READ_ONCE(job->pacer) == p && !adopter)
			continue;
		list_del_init(&job->ready);
		htw_pacer_migrate_job(p, job, adopter);
	}
	return list_empty(&flow->jobs);
}

static void htw_pacer_migrate_flows(struct htw_pacer *p,
				    struct list_head *flows,
				    struct htw_pacer *adopter)
{
	struct htw_flow *flow, *next;

	list_for_each_entry_safe(flow, next, flows, link) {
		/* A run that is serving the flow requeues it when the turn ends. */
		if (htw_pacer_migrate_flow(p, flow, adopter) &&
		    p->serving != flow)
			list_del_init(&flow->link);
	}
}

/*
 * Pass on jobs whose pacer has changed, or all if the CPU is offline. In
 * softirq or process context.
 */
void htw_pacer_migrate(struct htw_pacer *p)
{
	struct timerqueue_node *node;
	struct htw_job *job, *next;
	struct htw_pacer *adopter;

	spin_lock_bh(&p->lock);
	/* Under the lock: a former adopter must not get the jobs of a CPU that is back. */
	adopter = p->adopter;
	htw_flow_unthrottle(&p->sched, adopter ? KTIME_MAX : ktime_get_ns());
	for (node = timerqueue_getnext(&p->sched.throttled); node;
	     node = timerqueue_iterate_next(node))
		htw_pacer_migrate_flow(p, container_of(node, struct htw_flow, throttle_node),
				       adopter);
	for (unsigned int c = 0; c < HTW_CLASSES; c++) {
		htw_pacer_migrate_flows(p, &p->sched.queues[c].new_flows, adopter);
		htw_pacer_migrate_flows(p, &p->sched.queues[c].old_flows, adopter);
	}
	llist_for_each_entry_safe(job, next, llist_del_all(&p->incoming),
				  incoming)
		htw_pacer_migrate_job(p, job, adopter);
	spin_unlock_bh(&p->lock);
}

/* Return the pacer that serves a CPU's wheels: its own, or while it is offline its adopter. */
struct htw_pacer *htw_pacer_for(unsigned int cpu)
{
	struct htw_pacer *p = per_cpu_ptr(&htw_pacers, cpu);

	htw_assert_cpus_held();

	return p->adopter ?: p;
}

/* Let a CPU that has come online serve its own jobs. */
void htw_pacer_online(unsigned int cpu)
{
	struct htw_pacer *p = per_cpu_ptr(&htw_pacers, cpu);

	htw_assert_cpus_held();

	spin_lock_bh(&p->lock);
	WRITE_ONCE(p->adopter, NULL);
	spin_unlock_bh(&p->lock);
}

/* Let the pacer of an online CPU serve the jobs of one that is offline or going down. */
void htw_pacer_adopt(unsigned int cpu, struct htw_pacer *adopter)
{
	struct htw_pacer *p = per_cpu_ptr(&htw_pacers, cpu);

	htw_assert_cpus_held();

	spin_lock_bh(&p->lock);
	WRITE_ONCE(p->adopter, adopter);
	spin_unlock_bh(&p->lock);
}

/* Initialise a job; the caller sets &htw_job.pacer before it can be scheduled. */
void htw_job_init(struct htw_job *job, struct htw_flow __percpu *flows,
		  htw_serve_t *serve)
{
	*job = (struct htw_job) {
		.serve = serve,
		.flows = flows,
		.kcov_handle = kcov_common_handle(),
	};
	INIT_LIST_HEAD(&job->ready);
}

/*
 * Remove a job from its pacer. Its @dead is set, so that it is not scheduled
 * again. A turn in progress is not waited for: free the job after a grace
 * period.
 *
 * For a wheel's job CPU hotplug is held off, as htw_bases_move() changes its
 * pacer before it is on that pacer's lists.
 */
void htw_job_cancel(struct htw_job *job)
{
	struct htw_pacer *p;

	for (;;) {
		p = READ_ONCE(job->pacer);
		if (!p)
			return;
		spin_lock_bh(&p->lock);
		if (p == READ_ONCE(job->pacer))
			break;
		/* htw_pacer_migrate_job() has just passed it on. */
		spin_unlock_bh(&p->lock);
	}
	htw_pacer_collect(p, ktime_get_ns());
	if (!list_empty(&job->ready))
		list_del_init(&job->ready);
	spin_unlock_bh(&p->lock);
}

/*
 * Has a flow no job, and all tokens that it can have? Then freeing it and
 * making a new one later gains its user nothing.
 */
bool htw_pacer_flow_is_idle(struct htw_flow *flow, unsigned int cpu)
{
	struct htw_pacer *p = per_cpu_ptr(&htw_pacers, cpu);
	bool idle;

	spin_lock_bh(&p->lock);
	htw_flow_refill(flow, ktime_get_ns());
	idle = list_empty(&flow->link) && !flow->throttled &&
	       p->serving != flow && htw_flow_is_full(flow);
	spin_unlock_bh(&p->lock);
	return idle;
}

/* Take a snapshot of a flow's accounting on its CPU. */
void htw_pacer_flow_info(struct htw_flow *flow, unsigned int cpu,
			 struct htw_flow_info *info)
{
	struct htw_pacer *p = per_cpu_ptr(&htw_pacers, cpu);
	u64 now;

	spin_lock_bh(&p->lock);
	now = ktime_get_ns();
	htw_flow_refill(flow, now);
	*info = (struct htw_flow_info) {
		.spent = flow->spent,
		.tokens = flow->tokens,
		.throttles = flow->throttles,
		.throttled_ns = flow->throttled_ns +
				(flow->throttled ? now - flow->throttled_at : 0),
		.stalls = flow->stalls,
	};
	spin_unlock_bh(&p->lock);
}

/* Return for how many ns a user is to wait for tokens on this CPU; 0 if it has some. */
u64 htw_pacer_throttled_ns(struct htw_flow __percpu *flows)
{
	u64 now = ktime_get_ns(), until = 0;
	struct htw_pacer *p;
	struct htw_flow *flow;

	local_bh_disable();
	p = this_cpu_ptr(&htw_pacers);
	flow = this_cpu_ptr(flows);
	spin_lock(&p->lock);
	if (flow->class == HTW_CLASS_OTHERS) {
		htw_flow_refill(flow, now);
		if (flow->tokens <= 0)
			until = htw_flow_resume_time(flow);
	}
	spin_unlock(&p->lock);
	local_bh_enable();

	return until > now ? until - now : 0;
}

/*
 * Return for how many ns work outside of softirq is to leave this CPU alone,
 * for what waking and such work have taken so far; 0 if it may go on.
 */
u64 htw_pacer_busy_ns(void)
{
	struct htw_pacer *p;
	u64 now, interval, ns = 0;

	local_bh_disable();
	p = this_cpu_ptr(&htw_pacers);
	spin_lock(&p->lock);
	now = ktime_get_ns();
	htw_pacer_take_back(p, now);
	interval = max(HTW_WORK_INTERVAL_NS, p->worked_ns);
	if (p->owed_work_ns >= HTW_RUN_NS && now - p->worked_at < interval)
		ns = min(p->owed_ns + p->owed_wake_ns + p->owed_work_ns - HTW_RUN_NS + 1,
			 p->worked_at + interval - now);
	spin_unlock(&p->lock);
	local_bh_enable();

	return ns;
}

/* Begin work that takes some time, in a task that stays on this CPU until the work has ended. */
void htw_pacer_begin_work(struct htw_pacer_work *work)
{
	struct htw_pacer *p = this_cpu_ptr(&htw_pacers);

	spin_lock_bh(&p->lock);
	*work = (struct htw_pacer_work) {
		.began = ktime_get_ns(),
		.off_cpu = htw_off_cpu_ns(),
		.spent = p->spent,
	};
	p->working_since = work->began;
	spin_unlock_bh(&p->lock);
}

/* Return the time since work began. */
u64 htw_pacer_work_ns(const struct htw_pacer_work *work)
{
	return ktime_get_ns() - work->began;
}

/*
 * End work, and charge the user for it, without the time that other tasks or
 * runs have had. Where runs are in a thread both are the same time.
 */
void htw_pacer_end_work(const struct htw_pacer_work *work,
			struct htw_flow __percpu *flows)
{
	u64 away = htw_off_cpu_since(htw_off_cpu_ns(), work->off_cpu);
	u64 took = htw_pacer_work_ns(work);
	struct htw_pacer *p = this_cpu_ptr(&htw_pacers);

	spin_lock_bh(&p->lock);
	away = max(away, p->spent - work->spent);
	spin_unlock_bh(&p->lock);

	htw_pacer_charge_work(flows, took - min(took, away) + HTW_WORK_COST_NS);
}

/* Charge a user for what has been done on this CPU up to @now, outside of softirq. */
static void htw_pacer_charge(struct htw_pacer *p, struct htw_flow *flow, u64 ns,
			     u64 now)
{
	lockdep_assert_held(&p->lock);

	htw_flow_charge(flow, ns, now);
	p->spent += ns;
	htw_pacer_note_work(p, ns, now);
	htw_pacer_owe(&p->owed_work_ns, ns);
}

/*
 * Charge a user for work on this CPU outside of softirq, in process context. It
 * does not wait for the gap after a run, where runs that follow each other
 * would keep it waiting. Instead later gaps make up for the time.
 */
void htw_pacer_charge_work(struct htw_flow __percpu *flows, u64 ns)
{
	struct htw_pacer *p;

	local_bh_disable();
	p = this_cpu_ptr(&htw_pacers);
	spin_lock(&p->lock);
	p->worked_at = ktime_get_ns();
	p->worked_ns = ns;
	p->working_since = 0;
	htw_pacer_charge(p, this_cpu_ptr(flows), ns, p->worked_at);
	spin_unlock(&p->lock);
	local_bh_enable();
}

/* Charge a user for a look that found it without tokens: no work, for which others' would wait. */
void htw_pacer_charge_look(struct htw_flow __percpu *flows)
{
	struct htw_pacer *p;

	local_bh_disable();
	p = this_cpu_ptr(&htw_pacers);
	spin_lock(&p->lock);
	htw_pacer_charge(p, this_cpu_ptr(flows), HTW_WORK_COST_NS,
			 ktime_get_ns());
	spin_unlock(&p->lock);
	local_bh_enable();
}

/*
 * A task has woken waiters for so long, with interrupts off and on its own
 * account. Others get what they have waited for before the pacer of this CPU
 * wakes any that may be slow. Bottom halves are off.
 */
void htw_pacer_owe_wake(u64 ns)
{
	struct htw_pacer *p = this_cpu_ptr(&htw_pacers);

	spin_lock(&p->lock);
	htw_pacer_note_work(p, ns, ktime_get_ns());
	htw_pacer_owe(&p->owed_wake_ns, ns);
	spin_unlock(&p->lock);
}

void htw_pacers_init(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		struct htw_pacer *p = per_cpu_ptr(&htw_pacers, cpu);

		spin_lock_init(&p->lock);
		init_llist_head(&p->incoming);
		hrtimer_setup(&p->hrtimer, htw_pacer_callback, CLOCK_MONOTONIC,
			      HRTIMER_MODE_ABS_SOFT);
		INIT_CSD(&p->csd, htw_pacer_kicked, p);
		p->cpu = cpu;
		p->window = jiffies;
		htw_flow_sched_init(&p->sched, cpu);
	}
}

/* May sleep. */
static void htw_pacer_wait_for_kick(struct htw_pacer *p)
{
	/* Interrupts come soon; those queued for a CPU that goes offline run before it does. */
	while (test_bit(0, &p->kicked)) {
		cpu_relax();
		cond_resched();
	}
}

/* Stop the pacers; no job is left. May sleep. */
void htw_pacers_exit(void)
{
	unsigned int cpu;

	/*
	 * An hrtimer that its CPU's hotplug has migrated sends a kick, and a
	 * kick in flight would start an hrtimer after it was cancelled.
	 */
	for_each_possible_cpu(cpu)
		hrtimer_cancel(&per_cpu_ptr(&htw_pacers, cpu)->hrtimer);
	for_each_possible_cpu(cpu)
		htw_pacer_wait_for_kick(per_cpu_ptr(&htw_pacers, cpu));
	synchronize_rcu();	/* its function, in hardirq, may not have returned */
	for_each_possible_cpu(cpu)
		hrtimer_cancel(&per_cpu_ptr(&htw_pacers, cpu)->hrtimer);
}
