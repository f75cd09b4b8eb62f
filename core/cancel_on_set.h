/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * HTW_F_CANCEL_ON_SET: expire timers when CLOCK_REALTIME is set
 */
#ifndef _HTW_CANCEL_ON_SET_H
#define _HTW_CANCEL_ON_SET_H

#include <linux/types.h>

struct htw_context;
struct work_struct;

void htw_cancel_on_set_init(void);
void htw_cancel_on_set_walk_user(struct work_struct *work);
void htw_cancel_on_set_listen(struct htw_context *ctx);
void htw_cancel_on_set_leave(struct htw_context *ctx);
void htw_cancel_on_set_exit(void);

#endif /* _HTW_CANCEL_ON_SET_H */
