// SPDX-License-Identifier: MIT
/* Timers in the process: expiring, reading and waiting. See process.h. */
#include "process.h"

#include <fcntl.h>
#include <sys/timerfd.h>

/* The timerfd. */

/*
 * Program the timerfd; zero: now, U64_MAX: never. Return: 0; -EBADF if something
 * else has closed it.
 */
static int program(struct process *p, u64 when)
{
	struct itimerspec spec = { };
	const int error = errno;

	/* Zero would disarm the timerfd. */
	if (when != U64_MAX)
		spec.it_value = htw_timespec(max_t(u64, when, 1));
	if (timerfd_settime(p->htw.fd, TFD_TIMER_ABSTIME, &spec, NULL)) {
		errno = error;
		p->armed = U64_MAX;
		return -EBADF;
	}
	p->armed = when;
	return 0;
}

/* Has something else closed the descriptor? For what finds nothing, and need not program it. */
static int check_open(const struct process *p)
{
	const int error = errno;
	const bool closed = fcntl(p->htw.fd, F_GETFD) < 0;

	errno = error;
	return closed ? -EBADF : 0;
}

/* Disarm the timerfd: a child of fork() may keep its open file. */
void htw_disarm(struct process *p)
{
	program(p, U64_MAX);
}

/* The time of the first work of the wheel, or U64_MAX. */
static u64 time_of_work(const struct process *p, u64 tick)
{
	u64 ns;

	if (tick == HTW_NEVER || __builtin_mul_overflow(tick, p->tick_ns, &ns))
		return U64_MAX;
	return ns;
}

/* The first deadline of what the wheel has expired; of a part of that, if it is much. */
static u64 first_waiting(const struct process *p)
{
	unsigned int looks = PORTION;
	const struct list_head *entry;
	u64 first = U64_MAX;

	/* The list's head is in no slot, nor aligned as one. */
	list_for_each(entry, &p->wheel.due) {
		if (!looks--)
			break;
		first = min(first, list_entry(entry, struct slot, node.list)->deadline);
	}
	return first;
}

/*
 * Program the timerfd for the wheel's next work, as nothing is due any more. What
 * the wheel has expired nevertheless waits for the clock: see waits_for_clock().
 */
static int program_next(struct process *p, u64 now)
{
	u64 when;

	when = time_of_work(p, htw_wheel_next(&p->wheel));
	p->ahead = false;
	if (unlikely(!list_empty(&p->wheel.due)))
		when = first_waiting(p);
	if (p->clock == HTW_CLOCK_MANUAL)
		when = U64_MAX;
	/*
	 * Reprogram the timerfd if it has expired, which makes it readable, or
	 * is programmed too late; leave it if it is early. Setting
	 * CLOCK_REALTIME may have expired it, too.
	 */
	if (p->armed <= now || when < p->armed || p->clock == CLOCK_REALTIME)
		return program(p, when);
	return 0;
}

/* Bringing the wheel up to the present. */

/*
 * Was the clock set back, within the tick, since a timer was armed that was due?
 * Then its deadline may be later than its tick.
 */
static bool was_set_back(const struct process *p, u64 now)
{
	return unlikely(now < p->due_ns);
}

/*
 * Does a timer that the wheel has expired have to wait, as the clock was set
 * back? For less than a tick, at the front of the wheel's due list: started again
 * it would come behind others of its deadline that were started since. Those of
 * its tick that are due do not wait for it.
 */
static bool waits_for_clock(const struct process *p, const struct slot *t, u64 now)
{
	return was_set_back(p, now) && t->deadline > now;
}

/* Put a timer that the wheel has expired back, as the next to expire. */
static void put_back(struct process *p, struct slot *t)
{
	list_add(&t->node.list, &p->wheel.due);
	p->wheel.pending++;
}

/*
 * Has a timer been put off? Then arm it for the later time. If a store for it is
 * on its way, look again at the next tick. Else the timer has expired, and
 * cannot be put off any more.
 */
static bool wait_if_put_off(struct process *p, struct slot *t, u64 now)
{
	const u64 id = t->name;
	struct htw_deadline *to = htw_deadline_at(&p->htw, id);
	u64 when = htw_deadline_later(to, t->deadline);

	if (when <= now && htw_deadline_take(to, id)) {
		/* A store may have been faster than that. */
		when = htw_deadline_later(to, t->deadline);
		if (when <= now) {
			t->deadline = when;
			return false;
		}
		htw_deadline_keep(to, id);
	}

	if (when > now) {
		t->deadline = when;
		arm(p, t, now);
	} else {
		p->ahead |= htw_wheel_start(&p->wheel, &t->node, now / p->tick_ns + 1);
	}
	return true;
}

enum progress {
	DUE,		/* a timer has expired */
	NOTHING,	/* nothing is due, and nothing has to be moved down now */
	GOES_ON,	/* the portion was too small */
	WAITS,		/* for the clock, which was set back */
};

/*
 * Take what is due out of the wheel, but for timers that wait for the clock: those
 * are taken out as well, to @waiting; or the first of them is @expired, if that is
 * NULL. Return: as expire_next().
 */
static __always_inline enum progress
expire_some(struct process *p, u64 now, unsigned int *portion, struct list_head *waiting,
	    struct slot **expired)
{
	struct htw_node *n;
	struct slot *t;

	while ((n = htw_wheel_expire(&p->wheel, now / p->tick_ns, portion))) {
		t = container_of(n, struct slot, node);
		if (waits_for_clock(p, t, now)) {
			if (waiting) {
				list_add_tail(&t->node.list, waiting);
				continue;
			}
			*expired = t;
			return WAITS;
		}
		if (likely(!can_be_put_off(t)) || !wait_if_put_off(p, t, now)) {
			*expired = t;
			return DUE;
		}
		*portion -= min(*portion, PORTION_PUT_OFF);
	}
	return *portion ? NOTHING : GOES_ON;
}

/*
 * Go on behind the first timer that waits for the clock, and put all of those back.
 * If they alone are more than a portion, what is behind them waits as well.
 */
static noinline enum progress
expire_behind(struct process *p, u64 now, unsigned int *portion, struct slot *first,
	      struct slot **expired)
{
	unsigned int given = *portion + 1, waited = 0;
	enum progress progress;
	LIST_HEAD(waiting);
	struct slot *t;

	list_add(&first->node.list, &waiting);
	progress = expire_some(p, now, portion, &waiting, expired);
	for (; !list_empty(&waiting); waited++) {
		t = list_last_entry(&waiting, struct slot, node.list);
		list_del(&t->node.list);
		put_back(p, t);
	}
	return waited == given ? NOTHING : progress;
}

/*
 * Bring the wheel up to the present, a portion of the way.
 *
 * Return: %DUE with a timer that has expired in @expired, which is on no list
 * and not ended yet; or another progress.
 */
static enum progress expire_next(struct process *p, u64 now, unsigned int *portion,
				 struct slot **expired)
{
	const enum progress progress = expire_some(p, now, portion, NULL, expired);

	if (unlikely(progress == WAITS))
		return expire_behind(p, now, portion, *expired, expired);
	return progress;
}

/* The same, but leave the timer where it is; it could be put off until now. */
static enum progress look_for_due(struct process *p, u64 now, unsigned int *portion)
{
	enum progress progress;
	struct slot *t;

	progress = expire_next(p, now, portion, &t);
	if (progress != DUE)
		return progress;

	if (can_be_put_off(t))
		htw_deadline_keep(htw_deadline_at(&p->htw, t->name), t->name);
	put_back(p, t);
	return DUE;
}

/* The time; the wheel is rewound if the clock was set back. */
static u64 present(struct process *p)
{
	const u64 now = read_clock(p);

	if (unlikely(p->clock == CLOCK_REALTIME))
		htw_check_clock(p, now);
	return now;
}

/* Reading. */

static inline void fill_event(struct htw_event *ev, const struct slot *t, u64 id, u64 taken)
{
	ev->id = id;
	ev->cookie = t->cookie;
	ev->deadline = t->deadline;
	ev->taken = taken;
	ev->missed = 0;
	ev->flags = 0;
	ev->reserved = 0;
}

/* Fill in the event of an expired timer, which is on no list, and arm, keep or free the timer. */
static void consume(struct process *p, struct slot *t, u64 now, struct htw_event *ev)
{
	const u64 id = t->name;
	u64 spent;

	fill_event(ev, t, id, now);
	if (t->interval)
		ev->missed = htw_arith_missed(t->deadline, t->interval, t->firings, now, false);
	spent = ev->missed + 1;

	if (htw_arith_continues(t->interval, t->firings, spent)) {
		/* Keep the phase: the next start + k * interval after now. */
		ev->flags = HTW_EVENT_MORE;
		t->deadline = htw_arith_next(t->deadline, t->interval, spent);
		if (t->firings)
			t->firings -= spent;
		arm(p, t, now);
	} else if (is_kept(t)) {
		ev->flags = HTW_EVENT_MORE;
		/* After its last firing a periodic timer is a one-shot timer. */
		t->interval = 0;
		t->firings = 0;
		t->name = id ^ NAME_IDLE;
		chunk_of(t)->idle++;
	} else {
		p->nr_timers--;
		free_slot(p, t, id);
	}
}

/* Neither periodic, nor kept, nor can it be put off. */
static inline bool is_plain(const struct slot *t)
{
	return !(t->interval | (t->slack & SLOT_STAYS));
}

/* Read plain timers from the front of the wheel's due list, without unlinking each. */
static unsigned int read_plain(struct process *p, struct htw_event *events, unsigned int count,
			       u64 now)
{
	struct list_head *const due = &p->wheel.due;
	struct list_head *entry = due->next;
	unsigned int got = 0;

	while (got < count && entry != due) {
		struct slot *t = list_entry(entry, struct slot, node.list);

		if (unlikely(!is_plain(t)))
			break;
		entry = entry->next;
		prefetchw(entry);
		fill_event(&events[got++], t, t->name, now);
		free_slot(p, t, t->name);
	}

	due->next = entry;
	entry->prev = due;
	p->wheel.pending -= got;
	p->nr_timers -= got;
	return got;
}

/*
 * Read up to @count events, while the lock is held: in one portion of timers that
 * are returned or looked at, of which the latter take from @looks.
 */
static enum progress read_portion(struct process *p, struct htw_event *events, unsigned int count,
				  u64 now, unsigned int *got, unsigned int *looks)
{
	const unsigned int given = min(*looks, PORTION), before = *got;
	unsigned int portion = given, plain;
	enum progress progress = DUE;
	struct slot *t;

	while (*got < count) {
		if (!was_set_back(p, now)) {
			plain = read_plain(p, events + *got, min(count - *got, portion), now);
			*got += plain;
			portion -= plain;
			if (*got == count)
				break;
		}
		progress = expire_next(p, now, &portion, &t);
		if (progress != DUE)
			break;
		consume(p, t, now, &events[(*got)++]);
	}
	*looks -= given - portion - (*got - before);
	return progress;
}

/* Program the timerfd after a read: for the next work, or to be readable if something is left. */
static int announce_rest(struct process *p, enum progress how, u64 now)
{
	if (how == NOTHING)
		return program_next(p, now);
	/* The caller reads on after a full array; else it waits for the descriptor to say so. */
	if (how == GOES_ON || p->armed > now)
		return program(p, 0);
	return 0;
}

int htw_process_read(struct htw *htw, struct htw_event *events, unsigned int count,
		     unsigned int *looks)
{
	struct process *p = process_of(htw);
	enum progress progress;
	unsigned int got = 0;
	u64 now, pending;
	int ret;

	count = min_t(unsigned int, count, INT_MAX);
	if (unlikely(!count))
		return 0;
	process_lock(p);

	pending = p->wheel.pending;
	for (;;) {
		now = present(p);
		progress = read_portion(p, events, count, now, &got, looks);
		/* It ends, also if others start timers as quickly as it reads them. */
		if (progress != GOES_ON || !*looks || got >= pending)
			break;
		give_way(p);
	}
	ret = announce_rest(p, progress, now);
	process_unlock(p);
	if (got)
		return got;
	return ret ? ret : check_open(p);
}

/**
 * htw_process_ready() - look whether there is something to read
 * @htw: the handle
 * @readable: the descriptor is
 *
 * If there is not, the descriptor will say when there is.
 *
 * Return: 1 if there is; 0; or a negative errno.
 */
int htw_process_ready(struct htw *htw, bool readable)
{
	struct process *p = process_of(htw);
	unsigned int looks = HTW_LOOKS, given, portion;
	enum progress progress;
	int ret;
	u64 now;

	process_lock(p);

	now = present(p);
	/* If it has nothing to say, program it anew; what else may be there now cannot be. */
	if (readable)
		p->armed = 0;
	for (;;) {
		given = portion = min(looks, PORTION);
		progress = look_for_due(p, now, &portion);
		looks -= given - portion;
		if (progress != GOES_ON || !looks)
			break;
		give_way(p);
	}
	ret = announce_rest(p, progress, now);
	process_unlock(p);
	if (progress == DUE)
		return 1;
	return ret ? ret : check_open(p);
}

/**
 * htw_is_due() - bring a wheel on a manual clock up to the present
 * @p: the handle, locked
 * @portion: nodes that may be looked at; decremented for each one
 *
 * The descriptor is readable while something is due.
 *
 * Return: whether something is due; or may be, as a long bucket is moving down.
 */
bool htw_is_due(struct process *p, unsigned int *portion)
{
	enum progress progress = look_for_due(p, p->manual_ns, portion);

	if (progress == NOTHING)
		program_next(p, p->manual_ns);
	else if (p->armed)
		program(p, 0);
	return progress != NOTHING;
}

/*
 * Have the descriptor say whether something is due, on a manual clock, and leave what was put off
 * as it is: that is for those to find out that take events, or wait for them.
 */
static void announce_manual(struct process *p)
{
	unsigned int portion = PORTION_MANUAL;

	if (!htw_wheel_collect_due(&p->wheel, p->manual_ns / p->tick_ns, &portion) && portion &&
	    htw_wheel_cascade(&p->wheel, &portion))
		program_next(p, p->manual_ns);
	else if (p->armed)
		program(p, 0);
}

/**
 * htw_announce() - program the timerfd after a call that has changed the wheel
 * @p: the handle, locked
 *
 * Where something else has closed the descriptor, the next wait or read says so.
 */
void htw_announce(struct process *p)
{
	u64 when;

	if (p->clock == HTW_CLOCK_MANUAL) {
		announce_manual(p);
		return;
	}
	p->ahead = false;
	when = time_of_work(p, p->wheel.next);
	if (when < p->armed)
		program(p, when);
}

/**
 * htw_next_of() - a time before which nothing is due
 * @p: the handle, locked
 *
 * Return: the time; U64_MAX if no timer is pending, or none before clocks end.
 */
u64 htw_next_of(struct process *p)
{
	const u64 next = p->wheel.next;
	u64 when;

	if (!p->wheel.pending)
		return U64_MAX;
	/* This only looks: the timerfd is programmed for what was found last. */
	when = time_of_work(p, htw_wheel_next(&p->wheel));
	p->wheel.next = next;
	return when > INT64_MAX ? U64_MAX : when;
}

int htw_process_next_time(struct htw *htw, uint64_t *when)
{
	struct process *p = process_of(htw);
	u64 next;

	process_lock(p);
	next = htw_next_of(p);
	process_unlock(p);
	if (next == U64_MAX)
		return -ENOENT;
	*when = next;
	return 0;
}
