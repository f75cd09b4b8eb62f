/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Loading and unloading modules
 */
#ifndef TORTURE_MODULES_H
#define TORTURE_MODULES_H

#include <stdbool.h>

void module_load(const char *path, const char *parameters);
/* What is left of the processes that used it may still hold it. */
void module_unload(const char *name);
/* Return whether a module of that name is loaded. */
bool module_is_loaded(const char *name);

#endif /* TORTURE_MODULES_H */
