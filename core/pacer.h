/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The pacer: on each CPU, who may use how much of it, and when
 *
 * Everything that htw does in softirq is a job: a wheel with timers that are due,
 * or a context with waiters left to wake. A job belongs to a user, and the jobs of
 * a user on a CPU are a flow. See pacer.c.
 */
#ifndef _HTW_PACER_H
#define _HTW_PACER_H

#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/timerqueue.h>
#include <linux/types.h>

/* The least time between two runs of a pacer; also how long interrupts may be coalesced. */
#define HTW_GAP_MIN_NS		(50 * NSEC_PER_USEC)
/* A run ends with the turn in which this much time has passed. */
#define HTW_BUDGET_NS		(200 * NSEC_PER_USEC)
/* Timers in one turn, and in one of a flow that goes ahead of others. */
#define HTW_TURN_UNITS		128u
#define HTW_FRESH_UNITS		16u
/* Turns that a flow has ahead of those that are busy. */
#define HTW_FRESH_TURNS		4u
/* What an hrtimer's interrupt costs beside what the clock shows, for each job and run. */
#define HTW_FIRING_NS		(1 * NSEC_PER_USEC)
#define HTW_PACER_RUN_NS		(10 * NSEC_PER_USEC)

/**
 * enum htw_class - flows that are served alike; the classes take turns
 * @HTW_CLASS_CALLOUTS: callouts of kernel modules
 * @HTW_CLASS_PRIVILEGED: users with CAP_SYS_RESOURCE
 * @HTW_CLASS_OTHERS: all other users, who have a share of each CPU
 * @HTW_CLASSES: how many
 */
enum htw_class {
	HTW_CLASS_CALLOUTS,
	HTW_CLASS_PRIVILEGED,
	HTW_CLASS_OTHERS,
	HTW_CLASSES,
};

/**
 * struct htw_flow - a user on a CPU
 * @link: in its class; empty while it has no job, and while it is parked
 * @jobs: those that are scheduled, in the order in which they take turns
 * @parked: its place among the parked flows, by when it has tokens again
 * @is_parked: it is there
 * @fresh: turns that it still has ahead of those that are busy
 * @stalled: its last turn took longer than any work can
 * @class: never changes
 * @owner: for people: the uid, or the number of the user namespace; never changes
 * @deficit: ns that it may use before it is another's turn
 * @fresh_at: when it last went ahead of others, in ns of CLOCK_MONOTONIC
 * @tokens: ns of its share that it may use; below zero it owes some
 * @refilled: as of when @tokens are, in ns of CLOCK_MONOTONIC
 * @spent: ns that it has used
 * @parks: how often it had to wait for tokens
 * @parked_at: since when it waits, in ns of CLOCK_MONOTONIC
 * @parked_ns: how long it has waited
 *
 * Guarded by the lock of its CPU's pacer.
 */
struct htw_flow {
	struct list_head link;
	struct list_head jobs;
	struct timerqueue_node parked;
	bool is_parked;
	bool stalled;
	u8 fresh;
	enum htw_class class;
	u32 owner;
	s64 deficit;
	u64 fresh_at;
	s64 tokens;
	u64 refilled;
	u64 spent;
	u64 parks;
	u64 parked_at;
	u64 parked_ns;
};

/**
 * struct htw_flow_info - what a flow has had, for people
 * @spent: as &htw_flow.spent
 * @tokens: as &htw_flow.tokens, now
 * @parks: as &htw_flow.parks
 * @parked_ns: as &htw_flow.parked_ns, up to now
 */
struct htw_flow_info {
	u64 spent;
	s64 tokens;
	u64 parks;
	u64 parked_ns;
};

/**
 * enum htw_served - how a turn ended
 * @HTW_SERVED_DONE: nothing is left; the job is not scheduled any more
 * @HTW_SERVED_MORE: something is left, or the job is dead
 * @HTW_SERVED_BUSY: its lock is held, nothing was done
 */
enum htw_served {
	HTW_SERVED_DONE,
	HTW_SERVED_MORE,
	HTW_SERVED_BUSY,
};

/**
 * struct htw_turn - what a job may do now
 * @pacer: whose turn it is
 * @units: the most timers to deal with
 * @wait: wait for locks, as others held them too often
 */
struct htw_turn {
	struct htw_pacer *pacer;
	unsigned int units;
	bool wait;
};

struct htw_job;

/* Does some of a job; see &htw_job.serve. */
typedef enum htw_served htw_serve_t(struct htw_job *job, const struct htw_turn *turn);

/**
 * struct htw_job - something to do in softirq
 * @serve: does some of it; with bottom halves off, in an RCU read-side section, and
 *	no lock held. Never changes
 * @flows: of its user, for each CPU; never changes
 * @pacer: who serves it. For a wheel it changes under the wheel's lock and
 *	htw_pacers_mutex
 * @scheduled: bit 0: on @pacer's lists, or being served. Whoever sets it schedules
 *	the job; @serve clears it, under the lock that guards the work
 * @dead: it is about to be freed (set under the lock that guards the work)
 * @kicked: on &htw_pacer.kicked (whoever scheduled it)
 * @ready: on &htw_flow.jobs (the pacer's lock)
 */
struct htw_job {
	htw_serve_t *serve;
	struct htw_flow __percpu *flows;
	struct htw_pacer *pacer;
	unsigned long scheduled;
	bool dead;
	struct llist_node kicked;
	struct list_head ready;
};

/**
 * struct htw_queue - the flows of a class that have jobs
 * @fresh: those that go first, a short turn each
 * @old: the others, by deficit round robin
 */
struct htw_queue {
	struct list_head fresh;
	struct list_head old;
};

/**
 * struct htw_pacer - serves the jobs of a CPU
 * @lock: guards what is said below; innermost, with bottom halves off
 * @kicked: jobs that were scheduled since the last look
 * @hrtimer: starts the next run; on this CPU
 * @csd: has another CPU start @hrtimer here
 * @cpu: whose it is; never changes
 * @adopter: who serves jobs for the CPU while it is not up; NULL while it is
 *	(written under htw_pacers_mutex)
 * @queues: flows with jobs, by class (@lock)
 * @turn: the class whose turn is next (@lock)
 * @parked: flows that wait for tokens (@lock)
 * @serving: the flow that has its turn, or NULL (@lock)
 * @not_before: no run before that, in ns of CLOCK_MONOTONIC (the pacer's own run)
 * @owed: ns that interrupts have cost since the last run (@lock)
 * @stalled: the last run took longer than any work can (the pacer's own run)
 * @window: jiffies in which @firings are counted (on this CPU)
 * @firings: wheels' hrtimers that came in that time (on this CPU)
 * @crowded: they were so many that they had better come together (on this CPU)
 * @callbacks: hrtimers that came, @hrtimer included (on this CPU)
 * @runs: how often it has run (the pacer's own run)
 * @exhausted: runs that ended before the work did (the pacer's own run)
 * @stalls: runs that took longer than any work can (the pacer's own run)
 * @kicks: interrupts that other CPUs have sent (on this CPU)
 * @misses: turns that found a lock held (the pacer's own run)
 * @spent: ns that its runs took (the pacer's own run)
 */
struct htw_pacer {
	spinlock_t lock;	/* innermost */
	struct llist_head kicked;
	struct hrtimer hrtimer;
	call_single_data_t csd;
	unsigned int cpu;
	struct htw_pacer *adopter;
	struct htw_queue queues[HTW_CLASSES];
	unsigned int turn;
	struct timerqueue_head parked;
	struct htw_flow *serving;
	u64 not_before;
	u64 owed;
	bool stalled;
	unsigned long window;
	unsigned int firings;
	bool crowded;
	u64 callbacks;
	u64 runs;
	u64 exhausted;
	u64 stalls;
	u64 kicks;
	u64 misses;
	u64 spent;
};

DECLARE_PER_CPU(struct htw_pacer, htw_pacers);

/* Serialises CPUs that come and go with jobs that are attached to a CPU. */
extern struct mutex htw_pacers_mutex;

extern unsigned int htw_share_percent;
extern unsigned int htw_burst_ms;

void htw_pacers_init(void);
void htw_pacers_exit(void);
void htw_pacer_online(unsigned int cpu);
void htw_pacer_adopt(unsigned int cpu, struct htw_pacer *adopter);
void htw_pacer_migrate(struct htw_pacer *p);
struct htw_pacer *htw_pacer_for(unsigned int cpu);

void htw_job_init(struct htw_job *job, struct htw_flow __percpu *flows, htw_serve_t *serve);
void htw_job_schedule(struct htw_job *job, u64 when);
void htw_job_fired(struct htw_job *job, u64 when);
void htw_job_cancel(struct htw_job *job);

void htw_flow_init(struct htw_flow *flow, enum htw_class class, u32 owner);
bool htw_flow_is_idle(struct htw_flow *flow, unsigned int cpu);
void htw_flow_get_info(struct htw_flow *flow, unsigned int cpu, struct htw_flow_info *info);
u64 htw_flow_wait(struct htw_flow __percpu *flows);
void htw_flow_spend(struct htw_flow __percpu *flows, u64 ns);

/* Nothing is left of a job; the lock that guards its work is held. */
static inline void htw_job_done(struct htw_job *job)
{
	/* What was done is seen by whoever schedules it next. */
	clear_bit_unlock(0, &job->scheduled);
}

static inline bool htw_job_is_scheduled(const struct htw_job *job)
{
	return test_bit(0, &job->scheduled);
}

#endif /* _HTW_PACER_H */
