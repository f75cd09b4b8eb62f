/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Delivery: from the wheel to where a program reads
 */
#ifndef _HTW_EXPIRE_H
#define _HTW_EXPIRE_H

#include "context.h"
#include "wake.h"

void htw_delivery_begin(struct htw_delivery *d, struct htw_base *base, struct htw_turn *turn);
void htw_deliver_clock_set(struct htw_delivery *d, struct htw_timer *t);
enum htw_served htw_expire_serve(struct htw_job *job, struct htw_turn *turn);
bool htw_expire_advance(struct htw_base *base, u64 now, u64 *expired);

#endif /* _HTW_EXPIRE_H */
