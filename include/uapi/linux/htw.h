/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * htw - millions of timeouts behind one file descriptor
 *
 * Each open() of /dev/htw creates a context: a set of timers, a queue of expirations
 * and a limit. ioctls start, change and stop timers; read() returns expirations as an
 * array of &struct htw_event.
 *
 * Rules for all commands:
 *
 * - All times are nanoseconds on the context's clock, CLOCK_MONOTONIC unless HTW_SETUP
 *   chose another one.
 * - A flag that is not listed for its field and a reserved field that is not zero fail
 *   with EINVAL. An unknown command fails with ENOTTY and does not touch its argument.
 *   Unless a structure says otherwise, EFAULT means that the argument could not be read
 *   or written, and that nothing was changed.
 * - Structures have the same layout for 32- and 64-bit programs, without padding, and
 *   nothing depends on the page size.
 *
 * Stability: from release 0.1 on, command numbers, structure sizes, offsets, flags and
 * values do not change, and a call that succeeds keeps succeeding. Additions come as new
 * commands, new flags or former reserved fields, each with a bit in
 * &htw_info.features. A reserved field that gets a meaning as input takes effect only
 * with a new flag, and its old name stays valid.
 */
#ifndef _UAPI_LINUX_HTW_H
#define _UAPI_LINUX_HTW_H

#include <linux/ioctl.h>
#include <linux/types.h>

/** HTW_MAX_LEVELS - maximum number of levels of a wheel */
#define HTW_MAX_LEVELS		8

/**
 * enum htw_feature - bits of &htw_info.features
 * @HTW_FEATURE_ADD: HTW_ADD, HTW_CANCEL, HTW_INFO, HTW_BATCH of adds and cancels,
 *	read() and poll()
 * @HTW_FEATURE_KEEP: %HTW_F_KEEP
 * @HTW_FEATURE_FIRINGS: &htw_add.firings
 * @HTW_FEATURE_MOD: HTW_MOD and HTW_QUERY, also in HTW_BATCH
 * @HTW_FEATURE_SLACK: &htw_add.slack and &htw_mod.slack
 * @HTW_FEATURE_ALL: HTW_CANCEL_ALL, HTW_LIST and HTW_HARVEST
 * @HTW_FEATURE_SETUP: HTW_SETUP with its clocks, private wheels, limit and home CPU
 * @HTW_FEATURE_MANUAL: %HTW_CLOCK_MANUAL and HTW_ADVANCE
 * @HTW_FEATURE_RING: the mapped ring of expirations and HTW_FLUSH
 * @HTW_FEATURE_TABLE: the mapped table of deadlines
 * @HTW_FEATURE_CANCEL_ON_SET: %HTW_F_CANCEL_ON_SET
 * @HTW_FEATURE_VECTOR: HTW_VECTOR
 * @HTW_FEATURE_RING_TAIL: the ring_tail fields of &struct htw_cancel,
 *	&struct htw_vector, &struct htw_cancel_all and &struct htw_list
 * @HTW_FEATURE_NEXT: HTW_NEXT
 * @HTW_FEATURE_LIST_STATES: &enum htw_list_flag
 * @HTW_FEATURE_UNREAD: %HTW_MOD_UNREAD
 */
enum htw_feature {
	HTW_FEATURE_ADD		= 1 << 0,
	HTW_FEATURE_KEEP	= 1 << 1,
	HTW_FEATURE_FIRINGS	= 1 << 2,
	HTW_FEATURE_MOD		= 1 << 3,
	HTW_FEATURE_SLACK	= 1 << 4,
	HTW_FEATURE_ALL		= 1 << 5,
	HTW_FEATURE_SETUP	= 1 << 6,
	HTW_FEATURE_MANUAL	= 1 << 7,
	HTW_FEATURE_RING	= 1 << 8,
	HTW_FEATURE_TABLE	= 1 << 9,
	HTW_FEATURE_CANCEL_ON_SET = 1 << 10,
	HTW_FEATURE_VECTOR	= 1 << 11,
	HTW_FEATURE_RING_TAIL	= 1 << 12,
	HTW_FEATURE_NEXT	= 1 << 13,
	HTW_FEATURE_LIST_STATES	= 1 << 14,
	HTW_FEATURE_UNREAD	= 1 << 15,
};

/**
 * enum htw_flag - bits of &htw_add.flags, &htw_mod.flags and &htw_query.flags
 * @HTW_F_ABS: @deadline is a time on the context's clock; without it, ns from now
 * @HTW_F_KEEP: HTW_ADD only: the id survives its last expiration. The timer is then
 *	disarmed, still counts against the limits, and exists until HTW_CANCEL
 * @HTW_F_CANCEL_ON_SET: HTW_ADD only, needs CLOCK_REALTIME: the timer expires as soon
 *	as that clock is set, with %HTW_EVENT_CLOCK_SET, unless the table disarms it
 * @HTW_MOD_DEADLINE: HTW_MOD only: set the deadline and arm the timer
 * @HTW_MOD_INTERVAL: HTW_MOD only: set interval and firings
 * @HTW_MOD_COOKIE: HTW_MOD only: set the cookie
 * @HTW_MOD_SLACK: HTW_MOD only: set the slack
 * @HTW_MOD_UNREAD: HTW_MOD only, without other flags: take back an event that was read, if
 *	the table has put the timer off (%HTW_FEATURE_UNREAD)
 */
enum htw_flag {
	HTW_F_ABS		= 1 << 0,
	HTW_F_KEEP		= 1 << 1,
	HTW_F_CANCEL_ON_SET	= 1 << 2,
	HTW_MOD_DEADLINE	= 1 << 8,
	HTW_MOD_INTERVAL	= 1 << 9,
	HTW_MOD_COOKIE		= 1 << 10,
	HTW_MOD_SLACK		= 1 << 11,
	HTW_MOD_UNREAD		= 1 << 12,
};

/**
 * struct htw_add - argument of HTW_ADD: start a timer
 * @id: out: identifies the timer in the other calls; never zero, never reused
 * @deadline: ns from now, or a time on the clock with %HTW_F_ABS. Zero or past: due at
 *	once. A sum above U64_MAX is capped there. Clocks end at 2^63 - 1, so a later
 *	deadline never comes, nor does one in the tick that is not complete by then
 * @interval: period in ns, at least one tick: the timer expires at deadline +
 *	k * interval. Zero for a one-shot timer
 * @slack: how much later than @deadline the timer may expire to share a wakeup with
 *	others, in ns; rounded down to 26 significant bits. Never makes it early. Of the times
 *	from @deadline to @deadline + @slack the one that ends in most zero bits is chosen, and
 *	rounded up to a tick, whatever other timers there are; so those of a user meet, of
 *	whatever context, CPU and tick. Each user has it earlier by another part of @slack, below
 *	an eighth, but not on the manual clock. Less than a tick has no effect. A periodic
 *	timer's next deadline does not depend on it
 * @cookie: returned with each expiration; HTW_MOD can change it
 * @flags: %HTW_F_ABS, %HTW_F_KEEP, %HTW_F_CANCEL_ON_SET
 * @firings: number of firings of a periodic timer, missed ones included; zero for no
 *	limit. Must be zero for a one-shot timer
 * @reserved: must be zero
 *
 * A timer expires at the first tick of its wheel that is not before its deadline. One
 * whose deadline has come when it is armed is due at once and does not wait for a tick.
 * Timers that wait for the end of the current tick, and whose deadline has come as well,
 * then expire before it. No more than 32 are looked at: if there are more, or if delivery is
 * far behind, the new timer waits with them, and so may others that are armed by the same
 * call. On the manual clock they go on waiting, and it does not.
 *
 * Timers that expire at the same tick and were armed on the same CPU expire in the
 * order in which they were armed; on a private wheel or the manual clock always.
 *
 * Errors:
 *
 * * EINVAL: an unknown flag or a non-zero reserved field; @interval below one tick;
 *   @firings without @interval; %HTW_F_CANCEL_ON_SET without CLOCK_REALTIME
 * * ENOSPC: the context holds as many timers as its limit allows. Pending, unread and
 *   kept timers count; cancelling and reading make room. Or no id is left, after 2^32
 *   uses of each slot
 * * EDQUOT: there is no free timer, and no room for more in the module's max_user_timers.
 *   Memory counts: a page of 63 timers counts for all of them, used or not, until it is
 *   given back; so does a page of the table of deadlines. At the limit, the call waits
 *   until descriptors that the user has closed have given back theirs, for ten seconds at
 *   most in all. Also if very many descriptors have had far more timers than they have now
 * * ENOMEM: no memory, or the cgroup's limit is reached
 * * EINTR: the process is being killed
 * * EFAULT: the argument could not be read, or @id could not be written
 *
 * A call that fails starts no timer.
 */
struct htw_add {
	__u64 id;
	__u64 deadline;
	__u64 interval;
	__u64 slack;
	__u64 cookie;
	__u32 flags;
	__u32 firings;
	__u64 reserved;
};

/**
 * enum htw_cancel_flag - bits of &htw_cancel.flags
 * @HTW_CANCEL_DISCARD: if the timer has expired and was not read, drop the expiration
 */
enum htw_cancel_flag {
	HTW_CANCEL_DISCARD	= 1 << 0,
};

/**
 * struct htw_cancel - argument of HTW_CANCEL: stop a timer and end its id
 * @id: the timer
 * @remaining: out: ns from now to the deadline; zero if that has passed or the timer is
 *	disarmed, also by its entry in the table of deadlines
 * @cookie: out: the timer's cookie
 * @missed: out: with EALREADY, firings of a periodic timer that came due after the one
 *	that is still to be read; else zero
 * @flags: %HTW_CANCEL_DISCARD
 * @ring_tail: out, if the context has a ring: every event of this id in the ring has a
 *	number before this one, counted as &htw_ring.tail; the value on entry is ignored.
 *	Without a ring: must be zero, stays zero
 * @reserved0: former name of @ring_tail
 * @reserved: must be zero
 *
 * Returns 0 if the timer was pending, or kept and disarmed. Its id has ended, and no
 * further expiration will be queued or written to the ring.
 *
 * Errors:
 *
 * * EALREADY: the timer has expired and was not read. The expiration stays readable
 *   as its last one, without %HTW_EVENT_MORE, and the id ends when it is read. Until
 *   then HTW_QUERY reports %HTW_STATE_EXPIRED, HTW_MOD fails with ENOENT and HTW_CANCEL
 *   with EALREADY. With %HTW_CANCEL_DISCARD the expiration is dropped and the id ends
 *   now, even if an earlier HTW_CANCEL left it. The out fields are written
 * * ENOENT: the id is unknown or stale, or its last expiration has been read
 * * EINVAL: an unknown flag or a non-zero reserved field
 * * EFAULT: the argument could not be read; or it could not be written, and the timer
 *   has been cancelled
 *
 * Memory that the cookie refers to may be freed once HTW_CANCEL has returned 0 or
 * dropped the expiration, and no thread is still handling an event of the id that it
 * read before. With a ring, &htw_ring.head must also have reached @ring_tail
 * (HTW_RING_PASSED()): the ring may still hold earlier events of a periodic or kept
 * timer.
 */
struct htw_cancel {
	__u64 id;
	__u64 remaining;
	__u64 cookie;
	__u64 missed;
	__u32 flags;
	union {
		__u32 ring_tail;
		__u32 reserved0;
	};
	__u64 reserved[2];
};

/**
 * struct htw_mod - argument of HTW_MOD: change a timer in any state
 * @id: the timer
 * @deadline: as &htw_add.deadline, with %HTW_MOD_DEADLINE; else must be zero
 * @interval: as &htw_add.interval, with %HTW_MOD_INTERVAL; else must be zero
 * @slack: as &htw_add.slack, with %HTW_MOD_SLACK; else must be zero
 * @cookie: with %HTW_MOD_COOKIE; else must be zero
 * @flags: at least one of the HTW_MOD_ bits; %HTW_F_ABS only with %HTW_MOD_DEADLINE
 * @firings: as &htw_add.firings, with %HTW_MOD_INTERVAL; else must be zero
 * @reserved: must be zero
 *
 * %HTW_MOD_DEADLINE arms the timer, whatever its state. An expiration that was not read
 * is withdrawn and does not count as a firing. Without it, an unread expiration stays
 * and is reported with the new cookie; it is the first of the new firings. Slack
 * takes effect when the timer is armed next. %HTW_F_KEEP and %HTW_F_CANCEL_ON_SET cannot
 * be changed. Events that are already in a ring keep their cookie: they lie before the
 * &htw_ring.tail that is read after the call.
 *
 * %HTW_MOD_UNREAD is for a program that finds, when it reads an event, that the timer's
 * entry in the table of deadlines is later than the event's deadline: it was stored after
 * the timer had expired. @deadline is the event's, @firings its &htw_event.missed plus
 * one (U32_MAX if that is more), all other fields are zero. If the entry is still later
 * than @deadline, and the timer has not expired at the entry since, the timer is armed
 * for the entry as if that had been there in time: the event is void, @firings are added
 * to those that a periodic timer with a limit has left, which after its last firing is
 * periodic again unless %HTW_MOD_INTERVAL has been used since; with %HTW_F_CANCEL_ON_SET
 * it expires at once if the clock has been set since; and the entry stays as it is, so
 * that a store at the same time is not lost. A timer that the entry disarms is disarmed,
 * until HTW_MOD arms it. Otherwise the call fails with EALREADY, and the event stands.
 * Events without %HTW_EVENT_MORE, or with %HTW_EVENT_CLOCK_SET, always stand. Not in
 * HTW_VECTOR.
 *
 * Errors: EINVAL for flags and fields other than above, for what HTW_ADD would refuse, and
 * for %HTW_MOD_UNREAD without a table; ENOENT if the id has ended, or was cancelled and its
 * last expiration is still to be read; EALREADY as above; EFAULT. Needs %HTW_FEATURE_MOD.
 */
struct htw_mod {
	__u64 id;
	__u64 deadline;
	__u64 interval;
	__u64 slack;
	__u64 cookie;
	__u32 flags;
	__u32 firings;
	__u64 reserved;
};

/**
 * enum htw_state - values of &htw_query.state
 * @HTW_STATE_PENDING: armed
 * @HTW_STATE_EXPIRED: expired, and the expiration has not been read
 * @HTW_STATE_DISARMED: exists (%HTW_F_KEEP or a table), and is not armed
 */
enum htw_state {
	HTW_STATE_PENDING	= 1,
	HTW_STATE_EXPIRED	= 2,
	HTW_STATE_DISARMED	= 3,
};

/**
 * struct htw_query - argument of HTW_QUERY, and an entry of HTW_LIST, HTW_HARVEST and
 * HTW_NEXT
 * @id: the timer: in for HTW_QUERY, out for the others. All other fields are out, and
 *	must be zero on entry to HTW_QUERY
 * @deadline: when the timer expires or expired, in ns on the context's clock
 * @remaining: ns to the deadline; zero if it has passed or the timer is disarmed
 * @interval: period in ns; zero for a one-shot timer
 * @cookie: the timer's cookie
 * @missed: firings that came due after the one that is still to be read
 * @firings: firings left, including one that is still to be read and those @missed; zero
 *	for no limit. A kept timer that has had all its firings is a disarmed one-shot timer
 * @state: of &enum htw_state
 * @flags: %HTW_F_KEEP and %HTW_F_CANCEL_ON_SET as given to HTW_ADD
 *
 * With a table of deadlines, @deadline, @remaining and @state take the timer's entry
 * into account.
 *
 * HTW_QUERY fails with ENOENT if the id is unknown or stale, or its last expiration has
 * been read; EINVAL if an out field is not zero; EFAULT. Needs %HTW_FEATURE_MOD.
 */
struct htw_query {
	__u64 id;
	__u64 deadline;
	__u64 remaining;
	__u64 interval;
	__u64 cookie;
	__u64 missed;
	__u32 firings;
	__u16 state;
	__u16 flags;
};

/**
 * enum htw_op_code - values of &htw_op.op and &htw_vector.op
 * @HTW_OP_ADD: HTW_ADD, with &htw_op.add
 * @HTW_OP_CANCEL: HTW_CANCEL, with &htw_op.cancel
 * @HTW_OP_MOD: HTW_MOD, with &htw_op.mod (%HTW_FEATURE_MOD)
 * @HTW_OP_QUERY: HTW_QUERY, with &htw_op.query (%HTW_FEATURE_MOD); not in a vector
 */
enum htw_op_code {
	HTW_OP_ADD		= 1,
	HTW_OP_CANCEL		= 2,
	HTW_OP_MOD		= 3,
	HTW_OP_QUERY		= 4,
};

/**
 * struct htw_op - one operation of a HTW_BATCH
 * @op: of &enum htw_op_code; another value makes @result -EINVAL
 * @reserved: must be zero; else @result is -EINVAL
 * @result: out: 0, or the negative errno of the single call
 * @add: for %HTW_OP_ADD
 * @cancel: for %HTW_OP_CANCEL
 * @mod: for %HTW_OP_MOD
 * @query: for %HTW_OP_QUERY
 */
struct htw_op {
	__u16 op;
	__u16 reserved;
	__s32 result;
	union {
		struct htw_add add;
		struct htw_cancel cancel;
		struct htw_mod mod;
		struct htw_query query;
	};
};

/**
 * struct htw_batch - argument of HTW_BATCH: carry out an array of operations
 * @ops: address of an array of &struct htw_op
 * @count: number of operations
 * @done: out: operations carried out, in order, whose result has been written
 * @flags: must be zero
 * @reserved0: must be zero
 * @reserved: must be zero
 *
 * A batch has the effect of its operations one by one, in order. On the manual clock a
 * timer that an operation makes due has expired before the next operation; on other
 * clocks it expires after the batch, or a part of it.
 *
 * A failing operation sets its own result and does not end the batch. If a signal or an
 * inaccessible address ends it early, the call returns 0 with @done below @count:
 * continue at ops + done. Operations are carried out up to 64 at a time, so where a
 * result cannot be written, up to 64 operations from @done on may have been carried out.
 *
 * Errors: EINVAL for flags or reserved fields; ENOMEM; EFAULT if the argument is not
 * accessible, or @done would be zero because @ops is not.
 */
struct htw_batch {
	__u64 ops;
	__u32 count;
	__u32 done;
	__u32 flags;
	__u32 reserved0;
	__u64 reserved;
};

/**
 * struct htw_vector - argument of HTW_VECTOR: the same operation on many timers
 * @ids: address of an array of __u64, the timers: written by %HTW_OP_ADD, read by the
 *	others and written only where an operation fails
 * @deadlines: address of an array of __u64, as &htw_add.deadline, for %HTW_OP_ADD and
 *	for %HTW_OP_MOD with %HTW_MOD_DEADLINE; else must be zero
 * @cookies: address of an array of __u64, as &htw_add.cookie, for %HTW_OP_ADD and for
 *	%HTW_OP_MOD with %HTW_MOD_COOKIE; zero there means that all cookies are zero.
 *	Else must be zero
 * @interval: for all of them, as &htw_add.interval or &htw_mod.interval
 * @slack: for all of them, as &htw_add.slack or &htw_mod.slack
 * @count: number of entries of each array
 * @done: out: operations carried out, in order
 * @failed: out: how many of those failed
 * @flags: as &htw_add.flags, &htw_cancel.flags or &htw_mod.flags
 * @firings: for all of them, as &htw_add.firings or &htw_mod.firings
 * @op: %HTW_OP_ADD, %HTW_OP_CANCEL or %HTW_OP_MOD
 * @reserved0: must be zero
 * @ring_tail: %HTW_OP_CANCEL: as &htw_cancel.ring_tail, for all timers that were
 *	cancelled. Others: must be zero (%HTW_FEATURE_RING_TAIL)
 * @reserved: former name of @ring_tail
 *
 * The same as a HTW_BATCH of such operations, at a lower cost. A failing
 * operation does not end the vector: its entry in @ids becomes the negative errno of the
 * single call, which is never an id (HTW_ID_IS_ERROR(), HTW_ID_ERROR()). If @failed is
 * zero, no entry needs to be looked at. A cancel reports neither cookie nor remaining
 * time.
 *
 * If a signal or an inaccessible address ends the vector early, the call returns 0 with
 * @done below @count: continue behind @done in each array. An add that is not counted in
 * @done has not happened. Of the others, where an error cannot be written, that operation
 * and up to 255 after it may have been carried out.
 *
 * Errors: EINVAL for what is invalid for every operation, for a missing array (none is
 * needed if @count is zero), and for an array that @op and @flags do not take; nothing
 * is done or written then. ENOMEM. EFAULT if the argument is not accessible, or @done
 * would be zero because an array is not. Needs %HTW_FEATURE_VECTOR.
 */
struct htw_vector {
	__u64 ids;
	__u64 deadlines;
	__u64 cookies;
	__u64 interval;
	__u64 slack;
	__u32 count;
	__u32 done;
	__u32 failed;
	__u32 flags;
	__u32 firings;
	__u16 op;
	__u16 reserved0;
	union {
		__u64 ring_tail;
		__u64 reserved;
	};
};

/**
 * enum htw_event_flag - bits of &htw_event.flags
 * @HTW_EVENT_MORE: the id is still valid: the timer is periodic and goes on, or is kept.
 *	Without it, this was the id's last expiration
 * @HTW_EVENT_CLOCK_SET: the timer has %HTW_F_CANCEL_ON_SET, and CLOCK_REALTIME was set
 *	after it was armed
 */
enum htw_event_flag {
	HTW_EVENT_MORE		= 1 << 0,
	HTW_EVENT_CLOCK_SET	= 1 << 1,
};

/**
 * struct htw_event - one expiration
 * @id: the timer
 * @cookie: its cookie
 * @deadline: the deadline that came, in ns on the context's clock
 * @fired: when htw found that it had come, in ns; in events that are read one after the
 *	other it goes back only if the clock was set; never before @deadline, except with
 *	%HTW_EVENT_CLOCK_SET: a periodic timer's event with @fired before @deadline is no
 *	firing, and @deadline is still to come. On the manual clock, the time that the
 *	clock was moved to
 * @missed: further firings of a periodic timer whose time came before this event was
 *	read; they get no event of their own
 * @flags: of &enum htw_event_flag
 * @reserved: zero
 *
 * read() and readv() return as many whole events as fit, in the order in which the timers
 * fired. If that is less than fits, none was left, unless memory could not be written or the
 * process is being killed: no other signal ends a read that has found events. A periodic timer
 * is armed again, in phase, when its event is read; a stalled reader gets one event with a
 * count. Bytes of the buffer behind the returned events may have been overwritten.
 *
 * read() fails with EINVAL if the buffer is smaller than one event; EBUSY while a ring is
 * mapped; EAGAIN if there is no event and O_NONBLOCK is set; EINTR; EFAULT, and events
 * that could not be copied stay readable.
 */
struct htw_event {
	__u64 id;
	__u64 cookie;
	__u64 deadline;
	__u64 fired;
	__u64 missed;
	__u32 flags;
	__u32 reserved;
};

/**
 * enum htw_setup_flag - bits of &htw_setup.flags and &htw_info.flags
 * @HTW_SETUP_CLOCK: use &htw_setup.clock
 * @HTW_SETUP_PRIVATE: give the context a wheel of its own, with &htw_setup.tick_ns,
 *	&htw_setup.levels and &htw_setup.slots
 * @HTW_SETUP_LIMIT: use &htw_setup.limit
 * @HTW_SETUP_HOME: use &htw_setup.home_cpu
 * @HTW_SETUP_RING: create a ring of &htw_setup.ring_entries
 */
enum htw_setup_flag {
	HTW_SETUP_CLOCK		= 1 << 0,
	HTW_SETUP_PRIVATE	= 1 << 1,
	HTW_SETUP_LIMIT		= 1 << 2,
	HTW_SETUP_HOME		= 1 << 3,
	HTW_SETUP_RING		= 1 << 4,
};

/** HTW_CLOCK_MANUAL - a clock that starts at zero and that only HTW_ADVANCE moves */
#define HTW_CLOCK_MANUAL	0x68747700

/**
 * struct htw_setup - argument of HTW_SETUP: configure a context, once, before its first
 * timer
 * @flags: of &enum htw_setup_flag; a field whose flag is not set must be zero
 * @clock: CLOCK_MONOTONIC (the default), CLOCK_BOOTTIME, CLOCK_REALTIME or
 *	%HTW_CLOCK_MANUAL
 * @tick_ns: tick of the private wheel, from 10 us to 1 s, on the manual clock from 1 ns
 * @limit: maximum number of timers, from 1 to the module's max_timers
 * @home_cpu: the CPU that all timers of this context wait on
 * @levels: levels of the private wheel, from 1 to %HTW_MAX_LEVELS
 * @slots: slots of each level, finest first, from 2 to 2048; zero beyond @levels. Their
 *	product is at most 2^61
 * @ring_entries: events that the ring holds, a power of two up to 2^20
 * @reserved0: must be zero
 * @reserved: must be zero
 *
 * A context on the manual clock always has a wheel of its own: without
 * %HTW_SETUP_PRIVATE, with the module's tick and geometry. With @flags zero the call
 * changes nothing, and the context can still be configured.
 *
 * Errors, one of them where several apply:
 *
 * * EINVAL: an unknown flag; a field that is not zero though reserved, without its flag or
 *   in @slots beyond @levels; @ring_entries is not a power of two; %HTW_SETUP_HOME with a
 *   private wheel or the manual clock; a home CPU that does not exist or is not online
 * * EOPNOTSUPP: @clock is a clock that timers cannot be on (CLOCK_TAI,
 *   CLOCK_REALTIME_ALARM, ...)
 * * ERANGE: @tick_ns, @limit, @levels, @slots or @ring_entries is zero or out of range
 * * EPERM: without CAP_SYS_NICE, a home CPU outside the caller's affinity mask, or an
 *   isolated one
 * * EPERM: without CAP_SYS_RESOURCE, a private wheel with a tick below 100 us (unless on
 *   the manual clock) or more than 4096 slots in all
 * * EPERM: a 17th private wheel of a user who opened the context without
 *   CAP_SYS_RESOURCE; contexts on the manual clock count
 * * EBUSY: the context has had a timer, or has been configured before
 * * EDQUOT: the ring does not fit into the user's limit (see &struct htw_add), where an
 *   entry counts as a timer, and a ring at least as a page of timers
 * * ENOMEM, EFAULT
 *
 * A call that fails changes nothing. Needs %HTW_FEATURE_SETUP.
 */
struct htw_setup {
	__u32 flags;
	__s32 clock;
	__u64 tick_ns;
	__u64 limit;
	__s32 home_cpu;
	__u32 levels;
	__u32 slots[HTW_MAX_LEVELS];
	__u32 ring_entries;
	__u32 reserved0;
	__u64 reserved[3];
};

/**
 * struct htw_info - argument of HTW_INFO; all fields are out
 * @features: of &enum htw_feature
 * @tick_ns: tick of the wheels that the context's timers wait in
 * @limit: maximum number of timers of this context
 * @timers: timers it holds: pending, expired and not read, or kept
 * @expired: how many of them have expired and were not read. Events in a ring count as
 *	read
 * @clock: the context's clock, as &htw_setup.clock
 * @home_cpu: as set up; -1 if timers wait on the CPU that starts them
 * @flags: &htw_setup.flags of the HTW_SETUP that succeeded; else zero
 * @levels: valid entries of @slots
 * @slots: slots of each level, finest first
 * @ring_entries: events that the ring holds; zero without a ring
 * @reserved0: zero
 * @table_size: maximum size of a mapping of the table of deadlines, in bytes; zero if this
 *	kernel does not say
 * @reserved: zero
 *
 * Errors: EFAULT.
 */
struct htw_info {
	__u64 features;
	__u64 tick_ns;
	__u64 limit;
	__u64 timers;
	__u64 expired;
	__s32 clock;
	__s32 home_cpu;
	__u32 flags;
	__u32 levels;
	__u32 slots[HTW_MAX_LEVELS];
	__u32 ring_entries;
	__u32 reserved0;
	__u64 table_size;
	__u32 reserved[4];
};

/**
 * struct htw_cancel_all - argument of HTW_CANCEL_ALL: cancel every timer of the context
 * @flags: %HTW_CANCEL_DISCARD
 * @ring_tail: as &htw_cancel.ring_tail, for all timers (%HTW_FEATURE_RING_TAIL)
 * @reserved0: former name of @ring_tail
 * @count: out: timers for which HTW_CANCEL would have returned 0. Those that had expired
 *	and were not read are not counted, even if %HTW_CANCEL_DISCARD drops them
 * @reserved: must be zero
 *
 * Timers that other threads start during the call may remain.
 *
 * Errors: EINVAL; EFAULT, and if @count is not writable nothing has been cancelled; EINTR
 * if the process is being killed. Needs %HTW_FEATURE_ALL.
 */
struct htw_cancel_all {
	__u32 flags;
	union {
		__u32 ring_tail;
		__u32 reserved0;
	};
	__u64 count;
	__u64 reserved[2];
};

/**
 * enum htw_list_flag - bits of &htw_list.flags: states that HTW_LIST reports
 * @HTW_LIST_PENDING: armed; the default if no flag is set
 * @HTW_LIST_EXPIRED: expired and not read. Events in a ring count as read
 * @HTW_LIST_DISARMED: kept and disarmed, also by the timer's entry in the table
 */
enum htw_list_flag {
	HTW_LIST_PENDING	= 1 << 0,
	HTW_LIST_EXPIRED	= 1 << 1,
	HTW_LIST_DISARMED	= 1 << 2,
};

/**
 * struct htw_list - argument of HTW_LIST: report timers; and of HTW_HARVEST: remove and
 * report pending timers
 * @entries: address of an array of &struct htw_query
 * @cursor: zero for the first call, then as the previous call left it
 * @count: size of the array
 * @done: out: entries written; zero when there are no more
 * @flags: HTW_LIST: of &enum htw_list_flag (%HTW_FEATURE_LIST_STATES). HTW_HARVEST: must
 *	be zero
 * @ring_tail: HTW_HARVEST: as &htw_cancel.ring_tail, for all timers that were removed.
 *	HTW_LIST: must be zero (%HTW_FEATURE_RING_TAIL)
 * @reserved0: former name of @ring_tail
 * @reserved: must be zero
 *
 * A timer that stays in a requested state while the list is read is reported exactly
 * once, whatever happens to others. HTW_HARVEST ends the id of each timer that it
 * reports and leaves all others alone. A signal, or an entry that cannot be written, ends
 * the call early, with @done below @count.
 *
 * Errors: EINVAL, also for a cursor above U32_MAX; EFAULT if the argument is not
 * accessible or the first entry cannot be written; EINTR if the process is being killed;
 * ENOMEM (HTW_LIST). Needs %HTW_FEATURE_ALL.
 */
struct htw_list {
	__u64 entries;
	__u64 cursor;
	__u32 count;
	__u32 done;
	__u32 flags;
	union {
		__u32 ring_tail;
		__u32 reserved0;
	};
	__u64 reserved[2];
};

/**
 * struct htw_advance - argument of HTW_ADVANCE: move the manual clock forward
 * @ns: by how much; with %HTW_F_ABS, the time to move to
 * @expired: out: number of timers that expired
 * @flags: %HTW_F_ABS
 * @reserved0: must be zero
 * @reserved: must be zero
 *
 * The clock starts at zero and ends at 2^63 - 1. When the call returns, all timers that
 * are due have expired, in order, with the new time as &htw_event.fired; a periodic
 * timer's other firings on the way are counted as missed.
 *
 * Errors: EINVAL on another clock, for a time before the present or beyond the end, for an
 * unknown flag or a reserved field; EFAULT, and if @expired is not writable the clock has
 * not moved. A process that is killed may leave some due timers to the next call. Needs
 * %HTW_FEATURE_MANUAL.
 */
struct htw_advance {
	__u64 ns;
	__u64 expired;
	__u32 flags;
	__u32 reserved0;
	__u64 reserved;
};

/**
 * struct htw_next - argument of HTW_NEXT: report the pending timer that expires first
 * @timer: out: the timer
 * @flags: must be zero
 * @reserved0: must be zero
 * @reserved: must be zero
 *
 * Reports the pending timer with the earliest deadline. It expires at the first tick that
 * is not before its deadline. If several expire at that tick, any of them may be reported;
 * with slack, one that expires first although another deadline is earlier.
 *
 * The call looks at all timers of the context; on a private wheel or the manual clock,
 * without a table, usually at a few.
 *
 * Errors: ENOENT if no timer is pending; EINVAL; EFAULT; EINTR if the process is being
 * killed. Needs %HTW_FEATURE_NEXT.
 */
struct htw_next {
	struct htw_query timer;
	__u32 flags;
	__u32 reserved0;
	__u64 reserved;
};

/**
 * enum htw_ring_flag - bits of &htw_ring.flags
 * @HTW_RING_OVERFLOW: expirations are queued because the ring had no room. HTW_FLUSH moves
 *	them into the ring, poll() up to 512 of them
 */
enum htw_ring_flag {
	HTW_RING_OVERFLOW	= 1 << 0,
};

/**
 * struct htw_ring - header of the mapped ring of expirations; the events follow it
 * @tail: number of the next event; written by the kernel, with release semantics
 * @entries: events that the ring holds, a power of two; written by the kernel
 * @flags: of &enum htw_ring_flag; written by the kernel
 * @reserved0: zero
 * @head: number of the next event to be used; written by the program, with release
 *	semantics
 * @reserved1: zero
 *
 * Events are numbered modulo 2^32; number n is HTW_RING_EVENT(ring, entries, n). Those
 * from @head to @tail - 1 are ready to be used.
 *
 * HTW_SETUP with %HTW_SETUP_RING creates the ring. mmap() at offset %HTW_OFF_RING maps it,
 * MAP_SHARED and as a whole: HTW_RING_SIZE() bytes in whole pages. It fails with ENXIO
 * without a ring and with EINVAL for a private mapping or another length.
 *
 * While the ring is mapped, read() fails with EBUSY and expirations are written to the
 * ring, which counts as reading them: a one-shot timer's id has ended, a kept timer is
 * disarmed, a periodic timer is armed again. If there is no room, expirations are queued,
 * none is lost, and they reach the ring in order.
 *
 * fork() duplicates the mapping, as it does the descriptor. The ring counts as mapped until
 * every process that has it has unmapped it, called execve() or exited; until then read()
 * fails with EBUSY. A program that maps a ring and forks children that have no business
 * with it should use madvise(MADV_DONTFORK).
 *
 * The program may write anything to the ring. The kernel reads only @head, and ignores a
 * value that is not between @tail - @entries and @tail. Needs %HTW_FEATURE_RING.
 */
struct htw_ring {
	__u32 tail;
	__u32 entries;
	__u32 flags;
	__u32 reserved0[13];
	__u32 head;
	__u32 reserved1[15];
};

/** HTW_RING_SIZE() - bytes of a ring to map; mmap() rounds up to whole pages */
#define HTW_RING_SIZE(entries)						\
	(sizeof(struct htw_ring) + (entries) * sizeof(struct htw_event))

/**
 * HTW_RING_EVENT() - address of an event in the ring
 * @ring: the mapped &struct htw_ring
 * @entries: &htw_setup.ring_entries; do not read it from the ring
 * @n: number of the event
 */
#define HTW_RING_EVENT(ring, entries, n)				\
	((struct htw_event *)((struct htw_ring *)(ring) + 1) +		\
	 ((__u32)(n) & ((__u32)(entries) - 1)))

/** HTW_RING_PASSED() - true if @head has reached @position, a ring_tail that was reported */
#define HTW_RING_PASSED(head, position)					\
	((__s32)((__u32)(head) - (__u32)(position)) >= 0)

/** HTW_OFF_RING - mmap() offset of the ring of expirations */
#define HTW_OFF_RING		0x000000000ULL
/**
 * HTW_OFF_TABLE - mmap() offset of the table of deadlines
 *
 * The table has one __u64 for each slot, indexed by HTW_ID_SLOT(id): a deadline in ns on
 * the context's clock, zero for "as armed", or %HTW_DISARMED. Programs store to an entry
 * with one atomic 64-bit access; no barrier is needed.
 *
 * mmap() maps it, MAP_SHARED, with any length up to &htw_info.table_size (or
 * HTW_TABLE_SIZE() of the context's limit, in whole pages); else EINVAL. ENOMEM; EDQUOT
 * at the user's limit, where each page counts as 63 timers, after a wait of at most a
 * quarter of a second for descriptors that have been closed; EINTR if the process is
 * being killed. The offset needs a 64-bit off_t (_FILE_OFFSET_BITS=64 in 32-bit
 * programs). A page exists once it has timers: an access before HTW_ADD has returned an
 * id on it is SIGBUS. fork() duplicates the mapping.
 *
 * HTW_ADD, and HTW_MOD with %HTW_MOD_DEADLINE, write zero before they arm the timer. When
 * the deadline that the timer is armed for comes, the kernel reads the entry once:
 *
 * * a later deadline that is still ahead: the timer is armed for it
 * * a later deadline that has come as well: the timer expires, with that deadline
 * * %HTW_DISARMED: the timer is disarmed without an event; HTW_MOD arms it again
 * * zero, or no later deadline: the timer expires
 *
 * So a later deadline that is visible to other CPUs before the old one comes is always
 * honoured, an earlier one takes effect at the old one, and a store after the timer has
 * expired has no effect until it is armed again, by HTW_MOD (also with %HTW_MOD_UNREAD) or
 * because it is periodic. A periodic timer continues from the deadline that it was moved to.
 *
 * The first mmap() of the table enables it for the rest of the context's life. All timers
 * are then kept, as with %HTW_F_KEEP: a program may store to an entry at any time, so a
 * slot is reused only after HTW_CANCEL. Needs %HTW_FEATURE_TABLE.
 */
#define HTW_OFF_TABLE		0x100000000ULL

/**
 * HTW_TABLE_SIZE() - bytes of the table of deadlines for a number of timers
 * @timers: the number
 *
 * 63 timers take 64 slots. mmap() rounds up to whole pages.
 */
#define HTW_TABLE_SIZE(timers)		(((__u64)(timers) + 62) / 63 * 512)

/** HTW_DISARMED - entry of the table of deadlines of a timer that shall not expire */
#define HTW_DISARMED		(~0ULL)

/** HTW_ID_SLOT() - index of an id in the table of deadlines */
#define HTW_ID_SLOT(id)		((__u32)(id))

/** HTW_ID_IS_ERROR() - true if an entry of &htw_vector.ids is an error and not an id */
#define HTW_ID_IS_ERROR(id)		((__u64)(id) >= (__u64)-4095)

static __inline__ int __htw_id_error(__u64 id)
{
	return HTW_ID_IS_ERROR(id) ? (int)(__s64)id : 0;
}

/** HTW_ID_ERROR() - the negative errno in an entry of &htw_vector.ids; zero for an id */
#define HTW_ID_ERROR(id)		__htw_id_error(id)

/* Numbers 0xE7 00-1F are reserved for htw: docs/ioctl-number.rst. */
#define HTW_IOC			0xe7

#define HTW_SETUP		_IOW(HTW_IOC, 0x00, struct htw_setup)
#define HTW_INFO		_IOR(HTW_IOC, 0x01, struct htw_info)
#define HTW_ADD			_IOWR(HTW_IOC, 0x02, struct htw_add)
#define HTW_CANCEL		_IOWR(HTW_IOC, 0x03, struct htw_cancel)
#define HTW_MOD			_IOW(HTW_IOC, 0x04, struct htw_mod)
#define HTW_QUERY		_IOWR(HTW_IOC, 0x05, struct htw_query)
#define HTW_BATCH		_IOWR(HTW_IOC, 0x06, struct htw_batch)
#define HTW_CANCEL_ALL		_IOWR(HTW_IOC, 0x07, struct htw_cancel_all)
#define HTW_LIST		_IOWR(HTW_IOC, 0x08, struct htw_list)
#define HTW_HARVEST		_IOWR(HTW_IOC, 0x09, struct htw_list)
#define HTW_ADVANCE		_IOWR(HTW_IOC, 0x0a, struct htw_advance)
/*
 * HTW_FLUSH - move queued expirations into the mapped ring, as many as fit and at most
 * as many as the ring holds. No argument. Returns how many were moved; ENXIO if no ring is
 * mapped.
 */
#define HTW_FLUSH		_IO(HTW_IOC, 0x0b)
#define HTW_VECTOR		_IOWR(HTW_IOC, 0x0c, struct htw_vector)
#define HTW_NEXT		_IOWR(HTW_IOC, 0x0d, struct htw_next)

#endif /* _UAPI_LINUX_HTW_H */
