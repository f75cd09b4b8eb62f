/* SPDX-License-Identifier: GPL-2.0-only */
/* Read and print expirations: for add and watch. */
#ifndef HTWCTL_EVENTS_H
#define HTWCTL_EVENTS_H

#include "htwctl.h"

void print_event(const struct htw_event *ev);
int wait_events(int fd, uint64_t end, struct htw_event *events, unsigned int room,
		unsigned int *count);
int wait_failed(int err);

#endif /* HTWCTL_EVENTS_H */
