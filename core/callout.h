/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Callouts: functions of other kernel modules, called after a delay
 */
#ifndef _HTW_CALLOUT_H
#define _HTW_CALLOUT_H

#include "pacer.h"

enum htw_served htw_callout_serve(struct htw_job *job, struct htw_turn *turn);

#endif /* _HTW_CALLOUT_H */
