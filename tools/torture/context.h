/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The contexts of a round: how each is set up, and its clock
 */
#ifndef TORTURE_CONTEXT_H
#define TORTURE_CONTEXT_H

#include <linux/htw.h>
#include <stdbool.h>
#include <sys/types.h>

#include "account.h"

#define CONTEXTS_MOST	24
#define READERS_MOST	3

enum reader_kind {
	READER_SPIN,		/* read() that never waits */
	READER_POLL,
	READER_BLOCKING,	/* read() that waits, exclusively */
	READER_EPOLL,
	READER_EPOLL_EDGE,
	READER_EPOLL_EXCLUSIVE,
	READER_SIGIO,
	READER_URING_READ,
	READER_URING_POLL,	/* multishot */
	READER_KINDS,
};

/* How the timers that are left at the end of a round end. */
enum drain {
	DRAIN_EXPIRE,		/* those that are due soon expire, the others are harvested */
	DRAIN_CANCEL,		/* each is cancelled */
	DRAIN_CANCEL_ALL,
	DRAIN_CLOSE,
	DRAINS,
};

/**
 * struct context_state - shared by all processes
 * @manual_begun: time that a manual clock is being moved to
 * @manual_done: time that it has reached
 * @sentinels: sentinels that have been read
 * @readers_ended: readers that have ended, each for a sentinel
 * @events: events that readers have taken
 */
struct context_state {
	__u64 manual_begun;
	__u64 manual_done;
	unsigned int sentinels;
	unsigned int readers_ended;
	__u64 events;
};

/**
 * struct context - one descriptor
 * @number: its number
 * @setup: argument of HTW_SETUP
 * @clock: its clock
 * @tick: tick of its wheel
 * @uid: who opens it
 * @nonblock: O_NONBLOCK
 * @harvests: workers harvest it
 * @strangers: processes that are killed start timers on it
 * @loose: the clock may be set
 * @drain: of &enum drain
 * @workers: number of threads that start and stop timers
 * @readers: kinds of its readers
 * @nr_readers: number of those
 * @most_ns: deadlines are mostly no further away
 * @first: first of its accounts
 * @nr_accounts: number of those
 * @horizon: at its end, timers are awaited that are due by then
 * @cancelled: count that HTW_CANCEL_ALL returned
 * @fd: the descriptor
 * @state: shared by all processes
 */
struct context {
	__u8 number;
	struct htw_setup_args setup;
	int clock;
	__u64 tick;
	uid_t uid;
	bool nonblock;
	bool harvests;
	bool strangers;
	bool loose;
	enum drain drain;
	unsigned int workers;
	enum reader_kind readers[READERS_MOST];
	unsigned int nr_readers;
	__u64 most_ns;
	__u32 first;
	__u32 nr_accounts;
	__u64 horizon;
	__u64 cancelled;
	int fd;
	struct context_state *state;
};

/* What a round may do besides; see htw-torture's options. */
struct choices {
	bool set_clock;
	bool uring;
};

bool context_init(void);
void context_choose(struct context *c, __u8 number, __u64 *random, const struct choices *choices);
void context_describe(const struct context *c, char *buf, size_t size);
void context_open(struct context *c);
/* In a process that has got its descriptor. */
void context_use(struct context *c, int fd);

/* The context's time: no later, and no earlier than it is. */
__u64 context_time_before(const struct context *c);
__u64 context_time_after(const struct context *c);
struct window context_window(const struct context *c, __u64 before);
/* Move a manual clock to a time. */
void context_advance(struct context *c, __u64 to);
/* Harvest up to @room timers and account for them. Return how many; zero also for a failure. */
__u32 context_harvest(const struct context *c, struct htw_timer_info *entries, __u32 room);

#endif /* TORTURE_CONTEXT_H */
