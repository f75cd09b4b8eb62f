/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Containment: what the timers of one user take from everybody else on a CPU
 *
 * An attack is a set of contexts, clocks, ticks and waiters that
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

/* By then the kernel has finished its boot work, in ns of CLOCK_MONOTONIC. */
#define CONTAIN_BOOTED	(6 * SEC)

/* Defined by the program: print an error and exit as failed. */
__attribute__((format(printf, 1, 2), noreturn))
void die(const char *format, ...);

/**
 * enum attack_trait - what an attack does besides
 * @ATTACK_READ: a task of ordinary priority of each user waits for its contexts in
 *	epoll_wait(), and reads all that comes
 * @ATTACK_TAKE: the attackers' own process reads each context each millisecond
 * @ATTACK_REOPEN: it closes its context and opens it again every 0.5 s
 * @ATTACK_BURST: one-shot timers, all moved to one tick every 1.5 s by HTW_VECTOR
 * @ATTACK_SUBUIDS: each context is opened under another uid of one user's namespace
 * @ATTACK_STORM: one-shot timers whose deadlines come within a tick, and then vectors with
 *	deadlines that have come, every second
 * @ATTACK_PRIMES: ticks of a user's contexts are prime numbers of ns from that of their shape on,
 *	and intervals as many of them as there are such contexts
 * @ATTACK_LOOP: a task of ordinary priority of each user starts a timer at a past deadline and
 *	reads it, or writes to a pipe and reads it, all the time
 * @ATTACK_EXIT: the contexts are those of a process that ends, with all of them open, every few
 *	seconds, when another one takes its place
 */
enum attack_trait {
	ATTACK_READ	= 1 << 0,
	ATTACK_TAKE	= 1 << 1,
	ATTACK_REOPEN	= 1 << 2,
	ATTACK_BURST	= 1 << 3,
	ATTACK_SUBUIDS	= 1 << 4,
	ATTACK_STORM	= 1 << 5,
	ATTACK_PRIMES	= 1 << 6,
	ATTACK_LOOP	= 1 << 7,
	ATTACK_EXIT	= 1 << 8,
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
 * @tick_ns: its tick; 0 for the module's
 * @interval_ns: interval of its timers; 0 for its tick, or 1 ms
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
 * @polls: entries in each poll(), all of them for the same descriptor; 0 if the tasks block in
 *	read()
 * @idle: the tasks are SCHED_IDLE: beside a busy task they stay in poll() after they were
 *	woken
 * @deaf: the tasks never read. Neither do idle ones; all others do
 * @exchanged: the first set and one that nobody waits for take turns: only one of them watches
 *	the context, until it has been woken once
 * @requests: multishot poll requests of an io_uring of another task, which reads
 */
struct attack_waiting {
	unsigned int contexts;
	unsigned int entries;
	unsigned int sets;
	unsigned int tasks;
	unsigned int polls;
	bool idle;
	bool deaf;
	bool exchanged;
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
 * @shape: clocks, ticks and intervals of the contexts, used in turn; NULL for CLOCK_MONOTONIC and
 *	the module's tick
 * @shapes: entries of @shape
 * @timers: periodic timers of each context
 * @stagger_ns: the time from when the timers of a user's context are due until those of the user's
 *	next context are. For contexts that nobody reads: the alarm rings once for each of these
 * @source: what its contexts are
 * @peer: the name of the attack that does the same to timerfds, if a task may lose as much as
 *	to that; or NULL
 * @waiting: who waits for them
 * @group: processes of the group that SIGIO goes to, for all contexts; 0 for no SIGIO
 * @traits: bits of &enum attack_trait
 * @exempt: a bit for each &enum victim whose timers may be late: root's where root
 *	itself attacks; see also SECURITY.md
 * @costly: waking its waiters takes long: they may take 3% of a CPU, and no fair share
 * @many: there are 64 users, or 100,000 contexts: others may be 0.3 ms later
 * @call_ns: how long the attackers' own tasks stay in a system call, which readers wait for
 *	where the kernel is not preemptible, or that call has interrupts off: events are read that
 *	much later
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
	enum attack_source source;
	const char *peer;
	struct attack_waiting waiting;
	unsigned int group;
	unsigned int traits;
	unsigned int exempt;
	bool costly;
	bool many;
	uint64_t call_ns;
};

extern const struct attack attacks[];
extern const unsigned int attack_count;

/* Find an attack by its name, or NULL. */
const struct attack *attack_find(const char *name);

/* NULL, or why an attack is not possible with this module's parameters. */
const char *attack_missing(const struct attack *a);

/*
 * Bounds. How long the kernel's own functions take, in ns, to wake what waits for a context, once
 * for each user: others are late by that in addition.
 */
uint64_t attack_wakeup_ns(const struct attack *a);
/* How late others' timers may be read, in ns. */
uint64_t attack_late_ns(const struct attack *a);
/*
 * What costly waiters may take in so many ns, in per cent: their share; one wakeup, as their
 * period is not a divisor of the time; and the share of the tasks that are SCHED_IDLE.
 */
double attack_most_loss(const struct attack *a, uint64_t ns);
/*
 * What is left of the time that the attackers' own process does not take, in per cent, if the
 * counting task has its fair share: all tasks that the attack keeps running, and htw's kernel
 * threads as one where somebody waits, have as much each.
 */
double attack_fair(const struct attack *a);

extern const char * const victim_names[VICTIMS];

/**
 * enum phase - the phases of a measurement
 * @PHASE_ALONE: there is no attack
 * @PHASE_BESIDE: the counting task runs beside the attack
 * @PHASE_IDLE: the same, with the counting task stopped
 * @PHASES: number of phases
 */
enum phase {
	PHASE_ALONE,
	PHASE_BESIDE,
	PHASE_IDLE,
	PHASES,
};

extern const char * const phase_names[PHASES];

/**
 * struct contain_times - durations, in ns
 * @alone: &enum phase.PHASE_ALONE
 * @settle: from the start of the attack
 * @beside: &enum phase.PHASE_BESIDE; whole periods of a periodic action
 * @idle: &enum phase.PHASE_IDLE
 * @disarmed: with the attack's timers disarmed, for comparison; whole periods, too
 */
struct contain_times {
	uint64_t alone;
	uint64_t settle;
	uint64_t beside;
	uint64_t idle;
	uint64_t disarmed;
};

/**
 * struct lateness - expirations of a victim's timers in a phase
 * @late: longest time from a deadline until its event was read, or a callout ran, in ns
 * @count: number of expirations
 * @early: early ones; must be zero
 * @wrong: unexpected, repeated or lost ones; must be zero
 */
struct lateness {
	uint64_t late;
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
 *	compared with the disarmed attack, without what the attackers' processes themselves use
 * @beside: duration of %PHASE_BESIDE, in ns
 * @left: the task's rate, in per cent of its rate alone: what it lost to the attackers'
 *	processes counts
 * @own: what the attackers' own process used, which has a real-time priority, in per cent
 * @disarmed: the task's rate beside the disarmed attack, in per cent of its rate alone
 * @late: the victims' timers
 * @delays: interrupts and softirqs
 * @interrupts: interrupts of that CPU, of all kinds, in a second of %PHASE_ALONE
 * @interrupts_beside: the same of %PHASE_BESIDE
 * @interrupts_disarmed: the same beside the disarmed attack
 * @expired: the attack's own expirations in %PHASE_BESIDE, if they are read
 * @early: early ones; must be zero
 * @lost: timers that were missing at the end
 * @unsignalled: processes of its group that got no SIGIO; must be zero
 */
struct contain_result {
	double loss;
	uint64_t beside;
	double left;
	double own;
	double disarmed;
	struct lateness late[PHASES][VICTIMS];
	struct delays delays[PHASES];
	double interrupts;
	double interrupts_beside;
	double interrupts_disarmed;
	uint64_t expired;
	uint64_t early;
	int64_t lost;
	unsigned int unsignalled;
};

/* The default durations, about 3 s for each phase. */
extern const struct contain_times contain_long;

/* Interrupts of the first CPU so far, of all kinds. */
uint64_t contain_interrupts(void);

/* Run an attack beside its victims. */
void contain_measure(const struct attack *a, const struct contain_times *usual,
		     struct contain_result *result);

/**
 * struct call_result - how long a system call keeps others waiting
 * @name: the call
 * @delays: interrupts and softirqs
 * @task: the longest time that a task with a real-time priority had to wait, in ns
 */
struct call_result {
	const char *name;
	struct delays delays;
	uint64_t task;
};

/* Number of calls that contain_calls() measures. */
extern const unsigned int call_count;

/* Measure calls on a context of an unprivileged user with 50,000 timers. */
void contain_calls(struct call_result *results);

/**
 * enum meddling - what an unprivileged user does to timers on another CPU
 * @MEDDLE_NOW: move one timer to the present, again and again
 * @MEDDLE_LATER: move one timer to later, again and again
 * @MEDDLE_VECTORS: move 50,000 timers to the next millisecond, again and again
 * @MEDDLINGS: number of kinds
 */
enum meddling {
	MEDDLE_NOW,
	MEDDLE_LATER,
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
 * @interrupts: how many more interrupts per second that CPU got beside the meddling user
 */
struct meddling_result {
	uint64_t alone;
	uint64_t beside;
	unsigned int count;
	double operations;
	double interrupts;
};

/* Measure both in turn, by the wall clock; needs two CPUs. */
void contain_meddling(enum meddling how, struct meddling_result *result);

#endif /* CONTAIN_H */
