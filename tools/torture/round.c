// SPDX-License-Identifier: GPL-2.0-only
#include "round.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/clock.h"
#include "../common/pass-fd.h"
#include "../common/random.h"
#include "context.h"
#include "drain.h"
#include "machine.h"
#include "reader.h"
#include "report.h"
#include "stranger.h"
#include "worker.h"

#define PLAYERS_MOST	3
#define WORKERS_MOST	(3 * CONTEXTS_MOST)
#define THREAD_STACK	(256 << 10)
/* A call that takes longer, on a slow and busy machine, does not return. */
#define STALLED_MS	120000

struct player {
	pid_t pid;
	int socket;
};

/**
 * struct round - a round, chosen before its processes are forked
 * @contexts: the contexts
 * @nr_contexts: number of those
 * @workers: their workers
 * @nr_workers: number of those
 * @readers: their readers
 * @nr_readers: number of those
 * @players: the processes that the threads belong to: each every so manyth of both
 * @nr_players: number of those
 */
struct round {
	struct context contexts[CONTEXTS_MOST];
	unsigned int nr_contexts;
	struct worker workers[WORKERS_MOST];
	unsigned int nr_workers;
	struct reader readers[CONTEXTS_MOST * READERS_MOST];
	unsigned int nr_readers;
	struct player players[PLAYERS_MOST];
	unsigned int nr_players;
};

struct round_counts *round_counts;

bool round_init(void)
{
	round_counts = mmap(NULL, sizeof(*round_counts), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return round_counts != MAP_FAILED;
}

static void choose_threads(struct round *r, struct context *c, __u64 *random, __u32 *account)
{
	static const __u32 sizes[] = { 8, 64, 64, 300, 300, 1500 };
	unsigned int i;

	c->first = *account;
	for (i = 0; i < c->workers; i++) {
		__u32 nr = sizes[xorshift64(random) % 6];

		if (nr > account_count() - *account)
			nr = account_count() - *account;
		if (!nr)
			break;
		r->workers[r->nr_workers++] = (struct worker){
			.context = c,
			.first = *account,
			.nr = nr,
			.random = xorshift64(random),
			.cpus = machine_cpus(),
		};
		*account += nr;
	}
	c->nr_accounts = *account - c->first;
	for (i = 0; i < c->nr_readers; i++)
		r->readers[r->nr_readers++] = (struct reader){
			.context = c,
			.kind = c->readers[i],
			.random = xorshift64(random),
		};
}

static void choose(struct round *r, const struct round_options *options, __u64 *random)
{
	const struct choices choices = {
		.set_clock = options->set_clock,
		.uring = options->uring,
	};
	__u32 account = 0;

	r->nr_players = 1 + xorshift64(random) % PLAYERS_MOST;
	/* Few more often than many. */
	r->nr_contexts = 1 + xorshift64(random) % (1 + xorshift64(random) % CONTEXTS_MOST);
	for (unsigned int i = 0; i < r->nr_contexts; i++) {
		struct context *c = &r->contexts[i];
		char text[512];

		context_choose(c, i, random, &choices);
		choose_threads(r, c, random, &account);
		if (options->verbose) {
			context_describe(c, text, sizeof(text));
			report_say("%s", text);
		}
	}
}

static pthread_t start_thread(void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;
	int ret;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, THREAD_STACK);
	ret = pthread_create(&thread, &attr, run, arg);
	if (ret)
		report_broken("pthread_create: %s", strerror(ret));
	return thread;
}

/* A process that uses the contexts, which it gets over its socket. */
static void play(struct round *r, unsigned int number)
{
	const int socket = r->players[number].socket;
	pthread_t workers[WORKERS_MOST], readers[CONTEXTS_MOST * READERS_MOST];
	unsigned int i;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	for (i = 0; i < r->nr_contexts; i++)
		context_use(&r->contexts[i], htw_receive_fd(socket));
	for (i = number; i < r->nr_readers; i += r->nr_players)
		readers[i] = start_thread(reader_run, &r->readers[i]);
	for (i = number; i < r->nr_workers; i += r->nr_players)
		workers[i] = start_thread(worker_run, &r->workers[i]);
	for (i = number; i < r->nr_workers; i += r->nr_players)
		pthread_join(workers[i], NULL);
	if (write(socket, "", 1) != 1)
		report_broken("write to a socket: %s", strerror(errno));
	for (i = number; i < r->nr_readers; i += r->nr_players)
		pthread_join(readers[i], NULL);
	_exit(0);
}

static void start_players(struct round *r)
{
	for (unsigned int i = 0; i < r->nr_players; i++) {
		struct player *p = &r->players[i];
		int sockets[2];

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets))
			report_broken("socketpair: %s", strerror(errno));
		p->socket = sockets[1];
		p->pid = fork();
		if (p->pid < 0)
			report_broken("fork: %s", strerror(errno));
		if (!p->pid)
			play(r, i);
		close(sockets[1]);
		p->socket = sockets[0];
	}
	for (unsigned int i = 0; i < r->nr_contexts; i++) {
		context_open(&r->contexts[i]);
		for (unsigned int k = 0; k < r->nr_players; k++)
			if (!htw_send_fd(r->players[k].socket, r->contexts[i].fd))
				report_broken("a descriptor could not be sent: %s",
					      strerror(errno));
	}
}

/* Wait until the workers of all players have ended. */
static bool join_workers(struct round *r)
{
	worker_stop_all(true);
	for (unsigned int i = 0; i < r->nr_players; i++) {
		struct pollfd pfd = { .fd = r->players[i].socket, .events = POLLIN };
		char c;

		int ret = poll(&pfd, 1, STALLED_MS);

		if (ret != 1 || read(pfd.fd, &c, 1) != 1) {
			report_violation(ret ? "a process died" : "a call did not return");
			return false;
		}
	}
	return true;
}

static void end_players(struct round *r, bool force)
{
	for (unsigned int i = 0; i < r->nr_players; i++) {
		struct player *p = &r->players[i];
		int status;

		if (force)
			kill(p->pid, SIGKILL);
		if (waitpid(p->pid, &status, 0) != p->pid)
			report_broken("waitpid: %s", strerror(errno));
		if (status && !force)
			report_violation("a process ended with status %#x", status);
		close(p->socket);
	}
}

static void disturb(struct round *r, const struct round_options *options,
		    struct machine *machine, __u64 *random)
{
	struct strangers strangers = {
		.contexts = r->contexts,
		.nr_contexts = r->nr_contexts,
		.random = xorshift64(random),
	};
	const __u64 end = now_ns() + options->ns;

	*machine = (struct machine){
		.random = xorshift64(random),
		.cpus = machine_cpus(),
		.hotplug = options->hotplug,
		.set_clock = options->set_clock,
	};

	while (now_ns() < end && !report_violations()) {
		sleep_until(now_ns() + xorshift64(random) % (200 * MSEC));
		if (xorshift64(random) % 2)
			strangers_step(&strangers);
		else
			machine_step(machine);
	}
	strangers_end(&strangers);
	/* CPUs that are off stay off: their timers have to come all the same. */
	machine_restore_clock(machine);
	round_counts->hotplugs += machine->hotplugs;
	round_counts->clock_sets += machine->clock_sets;
	round_counts->killed += strangers.killed;
}

void round_run(const struct round_options *options)
{
	struct round *r = calloc(1, sizeof(*r));
	struct round_options own = *options;
	__u64 random = options->seed;
	struct machine machine;
	bool ok;

	if (!r)
		report_broken("no memory");
	/* In half of the rounds the real-time clock is not set, and its timers are exact, too. */
	own.set_clock = options->set_clock && xorshift64(&random) % 2;
	choose(r, &own, &random);
	worker_stop_all(false);
	start_players(r);
	disturb(r, &own, &machine, &random);
	/* After a violation there is nothing left to find out. */
	ok = !report_violations() && join_workers(r) && !report_violations() &&
	     drain_all(r->contexts, r->nr_contexts, options->stalled);
	machine_restore_cpus(&machine);
	end_players(r, !ok);
	for (unsigned int i = 0; i < r->nr_contexts; i++)
		round_counts->events += r->contexts[i].state->events;
	round_counts->contexts += r->nr_contexts;
	if (ok)
		drain_verify(r->contexts, r->nr_contexts);
	free(r);
}
