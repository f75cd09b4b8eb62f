// SPDX-License-Identifier: GPL-2.0-only
#include "scene.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../common/clock.h"
#include "../common/htw-client.h"
#include "ring.h"
#include "uring.h"

struct scene scene;
struct buffer array_buffers[3];
static struct buffer arg_buffer;

void scene_init(void)
{
	buffer_init(&arg_buffer);
	for (int i = 0; i < 3; i++)
		buffer_init(&array_buffers[i]);
}

void scene_begin(void)
{
	memset(&scene, 0, sizeof(scene));
	scene.epoll = -1;
	uring_begin();
	for (int i = 0; i < FDS; i++)
		scene.fds[i].fd = -1;
}

unsigned int context_of(__u64 fd)
{
	return scene.fds[fd % FDS].context;
}

int fd_of(__u64 arg)
{
	return scene.fds[arg % FDS].fd;
}

/* Was it opened for what a command does? */
static bool is_open_for(__u64 fd, unsigned long command)
{
	const int mode = scene.fds[fd % FDS].flags & O_ACCMODE;

	switch (_IOC_NR(command)) {
	case _IOC_NR(HTW_INFO):
	case _IOC_NR(HTW_QUERY):
	case _IOC_NR(HTW_LIST):
		return mode != O_WRONLY;
	default:
		return mode != O_RDONLY;
	}
}

long call_with(__u64 fd, unsigned long command, __u64 kind, void *arg, size_t size)
{
	void *at = buffer_fill(&arg_buffer, kind, arg, size);
	long ret = uring_call(fd, command, at, buffer_is_good(kind) ? size : 0);

	if ((ret == -EBADF) == is_open_for(fd, command))
		wrong("it returned %ld for a descriptor with flags %#x", ret,
		      scene.fds[fd % FDS].flags);
	if (buffer_is_good(kind))
		memcpy(arg, at, size);
	return ret;
}

void note_id(__u64 fd, __u64 id)
{
	scene.ids[scene.nr_ids % IDS].id = id;
	scene.ids[scene.nr_ids++ % IDS].context = context_of(fd);
}

__u64 id_of(__u64 arg)
{
	__u64 id = scene.nr_ids ? scene.ids[(scene.nr_ids - 1 - (arg & 0xff) % IDS) % IDS].id : 0;

	if (scene.nr_ids && scene.nr_ids < IDS)
		id = scene.ids[scene.nr_ids - 1 - (arg & 0xff) % scene.nr_ids].id;
	switch (arg >> 8 & 0xff) {
	case 1:
		return 0;
	case 2:
		return id + (1ULL << 32);
	case 3:
		return id - (1ULL << 32);
	case 4:
		return id + 1;
	case 5:
		return id & ~63ULL;
	case 6:
		return id | 0xffffff00;
	case 7:
		return ~0ULL;
	default:
		return id;
	}
}

bool has_ended(__u64 fd, __u64 id)
{
	for (unsigned int i = 0; i < IDS; i++)
		if (id && scene.ended[i].id == id && scene.ended[i].context == context_of(fd))
			return true;
	return false;
}

void check_id(__u64 fd, __u64 id, long ret)
{
	if (!ret && has_ended(fd, id))
		wrong("id %llx has ended, but the call found it", id);
}

static __u64 now_on(__u32 clock)
{
	if (!scene.now || scene.now_clock != clock) {
		scene.now = clock_ns(clock);
		scene.now_clock = clock;
	}
	return scene.now;
}

static __u64 now_of(__u64 fd)
{
	__u32 clock = scene.contexts[context_of(fd)].clock;

	return clock == HTW_CLOCK_MANUAL ? 0 : now_on(clock);
}

__u64 time_of(__u64 fd, __u64 arg, __u64 flags)
{
	return flags & HTW_F_ABS && arg && arg < 4000 * SEC ? now_of(fd) + arg : arg;
}

void check_event(__u64 fd, const struct htw_event *ev)
{
	if (ev->flags & ~HTW_EVENT_MORE || ev->reserved || !ev->id)
		wrong("an event of id %llx has flags %x and reserved %x", ev->id, ev->flags,
		      ev->reserved);
	if (ev->taken < ev->deadline)
		wrong("EARLY: deadline %llu, taken %llu", ev->deadline, ev->taken);
	if (!scene.has_shared && scene.contexts[context_of(fd)].clock == CLOCK_MONOTONIC &&
	    ev->taken > now_on(CLOCK_MONOTONIC))
		wrong("taken at %llu, which is still to come", ev->taken);
	if (has_ended(fd, ev->id))
		wrong("id %llx has ended, but has an event", ev->id);
}

void check_entry(__u64 fd, const struct htw_timer_info *q)
{
	if (!q->id || q->state < HTW_STATE_PENDING || q->state > HTW_STATE_DISARMED ||
	    q->flags & ~HTW_F_KEEP)
		wrong("id %llx has state %u and flags %x", q->id, q->state, q->flags);
	if (has_ended(fd, q->id))
		wrong("id %llx has ended, but is reported", q->id);
}

/*
 * Let work items and grace periods pass: time travel makes that
 * free, and what they reach is not taken for the next program's.
 */
static void settle(void)
{
	sleep_until(now_ns() + 50 * MSEC);
}

void scene_end(void)
{
	if (scene.has_become && setresuid(0, 0, 0))
		report_broken("setresuid: %s", strerror(errno));
	if (scene.epoll >= 0)
		close(scene.epoll);
	if (ring_is_open())
		ring_close();
	for (int i = 0; i < FDS; i++)
		if (scene.fds[i].fd >= 0)
			close(scene.fds[i].fd);
	while (scene.children) {
		int status;

		if (wait(&status) < 0) {
			if (errno == EINTR)
				continue;
			report_broken("wait: %s", strerror(errno));
		}
		scene.children--;
		if (!WIFEXITED(status) || WEXITSTATUS(status))
			report_violation("a child ended with status %x", status);
	}
	settle();
}

void note_ended(__u64 fd, __u64 id)
{
	scene.ended[scene.nr_ended % IDS].id = id;
	scene.ended[scene.nr_ended++ % IDS].context = context_of(fd);
}
