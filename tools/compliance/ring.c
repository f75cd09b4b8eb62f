// SPDX-License-Identifier: GPL-2.0-only
/* The mapped ring and HTW_FLUSH */
#include <poll.h>
#include <sys/mman.h>
#include "areas.h"
#include "subject.h"

static void check_flush(void)
{
	struct subject s;

	if (!supported("HTW_FLUSH", HTW_FLUSH, HTW_FEATURE_RING))
		return;
	begin("ENXIO without a ring");
	s = open_fresh();
	expect_result("HTW_FLUSH", -ENXIO, htw_call(s.fd, HTW_FLUSH, NULL));
	close_subject(&s);
}

static void check_mapped(void)
{
	const struct htw_setup setup = {
		.flags = HTW_SETUP_RING | HTW_SETUP_CLOCK, .ring_entries = 128,
		.clock = HTW_CLOCK_MANUAL,
	};
	const size_t size = (sizeof(struct htw_ring) + 128 * sizeof(struct htw_event) +
			     page - 1) / page * page;
	struct subject s = open_fresh();
	const int prot = PROT_READ | PROT_WRITE;
	const struct htw_event *events;
	struct htw_ring *ring;
	struct htw_event ev;
	__u64 id[129];
	long p;

	group("the ring");
	if (!has(HTW_FEATURE_RING | HTW_FEATURE_MANUAL)) {
		note("not supported");
		close_subject(&s);
		return;
	}
	begin("ENXIO without a ring");
	map_fails(&s, page, prot, MAP_SHARED, HTW_OFF_RING, ENXIO, "mmap()");
	expect_result("HTW_FLUSH", -ENXIO, htw_call(s.fd, HTW_FLUSH, NULL));
	expect_result("HTW_SETUP", 0, htw_call(s.fd, HTW_SETUP, (void *)&setup));
	s.manual = true;
	s.tick = info_of(&s).tick_ns;

	begin("mmap: EINVAL for another length, offset or MAP_PRIVATE");
	map_fails(&s, size - page, prot, MAP_SHARED, HTW_OFF_RING, EINVAL, "a page less");
	map_fails(&s, size + page, prot, MAP_SHARED, HTW_OFF_RING, EINVAL, "a page more");
	map_fails(&s, size - page, prot, MAP_SHARED, HTW_OFF_RING + page, EINVAL, "after it");
	map_fails(&s, size, prot, MAP_PRIVATE, HTW_OFF_RING, EINVAL, "MAP_PRIVATE");
	begin("HTW_FLUSH: ENXIO while it is not mapped");
	expect_result("HTW_FLUSH", -ENXIO, htw_call(s.fd, HTW_FLUSH, NULL));

	begin("mmap: PROT_READ");
	p = map(&s, size, PROT_READ, MAP_SHARED, HTW_OFF_RING);
	if (expect(p > 0 || p < -4095, "it cannot be mapped"))
		munmap((void *)p, size);
	begin("mmap: PROT_READ | PROT_WRITE");
	p = map(&s, size, prot, MAP_SHARED, HTW_OFF_RING);
	if (!expect(p > 0 || p < -4095, "it cannot be mapped")) {
		close_subject(&s);
		return;
	}
	ring = (struct htw_ring *)p;
	events = (struct htw_event *)(ring + 1);
	expect_number("entries", 128, ring->entries);
	expect_number("tail, head, flags", 0, ring->tail | ring->head | ring->flags);
	begin("read(): EBUSY while it is mapped");
	expect_result("read()", -EBUSY, get(&s, &ev, 1));

	begin("an expiration goes into the ring, and counts as read");
	for (int i = 0; i < 129; i++)
		id[i] = start(&s, 0);
	pass(&s, HOUR);
	expect_number("tail", 128, ring->tail);
	expect_number("id", id[0], events[0].id);
	expect_number("cookie", COOKIE, events[0].cookie);
	expect_number("deadline", HOUR, events[0].deadline);
	expect_number("missed, flags, reserved", 0,
		      events[0].missed | events[0].flags | events[0].reserved);
	expect_result("HTW_CANCEL", -ENOENT, stop(&s, id[0], 0));
	expect_number("poll()", POLLIN, poll_fd(&s, 0));
	begin("events that do not fit are queued, with HTW_RING_OVERFLOW");
	expect_number("flags", HTW_RING_OVERFLOW, ring->flags);
	expect_number("expired of HTW_INFO", 1, info_of(&s).expired);
	expect_number("timers of HTW_INFO", 1, info_of(&s).timers);
	expect_result("HTW_FLUSH", 0, htw_call(s.fd, HTW_FLUSH, NULL));
	begin("HTW_FLUSH: moves as many events as fit");
	__atomic_store_n(&ring->head, 3, __ATOMIC_RELEASE);
	expect_result("HTW_FLUSH", 1, htw_call(s.fd, HTW_FLUSH, NULL));
	expect_number("tail", 129, ring->tail);
	expect_number("id", id[128], events[0].id);
	expect_number("flags", 0, ring->flags);
	expect_result("HTW_FLUSH", 0, htw_call(s.fd, HTW_FLUSH, NULL));
	begin("not readable once all events are consumed");
	__atomic_store_n(&ring->head, 129, __ATOMIC_RELEASE);
	expect_number("poll()", 0, poll_fd(&s, 0));
	expect_number("timers of HTW_INFO", 0, info_of(&s).timers);
	begin("read() again once it is unmapped");
	munmap(ring, size);
	expect_result("read()", -EAGAIN, get(&s, &ev, 1));
	close_subject(&s);
}

void check_ring(void)
{
	check_flush();
	check_mapped();
}
