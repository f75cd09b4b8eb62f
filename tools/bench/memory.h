/* SPDX-License-Identifier: GPL-2.0-only */
/* The program's memory, and what the machine has free. */
#ifndef MEMORY_H
#define MEMORY_H

#include <stdint.h>

/*
 * Free memory of the whole machine in bytes, so that a difference includes page
 * tables, slabs, files and processes. It counts the pages in per-CPU lists, which
 * MemFree leaves out.
 */
uint64_t memory_free(void);

#endif /* MEMORY_H */
