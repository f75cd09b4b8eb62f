/* SPDX-License-Identifier: MIT */
/*
 * libhtw - millions of timeouts, in the kernel or in the process
 *
 * One interface with two backends. The device backend keeps the timers in the
 * kernel, by /dev/htw: several processes can share them, they survive the
 * process that started them, and the program sleeps until one is due. The
 * process backend compiles the same timing wheel into the program and drives it
 * with one timerfd: it needs no module and no system call per operation, and
 * serves one process. The caller chooses.
 *
 * With both, a timer is never early, expires exactly once each time it is
 * armed, and has an id that is never reused. It is late by at most one tick,
 * plus the time until the program looks, and plus the delivery of timers that
 * were due no later. Structures and flags are those of <linux/htw.h>.
 *
 * Times are in nanoseconds. Functions that return int or int64_t return a
 * negative errno on failure, and leave errno as it was and what they would have
 * stored through a pointer unwritten, unless they say otherwise. What only the
 * device can do fails with -ENOTSUP in the process backend. All functions may
 * be called by several threads at once unless they say otherwise; none may be
 * called by a signal handler. Pointers must not be NULL where the description
 * does not allow it, except arrays whose count is zero: with that, nothing is
 * done, and the result is 0 if the other arguments are valid.
 *
 * Any number may be given for an id. One that is not the id of a timer of that
 * handle, or of one of its shards, is -ENOENT. In the process, the ids of all
 * handles differ.
 *
 * A timer is pending until its event is read: until then it can be moved and
 * stopped in time, however overdue it is. Functions that report timers compare
 * them with the time, and change nothing.
 *
 * No call stalls, however many timers there are: beyond those that it is asked
 * to return, to start or to end, it looks at some thousand at most. To move a
 * long bucket of the wheel down takes several calls of htw_read(); the
 * descriptor is readable until it is done. Nor does a thread wait long for
 * another one's call: in the process it has the handle after the next 512 timers
 * of that, in the order in which threads came.
 *
 * fork(): a handle, and a dispatcher on it, belong to the process that opened
 * it. A child may close its copies, in any order, and the parent's timers go on.
 * With either backend all other functions fail with -EPERM there, except
 * htw_backend(), htw_fd() and htw_now(), which of a manual clock returns the time
 * of the fork. To share timers of the device, the child calls htw_open_fd() with
 * a dup() of the descriptor.
 *
 * Only htw_close() may close the descriptor of a handle. If something else has
 * closed it, functions that need it fail with -EBADF: on the device all but
 * htw_backend(), htw_fd(), htw_now(), htw_reserve() and htw_put_off(), and the
 * timers have ended, if there is no other copy of the descriptor; in the process
 * htw_read() and htw_wait() when they find nothing that is due, and the timers
 * stay. If its number has gone to another file, it is that which is used: on the
 * device errors are that file's, such as -ENOTTY, and htw_read() takes its data;
 * in the process a timerfd is set; and htw_close() closes it.
 */
#ifndef LIBHTW_H
#define LIBHTW_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/select.h>		/* sigset_t */
#include <linux/htw.h>

#ifdef __cplusplus
extern "C" {
#endif

struct htw;
struct htw_dispatcher;

#define HTW_USEC	1000ULL			/* ns in a microsecond */
#define HTW_MSEC	1000000ULL		/* ns in a millisecond */
#define HTW_SEC		1000000000ULL		/* ns in a second */

/* A cookie that is a pointer, and the pointer of such a cookie */
#ifdef __cplusplus
#define HTW_COOKIE(pointer)	(static_cast<uint64_t>(reinterpret_cast<uintptr_t>(pointer)))
#define HTW_POINTER(cookie)	(reinterpret_cast<void *>(static_cast<uintptr_t>(cookie)))
#else
#define HTW_COOKIE(pointer)	((uint64_t)(uintptr_t)(pointer))
#define HTW_POINTER(cookie)	((void *)(uintptr_t)(cookie))
#endif

/**
 * HTW_SETUP_PI - flag of &htw_setup_args.flags: lock with priority inheritance
 *
 * In the process backend, a thread that holds the handle's lock then runs with
 * the highest priority of those that wait for it (PTHREAD_PRIO_INHERIT), which
 * has it next. The device ignores it: its locks are the kernel's.
 */
#define HTW_SETUP_PI	0x80000000u

/**
 * HTW_F_PUT_OFF - flag of &htw_add_args.flags: the timer can be moved by htw_put_off()
 *
 * Not with an interval or %HTW_F_KEEP (-EINVAL).
 */
#define HTW_F_PUT_OFF	0x80000000u

/**
 * enum htw_backend - where timers are kept
 * @HTW_BACKEND_DEVICE: in the kernel, by /dev/htw
 * @HTW_BACKEND_PROCESS: in this process
 * @HTW_BACKEND_ANY: in the kernel if the device can be opened, else in this
 *	process
 */
enum htw_backend {
	HTW_BACKEND_DEVICE	= 1,
	HTW_BACKEND_PROCESS	= 2,
	HTW_BACKEND_ANY		= 3,
};

/**
 * htw_version() - get the version of the library
 *
 * Return: a string such as "0.1.0".
 */
const char *htw_version(void);

/**
 * htw_open() - create a set of timers
 * @htw: out: the handle; not written on failure
 * @backend: where to keep them
 * @setup: as for HTW_SETUP, and %HTW_SETUP_PI; NULL for the defaults:
 *	CLOCK_MONOTONIC and the module's tick, or 1 ms in the process
 *
 * For timers that must not be late, %HTW_SETUP_EXACT in @setup->flags is a tick of
 * 10 us, with either backend. Coarse timers are better kept by a handle of their
 * own: each tick of which a timer comes wakes the program.
 *
 * The library reads events of the first version's size: @setup->event_size is
 * that, or zero (-EINVAL). In the process backend the limit is at most 2^26, and
 * 2^20 by default; events are always in order; and nothing needs a privilege, so
 * none of HTW_SETUP's causes of -EPERM exists.
 *
 * %HTW_BACKEND_ANY uses the process if the device does not exist, if the caller
 * may not open it, or if the module is older than the library needs. Other
 * errors are returned, so neither a limit nor a wrong @setup silently moves the
 * timers into the process.
 *
 * Return: 0; the errors of opening the device (-ENOENT, -ENODEV, -EACCES, ...);
 * those of HTW_SETUP, with either backend: -EINVAL, -ERANGE, and -EOPNOTSUPP for
 * a clock that timers cannot be on, or that is none; -ENOSYS if the module is too
 * old; -EMFILE or -ENFILE if there can be no more descriptors, with either
 * backend, or if the process has 4,094 handles and shards in the process backend;
 * -ENOMEM; -EINVAL for an unknown @backend.
 */
int htw_open(struct htw **htw, enum htw_backend backend,
	     const struct htw_setup_args *setup);

/**
 * htw_open_fd() - take over a descriptor of the device
 * @htw: out: the handle; not written on failure
 * @fd: the descriptor, inherited or received from another process, and opened
 *	for reading and writing. It is made non-blocking, for all who share the
 *	open file, and on success belongs to the handle
 *
 * With one that was opened for reading only, what changes something fails with
 * -EBADF; one that was opened for writing only is refused.
 *
 * Its timers stay as they are; htw_list() reports them. Where several processes
 * share a descriptor, each event goes to one of those that read it.
 *
 * Return: 0; -EINVAL if @fd is not a descriptor of the device, or if larger
 * events have been set up for it; -EBADF if it is not open, or not for reading;
 * -ENOSYS if the module is too old;
 * -ENOMEM.
 */
int htw_open_fd(struct htw **htw, int fd);

/**
 * htw_close() - free a handle
 * @htw: the handle, which no thread uses any more, or NULL. A dispatcher on it, or
 *	on one of its shards, is freed first
 *
 * Timers in the process end. Timers of the device end when its last descriptor
 * is closed, in whichever process. Take the descriptor out of an epoll set first
 * (EPOLL_CTL_DEL) if another process has a copy of it, as after fork(): epoll
 * forgets it only with the last copy.
 */
void htw_close(struct htw *htw);

/**
 * htw_shard() - give a thread timers of its own
 * @shard: out: a handle for the thread; not written on failure
 * @htw: the handle, or one of its shards
 *
 * In the process backend, all threads that use one handle take turns. A shard
 * is a handle with timers, wheel, descriptor, events and limit of its own, set
 * up as @htw is: its thread starts, moves, stops and reads timers without
 * waiting for others. What takes an id takes that of a timer of any shard: any
 * thread can stop, move or query any timer, at a higher cost where it is
 * another shard's. All other functions are about the shard that they are given:
 * htw_fd(), htw_read(), htw_wait(), htw_next_time(), htw_info(), htw_list(),
 * htw_harvest(), htw_cancel_all() and a dispatcher. Only a manual clock is
 * common: htw_advance() of one moves it for all.
 *
 * htw_close() of a shard ends its timers, while others may be using their ids;
 * htw_close() of the handle closes all its shards, which no thread uses any
 * more.
 *
 * The device needs no shards: its timers wait on the CPU that starts them.
 * Threads share a handle or have one each.
 *
 * Return: 0; -EMFILE or -ENFILE as htw_open(); -ENOMEM; -ENOTSUP on the device.
 */
int htw_shard(struct htw **shard, struct htw *htw);

/**
 * htw_backend() - get the backend of a handle
 * @htw: the handle
 *
 * Return: %HTW_BACKEND_DEVICE or %HTW_BACKEND_PROCESS.
 */
enum htw_backend htw_backend(const struct htw *htw);

/**
 * htw_fd() - get the descriptor for poll(), epoll or an event loop
 * @htw: the handle
 *
 * It becomes readable when htw_read() should be called, which may then return
 * nothing, also while events are left. Use it for nothing else, except to pass a
 * device's descriptor to another process. An edge-triggered loop calls htw_read()
 * until it returns less than there was room for: what is left then, or is due
 * later, makes it readable anew.
 *
 * Return: the descriptor, which still belongs to the handle.
 */
int htw_fd(const struct htw *htw);

/**
 * htw_now() - read the clock of a handle
 * @htw: the handle
 *
 * A manual clock of the device is known as far as this handle advanced it.
 *
 * Return: the time in ns.
 */
uint64_t htw_now(struct htw *htw);

/**
 * htw_info() - get tick, geometry, clock, limit and number of timers
 * @htw: the handle
 * @info: out: as HTW_INFO. In the process there is no limit of a user
 *
 * Return: 0.
 */
int htw_info(struct htw *htw, struct htw_info_args *info);

/**
 * htw_reserve() - allocate memory in advance
 * @htw: the handle
 * @count: total number of timers that there shall be room for
 *
 * Afterwards, adds within @count neither fail for lack of memory nor take page
 * faults, but for timers that can be put off, whose deadlines take memory of
 * their own. The device allocates in the kernel; there, this only compares @count
 * with the limit.
 *
 * Return: 0; -ENOSPC if @count is above the limit; -ENOMEM.
 */
int htw_reserve(struct htw *htw, uint64_t count);

/* One timer. */

/**
 * htw_after() - start a timer that expires after a delay
 * @htw: the handle
 * @ns: the delay in ns; zero expires at once
 * @cookie: returned with the event
 * @id: out: identifies the timer; never zero. May be NULL. With several threads,
 *	the event may be read before it is stored
 *
 * Return: 0; -ENOSPC if the handle is at its limit, until timers end; -EDQUOT
 * if the user is; -ENOMEM.
 */
int htw_after(struct htw *htw, uint64_t ns, uint64_t cookie, uint64_t *id);

/**
 * htw_timeout() - start a timeout that activity puts off
 * @htw: the handle
 * @ns: the delay in ns
 * @cookie: returned with the event
 * @id: out: identifies the timer. May be NULL
 *
 * For a connection's timeout: as htw_after(), and htw_put_off() moves it by a
 * store.
 *
 * Return: as htw_after().
 */
int htw_timeout(struct htw *htw, uint64_t ns, uint64_t cookie, uint64_t *id);

/**
 * htw_at() - start a timer that expires at a point in time
 * @htw: the handle
 * @when: on the handle's clock, see htw_now(); a past time expires at once
 * @cookie: returned with the event
 * @id: out: identifies the timer. May be NULL
 *
 * Return: as htw_after().
 */
int htw_at(struct htw *htw, uint64_t when, uint64_t cookie, uint64_t *id);

/**
 * htw_every() - start a periodic timer
 * @htw: the handle
 * @first: delay of the first firing in ns; zero is at once
 * @interval: period in ns, not zero; less than a tick is rounded up to one
 * @cookie: returned with each event
 * @id: out: identifies the timer until it is stopped. May be NULL
 *
 * The timer keeps its phase, however late its events are read; firings whose
 * time has come meanwhile are counted in &htw_event.missed, but not those after
 * it was stopped. They are counted by the clock: of one that has come the tick
 * need not have.
 *
 * Return: as htw_after(); -EINVAL for an interval of zero.
 */
int htw_every(struct htw *htw, uint64_t first, uint64_t interval,
	      uint64_t cookie, uint64_t *id);

/**
 * htw_rearm() - give a timer a new deadline
 * @htw: the handle
 * @id: the timer: pending, due or kept
 * @ns: delay from now in ns
 *
 * If it was due, no event comes for that. A periodic timer keeps its
 * period and continues from the new deadline. Counts as started anew: of equal
 * deadlines, it comes after those that were started before.
 *
 * Return: 0; -ENOENT if the timer has ended.
 */
int htw_rearm(struct htw *htw, uint64_t id, uint64_t ns);

/**
 * htw_stop() - stop a timer and end its id
 * @htw: the handle
 * @id: the timer
 *
 * When it returns 0, htw_read() returns no event of this id any more, also if the
 * timer was due, and what the cookie refers to can be freed, unless an event of a
 * periodic or kept timer has been read and is still to be handled: by another
 * thread, or further on in the array that this one is going through. After
 * -ENOENT the last event has been read, and may be in that array, or the id is
 * none.
 *
 * Return: 0; -ENOENT.
 */
int htw_stop(struct htw *htw, uint64_t id);

/**
 * htw_add() - start a timer with all options
 * @htw: the handle
 * @add: as HTW_ADD; @add->id is out
 *
 * Return: 0, or an error of HTW_ADD.
 */
int htw_add(struct htw *htw, struct htw_add_args *add);

/**
 * htw_cancel() - stop a timer and report what was left
 * @htw: the handle
 * @cancel: as HTW_CANCEL
 *
 * Return: 0 or -ENOENT as htw_stop(); -EINVAL.
 */
int htw_cancel(struct htw *htw, struct htw_cancel_args *cancel);

/**
 * htw_mod() - change deadline, interval, slack or cookie
 * @htw: the handle
 * @mod: as HTW_MOD; @mod->state is out
 *
 * Return: 0; -ENOENT; -EINVAL.
 */
int htw_mod(struct htw *htw, struct htw_mod_args *mod);

/**
 * htw_query() - report a timer
 * @htw: the handle
 * @query: as HTW_QUERY
 *
 * Return: 0; -ENOENT.
 */
int htw_query(struct htw *htw, struct htw_timer_info *query);

/**
 * htw_remaining() - get the time that is left to a timer
 * @htw: the handle
 * @id: the timer
 * @ns: out: until its deadline, or the later one to which it was put off; zero
 *	if that has come, and for a kept timer that is disarmed
 *
 * Return: 0; -ENOENT.
 */
int htw_remaining(struct htw *htw, uint64_t id, uint64_t *ns);

/**
 * htw_next_time() - get a time before which nothing is due
 * @htw: the handle
 * @when: out: the time, on the handle's clock; one that has come if something is
 *	due, or has to be done, now
 *
 * The first timer may be later: which of the timers in a long bucket of the
 * wheel that is cannot be known quickly. The time is never beyond 2^63 - 1, where
 * clocks end.
 *
 * Return: 0; -ENOENT if none is pending, and perhaps also if those that are never
 * come, as their deadlines are beyond the clock's end.
 */
int htw_next_time(struct htw *htw, uint64_t *when);

/* Many timers. */

/**
 * htw_add_many() - start many timers
 * @htw: the handle
 * @common: flags, interval, firings and slack of all timers, other fields are
 *	ignored; NULL for one-shot timers with relative deadlines
 * @deadlines: array of deadlines
 * @cookies: array of cookies; NULL for zeroes
 * @ids: out: array of ids; zero where a timer could not be started. May be the
 *	same array as @deadlines or @cookies
 * @count: number of entries
 * @results: out: array of 0 or a negative errno, or NULL
 *
 * A failing entry does not prevent the others from being started.
 *
 * Return: number of failed entries; or -EINVAL, and none was started.
 */
int htw_add_many(struct htw *htw, const struct htw_add_args *common,
		 const uint64_t *deadlines, const uint64_t *cookies,
		 uint64_t *ids, unsigned int count, int *results);

/**
 * htw_rearm_many() - give many timers new deadlines
 * @htw: the handle
 * @ids: array of timers
 * @deadlines: array of delays from now in ns; of times on the clock with
 *	%HTW_F_ABS
 * @count: number of entries
 * @flags: %HTW_F_ABS or zero
 * @results: out: array of 0 or -ENOENT, or NULL
 *
 * Return: number of failed entries; or -EINVAL, and none was changed.
 */
int htw_rearm_many(struct htw *htw, const uint64_t *ids,
		   const uint64_t *deadlines, unsigned int count,
		   unsigned int flags, int *results);

/**
 * htw_stop_many() - stop many timers
 * @htw: the handle
 * @ids: array of timers
 * @count: number of entries
 * @results: out: array of what htw_stop() would return, or NULL
 *
 * Return: number of entries for which htw_stop() would not have returned 0.
 */
int htw_stop_many(struct htw *htw, const uint64_t *ids, unsigned int count,
		  int *results);

/* Events. */

/**
 * htw_read() - take events of timers that are due
 * @htw: the handle
 * @events: out: in the order of the ticks at which the timers were due; on the
 *	device, unless it is ordered (%HTW_SETUP_ORDERED), those of each CPU. One
 *	that was started when its time had come may come before others that were
 *	due already
 * @count: size of the array
 *
 * Does not wait, and ends: what other threads start meanwhile, or what comes due,
 * may be among the events, but does not keep it from returning.
 *
 * Return: number of events. Less than @count, or 0, means that none is left, or
 * that the descriptor is readable anew, as a call does only a part of what may be
 * long: it starts some 1,000 timers again that were put off, with either backend,
 * and in the process moves a part of a long bucket of the wheel down. -EBADF if
 * something else has closed the descriptor; -EPERM in a child of fork().
 */
int htw_read(struct htw *htw, struct htw_event *events, unsigned int count);

/**
 * htw_wait() - wait until a timer is due
 * @htw: the handle
 * @timeout: maximum time in ns; negative for no limit. Real time, also with a
 *	manual clock: then it waits for another thread to advance that
 *
 * Without a wait it may not yet find a timer that is behind very many that were
 * put off; the descriptor is readable then. When another thread stops the last
 * timer, the wait goes on: for a timer that is started later, or @timeout.
 *
 * Return: 1 if there is something to read; on the device also if all that is due
 * there was put off, and htw_read() starts it again and returns 0; 0 after
 * @timeout; -EINTR if a signal was handled; -EBADF if something else has closed
 * the descriptor; -EPERM in a child of fork().
 */
int htw_wait(struct htw *htw, int64_t timeout);

/**
 * htw_pwait() - the same, with other signals blocked meanwhile
 * @htw: the handle
 * @timeout: as for htw_wait()
 * @mask: the signals that are blocked while it waits, as for ppoll(); NULL for
 *	those that are blocked now
 *
 * Return: as htw_wait().
 */
int htw_pwait(struct htw *htw, int64_t timeout, const sigset_t *mask);

/* All timers. */

/**
 * htw_cancel_all() - end every timer
 * @htw: the handle
 *
 * All that were started before have ended then, and no event of them is read any
 * more.
 *
 * Return: number of timers.
 */
int64_t htw_cancel_all(struct htw *htw);

/**
 * htw_list() - report timers
 * @htw: the handle
 * @cursor: zero for the first call, then as the previous call left it; another
 *	number below 2^32 begins somewhere among the timers, or behind them
 * @entries: out: the timers
 * @count: size of the array
 *
 * A timer that stays throughout is reported exactly once, whatever happens to
 * others.
 *
 * Return: number of entries; zero at the end; -EINVAL for a cursor above
 * 2^32 - 1.
 */
int htw_list(struct htw *htw, uint64_t *cursor, struct htw_timer_info *entries,
	     unsigned int count);

/**
 * htw_list_in() - report timers in given states
 * @htw: the handle
 * @states: of &enum htw_list_flag: pending, due, disarmed; zero for all
 * @cursor: as for htw_list()
 * @entries: out: the timers
 * @count: size of the array
 *
 * With kept timers and %HTW_LIST_DISARMED, the successor of a process that died
 * finds the timers whose events that process had read but not handled.
 *
 * Return: as htw_list(); -EINVAL for an unknown state;
 * -EAGAIN if it has looked at many timers and found none in these states, to be
 * called again with @cursor as it is then.
 */
int htw_list_in(struct htw *htw, unsigned int states, uint64_t *cursor,
		struct htw_timer_info *entries, unsigned int count);

/**
 * htw_harvest() - end timers, and report them
 * @htw: the handle
 * @cursor: zero for the first call, then as the previous call left it
 * @entries: out: the timers, whose ids have ended
 * @count: size of the array
 *
 * Timers that are started behind the cursor meanwhile are not among them: begin
 * again with zero until that finds none.
 *
 * Return: number of entries; zero at the end; -EINVAL for a cursor above
 * 2^32 - 1.
 */
int htw_harvest(struct htw *htw, uint64_t *cursor, struct htw_timer_info *entries,
		unsigned int count);

/**
 * htw_advance() - move a manual clock (%HTW_CLOCK_MANUAL) forward
 * @htw: the handle
 * @ns: by how much; with %HTW_F_ABS, the time to move to
 * @flags: %HTW_F_ABS or zero
 *
 * The clock of a handle is that of all its shards.
 *
 * Return: 1 if something is due, in whichever shard, or may be, as a long bucket
 * of the wheel is moving down; 0 if not; -EINVAL for another clock or an earlier
 * time.
 */
int htw_advance(struct htw *htw, uint64_t ns, unsigned int flags);

/* Putting timers off. */

/**
 * htw_put_off() - move a deadline later by a store
 * @htw: the handle
 * @id: a pending timer that was started with %HTW_F_PUT_OFF, as by htw_timeout()
 * @when: the new deadline, on the handle's clock
 *
 * For what happens at each message of a connection: it takes no lock and makes
 * no system call. It is as if the program kept the time in a field of its own,
 * and looked at that when the timer comes: so of several calls the last counts.
 * If that is later, the timer is started again for it, and comes then, at the
 * earliest. A timer that was started for 10 s, then put off to 60 s and, before
 * its 10 s are over, to 30 s, expires at 30 s. If it is put off to 30 s when it
 * has been started again for 60 s, it expires at 60 s; to shorten that, use
 * htw_rearm(). It comes when htw_read(), htw_wait() or, with a manual clock,
 * htw_advance() finds that its time is over; no other function changes it.
 *
 * htw_stop(), htw_cancel(), htw_query() and
 * htw_list() report the later deadline; htw_rearm(), and htw_mod() with a
 * deadline, forget it.
 *
 * Only in the process that reads the handle's events: others that share the
 * descriptor of a device re-arm by a call.
 *
 * Return: 0; -ENOENT, and nothing is changed, if @id is no such timer: its event
 * was read, it was stopped, was started without the flag, or is no id; -EPERM in
 * a child of fork().
 */
int htw_put_off(struct htw *htw, uint64_t id, uint64_t when);

/* Private: what htw_put_off_inline() needs to know of a handle. */
struct htw_deadline {
	uint64_t tag;
	uint64_t when;
};

struct htw_deadlines {
	uint32_t first;
	uint32_t count;
	struct htw_deadline **blocks;
};

/**
 * htw_put_off_inline() - htw_put_off() without a call
 * @htw: as for htw_put_off()
 * @id: as for htw_put_off()
 * @when: as for htw_put_off()
 *
 * Return: as htw_put_off().
 */
static inline int htw_put_off_inline(struct htw *htw, uint64_t id, uint64_t when)
{
	/* A handle begins with a pointer to them. */
	const struct htw_deadlines *d =
		__atomic_load_n((struct htw_deadlines **)(void *)htw, __ATOMIC_ACQUIRE);
	const uint32_t block = ((uint32_t)id >> 10) - d->first;
	struct htw_deadline *to;

	if (__builtin_expect(block >= d->count, 0))
		return htw_put_off(htw, id, when);
	to = &__atomic_load_n(&d->blocks[block], __ATOMIC_ACQUIRE)[(uint32_t)id & 1023];
	/* The tag is ~id, but for its last bits, which count the stores on their way. */
	if (__builtin_expect((__atomic_fetch_add(&to->tag, 1, __ATOMIC_ACQUIRE) ^ id) <
			     ~(uint64_t)1023, 0)) {
		__atomic_fetch_sub(&to->tag, 1, __ATOMIC_RELEASE);
		return htw_put_off(htw, id, when);
	}
	__atomic_store_n(&to->when, when, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&to->tag, 1, __ATOMIC_RELEASE);
	return 0;
}

/*
 * The dispatcher: call functions at their time
 *
 * For programs that come from the timers of libevent, Go or Java. A call is
 * identified by a number and not by a pointer, so using one that has ended
 * fails with -ENOENT and never touches freed memory.
 *
 * htw_dispatch() makes the calls one after the other, in the thread that calls
 * it, in the order of htw_read(): that in which their timers fired. What they
 * start, move or stop is collected and passed to the backend in a few system
 * calls afterwards. So a call that is started or moved from within a call, even
 * to now, is made by a later htw_dispatch(): calls that start each other cannot
 * keep one from returning. Those of equal deadlines are made in the order in
 * which they were asked for, on the device with %HTW_SETUP_ORDERED. Other
 * threads may start, move and stop calls meanwhile.
 *
 * A call may be left by a C++ exception, pthread_exit(), pthread_cancel() or
 * longjmp(): that counts as if it had returned, and htw_dispatch() is over. What
 * was due with it is kept, and the next htw_dispatch(), which should follow
 * soon because the descriptor need not be readable, goes on with it. A thread
 * can be cancelled while it waits in htw_dispatch() or is in a call. After
 * longjmp(), that next htw_dispatch() has to be the same thread's, unless that
 * has ended; what it asks for before, from deeper in its stack than the
 * htw_dispatch() that was left, counts as asked from within the call. Functions
 * run on the stack of htw_dispatch(): on another one they are taken for having
 * been left by longjmp().
 *
 * In a child of fork(), only htw_dispatcher_free() and htw_dispatcher_fd() do
 * anything, with either backend: functions that return an error return -EPERM,
 * also htw_dispatch() in a child that was made from within a call and returns
 * from that, and others zero.
 */

/**
 * typedef htw_call_fn - function to be called
 * @d: the dispatcher
 * @call: the call, which the function may move or stop
 * @arg: argument given when the call was started
 */
typedef void htw_call_fn(struct htw_dispatcher *d, uint64_t call, void *arg);

/**
 * typedef htw_next_fn - determine the time of the next call
 * @previous: when the previous call was due, on the handle's clock; for the
 *	first call, now
 * @arg: argument given when the call was started
 *
 * Runs in the thread of htw_call_schedule() for the first call, and then in
 * that of htw_dispatch(). May do what a call may do. Is not asked again after
 * %HTW_NO_MORE, also if the last call is moved. If the call is moved while this
 * runs, its result is not used. If it is left by an exception, or as else a call
 * may be left, the call has ended.
 *
 * If the program is too late for several times, it is asked for each, and one
 * call is made for all, as of a periodic call: htw_call_missed() returns how many
 * were passed over. To skip them instead, return a time after htw_now(). To have
 * each handled, note them here, or let the function repeat itself. In one call
 * at most 65,536 are passed over. A result that is not after @previous is no
 * such time: the call is made again at once, by the next htw_dispatch().
 *
 * Return: when to call next, or %HTW_NO_MORE.
 */
typedef uint64_t htw_next_fn(uint64_t previous, void *arg);

/**
 * typedef htw_release_fn - function that frees the argument of a call that has ended
 * @arg: argument given when the call was started
 *
 * May do what a call may do, but not free the dispatcher; must return, and in the
 * same process.
 */
typedef void htw_release_fn(void *arg);

/** HTW_NO_MORE - return value of a htw_next_fn that ends the call */
#define HTW_NO_MORE		(~0ULL)

/**
 * struct htw_pending_call - a call that has not been made
 * @fn: the function
 * @arg: its argument
 * @call: the call
 * @deadline: when it was due, on the handle's clock; for a call that is
 *	running, next
 * @interval: period in ns; zero if it is not periodic
 */
struct htw_pending_call {
	htw_call_fn *fn;
	void *arg;
	uint64_t call;
	uint64_t deadline;
	uint64_t interval;
};

/**
 * htw_dispatcher_new() - create a dispatcher
 * @d: out: the dispatcher; not written on failure
 * @htw: the handle for its timers, or a shard
 *
 * Nothing else may start, move, stop or read timers of the handle; so a second
 * dispatcher needs another one (-EBUSY). Any thread may ask it (htw_now(), htw_info(),
 * htw_query(), htw_list(), htw_next_time()), wait for it with htw_wait(), and
 * advance a manual clock, also from within a call. After htw_cancel_all() or
 * htw_harvest() by others, the calls are not made, unless they are moved.
 *
 * Return: 0; -EBUSY if the handle has a dispatcher; -ENOMEM; an error of
 * htw_info().
 */
int htw_dispatcher_new(struct htw_dispatcher **d, struct htw *htw);

/**
 * htw_dispatcher_free() - free a dispatcher
 * @d: the dispatcher, or NULL. Not from within one of its calls
 *
 * Pending calls are not made, and their arguments are given to the function of
 * htw_dispatcher_set_release(). The handle stays open, without the dispatcher's
 * timers and their events. No other thread uses the dispatcher any more. In a
 * child of fork() it frees the memory of the copy, and the timers stay.
 */
void htw_dispatcher_free(struct htw_dispatcher *d);

/**
 * htw_dispatcher_shutdown() - end pending calls and report them
 * @d: the dispatcher
 * @cursor: zero for the first call, then as the previous call left it
 * @pending: out: the calls, in no particular order
 * @count: size of the array
 *
 * Call it again until it returns zero. A call that is running is among them if
 * it would have been made again. Calls that are started behind the cursor
 * meanwhile are not: begin again with zero until that finds none.
 *
 * The arguments of the calls that it reports can be freed, but for one that is
 * running: its function may use it until htw_call_stop() no longer returns
 * -EALREADY. After htw_dispatcher_set_release() they are released instead, and
 * those that are reported may have been freed. A call that is running and not
 * reported is as before. The dispatcher can be used afterwards as before.
 *
 * Return: number of calls reported, which have ended.
 */
unsigned int htw_dispatcher_shutdown(struct htw_dispatcher *d, uint64_t *cursor,
				     struct htw_pending_call *pending,
				     unsigned int count);

/**
 * htw_dispatcher_set_release() - have the arguments of calls freed as they end
 * @d: the dispatcher, on which no call has been started
 * @release: called once with the argument of each call that has ended
 *
 * For programs and languages where a call owns its argument. It is called when no
 * function uses the argument any more: in htw_dispatch() after the function has
 * returned or was left, unless the call is to be made again, and after a &htw_next_fn
 * that has ended a call; in what stops a call that is not running, before that
 * returns; and in htw_dispatcher_free(). Not for a start that fails, and not in a child
 * of fork(). htw_call_stop_wait() waits for it as for the function, unless @release
 * itself asks. The call has ended when it runs, and no lock is held.
 */
void htw_dispatcher_set_release(struct htw_dispatcher *d, htw_release_fn *release);

/**
 * htw_dispatcher_set_slack() - allow calls to be later, to share wakeups
 * @d: the dispatcher
 * @slack: in ns, for calls started from now on
 */
void htw_dispatcher_set_slack(struct htw_dispatcher *d, uint64_t slack);

/**
 * htw_dispatcher_fd() - get the descriptor for poll(), epoll or an event loop
 * @d: the dispatcher
 *
 * Return: htw_fd() of its handle. When it is readable, call htw_dispatch().
 */
int htw_dispatcher_fd(const struct htw_dispatcher *d);

/**
 * htw_dispatch() - make the calls that are due
 * @d: the dispatcher
 * @timeout: how long to wait for the first call in ns; zero to not wait;
 *	negative for no limit. Real time, as for htw_wait()
 *
 * Makes at most 512 calls. While the result is positive, more may be due;
 * otherwise nothing was, when it looked, or the descriptor is readable anew as
 * after htw_read(). So an edge-triggered loop calls it with a timeout of zero
 * until the result is not positive. A level-triggered one may call it once.
 *
 * If a call that was started or moved from within a call cannot be because of a
 * limit, it is not lost: each htw_dispatch() tries again, and so does a
 * htw_call_stop() that has made room. The htw_dispatch() in which it occurs
 * returns the error, also if it has made calls, once nothing is due. Later ones
 * wait as usual, try again every 20 ms meanwhile, and return the error only if
 * @timeout is over and they have made no call. After all such calls have been
 * started or stopped, the next failure is returned at once again. A program that
 * dispatches with a timeout of zero when the descriptor is readable should, after
 * such an error, do so again some time later.
 *
 * Return: number of calls made; -EINTR; -EBUSY if it is running already, also
 * from within a call; -ENOSPC, -EDQUOT or -ENOMEM as above; -ECANCELED in their
 * place if the device has refused many at once; -EBADF if something else has
 * closed the descriptor; -EPERM in a child of fork().
 */
int htw_dispatch(struct htw_dispatcher *d, int64_t timeout);

/**
 * htw_call_after() - call a function once, after a delay
 * @d: the dispatcher
 * @ns: the delay in ns
 * @fn: the function
 * @arg: its argument
 * @call: out: identifies the call until it has been made; or NULL
 *
 * Return: 0; -EINVAL if @fn is NULL; -ENOMEM; -ENOSPC or -EDQUOT at a limit.
 * From within a call, a limit shows only afterwards, as the error of
 * htw_dispatch().
 */
int htw_call_after(struct htw_dispatcher *d, uint64_t ns, htw_call_fn *fn,
		   void *arg, uint64_t *call);

/**
 * htw_call_at() - call a function once, at a point in time
 * @d: the dispatcher
 * @when: on the handle's clock
 * @fn: the function
 * @arg: its argument
 * @call: out: identifies the call until it has been made; or NULL
 *
 * Return: as htw_call_after().
 */
int htw_call_at(struct htw_dispatcher *d, uint64_t when, htw_call_fn *fn,
		void *arg, uint64_t *call);

/**
 * htw_call_every() - call a function periodically
 * @d: the dispatcher
 * @first: delay of the first call in ns
 * @interval: period in ns, not zero; less than a tick is rounded up to one
 * @fn: the function
 * @arg: its argument
 * @call: out: identifies the call until it is stopped; or NULL
 *
 * The call keeps its phase. If htw_dispatch() comes too late for several, it is
 * called once for all of them: see htw_call_missed().
 *
 * Return: as htw_call_after(); -EINVAL for an interval of zero.
 */
int htw_call_every(struct htw_dispatcher *d, uint64_t first, uint64_t interval,
		   htw_call_fn *fn, void *arg, uint64_t *call);

/**
 * htw_call_schedule() - call a function at times that another function determines
 * @d: the dispatcher
 * @next: called now for the first time, and before each call for the one after
 *	it; see &htw_next_fn, also for what happens after a stall
 * @fn: the function
 * @arg: argument of both
 * @call: out: identifies the call until @next has returned %HTW_NO_MORE; or
 *	NULL
 *
 * Return: as htw_call_after(); -EINVAL if @next returns %HTW_NO_MORE at once.
 */
int htw_call_schedule(struct htw_dispatcher *d, htw_next_fn *next,
		      htw_call_fn *fn, void *arg, uint64_t *call);

/**
 * htw_call_again() - move a call, or have the running one made again
 * @d: the dispatcher
 * @call: the call
 * @ns: delay from now in ns
 *
 * A periodic call continues from there. An expiration that is on its way is
 * void: the call is made at the new time, and only then.
 *
 * Return: 0; -ENOENT if it has ended, or is running and was stopped; from
 * outside of calls also the errors of htw_call_after(), and the call stays as
 * it was.
 */
int htw_call_again(struct htw_dispatcher *d, uint64_t call, uint64_t ns);

/**
 * htw_call_stop() - stop a call
 * @d: the dispatcher
 * @call: the call
 *
 * Return: 0 if it will not be made, and its argument can be freed; -EALREADY,
 * each time, while it is running: it will not be made again, and still uses its
 * argument; -ENOENT if it has ended.
 */
int htw_call_stop(struct htw_dispatcher *d, uint64_t call);

/**
 * htw_call_stop_wait() - stop a call, and wait until it is not running
 * @d: the dispatcher
 * @call: the call
 *
 * For a thread that is going to free what the call uses: when it returns 0, or
 * -ENOENT, the function is not running, and its argument can be freed, unless
 * the function has freed it. Hold no lock that the function takes. A thread
 * that waits here can be cancelled. If the call is left, as by an exception, or
 * its thread is cancelled, that ends the wait; by longjmp(), the next use of the
 * dispatcher in that thread does.
 *
 * Return: 0 if it will not be made again, and was not over when it was stopped;
 * -ENOENT if it had ended; -EDEADLK from within that call, which is not stopped
 * then.
 */
int htw_call_stop_wait(struct htw_dispatcher *d, uint64_t call);

/**
 * htw_call_missed() - get the number of missed firings of a periodic or scheduled call
 * @d: the dispatcher
 * @call: the call, from within its function
 *
 * Return: firings that came due before the event was read that this call is made
 * for, beyond the first. htw_dispatch() reads some events at a time: what comes
 * due while it makes the calls before this one is a call of its own.
 */
uint64_t htw_call_missed(struct htw_dispatcher *d, uint64_t call);

#ifdef __cplusplus
}
#endif

#endif /* LIBHTW_H */
