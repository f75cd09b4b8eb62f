// SPDX-License-Identifier: GPL-2.0-only
/*
 * Explores every state that htw_wheel.c and wheel/more.c can reach, for small wheels
 *
 * This is model checking of the code itself: wheel, nodes and the memory of the levels lie in one
 * arena, so a state is a copy of it that can be put back. From each state each call is made with
 * each argument, breadth first, and what it does is held against the definition: an array that is
 * searched for its minimum. If a check fails, the shortest sequence of calls that leads there is
 * printed.
 *
 * Time
 * ----
 * A wheel has no clock, so a state has no time either: a call may be made with any tick that is
 * not before the last that the wheel has passed, &htw_wheel.cursor - 1. All nodes on the list of
 * those that are due are earlier than the cursor, so none of them is early then. That includes
 * what htw_wheel_collect_due() asks for, a time that is not before that of an earlier call.
 *
 * Which states are one
 * --------------------
 * Ticks count as seen from the cursor, and two states are one if one of them is the other, moved
 * in time by a multiple of PERIOD. That is sound because of what the code reads of a tick:
 *
 * - differences and comparisons, which do not change;
 * - slots of levels, modulo rings of two windows. PERIOD is a multiple of the ring of the last
 *   level, so it is one of each ring below, and of each level's span;
 * - the highest digit in which a tick differs from the base of the radix heap, and where a list of
 *   it starts. PERIOD is a multiple of 4^DIGITS, and no tick beyond the levels is further ahead of
 *   the base than that, nor will the base move further; key() looks at that, and where it does
 *   not hold is not explored. So a tick has the base's block of 4^DIGITS ticks, and differs in
 *   the lower digits, which do not change; or it has the following block. Then it differs in a
 *   higher digit. Which that is depends on the block. But all ticks of that block have that digit
 *   in common, so all are in one list, which is the last, and which starts where the block does.
 *   In a key all of these are one list.
 *
 * A base that nothing is relative to is left out: a list that gets a node sets it first.
 * &htw_wheel.next and &htw_wheel.quiet are left out as well. A start compares its work with them.
 * htw_wheel_forward() goes no further, which is what it does with an earlier time, and before it an
 * advance looks for no work, which is tried with and without. Both are checked after each call and
 * then made exact, so that a start that has to make them earlier does so. Of
 * &htw_wheel.settled it only matters how much later it is than the cursor. Counters are left out.
 *
 * Nodes are interchangeable, so they are named by the order in which they are to expire. Of the
 * nodes that are in no wheel, one is started. All else is compared as it is: lists with the order
 * of their nodes, bitmaps, the ends of levels.
 *
 * What is bounded
 * ---------------
 * The number of nodes, how far their ticks are ahead of the cursor (&scene.ahead): starts go
 * no further, and a wheel is rewound only so far that all of its nodes stay within. And how far
 * ticks are ahead of the base, as said; the output has the number of calls that led beyond that.
 * Arguments at the end of their range
 * -----------------------------------
 * Ticks far beyond these bounds lead to states that are not explored, but they are tried: in each
 * state, or in each one of some, each call that takes a tick is made with 0, the present, the tick
 * after it, and those around the end of time and of the range (end_tick()). Then the wheel is
 * emptied as it is; and by another such call first, for each of them.
 *
 * Within these bounds nothing is left out, unless a scene limits the number of states: as states
 * come in the order of the calls that lead to them, it then has all states of up to N calls, and
 * some of N + 1.
 */
static void failed(const char *what);

#define HTW_ASSERT(condition)	((condition) ? (void)0 : failed("asserts " #condition))
#include "wheel/check.h"

#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)	((condition) ? (void)0 : failed(#condition))

#define NODES		3
#define PAST		2		/* how long ago a node may be due that is started */
#define ORIGIN		(1U << 20)	/* a multiple of each PERIOD, far from tick 0 */
#define ALL		1000		/* a budget for all there is */
#define MEMORY		512		/* bytes for levels */
#define STEPS		1000		/* calls that suffice to empty a wheel, or to catch up */
#define ENDS		8		/* ticks at the ends of ranges, see end_tick() */
/* In a quick run: of how many states one is tried with such ticks, and with two of them. */
#define END_OF		16
#define ENDS_OF		512

#define NONE		UINT32_MAX		/* no limit: all states are explored */

/* A wheel to explore. */
static const struct scene {
	const char *name;
	struct htw_geometry geo;	/* no levels: they are never added */
	unsigned int few;		/* HTW_WHEEL_FEW; 0 if it is as in the source */
	unsigned int nodes;
	unsigned int ahead;
	unsigned int digits;		/* how far a base may be behind: 4^digits ticks */
	unsigned int search;		/* what searching the levels takes of a budget */
	u32 limits[2];			/* of states: in a quick run, and in a full one */
} scenes[] = {
	{ "sorted list", { 0 }, 0, 3, 8, 0, 0, { NONE, NONE } },
	{ "{2,2}", { 2, { 2, 2 } }, 0, 2, 8, 2, 0, { 40000, NONE } },
	{ "{2,2}", { 2, { 2, 2 } }, 0, 3, 5, 2, 0, { 0, NONE } },
	{ "{2,2}", { 2, { 2, 2 } }, 0, 3, 8, 2, 0, { 40000, 300000 } },
	{ "{3,2}", { 2, { 3, 2 } }, 0, 2, 7, 2, 0, { 0, NONE } },
	{ "{3,2}", { 2, { 3, 2 } }, 0, 2, 12, 3, 0, { 40000, 200000 } },
	{ "{3,2}", { 2, { 3, 2 } }, 0, 3, 7, 2, 0, { 0, NONE } },
	{ "{2,2,2}", { 3, { 2, 2, 2 } }, 0, 2, 12, 2, 0, { 40000, NONE } },
	{ "{2,2,2}", { 3, { 2, 2, 2 } }, 0, 2, 16, 3, 0, { 0, 200000 } },
	{ "{2,2,2}", { 3, { 2, 2, 2 } }, 0, 3, 8, 2, 0, { 0, NONE } },
	{ "radix heap", { 0 }, 1, 3, 4, 2, 0, { 40000, NONE } },
	{ "radix heap", { 0 }, 1, 3, 8, 3, 0, { 0, 200000 } },
	{ "{2,2}", { 2, { 2, 2 } }, 1, 2, 8, 2, 1, { 40000, NONE } },
	{ "{2,2,2}", { 3, { 2, 2, 2 } }, 1, 2, 16, 3, 1, { 0, 100000 } },
};

#ifdef HTW_WHEEL_FEW
#define FEW	HTW_WHEEL_FEW
#else
#define FEW	0
#define HTW_SHORT_LIST	NODES
#define HTW_LONG_LIST	NODES
#endif

/* A node and the model of it. */
struct timer {
	struct htw_node node;
	u64 tick;	/* when it has to expire */
	u64 key;	/* by which timers are ordered: not before the cursor when it was started */
	u64 serial;	/* orders timers of one key, as they were started */
	u64 pending;
};

/* All that a state is. */
struct arena {
	struct htw_wheel wheel;
	struct timer timers[NODES];
	u64 pending;
	u64 serials;
	u64 memory[MEMORY / sizeof(u64)];
};

#define WORDS	(sizeof(struct arena) / sizeof(u64))
_Static_assert(WORDS < 256, "the index of a word is a byte");

static struct arena arena;
static struct htw_wheel *const w = &arena.wheel;
static struct timer *const timers = arena.timers;
static const struct scene *scene;
static unsigned int period, block, digits;
static u32 limit;
static bool too_far;
static u64 cut;
static bool all;		/* a full run */

/* Calls. Ticks are as seen from the cursor, nodes by the order in which they are to expire. */
enum kind {
	START,		/* tick */
	RESTART,	/* node, tick */
	STOP,		/* node */
	EXPIRE,		/* now, budget: htw_wheel_expire() once */
	COLLECT,	/* now, budget: the same by htw_wheel_collect_due() */
	MAKE_DUE,	/* now, a bit for each node whose deadline has come */
	ADVANCE,	/* now, budget, what the function does, once */
	ADVANCE_LOOKING,	/* the same, where it is not known that there is no work */
	CASCADE,	/* budget */
	FORWARD,	/* now */
	REWIND,		/* now, so long ago */
	EVICT,
	ADD_LEVELS,
	REMOVE_LEVELS,
	KINDS
};

/* What the function that htw_wheel_advance() calls does with the first node that expires. */
enum act {
	NOTHING,
	AGAIN_PAST,		/* start the same node, for the tick at which it expired */
	AGAIN_NOW,
	AGAIN_NEXT,
	AGAIN_FAR,
	STOP_FIRST,
	STOP_LAST,
	RESTART_FIRST_PAST,	/* restart another node */
	RESTART_FIRST_FAR,
	RESTART_LAST_PAST,
	RESTART_LAST_NOW,
	START_PAST,		/* start another node */
	START_NOW,
	START_NEXT,
	ACTS
};

/* With @end, its tick is end_tick(@end - 1), and @a is of no use. */
struct call {
	u8 kind, a, b, c, end;
};

/* ---- States ---- */

/* Where a node is: the list, its rank in that list from the front, and the tick. */
struct place {
	u8 list, rank, tick;
};

struct key {
	u8 phase, next_window, settled, base, used, flags;
	u8 end[HTW_WHEEL_MAX_LEVELS / 2], last[HTW_WHEEL_MAX_LEVELS / 2];
	u8 nonempty[HTW_WHEEL_MAX_LEVELS / 2], occupied[HTW_WHEEL_MAX_LEVELS / 2];
	struct place nodes[NODES];
};

struct state {
	struct key key;
	struct call call;	/* that has led here */
	u32 parent;
};

static struct state *states;
static u32 nr_states, room;
static u32 *table;		/* of states by the hash of their key, plus 1 */
static u32 table_size;
static u64 calls[KINDS], calls_made;
static unsigned int depth;

/* Copies of the arena: of this depth, and of the next. What differs from @origin is kept. */
static struct copies {
	u8 *data;
	size_t size, room;
} present, following;
static struct arena origin, levels_added;

static jmp_buf broken;
static const char *failure;
static volatile sig_atomic_t exploring;

static void failed(const char *what)
{
	failure = what;
	longjmp(broken, 1);
}

static void *grow(void *memory, size_t size)
{
	memory = realloc(memory, size);
	if (!memory) {
		perror("states");
		exit(2);
	}
	return memory;
}

/* Keep a copy of the arena: the words in which it differs from one of two. */
static void keep(struct copies *c)
{
	const u64 *now = (const u64 *)&arena;
	const u64 *from = (const u64 *)(w->levels ? &levels_added : &origin);
	u8 *at, *count;

	if (c->room - c->size < 2 + WORDS * 9) {
		c->room = 2 * c->room + (1 << 16);
		c->data = grow(c->data, c->room);
	}
	at = c->data + c->size;
	*at++ = !!w->levels;
	count = at++;
	*count = 0;
	for (unsigned int i = 0; i < WORDS; i++) {
		if (now[i] == from[i])
			continue;
		++*count;
		*at++ = i;
		memcpy(at, &now[i], sizeof(u64));
		at += sizeof(u64);
	}
	c->size = at - c->data;
}

/* Put a copy back. Return: where the following one is. */
static size_t put_back(const struct copies *c, size_t offset)
{
	const u8 *at = c->data + offset;
	u64 *to = (u64 *)&arena;
	unsigned int count;

	arena = *at++ ? levels_added : origin;
	for (count = *at++; count; count--, at += 1 + sizeof(u64))
		memcpy(&to[*at], at + 1, sizeof(u64));
	return at - c->data;
}

/* A tick as seen from the cursor. */
static u8 relative(u64 tick)
{
	const u64 from = tick - w->cursor + 100;

	if (tick == HTW_NEVER)
		return 255;
	CHECK(from < 250);
	return from;
}

/* Is a timer to expire before another one? */
static bool before(const struct timer *a, const struct timer *b)
{
	return a->key < b->key || (a->key == b->key && a->serial < b->serial);
}

/*
 * The first timer to expire of those that are due by tick @by, or NULL. After HTW_LAST_TICK none
 * expires.
 */
static struct timer *first_due(u64 by)
{
	struct timer *best = NULL;

	by = min(by, HTW_LAST_TICK);
	for (struct timer *t = timers; t < timers + NODES; t++)
		if (t->pending && t->key <= by && (!best || before(t, best)))
			best = t;
	return best;
}

static u64 earliest(void)
{
	const struct timer *t = first_due(HTW_NEVER);

	return t ? t->key : HTW_NEVER;
}

/* Timers that are in the wheel, in the order in which they are to expire. */
static unsigned int in_order(struct timer **order)
{
	unsigned int count = 0, i;

	for (struct timer *t = timers; t < timers + NODES; t++) {
		if (!t->pending)
			continue;
		for (i = count++; i && before(t, order[i - 1]); i--)
			order[i] = order[i - 1];
		order[i] = t;
	}
	return count;
}

/* Note the nodes of a list in a key. Return: how many there are. */
static unsigned int key_list(struct key *k, const struct list_head *head, u8 list)
{
	struct timer *order[NODES];
	const unsigned int count = in_order(order);
	const struct list_head *at;
	unsigned int rank = 0, i;

	list_for_each(at, head) {
		const struct timer *t = (const struct timer *)at;

		CHECK(at->next->prev == at && at->prev->next == at);
		for (i = 0; i < count && order[i] != t; i++)
			;
		/* What is in a list is in the wheel, and only there. */
		CHECK(i < count && !k->nodes[i].list);
		k->nodes[i].list = list;
		k->nodes[i].rank = ++rank;
	}
	return rank;
}

/* Note a tick that is, or may be, relative to the base. */
static void reach(u64 tick)
{
	const bool heap = w->used || !list_empty(&w->unsorted);

	if (heap && tick > w->base && tick - w->base > block)
		too_far = true;
}

/* The key of the arena's state. Sets @too_far if it does not stand for it in all that follows. */
static void key(struct key *k)
{
	struct timer *order[NODES];
	const unsigned int count = in_order(order);
	unsigned int found = 0, list = 4 + digits + 1;
	const bool heap = w->used || !list_empty(&w->unsorted);
	const u64 base = w->base;

	memset(k, 0, sizeof(*k));
	too_far = false;
	k->phase = w->cursor % period;
	k->flags = w->rewound | (w->level == w->none) << 1 | w->levels << 2;
	if (heap) {
		k->base = relative(base);
		k->used = w->used & ((1 << (digits + 1)) - 1);
		if (w->used >> (digits + 1))
			k->used |= 1 << (digits + 1);
		reach(w->cursor);
	}

	if (!list_empty(&w->due))
		found += key_list(k, &w->due, 1);
	if (!list_empty(&w->sorted))
		found += key_list(k, &w->sorted, 2);
	if (!list_empty(&w->unsorted))
		found += key_list(k, &w->unsorted, 3);
	for (unsigned int i = 0; i < HTW_WHEEL_LISTS; i++)
		if (!list_empty(&w->beyond[i]))
			found += key_list(k, &w->beyond[i], 4 + min(i, digits + 1));

	k->settled = w->settled <= w->cursor ? 0 : relative(w->settled);
	if (w->levels)
		k->next_window = relative(w->next_window);
	for (unsigned int l = 0; l < w->levels; l++) {
		const struct htw_level *lev = &w->level[l];

		k->end[l] = relative(lev->end);
		k->last[l] = relative(lev->last);
		k->nonempty[l] = lev->nonempty;
		k->occupied[l] = lev->occupied[0];
		reach(lev->end);
		for (unsigned int i = 0; i < lev->nr_buckets; i++)
			if (!list_empty(&lev->buckets[i]))
				found += key_list(k, &lev->buckets[i], list + i);
		list += lev->nr_buckets;
	}

	/* None is lost. */
	CHECK(found == count);
	for (unsigned int i = 0; i < count; i++) {
		CHECK(order[i]->node.expires == order[i]->tick);
		k->nodes[i].tick = relative(order[i]->tick);
		if (k->nodes[i].list >= 3 && k->nodes[i].list <= 4 + digits + 1)
			reach(order[i]->tick);
	}
}

static u32 hash(const struct key *k)
{
	const u8 *at = (const u8 *)k;
	u64 h = 0, word;

	for (size_t i = 0; i < sizeof(*k); i += sizeof(word)) {
		word = 0;
		memcpy(&word, at + i, min(sizeof(word), sizeof(*k) - i));
		h = (h ^ word) * 0x9e3779b97f4a7c15ULL;
		h ^= h >> 29;
	}
	return h >> 16;
}

static void insert(u32 number)
{
	u32 at = hash(&states[number].key) & (table_size - 1);

	while (table[at])
		at = (at + 1) & (table_size - 1);
	table[at] = number + 1;
}

static bool is_known(const struct key *k)
{
	u32 at = hash(k) & (table_size - 1);

	for (; table[at]; at = (at + 1) & (table_size - 1))
		if (!memcmp(&states[table[at] - 1].key, k, sizeof(*k)))
			return true;
	return false;
}

static void new_state(const struct key *k, u32 parent, struct call call)
{
	if (nr_states == room) {
		room = room ? 2 * room : 1 << 16;
		states = grow(states, room * sizeof(*states));
		table_size = 2 * room;
		table = grow(table, table_size * sizeof(*table));
		memset(table, 0, table_size * sizeof(*table));
		for (u32 i = 0; i < nr_states; i++)
			insert(i);
	}
	states[nr_states] = (struct state){ .key = *k, .call = call, .parent = parent };
	insert(nr_states++);
}

/* ---- Calls, and what they must do ---- */

static void model_start(struct timer *t, u64 tick)
{
	t->tick = tick;
	t->key = max(tick, w->cursor - 1);
	t->serial = ++arena.serials;
	if (!t->pending)
		arena.pending++;
	t->pending = true;
}

static void model_remove(struct timer *t)
{
	CHECK(t->pending);
	t->pending = false;
	arena.pending--;
}

/* A call that has said whether it made the next work earlier; a start says so by it. */
static void check_ahead(bool ahead, u64 next_before)
{
	CHECK(ahead == (w->next < next_before));
}

static void start(struct timer *t, u64 tick)
{
	const u64 next = w->next;
	const bool is_ahead = htw_wheel_is_ahead(w, tick);

	CHECK(!htw_node_pending(&t->node));
	model_start(t, tick);
	check_ahead(htw_wheel_start(w, &t->node, tick), next);
	CHECK(is_ahead || w->next == next);
	CHECK(htw_node_pending(&t->node));
}

static void restart(struct timer *t, u64 tick)
{
	const u64 next = w->next;

	model_start(t, tick);
	check_ahead(htw_wheel_restart(w, &t->node, tick), next);
	CHECK(htw_node_pending(&t->node));
}

static void stop(struct timer *t)
{
	model_remove(t);
	htw_wheel_stop(w, &t->node);
	CHECK(!htw_node_pending(&t->node));
}

/* A node has expired: it is the one that had to, and not early. */
static struct timer *check_expired(struct htw_node *n, u64 now)
{
	struct timer *t = (struct timer *)n;

	CHECK(t >= timers && t < timers + NODES);
	CHECK(t->tick <= now);
	CHECK(t == first_due(now));
	CHECK(!htw_node_pending(n));
	model_remove(t);
	return t;
}

/* For functions that htw_wheel_advance() calls. */
struct turn {
	u64 now;
	enum act act;
};

static struct timer *idle_timer(const struct timer *but)
{
	for (struct timer *t = timers; t < timers + scene->nodes; t++)
		if (!t->pending && t != but)
			return t;
	return NULL;
}

static void expired(struct htw_node *n, void *arg)
{
	struct turn *turn = arg;
	struct timer *t = check_expired(n, turn->now), *order[NODES], *first, *last, *other;
	const unsigned int count = in_order(order);
	const u64 past = t->tick, far = w->cursor + scene->ahead - 1;
	const enum act act = turn->act;

	turn->act = NOTHING;
	first = count ? order[0] : NULL;
	last = count ? order[count - 1] : NULL;
	other = idle_timer(t);
	switch (act) {
	case AGAIN_PAST:
		start(t, past);
		break;
	case AGAIN_NOW:
		restart(t, turn->now);
		break;
	case AGAIN_NEXT:
		start(t, turn->now + 1);
		break;
	case AGAIN_FAR:
		start(t, far);
		break;
	case STOP_FIRST:
		if (first)
			stop(first);
		break;
	case STOP_LAST:
		if (last)
			stop(last);
		break;
	case RESTART_FIRST_PAST:
		if (first)
			restart(first, past);
		break;
	case RESTART_FIRST_FAR:
		if (first)
			restart(first, far);
		break;
	case RESTART_LAST_PAST:
		if (last)
			restart(last, past);
		break;
	case RESTART_LAST_NOW:
		if (last)
			restart(last, turn->now);
		break;
	case START_PAST:
		if (other)
			start(other, past);
		break;
	case START_NOW:
		if (other)
			start(other, turn->now);
		break;
	case START_NEXT:
		if (other)
			start(other, turn->now + 1);
		break;
	default:
		break;
	}
}

/* After an advance that was complete. */
static void check_complete(u64 now)
{
	/* None is late. */
	CHECK(!first_due(now));
	htw_wheel_next(w);
	CHECK(w->next > min(now, HTW_LAST_TICK));
}

/* With a tick before the present, what is due by that expires, and nothing else. */
static u64 counted(u64 now)
{
	return max(now, w->cursor - 1);
}

static void expire(u64 now, unsigned int budget)
{
	const unsigned int given = budget;
	const u64 asked = now;
	struct htw_node *n;

	now = counted(now);
	n = htw_wheel_expire(w, asked, &budget);

	CHECK(budget <= given);
	if (n) {
		CHECK(budget < given);
		check_expired(n, now);
	} else if (budget) {
		check_complete(now);
	}
}

/* The same as the module does it, which takes nodes off the list itself. */
static void collect(u64 now, unsigned int budget)
{
	/* Until a wheel that was set back is sorted, none of its nodes expires. */
	const bool looking = w->rewound;
	const u64 asked = now;
	struct htw_node *n;

	now = counted(now);
	if (!htw_wheel_collect_due(w, asked, &budget)) {
		CHECK(!budget || looking || !first_due(now));
		return;
	}
	CHECK(budget);
	n = list_first_entry(&w->due, struct htw_node, list);
	__htw_list_del(&n->list);
	htw_node_init(n);
	w->pending--;
	check_expired(n, now);
}

/* The nodes whose deadlines have come, within the tick after the present one. */
struct deadlines {
	struct timer *order[NODES];
	unsigned int come;
};

static const struct deadlines *deadlines;

static bool has_come(const struct htw_node *n, u64 now)
{
	unsigned int i = 0;

	CHECK(n->expires == now + 1 && now < HTW_LAST_TICK);
	while (&deadlines->order[i]->node != n)
		i++;
	return deadlines->come >> i & 1;
}

static void make_due(u64 now, unsigned int come)
{
	struct deadlines d = { .come = come };
	const unsigned int count = in_order(d.order);
	const u64 next = w->next;
	bool ahead = false, made, waits;

	deadlines = &d;
	htw_wheel_forward(w, now);
	waits = now < HTW_LAST_TICK && now >= w->cursor - 1;
	made = htw_wheel_make_due(w, now, has_come, now, &ahead);
	check_ahead(ahead, next);
	for (unsigned int i = 0; i < count; i++) {
		struct timer *t = d.order[i];

		/* All of them, or none: there are fewer than it looks at. */
		if (made && waits && t->tick == now + 1 && (come >> i & 1))
			model_start(t, now);
		CHECK(t->node.expires == t->tick);
	}
	CHECK(made || now < HTW_LAST_TICK);
	/* It gives up only where a node may be elsewhere. */
	CHECK(made || !list_empty(&w->unsorted) || now + 1 >= w->level[0].end || now + 1 < w->base);
}

static bool advance(u64 now, unsigned int budget, enum act act)
{
	struct turn turn = { .now = counted(now), .act = act };
	const unsigned int given = budget;
	const bool done = htw_wheel_advance(w, now, &budget, expired, &turn);

	CHECK(budget <= given);
	/* A budget that was enough is not used up, unless something was started meanwhile. */
	CHECK(done || given < ALL || budget);
	return done;
}

static unsigned int length(const struct list_head *head)
{
	const struct list_head *at;
	unsigned int count = 0;

	list_for_each(at, head)
		count++;
	return count;
}

static void cascade(unsigned int budget)
{
	const unsigned int given = budget, unsorted = length(&w->unsorted);
	const bool done = htw_wheel_cascade(w, &budget);

	CHECK(budget <= given);
	CHECK(done || !budget || !list_empty(&w->due));
	/* Each node that is looked at costs one of the budget. */
	CHECK(unsorted <= length(&w->unsorted) + given - budget);
}

/* Nodes keep their order; what was due and has not come any more waits for its tick. */
static void rewind_to(u64 now)
{
	struct timer *order[NODES];
	const unsigned int count = in_order(order);
	const struct arena copy = arena;
	const bool back = now < w->cursor - 1;

	htw_wheel_rewind(w, now);
	if (!back) {
		CHECK(!memcmp(&arena, &copy, sizeof(arena)));
		return;
	}
	CHECK(w->cursor == now + 1);
	CHECK(!w->next);
	for (unsigned int i = 0; i < count; i++)
		model_start(order[i], order[i]->tick);
}

static void evict(void)
{
	struct timer *t = (struct timer *)htw_wheel_evict(w);

	CHECK(t >= timers && t < timers + NODES);
	CHECK(!htw_node_pending(&t->node));
	for (struct timer *o = timers; o < timers + NODES; o++)
		CHECK(!o->pending || o->tick != t->tick || o->serial >= t->serial);
	model_remove(t);
}

static void add_levels(void)
{
	const u64 next = w->next;

	htw_levels_init(&scene->geo, arena.memory);
	check_ahead(htw_wheel_attach_levels(w, &scene->geo, arena.memory), next);
	CHECK(w->levels == scene->geo.levels);
	w->search = scene->search;
}

/* The memory is the caller's again. */
static void remove_levels(void)
{
	CHECK(htw_wheel_remove_levels(w) == arena.memory);
	memcpy(arena.memory, origin.memory, sizeof(arena.memory));
}

/* A tick at the end of its range, or near the present. */
static u64 end_tick(unsigned int i)
{
	const u64 ticks[ENDS] = {
		0, w->cursor - 1, w->cursor, HTW_LAST_TICK - 1, HTW_LAST_TICK, HTW_LAST_TICK + 1,
		HTW_NEVER - 1, HTW_NEVER,
	};

	return ticks[i];
}

/* The tick of a call, if it has one. */
static u64 tick_of(struct call call)
{
	/* The first tick that may be started; a time, from the last that has passed. */
	const u64 tick = w->cursor - PAST, now = w->cursor - 1 + call.a;

	if (call.end)
		return end_tick(call.end - 1);
	switch (call.kind) {
	case START:
		return tick + call.a;
	case RESTART:
		return tick + call.b;
	case REWIND:
		return w->cursor - 1 - call.a;
	default:
		return now;
	}
}

static void make(struct call call)
{
	struct timer *order[NODES], *idle;
	const u64 now = tick_of(call);

	in_order(order);
	switch (call.kind) {
	case START:
		idle = idle_timer(NULL);
		start(idle, now);
		break;
	case RESTART:
		restart(order[call.a], now);
		break;
	case STOP:
		stop(order[call.a]);
		break;
	case EXPIRE:
		expire(now, call.b ?: ALL);
		break;
	case COLLECT:
		collect(now, call.b ?: ALL);
		break;
	case MAKE_DUE:
		make_due(now, call.b);
		break;
	case ADVANCE:
		if (advance(now, call.b ?: ALL, call.c))
			check_complete(counted(now));
		break;
	case ADVANCE_LOOKING:
		w->quiet = 0;
		if (advance(now, call.b ?: ALL, call.c))
			check_complete(counted(now));
		break;
	case CASCADE:
		cascade(call.a ?: ALL);
		break;
	case FORWARD:
		htw_wheel_forward(w, now);
		break;
	case REWIND:
		rewind_to(now);
		break;
	case EVICT:
		evict();
		break;
	case ADD_LEVELS:
		add_levels();
		break;
	case REMOVE_LEVELS:
		remove_levels();
		break;
	}
}

/* After each call; leaves the exact next work in the wheel. */
static void check_next(void)
{
	const u64 stored = w->next, quiet = w->quiet, first = earliest(), next = htw_wheel_next(w);
	const bool sorting = !list_empty(&w->unsorted);

	/* A lower bound of what is next: the first node, and work before it. */
	CHECK(next == w->next);
	CHECK(next <= first);
	CHECK(stored <= first);
	CHECK(quiet <= first);
	/*
	 * Unsorted nodes are work at once, of which the caller knows: a budget was too small. So is
	 * what should have been done before. And a list beyond the levels that is too long to be
	 * looked at is work when it begins, which may be before a tick that is known.
	 */
	CHECK(stored <= next || stored < w->cursor || sorting || arena.pending > HTW_SHORT_LIST);
	CHECK(quiet <= next || quiet < w->cursor || arena.pending > HTW_SHORT_LIST);

	CHECK(next <= HTW_LAST_TICK || next == HTW_NEVER);
	CHECK((next == HTW_NEVER) == (first == HTW_NEVER));
	if (!w->levels && list_empty(&w->due) && !sorting && arena.pending <= HTW_LONG_LIST)
		CHECK(next == first);
}

static void count_node(struct htw_node *n, void *count)
{
	CHECK(((struct timer *)n)->pending);
	++*(unsigned int *)count;
}

/* What must hold in each state. */
static void check_state(void)
{
	unsigned int count = 0;
	struct htw_node *n;
	struct timer *t;

	const char *error = htw_wheel_check(w);

	if (error)
		failed(error);
	CHECK(htw_wheel_count(w) == arena.pending);
	/* No start at a tick that never comes is work. */
	for (unsigned int i = 0; i < ENDS; i++)
		CHECK(end_tick(i) <= HTW_LAST_TICK || !htw_wheel_is_ahead(w, end_tick(i)));
	if (w->levels)
		CHECK(w->level[0].last == min(max(w->level[0].end, w->cursor) - 1, HTW_LAST_TICK));
	htw_wheel_walk(w, count_node, &count);
	CHECK(count == arena.pending);
	for (t = timers; t < timers + NODES; t++)
		CHECK(htw_node_pending(&t->node) == t->pending);

	CHECK(htw_wheel_first_node(w, ALL, &n));
	for (unsigned int most = 0; most <= NODES; most++) {
		struct htw_node *same;

		CHECK(!htw_wheel_first_node(w, most, &same) || same == n);
	}
	t = first_due(HTW_NEVER);
	/* Of several whose tick has come, after a rewind, any will do until they are sorted. */
	CHECK((struct timer *)n == t ||
	      (n && w->rewound && t->key < w->cursor && ((struct timer *)n)->key == t->key));
}

/* Nodes that never expire: all that are left as time has passed. */
static void evict_never(void)
{
	for (struct timer *t = timers; t < timers + NODES; t++)
		CHECK(!t->pending || t->tick > HTW_LAST_TICK);
	while (arena.pending)
		evict();
	CHECK(!htw_wheel_evict(w));
}

static void stop_visited(struct htw_node *n, void *arg)
{
	(void)arg;
	CHECK(htw_wheel_holds(w, n));
	stop((struct timer *)n);
	CHECK(!htw_wheel_holds(w, n));
}

/* A walk may stop the node that it is at. */
static void stop_all(void)
{
	htw_wheel_walk(w, stop_visited, NULL);
	CHECK(!htw_wheel_count(w));
	CHECK(htw_wheel_next(w) == HTW_NEVER);
}

/* Let time pass from one work to the next until there is none: each makes progress. */
static void drain(unsigned int budget)
{
	unsigned int steps = 0;
	u64 next, now;

	while ((next = htw_wheel_next(w)) != HTW_NEVER) {
		CHECK(next <= earliest());
		now = max(next, w->cursor - 1);
		while (!advance(now, budget, NOTHING))
			CHECK(++steps < STEPS);
		check_complete(now);
		CHECK(++steps < STEPS);
	}
	evict_never();
	CHECK(!htw_wheel_count(w));
}

static void drain_all(void)
{
	static const unsigned int budgets[] = { 1, 2, ALL };
	const struct arena copy = arena;

	for (unsigned int i = 0; i < 3; i++) {
		drain(budgets[i]);
		arena = copy;
	}
	stop_all();
	arena = copy;
}

/* ---- Exploring ---- */

static struct arena expanded;	/* the state whose calls are made */
static u32 expanded_number;
static struct call last_call;
static bool last_was_new;

/* Make a call in the state that is being expanded, and look at where it leads. */
static void try(struct call call)
{
	struct key k;

	arena = expanded;
	last_call = call;
	last_was_new = false;
	calls[call.kind]++;
	calls_made++;
	make(call);
	check_next();
	w->cascades = 0;
	key(&k);
	if (too_far) {
		cut++;
		return;
	}
	if (is_known(&k))
		return;
	last_was_new = true;
	check_state();
	drain_all();
	new_state(&k, expanded_number, call);
	keep(&following);
}

#define TRY(...)	try((struct call){ __VA_ARGS__ })

static struct call first_call;		/* of two at the ends of ranges */
static bool two_calls;
static u64 end_calls;

/*
 * Make a call with a tick at the end of its range, and empty the wheel; if @two, by each other such
 * call first.
 */
static void try_end(struct call call, bool two);

static void try_ends(bool two)
{
	static const u8 budgets[] = { 1, 0 };
	struct timer *order[NODES];
	const unsigned int count = in_order(order);
	const bool may_start = idle_timer(NULL), levels = w->levels;

	for (unsigned int end = 1; end <= ENDS; end++) {
		if (may_start)
			try_end((struct call){ .kind = START, .end = end }, two);
		for (unsigned int k = 0; k < count; k++)
			try_end((struct call){ .kind = RESTART, .a = k, .end = end }, two);
		for (unsigned int b = 0; b < 2; b++) {
			const u8 budget = budgets[b];

			try_end((struct call){ .kind = EXPIRE, .b = budget, .end = end }, two);
			try_end((struct call){ .kind = COLLECT, .b = budget, .end = end }, two);
			for (unsigned int act = 0; act <= (count ? AGAIN_NOW : NOTHING); act++)
				try_end((struct call){ .kind = ADVANCE, .b = budget, .c = act,
					.end = end }, two);
		}
		try_end((struct call){ .kind = FORWARD, .end = end }, two);
		try_end((struct call){ .kind = MAKE_DUE, .b = (1U << count) - 1, .end = end }, two);
		try_end((struct call){ .kind = REWIND, .end = end }, two);
	}
	if (!levels && scene->geo.levels)
		try_end((struct call){ .kind = ADD_LEVELS }, two);
}

static void try_end(struct call call, bool two)
{
	const struct arena before = arena;

	last_call = call;
	last_was_new = false;
	end_calls++;
	calls_made++;
	make(call);
	check_next();
	check_state();
	if (two) {
		first_call = call;
		two_calls = true;
		try_ends(false);
		two_calls = false;
	}
	last_was_new = true;
	drain(end_calls % 2 ? ALL : 1);
	arena = before;
}

static void expand(void)
{
	static const u8 budgets[] = { 1, 2, 0 };
	struct timer *order[NODES];
	const unsigned int count = in_order(order);
	const unsigned int ticks = PAST + scene->ahead;
	const u64 latest = count ? order[count - 1]->tick : 0;
	const u64 cursor = w->cursor, quiet = w->quiet;
	const bool may_cascade = list_empty(&w->due);
	const unsigned int levels = w->levels;

	expanded = arena;
	for (unsigned int d = 0; d < ticks; d++) {
		if (count < scene->nodes)
			TRY(START, d);
		for (unsigned int k = 0; k < count; k++)
			TRY(RESTART, k, d);
	}
	for (unsigned int k = 0; k < count; k++)
		TRY(STOP, k);
	for (unsigned int t = 0; t <= scene->ahead; t++) {
		for (unsigned int b = 0; b < 3; b++) {
			TRY(EXPIRE, t, budgets[b]);
			TRY(COLLECT, t, budgets[b]);
			for (unsigned int act = 0; act < (count ? ACTS : 1); act++)
				TRY(ADVANCE, t, budgets[b], act);
			if (cursor - 1 + t < quiet)
				TRY(ADVANCE_LOOKING, t, budgets[b]);
		}
		TRY(FORWARD, t);
		for (unsigned int come = 1; come < 1U << count; come++)
			TRY(MAKE_DUE, t, come);
	}
	for (unsigned int b = 0; b < 3 && may_cascade; b++)
		TRY(CASCADE, budgets[b]);
	for (unsigned int r = 1; r <= scene->ahead && latest < cursor - r + scene->ahead; r++)
		TRY(REWIND, r);
	if (count)
		TRY(EVICT);
	if (levels && !count)
		TRY(REMOVE_LEVELS);
	if (!levels && scene->geo.levels)
		TRY(ADD_LEVELS);

	arena = expanded;
	if (all || expanded_number % END_OF == 0)
		try_ends(expanded_number % ENDS_OF == 0);
}

/* ---- What led to a failure ---- */

static char letter(const struct timer *t)
{
	return 'A' + (t - timers);
}

/* Ticks count from where the wheel begins. */
static const char *tick_text(u64 tick)
{
	static char text[40];

	if (tick > HTW_NEVER - 10)
		snprintf(text, sizeof(text), "HTW_NEVER - %d", (int)(HTW_NEVER - tick));
	else if (tick > HTW_LAST_TICK - 10)
		snprintf(text, sizeof(text), "HTW_LAST_TICK + %d", (int)(tick - HTW_LAST_TICK));
	else
		snprintf(text, sizeof(text), "%lld", (long long)(tick - ORIGIN));
	return text;
}

static void print_call(struct call call)
{
	static const char * const acts[ACTS] = {
		[NOTHING] = "",
		[AGAIN_PAST] = "; the first is started again for its tick",
		[AGAIN_NOW] = "; the first is started again for now",
		[AGAIN_NEXT] = "; the first is started again for the tick after now",
		[AGAIN_FAR] = "; the first is started again as far as possible",
		[STOP_FIRST] = "; then stop the next",
		[STOP_LAST] = "; then stop the last",
		[RESTART_FIRST_PAST] = "; then restart the next for the tick that has expired",
		[RESTART_FIRST_FAR] = "; then restart the next as far as possible",
		[RESTART_LAST_PAST] = "; then restart the last for the tick that has expired",
		[RESTART_LAST_NOW] = "; then restart the last for now",
		[START_PAST] = "; then start another for the tick that has expired",
		[START_NOW] = "; then start another for now",
		[START_NEXT] = "; then start another for the tick after now",
	};
	struct timer *order[NODES];
	const char *now = tick_text(tick_of(call));

	in_order(order);
	switch (call.kind) {
	case START:
		printf("start %c for %s\n", letter(idle_timer(NULL)), now);
		break;
	case RESTART:
		printf("restart %c for %s\n", letter(order[call.a]), now);
		break;
	case STOP:
		printf("stop %c\n", letter(order[call.a]));
		break;
	case EXPIRE:
		printf("expire one by %s, budget %u\n", now, call.b ?: ALL);
		break;
	case COLLECT:
		printf("collect one by %s, budget %u\n", now, call.b ?: ALL);
		break;
	case MAKE_DUE:
		printf("make due at %s:", now);
		for (unsigned int i = 0; i < NODES; i++)
			if (call.b >> i & 1)
				printf(" %c", letter(order[i]));
		printf("\n");
		break;
	case ADVANCE:
		printf("advance to %s, budget %u%s\n", now, call.b ?: ALL, acts[call.c]);
		break;
	case ADVANCE_LOOKING:
		printf("advance to %s, looking for work, budget %u%s\n", now, call.b ?: ALL,
		       acts[call.c]);
		break;
	case CASCADE:
		printf("cascade, budget %u\n", call.a ?: ALL);
		break;
	case FORWARD:
		printf("forward to %s\n", now);
		break;
	case REWIND:
		printf("rewind to %s\n", now);
		break;
	case EVICT:
		printf("evict one\n");
		break;
	case ADD_LEVELS:
		printf("add levels\n");
		break;
	case REMOVE_LEVELS:
		printf("remove levels\n");
		break;
	}
}

/* Print the calls that led to the failure. */
static void print_trace(void)
{
	static struct call trace[1024];
	unsigned int count = 0;

	trace[count++] = last_call;
	if (two_calls)
		trace[count++] = first_call;
	for (u32 s = expanded_number; s && count < 1024; s = states[s].parent)
		trace[count++] = states[s].call;
	printf("    a wheel is initialized at %d\n", -1);
	arena = origin;
	while (count--) {
		printf("    ");
		print_call(trace[count]);
		if (count) {
			make(trace[count]);
			htw_wheel_next(w);
		}
	}
	if (last_was_new)
		printf("    the state is checked, and the wheel is emptied\n");
	printf("    FAILED: %s\n", failure);
}

/* A wrong pointer, or a call that does not end. */
static void on_signal(int signal)
{
	static u64 calls_before;

	if (signal == SIGVTALRM && (!exploring || calls_made != calls_before)) {
		calls_before = calls_made;
		return;
	}
	failure = signal == SIGVTALRM ? "a call does not end" : "memory access";
	print_trace();
	printf("0 passed, 1 failed\n");
	fflush(stdout);
	_exit(1);
}

static unsigned int common_multiple(unsigned int a, unsigned int b)
{
	unsigned int m = a;

	while (m % b)
		m += a;
	return m;
}

/* A wheel may begin at any tick. */
static void begin_at_any_tick(void)
{
	htw_wheel_init(w, ORIGIN);
	for (unsigned int i = 0; i < ENDS; i++) {
		const u64 tick = end_tick(i);

		htw_wheel_init(w, tick);
		CHECK(w->cursor == min(tick, HTW_LAST_TICK) + 1);
		CHECK(htw_wheel_next(w) == HTW_NEVER);
		check_state();
	}
}

static void begin(void)
{
	const u64 kinds = sizeof(calls);

	digits = scene->digits;
	block = 1U << (HTW_DIGIT_BITS * digits);
	period = block;
	if (scene->geo.levels) {
		unsigned int ring = 2;

		for (unsigned int l = 0; l < scene->geo.levels; l++)
			ring *= scene->geo.slots[l];
		period = common_multiple(period, ring);
		CHECK(htw_geometry_bytes(&scene->geo) <= MEMORY);
	}
	memset(calls, 0, kinds);
	nr_states = 0;
	cut = 0;
	end_calls = 0;
	two_calls = false;
	if (table)
		memset(table, 0, table_size * sizeof(*table));
	depth = 0;
	memset(&arena, 0, sizeof(arena));
	memset(arena.memory, 0xa5, sizeof(arena.memory));
	begin_at_any_tick();
	htw_wheel_init(w, ORIGIN / period * period - 1);
	origin = arena;
	levels_added = arena;
	if (scene->geo.levels) {
		CHECK(htw_wheel_add_levels(w, &scene->geo, arena.memory, sizeof(arena.memory)));
		w->search = scene->search;
		levels_added = arena;
		arena = origin;
	}
}

static void explore(void)
{
	struct key k;

	key(&k);
	check_state();
	new_state(&k, 0, (struct call){ 0 });
	present.size = 0;
	following.size = 0;
	keep(&following);
	expanded_number = 0;
	while (following.size && nr_states < limit) {
		const struct copies swap = present;

		present = following;
		following = swap;
		following.size = 0;
		for (size_t at = 0; at < present.size && nr_states < limit; expanded_number++) {
			at = put_back(&present, at);
			/* What was kept is what was found, not what a check has left. */
			key(&k);
			CHECK(!memcmp(&k, &states[expanded_number].key, sizeof(k)));
			expand();
		}
		depth++;
	}
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* Return: did all checks hold? */
static bool explore_scene(void)
{
	const double began = seconds();
	volatile bool ok = false;
	u64 made = 0;

	failure = NULL;
	if (!setjmp(broken)) {
		begin();
		exploring = true;
		explore();
		ok = true;
	}
	exploring = false;
	for (unsigned int i = 0; i < KINDS; i++)
		made += calls[i];
	printf("%s %s, %u nodes, ticks up to %u ahead: %u states", ok ? "ok" : "not ok",
	       scene->name, scene->nodes, scene->ahead, nr_states);
	if (ok && following.size)
		printf(", all after %u calls and some after %u", depth - 1, depth);
	else if (ok)
		printf(", which are all (no more after %u calls)", depth - 1);
	printf("; %llu calls, %llu beyond the base's bound, %llu with ticks at an end, %.1f s\n",
	       (unsigned long long)made, (unsigned long long)cut, (unsigned long long)end_calls,
	       seconds() - began);
	if (!ok) {
		if (!setjmp(broken))
			print_trace();
	}
	return ok;
}

int main(int argc, char **argv)
{
	/* By CPU time: the machine may be busy. */
	const struct itimerval watch = { { 1, 0 }, { 1, 0 } };
	unsigned int passed = 0, failures = 0;

	all = argc > 1 && !strcmp(argv[1], "all");
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGSEGV, on_signal);
	signal(SIGVTALRM, on_signal);
	setitimer(ITIMER_VIRTUAL, &watch, NULL);
	for (scene = scenes; scene < scenes + sizeof(scenes) / sizeof(*scenes); scene++) {
		if (scene->few != FEW || !scene->limits[all])
			continue;
		limit = scene->limits[all];
		if (explore_scene())
			passed++;
		else
			failures++;
	}
	printf("%u passed, %u failed\n", passed, failures);
	return failures || !passed;
}
