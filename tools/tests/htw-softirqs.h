/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long softirqs wait
 *
 * Timers of another descriptor interrupt the CPU all the time, and each interrupt raises a
 * softirq. The tracepoints irq:softirq_raise and irq:softirq_entry show how long it waits.
 */
#ifndef HTW_SOFTIRQS_TEST_H
#define HTW_SOFTIRQS_TEST_H

#include "../common/ksoftirqd.h"
#include "htw-cpu.h"

#define WAIT_MAX_US	100

/* Interrupts while a call is measured: how many, and how far apart. */
#define INTERRUPTS	10000
#define INTERRUPT_NS	(100 * USEC)

/* Have a descriptor's timers interrupt this CPU. */
static inline int interrupts_start(void)
{
	const struct htw_setup setup = {
		.flags = HTW_SETUP_PRIVATE, .tick_ns = INTERRUPT_NS, .levels = 3,
		.slots = { 256, 64, 64 },
	};
	int fd = htw_open(O_NONBLOCK);
	struct htw_op ops[BATCH];
	__u64 when;

	/* Softirqs that have to wait for it do not wait for htw alone. */
	if (fd < 0 || htw_set_up(fd, setup) || !raise_ksoftirqd(1))
		return -1;
	when = now_ns() + 10 * MSEC;
	for (unsigned int i = 0; i < INTERRUPTS; i += BATCH) {
		for (unsigned int j = 0; j < BATCH; j++)
			ops[j] = htw_op_add(when + (i + j) * INTERRUPT_NS, 0);
		if (htw_batch_all(fd, ops, BATCH))
			return -1;
	}
	return fd;
}

/* Entries are traced first, so that none of those that were raised lacks its own. */
static inline bool trace_softirqs(bool on)
{
	return (!on || (trace_clear() &&
			!htw_write_file(TRACING "buffer_size_kb", "32768") &&
			!htw_write_file(TRACING "events/irq/softirq_raise/filter", "vec == 8") &&
			!htw_write_file(TRACING "events/irq/softirq_entry/filter", "vec == 8"))) &&
	       !htw_write_file(TRACING "events/irq/softirq_entry/enable", on ? "1" : "0") &&
	       !htw_write_file(TRACING "events/irq/softirq_raise/enable", on ? "1" : "0");
}

/*
 * The longest time from raising the softirq of hrtimers to running it, in us. An interrupt of
 * the softirq itself ('H') does not count: htw's own work is bounded elsewhere.
 */
static inline unsigned int longest_wait(unsigned int *raised)
{
	FILE *file = fopen(TRACING "trace", "re");
	unsigned int longest = 0;
	double since = 0, at;
	char line[512], flags[16], *event;

	*raised = 0;
	while (file && fgets(line, sizeof(line), file)) {
		event = strstr(line, ": softirq_");
		if (!event || sscanf(strchr(line, ']') + 1, "%15s %lf", flags, &at) != 2)
			continue;
		if (!strncmp(event, ": softirq_raise", 15)) {
			if (!since && strchr(flags, 'h')) {
				since = at;
				++*raised;
			}
		} else if (since) {
			if ((at - since) * 1e6 > longest)
				longest = (at - since) * 1e6 + 0.5;
			since = 0;
		}
	}
	if (file)
		fclose(file);
	return longest;
}

/* Since trace_softirqs(), while @other, of interrupts_start(), had timers left. */
static inline void expect_waits(struct __test_metadata *_metadata, int other,
				unsigned int most_us)
{
	unsigned int longest, raised;

	ASSERT_GT(htw_info(other).timers, htw_info(other).expired);
	ASSERT_TRUE(trace_softirqs(false));
	longest = longest_wait(&raised);
	TH_LOG("%u softirqs waited for %u us at most", raised, longest);
	EXPECT_LT(10, raised);
	EXPECT_GE(most_us, longest);
	close(other);
}

static inline void expect_short_waits(struct __test_metadata *_metadata, int other)
{
	expect_waits(_metadata, other, WAIT_MAX_US);
}

#endif
