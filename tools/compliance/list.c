// SPDX-License-Identifier: GPL-2.0-only
/* HTW_LIST and HTW_HARVEST */
#include "areas.h"
#include "subject.h"

static const struct call calls[] = {
	{ "HTW_LIST", HTW_LIST, 0, sizeof(struct htw_list_args) },
	{ "HTW_HARVEST", HTW_HARVEST, 0, sizeof(struct htw_list_args) },
};

/* Page through @count timers, @room at a time. */
static void check_pages(struct subject *s, const struct call *call, const __u64 *ids,
			unsigned int count, unsigned int room)
{
	struct htw_timer_info entries[room + 1], asked[count];
	unsigned int seen[256] = { 0 }, calls = 0;
	struct htw_list_args list = htw_list_of(entries, room), before;

	for (unsigned int i = 0; i < count; i++)
		asked[i] = query_of(s, ids[i]);
	do {
		memset(entries, 0xa5, sizeof(entries));
		before = list;
		before.done = list.done = POISON32;
		if (!expect_result("the call", 0, htw_call(s->fd, call->cmd, &list)))
			return;
		before.cursor = list.cursor;
		before.done = list.done;
		expect(!memcmp(&before, &list, sizeof(list)),
		       "more than cursor and done was written");
		if (!expect(list.done <= room, "done is %u", list.done))
			return;
		for (unsigned int n = 0; n < list.done; n++) {
			for (unsigned int i = 0; i < count; i++) {
				if (ids[i] != entries[n].id)
					continue;
				seen[i]++;
				expect(!memcmp(&entries[n], &asked[i], sizeof(*asked)),
				       "an entry differs from HTW_QUERY");
			}
		}
		expect(entries[room].id == POISON, "written behind the array");
	} while (list.done && calls++ < 10 * count);
	for (unsigned int i = 0; i < count; i++)
		expect_number("how often a timer was listed", 1, seen[i]);
	expect_number("done at the end", 0, list.done);
}

/* What is reported with these flags: each of @ids whose bit is set in @expected, once. */
static void check_states(struct subject *s, const struct call *call, __u32 flags,
			 const __u64 *ids, unsigned int expected)
{
	struct htw_timer_info entries[5];
	struct htw_list_args list = htw_list_of(entries, ARRAY_SIZE(entries));
	unsigned int seen = 0;

	list.flags = flags;
	if (!expect_result("the call", 0, htw_call(s->fd, call->cmd, &list)))
		return;
	for (unsigned int n = 0; n < list.done && n < ARRAY_SIZE(entries); n++) {
		for (unsigned int i = 0; i < 3; i++) {
			if (entries[n].id == ids[i])
				seen |= 1 << i;
		}
	}
	expect_number("done", __builtin_popcount(expected), list.done);
	expect(seen == expected, "flags %u: timers %#x, expected %#x", flags, seen, expected);
	for (unsigned int i = 0; i < 3; i++) {
		const bool ended = call->cmd == HTW_HARVEST && expected >> i & 1;

		expect_number("state then", ended ? 0 : i + 1, state_of(s, ids[i]));
	}
}

static void check_list_states(const struct call *call)
{
	struct htw_event ev[2];

	for (__u32 flags = 0; flags < 8; flags++) {
		struct subject s = open_subject();
		__u64 ids[3];

		/* In the order of enum htw_state and of enum htw_list_flag. */
		ids[2] = start_due(&s, (struct htw_add_args){ .deadline = 1, .flags = HTW_F_KEEP });
		begin("flags %u: timers in these states%s", flags, flags ? "" : ", zero for all");
		expect_result("read()", 1, get(&s, ev, 2));
		ids[1] = start_due(&s, (struct htw_add_args){ .deadline = 1 });
		ids[0] = start(&s, 0);
		check_states(&s, call, flags, ids, flags ? flags : 7);
		if (call->cmd == HTW_HARVEST)
			expect_result("read()", (flags ? flags : 7) & HTW_LIST_DUE ? -EAGAIN : 1,
				      get(&s, ev, 2));
		close_subject(&s);
	}
}

/* EFAULT; no timer is lost, and the cursor stays. */
static void expect_unwritable(struct subject *s, const struct call *call, const void *entries,
			      const char *what)
{
	struct htw_list_args list = htw_list_of(entries, 1);

	remember(s);
	expect_result(what, -EFAULT, htw_call(s->fd, call->cmd, &list));
	expect_number("cursor", 0, list.cursor);
	expect_same_state(s, what);
}

static void check_list_by(const struct call *call)
{
	const bool harvest = call->cmd == HTW_HARVEST;
	static const unsigned int rooms[] = { 1, 7, 63, 200 };
	struct htw_timer_info entries[4], *last;
	struct subject s = open_subject();
	struct htw_list_args list, valid;
	__u64 ids[150];

	group(call->name);
	for (size_t r = 0; r < ARRAY_SIZE(rooms); r++) {
		begin("all timers, each once, %u at a time", rooms[r]);
		for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
			ids[i] = started(&s, (struct htw_add_args){
				.deadline = HOUR + i * SEC, .cookie = i,
				.interval = i % 2 ? HOUR : 0 });
		check_pages(&s, call, ids, ARRAY_SIZE(ids), rooms[r]);
		expect_number("timers then", harvest ? 0 : ARRAY_SIZE(ids), info_of(&s).timers);
		for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
			expect_result("HTW_CANCEL", harvest ? -ENOENT : 0, stop(&s, ids[i]));
	}
	close_subject(&s);
	check_list_states(call);

	begin("on a new descriptor: done is zero");
	s = open_fresh();
	list = htw_list_of(entries, 4);
	expect_result("the call", 0, htw_call(s.fd, call->cmd, &list));
	expect_number("done", 0, list.done);
	close_subject(&s);

	s = open_witnessed();
	begin("cursor: past the end there is nothing, and beyond 32 bits EINVAL");
	for (unsigned int bit = 16; bit < 64; bit++) {
		int ret;

		list = htw_list_of(entries, 4);
		list.cursor = 1ULL << bit;
		remember(&s);
		ret = htw_call(s.fd, call->cmd, &list);
		expect(bit < 32 ? !ret && !list.done : ret == -EINVAL, "bit %u: got %s, done %u",
		       bit, result_name(ret), list.done);
		expect_same_state(&s, "after it");
	}

	begin("entries: EFAULT if none can be written, and nothing is done");
	for (size_t i = 0; i < ARRAY_SIZE(bad_addresses); i++)
		expect_unwritable(&s, call, (const void *)bad_addresses[i], "an invalid address");
	expect_unwritable(&s, call, read_only(&entries, sizeof(entries)), "read-only memory");
	expect_unwritable(&s, call, (char *)before_hole(sizeof(*last)) + 1,
			  "an entry whose last byte is inaccessible");

	begin("entries: timers that do not fit stay%s", harvest ? " armed" : "");
	ids[0] = start(&s, 0);
	ids[1] = start(&s, 0);
	last = before_hole(2 * sizeof(*last));
	list = htw_list_of(last, 3);
	expect_result("the call", 0, htw_call(s.fd, call->cmd, &list));
	expect_number("done", 2, list.done);
	expect_number("timers", harvest ? 1 : 3, info_of(&s).timers);
	list.entries = (uintptr_t)entries;
	expect_result("the call from there", 0, htw_call(s.fd, call->cmd, &list));
	expect_number("done then", 1, list.done);
	expect(entries[0].id != last[0].id && entries[0].id != last[1].id, "listed twice");
	close_subject(&s);

	s = open_witnessed();
	valid = htw_list_of(entries, 4);
	FAILS_WITH_BITS(&s, call, &valid, flags,
			HTW_LIST_PENDING | HTW_LIST_DUE | HTW_LIST_DISARMED);
	FAILS_WITH_BITS(&s, call, &valid, reserved, 0);
	fails_with_pointers(&s, call, &valid);
	fails_read_only(&s, call, &valid);
	close_subject(&s);
}

void check_list(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		check_list_by(&calls[i]);
}
