// SPDX-License-Identifier: GPL-2.0-only
/*
 * htwctl info: the module, and the settings of a context
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "htwctl.h"

/* Range of the levels in ns; later timers wait beyond the levels. */
static uint64_t reach(const struct htw_info_args *info)
{
	uint64_t ns = info->tick_ns;

	for (unsigned int l = 0; l < info->levels; l++)
		if (__builtin_mul_overflow(ns, info->slots[l], &ns))
			return UINT64_MAX;
	return ns;
}

static void add_parameter(const char *name, const char *value, void *arg)
{
	if (field_is_number(value))
		json_add_u64(arg, name, strtoull(value, NULL, 10));
	else
		json_add_str(arg, name, value);
}

static void print_parameter(const char *name, const char *value, void *arg)
{
	(void)arg;
	printf("parameter  %s=%s\n", name, value);
}

static void print_json(const struct htw_info_args *info)
{
	struct json_object *root = json_new(), *array;
	char value[128];

	json_add_str(root, "htwctl_version", HTW_VERSION);
	if (read_module_file("version", value, sizeof(value)))
		json_add_str(root, "module_version", value);
	array = json_new_array();
	for (unsigned int bit = 0; bit < 64; bit++)
		if (info->features >> bit & 1)
			json_append_str(array, feature_name(bit));
	json_add(root, "features", array);
	json_add_str(root, "clock", show_clock(info->clock));
	json_add_u64(root, "tick_ns", info->tick_ns);
	array = json_new_array();
	for (unsigned int l = 0; l < info->levels; l++)
		json_append_u64(array, info->slots[l]);
	json_add(root, "slots", array);
	json_add_u64(root, "reach_ns", reach(info));
	json_add_bool(root, "ordered", info->flags & HTW_SETUP_ORDERED);
	json_add_u64(root, "event_size", info->event_size);
	json_add_u64(root, "limit", info->limit);
	json_add_u64(root, "timers", info->timers);
	json_add_u64(root, "bytes", info->bytes);
	/* Both are absent if there is none. */
	if (info->user_limit != UINT64_MAX)
		json_add_u64(root, "user_limit", info->user_limit);
	json_add_u64(root, "user_timers", info->user_timers);
	if (info->next != UINT64_MAX)
		json_add_u64(root, "next_ns", info->next);
	array = json_new();
	each_parameter(add_parameter, array);
	json_add(root, "parameters", array);
	json_print(root);
}

static void print_text(const struct htw_info_args *info)
{
	char value[128];

	if (read_module_file("version", value, sizeof(value)))
		printf("module     htw %s\n", value);
	printf("features   %s\n", show_features(info->features, " "));
	printf("clock      %s\n", show_clock(info->clock));
	printf("tick       %s%s\n", show_duration(info->tick_ns),
	       info->flags & HTW_SETUP_ORDERED ? ", ordered" : "");
	printf("geometry   %s, range %s\n", show_slots(info->slots, info->levels),
	       show_duration(reach(info)));
	printf("timers     %s of %s, %s bytes\n", show_grouped(info->timers),
	       show_grouped(info->limit), show_grouped(info->bytes));
	printf("user       has memory for %s timers", show_grouped(info->user_timers));
	if (info->user_limit != UINT64_MAX)
		printf(" of %s", show_grouped(info->user_limit));
	putchar('\n');
	each_parameter(print_parameter, NULL);
}

int cmd_info(int argc, char **argv)
{
	static const struct argp_child children[] = {
		{ &target_argp, 0, NULL, 0 }, { &format_argp, 0, NULL, 0 },
		{ &help_argp, 0, NULL, 0 }, { 0 }
	};
	static const struct argp argp = {
		.doc = "Show the module's version, features and parameters, and a context's "
		       "clock, tick, geometry and limit: those of a new context, or of the one "
		       "chosen with --pid and --fd.\v"
		       "Examples:\n"
		       "  htwctl info\n"
		       "  htwctl info --pid 4711 --fd 5 --format=json\n",
		.children = children,
	};
	struct htw_info_args info;
	int fd, code, err;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	fd = open_target(&code);
	if (fd < 0)
		return code;
	err = get_info(fd, &info);
	if (err)
		return call_failed(err, "reading", "cannot read the context's settings");
	if (opt.json)
		print_json(&info);
	else
		print_text(&info);
	return HTWCTL_OK;
}
