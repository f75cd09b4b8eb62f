// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where htw's static objects are, for tools/kcsan_reports.py: KCSAN prints addresses, and a race
 * on an object of ours is ours, whatever functions of the kernel it is between
 */

#include <linux/init.h>
#include <linux/percpu.h>
#include <linux/printk.h>

#include "../core/callout.h"
#include "../core/pacer.h"

static void __init htw_object(const char *name, const void *at, size_t size)
{
	pr_info("htw-object: %s 0x%lx %zu\n", name, (unsigned long)at, size);
}

static int __init htw_objects_init(void)
{
	unsigned int cpu;

	htw_object("htw_early_base", &htw_early_base, sizeof(htw_early_base));
	for_each_possible_cpu(cpu)
		htw_object("htw_pacers", per_cpu_ptr(&htw_pacers, cpu), sizeof(htw_pacers));
	return 0;
}
late_initcall(htw_objects_init);
