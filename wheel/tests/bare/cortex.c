// SPDX-License-Identifier: MIT
/*
 * A Cortex-M: libc.c's machine, with the controller's start.c
 *
 * That is compiled with main renamed to cortex_main.
 */
#include "bare.h"

#include <stdint.h>
#include <string.h>

#include "../../examples/controller/machine.h"

/* An access that is not aligned is a fault, as it always is on a Cortex-M0. */
#define CONFIGURATION		(*(volatile uint32_t *)0xe000ed14)
#define UNALIGN_TRP		8

#define STACK			65536

extern char bss_end, stack_top;

int cortex_main(void);

void bare_write(const char *text, size_t length)
{
	char part[256];

	memcpy(part, text, length);
	part[length] = 0;
	machine_print(part);
}

void bare_exit(int status)
{
	machine_exit(status);
}

void *bare_memory(size_t *size)
{
	*size = (size_t)(&stack_top - &bss_end) - STACK;
	return &bss_end;
}

int cortex_main(void)
{
	CONFIGURATION |= UNALIGN_TRP;
	return bare_main();
}
