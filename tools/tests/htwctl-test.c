// SPDX-License-Identifier: GPL-2.0-only
/*
 * htwctl as people and scripts use it: each subcommand, its JSON (parsed with
 * json-c), exit codes, invalid arguments, and top on a terminal
 */
#include <json-c/json.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "../common/screen.h"
#include "htw-test.h"

#define OUTPUT		(1 << 20)
#define MAX_WORDS	16

/* Exit codes as the manual documents them; not taken from htwctl's own header. */
enum {
	DONE		= 0,
	FAILED		= 1,
	USAGE		= 2,
	NO_DEVICE	= 3,
	DENIED		= 4,
	NOT_FOUND	= 5,
	LIMIT		= 6,
	TOO_LATE	= 8,
};

static char out[OUTPUT], err[OUTPUT];

/* A command line, split at blanks. */
struct words {
	char text[512];
	char *argv[MAX_WORDS];
};

static void cut(struct words *words, const char *format, va_list args)
{
	char *word, *save;
	int n = 0;

	vsnprintf(words->text, sizeof(words->text), format, args);
	word = strtok_r(words->text, " ", &save);
	for (; word && n < MAX_WORDS - 1; word = strtok_r(NULL, " ", &save))
		words->argv[n++] = word;
	words->argv[n] = NULL;
}

/* Read what is available. At end of file, set the descriptor to -1. */
static void drain(struct pollfd *from, char *buf, size_t *n)
{
	ssize_t more;

	if (!from->revents)
		return;
	more = read(from->fd, buf + *n, OUTPUT - 1 - *n);
	if (more > 0)
		*n += more;
	else
		from->fd = -1;
}

/*
 * Start htwctl with these words; it inherits all descriptors. Run it as uid
 * nobody if asked.
 */
static pid_t start(struct words *words, int to, int errors, bool nobody)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	dup2(to, 1);
	dup2(errors, 2);
	if (nobody && (setgid(65534) || setuid(65534)))
		_exit(126);
	execvp(words->argv[0], words->argv);
	_exit(127);
}

static int vrun(bool nobody, const char *format, va_list args)
{
	int to[2], errors[2], status = -1;
	struct pollfd fds[2];
	struct words words;
	size_t n = 0, e = 0;
	pid_t pid;

	cut(&words, format, args);
	if (pipe2(to, O_CLOEXEC) || pipe2(errors, O_CLOEXEC))
		return -1;
	pid = start(&words, to[1], errors[1], nobody);
	close(to[1]);
	close(errors[1]);
	fds[0] = (struct pollfd){ .fd = to[0], .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = errors[0], .events = POLLIN };
	while (fds[0].fd >= 0 || fds[1].fd >= 0) {
		if (poll(fds, 2, -1) < 0)
			continue;
		drain(&fds[0], out, &n);
		drain(&fds[1], err, &e);
	}
	out[n] = '\0';
	err[e] = '\0';
	close(to[0]);
	close(errors[0]);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Run htwctl and return its exit code; its output is in @out and @err. */
static int __attribute__((format(printf, 1, 2))) run(const char *format, ...)
{
	va_list args;
	int code;

	va_start(args, format);
	code = vrun(false, format, args);
	va_end(args);
	return code;
}

static int __attribute__((format(printf, 1, 2))) run_as_nobody(const char *format, ...)
{
	va_list args;
	int code;

	va_start(args, format);
	code = vrun(true, format, args);
	va_end(args);
	return code;
}

/* Parse one line strictly; NULL if it is not exactly one JSON document. */
static struct json_object *parse(const char *line, size_t length)
{
	struct json_tokener *tokener = json_tokener_new();
	struct json_object *object;

	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
	object = json_tokener_parse_ex(tokener, line, length);
	if (json_tokener_get_error(tokener) != json_tokener_success ||
	    json_tokener_get_parse_end(tokener) != length) {
		json_object_put(object);
		object = NULL;
	}
	json_tokener_free(tokener);
	return object;
}

/* Parse line @n of @out; the caller frees the result. */
static struct json_object *json_line(unsigned int n)
{
	const char *at = out, *end;

	for (;; at = end + 1) {
		end = strchr(at, '\n');
		if (!end)
			return NULL;
		if (!n--)
			return parse(at, end - at);
	}
}

static unsigned int count_lines(const char *text)
{
	unsigned int n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

static __u64 number(struct json_object *object, const char *key)
{
	struct json_object *value;

	if (!json_object_object_get_ex(object, key, &value) ||
	    !json_object_is_type(value, json_type_int))
		return POISON;
	return json_object_get_uint64(value);
}

/* Ids and cookies are strings: many JSON readers are exact only up to 2^53. */
static __u64 hex(struct json_object *object, const char *key)
{
	struct json_object *value;

	if (!json_object_object_get_ex(object, key, &value) ||
	    !json_object_is_type(value, json_type_string) ||
	    strncmp(json_object_get_string(value), "0x", 2))
		return POISON;
	return strtoull(json_object_get_string(value), NULL, 16);
}

static const char *string(struct json_object *object, const char *key)
{
	struct json_object *value;

	if (!json_object_object_get_ex(object, key, &value) ||
	    !json_object_is_type(value, json_type_string))
		return "";
	return json_object_get_string(value);
}

static bool is(struct json_object *object, const char *key, bool wanted)
{
	struct json_object *value;

	return json_object_object_get_ex(object, key, &value) &&
	       json_object_is_type(value, json_type_boolean) &&
	       json_object_get_boolean(value) == wanted;
}

static struct json_object *array(struct json_object *object, const char *key)
{
	struct json_object *value;

	if (!json_object_object_get_ex(object, key, &value) ||
	    !json_object_is_type(value, json_type_array))
		return NULL;
	return value;
}

/* A descriptor that htwctl inherits, unlike the fixture's. */
static int inherited(void)
{
	return open(HTW_DEVICE, O_RDWR);
}

/*
 * Help and wrong usage
 */

HTW_TEST(help_of_all)
{
	static const char * const commands[] = {
		"info", "add", "watch", "list", "cancel", "stat", "trace", "top", "bench",
	};

	EXPECT_EQ(DONE, run("htwctl --help"));
	for (unsigned int i = 0; i < ARRAY_SIZE(commands); i++) {
		char line[32];

		snprintf(line, sizeof(line), "\n  %s ", commands[i]);
		EXPECT_NE(NULL, strstr(out, line));
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(commands); i++) {
		EXPECT_EQ(DONE, run("htwctl %s --help", commands[i]));
		EXPECT_NE(NULL, strstr(out, "Usage: htwctl"));
		EXPECT_NE(NULL, strstr(out, "Example"));
		EXPECT_STREQ("", err);
	}
	EXPECT_EQ(DONE, run("htwctl --version"));
	EXPECT_EQ(0, strncmp(out, "htwctl ", 7));
}

HTW_TEST(wrong_usage)
{
	static const char * const wrong[] = {
		"htwctl", "htwctl frobnicate", "htwctl --frobnicate info",
		"htwctl info now", "htwctl info --format=xml", "htwctl info --pid 0",
		"htwctl info --pid x", "htwctl info --fd -1",
		"htwctl add", "htwctl add soon", "htwctl add 5x", "htwctl add .", "htwctl add 1..5",
		"htwctl add -- -1s", "htwctl add 1e3", "htwctl add 300000d000000d",
		"htwctl add 99999999999999999999", "htwctl add 584000d --every 20000000000s",
		"htwctl add 1s --every 0", "htwctl add 1s --count 3",
		"htwctl add 1s --every 1s --count 0", "htwctl add 1s --every 1s --count 4294967296",
		"htwctl add 1s --cookie x", "htwctl add 1s --cookie 0x10000000000000000",
		"htwctl add 1s --keep", "htwctl add 1s --clock manual",
		"htwctl add 1s --geometry 60,60", "htwctl add 1s --tick 1ms --geometry 1,2",
		"htwctl add 1s --tick 1ms --geometry 2,2,2,2,2,2,2,2,2",
		"htwctl add 1s --fd 0 --clock boottime",
		"htwctl watch", "htwctl watch --pid 1", "htwctl watch --fd 0 --count 0",
		"htwctl list everything",
		"htwctl cancel", "htwctl cancel 0x1", "htwctl cancel --fd 0",
		"htwctl cancel --fd 0 --all 0x1", "htwctl cancel --fd 0 first",
		"htwctl stat now", "htwctl stat --count 1", "htwctl stat --interval 1us",
		"htwctl trace --count 0", "htwctl trace --id none",
		"htwctl top --interval 1ms", "htwctl top now", "htwctl bench --timers 0",
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(wrong); i++) {
		EXPECT_EQ(USAGE, run("%s", wrong[i])) {
			TH_LOG("%s", wrong[i]);
		}
		EXPECT_STREQ("", out) {
			TH_LOG("%s", wrong[i]);
		}
		EXPECT_NE(0, strlen(err)) {
			TH_LOG("%s", wrong[i]);
		}
	}
}

/*
 * Exit codes that have nothing to do with one subcommand
 */

HTW_TEST(no_device)
{
	EXPECT_EQ(NO_DEVICE, run("htwctl --device /dev/not-there info"));
	EXPECT_NE(NULL, strstr(err, "modprobe htw"));
	EXPECT_EQ(NO_DEVICE, run("htwctl --device /dev/not-there add 1s"));
	EXPECT_EQ(NO_DEVICE, run("htwctl --device /dev/not-there bench"));
	EXPECT_EQ(NO_DEVICE, run("htwctl --device /dev/null info"));
	EXPECT_NE(NULL, strstr(err, "/dev/null is not"));
}

/* Without the device in sysfs, as if the module were not loaded. */
TEST(no_module)
{
	ASSERT_EQ(0, unshare(CLONE_NEWNS));
	ASSERT_EQ(0, mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
	ASSERT_EQ(0, mount("none", "/sys/class/htw", "tmpfs", 0, NULL));
	EXPECT_EQ(NO_DEVICE, run("htwctl list"));
	EXPECT_NE(NULL, strstr(err, "modprobe htw"));
	EXPECT_EQ(NO_DEVICE, run("htwctl list --pid 1"));
	EXPECT_NE(NULL, strstr(err, "modprobe htw"));
	EXPECT_EQ(NO_DEVICE, run("htwctl cancel --pid 1 --all"));
	EXPECT_NE(NULL, strstr(err, "modprobe htw"));
}

HTW_TEST(permission_denied)
{
	EXPECT_EQ(DENIED, run_as_nobody("htwctl info"));
	EXPECT_EQ(DENIED, run_as_nobody("htwctl add 0"));
	EXPECT_EQ(DENIED, run_as_nobody("htwctl stat"));
	EXPECT_EQ(DENIED, run_as_nobody("htwctl trace --count 1"));
	EXPECT_EQ(DENIED, run_as_nobody("htwctl list --pid %d", getpid()));
	EXPECT_EQ(DENIED, run_as_nobody("htwctl cancel --all --pid %d --fd %d", getpid(),
					self->fd));
}

HTW_TEST(no_such_process_or_descriptor)
{
	pid_t gone = fork();

	if (!gone)
		_exit(0);
	ASSERT_EQ(gone, waitpid(gone, NULL, 0));
	EXPECT_EQ(NOT_FOUND, run("htwctl list --pid %d", gone));
	EXPECT_EQ(NOT_FOUND, run("htwctl cancel --all --pid %d --fd 3", gone));
	EXPECT_EQ(NOT_FOUND, run("htwctl list --pid 1"));
	EXPECT_EQ(NOT_FOUND, run("htwctl list --fd 0"));
	EXPECT_EQ(NOT_FOUND, run("htwctl list --fd 1000"));
	EXPECT_EQ(NOT_FOUND, run("htwctl list --pid %d --fd 0", getpid()));
	EXPECT_EQ(NOT_FOUND, run("htwctl list --pid %d --fd 1000", getpid()));
}

HTW_TEST(output_that_cannot_be_written)
{
	struct words words = { .argv = { "htwctl", "info", NULL } };
	int full = open("/dev/full", O_WRONLY), status;
	pid_t pid;

	ASSERT_LE(0, full);
	pid = start(&words, full, full, false);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(FAILED, WEXITSTATUS(status));
}

/*
 * info
 */

HTW_TEST(info_of_a_new_one)
{
	struct htw_info info = htw_info(self->fd);
	struct json_object *object;

	ASSERT_EQ(DONE, run("htwctl info --format=json"));
	ASSERT_EQ(1, count_lines(out));
	object = json_line(0);
	ASSERT_NE(NULL, object);
	EXPECT_STREQ("monotonic", string(object, "clock"));
	EXPECT_EQ(info.tick_ns, number(object, "tick_ns"));
	EXPECT_EQ(info.limit, number(object, "limit"));
	EXPECT_EQ(0, number(object, "timers"));
	EXPECT_TRUE(is(object, "private", false));
	ASSERT_NE(NULL, array(object, "features"));
	EXPECT_EQ(__builtin_popcountll(info.features),
		  json_object_array_length(array(object, "features")));
	ASSERT_NE(NULL, array(object, "slots"));
	ASSERT_EQ(info.levels, json_object_array_length(array(object, "slots")));
	for (unsigned int l = 0; l < info.levels; l++) {
		struct json_object *slots = json_object_array_get_idx(array(object, "slots"), l);

		EXPECT_EQ(info.slots[l], json_object_get_int64(slots));
	}
	json_object_put(object);
	ASSERT_EQ(DONE, run("htwctl info"));
	EXPECT_NE(NULL, strstr(out, "\ngeometry "));
	EXPECT_NE(NULL, strstr(out, "\nparameter  max_timers="));
}

HTW_TEST(info_of_an_inherited_one)
{
	struct htw_setup setup = {
		.flags = HTW_SETUP_CLOCK | HTW_SETUP_PRIVATE | HTW_SETUP_LIMIT,
		.clock = CLOCK_BOOTTIME, .tick_ns = 10 * MSEC, .levels = 2, .slots = { 10, 20 },
		.limit = 77,
	};
	struct json_object *object;
	int fd = inherited();

	ASSERT_EQ(0, htw_set_up(fd, setup));
	ASSERT_NE(0, htw_start(fd, HOUR, 1));
	ASSERT_EQ(DONE, run("htwctl info --fd %d --format=json", fd));
	object = json_line(0);
	ASSERT_NE(NULL, object);
	EXPECT_STREQ("boottime", string(object, "clock"));
	EXPECT_EQ(10 * MSEC, number(object, "tick_ns"));
	EXPECT_EQ(2 * SEC, number(object, "reach_ns"));
	EXPECT_EQ(77, number(object, "limit"));
	EXPECT_EQ(1, number(object, "timers"));
	EXPECT_TRUE(is(object, "private", true));
	json_object_put(object);
	close(fd);
}

/*
 * add and watch
 */

HTW_TEST(add_prints_each_expiration)
{
	struct json_object *object;
	__u64 id, before = now_ns(), deadline = 0;

	ASSERT_EQ(DONE, run("htwctl add 20ms --every 10ms --count 3 --cookie 0xabc --format=json"));
	EXPECT_STREQ("", err);
	object = json_line(0);
	ASSERT_NE(NULL, object);
	EXPECT_STREQ("added", string(object, "event"));
	EXPECT_EQ(20 * MSEC, number(object, "deadline_ns"));
	EXPECT_EQ(10 * MSEC, number(object, "interval_ns"));
	EXPECT_EQ(3, number(object, "firings"));
	id = hex(object, "id");
	EXPECT_NE(0, id);
	json_object_put(object);
	/* On a busy machine firings are missed, and counted. */
	ASSERT_LE(2, count_lines(out));
	ASSERT_GE(4, count_lines(out));
	for (unsigned int line = 1, seen = 0; line < count_lines(out); line++) {
		bool last = line == count_lines(out) - 1;

		object = json_line(line);
		ASSERT_NE(NULL, object);
		EXPECT_STREQ("expired", string(object, "event"));
		EXPECT_EQ(id, hex(object, "id"));
		EXPECT_EQ(0xabc, hex(object, "cookie"));
		EXPECT_LE(before + 20 * MSEC, number(object, "deadline_ns"));
		EXPECT_LT(deadline, number(object, "deadline_ns"));
		EXPECT_LE(number(object, "deadline_ns"), number(object, "fired_ns"));
		deadline = number(object, "deadline_ns");
		EXPECT_TRUE(is(object, "more", !last));
		seen += 1 + number(object, "missed");
		if (last)
			EXPECT_EQ(3, seen);
		json_object_put(object);
	}
}

HTW_TEST(add_several)
{
	__u64 before = now_ns();

	ASSERT_EQ(DONE, run("htwctl add 30ms 0 0.01s --clock boottime --slack 1us"));
	EXPECT_LE(before + 30 * MSEC, now_ns());
	EXPECT_EQ(6, count_lines(out));
	EXPECT_EQ(0, strncmp(out, "added ", 6));
	EXPECT_NE(NULL, strstr(out, "\nexpired "));
	EXPECT_NE(NULL, strstr(out, "  last\n"));
}

HTW_TEST(add_on_a_wheel_of_its_own)
{
	EXPECT_EQ(DONE, run("htwctl add 1ms 20ms --tick 500us --geometry 16,16"));
	EXPECT_EQ(DONE, run("htwctl add 1ms --tick 1ms"));
	EXPECT_EQ(DONE, run("htwctl add 1ms --home 0 --clock realtime --cancel-on-set"));
	/* An error from the kernel is not a usage error. */
	EXPECT_EQ(FAILED, run("htwctl add 1ms --tick 1ns"));
	EXPECT_EQ(FAILED, run("htwctl add 1ms --cancel-on-set"));
	EXPECT_NE(NULL, strstr(err, ": --cancel-on-set"));
	EXPECT_EQ(FAILED, run("htwctl add 1ms --every 1ns"));
	EXPECT_NE(NULL, strstr(err, ": --every is below one tick\n"));
	EXPECT_EQ(FAILED, run("htwctl add 1ms --every 1ns"));
}

HTW_TEST(add_at_a_point_in_time)
{
	__u64 deadline = now_ns() + 20 * MSEC;
	struct json_object *object;

	ASSERT_EQ(DONE, run("htwctl add --abs %lluns --format=json", deadline));
	object = json_line(1);
	ASSERT_NE(NULL, object);
	EXPECT_EQ(deadline, number(object, "deadline_ns"));
	EXPECT_LE(deadline, number(object, "fired_ns"));
	json_object_put(object);
}

HTW_TEST(add_to_a_descriptor)
{
	struct json_object *object;
	struct htw_query query;
	int fd = inherited();
	__u64 id;

	/* 1.5 h exactly: fractions are not converted through floating point. */
	ASSERT_EQ(DONE, run("htwctl add %s --keep --cookie %s --fd %d --format=json",
			    "1.500000000001h --every 2m --count 7", "18446744073709551615", fd));
	ASSERT_EQ(1, count_lines(out));
	object = json_line(0);
	ASSERT_NE(NULL, object);
	id = hex(object, "id");
	EXPECT_EQ(3 * HOUR / 2 + 3, number(object, "deadline_ns"));
	json_object_put(object);
	query = htw_query(fd, id);
	EXPECT_EQ(HTW_STATE_PENDING, query.state);
	EXPECT_EQ(~0ULL, query.cookie);
	EXPECT_EQ(120 * SEC, query.interval);
	EXPECT_EQ(7, query.firings);
	EXPECT_EQ(HTW_F_KEEP, query.flags);
	EXPECT_LT(HOUR, query.remaining);
	EXPECT_GE(3 * HOUR / 2 + 3, query.remaining);
	close(fd);
}

HTW_TEST(add_beyond_the_limit)
{
	struct htw_setup setup = { .flags = HTW_SETUP_LIMIT, .limit = 1 };
	int fd = inherited();

	ASSERT_EQ(0, htw_set_up(fd, setup));
	EXPECT_EQ(LIMIT, run("htwctl add 1h 2h --fd %d", fd));
	EXPECT_EQ(1, count_lines(out));
	EXPECT_NE(NULL, strstr(err, "limit"));
	EXPECT_EQ(1, htw_timers(fd));
	close(fd);
}

HTW_TEST(watch_inherited)
{
	struct json_object *object;
	int fd = inherited();

	for (int i = 0; i < 5; i++)
		ASSERT_NE(0, htw_start(fd, i * MSEC, 0x100 + i));
	ASSERT_EQ(DONE, run("htwctl watch --fd %d --count 3 --format=json", fd));
	ASSERT_EQ(3, count_lines(out));
	for (int i = 0; i < 3; i++) {
		object = json_line(i);
		ASSERT_NE(NULL, object);
		EXPECT_EQ(0x100 + i, hex(object, "cookie"));
		json_object_put(object);
	}
	/* It printed as many as it was asked for; the other events are still queued. */
	ASSERT_TRUE(htw_eventually(htw_info(fd).expired == 2));
	ASSERT_EQ(DONE, run("htwctl watch --fd %d --timeout 0", fd));
	EXPECT_EQ(2, count_lines(out));
	ASSERT_EQ(DONE, run("htwctl watch --fd %d --timeout 10ms", fd));
	EXPECT_STREQ("", out);
	close(fd);
}

HTW_TEST(watch_takes_from_another_process)
{
	ASSERT_NE(0, htw_start(self->fd, 0, 7));
	ASSERT_TRUE(htw_wait_readable(self->fd));
	EXPECT_EQ(USAGE, run("htwctl watch --pid %d --fd %d --timeout 0", getpid(), self->fd));
	EXPECT_EQ(1, htw_info(self->fd).expired);
	ASSERT_EQ(DONE, run("htwctl watch --take --pid %d --fd %d --timeout 0", getpid(),
			    self->fd));
	EXPECT_EQ(1, count_lines(out));
	EXPECT_EQ(0, htw_info(self->fd).expired);
}

HTW_TEST(watch_where_a_ring_is_mapped)
{
	struct htw_setup setup = { .flags = HTW_SETUP_RING, .ring_entries = 64 };
	int fd = inherited();
	void *ring;

	NEEDS(HTW_FEATURE_RING);
	ASSERT_EQ(0, htw_set_up(fd, setup));
	ring = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, HTW_OFF_RING);
	ASSERT_NE(MAP_FAILED, ring);
	ASSERT_NE(0, htw_start(fd, 0, 7));
	EXPECT_EQ(FAILED, run("htwctl watch --fd %d", fd));
	EXPECT_NE(NULL, strstr(err, "ring"));
	munmap(ring, PAGE);
	close(fd);
}

/*
 * list and cancel
 */

HTW_TEST(list_timers)
{
	struct json_object *object;
	__u64 ids[3];

	for (int i = 0; i < 3; i++)
		ids[i] = htw_start(self->fd, (i + 1) * HOUR, 0x77 + i);
	ASSERT_EQ(DONE, run("htwctl list --pid %d --fd %d --format=json", getpid(), self->fd));
	ASSERT_EQ(3, count_lines(out));
	for (int i = 0; i < 3; i++) {
		object = json_line(i);
		ASSERT_NE(NULL, object);
		EXPECT_EQ(getpid(), number(object, "pid"));
		EXPECT_EQ(self->fd, number(object, "fd"));
		EXPECT_EQ(ids[i], hex(object, "id"));
		EXPECT_EQ(0x77 + i, hex(object, "cookie"));
		EXPECT_STREQ("pending", string(object, "state"));
		EXPECT_EQ(htw_query(self->fd, ids[i]).deadline, number(object, "deadline_ns"));
		EXPECT_LT(i * HOUR, number(object, "remaining_ns"));
		json_object_put(object);
	}
	ASSERT_EQ(DONE, run("htwctl list --pid %d", getpid()));
	/* The descriptor, the heading and three timers. */
	EXPECT_EQ(5, count_lines(out));
	EXPECT_EQ(3, htw_timers(self->fd));
}

/* A timer in each state; only with --all are those listed that are not pending. */
HTW_TEST(list_all_states)
{
	static const char * const states[] = { "pending", "expired", "disarmed" };
	struct htw_add kept = htw_rel(0, 0x102);
	struct json_object *object;
	struct htw_event ev;

	NEEDS(HTW_FEATURE_LIST_STATES | HTW_FEATURE_KEEP);
	EXPECT_EQ(USAGE, run("htwctl list --all"));
	kept.flags = HTW_F_KEEP;
	ASSERT_NE(0, htw_start(self->fd, HOUR, 0x100));
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &kept));
	ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
	ASSERT_NE(0, htw_start(self->fd, 0, 0x101));
	ASSERT_TRUE(htw_wait_readable(self->fd));
	ASSERT_EQ(DONE, run("htwctl list --pid %d --format=json", getpid()));
	EXPECT_EQ(1, count_lines(out));
	ASSERT_EQ(DONE, run("htwctl list --all --pid %d --format=json", getpid()));
	ASSERT_EQ(3, count_lines(out));
	for (int i = 0; i < 3; i++) {
		__u64 cookie;

		object = json_line(i);
		ASSERT_NE(NULL, object);
		cookie = hex(object, "cookie");
		ASSERT_LE(0x100, cookie);
		ASSERT_GE(0x102, cookie);
		EXPECT_STREQ(states[cookie - 0x100], string(object, "state"));
		json_object_put(object);
	}
}

HTW_TEST(list_of_a_process_with_several)
{
	int other = inherited();

	ASSERT_NE(0, htw_start(self->fd, HOUR, 1));
	ASSERT_NE(0, htw_start(other, HOUR, 2));
	ASSERT_EQ(DONE, run("htwctl list --pid %d --format=json", getpid()));
	EXPECT_EQ(2, count_lines(out));
	/* The descriptor must be named. */
	EXPECT_EQ(USAGE, run("htwctl cancel --pid %d --all", getpid()));
	EXPECT_NE(NULL, strstr(err, "--fd"));
	EXPECT_EQ(1, htw_timers(self->fd));
	EXPECT_EQ(1, htw_timers(other));
	close(other);
}

/* How many numbers of fdinfo are not in the object, by their names. */
static unsigned int fdinfo_missing(struct json_object *object, int fd)
{
	char path[64], text[4096], name[64];
	unsigned int missing = 0, lines = 0;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	if (htw_read_file(path, text, sizeof(text)))
		return -1;
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		if (sscanf(line, "htw-%63[^:]", name) != 1 || !strcmp(name, "clock"))
			continue;
		for (char *c = name; *c; c++)
			*c = *c == '-' ? '_' : *c;
		lines++;
		missing += number(object, name) == POISON;
	}
	return lines ? missing : -1;
}

HTW_TEST(list_descriptors)
{
	const int pid = getpid(), copy = fcntl(self->fd, F_DUPFD_CLOEXEC, 0);
	struct json_object *object;
	unsigned int found = 0;

	for (int i = 0; i < 3; i++)
		ASSERT_NE(0, htw_start(self->fd, HOUR, i));
	ASSERT_NE(0, htw_start(self->fd, 0, 3));
	ASSERT_TRUE(htw_wait_readable(self->fd));
	ASSERT_EQ(DONE, run("htwctl list --format=json"));
	for (unsigned int line = 0; line < count_lines(out); line++) {
		object = json_line(line);
		ASSERT_NE(NULL, object);
		if (number(object, "pid") == pid) {
			found++;
			EXPECT_EQ(self->fd < copy ? self->fd : copy, number(object, "fd"));
			EXPECT_EQ(4, number(object, "timers"));
			EXPECT_EQ(1, number(object, "expired"));
			EXPECT_EQ(self->limit, number(object, "limit"));
			EXPECT_EQ(self->tick, number(object, "tick_ns"));
			EXPECT_EQ(0, number(object, "uid"));
			EXPECT_STREQ("root", string(object, "user"));
			EXPECT_STREQ("monotonic", string(object, "clock"));
			/* Both descriptors are of one open file. */
			EXPECT_EQ(2, number(object, "shared"));
			EXPECT_EQ(0, fdinfo_missing(object, self->fd));
		}
		json_object_put(object);
	}
	EXPECT_EQ(1, found);
	ASSERT_EQ(DONE, run("htwctl list"));
	EXPECT_NE(NULL, strstr(out, "TIMERS"));
	/* Or htwctl-test-32. */
	EXPECT_NE(NULL, strstr(out, " htwctl-test"));
	close(copy);
}

HTW_TEST(cancel_by_id)
{
	__u64 id = htw_start(self->fd, HOUR, 0x55), late;
	struct json_object *object;

	ASSERT_EQ(DONE, run("htwctl cancel --pid %d 0x%llx --format=json", getpid(), id));
	object = json_line(0);
	ASSERT_NE(NULL, object);
	EXPECT_EQ(id, hex(object, "id"));
	EXPECT_STREQ("cancelled", string(object, "result"));
	EXPECT_EQ(0x55, hex(object, "cookie"));
	EXPECT_LT(HOUR / 2, number(object, "remaining_ns"));
	json_object_put(object);
	EXPECT_EQ(0, htw_timers(self->fd));

	EXPECT_EQ(NOT_FOUND, run("htwctl cancel --pid %d %llu", getpid(), id));
	late = htw_start(self->fd, 0, 0x56);
	ASSERT_TRUE(htw_wait_readable(self->fd));
	EXPECT_EQ(TOO_LATE, run("htwctl cancel --pid %d 0x%llx", getpid(), late));
	EXPECT_EQ(1, htw_info(self->fd).expired);
	EXPECT_EQ(0, strncmp(out, "too-late ", 9));
	EXPECT_EQ(DONE, run("htwctl cancel --discard --pid %d 0x%llx", getpid(), late));
	EXPECT_EQ(0, htw_info(self->fd).expired);
}

/* All ids are tried; the exit code is that of the first failure. */
HTW_TEST(cancel_several)
{
	__u64 a = htw_start(self->fd, HOUR, 1), b = htw_start(self->fd, HOUR, 2);
	__u64 late = htw_start(self->fd, 0, 3);

	ASSERT_TRUE(htw_wait_readable(self->fd));
	EXPECT_EQ(TOO_LATE, run("htwctl cancel --pid %d 0x%llx 0x%llx 0x1ff00000001 0x%llx",
				getpid(), a, late, b));
	EXPECT_EQ(4, count_lines(out));
	EXPECT_EQ(1, htw_timers(self->fd));
}

HTW_TEST(cancel_all)
{
	struct json_object *object;

	for (int i = 0; i < 100; i++)
		ASSERT_NE(0, htw_start(self->fd, HOUR, i));
	ASSERT_NE(0, htw_start(self->fd, 0, 3));
	ASSERT_TRUE(htw_wait_readable(self->fd));
	ASSERT_EQ(DONE, run("htwctl cancel --pid %d --all --format=json", getpid()));
	object = json_line(0);
	ASSERT_NE(NULL, object);
	EXPECT_EQ(100, number(object, "cancelled"));
	json_object_put(object);
	EXPECT_EQ(1, htw_timers(self->fd));
	ASSERT_EQ(DONE, run("htwctl cancel --pid %d --all --discard", getpid()));
	EXPECT_EQ(0, htw_timers(self->fd));
}

/*
 * stat
 */

static __u64 sum_of(struct json_object *wheels, const char *key)
{
	__u64 sum = 0;

	for (size_t i = 0; wheels && i < json_object_array_length(wheels); i++)
		sum += number(json_object_array_get_idx(wheels, i), key);
	return sum;
}

static __u64 late_of(struct json_object *wheels)
{
	__u64 sum = 0;

	for (size_t i = 0; wheels && i < json_object_array_length(wheels); i++)
		sum += sum_of(array(json_object_array_get_idx(wheels, i), "late"), "count");
	return sum;
}

HTW_TEST(stat_counts)
{
	struct json_object *before, *after, *wheel;
	struct htw_event events[10];

	ASSERT_EQ(DONE, run("htwctl stat --format=json"));
	before = json_line(0);
	ASSERT_NE(NULL, before);
	for (int i = 0; i < 10; i++)
		ASSERT_NE(0, htw_start(self->fd, 0, i));
	ASSERT_EQ(10, htw_collect(self->fd, events, 10));
	for (int i = 0; i < 7; i++)
		ASSERT_NE(0, htw_start(self->fd, (i + 1) * HOUR, i));
	ASSERT_EQ(DONE, run("htwctl stat --format=json"));
	ASSERT_EQ(1, count_lines(out));
	after = json_line(0);
	ASSERT_NE(NULL, after);
	EXPECT_EQ(sum_of(array(before, "wheels"), "pending") + 7,
		  sum_of(array(after, "wheels"), "pending"));
	EXPECT_EQ(late_of(array(before, "wheels")) + 10, late_of(array(after, "wheels")));
	EXPECT_LT(number(before, "monotonic_ns"), number(after, "monotonic_ns"));
	wheel = json_object_array_get_idx(array(after, "wheels"), 0);
	ASSERT_NE(NULL, array(wheel, "levels"));
	EXPECT_EQ(htw_info(self->fd).levels, json_object_array_length(array(wheel, "levels")));
	ASSERT_NE(NULL, array(after, "descriptors"));
	EXPECT_LE(1, json_object_array_length(array(after, "descriptors")));
	json_object_put(before);
	json_object_put(after);
	ASSERT_EQ(DONE, run("htwctl stat"));
	EXPECT_NE(NULL, strstr(out, "\nlateness\n"));
	EXPECT_NE(NULL, strstr(out, "buckets in use\n"));
}

/* Softirq time by user and CPU, and its display in top. */
HTW_TEST(stat_of_users)
{
	static const char * const command[] = { "htwctl", "top", "--interval", "100ms", NULL };
	struct json_object *before, *after, *users;
	struct htw_event events[10];
	bool found = false, has_contexts = false;
	struct screen screen;
	int line;

	ASSERT_EQ(DONE, run("htwctl stat --format=json"));
	before = json_line(0);
	ASSERT_NE(NULL, before);
	for (int i = 0; i < 10; i++)
		ASSERT_NE(0, htw_start(self->fd, MSEC, i));
	ASSERT_EQ(10, htw_collect(self->fd, events, 10));
	ASSERT_EQ(DONE, run("htwctl stat --format=json"));
	after = json_line(0);
	ASSERT_NE(NULL, after);
	ASSERT_NE(NULL, array(after, "pacers"));
	EXPECT_EQ(htw_cpus(), json_object_array_length(array(after, "pacers")));
	EXPECT_LT(sum_of(array(before, "pacers"), "spent_ns"),
		  sum_of(array(after, "pacers"), "spent_ns"));
	users = array(after, "users");
	ASSERT_NE(NULL, users);
	for (size_t i = 0; i < json_object_array_length(users); i++) {
		struct json_object *user = json_object_array_get_idx(users, i);

		/* One line for the user, and one for each CPU. */
		if (strcmp(string(user, "user"), "0:privileged"))
			continue;
		if (number(user, "cpu") == 0)
			found = number(user, "spent_ns") > 0;
		else if (json_object_object_get_ex(user, "contexts", NULL))
			has_contexts = number(user, "contexts") >= 1;
	}
	EXPECT_TRUE(found);
	EXPECT_TRUE(has_contexts);
	json_object_put(before);
	json_object_put(after);

	ASSERT_TRUE(screen_start(&screen, 24, 100, "xterm-256color", command));
	ASSERT_TRUE(screen_until(&screen, screen_find(&screen, 0, "q quit") == 23));
	line = screen_find(&screen, 0, "SHARE");
	ASSERT_LE(0, line);
	EXPECT_LT(line, screen_find(&screen, line, "root "));
	EXPECT_TRUE(screen_type(&screen, "q"));
	EXPECT_EQ(DONE, screen_end(&screen));
}

HTW_TEST(stat_rates)
{
	struct json_object *object;

	for (int i = 0; i < 3; i++)
		ASSERT_NE(0, htw_start(self->fd, HOUR, i));
	ASSERT_EQ(DONE, run("htwctl stat --interval 20ms --count 3 --format=json"));
	ASSERT_EQ(3, count_lines(out));
	for (int i = 0; i < 3; i++) {
		object = json_line(i);
		ASSERT_NE(NULL, object);
		EXPECT_EQ(3, number(object, "pending"));
		EXPECT_EQ(0, number(object, "expired"));
		EXPECT_LE(1, number(object, "interval_ns"));
		json_object_put(object);
	}
	ASSERT_EQ(DONE, run("htwctl stat --interval 20ms --count 2"));
	EXPECT_EQ(3, count_lines(out));
	EXPECT_NE(NULL, strstr(out, "CASCADES/S"));
}

/*
 * trace
 */

/* Run htwctl trace with @options until it ends, calling @do_it repeatedly meanwhile. */
static int traced(const char *options, void (*do_it)(int fd), int fd)
{
	char name[] = "/tmp/htwctl-test.XXXXXX";
	int file = mkstemp(name), status = -1, null = open("/dev/null", O_WRONLY);
	struct words words;
	ssize_t n;
	pid_t pid;

	if (file < 0)
		return -1;
	memset(&words, 0, sizeof(words));
	snprintf(words.text, sizeof(words.text), "htwctl trace %s", options);
	words.argv[0] = strtok(words.text, " ");
	for (int i = 1; i < MAX_WORDS - 1; i++)
		words.argv[i] = strtok(NULL, " ");
	pid = start(&words, file, null, false);
	close(null);
	/* Tracing takes a while to start. */
	if (!htw_eventually((do_it(fd), waitpid(pid, &status, WNOHANG) == pid))) {
		kill(pid, SIGTERM);
		waitpid(pid, &status, 0);
	}
	n = pread(file, out, OUTPUT - 1, 0);
	out[n > 0 ? n : 0] = '\0';
	close(file);
	unlink(name);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expire_one(int fd)
{
	struct htw_event ev;

	htw_start(fd, 0, 0xfeedULL << 32);
	htw_collect(fd, &ev, 1);
}

HTW_TEST(trace_expirations)
{
	struct json_object *object;

	if (access("/sys/kernel/tracing/events/htw", R_OK))
		SKIP(return, "no tracing");
	ASSERT_EQ(DONE, traced("--event expire --count 3 --format=json", expire_one, self->fd));
	ASSERT_EQ(3, count_lines(out));
	for (int i = 0; i < 3; i++) {
		object = json_line(i);
		ASSERT_NE(NULL, object);
		EXPECT_STREQ("expire", string(object, "event"));
		EXPECT_EQ(0xfeedULL << 32, hex(object, "cookie"));
		EXPECT_NE(0, hex(object, "id"));
		EXPECT_GE(HOUR, number(object, "late_ns"));
		EXPECT_LT(0, number(object, "deadline_ns"));
		/* The trace's clock is the timers'. */
		EXPECT_LE(number(object, "deadline_ns") + number(object, "late_ns"),
			  number(object, "trace_ns"));
		EXPECT_GT(now_ns(), number(object, "trace_ns"));
		json_object_put(object);
	}
	EXPECT_EQ(0, system("ls /sys/kernel/tracing/instances | grep -q htwctl && exit 1; exit 0"));
}

static __u64 traced_id;

static void move_and_cancel_another(int fd)
{
	__u64 other = htw_start(fd, HOUR, 1);

	htw_move(fd, traced_id, 2 * HOUR, 0);
	htw_move(fd, other, 2 * HOUR, 0);
	htw_stop(fd, other);
}

HTW_TEST(trace_one_timer)
{
	char options[64], text[32];

	if (access("/sys/kernel/tracing/events/htw", R_OK))
		SKIP(return, "no tracing");
	traced_id = htw_start(self->fd, HOUR, 1);
	snprintf(options, sizeof(options), "--id 0x%llx --count 5", traced_id);
	snprintf(text, sizeof(text), "id 0x%llx ", traced_id);
	ASSERT_EQ(DONE, traced(options, move_and_cancel_another, self->fd));
	ASSERT_EQ(5, count_lines(out));
	for (char *line = strtok(out, "\n"); line; line = strtok(NULL, "\n")) {
		EXPECT_NE(NULL, strstr(line, " mod "));
		EXPECT_NE(NULL, strstr(line, text));
	}
}

HTW_TEST(trace_of_what_is_not_there)
{
	if (access("/sys/kernel/tracing/events/htw", R_OK))
		SKIP(return, "no tracing");
	EXPECT_EQ(7, run("htwctl trace --event explode --count 1"));
	EXPECT_EQ(DONE, run("htwctl trace --duration 10ms"));
}

/*
 * bench
 */

HTW_TEST(bench_results)
{
	static const char * const operations[] = {
		"syscall", "rearm", "add", "rearm", "cancel", "add", "rearm", "cancel", "expire",
	};
	struct json_object *object, *ns;

	ASSERT_EQ(DONE, run("htwctl bench --timers 1000 --format=json"));
	ASSERT_EQ(ARRAY_SIZE(operations), count_lines(out));
	for (unsigned int i = 0; i < ARRAY_SIZE(operations); i++) {
		object = json_line(i);
		ASSERT_NE(NULL, object);
		EXPECT_STREQ(operations[i], string(object, "operation"));
		EXPECT_EQ(1000, number(object, "count"));
		EXPECT_LT(0, number(object, "total_ns"));
		ASSERT_TRUE(json_object_object_get_ex(object, "ns", &ns));
		EXPECT_LT(0, json_object_get_double(ns));
		json_object_put(object);
	}
}

/*
 * top
 */

HTW_TEST(top_on_a_terminal)
{
	static const char * const command[] = { "htwctl", "top", "--interval", "100ms", NULL };
	struct screen screen;
	int line;
	char buf[1024];

	for (int i = 0; i < 1234; i++)
		ASSERT_NE(0, htw_start(self->fd, HOUR + i * 60 * SEC, i));
	ASSERT_TRUE(screen_start(&screen, 40, 100, "xterm-256color", command));
	ASSERT_TRUE(screen_until(&screen, screen_find(&screen, 0, "Pending 1,234 ") == 1));
	/* The screen is drawn from the top, so the rest follows. */
	ASSERT_TRUE(screen_until(&screen, screen_find(&screen, 0, "q quit") == 39));
	line = screen_find(&screen, 0, "CPU ");
	ASSERT_LE(0, line);
	EXPECT_NE(NULL, strstr(screen_line(&screen, line, buf, sizeof(buf)), "EXPIRED/S"));
	/* A bar shows the buckets in use. */
	EXPECT_TRUE(screen_until(&screen, screen_find(&screen, line, "▏") > line ||
				 screen_find(&screen, line, "█") > line));
	line = screen_find(&screen, line, "PID ");
	ASSERT_LE(0, line);
	EXPECT_TRUE(screen_until(&screen, screen_find(&screen, line, "htwctl-test") > line));
	EXPECT_LE(0, screen_find(&screen, line, " 1,234 "));

	/* Timers that are added and that expire show up. */
	for (int i = 0; i < 2000; i++)
		ASSERT_NE(0, htw_start(self->fd, HOUR, i));
	EXPECT_TRUE(screen_until(&screen, screen_find(&screen, 0, "Pending 3,234 ") == 1));
	for (int i = 0; i < 100; i++)
		ASSERT_NE(0, htw_start(self->fd, 0, i));
	EXPECT_TRUE(screen_type(&screen, "l"));
	EXPECT_TRUE(screen_until(&screen, screen_find(&screen, 0, "since the module") > 0));
	EXPECT_TRUE(screen_until(&screen, screen_find(&screen, 0, " 3,334 ") > 0));

	EXPECT_TRUE(screen_type(&screen, "w"));
	EXPECT_TRUE(screen_until(&screen, screen_find(&screen, 0, "CLOCK USER") > 0));
	EXPECT_TRUE(screen_until(&screen, screen_find(&screen, 0, " monotonic") > 0));
	EXPECT_TRUE(screen_type(&screen, " "));
	EXPECT_TRUE(screen_until(&screen, screen_find(&screen, 0, "paused") == 0));
	EXPECT_TRUE(screen_type(&screen, " +"));
	EXPECT_TRUE(screen_until(&screen, screen_find(&screen, 0, "every 200 ms") == 0));

	screen_resize(&screen, 10, 40);
	EXPECT_TRUE(screen_until(&screen, screen_find(&screen, 0, "needs 60 x 12") == 0));
	screen_resize(&screen, 24, 80);
	EXPECT_TRUE(screen_until(&screen, screen_find(&screen, 0, "Pending 3,234 ") == 1));
	EXPECT_TRUE(screen_until(&screen, screen_find(&screen, 0, "q quit") == 23));
	EXPECT_TRUE(screen_type(&screen, "q"));
	EXPECT_EQ(DONE, screen_end(&screen));
}

HTW_TEST(top_without_colours)
{
	static const char * const command[] = { "htwctl", "top", "--count", "1", NULL };
	struct screen screen;

	ASSERT_TRUE(screen_start(&screen, 24, 80, "vt100", command));
	EXPECT_TRUE(screen_until(&screen, screen_find(&screen, 0, "Pending ") == 1));
	EXPECT_EQ(DONE, screen_end(&screen));
}

HTW_TEST(top_where_it_cannot)
{
	static const char * const command[] = { "htwctl", "top", NULL };
	struct screen screen;

	EXPECT_EQ(USAGE, run("htwctl top"));
	ASSERT_TRUE(screen_start(&screen, 24, 80, "no-such-terminal", command));
	EXPECT_TRUE(screen_until(&screen, screen_find(&screen, 0, "no-such-terminal") >= 0));
	EXPECT_EQ(FAILED, screen_end(&screen));
}

TEST_HARNESS_MAIN
