/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Connections whose timeout is moved by each event, and hardly ever expires
 *
 * The program is an event loop: it takes the events of a millisecond, 256 at a
 * time, reads the clock once for each 256, and moves the timeout of each event's
 * connection. All instructions of the guest are counted.
 */
#ifndef CONNECTIONS_H
#define CONNECTIONS_H

#include <stdint.h>
#include "bench.h"

#define CONNECTIONS	65536U
#define TIMEOUT		(2 * SEC)

/* What the guest's idle loop costs; call it before timers are started. */
double connections_calibrate(void);

/*
 * Instructions for each re-arm, with @rearms of them for each timeout. @touch:
 * move the timeouts of @count events from @first on; @turn: what a turn of the
 * loop does with expirations.
 */
double connections_run(unsigned int rearms, double unit_cost,
		       void (*touch)(uint32_t first, uint32_t count), void (*turn)(void));

#endif /* CONNECTIONS_H */
