/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a user may have: pages, counted by ucounts
 */
#ifndef _HTW_USER_H
#define _HTW_USER_H

#include <linux/types.h>
#include <linux/uidgid.h>

struct ucounts;
struct user_namespace;

struct ucounts *htw_user_charge(struct user_namespace *ns, kuid_t uid, u32 pages);
void htw_user_uncharge(struct ucounts *ucounts, u32 pages);

#endif /* _HTW_USER_H */
