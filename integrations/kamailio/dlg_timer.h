/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Timers of Kamailio's dialogs
 *
 * In place of the file of the same name in src/modules/dialog. struct dlg_tl, the timer of a
 * dialog in shared memory, is the implementation's; it is zero before its first use.
 */
#ifndef DLG_TIMER_H
#define DLG_TIMER_H

#include "../../core/locking.h"
#include "dlg_tl.h"

/* Called when a timer has expired; it is not armed any more. */
typedef void (*dlg_timer_handler)(struct dlg_tl *tl);

/* Before processes are forked. Return: 0; -1 if there is no memory, or no device. */
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

#endif /* DLG_TIMER_H */
