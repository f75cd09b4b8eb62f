/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the program that runs has opened and found out, and what must hold of it
 */
#ifndef SCENE_H
#define SCENE_H

#include <linux/htw.h>
#include <stdbool.h>
#include <stddef.h>

#include "../torture/report.h"
#include "buffer.h"
#include "calls.h"

#define FDS		4
#define IDS		64
/* Users without privileges have the ids that follow this one. */
#define USERS_FIRST	1000

struct scene {
	struct {
		int fd;			/* -1 if closed */
		int flags;		/* of open() */
		unsigned int context;	/* counts opens */
	} fds[FDS];
	/* By context; a descriptor may have been duplicated. */
	struct {
		__u32 clock;
	} contexts[PROGRAM_CALLS + 1];
	unsigned int nr_contexts;
	struct { __u64 id; unsigned int context; } ids[IDS];
	unsigned int nr_ids;
	/* Ids that a cancel has ended: none must answer again. */
	struct { __u64 id; unsigned int context; } ended[IDS];
	unsigned int nr_ended;
	__u64 cursor;
	int epoll;
	bool has_become;		/* another user, for a part of the program */
	unsigned int children;
	unsigned int child_calls;	/* what is left of them in a child */
	bool has_shared;		/* children may use the same contexts */
	const char *name;		/* of the present call */
	/* What @now_clock was when the present call first read it; zero before. */
	__u64 now;
	__u32 now_clock;
};

extern struct scene scene;

/* For arrays that a call is passed. */
extern struct buffer array_buffers[3];

/* What is wrong with the present call. */
#define wrong(format, ...)	report_violation("%s: " format, scene.name, ##__VA_ARGS__)

/* A call may take thousands of times: read a clock once for all, and again after this. */
static inline void forget_now(void)
{
	scene.now = 0;
}

void scene_init(void);
void scene_begin(void);
/* Close all, and wait for the children. */
void scene_end(void);

int fd_of(__u64 arg);
unsigned int context_of(__u64 fd);
/*
 * Call with a structure where @kind says, and get it back if that is accessible. The call must fail
 * if the descriptor was opened for what it does not need.
 */
long call_with(__u64 fd, unsigned long command, __u64 kind, void *arg, size_t size);

void note_id(__u64 fd, __u64 id);
/* The low byte counts back from the last id, the next one says how to change it. */
__u64 id_of(__u64 arg);
/* Times that are not far away are meant as from now also if they are absolute. */
__u64 time_of(__u64 fd, __u64 arg, __u64 flags);

/* Has a cancel ended this id? */
bool has_ended(__u64 fd, __u64 id);
void note_ended(__u64 fd, __u64 id);
/* Of all calls that name an id: one that has ended is unknown. */
void check_id(__u64 fd, __u64 id, long ret);
void check_event(__u64 fd, const struct htw_event *ev);
void check_entry(__u64 fd, const struct htw_timer_info *q);

#endif /* SCENE_H */
