/* SPDX-License-Identifier: GPL-2.0-only */
/* What all ways to use /dev/htw begin with. */
#ifndef BENCH_HTW_H
#define BENCH_HTW_H

#include <linux/htw.h>
#include <stdbool.h>
#include <stdint.h>
#include "bench.h"

/* Why so many timers cannot be held by one open of /dev/htw, or NULL. */
const char *htw_missing(uint32_t pending);
/* The same, where @features are needed as well. */
const char *htw_missing_feature(uint64_t features, const char *what, uint32_t pending);

int htw_open_device(uint64_t features, uint32_t pending);
int htw_epoll(int fd);

/* Of the system that is open: htw-batch's descriptor, htw-table's table. */
int htw_fd(void);
uint64_t *htw_mapped_table(void);

/* HTW_VECTOR, 256 a call; none may fail. */
void htw_add_batches(int fd, const struct bench *b);
void htw_rearm_batches(int fd, const struct bench *b, uint32_t count);
void htw_cancel_batches(int fd, const struct bench *b, uint32_t count);

/* HTW_BATCH, 256 a call, each result checked. */
void htw_add_mixed(int fd, const struct bench *b);
void htw_rearm_mixed(int fd, const struct bench *b, uint32_t count);
void htw_cancel_mixed(int fd, const struct bench *b, uint32_t count);

/* An expiration of one-shot timers, @kept where the id lives on. */
static inline void htw_take(struct bench *b, const struct htw_event *ev, uint64_t now, bool kept)
{
	if (unlikely(ev->cookie >= b->pending || ev->id != b->handles[ev->cookie] ||
		     ev->fired < ev->deadline || ev->missed ||
		     ev->flags != (kept ? HTW_EVENT_MORE : 0)))
		die("htw: wrong event: cookie %llu deadline %llu fired %llu missed %llu flags %x",
		    ev->cookie, ev->deadline, ev->fired, ev->missed, ev->flags);
	bench_expired(b, ev->cookie, now);
}

#endif /* BENCH_HTW_H */
