/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What one user's timers take from everybody else on a CPU
 *
 * An attack is a shape of contexts, clocks, wheels and waiters that is meant to
 * take as much of a CPU as it can get. Beside it run its victims: a task that does
 * nothing but count, timers of 10 ms of root and of an unprivileged user, with a
 * reader, and a module's callouts. All are on one CPU.
 *
 * To be run as root, where time counts instructions (tools/vm/run --icount).
 */
#ifndef CONTAIN_H
#define CONTAIN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Provided by the program: says why, and ends it as failed. */
__attribute__((format(printf, 1, 2), noreturn))
void die(const char *format, ...);

/**
 * enum attack_trait - what else an attack does
 * @ATTACK_WAITERS: its one descriptor is watched 10,000 times by an epoll set
 * @ATTACK_NESTED: each descriptor is watched by a set that 500 others watch
 * @ATTACK_SIGIO: SIGIO goes to a process group of 500
 * @ATTACK_REOPEN: it closes and opens its context each half second
 * @ATTACK_SUBUIDS: each context is opened by another uid of a user namespace, which
 *	one user made
 * @ATTACK_TABLE: each timer's word in the table of deadlines says "next tick",
 *	always
 * @ATTACK_BURST: one-shot timers; each 1.5 s all are armed for one tick again, by
 *	HTW_VECTOR
 */
enum attack_trait {
	ATTACK_WAITERS	= 1 << 0,
	ATTACK_NESTED	= 1 << 1,
	ATTACK_SIGIO	= 1 << 2,
	ATTACK_REOPEN	= 1 << 3,
	ATTACK_TABLE	= 1 << 4,
	ATTACK_BURST	= 1 << 5,
	ATTACK_SUBUIDS	= 1 << 6,
};

/**
 * struct attack_context - a context of an attack
 * @clock: its clock
 * @tick_ns: the tick of its private wheel; 0 for the shared ones
 */
struct attack_context {
	int clock;
	uint32_t tick_ns;
};

/**
 * enum victim - whose timers are watched
 * @VICTIM_ROOT: root's, read from a descriptor
 * @VICTIM_USER: those of an unprivileged user who is no attacker
 * @VICTIM_CALLOUT: a module's callouts, which nobody reads
 * @VICTIMS: how many there are
 */
enum victim {
	VICTIM_ROOT,
	VICTIM_USER,
	VICTIM_CALLOUT,
	VICTIMS,
};

/**
 * struct attack - the shape of an attack
 * @name: its name, a C identifier
 * @what: what it is, for people
 * @users: how many unprivileged users; 0: it is root's
 * @contexts: contexts of each user
 * @shape: what they are like, @shapes of them, used in turn; NULL: CLOCK_MONOTONIC
 *	and the shared wheels
 * @shapes: how many there are
 * @timers: periodic timers of each context. Their interval is 1 ms, or the tick of
 *	a private wheel
 * @ring_entries: of the ring of each context; 0: expirations wait in its queue
 * @traits: of &enum attack_trait
 * @exempt: a bit for each &enum victim whose timers may be late beside it: root's
 *	where root attacks, being one user, and see SECURITY.md
 */
struct attack {
	const char *name;
	const char *what;
	unsigned int users;
	unsigned int contexts;
	const struct attack_context *shape;
	unsigned int shapes;
	uint32_t timers;
	uint32_t ring_entries;
	unsigned int traits;
	unsigned int exempt;
};

extern const struct attack attacks[];
extern const unsigned int attack_count;

/* One of them by its name, or NULL. */
const struct attack *attack_find(const char *name);

extern const char * const victim_names[VICTIMS];

/**
 * enum phase - what is going on while something is measured
 * @PHASE_ALONE: there is no attack
 * @PHASE_BURST: the attack has just begun; the counting task hogs the CPU
 * @PHASE_SUSTAINED: the attack has used up what it may use at once
 * @PHASE_IDLE: the same, and the counting task is stopped
 * @PHASES: how many there are
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
 * struct contain_times - how long to measure, in ns
 * @alone: &enum phase.PHASE_ALONE
 * @burst: &enum phase.PHASE_BURST
 * @settle: from the beginning of the attack until it has used up its burst
 * @sustained: &enum phase.PHASE_SUSTAINED; whole periods of what an attack
 *	does from time to time
 * @idle: &enum phase.PHASE_IDLE
 * @disarmed: with the attack disarmed, for comparison; the same
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
 * struct lateness - how late a victim's timers came in a phase
 * @fired: the most, by when htw saw that they were due, in ns
 * @read: the most, by when the reader had the event
 * @count: how many came
 * @early: how many came early, which must be none
 * @wrong: how many came that should not have, or twice, or were lost
 */
struct lateness {
	uint64_t fired;
	uint64_t read;
	uint64_t count;
	uint64_t early;
	uint64_t wrong;
};

/**
 * struct contain_result - what was measured
 * @loss: what the counting task lost to the attack's timers, in percent of the CPU:
 *	how much less it does than beside the same attack disarmed. What the
 *	attackers themselves do is taken off (%PHASE_BURST, %PHASE_SUSTAINED)
 * @disarmed: what it does beside the disarmed attack, in percent of what it does alone
 * @late: how late the victims' timers came
 * @expired: the attack's own expirations in %PHASE_SUSTAINED, where it has a ring
 * @early: of those that were looked at, how many came early, which must be none
 * @lost: timers that the attack held less, when it was over, than it had started
 */
struct contain_result {
	double loss[PHASES];
	double disarmed;
	struct lateness late[PHASES][VICTIMS];
	uint64_t expired;
	uint64_t early;
	int64_t lost;
};

/* The default times: some 3 s of each phase. */
extern const struct contain_times contain_long;

/* Runs an attack beside its victims. */
void contain_measure(const struct attack *a, const struct contain_times *times,
		     struct contain_result *result);

/**
 * enum meddling - what an unprivileged user does to another CPU than its own
 * @MEDDLE_KICKS: again and again moves a timer that waits there to be due at once
 * @MEDDLE_VECTORS: moves 50,000 timers there, which are due each millisecond, over and over
 * @MEDDLINGS: how many there are
 */
enum meddling {
	MEDDLE_KICKS,
	MEDDLE_VECTORS,
	MEDDLINGS,
};

extern const char * const meddling_names[MEDDLINGS];

/**
 * struct meddling_result - what two users with timers on that CPU noticed of it
 * @alone: how late their timers fired beside a task there that calls nothing: of a
 *	thousand the latest but one, in ns
 * @beside: the same beside the meddler
 * @count: how many of each
 * @operations: what the meddler did in a second
 * @kicks: interrupts that htw sent to that CPU in a second; negative where it does not say
 * @misses: how often it found a lock held there, in a second
 */
struct meddling_result {
	uint64_t alone;
	uint64_t beside;
	unsigned int count;
	double operations;
	double kicks;
	double misses;
};

/* Runs beside either take turns: by the wall clock, on a machine with a second CPU. */
void contain_meddling(enum meddling how, struct meddling_result *result);

#endif /* CONTAIN_H */
