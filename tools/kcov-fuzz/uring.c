// SPDX-License-Identifier: GPL-2.0-only
#include "uring.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "../common/htw-client.h"
#include "../common/random.h"
#include "ring.h"
#include "runs.h"
#include "scene.h"

/* Commands that are submitted together, and not waited for; the ring has room for more. */
#define LATE_MOST	32
#define LATE_ENTRIES	1000
/* Of user data: a command that was not waited for. */
#define LATE		(1ULL << 32)
/* One that is waited for, and another one before it. */
#define CALL		1
#define OTHER		2

/* What these are passed; nothing else is ever mapped there, as a worker may write to it late. */
static struct late {
	union {
		struct htw_add_args add;
		struct htw_mod_args mod;
		struct htw_cancel_args cancel;
		struct htw_vector_args vector;
		__u64 words[16];
	} args[LATE_MOST];
	__u64 ids[LATE_ENTRIES], deadlines[LATE_ENTRIES];
} *late;

#define LATE_SIZE	((sizeof(struct late) + 4095) & ~4095UL)

static __u64 way;
/* By user data. */
static long results[3];

/* Nothing is behind it, however large a count becomes. */
#define LATE_ROOM	(1UL << 36)

static void map_late(int prot)
{
	if (mmap(late, LATE_SIZE, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
	    MAP_FAILED)
		report_broken("mmap: %s", strerror(errno));
}

void uring_init(void)
{
	late = mmap(NULL, LATE_ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (late == MAP_FAILED)
		report_broken("mmap: %s", strerror(errno));
	map_late(PROT_READ | PROT_WRITE);
}

void uring_begin(void)
{
	way = 0;
}

/* All that a command may return which was made at some time, or not at all. */
static void check_late(long result)
{
	static const int errors[] = {
		0, EINVAL, ENOENT, ENOSPC, EDQUOT, ENOMEM, EFAULT, EBADF, ENOTTY, E2BIG, ECANCELED,
	};

	for (unsigned int i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		if (result == -errors[i])
			return;
	wrong("a command that was not waited for returned %ld", result);
}

static void on_completion(__u64 data, long result)
{
	if (data & LATE)
		check_late(result);
	else
		results[data % 3] = result;
}

static void fill(struct io_uring_sqe *sqe, int fd, unsigned int command, const void *arg,
		 __u64 data)
{
	const __u64 at = (uintptr_t)arg;

	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = fd;
	sqe->off = command;
	sqe->user_data = data;
	memcpy((char *)sqe + SQE_CMD, &at, sizeof(at));
}

static bool is_command(unsigned int command)
{
	switch (_IOC_NR(command)) {
	case _IOC_NR(HTW_ADD):
	case _IOC_NR(HTW_CANCEL):
	case _IOC_NR(HTW_MOD):
	case _IOC_NR(HTW_VECTOR):
		return true;
	default:
		return false;
	}
}

static bool is_large(void)
{
	return way & WAY_LARGE && ring_flags() & (IORING_SETUP_SQE128 | SETUP_SQE_MIXED);
}

/* An SQE for a command, or NULL: there is no room for a large one at the end of a ring. */
static struct io_uring_sqe *next_sqe(__u64 fd, unsigned int command, const void *arg, __u64 data)
{
	struct io_uring_sqe *sqe = ring_sqe(is_large());

	if (!sqe)
		return NULL;
	fill(sqe, fd_of(fd), command, arg, data);
	if (is_large() && !(ring_flags() & IORING_SETUP_SQE128))
		sqe->opcode = OP_URING_CMD128;
	if (way & WAY_FIXED) {
		ring_register(fd % RING_FILES, fd_of(fd));
		sqe->fd = fd % RING_FILES;
		sqe->flags |= IOSQE_FIXED_FILE;
	}
	if (way & WAY_ASYNC)
		sqe->flags |= IOSQE_ASYNC;
	if (way & WAY_DRAIN)
		sqe->flags |= IOSQE_IO_DRAIN;
	if (way & WAY_PERSONALITY)
		sqe->personality = ring_personality();
	return sqe;
}

/* A command of any ring that is carried out, and changes nothing. */
static struct io_uring_sqe *other_sqe(__u8 flags)
{
	struct io_uring_sqe *sqe = ring_sqe(false);

	if (!sqe)
		return NULL;
	sqe->opcode = IORING_OP_NOP;
	sqe->user_data = OTHER;
	sqe->flags = flags;
	return sqe;
}

/* Of a context that no other process uses: how many timers it has. */
static __u64 count_timers(__u64 fd)
{
	return scene.has_shared || (scene.fds[fd % FDS].flags & O_ACCMODE) == O_WRONLY ? 0 :
	       htw_timers(fd_of(fd));
}

/* Make a command that must fail with @error, and change nothing. */
static void refuse(__u64 fd, unsigned int command, void *arg, size_t room, bool is_linked,
		   int error)
{
	const __u64 timers = count_timers(fd);
	char before[256];
	struct io_uring_sqe *sqe;

	if (room > sizeof(before))
		room = sizeof(before);
	memcpy(before, arg, room);
	if (is_linked) {
		/* One that fails. */
		sqe = other_sqe(IOSQE_IO_LINK);
		if (!sqe)
			return;
		fill(sqe, fd_of(fd), 0, NULL, OTHER);
	}
	sqe = next_sqe(fd, command, arg, CALL);
	if (sqe && !is_linked)
		((char *)sqe)[SQE_CMD + 8 + (scene.nr_ids + way) % (is_large() ? 72 : 8)] = 1;
	ring_submit(0xff);
	results[CALL] = 1;
	ring_wait(on_completion);
	if (sqe && results[CALL] != -error)
		wrong("a command %#x that must fail with %s returned %ld", command, strerror(error),
		      results[CALL]);
	if (memcmp(before, arg, room))
		wrong("a command that failed has written to its argument");
	if (timers != count_timers(fd))
		wrong("a command that failed has changed the number of timers");
}

long uring_call(__u64 fd, unsigned int command, void *arg, size_t room)
{
	struct io_uring_sqe *sqe;

	if (!ring_is_open() || !(way & WAY_RING) || !is_command(command))
		return htw_call(fd_of(fd), command, arg);
	ring_wait(on_completion);
	if (way & WAY_RESERVED)
		refuse(fd, command, arg, room, false, EINVAL);
	if (way & WAY_FAILED)
		refuse(fd, command, arg, room, true, ECANCELED);

	if (way & WAY_LINKED)
		other_sqe(way & WAY_HARDLINKED ? IOSQE_IO_HARDLINK : IOSQE_IO_LINK);
	sqe = next_sqe(fd, command, arg, CALL);
	ring_submit(0xff);
	results[CALL] = 1;
	ring_wait(on_completion);
	/* No room for this one. */
	if (!sqe)
		return htw_call(fd_of(fd), command, arg);
	return results[CALL];
}

/* Flags that go with each other, but now and then any. */
static __u32 fit(__u64 flags)
{
	if (flags & IORING_SETUP_DEFER_TASKRUN)
		flags |= IORING_SETUP_SINGLE_ISSUER;
	if (!(flags & (IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_COOP_TASKRUN)))
		flags &= ~IORING_SETUP_TASKRUN_FLAG;
	if (flags & SETUP_CQE_MIXED)
		flags &= ~IORING_SETUP_CQE32;
	if (flags & SETUP_SQE_MIXED)
		flags &= ~IORING_SETUP_SQE128;
	return flags;
}

long run_ring(const __u64 *a)
{
	const __u32 flags = a[0] & RING_FLAGS;
	long ret;

	if (ring_is_open())
		return SKIPPED;
	ret = ring_open(a[2] % 8 == 7 ? flags : fit(flags), 2 + a[1] % 63);
	if (!ret)
		way = WAY_RING;
	return ret;
}

long run_ring_close(const __u64 *a)
{
	(void)a;
	if (!ring_is_open())
		return SKIPPED;
	ring_close();
	return 0;
}

long run_way(const __u64 *a)
{
	way = a[0] & WAYS;
	return 0;
}

/* Commands that do not exist, or not with this size or direction, or not for io_uring. */
long run_sqe(const __u64 *a)
{
	const __u32 command = HTW_IOC << 8 | (a[1] & 31) | (__u32)a[2] << 16;
	struct io_uring_sqe *sqe;
	char *at = array_buffers[0].pages;

	if (!ring_is_open() || (is_command(command) && _IOC_DIR(command) == _IOC_DIR(HTW_ADD)))
		return SKIPPED;
	memset(at, 0xa5, 256);
	ring_wait(on_completion);
	sqe = next_sqe(a[0], command, at, CALL);
	ring_submit(0xff);
	if (!sqe)
		return SKIPPED;
	results[CALL] = 1;
	ring_wait(on_completion);
	for (unsigned int i = 0; i < 256; i++)
		if (at[i] != (char)0xa5)
			wrong("command %#x has written", command);
	return results[CALL];
}

/* The argument of a command that is not waited for; return its number. */
static unsigned int draw_late(unsigned int i, __u64 *seed)
{
	const __u64 random = xorshift64(seed);

	memset(&late->args[i], 0, sizeof(late->args[i]));
	switch (random >> 60) {
	case 0 ... 4:
		late->args[i].add.deadline = draw_time(seed);
		return HTW_ADD;
	case 5 ... 7:
		late->args[i].cancel.id = id_of(random & 63);
		return HTW_CANCEL;
	case 8 ... 9:
		late->args[i].mod.id = id_of(random & 63);
		late->args[i].mod.flags = HTW_MOD_DEADLINE;
		late->args[i].mod.deadline = draw_time(seed);
		return HTW_MOD;
	case 10 ... 13:
		late->args[i].vector = (struct htw_vector_args){
			.op = 1 + random % 3, .count = (random >> 8) % LATE_ENTRIES,
			.ids = (uintptr_t)late->ids, .deadlines = (uintptr_t)late->deadlines,
		};
		if (late->args[i].vector.op == HTW_OP_MOD)
			late->args[i].vector.flags = HTW_MOD_DEADLINE;
		if (late->args[i].vector.op == HTW_OP_CANCEL)
			late->args[i].vector.deadlines = 0;
		return HTW_VECTOR;
	default:
		for (unsigned int k = 0; k < 16; k++)
			late->args[i].words[k] = one_in(seed, 2) ? 0 : xorshift64(seed);
		return one_in(seed, 2) ? HTW_ADD + (random & 0x3f0000) : (__u32)random;
	}
}

/* What a program may do while a worker has commands that it has submitted. */
static void meddle(const __u64 *a, __u64 *seed)
{
	switch (a[3] % 10) {
	case 0:
		map_late(PROT_NONE);
		break;
	case 1:
		map_late(PROT_READ | PROT_WRITE);
		break;
	case 2:
		if (mprotect(late, LATE_SIZE, PROT_READ))
			report_broken("mprotect: %s", strerror(errno));
		break;
	case 3:
		for (size_t i = 0; i < sizeof(*late) / 8; i += 1 + xorshift64(seed) % 9)
			((__u64 *)late)[i] = xorshift64(seed);
		break;
	case 4:
		ring_close();
		break;
	case 5:
		run_close(a);
		break;
	case 6:
		for (unsigned int i = 0; i < RING_FILES; i++)
			ring_register(i, -1);
		break;
	default:
		break;
	}
}

/* Change a byte of an SQE. */
static void spoil(struct io_uring_sqe *sqe, __u64 *seed)
{
	/* Of the address those with which it stays in @late, or is in no program's memory. */
	static const __u8 bytes[] = { 0, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
	const __u64 random = xorshift64(seed) >> 16;
	size_t at = 8 + (random >> 8) % 24;

	if (random & 1)
		at = SQE_CMD + bytes[(random >> 8) % sizeof(bytes)];
	((char *)sqe)[at] ^= random >> 24;
}

/* Many in one submission, with anything in the SQEs, and others' use of what they were passed. */
long run_submit(const __u64 *a)
{
	const unsigned int count = 1 + a[1] % LATE_MOST;
	__u64 seed = a[2] | 1;

	if (!ring_is_open())
		return SKIPPED;
	ring_wait(on_completion);
	map_late(PROT_READ | PROT_WRITE);
	for (unsigned int i = 0; i < LATE_ENTRIES; i++) {
		late->ids[i] = id_of(i & 63);
		late->deadlines[i] = draw_time(&seed);
	}
	for (unsigned int i = 0; i < count; i++) {
		const unsigned int command = draw_late(i, &seed);
		struct io_uring_sqe *sqe = next_sqe(a[0], command, &late->args[i], LATE | i);

		if (!sqe)
			break;
		if (one_in(&seed, 4))
			sqe->flags |= (xorshift64(&seed) >> 32) &
				      (IOSQE_IO_LINK | IOSQE_IO_HARDLINK | IOSQE_IO_DRAIN |
				       IOSQE_ASYNC | IOSQE_FIXED_FILE);
		if (one_in(&seed, 16))
			sqe->personality = xorshift64(&seed) >> 32;
		if (one_in(&seed, 16))
			spoil(sqe, &seed);
	}
	ring_submit(0xff);
	meddle(a, &seed);
	return 0;
}

long run_reap(const __u64 *a)
{
	(void)a;
	if (!ring_is_open())
		return SKIPPED;
	ring_wait(on_completion);
	return 0;
}
