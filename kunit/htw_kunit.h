/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the suites that drive contexts share
 */
#ifndef _HTW_KUNIT_H
#define _HTW_KUNIT_H

#include <kunit/test.h>
#include <linux/cpumask.h>
#include <linux/cred.h>
#include <linux/mm.h>
#include <linux/uio.h>
#include <linux/wait.h>

#include "../core/base.h"
#include "../core/expire.h"
#include "../core/lifecycle.h"
#include "../core/reader.h"
#include "../core/ring.h"
#include "../core/setup.h"
#include "../core/shrink.h"
#include "../core/slots.h"
#include "../core/submit.h"
#include "../core/table.h"
#include "../core/wake.h"
#include "../core/walk.h"

/* Fewer with KASAN: that is on an emulated machine, some fifty times slower. */
#define HTW_TEST_MANY		(IS_ENABLED(CONFIG_KASAN) ? 6000u : 100000u)

#define HTW_TEST_LIMIT		1048576

static inline u64 htw_now(void)
{
	return htw_clock_now(HTW_BASE_MONOTONIC);
}

#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
/*
 * How exactly the kernel's own clock events are set there: the clock is read in
 * steps of 256 ns, and the next event is at least 500 ns away, so an hrtimer may
 * have to wait for the second step. A tick is a million.
 */
#define CLOCK_NS	512

/* Lets virtual time pass. */
static inline void htw_test_sleep_until(struct kunit *test, u64 ns)
{
	ktime_t expires = ns_to_ktime(ns);

	while (htw_now() < ns) {
		set_current_state(TASK_UNINTERRUPTIBLE);
		schedule_hrtimeout(&expires, HRTIMER_MODE_ABS);
	}
	/* KUnit gives a case five minutes. These were virtual ones. */
	if (test->try_catch.try_result == -ETIMEDOUT)
		test->try_catch.try_result = -EINTR;
}
#endif

/* An array that goes when the case is over. */
static inline void *htw_test_array(struct kunit *test, size_t n, size_t size)
{
	void *array = kvcalloc(n, size, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, array);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, (kunit_action_t *)kvfree, array), 0);
	return array;
}

KUNIT_DEFINE_ACTION_WRAPPER(htw_test_close, htw_context_close, struct htw_context *);

static inline void htw_test_put_user(void *user)
{
	htw_user_put(user, htw_bases_free);
}

/* The user that contexts of this task count for; its wheels stay until the case is over. */
static inline struct htw_user *htw_test_user(struct kunit *test)
{
	struct htw_user *user = htw_user_get(htw_expire_serve);

	KUNIT_ASSERT_NOT_NULL(test, user);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, htw_test_put_user, user), 0);
	return user;
}

/* For suites: a user's wheels go with its last context, and cases look at them afterwards. */
static inline int htw_test_init(struct kunit *test)
{
	htw_test_user(test);
	return 0;
}

/*
 * This task's user's wheel on a CPU, or NULL where none has been made yet. It stays for
 * as long as the user is held, as by htw_test_init().
 */
static inline struct htw_base *htw_test_base(unsigned int cpu)
{
	struct htw_user *user = htw_user_get(htw_expire_serve);
	struct htw_base *base;

	if (!user)
		return NULL;
	base = htw_base_on(&user->cpus->bases[HTW_BASE_MONOTONIC], cpu);
	htw_test_put_user(user);
	return base;
}

/* A context, which is closed when the case is over. */
static inline struct htw_context *htw_test_context(struct kunit *test)
{
	struct htw_context *ctx = htw_context_alloc(HTW_TEST_LIMIT);

	KUNIT_ASSERT_NOT_NULL(test, ctx);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, htw_test_close, ctx), 0);
	return ctx;
}

/* Until htw_test_become_again() this task is somebody without privileges. */
static inline const struct cred *htw_test_become(struct kunit *test, uid_t uid)
{
	struct cred *cred = prepare_creds();

	KUNIT_ASSERT_NOT_NULL(test, cred);
	cred->uid = KUIDT_INIT(uid);
	cred->euid = KUIDT_INIT(uid);
	cred->fsuid = KUIDT_INIT(uid);
	cap_clear(cred->cap_effective);
	return override_creds(cred);
}

static inline void htw_test_become_again(const struct cred *before)
{
	const struct cred *cred = current_cred();

	revert_creds(before);
	put_cred(cred);
}

/* A user's context, which is closed when the case is over. */
static inline struct htw_context *htw_test_context_of(struct kunit *test, uid_t uid)
{
	const struct cred *before = htw_test_become(test, uid);
	struct htw_context *ctx = htw_context_alloc(HTW_TEST_LIMIT);

	htw_test_become_again(before);
	KUNIT_ASSERT_NOT_NULL(test, ctx);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, htw_test_close, ctx), 0);
	KUNIT_ASSERT_EQ(test, ctx->user->class, HTW_CLASS_OTHERS);
	return ctx;
}

/* What HTW_ADD does. Returns the id, or zero if that failed. */
static inline u64 htw_test_add(struct htw_context *ctx, const struct htw_add *add)
{
	LIST_HEAD(reserved);
	struct htw_timer *t;
	struct htw_submit s;
	u64 id;

	if (htw_slots_reserve(ctx, &reserved, 1, NULL) != 1)
		return 0;
	t = list_first_entry(&reserved, struct htw_timer, node.list);
	list_del(&t->node.list);
	id = htw_timer_id(t);
	htw_submit_begin_adds(&s, ctx);
	htw_submit_add(&s, t, add, s.plain);
	htw_submit_end(&s);
	return id;
}

/* A one-shot timer at a point in time; a case that cannot start it is over. */
static inline u64 htw_test_start(struct kunit *test, struct htw_context *ctx,
				 u64 deadline, u64 cookie)
{
	const struct htw_add add = {
		.flags = HTW_F_ABS,
		.deadline = deadline,
		.cookie = cookie,
	};
	const u64 id = htw_test_add(ctx, &add);

	KUNIT_ASSERT_NE(test, id, 0);
	return id;
}

/* What HTW_CANCEL does. */
static inline int htw_test_cancel(struct htw_context *ctx, struct htw_cancel *cancel)
{
	struct htw_submit s;
	int ret;

	htw_submit_begin(&s, ctx);
	ret = htw_submit_cancel(&s, htw_submit_find(&s, cancel->id), cancel, true);
	htw_submit_end(&s);
	return ret;
}

/* What HTW_MOD does. */
static inline int htw_test_mod(struct htw_context *ctx, const struct htw_mod *mod)
{
	struct htw_submit s;
	int ret;

	htw_submit_begin(&s, ctx);
	ret = htw_submit_mod(&s, htw_submit_find(&s, mod->id), mod);
	htw_submit_end(&s);
	return ret;
}

/* The timer of an id's slot, whatever it is by now. */
static inline struct htw_timer *htw_test_slot(struct htw_context *ctx, u64 id)
{
	struct htw_timer *t;
	struct htw_submit s;

	htw_submit_begin(&s, ctx);
	t = htw_submit_find(&s, id);
	htw_submit_end(&s);
	return t;
}

/* How many timers of its pages can be reserved. */
static inline size_t htw_test_nr_free(struct htw_context *ctx)
{
	size_t free;

	spin_lock_bh(&ctx->lock);
	free = ctx->nr_unused;
	for (u32 i = 0; i < HTW_FREE_LISTS; i++)
		free += list_count_nodes(&ctx->free[i]);
	spin_unlock_bh(&ctx->lock);
	return free;
}

/* read() into kernel memory, without waiting. Return the number of events. */
static inline u32 htw_test_read(struct htw_context *ctx, struct htw_event *events, u32 count)
{
	struct kvec kvec = { .iov_base = events, .iov_len = count * sizeof(*events) };
	struct iov_iter to;
	ssize_t ret;

	iov_iter_kvec(&to, ITER_DEST, &kvec, 1, kvec.iov_len);
	ret = htw_context_read(ctx, &to, true);
	return ret < 0 ? 0 : ret / sizeof(*events);
}

/* Waits until as many events can be read. */
static inline void htw_test_wait(struct kunit *test, struct htw_context *ctx, u32 count)
{
	KUNIT_ASSERT_NE_MSG(test, wait_event_timeout(ctx->wait,
						     READ_ONCE(ctx->nr_expired) >= count, 100 * HZ),
			    0, "%u of %u expired", READ_ONCE(ctx->nr_expired), count);
}

static inline u64 htw_test_pending(unsigned int cpu)
{
	struct htw_base *base = htw_test_base(cpu);
	u64 pending;

	if (!base)
		return 0;
	spin_lock_bh(&base->lock);
	pending = base->wheel.pending;
	spin_unlock_bh(&base->lock);
	return pending;
}

/* No wheel holds a node, or has lost count of them. */
static inline void htw_test_expect_empty(struct kunit *test)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		KUNIT_EXPECT_EQ_MSG(test, htw_test_pending(cpu), 0, "CPU %u", cpu);
}

/* The first tick that is not before a time, in ns: when that deadline fires. */
static inline u64 htw_test_tick_up(u64 ns)
{
	return DIV64_U64_ROUND_UP(ns, htw_tick_ns) * htw_tick_ns;
}

#endif /* _HTW_KUNIT_H */
