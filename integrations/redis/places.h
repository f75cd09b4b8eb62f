/* SPDX-License-Identifier: MIT */
/*
 * Where queues are: in a database, or gone
 *
 * All functions are called by the server's main thread, but for place_freed().
 */
#ifndef HTW_REDIS_PLACES_H
#define HTW_REDIS_PLACES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "redismodule.h"

struct queue;

/* What the queues of a database have, those of streams apart from those that are parked. */
struct counts {
	int64_t streams;
	int64_t pending;	/* of all queues */
	int64_t parked;
	int64_t armed;
	int64_t armed_parked;
	int64_t waiting;
	int64_t due;		/* queues with a line */
	int64_t failing;
};

/**
 * struct database - the queues of a database, or some that are gone
 * @number: of the database; -1 if they are gone
 * @users: its queues that have not been freed; and one more until it is empty and gone
 * @placed: its queues
 * @first_due: those of streams that have a line
 * @counts: of its queues
 * @next: another one that is gone
 */
struct database {
	int number;
	atomic_size_t users;
	struct queue *placed;
	struct queue *first_due;
	struct counts counts;
	struct database *next;
};

/* Bits of &queue.ended: who is done with it. */
#define STOPPED		1u	/* this side: it is in no place, and has no timer */
#define FREED		2u	/* the server: it is the value of no key */

/* The database of a number, or NULL if it has had no queue; and how many numbers there are. */
struct database *place_at(int db);
int nr_places(void);

/* Count @count timeouts of a queue, if it is in a database. */
void count_pending(struct queue *q, int64_t count);
void count_armed(struct queue *q, int64_t count);
void count_waiting(struct queue *q, int64_t count);
void count_failing(struct queue *q, int64_t count);

/* The sum of all databases. */
struct counts places_counts(void);

/* Timers of queues that are gone, which have not been stopped yet. */
uint64_t timers_ending(void);

/* Is a queue in a database, and not gone? */
bool place_is_live(const struct queue *q);

/*
 * Put a queue, which takes the names, into a database. It may have just left one.
 *
 * @is_loaded: from a file or another server, and not by a command
 */
void place_enter(struct queue *q, int db, RedisModuleString *key, RedisModuleString *stream,
		 bool is_loaded);

/* Move a queue to database @db: place_enter() was given a wrong one. */
void place_correct(struct queue *q, int db);

/*
 * A queue is not a key's any more: its timers are stopped in portions. Until the server frees it,
 * which it need not do, it can be entered again.
 */
void place_leave(struct queue *q);

/* The same for all queues of a database; it takes as long for one as for a million. */
void place_flush(int db);

void place_swap(int db, int other);

/*
 * Queues that are loaded from now on are in databases beside the present ones, which clients may
 * go on changing; then these take their place, or are gone.
 */
void place_arrive(void);
void place_arrived(bool completed);

/* The server frees a queue; in any thread. */
void place_freed(struct queue *q);

/* Stop timers of queues that are gone. Return: false if there are none. */
bool place_make_room(void);

#endif
