// SPDX-License-Identifier: MIT
/*
 * Timers in the process: htw_wheel.c, paced by one timerfd
 *
 * A timer is a slot of 64 bytes in one array. Address space is reserved for as
 * many slots as the limit allows, rounded up to a power of two, and made
 * writable as needed. So a slot never moves, and any number, masked, leads to
 * one. The name of a slot's node equals the id while the timer is pending and
 * differs from all ids in every other state, so one comparison finds out
 * whether a number is the id of a pending timer.
 *
 * Nothing expires in the background. A read brings the wheel up to the present
 * and takes what is due; until then a timer is pending and can be stopped or
 * moved. All calls that report timers without being given a deadline
 * (htw_wait(), htw_info(), htw_query(), ...), and advancing a manual clock,
 * first move expired timers to a queue, so that they answer as the kernel
 * module would.
 *
 * The timerfd is reprogrammed when the wheel has work earlier than programmed,
 * and when a read has left nothing behind. Stopping a timer leaves it as it is,
 * so it may wake the program once without an event.
 *
 * One mutex guards the handle; each call takes it once.
 *
 * A shard is a handle of its own, with array, wheel, timerfd and mutex. Only
 * the manual clock and the ids are common: the upper bits of a slot's number
 * are the shard's. A call with an id of another shard takes the mutex of the
 * family of shards, and then that shard's.
 */
#include "internal.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <linux/bitops.h>
#include <linux/bug.h>
#include <linux/numa.h>
#include <linux/prefetch.h>

#include "../htw_wheel.h"

#define LIMIT_DEFAULT		(1u << 20)
#define LIMIT_MAX		(1u << 26)

#define TICK_DEFAULT		1000000u
#define TICK_MIN		10000u
#define TICK_MAX		1000000000u

/* Bounds of one growth of the array's usable part, in bytes. */
#define GROW_MIN		(64u << 10)
#define GROW_MAX		(2u << 20)

/* Shards of a handle, if the slots of each leave enough bits of an id. */
#define SHARDS_MAX		256u
/* Memory of different shards is on different cache lines, of which CPUs may fetch two at a time. */
#define APART			128

/* The most seconds that a time_t holds; it may have 32 bits. */
#define TIME_T_MAX		((u64)(sizeof(time_t) == 8 ? INT64_MAX : INT32_MAX))

/* Nodes that are moved down before due ones are taken again. */
#define CASCADE_BUDGET		4096u

/*
 * A slot's name: 32 bits of generation, 3 of state, 29 of slot number. Without
 * the state, which is zero while the timer is pending, it is the id. The
 * generation is incremented when the timer ends.
 */
#define NAME_STATE_SHIFT	29
#define NAME_STATE		(7ULL << NAME_STATE_SHIFT)
#define NAME_GENERATION		(1ULL << 32)

/*
 * States. A timer that is stopped after it has expired remains in the queue,
 * with its missed count fixed. It is never armed again, so the count takes the
 * place of its slack, and without a limit of firings the lower half of it that
 * of their number.
 */
enum state {
	PENDING,		/* in the wheel */
	FREE,			/* on the free list, retired, or never used */
	EXPIRED,		/* in the queue */
	IDLE,			/* kept and disarmed */
	STOPPED		= 4,	/* in the queue, for the last time */
	STOPPED_KEPT	= 1,	/* set in addition if it was kept */
	STOPPED_ENDLESS	= 2,	/* set in addition if it had no limit of firings */
};

/*
 * Bits of &slot.slack: a flag, and above it the slack, from
 * htw_arith_encode_slack().
 */
#define SLOT_KEEP		(1u << 0)
#define SLACK_SHIFT		1

/**
 * struct slot - a timer
 * @node: the wheel's part; its name holds the id and the state
 * @deadline: when it expires or expired, in ns
 * @cookie: the program's
 * @interval: in ns, zero for a one-shot timer
 * @firings: how many are left, zero for without end
 * @missed_low: in place of @firings, see &enum state
 * @slack: flag and slack
 * @missed: in place of @slack, see &enum state
 *
 * The free list is linked by node.list.next alone.
 */
struct slot {
	struct htw_node node;
	u64 deadline;
	u64 cookie;
	u64 interval;
	union {
		u32 firings;
		u32 missed_low;
	};
	union {
		u32 slack;
		u32 missed;
	};
};

_Static_assert(sizeof(void *) != 8 || sizeof(struct slot) == 64, "a timer has 64 bytes");

struct process;

/**
 * struct family - the shards of a handle
 * @lock: guards the fields, and keeps shards from being closed. Comes before
 *	the lock of a shard
 * @shard: by their number; the first is the handle from htw_open()
 * @fresh: for each number, &process.fresh of the next shard; zero if its
 *	generations ran out
 */
struct family {
	pthread_mutex_t lock;
	struct process *shard[SHARDS_MAX];
	u64 fresh[SHARDS_MAX];
};

/**
 * struct process - a handle
 * @htw: the part common to all backends
 * @slots: the array
 * @mask: bits of an id that are the slot's index in @slots
 * @nr_slots: slots that have been used so far
 * @nr_ready: slots that may be used without asking make_ready()
 * @nr_usable: slots whose memory is usable
 * @nr_retired: slots whose generations have run out
 * @ahead: the wheel has work earlier than the timerfd is programmed for
 * @free: head of the free list
 * @fresh: id of the first slot when it is used for the first time
 * @tick_ns: length of a tick
 * @wheel: the wheel
 * @expired: timers that have expired and wait to be read
 * @nr_expired: number of timers on @expired
 * @nr_timers: number of timers in any state but FREE
 * @limit: bound of @nr_timers
 * @armed: what the timerfd is programmed for; zero: it is readable; U64_MAX:
 *	never
 * @manual_ns: the time of the manual clock
 * @due_ns: the latest time at which a timer was armed that was due already
 * @clock: CLOCK_MONOTONIC, ... or %HTW_CLOCK_MANUAL
 * @setup_flags: &htw_setup.flags
 * @geometry: shape of the wheel
 * @reserved: bytes of the array that may be used
 * @family: the shards, if htw_shard() has been called; written once, while
 *	others read it
 * @lock: guards all of the above
 */
struct process {
	struct htw htw;
	struct slot *slots;
	u32 mask;
	u32 nr_slots;
	u32 nr_ready;
	u32 nr_usable;
	u32 nr_retired;
	bool ahead;
	struct slot *free;
	u64 fresh;
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
	struct family *family;
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

static bool is_stopped(const struct slot *t)
{
	return state_of(t) >= STOPPED;
}

/* Was it started with %HTW_F_KEEP? */
static bool is_kept(const struct slot *t)
{
	return is_stopped(t) ? state_of(t) & STOPPED_KEPT : t->slack & SLOT_KEEP;
}

/* What a name changes by between two states, modulo 2^64. One addition, and no mask. */
static inline u64 state_step(enum state from, enum state to)
{
	return ((u64)to - (u64)from) << NAME_STATE_SHIFT;
}

static void set_state(struct slot *t, enum state state)
{
	t->node.name = id_of(t) | (u64)state << NAME_STATE_SHIFT;
}

/*
 * The slot whose index is in an id; perhaps of another timer or shard, or never
 * used, when its name is zero. The first one always has a name, so that zero is
 * never equal.
 */
static inline struct slot *slot_of(const struct process *p, u64 id)
{
	return &p->slots[(u32)id & p->mask];
}

/* The timer of an id, in any state, or NULL. */
static struct slot *find(const struct process *p, u64 id)
{
	struct slot *t = slot_of(p, id);

	return id_of(t) == id && id && state_of(t) != FREE ? t : NULL;
}

/* Shards. */

/* The number of the shard in an id, or a larger one. */
static u32 shard_of(const struct process *p, u64 id)
{
	return (u32)id / (p->mask + 1);
}

/* Could an id be that of a timer of another shard? */
static bool is_foreign(const struct process *p, u64 id)
{
	const u32 shard = shard_of(p, id);

	return shard != shard_of(p, p->fresh) && shard < SHARDS_MAX && id &&
	       __atomic_load_n(&p->family, __ATOMIC_ACQUIRE);
}

/*
 * Lock the shard of an id, which may have been closed.
 *
 * Return: the shard, and leave() unlocks it; or @p if there is none, with its
 * lock held.
 */
static struct process *enter(struct process *p, u64 id)
{
	struct process *owner;

	if (unlikely(is_foreign(p, id))) {
		pthread_mutex_lock(&p->family->lock);
		owner = p->family->shard[shard_of(p, id)];
		if (owner) {
			pthread_mutex_lock(&owner->lock);
			return owner;
		}
		pthread_mutex_unlock(&p->family->lock);
	}
	pthread_mutex_lock(&p->lock);
	return p;
}

static void leave(struct process *p, struct process *owner)
{
	pthread_mutex_unlock(&owner->lock);
	if (unlikely(owner != p))
		pthread_mutex_unlock(&p->family->lock);
}

/* Time. */

static u64 read_clock(const struct process *p)
{
	return unlikely(p->clock == HTW_CLOCK_MANUAL) ? p->manual_ns :
							htw_clock_ns(p->clock);
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
 * The tick of a deadline that has come: it does not wait for the next one,
 * unless it would overtake other timers. On a manual clock those wait.
 */
static __attribute__((noinline)) u64 due_tick(struct process *p, u64 deadline,
					      u64 now)
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
	return htw_arith_decode_slack(t->slack >> SLACK_SHIFT);
}

static u32 slack_bits(u64 slack)
{
	return htw_arith_encode_slack(slack) << SLACK_SHIFT;
}

static void set_slack(struct slot *t, u64 slack)
{
	t->slack = (t->slack & SLOT_KEEP) | slack_bits(slack);
}

static u64 tick_with_slack(struct process *p, const struct slot *t, u64 now)
{
	const u64 first = tick_for(p, t->deadline, now);
	u64 last;

	if (t->deadline <= now ||
	    __builtin_add_overflow(t->deadline, slack_of(t), &last))
		return first;
	return htw_wheel_coalesce(&p->wheel, first, last / p->tick_ns);
}

/*
 * A clock that is behind the wheel's cursor was set back, and timers started
 * now would count as past: rewind the wheel.
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
	htw_wheel_forward(&p->wheel, now / p->tick_ns);
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

	if (p->wheel.next == HTW_NEVER ||
	    __builtin_mul_overflow(p->wheel.next, p->tick_ns, &ns))
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
	const int error = errno;
	size_t bytes;

	/* By an eighth, at most a huge page. */
	bytes = have + min_t(size_t, max_t(size_t, have / 8, GROW_MIN), GROW_MAX);
	bytes = max(bytes, (size_t)want * sizeof(struct slot));
	bytes = min((bytes + GROW_MIN - 1) / GROW_MIN * GROW_MIN, p->reserved);
	if (mprotect((char *)p->slots + have, bytes - have,
		     PROT_READ | PROT_WRITE)) {
		errno = error;
		return -ENOMEM;
	}
	p->nr_usable = bytes / sizeof(struct slot);
	return 0;
}

/*
 * Make slots available that have never been used, as the free list is empty.
 *
 * Return: 0, and slots up to &process.nr_ready can be used; -ENOSPC at the
 * limit; -ENOMEM.
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
 * Take a free slot for a timer that is about to be pending; the caller sets its
 * name to @*id.
 *
 * Return: the slot, on no list; or NULL with @*error.
 */
static inline struct slot *take_slot(struct process *p, u64 *id, int *error)
{
	struct slot *t = p->free;

	if (t) {
		p->free = (struct slot *)t->node.list.next;
		*id = t->node.name + state_step(FREE, PENDING);
		return t;
	}
	if (unlikely(p->nr_slots == p->nr_ready)) {
		*error = make_ready(p);
		if (*error)
			return NULL;
	}
	*id = p->fresh + p->nr_slots;
	return &p->slots[p->nr_slots++];
}

/*
 * End the id of a timer that is on no list and whose name is @name, in @state.
 *
 * Return: false for a slot whose generations have run out: it is not used
 * again, as that would make old ids valid.
 */
static inline bool end_id(struct process *p, struct slot *t, u64 name,
			  enum state state)
{
	const u64 step = NAME_GENERATION + state_step(state, FREE);

	if (likely(!__builtin_add_overflow(name, step, &t->node.name)))
		return true;
	p->nr_retired++;
	return false;
}

/* End a timer's id and put the slot on a free list. Return: the list's new head. */
static inline struct slot *free_onto(struct process *p, struct slot *free,
				     struct slot *t, u64 name, enum state state)
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
	t->node.expires = likely(t->slack <= SLOT_KEEP) ?
				  tick_for(p, t->deadline, now) :
				  tick_with_slack(p, t, now);
	if (unlikely(htw_wheel_start(&p->wheel, &t->node)))
		p->ahead = true;
}

static bool interval_is_valid(const struct process *p, u64 interval,
			      u32 firings)
{
	return interval ? interval >= p->tick_ns : !firings;
}

static bool add_is_valid(const struct process *p, const struct htw_add *add)
{
	return !(add->flags &
		 ~(HTW_F_ABS | HTW_F_KEEP | HTW_F_CANCEL_ON_SET)) &&
	       interval_is_valid(p, add->interval, add->firings);
}

/* Check what is common to the timers of htw_add_many(). */
static int check_common(const struct process *p, const struct htw_add *add)
{
	if (!add_is_valid(p, add))
		return -EINVAL;
	return add->flags & HTW_F_CANCEL_ON_SET ? -ENOTSUP : 0;
}

static int check_add(const struct process *p, const struct htw_add *add)
{
	return add->reserved ? -EINVAL : check_common(p, add);
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
	t->deadline = add->flags & HTW_F_ABS ? add->deadline :
					       htw_sum(now, add->deadline);
	t->cookie = add->cookie;
	t->interval = add->interval;
	t->firings = add->firings;
	t->slack = slack_bits(add->slack) |
		   (add->flags & HTW_F_KEEP ? SLOT_KEEP : 0);
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
 * Add timers until there is no more room; @simple: one-shot timers without
 * slack.
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
			    const uint64_t *deadlines, const uint64_t *cookies,
			    uint64_t *ids, unsigned int count, int *results)
{
	struct process *p = process_of(htw);
	struct common all = {
		.interval = common->interval,
		.firings = common->firings,
		.slack = slack_bits(common->slack) |
			 (common->flags & HTW_F_KEEP ? SLOT_KEEP : 0),
	};
	unsigned int added;
	int error = check_common(p, common);

	if (error)
		return error;

	set_results(results, count, 0);
	pthread_mutex_lock(&p->lock);
	all.now = begin(p);
	all.from = common->flags & HTW_F_ABS ? 0 : all.now;

	if (likely(!all.interval && all.slack <= SLOT_KEEP))
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
static inline void move(struct process *p, struct slot *t, u64 deadline,
			u64 now)
{
	t->deadline = deadline;
	htw_wheel_unlink(&p->wheel, &t->node);
	t->node.expires = likely(t->slack <= SLOT_KEEP) ?
				  tick_for(p, deadline, now) :
				  tick_with_slack(p, t, now);
	if (unlikely(htw_wheel_link(&p->wheel, &t->node)))
		p->ahead = true;
}

static int mod_one(struct process *p, const struct htw_mod *mod, u64 now)
{
	struct slot *t;
	u64 deadline;

	if (!htw_arith_mod_is_valid(mod) ||
	    !interval_is_valid(p, mod->interval, mod->firings))
		return -EINVAL;

	t = find(p, mod->id);
	/* A stopped timer has ended; only its event remains. */
	if (!t || is_stopped(t))
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
	struct process *p = process_of(htw), *owner = enter(p, mod->id);
	int ret;

	ret = mod_one(owner, mod, begin(owner));
	finish(owner);
	leave(p, owner);
	return ret;
}

static struct htw_mod new_deadline(u64 id, u64 deadline, u32 flags)
{
	return (struct htw_mod){
		.id = id,
		.deadline = deadline,
		.flags = HTW_MOD_DEADLINE | flags,
	};
}

static __attribute__((noinline)) int
rearm_slow(struct process *p, u64 id, u64 deadline, u32 flags, u64 now)
{
	const struct htw_mod mod = new_deadline(id, deadline, flags);

	return mod_one(p, &mod, now);
}

/* Move the timers of other shards, one by one, as no lock is held that they wait for. */
static __attribute__((noinline)) unsigned int
rearm_foreign(struct process *p, const u64 *ids, const u64 *deadlines,
	      unsigned int count, u32 flags, int *results)
{
	unsigned int i, failed = 0;

	for (i = 0; i < count; i++) {
		const struct htw_mod mod = new_deadline(ids[i], deadlines[i], flags);

		if (is_foreign(p, ids[i]))
			failed += set_result(results, i,
					     process_mod(&p->htw, &mod));
	}
	return failed;
}

static int process_rearm_many(struct htw *htw, const uint64_t *ids,
			      const uint64_t *deadlines, unsigned int count,
			      unsigned int flags, int *results)
{
	struct process *p = process_of(htw);
	unsigned int i, failed = 0, foreign = 0;
	u64 now, from;

	if (flags & ~HTW_F_ABS)
		return -EINVAL;

	set_results(results, count, 0);
	pthread_mutex_lock(&p->lock);
	now = begin(p);
	from = flags & HTW_F_ABS ? 0 : now;

	for (i = 0; i < count; i++) {
		const u64 id = ids[i];
		struct slot *t = slot_of(p, id);

		if (likely(t->node.name == id))
			move(p, t, htw_sum(deadlines[i], from), now);
		else if (is_foreign(p, id))
			foreign++;
		else
			failed += set_result(results, i,
					     rearm_slow(p, id, deadlines[i],
							flags, now));
	}

	finish(p);
	pthread_mutex_unlock(&p->lock);
	if (unlikely(foreign))
		failed += rearm_foreign(p, ids, deadlines, count, flags, results);
	return failed;
}

/* Stopping and looking. */

/* Count the firings since the one whose expiration is queued. */
static u64 missed_of(const struct slot *t, u64 now)
{
	if (is_stopped(t))
		return state_of(t) & STOPPED_ENDLESS ? (u64)t->missed << 32 | t->missed_low :
						       t->missed;
	if (!t->interval)
		return 0;
	return htw_arith_missed(t->deadline, t->interval, t->firings,
				max(now, t->node.fired), false);
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

/* A queued timer is stopped: its event is the last, and reports the firings missed by now. */
static void stop_expired(struct slot *t, u64 missed)
{
	enum state state = STOPPED;

	if (t->slack & SLOT_KEEP)
		state |= STOPPED_KEPT;
	if (!t->firings) {
		state |= STOPPED_ENDLESS;
		t->missed_low = (u32)missed;
		missed >>= 32;
	}
	t->missed = missed;
	set_state(t, state);
}

/* Stop a timer; report its cookie, remaining time and missed firings in @out, if not NULL. */
static int stop_one(struct process *p, struct slot *t, bool discard,
		    struct htw_cancel *out)
{
	const enum state state = state_of(t);
	const bool queued = state != PENDING && state != IDLE;
	const u64 now = out || queued ? read_clock(p) : 0;
	const u64 missed = queued ? missed_of(t, now) : 0;

	if (out) {
		out->cookie = t->cookie;
		out->remaining = state == PENDING ? remaining(t, now) : 0;
		out->missed = missed;
	}

	if (state == PENDING) {
		htw_wheel_stop(&p->wheel, &t->node);
	} else if (queued && !discard) {
		if (!is_stopped(t))
			stop_expired(t, missed);
		return -EALREADY;
	} else if (queued) {
		list_del(&t->node.list);
		p->nr_expired--;
	}

	p->nr_timers--;
	free_slot(p, t, state);
	return queued ? -EALREADY : 0;
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
	struct process *p = process_of(htw), *owner = enter(p, cancel->id);
	int ret;

	ret = cancel_one(owner, cancel);
	/* On a manual clock the descriptor may have nothing to report any more. */
	finish(owner);
	leave(p, owner);
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
	struct process *p = process_of(htw), *owner = enter(p, id);
	int ret;

	ret = stop_slow(owner, id);
	finish(owner);
	leave(p, owner);
	return ret;
}

/* The same in process_stop_many(): leave the timer of another shard, and count it. */
static __attribute__((noinline)) int
stop_unless_foreign(struct process *p, u64 id, unsigned int *foreign)
{
	if (is_foreign(p, id)) {
		++*foreign;
		return 0;
	}
	return stop_slow(p, id);
}

/* Stop the timers of other shards; see rearm_foreign(). */
static __attribute__((noinline)) unsigned int stop_foreign(struct process *p, const u64 *ids,
							   unsigned int count, int *results)
{
	unsigned int i, failed = 0;

	for (i = 0; i < count; i++)
		if (is_foreign(p, ids[i]))
			failed += set_result(results, i,
					     process_stop(&p->htw, ids[i]));
	return failed;
}

static int process_stop_many(struct htw *htw, const uint64_t *ids,
			     unsigned int count, int *results)
{
	struct process *p = process_of(htw);
	unsigned int i, failed = 0, slow = 0, foreign = 0;
	struct slot *free;

	set_results(results, count, 0);
	pthread_mutex_lock(&p->lock);
	free = p->free;

	for (i = 0; i < count; i++) {
		const u64 id = ids[i];
		struct slot *t = slot_of(p, id);

		if (likely(t->node.name == id)) {
			htw_wheel_unlink(&p->wheel, &t->node);
			free = free_onto(p, free, t, id, PENDING);
		} else {
			p->free = free;
			slow++;
			failed += set_result(results, i, stop_unless_foreign(p, id, &foreign));
			free = p->free;
		}
	}
	p->free = free;

	p->wheel.pending -= count - slow;
	p->nr_timers -= count - slow;
	finish(p);
	pthread_mutex_unlock(&p->lock);

	if (unlikely(foreign))
		failed += stop_foreign(p, ids, count, results);
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
	const bool stopped = is_stopped(t);

	*query = (struct htw_query){
		.id = id_of(t),
		.deadline = t->deadline,
		.remaining = state == PENDING ? remaining(t, now) : 0,
		.interval = t->interval,
		.cookie = t->cookie,
		.missed = stopped || state == EXPIRED ? missed_of(t, now) : 0,
		.firings = stopped && state & STOPPED_ENDLESS ? 0 : t->firings,
		.state = states[stopped ? EXPIRED : state],
		.flags = is_kept(t) ? HTW_F_KEEP : 0,
	};
}

static int query_one(struct process *p, struct htw_query *query, u64 now)
{
	const struct slot *t = find(p, query->id);

	if (query->deadline | query->remaining | query->interval |
	    query->cookie | query->missed | query->firings | query->state |
	    query->flags)
		return -EINVAL;
	if (!t)
		return -ENOENT;
	fill_query(t, now, query);
	return 0;
}

static u64 expire_all(struct process *p);

static int process_next(struct htw *htw, struct htw_query *query)
{
	struct process *p = process_of(htw);
	struct htw_node *first;
	int ret = -ENOENT;
	u64 now;

	pthread_mutex_lock(&p->lock);
	now = expire_all(p);
	htw_wheel_first_node(&p->wheel, UINT_MAX, &first);
	if (first) {
		fill_query(container_of(first, struct slot, node), now, query);
		ret = 0;
	}
	pthread_mutex_unlock(&p->lock);
	return ret;
}

static int process_query(struct htw *htw, struct htw_query *query)
{
	struct process *p = process_of(htw), *owner = enter(p, query->id);
	int ret;

	ret = query_one(owner, query, expire_all(owner));
	leave(p, owner);
	return ret;
}

/* The id of an operation on an existing timer; else zero. */
static u64 id_of_op(const struct htw_op *op)
{
	switch (op->op) {
	case HTW_OP_CANCEL:
		return op->cancel.id;
	case HTW_OP_MOD:
		return op->mod.id;
	case HTW_OP_QUERY:
		return op->query.id;
	default:
		return 0;
	}
}

/* Carry out an operation on a timer of another shard; no lock is held. */
static int do_foreign(struct process *p, struct htw_op *op)
{
	switch (op->op) {
	case HTW_OP_CANCEL:
		return process_cancel(&p->htw, &op->cancel);
	case HTW_OP_MOD:
		return process_mod(&p->htw, &op->mod);
	default:
		return process_query(&p->htw, &op->query);
	}
}

static int process_batch(struct htw *htw, struct htw_op *ops,
			 unsigned int count)
{
	struct process *p = process_of(htw);
	unsigned int i, failed = 0;
	bool expired = false;
	u64 now;

	pthread_mutex_lock(&p->lock);
	now = begin(p);
	for (i = 0; i < count; i++) {
		struct htw_op *op = &ops[i];

		op->result = -EINVAL;
		if (unlikely(is_foreign(p, id_of_op(op))) && !op->reserved) {
			finish(p);
			pthread_mutex_unlock(&p->lock);
			op->result = do_foreign(p, op);
			pthread_mutex_lock(&p->lock);
			now = begin(p);
		} else if (!op->reserved) {
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
				if (!expired)
					expire_all(p);
				expired = true;
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
	return !(t->interval | (t->slack & SLOT_KEEP));
}

static inline void fill_event(struct htw_event *ev, const struct slot *t,
			      u64 id, u64 fired)
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
static void consume(struct process *p, struct slot *t, u64 now,
		    struct htw_event *ev)
{
	const u64 missed = missed_of(t, now);
	const u64 spent = missed + 1;
	const bool stopped = is_stopped(t);
	const bool goes_on = !stopped && htw_arith_continues(t->interval, t->firings, spent);

	fill_event(ev, t, id_of(t), t->node.fired);
	ev->missed = missed;

	if (goes_on) {
		/* Keep the phase: the next start + k * interval after now. */
		ev->flags = HTW_EVENT_MORE;
		t->deadline = htw_arith_next(t->deadline, t->interval, spent);
		if (t->firings)
			t->firings -= spent;
		set_state(t, PENDING);
		arm(p, t, now);
	} else if (!stopped && t->slack & SLOT_KEEP) {
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
static unsigned int read_queue(struct process *p, struct htw_event *events,
			       unsigned int count, u64 now)
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
static unsigned int read_plain(struct process *p, struct htw_event *events,
			       unsigned int count, u64 now)
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
 * Was the clock set back since a timer was armed that was due? Then its
 * deadline may be later than its tick.
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
 * Return: number of events; *idle: nothing more is due; *done: nor has to be
 * moved down.
 */
static unsigned int read_wheel(struct process *p, struct htw_event *events,
			       unsigned int count, u64 now, bool *idle,
			       bool *done)
{
	const u64 tick = now / p->tick_ns;
	const bool set_back = was_set_back(p, now);
	unsigned int budget = count + CASCADE_BUDGET;
	unsigned int got = 0;

	*idle = false;
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
	*idle = budget;
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
	return budget && htw_wheel_cascade(&p->wheel, &budget) &&
	       list_empty(&p->wheel.due);
}

/* Program the timerfd for the wheel's next work, as nothing is due any more. */
static void program_next(struct process *p, u64 now)
{
	u64 when;

	p->wheel.next = htw_wheel_next(&p->wheel);
	p->ahead = false;
	when = next_work(p);
	/*
	 * Reprogram the timerfd if it has expired, which makes it readable, or
	 * is programmed too late; leave it if it is early. Setting
	 * CLOCK_REALTIME may have expired it, too.
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

static int process_read(struct htw *htw, struct htw_event *events,
			unsigned int count)
{
	struct process *p = process_of(htw);
	bool idle, done = true;
	unsigned int got;
	u64 now;

	if (unlikely(!count))
		return 0;
	if (count > INT_MAX)
		count = INT_MAX;

	pthread_mutex_lock(&p->lock);
	now = read_clock(p);
	if (unlikely(p->clock == CLOCK_REALTIME))
		check_clock(p, now);

	got = unlikely(p->nr_expired) ? read_queue(p, events, count, now) : 0;

	if (unlikely(p->clock == HTW_CLOCK_MANUAL)) {
		expire_manual(p);
	} else {
		if (likely(got < count))
			/* A result below @count means that nothing more is due. */
			do {
				got += read_wheel(p, events + got, count - got,
						  now, &idle, &done);
			} while (got < count && !(got ? idle : done));
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

/* Move all due timers to the queue and make the descriptor readable for them. Return: the time. */
static u64 expire_all(struct process *p)
{
	const u64 now = read_clock(p);

	if (p->clock == HTW_CLOCK_MANUAL)
		return now;
	if (unlikely(p->clock == CLOCK_REALTIME))
		check_clock(p, now);
	while (!expire(p, now))
		;
	if (p->nr_expired && p->armed > now)
		program(p, 0);
	return now;
}

/* The same, and if none was due, wait for the next one. */
static void expire_and_program(struct process *p)
{
	const u64 now = expire_all(p);

	if (!p->nr_expired && p->clock != HTW_CLOCK_MANUAL)
		program_next(p, now);
}

static int process_ready(struct htw *htw)
{
	struct process *p = process_of(htw);
	int ret;

	pthread_mutex_lock(&p->lock);
	expire_and_program(p);
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
	expire_all(p);
	for (i = 0; i < p->nr_slots; i++)
		if (state_of(&p->slots[i]) != FREE)
			count += !stop_one(p, &p->slots[i],
					   flags & HTW_CANCEL_DISCARD, NULL);
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
	case FREE:
		return 0;
	case IDLE:
		return HTW_LIST_DISARMED;
	default:
		return HTW_LIST_EXPIRED;
	}
}

static unsigned int walk(struct process *p, unsigned int states, u64 *cursor,
			 struct htw_query *entries, unsigned int count, bool take)
{
	const u64 now = expire_all(p);
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

	if (states & ~(HTW_LIST_PENDING | HTW_LIST_EXPIRED |
		       HTW_LIST_DISARMED) ||
	    *cursor > UINT32_MAX)
		return -EINVAL;
	if (!states)
		states = HTW_LIST_PENDING;
	count = min_t(unsigned int, count, INT_MAX);
	pthread_mutex_lock(&p->lock);
	got = walk(p, states, cursor, entries, count, false);
	pthread_mutex_unlock(&p->lock);
	return got;
}

static int process_harvest(struct htw *htw, struct htw_query *entries,
			   unsigned int count)
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

/* Move the manual clock of one shard. Return: number of timers that expired. */
static int64_t advance_one(struct process *p, u64 to)
{
	const u64 before = p->nr_expired;

	p->manual_ns = to;
	expire_manual(p);
	return p->nr_expired - before;
}

/* Move the manual clock, which all shards share. */
static int64_t process_advance(struct htw *htw, uint64_t ns, unsigned int flags)
{
	struct process *p = process_of(htw);
	struct family *family = __atomic_load_n(&p->family, __ATOMIC_ACQUIRE);
	int64_t ret = -EINVAL;
	struct process *shard;
	bool valid;
	u64 to;
	u32 i;

	if (flags & ~HTW_F_ABS || p->clock != HTW_CLOCK_MANUAL)
		return -EINVAL;

	if (family)
		pthread_mutex_lock(&family->lock);
	pthread_mutex_lock(&p->lock);

	to = flags & HTW_F_ABS ? ns : htw_sum(p->manual_ns, ns);
	/* Times end at INT64_MAX, as those of the device. */
	valid = to >= p->manual_ns && to <= INT64_MAX;
	if (valid)
		ret = advance_one(p, to);
	pthread_mutex_unlock(&p->lock);

	for (i = 0; family && valid && i < SHARDS_MAX; i++) {
		shard = family->shard[i];
		if (!shard || shard == p)
			continue;
		pthread_mutex_lock(&shard->lock);
		ret += advance_one(shard, to);
		pthread_mutex_unlock(&shard->lock);
	}

	if (family)
		pthread_mutex_unlock(&family->lock);
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
	expire_and_program(p);

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
	const int error = errno;
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
		errno = error;
	}

	pthread_mutex_unlock(&p->lock);
	return ret;
}

/* Bytes of the array's address space: a slot for each index. */
static size_t span(const struct process *p)
{
	return ((size_t)p->mask + 1) * sizeof(struct slot);
}

static void destroy(struct process *p)
{
	/* The nodes are freed with the array, so the wheel need not be emptied. */
	p->wheel.pending = 0;
	htw_wheel_destroy(&p->wheel);
	munmap(p->slots, span(p));
	pthread_mutex_destroy(&p->lock);
	close(p->htw.fd);
	free(p);
}

/*
 * A generation above all that a shard has used, for the next one of its number;
 * zero if a slot's generations have run out.
 */
static u64 fresh_after(const struct process *p)
{
	u64 most = p->fresh >> 32;
	u32 i;

	for (i = 0; i < p->nr_slots; i++)
		most = max(most, p->slots[i].node.name >> 32);
	return p->nr_retired || most == UINT32_MAX ? 0 : (most + 1) << 32 | (u32)p->fresh;
}

static void process_close(struct htw *htw)
{
	struct process *p = process_of(htw);
	struct family *family = p->family;
	const u32 number = shard_of(p, p->fresh);
	u32 i;

	if (family && number) {
		/* Waits for those that use one of its ids. */
		pthread_mutex_lock(&family->lock);
		family->shard[number] = NULL;
		family->fresh[number] = fresh_after(p);
		pthread_mutex_unlock(&family->lock);
	} else if (family) {
		for (i = 1; i < SHARDS_MAX; i++)
			if (family->shard[i])
				destroy(family->shard[i]);
		pthread_mutex_destroy(&family->lock);
		free(family);
	}
	destroy(p);
}

static int process_shard(struct htw *htw, struct htw **shard);

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
	.shard		= process_shard,
};

static const struct htw_geometry default_geometry = {
	.levels = 5,
	.slots = { 256, 64, 64, 64, 64 },
};

/* Set clock, tick, limit and geometry, with the checks of HTW_SETUP. */
static int shape(struct process *p, const struct htw_setup *setup)
{
	const u32 known = HTW_SETUP_CLOCK | HTW_SETUP_PRIVATE |
			  HTW_SETUP_LIMIT | HTW_SETUP_HOME | HTW_SETUP_RING;
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
	if (!p->limit || p->limit > LIMIT_MAX ||
	    p->limit > SIZE_MAX / 4 / sizeof(struct slot))
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

/*
 * Make a handle or a shard.
 * @with: a handle with clock, tick, limit and geometry
 * @fresh: see &process.fresh
 */
static int create(struct process **made, const struct process *with, u64 fresh)
{
	struct process *p = aligned_alloc(APART, (sizeof(*p) + APART - 1) / APART * APART);
	int ret = -ENOMEM;

	if (!p)
		return -ENOMEM;

	*p = (struct process){
		.htw.ops = &process_ops,
		.fresh = fresh,
		.armed = U64_MAX,
		.clock = with->clock,
		.tick_ns = with->tick_ns,
		.limit = with->limit,
		.setup_flags = with->setup_flags,
		.geometry = with->geometry,
	};
	INIT_LIST_HEAD(&p->expired);

	p->reserved = (p->limit * sizeof(struct slot) + GROW_MIN - 1) / GROW_MIN * GROW_MIN;
	p->mask = (1u << fls64(p->reserved / sizeof(struct slot) - 1)) - 1;
	p->slots = mmap(NULL, span(p), PROT_READ,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p->slots == MAP_FAILED)
		goto free_handle;
	if (grow(p, 1))
		goto unmap;
	set_state(&p->slots[0], FREE);

	ret = htw_wheel_init(&p->wheel, &p->geometry,
			     read_clock(p) / p->tick_ns, GFP_KERNEL,
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
	*made = p;
	return 0;

close_fd:
	close(p->htw.fd);
free_wheel:
	htw_wheel_destroy(&p->wheel);
unmap:
	munmap(p->slots, span(p));
free_handle:
	free(p);
	return ret;
}

/* The family of a handle from htw_open(), made on first use. */
static struct family *make_family(struct process *p)
{
	struct family *family;
	u32 i;

	pthread_mutex_lock(&p->lock);
	family = p->family;
	if (family)
		goto unlock;

	family = calloc(1, sizeof(*family));
	if (!family)
		goto unlock;

	if (pthread_mutex_init(&family->lock, NULL)) {
		free(family);
		family = NULL;
		goto unlock;
	}

	family->shard[0] = p;
	for (i = 1; i < SHARDS_MAX && (u64)i * (p->mask + 1) < 1u << NAME_STATE_SHIFT; i++)
		family->fresh[i] = NAME_GENERATION + (u64)i * (p->mask + 1);
	__atomic_store_n(&p->family, family, __ATOMIC_RELEASE);
unlock:
	pthread_mutex_unlock(&p->lock);
	return family;
}

/* htw_shard() in the process */
static int process_shard(struct htw *htw, struct htw **shard)
{
	struct process *p = process_of(htw), *made;
	struct family *family = make_family(p);
	const int error = errno;
	int ret = -ENOSPC;
	u32 i;

	if (!family)
		return -ENOMEM;

	pthread_mutex_lock(&family->lock);
	for (i = 1; i < SHARDS_MAX; i++)
		if (!family->shard[i] && family->fresh[i])
			break;

	if (i < SHARDS_MAX)
		ret = create(&made, p, family->fresh[i]);
	if (!ret) {
		pthread_mutex_lock(&p->lock);
		made->manual_ns = p->manual_ns;
		pthread_mutex_unlock(&p->lock);
		made->family = family;
		family->shard[i] = made;
		*shard = &made->htw;
	}

	pthread_mutex_unlock(&family->lock);
	errno = error;
	return ret;
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
	struct process with = { }, *p;
	int ret = shape(&with, setup);

	if (!ret)
		ret = create(&p, &with, NAME_GENERATION);
	if (!ret)
		*htw = &p->htw;
	return ret;
}
