/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Programs: sequences of calls with their arguments, as text, at random, and mutated
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#define PROGRAM_CALLS	24
#define CALL_ARGS	12
/* Enough for the text of any program. */
#define PROGRAM_TEXT	(PROGRAM_CALLS * (16 + CALL_ARGS * 17))

/* What an argument stands for, which says how it is drawn. */
enum arg_kind {
	ARG_NONE,
	ARG_FD,		/* a context of the program */
	ARG_BUFFER,	/* enum buffer_kind */
	ARG_TIME,	/* ns; see time_of() */
	ARG_PERIOD,	/* zero, or a time that is a period or slack */
	ARG_RARE,	/* zero as a rule, or a count */
	ARG_ID,		/* see id_of() */
	ARG_CURSOR,	/* the last one, or a number */
	ARG_FLAGS,	/* bits of @most, or now and then any */
	ARG_CLOCK,
	ARG_COUNT,	/* small as a rule */
	ARG_BELOW,	/* 0 to @most - 1 */
	ARG_SIZE,	/* of a buffer: see size_of() */
	ARG_SLOTS,	/* geometry of the wheels: see slots_of() */
	ARG_RESERVED,	/* zero, or now and then not */
	ARG_ANY,
};

struct arg {
	enum arg_kind kind;
	__u64 most;
};

struct call {
	__u8 number;	/* index into call_types */
	__u64 args[CALL_ARGS];
};

struct program {
	unsigned int count;
	struct call calls[PROGRAM_CALLS];
};

__u64 draw_time(__u64 *seed);
__u64 draw_flags(__u64 *seed, __u64 known);
bool one_in(__u64 *seed, unsigned int n);

/* Return the length of the text, without its end. */
size_t program_print(const struct program *p, char *text);
/* Return NULL, or what is wrong with @text. */
const char *program_parse(struct program *p, const char *text);

void program_draw(struct program *p, __u64 *seed);
/* Change @p; parts of @other may be copied into it. */
void program_mutate(struct program *p, const struct program *other, __u64 *seed);
void program_drop(struct program *p, unsigned int at);

#endif /* PROGRAM_H */
