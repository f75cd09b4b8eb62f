// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: how the device accesses a program's memory
 *
 * The cases call the file's operations as system calls do, with memory that is present, not
 * faulted in, not mapped, or not writable; often several of these within one argument. A call
 * that fails must leave everything unchanged.
 */
#include <kunit/test.h>
#include <linux/anon_inodes.h>
#include <linux/delay.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/pagemap.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "../core/copied.h"
#include "../htw_chardev.h"
#include "htw_kunit.h"

#define EVENT			sizeof(struct htw_event)
/* A relative deadline that does not expire during a case. */
#define LATER			(3600 * (u64)NSEC_PER_SEC)

/*
 * @arg: a writable page for arguments
 * @to: writable pages for events
 *
 * Both are mapped first, so that no later mapping takes the place of what a case unmaps.
 */
struct device_test {
	struct htw_context *ctx;
	struct file *file;
	unsigned long arg;
	unsigned long to;
};

#define TO_PAGES		4

KUNIT_DEFINE_ACTION_WRAPPER(close_file, __fput_sync, struct file *);

static struct device_test *device_limited(struct kunit *test, u32 limit)
{
	struct device_test *d = kunit_kzalloc(test, sizeof(*d), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, d);
	d->ctx = htw_contexts_create(limit);
	KUNIT_ASSERT_NOT_NULL(test, d->ctx);
	/* Does not call ->open. From here on the file owns the context. */
	d->file = anon_inode_getfile("[htw]", &htw_fops, d->ctx, O_RDWR | O_NONBLOCK);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, d->file);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, close_file, d->file), 0);
	d->arg = htw_test_user_pages(test, 1);
	d->to = htw_test_user_pages(test, TO_PAGES);
	return d;
}

static struct device_test *device(struct kunit *test)
{
	return device_limited(test, HTW_TEST_LIMIT);
}

static long device_ioctl(struct device_test *d, unsigned int cmd, unsigned long arg)
{
	return d->file->f_op->unlocked_ioctl(d->file, cmd, arg);
}

static ssize_t device_read(struct device_test *d, unsigned long to, size_t size)
{
	loff_t pos = 0;

	return vfs_read(d->file, (char __user *)to, size, &pos);
}

/* Replace a page by one of zeroes with protection @prot. */
static void user_protect(struct kunit *test, unsigned long page, unsigned long prot)
{
	KUNIT_ASSERT_EQ(test, page,
			kunit_vm_mmap(test, NULL, page, PAGE_SIZE, prot,
				      MAP_ANONYMOUS | MAP_PRIVATE | MAP_FIXED, 0));
}

static void user_unmap(struct kunit *test, unsigned long page)
{
	KUNIT_ASSERT_EQ(test, vm_munmap(page, PAGE_SIZE), 0);
}

/* Map a page that is followed by unmapped memory. */
static unsigned long last_page(struct kunit *test)
{
	const unsigned long page = htw_test_user_pages(test, 2);

	user_unmap(test, page + PAGE_SIZE);
	return page;
}

/* Map a writable page followed by a read-only page of zeroes. Return the second. */
static unsigned long readonly_second_page(struct kunit *test)
{
	const unsigned long page = htw_test_user_pages(test, 2);

	user_protect(test, page + PAGE_SIZE, PROT_READ);
	return page + PAGE_SIZE;
}

static void user_write(struct kunit *test, unsigned long to, const void *from, size_t size)
{
	KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)to, from, size), 0);
}

static void user_read(struct kunit *test, void *to, unsigned long from, size_t size)
{
	KUNIT_ASSERT_EQ(test, copy_from_user(to, (void __user *)from, size), 0);
}

static struct htw_info get_info(struct kunit *test, struct device_test *d)
{
	struct htw_info info;

	KUNIT_ASSERT_EQ(test, device_ioctl(d, HTW_INFO, d->arg), 0);
	user_read(test, &info, d->arg, sizeof(info));
	return info;
}

/* No timer is pending, no event is queued, and no timer counts against the limit. */
static void expect_nothing(struct kunit *test, struct device_test *d)
{
	const struct htw_info info = get_info(test, d);

	KUNIT_EXPECT_EQ(test, info.timers, 0);
	KUNIT_EXPECT_EQ(test, info.expired, 0);
	htw_test_expect_empty(test);
}

/* Let @count timers with the cookies 0, 1, ... expire. */
static void expire(struct kunit *test, struct device_test *d, u32 count)
{
	migrate_disable();
	for (u32 i = 0; i < count; i++)
		htw_test_start(test, d->ctx, 0, i);
	migrate_enable();
	htw_test_wait(test, d->ctx, count);
}

/* Expect @count events at @from, in order, the first with cookie @first. */
static void expect_events(struct kunit *test, unsigned long from, u32 first, u32 count)
{
	for (u32 i = 0; i < count; i++) {
		struct htw_event event;

		user_read(test, &event, from + i * EVENT, EVENT);
		KUNIT_EXPECT_EQ(test, event.cookie, first + i);
		KUNIT_EXPECT_NE(test, event.id, 0);
		KUNIT_EXPECT_EQ(test, event.flags, 0);
		KUNIT_EXPECT_EQ(test, event.reserved, 0);
	}
}

/* Expect that @count more events can be read, the first with cookie @first. */
static void expect_readable(struct kunit *test, struct device_test *d, u32 first, u32 count)
{
	KUNIT_EXPECT_EQ(test, get_info(test, d).expired, count);
	KUNIT_ASSERT_EQ(test, device_read(d, d->to, TO_PAGES * PAGE_SIZE), count * EVENT);
	expect_events(test, d->to, first, count);
	KUNIT_EXPECT_EQ(test, device_read(d, d->to, PAGE_SIZE), -EAGAIN);
	expect_nothing(test, d);
}

/*
 * read()
 */

static void read_faults_memory_in(struct kunit *test)
{
	struct device_test *d = device(test);
	const u32 count = 3 * PAGE_SIZE / EVENT;
	const unsigned long to = htw_test_user_pages(test, 3);

	expire(test, d, count);
	KUNIT_ASSERT_EQ(test, device_read(d, to, 3 * PAGE_SIZE), count * EVENT);
	expect_events(test, to, 0, count);
	expect_nothing(test, d);
}

static void read_faults_in_what_an_event_straddles(struct kunit *test)
{
	struct device_test *d = device(test);
	const unsigned long page = htw_test_user_pages(test, 2);
	const unsigned long to = page + PAGE_SIZE - EVENT / 2;

	user_write(test, page, "there", 5);
	expire(test, d, 1);
	KUNIT_ASSERT_EQ(test, device_read(d, to, EVENT), EVENT);
	expect_events(test, to, 0, 1);
	expect_nothing(test, d);
}

/* Whole events that fit before the memory ends, and bytes of one more. */
struct read_room {
	u32 events;
	u32 bytes;
};

static const struct read_room read_rooms[] = {
	{ 1, 0 }, { 1, 1 }, { 2, EVENT / 2 }, { 3, EVENT - 1 },
	{ 15, 8 }, { 16, 0 }, { 16, 8 }, { 17, 8 }, { 40, EVENT - 8 },
};

static void get_read_room_desc(const struct read_room *room, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%u events and %u bytes", room->events, room->bytes);
}

KUNIT_ARRAY_PARAM(read_rooms, read_rooms, get_read_room_desc);

static void read_ends_with_the_memory(struct kunit *test)
{
	struct device_test *d = device(test);
	const struct read_room *room = test->param_value;
	const unsigned long to = last_page(test) + PAGE_SIZE - room->events * EVENT - room->bytes;

	expire(test, d, 60);
	KUNIT_ASSERT_EQ(test, device_read(d, to, 60 * EVENT), room->events * EVENT);
	expect_events(test, to, 0, room->events);
	expect_readable(test, d, room->events, 60 - room->events);
}

static void read_ends_with_what_is_writable(struct kunit *test)
{
	struct device_test *d = device(test);
	const unsigned long to = readonly_second_page(test) - 5 * EVENT / 2;

	expire(test, d, 10);
	KUNIT_ASSERT_EQ(test, device_read(d, to, 10 * EVENT), 2 * EVENT);
	expect_events(test, to, 0, 2);
	expect_readable(test, d, 2, 8);
}

static void read_into_nothing_loses_nothing(struct kunit *test)
{
	struct device_test *d = device(test);
	const unsigned long page = last_page(test);

	expire(test, d, 20);
	KUNIT_EXPECT_EQ(test, device_read(d, page + PAGE_SIZE, 10 * EVENT), -EFAULT);
	KUNIT_EXPECT_EQ(test, device_read(d, page + PAGE_SIZE - EVENT + 1, 10 * EVENT), -EFAULT);
	expect_readable(test, d, 0, 20);
}

static void read_into_protected_memory_loses_nothing(struct kunit *test)
{
	struct device_test *d = device(test);
	const unsigned long page = htw_test_user_pages(test, 1);

	user_protect(test, page, PROT_NONE);
	expire(test, d, 20);
	KUNIT_EXPECT_EQ(test, device_read(d, page, 10 * EVENT), -EFAULT);
	user_protect(test, page, PROT_READ);
	KUNIT_EXPECT_EQ(test, device_read(d, page, 10 * EVENT), -EFAULT);
	expect_readable(test, d, 0, 20);
}

static void failed_read_does_not_rearm(struct kunit *test)
{
	struct device_test *d = device(test);
	const struct htw_add add = { .interval = LATER, .cookie = 5 };
	const unsigned long page = last_page(test);
	struct htw_event event;

	KUNIT_ASSERT_NE(test, htw_test_add(d->ctx, &add), 0);
	htw_test_wait(test, d->ctx, 1);
	KUNIT_EXPECT_EQ(test, device_read(d, page + PAGE_SIZE, EVENT), -EFAULT);
	htw_test_expect_empty(test);
	KUNIT_EXPECT_EQ(test, device_read(d, page, EVENT), EVENT);
	user_read(test, &event, page, EVENT);
	KUNIT_EXPECT_EQ(test, event.cookie, 5);
	KUNIT_EXPECT_EQ(test, event.flags, HTW_EVENT_MORE);
	KUNIT_EXPECT_EQ(test, get_info(test, d).timers, 1);
	KUNIT_EXPECT_EQ(test, get_info(test, d).expired, 0);
}

/*
 * Memory that behaves as with a wrong MTE tag on arm64: faulting it in for writing succeeds, but
 * each write fails.
 */
static vm_fault_t treacherous_fault(struct vm_fault *vmf)
{
	/* Only real accesses have this flag; fault_in_iov_iter_writeable() is merely killable. */
	return vmf->flags & FAULT_FLAG_INTERRUPTIBLE ? VM_FAULT_SIGSEGV : VM_FAULT_NOPAGE;
}

static const struct vm_operations_struct treacherous_vm_ops = {
	.fault = treacherous_fault,
};

static int treacherous_mmap(struct file *file, struct vm_area_struct *vma)
{
	vma->vm_ops = &treacherous_vm_ops;
	return 0;
}

static const struct file_operations treacherous_fops = {
	.owner = THIS_MODULE,
	.mmap = treacherous_mmap,
};

static unsigned long treacherous_page(struct kunit *test)
{
	struct file *file = anon_inode_getfile("[treacherous]", &treacherous_fops, NULL, O_RDWR);
	unsigned long page;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, file);
	page = kunit_vm_mmap(test, file, 0, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
	fput(file);	/* the mapping holds a reference */
	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(page));
	return page;
}

static void read_into_treacherous_memory_ends(struct kunit *test)
{
	struct device_test *d = device(test);
	const unsigned long page = treacherous_page(test);

	KUNIT_ASSERT_EQ(test, fault_in_safe_writeable((char __user *)page, PAGE_SIZE), 0);
	htw_test_start(test, d->ctx, 0, 7);
	htw_test_wait(test, d->ctx, 1);
	KUNIT_EXPECT_EQ(test, device_read(d, page, 2 * EVENT), -EFAULT);
	KUNIT_EXPECT_EQ(test, get_info(test, d).expired, 1);
	KUNIT_EXPECT_EQ(test, device_read(d, d->to, 2 * EVENT), EVENT);
}

static void harvest_into_treacherous_memory_ends(struct kunit *test)
{
	struct device_test *d = device(test);
	struct htw_list list = { .entries = treacherous_page(test), .count = 4 };

	htw_test_start(test, d->ctx, htw_now() + LATER, 7);
	user_write(test, d->arg, &list, sizeof(list));
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_HARVEST, d->arg), -EFAULT);
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_LIST, d->arg), -EFAULT);
	KUNIT_EXPECT_EQ(test, get_info(test, d).timers, 1);
}

static void expiration_sends_sigio(struct kunit *test)
{
	struct device_test *d = device(test);

	allow_signal(SIGIO);
	KUNIT_EXPECT_EQ(test, f_setown(d->file, task_pid_nr(current), 1), 0);
	KUNIT_EXPECT_GE(test, d->file->f_op->fasync(0, d->file, 1), 0);
	KUNIT_EXPECT_FALSE(test, signal_pending(current));
	htw_test_start(test, d->ctx, 0, 1);
	for (u32 i = 0; i < 500 && !signal_pending(current); i++)
		msleep(20);
	KUNIT_EXPECT_TRUE(test, signal_pending(current));
	d->file->f_op->fasync(-1, d->file, 0);
	flush_signals(current);
	disallow_signal(SIGIO);
}

static void read_wants_room_for_an_event(struct kunit *test)
{
	struct device_test *d = device(test);

	expire(test, d, 1);
	KUNIT_EXPECT_EQ(test, device_read(d, d->to, EVENT - 1), -EINVAL);
	KUNIT_EXPECT_EQ(test, device_read(d, d->to, 1), -EINVAL);
	expect_readable(test, d, 0, 1);
}

static void read_gives_whole_events(struct kunit *test)
{
	struct device_test *d = device(test);
	u8 byte;

	user_write(test, d->to + 2 * EVENT, "\xaa", 1);
	expire(test, d, 5);
	KUNIT_EXPECT_EQ(test, device_read(d, d->to, 3 * EVENT - 1), 2 * EVENT);
	expect_events(test, d->to, 0, 2);
	user_read(test, &byte, d->to + 2 * EVENT, 1);
	KUNIT_EXPECT_EQ(test, byte, 0xaa);
	expect_readable(test, d, 2, 3);
}

static void read_of_nothing_would_block(struct kunit *test)
{
	struct device_test *d = device(test);

	htw_test_start(test, d->ctx, htw_now() + LATER, 1);
	KUNIT_EXPECT_EQ(test, device_read(d, d->to, PAGE_SIZE), -EAGAIN);
}

static void read_waits(struct kunit *test)
{
	struct device_test *d = device(test);
	const u64 deadline = htw_now() + 50 * NSEC_PER_MSEC;

	d->file->f_flags &= ~O_NONBLOCK;
	htw_test_start(test, d->ctx, deadline, 0);
	KUNIT_EXPECT_EQ(test, device_read(d, d->to, PAGE_SIZE), EVENT);
	KUNIT_EXPECT_GE(test, htw_now(), deadline);
	expect_events(test, d->to, 0, 1);
	expect_nothing(test, d);
}

static void poll_reports_queued_events(struct kunit *test)
{
	struct device_test *d = device(test);

	htw_test_start(test, d->ctx, htw_now() + LATER, 1);
	KUNIT_EXPECT_EQ(test, vfs_poll(d->file, NULL), 0);
	expire(test, d, 1);
	KUNIT_EXPECT_EQ(test, vfs_poll(d->file, NULL), EPOLLIN | EPOLLRDNORM);
	KUNIT_EXPECT_EQ(test, device_read(d, d->to, EVENT), EVENT);
	KUNIT_EXPECT_EQ(test, vfs_poll(d->file, NULL), 0);
}

/*
 * ioctl()
 */

static void every_open_is_a_context(struct kunit *test)
{
	struct inode *inode = kunit_kzalloc(test, sizeof(*inode), GFP_KERNEL);
	struct file *file = kunit_kzalloc(test, 2 * sizeof(*file), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, inode);
	KUNIT_ASSERT_NOT_NULL(test, file);
	KUNIT_ASSERT_EQ(test, htw_fops.open(inode, &file[0]), 0);
	KUNIT_ASSERT_EQ(test, htw_fops.open(inode, &file[1]), 0);
	KUNIT_EXPECT_PTR_NE(test, file[0].private_data, file[1].private_data);
	for (unsigned int i = 0; i < 2; i++) {
		struct htw_context *ctx = file[i].private_data;

		KUNIT_EXPECT_EQ(test, ctx->limit, htw_max_timers);
		KUNIT_EXPECT_TRUE(test, file[i].f_mode & FMODE_STREAM);
		KUNIT_EXPECT_EQ(test, htw_fops.release(inode, &file[i]), 0);
	}
}

static void unknown_commands_touch_nothing(struct kunit *test)
{
	struct device_test *d = device(test);
	u8 before[256], after[256];

	memset(before, 0xa5, sizeof(before));
	user_write(test, d->arg, before, sizeof(before));
	for (unsigned int nr = 0x10; nr < 0x100; nr++) {
		const unsigned int cmd = _IOC(_IOC_READ | _IOC_WRITE, HTW_IOC, nr, 56);

		KUNIT_EXPECT_EQ(test, device_ioctl(d, cmd, d->arg), -ENOTTY);
		KUNIT_EXPECT_EQ(test, device_ioctl(d, _IO(HTW_IOC, nr), 0), -ENOTTY);
	}
	/* A known number with another type, size or direction. */
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_ADD ^ (1 << _IOC_TYPESHIFT), d->arg), -ENOTTY);
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_ADD ^ (1 << _IOC_SIZESHIFT), d->arg), -ENOTTY);
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_ADD ^ (1 << _IOC_DIRSHIFT), d->arg), -ENOTTY);
	user_read(test, after, d->arg, sizeof(after));
	KUNIT_EXPECT_MEMEQ(test, before, after, sizeof(before));
	expect_nothing(test, d);
}

static void add_starts_a_timer(struct kunit *test)
{
	struct device_test *d = device(test);
	const struct htw_add add = { .deadline = 1, .cookie = 0 };
	struct htw_event event;
	struct htw_add after;

	user_write(test, d->arg, &add, sizeof(add));
	KUNIT_ASSERT_EQ(test, device_ioctl(d, HTW_ADD, d->arg), 0);
	user_read(test, &after, d->arg, sizeof(after));
	htw_test_wait(test, d->ctx, 1);
	KUNIT_ASSERT_EQ(test, device_read(d, d->arg, EVENT), EVENT);
	user_read(test, &event, d->arg, EVENT);
	KUNIT_EXPECT_EQ(test, event.id, after.id);
	KUNIT_EXPECT_NE(test, event.id, 0);
	expect_nothing(test, d);
}

/* Only the id is in memory that cannot be written. */
static void add_without_room_for_the_id(struct kunit *test)
{
	struct device_test *d = device_limited(test, 2);
	const struct htw_add add = { .deadline = LATER, .cookie = 1 };
	const unsigned long pages = htw_test_user_pages(test, 2);
	const unsigned long arg = pages + PAGE_SIZE - offsetofend(struct htw_add, id);

	user_protect(test, pages, PROT_READ);
	user_write(test, arg + sizeof(add.id), (u8 *)&add + sizeof(add.id),
		   sizeof(add) - sizeof(add.id));
	/* More calls than the limit of timers: failed ones must not count. */
	for (unsigned int i = 0; i < 5; i++)
		KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_ADD, arg), -EFAULT);
	expect_nothing(test, d);
}

static void add_that_cannot_be_read(struct kunit *test)
{
	struct device_test *d = device(test);
	const struct htw_add add = { .deadline = LATER, .cookie = 1 };
	const unsigned long page = last_page(test);
	const unsigned long arg = page + PAGE_SIZE - sizeof(add) + 1;

	user_write(test, arg, &add, sizeof(add) - 1);
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_ADD, arg), -EFAULT);
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_ADD, page + PAGE_SIZE), -EFAULT);
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_ADD, 0), -EFAULT);
	expect_nothing(test, d);
}

/* Each is valid except for one field. */
static const struct htw_add invalid_adds[] = {
	{ .deadline = LATER, .flags = HTW_F_CANCEL_ON_SET },
	{ .deadline = LATER, .flags = HTW_MOD_DEADLINE },
	{ .deadline = LATER, .flags = 1u << 31 },
	{ .deadline = LATER, .reserved = 1 },
	{ .deadline = LATER, .firings = 1 },
	{ .deadline = LATER, .interval = 1 },
	{ .deadline = LATER, .interval = NSEC_PER_MSEC - 1 },
};

static void expect_invalid_adds(struct kunit *test, struct device_test *d)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(invalid_adds); i++) {
		struct htw_add add = invalid_adds[i];

		add.id = 0xaaaaaaaaaaaaaaaa;
		user_write(test, d->arg, &add, sizeof(add));
		KUNIT_EXPECT_EQ_MSG(test, device_ioctl(d, HTW_ADD, d->arg), -EINVAL,
				    "number %u", i);
		user_read(test, &add, d->arg, sizeof(add));
		KUNIT_EXPECT_EQ(test, add.id, 0xaaaaaaaaaaaaaaaa);
	}
}

/* The first add of a context, and later ones. */
static void add_that_is_invalid(struct kunit *test)
{
	struct device_test *d = device(test);

	expect_invalid_adds(test, d);
	expect_nothing(test, d);
	htw_test_start(test, d->ctx, htw_now() + LATER, 1);
	expect_invalid_adds(test, d);
	KUNIT_EXPECT_EQ(test, get_info(test, d).timers, 1);
}

static void limit_recovers(struct kunit *test)
{
	struct device_test *d = device_limited(test, 2);
	const struct htw_add add = { .deadline = LATER };
	struct htw_cancel cancel = {};

	user_write(test, d->arg, &add, sizeof(add));
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_ADD, d->arg), 0);
	user_read(test, &cancel.id, d->arg, sizeof(cancel.id));
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_ADD, d->arg), 0);
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_ADD, d->arg), -ENOSPC);
	KUNIT_EXPECT_EQ(test, htw_test_cancel(d->ctx, &cancel), 0);
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_ADD, d->arg), 0);
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_ADD, d->arg), -ENOSPC);
	KUNIT_EXPECT_EQ(test, get_info(test, d).timers, 2);
}

/* The result cannot be written; the timer is cancelled nevertheless. */
static void cancel_without_room_for_the_answer(struct kunit *test)
{
	struct device_test *d = device(test);
	const struct htw_cancel cancel = {
		.id = htw_test_start(test, d->ctx, htw_now() + LATER, 1),
	};
	const unsigned long arg = readonly_second_page(test) - sizeof(cancel.id);

	user_write(test, arg, &cancel.id, sizeof(cancel.id));
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_CANCEL, arg), -EFAULT);
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_CANCEL, arg), -ENOENT);
	expect_nothing(test, d);
}

static void expect_refused(struct kunit *test, struct device_test *d, unsigned int cmd,
			   const void *arg, size_t size)
{
	user_write(test, d->arg, arg, size);
	KUNIT_EXPECT_EQ_MSG(test, device_ioctl(d, cmd, d->arg), -EINVAL, "command %u: %*phN",
			    _IOC_NR(cmd), (int)size, arg);
}

/* Each bit that has no meaning yet is refused, in each field, before the id is looked up. */
static void bits_without_a_meaning_are_refused(struct kunit *test)
{
	static const struct htw_cancel cancels[] = {
		{ .flags = HTW_CANCEL_DISCARD << 1 }, { .ring_tail = 1 },
		{ .reserved = { 1 } }, { .reserved = { 0, 1 } },
	};
	static const struct htw_mod mods[] = {
		{ .flags = HTW_MOD_DEADLINE | 1U << 31 }, { .flags = HTW_F_ABS },
		{ .flags = HTW_MOD_DEADLINE, .reserved = 1 },
		{ .flags = HTW_MOD_DEADLINE, .interval = 1 },
		{ .flags = HTW_MOD_DEADLINE, .slack = 1 },
		{ .flags = HTW_MOD_DEADLINE, .cookie = 1 },
		{ .flags = HTW_MOD_DEADLINE, .firings = 1 },
		{ .flags = HTW_MOD_SLACK, .reserved = 1 },
		{ .flags = HTW_MOD_SLACK, .interval = 1 }, { .flags = HTW_MOD_SLACK, .cookie = 1 },
		{ .flags = HTW_MOD_SLACK, .firings = 1 }, { .flags = HTW_MOD_SLACK, .deadline = 1 },
		{ .flags = HTW_MOD_COOKIE, .slack = 1 },
	};
	static const struct htw_query queries[] = {
		{ .deadline = 1 }, { .remaining = 1 }, { .interval = 1 }, { .cookie = 1 },
		{ .missed = 1 }, { .firings = 1 }, { .state = 1 }, { .flags = 1 },
	};
	static const struct htw_advance advances[] = {
		{ .flags = HTW_F_ABS << 1 }, { .reserved0 = 1 }, { .reserved = 1 },
	};
	struct device_test *d = device(test);

	for (unsigned int i = 0; i < ARRAY_SIZE(cancels); i++)
		expect_refused(test, d, HTW_CANCEL, &cancels[i], sizeof(cancels[i]));
	for (unsigned int i = 0; i < ARRAY_SIZE(mods); i++)
		expect_refused(test, d, HTW_MOD, &mods[i], sizeof(mods[i]));
	for (unsigned int i = 0; i < ARRAY_SIZE(queries); i++)
		expect_refused(test, d, HTW_QUERY, &queries[i], sizeof(queries[i]));
	for (unsigned int i = 0; i < ARRAY_SIZE(advances); i++)
		expect_refused(test, d, HTW_ADVANCE, &advances[i], sizeof(advances[i]));
}

static void cancel_that_cannot_be_read(struct kunit *test)
{
	struct device_test *d = device(test);
	const struct htw_cancel cancel = {
		.id = htw_test_start(test, d->ctx, htw_now() + LATER, 1),
	};
	const unsigned long arg = last_page(test) + PAGE_SIZE - sizeof(cancel) + 1;

	user_write(test, arg, &cancel, sizeof(cancel) - 1);
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_CANCEL, arg), -EFAULT);
	KUNIT_EXPECT_EQ(test, get_info(test, d).timers, 1);
}

static void info_that_cannot_be_written(struct kunit *test)
{
	struct device_test *d = device(test);
	const unsigned long end = last_page(test) + PAGE_SIZE;

	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_INFO, end), -EFAULT);
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_INFO, end - sizeof(struct htw_info) + 1),
			-EFAULT);
}

/*
 * HTW_BATCH
 */

/* Write @count operations that each start a timer. */
static void write_ops(struct kunit *test, unsigned long to, u32 count)
{
	for (u32 i = 0; i < count; i++) {
		const struct htw_op op = {
			.op = HTW_OP_ADD,
			.result = 0x55555555,
			.add = { .deadline = LATER, .cookie = i },
		};

		user_write(test, to + i * sizeof(op), &op, sizeof(op));
	}
}

static long batch(struct kunit *test, struct device_test *d, unsigned long ops, u32 count,
		  u32 *done)
{
	struct htw_batch b = { .ops = ops, .count = count, .done = 0xaaaaaaaa };
	long ret;

	user_write(test, d->arg, &b, sizeof(b));
	ret = device_ioctl(d, HTW_BATCH, d->arg);
	user_read(test, &b, d->arg, sizeof(b));
	KUNIT_EXPECT_EQ(test, b.ops, ops);
	KUNIT_EXPECT_EQ(test, b.count, count);
	*done = b.done;
	return ret;
}

static void expect_done(struct kunit *test, struct device_test *d, unsigned long ops, u32 count)
{
	u64 last = 0;

	for (u32 i = 0; i < count; i++) {
		struct htw_op op;

		user_read(test, &op, ops + i * sizeof(op), sizeof(op));
		KUNIT_EXPECT_EQ(test, op.result, 0);
		KUNIT_EXPECT_NE(test, op.add.id, 0);
		KUNIT_EXPECT_NE(test, op.add.id, last);
		KUNIT_EXPECT_EQ(test, op.add.cookie, i);
		last = op.add.id;
	}
	KUNIT_EXPECT_EQ(test, get_info(test, d).timers, count);
}

/* Whole operations before the memory ends, and bytes of one more. */
static const struct read_room batch_rooms[] = {
	{ 1, 0 }, { 1, 1 }, { 3, 63 }, { 63, 32 }, { 64, 0 }, { 64, 32 },
	{ 65, 1 }, { 100, 32 }, { 128, 0 },
};

KUNIT_ARRAY_PARAM(batch_rooms, batch_rooms, get_read_room_desc);

static void batch_ends_with_the_memory(struct kunit *test)
{
	struct device_test *d = device(test);
	const struct read_room *room = test->param_value;
	const u32 size = room->events * sizeof(struct htw_op);
	const unsigned long pages = htw_test_user_pages(test, 4);
	const unsigned long ops = pages + 3 * PAGE_SIZE - size - room->bytes;
	u32 done;

	user_unmap(test, pages + 3 * PAGE_SIZE);
	write_ops(test, ops, room->events);
	KUNIT_EXPECT_EQ(test, batch(test, d, ops, 200, &done), 0);
	KUNIT_EXPECT_EQ(test, done, room->events);
	expect_done(test, d, ops, room->events);
}

static void batch_of_unknown_fields(struct kunit *test)
{
	const struct htw_batch batches[] = {
		{ .flags = 1 }, { .reserved0 = 1 }, { .reserved = 1 },
	};
	struct device_test *d = device(test);

	for (unsigned int i = 0; i < ARRAY_SIZE(batches); i++) {
		user_write(test, d->arg, &batches[i], sizeof(batches[i]));
		KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_BATCH, d->arg), -EINVAL);
	}
}

static void batch_of_nothing_readable(struct kunit *test)
{
	struct device_test *d = device(test);
	const unsigned long page = last_page(test);
	u32 done;

	KUNIT_EXPECT_EQ(test, batch(test, d, page + PAGE_SIZE, 10, &done), -EFAULT);
	KUNIT_EXPECT_EQ(test, done, 0);
	KUNIT_EXPECT_EQ(test, batch(test, d, page + PAGE_SIZE - 63, 10, &done), -EFAULT);
	KUNIT_EXPECT_EQ(test, done, 0);
	expect_nothing(test, d);
}

static void batch_of_nothing_is_done(struct kunit *test)
{
	struct device_test *d = device(test);
	u32 done;

	KUNIT_EXPECT_EQ(test, batch(test, d, 0, 0, &done), 0);
	KUNIT_EXPECT_EQ(test, done, 0);
}

/* Results are written up to read-only memory and not beyond. */
static void batch_ends_with_what_is_writable(struct kunit *test)
{
	struct device_test *d = device(test);
	const unsigned long page = readonly_second_page(test);
	const unsigned long ops = page - 3 * sizeof(struct htw_op);
	u32 done;

	write_ops(test, ops, 3);
	KUNIT_EXPECT_EQ(test, batch(test, d, ops, 10, &done), 0);
	KUNIT_EXPECT_EQ(test, done, 3);
	/* The read-only zeroes that follow are no valid operations. */
	expect_done(test, d, ops, 3);
}

/* Memory for operations is not allocated by the count that the program names. */
static void batch_may_be_longer_than_memory(struct kunit *test)
{
	struct device_test *d = device(test);
	const unsigned long ops = last_page(test) + PAGE_SIZE - 3 * sizeof(struct htw_op);
	u32 done;

	write_ops(test, ops, 3);
	KUNIT_EXPECT_EQ(test, batch(test, d, ops, U32_MAX, &done), 0);
	KUNIT_EXPECT_EQ(test, done, 3);
	expect_done(test, d, ops, 3);
}

/* It says how much was done. */
static void signal_ends_a_batch(struct kunit *test)
{
	struct device_test *d = device(test);
	const unsigned long ops = htw_test_user_pages(test, 3);
	u32 done;

	write_ops(test, ops, 130);
	set_thread_flag(TIF_SIGPENDING);
	KUNIT_EXPECT_EQ(test, batch(test, d, ops, 130, &done), 0);
	clear_thread_flag(TIF_SIGPENDING);
	KUNIT_EXPECT_GT(test, done, 0);
	KUNIT_EXPECT_LT(test, done, 130);
	expect_done(test, d, ops, done);
}

/* No id is known there; what is not valid fails as such all the same. */
static void batch_in_a_fresh_context(struct kunit *test)
{
	static const struct {
		struct htw_op op;
		s32 result;
	} ops[] = {
		{ { .op = HTW_OP_CANCEL, .cancel = { .id = 1 } }, -ENOENT },
		{ { .op = HTW_OP_MOD, .mod = { .id = 1, .flags = HTW_MOD_DEADLINE } }, -ENOENT },
		{ { .op = HTW_OP_QUERY, .query = { .id = 1 } }, -ENOENT },
		{ { .op = HTW_OP_CANCEL, .cancel = { .id = 1, .flags = 1U << 31 } }, -EINVAL },
		{ { .op = HTW_OP_MOD, .mod = { .id = 1 } }, -EINVAL },
		{ { .op = HTW_OP_QUERY, .query = { .id = 1, .deadline = 1 } }, -EINVAL },
		{ { .op = HTW_OP_QUERY + 1 }, -EINVAL },
		{ { .op = HTW_OP_ADD, .add = { .firings = 1 } }, -EINVAL },
	};
	struct device_test *d = device(test);
	const unsigned long to = htw_test_user_pages(test, 1);
	struct htw_op op;
	u32 done;

	for (u32 i = 0; i < ARRAY_SIZE(ops); i++)
		user_write(test, to + i * sizeof(op), &ops[i].op, sizeof(op));
	KUNIT_EXPECT_EQ(test, batch(test, d, to, ARRAY_SIZE(ops), &done), 0);
	KUNIT_EXPECT_EQ(test, done, ARRAY_SIZE(ops));
	for (u32 i = 0; i < ARRAY_SIZE(ops); i++) {
		user_read(test, &op, to + i * sizeof(op), sizeof(op));
		KUNIT_EXPECT_EQ_MSG(test, op.result, ops[i].result, "number %u", i);
	}
	expect_nothing(test, d);
}

static void single_calls_in_a_fresh_context(struct kunit *test)
{
	const struct htw_cancel cancel = { .id = 1 };
	const struct htw_mod mod = { .id = 1, .flags = HTW_MOD_DEADLINE };
	const struct htw_query query = { .id = 1 };
	struct device_test *d = device(test);

	user_write(test, d->arg, &cancel, sizeof(cancel));
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_CANCEL, d->arg), -ENOENT);
	user_write(test, d->arg, &mod, sizeof(mod));
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_MOD, d->arg), -ENOENT);
	user_write(test, d->arg, &query, sizeof(query));
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_QUERY, d->arg), -ENOENT);
	expect_nothing(test, d);
}

/* What is passed is no address of a program's. */
static void batch_of_the_kernels_memory(struct kunit *test)
{
	struct device_test *d = device(test);
	u32 done = 7;

	KUNIT_EXPECT_EQ(test, batch(test, d, ULONG_MAX & PAGE_MASK, 3, &done), -EFAULT);
	KUNIT_EXPECT_EQ(test, done, 0);
	expect_nothing(test, d);
}

static void batch_without_room_for_the_count(struct kunit *test)
{
	struct device_test *d = device(test);

	/* A page of zeroes is a valid argument. */
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_BATCH, readonly_second_page(test)), -EFAULT);
	expect_nothing(test, d);
}

static void batch_goes_on_behind_what_fails(struct kunit *test)
{
	struct device_test *d = device_limited(test, 100);
	const unsigned long ops = htw_test_user_pages(test, 3);
	struct htw_op op = { .op = HTW_OP_CANCEL };
	u32 done;

	write_ops(test, ops, 130);
	/* An unknown operation, and one on an unknown id. */
	op.op = 99;
	user_write(test, ops + 7 * sizeof(op), &op, sizeof(op));
	op.op = HTW_OP_CANCEL;
	op.cancel.id = 12345;
	user_write(test, ops + 8 * sizeof(op), &op, sizeof(op));
	KUNIT_EXPECT_EQ(test, batch(test, d, ops, 130, &done), 0);
	KUNIT_EXPECT_EQ(test, done, 130);
	for (u32 i = 0; i < 130; i++) {
		const int expected = i == 7 ? -EINVAL : i == 8 ? -ENOENT : i < 102 ? 0 : -ENOSPC;

		user_read(test, &op, ops + i * sizeof(op), sizeof(op));
		KUNIT_EXPECT_EQ_MSG(test, op.result, expected, "number %u", i);
	}
	KUNIT_EXPECT_EQ(test, get_info(test, d).timers, 100);
}

/* As a single call does. */
static void batch_leaves_what_fails_alone(struct kunit *test)
{
	struct device_test *d = device(test);
	const struct htw_setup setup = {
		.flags = HTW_SETUP_RING | HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL,
		.ring_entries = 8,
	};
	const unsigned long ops = htw_test_user_pages(test, 1);
	struct htw_op op = {
		.op = HTW_OP_CANCEL,
		.cancel = { .id = 12345, .remaining = 1, .cookie = 2, .missed = 3, .ring_tail = 4 },
	};
	struct htw_op after;
	u32 done;

	KUNIT_ASSERT_EQ(test, htw_setup_context(d->ctx, &setup), 0);
	htw_reader_map_ring(d->ctx);
	for (u32 i = 0; i < 5; i++)
		htw_test_start(test, d->ctx, 1, i);
	KUNIT_ASSERT_EQ(test, htw_advance_context(d->ctx, htw_tick_ns), 5);
	user_write(test, ops, &op, sizeof(op));
	KUNIT_EXPECT_EQ(test, batch(test, d, ops, 1, &done), 0);
	user_read(test, &after, ops, sizeof(after));
	op.result = -ENOENT;
	KUNIT_EXPECT_MEMEQ(test, &after, &op, sizeof(op));
	htw_reader_unmap_ring(d->ctx);
}

/* Where memory ends, whole elements have been copied, and nothing beside the array is touched. */
static void copy_keeps_to_the_array(struct kunit *test)
{
	const u32 size = 64, before = 4, count = 4, there = 3;
	const size_t bytes = (before + count + 1) * size;
	const unsigned long end = last_page(test) + PAGE_SIZE;
	u8 *array = kunit_kzalloc(test, 2 * bytes, GFP_KERNEL);
	u8 *expected = array + bytes;

	KUNIT_ASSERT_NOT_NULL(test, array);
	memset(array, 0xaa, 2 * bytes);
	memset(expected + before * size, 0, there * size);
	KUNIT_EXPECT_EQ(test, htw_copy_in(array + before * size,
					  (void __user *)(end - there * size - size / 2), count,
					  size), there);
	KUNIT_EXPECT_MEMEQ(test, array, expected, (before + there) * size);
	KUNIT_EXPECT_MEMEQ(test, array + bytes - size, expected + bytes - size, size);

	KUNIT_EXPECT_EQ(test, htw_copy_out((void __user *)(end - there * size - size / 2),
					   array + before * size, count, size), there);
}

#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
/* A turn that waits for the base gets it after 32 operations. */
static void batch_looks_whether_a_turn_waits(struct kunit *test)
{
	struct device_test *d = device(test);
	const unsigned long ops = htw_test_user_pages(test, 1);
	struct htw_test_section_end end;
	u32 done;

	htw_test_start(test, d->ctx, htw_now() + LATER, 1);
	write_ops(test, ops, 64);
	htw_test_section_end(&end, htw_test_base(0));
	KUNIT_EXPECT_EQ(test, batch(test, d, ops, 64, &done), 0);
	tasklet_kill(&end.tasklet);
	KUNIT_EXPECT_EQ(test, done, 64);
	KUNIT_EXPECT_EQ(test, end.started, 32);
}

static void leave_many_closing(void *user)
{
	atomic_sub(1024, &((struct htw_user *)user)->closing);
}

/* A task that opens and closes all the time waits for what it has closed, but not for ever. */
static void open_fails_while_too_many_are_closing(struct kunit *test)
{
	struct htw_user *user = htw_test_user(test);
	struct file *file = kunit_kzalloc(test, sizeof(*file), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, file);
	atomic_add(1024, &user->closing);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, leave_many_closing, user), 0);
	KUNIT_EXPECT_EQ(test, htw_fops.open(NULL, file), -ENOMEM);
	kunit_release_action(test, leave_many_closing, user);
	KUNIT_ASSERT_EQ(test, htw_fops.open(NULL, file), 0);
	KUNIT_EXPECT_NOT_NULL(test, file->private_data);
	KUNIT_EXPECT_EQ(test, htw_fops.release(NULL, file), 0);
}
#endif

static struct htw_query query_of(struct kunit *test, struct device_test *d, u64 id)
{
	struct htw_query query = { .id = id };

	user_write(test, d->arg, &query, sizeof(query));
	KUNIT_ASSERT_EQ(test, device_ioctl(d, HTW_QUERY, d->arg), 0);
	user_read(test, &query, d->arg, sizeof(query));
	return query;
}

static void mod_changes_what_query_returns(struct kunit *test)
{
	struct device_test *d = device(test);
	struct htw_mod mod = {
		.id = htw_test_start(test, d->ctx, htw_now() + LATER, 1),
		.deadline = htw_now() + 2 * LATER,
		.interval = LATER,
		.firings = 3,
		.cookie = 2,
		.flags = HTW_F_ABS | HTW_MOD_DEADLINE | HTW_MOD_INTERVAL | HTW_MOD_COOKIE,
	};
	const unsigned long arg = last_page(test) + PAGE_SIZE - sizeof(mod) + 1;
	struct htw_query query;

	user_write(test, d->arg, &mod, sizeof(mod));
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_MOD, d->arg), 0);
	query = query_of(test, d, mod.id);
	KUNIT_EXPECT_EQ(test, query.deadline, mod.deadline);
	KUNIT_EXPECT_EQ(test, query.interval, mod.interval);
	KUNIT_EXPECT_EQ(test, query.firings, mod.firings);
	KUNIT_EXPECT_EQ(test, query.cookie, mod.cookie);
	KUNIT_EXPECT_EQ(test, query.state, HTW_STATE_PENDING);
	/* A request that cannot be read changes nothing. */
	mod.cookie = 3;
	user_write(test, arg, &mod, sizeof(mod) - 1);
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_MOD, arg), -EFAULT);
	KUNIT_EXPECT_EQ(test, query_of(test, d, mod.id).cookie, 2);
}

static void query_without_room_for_the_answer(struct kunit *test)
{
	struct device_test *d = device(test);
	const u64 id = htw_test_start(test, d->ctx, htw_now() + LATER, 1);
	/* The fields after the id are zero, as they must be, and cannot be written. */
	const unsigned long arg = readonly_second_page(test) - sizeof(id);

	user_write(test, arg, &id, sizeof(id));
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_QUERY, arg), -EFAULT);
	KUNIT_EXPECT_EQ(test, query_of(test, d, id).cookie, 1);
}

static void start_some(struct kunit *test, struct device_test *d, u32 count)
{
	for (u32 i = 0; i < count; i++)
		htw_test_start(test, d->ctx, htw_now() + LATER + i, i);
}

/* An array declared to hold 200 entries, of which ten and a half are mapped. */
#define ENTRIES_THERE		10

static struct htw_list list_at_the_end(struct kunit *test)
{
	const size_t room = ENTRIES_THERE * sizeof(struct htw_query) +
			    sizeof(struct htw_query) / 2;

	return (struct htw_list) {
		.entries = last_page(test) + PAGE_SIZE - room,
		.count = 200,
	};
}

static void list_ends_with_the_memory(struct kunit *test)
{
	struct device_test *d = device(test);
	struct htw_list list = list_at_the_end(test);
	struct htw_query query;

	start_some(test, d, 100);
	for (u32 written = 0; written < 100; written += ENTRIES_THERE) {
		user_write(test, d->arg, &list, sizeof(list));
		KUNIT_ASSERT_EQ(test, device_ioctl(d, HTW_LIST, d->arg), 0);
		user_read(test, &list, d->arg, sizeof(list));
		KUNIT_ASSERT_EQ(test, list.done, ENTRIES_THERE);
		for (u32 i = 0; i < ENTRIES_THERE; i++) {
			user_read(test, &query, list.entries + i * sizeof(query), sizeof(query));
			KUNIT_ASSERT_EQ(test, query.cookie, written + i);
		}
	}
	KUNIT_EXPECT_EQ(test, get_info(test, d).timers, 100);
}

/* Timers whose entries were written are taken out, the others stay armed. */
static void harvest_ends_with_the_memory(struct kunit *test)
{
	struct device_test *d = device(test);
	struct htw_list list = list_at_the_end(test);

	start_some(test, d, 100);
	user_write(test, d->arg, &list, sizeof(list));
	KUNIT_ASSERT_EQ(test, device_ioctl(d, HTW_HARVEST, d->arg), 0);
	user_read(test, &list, d->arg, sizeof(list));
	KUNIT_EXPECT_EQ(test, list.done, ENTRIES_THERE);
	KUNIT_EXPECT_EQ(test, get_info(test, d).timers, 100 - ENTRIES_THERE);
	/* No room for any entry: no timer is taken out. */
	list.entries = last_page(test) + PAGE_SIZE;
	list.cursor = 0;
	user_write(test, d->arg, &list, sizeof(list));
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_HARVEST, d->arg), -EFAULT);
	KUNIT_EXPECT_EQ(test, get_info(test, d).timers, 100 - ENTRIES_THERE);
}

static void cancel_all_counts_or_does_nothing(struct kunit *test)
{
	struct device_test *d = device(test);
	struct htw_cancel_all all = { .count = 7 };
	const unsigned long page = htw_test_user_pages(test, 1);

	start_some(test, d, 100);
	user_protect(test, page, PROT_READ);	/* valid zeroes, but no place for the count */
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_CANCEL_ALL, page), -EFAULT);
	KUNIT_EXPECT_EQ(test, get_info(test, d).timers, 100);
	user_write(test, d->arg, &all, sizeof(all));
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_CANCEL_ALL, d->arg), 0);
	user_read(test, &all, d->arg, sizeof(all));
	KUNIT_EXPECT_EQ(test, all.count, 100);
	expect_nothing(test, d);
}

/* What has been done is done, if only the ring's tail cannot be written. */
static void cancel_all_without_room_for_the_tail(struct kunit *test)
{
	struct device_test *d = device(test);
	const unsigned long pages = htw_test_user_pages(test, 2);

	start_some(test, d, 100);
	/* The tail is in a read-only page of zeroes, the count is not. */
	user_protect(test, pages, PROT_READ);
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_CANCEL_ALL,
					   pages + PAGE_SIZE -
						offsetof(struct htw_cancel_all, count)), -EFAULT);
	expect_nothing(test, d);
}

static const s32 batch_clocks[] = { CLOCK_MONOTONIC, HTW_CLOCK_MANUAL };

static void get_clock_desc(const s32 *clock, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "clock %d", *clock);
}

KUNIT_ARRAY_PARAM(batch_clocks, batch_clocks, get_clock_desc);

/* In sections together, or on the manual clock one by one. */
static void batch_answers_as_single_calls_do(struct kunit *test)
{
	const s32 clock = *(const s32 *)test->param_value;
	const struct htw_setup setup = { .flags = HTW_SETUP_CLOCK, .clock = clock };
	struct device_test *d = device(test);
	const unsigned long ops = htw_test_user_pages(test, 1);
	const struct htw_add periodic = { .interval = LATER, .cookie = 2 };
	struct htw_op op[9] = {};
	u32 done;

	KUNIT_ASSERT_EQ(test, htw_setup_context(d->ctx, &setup), 0);
	op[0] = (struct htw_op) { .op = HTW_OP_ADD, .add = { .deadline = LATER, .cookie = 10 } };
	op[1].op = HTW_OP_CANCEL;
	op[1].cancel.id = htw_test_start(test, d->ctx, htw_context_now(d->ctx) + LATER, 1);
	op[2].op = HTW_OP_CANCEL;
	op[2].cancel.id = htw_test_add(d->ctx, &periodic);
	htw_test_wait(test, d->ctx, 1);
	op[3].op = HTW_OP_QUERY;
	op[3].query.id = htw_test_start(test, d->ctx, htw_context_now(d->ctx) + 2 * LATER, 3);
	op[4] = (struct htw_op) { .op = HTW_OP_MOD, .mod = { .id = op[3].query.id, .cookie = 33,
							     .flags = HTW_MOD_COOKIE } };
	op[5] = op[3];
	op[6] = (struct htw_op) { .op = HTW_OP_CANCEL, .cancel = { .id = 12345, .cookie = 77 } };
	op[7] = (struct htw_op) { .op = HTW_OP_QUERY, .query = { .id = 12345 } };
	op[8] = (struct htw_op) { .op = HTW_OP_QUERY + 1 };
	user_write(test, ops, op, sizeof(op));
	KUNIT_EXPECT_EQ(test, batch(test, d, ops, ARRAY_SIZE(op), &done), 0);
	KUNIT_EXPECT_EQ(test, done, ARRAY_SIZE(op));
	user_read(test, op, ops, sizeof(op));

	KUNIT_EXPECT_EQ(test, op[0].result, 0);
	KUNIT_EXPECT_EQ(test, query_of(test, d, op[0].add.id).cookie, 10);
	KUNIT_EXPECT_EQ(test, op[1].result, 0);
	KUNIT_EXPECT_EQ(test, op[1].cancel.cookie, 1);
	KUNIT_EXPECT_LE(test, op[1].cancel.remaining, LATER);
	KUNIT_EXPECT_GT(test, op[1].cancel.remaining, LATER / 2);
	KUNIT_EXPECT_EQ(test, op[2].result, -EALREADY);
	KUNIT_EXPECT_EQ(test, op[2].cancel.cookie, 2);
	KUNIT_EXPECT_EQ(test, op[2].cancel.remaining, 0);
	KUNIT_EXPECT_EQ(test, op[3].result, 0);
	KUNIT_EXPECT_EQ(test, op[3].query.cookie, 3);
	KUNIT_EXPECT_EQ(test, op[3].query.state, HTW_STATE_PENDING);
	KUNIT_EXPECT_GT(test, op[3].query.remaining, LATER);
	KUNIT_EXPECT_EQ(test, op[4].result, 0);
	KUNIT_EXPECT_EQ(test, op[5].result, 0);
	KUNIT_EXPECT_EQ(test, op[5].query.cookie, 33);
	KUNIT_EXPECT_EQ(test, op[6].result, -ENOENT);
	KUNIT_EXPECT_EQ(test, op[6].cancel.cookie, 77);
	KUNIT_EXPECT_EQ(test, op[7].result, -ENOENT);
	KUNIT_EXPECT_EQ(test, op[7].query.state, 0);
	KUNIT_EXPECT_EQ(test, op[8].result, -EINVAL);
	/* What was added and what was queried; the event that was cancelled can be read. */
	KUNIT_EXPECT_EQ(test, get_info(test, d).timers, 3);
	KUNIT_EXPECT_EQ(test, get_info(test, d).expired, 1);
}

/* A manual clock moves only if the result can be written, and never back. */
static void advance_moves_the_clock_or_does_nothing(struct kunit *test)
{
	struct device_test *d = device(test);
	struct htw_setup setup = { .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL };
	struct htw_advance advance = { .ns = LATER };
	const unsigned long page = htw_test_user_pages(test, 1);

	/* Not with any other clock. */
	user_write(test, d->arg, &advance, sizeof(advance));
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_ADVANCE, d->arg), -EINVAL);
	user_write(test, d->arg, &setup, sizeof(setup));
	KUNIT_ASSERT_EQ(test, device_ioctl(d, HTW_SETUP, d->arg), 0);
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_SETUP, d->arg), -EBUSY);
	KUNIT_EXPECT_EQ(test, get_info(test, d).clock, HTW_CLOCK_MANUAL);
	for (u32 i = 0; i < 10; i++)
		htw_test_start(test, d->ctx, LATER, i);
	user_protect(test, page, PROT_READ);	/* zeroes are valid: advance by nothing */
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_ADVANCE, page), -EFAULT);
	KUNIT_EXPECT_EQ(test, htw_context_now(d->ctx), 0);
	user_write(test, d->arg, &advance, sizeof(advance));
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_ADVANCE, d->arg), 0);
	user_read(test, &advance, d->arg, sizeof(advance));
	KUNIT_EXPECT_EQ(test, advance.expired, 10);
	KUNIT_EXPECT_EQ(test, htw_context_now(d->ctx), LATER);
	advance = (struct htw_advance) { .ns = LATER - 1, .flags = HTW_F_ABS };
	user_write(test, d->arg, &advance, sizeof(advance));
	KUNIT_EXPECT_EQ(test, device_ioctl(d, HTW_ADVANCE, d->arg), -EINVAL);
	KUNIT_EXPECT_EQ(test, get_info(test, d).expired, 10);
}

/* Each is valid except for one field, for which @error is returned. */
static const struct {
	int error;
	struct htw_setup setup;
} invalid_setups[] = {
	{ -EINVAL, { .flags = 1u << 31 } },
	{ -ERANGE, { .flags = HTW_SETUP_RING } },
	{ -EINVAL, { .flags = HTW_SETUP_RING, .ring_entries = 3 } },
	{ -ERANGE, { .flags = HTW_SETUP_RING, .ring_entries = BIT(21) } },
	{ -EINVAL, { .ring_entries = 4 } },
	{ -EINVAL, { .clock = CLOCK_BOOTTIME } },
	{ -EOPNOTSUPP, { .flags = HTW_SETUP_CLOCK, .clock = CLOCK_TAI } },
	{ -EOPNOTSUPP, { .flags = HTW_SETUP_CLOCK, .clock = CLOCK_REALTIME_ALARM } },
	{ -EOPNOTSUPP, { .flags = HTW_SETUP_CLOCK, .clock = -1 } },
	{ -EINVAL, { .limit = 1 } },
	{ -ERANGE, { .flags = HTW_SETUP_LIMIT } },
	{ -ERANGE, { .flags = HTW_SETUP_LIMIT, .limit = U64_MAX } },
	{ -EINVAL, { .home_cpu = 1 } },
	{ -EINVAL, { .flags = HTW_SETUP_HOME, .home_cpu = -1 } },
	{ -EINVAL, { .flags = HTW_SETUP_HOME, .home_cpu = INT_MAX } },
	{ -EINVAL, { .flags = HTW_SETUP_HOME | HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL } },
	{ -EINVAL, { .flags = HTW_SETUP_HOME | HTW_SETUP_PRIVATE, .tick_ns = NSEC_PER_MSEC,
		     .levels = 1, .slots = { 60 } } },
	{ -EINVAL, { .tick_ns = NSEC_PER_MSEC } },
	{ -EINVAL, { .levels = 1 } },
	{ -EINVAL, { .slots = { 60 } } },
	{ -ERANGE, { .flags = HTW_SETUP_PRIVATE, .levels = 1, .slots = { 60 } } },
	{ -ERANGE, { .flags = HTW_SETUP_PRIVATE, .tick_ns = 9999, .levels = 1, .slots = { 60 } } },
	{ -ERANGE, { .flags = HTW_SETUP_PRIVATE, .tick_ns = NSEC_PER_SEC + 1, .levels = 1,
		     .slots = { 60 } } },
	{ -ERANGE, { .flags = HTW_SETUP_PRIVATE, .tick_ns = NSEC_PER_MSEC } },
	{ -ERANGE, { .flags = HTW_SETUP_PRIVATE, .tick_ns = NSEC_PER_MSEC, .levels = 1,
		     .slots = { 1 } } },
	{ -ERANGE, { .flags = HTW_SETUP_PRIVATE, .tick_ns = NSEC_PER_MSEC, .levels = 1,
		     .slots = { 2049 } } },
	{ -ERANGE, { .flags = HTW_SETUP_PRIVATE, .tick_ns = NSEC_PER_MSEC, .levels = 6,
		     .slots = { 2048, 2048, 2048, 2048, 2048, 2048 } } },
	{ -EINVAL, { .flags = HTW_SETUP_PRIVATE, .tick_ns = NSEC_PER_MSEC, .levels = 1,
		     .slots = { 60, 60 } } },
	{ -ERANGE, { .flags = HTW_SETUP_PRIVATE, .tick_ns = NSEC_PER_MSEC,
		     .levels = HTW_MAX_LEVELS + 1, .slots = { 2, 2, 2, 2, 2, 2, 2, 2 } } },
	{ -EINVAL, { .flags = HTW_SETUP_CLOCK, .reserved0 = 1 } },
	{ -EINVAL, { .flags = HTW_SETUP_CLOCK, .reserved = { 0, 0, 1 } } },
};

static void setup_that_is_invalid(struct kunit *test)
{
	struct device_test *d = device(test);
	const struct htw_info before = get_info(test, d);
	struct htw_info after;

	for (unsigned int i = 0; i < ARRAY_SIZE(invalid_setups); i++) {
		user_write(test, d->arg, &invalid_setups[i].setup, sizeof(struct htw_setup));
		KUNIT_EXPECT_EQ_MSG(test, device_ioctl(d, HTW_SETUP, d->arg),
				    invalid_setups[i].error, "number %u", i);
	}
	after = get_info(test, d);
	KUNIT_EXPECT_MEMEQ(test, &before, &after, sizeof(after));
}

/*
 * mmap()
 */

/* Map the file; returns an error or the address. */
static long map(struct kunit *test, struct device_test *d, size_t size, u64 offset,
		unsigned long flags)
{
	return kunit_vm_mmap(test, d->file, 0, size, PROT_READ | PROT_WRITE, flags, offset);
}

static void ring_is_mapped_as_a_whole(struct kunit *test)
{
	const struct htw_setup setup = { .flags = HTW_SETUP_RING, .ring_entries = 1024 };
	struct device_test *d = device(test);
	struct htw_ring ring;
	DECLARE_BITMAP(seen, 1024) = {};
	struct vm_area_struct *vma;
	struct htw_event event;
	vm_fault_t fault = 0;
	long addr;
	size_t size;

	KUNIT_EXPECT_EQ(test, map(test, d, PAGE_SIZE, HTW_OFF_RING, MAP_SHARED), -ENXIO);
	KUNIT_ASSERT_EQ(test, htw_setup_context(d->ctx, &setup), 0);
	size = htw_ring_size(d->ctx->ring);
	KUNIT_EXPECT_GE(test, size, sizeof(ring) + 1024 * EVENT);
	KUNIT_EXPECT_EQ(test, map(test, d, size - PAGE_SIZE, HTW_OFF_RING, MAP_SHARED), -EINVAL);
	KUNIT_EXPECT_EQ(test, map(test, d, size + PAGE_SIZE, HTW_OFF_RING, MAP_SHARED), -EINVAL);
	KUNIT_EXPECT_EQ(test, map(test, d, size, HTW_OFF_RING, MAP_PRIVATE), -EINVAL);
	KUNIT_EXPECT_EQ(test, map(test, d, size, HTW_OFF_RING + PAGE_SIZE, MAP_SHARED), -EINVAL);
	KUNIT_EXPECT_EQ(test, d->ctx->ring->maps, 0);

	addr = map(test, d, size, HTW_OFF_RING, MAP_SHARED);
	KUNIT_ASSERT_GT(test, addr, 0);
	KUNIT_EXPECT_EQ(test, d->ctx->ring->maps, 1);
	KUNIT_EXPECT_EQ(test, device_read(d, d->to, PAGE_SIZE), -EBUSY);
	user_read(test, &ring, addr, sizeof(ring));
	KUNIT_EXPECT_EQ(test, ring.entries, 1024);
	for (u32 i = 0; i < 1024; i++)
		htw_test_start(test, d->ctx, 0, i);
	for (u32 i = 0; i < 1000; i++) {
		user_read(test, &ring, addr, sizeof(ring));
		if (ring.tail == 1024)
			break;
		msleep(20);
	}
	KUNIT_EXPECT_EQ(test, ring.tail, 1024);
	KUNIT_EXPECT_EQ(test, ring.entries, 1024);
	/* In any order: the thread may have started them on several CPUs. */
	for (u32 i = 0; i < 1024; i++) {
		user_read(test, &event, addr + sizeof(ring) + i * EVENT, EVENT);
		KUNIT_ASSERT_LT(test, event.cookie, 1024);
		KUNIT_ASSERT_FALSE(test, __test_and_set_bit(event.cookie, seen));
	}
	/* There is nothing behind it, whoever asks. */
	mmap_read_lock(current->mm);
	vma = find_vma(current->mm, addr);
	if (vma) {
		struct vm_fault vmf = {
			.vma = vma, .pgoff = vma->vm_pgoff + size / PAGE_SIZE,
		};

		fault = vma->vm_ops->fault(&vmf);
	}
	mmap_read_unlock(current->mm);
	KUNIT_EXPECT_EQ(test, fault, VM_FAULT_SIGBUS);
	/* The program's stores are the kernel's memory. */
	ring.head = 1000;
	user_write(test, addr + offsetof(struct htw_ring, head), &ring.head, sizeof(ring.head));
	KUNIT_EXPECT_EQ(test, READ_ONCE(d->ctx->ring->header->head), 1000);
	KUNIT_ASSERT_EQ(test, vm_munmap(addr, size), 0);
	KUNIT_EXPECT_EQ(test, d->ctx->ring->maps, 0);
	KUNIT_EXPECT_EQ(test, device_read(d, d->to, PAGE_SIZE), -EAGAIN);
}

static void table_is_mapped_as_far_as_it_goes(struct kunit *test)
{
	struct device_test *d = device(test);
	const size_t size = htw_table_size(d->ctx);
	const u64 later = htw_now() + LATER;
	u64 id, soon, override = 1;
	long addr;

	KUNIT_EXPECT_EQ(test, map(test, d, size + PAGE_SIZE, HTW_OFF_TABLE, MAP_SHARED), -EINVAL);
	KUNIT_EXPECT_EQ(test, map(test, d, size, HTW_OFF_TABLE, MAP_PRIVATE), -EINVAL);
	KUNIT_EXPECT_EQ(test, map(test, d, size, HTW_OFF_TABLE + PAGE_SIZE, MAP_SHARED), -EINVAL);
	KUNIT_EXPECT_FALSE(test, d->ctx->table);
	addr = map(test, d, size, HTW_OFF_TABLE, MAP_SHARED);
	KUNIT_ASSERT_GT(test, addr, 0);
	KUNIT_EXPECT_TRUE(test, d->ctx->table);
	/* There are no timers yet, so there is no memory. */
	KUNIT_EXPECT_EQ(test, copy_from_user(&override, (void __user *)addr, sizeof(override)),
			sizeof(override));

	/* Until the store is in time. */
	do {
		soon = htw_now() + 50 * NSEC_PER_MSEC;
		id = htw_test_start(test, d->ctx, soon, 1);
		user_read(test, &override, addr + HTW_ID_SLOT(id) * sizeof(u64), sizeof(override));
		KUNIT_EXPECT_EQ(test, override, 0);
		user_write(test, addr + HTW_ID_SLOT(id) * sizeof(u64), &later, sizeof(later));
	} while (htw_now() >= soon);
	msleep(100);
	KUNIT_EXPECT_EQ(test, query_of(test, d, id).state, HTW_STATE_PENDING);
	KUNIT_EXPECT_EQ(test, query_of(test, d, id).deadline, later);
	/* A part of it can be mapped as well. */
	addr = map(test, d, PAGE_SIZE, HTW_OFF_TABLE, MAP_SHARED);
	KUNIT_ASSERT_GT(test, addr, 0);
	user_read(test, &override, addr + HTW_ID_SLOT(id) * sizeof(u64), sizeof(override));
	KUNIT_EXPECT_EQ(test, override, later);
}

static struct kunit_case htw_device_cases[] = {
	KUNIT_CASE(read_faults_memory_in),
	KUNIT_CASE(read_faults_in_what_an_event_straddles),
	KUNIT_CASE_PARAM(read_ends_with_the_memory, read_rooms_gen_params),
	KUNIT_CASE(read_ends_with_what_is_writable),
	KUNIT_CASE(read_into_nothing_loses_nothing),
	KUNIT_CASE(read_into_protected_memory_loses_nothing),
	KUNIT_CASE(failed_read_does_not_rearm),
	KUNIT_CASE(read_into_treacherous_memory_ends),
	KUNIT_CASE(harvest_into_treacherous_memory_ends),
	KUNIT_CASE(expiration_sends_sigio),
	KUNIT_CASE(read_wants_room_for_an_event),
	KUNIT_CASE(read_gives_whole_events),
	KUNIT_CASE(read_of_nothing_would_block),
	KUNIT_CASE(read_waits),
	KUNIT_CASE(poll_reports_queued_events),
	KUNIT_CASE(every_open_is_a_context),
	KUNIT_CASE(unknown_commands_touch_nothing),
	KUNIT_CASE(add_starts_a_timer),
	KUNIT_CASE(add_without_room_for_the_id),
	KUNIT_CASE(add_that_cannot_be_read),
	KUNIT_CASE(add_that_is_invalid),
	KUNIT_CASE(limit_recovers),
	KUNIT_CASE(cancel_without_room_for_the_answer),
	KUNIT_CASE(bits_without_a_meaning_are_refused),
	KUNIT_CASE(cancel_that_cannot_be_read),
	KUNIT_CASE(info_that_cannot_be_written),
	KUNIT_CASE_PARAM(batch_ends_with_the_memory, batch_rooms_gen_params),
	KUNIT_CASE(batch_of_unknown_fields),
	KUNIT_CASE(batch_of_nothing_readable),
	KUNIT_CASE(batch_of_nothing_is_done),
	KUNIT_CASE(batch_ends_with_what_is_writable),
	KUNIT_CASE(batch_may_be_longer_than_memory),
	KUNIT_CASE(signal_ends_a_batch),
	KUNIT_CASE(batch_in_a_fresh_context),
	KUNIT_CASE(single_calls_in_a_fresh_context),
	KUNIT_CASE(batch_of_the_kernels_memory),
	KUNIT_CASE(batch_without_room_for_the_count),
	KUNIT_CASE(batch_goes_on_behind_what_fails),
	KUNIT_CASE(batch_leaves_what_fails_alone),
	KUNIT_CASE(copy_keeps_to_the_array),
#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
	KUNIT_CASE(batch_looks_whether_a_turn_waits),
	KUNIT_CASE(open_fails_while_too_many_are_closing),
#endif
	KUNIT_CASE(mod_changes_what_query_returns),
	KUNIT_CASE(query_without_room_for_the_answer),
	KUNIT_CASE(list_ends_with_the_memory),
	KUNIT_CASE(harvest_ends_with_the_memory),
	KUNIT_CASE(cancel_all_counts_or_does_nothing),
	KUNIT_CASE(cancel_all_without_room_for_the_tail),
	KUNIT_CASE_PARAM(batch_answers_as_single_calls_do, batch_clocks_gen_params),
	KUNIT_CASE(advance_moves_the_clock_or_does_nothing),
	KUNIT_CASE(ring_is_mapped_as_a_whole),
	KUNIT_CASE(table_is_mapped_as_far_as_it_goes),
	KUNIT_CASE(setup_that_is_invalid),
	{}
};

static struct kunit_suite htw_device_suite = {
	.name = "htw_device",
	.init = htw_test_init,
	.test_cases = htw_device_cases,
};

kunit_test_suite(htw_device_suite);

MODULE_DESCRIPTION("KUnit: the device and the program's memory");
MODULE_LICENSE("GPL");
