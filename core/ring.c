// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ring of expirations that a program maps: its memory
 *
 * The kernel fills it and believes nothing that it reads from it: how far it
 * has written, how far the program has read and how large the ring is, it knows
 * from &struct htw_event_ring. A program that scribbles over the page loses
 * its own expirations, or sees some twice, and hurts nobody else.
 *
 * What is filled in and how is with the queue of expirations, in expire.c.
 */

#include <linux/err.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "ring.h"
#include "user.h"

#define HTW_RING_MAX		BIT(20)

/**
 * htw_ring_check() - can a ring be so large?
 * @entries: how many records it is to hold
 *
 * Return: 0; -ERANGE for none or too many; -EINVAL for what is no power of two.
 */
int htw_ring_check(u32 entries)
{
	if (!entries || entries > HTW_RING_MAX)
		return -ERANGE;
	return is_power_of_2(entries) ? 0 : -EINVAL;
}

/**
 * htw_ring_size() - how many bytes of memory a program sees
 * @ring: the ring
 *
 * Return: the bytes, whole pages.
 */
size_t htw_ring_size(const struct htw_event_ring *ring)
{
	return PAGE_ALIGN(sizeof(*ring->header) + ring->entries * sizeof(*ring->events));
}

/**
 * htw_ring_alloc() - makes a ring
 * @user: who it counts for, as much as a timer an entry, or NULL
 * @entries: how many records it holds, which htw_ring_check() has passed
 *
 * Context: may sleep; charged to the caller's cgroup.
 * Return: the ring; -EDQUOT or -ENOMEM as a pointer.
 */
struct htw_event_ring *htw_ring_alloc(struct htw_user *user, u32 entries)
{
	const u32 granted = htw_user_charge(user, entries);
	struct htw_event_ring *ring;

	if (granted < entries) {
		htw_user_uncharge(user, granted);
		return ERR_PTR(-EDQUOT);
	}
	ring = kzalloc(sizeof(*ring), GFP_KERNEL_ACCOUNT);
	if (!ring)
		goto err_user;
	ring->entries = entries;
	ring->header = __vmalloc(htw_ring_size(ring), GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!ring->header)
		goto err_ring;
	ring->events = (struct htw_event *)(ring->header + 1);
	ring->header->entries = entries;
	return ring;

err_ring:
	kfree(ring);
err_user:
	htw_user_uncharge(user, entries);
	return ERR_PTR(-ENOMEM);
}

/**
 * htw_ring_free() - frees a ring that is not mapped
 * @ring: the ring, or NULL
 * @user: who it counted for, or NULL
 *
 * Context: may sleep.
 */
void htw_ring_free(struct htw_event_ring *ring, struct htw_user *user)
{
	if (!ring)
		return;
	htw_user_uncharge(user, ring->entries);
	vfree(ring->header);
	kfree(ring);
}
