/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The ring of events that a program maps
 */
#ifndef _HTW_RING_H
#define _HTW_RING_H

#include <linux/types.h>
#include <uapi/linux/htw.h>

struct htw_user;

/**
 * struct htw_event_ring - the kernel's side of a ring of events
 * @header: memory that programs map and may overwrite. The kernel reads only
 *	its head, once for each decision
 * @events: the events, after @header
 * @entries: number of events, a power of two; constant
 * @tail: number of the next event to write (the context's lock)
 * @head: the last valid head that the program stored (the context's lock)
 * @maps: number of mappings; the ring takes no events while there are none
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

/* The next event to write, if there is room; the context's lock is held. */
static inline struct htw_event *htw_ring_next(struct htw_event_ring *ring)
{
	return &ring->events[ring->tail++ & (ring->entries - 1)];
}

int htw_ring_check(u32 entries);
struct htw_event_ring *htw_ring_alloc(struct htw_user *user, u32 entries);
void htw_ring_free(struct htw_event_ring *ring, struct htw_user *user);
size_t htw_ring_size(const struct htw_event_ring *ring);
u32 htw_ring_room(struct htw_event_ring *ring);
void htw_ring_publish(struct htw_event_ring *ring, bool queued);

#endif /* _HTW_RING_H */
