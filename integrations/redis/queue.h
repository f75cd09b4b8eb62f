/* SPDX-License-Identifier: MIT */
/*
 * The pending timeouts of a stream
 *
 * All functions are called by the server's main thread, but for queue_free().
 */
#ifndef HTW_REDIS_QUEUE_H
#define HTW_REDIS_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "redismodule.h"

/* The longest id of a timeout. */
#define ID_MAX		1024

/* The longest payload: XADD takes 1 GiB for the names and values of an entry together. */
#define PAYLOAD_MAX	((1u << 30) - ID_MAX - 64)

/**
 * struct timeout - a pending timeout
 * @queue: where it is
 * @due: in ms since 1970
 * @timer: of the clock, zero if it is not armed; if it is in line: its number there
 * @order: of those with the same time, the one with the lower number was added first
 * @id_len: length of its id
 * @in_line: is it due, and in the line of its queue?
 * @payload_len: length of its payload
 * @bytes: id and payload
 */
struct timeout {
	struct queue *queue;
	int64_t due;
	uint64_t timer;
	uint64_t order : 52;
	uint64_t id_len : 11;
	uint64_t in_line : 1;
	uint32_t payload_len;
	char bytes[];
};

/**
 * struct queue - the value of a key: the pending timeouts of a stream
 * @by_id: the timeouts
 * @bytes: memory of the timeouts
 * @leases: see lease.h; NULL if there are none
 * @extras: see extra.h; NULL if no timeout has any
 * @settings: by enum setting; NULL if they are as from the start
 * @armed: how many are armed
 * @line: those that are due, in the order in which they are delivered; NULL for one that has left
 * @line_size: places in @line
 * @line_first: number of the first of @line
 * @line_begin: number of the first that may not have left
 * @line_end: number of the next to come
 * @waiting: how many are in line
 * @retry: after the stream has not taken an entry: when to try again, in ms since 1970
 * @attempts: how often it has not, since it last did
 * @reason: why it has not; NULL if it did
 * @next_due: next queue with a line
 * @due_link: what points to this one; NULL if nothing is in line
 * @next: next queue of its place
 * @link: what points to this one; NULL if it is in no place
 * @home: its place, see places.h; or the last one that it was in
 * @ended: %STOPPED and %FREED
 * @key: name of the key; NULL if it is in no place
 * @stream: name of the stream; NULL if the queue is parked
 */
struct queue {
	RedisModuleDict *by_id;
	size_t bytes;
	struct leases *leases;
	struct extras *extras;
	int64_t *settings;
	uint64_t armed;
	struct timeout **line;
	size_t line_size;
	uint64_t line_first;
	uint64_t line_begin;
	uint64_t line_end;
	uint64_t waiting;
	int64_t retry;
	uint64_t attempts;
	char *reason;
	struct queue *next_due;
	struct queue **due_link;
	struct queue *next;
	struct queue **link;
	struct database *home;
	atomic_uint ended;
	RedisModuleString *key;
	RedisModuleString *stream;
};

/* A timeout in the order of time. */
struct in_order {
	int64_t due;
	uint64_t order;
	struct timeout *timeout;
};

/* What timeouts_status() counts. */
struct timeouts_status {
	uint64_t streams;	/* with pending timeouts */
	uint64_t pending;
	uint64_t armed;
	uint64_t waiting;	/* due, and not delivered yet */
	uint64_t ending;	/* timers of queues that are gone, which are being stopped */
	uint64_t parked;	/* in keys whose names are no stream's */
	uint64_t delivered;
	uint64_t failed;	/* attempts to deliver */
	uint64_t failing;	/* streams whose last attempt failed */
	const char *refused;	/* why this server may not write now; NULL if it may */
	int64_t max_late;	/* in ms, of those delivered */
};

/* The type of a queue's key; see type.c. */
extern RedisModuleType *queue_type;

/* To go through the timeouts of a queue, which stays as it is meanwhile. */
#define for_each_timeout(t, q, iterator)							\
	for (iterator = RedisModule_DictIteratorStartC((q)->by_id, "^", NULL, 0);		\
	     RedisModule_DictNextC(iterator, NULL, (void **)&(t)) ||				\
	     (RedisModule_DictIteratorStop(iterator), false);)

static inline const char *payload_of(const struct timeout *t)
{
	return t->bytes + t->id_len;
}

/* Return: the name of a stream's queue; NULL if no key can be in the same slot by a tag. */
RedisModuleString *queue_name(RedisModuleCtx *ctx, RedisModuleString *stream);

/* Return: the stream of a queue's name; NULL if it is the name of none. */
RedisModuleString *stream_name(RedisModuleString *name);

/* Make a timeout that is in no queue and not armed; RedisModule_Free() frees it. */
struct timeout *timeout_new(const char *id, size_t id_len, int64_t due, const char *payload,
			    size_t payload_len);

/**
 * timeout_arm_new() - arm a timeout before it is inserted, if this server is active
 * @t: the timeout
 *
 * Return: 0 or a negative errno.
 */
int timeout_arm_new(struct timeout *t);

/* Give a timeout a new time. */
void timeout_move(RedisModuleCtx *ctx, struct timeout *t, int64_t due);

/*
 * Its timer has expired: it goes to the end of the line, unless it is only an id that was kept.
 *
 * Return: false if its queue is gone or parked.
 */
bool timeout_expired(struct timeout *t);

struct queue *queue_new(void);

/* The server frees a queue. In any thread. */
void queue_free(void *value);

/* Free a queue's memory, when nobody needs it any more. In any thread. */
void queue_free_memory(struct queue *q);

/* How many timeouts. */
uint64_t queue_size(const struct queue *q);

/* Is there nothing in it, so that its key goes? */
bool queue_is_empty(const struct queue *q);

struct timeout *queue_find(struct queue *q, const char *id, size_t id_len);

/* Insert a timeout. Return: false if its id is in use. */
bool queue_insert(struct queue *q, struct timeout *t);

/* All timeouts of a queue by their time, and equal ones as they were added; free the array. */
struct in_order *queue_in_order(const struct queue *q);

/* The first that is in line, or NULL. */
struct timeout *queue_first_due(struct queue *q);

/* A queue with a line, another one each time; or NULL. How many there are. */
struct queue *queue_next_due(void);
uint64_t queues_due(void);

/* Disarm, remove and free a timeout. */
void queue_remove(struct queue *q, struct timeout *t);

/* Are its timers armed? Its name is a stream's, and this server is active. */
bool queue_is_active(const struct queue *q);

/*
 * Open the key of a queue one of whose timers has expired, for writing. The caller holds a
 * reference to @name: the key may have a TTL and expire here, which frees the queue.
 *
 * Return: the key, to be closed; NULL if the queue is no longer its value.
 */
RedisModuleKey *queue_open(RedisModuleCtx *ctx, struct queue *q, RedisModuleString *name);

/* The queue in a key that open_queue() has opened to write; a new one, if there is none. */
struct queue *queue_make(RedisModuleCtx *ctx, RedisModuleKey *key, RedisModuleString *name);

/* The queue in a key, which may be NULL or empty; or NULL. */
struct queue *queue_in(RedisModuleKey *key);

/*
 * A queue has become the value of a key, by a command or as it was loaded; its timeouts are armed
 * by the next call that does so.
 */
void queue_place(struct queue *q, int db, const RedisModuleString *key);
void queue_place_loaded(struct queue *q, int db, const RedisModuleString *key);

/* It is not any more: its timeouts are disarmed soon. */
void queue_displace(struct queue *q);

/*
 * Arm all timeouts, as this server is a master and has loaded its data; or disarm them. What is
 * added later follows suit.
 */
void timeouts_set_active(RedisModuleCtx *ctx, bool active);

/* The keys of a database, or with -1 of all, are about to be deleted without further notice. */
void timeouts_flush(int db);

/* The clock was at its limit: arm what is not armed, when there is room. */
void timeouts_rearm_later(RedisModuleCtx *ctx);

void timeouts_swap(int db, int other);

/* What is loaded from now on is for later, while the present data are served; now it is later. */
void timeouts_arrive(void);
void timeouts_arrived(RedisModuleCtx *ctx, bool completed);

/*
 * A value was put at @key of the selected database, other than by our commands or by loading; or
 * the value of @key is gone. Workers that block in HTW.TAKE because the queue was paused try again.
 */
void timeouts_moved(RedisModuleCtx *ctx, RedisModuleString *key);
void timeouts_gone(RedisModuleCtx *ctx, RedisModuleString *key);

void timeouts_status(struct timeouts_status *status);

/* deliver.c: handle timeouts that are due, and count them. */
void deliver_init(void);

/* Something is in line that the clock has not said. */
void deliver_soon(void);

/* What a queue's stream did not take is forgotten. */
void deliver_ok(struct queue *q);

void deliver_status(struct timeouts_status *status);

/* type.c: create the data type. Return: REDISMODULE_OK or REDISMODULE_ERR. */
int type_init(RedisModuleCtx *ctx);
size_t queue_memory(const void *value);

/* commands.c: what is said of a part that may be at another node. */
#define ERROR_MOVING	"TRYAGAIN the stream's slot is being moved"

/*
 * commands.c: open the queue of a stream. Reply with an error if the name cannot be that of a
 * stream, the key has another type, or it may be at another node.
 *
 * Return: REDISMODULE_OK with the key, which may be empty: then there is no queue anywhere.
 */
int open_queue(RedisModuleCtx *ctx, RedisModuleString *stream, int mode, RedisModuleString **name,
	       RedisModuleKey **key);

/*
 * commands.c: finish a change of a queue. Deletes its key if the queue is empty, closes the key,
 * signals the queue's key and the stream's as modified (for WATCH and CLIENT TRACKING), and sends
 * the keyspace notification @event. Its subscribers may run any command, so the queue may be gone
 * afterwards: call this last.
 *
 * Return: true if the queue was empty and its key was deleted.
 */
bool queue_changed(RedisModuleCtx *ctx, RedisModuleString *stream, RedisModuleString *name,
		   RedisModuleKey **key, const char *event);

/* commands.c: create the commands on timeouts, and reply to HTW.INFO stream [id]. */
int commands_init(RedisModuleCtx *ctx);
int commands_reply_info(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

#endif
