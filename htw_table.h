/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The table of deadlines that a program maps: a word for each slot
 */
#ifndef _HTW_TABLE_H
#define _HTW_TABLE_H

#include <linux/compiler.h>
#include <linux/types.h>

#include "htw_timer.h"

struct htw_context;
struct page;

/*
 * A timer's word, or zero where there is no table. The program may store at any
 * time; what counts is what one look finds.
 */
static inline u64 htw_timer_word(const struct htw_timer *t)
{
	const struct htw_chunk *chunk = htw_chunk_of(t);
	const u64 *table = READ_ONCE(chunk->table);

	return table ? READ_ONCE(table[htw_timer_index(t)]) : 0;
}

/* As armed; the timer is not armed yet for its new deadline. */
static inline void htw_timer_reset_word(const struct htw_timer *t)
{
	const struct htw_chunk *chunk = htw_chunk_of(t);
	u64 *table = READ_ONCE(chunk->table);

	if (table)
		WRITE_ONCE(table[htw_timer_index(t)], 0);
}

int htw_table_enable(struct htw_context *ctx);
int htw_table_add_chunk(struct htw_context *ctx, struct htw_chunk *chunk, u32 nr);
void htw_table_free(struct htw_context *ctx);
size_t htw_table_size(const struct htw_context *ctx);
struct page *htw_table_page(struct htw_context *ctx, u64 offset);

#endif /* _HTW_TABLE_H */
