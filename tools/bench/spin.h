/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pass time without idling, at a known cost
 *
 * Under icount the clock of an idle guest jumps ahead and no longer counts
 * instructions. So the guest spins, in units whose cost is measured over the
 * same length of time, including the kernel's periodic work, and subtracted.
 */
#ifndef SPIN_H
#define SPIN_H

#include <stdint.h>

/* Spin until the clock shows @until; return the number of units. */
uint64_t spin_until(uint64_t until);

/*
 * The first time at or after @ns that is between two kernel ticks. The number
 * of ticks between two such times depends only on their distance.
 */
uint64_t spin_between_ticks(uint64_t ns);

/* Instructions of one unit on an otherwise idle guest, measured over about @ns. */
double spin_calibrate(uint64_t ns);

#endif /* SPIN_H */
