// SPDX-License-Identifier: GPL-2.0-only
/*
 * What people and tools see: fdinfo, tracepoints, debugfs, sysfs
 *
 * Each test makes a value change and reads it.
 */
#include <limits.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "htw-test.h"

#define TRACING		"/sys/kernel/tracing/"

/*
 * fdinfo
 */

/* The number after @name in fdinfo; LLONG_MIN if there is none. */
static long long fdinfo(int fd, const char *name)
{
	char path[64], buf[4096], line[64], *found;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	snprintf(line, sizeof(line), "\n%s:\t", name);
	if (htw_read_file(path, buf, sizeof(buf)))
		return LLONG_MIN;
	found = strstr(buf, line);
	return found ? strtoll(found + strlen(line), NULL, 10) : LLONG_MIN;
}

/* Numbers of the line @name in fdinfo, of which there may be many; return how many. */
static unsigned int fdinfo_numbers(int fd, const char *name, unsigned long long *numbers,
				   unsigned int room)
{
	char path[64], buf[4096], line[64], *at, *end;
	unsigned int n = 0;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	snprintf(line, sizeof(line), "\n%s:\t", name);
	if (htw_read_file(path, buf, sizeof(buf)))
		return 0;
	at = strstr(buf, line);
	if (!at)
		return 0;
	for (at += strlen(line); n < room && *at != '\n'; at = end) {
		numbers[n] = strtoull(at, &end, 10);
		if (end == at)
			break;
		n++;
	}
	return n;
}

/* HTW_CANCEL_ALL: how many have ended, or a negative errno. */
static long long htw_end_all(int fd)
{
	struct htw_cancel_all_args all = { .count = POISON };
	int ret = htw_call(fd, HTW_CANCEL_ALL, &all);

	return ret ? ret : (long long)all.count;
}

#define BINS		20

/* How many a histogram has counted, from a bin on. */
static unsigned long long late_from(int fd, const char *name, unsigned int first)
{
	unsigned long long bins[BINS + 1], sum = 0;

	if (fdinfo_numbers(fd, name, bins, BINS + 1) != BINS)
		return POISON;
	for (; first < BINS; first++)
		sum += bins[first];
	return sum;
}

HTW_TEST(fdinfo_of_a_fresh_one)
{
	EXPECT_EQ(CLOCK_MONOTONIC, fdinfo(self->fd, "htw-clock"));
	EXPECT_EQ(self->tick, fdinfo(self->fd, "htw-tick-ns"));
	EXPECT_EQ(0, fdinfo(self->fd, "htw-flags"));
	EXPECT_EQ(sizeof(struct htw_event), fdinfo(self->fd, "htw-event-size"));
	EXPECT_EQ(0, fdinfo(self->fd, "htw-timers"));
	EXPECT_EQ(0, fdinfo(self->fd, "htw-pending"));
	EXPECT_EQ(0, fdinfo(self->fd, "htw-oldest-due-ns"));
	EXPECT_EQ(0, fdinfo(self->fd, "htw-bytes"));
	EXPECT_EQ(0, fdinfo(self->fd, "htw-wheels"));
	EXPECT_EQ(self->limit, fdinfo(self->fd, "htw-limit"));
	EXPECT_EQ(0, late_from(self->fd, "htw-alarm-late", 0));
	EXPECT_EQ(0, late_from(self->fd, "htw-taken-late", 0));
}

HTW_TEST(fdinfo_counts)
{
	struct htw_event ev[2];
	__u64 id;
	int i;

	id = htw_start(self->fd, HOUR, 1);
	EXPECT_EQ(1, fdinfo(self->fd, "htw-wheels"));
	EXPECT_EQ(htw_info(self->fd).bytes, fdinfo(self->fd, "htw-bytes"));
	EXPECT_EQ(htw_info(self->fd).user_timers, fdinfo(self->fd, "htw-user-timers"));
	for (i = 0; i < 3; i++)
		ASSERT_NE(0, htw_start(self->fd, 0, i));
	EXPECT_EQ(4, fdinfo(self->fd, "htw-timers"));
	EXPECT_EQ(4, fdinfo(self->fd, "htw-pending"));
	ASSERT_EQ(2, htw_read(self->fd, ev, 2));
	EXPECT_EQ(2, fdinfo(self->fd, "htw-taken"));
	EXPECT_EQ(2, fdinfo(self->fd, "htw-timers"));
	EXPECT_EQ(0, fdinfo(self->fd, "htw-cancelled"));
	ASSERT_EQ(0, htw_stop(self->fd, id));
	EXPECT_EQ(1, fdinfo(self->fd, "htw-timers"));
	EXPECT_EQ(1, fdinfo(self->fd, "htw-cancelled"));
	ASSERT_EQ(1, htw_end_all(self->fd));
	EXPECT_EQ(2, fdinfo(self->fd, "htw-cancelled"));
	EXPECT_EQ(0, fdinfo(self->fd, "htw-pending"));
	EXPECT_EQ(2, late_from(self->fd, "htw-taken-late", 0));
}

/* A vector's cancels are counted, and those alone that found a timer. */
HTW_TEST(fdinfo_counts_vectors)
{
	enum { COUNT = 1000 };
	static __u64 ids[COUNT];
	struct htw_vector_args v = {
		.ids = (uintptr_t)ids, .count = COUNT, .op = HTW_OP_CANCEL,
	};

	ASSERT_EQ(COUNT, htw_start_many(self->fd, now_ns() + HOUR, 1, COUNT, ids));
	ids[COUNT / 2] = ids[0];
	ASSERT_EQ(0, htw_call(self->fd, HTW_VECTOR, &v));
	ASSERT_EQ(1, v.failed);
	EXPECT_EQ(COUNT - 1, fdinfo(self->fd, "htw-cancelled"));
	EXPECT_EQ(1, fdinfo(self->fd, "htw-pending"));
}

/* The levels of a base that has many timers: each timer is in a bucket of its own. */
HTW_TEST(fdinfo_of_levels)
{
	enum { COUNT = 200 };
	struct htw_setup_args setup = {
		.tick_ns = SEC, .levels = 2, .slots = { 1000, 10 },
	};
	const __u64 begin = now_ns() + 100 * SEC;
	unsigned int span, buckets, occupied;
	char path[64], buf[4096], line[64];
	const char *at;
	int found, i;

	ASSERT_EQ(0, htw_set_up(self->fd, setup));
	for (i = 0; i < COUNT; i++)
		ASSERT_NE(0, htw_start_abs(self->fd, begin + i * SEC, i));
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", self->fd);
	snprintf(line, sizeof(line), "\nhtw-level-0:\tspan %%u buckets %%u occupied %%u\n");
	ASSERT_EQ(0, htw_read_file(path, buf, sizeof(buf)));
	at = strstr(buf, "\nhtw-level-0:");
	ASSERT_NE(NULL, at);
	found = sscanf(at, line, &span, &buckets, &occupied);
	ASSERT_EQ(3, found);
	EXPECT_EQ(1, span);
	EXPECT_LE(1000, buckets);
	EXPECT_EQ(COUNT, occupied);
	EXPECT_NE(NULL, strstr(buf, "\nhtw-level-1:\tspan 1000 "));
	EXPECT_EQ(NULL, strstr(buf, "\nhtw-level-2:"));
}

/* What is due and not taken has an age, which grows; a lateness of taking as long follows. */
HTW_TEST(fdinfo_of_what_nobody_takes)
{
	const __u64 deadline = now_ns() + 5 * MSEC;
	long long age, later;
	struct htw_event ev;

	ASSERT_NE(0, htw_start_abs(self->fd, deadline, 1));
	ASSERT_NE(0, htw_start(self->fd, HOUR, 2));
	ASSERT_TRUE(htw_wait_readable(self->fd));
	age = fdinfo(self->fd, "htw-oldest-due-ns");
	EXPECT_LE(0, age);
	age += 20 * MSEC;
	EXPECT_TRUE(htw_eventually(fdinfo(self->fd, "htw-oldest-due-ns") > age));
	later = fdinfo(self->fd, "htw-oldest-due-ns");
	EXPECT_LE(later, (long long)(now_ns() - deadline));
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	EXPECT_EQ(0, fdinfo(self->fd, "htw-oldest-due-ns"));
	/* It was taken 20 ms late or more: bin 14 is from 8.4 ms on. */
	EXPECT_EQ(1, late_from(self->fd, "htw-taken-late", 14));
	EXPECT_EQ(1, late_from(self->fd, "htw-taken-late", 0));
}

/* Wait for a timer; its alarm does not ring if this task comes so late that it tells itself. */
static bool alarm_is_counted(int fd)
{
	struct htw_event ev;

	return htw_start(fd, 20 * MSEC, 1) && htw_collect(fd, &ev, 1) == 1 &&
	       late_from(fd, "htw-alarm-late", 0);
}

HTW_TEST(fdinfo_of_alarms)
{
	EXPECT_TRUE(htw_eventually(alarm_is_counted(self->fd)));
	EXPECT_GE(fdinfo(self->fd, "htw-taken"), late_from(self->fd, "htw-alarm-late", 0));
}

/* Events of many ticks in one read, each as late as it is: on the manual clock. */
HTW_TEST(fdinfo_of_lateness)
{
	struct htw_setup_args setup = {
		.flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL, .tick_ns = MSEC,
	};
	unsigned long long bins[BINS];
	struct htw_event ev[32];
	int i;

	ASSERT_EQ(0, htw_set_up(self->fd, setup));
	/* 0, 1, 2, 4, ... ms before the clock's time. */
	ASSERT_NE(0, htw_start(self->fd, 200 * MSEC, 0));
	for (i = 0; i < 8; i++)
		ASSERT_NE(0, htw_start(self->fd, (200 - (1 << i)) * MSEC, i));
	ASSERT_EQ(1, htw_advance(self->fd, 200 * MSEC, 0));
	ASSERT_EQ(9, htw_read(self->fd, ev, 32));
	ASSERT_EQ(BINS, fdinfo_numbers(self->fd, "htw-taken-late", bins, BINS));
	EXPECT_EQ(1, bins[0]);
	/* 1 ms is less than 1024 * 1024 ns: bin 10. */
	for (i = 0; i < 8; i++)
		EXPECT_EQ(1, bins[10 + i]);
	EXPECT_EQ(0, fdinfo(self->fd, "htw-oldest-due-ns"));
}

/* A user at its limit. */
static bool refused_as_nobody(void)
{
	struct htw_add_args add = htw_rel(HOUR, 1);
	int fd, ret = 0;

	if (!as_nobody() || prctl(PR_SET_DUMPABLE, 1))
		return false;
	fd = htw_open(0);
	if (fd < 0 || fdinfo(fd, "htw-user-limit") != 100 || fdinfo(fd, "htw-refused"))
		return false;
	while (!ret)
		ret = htw_call(fd, HTW_ADD, &add);
	return ret == -EDQUOT && fdinfo(fd, "htw-refused") == 1;
}

HTW_TEST(fdinfo_of_a_user_at_its_limit)
{
	char old[32];

	ASSERT_TRUE(open_to_all());
	EXPECT_EQ(LLONG_MIN, fdinfo(self->fd, "htw-user-limit"));
	ASSERT_EQ(0, htw_read_file(HTW_MODULE "max_user_timers", old, sizeof(old)));
	ASSERT_EQ(0, htw_write_file(HTW_MODULE "max_user_timers", "100"));
	EXPECT_TRUE(htw_in_child(refused_as_nobody()));
	ASSERT_EQ(0, htw_write_file(HTW_MODULE "max_user_timers", old));
}

HTW_TEST(fdinfo_of_one_that_was_set_up)
{
	static const int clocks[] = { CLOCK_BOOTTIME, CLOCK_REALTIME, HTW_CLOCK_MANUAL };
	struct htw_setup_args setup = {
		.flags = HTW_SETUP_CLOCK,
		.tick_ns = 10 * MSEC, .levels = 2, .slots = { 10, 10 }, .limit = 77,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(clocks); i++) {
		int fd = htw_open(0);

		setup.clock = clocks[i];
		ASSERT_EQ(0, htw_set_up(fd, setup));
		EXPECT_EQ(clocks[i], fdinfo(fd, "htw-clock"));
		EXPECT_EQ(10 * MSEC, fdinfo(fd, "htw-tick-ns"));
		EXPECT_EQ(77, fdinfo(fd, "htw-limit"));
		EXPECT_EQ(HTW_SETUP_CLOCK, fdinfo(fd, "htw-flags"));
		close(fd);
	}
}

/*
 * Tracepoints
 */

static bool trace_clear(void)
{
	int fd = open(TRACING "trace", O_WRONLY | O_TRUNC | O_CLOEXEC);

	return fd >= 0 && !close(fd);
}

static int trace_event(const char *name, const char *on)
{
	char path[128];

	snprintf(path, sizeof(path), TRACING "events/htw/htw_%s/enable", name);
	return htw_write_file(path, on);
}

static bool trace_begin(const char *name)
{
	return !access(TRACING "events/htw", R_OK) && trace_clear() &&
	       !htw_write_file(TRACING "tracing_on", "1") && !trace_event(name, "1");
}

static char trace[1 << 20];

static void trace_end(const char *name)
{
	FILE *file = fopen(TRACING "trace", "re");
	size_t n;

	trace_event(name, "0");
	n = file ? fread(trace, 1, sizeof(trace) - 1, file) : 0;
	trace[n] = '\0';
	if (file)
		fclose(file);
}

/*
 * Find the first line at or after @from with this event followed by @text.
 * Return the text, and the event's CPU in @cpu.
 */
static const char *trace_find(const char *from, const char *name, const char *text, int *cpu)
{
	char event[32], line[256];
	const char *next, *at;

	snprintf(event, sizeof(event), ": htw_%s: ", name);
	for (; from && *from; from = next) {
		next = strchr(from, '\n');
		next = next ? next + 1 : NULL;
		snprintf(line, sizeof(line), "%.*s", (int)(next ? next - from - 1 : 255), from);
		at = strstr(line, event);
		if (!at || !strstr(at, text))
			continue;
		if (cpu && sscanf(strchr(line, '['), "[%d]", cpu) != 1)
			*cpu = -1;
		return from + (strstr(at, text) - line);
	}
	return NULL;
}

static __u64 trace_number(const char *line, const char *name)
{
	const char *end = strchr(line, '\n'), *at = strstr(line, name);

	return at && at < end ? strtoull(at + strlen(name), NULL, 0) : POISON;
}

#define TRACED(name, statement) do {					\
	if (!trace_begin(name))						\
		SKIP(return, "no tracing");			\
	statement;							\
	trace_end(name);						\
} while (0)

HTW_TEST(trace_add)
{
	struct htw_add_args add = htw_abs(now_ns() + HOUR, 0xabcdef0123456789);
	char text[256];
	int cpu;

	add.interval = 3 * SEC;
	TRACED("add", ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add)));
	snprintf(text, sizeof(text), "id=%#llx cookie=%#llx deadline=%llu interval=%llu",
		 add.id, add.cookie, add.deadline, add.interval);
	EXPECT_NE(NULL, trace_find(trace, "add", text, &cpu));
	EXPECT_EQ(0, cpu);
}

HTW_TEST(trace_cancel)
{
	/* One that is pending, one that is due, and one that has ended. */
	__u64 ids[3] = { htw_start(self->fd, HOUR, 1), htw_start(self->fd, 0, 2), 0 };
	static const int results[] = { 0, 0, -ENOENT };
	char text[128];
	int i;

	ids[2] = ids[0];
	TRACED("cancel", {
		for (i = 0; i < 3; i++)
			EXPECT_EQ(results[i], htw_stop(self->fd, ids[i]));
	});
	for (i = 0; i < 3; i++) {
		snprintf(text, sizeof(text), "id=%#llx result=%d", ids[i], results[i]);
		EXPECT_NE(NULL, trace_find(trace, "cancel", text, NULL));
	}
}

/* How many events there are of @name whose text is @text. */
static unsigned int trace_count(const char *name, const char *text)
{
	const char *at = trace;
	unsigned int n = 0;

	while ((at = trace_find(at, name, text, NULL))) {
		n++;
		at = strchr(at, '\n');
	}
	return n;
}

/* Each operation of a vector, once, however it ends; and those of HTW_CANCEL_ALL. */
HTW_TEST(trace_vectors)
{
	enum { COUNT = 300 };
	static __u64 ids[COUNT], deadlines[COUNT];
	struct htw_vector_args v = {
		.ids = (uintptr_t)ids, .deadlines = (uintptr_t)deadlines, .count = COUNT,
		.flags = HTW_F_ABS, .op = HTW_OP_ADD,
	};
	char text[64];
	int i;

	for (i = 0; i < COUNT; i++)
		deadlines[i] = now_ns() + HOUR + i;
	TRACED("add", EXPECT_EQ(0, htw_call(self->fd, HTW_VECTOR, &v)));
	EXPECT_EQ(COUNT, trace_count("add", "id="));
	for (i = 0; i < COUNT; i++) {
		snprintf(text, sizeof(text), "id=%#llx cookie=0x0 deadline=%llu ", ids[i],
			 deadlines[i]);
		EXPECT_EQ(1, trace_count("add", text));
		deadlines[i] += HOUR;
	}
	v.op = HTW_OP_MOD;
	v.flags = HTW_MOD_DEADLINE | HTW_F_ABS;
	TRACED("mod", EXPECT_EQ(0, htw_call(self->fd, HTW_VECTOR, &v)));
	EXPECT_EQ(COUNT, trace_count("mod", "id="));
	snprintf(text, sizeof(text), "id=%#llx cookie=0x0 deadline=%llu ", ids[7], deadlines[7]);
	EXPECT_EQ(1, trace_count("mod", text));
	/* Half of them, and one twice. */
	v = (struct htw_vector_args){
		.ids = (uintptr_t)ids, .count = COUNT / 2, .op = HTW_OP_CANCEL,
	};
	ids[1] = ids[0];
	TRACED("cancel", EXPECT_EQ(0, htw_call(self->fd, HTW_VECTOR, &v)));
	EXPECT_EQ(1, v.failed);
	EXPECT_EQ(COUNT / 2 - 1, trace_count("cancel", "result=0"));
	EXPECT_EQ(1, trace_count("cancel", "result=-2"));
	TRACED("cancel", EXPECT_EQ(COUNT / 2 + 1, htw_end_all(self->fd)));
	EXPECT_EQ(COUNT / 2 + 1, trace_count("cancel", "result=0"));
}

HTW_TEST(trace_mod)
{
	__u64 id = htw_start(self->fd, HOUR, 1), deadline = now_ns() + 2 * HOUR;
	struct htw_mod_args mod = {
		.id = id, .deadline = deadline, .interval = 5 * SEC, .cookie = 0x77,
		.flags = HTW_MOD_DEADLINE | HTW_MOD_INTERVAL | HTW_MOD_COOKIE | HTW_F_ABS,
	};
	char text[256];

	TRACED("mod", EXPECT_EQ(0, htw_mod(self->fd, mod)));
	snprintf(text, sizeof(text), "id=%#llx cookie=0x77 deadline=%llu interval=%llu",
		 id, deadline, 5 * SEC);
	EXPECT_NE(NULL, trace_find(trace, "mod", text, NULL));
}

HTW_TEST(trace_expire)
{
	__u64 deadline = now_ns() + 5 * MSEC, id = 0;
	struct htw_event ev;
	const char *line;
	char text[128];

	TRACED("expire", id = htw_start_abs(self->fd, deadline, 0x99);
	       ASSERT_EQ(1, htw_collect(self->fd, &ev, 1)));
	snprintf(text, sizeof(text), "id=%#llx cookie=0x99 deadline=%llu late=", id, deadline);
	line = trace_find(trace, "expire", text, NULL);
	ASSERT_NE(NULL, line);
	EXPECT_EQ(ev.taken - deadline, trace_number(line, "late="));
}

/* The call that starts a timer sets the alarm to its tick; the alarm rings, and wakes. */
HTW_TEST(trace_alarm)
{
	__u64 deadline = 0, tick;
	char text[128];

	/* Before anything else that this user may wait for; turning on tracing may take long. */
	TRACED("alarm_program", deadline = now_ns() + 300 * MSEC;
	       ASSERT_NE(0, htw_start_abs(self->fd, deadline, 1)));
	tick = (deadline + self->tick - 1) / self->tick * self->tick;
	snprintf(text, sizeof(text), "uid=0 clock=1 expires=%llu", tick);
	EXPECT_NE(NULL, trace_find(trace, "alarm_program", text, NULL));
	TRACED("alarm_ring", ASSERT_NE(0, htw_start(self->fd, 5 * MSEC, 2));
	       ASSERT_TRUE(htw_wait_readable(self->fd)));
	EXPECT_NE(NULL, trace_find(trace, "alarm_ring", "uid=0 clock=1 late=", NULL));
}

/* A task that waits in poll() is woken, by the alarm or by a kernel thread. */
HTW_TEST(trace_wake)
{
	const char *line;

	TRACED("wake", ASSERT_NE(0, htw_start(self->fd, 20 * MSEC, 1));
	       ASSERT_TRUE(htw_wait_readable(self->fd)));
	line = trace_find(trace, "wake", "context=", NULL);
	ASSERT_NE(NULL, line);
	EXPECT_GE(1, trace_number(line, "deferred="));
	EXPECT_GT(HOUR, trace_number(line, "took="));
}

/* 100 timers hours ahead, on the manual clock: more than the few that need no levels. */
HTW_TEST(trace_cascade)
{
	struct htw_setup_args setup = {
		.flags = HTW_SETUP_CLOCK,
		.clock = HTW_CLOCK_MANUAL, .tick_ns = SEC, .levels = 3, .slots = { 60, 60, 12 },
	};
	const char *line = trace;
	struct htw_event ev;
	__u64 moved = 0;
	int i;

	ASSERT_EQ(0, htw_set_up(self->fd, setup));
	for (i = 0; i < 100; i++)
		ASSERT_NE(0, htw_start(self->fd, 3 * HOUR + i / 2 * SEC, i));
	TRACED("cascade", {
		for (i = 0; i < 6; i++)
			ASSERT_LE(0, htw_advance(self->fd, HOUR / 2, 0));
		/* Nobody but who waits or reads moves a bucket down. */
		ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	});
	while ((line = trace_find(line, "cascade", "wheel=0 moved=", NULL))) {
		moved += trace_number(line, "moved=");
		line = strchr(line, '\n');
	}
	/* From hours to minutes, and from minutes to seconds. */
	EXPECT_EQ(200, moved);
}

/*
 * debugfs
 */

#define DEBUGFS		"/sys/kernel/debug/htw/"

/* Add up a field of the lines of a file in debugfs that begin with @start. */
static __u64 debugfs_sum(const char *name, const char *start, const char *field)
{
	char path[64], line[512], *at;
	__u64 sum = 0;
	FILE *file;

	snprintf(path, sizeof(path), DEBUGFS "%s", name);
	file = fopen(path, "re");
	if (!file)
		return POISON;
	while (fgets(line, sizeof(line), file)) {
		at = strncmp(line, start, strlen(start)) ? NULL : strstr(line, field);
		if (at)
			sum += strtoull(at + strlen(field), NULL, 10);
	}
	fclose(file);
	return sum;
}

static bool waited_for(int fd)
{
	struct htw_event ev;

	return htw_start(fd, 20 * MSEC, 2) && htw_wait_readable(fd) && htw_read(fd, &ev, 1) == 1;
}

HTW_TEST(debugfs_users)
{
	const char *root = "user 0:privileged contexts ", *alarms = "user 0:privileged cpu ";
	__u64 contexts, timers, rings, wakes;
	int fd;

	if (access(DEBUGFS, R_OK))
		SKIP(return, "no debugfs");
	contexts = debugfs_sum("users", root, " contexts ");
	ASSERT_LE(1, contexts);
	fd = htw_open(0);
	EXPECT_EQ(contexts + 1, debugfs_sum("users", root, " contexts "));
	close(fd);
	EXPECT_EQ(contexts, debugfs_sum("users", root, " contexts "));

	timers = debugfs_sum("users", root, " timers ");
	ASSERT_NE(0, htw_start(self->fd, HOUR, 1));
	EXPECT_EQ(htw_info(self->fd).user_timers, debugfs_sum("users", root, " timers "));
	EXPECT_LT(timers, debugfs_sum("users", root, " timers "));
	EXPECT_LE(1, debugfs_sum("users", alarms, " queued "));

	rings = debugfs_sum("users", alarms, " rings ");
	wakes = debugfs_sum("users", alarms, " wakes ");
	EXPECT_TRUE(htw_eventually(waited_for(self->fd) &&
				   debugfs_sum("users", alarms, " rings ") > rings));
	/* Not if the timer is due before the task waits. */
	EXPECT_TRUE(htw_eventually(waited_for(self->fd) &&
				   debugfs_sum("users", alarms, " wakes ") > wakes));
}

/* Two tasks that poll one descriptor are woken by a work item. */
HTW_TEST(debugfs_lanes)
{
	__u64 wakes;
	pid_t pid;
	int status;

	if (access(DEBUGFS, R_OK))
		SKIP(return, "no debugfs");
	wakes = debugfs_sum("lanes", "lane ", " wakes ");
	pid = fork();
	if (!pid)
		_exit(!htw_wait_readable(self->fd));
	ASSERT_NE(0, htw_start(self->fd, SEC, 1));
	ASSERT_TRUE(htw_wait_readable(self->fd));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	EXPECT_TRUE(htw_eventually(debugfs_sum("lanes", "lane ", " wakes ") > wakes));
	EXPECT_EQ(0, debugfs_sum("lanes", "lane ", " waiting "));
}

/*
 * sysfs
 */

/* Parameters that cannot change at run time are read-only. */
HTW_TEST(sysfs_what_is_fixed)
{
	static const char * const names[] = { "tick_us", "refused" };
	char path[128], before[64], after[64];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), HTW_MODULE "%s", names[i]);
		ASSERT_EQ(0, htw_read_file(path, before, sizeof(before)));
		EXPECT_EQ(-EACCES, htw_write_file(path, "100"));
		ASSERT_EQ(0, htw_read_file(path, after, sizeof(after)));
		EXPECT_EQ(0, strcmp(before, after));
	}
	EXPECT_EQ(self->tick, htw_file_number(HTW_MODULE "tick_us") * USEC);
}

/* max_timers holds for descriptors opened from then on. */
HTW_TEST(sysfs_max_timers)
{
	static const char * const wrong[] = { "0", "-1", "4294967295", "many", "" };
	struct htw_setup_args setup = { 0 };
	char old[32];
	unsigned int i;
	int fd;

	ASSERT_EQ(0, htw_read_file(HTW_MODULE "max_timers", old, sizeof(old)));
	EXPECT_EQ(self->limit, strtoull(old, NULL, 10));
	ASSERT_EQ(0, htw_write_file(HTW_MODULE "max_timers", "3\n"));
	EXPECT_EQ(3, htw_file_number(HTW_MODULE "max_timers"));
	EXPECT_EQ(self->limit, htw_info(self->fd).limit);
	fd = htw_open(O_NONBLOCK);
	ASSERT_LE(0, fd);
	EXPECT_EQ(3, htw_info(fd).limit);
	setup.limit = 4;
	EXPECT_EQ(-ERANGE, htw_set_up(fd, setup));
	for (i = 0; i < 3; i++)
		EXPECT_NE(0, htw_start(fd, HOUR, i));
	EXPECT_EQ(0, htw_start(fd, HOUR, i));
	EXPECT_EQ(ENOSPC, errno);
	/* A descriptor that was open keeps its limit. */
	for (i = 0; i < 5; i++)
		EXPECT_NE(0, htw_start(self->fd, HOUR, i));
	for (i = 0; i < ARRAY_SIZE(wrong) - 1; i++)
		EXPECT_NE(0, htw_write_file(HTW_MODULE "max_timers", wrong[i])) {
			TH_LOG("took %s", wrong[i]);
		}
	EXPECT_EQ(3, htw_file_number(HTW_MODULE "max_timers"));
	ASSERT_EQ(0, htw_write_file(HTW_MODULE "max_timers", old));
	EXPECT_EQ(self->limit, htw_file_number(HTW_MODULE "max_timers"));
	close(fd);
}

/* HTW_SETUP without a limit keeps the limit from the open. */
HTW_TEST(sysfs_max_timers_and_a_later_setup)
{
	char old[32];

	ASSERT_EQ(0, htw_read_file(HTW_MODULE "max_timers", old, sizeof(old)));
	ASSERT_EQ(0, htw_write_file(HTW_MODULE "max_timers", "3"));
	EXPECT_EQ(0, htw_setup_clock(self->fd, CLOCK_BOOTTIME));
	EXPECT_EQ(self->limit, htw_info(self->fd).limit);
	ASSERT_EQ(0, htw_write_file(HTW_MODULE "max_timers", old));
}

/* Start timers up to the limit. Pages and wheels count as well, so there are fewer. */
static bool at_users_limit(__u64 limit)
{
	struct htw_info_args info;
	__u64 i = 0;
	int fd;

	if (!as_nobody())
		return false;
	fd = htw_open(O_NONBLOCK);
	if (fd < 0)
		return false;
	while (htw_start(fd, HOUR, i))
		i++;
	if (errno != EDQUOT)
		return false;
	info = htw_info(fd);
	return info.timers == i && i >= limit / 8 && i < limit && info.user_limit == limit &&
	       info.user_timers <= limit && info.user_timers + PAGE / 64 > limit;
}

/* max_user_timers holds at once, for all descriptors of a user. */
HTW_TEST(sysfs_max_user_timers)
{
	char old[32];

	ASSERT_EQ(0, htw_read_file(HTW_MODULE "max_user_timers", old, sizeof(old)));
	ASSERT_EQ(0, chmod(HTW_DEVICE, 0666));
	ASSERT_EQ(0, htw_write_file(HTW_MODULE "max_user_timers", "100"));
	EXPECT_TRUE(htw_in_child(at_users_limit(100)));
	ASSERT_EQ(0, htw_write_file(HTW_MODULE "max_user_timers", "1000"));
	EXPECT_TRUE(htw_in_child(at_users_limit(1000)));
	/* Where pages are allocated ahead. */
	ASSERT_EQ(0, htw_write_file(HTW_MODULE "max_user_timers", "5000"));
	EXPECT_TRUE(htw_in_child(at_users_limit(5000)));
	EXPECT_EQ(-EINVAL, htw_write_file(HTW_MODULE "max_user_timers", "0"));
	EXPECT_EQ(-EINVAL, htw_write_file(HTW_MODULE "max_user_timers", "4294967295"));
	ASSERT_EQ(0, htw_write_file(HTW_MODULE "max_user_timers", old));
}

TEST_HARNESS_MAIN
