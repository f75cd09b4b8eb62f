/* SPDX-License-Identifier: MIT */
/*
 * Names that programs have: those of the kernel's headers, which many have copied,
 * of the BSDs' and of Windows'
 *
 * Whatever they are defined as, the wheel's files do without them.
 */
#ifndef LIST_H
#define LIST_H

struct list_head {
	void *of_another_kind;
};

#define LIST_HEAD(name, type)		struct name { struct type *first; }
#define LIST_ENTRY(type)		struct { struct type *next, **prev; }
#define LIST_INIT(head)			((head)->first = 0)
#define LIST_FIRST(head)		((head)->first)
#define LIST_EMPTY(head)		(!(head)->first)
#define LIST_NEXT(at)			((at)->next)
#define INIT_LIST_HEAD			not_a_value
#define list_for_each			not_a_value
#define list_for_each_safe		not_a_value
#define list_for_each_entry		not_a_value
#define list_for_each_entry_safe	not_a_value
#define list_entry			not_a_value
#define list_first_entry		not_a_value
#define list_last_entry			not_a_value
#define list_empty			not_a_value
#define list_splice			not_a_value
#define list_splice_init		not_a_value
#define list_splice_tail_init		not_a_value
#define list_del_init			not_a_value
#define list_move_tail			not_a_value
#define container_of			not_a_value
#define min				not_a_value
#define max				not_a_value
#define likely				not_a_value
#define unlikely			not_a_value
#define noinline			not_a_value
#define BIT				not_a_value
#define BIT_ULL				not_a_value
#define BITS_PER_LONG			not_a_value
#define BITS_TO_LONGS			not_a_value
#define WRITE_ONCE			not_a_value
#define READ_ONCE			not_a_value
#define U64_MAX				not_a_value
#define fls64				not_a_value
#define ilog2				not_a_value
#define is_power_of_2			not_a_value
#define div64_u64			not_a_value
#define div_u64				not_a_value
#define find_next_bit			not_a_value
#define find_first_bit			not_a_value
#define prefetchw			not_a_value
#define round_down			not_a_value

static inline int list_add(struct list_head *list)
{
	return !list->of_another_kind;
}

static inline int list_add_tail(struct list_head *list)
{
	return !list->of_another_kind;
}

static inline int list_del(struct list_head *list)
{
	return !list->of_another_kind;
}

typedef struct { int low, high; } u64;
typedef float u32;
typedef float u16;
typedef float u8;

#endif /* LIST_H */
