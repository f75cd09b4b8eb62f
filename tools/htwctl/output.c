// SPDX-License-Identifier: GPL-2.0-only
/*
 * JSON, messages, and exit codes for errors
 *
 * The functions of json-c fail only without memory. Nothing useful can be
 * printed then, so the wrappers exit.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "htwctl.h"

int exit_code_of(int err)
{
	switch (err) {
	case 0:
		return HTWCTL_OK;
	case ENODEV:
	case ENXIO:
		return HTWCTL_NO_DEVICE;
	case EACCES:
	case EPERM:
		return HTWCTL_DENIED;
	case ENOENT:
	case ESRCH:
	case EBADF:
		return HTWCTL_NOT_FOUND;
	case ENOSPC:
	case EDQUOT:
	case ENOMEM:
	case EMFILE:
	case ENFILE:
		return HTWCTL_LIMIT;
	case ENOTTY:
	case ENOSYS:
	case EOPNOTSUPP:
		return HTWCTL_UNSUPPORTED;
	default:
		return HTWCTL_FAILED;
	}
}

static void say(const char *format, va_list args)
{
	/* Keep the order of output if both streams go to the same file. */
	fflush(stdout);
	fputs("htwctl: ", stderr);
	vfprintf(stderr, format, args);
}

/* Print what failed and why; return the exit code for the errno @err. */
int fail(int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
	fprintf(stderr, ": %s\n", strerror(err));
	return exit_code_of(err);
}

/* Print what is wrong, for errors without an errno; return @code. */
int fail_with(int code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
	fputc('\n', stderr);
	return code;
}

static void *checked(void *object)
{
	if (!object) {
		fputs("htwctl: out of memory\n", stderr);
		exit(HTWCTL_LIMIT);
	}
	return object;
}

struct json_object *json_new(void)
{
	return checked(json_object_new_object());
}

struct json_object *json_new_array(void)
{
	return checked(json_object_new_array());
}

void json_add(struct json_object *to, const char *key, struct json_object *value)
{
	if (json_object_object_add(to, key, value))
		checked(NULL);
}

void json_append(struct json_object *to, struct json_object *value)
{
	if (json_object_array_add(to, value))
		checked(NULL);
}

/*
 * Many JSON readers round numbers above 2^53. What may be above is a string,
 * always: times in ns, whose names end with _ns, and these. Everything else
 * counts timers, calls and CPUs.
 */
static bool may_be_rounded(const char *key)
{
	const size_t length = strlen(key);

	return (length > 3 && !strcmp(key + length - 3, "_ns")) || !strcmp(key, "missed") ||
	       !strcmp(key, "span");
}

void json_add_u64(struct json_object *to, const char *key, uint64_t value)
{
	char text[24];

	if (!may_be_rounded(key)) {
		json_add(to, key, checked(json_object_new_uint64(value)));
		return;
	}
	snprintf(text, sizeof(text), "%" PRIu64, value);
	json_add_str(to, key, text);
}

void json_add_i64(struct json_object *to, const char *key, int64_t value)
{
	char text[24];

	if (!may_be_rounded(key)) {
		json_add(to, key, checked(json_object_new_int64(value)));
		return;
	}
	snprintf(text, sizeof(text), "%" PRId64, value);
	json_add_str(to, key, text);
}

void json_add_bool(struct json_object *to, const char *key, bool value)
{
	json_add(to, key, checked(json_object_new_boolean(value)));
}

/* Ids and cookies are always strings, too. */
void json_add_hex(struct json_object *to, const char *key, uint64_t value)
{
	json_add_str(to, key, show_hex(value));
}

void json_add_str(struct json_object *to, const char *key, const char *value)
{
	json_add(to, key, checked(json_object_new_string(value)));
}

void json_append_str(struct json_object *to, const char *value)
{
	json_append(to, checked(json_object_new_string(value)));
}

void json_append_u64(struct json_object *to, uint64_t value)
{
	json_append(to, checked(json_object_new_uint64(value)));
}

/* Print @object on a line of its own, flush, and free it. */
void json_print(struct json_object *object)
{
	puts(checked((void *)json_object_to_json_string_ext(object,
							    JSON_C_TO_STRING_PLAIN |
							    JSON_C_TO_STRING_NOSLASHESCAPE)));
	fflush(stdout);
	json_object_put(object);
}

/*
 * Whether nobody reads what is printed: the pipe's other end is closed, or the
 * terminal is gone. Asked before events are taken, and by what would otherwise
 * go on until there is something to print.
 */
bool output_lost(void)
{
	struct pollfd out = { .fd = STDOUT_FILENO };

	return poll(&out, 1, 0) > 0 && out.revents & (POLLERR | POLLHUP);
}

/* End as if it had been printed: by SIGPIPE or, if that is ignored, as a failure. */
int end_without_output(void)
{
	raise(SIGPIPE);
	return fail(EPIPE, "cannot write the output");
}

/*
 * At the end of the program, on_exit(): output that could not be written is a
 * failure, even if all else succeeded.
 */
void check_output(int code, void *unused)
{
	/* An error of an earlier call, whose errno is gone. */
	const bool failed = ferror(stdout);
	const int err = fflush(stdout) ? errno : 0;

	(void)unused;
	if (code != HTWCTL_OK || !(err || failed))
		return;
	if (err)
		fail(err, "cannot write the output");
	else
		fail_with(HTWCTL_FAILED, "cannot write the output");
	_exit(HTWCTL_FAILED);
}
