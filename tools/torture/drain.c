// SPDX-License-Identifier: GPL-2.0-only
#include "drain.h"

#include <errno.h>
#include <string.h>

#include "../common/clock.h"
#include "../common/htw-client.h"
#include "reader.h"
#include "report.h"

/* Timers that are due within this time are left to expire. */
#define SOON		(4 * SEC)
/* Time without an event, in ns, after which a pending event counts as lost. */
static __u64 stalled;

#define for_each_account(a, c)						\
	for (struct account *a = account_get((c)->first);		\
	     a < account_get((c)->first) + (c)->nr_accounts; a++)

static void cancel_left(struct context *c, struct account *a)
{
	__u64 before = context_time_before(c);
	struct htw_cancel_args cancel = htw_cancel_of(a->id);
	int ret = htw_call(c->fd, HTW_CANCEL, &cancel);
	struct window window = context_window(c, before);

	account_cancelled(a, ret, &cancel, &window);
}

/* Cancel those that would go on for ever, or all. */
static void cancel_live(struct context *c, bool all)
{
	for_each_account(a, c) {
		const struct arming *m;

		account_lock(a);
		m = account_current(a);
		if (a->state == ACCOUNT_LIVE && (all || (m->interval && !m->firings)))
			cancel_left(c, a);
		account_unlock(a);
	}
}

static void harvest_left(struct context *c)
{
	struct htw_timer_info entries[256];

	while (context_harvest(c, entries, 256))
		;
}

static void cancel_all(struct context *c)
{
	struct htw_cancel_all_args all = { .count = POISON };
	int ret;

	for_each_account(a, c) {
		account_lock(a);
		if (a->state == ACCOUNT_LIVE)
			a->state = ACCOUNT_EITHER;
		account_unlock(a);
	}
	ret = htw_call(c->fd, HTW_CANCEL_ALL, &all);
	if (ret)
		report_violation("context %u: HTW_CANCEL_ALL: %s", c->number, strerror(-ret));
	c->cancelled = all.count;
}

static void begin(struct context *c)
{
	switch (c->drain) {
	case DRAIN_EXPIRE:
		cancel_live(c, false);
		c->horizon = context_time_after(c) + SOON;
		if (c->clock == (int)HTW_CLOCK_MANUAL)
			context_advance(c, c->horizon);
		break;
	case DRAIN_CANCEL:
		cancel_live(c, true);
		break;
	case DRAIN_CANCEL_ALL:
		cancel_all(c);
		break;
	default:
		break;
	}
}

/* One of the context's timers whose event is to come by the time @horizon, if any. */
static struct account *find_owing(struct context *c, __u64 horizon)
{
	for_each_account(a, c) {
		bool owes;

		account_lock(a);
		owes = account_owes(a, horizon);
		account_unlock(a);
		if (owes)
			return a;
	}
	return NULL;
}

static __u64 events_of(const struct context *c)
{
	return __atomic_load_n(&c->state->events, __ATOMIC_RELAXED);
}

/* Wait until all events have come that are due by then; false if they do not come. */
static bool wait_for_events(struct context *c, __u64 horizon)
{
	__u64 seen = events_of(c), last = now_ns();
	struct account *a;

	while ((a = find_owing(c, horizon))) {
		struct htw_info_args info;

		if (report_violations())
			return false;
		sleep_until(now_ns() + 5 * MSEC);
		if (events_of(c) != seen) {
			seen = events_of(c);
			last = now_ns();
		}
		if (now_ns() - last < stalled)
			continue;
		info = htw_info(c->fd);
		report_violation("context %u: LOST: no event for %llu s; it has %llu timers: %s",
				 c->number, stalled / SEC, info.timers,
				 htw_poll(c->fd, 0) ? "a wake-up was lost" : "a timer was lost");
		account_verify(a);
		return false;
	}
	return true;
}

/* The other timers end. */
static bool finish(struct context *c)
{
	switch (c->drain) {
	case DRAIN_EXPIRE:
		if (!wait_for_events(c, c->horizon))
			return false;
		harvest_left(c);
		cancel_live(c, true);
		return wait_for_events(c, ~0ULL);
	case DRAIN_CANCEL:
		return wait_for_events(c, 0);
	default:
		return true;
	}
}

static bool end_readers(struct context *c)
{
	__u64 start = now_ns();

	reader_send_sentinels(c, c->nr_readers);
	while (__atomic_load_n(&c->state->readers_ended, __ATOMIC_SEQ_CST) < c->nr_readers) {
		sleep_until(now_ns() + 5 * MSEC);
		if (report_violations())
			return false;
		if (now_ns() - start > stalled) {
			report_violation("context %u: LOST: a reader was not woken; %u of %u ended, %llu timers are left",
					 c->number, c->state->readers_ended, c->nr_readers,
					 htw_timers(c->fd));
			return false;
		}
	}
	return true;
}

/* All events have been read: those that HTW_CANCEL_ALL has counted are the others. */
static void check_cancelled(struct context *c)
{
	__u64 found = 0;

	for_each_account(a, c) {
		found += a->state == ACCOUNT_EITHER;
		if (a->state == ACCOUNT_EITHER)
			a->state = ACCOUNT_ENDED;
	}
	if (found != c->cancelled)
		report_violation("context %u: HTW_CANCEL_ALL returned %llu, but it was %llu timers",
				 c->number, c->cancelled, found);
}

bool drain_all(struct context *contexts, unsigned int n, __u64 stalled_ns)
{
	stalled = stalled_ns;
	for (unsigned int i = 0; i < n; i++)
		begin(&contexts[i]);
	for (unsigned int i = 0; i < n; i++)
		if (!finish(&contexts[i]))
			return false;
	for (unsigned int i = 0; i < n; i++)
		if (!end_readers(&contexts[i]))
			return false;
	return true;
}

void drain_verify(struct context *contexts, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		struct context *c = &contexts[i];
		struct htw_cancel_all_args all = { 0 };
		struct htw_info_args info;

		if (c->drain == DRAIN_CANCEL_ALL)
			check_cancelled(c);
		/* What strangers have left. */
		if (c->drain != DRAIN_CLOSE && c->strangers)
			htw_call(c->fd, HTW_CANCEL_ALL, &all);
		info = htw_info(c->fd);
		if (c->drain != DRAIN_CLOSE && info.timers)
			report_violation("context %u: %llu timers are left", c->number,
					 info.timers);
		for_each_account(a, c) {
			if (c->drain == DRAIN_CLOSE)
				account_close(a);
			account_verify(a);
		}
	}
}
