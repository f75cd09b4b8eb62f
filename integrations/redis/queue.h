/* SPDX-License-Identifier: MIT */
/*
 * The pending timeouts of a stream
 *
 * All functions are called by the server's main thread, but for queue_free().
 */
#ifndef HTW_REDIS_QUEUE_H
#define HTW_REDIS_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "redismodule.h"

/* The longest id of a timeout. */
#define ID_MAX		1024

/**
 * struct timeout - a pending timeout
 * @queue: where it is
 * @due: in ms since 1970
 * @timer: of the clock; zero if it is not armed
 * @id_len: length of its id
 * @payload_len: length of its payload
 * @bytes: id and payload
 */
struct timeout {
	struct queue *queue;
	int64_t due;
	uint64_t timer;
	uint32_t id_len;
	uint32_t payload_len;
	char bytes[];
};

/**
 * struct queue - the value of a key: the pending timeouts of a stream
 * @by_id: the timeouts
 * @bytes: memory of the timeouts
 * @armed: how many are armed
 * @retry: after the stream has not taken an entry: when to try again, in ms since 1970
 * @next: next placed queue
 * @link: what points to this one; NULL if it is not placed
 * @db: database of the key
 * @key: name of the key
 * @stream: name of the stream; NULL if the queue is parked
 */
struct queue {
	RedisModuleDict *by_id;
	size_t bytes;
	uint64_t armed;
	int64_t retry;
	struct queue *next;
	struct queue **link;
	int db;
	RedisModuleString *key;
	RedisModuleString *stream;
};

/* What timeouts_status() counts. */
struct timeouts_status {
	uint64_t streams;	/* with pending timeouts */
	uint64_t pending;
	uint64_t armed;
	uint64_t parked;	/* in keys whose names are no stream's */
	uint64_t delivered;
	uint64_t failed;	/* attempts to deliver */
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

/*
 * Arm a timeout that is not armed, at its own time or another; later, if the clock is at its limit.
 * Return: false if so.
 */
bool timeout_retry(RedisModuleCtx *ctx, struct timeout *t, int64_t when);

/* Its timer has expired. */
void timeout_expired(struct timeout *t);

struct queue *queue_new(void);

/* Free a queue and its timeouts. In any thread, if it is not placed. */
void queue_free(void *value);

uint64_t queue_size(const struct queue *q);
struct timeout *queue_find(struct queue *q, const char *id, size_t id_len);

/* Insert a timeout. Return: false if its id is in use. */
bool queue_insert(struct queue *q, struct timeout *t);

/* Disarm, remove and free a timeout. */
void queue_remove(struct queue *q, struct timeout *t);

/* The queue in a key, which may be NULL or empty; or NULL. */
struct queue *queue_in(RedisModuleKey *key);

/* A queue has become the value of a key; its timeouts are armed by the next call that does so. */
void queue_place(struct queue *q, int db, const RedisModuleString *key);

/* It is not any more: disarm its timeouts. */
void queue_displace(struct queue *q);

/*
 * Arm all timeouts, as this server is a master and has loaded its data; or disarm them. What is
 * added later follows suit.
 */
void timeouts_set_active(RedisModuleCtx *ctx, bool active);

/* The keys of a database, or with -1 of all, are about to be deleted without further notice. */
void timeouts_flush(int db);

void timeouts_swap(int db, int other);

/* A value was put at @key of the selected database, other than by our commands or by loading. */
void timeouts_moved(RedisModuleCtx *ctx, RedisModuleString *key);

void timeouts_status(struct timeouts_status *status);

/* deliver.c: handle timeouts that are due, and count them. */
void deliver_init(void);
void deliver_status(struct timeouts_status *status);

/* type.c: create the data type. Return: REDISMODULE_OK or REDISMODULE_ERR. */
int type_init(RedisModuleCtx *ctx);
size_t queue_memory(const void *value);

/* commands.c: create the commands on timeouts, and reply to HTW.INFO stream [id]. */
int commands_init(RedisModuleCtx *ctx);
int commands_reply_info(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

#endif
