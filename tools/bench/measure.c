// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measures each operation of a system, at one number of pending timers
 *
 * A round starts all timers, re-arms all in random order, and cancels all in
 * another order. Small numbers of timers take several rounds. Expiring has rounds
 * of its own. Each round opens the system anew, so "add" includes growing.
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

/* Between two deadlines: a thousand are due in each millisecond. */
#define EXPIRE_EACH	USEC
/* How often events are collected where that takes no system call. */
#define POLL		(200 * USEC)
/* From the end of adding to the first deadline. */
#define EXPIRE_AFTER	(300 * MSEC)

/* Both levels of a wheel of 256 and 64 slots of 1 ms turn once in it. */
#define PERIOD		(256 * 64 * MSEC)
/* A multiple of the finest level's turn, of about a second. */
#define PHASE		(4 * 256 * MSEC)

/* An event that is later than this is lost. */
#define LOST		(60 * SEC)

/* With fewer operations than this, rounds are repeated. */
#define ENOUGH		100000U
#define EXPIRE_ENOUGH	12000U

/* The memory of fewer timers is less than the kernel's reserves vary by. */
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
 * Sleeps until deferred work is done, above all memory that waits for an RCU
 * grace period; then until a wheel of powers of two has the same position as
 * before the last round, because how far timers are moved down depends on it.
 * Under icount, sleeping takes no time.
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

/* Spins while timers expire; returns the number of chunks that it spun. */
static uint64_t pass_time(const struct system *s, struct bench *b, uint64_t until)
{
	uint64_t chunks = 0, now;

	if (!s->polls)
		return spin_until(until);
	while ((now = now_ns()) < until) {
		chunks += spin_until(now + POLL < until ? now + POLL : until);
		s->collect(b);
	}
	return chunks;
}

static void collect_all(const struct system *s, struct bench *b, uint64_t *chunks)
{
	uint64_t deadline = now_ns() + LOST, before;

	while (b->collected < b->pending) {
		before = b->collected;
		s->collect(b);
		if (b->collected != before)
			continue;
		/* Give the kernel time; our own spinning is not counted. */
		*chunks += spin_until(spin_between_ticks(now_ns() + MSEC));
		if (now_ns() > deadline)
			die("%s: lost %llu of %u timers", s->name,
			    (unsigned long long)(b->pending - b->collected), b->pending);
	}
}

/*
 * All timers expire within a short time, during which the guest spins, and are
 * then collected. The figure is what the guest executed from the first deadline
 * on, less the spinning.
 */
static void run_expire(const struct system *s, struct bench *b, uint64_t add_cost,
		       struct total *total)
{
	const uint64_t after = EXPIRE_AFTER + add_cost, range = b->pending * EXPIRE_EACH;
	struct total unused = { };
	uint64_t begin, over, chunks, calibrated;
	double chunk;

	fill_random(b->delay, b->pending, after, range);
	bench_forget_seen(b);
	if (s->prepare)
		s->prepare(b);
	settle();
	calibrated = now_ns();
	chunk = spin_calibrate(after);
	/* Work that the kernel does once a second is then in both. */
	sleep_until(calibrated + (now_ns() - calibrated + PHASE - 1) / PHASE * PHASE);
	s->open(b);
	run_add(s, b, &unused);
	spin_until(spin_between_ticks(now_ns()));
	begin = instructions();
	chunks = spin_until(b->base + after);
	over = b->base + after + range + add_cost + 2 * MSEC;
	chunks += pass_time(s, b, spin_between_ticks(over));
	collect_all(s, b, &chunks);
	total->instructions += instructions() - begin - (uint64_t)(chunks * chunk);
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
