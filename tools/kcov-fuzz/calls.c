// SPDX-License-Identifier: GPL-2.0-only
#include "calls.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "../common/clock.h"
#include "ring.h"
#include "runs.h"
#include "scene.h"
#include "uring.h"

void calls_init(void)
{
	scene_init();
	uring_init();
	files_init();
}

/* A child makes the next calls, and this process those after them. */
static long run_fork(const __u64 *a)
{
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	scene.children = pid ? 1 : 0;
	scene.has_shared = true;
	scene.child_calls = 1 + a[0] % 8;
	if (!pid) {
		/* Both are shared: its parent may wait for a command while it runs. */
		scene_init();
		ring_forget();
	}
	return pid ? 0 : 1;
}

#define FD		{ ARG_FD, 0 }
#define BUFFER		{ ARG_BUFFER, 0 }
#define TIME		{ ARG_TIME, 0 }
#define ID		{ ARG_ID, 0 }
#define COUNT		{ ARG_COUNT, 0 }
#define PERIOD		{ ARG_PERIOD, 0 }
#define RARE		{ ARG_RARE, 0 }
#define RESERVED	{ ARG_RESERVED, 0 }
#define ANY		{ ARG_ANY, 0 }
#define SIZE		{ ARG_SIZE, 0 }
#define FLAGS(most)	{ ARG_FLAGS, most }
#define BELOW(most)	{ ARG_BELOW, most }

/*
 * The errors are those that htw.h and the manuals name; EINTR only for calls that sleep, or
 * that end early when io_uring has work for this task.
 */
const struct call_type call_types[] = {
	{ "open", 20, { FD, BELOW(8), BELOW(2) }, run_open, { ENOMEM } },
	{ "close", 8, { FD }, run_close, { 0 } },
	{ "dup", 4, { FD, FD }, run_dup, { 0 } },
	{ "setup", 20,
	  { FD, FLAGS(SETUP_FLAGS), { ARG_CLOCK, 0 }, BELOW(7), { ARG_SLOTS, 0 }, COUNT, BELOW(8),
	    BUFFER }, run_setup, { EINVAL, EOPNOTSUPP, ERANGE, EPERM, EBUSY, EFAULT, EBADF } },
	{ "info", 4, { FD, BUFFER }, run_info, { EFAULT, EBADF } },
	{ "add", 60, { FD, TIME, PERIOD, PERIOD, ANY, FLAGS(ADD_FLAGS), RARE, BUFFER }, run_add,
	  { EINVAL, ENOSPC, EDQUOT, ENOMEM, EFAULT, EBADF } },
	{ "cancel", 30, { FD, ID, FLAGS(0), BUFFER }, run_cancel,
	  { ENOENT, EINVAL, EFAULT, EBADF } },
	{ "mod", 40,
	  { FD, ID, TIME, PERIOD, PERIOD, ANY, FLAGS(MOD_FLAGS), RARE, RESERVED, BUFFER },
	  run_mod, { EINVAL, ENOENT, EFAULT, EBADF } },
	{ "query", 12, { FD, ID, BUFFER }, run_query, { ENOENT, EFAULT, EBADF } },
	{ "vector", 30,
	  { FD, BELOW(64), COUNT, ANY, PERIOD, PERIOD, FLAGS(ADD_FLAGS | MOD_FLAGS), RARE,
	    BUFFER, BUFFER, BUFFER, BUFFER }, run_vector, { EINVAL, ENOMEM, EFAULT, EBADF } },
	{ "cancel_all", 6, { FD, FLAGS(0), RESERVED, BUFFER }, run_cancel_all,
	  { EINVAL, EFAULT, EBADF } },
	{ "list", 12,
	  { FD, COUNT, { ARG_CURSOR, 0 }, FLAGS(7), RESERVED, BUFFER, BUFFER }, run_list,
	  { EINVAL, EINTR, EFAULT, EBADF } },
	{ "harvest", 8,
	  { FD, COUNT, { ARG_CURSOR, 0 }, FLAGS(7), RESERVED, BUFFER, BUFFER }, run_harvest,
	  { EINVAL, EINTR, EFAULT, EBADF } },
	{ "advance", 12, { FD, TIME, FLAGS(HTW_F_ABS), BUFFER }, run_advance,
	  { EINVAL, EFAULT, EBADF } },
	{ "larger", 4, { FD, BELOW(11), BELOW(64), BELOW(16), BUFFER }, run_larger,
	  { E2BIG, EINVAL, ENOENT, ENOSPC, EDQUOT, ENOMEM, EBUSY, EFAULT, EBADF } },
	{ "ioctl", 2, { FD, BELOW(32), BELOW(1 << 16) }, run_ioctl, { ENOTTY } },
	{ "read", 24, { FD, SIZE, BUFFER }, run_read,
	  { EINVAL, EAGAIN, EINTR, EFAULT, EBADF } },
	{ "readv", 4, { FD, ANY }, run_readv, { EINVAL, EAGAIN, EINTR, EBADF } },
	{ "poll", 8, { FD, BELOW(4) }, run_poll, { EINTR } },
	{ "epoll", 8, { FD, BELOW(4), BELOW(4) }, run_epoll, { EEXIST, ENOENT } },
	{ "epoll_wait", 6, { BELOW(4) }, run_epoll_wait, { EINTR } },
	{ "async", 6, { FD, BELOW(2), BELOW(4), BELOW(4) }, run_async, { EPERM } },
	{ "mmap", 1, { FD, BELOW(1 << 16) }, run_mmap, { ENODEV, EACCES } },
	{ "fdinfo", 2, { FD }, run_fdinfo, { EACCES } },
	{ "debugfs", 1, { BELOW(2) }, run_debugfs, { EACCES } },
	{ "sleep", 24, { BELOW(3 * MSEC) }, run_sleep, { EINTR } },
	{ "set_clock", 3, { BELOW(6) }, run_set_clock, { EPERM, EINVAL } },
	{ "become", 4, { BELOW(4) }, run_become, { EPERM } },
	{ "ring", 8, { FLAGS(RING_FLAGS), BELOW(64), BELOW(64) }, run_ring,
	  { EINVAL, EOVERFLOW, ENOMEM } },
	{ "ring_close", 1, { { ARG_NONE, 0 } }, run_ring_close, { 0 } },
	{ "way", 12, { FLAGS(WAYS) }, run_way, { 0 } },
	{ "sqe", 3, { FD, BELOW(32), BELOW(1 << 16) }, run_sqe, { ENOTTY } },
	{ "submit", 8, { FD, COUNT, ANY, BELOW(10) }, run_submit, { 0 } },
	{ "reap", 3, { { ARG_NONE, 0 } }, run_reap, { 0 } },
	{ "fork", 3, { BELOW(8) }, run_fork, { 0 } },
};

const unsigned int nr_call_types = sizeof(call_types) / sizeof(*call_types);

/* Is the first argument a context that has to be open? */
static bool needs_fd(const struct call_type *type)
{
	return type->args[0].kind == ARG_FD && type->run != run_open;
}

static void check_error(const struct call_type *type, long ret)
{
	if (ret >= 0)
		return;
	for (unsigned int i = 0; type->errors[i]; i++)
		if (ret == -type->errors[i])
			return;
	wrong("it failed with %s, which is not documented", strerror(-ret));
}

static bool make_call(const struct call *call)
{
	const struct call_type *type = &call_types[call->number];
	long ret;

	scene.name = type->name;
	forget_now();
	if (needs_fd(type) && fd_of(call->args[0]) < 0)
		return false;
	ret = type->run(call->args);
	if (ret == SKIPPED)
		return false;
	check_error(type, ret);
	return true;
}

unsigned int calls_run(const struct program *p)
{
	unsigned int count = 0;
	bool is_child = false;

	scene_begin();
	for (unsigned int i = 0; i < p->count; i++) {
		const struct call *call = &p->calls[i];

		/* What children do is not reproducible enough to fork again. */
		if (call_types[call->number].run == run_fork) {
			if (scene.has_shared)
				continue;
			is_child = run_fork(call->args) > 0;
			if (!is_child)
				i += scene.child_calls;
			continue;
		}
		if (is_child && !scene.child_calls--)
			_exit(0);
		count += make_call(call);
	}
	if (is_child)
		_exit(0);
	scene_end();
	return count;
}
