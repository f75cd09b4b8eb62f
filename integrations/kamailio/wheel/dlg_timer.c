// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Timers of Kamailio's dialogs, in a wheel in shared memory: to measure with
 *
 * htw_wheel.c in place of a sorted list, and nothing else: one lock for all
 * processes, Kamailio's seconds as ticks, and a look at each of them.
 */
#include "../../core/dprint.h"
#include "../../core/mem/shm_mem.h"
#include "../../core/timer.h"
#include "dlg_timer.h"

/* Timers that are taken out before others get the lock. */
#define BATCH	128

static struct {
	gen_lock_t lock;
	struct wheel *wheel;
} *timers;
static dlg_timer_handler expired;

void *wheel_alloc(size_t size)
{
	return shm_malloc(size);
}

void wheel_free(void *p)
{
	shm_free(p);
}

int init_dlg_timer(dlg_timer_handler handler)
{
	timers = shm_malloc(sizeof(*timers));
	if (!timers)
		goto no_memory;
	timers->wheel = wheel_new(get_ticks());
	if (!timers->wheel)
		goto no_wheel;
	lock_init(&timers->lock);
	expired = handler;
	return 0;

no_wheel:
	shm_free(timers);
	timers = NULL;
no_memory:
	LM_ERR("no shared memory\n");
	return -1;
}

void destroy_dlg_timer(void)
{
	if (!timers)
		return;
	wheel_delete(timers->wheel);
	lock_destroy(&timers->lock);
	shm_free(timers);
	timers = NULL;
}

static void start(struct dlg_tl *tl, int seconds)
{
	const unsigned int now = get_ticks();

	tl->timeout = now + seconds;
	wheel_start(timers->wheel, &tl->node, now, tl->timeout);
}

int insert_dlg_timer(struct dlg_tl *tl, int interval)
{
	bool bad;

	lock_get(&timers->lock);
	bad = wheel_has(&tl->node);
	if (!bad)
		start(tl, interval);
	lock_release(&timers->lock);
	if (bad)
		LM_CRIT("the timer of tl=%p is armed already\n", tl);
	return bad ? -1 : 0;
}

int remove_dialog_timer(struct dlg_tl *tl)
{
	bool armed;

	lock_get(&timers->lock);
	armed = wheel_has(&tl->node);
	if (armed) {
		wheel_stop(timers->wheel, &tl->node);
		tl->timeout = 0;
	}
	lock_release(&timers->lock);
	return armed ? 0 : 1;
}

int update_dlg_timer(struct dlg_tl *tl, int timeout)
{
	bool armed;

	lock_get(&timers->lock);
	armed = wheel_has(&tl->node);
	if (armed) {
		wheel_stop(timers->wheel, &tl->node);
		start(tl, timeout);
	}
	lock_release(&timers->lock);
	if (!armed)
		LM_CRIT("the timer of tl=%p is not armed\n", tl);
	return armed ? 0 : -1;
}

void dlg_timer_routine(unsigned int ticks, void *attr)
{
	struct wheel_node *nodes[BATCH];
	unsigned int i, n;

	(void)attr;
	do {
		lock_get(&timers->lock);
		n = wheel_expire(timers->wheel, ticks, nodes, BATCH);
		for (i = 0; i < n; i++)
			((struct dlg_tl *)nodes[i])->timeout = 0;
		lock_release(&timers->lock);
		for (i = 0; i < n; i++)
			expired((struct dlg_tl *)nodes[i]);
	} while (n == BATCH);
}
