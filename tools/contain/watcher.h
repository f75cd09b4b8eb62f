/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A task with a real-time priority that sleeps most of the time and notes how late
 * it runs: how long interrupts, softirqs and the calls of other tasks on its CPU keep
 * it waiting
 */
#ifndef CONTAIN_WATCHER_H
#define CONTAIN_WATCHER_H

#include <stdint.h>

struct watcher;

/* Start it, on the caller's CPUs. */
struct watcher *watcher_start(void);
void watcher_end(struct watcher *w);

/* Start a new note; return the longest wait since then, in ns. */
void watcher_begin(struct watcher *w);
uint64_t watcher_longest(const struct watcher *w);

#endif /* CONTAIN_WATCHER_H */
