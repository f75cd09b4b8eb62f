/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Timers of Kamailio's dialogs, in a wheel in shared memory: to measure with
 *
 * The interface is that of ../htw/dlg_timer.h.
 */
#ifndef WHEEL_DLG_TIMER_H
#define WHEEL_DLG_TIMER_H

#include "../../core/locking.h"
#include "wheel.h"

/**
 * struct dlg_tl - the timer of a dialog, in shared memory, zero before its first use
 * @node: in the wheel
 * @timeout: when it expires, in Kamailio's seconds; zero if it is not armed
 */
typedef struct dlg_tl {
	struct wheel_node node;
	volatile unsigned int timeout;
} dlg_tl_t;

typedef void (*dlg_timer_handler)(struct dlg_tl *tl);

int init_dlg_timer(dlg_timer_handler handler);
void destroy_dlg_timer(void);
int insert_dlg_timer(struct dlg_tl *tl, int interval);
int remove_dialog_timer(struct dlg_tl *tl);
int update_dlg_timer(struct dlg_tl *tl, int timeout);
void dlg_timer_routine(unsigned int ticks, void *attr);

#endif /* WHEEL_DLG_TIMER_H */
