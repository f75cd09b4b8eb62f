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

/* A missed count that is not known, as vectors do not report it. */
#define UNKNOWN		(~0ULL)

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
		.stored = ~0ULL,
	};
}

/* Prepare an unused account for an add, whose cookie and deadline are set by the caller. */
void account_prepare_add(struct account *a, __u8 context, const struct htw_add *add, bool table)
{
	a->context = context;
	a->kept = table || add->flags & HTW_F_KEEP;
	a->on_set = add->flags & HTW_F_CANCEL_ON_SET;
	a->relative = !(add->flags & HTW_F_ABS);
	a->parked = false;
	a->has_tail = false;
	a->armings = 1;
	a->chain = 0;
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
	if (a->relative) {
		/* The deadline is in between. */
		a->arming[0].end = w->after == ~0ULL ? ~0ULL : w->after + a->arming[0].start;
		a->arming[0].start += w->after == ~0ULL ? 0 : w->before;
	}
}

/* Requests that a call has replaced or ended do not fire later. */
static void close_armings(struct account *a, const struct window *w, bool void_)
{
	for (int i = a->chain; i < a->armings; i++) {
		struct arming *m = &a->arming[i];

		if (m->until == ~0ULL)
			m->until = w->after;
		/* An event would have ended the id, and the call would have failed. */
		m->void_ = void_ && !m->interval && !a->kept;
	}
}

static bool chain_fired(const struct account *a)
{
	for (int i = a->chain; i < a->armings; i++)
		if (a->arming[i].events)
			return true;
	return false;
}

/* A call for a live timer has not found it. */
static void not_found(struct account *a, const struct window *w, const char *call)
{
	const struct arming *m = current_arming(a);

	if (a->state != ACCOUNT_LIVE)
		return;
	if (!w->harvests && (a->kept || (m->interval && !m->firings)))
		violation(a, "%s did not find it, and nothing has ended it", call);
	else if (!w->harvests && !a->on_set && w->after != ~0ULL && m->start > w->after)
		violation(a, "%s did not find it, %llu ns ahead of its deadline", call,
			  m->start - w->after);
	close_armings(a, w, false);
	a->state = ACCOUNT_GONE;
}

void account_cancelled(struct account *a, int result, const struct htw_cancel *c, bool has_output,
		       const struct window *w)
{
	const struct arming *m = current_arming(a);

	if (result == -ENOENT) {
		not_found(a, w, "a cancel");
		return;
	}
	if (result && result != -EALREADY) {
		violation(a, "a cancel failed: %d", result);
		return;
	}
	if (a->state != ACCOUNT_LIVE && !(result && a->state == ACCOUNT_LAST)) {
		violation(a, "a cancel returned %d for an id that has ended", result);
		return;
	}
	if (has_output && c->cookie != account_cookie(a))
		violation(a, "a cancel returned the cookie %#llx", c->cookie);
	if (!result) {
		if (has_output && !m->interval && !w->table && w->after != ~0ULL && !a->relative &&
		    c->remaining && (c->remaining + w->after < m->start ||
				     c->remaining + w->before > m->start))
			violation(a, "a cancel returned the remaining time %llu", c->remaining);
		close_armings(a, w, true);
		a->ring_tail = c->ring_tail;
		a->has_tail = true;
		a->state = ACCOUNT_ENDED;
		return;
	}
	if (!m->interval && !a->on_set && !w->table && w->after != ~0ULL && m->start > w->after)
		violation(a, "a cancel says it expired, %llu ns early", m->start - w->after);
	if (a->state == ACCOUNT_LAST && has_output && a->last_missed != UNKNOWN &&
	    c->missed != a->last_missed)
		violation(a, "missed %llu, after an earlier cancel said %llu", c->missed,
			  a->last_missed);
	if (c->flags & HTW_CANCEL_DISCARD) {
		close_armings(a, w, true);
		a->ring_tail = c->ring_tail;
		a->has_tail = true;
		a->state = ACCOUNT_ENDED;
		return;
	}
	if (a->state == ACCOUNT_LIVE) {
		close_armings(a, w, false);
		a->last_missed = has_output ? c->missed : UNKNOWN;
		a->state = ACCOUNT_LAST;
	}
}

void account_moved(struct account *a, int result, const struct htw_mod *mod,
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
		violation(a, "a mod succeeded for an id that has ended");
		return;
	}
	if (mod->flags & HTW_MOD_COOKIE)
		a->version++;
	if (!(mod->flags & HTW_MOD_DEADLINE))
		return;
	next = arming_of(mod->deadline, m->interval, m->firings);
	if (mod->flags & HTW_MOD_INTERVAL) {
		next.interval = mod->interval;
		next.firings = mod->firings;
	}
	close_armings(a, w, true);
	a->chain = a->armings;
	a->arming[a->armings++] = next;
	a->parked = false;
}

/* A store to the table of deadlines: a later deadline, or HTW_DISARMED. */
void account_stored(struct account *a, __u64 word, const struct window *w)
{
	const struct arming *m = current_arming(a);
	struct arming next = arming_of(word, m->interval, m->firings);

	for (int i = a->chain; i < a->armings; i++)
		if (a->arming[i].stored == ~0ULL)
			a->arming[i].stored = w->after;
	if (word == HTW_DISARMED) {
		a->parked = true;
		return;
	}
	next.by_store = true;
	a->arming[a->armings++] = next;
}

void account_queried(struct account *a, int result, const struct htw_query *q,
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
	if (a->state != ACCOUNT_LIVE && a->state != ACCOUNT_LAST)
		violation(a, "a query found an id that has ended");
	else if (q->cookie != account_cookie(a))
		violation(a, "a query returned the cookie %#llx", q->cookie);
	else if (!m->interval && !w->table && !a->relative && q->deadline != m->start)
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
	const bool ahead = ev->fired < ev->deadline;
	__u64 least = ev->fired, count;

	if (!m->interval) {
		if (ev->missed)
			violation(a, "a one-shot timer missed %llu firings", ev->missed);
		return;
	}
	/* The cancel has fixed it. */
	if (a->state == ACCOUNT_EITHER && !(ev->flags & HTW_EVENT_MORE))
		return;
	if (a->state == ACCOUNT_LAST && !(ev->flags & HTW_EVENT_MORE)) {
		if (a->last_missed != UNKNOWN && ev->missed != a->last_missed)
			violation(a, "missed %llu, after a cancel said %llu", ev->missed,
				  a->last_missed);
		return;
	}
	if (m->firings && ev->missed + !ahead > m->firings)
		violation(a, "missed %llu firings", ev->missed);
	if (!w->in_ring && w->after != ~0ULL && w->before > least)
		least = w->before;
	count = least < ev->deadline ? 0 : (least - ev->deadline) / m->interval + ahead;
	if (!m->firings && ev->flags & HTW_EVENT_MORE && ev->missed < count)
		violation(a, "missed %llu firings, at least %llu passed", ev->missed, count);
	if (w->after == ~0ULL)
		return;
	count = w->after < ev->deadline ? 0 : (w->after - ev->deadline) / m->interval + ahead;
	if (ev->missed > count)
		violation(a, "missed %llu firings, only %llu passed", ev->missed, count);
}

/* A one-shot timer fires once, whichever of the stores to the table it has seen. */
static bool has_fired(const struct account *a, const struct arming *m)
{
	int i = m - a->arming;

	while (a->arming[i].by_store)
		i--;
	do {
		if (a->arming[i].events)
			return true;
	} while (++i < a->armings && a->arming[i].by_store);
	return false;
}

static void check_arming(struct account *a, const struct arming *m, const struct htw_event *ev)
{
	if (m->void_)
		violation(a, "an event of a request that had been replaced or cancelled");
	if (m->until != ~0ULL && ev->fired > m->until)
		violation(a, "fired at %llu, after it was replaced or cancelled at %llu",
			  ev->fired, m->until);
	if (m->interval)
		return;
	if (has_fired(a, m))
		violation(a, "a one-shot timer fired twice");
	if (m->stored < m->start)
		violation(a, "fired at %llu for %llu, though a store at %llu put it off",
			  ev->fired, m->start, m->stored);
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
	else if (a->state == ACCOUNT_LIVE && a->kept)
		violation(a, "a kept timer has ended");
	else if (a->state == ACCOUNT_LIVE && m->interval && !m->firings)
		violation(a, "a periodic timer without limit has ended");
	else if (a->state == ACCOUNT_LIVE && m != current_arming(a))
		violation(a, "it ended with an event of a request that had been replaced");
	a->state = ACCOUNT_ENDED;
}

/*
 * Take back the event of a one-shot timer that was put off after it had fired. Nothing is stored
 * meanwhile, as the account is locked. Return whether the event is void.
 */
static bool take_back(struct account *a, const struct arming *m, const struct htw_event *ev,
		      const struct window *w)
{
	int ret;

	if (!w->unread || a->state != ACCOUNT_LIVE || m->interval || m - a->arming < a->chain ||
	    !(ev->flags & HTW_EVENT_MORE) || ev->flags & HTW_EVENT_CLOCK_SET ||
	    (!a->parked && m == current_arming(a)))
		return false;
	ret = w->unread(w->fd, ev);
	if (ret && !(ret == -ENOENT && w->harvests))
		violation(a, "HTW_MOD_UNREAD of the event for %llu failed: %d", ev->deadline, ret);
	return !ret;
}

/* With the lock. */
static void book_event(struct account *a, const struct htw_event *ev, const struct window *w)
{
	const bool ahead = ev->fired < ev->deadline;
	struct arming *m;
	__u64 end;

	if (ahead && !(ev->flags & HTW_EVENT_CLOCK_SET))
		violation(a, "EARLY: fired at %llu for %llu", ev->fired, ev->deadline);
	if (ev->flags & HTW_EVENT_CLOCK_SET && !a->on_set)
		violation(a, "an event because the clock was set");
	if (ev->fired > w->after)
		violation(a, "fired at %llu, but it was %llu", ev->fired, w->after);
	m = find_arming(a, ev);
	if (!m) {
		violation(a, "an event with deadline %llu", ev->deadline);
		return;
	}
	if (a->has_tail && w->in_ring && (__s32)(w->number - a->ring_tail) >= 0)
		violation(a, "event %u of the ring, though a cancel said that all are before %u",
			  w->number, a->ring_tail);
	check_arming(a, m, ev);
	check_missed(a, m, ev, w);
	if (take_back(a, m, ev, w))
		return;
	m->events++;
	m->covered += ev->missed + !ahead;
	end = ev->deadline + (ev->missed + !ahead) * m->interval;
	m->sum += hash(ev->deadline) - hash(end);
	if (m->interval && end > m->end)
		m->end = end;
	book_end(a, m, ev);
}

void account_event(__u8 context, const struct htw_event *ev, const struct window *w)
{
	struct account *a = account_of_cookie(ev->cookie);
	__u8 version = ev->cookie >> VERSION_SHIFT;

	if (ev->reserved || ev->flags & ~(HTW_EVENT_MORE | HTW_EVENT_CLOCK_SET)) {
		report_violation("context %u: event of id %#llx with flags %#x, reserved %#x",
				 context, ev->id, ev->flags, ev->reserved);
		return;
	}
	if (COOKIE_KIND(ev->cookie) == COOKIE_STRANGER ||
	    COOKIE_KIND(ev->cookie) == COOKIE_SENTINEL) {
		if (ev->fired < ev->deadline)
			report_violation("context %u: EARLY: another process's timer fired at %llu"
					 " for %llu", context, ev->fired, ev->deadline);
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

void account_harvested(__u8 context, const struct htw_query *q, __u32 ring_tail,
		       const struct window *w)
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
	if (a->context != context || a->id != q->id)
		report_violation("context %u: harvested id %#llx, whose cookie is that of id %#llx now",
				 context, q->id, a->id);
	else if (a->state != ACCOUNT_LIVE && a->state != ACCOUNT_GONE)
		violation(a, "harvested, though it had ended");
	else if (!a->kept && !current_arming(a)->interval && chain_fired(a))
		violation(a, "harvested, though it had fired");
	else if (!w->table && !current_arming(a)->interval && !a->relative &&
		 q->deadline != current_arming(a)->start)
		violation(a, "harvested with the deadline %llu", q->deadline);
	close_armings(a, w, true);
	a->ring_tail = ring_tail;
	a->has_tail = true;
	a->state = ACCOUNT_ENDED;
	account_unlock(a);
}

bool account_owes(const struct account *a, __u64 horizon)
{
	const struct arming *m = current_arming(a);

	switch (a->state) {
	case ACCOUNT_LAST:
	case ACCOUNT_GONE:
		return true;
	case ACCOUNT_LIVE:
		break;
	default:
		return false;
	}
	if (a->parked)
		return false;
	if (a->relative)
		return m->end <= horizon && !m->events;
	if (m->start > horizon)
		return false;
	if (!m->interval)
		return !chain_fired(a);
	return m->firings && m->covered < m->firings &&
	       m->firings <= (horizon - m->start) / m->interval;
}

/* The context has been closed: that ends what is live. */
void account_close(struct account *a)
{
	if (a->state == ACCOUNT_LIVE || a->state == ACCOUNT_LAST)
		a->state = ACCOUNT_ENDED;
}

void account_verify(struct account *a)
{
	if (a->state == ACCOUNT_UNUSED)
		return;
	if (a->state != ACCOUNT_ENDED)
		violation(a, "it was lost: %s", a->state == ACCOUNT_LIVE ? "no end came" :
			  "its last event did not come");
	for (int i = 0; i < a->armings; i++) {
		const struct arming *m = &a->arming[i];

		if (!m->interval)
			continue;
		if (m->covered && m->sum != hash(m->start) - hash(m->end))
			violation(a, "request %d: its %u firings, in %u events, up to %llu, are not one after the other",
				  i, m->covered, m->events, m->end);
		if (m->firings && m->covered > m->firings)
			violation(a, "request %d: %u firings", i, m->covered);
	}
}
