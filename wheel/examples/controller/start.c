// SPDX-License-Identifier: MIT
/*
 * From reset to main() on a Cortex-M, the tick, and semihosting
 *
 * There is no vendor's code below this, and no C library.
 */
#include "machine.h"
#include "string.h"

int main(void);
void reset(void);

/* Of controller.ld */
extern uint32_t stack_top, data_begin, data_end, data_load, bss_begin, bss_end;

/* The registers of SysTick */
#define SYSTICK_CONTROL		(*(volatile uint32_t *)0xe000e010)
#define SYSTICK_RELOAD		(*(volatile uint32_t *)0xe000e014)
#define SYSTICK_VALUE		(*(volatile uint32_t *)0xe000e018)
#define SYSTICK_ENABLE		7	/* counting the processor's cycles, with an interrupt */

/* Operations of semihosting, and why a program exits */
#define SYS_WRITE0		0x04
#define SYS_EXIT		0x18
#define STOPPED_ERROR		0x20023
#define STOPPED_EXIT		0x20026

static volatile uint32_t ticks;

static void semihost(uint32_t operation, uint32_t argument)
{
	register uint32_t r0 __asm__("r0") = operation;
	register uint32_t r1 __asm__("r1") = argument;

	__asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

void machine_print(const char *text)
{
	semihost(SYS_WRITE0, (uint32_t)text);
}

void machine_exit(int status)
{
	semihost(SYS_EXIT, status ? STOPPED_ERROR : STOPPED_EXIT);
	for (;;)
		;
}

void machine_start_ticks(uint32_t cycles)
{
	SYSTICK_RELOAD = cycles - 1;
	SYSTICK_VALUE = 0;
	SYSTICK_CONTROL = SYSTICK_ENABLE;
}

uint32_t machine_ticks(void)
{
	return ticks;
}

void machine_wait(uint32_t seen)
{
	/* An interrupt that is pending ends wfi, though it is taken behind cpsie only. */
	__asm__ volatile("cpsid i" : : : "memory");
	if (ticks == seen)
		__asm__ volatile("wfi" : : : "memory");
	__asm__ volatile("cpsie i" : : : "memory");
}

/* All that is done in the interrupt. */
static void tick(void)
{
	ticks++;
}

static void fault(void)
{
	machine_print("fault\n");
	machine_exit(1);
}

void reset(void)
{
	uint32_t *from = &data_load;

	for (uint32_t *to = &data_begin; to < &data_end; to++)
		*to = *from++;
	for (uint32_t *to = &bss_begin; to < &bss_end; to++)
		*to = 0;
	machine_exit(main());
}

/* The stack's begin, and the handlers of exceptions 1 to 15. */
struct vectors {
	uint32_t *stack;
	void (*handlers[15])(void);
};

__attribute__((section(".vectors"), used))
static const struct vectors vectors = {
	&stack_top, { reset, fault, fault, fault, fault, fault, [14] = tick },
};

/* A C library's takes its place. */
__attribute__((weak))
void *memset(void *to, int c, size_t size)
{
	volatile unsigned char *at = to;

	while (size--)
		*at++ = (unsigned char)c;
	return to;
}
