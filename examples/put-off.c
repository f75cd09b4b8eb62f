// SPDX-License-Identifier: MIT
/*
 * A hundred thousand connections, each with a timeout that is put off at each
 * message: by a store, without a system call or a lock
 *
 * Most connections stay active, some are closed by their peers, and a few fall
 * silent and time out.
 */
#include <libhtw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECTIONS	100000
#define SILENT		1000			/* one connection in SILENT falls silent */
#define CLOSED		10			/* one in CLOSED is closed by its peer */
#define IDLE		(500 * HTW_MSEC)	/* a connection is closed after so long a silence */
#define RUN		(3000 * HTW_MSEC)

struct connection {
	uint64_t timeout;	/* id of its timer; zero: the connection is gone */
	uint64_t heard;		/* only for the checks below */
};

static struct connection connections[CONNECTIONS];

static void check(int result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(-result));
	exit(1);
}

static void accept_connection(struct htw *timers, struct connection *c)
{
	c->heard = htw_now(timers);
	check(htw_timeout(timers, IDLE, (uintptr_t)c, &c->timeout), "htw_timeout");
}

/* @now: read once for all messages of a turn. */
static void message(struct htw *timers, struct connection *c, uint64_t now)
{
	c->heard = now;
	/* It would be -ENOENT if the timeout had been read before; the connection is gone then. */
	check(htw_put_off_inline(timers, c->timeout, now + IDLE), "htw_put_off");
}

static void peer_has_closed(struct htw *timers, struct connection *c)
{
	/*
	 * It does not time out any more, also if it was due, and c could be freed.
	 * It would be -ENOENT if the timeout had been read before, as above.
	 */
	check(htw_stop(timers, c->timeout), "htw_stop");
	c->timeout = 0;
}

static void time_out(const struct htw_event *event, unsigned long *wrong)
{
	struct connection *c = (struct connection *)(uintptr_t)event->cookie;

	*wrong += c->timeout != event->id || event->taken < c->heard + IDLE;
	c->timeout = 0;
}

int main(void)
{
	unsigned long messages = 0, closed = 0, timed_out = 0, wrong = 0;
	unsigned int next = 0, left = 0, i;
	struct htw_event events[64];
	struct htw *timers;
	uint64_t now, end;
	int n;

	check(htw_open(&timers, HTW_BACKEND_ANY, NULL), "htw_open");
	for (i = 0; i < CONNECTIONS; i++)
		accept_connection(timers, &connections[i]);

	end = htw_now(timers) + RUN;
	while ((now = htw_now(timers)) < end || timed_out < CONNECTIONS / SILENT) {
		/* Some of the messages, in turn, so that each connection has some in time. */
		for (i = 0; i < 20000 && now < end; i++) {
			next = (next + 1) % CONNECTIONS;
			struct connection *c = &connections[next];

			if (!c->timeout || next % SILENT == 0)
				continue;
			if (next % CLOSED == 1 && now > end - RUN / 2) {
				peer_has_closed(timers, c);
				closed++;
				continue;
			}
			message(timers, c, now);
			messages++;
		}

		/* Those that were put off are started again here, and are not returned. */
		n = htw_read(timers, events, 64);
		check(n < 0 ? n : 0, "htw_read");
		for (i = 0; (int)i < n; i++)
			time_out(&events[i], &wrong);
		timed_out += n;
	}

	for (i = 0; i < CONNECTIONS; i++) {
		left += !!connections[i].timeout;
		wrong += i % SILENT == 0 && connections[i].timeout;
	}
	printf("%lu messages; of %u connections %lu were closed, %lu timed out, %u are left;"
	       " %lu wrong\n", messages, CONNECTIONS, closed, timed_out, left, wrong);
	htw_close(timers);
	return wrong ? 1 : 0;
}
