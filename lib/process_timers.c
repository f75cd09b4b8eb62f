// SPDX-License-Identifier: MIT
/* Timers in the process: operations on one timer, and on many. See process.h. */
#include "process.h"

/* Handles of a family. */

static u32 handle_number(u64 id)
{
	return id >> ID_HANDLE_SHIFT & (HANDLES - 1);
}

/* Could an id be that of a timer of another shard? */
static bool is_foreign(const struct process *p, u64 id)
{
	return handle_number(id) != p->number &&
	       __atomic_load_n(&p->family->shards, __ATOMIC_ACQUIRE);
}

/*
 * Lock the shard of an id, which may have been closed.
 *
 * Return: the shard, and leave() unlocks it; @p if there is none, with its lock
 * held.
 */
static struct process *enter(struct process *p, u64 id)
{
	struct family *family = p->family;
	struct process *owner;

	if (likely(!is_foreign(p, id))) {
		process_lock(p);
		return p;
	}

	htw_lock_take(&family->lock);
	owner = family->shards[handle_number(id)];
	if (owner) {
		htw_lock_take(&owner->lock);
		return owner;
	}
	htw_lock_give(&family->lock);
	htw_lock_take(&p->lock);
	return p;
}

static void leave(struct process *p, struct process *owner)
{
	process_unlock(owner);
	if (unlikely(owner != p))
		htw_lock_give(&p->family->lock);
}

/* Ticks. */

static bool node_is_due(const struct htw_node *n, u64 now)
{
	return container_of(n, struct slot, node)->deadline <= now;
}

static bool node_has_deadline(const struct htw_node *n, u64 deadline)
{
	return container_of(n, struct slot, node)->deadline == deadline;
}

/**
 * htw_tick_of_due() - tick_for() of a deadline that has come
 * @p: the handle, locked
 * @deadline: the deadline
 * @now: the time
 *
 * Such a timer does not wait for the next tick, and nor do those any more that
 * do and are due as well; unless they are many: then it waits behind them. On a
 * manual clock, which expires timers as its ticks come, only those of the same
 * deadline go with it; and it goes without them if they are not found, as that
 * clock may not move before it has come.
 *
 * Return: the tick.
 */
u64 htw_tick_of_due(struct process *p, u64 deadline, u64 now)
{
	const u64 first = htw_tick_up(deadline, p->tick_ns);
	const u64 tick = now / p->tick_ns;
	const bool manual = p->clock == HTW_CLOCK_MANUAL;

	if (first <= tick)
		return first;
	if (!htw_wheel_make_due(&p->wheel, tick, manual ? node_has_deadline : node_is_due,
				manual ? deadline : now, &p->ahead) && !manual)
		return first;
	p->due_ns = max(p->due_ns, now);
	return tick;
}

/**
 * htw_tick_with_slack() - tick_for() of a timer with slack
 * @p: the handle, locked
 * @t: the timer
 * @now: the time
 *
 * The tick follows from deadline and slack alone: if it depended on the time as
 * well, a timer that was due when it was started would overtake an earlier one
 * of the same deadline.
 *
 * Return: the tick.
 */
u64 htw_tick_with_slack(struct process *p, const struct slot *t, u64 now)
{
	const u64 slack = htw_arith_decode_slack(t->slack >> SLACK_SHIFT);

	if (slack < p->tick_ns)
		return tick_for(p, t->deadline, now);
	return htw_tick_within(t->deadline, slack, p->tick_ns);
}

/**
 * htw_check_clock() - rewind the wheel if the clock was set back
 * @p: the handle, locked
 * @now: the time
 *
 * Behind the wheel's cursor, timers that are started now would count as past.
 */
void htw_check_clock(struct process *p, u64 now)
{
	if (now / p->tick_ns + 1 >= p->wheel.cursor)
		return;
	htw_wheel_rewind(&p->wheel, now / p->tick_ns);
	p->ahead = true;
}

/* Ending. */

/* End the id of a timer that is on no list. */
static inline void end_id(struct process *p, struct slot *t, u64 id)
{
	if (unlikely(t->slack & SLOT_STAYS) && can_be_put_off(t))
		htw_deadline_end(htw_deadline_at(&p->htw, id), id);
	free_slot(p, t, id);
}

/**
 * htw_end_timer() - take a timer out of the wheel and end its id
 * @p: the handle, locked
 * @t: the timer, pending or idle
 */
void htw_end_timer(struct process *p, struct slot *t)
{
	const u64 id = id_of(t);

	if (is_pending(t))
		htw_wheel_stop(&p->wheel, &t->node);
	else
		chunk_of(t)->idle--;
	p->nr_timers--;
	end_id(p, t, id);
}

/* Starting. */

/* Check what is common to the timers of htw_add_many(). */
static int check_common(const struct htw_add_args *add)
{
	if (add->flags & ~(HTW_F_ABS | HTW_F_KEEP | HTW_F_PUT_OFF) ||
	    (add->firings && !add->interval))
		return -EINVAL;
	if (add->flags & HTW_F_PUT_OFF && (add->flags & HTW_F_KEEP || add->interval))
		return -EINVAL;
	return 0;
}

/* &slot.slack of a timer */
static u32 slot_slack(const struct htw_add_args *add)
{
	return slack_bits(add->slack) |
	       (add->flags & (HTW_F_KEEP | HTW_F_PUT_OFF) ? SLOT_STAYS : 0);
}

/* &slot.interval of a timer: not below a tick */
static u64 slot_interval(const struct process *p, u64 interval)
{
	return interval ? max(interval, p->tick_ns) : 0;
}

/* &slot.firings of a timer */
static u32 slot_firings(const struct htw_add_args *add)
{
	return add->flags & HTW_F_PUT_OFF ? 1 : add->firings;
}

/*
 * take_slot() for a timer that can be put off. Slots are passed over in whose
 * entries stores for earlier timers are on their way.
 */
static struct slot *take_slot_with_deadline(struct process *p, u64 *id)
{
	struct slot *passed_over = NULL, *t;
	struct htw_deadline *to;
	bool done;

	do {
		t = take_slot(p, id);
		if (!t)
			break;
		to = htw_deadlines_reach(&p->htw, p->first, *id);
		done = to && htw_deadline_start(to, *id);
		if (done)
			break;
		t->name = *id;
		t->node.list.next = (struct list_head *)passed_over;
		passed_over = t;
		t = NULL;
	} while (to);

	while (passed_over) {
		struct slot *next = (struct slot *)passed_over->node.list.next;

		free_slot(p, passed_over, passed_over->name);
		passed_over = next;
	}
	return t;
}

static int add_one(struct process *p, struct htw_add_args *add, u64 now)
{
	int ret = check_common(add);
	struct slot *t;
	u64 id;

	if (ret)
		return ret;
	if (p->nr_timers >= p->limit)
		return -ENOSPC;
	prepare_wheel(p, 1);
	t = add->flags & HTW_F_PUT_OFF ? take_slot_with_deadline(p, &id) : take_slot(p, &id);
	if (!t)
		return -ENOMEM;

	t->name = id;
	t->deadline = add->flags & HTW_F_ABS ? add->deadline : htw_sum(now, add->deadline);
	t->cookie = add->cookie;
	t->interval = slot_interval(p, add->interval);
	t->firings = slot_firings(add);
	t->slack = slot_slack(add);
	p->nr_timers++;
	arm(p, t, now);
	add->id = id;
	return 0;
}

int htw_process_add(struct htw *htw, struct htw_add_args *add)
{
	struct process *p = process_of(htw);
	int ret;

	process_lock(p);
	ret = add_one(p, add, process_begin(p));
	finish(p);
	process_unlock(p);
	return ret;
}

static void set_results(int *results, unsigned int count, int value)
{
	unsigned int i;

	for (i = 0; results && i < count; i++)
		results[i] = value;
}

static int set_result(int *results, unsigned int i, int result)
{
	if (results)
		results[i] = result;
	return !!result;
}

/* What the timers of one call have in common. */
struct common {
	u64 now;
	u64 from;	/* added to deadlines: @now if they are relative */
	u64 interval;
	u32 firings;
	u32 slack;
};

/*
 * Start timers until there is no memory. The wheel's count is ahead of them, as
 * it bounds the length of the wheel's sorted list. The constant @simple: one-shot timers
 * without slack. @ids may be the same array as @deadlines or @cookies.
 *
 * Return: how many were started.
 */
static __always_inline unsigned int
add_some(struct process *p, const struct common *common, bool simple, bool put_off,
	 const u64 *deadlines, const u64 *cookies, u64 *ids, unsigned int count)
{
	static const u64 no_cookie;
	const u64 *cookie = cookies ? cookies : &no_cookie;
	const unsigned int step = !!cookies;
	unsigned int i;

	p->wheel.pending += count;
	for (i = 0; i < count; i++, cookie += step) {
		u64 id;
		struct slot *t = put_off ? take_slot_with_deadline(p, &id) : take_slot(p, &id);

		if (unlikely(!t))
			break;
		t->name = id;
		t->deadline = htw_sum(deadlines[i], common->from);
		t->cookie = *cookie;
		ids[i] = id;
		t->interval = simple ? 0 : common->interval;
		t->firings = simple ? 0 : common->firings;
		t->slack = common->slack;
		t->node.expires = simple ? tick_for(p, t->deadline, common->now) :
					   htw_tick_with_slack(p, t, common->now);
		if (unlikely(htw_wheel_link(&p->wheel, &t->node)))
			p->ahead = true;
	}

	p->wheel.pending -= count - i;
	p->nr_timers += i;
	return i;
}

/* Start at most %PORTION timers. Return: how many were started; fewer if there was an @error. */
static inline unsigned int
add_portion(struct process *p, const struct common *common, bool put_off, const u64 *deadlines,
	    const u64 *cookies, u64 *ids, unsigned int count, int *error)
{
	const unsigned int most = min_t(u64, count, p->limit - p->nr_timers);

	*error = most < count ? -ENOSPC : -ENOMEM;
	prepare_wheel(p, most);
	if (likely(!common->interval && common->slack <= SLOT_STAYS && !common->firings))
		return add_some(p, common, true, false, deadlines, cookies, ids, most);
	return add_some(p, common, false, put_off, deadlines, cookies, ids, most);
}

int htw_process_add_many(struct htw *htw, const struct htw_add_args *common,
			 const uint64_t *deadlines, const uint64_t *cookies, uint64_t *ids,
			 unsigned int count, int *results)
{
	struct process *p = process_of(htw);
	struct common all = {
		.interval = slot_interval(p, common->interval),
		.firings = slot_firings(common),
		.slack = slot_slack(common),
	};
	int error = check_common(common);
	unsigned int added = 0, most, done;

	if (error)
		return error;
	process_lock(p);

	all.now = process_begin(p);
	all.from = common->flags & HTW_F_ABS ? 0 : all.now;
	for (;;) {
		most = min(count - added, PORTION);
		done = add_portion(p, &all, common->flags & HTW_F_PUT_OFF, deadlines + added,
				   cookies ? cookies + added : NULL, ids + added, most, &error);
		added += done;
		if (likely(done < most || added == count))
			break;
		give_way(p);
		all.now = process_begin(p);
	}
	finish(p);
	process_unlock(p);

	set_results(results, added, 0);
	if (unlikely(added < count)) {
		memset(ids + added, 0, (count - added) * sizeof(*ids));
		if (results)
			set_results(results + added, count - added, error);
	}
	return count - added;
}

/* Moving. */

static void set_slack(struct slot *t, u64 slack)
{
	t->slack = (t->slack & SLOT_STAYS) | slack_bits(slack);
}

/* Move a pending timer. */
static inline void move_pending(struct process *p, struct slot *t, u64 deadline, u64 now)
{
	t->deadline = deadline;
	htw_wheel_unlink(&p->wheel, &t->node);
	if (likely(!t->slack)) {
		t->node.expires = tick_for(p, deadline, now);
	} else {
		if (can_be_put_off(t))
			htw_deadline_forget(htw_deadline_at(&p->htw, id_of(t)));
		t->node.expires = htw_tick_with_slack(p, t, now);
	}
	if (unlikely(htw_wheel_link(&p->wheel, &t->node)))
		p->ahead = true;
}

static int mod_one(struct process *p, struct htw_mod_args *mod, u64 now)
{
	struct slot *t;
	u64 deadline;

	if (!htw_arith_mod_is_valid(mod))
		return -EINVAL;
	t = find_timer(p, mod->id);
	if (!t)
		return -ENOENT;
	if (mod->flags & HTW_MOD_INTERVAL && mod->interval && can_be_put_off(t))
		return -EINVAL;
	mod->state = state_of(p, t, now);

	if (mod->flags & HTW_MOD_COOKIE)
		t->cookie = mod->cookie;
	if (mod->flags & HTW_MOD_SLACK)
		set_slack(t, mod->slack);
	/* One that can be put off has none. */
	if (mod->flags & HTW_MOD_INTERVAL && !can_be_put_off(t)) {
		t->interval = slot_interval(p, mod->interval);
		t->firings = mod->firings;
	}

	if (!(mod->flags & HTW_MOD_DEADLINE))
		return 0;
	deadline = mod->flags & HTW_F_ABS ? mod->deadline : htw_sum(now, mod->deadline);
	if (is_pending(t)) {
		move_pending(p, t, deadline, now);
		return 0;
	}

	chunk_of(t)->idle--;
	t->name = mod->id;
	t->deadline = deadline;
	arm(p, t, now);
	return 0;
}

int htw_process_mod(struct htw *htw, struct htw_mod_args *mod)
{
	struct process *p = process_of(htw), *owner = enter(p, mod->id);
	int ret;

	ret = mod_one(owner, mod, process_begin(owner));
	finish(owner);
	leave(p, owner);
	return ret;
}

static struct htw_mod_args new_deadline(u64 id, u64 deadline, u32 flags)
{
	return (struct htw_mod_args){
		.id = id,
		.deadline = deadline,
		.flags = HTW_MOD_DEADLINE | flags,
	};
}

static noinline int
rearm_slow(struct process *p, u64 id, u64 deadline, u64 now)
{
	struct htw_mod_args mod = new_deadline(id, deadline, HTW_F_ABS);

	return mod_one(p, &mod, now);
}

/* Move the timers of other shards, one by one, as no lock is held that they wait for. */
static noinline unsigned int
rearm_foreign(struct process *p, const u64 *ids, const u64 *deadlines, unsigned int count,
	      u32 flags, int *results)
{
	unsigned int i, failed = 0;

	for (i = 0; i < count; i++) {
		struct htw_mod_args mod = new_deadline(ids[i], deadlines[i], flags);

		if (is_foreign(p, ids[i]))
			failed += set_result(results, i, htw_process_mod(&p->htw, &mod));
	}
	return failed;
}

/*
 * Move at most %PORTION timers; @from is added to their deadlines. Return: how
 * many failed; not those of other shards.
 */
static inline unsigned int
rearm_portion(struct process *p, const u64 *ids, const u64 *deadlines, unsigned int count,
	      u64 from, u64 now, int *results, unsigned int *foreign)
{
	unsigned int i, failed = 0, others = 0;

	for (i = 0; i < count; i++) {
		const u64 id = ids[i], deadline = htw_sum(deadlines[i], from);
		struct slot *t = slot_of(p, id);

		if (likely(t->name == id))
			move_pending(p, t, deadline, now);
		else if (is_foreign(p, id))
			others++;
		else
			failed += set_result(results, i, rearm_slow(p, id, deadline, now));
	}
	*foreign += others;
	return failed;
}

int htw_process_rearm_many(struct htw *htw, const uint64_t *ids, const uint64_t *deadlines,
			   unsigned int count, unsigned int flags, int *results)
{
	struct process *p = process_of(htw);
	unsigned int first, n, failed = 0, foreign = 0;
	u64 now, from;

	if (flags & ~HTW_F_ABS)
		return -EINVAL;
	set_results(results, count, 0);
	process_lock(p);

	now = process_begin(p);
	from = flags & HTW_F_ABS ? 0 : now;
	for (first = 0; first < count; first += n) {
		if (first) {
			give_way(p);
			now = process_begin(p);
		}
		n = min(count - first, PORTION);
		failed += rearm_portion(p, ids + first, deadlines + first, n, from, now,
					results ? results + first : NULL, &foreign);
	}
	finish(p);
	process_unlock(p);

	if (unlikely(foreign))
		failed += rearm_foreign(p, ids, deadlines, count, flags, results);
	return failed;
}

/**
 * htw_process_put_off() - htw_put_off() where the entry was another timer's
 * @htw: the handle
 * @id: the timer
 * @when: the new deadline
 *
 * It may have been taken for a moment by a read that is to find out whether the
 * timer has expired; or the timer is another shard's.
 *
 * Return: as htw_put_off().
 */
int htw_process_put_off(struct htw *htw, uint64_t id, uint64_t when)
{
	struct process *p = process_of(htw), *owner = enter(p, id);
	struct slot *t;
	bool found;

	t = find_timer(owner, id);
	found = t && can_be_put_off(t) &&
		htw_deadline_store(htw_deadline_at(&owner->htw, id), id, when);
	leave(p, owner);
	return found ? 0 : -ENOENT;
}

/* Stopping and looking. */

static u64 remaining(u64 deadline, u64 now)
{
	return deadline > now ? deadline - now : 0;
}

/* Count the firings that have come due after the one whose event is to be read. */
static u64 missed_of(const struct slot *t, u64 now)
{
	return t->interval ? htw_arith_missed(t->deadline, t->interval, t->firings, now, false) : 0;
}

static int cancel_one(struct process *p, struct htw_cancel_args *cancel)
{
	struct slot *t;
	u64 now;

	if (cancel->flags)
		return -EINVAL;
	t = find_timer(p, cancel->id);
	if (!t)
		return -ENOENT;

	now = read_clock(p);
	cancel->cookie = t->cookie;
	cancel->state = state_of(p, t, now);
	cancel->remaining = is_pending(t) ? remaining(deadline_of(p, t), now) : 0;
	cancel->missed = cancel->state == HTW_STATE_DUE ? missed_of(t, now) : 0;
	htw_end_timer(p, t);
	return 0;
}

int htw_process_cancel(struct htw *htw, struct htw_cancel_args *cancel)
{
	struct process *p = process_of(htw), *owner = enter(p, cancel->id);
	int ret;

	ret = cancel_one(owner, cancel);
	finish(owner);
	leave(p, owner);
	return ret;
}

/* Stop a timer that is pending or idle. */
static noinline int stop_slow(struct process *p, u64 id)
{
	struct slot *t = find_timer(p, id);

	if (!t)
		return -ENOENT;
	htw_end_timer(p, t);
	return 0;
}

int htw_process_stop(struct htw *htw, uint64_t id)
{
	struct process *p = process_of(htw), *owner = enter(p, id);
	int ret;

	ret = stop_slow(owner, id);
	finish(owner);
	leave(p, owner);
	return ret;
}

/* Stop the timers of other shards; see rearm_foreign(). */
static noinline unsigned int
stop_foreign(struct process *p, const u64 *ids, unsigned int count, int *results)
{
	unsigned int i, failed = 0;

	for (i = 0; i < count; i++)
		if (is_foreign(p, ids[i]))
			failed += set_result(results, i, htw_process_stop(&p->htw, ids[i]));
	return failed;
}

/* Stop at most %PORTION timers. Return: how many failed; not those of other shards. */
static inline unsigned int
stop_portion(struct process *p, const u64 *ids, unsigned int count, int *results,
	     unsigned int *foreign)
{
	unsigned int i, failed = 0, stopped = 0;

	for (i = 0; i < count; i++) {
		const u64 id = ids[i];
		struct slot *t = slot_of(p, id);

		if (likely(t->name == id)) {
			htw_wheel_unlink(&p->wheel, &t->node);
			end_id(p, t, id);
			stopped++;
		} else if (is_foreign(p, id)) {
			++*foreign;
		} else {
			failed += set_result(results, i, stop_slow(p, id));
		}
	}
	p->wheel.pending -= stopped;
	p->nr_timers -= stopped;
	return failed;
}

int htw_process_stop_many(struct htw *htw, const uint64_t *ids, unsigned int count, int *results)
{
	struct process *p = process_of(htw);
	unsigned int first, n, failed = 0, foreign = 0;

	set_results(results, count, 0);
	process_lock(p);
	for (first = 0; first < count; first += n) {
		if (first)
			give_way(p);
		n = min(count - first, PORTION);
		failed += stop_portion(p, ids + first, n, results ? results + first : NULL,
				       &foreign);
	}
	finish(p);
	process_unlock(p);

	if (unlikely(foreign))
		failed += stop_foreign(p, ids, count, results);
	return failed;
}

/**
 * htw_fill_query() - report a timer
 * @p: its handle, locked
 * @t: the timer, pending or idle
 * @now: the time
 * @query: out: what is to be reported of it
 */
void htw_fill_query(const struct process *p, const struct slot *t, u64 now,
		    struct htw_timer_info *query)
{
	const u32 state = state_of(p, t, now);
	const u64 deadline = deadline_of(p, t);

	*query = (struct htw_timer_info){
		.id = id_of(t),
		.deadline = deadline,
		.remaining = state != HTW_STATE_DISARMED ? remaining(deadline, now) : 0,
		.interval = t->interval,
		.cookie = t->cookie,
		.missed = state == HTW_STATE_DUE ? missed_of(t, now) : 0,
		.firings = t->interval ? t->firings : 0,
		.state = state,
		.flags = is_kept(t) ? HTW_F_KEEP : 0,
	};
}

static int query_one(struct process *p, struct htw_timer_info *query)
{
	const struct slot *t = find_timer(p, query->id);

	if (!t)
		return -ENOENT;
	htw_fill_query(p, t, read_clock(p), query);
	return 0;
}

int htw_process_query(struct htw *htw, struct htw_timer_info *query)
{
	struct process *p = process_of(htw), *owner = enter(p, query->id);
	int ret;

	ret = query_one(owner, query);
	leave(p, owner);
	return ret;
}
