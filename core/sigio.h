/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * SIGIO for new events; see sigio.c
 */
#ifndef _HTW_SIGIO_H
#define _HTW_SIGIO_H

#include <linux/kcov.h>
#include <linux/list.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include "flow.h"

struct fasync_struct;

/**
 * struct htw_sigio - a context's recipients of SIGIO
 * @fasync: the recipients (guarded by fasync_helper())
 * @entry: on &htw_sigio_sender.due while they are to get a signal
 *	(htw_sigio_lock)
 * @stopped: the context is being closed (htw_sigio_lock)
 */
struct htw_sigio {
	struct fasync_struct *fasync;
	struct list_head entry;
	bool stopped;
};

/**
 * struct htw_sigio_sender - sends the signals of a user's contexts
 * @flows: the user's flows, which are charged; never changes
 * @class: the user's class; never changes
 * @due: contexts whose recipients are to get a signal (htw_sigio_lock)
 * @entry: on its class's queue of senders that wait for their turn
 *	(htw_sigio_lock)
 * @scheduled: on that queue, has its turn, or @work is to put it there again
 *	(htw_sigio_lock)
 * @work: has its turn, or waits for the user's share
 * @kcov_handle: as &htw_user.kcov_handle; never changes
 */
struct htw_sigio_sender {
	struct htw_flow __percpu *flows;
	enum htw_class class;
	struct list_head due;
	struct list_head entry;
	bool scheduled;
	struct delayed_work work;

	typeof(kcov_common_handle()) kcov_handle;
};

int htw_sigio_init_queues(void);
void htw_sigio_exit_queues(void);
void htw_sigio_sender_init(struct htw_sigio_sender *s,
			   struct htw_flow __percpu *flows);
void htw_sigio_sender_exit(struct htw_sigio_sender *s);
void htw_sigio_init(struct htw_sigio *sigio);
void htw_sigio_send(struct htw_sigio *sigio, struct htw_sigio_sender *s);
void htw_sigio_stop(struct htw_sigio *sigio);

#endif /* _HTW_SIGIO_H */
