/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DLG_TL_H
#define DLG_TL_H

#include "wheel.h"

/**
 * struct dlg_tl - a timer in a wheel in shared memory
 * @node: in the wheel
 * @timeout: when it expires, in Kamailio's seconds; zero if it is not armed
 */
typedef struct dlg_tl {
	struct wheel_node node;
	volatile unsigned int timeout;
} dlg_tl_t;

#endif /* DLG_TL_H */
