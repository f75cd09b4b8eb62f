/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * htw - millions of timeouts behind one file descriptor
 *
 * Every open() of /dev/htw is a context of its own: its timers, its queue of
 * expirations, its limit. Timers are started and stopped by ioctl; read()
 * returns an array of &struct htw_event, one for each expiration.
 *
 * All times are in nanoseconds of the context's clock (CLOCK_MONOTONIC unless
 * HTW_SETUP said otherwise). All structures have the same layout for 32- and
 * 64-bit programs and hold no padding. A bit in a flags field that is not
 * listed for it, or a reserved field that is not zero, fails with EINVAL; a
 * command that this kernel does not know fails with ENOTTY and touches nothing.
 * What this kernel does know is told by &htw_info.features.
 *
 * Stability: from release 0.1 on, no command number, structure size, offset, flag
 * or value changes, and no call that has succeeded fails. What is added has a bit in
 * &htw_info.features, and is a new command, a new flag, or a reserved field that gets
 * a meaning: as what goes in with a new flag only, as what comes out where a program
 * that knows nothing of it does not mind, and its old name stays beside the new one.
 * Nothing here depends on the page size.
 */
#ifndef _UAPI_LINUX_HTW_H
#define _UAPI_LINUX_HTW_H

#include <linux/ioctl.h>
#include <linux/types.h>

/** HTW_MAX_LEVELS - the most levels that a wheel can have */
#define HTW_MAX_LEVELS		8

/**
 * enum htw_feature - bits of &htw_info.features: what this kernel can do
 * @HTW_FEATURE_ADD: HTW_ADD, HTW_CANCEL, HTW_BATCH of both, HTW_INFO, read()
 *	and poll()
 * @HTW_FEATURE_KEEP: %HTW_F_KEEP
 * @HTW_FEATURE_FIRINGS: &htw_add.firings
 * @HTW_FEATURE_MOD: HTW_MOD, HTW_QUERY, and both in HTW_BATCH
 * @HTW_FEATURE_SLACK: &htw_add.slack and &htw_mod.slack
 * @HTW_FEATURE_ALL: HTW_CANCEL_ALL, HTW_LIST, HTW_HARVEST
 * @HTW_FEATURE_SETUP: HTW_SETUP, and the clocks and private wheels it gives
 * @HTW_FEATURE_MANUAL: %HTW_CLOCK_MANUAL and HTW_ADVANCE
 * @HTW_FEATURE_RING: the mapped ring of expirations and HTW_FLUSH
 * @HTW_FEATURE_TABLE: the mapped table of deadlines
 * @HTW_FEATURE_CANCEL_ON_SET: %HTW_F_CANCEL_ON_SET
 * @HTW_FEATURE_VECTOR: HTW_VECTOR
 * @HTW_FEATURE_RING_TAIL: &htw_cancel.ring_tail, &htw_vector.ring_tail,
 *	&htw_cancel_all.ring_tail and &htw_list.ring_tail
 * @HTW_FEATURE_NEXT: HTW_NEXT
 * @HTW_FEATURE_LIST_STATES: &enum htw_list_flag
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
};

/**
 * enum htw_flag - bits of &htw_add.flags, &htw_mod.flags and &htw_query.flags
 * @HTW_F_ABS: the deadline is a point in time of the context's clock; without
 *	it, it counts from now
 * @HTW_F_KEEP: the id survives its last expiration being read: the timer is
 *	then disarmed, still counts against the limit, and lives until
 *	HTW_CANCEL
 * @HTW_F_CANCEL_ON_SET: HTW_ADD only, with CLOCK_REALTIME: setting the clock
 *	expires the timer at once, with %HTW_EVENT_CLOCK_SET; EINVAL with other
 *	clocks (%HTW_FEATURE_CANCEL_ON_SET)
 * @HTW_MOD_DEADLINE: HTW_MOD only: set the deadline and arm
 * @HTW_MOD_INTERVAL: HTW_MOD only: set the interval and the firings
 * @HTW_MOD_COOKIE: HTW_MOD only: set the cookie
 * @HTW_MOD_SLACK: HTW_MOD only: set the slack
 */
enum htw_flag {
	HTW_F_ABS		= 1 << 0,
	HTW_F_KEEP		= 1 << 1,
	HTW_F_CANCEL_ON_SET	= 1 << 2,
	HTW_MOD_DEADLINE	= 1 << 8,
	HTW_MOD_INTERVAL	= 1 << 9,
	HTW_MOD_COOKIE		= 1 << 10,
	HTW_MOD_SLACK		= 1 << 11,
};

/**
 * struct htw_add - argument of HTW_ADD: starts a timer
 * @id: out: names the timer from now on; never zero
 * @deadline: when it expires, in ns: from now, or on the context's clock with
 *	%HTW_F_ABS. Zero or past: at once, whatever the tick is. A sum beyond
 *	U64_MAX counts as U64_MAX, which never comes; no clock reads more
 *	than 2^63 - 1, so no deadline above that comes
 * @interval: zero for a one-shot timer; else it expires again at deadline +
 *	k * interval, in ns. At least one tick
 * @slack: how much later than its deadline the timer may expire so that it can
 *	share a wake-up, in ns; must be zero without %HTW_FEATURE_SLACK
 * @cookie: handed back with each expiration, until HTW_MOD sets another
 * @flags: %HTW_F_ABS, %HTW_F_KEEP, %HTW_F_CANCEL_ON_SET
 * @firings: how often a periodic timer expires in all, missed ones included;
 *	zero for without end. Must be zero for a one-shot timer
 * @reserved: must be zero
 *
 * Errors: EINVAL for an unknown flag, a non-zero reserved field or an interval
 * below one tick; ENOSPC at the context's limit, which recovers as timers are
 * cancelled or read; EDQUOT at the user's; ENOMEM; EINTR where the process is
 * being killed; EFAULT where the argument cannot be read or the id not be written.
 * No timer is left behind by a call that failed.
 *
 * A timer expires at the first tick of its wheel that is not before its deadline,
 * or at once where that had come when it was set. Timers of one tick that were
 * armed on one CPU expire in the order in which they were armed, whichever calls did
 * that, and whatever state they were in before; on a private wheel or the manual clock
 * always. Where a deadline has come within the present tick when it is set, others that
 * came within that tick as well go with it, and before it; but on the manual clock they
 * wait for the end of the tick, as for any deadline, and it does not.
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
 * @HTW_CANCEL_DISCARD: where the timer expired and waits to be read, drop that
 *	expiration as well
 */
enum htw_cancel_flag {
	HTW_CANCEL_DISCARD	= 1 << 0,
};

/**
 * struct htw_cancel - argument of HTW_CANCEL: stops a timer and ends its id
 * @id: the timer
 * @remaining: out: ns from now to the deadline it was armed for; zero where
 *	that had passed or it was disarmed, also by its word in the table
 * @cookie: out: the timer's cookie
 * @missed: out: with EALREADY, firings of a periodic timer that came due since
 *	the one that waits to be read
 * @flags: %HTW_CANCEL_DISCARD
 * @ring_tail: out: with a ring, how far events of the id may stand in it: none has
 *	this number or a later one, counted as &htw_ring.tail, and what it was on
 *	entry does not matter (%HTW_FEATURE_RING_TAIL). Without a ring it is
 *	reserved: zero, and must be
 * @reserved0: another name for @ring_tail
 * @reserved: must be zero
 *
 * Returns 0 where the timer was pending, or kept and disarmed: its id has ended,
 * and no expiration of it will be read that was not pushed into a ring before.
 *
 * EALREADY where it expired and waits to be read: that expiration stays readable
 * as the id's last one, without %HTW_EVENT_MORE, and the id ends when it has been
 * read. Until then HTW_QUERY finds it expired, HTW_MOD says ENOENT and HTW_CANCEL
 * says EALREADY again. With %HTW_CANCEL_DISCARD the expiration is dropped and the
 * id has ended, also where it had been cancelled before.
 *
 * The out fields are written in both cases. ENOENT for an id that is unknown,
 * stale, or was read already; EINVAL; EFAULT, where an argument that cannot be
 * written does not undo the cancel.
 *
 * When may memory be freed that the cookie points to? With read(), once the call has
 * returned 0, or dropped the expiration, and no thread handles an event of the id
 * that it has read before. With a ring, once &htw_ring.head has come to @ring_tail
 * as well (%HTW_RING_PASSED): events of timers that are periodic or kept, as all are
 * with a table, may stand there that were pushed before the call.
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
 * struct htw_mod - argument of HTW_MOD: changes a timer, whatever state it is in
 * @id: the timer
 * @deadline: as &htw_add.deadline; used with %HTW_MOD_DEADLINE
 * @interval: as &htw_add.interval; used with %HTW_MOD_INTERVAL
 * @slack: as &htw_add.slack; used with %HTW_MOD_SLACK
 * @cookie: used with %HTW_MOD_COOKIE
 * @flags: %HTW_F_ABS and at least one of the HTW_MOD bits
 * @firings: as &htw_add.firings; used with %HTW_MOD_INTERVAL
 * @reserved: must be zero
 *
 * Fields that are not used must be zero, and %HTW_F_ABS is EINVAL without
 * %HTW_MOD_DEADLINE. A new deadline takes back an expiration that waits to be
 * read, which then does not count as a firing, and counts from the clock as it is set
 * now. Without one an expiration that waits stays, and what is set holds for it: the
 * cookie, and an interval and firings, of which it is the first.
 * %HTW_F_KEEP and %HTW_F_CANCEL_ON_SET stay as HTW_ADD was given them.
 *
 * Errors: EINVAL; EFAULT; ENOENT for an id that has ended, or was cancelled while
 * its last expiration waits. Needs %HTW_FEATURE_MOD.
 *
 * Events that are in a ring already keep the cookie that they were pushed with: they
 * are before the &htw_ring.tail that is read after the call.
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
 * enum htw_state - what &htw_query.state says
 * @HTW_STATE_PENDING: armed
 * @HTW_STATE_EXPIRED: expired and waits to be read
 * @HTW_STATE_DISARMED: kept, and not armed
 */
enum htw_state {
	HTW_STATE_PENDING	= 1,
	HTW_STATE_EXPIRED	= 2,
	HTW_STATE_DISARMED	= 3,
};

/**
 * struct htw_query - argument of HTW_QUERY, and what HTW_LIST, HTW_HARVEST and
 * HTW_NEXT tell of a timer
 * @id: the timer; in for HTW_QUERY, out for the others. The fields below are
 *	out, and must be zero in HTW_QUERY
 * @deadline: when it expires or expired, on the context's clock, in ns
 * @remaining: ns to the deadline; zero where it has passed or the timer is
 *	disarmed, also by its word in the table
 * @interval: zero for a one-shot timer
 * @cookie: the timer's cookie
 * @missed: firings that came due since the one that waits to be read
 * @firings: how many firings are left, the one that waits to be read and those
 *	@missed included; zero for without end. A kept timer that has had all of
 *	them is a disarmed one-shot timer
 * @state: one of &enum htw_state
 * @flags: %HTW_F_KEEP, %HTW_F_CANCEL_ON_SET as it was started
 *
 * HTW_QUERY: ENOENT for an id that is unknown, stale, or was read already; EINVAL;
 * EFAULT. Needs %HTW_FEATURE_MOD.
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
 * enum htw_op_code - values of &htw_op.op
 * @HTW_OP_ADD: as HTW_ADD with &htw_op.add
 * @HTW_OP_CANCEL: as HTW_CANCEL with &htw_op.cancel
 * @HTW_OP_MOD: as HTW_MOD with &htw_op.mod (%HTW_FEATURE_MOD)
 * @HTW_OP_QUERY: as HTW_QUERY with &htw_op.query (%HTW_FEATURE_MOD)
 */
enum htw_op_code {
	HTW_OP_ADD		= 1,
	HTW_OP_CANCEL		= 2,
	HTW_OP_MOD		= 3,
	HTW_OP_QUERY		= 4,
};

/**
 * struct htw_op - one operation of a HTW_BATCH
 * @op: one of &enum htw_op_code; another value gives the entry EINVAL
 * @reserved: must be zero
 * @result: out: 0, or what the single call would have failed with, negative
 *	(-ENOSPC, -EALREADY, ...)
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
 * struct htw_batch - argument of HTW_BATCH: many operations in one call
 * @ops: address of an array of &struct htw_op
 * @count: how many operations the array holds
 * @done: out: how many were carried out, in order, and have their result
 *	written
 * @flags: must be zero
 * @reserved0: must be zero
 * @reserved: must be zero
 *
 * A batch means its operations one by one: each finds what those before it have done,
 * and timers come in the order in which it armed them. On the manual clock what one
 * makes due has expired for the next; on others it has not before the batch, or that
 * part of it, is over.
 *
 * An operation that fails says so in its own result and does not end the
 * batch. Returns 0 with @done below @count where a signal, or an address that
 * cannot be accessed, cut the batch short: go on with ops + done. Fails with
 * EFAULT where that left nothing done. Operations are carried out some at a
 * time: where a result cannot be written, that operation and some that follow
 * it may have been carried out, though @done does not count them.
 * EINVAL for flags and reserved fields; ENOMEM.
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
 * @ids: address of an array of __u64: the timers. Written by %HTW_OP_ADD; by the
 *	others only where an operation fails
 * @deadlines: address of an array of __u64, as &htw_add.deadline; zero where
 *	@op and @flags do not take deadlines
 * @cookies: address of an array of __u64, as &htw_add.cookie; zero where @op and
 *	@flags do not take cookies, or where all are zero
 * @interval: as &htw_add.interval or &htw_mod.interval, of all of them
 * @slack: as &htw_add.slack or &htw_mod.slack, of all of them
 * @count: how many entries the arrays hold
 * @done: out: how many were carried out, in order
 * @failed: out: how many of those failed
 * @flags: as &htw_add.flags, &htw_cancel.flags or &htw_mod.flags
 * @firings: as &htw_add.firings or &htw_mod.firings, of all of them
 * @op: %HTW_OP_ADD, %HTW_OP_CANCEL or %HTW_OP_MOD
 * @reserved0: must be zero
 * @ring_tail: as &htw_cancel.ring_tail, for all that were cancelled, with
 *	%HTW_OP_CANCEL; must be zero with the others (%HTW_FEATURE_RING_TAIL)
 * @reserved: another name for @ring_tail
 *
 * What HTW_BATCH does, at less of a cost, where operations differ in no more
 * than id, deadline and cookie. One that fails does not end the vector: in place
 * of its id stands what it would have failed with, negative (-ENOSPC, -ENOENT,
 * -EALREADY, ...; no id looks like that: HTW_ID_IS_ERROR()). So if @failed is zero there is nothing
 * to look at. A cancel tells neither cookie nor time left.
 *
 * Returns 0 with @done below @count where a signal, or an address that cannot
 * be accessed, cut it short: go on behind @done in each array. Fails with EFAULT
 * where that left nothing done. An add that is not counted has not happened. Of
 * the others, where a failure cannot be written, that one and some that follow it
 * may have been carried out, though @done does not count them.
 *
 * EINVAL for what would be invalid for each of them, for an array that is needed
 * and zero (with @count zero none is), and for one that is not needed.
 * ENOMEM. Needs %HTW_FEATURE_VECTOR.
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
 * @HTW_EVENT_MORE: the id lives on: the timer is periodic and armed again, or
 *	kept. Without it this was the id's last expiration
 * @HTW_EVENT_CLOCK_SET: CLOCK_REALTIME was set since a timer with
 *	%HTW_F_CANCEL_ON_SET was armed, and expired it if nothing else had
 */
enum htw_event_flag {
	HTW_EVENT_MORE		= 1 << 0,
	HTW_EVENT_CLOCK_SET	= 1 << 1,
};

/**
 * struct htw_event - one expiration, as read() returns it
 * @id: the timer
 * @cookie: what HTW_ADD, or the last HTW_MOD with %HTW_MOD_COOKIE, was given
 * @deadline: the deadline that came, on the context's clock, in ns
 * @fired: when htw saw that it had come, in ns; never before @deadline, but
 *	where %HTW_EVENT_CLOCK_SET says why. Such an event of a periodic timer
 *	is no firing: @deadline is still to come. On a manual clock the time that
 *	it was moved to, however far behind that the deadline was
 * @missed: further firings of a periodic timer that came due before this one
 *	was read; they get no event of their own. To the ns: one counts once its
 *	time has come, though as an expiration it would have waited for its tick
 * @flags: of &enum htw_event_flag
 * @reserved: zero
 *
 * read() returns as many whole events as fit, in the order the timers fired.
 * It fails with EINVAL for a buffer too small for one event, EAGAIN where none
 * waits and O_NONBLOCK is set, EINTR, EBUSY while a ring is mapped, and EFAULT.
 * Events that could not be copied out stay readable. What follows the events that it
 * returned in the buffer may have been overwritten.
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
 * @HTW_SETUP_CLOCK: take &htw_setup.clock
 * @HTW_SETUP_PRIVATE: a wheel of this context's own, with &htw_setup.tick_ns,
 *	&htw_setup.levels and &htw_setup.slots
 * @HTW_SETUP_LIMIT: take &htw_setup.limit
 * @HTW_SETUP_HOME: take &htw_setup.home_cpu
 * @HTW_SETUP_RING: take &htw_setup.ring_entries
 */
enum htw_setup_flag {
	HTW_SETUP_CLOCK		= 1 << 0,
	HTW_SETUP_PRIVATE	= 1 << 1,
	HTW_SETUP_LIMIT		= 1 << 2,
	HTW_SETUP_HOME		= 1 << 3,
	HTW_SETUP_RING		= 1 << 4,
};

/** HTW_CLOCK_MANUAL - a clock that stands still but for HTW_ADVANCE */
#define HTW_CLOCK_MANUAL	0x68747700

/**
 * struct htw_setup - argument of HTW_SETUP: shapes a context before its first timer
 * @flags: of &enum htw_setup_flag: which of the fields below count; the
 *	others must be zero
 * @clock: CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME or %HTW_CLOCK_MANUAL
 * @tick_ns: the private wheel's tick, from 10 us to 1 s; on the manual clock from
 *	1 ns
 * @limit: how many timers this context may hold, at least one and at most the
 *	module's own limit
 * @home_cpu: the CPU that all of this context's timers wait on
 * @levels: how many of @slots count, from 1 to %HTW_MAX_LEVELS
 * @slots: slots of each level, finest first: from 2 to 2048, and their product at most
 *	2^61
 * @ring_entries: how many events the ring of expirations holds, a power of two up
 *	to 2^20
 * @reserved0: must be zero
 * @reserved: must be zero
 *
 * The manual clock without %HTW_SETUP_PRIVATE has the module's tick and geometry. With
 * @flags zero nothing happens, and the context can still be shaped.
 *
 * Needs %HTW_FEATURE_SETUP. Errors, one of them where several apply:
 *
 * * EFAULT: the argument cannot be read
 * * EINVAL: a flag that is not known; a reserved field, or one that does not count, is
 *   not zero; a slot beyond @levels is not zero; @ring_entries is no power of two; a home
 *   CPU together with a private wheel or the manual clock; a CPU that is not online
 * * EOPNOTSUPP: a clock that timers cannot be on (CLOCK_TAI, CLOCK_REALTIME_ALARM, ...)
 * * ERANGE: @tick_ns, @limit, @levels, @slots or @ring_entries are zero, or not within the
 *   limits that are said above
 * * EPERM: without CAP_SYS_RESOURCE, a private wheel with a tick below 100 us, but for the
 *   manual clock, or with more than 4096 slots in all; or a 17th one of that user, counting
 *   those of manual clocks
 * * EBUSY: the context has had a timer, or was shaped before
 * * EDQUOT: the user's limit has no room for the ring, which counts as a timer an entry
 * * ENOMEM
 *
 * No shape is left behind by a call that failed.
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
 * struct htw_info - argument of HTW_INFO; all of it is out
 * @features: of &enum htw_feature
 * @tick_ns: the tick of the wheels that this context's timers wait in
 * @limit: how many timers this context may hold
 * @timers: how many it holds: pending, expired and not read, kept
 * @expired: how many of them expired and wait to be read. What is in a ring has
 *	been read, as far as this goes
 * @clock: the context's clock
 * @home_cpu: -1 where timers wait on the CPU that started them
 * @flags: of &enum htw_setup_flag: what HTW_SETUP was asked for
 * @levels: how many of @slots count
 * @slots: slots of each level, finest first
 * @ring_entries: zero without a ring
 * @reserved0: zero
 * @table_size: the most bytes of the table of deadlines that can be mapped: a __u64 for
 *	each slot that timers may ever have. Zero where this kernel does not say
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
 * struct htw_cancel_all - argument of HTW_CANCEL_ALL: ends every id
 * @flags: %HTW_CANCEL_DISCARD
 * @ring_tail: as &htw_cancel.ring_tail, for all of them (%HTW_FEATURE_RING_TAIL)
 * @reserved0: another name for @ring_tail
 * @count: out: for how many HTW_CANCEL would have returned 0: they were pending, or
 *	kept and disarmed. Not counted are those that had expired and were not
 *	read, kept or not, though with %HTW_CANCEL_DISCARD they are dropped
 * @reserved: must be zero
 *
 * Timers that others start meanwhile may be left. Errors: EINVAL; EFAULT, where nothing
 * was cancelled if @count cannot be written at all; EINTR where the process is being killed.
 * Needs %HTW_FEATURE_ALL.
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
 * enum htw_list_flag - bits of &htw_list.flags: which timers HTW_LIST tells
 * @HTW_LIST_PENDING: those that are pending; as without any flag
 * @HTW_LIST_EXPIRED: those that expired and were not read. What is in a ring has been
 *	read
 * @HTW_LIST_DISARMED: those that are kept and disarmed, also by their word in the table
 */
enum htw_list_flag {
	HTW_LIST_PENDING	= 1 << 0,
	HTW_LIST_EXPIRED	= 1 << 1,
	HTW_LIST_DISARMED	= 1 << 2,
};

/**
 * struct htw_list - argument of HTW_LIST and HTW_HARVEST
 * @entries: address of an array of &struct htw_query
 * @cursor: where to go on; zero to begin, then as the last call left it
 * @count: how many entries the array has room for
 * @done: out: how many were written; zero at the end
 * @flags: of &enum htw_list_flag, with %HTW_FEATURE_LIST_STATES; zero for
 *	HTW_HARVEST
 * @ring_tail: as &htw_cancel.ring_tail, for all that were taken out, with
 *	HTW_HARVEST; must be zero with HTW_LIST (%HTW_FEATURE_RING_TAIL)
 * @reserved0: another name for @ring_tail
 * @reserved: must be zero
 *
 * HTW_LIST tells what is pending, or what @flags say; a timer that is so throughout is
 * told once. HTW_HARVEST takes what is pending out as well: what it told is stopped and
 * its id has ended, what it could not tell was never touched. With a signal, or where
 * entries cannot be written, they return with what they have told.
 *
 * Errors: EINVAL, also for a cursor above U32_MAX; EFAULT where the first entry cannot be
 * written; EINTR where the process is being killed; ENOMEM. Needs %HTW_FEATURE_ALL.
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
 * struct htw_advance - argument of HTW_ADVANCE: moves a manual clock forward
 * @ns: by how much; to which time with %HTW_F_ABS
 * @expired: out: how many timers expired
 * @flags: %HTW_F_ABS
 * @reserved0: must be zero
 * @reserved: must be zero
 *
 * The clock begins at zero and ends at 2^63 - 1: deadlines above that can be set, and
 * never come. All that is due then has expired when the call returns, with the time
 * that the clock was moved to as &htw_event.fired. Moving it by zero does nothing.
 *
 * Errors: EINVAL on another clock, for a time before the present or beyond the clock's
 * end, for an unknown flag or a reserved field; EFAULT, where nothing has happened if
 * @expired cannot be written at all. A process that is killed may leave some of what is
 * due to the next call. Needs %HTW_FEATURE_MANUAL.
 */
struct htw_advance {
	__u64 ns;
	__u64 expired;
	__u32 flags;
	__u32 reserved0;
	__u64 reserved;
};

/**
 * struct htw_next - argument of HTW_NEXT: which timer expires first?
 * @timer: out: the timer, with its deadline and how long that is from now
 * @flags: must be zero
 * @reserved0: must be zero
 * @reserved: must be zero
 *
 * Of the timers that are pending, the one with the first deadline: it expires at the first
 * tick that is not before that, and nothing earlier. Of several that expire at one tick it
 * may be any, and with slack one that expires first though its deadline is not the first.
 *
 * It looks at all timers of the context; on a private wheel or the manual clock, and
 * without a table, mostly at few.
 *
 * Errors: ENOENT where none is pending; what has expired and waits to be read is not.
 * EINVAL; EFAULT; EINTR where the process is being killed. Needs %HTW_FEATURE_NEXT.
 */
struct htw_next {
	struct htw_query timer;
	__u32 flags;
	__u32 reserved0;
	__u64 reserved;
};

/**
 * enum htw_ring_flag - bits of &htw_ring.flags
 * @HTW_RING_OVERFLOW: expirations wait in the queue for room in the ring: once
 *	there is some, poll() and HTW_FLUSH move them
 */
enum htw_ring_flag {
	HTW_RING_OVERFLOW	= 1 << 0,
};

/**
 * struct htw_ring - head of the mapped ring; the events follow it
 * @tail: written by the kernel, after the events before it (release)
 * @entries: how many events the ring holds, a power of two
 * @flags: of &enum htw_ring_flag, written by the kernel
 * @reserved0: zero
 * @head: written by the program, after it has used the events before it
 *	(release)
 * @reserved1: zero
 *
 * Event number n, counted modulo 2^32, is entry n & (entries - 1) of the array
 * of &struct htw_event that starts where this structure ends, HTW_RING_EVENT(); the
 * events from @head to @tail - 1 are there to be used.
 *
 * HTW_SETUP with %HTW_SETUP_RING makes the ring. It is mapped at offset
 * %HTW_OFF_RING, shared, all of it: HTW_RING_SIZE() bytes, these 128 and the events, in
 * whole pages. ENXIO without a ring, EINVAL for another length. While it is mapped,
 * read() is EBUSY and an expiration is pushed here, which counts as read: a
 * one-shot timer's id has ended then, a kept timer is disarmed, a periodic one
 * is armed again. What does not fit waits to be read, and follows in order.
 *
 * It is mapped as long as any process has any of it mapped, and a child of a fork() has
 * what its parent had: read() stays EBUSY until the last of them has unmapped it or ended,
 * or called execve(). A program whose children have no business with it calls
 * madvise(MADV_DONTFORK) for the mapping.
 *
 * The kernel does not read from these pages but for @head, and where that cannot
 * be it goes on with the last one that could. Needs %HTW_FEATURE_RING.
 */
struct htw_ring {
	__u32 tail;
	__u32 entries;
	__u32 flags;
	__u32 reserved0[13];
	__u32 head;
	__u32 reserved1[15];
};

/** HTW_RING_SIZE() - how many bytes of a ring are mapped; mmap() rounds up to pages */
#define HTW_RING_SIZE(entries)						\
	(sizeof(struct htw_ring) + (entries) * sizeof(struct htw_event))

/**
 * HTW_RING_EVENT() - the place of an event
 * @ring: the mapped &struct htw_ring
 * @entries: how many events it holds, as HTW_SETUP was told
 * @n: the event's number
 */
#define HTW_RING_EVENT(ring, entries, n)				\
	((struct htw_event *)((struct htw_ring *)(ring) + 1) +		\
	 ((__u32)(n) & ((__u32)(entries) - 1)))

/** HTW_RING_PASSED() - has the head come to a position, as &htw_cancel.ring_tail is? */
#define HTW_RING_PASSED(head, position)					\
	((__s32)((__u32)(head) - (__u32)(position)) >= 0)

/** HTW_OFF_RING - mmap() offset of the ring of expirations */
#define HTW_OFF_RING		0x000000000ULL
/**
 * HTW_OFF_TABLE - mmap() offset of the table of deadlines
 *
 * One __u64 for each slot, indexed by HTW_ID_SLOT(id): the deadline on the
 * context's clock in ns, zero for as armed, %HTW_DISARMED. Mapped shared, in
 * any length up to what the context's limit needs, &htw_info.table_size or
 * HTW_TABLE_SIZE(), in whole pages; else EINVAL. A page is there once there are timers
 * on it: before HTW_ADD has returned an id of it, to touch it is SIGBUS. Needs
 * %HTW_FEATURE_TABLE.
 *
 * The program stores, atomically, a word at a time. HTW_ADD, and HTW_MOD with
 * %HTW_MOD_DEADLINE, write zero before the timer is armed. When the deadline
 * that the timer is armed for comes, the kernel looks at the word, once. A later
 * deadline moves the timer there, and then counts as what it is armed for.
 * %HTW_DISARMED disarms it; HTW_MOD arms it again. Otherwise it expires: an
 * earlier deadline so takes effect at the old one, and what is stored after the
 * look does nothing until the timer is armed again, by HTW_MOD or as it is
 * periodic. A store that another CPU could see before the old deadline is
 * honoured. A periodic timer goes on from the deadline that it was moved to.
 *
 * HTW_QUERY, HTW_LIST, HTW_HARVEST and HTW_CANCEL tell of an armed timer what its
 * word says: the later deadline, or that it is disarmed.
 *
 * The first mmap() turns the table on for as long as the context lives, for all
 * its timers. They then are as if %HTW_F_KEEP were set: as the program may store to
 * a slot at any time, no other timer gets it before HTW_CANCEL.
 */
#define HTW_OFF_TABLE		0x100000000ULL

/**
 * HTW_TABLE_SIZE() - bytes of the table of deadlines that so many timers need
 * @timers: how many
 *
 * A __u64 for each of 64 slots that hold 63 of them. mmap() rounds up to pages.
 */
#define HTW_TABLE_SIZE(timers)		(((__u64)(timers) + 62) / 63 * 512)

/** HTW_DISARMED - in the table of deadlines: do not expire */
#define HTW_DISARMED		(~0ULL)

/** HTW_ID_SLOT() - an id's place in the table of deadlines */
#define HTW_ID_SLOT(id)		((__u32)(id))

/** HTW_ID_IS_ERROR() - does what HTW_VECTOR has written say that an operation failed? */
#define HTW_ID_IS_ERROR(id)		((__u64)(id) >= (__u64)-4095)

static __inline__ int __htw_id_error(__u64 id)
{
	return HTW_ID_IS_ERROR(id) ? (int)(__s64)id : 0;
}

/** HTW_ID_ERROR() - and with what: a negative errno, as -ENOENT; else zero */
#define HTW_ID_ERROR(id)		__htw_id_error(id)

/* Of ioctl numbers 0xE7 00-1F is htw's: see docs/ioctl-number.rst. */
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
 * HTW_FLUSH - moves what waits to be read into the mapped ring; no argument.
 * Returns how many were moved: as many as there is room for. ENXIO where no ring
 * is mapped.
 */
#define HTW_FLUSH		_IO(HTW_IOC, 0x0b)
#define HTW_VECTOR		_IOWR(HTW_IOC, 0x0c, struct htw_vector)
#define HTW_NEXT		_IOWR(HTW_IOC, 0x0d, struct htw_next)

#endif /* _UAPI_LINUX_HTW_H */
