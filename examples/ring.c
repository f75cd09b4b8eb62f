// SPDX-License-Identifier: MIT
/*
 * Expirations without system calls: the kernel writes them to a ring,
 * htw_read() takes them from there
 *
 * A game server ticks every 10 ms and looks which of a hundred thousand spells
 * have ended. It never waits for the timers.
 */
#include <libhtw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MSEC		1000000ULL
#define SPELLS		100000
#define FRAME		(10 * MSEC)

static uint64_t deadlines[SPELLS], ids[SPELLS], numbers[SPELLS];
static unsigned char over[SPELLS];

static void check(int result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(-result));
	exit(1);
}

static void sleep_until(uint64_t ns)
{
	const struct timespec ts = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

int main(void)
{
	/* Room for about 40 ms of expirations; more are queued, none is lost. */
	const struct htw_setup setup = { .flags = HTW_SETUP_RING, .ring_entries = 4096 };
	unsigned int ended = 0, wrong = 0, frames = 0;
	struct htw_event events[256];
	struct htw *timers;
	uint64_t frame;
	int n, i;

	check(htw_open(&timers, HTW_BACKEND_DEVICE, &setup), "htw_open with a ring");
	srandom(1);
	for (i = 0; i < SPELLS; i++) {
		deadlines[i] = random() % (1000 * MSEC);
		numbers[i] = i;
	}
	/* Start all timers; the cookies are the spells' numbers. */
	check(htw_add_many(timers, NULL, deadlines, numbers, ids, SPELLS, NULL), "htw_add_many");

	for (frame = htw_now(timers); ended < SPELLS; frame += FRAME, frames++) {
		sleep_until(frame);
		while ((n = htw_read(timers, events, 256)) > 0) {
			for (i = 0; i < n; i++) {
				wrong += events[i].fired < events[i].deadline ||
					 over[events[i].cookie]++;
				ended++;
			}
		}
		check(n, "htw_read");
	}
	printf("%u spells ended in %u frames, %u of them too early or twice\n", ended, frames,
	       wrong);
	htw_close(timers);
	return wrong ? 1 : 0;
}
