/* SPDX-License-Identifier: GPL-2.0-only */
/* Memory: the program's, and the machine's. */
#ifndef MEMORY_H
#define MEMORY_H

#include <stdint.h>

/*
 * What the whole machine has left, in bytes: page tables, slabs, files and
 * processes, nothing that a timer costs escapes it. With the pages that each
 * CPU keeps for itself, which MemFree leaves out.
 */
uint64_t memory_free(void);

#endif /* MEMORY_H */
