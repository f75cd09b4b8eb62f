// SPDX-License-Identifier: GPL-2.0-only
#include "context.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../common/clock.h"
#include "../common/htw-client.h"
#include "../common/random.h"
#include "report.h"

static struct context_state *states;

bool context_init(void)
{
	states = mmap(NULL, CONTEXTS_MOST * sizeof(*states), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (states == MAP_FAILED)
		return false;
	/* Not to be charged to a round. */
	memset(states, 0, CONTEXTS_MOST * sizeof(*states));
	return true;
}

static bool one_in(__u64 *random, unsigned int n)
{
	return xorshift64(random) % n == 0;
}

static void choose_clock(struct context *c, __u64 *random, const struct choices *choices)
{
	static const int clocks[] = {
		CLOCK_MONOTONIC, CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME, HTW_CLOCK_MANUAL,
	};

	c->clock = clocks[xorshift64(random) % 5];
	c->loose = c->clock == CLOCK_REALTIME && choices->set_clock;
	c->setup.flags |= HTW_SETUP_CLOCK;
	c->setup.clock = c->clock;
}

static void choose_wheel(struct context *c, __u64 *random)
{
	/* Within what everybody may have; some with timers beyond the levels. */
	static const struct {
		__u64 tick;
		__u32 levels, slots[4];
	} wheels[] = {
		{ 100 * USEC, 4, { 256, 64, 64, 64 } },
		{ MSEC, 3, { 60, 60, 12 } },
		{ 250 * USEC, 4, { 2, 3, 5, 7 } },
		{ 10 * MSEC, 3, { 10, 60, 5 } },
		{ 130 * USEC, 2, { 16, 16 } },
	};
	unsigned int i = xorshift64(random) % (sizeof(wheels) / sizeof(*wheels));

	c->setup.tick_ns = wheels[i].tick;
	c->setup.levels = wheels[i].levels;
	memcpy(c->setup.slots, wheels[i].slots, sizeof(wheels[i].slots));
}

static void choose_readers(struct context *c, __u64 *random, const struct choices *choices)
{
	static const enum reader_kind nonblocking[] = {
		READER_SPIN, READER_POLL, READER_EPOLL, READER_EPOLL_EDGE, READER_EPOLL_EXCLUSIVE,
		READER_SIGIO, READER_URING_READ, READER_URING_POLL,
	};
	static const enum reader_kind blocking[] = {
		READER_BLOCKING, READER_BLOCKING, READER_POLL, READER_EPOLL_EXCLUSIVE,
		READER_URING_READ,
	};

	c->nonblock = one_in(random, 2);
	c->nr_readers = 1 + xorshift64(random) % READERS_MOST;
	for (unsigned int i = 0; i < c->nr_readers; i++) {
		__u64 n = xorshift64(random);

		if (c->nonblock)
			c->readers[i] = nonblocking[n % (choices->uring ? 8 : 6)];
		else
			c->readers[i] = blocking[n % (choices->uring ? 5 : 4)];
		/* A file has one owner, who gets its signals. */
		if (i && c->readers[i] == READER_SIGIO)
			c->readers[i] = READER_EPOLL_EDGE;
	}
}

void context_choose(struct context *c, __u8 number, __u64 *random, const struct choices *choices)
{
	static const uid_t uids[] = { 0, 0, 65534, 1001, 1002 };

	*c = (struct context){ .number = number, .fd = -1, .state = &states[number] };
	*c->state = (struct context_state){ 0 };
	c->uid = uids[xorshift64(random) % 5];
	if (!one_in(random, 4))
		choose_clock(c, random, choices);
	else
		c->clock = CLOCK_MONOTONIC;
	if (one_in(random, 4))
		choose_wheel(c, random);
	else if (one_in(random, 4))
		c->setup.flags |= HTW_SETUP_EXACT;
	if (one_in(random, 4))
		c->setup.flags |= HTW_SETUP_ORDERED;
	if (one_in(random, 8))
		c->setup.limit = 50 + xorshift64(random) % 200;
	c->harvests = one_in(random, 6);
	c->drain = xorshift64(random) % 4 ? DRAIN_EXPIRE : xorshift64(random) % DRAINS;
	/* At its limit it has no room for the timers that end its readers. */
	if (c->setup.limit)
		c->drain = DRAIN_EXPIRE;
	c->strangers = !c->setup.limit && c->drain == DRAIN_EXPIRE && one_in(random, 2);
	c->workers = 1 + xorshift64(random) % 3;
	c->most_ns = MSEC << xorshift64(random) % 12;
	choose_readers(c, random, choices);
}

void context_describe(const struct context *c, char *buf, size_t size)
{
	static const char * const readers[READER_KINDS] = {
		"spin", "poll", "read", "epoll", "epollet", "epollexclusive", "sigio", "uring",
		"uringpoll",
	};
	static const char * const drains[DRAINS] = { "expire", "cancel", "cancel-all", "close" };
	int n;

	n = snprintf(buf, size,
		     "context %u: uid %u, clock %d, flags %#x, tick %llu, levels %u, limit %llu, nonblock %d, harvests %d, strangers %d, workers %u, within %llu us, end %s, readers",
		     c->number, c->uid, c->clock, c->setup.flags, c->setup.tick_ns, c->setup.levels,
		     c->setup.limit, c->nonblock, c->harvests, c->strangers, c->workers,
		     c->most_ns / USEC, drains[c->drain]);
	for (unsigned int i = 0; i < c->nr_readers && n < (int)size; i++)
		n += snprintf(buf + n, size - n, " %s", readers[c->readers[i]]);
}

/* Open it as its user, to whom it is charged, and set it up. */
void context_open(struct context *c)
{
	struct htw_info_args info;
	int ret;

	/* The system call changes this thread's user alone. */
	if (c->uid && syscall(SYS_setresuid, -1, c->uid, -1))
		report_broken("context %u: setresuid: %s", c->number, strerror(errno));
	c->fd = htw_open(c->nonblock ? O_NONBLOCK : 0);
	if (c->fd < 0)
		report_broken("context %u: %s: %s", c->number, HTW_DEVICE, strerror(errno));
	ret = htw_set_up(c->fd, c->setup);
	if (ret)
		report_violation("context %u: HTW_SETUP: %s", c->number, strerror(-ret));
	if (c->uid && syscall(SYS_setresuid, -1, 0, -1))
		report_broken("context %u: setresuid: %s", c->number, strerror(errno));
	info = htw_info(c->fd);
	if (info.timers || info.clock != c->clock)
		report_violation("context %u: a new one has %llu timers, clock %d", c->number,
				 info.timers, info.clock);
	c->tick = info.tick_ns;
}

void context_use(struct context *c, int fd)
{
	if (fd < 0)
		report_broken("context %u: no descriptor came", c->number);
	c->fd = fd;
	c->tick = htw_info(fd).tick_ns;
}

__u64 context_time_before(const struct context *c)
{
	if (c->clock == (int)HTW_CLOCK_MANUAL)
		return __atomic_load_n(&c->state->manual_done, __ATOMIC_SEQ_CST);
	return clock_ns(c->clock);
}

__u64 context_time_after(const struct context *c)
{
	if (c->clock == (int)HTW_CLOCK_MANUAL)
		return __atomic_load_n(&c->state->manual_begun, __ATOMIC_SEQ_CST);
	return clock_ns(c->clock);
}

/* After a call, with context_time_before() from before it. */
struct window context_window(const struct context *c, __u64 before)
{
	return (struct window){
		.before = before,
		.after = c->loose ? ~0ULL : context_time_after(c),
		.harvests = c->harvests,
		.tick = c->tick,
	};
}

static void raise_to(__u64 *at, __u64 to)
{
	__u64 was = __atomic_load_n(at, __ATOMIC_SEQ_CST);

	while (was < to && !__atomic_compare_exchange_n(at, &was, to, false, __ATOMIC_SEQ_CST,
							__ATOMIC_SEQ_CST))
		;
}

void context_advance(struct context *c, __u64 to)
{
	long long ret;

	raise_to(&c->state->manual_begun, to);
	ret = htw_advance(c->fd, to, HTW_F_ABS);
	/* Another thread may have moved it further. */
	if (ret < 0 && !(ret == -EINVAL && context_time_after(c) > to)) {
		report_violation("context %u: HTW_ADVANCE to %llu: %lld", c->number, to, ret);
		return;
	}
	raise_to(&c->state->manual_done, to);
}

__u32 context_harvest(const struct context *c, struct htw_timer_info *entries, __u32 room)
{
	struct htw_list_args list = htw_list_of(entries, room);
	__u64 before = context_time_before(c);
	struct window window;
	int ret;

	ret = htw_call(c->fd, HTW_HARVEST, &list);
	if (ret) {
		report_violation("context %u: HTW_HARVEST: %s", c->number, strerror(-ret));
		return 0;
	}
	window = context_window(c, before);
	for (__u32 i = 0; i < list.done; i++)
		account_harvested(c->number, &entries[i], &window);
	return list.done;
}
