// SPDX-License-Identifier: GPL-2.0-only
/*
 * Functions of the kernel that tools/fail-nth makes fail, and that have no fault injection of their
 * own
 */

#include <linux/error-injection.h>
#include <linux/percpu.h>

ALLOW_ERROR_INJECTION(pcpu_alloc_noprof, NULL);
