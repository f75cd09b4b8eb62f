// SPDX-License-Identifier: GPL-2.0-only
#include "account.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#include "report.h"

#define INDEX_BITS	24
#define REUSE_BITS	24
#define VERSION_SHIFT	(INDEX_BITS + REUSE_BITS)
#define LOW_BITS(n)	((1ULL << (n)) - 1)

static struct account *accounts;
static __u32 nr_accounts;

bool account_init(__u32 count)
{
	accounts = mmap(NULL, count * sizeof(*accounts), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	nr_accounts = count;
	return accounts != MAP_FAILED;
}

void account_new_round(void)
{
	memset(accounts, 0, nr_accounts * sizeof(*accounts));
}

struct account *account_get(__u32 index)
{
	return &accounts[index];
}

__u32 account_index(const struct account *a)
{
	return a - accounts;
}

__u32 account_count(void)
{
	return nr_accounts;
}

bool account_trylock(struct account *a)
{
	return !__atomic_exchange_n(&a->lock, 1, __ATOMIC_ACQUIRE);
}

void account_lock(struct account *a)
{
	while (!account_trylock(a))
		sched_yield();
}

void account_unlock(struct account *a)
{
	__atomic_store_n(&a->lock, 0, __ATOMIC_RELEASE);
}

__u64 account_cookie(const struct account *a)
{
	return COOKIE_ACCOUNT << 56 | (__u64)a->version << VERSION_SHIFT |
	       (a->reuse & LOW_BITS(REUSE_BITS)) << INDEX_BITS | account_index(a);
}

struct account *account_of_cookie(__u64 cookie)
{
	const __u64 index = cookie & LOW_BITS(INDEX_BITS);

	return COOKIE_KIND(cookie) == COOKIE_ACCOUNT && index < nr_accounts ?
	       &accounts[index] : NULL;
}

struct arming *account_current(struct account *a)
{
	return &a->arming[a->armings - 1];
}

static const struct arming *current_arming(const struct account *a)
{
	return &a->arming[a->armings - 1];
}

/* No event of it can be on its way any more: those of periodic and kept timers may. */
bool account_is_reusable(const struct account *a)
{
	if (a->state == ACCOUNT_UNUSED)
		return true;
	if (a->state != ACCOUNT_ENDED || a->kept)
		return false;
	for (int i = 0; i < a->armings; i++)
		if (a->arming[i].interval)
			return false;
	return true;
}

#define violation(a, format, ...)					\
	report_violation("timer %u of context %u, id %#llx, state %u, arming %u, deadline %llu, " \
			 "interval %llu, firings %u: " format,		\
			 account_index(a), (a)->context, (a)->id, (a)->state, (a)->armings, \
			 current_arming(a)->start, current_arming(a)->interval,	\
			 current_arming(a)->firings, ##__VA_ARGS__)

static struct arming arming_of(__u64 start, __u64 interval, __u32 firings)
{
	return (struct arming){
		.start = start,
		.interval = interval,
		.firings = firings,
		.until = ~0ULL,
	};
}

/* Prepare an unused account for an add, whose cookie and deadline are set by the caller. */
void account_prepare_add(struct account *a, __u8 context, const struct htw_add_args *add)
{
	a->context = context;
	a->kept = add->flags & HTW_F_KEEP;
	a->relative = !(add->flags & HTW_F_ABS);
	a->slack = add->slack;
	a->armings = 1;
	a->id = 0;
	a->arming[0] = arming_of(add->deadline, add->interval, add->firings);
	a->state = ACCOUNT_LIVE;
}

bool account_can_arm(const struct account *a)
{
	return a->state == ACCOUNT_LIVE && !a->relative && a->armings < ARMINGS;
}

/* The deadline with the number of the arming that comes next. */
__u64 account_next_deadline(const struct account *a, __u64 deadline)
{
	return (deadline & ~ARMING_MASK) | a->armings;
}

void account_added(struct account *a, int result, __u64 id, const struct window *w)
{
	if (result) {
		a->state = ACCOUNT_UNUSED;
		return;
	}
	if (!id)
		violation(a, "an add returned no id");
	a->id = id;
	a->arming[0].asked = w->after;
	if (a->relative) {
		/* The deadline is in between. */
		a->arming[0].end = w->after == ~0ULL ? ~0ULL : w->after + a->arming[0].start;
		a->arming[0].start += w->after == ~0ULL ? 0 : w->before;
	}
}

/* A call has found it in a state: may that be? */
static void check_state(struct account *a, __u32 state, const struct window *w)
{
	const struct arming *m = current_arming(a);
	/* One that was due at once may have had to wait for a tick all the same. */
	const __u64 from = m->start > m->asked ? m->start : m->asked;

	switch (state) {
	case HTW_STATE_PENDING:
		if (!m->interval && !a->relative && w->after != ~0ULL &&
		    w->before > from && w->before - from > a->slack + w->tick)
			violation(a, "not due, %llu ns after its deadline", w->before - from);
		break;
	case HTW_STATE_DUE:
		if (w->after < m->start)
			violation(a, "EARLY: due %llu ns before its deadline", m->start - w->after);
		break;
	case HTW_STATE_DISARMED:
		if (!a->kept || (m->interval && !m->firings))
			violation(a, "disarmed");
		break;
	default:
		violation(a, "its state is %u", state);
	}
}

/*
 * A call has replaced or ended the request: it does not fire later. @state: in which it was, zero
 * if that is not known.
 */
static void close_arming(struct account *a, __u32 state, const struct window *w)
{
	struct arming *m = account_current(a);

	m->until = w->after;
	if (state == HTW_STATE_DISARMED)
		m->known = ARMING_DONE;
	/* An event would have ended the id, and the call would have failed. */
	else if (!m->interval && (state || !a->kept))
		m->known = ARMING_VOID;
}

/* A call for a live timer has not found it. */
static void not_found(struct account *a, const struct window *w, const char *call)
{
	const struct arming *m = current_arming(a);

	if (a->state != ACCOUNT_LIVE)
		return;
	if (!w->harvests && (a->kept || (m->interval && !m->firings)))
		violation(a, "%s did not find it, and nothing has ended it", call);
	else if (!w->harvests && m->start > w->after)
		violation(a, "%s did not find it, %llu ns ahead of its deadline", call,
			  m->start - w->after);
	account_current(a)->until = w->after;
	a->state = ACCOUNT_GONE;
}

/* @c: the argument; NULL if a vector did it. */
void account_cancelled(struct account *a, int result, const struct htw_cancel_args *c,
		       const struct window *w)
{
	const struct arming *m = current_arming(a);

	if (result == -ENOENT) {
		not_found(a, w, "a cancel");
		return;
	}
	if (result) {
		violation(a, "a cancel failed: %d", result);
		return;
	}
	if (a->state != ACCOUNT_LIVE) {
		violation(a, "a cancel found an id that has ended");
		return;
	}
	if (c) {
		check_state(a, c->state, w);
		if (c->cookie != account_cookie(a))
			violation(a, "a cancel returned the cookie %#llx", c->cookie);
		if (c->missed && (!m->interval || c->state != HTW_STATE_DUE))
			violation(a, "a cancel says that it missed %llu firings", c->missed);
		if (!m->interval && w->after != ~0ULL && !a->relative && c->remaining &&
		    (c->remaining + w->after < m->start || c->remaining + w->before > m->start))
			violation(a, "a cancel returned the remaining time %llu", c->remaining);
	}
	close_arming(a, c ? c->state : 0, w);
	a->state = ACCOUNT_ENDED;
}

/* @has_output: @mod->state is valid. */
void account_moved(struct account *a, int result, const struct htw_mod_args *mod, bool has_output,
		   const struct window *w)
{
	const struct arming *m = current_arming(a);
	struct arming next;

	if (result == -ENOENT) {
		not_found(a, w, "a mod");
		return;
	}
	if (result) {
		violation(a, "a mod failed: %d", result);
		return;
	}
	if (a->state != ACCOUNT_LIVE) {
		violation(a, "a mod found an id that has ended");
		return;
	}
	if (has_output)
		check_state(a, mod->state, w);
	if (mod->flags & HTW_MOD_COOKIE)
		a->version++;
	if (mod->flags & HTW_MOD_SLACK && mod->slack > a->slack)
		a->slack = mod->slack;
	if (!(mod->flags & HTW_MOD_DEADLINE))
		return;
	next = arming_of(mod->deadline, m->interval, m->firings);
	if (mod->flags & HTW_MOD_INTERVAL) {
		next.interval = mod->interval;
		next.firings = mod->firings;
	}
	next.asked = w->after;
	close_arming(a, has_output ? mod->state : 0, w);
	a->arming[a->armings++] = next;
}

void account_queried(struct account *a, int result, const struct htw_timer_info *q,
		     const struct window *w)
{
	const struct arming *m = current_arming(a);

	if (result == -ENOENT) {
		not_found(a, w, "a query");
		return;
	}
	if (result) {
		violation(a, "a query failed: %d", result);
		return;
	}
	if (a->state != ACCOUNT_LIVE) {
		violation(a, "a query found an id that has ended");
		return;
	}
	check_state(a, q->state, w);
	if (q->cookie != account_cookie(a))
		violation(a, "a query returned the cookie %#llx", q->cookie);
	else if (!m->interval && !a->relative && q->deadline != m->start)
		violation(a, "a query returned the deadline %llu", q->deadline);
}

/* Spread the bits, so that sums of different times do not meet by chance. */
static __u64 hash(__u64 x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

/* Is an event's deadline one that was asked for? */
static struct arming *find_arming(struct account *a, const struct htw_event *ev)
{
	unsigned int n = a->relative ? 0 : ev->deadline & ARMING_MASK;
	struct arming *m = &a->arming[n];

	if (n >= a->armings)
		return NULL;
	if (a->relative)
		return ev->deadline >= m->start && ev->deadline <= m->end ? m : NULL;
	if (!m->interval)
		return ev->deadline == m->start ? m : NULL;
	return ev->deadline >= m->start && !((ev->deadline - m->start) % m->interval) ? m : NULL;
}

static void check_missed(struct account *a, const struct arming *m, const struct htw_event *ev,
			 const struct window *w)
{
	__u64 least = ev->taken, count;

	if (!m->interval) {
		if (ev->missed)
			violation(a, "a one-shot timer missed %llu firings", ev->missed);
		return;
	}
	if (m->firings && ev->missed >= m->firings)
		violation(a, "missed %llu firings", ev->missed);
	if (w->after != ~0ULL && w->before > least)
		least = w->before;
	count = least < ev->deadline ? 0 : (least - ev->deadline) / m->interval;
	if (!m->firings && ev->missed < count)
		violation(a, "missed %llu firings, at least %llu passed", ev->missed, count);
	if (w->after == ~0ULL)
		return;
	count = w->after < ev->deadline ? 0 : (w->after - ev->deadline) / m->interval;
	if (ev->missed > count)
		violation(a, "missed %llu firings, only %llu passed", ev->missed, count);
}

static void check_arming(struct account *a, const struct arming *m, const struct htw_event *ev)
{
	if (m->known == ARMING_VOID)
		violation(a, "an event of a request that had been replaced or cancelled");
	if (m->until != ~0ULL && ev->taken > m->until)
		violation(a, "taken at %llu, after it was replaced or cancelled at %llu",
			  ev->taken, m->until);
	if (!m->interval && m->events)
		violation(a, "a one-shot timer fired twice");
}

static void book_end(struct account *a, const struct arming *m, const struct htw_event *ev)
{
	if (ev->flags & HTW_EVENT_MORE) {
		if (!a->kept && !m->interval)
			violation(a, "a one-shot timer has more");
		return;
	}
	if (a->state == ACCOUNT_ENDED)
		violation(a, "it ended twice");
	else if (a->kept)
		violation(a, "a kept timer has ended");
	else if (m->interval && !m->firings)
		violation(a, "a periodic timer without limit has ended");
	else if (m != current_arming(a))
		violation(a, "it ended with an event of a request that had been replaced");
	a->state = ACCOUNT_ENDED;
}

/* With the lock. */
static void book_event(struct account *a, const struct htw_event *ev, const struct window *w)
{
	struct arming *m;
	__u64 end;

	if (ev->taken < ev->deadline)
		violation(a, "EARLY: taken at %llu for %llu", ev->taken, ev->deadline);
	if (ev->taken > w->after)
		violation(a, "taken at %llu, but it was %llu", ev->taken, w->after);
	m = find_arming(a, ev);
	if (!m) {
		violation(a, "an event with deadline %llu", ev->deadline);
		return;
	}
	check_arming(a, m, ev);
	check_missed(a, m, ev, w);
	m->events++;
	m->covered += ev->missed + 1;
	end = ev->deadline + (ev->missed + 1) * m->interval;
	m->sum += hash(ev->deadline) - hash(end);
	if (m->interval && end > m->end)
		m->end = end;
	book_end(a, m, ev);
}

void account_event(__u8 context, const struct htw_event *ev, const struct window *w)
{
	struct account *a = account_of_cookie(ev->cookie);
	__u8 version = ev->cookie >> VERSION_SHIFT;

	if (ev->reserved || ev->flags & ~HTW_EVENT_MORE) {
		report_violation("context %u: event of id %#llx with flags %#x, reserved %#x",
				 context, ev->id, ev->flags, ev->reserved);
		return;
	}
	if (COOKIE_KIND(ev->cookie) == COOKIE_STRANGER ||
	    COOKIE_KIND(ev->cookie) == COOKIE_SENTINEL) {
		if (ev->taken < ev->deadline)
			report_violation("context %u: EARLY: another process's timer taken at %llu"
					 " for %llu", context, ev->taken, ev->deadline);
		return;
	}
	if (!a) {
		report_violation("context %u: an event of id %#llx with a cookie that was never given: %#llx",
				 context, ev->id, ev->cookie);
		return;
	}
	account_lock(a);
	if (a->state == ACCOUNT_UNUSED || a->context != context || a->id != ev->id ||
	    version > a->version ||
	    ((ev->cookie >> INDEX_BITS ^ a->reuse) & LOW_BITS(REUSE_BITS)))
		report_violation("context %u: an event of id %#llx, cookie %#llx, which has ended: the cookie is that of id %#llx now",
				 context, ev->id, ev->cookie, a->id);
	else
		book_event(a, ev, w);
	account_unlock(a);
}

void account_harvested(__u8 context, const struct htw_timer_info *q, const struct window *w)
{
	struct account *a = account_of_cookie(q->cookie);

	if (COOKIE_KIND(q->cookie) == COOKIE_STRANGER)
		return;
	if (!a) {
		report_violation("context %u: harvested id %#llx with a cookie that was never given: %#llx",
				 context, q->id, q->cookie);
		return;
	}
	account_lock(a);
	if (a->context != context || a->id != q->id) {
		report_violation("context %u: harvested id %#llx, whose cookie is that of id %#llx now",
				 context, q->id, a->id);
	} else if (a->state != ACCOUNT_LIVE && a->state != ACCOUNT_GONE) {
		violation(a, "harvested, though it had ended");
	} else {
		if (!current_arming(a)->interval && !a->relative &&
		    q->deadline != current_arming(a)->start)
			violation(a, "harvested with the deadline %llu", q->deadline);
		check_state(a, q->state, w);
		close_arming(a, q->state, w);
		a->state = ACCOUNT_ENDED;
	}
	account_unlock(a);
}

bool account_owes(const struct account *a, __u64 horizon)
{
	const struct arming *m = current_arming(a);

	switch (a->state) {
	case ACCOUNT_GONE:
		return true;
	case ACCOUNT_LIVE:
		break;
	default:
		return false;
	}
	if (a->relative)
		return m->end <= horizon && !m->events;
	if (m->start > horizon)
		return false;
	if (!m->interval)
		return !m->events;
	return m->firings && m->covered < m->firings &&
	       m->firings <= (horizon - m->start) / m->interval;
}

/* The context has been closed: that ends what is live. */
void account_close(struct account *a)
{
	if (a->state == ACCOUNT_LIVE)
		a->state = ACCOUNT_ENDED;
}

/* Is what is known of a request's events true? */
static void verify_arming(struct account *a, const struct arming *m)
{
	const int number = m - a->arming;

	if (m->known == ARMING_VOID && m->events)
		violation(a, "request %d: %u events, though it was replaced or cancelled before",
			  number, m->events);
	if (m->known == ARMING_DONE && m->covered < (m->firings ? m->firings : 1))
		violation(a, "request %d: an event was lost: it was disarmed, after %u firings",
			  number, m->covered);
	if (!m->interval)
		return;
	if (m->covered && m->sum != hash(m->start) - hash(m->end))
		violation(a, "request %d: its %u firings, in %u events, up to %llu, are not one after the other",
			  number, m->covered, m->events, m->end);
	if (m->firings && m->covered > m->firings)
		violation(a, "request %d: %u firings", number, m->covered);
}

void account_verify(struct account *a)
{
	if (a->state == ACCOUNT_UNUSED)
		return;
	if (a->state != ACCOUNT_ENDED)
		violation(a, "it was lost: %s", a->state == ACCOUNT_LIVE ? "no end came" :
			  "its last event did not come");
	for (int i = 0; i < a->armings; i++)
		verify_arming(a, &a->arming[i]);
}
