// SPDX-License-Identifier: GPL-2.0-only
/*
 * The timers of a context and their ids: which are free
 */

#include <linux/random.h>

#include "ids.h"

const struct htw_timer htw_no_timer;

void htw_ids_init(struct htw_ids *ids, u32 limit)
{
	spin_lock_init(&ids->lock);
	INIT_LIST_HEAD(&ids->pages);
	ids->limit = limit;
	/*
	 * So that an id of another context is not taken for one's own; half of
	 * them are left.
	 */
	ids->generation = get_random_u32() >> 1 | 1;
}

/**
 * htw_ids_take() - take free timers
 * @ids: the ids, whose lock is held
 * @timers: out: the timers
 * @want: how many at most
 * @numbers: out: their ids
 *
 * Return: how many.
 */
u32 htw_ids_take(struct htw_ids *ids, struct htw_timer **timers, u32 want, u64 *numbers)
{
	u32 got = 0;

	lockdep_assert_held(&ids->lock);

	want = min(want, ids->limit - min(ids->nr_timers, ids->limit));
	while (got < want && !list_empty(&ids->pages)) {
		struct htw_page *page = list_first_entry(&ids->pages, struct htw_page, list);

		if (page->generation == U32_MAX)
			htw_page_retire(ids, page);
		else
			got += htw_page_take(ids, page, timers + got, want - got, numbers + got);
	}
	return got;
}

/**
 * htw_ids_return() - end timers of a base, which is locked, and return them to
 * their pages
 * @ids: the ids
 * @timers: the links of the first, from where next leads to the others
 * @count: how many they are
 */
void htw_ids_return(struct htw_ids *ids, struct list_head *timers, u32 count)
{
	struct list_head *next;

	spin_lock(&ids->lock);
	ids->nr_timers -= count;
	for (; timers; timers = next) {
		struct htw_timer *t = list_entry(timers, struct htw_timer, node.list);
		struct htw_page *page = htw_ids_page(ids, t);

		if (unlikely(!page->free))
			__htw_list_add_tail(&page->list, ids->pages.next);
		WRITE_ONCE(t->state, HTW_FREE);
		next = timers->next;
		timers->next = page->free;
		page->free = timers;

		if (unlikely(!--page->used)) {
			list_move_tail(&page->list, &ids->pages);
			WRITE_ONCE(ids->nr_empty, ids->nr_empty + 1);
		}
	}
	spin_unlock(&ids->lock);
}

/*
 * Return a timer that was taken, and has not been started. Its id is not used
 * again: another thread of the program may have read it from memory.
 */
void htw_ids_give_up(struct htw_ids *ids, struct htw_timer *t)
{
	t->node.list.next = NULL;
	htw_ids_return(ids, &t->node.list, 1);
}

/**
 * htw_page_retire() - a page's generations run out: it stays, and its timers
 * are not taken
 * @ids: the ids, whose lock is held
 * @page: the page, of which a timer is free
 */
void htw_page_retire(struct htw_ids *ids, struct htw_page *page)
{
	lockdep_assert_held(&ids->lock);

	list_del(&page->list);
	if (!page->used++)
		WRITE_ONCE(ids->nr_empty, ids->nr_empty - 1);
}
