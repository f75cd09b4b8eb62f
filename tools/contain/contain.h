/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Containment: what the timers of one user take from everybody else on a CPU
 *
 * An attack is a set of contexts, clocks, wheels and waiters that
 * tries to take as much of a CPU as it can, or to make others late. On the same
 * CPU run its victims: a task that only counts, 10 ms timers of root and of an
 * unprivileged user, with a reader, and callouts of a module.
 *
 * Needs root, and a VM whose time counts instructions (tools/vm/run --icount).
 */
#ifndef CONTAIN_H
#define CONTAIN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Defined by the program: print an error and exit as failed. */
__attribute__((format(printf, 1, 2), noreturn))
void die(const char *format, ...);

/**
 * enum attack_trait - what an attack does besides
 * @ATTACK_REOPEN: it closes and reopens its context every 0.5 s
 * @ATTACK_TABLE: every table entry is kept at the next tick
 * @ATTACK_BURST: one-shot timers, all moved to one tick every 1.5 s by HTW_VECTOR
 * @ATTACK_SUBUIDS: each context is opened under another uid of one user's namespace
 * @ATTACK_STORM: one-shot timers whose deadlines come within a tick, and then vectors with
 *	deadlines that have come, every second
 * @ATTACK_READ: a task of ordinary priority of each user waits for its contexts in
 *	epoll_wait(), and reads all that comes
 * @ATTACK_PRIMES: ticks of the contexts are prime numbers of ns from that of their shape on, and
 *	intervals a thousand of them
 */
enum attack_trait {
	ATTACK_REOPEN	= 1 << 0,
	ATTACK_TABLE	= 1 << 1,
	ATTACK_BURST	= 1 << 2,
	ATTACK_SUBUIDS	= 1 << 3,
	ATTACK_STORM	= 1 << 4,
	ATTACK_READ	= 1 << 5,
	ATTACK_PRIMES	= 1 << 6,
};

/**
 * enum attack_source - what an attack opens
 * @ATTACK_HTW: /dev/htw
 * @ATTACK_TIMERFD: a timerfd, for comparison
 * @ATTACK_PIPE: a pipe, to which it writes a byte each millisecond, for comparison
 */
enum attack_source {
	ATTACK_HTW,
	ATTACK_TIMERFD,
	ATTACK_PIPE,
};

/**
 * struct attack_context - a context of an attack
 * @clock: its clock; HTW_CLOCK_MANUAL is advanced each millisecond
 * @tick_ns: tick of its private wheel; 0 for the shared wheels
 * @interval_ns: interval of its timers; 0 for 1 ms, or the tick of its private wheel
 */
struct attack_context {
	int clock;
	uint32_t tick_ns;
	uint64_t interval_ns;
};

/**
 * struct attack_waiting - epoll sets and tasks that wait for a context
 * @contexts: how many of each user's contexts are waited for, the first ones; 0 for all
 * @entries: entries of an epoll set that watch it, each by a duplicate of the descriptor;
 *	0 for none
 * @sets: epoll sets that watch the sets of all contexts
 * @tasks: tasks in poll() on that set, or on the descriptor if there is none
 * @polls: entries in each poll(), all of them for the same descriptor
 * @idle: the tasks are SCHED_IDLE: beside a busy task they stay in poll() after they were
 *	woken. Others empty the ring themselves
 * @requests: multishot poll requests of an io_uring of another task, which empties the ring
 */
struct attack_waiting {
	unsigned int contexts;
	unsigned int entries;
	unsigned int sets;
	unsigned int tasks;
	unsigned int polls;
	bool idle;
	unsigned int requests;
};

/**
 * enum victim - owners of the timers that are observed
 * @VICTIM_ROOT: root, who reads a descriptor
 * @VICTIM_USER: an unprivileged user, who reads a descriptor
 * @VICTIM_CALLOUT: a module
 * @VICTIM_SIGNAL: another unprivileged user, who reads a descriptor when SIGIO comes
 * @VICTIM_FRESH: another unprivileged user, who opens a new descriptor for each timer
 * @VICTIM_OFTEN: another unprivileged user, some of whose timers are 1 ms apart
 * @VICTIMS: number of victims
 */
enum victim {
	VICTIM_ROOT,
	VICTIM_USER,
	VICTIM_CALLOUT,
	VICTIM_SIGNAL,
	VICTIM_FRESH,
	VICTIM_OFTEN,
	VICTIMS,
};

/**
 * struct attack - an attack
 * @name: its name, a C identifier
 * @what: a description
 * @users: number of unprivileged users; 0 for root
 * @contexts: contexts of each user
 * @shape: clocks and wheels of the contexts, used in turn; NULL for CLOCK_MONOTONIC
 *	and shared wheels
 * @shapes: entries of @shape
 * @timers: periodic timers of each context
 * @stagger_ns: how much later each context's timers are due than those of the one before
 * @ring_entries: ring of each context; 0 to leave expirations in the queue. Where htw has no
 *	rings, an attack that nobody waits for is as with %ATTACK_READ; otherwise who would
 *	empty the ring reads
 * @source: what its contexts are
 * @waiting: who waits for them
 * @group: processes of the group that SIGIO goes to, for all contexts; 0 for no SIGIO
 * @traits: bits of &enum attack_trait
 * @exempt: a bit for each &enum victim whose timers may be late: root's where root
 *	itself attacks; see also SECURITY.md
 * @wakeup_ns: at least the time that one of the kernel's own wakeups takes, of an epoll set
 *	and what watches it: others are late by that in addition. The attacks on a timerfd and
 *	a pipe show it
 * @call_ns: how long the attackers' own tasks stay in a system call, which readers wait for
 *	where the kernel is not preemptible: events are read that much later
 */
struct attack {
	const char *name;
	const char *what;
	unsigned int users;
	unsigned int contexts;
	const struct attack_context *shape;
	unsigned int shapes;
	uint32_t timers;
	uint64_t stagger_ns;
	uint32_t ring_entries;
	enum attack_source source;
	struct attack_waiting waiting;
	unsigned int group;
	unsigned int traits;
	unsigned int exempt;
	uint64_t wakeup_ns;
	uint64_t call_ns;
};

extern const struct attack attacks[];
extern const unsigned int attack_count;

/* Find an attack by its name, or NULL. */
const struct attack *attack_find(const char *name);

/* NULL, or why this htw does not have what an attack needs. */
const char *attack_missing(const struct attack *a);

extern const char * const victim_names[VICTIMS];

/**
 * enum phase - the phases of a measurement
 * @PHASE_ALONE: there is no attack
 * @PHASE_BURST: the attack has just started; the counting task runs
 * @PHASE_SUSTAINED: the attack has used up its burst
 * @PHASE_IDLE: the same, with the counting task stopped
 * @PHASES: number of phases
 */
enum phase {
	PHASE_ALONE,
	PHASE_BURST,
	PHASE_SUSTAINED,
	PHASE_IDLE,
	PHASES,
};

extern const char * const phase_names[PHASES];

/**
 * struct contain_times - durations, in ns
 * @alone: &enum phase.PHASE_ALONE
 * @burst: &enum phase.PHASE_BURST
 * @settle: from the start of the attack until its burst is used up
 * @sustained: &enum phase.PHASE_SUSTAINED; whole periods of a periodic action
 * @idle: &enum phase.PHASE_IDLE
 * @disarmed: with the attack's timers disarmed, for comparison; whole periods, too
 */
struct contain_times {
	uint64_t alone;
	uint64_t burst;
	uint64_t settle;
	uint64_t sustained;
	uint64_t idle;
	uint64_t disarmed;
};

/**
 * struct lateness - expirations of a victim's timers in a phase
 * @fired: longest time from deadline to expiration, in ns
 * @read: longest time from deadline to the event being read, in ns
 * @count: number of expirations
 * @early: early ones; must be zero
 * @wrong: unexpected, repeated or lost ones; must be zero
 */
struct lateness {
	uint64_t fired;
	uint64_t read;
	uint64_t count;
	uint64_t early;
	uint64_t wrong;
};

/**
 * struct delays - what else a module sees of a phase
 * @irqs: longest time that interrupts were off, in ns, less up to half a millisecond
 * @softirqs: longest time that a system call kept softirqs waiting, in ns; zero with
 *	PREEMPT_RT, where softirqs are threads
 */
struct delays {
	uint64_t irqs;
	uint64_t softirqs;
};

/**
 * struct contain_result - the result of a measurement
 * @loss: what the counting task lost to the attack's timers, in per cent of the CPU:
 *	compared with the disarmed attack, without what the attackers' processes themselves
 *	use (%PHASE_BURST, %PHASE_SUSTAINED)
 * @left: the task's rate, in per cent of its rate alone (the same phases): what it lost to
 *	the attackers' processes counts
 * @disarmed: the task's rate beside the disarmed attack, in per cent of its rate alone
 * @late: the victims' timers
 * @delays: interrupts and softirqs
 * @expired: the attack's own expirations in %PHASE_SUSTAINED, if they are read
 * @readers: tasks of ordinary priority that read them
 * @callouts: htw has callouts
 * @early: early ones among those that were checked; must be zero
 * @lost: timers that were missing at the end
 * @unsignalled: processes of its group that got no SIGIO; must be zero
 */
struct contain_result {
	double loss[PHASES];
	double left[PHASES];
	double disarmed;
	struct lateness late[PHASES][VICTIMS];
	struct delays delays[PHASES];
	uint64_t expired;
	unsigned int readers;
	bool callouts;
	uint64_t early;
	int64_t lost;
	unsigned int unsignalled;
};

/* The default durations, about 3 s for each phase. */
extern const struct contain_times contain_long;

/* Run an attack beside its victims. */
void contain_measure(const struct attack *a, const struct contain_times *times,
		     struct contain_result *result);

/**
 * struct call_result - how long a system call keeps others waiting
 * @name: the call
 * @missing: this htw does not have it
 * @delays: the longest times
 */
struct call_result {
	const char *name;
	bool missing;
	struct delays delays;
};

/* Number of calls that contain_calls() measures. */
extern const unsigned int call_count;

/* Measure calls on a context of an unprivileged user with 50,000 timers. */
void contain_calls(struct call_result *results);

/**
 * enum meddling - what an unprivileged user does to timers on another CPU
 * @MEDDLE_KICKS: move one timer to the present, again and again
 * @MEDDLE_VECTORS: move 50,000 timers to the next millisecond, again and again
 * @MEDDLINGS: number of kinds
 */
enum meddling {
	MEDDLE_KICKS,
	MEDDLE_VECTORS,
	MEDDLINGS,
};

extern const char * const meddling_names[MEDDLINGS];

/**
 * struct meddling_result - effect on two users with timers on that CPU
 * @alone: 99.9th percentile of their timers' lateness beside a task on the other CPU
 *	that makes no system calls, in ns
 * @beside: the same beside the meddling user
 * @count: expirations measured, of each
 * @operations: operations per second of the meddling user
 * @kicks: interrupts per second that htw sent to that CPU; negative if unknown
 * @misses: times per second that the pacer found a lock held
 */
struct meddling_result {
	uint64_t alone;
	uint64_t beside;
	unsigned int count;
	double operations;
	double kicks;
	double misses;
};

/* NULL, or why this htw cannot be measured. */
const char *meddling_missing(void);

/* Measure both in turn, by the wall clock; needs two CPUs. */
void contain_meddling(enum meddling how, struct meddling_result *result);

#endif /* CONTAIN_H */
