// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flows: which user's work a CPU does next, and how much of it
 *
 * A flow is a user on a CPU with all of that user's jobs there. Flows, not
 * jobs, are scheduled: otherwise a user could get more of the CPU by opening
 * more wheels.
 *
 * The three classes take turns, so the number of busy flows in one does not
 * matter to the others. Within a class, flows are scheduled like packets in
 * fq_codel (RFC 8290), by deficit round robin over two lists:
 *
 * - A flow that gets a job after it had none is new. New flows are served
 *   before old ones, but only for HTW_NEW_TURNS short turns; then they join the
 *   old flows. A light user is therefore served ahead of any number of busy
 *   ones. When 64 users start on the same tick, each has had four timers
 *   delivered after 0.25 ms of work. So that any number of light users leaves
 *   something to busy ones, an old flow has its turn after HTW_NEW_AHEAD turns
 *   of new ones.
 * - An old flow keeps its place at the head until its deficit is used up. It
 *   then gets another quantum and goes to the tail.
 *
 * A flow is new once per HTW_NEW_INTERVAL_NS on average. Otherwise one that
 * always runs dry just before its new turns end would stay ahead of all others;
 * instead it queues with the old flows and keeps its deficit. The average
 * counts, because a run and the gap after it put off one tick, but not the next.
 *
 * Flows of HTW_CLASS_OTHERS also have a share of the CPU: a token bucket of
 * softirq time, filled at htw_share_percent of real time up to htw_burst_ms. A
 * flow whose tokens are used up is throttled until it has HTW_RESUME_NS again.
 * This delays only its own timers.
 *
 * The functions take no lock: the lock of the CPU's pacer guards all of this.
 */

#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/timekeeping.h>

#include <trace/events/htw.h>

#include "flow.h"

/* Quantum of the round robin: about what HTW_TURN_UNITS timers take. */
#define HTW_QUANTUM_NS		(20 * NSEC_PER_USEC)
/*
 * Turns of new flows after which an old one has its turn. Otherwise enough
 * users with little to do would take all of the time, and those with more would
 * get none.
 */
#define HTW_NEW_AHEAD		48u
/* Just below 1 ms, so that a user whose timers expire each millisecond is always new. */
#define HTW_NEW_INTERVAL_NS	(900 * NSEC_PER_USEC)
/*
 * How often stalls are forgiven. A limit on how often and not on how many in a
 * row, because a user can make long turns alternate with short ones.
 */
#define HTW_FORGIVE_INTERVAL_NS	((u64)NSEC_PER_SEC)
/* A throttled flow resumes with enough tokens for a whole run. */
#define HTW_RESUME_NS		HTW_RUN_NS
/* Initial tokens: less than the burst, so that using many uids gains little. */
#define HTW_TOKENS_FIRST_NS	(50 * NSEC_PER_MSEC)
/* Longest time to add tokens for at once: enough for any debt, and no product overflows. */
#define HTW_REFILL_MAX_NS	(3600 * (u64)NSEC_PER_SEC)

unsigned int htw_share_percent = 25;
unsigned int htw_burst_ms = 250;

static u64 htw_flow_burst_ns(void)
{
	return READ_ONCE(htw_burst_ms) * (u64)NSEC_PER_MSEC;
}

void htw_flow_init(struct htw_flow *flow, enum htw_class class, u32 owner)
{
	INIT_LIST_HEAD(&flow->link);
	INIT_LIST_HEAD(&flow->jobs);
	timerqueue_init(&flow->throttle_node);
	flow->class = class;
	flow->owner = owner;
	flow->tokens = min_t(u64, HTW_TOKENS_FIRST_NS, htw_flow_burst_ns());
	flow->refilled = ktime_get_ns();
	flow->stalls.last = flow->refilled;
}

/* Add the tokens for the time since the last refill. */
void htw_flow_refill(struct htw_flow *flow, u64 now)
{
	const u64 burst = htw_flow_burst_ns();
	u64 elapsed;

	if (now <= flow->refilled)
		return;

	elapsed = min_t(u64, now - flow->refilled, HTW_REFILL_MAX_NS);
	flow->tokens = min_t(s64, burst, flow->tokens +
				  (s64)div_u64(elapsed * READ_ONCE(htw_share_percent), 100));
	flow->refilled = now;
}

/* Has the flow all the tokens that it can have? */
bool htw_flow_is_full(const struct htw_flow *flow)
{
	return flow->class != HTW_CLASS_OTHERS ||
	       flow->tokens >= (s64)htw_flow_burst_ns();
}

/* Return the time at which a flow has HTW_RESUME_NS of tokens. */
u64 htw_flow_resume_time(const struct htw_flow *flow)
{
	const u64 lacking = HTW_RESUME_NS - min_t(s64, flow->tokens, HTW_RESUME_NS);

	return flow->refilled + div_u64(lacking * 100, READ_ONCE(htw_share_percent));
}

/* Charge a flow for CPU time that was spent on its behalf. */
void htw_flow_charge(struct htw_flow *flow, u64 ns, u64 now)
{
	flow->spent += ns;
	/* Work outside of softirq adds up while the flow has no job: keep the debt to one run. */
	flow->deficit = max_t(s64,
			      flow->deficit - (s64)min_t(u64, ns, HTW_RUN_NS),
			      -(s64)HTW_RUN_NS);
	if (flow->class == HTW_CLASS_OTHERS) {
		htw_flow_refill(flow, now);
		flow->tokens -= ns;
	}
}

/**
 * htw_stalls_forgive() - leave out the time that the CPU was taken away
 * @stalls: what was forgiven to this flow, or to all on this CPU
 * @took: ns that a turn or a run took
 * @work: the part of it that is known to be work
 * @now: ns of CLOCK_MONOTONIC
 *
 * The clock does not show that a hypervisor, or the firmware, had the CPU. If
 * the rest took longer than HTW_STALL_NS, count it as HTW_RUN_NS, at most once
 * in HTW_FORGIVE_INTERVAL_NS.
 *
 * Return: the ns that count as work.
 */
u64 htw_stalls_forgive(struct htw_stalls *stalls, u64 took, u64 work, u64 now)
{
	u64 rest = took - min(took, work);

	if (rest <= HTW_STALL_NS ||
	    now - stalls->last < HTW_FORGIVE_INTERVAL_NS)
		return took;

	stalls->last = now;
	stalls->times++;
	stalls->ns += rest - HTW_RUN_NS;
	return took - rest + HTW_RUN_NS;
}

void htw_flow_sched_init(struct htw_flow_sched *sched, unsigned int cpu)
{
	for (unsigned int c = 0; c < HTW_CLASSES; c++) {
		INIT_LIST_HEAD(&sched->queues[c].new_flows);
		INIT_LIST_HEAD(&sched->queues[c].old_flows);
	}
	timerqueue_init_head(&sched->throttled);
	sched->cpu = cpu;
}

/* Take a flow off its queue until it has tokens again. */
static void htw_flow_throttle(struct htw_flow_sched *sched,
			      struct htw_flow *flow, u64 now)
{
	const u64 resumes = max(htw_flow_resume_time(flow), now);

	list_del_init(&flow->link);
	flow->new_turns = 0;
	flow->throttle_node.expires = ns_to_ktime(resumes);
	timerqueue_add(&sched->throttled, &flow->throttle_node);
	flow->throttled = true;
	flow->throttles++;
	flow->throttled_at = now;
	trace_htw_throttle(sched->cpu, flow->owner, resumes - now);
}

/* Queue the flows that have tokens again at @now. */
void htw_flow_unthrottle(struct htw_flow_sched *sched, u64 now)
{
	struct timerqueue_node *node;

	while ((node = timerqueue_getnext(&sched->throttled)) &&
	       ktime_to_ns(node->expires) <= now) {
		struct htw_flow *flow = container_of(node, struct htw_flow, throttle_node);

		timerqueue_del(&sched->throttled, node);
		flow->throttled = false;
		flow->throttled_ns += min_t(u64, now, ktime_to_ns(node->expires)) -
				      flow->throttled_at;
		if (!list_empty(&flow->jobs))
			list_add_tail(&flow->link,
				      &sched->queues[flow->class].old_flows);
	}
}

/* Queue a flow that has got a job, unless it is queued or throttled already. */
void htw_flow_activate(struct htw_flow_sched *sched, struct htw_flow *flow,
		       u64 now)
{
	struct htw_flow_queue *queue = &sched->queues[flow->class];

	if (flow->throttled || !list_empty(&flow->link))
		return;

	if (flow->class == HTW_CLASS_OTHERS) {
		htw_flow_refill(flow, now);
		if (flow->tokens <= 0) {
			htw_flow_throttle(sched, flow, now);
			return;
		}
	}

	if (now >= flow->new_from) {
		flow->new_turns = HTW_NEW_TURNS;
		flow->new_from = max(flow->new_from + HTW_NEW_INTERVAL_NS, now);
		flow->deficit = HTW_QUANTUM_NS;
		list_add_tail(&flow->link, &queue->new_flows);
	} else {
		flow->new_turns = 0;
		list_add_tail(&flow->link, &queue->old_flows);
	}
}

static struct htw_flow *htw_flow_queue_next(struct htw_flow_queue *queue)
{
	struct htw_flow *flow = list_first_entry_or_null(&queue->new_flows,
							 struct htw_flow, link);

	if (list_empty(&queue->old_flows))
		queue->ahead = 0;

	if (flow && queue->ahead < HTW_NEW_AHEAD) {
		queue->ahead++;
		return flow;
	}

	queue->ahead = 0;
	while ((flow = list_first_entry_or_null(&queue->old_flows,
						struct htw_flow, link))) {
		if (flow->deficit > 0)
			break;
		flow->deficit += HTW_QUANTUM_NS;
		list_move_tail(&flow->link, &queue->old_flows);
	}
	return flow;
}

/* Return the flow to serve next, which stays queued; NULL if none has a job. */
struct htw_flow *htw_flow_next(struct htw_flow_sched *sched)
{
	struct htw_flow *flow = NULL;

	for (unsigned int i = 0; i < HTW_CLASSES && !flow; i++) {
		flow = htw_flow_queue_next(&sched->queues[sched->next_class]);
		sched->next_class = (sched->next_class + 1) % HTW_CLASSES;
	}
	return flow;
}

/* A new flow has short turns only while other new flows of its class wait for theirs. */
unsigned int htw_flow_turn_units(const struct htw_flow_sched *sched,
				 const struct htw_flow *flow)
{
	if (flow->new_turns &&
	    !list_is_singular(&sched->queues[flow->class].new_flows))
		return HTW_NEW_TURN_UNITS;
	return HTW_TURN_UNITS;
}

static bool htw_flow_must_wait(const struct htw_flow *flow)
{
	return flow->class == HTW_CLASS_OTHERS && flow->tokens <= 0;
}

/* Dequeue, throttle or requeue a flow after its turn. */
void htw_flow_requeue(struct htw_flow_sched *sched, struct htw_flow *flow,
		      u64 now)
{
	struct htw_flow_queue *queue = &sched->queues[flow->class];

	if (list_empty(&flow->jobs))
		list_del_init(&flow->link);
	else if (htw_flow_must_wait(flow))
		htw_flow_throttle(sched, flow, now);
	else if (flow->new_turns)
		list_move_tail(&flow->link,
			       --flow->new_turns ? &queue->new_flows : &queue->old_flows);
}

/* Let the next flow of a list go first: a lock that @flow needs is contended. */
void htw_flow_rotate(struct htw_flow_sched *sched, struct htw_flow *flow,
		     u64 now)
{
	struct htw_flow_queue *queue = &sched->queues[flow->class];

	if (htw_flow_must_wait(flow))
		htw_flow_throttle(sched, flow, now);
	else
		list_rotate_left(flow->new_turns ? &queue->new_flows : &queue->old_flows);
}

/* Queue a new flow with the old ones: what it has left to do would delay other new flows. */
void htw_flow_demote(struct htw_flow_sched *sched, struct htw_flow *flow,
		     u64 now)
{
	flow->new_turns = 0;
	if (htw_flow_must_wait(flow))
		htw_flow_throttle(sched, flow, now);
	else
		list_move_tail(&flow->link,
			       &sched->queues[flow->class].old_flows);
}

bool htw_flow_sched_has_work(const struct htw_flow_sched *sched)
{
	for (unsigned int c = 0; c < HTW_CLASSES; c++) {
		if (!list_empty(&sched->queues[c].new_flows) ||
		    !list_empty(&sched->queues[c].old_flows))
			return true;
	}
	return false;
}

/* Return when the first throttled flow resumes, in ns; U64_MAX if there is none. */
u64 htw_flow_sched_resume_time(struct htw_flow_sched *sched)
{
	struct timerqueue_node *node = timerqueue_getnext(&sched->throttled);

	return node ? ktime_to_ns(node->expires) : U64_MAX;
}
