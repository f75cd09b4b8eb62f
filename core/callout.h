/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Callouts: functions of other kernel modules, called after a delay
 */
#ifndef _HTW_CALLOUT_H
#define _HTW_CALLOUT_H

void htw_callouts_exit(void);

#endif /* _HTW_CALLOUT_H */
