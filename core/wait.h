/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Waking who waits for a context
 */
#ifndef _HTW_WAIT_H
#define _HTW_WAIT_H

#include <linux/workqueue.h>

#include "alarm.h"
#include "context.h"
#include "user.h"

/**
 * enum htw_why - what an alarm rings for
 * @HTW_WHY_DUE: a timer is due: one reader, and all that poll() as they do
 * @HTW_WHY_LOOK: a bucket is to be moved down: the same, but nobody is told
 *	that the descriptor is readable
 * @HTW_WHY_READER: the task that was woken has not looked at the base yet: wake
 *	one more task that blocks in read()
 * @HTW_WHY_AGAIN: no task has looked at it for half a second or longer: wake all
 *	tasks that block in read(), and all that poll
 * @HTW_WHY_COME: a bucket has come that was not moved down: as %HTW_WHY_LOOK,
 *	but perhaps a timer is due
 */
enum htw_why {
	HTW_WHY_DUE	= BIT(0),
	HTW_WHY_LOOK	= BIT(1),
	HTW_WHY_AGAIN	= BIT(2),
	HTW_WHY_COME	= BIT(3),
	HTW_WHY_READER	= BIT(4),
};

/**
 * struct htw_lane - contexts that a work item wakes
 * @users: with contexts to be woken, in turn (htw_lanes_lock)
 * @wq: ordered, for @work alone
 * @work: wakes them
 * @waiting: how many contexts there are (htw_lanes_lock)
 * @rests: there are, and all of their users rest (htw_lanes_lock)
 * @wakes: how many it has woken
 * @spent: what that took, in ns
 */
struct htw_lane {
	struct list_head users;
	struct workqueue_struct *wq;
	struct delayed_work work;
	u32 waiting;
	bool rests;
	u64 wakes;
	u64 spent;
};

extern struct htw_lane htw_lanes[HTW_LANES];

int htw_wait_init(bool (*look)(struct htw_context *ctx));
void htw_wait_exit(void);
u32 htw_wait_room(struct htw_alarm *a, u64 now, u64 *until);
void htw_wait_ring(struct htw_alarm *a, struct htw_context *ctx, enum htw_why ring, u64 *clock);
void htw_wait_wake(struct htw_context *ctx);
void htw_wait_take_out(struct htw_context *ctx);

/*
 * A wake-up of a poll queue that took longer is not repeated for a multiple of
 * it.
 */
#define HTW_LONG_NS		(10 * NSEC_PER_USEC)
#define HTW_LONG_REST		36u

u32 htw_wait_rests(const struct htw_context *ctx);
bool htw_wait_is_waiting(struct htw_context *ctx);
bool htw_wait_is_blocked(struct htw_context *ctx);
bool htw_wait_is_left(struct htw_context *ctx);
bool htw_wait_has_others(struct htw_context *ctx);

#endif /* _HTW_WAIT_H */
