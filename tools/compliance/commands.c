// SPDX-License-Identifier: GPL-2.0-only
/* Unknown command numbers */
#include <stdio.h>
#include "areas.h"
#include "subject.h"

static const struct {
	const char *name;
	unsigned long cmd;
	__u64 feature;
} commands[] = {
	{ "HTW_SETUP", HTW_SETUP, HTW_FEATURE_SETUP },
	{ "HTW_INFO", HTW_INFO, HTW_FEATURE_ADD },
	{ "HTW_ADD", HTW_ADD, HTW_FEATURE_ADD },
	{ "HTW_CANCEL", HTW_CANCEL, HTW_FEATURE_ADD },
	{ "HTW_MOD", HTW_MOD, HTW_FEATURE_MOD },
	{ "HTW_QUERY", HTW_QUERY, HTW_FEATURE_MOD },
	{ "HTW_BATCH", HTW_BATCH, HTW_FEATURE_ADD },
	{ "HTW_CANCEL_ALL", HTW_CANCEL_ALL, HTW_FEATURE_ALL },
	{ "HTW_LIST", HTW_LIST, HTW_FEATURE_ALL },
	{ "HTW_HARVEST", HTW_HARVEST, HTW_FEATURE_ALL },
	{ "HTW_ADVANCE", HTW_ADVANCE, HTW_FEATURE_MANUAL },
	{ "HTW_FLUSH", HTW_FLUSH, HTW_FEATURE_RING },
	{ "HTW_VECTOR", HTW_VECTOR, HTW_FEATURE_VECTOR },
	{ "HTW_NEXT", HTW_NEXT, HTW_FEATURE_NEXT },
};

static bool is_command(unsigned long cmd)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (commands[i].cmd == cmd)
			return true;
	}
	return false;
}

void check_commands(void)
{
	static const unsigned long directions[] = {
		_IOC_NONE, _IOC_READ, _IOC_WRITE, _IOC_READ | _IOC_WRITE,
	};
	static const unsigned int sizes[] = { 0, 1, 4, 8, 24, 64, 1024, _IOC_SIZEMASK };
	struct subject s = open_witnessed();
	char what[64];

	group("commands");
	begin("unknown numbers are ENOTTY");
	for (unsigned int nr = 0; nr < 256; nr++) {
		bool used = false;

		for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
			used |= _IOC_NR(commands[i].cmd) == nr;
		for (size_t d = 0; !used && d < ARRAY_SIZE(directions); d++) {
			snprintf(what, sizeof(what), "number %#x, direction %lu", nr,
				 directions[d]);
			is_unknown(&s, _IOC(directions[d], HTW_IOC, nr, 64), what);
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		const unsigned long cmd = commands[i].cmd;

		begin("%s with another direction is ENOTTY", commands[i].name);
		for (size_t d = 0; d < ARRAY_SIZE(directions); d++) {
			const unsigned long other = _IOC(directions[d], HTW_IOC, _IOC_NR(cmd),
							 _IOC_SIZE(cmd));

			snprintf(what, sizeof(what), "direction %lu", directions[d]);
			if (!is_command(other))
				is_unknown(&s, other, what);
		}
		begin("%s with another size is ENOTTY", commands[i].name);
		for (int near = -1; near <= 1; near += 2) {
			if (!_IOC_SIZE(cmd) && near < 0)
				continue;
			snprintf(what, sizeof(what), "size %d", (int)_IOC_SIZE(cmd) + near);
			is_unknown(&s, cmd + near * (1L << _IOC_SIZESHIFT), what);
		}
		for (size_t k = 0; k < ARRAY_SIZE(sizes); k++) {
			const unsigned long other = _IOC(_IOC_DIR(cmd), HTW_IOC, _IOC_NR(cmd),
							 sizes[k]);

			snprintf(what, sizeof(what), "size %u", sizes[k]);
			if (!is_command(other))
				is_unknown(&s, other, what);
		}
		begin("%s with another magic is ENOTTY", commands[i].name);
		is_unknown(&s, cmd ^ (0x0f << _IOC_TYPESHIFT), "magic 0xf6");
	}
	close_subject(&s);
}
