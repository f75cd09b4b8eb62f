/* SPDX-License-Identifier: GPL-2.0-only */
/* Workloads of real programs, and measurements of htw's promises. */
#ifndef WORKLOADS_H
#define WORKLOADS_H

struct workload {
	const char *name;
	const char *what;
	void (*run)(void);
};

void workload_buffs(void);
void workload_burst(void);
void workload_contain(void);
/* Of the attacks only those in a list, separated by commas. */
void contain_choose(const char *list);
void workload_meddling(void);
void workload_contexts(void);
void workload_exact(void);
void workload_quiet(void);
void workload_lateness(void);
void workload_locks(void);
void workload_put_off(void);
void workload_put_off_calls(void);
void workload_scale(void);
void workload_shards(void);
void workload_threads(void);
void workload_waiters(void);

/* Find a workload by its name, or NULL. */
const struct workload *workload_find(const char *name);
void workload_list(void);

#endif /* WORKLOADS_H */
