/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The pacer: runs a CPU's jobs in softirq and limits the time they take; see
 * pacer.c
 */
#ifndef _HTW_PACER_H
#define _HTW_PACER_H

#include <linux/hrtimer.h>
#include <linux/kcov.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/percpu.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include "flow.h"

/*
 * Least time between two runs: at most 20,000 runs a second, however small they
 * are. Also the range within which the interrupts of crowded private wheels may
 * coalesce.
 */
#define HTW_GAP_MIN_NS		(50 * NSEC_PER_USEC)
/*
 * Most that a gap grows for the time that was spent on waking tasks; the rest
 * is left alone later. A single wakeup can take ms, and must not delay
 * everybody's timers for as long again.
 */
#define HTW_WAKE_GAP_NS		(2 * HTW_RUN_NS)
/*
 * Most that one gap grows for the time that interrupts took; what is left is
 * added to later gaps. The interrupts of a thousand wheels that expire together
 * delay all users of the next run. A gap that grows by all of that time would
 * delay the same users for as long again.
 */
#define HTW_IRQ_GAP_NS		(50 * NSEC_PER_USEC)
/* Charged for each hrtimer interrupt, whose time passes before the clock is read. */
#define HTW_IRQ_COST_NS		(1 * NSEC_PER_USEC)
/* The same for each further wheel whose tick the interrupt is for. */
#define HTW_CALLBACK_COST_NS	250u
/* Charged for entering and leaving the softirq, for each run. On PREEMPT_RT that is a thread. */
#define HTW_RUN_COST_NS		((IS_ENABLED(CONFIG_PREEMPT_RT) ? 20 : 10) * NSEC_PER_USEC)
/* The same for a turn of work outside of softirq: a work item, and a sleep before it. */
#define HTW_WORK_COST_NS	(20 * NSEC_PER_USEC)

/**
 * enum htw_served - how a turn of a job ended
 * @HTW_SERVED_DONE: no work is left; the job is not scheduled any more
 * @HTW_SERVED_MORE: work is left, or the job is dead or now another pacer's
 * @HTW_SERVED_BUSY: its lock is contended; nothing was done
 * @HTW_SERVED_LATER: its work takes too long now, see &htw_turn.may_be_slow;
 *	nothing was done
 */
enum htw_served {
	HTW_SERVED_DONE,
	HTW_SERVED_MORE,
	HTW_SERVED_BUSY,
	HTW_SERVED_LATER,
};

/**
 * struct htw_turn - a turn of a job
 * @pacer: the pacer that serves the job
 * @flow: the flow that is charged for it
 * @units: most units of work to do; a timer is one
 * @began: when it began, in ns of CLOCK_MONOTONIC
 * @may_be_slow: tasks may be woken of which that may take long: no new flow
 *	waits behind this turn, nor a task that was woken in this run, and the
 *	CPU has been left alone for what waking has taken so far, or they have
 *	waited for that for too long
 * @may_be_unknown: the same for tasks of which it is not known yet: what waking
 *	has taken is owed no more, and those that turned out to take long were
 *	few
 * @may_forgive: a waiter that takes long for the first time is not taken for
 *	slow yet
 * @wake_ns: set by the job: the part of its time that it has spent on waking
 *	tasks
 * @surprised: set by the job: it has woken the first tasks of @flow that take
 *	long
 * @forgiven_ns: set by the job: how long a waiter took that was not taken for slow
 *	because of @may_forgive
 */
struct htw_turn {
	struct htw_pacer *pacer;
	struct htw_flow *flow;
	unsigned int units;
	u64 began;
	bool may_be_slow;
	bool may_be_unknown;
	bool may_forgive;
	bool surprised;
	u64 wake_ns;
	u64 forgiven_ns;
};

struct htw_job;

/* See &htw_job.serve. */
typedef enum htw_served htw_serve_t(struct htw_job *job, struct htw_turn *turn);

/**
 * struct htw_job - work to be done in softirq: a wheel's due timers, or waiters
 * to wake
 * @serve: does one turn's worth; called with bottom halves off, in an RCU
 *	read-side section, and with no lock held. Never changes
 * @flows: the user's flows, by CPU; never changes
 * @pacer: serves the job. For a wheel, changes under the wheel's lock during
 *	CPU hotplug, for waiters under the lock of the pacer that it was
 * @scheduled: bit 0: on one of @pacer's lists, or being served. The context
 *	that sets it queues the job; @serve clears it under the lock that guards
 *	the work
 * @dead: about to be freed (set under the lock that guards the work)
 * @irq_ns: what its interrupt has cost, until it is charged (owned by the
 *	context that set @scheduled, then by @pacer)
 * @incoming: on &htw_pacer.incoming (owned by the context that set @scheduled)
 * @ready: on &htw_flow.jobs (the pacer's lock)
 * @kcov_handle: to which the coverage of @serve is reported, with CONFIG_KCOV:
 *	that of the task which made the job, of the type that the kernel has;
 *	never changes
 */
struct htw_job {
	htw_serve_t *serve;
	struct htw_flow __percpu *flows;
	struct htw_pacer *pacer;
	unsigned long scheduled;
	bool dead;
	u32 irq_ns;
	struct llist_node incoming;
	struct list_head ready;

	typeof(kcov_common_handle()) kcov_handle;
};

/**
 * struct htw_pacer - runs the jobs of a CPU
 * @lock: guards @sched with its flows and their jobs, and the fields marked
 *	(@lock); innermost, taken with bottom halves off
 * @incoming: jobs scheduled since the last look; lockless, any CPU adds to it
 * @hrtimer: starts the next run, on this CPU
 * @csd: makes this CPU start @hrtimer when another one has scheduled a job
 * @kicked: bit 0: @csd is in use. The context that sets the bit may queue @csd;
 *	its function, on this CPU, clears the bit
 * @armed: a run is going on, or @hrtimer starts one as soon as @not_before
 *	allows: it will find what has been added to @incoming (written on this
 *	CPU)
 * @cpu: the CPU; never changes
 * @adopter: serves this CPU's jobs while it is offline; NULL while it is online
 *	(written under @lock, during CPU hotplug)
 * @sched: flows with jobs, and throttled ones (@lock)
 * @serving: the flow whose job has its turn now, or NULL (@lock)
 * @not_before: earliest start of the next run, in ns of CLOCK_MONOTONIC
 *	(written by runs)
 * @taken_back: up to when time in which the CPU was left alone has been taken
 *	back from what is owed; end of the last run or work, in ns of
 *	CLOCK_MONOTONIC (@lock)
 * @owed_ns: how long the CPU is to be left alone for the last run, without
 *	waking (@lock)
 * @owed_wake_ns: the same for waking so far (@lock)
 * @owed_work_ns: the same for work outside of softirq; repaid after the others
 *	(@lock)
 * @working_since: when the present work outside of softirq began, in ns of
 *	CLOCK_MONOTONIC, or zero (@lock)
 * @worked_at: when work outside of softirq last ended, in ns of CLOCK_MONOTONIC
 *	(@lock)
 * @worked_ns: how long that took (@lock)
 * @slow_at: when tasks were last woken of which that may have taken long, in ns
 *	of CLOCK_MONOTONIC (@lock)
 * @unknown_not_before: when tasks may be woken again of which it is not known
 *	whether that takes long, in ns of CLOCK_MONOTONIC (@lock)
 * @forgiven: of all flows (@lock)
 * @irq_ns: cost of hrtimer interrupts since the last run (@lock)
 * @stalls: runs of which a part was forgiven (@lock)
 * @fired_at: when the hrtimer expired whose callback came last, in ns of
 *	CLOCK_MONOTONIC, or zero (used on this CPU only)
 * @window: jiffies in which @interrupts are counted (used on this CPU only)
 * @interrupts: wheels' hrtimer interrupts in that jiffy (used on this CPU only)
 * @crowded: the rate in the last jiffy was high enough for private wheels to
 *	share interrupts (written on this CPU)
 * @callbacks: hrtimer callbacks, including @hrtimer's (written on this CPU)
 * @runs: number of runs (@lock)
 * @exhausted: runs that ended with work left (@lock)
 * @kicks: interrupts sent by other CPUs (written on this CPU)
 * @misses: turns that found a lock contended (@lock)
 * @spent: ns that runs and interrupts have taken (@lock)
 */
struct htw_pacer {
	spinlock_t lock;	/* innermost */
	struct llist_head incoming;
	struct hrtimer hrtimer;
	call_single_data_t csd;
	unsigned long kicked;
	bool armed;
	unsigned int cpu;
	struct htw_pacer *adopter;
	struct htw_flow_sched sched;
	struct htw_flow *serving;
	u64 not_before;
	u64 taken_back;
	u64 owed_ns;
	u64 owed_wake_ns;
	u64 owed_work_ns;
	u64 working_since;
	u64 worked_at;
	u64 worked_ns;
	u64 slow_at;
	u64 unknown_not_before;
	struct htw_forgiven forgiven;
	u64 irq_ns;
	struct htw_stalls stalls;
	u64 fired_at;
	unsigned long window;
	unsigned int interrupts;
	bool crowded;
	u64 callbacks;
	u64 runs;
	u64 exhausted;
	u64 kicks;
	u64 misses;
	u64 spent;
};

/**
 * struct htw_flow_info - snapshot of a flow's accounting
 * @spent: as &htw_flow.spent
 * @tokens: as &htw_flow.tokens, refilled up to now
 * @throttles: as &htw_flow.throttles
 * @throttled_ns: as &htw_flow.throttled_ns, including the present time
 * @stalls: as &htw_flow.stalls
 */
struct htw_flow_info {
	u64 spent;
	s64 tokens;
	u64 throttles;
	u64 throttled_ns;
	struct htw_stalls stalls;
};

/**
 * struct htw_pacer_work - work outside of softirq, by a task that stays on its
 * CPU
 * @began: when it began, in ns of CLOCK_MONOTONIC
 * @off_cpu: htw_off_cpu_ns() at that time
 * @spent: &htw_pacer.spent at that time
 */
struct htw_pacer_work {
	u64 began;
	u64 off_cpu;
	u64 spent;
};

DECLARE_PER_CPU(struct htw_pacer, htw_pacers);

void htw_pacers_init(void);
void htw_pacers_exit(void);
void htw_pacer_online(unsigned int cpu);
void htw_pacer_adopt(unsigned int cpu, struct htw_pacer *adopter);
void htw_pacer_migrate(struct htw_pacer *p);
struct htw_pacer *htw_pacer_for(unsigned int cpu);

void htw_job_init(struct htw_job *job, struct htw_flow __percpu *flows,
		  htw_serve_t *serve);
void htw_job_schedule(struct htw_job *job, u64 when);
void htw_job_fired(struct htw_job *job, u64 when);
void htw_job_cancel(struct htw_job *job);

bool htw_pacer_flow_is_idle(struct htw_flow *flow, unsigned int cpu);
void htw_pacer_flow_info(struct htw_flow *flow, unsigned int cpu,
			 struct htw_flow_info *info);
u64 htw_pacer_throttled_ns(struct htw_flow __percpu *flows);
u64 htw_pacer_busy_ns(void);
void htw_pacer_begin_work(struct htw_pacer_work *work);
u64 htw_pacer_work_ns(const struct htw_pacer_work *work);
void htw_pacer_end_work(const struct htw_pacer_work *work,
			struct htw_flow __percpu *flows);
void htw_pacer_charge_work(struct htw_flow __percpu *flows, u64 ns);
void htw_pacer_charge_look(struct htw_flow __percpu *flows);
void htw_pacer_owe_wake(u64 ns);

/* Is this a short turn, so that other new flows wait behind it? */
static inline bool htw_turn_is_short(const struct htw_turn *turn)
{
	return turn->units < HTW_TURN_UNITS;
}

/* No work is left; the lock that guards the job's work is held. */
static inline void htw_job_done(struct htw_job *job)
{
	/* Pairs with test_and_set_bit() in htw_job_schedule(). */
	clear_bit_unlock(0, &job->scheduled);
}

static inline bool htw_job_is_scheduled(const struct htw_job *job)
{
	return test_bit(0, &job->scheduled);
}

/*
 * The job is about to be cancelled; the lock that guards its work is held. It
 * stays scheduled, so that neither it nor its base's hrtimer is started again.
 */
static inline void htw_job_kill(struct htw_job *job)
{
	WRITE_ONCE(job->dead, true);
	set_bit(0, &job->scheduled);
}

#endif /* _HTW_PACER_H */
