/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory: the charge of a round's cgroup, and what users hold, are back at nothing
 */
#ifndef TORTURE_MEMORY_H
#define TORTURE_MEMORY_H

#include <linux/types.h>
#include <stdbool.h>

/* The cgroup for the processes of a round; false if there are no memory cgroups. */
bool memory_begin(void);
/* In the round's first process. */
void memory_join(void);
/* Users hold nothing when all is closed; the module is loaded. */
void memory_check_users(void);
/* Nothing is charged when the module is unloaded. */
void memory_end(bool is_unloaded);

#endif /* TORTURE_MEMORY_H */
