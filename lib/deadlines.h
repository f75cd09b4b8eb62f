/* SPDX-License-Identifier: MIT */
/*
 * Deadlines of timers that can be put off by a store
 *
 * A timer that is started with %HTW_F_PUT_OFF has an entry, at the index that
 * its id's lower half is: the id, and the time to which it was put off. When the
 * timer comes, the reader compares: htw_deadline_take(), then &htw_deadline.when.
 *
 * A store takes no lock, and must not reach the timer that uses the entry after
 * a stop. So a tag counts, in its last bits, the stores on their way: a store
 * adds one, sees in the same step whether the id is the one it wants, writes the
 * time, and takes the one back. An entry with a store on its way is not given to
 * another timer: htw_deadline_start() fails, and the caller uses another slot.
 * Nobody waits. (tools/models/put_off.pml)
 *
 * The tag of an entry that belongs to no timer is zero, but for those last bits.
 * That of a timer is its id inverted, because the device's first ids are 1, 2,
 * 3, ....
 *
 * In a child of fork() all entries are zero (MADV_WIPEONFORK): stores find no
 * timer there, and htw_put_off() then returns -EPERM.
 *
 * Entries are in blocks, which stay where they are until the handle is closed,
 * as a store may look at any. All but the stores is called with the lock of the
 * handle held, or before others know the id.
 */
#ifndef LIBHTW_DEADLINES_H
#define LIBHTW_DEADLINES_H

#include "internal.h"

#define HTW_DEADLINE_BLOCK	1024u

void htw_deadlines_init(struct htw *htw);
struct htw_deadline *htw_deadlines_reach(struct htw *htw, u32 first, u64 id);
void htw_deadlines_drop(struct htw *htw, u32 number);
void htw_deadlines_free(struct htw *htw);

static inline u64 htw_deadline_tag(u64 id)
{
	return ~id & ~(u64)(HTW_DEADLINE_BLOCK - 1);
}

/* Whether an entry with this tag belongs to the timer. */
static inline bool htw_deadline_is_tag_of(u64 tag, u64 id)
{
	return (tag & ~(u64)(HTW_DEADLINE_BLOCK - 1)) == htw_deadline_tag(id);
}

/* The entry at the index of an id, whosever it is; NULL if there is none. */
static inline struct htw_deadline *htw_deadline_at(const struct htw *htw, u64 id)
{
	const struct htw_deadlines *d = __atomic_load_n(&htw->deadlines, __ATOMIC_ACQUIRE);
	const u32 number = (u32)id / HTW_DEADLINE_BLOCK - d->first;

	if (number >= d->count)
		return NULL;
	return &__atomic_load_n(&d->blocks[number], __ATOMIC_ACQUIRE)[id % HTW_DEADLINE_BLOCK];
}

/* The entry of a timer that can be put off, or NULL. */
static inline struct htw_deadline *htw_deadline_of(const struct htw *htw, u64 id)
{
	struct htw_deadline *to = htw_deadline_at(htw, id);

	return to && htw_deadline_is_tag_of(__atomic_load_n(&to->tag, __ATOMIC_RELAXED), id) ?
		to : NULL;
}

/*
 * Give a timer the entry, whose block exists. Return: false if a store for an
 * earlier timer is on its way.
 */
static inline bool htw_deadline_start(struct htw_deadline *to, u64 id)
{
	u64 none = 0;

	if (!__atomic_compare_exchange_n(&to->tag, &none, htw_deadline_tag(id), false,
					 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return false;
	__atomic_store_n(&to->when, 0, __ATOMIC_RELAXED);
	return true;
}

/* htw_put_off(), as htw_put_off_inline(). Return: false if the entry is not that timer's. */
static inline bool htw_deadline_store(struct htw_deadline *to, u64 id, u64 when)
{
	const bool found = htw_deadline_is_tag_of(__atomic_fetch_add(&to->tag, 1, __ATOMIC_ACQUIRE),
						  id);

	if (found)
		__atomic_store_n(&to->when, when, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&to->tag, 1, __ATOMIC_RELEASE);
	return found;
}

/* Take the entry from the timer that it belongs to, whichever. Return: whether there was one. */
static inline bool htw_deadline_clear(struct htw_deadline *to)
{
	u64 tag = __atomic_load_n(&to->tag, __ATOMIC_RELAXED);

	tag &= ~(u64)(HTW_DEADLINE_BLOCK - 1);
	if (tag)
		__atomic_fetch_sub(&to->tag, tag, __ATOMIC_ACQUIRE);
	return tag;
}

/* Take the entry from a timer that ends. A store for it may be on its way. */
static inline void htw_deadline_end(struct htw_deadline *to, u64 id)
{
	__atomic_fetch_sub(&to->tag, htw_deadline_tag(id), __ATOMIC_ACQUIRE);
}

/* Looks at an entry, until no store is on its way: more than a store takes. */
#define HTW_DEADLINE_LOOKS	200

/*
 * Take the entry from a timer that may be due. Return: false, and nothing
 * has changed, if a store is on its way, for whichever timer.
 */
static inline bool htw_deadline_take(struct htw_deadline *to, u64 id)
{
	unsigned int looks;

	for (looks = 0; looks < HTW_DEADLINE_LOOKS; looks++) {
		u64 tag = htw_deadline_tag(id);

		if (__atomic_compare_exchange_n(&to->tag, &tag, 0, false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return true;
	}
	return false;
}

/* Give it back to the timer from which it was taken. */
static inline void htw_deadline_keep(struct htw_deadline *to, u64 id)
{
	__atomic_fetch_add(&to->tag, htw_deadline_tag(id), __ATOMIC_RELEASE);
}

/* The deadline of a timer that was started or re-armed for @deadline. */
static inline u64 htw_deadline_later(const struct htw_deadline *to, u64 deadline)
{
	return max(__atomic_load_n(&to->when, __ATOMIC_RELAXED), deadline);
}

/* Forget that the timer was put off. */
static inline void htw_deadline_forget(struct htw_deadline *to)
{
	__atomic_store_n(&to->when, 0, __ATOMIC_RELAXED);
}

#endif /* LIBHTW_DEADLINES_H */
