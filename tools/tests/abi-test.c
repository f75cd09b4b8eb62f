// SPDX-License-Identifier: GPL-2.0-only
/*
 * Layout of the uAPI, command numbers, and unknown or reserved input
 */
#include "htw-test.h"

_Static_assert(sizeof(struct htw_add) == 56, "htw_add");
_Static_assert(sizeof(struct htw_cancel) == 56, "htw_cancel");
_Static_assert(sizeof(struct htw_mod) == 56, "htw_mod");
_Static_assert(sizeof(struct htw_query) == 56, "htw_query");
_Static_assert(sizeof(struct htw_op) == 64, "htw_op");
_Static_assert(sizeof(struct htw_batch) == 32, "htw_batch");
_Static_assert(sizeof(struct htw_vector) == 72, "htw_vector");
_Static_assert(sizeof(struct htw_event) == 48, "htw_event");
_Static_assert(sizeof(struct htw_setup) == 96, "htw_setup");
_Static_assert(sizeof(struct htw_info) == 120, "htw_info");
_Static_assert(sizeof(struct htw_cancel_all) == 32, "htw_cancel_all");
_Static_assert(sizeof(struct htw_list) == 48, "htw_list");
_Static_assert(sizeof(struct htw_advance) == 32, "htw_advance");
_Static_assert(sizeof(struct htw_next) == 72, "htw_next");
_Static_assert(sizeof(struct htw_ring) == 128, "htw_ring");

_Static_assert(HTW_INFO == 0x8078e701, "HTW_INFO");
_Static_assert(HTW_ADD == 0xc038e702, "HTW_ADD");
_Static_assert(HTW_CANCEL == 0xc038e703, "HTW_CANCEL");
_Static_assert(HTW_BATCH == 0xc020e706, "HTW_BATCH");
_Static_assert(HTW_VECTOR == 0xc048e70c, "HTW_VECTOR");

static const struct {
	unsigned long cmd;
	__u64 feature;
} commands[] = {
	{ HTW_SETUP, HTW_FEATURE_SETUP },
	{ HTW_INFO, HTW_FEATURE_ADD },
	{ HTW_ADD, HTW_FEATURE_ADD },
	{ HTW_CANCEL, HTW_FEATURE_ADD },
	{ HTW_MOD, HTW_FEATURE_MOD },
	{ HTW_QUERY, HTW_FEATURE_MOD },
	{ HTW_BATCH, HTW_FEATURE_ADD },
	{ HTW_CANCEL_ALL, HTW_FEATURE_ALL },
	{ HTW_LIST, HTW_FEATURE_ALL },
	{ HTW_HARVEST, HTW_FEATURE_ALL },
	{ HTW_ADVANCE, HTW_FEATURE_MANUAL },
	{ HTW_FLUSH, HTW_FEATURE_RING },
	{ HTW_VECTOR, HTW_FEATURE_VECTOR },
	{ HTW_NEXT, HTW_FEATURE_NEXT },
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
		if (commands[i].cmd == cmd)
			return true;
	return false;
}

HTW_TEST(commands_by_feature)
{
	unsigned int i;

	ASSERT_TRUE(self->features & HTW_FEATURE_ADD);
	for (i = 0; i < ARRAY_SIZE(commands); i++) {
		__u64 zero[64] = { 0 };

		if (self->features & commands[i].feature) {
			EXPECT_NE(-ENOTTY, htw_call(self->fd, commands[i].cmd, zero));
		} else {
			EXPECT_TRUE(unknown(self->fd, commands[i].cmd)) {
				TH_LOG("command %lx", commands[i].cmd);
			}
		}
	}
}

HTW_TEST(unknown_numbers)
{
	unsigned int nr, i, last = 0;

	for (i = 0; i < ARRAY_SIZE(commands); i++)
		if (_IOC_NR(commands[i].cmd) > last)
			last = _IOC_NR(commands[i].cmd);
	for (nr = 0; nr < 256; nr++) {
		if (!is_command(_IO(HTW_IOC, nr)))
			EXPECT_TRUE(unknown(self->fd, _IO(HTW_IOC, nr)));
		if (nr > last) {
			EXPECT_TRUE(unknown(self->fd, _IOWR(HTW_IOC, nr, struct htw_add)));
			EXPECT_TRUE(unknown(self->fd, _IOR(HTW_IOC, nr, struct htw_info)));
		}
	}
	EXPECT_EQ(0, htw_timers(self->fd));
}

/* Direction and size are part of a command: a later version may define other sizes. */
HTW_TEST(known_numbers_of_other_shape)
{
	unsigned int i, dir;

	for (i = 0; i < ARRAY_SIZE(commands); i++) {
		unsigned int nr = _IOC_NR(commands[i].cmd);
		unsigned int size = _IOC_SIZE(commands[i].cmd);

		for (dir = 0; dir < 4; dir++) {
			unsigned long cmd = _IOC(dir, HTW_IOC, nr, size);

			if (!is_command(cmd))
				EXPECT_TRUE(unknown(self->fd, cmd));
			EXPECT_TRUE(unknown(self->fd, _IOC(dir, HTW_IOC, nr, size + 8)));
		}
		EXPECT_TRUE(unknown(self->fd, commands[i].cmd ^ 0x100));
	}
	EXPECT_EQ(0, htw_timers(self->fd));
}

HTW_TEST(info_of_a_new_context)
{
	struct htw_info info;
	unsigned int i;

	memset(&info, 0xa5, sizeof(info));
	ASSERT_EQ(0, htw_call(self->fd, HTW_INFO, &info));
	EXPECT_EQ(htw_file_number(HTW_MODULE "tick_us") * USEC, info.tick_ns);
	EXPECT_EQ(htw_file_number(HTW_MODULE "max_timers"), info.limit);
	EXPECT_EQ(0, info.timers);
	EXPECT_EQ(0, info.expired);
	EXPECT_EQ(CLOCK_MONOTONIC, info.clock);
	EXPECT_EQ(-1, info.home_cpu);
	EXPECT_EQ(0, info.flags);
	ASSERT_GE(HTW_MAX_LEVELS, info.levels);
	ASSERT_LE(1, info.levels);
	for (i = 0; i < HTW_MAX_LEVELS; i++) {
		EXPECT_EQ(i < info.levels, info.slots[i] >= 2);
		EXPECT_EQ(i >= info.levels, info.slots[i] == 0);
	}
	EXPECT_EQ(0, info.ring_entries);
	EXPECT_EQ(0, info.reserved0);
	for (i = 0; i < ARRAY_SIZE(info.reserved); i++)
		EXPECT_EQ(0, info.reserved[i]);
}

HTW_TEST(info_counts)
{
	struct htw_event ev;
	struct htw_info info;
	__u64 far;

	far = htw_start(self->fd, 3600 * SEC, 1);
	ASSERT_NE(0, far);
	ASSERT_NE(0, htw_start(self->fd, 0, 2));
	ASSERT_TRUE(htw_wait_readable(self->fd));
	info = htw_info(self->fd);
	EXPECT_EQ(2, info.timers);
	EXPECT_EQ(1, info.expired);

	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	info = htw_info(self->fd);
	EXPECT_EQ(1, info.timers);
	EXPECT_EQ(0, info.expired);

	ASSERT_EQ(0, htw_stop(self->fd, far));
	EXPECT_EQ(0, htw_timers(self->fd));
}

HTW_TEST(info_to_a_bad_address)
{
	struct htw_info info = { 0 };

	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_INFO, NULL));
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_INFO,
				    htw_read_only(&info, sizeof(info))));
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_INFO,
				    htw_before_page(sizeof(info) - 1, PROT_NONE)));
}

HTW_TEST(add_flags)
{
	__u32 known = HTW_F_ABS;
	unsigned int bit;

	if (self->features & HTW_FEATURE_KEEP)
		known |= HTW_F_KEEP;
	if (self->features & HTW_FEATURE_CANCEL_ON_SET)
		known |= HTW_F_CANCEL_ON_SET;
	for (bit = 0; bit < 32; bit++) {
		struct htw_add add = htw_abs(now_ns() + MSEC, 1), before;

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

HTW_TEST(add_reserved)
{
	unsigned int bit;

	for (bit = 0; bit < 64; bit++) {
		struct htw_add add = htw_rel(0, 1);

		add.reserved = 1ULL << bit;
		EXPECT_EQ(-EINVAL, htw_call(self->fd, HTW_ADD, &add));
		EXPECT_EQ(POISON, add.id);
		EXPECT_EQ(0, htw_timers(self->fd));
	}
	EXPECT_TRUE(htw_quiet_for(self->fd, 20 * MSEC));
}

HTW_TEST(fields_without_their_feature)
{
	struct htw_add add;

	if (!(self->features & HTW_FEATURE_SLACK)) {
		add = htw_rel(0, 1);
		add.slack = 1;
		EXPECT_EQ(-EINVAL, htw_call(self->fd, HTW_ADD, &add));
		add.slack = 1ULL << 63;
		EXPECT_EQ(-EINVAL, htw_call(self->fd, HTW_ADD, &add));
		EXPECT_EQ(POISON, add.id);
	}
	if (!(self->features & HTW_FEATURE_FIRINGS)) {
		add = htw_rel(0, 1);
		add.interval = SEC;
		add.firings = 1;
		EXPECT_EQ(-EINVAL, htw_call(self->fd, HTW_ADD, &add));
		EXPECT_EQ(POISON, add.id);
	}
	/* The same call with these fields cleared succeeds. */
	add = htw_rel(3600 * SEC, 1);
	EXPECT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	EXPECT_EQ(1, htw_timers(self->fd));
}

HTW_TEST(cancel_flags_and_reserved)
{
	__u64 id = htw_start(self->fd, 3600 * SEC, 1);
	struct htw_cancel cancel;
	unsigned int bit;

	ASSERT_NE(0, id);
	for (bit = 0; bit < 32; bit++) {
		cancel = htw_cancel_of(id, 1U << bit);
		if (cancel.flags != HTW_CANCEL_DISCARD) {
			EXPECT_EQ(-EINVAL, htw_call(self->fd, HTW_CANCEL, &cancel));
			EXPECT_TRUE(htw_cancel_untouched(&cancel));
		}
		cancel = htw_cancel_of(id, 0);
		cancel.reserved0 = 1U << bit;
		EXPECT_EQ(-EINVAL, htw_call(self->fd, HTW_CANCEL, &cancel));
		EXPECT_TRUE(htw_cancel_untouched(&cancel));
	}
	for (bit = 0; bit < 128; bit++) {
		cancel = htw_cancel_of(id, 0);
		cancel.reserved[bit / 64] = 1ULL << bit % 64;
		EXPECT_EQ(-EINVAL, htw_call(self->fd, HTW_CANCEL, &cancel));
		EXPECT_TRUE(htw_cancel_untouched(&cancel));
	}
	EXPECT_EQ(1, htw_timers(self->fd));
	EXPECT_EQ(0, htw_stop(self->fd, id));
}

HTW_TEST(batch_flags_and_reserved)
{
	struct htw_op op = htw_op_add(0, 1), before = op;
	struct htw_batch batch;
	unsigned int bit;

	for (bit = 0; bit < 32; bit++) {
		batch = htw_batch_of(&op, 1);
		batch.flags = 1U << bit;
		EXPECT_EQ(-EINVAL, htw_call(self->fd, HTW_BATCH, &batch));
		EXPECT_EQ(POISON32, batch.done);
		batch = htw_batch_of(&op, 1);
		batch.reserved0 = 1U << bit;
		EXPECT_EQ(-EINVAL, htw_call(self->fd, HTW_BATCH, &batch));
		EXPECT_EQ(POISON32, batch.done);
	}
	for (bit = 0; bit < 64; bit++) {
		batch = htw_batch_of(&op, 1);
		batch.reserved = 1ULL << bit;
		EXPECT_EQ(-EINVAL, htw_call(self->fd, HTW_BATCH, &batch));
		EXPECT_EQ(POISON32, batch.done);
	}
	EXPECT_EQ(0, memcmp(&before, &op, sizeof(op)));
	EXPECT_EQ(0, htw_timers(self->fd));
	EXPECT_TRUE(htw_quiet_for(self->fd, 20 * MSEC));
}

HTW_TEST(mmap_without_its_feature)
{
	if (!(self->features & HTW_FEATURE_RING))
		EXPECT_EQ(MAP_FAILED, mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
					   MAP_SHARED, self->fd, HTW_OFF_RING));
	if (!(self->features & HTW_FEATURE_TABLE))
		EXPECT_EQ(MAP_FAILED, mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
					   MAP_SHARED, self->fd, HTW_OFF_TABLE));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
				   MAP_SHARED, self->fd, 1ULL << 40));
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
		struct htw_info info;
		struct htw_add add;
		struct htw_cancel cancel;
		struct htw_batch batch;
		struct htw_op op;
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
	low->cancel = htw_cancel_of(low->add.id, 0);
	ASSERT_EQ(0, compat_ioctl(self->fd, HTW_CANCEL, &low->cancel));
	EXPECT_EQ(0x123456789abcdef0ULL, low->cancel.cookie);
	EXPECT_EQ(0, htw_timers(self->fd));

	low->op = htw_op_add(~0ULL, 1);
	low->batch = htw_batch_of(&low->op, 1);
	ASSERT_EQ(0, compat_ioctl(self->fd, HTW_BATCH, &low->batch));
	EXPECT_EQ(1, low->batch.done);
	EXPECT_EQ(0, low->op.result);
	EXPECT_EQ(1, htw_timers(self->fd));

	EXPECT_EQ(-ENOTTY, compat_ioctl(self->fd, _IO(HTW_IOC, 0xff), low));
}
#endif

TEST_HARNESS_MAIN
