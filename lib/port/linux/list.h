/* SPDX-License-Identifier: MIT */
/* <linux/list.h>, without its checks */
#ifndef LIBHTW_PORT_LIST_H
#define LIBHTW_PORT_LIST_H

#include <linux/container_of.h>
#include <linux/types.h>

#define LIST_HEAD(name)		struct list_head name = { &(name), &(name) }
#define list_entry(p, type, member)	container_of(p, type, member)
#define list_first_entry(head, type, member)	list_entry((head)->next, type, member)
#define list_last_entry(head, type, member)	list_entry((head)->prev, type, member)
#define list_first_entry_or_null(head, type, member) \
	(list_empty(head) ? NULL : list_first_entry(head, type, member))
#define list_for_each(pos, head) \
	for (pos = (head)->next; pos != (head); pos = pos->next)
#define list_for_each_safe(pos, following, head)			\
	for (pos = (head)->next, following = pos->next; pos != (head);	\
	     pos = following, following = pos->next)
#define list_for_each_entry(pos, head, member)				\
	for (pos = list_first_entry(head, __typeof__(*pos), member);	\
	     &pos->member != (head);					\
	     pos = list_first_entry(&pos->member, __typeof__(*pos), member))
#define list_for_each_entry_safe(pos, next, head, member)		\
	for (pos = list_first_entry(head, __typeof__(*pos), member),		\
	     next = list_first_entry(&pos->member, __typeof__(*pos), member);	\
	     &pos->member != (head);						\
	     pos = next, next = list_first_entry(&next->member, __typeof__(*pos), member))

static inline void INIT_LIST_HEAD(struct list_head *list)
{
	list->next = list;
	list->prev = list;
}

static inline bool list_empty(const struct list_head *head)
{
	return head->next == head;
}

static inline void __list_add(struct list_head *entry, struct list_head *prev,
			      struct list_head *next)
{
	next->prev = entry;
	entry->next = next;
	entry->prev = prev;
	prev->next = entry;
}

static inline void list_add(struct list_head *entry, struct list_head *head)
{
	__list_add(entry, head, head->next);
}

static inline void list_add_tail(struct list_head *entry, struct list_head *head)
{
	__list_add(entry, head->prev, head);
}

static inline void __list_del(struct list_head *prev, struct list_head *next)
{
	next->prev = prev;
	prev->next = next;
}

static inline void list_del(struct list_head *entry)
{
	__list_del(entry->prev, entry->next);
}

static inline void list_del_init(struct list_head *entry)
{
	list_del(entry);
	INIT_LIST_HEAD(entry);
}

static inline void list_move_tail(struct list_head *entry, struct list_head *head)
{
	list_del(entry);
	list_add_tail(entry, head);
}

static inline void __list_splice(struct list_head *list, struct list_head *prev,
				 struct list_head *next)
{
	struct list_head *first = list->next, *last = list->prev;

	first->prev = prev;
	prev->next = first;
	last->next = next;
	next->prev = last;
}

static inline void list_splice(struct list_head *list, struct list_head *head)
{
	if (!list_empty(list))
		__list_splice(list, head, head->next);
}

static inline void list_splice_init(struct list_head *list, struct list_head *head)
{
	list_splice(list, head);
	INIT_LIST_HEAD(list);
}

/* Give all entries of a list that is not empty another head. */
static inline void list_replace_init(struct list_head *from, struct list_head *to)
{
	to->next = from->next;
	to->next->prev = to;
	to->prev = from->prev;
	to->prev->next = to;
	INIT_LIST_HEAD(from);
}

/* Move the entries before @entry, which may be the head itself, to a list without any. */
static inline void list_cut_before(struct list_head *list, struct list_head *head,
				   struct list_head *entry)
{
	if (head->next == entry)
		return;
	list->next = head->next;
	list->next->prev = list;
	list->prev = entry->prev;
	list->prev->next = list;
	head->next = entry;
	entry->prev = head;
}

static inline void list_splice_tail_init(struct list_head *list, struct list_head *head)
{
	if (!list_empty(list))
		__list_splice(list, head->prev, head);
	INIT_LIST_HEAD(list);
}

#endif /* LIBHTW_PORT_LIST_H */
