// SPDX-License-Identifier: GPL-2.0-only
/* The device under test; see subject.h */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "subject.h"

static const char *device;

struct htw_info_args announced;

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
	struct htw_info_args info;
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
	return true;
}

int open_device(int mode)
{
	int fd = open(device, mode | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0) {
		fprintf(stderr, "htw-compliance: %s: %s\n", device, strerror(errno));
		exit(1);
	}
	return fd;
}

struct subject open_fresh(void)
{
	return (struct subject){ .fd = open_device(O_RDWR) };
}

struct subject open_subject(void)
{
	struct subject s = open_fresh();
	int ret = htw_setup_clock(s.fd, HTW_CLOCK_MANUAL);

	if (ret) {
		fprintf(stderr, "htw-compliance: %s: no manual clock: %s\n", device,
			strerror(-ret));
		exit(1);
	}
	s.manual = true;
	s.tick = info_of(&s).tick_ns;
	return s;
}

struct subject open_witnessed(void)
{
	struct subject s = open_subject();

	s.witness = started(&s, (struct htw_add_args){
		.deadline = 1000 * HOUR, .interval = HOUR, .cookie = ~COOKIE,
	});
	return s;
}

void close_subject(struct subject *s)
{
	end();
	close(s->fd);
}

static int perform_vector(const struct subject *s, struct htw_vector_args *v)
{
	int ret;

	v->count = 1;
	v->done = v->failed = POISON32;
	ret = make_call(s->fd, HTW_VECTOR, v);
	if (ret || v->done != 1)
		return ret ?: -EPROTO;
	ret = HTW_ID_ERROR(*(__u64 *)(uintptr_t)v->ids);
	return v->failed == !!ret ? ret : -EPROTO;
}

static int perform_add(const struct subject *s, struct htw_add_args *add)
{
	__u64 id = add->id;
	struct htw_vector_args v = {
		.ids = (uintptr_t)&id,
		.deadlines = (uintptr_t)&add->deadline,
		.cookies = (uintptr_t)&add->cookie,
		.interval = add->interval,
		.slack = add->slack,
		.flags = add->flags,
		.firings = add->firings,
		.op = HTW_OP_ADD,
	};
	int ret = perform_vector(s, &v);

	if (!ret)
		add->id = id;
	return ret;
}

static int perform_mod(const struct subject *s, struct htw_mod_args *mod)
{
	__u64 id = mod->id;
	const bool deadline = mod->deadline || mod->flags & HTW_MOD_DEADLINE;
	struct htw_vector_args v = {
		.ids = (uintptr_t)&id,
		.deadlines = deadline ? (uintptr_t)&mod->deadline : 0,
		.cookies = mod->cookie ? (uintptr_t)&mod->cookie : 0,
		.interval = mod->interval,
		.slack = mod->slack,
		.flags = mod->flags,
		.firings = mod->firings,
		.op = HTW_OP_MOD,
	};

	return perform_vector(s, &v);
}

int perform(const struct subject *s, const struct call *call, void *arg)
{
	switch (call->op) {
	case HTW_OP_ADD:
		return perform_add(s, arg);
	case HTW_OP_MOD:
		return perform_mod(s, arg);
	}
	return make_call(s->fd, call->cmd, arg);
}

struct htw_info_args info_of(const struct subject *s)
{
	return htw_info(s->fd);
}

struct htw_timer_info query_of(const struct subject *s, __u64 id)
{
	struct htw_timer_info query = { .id = id };

	if (ioctl(s->fd, HTW_QUERY, &query))
		query.state = 0;
	/* On a running clock it differs with each call. */
	if (!s->manual)
		query.remaining = 0;
	return query;
}

__u32 state_of(const struct subject *s, __u64 id)
{
	return query_of(s, id).state;
}

/*
 * HTW_INFO without what other descriptors change, or any call may: memory, and the time
 * before which nothing is due.
 */
static struct htw_info_args lasting_info(const struct subject *s)
{
	struct htw_info_args info = info_of(s);

	info.bytes = info.user_timers = info.next = 0;
	return info;
}

void remember(struct subject *s)
{
	s->info = lasting_info(s);
	if (s->witness)
		s->query = query_of(s, s->witness);
}

void expect_same_state(const struct subject *s, const char *what)
{
	const struct htw_info_args info = lasting_info(s);
	struct htw_timer_info query;

	expect(!memcmp(&info, &s->info, sizeof(info)),
	       "%s: HTW_INFO was %llu timers, is %llu, or differs elsewhere", what,
	       s->info.timers, info.timers);
	if (!s->witness)
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

void fails_without_memory(struct subject *s, const struct call *call)
{
	char what[64];

	begin("argument: EFAULT at NULL and other invalid addresses");
	remember(s);
	for (size_t i = 0; i < ARRAY_SIZE(bad_addresses); i++) {
		snprintf(what, sizeof(what), "at %#lx", (unsigned long)bad_addresses[i]);
		expect_result(what, -EFAULT,
			      make_call(s->fd, call->cmd, (void *)bad_addresses[i]));
		expect_same_state(s, what);
	}
}

void fails_with_pointers(struct subject *s, const struct call *call, const void *valid)
{
	char *p = before_hole(call->size - 1);

	fails_without_memory(s, call);
	begin("argument: EFAULT if its last byte is inaccessible");
	memcpy(p, valid, call->size - 1);
	expect_result("the call", -EFAULT, make_call(s->fd, call->cmd, p));
	expect_same_state(s, "after it");
}

void fails_read_only(struct subject *s, const struct call *call, const void *valid)
{
	begin("argument: EFAULT if it cannot be written, and nothing is done");
	remember(s);
	expect_result("the call", -EFAULT,
		      make_call(s->fd, call->cmd, read_only(valid, call->size)));
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

struct htw_add_args valid_add(void)
{
	return (struct htw_add_args){
		.id = POISON,
		.deadline = HOUR,
		.cookie = COOKIE,
	};
}

__u64 started(const struct subject *s, struct htw_add_args add)
{
	return htw_start_as(s->fd, add);
}

__u64 start(const struct subject *s, __u32 flags)
{
	return started(s, (struct htw_add_args){
		.deadline = HOUR, .cookie = COOKIE, .flags = flags,
	});
}

int stop(const struct subject *s, __u64 id)
{
	return htw_stop(s->fd, id);
}

int poll_fd(const struct subject *s, int timeout_ms)
{
	return htw_poll(s->fd, timeout_ms);
}

void pass(struct subject *s, __u64 ns)
{
	struct htw_advance_args advance = { .ns = ns, .due = POISON32 };

	s->now += ns;
	expect_result("HTW_ADVANCE", 0, htw_call(s->fd, HTW_ADVANCE, &advance));
}

int get(const struct subject *s, struct htw_event *ev, size_t room)
{
	memset(ev, 0xa5, room * sizeof(*ev));
	return htw_read(s->fd, ev, room);
}

__u64 start_due(struct subject *s, struct htw_add_args add)
{
	__u64 id = started(s, add);

	pass(s, s->tick);
	return state_of(s, id) == HTW_STATE_DUE ? id : 0;
}

void expect_event(const struct subject *s, const struct htw_event *ev, __u64 id,
		  __u64 cookie, __u32 flags)
{
	expect_number("id of the event", id, ev->id);
	expect_number("cookie of the event", cookie, ev->cookie);
	expect(ev->deadline <= ev->taken, "taken %llu before the deadline %llu", ev->taken,
	       ev->deadline);
	expect_number("taken of the event", s->now, ev->taken);
	expect_number("flags of the event", flags, ev->flags);
	expect_number("reserved of the event", 0, ev->reserved);
}
