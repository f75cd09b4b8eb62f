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

/* Entries of an array. */
#define ENTRIES_MOST	3000

/* A number of levels in the low bits, and of slots for each in the others. */
static void slots_of(__u64 arg, struct htw_setup *setup)
{
	static const __u32 slots[] = { 2, 8, 10, 60, 64, 256, 2048, 0 };

	setup->levels = arg & 15;
	for (unsigned int i = 0; i < HTW_MAX_LEVELS && i < setup->levels; i++)
		setup->slots[i] = slots[arg >> (4 + 3 * i) & 7];
}

long run_setup(const __u64 *a)
{
	static const __u64 ticks[] = { MSEC, 100 * USEC, 10 * USEC, SEC, 1, 3 * MSEC + 7, 0 };
	struct htw_setup setup = { .flags = a[1], .reserved = { [1] = a[8] } };
	long ret;

	if (a[1] & HTW_SETUP_CLOCK)
		setup.clock = a[2];
	if (a[1] & HTW_SETUP_PRIVATE) {
		setup.tick_ns = a[3] < 7 ? ticks[a[3]] : a[3];
		slots_of(a[4], &setup);
	}
	if (a[1] & HTW_SETUP_LIMIT)
		setup.limit = a[5];
	if (a[1] & HTW_SETUP_HOME)
		setup.home_cpu = (int)(a[6] % 4) - 1;
	if (a[1] & HTW_SETUP_RING)
		setup.ring_entries = a[7] & 31 ? 1U << (a[7] & 15) : a[7];
	ret = call_with(a[0], HTW_SETUP, a[9], &setup, sizeof(setup));
	if (ret)
		return ret;
	/* Of what was set up from a mapped structure nothing is known: no event is checked. */
	if (a[1] & HTW_SETUP_CLOCK || a[9] == BUFFER_MAPPED)
		scene.contexts[context_of(a[0])].clock =
			a[9] == BUFFER_MAPPED ? HTW_CLOCK_MANUAL : (__u32)setup.clock;
	if (a[1] & HTW_SETUP_RING)
		scene.contexts[context_of(a[0])].ring_entries = setup.ring_entries;
	return 0;
}

long run_info(const __u64 *a)
{
	struct htw_info info;
	long ret = call_with(a[0], HTW_INFO, a[1], &info, sizeof(info));

	if (!ret && buffer_is_good(a[1]) &&
	    (info.expired > info.timers || info.timers > info.limit))
		wrong("%llu timers, %llu expired, limit %llu", info.timers, info.expired,
		      info.limit);
	return ret;
}

long run_add(const __u64 *a)
{
	struct htw_add add = {
		.deadline = time_of(a[0], a[1], a[5]), .interval = a[2], .slack = a[3],
		.cookie = a[4], .flags = a[5], .firings = a[6], .reserved = a[7],
	};
	long ret = call_with(a[0], HTW_ADD, a[8], &add, sizeof(add));

	if (ret || !buffer_is_good(a[8]))
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
	struct htw_cancel cancel = {
		.id = id_of(a[1]), .flags = a[2], .reserved = { [1] = a[3] },
	};
	__u64 id = cancel.id;
	long ret = call_with(a[0], HTW_CANCEL, a[4], &cancel, sizeof(cancel));

	if (!buffer_is_good(a[4]))
		return ret;
	check_id(a[0], id, ret);
	if (!ret)
		note_ended(a[0], id);
	return ret;
}

long run_mod(const __u64 *a)
{
	struct htw_mod mod = { .id = id_of(a[1]), .flags = a[6], .reserved = a[8] };
	long ret;

	if (a[6] & (HTW_MOD_DEADLINE | HTW_MOD_UNREAD))
		mod.deadline = time_of(a[0], a[2], a[6] | (a[6] & HTW_MOD_UNREAD ? HTW_F_ABS : 0));
	if (a[6] & HTW_MOD_INTERVAL)
		mod.interval = a[3];
	if (a[6] & HTW_MOD_SLACK)
		mod.slack = a[4];
	if (a[6] & HTW_MOD_COOKIE)
		mod.cookie = a[5];
	if (a[6] & (HTW_MOD_INTERVAL | HTW_MOD_UNREAD))
		mod.firings = a[7];
	ret = call_with(a[0], HTW_MOD, a[9], &mod, sizeof(mod));
	if (buffer_is_good(a[9]))
		check_id(a[0], mod.id, ret);
	return ret;
}

long run_query(const __u64 *a)
{
	struct htw_query query = { .id = id_of(a[1]), .cookie = a[2] };
	__u64 id = query.id;
	long ret = call_with(a[0], HTW_QUERY, a[3], &query, sizeof(query));

	if (!buffer_is_good(a[3]))
		return ret;
	check_id(a[0], id, ret);
	if (!ret)
		check_entry(a[0], &query);
	return ret;
}

long run_next(const __u64 *a)
{
	struct htw_next next = { .flags = a[1], .reserved = a[2] };
	long ret = call_with(a[0], HTW_NEXT, a[3], &next, sizeof(next));

	if (!ret && buffer_is_good(a[3]))
		check_entry(a[0], &next.timer);
	return ret;
}

static void draw_op(__u64 fd, struct htw_op *op, __u64 *seed)
{
	__u64 id = id_of(one_in(seed, 16) ? xorshift64(seed) & 0x7ff : xorshift64(seed) & 63);

	*op = (struct htw_op){ .op = 1 + (xorshift64(seed) >> 8) % (one_in(seed, 16) ? 6 : 4) };
	switch (op->op) {
	case HTW_OP_ADD:
		op->add.flags = draw_flags(seed, ADD_FLAGS);
		op->add.deadline = time_of(fd, draw_time(seed), op->add.flags);
		if (one_in(seed, 3))
			op->add.interval = one_in(seed, 4) ? draw_time(seed) : MSEC;
		if (one_in(seed, 4))
			op->add.slack = draw_time(seed);
		break;
	case HTW_OP_CANCEL:
		op->cancel.id = id;
		op->cancel.flags = draw_flags(seed, HTW_CANCEL_DISCARD);
		break;
	case HTW_OP_MOD:
		op->mod.id = id;
		op->mod.flags = one_in(seed, 2) ? draw_flags(seed, MOD_FLAGS) : HTW_MOD_DEADLINE;
		if (op->mod.flags & HTW_MOD_DEADLINE)
			op->mod.deadline = time_of(fd, draw_time(seed), op->mod.flags);
		break;
	default:
		op->query.id = id;
	}
}

long run_batch(const __u64 *a)
{
	static struct htw_op ops[ENTRIES_MOST];
	__u64 seed = a[2] | 1;
	struct htw_batch batch = { .count = a[1], .flags = a[3], .reserved = a[4] };
	__u32 count = a[1] < ENTRIES_MOST ? a[1] : ENTRIES_MOST;
	const struct htw_op *done;
	long ret;

	for (__u32 i = 0; i < count; i++)
		draw_op(a[0], &ops[i], &seed);
	done = buffer_fill(&array_buffers[0], a[5], ops, count * sizeof(*ops), mapped());
	batch.ops = (uintptr_t)done;
	ret = call_with(a[0], HTW_BATCH, a[6], &batch, sizeof(batch));
	if (ret || !buffer_is_good(a[6]) || !buffer_is_good(a[5]))
		return ret;
	if (batch.done > a[1])
		wrong("%u operations of %llu", batch.done, a[1]);
	for (__u32 i = 0; i < batch.done && i < count; i++)
		if (done[i].op == HTW_OP_ADD && !done[i].result)
			note_id(a[0], done[i].add.id);
	return ret;
}

/* Leave out what its operation does not take. */
static void fit(struct htw_vector *v)
{
	if (v->op == HTW_OP_ADD) {
		v->flags &= ADD_FLAGS;
		return;
	}
	v->flags &= v->op == HTW_OP_MOD ? MOD_FLAGS & ~HTW_MOD_UNREAD : HTW_CANCEL_DISCARD;
	if (v->op != HTW_OP_MOD || !(v->flags & HTW_MOD_INTERVAL))
		v->interval = 0;
	if (v->op != HTW_OP_MOD || !(v->flags & HTW_MOD_SLACK))
		v->slack = 0;
}

long run_vector(const __u64 *a)
{
	static __u64 ids[ENTRIES_MOST], times[ENTRIES_MOST], cookies[ENTRIES_MOST];
	__u32 count = a[2] < ENTRIES_MOST ? a[2] : ENTRIES_MOST;
	struct htw_vector v = {
		.op = a[1] % 8 ? 1 + a[1] % 3 : a[1], .count = a[2], .interval = a[4],
		.slack = a[5], .flags = a[6], .reserved = a[7],
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
	done = buffer_fill(&array_buffers[0], a[8], ids, count * sizeof(*ids), mapped());
	v.ids = (uintptr_t)done;
	if (v.op == HTW_OP_ADD || (v.op == HTW_OP_MOD && v.flags & HTW_MOD_DEADLINE))
		v.deadlines = (uintptr_t)buffer_fill(&array_buffers[1], a[9], times,
						     count * sizeof(*times), mapped());
	if ((v.op == HTW_OP_MOD && v.flags & HTW_MOD_COOKIE) || (v.op == HTW_OP_ADD && a[3] & 1))
		v.cookies = (uintptr_t)buffer_fill(&array_buffers[2], a[10], cookies,
						   count * sizeof(*cookies), mapped());
	ret = call_with(a[0], HTW_VECTOR, a[11], &v, sizeof(v));
	if (ret || !buffer_is_good(a[11]) || !buffer_is_good(a[8]))
		return ret;
	if (v.done > a[2] || v.failed > v.done)
		wrong("%u operations of %llu, %u failed", v.done, a[2], v.failed);
	for (__u32 i = 0; v.op == HTW_OP_ADD && i < v.done && i < count && i < IDS; i++)
		if (!HTW_ID_IS_ERROR(done[i]))
			note_id(a[0], done[i]);
	return ret;
}

long run_cancel_all(const __u64 *a)
{
	struct htw_cancel_all all = { .flags = a[1], .reserved = { a[2] } };

	return call_with(a[0], HTW_CANCEL_ALL, a[3], &all, sizeof(all));
}

static long list_as(const __u64 *a, unsigned long command)
{
	static struct htw_query entries[ENTRIES_MOST];
	__u32 count = a[1] < ENTRIES_MOST ? a[1] : ENTRIES_MOST;
	struct htw_list list = {
		.count = a[1], .cursor = a[2] == 1 ? scene.cursor : a[2], .flags = a[3],
		.reserved = { [1] = a[4] },
	};
	const struct htw_query *done;
	long ret;

	done = buffer_fill(&array_buffers[0], a[5], entries, count * sizeof(*entries), mapped());
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
	struct htw_advance advance = { .ns = a[1], .flags = a[2], .reserved = a[3] };

	return call_with(a[0], HTW_ADVANCE, a[4], &advance, sizeof(advance));
}

long run_flush(const __u64 *a)
{
	return htw_call(fd_of(a[0]), HTW_FLUSH, (void *)a[1]);
}

/* Commands that do not exist, or not with this size or direction. */
long run_ioctl(const __u64 *a)
{
	static const unsigned long known[] = {
		HTW_SETUP, HTW_INFO, HTW_ADD, HTW_CANCEL, HTW_MOD, HTW_QUERY, HTW_BATCH,
		HTW_CANCEL_ALL, HTW_LIST, HTW_HARVEST, HTW_ADVANCE, HTW_FLUSH, HTW_VECTOR, HTW_NEXT,
	};
	__u32 command = HTW_IOC << 8 | (a[1] & 31) | (__u32)a[2] << 16;

	for (unsigned int i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (known[i] == command)
			return SKIPPED;
	return htw_call(fd_of(a[0]), command, array_buffers[0].pages);
}
