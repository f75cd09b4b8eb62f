// SPDX-License-Identifier: GPL-2.0-only
/* The report of htw-demo, as text and as JSON. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "../common/clock.h"
#include "demo.h"

const char *grouped(uint64_t n)
{
	static char buffers[8][32];
	static unsigned int turn;
	char *p = buffers[turn++ % 8] + 31;
	unsigned int digits = 0;

	*p = '\0';
	do {
		if (digits && digits % 3 == 0)
			*--p = ',';
		*--p = '0' + n % 10;
		n /= 10;
		digits++;
	} while (n);
	return p;
}

static const char *duration(uint64_t ns)
{
	static const struct {
		uint64_t ns;
		const char *name;
	} units[] = {
		{ 86400 * SEC, "d" }, { 3600 * SEC, "h" },
		{ 60 * SEC, "min" }, { SEC, "s" },
		{ MSEC, "ms" }, { 1000, "us" }, { 1, "ns" },
	};
	static char buffers[8][32];
	static unsigned int turn;
	char *p = buffers[turn++ % 8];
	unsigned int i = 0;

	while (i < 6 && ns < units[i].ns)
		i++;
	if (ns % units[i].ns == 0)
		snprintf(p, 32, "%" PRIu64 " %s", ns / units[i].ns, units[i].name);
	else
		snprintf(p, 32, "%.1f %s", (double)ns / units[i].ns, units[i].name);
	return p;
}

void print_progress(const char *doing, bool force)
{
	static uint64_t last;
	uint64_t now = now_ns(), part = opt.orders ? 24 * demo.open / opt.orders : 0;
	char bar[24 * 3 + 1] = "";
	unsigned int i;

	if (!last)
		last = demo.begin;
	if (opt.json || (!force && now - last < SEC))
		return;
	last = now;
	for (i = 0; i < 24; i++)
		strcat(bar, i < part ? "█" : "░");
	printf("%5.1f s  %-11s %s %9s open %9s settled %7s expired\n",
	       (now - demo.begin) / 1e9, doing, bar, grouped(demo.open),
	       grouped(demo.cancelled), grouped(demo.expired));
	fflush(stdout);
}

static uint64_t percentile(unsigned int percent)
{
	uint64_t n = demo.late.count;

	return n ? demo.late.ns[(n - 1) * percent / 100] : 0;
}

static uint64_t per_second(uint64_t count, uint64_t ns)
{
	return ns ? (uint64_t)((double)count * SEC / ns) : 0;
}

static uint64_t bytes_each(void)
{
	return opt.orders ? demo.memory / (opt.orders + opt.recurring) : 0;
}

/* Draw in eighths of a character, so that small values show. */
static void draw_bar(uint64_t value, uint64_t most, unsigned int width)
{
	static const char * const parts[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
	uint64_t eighths = most ? (value * width * 8 + most - 1) / most : 0, i;

	for (i = 0; i < eighths / 8; i++)
		fputs("█", stdout);
	fputs(parts[eighths % 8], stdout);
	for (i = (eighths + 7) / 8; i < width; i++)
		fputc(' ', stdout);
}

void print_picture(void)
{
	const struct wheels *w = &demo.fullest;
	unsigned int i;
	char slot[32];

	printf("\nThe wheels at their fullest: %s timers pending\n\n", grouped(w->pending));
	for (i = 0; i < w->levels; i++) {
		const struct level *l = &w->level[i];

		snprintf(slot, sizeof(slot), "%s/slot", duration(l->span * w->tick_ns));
		printf("  level %u  %-13s ", i, slot);
		draw_bar(l->occupied, l->buckets, 28);
		printf(" %4s of %s buckets in use\n", grouped(l->occupied), grouped(l->buckets));
	}
}

static void row(const char *name, const char *value, const char *remark)
{
	printf("  %-22s %14s%s%s\n", name, value, *remark ? "  " : "", remark);
}

void print_table(void)
{
	char remark[80];

	printf("\n");
	snprintf(remark, sizeof(remark), "in batches of %u, and %s recurring", BATCH,
		 grouped(opt.recurring));
	row("added", grouped(demo.added), remark);
	row("cancelled", grouped(demo.cancelled), "their orders settled");
	snprintf(remark, sizeof(remark), "read; %s just as their orders settled",
		 grouped(demo.too_late));
	row("expired", grouped(demo.expired), demo.too_late ? remark : "read");
	row("recurrences read", grouped(demo.recurred), "");
	row("missed", grouped(demo.missed), "recurrences, while the program was busy");
	row("early", grouped(demo.early), "");
	row("lost", grouped(demo.open), "");
	if (demo.twice || demo.stray) {
		row("ended twice", grouped(demo.twice), "");
		row("not ours", grouped(demo.stray), "");
	}
	row("lateness p50", duration(percentile(50)), "from deadline to firing");
	row("lateness p99", duration(percentile(99)), "");
	row("lateness max", duration(percentile(100)), "");
	row("adds per second", grouped(per_second(demo.added, demo.add_ns)), "");
	row("cancels per second", grouped(per_second(demo.settled, demo.cancel_ns)), "");
	row("reads per second", grouped(per_second(demo.reads, demo.read_ns)), "");
	row("bytes per timer", grouped(bytes_each()), "from the machine's free memory");
	row("alarms", grouped(demo.rings), "hrtimer callbacks that woke the program");
}

void print_json(void)
{
	const struct wheels *w = &demo.fullest;
	unsigned int i;

	printf("{\n");
#define FIELD(name, value) printf("  \"%s\": %" PRIu64 ",\n", name, (uint64_t)(value))
	FIELD("added", demo.added);
	FIELD("recurring", opt.recurring);
	FIELD("cancelled", demo.cancelled);
	FIELD("expired", demo.expired);
	FIELD("cancelled_too_late", demo.too_late);
	FIELD("recurrences", demo.recurred);
	FIELD("missed", demo.missed);
	FIELD("early", demo.early);
	FIELD("lost", demo.open);
	FIELD("ended_twice", demo.twice);
	FIELD("not_ours", demo.stray);
	FIELD("lateness_p50_ns", percentile(50));
	FIELD("lateness_p99_ns", percentile(99));
	FIELD("lateness_max_ns", percentile(100));
	FIELD("adds_per_second", per_second(demo.added, demo.add_ns));
	FIELD("cancels_per_second", per_second(demo.settled, demo.cancel_ns));
	FIELD("reads_per_second", per_second(demo.reads, demo.read_ns));
	FIELD("bytes_per_timer", bytes_each());
	FIELD("alarms", demo.rings);
	FIELD("tick_ns", w->tick_ns);
	FIELD("fullest_pending", w->pending);
#undef FIELD
	printf("  \"fullest_levels\": [");
	for (i = 0; i < w->levels; i++)
		printf("%s\n    { \"span_ns\": %" PRIu64 ", \"buckets\": %" PRIu64
		       ", \"in_use\": %" PRIu64 " }", i ? "," : "",
		       w->level[i].span * w->tick_ns, w->level[i].buckets,
		       w->level[i].occupied);
	printf("%s]\n}\n", w->levels ? "\n  " : "");
}
