// SPDX-License-Identifier: MIT
/*
 * Timers in the kernel: /dev/htw
 *
 * Most calls are thin wrappers. The rest handles what is hard to get right by
 * hand: the ring's memory ordering, its overflow, and events of stopped timers
 * in it; timers that were moved through the table while their event was on its
 * way; calls that did only a part of the work; and errors in place of ids.
 */
#include "deadlines.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEVICE			"/dev/htw"
#define NEEDED			(HTW_FEATURE_ADD | HTW_FEATURE_KEEP | HTW_FEATURE_FIRINGS | \
				 HTW_FEATURE_MOD | HTW_FEATURE_SLACK | HTW_FEATURE_ALL | \
				 HTW_FEATURE_VECTOR)

/**
 * struct device - a handle
 * @htw: the part common to all backends
 * @info: HTW_INFO from when it was opened; only constant fields are used
 * @manual_ns: the manual clock, as advanced by this handle
 * @ring: the mapped ring, or NULL
 * @events: the ring's events
 * @mask: number of events, less one
 * @ring_size: bytes mapped
 * @table: the mapped table, or NULL
 * @words: entries of the table
 * @reach: entries below it are in memory: a page of the table exists once it
 *	has timers. Only grows; read and written without a lock
 * @page_slots: slots of a page of timers, of which the first is never an id's
 * @lock: guards the ring's head and events, and mapping it
 */
struct device {
	struct htw htw;
	struct htw_info info;
	u64 manual_ns;
	struct htw_ring *ring;
	struct htw_event *events;
	u32 mask;
	size_t ring_size;
	u64 *table;
	u64 words;
	u64 reach;
	u32 page_slots;
	pthread_mutex_t lock;
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

/* The ring. */

/* Number of events in the ring. Called with the lock held. */
static u32 ring_waiting(const struct device *d, u32 *head)
{
	*head = d->ring->head;		/* only we write it */
	/* Pairs with the kernel's release: the events below the tail are visible. */
	return __atomic_load_n(&d->ring->tail, __ATOMIC_ACQUIRE) - *head;
}

static bool ring_overflowed(const struct device *d)
{
	return __atomic_load_n(&d->ring->flags, __ATOMIC_RELAXED) &
	       HTW_RING_OVERFLOW;
}

/* Let the kernel move queued events into the ring; true if it moved any. */
static bool ring_flush(struct device *d)
{
	return ring_overflowed(d) && call(d, HTW_FLUSH, NULL) > 0;
}

static unsigned int ring_read(struct device *d, struct htw_event *events,
			      unsigned int count)
{
	u32 head, waiting, i;
	unsigned int got = 0;

	pthread_mutex_lock(&d->lock);
	do {
		waiting = min(ring_waiting(d, &head), d->mask + 1);
		for (i = 0; i < waiting && got < count; i++, head++) {
			const struct htw_event *ev = &d->events[head & d->mask];

			if (likely(ev->id))	/* otherwise the timer was stopped */
				events[got++] = *ev;
		}
		/*
		 * Pairs with the kernel's read of the head: the events were
		 * copied before.
		 */
		__atomic_store_n(&d->ring->head, head, __ATOMIC_RELEASE);
	} while (got < count && ring_flush(d));
	pthread_mutex_unlock(&d->lock);
	return got;
}

/* The first event of an id in the ring, or NULL. */
static struct htw_event *ring_find(struct device *d, u64 id)
{
	u32 head, waiting = min(ring_waiting(d, &head), d->mask + 1);

	for (; waiting; waiting--, head++)
		if (d->events[head & d->mask].id == id)
			return &d->events[head & d->mask];
	return NULL;
}

/*
 * Clear the events of a timer that was stopped: they count as read for the
 * kernel, but must not be returned after the timer has ended. The kernel does
 * not read the events in the ring.
 *
 * If HTW_CANCEL says -EALREADY, earlier events of the timer may be in the ring,
 * and stay there unless its expiration was discarded.
 *
 * If HTW_CANCEL says -ENOENT, the ring may have the timer's last event. Then
 * the timer has expired, and its event is still unread for the program: fill in
 * @cancel, which may be NULL, as HTW_CANCEL does for unread timers.
 *
 * Return: the result of the stop.
 */
static int ring_stopped(struct device *d, u64 id, int result,
			struct htw_cancel *cancel)
{
	const bool discard = cancel && cancel->flags & HTW_CANCEL_DISCARD;
	struct htw_event *ev;

	if (result && result != -ENOENT && !(result == -EALREADY && discard))
		return result;

	/* Void events have no id. */
	if (!id)
		return result;

	pthread_mutex_lock(&d->lock);
	while ((ev = ring_find(d, id))) {
		if (result == -ENOENT) {
			result = -EALREADY;
			if (cancel) {
				cancel->cookie = ev->cookie;
				cancel->remaining = 0;
				cancel->missed = ev->missed;
			}
		}

		if (result && !discard)
			break;
		ev->id = 0;
	}
	pthread_mutex_unlock(&d->lock);
	return result;
}

static bool ring_is_empty(struct device *d)
{
	u32 head, waiting;

	pthread_mutex_lock(&d->lock);
	waiting = ring_waiting(d, &head);
	pthread_mutex_unlock(&d->lock);
	return !waiting;
}

/* The table. */

/*
 * Was a timer put off through the table after it had expired? The id of a last
 * event may be another timer's slot by now, so it always stands; and so does
 * one for a clock that was set.
 */
static bool was_put_off(const struct device *d, const struct htw_event *ev)
{
	const u32 slot = HTW_ID_SLOT(ev->id);

	if (unlikely(slot >= d->words) ||
	    (ev->flags & (HTW_EVENT_MORE | HTW_EVENT_CLOCK_SET)) != HTW_EVENT_MORE)
		return false;
	return __atomic_load_n(&d->table[slot], __ATOMIC_RELAXED) >
	       ev->deadline;
}

/*
 * Drop the events of timers that were put off while their event was on its way,
 * and have the kernel arm them for their entries. It reads the entry again and
 * leaves it as it is, so what another thread stores or does meanwhile is not
 * lost: if the timer is not put off any more, the event stands. If it was
 * stopped, no event is wanted.
 *
 * Return: number of events left, in order.
 */
static unsigned int drop_put_off(struct device *d, struct htw_event *events,
				 unsigned int count)
{
	struct htw_op ops[HTW_MANY];
	unsigned int which[HTW_MANY];
	unsigned int i, nr = 0, kept, k = 0;

	for (i = 0; i < count; i++) {
		const struct htw_event *ev = &events[i];

		if (likely(!was_put_off(d, ev)))
			continue;
		ops[nr] = (struct htw_op){
			.op = HTW_OP_MOD,
			.mod = {
				.id = ev->id,
				.deadline = ev->deadline,
				.flags = HTW_MOD_UNREAD,
				.firings = min(ev->missed, (u64)UINT32_MAX - 1) + 1,
			},
		};
		which[nr++] = i;
	}
	if (likely(!nr))
		return count;
	d->htw.ops->batch(&d->htw, ops, nr);
	for (kept = i = which[0]; i < count; i++) {
		if (k < nr && which[k] == i) {
			const int result = ops[k++].result;

			if (!result || result == -ENOENT)
				continue;
		}
		events[kept++] = events[i];
	}
	return kept;
}

/* Reading. */

/* Events that one read() can return. */
#define READ_MOST	(INT_MAX / (unsigned int)sizeof(struct htw_event))

static unsigned int queue_read(struct device *d, struct htw_event *events,
			       unsigned int count)
{
	const int error = errno;
	ssize_t bytes;

	do {
		bytes = read(d->htw.fd, events,
			     (size_t)count * sizeof(*events));
	} while (bytes < 0 && errno == EINTR);
	if (bytes >= 0)
		return bytes / sizeof(*events);
	errno = error;
	return 0;
}

/* Fill @events: a result below @count means that no event was left. */
static int device_read(struct htw *htw, struct htw_event *events,
		       unsigned int count)
{
	struct device *d = device_of(htw);
	unsigned int total = 0, most, got, left;

	if (count > INT_MAX)
		count = INT_MAX;
	do {
		most = min(count - total, d->table ? HTW_MANY : READ_MOST);
		if (unlikely(!most))
			break;
		got = d->ring ? ring_read(d, events + total, most) :
				queue_read(d, events + total, most);
		left = d->table ? drop_put_off(d, events + total, got) : got;
		total += left;
		/* A timer that was put off may have expired again. */
	} while (got == most || left < got);
	return total;
}

static int device_ready(struct htw *htw)
{
	struct device *d = device_of(htw);
	struct pollfd pfd = { .fd = htw->fd, .events = POLLIN };
	const int error = errno;
	int ret;

	if (d->ring && !ring_is_empty(d))
		return 1;
	ret = poll(&pfd, 1, 0);
	errno = error;
	return ret > 0;
}

/* One timer. */

static int device_add(struct htw *htw, struct htw_add *add)
{
	return call(device_of(htw), HTW_ADD, add);
}

static int device_cancel(struct htw *htw, struct htw_cancel *cancel)
{
	struct device *d = device_of(htw);
	const u64 id = cancel->id;
	int ret = call(d, HTW_CANCEL, cancel);

	if (unlikely(d->ring))
		ret = ring_stopped(d, id, ret, cancel);
	return ret;
}

static int device_stop(struct htw *htw, uint64_t id)
{
	struct htw_cancel cancel = { .id = id };

	return device_cancel(htw, &cancel);
}

static int device_mod(struct htw *htw, const struct htw_mod *mod)
{
	return call(device_of(htw), HTW_MOD, (void *)mod);
}

static int device_query(struct htw *htw, struct htw_query *query)
{
	return call(device_of(htw), HTW_QUERY, query);
}

static int device_next_time(struct htw *htw, uint64_t *when)
{
	struct htw_next next = { };
	int ret = call(device_of(htw), HTW_NEXT, &next);

	if (!ret)
		*when = next.timer.deadline;
	return ret;
}

/* Many timers. */

/*
 * Do a vector completely. Failed entries hold an errno in place of their id, as
 * the kernel writes it; so do entries that were not reached.
 *
 * Return: number of failed entries; -EINVAL for adds that are refused as a
 * whole, and nothing was written.
 */
static int run_vector(struct device *d, struct htw_vector *v)
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

static int device_add_many(struct htw *htw, const struct htw_add *common,
			   const uint64_t *deadlines, const uint64_t *cookies,
			   uint64_t *ids, unsigned int count, int *results)
{
	struct htw_vector v = {
		.ids = (uintptr_t)ids,
		.deadlines = (uintptr_t)deadlines,
		.cookies = (uintptr_t)cookies,
		.interval = common->interval,
		.slack = common->slack,
		.count = count,
		.flags = common->flags,
		.firings = common->firings,
		.op = HTW_OP_ADD,
	};
	unsigned int i;
	int failed;

	if (!count)
		return call(device_of(htw), HTW_VECTOR, &v);

	failed = run_vector(device_of(htw), &v);
	if (failed < 0 || (!failed && !results))
		return failed;

	for (i = 0; i < count; i++) {
		if (results)
			results[i] = HTW_ID_ERROR(ids[i]);
		if (HTW_ID_IS_ERROR(ids[i]))
			ids[i] = 0;
	}
	return failed;
}

/* Do an operation on existing timers in parts, because @ids must not be overwritten. */
static int on_many(struct device *d, u16 op, u32 flags, const u64 *ids,
		   const u64 *deadlines, unsigned int count, int *results)
{
	unsigned int first, n, i, failed = 0;
	u64 copy[HTW_MANY];

	for (first = 0; first < count; first += n) {
		struct htw_vector v = {
			.ids = (uintptr_t)copy,
			.deadlines = deadlines ? (uintptr_t)(deadlines + first) : 0,
			.flags = flags,
			.op = op,
		};
		unsigned int bad;

		n = min(count - first, HTW_MANY);
		memcpy(copy, ids + first, n * sizeof(*copy));
		v.count = n;
		bad = run_vector(d, &v);
		failed += bad;
		for (i = 0; results && i < n; i++)
			results[first + i] = HTW_ID_IS_ERROR(ids[first + i]) ?
				-ENOENT : HTW_ID_ERROR(copy[i]);
	}
	return failed;
}

static int device_rearm_many(struct htw *htw, const uint64_t *ids,
			     const uint64_t *deadlines, unsigned int count,
			     unsigned int flags, int *results)
{
	return on_many(device_of(htw), HTW_OP_MOD, HTW_MOD_DEADLINE | flags,
		       ids, deadlines, count, results);
}

static int device_stop_many(struct htw *htw, const uint64_t *ids,
			    unsigned int count, int *results)
{
	struct device *d = device_of(htw);
	unsigned int first, n, i, failed = 0;
	int own[HTW_MANY];

	if (likely(!d->ring))
		return on_many(d, HTW_OP_CANCEL, 0, ids, NULL, count, results);
	for (first = 0; first < count; first += n) {
		int *const to = results ? results + first : own;

		n = min(count - first, HTW_MANY);
		on_many(d, HTW_OP_CANCEL, 0, ids + first, NULL, n, to);
		/* Usually the ring is empty. */
		for (i = 0; i < n && !ring_is_empty(d); i++)
			to[i] = ring_stopped(d, ids[first + i], to[i], NULL);
		for (i = 0; i < n; i++)
			failed += !!to[i];
	}
	return failed;
}

static int device_batch(struct htw *htw, struct htw_op *ops, unsigned int count)
{
	struct device *d = device_of(htw);
	unsigned int done = 0, failed = 0, i;

	while (done < count) {
		struct htw_batch batch = {
			.ops = (uintptr_t)(ops + done),
			.count = count - done,
		};

		if (call(d, HTW_BATCH, &batch) || !batch.done)
			break;
		done += batch.done;
	}
	for (i = 0; i < done; i++) {
		if (d->ring && ops[i].op == HTW_OP_CANCEL)
			ops[i].result = ring_stopped(d, ops[i].cancel.id,
						     ops[i].result,
						     &ops[i].cancel);
		failed += !!ops[i].result;
	}
	for (; i < count; i++)
		ops[i].result = -ECANCELED;
	return failed + count - done;
}

/* All timers. */

static int compare_ids(const void *a, const void *b)
{
	const u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return (x > y) - (x < y);
}

/*
 * Clear the events of timers that HTW_CANCEL_ALL has stopped: the device does
 * not know them any more, and their last event is not in the ring. Those whose
 * last event is there had ended before, and those that another thread has
 * started meanwhile go on.
 *
 * @ended has room for the ids of all events in the ring; it is NULL to clear
 * last events as well.
 */
static void ring_clear_stopped(struct device *d, u64 *ended)
{
	u32 head, waiting = min(ring_waiting(d, &head), d->mask + 1),
		  nr_ended = 0, i;

	for (i = 0; i < waiting; i++) {
		struct htw_event *ev = &d->events[(head + i) & d->mask];

		if (ev->flags & HTW_EVENT_MORE)
			continue;
		if (ended)
			ended[nr_ended++] = ev->id;
		else
			ev->id = 0;
	}
	if (nr_ended)
		qsort(ended, nr_ended, sizeof(*ended), compare_ids);
	for (i = 0; i < waiting; i++) {
		struct htw_event *ev = &d->events[(head + i) & d->mask];
		struct htw_query query = { .id = ev->id };

		if (!ev->id || !(ev->flags & HTW_EVENT_MORE) ||
		    (nr_ended && bsearch(&ev->id, ended, nr_ended,
					 sizeof(*ended), compare_ids)))
			continue;
		if (call(d, HTW_QUERY, &query) == -ENOENT)
			ev->id = 0;
	}
}

static int64_t ring_cancel_all(struct device *d, struct htw_cancel_all *all)
{
	const int error = errno;
	u64 *ended = NULL;
	int ret;

	if (!(all->flags & HTW_CANCEL_DISCARD)) {
		ended = malloc((d->mask + 1) * sizeof(*ended));
		if (!ended) {
			errno = error;
			return -ENOMEM;
		}
	}
	pthread_mutex_lock(&d->lock);
	ret = call(d, HTW_CANCEL_ALL, all);
	if (!ret)
		ring_clear_stopped(d, ended);
	pthread_mutex_unlock(&d->lock);
	free(ended);
	return ret ? ret : (int64_t)all->count;
}

static int64_t device_cancel_all(struct htw *htw, unsigned int flags)
{
	struct htw_cancel_all all = { .flags = flags };
	struct device *d = device_of(htw);
	int ret;

	if (d->ring)
		return ring_cancel_all(d, &all);
	ret = call(d, HTW_CANCEL_ALL, &all);
	return ret ? ret : (int64_t)all.count;
}

static int list(struct htw *htw, unsigned long command, u32 flags, u64 *cursor,
		struct htw_query *entries, unsigned int count)
{
	struct htw_list l = {
		.entries = (uintptr_t)entries,
		.cursor = *cursor,
		.count = count,
		.flags = flags,
	};
	int ret = call(device_of(htw), command, &l);

	if (ret)
		return ret;
	*cursor = l.cursor;
	return l.done;
}

static int device_list(struct htw *htw, unsigned int states, uint64_t *cursor,
		       struct htw_query *entries, unsigned int count)
{
	return list(htw, HTW_LIST, states, cursor, entries, count);
}

static int device_harvest(struct htw *htw, uint64_t *cursor, struct htw_query *entries,
			  unsigned int count)
{
	struct device *d = device_of(htw);
	int i, got = list(htw, HTW_HARVEST, 0, cursor, entries, count);

	for (i = 0; d->ring && i < got && !ring_is_empty(d); i++)
		ring_stopped(d, entries[i].id, 0, NULL);
	return got;
}

static int64_t device_advance(struct htw *htw, uint64_t ns, unsigned int flags)
{
	struct htw_advance advance = { .ns = ns, .flags = flags };
	struct device *d = device_of(htw);
	int ret = call(d, HTW_ADVANCE, &advance);

	if (ret)
		return ret;
	pthread_mutex_lock(&d->lock);
	d->manual_ns = flags & HTW_F_ABS ? ns : htw_sum(d->manual_ns, ns);
	pthread_mutex_unlock(&d->lock);
	return advance.expired;
}

/* The handle. */

static uint64_t device_now(struct htw *htw)
{
	struct device *d = device_of(htw);
	u64 now;

	if (d->info.clock != HTW_CLOCK_MANUAL)
		return htw_clock_ns(d->info.clock);
	pthread_mutex_lock(&d->lock);
	now = d->manual_ns;
	pthread_mutex_unlock(&d->lock);
	return now;
}

static int device_info(struct htw *htw, struct htw_info *info)
{
	return call(device_of(htw), HTW_INFO, info);
}

static int device_reserve(struct htw *htw, uint64_t count)
{
	return count > device_of(htw)->info.limit ? -ENOSPC : 0;
}

static size_t whole_pages(size_t size)
{
	const size_t page = sysconf(_SC_PAGESIZE);

	return (size + page - 1) / page * page;
}

static void *map(const struct device *d, size_t size, u64 offset)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED,
		       d->htw.fd, offset);

	return p == MAP_FAILED ? NULL : p;
}

static int device_map_ring(struct htw *htw)
{
	struct device *d = device_of(htw);
	const u32 entries = d->info.ring_entries;
	const int error = errno;
	struct htw_ring *ring;
	int ret = 0;

	if (!entries)
		return -ENXIO;

	pthread_mutex_lock(&d->lock);
	if (!d->ring) {
		d->ring_size = whole_pages(HTW_RING_SIZE(entries));
		ring = map(d, d->ring_size, HTW_OFF_RING);
		if (ring) {
			d->events = (struct htw_event *)(ring + 1);
			d->mask = entries - 1;
			d->ring = ring;
		} else {
			ret = -errno;
			errno = error;
		}
	}
	pthread_mutex_unlock(&d->lock);

	/* Expirations from before the mapping are queued: move them into the ring. */
	if (!ret)
		call(d, HTW_FLUSH, NULL);
	return ret;
}

__attribute__((unused)) static int device_map_table(struct htw *htw)
{
	struct device *d = device_of(htw);
	/* An older module does not report the size. */
	const u64 bytes = d->info.table_size ? d->info.table_size :
					       HTW_TABLE_SIZE(d->info.limit);
	const int error = errno;
	u64 *table;
	int ret = 0;

	pthread_mutex_lock(&d->lock);
	if (!d->table) {
		table = map(d, whole_pages(bytes), HTW_OFF_TABLE);
		if (table) {
			d->words = bytes / sizeof(*table);
			d->table = table;
		} else {
			ret = -errno;
			errno = error;
		}
	}
	pthread_mutex_unlock(&d->lock);
	return ret;
}

/*
 * The entry of an id whose slot is beyond what is known to be in memory: it is
 * if the timer exists, as are the rest of its page and all pages before it.
 */
static __attribute__((noinline)) u64 *find_word(struct device *d, u64 id)
{
	const u64 words = whole_pages(1) / sizeof(u64);
	const u32 slot = HTW_ID_SLOT(id);
	struct htw_query query = { .id = id };
	u64 reach = __atomic_load_n(&d->reach, __ATOMIC_RELAXED);
	const u64 known = min((slot / words + 1) * words, d->words);

	if (slot >= d->words || device_query(&d->htw, &query))
		return NULL;
	while (reach < known &&
	       !__atomic_compare_exchange_n(&d->reach, &reach, known, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	return &d->table[slot];
}

static uint64_t *device_table_word(struct htw *htw, uint64_t id)
{
	struct device *d = device_of(htw);
	const u32 slot = HTW_ID_SLOT(id);

	if (unlikely(!d->table || !(slot & (d->page_slots - 1))))
		return NULL;
	if (likely(slot < __atomic_load_n(&d->reach, __ATOMIC_RELAXED)))
		return &d->table[slot];
	return find_word(d, id);
}

static int device_put_off(struct htw *htw, uint64_t id, uint64_t when)
{
	(void)when;

	uint64_t *word = device_table_word(htw, id);

	return word ? -ENOENT : -ENXIO;
}

static void device_close(struct htw *htw)
{
	struct device *d = device_of(htw);

	if (d->ring)
		munmap(d->ring, d->ring_size);
	if (d->table)
		munmap(d->table, whole_pages(d->words * sizeof(*d->table)));
	close(d->htw.fd);
	pthread_mutex_destroy(&d->lock);
	free(d);
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
	.batch		= device_batch,
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
	d->page_slots = whole_pages(1) / 64;
	ret = call(d, HTW_INFO, &d->info);
	if (ret) {
		/* Another device, a file or a socket. */
		ret = ret == -EBADF ? -EBADF : -EINVAL;
		goto fail;
	}
	ret = -ENOSYS;
	if ((d->info.features & NEEDED) != NEEDED)
		goto fail;
	ret = non_blocking(fd);
	if (ret)
		goto fail;
	ret = -pthread_mutex_init(&d->lock, NULL);
	if (ret)
		goto fail;
	*htw = &d->htw;
	return 0;

fail:
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

/**
 * htw_device_set_up() - htw_open() on an open descriptor
 * @htw: out: the handle
 * @fd: the descriptor; closed on failure
 * @setup: as for htw_open()
 *
 * Return: as htw_open().
 */
int htw_device_set_up(struct htw **htw, int fd, const struct htw_setup *setup)
{
	int ret = 0;

	if (setup && ioctl(fd, HTW_SETUP, setup))
		ret = -errno;
	if (!ret)
		ret = htw_device_take(htw, fd);
	if (ret) {
		close(fd);
		return ret;
	}
	if (setup && setup->flags & HTW_SETUP_RING) {
		ret = device_map_ring(*htw);
		if (ret)
			device_close(*htw);
	}
	return ret;
}
