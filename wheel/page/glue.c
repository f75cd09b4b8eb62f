// SPDX-License-Identifier: MIT
/*
 * The wheel as WebAssembly, for a page: the functions that JavaScript calls
 *
 * JavaScript has no numbers of 64 bits that are quick to use, so ticks are passed
 * as double: the page does not go beyond 2^53. What is more than a number is left
 * in arrays, of which JavaScript asks the addresses.
 */
#include "look.h"

#define EXPORT(name)	__attribute__((export_name(#name))) name

#define TIMERS		4096
#define SLOTS		4096

struct timer {
	struct htw_node node;
	uint64_t period;	/* 0: expires once */
};

static struct htw_wheel wheel;
static uint64_t memory[HTW_GEOMETRY_WORDS(HTW_WHEEL_MAX_LEVELS, SLOTS)];
static struct timer timers[TIMERS];

/* Filled by JavaScript for reset() */
static uint32_t slots[HTW_WHEEL_MAX_LEVELS];
/* Filled by advance(): a timer, and the tick at which it was due, again and again */
static double fired[2 * TIMERS];
static uint32_t nr_fired;
/* Filled by look(): a timer, its level or place, and its bucket, again and again */
static int32_t places[3 * TIMERS];
static uint32_t nr_places;

void *memset(void *to, int byte, size_t size)
{
	for (char *at = to; size--; at++)
		*at = (char)byte;
	return to;
}

void *memcpy(void *to, const void *from, size_t size)
{
	char *at = to;

	for (const char *of = from; size--; of++)
		*at++ = *of;
	return to;
}

static double tick_out(uint64_t tick)
{
	return tick == HTW_NEVER ? -1 : (double)tick;
}

static int32_t id_of(const struct htw_node *n)
{
	return (int32_t)((const struct timer *)n - timers);
}

uint32_t *EXPORT(slots_at)(void)
{
	return slots;
}

double *EXPORT(fired_at)(void)
{
	return fired;
}

int32_t *EXPORT(places_at)(void)
{
	return places;
}

/* An empty wheel at tick 0, with so many levels. Return: the text of an error, or NULL. */
const char *EXPORT(reset)(uint32_t levels)
{
	struct htw_geometry geo = { .levels = levels };
	const char *error;

	for (uint32_t l = 0; l < levels && l < HTW_WHEEL_MAX_LEVELS; l++)
		geo.slots[l] = slots[l];
	error = levels ? htw_geometry_error(&geo) : NULL;
	if (!error && levels && htw_geometry_bytes(&geo) > sizeof(memory))
		error = "more slots than this page has memory for";
	if (error)
		return error;
	htw_wheel_init(&wheel, 0);
	for (uint32_t i = 0; i < TIMERS; i++)
		htw_node_init(&timers[i].node);
	if (levels)
		htw_wheel_add_levels(&wheel, &geo, memory, sizeof(memory));
	return NULL;
}

/* Return: was it started? */
bool EXPORT(start)(uint32_t id, double tick, double period)
{
	if (id >= TIMERS || htw_node_pending(&timers[id].node))
		return false;
	timers[id].period = (uint64_t)period;
	htw_wheel_start(&wheel, &timers[id].node, (uint64_t)tick);
	return true;
}

/* Return: was it pending? */
bool EXPORT(stop)(uint32_t id)
{
	if (id >= TIMERS || !htw_node_pending(&timers[id].node))
		return false;
	htw_wheel_stop(&wheel, &timers[id].node);
	return true;
}

static void expired(struct htw_node *n, void *arg)
{
	struct timer *t = HTW_CONTAINER_OF(n, struct timer, node);

	(void)arg;
	fired[2 * nr_fired] = id_of(n);
	fired[2 * nr_fired++ + 1] = (double)n->expires;
	if (t->period)
		htw_wheel_start(&wheel, n, n->expires + t->period);
}

/*
 * Tell the wheel the present tick. Return: the number of timers that have expired,
 * at most as many as there is room for: then call it again. An advance that finds
 * nothing due may leave what can be moved down to a later one; here it is seen at
 * once.
 */
uint32_t EXPORT(advance)(double now)
{
	unsigned int budget = TIMERS;

	nr_fired = 0;
	htw_wheel_advance(&wheel, (uint64_t)now, &budget, expired, NULL);
	budget = TIMERS;
	htw_wheel_cascade(&wheel, &budget);
	return nr_fired;
}

/* The next tick with work; -1: there is none */
double EXPORT(next)(void)
{
	return tick_out(htw_wheel_next(&wheel));
}

double EXPORT(pending)(void)
{
	return (double)htw_wheel_count(&wheel);
}

double EXPORT(moved)(void)
{
	return (double)wheel.cascades;
}

/* Where a level ends: timers of that tick and later ones are above */
double EXPORT(end_of)(uint32_t level)
{
	return tick_out(look_at_end(&wheel, level));
}

static void note_place(struct htw_node *n, int level, unsigned int bucket, void *arg)
{
	int32_t *to = &places[3 * nr_places++];

	(void)arg;
	to[0] = id_of(n);
	to[1] = level;
	to[2] = (int32_t)bucket;
}

/* Return: the number of timers in places */
uint32_t EXPORT(look)(void)
{
	nr_places = 0;
	look_at_all(&wheel, note_place, NULL);
	return nr_places;
}
