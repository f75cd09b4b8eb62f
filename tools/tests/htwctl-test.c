// SPDX-License-Identifier: GPL-2.0-only
/*
 * htwctl as people and scripts use it: each subcommand, its JSON (parsed with
 * json-c), exit codes, invalid arguments, and top on a terminal
 */
#include <sys/mount.h>
#include <sys/prctl.h>

#include "../common/screen.h"
#include "htwctl-run.h"

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

/* A number, or one that is a string because it may be large. */
static __u64 number(struct json_object *object, const char *key)
{
	struct json_object *value;

	if (!json_object_object_get_ex(object, key, &value))
		return POISON;
	if (json_object_is_type(value, json_type_string))
		return strtoull(json_object_get_string(value), NULL, 10);
	return json_object_is_type(value, json_type_int) ? json_object_get_uint64(value) : POISON;
}

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

/* -h is what people try first. */
HTW_TEST(short_help)
{
	static const char * const commands[] = {
		"", " info", " add", " watch", " list", " cancel", " stat", " trace", " top",
		" bench",
	};
	static char help[OUTPUT];

	for (unsigned int i = 0; i < ARRAY_SIZE(commands); i++) {
		EXPECT_EQ(DONE, run("htwctl%s --help", commands[i]));
		memcpy(help, out, strlen(out) + 1);
		EXPECT_EQ(DONE, run("htwctl%s -h", commands[i])) {
			TH_LOG("htwctl%s -h: %s", commands[i], err);
		}
		EXPECT_STREQ(help, out);
		EXPECT_STREQ("", err);
		EXPECT_NE(NULL, strstr(help, " -h "));
	}
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
		"htwctl add 1s --tick 0", "htwctl add 1s --tick 1ms --geometry 1,2",
		"htwctl add 1s --tick 1ms --geometry 2,2,2,2,2,2,2,2,2",
		"htwctl add 1s --fd 0 --clock boottime", "htwctl add 1s --tick 1ms --exact",
		"htwctl add 1s --fd 0 --exact", "htwctl list --all", "htwctl add 1s --home 0",
		"htwctl \033[31mred", "htwctl add \033[31m", "htwctl add 1s --every \377",
		"htwctl add 1s --clock \x9b", "htwctl info --format \r\a",
		"htwctl cancel --fd 0 \a",
		"htwctl watch", "htwctl watch --pid 1", "htwctl watch --fd 0 --count 0",
		"htwctl list everything",
		"htwctl cancel", "htwctl cancel 0x1", "htwctl cancel --fd 0",
		"htwctl cancel --fd 0 --all 0x1", "htwctl cancel --fd 0 first",
		"htwctl stat now", "htwctl stat --count 1", "htwctl stat --interval 1us",
		"htwctl trace --count 0", "htwctl trace --id none",
		"htwctl top --interval 1ms",
		"htwctl top --interval 18446744073s", "htwctl stat --interval 18446744073s",
		"htwctl trace --event ,", "htwctl top now", "htwctl bench --timers 0",
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

/*
 * Run htwctl with stdout to @to, which may be -1 for none; return its exit code.
 * Its messages are in @err.
 */
static int __attribute__((format(printf, 2, 3))) run_to(int to, const char *format, ...)
{
	const int errors = memfd_create("errors", MFD_CLOEXEC);
	struct words words;
	int status = -1;
	va_list args;
	ssize_t n;
	pid_t pid;

	va_start(args, format);
	cut(&words, format, args);
	va_end(args);
	pid = fork();
	if (!pid) {
		dup2(errors, STDERR_FILENO);
		if (to < 0)
			close(STDOUT_FILENO);
		else
			dup2(to, STDOUT_FILENO);
		execvp(words.argv[0], words.argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	n = pread(errors, err, OUTPUT - 1, 0);
	err[n > 0 ? n : 0] = '\0';
	close(errors);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* On a full disk, and without a stdout: whatever it prints, it says that it could not. */
HTW_TEST(output_that_cannot_be_written)
{
	const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
	const int fd = inherited();
	static const char * const commands[] = {
		"htwctl --help", "htwctl --version", "htwctl stat --help", "htwctl info",
		"htwctl info --format=json", "htwctl add 0", "htwctl add 0 --format=json",
		"htwctl list", "htwctl list --format=json", "htwctl stat",
		"htwctl stat --format=json",
		"htwctl stat --interval 1ms", "htwctl bench --timers 1",
		"htwctl list --fd %d", "htwctl watch --fd %d", "htwctl cancel --all --fd %d",
	};

	ASSERT_LE(0, full);
	ASSERT_NE(0, htw_start(fd, HOUR, 1));
	for (unsigned int i = 0; i < ARRAY_SIZE(commands); i++) {
		char command[64];

		snprintf(command, sizeof(command), commands[i], fd);
		for (int closed = 0; closed < 2; closed++) {
			/* For watch. */
			ASSERT_NE(0, htw_start(fd, 0, 2));
			EXPECT_EQ(FAILED, run_to(closed ? -1 : full, "%s", command)) {
				TH_LOG("%s, %s", command, closed ? "closed" : "full");
			}
			EXPECT_NE(NULL, strstr(err, "cannot write the output"));
			/* What it opened did not take the place of stdout. */
			EXPECT_EQ(NULL, strstr(err, strerror(EINVAL))) {
				TH_LOG("%s: %s", command, err);
			}
		}
	}
	close(full);
	close(fd);
}

/*
 * Text that others have chosen
 */

static const struct {
	const char *name;
	const char *shown;
} hostile[] = {
	{ "\033[2J\033]0;x\a", "\\033[2J\\033]0;x\\007" },
	{ "a\n  1   3 root", "a\\012  1   3 root" },
	{ "\x9b[31m", "\\233[31m" },
	{ "\xff\xfe\xc0\x80", "\\377\\376\\300\\200" },
	{ "\xed\xa0\x80", "\\355\\240\\200" },
	/* A right-to-left override, a line separator, a letter with an accent. */
	{ "\xe2\x80\xaegnp", "\\342\\200\\256gnp" },
	{ "\xe2\x80\xa8", "\\342\\200\\250" },
	{ "\xc3\xa9", "\\303\\251" },
	{ "\"}'`$(id)%s%n", "\"}'`$(id)%s%n" },
	{ "\\033\\u001b\\n", "\\\\033\\\\u001b\\\\n" },
	{ "\r\b\t\v\177", "\\015\\010\\011\\013\\177" },
	{ "\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377",
	  "\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377" },
	{ "", "" },
};

/* The command of this process's descriptor, in a document or an array of them. */
static const char *command_of(struct json_object *descriptors)
{
	for (size_t i = 0; i < json_object_array_length(descriptors); i++) {
		struct json_object *d = json_object_array_get_idx(descriptors, i);

		if (number(d, "pid") == (__u64)getpid())
			return string(d, "command");
	}
	return "none";
}

HTW_TEST(names_of_processes)
{
	static const char * const top[] = { "htwctl", "top", NULL };
	struct json_object *object, *list;
	struct screen screen;
	unsigned int lines;
	char end[128];

	ASSERT_EQ(DONE, run("htwctl list"));
	lines = count_lines(out);
	for (unsigned int i = 0; i < ARRAY_SIZE(hostile); i++) {
		ASSERT_EQ(0, prctl(PR_SET_NAME, hostile[i].name));
		EXPECT_EQ(DONE, run("htwctl list")) {
			TH_LOG("%s", hostile[i].shown);
		}
		EXPECT_EQ(lines, count_lines(out));
		snprintf(end, sizeof(end), " %s\n", hostile[i].shown);
		EXPECT_NE(NULL, strstr(out, end)) {
			TH_LOG("no %s", hostile[i].shown);
		}
		EXPECT_EQ(DONE, run("htwctl stat"));
		EXPECT_NE(NULL, strstr(out, end));
		EXPECT_EQ(DONE, run("htwctl list --pid %d", getpid()));

		/* JSON has the same text. */
		ASSERT_EQ(DONE, run("htwctl list --format=json")) {
			TH_LOG("%s", hostile[i].shown);
		}
		list = json_object_new_array();
		for (unsigned int n = 0; n < count_lines(out); n++)
			json_object_array_add(list, json_line(n));
		EXPECT_STREQ(hostile[i].shown, command_of(list));
		json_object_put(list);
		ASSERT_EQ(DONE, run("htwctl stat --format=json"));
		object = json_line(0);
		EXPECT_STREQ(hostile[i].shown, command_of(array(object, "descriptors")));
		json_object_put(object);
	}
	ASSERT_EQ(0, prctl(PR_SET_NAME, hostile[0].name));
	ASSERT_TRUE(screen_start(&screen, 24, 100, "xterm-256color", top));
	EXPECT_TRUE(screen_until(&screen, screen_find(&screen, 0, hostile[0].shown) > 0));
	EXPECT_TRUE(screen_type(&screen, "q"));
	EXPECT_EQ(DONE, screen_end(&screen));
}

static void write_file(const char *directory, const char *name, const char *text)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "w");
	if (!file)
		return;
	fputs(text, file);
	fclose(file);
}

/* Files in the place of the kernel's and of /etc/passwd, as if all of them were hostile. */
HTW_TEST(text_of_files)
{
	static const char * const top[] = { "htwctl", "top", "--wheels", NULL };
	static const char passwd[] = "/tmp/htwctl-test.passwd";
	struct json_object *object;
	struct screen screen;

	ASSERT_EQ(0, unshare(CLONE_NEWNS));
	ASSERT_EQ(0, mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
	write_file("/tmp", "htwctl-test.passwd", "ro\033[31m\377ot:x:0:0::/:/bin/sh\n");
	ASSERT_EQ(0, mount(passwd, "/etc/passwd", NULL, MS_BIND, NULL));
	ASSERT_EQ(0, mount("none", "/sys/kernel/debug/htw", "tmpfs", 0, NULL));
	write_file("/sys/kernel/debug/htw", "lanes", "lane 0 x \033[31m \377\377 \a\n");
	write_file("/sys/kernel/debug/htw", "users",
		   "user \x9b[1m contexts 1 a\377b \a\n"
		   "user 0:\033[31m cpu \033[31m clock mono\033[31m rings 1 \xe2\x80\xae 2\n");
	EXPECT_EQ(DONE, run("htwctl stat"));
	EXPECT_NE(NULL, strstr(out, "mono\\033[31m"));
	EXPECT_NE(NULL, strstr(out, " ro\\033[31m\\377ot "));
	EXPECT_EQ(DONE, run("htwctl stat --format=json"));
	EXPECT_EQ(DONE, run("htwctl stat --interval 1ms --count 1"));
	EXPECT_EQ(DONE, run("htwctl stat --interval 1ms --count 1 --format=json"));
	EXPECT_EQ(DONE, run("htwctl list"));
	EXPECT_NE(NULL, strstr(out, " ro\\033[31m\\377ot "));
	EXPECT_EQ(DONE, run("htwctl list --format=json"));
	ASSERT_TRUE(screen_start(&screen, 24, 120, "xterm-256color", top));
	EXPECT_TRUE(screen_until(&screen, screen_find(&screen, 0, "\\233[1m") > 0));
	EXPECT_TRUE(screen_type(&screen, "q"));
	EXPECT_EQ(DONE, screen_end(&screen));

	ASSERT_EQ(0, mount("none", "/sys/module/htw", "tmpfs", 0, NULL));
	ASSERT_EQ(0, mkdir("/sys/module/htw/parameters", 0755));
	write_file("/sys/module/htw", "version", "1\033[31m\377\n");
	write_file("/sys/module/htw/parameters", "tick\n\033[31m\377", "\xc3\x28\033[31m\n");
	EXPECT_EQ(DONE, run("htwctl info"));
	EXPECT_NE(NULL, strstr(out, "parameter  tick\\012\\033[31m\\377=\\303(\\033[31m\n"));
	ASSERT_EQ(DONE, run("htwctl info --format=json"));
	object = json_line(0);
	EXPECT_STREQ("1\\033[31m\\377", string(object, "module_version"));
	json_object_put(object);

	/* Words of the command line, which scripts may have from others. */
	EXPECT_EQ(NO_DEVICE, run("htwctl --device /tmp/\033[31m info"));
	EXPECT_EQ(NO_DEVICE, run("htwctl --device %s info", passwd));
	EXPECT_EQ(7, run("htwctl trace --event \033[31m --count 1"));
	unlink(passwd);
}

/*
 * info
 */

HTW_TEST(info_of_a_new_one)
{
	struct htw_info_args info = htw_info(self->fd);
	struct json_object *object;

	ASSERT_EQ(DONE, run("htwctl info --format=json"));
	ASSERT_EQ(1, count_lines(out));
	object = json_line(0);
	ASSERT_NE(NULL, object);
	EXPECT_STREQ("monotonic", string(object, "clock"));
	EXPECT_EQ(info.tick_ns, number(object, "tick_ns"));
	EXPECT_EQ(info.limit, number(object, "limit"));
	EXPECT_EQ(0, number(object, "timers"));
	EXPECT_TRUE(is(object, "ordered", false));
	EXPECT_EQ(0, number(object, "bytes"));
	EXPECT_EQ(info.event_size, number(object, "event_size"));
	EXPECT_EQ(POISON, number(object, "next_ns"));
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
	struct htw_setup_args setup = {
		.flags = HTW_SETUP_CLOCK | HTW_SETUP_ORDERED,
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
	EXPECT_TRUE(is(object, "ordered", true));
	EXPECT_EQ(htw_info(fd).bytes, number(object, "bytes"));
	EXPECT_EQ(htw_info(fd).next, number(object, "next_ns"));
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
		EXPECT_LE(number(object, "deadline_ns"), number(object, "taken_ns"));
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

HTW_TEST(add_with_a_setup)
{
	EXPECT_EQ(DONE, run("htwctl add 1ms 20ms --tick 500us --geometry 16,16"));
	EXPECT_EQ(DONE, run("htwctl add 1ms --tick 1ms"));
	EXPECT_EQ(DONE, run("htwctl add 1ms --geometry 60,60 --ordered"));
	EXPECT_EQ(DONE, run("htwctl add 1ms --exact --clock realtime"));
	/* Less than a tick is a tick. */
	EXPECT_EQ(DONE, run("htwctl add 1ms --every 1ns --count 2"));
}

/* Others see the tick of its context. */
HTW_TEST(add_exact)
{
	const pid_t pid = fork();
	unsigned int tries = 0;

	if (!pid) {
		close(STDOUT_FILENO);
		if (open("/dev/null", O_WRONLY) == STDOUT_FILENO)
			execlp("htwctl", "htwctl", "add", "1h", "--exact", NULL);
		_exit(127);
	}
	ASSERT_LT(0, pid);
	do {
		usleep(10000);
		run("htwctl list --pid %d", pid);
	} while (!strstr(out, ", tick 10 us\n") && ++tries < 1000);
	EXPECT_NE(NULL, strstr(out, ", tick 10 us\n"));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* An error from the kernel is not a usage error. It is explained by what is allowed. */
HTW_TEST(add_what_the_kernel_refuses)
{
	static const struct {
		int code;
		const char *options;
		const char *allowed;
	} refused[] = {
		{ FAILED, "--tick 1ns", "from 10 us to 1 s" },
		{ FAILED, "--tick 2s", "from 10 us to 1 s" },
		{ FAILED, "--tick 1ms --geometry 2048,2048,2048,2048,2048,2048",
		  "2 to 2048 slots" },
		{ DENIED, "--tick 5us", "below 10 us needs CAP_SYS_RESOURCE" },
	};

	ASSERT_EQ(0, chmod(HTW_DEVICE, 0666));
	for (unsigned int i = 0; i < ARRAY_SIZE(refused); i++) {
		const char *command = "htwctl add 1ms %s";

		EXPECT_EQ(refused[i].code, refused[i].code == DENIED ?
			  run_as_nobody(command, refused[i].options) :
			  run(command, refused[i].options)) {
			TH_LOG("%s: %s", refused[i].options, err);
		}
		EXPECT_NE(NULL, strstr(err, refused[i].allowed)) {
			TH_LOG("%s: %s", refused[i].options, err);
		}
	}
	ASSERT_EQ(0, chmod(HTW_DEVICE, 0660));
}

HTW_TEST(add_at_a_point_in_time)
{
	__u64 deadline = now_ns() + 20 * MSEC;
	struct json_object *object;

	ASSERT_EQ(DONE, run("htwctl add --abs %lluns --format=json", deadline));
	object = json_line(1);
	ASSERT_NE(NULL, object);
	EXPECT_EQ(deadline, number(object, "deadline_ns"));
	EXPECT_LE(deadline, number(object, "taken_ns"));
	json_object_put(object);
}

HTW_TEST(add_to_a_descriptor)
{
	struct json_object *object;
	struct htw_timer_info query;
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
	struct htw_setup_args setup = { .limit = 1 };
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
	ASSERT_TRUE(htw_eventually(htw_due(fd) == 2));
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
	EXPECT_EQ(1, htw_due(self->fd));
	ASSERT_EQ(DONE, run("htwctl watch --take --pid %d --fd %d --timeout 0", getpid(),
			    self->fd));
	EXPECT_EQ(1, count_lines(out));
	EXPECT_EQ(0, htw_due(self->fd));
}

/* Events that nobody can read any more stay where they are. */
HTW_TEST(watch_without_a_reader)
{
	int fd = inherited(), to[2], status;
	struct words words;
	pid_t pid;

	for (int ignored = 0; ignored < 2; ignored++) {
		ASSERT_EQ(0, pipe2(to, O_CLOEXEC));
		memset(&words, 0, sizeof(words));
		snprintf(words.text, sizeof(words.text), "%d", fd);
		words.argv[0] = "htwctl";
		words.argv[1] = "watch";
		words.argv[2] = "--fd";
		words.argv[3] = words.text;
		signal(SIGPIPE, ignored ? SIG_IGN : SIG_DFL);
		/* Closed first: an event that comes while somebody reads is printed, and gone. */
		close(to[0]);
		pid = start(&words, to[1], 2, false);
		close(to[1]);
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_EQ(ignored ? 0 : SIGPIPE, WTERMSIG(status));
		EXPECT_EQ(ignored ? FAILED : 0, WEXITSTATUS(status));
		ASSERT_NE(0, htw_start(fd, 0, 1));
	}
	ASSERT_TRUE(htw_eventually(htw_due(fd) == 2));
	close(fd);
}

/* What a descriptor was not opened for, is said. */
HTW_TEST(descriptors_of_one_direction)
{
	static const char * const reads[] = { "watch", "list", "info" };
	const int to_read = open(HTW_DEVICE, O_RDONLY), to_write = open(HTW_DEVICE, O_WRONLY);

	for (unsigned int i = 0; i < ARRAY_SIZE(reads); i++) {
		EXPECT_EQ(DENIED, run("htwctl %s --fd %d%s", reads[i], to_write,
				      i ? "" : " --timeout 0"));
		EXPECT_NE(NULL, strstr(err, "not opened for reading"));
		EXPECT_EQ(DONE, run("htwctl %s --fd %d%s", reads[i], to_read,
				    i ? "" : " --timeout 0"));
	}
	EXPECT_EQ(DENIED, run("htwctl add --fd %d 1h", to_read));
	EXPECT_NE(NULL, strstr(err, "not opened for writing"));
	EXPECT_EQ(DENIED, run("htwctl cancel --fd %d --all", to_read));
	EXPECT_EQ(DENIED, run("htwctl cancel --fd %d 0x1", to_read));
	EXPECT_EQ(DONE, run("htwctl add --fd %d 1h", to_write));
	EXPECT_EQ(DONE, run("htwctl cancel --fd %d --all", to_write));
	EXPECT_NE(NULL, strstr(out, "cancelled 1 "));
	close(to_read);
	close(to_write);
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

/* A timer in each state. */
HTW_TEST(list_all_states)
{
	static const char * const states[] = { "pending", "due", "disarmed" };
	struct htw_add_args kept = htw_rel(0, 0x102);
	struct json_object *object;
	struct htw_event ev;

	kept.flags = HTW_F_KEEP;
	ASSERT_NE(0, htw_start(self->fd, HOUR, 0x100));
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &kept));
	ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
	ASSERT_NE(0, htw_start(self->fd, 0, 0x101));
	ASSERT_TRUE(htw_wait_readable(self->fd));
	ASSERT_EQ(DONE, run("htwctl list --pid %d --format=json", getpid()));
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

/* How many lines of fdinfo are not in the object, by their names; each level is in an array. */
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
		missing += !json_object_object_get_ex(object, strncmp(name, "level_", 6) ? name :
						      "levels", NULL);
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
			EXPECT_EQ(4, number(object, "pending"));
			EXPECT_LT(0, number(object, "oldest_due_ns"));
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

/* The largest deadlines are as far away as the kernel says. */
HTW_TEST(list_of_far_deadlines)
{
	const int fd = inherited();

	ASSERT_EQ(DONE, run("htwctl add --fd %d 18446744073.709551615s 100000d", fd));
	EXPECT_NE(NULL, strstr(out, " in never\n"));
	EXPECT_NE(NULL, strstr(out, " in 100000 d\n"));
	ASSERT_EQ(DONE, run("htwctl list --fd %d", fd));
	EXPECT_NE(NULL, strstr(out, " never "));
	EXPECT_NE(NULL, strstr(out, " 99999 d "));
	ASSERT_EQ(DONE, run("htwctl list --fd %d --format=json", fd));
	EXPECT_NE(NULL, strstr(out, "\"deadline_ns\":\"18446744073709551615\""));
	close(fd);
}

HTW_TEST(cancel_by_id)
{
	__u64 id = htw_start(self->fd, HOUR, 0x55), due;
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
	/* One whose expiration was not read. */
	due = htw_start(self->fd, 0, 0x56);
	ASSERT_TRUE(htw_wait_readable(self->fd));
	ASSERT_EQ(DONE, run("htwctl cancel --pid %d 0x%llx --format=json", getpid(), due));
	object = json_line(0);
	ASSERT_NE(NULL, object);
	EXPECT_STREQ("due", string(object, "state"));
	EXPECT_EQ(0x56, hex(object, "cookie"));
	json_object_put(object);
	EXPECT_EQ(0, htw_timers(self->fd));
}

/* All ids are tried; the exit code is that of the first failure. */
HTW_TEST(cancel_several)
{
	__u64 a = htw_start(self->fd, HOUR, 1), b = htw_start(self->fd, HOUR, 2);
	__u64 due = htw_start(self->fd, 0, 3);

	ASSERT_TRUE(htw_wait_readable(self->fd));
	EXPECT_EQ(NOT_FOUND, run("htwctl cancel --pid %d 0x%llx 0x%llx 0x1ff00000001 0x%llx",
				 getpid(), a, due, b));
	EXPECT_EQ(4, count_lines(out));
	EXPECT_EQ(0, htw_timers(self->fd));
}

HTW_TEST(cancel_all)
{
	struct json_object *object;

	for (int i = 0; i < 100; i++)
		ASSERT_NE(0, htw_start(self->fd, HOUR, i));
	ASSERT_NE(0, htw_start(self->fd, 0, 3));
	ASSERT_EQ(DONE, run("htwctl cancel --pid %d --all --format=json", getpid()));
	object = json_line(0);
	ASSERT_NE(NULL, object);
	EXPECT_EQ(101, number(object, "cancelled"));
	json_object_put(object);
	EXPECT_EQ(0, htw_timers(self->fd));
}

/*
 * stat
 */

static __u64 sum_of(struct json_object *all, const char *key)
{
	__u64 sum = 0;

	for (size_t i = 0; all && i < json_object_array_length(all); i++)
		sum += number(json_object_array_get_idx(all, i), key);
	return sum;
}

/* This process's descriptor in an array of them; NULL if there is none. */
static struct json_object *descriptor_of(struct json_object *all, int fd)
{
	for (size_t i = 0; all && i < json_object_array_length(all); i++) {
		struct json_object *d = json_object_array_get_idx(all, i);

		if (number(d, "pid") == (__u64)getpid() && number(d, "fd") == (__u64)fd)
			return d;
	}
	return NULL;
}

/* Have a timer expire while a task waits; return how often the alarm of a descriptor has rung. */
static unsigned long wait_for_one(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	struct htw_event event;
	unsigned long rings = 0;
	char path[64], text[4096], *line;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	if (!htw_start(fd, 20 * MSEC, 0) || poll(&pfd, 1, -1) != 1 ||
	    htw_read(fd, &event, 1) != 1 || htw_read_file(path, text, sizeof(text)))
		return 0;
	line = strstr(text, "htw-alarm-late:");
	for (line = line ? strchr(line, '\t') : NULL; line && *line != '\n';)
		rings += strtoul(line, &line, 10);
	return rings;
}

HTW_TEST(stat_counts)
{
	struct json_object *stat, *d;
	unsigned int taken = 0;

	/* On a slow machine a timer may be due before the task waits, and no alarm rings. */
	ASSERT_TRUE(htw_eventually((taken++, wait_for_one(self->fd))));
	for (int i = 0; i < 1000; i++)
		ASSERT_NE(0, htw_start(self->fd, (i + 1) * HOUR, i));
	ASSERT_EQ(DONE, run("htwctl stat --format=json"));
	ASSERT_EQ(1, count_lines(out));
	stat = json_line(0);
	ASSERT_NE(NULL, stat);
	d = descriptor_of(array(stat, "descriptors"), self->fd);
	ASSERT_NE(NULL, d);
	EXPECT_EQ(1000, number(d, "pending"));
	EXPECT_EQ(taken, number(d, "taken"));
	EXPECT_EQ(taken, sum_of(array(d, "taken_late"), "count"));
	EXPECT_LE(1, sum_of(array(d, "alarm_late"), "count"));
	ASSERT_NE(NULL, array(d, "levels"));
	EXPECT_EQ(htw_info(self->fd).levels, json_object_array_length(array(d, "levels")));
	EXPECT_LT(0, sum_of(array(d, "levels"), "occupied"));
	json_object_put(stat);
	ASSERT_EQ(DONE, run("htwctl stat"));
	EXPECT_NE(NULL, strstr(out, "\nlateness of alarms"));
	EXPECT_NE(NULL, strstr(out, "\nlateness of expirations as taken"));
	EXPECT_NE(NULL, strstr(out, "\nalarms of users\n"));
}

/* Users and their alarms, and their display in top. */
HTW_TEST(stat_of_users)
{
	static const char * const command[] = { "htwctl", "top", "--interval", "100ms", NULL };
	bool found = false, has_contexts = false;
	struct json_object *stat, *users;
	struct screen screen;
	int line;

	ASSERT_NE(0, htw_start(self->fd, MSEC, 1));
	ASSERT_TRUE(htw_wait_readable(self->fd));
	ASSERT_EQ(DONE, run("htwctl stat --format=json"));
	stat = json_line(0);
	ASSERT_NE(NULL, stat);
	EXPECT_EQ(2, json_object_array_length(array(stat, "lanes")));
	users = array(stat, "users");
	ASSERT_NE(NULL, users);
	for (size_t i = 0; i < json_object_array_length(users); i++) {
		struct json_object *user = json_object_array_get_idx(users, i);

		/* One line for the user, and one for each alarm. */
		if (strcmp(string(user, "user"), "0:privileged"))
			continue;
		if (json_object_object_get_ex(user, "contexts", NULL))
			has_contexts = number(user, "contexts") >= 1;
		else if (!strcmp(string(user, "clock"), "monotonic"))
			found |= number(user, "rings") > 0 && number(user, "rang_at_ns") > 0;
	}
	EXPECT_TRUE(found);
	EXPECT_TRUE(has_contexts);
	json_object_put(stat);

	ASSERT_TRUE(screen_start(&screen, 24, 110, "xterm-256color", command));
	ASSERT_TRUE(screen_until(&screen, screen_find(&screen, 0, "q quit") == 23));
	line = screen_find(&screen, 0, "WAKES/S");
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
		EXPECT_EQ(0, number(object, "taken"));
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
	EXPECT_EQ(0, instances());
}

/*
 * bench
 */

HTW_TEST(bench_results)
{
	static const char * const operations[] = {
		"syscall", "rearm", "add", "rearm", "cancel", "add", "rearm", "cancel", "expire",
	};
	struct json_object *object;

	ASSERT_EQ(DONE, run("htwctl bench --timers 1000 --format=json"));
	ASSERT_EQ(ARRAY_SIZE(operations), count_lines(out));
	for (unsigned int i = 0; i < ARRAY_SIZE(operations); i++) {
		object = json_line(i);
		ASSERT_NE(NULL, object);
		EXPECT_STREQ(operations[i], string(object, "operation"));
		EXPECT_EQ(1000, number(object, "count"));
		EXPECT_LT(0, number(object, "total_ns"));
		EXPECT_LT(0, strtod(string(object, "each_ns"), NULL));
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

	for (int i = 0; i < 1234; i++)
		ASSERT_NE(0, htw_start(self->fd, HOUR + i * 60 * SEC, i));
	ASSERT_TRUE(screen_start(&screen, 40, 100, "xterm-256color", command));
	ASSERT_TRUE(screen_until(&screen, screen_find(&screen, 0, "Pending 1,234 ") == 1));
	/* The screen is drawn from the top, so the rest follows. */
	ASSERT_TRUE(screen_until(&screen, screen_find(&screen, 0, "q quit") == 39));
	line = screen_find(&screen, 0, "PID ");
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
	EXPECT_TRUE(screen_until(&screen, screen_find(&screen, 0, "since opened") > 0));
	EXPECT_TRUE(screen_until(&screen, screen_find(&screen, 0, " 3,334 ") > 0));
	EXPECT_TRUE(screen_until(&screen, screen_find(&screen, 0, "not taken for ") == 3));

	EXPECT_TRUE(screen_type(&screen, "w"));
	EXPECT_TRUE(screen_until(&screen, screen_find(&screen, 0, "BUCKETS IN USE") > 0));
	/* A bar shows them. */
	EXPECT_TRUE(screen_until(&screen, screen_find(&screen, line, "▏") > line ||
				 screen_find(&screen, line, "█") > line));
	EXPECT_TRUE(screen_type(&screen, " "));
	EXPECT_TRUE(screen_until(&screen, screen_find(&screen, 0, "paused") == 0));
	EXPECT_TRUE(screen_type(&screen, " +"));
	EXPECT_TRUE(screen_until(&screen, screen_find(&screen, 0, "every 200 ms") == 0));

	screen_resize(&screen, 10, 40);
	EXPECT_TRUE(screen_until(&screen, screen_find(&screen, 0, "needs 60 x 12") == 0));
	screen_resize(&screen, 24, 80);
	/* Those that are due are pending until they are taken. */
	EXPECT_TRUE(screen_until(&screen, screen_find(&screen, 0, "Pending 3,334 ") == 1));
	EXPECT_TRUE(screen_until(&screen, screen_find(&screen, 0, "q quit") == 23));
	EXPECT_TRUE(screen_type(&screen, "q"));
	EXPECT_EQ(DONE, screen_end(&screen));
}

/* Whatever the width, no column that is shown is cut, and no line is continued on the next. */
HTW_TEST(top_columns)
{
	static const char * const command[] = { "htwctl", "top", "--interval", "100ms", NULL };
	static const int widths[] = { 60, 77, 80, 88, 97, 100, 132 };
	char row[256], buf[1024], *end;
	struct screen screen;
	int line;

	ASSERT_EQ(0, prctl(PR_SET_NAME, "fifteen-letters"));
	for (int i = 0; i < 100000; i++)
		ASSERT_NE(0, htw_start(self->fd, HOUR, i));
	ASSERT_EQ(DONE, run("htwctl list"));
	end = strstr(out, " fifteen-letters");
	ASSERT_NE(NULL, end);
	*end = '\0';
	snprintf(row, sizeof(row), "%s", strrchr(out, '\n') + 1);
	for (unsigned int i = 0; i < ARRAY_SIZE(widths); i++) {
		ASSERT_TRUE(screen_start(&screen, 30, widths[i], "xterm-256color", command));
		ASSERT_TRUE(screen_until(&screen, screen_find(&screen, 0, "q quit") == 29));
		EXPECT_LE(0, screen_find(&screen, 29, " since open"));
		EXPECT_EQ(2, screen_find(&screen, 0, "Cascades "));
		EXPECT_EQ(3, screen_find(&screen, 0, "Late "));
		/* Up to the limit, or the name as well. */
		line = screen_find(&screen, 0, " LIMIT");
		ASSERT_LT(0, line);
		if (widths[i] < 80)
			row[strlen(row) - strlen("   1 ")] = '\0';
		EXPECT_LT(line, screen_find(&screen, line, row)) {
			TH_LOG("%d columns: no %s", widths[i], row);
		}
		if (widths[i] < 80)
			snprintf(row, sizeof(row), "%s", strrchr(out, '\n') + 1);
		else
			EXPECT_LT(line, screen_find(&screen, line, "fifteen-letters"));
		line = screen_find(&screen, 0, "RINGS/S");
		if (widths[i] >= 77) {
			ASSERT_LT(0, line);
			EXPECT_EQ(line, screen_find(&screen, line, " REFUSED"));
			screen_line(&screen, line + 1, buf, sizeof(buf));
			EXPECT_TRUE(ends_with(buf, " 0")) {
				TH_LOG("%d columns: %s", widths[i], buf);
			}
		}
		EXPECT_TRUE(screen_type(&screen, "q"));
		EXPECT_EQ(DONE, screen_end(&screen));
	}
}

/* It ends, and does not ask a terminal that is gone for keys without pause. */
HTW_TEST(top_whose_terminal_is_gone)
{
	static const char * const command[] = { "htwctl", "top", "--interval", "100ms", NULL };
	struct screen screen;
	int status;

	/* As with sudo, and with nohup. */
	signal(SIGHUP, SIG_IGN);
	for (int paused = 0; paused < 2; paused++) {
		ASSERT_TRUE(screen_start(&screen, 24, 80, "xterm-256color", command));
		ASSERT_TRUE(screen_until(&screen, screen_find(&screen, 0, "q quit") == 23));
		if (paused) {
			EXPECT_TRUE(screen_type(&screen, " "));
			EXPECT_TRUE(screen_until(&screen, screen_find(&screen, 0, "paused") == 0));
		}
		close(screen.pty);
		vterm_free(screen.vt);
		EXPECT_TRUE(htw_eventually(waitpid(screen.pid, &status, WNOHANG) == screen.pid)) {
			kill(screen.pid, SIGKILL);
			waitpid(screen.pid, &status, 0);
		}
		EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == FAILED);
	}
	signal(SIGHUP, SIG_DFL);
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
