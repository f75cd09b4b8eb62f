/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Flows: a user's jobs on a CPU, and which flow is served next; see flow.c
 */
#ifndef _HTW_FLOW_H
#define _HTW_FLOW_H

#include <linux/list.h>
#include <linux/time64.h>
#include <linux/timerqueue.h>
#include <linux/types.h>

/* A run of a pacer ends with the turn in which it has taken this long. */
#define HTW_RUN_NS		(200 * NSEC_PER_USEC)
/* Most units of work in a turn; a timer is one. */
#define HTW_TURN_UNITS		128u
/* The same for a new flow while others of its class are new as well. */
#define HTW_NEW_TURN_UNITS	4u
/* Turns of a new flow before it queues with the old ones. */
#define HTW_NEW_TURNS		6u
/* A turn or a run that took longer was interrupted, unless all of that is work. */
#define HTW_STALL_NS		(2 * HTW_RUN_NS)
/* For so long a flow whose waiters took long to wake wakes none where others would wait for it. */
#define HTW_SLOW_NS		(10 * (u64)NSEC_PER_SEC)

/**
 * enum htw_class - classes of flows, served in rotation
 * @HTW_CLASS_CALLOUTS: callouts of kernel modules
 * @HTW_CLASS_PRIVILEGED: users with CAP_SYS_RESOURCE
 * @HTW_CLASS_OTHERS: all other users; only these have a limited share of each
 *	CPU
 * @HTW_CLASSES: number of classes
 */
enum htw_class {
	HTW_CLASS_CALLOUTS,
	HTW_CLASS_PRIVILEGED,
	HTW_CLASS_OTHERS,
	HTW_CLASSES,
};

/**
 * struct htw_stalls - what was forgiven as time that the CPU was taken away
 * @last: when it was last done, in ns of CLOCK_MONOTONIC
 * @times: how often
 * @ns: how much in all
 *
 * Guarded by the lock of the CPU's pacer.
 */
struct htw_stalls {
	u64 last;
	u64 times;
	u64 ns;
};

/**
 * struct htw_forgiven - wake-ups that took long and were not taken for slow
 * @ns: how long they took, less what has been forgotten since
 * @at: when that was last looked at, in ns of CLOCK_MONOTONIC
 *
 * Guarded by the lock of the CPU's pacer.
 */
struct htw_forgiven {
	u64 ns;
	u64 at;
};

/**
 * struct htw_flow - a user on a CPU
 * @link: on a list of its class's &struct htw_flow_queue; empty while the flow
 *	has no job, and while it is throttled
 * @jobs: scheduled jobs, served in turn
 * @throttle_node: on &htw_flow_sched.throttled, keyed by when the flow has
 *	tokens again
 * @throttled: @throttle_node is queued
 * @stalls: turns of which a part was forgiven
 * @forgiven: of its waiters
 * @later_since: since when its waiters have been put off because of what waking
 *	others took, in ns of CLOCK_MONOTONIC, or zero
 * @slow_until: until then, in ns of CLOCK_MONOTONIC, its waiters count as slow
 *	(used by turns only)
 * @new_turns: turns left as a new flow; zero for an old one
 * @class: never changes
 * @owner: uid or inode of the user namespace, for tracing; never changes
 * @deficit: ns left of the present quantum
 * @new_from: when it may be a new flow again, in ns of CLOCK_MONOTONIC
 * @tokens: ns of its share that it may use now; negative if it has used too
 *	much
 * @refilled: time up to which @tokens have been added, in ns of CLOCK_MONOTONIC
 * @spent: ns charged so far
 * @throttles: number of times it was throttled
 * @throttled_at: when it was last throttled, in ns of CLOCK_MONOTONIC
 * @throttled_ns: ns that it was throttled, not counting the present time
 *
 * Guarded by the lock of its CPU's pacer.
 */
struct htw_flow {
	struct list_head link;
	struct list_head jobs;
	struct timerqueue_node throttle_node;
	bool throttled;
	u8 new_turns;
	enum htw_class class;
	u32 owner;
	s64 deficit;
	u64 new_from;
	s64 tokens;
	u64 refilled;
	u64 spent;
	u64 throttles;
	u64 throttled_at;
	u64 throttled_ns;
	struct htw_stalls stalls;
	struct htw_forgiven forgiven;
	u64 later_since;
	u64 slow_until;
};

/**
 * struct htw_flow_queue - the flows of a class that have jobs
 * @new_flows: served first, some short turns each
 * @old_flows: served when there is no new flow, and after HTW_NEW_AHEAD turns
 *	of new ones, by deficit round robin
 * @ahead: turns that new flows have had since an old one last had its turn or
 *	there was none
 */
struct htw_flow_queue {
	struct list_head new_flows;
	struct list_head old_flows;
	unsigned int ahead;
};

/**
 * struct htw_flow_sched - the flows of a CPU
 * @queues: by class
 * @next_class: class whose turn is next
 * @throttled: flows without tokens
 * @cpu: the CPU; never changes
 *
 * Guarded by the lock of the CPU's pacer.
 */
struct htw_flow_sched {
	struct htw_flow_queue queues[HTW_CLASSES];
	unsigned int next_class;
	struct timerqueue_head throttled;
	unsigned int cpu;
};

extern unsigned int htw_share_percent;
extern unsigned int htw_burst_ms;

void htw_flow_init(struct htw_flow *flow, enum htw_class class, u32 owner);
void htw_flow_refill(struct htw_flow *flow, u64 now);
bool htw_flow_is_full(const struct htw_flow *flow);
u64 htw_flow_resume_time(const struct htw_flow *flow);
void htw_flow_charge(struct htw_flow *flow, u64 ns, u64 now);
u64 htw_stalls_forgive(struct htw_stalls *stalls, u64 took, u64 work, u64 now);

void htw_flow_sched_init(struct htw_flow_sched *sched, unsigned int cpu);
void htw_flow_activate(struct htw_flow_sched *sched, struct htw_flow *flow,
		       u64 now);
struct htw_flow *htw_flow_next(struct htw_flow_sched *sched);
unsigned int htw_flow_turn_units(const struct htw_flow_sched *sched,
				 const struct htw_flow *flow);
void htw_flow_requeue(struct htw_flow_sched *sched, struct htw_flow *flow,
		      u64 now);
void htw_flow_rotate(struct htw_flow_sched *sched, struct htw_flow *flow,
		     u64 now);
void htw_flow_demote(struct htw_flow_sched *sched, struct htw_flow *flow,
		     u64 now);
void htw_flow_unthrottle(struct htw_flow_sched *sched, u64 now);
bool htw_flow_sched_has_work(const struct htw_flow_sched *sched);
u64 htw_flow_sched_resume_time(struct htw_flow_sched *sched);

#endif /* _HTW_FLOW_H */
