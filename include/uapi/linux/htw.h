/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * htw - millions of timeouts behind one file descriptor
 *
 * Each open() of /dev/htw creates a context: a set of timers and a limit. ioctls start,
 * change and stop timers; read() takes the events of those that are due, as an array of
 * &struct htw_event.
 *
 * Rules for all commands:
 *
 * - All times are nanoseconds on the context's clock, CLOCK_MONOTONIC unless HTW_SETUP
 *   chose another one, as the calling process sees it: in a time namespace with that
 *   one's offsets.
 * - A flag that is not listed for its field fails with EINVAL, as does a field that is
 *   not zero although the call ignores it. Fields that are marked "out" may hold anything
 *   on entry. An unknown command fails with ENOTTY and does not touch its argument.
 *   Unless a structure says otherwise, EFAULT means that the argument could not be read
 *   or written, and that nothing was changed.
 * - What changes something, HTW_ADVANCE, HTW_CANCEL_ALL and HTW_HARVEST among it, needs
 *   a descriptor that was opened for writing; read() and what reports need one that was
 *   opened for reading. Else EBADF. read() takes events away, all the same.
 * - Structures have the same layout for 32- and 64-bit programs, without padding.
 *
 * Stability: from release 0.1 on, command numbers, offsets, flags and values do not
 * change, and a call that succeeds keeps succeeding. Additions come as new commands, new
 * flags, or new fields at the end of a structure, whose size is part of the command's
 * number. A kernel takes a structure that is larger than the one it knows if all beyond
 * that is zero, else E2BIG; where it only writes, it writes zeros there. The size of an
 * event is the one that HTW_SETUP was given, or that of the first version for ever.
 */
#ifndef _UAPI_LINUX_HTW_H
#define _UAPI_LINUX_HTW_H

#include <linux/ioctl.h>
#include <linux/types.h>

/** HTW_MAX_LEVELS - maximum number of levels of a wheel */
#define HTW_MAX_LEVELS		8

/**
 * enum htw_feature - bits of &htw_info_args.features
 * @HTW_FEATURE_FIRST: everything in this file that names no other feature
 * @HTW_FEATURE_URING: commands of io_uring, &struct htw_uring_args
 */
enum htw_feature {
	HTW_FEATURE_FIRST	= 1 << 0,
	HTW_FEATURE_URING	= 1 << 1,
};

/**
 * enum htw_flag - bits of &htw_add_args.flags, &htw_mod_args.flags and
 * &htw_timer_info.flags
 * @HTW_F_ABS: @deadline is a time on the context's clock; without it, ns from now
 * @HTW_F_KEEP: HTW_ADD only: the id survives its last event. The timer is then disarmed,
 *	still counts against the limits, and exists until HTW_CANCEL
 * @HTW_MOD_DEADLINE: HTW_MOD only: set the deadline and arm the timer
 * @HTW_MOD_INTERVAL: HTW_MOD only: set interval and firings
 * @HTW_MOD_COOKIE: HTW_MOD only: set the cookie
 * @HTW_MOD_SLACK: HTW_MOD only: set the slack
 */
enum htw_flag {
	HTW_F_ABS		= 1 << 0,
	HTW_F_KEEP		= 1 << 1,
	HTW_MOD_DEADLINE	= 1 << 8,
	HTW_MOD_INTERVAL	= 1 << 9,
	HTW_MOD_COOKIE		= 1 << 10,
	HTW_MOD_SLACK		= 1 << 11,
};

/**
 * enum htw_state - what a timer is doing: &htw_timer_info.state, &htw_cancel_args.state
 * and &htw_mod_args.state
 * @HTW_STATE_PENDING: armed, and not due
 * @HTW_STATE_DUE: due, and its event has not been taken
 * @HTW_STATE_DISARMED: exists (%HTW_F_KEEP), and is not armed
 *
 * A timer is due when its tick has come, or when its deadline had come as it was armed.
 */
enum htw_state {
	HTW_STATE_PENDING	= 1,
	HTW_STATE_DUE		= 2,
	HTW_STATE_DISARMED	= 3,
};

/**
 * struct htw_add_args - argument of HTW_ADD: start a timer
 * @id: out: identifies the timer in the other calls; never zero, never reused, never a
 *	number for which HTW_ID_IS_ERROR() is true
 * @deadline: ns from now, or a time on the clock with %HTW_F_ABS. Zero or past: due at
 *	once. A sum above U64_MAX is capped there. Clocks end at 2^63 - 1, so a later
 *	deadline never comes, nor does one in the tick that is not complete by then
 * @interval: period in ns: the timer fires at deadline + k * interval. Less than a tick
 *	is rounded up to one. Zero for a one-shot timer
 * @slack: how much later than @deadline the timer may fire to share a wakeup with
 *	others, in ns; rounded down to 26 significant bits. Never makes it early. Of the times
 *	from @deadline to @deadline + @slack the one that ends in most zero bits is chosen, and
 *	rounded up to a tick, or down if that would be later than @deadline + @slack,
 *	whatever other timers there are; so those of a user meet, of whatever context, CPU
 *	and tick. Each user has it earlier by another part of @slack, below
 *	an eighth, but not on the manual clock. Less than a tick has no effect. A periodic
 *	timer's next deadline does not depend on it
 * @cookie: returned with each event; HTW_MOD can change it
 * @flags: %HTW_F_ABS, %HTW_F_KEEP
 * @firings: number of firings of a periodic timer, missed ones included; zero for no
 *	limit. Must be zero for a one-shot timer
 *
 * A timer is due at the first tick that is not before its deadline. One whose deadline
 * has come when it is armed is due at once and does not wait for a tick. Timers that wait
 * for the end of the current tick, and whose deadline has come as well, are then due
 * before it. No more than 32 are looked at: if there are more, the new timer waits with
 * them, and so may others that are armed by the same call. On the manual clock the new
 * timer does not wait, as a program may not advance that clock before it has the event.
 * Nor does a timer wait whose deadline came before the current tick began; those that
 * wait for the end of the tick are then not due any earlier.
 *
 * Events of timers that are due at the same tick and were armed on the same CPU come in
 * the order in which they were armed; with %HTW_SETUP_ORDERED or on the manual clock
 * always.
 *
 * Errors:
 *
 * * EINVAL: an unknown flag; @firings without @interval
 * * ENOSPC: the context holds as many timers as its limit allows. Pending, due and kept
 *   timers count; cancelling and reading make room. Or no id is left, after 2^48 adds
 * * EDQUOT: there is no free timer, and no room for more in the module's max_user_timers.
 *   Memory counts: a page of timers counts for all of them, used or not, until it is
 *   given back
 * * ENOMEM: no memory, or the cgroup's limit is reached
 * * EINTR: the process is being killed
 * * EFAULT: the argument could not be read, or @id could not be written
 *
 * A call that fails starts no timer.
 */
struct htw_add_args {
	__u64 id;
	__u64 deadline;
	__u64 interval;
	__u64 slack;
	__u64 cookie;
	__u32 flags;
	__u32 firings;
};

/**
 * struct htw_cancel_args - argument of HTW_CANCEL: stop a timer and end its id
 * @id: the timer
 * @remaining: out: ns from now to the deadline; zero if that has passed or the timer was
 *	disarmed
 * @cookie: out: the timer's cookie
 * @missed: out: further firings of a periodic timer that was due
 * @flags: must be zero
 * @state: out: of &enum htw_state: what the timer was doing
 *
 * A timer is pending until its event is taken. Once the call has returned 0, the id has
 * ended and no further event comes, also if the timer was due: of a one-shot timer there
 * was none, and its cookie is the caller's. After ENOENT it is the reader's. An earlier
 * event of a periodic or kept timer may still be in a reader's hands.
 *
 * Errors: ENOENT: the id is unknown or stale, or its last event has been taken; EINVAL: an
 * unknown flag; EFAULT: the argument could not be read; or it could not be written, and
 * the timer has been cancelled.
 */
struct htw_cancel_args {
	__u64 id;
	__u64 remaining;
	__u64 cookie;
	__u64 missed;
	__u32 flags;
	__u32 state;
};

/**
 * struct htw_mod_args - argument of HTW_MOD: change a timer in any state
 * @id: the timer
 * @deadline: as &htw_add_args.deadline, with %HTW_MOD_DEADLINE; else must be zero
 * @interval: as &htw_add_args.interval, with %HTW_MOD_INTERVAL; else must be zero
 * @slack: as &htw_add_args.slack, with %HTW_MOD_SLACK; else must be zero
 * @cookie: with %HTW_MOD_COOKIE; else must be zero
 * @flags: at least one of the HTW_MOD_ bits; %HTW_F_ABS only with %HTW_MOD_DEADLINE
 * @firings: as &htw_add_args.firings, with %HTW_MOD_INTERVAL; else must be zero
 * @state: out: of &enum htw_state: what the timer was doing before
 * @reserved: must be zero
 *
 * %HTW_MOD_DEADLINE arms the timer, whatever its state. If it was due, no event comes for
 * that, and it does not count as a firing. Without it a timer that is due stays so, and
 * its event has the new cookie; it is the first of the new firings, which count from its
 * deadline: those whose time has come are missed. Slack takes effect when the timer is
 * armed next. %HTW_F_KEEP cannot be changed.
 *
 * Errors: EINVAL for flags and fields other than above, and for what HTW_ADD would refuse;
 * ENOENT as HTW_CANCEL; EFAULT: the argument could not be read; or it could not be
 * written, and the timer has been changed.
 */
struct htw_mod_args {
	__u64 id;
	__u64 deadline;
	__u64 interval;
	__u64 slack;
	__u64 cookie;
	__u32 flags;
	__u32 firings;
	__u32 state;
	__u32 reserved;
};

/**
 * struct htw_timer_info - argument of HTW_QUERY, and an entry of HTW_LIST and
 * HTW_HARVEST: a timer as it is
 * @id: the timer: in for HTW_QUERY, out for the others. All other fields are out
 * @deadline: when the timer fires or fired, in ns on the context's clock
 * @remaining: ns to the deadline; zero if it has passed or the timer is disarmed
 * @interval: period in ns; zero for a one-shot timer
 * @cookie: the timer's cookie
 * @missed: further firings of a periodic timer that is due
 * @firings: firings left, including one whose event is still to be taken and those
 *	@missed; zero for no limit. A kept timer that has had all its firings is a disarmed
 *	one-shot timer
 * @state: of &enum htw_state
 * @flags: %HTW_F_KEEP as given to HTW_ADD
 *
 * HTW_QUERY fails with ENOENT as HTW_CANCEL does, and with EFAULT.
 */
struct htw_timer_info {
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
 * enum htw_op - values of &htw_vector_args.op
 * @HTW_OP_ADD: as HTW_ADD
 * @HTW_OP_CANCEL: as HTW_CANCEL
 * @HTW_OP_MOD: as HTW_MOD
 */
enum htw_op {
	HTW_OP_ADD		= 1,
	HTW_OP_CANCEL		= 2,
	HTW_OP_MOD		= 3,
};

/**
 * struct htw_vector_args - argument of HTW_VECTOR: the same operation on many timers
 * @ids: address of an array of __u64, the timers: written by %HTW_OP_ADD, read by the
 *	others and written only where an operation fails
 * @deadlines: address of an array of __u64, as &htw_add_args.deadline, for %HTW_OP_ADD
 *	and for %HTW_OP_MOD with %HTW_MOD_DEADLINE; else must be zero
 * @cookies: address of an array of __u64, as &htw_add_args.cookie, for %HTW_OP_ADD and for
 *	%HTW_OP_MOD with %HTW_MOD_COOKIE; zero there means that all cookies are zero.
 *	Else must be zero
 * @interval: for all of them, as &htw_add_args.interval or &htw_mod_args.interval
 * @slack: for all of them, as &htw_add_args.slack or &htw_mod_args.slack
 * @count: number of entries of each array
 * @done: out: operations carried out, in order
 * @failed: out: how many of those failed
 * @flags: as &htw_add_args.flags, &htw_cancel_args.flags or &htw_mod_args.flags
 * @firings: for all of them, as &htw_add_args.firings or &htw_mod_args.firings
 * @op: of &enum htw_op
 *
 * The same as the single calls, in order, at a lower cost. A failing operation does not
 * end the vector: its entry in @ids becomes the negative errno of the single call, which
 * is never an id (HTW_ID_IS_ERROR(), HTW_ID_ERROR()). If @failed is zero, no entry needs
 * to be looked at. A cancel reports neither cookie nor remaining time, a change not what
 * it found.
 *
 * If a signal or an inaccessible address ends the vector early, the call returns 0 with
 * @done below @count: continue behind @done in each array. An add that is not counted in
 * @done has not happened. Of the others, where an error cannot be written, that operation
 * and up to 255 after it may have been carried out.
 *
 * Errors: EINVAL for what is invalid for every operation, for a missing array (none is
 * needed if @count is zero), and for an array that @op and @flags do not take; nothing
 * is done or written then. ENOMEM. EFAULT if the argument cannot be read and written, and
 * nothing is done then; or if @done would be zero because an array is not accessible.
 */
struct htw_vector_args {
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
	__u32 op;
};

/**
 * enum htw_event_flag - bits of &htw_event.flags
 * @HTW_EVENT_MORE: the id is still valid: the timer is periodic and goes on, or is kept.
 *	Without it, this was the id's last event
 */
enum htw_event_flag {
	HTW_EVENT_MORE		= 1 << 0,
};

/**
 * struct htw_event - a timer has fired
 * @id: the timer
 * @cookie: its cookie
 * @deadline: the deadline that came, in ns on the context's clock
 * @taken: when the event was taken, in ns; never before @deadline. In events that are
 *	taken one after the other from one wheel it goes back only if the clock was set. On
 *	the manual clock, the time that the clock was moved to
 * @missed: further firings of a periodic timer whose time had come by then; they get no
 *	event of their own
 * @flags: of &enum htw_event_flag
 * @reserved: zero
 *
 * read() and readv() return as many whole events as fit, those of each CPU on which
 * timers were armed in the order in which they were due. If that is less than fits, none
 * was left, unless memory could not be written or the process is being killed: no other
 * signal ends a read that has found events. A periodic timer is armed again, in phase, when
 * its event is taken; a stalled reader gets one event with a count. Bytes of the buffer
 * behind the returned events may have been overwritten.
 *
 * read() fails with EINVAL if the buffer is smaller than one event; EAGAIN if there is no
 * event and O_NONBLOCK is set; EINTR; EFAULT, and events that could not be copied stay
 * readable.
 *
 * Where HTW_SETUP has asked for larger events, an array has that size from one to the
 * next.
 */
struct htw_event {
	__u64 id;
	__u64 cookie;
	__u64 deadline;
	__u64 taken;
	__u64 missed;
	__u32 flags;
	__u32 reserved;
};

/**
 * enum htw_setup_flag - bits of &htw_setup_args.flags and &htw_info_args.flags
 * @HTW_SETUP_CLOCK: use &htw_setup_args.clock
 * @HTW_SETUP_EXACT: the finest tick that needs no privilege, 10 us; not with
 *	&htw_setup_args.tick_ns
 * @HTW_SETUP_ORDERED: one wheel for all CPUs, so that events come in the order of ticks,
 *	and equal ones in the order in which the timers were armed
 */
enum htw_setup_flag {
	HTW_SETUP_CLOCK		= 1 << 0,
	HTW_SETUP_EXACT		= 1 << 1,
	HTW_SETUP_ORDERED	= 1 << 2,
};

/** HTW_CLOCK_MANUAL - a clock that starts at zero and that only HTW_ADVANCE moves */
#define HTW_CLOCK_MANUAL	0x68747700

/**
 * struct htw_setup_args - argument of HTW_SETUP: configure a context, once, before its
 * first timer
 * @flags: of &enum htw_setup_flag
 * @clock: with %HTW_SETUP_CLOCK: CLOCK_MONOTONIC (the default), CLOCK_BOOTTIME,
 *	CLOCK_REALTIME or %HTW_CLOCK_MANUAL; else must be zero
 * @tick_ns: the tick, from 10 us to 1 s; with CAP_SYS_RESOURCE from 1 us; on the manual
 *	clock from 1 ns. Zero: the module's
 * @limit: maximum number of timers, up to the module's max_timers. Zero: that
 * @event_size: size of an event in bytes: that of &struct htw_event in this or an
 *	earlier version. Zero: that of the first one
 * @levels: levels of the wheels, up to %HTW_MAX_LEVELS. Zero: as suits the tick
 * @slots: slots of each level, finest first, from 2 to 2048; zero beyond @levels. Their
 *	product is at most 2^61
 *
 * With all fields zero the call changes nothing, and the context can still be configured.
 *
 * Errors, one of them where several apply:
 *
 * * EINVAL: an unknown flag; @clock without its flag; @slots beyond @levels that are not
 *   zero; an @event_size that this kernel does not know; @tick_ns with %HTW_SETUP_EXACT
 * * EOPNOTSUPP: @clock is a clock that timers cannot be on (CLOCK_TAI,
 *   CLOCK_REALTIME_ALARM, ...), or no clock
 * * ERANGE: @tick_ns, @limit, @levels or @slots is out of range
 * * EPERM: without CAP_SYS_RESOURCE, a tick below 10 us
 * * EBUSY: the context has been configured before, or has memory for timers, as after an
 *   HTW_ADD, also one that failed
 * * ENOMEM
 * * EFAULT
 *
 * A call that fails changes nothing.
 */
struct htw_setup_args {
	__u32 flags;
	__s32 clock;
	__u64 tick_ns;
	__u64 limit;
	__u32 event_size;
	__u32 levels;
	__u32 slots[HTW_MAX_LEVELS];
};

/**
 * struct htw_info_args - argument of HTW_INFO; all fields are out
 * @features: of &enum htw_feature
 * @tick_ns: the tick
 * @limit: maximum number of timers of this context
 * @timers: timers it holds: pending, due and kept
 * @bytes: memory it holds: timers, wheels and what belongs to them
 * @user_limit: maximum number of timers for which the context's user may have memory;
 *	U64_MAX if there is none
 * @user_timers: for how many it has, in all contexts
 * @next: nothing is due before this time, in ns on the context's clock. A timer may be due
 *	later than that, but none earlier. U64_MAX if no timer is armed; it may be that as well
 *	if those that are never come, as their deadlines are beyond the clock's end
 * @clock: the context's clock, as &htw_setup_args.clock
 * @flags: &htw_setup_args.flags of the HTW_SETUP that succeeded; else zero
 * @event_size: size of an event, in bytes
 * @levels: valid entries of @slots
 * @slots: slots of each level of a wheel that holds many timers, finest first
 *
 * Errors: EFAULT.
 */
struct htw_info_args {
	__u64 features;
	__u64 tick_ns;
	__u64 limit;
	__u64 timers;
	__u64 bytes;
	__u64 user_limit;
	__u64 user_timers;
	__u64 next;
	__s32 clock;
	__u32 flags;
	__u32 event_size;
	__u32 levels;
	__u32 slots[HTW_MAX_LEVELS];
};

/**
 * struct htw_cancel_all_args - argument of HTW_CANCEL_ALL: end every timer of the context
 * @count: out: how many timers have ended
 * @flags: must be zero
 * @reserved: must be zero
 *
 * All timers that were started before the call began have ended when it returns, in
 * whatever state they were; no event comes of them. Those that other threads start
 * during the call may have, too.
 *
 * Errors: EINVAL; EFAULT, and if @count is not writable nothing has been cancelled; EINTR
 * if the process is being killed.
 */
struct htw_cancel_all_args {
	__u64 count;
	__u32 flags;
	__u32 reserved;
};

/**
 * enum htw_list_flag - bits of &htw_list_args.flags: timers in these states
 * @HTW_LIST_PENDING: %HTW_STATE_PENDING
 * @HTW_LIST_DUE: %HTW_STATE_DUE
 * @HTW_LIST_DISARMED: %HTW_STATE_DISARMED
 */
enum htw_list_flag {
	HTW_LIST_PENDING	= 1 << 0,
	HTW_LIST_DUE		= 1 << 1,
	HTW_LIST_DISARMED	= 1 << 2,
};

/**
 * struct htw_list_args - argument of HTW_LIST: report timers; and of HTW_HARVEST: end
 * timers and report them
 * @entries: address of an array of &struct htw_timer_info
 * @cursor: zero for the first call, then as the previous call left it; another number
 *	below 2^32 begins somewhere among the timers, or behind them
 * @count: size of the array
 * @done: out: entries written; zero when there are no more
 * @flags: of &enum htw_list_flag; zero for all states
 * @reserved: must be zero
 *
 * A timer that stays in a requested state while the list is read is reported exactly
 * once, whatever happens to others; one that is started meanwhile may be. HTW_HARVEST
 * ends the id of each timer that it reports, and leaves all others alone. A signal, or an
 * entry that cannot be written, ends the call early, with @done below @count; a timer
 * whose entry could not be written goes on.
 *
 * Errors: EINVAL, also for a @cursor above 2^32 - 1; EFAULT if the argument is not
 * accessible or the first entry cannot be written; EINTR if a signal came before an entry
 * was written, with @cursor where the same call goes on, or the process is being killed.
 */
struct htw_list_args {
	__u64 entries;
	__u64 cursor;
	__u32 count;
	__u32 done;
	__u32 flags;
	__u32 reserved;
};

/**
 * struct htw_advance_args - argument of HTW_ADVANCE: move the manual clock forward
 * @ns: by how much; with %HTW_F_ABS, the time to move to
 * @flags: %HTW_F_ABS
 * @due: out: 1 if a timer is due then, else 0
 *
 * The clock starts at zero and ends at 2^63 - 1. Firings of a periodic timer that the
 * clock has passed count as missed.
 *
 * Errors: EINVAL on another clock, for a time before the present or beyond the end, and for
 * an unknown flag; EFAULT, and if @due is not writable the clock has not moved; EINTR if the
 * process is being killed.
 */
struct htw_advance_args {
	__u64 ns;
	__u32 flags;
	__u32 due;
};

/**
 * struct htw_uring_args - a command of io_uring: IORING_OP_URING_CMD, &io_uring_sqe.cmd
 * @arg: address of the command's argument
 * @reserved: must be zero, as must be what follows in an SQE of 128 bytes
 *
 * With HTW_ADD, HTW_CANCEL, HTW_MOD or HTW_VECTOR in &io_uring_sqe.cmd_op the kernel makes
 * that call; the result is zero or the negative errno of the ioctl. The argument is read
 * and written until the completion is there; the SQE is not read again once it has been
 * submitted.
 *
 * A command is carried out as it is submitted, without sleeping. If it needs memory that
 * is not there at once, and for an %HTW_OP_ADD of more than 256 timers, a worker of io_uring
 * carries it out: those that are submitted later may then come before it, unless it is
 * linked to them. Absolute times are those of the task that submits, or with
 * IORING_SETUP_SQPOLL of the one that made the ring.
 *
 * Errors: those of the command; ENOTTY: another command; EINVAL: @reserved, or a flag of
 * IORING_OP_URING_CMD; ECANCELED: nothing was done, as of other requests. With
 * %HTW_FEATURE_URING; else, and before Linux 6.1, EOPNOTSUPP.
 */
struct htw_uring_args {
	__u64 arg;
	__u64 reserved;
};

/** HTW_ID_IS_ERROR() - true if an entry of &htw_vector_args.ids is an error and not an id */
#define HTW_ID_IS_ERROR(id)		((__u64)(id) >= (__u64)-4095)

static __inline__ int __htw_id_error(__u64 id)
{
	return HTW_ID_IS_ERROR(id) ? (int)(__s64)id : 0;
}

/** HTW_ID_ERROR() - the negative errno in an entry of &htw_vector_args.ids; zero for an id */
#define HTW_ID_ERROR(id)		__htw_id_error(id)

/* Numbers 0xE7 00-1F are reserved for htw: docs/ioctl-number.rst. */
#define HTW_IOC			0xe7

#define HTW_SETUP		_IOW(HTW_IOC, 0x00, struct htw_setup_args)
#define HTW_INFO		_IOR(HTW_IOC, 0x01, struct htw_info_args)
#define HTW_ADD			_IOWR(HTW_IOC, 0x02, struct htw_add_args)
#define HTW_CANCEL		_IOWR(HTW_IOC, 0x03, struct htw_cancel_args)
#define HTW_MOD			_IOWR(HTW_IOC, 0x04, struct htw_mod_args)
#define HTW_QUERY		_IOWR(HTW_IOC, 0x05, struct htw_timer_info)
#define HTW_VECTOR		_IOWR(HTW_IOC, 0x06, struct htw_vector_args)
#define HTW_CANCEL_ALL		_IOWR(HTW_IOC, 0x07, struct htw_cancel_all_args)
#define HTW_LIST		_IOWR(HTW_IOC, 0x08, struct htw_list_args)
#define HTW_HARVEST		_IOWR(HTW_IOC, 0x09, struct htw_list_args)
#define HTW_ADVANCE		_IOWR(HTW_IOC, 0x0a, struct htw_advance_args)

#endif /* _UAPI_LINUX_HTW_H */
