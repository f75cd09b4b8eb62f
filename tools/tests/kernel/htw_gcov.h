/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What gcc 12 and later put into an object whose arcs are counted, and what this calls
 */
#ifndef _HTW_GCOV_H
#define _HTW_GCOV_H

#include <linux/types.h>

/* Kinds of counters; the first one counts arcs, and with -fprofile-arcs there is no other. */
#if __GNUC__ >= 15
#define KINDS	10
#elif __GNUC__ >= 14
#define KINDS	9
#else
#define KINDS	8
#endif

struct gcov_fn_info {
	const struct gcov_info *key;
	unsigned int ident;
	unsigned int lineno_checksum;
	unsigned int cfg_checksum;
	struct {
		unsigned int num;
		s64 *values;
	} arcs;
};

struct gcov_info {
	unsigned int version;
	struct gcov_info *next;
	unsigned int stamp;
	unsigned int checksum;
	const char *filename;
	void *merge[KINDS];
	unsigned int n_functions;
	struct gcov_fn_info **functions;
};

void __gcov_init(struct gcov_info *info);
void __gcov_exit(void);
void __gcov_merge_add(s64 *counts, unsigned int n);

#endif /* _HTW_GCOV_H */
