/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Callouts: functions of other kernel modules, called after a delay
 */
#ifndef _HTW_CALLOUT_H
#define _HTW_CALLOUT_H

#include "base.h"

DECLARE_PER_CPU(struct htw_base *, htw_callout_bases);
extern struct htw_base htw_early_base;

int htw_callouts_init(void);
void htw_callouts_exit(void);

#endif /* _HTW_CALLOUT_H */
