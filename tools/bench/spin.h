/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Passing time without idling, and knowing what that cost
 *
 * Under icount an idle guest's clock jumps, and instructions can no longer be told
 * from time. So the guest spins, and what the spinning itself executed is
 * taken off again: it is done in chunks whose cost has been measured, with
 * the kernel's own periodic work, over the same time.
 */
#ifndef SPIN_H
#define SPIN_H

#include <stdint.h>

/* Spins until the clock shows @until; returns how many chunks that took. */
uint64_t spin_until(uint64_t until);

/*
 * The first time not before @ns that is well between two ticks of the kernel's
 * own. What begins and ends at such times holds as many ticks as its length says.
 */
uint64_t spin_between_ticks(uint64_t ns);

/*
 * Instructions that a chunk costs when nothing else is going on, measured over
 * about @ns.
 */
double spin_calibrate(uint64_t ns);

#endif /* SPIN_H */
