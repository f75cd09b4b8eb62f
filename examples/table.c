// SPDX-License-Identifier: MIT
/*
 * A hundred thousand connections, each with a timeout that moves with each
 * activity: a store to memory, no system call
 *
 * Most connections stay active; a few fall silent and time out.
 */
#include <libhtw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MSEC		1000000ULL
#define CONNECTIONS	100000
#define SILENT		1000	/* one connection in SILENT falls silent */
#define IDLE		(500 * MSEC)
#define RUN		(3000 * MSEC)

static uint64_t ids[CONNECTIONS], deadlines[CONNECTIONS], numbers[CONNECTIONS];
static uint64_t heard[CONNECTIONS];	/* only for the checks below */
static unsigned char timed_out[CONNECTIONS];

static void check(int result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(-result));
	exit(1);
}

int main(void)
{
	unsigned long puts = 0, wrong = 0;
	unsigned int gone = 0, next = 0, i;
	uint64_t now, begin, end;
	struct htw_event events[64];
	struct htw *timers;
	int n;

	check(htw_open(&timers, HTW_BACKEND_DEVICE, NULL), "htw_open");
	check(htw_map_table(timers), "htw_map_table");
	begin = htw_now(timers);
	for (i = 0; i < CONNECTIONS; i++) {
		deadlines[i] = begin + 2 * IDLE;	/* starting all of them takes a moment */
		numbers[i] = i;
		heard[i] = begin + IDLE;
	}
	check(htw_add_many(timers, &(struct htw_add){ .flags = HTW_F_ABS }, deadlines, numbers, ids,
			   CONNECTIONS, NULL), "htw_add_many");

	end = htw_now(timers) + RUN;
	while ((now = htw_now(timers)) < end || gone < CONNECTIONS / SILENT) {
		/*
		 * Some of the activity, in turn, so that each connection is
		 * active often enough.
		 */
		for (i = 0; i < 20000 && now < end; i++) {
			next = (next + 1) % CONNECTIONS;
			if (timed_out[next] || next % SILENT == 0)
				continue;
			heard[next] = now;
			htw_put_off(timers, ids[next], now + IDLE);
			puts++;
		}
		/* Events of timers that were moved meanwhile are not returned. */
		while ((n = htw_read(timers, events, 64)) > 0) {
			for (i = 0; i < (unsigned int)n; i++) {
				const uint64_t c = events[i].cookie;

				wrong += timed_out[c]++ || events[i].fired < heard[c] + IDLE;
				/* With a table, an id is valid until it is stopped. */
				check(htw_stop(timers, ids[c]), "htw_stop");
				gone++;
			}
		}
		check(n, "htw_read");
	}
	for (i = 0; i < CONNECTIONS; i += SILENT)
		wrong += !timed_out[i];
	printf("moved %lu times; %u of %u connections timed out, %lu wrongly\n", puts, gone,
	       CONNECTIONS, wrong);
	htw_close(timers);
	return wrong ? 1 : 0;
}
