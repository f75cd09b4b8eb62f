// SPDX-License-Identifier: GPL-2.0-only
/*
 * The timers of a context and their ids: which are free
 */

#include <linux/random.h>

#include "ids.h"

const struct htw_timer htw_no_timer;

void htw_ids_init(struct htw_ids *ids)
{
	/*
	 * So that an id of another context is not taken for one's own; half of
	 * them are left.
	 */
	ids->generation = get_random_u32() >> 1 | 1;
}

/* Set how many timers a context can have. To be called before it has a page. */
void htw_ids_limit(struct htw_ids *ids, u32 limit)
{
	ids->limit = limit;
	atomic_set(&ids->room, limit);
}

/* A page of a base from which to take timers, or NULL. */
static struct htw_page *htw_ids_first_page(struct htw_base *base)
{
	struct list_head *pages = list_empty(&base->pages) ? &base->empty : &base->pages;

	return list_first_entry_or_null(pages, struct htw_page, list);
}

/**
 * htw_ids_take() - take free timers of a base
 * @base: the base, locked
 * @timers: out: the timers
 * @want: how many at most
 * @numbers: out: their ids
 *
 * Return: how many.
 */
u32 htw_ids_take(struct htw_base *base, struct htw_timer **timers, u32 want, u64 *numbers)
{
	u32 got = 0;

	lockdep_assert_held(&base->lock);

	while (got < want) {
		struct htw_page *page = htw_ids_first_page(base);

		if (!page)
			break;
		if (page->generation == U32_MAX)
			htw_page_retire(base, page);
		else
			got += htw_page_take(base, page, timers + got, want - got, numbers + got);
	}
	return got;
}

/* Empty pages that a context keeps, beside one of each base: 64 KiB. */
#define HTW_PAGES_KEPT		16u

/* Divide the empty pages that a context keeps by the number of its bases. */
void htw_ids_share(struct htw_ids *ids, u32 nr_bases)
{
	WRITE_ONCE(ids->kept, 1 + HTW_PAGES_KEPT / nr_bases);
}

/*
 * Are many pages of a base, which is locked, empty? A third as many as others,
 * so that steady load gives none back.
 */
bool htw_ids_are_sparse(const struct htw_base *base)
{
	lockdep_assert_held(&base->lock);

	return base->nr_empty > READ_ONCE(base->ids->kept) && base->nr_empty > base->nr_pages / 4;
}

/* A page of a base has become empty; the base is locked. */
void htw_page_empty(struct htw_base *base, struct htw_page *page)
{
	lockdep_assert_held(&base->lock);

	list_move(&page->list, &base->empty);
	base->nr_empty++;
	if (htw_ids_are_sparse(base))
		WRITE_ONCE(base->ids->is_sparse, true);
}

/**
 * htw_page_retire() - a page's generations run out: it stays, and its timers
 * are not taken any more
 * @base: its base, locked
 * @page: the page, of which a timer is free
 *
 * New pages may have as many instead. If others of its timers end later, these
 * are what is free then, until the page is retired once more.
 */
void htw_page_retire(struct htw_base *base, struct htw_page *page)
{
	lockdep_assert_held(&base->lock);

	list_del(&page->list);
	base->nr_empty -= !page->used;
	atomic_add(HTW_PAGE_TIMERS - page->used, &base->ids->room);
	page->used = HTW_PAGE_TIMERS;
	page->free = NULL;
}
