/* SPDX-License-Identifier: MIT */
/*
 * Timers in the process: htw_wheel.c, paced by one timerfd
 *
 *	process.c		the handle and its shards
 *	process_slots.c		memory of timers
 *	process_timers.c	operations on timers
 *	process_read.c		expiring, reading and waiting
 *	process_walk.c		looking at all timers, and ending all
 *
 * A timer is a slot of 64 bytes in a chunk of 1,024, of which the first is the
 * chunk's header. An id leads to its slot by arithmetic:
 *
 *	bits	63 .. 44	43 .. 32	31 .. 10	9 .. 0
 *		generation	handle		chunk		index
 *
 * The name of a slot is, depending on the timer's state:
 *
 *	state		name		deadline, cookie	on a list
 *	pending		the id		valid			of the wheel
 *	idle (kept)	id ^ NAME_IDLE	valid			none
 *	free		next id ^ NAME_FREE			free slots of the chunk
 *	retired		as free, of generation 0		none
 *
 * The index in the name of a slot that is not pending is another one's, so no
 * number that leads to a slot equals its name unless that timer is pending: one
 * comparison is the whole check. When a timer ends, the generation in its slot
 * is incremented; a slot whose generations have run out is retired.
 *
 * A timer is pending until its event is read, and nothing expires in the
 * background. So only a read, a wait, and advancing a manual clock bring the
 * wheel up to the present; they take it in portions, and let others have the
 * lock in between.
 *
 * The wheel has levels only after the handle has held more timers than the
 * wheel's sorted list: most handles never do, and levels take more memory than
 * all that those have. Levels stay until the handle is closed: a handle that
 * holds many timers at times would else make and free them each time, for a
 * quarter of what a chunk takes, of which one stays as well. Without memory for
 * them the wheel goes on as it is.
 *
 * The timerfd is reprogrammed when the wheel has work earlier than programmed,
 * and when a read has left nothing behind. Stopping a timer leaves it as it is,
 * so it may wake the program once without an event.
 *
 * A shard is a handle of its own, with chunks, wheel, timerfd and lock. Only the
 * manual clock is common to the handles of a family. A call with an id of
 * another shard takes the lock of the family, and then that shard's.
 */
#ifndef LIBHTW_PROCESS_H
#define LIBHTW_PROCESS_H

#include "deadlines.h"
#include "lock.h"

#include <linux/bitops.h>
#include <linux/prefetch.h>

#include "../htw_wheel.h"

#define ID_GENERATION		(1ULL << 44)
#define ID_HANDLE_SHIFT		32
#define HANDLES			4096u	/* 0 and 4095 are not used: no id is zero or an error's */
#define CHUNK_SLOTS		1024u
#define CHUNK_BYTES		((size_t)CHUNK_SLOTS * sizeof(struct slot))
#define CHUNK_NUMBERS		(1u << 22)

#define NAME_IDLE		1u
#define NAME_FREE		2u
/*
 * The name of what is no slot has another index, and a chunk that there is: so
 * no number that leads there equals it.
 */
#define NAME_NOWHERE(p)		((u64)(p)->first * CHUNK_SLOTS + 5)

/*
 * Timers that are looked at while the lock is held; a call looks at %HTW_LOOKS
 * in all
 */
#define PORTION			512u
#define PORTION_MANUAL		64u	/* by each call on a manual clock */
#define PORTION_PUT_OFF		3u	/* more, to start a timer again that was put off */

/* Most timers in a handle whose wheel does as well without levels: its sorted list has as many. */
#define FEW_TIMERS		63u
/* Attempts to start timers before memory for levels is asked for again. */
#define LEVELS_RETRY		1000u

/*
 * Bits of &slot.slack: the timer is not over when it expires, as it is kept or
 * can be put off; above it the slack, from htw_arith_encode_slack().
 */
#define SLOT_STAYS		(1u << 0)
#define SLACK_SHIFT		1

/**
 * struct slot - a timer
 * @node: the wheel's part
 * @name: says what the slot is
 * @deadline: when it expires, in ns
 * @cookie: the program's
 * @interval: in ns, zero for a one-shot timer
 * @firings: how many are left, zero for no limit. Without an interval: one if the
 *	timer can be put off, else zero
 * @slack: flag and slack
 */
struct slot {
	struct htw_node node;
	u64 name;
	u64 deadline;
	u64 cookie;
	u64 interval;
	u32 firings;
	u32 slack;
} __attribute__((aligned(64)));

_Static_assert(sizeof(struct slot) == 64, "a timer has 64 bytes");

/**
 * struct chunk - the header of a chunk, in the place of its first slot
 * @node: its list is &process.open or &process.spare if @listed
 * @name: never that of an id
 * @free: free slots, linked by node.list.next alone
 * @number: its number, and bits 10 to 31 of the ids
 * @used: timers in it
 * @generation: with which its slots begin
 * @fresh: index of the first slot that has never been used; %CHUNK_SLOTS if all
 *	have
 * @idle: timers in it that are idle
 * @listed: on a list
 * @populated: its pages are there, by htw_reserve()
 */
struct chunk {
	struct htw_node node;
	u64 name;
	struct slot *free;
	u32 number;
	u32 used;
	u32 generation;
	u16 fresh;
	u16 idle;
	bool listed;
	bool populated;
};

_Static_assert(sizeof(struct chunk) <= sizeof(struct slot), "a header takes a slot's place");
_Static_assert(offsetof(struct chunk, name) == offsetof(struct slot, name), "each has its name");

/**
 * struct number - a chunk's number without a chunk
 * @next: the next one that is free, or zero
 * @generation: with which the next chunk of this number begins
 */
struct number {
	u32 next;
	u32 generation;
};

struct process;

/**
 * struct family - a handle from htw_open() and its shards
 * @lock: guards the fields, and keeps shards from being closed. Comes before
 *	the lock of a shard
 * @head: the handle from htw_open()
 * @shards: by their handle's number; NULL until there are some
 * @manual_ns: the time of the manual clock; changed with the lock of each shard
 *	held in turn
 */
struct family {
	struct htw_lock lock;
	struct process *head;
	struct process **shards;
	u64 manual_ns;
};

/**
 * struct process - a handle
 * @htw: the part common to all backends
 * @number: which handle it is: bits 32 to 43 of the ids
 * @first: number of its first chunk
 * @nr_numbers: number of chunks' numbers that have been used, from @first on
 * @size: entries of @chunks and @numbers
 * @chunks: by their number, less @first; %no_chunk where there is none
 * @numbers: of those without a chunk
 * @free_number: the first free one, less @first, plus one; or zero
 * @from: where timers are started; full if there is no better one
 * @open: chunks with free slots
 * @spare: chunks without timers
 * @nr_chunks: number of chunks
 * @nr_spare: number of chunks on @spare
 * @reserved: chunks that are not given back, by htw_reserve()
 * @room: memory for chunks that have not been made
 * @room_bytes: how much
 * @nowhere: where numbers lead that are no id of this handle
 * @ahead: the wheel has work earlier than the timerfd is programmed for
 * @tick_ns: length of a tick
 * @wheel: the wheel
 * @few: most timers without levels; U64_MAX with them
 * @levels_wait: attempts to start timers before memory for levels is asked for
 * @nr_timers: number of timers, pending or idle
 * @limit: bound of @nr_timers
 * @armed: what the timerfd is programmed for; zero: it is readable; U64_MAX:
 *	never
 * @manual_ns: the time of the manual clock, as &family.manual_ns
 * @due_ns: the latest time at which a timer was armed that was due and does not
 *	wait for its tick
 * @clock: CLOCK_MONOTONIC, ... or %HTW_CLOCK_MANUAL
 * @setup_flags: &htw_setup_args.flags
 * @geometry: shape of the wheel's levels
 * @family: the handle and its shards
 * @lock: guards all of the above but what never changes: @number, @first,
 *	@nowhere, @tick_ns, @limit, @clock, @setup_flags, @geometry and @family
 */
struct process {
	struct htw htw;
	u32 number;
	u32 first;
	u32 nr_numbers;
	u32 size;
	struct chunk **chunks;
	struct number *numbers;
	u32 free_number;
	struct chunk *from;
	struct list_head open;
	struct list_head spare;
	u32 nr_chunks;
	u32 nr_spare;
	u32 reserved;
	char *room;
	size_t room_bytes;
	struct slot nowhere;
	bool ahead;
	u64 tick_ns;
	struct htw_wheel wheel;
	u64 few;
	u32 levels_wait;
	u64 nr_timers;
	u64 limit;
	u64 armed;
	u64 manual_ns;
	u64 due_ns;
	int clock;
	u32 setup_flags;
	struct htw_geometry geometry;
	struct family *family;
	struct htw_lock lock;
};

static inline struct process *process_of(struct htw *htw)
{
	return container_of(htw, struct process, htw);
}

static inline void process_lock(struct process *p)
{
	htw_lock_take(&p->lock);
}

static inline void process_unlock(struct process *p)
{
	htw_lock_give(&p->lock);
}

/* Let other threads have the lock, between parts of a call. */
static inline void give_way(struct process *p)
{
	htw_lock_give_way(&p->lock);
}

/* Ids, names and slots. */

/* A chunk where there is none: the names of its slots are zero. */
extern struct slot htw_no_chunk[CHUNK_SLOTS];

static inline struct slot *chunk_slots(struct chunk *c)
{
	return (struct slot *)c;
}

static inline struct chunk *chunk_of(const struct slot *t)
{
	return (struct chunk *)((uintptr_t)t & ~(uintptr_t)(CHUNK_BYTES - 1));
}

static inline u32 index_of(const struct slot *t)
{
	return (uintptr_t)t / sizeof(*t) % CHUNK_SLOTS;
}

/* The slot that a number leads to, if it is an id; its name says whether. */
static inline struct slot *slot_of(struct process *p, u64 id)
{
	const u32 chunk = (u32)id / CHUNK_SLOTS - p->first;

	if (unlikely(chunk >= p->size))
		return &p->nowhere;
	return &chunk_slots(p->chunks[chunk])[id % CHUNK_SLOTS];
}

static inline bool is_pending(const struct slot *t)
{
	return t->name % CHUNK_SLOTS == index_of(t);
}

static inline bool is_idle(const struct slot *t)
{
	return t->name % CHUNK_SLOTS == (index_of(t) ^ NAME_IDLE);
}

/* The id of a timer that is pending or idle. */
static inline u64 id_of(const struct slot *t)
{
	return t->name ^ (is_pending(t) ? 0 : NAME_IDLE);
}

/* The timer of an id, pending or idle, or NULL. */
static inline struct slot *find_timer(struct process *p, u64 id)
{
	struct slot *t = slot_of(p, id);

	return t->name == id || t->name == (id ^ NAME_IDLE) ? t : NULL;
}

static inline bool is_kept(const struct slot *t)
{
	return t->slack & SLOT_STAYS && (t->interval || !t->firings);
}

static inline bool can_be_put_off(const struct slot *t)
{
	return t->slack & SLOT_STAYS && !t->interval && t->firings;
}

static inline u32 slack_bits(u64 slack)
{
	return htw_arith_encode_slack(slack) << SLACK_SHIFT;
}

/* process.c */

void htw_add_levels(struct process *p);

/* Have the wheel get its levels before @count timers are started, if that makes them many. */
static inline void prepare_wheel(struct process *p, u64 count)
{
	if (unlikely(p->nr_timers + count > p->few))
		htw_add_levels(p);
}

/* process_slots.c */

int htw_slots_init(struct process *p);
void htw_slots_free(struct process *p);
struct slot *htw_slot_open_chunk(struct process *p, u64 *id);
void htw_slot_chunk_changed(struct process *p, struct chunk *c);
void htw_slot_retire(struct process *p, struct slot *t);
int htw_slots_reserve(struct process *p, u64 count);

/*
 * Take a free slot for a timer that is about to be pending; the caller sets its
 * name to @*id, and counts it in &process.nr_timers, which is below the limit.
 *
 * Return: the slot, on no list; NULL if there is no memory.
 */
static inline struct slot *take_slot(struct process *p, u64 *id)
{
	struct chunk *c = p->from;
	struct slot *t = c->free;

	if (unlikely(!t))
		return htw_slot_open_chunk(p, id);
	c->free = (struct slot *)t->node.list.next;
	c->used++;
	*id = t->name ^ NAME_FREE;
	return t;
}

/* End the id of a timer that is on no list, and free its slot. */
static inline void free_slot(struct process *p, struct slot *t, u64 id)
{
	struct chunk *c = chunk_of(t);
	struct slot *free = c->free;
	u64 next;

	if (unlikely(__builtin_add_overflow(id, ID_GENERATION, &next))) {
		htw_slot_retire(p, t);
		return;
	}
	t->name = next ^ NAME_FREE;
	t->node.list.next = (struct list_head *)free;
	c->free = t;
	if (unlikely(!--c->used || !free))
		htw_slot_chunk_changed(p, c);
}

/* Ticks and times. */

static inline u64 read_clock(const struct process *p)
{
	return unlikely(p->clock == HTW_CLOCK_MANUAL) ? p->manual_ns : htw_clock_ns(p->clock);
}

/* The first tick that is not earlier than @ns, which is not zero. */
static inline u64 tick_up(const struct process *p, u64 ns)
{
	return (ns - 1) / p->tick_ns + 1;
}

u64 htw_tick_of_due(struct process *p, u64 deadline, u64 now);
u64 htw_tick_with_slack(struct process *p, const struct slot *t, u64 now);
void htw_check_clock(struct process *p, u64 now);

/* The tick at which a timer expires, rounded up. */
static inline u64 tick_for(struct process *p, u64 deadline, u64 now)
{
	if (unlikely(deadline <= now))
		return htw_tick_of_due(p, deadline, now);
	return tick_up(p, deadline);
}

/* Start a timer that is on no list. */
static inline void arm(struct process *p, struct slot *t, u64 now)
{
	const u64 tick = likely(t->slack <= SLOT_STAYS) ? tick_for(p, t->deadline, now) :
							  htw_tick_with_slack(p, t, now);

	if (unlikely(htw_wheel_start(&p->wheel, &t->node, tick)))
		p->ahead = true;
}

/* Read the clock and bring an idle wheel up to it, before timers are started. */
static inline u64 process_begin(struct process *p)
{
	const u64 now = read_clock(p);

	if (unlikely(p->clock == CLOCK_REALTIME))
		htw_check_clock(p, now);
	htw_wheel_forward(&p->wheel, now / p->tick_ns);
	return now;
}

/* process_read.c */

void htw_announce(struct process *p);
bool htw_is_due(struct process *p, unsigned int *portion);
int htw_process_read(struct htw *htw, struct htw_event *events, unsigned int count,
		     unsigned int *looks);
int htw_process_ready(struct htw *htw, bool readable);
u64 htw_next_of(struct process *p);
int htw_process_next_time(struct htw *htw, uint64_t *when);
void htw_disarm(struct process *p);

/* End a call that has started, moved or stopped timers: program the timerfd if it is too late. */
static inline void finish(struct process *p)
{
	if (unlikely(p->ahead || p->clock == HTW_CLOCK_MANUAL))
		htw_announce(p);
}

/* process_timers.c */

/* When a timer expires: for one that can be put off, the later deadline. */
static inline u64 deadline_of(const struct process *p, const struct slot *t)
{
	if (likely(!can_be_put_off(t)))
		return t->deadline;
	return htw_deadline_later(htw_deadline_at(&p->htw, id_of(t)), t->deadline);
}

/*
 * What a timer is doing, of &enum htw_state. It is due from its tick on, unless it was put off.
 * Here, as a walk asks it of each timer.
 */
static inline u32 state_of(const struct process *p, const struct slot *t, u64 now)
{
	if (!is_pending(t))
		return HTW_STATE_DISARMED;
	return t->node.expires <= now / p->tick_ns && deadline_of(p, t) <= now ?
		HTW_STATE_DUE : HTW_STATE_PENDING;
}

void htw_fill_query(const struct process *p, const struct slot *t, u64 now,
		    struct htw_timer_info *query);
void htw_end_timer(struct process *p, struct slot *t);
int htw_process_add(struct htw *htw, struct htw_add_args *add);
int htw_process_stop(struct htw *htw, uint64_t id);
int htw_process_cancel(struct htw *htw, struct htw_cancel_args *cancel);
int htw_process_mod(struct htw *htw, struct htw_mod_args *mod);
int htw_process_query(struct htw *htw, struct htw_timer_info *query);
int htw_process_put_off(struct htw *htw, uint64_t id, uint64_t when);
int htw_process_add_many(struct htw *htw, const struct htw_add_args *common,
			 const uint64_t *deadlines, const uint64_t *cookies, uint64_t *ids,
			 unsigned int count, int *results);
int htw_process_rearm_many(struct htw *htw, const uint64_t *ids, const uint64_t *deadlines,
			   unsigned int count, unsigned int flags, int *results);
int htw_process_stop_many(struct htw *htw, const uint64_t *ids, unsigned int count, int *results);

/* process_walk.c */

int64_t htw_process_cancel_all(struct htw *htw);
int htw_process_list(struct htw *htw, unsigned int states, uint64_t *cursor,
		     struct htw_timer_info *entries, unsigned int count);
int htw_process_harvest(struct htw *htw, uint64_t *cursor, struct htw_timer_info *entries,
			unsigned int count);

#endif /* LIBHTW_PROCESS_H */
