// SPDX-License-Identifier: MIT
/*
 * The first program with the wheel: three timeouts, one of which is stopped
 *
 *	cc first.c htw_wheel.c -o first
 */
#include "htw_wheel.h"
#include <stdio.h>

struct connection {
	int received;
	struct htw_node timeout;	/* the timer is a part of what it is for */
};

static struct connection all[3];	/* zeroed, so none is pending */
static uint64_t now;

static void timed_out(struct htw_node *n, void *arg)
{
	struct connection *c = HTW_CONTAINER_OF(n, struct connection, timeout);

	printf("tick %d: connection %d timed out\n", (int)now, (int)(c - all));
	(void)arg;
}

int main(void)
{
	struct htw_wheel wheel;
	unsigned int budget;

	htw_wheel_init(&wheel, now);
	htw_wheel_start(&wheel, &all[0].timeout, 30);
	htw_wheel_start(&wheel, &all[1].timeout, 20);
	htw_wheel_start(&wheel, &all[2].timeout, 10);
	htw_wheel_stop(&wheel, &all[1].timeout);

	/* A tick is what you say. Here nobody waits for the next one with work. */
	while ((now = htw_wheel_next(&wheel)) != HTW_NEVER) {
		budget = 64;
		htw_wheel_advance(&wheel, now, &budget, timed_out, NULL);
	}
	return 0;
}
