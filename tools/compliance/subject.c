// SPDX-License-Identifier: GPL-2.0-only
/* The device under test; see subject.h */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "subject.h"

static const char *device;

struct htw_info announced;
size_t page;

const uintptr_t bad_addresses[BAD_ADDRESSES] = {
	0, 1, -1UL, -4096UL,
#if __LP64__
	1UL << 63, (1UL << 47) - 8, 0xffff888000000000UL,
#else
	1UL << 31, -8UL, 0xc0000000UL,
#endif
};

bool choose_device(const char *path)
{
	struct htw_info info;
	int fd = open(path, O_RDWR | O_CLOEXEC), ret;

	if (fd < 0) {
		fprintf(stderr, "htw-compliance: %s: %s\n", path, strerror(errno));
		return false;
	}
	ret = htw_call(fd, HTW_INFO, &info);
	close(fd);
	if (ret) {
		fprintf(stderr, "htw-compliance: %s: HTW_INFO: %s\n", path, strerror(-ret));
		return false;
	}
	device = path;
	announced = info;
	page = sysconf(_SC_PAGESIZE);
	return true;
}

bool has(__u64 feature)
{
	return (announced.features & feature) == feature;
}

static int open_device(void)
{
	int fd = open(device, O_RDWR | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0) {
		fprintf(stderr, "htw-compliance: %s: %s\n", device, strerror(errno));
		exit(1);
	}
	return fd;
}

struct subject open_fresh(void)
{
	return (struct subject){ .fd = open_device() };
}

struct subject open_subject(void)
{
	struct htw_setup setup = { .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL };
	struct subject s = open_fresh();
	struct htw_query query;
	__u64 id;

	if (has(HTW_FEATURE_SETUP | HTW_FEATURE_MANUAL))
		s.manual = !htw_call(s.fd, HTW_SETUP, &setup);
	s.tick = info_of(&s).tick_ns;
	if (!s.manual)
		return s;
	/* The interface does not define where a manual clock starts. */
	id = start(&s, 0);
	query = query_of(&s, id);
	s.now = query.deadline - HOUR;
	stop(&s, id, 0);
	return s;
}

struct subject open_witnessed(void)
{
	struct subject s = open_subject();

	s.witness = started(&s, (struct htw_add){
		.deadline = 1000 * HOUR, .interval = HOUR, .cookie = ~COOKIE,
	});
	return s;
}

void close_subject(struct subject *s)
{
	end();
	close(s->fd);
}

int perform(const struct subject *s, const struct call *call, void *arg)
{
	struct htw_op op = { .op = call->op, .result = POISON32 };
	struct htw_batch batch = {
		.ops = (uintptr_t)&op,
		.count = 1,
		.done = POISON32,
	};
	int ret;

	if (!call->op)
		return htw_call(s->fd, call->cmd, arg);
	memcpy(&op.add, arg, call->size);
	ret = htw_call(s->fd, HTW_BATCH, &batch);
	if (ret || batch.done != 1)
		return ret ?: -EPROTO;
	memcpy(arg, &op.add, call->size);
	return op.result;
}

struct htw_info info_of(const struct subject *s)
{
	return htw_info(s->fd);
}

struct htw_query query_of(const struct subject *s, __u64 id)
{
	struct htw_query query = { .id = id };

	if (ioctl(s->fd, HTW_QUERY, &query))
		query.state = 0;
	/* On a running clock it differs with each call. */
	if (!s->manual)
		query.remaining = 0;
	return query;
}

void remember(struct subject *s)
{
	s->info = info_of(s);
	if (s->witness && has(HTW_FEATURE_MOD))
		s->query = query_of(s, s->witness);
}

void expect_same_state(const struct subject *s, const char *what)
{
	const struct htw_info info = info_of(s);
	struct htw_query query;

	expect(!memcmp(&info, &s->info, sizeof(info)),
	       "%s: HTW_INFO was %llu timers, %llu expired, is %llu, %llu, or differs elsewhere",
	       what, s->info.timers, s->info.expired, info.timers, info.expired);
	if (!s->witness || !has(HTW_FEATURE_MOD))
		return;
	query = query_of(s, s->witness);
	expect(!memcmp(&query, &s->query, sizeof(query)),
	       "%s: HTW_QUERY of another timer differs: state %u, deadline %llu, was %u, %llu",
	       what, query.state, query.deadline, s->query.state, s->query.deadline);
}

void fails(struct subject *s, const struct call *call, void *arg, int error,
	   const char *what)
{
	unsigned char before[256];

	memcpy(before, arg, call->size);
	remember(s);
	expect_result(what, -error, perform(s, call, arg));
	expect(!memcmp(before, arg, call->size), "%s: the argument was written to", what);
	expect_same_state(s, what);
}

void fails_with_bits(struct subject *s, const struct call *call, const void *valid,
		     const char *field, size_t offset, size_t size, __u64 known)
{
	unsigned char arg[256];
	char what[64];

	begin("%s: EINVAL for each undefined bit", field);
	for (unsigned int bit = 0; bit < 8 * size; bit++) {
		if (bit < 64 && known >> bit & 1)
			continue;
		memcpy(arg, valid, call->size);
		arg[offset + bit / 8] ^= 1 << bit % 8;
		snprintf(what, sizeof(what), "bit %u", bit);
		fails(s, call, arg, EINVAL, what);
	}
}

/* Exit if there is no memory: no check would mean anything. */
static void *allocated(void *p)
{
	if (!p) {
		perror("htw-compliance: mmap");
		exit(1);
	}
	return p;
}

void *before_hole(size_t size)
{
	return allocated(htw_before_page(size, PROT_NONE));
}

void *read_only(const void *src, size_t size)
{
	return allocated(htw_read_only(src, size));
}

void fails_with_pointers(struct subject *s, const struct call *call, const void *valid)
{
	char what[64], *p = before_hole(call->size - 1);

	begin("argument: EFAULT at NULL and other invalid addresses");
	remember(s);
	for (size_t i = 0; i < ARRAY_SIZE(bad_addresses); i++) {
		snprintf(what, sizeof(what), "at %#lx", (unsigned long)bad_addresses[i]);
		expect_result(what, -EFAULT,
			      htw_call(s->fd, call->cmd, (void *)bad_addresses[i]));
		expect_same_state(s, what);
	}
	begin("argument: EFAULT if its last byte is inaccessible");
	memcpy(p, valid, call->size - 1);
	expect_result("the call", -EFAULT, htw_call(s->fd, call->cmd, p));
	expect(!memcmp(p, valid, call->size - 1), "the argument was written to");
	expect_same_state(s, "after it");
}

void fails_read_only(struct subject *s, const struct call *call, const void *valid)
{
	begin("argument: EFAULT if it cannot be written, and nothing is done");
	remember(s);
	expect_result("the call", -EFAULT,
		      htw_call(s->fd, call->cmd, read_only(valid, call->size)));
	expect_same_state(s, "after it");
}

bool is_unknown(struct subject *s, unsigned long cmd, const char *what)
{
	unsigned char arg[4096];
	bool right = true;

	memset(arg, 0xa5, sizeof(arg));
	remember(s);
	right &= expect_result(what, -ENOTTY, htw_call(s->fd, cmd, arg));
	for (size_t i = 0; i < sizeof(arg); i++)
		right &= expect(arg[i] == 0xa5, "%s: byte %zu of the argument was written to",
				what, i);
	expect_same_state(s, what);
	return right;
}

bool supported(const char *name, unsigned long cmd, __u64 feature)
{
	struct subject s;

	group(name);
	if (has(feature))
		return true;
	note("not supported");
	s = open_witnessed();
	begin("ENOTTY without the feature");
	is_unknown(&s, cmd, "the call");
	close_subject(&s);
	return false;
}

struct htw_add valid_add(void)
{
	return (struct htw_add){
		.id = POISON,
		.deadline = HOUR,
		.cookie = COOKIE,
	};
}

__u64 started(const struct subject *s, struct htw_add add)
{
	return htw_start_as(s->fd, add);
}

__u64 start(const struct subject *s, __u32 flags)
{
	return started(s, (struct htw_add){
		.deadline = HOUR, .cookie = COOKIE, .flags = flags,
	});
}

int stop(const struct subject *s, __u64 id, __u32 flags)
{
	return htw_stop_flags(s->fd, id, flags);
}

int poll_fd(const struct subject *s, int timeout_ms)
{
	return htw_poll(s->fd, timeout_ms);
}

bool pass(struct subject *s, __u64 ns)
{
	struct htw_advance advance = { .ns = ns, .expired = POISON };

	if (!s->manual)
		return poll_fd(s, FOREVER_MS) > 0;
	s->now += ns;
	return !htw_call(s->fd, HTW_ADVANCE, &advance);
}

int get(const struct subject *s, struct htw_event *ev, size_t room)
{
	memset(ev, 0xa5, room * sizeof(*ev));
	return htw_read(s->fd, ev, room);
}

__u64 start_expired(struct subject *s, struct htw_add add)
{
	const __u64 expired = info_of(s).expired;
	__u64 id = started(s, add);

	if (!id || !pass(s, s->manual ? s->tick : 0))
		return 0;
	for (int i = 0; i < FOREVER_MS && info_of(s).expired == expired; i++)
		usleep(1000);
	return info_of(s).expired > expired ? id : 0;
}

void expect_event(const struct subject *s, const struct htw_event *ev, __u64 id,
		  __u64 cookie, __u32 flags)
{
	expect_number("id of the event", id, ev->id);
	expect_number("cookie of the event", cookie, ev->cookie);
	expect(ev->fired >= ev->deadline, "fired %llu before the deadline %llu",
	       ev->fired, ev->deadline);
	if (s->manual)
		expect(ev->fired <= s->now, "fired %llu after now, %llu", ev->fired, s->now);
	expect_number("flags of the event", flags, ev->flags);
	expect_number("reserved of the event", 0, ev->reserved);
}

long map(const struct subject *s, size_t size, int prot, int flags, off_t offset)
{
	void *p = mmap(NULL, size, prot, flags, s->fd, offset);

	return p == MAP_FAILED ? -errno : (long)p;
}

void map_fails(struct subject *s, size_t size, int prot, int flags, off_t offset,
	       int error, const char *what)
{
	remember(s);
	expect_result(what, -error, map(s, size, prot, flags, offset));
	expect_same_state(s, what);
}
