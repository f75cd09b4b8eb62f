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

int htw_open_device(uint32_t pending);
int htw_epoll(int fd);

/* The descriptor of htw-vector, while it is open. */
int htw_vector_fd(void);

/*
 * HTW_VECTOR in calls of 256; each entry must succeed. htw_many_start()
 * starts @count timers like @v; cookies count up from zero.
 */
void htw_many_start(int fd, struct htw_vector_args v, const uint64_t *deadlines, uint32_t count,
		    uint64_t *ids);
void htw_many_add(int fd, const struct bench *b);
void htw_many_rearm(int fd, const struct bench *b, uint32_t count);
void htw_many_cancel(int fd, const struct bench *b, uint32_t count);

/* Check and record the event of a one-shot timer. */
static inline void htw_take(struct bench *b, const struct htw_event *ev, uint64_t now)
{
	if (unlikely(ev->cookie >= b->pending || ev->id != b->handles[ev->cookie] ||
		     ev->taken < ev->deadline || ev->missed || ev->flags))
		die("htw: wrong event: cookie %llu deadline %llu taken %llu missed %llu flags %x",
		    ev->cookie, ev->deadline, ev->taken, ev->missed, ev->flags);
	bench_expired(b, ev->cookie, now);
}

#endif /* BENCH_HTW_H */
