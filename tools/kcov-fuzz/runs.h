/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The functions of the calls; see struct call_type
 */
#ifndef RUNS_H
#define RUNS_H

#include <linux/htw.h>

#define ADD_FLAGS	(HTW_F_ABS | HTW_F_KEEP | HTW_F_CANCEL_ON_SET)
#define MOD_FLAGS	(HTW_F_ABS | HTW_MOD_DEADLINE | HTW_MOD_INTERVAL | HTW_MOD_COOKIE | \
			 HTW_MOD_SLACK | HTW_MOD_UNREAD)
#define SETUP_FLAGS	(HTW_SETUP_CLOCK | HTW_SETUP_PRIVATE | HTW_SETUP_LIMIT | HTW_SETUP_HOME | \
			 HTW_SETUP_RING)

/* Of a call that the program is in no state for; it is not counted. */
#define SKIPPED		(-4096L)

/* Once in a process: a program may touch memory that is not there, and gets signals. */
void files_init(void);

long run_setup(const __u64 *a);
long run_info(const __u64 *a);
long run_add(const __u64 *a);
long run_cancel(const __u64 *a);
long run_mod(const __u64 *a);
long run_query(const __u64 *a);
long run_next(const __u64 *a);
long run_batch(const __u64 *a);
long run_vector(const __u64 *a);
long run_cancel_all(const __u64 *a);
long run_list(const __u64 *a);
long run_harvest(const __u64 *a);
long run_advance(const __u64 *a);
long run_flush(const __u64 *a);
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
long run_map_ring(const __u64 *a);
long run_map_table(const __u64 *a);
long run_unmap(const __u64 *a);
long run_advise(const __u64 *a);
long run_store(const __u64 *a);
long run_head(const __u64 *a);
long run_put(const __u64 *a);
long run_fdinfo(const __u64 *a);
long run_debugfs(const __u64 *a);
long run_sleep(const __u64 *a);
long run_set_clock(const __u64 *a);
long run_become(const __u64 *a);

#endif /* RUNS_H */
