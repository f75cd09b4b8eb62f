/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Links of lists on the hot path
 *
 * A distribution's kernel has CONFIG_DEBUG_LIST, where each list_add_tail() and
 * each list_del() is a call of some 25 instructions: more than half of what
 * moving a timer takes. The kernel's own wheel does not pay that, as its hlists
 * are not checked. Here the checks are made where the kernel was built to find
 * bugs, so every test that runs on such a kernel still has them.
 */
#ifndef _HTW_LIST_H
#define _HTW_LIST_H

#ifdef __KERNEL__
#include <linux/list.h>
#endif

#if defined(CONFIG_PROVE_LOCKING) || defined(CONFIG_KASAN)
#define HTW_DEBUG_LIST		true
#else
#define HTW_DEBUG_LIST		false
#endif

/* Appends an entry to a list; as list_add_tail(). */
static inline void __htw_list_add_tail(struct list_head *entry, struct list_head *head)
{
	struct list_head *last = head->prev;

	if (HTW_DEBUG_LIST) {
		list_add_tail(entry, head);
		return;
	}
	entry->next = head;
	entry->prev = last;
	head->prev = entry;
	WRITE_ONCE(last->next, entry);
}

/* Puts an entry in front of a list; as list_add(). */
static inline void __htw_list_add(struct list_head *entry, struct list_head *head)
{
	struct list_head *first = head->next;

	if (HTW_DEBUG_LIST) {
		list_add(entry, head);
		return;
	}
	entry->next = first;
	entry->prev = head;
	first->prev = entry;
	WRITE_ONCE(head->next, entry);
}

/* Takes an entry out of its list; as list_del(). Its own links are then stale. */
static inline void __htw_list_del(struct list_head *entry)
{
	if (HTW_DEBUG_LIST)
		list_del(entry);
	else
		__list_del(entry->prev, entry->next);
}

#endif /* _HTW_LIST_H */
