/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Timers of Kamailio's dialogs, in /dev/htw
 *
 * In place of the file of the same name in src/modules/dialog.
 */
#ifndef HTW_DLG_TIMER_H
#define HTW_DLG_TIMER_H

#include <stdint.h>

#include "../../core/locking.h"

/**
 * struct dlg_tl - the timer of a dialog, in shared memory, zero before its first use
 * @id: the device's timer; zero if there is none
 * @deadline: when it expires, in ns on the monotonic clock
 * @timeout: the same in Kamailio's seconds, which other files read; zero if it is not armed
 */
typedef struct dlg_tl {
	uint64_t id;
	uint64_t deadline;
	volatile unsigned int timeout;
} dlg_tl_t;

/* Called when a dialog's time has come. Its timer is not armed any more. */
typedef void (*dlg_timer_handler)(struct dlg_tl *tl);

/* Before processes are forked. Return: 0; -1 if there is no device, or no memory. */
int init_dlg_timer(dlg_timer_handler handler);

void destroy_dlg_timer(void);

/* Return: 0; -1 if the timer is armed already, or cannot be started. */
int insert_dlg_timer(struct dlg_tl *tl, int interval);

/* Return: 0 if it will not expire; 1 if it was not armed, or has expired; -1 on an error. */
int remove_dialog_timer(struct dlg_tl *tl);

/* Return: 0 if it will expire in @timeout seconds; -1 if it is not armed. */
int update_dlg_timer(struct dlg_tl *tl, int timeout);

/* Call the handler for timers that have expired; to be called each second. */
void dlg_timer_routine(unsigned int ticks, void *attr);

#endif /* HTW_DLG_TIMER_H */
