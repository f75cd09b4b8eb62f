// SPDX-License-Identifier: GPL-2.0-only
/* Pass time without idling; see spin.h. */
#include "bench.h"
#include "spin.h"

/* Two instructions each, so a unit is 20 us, much less than a kernel tick. */
#define ITERATIONS	10000ULL

/* Debian's kernels have HZ=250. */
#define TICK		(4 * MSEC)

static void spin_unit(void)
{
	uint64_t n = ITERATIONS;

	__asm__ volatile("1:	dec %0\n\t"
			 "jnz 1b" : "+r"(n) : : "cc");
}

uint64_t spin_until(uint64_t until)
{
	uint64_t units = 0;

	while (now_ns() < until) {
		spin_unit();
		units++;
	}
	return units;
}

uint64_t spin_between_ticks(uint64_t ns)
{
	return ns - ns % TICK + (ns % TICK > TICK / 4 ? TICK : 0) + TICK / 4;
}

double spin_calibrate(uint64_t ns)
{
	uint64_t begin, units, from = spin_between_ticks(now_ns());

	spin_until(from);
	begin = instructions();
	units = spin_until(spin_between_ticks(from + ns));
	return (double)(instructions() - begin) / units;
}
