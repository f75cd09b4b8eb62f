/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The calls in which faults are injected
 */
#ifndef CALLS_H
#define CALLS_H

#include <linux/htw.h>
#include <stdbool.h>

#define TIMERS		8
#define TIMERS_MOST	5000
/* Of several pages. */
#define TIMERS_SOME	300

/* What a call works on. */
struct scene {
	int fd;
	__u64 ids[TIMERS];	/* an hour away */
	int other;		/* another descriptor that the call needs, or -1 */
};

enum after {
	UNCHANGED,	/* a call that fails changes nothing */
	PARTLY,		/* the interface allows that some or all of it was done */
};

/**
 * struct call - a call
 * @name: its name
 * @prepare: set the scene, without faults; may be NULL
 * @call: the call; returns a negative errno, or 0
 * @timers: number of timers after it has succeeded
 * @after: what a call that fails leaves
 * @least: faults that must be injected, or more: less means that the test does not reach them
 */
struct call {
	const char *name;
	bool (*prepare)(struct scene *s);
	int (*call)(struct scene *s);
	unsigned int timers;
	enum after after;
	unsigned int least;
};

extern const struct call calls[];
extern const unsigned int nr_calls;

#endif /* CALLS_H */
