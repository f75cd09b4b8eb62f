// SPDX-License-Identifier: GPL-2.0-only
/*
 * POSIX timers: a signal for each expiration, read from a signalfd many at a
 * time
 *
 * The kernel finds a timer in a hash of 512 chains: each operation walks half a
 * chain, and creating a timer walks a whole one.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>
#include "bench.h"
#include "limits.h"

/* Creating a million takes many minutes. */
#define MOST		100000U

#define SIGNAL		SIGRTMIN

static int sigfd;

static const char *posix_missing(uint32_t pending)
{
	if (pending > MOST)
		return "each call walks a chain of 1/512 of all timers: minutes at a million";
	return raise_rlimit(RLIMIT_SIGPENDING, "RLIMIT_SIGPENDING", pending + BATCH);
}

static void posix_open(struct bench *b)
{
	sigset_t set;

	(void)b;
	sigemptyset(&set);
	sigaddset(&set, SIGNAL);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		die("posix: sigprocmask: %s", strerror(errno));
	sigfd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (sigfd < 0)
		die("posix: signalfd: %s", strerror(errno));
}

static void set_time(uint64_t handle, uint64_t ns)
{
	const struct itimerspec when = {
		.it_value = {
			.tv_sec = ns / SEC,
			.tv_nsec = ns % SEC,
		},
	};

	if (unlikely(timer_settime((timer_t)handle, 0, &when, NULL)))
		die("timer_settime: %s", strerror(errno));
}

static void posix_add(struct bench *b)
{
	uint32_t i;

	for (i = 0; i < b->pending; i++) {
		struct sigevent event = {
			.sigev_notify = SIGEV_SIGNAL,
			.sigev_signo = SIGNAL,
			.sigev_value.sival_int = i,
		};
		timer_t timer;

		if (unlikely(timer_create(CLOCK_MONOTONIC, &event, &timer)))
			die("timer_create number %u: %s", i, strerror(errno));
		b->handles[i] = (uintptr_t)timer;
		set_time(b->handles[i], b->delay[i]);
	}
}

static void posix_rearm(struct bench *b, uint32_t count)
{
	uint32_t k;

	for (k = 0; k < count; k++)
		set_time(b->handles[b->rearm_order[k]], b->later[k]);
}

static void posix_cancel(struct bench *b, uint32_t count)
{
	uint32_t k;

	for (k = 0; k < count; k++)
		set_time(b->handles[b->cancel_order[k]], 0);
}

static void posix_collect(struct bench *b)
{
	struct signalfd_siginfo info[BATCH];
	ssize_t n, i;
	uint64_t now;

	n = read(sigfd, info, sizeof(info));
	if (n < 0) {
		if (errno == EAGAIN)
			return;
		die("posix: reading signals: %s", strerror(errno));
	}
	n /= sizeof(info[0]);
	now = now_ns();
	for (i = 0; i < n; i++) {
		if (unlikely(info[i].ssi_code != SI_TIMER || info[i].ssi_overrun))
			die("posix: wrong signal: code %d", info[i].ssi_code);
		bench_expired(b, info[i].ssi_int, now);
	}
}

static void posix_close(struct bench *b)
{
	uint32_t i;

	/* Newest first: each is the first of its chain, so no chain is walked. */
	for (i = b->pending; i--;)
		if (unlikely(timer_delete((timer_t)b->handles[i])))
			die("timer_delete: %s", strerror(errno));
	close(sigfd);
}

const struct system system_posix = {
	.name = "posix",
	.missing = posix_missing,
	.open = posix_open,
	.add = posix_add,
	.rearm = posix_rearm,
	.cancel = posix_cancel,
	.collect = posix_collect,
	.close = posix_close,
};
