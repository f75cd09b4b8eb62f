/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DLG_TL_H
#define DLG_TL_H

#include <stdint.h>

/**
 * struct dlg_tl - a timer in /dev/htw
 * @id: the device's timer; zero if there is none
 * @timeout: when it expires, in Kamailio's seconds, which other files read; zero if it is not
 *	armed
 */
typedef struct dlg_tl {
	uint64_t id;
	volatile unsigned int timeout;
} dlg_tl_t;

#endif /* DLG_TL_H */
