/* SPDX-License-Identifier: GPL-2.0-only */
/* What the parts of htw-demo share: the orders, and the report about them. */
#ifndef DEMO_H
#define DEMO_H

#include <linux/htw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BATCH		256

enum end {
	OPEN,
	CANCELLED,
	READ,
};

struct options {
	uint64_t orders;
	uint64_t recurring;
	unsigned int seconds;
	unsigned int settle;
	__u64 seed;
	const char *device;
	bool json;
};

/* One level of the context's wheels. */
struct level {
	uint64_t span;
	uint64_t buckets;
	uint64_t occupied;
};

struct wheels {
	unsigned int levels;
	struct level level[HTW_MAX_LEVELS];
	uint64_t tick_ns;
	uint64_t pending;
	uint64_t rings;
};

struct lateness {
	uint64_t *ns;
	uint64_t count;
};

struct demo {
	int fd, epfd;
	__u64 *id;		/* id of each order's timeout */
	uint64_t *due;		/* deadline of each order */
	uint8_t *end;		/* how each order ended, enum end */
	bool *settles;		/* whether each order is to settle before its deadline */
	uint32_t *plan;		/* orders that settle, by time */
	uint64_t *slice;	/* end of each slice in @plan */
	uint64_t slices, planned, settled;
	uint64_t *recurring_id;
	struct lateness late;
	uint64_t begin;		/* time of the first order */

	uint64_t added, cancelled, expired, recurred, missed, too_late;
	uint64_t early, twice, stray;
	uint64_t open;		/* orders that have not ended */
	uint64_t add_ns, cancel_ns, read_ns, reads;
	uint64_t memory;
	struct wheels fullest;
	uint64_t rings;
};

extern struct options opt;
extern struct demo demo;

/* 1234567 as 1,234,567. The buffers rotate, for several calls in one printf(). */
const char *grouped(uint64_t n);

/* Print a line of progress each second, or now. */
void print_progress(const char *doing, bool now);
void print_picture(void);
void print_table(void);
void print_json(void);

#endif /* DEMO_H */
