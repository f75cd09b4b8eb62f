// SPDX-License-Identifier: GPL-2.0-only
/*
 * Read and print expirations
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

#include "events.h"

static void print_json(const struct htw_event *ev)
{
	struct json_object *object = json_new();

	json_add_str(object, "event", "expired");
	json_add_hex(object, "id", ev->id);
	json_add_hex(object, "cookie", ev->cookie);
	json_add_u64(object, "deadline_ns", ev->deadline);
	json_add_u64(object, "taken_ns", ev->taken);
	json_add_u64(object, "missed", ev->missed);
	json_add_bool(object, "more", ev->flags & HTW_EVENT_MORE);
	json_print(object);
}

void print_event(const struct htw_event *ev)
{
	if (opt.json) {
		print_json(ev);
		return;
	}
	printf("expired  %s  cookie %s", show_hex(ev->id), show_hex(ev->cookie));
	printf("  %s late", show_duration(ev->taken - ev->deadline));
	if (ev->missed)
		printf("  %s missed", show_grouped(ev->missed));
	if (!(ev->flags & HTW_EVENT_MORE))
		printf("  last");
	putchar('\n');
	fflush(stdout);
}

/*
 * Wait until @end for the first event and read what is available, at most
 * @room. Set *count, which is zero on a timeout. Return 0 or an errno, which is
 * EPIPE if nobody reads the output any more: an event that is taken and cannot
 * be printed would be lost.
 */
int wait_events(int fd, uint64_t end, struct htw_event *events, unsigned int room,
		unsigned int *count)
{
	const struct iovec to = { .iov_base = events, .iov_len = room * sizeof(*events) };
	struct pollfd fds[] = {
		{ .fd = fd, .events = POLLIN },
		{ .fd = STDOUT_FILENO },
	};

	*count = 0;
	for (;;) {
		uint64_t now = now_ns();
		int timeout = -1;
		ssize_t n;

		if (end != UINT64_MAX) {
			/*
			 * Round up, or the last millisecond would be spent in a
			 * loop.
			 */
			uint64_t left = now < end ? (end - now - 1) / NSEC_PER_MSEC + 1 : 0;

			timeout = left < INT32_MAX ? (int)left : INT32_MAX;
		}
		if (poll(fds, ARRAY_SIZE(fds), timeout) < 0) {
			if (errno == EINTR)
				continue;
			return errno;
		}
		if (fds[1].revents & (POLLERR | POLLHUP))
			return EPIPE;
		if (!(fds[0].revents & POLLIN)) {
			if (now_ns() >= end)
				return 0;
			continue;
		}
		/* Another reader may have taken the event, and read() would block. */
		n = preadv2(fd, &to, 1, -1, RWF_NOWAIT);
		if (n >= 0) {
			*count = n / sizeof(*events);
			return 0;
		}
		if (errno != EINTR && errno != EAGAIN)
			return errno;
	}
}

/* Print why wait_events() failed; return the exit code. */
int wait_failed(int err)
{
	if (err == EPIPE)
		return end_without_output();
	return call_failed(err, "reading", "cannot read expirations");
}
