// SPDX-License-Identifier: GPL-2.0-only
/* The attacks; see contain.h. */
#include <linux/htw.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include "../common/clock.h"
#include "contain.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

#define CLOCK(c)	{ .clock = c }
#define TICK(ns)	{ .clock = CLOCK_MONOTONIC, .tick_ns = ns }
#define EACH(ns)	{ .clock = CLOCK_MONOTONIC, .interval_ns = ns }

/* At least the time to wake one entry of a wait queue, at one instruction per ns. */
#define WAKE_NS		150ULL
/* At least the time in which io_uring completes 10,000 requests for a task that waits for them. */
#define REQUESTS_NS	(4 * MSEC)
/* What a task of SCHED_IDLE has of a CPU, compared with an ordinary one. */
#define IDLE_WEIGHT	(3.0 / 1024)
/* What waiters that cost much may take, in per cent. */
#define COSTLY		3.0
/* What others' timers may be later than a tick, and if there are many users. */
#define LATE_NS		(200 * USEC)
#define LATE_MANY_NS	(500 * USEC)
/*
 * The page allocator gives up to 2,016 pages back with interrupts off, or takes as many; on 6.12
 * that was 645,000 instructions.
 */
#define PAGES_NS	(700 * USEC)
/*
 * What an alarm takes for a descriptor of which somebody is to be woken; and twice that where
 * a work item does it.
 */
#define RING_NS		180ULL

/*
 * Where 64 users have tasks that block in read(), softirq wakes one of each, and that is so again
 * at once, as that took about as long as the period of such wake-ups: once, and in a fifth of the
 * measurements twice. (Timerfds: 2.4 ms.)
 */
#define READERS_NS	(600 * USEC)

static const struct attack_context two_clocks[] = {
	CLOCK(CLOCK_MONOTONIC), CLOCK(CLOCK_BOOTTIME),
};

static const struct attack_context three_clocks[] = {
	CLOCK(CLOCK_MONOTONIC), CLOCK(CLOCK_BOOTTIME), CLOCK(CLOCK_REALTIME),
};

/* No two of these ticks coincide. */
static const struct attack_context co_prime[] = {
	TICK(101 * USEC), TICK(103 * USEC), TICK(107 * USEC), TICK(109 * USEC),
	TICK(113 * USEC), TICK(127 * USEC), TICK(131 * USEC), TICK(137 * USEC),
	TICK(139 * USEC), TICK(149 * USEC), TICK(151 * USEC), TICK(157 * USEC),
	TICK(163 * USEC), TICK(167 * USEC), TICK(173 * USEC), TICK(179 * USEC),
};

/* A context whose waiters cost much, and one with a tick of its own that nobody waits for. */
static const struct attack_context long_and_short[] = {
	EACH(21 * MSEC), TICK(400 * USEC),
};

static const struct attack_context one_to_four[] = {
	EACH(MSEC), EACH(2 * MSEC), EACH(3 * MSEC), EACH(4 * MSEC),
};

/* Not a multiple of the period of others' timers, so that it meets all of them. */
static const struct attack_context each_47_ms[] = {
	EACH(47 * MSEC),
};

static const struct attack_context manual[] = {
	CLOCK(HTW_CLOCK_MANUAL),
};

static const struct attack_context tick_1s[] = {
	TICK(SEC),
};

/* Prime numbers of ns from here on, see ATTACK_PRIMES. */
static const struct attack_context fine[] = {
	TICK(10 * USEC),
};

static const struct attack_context fine_1s[] = {
	{ .clock = CLOCK_MONOTONIC, .tick_ns = 10 * USEC, .interval_ns = SEC },
};

static const struct attack_context each_1s[] = {
	EACH(SEC),
};

/* An epoll set for a descriptor that two tasks watch with many entries of poll(). */
#define LIST(of, by)	{ .entries = of, .tasks = 2, .polls = (by) / 2, .idle = true }
#define CONTEXTS(s)	.contexts = ARRAY_SIZE(s), .shape = s, .shapes = ARRAY_SIZE(s)

const struct attack attacks[] = {
	{
		.name = "nobody",
		.what = "no attack",
		.users = 1,
	},
	{
		.name = "one_context",
		.what = "one descriptor with 50,000 timers of 1 ms, read all the time",
		.users = 1, .contexts = 1, .timers = 50000, .traits = ATTACK_READ,
	},
	{
		.name = "two_clocks",
		.what = "two descriptors on two clocks, 50,000 timers each, read",
		.users = 1, CONTEXTS(two_clocks), .timers = 50000, .traits = ATTACK_READ,
	},
	{
		.name = "three_clocks",
		.what = "three descriptors on three clocks, 50,000 timers each, read",
		.users = 1, CONTEXTS(three_clocks), .timers = 50000, .traits = ATTACK_READ,
	},
	{
		.name = "two_users",
		.what = "two users with two clocks each, 50,000 timers on each clock, read",
		.users = 2, CONTEXTS(two_clocks), .timers = 50000, .traits = ATTACK_READ,
	},
	{
		.name = "million_read",
		.what = "a million periodic timers of 1 ms, read all the time",
		.users = 1, .contexts = 1, .timers = 1000000, .traits = ATTACK_READ,
	},
	{
		.name = "timerfds_read",
		.what = "10,000 timerfds of 1 ms, read all the time, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 1, .contexts = 10000, .timers = 1, .traits = ATTACK_READ,
	},
	{
		.name = "million_unread",
		.what = "a million periodic timers of 1 ms that nobody reads",
		.users = 1, .contexts = 1, .timers = 1000000,
	},
	{
		.name = "bursts",
		.what = "a million one-shot timers on one tick, due again every 1.5 s",
		.users = 1, .contexts = 1, .timers = 1000000,
		.traits = ATTACK_BURST,
	},
	{
		.name = "due_storm",
		.what = "200,000 timers that wait for the end of a tick of 1 s, and then vectors",
		.users = 1, CONTEXTS(tick_1s), .timers = 200000,
		.traits = ATTACK_STORM,
	},
	{
		.name = "reopening",
		.what = "one descriptor with 50,000 timers, closed and opened again every 0.5 s",
		.users = 1, .contexts = 1, .timers = 50000,
		.traits = ATTACK_REOPEN,
	},
	{
		.name = "subuids",
		.what = "8 subordinate uids of one user, 10,000 timers each, read",
		.users = 1, .contexts = 8, .timers = 10000,
		.traits = ATTACK_SUBUIDS | ATTACK_READ,
	},
	{
		.name = "privileged",
		.what = "root, three clocks, 50,000 timers on each, read",
		CONTEXTS(three_clocks), .timers = 50000, .traits = ATTACK_READ,
		.exempt = 1 << VICTIM_ROOT,
	},
	{
		.name = "many_users",
		.what = "32 users with 5,000 timers each, read by each",
		.users = 32, .contexts = 1, .timers = 5000, .traits = ATTACK_READ,
		.many = true,
	},
	{
		.name = "light_users",
		.what = "64 users with 30 timers each, read by each",
		.users = 64, .contexts = 1, .timers = 30, .traits = ATTACK_READ,
		.many = true,
	},
	{
		.name = "light_timerfd",
		.what = "64 users, a timerfd of 1 ms each that a task of the user reads",
		.source = ATTACK_TIMERFD,
		.users = 64, .contexts = 1, .timers = 1, .traits = ATTACK_READ,
	},
	{
		.name = "aligned",
		.what = "64 users, 16 descriptors each, due together each 47 ms, read by each",
		.users = 64, .contexts = 16, .shape = each_47_ms, .shapes = 1, .timers = 1,
		.traits = ATTACK_READ, .many = true,
	},
	{
		.name = "aligned_timerfd",
		.what = "the same with timerfds, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 64, .contexts = 16, .shape = each_47_ms, .shapes = 1, .timers = 1,
		.traits = ATTACK_READ,
	},
	{
		.name = "many_contexts",
		.what = "10,000 descriptors with a timer of 1 ms each, read by one task",
		.users = 1, .contexts = 10000, .timers = 1, .traits = ATTACK_READ,
	},
	{
		.name = "unread_contexts",
		.what = "10,000 descriptors with a timer of 1 ms each that nobody reads",
		.users = 1, .contexts = 10000, .timers = 1,
	},
	{
		.name = "unread_contexts_timerfd",
		.what = "the same with timerfds, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 1, .contexts = 10000, .timers = 1,
	},
	{
		.name = "contexts_100000",
		.what = "100,000 descriptors, due together each second, read by one task",
		.users = 1, .contexts = 100000, .shape = each_1s, .shapes = 1, .timers = 1,
		.traits = ATTACK_READ, .many = true,
	},
	{
		.name = "timerfds_100000",
		.what = "the same with timerfds, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 1, .contexts = 100000, .shape = each_1s, .shapes = 1, .timers = 1,
		.traits = ATTACK_READ,
	},
	{
		.name = "unread_100000",
		.what = "100,000 descriptors, due together each second, that nobody reads",
		.users = 1, .contexts = 100000, .shape = each_1s, .shapes = 1, .timers = 1,
		.many = true,
	},
	{
		.name = "unread_100000_timerfd",
		.what = "the same with timerfds, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 1, .contexts = 100000, .shape = each_1s, .shapes = 1, .timers = 1,
	},
	{
		.name = "exits",
		.what = "a process that ends with 100,000 descriptors open, and another, and so on",
		.users = 1, .contexts = 100000, .shape = each_1s, .shapes = 1, .timers = 1,
		.traits = ATTACK_EXIT, .call_ns = PAGES_NS,
	},
	{
		.name = "exits_timerfd",
		.what = "the same with timerfds, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 1, .contexts = 100000, .shape = each_1s, .shapes = 1, .timers = 1,
		.traits = ATTACK_EXIT, .call_ns = PAGES_NS,
	},
	{
		.name = "one_fine",
		.what = "one descriptor with a tick and a timer of 10 us, read all the time",
		.users = 1, .contexts = 1, .shape = fine, .shapes = 1, .timers = 1,
		.traits = ATTACK_READ, .peer = "one_fine_timerfd",
	},
	{
		.name = "one_fine_timerfd",
		.what = "a timerfd of 10 us, read all the time, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 1, .contexts = 1, .shape = fine, .shapes = 1, .timers = 1,
		.traits = ATTACK_READ,
	},
	{
		.name = "co_prime",
		.what = "16 descriptors with co-prime ticks of about 100 us, 4 timers each, read",
		.users = 1, CONTEXTS(co_prime), .timers = 4, .traits = ATTACK_READ,
		.peer = "co_prime_timerfd",
	},
	{
		.name = "co_prime_timerfd",
		.what = "16 timerfds of the same intervals, read by one task, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 1, CONTEXTS(co_prime), .timers = 1, .traits = ATTACK_READ,
	},
	{
		.name = "co_prime_users",
		.what = "32 users with 16 such descriptors each, 4 timers on each, read by each",
		.users = 32, CONTEXTS(co_prime), .timers = 4, .traits = ATTACK_READ,
		.many = true,
	},
	{
		.name = "co_prime_users_timerfd",
		.what = "the same with timerfds, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 32, CONTEXTS(co_prime), .timers = 1, .traits = ATTACK_READ,
	},
	{
		.name = "primes",
		.what = "1,000 descriptors with prime ticks of 10 to 19.5 us, read all the time",
		.users = 1, .contexts = 1000, .shape = fine, .shapes = 1, .timers = 1,
		.traits = ATTACK_READ | ATTACK_PRIMES, .peer = "primes_timerfd",
	},
	{
		.name = "primes_timerfd",
		.what = "1,000 timerfds of the same intervals, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 1, .contexts = 1000, .shape = fine, .shapes = 1, .timers = 1,
		.traits = ATTACK_READ | ATTACK_PRIMES,
	},
	{
		.name = "fine_16",
		.what = "16 descriptors with prime ticks of 10 us, one due each 10 us, read",
		.users = 1, .contexts = 16, .shape = fine, .shapes = 1, .timers = 1,
		.traits = ATTACK_READ | ATTACK_PRIMES, .peer = "fine_16_timerfd",
	},
	{
		.name = "fine_16_timerfd",
		.what = "16 timerfds of the same intervals, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 1, .contexts = 16, .shape = fine, .shapes = 1, .timers = 1,
		.traits = ATTACK_READ | ATTACK_PRIMES,
	},
	{
		.name = "fine_users_16",
		.what = "64 users with 16 such descriptors each, read by each",
		.users = 64, .contexts = 16, .shape = fine, .shapes = 1, .timers = 1,
		.traits = ATTACK_READ | ATTACK_PRIMES, .many = true,
		.peer = "fine_users_16_timerfd",
	},
	{
		.name = "fine_users_16_timerfd",
		.what = "the same with timerfds, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 64, .contexts = 16, .shape = fine, .shapes = 1, .timers = 1,
		.traits = ATTACK_READ | ATTACK_PRIMES,
	},
	{
		.name = "fine_users_1000",
		.what = "64 users with 1,000 descriptors each, ticks of 10 to 19.5 us, read",
		.users = 64, .contexts = 1000, .shape = fine, .shapes = 1, .timers = 1,
		.traits = ATTACK_READ | ATTACK_PRIMES, .many = true,
		.peer = "fine_users_1000_timerfd",
	},
	{
		.name = "fine_users_1000_timerfd",
		.what = "the same with timerfds, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 64, .contexts = 1000, .shape = fine, .shapes = 1, .timers = 1,
		.traits = ATTACK_READ | ATTACK_PRIMES,
	},
	{
		.name = "staggered",
		.what = "50,000 descriptors, ticks of 10 us, one due each 20 us, that nobody reads",
		.users = 1, .contexts = 50000, .shape = fine_1s, .shapes = 1, .timers = 1,
		.stagger_ns = 20 * USEC, .many = true, .peer = "staggered_timerfd",
	},
	{
		.name = "staggered_timerfd",
		.what = "the same with timerfds, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 1, .contexts = 50000, .shape = fine_1s, .shapes = 1, .timers = 1,
		.stagger_ns = 20 * USEC,
	},
	{
		.name = "unread_users",
		.what = "64 users, 1,000 descriptors each, eight due on a tick, that nobody reads",
		.users = 64, .contexts = 1000, .shape = each_1s, .shapes = 1, .timers = 1,
		.stagger_ns = MSEC / 8, .many = true, .peer = "unread_users_timerfd",
	},
	{
		.name = "unread_users_timerfd",
		.what = "the same with timerfds, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 64, .contexts = 1000, .shape = each_1s, .shapes = 1, .timers = 1,
		.stagger_ns = MSEC / 8,
	},
	{
		.name = "waiters",
		.what = "one timer, 10,000 epoll entries that watch its descriptor",
		.costly = true,
		.users = 1, .contexts = 1, .timers = 1, .traits = ATTACK_TAKE,
		.waiting = { .entries = 10000 },
	},
	{
		.name = "waiters_timerfd",
		.what = "a timerfd of 1 ms, 10,000 epoll entries that watch it, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 1, .contexts = 1, .timers = 1, .traits = ATTACK_TAKE,
		.waiting = { .entries = 10000 },
	},
	{
		.name = "nested_waiters",
		.what = "one timer, an epoll set that watches it, and 500 sets that watch that set",
		.costly = true,
		.users = 1, .contexts = 1, .timers = 1, .traits = ATTACK_TAKE,
		.waiting = { .entries = 1, .sets = 500 },
	},
	{
		.name = "nested_waiters_timerfd",
		.what = "the same with timerfds, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 1, .contexts = 1, .timers = 1, .traits = ATTACK_TAKE,
		.waiting = { .entries = 1, .sets = 500 },
	},
	{
		.name = "nested_contexts",
		.what = "64 descriptors, a timer each, 500 sets that watch the epoll set of each",
		.costly = true,
		.users = 1, .contexts = 64, .timers = 1, .traits = ATTACK_TAKE,
		.waiting = { .entries = 1, .sets = 500 },
	},
	{
		.name = "nested_timerfd",
		.what = "the same with timerfds, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 1, .contexts = 64, .timers = 1, .traits = ATTACK_TAKE,
		.waiting = { .entries = 1, .sets = 500 },
	},
	{
		.name = "nested_users",
		.what = "64 users, a timer each, 500 sets that watch the epoll set of each",
		.users = 64, .contexts = 1, .timers = 1, .traits = ATTACK_TAKE,
		.waiting = { .entries = 1, .sets = 500 }, .many = true,
		.peer = "nested_users_timerfd",
	},
	{
		.name = "nested_users_timerfd",
		.what = "the same with timerfds, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 64, .contexts = 1, .timers = 1, .traits = ATTACK_TAKE,
		.waiting = { .entries = 1, .sets = 500 },
	},
	{
		.name = "lists_1",
		.what = "an epoll set of 64 entries for one descriptor, polled 1,000 times",
		.costly = true,
		.users = 1, .contexts = 1, .timers = 1, .traits = ATTACK_TAKE,
		.waiting = LIST(64, 1000),
	},
	{
		.name = "lists_1_timerfd",
		.what = "the same with timerfds, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 1, .contexts = 1, .timers = 1, .traits = ATTACK_TAKE,
		.waiting = LIST(64, 1000),
	},
	{
		.name = "lists_20",
		.what = "an epoll set of 64 entries for one descriptor, polled 20,000 times",
		.costly = true,
		.users = 1, .contexts = 1, .timers = 1, .traits = ATTACK_TAKE,
		.waiting = LIST(64, 20000),
	},
	{
		.name = "lists_20_timerfd",
		.what = "the same with a timerfd, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 1, .contexts = 1, .timers = 1, .traits = ATTACK_TAKE,
		.waiting = LIST(64, 20000),
	},
	{
		.name = "lists_manual",
		.what = "64 entries for a manual clock that is advanced each millisecond",
		.costly = true,
		.users = 1, CONTEXTS(manual), .timers = 1, .traits = ATTACK_TAKE,
		.waiting = LIST(64, 20000),
	},
	{
		.name = "one_list",
		.what = "an epoll set of one entry for one descriptor, polled 20,000 times",
		.costly = true,
		.users = 1, .contexts = 1, .timers = 1, .traits = ATTACK_TAKE,
		.waiting = LIST(1, 20000),
	},
	{
		.name = "one_list_timerfd",
		.what = "the same with a timerfd, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 1, .contexts = 1, .timers = 1, .traits = ATTACK_TAKE,
		.waiting = LIST(1, 20000),
	},
	{
		.name = "one_list_pipe",
		.what = "the same with a pipe, for comparison",
		.source = ATTACK_PIPE,
		.users = 1, .contexts = 1, .timers = 1, .traits = ATTACK_TAKE,
		.waiting = LIST(1, 20000),
	},
	{
		.name = "lists_of_users",
		.what = "64 users, each with an epoll set of one entry, polled 1,000 times",
		.users = 64, .contexts = 1, .timers = 1, .traits = ATTACK_TAKE,
		.waiting = LIST(1, 1000), .many = true,
		.peer = "lists_of_users_timerfd",
	},
	{
		.name = "lists_of_users_timerfd",
		.what = "the same with timerfds, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 64, .contexts = 1, .timers = 1, .traits = ATTACK_TAKE,
		.waiting = LIST(1, 1000),
	},
	{
		.name = "exchanged",
		.what = "a set that is polled 20,000 times, and one that is not, in turn",
		.costly = true,
		.users = 1, .contexts = 1, .timers = 1, .traits = ATTACK_TAKE,
		.waiting = {
			.entries = 1, .tasks = 2, .polls = 10000, .idle = true, .exchanged = true,
		},
	},
	{
		.name = "exchanged_timerfd",
		.what = "the same with timerfds, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 1, .contexts = 1, .timers = 1, .traits = ATTACK_TAKE,
		.waiting = {
			.entries = 1, .tasks = 2, .polls = 10000, .idle = true, .exchanged = true,
		},
	},
	{
		.name = "long_and_short",
		.what = "a set that is polled 1,200 times, and a descriptor beside it",
		.costly = true,
		.users = 1, CONTEXTS(long_and_short), .timers = 1, .traits = ATTACK_TAKE,
		.waiting = {
			.contexts = 1, .entries = 64, .tasks = 2, .polls = 600, .idle = true,
		},
	},
	{
		.name = "long_and_short_timerfd",
		.what = "the same with timerfds, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 1, CONTEXTS(long_and_short), .timers = 1, .traits = ATTACK_TAKE,
		.waiting = {
			.contexts = 1, .entries = 64, .tasks = 2, .polls = 600, .idle = true,
		},
	},
	{
		.name = "loop",
		.what = "past deadlines read in a loop, before a set that is polled 20,000 times",
		.users = 1, .contexts = 1, .timers = 1, .traits = ATTACK_LOOP,
		.waiting = LIST(1, 20000),
	},
	{
		.name = "loop_timerfd",
		.what = "the same with timerfds, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 1, .contexts = 1, .timers = 1, .traits = ATTACK_LOOP,
		.waiting = LIST(1, 20000),
	},
	{
		.name = "loop_pipe",
		.what = "write() and read() of a pipe in a loop, before the same, for comparison",
		.source = ATTACK_PIPE,
		.users = 1, .contexts = 1, .timers = 1, .traits = ATTACK_LOOP,
		.waiting = LIST(1, 20000),
	},
	{
		.name = "polled_16",
		.what = "64 users, a timer of 47 ms each, for which 16 tasks wait in poll()",
		.users = 64, CONTEXTS(each_47_ms), .timers = 1,
		.waiting = { .tasks = 16, .polls = 1 }, .many = true,
	},
	{
		.name = "polled_16_timerfd",
		.what = "the same with timerfds, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 64, CONTEXTS(each_47_ms), .timers = 1,
		.waiting = { .tasks = 16, .polls = 1 },
	},
	{
		.name = "polled_64",
		.what = "64 users, a timer of 47 ms each, for which 64 tasks wait in poll()",
		.users = 64, CONTEXTS(each_47_ms), .timers = 1,
		.waiting = { .tasks = 64, .polls = 1 }, .many = true,
	},
	{
		.name = "polled_64_timerfd",
		.what = "the same with timerfds, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 64, CONTEXTS(each_47_ms), .timers = 1,
		.waiting = { .tasks = 64, .polls = 1 },
	},
	{
		.name = "blocked_16",
		.what = "64 users, 16 descriptors each, due each 47 ms, a task in read() of each",
		.users = 64, .contexts = 16, .shape = each_47_ms, .shapes = 1, .timers = 1,
		.waiting = { .tasks = 1 }, .many = true,
	},
	{
		.name = "blocked_16_timerfd",
		.what = "the same with timerfds, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 64, .contexts = 16, .shape = each_47_ms, .shapes = 1, .timers = 1,
		.waiting = { .tasks = 1 },
	},
	{
		.name = "unread_polls",
		.what = "16 tasks that call poll() all the time and never read",
		.users = 1, .contexts = 1, .timers = 1,
		.waiting = { .tasks = 16, .polls = 1, .deaf = true },
	},
	{
		.name = "unread_polls_timerfd",
		.what = "the same with timerfds, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 1, .contexts = 1, .timers = 1,
		.waiting = { .tasks = 16, .polls = 1, .deaf = true },
	},
	{
		.name = "unread_waiters",
		.what = "64 users, a timer of 1 ms each, for which 16 tasks wait that never run",
		.users = 64, .contexts = 1, .timers = 1, .many = true,
		.waiting = { .tasks = 16, .polls = 1, .idle = true },
	},
	{
		.name = "unread_waiters_timerfd",
		.what = "the same with timerfds, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 64, .contexts = 1, .timers = 1,
		.waiting = { .tasks = 16, .polls = 1, .idle = true },
	},
	{
		.name = "requests",
		.what = "one timer, 10,000 multishot poll requests of an io_uring",
		.users = 1, .contexts = 1, .timers = 1,
		.waiting = { .requests = 10000 }, .call_ns = REQUESTS_NS,
	},
	{
		.name = "requests_timerfd",
		.what = "the same with timerfds, for comparison",
		.source = ATTACK_TIMERFD,
		.users = 1, .contexts = 1, .timers = 1,
		.waiting = { .requests = 10000 }, .call_ns = REQUESTS_NS,
	},
	{
		.name = "sigio",
		.what = "one timer, SIGIO to a process group of 500",
		.users = 1, .contexts = 1, .timers = 1, .traits = ATTACK_TAKE,
		.group = 500,
	},
	{
		.name = "sigio_pipe",
		.what = "a pipe written to each millisecond, SIGIO to a process group of 500",
		.source = ATTACK_PIPE,
		.users = 1, .contexts = 1, .timers = 1, .traits = ATTACK_TAKE,
		.group = 500,
	},
	{
		.name = "sigio_contexts",
		.what = "4,000 descriptors with a timer of 1 to 4 ms each, SIGIO for each of them",
		.users = 1, .contexts = 4000, .shape = one_to_four, .shapes = 4,
		.timers = 1, .group = 1, .traits = ATTACK_TAKE,
	},
	{
		.name = "sigio_16000",
		.what = "the same with 16,000 descriptors",
		.users = 1, .contexts = 16000, .shape = one_to_four, .shapes = 4,
		.timers = 1, .group = 1, .traits = ATTACK_TAKE,
	},
	{
		.name = "sigio_contexts_pipe",
		.what = "4,000 pipes, of which 128 are written to each millisecond, SIGIO for each",
		.source = ATTACK_PIPE,
		.users = 1, .contexts = 4000, .shape = one_to_four, .shapes = 4,
		.timers = 1, .group = 1, .traits = ATTACK_TAKE,
	},
	{
		.name = "sigio_users",
		.what = "32 users, 8 descriptors each, SIGIO for each to a group of 10 processes",
		.users = 32, .contexts = 8, .timers = 1, .traits = ATTACK_TAKE,
		.group = 10, .many = true,
	},
	{
		.name = "sigio_and_timers",
		.what = "4 users, 20,000 timers of 1 ms each, SIGIO to a group of 200 processes",
		.users = 4, .contexts = 1, .timers = 20000, .traits = ATTACK_TAKE,
		.group = 200,
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

uint64_t attack_wakeup_ns(const struct attack *a)
{
	const struct attack_waiting *w = &a->waiting;
	const uint64_t behind = w->sets + w->tasks * w->polls;

	return (a->users ? a->users : 1) * WAKE_NS *
	       (w->entries ? w->entries * (1 + behind) : behind);
}

uint64_t attack_late_ns(const struct attack *a)
{
	const struct attack_waiting *w = &a->waiting;
	/* Those of one user are woken by the work item, and prime ticks do not meet. */
	const uint64_t rings = a->users > 1 && !(a->traits & ATTACK_PRIMES) ?
		a->users * a->contexts * RING_NS : 0;

	const uint64_t held = w->tasks && !w->polls ? READERS_NS : 0;

	return MSEC + (a->many ? LATE_MANY_NS + rings : LATE_NS) + attack_wakeup_ns(a) + held +
	       a->call_ns;
}

/* As how many ordinary tasks those of SCHED_IDLE count. */
static double idle_tasks(const struct attack *a)
{
	const unsigned int users = a->users ? a->users : 1;

	return a->waiting.idle ? users * a->contexts * a->waiting.tasks * IDLE_WEIGHT : 0;
}

double attack_most_loss(const struct attack *a, uint64_t ns)
{
	return COSTLY + 100.0 * attack_wakeup_ns(a) / ns + 100 * idle_tasks(a) +
	       100.0 * 2 * RING_NS * a->contexts / MSEC;
}

double attack_fair(const struct attack *a)
{
	const struct attack_waiting *w = &a->waiting;
	const unsigned int users = a->users ? a->users : 1;
	/* Who waits for many contexts, or is one of many, is woken by a kernel thread. */
	const bool is_waking = (a->contexts > 1 && a->traits & ATTACK_READ) || w->entries ||
			       w->tasks || w->requests || a->group;
	/* The counting task. */
	unsigned int tasks = 1;

	if (a->traits & (ATTACK_READ | ATTACK_LOOP))
		tasks += users;
	if (a->traits & ATTACK_EXIT)
		tasks++;
	if (!w->idle)
		tasks += users * a->contexts * (w->tasks + !!w->requests);
	return 100.0 / (tasks + is_waking + idle_tasks(a));
}
