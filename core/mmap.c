// SPDX-License-Identifier: GPL-2.0-only
/*
 * mmap() of /dev/htw
 *
 * Pages are mapped as they are touched. A mapping holds a reference to the file, so the context
 * outlives it.
 *
 * Children inherit mappings across fork(), except with madvise(MADV_DONTFORK). As long as any
 * process has the ring mapped, events go to the ring and not to read().
 */

#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/vmalloc.h>

#include "compat.h"
#include "mmap.h"
#include "reader.h"
#include "slots.h"
#include "table.h"
#include "wake.h"

static struct htw_context *htw_vma_context(const struct vm_area_struct *vma)
{
	return vma->vm_file->private_data;
}

static void htw_ring_vm_open(struct vm_area_struct *vma)
{
	htw_context_map_ring(htw_vma_context(vma));
}

static void htw_ring_vm_close(struct vm_area_struct *vma)
{
	htw_context_unmap_ring(htw_vma_context(vma));
}

static vm_fault_t htw_ring_fault(struct vm_fault *vmf)
{
	const struct htw_event_ring *ring = htw_vma_context(vmf->vma)->ring;
	const u64 offset = ((u64)vmf->pgoff << PAGE_SHIFT) - HTW_OFF_RING;

	if (offset >= htw_ring_size(ring))
		return VM_FAULT_SIGBUS;
	vmf->page = vmalloc_to_page((char *)ring->header + offset);
	get_page(vmf->page);
	return 0;
}

static const struct vm_operations_struct htw_ring_vm_ops = {
	.open	= htw_ring_vm_open,
	.close	= htw_ring_vm_close,
	.fault	= htw_ring_fault,
};

static int htw_mmap_ring(struct htw_context *ctx, struct vm_area_struct *vma)
{
	/* Pairs with htw_setup_publish(). */
	const struct htw_event_ring *ring = smp_load_acquire(&ctx->ring);

	if (!ring)
		return -ENXIO;
	if (vma->vm_end - vma->vm_start != htw_ring_size(ring))
		return -EINVAL;
	vma->vm_ops = &htw_ring_vm_ops;
	htw_context_map_ring(ctx);
	/* Blocked readers return -EBUSY, each waking the next. */
	htw_wake_reader(ctx);
	return 0;
}

static vm_fault_t htw_table_fault(struct vm_fault *vmf)
{
	const u64 offset = ((u64)vmf->pgoff << PAGE_SHIFT) - HTW_OFF_TABLE;
	struct page *page = htw_table_page(htw_vma_context(vmf->vma), offset);

	if (!page)
		return VM_FAULT_SIGBUS;
	get_page(page);
	vmf->page = page;
	return 0;
}

static const struct vm_operations_struct htw_table_vm_ops = {
	.fault	= htw_table_fault,
};

static void htw_table_free_list(struct list_head *pages)
{
	struct page *page, *next;

	list_for_each_entry_safe(page, next, pages, lru)
		__free_page(page);
}

/* Allocate the table pages for all pages of timers, so that assigning them cannot fail. */
static int htw_table_alloc_list(const struct htw_context *ctx, struct list_head *pages)
{
	for (u32 nr = 0; nr < ctx->nr_pages; nr += HTW_TABLE_PAGES) {
		struct page *page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);

		if (!page)
			return -ENOMEM;
		list_add(&page->lru, pages);
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return 0;
}

/* Give every page of timers its overrides; pages that have been freed are allocated again. */
static int htw_table_populate(struct htw_context *ctx)
{
	const u32 table_pages = DIV_ROUND_UP(ctx->nr_pages, HTW_TABLE_PAGES);
	struct page *page = NULL;
	LIST_HEAD(pages);
	int ret;

	lockdep_assert_held(&ctx->grow);

	while (ctx->nr_allocated < ctx->nr_pages) {
		ret = fatal_signal_pending(current) ? -EINTR : htw_slots_grow(ctx);
		if (ret)
			return ret;
	}
	if (!htw_table_charge(ctx, table_pages))
		return -EDQUOT;
	ret = htw_table_alloc_list(ctx, &pages);
	for (u32 nr = 0; !ret && nr < ctx->nr_pages; nr++) {
		if (nr % HTW_TABLE_PAGES == 0) {
			page = list_first_entry(&pages, struct page, lru);
			list_del(&page->lru);
		}
		htw_table_assign(ctx, htw_context_page(ctx, nr), nr, page_address(page));
		cond_resched();
	}
	htw_table_free_list(&pages);
	if (ret)
		htw_table_uncharge(ctx, table_pages);
	return ret;
}

static int htw_table_try_enable(struct htw_context *ctx)
{
	int ret;

	ret = mutex_lock_killable(&ctx->grow);
	if (ret)
		return ret;
	/* Another task may have enabled it meanwhile. */
	if (!ctx->table)
		ret = htw_table_populate(ctx);
	if (!ret && !ctx->table) {
		/* Not between reporting an event and htw_timer_consume(), which must agree. */
		spin_lock_bh(&ctx->lock);
		WRITE_ONCE(ctx->table, true);
		spin_unlock_bh(&ctx->lock);
		/* Submissions that have not seen it end before a program can store to it. */
		synchronize_rcu();
		/* Pairs with htw_table_enable(). */
		smp_store_release(&ctx->table_ready, true);
	}
	mutex_unlock(&ctx->grow);
	return ret;
}

/**
 * htw_table_enable() - give a context a table of deadlines, if it has none yet
 * @ctx: the context
 *
 * From then on, all its timers are treated as if %HTW_F_KEEP were set.
 *
 * Context: may sleep, the first time for a grace period; charged to the caller's cgroup. At the
 * user's limit, waits until closed contexts have been freed.
 * Return: 0, -EDQUOT, -ENOMEM or -EINTR.
 */
int htw_table_enable(struct htw_context *ctx)
{
	struct htw_user_wait wait;
	int ret;

	/* Enabled, and seen by all submissions; pairs with htw_table_try_enable(). */
	if (smp_load_acquire(&ctx->table_ready))
		return 0;
	htw_user_wait_begin(&wait, ctx->user);
	do {
		ret = htw_table_try_enable(ctx);
	} while (ret == -EDQUOT && htw_user_wait_again(&wait));
	return ret;
}

static int htw_mmap_table(struct htw_context *ctx, struct vm_area_struct *vma)
{
	if (vma->vm_end - vma->vm_start > htw_table_size(ctx))
		return -EINVAL;
	vma->vm_ops = &htw_table_vm_ops;
	return htw_table_enable(ctx);
}

/**
 * htw_mmap() - map the ring or the table of deadlines
 * @file: the context's file
 * @vma: the mapping
 *
 * Return: 0; -ENXIO if there is no ring; -EINVAL for an unknown offset, a length that is not
 * the ring's or exceeds the table's, or a private mapping; -EDQUOT, -ENOMEM or -EINTR for the
 * table.
 */
int htw_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct htw_context *ctx = file->private_data;

	/* VM_SHARED is cleared if the descriptor is not open for writing. */
	if (!(vma->vm_flags & VM_MAYSHARE))
		return -EINVAL;
	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP);
	switch ((u64)vma->vm_pgoff << PAGE_SHIFT) {
	case HTW_OFF_RING:
		return htw_mmap_ring(ctx, vma);
	case HTW_OFF_TABLE:
		return htw_mmap_table(ctx, vma);
	default:
		return -EINVAL;
	}
}
