/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The oracle: an account of each timer, shared by all processes of a round
 *
 * Whoever calls htw for a timer holds its account's lock from before the call until the result
 * is booked. Readers book an event when they have it: the calls of others for the same timer may
 * have been booked in between, so what is checked holds for any order of the two.
 *
 * The lowest bits of a deadline are the number of the arming: an event shows by itself which
 * request it answers, also that of a periodic timer, whose intervals leave these bits alone.
 *
 * That the firings of a periodic timer are complete, without one counted twice, is checked by a
 * sum: an event with deadline d that stands for n firings adds hash(d) - hash(d + n * interval).
 * If, and in practice only if, the events follow each other without gap and overlap, in
 * whatever order they were booked, what remains is the hash of the first deadline less that of
 * the end of the last one.
 */
#ifndef TORTURE_ACCOUNT_H
#define TORTURE_ACCOUNT_H

#include <linux/htw.h>
#include <stdbool.h>

#define ARMINGS		8u

/* What a deadline or an interval may be a multiple of, to leave room for the arming's number. */
#define ARMING_MASK	(ARMINGS - 1ULL)

enum account_state {
	ACCOUNT_UNUSED = 0,
	ACCOUNT_LIVE,		/* the id is valid */
	ACCOUNT_EITHER,		/* cancelled with all others, or its last event was taken */
	ACCOUNT_GONE,		/* a call has not found it: its last event was taken */
	ACCOUNT_ENDED,
};

/* What is known of the events of a request that has been replaced, or has ended. */
enum arming_end {
	ARMING_OPEN = 0,	/* nothing */
	ARMING_VOID,		/* a one-shot timer that was still pending: there is none */
	ARMING_DONE,		/* a kept timer that was disarmed: all of them have been taken */
};

/**
 * struct arming - one request for an expiration, or for a series of them
 * @start: deadline that was asked for
 * @asked: time after the call
 * @interval: of a periodic timer, else zero
 * @until: time after the call that replaced or ended it, else U64_MAX: nothing fires later
 * @end: end of the last firing that an event stands for
 * @sum: see above
 * @firings: limit, or zero
 * @covered: firings that events stand for
 * @events: number of events
 * @known: of &enum arming_end
 */
struct arming {
	__u64 start;
	__u64 asked;
	__u64 interval;
	__u64 until;
	__u64 end;
	__u64 sum;
	__u32 firings;
	__u32 covered;
	__u32 events;
	enum arming_end known;
};

/**
 * struct account - one timer
 * @lock: see above
 * @state: of &enum account_state
 * @context: number of its context
 * @kept: an event does not end the id
 * @relative: started with a relative deadline, so the arming's number is not known: it is 0
 * @version: of the cookie, incremented by each change
 * @armings: number of valid entries of @arming
 * @reuse: how often the account has been used before
 * @slack: the most that it was ever given
 * @id: its id
 * @arming: what was asked for
 */
struct account {
	int lock;
	__u8 state;
	__u8 context;
	bool kept;
	bool relative;
	__u8 version;
	__u8 armings;
	__u32 reuse;
	__u64 slack;
	__u64 id;
	struct arming arming[ARMINGS];
};

/* What was known about the context when a call was made. */
struct window {
	__u64 before;		/* the context's time before the call */
	__u64 after;		/* and after it; U64_MAX if the clock may have been set */
	bool harvests;		/* others may harvest it */
	__u64 tick;		/* the context's */
};

/* Cookies that belong to no account: any other process's, and those that end readers. */
#define COOKIE_STRANGER		0x57ULL
#define COOKIE_SENTINEL		0x5eULL
#define COOKIE_ACCOUNT		0xacULL
#define COOKIE_KIND(cookie)	((cookie) >> 56)

bool account_init(__u32 count);
void account_new_round(void);
struct account *account_get(__u32 index);
__u32 account_index(const struct account *a);
__u32 account_count(void);
bool account_trylock(struct account *a);
void account_lock(struct account *a);
void account_unlock(struct account *a);

__u64 account_cookie(const struct account *a);
struct account *account_of_cookie(__u64 cookie);
struct arming *account_current(struct account *a);
bool account_is_reusable(const struct account *a);

/* Before a call: note what is asked for. */
void account_prepare_add(struct account *a, __u8 context, const struct htw_add_args *add);
bool account_can_arm(const struct account *a);
__u64 account_next_deadline(const struct account *a, __u64 deadline);

/* After a call: book its result; all need the lock. */
void account_added(struct account *a, int result, __u64 id, const struct window *w);
void account_cancelled(struct account *a, int result, const struct htw_cancel_args *c,
		       const struct window *w);
void account_moved(struct account *a, int result, const struct htw_mod_args *mod, bool has_output,
		   const struct window *w);
void account_queried(struct account *a, int result, const struct htw_timer_info *q,
		     const struct window *w);

/* These take the lock. */
void account_event(__u8 context, const struct htw_event *ev, const struct window *w);
void account_harvested(__u8 context, const struct htw_timer_info *q, const struct window *w);

/* With the lock: is an event to come, if the context's time goes on to @horizon? */
bool account_owes(const struct account *a, __u64 horizon);
/* At the end of a round, when no call and no event is under way. */
void account_close(struct account *a);
void account_verify(struct account *a);

#endif /* TORTURE_ACCOUNT_H */
