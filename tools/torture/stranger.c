// SPDX-License-Identifier: GPL-2.0-only
#include "stranger.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/clock.h"
#include "../common/htw-client.h"
#include "../common/random.h"
#include "report.h"

/* Timers of strangers are due within this time. */
#define SOON		(300 * MSEC)

static __u64 cookie(__u64 *random)
{
	return COOKIE_STRANGER << 56 | xorshift64(random) >> 8;
}

/* Calls on a context that is accounted for by others. */
static void meddle(const struct context *c, __u64 *random)
{
	struct htw_timer_info entries[16];
	__u64 ids[16];

	for (;;) {
		const __u64 n = 1 + xorshift64(random) % 16;
		struct htw_list_args list = htw_list_of(entries, 16);
		__u64 started = 0;

		if (c->strangers)
			started = htw_start_many(c->fd, context_time_before(c) +
						 xorshift64(random) % SOON, cookie(random), n, ids);
		htw_stop_many(c->fd, ids, started / 2);
		htw_call(c->fd, HTW_LIST, &list);
		htw_poll(c->fd, xorshift64(random) % 3);
	}
}

/* All that a program can do to its own context, with as many timers as it takes to be slow. */
static void live_alone(const struct context *like, __u64 *random)
{
	struct htw_event events[64];
	struct context own = *like;

	own.fd = -1;
	context_open(&own);
	if (!fork())
		meddle(&own, random);
	for (;;) {
		struct htw_cancel_all_args all = { 0 };
		__u64 ids[256], now = context_time_before(&own);
		__u64 n = htw_start_many(own.fd, now + xorshift64(random) % SOON, 0, 256, ids);

		htw_stop_many(own.fd, ids, xorshift64(random) % (n + 1));
		if (htw_poll(own.fd, 1) == POLLIN)
			htw_read(own.fd, events, 64);
		if (own.clock == (int)HTW_CLOCK_MANUAL)
			htw_advance(own.fd, SOON / 8, 0);
		if (xorshift64(random) % 64 == 0)
			htw_call(own.fd, HTW_CANCEL_ALL, &all);
	}
}

static void stranger_run(const struct strangers *s, __u64 random)
{
	const struct context *c = &s->contexts[xorshift64(&random) % s->nr_contexts];

	setpgid(0, 0);
	if (xorshift64(&random) % 2)
		live_alone(c, &random);
	if (c->uid && setresuid(c->uid, c->uid, c->uid))
		_exit(1);
	meddle(c, &random);
}

static void kill_one(struct strangers *s, pid_t *pid)
{
	/* With what it has forked. */
	kill(-*pid, SIGKILL);
	kill(*pid, SIGKILL);
	if (waitpid(*pid, NULL, 0) != *pid)
		report_broken("waitpid: %s", strerror(errno));
	*pid = 0;
	s->killed++;
}

void strangers_step(struct strangers *s)
{
	pid_t *pid = &s->pids[xorshift64(&s->random) % STRANGERS_MOST];
	__u64 random = xorshift64(&s->random);

	if (*pid) {
		kill_one(s, pid);
		return;
	}
	*pid = fork();
	if (*pid < 0)
		report_broken("fork: %s", strerror(errno));
	if (!*pid)
		stranger_run(s, random);
	/* Here as well as there, so that it is done when the process is killed. */
	setpgid(*pid, *pid);
}

void strangers_end(struct strangers *s)
{
	for (int i = 0; i < STRANGERS_MOST; i++)
		if (s->pids[i])
			kill_one(s, &s->pids[i]);
}
