// SPDX-License-Identifier: MIT
/*
 * Timers in the process: htw_wheel.c, paced by one timerfd
 *
 * A timer is a slot of 64 bytes in one array. Address space is reserved for as many slots
 * as the limit allows, and made usable as needed, so a slot never moves and an id leads to
 * it by a shift and an addition. The name of a slot's node equals the id while the timer is
 * pending and differs from all ids in every other state, so one comparison finds out
 * whether an id is that of a pending timer.
 *
 * Nothing expires in the background. A read brings the wheel up to the present and takes
 * what is due; until then a timer is pending and can be stopped. Only htw_wait(),
 * htw_info() and advancing a manual clock move expired timers to a queue first.
 *
 * The timerfd is reprogrammed when the wheel has work earlier than programmed, and when a
 * read has left nothing behind. Stopping a timer leaves it as it is, so it may wake the
 * program once without an event.
 *
 * One mutex guards the handle; each call takes it once.
 */
#include "internal.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "../htw_wheel.h"

#define LIMIT_DEFAULT		(1u << 20)
#define LIMIT_MAX		(1u << 26)

#define TICK_DEFAULT		1000000u
#define TICK_MIN		10000u
#define TICK_MAX		1000000000u

/* Bounds of one growth of the array's usable part, in bytes. */
#define GROW_MIN		(64u << 10)
#define GROW_MAX		(2u << 20)

/* The most seconds that a time_t holds; it may have 32 bits. */
#define TIME_T_MAX		((u64)(sizeof(time_t) == 8 ? INT64_MAX : INT32_MAX))

/* Nodes that are moved down before due ones are taken again. */
#define CASCADE_BUDGET		4096u
/* Most events that one call returns. */
#define READ_MAX		(1u << 20)

/*
 * A slot's name: 32 bits of generation, 3 of state, 29 of slot number. The generation
 * is incremented when the timer ends.
 */
#define NAME_STATE_SHIFT	29
#define NAME_STATE		(7ULL << NAME_STATE_SHIFT)
#define NAME_GENERATION		(1ULL << 32)

enum state {
	PENDING,	/* in the wheel */
	FREE,		/* on the free list, retired, or never used */
	EXPIRED,	/* in the queue */
	IDLE,		/* kept and disarmed */
};

/* Bits of &slot.slack: flags, shift, and the slack's top bits. */
#define SLOT_KEEP		(1u << 0)
#define SLOT_STOPPED		(1u << 1)	/* @interval holds the missed count */
#define SLOT_FLAGS		(SLOT_KEEP | SLOT_STOPPED)
#define SLACK_SHIFT		6
#define SLACK_SHIFT_BITS	6
#define SLACK_DIGITS_SHIFT	(SLACK_SHIFT + SLACK_SHIFT_BITS)
#define SLACK_DIGITS		(32 - SLACK_DIGITS_SHIFT)

/**
 * struct slot - a timer
 * @node: the wheel's part; its name holds the id and the state
 * @deadline: when it expires or expired, in ns
 * @cookie: the program's
 * @interval: in ns, zero for a one-shot timer
 * @firings: how many are left, zero for without end
 * @slack: flags and slack
 *
 * The free list is linked by node.list.next alone.
 */
struct slot {
	struct htw_node node;
	u64 deadline;
	u64 cookie;
	u64 interval;
	u32 firings;
	u32 slack;
};

_Static_assert(sizeof(void *) != 8 || sizeof(struct slot) == 64, "a timer has 64 bytes");

/**
 * struct process - a handle
 * @htw: the part common to all backends
 * @slots: the array
 * @nr_slots: slots that have been used so far
 * @nr_ready: slots that may be used without asking make_ready()
 * @nr_usable: slots whose memory is usable
 * @nr_retired: slots whose generations have run out
 * @ahead: the wheel has work earlier than the timerfd is programmed for
 * @free: head of the free list
 * @tick_ns: length of a tick
 * @wheel: the wheel
 * @expired: timers that have expired and wait to be read
 * @nr_expired: number of timers on @expired
 * @nr_timers: number of timers in any state but FREE
 * @limit: bound of @nr_timers
 * @armed: what the timerfd is programmed for; zero: it is readable; U64_MAX: never
 * @manual_ns: the time of the manual clock
 * @due_ns: the latest time at which a timer was armed that was due already
 * @clock: CLOCK_MONOTONIC, ... or %HTW_CLOCK_MANUAL
 * @setup_flags: &htw_setup.flags
 * @geometry: shape of the wheel
 * @reserved: bytes of the array's address space
 * @lock: guards all of the above
 */
struct process {
	struct htw htw;
	struct slot *slots;
	u32 nr_slots;
	u32 nr_ready;
	u32 nr_usable;
	u32 nr_retired;
	bool ahead;
	struct slot *free;
	u64 tick_ns;
	struct htw_wheel wheel;
	struct list_head expired;
	u64 nr_expired;
	u64 nr_timers;
	u64 limit;
	u64 armed;
	u64 manual_ns;
	u64 due_ns;
	int clock;
	u32 setup_flags;
	struct htw_geometry geometry;
	size_t reserved;
	pthread_mutex_t lock;
};

static struct process *process_of(struct htw *htw)
{
	return container_of(htw, struct process, htw);
}

/* Ids and states. */

static u64 id_of(const struct slot *t)
{
	return t->node.name & ~NAME_STATE;
}

static enum state state_of(const struct slot *t)
{
	return (t->node.name & NAME_STATE) >> NAME_STATE_SHIFT;
}

static void set_state(struct slot *t, enum state state)
{
	t->node.name = id_of(t) | (u64)state << NAME_STATE_SHIFT;
}

/* The slot whose number is in an id, or NULL. */
static inline struct slot *slot_of(const struct process *p, u64 id)
{
	const u32 slot = id;

	return likely(slot < p->nr_slots) ? &p->slots[slot] : NULL;
}

/* The timer of an id, in any state, or NULL. */
static struct slot *find(const struct process *p, u64 id)
{
	struct slot *t = slot_of(p, id);

	if (!t || id_of(t) != id || state_of(t) == FREE)
		return NULL;
	return t;
}

/* Time. */

static u64 read_clock(const struct process *p)
{
	return unlikely(p->clock == HTW_CLOCK_MANUAL) ? p->manual_ns : htw_clock_ns(p->clock);
}

/* The first tick that is not earlier than @ns, which is not zero. */
static inline u64 tick_up(const struct process *p, u64 ns)
{
	return (ns - 1) / p->tick_ns + 1;
}

static bool node_is_due(const struct htw_node *n, u64 now)
{
	return container_of(n, struct slot, node)->deadline <= now;
}

/*
 * The tick of a deadline that has come: it does not wait for the next one, unless it would
 * overtake other timers. On a manual clock those wait.
 */
static __attribute__((noinline)) u64 due_tick(struct process *p, u64 deadline, u64 now)
{
	const u64 first = deadline ? tick_up(p, deadline) : 0;
	const u64 tick = now / p->tick_ns;

	p->due_ns = max(p->due_ns, now);
	if (p->clock != HTW_CLOCK_MANUAL &&
	    !htw_wheel_make_due(&p->wheel, tick, node_is_due, now, &p->ahead))
		return first;
	return min(first, tick);
}

/* The tick at which a timer expires, rounded up. */
static inline u64 tick_for(struct process *p, u64 deadline, u64 now)
{
	if (unlikely(deadline <= now))
		return due_tick(p, deadline, now);
	return tick_up(p, deadline);
}

static u64 slack_of(const struct slot *t)
{
	const u32 shift = t->slack >> SLACK_SHIFT & ((1u << SLACK_SHIFT_BITS) - 1);

	return (u64)(t->slack >> SLACK_DIGITS_SHIFT) << shift;
}

/* Rounded down to SLACK_DIGITS bits. */
static u32 slack_bits(u64 slack)
{
	const unsigned int bits = fls64(slack);
	const u32 shift = bits > SLACK_DIGITS ? bits - SLACK_DIGITS : 0;

	return (u32)(slack >> shift) << SLACK_DIGITS_SHIFT | shift << SLACK_SHIFT;
}

static void set_slack(struct slot *t, u64 slack)
{
	t->slack = (t->slack & SLOT_FLAGS) | slack_bits(slack);
}

static u64 tick_with_slack(struct process *p, const struct slot *t, u64 now)
{
	const u64 first = tick_for(p, t->deadline, now);
	u64 last;

	if (t->deadline <= now || __builtin_add_overflow(t->deadline, slack_of(t), &last))
		return first;
	return htw_wheel_coalesce(&p->wheel, first, last / p->tick_ns);
}

/*
 * A clock that is behind the wheel's cursor was set back, and timers started now would
 * count as past: rewind the wheel.
 */
static void check_clock(struct process *p, u64 now)
{
	if (now / p->tick_ns + 1 >= p->wheel.cursor)
		return;
	htw_wheel_rewind(&p->wheel, now / p->tick_ns);
	p->ahead = true;
}

/* Read the clock and bring an idle wheel up to it, before timers are started. */
static u64 begin(struct process *p)
{
	const u64 now = read_clock(p);

	if (unlikely(p->clock == CLOCK_REALTIME))
		check_clock(p, now);
	htw_wheel_touch(&p->wheel, now / p->tick_ns);
	return now;
}

/* The timerfd. */

/* Program the timerfd; zero: now, U64_MAX: never. */
static void program(struct process *p, u64 when)
{
	struct itimerspec spec = { };

	p->armed = when;
	if (when != U64_MAX) {
		/* Zero would disarm the timerfd. */
		const u64 ns = max_t(u64, when, 1);

		spec.it_value.tv_sec = min(ns / HTW_NS, TIME_T_MAX);
		spec.it_value.tv_nsec = ns % HTW_NS;
	}
	/* Cannot fail: descriptor and value are valid. */
	WARN_ON(timerfd_settime(p->htw.fd, TFD_TIMER_ABSTIME, &spec, NULL));
}

/* The time of &htw_wheel.next, or U64_MAX. */
static u64 next_work(const struct process *p)
{
	u64 ns;

	if (p->wheel.next == HTW_NEVER || __builtin_mul_overflow(p->wheel.next, p->tick_ns, &ns))
		return U64_MAX;
	return ns;
}

static void expire_manual(struct process *p);

/* End a call that has started timers. */
static void finish(struct process *p)
{
	if (unlikely(p->clock == HTW_CLOCK_MANUAL)) {
		expire_manual(p);
	} else if (unlikely(p->ahead)) {
		p->ahead = false;
		if (next_work(p) < p->armed)
			program(p, next_work(p));
	}
}

/* Slots. */

static size_t usable_bytes(const struct process *p)
{
	/* On 32-bit machines the last slot may end before the last page does. */
	return (p->nr_usable * sizeof(struct slot) + GROW_MIN - 1) / GROW_MIN * GROW_MIN;
}

/* Make more of the array usable; it is zero. */
static int grow(struct process *p, u64 want)
{
	const size_t have = usable_bytes(p);
	size_t bytes;

	/* By an eighth, at most a huge page. */
	bytes = have + min_t(size_t, max_t(size_t, have / 8, GROW_MIN), GROW_MAX);
	bytes = max(bytes, (size_t)want * sizeof(struct slot));
	bytes = min((bytes + GROW_MIN - 1) / GROW_MIN * GROW_MIN, p->reserved);
	if (mprotect((char *)p->slots + have, bytes - have, PROT_READ | PROT_WRITE))
		return -ENOMEM;
	p->nr_usable = bytes / sizeof(struct slot);
	return 0;
}

/*
 * Make slots available that have never been used, as the free list is empty.
 *
 * Return: 0, and slots up to &process.nr_ready can be used; -ENOSPC at the limit;
 * -ENOMEM.
 */
static __attribute__((noinline)) int make_ready(struct process *p)
{
	const u64 room = p->limit - (p->nr_slots - p->nr_retired);

	if (!room)
		return -ENOSPC;
	/* Retired slots take room in the array that the limit does not count. */
	if (p->nr_slots == p->nr_usable &&
	    (p->nr_slots == p->reserved / sizeof(struct slot) || grow(p, 0)))
		return -ENOMEM;
	p->nr_ready = min(p->nr_slots + room, (u64)p->nr_usable);
	return 0;
}

/*
 * Take a free slot for a timer that is about to be pending; the caller sets its name to
 * @*id.
 *
 * Return: the slot, on no list; or NULL with @*error.
 */
static inline struct slot *take_slot(struct process *p, u64 *id, int *error)
{
	struct slot *t = p->free;

	if (t) {
		p->free = (struct slot *)t->node.list.next;
		*id = t->node.name ^ (u64)FREE << NAME_STATE_SHIFT;
		return t;
	}
	if (unlikely(p->nr_slots == p->nr_ready)) {
		*error = make_ready(p);
		if (*error)
			return NULL;
	}
	*id = NAME_GENERATION + p->nr_slots;
	return &p->slots[p->nr_slots++];
}

/*
 * End the id of a timer that is on no list and whose name is @name, in @state.
 *
 * Return: false for a slot whose generations have run out: it is not used again, as that
 * would make old ids valid.
 */
static inline bool end_id(struct process *p, struct slot *t, u64 name, enum state state)
{
	const u64 step = NAME_GENERATION + ((u64)FREE << NAME_STATE_SHIFT) -
			 ((u64)state << NAME_STATE_SHIFT);

	if (likely(!__builtin_add_overflow(name, step, &t->node.name)))
		return true;
	p->nr_retired++;
	return false;
}

/* End a timer's id and put the slot on a free list. Return: the list's new head. */
static inline struct slot *free_onto(struct process *p, struct slot *free, struct slot *t,
				     u64 name, enum state state)
{
	if (unlikely(!end_id(p, t, name, state)))
		return free;
	t->node.list.next = (struct list_head *)free;
	return t;
}

static void free_slot(struct process *p, struct slot *t, enum state state)
{
	p->free = free_onto(p, p->free, t, t->node.name, state);
}

/* Starting and moving. */

static inline void arm(struct process *p, struct slot *t, u64 now)
{
	t->node.expires = likely(t->slack <= SLOT_FLAGS) ? tick_for(p, t->deadline, now) :
							   tick_with_slack(p, t, now);
	if (unlikely(htw_wheel_start(&p->wheel, &t->node)))
		p->ahead = true;
}

static bool add_is_valid(const struct process *p, const struct htw_add *add)
{
	return !(add->flags & ~(HTW_F_ABS | HTW_F_KEEP | HTW_F_CANCEL_ON_SET)) &&
	       !add->reserved &&
	       (add->interval ? add->interval >= p->tick_ns : !add->firings) &&
	       (!(add->flags & HTW_F_CANCEL_ON_SET) || p->clock == CLOCK_REALTIME);
}

static int check_add(const struct process *p, const struct htw_add *add)
{
	if (!add_is_valid(p, add))
		return -EINVAL;
	return add->flags & HTW_F_CANCEL_ON_SET ? -ENOTSUP : 0;
}

static int add_one(struct process *p, struct htw_add *add, u64 now)
{
	int ret = check_add(p, add);
	struct slot *t;
	u64 id;

	if (ret)
		return ret;
	t = take_slot(p, &id, &ret);
	if (!t)
		return ret;
	t->node.name = id;
	t->deadline = add->flags & HTW_F_ABS ? add->deadline : htw_sum(now, add->deadline);
	t->cookie = add->cookie;
	t->interval = add->interval;
	t->firings = add->firings;
	t->slack = slack_bits(add->slack) | (add->flags & HTW_F_KEEP ? SLOT_KEEP : 0);
	p->nr_timers++;
	arm(p, t, now);
	add->id = id;
	return 0;
}

static int process_add(struct htw *htw, struct htw_add *add)
{
	struct process *p = process_of(htw);
	int ret;

	pthread_mutex_lock(&p->lock);
	ret = add_one(p, add, begin(p));
	finish(p);
	pthread_mutex_unlock(&p->lock);
	return ret;
}

/* Parameters shared by all timers of one call. */
struct common {
	u64 now;
	u64 from;	/* added to deadlines: @now if they are relative */
	u64 interval;
	u32 firings;
	u32 slack;
};

static void set_results(int *results, unsigned int count, int value)
{
	unsigned int i;

	for (i = 0; results && i < count; i++)
		results[i] = value;
}

/*
 * Add timers until there is no more room; @simple: one-shot timers without slack.
 *
 * Return: how many were added, with @*error if not all.
 */
static __always_inline unsigned int add_some(struct process *p, const struct common *common,
					     bool simple, const u64 *deadlines, const u64 *cookies,
					     u64 *ids, unsigned int count, int *error)
{
	static const u64 no_cookie;
	const u64 *cookie = cookies ? cookies : &no_cookie;
	const unsigned int step = !!cookies;
	unsigned int i;

	for (i = 0; i < count; i++, cookie += step) {
		u64 id;
		struct slot *t = take_slot(p, &id, error);

		if (unlikely(!t))
			break;
		t->node.name = id;
		ids[i] = id;
		t->deadline = htw_sum(deadlines[i], common->from);
		t->cookie = *cookie;
		t->interval = simple ? 0 : common->interval;
		t->firings = simple ? 0 : common->firings;
		t->slack = common->slack;
		t->node.expires = simple ? tick_for(p, t->deadline, common->now) :
					   tick_with_slack(p, t, common->now);
		if (unlikely(htw_wheel_link(&p->wheel, &t->node)))
			p->ahead = true;
	}
	p->wheel.pending += i;
	p->nr_timers += i;
	return i;
}

static int set_result(int *results, unsigned int i, int result)
{
	if (results)
		results[i] = result;
	return !!result;
}

static int process_add_many(struct htw *htw, const struct htw_add *common,
			    const uint64_t *deadlines, const uint64_t *cookies, uint64_t *ids,
			    unsigned int count, int *results)
{
	struct process *p = process_of(htw);
	struct common all = {
		.interval = common->interval,
		.firings = common->firings,
		.slack = slack_bits(common->slack) | (common->flags & HTW_F_KEEP ? SLOT_KEEP : 0),
	};
	unsigned int added;
	int error = check_add(p, common);

	if (error)
		return error;
	set_results(results, count, 0);
	pthread_mutex_lock(&p->lock);
	all.now = begin(p);
	all.from = common->flags & HTW_F_ABS ? 0 : all.now;
	if (likely(!all.interval && all.slack <= SLOT_FLAGS))
		added = add_some(p, &all, true, deadlines, cookies, ids, count, &error);
	else
		added = add_some(p, &all, false, deadlines, cookies, ids, count, &error);
	finish(p);
	pthread_mutex_unlock(&p->lock);
	if (unlikely(added < count)) {
		memset(ids + added, 0, (count - added) * sizeof(*ids));
		if (results)
			set_results(results + added, count - added, error);
	}
	return count - added;
}

/* Move a pending timer. */
static inline void move(struct process *p, struct slot *t, u64 deadline, u64 now)
{
	t->deadline = deadline;
	htw_wheel_unlink(&p->wheel, &t->node);
	t->node.expires = likely(t->slack <= SLOT_FLAGS) ? tick_for(p, deadline, now) :
							   tick_with_slack(p, t, now);
	if (unlikely(htw_wheel_link(&p->wheel, &t->node)))
		p->ahead = true;
}

static bool mod_is_valid(const struct process *p, const struct htw_mod *mod)
{
	const u32 set = HTW_MOD_DEADLINE | HTW_MOD_INTERVAL | HTW_MOD_COOKIE | HTW_MOD_SLACK;

	if (mod->flags & ~(set | HTW_F_ABS) || !(mod->flags & set) || mod->reserved)
		return false;
	if (!(mod->flags & HTW_MOD_DEADLINE) && (mod->deadline || mod->flags & HTW_F_ABS))
		return false;
	if (!(mod->flags & HTW_MOD_COOKIE) && mod->cookie)
		return false;
	if (!(mod->flags & HTW_MOD_SLACK) && mod->slack)
		return false;
	if (!(mod->flags & HTW_MOD_INTERVAL))
		return !mod->interval && !mod->firings;
	return mod->interval ? mod->interval >= p->tick_ns : !mod->firings;
}

static int mod_one(struct process *p, const struct htw_mod *mod, u64 now)
{
	struct slot *t;
	u64 deadline;

	if (!mod_is_valid(p, mod))
		return -EINVAL;
	t = find(p, mod->id);
	/* A stopped timer has ended; only its event remains. */
	if (!t || t->slack & SLOT_STOPPED)
		return -ENOENT;
	if (mod->flags & HTW_MOD_COOKIE)
		t->cookie = mod->cookie;
	if (mod->flags & HTW_MOD_SLACK)
		set_slack(t, mod->slack);
	if (mod->flags & HTW_MOD_INTERVAL) {
		t->interval = mod->interval;
		t->firings = mod->firings;
	}
	if (!(mod->flags & HTW_MOD_DEADLINE))
		return 0;
	deadline = mod->flags & HTW_F_ABS ? mod->deadline : htw_sum(now, mod->deadline);
	switch (state_of(t)) {
	case PENDING:
		move(p, t, deadline, now);
		return 0;
	case EXPIRED:
		list_del(&t->node.list);
		p->nr_expired--;
		break;
	default:
		break;
	}
	t->deadline = deadline;
	set_state(t, PENDING);
	arm(p, t, now);
	return 0;
}

static int process_mod(struct htw *htw, const struct htw_mod *mod)
{
	struct process *p = process_of(htw);
	int ret;

	pthread_mutex_lock(&p->lock);
	ret = mod_one(p, mod, begin(p));
	finish(p);
	pthread_mutex_unlock(&p->lock);
	return ret;
}

static __attribute__((noinline)) int rearm_slow(struct process *p, u64 id, u64 deadline,
						u32 flags, u64 now)
{
	const struct htw_mod mod = {
		.id = id,
		.deadline = deadline,
		.flags = HTW_MOD_DEADLINE | flags,
	};

	return mod_one(p, &mod, now);
}

static int process_rearm_many(struct htw *htw, const uint64_t *ids, const uint64_t *deadlines,
			      unsigned int count, unsigned int flags, int *results)
{
	struct process *p = process_of(htw);
	unsigned int i, failed = 0;
	u64 now, from;

	if (flags & ~HTW_F_ABS)
		return -EINVAL;
	set_results(results, count, 0);
	pthread_mutex_lock(&p->lock);
	now = begin(p);
	from = flags & HTW_F_ABS ? 0 : now;
	for (i = 0; i < count; i++) {
		const u64 id = ids[i];
		const u32 slot = id;

		if (likely(slot < p->nr_slots) && likely(p->slots[slot].node.name == id))
			move(p, &p->slots[slot], htw_sum(deadlines[i], from), now);
		else
			failed += set_result(results, i,
					     rearm_slow(p, id, deadlines[i], flags, now));
	}
	finish(p);
	pthread_mutex_unlock(&p->lock);
	return failed;
}

/* Stopping and looking. */

/* Count the firings since the one whose expiration is queued. */
static u64 missed_of(const struct slot *t, u64 now)
{
	u64 missed;

	if (t->slack & SLOT_STOPPED)
		return t->interval;
	if (!t->interval)
		return 0;
	now = max(now, t->node.fired);
	missed = (now - t->deadline) / t->interval;
	return t->firings ? min(missed, (u64)t->firings - 1) : missed;
}

static u64 remaining(const struct slot *t, u64 now)
{
	return t->deadline > now ? t->deadline - now : 0;
}

static bool cancel_is_valid(const struct htw_cancel *cancel)
{
	return !(cancel->flags & ~HTW_CANCEL_DISCARD) && !cancel->reserved0 &&
	       !cancel->reserved[0] && !cancel->reserved[1];
}

/* Stop a timer; report its cookie, remaining time and missed firings in @out, if not NULL. */
static int stop_one(struct process *p, struct slot *t, bool discard, struct htw_cancel *out)
{
	const enum state state = state_of(t);
	const u64 now = out ? read_clock(p) : 0;
	u64 missed;

	if (out) {
		out->cookie = t->cookie;
		out->remaining = state == PENDING ? remaining(t, now) : 0;
		out->missed = state == EXPIRED ? missed_of(t, now) : 0;
	}
	switch (state) {
	case PENDING:
		htw_wheel_stop(&p->wheel, &t->node);
		break;
	case EXPIRED:
		if (discard) {
			list_del(&t->node.list);
			p->nr_expired--;
			p->nr_timers--;
			free_slot(p, t, EXPIRED);
			return -EALREADY;
		}
		missed = missed_of(t, out ? now : read_clock(p));
		t->interval = missed;
		t->slack = (t->slack & ~SLOT_KEEP) | SLOT_STOPPED;
		return -EALREADY;
	default:
		break;
	}
	p->nr_timers--;
	free_slot(p, t, state);
	return 0;
}

static int cancel_one(struct process *p, struct htw_cancel *cancel)
{
	struct slot *t;

	if (!cancel_is_valid(cancel))
		return -EINVAL;
	t = find(p, cancel->id);
	return t ? stop_one(p, t, cancel->flags & HTW_CANCEL_DISCARD, cancel) : -ENOENT;
}

static int process_cancel(struct htw *htw, struct htw_cancel *cancel)
{
	struct process *p = process_of(htw);
	int ret;

	pthread_mutex_lock(&p->lock);
	ret = cancel_one(p, cancel);
	/* On a manual clock the descriptor may have nothing to report any more. */
	finish(p);
	pthread_mutex_unlock(&p->lock);
	return ret;
}

/* Stop a timer in any state. */
static __attribute__((noinline)) int stop_slow(struct process *p, u64 id)
{
	struct slot *t = find(p, id);

	return t ? stop_one(p, t, false, NULL) : -ENOENT;
}

static int process_stop(struct htw *htw, uint64_t id)
{
	struct process *p = process_of(htw);
	int ret;

	pthread_mutex_lock(&p->lock);
	ret = stop_slow(p, id);
	finish(p);
	pthread_mutex_unlock(&p->lock);
	return ret;
}

static int process_stop_many(struct htw *htw, const uint64_t *ids, unsigned int count, int *results)
{
	struct process *p = process_of(htw);
	unsigned int i, failed = 0, slow = 0;
	struct slot *free;

	set_results(results, count, 0);
	pthread_mutex_lock(&p->lock);
	free = p->free;
	for (i = 0; i < count; i++) {
		const u64 id = ids[i];
		const u32 slot = id;

		if (likely(slot < p->nr_slots) && likely(p->slots[slot].node.name == id)) {
			struct slot *t = &p->slots[slot];

			htw_wheel_unlink(&p->wheel, &t->node);
			free = free_onto(p, free, t, id, PENDING);
		} else {
			p->free = free;
			slow++;
			failed += set_result(results, i, stop_slow(p, id));
			free = p->free;
		}
	}
	p->free = free;
	p->wheel.pending -= count - slow;
	p->nr_timers -= count - slow;
	finish(p);
	pthread_mutex_unlock(&p->lock);
	return failed;
}

static void fill_query(const struct slot *t, u64 now, struct htw_query *query)
{
	static const u16 states[] = {
		[PENDING]	= HTW_STATE_PENDING,
		[EXPIRED]	= HTW_STATE_EXPIRED,
		[IDLE]		= HTW_STATE_DISARMED,
	};
	const enum state state = state_of(t);

	*query = (struct htw_query){
		.id = id_of(t),
		.deadline = t->deadline,
		.remaining = state == PENDING ? remaining(t, now) : 0,
		.interval = t->slack & SLOT_STOPPED ? 0 : t->interval,
		.cookie = t->cookie,
		.missed = state == EXPIRED ? missed_of(t, now) : 0,
		.firings = t->firings,
		.state = states[state],
		.flags = t->slack & SLOT_KEEP ? HTW_F_KEEP : 0,
	};
}

static int query_one(struct process *p, struct htw_query *query, u64 now)
{
	const struct slot *t = find(p, query->id);

	if (query->deadline | query->remaining | query->interval | query->cookie |
	    query->missed | query->firings | query->state | query->flags)
		return -EINVAL;
	if (!t)
		return -ENOENT;
	fill_query(t, now, query);
	return 0;
}

static int process_next(struct htw *htw, struct htw_query *query)
{
	struct process *p = process_of(htw);
	struct htw_node *first;
	int ret = -ENOENT;

	pthread_mutex_lock(&p->lock);
	htw_wheel_first(&p->wheel, UINT_MAX, &first);
	if (first) {
		fill_query(container_of(first, struct slot, node), read_clock(p), query);
		ret = 0;
	}
	pthread_mutex_unlock(&p->lock);
	return ret;
}

static int process_query(struct htw *htw, struct htw_query *query)
{
	struct process *p = process_of(htw);
	int ret;

	pthread_mutex_lock(&p->lock);
	ret = query_one(p, query, read_clock(p));
	pthread_mutex_unlock(&p->lock);
	return ret;
}

static int process_batch(struct htw *htw, struct htw_op *ops, unsigned int count)
{
	struct process *p = process_of(htw);
	unsigned int i, failed = 0;
	u64 now;

	pthread_mutex_lock(&p->lock);
	now = begin(p);
	for (i = 0; i < count; i++) {
		struct htw_op *op = &ops[i];

		op->result = -EINVAL;
		if (!op->reserved) {
			switch (op->op) {
			case HTW_OP_ADD:
				op->result = add_one(p, &op->add, now);
				break;
			case HTW_OP_CANCEL:
				op->result = cancel_one(p, &op->cancel);
				break;
			case HTW_OP_MOD:
				op->result = mod_one(p, &op->mod, now);
				break;
			case HTW_OP_QUERY:
				op->result = query_one(p, &op->query, now);
				break;
			}
		}
		failed += !!op->result;
		/* On a manual clock, what an operation makes due expires before the next. */
		if (unlikely(p->clock == HTW_CLOCK_MANUAL))
			expire_manual(p);
	}
	finish(p);
	pthread_mutex_unlock(&p->lock);
	return failed;
}

/* Expiring and reading. */

/* Neither periodic, nor kept, nor stopped while its expiration is queued. */
static inline bool is_plain(const struct slot *t)
{
	return !(t->interval | (t->slack & SLOT_FLAGS));
}

static inline void fill_event(struct htw_event *ev, const struct slot *t, u64 id, u64 fired)
{
	ev->id = id;
	ev->cookie = t->cookie;
	ev->deadline = t->deadline;
	ev->fired = fired;
	ev->missed = 0;
	ev->flags = 0;
	ev->reserved = 0;
}

/* Fill in the event of an expired timer, which is on no list, and arm, keep or free the timer. */
static void consume(struct process *p, struct slot *t, u64 now, struct htw_event *ev)
{
	const u64 missed = missed_of(t, now);
	const u64 spent = missed + 1;
	const bool goes_on = t->interval && !(t->slack & SLOT_STOPPED) &&
			     (!t->firings || t->firings > spent);

	fill_event(ev, t, id_of(t), t->node.fired);
	ev->missed = missed;
	if (goes_on) {
		/* Keep the phase: the next start + k * interval after now. */
		ev->flags = HTW_EVENT_MORE;
		t->deadline = htw_sum(t->deadline + missed * t->interval, t->interval);
		if (t->firings)
			t->firings -= spent;
		set_state(t, PENDING);
		arm(p, t, now);
	} else if (t->slack & SLOT_KEEP) {
		ev->flags = HTW_EVENT_MORE;
		/* After its last firing a periodic timer is a one-shot timer. */
		t->interval = 0;
		t->firings = 0;
		set_state(t, IDLE);
	} else {
		p->nr_timers--;
		free_slot(p, t, state_of(t));
	}
}

/* Read from the queue. */
static unsigned int read_queue(struct process *p, struct htw_event *events, unsigned int count,
			       u64 now)
{
	unsigned int got = 0;

	while (got < count && !list_empty(&p->expired)) {
		struct slot *t = list_first_entry(&p->expired, struct slot, node.list);

		list_del(&t->node.list);
		p->nr_expired--;
		consume(p, t, now, &events[got++]);
	}
	return got;
}

/* Read plain timers from the front of the wheel's due list, without unlinking each. */
static unsigned int read_plain(struct process *p, struct htw_event *events, unsigned int count,
			       u64 now)
{
	struct list_head *const due = &p->wheel.due;
	struct list_head *entry = due->next;
	struct slot *free = p->free;
	unsigned int got = 0;

	while (got < count && entry != due) {
		struct slot *t = list_entry(entry, struct slot, node.list);

		if (unlikely(!is_plain(t)))
			break;
		entry = entry->next;
		prefetchw(entry);
		fill_event(&events[got++], t, t->node.name, now);
		free = free_onto(p, free, t, t->node.name, PENDING);
	}
	p->free = free;
	due->next = entry;
	entry->prev = due;
	p->wheel.pending -= got;
	p->nr_timers -= got;
	return got;
}

/*
 * Was the clock set back since a timer was armed that was due? Then its deadline may be later than
 * its tick.
 */
static bool was_set_back(const struct process *p, u64 now)
{
	return unlikely(now < p->due_ns);
}

/* Arm a timer again that the wheel has expired before its deadline; false if it has come. */
static bool defer(struct process *p, struct slot *t, u64 now)
{
	if (t->deadline <= now)
		return false;
	arm(p, t, now);
	return true;
}

/*
 * Read what is due from the wheel.
 *
 * Return: number of events; *done: nothing more is due or has to be moved down.
 */
static unsigned int read_wheel(struct process *p, struct htw_event *events, unsigned int count,
			       u64 now, bool *done)
{
	const u64 tick = now / p->tick_ns;
	const bool set_back = was_set_back(p, now);
	unsigned int budget = count + CASCADE_BUDGET;
	unsigned int got = 0;

	*done = false;
	for (;;) {
		const unsigned int plain = set_back ? 0 : read_plain(p, events + got, count - got,
								     now);
		struct htw_node *n;
		struct slot *t;

		got += plain;
		budget -= min(plain, budget);
		if (got == count)
			return got;
		n = htw_wheel_expire(&p->wheel, tick, &budget);
		if (!n)
			break;
		t = container_of(n, struct slot, node);
		if (set_back && defer(p, t, now))
			continue;
		n->fired = now;
		consume(p, t, now, &events[got++]);
	}
	*done = budget && htw_wheel_cascade(&p->wheel, &budget) && list_empty(&p->wheel.due);
	return got;
}

/* Move due timers to the queue, within a budget. Return: true if nothing is left to do now. */
static bool expire(struct process *p, u64 now)
{
	const bool set_back = was_set_back(p, now);
	unsigned int budget = CASCADE_BUDGET;
	struct htw_node *n;

	while ((n = htw_wheel_expire(&p->wheel, now / p->tick_ns, &budget))) {
		struct slot *t = container_of(n, struct slot, node);

		if (set_back && defer(p, t, now))
			continue;
		n->fired = now;
		set_state(t, EXPIRED);
		list_add_tail(&n->list, &p->expired);
		p->nr_expired++;
	}
	return budget && htw_wheel_cascade(&p->wheel, &budget) && list_empty(&p->wheel.due);
}

/* Program the timerfd for the wheel's next work, as nothing is due any more. */
static void program_next(struct process *p, u64 now)
{
	u64 when;

	p->wheel.next = htw_wheel_next(&p->wheel);
	p->ahead = false;
	when = next_work(p);
	/*
	 * Reprogram the timerfd if it has expired, which makes it readable, or is programmed
	 * too late; leave it if it is early. Setting CLOCK_REALTIME may have expired it, too.
	 */
	if (p->armed <= now || when < p->armed || p->clock == CLOCK_REALTIME)
		program(p, when);
}

/* Expire on a manual clock; the descriptor is readable while the queue is not empty. */
static void expire_manual(struct process *p)
{
	u64 when;

	while (!expire(p, p->manual_ns))
		;
	p->wheel.next = htw_wheel_next(&p->wheel);
	p->ahead = false;
	when = list_empty(&p->expired) ? U64_MAX : 0;
	if (when != p->armed)
		program(p, when);
}

static int process_read(struct htw *htw, struct htw_event *events, unsigned int count)
{
	struct process *p = process_of(htw);
	unsigned int got;
	bool done = true;
	u64 now;

	if (unlikely(!count))
		return 0;
	count = min(count, READ_MAX);
	pthread_mutex_lock(&p->lock);
	now = read_clock(p);
	if (unlikely(p->clock == CLOCK_REALTIME))
		check_clock(p, now);
	got = unlikely(p->nr_expired) ? read_queue(p, events, count, now) : 0;
	if (unlikely(p->clock == HTW_CLOCK_MANUAL)) {
		expire_manual(p);
	} else {
		if (likely(got < count))
			do {
				got += read_wheel(p, events + got, count - got, now, &done);
			} while (!got && !done);
		else
			done = false;
		if (done)
			program_next(p, now);
		else if (p->armed > now)
			program(p, 0);	/* more is due: make the descriptor readable */
	}
	pthread_mutex_unlock(&p->lock);
	return got;
}

/* Move all due timers to the queue and program the timerfd accordingly. */
static void expire_all(struct process *p)
{
	u64 now;

	if (p->clock == HTW_CLOCK_MANUAL)
		return;
	now = read_clock(p);
	if (unlikely(p->clock == CLOCK_REALTIME))
		check_clock(p, now);
	while (!expire(p, now))
		;
	if (!p->nr_expired)
		program_next(p, now);
	else if (p->armed > now)
		program(p, 0);
}

static int process_ready(struct htw *htw)
{
	struct process *p = process_of(htw);
	int ret;

	pthread_mutex_lock(&p->lock);
	expire_all(p);
	ret = p->nr_expired > 0;
	pthread_mutex_unlock(&p->lock);
	return ret;
}

/* All timers. */

static int64_t process_cancel_all(struct htw *htw, unsigned int flags)
{
	struct process *p = process_of(htw);
	int64_t count = 0;
	u32 i;

	if (flags & ~HTW_CANCEL_DISCARD)
		return -EINVAL;
	pthread_mutex_lock(&p->lock);
	for (i = 0; i < p->nr_slots; i++)
		if (state_of(&p->slots[i]) != FREE)
			count += !stop_one(p, &p->slots[i], flags & HTW_CANCEL_DISCARD, NULL);
	finish(p);
	pthread_mutex_unlock(&p->lock);
	return count;
}

/* The bit of &enum htw_list_flag for a timer's state. */
static unsigned int list_state(const struct slot *t)
{
	switch (state_of(t)) {
	case PENDING:
		return HTW_LIST_PENDING;
	case EXPIRED:
		return HTW_LIST_EXPIRED;
	case IDLE:
		return HTW_LIST_DISARMED;
	default:
		return 0;
	}
}

static unsigned int walk(struct process *p, unsigned int states, u64 *cursor,
			 struct htw_query *entries, unsigned int count, bool take)
{
	const u64 now = read_clock(p);
	unsigned int got = 0;

	for (; *cursor < p->nr_slots && got < count; ++*cursor) {
		struct slot *t = &p->slots[*cursor];

		if (!(list_state(t) & states))
			continue;
		fill_query(t, now, &entries[got++]);
		if (take)
			stop_one(p, t, false, NULL);
	}
	return got;
}

static int process_list(struct htw *htw, unsigned int states, uint64_t *cursor,
			struct htw_query *entries, unsigned int count)
{
	struct process *p = process_of(htw);
	unsigned int got;

	if (states & ~(HTW_LIST_PENDING | HTW_LIST_EXPIRED | HTW_LIST_DISARMED))
		return -EINVAL;
	if (!states)
		states = HTW_LIST_PENDING;
	count = min_t(unsigned int, count, INT_MAX);
	pthread_mutex_lock(&p->lock);
	got = walk(p, states, cursor, entries, count, false);
	pthread_mutex_unlock(&p->lock);
	return got;
}

static int process_harvest(struct htw *htw, struct htw_query *entries, unsigned int count)
{
	struct process *p = process_of(htw);
	unsigned int got;
	u64 cursor = 0;

	count = min_t(unsigned int, count, INT_MAX);
	pthread_mutex_lock(&p->lock);
	got = walk(p, HTW_LIST_PENDING, &cursor, entries, count, true);
	pthread_mutex_unlock(&p->lock);
	return got;
}

static int64_t process_advance(struct htw *htw, uint64_t ns, unsigned int flags)
{
	struct process *p = process_of(htw);
	u64 before, to;
	int64_t ret = -EINVAL;

	if (flags & ~HTW_F_ABS || p->clock != HTW_CLOCK_MANUAL)
		return -EINVAL;
	pthread_mutex_lock(&p->lock);
	to = flags & HTW_F_ABS ? ns : htw_sum(p->manual_ns, ns);
	/* Times end at INT64_MAX, as those of the device. */
	if (to >= p->manual_ns && to <= INT64_MAX) {
		before = p->nr_expired;
		p->manual_ns = to;
		expire_manual(p);
		ret = p->nr_expired - before;
	}
	pthread_mutex_unlock(&p->lock);
	return ret;
}

/* The handle. */

static uint64_t process_now(struct htw *htw)
{
	struct process *p = process_of(htw);
	u64 now;

	if (p->clock != HTW_CLOCK_MANUAL)
		return read_clock(p);
	pthread_mutex_lock(&p->lock);
	now = p->manual_ns;
	pthread_mutex_unlock(&p->lock);
	return now;
}

static int process_info(struct htw *htw, struct htw_info *info)
{
	struct process *p = process_of(htw);
	unsigned int l;

	pthread_mutex_lock(&p->lock);
	expire_all(p);
	*info = (struct htw_info){
		.features = HTW_FEATURE_ADD | HTW_FEATURE_KEEP | HTW_FEATURE_FIRINGS |
			    HTW_FEATURE_MOD | HTW_FEATURE_SLACK | HTW_FEATURE_ALL |
			    HTW_FEATURE_SETUP | HTW_FEATURE_MANUAL | HTW_FEATURE_VECTOR |
			    HTW_FEATURE_NEXT | HTW_FEATURE_LIST_STATES,
		.tick_ns = p->tick_ns,
		.limit = p->limit,
		.timers = p->nr_timers,
		.expired = p->nr_expired,
		.clock = p->clock,
		.home_cpu = -1,
		.flags = p->setup_flags,
		.levels = p->geometry.levels,
	};
	for (l = 0; l < p->geometry.levels; l++)
		info->slots[l] = p->geometry.slots[l];
	pthread_mutex_unlock(&p->lock);
	return 0;
}

static int process_reserve(struct htw *htw, uint64_t count)
{
	struct process *p = process_of(htw);
	char *usable;
	size_t bytes;
	int ret = 0;

	if (count > p->limit)
		return -ENOSPC;
	pthread_mutex_lock(&p->lock);
	if (count > p->nr_usable)
		ret = grow(p, count);
	if (!ret && count > p->nr_slots) {
		/* Leaves pages that are populated as they are. */
		usable = (char *)p->slots;
		bytes = usable_bytes(p);
		if (madvise(usable, bytes, MADV_POPULATE_WRITE) && errno == ENOMEM)
			ret = -ENOMEM;	/* EINVAL before Linux 5.14: pages come when touched */
	}
	pthread_mutex_unlock(&p->lock);
	return ret;
}

static void process_close(struct htw *htw)
{
	struct process *p = process_of(htw);

	/* The nodes are freed with the array, so the wheel need not be emptied. */
	p->wheel.pending = 0;
	htw_wheel_destroy(&p->wheel);
	munmap(p->slots, p->reserved);
	pthread_mutex_destroy(&p->lock);
	close(p->htw.fd);
	free(p);
}

static const struct htw_backend_ops process_ops = {
	.backend	= HTW_BACKEND_PROCESS,
	.close		= process_close,
	.now		= process_now,
	.info		= process_info,
	.reserve	= process_reserve,
	.add		= process_add,
	.stop		= process_stop,
	.cancel		= process_cancel,
	.mod		= process_mod,
	.query		= process_query,
	.next		= process_next,
	.add_many	= process_add_many,
	.rearm_many	= process_rearm_many,
	.stop_many	= process_stop_many,
	.batch		= process_batch,
	.read		= process_read,
	.ready		= process_ready,
	.cancel_all	= process_cancel_all,
	.list		= process_list,
	.harvest	= process_harvest,
	.advance	= process_advance,
};

static const struct htw_geometry default_geometry = {
	.levels = 5,
	.slots = { 256, 64, 64, 64, 64 },
};

/* Set clock, tick, limit and geometry, with the checks of HTW_SETUP. */
static int shape(struct process *p, const struct htw_setup *setup)
{
	const u32 known = HTW_SETUP_CLOCK | HTW_SETUP_PRIVATE | HTW_SETUP_LIMIT |
			  HTW_SETUP_HOME | HTW_SETUP_RING;
	struct htw_geometry *geo = &p->geometry;
	const char *why;
	u32 l;

	p->clock = CLOCK_MONOTONIC;
	p->tick_ns = TICK_DEFAULT;
	p->limit = LIMIT_DEFAULT;
	*geo = default_geometry;
	if (!setup)
		return 0;
	if (setup->flags & ~known || setup->reserved0 || setup->reserved[0] ||
	    setup->reserved[1] || setup->reserved[2])
		return -EINVAL;
	if (setup->flags & (HTW_SETUP_HOME | HTW_SETUP_RING))
		return -ENOTSUP;
	if (setup->home_cpu || setup->ring_entries)
		return -EINVAL;
	if (setup->flags & HTW_SETUP_CLOCK)
		p->clock = setup->clock;
	else if (setup->clock)
		return -EINVAL;
	if (p->clock != CLOCK_MONOTONIC && p->clock != CLOCK_BOOTTIME &&
	    p->clock != CLOCK_REALTIME && p->clock != HTW_CLOCK_MANUAL)
		return -EOPNOTSUPP;
	if (setup->flags & HTW_SETUP_LIMIT)
		p->limit = setup->limit;
	else if (setup->limit)
		return -EINVAL;
	if (!p->limit || p->limit > LIMIT_MAX || p->limit > SIZE_MAX / 4 / sizeof(struct slot))
		return -ERANGE;
	p->setup_flags = setup->flags;
	if (!(setup->flags & HTW_SETUP_PRIVATE)) {
		for (l = 0; l < HTW_MAX_LEVELS; l++)
			if (setup->slots[l])
				return -EINVAL;
		return setup->tick_ns || setup->levels ? -EINVAL : 0;
	}
	if (setup->tick_ns < (p->clock == HTW_CLOCK_MANUAL ? 1 : TICK_MIN) ||
	    setup->tick_ns > TICK_MAX || setup->levels > HTW_MAX_LEVELS)
		return -ERANGE;
	p->tick_ns = setup->tick_ns;
	geo->levels = setup->levels;
	for (l = 0; l < HTW_MAX_LEVELS; l++) {
		geo->slots[l] = setup->slots[l];
		if (l >= setup->levels && setup->slots[l])
			return -EINVAL;
	}
	return htw_geometry_check(geo, &why) ? -ERANGE : 0;
}

/**
 * htw_process_open() - htw_open() of %HTW_BACKEND_PROCESS
 * @htw: out: the handle
 * @setup: as for htw_open()
 *
 * Return: as htw_open().
 */
int htw_process_open(struct htw **htw, const struct htw_setup *setup)
{
	struct process *p = calloc(1, sizeof(*p));
	int ret;

	if (!p)
		return -ENOMEM;
	ret = shape(p, setup);
	if (ret)
		goto free_handle;
	p->htw.ops = &process_ops;
	p->armed = U64_MAX;
	INIT_LIST_HEAD(&p->expired);
	p->reserved = (p->limit * sizeof(struct slot) + GROW_MIN - 1) / GROW_MIN * GROW_MIN;
	ret = -ENOMEM;
	p->slots = mmap(NULL, p->reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			-1, 0);
	if (p->slots == MAP_FAILED)
		goto free_handle;
	ret = htw_wheel_init(&p->wheel, &p->geometry, read_clock(p) / p->tick_ns, GFP_KERNEL,
			     NUMA_NO_NODE);
	if (ret)
		goto unmap;
	p->htw.fd = timerfd_create(p->clock == HTW_CLOCK_MANUAL ? CLOCK_MONOTONIC : p->clock,
				   TFD_NONBLOCK | TFD_CLOEXEC);
	if (p->htw.fd < 0) {
		ret = -errno;
		goto free_wheel;
	}
	ret = -pthread_mutex_init(&p->lock, NULL);
	if (ret)
		goto close_fd;
	*htw = &p->htw;
	return 0;

close_fd:
	close(p->htw.fd);
free_wheel:
	htw_wheel_destroy(&p->wheel);
unmap:
	munmap(p->slots, p->reserved);
free_handle:
	free(p);
	return ret;
}
