/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Time namespaces
 */
#ifndef HTW_TIMENS_H
#define HTW_TIMENS_H

#include "htw-test.h"

/* Run @body in a child in a time namespace with these offsets, in seconds. */
#define in_namespace(monotonic, boottime, body) ({			\
	int __status = -1;						\
	pid_t __pid = fork();						\
									\
	if (!__pid) {							\
		char __text[128];					\
									\
		snprintf(__text, sizeof(__text), "monotonic %lld 0\nboottime %lld 0\n",	\
			 (long long)(monotonic), (long long)(boottime));	\
		if (unshare(CLONE_NEWTIME) ||				\
		    htw_write_file("/proc/self/timens_offsets", __text))	\
			_exit(77);					\
		_exit(htw_in_child(body) ? 0 : 1);			\
	}								\
	if (__pid > 0)							\
		waitpid(__pid, &__status, 0);				\
	WIFEXITED(__status) ? WEXITSTATUS(__status) : -1;		\
})

#endif /* HTW_TIMENS_H */
