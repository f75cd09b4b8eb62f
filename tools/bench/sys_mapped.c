// SPDX-License-Identifier: GPL-2.0-only
/*
 * htw with the mapped ring (htw-ring), and with the mapped deadline table
 * (htw-table)
 *
 * Adds and cancels go through HTW_VECTOR, as with htw-vector. With the table,
 * moving a deadline later is a store, and an id stays valid until it is
 * cancelled.
 */
#include "bench.h"
#include "htw.h"

#define RING_ENTRIES	4096U

#define FEATURES	(HTW_FEATURE_ADD | HTW_FEATURE_MOD | HTW_FEATURE_SETUP)

static struct {
	int fd, epfd;
	struct htw_ring *ring;
	const struct htw_event *events;
	size_t ring_size;
	uint64_t *table;
	size_t table_size;
} mapped;

static const char *ring_missing(uint32_t pending)
{
	return htw_missing_feature(FEATURES | HTW_FEATURE_RING, "ring (HTW_FEATURE_RING)", pending);
}

static const char *table_missing(uint32_t pending)
{
	return htw_missing_feature(FEATURES | HTW_FEATURE_RING | HTW_FEATURE_TABLE,
				   "table (HTW_FEATURE_TABLE)", pending);
}

uint64_t *htw_mapped_table(void)
{
	return mapped.table;
}

static void *map(size_t size, off_t offset, const char *what)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, mapped.fd, offset);

	if (p == MAP_FAILED)
		die("htw: mapping the %s: %s", what, strerror(errno));
	return p;
}

static size_t pages(size_t size)
{
	const size_t page = sysconf(_SC_PAGESIZE);

	return (size + page - 1) / page * page;
}

static void ring_open(struct bench *b)
{
	struct htw_setup setup = {
		.flags = HTW_SETUP_RING,
		.ring_entries = RING_ENTRIES,
	};
	int ret;

	mapped.fd = htw_open_device(FEATURES | HTW_FEATURE_RING, b->pending);
	ret = htw_call(mapped.fd, HTW_SETUP, &setup);
	if (ret)
		die("htw: HTW_SETUP of a ring: %s", strerror(-ret));
	mapped.epfd = htw_epoll(mapped.fd);
	mapped.ring_size = pages(sizeof(struct htw_ring) +
				 RING_ENTRIES * sizeof(struct htw_event));
	mapped.ring = map(mapped.ring_size, HTW_OFF_RING, "ring");
	mapped.events = (const struct htw_event *)(mapped.ring + 1);
}

static void table_open(struct bench *b)
{
	ring_open(b);
	/* One entry for each slot; one slot in 64 is a page's header. */
	mapped.table_size = pages((b->pending + b->pending / 32 + 4096) * sizeof(*mapped.table));
	mapped.table = map(mapped.table_size, HTW_OFF_TABLE, "table");
}

static void ring_close(struct bench *b)
{
	(void)b;
	munmap(mapped.ring, mapped.ring_size);
	close(mapped.epfd);
	close(mapped.fd);
}

static void table_close(struct bench *b)
{
	munmap(mapped.table, mapped.table_size);
	ring_close(b);
}

static void ring_add(struct bench *b)
{
	htw_vector_add(mapped.fd, b);
}

static void ring_rearm(struct bench *b, uint32_t count)
{
	htw_vector_rearm(mapped.fd, b, count);
}

static void ring_cancel(struct bench *b, uint32_t count)
{
	htw_vector_cancel(mapped.fd, b, count);
}

/*
 * Store each new deadline, later than the old one. As in an event loop, read
 * the clock once for a batch of events.
 */
static void table_rearm(struct bench *b, uint32_t count)
{
	uint64_t now = 0;
	uint32_t k;

	for (k = 0; k < count; k++) {
		const uint32_t timer = b->rearm_order[k];

		if (k % BATCH == 0)
			now = now_ns();
		__atomic_store_n(&mapped.table[HTW_ID_SLOT(b->handles[timer])],
				 now + b->later[k], __ATOMIC_RELAXED);
	}
}

/* Empty the ring; no system call unless it has overflowed. */
static void take_ring(struct bench *b, bool kept)
{
	struct htw_ring *ring = mapped.ring;
	uint32_t head = ring->head, tail;
	uint64_t now;

	tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
	if (head == tail)
		return;
	now = now_ns();
	for (; head != tail; head++)
		htw_take(b, &mapped.events[head & (RING_ENTRIES - 1)], now, kept);
	__atomic_store_n(&ring->head, head, __ATOMIC_RELEASE);
}

static void collect(struct bench *b, bool kept)
{
	int ret;

	take_ring(b, kept);
	while (__atomic_load_n(&mapped.ring->flags, __ATOMIC_ACQUIRE) & HTW_RING_OVERFLOW) {
		ret = htw_call(mapped.fd, HTW_FLUSH, NULL);
		if (unlikely(ret < 0))
			die("HTW_FLUSH: %s", strerror(-ret));
		take_ring(b, kept);
	}
}

static void ring_collect(struct bench *b)
{
	collect(b, false);
}

static void table_collect(struct bench *b)
{
	collect(b, true);
}

const struct system system_htw_ring = {
	.name = "htw-ring",
	.missing = ring_missing,
	.open = ring_open,
	.add = ring_add,
	.rearm = ring_rearm,
	.cancel = ring_cancel,
	.collect = ring_collect,
	.polls = true,
	.close = ring_close,
};

const struct system system_htw_table = {
	.name = "htw-table",
	.missing = table_missing,
	.open = table_open,
	.add = ring_add,
	.rearm = table_rearm,
	.cancel = ring_cancel,
	.collect = table_collect,
	.polls = true,
	.close = table_close,
};
