/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Helpers of the suites that use contexts
 */
#ifndef _HTW_KUNIT_H
#define _HTW_KUNIT_H

#include <kunit/test.h>
#include <linux/cpumask.h>
#include <linux/cred.h>
#include <linux/delay.h>
#include <linux/interrupt.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <linux/wait.h>

#include "../core/base.h"
#include "../core/contexts.h"
#include "../core/delivery.h"
#include "../core/ops.h"
#include "../core/pool.h"
#include "../core/reader.h"
#include "../core/ring.h"
#include "../core/section.h"
#include "../core/setup.h"
#include "../core/shrink.h"
#include "../core/table.h"
#include "../core/wake.h"
#include "../core/walk.h"

/* Kernels for other than ARCH=um run in QEMU, some fifty times slower. */
#define HTW_TEST_MANY		(IS_ENABLED(CONFIG_UML) ? 100000u : 6000u)

#define HTW_TEST_LIMIT		1048576

static inline u64 htw_now(void)
{
	return htw_clock_now(HTW_MONOTONIC);
}

#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
/*
 * The accuracy of clock events with time travel, in ns: the clock is read in steps of 256 ns,
 * and the next event is at least 500 ns away, so an hrtimer may be two steps late.
 */
#define CLOCK_NS	512

/* Let virtual time pass. */
static inline void htw_test_sleep_until(struct kunit *test, u64 ns)
{
	ktime_t expires = ns_to_ktime(ns);

	while (htw_now() < ns) {
		set_current_state(TASK_UNINTERRUPTIBLE);
		schedule_hrtimeout(&expires, HRTIMER_MODE_ABS);
	}
	/* KUnit limits a case to five minutes, which were virtual here. */
	if (test->try_catch.try_result == -ETIMEDOUT)
		test->try_catch.try_result = -EINTR;
}
#endif

/* Allocate an array that is freed at the end of the case. */
static inline void *htw_test_array(struct kunit *test, size_t n, size_t size)
{
	void *array = kvcalloc(n, size, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, array);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, (kunit_action_t *)kvfree, array), 0);
	return array;
}

/* Close a context, and wait until its timers have been stopped. */
static inline void htw_test_close(void *ctx)
{
	htw_contexts_close(ctx);
	flush_workqueue(htw_wq);
}

static inline void htw_test_put_user(void *user)
{
	htw_user_put(user);
}

/* The user of this task. Its wheels stay until the end of the case. */
static inline struct htw_user *htw_test_user(struct kunit *test)
{
	struct htw_user *user = htw_user_get(&htw_user_ops);

	KUNIT_ASSERT_NOT_NULL(test, user);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, htw_test_put_user, user), 0);
	return user;
}

/*
 * A page of a program's memory, for the arguments of calls. Tasks of a case share it, 64 bytes
 * for each call in progress.
 *
 * @mm: the address space that KUnit gave to the case
 * @page: its address, or zero
 * @busy: which parts are in use
 */
static struct {
	struct mm_struct *mm;
	unsigned long page;
	DECLARE_BITMAP(busy, 64);
} htw_test_memory;

static inline void htw_test_forget_memory(void *unused)
{
	htw_test_memory.page = 0;
}

/* Map memory that is faulted in when it is used. */
static inline unsigned long htw_test_user_pages(struct kunit *test, unsigned int pages)
{
	const unsigned long addr = kunit_vm_mmap(test, NULL, 0, pages * PAGE_SIZE,
						 PROT_READ | PROT_WRITE,
						 MAP_ANONYMOUS | MAP_PRIVATE, 0);

	KUNIT_ASSERT_NE(test, addr, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(addr));
	return addr;
}

/* Map the page, unless the case has done so. */
static inline void htw_test_map_memory(struct kunit *test)
{
	if (htw_test_memory.page)
		return;
	htw_test_memory.page = htw_test_user_pages(test, 1);
	htw_test_memory.mm = current->mm;
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, htw_test_forget_memory, NULL), 0);
}

/* A call in progress: its argument, and whether the thread borrows the case's address space. */
struct htw_test_call {
	void __user *arg;
	unsigned int part;
	bool borrows;
};

/* Copy an argument to where a program would have it. For threads that have no memory as well. */
static inline void htw_test_call_begin(struct htw_test_call *call, const void *arg, size_t size)
{
	WARN_ON(!htw_test_memory.page || size > PAGE_SIZE / 64);
	call->borrows = !current->mm;
	if (call->borrows)
		kthread_use_mm(htw_test_memory.mm);
	call->part = 0;
	while (test_and_set_bit(call->part, htw_test_memory.busy))
		call->part = (call->part + 1) % 64;
	call->arg = (void __user *)(htw_test_memory.page + call->part * (PAGE_SIZE / 64));
	WARN_ON(copy_to_user(call->arg, arg, size));
}

/* Copy the argument back as the call left it. */
static inline void htw_test_call_end(struct htw_test_call *call, void *arg, size_t size)
{
	WARN_ON(copy_from_user(arg, call->arg, size));
	clear_bit(call->part, htw_test_memory.busy);
	if (call->borrows)
		kthread_unuse_mm(htw_test_memory.mm);
}

/* For suites. Keeps the user's wheels, which cases look at after closing its last context. */
static inline int htw_test_init(struct kunit *test)
{
	htw_test_user(test);
	htw_test_map_memory(test);
	return 0;
}

/*
 * The wheel of this task's user on a CPU, or NULL if there is none. It stays as long as the
 * user is held, as by htw_test_init().
 */
static inline struct htw_base *htw_test_base(unsigned int cpu)
{
	struct htw_user *user = htw_user_get(&htw_user_ops);
	struct htw_base *base;

	if (!user)
		return NULL;
	base = htw_bases_on(htw_bases_by_clock(&user->bases, HTW_MONOTONIC), cpu);
	htw_test_put_user(user);
	return base;
}

/* As if somebody had sent this task SIGKILL, until htw_test_spare(). */
static inline void htw_test_be_killed(void)
{
	spin_lock_irq(&current->sighand->siglock);
	sigaddset(&current->pending.signal, SIGKILL);
	set_thread_flag(TIF_SIGPENDING);
	spin_unlock_irq(&current->sighand->siglock);
}

static inline void htw_test_spare(void)
{
	flush_signals(current);
}

/* Close a context that was made, if it is not NULL, at the end of the case. */
static inline struct htw_context *htw_test_own(struct kunit *test, struct htw_context *ctx)
{
	htw_test_map_memory(test);
	KUNIT_ASSERT_NOT_NULL(test, ctx);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, htw_test_close, ctx), 0);
	return ctx;
}

/* A context, which is closed at the end of the case. */
static inline struct htw_context *htw_test_context(struct kunit *test)
{
	return htw_test_own(test, htw_contexts_create(HTW_TEST_LIMIT));
}

/* Run this task as an unprivileged user until htw_test_become_again(). */
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

/* A context of another user, which is closed at the end of the case. */
static inline struct htw_context *htw_test_context_of(struct kunit *test, uid_t uid)
{
	const struct cred *before = htw_test_become(test, uid);
	struct htw_context *ctx = htw_contexts_create(HTW_TEST_LIMIT);

	htw_test_become_again(before);
	htw_test_own(test, ctx);
	KUNIT_ASSERT_EQ(test, ctx->user->bases.class, HTW_CLASS_OTHERS);
	return ctx;
}

/* HTW_ADD. Returns the id, or zero if that failed. */
static inline u64 htw_test_add(struct htw_context *ctx, const struct htw_add *add)
{
	struct htw_add after;
	struct htw_test_call call;
	long ret;

	htw_test_call_begin(&call, add, sizeof(*add));
	ret = htw_op_add(ctx, call.arg);
	htw_test_call_end(&call, &after, sizeof(after));
	return ret ? 0 : after.id;
}

/* htw_pool_reserve() by a call that has just begun. */
static inline int htw_test_reserve(struct htw_context *ctx, struct list_head *timers, u32 want)
{
	struct htw_user_wait wait = HTW_USER_WAIT;

	return htw_pool_reserve(ctx, timers, want, NULL, &wait);
}

/* Start a one-shot timer with an absolute deadline, or abort the case. */
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

/* HTW_CANCEL */
static inline int htw_test_cancel(struct htw_context *ctx, struct htw_cancel *cancel)
{
	struct htw_test_call call;
	int ret;

	htw_test_call_begin(&call, cancel, sizeof(*cancel));
	ret = htw_op_cancel(ctx, call.arg);
	htw_test_call_end(&call, cancel, sizeof(*cancel));
	return ret;
}

/* HTW_MOD */
static inline int htw_test_mod(struct htw_context *ctx, const struct htw_mod *mod)
{
	struct htw_mod after;
	struct htw_test_call call;
	int ret;

	htw_test_call_begin(&call, mod, sizeof(*mod));
	ret = htw_op_mod(ctx, call.arg);
	htw_test_call_end(&call, &after, sizeof(after));
	return ret;
}

/* HTW_QUERY; fills in all but the id, or nothing. */
static inline int htw_test_query(struct htw_context *ctx, struct htw_query *query)
{
	struct htw_test_call call;
	int ret;

	htw_test_call_begin(&call, query, sizeof(*query));
	ret = htw_op_query(ctx, call.arg);
	htw_test_call_end(&call, query, sizeof(*query));
	return ret;
}

/* The timer in an id's slot, whatever the slot holds now. */
static inline struct htw_timer *htw_test_slot(struct htw_context *ctx, u64 id)
{
	struct htw_timer *t;
	struct htw_section s;

	htw_section_begin(&s, ctx);
	t = htw_section_find(&s, id);
	htw_section_end(&s);
	return t;
}

/* Timers of a context that others use at the same time. */
static inline u32 htw_test_nr_timers(struct htw_context *ctx)
{
	u32 nr;

	spin_lock_bh(&ctx->lock);
	nr = ctx->nr_timers;
	spin_unlock_bh(&ctx->lock);
	return nr;
}

/* Free timers in the context's pages. */
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

/* Put all free timers on the list of another CPU. */
static inline void htw_test_free_elsewhere(struct htw_context *ctx)
{
	LIST_HEAD(all);
	u32 other;

	spin_lock_bh(&ctx->lock);
	other = htw_pool_group(raw_smp_processor_id() + 1);
	for (u32 i = 0; i < HTW_FREE_LISTS; i++)
		list_splice_init(&ctx->free[i], &all);
	list_splice(&all, &ctx->free[other]);
	ctx->free_groups = BIT(other);
	spin_unlock_bh(&ctx->lock);
}

/* read() into kernel memory, without waiting. Return the number of events. */
static inline u32 htw_test_read(struct htw_context *ctx, struct htw_event *events, u32 count)
{
	struct kvec kvec = { .iov_base = events, .iov_len = count * sizeof(*events) };
	struct iov_iter to;
	ssize_t ret;

	iov_iter_kvec(&to, ITER_DEST, &kvec, 1, kvec.iov_len);
	ret = htw_reader_read(ctx, &to, true);
	return ret < 0 ? 0 : ret / sizeof(*events);
}

/* Wait until @count events are queued. */
static inline void htw_test_wait(struct kunit *test, struct htw_context *ctx, u32 count)
{
	KUNIT_ASSERT_NE_MSG(test, wait_event_timeout(ctx->wait,
						     READ_ONCE(ctx->nr_expired) >= count, 100 * HZ),
			    0, "%u of %u expired", READ_ONCE(ctx->nr_expired), count);
}

/*
 * Take a turn of a base at the time @from, ahead of the pacer, which takes its own when softirqs go
 * on: to look at what this one did, a caller disables them around it. With several CPUs the pacer
 * may take one at the same time.
 */
static inline enum htw_served htw_test_turn(struct htw_base *base, u64 from)
{
	struct htw_turn turn = { .pacer = base->job.pacer, .units = HTW_TURN_UNITS };
	enum htw_served served;

	local_bh_disable();
	rcu_read_lock();
	while (htw_now() < from)
		udelay(1);
	turn.flow = this_cpu_ptr(base->job.flows);
	turn.began = htw_now();
	served = base->job.serve(&base->job, &turn);
	rcu_read_unlock();
	local_bh_enable();
	return served;
}

#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
/*
 * Notes how many timers were started in a section, in a softirq that comes when it drops the lock.
 *
 * @base: where they are started
 * @before: timers that were pending before
 * @started: those that were started
 */
struct htw_test_section_end {
	struct tasklet_struct tasklet;
	struct htw_base *base;
	u64 before;
	u64 started;
};

static inline void htw_test_note_section_end(struct tasklet_struct *tasklet)
{
	struct htw_test_section_end *end = from_tasklet(end, tasklet, tasklet);

	end->started = end->base->wheel.pending - end->before;
	if (end->started)
		WRITE_ONCE(end->base->wanted, false);
	else
		tasklet_schedule(tasklet);
}

/* Have a turn wait for the base until the next section ends; then call tasklet_kill(). */
static inline void htw_test_section_end(struct htw_test_section_end *end, struct htw_base *base)
{
	*end = (struct htw_test_section_end) { .base = base, .before = base->wheel.pending };
	tasklet_setup(&end->tasklet, htw_test_note_section_end);
	WRITE_ONCE(base->wanted_at, jiffies);
	WRITE_ONCE(base->wanted, true);
	tasklet_schedule(&end->tasklet);
}
#endif

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

/* None of the user's wheels has a timer pending. May sleep. */
static inline void htw_test_expect_empty(struct kunit *test)
{
	unsigned int cpu;

	/* The timers of closed contexts, of earlier cases, too, are stopped there. */
	flush_workqueue(htw_wq);
	for_each_possible_cpu(cpu)
		KUNIT_EXPECT_EQ_MSG(test, htw_test_pending(cpu), 0, "CPU %u", cpu);
}

/* The time of the tick at which a deadline fires, in ns. */
static inline u64 htw_test_tick_up(u64 ns)
{
	return DIV64_U64_ROUND_UP(ns, htw_tick_ns) * htw_tick_ns;
}

#endif /* _HTW_KUNIT_H */
