/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Helpers of the suites that use contexts
 *
 * The cases call the file's operations as system calls do, with arguments in a
 * program's memory.
 */
#ifndef _HTW_KUNIT_H
#define _HTW_KUNIT_H

#include <kunit/test.h>
#include <linux/anon_inodes.h>
#include <linux/cred.h>
#include <linux/delay.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#include "../core/alarm.h"
#include "../core/context.h"
#include "../core/user.h"
#include "../htw_chardev.h"

/* Kernels for other than ARCH=um run in QEMU, some fifty times slower. */
#define HTW_TEST_MANY		(IS_ENABLED(CONFIG_UML) ? 100000u : 6000u)

/* Pages for events and arrays. */
#define HTW_TEST_PAGES		8u
/* What out fields hold before a call. */
#define HTW_TEST_POISON		0xa5a5a5a5a5a5a5a5ull
/* A relative deadline that does not come during a case. */
#define HTW_TEST_LATER		(3600 * (u64)NSEC_PER_SEC)

/**
 * struct htw_test_file - an open device
 * @test: the case, at whose end it is closed
 * @file: the file; opened with O_NONBLOCK
 * @ctx: its context
 * @arg: a page of the program's memory for arguments
 * @to: more of them, for events and arrays
 */
struct htw_test_file {
	struct kunit *test;
	struct file *file;
	struct htw_context *ctx;
	unsigned long arg;
	unsigned long to;
};

static inline u64 htw_now(void)
{
	return htw_clock_now(HTW_MONOTONIC);
}

/*
 * After some time has passed: KUnit stops a case after five minutes, which are virtual with
 * time travel.
 */
static inline void htw_test_forgive_time(struct kunit *test)
{
	if (!IS_ENABLED(CONFIG_UML_TIME_TRAVEL_SUPPORT))
		return;
	clear_notify_signal();
	if (test->try_catch.try_result == -ETIMEDOUT)
		test->try_catch.try_result = -EINTR;
}

/* Sleep, with time travel until virtual time has come there. */
static inline void htw_test_sleep_until(struct kunit *test, u64 ns)
{
	ktime_t expires = ns_to_ktime(ns);

	while (htw_now() < ns) {
		set_current_state(TASK_UNINTERRUPTIBLE);
		schedule_hrtimeout(&expires, HRTIMER_MODE_ABS);
	}
	htw_test_forgive_time(test);
}

/* Wait until a condition holds, for at most 20 s. */
#define htw_test_wait_for(test, condition)				\
do {									\
	unsigned int __tries = 2000;					\
									\
	while (!(condition) && --__tries)				\
		schedule_timeout_uninterruptible(HZ / 100 ?: 1);	\
	KUNIT_ASSERT_NE_MSG(test, __tries, 0, #condition);		\
} while (0)

/* Allocate an array of zeroes that is freed at the end of the case. */
static inline void *htw_test_array(struct kunit *test, size_t n, size_t size)
{
	void *array = kvcalloc(n, size, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, array);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, (kunit_action_t *)kvfree, array), 0);
	return array;
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

/* Replace a page by one of zeroes with protection @prot; %PROT_NONE is as if there were none. */
static inline void htw_test_protect(struct kunit *test, unsigned long page, unsigned long prot)
{
	KUNIT_ASSERT_EQ(test, page,
			kunit_vm_mmap(test, NULL, page, PAGE_SIZE, prot,
				      MAP_ANONYMOUS | MAP_PRIVATE | MAP_FIXED, 0));
}

/* Map @pages that are followed by memory that is not there. Return: where they end. */
static inline unsigned long htw_test_pages_end(struct kunit *test, unsigned int pages)
{
	const unsigned long end = htw_test_user_pages(test, pages + 1) + pages * PAGE_SIZE;

	htw_test_protect(test, end, PROT_NONE);
	return end;
}

static inline void htw_test_write(struct kunit *test, unsigned long to, const void *from,
				  size_t size)
{
	KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)to, from, size), 0);
}

static inline void htw_test_read(struct kunit *test, void *to, unsigned long from, size_t size)
{
	KUNIT_ASSERT_EQ(test, copy_from_user(to, (void __user *)from, size), 0);
}

KUNIT_DEFINE_ACTION_WRAPPER(htw_test_fput, __fput_sync, struct file *);

/* Have the case on one CPU from now on; it runs in a thread of its own. */
static inline void htw_test_go_to(unsigned int cpu)
{
	set_cpus_allowed_ptr(current, cpumask_of(cpu));
}

/*
 * Open the device with these flags; it is closed at the end of the case. The case
 * stays on its CPU: otherwise it depends on the scheduler how many bases its
 * contexts have, and how much memory they take.
 */
static inline struct htw_test_file *htw_test_open_flags(struct kunit *test, int flags)
{
	struct htw_test_file *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, f);
	htw_test_go_to(raw_smp_processor_id());
	f->test = test;
	f->ctx = htw_context_open();
	KUNIT_ASSERT_NOT_NULL(test, f->ctx);
	/* Does not call ->open. From here on the file owns the context. */
	f->file = anon_inode_getfile("[htw]", &htw_fops, f->ctx, flags);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, f->file);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, htw_test_fput, f->file), 0);
	f->arg = htw_test_user_pages(test, 1);
	f->to = htw_test_user_pages(test, HTW_TEST_PAGES);
	return f;
}

static inline struct htw_test_file *htw_test_open(struct kunit *test)
{
	return htw_test_open_flags(test, O_RDWR | O_NONBLOCK);
}

/* Close the device before the end of the case. */
static inline void htw_test_close(struct htw_test_file *f)
{
	kunit_release_action(f->test, htw_test_fput, f->file);
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

/* Open the device as an unprivileged user. */
static inline struct htw_test_file *htw_test_open_as(struct kunit *test, uid_t uid)
{
	const struct cred *before = htw_test_become(test, uid);
	struct htw_test_file *f = htw_test_open(test);

	htw_test_become_again(before);
	return f;
}

/* ioctl() */
static inline long htw_test_ioctl(struct htw_test_file *f, unsigned int cmd, unsigned long arg)
{
	return f->file->f_op->unlocked_ioctl(f->file, cmd, arg);
}

/* Make a call; its argument is afterwards as the call left it. */
static inline long htw_test_call(struct htw_test_file *f, unsigned int cmd, void *arg)
{
	long ret;

	htw_test_write(f->test, f->arg, arg, _IOC_SIZE(cmd));
	ret = htw_test_ioctl(f, cmd, f->arg);
	htw_test_read(f->test, arg, f->arg, _IOC_SIZE(cmd));
	return ret;
}

/* HTW_SETUP, which succeeds. */
static inline void htw_test_setup(struct htw_test_file *f, const struct htw_setup_args *setup)
{
	struct htw_setup_args arg = *setup;

	KUNIT_ASSERT_EQ(f->test, htw_test_call(f, HTW_SETUP, &arg), 0);
}

/* Open the device with a limit of timers. */
static inline struct htw_test_file *htw_test_limited(struct kunit *test, u64 limit)
{
	const struct htw_setup_args setup = { .limit = limit };
	struct htw_test_file *f = htw_test_open(test);

	htw_test_setup(f, &setup);
	return f;
}

/* Open the device with the manual clock. */
static inline struct htw_test_file *htw_test_manual(struct kunit *test, u64 tick_ns)
{
	const struct htw_setup_args setup = {
		.flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL, .tick_ns = tick_ns,
	};
	struct htw_test_file *f = htw_test_open(test);

	htw_test_setup(f, &setup);
	return f;
}

/* Move the manual clock to a time. Return: is a timer due? */
static inline u32 htw_test_advance_to(struct htw_test_file *f, u64 ns)
{
	struct htw_advance_args arg = { .ns = ns, .flags = HTW_F_ABS, .due = 77 };

	KUNIT_ASSERT_EQ(f->test, htw_test_call(f, HTW_ADVANCE, &arg), 0);
	return arg.due;
}

/* HTW_ADD, which succeeds. Return: the id. */
static inline u64 htw_test_add(struct htw_test_file *f, const struct htw_add_args *add)
{
	struct htw_add_args arg = *add;

	arg.id = HTW_TEST_POISON;
	KUNIT_ASSERT_EQ(f->test, htw_test_call(f, HTW_ADD, &arg), 0);
	KUNIT_EXPECT_NE(f->test, arg.id, 0);
	KUNIT_EXPECT_NE(f->test, arg.id, HTW_TEST_POISON);
	KUNIT_EXPECT_FALSE(f->test, HTW_ID_IS_ERROR(arg.id));
	return arg.id;
}

/* Start a one-shot timer with an absolute deadline. Return: the id. */
static inline u64 htw_test_start(struct htw_test_file *f, u64 deadline, u64 cookie)
{
	const struct htw_add_args add = {
		.flags = HTW_F_ABS, .deadline = deadline, .cookie = cookie,
	};

	return htw_test_add(f, &add);
}

/* HTW_CANCEL; out fields are poisoned before. */
static inline int htw_test_cancel(struct htw_test_file *f, u64 id, struct htw_cancel_args *out)
{
	*out = (struct htw_cancel_args) {
		.id = id, .remaining = HTW_TEST_POISON, .cookie = HTW_TEST_POISON,
		.missed = HTW_TEST_POISON, .state = (u32)HTW_TEST_POISON,
	};
	return htw_test_call(f, HTW_CANCEL, out);
}

/* HTW_MOD; @mod->state is out. */
static inline int htw_test_mod(struct htw_test_file *f, struct htw_mod_args *mod)
{
	mod->state = (u32)HTW_TEST_POISON;
	return htw_test_call(f, HTW_MOD, mod);
}

/* HTW_QUERY */
static inline int htw_test_query(struct htw_test_file *f, u64 id, struct htw_timer_info *info)
{
	memset(info, 0xa5, sizeof(*info));
	info->id = id;
	return htw_test_call(f, HTW_QUERY, info);
}

/* HTW_QUERY of a timer that there is. */
static inline struct htw_timer_info htw_test_info_of(struct htw_test_file *f, u64 id)
{
	struct htw_timer_info info;

	KUNIT_ASSERT_EQ(f->test, htw_test_query(f, id, &info), 0);
	KUNIT_EXPECT_EQ(f->test, info.id, id);
	return info;
}

/* There is no such timer, for any call. */
static inline void htw_test_expect_no_timer(struct htw_test_file *f, u64 id)
{
	struct htw_mod_args mod = { .id = id, .flags = HTW_MOD_COOKIE };
	struct htw_cancel_args cancel;
	struct htw_timer_info info;

	KUNIT_EXPECT_EQ_MSG(f->test, htw_test_query(f, id, &info), -ENOENT, "%llx", id);
	KUNIT_EXPECT_EQ(f->test, htw_test_mod(f, &mod), -ENOENT);
	KUNIT_EXPECT_EQ(f->test, htw_test_cancel(f, id, &cancel), -ENOENT);
}

/* HTW_INFO */
static inline struct htw_info_args htw_test_info(struct htw_test_file *f)
{
	struct htw_info_args info;

	memset(&info, 0xa5, sizeof(info));
	KUNIT_ASSERT_EQ(f->test, htw_test_call(f, HTW_INFO, &info), 0);
	return info;
}

/* read() to an address of the program's. */
static inline ssize_t htw_test_vfs_read(struct htw_test_file *f, unsigned long to, size_t size)
{
	loff_t pos = 0;

	return vfs_read(f->file, (char __user *)to, size, &pos);
}

/* Read up to @count events without waiting. Return: how many there were. */
static inline u32 htw_test_take(struct htw_test_file *f, struct htw_event *events, u32 count)
{
	const size_t size = sizeof(*events);
	u32 done = 0;

	while (done < count) {
		const u32 want = min_t(u32, count - done, HTW_TEST_PAGES * PAGE_SIZE / size);
		const ssize_t ret = htw_test_vfs_read(f, f->to, want * size);

		if (ret == -EAGAIN)
			break;
		KUNIT_ASSERT_GT(f->test, ret, 0);
		KUNIT_ASSERT_EQ(f->test, ret % size, 0);
		htw_test_read(f->test, events + done, f->to, ret);
		done += ret / size;
	}
	return done;
}

/* read() to the kernel's memory, which may wait; for threads without memory of a program. */
static inline ssize_t htw_test_read_one(struct file *file, struct htw_event *event)
{
	loff_t pos = 0;

	return kernel_read(file, event, sizeof(*event), &pos);
}

/* Have reads wait for an event, or not. */
static inline void htw_test_set_nonblock(struct htw_test_file *f, bool nonblock)
{
	if (nonblock)
		f->file->f_flags |= O_NONBLOCK;
	else
		f->file->f_flags &= ~O_NONBLOCK;
}

/* The alarm of a device's user on a CPU, for its clock. */
static inline struct htw_alarm *htw_test_alarm(struct htw_test_file *f, unsigned int cpu)
{
	return &per_cpu_ptr(f->ctx->user->alarms, cpu)->on[f->ctx->clock];
}

/* poll() that asks for no wake-up. */
static inline bool htw_test_is_readable(struct htw_test_file *f)
{
	return vfs_poll(f->file, NULL) & EPOLLIN;
}

/* There is no timer, and no event. */
static inline void htw_test_expect_nothing(struct htw_test_file *f)
{
	struct htw_event event;

	KUNIT_EXPECT_EQ(f->test, htw_test_info(f).timers, 0);
	KUNIT_EXPECT_EQ(f->test, htw_test_take(f, &event, 1), 0);
	KUNIT_EXPECT_FALSE(f->test, htw_test_is_readable(f));
}

/* Slack is kept in 26 bits, rounded down. */
static inline u64 htw_test_round_slack(u64 slack)
{
	const int extra = fls64(slack) - 26;

	return extra > 0 ? slack >> extra << extra : slack;
}

/*
 * When a timer with slack is due on the manual clock: at the time from its deadline to the
 * end of its slack that ends in most zero bits, rounded up to a tick.
 */
static inline u64 htw_test_due_with_slack(u64 deadline, u64 slack, u64 tick)
{
	u64 best = deadline, last = deadline + htw_test_round_slack(slack);

	if (last - deadline < tick || last < deadline)
		return htw_tick_up(deadline, tick) * tick;
	/* By the rule alone: the highest bit that some time has all zeroes below. */
	for (u32 bit = 0; bit < 63; bit++) {
		const u64 time = ((deadline - 1) >> bit << bit) + (1ull << bit);

		if (time >= deadline && time <= last)
			best = time;
	}
	return min(htw_tick_up(best, tick), last / tick) * tick;
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

#endif /* _HTW_KUNIT_H */
