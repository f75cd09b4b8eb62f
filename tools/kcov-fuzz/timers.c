// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ioctls; struct call_type says what their arguments stand for
 */
#include <errno.h>
#include <string.h>

#include "../common/clock.h"
#include "../common/htw-client.h"
#include "../common/random.h"
#include "runs.h"
#include "scene.h"
#include "uring.h"

/* Entries of an array. */
#define ENTRIES_MOST	3000

/* A number of levels in the low bits, and of slots for each in the others. */
static void slots_of(__u64 arg, struct htw_setup_args *setup)
{
	static const __u32 slots[] = { 2, 8, 10, 60, 64, 256, 2048, 0 };

	setup->levels = arg & 15;
	for (unsigned int i = 0; i < HTW_MAX_LEVELS && i < setup->levels; i++)
		setup->slots[i] = slots[arg >> (4 + 3 * i) & 7];
}

long run_setup(const __u64 *a)
{
	static const __u64 ticks[] = { MSEC, 100 * USEC, 10 * USEC, SEC, 1, 3 * MSEC + 7, 0 };
	static const __u32 sizes[] = { 0, 0, 0, 0, 0, sizeof(struct htw_event), 40, 56 };
	struct htw_setup_args setup = {
		.flags = a[1], .limit = a[5], .event_size = sizes[a[6] % 8],
	};
	long ret;

	if (a[1] & HTW_SETUP_CLOCK)
		setup.clock = a[2];
	if (!(a[1] & HTW_SETUP_EXACT))
		setup.tick_ns = a[3] < 7 ? ticks[a[3]] : a[3];
	slots_of(a[4], &setup);
	ret = call_with(a[0], HTW_SETUP, a[7], &setup, sizeof(setup));
	if (!ret && a[1] & HTW_SETUP_CLOCK)
		scene.contexts[context_of(a[0])].clock = (__u32)setup.clock;
	return ret;
}

long run_info(const __u64 *a)
{
	struct htw_info_args info;
	long ret = call_with(a[0], HTW_INFO, a[1], &info, sizeof(info));

	if (!ret && buffer_is_good(a[1]) && info.timers > info.limit)
		wrong("%llu timers, limit %llu", info.timers, info.limit);
	return ret;
}

long run_add(const __u64 *a)
{
	struct htw_add_args add = {
		.deadline = time_of(a[0], a[1], a[5]), .interval = a[2], .slack = a[3],
		.cookie = a[4], .flags = a[5], .firings = a[6],
	};
	long ret = call_with(a[0], HTW_ADD, a[7], &add, sizeof(add));

	if (ret || !buffer_is_good(a[7]))
		return ret;
	if (!add.id || HTW_ID_IS_ERROR(add.id))
		wrong("id %llx", add.id);
	if (has_ended(a[0], add.id))
		wrong("id %llx is used again", add.id);
	note_id(a[0], add.id);
	return ret;
}

long run_cancel(const __u64 *a)
{
	struct htw_cancel_args cancel = { .id = id_of(a[1]), .flags = a[2] };
	__u64 id = cancel.id;
	long ret = call_with(a[0], HTW_CANCEL, a[3], &cancel, sizeof(cancel));

	if (!buffer_is_good(a[3]))
		return ret;
	check_id(a[0], id, ret);
	if (!ret)
		note_ended(a[0], id);
	return ret;
}

long run_mod(const __u64 *a)
{
	struct htw_mod_args mod = { .id = id_of(a[1]), .flags = a[6], .reserved = a[8] };
	long ret;

	if (a[6] & HTW_MOD_DEADLINE)
		mod.deadline = time_of(a[0], a[2], a[6]);
	if (a[6] & HTW_MOD_INTERVAL)
		mod.interval = a[3];
	if (a[6] & HTW_MOD_SLACK)
		mod.slack = a[4];
	if (a[6] & HTW_MOD_COOKIE)
		mod.cookie = a[5];
	if (a[6] & HTW_MOD_INTERVAL)
		mod.firings = a[7];
	ret = call_with(a[0], HTW_MOD, a[9], &mod, sizeof(mod));
	if (buffer_is_good(a[9]))
		check_id(a[0], mod.id, ret);
	return ret;
}

long run_query(const __u64 *a)
{
	struct htw_timer_info query = { .id = id_of(a[1]) };
	__u64 id = query.id;
	long ret = call_with(a[0], HTW_QUERY, a[2], &query, sizeof(query));

	if (!buffer_is_good(a[2]))
		return ret;
	check_id(a[0], id, ret);
	if (!ret)
		check_entry(a[0], &query);
	return ret;
}

/* Leave out what its operation does not take. */
static void fit(struct htw_vector_args *v)
{
	if (v->op == HTW_OP_ADD) {
		v->flags &= ADD_FLAGS;
		return;
	}
	v->flags &= v->op == HTW_OP_MOD ? MOD_FLAGS : 0;
	if (!(v->flags & HTW_MOD_INTERVAL)) {
		v->interval = 0;
		v->firings = 0;
	}
	if (!(v->flags & HTW_MOD_SLACK))
		v->slack = 0;
}

long run_vector(const __u64 *a)
{
	static __u64 ids[ENTRIES_MOST], times[ENTRIES_MOST], cookies[ENTRIES_MOST];
	__u32 count = a[2] < ENTRIES_MOST ? a[2] : ENTRIES_MOST;
	struct htw_vector_args v = {
		.op = a[1] % 8 ? 1 + a[1] % 3 : a[1], .count = a[2], .interval = a[4],
		.slack = a[5], .flags = a[6], .firings = a[7],
	};
	__u64 seed = a[3] | 1;
	const __u64 *done;
	long ret;

	/* As a rule only what goes with the operation. */
	if (a[3] & 6)
		fit(&v);
	for (__u32 i = 0; i < count; i++) {
		ids[i] = id_of(i & 63);
		times[i] = time_of(a[0], draw_time(&seed), a[6]);
		cookies[i] = i;
	}
	done = buffer_fill(&array_buffers[0], a[8], ids, count * sizeof(*ids));
	v.ids = (uintptr_t)done;
	if (v.op == HTW_OP_ADD || (v.op == HTW_OP_MOD && v.flags & HTW_MOD_DEADLINE))
		v.deadlines = (uintptr_t)buffer_fill(&array_buffers[1], a[9], times,
						     count * sizeof(*times));
	if ((v.op == HTW_OP_MOD && v.flags & HTW_MOD_COOKIE) || (v.op == HTW_OP_ADD && a[3] & 1))
		v.cookies = (uintptr_t)buffer_fill(&array_buffers[2], a[10], cookies,
						   count * sizeof(*cookies));
	ret = call_with(a[0], HTW_VECTOR, a[11], &v, sizeof(v));
	if (ret || !buffer_is_good(a[11]) || !buffer_is_good(a[8]))
		return ret;
	if (v.done > a[2] || v.failed > v.done)
		wrong("%u operations of %llu, %u failed", v.done, a[2], v.failed);
	for (__u32 i = 0; i < v.done && i < count && i < IDS; i++) {
		if (HTW_ID_IS_ERROR(done[i]))
			continue;
		if (v.op == HTW_OP_ADD)
			note_id(a[0], done[i]);
		else
			check_id(a[0], done[i], 0);
		if (v.op == HTW_OP_CANCEL)
			note_ended(a[0], done[i]);
	}
	return ret;
}

long run_cancel_all(const __u64 *a)
{
	struct htw_cancel_all_args all = { .flags = a[1], .reserved = a[2] };

	return call_with(a[0], HTW_CANCEL_ALL, a[3], &all, sizeof(all));
}

static long list_as(const __u64 *a, unsigned long command)
{
	static struct htw_timer_info entries[ENTRIES_MOST];
	__u32 count = a[1] < ENTRIES_MOST ? a[1] : ENTRIES_MOST;
	struct htw_list_args list = {
		.count = a[1], .cursor = a[2] == 1 ? scene.cursor : a[2], .flags = a[3],
		.reserved = a[4],
	};
	const struct htw_timer_info *done;
	long ret;

	done = buffer_fill(&array_buffers[0], a[5], entries, count * sizeof(*entries));
	list.entries = (uintptr_t)done;
	ret = call_with(a[0], command, a[6], &list, sizeof(list));
	if (ret || !buffer_is_good(a[6]))
		return ret;
	scene.cursor = list.cursor;
	if (list.done > a[1])
		wrong("%u entries of %llu", list.done, a[1]);
	for (__u32 i = 0; buffer_is_good(a[5]) && i < list.done && i < count; i++)
		check_entry(a[0], &done[i]);
	return ret;
}

long run_list(const __u64 *a)
{
	return list_as(a, HTW_LIST);
}

long run_harvest(const __u64 *a)
{
	return list_as(a, HTW_HARVEST);
}

long run_advance(const __u64 *a)
{
	struct htw_advance_args advance = { .ns = a[1], .flags = a[2] };

	return call_with(a[0], HTW_ADVANCE, a[3], &advance, sizeof(advance));
}

static const unsigned long commands[] = {
	HTW_SETUP, HTW_INFO, HTW_ADD, HTW_CANCEL, HTW_MOD, HTW_QUERY, HTW_VECTOR, HTW_CANCEL_ALL,
	HTW_LIST, HTW_HARVEST, HTW_ADVANCE,
};

/* A request of zeros that is larger than the kernel knows, perhaps with more than zeros there. */
long run_larger(const __u64 *a)
{
	const unsigned long command = commands[a[1] % 11];
	const size_t size = _IOC_SIZE(command) + 1 + a[2] % 64;
	__u64 request[32] = { 0 };
	void *at;
	long ret;

	((char *)request)[size - 1] = a[3] == 1;
	at = buffer_fill(&array_buffers[0], a[4], request, size);
	ret = uring_call(a[0], _IOC(_IOC_DIR(command), HTW_IOC, _IOC_NR(command), size), at,
			 buffer_is_good(a[4]) ? size : 0);
	if (!buffer_is_good(a[4]))
		return ret;
	memcpy(request, at, size);
	if ((ret == -E2BIG) != (a[3] == 1 && command != HTW_INFO))
		wrong("command %#lx with %zu bytes, the last one %llu, returned %ld", command, size,
		      a[3], ret);
	if (command == HTW_ADD && !ret)
		note_id(a[0], request[0]);
	return ret;
}

/* Commands that do not exist, or not with this size or direction. */
long run_ioctl(const __u64 *a)
{
	const __u32 command = HTW_IOC << 8 | (a[1] & 31) | (__u32)a[2] << 16;

	/* Of a command's direction, and no smaller, is a request that may have grown. */
	for (unsigned int i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		if (_IOC_NR(commands[i]) == _IOC_NR(command) &&
		    _IOC_DIR(commands[i]) == _IOC_DIR(command) &&
		    _IOC_SIZE(commands[i]) <= _IOC_SIZE(command))
			return SKIPPED;
	return htw_call(fd_of(a[0]), command, array_buffers[0].pages);
}
