/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is checked: an open device, calls to it, and the state that a call that
 * failed must leave as it was
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

extern struct htw_info announced;	/* HTW_INFO of a fresh fd */
extern size_t page;

/* Addresses that no program can use; some have a right low half. */
#define BAD_ADDRESSES	7
extern const uintptr_t bad_addresses[BAD_ADDRESSES];

/**
 * struct subject - an open device
 * @fd: O_NONBLOCK
 * @manual: its clock moves only by HTW_ADVANCE
 * @tick: of its wheels, in ns
 * @now: with @manual: the time of its clock
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
 * struct call - one way to have an operation carried out
 * @name: of the command, for reports
 * @cmd: the command
 * @op: zero, or the operation that @cmd, HTW_BATCH, has in its only entry
 * @size: of the argument, or the entry's part of it
 */
struct call {
	const char *name;
	unsigned long cmd;
	__u16 op;
	size_t size;
};

/* Prints why and returns false where it cannot be opened. */
bool choose_device(const char *path);
/* Whether all these bits of HTW_FEATURE are announced. */
bool has(__u64 feature);
/*
 * Begins the group @name. Returns whether @feature is announced; where it is not,
 * @cmd has been checked to be ENOTTY.
 */
bool supported(const char *name, unsigned long cmd, __u64 feature);

/* As it is after open(), with no timer yet. */
struct subject open_fresh(void);
/* With a manual clock, where there is one. */
struct subject open_subject(void);
/* With a timer that is to stay as it is, too. */
struct subject open_witnessed(void);
void close_subject(struct subject *s);

struct htw_info info_of(const struct subject *s);
/* Without @remaining where the clock runs: it differs from call to call. */
struct htw_query query_of(const struct subject *s, __u64 id);

/* For expect_same_state() after the next call. */
void remember(struct subject *s);
void expect_same_state(const struct subject *s, const char *what);

int perform(const struct subject *s, const struct call *call, void *arg);
/* The call fails, changes nothing of its argument, and leaves nothing behind. */
void fails(struct subject *s, const struct call *call, void *arg, int error,
	   const char *what);
/* EINVAL for each bit of a field but for those in @known. */
void fails_with_bits(struct subject *s, const struct call *call, const void *valid,
		     const char *field, size_t offset, size_t size, __u64 known);
#define FAILS_WITH_BITS(s, call, valid, field, known)			\
	fails_with_bits(s, call, valid, #field,				\
			offsetof(__typeof__(*(valid)), field),		\
			sizeof((valid)->field), known)
/* EFAULT where the argument cannot be read. */
void fails_with_pointers(struct subject *s, const struct call *call, const void *valid);
/* EFAULT where the argument cannot be written, and nothing has happened. */
void fails_read_only(struct subject *s, const struct call *call, const void *valid);
/* ENOTTY, and the argument is neither read nor written. */
bool is_unknown(struct subject *s, unsigned long cmd, const char *what);

/* @size bytes, and right behind them memory that cannot be used at all. */
void *before_hole(size_t size);
/* A copy of @src that cannot be written. */
void *read_only(const void *src, size_t size);

/* An hour away; the id is poisoned. */
struct htw_add valid_add(void);
/* Start a timer; zero where that fails. */
__u64 started(const struct subject *s, struct htw_add add);
__u64 start(const struct subject *s, __u32 flags);
/* A timer that has expired and waits to be read; zero where that fails. */
__u64 start_expired(struct subject *s, struct htw_add add);
int stop(const struct subject *s, __u64 id, __u32 flags);

int poll_fd(const struct subject *s, int timeout_ms);
/* Moves a manual clock; with another, waits for an expiration. */
bool pass(struct subject *s, __u64 ns);
/* Returns the number of events, or a negative errno; the buffer is poisoned before. */
int get(const struct subject *s, struct htw_event *ev, size_t room);
/* The event came when it was due and has these fields. */
void expect_event(const struct subject *s, const struct htw_event *ev, __u64 id,
		  __u64 cookie, __u32 flags);

/* Returns the address, or a negative errno. */
long map(const struct subject *s, size_t size, int prot, int flags, off_t offset);
void map_fails(struct subject *s, size_t size, int prot, int flags, off_t offset,
	       int error, const char *what);

#endif /* SUBJECT_H */
