/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The program's side of the ring
 */
#ifndef HTW_RING_TEST_H
#define HTW_RING_TEST_H

#include "htw-test.h"

struct ring {
	int fd;
	size_t size;
	struct htw_ring *page;
	const struct htw_event *events;
	__u32 entries;
};

static inline size_t ring_size(__u32 entries)
{
	return (sizeof(struct htw_ring) + entries * sizeof(struct htw_event) + PAGE - 1) & -PAGE;
}

/* The address, or a negative errno. */
static inline long ring_mmap_as(int fd, size_t size, int prot, int flags, __u64 offset)
{
	void *p = mmap(NULL, size, prot, flags, fd, offset);

	return p == MAP_FAILED ? -errno : (long)p;
}

static inline long ring_mmap(int fd, size_t size, int flags, __u64 offset)
{
	return ring_mmap_as(fd, size, PROT_READ | PROT_WRITE, flags, offset);
}

/*
 * Map for reading what a descriptor that is open for reading only can map, and see that it
 * cannot be made writable. Return the address, or zero.
 */
static inline long ring_mmap_read_only(int fd, size_t size, __u64 offset)
{
	long p;

	if (ring_mmap(fd, size, MAP_SHARED, offset) != -EACCES ||
	    ring_mmap_as(fd, size, PROT_READ, MAP_PRIVATE, offset) != -EINVAL)
		return 0;
	p = ring_mmap_as(fd, size, PROT_READ, MAP_SHARED, offset);
	if (p < 0 && p > -4096)
		return 0;
	return mprotect((void *)p, size, PROT_READ | PROT_WRITE) && errno == EACCES ? p : 0;
}

static inline bool ring_map(struct ring *r, int fd, __u32 entries)
{
	long p = ring_mmap(fd, ring_size(entries), MAP_SHARED, HTW_OFF_RING);

	if (p < 0 && p > -4096)
		return false;
	*r = (struct ring){
		.fd = fd,
		.size = ring_size(entries),
		.page = (struct htw_ring *)p,
		.events = (struct htw_event *)((struct htw_ring *)p + 1),
		.entries = entries,
	};
	return true;
}

/* Set up and map a ring on @clock. */
static inline bool ring_open(struct ring *r, int fd, __u32 entries, int clock)
{
	return !htw_set_up(fd, (struct htw_setup){
			.flags = HTW_SETUP_RING | HTW_SETUP_CLOCK,
			.ring_entries = entries,
			.clock = clock,
		}) && ring_map(r, fd, entries);
}

static inline void ring_unmap(struct ring *r)
{
	munmap(r->page, r->size);
}

static inline __u32 ring_tail(const struct ring *r)
{
	return __atomic_load_n(&r->page->tail, __ATOMIC_ACQUIRE);
}

static inline __u32 ring_waiting(const struct ring *r)
{
	return ring_tail(r) - r->page->head;
}

static inline bool ring_overflows(const struct ring *r)
{
	return __atomic_load_n(&r->page->flags, __ATOMIC_RELAXED) & HTW_RING_OVERFLOW;
}

/* Take up to @room events; return their number. */
static inline size_t ring_take(struct ring *r, struct htw_event *ev, size_t room)
{
	__u32 head = r->page->head, tail = ring_tail(r);
	size_t n = 0;

	for (; head != tail && n < room; head++)
		ev[n++] = r->events[head & (r->entries - 1)];
	__atomic_store_n(&r->page->head, head, __ATOMIC_RELEASE);
	return n;
}

static inline int ring_flush(const struct ring *r)
{
	return htw_call(r->fd, HTW_FLUSH, NULL);
}

#endif /* HTW_RING_TEST_H */
