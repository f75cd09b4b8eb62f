/* SPDX-License-Identifier: GPL-2.0-only */
/* The program's memory and the machine's free memory. */
#ifndef MEMORY_H
#define MEMORY_H

#include <stdint.h>

/*
 * Free memory of the whole machine in bytes. Differences contain page tables,
 * slabs, files and processes. Includes the per-CPU page lists, which MemFree
 * does not.
 */
uint64_t memory_free(void);

#endif /* MEMORY_H */
