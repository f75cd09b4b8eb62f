// SPDX-License-Identifier: GPL-2.0-only
/*
 * htw-demo - a million timeouts on one descriptor
 *
 * A million orders come in, each with a timeout at which it must be reconciled
 * unless it is settled before: half an hour in real life and for some orders
 * here, seconds for the others, so that the demo ends soon. Most orders settle,
 * and their timeouts are cancelled; the others expire. Recurring timers run
 * beside them, and miss firings while the program is busy. One descriptor, one
 * thread.
 *
 * Every order must end exactly once. Exit status: 0; 1 if a timeout was early
 * or did not end exactly once; 2 if the demo could not run.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include "../common/clock.h"
#include "../common/htw-client.h"
#include "../common/random.h"
#include "demo.h"

/* An expiration that is later than this is lost. */
#define GRACE_NS	(60 * SEC)

/* Settlements are grouped in slices of time instead of sorted. */
#define SLICE_NS	(5 * MSEC)

/* Cookies of recurring timers; an order's cookie is its number. */
#define RECURRING	(1ULL << 32)

struct options opt = {
	.orders = 1000000,
	.recurring = 1000,
	.seconds = 20,
	.settle = 93,
	.seed = 1,
	.device = HTW_DEVICE,
};

struct demo demo;

__attribute__((format(printf, 1, 2), noreturn))
static void die(const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fputs("htw-demo: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(2);
}

static uint64_t random_below(uint64_t limit)
{
	const uint64_t random = xorshift64(&opt.seed);

	return limit ? random % limit : 0;
}

/* Touch all pages now, so that they are not taken for the timers' memory later. */
static void *allocate(uint64_t count, size_t size)
{
	void *p = malloc((count ? count : 1) * size);

	if (!p)
		die("not enough memory for %" PRIu64 " orders", opt.orders);
	memset(p, 1, count * size);
	return memset(p, 0, count * size);
}

/* Free memory of the whole machine, which includes all that a timer needs. */
static uint64_t free_memory(void)
{
	char line[128];
	uint64_t kib = 0;
	FILE *f = fopen("/proc/meminfo", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemFree: %" SCNu64, &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib << 10;
}

/* A level of the wheel, from a line of fdinfo. */
static void take_level(struct wheels *w, const char *line)
{
	struct level level;
	unsigned int number;

	if (sscanf(line, "htw-level-%u: span %" SCNu64 " buckets %" SCNu64 " occupied %" SCNu64,
		   &number, &level.span, &level.buckets, &level.occupied) != 4 ||
	    number >= HTW_MAX_LEVELS)
		return;
	w->level[number] = level;
	if (number >= w->levels)
		w->levels = number + 1;
}

/* How often the alarm rang: the sum of all that it was late. */
static uint64_t rings_of(const char *numbers)
{
	uint64_t sum = 0, n;
	char *end;

	for (; n = strtoull(numbers, &end, 10), end != numbers; numbers = end)
		sum += n;
	return sum;
}

static struct wheels read_wheels(void)
{
	static const char rings[] = "htw-alarm-late:";
	struct wheels w = { .levels = 0 };
	char path[64], line[1024];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", demo.fd);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "htw-tick-ns: %" SCNu64, &w.tick_ns) == 1 ||
		    sscanf(line, "htw-pending: %" SCNu64, &w.pending) == 1)
			continue;
		if (!strncmp(line, rings, strlen(rings)))
			w.rings = rings_of(line + strlen(rings));
		else
			take_level(&w, line);
	}
	if (f)
		fclose(f);
	return w;
}

static void add_recurring(void)
{
	uint64_t i;
	int ret;

	for (i = 0; i < opt.recurring; i++) {
		struct htw_add_args add = {
			.deadline = (1 + random_below(250)) * MSEC,
			.interval = (250 + random_below(250)) * MSEC,
			.cookie = RECURRING + i,
		};

		ret = htw_call(demo.fd, HTW_ADD, &add);
		if (ret)
			die("cannot add a recurring timer: %s", strerror(-ret));
		demo.recurring_id[i] = add.id;
	}
}

static void run_vector(struct htw_vector_args vector)
{
	int ret = htw_vector_all(demo.fd, vector);

	if (ret)
		die("HTW_VECTOR: %s", strerror(-ret));
}

/*
 * Time until an order's deadline: half to all of the demo's duration; half an
 * hour for some of those that settle.
 */
static uint64_t time_of_order(bool settles)
{
	const uint64_t half = opt.seconds * SEC / 2;
	const uint64_t kind = settles ? random_below(100) : 100;

	if (kind < 5)
		return 1800 * SEC + random_below(600 * SEC);
	if (kind < 15)
		return 60 * SEC + random_below(240 * SEC);
	return half + random_below(half);
}

static void add_orders(void)
{
	__u64 deadlines[BATCH], cookies[BATCH];
	struct htw_vector_args vector;
	uint64_t first, t;
	uint32_t i, n;

	for (first = 0; first < opt.orders; first += n) {
		n = opt.orders - first < BATCH ? opt.orders - first : BATCH;
		t = now_ns();
		for (i = 0; i < n; i++) {
			demo.settles[first + i] = random_below(100) < opt.settle;
			demo.due[first + i] = t + time_of_order(demo.settles[first + i]);
			deadlines[i] = demo.due[first + i];
			cookies[i] = first + i;
		}
		vector = htw_vector_add(&demo.id[first], deadlines, cookies, n);
		vector.flags = HTW_F_ABS;
		run_vector(vector);
		demo.add_ns += now_ns() - t;
		for (i = 0; i < n; i++) {
			const int error = HTW_ID_ERROR(demo.id[first + i]);

			if (error)
				die("cannot add order %" PRIu64 ": %s%s", first + i,
				    strerror(-error), error != -ENOSPC ? "" :
				    " (the module's max_timers is the limit)");
		}
		demo.added += n;
		demo.open += n;
		print_progress("registering", false);
	}
}

/*
 * Choose a time before its deadline for each order that settles, and sort the
 * orders' numbers by slices of that time.
 */
static void plan_settlements(uint64_t now)
{
	uint32_t *slice_of = allocate(opt.orders, sizeof(*slice_of));
	uint64_t i, at = 0;

	for (i = 0; i < opt.orders; i++) {
		uint64_t left = demo.due[i] > now ? demo.due[i] - now : 0;

		slice_of[i] = UINT32_MAX;
		if (!demo.settles[i])
			continue;
		if (left > opt.seconds * SEC)
			left = opt.seconds * SEC;
		slice_of[i] = random_below(left) / SLICE_NS;
		demo.slice[slice_of[i]]++;
		demo.planned++;
	}
	for (i = 0; i < demo.slices; i++) {
		at += demo.slice[i];
		demo.slice[i] = at - demo.slice[i];
	}
	for (i = 0; i < opt.orders; i++)
		if (slice_of[i] != UINT32_MAX)
			demo.plan[demo.slice[slice_of[i]]++] = i;
	free(slice_of);
}

static void end_order(uint64_t order, enum end how)
{
	if (demo.end[order] != OPEN) {
		demo.twice++;
		return;
	}
	demo.end[order] = how;
	demo.open--;
}

/* Settle up to a batch of the orders planned before @until. */
static bool settle(uint64_t until)
{
	__u64 ids[BATCH];
	uint32_t i, n = 0;
	uint64_t t = now_ns();

	while (n < BATCH && demo.settled + n < until) {
		ids[n] = demo.id[demo.plan[demo.settled + n]];
		n++;
	}
	if (!n)
		return false;
	run_vector(htw_vector_cancel(ids, n));
	demo.cancel_ns += now_ns() - t;
	for (i = 0; i < n; i++) {
		uint64_t order = demo.plan[demo.settled + i];

		switch (HTW_ID_ERROR(ids[i])) {
		case 0:
			demo.cancelled++;
			end_order(order, CANCELLED);
			break;
		case -ENOENT:	/* read already */
			demo.too_late++;
			break;
		default:
			die("cannot cancel: %s", strerror(-HTW_ID_ERROR(ids[i])));
		}
	}
	demo.settled += n;
	return true;
}

static void take_event(const struct htw_event *ev, uint64_t now)
{
	if (ev->taken < ev->deadline || now < ev->deadline)
		demo.early++;
	else if (demo.late.count < opt.orders)
		demo.late.ns[demo.late.count++] = ev->taken - ev->deadline;
	demo.missed += ev->missed;
	if (ev->cookie >= RECURRING && ev->cookie < RECURRING + opt.recurring) {
		demo.recurred++;
	} else if (ev->cookie < opt.orders && ev->id == demo.id[ev->cookie]) {
		demo.expired++;
		end_order(ev->cookie, READ);
	} else {
		demo.stray++;
	}
}

/* Wait up to @timeout_ms for expirations and read them. */
static bool read_events(int timeout_ms)
{
	struct htw_event events[BATCH];
	struct epoll_event ready;
	uint64_t t, now;
	int n, i;

	if (epoll_wait(demo.epfd, &ready, 1, timeout_ms) <= 0)
		return false;
	t = now_ns();
	n = htw_read(demo.fd, events, BATCH);
	now = now_ns();
	if (n == -EAGAIN || n == -EINTR)
		return false;
	if (n < 0)
		die("read: %s", strerror(-n));
	demo.read_ns += now - t;
	demo.reads += n;
	for (i = 0; i < n; i++)
		take_event(&events[i], now);
	return true;
}

/* Run until each order has ended, or is too late to be expected. */
static void run(void)
{
	uint64_t start = now_ns(), last, now, slice;
	unsigned int full;

	plan_settlements(start);
	last = start + opt.seconds * SEC;
	while (demo.open) {
		now = now_ns();
		if (now > last + GRACE_NS)
			break;
		slice = (now - start) / SLICE_NS;
		settle(!slice ? 0 : slice >= demo.slices ? demo.planned : demo.slice[slice - 1]);
		/* A few batches at a time, so that settlements are not delayed. */
		for (full = 0; full < 4 && read_events(0); full++)
			;
		if (!full)
			read_events(SLICE_NS / MSEC);
		print_progress("running", false);
	}
}

static void stop_recurring(void)
{
	uint64_t i;

	for (i = 0; i < opt.recurring; i++) {
		struct htw_cancel_args cancel = htw_cancel_of(demo.recurring_id[i]);

		if (htw_call(demo.fd, HTW_CANCEL, &cancel))
			demo.stray++;
		else
			demo.missed += cancel.missed;
	}
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void usage(void)
{
	printf("Usage: htw-demo [OPTION]...\n"
	       "\n"
	       "Give a million orders a timeout each, settle most of them, let the others\n"
	       "expire, and check that each ends exactly once.\n"
	       "\n"
	       "  -n, --orders=N       number of orders (default 1000000)\n"
	       "  -t, --seconds=N      most timeouts, and duration of the demo (default 20)\n"
	       "  -s, --settle=PERCENT orders that settle in time (default 93)\n"
	       "  -r, --recurring=N    recurring timers (default 1000)\n"
	       "      --seed=N         seed of random numbers (default 1)\n"
	       "      --device=PATH    the device (default /dev/htw)\n"
	       "  -f, --format=FORMAT  text (default) or json\n"
	       "  -h, --help           print this help\n"
	       "\n"
	       "Exit status: 0; 1 if a timeout was early, lost or repeated; 2 if the demo\n"
	       "could not run.\n");
}

static uint64_t number(const char *option, const char *text, uint64_t least, uint64_t most)
{
	unsigned long long n;
	char *end;

	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || n < least || n > most)
		die("--%s=%s: must be a number from %" PRIu64 " to %" PRIu64, option, text,
		    least, most);
	return n;
}

static void parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "orders", required_argument, NULL, 'n' },
		{ "seconds", required_argument, NULL, 't' },
		{ "settle", required_argument, NULL, 's' },
		{ "recurring", required_argument, NULL, 'r' },
		{ "seed", required_argument, NULL, 'S' },
		{ "device", required_argument, NULL, 'D' },
		{ "format", required_argument, NULL, 'f' },
		{ "help", no_argument, NULL, 'h' },
		{ },
	};
	int c;

	while ((c = getopt_long(argc, argv, "n:t:s:r:f:h", options, NULL)) != -1) {
		switch (c) {
		case 'n':
			opt.orders = number("orders", optarg, 1, 100000000);
			break;
		case 't':
			opt.seconds = number("seconds", optarg, 1, 86400);
			break;
		case 's':
			opt.settle = number("settle", optarg, 0, 100);
			break;
		case 'r':
			opt.recurring = number("recurring", optarg, 0, 1000000);
			break;
		case 'S':
			opt.seed = number("seed", optarg, 1, UINT64_MAX);
			break;
		case 'D':
			opt.device = optarg;
			break;
		case 'f':
			if (strcmp(optarg, "text") && strcmp(optarg, "json"))
				die("--format=%s: must be text or json", optarg);
			opt.json = !strcmp(optarg, "json");
			break;
		case 'h':
			usage();
			exit(0);
		default:
			fprintf(stderr, "Try htw-demo --help.\n");
			exit(2);
		}
	}
	if (optind < argc)
		die("unexpected argument %s; try --help", argv[optind]);
}

static void prepare(void)
{
	struct epoll_event event = { .events = EPOLLIN };
	struct htw_info_args info;
	int ret;

	demo.fd = open(opt.device, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (demo.fd < 0)
		die("%s: %s%s", opt.device, strerror(errno),
		    errno == ENOENT ? " (is the htw module loaded?)" : "");
	ret = htw_call(demo.fd, HTW_INFO, &info);
	if (ret)
		die("%s: HTW_INFO: %s", opt.device, strerror(-ret));
	if (info.limit < opt.orders + opt.recurring)
		die("%s timers exceed the limit of %s for one open of %s\n"
		    "(the module's parameter max_timers)",
		    grouped(opt.orders + opt.recurring), grouped(info.limit), opt.device);
	demo.epfd = epoll_create1(EPOLL_CLOEXEC);
	if (demo.epfd < 0 || epoll_ctl(demo.epfd, EPOLL_CTL_ADD, demo.fd, &event))
		die("epoll: %s", strerror(errno));

	demo.slices = opt.seconds * SEC / SLICE_NS + 1;
	demo.id = allocate(opt.orders, sizeof(*demo.id));
	demo.due = allocate(opt.orders, sizeof(*demo.due));
	demo.end = allocate(opt.orders, sizeof(*demo.end));
	demo.settles = allocate(opt.orders, sizeof(*demo.settles));
	demo.plan = allocate(opt.orders, sizeof(*demo.plan));
	demo.slice = allocate(demo.slices, sizeof(*demo.slice));
	demo.recurring_id = allocate(opt.recurring, sizeof(*demo.recurring_id));
	demo.late.ns = allocate(opt.orders, sizeof(*demo.late.ns));
}

/* Print each promise that was broken; return the exit status. */
static int verdict(void)
{
	FILE *out = opt.json ? stderr : stdout;
	struct htw_info_args info;
	int ret;

	if (!opt.json)
		printf("\n");
	ret = htw_call(demo.fd, HTW_INFO, &info);
	if (ret)
		die("%s: HTW_INFO: %s", opt.device, strerror(-ret));
	if (demo.early) {
		fprintf(out, "FAILED: %s timeouts were early.\n", grouped(demo.early));
	} else if (demo.open) {
		fprintf(out, "FAILED: %s timeouts were lost.\n", grouped(demo.open));
	} else if (demo.twice || demo.stray) {
		fprintf(out, "FAILED: %s timeouts ended twice, %s were unknown.\n",
			grouped(demo.twice), grouped(demo.stray));
	} else if (demo.cancelled + demo.expired != demo.added) {
		fprintf(out, "FAILED: added %s, but cancelled and expired %s.\n",
			grouped(demo.added), grouped(demo.cancelled + demo.expired));
	} else if (info.timers) {
		fprintf(out, "FAILED: the device still holds %s timers.\n",
			grouped(info.timers));
	} else {
		if (!opt.json)
			printf("Each of the %s timeouts ended exactly once, none of them early.\n",
			       grouped(demo.added));
		return 0;
	}
	return 1;
}

int main(int argc, char **argv)
{
	uint64_t before, after;

	parse(argc, argv);
	prepare();
	if (!opt.json)
		printf("htw-demo: %s orders, each with a timeout: most in up to %u s, some in\n"
		       "minutes or half an hour. %u%% of the orders will settle before that.\n\n",
		       grouped(opt.orders), opt.seconds, opt.settle);

	before = free_memory();
	demo.begin = now_ns();
	add_recurring();
	add_orders();
	after = free_memory();
	demo.memory = before > after ? before - after : 0;
	demo.fullest = read_wheels();
	print_progress("registered", true);

	run();
	print_progress("done", true);
	stop_recurring();
	demo.rings = read_wheels().rings;

	qsort(demo.late.ns, demo.late.count, sizeof(*demo.late.ns), compare);
	if (opt.json) {
		print_json();
	} else {
		print_table();
		print_picture();
	}
	return verdict();
}
