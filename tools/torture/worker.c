// SPDX-License-Identifier: GPL-2.0-only
#include "worker.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../common/clock.h"
#include "../common/htw-client.h"
#include "../common/random.h"
#include "report.h"
#include "submit.h"

/* Timers that take more than the 64 pages from which on a context shrinks. */
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
	struct htw_op ops[SUBMIT_MOST];
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

/* Carry out the call; false if it failed as a whole. */
static bool carry_out(struct worker *w, struct call *call, enum submit_form form, __u64 *before)
{
	int ret;

	*before = context_time_before(w->context);
	ret = submit(w->context->fd, call->ops, call->n, form);
	if (ret)
		report_violation("context %u: a call of form %u for %u operations %u failed: %s",
				 w->context->number, form, call->n, call->ops->op, strerror(-ret));
	return !ret;
}

static bool may_refuse(const struct context *c, int result)
{
	return result == -ENOSPC ? c->setup.flags & HTW_SETUP_LIMIT :
	       result == -EDQUOT && c->uid;
}

static void add(struct worker *w, struct call *call)
{
	const struct context *c = w->context;
	const enum submit_form form = below(w, SUBMIT_FORMS);
	struct htw_add common = { .flags = HTW_F_ABS };
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
	if (c->clock == CLOCK_REALTIME && !below(w, 4))
		common.flags |= HTW_F_CANCEL_ON_SET;
	/* A relative deadline tells no number, so there can be one request only. */
	if (!common.interval && !below(w, 4))
		common.flags &= ~HTW_F_ABS;

	for (unsigned int want = choose_number(w); call->n < want; call->n++) {
		struct account *a = find_free(w);
		struct htw_add next = common;

		if (!a)
			break;
		next.id = POISON;
		next.deadline = next.flags & HTW_F_ABS ? choose_deadline(w) & ~ARMING_MASK :
							 below(w, c->most_ns);
		a->version = 0;
		a->reuse++;
		next.cookie = account_cookie(a);
		account_prepare_add(a, c->number, &next, c->table);
		call->a[call->n] = a;
		call->ops[call->n] = (struct htw_op){
			.op = HTW_OP_ADD, .result = POISON32, .add = next,
		};
	}
	if (!call->n || !carry_out(w, call, form, &before))
		return;
	window = context_window(c, before);
	for (unsigned int i = 0; i < call->n; i++) {
		const struct htw_op *op = &call->ops[i];

		if (op->result && !may_refuse(c, op->result))
			report_violation("context %u: an add failed: %s", c->number,
					 strerror(-op->result));
		account_added(call->a[i], op->result, op->add.id, &window);
	}
	count(&worker_counts->adds, call->n);
}

static void cancel(struct worker *w, struct call *call)
{
	const enum submit_form form = below(w, SUBMIT_FORMS);
	const __u32 flags = below(w, 2) ? HTW_CANCEL_DISCARD : 0;
	struct window window;
	__u64 before;

	for (unsigned int want = choose_number(w); call->n < want; call->n++) {
		struct account *a = find_used(w);

		if (!a)
			break;
		call->a[call->n] = a;
		call->ops[call->n] = htw_op_cancel(a->id, flags);
	}
	if (!call->n || !carry_out(w, call, form, &before))
		return;
	window = context_window(w->context, before);
	for (unsigned int i = 0; i < call->n; i++)
		account_cancelled(call->a[i], call->ops[i].result, &call->ops[i].cancel,
				  form != SUBMIT_VECTOR, &window);
	count(&worker_counts->cancels, call->n);
}

static void mod(struct worker *w, struct call *call)
{
	const struct context *c = w->context;
	const enum submit_form form = below(w, SUBMIT_FORMS);
	struct htw_mod common = { 0 };
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
		struct htw_mod next = common;

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
		if (common.flags & HTW_MOD_DEADLINE)
			next.deadline = account_next_deadline(a, choose_deadline(w));
		if (common.flags & HTW_MOD_COOKIE) {
			a->version++;
			next.cookie = account_cookie(a);
			a->version--;
		}
		call->a[call->n] = a;
		call->ops[call->n] = (struct htw_op){
			.op = HTW_OP_MOD, .result = POISON32, .mod = next,
		};
	}
	if (!call->n || !carry_out(w, call, form, &before))
		return;
	window = context_window(c, before);
	for (unsigned int i = 0; i < call->n; i++)
		account_moved(call->a[i], call->ops[i].result, &call->ops[i].mod, &window);
	count(&worker_counts->mods, call->n);
}

static void query(struct worker *w, struct call *call)
{
	const enum submit_form form = below(w, 2) ? SUBMIT_SINGLE : SUBMIT_BATCH;
	struct window window;
	__u64 before;

	for (unsigned int want = choose_number(w); call->n < want; call->n++) {
		struct account *a = find_used(w);

		if (!a)
			break;
		call->a[call->n] = a;
		call->ops[call->n] = (struct htw_op){
			.op = HTW_OP_QUERY, .result = POISON32, .query.id = a->id,
		};
	}
	if (!call->n || !carry_out(w, call, form, &before))
		return;
	window = context_window(w->context, before);
	for (unsigned int i = 0; i < call->n; i++)
		account_queried(call->a[i], call->ops[i].result, &call->ops[i].query, &window);
	count(&worker_counts->queries, call->n);
}

/* Half of the stores put a timer off by less than this: within the tick it is due in, mostly. */
#define STORE_NEAR	(100 * 1000)

/* Put timers off, or disarm them, by stores to the table of deadlines. */
static void store(struct worker *w, struct call *call)
{
	const struct context *c = w->context;

	for (unsigned int want = choose_number(w); call->n < want; call->n++) {
		struct account *a = find_used(w);
		__u64 before, deadline, word;
		struct window window;

		if (!a)
			break;
		call->a[call->n] = a;
		if (!account_can_arm(a) || a->parked || account_current(a)->firings ||
		    HTW_ID_SLOT(a->id) >= TABLE_BYTES / sizeof(*c->words))
			continue;
		before = context_time_before(c);
		deadline = account_current(a)->start;
		if (deadline < before)
			deadline = before;
		word = account_next_deadline(a, deadline + ARMINGS +
					     below(w, below(w, 2) ? c->most_ns : STORE_NEAR));
		if (!below(w, 8))
			word = HTW_DISARMED;
		__atomic_store_n(&c->words[HTW_ID_SLOT(a->id)], word, __ATOMIC_SEQ_CST);
		window = context_window(c, before);
		account_stored(a, word, &window);
		count(&worker_counts->stores, 1);
	}
}

static void harvest(struct worker *w)
{
	struct htw_query entries[SUBMIT_MOST];
	__u32 room = 1 + below(w, SUBMIT_MOST);

	count(&worker_counts->harvested, context_harvest(w->context, entries, room));
}

/* Calls that only look; what they find may change at once. */
static void look(struct worker *w)
{
	const struct context *c = w->context;
	struct htw_query entries[SUBMIT_MOST];
	struct htw_list list = htw_list_of(entries, SUBMIT_MOST);
	struct htw_next next = { 0 };
	int ret;

	list.flags = below(w, 8);
	do {
		ret = htw_call(c->fd, HTW_LIST, &list);
		if (ret || list.done > SUBMIT_MOST) {
			report_violation("context %u: HTW_LIST: %d, %u entries", c->number, ret,
					 list.done);
			return;
		}
	} while (list.done && below(w, 8));
	ret = htw_call(c->fd, HTW_NEXT, &next);
	if (ret && ret != -ENOENT)
		report_violation("context %u: HTW_NEXT: %s", c->number, strerror(-ret));
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
	case 17 ... 19:
		if (c->words) {
			store(w, &call);
			break;
		}
		__attribute__((fallthrough));
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
	return NULL;
}
