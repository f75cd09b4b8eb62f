// SPDX-License-Identifier: GPL-2.0-only
/*
 * Timers in the kernel, driven by a module (kernel/): htw's callouts,
 * timer_list, hrtimer
 *
 * The loops are in the module and check results as those in this program do.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "bench.h"
#include "htw_bench.h"

#define MODULE		"/lib/htw/htw_bench.ko"
#define DEVICE		"/dev/htw_bench"

static int fd;

static void unload(void)
{
	if (syscall(SYS_delete_module, "htw_bench", 0))
		fprintf(stderr, "htw-bench: cannot unload htw_bench: %s\n", strerror(errno));
}

/* Unloaded at exit: htw cannot be unloaded while this module uses it. */
static const char *load(void)
{
	int module = open(MODULE, O_RDONLY | O_CLOEXEC);

	if (module < 0)
		return "no " MODULE;
	if (syscall(SYS_finit_module, module, "", 0))
		die("loading %s: %s", MODULE, strerror(errno));
	close(module);
	atexit(unload);
	return NULL;
}

static const char *kernel_missing(uint32_t pending)
{
	(void)pending;
	return access(DEVICE, R_OK) ? load() : NULL;
}

static long call(unsigned long cmd, unsigned long arg, const char *doing)
{
	long ret = ioctl(fd, cmd, arg);

	if (unlikely(ret < 0))
		die("in the kernel: %s: %s", doing, errno == EBADMSG ?
		    "a timer was in a wrong state" : strerror(errno));
	return ret;
}

static void kernel_prepare(struct bench *b)
{
	const struct htw_bench_prepare prepare = {
		.pending = b->pending,
		.rearm_order = (uintptr_t)b->rearm_order,
		.cancel_order = (uintptr_t)b->cancel_order,
		.delay = (uintptr_t)b->delay,
		.later = (uintptr_t)b->later,
	};

	fd = open(DEVICE, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		die("%s: %s", DEVICE, strerror(errno));
	call(HTW_BENCH_PREPARE, (uintptr_t)&prepare, "preparing");
}

static void open_htw(struct bench *b)
{
	(void)b;
	call(HTW_BENCH_OPEN, HTW_BENCH_HTW, "opening");
}

static void open_timer_list(struct bench *b)
{
	(void)b;
	call(HTW_BENCH_OPEN, HTW_BENCH_TIMER_LIST, "opening");
}

static void open_hrtimer(struct bench *b)
{
	(void)b;
	call(HTW_BENCH_OPEN, HTW_BENCH_HRTIMER, "opening");
}

static void kernel_add(struct bench *b)
{
	(void)b;
	call(HTW_BENCH_ADD, 0, "adding");
}

static void kernel_rearm(struct bench *b, uint32_t count)
{
	(void)b;
	call(HTW_BENCH_REARM, count, "re-arming");
}

static void kernel_cancel(struct bench *b, uint32_t count)
{
	(void)b;
	call(HTW_BENCH_CANCEL, count, "cancelling");
}

/* The timers' functions have counted and checked the expirations. */
static void kernel_collect(struct bench *b)
{
	b->collected = call(HTW_BENCH_COLLECT, 0, "expiring");
}

static void kernel_close(struct bench *b)
{
	(void)b;
	call(HTW_BENCH_CLOSE, 0, "closing");
}

static void kernel_cleanup(struct bench *b)
{
	(void)b;
	close(fd);
}

#define KERNEL_SYSTEM(_name, _open)			\
{							\
	.name = _name,					\
	.missing = kernel_missing,			\
	.prepare = kernel_prepare,			\
	.open = _open,					\
	.add = kernel_add,				\
	.rearm = kernel_rearm,				\
	.cancel = kernel_cancel,			\
	.collect = kernel_collect,			\
	.close = kernel_close,				\
	.cleanup = kernel_cleanup,			\
}

const struct system system_htw_kernel = KERNEL_SYSTEM("htw-kernel", open_htw);
const struct system system_timer_list = KERNEL_SYSTEM("timer_list", open_timer_list);
const struct system system_hrtimer = KERNEL_SYSTEM("hrtimer", open_hrtimer);
