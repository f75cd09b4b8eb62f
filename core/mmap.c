// SPDX-License-Identifier: GPL-2.0-only
/*
 * mmap() of /dev/htw
 *
 * Pages are mapped as they are touched. A mapping holds a reference to the
 * file, so the context outlives it.
 *
 * Children inherit mappings across fork(), except with madvise(MADV_DONTFORK).
 * As long as any process has the ring mapped, events go to the ring and not to
 * read().
 */

#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/vmalloc.h>

#include "compat.h"
#include "mmap.h"
#include "reader.h"
#include "table.h"
#include "table_enable.h"
#include "wake.h"

static struct htw_context *htw_mmap_context(const struct vm_area_struct *vma)
{
	return vma->vm_file->private_data;
}

static void htw_mmap_ring_open(struct vm_area_struct *vma)
{
	htw_reader_map_ring(htw_mmap_context(vma));
}

static void htw_mmap_ring_close(struct vm_area_struct *vma)
{
	htw_reader_unmap_ring(htw_mmap_context(vma));
}

static vm_fault_t htw_mmap_ring_fault(struct vm_fault *vmf)
{
	const struct htw_event_ring *ring = htw_mmap_context(vmf->vma)->ring;
	u64 offset = ((u64)vmf->pgoff << PAGE_SHIFT) - HTW_OFF_RING;

	if (offset >= htw_ring_size(ring))
		return VM_FAULT_SIGBUS;
	vmf->page = vmalloc_to_page((char *)ring->header + offset);
	get_page(vmf->page);
	return 0;
}

static const struct vm_operations_struct htw_mmap_ring_ops = {
	.open	= htw_mmap_ring_open,
	.close	= htw_mmap_ring_close,
	.fault	= htw_mmap_ring_fault,
};

static int htw_mmap_ring(struct htw_context *ctx, struct vm_area_struct *vma)
{
	/* Pairs with htw_setup_publish(). */
	const struct htw_event_ring *ring = smp_load_acquire(&ctx->ring);

	if (!ring)
		return -ENXIO;
	if (vma->vm_end - vma->vm_start != htw_ring_size(ring))
		return -EINVAL;
	vma->vm_ops = &htw_mmap_ring_ops;
	htw_reader_map_ring(ctx);
	/* Blocked readers return -EBUSY, each waking the next. */
	htw_wake_reader(ctx);
	return 0;
}

static vm_fault_t htw_mmap_table_fault(struct vm_fault *vmf)
{
	u64 offset = ((u64)vmf->pgoff << PAGE_SHIFT) - HTW_OFF_TABLE;
	struct page *page = htw_table_page(htw_mmap_context(vmf->vma), offset);

	if (!page)
		return VM_FAULT_SIGBUS;
	get_page(page);
	vmf->page = page;
	return 0;
}

static const struct vm_operations_struct htw_mmap_table_ops = {
	.fault	= htw_mmap_table_fault,
};

static int htw_mmap_table(struct htw_context *ctx, struct vm_area_struct *vma)
{
	if (vma->vm_end - vma->vm_start > htw_table_size(ctx))
		return -EINVAL;
	vma->vm_ops = &htw_mmap_table_ops;
	return htw_table_enable(ctx);
}

/**
 * htw_mmap() - map the ring or the table of deadlines
 * @file: the context's file
 * @vma: the mapping
 *
 * Return: 0; -ENXIO if there is no ring; -EINVAL for an unknown offset, a
 * length that is not the ring's or exceeds the table's, or a private mapping;
 * -EDQUOT, -ENOMEM or -EINTR for the table.
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
