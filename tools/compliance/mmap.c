// SPDX-License-Identifier: GPL-2.0-only
/* mmap() of a ring or table that does not exist */
#include <sys/mman.h>
#include "areas.h"
#include "subject.h"

void check_mmap(void)
{
	static const struct {
		const char *name;
		__u64 feature;
		off_t offset;
	} maps[] = {
		{ "the ring", HTW_FEATURE_RING, HTW_OFF_RING },
		{ "the table", HTW_FEATURE_TABLE, HTW_OFF_TABLE },
		{ "anything else", ~0ULL, 1LL << 40 },
	};
	struct subject s = open_witnessed();

	group("mmap");
	for (size_t i = 0; i < ARRAY_SIZE(maps); i++) {
		if (has(maps[i].feature))
			continue;
		begin("%s cannot be mapped if there is none", maps[i].name);
		remember(&s);
		expect(mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, s.fd,
			    maps[i].offset) == MAP_FAILED, "it was mapped");
		expect_same_state(&s, "after it");
	}
	close_subject(&s);
}
