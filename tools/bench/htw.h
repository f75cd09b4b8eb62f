/* SPDX-License-Identifier: GPL-2.0-only */
/* Open /dev/htw, and operations on many timers. */
#ifndef BENCH_HTW_H
#define BENCH_HTW_H

#include <stdbool.h>
#include <stdint.h>
#include "../common/htw-client.h"
#include "bench.h"

/* NULL, or why one descriptor cannot hold @pending timers. */
const char *htw_missing(uint32_t pending);
/* The same, with @features needed as well. */
const char *htw_missing_feature(uint64_t features, const char *what, uint32_t pending);

int htw_open_device(uint64_t features, uint32_t pending);
int htw_epoll(int fd);

/* Of the open system: htw-vector's descriptor, htw-table's table. */
int htw_vector_fd(void);
uint64_t *htw_mapped_table(void);

/*
 * HTW_VECTOR in calls of 256; each entry must succeed. htw_vector_start()
 * starts @count timers like @v; cookies count up from zero.
 */
void htw_vector_start(int fd, struct htw_vector v, const uint64_t *deadlines, uint32_t count,
		      uint64_t *ids);
void htw_vector_add(int fd, const struct bench *b);
void htw_vector_rearm(int fd, const struct bench *b, uint32_t count);
void htw_vector_cancel(int fd, const struct bench *b, uint32_t count);

/* HTW_BATCH in calls of 256; each result is checked. */
void htw_batch_add(int fd, const struct bench *b);
void htw_batch_rearm(int fd, const struct bench *b, uint32_t count);
void htw_batch_cancel(int fd, const struct bench *b, uint32_t count);

/* Check and record the event of a one-shot timer; with @kept its id stays valid. */
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
