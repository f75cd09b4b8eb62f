/* SPDX-License-Identifier: MIT */
/*
 * The kernel's interfaces that htw_wheel.c needs, for a program
 *
 * Names and meanings are the kernel's. &struct htw_node differs: behind the list and the
 * tick it has a name, where the kernel module keeps the timer's CPU and state.
 */
#ifndef LIBHTW_PORT_H
#define LIBHTW_PORT_H

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef unsigned int gfp_t;

#define U64_MAX			UINT64_MAX
#define BIT_ULL(n)		(1ULL << (n))
#define BITS_PER_LONG		((unsigned int)(sizeof(long) * CHAR_BIT))
#define BITS_TO_LONGS(n)	(((n) + BITS_PER_LONG - 1) / BITS_PER_LONG)
#define GFP_KERNEL		0
#define NUMA_NO_NODE		(-1)

#ifndef __always_inline
#define __always_inline		inline __attribute__((__always_inline__))
#endif
#define likely(x)		__builtin_expect(!!(x), 1)
#define unlikely(x)		__builtin_expect(!!(x), 0)
#define prefetchw(p)		__builtin_prefetch(p, 1)
#define WRITE_ONCE(x, value)	(*(volatile __typeof__(x) *)&(x) = (value))
#define container_of(p, type, member) \
	((type *)((char *)(p) - offsetof(type, member)))

#define min(a, b) ({ __typeof__(a) _a = (a); __typeof__(b) _b = (b); _a < _b ? _a : _b; })
#define max(a, b) ({ __typeof__(a) _a = (a); __typeof__(b) _b = (b); _a > _b ? _a : _b; })
#define min_t(type, a, b)	min((type)(a), (type)(b))
#define max_t(type, a, b)	max((type)(a), (type)(b))

/* With a corrupt wheel timers would expire at wrong times: abort. */
#define WARN_ON(condition) do {						\
	if (unlikely(condition)) {					\
		fprintf(stderr, "libhtw: %s\n", #condition);		\
		abort();						\
	}								\
} while (0)

/* Lists. */

struct list_head {
	struct list_head *next, *prev;
};

#define LIST_HEAD(name)		struct list_head name = { &(name), &(name) }
#define list_entry(p, type, member)	container_of(p, type, member)
#define list_first_entry(head, type, member)	list_entry((head)->next, type, member)
#define list_last_entry(head, type, member)	list_entry((head)->prev, type, member)
#define list_first_entry_or_null(head, type, member) \
	(list_empty(head) ? NULL : list_first_entry(head, type, member))
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

static inline void list_splice_tail_init(struct list_head *list, struct list_head *head)
{
	if (!list_empty(list))
		__list_splice(list, head->prev, head);
	INIT_LIST_HEAD(list);
}

/* Bits. */

static inline unsigned int fls64(u64 x)
{
	return x ? 64 - (unsigned int)__builtin_clzll(x) : 0;
}

static inline unsigned int ilog2(u64 x)
{
	return fls64(x) - 1;
}

static inline bool is_power_of_2(u64 x)
{
	return x && !(x & (x - 1));
}

static inline bool __test_and_set_bit(unsigned int bit, unsigned long *map)
{
	unsigned long *word = &map[bit / BITS_PER_LONG];
	const unsigned long mask = 1UL << bit % BITS_PER_LONG;
	const bool was = *word & mask;

	*word |= mask;
	return was;
}

static inline bool __test_and_clear_bit(unsigned int bit, unsigned long *map)
{
	unsigned long *word = &map[bit / BITS_PER_LONG];
	const unsigned long mask = 1UL << bit % BITS_PER_LONG;
	const bool was = *word & mask;

	*word &= ~mask;
	return was;
}

static inline unsigned int find_next_bit(const unsigned long *map, unsigned int size,
					 unsigned int from)
{
	unsigned int word = from / BITS_PER_LONG;
	unsigned long bits;

	if (from >= size)
		return size;
	bits = map[word] & ~0UL << from % BITS_PER_LONG;
	while (!bits) {
		if (++word >= BITS_TO_LONGS(size))
			return size;
		bits = map[word];
	}
	return min(word * BITS_PER_LONG + (unsigned int)__builtin_ctzl(bits), size);
}

static inline unsigned int find_first_bit(const unsigned long *map, unsigned int size)
{
	return find_next_bit(map, size, 0);
}

/* Arithmetic and memory. */

static inline u64 div64_u64(u64 a, u64 b)
{
	return a / b;
}

static inline u64 div_u64(u64 a, u32 b)
{
	return a / b;
}

static inline u64 div_u64_rem(u64 a, u32 b, u32 *rest)
{
	*rest = a % b;
	return a / b;
}

static inline void *kvmalloc_node(size_t size, gfp_t gfp, int node)
{
	(void)gfp;
	(void)node;
	/* Wheels of different threads do not share a cache line. */
	return aligned_alloc(128, (size + 127) / 128 * 128);
}

static inline void kvfree(void *p)
{
	free(p);
}

/**
 * struct htw_node - a timer in a wheel
 * @list: the wheel's while the node is in it, else free for the caller
 * @expires: the tick at which the node expires, while it is in a wheel
 * @fired: for the caller, after the node has left the wheel
 * @name: for the caller
 */
struct htw_node {
	struct list_head list;
	union {
		u64 expires;
		u64 fired;
	};
	u64 name;
};

#endif /* LIBHTW_PORT_H */
