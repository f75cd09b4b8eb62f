/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _HTW_SETUP_H
#define _HTW_SETUP_H

#include <linux/compiler.h>
#include <linux/types.h>

struct htw_advance_args;
struct htw_context;
struct htw_info_args;
struct htw_setup_args;

/*
 * Ticks that HTW_SETUP takes: without and with a privilege, and on the manual
 * clock.
 */
#define HTW_TICK_MIN_NS			(10 * NSEC_PER_USEC)
#define HTW_TICK_MIN_PRIVILEGED_NS	NSEC_PER_USEC
#define HTW_TICK_MAX_NS			NSEC_PER_SEC

long htw_setup(struct htw_context *ctx, const struct htw_setup_args __user *arg);
long htw_setup_info(struct htw_context *ctx, struct htw_info_args __user *arg);
long htw_setup_advance(struct htw_context *ctx, struct htw_advance_args __user *arg);

#endif /* _HTW_SETUP_H */
