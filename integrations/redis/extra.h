/* SPDX-License-Identifier: MIT */
/*
 * What some timeouts have besides their payload: fields, repetition, and ids that are kept
 *
 * All functions are called by the server's main thread, but for extras_free().
 */
#ifndef HTW_REDIS_EXTRA_H
#define HTW_REDIS_EXTRA_H

#include "queue.h"

/**
 * struct extra - of a timeout
 * @every: it is due again each so many ms; zero if only once
 * @once: for how many ms its id is kept when it has been delivered
 * @is_kept: it has been delivered, and only its id is kept until it is due
 * @fields: names and values, each with its length as 32 bits before it
 * @fields_len: bytes of @fields
 */
struct extra {
	int64_t every;
	int64_t once;
	bool is_kept;
	char *fields;
	size_t fields_len;
};

/* The options of a command that adds a timeout. */
struct extra_options {
	RedisModuleString *id;		/* NULL if there is none */
	bool replace;
	struct extra extra;
};

/*
 * Parse options; free the fields with extra_drop(), also after an error, unless they are handed to
 * extra_set().
 *
 * @used: NULL if all words are options, and FIELDS takes the rest; if others may follow, as those
 *	of the next timeout, then FIELDS has a count, and this is out: how many words were options
 *
 * Return: NULL or an error.
 */
const char *extra_parse(RedisModuleString **argv, int argc, struct extra_options *options,
			int *used);
void extra_drop(struct extra *e);

/* What a timeout has besides its payload; NULL if nothing. */
const struct extra *extra_of(const struct timeout *t);

/* Is the timeout only an id that is kept? */
bool extra_is_kept(const struct timeout *t);

/* Is it one whose time is over, though its timer has not expired yet? The id is free. */
bool extra_is_free(const struct timeout *t);

/* Give a timeout of a queue what is in @e, and take over its fields; or nothing, if that is all. */
void extra_set(struct timeout *t, const struct extra *e);

/* A timeout leaves its queue. */
void extra_remove(const struct timeout *t);

/* Names and values for an entry; the context's. Return: how many. */
size_t extra_fields(RedisModuleCtx *ctx, const struct extra *e, RedisModuleString ***fields);

/* The options that make a timeout what it is, its id as the first. Return: how many words. */
#define EXTRA_ID_WORDS	2
size_t extra_words(RedisModuleCtx *ctx, const struct timeout *t, RedisModuleString ***words);

/* All of a queue's. */
size_t extras_memory(const struct queue *q);
void extras_free(struct queue *q);
void extras_copy(struct queue *to, const struct queue *from);
void extras_digest(RedisModuleDigest *digest, const struct queue *q);
void extras_save(RedisModuleIO *io, const struct queue *q);
bool extras_load(RedisModuleIO *io, struct queue *q);

#endif
