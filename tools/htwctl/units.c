// SPDX-License-Identifier: GPL-2.0-only
/*
 * Parse and print durations and numbers
 *
 * Durations are parsed as decimal fractions without floating point, so that
 * they are exact to the nanosecond. The show functions return one of several
 * static buffers in turn, so that one printf() can use several results.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "htwctl.h"

#define SHOW_BUFFERS	16
#define SHOW_SIZE	256

static char *show_buffer(void)
{
	static char buffers[SHOW_BUFFERS][SHOW_SIZE];
	static unsigned int turn;

	return buffers[turn++ % SHOW_BUFFERS];
}

static const struct {
	const char *name;
	uint64_t ns;
} units[] = {
	{ "ns", 1 },
	{ "us", NSEC_PER_USEC },
	{ "ms", NSEC_PER_MSEC },
	{ "s", NSEC_PER_SEC },
	{ "m", 60 * NSEC_PER_SEC },
	{ "min", 60 * NSEC_PER_SEC },
	{ "h", 3600 * NSEC_PER_SEC },
	{ "d", 86400 * NSEC_PER_SEC },
};

static bool find_unit(const char *name, uint64_t *ns)
{
	/* Seconds, as in sleep(1). */
	if (!*name)
		name = "s";
	for (unsigned int i = 0; i < ARRAY_SIZE(units); i++) {
		if (!strcmp(units[i].name, name)) {
			*ns = units[i].ns;
			return true;
		}
	}
	return false;
}

/*
 * "1.5s", "250us", "30m"; seconds without a unit. False if invalid, or beyond
 * 2^64 ns.
 */
bool parse_duration(const char *text, uint64_t *ns)
{
	uint64_t whole = 0, part = 0, unit, weight;
	const char *fraction = NULL;
	unsigned int digits = 0;
	const char *at = text;

	for (; isdigit((unsigned char)*at); at++, digits++)
		if (__builtin_mul_overflow(whole, 10, &whole) ||
		    __builtin_add_overflow(whole, *at - '0', &whole))
			return false;
	if (*at == '.') {
		fraction = ++at;
		for (; isdigit((unsigned char)*at); at++)
			digits++;
	}
	if (!digits || !find_unit(at, &unit))
		return false;
	/* Each digit has a tenth of the weight of the one before; stop below 1 ns. */
	for (weight = unit / 10; fraction && isdigit((unsigned char)*fraction); fraction++) {
		part += (*fraction - '0') * weight;
		weight /= 10;
	}
	return !__builtin_mul_overflow(whole, unit, &whole) &&
	       !__builtin_add_overflow(whole, part, ns);
}

/* A whole number, decimal or hexadecimal with 0x; false for anything else. */
bool parse_number(const char *text, uint64_t *number)
{
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	*number = strtoull(text, &end, strncmp(text, "0x", 2) ? 10 : 16);
	return !errno && end != text && !*end;
}

static const char *show_time(uint64_t ns, int digits)
{
	/* Without "m", which is the same as "min". */
	static const struct {
		const char *name;
		uint64_t ns;
	} shown[] = {
		{ "d", 86400 * NSEC_PER_SEC }, { "h", 3600 * NSEC_PER_SEC },
		{ "min", 60 * NSEC_PER_SEC }, { "s", NSEC_PER_SEC },
		{ "ms", NSEC_PER_MSEC }, { "us", NSEC_PER_USEC }, { "ns", 1 },
	};
	char *buf = show_buffer();
	unsigned int i = 0;

	/* As the kernel sees it. */
	if (ns > INT64_MAX)
		return "never";
	while (i < ARRAY_SIZE(shown) - 1 && ns < shown[i].ns)
		i++;
	if (ns % shown[i].ns == 0)
		snprintf(buf, SHOW_SIZE, "%" PRIu64 " %s", ns / shown[i].ns, shown[i].name);
	else if (ns / shown[i].ns >= 1000)
		snprintf(buf, SHOW_SIZE, "%" PRIu64 " %s", ns / shown[i].ns, shown[i].name);
	else
		snprintf(buf, SHOW_SIZE, "%.*g %s", digits, (double)ns / shown[i].ns,
			 shown[i].name);
	return buf;
}

/* "5 s", "1.25 ms": at most four digits, but all days; above 2^63 - 1 is "never". */
const char *show_duration(uint64_t ns)
{
	return show_time(ns, 4);
}

/* Three digits, for bounds that are powers of two. */
const char *show_rough(uint64_t ns)
{
	return show_time(ns, 3);
}

/* 1234567 as 1,234,567 */
const char *show_grouped(uint64_t number)
{
	char *at = show_buffer() + SHOW_SIZE - 1;
	unsigned int digits = 0;

	*at = '\0';
	do {
		if (digits && digits % 3 == 0)
			*--at = ',';
		*--at = '0' + number % 10;
		number /= 10;
		digits++;
	} while (number);
	return at;
}

/* At most five characters: 999, 12.3k, 1.23M */
const char *show_short(uint64_t number)
{
	static const char suffixes[] = "kMGTPE";
	char *buf = show_buffer();
	double value = number;
	unsigned int i = 0;

	if (number < 10000) {
		snprintf(buf, SHOW_SIZE, "%" PRIu64, number);
		return buf;
	}
	for (value /= 1000; value >= 999.5; value /= 1000)
		i++;
	snprintf(buf, SHOW_SIZE, "%.*f%c", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value,
		 suffixes[i]);
	return buf;
}

const char *show_hex(uint64_t number)
{
	char *buf = show_buffer();

	snprintf(buf, SHOW_SIZE, "%#" PRIx64, number);
	/* printf() omits the prefix for zero. */
	return number ? buf : "0x0";
}

const char *show_clock(int clock)
{
	char *buf;

	switch (clock) {
	case CLOCK_MONOTONIC:
		return "monotonic";
	case CLOCK_BOOTTIME:
		return "boottime";
	case CLOCK_REALTIME:
		return "realtime";
	case HTW_CLOCK_MANUAL:
		return "manual";
	}
	buf = show_buffer();
	snprintf(buf, SHOW_SIZE, "%d", clock);
	return buf;
}

const char *show_slots(const uint32_t *slots, unsigned int levels)
{
	char *buf = show_buffer();
	int length = 0;

	buf[0] = '\0';
	for (unsigned int l = 0; l < levels && l < HTW_MAX_LEVELS; l++)
		length += snprintf(buf + length, SHOW_SIZE - length, "%s%u", l ? "," : "",
				   slots[l]);
	return buf;
}

/* Make a word of the command line printable. */
const char *show_text(const char *text)
{
	char *buf = show_buffer();

	make_printable(buf, SHOW_SIZE, text);
	return buf;
}

/*
 * Replace a uid by the user's name if it has one. ":privileged" marks contexts
 * that the user opened with CAP_SYS_RESOURCE; root's are not marked.
 */
const char *show_user(const char *user)
{
	char number[32], name[SHOW_SIZE - 1], *buf;
	const struct passwd *entry;
	const char *mark;
	uint64_t uid;

	snprintf(number, sizeof(number), "%.*s", (int)strcspn(user, ":"), user);
	if (!parse_number(number, &uid))
		return user;
	entry = getpwuid(uid);
	make_printable(name, sizeof(name), entry ? entry->pw_name : number);
	mark = uid && strchr(user, ':') ? "+" : "";
	buf = show_buffer();
	snprintf(buf, SHOW_SIZE, "%s%s", name, mark);
	return buf;
}

static const char * const features[] = {
	"first",
	"uring",
};

/* A timer's state, of enum htw_state. */
const char *show_state(unsigned int state)
{
	switch (state) {
	case HTW_STATE_PENDING:
		return "pending";
	case HTW_STATE_DUE:
		return "due";
	case HTW_STATE_DISARMED:
		return "disarmed";
	default:
		return "unknown";
	}
}

/*
 * Name of a bit of htw_info_args.features; a number if the bit is newer than this
 * program.
 */
const char *feature_name(unsigned int bit)
{
	char *buf;

	if (bit < ARRAY_SIZE(features))
		return features[bit];
	buf = show_buffer();
	snprintf(buf, SHOW_SIZE, "bit-%u", bit);
	return buf;
}

const char *show_features(uint64_t bits, const char *separator)
{
	char *buf = show_buffer();
	int length = 0;

	buf[0] = '\0';
	for (unsigned int bit = 0; bit < 64 && length < SHOW_SIZE; bit++)
		if (bits >> bit & 1)
			length += snprintf(buf + length, SHOW_SIZE - length, "%s%s",
					   length ? separator : "", feature_name(bit));
	return buf;
}
