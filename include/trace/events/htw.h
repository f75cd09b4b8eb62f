/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM htw

#if !defined(_TRACE_HTW_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_HTW_H

#include <linux/tracepoint.h>

/* Deadlines and intervals are in ns, on the context's clock. */
DECLARE_EVENT_CLASS(htw_timer_class,

	TP_PROTO(u64 id, u64 cookie, u64 deadline, u64 interval),

	TP_ARGS(id, cookie, deadline, interval),

	TP_STRUCT__entry(
		__field(u64, id)
		__field(u64, cookie)
		__field(u64, deadline)
		__field(u64, interval)
	),

	TP_fast_assign(
		__entry->id = id;
		__entry->cookie = cookie;
		__entry->deadline = deadline;
		__entry->interval = interval;
	),

	TP_printk("id=%#llx cookie=%#llx deadline=%llu interval=%llu",
		  __entry->id, __entry->cookie, __entry->deadline, __entry->interval)
);

DEFINE_EVENT(htw_timer_class, htw_add,
	TP_PROTO(u64 id, u64 cookie, u64 deadline, u64 interval),
	TP_ARGS(id, cookie, deadline, interval));

/* A timer was changed; the fields hold the new values. */
DEFINE_EVENT(htw_timer_class, htw_mod,
	TP_PROTO(u64 id, u64 cookie, u64 deadline, u64 interval),
	TP_ARGS(id, cookie, deadline, interval));

/* A cancel returned 0 or a negative error. */
TRACE_EVENT(htw_cancel,

	TP_PROTO(u64 id, int result),

	TP_ARGS(id, result),

	TP_STRUCT__entry(
		__field(u64, id)
		__field(int, result)
	),

	TP_fast_assign(
		__entry->id = id;
		__entry->result = result;
	),

	TP_printk("id=%#llx result=%d", __entry->id, __entry->result)
);

/*
 * A timer expired. @late is in ns; negative only if the timer has HTW_F_CANCEL_ON_SET and the
 * clock was set.
 */
TRACE_EVENT(htw_expire,

	TP_PROTO(u64 id, u64 cookie, u64 deadline, u64 now),

	TP_ARGS(id, cookie, deadline, now),

	TP_STRUCT__entry(
		__field(u64, id)
		__field(u64, cookie)
		__field(u64, deadline)
		__field(s64, late)
	),

	TP_fast_assign(
		__entry->id = id;
		__entry->cookie = cookie;
		__entry->deadline = deadline;
		__entry->late = now - deadline;
	),

	TP_printk("id=%#llx cookie=%#llx deadline=%llu late=%lld",
		  __entry->id, __entry->cookie, __entry->deadline, __entry->late)
);

/* @moved timers of a wheel were moved to finer levels. */
TRACE_EVENT(htw_cascade,

	TP_PROTO(unsigned int cpu, u64 moved),

	TP_ARGS(cpu, moved),

	TP_STRUCT__entry(
		__field(unsigned int, cpu)
		__field(u64, moved)
	),

	TP_fast_assign(
		__entry->cpu = cpu;
		__entry->moved = moved;
	),

	TP_printk("cpu=%u moved=%llu", __entry->cpu, __entry->moved)
);

/* A user has used up its share of a CPU: its timers there wait for @ns. */
TRACE_EVENT(htw_throttle,

	TP_PROTO(unsigned int cpu, u32 uid, u64 ns),

	TP_ARGS(cpu, uid, ns),

	TP_STRUCT__entry(
		__field(unsigned int, cpu)
		__field(u32, uid)
		__field(u64, ns)
	),

	TP_fast_assign(
		__entry->cpu = cpu;
		__entry->uid = uid;
		__entry->ns = ns;
	),

	TP_printk("cpu=%u uid=%u ns=%llu", __entry->cpu, __entry->uid, __entry->ns)
);

/* A wheel's hrtimer was programmed; @expires is in ns on the wheel's clock. */
TRACE_EVENT(htw_program,

	TP_PROTO(unsigned int cpu, u64 expires),

	TP_ARGS(cpu, expires),

	TP_STRUCT__entry(
		__field(unsigned int, cpu)
		__field(u64, expires)
	),

	TP_fast_assign(
		__entry->cpu = cpu;
		__entry->expires = expires;
	),

	TP_printk("cpu=%u expires=%llu", __entry->cpu, __entry->expires)
);

#endif /* _TRACE_HTW_H */

#include <trace/define_trace.h>
