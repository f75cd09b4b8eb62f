/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The clocks of wheels
 */
#ifndef _HTW_CLOCK_H
#define _HTW_CLOCK_H

#include <linux/types.h>

/**
 * enum htw_clock - clocks of wheels
 * @HTW_MONOTONIC: CLOCK_MONOTONIC
 * @HTW_BOOTTIME: CLOCK_BOOTTIME
 * @HTW_REALTIME: CLOCK_REALTIME; it can be set, also backwards
 * @HTW_CLOCKS: number of clocks of which an owner has a wheel on each CPU
 * @HTW_MANUAL: moved only by HTW_ADVANCE; of private wheels
 */
enum htw_clock {
	HTW_MONOTONIC,
	HTW_BOOTTIME,
	HTW_REALTIME,
	HTW_CLOCKS,
	HTW_MANUAL = HTW_CLOCKS,
};

u64 htw_clock_now(enum htw_clock clock);

#endif /* _HTW_CLOCK_H */
