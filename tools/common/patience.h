/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long a test waits for what must come. Include it after the harness of the kernel's selftests.
 */
#ifndef COMMON_PATIENCE_H
#define COMMON_PATIENCE_H

/* For slow, emulated machines; never a measurement. */
#ifndef PATIENCE_SECONDS
#define PATIENCE_SECONDS	90
#endif

/* Whether this test has failed already, or an earlier one of the program. */
static inline bool patience_is_lost(void)
{
	struct __fixture_metadata *f;
	struct __test_metadata *t;

	for (f = __fixture_list; f; f = f->next)
		for (t = f->tests; t; t = t->next)
			if (t->exit_code == KSFT_FAIL)
				return true;
	return false;
}

/* A program that is wrong in many places shall not wait so long for each of them. */
static inline int patience_seconds(void)
{
	return patience_is_lost() ? PATIENCE_SECONDS / 9 : PATIENCE_SECONDS;
}

#endif /* COMMON_PATIENCE_H */
