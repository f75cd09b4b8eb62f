// SPDX-License-Identifier: MIT
/*
 * Leases: until when a group leaves an entry of the stream to the worker that took it
 *
 * The group itself, with who has what and how often it was delivered, is the server's. A lease adds
 * the deadline, as a timer of the clock, and the text of the last failure. It is kept until the
 * entry is done, and may outlast the entry or the group: take.c asks the server about them when the
 * lease ends.
 *
 * A lease of a placed queue is armed while this server is active. One whose timer has expired is
 * put at the end of the list of those that ended, for the next worker. The list is not in files:
 * the timers of what is loaded with a deadline that is over expire at once.
 */
#include "lease.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

/* What libhtw and the dictionary take for a lease besides its own memory; the latter roughly. */
#define TIMER_BYTES	64
#define ENTRY_BYTES	48

const char *const lease_words[LEASE_STATES] = {
	[LEASE_TAKEN] = "leased",
	[LEASE_FAILED] = "failed",
	[LEASE_DEAD] = "dead",
};

/* Leases by the name of their group. */
struct leases {
	RedisModuleDict *groups;
	uint64_t count;
	uint64_t armed;
	uint64_t ended;
	uint64_t failed;
	size_t bytes;
};

/**
 * struct lease_group - the leases of a group
 * @queue: where it is
 * @by_entry: the leases, by the bytes of their entry's id, most significant first
 * @ended: the first of those that have ended
 * @last: what points to the next to end
 * @name_len: length of its name
 * @name: as the server has it
 */
struct lease_group {
	struct queue *queue;
	RedisModuleDict *by_entry;
	struct lease *ended;
	struct lease **last;
	size_t name_len;
	char name[];
};

struct entry_key {
	uint64_t ms;
	uint64_t seq;
};

static struct entry_key key_of(const RedisModuleStreamID *entry)
{
	return (struct entry_key){ htobe64(entry->ms), htobe64(entry->seq) };
}

/* Groups. */

static struct lease_group *find_group(const struct queue *q, const char *name, size_t len)
{
	return q->leases ? RedisModule_DictGetC(q->leases->groups, (void *)name, len, NULL) : NULL;
}

static struct lease_group *find_group_of(const struct queue *q, RedisModuleString *group)
{
	size_t len;
	const char *name = RedisModule_StringPtrLen(group, &len);

	return find_group(q, name, len);
}

static struct lease_group *make_group(struct queue *q, const char *name, size_t len)
{
	struct lease_group *g = find_group(q, name, len);

	if (g)
		return g;
	if (!q->leases) {
		q->leases = RedisModule_Calloc(1, sizeof(*q->leases));
		q->leases->groups = RedisModule_CreateDict(NULL);
	}
	g = RedisModule_Calloc(1, sizeof(*g) + len);
	g->queue = q;
	g->by_entry = RedisModule_CreateDict(NULL);
	g->last = &g->ended;
	g->name_len = len;
	memcpy(g->name, name, len);
	RedisModule_DictSetC(q->leases->groups, g->name, len, g);
	q->leases->bytes += RedisModule_MallocSize(g);
	return g;
}

static void free_group(struct lease_group *g)
{
	RedisModule_FreeDict(NULL, g->by_entry);
	RedisModule_Free(g);
}

/* The last lease of a group has gone, perhaps that of the queue. */
static void drop_group(struct lease_group *g)
{
	struct queue *q = g->queue;

	q->leases->bytes -= RedisModule_MallocSize(g);
	RedisModule_DictDelC(q->leases->groups, g->name, g->name_len, NULL);
	free_group(g);
	if (RedisModule_DictSize(q->leases->groups))
		return;
	RedisModule_FreeDict(NULL, q->leases->groups);
	RedisModule_Free(q->leases);
	q->leases = NULL;
}

/* Timers. */

static void leave_ended(struct lease *l)
{
	if (!l->link)
		return;
	*l->link = l->next;
	if (l->next)
		l->next->link = l->link;
	else
		l->group->last = l->link;
	l->link = NULL;
	l->group->queue->leases->ended--;
}

void lease_enter_ended(struct lease *l)
{
	struct lease_group *g = l->group;

	l->next = NULL;
	l->link = g->last;
	*g->last = l;
	g->last = &l->next;
	g->queue->leases->ended++;
}

static void disarm(struct lease *l)
{
	leave_ended(l);
	if (l->timer)
		l->group->queue->leases->armed--;
	clock_stop(&l->timer);
}

bool lease_arm(struct lease *l, int64_t at)
{
	if (clock_start(CLOCK_LEASE, l, at, &l->timer))
		return false;
	l->group->queue->leases->armed++;
	return true;
}

void lease_expired(struct lease *l)
{
	l->timer = 0;
	l->group->queue->leases->armed--;
}

/* Leases. */

static void set_error(struct lease *l, const char *error, size_t len)
{
	struct leases *all = l->group->queue->leases;

	if (l->error) {
		all->bytes -= RedisModule_MallocSize(l->error);
		RedisModule_Free(l->error);
		l->error = NULL;
	}
	if (!len)
		return;
	if (len > LEASE_ERROR_MAX)
		len = LEASE_ERROR_MAX;
	l->error = RedisModule_Alloc(sizeof(size_t) + len);
	memcpy(l->error, &len, sizeof(len));
	memcpy(l->error + sizeof(len), error, len);
	all->bytes += RedisModule_MallocSize(l->error);
}

const char *lease_error(const struct lease *l, size_t *len)
{
	*len = 0;
	if (!l->error)
		return "";
	memcpy(len, l->error, sizeof(*len));
	return l->error + sizeof(*len);
}

static struct lease *insert(struct lease_group *g, const RedisModuleStreamID *entry)
{
	struct entry_key key = key_of(entry);
	struct lease *l = RedisModule_DictGetC(g->by_entry, &key, sizeof(key), NULL);

	if (l)
		return l;
	l = RedisModule_Calloc(1, sizeof(*l));
	l->group = g;
	l->entry = *entry;
	RedisModule_DictSetC(g->by_entry, &key, sizeof(key), l);
	g->queue->leases->count++;
	g->queue->leases->bytes += RedisModule_MallocSize(l);
	return l;
}

static void set_state(struct lease *l, enum lease_state state)
{
	l->group->queue->leases->failed += (state != LEASE_TAKEN) - (l->state != LEASE_TAKEN);
	l->state = state;
}

static void set_terms(struct lease *l, const struct lease_terms *terms)
{
	const char *old;
	size_t len;

	l->deadline = terms->deadline;
	l->attempts = terms->attempts;
	set_state(l, terms->state);
	old = lease_error(l, &len);
	if (len != terms->error_len || (len && memcmp(old, terms->error, len)))
		set_error(l, terms->error, terms->error_len);
}

struct lease *lease_find(struct queue *q, RedisModuleString *group,
			 const RedisModuleStreamID *entry)
{
	struct lease_group *g = q ? find_group_of(q, group) : NULL;
	struct entry_key key = key_of(entry);

	return g ? RedisModule_DictGetC(g->by_entry, &key, sizeof(key), NULL) : NULL;
}

struct lease *lease_set(RedisModuleCtx *ctx, struct queue *q, RedisModuleString *group,
			const RedisModuleStreamID *entry, const struct lease_terms *terms)
{
	size_t len;
	const char *name = RedisModule_StringPtrLen(group, &len);
	struct lease *l = insert(make_group(q, name, len), entry);

	disarm(l);
	set_terms(l, terms);
	if (queue_is_active(q) && !lease_arm(l, l->deadline))
		timeouts_rearm_later(ctx);
	return l;
}

void lease_remove(struct lease *l)
{
	struct lease_group *g = l->group;
	struct entry_key key = key_of(&l->entry);

	disarm(l);
	set_state(l, LEASE_TAKEN);
	set_error(l, NULL, 0);
	RedisModule_DictDelC(g->by_entry, &key, sizeof(key), NULL);
	g->queue->leases->count--;
	g->queue->leases->bytes -= RedisModule_MallocSize(l);
	RedisModule_Free(l);
	if (!RedisModule_DictSize(g->by_entry))
		drop_group(g);
}

struct queue *lease_queue(const struct lease *l)
{
	return l->group->queue;
}

RedisModuleString *lease_group_name(RedisModuleCtx *ctx, const struct lease *l)
{
	return RedisModule_CreateString(ctx, l->group->name, l->group->name_len);
}

struct lease *lease_first_ended(struct queue *q, RedisModuleString *group)
{
	struct lease_group *g = q ? find_group_of(q, group) : NULL;

	return g ? g->ended : NULL;
}

RedisModuleDictIter *lease_start(struct queue *q, RedisModuleString *group,
				 const RedisModuleStreamID *after)
{
	struct lease_group *g = q ? find_group_of(q, group) : NULL;
	struct entry_key key;

	if (!g)
		return NULL;
	if (!after)
		return RedisModule_DictIteratorStartC(g->by_entry, "^", NULL, 0);
	key = key_of(after);
	return RedisModule_DictIteratorStartC(g->by_entry, ">", &key, sizeof(key));
}

struct lease *lease_next(RedisModuleDictIter *i)
{
	struct lease *l = NULL;

	RedisModule_DictNextC(i, NULL, (void **)&l);
	return l;
}

/* All of a queue's. */

/* Go through groups or leases, of which none is added or removed meanwhile. */
#define for_each_in(what, dictionary, iterator)							\
	for (iterator = RedisModule_DictIteratorStartC(dictionary, "^", NULL, 0);		\
	     RedisModule_DictNextC(iterator, NULL, (void **)&(what)) ||				\
	     (RedisModule_DictIteratorStop(iterator), false);)

/* Likewise, through all leases of a queue that has some, each with its group. */
#define for_each_lease(l, g, q, i, j)								\
	for_each_in(g, (q)->leases->groups, i)							\
		for_each_in(l, (g)->by_entry, j)

uint64_t leases_count(const struct queue *q)
{
	return q->leases ? q->leases->count : 0;
}

uint64_t leases_ended(const struct queue *q)
{
	return q->leases ? q->leases->ended : 0;
}

uint64_t leases_failed(const struct queue *q)
{
	return q->leases ? q->leases->failed : 0;
}

size_t leases_memory(const struct queue *q)
{
	const struct leases *all = q->leases;

	return all ? sizeof(*all) + all->bytes + all->count * (TIMER_BYTES + ENTRY_BYTES) : 0;
}

static int compare(const void *first, const void *second)
{
	const struct lease *a = *(struct lease *const *)first, *b = *(struct lease *const *)second;
	const struct entry_key of_a = key_of(&a->entry), of_b = key_of(&b->entry);

	if (a->deadline != b->deadline)
		return a->deadline < b->deadline ? -1 : 1;
	return memcmp(&of_a, &of_b, sizeof(of_a));
}

bool leases_arm(struct queue *q)
{
	RedisModuleDictIter *i, *j;
	struct lease_group *g;
	struct lease *l, **all;
	size_t count = 0, n;
	bool ok = true;

	if (!q->leases || q->leases->armed + q->leases->ended == q->leases->count)
		return true;
	all = RedisModule_Alloc(q->leases->count * sizeof(*all));
	for_each_lease(l, g, q, i, j)
		if (!l->timer && !l->link)
			all[count++] = l;
	/* What is over ends at once, in the order in which it is started. */
	qsort(all, count, sizeof(*all), compare);
	for (n = 0; ok && n < count; n++)
		ok = lease_arm(all[n], all[n]->deadline);
	RedisModule_Free(all);
	return ok;
}

void leases_disarm(struct queue *q)
{
	RedisModuleDictIter *i, *j;
	struct lease_group *g;
	struct lease *l;

	if (!q->leases || !(q->leases->armed + q->leases->ended))
		return;
	for_each_lease(l, g, q, i, j)
		disarm(l);
}

bool leases_end_some(struct queue *q)
{
	struct lease_group *g;
	struct lease *l;
	RedisModuleDictIter *i;
	unsigned int n;

	for (n = 0; q->leases && n < CLOCK_MANY; n++) {
		i = RedisModule_DictIteratorStartC(q->leases->groups, "^", NULL, 0);
		RedisModule_DictNextC(i, NULL, (void **)&g);
		RedisModule_DictIteratorStop(i);
		i = RedisModule_DictIteratorStartC(g->by_entry, "^", NULL, 0);
		RedisModule_DictNextC(i, NULL, (void **)&l);
		RedisModule_DictIteratorStop(i);
		/* With the last one all leases go. */
		lease_remove(l);
	}
	return n;
}

void leases_free(struct queue *q)
{
	RedisModuleDictIter *i, *j;
	struct lease_group *g;
	struct lease *l;

	if (!q->leases)
		return;
	for_each_in(g, q->leases->groups, i) {
		for_each_in(l, g->by_entry, j) {
			RedisModule_Free(l->error);
			RedisModule_Free(l);
		}
		free_group(g);
	}
	RedisModule_FreeDict(NULL, q->leases->groups);
	RedisModule_Free(q->leases);
	q->leases = NULL;
}

/* For the data type. */

struct lease_terms lease_terms(const struct lease *l)
{
	struct lease_terms terms = {
		.deadline = l->deadline, .attempts = l->attempts, .state = l->state,
	};

	terms.error = lease_error(l, &terms.error_len);
	return terms;
}

void leases_copy(struct queue *to, const struct queue *from)
{
	RedisModuleDictIter *i, *j;
	struct lease_group *g;
	struct lease *l;

	if (!from->leases)
		return;
	for_each_lease(l, g, from, i, j) {
		const struct lease_terms terms = lease_terms(l);

		set_terms(insert(make_group(to, g->name, g->name_len), &l->entry), &terms);
	}
}

void leases_digest(RedisModuleDigest *digest, const struct queue *q)
{
	RedisModuleDictIter *i, *j;
	struct lease_group *g;
	struct lease *l;

	if (!q->leases)
		return;
	for_each_lease(l, g, q, i, j) {
		const struct lease_terms terms = lease_terms(l);

		RedisModule_DigestAddStringBuffer(digest, g->name, g->name_len);
		RedisModule_DigestAddLongLong(digest, l->entry.ms);
		RedisModule_DigestAddLongLong(digest, l->entry.seq);
		RedisModule_DigestAddLongLong(digest, terms.deadline);
		RedisModule_DigestAddLongLong(digest, terms.attempts);
		RedisModule_DigestAddLongLong(digest, terms.state);
		RedisModule_DigestAddStringBuffer(digest, terms.error, terms.error_len);
		RedisModule_DigestEndSequence(digest);
	}
}

void leases_save(RedisModuleIO *io, const struct queue *q)
{
	RedisModuleDictIter *i, *j;
	struct lease_group *g;
	struct lease *l;

	RedisModule_SaveUnsigned(io, q->leases ? RedisModule_DictSize(q->leases->groups) : 0);
	if (!q->leases)
		return;
	for_each_in(g, q->leases->groups, i) {
		RedisModule_SaveStringBuffer(io, g->name, g->name_len);
		RedisModule_SaveUnsigned(io, RedisModule_DictSize(g->by_entry));
		for_each_in(l, g->by_entry, j) {
			const struct lease_terms terms = lease_terms(l);

			RedisModule_SaveUnsigned(io, l->entry.ms);
			RedisModule_SaveUnsigned(io, l->entry.seq);
			RedisModule_SaveSigned(io, terms.deadline);
			RedisModule_SaveUnsigned(io, terms.attempts);
			RedisModule_SaveUnsigned(io, terms.state);
			RedisModule_SaveStringBuffer(io, terms.error, terms.error_len);
		}
	}
}

/* Return: false if the input ends or is not what leases_save() writes. */
static bool load_lease(RedisModuleIO *io, struct lease_group *g)
{
	struct lease_terms terms;
	RedisModuleStreamID entry;
	uint64_t attempts, state;
	char *error;
	bool ok;

	entry.ms = RedisModule_LoadUnsigned(io);
	entry.seq = RedisModule_LoadUnsigned(io);
	terms.deadline = RedisModule_LoadSigned(io);
	attempts = RedisModule_LoadUnsigned(io);
	state = RedisModule_LoadUnsigned(io);
	error = RedisModule_IsIOError(io) ? NULL :
		RedisModule_LoadStringBuffer(io, &terms.error_len);
	if (!error)
		return false;
	ok = attempts <= UINT32_MAX && terms.error_len <= LEASE_ERROR_MAX && terms.deadline >= 0 &&
	     terms.deadline <= CLOCK_MAX_MS && state < LEASE_STATES;
	terms.attempts = attempts;
	terms.state = state;
	terms.error = error;
	if (ok)
		set_terms(insert(g, &entry), &terms);
	RedisModule_Free(error);
	return ok;
}

bool leases_load(RedisModuleIO *io, struct queue *q)
{
	uint64_t groups = RedisModule_LoadUnsigned(io);

	while (!RedisModule_IsIOError(io) && groups--) {
		struct lease_group *g;
		uint64_t count;
		size_t len;
		char *name = RedisModule_LoadStringBuffer(io, &len);

		if (!name)
			return false;
		count = RedisModule_LoadUnsigned(io);
		if (RedisModule_IsIOError(io) || !count) {
			RedisModule_Free(name);
			return false;
		}
		g = make_group(q, name, len);
		RedisModule_Free(name);
		while (count--)
			if (!load_lease(io, g))
				return false;
	}
	return !RedisModule_IsIOError(io);
}

void leases_rewrite(RedisModuleIO *io, RedisModuleString *stream, const struct queue *q)
{
	RedisModuleDictIter *i, *j;
	struct lease_group *g;
	struct lease *l;

	if (!q->leases)
		return;
	for_each_lease(l, g, q, i, j) {
		const struct lease_terms terms = lease_terms(l);
		RedisModuleString *entry =
			RedisModule_CreateStringFromStreamID(NULL, &l->entry);

		RedisModule_EmitAOF(io, "HTW.LEASE", "sbllcbs", stream,
				    g->name, g->name_len, (long long)terms.deadline,
				    (long long)terms.attempts,
				    lease_words[terms.state], terms.error, terms.error_len,
				    entry);
		RedisModule_FreeString(NULL, entry);
	}
}
