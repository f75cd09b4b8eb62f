/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Delays at places where another CPU may come in between: make DELAYS=1
 *
 * Without that option they are empty.
 */
#ifndef _HTW_DELAY_H
#define _HTW_DELAY_H

#ifdef HTW_DELAYS
#include "../tools/tests/kernel/htw_delays.h"
#else
#define HTW_DELAYS_ON	false

#define htw_delay_atomic()	do { } while (0)
#define htw_delay()		do { } while (0)
#endif

#endif /* _HTW_DELAY_H */
