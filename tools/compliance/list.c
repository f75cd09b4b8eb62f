// SPDX-License-Identifier: GPL-2.0-only
/* HTW_LIST and HTW_HARVEST */
#include "areas.h"
#include "subject.h"

static const struct call calls[] = {
	{ "HTW_LIST", HTW_LIST, 0, sizeof(struct htw_list) },
	{ "HTW_HARVEST", HTW_HARVEST, 0, sizeof(struct htw_list) },
};

static struct htw_list list_of(const void *entries, __u32 count)
{
	return (struct htw_list){
		.entries = (uintptr_t)entries, .count = count, .done = POISON32,
	};
}

/* Page through @count timers, @room at a time. */
static void check_pages(struct subject *s, const struct call *call, const __u64 *ids,
			unsigned int count, unsigned int room)
{
	struct htw_query entries[room + 1], asked[count];
	unsigned int seen[256] = { 0 }, calls = 0;
	struct htw_list list = list_of(entries, room), before;

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
				if (!s->manual)
					entries[n].remaining = 0;
				expect(!has(HTW_FEATURE_MOD) ||
				       !memcmp(&entries[n], &asked[i], sizeof(*asked)),
				       "an entry differs from HTW_QUERY");
			}
		}
		expect(entries[list.done].id == POISON, "written after the last entry");
	} while (list.done && calls++ < 10 * count);
	for (unsigned int i = 0; i < count; i++)
		expect_number("how often a timer was listed", 1, seen[i]);
	expect_number("done at the end", 0, list.done);
}

static void check_list_by(const struct call *call)
{
	const bool harvest = call->cmd == HTW_HARVEST;
	static const unsigned int rooms[] = { 1, 7, 63, 200 };
	struct htw_query entries[4], *last;
	struct subject s = open_subject();
	struct htw_list list, valid;
	struct htw_event ev[2];
	__u64 ids[150];

	for (size_t r = 0; r < ARRAY_SIZE(rooms); r++) {
		begin("all pending timers, each once, %u at a time", rooms[r]);
		for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
			ids[i] = started(&s, (struct htw_add){
				.deadline = HOUR + i * SEC, .cookie = i,
				.interval = i % 2 ? HOUR : 0 });
		check_pages(&s, call, ids, ARRAY_SIZE(ids), rooms[r]);
		expect_number("timers then", harvest ? 0 : ARRAY_SIZE(ids), info_of(&s).timers);
		for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
			expect_result("HTW_CANCEL", harvest ? -ENOENT : 0, stop(&s, ids[i], 0));
	}

	begin("only pending timers");
	if (has(HTW_FEATURE_KEEP)) {
		start_expired(&s, (struct htw_add){ .deadline = 1, .flags = HTW_F_KEEP });
		expect_result("read()", 1, get(&s, ev, 2));
	}
	start_expired(&s, (struct htw_add){ .deadline = 1 });
	remember(&s);
	list = list_of(entries, 4);
	expect_result("the call", 0, htw_call(s.fd, call->cmd, &list));
	expect_number("done", 0, list.done);
	expect_same_state(&s, "after it");
	close_subject(&s);

	begin("on a new descriptor: done is zero");
	s = open_fresh();
	list = list_of(entries, 4);
	expect_result("the call", 0, htw_call(s.fd, call->cmd, &list));
	expect_number("done", 0, list.done);
	close_subject(&s);

	s = open_witnessed();
	begin("cursor: past the end there is nothing, or EINVAL");
	for (unsigned int bit = 16; bit < 64; bit++) {
		int ret;

		list = list_of(entries, 4);
		list.cursor = 1ULL << bit;
		remember(&s);
		ret = htw_call(s.fd, call->cmd, &list);
		expect(ret == -EINVAL || (!ret && !list.done), "bit %u: got %s, done %u", bit,
		       result_name(ret), list.done);
		expect_same_state(&s, "after it");
	}

	begin("entries: EFAULT if none can be written, and nothing is done");
	for (size_t i = 0; i < ARRAY_SIZE(bad_addresses); i++) {
		list = list_of((void *)bad_addresses[i], 1);
		fails(&s, call, &list, EFAULT, "an invalid address");
	}
	list = list_of(read_only(&entries, sizeof(entries)), 1);
	fails(&s, call, &list, EFAULT, "read-only memory");
	list = list_of((char *)before_hole(sizeof(*last)) + 1, 1);
	fails(&s, call, &list, EFAULT, "an entry whose last byte is read-only");

	begin("entries: timers that do not fit stay%s", harvest ? " armed" : "");
	ids[0] = start(&s, 0);
	ids[1] = start(&s, 0);
	last = before_hole(2 * sizeof(*last));
	list = list_of(last, 3);
	expect_result("the call", 0, htw_call(s.fd, call->cmd, &list));
	expect_number("done", 2, list.done);
	expect_number("timers", harvest ? 1 : 3, info_of(&s).timers);
	list.entries = (uintptr_t)entries;
	expect_result("the call from there", 0, htw_call(s.fd, call->cmd, &list));
	expect_number("done then", 1, list.done);
	expect(entries[0].id != last[0].id && entries[0].id != last[1].id, "listed twice");
	close_subject(&s);

	s = open_witnessed();
	valid = list_of(entries, 4);
	FAILS_WITH_BITS(&s, call, &valid, flags, harvest || !has(HTW_FEATURE_LIST_STATES) ? 0 :
			HTW_LIST_PENDING | HTW_LIST_EXPIRED | HTW_LIST_DISARMED);
	FAILS_WITH_BITS(&s, call, &valid, reserved0, 0);
	FAILS_WITH_BITS(&s, call, &valid, reserved, 0);
	fails_with_pointers(&s, call, &valid);
	fails_read_only(&s, call, &valid);
	close_subject(&s);
}

void check_list(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		if (supported(calls[i].name, calls[i].cmd, HTW_FEATURE_ALL))
			check_list_by(&calls[i]);
	}
}
