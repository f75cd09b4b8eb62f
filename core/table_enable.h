/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Giving a context its table of deadlines
 */
#ifndef _HTW_TABLE_ENABLE_H
#define _HTW_TABLE_ENABLE_H

struct htw_context;

int htw_table_enable(struct htw_context *ctx);

#endif /* _HTW_TABLE_ENABLE_H */
