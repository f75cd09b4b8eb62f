// SPDX-License-Identifier: GPL-2.0-only
#include "ring.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../common/clock.h"
#include "../torture/report.h"
#include "scene.h"

#define CQE_SKIP	(1U << 5)
#define CQE_32		(1U << 15)
/* A command that takes longer has been lost. */
#define LOST_NS		(10 * SEC)

static struct ring {
	int fd;
	__u32 flags;
	__u16 personality;
	char *map;
	size_t map_size;
	char *sqes;
	size_t sqes_size;
	size_t sqe_size;
	struct io_sqring_offsets sq;
	struct io_cqring_offsets cq;
	unsigned int entries;
	__u32 tail;		/* of SQEs that have been filled in */
	__u64 begins;		/* a bit for each slot: an SQE begins there, which may take two */
	unsigned int outstanding;	/* CQEs that are to come for what has been submitted */
} ring = { .fd = -1 };

#define WORD(offset)	((__u32 *)(ring.map + (offset)))

static long enter(unsigned int submit, unsigned int complete)
{
	long ret = syscall(SYS_io_uring_enter, ring.fd, submit, complete,
			   complete ? IORING_ENTER_GETEVENTS : 0, NULL, 0);

	return ret < 0 ? -errno : ret;
}

static long reg(unsigned int what, const void *arg, unsigned int count)
{
	long ret = syscall(SYS_io_uring_register, ring.fd, what, arg, count);

	return ret < 0 ? -errno : ret;
}

bool ring_is_open(void)
{
	return ring.fd >= 0;
}

__u32 ring_flags(void)
{
	return ring.flags;
}

__u16 ring_personality(void)
{
	return ring.personality;
}

static char *map(size_t size, off_t what)
{
	char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd,
			what);

	if (at == MAP_FAILED)
		report_broken("mmap of a ring: %s", strerror(errno));
	/* A child would use it at the same time. */
	if (madvise(at, size, MADV_DONTFORK))
		report_broken("madvise: %s", strerror(errno));
	return at;
}

long ring_open(__u32 flags, unsigned int entries)
{
	static const int none[RING_FILES] = { -1, -1, -1, -1 };
	struct io_uring_params p = { .flags = flags, .cq_entries = entries };
	const int fd = syscall(SYS_io_uring_setup, entries, &p);
	size_t array;
	long ret;

	if (fd < 0)
		return -errno;
	ring = (struct ring){
		.fd = fd, .flags = flags, .sq = p.sq_off, .cq = p.cq_off, .entries = p.sq_entries,
		.sqe_size = sizeof(struct io_uring_sqe) << !!(flags & IORING_SETUP_SQE128),
	};
	ring.map_size = p.cq_off.cqes + p.cq_entries *
			(sizeof(struct io_uring_cqe) << !!(flags & IORING_SETUP_CQE32));
	array = p.sq_off.array + p.sq_entries * sizeof(__u32);
	if (!(flags & SETUP_NO_SQARRAY) && ring.map_size < array)
		ring.map_size = array;
	ring.map = map(ring.map_size, IORING_OFF_SQ_RING);
	ring.sqes_size = p.sq_entries * ring.sqe_size;
	ring.sqes = map(ring.sqes_size, IORING_OFF_SQES);
	ret = reg(IORING_REGISTER_FILES, none, RING_FILES);
	if (ret)
		report_broken("IORING_REGISTER_FILES: %s", strerror(-ret));
	ret = reg(IORING_REGISTER_PERSONALITY, NULL, 0);
	if (ret < 0)
		report_broken("IORING_REGISTER_PERSONALITY: %s", strerror(-ret));
	ring.personality = ret;
	return 0;
}

void ring_close(void)
{
	/*
	 * The kernel looks again and again, without a sleep, whether a worker that has begun is
	 * done, and time, which would let that one go on, stands still meanwhile.
	 */
	if (ring.outstanding)
		sleep_until(now_ns() + MSEC);
	close(ring.fd);
	munmap(ring.map, ring.map_size);
	munmap(ring.sqes, ring.sqes_size);
	ring.fd = -1;
}

void ring_forget(void)
{
	ring.fd = -1;
}

void ring_register(unsigned int at, int fd)
{
	struct io_uring_files_update update = { .offset = at, .fds = (uintptr_t)&fd };
	long ret = reg(IORING_REGISTER_FILES_UPDATE, &update, 1);

	if (ret != 1)
		report_broken("IORING_REGISTER_FILES_UPDATE: %s", strerror(-ret));
}

static struct io_uring_sqe *slot(void)
{
	const __u32 at = ring.tail++ % ring.entries;
	char *sqe = ring.sqes + at * ring.sqe_size;

	if (!(ring.flags & SETUP_NO_SQARRAY))
		WORD(ring.sq.array)[at] = at;
	return memset(sqe, 0, ring.sqe_size);
}

struct io_uring_sqe *ring_sqe(bool is_large)
{
	const unsigned int used = ring.tail - *WORD(ring.sq.tail);
	const bool takes_two = is_large && !(ring.flags & IORING_SETUP_SQE128);
	struct io_uring_sqe *sqe;

	if (used + 1 + takes_two > ring.entries ||
	    (takes_two && ring.tail % ring.entries == ring.entries - 1))
		return NULL;
	ring.begins |= 1ULL << ring.tail % ring.entries;
	sqe = slot();
	if (takes_two)
		slot();
	return sqe;
}

unsigned int ring_submit(int byte)
{
	const __u32 from = *WORD(ring.sq.tail), count = ring.tail - from;
	__u32 left;
	long ret;

	__atomic_store_n(WORD(ring.sq.tail), ring.tail, __ATOMIC_RELEASE);
	do {
		ret = enter(count, 0);
	} while (ret == -EINTR);
	left = ring.tail - __atomic_load_n(WORD(ring.sq.head), __ATOMIC_ACQUIRE);
	if (ret < 0 && ret != -EBUSY && ret != -EEXIST)
		wrong("io_uring_enter() of %u SQEs failed with %s", count, strerror(-ret));
	/* Those behind one that was refused, without IORING_SETUP_SUBMIT_ALL: take them back. */
	if (left) {
		ring.tail -= left;
		__atomic_store_n(WORD(ring.sq.tail), ring.tail, __ATOMIC_RELEASE);
	}
	for (__u32 i = from; i != ring.tail; i++) {
		ring.outstanding += ring.begins >> i % ring.entries & 1;
		memset(ring.sqes + i % ring.entries * ring.sqe_size, byte, ring.sqe_size);
	}
	ring.begins = 0;
	return left;
}

/*
 * Consume a completion, if there is one. Not those of SQEs of zeros, which do nothing: the second
 * slot of a larger one is one if the first is refused.
 */
static bool take(__u64 *data, long *result)
{
	const size_t size = sizeof(struct io_uring_cqe) << !!(ring.flags & IORING_SETUP_CQE32);
	const __u32 mask = *WORD(ring.cq.ring_mask);
	__u32 head = *WORD(ring.cq.head), flags;
	bool is_there = false;

	while (!is_there && head != __atomic_load_n(WORD(ring.cq.tail), __ATOMIC_ACQUIRE)) {
		const char *at = ring.map + ring.cq.cqes + (head & mask) * size;
		const struct io_uring_cqe *cqe = (const void *)at;

		flags = ring.flags & SETUP_CQE_MIXED ? cqe->flags : 0;
		*data = cqe->user_data;
		*result = cqe->res;
		head += flags & CQE_32 ? 2 : 1;
		is_there = !(flags & CQE_SKIP) && *data;
	}
	__atomic_store_n(WORD(ring.cq.head), head, __ATOMIC_RELEASE);
	return is_there;
}

void ring_wait(void (*on)(__u64 data, long result))
{
	const __u64 end = now_ns() + LOST_NS;
	__u64 data;
	long result;

	while (ring.outstanding) {
		if (take(&data, &result)) {
			ring.outstanding--;
			on(data, result);
			continue;
		}
		if (now_ns() > end) {
			wrong("%u commands do not complete", ring.outstanding);
			ring.outstanding = 0;
			return;
		}
		enter(0, 1);
		/* Returns early, with IORING_SETUP_IOPOLL, or for a signal. */
		if (*WORD(ring.cq.head) == __atomic_load_n(WORD(ring.cq.tail), __ATOMIC_ACQUIRE))
			sleep_until(now_ns() + 100 * USEC);
	}
	if (take(&data, &result))
		wrong("a completion, %ld, of no command", result);
}
