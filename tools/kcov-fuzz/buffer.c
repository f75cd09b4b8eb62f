// SPDX-License-Identifier: GPL-2.0-only
#include "buffer.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "../torture/report.h"

void buffer_init(struct buffer *b)
{
	b->pages = mmap(NULL, 2 * BUFFER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	if (b->pages == MAP_FAILED || mprotect(b->pages + BUFFER_SIZE, BUFFER_SIZE, PROT_NONE))
		report_broken("mmap: %s", strerror(errno));
	/* An old size of zero maps shared pages a second time. */
	b->read_only = mremap(b->pages, 0, BUFFER_SIZE, MREMAP_MAYMOVE);
	if (b->read_only == MAP_FAILED || mprotect(b->read_only, BUFFER_SIZE, PROT_READ))
		report_broken("mremap: %s", strerror(errno));
}

bool buffer_is_good(__u64 kind)
{
	return kind <= BUFFER_ODD || kind >= BUFFER_KINDS;
}

void *buffer_fill(const struct buffer *b, __u64 kind, const void *data, size_t size)
{
	char *end = b->pages + BUFFER_SIZE, *to = b->pages;

	switch (kind) {
	case BUFFER_LAST:
		to = end - size;
		break;
	case BUFFER_ODD:
		to = b->pages + 1;
		break;
	case BUFFER_CUT:
		to = end - size / 2;
		memcpy(to, data, size / 2);
		return to;
	case BUFFER_READ_ONLY:
		memcpy(b->pages, data, size);
		return b->read_only;
	case BUFFER_NULL:
		return NULL;
	case BUFFER_KERNEL:
		return (void *)0xffff888000100000UL;
	case BUFFER_NOT_CANONICAL:
		return (void *)0x0001000000000000UL;
	default:
		break;
	}
	memcpy(to, data, size);
	return to;
}
