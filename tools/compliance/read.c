// SPDX-License-Identifier: GPL-2.0-only
/* read(), readv() and poll() */
#include <poll.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include "areas.h"
#include "subject.h"

static void check_events(void)
{
	static const size_t small[] = { 0, 1, 8, sizeof(struct htw_event) - 1 };
	struct subject s = open_witnessed();
	struct htw_event ev[4], *p;
	__u64 id[3];
	char what[32];

	group("read, readv");
	begin("EAGAIN if nothing is due");
	expect_result("read()", -EAGAIN, get(&s, ev, 4));

	begin("every field of an event is written");
	id[0] = start_due(&s, (struct htw_add_args){ .deadline = 1, .cookie = COOKIE });
	if (expect_result("read()", 1, get(&s, ev, 4))) {
		expect_event(&s, &ev[0], id[0], COOKIE, 0);
		expect_number("missed", 0, ev[0].missed);
		expect_number("deadline", s.now - s.tick + 1, ev[0].deadline);
	}

	begin("EINVAL for a buffer smaller than an event");
	for (unsigned int waiting = 0; waiting < 2; waiting++) {
		if (waiting)
			for (unsigned int i = 0; i < 3; i++)
				id[i] = start_due(&s, (struct htw_add_args){
					.deadline = 1, .cookie = COOKIE });
		for (size_t i = 0; i < ARRAY_SIZE(small); i++) {
			snprintf(what, sizeof(what), "%zu bytes", small[i]);
			remember(&s);
			memset(ev, 0xa5, sizeof(ev));
			expect_result(what, -EINVAL, syscall(SYS_read, s.fd, ev, small[i]) < 0 ?
				      -errno : 0);
			expect_number("the buffer's contents", POISON, ev[0].id);
			expect_same_state(&s, what);
		}
	}

	begin("EFAULT, and the event stays");
	for (size_t i = 0; i < ARRAY_SIZE(bad_addresses); i++) {
		remember(&s);
		expect_result("read()", -EFAULT, syscall(SYS_read, s.fd, bad_addresses[i],
							 sizeof(*ev)) < 0 ? -errno : 0);
		expect_same_state(&s, "after it");
	}
	expect_result("read() to read-only memory", -EFAULT,
		      syscall(SYS_read, s.fd, read_only(ev, sizeof(*ev)), sizeof(*ev)) < 0 ?
		      -errno : 0);
	p = before_hole(sizeof(*p));
	expect_result("read() whose last byte is inaccessible", -EFAULT,
		      syscall(SYS_read, s.fd, (char *)p + 1, sizeof(*p)) < 0 ? -errno : 0);
	expect_same_state(&s, "after it");

	begin("as many whole events as fit, in order");
	expect_number("read() of 95 bytes", sizeof(*ev),
		      syscall(SYS_read, s.fd, ev, 2 * sizeof(*ev) - 1));
	expect_event(&s, &ev[0], id[0], COOKIE, 0);
	expect_number("read() of two, the second into inaccessible memory", sizeof(*p),
		      syscall(SYS_read, s.fd, p, 2 * sizeof(*p)));
	expect_event(&s, p, id[1], COOKIE, 0);
	expect_result("read() of four", 1, get(&s, ev, 4));
	expect_event(&s, &ev[0], id[2], COOKIE, 0);

	begin("readv, with an event across its buffers");
	for (unsigned int i = 0; i < 2; i++)
		id[i] = start_due(&s, (struct htw_add_args){ .deadline = 1, .cookie = COOKIE });
	memset(ev, 0xa5, sizeof(ev));
	{
		struct iovec iov[] = {
			{ ev, 7 }, { NULL, 0 }, { (char *)ev + 7, 48 }, { (char *)ev + 55, 80 },
		};

		expect_number("readv()", 2 * sizeof(*ev), readv(s.fd, iov, ARRAY_SIZE(iov)));
		expect_event(&s, &ev[0], id[0], COOKIE, 0);
		expect_event(&s, &ev[1], id[1], COOKIE, 0);
		expect_result("readv() again", -EAGAIN, readv(s.fd, iov, ARRAY_SIZE(iov)) < 0 ?
			      -errno : 0);
		expect_result("readv() of 47 bytes", -EINVAL,
			      readv(s.fd, (struct iovec[]){ { ev, 40 }, { ev, 7 } }, 2) < 0 ?
			      -errno : 0);
	}

	begin("a periodic event: HTW_EVENT_MORE, missed");
	id[0] = start_due(&s, (struct htw_add_args){
		.deadline = 1, .cookie = COOKIE, .interval = 10 * s.tick });
	pass(&s, 70 * s.tick);
	if (expect_result("read()", 1, get(&s, ev, 4))) {
		expect_event(&s, &ev[0], id[0], COOKIE, HTW_EVENT_MORE);
		expect_number("missed", 7, ev[0].missed);
	}
	stop(&s, id[0]);
	close_subject(&s);
}

static void check_poll(void)
{
	struct subject s = open_witnessed();
	struct htw_event ev[2];

	group("poll");
	begin("neither readable nor writable if nothing is due");
	expect_number("poll()", 0, poll_fd(&s, 0));
	begin("readable until all is read");
	start_due(&s, (struct htw_add_args){ .deadline = 1 });
	start_due(&s, (struct htw_add_args){ .deadline = 1 });
	expect_number("poll() with two", POLLIN, poll_fd(&s, 0));
	expect_result("read()", 1, get(&s, ev, 1));
	expect_number("poll() with one", POLLIN, poll_fd(&s, 0));
	expect_result("read()", 1, get(&s, ev, 1));
	expect_number("poll() with none", 0, poll_fd(&s, 0));
	begin("not readable after what was due has been cancelled");
	stop(&s, start_due(&s, (struct htw_add_args){ .deadline = 1 }));
	expect_number("poll()", 0, poll_fd(&s, 0));
	close_subject(&s);
}

void check_read(void)
{
	check_events();
	check_poll();
}
