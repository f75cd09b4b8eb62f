// SPDX-License-Identifier: GPL-2.0-only
/*
 * Callouts as debug objects: one that is freed, initialised again or left on
 * the stack while it is pending, or started without being initialised, is
 * reported there; and what lockdep has to know of them
 */

#include <linux/irqflags.h>

#include "callout_debug.h"

#ifdef CONFIG_DEBUG_OBJECTS

static struct lock_class_key htw_callout_fixed_key;

static void *htw_callout_debug_hint(void *addr)
{
	return ((struct htw_callout *)addr)->function;
}

static bool htw_callout_is_static(void *addr)
{
	const struct htw_callout *callout = addr;

	return !callout->node.list.next && callout->node.list.prev == TIMER_ENTRY_STATIC;
}

/* A pending callout was initialised again. */
static bool htw_callout_fixup_init(void *addr, enum debug_obj_state state)
{
	if (state != ODEBUG_STATE_ACTIVE)
		return false;
	htw_callout_cancel_sync(addr);
	debug_object_init(addr, &htw_callout_debug_descr);
	return true;
}

/*
 * A callout was used that is not initialised. Without a function, it is never
 * called.
 */
static bool htw_callout_fixup_unknown(void *addr, enum debug_obj_state state)
{
	if (state != ODEBUG_STATE_NOTAVAILABLE)
		return false;
	__htw_callout_init(addr, NULL, false, "htw_callout", &htw_callout_fixed_key);
	return true;
}

/* A pending callout was freed. */
static bool htw_callout_fixup_free(void *addr, enum debug_obj_state state)
{
	if (state != ODEBUG_STATE_ACTIVE)
		return false;
	htw_callout_cancel_sync(addr);
	debug_object_free(addr, &htw_callout_debug_descr);
	return true;
}

const struct debug_obj_descr htw_callout_debug_descr = {
	.name = "htw_callout",
	.debug_hint = htw_callout_debug_hint,
	.is_static_object = htw_callout_is_static,
	.fixup_init = htw_callout_fixup_init,
	.fixup_activate = htw_callout_fixup_unknown,
	.fixup_free = htw_callout_fixup_free,
	.fixup_assert_init = htw_callout_fixup_unknown,
};

#endif

#ifdef CONFIG_LOCKDEP
/*
 * Tell lockdep that this waits for the function of a callout: the caller must
 * not hold a lock that the function takes.
 */
void htw_callout_lockdep_wait(struct htw_callout *callout)
{
	unsigned long flags;

	/*
	 * Nothing that softirqs take is held here, nor would it matter if they
	 * came.
	 */
	local_irq_save(flags);
	lock_map_acquire(&callout->lockdep_map);
	lock_map_release(&callout->lockdep_map);
	local_irq_restore(flags);
}

/* Call a function, which may free the callout. */
void htw_callout_lockdep_call(struct htw_callout *callout,
			      void (*function)(struct htw_callout *))
{
	struct lockdep_map map;

	lockdep_copy_map(&map, &callout->lockdep_map);
	lock_map_acquire(&map);
	function(callout);
	lock_map_release(&map);
}
#endif
