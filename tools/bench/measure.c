// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measure each operation of a system with one number of pending timers
 *
 * A round starts all timers, re-arms all in random order and cancels all in
 * another order. Few timers take several rounds. Expiring has rounds of its
 * own. Each round opens the system again, so "add" includes its growth.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "bench.h"
#include "measure.h"
#include "memory.h"
#include "report.h"
#include "spin.h"

/* Distance of deadlines: a thousand in each millisecond. */
#define EXPIRE_EACH	USEC
/* Interval of collecting events where that takes no system call. */
#define POLL		(200 * USEC)
/* From the last add to the first deadline. */
#define EXPIRE_AFTER	(300 * MSEC)

/* Two levels of 256 and 64 buckets of 1 ms turn once in this time. */
#define PERIOD		(256 * 64 * MSEC)
/* About a second, and a multiple of level 0's turn. */
#define PHASE		(4 * 256 * MSEC)

/* An event that is later than this is lost. */
#define LOST		(60 * SEC)

/* Repeat rounds until there are as many operations. */
#define ENOUGH		100000U
#define EXPIRE_ENOUGH	12000U

/* With fewer timers, the kernel's reserves vary by more than the timers' memory. */
#define MEMORY_MIN	100000U

const char * const op_names[OPS] = {
	[OP_ADD]	= "add",
	[OP_REARM]	= "rearm",
	[OP_CANCEL]	= "cancel",
	[OP_EXPIRE]	= "expire",
	[OP_MEMORY]	= "memory",
	[OP_CLOSE]	= "close",
};

struct total {
	uint64_t instructions;
	uint64_t count;
};

/*
 * Sleep until deferred work is done, above all freeing after an RCU grace
 * period; then until wheels of powers of two are at the position of the last
 * round, because the moves between levels depend on it. Under icount, sleeping
 * takes no time.
 */
void settle(void)
{
	uint64_t until = now_ns() + SEC;

	until += PERIOD - until % PERIOD;
	sleep_until(until);
}

static uint32_t bounded(const struct system *s, enum op_code op, uint32_t pending)
{
	uint32_t most = s->bound ? s->bound(op, pending) : 0;

	return most && most < pending ? most : pending;
}

static void run_add(const struct system *s, struct bench *b, struct total *t)
{
	uint64_t begin;

	b->base = now_ns();
	begin = instructions();
	s->add(b);
	t->instructions += instructions() - begin;
	t->count += b->pending;
}

static void run_on(void (*operation)(struct bench *b, uint32_t count), struct bench *b,
		   uint32_t count, struct total *t)
{
	uint64_t begin = instructions();

	operation(b, count);
	t->instructions += instructions() - begin;
	t->count += count;
}

/* One round of all operations but expiring. */
static void run_round(const struct system *s, struct bench *b, struct total *total)
{
	uint64_t begin, memory;

	if (s->prepare)
		s->prepare(b);
	settle();
	memory = memory_free();
	s->open(b);
	run_add(s, b, &total[OP_ADD]);
	total[OP_MEMORY].instructions += memory - memory_free();
	total[OP_MEMORY].count += b->pending;
	run_on(s->rearm, b, bounded(s, OP_REARM, b->pending), &total[OP_REARM]);
	run_on(s->cancel, b, bounded(s, OP_CANCEL, b->pending), &total[OP_CANCEL]);
	begin = instructions();
	s->close(b);
	total[OP_CLOSE].instructions += instructions() - begin;
	total[OP_CLOSE].count += b->pending;
	if (s->cleanup)
		s->cleanup(b);
}

/* Spin while timers expire; return the number of spin units. */
static uint64_t pass_time(const struct system *s, struct bench *b, uint64_t until)
{
	uint64_t units = 0, now;

	if (!s->polls)
		return spin_until(until);
	while ((now = now_ns()) < until) {
		units += spin_until(now + POLL < until ? now + POLL : until);
		s->collect(b);
	}
	return units;
}

static void collect_all(const struct system *s, struct bench *b, uint64_t *units)
{
	uint64_t deadline = now_ns() + LOST, before;

	while (b->collected < b->pending) {
		before = b->collected;
		s->collect(b);
		if (b->collected != before)
			continue;
		/* Give the kernel time; the spinning is subtracted. */
		*units += spin_until(spin_between_ticks(now_ns() + MSEC));
		if (now_ns() > deadline)
			die("%s: lost %llu of %u timers", s->name,
			    (unsigned long long)(b->pending - b->collected), b->pending);
	}
}

/*
 * All timers expire within a short time, while the guest spins, and are then
 * collected. The result is what the guest executed from the first deadline on,
 * less the spinning.
 */
static void run_expire(const struct system *s, struct bench *b, uint64_t add_cost,
		       struct total *total)
{
	const uint64_t after = EXPIRE_AFTER + add_cost, range = b->pending * EXPIRE_EACH;
	struct total unused = { };
	uint64_t begin, over, units, calibrated;
	double unit_cost;

	fill_random(b->delay, b->pending, after, range);
	bench_forget_seen(b);
	if (s->prepare)
		s->prepare(b);
	settle();
	calibrated = now_ns();
	unit_cost = spin_calibrate(after);
	/* Both phases then contain the kernel's work of once a second. */
	sleep_until(calibrated + (now_ns() - calibrated + PHASE - 1) / PHASE * PHASE);
	s->open(b);
	run_add(s, b, &unused);
	spin_until(spin_between_ticks(now_ns()));
	begin = instructions();
	units = spin_until(b->base + after);
	over = b->base + after + range + add_cost + 2 * MSEC;
	units += pass_time(s, b, spin_between_ticks(over));
	collect_all(s, b, &units);
	total->instructions += instructions() - begin - (uint64_t)(units * unit_cost);
	total->count += b->pending;
	s->close(b);
	if (s->cleanup)
		s->cleanup(b);
}

static double each(const struct total *t)
{
	return (double)t->instructions / t->count;
}

static void report_op(const struct system *s, enum op_code op, uint32_t pending,
		      const struct total *total)
{
	if (op == OP_MEMORY && pending < MEMORY_MIN)
		return;
	if (op == OP_CLOSE && !s->closes)
		return;
	report(s->name, op_names[op], pending, each(&total[op]),
	       op == OP_MEMORY ? "bytes" : "insn/op");
	if ((op == OP_REARM || op == OP_CANCEL) && total[op].count < pending)
		progress("%s %s at %u: measured on %llu of them", s->name,
			 op_names[op], pending, (unsigned long long)total[op].count);
}

void measure(const struct system *s, uint32_t pending, unsigned int ops)
{
	const char *why = s->missing ? s->missing(pending) : NULL;
	struct total total[OPS] = { };
	struct bench b;
	enum op_code op;

	if (why) {
		for (op = 0; op < OPS; op++)
			if (ops & 1 << op && op != OP_CLOSE)
				report_missing(s->name, op_names[op], pending, why);
		return;
	}
	bench_init(&b, pending);
	do {
		run_round(s, &b, total);
	} while (total[OP_ADD].count < ENOUGH);
	while (ops & 1 << OP_EXPIRE && total[OP_EXPIRE].count < pending + EXPIRE_ENOUGH)
		run_expire(s, &b, pending * (uint64_t)each(&total[OP_ADD]) * 3 / 2,
			   &total[OP_EXPIRE]);
	for (op = 0; op < OPS; op++)
		if (ops & 1 << op)
			report_op(s, op, pending, total);
	bench_exit(&b);
}

void measure_syscall(void)
{
	uint64_t begin = instructions();
	unsigned int i;

	for (i = 0; i < ENOUGH; i++)
		if (unlikely(syscall(SYS_getppid) < 0))
			die("getppid: %s", strerror(errno));
	report("kernel", "syscall", 0, (double)(instructions() - begin) / ENOUGH, "insn/op");
}
