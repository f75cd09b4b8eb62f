// SPDX-License-Identifier: MIT
/*
 * The soft timers of a controller, without an operating system
 *
 * As in chapter 11 of "Real-Time Concepts for Embedded Systems" by Q. Li and C. Yao: ticks
 * of 100 ms; a wheel of tenths of a second, seconds and minutes. An interrupt counts ticks
 * and does nothing else. main() does what is due, at most so much at once, and sleeps.
 *
 * arm-none-eabi-gcc -mcpu=cortex-m3 -mthumb -Os -ffreestanding -ffunction-sections \
 *	-DCYCLES=1250000 -I. -I../.. -nostdlib -Wl,--gc-sections -T controller.ld \
 *	-o controller.elf controller.c start.c ../../htw_wheel.c -lgcc
 * qemu-system-arm -M lm3s6965evb -nographic -monitor none -serial none \
 *	-semihosting -icount shift=6,sleep=off -kernel controller.elf
 *
 * For a Cortex-M0: -mcpu=cortex-m0 -DCYCLES=1600000 and -M microbit.
 */
#include "htw_wheel.h"
#include "machine.h"

/* What one call of htw_wheel_advance() may look at. */
#define MOST		4
#define SENSORS		10

#define SECONDS(n)	((n) * 10)
#define MINUTES(n)	SECONDS((n) * 60)

static const struct htw_geometry geometry = { 3, { 10, 60, 5 } };
static uint64_t memory[HTW_GEOMETRY_WORDS(3, 10 + 60 + 5)];
static struct htw_wheel wheel;

static struct htw_node heartbeat, sensors[SENSORS], timeout;
static uint64_t now;
static unsigned int heartbeats, sensors_read;
static bool timed_out;

static void print_number(uint32_t number)
{
	char digits[11], *at = digits + sizeof(digits) - 1;

	*at = 0;
	do {
		*--at = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	machine_print(at);
}

/* Print what a line begins with: the time, in seconds. */
static void print_time(void)
{
	print_number((uint32_t)now / 10);
	machine_print(".");
	print_number((uint32_t)now % 10);
	machine_print(" s: ");
}

static void print_count(const char *before, uint32_t count, const char *behind)
{
	print_time();
	machine_print(before);
	print_number(count);
	machine_print(behind);
}

static void expired(struct htw_node *n, void *arg)
{
	if (n == &heartbeat) {
		heartbeats++;
		htw_wheel_start(&wheel, n, n->expires + SECONDS(1));
	} else if (n == &timeout) {
		print_count("timed out, due at tick ", (uint32_t)n->expires, "\n");
		timed_out = true;
	} else {
		sensors_read++;
	}
	(void)arg;
}

/* Count on from where the counter of 32 bits was last seen. */
static void update_now(void)
{
	now += machine_ticks() - (uint32_t)now;
}

/* Do a part of what is due. Return: was it all? */
static bool do_timers(void)
{
	const uint64_t moved = wheel.cascades;
	const unsigned int read = sensors_read;
	unsigned int budget = MOST;
	bool done;

	update_now();
	done = htw_wheel_advance(&wheel, now, &budget, expired, NULL);
	if (wheel.cascades != moved)
		print_count("moved down: ", (uint32_t)(wheel.cascades - moved), "\n");
	if (sensors_read != read)
		print_count("sensors read: ", sensors_read - read, "\n");
	return done;
}

int main(void)
{
	htw_wheel_init(&wheel, now);
	htw_wheel_add_levels(&wheel, &geometry, memory, sizeof(memory));
	htw_wheel_start(&wheel, &heartbeat, 5);
	/* 2 min 4 s 300 ms: two levels above the tenths of a second */
	htw_wheel_start(&wheel, &timeout, MINUTES(2) + SECONDS(4) + 3);
	for (int i = 0; i < SENSORS; i++)
		htw_wheel_start(&wheel, &sensors[i], SECONDS(5));
	machine_start_ticks(CYCLES);

	for (;;) {
		if (!do_timers()) {
			print_time();
			machine_print("something else comes first\n");
			continue;
		}
		if (timed_out)
			break;
		/* Ticks without work wake the processor, and nothing else. */
		while (update_now(), now < htw_wheel_next(&wheel))
			machine_wait((uint32_t)now);
	}

	print_count("heartbeats: ", heartbeats, "\n");
	return 0;
}
