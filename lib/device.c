// SPDX-License-Identifier: MIT
/*
 * Timers in the kernel: /dev/htw
 *
 * Most calls are thin wrappers. The rest handles what is hard to get right by
 * hand: calls that did only a part of the work; errors in place of ids; and
 * timers that are put off by a store.
 *
 * A timer with %HTW_F_PUT_OFF is a kept one in the kernel (%HTW_F_KEEP), so that
 * its id and slot stay until the library has looked at its entry (deadlines.h).
 * When its event is read, it is re-armed if it was put off. Otherwise the
 * program gets the event, and the id has ended for the program; in the kernel it
 * ends later, together with others: before the next call that would find it
 * there.
 *
 * Once a handle has such timers, its calls take turns where an entry and the
 * kernel's timer must agree: a stop must find a timer either before its event
 * was read or after the entry was taken, and a read must find the entry of a
 * timer that was started just now. The lock is held during the system calls, so
 * long ones are split.
 */
#include "deadlines.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define DEVICE			"/dev/htw"
#define NEEDED			HTW_FEATURE_FIRST

/* Blocks of entries that a handle keeps when none is used. */
#define BLOCKS_KEPT		16u
/* Blocks of entries whose memory one call gives back. */
#define BLOCKS_DROPPED		16u

/* What re-arming a timer takes of the looks of a read. */
#define LOOKS_REARM		2u

/**
 * struct device - a handle
 * @htw: the part common to all backends
 * @info: HTW_INFO from when it was opened; only constant fields are used
 * @clock_lock: guards moving the manual clock
 * @manual_ns: the manual clock, as advanced by this handle; read without a lock
 * @puts_off: timers have been started that can be put off. Set with @lock held,
 *	and read without
 * @lock: held exclusively while timers that can be put off are started, moved,
 *	ended or read, and while others may be among them; shared by what reads
 *	or ends timers before there have been any. Guards @deadlines, except
 *	stores to entries, and what follows
 * @live: entries that belong to timers
 * @blocks: blocks of entries below it may have been used
 * @ended: timers whose events have been read, and that the kernel still has
 * @nr_ended: number of those; written with @lock held, read without to see
 *	whether there are any
 */
struct device {
	struct htw htw;
	struct htw_info_args info;
	pthread_mutex_t clock_lock;
	u64 manual_ns;
	bool puts_off;
	pthread_rwlock_t lock;
	u64 live;
	u32 blocks;
	u64 ended[HTW_MANY];
	u32 nr_ended;
};

static struct device *device_of(struct htw *htw)
{
	return container_of(htw, struct device, htw);
}

static int call(const struct device *d, unsigned long command, void *arg)
{
	const int error = errno;
	int ret;

	do {
		ret = ioctl(d->htw.fd, command, arg);
	} while (unlikely(ret < 0 && errno == EINTR));
	if (ret < 0) {
		ret = -errno;
		errno = error;
	}
	return ret;
}

static u64 now_of(const struct device *d)
{
	return d->info.clock == HTW_CLOCK_MANUAL ?
		__atomic_load_n(&d->manual_ns, __ATOMIC_RELAXED) : htw_clock_ns(d->info.clock);
}

/*
 * Do a vector completely. Failed entries hold an errno in place of their id, as
 * the kernel writes it; so do entries that were not reached.
 *
 * Return: number of failed entries; -EINVAL for adds that are refused as a
 * whole, and nothing was written.
 */
static int run_vector(const struct device *d, struct htw_vector_args *v)
{
	const u32 count = v->count;
	u32 done = 0, failed = 0, i;
	u64 *ids = (u64 *)(uintptr_t)v->ids;

	while (done < count) {
		int ret;

		v->count = count - done;
		v->done = 0;
		v->failed = 0;
		ret = call(d, HTW_VECTOR, v);
		if (ret == -EINVAL && !done && v->op == HTW_OP_ADD)
			return ret;
		if (ret < 0 || !v->done) {
			for (i = done; i < count; i++)
				ids[i] = ret < 0 ? ret : -ECANCELED;
			return failed + count - done;
		}
		done += v->done;
		failed += v->failed;
		v->ids += v->done * sizeof(u64);
		if (v->deadlines)
			v->deadlines += v->done * sizeof(u64);
		if (v->cookies)
			v->cookies += v->done * sizeof(u64);
	}
	return failed;
}

/* Timers that can be put off. */

static bool puts_off(const struct device *d)
{
	return unlikely(__atomic_load_n(&d->puts_off, __ATOMIC_ACQUIRE));
}

static u32 nr_ended(const struct device *d)
{
	return __atomic_load_n(&d->nr_ended, __ATOMIC_RELAXED);
}

/*
 * End in the kernel the timers whose events have been read. They may be gone by
 * now, if another process has ended them. Called with the lock held.
 */
static void flush_ended(struct device *d)
{
	struct htw_vector_args v = {
		.ids = (uintptr_t)d->ended,
		.count = d->nr_ended,
		.op = HTW_OP_CANCEL,
	};

	if (!d->nr_ended)
		return;
	run_vector(d, &v);
	__atomic_store_n(&d->nr_ended, 0, __ATOMIC_RELAXED);
}

static void end_later(struct device *d, u64 id)
{
	if (d->nr_ended == ARRAY_SIZE(d->ended))
		flush_ended(d);
	d->ended[d->nr_ended] = id;
	__atomic_store_n(&d->nr_ended, d->nr_ended + 1, __ATOMIC_RELAXED);
}

static void lock(struct device *d)
{
	pthread_rwlock_wrlock(&d->lock);
}

static void unlock(struct device *d)
{
	u32 most;

	/* After a burst, give the memory of the entries back, some with each call. */
	for (most = BLOCKS_DROPPED; unlikely(!d->live && d->blocks > BLOCKS_KEPT) && most; most--)
		htw_deadlines_drop(&d->htw, --d->blocks);
	pthread_rwlock_unlock(&d->lock);
}

/*
 * Begin a call that takes ids, or that reports or counts timers. Return: whether
 * timers of the handle can be put off; then the lock is held, and the kernel has
 * none that has ended.
 */
static bool begin(struct device *d)
{
	if (!puts_off(d))
		return false;
	lock(d);
	flush_ended(d);
	return true;
}

/*
 * Begin a call that takes timers from the kernel, whichever they are. Return:
 * whether some can be put off. The lock is held in any case, so that the answer
 * stays true.
 */
static bool begin_taking(struct device *d)
{
	if (!puts_off(d)) {
		pthread_rwlock_rdlock(&d->lock);
		if (!puts_off(d))
			return false;
		unlock(d);
	}
	lock(d);
	return true;
}

/* Begin to start timers that can be put off. The lock is held then. */
static void begin_starting(struct device *d)
{
	lock(d);
	if (!d->puts_off)
		__atomic_store_n(&d->puts_off, true, __ATOMIC_RELEASE);
}

/* The entry of a timer; NULL if it cannot be put off, or has ended. */
static struct htw_deadline *entry_of(const struct device *d, u64 id)
{
	return htw_deadline_of(&d->htw, id);
}

/*
 * Give a timer that was started an entry. Called with the lock held.
 *
 * Return: 0; -ENOMEM; -EAGAIN if a store for an earlier timer in its slot is on
 * its way.
 */
static int start_entry(struct device *d, u64 id)
{
	struct htw_deadline *to = htw_deadlines_reach(&d->htw, 0, id);

	if (!to)
		return -ENOMEM;

	/* Left by a timer that another process has ended. */
	d->live -= htw_deadline_clear(to);

	if (!htw_deadline_start(to, id))
		return -EAGAIN;
	d->live++;
	d->blocks = max(d->blocks, (u32)id / HTW_DEADLINE_BLOCK + 1);
	return 0;
}

/*
 * Take the entry from a timer that has ended or is about to. Return: to when the
 * timer was put off. Called with the lock held.
 */
static u64 end_entry(struct device *d, struct htw_deadline *to, u64 id)
{
	htw_deadline_end(to, id);
	d->live--;
	return __atomic_load_n(&to->when, __ATOMIC_RELAXED);
}

/* Give it back, as the timer could not be ended. */
static void keep_entry(struct device *d, struct htw_deadline *to, u64 id)
{
	htw_deadline_keep(to, id);
	d->live++;
}

/* May a timer, which had an entry, still be there after a cancel with this result? */
static bool may_be_left(int result)
{
	return result && result != -ENOENT;
}

/* Report a timer as it is with its entry. */
static void apply(const struct htw_deadline *to, u64 now, struct htw_timer_info *query)
{
	const u64 when = htw_deadline_later(to, query->deadline);

	query->flags &= ~HTW_F_KEEP;
	if (when == query->deadline)
		return;
	query->deadline = when;
	query->remaining = when > now ? when - now : 0;
	if (query->state == HTW_STATE_DUE && when > now)
		query->state = HTW_STATE_PENDING;
}

/* Is the kernel's timer due, though it was put off? @query: as the kernel reports it. */
static bool is_due_early(const struct htw_deadline *to, u64 now, const struct htw_timer_info *query)
{
	return to && query->state == HTW_STATE_DUE &&
	       htw_deadline_later(to, query->deadline) > now;
}

/**
 * struct rearms - timers that are re-armed for their later deadline
 * @count: number of them
 * @ids: their ids; overwritten by errors
 * @deadlines: when
 */
struct rearms {
	u32 count;
	u64 ids[HTW_MANY];
	u64 deadlines[HTW_MANY];
};

/* Re-arm them. Called with the lock held. */
static void rearm(struct device *d, struct rearms *r)
{
	struct htw_vector_args v = {
		.ids = (uintptr_t)r->ids,
		.deadlines = (uintptr_t)r->deadlines,
		.count = r->count,
		.flags = HTW_MOD_DEADLINE | HTW_F_ABS,
		.op = HTW_OP_MOD,
	};
	u64 was[HTW_MANY];
	u32 i;

	if (!r->count)
		return;
	memcpy(was, r->ids, r->count * sizeof(*was));

	/* Those that fail have been stopped by another process. */
	if (unlikely(run_vector(d, &v)))
		for (i = 0; i < r->count; i++)
			if (HTW_ID_ERROR(r->ids[i]) == -ENOENT)
				end_entry(d, entry_of(d, was[i]), was[i]);
	r->count = 0;
}

/* Re-arm a timer with others. */
static void rearm_at(struct device *d, struct rearms *r, u64 id, u64 deadline)
{
	r->ids[r->count] = id;
	r->deadlines[r->count++] = deadline;
	if (r->count == ARRAY_SIZE(r->ids))
		rearm(d, r);
}

/* Reading. */

/* Events that one read() can return. */
#define READ_MOST	(INT_MAX / (unsigned int)sizeof(struct htw_event))

static int read_some(const struct device *d, struct htw_event *events, unsigned int count)
{
	const int error = errno;
	ssize_t bytes;

	do {
		bytes = read(d->htw.fd, events, (size_t)count * sizeof(*events));
	} while (bytes < 0 && errno == EINTR);
	if (bytes < 0) {
		bytes = errno == EAGAIN ? 0 : -errno;
		errno = error;
		return bytes;
	}
	return bytes / sizeof(*events);
}

/*
 * Is the timer of an event put off? Otherwise its entry is taken. The event
 * comes again at *@deadline.
 */
static bool is_put_off(const struct device *d, struct htw_deadline *to,
		       const struct htw_event *ev, u64 now, u64 *deadline)
{
	bool quiet;

	/* Ended by another process. */
	if (!(ev->flags & HTW_EVENT_MORE)) {
		htw_deadline_end(to, ev->id);
		return false;
	}

	/* Also if that time has come: with a later event, those that are read stay in order. */
	*deadline = htw_deadline_later(to, ev->deadline);
	if (*deadline > ev->taken)
		return true;

	quiet = htw_deadline_take(to, ev->id);
	if (quiet) {
		*deadline = htw_deadline_later(to, ev->deadline);
		if (likely(*deadline <= ev->taken))
			return false;
		/* A store was faster than that. */
		htw_deadline_keep(to, ev->id);
		return true;
	}

	/*
	 * A store is on its way. The thread that does it may be waiting for this
	 * one's CPU, so look again a tick later.
	 */
	if (d->info.clock != HTW_CLOCK_MANUAL)
		*deadline = max(*deadline, htw_sum(now, d->info.tick_ns));
	return true;
}

/**
 * struct pass - what was done with some events that were read
 * @left: number of those that the program gets
 * @rearmed: number of timers that were re-armed
 * @again: some of these are due already
 */
struct pass {
	u32 left;
	u32 rearmed;
	bool again;
};

/*
 * Re-arm timers that were put off, and take out their events; the ids of the
 * others, of those with entries, end. @at_once: have one of the former come
 * again at once, which makes the descriptor readable anew. Called with the lock
 * held.
 */
static struct pass sort_out(struct device *d, struct htw_event *events, u32 count, bool at_once)
{
	const u64 now = now_of(d);
	struct rearms r = { };		/* there is room for all of them */
	struct pass pass = { };
	u64 deadline, first = 0;
	u32 i;

	for (i = 0; i < count; i++) {
		struct htw_event *ev = &events[i];
		struct htw_deadline *to = entry_of(d, ev->id);

		if (to && is_put_off(d, to, ev, now, &deadline)) {
			if (!pass.rearmed++)
				first = ev->deadline;
			pass.again |= deadline <= now;
			r.ids[r.count] = ev->id;
			r.deadlines[r.count++] = deadline;
			continue;
		}

		if (to)
			d->live--;
		if (to && ev->flags & HTW_EVENT_MORE) {
			end_later(d, ev->id);
			ev->flags &= ~HTW_EVENT_MORE;
			ev->deadline = htw_deadline_later(to, ev->deadline);
		}
		if (pass.left != i)
			events[pass.left] = *ev;
		pass.left++;
	}

	if (r.count && at_once)
		r.deadlines[0] = first;
	rearm(d, &r);
	return pass;
}

/*
 * Read while some timers can be put off. What was put off to a time that has
 * come by now comes again at once and is read as well: less than @count means
 * that nothing is left. But a call takes no more than a bounded time with timers
 * that it does not return; then it leaves the descriptor readable.
 */
static int read_and_rearm(struct device *d, struct htw_event *events, unsigned int count,
			  unsigned int *looks)
{
	unsigned int total = 0, most, work;
	struct pass pass;
	bool enough;
	int got;

	do {
		most = min(count - total, HTW_MANY);
		got = read_some(d, events + total, most);
		if (got <= 0)
			return total ? (int)total : got;

		enough = (got + 1) * LOOKS_REARM >= *looks;
		pass = sort_out(d, events + total, got, enough);
		work = (pass.rearmed + 1) * LOOKS_REARM;
		*looks -= min(*looks, work);
		total += pass.left;
	} while (total < count && (got == (int)most || pass.again) && !(enough && pass.rearmed));
	return total;
}

static int device_read(struct htw *htw, struct htw_event *events, unsigned int count,
		       unsigned int *looks)
{
	struct device *d = device_of(htw);
	unsigned int total = 0, most;
	int got, state;

	count = min_t(unsigned int, count, INT_MAX);
	if (!count)
		return 0;

	/* A thread that is cancelled must neither keep the lock nor lose events. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	if (begin_taking(d)) {
		got = read_and_rearm(d, events, count, looks);
		total = max(got, 0);
	} else {
		do {
			most = min(count - total, READ_MOST);
			got = read_some(d, events + total, most);
			total += max(got, 0);
		} while (got == (int)most && total < count);
	}
	unlock(d);
	pthread_setcancelstate(state, NULL);
	return total ? (int)total : got;
}

/* Also if all events that are there belong to timers that were put off. */
static int has_events(struct htw *htw)
{
	struct pollfd pfd = { .fd = htw->fd, .events = POLLIN };
	const int error = errno;
	int ret, state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	ret = poll(&pfd, 1, 0);
	pthread_setcancelstate(state, NULL);
	errno = error;
	if (ret <= 0)
		return 0;
	return pfd.revents & POLLIN ? 1 : -EBADF;
}

static int device_ready(struct htw *htw, bool readable)
{
	return readable ? 1 : has_events(htw);
}

/* One timer. */

static bool is_at_limit(int result)
{
	return result == -ENOSPC || result == -EDQUOT;
}

/* Timers that can be put off are neither periodic nor kept for the program. */
static bool fits_put_off(const struct htw_add_args *add)
{
	return !add->interval && !(add->flags & HTW_F_KEEP);
}

/*
 * Start a timer that can be put off. A timer whose slot cannot be used yet stays
 * until another one has been found: the kernel would give the slot again. Called
 * with the lock held.
 */
static int add_put_off(struct device *d, struct htw_add_args *add)
{
	struct htw_add_args a = *add;
	bool refused = false;
	int ret;

	a.flags = (a.flags & ~HTW_F_PUT_OFF) | HTW_F_KEEP;
	for (;;) {
		ret = call(d, HTW_ADD, &a);
		if (is_at_limit(ret) && d->nr_ended && !refused) {
			flush_ended(d);
			ret = call(d, HTW_ADD, &a);
		}
		if (ret)
			break;
		ret = start_entry(d, a.id);
		if (likely(!ret)) {
			add->id = a.id;
			break;
		}
		end_later(d, a.id);
		refused = true;
		if (ret != -EAGAIN)
			break;
	}
	if (unlikely(refused))
		flush_ended(d);
	return ret;
}

static int device_add(struct htw *htw, struct htw_add_args *add)
{
	struct device *d = device_of(htw);
	int ret;

	if (add->flags & HTW_F_PUT_OFF) {
		if (!fits_put_off(add))
			return -EINVAL;
		begin_starting(d);
		ret = add_put_off(d, add);
		unlock(d);
		return ret;
	}

	ret = call(d, HTW_ADD, add);
	if (unlikely(is_at_limit(ret) && nr_ended(d)) && begin(d)) {
		ret = call(d, HTW_ADD, add);
		unlock(d);
	}
	return ret;
}

/* Stop a timer that can be put off. Called with the lock held. */
static int cancel_put_off(struct device *d, struct htw_deadline *to, struct htw_cancel_args *cancel)
{
	const u64 now = now_of(d), when = end_entry(d, to, cancel->id);
	int ret = call(d, HTW_CANCEL, cancel);

	if (may_be_left(ret))
		keep_entry(d, to, cancel->id);
	/* It is pending, also if the kernel's timer is due. */
	if (!ret && when > now) {
		cancel->state = HTW_STATE_PENDING;
		cancel->remaining = max(cancel->remaining, when - now);
	}
	return ret;
}

static int device_cancel(struct htw *htw, struct htw_cancel_args *cancel)
{
	struct device *d = device_of(htw);
	struct htw_deadline *to;
	int ret;

	if (!begin(d))
		return call(d, HTW_CANCEL, cancel);
	to = entry_of(d, cancel->id);
	ret = to ? cancel_put_off(d, to, cancel) : call(d, HTW_CANCEL, cancel);
	unlock(d);
	return ret;
}

static int device_stop(struct htw *htw, uint64_t id)
{
	struct htw_cancel_args cancel = { .id = id };

	return device_cancel(htw, &cancel);
}

static int device_mod(struct htw *htw, struct htw_mod_args *mod)
{
	struct device *d = device_of(htw);
	struct htw_deadline *to;
	u64 when;
	int ret;

	if (!begin(d))
		return call(d, HTW_MOD, mod);
	to = entry_of(d, mod->id);
	when = to ? __atomic_load_n(&to->when, __ATOMIC_RELAXED) : 0;
	ret = to && mod->flags & HTW_MOD_INTERVAL && mod->interval ? -EINVAL :
								     call(d, HTW_MOD, mod);
	if (!ret && mod->state == HTW_STATE_DUE && when > now_of(d))
		mod->state = HTW_STATE_PENDING;
	if (!ret && to && mod->flags & HTW_MOD_DEADLINE)
		htw_deadline_forget(to);
	unlock(d);
	return ret;
}

static int device_query(struct htw *htw, struct htw_timer_info *query)
{
	struct device *d = device_of(htw);
	struct htw_deadline *to;
	int ret;

	if (!begin(d))
		return call(d, HTW_QUERY, query);
	to = entry_of(d, query->id);
	ret = call(d, HTW_QUERY, query);
	if (!ret && to)
		apply(to, now_of(d), query);
	unlock(d);
	return ret;
}

static int device_info(struct htw *htw, struct htw_info_args *info)
{
	struct device *d = device_of(htw);
	int ret;

	if (!begin(d))
		return call(d, HTW_INFO, info);
	ret = call(d, HTW_INFO, info);
	unlock(d);
	return ret;
}

/* A timer that was put off is pending in the kernel with its first deadline, which is no later. */
static int device_next_time(struct htw *htw, uint64_t *when)
{
	struct htw_info_args info;
	int ret = device_info(htw, &info);

	if (ret)
		return ret;
	if (info.next == UINT64_MAX)
		return -ENOENT;
	*when = info.next;
	return 0;
}

/* Many timers. */

/*
 * Give the timers of a vector entries; those that cannot have one are replaced,
 * or hold an errno. Called with the lock held.
 */
static void start_entries(struct device *d, const struct htw_add_args *common, const u64 *deadlines,
			  const u64 *cookies, u64 *ids, u32 count)
{
	bool refused = false;
	u32 i;

	for (i = 0; i < count; i++) {
		int ret = HTW_ID_IS_ERROR(ids[i]) ? 0 : start_entry(d, ids[i]);

		if (likely(!ret))
			continue;
		end_later(d, ids[i]);
		refused = true;
		if (ret == -EAGAIN) {
			struct htw_add_args add = {
				.deadline = deadlines[i],
				.slack = common->slack,
				.cookie = cookies ? cookies[i] : 0,
				.flags = common->flags,
			};

			ret = add_put_off(d, &add);
			ids[i] = add.id;
		}
		if (ret)
			ids[i] = ret;
	}
	if (unlikely(refused))
		flush_ended(d);
}

/* Start timers of a vector into @ids, which holds an errno where that fails. */
static int add_part(struct device *d, const struct htw_add_args *common, const u64 *deadlines,
		    const u64 *cookies, u64 *ids, unsigned int count)
{
	const bool put_off = common->flags & HTW_F_PUT_OFF;
	struct htw_vector_args v = {
		.ids = (uintptr_t)ids,
		.deadlines = (uintptr_t)deadlines,
		.cookies = (uintptr_t)cookies,
		.interval = common->interval,
		.slack = common->slack,
		.count = count,
		.flags = put_off ? (common->flags & ~HTW_F_PUT_OFF) | HTW_F_KEEP : common->flags,
		.firings = common->firings,
		.op = HTW_OP_ADD,
	};
	int failed;

	if (put_off) {
		begin_starting(d);
		flush_ended(d);		/* makes room */
	} else if (nr_ended(d) && begin(d)) {
		unlock(d);
	}
	/* With no entries, this checks the rest. */
	failed = count ? run_vector(d, &v) : call(d, HTW_VECTOR, &v);
	if (put_off) {
		if (failed >= 0)
			start_entries(d, common, deadlines, cookies, ids, count);
		unlock(d);
	}
	return failed;
}

/* Report an add's result. Return: whether it failed. */
static bool report_add(u64 from, uint64_t *id, int *result)
{
	const int error = HTW_ID_ERROR(from);

	*id = error ? 0 : from;
	if (result)
		*result = error;
	return error;
}

static int device_add_many(struct htw *htw, const struct htw_add_args *common,
			   const uint64_t *deadlines, const uint64_t *cookies,
			   uint64_t *ids, unsigned int count, int *results)
{
	/* The kernel may write ids before it has read all deadlines. */
	const bool shared = ids == deadlines || ids == cookies;
	const bool put_off = common->flags & HTW_F_PUT_OFF;
	struct device *d = device_of(htw);
	unsigned int first = 0, n, i;
	u64 own[HTW_MANY];
	int ret, failed = 0;

	if (put_off && !fits_put_off(common))
		return -EINVAL;

	if (!count || (!shared && !put_off)) {
		ret = add_part(d, common, count ? deadlines : NULL, count ? cookies : NULL,
			       count ? ids : NULL, count);
		for (i = 0; ret >= 0 && (ret || results) && i < count; i++)
			report_add(ids[i], &ids[i], results ? &results[i] : NULL);
		return ret;
	}

	for (; first < count; first += n) {
		n = min(count - first, HTW_MANY);
		ret = add_part(d, common, deadlines + first, cookies ? cookies + first : NULL,
			       own, n);
		if (ret < 0 && !first)
			return ret;
		for (i = 0; i < n; i++)
			failed += report_add(ret < 0 ? (u64)ret : own[i], &ids[first + i],
					     results ? &results[first + i] : NULL);
	}
	return failed;
}

/*
 * Do an operation on at most %HTW_MANY existing timers, whose @ids must not be
 * overwritten. Results are written to @results.
 */
static void on_part(const struct device *d, u16 op, u32 flags, const u64 *ids,
		    const u64 *deadlines, u32 count, int *results)
{
	u64 copy[HTW_MANY];
	struct htw_vector_args v = {
		.ids = (uintptr_t)copy,
		.deadlines = (uintptr_t)deadlines,
		.count = count,
		.flags = flags,
		.op = op,
	};
	u32 i;

	if (!count)
		return;
	memcpy(copy, ids, count * sizeof(*copy));
	run_vector(d, &v);
	for (i = 0; i < count; i++)
		results[i] = HTW_ID_IS_ERROR(ids[i]) && HTW_ID_ERROR(copy[i]) != -EBADF ?
			-ENOENT : HTW_ID_ERROR(copy[i]);
}

/* Pass on the results of a part. Return: number of those that failed. */
static unsigned int report_part(const int *part, int *results, u32 count)
{
	unsigned int failed = 0;
	u32 i;

	for (i = 0; i < count; i++)
		failed += !!part[i];
	if (results)
		memcpy(results, part, count * sizeof(*results));
	return failed;
}

static int device_rearm_many(struct htw *htw, const uint64_t *ids,
			     const uint64_t *deadlines, unsigned int count,
			     unsigned int flags, int *results)
{
	struct device *d = device_of(htw);
	unsigned int first, n, i, failed = 0;
	int part[HTW_MANY];

	for (first = 0; first < count; first += n) {
		const bool locked = begin(d);

		n = min(count - first, HTW_MANY);
		on_part(d, HTW_OP_MOD, HTW_MOD_DEADLINE | flags, ids + first, deadlines + first, n,
			part);
		for (i = 0; locked && i < n; i++) {
			struct htw_deadline *to = part[i] ? NULL : entry_of(d, ids[first + i]);

			if (to)
				htw_deadline_forget(to);
		}
		if (locked)
			unlock(d);
		failed += report_part(part, results ? results + first : NULL, n);
	}
	return failed;
}

/* Stop timers of which some can be put off. Called with the lock held. */
static void stop_part(struct device *d, const u64 *ids, u32 count, int *results)
{
	struct htw_deadline *entries[HTW_MANY];
	u32 i;

	for (i = 0; i < count; i++) {
		entries[i] = entry_of(d, ids[i]);
		if (entries[i])
			end_entry(d, entries[i], ids[i]);
	}
	on_part(d, HTW_OP_CANCEL, 0, ids, NULL, count, results);
	for (i = 0; i < count; i++)
		if (entries[i] && may_be_left(results[i]))
			keep_entry(d, entries[i], ids[i]);
}

static int device_stop_many(struct htw *htw, const uint64_t *ids,
			    unsigned int count, int *results)
{
	struct device *d = device_of(htw);
	unsigned int first, n, failed = 0;
	int part[HTW_MANY];

	for (first = 0; first < count; first += n) {
		n = min(count - first, HTW_MANY);
		if (begin(d)) {
			stop_part(d, ids + first, n, part);
			unlock(d);
		} else {
			on_part(d, HTW_OP_CANCEL, 0, ids + first, NULL, n, part);
		}
		failed += report_part(part, results ? results + first : NULL, n);
	}
	return failed;
}

/* All timers. */

static int list(const struct device *d, unsigned long command, u32 flags, u64 *cursor,
		struct htw_timer_info *entries, unsigned int count)
{
	struct htw_list_args l = {
		.entries = (uintptr_t)entries,
		.cursor = *cursor,
		.count = count,
		.flags = flags,
	};
	int ret = call(d, command, &l);

	if (ret)
		return ret;
	*cursor = l.cursor;
	return min_t(u32, l.done, INT_MAX);
}

/*
 * Re-arm the timers that are due in the kernel though they were put off. Called with
 * the lock held.
 *
 * Return: whether anything else is due; then some may not have been re-armed.
 */
static bool rearm_due(struct device *d)
{
	const u64 now = now_of(d);
	struct htw_timer_info entries[64];
	struct rearms r = { };
	bool due = false;
	u64 cursor = 0;
	int got, i;

	do {
		got = list(d, HTW_LIST, HTW_LIST_DUE, &cursor, entries, ARRAY_SIZE(entries));
		for (i = 0; i < got; i++) {
			struct htw_deadline *to = entry_of(d, entries[i].id);

			if (is_due_early(to, now, &entries[i]))
				rearm_at(d, &r, entries[i].id,
					 htw_deadline_later(to, entries[i].deadline));
			else
				due = true;
		}
	} while (got > 0 && !due);
	rearm(d, &r);
	return due || got < 0;
}

/* Take the entries from all timers. Called with the lock held. */
static void end_all_entries(struct device *d)
{
	const struct htw_deadlines *deadlines = d->htw.deadlines;
	u64 i, count = (u64)deadlines->count * HTW_DEADLINE_BLOCK;

	for (i = 0; i < count && d->live; i++)
		d->live -= htw_deadline_clear(htw_deadline_at(&d->htw, i));
}

static int64_t device_cancel_all(struct htw *htw)
{
	struct htw_cancel_all_args all = { };
	struct device *d = device_of(htw);
	int ret;

	if (begin_taking(d)) {
		flush_ended(d);
		ret = call(d, HTW_CANCEL_ALL, &all);
		if (!ret)
			end_all_entries(d);
	} else {
		ret = call(d, HTW_CANCEL_ALL, &all);
	}
	unlock(d);
	return ret ? ret : (int64_t)all.count;
}

static u32 list_flag(const struct htw_timer_info *query)
{
	return query->state == HTW_STATE_PENDING ? HTW_LIST_PENDING :
	       query->state == HTW_STATE_DUE ? HTW_LIST_DUE : HTW_LIST_DISARMED;
}

/* Report timers in the states that they have with their entries. Called with the lock held. */
static int list_put_off(struct device *d, u32 states, u64 *cursor, struct htw_timer_info *entries,
			unsigned int count)
{
	const u32 wanted = states ? states : HTW_LIST_PENDING | HTW_LIST_DUE | HTW_LIST_DISARMED;
	const u32 asked = wanted & HTW_LIST_PENDING ? wanted | HTW_LIST_DUE : wanted;
	const u64 now = now_of(d);
	int got, i, left;

	do {
		left = 0;
		got = list(d, HTW_LIST, asked, cursor, entries, count);
		for (i = 0; i < got; i++) {
			struct htw_deadline *to = entry_of(d, entries[i].id);

			if (to)
				apply(to, now, &entries[i]);
			if (list_flag(&entries[i]) & wanted)
				entries[left++] = entries[i];
		}
	} while (got > 0 && !left);
	return got < 0 ? got : left;
}

static int device_list(struct htw *htw, unsigned int states, uint64_t *cursor,
		       struct htw_timer_info *entries, unsigned int count)
{
	struct device *d = device_of(htw);
	int ret;

	if (!begin(d))
		return list(d, HTW_LIST, states, cursor, entries, count);
	ret = list_put_off(d, states, cursor, entries, count);
	unlock(d);
	return ret;
}

/* Called with the lock held. */
static int harvest_put_off(struct device *d, u64 *cursor, struct htw_timer_info *entries,
			   unsigned int count)
{
	const int got = list(d, HTW_HARVEST, 0, cursor, entries, count);
	const u64 now = now_of(d);
	int i;

	for (i = 0; i < got; i++) {
		struct htw_deadline *to = entry_of(d, entries[i].id);

		if (to) {
			apply(to, now, &entries[i]);
			end_entry(d, to, entries[i].id);
		}
	}
	return got;
}

static int device_harvest(struct htw *htw, uint64_t *cursor, struct htw_timer_info *entries,
			  unsigned int count)
{
	struct device *d = device_of(htw);
	int ret;

	if (!count || !begin_taking(d)) {
		ret = list(d, HTW_HARVEST, 0, cursor, entries, count);
		if (!count)
			return ret;
	} else {
		flush_ended(d);
		ret = harvest_put_off(d, cursor, entries, min_t(u32, count, INT_MAX));
	}
	unlock(d);
	return ret;
}

static int device_advance(struct htw *htw, uint64_t ns, unsigned int flags)
{
	struct htw_advance_args advance = { .ns = ns, .flags = flags };
	struct device *d = device_of(htw);
	int ret;

	pthread_mutex_lock(&d->clock_lock);
	ret = call(d, HTW_ADVANCE, &advance);
	if (!ret)
		__atomic_store_n(&d->manual_ns, flags & HTW_F_ABS ? ns : htw_sum(d->manual_ns, ns),
				 __ATOMIC_RELAXED);
	pthread_mutex_unlock(&d->clock_lock);
	if (ret)
		return ret;

	ret = advance.due;
	if (ret && begin(d)) {
		ret = rearm_due(d);
		unlock(d);
	}
	return ret;
}

/* The handle. */

static uint64_t device_now(struct htw *htw)
{
	return now_of(device_of(htw));
}

static int device_reserve(struct htw *htw, uint64_t count)
{
	return count > device_of(htw)->info.limit ? -ENOSPC : 0;
}

/*
 * A store found no such timer. Only with the lock held is that certain: a read
 * takes the entry from a timer and may give it back.
 */
static int device_put_off(struct htw *htw, uint64_t id, uint64_t when)
{
	struct device *d = device_of(htw);
	struct htw_deadline *to;

	if (!puts_off(d))
		return -ENOENT;
	lock(d);
	to = entry_of(d, id);
	if (to)
		htw_deadline_store(to, id, when);
	unlock(d);
	return to ? 0 : -ENOENT;
}

/*
 * In a child of fork() only the copy of the descriptor is closed. Another thread
 * may have held the lock, or changed the list of entries, and what has ended but
 * not in the kernel is the parent's; a dispatcher may still refer to the handle.
 */
static void close_descriptor(struct device *d)
{
	if (d->htw.fd >= 0)
		close(d->htw.fd);
	d->htw.fd = -1;
}

static void device_close(struct htw *htw)
{
	struct device *d = device_of(htw);
	const int error = errno;

	if (htw_is_forked(htw->process)) {
		close_descriptor(d);
		errno = error;
		return;
	}

	/* Another process may have the descriptor, too. */
	flush_ended(d);
	close(d->htw.fd);
	htw_deadlines_free(htw);
	pthread_rwlock_destroy(&d->lock);
	pthread_mutex_destroy(&d->clock_lock);
	free(d);
	errno = error;
}

static const struct htw_backend_ops device_ops = {
	.backend	= HTW_BACKEND_DEVICE,
	.close		= device_close,
	.now		= device_now,
	.info		= device_info,
	.reserve	= device_reserve,
	.add		= device_add,
	.stop		= device_stop,
	.cancel		= device_cancel,
	.mod		= device_mod,
	.query		= device_query,
	.next_time	= device_next_time,
	.add_many	= device_add_many,
	.rearm_many	= device_rearm_many,
	.stop_many	= device_stop_many,
	.read		= device_read,
	.ready		= device_ready,
	.cancel_all	= device_cancel_all,
	.list		= device_list,
	.harvest	= device_harvest,
	.advance	= device_advance,
	.put_off	= device_put_off,
};

static int non_blocking(int fd)
{
	const int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -errno;
	if (!(flags & O_NONBLOCK) && fcntl(fd, F_SETFL, flags | O_NONBLOCK))
		return -errno;
	return 0;
}

/**
 * htw_device_take() - htw_open_fd()
 * @htw: out: the handle
 * @fd: the descriptor
 *
 * Return: as htw_open_fd(); -ENOSYS if the module is older than the library
 * needs.
 */
int htw_device_take(struct htw **htw, int fd)
{
	struct device *d = calloc(1, sizeof(*d));
	int ret;

	if (!d)
		return -ENOMEM;
	d->htw.ops = &device_ops;
	htw_deadlines_init(&d->htw);
	d->htw.fd = fd;
	ret = htw_process_number(&d->htw.process);
	if (ret)
		goto free;

	ret = call(d, HTW_INFO, &d->info);
	if (ret) {
		/* Another device, a file or a socket. */
		ret = ret == -EBADF ? -EBADF : -EINVAL;
		goto free;
	}
	ret = -ENOSYS;
	if ((d->info.features & NEEDED) != NEEDED)
		goto free;
	/* Another program has set it up for larger ones. */
	ret = -EINVAL;
	if (d->info.event_size != sizeof(struct htw_event))
		goto free;

	ret = -pthread_mutex_init(&d->clock_lock, NULL);
	if (ret)
		goto free;
	ret = -pthread_rwlock_init(&d->lock, NULL);
	if (ret)
		goto destroy_mutex;
	/* Last: others that have the descriptor see it. */
	ret = non_blocking(fd);
	if (ret)
		goto destroy_lock;
	*htw = &d->htw;
	return 0;

destroy_lock:
	pthread_rwlock_destroy(&d->lock);
destroy_mutex:
	pthread_mutex_destroy(&d->clock_lock);
free:
	free(d);
	return ret;
}

/**
 * htw_device_open() - open the device
 *
 * Return: a descriptor, or a negative errno.
 */
int htw_device_open(void)
{
	int fd = open(DEVICE, O_RDWR | O_CLOEXEC | O_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

static int set_up(int fd, const struct htw_setup_args *setup)
{
	struct htw_setup_args own = *setup;

	/* Not for the kernel: its locks are its own. */
	own.flags &= ~HTW_SETUP_PI;
	if (own.event_size && own.event_size != sizeof(struct htw_event))
		return -EINVAL;
	return ioctl(fd, HTW_SETUP, &own) ? -errno : 0;
}

/**
 * htw_device_set_up() - htw_open() on an open descriptor
 * @htw: out: the handle
 * @fd: the descriptor; closed on failure
 * @setup: as for htw_open()
 *
 * Return: as htw_open().
 */
int htw_device_set_up(struct htw **htw, int fd, const struct htw_setup_args *setup)
{
	int ret = setup ? set_up(fd, setup) : 0;

	if (!ret)
		ret = htw_device_take(htw, fd);
	if (ret)
		close(fd);
	return ret;
}
