/* SPDX-License-Identifier: MIT */
/*
 * Leases: until when a group leaves an entry of the stream to the worker that took it
 *
 * All functions are called by the server's main thread, but for leases_free().
 */
#ifndef HTW_REDIS_LEASE_H
#define HTW_REDIS_LEASE_H

#include "queue.h"

/* Of the text of a failure the rest is cut. */
#define LEASE_ERROR_MAX	1024

/* Numbers are those of files. */
enum lease_state {
	LEASE_TAKEN,	/* a worker has it */
	LEASE_FAILED,	/* it waits to be tried again; nobody works on it */
	LEASE_DEAD,	/* it was given up, and the dead jobs could not be appended to */
};

/* The words for them, in commands and replies. */
#define LEASE_STATES	3
extern const char *const lease_words[LEASE_STATES];

/**
 * struct lease - of an entry that a group has delivered
 * @group: whose
 * @entry: the entry's id
 * @deadline: in ms since 1970; when it comes again
 * @timer: of the clock, zero if it is not armed
 * @next: next of those that have ended
 * @link: what points to this one; NULL if it has not ended, or nobody has noticed
 * @error: what the last failure said, behind its length; NULL if nothing
 * @attempts: how often the entry had been taken when the lease was set
 * @state: what it is for
 */
struct lease {
	struct lease_group *group;
	RedisModuleStreamID entry;
	int64_t deadline;
	uint64_t timer;
	struct lease *next;
	struct lease **link;
	char *error;
	uint32_t attempts;
	enum lease_state state;
};

/* What a lease is set to. */
struct lease_terms {
	int64_t deadline;
	uint32_t attempts;
	enum lease_state state;
	const char *error;
	size_t error_len;
};

/* Return: the lease of an entry; NULL if there is none. */
struct lease *lease_find(struct queue *q, RedisModuleString *group,
			 const RedisModuleStreamID *entry);

/* Make a lease, or give it new terms; it is armed as the queue is. */
struct lease *lease_set(RedisModuleCtx *ctx, struct queue *q, RedisModuleString *group,
			const RedisModuleStreamID *entry, const struct lease_terms *terms);

/* Stop and free a lease. */
void lease_remove(struct lease *l);

/* Start its timer. Return: false if the clock is at its limit. */
bool lease_arm(struct lease *l, int64_t at);

/* Its timer has expired. */
void lease_expired(struct lease *l);

/* It goes to the end of those that have ended. */
void lease_enter_ended(struct lease *l);

/* What a lease is set to now; the error is the lease's. */
struct lease_terms lease_terms(const struct lease *l);

/* Return: the text of the last failure, which is not terminated. */
const char *lease_error(const struct lease *l, size_t *len);

struct queue *lease_queue(const struct lease *l);
RedisModuleString *lease_group_name(RedisModuleCtx *ctx, const struct lease *l);

/* The first of a group whose lease has ended, or NULL. */
struct lease *lease_first_ended(struct queue *q, RedisModuleString *group);

/*
 * Go through the leases of a group by entry, from the first after @after on, or from the first of
 * all. The queue stays as it is meanwhile. Return: an iterator for lease_next(), or NULL.
 */
RedisModuleDictIter *lease_start(struct queue *q, RedisModuleString *group,
				 const RedisModuleStreamID *after);
struct lease *lease_next(RedisModuleDictIter *i);

/* All of a queue's. */
uint64_t leases_count(const struct queue *q);
uint64_t leases_ended(const struct queue *q);
uint64_t leases_failed(const struct queue *q);
size_t leases_memory(const struct queue *q);

/* Arm those that are not. Return: false if the clock is at its limit. */
bool leases_arm(struct queue *q);
void leases_disarm(struct queue *q);

/* Stop and free some of a queue that is gone. Return: false if there were none. */
bool leases_end_some(struct queue *q);
void leases_free(struct queue *q);

/* For the data type. */
void leases_copy(struct queue *to, const struct queue *from);
void leases_digest(RedisModuleDigest *digest, const struct queue *q);
void leases_save(RedisModuleIO *io, const struct queue *q);
bool leases_load(RedisModuleIO *io, struct queue *q);
void leases_rewrite(RedisModuleIO *io, RedisModuleString *stream, const struct queue *q);

/* take.c: handle leases that end, and create the commands for workers. */
int take_init(RedisModuleCtx *ctx);

/* Is an entry in the stream, not deleted or trimmed? The group may have it all the same. */
bool take_is_there(RedisModuleCtx *ctx, RedisModuleString *stream,
		   const RedisModuleStreamID *entry);

/* What HTW.INFO says of a stream and its dead jobs, by the name of its queue. */
#define TAKE_PAIRS	3
void take_reply_info(RedisModuleCtx *ctx, RedisModuleString *stream, RedisModuleString *queue);

#endif
