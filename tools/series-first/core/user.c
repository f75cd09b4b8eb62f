// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a user may have: pages, counted by ucounts
 *
 * As of inotify's watches there is a limit for each user in each namespace, and
 * what is below a namespace counts as its owner's as well:
 * /proc/sys/user/max_htw_pages. By default it grows with the machine's memory,
 * as those of all ucounts do. The memory itself is the cgroup's.
 */

#include <linux/user_namespace.h>

#include "user.h"

/**
 * htw_user_charge() - charge a user for pages
 * @ns: the user namespace
 * @uid: the user
 * @pages: how many, at least 1
 *
 * Context: may sleep.
 * Return: what is charged, or NULL at the limit.
 */
struct ucounts *htw_user_charge(struct user_namespace *ns, kuid_t uid, u32 pages)
{
	struct ucounts *ucounts = NULL;

	for (u32 n = 0; n < pages; n++) {
		struct ucounts *one = inc_ucount(ns, uid, UCOUNT_HTW_PAGES);

		if (!one) {
			htw_user_uncharge(ucounts, n);
			return NULL;
		}
		ucounts = one;
	}
	return ucounts;
}

void htw_user_uncharge(struct ucounts *ucounts, u32 pages)
{
	while (pages--)
		dec_ucount(ucounts, UCOUNT_HTW_PAGES);
}
