// SPDX-License-Identifier: GPL-2.0-only
/*
 * A plugin of QEMU: what is done while each spinlock is held
 *
 * Each instruction and each access to memory of the guest calls it, after what
 * htw-bench --workload locks asks for with the commands of ../locks.h. A lock
 * is taken by a cmpxchg in a function that takes locks, and released by a store
 * of a byte there. It belongs to the place that called that function, the first
 * that is executed afterwards.
 *
 * A cache line is shared if more than one CPU used it often while learning, and
 * it was written often. Such a line has to come from another CPU's cache each time
 * if all CPUs do the same, in whatever order: the figures are an upper bound,
 * and do not depend on how the emulator interleaves its CPUs, of which one runs
 * at a time. So nothing here needs a lock of its own.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../locks.h"
#include "plugin.h"

__attribute__((visibility("default"))) int qemu_plugin_version = PLUGIN_VERSION;

#define KERNEL			0xffffffff00000000ULL
#define CPUS			LOCKS_CPUS
#define FUNCTIONS		32U
#define EXCHANGES		4096U
#define NESTED			8U
#define SITES			256U
#define LINE_SHIFT		6
/* Powers of two. */
#define LINES			(1U << 20)
#define HELD_LINES		(1U << 12)
/*
 * A cache line is used often if a CPU uses it at least once in OFTEN_OPS
 * operations. Uses within ONCE_INSNS instructions count as one: an interrupt
 * uses its lines many times, but comes seldom.
 */
#define OFTEN_OPS		512U
#define ONCE_INSNS		1000U
/*
 * Most instructions of other functions, such as return thunks, that a CPU
 * executes between the end of a function that takes a lock and its caller.
 */
#define RETURN_STEPS		8U

struct function {
	uint64_t begin, end;
};

struct line {
	uint64_t number;	/* zero: unused */
	struct use {
		uint32_t uses, writes;
		uint64_t used, written;	/* when, in instructions of all CPUs */
	} by[CPUS];
};

/* Totals for the locks that are taken at one place. */
struct site {
	uint64_t pc;
	uint64_t times, insns, max_insns, lines, shared;
};

/* A set of lines that is emptied by starting a new generation. */
struct line_set {
	uint64_t number[HELD_LINES];
	uint32_t generation[HELD_LINES];
	uint32_t now, count, shared;
};

/* A lock that a CPU holds, or, at the bottom, that it holds none. */
struct held {
	uint64_t lock, site, insns;
	unsigned int steps;	/* until the place must be known; zero: it is */
	struct line_set lines;
};

struct cpu {
	struct held held[NESTED];
	unsigned int depth;
};

static FILE *out;
static struct function functions[FUNCTIONS];
static unsigned int nr_functions;
static uint64_t exchanges[EXCHANGES];	/* the kernel's instructions cmpxchg */
static unsigned int nr_exchanges;
static struct function module;
static enum { OFF, LEARN, COUNT } mode;
static struct line *lines;
static unsigned int nr_lines;
static struct cpu cpus[CPUS];
static struct site sites[SITES];
static unsigned int nr_sites;
static uint64_t learnt_ops;	/* of each CPU */
static uint64_t now, counted;	/* instructions of all CPUs */
static uint64_t value;
static char name[128];

static void fail(const char *what)
{
	fprintf(stderr, "locks plugin: %s\n", what);
	exit(1);
}

static bool is_in(const struct function *f, uint64_t pc)
{
	return pc >= f->begin && pc < f->end;
}

static bool is_lock_function(uint64_t pc)
{
	for (unsigned int i = 0; i < nr_functions; i++)
		if (is_in(&functions[i], pc))
			return true;
	return false;
}

static bool is_exchange(uint64_t pc)
{
	for (unsigned int i = 0; i < nr_exchanges; i++)
		if (exchanges[i] == pc)
			return true;
	return false;
}

static struct line *find_line(uint64_t number)
{
	uint32_t i = (uint32_t)((number * 0x9e3779b97f4a7c15ULL) >> 44);

	while (lines[i].number && lines[i].number != number)
		i = (i + 1) & (LINES - 1);
	return &lines[i];
}

static void learn(unsigned int cpu, uint64_t number, bool store)
{
	struct line *line = find_line(number);
	struct use *use;

	if (!line->number) {
		if (++nr_lines > LINES / 2)
			fail("too many cache lines");
		line->number = number;
	}
	use = &line->by[cpu];
	if (!use->uses || now - use->used > ONCE_INSNS) {
		use->uses++;
		use->used = now;
	}
	if (store && (!use->writes || now - use->written > ONCE_INSNS)) {
		use->writes++;
		use->written = now;
	}
}

static bool is_shared(uint64_t number)
{
	const struct line *line = find_line(number);

	const uint64_t often = learnt_ops / OFTEN_OPS;
	unsigned int users = 0, writers = 0;

	for (unsigned int i = 0; i < CPUS; i++) {
		users += line->by[i].uses >= often;
		writers += line->by[i].writes >= often;
	}
	return users > 1 && writers;
}

static void add_line(struct line_set *set, uint64_t number)
{
	uint32_t i = (uint32_t)((number * 0x9e3779b97f4a7c15ULL) >> 52);

	while (set->generation[i] == set->now) {
		if (set->number[i] == number)
			return;
		i = (i + 1) & (HELD_LINES - 1);
	}
	if (set->count >= HELD_LINES / 2)
		return;
	set->generation[i] = set->now;
	set->number[i] = number;
	set->count++;
	set->shared += is_shared(number);
}

static void begin(struct held *h, uint64_t lock, uint64_t site, unsigned int steps)
{
	h->lock = lock;
	h->site = site;
	h->steps = steps;
	h->insns = 0;
	h->lines.now++;
	h->lines.count = 0;
	h->lines.shared = 0;
}

static void account(const struct held *h)
{
	struct site *site = sites;

	while (site < sites + nr_sites && site->pc != h->site)
		site++;
	if (site == sites + nr_sites) {
		if (++nr_sites > SITES)
			fail("locks are taken in too many places");
		*site = (struct site){ .pc = h->site };
	}
	site->times++;
	site->insns += h->insns;
	if (site->max_insns < h->insns)
		site->max_insns = h->insns;
	site->lines += h->lines.count;
	site->shared += h->lines.shared;
}

static void take(struct cpu *cpu, uint64_t lock)
{
	if (cpu->depth + 1 >= NESTED)
		fail("too many nested locks");
	/* What was done without a lock ends here. */
	if (!cpu->depth) {
		account(&cpu->held[0]);
		begin(&cpu->held[0], 0, 0, 0);
	}
	begin(&cpu->held[++cpu->depth], lock, 0, RETURN_STEPS);
}

static void release(struct cpu *cpu, uint64_t lock)
{
	unsigned int i = cpu->depth;

	while (i && cpu->held[i].lock != lock)
		i--;
	/* It was taken before counting began. */
	if (!i)
		return;
	account(&cpu->held[i]);
	/* Locks are released in another order than they were taken only now and then. */
	if (i < cpu->depth)
		memmove(&cpu->held[i], &cpu->held[i + 1],
			(cpu->depth - i) * sizeof(cpu->held[0]));
	cpu->depth--;
}

static void write_counts(uint64_t ops)
{
	fprintf(out, "{\"name\": \"%s\", \"ops\": %" PRIu64 ", \"insns\": %" PRIu64
		", \"sites\": [", name, ops, counted);
	for (unsigned int i = 0; i < nr_sites; i++) {
		const struct site *s = &sites[i];
		const bool ours = is_in(&module, s->pc);

		fprintf(out, "%s{\"place\": \"%s\", \"offset\": %" PRIu64 ", \"times\": %" PRIu64
			", \"insns\": %" PRIu64 ", \"max_insns\": %" PRIu64 ", \"lines\": %" PRIu64
			", \"shared\": %" PRIu64 "}", i ? "," : "",
			ours ? "module" : s->pc ? "kernel" : "none",
			ours ? s->pc - module.begin : s->pc, s->times, s->insns, s->max_insns,
			s->lines, s->shared);
	}
	fprintf(out, "]}\n");
	fflush(out);
}

static void command(enum locks_command which)
{
	const uint64_t address = KERNEL | value;
	const size_t length = strlen(name);

	switch (which) {
	case LOCKS_FUNCTION:
		if (nr_functions == FUNCTIONS)
			fail("too many functions that take locks");
		functions[nr_functions].begin = address;
		break;
	case LOCKS_FUNCTION_END:
		functions[nr_functions++].end = address;
		break;
	case LOCKS_MODULE:
		module.begin = address;
		break;
	case LOCKS_MODULE_END:
		module.end = address;
		break;
	case LOCKS_NAME:
		if (length + 1 < sizeof(name)) {
			name[length] = (char)value;
			name[length + 1] = 0;
		}
		break;
	case LOCKS_LEARN:
		mode = LEARN;
		break;
	case LOCKS_COUNT:
		learnt_ops = value;
		for (unsigned int i = 0; i < CPUS; i++) {
			cpus[i].depth = 0;
			begin(&cpus[i].held[0], 0, 0, 0);
		}
		mode = COUNT;
		break;
	case LOCKS_PAUSE:
		mode = OFF;
		break;
	case LOCKS_WRITE:
		write_counts(value);
		counted = 0;
		nr_sites = 0;
		nr_lines = 0;
		memset(lines, 0, LINES * sizeof(*lines));
		name[0] = 0;
		break;
	case LOCKS_COMMANDS:
		break;
	}
}

static void executed(unsigned int nr, void *pc)
{
	struct cpu *cpu = &cpus[nr];
	struct held *last = &cpu->held[cpu->depth];

	now++;
	if (mode != COUNT)
		return;
	counted++;
	if (last->steps && !is_lock_function((uintptr_t)pc)) {
		last->site = (uintptr_t)pc;
		last->steps = is_in(&module, last->site) ? 0 : last->steps - 1;
	}
	for (unsigned int i = cpu->depth; i > 0; i--)
		cpu->held[i].insns++;
	if (!cpu->depth)
		cpu->held[0].insns++;
}

static void accessed(unsigned int nr, uint32_t info, uint64_t vaddr, void *pc)
{
	const bool store = qemu_plugin_mem_is_store(info);
	struct cpu *cpu = &cpus[nr];

	if (vaddr - LOCKS_VALUE < LOCKS_VALUE_SIZE)
		value = vaddr - LOCKS_VALUE;
	else if (store && vaddr - LOCKS_COMMAND < LOCKS_COMMANDS)
		command((enum locks_command)(vaddr - LOCKS_COMMAND));
	if (mode == LEARN)
		learn(nr, vaddr >> LINE_SHIFT, store);
	if (mode != COUNT)
		return;

	if (store && is_lock_function((uintptr_t)pc)) {
		if (is_exchange((uintptr_t)pc))
			take(cpu, vaddr);
		else if (qemu_plugin_mem_size_shift(info) == 0)
			release(cpu, vaddr);
	}
	for (unsigned int i = cpu->depth; i > 0; i--)
		add_line(&cpu->held[i].lines, vaddr >> LINE_SHIFT);
	if (!cpu->depth)
		add_line(&cpu->held[0].lines, vaddr >> LINE_SHIFT);
}

static void note_exchange(const struct qemu_plugin_insn *insn, uint64_t pc)
{
	char *text;

	if (pc < KERNEL || is_exchange(pc))
		return;
	text = qemu_plugin_insn_disas(insn);
	if (text && strstr(text, "cmpxchg")) {
		if (nr_exchanges == EXCHANGES)
			fail("too many cmpxchg");
		exchanges[nr_exchanges++] = pc;
	}
	free(text);
}

static void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
	const size_t count = qemu_plugin_tb_n_insns(tb);

	(void)id;
	for (size_t i = 0; i < count; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		void *pc = (void *)(uintptr_t)qemu_plugin_insn_vaddr(insn);

		note_exchange(insn, (uintptr_t)pc);
		qemu_plugin_register_vcpu_insn_exec_cb(insn, executed, QEMU_PLUGIN_CB_NO_REGS, pc);
		qemu_plugin_register_vcpu_mem_cb(insn, accessed, QEMU_PLUGIN_CB_NO_REGS,
						 QEMU_PLUGIN_MEM_RW, pc);
	}
}

/* The only argument is out=FILE. */
__attribute__((visibility("default")))
int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
	(void)info;
	lines = calloc(LINES, sizeof(*lines));
	if (argc != 1 || strncmp(argv[0], "out=", 4) || !lines)
		return -1;
	out = fopen(argv[0] + 4, "w");
	if (!out) {
		perror(argv[0]);
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
