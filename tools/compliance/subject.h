/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The device under test: an open descriptor, calls to it, and the state that a
 * failed call must not change
 */
#ifndef SUBJECT_H
#define SUBJECT_H

#include "../common/clock.h"
#include "../common/htw-client.h"
#include "check.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

#define HOUR		(3600 * SEC)
#define COOKIE		0xc00c1e0123456789ULL
#define FOREVER_MS	60000

extern struct htw_info announced;	/* HTW_INFO of a new descriptor */
extern size_t page;

/* Addresses that no program can use; the low half of some is valid. */
#define BAD_ADDRESSES	7
extern const uintptr_t bad_addresses[BAD_ADDRESSES];

/**
 * struct subject - an open device
 * @fd: O_NONBLOCK
 * @manual: whether its clock moves only by HTW_ADVANCE
 * @tick: tick of its wheels, in ns
 * @now: time of its clock, if @manual
 * @witness: a timer that no check touches, or zero
 * @info: HTW_INFO before the call
 * @query: HTW_QUERY of the witness before the call
 */
struct subject {
	int fd;
	bool manual;
	__u64 tick;
	__u64 now;
	__u64 witness;
	struct htw_info info;
	struct htw_query query;
};

/**
 * struct call - a way to issue an operation
 * @name: name of the command, for reports
 * @cmd: the command
 * @op: zero, or, if @cmd is HTW_BATCH, the operation of its only entry
 * @size: size of the argument, or of the entry's part for it
 */
struct call {
	const char *name;
	unsigned long cmd;
	__u16 op;
	size_t size;
};

/* Print an error and return false if the device cannot be opened. */
bool choose_device(const char *path);
/* Whether the device has all these features (HTW_FEATURE_*). */
bool has(__u64 feature);
/*
 * Begin the group @name. Return whether the device has @feature; if it has not,
 * check that @cmd fails with ENOTTY.
 */
bool supported(const char *name, unsigned long cmd, __u64 feature);

/* A new descriptor, with no timer yet. */
struct subject open_fresh(void);
/* With a manual clock, if there is one. */
struct subject open_subject(void);
/* With a witness, too. */
struct subject open_witnessed(void);
void close_subject(struct subject *s);

struct htw_info info_of(const struct subject *s);
/* Without @remaining on a running clock: it differs with each call. */
struct htw_query query_of(const struct subject *s, __u64 id);

/* Save the state for expect_same_state() after the next call. */
void remember(struct subject *s);
void expect_same_state(const struct subject *s, const char *what);

int perform(const struct subject *s, const struct call *call, void *arg);
/* The call fails with @error; its argument and the state do not change. */
void fails(struct subject *s, const struct call *call, void *arg, int error,
	   const char *what);
/* EINVAL for each bit of a field that is not in @known. */
void fails_with_bits(struct subject *s, const struct call *call, const void *valid,
		     const char *field, size_t offset, size_t size, __u64 known);
#define FAILS_WITH_BITS(s, call, valid, field, known)			\
	fails_with_bits(s, call, valid, #field,				\
			offsetof(__typeof__(*(valid)), field),		\
			sizeof((valid)->field), known)
/* EFAULT if the argument cannot be read. */
void fails_with_pointers(struct subject *s, const struct call *call, const void *valid);
/* EFAULT if the argument cannot be written; the state does not change. */
void fails_read_only(struct subject *s, const struct call *call, const void *valid);
/* ENOTTY; the argument is neither read nor written. */
bool is_unknown(struct subject *s, unsigned long cmd, const char *what);

/* Map @size usable bytes that end at an inaccessible page. */
void *before_hole(size_t size);
/* A read-only copy of @src. */
void *read_only(const void *src, size_t size);

/* A timer due in an hour; its id is poisoned. */
struct htw_add valid_add(void);
/* Start a timer; return its id, or zero if that fails. */
__u64 started(const struct subject *s, struct htw_add add);
__u64 start(const struct subject *s, __u32 flags);
/* Start a timer and let it expire, unread; return zero if that fails. */
__u64 start_expired(struct subject *s, struct htw_add add);
int stop(const struct subject *s, __u64 id, __u32 flags);

int poll_fd(const struct subject *s, int timeout_ms);
/* Advance a manual clock by @ns; on other clocks wait for an expiration. */
bool pass(struct subject *s, __u64 ns);
/* Read events into a poisoned buffer; return their number or a negative errno. */
int get(const struct subject *s, struct htw_event *ev, size_t room);
/* The event came when it was due and has these fields. */
void expect_event(const struct subject *s, const struct htw_event *ev, __u64 id,
		  __u64 cookie, __u32 flags);

/* Map the device; return the address or a negative errno. */
long map(const struct subject *s, size_t size, int prot, int flags, off_t offset);
void map_fails(struct subject *s, size_t size, int prot, int flags, off_t offset,
	       int error, const char *what);

#endif /* SUBJECT_H */
