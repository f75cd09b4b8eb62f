/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Passing time without idling, and knowing what that cost
 *
 * Under icount the clock of an idle guest jumps, and no longer counts
 * instructions. So the guest spins, and the instructions of spinning are
 * subtracted: it spins in chunks, whose cost has been measured over the same time,
 * the kernel's periodic work included.
 */
#ifndef SPIN_H
#define SPIN_H

#include <stdint.h>

/* Spins until the clock shows @until; returns the number of chunks. */
uint64_t spin_until(uint64_t until);

/*
 * The first time from @ns on that is well between two of the kernel's ticks. The
 * number of ticks between two such times depends only on their distance.
 */
uint64_t spin_between_ticks(uint64_t ns);

/*
 * Instructions of one chunk while the guest does nothing else, measured over about
 * @ns.
 */
double spin_calibrate(uint64_t ns);

#endif /* SPIN_H */
