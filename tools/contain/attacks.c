// SPDX-License-Identifier: GPL-2.0-only
/* The attacks; see contain.h. */
#include <linux/htw.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include "../common/clock.h"
#include "contain.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

#define SHARED(c)	{ .clock = c }
#define PRIVATE(ns)	{ .clock = CLOCK_MONOTONIC, .tick_ns = ns }

static const struct attack_context two_clocks[] = {
	SHARED(CLOCK_MONOTONIC), SHARED(CLOCK_BOOTTIME),
};

static const struct attack_context three_clocks[] = {
	SHARED(CLOCK_MONOTONIC), SHARED(CLOCK_BOOTTIME), SHARED(CLOCK_REALTIME),
};

static const struct attack_context private_too[] = {
	SHARED(CLOCK_MONOTONIC), PRIVATE(MSEC), PRIVATE(MSEC),
};

static const struct attack_context everything[] = {
	SHARED(CLOCK_MONOTONIC), SHARED(CLOCK_BOOTTIME), SHARED(CLOCK_REALTIME),
	PRIVATE(MSEC), PRIVATE(MSEC),
};

/* No two of these ticks coincide. */
static const struct attack_context co_prime[] = {
	PRIVATE(101 * USEC), PRIVATE(103 * USEC),
	PRIVATE(107 * USEC), PRIVATE(109 * USEC),
	PRIVATE(113 * USEC), PRIVATE(127 * USEC),
	PRIVATE(131 * USEC), PRIVATE(137 * USEC),
	PRIVATE(139 * USEC), PRIVATE(149 * USEC),
	PRIVATE(151 * USEC), PRIVATE(157 * USEC),
	PRIVATE(163 * USEC), PRIVATE(167 * USEC),
	PRIVATE(173 * USEC), PRIVATE(179 * USEC),
};

/* All of these expire together. */
static const struct attack_context aligned[] = {
	{ .clock = CLOCK_MONOTONIC, .tick_ns = MSEC, .interval_ns = 47 * MSEC },
};

/* Long turns on one base, a bit less often than they take, and short ones on another. */
static const struct attack_context long_turns[] = {
	{ .clock = CLOCK_MONOTONIC, .interval_ns = 21 * MSEC },
	{ .clock = CLOCK_BOOTTIME },
};

/* The same with turns of 0.6 ms, and short ones in between. */
static const struct attack_context short_turns[] = {
	{ .clock = CLOCK_MONOTONIC },
	{ .clock = CLOCK_MONOTONIC, .tick_ns = 400 * USEC },
};

static const struct attack_context one_to_four[] = {
	{ .clock = CLOCK_MONOTONIC, .interval_ns = MSEC },
	{ .clock = CLOCK_MONOTONIC, .interval_ns = 2 * MSEC },
	{ .clock = CLOCK_MONOTONIC, .interval_ns = 3 * MSEC },
	{ .clock = CLOCK_MONOTONIC, .interval_ns = 4 * MSEC },
};

/* Not a multiple of the period of others' timers, so that it meets all of them. */
static const struct attack_context each_47_ms[] = {
	{ .clock = CLOCK_MONOTONIC, .interval_ns = 47 * MSEC },
};

static const struct attack_context manual[] = {
	{ .clock = HTW_CLOCK_MANUAL },
};

static const struct attack_context one_second[] = {
	{ .clock = CLOCK_MONOTONIC, .tick_ns = SEC },
};

/* An epoll set for a descriptor that two tasks watch with many entries of poll(). */
#define LIST(of, by)	{ .entries = of, .tasks = 2, .polls = (by) / 2, .idle = true }
/* At least the time to wake 20,000 entries of poll(), at one instruction per ns. */
#define LIST_NS		(3 * MSEC)
/* At least the time in which io_uring completes 10,000 requests for a task that waits for them. */
#define REQUESTS_NS	(4 * MSEC)

/* Prime numbers of ns from here on, see ATTACK_PRIMES. */
static const struct attack_context fine[] = {
	PRIVATE(10 * USEC),
};

static const struct attack_context fine_1s[] = {
	{ .clock = CLOCK_MONOTONIC, .tick_ns = 10 * USEC, .interval_ns = SEC },
};

static const struct attack_context each_1s[] = {
	{ .clock = CLOCK_MONOTONIC, .interval_ns = SEC },
};

#define CONTEXTS(s)	.contexts = ARRAY_SIZE(s), .shape = s, .shapes = ARRAY_SIZE(s)

const struct attack attacks[] = {
	{
		.name = "nobody",
		.what = "no attack",
		.users = 1,
	},
	{
		.name = "one_context",
		.what = "one descriptor with 50,000 timers of 1 ms",
		.users = 1, .contexts = 1, .timers = 50000, .ring_entries = 32768,
	},
	{
		.name = "two_clocks",
		.what = "two descriptors on two clocks, 50,000 timers each",
		.users = 1, CONTEXTS(two_clocks), .timers = 50000, .ring_entries = 32768,
	},
	{
		.name = "three_clocks",
		.what = "three descriptors on three clocks, 50,000 timers each",
		.users = 1, CONTEXTS(three_clocks), .timers = 50000, .ring_entries = 32768,
	},
	{
		.name = "private_wheels",
		.what = "one shared and two private wheels, 50,000 timers each",
		.users = 1, CONTEXTS(private_too), .timers = 50000, .ring_entries = 32768,
	},
	{
		.name = "two_users",
		.what = "two users with two clocks each, 50,000 timers on each clock",
		.users = 2, CONTEXTS(two_clocks), .timers = 50000, .ring_entries = 32768,
	},
	{
		.name = "co_prime",
		.what = "16 private wheels with co-prime ticks of about 100 us, 4 timers each",
		.users = 1, CONTEXTS(co_prime), .timers = 4, .ring_entries = 1024,
	},
	{
		.name = "aligned",
		.what = "64 users with 16 private wheels each, all of which expire together",
		.users = 64, .contexts = 16, .shape = aligned, .shapes = 1,
		.timers = 1, .ring_entries = 64,
	},
	{
		.name = "many_users",
		.what = "32 users with 5,000 timers each",
		.users = 32, .contexts = 1, .timers = 5000, .ring_entries = 32768,
	},
	{
		.name = "light_users",
		.what = "64 users with 30 timers each",
		.users = 64, .contexts = 1, .timers = 30, .ring_entries = 1024,
	},
	{
		.name = "private_users",
		.what = "32 users with 16 private wheels each, co-prime ticks, 4 timers on each",
		.users = 32, CONTEXTS(co_prime), .timers = 4, .ring_entries = 1024,
	},
	{
		.name = "waiters",
		.what = "one timer, 10,000 epoll entries that watch its descriptor",
		.users = 1, .contexts = 1, .timers = 1, .ring_entries = 64,
		.waiting = { .entries = 10000 },
	},
	{
		.name = "nested_waiters",
		.what = "one timer, an epoll set that watches it, and 500 sets that watch that set",
		.users = 1, .contexts = 1, .timers = 1, .ring_entries = 64,
		.waiting = { .entries = 1, .sets = 500 },
	},
	{
		.name = "nested_contexts",
		.what = "64 descriptors, a timer each, 500 sets that watch the epoll set of each",
		.users = 1, .contexts = 64, .timers = 1, .ring_entries = 64,
		.waiting = { .entries = 1, .sets = 500 },
	},
	{
		.name = "nested_users",
		.what = "64 users, a timer each, 500 sets that watch the epoll set of each",
		.users = 64, .contexts = 1, .timers = 1, .ring_entries = 64,
		.waiting = { .entries = 1, .sets = 500 },
	},
	{
		.name = "sigio",
		.what = "one timer, SIGIO to a process group of 500",
		.users = 1, .contexts = 1, .timers = 1, .ring_entries = 64,
		.group = 500,
	},
	{
		.name = "sigio_contexts",
		.what = "4,000 descriptors with a timer of 1 to 4 ms each, SIGIO for each of them",
		.users = 1, .contexts = 4000, .shape = one_to_four, .shapes = 4,
		.timers = 1, .ring_entries = 256, .group = 1,
	},
	{
		.name = "sigio_16000",
		.what = "the same with 16,000 descriptors",
		.users = 1, .contexts = 16000, .shape = one_to_four, .shapes = 4,
		.timers = 1, .ring_entries = 256, .group = 1,
	},
	{
		.name = "sigio_users",
		.what = "32 users, 8 descriptors each, SIGIO for each to a group of 10 processes",
		.users = 32, .contexts = 8, .timers = 1, .ring_entries = 64,
		.group = 10,
	},
	{
		.name = "sigio_and_timers",
		.what = "4 users, 20,000 timers of 1 ms each, SIGIO to a group of 200 processes",
		.users = 4, .contexts = 1, .timers = 20000, .ring_entries = 16384,
		.group = 200,
	},
	{
		.name = "stall_discount",
		.what = "turns of 20 ms, by waiters that are lists, alternate with short ones",
		.users = 1, CONTEXTS(long_turns), .timers = 1, .ring_entries = 64,
		.waiting = {
			.contexts = 1, .entries = 64, .tasks = 2, .polls = 1200, .idle = true,
		},
	},
	{
		.name = "stall_discount_short",
		.what = "turns of 0.6 ms, by waiters that are lists, alternate with shorter ones",
		.users = 1, CONTEXTS(short_turns), .timers = 1, .ring_entries = 64,
		.waiting = {
			.contexts = 1, .entries = 64, .tasks = 1, .polls = 74, .idle = true,
		},
	},
	{
		.name = "lists_1",
		.what = "an epoll set of 64 entries for one descriptor, polled 1,000 times",
		.users = 1, .contexts = 1, .timers = 1, .ring_entries = 64,
		.waiting = LIST(64, 1000),
	},
	{
		.name = "lists_20",
		.what = "an epoll set of 64 entries for one descriptor, polled 20,000 times",
		.users = 1, .contexts = 1, .timers = 1, .ring_entries = 64,
		.waiting = LIST(64, 20000), .wakeup_ns = LIST_NS,
	},
	{
		.name = "lists_manual",
		.what = "the same by advancing a manual clock each millisecond",
		.users = 1, CONTEXTS(manual), .timers = 1, .ring_entries = 64,
		.waiting = LIST(64, 20000), .wakeup_ns = LIST_NS,
	},
	{
		.name = "one_list",
		.what = "an epoll set of one entry for one descriptor, polled 20,000 times",
		.users = 1, .contexts = 1, .timers = 1, .ring_entries = 64,
		.waiting = LIST(1, 20000), .wakeup_ns = LIST_NS,
	},
	{
		.name = "lists_of_users",
		.what = "16 users, each with an epoll set of 64 entries, polled 1,000 times",
		.users = 16, .contexts = 1, .timers = 1, .ring_entries = 64,
		.waiting = LIST(64, 1000),
	},
	{
		.name = "requests",
		.what = "one timer, 10,000 multishot poll requests of an io_uring",
		.users = 1, .contexts = 1, .timers = 1, .ring_entries = 64,
		.waiting = { .requests = 10000 }, .call_ns = REQUESTS_NS,
	},
	{
		.name = "one_list_timerfd",
		.what = "the same with a timerfd, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 1, .contexts = 1, .timers = 1,
		.waiting = LIST(1, 20000),
	},
	{
		.name = "one_list_pipe",
		.what = "the same with a pipe, for comparison",
		.source = ATTACK_PIPE,
		.users = 1, .contexts = 1, .timers = 1,
		.waiting = LIST(1, 20000),
	},
	{
		.name = "lists_timerfd",
		.what = "64 entries for a timerfd, polled 20,000 times, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 1, .contexts = 1, .timers = 1,
		.waiting = LIST(64, 20000),
	},
	{
		.name = "polled_16",
		.what = "64 users, a timer of 47 ms each, for which 16 tasks wait in poll()",
		.users = 64, CONTEXTS(each_47_ms), .timers = 1, .ring_entries = 64,
		.waiting = { .tasks = 16, .polls = 1 },
	},
	{
		.name = "polled_64",
		.what = "64 users, a timer of 47 ms each, for which 64 tasks wait in poll()",
		.users = 64, CONTEXTS(each_47_ms), .timers = 1, .ring_entries = 64,
		.waiting = { .tasks = 64, .polls = 1 },
	},
	{
		.name = "many_readers",
		.what = "32 users with 5,000 timers each, and a process each that empties the ring",
		.users = 32, .contexts = 1, .timers = 5000, .ring_entries = 32768,
		.waiting = { .tasks = 1, .polls = 1 },
	},
	{
		.name = "due_storm",
		.what = "200,000 timers that wait for the end of a tick of 1 s, and then vectors",
		.users = 1, CONTEXTS(one_second), .timers = 200000,
		.traits = ATTACK_STORM,
	},
	{
		.name = "reopening",
		.what = "one descriptor with 50,000 timers, closed and opened again every 0.5 s",
		.users = 1, .contexts = 1, .timers = 50000, .ring_entries = 32768,
		.traits = ATTACK_REOPEN,
	},
	{
		.name = "many_contexts",
		.what = "10,000 descriptors with a timer each",
		.users = 1, .contexts = 10000, .timers = 1, .ring_entries = 256,
	},
	{
		.name = "subuids",
		.what = "8 subordinate uids of one user, 10,000 timers each",
		.users = 1, .contexts = 8, .timers = 10000, .ring_entries = 32768,
		.traits = ATTACK_SUBUIDS,
	},
	{
		.name = "table",
		.what = "20,000 timers, moved to the next tick in the table each millisecond",
		.users = 1, .contexts = 1, .timers = 20000, .ring_entries = 32768,
		.traits = ATTACK_TABLE,
	},
	{
		.name = "bursts",
		.what = "a million one-shot timers on one tick, due again every 1.5 s",
		.users = 1, .contexts = 1, .timers = 1000000,
		.traits = ATTACK_BURST,
	},
	{
		.name = "privileged",
		.what = "root, three clocks and two private wheels, 50,000 timers each",
		CONTEXTS(everything), .timers = 50000, .ring_entries = 32768,
		.exempt = 1 << VICTIM_ROOT,
	},
	{
		.name = "ten_thousand",
		.what = "one descriptor with 10,000 timers",
		.users = 1, .contexts = 1, .timers = 10000, .ring_entries = 32768,
	},
	{
		.name = "hundred_thousand",
		.what = "one descriptor with 100,000 timers",
		.users = 1, .contexts = 1, .timers = 100000, .ring_entries = 65536,
	},
	{
		.name = "million",
		.what = "one descriptor with a million timers",
		.users = 1, .contexts = 1, .timers = 1000000, .ring_entries = 65536,
	},
	{
		.name = "million_read",
		.what = "a million periodic timers of 1 ms, read all the time",
		.users = 1, .contexts = 1, .timers = 1000000, .traits = ATTACK_READ,
	},
	{
		.name = "million_unread",
		.what = "a million periodic timers of 1 ms that nobody reads",
		.users = 1, .contexts = 1, .timers = 1000000,
	},
	{
		.name = "timerfds_read",
		.what = "10,000 timerfds of 1 ms, read all the time, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 1, .contexts = 10000, .timers = 1, .traits = ATTACK_READ,
	},
	{
		.name = "one_fine",
		.what = "one descriptor with a tick and a timer of 10 us, read all the time",
		.users = 1, .contexts = 1, .shape = fine, .shapes = 1, .timers = 1,
		.traits = ATTACK_READ,
	},
	{
		.name = "one_fine_timerfd",
		.what = "a timerfd of 10 us, read all the time, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 1, .contexts = 1, .shape = fine, .shapes = 1, .timers = 1,
		.traits = ATTACK_READ,
	},
	{
		.name = "primes",
		.what = "1,000 descriptors with prime ticks of 10 to 19.5 us, read all the time",
		.users = 1, .contexts = 1000, .shape = fine, .shapes = 1, .timers = 1,
		.traits = ATTACK_READ | ATTACK_PRIMES,
	},
	{
		.name = "primes_timerfd",
		.what = "1,000 timerfds of the same intervals, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 1, .contexts = 1000, .shape = fine, .shapes = 1, .timers = 1,
		.traits = ATTACK_READ | ATTACK_PRIMES,
	},
	{
		.name = "staggered",
		.what = "50,000 descriptors, ticks of 10 us, one due each 20 us, that nobody reads",
		.users = 1, .contexts = 50000, .shape = fine_1s, .shapes = 1, .timers = 1,
		.stagger_ns = 20 * USEC,
	},
	{
		.name = "aligned_read",
		.what = "64 users, 16 descriptors each, due together each 47 ms, read by each",
		.users = 64, .contexts = 16, .shape = each_47_ms, .shapes = 1, .timers = 1,
		.traits = ATTACK_READ,
	},
	{
		.name = "aligned_timerfd",
		.what = "the same with timerfds, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 64, .contexts = 16, .shape = each_47_ms, .shapes = 1, .timers = 1,
		.traits = ATTACK_READ,
	},
	{
		.name = "contexts_100000",
		.what = "100,000 descriptors, due together each second, read by one task",
		.users = 1, .contexts = 100000, .shape = each_1s, .shapes = 1, .timers = 1,
		.traits = ATTACK_READ,
	},
	{
		.name = "timerfds_100000",
		.what = "the same with timerfds, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 1, .contexts = 100000, .shape = each_1s, .shapes = 1, .timers = 1,
		.traits = ATTACK_READ,
	},
	{
		.name = "waiters_timerfd",
		.what = "a timerfd of 1 ms, 10,000 epoll entries that watch it, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 1, .contexts = 1, .timers = 1,
		.waiting = { .entries = 10000 },
	},
	{
		.name = "light_timerfd",
		.what = "64 users, a timerfd of 1 ms each that a task of the user reads",
		.source = ATTACK_TIMERFD,
		.users = 64, .contexts = 1, .timers = 1, .traits = ATTACK_READ,
	},
	{
		.name = "co_prime_timerfd",
		.what = "16 timerfds of co-prime intervals of about 100 us, read by one task",
		.source = ATTACK_TIMERFD,
		.users = 1, CONTEXTS(co_prime), .timers = 1, .traits = ATTACK_READ,
	},
	{
		.name = "nested_timerfd",
		.what = "64 timerfds of 1 ms, 500 sets that watch the epoll set of each",
		.source = ATTACK_TIMERFD,
		.users = 1, .contexts = 64, .timers = 1,
		.waiting = { .entries = 1, .sets = 500 },
	},
	{
		.name = "polled_timerfd",
		.what = "64 users, a timerfd of 47 ms each, for which 64 tasks wait in poll()",
		.source = ATTACK_TIMERFD,
		.users = 64, CONTEXTS(each_47_ms), .timers = 1,
		.waiting = { .tasks = 64, .polls = 1 },
	},
};

const unsigned int attack_count = ARRAY_SIZE(attacks);

const struct attack *attack_find(const char *name)
{
	unsigned int i;

	for (i = 0; i < attack_count; i++)
		if (!strcmp(attacks[i].name, name))
			return &attacks[i];
	return NULL;
}
