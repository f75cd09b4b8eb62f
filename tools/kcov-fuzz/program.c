// SPDX-License-Identifier: GPL-2.0-only
#include "program.h"

#include <stdlib.h>
#include <string.h>
#include <linux/htw.h>
#include <time.h>

#include "../common/clock.h"
#include "../common/random.h"
#include "calls.h"
#include "scene.h"

static __u64 below(__u64 *seed, __u64 n)
{
	/* The low bits of xorshift64 are the weaker ones. */
	return (xorshift64(seed) >> 16) % n;
}

bool one_in(__u64 *seed, unsigned int n)
{
	return !below(seed, n);
}

/* Times that have bits in common with limits and levels, or a few ticks that expire soon. */
__u64 draw_time(__u64 *seed)
{
	switch (below(seed, 8)) {
	case 0:
		return 0;
	case 1:
		return below(seed, 4);
	case 2:
		return below(seed, 100 * USEC);
	case 3:
	case 4:
		return below(seed, 3 * MSEC);
	case 5:
		return below(seed, 3600) * SEC;
	case 6:
		return (1ULL << below(seed, 64)) - 1 + below(seed, 3);
	default:
		return ~0ULL - below(seed, 3) * (1ULL << 63);
	}
}

__u64 draw_flags(__u64 *seed, __u64 known)
{
	__u64 flags = xorshift64(seed) & known;

	if (one_in(seed, 2))
		flags &= xorshift64(seed);
	if (one_in(seed, 32))
		flags ^= 1ULL << below(seed, 33);
	return flags;
}

static __u64 draw_clock(__u64 *seed)
{
	static const int clocks[] = {
		CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME, HTW_CLOCK_MANUAL,
		HTW_CLOCK_MANUAL, CLOCK_TAI, CLOCK_REALTIME_ALARM, -1,
	};

	return (__u32)clocks[below(seed, 8)];
}

static __u64 draw_arg(const struct arg *arg, __u64 *seed)
{
	switch (arg->kind) {
	case ARG_FD:
		return one_in(seed, 3) ? below(seed, FDS) : 0;
	case ARG_BUFFER:
		return one_in(seed, 8) ? below(seed, BUFFER_KINDS) : BUFFER_GOOD;
	case ARG_TIME:
		return draw_time(seed);
	case ARG_PERIOD:
		return one_in(seed, 2) ? 0 :
		       one_in(seed, 2) ? draw_time(seed) : (1 + below(seed, 20)) * MSEC;
	case ARG_RARE:
		return one_in(seed, 8) ? below(seed, 12) : 0;
	case ARG_ID:
		return (one_in(seed, 8) ? below(seed, 8) : 0) << 8 |
		       below(seed, one_in(seed, 2) ? 4 : IDS);
	case ARG_CURSOR:
		return one_in(seed, 2) ? 0 : one_in(seed, 4) ? draw_time(seed) : 1;
	case ARG_FLAGS:
		return draw_flags(seed, arg->most);
	case ARG_CLOCK:
		return draw_clock(seed);
	case ARG_COUNT:
		return one_in(seed, 64) ? below(seed, 3000) :
		       one_in(seed, 4) ? below(seed, 300) : below(seed, 12);
	case ARG_BELOW:
		return below(seed, arg->most);
	case ARG_SIZE:
		return one_in(seed, 4) ? below(seed, 1 << 16) : below(seed, 4);
	case ARG_RESERVED:
		return one_in(seed, 64) ? 1ULL << below(seed, 64) : 0;
	default:
		return xorshift64(seed);
	}
}

static void draw_call(struct call *call, __u64 *seed)
{
	static unsigned int weights;
	const struct call_type *type;
	unsigned int at;

	if (!weights) {
		for (unsigned int i = 0; i < nr_call_types; i++)
			weights += call_types[i].weight;
	}
	at = below(seed, weights);
	for (type = call_types; at >= type->weight; type++)
		at -= type->weight;
	*call = (struct call){ .number = type - call_types };
	for (unsigned int i = 0; i < CALL_ARGS && type->args[i].kind; i++)
		call->args[i] = draw_arg(&type->args[i], seed);
}

void program_draw(struct program *p, __u64 *seed)
{
	p->count = 2 + below(seed, PROGRAM_CALLS - 1);
	for (unsigned int i = 0; i < p->count; i++)
		draw_call(&p->calls[i], seed);
	/* The first type opens a context, as any program has to. */
	p->calls[0] = (struct call){ .number = 0 };
}

void program_drop(struct program *p, unsigned int at)
{
	memmove(&p->calls[at], &p->calls[at + 1], (p->count - at - 1) * sizeof(*p->calls));
	p->count--;
}

static void insert(struct program *p, const struct call *call, __u64 *seed)
{
	unsigned int at = below(seed, p->count + 1);

	if (p->count == PROGRAM_CALLS)
		program_drop(p, below(seed, p->count));
	if (at > p->count)
		at = p->count;
	memmove(&p->calls[at + 1], &p->calls[at], (p->count - at) * sizeof(*p->calls));
	p->calls[at] = *call;
	p->count++;
}

static void change_arg(struct call *call, __u64 *seed)
{
	const struct arg *args = call_types[call->number].args;
	unsigned int n = 0, i;

	while (n < CALL_ARGS && args[n].kind)
		n++;
	if (!n)
		return;
	i = below(seed, n);
	switch (below(seed, 6)) {
	case 0:
		call->args[i] ^= 1ULL << below(seed, 64);
		break;
	case 1:
		call->args[i] += below(seed, 2) ? 1 : -1;
		break;
	default:
		call->args[i] = draw_arg(&args[i], seed);
	}
}

static void splice(struct program *p, const struct program *other, __u64 *seed)
{
	unsigned int keep = below(seed, p->count + 1), from = below(seed, other->count + 1);

	p->count = keep;
	while (from < other->count && p->count < PROGRAM_CALLS)
		p->calls[p->count++] = other->calls[from++];
}

void program_mutate(struct program *p, const struct program *other, __u64 *seed)
{
	struct call call;

	do {
		switch (p->count ? below(seed, 10) : 0) {
		case 0:
		case 1:
		case 2:
			draw_call(&call, seed);
			insert(p, &call, seed);
			break;
		case 3:
			program_drop(p, below(seed, p->count));
			break;
		case 4:
			call = p->calls[below(seed, p->count)];
			insert(p, &call, seed);
			break;
		case 5:
			splice(p, other, seed);
			break;
		default:
			change_arg(&p->calls[below(seed, p->count)], seed);
		}
	} while (!p->count || !one_in(seed, 4));
}

static char *print_hex(char *at, __u64 value)
{
	unsigned int digits = 1;

	while (digits < 16 && value >> 4 * digits)
		digits++;
	while (digits--)
		*at++ = "0123456789abcdef"[value >> 4 * digits & 15];
	return at;
}

/* For each program that is run: not by printf(). Arguments of zero at the end are left out. */
size_t program_print(const struct program *p, char *text)
{
	char *at = text;

	for (unsigned int i = 0; i < p->count; i++) {
		const struct call *call = &p->calls[i];
		unsigned int n = CALL_ARGS;

		if (i)
			at = stpcpy(at, "; ");
		at = stpcpy(at, call_types[call->number].name);
		while (n && !call->args[n - 1])
			n--;
		for (unsigned int k = 0; k < n; k++) {
			*at++ = ' ';
			at = print_hex(at, call->args[k]);
		}
	}
	*at = '\0';
	return at - text;
}

static const char *parse_call(struct call *call, const char *text, const char **end)
{
	size_t length = strcspn(text, " ;\n");
	unsigned int i = 0;

	*call = (struct call){ 0 };
	while (call->number < nr_call_types &&
	       (strlen(call_types[call->number].name) != length ||
		memcmp(call_types[call->number].name, text, length)))
		call->number++;
	if (call->number == nr_call_types)
		return "an unknown call";
	text += length;
	while (*text == ' ') {
		char *after;

		if (i == CALL_ARGS || !call_types[call->number].args[i].kind)
			return "too many arguments";
		call->args[i++] = strtoull(text, &after, 16);
		if (after == text)
			return "an argument that is no number";
		text = after;
	}
	*end = text;
	return NULL;
}

const char *program_parse(struct program *p, const char *text)
{
	const char *wrong;

	p->count = 0;
	for (;;) {
		if (p->count == PROGRAM_CALLS)
			return "too many calls";
		wrong = parse_call(&p->calls[p->count++], text, &text);
		if (wrong)
			return wrong;
		if (*text == '\n' || !*text)
			return NULL;
		if (strncmp(text, "; ", 2))
			return "a call that does not end with a semicolon and a space";
		text += 2;
	}
}
