/* SPDX-License-Identifier: MIT */
/*
 * libhtw - millions of timeouts, in the kernel or in the process
 *
 * One interface with two backends. The device, /dev/htw, keeps the timers in the
 * kernel: several processes can share them, they outlive the program that started
 * them, and the program is not woken before one of them has expired. In the
 * process, the same timing wheel is part of the program and paced by one timerfd:
 * that needs no module, takes no system call for an operation, and serves one
 * process. The caller chooses.
 *
 * On both, a timer is never early and at most one tick late, expires exactly once
 * for each time it was armed, and is known by an id that is not used again.
 * What a timer is told, and what it tells, is in the structures of <linux/htw.h>.
 *
 * Times are in nanoseconds. Functions that return int or int64_t return a
 * negative errno where they fail. What only the device can do fails with
 * -ENOTSUP in the process. All functions may be called by several threads at
 * once, unless they say otherwise. After fork(), the child must not use a handle
 * whose timers are in the process.
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
 * @HTW_BACKEND_ANY: by the device if it can be opened, else in this process
 */
enum htw_backend {
	HTW_BACKEND_DEVICE	= 1,
	HTW_BACKEND_PROCESS	= 2,
	HTW_BACKEND_ANY		= 3,
};

/**
 * htw_version() - which version of the library this is
 *
 * Return: for people, such as "0.1.0".
 */
const char *htw_version(void);

/**
 * htw_open() - makes a set of timers
 * @htw: out: the handle
 * @backend: where they are to be kept
 * @setup: clock, tick, geometry, limit, ring, as HTW_SETUP takes them; NULL for
 *	the defaults: CLOCK_MONOTONIC, at 1 ms unless the module was loaded with
 *	another tick
 *
 * A ring of expirations (%HTW_SETUP_RING) is mapped, and htw_read() takes from it.
 *
 * In the process, a ring and a home CPU are -ENOTSUP, a limit is at most 2^26, and
 * at 2^20 unless it is set.
 *
 * %HTW_BACKEND_ANY takes the process where the device is not there or may not be
 * opened. All other errors of the device are errors, so a set never ends up
 * in the process because a limit was reached, or because of a wrong @setup.
 *
 * Return: 0; -ENOENT, -ENODEV, -EACCES and what else opening the device can fail
 * with; -EINVAL, -ERANGE, -EPERM, -EDQUOT or -ENOMEM as HTW_SETUP; -ENOTSUP.
 */
int htw_open(struct htw **htw, enum htw_backend backend, const struct htw_setup *setup);

/**
 * htw_open_fd() - takes over a descriptor of the device
 * @htw: out: the handle
 * @fd: the descriptor, inherited or received from another process. It is made
 *	non-blocking, for all who share it, and belongs to the handle if this
 *	succeeds
 *
 * Timers that are pending stay as they are; htw_list() tells which there are. Ring
 * and table are not mapped: see htw_map_ring() and htw_map_table().
 *
 * Return: 0; -EINVAL where that is no descriptor of the device; -EBADF; -ENOMEM.
 */
int htw_open_fd(struct htw **htw, int fd);

/**
 * htw_close() - ends a set of timers
 * @htw: the handle, or NULL. Nobody may use it any more
 *
 * In the process all its timers end. On the device they end with the last
 * descriptor: those that other processes have keep them.
 */
void htw_close(struct htw *htw);

/**
 * htw_backend() - where are the timers?
 * @htw: the handle
 *
 * Return: %HTW_BACKEND_DEVICE or %HTW_BACKEND_PROCESS.
 */
enum htw_backend htw_backend(const struct htw *htw);

/**
 * htw_fd() - what to give to poll(), epoll or an event loop
 * @htw: the handle
 *
 * Readable when htw_read() should be called; there may be nothing after all. Do
 * nothing else with it, but for the device's being passed to another process.
 * Edge-triggered, call htw_read() until it returns less than it was given room
 * for.
 *
 * Return: the descriptor, which stays the handle's.
 */
int htw_fd(const struct htw *htw);

/**
 * htw_now() - reads the clock that deadlines are on
 * @htw: the handle
 *
 * A manual clock of the device is known as far as it was advanced by this handle.
 *
 * Return: the time in ns.
 */
uint64_t htw_now(struct htw *htw);

/**
 * htw_info() - tells tick, geometry, clock, limit and how many timers there are
 * @htw: the handle
 * @info: out: as HTW_INFO
 *
 * Return: 0.
 */
int htw_info(struct htw *htw, struct htw_info *info);

/**
 * htw_reserve() - makes room ahead
 * @htw: the handle
 * @count: for how many timers there is to be room in all
 *
 * Adds then cannot fail for want of memory, nor do they cost page faults. On the
 * device, whose memory is the kernel's, this only looks at the limit.
 *
 * Return: 0; -ENOSPC beyond the limit; -ENOMEM.
 */
int htw_reserve(struct htw *htw, uint64_t count);

/* One timer. */

/**
 * htw_after() - starts a timer
 * @htw: the handle
 * @ns: in how many ns it is to expire; zero: at once
 * @cookie: handed back with the event
 * @id: out: names it from now on; never zero
 *
 * Return: 0; -ENOSPC at the limit, which recovers as timers end; -EDQUOT at the
 * user's; -ENOMEM.
 */
int htw_after(struct htw *htw, uint64_t ns, uint64_t cookie, uint64_t *id);

/**
 * htw_at() - starts a timer, for a point in time
 * @htw: the handle
 * @when: on the handle's clock, see htw_now(); past: at once
 * @cookie: handed back with the event
 * @id: out: names it from now on
 *
 * Return: as htw_after().
 */
int htw_at(struct htw *htw, uint64_t when, uint64_t cookie, uint64_t *id);

/**
 * htw_every() - starts a periodic timer
 * @htw: the handle
 * @first: in how many ns it is to expire first
 * @interval: how many ns apart; at least one tick
 * @cookie: handed back with each event
 * @id: out: names it, until it is stopped
 *
 * It keeps its phase, whenever its events are read. Firings for which the reader
 * was late are counted in &htw_event.missed.
 *
 * Return: as htw_after(); -EINVAL for an interval below one tick.
 */
int htw_every(struct htw *htw, uint64_t first, uint64_t interval, uint64_t cookie,
	      uint64_t *id);

/**
 * htw_rearm() - gives a timer another deadline
 * @htw: the handle
 * @id: the timer, pending, or expired and not read, or kept
 * @ns: in how many ns from now
 *
 * An expiration that was not read is taken back, unless it stands in a ring.
 *
 * Return: 0; -ENOENT for one that has ended, or whose last event stands in a ring.
 */
int htw_rearm(struct htw *htw, uint64_t id, uint64_t ns);

/**
 * htw_stop() - stops a timer and ends its id
 * @htw: the handle
 * @id: the timer
 *
 * With 0, no event of this id is read from now on, on a ring either: what the
 * cookie stands for can be freed.
 *
 * Return: 0; -EALREADY where it has expired, and its event is still to be
 * read; -ENOENT where the id has ended.
 */
int htw_stop(struct htw *htw, uint64_t id);

/**
 * htw_add() - starts a timer, with all there is to say
 * @htw: the handle
 * @add: as HTW_ADD; @add->id is out
 *
 * In the process %HTW_F_CANCEL_ON_SET is -ENOTSUP.
 *
 * Return: 0, or as &struct htw_add tells.
 */
int htw_add(struct htw *htw, struct htw_add *add);

/**
 * htw_cancel() - stops a timer and tells what was left
 * @htw: the handle
 * @cancel: as HTW_CANCEL
 *
 * Return: 0, -EALREADY or -ENOENT, as htw_stop(); -EINVAL.
 */
int htw_cancel(struct htw *htw, struct htw_cancel *cancel);

/**
 * htw_mod() - changes deadline, interval, slack or cookie
 * @htw: the handle
 * @mod: as HTW_MOD
 *
 * Return: 0; -ENOENT; -EINVAL.
 */
int htw_mod(struct htw *htw, const struct htw_mod *mod);

/**
 * htw_query() - tells about a timer
 * @htw: the handle
 * @query: as HTW_QUERY
 *
 * Return: 0; -ENOENT; -EINVAL.
 */
int htw_query(struct htw *htw, struct htw_query *query);

/**
 * htw_next() - which timer expires first?
 * @htw: the handle
 * @timer: out: the timer, as HTW_NEXT tells of it
 *
 * Return: 0; -ENOENT where none is pending; -ENOTTY where the module is too old.
 */
int htw_next(struct htw *htw, struct htw_query *timer);

/* Many timers. */

/**
 * htw_add_many() - starts many timers
 * @htw: the handle
 * @common: flags, interval, firings and slack of all of them; the rest is not
 *	looked at. NULL for one-shot timers, from now
 * @deadlines: a deadline each
 * @cookies: a cookie each, or NULL, and all are zero
 * @ids: out: an id each, zero where one could not be started
 * @count: how many
 * @results: out: 0 or a negative errno each, or NULL
 *
 * One that fails does not keep the others from being started.
 *
 * Return: how many failed; or -EINVAL or -ENOTSUP, and none was started.
 */
int htw_add_many(struct htw *htw, const struct htw_add *common, const uint64_t *deadlines,
		 const uint64_t *cookies, uint64_t *ids, unsigned int count, int *results);

/**
 * htw_rearm_many() - gives many timers another deadline
 * @htw: the handle
 * @ids: the timers
 * @deadlines: a deadline each, in ns from now, or on the clock with %HTW_F_ABS
 * @count: how many
 * @flags: %HTW_F_ABS or zero
 * @results: out: 0 or -ENOENT each, or NULL
 *
 * Return: how many failed; or -EINVAL, and none was changed.
 */
int htw_rearm_many(struct htw *htw, const uint64_t *ids, const uint64_t *deadlines,
		   unsigned int count, unsigned int flags, int *results);

/**
 * htw_stop_many() - stops many timers
 * @htw: the handle
 * @ids: the timers
 * @count: how many
 * @results: out: what htw_stop() would return each, or NULL
 *
 * Return: for how many that was not 0.
 */
int htw_stop_many(struct htw *htw, const uint64_t *ids, unsigned int count, int *results);

/**
 * htw_batch() - carries out operations of any kind
 * @htw: the handle
 * @ops: as HTW_BATCH; each has its result
 * @count: how many
 *
 * All are carried out, in order; the result of one that could not be, because
 * the system refused to go on, is -ECANCELED.
 *
 * Return: how many failed.
 */
int htw_batch(struct htw *htw, struct htw_op *ops, unsigned int count);

/* Events. */

/**
 * htw_read() - takes expirations
 * @htw: the handle
 * @events: out: in the order in which the timers fired
 * @count: how many there is room for
 *
 * Does not wait. On a ring it takes no system call unless the ring had
 * overflowed. With a table it looks once more whether the deadline has been moved
 * meanwhile, and if so arms the timer again and keeps the event.
 *
 * Return: how many; zero where none has expired.
 */
int htw_read(struct htw *htw, struct htw_event *events, unsigned int count);

/**
 * htw_wait() - waits until a timer has expired
 * @htw: the handle
 * @timeout: in ns, at most; negative: as long as it takes
 *
 * Return: 1 when there is something to read; 0 after the timeout; -EINTR.
 */
int htw_wait(struct htw *htw, int64_t timeout);

/* All timers. */

/**
 * htw_cancel_all() - ends every id
 * @htw: the handle
 * @flags: %HTW_CANCEL_DISCARD: drop expirations that wait to be read as well
 *
 * Return: how many were pending or kept; -EINVAL.
 */
int64_t htw_cancel_all(struct htw *htw, unsigned int flags);

/**
 * htw_list() - tells what is pending
 * @htw: the handle
 * @cursor: zero to begin with, then as the last call left it
 * @entries: out: what is pending
 * @count: how many there is room for
 *
 * What is pending all the while is told once, whatever others do meanwhile.
 *
 * Return: how many were told; zero at the end.
 */
int htw_list(struct htw *htw, uint64_t *cursor, struct htw_query *entries,
	     unsigned int count);

/**
 * htw_list_in() - tells which timers are in certain states
 * @htw: the handle
 * @states: of &enum htw_list_flag: pending, expired and not read, kept and disarmed
 * @cursor: as for htw_list()
 * @entries: out: the timers
 * @count: how many there is room for
 *
 * A program that takes over from one that died finds what that had read and not
 * stopped: with %HTW_LIST_DISARMED, if its timers are kept.
 *
 * Return: as htw_list(); -EINVAL for an unknown state, or an older module.
 */
int htw_list_in(struct htw *htw, unsigned int states, uint64_t *cursor,
		struct htw_query *entries, unsigned int count);

/**
 * htw_harvest() - takes out what is pending, and ends it
 * @htw: the handle
 * @entries: out: what was pending
 * @count: how many there is room for
 *
 * Return: how many were taken out; zero where nothing is pending.
 */
int htw_harvest(struct htw *htw, struct htw_query *entries, unsigned int count);

/**
 * htw_advance() - moves a manual clock (%HTW_CLOCK_MANUAL) on
 * @htw: the handle
 * @ns: by how much; to which time with %HTW_F_ABS
 * @flags: %HTW_F_ABS or zero
 *
 * Return: how many timers expired; -EINVAL for another clock, or backwards.
 */
int64_t htw_advance(struct htw *htw, uint64_t ns, unsigned int flags);

/* What only the device has. */

/**
 * htw_map_ring() - maps the ring of expirations
 * @htw: the handle, from htw_open_fd(), of a device that was set up with a ring
 *
 * htw_read() takes expirations from the ring from now on. One process at a time may
 * do that. A child does not inherit the mapping: it takes the descriptor over with
 * htw_open_fd(), and does not use its parent's handle.
 *
 * Return: 0, also where it is mapped already; -ENXIO without a ring; -ENOMEM;
 * -ENOTSUP in the process.
 */
int htw_map_ring(struct htw *htw);

/**
 * htw_map_table() - maps the table of deadlines
 * @htw: the handle
 *
 * From now on htw_put_off() moves a deadline, timers are kept as with
 * %HTW_F_KEEP, and so their events say %HTW_EVENT_MORE: an id ends with
 * htw_stop(). Several processes may map it.
 *
 * Return: 0, also where it is mapped already; -ENOMEM; -ENOTSUP in the process.
 */
int htw_map_table(struct htw *htw);

/**
 * htw_put_off() - moves a deadline later, by a store
 * @htw: the handle, after htw_map_table()
 * @id: the timer, which has not ended
 * @when: on the handle's clock, not before the deadline that the timer has; or
 *	%HTW_DISARMED
 *
 * No system call. If the timer has expired but its event was not read, htw_read()
 * arms it again. An earlier deadline has an effect only when the old one comes:
 * use htw_rearm() for that.
 *
 * Return: 0; -ENOENT where no timer has that id's place; -ENXIO without a table;
 * -ENOTSUP in the process.
 */
int htw_put_off(struct htw *htw, uint64_t id, uint64_t when);

/**
 * htw_table_word() - where a timer's deadline is in the table
 * @htw: the handle, after htw_map_table()
 * @id: the timer, which has not ended
 *
 * For loops in which even the call of htw_put_off() is too much. The word is valid
 * until the timer is stopped; store to it atomically, nothing else:
 * __atomic_store_n(word, when, __ATOMIC_RELAXED).
 *
 * Return: its word, or NULL where htw_put_off() would fail.
 */
uint64_t *htw_table_word(struct htw *htw, uint64_t id);

/*
 * The dispatcher: functions to be called at their time
 *
 * For those who come from libevent's, Go's or Java's timers. A call is known by a
 * handle that is a number, not a pointer: one that has ended is -ENOENT, whatever
 * has become of its memory.
 *
 * Calls are made by htw_dispatch(), in the thread that calls it, one after the
 * other. What they start, move or stop is gathered, and given to the backend
 * with a few system calls when all have been made.
 */

/**
 * typedef htw_call_fn - a function to be called
 * @d: the dispatcher
 * @call: which call it is: it may be moved or stopped from here
 * @arg: what it was started with
 */
typedef void htw_call_fn(struct htw_dispatcher *d, uint64_t call, void *arg);

/**
 * typedef htw_next_fn - says when to call next
 * @previous: when the last call was due, on the handle's clock; when it is asked
 *	for the first, now
 * @arg: what the call was started with
 *
 * Return: the point in time of the next call, or %HTW_NO_MORE.
 */
typedef uint64_t htw_next_fn(uint64_t previous, void *arg);

/** HTW_NO_MORE - what a htw_next_fn returns to end its call */
#define HTW_NO_MORE		(~0ULL)

/**
 * struct htw_pending_call - a call that was still to be made
 * @fn: what would have been called
 * @arg: with what
 * @call: its handle
 * @deadline: when, on the handle's clock
 * @interval: zero for one that is not periodic
 */
struct htw_pending_call {
	htw_call_fn *fn;
	void *arg;
	uint64_t call;
	uint64_t deadline;
	uint64_t interval;
};

/**
 * htw_dispatcher_new() - makes a dispatcher
 * @d: out: the dispatcher
 * @htw: its timers; nobody else may start or read any of this handle
 *
 * Return: 0; -ENOMEM.
 */
int htw_dispatcher_new(struct htw_dispatcher **d, struct htw *htw);

/**
 * htw_dispatcher_free() - ends a dispatcher
 * @d: the dispatcher, or NULL; not one of its own calls may do this
 *
 * What is pending will not be called. The handle stays, with none of the
 * dispatcher's timers.
 */
void htw_dispatcher_free(struct htw_dispatcher *d);

/**
 * htw_dispatcher_shutdown() - takes back what is still to be called
 * @d: the dispatcher
 * @pending: out: the calls, in no order
 * @count: how many there is room for
 *
 * Those that are told have ended. To be called again while it returns @count.
 *
 * Return: how many were told.
 */
unsigned int htw_dispatcher_shutdown(struct htw_dispatcher *d,
				     struct htw_pending_call *pending, unsigned int count);

/**
 * htw_dispatcher_set_slack() - how much later calls may come to share a wake-up
 * @d: the dispatcher
 * @slack: in ns; counts for what is started from now on
 */
void htw_dispatcher_set_slack(struct htw_dispatcher *d, uint64_t slack);

/**
 * htw_dispatcher_fd() - what to give to poll(), epoll or an event loop
 * @d: the dispatcher
 *
 * Return: htw_fd() of its timers: htw_dispatch() is to be called when it is readable.
 */
int htw_dispatcher_fd(const struct htw_dispatcher *d);

/**
 * htw_dispatch() - makes the calls that are due
 * @d: the dispatcher
 * @timeout: in ns, how long to wait for the first at most; zero: do not wait;
 *	negative: as long as it takes
 *
 * Return: how many calls were made; -EINTR; -EBUSY where it is running already.
 */
int htw_dispatch(struct htw_dispatcher *d, int64_t timeout);

/**
 * htw_call_after() - has a function called once
 * @d: the dispatcher
 * @ns: in how many ns
 * @fn: the function
 * @arg: its argument
 * @call: out: names the call until it has been made, or NULL
 *
 * Return: 0; -ENOMEM; -ENOSPC or -EDQUOT at a limit. Started from within a call,
 * a limit shows only when all have been made: htw_dispatch() then fails so.
 */
int htw_call_after(struct htw_dispatcher *d, uint64_t ns, htw_call_fn *fn, void *arg,
		   uint64_t *call);

/**
 * htw_call_at() - has a function called once, at a point in time
 * @d: the dispatcher
 * @when: on the handle's clock
 * @fn: the function
 * @arg: its argument
 * @call: out: names the call until it has been made, or NULL
 *
 * Return: as htw_call_after().
 */
int htw_call_at(struct htw_dispatcher *d, uint64_t when, htw_call_fn *fn, void *arg,
		uint64_t *call);

/**
 * htw_call_every() - has a function called again and again
 * @d: the dispatcher
 * @first: in how many ns for the first time
 * @interval: how many ns apart; at least one tick
 * @fn: the function
 * @arg: its argument
 * @call: out: names the call until it is stopped, or NULL
 *
 * It keeps its phase. Where the program was late for some, it is called once for
 * them all: see htw_call_missed().
 *
 * Return: as htw_call_after(); -EINVAL for an interval below one tick.
 */
int htw_call_every(struct htw_dispatcher *d, uint64_t first, uint64_t interval,
		   htw_call_fn *fn, void *arg, uint64_t *call);

/**
 * htw_call_schedule() - has a function called when another one says
 * @d: the dispatcher
 * @next: says when; asked at once, and before each call, for the one that follows
 * @fn: the function
 * @arg: the argument of both
 * @call: out: names the call until @next has returned %HTW_NO_MORE, or NULL
 *
 * Return: as htw_call_after(); -EINVAL where there is to be none at all.
 */
int htw_call_schedule(struct htw_dispatcher *d, htw_next_fn *next, htw_call_fn *fn, void *arg,
		      uint64_t *call);

/**
 * htw_call_again() - moves a call, or makes one that is running come again
 * @d: the dispatcher
 * @call: its handle
 * @ns: in how many ns from now
 *
 * A periodic one goes on from there.
 *
 * Return: 0; -ENOENT for one that has ended.
 */
int htw_call_again(struct htw_dispatcher *d, uint64_t call, uint64_t ns);

/**
 * htw_call_stop() - stops a call
 * @d: the dispatcher
 * @call: its handle
 *
 * Return: 0 where it will not be made, so that its argument can be freed;
 * -EALREADY where it is running at this moment, and will not be made again;
 * -ENOENT where it had ended.
 */
int htw_call_stop(struct htw_dispatcher *d, uint64_t call);

/**
 * htw_call_missed() - for how many firings of a periodic call nobody was there
 * @d: the dispatcher
 * @call: its handle, from within the call
 *
 * Return: how many more than one came due before this call was made.
 */
uint64_t htw_call_missed(struct htw_dispatcher *d, uint64_t call);

#ifdef __cplusplus
}
#endif

#endif /* LIBHTW_H */
