// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ring of events that a program maps: its memory, head and tail
 *
 * The kernel trusts nothing that it reads from there: both indices and the size
 * are kept in &struct htw_event_ring. A program that overwrites the memory
 * loses its own events, or sees some twice, and affects no one else. Delivery
 * (delivery.c) and HTW_FLUSH (reader.c) fill it.
 */

#include <linux/compiler.h>
#include <linux/err.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <asm/barrier.h>

#include "ring.h"
#include "timer.h"
#include "user.h"

static_assert(sizeof(struct htw_ring) == 128);

#define HTW_RING_MAX		BIT(20)

/* Check the size of a ring: -ERANGE if zero or too large, -EINVAL if no power of two. */
int htw_ring_check(u32 entries)
{
	if (!entries || entries > HTW_RING_MAX)
		return -ERANGE;
	return is_power_of_2(entries) ? 0 : -EINVAL;
}

/* The size in bytes of what programs map: whole pages. */
size_t htw_ring_size(const struct htw_event_ring *ring)
{
	return PAGE_ALIGN(sizeof(*ring->header) + ring->entries * sizeof(*ring->events));
}

/* The timers that a ring is charged as: no fewer than there are in as many pages. */
static u32 htw_ring_cost(u32 entries)
{
	return max(entries, HTW_PAGE_TIMERS);
}

/* Charge a user for a ring; return false at the limit. */
static bool htw_ring_charge(struct htw_user *user, u32 entries)
{
	u32 cost = htw_ring_cost(entries);
	struct htw_user_wait wait = HTW_USER_WAIT;

	htw_user_wait_begin(&wait, user);
	do {
		if (htw_user_charge(user, cost, cost))
			return true;
	} while (htw_user_wait_again(&wait));
	return false;
}

/**
 * htw_ring_alloc() - allocate a ring
 * @user: user to charge: a timer for each entry, and at least a page
 * @entries: a size that htw_ring_check() accepts
 *
 * Context: may sleep; charged to the caller's cgroup.
 * Return: the ring, ERR_PTR(-EDQUOT) or ERR_PTR(-ENOMEM).
 */
struct htw_event_ring *htw_ring_alloc(struct htw_user *user, u32 entries)
{
	struct htw_event_ring *ring;

	if (!htw_ring_charge(user, entries))
		return ERR_PTR(-EDQUOT);
	ring = kzalloc(sizeof(*ring), GFP_KERNEL_ACCOUNT);
	if (!ring)
		goto err_user;
	ring->entries = entries;
	ring->header = __vmalloc(htw_ring_size(ring),
				 GFP_KERNEL_ACCOUNT | __GFP_NOWARN | __GFP_ZERO);
	if (!ring->header)
		goto err_ring;
	ring->events = (struct htw_event *)(ring->header + 1);
	ring->header->entries = entries;
	return ring;

err_ring:
	kfree(ring);
err_user:
	htw_user_uncharge(user, htw_ring_cost(entries));
	return ERR_PTR(-ENOMEM);
}

/* Free a ring that is not mapped, or NULL, and uncharge @user. May sleep. */
void htw_ring_free(struct htw_event_ring *ring, struct htw_user *user)
{
	if (!ring)
		return;
	htw_user_uncharge(user, htw_ring_cost(ring->entries));
	vfree(ring->header);
	kfree(ring);
}

/*
 * The number of events that fit; the context's lock is held. A head that is
 * ahead of the tail, or behind it by more than the ring holds, is ignored.
 */
u32 htw_ring_room(struct htw_event_ring *ring)
{
	/* Pairs with the program's release: it has read the events before its head. */
	u32 head = smp_load_acquire(&ring->header->head);

	if (ring->tail - head <= ring->entries)
		ring->head = head;
	return ring->entries - (ring->tail - ring->head);
}

/*
 * Publish new events and whether more are @queued, and restore fields that the
 * program may have overwritten. The context's lock is held.
 */
void htw_ring_publish(struct htw_event_ring *ring, bool queued)
{
	WRITE_ONCE(ring->header->entries, ring->entries);
	WRITE_ONCE(ring->header->flags, queued ? HTW_RING_OVERFLOW : 0);
	/* Pairs with the program's acquire: the events and the flag come before the tail. */
	smp_store_release(&ring->header->tail, ring->tail);
}
