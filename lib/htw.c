// SPDX-License-Identifier: MIT
/* Functions of libhtw.h that are the same on all backends. */
#include "deadlines.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>

HTW_PUBLIC const char *htw_version(void)
{
	return LIBHTW_VERSION;
}

/*
 * Is this a child of the process that opened the handle? Nothing of it may be
 * used there, not even a lock: another thread may have held it at the fork.
 */
static bool is_forked(const struct htw *htw)
{
	return htw_is_forked(htw->process);
}

/* Whether the device is missing, or not permitted. */
static bool is_absent(int error)
{
	return error == -ENOENT || error == -ENODEV || error == -ENXIO ||
	       error == -EACCES || error == -EPERM;
}

static int open_any(struct htw **htw, enum htw_backend backend,
		    const struct htw_setup_args *setup)
{
	int fd, ret;

	switch (backend) {
	case HTW_BACKEND_DEVICE:
	case HTW_BACKEND_ANY:
		break;
	case HTW_BACKEND_PROCESS:
		return htw_process_open(htw, setup);
	default:
		return -EINVAL;
	}
	fd = htw_device_open();
	if (fd < 0)
		return backend == HTW_BACKEND_ANY && is_absent(fd) ?
			htw_process_open(htw, setup) : fd;
	ret = htw_device_set_up(htw, fd, setup);
	/* A device without the needed features counts as missing. */
	return ret == -ENOSYS && backend == HTW_BACKEND_ANY ? htw_process_open(htw, setup) : ret;
}

HTW_PUBLIC int htw_open(struct htw **htw, enum htw_backend backend,
			const struct htw_setup_args *setup)
{
	const int error = errno;
	int ret = open_any(htw, backend, setup);

	errno = error;
	return ret;
}

HTW_PUBLIC int htw_open_fd(struct htw **htw, int fd)
{
	const int error = errno;
	int ret = htw_device_take(htw, fd);

	errno = error;
	return ret;
}

HTW_PUBLIC void htw_close(struct htw *htw)
{
	int state;

	if (!htw)
		return;
	/* A thread that is cancelled in close() would leave the rest. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	htw->ops->close(htw);
	pthread_setcancelstate(state, NULL);
}

HTW_PUBLIC int htw_shard(struct htw **shard, struct htw *htw)
{
	if (is_forked(htw))
		return -EPERM;
	return htw->ops->shard ? htw->ops->shard(htw, shard) : -ENOTSUP;
}

HTW_PUBLIC enum htw_backend htw_backend(const struct htw *htw)
{
	return htw->ops->backend;
}

HTW_PUBLIC int htw_fd(const struct htw *htw)
{
	return htw->fd;
}

HTW_PUBLIC uint64_t htw_now(struct htw *htw)
{
	return htw->ops->now(htw);
}

HTW_PUBLIC int htw_info(struct htw *htw, struct htw_info_args *info)
{
	if (is_forked(htw))
		return -EPERM;
	return htw->ops->info(htw, info);
}

HTW_PUBLIC int htw_reserve(struct htw *htw, uint64_t count)
{
	if (is_forked(htw))
		return -EPERM;
	return htw->ops->reserve(htw, count);
}

static int start_one(struct htw *htw, struct htw_add_args *add, uint64_t *id)
{
	int ret = is_forked(htw) ? -EPERM : htw->ops->add(htw, add);

	if (!ret && id)
		*id = add->id;
	return ret;
}

HTW_PUBLIC int htw_after(struct htw *htw, uint64_t ns, uint64_t cookie,
			 uint64_t *id)
{
	struct htw_add_args add = { .deadline = ns, .cookie = cookie };

	return start_one(htw, &add, id);
}

HTW_PUBLIC int htw_timeout(struct htw *htw, uint64_t ns, uint64_t cookie,
			   uint64_t *id)
{
	struct htw_add_args add = { .deadline = ns, .cookie = cookie, .flags = HTW_F_PUT_OFF };

	return start_one(htw, &add, id);
}

HTW_PUBLIC int htw_at(struct htw *htw, uint64_t when, uint64_t cookie,
		      uint64_t *id)
{
	struct htw_add_args add = { .deadline = when, .cookie = cookie, .flags = HTW_F_ABS };

	return start_one(htw, &add, id);
}

HTW_PUBLIC int htw_every(struct htw *htw, uint64_t first, uint64_t interval,
			 uint64_t cookie, uint64_t *id)
{
	struct htw_add_args add = { .deadline = first, .interval = interval, .cookie = cookie };

	/* An interval of zero would mean a one-shot timer. */
	return interval ? start_one(htw, &add, id) : -EINVAL;
}

HTW_PUBLIC int htw_rearm(struct htw *htw, uint64_t id, uint64_t ns)
{
	struct htw_mod_args mod = { .id = id, .deadline = ns, .flags = HTW_MOD_DEADLINE };

	if (is_forked(htw))
		return -EPERM;
	return htw->ops->mod(htw, &mod);
}

HTW_PUBLIC int htw_stop(struct htw *htw, uint64_t id)
{
	if (is_forked(htw))
		return -EPERM;
	return htw->ops->stop(htw, id);
}

HTW_PUBLIC int htw_add(struct htw *htw, struct htw_add_args *add)
{
	if (is_forked(htw))
		return -EPERM;
	return htw->ops->add(htw, add);
}

HTW_PUBLIC int htw_cancel(struct htw *htw, struct htw_cancel_args *cancel)
{
	if (is_forked(htw))
		return -EPERM;
	return htw->ops->cancel(htw, cancel);
}

HTW_PUBLIC int htw_mod(struct htw *htw, struct htw_mod_args *mod)
{
	if (is_forked(htw))
		return -EPERM;
	return htw->ops->mod(htw, mod);
}

HTW_PUBLIC int htw_query(struct htw *htw, struct htw_timer_info *query)
{
	if (is_forked(htw))
		return -EPERM;
	return htw->ops->query(htw, query);
}

HTW_PUBLIC int htw_remaining(struct htw *htw, uint64_t id, uint64_t *ns)
{
	struct htw_timer_info query = { .id = id };
	int ret = htw_query(htw, &query);

	if (!ret)
		*ns = query.remaining;
	return ret;
}

HTW_PUBLIC int htw_next_time(struct htw *htw, uint64_t *when)
{
	if (is_forked(htw))
		return -EPERM;
	return htw->ops->next_time(htw, when);
}

HTW_PUBLIC int htw_add_many(struct htw *htw, const struct htw_add_args *common,
			    const uint64_t *deadlines, const uint64_t *cookies,
			    uint64_t *ids, unsigned int count, int *results)
{
	static const struct htw_add_args one_shot;

	if (is_forked(htw))
		return -EPERM;
	if (count > INT_MAX)
		return -EINVAL;
	return htw->ops->add_many(htw, common ? common : &one_shot, deadlines,
				  cookies, ids, count, results);
}

HTW_PUBLIC int htw_rearm_many(struct htw *htw, const uint64_t *ids,
			      const uint64_t *deadlines, unsigned int count,
			      unsigned int flags, int *results)
{
	if (is_forked(htw))
		return -EPERM;
	if (count > INT_MAX || flags & ~HTW_F_ABS)
		return -EINVAL;
	return htw->ops->rearm_many(htw, ids, deadlines, count, flags, results);
}

HTW_PUBLIC int htw_stop_many(struct htw *htw, const uint64_t *ids,
			     unsigned int count, int *results)
{
	if (is_forked(htw))
		return -EPERM;
	if (count > INT_MAX)
		return -EINVAL;
	return htw->ops->stop_many(htw, ids, count, results);
}

HTW_PUBLIC int htw_read(struct htw *htw, struct htw_event *events,
			unsigned int count)
{
	unsigned int looks = HTW_LOOKS;

	if (is_forked(htw))
		return -EPERM;
	return htw->ops->read(htw, events, count, &looks);
}

/* What poll() says of a descriptor that something else has closed, or has put something else at. */
static int poll_error(const struct pollfd *pfd)
{
	return pfd->revents & (POLLNVAL | POLLERR | POLLHUP) ? -EBADF : 0;
}

HTW_PUBLIC int htw_pwait(struct htw *htw, int64_t timeout, const sigset_t *mask)
{
	const u64 end = timeout > 0 ? htw_sum(htw_clock_ns(CLOCK_MONOTONIC), timeout) : 0;
	struct pollfd pfd = { .fd = htw->fd, .events = POLLIN };
	const int error = errno;
	bool readable = false;
	struct timespec left;
	u64 now;
	int ret;

	if (is_forked(htw))
		return -EPERM;

	for (;;) {
		ret = htw->ops->ready(htw, readable);
		if (ret || !timeout)
			return ret;

		/* Sooner than it was to end, if need be, and then again. */
		left = htw_timespec(timeout < 0 ? 0 : timeout);
		ret = ppoll(&pfd, 1, timeout < 0 ? NULL : &left, mask);
		readable = ret > 0;
		ret = ret < 0 ? -errno : ret ? poll_error(&pfd) : 0;
		errno = error;
		if (ret)
			return ret;

		if (timeout > 0) {
			now = htw_clock_ns(CLOCK_MONOTONIC);
			timeout = now < end ? end - now : 0;
		}
	}
}

HTW_PUBLIC int htw_wait(struct htw *htw, int64_t timeout)
{
	return htw_pwait(htw, timeout, NULL);
}

/* All timers. */

HTW_PUBLIC int64_t htw_cancel_all(struct htw *htw)
{
	if (is_forked(htw))
		return -EPERM;
	return htw->ops->cancel_all(htw);
}

HTW_PUBLIC int htw_list(struct htw *htw, uint64_t *cursor,
			struct htw_timer_info *entries, unsigned int count)
{
	int ret;

	if (is_forked(htw))
		return -EPERM;

	/* To pass over very many timers that have ended may take several calls. */
	do {
		ret = htw->ops->list(htw, 0, cursor, entries, count);
	} while (ret == -EAGAIN);
	return ret;
}

HTW_PUBLIC int htw_list_in(struct htw *htw, unsigned int states,
			   uint64_t *cursor, struct htw_timer_info *entries,
			   unsigned int count)
{
	if (is_forked(htw))
		return -EPERM;
	return htw->ops->list(htw, states, cursor, entries, count);
}

HTW_PUBLIC int htw_harvest(struct htw *htw, uint64_t *cursor,
			   struct htw_timer_info *entries, unsigned int count)
{
	int ret;

	if (is_forked(htw))
		return -EPERM;

	do {
		ret = htw->ops->harvest(htw, cursor, entries, count);
	} while (ret == -EAGAIN);
	return ret;
}

HTW_PUBLIC int htw_advance(struct htw *htw, uint64_t ns, unsigned int flags)
{
	if (is_forked(htw))
		return -EPERM;
	return htw->ops->advance(htw, ns, flags);
}

HTW_PUBLIC int htw_put_off(struct htw *htw, uint64_t id, uint64_t when)
{
	struct htw_deadline *to = htw_deadline_at(htw, id);

	if (likely(to && htw_deadline_store(to, id, when)))
		return 0;
	if (is_forked(htw))
		return -EPERM;
	return htw->ops->put_off(htw, id, when);
}
