// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: how the device accesses a program's memory
 *
 * Memory is present, not faulted in, not mapped, or not writable; often several of these
 * within one argument. A call that fails must leave everything unchanged.
 */
#include <kunit/test.h>
#include <linux/pagemap.h>

#include "../core/copied.h"
#include "compat_tests.h"
#include "htw_kunit.h"

#define EVENT			sizeof(struct htw_event)

/* Map a writable page followed by a read-only page of zeroes. Return: the second. */
static unsigned long readonly_second_page(struct kunit *test)
{
	const unsigned long page = htw_test_user_pages(test, 2);

	htw_test_protect(test, page + PAGE_SIZE, PROT_READ);
	return page + PAGE_SIZE;
}

/* Have @count timers due, with the cookies 0, 1, ... */
static void have_due(struct htw_test_file *f, u32 count)
{
	migrate_disable();
	for (u32 i = 0; i < count; i++)
		htw_test_start(f, 0, i);
	migrate_enable();
}

/* Expect @count events at @from, in order, the first with cookie @first. */
static void expect_events(struct kunit *test, unsigned long from, u32 first, u32 count)
{
	for (u32 i = 0; i < count; i++) {
		struct htw_event event;

		htw_test_read(test, &event, from + i * EVENT, EVENT);
		KUNIT_EXPECT_EQ(test, event.cookie, first + i);
		KUNIT_EXPECT_NE(test, event.id, 0);
		KUNIT_EXPECT_EQ(test, event.flags, 0);
		KUNIT_EXPECT_EQ(test, event.reserved, 0);
	}
}

/* Expect that @count more events can be read, the first with cookie @first. */
static void expect_readable(struct htw_test_file *f, u32 first, u32 count)
{
	KUNIT_EXPECT_EQ(f->test, htw_test_info(f).timers, count);
	KUNIT_EXPECT_TRUE(f->test, htw_test_is_readable(f));
	KUNIT_ASSERT_EQ(f->test, htw_test_vfs_read(f, f->to, HTW_TEST_PAGES * PAGE_SIZE),
			count * EVENT);
	expect_events(f->test, f->to, first, count);
	htw_test_expect_nothing(f);
}

/*
 * read()
 */

static void read_faults_memory_in(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	const u32 count = 3 * PAGE_SIZE / EVENT;
	const unsigned long to = htw_test_user_pages(test, 3);

	have_due(f, count);
	KUNIT_ASSERT_EQ(test, htw_test_vfs_read(f, to, 3 * PAGE_SIZE), count * EVENT);
	expect_events(test, to, 0, count);
	htw_test_expect_nothing(f);
}

static void read_faults_in_what_an_event_straddles(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	const unsigned long page = htw_test_user_pages(test, 2);
	const unsigned long to = page + PAGE_SIZE - EVENT / 2;

	htw_test_write(test, page, "there", 5);
	have_due(f, 1);
	KUNIT_ASSERT_EQ(test, htw_test_vfs_read(f, to, EVENT), EVENT);
	expect_events(test, to, 0, 1);
	htw_test_expect_nothing(f);
}

/* Whole events that fit before the memory ends, and bytes of one more. */
struct read_room {
	u32 events;
	u32 bytes;
};

static const struct read_room read_rooms[] = {
	{ 1, 0 }, { 1, 1 }, { 2, EVENT / 2 }, { 3, EVENT - 1 }, { 15, 8 },
	{ 31, EVENT - 1 }, { 32, 0 }, { 32, 8 }, { 33, 8 }, { 64, 0 }, { 80, EVENT - 8 },
};

static void get_read_room_desc(const struct read_room *room, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%u events and %u bytes", room->events, room->bytes);
}

KUNIT_ARRAY_PARAM(read_rooms, read_rooms, get_read_room_desc);

static void read_ends_with_the_memory(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	const struct read_room *room = test->param_value;
	const unsigned long to = htw_test_pages_end(test, 1) - room->events * EVENT - room->bytes;

	have_due(f, 100);
	KUNIT_ASSERT_EQ(test, htw_test_vfs_read(f, to, 100 * EVENT), room->events * EVENT);
	expect_events(test, to, 0, room->events);
	expect_readable(f, room->events, 100 - room->events);
}

static void read_ends_with_what_is_writable(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	const unsigned long to = readonly_second_page(test) - 5 * EVENT / 2;

	have_due(f, 10);
	KUNIT_ASSERT_EQ(test, htw_test_vfs_read(f, to, 10 * EVENT), 2 * EVENT);
	expect_events(test, to, 0, 2);
	expect_readable(f, 2, 8);
}

static void read_into_nothing_loses_nothing(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	const unsigned long end = htw_test_pages_end(test, 1);

	have_due(f, 20);
	KUNIT_EXPECT_EQ(test, htw_test_vfs_read(f, end, 10 * EVENT), -EFAULT);
	KUNIT_EXPECT_EQ(test, htw_test_vfs_read(f, end - EVENT + 1, 10 * EVENT), -EFAULT);
	expect_readable(f, 0, 20);
}

static void read_into_protected_memory_loses_nothing(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	const unsigned long page = htw_test_user_pages(test, 1);

	htw_test_protect(test, page, PROT_NONE);
	have_due(f, 20);
	KUNIT_EXPECT_EQ(test, htw_test_vfs_read(f, page, 10 * EVENT), -EFAULT);
	htw_test_protect(test, page, PROT_READ);
	KUNIT_EXPECT_EQ(test, htw_test_vfs_read(f, page, 10 * EVENT), -EFAULT);
	expect_readable(f, 0, 20);
}

/* An event that could not be copied has not been taken: of a periodic timer it stays the first. */
static void failed_read_does_not_go_on(struct kunit *test)
{
	const struct htw_add_args add = { .interval = HTW_TEST_LATER, .firings = 2, .cookie = 5 };
	struct htw_test_file *f = htw_test_open(test);
	const unsigned long end = htw_test_pages_end(test, 1);
	const u64 id = htw_test_add(f, &add);
	struct htw_event event;

	KUNIT_EXPECT_EQ(test, htw_test_vfs_read(f, end, EVENT), -EFAULT);
	KUNIT_EXPECT_EQ(test, htw_test_info_of(f, id).state, HTW_STATE_DUE);
	KUNIT_EXPECT_EQ(test, htw_test_info_of(f, id).firings, 2);
	KUNIT_ASSERT_EQ(test, htw_test_take(f, &event, 1), 1);
	KUNIT_EXPECT_EQ(test, event.id, id);
	KUNIT_EXPECT_EQ(test, event.cookie, 5);
	KUNIT_EXPECT_EQ(test, event.flags, HTW_EVENT_MORE);
	KUNIT_EXPECT_EQ(test, htw_test_info_of(f, id).state, HTW_STATE_PENDING);
	KUNIT_EXPECT_EQ(test, htw_test_info_of(f, id).firings, 1);
}

/*
 * Memory that behaves as with a wrong MTE tag on arm64: faulting it in for writing
 * succeeds, but each write fails.
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

static void read_into_treacherous_memory_ends(struct kunit *test)
{
	struct file *file = anon_inode_getfile("[treacherous]", &treacherous_fops, NULL, O_RDWR);
	struct htw_test_file *f = htw_test_open(test);
	unsigned long page;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, file);
	page = kunit_vm_mmap(test, file, 0, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
	fput(file);	/* the mapping holds a reference */
	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(page));

	KUNIT_ASSERT_EQ(test, fault_in_safe_writeable((char __user *)page, PAGE_SIZE), 0);
	have_due(f, 1);
	KUNIT_EXPECT_EQ(test, htw_test_vfs_read(f, page, 2 * EVENT), -EFAULT);
	expect_readable(f, 0, 1);
}

static void read_wants_room_for_an_event(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);

	have_due(f, 1);
	KUNIT_EXPECT_EQ(test, htw_test_vfs_read(f, f->to, EVENT - 1), -EINVAL);
	KUNIT_EXPECT_EQ(test, htw_test_vfs_read(f, f->to, 1), -EINVAL);
	expect_readable(f, 0, 1);
}

static void read_gives_whole_events(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	const size_t sizes[] = { EVENT, 2 * EVENT - 1, 3 * EVENT - 1 };
	u32 first = 0;

	have_due(f, 9);
	for (u32 i = 0; i < ARRAY_SIZE(sizes); i++) {
		const u32 n = sizes[i] / EVENT;

		KUNIT_EXPECT_EQ(test, htw_test_vfs_read(f, f->to, sizes[i]), n * EVENT);
		expect_events(test, f->to, first, n);
		first += n;
	}
	expect_readable(f, first, 9 - first);
}

/* readv() of pieces in which an event begins and ends elsewhere. */
static void read_scatters(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	const size_t first = 3 * EVENT / 2, second = 5 * EVENT / 2;
	struct iovec pieces[] = {
		{ .iov_base = (void __user *)f->to, .iov_len = first },
		{ .iov_base = (void __user *)(f->to + first), .iov_len = second },
	};
	struct kiocb iocb;
	struct iov_iter to;

	have_due(f, 10);
	init_sync_kiocb(&iocb, f->file);
	iov_iter_init(&to, ITER_DEST, pieces, 2, first + second);
	KUNIT_EXPECT_EQ(test, f->file->f_op->read_iter(&iocb, &to), 4 * EVENT);
	expect_events(test, f->to, 0, 4);
	expect_readable(f, 4, 6);
}

static void read_of_nothing_would_block(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);

	KUNIT_EXPECT_EQ(test, htw_test_vfs_read(f, f->to, PAGE_SIZE), -EAGAIN);
	htw_test_start(f, htw_now() + HTW_TEST_LATER, 1);
	KUNIT_EXPECT_EQ(test, htw_test_vfs_read(f, f->to, PAGE_SIZE), -EAGAIN);
}

static void read_waits(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open_flags(test, O_RDWR);
	const u64 deadline = htw_now() + 50 * NSEC_PER_MSEC;

	htw_test_start(f, deadline, 0);
	KUNIT_EXPECT_EQ(test, htw_test_vfs_read(f, f->to, PAGE_SIZE), EVENT);
	KUNIT_EXPECT_GE(test, htw_now(), deadline);
	expect_events(test, f->to, 0, 1);
}

/* A signal ends a read that waits, and none that has found events; a fatal one takes nothing. */
static void signal_ends_a_read(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open_flags(test, O_RDWR);
	ssize_t ret[3];

	set_thread_flag(TIF_SIGPENDING);
	ret[0] = htw_test_vfs_read(f, f->to, PAGE_SIZE);
	clear_thread_flag(TIF_SIGPENDING);
	KUNIT_EXPECT_EQ(test, ret[0], -ERESTARTSYS);

	have_due(f, 70);
	set_thread_flag(TIF_SIGPENDING);
	ret[1] = htw_test_vfs_read(f, f->to, 50 * EVENT);
	clear_thread_flag(TIF_SIGPENDING);
	KUNIT_EXPECT_EQ(test, ret[1], 50 * EVENT);
	expect_events(test, f->to, 0, 50);

	htw_test_be_killed();
	ret[2] = htw_test_vfs_read(f, f->to, PAGE_SIZE);
	htw_test_spare();
	KUNIT_EXPECT_EQ(test, ret[2], -EINTR);
	f->file->f_flags |= O_NONBLOCK;
	expect_readable(f, 50, 20);
}

static void poll_reports_what_is_due(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);

	KUNIT_EXPECT_EQ(test, vfs_poll(f->file, NULL), 0);
	htw_test_start(f, htw_now() + HTW_TEST_LATER, 1);
	KUNIT_EXPECT_EQ(test, vfs_poll(f->file, NULL), 0);
	have_due(f, 1);
	KUNIT_EXPECT_EQ(test, vfs_poll(f->file, NULL), EPOLLIN | EPOLLRDNORM);
	/* It takes nothing. */
	KUNIT_EXPECT_EQ(test, vfs_poll(f->file, NULL), EPOLLIN | EPOLLRDNORM);
	KUNIT_EXPECT_EQ(test, htw_test_vfs_read(f, f->to, EVENT), EVENT);
	KUNIT_EXPECT_EQ(test, vfs_poll(f->file, NULL), 0);
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
		KUNIT_EXPECT_TRUE(test, file[i].f_mode & FMODE_STREAM);
		KUNIT_EXPECT_EQ(test, htw_fops.release(inode, &file[i]), 0);
	}
}

static void unknown_commands_touch_nothing(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	u8 before[256], after[256];

	memset(before, 0xa5, sizeof(before));
	htw_test_write(test, f->arg, before, sizeof(before));
	for (unsigned int nr = _IOC_NR(HTW_ADVANCE) + 1; nr < 0x100; nr++) {
		const unsigned int cmd = _IOC(_IOC_READ | _IOC_WRITE, HTW_IOC, nr, 56);

		KUNIT_EXPECT_EQ(test, htw_test_ioctl(f, cmd, f->arg), -ENOTTY);
		KUNIT_EXPECT_EQ(test, htw_test_ioctl(f, _IO(HTW_IOC, nr), 0), -ENOTTY);
	}
	/* A known number with another type, a smaller size, or another direction. */
	KUNIT_EXPECT_EQ(test, htw_test_ioctl(f, HTW_ADD ^ (1 << _IOC_TYPESHIFT), f->arg), -ENOTTY);
	KUNIT_EXPECT_EQ(test, htw_test_ioctl(f, HTW_ADD - (8 << _IOC_SIZESHIFT), f->arg), -ENOTTY);
	KUNIT_EXPECT_EQ(test, htw_test_ioctl(f, HTW_ADD ^ (1 << _IOC_DIRSHIFT), f->arg), -ENOTTY);
	htw_test_read(test, after, f->arg, sizeof(after));
	KUNIT_EXPECT_MEMEQ(test, before, after, sizeof(before));
	htw_test_expect_nothing(f);
}

/* A command with a structure that is 8 bytes larger. */
#define LARGER(cmd)		((cmd) + (8u << _IOC_SIZESHIFT))

/* What a newer program has behind the structure must be zero, and becomes so. */
static void commands_may_be_larger(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	struct {
		struct htw_add_args add;
		u64 more;
	} larger = { .add = { .deadline = HTW_TEST_LATER, .cookie = 7 }, .more = 1 };
	struct {
		struct htw_info_args info;
		u64 more;
	} info = { .more = 1 };
	const unsigned long end = htw_test_pages_end(test, 1);

	htw_test_write(test, f->arg, &larger, sizeof(larger));
	KUNIT_EXPECT_EQ(test, htw_test_ioctl(f, LARGER(HTW_ADD), f->arg), -E2BIG);
	KUNIT_EXPECT_EQ(test, htw_test_info(f).timers, 0);

	larger.more = 0;
	htw_test_write(test, f->arg, &larger, sizeof(larger));
	KUNIT_EXPECT_EQ(test, htw_test_ioctl(f, LARGER(HTW_ADD), f->arg), 0);
	htw_test_read(test, &larger, f->arg, sizeof(larger));
	KUNIT_EXPECT_EQ(test, htw_test_info_of(f, larger.add.id).cookie, 7);

	htw_test_write(test, f->arg, &info, sizeof(info));
	KUNIT_EXPECT_EQ(test, htw_test_ioctl(f, LARGER(HTW_INFO), f->arg), 0);
	htw_test_read(test, &info, f->arg, sizeof(info));
	KUNIT_EXPECT_EQ(test, info.info.timers, 1);
	KUNIT_EXPECT_EQ(test, info.more, 0);

	/* Where that is not mapped, the call does nothing. */
	htw_test_write(test, end - sizeof(larger.add), &larger.add, sizeof(larger.add));
	KUNIT_EXPECT_EQ(test, htw_test_ioctl(f, LARGER(HTW_ADD), end - sizeof(larger.add)),
			-EFAULT);
	KUNIT_EXPECT_EQ(test, htw_test_ioctl(f, LARGER(HTW_INFO), end - sizeof(info.info)),
			-EFAULT);
	KUNIT_EXPECT_EQ(test, htw_test_info(f).timers, 1);
}

/* What changes something needs a descriptor for writing, what reports one for reading. */
static void access_modes_are_checked(struct kunit *test)
{
	static const struct {
		unsigned int cmd;
		bool writes;
	} commands[] = {
		{ HTW_SETUP, true }, { HTW_INFO, false }, { HTW_ADD, true }, { HTW_CANCEL, true },
		{ HTW_MOD, true }, { HTW_QUERY, false }, { HTW_VECTOR, true },
		{ HTW_CANCEL_ALL, true }, { HTW_LIST, false }, { HTW_HARVEST, true },
		{ HTW_ADVANCE, true },
	};

	for (u32 i = 0; i < ARRAY_SIZE(commands); i++) {
		const int other = commands[i].writes ? O_RDONLY : O_WRONLY;
		struct htw_test_file *f = htw_test_open_flags(test, other | O_NONBLOCK);

		/* Zeroes, which several of them would take. */
		KUNIT_EXPECT_EQ_MSG(test, htw_test_ioctl(f, commands[i].cmd, f->arg), -EBADF,
				    "number %u", i);
		KUNIT_EXPECT_EQ_MSG(test, htw_test_ioctl(f, LARGER(commands[i].cmd), f->arg),
				    -EBADF, "number %u", i);
		f = htw_test_open_flags(test, (commands[i].writes ? O_WRONLY : O_RDONLY) |
					O_NONBLOCK);
		KUNIT_EXPECT_NE_MSG(test, htw_test_ioctl(f, commands[i].cmd, f->arg), -EBADF,
				    "number %u", i);
		if (commands[i].writes)
			KUNIT_EXPECT_EQ(test, htw_test_vfs_read(f, f->to, EVENT), -EBADF);
	}
}

/* Only the id is in memory that cannot be written. More calls than timers fit: none counts. */
static void add_without_room_for_the_id(struct kunit *test)
{
	struct htw_test_file *f = htw_test_limited(test, 2);
	const struct htw_add_args add = { .deadline = HTW_TEST_LATER, .cookie = 1 };
	const unsigned long pages = htw_test_user_pages(test, 2);
	const unsigned long arg = pages + PAGE_SIZE - offsetofend(struct htw_add_args, id);

	htw_test_protect(test, pages, PROT_READ);
	htw_test_write(test, arg + sizeof(add.id), (u8 *)&add + sizeof(add.id),
		       sizeof(add) - sizeof(add.id));
	for (unsigned int i = 0; i < 5; i++)
		KUNIT_EXPECT_EQ(test, htw_test_ioctl(f, HTW_ADD, arg), -EFAULT);
	htw_test_expect_nothing(f);
	htw_test_add(f, &add);
	htw_test_add(f, &add);
}

/* A command, and where the last field ends that it reads. */
static const struct {
	unsigned int cmd;
	size_t end;
} readers[] = {
	{ HTW_SETUP, sizeof(struct htw_setup_args) },
	{ HTW_ADD, offsetofend(struct htw_add_args, firings) },
	{ HTW_CANCEL, offsetofend(struct htw_cancel_args, flags) },
	{ HTW_MOD, offsetofend(struct htw_mod_args, reserved) },
	{ HTW_QUERY, offsetofend(struct htw_timer_info, id) },
	{ HTW_VECTOR, offsetofend(struct htw_vector_args, op) },
	{ HTW_ADVANCE, offsetofend(struct htw_advance_args, flags) },
	{ HTW_CANCEL_ALL, offsetofend(struct htw_cancel_all_args, reserved) },
	{ HTW_LIST, offsetofend(struct htw_list_args, reserved) },
	{ HTW_HARVEST, offsetofend(struct htw_list_args, reserved) },
};

static void arguments_that_cannot_be_read(struct kunit *test)
{
	struct htw_test_file *f = htw_test_manual(test, 1);
	const unsigned long end = htw_test_pages_end(test, 1);
	const u64 id = htw_test_start(f, HTW_TEST_LATER, 1);

	for (u32 i = 0; i < ARRAY_SIZE(readers); i++) {
		const unsigned int cmd = readers[i].cmd;
		const unsigned long part = end - readers[i].end + 1;

		KUNIT_ASSERT_EQ(test, clear_user((void __user *)(end - PAGE_SIZE), PAGE_SIZE), 0);
		htw_test_write(test, part, &id, min(sizeof(id), readers[i].end - 1));
		KUNIT_EXPECT_EQ_MSG(test, htw_test_ioctl(f, cmd, part), -EFAULT, "number %u", i);
		KUNIT_EXPECT_EQ(test, htw_test_ioctl(f, cmd, end), -EFAULT);
		KUNIT_EXPECT_EQ(test, htw_test_ioctl(f, cmd, 0), -EFAULT);
		/* An address of the kernel's. */
		KUNIT_EXPECT_EQ(test, htw_test_ioctl(f, cmd, -PAGE_SIZE), -EFAULT);
	}
	KUNIT_EXPECT_EQ(test, htw_test_info(f).timers, 1);
	KUNIT_EXPECT_EQ(test, htw_test_info_of(f, id).remaining, HTW_TEST_LATER);
}

/* The result cannot be written; the timer is cancelled nevertheless. */
static void cancel_without_room_for_the_answer(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	const unsigned long arg = readonly_second_page(test) - sizeof(u64);
	const u64 id = htw_test_start(f, htw_now() + HTW_TEST_LATER, 1);

	htw_test_write(test, arg, &id, sizeof(id));
	KUNIT_EXPECT_EQ(test, htw_test_ioctl(f, HTW_CANCEL, arg), -EFAULT);
	KUNIT_EXPECT_EQ(test, htw_test_ioctl(f, HTW_CANCEL, arg), -ENOENT);
	htw_test_expect_nothing(f);
}

/* Likewise, the timer is changed. */
static void mod_without_room_for_the_answer(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	const struct htw_mod_args mod = {
		.id = htw_test_start(f, htw_now() + HTW_TEST_LATER, 1),
		.cookie = 2, .flags = HTW_MOD_COOKIE,
	};
	const unsigned long second = readonly_second_page(test);
	/* All but the state, which is zero, and what follows. */
	const unsigned long arg = second - offsetof(struct htw_mod_args, state);

	htw_test_write(test, arg, &mod, offsetof(struct htw_mod_args, state));
	KUNIT_EXPECT_EQ(test, htw_test_ioctl(f, HTW_MOD, arg), -EFAULT);
	KUNIT_EXPECT_EQ(test, htw_test_info_of(f, mod.id).cookie, 2);
}

static void query_without_room_for_the_answer(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	const unsigned long arg = readonly_second_page(test) - sizeof(u64);
	const u64 id = htw_test_start(f, htw_now() + HTW_TEST_LATER, 1);

	htw_test_write(test, arg, &id, sizeof(id));
	KUNIT_EXPECT_EQ(test, htw_test_ioctl(f, HTW_QUERY, arg), -EFAULT);
	KUNIT_EXPECT_EQ(test, htw_test_info_of(f, id).cookie, 1);
}

static void info_that_cannot_be_written(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	const unsigned long end = htw_test_pages_end(test, 1);

	KUNIT_EXPECT_EQ(test, htw_test_ioctl(f, HTW_INFO, end), -EFAULT);
	KUNIT_EXPECT_EQ(test, htw_test_ioctl(f, HTW_INFO, end - sizeof(struct htw_info_args) + 1),
			-EFAULT);
}

/* The clock moves only if the result can be written. */
static void advance_without_room_for_the_answer(struct kunit *test)
{
	struct htw_test_file *f = htw_test_manual(test, 1);
	const unsigned long second = readonly_second_page(test);
	const unsigned long arg = second - offsetof(struct htw_advance_args, due);
	const struct htw_advance_args advance = { .ns = 50 };
	const u64 id = htw_test_start(f, 50, 1);

	htw_test_write(test, arg, &advance, offsetof(struct htw_advance_args, due));
	KUNIT_EXPECT_EQ(test, htw_test_ioctl(f, HTW_ADVANCE, arg), -EFAULT);
	KUNIT_EXPECT_EQ(test, htw_test_info_of(f, id).remaining, 50);
	KUNIT_EXPECT_FALSE(test, htw_test_is_readable(f));
}

/*
 * Requests that are invalid in one field
 */

#define LATER			HTW_TEST_LATER

static const struct htw_add_args invalid_adds[] = {
	{ .deadline = LATER, .flags = 1u << 2 }, { .deadline = LATER, .flags = HTW_MOD_DEADLINE },
	{ .deadline = LATER, .flags = 1u << 31 }, { .deadline = LATER, .firings = 1 },
	{ .firings = U32_MAX },
};

static const struct htw_mod_args invalid_mods[] = {
	{}, { .flags = HTW_F_ABS }, { .flags = HTW_F_KEEP | HTW_MOD_COOKIE },
	{ .flags = HTW_MOD_DEADLINE | 1u << 31 }, { .flags = HTW_MOD_DEADLINE | 1u << 12 },
	{ .flags = HTW_MOD_DEADLINE, .reserved = 1 }, { .flags = HTW_MOD_DEADLINE, .interval = 1 },
	{ .flags = HTW_MOD_DEADLINE, .slack = 1 }, { .flags = HTW_MOD_DEADLINE, .cookie = 1 },
	{ .flags = HTW_MOD_DEADLINE, .firings = 1 }, { .flags = HTW_MOD_SLACK, .interval = 1 },
	{ .flags = HTW_MOD_SLACK, .cookie = 1 }, { .flags = HTW_MOD_SLACK, .firings = 1 },
	{ .flags = HTW_MOD_SLACK, .deadline = 1 }, { .flags = HTW_MOD_SLACK, .reserved = 1 },
	{ .flags = HTW_MOD_SLACK | HTW_F_ABS }, { .flags = HTW_MOD_COOKIE, .slack = 1 },
	{ .flags = HTW_MOD_COOKIE, .deadline = 1 }, { .flags = HTW_MOD_INTERVAL, .firings = 1 },
	{ .flags = HTW_MOD_INTERVAL, .interval = LATER, .deadline = 1 },
};

static const struct htw_cancel_args invalid_cancels[] = {
	{ .flags = 1 }, { .flags = 1u << 31 }, { .flags = HTW_F_ABS },
};

static const struct htw_advance_args invalid_advances[] = {
	{ .flags = HTW_F_ABS << 1 }, { .flags = HTW_F_ABS | HTW_F_KEEP }, { .flags = 1u << 31 },
};

/* Each of @count requests is refused, and nothing of it is written. */
static void expect_invalid(struct htw_test_file *f, unsigned int cmd, const void *requests,
			   u32 count)
{
	const size_t size = _IOC_SIZE(cmd);

	for (u32 i = 0; i < count; i++) {
		const void *request = requests + i * size;
		u64 arg[8];

		KUNIT_ASSERT_LE(f->test, size, sizeof(arg));
		memcpy(arg, request, size);
		KUNIT_EXPECT_EQ_MSG(f->test, htw_test_call(f, cmd, arg), -EINVAL,
				    "command %u, number %u", (u32)_IOC_NR(cmd), i);
		KUNIT_EXPECT_MEMEQ(f->test, arg, request, size);
	}
}

/* Before an id is looked up; in a context without timers, and in one with some. */
static void what_has_no_meaning_is_refused(struct kunit *test)
{
	struct htw_test_file *f = htw_test_manual(test, 1);
	u64 id;

	for (u32 round = 0; round < 2; round++) {
		expect_invalid(f, HTW_ADD, invalid_adds, ARRAY_SIZE(invalid_adds));
		expect_invalid(f, HTW_MOD, invalid_mods, ARRAY_SIZE(invalid_mods));
		expect_invalid(f, HTW_CANCEL, invalid_cancels, ARRAY_SIZE(invalid_cancels));
		expect_invalid(f, HTW_ADVANCE, invalid_advances, ARRAY_SIZE(invalid_advances));
		KUNIT_EXPECT_EQ(test, htw_test_info(f).timers, round);
		id = htw_test_start(f, LATER, 1);
	}
	/* Of a timer that there is as well. */
	for (unsigned int i = 0; i < ARRAY_SIZE(invalid_mods); i++) {
		struct htw_mod_args mod = invalid_mods[i];

		mod.id = id;
		KUNIT_EXPECT_EQ_MSG(test, htw_test_call(f, HTW_MOD, &mod), -EINVAL, "number %u", i);
	}
	KUNIT_EXPECT_EQ(test, htw_test_info_of(f, id).deadline, LATER);
	KUNIT_EXPECT_EQ(test, htw_test_info_of(f, id).cookie, 1);
}

/* Where memory ends, whole elements have been copied, and nothing beside the array is touched. */
static void copy_keeps_to_the_array(struct kunit *test)
{
	const u32 size = 64, before = 4, count = 4, there = 3;
	const size_t bytes = (before + count + 1) * size;
	const unsigned long end = htw_test_pages_end(test, 1);
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

/*
 * Commands of io_uring
 */

static const unsigned int nonblock = IO_URING_F_NONBLOCK;

/* A command as io_uring has prepared it; the argument is at @f->arg. */
struct uring {
	struct io_uring_cmd cmd;
	struct io_uring_sqe sqe[2];
};

static struct uring *uring_cmd(struct htw_test_file *f, unsigned int op, const void *arg)
{
	struct uring *u = kunit_kzalloc(f->test, sizeof(*u), GFP_KERNEL);
	const struct htw_uring_args args = { .arg = f->arg };

	KUNIT_ASSERT_NOT_NULL(f->test, u);
	/* Of the command before. */
	memset(u->cmd.pdu, 0xa5, sizeof(u->cmd.pdu));
	u->cmd.file = f->file;
	u->cmd.cmd_op = op;
	memcpy((void *)u->sqe + offsetof(struct io_uring_sqe, cmd), &args, sizeof(args));
	htw_test_set_sqe(&u->cmd, u->sqe);
	htw_test_write(f->test, f->arg, arg, _IOC_SIZE(op));
	return u;
}

static int issue(struct htw_test_file *f, struct uring *u, unsigned int flags)
{
	return f->file->f_op->uring_cmd(&u->cmd, flags);
}

/* What needs memory says EAGAIN where another task has the mutex, and what needs none does not. */
static void uring_does_not_wait(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	struct htw_add_args add = { .deadline = HTW_TEST_LATER };
	struct htw_mod_args mod = { .deadline = HTW_TEST_LATER, .flags = HTW_MOD_DEADLINE };
	struct htw_cancel_args cancel = {};
	u64 deadlines[2] = { HTW_TEST_LATER, HTW_TEST_LATER }, ids[2] = { 77, 78 };
	struct htw_vector_args v = {
		.op = HTW_OP_ADD, .count = 2, .ids = f->to, .deadlines = f->to + PAGE_SIZE,
	};
	struct uring *u;

	htw_test_write(test, f->to, ids, sizeof(ids));
	htw_test_write(test, f->to + PAGE_SIZE, deadlines, sizeof(deadlines));

	/* Neither a base nor a page is there; and then a page is full. */
	for (int i = 0; i < 2; i++) {
		const u64 timers = htw_test_info(f).timers;

		mutex_lock(&f->ctx->mutex);
		u = uring_cmd(f, HTW_ADD, &add);
		KUNIT_EXPECT_EQ(test, issue(f, u, nonblock), -EAGAIN);
		u = uring_cmd(f, HTW_VECTOR, &v);
		KUNIT_EXPECT_EQ(test, issue(f, u, nonblock), -EAGAIN);
		mutex_unlock(&f->ctx->mutex);
		KUNIT_EXPECT_EQ(test, htw_test_info(f).timers, timers);
		htw_test_read(test, deadlines, f->to, sizeof(ids));
		KUNIT_EXPECT_MEMEQ(test, deadlines, ids, sizeof(ids));

		u = uring_cmd(f, HTW_ADD, &add);
		KUNIT_EXPECT_EQ(test, issue(f, u, nonblock), 0);
		for (u32 n = timers + 1; !i && n < HTW_FIRST_SLOTS - 1; n++)
			htw_test_start(f, HTW_TEST_LATER, 0);
	}

	htw_test_read(test, &add, f->arg, sizeof(add));
	mod.id = add.id;
	cancel.id = add.id;
	mutex_lock(&f->ctx->mutex);
	KUNIT_EXPECT_EQ(test, issue(f, uring_cmd(f, HTW_MOD, &mod), nonblock), 0);
	KUNIT_EXPECT_EQ(test, issue(f, uring_cmd(f, HTW_CANCEL, &cancel), nonblock), 0);
	KUNIT_EXPECT_EQ(test, issue(f, uring_cmd(f, HTW_ADD, &add), nonblock), 0);
	KUNIT_EXPECT_EQ(test, issue(f, uring_cmd(f, HTW_VECTOR, &v), nonblock), 0);
	mutex_unlock(&f->ctx->mutex);
}

/* The SQE is the program's again when a worker has the command, whatever it is then. */
static void uring_reads_an_sqe_once(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	struct htw_add_args add = { .deadline = HTW_TEST_LATER, .cookie = 5 };
	struct uring *u = uring_cmd(f, HTW_ADD, &add);

	mutex_lock(&f->ctx->mutex);
	KUNIT_EXPECT_EQ(test, issue(f, u, nonblock), -EAGAIN);
	mutex_unlock(&f->ctx->mutex);
	memset(u->sqe, 0xff, sizeof(u->sqe));
	KUNIT_EXPECT_EQ(test, issue(f, u, 0), 0);
	htw_test_read(test, &add, f->arg, sizeof(add));
	KUNIT_EXPECT_EQ(test, htw_test_info_of(f, add.id).cookie, 5);
}

/* Also one that a worker gets at once; what was in the request before does not count. */
static void uring_checks_an_sqe(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	struct htw_add_args add = { .deadline = HTW_TEST_LATER };

	for (size_t i = 0; i < 2 * sizeof(struct io_uring_sqe); i++) {
		struct uring *u = uring_cmd(f, HTW_ADD, &add);
		const size_t own = offsetof(struct io_uring_sqe, cmd) + sizeof(u64);
		const bool bad = i >= own, is_128 = i >= sizeof(u->sqe[0]);

		if (i >= own - sizeof(u64) && i < own)
			continue;
		((u8 *)u->sqe)[i] = 1;
		KUNIT_EXPECT_EQ_MSG(test, issue(f, u, is_128 ? IO_URING_F_SQE128 : 0),
				    bad ? -EINVAL : 0, "byte %zu", i);
		/* Behind an SQE of 64 bytes there is the next one. */
		if (is_128)
			KUNIT_EXPECT_EQ(test, issue(f, u, nonblock), 0);
	}
	for (unsigned int i = 0; i < 24; i++) {
		struct uring *u = uring_cmd(f, HTW_ADD, &add);

		u->cmd.flags = BIT(i);
		KUNIT_EXPECT_EQ(test, issue(f, u, nonblock), -EINVAL);
	}
}

static struct kunit_case htw_device_cases[] = {
	KUNIT_CASE(read_faults_memory_in),
	KUNIT_CASE(read_faults_in_what_an_event_straddles),
	KUNIT_CASE_PARAM(read_ends_with_the_memory, read_rooms_gen_params),
	KUNIT_CASE(read_ends_with_what_is_writable),
	KUNIT_CASE(read_into_nothing_loses_nothing),
	KUNIT_CASE(read_into_protected_memory_loses_nothing),
	KUNIT_CASE(failed_read_does_not_go_on),
	KUNIT_CASE(read_into_treacherous_memory_ends),
	KUNIT_CASE(read_wants_room_for_an_event),
	KUNIT_CASE(read_gives_whole_events),
	KUNIT_CASE(read_scatters),
	KUNIT_CASE(read_of_nothing_would_block),
	KUNIT_CASE(read_waits),
	KUNIT_CASE(signal_ends_a_read),
	KUNIT_CASE(poll_reports_what_is_due),
	KUNIT_CASE(every_open_is_a_context),
	KUNIT_CASE(unknown_commands_touch_nothing),
	KUNIT_CASE(commands_may_be_larger),
	KUNIT_CASE(access_modes_are_checked),
	KUNIT_CASE(add_without_room_for_the_id),
	KUNIT_CASE(arguments_that_cannot_be_read),
	KUNIT_CASE(cancel_without_room_for_the_answer),
	KUNIT_CASE(mod_without_room_for_the_answer),
	KUNIT_CASE(query_without_room_for_the_answer),
	KUNIT_CASE(info_that_cannot_be_written),
	KUNIT_CASE(advance_without_room_for_the_answer),
	KUNIT_CASE(what_has_no_meaning_is_refused),
	KUNIT_CASE(copy_keeps_to_the_array),
	KUNIT_CASE(uring_does_not_wait),
	KUNIT_CASE(uring_reads_an_sqe_once),
	KUNIT_CASE(uring_checks_an_sqe),
	{}
};

static struct kunit_suite htw_device_suite = {
	.name = "htw_device",
	.test_cases = htw_device_cases,
};

kunit_test_suite(htw_device_suite);

MODULE_DESCRIPTION("KUnit: the device and the program's memory");
MODULE_LICENSE("GPL");
