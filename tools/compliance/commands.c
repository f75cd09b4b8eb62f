// SPDX-License-Identifier: GPL-2.0-only
/* Command numbers, access modes, and structures of a newer header */
#include <stdio.h>
#include "areas.h"
#include "subject.h"

static const struct {
	const char *name;
	unsigned long cmd;
	int mode;
} commands[] = {
	{ "HTW_SETUP", HTW_SETUP, O_WRONLY },
	{ "HTW_INFO", HTW_INFO, O_RDONLY },
	{ "HTW_ADD", HTW_ADD, O_WRONLY },
	{ "HTW_CANCEL", HTW_CANCEL, O_WRONLY },
	{ "HTW_MOD", HTW_MOD, O_WRONLY },
	{ "HTW_QUERY", HTW_QUERY, O_RDONLY },
	{ "HTW_VECTOR", HTW_VECTOR, O_WRONLY },
	{ "HTW_CANCEL_ALL", HTW_CANCEL_ALL, O_WRONLY },
	{ "HTW_LIST", HTW_LIST, O_RDONLY },
	{ "HTW_HARVEST", HTW_HARVEST, O_WRONLY },
	{ "HTW_ADVANCE", HTW_ADVANCE, O_WRONLY },
};

/* Room for the argument of any number. */
static unsigned char large[1 << _IOC_SIZEBITS];

static unsigned long resized(unsigned long cmd, unsigned int size)
{
	return _IOC(_IOC_DIR(cmd), _IOC_TYPE(cmd), _IOC_NR(cmd), size);
}

static void check_numbers(struct subject *s)
{
	static const unsigned long directions[] = {
		_IOC_NONE, _IOC_READ, _IOC_WRITE, _IOC_READ | _IOC_WRITE,
	};
	char what[64];

	begin("unknown numbers are ENOTTY");
	for (unsigned int nr = 0; nr < 256; nr++) {
		bool used = false;

		for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
			used |= _IOC_NR(commands[i].cmd) == nr;
		for (size_t d = 0; !used && d < ARRAY_SIZE(directions); d++) {
			snprintf(what, sizeof(what), "number %#x, direction %lu", nr,
				 directions[d]);
			is_unknown(s, _IOC(directions[d], HTW_IOC, nr, 64), what);
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		const unsigned long cmd = commands[i].cmd;
		const unsigned int size = _IOC_SIZE(cmd);
		const unsigned int smaller[] = { 0, 1, 4, 8, 24, size - 8, size - 1 };

		begin("%s with another direction is ENOTTY", commands[i].name);
		for (size_t d = 0; d < ARRAY_SIZE(directions); d++) {
			if (directions[d] == _IOC_DIR(cmd))
				continue;
			snprintf(what, sizeof(what), "direction %lu", directions[d]);
			is_unknown(s, _IOC(directions[d], HTW_IOC, _IOC_NR(cmd), size), what);
			is_unknown(s, _IOC(directions[d], HTW_IOC, _IOC_NR(cmd), size + 8), what);
		}
		begin("%s with a smaller size is ENOTTY", commands[i].name);
		for (size_t k = 0; k < ARRAY_SIZE(smaller); k++) {
			if (smaller[k] >= size)
				continue;
			snprintf(what, sizeof(what), "size %u", smaller[k]);
			is_unknown(s, resized(cmd, smaller[k]), what);
		}
		begin("%s with another magic is ENOTTY", commands[i].name);
		is_unknown(s, cmd ^ (0x0f << _IOC_TYPESHIFT), "magic 0xf6");
	}
}

/* E2BIG, and the argument is not written to. */
static void is_too_big(struct subject *s, unsigned long cmd, size_t from, const char *what)
{
	memset(large, 0, sizeof(large));
	memset(large, 0xa5, _IOC_SIZE(cmd) - from);
	large[_IOC_SIZE(cmd) - 1] = 1;
	remember(s);
	expect_result(what, -E2BIG, htw_call(s->fd, cmd, large));
	expect(large[0] == 0xa5, "%s: the argument was written to", what);
	expect_same_state(s, what);
}

static void check_growth(struct subject *s)
{
	static const unsigned int more[] = { 1, 8, 512 };
	struct htw_add_args add = valid_add();

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		const unsigned long cmd = commands[i].cmd;
		const unsigned int size = _IOC_SIZE(cmd);

		if (!(_IOC_DIR(cmd) & _IOC_WRITE))
			continue;
		begin("%s with a larger structure is E2BIG unless the rest is zero",
		      commands[i].name);
		for (size_t k = 0; k < ARRAY_SIZE(more); k++)
			is_too_big(s, resized(cmd, size + more[k]), more[k], "one byte is set");
		is_too_big(s, resized(cmd, _IOC_SIZEMASK), _IOC_SIZEMASK - size,
			   "the last byte of the largest is set");
	}

	begin("HTW_ADD with a larger structure and zeros behind");
	for (size_t k = 0; k < ARRAY_SIZE(more); k++) {
		memset(large, 0, sizeof(large));
		memcpy(large, &add, sizeof(add));
		expect_result("the call", 0,
			      htw_call(s->fd, resized(HTW_ADD, sizeof(add) + more[k]), large));
		expect_result("HTW_CANCEL", 0, stop(s, ((struct htw_add_args *)large)->id));
	}

	begin("HTW_INFO with a larger structure writes zeros behind");
	for (size_t k = 0; k < ARRAY_SIZE(more); k++) {
		const size_t size = sizeof(struct htw_info_args), whole = size + more[k];
		bool zero = true;

		memset(large, 0xa5, sizeof(large));
		expect_result("the call", 0, htw_call(s->fd, resized(HTW_INFO, whole), large));
		for (size_t i = size; i < whole; i++)
			zero &= !large[i];
		expect(zero, "not all is zero with %u bytes more", more[k]);
		expect_number("the byte behind it", 0xa5, large[whole]);
		expect_number("limit", s->info.limit, ((struct htw_info_args *)large)->limit);
	}
}

static void check_modes(void)
{
	const int fds[] = {
		[O_RDONLY] = open_device(O_RDONLY), [O_WRONLY] = open_device(O_WRONLY),
	};
	struct htw_add_args add = valid_add();
	struct htw_info_args info;
	struct htw_event ev;

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		const bool writes = commands[i].mode == O_WRONLY;

		begin("%s is EBADF on a descriptor that is only for %s", commands[i].name,
		      writes ? "reading" : "writing");
		memset(large, 0xa5, sizeof(large));
		expect_result("the call", -EBADF,
			      htw_call(fds[writes ? O_RDONLY : O_WRONLY], commands[i].cmd, large));
		for (size_t k = 0; k < _IOC_SIZE(commands[i].cmd); k++)
			expect(large[k] == 0xa5, "byte %zu of the argument was written to", k);
	}
	begin("read() is EBADF on a descriptor that is only for writing");
	expect_result("read()", -EBADF, htw_read(fds[O_WRONLY], &ev, 1));
	begin("one that is only for reading reads and reports");
	expect_result("HTW_INFO", 0, htw_call(fds[O_RDONLY], HTW_INFO, &info));
	expect_result("read()", -EAGAIN, htw_read(fds[O_RDONLY], &ev, 1));
	begin("one that is only for writing starts and cancels timers");
	expect_result("HTW_ADD", 0, htw_call(fds[O_WRONLY], HTW_ADD, &add));
	expect_result("HTW_CANCEL", 0, htw_stop(fds[O_WRONLY], add.id));
	end();
	close(fds[O_RDONLY]);
	close(fds[O_WRONLY]);
}

void check_commands(void)
{
	struct subject s = open_witnessed();

	group("commands");
	remember(&s);
	check_numbers(&s);
	check_growth(&s);
	close_subject(&s);
	check_modes();
}
