// SPDX-License-Identifier: GPL-2.0-only
/* The mapped deadline table */
#include <sys/mman.h>
#include "areas.h"
#include "subject.h"

void check_table(void)
{
	const __u64 pages = (announced.limit + 62) / 63;
	const size_t most = (pages * 512 + page - 1) / page * page;
	const int prot = PROT_READ | PROT_WRITE;
	struct subject s = open_subject();
	struct htw_query query;
	struct htw_event ev[2];
	volatile __u64 *word;
	__u64 id[3];
	long p;

	group("the table");
	if (!has(HTW_FEATURE_TABLE | HTW_FEATURE_MANUAL | HTW_FEATURE_MOD)) {
		note("not announced");
		close_subject(&s);
		return;
	}
	begin("mmap: EINVAL for a length beyond the limit, another offset or MAP_PRIVATE");
	map_fails(&s, most + page, prot, MAP_SHARED, HTW_OFF_TABLE, EINVAL, "a page more");
	map_fails(&s, page, prot, MAP_SHARED, HTW_OFF_TABLE + page, EINVAL, "behind it");
	map_fails(&s, page, prot, MAP_PRIVATE, HTW_OFF_TABLE, EINVAL, "MAP_PRIVATE");
	begin("mmap: as long as the limit needs");
	p = map(&s, most, prot, MAP_SHARED, HTW_OFF_TABLE);
	if (expect(p > 0 || p < -4095, "it cannot be mapped"))
		munmap((void *)p, most);
	begin("mmap: PROT_READ");
	p = map(&s, page, PROT_READ, MAP_SHARED, HTW_OFF_TABLE);
	if (expect(p > 0 || p < -4095, "it cannot be mapped"))
		munmap((void *)p, page);
	begin("mmap: a part");
	p = map(&s, page, prot, MAP_SHARED, HTW_OFF_TABLE);
	if (!expect(p > 0 || p < -4095, "it cannot be mapped")) {
		close_subject(&s);
		return;
	}
	word = (volatile __u64 *)p;

	begin("HTW_ADD clears the entry");
	for (int i = 0; i < 3; i++) {
		id[i] = start(&s, 0);
		expect(id[i] && HTW_ID_SLOT(id[i]) < page / 8, "ids begin with low slots");
		expect_number("the word", 0, word[HTW_ID_SLOT(id[i])]);
	}
	begin("a later deadline, and disarmed: HTW_QUERY reports them");
	query = query_of(&s, id[0]);
	word[HTW_ID_SLOT(id[0])] = query.deadline + HOUR;
	word[HTW_ID_SLOT(id[1])] = HTW_DISARMED;
	word[HTW_ID_SLOT(id[2])] = query.deadline - 1;
	expect_number("deadline", query.deadline + HOUR, query_of(&s, id[0]).deadline);
	expect_number("remaining", 2 * HOUR, query_of(&s, id[0]).remaining);
	expect_number("state", HTW_STATE_DISARMED, query_of(&s, id[1]).state);
	expect_number("remaining", 0, query_of(&s, id[1]).remaining);
	expect_number("deadline of one with an earlier word", query.deadline,
		      query_of(&s, id[2]).deadline);
	begin("only timers without a later deadline expire");
	pass(&s, HOUR);
	if (expect_result("read()", 1, get(&s, ev, 2))) {
		expect_number("id", id[2], ev[0].id);
		expect_number("deadline", query.deadline, ev[0].deadline);
		expect_number("flags", HTW_EVENT_MORE, ev[0].flags);
	}
	begin("at the later deadline, once");
	pass(&s, HOUR);
	if (expect_result("read()", 1, get(&s, ev, 2))) {
		expect_number("id", id[0], ev[0].id);
		expect_number("deadline", query.deadline + HOUR, ev[0].deadline);
	}
	word[HTW_ID_SLOT(id[0])] = query.deadline + 2 * HOUR;
	pass(&s, HOUR);
	expect_result("read()", -EAGAIN, get(&s, ev, 2));
	begin("HTW_MOD arms the timer and clears the entry");
	for (int i = 0; i < 2; i++) {
		struct htw_mod mod = {
			.id = id[i], .deadline = HOUR, .flags = HTW_MOD_DEADLINE,
		};

		expect_number("state", HTW_STATE_DISARMED, query_of(&s, id[i]).state);
		expect_result("HTW_MOD", 0, htw_call(s.fd, HTW_MOD, &mod));
		expect_number("the word", 0, word[HTW_ID_SLOT(id[i])]);
	}
	pass(&s, HOUR);
	expect_result("read()", 2, get(&s, ev, 2));
	if (has(HTW_FEATURE_UNREAD)) {
		struct htw_mod mod = {
			.id = id[0], .deadline = ev[0].deadline, .firings = 1,
			.flags = HTW_MOD_UNREAD,
		};

		begin("HTW_MOD_UNREAD takes an event back whose deadline was moved");
		mod.id = ev[0].id;
		expect_result("not moved", -EALREADY, htw_call(s.fd, HTW_MOD, &mod));
		word[HTW_ID_SLOT(ev[0].id)] = ev[0].deadline + HOUR;
		expect_result("moved", 0, htw_call(s.fd, HTW_MOD, &mod));
		expect_number("the word", ev[0].deadline + HOUR, word[HTW_ID_SLOT(ev[0].id)]);
		expect_number("state", HTW_STATE_PENDING, query_of(&s, ev[0].id).state);
		pass(&s, HOUR);
		expect_result("read()", 1, get(&s, ev, 2));
	}
	begin("the id is valid until HTW_CANCEL");
	for (int i = 0; i < 3; i++) {
		expect_result("HTW_CANCEL", 0, stop(&s, id[i], 0));
		expect_result("HTW_CANCEL again", -ENOENT, stop(&s, id[i], 0));
	}
	expect_number("timers of HTW_INFO", 0, info_of(&s).timers);
	close_subject(&s);
}
