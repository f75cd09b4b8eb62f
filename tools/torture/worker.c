// SPDX-License-Identifier: GPL-2.0-only
#include "worker.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../common/clock.h"
#include "../common/htw-client.h"
#include "../common/random.h"
#include "report.h"
#include "submit.h"

/* Timers that take many more pages than those that a context keeps. */
#define SWELL		5000u

struct worker_counts *worker_counts;
static int *stop;

/**
 * struct call - a call that is being prepared
 * @a: the accounts, locked
 * @ops: the operation for each
 * @n: number of those
 */
struct call {
	struct account *a[SUBMIT_MOST];
	struct submit_op ops[SUBMIT_MOST];
	unsigned int n;
};

bool worker_init(void)
{
	void *p = mmap(NULL, sizeof(*worker_counts) + sizeof(*stop), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	worker_counts = p;
	stop = (int *)(worker_counts + 1);
	return p != MAP_FAILED;
}

void worker_stop_all(bool stop_all)
{
	__atomic_store_n(stop, stop_all, __ATOMIC_SEQ_CST);
}

static void count(__u64 *counter, unsigned int n)
{
	__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static __u64 below(struct worker *w, __u64 n)
{
	return xorshift64(&w->random) % n;
}

/* Mostly soon; also long past, due at once, together with others, and far away. */
static __u64 choose_deadline(struct worker *w)
{
	const struct context *c = w->context;
	__u64 now = context_time_before(c);

	switch (below(w, 16)) {
	case 0:
		return 0;
	case 1:
		return now;
	case 2:
	case 3:
		return now + (1 + below(w, 100)) * 3600 * SEC;
	case 4:
	case 5:
	case 6:
		return (now / c->most_ns + 1) * c->most_ns;
	case 7:
		return (now / c->tick + 1 + below(w, 4)) * c->tick;
	default:
		return now + below(w, c->most_ns);
	}
}

static __u64 choose_interval(struct worker *w)
{
	return (w->context->tick * (1 + below(w, 30)) + below(w, 1000) + ARMING_MASK) &
	       ~ARMING_MASK;
}

/* Lock and return an account of the worker's own that is free. */
static struct account *find_free(struct worker *w)
{
	for (__u32 i = 0; i < w->nr; i++) {
		struct account *a = account_get(w->first + w->next);

		w->next = (w->next + 1) % w->nr;
		if (!account_trylock(a))
			continue;
		if (account_is_reusable(a))
			return a;
		account_unlock(a);
	}
	return NULL;
}

/* Lock and return any account of the context that has been used. */
static struct account *find_used(struct worker *w)
{
	const struct context *c = w->context;

	for (int i = 0; i < 16; i++) {
		struct account *a = account_get(c->first + below(w, c->nr_accounts));

		if (!account_trylock(a))
			continue;
		if (a->state != ACCOUNT_UNUSED && a->id)
			return a;
		account_unlock(a);
	}
	return NULL;
}

static void unlock_all(struct call *call)
{
	for (unsigned int i = 0; i < call->n; i++)
		account_unlock(call->a[i]);
}

static unsigned int choose_number(struct worker *w)
{
	return below(w, 3) ? 1 + below(w, 8) : 1 + below(w, SUBMIT_MOST);
}

/* Every other time as a vector; now and then by io_uring, of which a worker may make the calls. */
static struct submit_way choose_way(struct worker *w)
{
	struct submit_way way = { .vector = below(w, 2), .uring = !below(w, 3) };

	if (!below(w, 4))
		way.sqe_flags |= IOSQE_ASYNC;
	/* Not IOSQE_IO_LINK: that one ends with the first call that fails. */
	if (!below(w, 4))
		way.sqe_flags |= IOSQE_IO_HARDLINK;
	return way;
}

/* Carry out the call; false if it failed as a whole. */
static bool carry_out(struct worker *w, struct call *call, const struct submit_way *way,
		      __u64 *before)
{
	int ret;

	*before = context_time_before(w->context);
	ret = submit(w->context->fd, call->ops, call->n, way);
	if (ret)
		report_violation("context %u: a vector of %u operations %#lx failed: %s",
				 w->context->number, call->n, call->ops->command, strerror(-ret));
	return !ret;
}

static bool may_refuse(const struct context *c, int result)
{
	return result == -ENOSPC ? c->setup.limit :
	       result == -EDQUOT && c->uid;
}

static void add(struct worker *w, struct call *call)
{
	const struct context *c = w->context;
	const struct submit_way way = choose_way(w);
	struct htw_add_args common = { .flags = HTW_F_ABS };
	struct window window;
	__u64 before;

	if (!below(w, 3))
		common.interval = choose_interval(w);
	if (common.interval && below(w, 3))
		common.firings = 1 + below(w, 20);
	if (!below(w, 4))
		common.flags |= HTW_F_KEEP;
	if (!below(w, 6))
		common.slack = below(w, c->most_ns);
	/* A relative deadline tells no number, so there can be one request only. */
	if (!common.interval && !below(w, 4))
		common.flags &= ~HTW_F_ABS;

	for (unsigned int want = choose_number(w); call->n < want; call->n++) {
		struct account *a = find_free(w);
		struct htw_add_args next = common;

		if (!a)
			break;
		next.id = POISON;
		next.deadline = next.flags & HTW_F_ABS ? choose_deadline(w) & ~ARMING_MASK :
							 below(w, c->most_ns);
		a->version = 0;
		a->reuse++;
		next.cookie = account_cookie(a);
		account_prepare_add(a, c->number, &next);
		call->a[call->n] = a;
		call->ops[call->n] = (struct submit_op){
			.command = HTW_ADD, .result = POISON32, .add = next,
		};
	}
	if (!call->n || !carry_out(w, call, &way, &before))
		return;
	window = context_window(c, before);
	for (unsigned int i = 0; i < call->n; i++) {
		const struct submit_op *op = &call->ops[i];

		if (op->result && !may_refuse(c, op->result))
			report_violation("context %u: an add failed: %s", c->number,
					 strerror(-op->result));
		account_added(call->a[i], op->result, op->add.id, &window);
	}
	count(&worker_counts->adds, call->n);
}

static void cancel(struct worker *w, struct call *call)
{
	const struct submit_way way = choose_way(w);
	struct window window;
	__u64 before;

	for (unsigned int want = choose_number(w); call->n < want; call->n++) {
		struct account *a = find_used(w);

		if (!a)
			break;
		call->a[call->n] = a;
		call->ops[call->n] = (struct submit_op){
			.command = HTW_CANCEL, .result = POISON32, .cancel = htw_cancel_of(a->id),
		};
	}
	if (!call->n || !carry_out(w, call, &way, &before))
		return;
	window = context_window(w->context, before);
	for (unsigned int i = 0; i < call->n; i++) {
		const struct submit_op *op = &call->ops[i];

		account_cancelled(call->a[i], op->result, op->has_output ? &op->cancel : NULL,
				  &window);
	}
	count(&worker_counts->cancels, call->n);
}

static void mod(struct worker *w, struct call *call)
{
	const struct context *c = w->context;
	const struct submit_way way = choose_way(w);
	struct htw_mod_args common = { 0 };
	struct window window;
	__u64 before;

	if (below(w, 6))
		common.flags |= HTW_MOD_DEADLINE | HTW_F_ABS;
	if (common.flags && !below(w, 3)) {
		common.flags |= HTW_MOD_INTERVAL;
		common.interval = below(w, 2) ? choose_interval(w) : 0;
		common.firings = common.interval && below(w, 3) ? 1 + below(w, 20) : 0;
	}
	if (!below(w, 6))
		common.flags |= HTW_MOD_COOKIE;
	if (!below(w, 6) || !common.flags) {
		common.flags |= HTW_MOD_SLACK;
		common.slack = below(w, c->most_ns);
	}

	for (unsigned int want = choose_number(w); call->n < want; call->n++) {
		struct account *a = find_used(w);
		struct htw_mod_args next = common;

		if (!a)
			break;
		if ((common.flags & HTW_MOD_DEADLINE && !account_can_arm(a)) ||
		    (common.flags & HTW_MOD_COOKIE && a->version == 255) ||
		    /* How many are left, if it is kept and has had all of them, is not known. */
		    (account_current(a)->firings && !(common.flags & HTW_MOD_INTERVAL))) {
			account_unlock(a);
			break;
		}
		next.id = a->id;
		next.state = POISON32;
		if (common.flags & HTW_MOD_DEADLINE)
			next.deadline = account_next_deadline(a, choose_deadline(w));
		if (common.flags & HTW_MOD_COOKIE) {
			a->version++;
			next.cookie = account_cookie(a);
			a->version--;
		}
		call->a[call->n] = a;
		call->ops[call->n] = (struct submit_op){
			.command = HTW_MOD, .result = POISON32, .mod = next,
		};
	}
	if (!call->n || !carry_out(w, call, &way, &before))
		return;
	window = context_window(c, before);
	for (unsigned int i = 0; i < call->n; i++) {
		const struct submit_op *op = &call->ops[i];

		account_moved(call->a[i], op->result, &op->mod, op->has_output, &window);
	}
	count(&worker_counts->mods, call->n);
}

static void query(struct worker *w, struct call *call)
{
	struct window window;
	__u64 before;

	for (unsigned int want = choose_number(w); call->n < want; call->n++) {
		struct account *a = find_used(w);

		if (!a)
			break;
		call->a[call->n] = a;
		call->ops[call->n] = (struct submit_op){
			.command = HTW_QUERY, .result = POISON32, .query.id = a->id,
		};
	}
	if (!call->n || !carry_out(w, call, &(struct submit_way){ 0 }, &before))
		return;
	window = context_window(w->context, before);
	for (unsigned int i = 0; i < call->n; i++)
		account_queried(call->a[i], call->ops[i].result, &call->ops[i].query, &window);
	count(&worker_counts->queries, call->n);
}

static void harvest(struct worker *w)
{
	struct htw_timer_info entries[SUBMIT_MOST];
	__u32 room = 1 + below(w, SUBMIT_MOST);

	count(&worker_counts->harvested, context_harvest(w->context, entries, room));
}

/* Each timer is reported once. */
static void check_list(const struct context *c, const struct htw_timer_info *entries, __u32 n)
{
	for (__u32 i = 0; i < n; i++)
		for (__u32 k = 0; k < i; k++)
			if (entries[i].id == entries[k].id)
				report_violation("context %u: HTW_LIST reported id %#llx twice",
						 c->number, entries[i].id);
}

/* Calls that only look; what they find may change at once. */
static void look(struct worker *w)
{
	const struct context *c = w->context;
	struct htw_timer_info entries[SUBMIT_MOST];
	struct htw_list_args list = htw_list_of(entries, SUBMIT_MOST);
	int ret;

	list.flags = below(w, 8);
	do {
		ret = htw_call(c->fd, HTW_LIST, &list);
		if (ret || list.done > SUBMIT_MOST) {
			report_violation("context %u: HTW_LIST: %d, %u entries", c->number, ret,
					 list.done);
			return;
		}
		check_list(c, entries, list.done);
	} while (list.done && below(w, 8));
	if (htw_info(c->fd).clock != c->clock)
		report_violation("context %u: HTW_INFO failed", c->number);
}

/*
 * Start so many timers, far away, that their pages are given back when all are cancelled at once.
 * Meanwhile others look up ids in these pages, and so do we: those of the last time.
 */
static void swell(struct worker *w)
{
	const struct context *c = w->context;
	__u64 started, stopped;

	if (c->setup.limit)
		return;
	if (!w->swollen)
		w->swollen = calloc(SWELL, sizeof(*w->swollen));
	if (!w->swollen)
		report_broken("no memory");
	if (htw_stop_many(c->fd, w->swollen, SWELL))
		report_violation("context %u: an id that had ended was found", c->number);
	started = htw_start_many(c->fd, context_time_after(c) + 3600 * SEC, COOKIE_STRANGER << 56,
				 SWELL, w->swollen);
	stopped = htw_stop_many(c->fd, w->swollen, SWELL);
	if (started != SWELL || (stopped != SWELL && !c->harvests))
		report_violation("context %u: of %u timers that are far away %llu were started, %llu cancelled",
				 c->number, SWELL, started, stopped);
	count(&worker_counts->adds, SWELL);
	count(&worker_counts->cancels, SWELL);
}

static void move_to_cpu(struct worker *w)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(below(w, w->cpus), &set);
	/* Fails if the CPU is off. */
	sched_setaffinity(0, sizeof(set), &set);
}

static void act(struct worker *w)
{
	struct context *c = w->context;
	struct call call;

	call.n = 0;
	if (c->clock == (int)HTW_CLOCK_MANUAL && !below(w, 8))
		context_advance(c, context_time_after(c) + below(w, c->most_ns / 4));
	if (c->harvests && !below(w, 500)) {
		harvest(w);
		return;
	}
	if (!below(w, 1000)) {
		swell(w);
		return;
	}
	switch (below(w, 32)) {
	case 0:
		move_to_cpu(w);
		break;
	case 1:
		look(w);
		break;
	case 2:
	case 3:
		query(w, &call);
		break;
	case 4 ... 9:
		cancel(w, &call);
		break;
	case 10 ... 16:
		mod(w, &call);
		break;
	default:
		add(w, &call);
		break;
	}
	unlock_all(&call);
}

void *worker_run(void *arg)
{
	struct worker *w = arg;

	move_to_cpu(w);
	while (!__atomic_load_n(stop, __ATOMIC_RELAXED)) {
		act(w);
		if (!below(w, 4))
			sleep_until(now_ns() + below(w, 2 * MSEC));
	}
	free(w->swollen);
	submit_exit();
	return NULL;
}
