// SPDX-License-Identifier: GPL-2.0-only
/* The attacks; see contain.h. */
#include <stddef.h>
#include <string.h>
#include <time.h>
#include "../common/clock.h"
#include "contain.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

static const struct attack_context two_clocks[] = {
	{ CLOCK_MONOTONIC, 0 }, { CLOCK_BOOTTIME, 0 },
};

static const struct attack_context three_clocks[] = {
	{ CLOCK_MONOTONIC, 0 }, { CLOCK_BOOTTIME, 0 }, { CLOCK_REALTIME, 0 },
};

static const struct attack_context private_too[] = {
	{ CLOCK_MONOTONIC, 0 }, { CLOCK_MONOTONIC, MSEC }, { CLOCK_MONOTONIC, MSEC },
};

static const struct attack_context everything[] = {
	{ CLOCK_MONOTONIC, 0 }, { CLOCK_BOOTTIME, 0 }, { CLOCK_REALTIME, 0 },
	{ CLOCK_MONOTONIC, MSEC }, { CLOCK_MONOTONIC, MSEC },
};

/* No two of these ticks coincide. */
static const struct attack_context co_prime[] = {
	{ CLOCK_MONOTONIC, 101 * USEC }, { CLOCK_MONOTONIC, 103 * USEC },
	{ CLOCK_MONOTONIC, 107 * USEC }, { CLOCK_MONOTONIC, 109 * USEC },
	{ CLOCK_MONOTONIC, 113 * USEC }, { CLOCK_MONOTONIC, 127 * USEC },
	{ CLOCK_MONOTONIC, 131 * USEC }, { CLOCK_MONOTONIC, 137 * USEC },
	{ CLOCK_MONOTONIC, 139 * USEC }, { CLOCK_MONOTONIC, 149 * USEC },
	{ CLOCK_MONOTONIC, 151 * USEC }, { CLOCK_MONOTONIC, 157 * USEC },
	{ CLOCK_MONOTONIC, 163 * USEC }, { CLOCK_MONOTONIC, 167 * USEC },
	{ CLOCK_MONOTONIC, 173 * USEC }, { CLOCK_MONOTONIC, 179 * USEC },
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
		.traits = ATTACK_WAITERS,
	},
	{
		.name = "nested_waiters",
		.what = "one timer, an epoll set that watches it, and 500 sets that watch that set",
		.users = 1, .contexts = 1, .timers = 1, .ring_entries = 64,
		.traits = ATTACK_NESTED,
	},
	{
		.name = "nested_contexts",
		.what = "64 descriptors, a timer each, 500 sets that watch the epoll set of each",
		.users = 1, .contexts = 64, .timers = 1, .ring_entries = 64,
		.traits = ATTACK_NESTED,
	},
	{
		.name = "nested_users",
		.what = "64 users, a timer each, 500 sets that watch the epoll set of each",
		.users = 64, .contexts = 1, .timers = 1, .ring_entries = 64,
		.traits = ATTACK_NESTED,
		.exempt = 1 << VICTIM_USER,
	},
	{
		.name = "sigio",
		.what = "one timer, SIGIO to a process group of 500",
		.users = 1, .contexts = 1, .timers = 1, .ring_entries = 64,
		.traits = ATTACK_SIGIO,
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
