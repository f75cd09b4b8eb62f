/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * KCOV: which code of htw runs, in this task's calls and behind them: in softirq and work items
 */
#ifndef COVERAGE_H
#define COVERAGE_H

#include <linux/types.h>
#include <stdbool.h>

/* In the first process: what runs behind the calls of its children is reported to it. */
void coverage_init(void);
/* In the process that runs programs: trace its calls. */
void coverage_enable(void);
/* Forget what has been traced. */
void coverage_begin(void);
/*
 * Note what has been traced since. Return how many edges were new; the first @most of them are
 * stored at @edges.
 */
unsigned int coverage_end(__u32 *edges, unsigned int most);
/* The same without noting them: how many of these edges have been traced? */
unsigned int coverage_count(const __u32 *edges, unsigned int count);
/* Places that have been reached: in calls, or behind them. */
unsigned int coverage_places(bool behind);
/* Call @print for each place: its address, and whether it was reached behind calls. */
void coverage_list(void (*print)(unsigned long place, bool is_behind));

#endif /* COVERAGE_H */
