// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/htw: what programs see
 *
 * All that comes from user space is checked here, before it is used for
 * anything: unknown flags and reserved fields are EINVAL, so that they can get
 * a meaning later. What a call hands out is written before the call takes
 * effect, so a call that fails leaves nothing behind; where that cannot be, in
 * a batch, the count says what has happened.
 */

#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#include "core/base.h"
#include "core/expire.h"
#include "core/lifecycle.h"
#include "core/mmap.h"
#include "core/ops.h"
#include "core/reader.h"
#include "core/ring.h"
#include "core/setup.h"
#include "core/slots.h"
#include "core/table.h"
#include "core/vector.h"
#include "core/wake.h"
#include "core/walk.h"
#include "htw_chardev.h"

/* Events that are copied in one go, under the context's lock. */
#define HTW_READ_BATCH		32u

#define HTW_FEATURES		(HTW_FEATURE_ADD | HTW_FEATURE_KEEP | HTW_FEATURE_FIRINGS | \
				 HTW_FEATURE_MOD | HTW_FEATURE_SLACK | HTW_FEATURE_ALL | \
				 HTW_FEATURE_SETUP | HTW_FEATURE_MANUAL | HTW_FEATURE_VECTOR | \
				 HTW_FEATURE_RING | HTW_FEATURE_TABLE | \
				 HTW_FEATURE_CANCEL_ON_SET | HTW_FEATURE_RING_TAIL | \
				 HTW_FEATURE_NEXT | HTW_FEATURE_LIST_STATES)

/* The same for 32- and 64-bit programs: no padding, and a multiple of 8 bytes. */
static_assert(sizeof(struct htw_event) == 48);
static_assert(sizeof(struct htw_setup) == 96);
static_assert(sizeof(struct htw_info) == 120);
static_assert(sizeof(struct htw_cancel_all) == 32);
static_assert(sizeof(struct htw_list) == 48);
static_assert(sizeof(struct htw_advance) == 32);
static_assert(sizeof(struct htw_next) == 72);
static_assert(sizeof(struct htw_ring) == 128);

static noinline_for_stack
int htw_ioctl_cancel_all(struct htw_context *ctx, struct htw_cancel_all __user *arg)
{
	struct htw_cancel_all all;
	u64 count = 0;

	if (copy_from_user(&all, arg, sizeof(all)))
		return -EFAULT;
	if (all.flags & ~HTW_CANCEL_DISCARD || all.reserved[0] || all.reserved[1] ||
	    !htw_ring_tail_is_valid(ctx, all.ring_tail))
		return -EINVAL;
	/* What cannot be told must not happen. */
	if (put_user(all.count, &arg->count))
		return -EFAULT;
	for (u32 page = 0; page < htw_context_pages(ctx); page++) {
		count += htw_walk_cancel(ctx, page, all.flags);
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	if (put_user(count, &arg->count) ||
	    put_user(htw_context_ring_tail(ctx), &arg->ring_tail))
		return -EFAULT;
	return 0;
}

/* Return: how many of @n entries could be copied. */
static u32 htw_copy_entries(struct htw_query __user *user, const struct htw_query *entries, u32 n)
{
	return n - DIV_ROUND_UP(copy_to_user(user, entries, n * sizeof(*entries)),
				sizeof(*entries));
}

/*
 * Tells some timers from a slot of a page on, through @entries.
 *
 * Return: how many were told; -EFAULT if none was, though there are some.
 */
static int htw_list_batch(struct htw_context *ctx, u32 *slot, struct htw_query __user *user,
			  u32 room, u32 which, struct htw_query *entries)
{
	const u32 n = htw_walk_list(ctx, slot, entries, room, which);
	const u32 written = htw_copy_entries(user, entries, n);

	if (written == n)
		return n;
	*slot = HTW_ID_SLOT(entries[written].id);
	return written ?: -EFAULT;
}

/*
 * The same, and takes them out. Memory that is not there is brought in by writing to it:
 * that fails where the entry cannot be written either, whatever the reason.
 */
static int htw_harvest_batch(struct htw_context *ctx, u32 *slot, struct htw_query __user *user,
			     u32 room)
{
	LIST_HEAD(taken);
	bool stuck;
	u32 n;

	n = htw_walk_harvest(ctx, slot, user, room, &taken, &stuck);
	if (n)
		htw_slots_unreserve(ctx, &taken);
	if (stuck && !n && clear_user(user, sizeof(*user)))
		return -EFAULT;
	return n;
}

/*
 * Tells timers from the cursor on, as many as there is room for; @entries is NULL where
 * they are to be taken out.
 *
 * Return: 0; -EFAULT or -EINTR if none was told.
 */
static int htw_list_all(struct htw_context *ctx, struct htw_list *list,
			struct htw_query *entries)
{
	struct htw_query __user *user = u64_to_user_ptr(list->entries);
	const u32 which = list->flags ?: HTW_LIST_PENDING;

	list->done = 0;
	while (list->done < list->count &&
	       list->cursor / HTW_PAGE_SLOTS < htw_context_pages(ctx)) {
		const u32 room = min(list->count - list->done, HTW_PAGE_TIMERS);
		u32 slot = list->cursor;
		int n;

		if (entries)
			n = htw_list_batch(ctx, &slot, user + list->done, room, which, entries);
		else
			n = htw_harvest_batch(ctx, &slot, user + list->done, room);
		if (n < 0)
			return list->done ? 0 : n;
		list->done += n;
		list->cursor = slot;
		/* Having told nothing, it goes on: the cursor would be lost. */
		if (list->done ? signal_pending(current) : fatal_signal_pending(current))
			return list->done ? 0 : -EINTR;
		cond_resched();
	}
	return 0;
}

static noinline_for_stack
int htw_ioctl_list(struct htw_context *ctx, struct htw_list __user *arg, bool harvest)
{
	const u32 known = harvest ? 0 : HTW_LIST_PENDING | HTW_LIST_EXPIRED | HTW_LIST_DISARMED;
	struct htw_query *entries = NULL;
	struct htw_list list;
	int ret;

	if (copy_from_user(&list, arg, sizeof(list)))
		return -EFAULT;
	if (list.cursor > U32_MAX || list.flags & ~known || list.reserved[0] ||
	    list.reserved[1])
		return -EINVAL;
	if (harvest ? !htw_ring_tail_is_valid(ctx, list.ring_tail) : list.reserved0)
		return -EINVAL;
	/* What cannot be told must not happen. */
	if (copy_to_user(arg, &list, sizeof(list)))
		return -EFAULT;
	if (!harvest) {
		entries = kmalloc_array(HTW_PAGE_TIMERS, sizeof(*entries), GFP_KERNEL);
		if (!entries)
			return -ENOMEM;
	}
	ret = htw_list_all(ctx, &list, entries);
	kfree(entries);
	if (ret)
		return ret;
	if (harvest)
		list.ring_tail = htw_context_ring_tail(ctx);
	return copy_to_user(arg, &list, sizeof(list)) ? -EFAULT : 0;
}

static noinline_for_stack
int htw_ioctl_next(struct htw_context *ctx, struct htw_next __user *arg)
{
	struct htw_next next;
	int ret;

	if (copy_from_user(&next, arg, sizeof(next)))
		return -EFAULT;
	if (next.flags || next.reserved0 || next.reserved)
		return -EINVAL;
	ret = htw_walk_next(ctx, &next.timer);
	if (ret)
		return ret;
	return copy_to_user(arg, &next, sizeof(next)) ? -EFAULT : 0;
}

static noinline_for_stack
int htw_ioctl_setup(struct htw_context *ctx, const struct htw_setup __user *arg)
{
	struct htw_setup setup;

	if (copy_from_user(&setup, arg, sizeof(setup)))
		return -EFAULT;
	return htw_context_setup(ctx, &setup);
}

static noinline_for_stack
int htw_ioctl_advance(struct htw_context *ctx, struct htw_advance __user *arg)
{
	struct htw_advance advance;
	u64 now, to;

	if (copy_from_user(&advance, arg, sizeof(advance)))
		return -EFAULT;
	if (!htw_context_is_manual(ctx) || advance.flags & ~HTW_F_ABS ||
	    advance.reserved0 || advance.reserved)
		return -EINVAL;
	now = htw_base_now(ctx->own);
	to = advance.flags & HTW_F_ABS ? advance.ns : htw_add_saturated(now, advance.ns);
	if (to < now || to > KTIME_MAX)
		return -EINVAL;
	/* What cannot be told must not happen. */
	if (put_user(advance.expired, &arg->expired))
		return -EFAULT;
	return put_user(htw_context_advance(ctx, to), &arg->expired) ? -EFAULT : 0;
}

static const __s32 htw_clockids[] = {
	[HTW_BASE_MONOTONIC]	= CLOCK_MONOTONIC,
	[HTW_BASE_BOOTTIME]	= CLOCK_BOOTTIME,
	[HTW_BASE_REALTIME]	= CLOCK_REALTIME,
	[HTW_BASE_MANUAL]	= HTW_CLOCK_MANUAL,
};

static noinline_for_stack
int htw_ioctl_info(struct htw_context *ctx, struct htw_info __user *arg)
{
	struct htw_info info = { .features = HTW_FEATURES };
	const struct htw_wheel *own;

	spin_lock_bh(&ctx->lock);
	own = ctx->own ? &ctx->own->wheel : NULL;
	info.tick_ns = htw_context_tick_ns(ctx);
	info.limit = ctx->limit;
	info.clock = htw_clockids[ctx->clock];
	info.home_cpu = ctx->cpu;
	info.flags = ctx->setup;
	info.ring_entries = ctx->ring ? ctx->ring->entries : 0;
	info.timers = ctx->nr_timers;
	info.expired = ctx->nr_expired;
	spin_unlock_bh(&ctx->lock);
	info.table_size = htw_table_size(ctx);

	info.levels = own ? own->levels : htw_geometry.levels;
	for (unsigned int l = 0; l < info.levels; l++)
		info.slots[l] = own ? own->level[l].ring / 2 : htw_geometry.slots[l];
	return copy_to_user(arg, &info, sizeof(info)) ? -EFAULT : 0;
}

static long htw_ioctl(struct file *file, unsigned int cmd, unsigned long parm)
{
	struct htw_context *ctx = file->private_data;
	void __user *arg = (void __user *)parm;

	switch (cmd) {
	case HTW_ADD:
		return htw_op_add(ctx, arg);
	case HTW_CANCEL:
		return htw_op_cancel(ctx, arg);
	case HTW_MOD:
		return htw_op_mod(ctx, arg);
	case HTW_QUERY:
		return htw_op_query(ctx, arg);
	case HTW_BATCH:
		return htw_op_batch(ctx, arg);
	case HTW_VECTOR:
		return htw_op_vector(ctx, arg);
	case HTW_CANCEL_ALL:
		return htw_ioctl_cancel_all(ctx, arg);
	case HTW_LIST:
		return htw_ioctl_list(ctx, arg, false);
	case HTW_HARVEST:
		return htw_ioctl_list(ctx, arg, true);
	case HTW_NEXT:
		return htw_ioctl_next(ctx, arg);
	case HTW_SETUP:
		return htw_ioctl_setup(ctx, arg);
	case HTW_ADVANCE:
		return htw_ioctl_advance(ctx, arg);
	case HTW_INFO:
		return htw_ioctl_info(ctx, arg);
	case HTW_FLUSH:
		return htw_context_flush(ctx);
	default:
		return -ENOTTY;
	}
}

/*
 * Copies some waiting events out. They are taken off the queue only once they
 * are in the reader's memory, and under the same lock, so none can be lost or
 * be read twice. The lock forbids to sleep: where the memory is not there, the
 * copy is short and the caller sees to it.
 *
 * Return: how many whole events; *waiting tells whether there were more.
 */
static u32 htw_read_batch(struct htw_context *ctx, struct iov_iter *to, bool *waiting)
{
	struct htw_event events[HTW_READ_BATCH];
	const u32 room = min_t(size_t, iov_iter_count(to) / sizeof(*events), HTW_READ_BATCH);
	const u64 now = htw_context_now(ctx);
	size_t bytes;
	bool rearm;
	u32 n;

	spin_lock_bh(&ctx->lock);
	n = htw_context_peek(ctx, events, room, now);
	pagefault_disable();
	bytes = copy_to_iter(events, n * sizeof(*events), to);
	pagefault_enable();
	iov_iter_revert(to, bytes % sizeof(*events));
	bytes /= sizeof(*events);
	htw_context_take(ctx, bytes, now);
	*waiting = ctx->nr_expired;
	rearm = !list_empty(&ctx->rearm);
	spin_unlock_bh(&ctx->lock);
	if (rearm)
		htw_context_rearm(ctx);
	return bytes;
}

/*
 * Brings in the memory for an event, by writing to it. fault_in_iov_iter_writeable() only
 * looks whether there is a page: what else may forbid the write, as a wrong tag of arm64's
 * MTE does, makes the copy fail again, however often that is tried.
 */
static bool htw_read_fault_in(struct iov_iter *to)
{
	static const struct htw_event none;
	const size_t written = copy_to_iter(&none, sizeof(none), to);

	iov_iter_revert(to, written);
	return written == sizeof(none);
}

/* Return: bytes read; 0 if no event waits; a negative error if none was read. */
static ssize_t htw_read_available(struct htw_context *ctx, struct iov_iter *to)
{
	const size_t size = sizeof(struct htw_event);
	ssize_t done = 0;
	bool waiting;

	do {
		u32 n = htw_read_batch(ctx, to, &waiting);

		done += n * size;
		if (!waiting)
			break;
		/* Having read nothing, get the memory in, or give up. */
		if (!n && !htw_read_fault_in(to))
			return done ?: -EFAULT;
		/*
		 * An event that waits is not left for a signal: io_uring has its own
		 * work signalled, and cannot call again.
		 */
		if (done ? signal_pending(current) : fatal_signal_pending(current))
			return done ?: -ERESTARTSYS;
		cond_resched();
	} while (iov_iter_count(to) >= size);
	return done;
}

/* With an event, or with EBUSY. */
static bool htw_read_can_return(const struct htw_context *ctx)
{
	return READ_ONCE(ctx->nr_expired) || htw_context_ring_is_mapped(ctx);
}

static ssize_t htw_read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	struct htw_context *ctx = iocb->ki_filp->private_data;
	ssize_t ret;

	if (iov_iter_count(to) < sizeof(struct htw_event))
		return -EINVAL;
	for (;;) {
		if (htw_context_ring_is_mapped(ctx)) {
			ret = -EBUSY;
			break;
		}
		ret = htw_read_available(ctx, to);
		if (ret)
			break;
		if (iocb->ki_filp->f_flags & O_NONBLOCK || iocb->ki_flags & IOCB_NOWAIT)
			return -EAGAIN;
		ret = wait_event_interruptible_exclusive(ctx->readers, htw_read_can_return(ctx));
		if (ret)
			break;
	}
	/* One reader was woken up: what it leaves is for the next. */
	if (htw_read_can_return(ctx))
		htw_wake_reader(ctx);
	return ret;
}

static __poll_t htw_poll(struct file *file, poll_table *wait)
{
	struct htw_context *ctx = file->private_data;

	poll_wait(file, &ctx->wait, wait);
	/* Pairs with wq_has_sleeper() in htw_delivery_wake(). */
	smp_mb();
	return htw_context_is_readable(ctx) ? EPOLLIN | EPOLLRDNORM : 0;
}

static int htw_open(struct inode *inode, struct file *file)
{
	struct htw_context *ctx = htw_context_alloc(READ_ONCE(htw_max_timers));

	if (!ctx)
		return -ENOMEM;
	file->private_data = ctx;
	file->f_mode |= FMODE_NOWAIT;
	return stream_open(inode, file);
}

static int htw_fasync(int fd, struct file *file, int on)
{
	struct htw_context *ctx = file->private_data;

	return fasync_helper(fd, file, on, &ctx->fasync);
}

static void htw_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct htw_context *ctx = file->private_data;
	u32 timers, expired;
	u64 times, ns;

	spin_lock_bh(&ctx->lock);
	timers = ctx->nr_timers;
	expired = ctx->nr_expired;
	spin_unlock_bh(&ctx->lock);
	seq_printf(m, "htw-clock:\t%d\nhtw-tick-ns:\t%u\n", htw_clockids[ctx->clock],
		   htw_context_tick_ns(ctx));
	seq_printf(m, "htw-timers:\t%u\nhtw-expired:\t%u\nhtw-limit:\t%u\n",
		   timers, expired, ctx->limit);
	htw_user_throttled(ctx->user, &times, &ns);
	seq_printf(m, "htw-throttled:\t%llu\nhtw-throttled-ns:\t%llu\n", times, ns);
}

static int htw_release(struct inode *inode, struct file *file)
{
	htw_context_close(file->private_data);
	return 0;
}

const struct file_operations htw_fops = {
	.owner		= THIS_MODULE,
	.open		= htw_open,
	.release	= htw_release,
	.read_iter	= htw_read_iter,
	.poll		= htw_poll,
	.mmap		= htw_mmap,
	.fasync		= htw_fasync,
	.show_fdinfo	= htw_show_fdinfo,
	.unlocked_ioctl	= htw_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
};

static struct miscdevice htw_misc = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "htw",
	.fops	= &htw_fops,
};

/**
 * htw_chardev_init() - makes /dev/htw; programs can open it from then on
 *
 * Context: process, may sleep.
 * Return: 0 or a negative error.
 */
int htw_chardev_init(void)
{
	return misc_register(&htw_misc);
}

/**
 * htw_chardev_exit() - takes /dev/htw away; nobody has it open
 *
 * Context: process, may sleep.
 */
void htw_chardev_exit(void)
{
	misc_deregister(&htw_misc);
}
