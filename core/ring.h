/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The ring of expirations that a program maps
 */
#ifndef _HTW_RING_H
#define _HTW_RING_H

#include <linux/compiler.h>
#include <linux/types.h>
#include <asm/barrier.h>
#include <uapi/linux/htw.h>

struct htw_user;

/**
 * struct htw_event_ring - the kernel's side of a ring of expirations
 * @header: what programs map and may write all over. The kernel reads its head,
 *	and only that, once for each decision
 * @events: the records, behind the head of @header
 * @entries: how many; a power of two; never changes
 * @tail: number of the next record (the context's lock)
 * @head: the last of the program's heads that can be one (the context's lock)
 * @maps: how many mappings there are; while there are none it takes no records
 *	(written under the context's lock)
 */
struct htw_event_ring {
	struct htw_ring *header;
	struct htw_event *events;
	u32 entries;
	u32 tail;
	u32 head;
	u32 maps;
};

/*
 * How many more records there is room for. The context's lock is held.
 *
 * A head that is ahead of the tail, or behind it by more than the ring holds, is
 * none: then there is room as far as the last one said.
 */
static inline u32 htw_ring_room(struct htw_event_ring *ring)
{
	/* Pairs with the program's release: it has read all before it. */
	const u32 head = smp_load_acquire(&ring->header->head);

	if (ring->tail - head <= ring->entries)
		ring->head = head;
	return ring->entries - (ring->tail - ring->head);
}

/* The place of the next record; there is room. The context's lock is held. */
static inline struct htw_event *htw_ring_next(struct htw_event_ring *ring)
{
	return &ring->events[ring->tail++ & (ring->entries - 1)];
}

/*
 * Shows the program what was written since the last time, and whether more
 * @waits in the queue; all that may be scribbled over is written anew. The
 * context's lock is held.
 */
static inline void htw_ring_publish(struct htw_event_ring *ring, bool waits)
{
	WRITE_ONCE(ring->header->entries, ring->entries);
	WRITE_ONCE(ring->header->flags, waits ? HTW_RING_OVERFLOW : 0);
	/* Pairs with the program's acquire: the records are there, and the flag. */
	smp_store_release(&ring->header->tail, ring->tail);
}

int htw_ring_check(u32 entries);
struct htw_event_ring *htw_ring_alloc(struct htw_user *user, u32 entries);
void htw_ring_free(struct htw_event_ring *ring, struct htw_user *user);
size_t htw_ring_size(const struct htw_event_ring *ring);

#endif /* _HTW_RING_H */
