/* SPDX-License-Identifier: MIT */
/*
 * The table of a dispatcher's calls
 *
 * A handle has a slot's number, plus one, in its lower half, and how often the
 * slot has been used in its upper half. Any number may be looked up. Slots are
 * allocated in chunks, which do not move, so a pointer to a call is valid while
 * the call is in the table. No function takes longer because there are many
 * calls, but for calls_free(). The caller does the locking.
 */
#ifndef LIBHTW_CALLS_H
#define LIBHTW_CALLS_H

#include "internal.h"

#include <linux/list.h>
#include <pthread.h>

/**
 * struct call - a slot
 * @handle: of the call; of the next one that will use it, if the slot is free
 * @fn: function to call; NULL if the slot is free
 * @arg: argument of @fn and @next
 * @timer: id of the timer; zero if there is none, or its last event was read
 * @deadline: when the next call is due
 * @interval: zero if not periodic
 * @next: with @scheduled, in place of @interval: returns the time of the next
 *	call; NULL after it has returned %HTW_NO_MORE
 * @releaser: with @ended, in place of both: the thread that does
 * @list: on a list of the dispatcher, or of free slots
 * @slack: of the dispatcher when the call was started, encoded
 * @due: events in the dispatcher's queue
 * @scheduled: by htw_call_schedule()
 * @ended: the call has ended, and its argument is being given back
 */
struct call {
	u64 handle;
	htw_call_fn *fn;
	void *arg;
	u64 timer;
	u64 deadline;
	union {
		u64 interval;
		htw_next_fn *next;
		pthread_t releaser;
	};
	struct list_head list;
	u32 slack;
	u8 due;
	bool scheduled;
	bool ended;
};

/**
 * struct calls - a table
 * @directory: the chunks
 * @nr_chunks: entries of @directory that have been used
 * @size: entries that it has room for
 * @vacant: entries of @directory without a chunk: head of a list, plus one
 * @room: chunks with a free slot
 * @spare: an empty chunk that is kept, or NULL
 */
struct calls {
	struct directory_entry *directory;
	u32 nr_chunks;
	u32 size;
	u32 vacant;
	struct list_head room;
	struct chunk *spare;
};

void calls_init(struct calls *t);
void calls_free(struct calls *t);
struct call *calls_new(struct calls *t);
void calls_end(struct calls *t, struct call *c);
struct call *calls_find(const struct calls *t, u64 handle);
struct call *calls_next(const struct calls *t, u64 *cursor);

#endif /* LIBHTW_CALLS_H */
