/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The table of deadlines that a program maps: its memory
 */
#ifndef _HTW_TABLE_H
#define _HTW_TABLE_H

#include <linux/compiler.h>
#include <linux/types.h>

#include "context.h"

struct page;

/* Pages of timers whose overrides share a table page. */
#define HTW_TABLE_PAGES	((u32)(PAGE_SIZE / (HTW_PAGE_SLOTS * sizeof(u64))))

bool htw_table_charge(struct htw_context *ctx, u32 pages);
void htw_table_uncharge(struct htw_context *ctx, u32 pages);
void htw_table_assign(struct htw_context *ctx, struct htw_page *page, u32 nr,
		      u64 *table);
int htw_table_add_page(struct htw_context *ctx, struct htw_page *page, u32 nr);
void htw_table_free(struct htw_context *ctx);
size_t htw_table_size(const struct htw_context *ctx);
struct page *htw_table_page(struct htw_context *ctx, u64 offset);

#endif /* _HTW_TABLE_H */
