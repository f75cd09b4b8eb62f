/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Threads that wait for the events of a context, in every way there is, and book them
 *
 * They wait without a timeout: a wake-up that is lost is seen as a reader that does not end.
 */
#ifndef TORTURE_READER_H
#define TORTURE_READER_H

#include "context.h"

/**
 * struct reader - a thread
 * @context: its context
 * @kind: how it waits
 * @random: state of its random numbers
 * @edge: end of memory behind which there is none; NULL before the first use
 */
struct reader {
	struct context *context;
	enum reader_kind kind;
	__u64 random;
	char *edge;
};

/* Ends when it has read a sentinel. */
void *reader_run(void *reader);
/* Start @n timers whose events each end a reader. */
void reader_send_sentinels(struct context *c, unsigned int n);

#endif /* TORTURE_READER_H */
