// SPDX-License-Identifier: GPL-2.0-only
#include "stranger.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
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
	struct htw_query entries[16];
	struct htw_op ops[16];

	for (;;) {
		unsigned int n = 1 + xorshift64(random) % 16;
		struct htw_list list = htw_list_of(entries, 16);

		for (unsigned int i = 0; c->strangers && i < n; i++)
			ops[i] = htw_op_add(context_time_before(c) + xorshift64(random) % SOON,
					    cookie(random));
		if (c->strangers && !htw_batch_all(c->fd, ops, n)) {
			for (unsigned int i = 0; i < n; i += 2)
				if (!ops[i].result)
					htw_stop_flags(c->fd, ops[i].add.id, HTW_CANCEL_DISCARD);
		}
		htw_call(c->fd, HTW_LIST, &list);
		htw_poll(c->fd, xorshift64(random) % 3);
		if (c->setup.ring_entries) {
			size_t size = (HTW_RING_SIZE(c->setup.ring_entries) + 4095) & -4096UL;
			void *p = mmap(NULL, size, PROT_READ, MAP_SHARED, c->fd, HTW_OFF_RING);

			if (p != MAP_FAILED && xorshift64(random) % 2)
				munmap(p, size);
		}
	}
}

/* All that a program can do to its own context, with as many timers as it takes to be slow. */
static void live_alone(const struct context *like, __u64 *random)
{
	struct htw_event events[64];
	struct context own = *like;

	own.fd = -1;
	own.ring = NULL;
	own.words = NULL;
	context_open(&own);
	context_map(&own);
	if (!fork())
		meddle(&own, random);
	for (;;) {
		__u64 ids[256], now = context_time_before(&own);
		__u64 n = htw_start_many(own.fd, now + xorshift64(random) % SOON, 0, 256, ids);

		htw_stop_many(own.fd, ids, xorshift64(random) % (n + 1));
		if (own.words)
			for (__u64 i = 0; i < n; i++)
				own.words[HTW_ID_SLOT(ids[i]) % 64] = now + SOON;
		if (own.ring)
			own.ring->head = xorshift64(random) % 4 ? own.ring->tail :
								  xorshift64(random);
		else if (htw_poll(own.fd, 1) == POLLIN)
			htw_read(own.fd, events, 64);
		if (own.clock == (int)HTW_CLOCK_MANUAL)
			htw_advance(own.fd, SOON / 8, 0);
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
