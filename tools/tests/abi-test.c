// SPDX-License-Identifier: GPL-2.0-only
/*
 * Layout of the uAPI, command numbers, and unknown or reserved input
 */
#include "htw-test.h"

_Static_assert(sizeof(struct htw_add_args) == 48, "htw_add_args");
_Static_assert(sizeof(struct htw_cancel_args) == 40, "htw_cancel_args");
_Static_assert(sizeof(struct htw_mod_args) == 56, "htw_mod_args");
_Static_assert(sizeof(struct htw_timer_info) == 56, "htw_timer_info");
_Static_assert(sizeof(struct htw_vector_args) == 64, "htw_vector_args");
_Static_assert(sizeof(struct htw_event) == 48, "htw_event");
_Static_assert(sizeof(struct htw_setup_args) == 64, "htw_setup_args");
_Static_assert(sizeof(struct htw_info_args) == 112, "htw_info_args");
_Static_assert(sizeof(struct htw_cancel_all_args) == 16, "htw_cancel_all_args");
_Static_assert(sizeof(struct htw_list_args) == 32, "htw_list_args");
_Static_assert(sizeof(struct htw_advance_args) == 16, "htw_advance_args");

_Static_assert(HTW_INFO == 0x8070e701, "HTW_INFO");
_Static_assert(HTW_ADD == 0xc030e702, "HTW_ADD");
_Static_assert(HTW_CANCEL == 0xc028e703, "HTW_CANCEL");
_Static_assert(HTW_VECTOR == 0xc040e706, "HTW_VECTOR");

static const unsigned long commands[] = {
	HTW_SETUP, HTW_INFO, HTW_ADD, HTW_CANCEL, HTW_MOD, HTW_QUERY, HTW_VECTOR, HTW_CANCEL_ALL,
	HTW_LIST, HTW_HARVEST, HTW_ADVANCE,
};

/* Whether the call fails with ENOTTY and leaves a poisoned argument unchanged. */
static bool unknown(int fd, unsigned long cmd)
{
	unsigned char arg[PAGE];
	unsigned int i;

	memset(arg, 0xa5, sizeof(arg));
	if (htw_call(fd, cmd, arg) != -ENOTTY)
		return false;
	for (i = 0; i < sizeof(arg); i++)
		if (arg[i] != 0xa5)
			return false;
	return true;
}

static bool is_command(unsigned long cmd)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(commands); i++)
		if (commands[i] == cmd)
			return true;
	return false;
}

HTW_TEST(known_numbers)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(commands); i++) {
		__u64 zero[64] = { 0 };

		EXPECT_NE(-ENOTTY, htw_call(self->fd, commands[i], zero));
	}
}

HTW_TEST(unknown_numbers)
{
	unsigned int nr, i, last = 0;

	for (i = 0; i < ARRAY_SIZE(commands); i++)
		if (_IOC_NR(commands[i]) > last)
			last = _IOC_NR(commands[i]);
	for (nr = 0; nr < 256; nr++) {
		if (!is_command(_IO(HTW_IOC, nr)))
			EXPECT_TRUE(unknown(self->fd, _IO(HTW_IOC, nr)));
		if (nr > last) {
			EXPECT_TRUE(unknown(self->fd, _IOWR(HTW_IOC, nr, struct htw_add_args)));
			EXPECT_TRUE(unknown(self->fd, _IOR(HTW_IOC, nr, struct htw_info_args)));
		}
	}
	EXPECT_EQ(0, htw_timers(self->fd));
}

/* Direction and size are part of a command: a structure can grow, and does not become smaller. */
HTW_TEST(known_numbers_of_other_shape)
{
	unsigned int i, dir;

	for (i = 0; i < ARRAY_SIZE(commands); i++) {
		unsigned int nr = _IOC_NR(commands[i]);
		unsigned int size = _IOC_SIZE(commands[i]);

		for (dir = 0; dir < 4; dir++) {
			unsigned long cmd = _IOC(dir, HTW_IOC, nr, size);

			if (is_command(cmd))
				continue;
			EXPECT_TRUE(unknown(self->fd, cmd));
			EXPECT_TRUE(unknown(self->fd, _IOC(dir, HTW_IOC, nr, size + 8)));
		}
		EXPECT_TRUE(unknown(self->fd, _IOC(_IOC_DIR(commands[i]), HTW_IOC, nr, size - 8)));
		EXPECT_TRUE(unknown(self->fd, commands[i] ^ 0x100));
	}
	EXPECT_EQ(0, htw_timers(self->fd));
}

/* A command as a later header may have it: with @more bytes. */
static unsigned long larger(unsigned long cmd, unsigned int more)
{
	return _IOC(_IOC_DIR(cmd), HTW_IOC, _IOC_NR(cmd), _IOC_SIZE(cmd) + more);
}

HTW_TEST(larger_structures)
{
	struct {
		struct htw_add_args known;
		__u64 more[2];
	} add = { .known = htw_rel(HOUR, 1) };
	struct {
		struct htw_info_args known;
		__u64 more[2];
	} info;

	EXPECT_EQ(0, htw_call(self->fd, larger(HTW_ADD, 16), &add));
	EXPECT_EQ(1, htw_timers(self->fd));
	EXPECT_EQ(HTW_STATE_PENDING, htw_query(self->fd, add.known.id).state);
	add.more[1] = 1ULL << 63;
	EXPECT_EQ(0, htw_call(self->fd, larger(HTW_ADD, 8), &add));
	EXPECT_EQ(-E2BIG, htw_call(self->fd, larger(HTW_ADD, 16), &add));
	EXPECT_EQ(2, htw_timers(self->fd));

	memset(&info, 0xa5, sizeof(info));
	EXPECT_EQ(0, htw_call(self->fd, larger(HTW_INFO, 8), &info));
	EXPECT_EQ(2, info.known.timers);
	EXPECT_EQ(0, info.more[0]);
	EXPECT_EQ(POISON, info.more[1]);

	/* The end of the structure is not there. */
	EXPECT_EQ(-EFAULT, htw_call(self->fd, larger(HTW_ADD, 8),
				    htw_before_page(sizeof(add.known), PROT_NONE)));
	EXPECT_EQ(-EFAULT, htw_call(self->fd, larger(HTW_INFO, 8),
				    htw_before_page(sizeof(info.known), PROT_READ)));
	EXPECT_EQ(2, htw_timers(self->fd));
}

/* How a descriptor has to be opened for each command. */
HTW_TEST(access_modes)
{
	int readable = open(HTW_DEVICE, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	int writable = open(HTW_DEVICE, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	struct htw_event ev;
	unsigned int i;

	ASSERT_LE(0, readable);
	ASSERT_LE(0, writable);
	for (i = 0; i < ARRAY_SIZE(commands); i++) {
		const bool reads = commands[i] == HTW_INFO || commands[i] == HTW_QUERY ||
				   commands[i] == HTW_LIST;
		__u64 zero[64] = { 0 };

		EXPECT_EQ(!reads, htw_call(readable, commands[i], zero) == -EBADF) {
			TH_LOG("command %lx", commands[i]);
		}
		EXPECT_EQ(reads, htw_call(writable, commands[i], zero) == -EBADF) {
			TH_LOG("command %lx", commands[i]);
		}
	}
	EXPECT_EQ(-EAGAIN, htw_read(readable, &ev, 1));
	EXPECT_EQ(-EBADF, htw_read(writable, &ev, 1));
	close(readable);
	close(writable);
}

HTW_TEST(info_of_a_new_context)
{
	struct htw_info_args info;
	unsigned int i;

	memset(&info, 0xa5, sizeof(info));
	ASSERT_EQ(0, htw_call(self->fd, HTW_INFO, &info));
	EXPECT_EQ(HTW_FEATURE_FIRST | HTW_FEATURE_URING, info.features);
	EXPECT_EQ(htw_file_number(HTW_MODULE "tick_us") * USEC, info.tick_ns);
	EXPECT_EQ(htw_file_number(HTW_MODULE "max_timers"), info.limit);
	EXPECT_EQ(0, info.timers);
	EXPECT_EQ(0, info.bytes);
	EXPECT_EQ(~0ULL, info.next);
	/* Root's. */
	EXPECT_EQ(~0ULL, info.user_limit);
	EXPECT_EQ(CLOCK_MONOTONIC, info.clock);
	EXPECT_EQ(0, info.flags);
	EXPECT_EQ(sizeof(struct htw_event), info.event_size);
	ASSERT_GE(HTW_MAX_LEVELS, info.levels);
	ASSERT_LE(1, info.levels);
	for (i = 0; i < HTW_MAX_LEVELS; i++) {
		EXPECT_EQ(i < info.levels, info.slots[i] >= 2);
		EXPECT_EQ(i >= info.levels, info.slots[i] == 0);
	}
}

HTW_TEST(info_counts)
{
	const __u64 begin = now_ns();
	struct htw_event ev;
	struct htw_info_args info;
	__u64 far;

	far = htw_start(self->fd, HOUR, 1);
	ASSERT_NE(0, far);
	info = htw_info(self->fd);
	EXPECT_LT(begin, info.next);
	EXPECT_GE(now_ns() + HOUR + self->tick, info.next);
	EXPECT_LT(0, info.bytes);
	EXPECT_LE(info.bytes / 64, info.user_timers);

	ASSERT_NE(0, htw_start(self->fd, 0, 2));
	ASSERT_TRUE(htw_wait_readable(self->fd));
	info = htw_info(self->fd);
	EXPECT_EQ(2, info.timers);
	EXPECT_GE(now_ns(), info.next);

	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	EXPECT_EQ(1, htw_timers(self->fd));
	ASSERT_EQ(0, htw_stop(self->fd, far));
	EXPECT_EQ(0, htw_timers(self->fd));
}

HTW_TEST(info_to_a_bad_address)
{
	struct htw_info_args info = { 0 };

	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_INFO, NULL));
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_INFO,
				    htw_read_only(&info, sizeof(info))));
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_INFO,
				    htw_before_page(sizeof(info) - 1, PROT_NONE)));
}

HTW_TEST(add_flags)
{
	const __u32 known = HTW_F_ABS | HTW_F_KEEP;
	unsigned int bit;

	for (bit = 0; bit < 32; bit++) {
		struct htw_add_args add = htw_abs(now_ns() + MSEC, 1), before;

		if (known & (1U << bit))
			continue;
		add.flags |= 1U << bit;
		before = add;
		EXPECT_EQ(-EINVAL, htw_call(self->fd, HTW_ADD, &add)) {
			TH_LOG("flag %#x", 1U << bit);
		}
		EXPECT_EQ(0, memcmp(&before, &add, sizeof(add)));
		EXPECT_EQ(0, htw_timers(self->fd));
	}
	EXPECT_TRUE(htw_quiet_for(self->fd, 20 * MSEC));
}

HTW_TEST(cancel_flags)
{
	__u64 id = htw_start(self->fd, HOUR, 1);
	struct htw_cancel_args cancel;
	unsigned int bit;

	ASSERT_NE(0, id);
	for (bit = 0; bit < 32; bit++) {
		cancel = htw_cancel_of(id);
		cancel.flags = 1U << bit;
		EXPECT_EQ(-EINVAL, htw_call(self->fd, HTW_CANCEL, &cancel));
		EXPECT_TRUE(htw_cancel_untouched(&cancel));
	}
	EXPECT_EQ(1, htw_timers(self->fd));
	EXPECT_EQ(0, htw_stop(self->fd, id));
}

HTW_TEST(nothing_is_mapped)
{
	unsigned int bit;

	for (bit = 12; bit < 44; bit++) {
		EXPECT_EQ(MAP_FAILED, mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd,
					   bit == 12 ? 0 : 1LL << bit));
		EXPECT_EQ(ENODEV, errno);
	}
}

#ifdef __x86_64__
/* Issue ioctl() through the 32-bit system call entry, from this 64-bit program. */
static int compat_ioctl(int fd, unsigned int cmd, void *arg)
{
	int ret;

	asm volatile("int $0x80" : "=a" (ret)
		     : "a" (54), "b" (fd), "c" (cmd), "d" ((unsigned int)(uintptr_t)arg)
		     : "memory", "r8", "r9", "r10", "r11");
	return ret;
}

HTW_TEST(compat_calls)
{
	struct {
		struct htw_info_args info;
		struct htw_add_args add;
		struct htw_cancel_args cancel;
		struct htw_vector_args vector;
		__u64 id;
		__u64 deadline;
	} *low;
	int ret;

	low = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	ASSERT_NE(MAP_FAILED, low);

	ret = compat_ioctl(self->fd, HTW_INFO, &low->info);
	if (ret == -ENOSYS)
		SKIP(return, "this kernel runs no 32-bit programs");
	ASSERT_EQ(0, ret);
	EXPECT_EQ(self->tick, low->info.tick_ns);

	low->add = htw_rel(3600 * SEC, 0x123456789abcdef0ULL);
	ASSERT_EQ(0, compat_ioctl(self->fd, HTW_ADD, &low->add));
	EXPECT_EQ(1, htw_timers(self->fd));
	low->cancel = htw_cancel_of(low->add.id);
	ASSERT_EQ(0, compat_ioctl(self->fd, HTW_CANCEL, &low->cancel));
	EXPECT_EQ(0x123456789abcdef0ULL, low->cancel.cookie);
	EXPECT_EQ(0, htw_timers(self->fd));

	low->deadline = ~0ULL;
	low->vector = htw_vector_add(&low->id, &low->deadline, NULL, 1);
	ASSERT_EQ(0, compat_ioctl(self->fd, HTW_VECTOR, &low->vector));
	EXPECT_EQ(1, low->vector.done);
	EXPECT_EQ(0, low->vector.failed);
	EXPECT_EQ(1, htw_timers(self->fd));

	EXPECT_EQ(-ENOTTY, compat_ioctl(self->fd, _IO(HTW_IOC, 0xff), low));
}
#endif

TEST_HARNESS_MAIN
