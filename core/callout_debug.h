/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What debug kernels check of callouts: CONFIG_DEBUG_OBJECTS, CONFIG_LOCKDEP
 */
#ifndef _HTW_CALLOUT_DEBUG_H
#define _HTW_CALLOUT_DEBUG_H

#include <linux/debugobjects.h>
#include <linux/htw.h>

/* Without CONFIG_DEBUG_OBJECTS there is none, and what takes it is empty. */
extern const struct debug_obj_descr htw_callout_debug_descr;

#ifdef CONFIG_LOCKDEP
void htw_callout_lockdep_wait(struct htw_callout *callout);
void htw_callout_lockdep_call(struct htw_callout *callout,
			      void (*function)(struct htw_callout *));
#else
#define htw_callout_lockdep_wait(callout)		((void)(callout))
#define htw_callout_lockdep_call(callout, function)	function(callout)
#endif

#endif /* _HTW_CALLOUT_DEBUG_H */
