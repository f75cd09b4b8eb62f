/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mmap() of /dev/htw
 */
#ifndef _HTW_MMAP_H
#define _HTW_MMAP_H

struct file;
struct vm_area_struct;

int htw_mmap(struct file *file, struct vm_area_struct *vma);

#endif /* _HTW_MMAP_H */
