// SPDX-License-Identifier: GPL-2.0-only
/*
 * htwctl bench: the cost of operations on this machine, in ns
 *
 * For a first impression of one's own hardware. Figures that are compared
 * between versions count instructions and come from htw-bench in a virtual
 * machine (docs/performance.md).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "events.h"

#define BATCH		256

static struct {
	uint64_t timers;
	int fd;
	uint64_t *ids;
	uint64_t *deadlines;
} bench = {
	.timers = 100000,
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'n':
		bench.timers = parse_number_arg("--timers", arg, 1, 16777216, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ "timers", 'n', "N", 0, "number of timers (default 100000)", 1 },
	{ 0 }
};

static void print_result(const char *operation, const char *how, uint64_t count, uint64_t ns)
{
	struct json_object *object;
	char each[32];

	snprintf(each, sizeof(each), "%.1f", (double)ns / count);
	if (opt.json) {
		object = json_new();
		json_add_str(object, "operation", operation);
		json_add_str(object, "how", how);
		json_add_u64(object, "count", count);
		json_add_u64(object, "total_ns", ns);
		json_add_str(object, "each_ns", each);
		json_print(object);
		return;
	}
	printf("%-8s %-34s %10s %10s ns\n", operation, how, show_grouped(count), each);
	fflush(stdout);
}

static int bench_syscall(void)
{
	uint64_t begin = now_ns();

	for (uint64_t i = 0; i < bench.timers; i++)
		syscall(SYS_getppid);
	print_result("syscall", "an empty system call", bench.timers, now_ns() - begin);
	return HTWCTL_OK;
}

static int bench_timerfd(void)
{
	struct itimerspec spec = { .it_value.tv_sec = 1800 };
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC), err = 0;
	uint64_t begin;

	if (fd < 0)
		return fail(errno, "timerfd_create");
	begin = now_ns();
	for (uint64_t i = 0; i < bench.timers && !err; i++) {
		spec.it_value.tv_nsec = i;
		err = timerfd_settime(fd, 0, &spec, NULL);
	}
	if (!err)
		print_result("rearm", "timerfd_settime(), one timer", bench.timers,
			     now_ns() - begin);
	close(fd);
	return err ? fail(errno, "timerfd_settime") : HTWCTL_OK;
}

/* Half an hour ahead and more, spread like deadlines of requests. */
static uint64_t far_deadline(uint64_t i)
{
	return 1800 * NSEC_PER_SEC + i * 2654435761U % (60 * NSEC_PER_SEC);
}

static int single_add(void)
{
	uint64_t begin = now_ns();

	for (uint64_t i = 0; i < bench.timers; i++) {
		struct htw_add_args add = { .deadline = far_deadline(i), .cookie = i };

		if (ioctl(bench.fd, HTW_ADD, &add))
			return add_refused(bench.fd, errno);
		bench.ids[i] = add.id;
	}
	print_result("add", "HTW_ADD, one per call", bench.timers, now_ns() - begin);
	return HTWCTL_OK;
}

static int single_rearm(void)
{
	uint64_t begin = now_ns();

	for (uint64_t i = 0; i < bench.timers; i++) {
		struct htw_mod_args mod = {
			.id = bench.ids[i],
			.deadline = far_deadline(i + 1),
			.flags = HTW_MOD_DEADLINE,
		};

		if (ioctl(bench.fd, HTW_MOD, &mod))
			return fail(errno, "HTW_MOD");
	}
	print_result("rearm", "HTW_MOD, one per call", bench.timers, now_ns() - begin);
	return HTWCTL_OK;
}

static int single_cancel(void)
{
	uint64_t begin = now_ns();

	for (uint64_t i = 0; i < bench.timers; i++) {
		struct htw_cancel_args cancel = { .id = bench.ids[i] };

		if (ioctl(bench.fd, HTW_CANCEL, &cancel))
			return fail(errno, "HTW_CANCEL");
		if (cancel.cookie != i)
			return fail_with(HTWCTL_FAILED, "HTW_CANCEL returned a wrong cookie");
	}
	print_result("cancel", "HTW_CANCEL, one per call", bench.timers, now_ns() - begin);
	return HTWCTL_OK;
}

/* Do @vector for all timers, BATCH in each call; its arrays are filled in here. */
static int vector_all(struct htw_vector_args vector)
{
	struct htw_vector_args part;

	for (uint64_t at = 0; at < bench.timers; at += part.done) {
		part = vector;
		part.ids = (uintptr_t)(bench.ids + at);
		if (vector.op != HTW_OP_CANCEL)
			part.deadlines = (uintptr_t)(bench.deadlines + at);
		part.count = bench.timers - at < BATCH ? bench.timers - at : BATCH;
		if (ioctl(bench.fd, HTW_VECTOR, &part)) {
			if (errno != EINTR)
				return fail(errno, "HTW_VECTOR");
			part.done = 0;
		}
		if (part.failed)
			return fail_with(HTWCTL_FAILED, "HTW_VECTOR: %u of %u failed",
					 part.failed, part.done);
	}
	return HTWCTL_OK;
}

static int bench_vectors(void)
{
	struct htw_vector_args vector = { .op = HTW_OP_ADD };
	uint64_t begin;
	int code;

	for (uint64_t i = 0; i < bench.timers; i++)
		bench.deadlines[i] = far_deadline(i);
	begin = now_ns();
	code = vector_all(vector);
	if (code)
		return code;
	print_result("add", "HTW_VECTOR, 256 per call", bench.timers, now_ns() - begin);

	for (uint64_t i = 0; i < bench.timers; i++)
		bench.deadlines[i] = far_deadline(i + 1);
	vector.op = HTW_OP_MOD;
	vector.flags = HTW_MOD_DEADLINE;
	begin = now_ns();
	code = vector_all(vector);
	if (code)
		return code;
	print_result("rearm", "HTW_VECTOR, 256 per call", bench.timers, now_ns() - begin);

	vector = (struct htw_vector_args){ .op = HTW_OP_CANCEL };
	begin = now_ns();
	code = vector_all(vector);
	if (code)
		return code;
	print_result("cancel", "HTW_VECTOR, 256 per call", bench.timers, now_ns() - begin);
	return HTWCTL_OK;
}

/* All are due at once; each must be read once, not before its deadline. */
static int bench_expire(void)
{
	struct htw_vector_args vector = { .op = HTW_OP_ADD };
	struct htw_event events[BATCH];
	uint64_t begin, left;
	int code;

	/* A relative deadline of zero. */
	memset(bench.deadlines, 0, bench.timers * sizeof(*bench.deadlines));
	begin = now_ns();
	code = vector_all(vector);
	for (left = bench.timers; left && !code; ) {
		unsigned int n;
		int err = wait_events(bench.fd, UINT64_MAX, events, BATCH, &n);

		if (err)
			return wait_failed(err);
		for (unsigned int i = 0; i < n; i++)
			if (events[i].taken < events[i].deadline)
				code = fail_with(HTWCTL_FAILED, "a timer expired early");
		left -= n;
	}
	if (!code)
		print_result("expire", "HTW_VECTOR, due at once, and read()", bench.timers,
			     now_ns() - begin);
	return code;
}

int cmd_bench(int argc, char **argv)
{
	static const struct argp_child children[] = {
		{ &format_argp, 0, NULL, 0 }, { &help_argp, 0, NULL, 0 }, { 0 }
	};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = "Measure the time of one operation on this machine: alone in a call, and 256 "
		       "in a call; for comparison, an empty system call and timerfd.\v"
		       "The times include whatever else the machine does; "
		       "docs/performance.md has figures that are repeatable.\n\n"
		       "Examples:\n"
		       "  htwctl bench --timers 1000000\n",
		.children = children,
	};
	static int (* const steps[])(void) = {
		bench_syscall, bench_timerfd, single_add, single_rearm, single_cancel,
		bench_vectors, bench_expire,
	};
	int code = HTWCTL_OK;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	bench.fd = open_device();
	if (bench.fd < 0)
		return -bench.fd;
	bench.ids = calloc(bench.timers, sizeof(*bench.ids));
	bench.deadlines = calloc(bench.timers, sizeof(*bench.deadlines));
	if (!bench.ids || !bench.deadlines)
		return fail(ENOMEM, "--timers %" PRIu64, bench.timers);
	for (unsigned int i = 0; i < ARRAY_SIZE(steps) && code == HTWCTL_OK; i++)
		code = steps[i]();
	free(bench.ids);
	free(bench.deadlines);
	close(bench.fd);
	return code;
}
