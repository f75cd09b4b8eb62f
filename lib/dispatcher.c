// SPDX-License-Identifier: MIT
/*
 * The dispatcher: call functions when they are due
 *
 * A call's handle is its timer's cookie, and calls.c finds the call of any
 * number. So an event never leads to freed memory, and that of a call which has
 * ended is void. If a call is moved when an event of its old time has been read,
 * that event is made void.
 *
 * What functions ask for is deferred, and passed to the backend in the order in
 * which it was asked, in vectors, after all functions of a dispatch have
 * run. Requests that fail at a limit are kept, and tried again.
 *
 * Events are read into a queue of the dispatcher, which survives the run that
 * has read them: a function may be left by an exception, by pthread_exit() or
 * pthread_cancel(), for which abandon_run() is a cleanup handler, or by
 * longjmp(). The latter is found when the same thread uses the dispatcher again
 * and is not within a call: its stack does not reach down to where
 * htw_dispatch() was. In each case the run is ended as if the function had
 * returned, and the next one goes on with the queue.
 *
 * The lock guards everything but the backend's own state. It is not held while
 * functions run or htw_dispatch() waits, and not for longer than a batch takes.
 * A thread that dispatches can be cancelled only then.
 *
 * A call that has ended stays in the table, marked as ended, while its argument
 * is given back, which is done without the lock: htw_call_stop_wait() waits for
 * that, too. To all others there is no such call any more.
 */
#include "calls.h"
#include "fork.h"
#include "lock.h"
#include "stack.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Events read at a time, requests in a batch, and rounds after which htw_dispatch() returns. */
#define EVENTS		64
#define ROUNDS		8

/* How often a start that failed at a limit is tried again while htw_dispatch() waits. */
#define RETRY_NS	(20 * HTW_MSEC)

/* How many times in the past htw_call_schedule() passes over in one call. */
#define PASSED_MAX	65536u

/**
 * struct htw_dispatcher - a dispatcher
 * @htw: its timers
 * @tick_ns: their tick
 * @process: number of the process that may use it
 * @slack: for calls started from now on
 * @release: gives back the arguments of calls that have ended, or NULL
 * @calls: the calls
 * @asked: calls to be started or moved, in the order asked
 * @blocked: calls that could not be started, in the same order
 * @error: why
 * @told: htw_dispatch() has returned @error already; it does so once, until all of @blocked have
 *	been started
 * @ended: timers to be stopped
 * @nr_ended: number of them
 * @events: events that were read; the cookie of a void one is zero
 * @nr_events: number of them
 * @taken: how many of them have been taken
 * @running: htw_dispatch() is running
 * @run: its number, so that a run finds out that it was taken for abandoned
 * @thread: its thread
 * @tid: the kernel's number of that
 * @frame: its place on the stack
 * @current: the call whose function is running, or zero
 * @current_stopped: that call was stopped
 * @missed: firings missed before that call
 * @nr_waiting: threads that wait until it has returned
 * @returned: what they wait for, and that arguments have been given back
 * @return_lock: for @returned; taken with @lock held
 * @lock: guards all fields
 */
struct htw_dispatcher {
	struct htw *htw;
	u64 tick_ns;
	u32 process;
	u64 slack;
	htw_release_fn *release;
	struct calls calls;
	struct list_head asked;
	struct list_head blocked;
	int error;
	bool told;
	u64 ended[EVENTS];
	u32 nr_ended;
	struct htw_event events[EVENTS];
	u32 nr_events;
	u32 taken;
	bool running;
	u64 run;
	pthread_t thread;
	pid_t tid;
	struct stack_frame frame;
	u64 current;
	bool current_stopped;
	u64 missed;
	u32 nr_waiting;
	pthread_cond_t returned;
	pthread_mutex_t return_lock;
	struct htw_lock lock;
};

/* Passing requests to the backend. */

/* Stop the timers of calls that have ended. */
static void stop_ended(struct htw_dispatcher *d)
{
	int results[EVENTS];
	u32 i;

	htw_stop_many(d->htw, d->ended, d->nr_ended, results);
	for (i = 0; i < d->nr_ended; i++)
		/* Or the system has refused to take many. */
		if (results[i] && results[i] != -ENOENT)
			htw_stop(d->htw, d->ended[i]);
	d->nr_ended = 0;
}

static void drop_timer(struct htw_dispatcher *d, u64 timer)
{
	if (!timer)
		return;
	if (d->nr_ended == EVENTS)
		stop_ended(d);
	d->ended[d->nr_ended++] = timer;
}

static struct htw_add_args add_of(const struct call *c)
{
	return (struct htw_add_args){
		.deadline = c->deadline,
		.interval = c->scheduled ? 0 : c->interval,
		.slack = htw_arith_decode_slack(c->slack),
		.cookie = c->handle,
		.flags = HTW_F_ABS,
	};
}

static struct htw_mod_args mod_of(const struct call *c)
{
	return (struct htw_mod_args){
		.id = c->timer,
		.deadline = c->deadline,
		.flags = HTW_MOD_DEADLINE | HTW_F_ABS,
	};
}

static int start_timer(struct htw_dispatcher *d, struct call *c)
{
	struct htw_add_args add = add_of(c);
	int ret = htw_add(d->htw, &add);

	if (!ret)
		c->timer = add.id;
	return ret;
}

/* Move the timer of a call; start another one if it has ended. */
static int move_timer(struct htw_dispatcher *d, struct call *c)
{
	int ret = -ENOENT;

	if (c->timer) {
		struct htw_mod_args mod = mod_of(c);

		ret = htw_mod(d->htw, &mod);
	}
	return ret == -ENOENT ? start_timer(d, c) : ret;
}

/* Can the timer of a call be started or moved in one vector with that of another one? */
static bool is_alike(const struct call *c, const struct call *other)
{
	if (c->timer || other->timer)
		return c->timer && other->timer;
	return add_of(c).interval == add_of(other).interval && c->slack == other->slack;
}

/* Start or move the timers of calls that are alike. */
static void pass_on_alike(struct htw_dispatcher *d, struct call *const *calls, unsigned int count,
			  int *results)
{
	u64 ids[EVENTS], deadlines[EVENTS], cookies[EVENTS];
	const struct htw_add_args common = add_of(calls[0]);
	unsigned int i;
	int ret;

	for (i = 0; i < count; i++) {
		ids[i] = calls[i]->timer;
		deadlines[i] = calls[i]->deadline;
		cookies[i] = calls[i]->handle;
	}
	if (calls[0]->timer) {
		htw_rearm_many(d->htw, ids, deadlines, count, HTW_F_ABS, results);
		return;
	}
	ret = htw_add_many(d->htw, &common, deadlines, cookies, ids, count, results);
	for (i = 0; i < count; i++) {
		if (ret < 0)
			results[i] = ret;
		else if (!results[i])
			calls[i]->timer = ids[i];
	}
}

/*
 * Start or move the timers of the first calls of a list, at most @most of them.
 *
 * Return: whether some failed; they are in @failed.
 */
static bool pass_on(struct htw_dispatcher *d, struct list_head *list, unsigned int most,
		    struct list_head *failed)
{
	struct call *calls[EVENTS];
	bool moved[EVENTS];
	int results[EVENTS];
	unsigned int n, i, end;

	for (n = 0; n < most && !list_empty(list); n++) {
		calls[n] = list_first_entry(list, struct call, list);
		moved[n] = calls[n]->timer;
		list_del_init(&calls[n]->list);
	}
	for (i = 0; i < n; i = end) {
		for (end = i + 1; end < n && is_alike(calls[i], calls[end]); end++)
			;
		pass_on_alike(d, calls + i, end - i, results + i);
	}
	for (i = 0; i < n; i++) {
		struct call *c = calls[i];
		int error = results[i];

		if (moved[i] && error == -ENOENT) {
			/* Something else has stopped it. */
			c->timer = 0;
			error = start_timer(d, c);
		}
		if (error) {
			d->error = error;
			list_add_tail(&c->list, failed);
		}
	}
	return !list_empty(failed);
}

/* Let other threads have the lock. */
static void relax_lock(struct htw_dispatcher *d)
{
	htw_lock_give_way(&d->lock);
}

/*
 * Pass all requests to the backend. Those that fail are blocked; if one is still
 * blocked, it is assumed that all are. The lock is released in between.
 */
static void flush_requests(struct htw_dispatcher *d)
{
	LIST_HEAD(failed);
	unsigned int most;

	stop_ended(d);
	for (most = 1; !list_empty(&d->blocked); most = EVENTS) {
		if (pass_on(d, &d->blocked, most, &failed)) {
			list_splice_init(&failed, &d->blocked);
			break;
		}
		relax_lock(d);
	}
	while (!list_empty(&d->asked)) {
		pass_on(d, &d->asked, EVENTS, &failed);
		list_splice_tail_init(&failed, &d->blocked);
		relax_lock(d);
	}
	if (list_empty(&d->blocked))
		d->told = false;
}

/* Calls. */

/* Find a call that has not ended. */
static struct call *find_call(const struct htw_dispatcher *d, u64 handle)
{
	struct call *c = calls_find(&d->calls, handle);

	return c && !c->ended ? c : NULL;
}

/*
 * End a call that has no timer, and give its argument back. The lock is released
 * meanwhile, as that may use the dispatcher.
 */
static void finish_call(struct htw_dispatcher *d, struct call *c)
{
	int cancel_state;

	if (d->release) {
		c->ended = true;
		c->releaser = pthread_self();
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
		htw_lock_give(&d->lock);
		d->release(c->arg);
		htw_lock_take(&d->lock);
		pthread_setcancelstate(cancel_state, NULL);
	}
	calls_end(&d->calls, c);
	if (d->nr_waiting) {
		pthread_mutex_lock(&d->return_lock);
		pthread_cond_broadcast(&d->returned);
		pthread_mutex_unlock(&d->return_lock);
	}
}

/* The function of the current call has returned, or was left. */
static void end_current(struct htw_dispatcher *d)
{
	struct call *c = calls_find(&d->calls, d->current);

	d->current = 0;
	if (d->current_stopped || (!c->timer && !c->due && list_empty(&c->list)))
		finish_call(d, c);
}

/* End a run, also one that was left. Another one may begin while an argument is given back. */
static void end_run(struct htw_dispatcher *d)
{
	d->running = false;
	d->run++;
	if (d->current)
		end_current(d);
	flush_requests(d);
}

/*
 * Lock the dispatcher for a request, and end a run that this thread has left by
 * longjmp(). @frame is where the caller is on the stack.
 *
 * Return: 1 from within a call, so that the request is deferred; 0 otherwise; or
 * -EPERM in a child of fork(), without the lock, which may never be released.
 */
static inline int enter_dispatcher(struct htw_dispatcher *d, const void *frame)
{
	if (htw_is_forked(d->process))
		return -EPERM;
	htw_lock_take(&d->lock);
	if (likely(!d->running || !pthread_equal(d->thread, pthread_self())))
		return 0;
	if (stack_is_within(&d->frame, frame))
		return d->current != 0;
	end_run(d);
	return 0;
}

#define enter(d)	enter_dispatcher(d, __builtin_frame_address(0))

static void leave_dispatcher(struct htw_dispatcher *d)
{
	htw_lock_give(&d->lock);
}

/* Requests of a call count in the order of the last of them. */
static void defer_request(struct htw_dispatcher *d, struct call *c)
{
	list_move_tail(&c->list, &d->asked);
}

/* Make the events void that were read of a call which is moved. */
static void void_events(struct htw_dispatcher *d, struct call *c)
{
	u32 i;

	for (i = d->taken; c->due && i < d->nr_events; i++) {
		if (d->events[i].cookie == c->handle) {
			d->events[i].cookie = 0;
			c->due--;
		}
	}
}

/* End a call that is not running. */
static void end_call(struct htw_dispatcher *d, struct call *c)
{
	drop_timer(d, c->timer);
	list_del_init(&c->list);
	finish_call(d, c);
}

/* Stop the call whose function is running. */
static void stop_current(struct htw_dispatcher *d, struct call *c)
{
	drop_timer(d, c->timer);
	c->timer = 0;
	list_del_init(&c->list);
	d->current_stopped = true;
}

static int start_call(struct htw_dispatcher *d, int within, const struct call *as, u64 *call)
{
	struct call *c = calls_new(&d->calls);
	int ret = 0;

	if (!c)
		return -ENOMEM;
	c->fn = as->fn;
	c->arg = as->arg;
	c->deadline = as->deadline;
	c->scheduled = as->scheduled;
	if (as->scheduled)
		c->next = as->next;
	else
		c->interval = as->interval;
	c->slack = htw_arith_encode_slack(d->slack);

	if (within)
		defer_request(d, c);
	else
		ret = start_timer(d, c);

	if (ret)
		calls_end(&d->calls, c);
	else if (call)
		*call = c->handle;
	return ret;
}

HTW_PUBLIC int htw_call_at(struct htw_dispatcher *d, uint64_t when,
			   htw_call_fn *fn, void *arg, uint64_t *call)
{
	const struct call as = { .fn = fn, .arg = arg, .deadline = when };
	int ret;

	if (!fn)
		return -EINVAL;
	ret = enter(d);
	if (ret < 0)
		return ret;
	ret = start_call(d, ret, &as, call);
	leave_dispatcher(d);
	return ret;
}

HTW_PUBLIC int htw_call_after(struct htw_dispatcher *d, uint64_t ns,
			      htw_call_fn *fn, void *arg, uint64_t *call)
{
	return htw_call_at(d, htw_sum(htw_now(d->htw), ns), fn, arg, call);
}

HTW_PUBLIC int htw_call_every(struct htw_dispatcher *d, uint64_t first,
			      uint64_t interval, htw_call_fn *fn, void *arg,
			      uint64_t *call)
{
	const struct call as = {
		.fn = fn,
		.arg = arg,
		.deadline = htw_sum(htw_now(d->htw), first),
		.interval = max(interval, d->tick_ns),
	};
	int ret;

	/* A deferred request could not report the error. */
	if (!fn || !interval)
		return -EINVAL;
	ret = enter(d);
	if (ret < 0)
		return ret;
	ret = start_call(d, ret, &as, call);
	leave_dispatcher(d);
	return ret;
}

HTW_PUBLIC int htw_call_schedule(struct htw_dispatcher *d, htw_next_fn *next,
				 htw_call_fn *fn, void *arg, uint64_t *call)
{
	struct call as = { .fn = fn, .arg = arg, .next = next, .scheduled = true };
	int ret;

	if (!fn || !next)
		return -EINVAL;
	if (htw_is_forked(d->process))
		return -EPERM;
	as.deadline = next(htw_now(d->htw), arg);
	if (as.deadline == HTW_NO_MORE)
		return -EINVAL;
	ret = enter(d);
	if (ret < 0)
		return ret;
	ret = start_call(d, ret, &as, call);
	leave_dispatcher(d);
	return ret;
}

HTW_PUBLIC int htw_call_again(struct htw_dispatcher *d, uint64_t call,
			      uint64_t ns)
{
	const int within = enter(d);
	struct call *c;
	u64 before;
	int ret = 0;

	if (within < 0)
		return within;

	c = find_call(d, call);
	if (!c || (call == d->current && d->current_stopped)) {
		leave_dispatcher(d);
		return -ENOENT;
	}

	before = c->deadline;
	c->deadline = htw_sum(htw_now(d->htw), ns);
	if (within)
		defer_request(d, c);
	else if (list_empty(&c->list))	/* a deferred request uses the new deadline */
		ret = move_timer(d, c);
	if (ret)
		c->deadline = before;
	else
		void_events(d, c);
	leave_dispatcher(d);
	return ret;
}

/* Stop a call: 0, -EALREADY if it is running, or -ENOENT. */
static int stop_call(struct htw_dispatcher *d, int within, u64 call)
{
	struct call *c = find_call(d, call);

	if (!c)
		return -ENOENT;

	if (call == d->current) {
		/* Until it returns, its function still uses its argument. */
		stop_current(d, c);
	} else {
		end_call(d, c);
		c = NULL;
	}
	if (!within) {
		stop_ended(d);
		/* There may be room for one that is blocked. */
		if (!list_empty(&d->blocked))
			flush_requests(d);
	}
	return c ? -EALREADY : 0;
}

HTW_PUBLIC int htw_call_stop(struct htw_dispatcher *d, uint64_t call)
{
	int ret = enter(d);

	if (ret < 0)
		return ret;
	ret = stop_call(d, ret, call);
	leave_dispatcher(d);
	return ret;
}

/* Is a call running, or is another thread giving its argument back? */
static bool is_in_use(const struct htw_dispatcher *d, u64 call)
{
	const struct call *c = calls_find(&d->calls, call);

	return c && !(c->ended && pthread_equal(c->releaser, pthread_self()));
}

/* A thread was cancelled that waited until a call has returned. */
static void end_wait(void *dispatcher)
{
	struct htw_dispatcher *d = dispatcher;

	htw_lock_take(&d->lock);
	d->nr_waiting--;
	leave_dispatcher(d);
}

static void unlock_mutex(void *mutex)
{
	pthread_mutex_unlock(mutex);
}

/* Wait until a call has returned, or others have. The lock is held, but not meanwhile. */
static void wait_for_return(struct htw_dispatcher *d)
{
	/* Before the lock is given: a call that returns then waits for this mutex. */
	pthread_mutex_lock(&d->return_lock);
	leave_dispatcher(d);
	pthread_cleanup_push(unlock_mutex, &d->return_lock);
	pthread_cond_wait(&d->returned, &d->return_lock);
	pthread_cleanup_pop(true);
	htw_lock_take(&d->lock);
}

HTW_PUBLIC int htw_call_stop_wait(struct htw_dispatcher *d, uint64_t call)
{
	const int within = enter(d);
	int ret;

	if (within < 0)
		return within;

	if (within && call == d->current) {
		leave_dispatcher(d);
		return -EDEADLK;
	}
	ret = stop_call(d, within, call);

	d->nr_waiting++;
	pthread_cleanup_push(end_wait, d);
	while (is_in_use(d, call))
		wait_for_return(d);
	pthread_cleanup_pop(false);
	d->nr_waiting--;
	leave_dispatcher(d);
	return ret == -EALREADY ? 0 : ret;
}

HTW_PUBLIC uint64_t htw_call_missed(struct htw_dispatcher *d, uint64_t call)
{
	u64 missed;

	if (enter(d) < 0)
		return 0;
	missed = call && call == d->current ? d->missed : 0;
	leave_dispatcher(d);
	return missed;
}

/* Dispatching. */

/**
 * struct run - a htw_dispatch() that is running, on its stack
 * @d: the dispatcher
 * @number: &htw_dispatcher.run; another one is there if this run was ended
 * @cancel_state: of the thread while it is not in the dispatcher
 * @made: number of calls made
 * @over: the run was ended, or is in a child of fork(); the lock is not held
 */
struct run {
	struct htw_dispatcher *d;
	u64 number;
	int cancel_state;
	int made;
	bool over;
};

/* Before a function of the program is called, or the thread waits. */
static void release_lock(struct run *r)
{
	htw_lock_give(&r->d->lock);
	pthread_setcancelstate(r->cancel_state, NULL);
}

/* Afterwards. Return: whether the run goes on. */
static bool retake_lock(struct run *r)
{
	/* The function may have set it. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &r->cancel_state);
	/* A child of fork() has come back from the call. */
	r->over = htw_is_forked(r->d->process);
	if (r->over)
		return false;
	htw_lock_take(&r->d->lock);
	r->over = r->d->run != r->number;
	if (r->over)
		htw_lock_give(&r->d->lock);
	return !r->over;
}

/* Cleanup handler: a function, or the wait, was left by an exception or because the thread ends. */
static void abandon_run(void *run)
{
	struct run *r = run;

	if (!retake_lock(r))
		return;
	end_run(r->d);
	release_lock(r);
}

/*
 * Ask for the time of the call after the present one, due at @previous, and
 * request its timer. Times that have passed by now are passed over, and count as
 * missed. The lock is not held meanwhile.
 *
 * Return: whether the run goes on.
 */
static bool ask_next(struct run *r, struct call *c, u64 previous)
{
	struct htw_dispatcher *d = r->d;
	htw_next_fn *next = c->next;
	void *arg = c->arg;
	u64 now, when, missed = 0;

	release_lock(r);
	now = htw_now(d->htw);
	when = next(previous, arg);
	/* One that is not after the previous one was not missed: it asks for a call at once. */
	while (when > previous && when <= now && missed < PASSED_MAX) {
		missed++;
		previous = when;
		when = next(previous, arg);
	}
	if (!retake_lock(r))
		return false;

	c = calls_find(&d->calls, d->current);
	d->missed = missed;
	if (when == HTW_NO_MORE) {
		c->next = NULL;		/* if the call is moved, it is made once more */
	} else if (!d->current_stopped && !c->timer && list_empty(&c->list)) {
		/* Otherwise it has been moved meanwhile, which decides. */
		c->deadline = when;
		defer_request(d, c);
	}
	return true;
}

/* Call the function of an event. The lock is not held meanwhile. */
static void make_call(struct run *r, const struct htw_event *ev)
{
	struct htw_dispatcher *d = r->d;
	struct call *c = find_call(d, ev->cookie);
	htw_call_fn *fn;
	void *arg;

	if (!c)
		return;

	c->due--;
	if (c->interval && !c->scheduled)
		c->deadline = htw_sum(ev->deadline + ev->missed * c->interval, c->interval);
	d->missed = ev->missed;
	d->current = c->handle;
	d->current_stopped = false;
	fn = c->fn;
	arg = c->arg;
	if (c->scheduled && c->next && !ask_next(r, c, ev->deadline))
		return;
	if (!d->current_stopped) {
		const u64 handle = d->current;

		release_lock(r);
		fn(d, handle, arg);
		r->made++;
		if (!retake_lock(r))
			return;
	}
	end_current(d);
}

/*
 * Read events into the queue, which is empty and the run's. The lock is not held
 * meanwhile, as a long bucket may have to be moved down: a call that is stopped
 * or moved then has another timer, or none.
 *
 * @looks: what is left of those of the dispatch
 *
 * Return: number of events, or a negative errno.
 */
static int read_events(struct htw_dispatcher *d, unsigned int *looks)
{
	int n, i;

	htw_lock_give(&d->lock);
	n = d->htw->ops->read(d->htw, d->events, EVENTS, looks);
	htw_lock_take(&d->lock);

	d->taken = 0;
	d->nr_events = max(n, 0);
	for (i = 0; i < n; i++) {
		struct htw_event *ev = &d->events[i];
		struct call *c = find_call(d, ev->cookie);

		/* Another timer's: of a call that has ended, or has been moved. */
		if (!c || c->timer != ev->id) {
			ev->cookie = 0;
			continue;
		}
		if (!(ev->flags & HTW_EVENT_MORE))
			c->timer = 0;
		/* Moved by a function, and the request is deferred: it is made at its new time. */
		if (list_empty(&c->list))
			c->due++;
		else
			ev->cookie = 0;
	}
	return n;
}

/*
 * Call functions that are due, until nothing is due or ROUNDS have passed, first
 * those whose events an abandoned run has left. Events of calls that have ended
 * do not count: a run that makes no call has left none that is due.
 *
 * Return: 1 if more may be due; 0 if not, or the run is over; or a negative
 * errno.
 */
static int make_calls(struct run *r)
{
	struct htw_dispatcher *d = r->d;
	unsigned int looks = HTW_LOOKS;
	int round, n = EVENTS;

	for (round = 1; ; round++) {
		if (d->taken == d->nr_events)
			n = read_events(d, &looks);
		while (d->taken < d->nr_events) {
			const struct htw_event ev = d->events[d->taken++];

			make_call(r, &ev);
			if (r->over)
				return 0;
		}
		if (n < 0 || n < EVENTS)
			return min(n, 0);
		if (r->made && round >= ROUNDS)
			return 1;
		relax_lock(d);
	}
}

/* Wait for events, or until blocked requests are to be tried again. */
static int wait_for_events(struct run *r, int64_t timeout)
{
	struct htw_dispatcher *d = r->d;
	int ret;

	if (!list_empty(&d->blocked) && (timeout < 0 || timeout > (int64_t)RETRY_NS))
		timeout = RETRY_NS;
	release_lock(r);
	ret = htw_wait(d->htw, timeout);
	return retake_lock(r) ? min(ret, 0) : 0;
}

static int dispatch(struct run *r, int64_t timeout)
{
	const u64 end = timeout > 0 ? htw_clock_ns(CLOCK_MONOTONIC) + timeout : 0;
	struct htw_dispatcher *d = r->d;
	u64 now;
	int ret;

	for (;;) {
		flush_requests(d);
		ret = make_calls(r);
		if (r->over)
			return r->made;
		flush_requests(d);

		/* The error is told once, and then only if there is nothing else to tell. */
		if (!ret && !list_empty(&d->blocked) && !d->told) {
			d->told = true;
			return d->error;
		}
		if (r->made || ret < 0)
			return r->made ? r->made : ret;
		if (!timeout)
			return list_empty(&d->blocked) ? 0 : d->error;

		ret = wait_for_events(r, timeout);
		if (r->over || ret < 0)
			return ret;
		if (timeout > 0) {
			now = htw_clock_ns(CLOCK_MONOTONIC);
			timeout = now < end ? end - now : 0;
		}
	}
}

/* The thread's number: unlike a pthread_t, it can be asked for when the thread may have ended. */
static pid_t this_thread(void)
{
	return syscall(SYS_gettid);
}

/* Was the present run left by longjmp(), or its thread ended without a cleanup? */
static bool is_abandoned(const struct htw_dispatcher *d, const void *frame)
{
	const int error = errno;
	bool ended;

	if (d->tid == this_thread())
		return !stack_is_within(&d->frame, frame) || !stack_is_live(&d->frame);
	ended = syscall(SYS_tgkill, getpid(), d->tid, 0) && errno == ESRCH;
	errno = error;
	return ended;
}

/* The address of a public function may be one in the program, that leads here. */
static int own_htw_dispatch(struct htw_dispatcher *d, int64_t timeout)
	__attribute__((alias("htw_dispatch")));

HTW_PUBLIC STACK_OWN_FRAME int htw_dispatch(struct htw_dispatcher *d, int64_t timeout)
{
	struct run r = { .d = d };
	int ret;

	if (htw_is_forked(d->process))
		return -EPERM;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &r.cancel_state);
	htw_lock_take(&d->lock);
	/* While one is ended, which releases the lock in between, another may begin. */
	while (d->running) {
		if (!is_abandoned(d, __builtin_frame_address(0))) {
			release_lock(&r);
			return -EBUSY;
		}
		end_run(d);
	}
	d->running = true;
	r.number = ++d->run;
	d->thread = pthread_self();
	d->tid = this_thread();
	d->frame = stack_here(own_htw_dispatch);

	pthread_cleanup_push(abandon_run, &r);
	ret = dispatch(&r, timeout);
	pthread_cleanup_pop(false);

	if (r.over) {
		pthread_setcancelstate(r.cancel_state, NULL);
		return htw_is_forked(d->process) ? -EPERM : ret;
	}
	d->running = false;
	release_lock(&r);
	return ret;
}

/* The dispatcher. */

HTW_PUBLIC int htw_dispatcher_new(struct htw_dispatcher **d, struct htw *htw)
{
	const int error = errno;
	struct htw_dispatcher *made, *none = NULL;
	struct htw_info_args info;
	int ret = htw_info(htw, &info);

	if (ret)
		return ret;
	made = calloc(1, sizeof(*made));
	errno = error;
	if (!made)
		return -ENOMEM;

	made->htw = htw;
	made->tick_ns = info.tick_ns;
	calls_init(&made->calls);
	INIT_LIST_HEAD(&made->asked);
	INIT_LIST_HEAD(&made->blocked);
	ret = htw_process_number(&made->process);
	if (ret)
		goto fail;
	ret = -pthread_cond_init(&made->returned, NULL);
	if (ret)
		goto fail;
	ret = -pthread_mutex_init(&made->return_lock, NULL);
	if (ret)
		goto fail_return_lock;
	ret = htw_lock_init(&made->lock, false);
	if (ret)
		goto fail_lock;

	ret = -EBUSY;
	if (!__atomic_compare_exchange_n(&htw->dispatcher, &none, made, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED))
		goto fail_dispatcher;
	*d = made;
	return 0;

fail_dispatcher:
	htw_lock_destroy(&made->lock);
fail_lock:
	pthread_mutex_destroy(&made->return_lock);
fail_return_lock:
	pthread_cond_destroy(&made->returned);
fail:
	free(made);
	return ret;
}

HTW_PUBLIC unsigned int
htw_dispatcher_shutdown(struct htw_dispatcher *d, uint64_t *cursor,
			struct htw_pending_call *pending, unsigned int count)
{
	unsigned int stored = 0;
	const int within = enter(d);
	struct call *c;

	if (within < 0)
		return 0;
	while (stored < count) {
		c = calls_next(&d->calls, cursor);
		if (!c)
			break;
		if (c->ended)
			continue;
		/* The running one is not among them if it is not made again. */
		if (c->handle == d->current && (d->current_stopped ||
						(!c->timer && !c->due && list_empty(&c->list))))
			continue;
		pending[stored++] = (struct htw_pending_call){
			.fn = c->fn,
			.arg = c->arg,
			.call = c->handle,
			.deadline = c->deadline,
			.interval = c->scheduled ? 0 : c->interval,
		};
		if (c->handle == d->current)
			stop_current(d, c);
		else
			end_call(d, c);
		if (!(stored % EVENTS))
			relax_lock(d);
	}
	if (!within)
		stop_ended(d);
	leave_dispatcher(d);
	return stored;
}

/* End all calls, also those that are started while arguments are given back. */
static void end_all_calls(struct htw_dispatcher *d)
{
	u64 cursor;
	struct call *c;

	htw_lock_take(&d->lock);
	/* A run that was left is over. */
	d->running = false;
	d->current = 0;
	do {
		cursor = 0;
		while ((c = calls_next(&d->calls, &cursor)))
			end_call(d, c);
		cursor = 0;
	} while (calls_next(&d->calls, &cursor));
	stop_ended(d);
	leave_dispatcher(d);
}

HTW_PUBLIC void htw_dispatcher_free(struct htw_dispatcher *d)
{
	if (!d)
		return;
	/* The timers are the parent's, who may also have held the lock, or waited, at the fork. */
	if (!htw_is_forked(d->process)) {
		end_all_calls(d);
		__atomic_store_n(&d->htw->dispatcher, NULL, __ATOMIC_RELEASE);
		pthread_cond_destroy(&d->returned);
		pthread_mutex_destroy(&d->return_lock);
		htw_lock_destroy(&d->lock);
	}
	calls_free(&d->calls);
	free(d);
}

HTW_PUBLIC void htw_dispatcher_set_release(struct htw_dispatcher *d,
					   htw_release_fn *release)
{
	if (enter(d) < 0)
		return;
	d->release = release;
	leave_dispatcher(d);
}

HTW_PUBLIC void htw_dispatcher_set_slack(struct htw_dispatcher *d,
					 uint64_t slack)
{
	if (enter(d) < 0)
		return;
	d->slack = slack;
	leave_dispatcher(d);
}

HTW_PUBLIC int htw_dispatcher_fd(const struct htw_dispatcher *d)
{
	return htw_fd(d->htw);
}
