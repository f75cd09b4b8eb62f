/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * HTW_F_CANCEL_ON_SET: timers that expire when CLOCK_REALTIME is set
 */
#ifndef _HTW_CLOCKSET_H
#define _HTW_CLOCKSET_H

#include <linux/types.h>

struct htw_context;
struct htw_run;
struct htw_timer;

u32 htw_clockset_count(void);
int htw_clockset_listen(struct htw_context *ctx);
void htw_clockset_leave(struct htw_context *ctx);
void htw_clockset_exit(void);

void htw_clockset_stamp(struct htw_run *run, struct htw_timer *t);
bool htw_clockset_look(const struct htw_context *ctx, struct htw_timer *t);

#endif /* _HTW_CLOCKSET_H */
