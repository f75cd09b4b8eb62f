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

#include "htw-cpu.h"

/*
 * fdinfo
 */

/* The number after @name in fdinfo; LLONG_MIN if there is none. */
static long long fdinfo(int fd, const char *name)
{
	char path[64], buf[1024], line[64], *found;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	snprintf(line, sizeof(line), "\n%s:\t", name);
	if (htw_read_file(path, buf, sizeof(buf)))
		return LLONG_MIN;
	found = strstr(buf, line);
	return found ? strtoll(found + strlen(line), NULL, 10) : LLONG_MIN;
}

HTW_TEST(fdinfo_of_a_fresh_one)
{
	EXPECT_EQ(CLOCK_MONOTONIC, fdinfo(self->fd, "htw-clock"));
	EXPECT_EQ(self->tick, fdinfo(self->fd, "htw-tick-ns"));
	EXPECT_EQ(0, fdinfo(self->fd, "htw-timers"));
	EXPECT_EQ(0, fdinfo(self->fd, "htw-expired"));
	EXPECT_EQ(self->limit, fdinfo(self->fd, "htw-limit"));
}

HTW_TEST(fdinfo_counts)
{
	struct htw_event ev[2];
	__u64 id;
	int i;

	id = htw_start(self->fd, HOUR, 1);
	for (i = 0; i < 3; i++)
		ASSERT_NE(0, htw_start(self->fd, 0, i));
	ASSERT_TRUE(htw_eventually(fdinfo(self->fd, "htw-expired") == 3));
	EXPECT_EQ(4, fdinfo(self->fd, "htw-timers"));
	ASSERT_EQ(2, htw_read(self->fd, ev, 2));
	EXPECT_EQ(1, fdinfo(self->fd, "htw-expired"));
	EXPECT_EQ(2, fdinfo(self->fd, "htw-timers"));
	ASSERT_EQ(0, htw_stop(self->fd, id));
	EXPECT_EQ(1, fdinfo(self->fd, "htw-timers"));
}

HTW_TEST(fdinfo_of_one_that_was_set_up)
{
	static const int clocks[] = { CLOCK_BOOTTIME, CLOCK_REALTIME, HTW_CLOCK_MANUAL };
	struct htw_setup setup = {
		.flags = HTW_SETUP_CLOCK | HTW_SETUP_LIMIT | HTW_SETUP_PRIVATE,
		.tick_ns = 10 * MSEC, .levels = 2, .slots = { 10, 10 }, .limit = 77,
	};
	unsigned int i;

	NEEDS(HTW_FEATURE_SETUP | HTW_FEATURE_MANUAL);
	for (i = 0; i < ARRAY_SIZE(clocks); i++) {
		int fd = htw_open(0);

		setup.clock = clocks[i];
		ASSERT_EQ(0, htw_set_up(fd, setup));
		EXPECT_EQ(clocks[i], fdinfo(fd, "htw-clock"));
		EXPECT_EQ(10 * MSEC, fdinfo(fd, "htw-tick-ns"));
		EXPECT_EQ(77, fdinfo(fd, "htw-limit"));
		close(fd);
	}
}

/*
 * Tracepoints
 */

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
	struct htw_add add = htw_abs(now_ns() + HOUR, 0xabcdef0123456789);
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
	__u64 ids[3] = { htw_start(self->fd, HOUR, 1), htw_start(self->fd, 0, 2), 0 };
	static const int results[] = { 0, -EALREADY, -ENOENT };
	char text[128];
	int i;

	ASSERT_TRUE(htw_wait_readable(self->fd));
	ids[2] = ids[0];
	TRACED("cancel", {
		for (i = 0; i < 3; i++)
			EXPECT_EQ(results[i], htw_stop(self->fd, ids[i]));
	});
	for (i = 0; i < 2; i++) {
		snprintf(text, sizeof(text), "id=%#llx result=%d", ids[i], results[i]);
		EXPECT_NE(NULL, trace_find(trace, "cancel", text, NULL));
	}
}

HTW_TEST(trace_mod)
{
	__u64 id = htw_start(self->fd, HOUR, 1), deadline = now_ns() + 2 * HOUR;
	struct htw_mod mod = {
		.id = id, .deadline = deadline, .interval = 5 * SEC, .cookie = 0x77,
		.flags = HTW_MOD_DEADLINE | HTW_MOD_INTERVAL | HTW_MOD_COOKIE | HTW_F_ABS,
	};
	char text[256];

	NEEDS(HTW_FEATURE_MOD);
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
	EXPECT_EQ(ev.fired - deadline, trace_number(line, "late="));
}

/* The hrtimer is programmed by the call that starts the timer, for the timer's tick. */
HTW_TEST(trace_program)
{
	const int cpu = htw_other_cpu();
	__u64 deadline = 0, id = 0;
	char text[128];
	int on = -1;

	ASSERT_EQ(0, htw_pin(cpu));
	/* Before anything else that this CPU may wait for; turning on tracing may take long. */
	TRACED("program", deadline = now_ns() + 300 * MSEC;
	       id = htw_start_abs(self->fd, deadline, 1);
	       ASSERT_TRUE(htw_wait_readable(self->fd)));
	ASSERT_NE(0, id);
	snprintf(text, sizeof(text), "cpu=%d expires=%llu", cpu,
		 (deadline + self->tick - 1) / self->tick * self->tick);
	EXPECT_NE(NULL, trace_find(trace, "program", text, &on));
	EXPECT_EQ(cpu, on);
}

/* 60 timers an hour ahead, on a manual clock. */
HTW_TEST(trace_cascade)
{
	struct htw_setup setup = {
		.flags = HTW_SETUP_CLOCK | HTW_SETUP_PRIVATE,
		.clock = HTW_CLOCK_MANUAL, .tick_ns = SEC, .levels = 3, .slots = { 60, 60, 12 },
	};
	const char *line = trace;
	__u64 moved = 0;
	int i;

	NEEDS(HTW_FEATURE_SETUP | HTW_FEATURE_MANUAL);
	ASSERT_EQ(0, htw_set_up(self->fd, setup));
	for (i = 0; i < 60; i++)
		ASSERT_NE(0, htw_start(self->fd, 3 * HOUR + i * SEC, i));
	TRACED("cascade", {
		for (i = 0; i < 6; i++)
			ASSERT_LE(0, htw_advance(self->fd, HOUR / 2, 0));
	});
	while ((line = trace_find(line, "cascade", "cpu=0 moved=", NULL))) {
		moved += trace_number(line, "moved=");
		line = strchr(line, '\n');
	}
	/* From hours to minutes, and from minutes to seconds. */
	EXPECT_EQ(120, moved);
}

/*
 * As a user without privileges, have timers expire until the user has used up its share of a CPU.
 * Then say so, and end when told.
 */
static bool spend_the_share(const int spent[2], const int end[2])
{
	enum { SOME = 1000 };
	static struct htw_event ev[SOME];
	char byte = 0;
	int fd, i;

	/* It has to be dumpable again to read its fdinfo. */
	if (!as_nobody() || prctl(PR_SET_DUMPABLE, 1))
		return false;
	fd = htw_open(O_NONBLOCK);
	if (fd < 0)
		return false;
	for (i = 0; i < 1000 && fdinfo(fd, "htw-throttled") <= 0; i++) {
		if (htw_start_many(fd, now_ns(), 0, SOME, NULL) != SOME ||
		    htw_collect(fd, ev, SOME) != SOME)
			return false;
	}
	return fdinfo(fd, "htw-throttled") > 0 && fdinfo(fd, "htw-throttled-ns") > 0 &&
	       write(spent[1], &byte, 1) == 1 && read(end[0], &byte, 1) == 1;
}

/* Is there a line for the user and a CPU, on which it has waited for its share? */
static bool lists_as_throttled(unsigned int uid)
{
	FILE *file = fopen(USERS, "re");
	__u64 spent, throttled;
	bool found = false;
	char line[512];
	unsigned int id;

	while (file && !found && fgets(line, sizeof(line), file))
		found = sscanf(line, "user %u cpu %*u spent_ns %llu tokens_ns %*d throttled %llu",
			       &id, &spent, &throttled) == 3 &&
			id == uid && spent > MSEC && throttled > 0;
	if (file)
		fclose(file);
	return found;
}

/* A user's share that is as small as can be is soon used up. */
HTW_TEST(trace_throttle)
{
	char share[32], burst[32], byte = 0;
	int spent[2], end[2], status = -1;
	pid_t pid;

	ASSERT_EQ(0, htw_read_file(HTW_MODULE "user_share", share, sizeof(share)));
	ASSERT_EQ(0, htw_read_file(HTW_MODULE "user_burst_ms", burst, sizeof(burst)));
	ASSERT_TRUE(open_to_all());
	ASSERT_EQ(0, pipe(spent));
	ASSERT_EQ(0, pipe(end));
	TRACED("throttle", {
		EXPECT_EQ(0, htw_write_file(HTW_MODULE "user_share", "1"));
		EXPECT_EQ(0, htw_write_file(HTW_MODULE "user_burst_ms", "1"));
		pid = fork();
		if (!pid)
			_exit(spend_the_share(spent, end) ? 0 : 1);
		close(spent[1]);
		EXPECT_EQ(1, read(spent[0], &byte, 1));
		EXPECT_TRUE(lists_as_throttled(NOBODY));
		EXPECT_EQ(1, write(end[1], &byte, 1));
		EXPECT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_EQ(0, status);
		EXPECT_EQ(0, htw_write_file(HTW_MODULE "user_share", share));
		EXPECT_EQ(0, htw_write_file(HTW_MODULE "user_burst_ms", burst));
	});
	EXPECT_NE(NULL, trace_find(trace, "throttle", "uid=65534", NULL));
}

/*
 * debugfs
 */

#define WHEEL_LINE	"cpu %u clock %31s tick_ns %llu pending %llu " \
			"callbacks %llu cascades %llu exhausted %llu rewinds %llu user %31s"

struct wheel {
	__u64 tick, pending, callbacks, cascades, exhausted, rewinds;
	__u64 occupied, late;
};

/*
 * Add up root's wheels of a CPU and clock; false if there is none. Those of users that earlier
 * tests have made go at some time.
 */
static bool look_at_wheel(unsigned int cpu, const char *clock, struct wheel *w)
{
	FILE *file = fopen(WHEELS, "re");
	bool found = false, here = false;
	char line[512], name[32], user[32];
	unsigned int on, level;
	__u64 a, b, c, d, e, f;

	memset(w, 0, sizeof(*w));
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, WHEEL_LINE, &on, name, &a, &b, &c, &d, &e, &f,
			   user) == 9) {
			here = on == cpu && !strcmp(name, clock) && !strcmp(user, "0:privileged");
			if (!here)
				continue;
			found = true;
			w->tick = a;
			w->pending += b;
			w->callbacks += c;
			w->cascades += d;
			w->exhausted += e;
			w->rewinds += f;
		} else if (!here) {
			continue;
		} else if (sscanf(line, "level %u span %llu ring %llu occupied %llu",
				  &level, &a, &b, &c) == 4) {
			w->occupied += c;
		} else if (!strncmp(line, "late_us", 7)) {
			char *at = line + 7, *end;

			for (; a = strtoull(at, &end, 10), end != at; at = end)
				w->late += a;
		}
	}
	if (file)
		fclose(file);
	return found;
}

/* A user's wheel exists from its first timer on. */
static bool make_wheel(int fd)
{
	struct htw_event ev;

	return htw_start(fd, 0, 1) && htw_collect(fd, &ev, 1) == 1;
}

HTW_TEST(debugfs_counts)
{
	struct wheel before, after;
	struct htw_event ev[10];
	__u64 ids[3];
	int i;

	if (access(WHEELS, R_OK))
		SKIP(return, "no debugfs");
	ASSERT_TRUE(make_wheel(self->fd));
	ASSERT_TRUE(look_at_wheel(0, "monotonic", &before));
	EXPECT_EQ(self->tick, before.tick);
	ids[0] = htw_start(self->fd, HOUR, 1);
	ids[1] = htw_start(self->fd, 100 * HOUR, 2);
	ids[2] = htw_start(self->fd, ~0ULL, 3);
	ASSERT_TRUE(look_at_wheel(0, "monotonic", &after));
	EXPECT_EQ(before.pending + 3, after.pending);
	/* Two are on levels, in different buckets; the third is beyond them. */
	EXPECT_EQ(before.occupied + 2, after.occupied);
	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, htw_stop(self->fd, ids[i]));
	ASSERT_TRUE(look_at_wheel(0, "monotonic", &after));
	EXPECT_EQ(before.pending, after.pending);
	EXPECT_EQ(before.occupied, after.occupied);
	EXPECT_EQ(before.late, after.late);
	for (i = 0; i < 10; i++)
		ASSERT_NE(0, htw_start(self->fd, i * MSEC, i));
	ASSERT_EQ(10, htw_collect(self->fd, ev, 10));
	ASSERT_TRUE(look_at_wheel(0, "monotonic", &after));
	EXPECT_EQ(before.pending, after.pending);
	EXPECT_EQ(before.late + 10, after.late);
	EXPECT_LT(before.callbacks, after.callbacks);
}

/* More timers on one tick than a callback may deliver. */
HTW_TEST(debugfs_tells_of_budgets_used_up)
{
	enum { COUNT = 50000 };
	static struct htw_event ev[COUNT];
	struct wheel before, after;

	if (access(WHEELS, R_OK))
		SKIP(return, "no debugfs");
	ASSERT_TRUE(make_wheel(self->fd));
	ASSERT_TRUE(look_at_wheel(0, "monotonic", &before));
	ASSERT_EQ(COUNT, htw_start_many(self->fd, now_ns() + 10 * SEC, 1, COUNT, NULL));
	ASSERT_EQ(COUNT, htw_collect(self->fd, ev, COUNT));
	ASSERT_TRUE(look_at_wheel(0, "monotonic", &after));
	EXPECT_EQ(before.late + COUNT, after.late);
	EXPECT_LT(before.exhausted, after.exhausted);
	EXPECT_LT(before.cascades, after.cascades);
}

HTW_TEST(debugfs_tells_of_a_clock_set_back)
{
	struct timespec ts = { .tv_sec = clock_ns(CLOCK_REALTIME) / SEC - 3600 };
	struct wheel before, after;
	struct htw_event ev;

	NEEDS(HTW_FEATURE_SETUP);
	if (access(WHEELS, R_OK))
		SKIP(return, "no debugfs");
	ASSERT_EQ(0, htw_setup_clock(self->fd, CLOCK_REALTIME));
	ASSERT_TRUE(make_wheel(self->fd));
	ASSERT_TRUE(look_at_wheel(0, "realtime", &before));
	ASSERT_EQ(0, clock_settime(CLOCK_REALTIME, &ts));
	ASSERT_NE(0, htw_start(self->fd, 0, 1));
	ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
	ts.tv_sec += 3600;
	ASSERT_EQ(0, clock_settime(CLOCK_REALTIME, &ts));
	ASSERT_TRUE(look_at_wheel(0, "realtime", &after));
	EXPECT_LT(before.rewinds, after.rewinds);
}

/*
 * sysfs
 */

/* Parameters that cannot change at run time are read-only. */
HTW_TEST(sysfs_what_is_fixed)
{
	static const char * const names[] = { "tick_us", "geometry" };
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
	struct htw_setup setup = { .flags = HTW_SETUP_LIMIT };
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

	NEEDS(HTW_FEATURE_SETUP);
	ASSERT_EQ(0, htw_read_file(HTW_MODULE "max_timers", old, sizeof(old)));
	ASSERT_EQ(0, htw_write_file(HTW_MODULE "max_timers", "3"));
	EXPECT_EQ(0, htw_setup_clock(self->fd, CLOCK_BOOTTIME));
	EXPECT_EQ(self->limit, htw_info(self->fd).limit);
	ASSERT_EQ(0, htw_write_file(HTW_MODULE "max_timers", old));
}

static bool at_users_limit(__u64 limit)
{
	__u64 i;
	int fd;

	if (setgid(65534) || setuid(65534))
		return false;
	fd = htw_open(O_NONBLOCK);
	if (fd < 0)
		return false;
	for (i = 0; i < limit; i++) {
		if (!htw_start(fd, HOUR, i))
			return false;
	}
	return !htw_start(fd, HOUR, i) && errno == EDQUOT;
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
