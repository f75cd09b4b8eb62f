// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pacer: limits how much softirq time htw takes from a CPU
 *
 * Softirq time is charged to no task: it delays whatever runs on the CPU. So on each
 * CPU all of htw shares one budget, and only the pacer does work there.
 *
 * A job is work to be done in softirq: a wheel with due timers, or a context with
 * waiters to wake. As an interrupt handler schedules NAPI, a wheel's hrtimer only puts
 * the wheel's job on the list of its CPU's pacer (htw_job_fired()). The hrtimer is not
 * programmed again until the job has been served. Another CPU that schedules a job sends
 * an interrupt (a kick) to have the pacer's hrtimer started there, but only if the list
 * was empty: there is at most one kick until the pacer has run.
 *
 * A run serves jobs until HTW_BUDGET_NS have passed, one turn of HTW_TURN_UNITS timers
 * after the other; flow.c says whose turn it is. After a run the CPU is left alone for as
 * long as the run took, and for HTW_GAP_MIN_NS at least. That time is @not_before,
 * and everything that could start another run honours it: hrtimers of wheels, the
 * pacer's own, and kicks. So htw takes at most half of a CPU.
 *
 * The time of a turn is read from the clock. Interrupts, which the clock does not show,
 * are charged at a fixed cost. A turn of more than HTW_STALL_NS was interrupted, by a
 * hypervisor or, on PREEMPT_RT, where softirqs are threads, by another task. Such a stall
 * counts as HTW_BUDGET_NS only, both for the flow's charge and for the gap. A second one in a
 * row counts in full, as it must have been work.
 *
 * When a CPU goes offline, another one's pacer adopts its jobs (htw_pacer_migrate()).
 *
 * Lock order: the lock that guards a job's work (a wheel's, a wait queue's), then the
 * pacer's. Starting and stopping timers takes no pacer's lock. A turn only tries a
 * wheel's lock and moves on to the next flow if it is contended; after HTW_MISSES of
 * these a run waits for it.
 */

#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <linux/rcupdate.h>
#include <linux/smp.h>

#include "compat.h"
#include "htw_wheel.h"
#include "pacer.h"

/* Twice the budget: no turn of HTW_TURN_UNITS takes that long unless it is interrupted. */
#define HTW_STALL_NS		(2 * HTW_BUDGET_NS)
/* Contended locks in a run before it waits for one: a busy program must not starve its wheel. */
#define HTW_MISSES		8u
/* Above this rate of interrupts on a CPU, private wheels share them. */
#define HTW_CROWDED_PER_SEC	16000u

DEFINE_PER_CPU(struct htw_pacer, htw_pacers);
DEFINE_MUTEX(htw_pacers_mutex);	/* see pacer.h */

/*
 * Start the next run at @when, but not before @not_before. Called on the pacer's CPU. In
 * the callback of a wheel's hrtimer, @when may be that hrtimer's expiry: the run then
 * follows in the same softirq, after the callbacks of all other wheels of that tick.
 */
static void htw_pacer_start(struct htw_pacer *p, u64 when)
{
	const ktime_t at = ns_to_ktime(max(when, READ_ONCE(p->not_before)));

	if (hrtimer_is_queued(&p->hrtimer) && hrtimer_get_expires(&p->hrtimer) <= at)
		return;
	hrtimer_start(&p->hrtimer, at, HRTIMER_MODE_ABS_PINNED_SOFT);
}

/* A kick: another CPU has scheduled a job. In hardirq, on the pacer's CPU. */
static void htw_pacer_kick(void *data)
{
	struct htw_pacer *p = data;

	p->kicks++;
	htw_pacer_start(p, 0);
}

/* Pass a job to a pacer, and start or kick it unless it has jobs waiting already. */
static void htw_pacer_add(struct htw_pacer *p, struct htw_job *job, u64 when)
{
	if (!llist_add(&job->incoming, &p->incoming))
		return;
	if (p->cpu == raw_smp_processor_id()) {
		/* A run in progress looks at @incoming again before it ends. */
		if (!READ_ONCE(p->serving))
			htw_pacer_start(p, when);
	} else {
		/*
		 * -EBUSY: a kick is in flight, which will do for this job as well. -ENXIO: the
		 * CPU went offline; htw_pacer_migrate() passes the job on.
		 */
		smp_call_function_single_async(p->cpu, &p->csd);
	}
}

/*
 * Schedule a job to be served at @when, in ns of CLOCK_MONOTONIC, or later; 0 for now. Bottom
 * halves are off, or the caller keeps the job from being freed.
 */
void htw_job_schedule(struct htw_job *job, u64 when)
{
	if (!test_and_set_bit(0, &job->scheduled))
		htw_pacer_add(READ_ONCE(job->pacer), job, when);
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

/* htw_job_schedule() from the callback of the job's hrtimer, in softirq. */
void htw_job_fired(struct htw_job *job, u64 when)
{
	struct htw_pacer *p = this_cpu_ptr(&htw_pacers);

	p->callbacks++;
	htw_pacer_count_interrupt(p);
	htw_job_schedule(job, when);
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
		htw_flow_charge(flow, HTW_IRQ_COST_NS, now);
		p->irq_ns += HTW_IRQ_COST_NS;
		htw_flow_activate(&p->sched, flow, now);
	}
}

/*
 * Serve a flow's first job. The lock is dropped meanwhile: @serving keeps the flow from
 * being freed, and the RCU read-side section keeps the job.
 */
static enum htw_served htw_pacer_serve(struct htw_pacer *p, struct htw_flow *flow, bool wait)
{
	struct htw_job *job = list_first_entry(&flow->jobs, struct htw_job, ready);
	const struct htw_turn turn = {
		.pacer = p,
		.units = htw_flow_turn_units(&p->sched, flow),
		.wait = wait,
	};
	enum htw_served served;

	__htw_list_del(&job->ready);
	INIT_LIST_HEAD(&job->ready);
	WRITE_ONCE(p->serving, flow);
	spin_unlock(&p->lock);
	served = job->serve(job, &turn);
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

/*
 * Return how much of the time that a turn or a run took counts as work. A stall counts
 * as HTW_BUDGET_NS, unless *@stalled says that the one before was a stall, too.
 */
static u64 htw_work_ns(u64 took, bool *stalled)
{
	const bool again = *stalled;

	*stalled = took > HTW_STALL_NS;
	return *stalled && !again ? HTW_BUDGET_NS : took;
}

/* Return how long to leave the CPU alone after a run that took @took ns. */
static u64 htw_pacer_gap(struct htw_pacer *p, u64 took)
{
	const u64 work = htw_work_ns(took, &p->stalled);

	p->stalls += p->stalled;
	return max_t(u64, work + p->irq_ns + HTW_RUN_COST_NS, HTW_GAP_MIN_NS);
}

static void htw_pacer_run(struct htw_pacer *p, u64 began)
{
	u64 run_cost = HTW_RUN_COST_NS;	/* charged with the first turn */
	unsigned int misses = 0;
	struct htw_flow *flow;
	u64 last = began;
	u64 resumes;

	spin_lock(&p->lock);
	htw_flow_unthrottle(&p->sched, began);
	htw_pacer_collect(p, began);
	p->runs++;
	while (last - began < HTW_BUDGET_NS && (flow = htw_flow_next(&p->sched))) {
		enum htw_served served = HTW_SERVED_DONE;
		u64 now;

		if (!list_empty(&flow->jobs))
			served = htw_pacer_serve(p, flow, misses >= HTW_MISSES);
		now = ktime_get_ns();
		htw_flow_charge(flow, htw_work_ns(now - last, &flow->stalled) + run_cost, now);
		run_cost = 0;
		last = now;
		if (served == HTW_SERVED_BUSY) {
			misses++;
			htw_flow_rotate(&p->sched, flow);
		} else {
			htw_flow_requeue(&p->sched, flow, now);
		}
		htw_pacer_collect(p, now);
	}
	p->misses += misses;
	p->spent += last - began + p->irq_ns + HTW_RUN_COST_NS;
	WRITE_ONCE(p->not_before, last + htw_pacer_gap(p, last - began));
	p->irq_ns = 0;
	if (htw_flow_sched_has_work(&p->sched)) {
		p->exhausted++;
		resumes = 0;
	} else {
		resumes = htw_flow_sched_resume_time(&p->sched);
	}
	if (resumes != U64_MAX)
		hrtimer_start(&p->hrtimer, ns_to_ktime(max(resumes, p->not_before)),
			      HRTIMER_MODE_ABS_PINNED_SOFT);
	/*
	 * If a job came in after the last htw_pacer_collect(), its kick has started the hrtimer,
	 * and hrtimer_start() may have moved that later. Look with the lock held, before
	 * htw_job_cancel() can collect the job.
	 */
	if (!llist_empty(&p->incoming))
		htw_pacer_start(p, 0);
	spin_unlock(&p->lock);
}

static enum hrtimer_restart htw_pacer_callback(struct hrtimer *hrtimer)
{
	struct htw_pacer *p = container_of(hrtimer, struct htw_pacer, hrtimer);
	const u64 began = ktime_get_ns();

	this_cpu_ptr(&htw_pacers)->callbacks++;
	if (p->cpu != raw_smp_processor_id()) {
		/* The CPU went offline, which migrated the hrtimer. */
		if (READ_ONCE(p->adopter))
			htw_pacer_migrate(p);
		else
			smp_call_function_single_async(p->cpu, &p->csd);
		return HRTIMER_NORESTART;
	}
	if (began < p->not_before) {
		/* A kick read @not_before just before the last run set it. */
		htw_pacer_start(p, 0);
		return HRTIMER_NORESTART;
	}
	/* Jobs are freed a grace period after htw_job_cancel(). */
	rcu_read_lock();
	htw_pacer_run(p, began);
	rcu_read_unlock();
	return HRTIMER_NORESTART;
}

/*
 * Pass a job to its present pacer. htw_bases_move() has changed that of wheels. Walks of
 * waiters still have @p; with an @adopter, which serves an offline CPU, they change here.
 */
static void htw_job_migrate(struct htw_pacer *p, struct htw_job *job, struct htw_pacer *adopter)
{
	if (adopter && READ_ONCE(job->pacer) == p)
		WRITE_ONCE(job->pacer, adopter);
	htw_pacer_add(job->pacer, job, 0);
}

/* Return true if the flow has no job left. */
static bool htw_flow_migrate(struct htw_pacer *p, struct htw_flow *flow,
			     struct htw_pacer *adopter)
{
	struct htw_job *job, *next;

	list_for_each_entry_safe(job, next, &flow->jobs, ready) {
		if (READ_ONCE(job->pacer) == p && !adopter)
			continue;
		list_del_init(&job->ready);
		htw_job_migrate(p, job, adopter);
	}
	return list_empty(&flow->jobs);
}

static void htw_flows_migrate(struct htw_pacer *p, struct list_head *flows,
			      struct htw_pacer *adopter)
{
	struct htw_flow *flow, *next;

	list_for_each_entry_safe(flow, next, flows, link) {
		/* A run that is serving the flow requeues it when the turn ends. */
		if (htw_flow_migrate(p, flow, adopter) && p->serving != flow)
			list_del_init(&flow->link);
	}
}

/*
 * Pass on jobs whose pacer has changed, or all if the CPU is offline. In softirq or process
 * context.
 */
void htw_pacer_migrate(struct htw_pacer *p)
{
	struct htw_pacer *const adopter = READ_ONCE(p->adopter);
	struct timerqueue_node *node;
	struct htw_job *job, *next;

	spin_lock_bh(&p->lock);
	htw_flow_unthrottle(&p->sched, adopter ? KTIME_MAX : ktime_get_ns());
	for (node = timerqueue_getnext(&p->sched.throttled); node;
	     node = timerqueue_iterate_next(node))
		htw_flow_migrate(p, container_of(node, struct htw_flow, throttle_node), adopter);
	for (unsigned int c = 0; c < HTW_CLASSES; c++) {
		htw_flows_migrate(p, &p->sched.queues[c].new_flows, adopter);
		htw_flows_migrate(p, &p->sched.queues[c].old_flows, adopter);
	}
	llist_for_each_entry_safe(job, next, llist_del_all(&p->incoming), incoming) {
		if (!READ_ONCE(job->dead))
			htw_job_migrate(p, job, adopter);
	}
	spin_unlock_bh(&p->lock);
}

/* Return the pacer that serves a CPU's wheels: its own, or while it is offline its adopter. */
struct htw_pacer *htw_pacer_for(unsigned int cpu)
{
	struct htw_pacer *p = per_cpu_ptr(&htw_pacers, cpu);

	lockdep_assert_held(&htw_pacers_mutex);

	return p->adopter ?: p;
}

/* Let a CPU that has come online serve its own jobs. */
void htw_pacer_online(unsigned int cpu)
{
	lockdep_assert_held(&htw_pacers_mutex);

	WRITE_ONCE(per_cpu_ptr(&htw_pacers, cpu)->adopter, NULL);
}

/* Let the pacer of an online CPU serve the jobs of one that is offline or going down. */
void htw_pacer_adopt(unsigned int cpu, struct htw_pacer *adopter)
{
	lockdep_assert_held(&htw_pacers_mutex);

	WRITE_ONCE(per_cpu_ptr(&htw_pacers, cpu)->adopter, adopter);
}

/* Initialise a job; the caller sets &htw_job.pacer before it can be scheduled. */
void htw_job_init(struct htw_job *job, struct htw_flow __percpu *flows, htw_serve_t *serve)
{
	*job = (struct htw_job) { .serve = serve, .flows = flows };
	INIT_LIST_HEAD(&job->ready);
}

/*
 * Remove a job from its pacer. Its @dead is set, so that it is not scheduled again, and
 * htw_pacers_mutex keeps @pacer from changing. A turn in progress is not waited for: free
 * the job after a grace period.
 */
void htw_job_cancel(struct htw_job *job)
{
	struct htw_pacer *p = job->pacer;

	if (!p || !htw_job_is_scheduled(job))
		return;
	spin_lock_bh(&p->lock);
	htw_pacer_collect(p, ktime_get_ns());
	if (!list_empty(&job->ready))
		list_del_init(&job->ready);
	spin_unlock_bh(&p->lock);
}

/*
 * Has a flow no job, and all tokens that it can have? Then freeing it and making a new
 * one later gains its user nothing.
 */
bool htw_flow_is_idle(struct htw_flow *flow, unsigned int cpu)
{
	struct htw_pacer *p = per_cpu_ptr(&htw_pacers, cpu);
	bool idle;

	spin_lock_bh(&p->lock);
	htw_flow_refill(flow, ktime_get_ns());
	idle = list_empty(&flow->link) && !flow->throttled && p->serving != flow &&
	       htw_flow_is_full(flow);
	spin_unlock_bh(&p->lock);
	return idle;
}

/* Take a snapshot of a flow's accounting on its CPU. */
void htw_flow_get_info(struct htw_flow *flow, unsigned int cpu, struct htw_flow_info *info)
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
	};
	spin_unlock_bh(&p->lock);
}

/*
 * Return for how many ns a user's work outside of softirq must wait for tokens on this
 * CPU; zero if it may go on. In process context.
 */
u64 htw_flow_throttled_for(struct htw_flow __percpu *flows)
{
	const u64 now = ktime_get_ns();
	struct htw_pacer *p;
	struct htw_flow *flow;
	u64 wait = 0;

	local_bh_disable();
	p = this_cpu_ptr(&htw_pacers);
	flow = this_cpu_ptr(flows);
	spin_lock(&p->lock);
	if (flow->class == HTW_CLASS_OTHERS) {
		htw_flow_refill(flow, now);
		if (flow->tokens <= 0)
			wait = max(htw_flow_resume_time(flow), now) - now;
	}
	spin_unlock(&p->lock);
	local_bh_enable();
	return wait;
}

/* Charge a user for work on this CPU outside of softirq. In process context. */
void htw_flow_spend(struct htw_flow __percpu *flows, u64 ns)
{
	struct htw_pacer *p;

	local_bh_disable();
	p = this_cpu_ptr(&htw_pacers);
	spin_lock(&p->lock);
	htw_flow_charge(this_cpu_ptr(flows), ns, ktime_get_ns());
	spin_unlock(&p->lock);
	local_bh_enable();
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
		INIT_CSD(&p->csd, htw_pacer_kick, p);
		p->cpu = cpu;
		p->window = jiffies;
		htw_flow_sched_init(&p->sched, cpu);
	}
}

/* By the flag, as irq_work_queue_on(), which could be waited for, is not exported. */
static void htw_pacer_wait_for_kick(struct htw_pacer *p)
{
	while (READ_ONCE(p->csd.node.u_flags) & CSD_FLAG_LOCK)
		cpu_relax();
}

/* Stop the pacers; no job is left. May sleep. */
void htw_pacers_exit(void)
{
	unsigned int cpu;

	/*
	 * An hrtimer that its CPU's hotplug has migrated sends a kick, and a kick in flight would
	 * start an hrtimer after it was cancelled.
	 */
	for_each_possible_cpu(cpu)
		hrtimer_cancel(&per_cpu_ptr(&htw_pacers, cpu)->hrtimer);
	for_each_possible_cpu(cpu)
		htw_pacer_wait_for_kick(per_cpu_ptr(&htw_pacers, cpu));
	synchronize_rcu();	/* the csd is unlocked before its function runs, in hardirq */
	for_each_possible_cpu(cpu)
		hrtimer_cancel(&per_cpu_ptr(&htw_pacers, cpu)->hrtimer);
}
