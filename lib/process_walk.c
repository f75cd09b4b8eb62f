// SPDX-License-Identifier: MIT
/* Timers in the process: looking at all timers, and ending all. See process.h. */
#include "process.h"

#include <limits.h>

/* What it takes more to see whether a timer was put off. */
#define LOOKS_PUT_OFF	1u
/* Chunks that are passed over for a look. */
#define CHUNKS_LOOK	4u

/* Timers in any state. */
#define ALL	(HTW_LIST_PENDING | HTW_LIST_DUE | HTW_LIST_DISARMED)

/* Could a chunk have timers in these states? */
static bool may_have(const struct chunk *c, unsigned int states)
{
	return (states & HTW_LIST_DISARMED && c->idle) ||
	       (states & (HTW_LIST_PENDING | HTW_LIST_DUE) && c->used > c->idle);
}

/* Is a slot a timer in one of these states of &enum htw_list_flag? */
static inline bool is_in(const struct process *p, const struct slot *t, u32 index,
			 unsigned int states, u64 now)
{
	const u32 state = (t->name ^ index) % CHUNK_SLOTS;

	if (likely(state == NAME_FREE))
		return false;
	if (state == NAME_IDLE)
		return states & HTW_LIST_DISARMED;
	return states & (state_of(p, t, now) == HTW_STATE_DUE ? HTW_LIST_DUE : HTW_LIST_PENDING);
}

/*
 * Go through the slots from @cursor on, while the lock is held.
 *
 * Return: whether the end was reached.
 */
static bool walk_some(struct process *p, unsigned int states, u64 *cursor,
		      struct htw_timer_info *entries, unsigned int count, bool take,
		      unsigned int *got)
{
	const u64 begin = max_t(u64, *cursor, (u64)p->first * CHUNK_SLOTS);
	u32 chunk = begin / CHUNK_SLOTS - p->first, i = begin % CHUNK_SLOTS;
	const u64 now = read_clock(p);
	unsigned int looks = PORTION;

	for (; chunk < p->nr_numbers && looks; chunk++, i = 0) {
		const struct chunk *c = p->chunks[chunk];
		struct slot *t = chunk_slots(p->chunks[chunk]);
		u32 fresh;

		if (!may_have(c, states)) {
			looks -= !(chunk % CHUNKS_LOOK);
			continue;
		}
		looks--;
		fresh = c->fresh;
		for (i = max(i, 1u); i < fresh; i++) {
			if (unlikely(*got == count || !looks))
				goto out;
			looks -= min(looks, 1 + (can_be_put_off(&t[i]) ? LOOKS_PUT_OFF : 0));
			if (!is_in(p, &t[i], i, states, now))
				continue;
			htw_fill_query(p, &t[i], now, &entries[(*got)++]);
			if (!take)
				continue;
			htw_end_timer(p, &t[i]);
			/* Without timers it may have been given back. */
			if (p->chunks[chunk] != c)
				break;
		}
	}
out:
	*cursor = (u64)(p->first + chunk) * CHUNK_SLOTS + i;
	return chunk >= p->nr_numbers;
}

static int walk(struct process *p, unsigned int states, u64 *cursor, struct htw_timer_info *entries,
		unsigned int count, bool take)
{
	unsigned int got = 0, looks = 0;
	bool end;

	if (*cursor > UINT32_MAX)
		return -EINVAL;
	count = min_t(unsigned int, count, INT_MAX);
	if (!count)
		return 0;
	process_lock(p);
	for (;;) {
		end = walk_some(p, states, cursor, entries, count, take, &got);
		looks += PORTION;
		if (end || got == count || looks >= HTW_LOOKS)
			break;
		give_way(p);
	}
	finish(p);
	process_unlock(p);

	return got || end ? (int)got : -EAGAIN;
}

int htw_process_list(struct htw *htw, unsigned int states, uint64_t *cursor,
		     struct htw_timer_info *entries, unsigned int count)
{
	if (states & ~ALL)
		return -EINVAL;
	return walk(process_of(htw), states ? states : ALL, cursor, entries, count, false);
}

int htw_process_harvest(struct htw *htw, uint64_t *cursor, struct htw_timer_info *entries,
			unsigned int count)
{
	return walk(process_of(htw), ALL, cursor, entries, count, true);
}

/* End timers of a chunk, from index @i on, while the lock is held. Return: how many. */
static unsigned int end_some(struct process *p, u32 chunk, u32 i)
{
	const struct chunk *c = p->chunks[chunk];
	const u32 end = min_t(u32, i + PORTION, c->fresh);
	struct slot *t = chunk_slots(p->chunks[chunk]);
	unsigned int ended = 0;

	/* Without timers it may have been given back. */
	for (; i < end && p->chunks[chunk] == c && c->used; i++) {
		if (!is_pending(&t[i]) && !is_idle(&t[i]))
			continue;
		htw_end_timer(p, &t[i]);
		ended++;
	}
	return ended;
}

int64_t htw_process_cancel_all(struct htw *htw)
{
	struct process *p = process_of(htw);
	int64_t ended = 0;
	u32 chunk, i;

	process_lock(p);

	for (chunk = 0; p->nr_timers && chunk < p->nr_numbers; chunk++) {
		for (i = 1; i < CHUNK_SLOTS; i += PORTION) {
			ended += end_some(p, chunk, i);
			give_way(p);
		}
	}
	finish(p);
	process_unlock(p);
	return ended;
}
