/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Timer data structures compared: what main.c and the systems share
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The tick at which all timers are started. For systems with a time of their own a tick is 1 ms. */
#define BENCH_START	1000000
#define BENCH_NEVER	UINT64_MAX

/**
 * struct bench - the life of many timers, the same for all systems
 * @system: name of the system that is measured
 * @delays: name of the distribution of the delays
 * @mix: name of the mix: how many timers are stopped
 * @pending: timers that are pending at once, of each instance
 * @instances: instances of the system, so that few timers are measured often
 * @first_counted: start of an instance's timers from which on starts are counted
 * @restarts: timers of each instance that are restarted
 * @stops: timers of each instance that are stopped
 * @first_counted_stop: the stop of an instance from which on stops are counted
 * @counts_starts: starts and restarts are measured
 * @first: tick at which each timer expires after its start
 * @second: the same after each restart
 * @restart_order: timers in the order in which they are restarted
 * @stop_order: timers in the order in which they are stopped
 * @expected: tick at which each timer has to expire; zero if it was stopped
 * @ticks: all ticks with a timer to expire, each once, in order, for each instance
 * @nr_ticks: number of @ticks of each instance
 *
 * The arrays have @pending elements for each instance, one instance after the other. Their
 * elements count from the instance's first timer.
 */
struct bench {
	const char *system;
	const char *delays;
	const char *mix;
	uint32_t pending;
	uint32_t instances;
	uint32_t first_counted;
	uint32_t restarts;
	uint32_t stops;
	uint32_t first_counted_stop;
	bool counts_starts;
	uint64_t *first;
	uint64_t *second;
	uint32_t *restart_order;
	uint32_t *stop_order;
	uint64_t *expected;
	uint64_t *ticks;
	uint32_t *nr_ticks;
};

/**
 * struct system - a timer data structure
 * @name: as in reports
 * @most_instances: of which it can have that many in one process
 * @least_pending: it is measured from that many timers on
 * @most_pending: and up to that many
 * @life: start, restart, stop and expire timers
 */
struct system {
	const char *name;
	uint32_t most_instances;
	uint32_t least_pending;
	uint32_t most_pending;
	void (*life)(struct bench *b);
};

/* The present tick, and how many timers have expired. */
extern uint64_t bench_now;
extern uint64_t bench_fired;
/* The present time to libraries that read the clock. */
extern struct timespec bench_clock;

void bench_set_clock(uint64_t tick, uint32_t ns);
void *bench_allocate(size_t count, size_t size);
size_t bench_heap(void);
void bench_begin(void);
void bench_pause(void);
void bench_end(const struct bench *b, const char *op, uint64_t count, uint64_t passes);
void bench_bytes(const struct bench *b, size_t bytes);
void bench_lateness(const struct bench *b, uint64_t late);
void bench_die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#ifdef __cplusplus
}
#endif

#endif /* BENCH_H */
