/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The functions of the calls; see struct call_type
 */
#ifndef RUNS_H
#define RUNS_H

#include <linux/htw.h>

#define ADD_FLAGS	(HTW_F_ABS | HTW_F_KEEP)
#define MOD_FLAGS	(HTW_F_ABS | HTW_MOD_DEADLINE | HTW_MOD_INTERVAL | HTW_MOD_COOKIE | \
			 HTW_MOD_SLACK)
#define SETUP_FLAGS	(HTW_SETUP_CLOCK | HTW_SETUP_EXACT | HTW_SETUP_ORDERED)

/* Of a call that the program is in no state for; it is not counted. */
#define SKIPPED		(-4096L)

/* Once in a process: a program gets signals. */
void files_init(void);

long run_setup(const __u64 *a);
long run_info(const __u64 *a);
long run_add(const __u64 *a);
long run_cancel(const __u64 *a);
long run_mod(const __u64 *a);
long run_query(const __u64 *a);
long run_vector(const __u64 *a);
long run_cancel_all(const __u64 *a);
long run_list(const __u64 *a);
long run_harvest(const __u64 *a);
long run_advance(const __u64 *a);
long run_larger(const __u64 *a);
long run_ioctl(const __u64 *a);
long run_open(const __u64 *a);
long run_close(const __u64 *a);
long run_dup(const __u64 *a);
long run_read(const __u64 *a);
long run_readv(const __u64 *a);
long run_poll(const __u64 *a);
long run_epoll(const __u64 *a);
long run_epoll_wait(const __u64 *a);
long run_async(const __u64 *a);
long run_mmap(const __u64 *a);
long run_fdinfo(const __u64 *a);
long run_debugfs(const __u64 *a);
long run_sleep(const __u64 *a);
long run_set_clock(const __u64 *a);
long run_become(const __u64 *a);
long run_ring(const __u64 *a);
long run_ring_close(const __u64 *a);
long run_way(const __u64 *a);
long run_sqe(const __u64 *a);
long run_submit(const __u64 *a);
long run_reap(const __u64 *a);

#endif /* RUNS_H */
