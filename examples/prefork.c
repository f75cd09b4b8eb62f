// SPDX-License-Identifier: MIT
/*
 * A prefork server: several processes share one descriptor and one set of
 * deadlines
 *
 * Each of them moves the deadlines of many connections by one call: putting a
 * timer off by a store (htw_put_off()) is for a process that reads all of its
 * timers' events. Each expiration goes to one process and wakes only it. A
 * worker that is killed loses nothing: a kept timer exists until it is stopped,
 * so those that the worker had read and not dealt with are found disarmed, and
 * are armed again.
 */
#include <libhtw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MSEC		1000000ULL
#define WORKERS		4
#define CONNECTIONS	20000
#define ACTIVE		2000	/* connections that a worker hears from in a turn */
#define IDLE		(300 * MSEC)
#define TALK		(1500 * MSEC)	/* how long connections are active */

struct worker {
	pid_t pid;
	/* Odd while the worker may hold events that it has not dealt with. */
	unsigned int turns;
	unsigned int ended;
	unsigned long moved;
};

/* Memory that the processes share besides the descriptor. */
struct shared {
	struct worker workers[WORKERS];
	uint64_t ids[CONNECTIONS];
	uint64_t heard[CONNECTIONS];
	unsigned int ended[CONNECTIONS];
	unsigned int again;
	uint64_t until;
};

static struct shared *shared;

static void check(int result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(-result));
	exit(1);
}

/* Time left until the connection is idle for too long. */
static uint64_t left(struct htw *timers, uint64_t c)
{
	const uint64_t now = htw_now(timers);
	const uint64_t until = __atomic_load_n(&shared->heard[c], __ATOMIC_RELAXED) + IDLE;

	return until > now ? until - now : 0;
}

static void end_connection(struct htw *timers, const struct htw_event *ev)
{
	const uint64_t c = ev->cookie;
	const uint64_t ns = left(timers, c);

	/* Another worker has heard something, and is about to move the deadline, or died before. */
	if (ns) {
		__atomic_fetch_add(&shared->again, 1, __ATOMIC_RELAXED);
		check(htw_rearm(timers, ev->id, ns), "htw_rearm");
		return;
	}
	/*
	 * Count first: if this process dies now, the one that finds the timer
	 * disarmed sees that the connection's end has been dealt with.
	 */
	__atomic_fetch_add(&shared->ended[c], 1, __ATOMIC_SEQ_CST);
	htw_stop(timers, shared->ids[c]);
}

static int work(int fd, struct worker *self, unsigned int number)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLEXCLUSIVE };
	uint64_t ids[ACTIVE], delays[ACTIVE];
	struct htw_event events[16];
	unsigned int c = number, i, nr;
	struct htw *timers;
	uint64_t now;
	int ep, n;

	/* The same timers. */
	check(htw_open_fd(&timers, dup(fd)), "htw_open_fd");
	ep = epoll_create1(EPOLL_CLOEXEC);
	/* EPOLLEXCLUSIVE: an expiration wakes one waiting process. */
	if (ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, htw_fd(timers), &event))
		return 1;
	for (;;) {
		/* All workers see activity on all connections. */
		now = htw_now(timers);
		for (i = nr = 0; i < ACTIVE && now < shared->until; i++) {
			c = (c + 7) % CONNECTIONS;
			if (__atomic_load_n(&shared->ended[c], __ATOMIC_RELAXED))
				continue;
			__atomic_store_n(&shared->heard[c], now, __ATOMIC_RELAXED);
			ids[nr] = shared->ids[c];
			delays[nr++] = IDLE;
		}
		/* Some may have ended meanwhile, by another worker. */
		n = htw_rearm_many(timers, ids, delays, nr, 0, NULL);
		check(n < 0 ? n : 0, "htw_rearm_many");
		self->moved += nr - n;
		epoll_wait(ep, &event, 1, now < shared->until ? 1 : 100);
		__atomic_fetch_add(&self->turns, 1, __ATOMIC_SEQ_CST);
		n = htw_read(timers, events, 16);
		for (i = 0; (int)i < n; i++) {
			end_connection(timers, &events[i]);
			self->ended++;
		}
		__atomic_fetch_add(&self->turns, 1, __ATOMIC_SEQ_CST);
		check(n < 0 ? n : 0, "htw_read");
	}
}

static pid_t start_worker(int fd, unsigned int number)
{
	struct worker *w = &shared->workers[number];
	pid_t pid = fork();

	if (!pid)
		_exit(work(fd, w, number));
	w->pid = pid;
	return pid;
}

static unsigned int all_ended(void)
{
	unsigned int c, n = 0;

	for (c = 0; c < CONNECTIONS; c++)
		n += !!__atomic_load_n(&shared->ended[c], __ATOMIC_RELAXED);
	return n;
}

/*
 * Arm timers that are disarmed and still so after each living worker has
 * finished its events: the worker that read them is dead.
 */
static unsigned int rescue(struct htw *timers)
{
	static struct htw_timer_info then[CONNECTIONS];
	unsigned int count = 0, rescued = 0, i, before;
	uint64_t cursor = 0;
	int n;

	while ((n = htw_list_in(timers, HTW_LIST_DISARMED, &cursor, then + count,
				CONNECTIONS - count)) > 0)
		count += n;
	check(n, "htw_list_in");
	for (i = 0; i < WORKERS; i++) {
		before = __atomic_load_n(&shared->workers[i].turns, __ATOMIC_SEQ_CST);
		while (before % 2 && before == __atomic_load_n(&shared->workers[i].turns,
							       __ATOMIC_SEQ_CST))
			usleep(1000);
	}
	for (i = 0; i < count; i++) {
		struct htw_timer_info now = { .id = then[i].id };

		if (htw_query(timers, &now) || now.state != HTW_STATE_DISARMED)
			continue;
		if (__atomic_load_n(&shared->ended[now.cookie], __ATOMIC_SEQ_CST)) {
			htw_stop(timers, now.id);	/* it died between count and stop */
		} else {
			check(htw_rearm(timers, now.id, left(timers, now.cookie)), "htw_rearm");
			rescued++;
		}
	}
	return rescued;
}

int main(void)
{
	const struct htw_add_args common = { .flags = HTW_F_ABS | HTW_F_KEEP };
	static uint64_t deadlines[CONNECTIONS], numbers[CONNECTIONS];
	unsigned int c, twice = 0, rescued = 0, i;
	unsigned long moved = 0;
	struct htw_info_args info;
	struct htw *timers;
	uint64_t now;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	check(htw_open(&timers, HTW_BACKEND_DEVICE, NULL), "htw_open");
	now = htw_now(timers);
	for (c = 0; c < CONNECTIONS; c++) {
		deadlines[c] = now + IDLE;
		numbers[c] = c;
		shared->heard[c] = now;
	}
	check(htw_add_many(timers, &common, deadlines, numbers, shared->ids, CONNECTIONS, NULL),
	      "htw_add_many");
	shared->until = now + TALK;

	for (i = 0; i < WORKERS; i++)
		if (start_worker(htw_fd(timers), i) < 0)
			return 1;
	/* Kill one worker after another, and start another in its place. */
	while (all_ended() < CONNECTIONS) {
		const unsigned int victim = i++ % WORKERS;

		usleep(200000);
		kill(shared->workers[victim].pid, SIGKILL);
		waitpid(shared->workers[victim].pid, NULL, 0);
		/* It holds no events any more. */
		shared->workers[victim].turns &= ~1u;
		rescued += rescue(timers);
		if (start_worker(htw_fd(timers), victim) < 0)
			return 1;
	}
	for (i = 0; i < WORKERS; i++) {
		kill(shared->workers[i].pid, SIGKILL);
		waitpid(shared->workers[i].pid, NULL, 0);
		shared->workers[i].turns &= ~1u;
		moved += shared->workers[i].moved;
	}
	rescued += rescue(timers);
	for (c = 0; c < CONNECTIONS; c++)
		twice += shared->ended[c] != 1;
	check(htw_info(timers, &info), "htw_info");
	printf("%u connections, moved %lu times by %d workers; %u did not end exactly once\n",
	       CONNECTIONS, moved, WORKERS, twice);
	printf("%u rescued from dead workers, %u armed again, %llu timers left\n", rescued,
	       shared->again, (unsigned long long)info.timers);
	htw_close(timers);
	return twice || info.timers;
}
