/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How tests of htwctl run it, and look at what it prints
 */
#ifndef HTWCTL_RUN_H
#define HTWCTL_RUN_H

#include <dirent.h>
#include <json-c/json.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>

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
};

/* What run() returns instead, as no run may ever print this. */
enum {
	NOT_PRINTABLE	= -2,	/* text that a terminal might take for something else */
	INEXACT_JSON	= -3,	/* a line that is no document, or a number that readers round */
	BARE_ERRNO	= -4,	/* an error's name in place of what is allowed */
};

static char out[OUTPUT], err[OUTPUT];

/* A command line, split at blanks. */
struct words {
	char text[512];
	char *argv[MAX_WORDS];
};

static inline void cut(struct words *words, const char *format, va_list args)
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
static inline void drain(struct pollfd *from, char *buf, size_t *n)
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
static inline pid_t start(struct words *words, int to, int errors, bool nobody)
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

/* Only printable ASCII, in lines. */
static inline bool is_printable(const char *text)
{
	for (; *text; text++)
		if ((*text < ' ' || *text > '~') && *text != '\n')
			return false;
	return true;
}

/* These say that something is wrong, and leave open what is right. */
static inline bool has_bare_errno(const char *text)
{
	static const int errors[] = { EINVAL, ERANGE, ENOSPC, EDQUOT, EBADF, ENOTTY, EBUSY };

	for (unsigned int i = 0; i < ARRAY_SIZE(errors); i++)
		if (strstr(text, strerror(errors[i])))
			return true;
	return false;
}

/* Parse one line strictly; NULL if it is not exactly one JSON document. */
static inline struct json_object *parse(const char *line, size_t length)
{
	struct json_tokener *tokener = json_tokener_new();
	struct json_object *object;

	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	object = json_tokener_parse_ex(tokener, line, length);
	if (json_tokener_get_error(tokener) != json_tokener_success ||
	    json_tokener_get_parse_end(tokener) != length) {
		json_object_put(object);
		object = NULL;
	}
	json_tokener_free(tokener);
	return object;
}

static inline bool ends_with(const char *text, const char *end)
{
	return strlen(text) >= strlen(end) && !strcmp(text + strlen(text) - strlen(end), end);
}

/* The manual's rule: what may be above 2^53, where many readers round, is a string. */
static inline bool is_exact(const char *key, struct json_object *value)
{
	const char *text = json_object_get_string(value);

	if (json_object_is_type(value, json_type_object)) {
		json_object_object_foreach(value, name, member)
			if (!is_exact(name, member))
				return false;
		return true;
	}
	if (json_object_is_type(value, json_type_array)) {
		for (size_t i = 0; i < json_object_array_length(value); i++)
			if (!is_exact(key, json_object_array_get_idx(value, i)))
				return false;
		return true;
	}
	if (!strcmp(key, "id") || !strcmp(key, "cookie"))
		return json_object_is_type(value, json_type_string) &&
		       !strncmp(text, "0x", 2) && strspn(text + 2, "0123456789abcdef") ==
		       strlen(text + 2);
	if (ends_with(key, "_ns") || !strcmp(key, "missed") || !strcmp(key, "span")) {
		text += *text == '-';
		return json_object_is_type(value, json_type_string) && *text &&
		       strspn(text, "0123456789.") == strlen(text);
	}
	return !json_object_is_type(value, json_type_double) &&
	       (!json_object_is_type(value, json_type_int) ||
		json_object_get_uint64(value) <= 1ULL << 53) &&
	       /* Its name must say so. */
	       strcmp(key, "ns");
}

static inline bool is_exact_json(const char *text)
{
	const char *end;

	for (; (end = strchr(text, '\n')); text = end + 1) {
		struct json_object *object = parse(text, end - text);
		const bool exact = object && is_exact("", object);

		json_object_put(object);
		if (!exact)
			return false;
	}
	return !*text;
}

/* The exit code, if the output is as all output has to be. */
static inline int judge(int code, bool json)
{
	if (!is_printable(out) || !is_printable(err))
		return NOT_PRINTABLE;
	if (json && !is_exact_json(out))
		return INEXACT_JSON;
	return has_bare_errno(err) ? BARE_ERRNO : code;
}

static inline bool asks_for_json(char * const argv[])
{
	for (; *argv; argv++)
		if (!strcmp(*argv, "--format=json"))
			return true;
	return false;
}

/* Run htwctl and return its exit code; its output is in @out and @err. */
static inline int __attribute__((format(printf, 2, 3)))
run_as(bool nobody, const char *format, ...)
{
	int to[2], errors[2], status = -1;
	struct pollfd fds[2];
	struct words words;
	size_t n = 0, e = 0;
	va_list args;
	pid_t pid;

	va_start(args, format);
	cut(&words, format, args);
	va_end(args);
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
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return judge(WEXITSTATUS(status), asks_for_json(words.argv));
}

#define run(...)		run_as(false, __VA_ARGS__)
#define run_as_nobody(...)	run_as(true, __VA_ARGS__)

static inline unsigned int count_lines(const char *text)
{
	unsigned int n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

/* Run htwctl trace with @options until it ends, calling @do_it repeatedly meanwhile. */
static inline int traced(const char *options, void (*do_it)(int fd), int fd)
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
	err[0] = '\0';
	close(file);
	unlink(name);
	return WIFEXITED(status) ? judge(WEXITSTATUS(status), asks_for_json(words.argv)) : -1;
}

/* Tracing instances of htwctl. */
static inline int instances(void)
{
	DIR *dir = opendir("/sys/kernel/tracing/instances");
	struct dirent *entry;
	int n = 0;

	while (dir && (entry = readdir(dir)))
		n += !strncmp(entry->d_name, "htwctl-", 7);
	if (dir)
		closedir(dir);
	return dir ? n : -1;
}

static inline void expire_one(int fd)
{
	struct htw_event ev;

	htw_start(fd, 0, 0xfeedULL << 32);
	htw_collect(fd, &ev, 1);
}

#endif /* HTWCTL_RUN_H */
