// SPDX-License-Identifier: GPL-2.0-only
/*
 * mmap() of /dev/htw
 *
 * Pages are handed out as they are touched. A mapping holds the file, so what
 * is mapped outlives it.
 *
 * Children of a fork() have the mappings too, as they have the file. Expirations go to a
 * ring as long as it is mapped anywhere, and then read() does not have them: a program whose
 * children are not to have part in that says so by madvise(MADV_DONTFORK).
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
	/* Readers that wait get EBUSY, one after the other. */
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

/* All pages that the pages there are need, so that nothing can fail later. */
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

/**
 * htw_table_enable() - gives a context a table, if it has none yet
 * @ctx: the context
 *
 * From now on, and for good, its timers are as if %HTW_F_KEEP were set.
 *
 * Context: may sleep, the first time for a grace period; charged to the caller's cgroup.
 * Return: 0, -ENOMEM or -EINTR.
 */
int htw_table_enable(struct htw_context *ctx)
{
	struct page *page = NULL;
	LIST_HEAD(pages);
	int ret;

	/* Pairs with the release below: on already, and known to all. */
	if (smp_load_acquire(&ctx->table_is_known))
		return 0;
	ret = mutex_lock_killable(&ctx->grow);
	if (ret)
		return ret;
	/* What was given back is made again: then no page is without words. */
	while (!ret && !ctx->table && ctx->nr_allocated < ctx->nr_pages)
		ret = fatal_signal_pending(current) ? -EINTR : htw_slots_grow(ctx);
	if (!ret && !ctx->table)
		ret = htw_table_alloc_list(ctx, &pages);
	for (u32 nr = 0; !ret && !ctx->table && nr < ctx->nr_pages; nr++) {
		if (nr % HTW_TABLE_PAGES == 0) {
			page = list_first_entry(&pages, struct page, lru);
			list_del(&page->lru);
		}
		htw_table_assign(ctx, htw_context_page(ctx, nr), nr, page_address(page));
		cond_resched();
	}
	htw_table_free_list(&pages);
	if (!ret && !ctx->table_is_known) {
		/* Not between telling an expiration and doing what was told. */
		spin_lock_bh(&ctx->lock);
		WRITE_ONCE(ctx->table, true);
		spin_unlock_bh(&ctx->lock);
		/* Runs that do not know of it end before anybody can store into it. */
		synchronize_rcu();
		/* Pairs with the acquire above. */
		smp_store_release(&ctx->table_is_known, true);
	}
	mutex_unlock(&ctx->grow);
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
 * htw_mmap() - maps what a context shares with its program
 * @file: the context's file
 * @vma: where to
 *
 * Return: 0; -ENXIO for a ring that is not there; -EINVAL for an offset where
 * nothing is, another length than that of the ring, one that is too much for the
 * table, or a private mapping; -ENOMEM or -EINTR for the table.
 */
int htw_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct htw_context *ctx = file->private_data;

	if (!(vma->vm_flags & VM_SHARED))
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
