/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM htw_callout

#if !defined(_TRACE_HTW_CALLOUT_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_HTW_CALLOUT_H

#include <linux/htw.h>
#include <linux/tracepoint.h>

/* Times are in ns of CLOCK_MONOTONIC. */
DECLARE_EVENT_CLASS(htw_callout_class,

	TP_PROTO(struct htw_callout *callout),

	TP_ARGS(callout),

	TP_STRUCT__entry(
		__field(void *, callout)
	),

	TP_fast_assign(
		__entry->callout = callout;
	),

	TP_printk("callout=%p", __entry->callout)
);

DEFINE_EVENT(htw_callout_class, htw_callout_init,
	TP_PROTO(struct htw_callout *callout),
	TP_ARGS(callout));

/* A pending callout was cancelled, or is started again: as timer_cancel of timer_list. */
DEFINE_EVENT(htw_callout_class, htw_callout_cancel,
	TP_PROTO(struct htw_callout *callout),
	TP_ARGS(callout));

/* A callout was started, or moved; it is called at @expires. */
TRACE_EVENT(htw_callout_start,

	TP_PROTO(struct htw_callout *callout, u64 deadline, u64 slack, u64 expires),

	TP_ARGS(callout, deadline, slack, expires),

	TP_STRUCT__entry(
		__field(void *, callout)
		__field(void *, function)
		__field(u64, deadline)
		__field(u64, slack)
		__field(u64, expires)
	),

	TP_fast_assign(
		__entry->callout = callout;
		__entry->function = callout->function;
		__entry->deadline = deadline;
		__entry->slack = slack;
		__entry->expires = expires;
	),

	TP_printk("callout=%p function=%ps deadline=%llu slack=%llu expires=%llu",
		  __entry->callout, __entry->function, __entry->deadline, __entry->slack,
		  __entry->expires)
);

/* The function of a callout is about to be called, by a softirq that has read the clock at @now. */
TRACE_EVENT(htw_callout_expire_entry,

	TP_PROTO(struct htw_callout *callout, void *function, u64 now),

	TP_ARGS(callout, function, now),

	TP_STRUCT__entry(
		__field(void *, callout)
		__field(void *, function)
		__field(u64, now)
	),

	TP_fast_assign(
		__entry->callout = callout;
		__entry->function = function;
		__entry->now = now;
	),

	TP_printk("callout=%p function=%ps now=%llu",
		  __entry->callout, __entry->function, __entry->now)
);

/* It has returned. The callout may have been freed. */
DEFINE_EVENT(htw_callout_class, htw_callout_expire_exit,
	TP_PROTO(struct htw_callout *callout),
	TP_ARGS(callout));

#endif /* _TRACE_HTW_CALLOUT_H */

#include <trace/define_trace.h>
