// SPDX-License-Identifier: MIT
/*
 * A game with fixed steps: a tick of the wheel is a step, so no clock is read
 *
 * A buff hurts its target every half second and ends after three. A monster comes
 * back a second after it was killed. When the game pauses, or a replay runs at ten
 * times the speed, the timers do as well, and each run gives the same result.
 *
 *	cc game.c htw_wheel.c -o game
 */
#include "htw_wheel.h"
#include <stdio.h>

#define STEPS	60	/* a second */
#define MOST	1000	/* expirations in a step; the others follow in the next one */

struct monster {
	int health;
	int poisoned;			/* times that the poison still hurts */
	struct htw_node poison;		/* pending while it is poisoned */
	struct htw_node comes_back;	/* pending while it is dead */
};

static struct htw_wheel wheel;
static uint64_t step;

static void say(const char *what, int number)
{
	printf("%d.%02d s: ", (int)(step / STEPS), (int)(step % STEPS * 100 / STEPS));
	printf(what, number);
	putchar('\n');
}

static void kill_monster(struct monster *m)
{
	say("killed", 0);
	if (htw_node_pending(&m->poison))
		htw_wheel_stop(&wheel, &m->poison);
	htw_wheel_start(&wheel, &m->comes_back, step + STEPS);
}

static void poison_hurts(struct monster *m)
{
	m->health -= 4;
	say("the poison hurts: %d left", m->health);
	if (m->health <= 0)
		kill_monster(m);
	else if (--m->poisoned)
		htw_wheel_start(&wheel, &m->poison, step + STEPS / 2);
}

/* A wheel has nodes of many kinds: a type in what they are part of would do as well. */
static void expired(struct htw_node *n, void *arg)
{
	struct monster *m = (struct monster *)arg;

	if (n == &m->poison) {
		poison_hurts(m);
	} else {
		m->health = 10;
		say("back with %d", m->health);
	}
}

int main(void)
{
	static struct monster monster;	/* zeroed, so neither timer is pending */

	monster.health = 10;
	monster.poisoned = 6;
	htw_wheel_init(&wheel, step);
	htw_wheel_start(&wheel, &monster.poison, STEPS / 2);

	/* The loop of the game. Real ones wait here for the time of the next step. */
	for (step = 1; step <= 3 * STEPS; step++) {
		unsigned int budget = MOST;

		htw_wheel_advance(&wheel, step, &budget, expired, &monster);
		/* Move, collide and draw. */
	}
	return monster.health == 10 ? 0 : 1;
}
