// SPDX-License-Identifier: GPL-2.0-only
/*
 * What is done under each lock, counted by a plugin of the emulator
 *
 * Threads, one on each CPU, repeat an operation on timers of their own, on one
 * descriptor or on one each. The plugin (qemu/locks.c) first learns which cache
 * lines more than one of them uses, and then counts.
 */
#include <linux/htw.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>
#include "bench.h"
#include "htw.h"
#include "locks.h"
#include "report.h"
#include "workloads.h"

/* Of each thread, for each operation of one of the phases. */
#define TIMERS		4096U
#define PASSES		4U
#define EXPIRE_NS	(8 * MSEC)
#define POLL_MS		1
#define SYMBOLS_MAX	(1U << 19)

struct worker {
	struct bench b;
	unsigned int cpu;
	int fd;
	uint64_t due[TIMERS];
	_Atomic uint32_t *left;		/* events that it and those it shares with wait for */
	_Atomic uint32_t own_left;
	pthread_t thread;
};

struct operation {
	const char *name;
	void (*prepare)(struct worker *w);
	void (*run)(struct worker *w);
	void (*finish)(struct worker *w);
};

static struct worker workers[LOCKS_CPUS];
static unsigned int nr_workers;
static bool one_fd;
static pthread_barrier_t barrier;
static volatile uint8_t *commands, *values;

static void command(enum locks_command which, uint32_t value)
{
	values[value] = 1;
	commands[which] = 1;
}

static void *map_at(uint64_t address, size_t size)
{
	void *at = mmap((void *)address, size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

	if (at != (void *)address)
		die("locks: mmap: %s", strerror(errno));
	return at;
}

static int by_address(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Send the plugin the addresses of the functions for spinlocks, and of the module. */
static void send_addresses(void)
{
	static uint64_t addresses[SYMBOLS_MAX], locks[32];
	FILE *symbols = fopen("/proc/kallsyms", "r");
	unsigned int count = 0, nr_locks = 0, i;
	uint64_t address, module = 0, module_end = 0;
	char symbol[128], type, line[512];

	if (!symbols)
		die("locks: /proc/kallsyms: %s", strerror(errno));
	while (fgets(line, sizeof(line), symbols) &&
	       sscanf(line, "%" SCNx64 " %c %127s", &address, &type, symbol) == 3) {
		if (count == SYMBOLS_MAX)
			die("locks: too many symbols");
		addresses[count++] = address;
		if (strstr(line, "[htw]") && strchr("tT", type)) {
			module = module ? (address < module ? address : module) : address;
			module_end = address > module_end ? address : module_end;
		}
		if (!strncmp(symbol, "_raw_spin_", 10) && strchr("tT", type) &&
		    nr_locks < ARRAY_SIZE(locks))
			locks[nr_locks++] = address;
	}
	fclose(symbols);
	if (!module || !nr_locks || !locks[0])
		die("locks: no addresses of functions in /proc/kallsyms");

	qsort(addresses, count, sizeof(addresses[0]), by_address);
	for (i = 0; i < nr_locks; i++) {
		uint64_t *next = bsearch(&locks[i], addresses, count, sizeof(addresses[0]),
					 by_address);

		while (next < addresses + count - 1 && *next == locks[i])
			next++;
		command(LOCKS_FUNCTION, (uint32_t)locks[i]);
		command(LOCKS_FUNCTION_END, (uint32_t)*next);
	}
	command(LOCKS_MODULE, (uint32_t)module);
	command(LOCKS_MODULE_END, (uint32_t)module_end);
}

static void nothing(struct worker *w)
{
	(void)w;
}

static void add(struct worker *w)
{
	htw_many_add(w->fd, &w->b);
}

static void rearm(struct worker *w)
{
	htw_many_rearm(w->fd, &w->b, TIMERS);
}

static void cancel(struct worker *w)
{
	htw_many_cancel(w->fd, &w->b, TIMERS);
}

static void rearm_each(struct worker *w)
{
	for (unsigned int i = 0; i < TIMERS; i++)
		if (htw_move(w->fd, w->b.handles[w->b.rearm_order[i]], w->b.later[i], 0))
			die("locks: HTW_MOD: %s", strerror(errno));
}

/* Add timers that are due within EXPIRE_NS. On one descriptor, any thread may read their events. */
static void add_due(struct worker *w)
{
	const uint64_t now = now_ns();

	for (unsigned int i = 0; i < TIMERS; i++)
		w->due[i] = now + (i + 1) * (EXPIRE_NS / TIMERS);
	htw_many_start(w->fd, (struct htw_vector_args){ .flags = HTW_F_ABS }, w->due, TIMERS,
		       w->b.handles);
}

static void expire(struct worker *w)
{
	struct pollfd poll_fd = { .fd = w->fd, .events = POLLIN };
	struct htw_event events[BATCH];
	ssize_t size;

	while (atomic_load(w->left)) {
		size = read(w->fd, events, sizeof(events));
		if (size > 0)
			atomic_fetch_sub(w->left, size / sizeof(events[0]));
		else if (errno != EAGAIN || poll(&poll_fd, 1, POLL_MS) < 0)
			die("locks: read: %s", strerror(errno));
	}
}

static const struct operation operations[] = {
	{ "add", nothing, add, cancel },
	{ "rearm", add, rearm, cancel },
	{ "cancel", add, cancel, nothing },
	{ "expire", add_due, expire, nothing },
	{ "rearm-single", add, rearm_each, cancel },
};

/* Wait for all threads; then the first one sends a command, and the others wait for it. */
static void tell(struct worker *w, enum locks_command which, uint32_t ops)
{
	pthread_barrier_wait(&barrier);
	if (w == workers)
		command(which, ops);
	pthread_barrier_wait(&barrier);
}

static void repeat(struct worker *w, const struct operation *op, enum locks_command mode)
{
	for (unsigned int i = 0; i < PASSES; i++) {
		pthread_barrier_wait(&barrier);
		atomic_fetch_add(w->left, TIMERS);
		op->prepare(w);
		tell(w, mode, PASSES * TIMERS);
		op->run(w);
		tell(w, LOCKS_PAUSE, 0);
		atomic_store(w->left, 0);
		op->finish(w);
	}
}

static void *work(void *arg)
{
	struct worker *w = arg;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(w->cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("locks: sched_setaffinity: %s", strerror(errno));
	for (unsigned int i = 0; i < ARRAY_SIZE(operations); i++) {
		const struct operation *op = &operations[i];

		if (w == workers) {
			char name[64];

			snprintf(name, sizeof(name), "%s %s %u", op->name,
				 one_fd ? "one-fd" : "own-fds",
				 nr_workers);
			progress("locks: %s", name);
			for (const char *c = name; *c; c++)
				command(LOCKS_NAME, (unsigned char)*c);
		}
		repeat(w, op, LOCKS_LEARN);
		repeat(w, op, LOCKS_COUNT);
		tell(w, LOCKS_WRITE, PASSES * TIMERS * nr_workers);
	}
	return NULL;
}

static void run(void)
{
	static _Atomic uint32_t left;
	unsigned int i;

	for (i = 0; i < nr_workers; i++) {
		struct worker *w = &workers[i];

		w->fd = one_fd && i ? workers[0].fd :
			htw_open_device(TIMERS * nr_workers);
		w->left = one_fd ? &left : &w->own_left;
		if (i && pthread_create(&w->thread, NULL, work, w))
			die("locks: pthread_create failed");
	}
	work(workers);
	for (i = 1; i < nr_workers; i++)
		pthread_join(workers[i].thread, NULL);
	for (i = 0; i < (one_fd ? 1 : nr_workers); i++)
		close(workers[i].fd);
}

void workload_locks(void)
{
	nr_workers = get_nprocs();
	if (nr_workers < 2 || nr_workers > LOCKS_CPUS)
		die("locks: needs 2 to %u CPUs", LOCKS_CPUS);
	if (pthread_barrier_init(&barrier, NULL, nr_workers))
		die("locks: pthread_barrier_init failed");
	commands = map_at(LOCKS_COMMAND, LOCKS_COMMAND_SIZE);
	values = map_at(LOCKS_VALUE, LOCKS_VALUE_SIZE);
	send_addresses();
	for (unsigned int i = 0; i < nr_workers; i++) {
		workers[i].cpu = i;
		bench_init(&workers[i].b, TIMERS);
	}
	one_fd = true;
	run();
	one_fd = false;
	run();
	for (unsigned int i = 0; i < nr_workers; i++)
		bench_exit(&workers[i].b);
}
