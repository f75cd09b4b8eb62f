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

/* Carry out the calls that io_uring has as its commands. */
extern bool by_uring;

extern struct htw_info_args announced;	/* HTW_INFO of a new descriptor */

/* Addresses that no program can use; the low half of some is valid. */
#define BAD_ADDRESSES	7
extern const uintptr_t bad_addresses[BAD_ADDRESSES];

/**
 * struct subject - an open device
 * @fd: O_NONBLOCK
 * @manual: its clock moves only by HTW_ADVANCE
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
	struct htw_info_args info;
	struct htw_timer_info query;
};

/**
 * struct call - a way to issue an operation
 * @name: name of the command, for reports
 * @cmd: the command
 * @op: zero, or, if @cmd is HTW_VECTOR, the operation: the argument of the single call is
 *	made a vector of one
 * @size: size of the single call's argument
 */
struct call {
	const char *name;
	unsigned long cmd;
	__u32 op;
	size_t size;
};

/* An ioctl, or a command of io_uring. Return: zero or a negative errno. */
int make_call(int fd, unsigned long cmd, void *arg);

/* Print an error and return false if the device cannot be opened. */
bool choose_device(const char *path);

/* A new descriptor with this access mode. */
int open_device(int mode);
/* Open for reading and writing, with no timer yet. */
struct subject open_fresh(void);
/* With a manual clock. */
struct subject open_subject(void);
/* With a witness, too. */
struct subject open_witnessed(void);
void close_subject(struct subject *s);

struct htw_info_args info_of(const struct subject *s);
/* Without @remaining on a running clock: it differs with each call. */
struct htw_timer_info query_of(const struct subject *s, __u64 id);
/* Of &enum htw_state, or zero if there is no such timer. */
__u32 state_of(const struct subject *s, __u64 id);

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
/* EFAULT if there is no memory at the argument's address. */
void fails_without_memory(struct subject *s, const struct call *call);
/* The same, and if there is none for its last byte; the state does not change. */
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
struct htw_add_args valid_add(void);
/* Start a timer; return its id, or zero if that fails. */
__u64 started(const struct subject *s, struct htw_add_args add);
__u64 start(const struct subject *s, __u32 flags);
/* Start a timer and pass a tick, so that it is due; return zero if it is not. */
__u64 start_due(struct subject *s, struct htw_add_args add);
int stop(const struct subject *s, __u64 id);

int poll_fd(const struct subject *s, int timeout_ms);
/* Advance a manual clock. */
void pass(struct subject *s, __u64 ns);
/* Read events into a poisoned buffer; return their number or a negative errno. */
int get(const struct subject *s, struct htw_event *ev, size_t room);
/* The event came when it was due and has these fields. */
void expect_event(const struct subject *s, const struct htw_event *ev, __u64 id,
		  __u64 cookie, __u32 flags);

#endif /* SUBJECT_H */
