// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pacer: on each CPU, who may use how much of it, and when
 *
 * Softirq work is paid for by nobody: it takes the CPU from whoever runs there. So
 * on each CPU all of htw shares one budget. A wheel's hrtimer does no work; as an
 * interrupt schedules NAPI, it puts the wheel on the list of its CPU's pacer, and
 * is not programmed again until the wheel has been served. The pacer runs for
 * about 200 us and then leaves the CPU alone for as long (@not_before), whatever
 * else comes: every hrtimer and every kick honours that.
 *
 * Within a run flows take turns. A flow is a user on a CPU with all its wheels, so
 * that nobody gains by having more of them. Callouts, privileged users and all
 * others are three classes, which are served in rotation. Within a class the rule
 * is that of fq_codel (RFC 8290): a flow that had nothing to do goes ahead of those
 * that are busy, for some short turns; then it queues with them, by deficit round
 * robin. It may do so once a millisecond, so nobody can stay ahead by stopping
 * short. Whoever has little to do is therefore served first: 64 users who all begin
 * at once have had 16 timers each after 0.4 ms of work.
 *
 * A user without CAP_SYS_RESOURCE has a share of each CPU: a token bucket of time,
 * 25% of a CPU with a burst of 250 ms. A flow without tokens is parked until it has
 * some; only its own timers wait. The flow lives on after the user's last context
 * until the bucket is full, so closing and opening again gains nothing.
 *
 * Time is what the clock shows, and a fixed amount for each interrupt, which it
 * does not. A turn that took longer than any work can was interrupted: by a
 * hypervisor, or by a task where softirqs are threads (PREEMPT_RT). That is neither
 * charged nor doubled by the gap, unless it happens again at once: then it was
 * work.
 *
 * Locks: a job's own lock (a wheel's, a wait queue's), then the pacer's. Starting
 * and stopping timers takes no pacer's lock. The pacer only tries a wheel's lock,
 * and goes on to the next flow where it is held; after eight misses it waits.
 */

#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <linux/rcupdate.h>
#include <linux/smp.h>

#include <trace/events/htw.h>

#include "compat.h"
#include "htw_wheel.h"
#include "pacer.h"

/* What a flow may use in a round, before it is another's turn. */
#define HTW_QUANTUM_NS		(20 * NSEC_PER_USEC)
/* A flow goes ahead of others at most that often. */
#define HTW_FRESH_NS		(900 * NSEC_PER_USEC)
/* No work takes so long: turns are 128 timers, or 64 waiters. */
#define HTW_STALL_NS		(2 * HTW_BUDGET_NS)
/* A parked flow comes back when it can use so much. */
#define HTW_RESUME_NS		HTW_BUDGET_NS
/* What a new user may use at once. */
#define HTW_TOKENS_FIRST_NS	(50 * NSEC_PER_MSEC)
/* Locks found held in a run before it waits for one. */
#define HTW_MISSES		8u
/* With more wheels' interrupts in a second than this, they had better come together. */
#define HTW_FIRINGS_PER_SEC	16000u

DEFINE_PER_CPU(struct htw_pacer, htw_pacers);
DEFINE_MUTEX(htw_pacers_mutex);	/* see pacer.h */

unsigned int htw_share_percent = 25;
unsigned int htw_burst_ms = 250;

static u64 htw_burst_ns(void)
{
	return READ_ONCE(htw_burst_ms) * (u64)NSEC_PER_MSEC;
}

/* Tokens come with time, up to the burst. */
static void htw_flow_refill(struct htw_flow *flow, u64 now)
{
	const u64 burst = htw_burst_ns();
	u64 more;

	if (now <= flow->refilled)
		return;
	/* Nobody owes so much that an hour would not do. */
	more = min_t(u64, now - flow->refilled, 3600 * (u64)NSEC_PER_SEC);
	flow->tokens = min_t(s64, burst, flow->tokens +
				  (s64)div_u64(more * READ_ONCE(htw_share_percent), 100));
	flow->refilled = now;
}

/* When a flow that has none will have tokens enough. */
static u64 htw_flow_resumes(const struct htw_flow *flow)
{
	const u64 lacking = HTW_RESUME_NS - min_t(s64, flow->tokens, HTW_RESUME_NS);

	return flow->refilled + div_u64(lacking * 100, READ_ONCE(htw_share_percent));
}

/**
 * htw_flow_init() - of a new user
 * @flow: the flow
 * @class: how it is served
 * @owner: for people: whose it is
 */
void htw_flow_init(struct htw_flow *flow, enum htw_class class, u32 owner)
{
	INIT_LIST_HEAD(&flow->link);
	INIT_LIST_HEAD(&flow->jobs);
	timerqueue_init(&flow->parked);
	flow->class = class;
	flow->owner = owner;
	flow->tokens = min_t(u64, HTW_TOKENS_FIRST_NS, htw_burst_ns());
	flow->refilled = ktime_get_ns();
}

/*
 * Starts the next run, at @when or as soon as may be; on the pacer's CPU. Within
 * the softirq that runs hrtimers, @when may be the time of the one that has come:
 * then the run follows in the same softirq, behind all wheels of that tick.
 */
static void htw_pacer_start(struct htw_pacer *p, u64 when)
{
	const ktime_t at = ns_to_ktime(max(when, READ_ONCE(p->not_before)));

	if (hrtimer_is_queued(&p->hrtimer) && hrtimer_get_expires(&p->hrtimer) <= at)
		return;
	hrtimer_start(&p->hrtimer, at, HRTIMER_MODE_ABS_PINNED_SOFT);
}

/* In hardirq, on the pacer's CPU: another CPU has scheduled a job. */
static void htw_pacer_kicked(void *data)
{
	struct htw_pacer *p = data;

	p->kicks++;
	htw_pacer_start(p, 0);
}

/* Gives a pacer a job that was not scheduled; at most one interrupt until it has run. */
static void htw_pacer_add(struct htw_pacer *p, struct htw_job *job, u64 when)
{
	if (!llist_add(&job->kicked, &p->kicked))
		return;
	if (p->cpu == raw_smp_processor_id()) {
		/* A run that is under way looks again before it ends. */
		if (!READ_ONCE(p->serving))
			htw_pacer_start(p, when);
	} else {
		/* One that is under way will do for this job as well. */
		smp_call_function_single_async(p->cpu, &p->csd);
	}
}

/**
 * htw_job_schedule() - there is something to do
 * @job: the job
 * @when: when to do it, in ns of CLOCK_MONOTONIC; 0 for now
 *
 * Context: bottom halves are off, or the caller keeps the job from being freed.
 */
void htw_job_schedule(struct htw_job *job, u64 when)
{
	if (!test_and_set_bit(0, &job->scheduled))
		htw_pacer_add(READ_ONCE(job->pacer), job, when);
}

/**
 * htw_job_fired() - the hrtimer of a job has come
 * @job: the job
 * @when: as for htw_job_schedule()
 *
 * Context: softirq, in the hrtimer's callback.
 */
void htw_job_fired(struct htw_job *job, u64 when)
{
	struct htw_pacer *p = this_cpu_ptr(&htw_pacers);

	p->callbacks++;
	if (time_after(jiffies, p->window)) {
		p->crowded = p->firings > HTW_FIRINGS_PER_SEC / HZ;
		p->window = jiffies;
		p->firings = 0;
	}
	p->firings++;
	htw_job_schedule(job, when);
}

/* Puts a flow where it waits for tokens. */
static void htw_flow_park(struct htw_pacer *p, struct htw_flow *flow, u64 now)
{
	const u64 resumes = max(htw_flow_resumes(flow), now);

	lockdep_assert_held(&p->lock);

	list_del_init(&flow->link);
	flow->fresh = 0;
	flow->parked.expires = ns_to_ktime(resumes);
	timerqueue_add(&p->parked, &flow->parked);
	flow->is_parked = true;
	flow->parks++;
	flow->parked_at = now;
	trace_htw_throttle(p->cpu, flow->owner, resumes - now);
}

/* A flow that has a job queues, if it does not yet. */
static void htw_flow_activate(struct htw_pacer *p, struct htw_flow *flow, u64 now)
{
	struct htw_queue *queue = &p->queues[flow->class];

	lockdep_assert_held(&p->lock);

	if (flow->is_parked || !list_empty(&flow->link))
		return;
	if (flow->class == HTW_CLASS_OTHERS) {
		htw_flow_refill(flow, now);
		if (flow->tokens <= 0) {
			htw_flow_park(p, flow, now);
			return;
		}
	}
	/* One that was here just now, and ran dry, keeps what it owes to the others. */
	if (now - flow->fresh_at >= HTW_FRESH_NS) {
		flow->fresh = HTW_FRESH_TURNS;
		flow->fresh_at = now;
		flow->deficit = HTW_QUANTUM_NS;
		list_add_tail(&flow->link, &queue->fresh);
	} else {
		flow->fresh = 0;
		list_add_tail(&flow->link, &queue->old);
	}
}

/* A flow has used some of the CPU. */
static void htw_flow_charge(struct htw_flow *flow, u64 ns, u64 now)
{
	flow->spent += ns;
	flow->deficit -= min_t(u64, ns, HTW_BUDGET_NS);
	if (flow->class == HTW_CLASS_OTHERS) {
		htw_flow_refill(flow, now);
		flow->tokens -= ns;
	}
}

/*
 * Queues what was scheduled since the last look with its flow. What has come to
 * belong to another pacer goes there.
 */
static void htw_pacer_collect(struct htw_pacer *p, u64 now)
{
	struct llist_node *kicked;
	struct htw_job *job, *next;

	lockdep_assert_held(&p->lock);

	if (llist_empty(&p->kicked))
		return;
	kicked = llist_reverse_order(llist_del_all(&p->kicked));
	llist_for_each_entry_safe(job, next, kicked, kicked) {
		struct htw_pacer *owner = READ_ONCE(job->pacer);
		struct htw_flow *flow;

		if (READ_ONCE(job->dead))
			continue;
		if (unlikely(owner != p)) {
			htw_pacer_add(owner, job, 0);
			continue;
		}
		flow = per_cpu_ptr(job->flows, p->cpu);
		list_add_tail(&job->ready, &flow->jobs);
		htw_flow_charge(flow, HTW_FIRING_NS, now);
		p->owed += HTW_FIRING_NS;
		htw_flow_activate(p, flow, now);
	}
}

/* Flows that have tokens by @now queue with the others. */
static void htw_pacer_unpark(struct htw_pacer *p, u64 now)
{
	struct timerqueue_node *node;

	lockdep_assert_held(&p->lock);

	while ((node = timerqueue_getnext(&p->parked)) && ktime_to_ns(node->expires) <= now) {
		struct htw_flow *flow = container_of(node, struct htw_flow, parked);

		timerqueue_del(&p->parked, node);
		flow->is_parked = false;
		flow->parked_ns += min_t(u64, now, ktime_to_ns(node->expires)) - flow->parked_at;
		if (!list_empty(&flow->jobs))
			list_add_tail(&flow->link, &p->queues[flow->class].old);
	}
}

/* The flow of a class whose turn it is. */
static struct htw_flow *htw_queue_first(struct htw_queue *queue)
{
	struct htw_flow *flow = list_first_entry_or_null(&queue->fresh, struct htw_flow, link);

	if (flow)
		return flow;
	while ((flow = list_first_entry_or_null(&queue->old, struct htw_flow, link))) {
		if (flow->deficit > 0)
			break;
		flow->deficit += HTW_QUANTUM_NS;
		list_move_tail(&flow->link, &queue->old);
	}
	return flow;
}

/* The flow whose turn it is; NULL where none has a job. */
static struct htw_flow *htw_pacer_next(struct htw_pacer *p)
{
	struct htw_flow *flow = NULL;

	lockdep_assert_held(&p->lock);

	for (unsigned int i = 0; i < HTW_CLASSES && !flow; i++) {
		flow = htw_queue_first(&p->queues[p->turn]);
		p->turn = (p->turn + 1) % HTW_CLASSES;
	}
	return flow;
}

/* Where a flow goes that has had a turn. */
static void htw_flow_requeue(struct htw_pacer *p, struct htw_flow *flow, u64 now)
{
	struct htw_queue *queue = &p->queues[flow->class];

	lockdep_assert_held(&p->lock);

	if (list_empty(&flow->jobs))
		list_del_init(&flow->link);
	else if (flow->class == HTW_CLASS_OTHERS && flow->tokens <= 0)
		htw_flow_park(p, flow, now);
	else if (flow->fresh)
		list_move_tail(&flow->link, --flow->fresh ? &queue->fresh : &queue->old);
}

/*
 * Gives a flow's first job a turn. The lock is dropped meanwhile; the flow stays, as
 * it is @p->serving, and the job, as this is an RCU read-side section.
 */
static enum htw_served htw_pacer_serve(struct htw_pacer *p, struct htw_flow *flow, bool wait)
{
	/* One after which nobody of its class waits need not stop so soon. */
	const bool short_turn = flow->fresh && !list_is_singular(&p->queues[flow->class].fresh);
	struct htw_job *job = list_first_entry(&flow->jobs, struct htw_job, ready);
	const struct htw_turn turn = {
		.pacer = p,
		.units = short_turn ? HTW_FRESH_UNITS : HTW_TURN_UNITS,
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
	/* Pairs with htw_job_cancel(), which looks for it under this lock. */
	if (served == HTW_SERVED_DONE || READ_ONCE(job->dead))
		return served;
	if (likely(READ_ONCE(job->pacer) == p))
		__htw_list_add_tail(&job->ready, &flow->jobs);
	else
		htw_pacer_add(job->pacer, job, 0);
	return served;
}

/*
 * How much of the time that a turn or a run took counts as work. Where it is more than
 * work can take, the CPU was taken away meanwhile, and it counts as %HTW_BUDGET_NS;
 * but the second time in a row, which @stalled records, all of it counts.
 */
static u64 htw_work_ns(u64 took, bool *stalled)
{
	const bool again = *stalled;

	*stalled = took > HTW_STALL_NS;
	return *stalled && !again ? HTW_BUDGET_NS : took;
}

/* The next run: how long to leave the CPU alone, after one that took so long. */
static u64 htw_pacer_gap(struct htw_pacer *p, u64 took)
{
	const u64 work = htw_work_ns(took, &p->stalled);

	p->stalls += p->stalled;
	return max_t(u64, work + p->owed + HTW_PACER_RUN_NS, HTW_GAP_MIN_NS);
}

/* When the next run has something to do; U64_MAX for not before it is told. */
static u64 htw_pacer_resumes(struct htw_pacer *p)
{
	struct timerqueue_node *parked = timerqueue_getnext(&p->parked);

	lockdep_assert_held(&p->lock);

	for (unsigned int c = 0; c < HTW_CLASSES; c++) {
		if (!list_empty(&p->queues[c].fresh) || !list_empty(&p->queues[c].old)) {
			p->exhausted++;
			return 0;
		}
	}
	return parked ? ktime_to_ns(parked->expires) : U64_MAX;
}

static void htw_pacer_run(struct htw_pacer *p, u64 began)
{
	u64 extra = HTW_PACER_RUN_NS;
	unsigned int misses = 0;
	struct htw_flow *flow;
	u64 last = began;
	u64 resumes;

	spin_lock(&p->lock);
	htw_pacer_unpark(p, began);
	htw_pacer_collect(p, began);
	p->runs++;
	while (last - began < HTW_BUDGET_NS && (flow = htw_pacer_next(p))) {
		enum htw_served served = HTW_SERVED_DONE;
		u64 now;

		if (likely(!list_empty(&flow->jobs)))
			served = htw_pacer_serve(p, flow, misses >= HTW_MISSES);
		now = ktime_get_ns();
		htw_flow_charge(flow, htw_work_ns(now - last, &flow->stalled) + extra, now);
		extra = 0;
		last = now;
		if (served == HTW_SERVED_BUSY) {
			misses++;
			/* Others first; it is none of this flow's doing that they are. */
			list_rotate_left(flow->fresh ? &p->queues[flow->class].fresh :
						       &p->queues[flow->class].old);
		} else {
			htw_flow_requeue(p, flow, now);
		}
		htw_pacer_collect(p, now);
	}
	p->misses += misses;
	p->spent += last - began + p->owed + HTW_PACER_RUN_NS;
	WRITE_ONCE(p->not_before, last + htw_pacer_gap(p, last - began));
	p->owed = 0;
	resumes = htw_pacer_resumes(p);
	spin_unlock(&p->lock);

	if (resumes != U64_MAX)
		hrtimer_start(&p->hrtimer, ns_to_ktime(max(resumes, p->not_before)),
			      HRTIMER_MODE_ABS_PINNED_SOFT);
	/* A kick may have started it since the last look, and that start was just undone. */
	if (!llist_empty(&p->kicked))
		htw_pacer_start(p, 0);
}

static enum hrtimer_restart htw_pacer_callback(struct hrtimer *hrtimer)
{
	struct htw_pacer *p = container_of(hrtimer, struct htw_pacer, hrtimer);
	const u64 began = ktime_get_ns();

	this_cpu_ptr(&htw_pacers)->callbacks++;
	if (unlikely(p->cpu != raw_smp_processor_id())) {
		/* Its CPU went, and the hrtimer was moved. */
		if (READ_ONCE(p->adopter))
			htw_pacer_migrate(p);
		else
			smp_call_function_single_async(p->cpu, &p->csd);
		return HRTIMER_NORESTART;
	}
	if (unlikely(began < p->not_before)) {
		/* A kick that came as the last run ended. */
		htw_pacer_start(p, 0);
		return HRTIMER_NORESTART;
	}
	/* Jobs and flows are freed a grace period after they were taken out. */
	rcu_read_lock();
	htw_pacer_run(p, began);
	rcu_read_unlock();
	return HRTIMER_NORESTART;
}

/*
 * Gives a job to the pacer that it belongs to by now. Where that is still @p, whose CPU
 * has gone, it is a walk of waiters, and @adopter's from now on.
 */
static void htw_job_migrate(struct htw_pacer *p, struct htw_job *job, struct htw_pacer *adopter)
{
	if (adopter && READ_ONCE(job->pacer) == p)
		WRITE_ONCE(job->pacer, adopter);
	htw_pacer_add(job->pacer, job, 0);
}

/* Returns true where that leaves the flow without a job. */
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
		/* One that has its turn is seen to by that run. */
		if (htw_flow_migrate(p, flow, adopter) && p->serving != flow)
			list_del_init(&flow->link);
	}
}

/**
 * htw_pacer_migrate() - passes on jobs that have come to belong to other pacers
 * @p: the pacer that has them; where its CPU has gone, all that it has
 *
 * Context: softirq or process.
 */
void htw_pacer_migrate(struct htw_pacer *p)
{
	struct htw_pacer *const adopter = READ_ONCE(p->adopter);
	struct timerqueue_node *node;
	struct htw_job *job, *next;

	spin_lock_bh(&p->lock);
	htw_pacer_unpark(p, adopter ? KTIME_MAX : ktime_get_ns());
	for (node = timerqueue_getnext(&p->parked); node; node = timerqueue_iterate_next(node))
		htw_flow_migrate(p, container_of(node, struct htw_flow, parked), adopter);
	for (unsigned int c = 0; c < HTW_CLASSES; c++) {
		htw_flows_migrate(p, &p->queues[c].fresh, adopter);
		htw_flows_migrate(p, &p->queues[c].old, adopter);
	}
	llist_for_each_entry_safe(job, next, llist_del_all(&p->kicked), kicked) {
		if (!READ_ONCE(job->dead))
			htw_job_migrate(p, job, adopter);
	}
	spin_unlock_bh(&p->lock);
}

/**
 * htw_pacer_for() - who serves what waits on a CPU
 * @cpu: the CPU
 *
 * Return: its pacer, or the one that has adopted its wheels.
 */
struct htw_pacer *htw_pacer_for(unsigned int cpu)
{
	struct htw_pacer *p = per_cpu_ptr(&htw_pacers, cpu);

	lockdep_assert_held(&htw_pacers_mutex);

	return p->adopter ?: p;
}

/**
 * htw_pacer_online() - a CPU serves its own jobs from now on
 * @cpu: the CPU, on which we run
 */
void htw_pacer_online(unsigned int cpu)
{
	lockdep_assert_held(&htw_pacers_mutex);

	WRITE_ONCE(per_cpu_ptr(&htw_pacers, cpu)->adopter, NULL);
}

/**
 * htw_pacer_adopt() - a CPU is going, or was never there
 * @cpu: the CPU
 * @adopter: the pacer of one that stays
 */
void htw_pacer_adopt(unsigned int cpu, struct htw_pacer *adopter)
{
	lockdep_assert_held(&htw_pacers_mutex);

	WRITE_ONCE(per_cpu_ptr(&htw_pacers, cpu)->adopter, adopter);
}

/**
 * htw_job_init() - prepares a job
 * @job: the job
 * @flows: its user's, for each CPU
 * @serve: does some of it
 *
 * The caller sets &htw_job.pacer before it can be scheduled.
 */
void htw_job_init(struct htw_job *job, struct htw_flow __percpu *flows, htw_serve_t *serve)
{
	*job = (struct htw_job) { .serve = serve, .flows = flows };
	INIT_LIST_HEAD(&job->ready);
}

/**
 * htw_job_cancel() - takes a job away from its pacer for good
 * @job: the job, which is dead, so that nobody schedules it any more; its pacer
 *	does not change meanwhile
 *
 * A turn that is under way goes on: the job may be freed a grace period later.
 *
 * Context: process.
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

/**
 * htw_flow_is_idle() - could a flow be freed without anybody gaining by it?
 * @flow: the flow, of a user without contexts
 * @cpu: its CPU
 *
 * Return: true if it has no job and all tokens it can have.
 */
bool htw_flow_is_idle(struct htw_flow *flow, unsigned int cpu)
{
	struct htw_pacer *p = per_cpu_ptr(&htw_pacers, cpu);
	bool idle;

	spin_lock_bh(&p->lock);
	htw_flow_refill(flow, ktime_get_ns());
	idle = list_empty(&flow->link) && !flow->is_parked && p->serving != flow &&
	       (flow->class != HTW_CLASS_OTHERS || flow->tokens >= (s64)htw_burst_ns());
	spin_unlock_bh(&p->lock);
	return idle;
}

/**
 * htw_flow_get_info() - what a flow has had
 * @flow: the flow
 * @cpu: its CPU
 * @info: out: that
 */
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
		.parks = flow->parks,
		.parked_ns = flow->parked_ns + (flow->is_parked ? now - flow->parked_at : 0),
	};
	spin_unlock_bh(&p->lock);
}

/**
 * htw_flow_wait() - must a user wait before more is done for it on this CPU?
 * @flows: the user's
 *
 * For work that is not done in softirq.
 *
 * Context: process.
 * Return: ns until it has tokens; zero where it has some.
 */
u64 htw_flow_wait(struct htw_flow __percpu *flows)
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
			wait = max(htw_flow_resumes(flow), now) - now;
	}
	spin_unlock(&p->lock);
	local_bh_enable();
	return wait;
}

/**
 * htw_flow_spend() - charges a user for work on this CPU that was not a job
 * @flows: the user's
 * @ns: how long it took
 *
 * Context: process.
 */
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

/**
 * htw_pacers_init() - prepares the pacers of all CPUs that there may be
 */
void htw_pacers_init(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		struct htw_pacer *p = per_cpu_ptr(&htw_pacers, cpu);

		spin_lock_init(&p->lock);
		init_llist_head(&p->kicked);
		hrtimer_setup(&p->hrtimer, htw_pacer_callback, CLOCK_MONOTONIC,
			      HRTIMER_MODE_ABS_SOFT);
		INIT_CSD(&p->csd, htw_pacer_kicked, p);
		p->cpu = cpu;
		p->window = jiffies;
		for (unsigned int c = 0; c < HTW_CLASSES; c++) {
			INIT_LIST_HEAD(&p->queues[c].fresh);
			INIT_LIST_HEAD(&p->queues[c].old);
		}
		timerqueue_init_head(&p->parked);
	}
}

static void htw_pacer_wait_for_kick(struct htw_pacer *p)
{
	while (READ_ONCE(p->csd.node.u_flags) & CSD_FLAG_LOCK)
		cpu_relax();
}

/**
 * htw_pacers_exit() - stops the pacers; no job is left
 *
 * Context: process, may sleep.
 */
void htw_pacers_exit(void)
{
	unsigned int cpu;

	/* A kick that is under way would start an hrtimer after its cancel. */
	for_each_possible_cpu(cpu)
		htw_pacer_wait_for_kick(per_cpu_ptr(&htw_pacers, cpu));
	synchronize_rcu();	/* kicks unlock their data before they run, in hardirq */
	for_each_possible_cpu(cpu)
		hrtimer_cancel(&per_cpu_ptr(&htw_pacers, cpu)->hrtimer);
}
