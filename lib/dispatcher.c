// SPDX-License-Identifier: MIT
/*
 * The dispatcher: call functions when they are due
 *
 * A call is a slot of an array, and its handle is the slot's number and
 * generation. Its timer's cookie is the slot's number and how often the call
 * had been armed. So an event never leads to freed memory, and one from before
 * the call was stopped or moved is void: its timer's id is not the call's any
 * more, or its cookie is not, or a request to move the call is deferred.
 * Deadlines cannot be compared instead: an overdue call may be moved to the
 * present, and CLOCK_REALTIME may be set back.
 *
 * The lock guards everything but the backend's own state. It is not held while
 * functions run or htw_dispatch() waits. What functions ask for is deferred,
 * and passed to the backend in bulk after all functions of a round have run.
 */
#include "internal.h"

#include <pthread.h>

/* Events read at a time, and rounds after which htw_dispatch() returns if it made a call. */
#define EVENTS			64
#define ROUNDS			16

enum deferred {
	NONE,
	START,		/* start the timer */
	MOVE,		/* move it */
};

/**
 * struct call - a slot
 * @fn: function to call; NULL if the slot is free
 * @next: returns the time of the next call; NULL if there is none, or none any
 *	more
 * @arg: argument of both
 * @timer: the timer's id; zero if there is none
 * @deadline: when the next call is due
 * @interval: zero if not periodic
 * @missed: firings missed before the current call
 * @slack: slack of the dispatcher when the call was started
 * @generation: upper half of the handle
 * @armed: upper half of the timer's cookie; incremented when a timer is moved
 *	whose id may already have an event on the way
 * @next_free: next slot of the free list, plus one
 * @deferred: what to ask the backend for
 * @listed: on the list of deferred slots
 * @running: its function is running
 * @stopped: stopped by its own function
 */
struct call {
	htw_call_fn *fn;
	htw_next_fn *next;
	void *arg;
	u64 timer;
	u64 deadline;
	u64 interval;
	u64 missed;
	u64 slack;
	u32 generation;
	u32 armed;
	u32 next_free;
	u8 deferred;
	bool listed;
	bool running;
	bool stopped;
};

/**
 * struct htw_dispatcher - a dispatcher
 * @htw: its timers
 * @slack: for calls started from now on
 * @calls: the slots
 * @nr_calls: number of slots
 * @nr_used: number of slots that have been used
 * @free: head of the free list, plus one
 * @dirty: slots with deferred work; as long as @calls
 * @nr_dirty: entries of @dirty
 * @ended: timers to stop; as long as @calls
 * @nr_ended: entries of @ended
 * @running: htw_dispatch() is running
 * @calling: it is calling functions, in @thread
 * @thread: the thread that calls functions
 * @lock: guards all fields
 */
struct htw_dispatcher {
	struct htw *htw;
	u64 slack;
	struct call *calls;
	u32 nr_calls;
	u32 nr_used;
	u32 free;
	u32 *dirty;
	u32 nr_dirty;
	u64 *ended;
	u32 nr_ended;
	bool running;
	bool calling;
	pthread_t thread;
	pthread_mutex_t lock;
};

static u64 handle_of(const struct htw_dispatcher *d, const struct call *c)
{
	return (u64)c->generation << 32 | (c - d->calls + 1);
}

static struct call *find(const struct htw_dispatcher *d, u64 handle)
{
	const u32 slot = (u32)handle - 1;
	struct call *c = slot < d->nr_used ? &d->calls[slot] : NULL;

	return c && c->fn && c->generation == handle >> 32 ? c : NULL;
}

static u64 cookie_of(const struct htw_dispatcher *d, const struct call *c)
{
	return (u64)c->armed << 32 | (c - d->calls);
}

/* The call that an event is for; NULL if the event is void. */
static struct call *find_event(const struct htw_dispatcher *d,
			       const struct htw_event *ev)
{
	const u32 slot = (u32)ev->cookie;
	struct call *c = slot < d->nr_used ? &d->calls[slot] : NULL;

	if (!c || !c->fn || c->timer != ev->id || c->armed != ev->cookie >> 32)
		return NULL;
	return c;
}

/* Whether this thread is calling functions, so that requests are deferred. */
static bool must_defer(const struct htw_dispatcher *d)
{
	return d->calling && pthread_equal(d->thread, pthread_self());
}

static int grow(struct htw_dispatcher *d)
{
	const u32 want = d->nr_calls ? d->nr_calls * 2 : EVENTS;
	struct call *calls;
	u32 *dirty;
	u64 *ended;

	if (want >= 1u << 31)
		return -ENOMEM;

	/* If an allocation fails, the arrays that have grown stay larger. */
	calls = reallocarray(d->calls, want, sizeof(*calls));
	if (!calls)
		return -ENOMEM;
	d->calls = calls;

	dirty = reallocarray(d->dirty, want, sizeof(*dirty));
	if (!dirty)
		return -ENOMEM;
	d->dirty = dirty;

	ended = reallocarray(d->ended, want, sizeof(*ended));
	if (!ended)
		return -ENOMEM;
	d->ended = ended;

	memset(calls + d->nr_calls, 0, (want - d->nr_calls) * sizeof(*calls));
	d->nr_calls = want;
	return 0;
}

static struct call *new_call(struct htw_dispatcher *d)
{
	struct call *c;

	if (d->free) {
		c = &d->calls[d->free - 1];
		d->free = c->next_free;
		return c;
	}
	if (d->nr_used == d->nr_calls && grow(d))
		return NULL;
	return &d->calls[d->nr_used++];
}

/* End a call. Its timer has ended, or is dropped by the caller. */
static void free_call(struct htw_dispatcher *d, struct call *c)
{
	c->fn = NULL;
	c->timer = 0;
	c->deferred = NONE;
	/* A slot whose generations are used up is not used again. */
	if (!++c->generation)
		return;
	c->next_free = d->free;
	d->free = c - d->calls + 1;
}

static void defer(struct htw_dispatcher *d, struct call *c, enum deferred what)
{
	c->deferred = what;
	if (!c->listed)
		d->dirty[d->nr_dirty++] = c - d->calls;
	c->listed = true;
}

/* Start the timer of a call. */
static int start(struct htw_dispatcher *d, struct call *c)
{
	struct htw_add add = {
		.deadline = c->deadline,
		.interval = c->interval,
		.slack = c->slack,
		.cookie = cookie_of(d, c),
		.flags = HTW_F_ABS,
	};
	int ret = htw_add(d->htw, &add);

	if (!ret)
		c->timer = add.id;
	return ret;
}

/*
 * Move the timer; start another one if it has ended and its event is on its
 * way. By the cookie, an event of the old deadline that has been read already
 * differs from later ones.
 */
static int move(struct htw_dispatcher *d, struct call *c)
{
	int ret = -ENOENT;

	c->armed++;
	if (c->timer) {
		const struct htw_mod mod = {
			.id = c->timer,
			.deadline = c->deadline,
			.cookie = cookie_of(d, c),
			.flags = HTW_MOD_DEADLINE | HTW_MOD_COOKIE | HTW_F_ABS,
		};

		ret = htw_mod(d->htw, &mod);
	}
	if (ret == -ENOENT)
		ret = start(d, c);
	if (ret)
		c->armed--;
	return ret;
}

/* Stop a timer and discard its unread event. */
static void drop_timer(struct htw_dispatcher *d, u64 timer)
{
	struct htw_cancel cancel = { .id = timer, .flags = HTW_CANCEL_DISCARD };

	if (!timer)
		return;
	if (must_defer(d) && d->nr_ended < d->nr_calls)
		d->ended[d->nr_ended++] = timer;
	else
		htw_cancel(d->htw, &cancel);
}

/* Stop the timers of calls that functions have stopped, and discard their unread events. */
static void flush_ended(struct htw_dispatcher *d)
{
	u32 first, n, i;

	for (first = 0; first < d->nr_ended; first += n) {
		const u64 *ended = d->ended + first;
		int results[EVENTS];

		n = min(d->nr_ended - first, (u32)EVENTS);
		if (!htw_stop_many(d->htw, ended, n, results))
			continue;
		for (i = 0; i < n; i++) {
			struct htw_cancel cancel = { .id = ended[i], .flags = HTW_CANCEL_DISCARD };

			if (results[i] == -EALREADY)
				htw_cancel(d->htw, &cancel);
		}
	}
	d->nr_ended = 0;
}

/* Start one-shot calls without slack, in bulk. */
static int start_some(struct htw_dispatcher *d, const u32 *slots,
		      unsigned int count)
{
	const struct htw_add common = { .flags = HTW_F_ABS };
	u64 deadlines[EVENTS] = { }, cookies[EVENTS] = { }, ids[EVENTS];
	int results[EVENTS], ret = 0;
	unsigned int i;

	for (i = 0; i < count; i++) {
		deadlines[i] = d->calls[slots[i]].deadline;
		cookies[i] = cookie_of(d, &d->calls[slots[i]]);
	}
	htw_add_many(d->htw, &common, deadlines, cookies, ids, count, results);
	for (i = 0; i < count; i++) {
		struct call *c = &d->calls[slots[i]];

		if (results[i]) {
			defer(d, c, START);	/* try again in the next round */
			ret = results[i];
		} else {
			c->timer = ids[i];
		}
	}
	return ret;
}

static int move_some(struct htw_dispatcher *d, const u32 *slots,
		     unsigned int count)
{
	u64 deadlines[EVENTS] = { }, ids[EVENTS] = { };
	int results[EVENTS], ret = 0;
	unsigned int i;

	for (i = 0; i < count; i++) {
		ids[i] = d->calls[slots[i]].timer;
		deadlines[i] = d->calls[slots[i]].deadline;
	}
	if (!htw_rearm_many(d->htw, ids, deadlines, count, HTW_F_ABS, results))
		return 0;
	for (i = 0; i < count; i++) {
		struct call *c = &d->calls[slots[i]];
		int error = results[i] ? start(d, c) : 0;

		if (error) {
			defer(d, c, START);
			ret = error;
		}
	}
	return ret;
}

/* Pass the deferred requests to the backend; those that fail stay deferred. */
static int flush(struct htw_dispatcher *d)
{
	u32 starts[EVENTS], moves[EVENTS];
	unsigned int nr_starts = 0, nr_moves = 0;
	const u32 count = d->nr_dirty;
	int ret = 0, error;
	u32 i;

	flush_ended(d);
	d->nr_dirty = 0;
	/* Requests that fail are put back at the front, which has been read already. */
	for (i = 0; i < count; i++) {
		const u32 slot = d->dirty[i];
		struct call *c = &d->calls[slot];
		const enum deferred what = c->deferred;

		c->deferred = NONE;
		c->listed = false;
		error = 0;
		if (what == MOVE && !c->interval) {
			moves[nr_moves++] = slot;
		} else if (what == MOVE) {
			error = move(d, c);
			if (error)
				defer(d, c, MOVE);
		} else if (what == START && !c->interval && !c->slack) {
			starts[nr_starts++] = slot;
		} else if (what == START) {
			error = start(d, c);
			if (error)
				defer(d, c, START);
		}
		if (nr_starts == EVENTS) {
			error = start_some(d, starts, nr_starts);
			nr_starts = 0;
		}
		if (nr_moves == EVENTS) {
			error = move_some(d, moves, nr_moves);
			nr_moves = 0;
		}
		if (error)
			ret = error;
	}
	if (nr_starts) {
		error = start_some(d, starts, nr_starts);
		if (error)
			ret = error;
	}
	if (nr_moves) {
		error = move_some(d, moves, nr_moves);
		if (error)
			ret = error;
	}
	return ret;
}

static int start_call(struct htw_dispatcher *d, u64 deadline, u64 interval,
		      htw_next_fn *next, htw_call_fn *fn, void *arg, u64 *call)
{
	struct call *c;
	int ret = 0;

	if (!fn)
		return -EINVAL;

	pthread_mutex_lock(&d->lock);
	c = new_call(d);
	if (!c) {
		ret = -ENOMEM;
		goto unlock;
	}

	c->fn = fn;
	c->next = next;
	c->arg = arg;
	c->deadline = deadline;
	c->interval = interval;
	c->missed = 0;
	c->slack = d->slack;
	c->running = false;
	c->stopped = false;

	if (must_defer(d))
		defer(d, c, START);
	else
		ret = start(d, c);

	if (!ret && call)
		*call = handle_of(d, c);
	if (ret)
		free_call(d, c);
unlock:
	pthread_mutex_unlock(&d->lock);
	return ret;
}

HTW_PUBLIC int htw_call_at(struct htw_dispatcher *d, uint64_t when,
			   htw_call_fn *fn, void *arg, uint64_t *call)
{
	return start_call(d, when, 0, NULL, fn, arg, call);
}

HTW_PUBLIC int htw_call_after(struct htw_dispatcher *d, uint64_t ns,
			      htw_call_fn *fn, void *arg, uint64_t *call)
{
	return start_call(d, htw_sum(htw_now(d->htw), ns), 0, NULL, fn, arg, call);
}

HTW_PUBLIC int htw_call_every(struct htw_dispatcher *d, uint64_t first,
			      uint64_t interval, htw_call_fn *fn, void *arg,
			      uint64_t *call)
{
	struct htw_info info;
	int ret = htw_info(d->htw, &info);

	if (ret)
		return ret;
	/* Check now: a deferred request could not report the error. */
	if (interval < info.tick_ns)
		return -EINVAL;
	return start_call(d, htw_sum(htw_now(d->htw), first), interval, NULL,
			  fn, arg, call);
}

HTW_PUBLIC int htw_call_schedule(struct htw_dispatcher *d, htw_next_fn *next,
				 htw_call_fn *fn, void *arg, uint64_t *call)
{
	const u64 first = next ? next(htw_now(d->htw), arg) : HTW_NO_MORE;

	if (first == HTW_NO_MORE)
		return -EINVAL;
	return start_call(d, first, 0, next, fn, arg, call);
}

HTW_PUBLIC int htw_call_again(struct htw_dispatcher *d, uint64_t call,
			      uint64_t ns)
{
	const u64 deadline = htw_sum(htw_now(d->htw), ns);
	struct call *c;
	u64 before;
	int ret = 0;

	pthread_mutex_lock(&d->lock);
	c = find(d, call);

	if (!c || c->stopped) {
		ret = -ENOENT;
	} else {
		before = c->deadline;
		c->deadline = deadline;
		if (must_defer(d))
			defer(d, c, c->timer ? MOVE : START);
		else if (c->deferred == NONE)	/* a deferred request uses the new deadline */
			ret = move(d, c);
		if (ret)
			c->deadline = before;
	}

	pthread_mutex_unlock(&d->lock);
	return ret;
}

HTW_PUBLIC int htw_call_stop(struct htw_dispatcher *d, uint64_t call)
{
	struct call *c;
	int ret = 0;

	pthread_mutex_lock(&d->lock);
	c = find(d, call);
	if (!c || c->stopped) {
		/* Until it returns, a stopped function still uses its argument. */
		ret = c ? -EALREADY : -ENOENT;
		goto unlock;
	}

	drop_timer(d, c->timer);
	if (c->running) {
		c->timer = 0;
		c->deferred = NONE;
		c->stopped = true;
		ret = -EALREADY;
	} else {
		free_call(d, c);
	}
unlock:
	pthread_mutex_unlock(&d->lock);
	return ret;
}

HTW_PUBLIC int htw_call_stop_wait(struct htw_dispatcher *d, uint64_t call)
{
	return htw_call_stop(d, call);
}

HTW_PUBLIC uint64_t htw_call_missed(struct htw_dispatcher *d, uint64_t call)
{
	const struct call *c;
	u64 missed;

	pthread_mutex_lock(&d->lock);
	c = find(d, call);
	missed = c && c->running ? c->missed : 0;
	pthread_mutex_unlock(&d->lock);
	return missed;
}

/*
 * Ask for the time of the call after the present one, and start its timer
 * later. The lock is held on entry and return, but not while the function runs.
 *
 * Return: the call; the array may have moved.
 */
static struct call *ask_next(struct htw_dispatcher *d, u64 handle, u64 previous)
{
	struct call *c = find(d, handle);
	htw_next_fn *next = c->next;
	void *arg = c->arg;
	u64 when;

	pthread_mutex_unlock(&d->lock);
	when = next(previous, arg);
	pthread_mutex_lock(&d->lock);
	c = find(d, handle);
	if (when == HTW_NO_MORE) {
		c->next = NULL;		/* if the call is moved, it is made once more */
	} else if (!c->stopped && !c->timer && c->deferred == NONE) {
		/* Otherwise it has been moved meanwhile, which decides. */
		c->deadline = when;
		defer(d, c, START);
	}
	return c;
}

/*
 * Call the function of an event. The lock is held on entry and return, but not
 * while the function runs.
 *
 * Return: whether a function was called.
 */
static bool make_call(struct htw_dispatcher *d, const struct htw_event *ev)
{
	struct call *c = find_event(d, ev);
	bool made = false;
	u64 handle;

	if (!c)
		return false;
	if (!(ev->flags & HTW_EVENT_MORE)) {
		c->timer = 0;
	} else if (!c->interval) {
		/* With a table of deadlines, the timer is kept. */
		if (c->deferred == NONE && ev->deadline < c->deadline)
			return false;	/* moved in bulk with this event in the ring */
		drop_timer(d, c->timer);
		c->timer = 0;
	}
	/* Moved by a function, and the request is deferred: it is made at its new time. */
	if (c->deferred != NONE)
		return false;

	if (c->interval)
		c->deadline = htw_sum(ev->deadline + ev->missed * c->interval,
				      c->interval);
	c->missed = ev->missed;
	c->running = true;
	handle = handle_of(d, c);
	if (c->next)
		c = ask_next(d, handle, ev->deadline);
	if (!c->stopped) {
		htw_call_fn *fn = c->fn;
		void *arg = c->arg;

		pthread_mutex_unlock(&d->lock);
		fn(d, handle, arg);
		pthread_mutex_lock(&d->lock);
		c = find(d, handle);
		made = true;
	}
	c->running = false;
	if (c->stopped || (!c->timer && c->deferred == NONE))
		free_call(d, c);
	return made;
}

/*
 * Call functions that are due, in the dispatching thread, until nothing is due
 * or ROUNDS have passed. Events of calls that have ended do not count: a
 * dispatch that makes no call has left none that is due. Called with the lock
 * held.
 *
 * Return: number of calls; *left: more may be due.
 */
static int make_calls(struct htw_dispatcher *d, bool *left)
{
	struct htw_event events[EVENTS];
	unsigned int round, made = 0;
	int n, i;

	d->thread = pthread_self();
	d->calling = true;
	for (round = 1; ; round++) {
		n = htw_read(d->htw, events, EVENTS);
		for (i = 0; i < n; i++)
			made += make_call(d, &events[i]);
		*left = n == EVENTS;
		if (!*left || (made && round >= ROUNDS))
			break;
	}
	d->calling = false;
	return made;
}

HTW_PUBLIC int htw_dispatch(struct htw_dispatcher *d, int64_t timeout)
{
	const u64 end = timeout > 0 ? htw_clock_ns(CLOCK_MONOTONIC) + timeout : 0;
	int made, error, ret;
	bool left;

	pthread_mutex_lock(&d->lock);
	if (d->running) {
		pthread_mutex_unlock(&d->lock);
		return -EBUSY;
	}
	d->running = true;
	for (;;) {
		error = flush(d);	/* what failed the last time */
		made = make_calls(d, &left);
		ret = flush(d);
		if (ret)
			error = ret;
		else if (!d->nr_dirty)
			error = 0;	/* a later attempt has succeeded */
		/* Unless the result is positive nothing is due. What failed is tried again. */
		if (left)
			error = 0;
		if (made || error || !timeout)
			break;
		pthread_mutex_unlock(&d->lock);
		ret = htw_wait(d->htw, timeout);
		pthread_mutex_lock(&d->lock);
		if (ret < 0) {
			error = ret;
			break;
		}
		if (timeout > 0) {
			const u64 now = htw_clock_ns(CLOCK_MONOTONIC);

			timeout = now < end ? end - now : 0;
		}
	}
	d->running = false;
	pthread_mutex_unlock(&d->lock);
	return error ? error : made;
}

HTW_PUBLIC int htw_dispatcher_new(struct htw_dispatcher **d, struct htw *htw)
{
	struct htw_dispatcher *made = calloc(1, sizeof(*made));
	int ret;

	if (!made)
		return -ENOMEM;
	made->htw = htw;
	ret = -pthread_mutex_init(&made->lock, NULL);
	if (ret) {
		free(made);
		return ret;
	}
	*d = made;
	return 0;
}

HTW_PUBLIC unsigned int
htw_dispatcher_shutdown(struct htw_dispatcher *d, uint64_t *cursor,
			struct htw_pending_call *pending, unsigned int count)
{
	unsigned int stored = 0;

	pthread_mutex_lock(&d->lock);
	for (; *cursor < d->nr_used && stored < count; ++*cursor) {
		struct call *c = &d->calls[*cursor];

		if (!c->fn || c->stopped ||
		    (c->running && !c->timer && c->deferred == NONE))
			continue;
		pending[stored++] = (struct htw_pending_call){
			.fn = c->fn,
			.arg = c->arg,
			.call = handle_of(d, c),
			.deadline = c->deadline,
			.interval = c->interval,
		};
		drop_timer(d, c->timer);
		if (c->running) {
			c->timer = 0;
			c->deferred = NONE;
			c->stopped = true;
		} else {
			free_call(d, c);
		}
	}
	pthread_mutex_unlock(&d->lock);
	return stored;
}

HTW_PUBLIC void htw_dispatcher_free(struct htw_dispatcher *d)
{
	u32 i;

	if (!d)
		return;
	for (i = 0; i < d->nr_used; i++)
		if (d->calls[i].fn)
			drop_timer(d, d->calls[i].timer);
	pthread_mutex_destroy(&d->lock);
	free(d->calls);
	free(d->dirty);
	free(d->ended);
	free(d);
}

HTW_PUBLIC void htw_dispatcher_set_slack(struct htw_dispatcher *d,
					 uint64_t slack)
{
	pthread_mutex_lock(&d->lock);
	d->slack = slack;
	pthread_mutex_unlock(&d->lock);
}

HTW_PUBLIC int htw_dispatcher_fd(const struct htw_dispatcher *d)
{
	return htw_fd(d->htw);
}
