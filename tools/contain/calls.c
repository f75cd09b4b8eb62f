// SPDX-License-Identifier: GPL-2.0-only
/* System calls that might keep others waiting; see contain.h. */
#include <linux/htw.h>
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../common/clock.h"
#include "../common/htw-client.h"
#include "contain.h"
#include "victims.h"
#include "watcher.h"

#define TIMERS		50000U
#define BATCH		256U
/* Each call is repeated for so long: a hundred times what the module's probe waits. */
#define CALL_NS		(50 * MSEC)
#define FAR		(3600 * SEC)
#define CALLS_UID	28000U

static uint64_t ids[TIMERS], deadlines[BATCH];
static struct htw_timer_info entries[4096];
static struct htw_event events[4096];

/**
 * struct call - a system call
 * @name: what it is
 * @run: makes it, with all timers started, and starts them again
 * @setup: settings of the context
 */
struct call {
	const char *name;
	void (*run)(int fd);
	struct htw_setup_args setup;
};

static void do_call(int fd, unsigned long cmd, void *arg)
{
	if (ioctl(fd, cmd, arg) < 0)
		die("call 0x%lx: %s", cmd, strerror(errno));
}

static void vector(int fd, unsigned int op, uint32_t first, uint32_t count, uint64_t slack)
{
	struct htw_vector_args v = {
		.op = op,
		.ids = (uintptr_t)(ids + first),
		.deadlines = op == HTW_OP_CANCEL ? 0 : (uintptr_t)deadlines,
		.flags = op == HTW_OP_CANCEL ? 0 :
			 HTW_F_ABS | (op == HTW_OP_MOD ? HTW_MOD_DEADLINE : 0),
		.slack = slack,
		.count = count,
	};

	do_call(fd, HTW_VECTOR, &v);
	if (v.failed || v.done != count)
		die("HTW_VECTOR: %u of %u done, %u failed", v.done, count, v.failed);
}

/* Start or move all timers to one deadline. */
static void vectors(int fd, unsigned int op, uint64_t deadline, uint64_t slack)
{
	uint32_t first, i;

	for (i = 0; i < BATCH; i++)
		deadlines[i] = deadline;
	for (first = 0; first < TIMERS; first += BATCH)
		vector(fd, op, first, TIMERS - first < BATCH ? TIMERS - first : BATCH, slack);
}

static void start_all(int fd)
{
	vectors(fd, HTW_OP_ADD, now_ns() + FAR, 0);
}

static void add_with_slack(int fd)
{
	vectors(fd, HTW_OP_ADD, now_ns() + SEC, FAR);
	vectors(fd, HTW_OP_CANCEL, 0, 0);
}

/* Each deadline is earlier than the one before, so the hrtimer is programmed again and again. */
static void decrease(uint64_t now)
{
	for (unsigned int i = 0; i < BATCH; i++)
		deadlines[i] = now + SEC - i * 2 * MSEC;
}

static void move_ahead(int fd)
{
	decrease(now_ns());
	vector(fd, HTW_OP_MOD, 0, BATCH, 0);
	/* Back, so that the next round is again ahead of all others. */
	for (unsigned int i = 0; i < BATCH; i++)
		deadlines[i] += FAR;
	vector(fd, HTW_OP_MOD, 0, BATCH, 0);
}

static void cancel_all(int fd)
{
	struct htw_cancel_all_args cancel = { 0 };

	do_call(fd, HTW_CANCEL_ALL, &cancel);
	start_all(fd);
}

static void list_by(int fd, unsigned long cmd)
{
	struct htw_list_args list = { .entries = (uintptr_t)entries, .count = 4096 };

	do {
		list.done = 0;
		do_call(fd, cmd, &list);
	} while (list.done);
}

static void list(int fd)
{
	list_by(fd, HTW_LIST);
}

static void harvest(int fd)
{
	list_by(fd, HTW_HARVEST);
	start_all(fd);
}

static void read_all(int fd)
{
	unsigned int got = 0;
	int n;

	vectors(fd, HTW_OP_MOD, now_ns() + FAR, 0);
	vectors(fd, HTW_OP_MOD, now_ns(), 0);
	while (got < TIMERS) {
		n = htw_read(fd, events, 4096);
		if (n < 0 && n != -EAGAIN)
			die("read: %s", strerror(-n));
		if (n > 0)
			got += n;
		else
			sleep_until(now_ns() + MSEC);
	}
	start_all(fd);
}

static void advance_clock(int fd)
{
	static uint64_t time;
	struct htw_advance_args to = { .flags = HTW_F_ABS };
	struct htw_cancel_all_args cancel = { 0 };

	time += SEC;
	to.ns = time;
	vectors(fd, HTW_OP_MOD, time, 0);
	do_call(fd, HTW_ADVANCE, &to);
	do_call(fd, HTW_CANCEL_ALL, &cancel);
	start_all(fd);
}

static void open_and_close(int fd)
{
	const int other = htw_open(O_NONBLOCK);

	(void)fd;
	if (other < 0)
		die("open: %s", strerror(errno));
	start_all(other);
	close(other);
}

/* Of as many slots as a context may have on two levels. */
#define MANY_SLOTS	{ .tick_ns = MSEC, .levels = 2, .slots = { 2048, 2048 } }

static const struct call calls[] = {
	{ "vectors of deadlines that decrease", move_ahead, { 0 } },
	{ "adding with slack", add_with_slack, MANY_SLOTS },
	{ "HTW_CANCEL_ALL", cancel_all, { 0 } },
	{ "HTW_LIST", list, { 0 } },
	{ "HTW_HARVEST", harvest, { 0 } },
	{ "read()", read_all, { 0 } },
	{ "HTW_ADVANCE", advance_clock, { .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL } },
	{ "close()", open_and_close, { 0 } },
};

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

const unsigned int call_count = ARRAY_SIZE(calls);

static void measure(struct victims *v, struct watcher *watcher, const struct call *call,
		    struct call_result *result)
{
	struct lateness late[VICTIMS];
	struct htw_setup_args setup = call->setup;
	uint64_t until;
	int fd, ret;

	if (setresuid(CALLS_UID, CALLS_UID, 0))
		die("cannot become user %u: %s", CALLS_UID, strerror(errno));
	result->name = call->name;
	fd = htw_open(O_NONBLOCK);
	ret = fd < 0 ? -errno : htw_set_up(fd, setup);
	if (ret)
		die("%s: open or HTW_SETUP: %s", call->name, strerror(-ret));
	if (setresuid(0, 0, 0))
		die("cannot return to root: %s", strerror(errno));
	start_all(fd);
	victims_begin(v);
	watcher_begin(watcher);
	for (until = now_ns() + CALL_NS; now_ns() < until; )
		call->run(fd);
	result->task = watcher_longest(watcher);
	victims_note(v, late, &result->delays);
	close(fd);
}

void contain_calls(struct call_result *results)
{
	struct watcher *watcher;
	struct victims *v;
	unsigned int i;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	if (sched_setaffinity(0, sizeof(set), &set) || chmod(HTW_DEVICE, 0666))
		die("cannot stay on CPU 0, or change the mode of /dev/htw: %s", strerror(errno));
	sleep_until(CONTAIN_BOOTED);
	v = victims_start();
	watcher = watcher_start();
	for (i = 0; i < call_count; i++)
		measure(v, watcher, &calls[i], &results[i]);
	watcher_end(watcher);
	victims_end(v);
}
