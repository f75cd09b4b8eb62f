// SPDX-License-Identifier: GPL-2.0-only
/* The loop of connections.h. */
#include "connections.h"
#include "spin.h"

#define TIMEOUTS	2U
#define LOOP		MSEC

double connections_calibrate(void)
{
	return spin_calibrate(TIMEOUT);
}

double connections_run(unsigned int rearms, double unit_cost,
		       void (*touch)(uint32_t first, uint32_t count), void (*turn)(void))
{
	const uint64_t turns = TIMEOUTS * TIMEOUT / LOOP;
	const uint64_t events = (uint64_t)CONNECTIONS * rearms * TIMEOUTS;
	uint64_t begin, units = 0, done = 0, start, t;
	uint32_t at = 0;

	start = spin_between_ticks(now_ns());
	spin_until(start);
	begin = instructions();
	for (t = 0; t < turns; t++) {
		const uint64_t until = events * (t + 1) / turns;

		units += spin_until(start + t * LOOP);
		while (done < until) {
			uint32_t n = until - done < BATCH ? until - done : BATCH;

			if (n > CONNECTIONS - at)
				n = CONNECTIONS - at;
			touch(at, n);
			at = (at + n) % CONNECTIONS;
			done += n;
		}
		turn();
	}
	return (double)(instructions() - begin - (uint64_t)(units * unit_cost)) / events;
}
