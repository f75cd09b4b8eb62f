// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Timers of Kamailio's dialogs, in /dev/htw
 *
 * In place of the file of the same name in src/modules/dialog.
 *
 * The main process opens the device, and all processes that it forks share the
 * timers. Starting, moving and removing one is a system call, in constant time.
 * Timers are kept ones: an id ends when its timer is removed, and not when a
 * process reads its event, so that others can move the timer until that process
 * deals with the event.
 *
 * Different dialogs have no lock in common, but for the few that share one of
 * LOCKS by their addresses. It keeps struct dlg_tl consistent with the device.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <libhtw.h>

#include "../../core/dprint.h"
#include "../../core/lock_ops.h"
#include "../../core/pt.h"
#include "../../core/timer.h"
#include "dlg_timer.h"

#define SECOND	1000000000ULL
#define LOCKS	16384
#define EVENTS	64

/* What dialog.c names the process that only runs dlg_timer_routine(). */
#define OWN_PROCESS	"Dialog Main Timer"

static dlg_timer_handler expired;
static gen_lock_set_t *locks;
/* A descriptor of the timers that every process inherits. */
static int shared_fd = -1;
/* This process's handle; NULL in one that has not used it yet. */
static struct htw *own;

/* A handle belongs to the process that opened it. */
static void forget(void)
{
	htw_close(own);
	own = NULL;
}

/* Return: NULL, and a message is logged, if there is no handle. */
static struct htw *handle(void)
{
	struct htw *timers;
	int fd, ret;

	if (own)
		return own;
	fd = dup(shared_fd);
	ret = fd < 0 ? -errno : htw_open_fd(&timers, fd);
	if (ret) {
		LM_ERR("cannot use the dialogs' timers: %s\n", strerror(-ret));
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	own = timers;
	return own;
}

static unsigned int lock_of(const struct dlg_tl *tl)
{
	/* Dialogs are hundreds of bytes; the upper bits of the product depend on all others. */
	return (uint32_t)((uintptr_t)tl >> 4) * 2654435761u / (UINT32_MAX / LOCKS + 1);
}

static void lock(const struct dlg_tl *tl)
{
	lock_set_get(locks, lock_of(tl));
}

static void unlock(const struct dlg_tl *tl)
{
	lock_set_release(locks, lock_of(tl));
}

static uint64_t ns(int seconds)
{
	return seconds > 0 ? seconds * SECOND : 0;
}

static void clear(struct dlg_tl *tl)
{
	tl->id = 0;
	tl->timeout = 0;
}

int init_dlg_timer(dlg_timer_handler handler)
{
	struct htw *timers;
	int ret;

	ret = htw_open(&timers, HTW_BACKEND_DEVICE, NULL);
	if (ret) {
		LM_ERR("cannot open /dev/htw: %s\n", strerror(-ret));
		return -1;
	}
	shared_fd = dup(htw_fd(timers));
	htw_close(timers);
	if (shared_fd < 0) {
		LM_ERR("cannot open /dev/htw: %s\n", strerror(errno));
		return -1;
	}
	if (pthread_atfork(NULL, NULL, forget)) {
		LM_ERR("no memory\n");
		goto no_atfork;
	}
	locks = lock_set_alloc(LOCKS);
	if (!locks || !lock_set_init(locks)) {
		LM_ERR("no shared memory for locks\n");
		goto no_locks;
	}
	expired = handler;
	if (!handle())
		goto no_handle;
	return 0;

no_handle:
	lock_set_destroy(locks);
no_locks:
	if (locks)
		lock_set_dealloc(locks);
	locks = NULL;
no_atfork:
	close(shared_fd);
	shared_fd = -1;
	return -1;
}

void destroy_dlg_timer(void)
{
	if (!locks)
		return;
	forget();
	close(shared_fd);
	shared_fd = -1;
	lock_set_destroy(locks);
	lock_set_dealloc(locks);
	locks = NULL;
}

int insert_dlg_timer(struct dlg_tl *tl, int interval)
{
	struct htw_add_args add = {
		.deadline = ns(interval),
		.cookie = (uintptr_t)tl,
		.flags = HTW_F_KEEP,
	};
	struct htw *timers = handle();
	int ret = -EEXIST;

	if (!timers)
		return -1;
	lock(tl);
	if (!tl->id)
		ret = htw_add(timers, &add);
	if (!ret) {
		tl->id = add.id;
		tl->timeout = get_ticks() + interval;
	}
	unlock(tl);
	if (ret)
		LM_CRIT("cannot start the timer of tl=%p: %s\n", tl, strerror(-ret));
	return ret ? -1 : 0;
}

int remove_dialog_timer(struct dlg_tl *tl)
{
	struct htw *timers = handle();
	int ret = -ENOENT;

	if (!timers)
		return -1;
	lock(tl);
	if (tl->id) {
		ret = htw_stop(timers, tl->id);
		clear(tl);
	}
	unlock(tl);
	if (!ret)
		return 0;
	if (ret == -ENOENT)
		return 1;
	LM_CRIT("cannot remove the timer of tl=%p: %s\n", tl, strerror(-ret));
	return -1;
}

int update_dlg_timer(struct dlg_tl *tl, int timeout)
{
	struct htw *timers = handle();
	int ret = -ENOENT;

	if (!timers)
		return -1;
	lock(tl);
	if (tl->id)
		ret = htw_rearm(timers, tl->id, ns(timeout));
	if (!ret)
		tl->timeout = get_ticks() + timeout;
	unlock(tl);
	if (ret)
		LM_CRIT("cannot update the timer of tl=%p: %s\n", tl, strerror(-ret));
	return ret ? -1 : 0;
}

/*
 * Other processes may remove or move the timer after its event was read. Check
 * that it is still due, and if so, end it.
 *
 * Return: true if the handler is to be called: for one event of a timer only.
 */
static bool claim(struct htw *timers, const struct htw_event *event)
{
	struct dlg_tl *tl = (struct dlg_tl *)(uintptr_t)event->cookie;
	struct htw_timer_info query = { .id = event->id };
	bool is_due = false;

	lock(tl);
	/* If the timer was removed, the dialog's memory may have been freed: leave it alone. */
	if (htw_query(timers, &query))
		goto out;
	/* It was moved after the event had been read, and another one will come. */
	if (query.state != HTW_STATE_DISARMED)
		goto out;
	/* If that has been read as well, it finds no timer any more. */
	htw_stop(timers, event->id);
	clear(tl);
	is_due = true;
out:
	unlock(tl);
	return is_due;
}

static void expire(struct htw *timers)
{
	struct htw_event events[EVENTS];
	int i, n;

	do {
		n = htw_read(timers, events, EVENTS);
		if (n < 0)
			LM_CRIT("cannot read the dialogs' timers: %s\n", strerror(-n));
		for (i = 0; i < n; i++)
			if (claim(timers, &events[i]))
				expired((struct dlg_tl *)(uintptr_t)events[i].cookie);
	} while (n == EVENTS);
}

/*
 * With the dialog module's timer_procs, this has a process of its own: wait for
 * timers until the second is over, instead of looking once. In the process that
 * runs other timers as well, look only.
 */
void dlg_timer_routine(unsigned int ticks, void *attr)
{
	struct htw *timers = handle();
	uint64_t now, end;

	(void)ticks;
	(void)attr;
	if (!timers)
		return;
	expire(timers);
	if (strcmp(my_desc(), OWN_PROCESS))
		return;
	end = htw_now(timers) + SECOND;
	while ((now = htw_now(timers)) < end && htw_wait(timers, end - now) > 0)
		expire(timers);
}
