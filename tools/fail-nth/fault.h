/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's fault injection: make the Nth allocation or copy of this task fail
 */
#ifndef FAULT_H
#define FAULT_H

#include <stdbool.h>

enum fault {
	FAULT_NONE,
	FAULT_MEMORY,	/* an allocation */
	FAULT_COPY,	/* to or from this program's memory */
};

/* Return false if this kernel has no fault injection. */
bool fault_init(void);
void fault_arm(unsigned int nth);
/* Disarm; return which fault has happened. */
enum fault fault_disarm(void);

#endif /* FAULT_H */
