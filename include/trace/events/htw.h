/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM htw

#if !defined(_TRACE_HTW_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_HTW_H

#include <linux/tracepoint.h>

struct htw_alarm;
struct htw_base;
struct htw_context;
struct htw_timer;

/*
 * Ids are unique within a context, which is an open file of /dev/htw; @context tells
 * contexts apart, and is the same number for all events of one. Times are in ns on the
 * context's clock, without the offsets of time namespaces.
 */

DECLARE_EVENT_CLASS(htw_timer_class,

	TP_PROTO(const struct htw_context *context, const struct htw_timer *timer),

	TP_ARGS(context, timer),

	TP_STRUCT__entry(
		__field(const void *, context)
		__field(u64, id)
		__field(u64, cookie)
		__field(u64, deadline)
		__field(u64, interval)
	),

	TP_fast_assign(
		__entry->context = context;
		__entry->id = htw_ids_number(&context->ids, timer);
		__entry->cookie = timer->cookie;
		__entry->deadline = timer->deadline;
		__entry->interval = timer->interval;
	),

	TP_printk("context=%p id=%#llx cookie=%#llx deadline=%llu interval=%llu",
		  __entry->context, __entry->id, __entry->cookie, __entry->deadline,
		  __entry->interval)
);

DEFINE_EVENT(htw_timer_class, htw_add,
	TP_PROTO(const struct htw_context *context, const struct htw_timer *timer),
	TP_ARGS(context, timer));

/* A timer was changed; the fields hold the new values. */
DEFINE_EVENT(htw_timer_class, htw_mod,
	TP_PROTO(const struct htw_context *context, const struct htw_timer *timer),
	TP_ARGS(context, timer));

/* A timer was cancelled: zero; or there was none: a negative error. */
TRACE_EVENT(htw_cancel,

	TP_PROTO(const void *context, u64 id, int result),

	TP_ARGS(context, id, result),

	TP_STRUCT__entry(
		__field(const void *, context)
		__field(u64, id)
		__field(int, result)
	),

	TP_fast_assign(
		__entry->context = context;
		__entry->id = id;
		__entry->result = result;
	),

	TP_printk("context=%p id=%#llx result=%d",
		  __entry->context, __entry->id, __entry->result)
);

/* The event of a timer was taken at @now; @late: ns since the deadline. */
TRACE_EVENT(htw_expire,

	TP_PROTO(const struct htw_context *context, const struct htw_timer *timer, u64 now),

	TP_ARGS(context, timer, now),

	TP_STRUCT__entry(
		__field(const void *, context)
		__field(u64, id)
		__field(u64, cookie)
		__field(u64, deadline)
		__field(u64, late)
	),

	TP_fast_assign(
		__entry->context = context;
		__entry->id = htw_ids_number(&context->ids, timer);
		__entry->cookie = timer->cookie;
		__entry->deadline = timer->deadline;
		__entry->late = now - min(now, timer->deadline);
	),

	TP_printk("context=%p id=%#llx cookie=%#llx deadline=%llu late=%llu",
		  __entry->context, __entry->id, __entry->cookie, __entry->deadline,
		  __entry->late)
);

/* Timers of a wheel were moved to finer levels: @before had been so far. */
TRACE_EVENT(htw_cascade,

	TP_PROTO(const struct htw_base *base, u64 before),

	TP_ARGS(base, before),

	TP_STRUCT__entry(
		__field(const void *, context)
		__field(unsigned int, wheel)
		__field(u64, moved)
	),

	TP_fast_assign(
		__entry->context = base->ctx;
		__entry->wheel = base->index;
		__entry->moved = base->wheel.cascades - before;
	),

	TP_printk("context=%p wheel=%u moved=%llu",
		  __entry->context, __entry->wheel, __entry->moved)
);

/* The alarm of a user was set, to ring at @expires. */
TRACE_EVENT(htw_alarm_program,

	TP_PROTO(const struct htw_alarm *alarm, u64 expires),

	TP_ARGS(alarm, expires),

	TP_STRUCT__entry(
		__field(u32, uid)
		__field(int, clock)
		__field(u64, expires)
	),

	TP_fast_assign(
		__entry->uid = htw_user_uid(alarm->user);
		__entry->clock = htw_clock_id(alarm->clock);
		__entry->expires = expires;
	),

	TP_printk("uid=%u clock=%d expires=%llu",
		  __entry->uid, __entry->clock, __entry->expires)
);

/*
 * The alarm of a user rang, @late ns after the time for which it was set, for @contexts of
 * which somebody is to be woken.
 */
TRACE_EVENT(htw_alarm_ring,

	TP_PROTO(const struct htw_alarm *alarm, u64 late, unsigned int contexts),

	TP_ARGS(alarm, late, contexts),

	TP_STRUCT__entry(
		__field(u32, uid)
		__field(int, clock)
		__field(u64, late)
		__field(unsigned int, contexts)
	),

	TP_fast_assign(
		__entry->uid = htw_user_uid(alarm->user);
		__entry->clock = htw_clock_id(alarm->clock);
		__entry->late = late;
		__entry->contexts = contexts;
	),

	TP_printk("uid=%u clock=%d late=%llu contexts=%u",
		  __entry->uid, __entry->clock, __entry->late, __entry->contexts)
);

/*
 * Who waits for a context was woken: by the alarm or by a task that found or made a timer
 * due, @deferred is 0; by a kernel thread, 1. It took @took ns.
 */
TRACE_EVENT(htw_wake,

	TP_PROTO(const void *context, bool deferred, u64 took),

	TP_ARGS(context, deferred, took),

	TP_STRUCT__entry(
		__field(const void *, context)
		__field(u64, took)
		__field(unsigned int, deferred)
	),

	TP_fast_assign(
		__entry->context = context;
		__entry->took = took;
		__entry->deferred = deferred;
	),

	TP_printk("context=%p deferred=%u took=%llu",
		  __entry->context, __entry->deferred, __entry->took)
);

#endif /* _TRACE_HTW_H */

#include <trace/define_trace.h>
