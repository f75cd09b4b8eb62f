/* SPDX-License-Identifier: MIT */
/*
 * libhtw - millions of timeouts, in the kernel or in the process
 *
 * One interface with two backends. The device backend keeps the timers in the
 * kernel, by /dev/htw: several processes can share them, they survive the
 * process that started them, and the program sleeps until one has expired. The
 * process backend compiles the same timing wheel into the program and drives it
 * with one timerfd: it needs no module and no system call per operation, and
 * serves one process. The caller chooses.
 *
 * With both, a timer is never early, expires exactly once each time it is
 * armed, and has an id that is never reused. It is late by at most one tick,
 * plus the time for which the CPU was kept from it (by other work; in the
 * kernel also when its user's share is used up), and plus the delivery of
 * timers that were due no later. In the process it is late, in addition, until
 * the program looks: nothing expires there before htw_read(), htw_wait() or
 * another function that reports timers is called. Structures and flags are
 * those of <linux/htw.h>.
 *
 * Times are in nanoseconds. Functions that return int or int64_t return a
 * negative errno on failure, and leave errno as it was and what they would have
 * stored through a pointer unwritten, unless they say otherwise. What only the
 * device can do fails with -ENOTSUP in the process backend. All functions may
 * be called by several threads at once unless they say otherwise. Pointers must
 * not be NULL where the description does not allow it, except arrays whose
 * count is zero: with that, nothing is done, and the result is 0 if the other
 * arguments are valid.
 *
 * In the process, a timer whose time has come stays pending until one of the
 * functions that report timers is called: htw_read(), htw_wait(), htw_info(),
 * htw_query(), htw_next(), htw_list(), htw_harvest(), htw_cancel_all(), or a
 * query in a batch. Then it has expired, as it would have on the device. To
 * start, move, stop or cancel timers by their ids reads no clock for that:
 * until then an overdue timer can still be moved, and stopping it returns 0.
 *
 * fork(): a handle, and a dispatcher on it, belong to the process that opened
 * it; a child may only close its copy (htw_dispatcher_free() of a copy would
 * stop the parent's calls on the device: leave it). To share timers of the
 * device, the child calls htw_open_fd() with a dup() of the descriptor. It
 * inherits the mappings of ring and table with the rest of its parent's memory,
 * and must not read from the ring, as both would move the same head.
 * Expirations go to the ring, and not to read(), while any process has it
 * mapped: a child that outlives its parent keeps them there until it closes its
 * copy of the handle, calls execve() or exits.
 */
#ifndef LIBHTW_H
#define LIBHTW_H

#include <stdbool.h>
#include <stdint.h>
#include <linux/htw.h>

#ifdef __cplusplus
extern "C" {
#endif

struct htw;
struct htw_dispatcher;

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
 * @setup: clock, tick, geometry, limit and ring as for HTW_SETUP; NULL for the
 *	defaults: CLOCK_MONOTONIC and the module's tick, or 1 ms in the process
 *
 * With %HTW_SETUP_RING the ring is mapped as well, and htw_read() reads from
 * it.
 *
 * In the process backend a ring and a home CPU fail with -ENOTSUP; the limit is
 * at most 2^26, and 2^20 by default; and nothing needs a privilege, so none of
 * HTW_SETUP's causes of -EPERM exists.
 *
 * %HTW_BACKEND_ANY uses the process if the device does not exist, if the caller
 * may not open it, or if the module is older than the library needs. Other
 * errors are returned, so neither a limit nor a wrong @setup silently moves the
 * timers into the process.
 *
 * Return: 0; the errors of opening the device (-ENOENT, -ENODEV, -EACCES, ...);
 * those of HTW_SETUP; -ENOSYS if the module is too old; -ENOTSUP; -EMFILE or
 * -ENFILE if there can be no more descriptors, with either backend; -ENOMEM;
 * -EINVAL for an unknown @backend.
 */
int htw_open(struct htw **htw, enum htw_backend backend,
	     const struct htw_setup *setup);

/**
 * htw_open_fd() - take over a descriptor of the device
 * @htw: out: the handle; not written on failure
 * @fd: the descriptor, inherited or received from another process. It is made
 *	non-blocking, for all who share the open file, and on success belongs to
 *	the handle
 *
 * Its timers stay as they are; htw_list() reports them. Ring and table are not
 * mapped: see htw_map_ring() and htw_map_table().
 *
 * Return: 0; -EINVAL if @fd is not a descriptor of the device; -EBADF; -ENOSYS
 * if the module is too old; -ENOMEM.
 */
int htw_open_fd(struct htw **htw, int fd);

/**
 * htw_close() - free a handle
 * @htw: the handle, which no thread uses any more, or NULL
 *
 * Timers in the process end. Timers of the device end when its last descriptor
 * is closed, in whichever process.
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
 * htw_fd(), htw_read(), htw_wait(), htw_next(), htw_info(), htw_list(),
 * htw_harvest(), htw_cancel_all() and a dispatcher. Only a manual clock is
 * common: htw_advance() of one moves it for all.
 *
 * A handle has at most 255 shards, and the fewer the higher its limit: up to
 * 2^21 timers 255, with 2^26 seven. htw_close() of a shard ends its timers;
 * htw_close() of the handle closes all its shards, which no thread uses any
 * more.
 *
 * The device needs no shards: its timers wait on the CPU that starts them.
 * Threads share a handle or have one each.
 *
 * Return: 0; -ENOSPC if there are as many as there can be; -EMFILE, -ENFILE;
 * -ENOMEM; -ENOTSUP on the device.
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
 * It becomes readable when htw_read() should be called, which may then find
 * nothing. Use it for nothing else, except to pass a device's descriptor to
 * another process. An edge-triggered loop calls htw_read() until it returns
 * less than there was room for: then nothing is left, and what expires later
 * makes it readable anew.
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
 * @info: out: as HTW_INFO
 *
 * Return: 0.
 */
int htw_info(struct htw *htw, struct htw_info *info);

/**
 * htw_reserve() - allocate memory in advance
 * @htw: the handle
 * @count: total number of timers that there shall be room for
 *
 * Afterwards, adds within @count neither fail for lack of memory nor take page
 * faults. The device allocates in the kernel; there, this only compares @count
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
 * @id: out: identifies the timer; never zero, except on failure
 *
 * Return: 0; -ENOSPC if the handle is at its limit, until timers end; -EDQUOT
 * if the user is; -ENOMEM.
 */
int htw_after(struct htw *htw, uint64_t ns, uint64_t cookie, uint64_t *id);

/**
 * htw_at() - start a timer that expires at a point in time
 * @htw: the handle
 * @when: on the handle's clock, see htw_now(); a past time expires at once
 * @cookie: returned with the event
 * @id: out: identifies the timer
 *
 * Return: as htw_after().
 */
int htw_at(struct htw *htw, uint64_t when, uint64_t cookie, uint64_t *id);

/**
 * htw_every() - start a periodic timer
 * @htw: the handle
 * @first: delay of the first firing in ns; zero is at once
 * @interval: period in ns; at least one tick, so not zero
 * @cookie: returned with each event
 * @id: out: identifies the timer until it is stopped; zero on failure
 *
 * The timer keeps its phase, however late its events are read; firings that
 * came due meanwhile are counted in &htw_event.missed, but not those after it
 * was stopped.
 *
 * Return: as htw_after(); -EINVAL for an interval below one tick.
 */
int htw_every(struct htw *htw, uint64_t first, uint64_t interval,
	      uint64_t cookie, uint64_t *id);

/**
 * htw_rearm() - give a timer a new deadline
 * @htw: the handle
 * @id: the timer: pending, expired and not read, or kept
 * @ns: delay from now in ns
 *
 * An expiration that was not read is withdrawn, unless it is in a ring. A
 * periodic timer keeps its period and continues from the new deadline. In the
 * process, an overdue timer that has not been reported as expired is pending.
 *
 * Return: 0; -ENOENT if the timer has ended, was stopped too late, or its last
 * event is in a ring.
 */
int htw_rearm(struct htw *htw, uint64_t id, uint64_t ns);

/**
 * htw_stop() - stop a timer and end its id
 * @htw: the handle
 * @id: the timer
 *
 * When it returns 0, htw_read() returns no event of this id any more, also with
 * a ring, and what the cookie refers to can be freed. When it returns
 * -EALREADY, a last event is still to be read, without %HTW_EVENT_MORE; it
 * comes even if the table has put the timer off, and its &htw_event.missed
 * counts firings up to the stop. With a ring there may be earlier events of the
 * id before it: free what the cookie refers to after the last one, or discard
 * them all, by htw_cancel() with %HTW_CANCEL_DISCARD.
 *
 * In the process, an overdue timer that has not been reported as expired is
 * pending, and is stopped with 0.
 *
 * Return: 0; -EALREADY if the timer has expired and its event is still to be
 * read; -ENOENT if the id has ended.
 */
int htw_stop(struct htw *htw, uint64_t id);

/**
 * htw_add() - start a timer with all options
 * @htw: the handle
 * @add: as HTW_ADD; @add->id is out
 *
 * In the process backend %HTW_F_CANCEL_ON_SET fails with -ENOTSUP, on every
 * clock.
 *
 * Return: 0, or an error of HTW_ADD.
 */
int htw_add(struct htw *htw, struct htw_add *add);

/**
 * htw_cancel() - stop a timer and report what was left
 * @htw: the handle
 * @cancel: as HTW_CANCEL
 *
 * Return: 0, -EALREADY or -ENOENT as htw_stop(); -EINVAL.
 */
int htw_cancel(struct htw *htw, struct htw_cancel *cancel);

/**
 * htw_mod() - change deadline, interval, slack or cookie
 * @htw: the handle
 * @mod: as HTW_MOD
 *
 * Return: 0; -ENOENT; -EINVAL.
 */
int htw_mod(struct htw *htw, const struct htw_mod *mod);

/**
 * htw_query() - report a timer
 * @htw: the handle
 * @query: as HTW_QUERY
 *
 * Return: 0; -ENOENT; -EINVAL.
 */
int htw_query(struct htw *htw, struct htw_query *query);

/**
 * htw_next() - report the pending timer that expires first
 * @htw: the handle
 * @timer: out: as HTW_NEXT
 *
 * Return: 0; -ENOENT if none is pending; -ENOTTY if the module is too old.
 */
int htw_next(struct htw *htw, struct htw_query *timer);

/* Many timers. */

/**
 * htw_add_many() - start many timers
 * @htw: the handle
 * @common: flags, interval, firings and slack of all timers, other fields are
 *	ignored; NULL for one-shot timers with relative deadlines
 * @deadlines: array of deadlines
 * @cookies: array of cookies; NULL for zeroes
 * @ids: out: array of ids; zero where a timer could not be started
 * @count: number of entries
 * @results: out: array of 0 or a negative errno, or NULL
 *
 * A failing entry does not prevent the others from being started.
 *
 * Return: number of failed entries; or -EINVAL or -ENOTSUP, and none was
 * started.
 */
int htw_add_many(struct htw *htw, const struct htw_add *common,
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

/**
 * htw_batch() - carry out operations of different kinds
 * @htw: the handle
 * @ops: as HTW_BATCH; each operation has its own result
 * @count: number of operations
 *
 * All are carried out, in order. If the system refuses to continue, the result
 * of each operation that was not carried out is -ECANCELED.
 *
 * In the process, only its queries expire what is due; see above.
 *
 * Return: number of failed operations; negative, -EINVAL, only if @count is
 * above INT_MAX, and none was carried out.
 */
int htw_batch(struct htw *htw, struct htw_op *ops, unsigned int count);

/* Events. */

/**
 * htw_read() - read expirations
 * @htw: the handle
 * @events: out: in the order in which the timers fired
 * @count: size of the array
 *
 * Does not wait. With a ring it makes no system call unless the ring has
 * overflowed. With a table, an event whose deadline was moved after the timer
 * had expired is not returned; the timer is armed again instead, and has not
 * fired. A last event, without %HTW_EVENT_MORE, is always returned, as is one
 * after which the timer has expired at the deadline that it was moved to.
 *
 * Return: number of events; less than @count means that none is left. Never
 * negative.
 */
int htw_read(struct htw *htw, struct htw_event *events, unsigned int count);

/**
 * htw_wait() - wait until a timer has expired
 * @htw: the handle
 * @timeout: maximum time in ns; negative for no limit. Real time, also with a
 *	manual clock: then it waits for another thread to advance that
 *
 * Return: 1 if there is something to read, though with a ring or a table
 * htw_read() may find it void; 0 after @timeout; -EINTR.
 */
int htw_wait(struct htw *htw, int64_t timeout);

/* All timers. */

/**
 * htw_cancel_all() - cancel every timer
 * @htw: the handle
 * @flags: %HTW_CANCEL_DISCARD to drop expirations that were not read as well
 *
 * Timers that have expired keep their last event otherwise, and are not
 * counted. Of those that are counted no event is read any more, also with a
 * ring.
 *
 * Return: number of timers that were pending or kept; -EINVAL; -ENOMEM, and
 * nothing was cancelled.
 */
int64_t htw_cancel_all(struct htw *htw, unsigned int flags);

/**
 * htw_list() - report pending timers
 * @htw: the handle
 * @cursor: zero for the first call, then as the previous call left it
 * @entries: out: the timers
 * @count: size of the array
 *
 * A timer that stays pending throughout is reported exactly once, whatever
 * happens to others.
 *
 * Return: number of entries; zero at the end; -EINVAL for a cursor above
 * 2^32 - 1.
 */
int htw_list(struct htw *htw, uint64_t *cursor, struct htw_query *entries,
	     unsigned int count);

/**
 * htw_list_in() - report timers in given states
 * @htw: the handle
 * @states: of &enum htw_list_flag: pending, expired and not read, disarmed
 * @cursor: as for htw_list()
 * @entries: out: the timers
 * @count: size of the array
 *
 * With kept timers and %HTW_LIST_DISARMED, the successor of a process that died
 * finds the timers whose events that process had read but not handled.
 *
 * Return: as htw_list(); -EINVAL for an unknown state or an older module.
 */
int htw_list_in(struct htw *htw, unsigned int states, uint64_t *cursor,
		struct htw_query *entries, unsigned int count);

/**
 * htw_harvest() - remove and report pending timers
 * @htw: the handle
 * @entries: out: the timers, whose ids have ended
 * @count: size of the array
 *
 * Return: number of entries; zero if no timer is pending.
 */
int htw_harvest(struct htw *htw, struct htw_query *entries, unsigned int count);

/**
 * htw_advance() - move a manual clock (%HTW_CLOCK_MANUAL) forward
 * @htw: the handle
 * @ns: by how much; with %HTW_F_ABS, the time to move to
 * @flags: %HTW_F_ABS or zero
 *
 * Return: number of timers that expired, in all shards; -EINVAL for another
 * clock or an earlier time.
 */
int64_t htw_advance(struct htw *htw, uint64_t ns, unsigned int flags);

/* What only the device has. */

/**
 * htw_map_ring() - map the ring of expirations
 * @htw: the handle, from htw_open_fd(), of a device that was set up with a ring
 *
 * Afterwards htw_read() reads from the ring. Only one process may read from it
 * at a time; see above for fork().
 *
 * Return: 0, also if it is mapped already; -ENXIO without a ring; -ENOMEM;
 * -ENOTSUP in the process backend.
 */
int htw_map_ring(struct htw *htw);

/**
 * htw_map_table() - map the table of deadlines
 * @htw: the handle
 *
 * Afterwards htw_put_off() can move deadlines, and all timers are kept as with
 * %HTW_F_KEEP: their events have %HTW_EVENT_MORE, and an id ends with
 * htw_stop(). Several processes may map the table.
 *
 * Return: 0, also if it is mapped already; -ENOMEM; -ENOTSUP in the process
 * backend.
 */
int htw_map_table(struct htw *htw);

/**
 * htw_put_off() - move a deadline later by a store
 * @htw: the handle, after htw_map_table()
 * @id: the timer, which has not ended
 * @when: on the handle's clock, not before the timer's present deadline; or
 *	%HTW_DISARMED
 *
 * Makes no system call, but for the first id on each page of the table. If the
 * timer has expired and its event was not read, htw_read() arms it again,
 * unless it was stopped too late. An earlier deadline takes effect only when
 * the present one comes; use htw_rearm() instead.
 *
 * Return: 0; -ENOENT if no timer can have that id; -ENXIO without a table;
 * -ENOTSUP in the process backend.
 */
int htw_put_off(struct htw *htw, uint64_t id, uint64_t when);

/**
 * htw_table_word() - get the address of a timer's entry in the table
 * @htw: the handle, after htw_map_table()
 * @id: the timer, which has not ended
 *
 * For loops in which a call of htw_put_off() is too expensive. The address is
 * valid until the timer is stopped. Only store to it, atomically:
 * __atomic_store_n(word, when, __ATOMIC_RELAXED).
 *
 * Return: the address; NULL where htw_put_off() would fail.
 */
uint64_t *htw_table_word(struct htw *htw, uint64_t id);

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
 * keep one from returning. Other threads may start, move and stop calls
 * meanwhile.
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
 * runs, its result is not used.
 *
 * Return: when to call next, or %HTW_NO_MORE.
 */
typedef uint64_t htw_next_fn(uint64_t previous, void *arg);

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
 * dispatcher needs another one. Any thread may ask it (htw_now(), htw_info(),
 * htw_query(), htw_list(), htw_next()), wait for it with htw_wait(), and
 * advance a manual clock, also from within a call. After htw_cancel_all() or
 * htw_harvest() by others, the calls are not made, unless they are moved.
 *
 * Return: 0; -ENOMEM.
 */
int htw_dispatcher_new(struct htw_dispatcher **d, struct htw *htw);

/**
 * htw_dispatcher_free() - free a dispatcher
 * @d: the dispatcher, or NULL. Not from within one of its calls
 *
 * Pending calls are not made. The handle stays open, without the dispatcher's
 * timers and their events. No other thread uses the dispatcher any more.
 */
void htw_dispatcher_free(struct htw_dispatcher *d);

/**
 * htw_dispatcher_shutdown() - end pending calls and report them
 * @d: the dispatcher
 * @pending: out: the calls, in no particular order
 * @count: size of the array
 *
 * Call it again while it returns @count. A call that is running is among them
 * if it would have been made again.
 *
 * The arguments of the calls that it reports can be freed, but for one that is
 * running: its function may use it until htw_call_stop() no longer returns
 * -EALREADY. A call that is running and not reported is as before. The
 * dispatcher can be used afterwards as before.
 *
 * Return: number of calls reported, which have ended.
 */
unsigned int htw_dispatcher_shutdown(struct htw_dispatcher *d,
				     struct htw_pending_call *pending,
				     unsigned int count);

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
 * Makes at most 1,024 calls. While the result is positive, more may be due;
 * otherwise nothing was, when it looked. So an edge-triggered loop calls it
 * with a timeout of zero until the result is not positive. A level-triggered
 * one may call it once.
 *
 * If a call that was started or moved from within a call cannot be because of a
 * limit, it is not lost: each htw_dispatch() tries again, and does not wait
 * until that succeeds or the call is stopped. It returns the error, also if it
 * has made calls, once nothing is due.
 *
 * Return: number of calls made; -EINTR; -EBUSY if it is running already, also
 * from within a call; -ENOSPC, -EDQUOT or -ENOMEM as above.
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
 * @interval: period in ns; at least one tick
 * @fn: the function
 * @arg: its argument
 * @call: out: identifies the call until it is stopped; or NULL
 *
 * The call keeps its phase. If the program was too late for several, it is
 * called once for all of them: see htw_call_missed().
 *
 * Return: as htw_call_after(); -EINVAL for an interval below one tick.
 */
int htw_call_every(struct htw_dispatcher *d, uint64_t first, uint64_t interval,
		   htw_call_fn *fn, void *arg, uint64_t *call);

/**
 * htw_call_schedule() - call a function at times that another function determines
 * @d: the dispatcher
 * @next: called now for the first time, and before each call for the one after
 *	it
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
 * htw_call_missed() - get the number of missed firings of a periodic call
 * @d: the dispatcher
 * @call: the call, from within its function
 *
 * Return: firings that came due before this call was made, beyond the first.
 */
uint64_t htw_call_missed(struct htw_dispatcher *d, uint64_t call);

#ifdef __cplusplus
}
#endif

#endif /* LIBHTW_H */
