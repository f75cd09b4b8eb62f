// SPDX-License-Identifier: MIT
/*
 * Pictures of the running wheel, as SVG, for docs/wheel.md
 *
 *	pictures DIRECTORY
 *
 * What is drawn is what the wheel holds: each picture starts timers on a wheel,
 * advances it tick by tick, and draws it at some ticks. The output is the same
 * each time.
 */
#include "look.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define TIMERS		16
#define NOWHERE		(-99)

struct timer {
	struct htw_node node;
	uint64_t due;
	unsigned int period;
	int level, before;	/* where it is, and where it was in the picture above */
	unsigned int bucket;
	uint64_t fired;		/* when it was last, or HTW_NEVER */
};

static struct htw_wheel wheel;
static struct htw_geometry shape;
static uint64_t memory[HTW_GEOMETRY_WORDS(HTW_WHEEL_MAX_LEVELS, 512)];
static struct timer timers[TIMERS];
static unsigned int nr_timers;
static uint64_t now;

/* The picture: drawn into a file that is put together from two, as its height comes first. */
static FILE *svg;
static int top;

static void die(const char *what)
{
	perror(what);
	exit(EXIT_FAILURE);
}

/* What the wheel does. */

static void begin(const struct htw_geometry *geo, uint64_t tick)
{
	shape = *geo;
	now = tick;
	nr_timers = 0;
	htw_wheel_init(&wheel, now);
	htw_wheel_add_levels(&wheel, &shape, memory, sizeof(memory));
}

static void start(uint64_t due, unsigned int period)
{
	struct timer *t = &timers[nr_timers++];

	htw_node_init(&t->node);
	t->due = due;
	t->period = period;
	t->level = NOWHERE;
	t->fired = HTW_NEVER;
	htw_wheel_start(&wheel, &t->node, due);
}

static void expired(struct htw_node *n, void *arg)
{
	struct timer *t = HTW_CONTAINER_OF(n, struct timer, node);

	(void)arg;
	t->fired = t->due;
	if (t->period) {
		t->due += t->period;
		htw_wheel_start(&wheel, n, t->due);
	}
}

static void note_place(struct htw_node *n, int level, unsigned int bucket, void *arg)
{
	struct timer *t = HTW_CONTAINER_OF(n, struct timer, node);

	(void)arg;
	t->level = level;
	t->bucket = bucket;
}

/* Ticks pass one by one, as on a clock. */
static void advance(uint64_t tick)
{
	unsigned int budget, i;

	for (; now < tick; now++) {
		budget = 1000;
		htw_wheel_advance(&wheel, now + 1, &budget, expired, NULL);
		/* As the page: what can be moved down is moved at its first tick. */
		htw_wheel_cascade(&wheel, &budget);
	}
	for (i = 0; i < nr_timers; i++) {
		timers[i].before = timers[i].level;
		timers[i].level = NOWHERE;
	}
	look_at_all(&wheel, note_place, NULL);
}

static uint64_t span_of(unsigned int levels)
{
	uint64_t span = 1;

	while (levels--)
		span *= shape.slots[levels];
	return span;
}

/* Does a level hold this slot: the level below has not taken it, and it has not passed? */
static uint64_t first_held(unsigned int l)
{
	return (l ? look_at_end(&wheel, l - 1) : now + 1) / span_of(l);
}

static uint64_t end_held(unsigned int l)
{
	return look_at_end(&wheel, l) / span_of(l);
}

/* A level above the last one is what is beyond them. */
static int row_of(int level)
{
	return level >= 0 ? level : (int)shape.levels;
}

static bool has_moved(const struct timer *t)
{
	return t->level >= 0 && t->before != NOWHERE && row_of(t->level) < row_of(t->before);
}

/* How it is written. */

static void put(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(svg, format, arguments);
	va_end(arguments);
}

static void text(int x, int y, const char *class, const char *format, ...)
{
	va_list arguments;

	put("<text x=\"%d\" y=\"%d\" class=\"%s\">", x, y, class);
	va_start(arguments, format);
	vfprintf(svg, format, arguments);
	va_end(arguments);
	put("</text>\n");
}

static void circle(const char *class, double x, double y, double r)
{
	put("<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/>\n", class, x, y, r);
}

static void slot(int x, int y, int width, int height)
{
	put("<rect class=\"slot\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\"/>\n", x, y,
	    width, height);
}

static void open_picture(void)
{
	svg = tmpfile();
	if (!svg)
		die("tmpfile");
	top = 0;
}

static void close_picture(const char *directory, const char *name, int width, const char *title)
{
	static const char style[] =
		"text { font: 13px system-ui, \"DejaVu Sans\", sans-serif; fill: #1f2b33; }\n"
		".head { font-weight: 600; font-size: 15px; }\n"
		".soft { fill: #5a676f; font-size: 12px; }\n"
		".middle { text-anchor: middle; }\n"
		".end { text-anchor: end; }\n"
		".paper { fill: #faf8f4; }\n"
		".slot { fill: #d3e4e6; stroke: #7d979c; }\n"
		".ring { fill: none; stroke: #efece4; stroke-width: 18; }\n"
		".held { fill: none; stroke: #d3e4e6; stroke-width: 18; }\n"
		".marks { fill: none; stroke: #faf8f4; }\n"
		".line { fill: none; stroke: #a9b7ba; }\n"
		".timer { fill: #0a6a7c; stroke: #fff; }\n"
		".again { fill: #8a4b08; stroke: #fff; }\n"
		".fired { fill: none; stroke: #5a676f; stroke-width: 1.5; }\n"
		".moved { fill: none; stroke: #c2410c; stroke-width: 1.8; }\n"
		".way { fill: none; stroke: #c2410c; stroke-width: 1.5; stroke-dasharray: 3 3; }\n"
		".now { fill: none; stroke: #1f2b33; stroke-width: 2; }\n"
		".tip { fill: #1f2b33; }\n"
		"@media (prefers-color-scheme: dark) {\n"
		"text, .tip { fill: #e4e8ea; }\n"
		".soft { fill: #a0adb4; }\n"
		".paper { fill: #12181c; }\n"
		".slot { fill: #305660; stroke: #6f8b93; }\n"
		".ring { stroke: #1e272d; }\n"
		".held { stroke: #305660; }\n"
		".marks { stroke: #12181c; }\n"
		".line { stroke: #4b5d66; }\n"
		".timer { fill: #6fd0e0; stroke: #12181c; }\n"
		".again { fill: #f0b566; stroke: #12181c; }\n"
		".fired { stroke: #a0adb4; }\n"
		".moved, .way { stroke: #ff9a62; }\n"
		".now { stroke: #f4f6f7; }\n"
		"}\n";
	char path[4096];
	FILE *file;
	int c;

	snprintf(path, sizeof(path), "%s/%s.svg", directory, name);
	file = fopen(path, "w");
	if (!file)
		die(path);
	fprintf(file, "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n"
		"<!-- SPDX-License-%s: MIT -->\n"
		"<!-- Do not edit: wheel/page/pictures draws it from the running wheel. -->\n",
		"Identifier");
	fprintf(file, "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\"\n"
		"width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n"
		"<title>%s</title>\n<style>\n%s</style>\n"
		"<rect class=\"paper\" width=\"%d\" height=\"%d\" rx=\"10\"/>\n",
		width, top + 10, width, top + 10, title, style, width, top + 10);
	rewind(svg);
	while ((c = getc(svg)) != EOF)
		putc(c, file);
	fprintf(file, "</svg>\n");
	fclose(svg);
	if (fclose(file))
		die(path);
}

static void draw_timer(double x, double y, const struct timer *t)
{
	if (has_moved(t))
		circle("moved", x, y, 8.5);
	if (t->period)
		put("<path class=\"again\" d=\"M%.1f %.1fl6.5 6.5l-6.5 6.5l-6.5 -6.5z\"/>\n", x,
		    y - 6.5);
	else
		circle("timer", x, y, 5);
}

/*
 * Along the time: a tick is at the same place on each level, so a timer that
 * moves down moves straight down.
 */

#define TICK_WIDTH	20
#define ROW		30
#define LEFT		128

struct axis {
	uint64_t from;		/* the first tick */
	int ticks, each;	/* how many; which have a label */
	const char *name;	/* of the first tick, or NULL for numbers */
	bool has_beyond;
};

static int at_tick(const struct axis *axis, uint64_t tick)
{
	return LEFT + (int)(tick - axis->from) * TICK_WIDTH;
}

static const char *tick_name(const struct axis *axis, uint64_t tick)
{
	static char names[4][32];
	static unsigned int turn;
	char *to = names[turn++ % 4];

	if (!axis->name)
		snprintf(to, sizeof(names[0]), "%d", (int)tick);
	else if (tick == axis->from)
		snprintf(to, sizeof(names[0]), "%s", axis->name);
	else
		snprintf(to, sizeof(names[0]), "%s + %d", axis->name, (int)(tick - axis->from));
	return to;
}

/* The middle of a level's row, the last at the top. */
static int row_y(const struct axis *axis, int row)
{
	return top + ((int)shape.levels + axis->has_beyond - row) * ROW - ROW / 2;
}

static void draw_slots(const struct axis *axis, unsigned int l)
{
	uint64_t i, span = span_of(l), to = axis->from + (uint64_t)axis->ticks;
	int y = row_y(axis, (int)l) - 11;

	for (i = first_held(l); i < end_held(l) && i * span < to; i++) {
		int x = at_tick(axis, i * span), end = at_tick(axis, (i + 1) * span);
		int right = at_tick(axis, to);

		/* What goes on beyond the picture has no end there. */
		if (end > right)
			put("<path class=\"slot\" d=\"M%d %dH%dv22H%d\"/>\n", right, y, x + 1,
			    right);
		else
			slot(x + 1, y, end - x - 2, 22);
	}
}

/* Timers of one tick on a level stand beside each other. */
static int place_in_tick(const struct timer *t, int *of)
{
	int before = 0;

	*of = 0;
	for (unsigned int i = 0; i < nr_timers; i++) {
		if (timers[i].due != t->due || timers[i].level != t->level)
			continue;
		before += &timers[i] < t;
		++*of;
	}
	return before;
}

static void draw_time(const struct axis *axis, uint64_t tick)
{
	unsigned int i, l;
	int of, x, y;

	advance(tick);
	top += 24;
	text(14, top, "head", "At %s", tick_name(axis, now));
	top += 12;
	for (l = 0; l < shape.levels; l++) {
		y = row_y(axis, (int)l) + 4;
		text(LEFT - 14, y, "end", "level %u: %d tick%s", l, (int)span_of(l), l ? "s" : "");
		draw_slots(axis, l);
	}
	if (axis->has_beyond) {
		y = row_y(axis, (int)shape.levels);
		text(LEFT - 14, y + 4, "end", "beyond it");
		put("<path class=\"line\" stroke-dasharray=\"2 4\" d=\"M%d %dH%d\"/>\n",
		    at_tick(axis, end_held(shape.levels - 1) * span_of(shape.levels - 1)), y,
		    at_tick(axis, axis->from + (uint64_t)axis->ticks));
	}

	for (i = 0; i < nr_timers; i++) {
		struct timer *t = &timers[i];
		int place = place_in_tick(t, &of);

		if (t->level == NOWHERE) {
			x = at_tick(axis, t->due) + TICK_WIDTH / 2;
			circle("fired", x, row_y(axis, 0), 4.5);
			continue;
		}
		x = at_tick(axis, t->due) + TICK_WIDTH / 2 + (2 * place - of + 1) * 5;
		y = row_y(axis, row_of(t->level));
		if (has_moved(t))
			put("<path class=\"way\" d=\"M%d %dV%d\"/>\n", x,
			    row_y(axis, row_of(t->before)), y - 9);
		draw_timer(x, y, t);
	}

	/* The present is the whole of its tick. */
	y = top + ((int)shape.levels + axis->has_beyond) * ROW;
	x = at_tick(axis, now) + TICK_WIDTH / 2;
	put("<path class=\"now\" d=\"M%d %dV%d\"/>\n", x, y - ROW + 2, y);
	put("<path class=\"tip\" d=\"M%d %dl-5 8h10z\"/>\n", x, y);
	put("<path class=\"line\" d=\"M%d %dH%d\"/>\n", LEFT, y,
	    at_tick(axis, axis->from + (uint64_t)axis->ticks));
	for (int i = 0; i < axis->ticks; i += axis->each) {
		x = at_tick(axis, axis->from + (uint64_t)i);
		put("<path class=\"line\" d=\"M%d %dv5\"/>\n", x, y);
		text(x + TICK_WIDTH / 2, y + 20, "soft middle", "%s",
		     tick_name(axis, axis->from + (uint64_t)i));
	}
	top = y + 30;
}

static void legend(int x)
{
	static const struct timer one;

	top += 20;
	draw_timer(x, top - 4, &one);
	text(x + 12, top, "soft", "a timer, at its tick");
	circle("moved", x + 165, top - 4, 8.5);
	draw_timer(x + 165, top - 4, &one);
	text(x + 179, top, "soft", "has moved down");
	circle("fired", x + 302, top - 4, 4.5);
	text(x + 314, top, "soft", "has fired");
	put("<path class=\"now\" d=\"M%d %dv14\"/>\n", x + 395, top - 11);
	text(x + 407, top, "soft", "the present");
	slot(x + 500, top - 11, 26, 14);
	text(x + 534, top, "soft", "a slot that timers can be put into");
}

static void draw_simple(const char *directory)
{
	static const struct htw_geometry geo = { 1, { 8 } };
	static const struct axis axis = { 0, 36, 4, NULL, true };

	open_picture();
	begin(&geo, 0);
	start(2, 0);
	start(5, 0);
	start(12, 0);
	start(19, 0);
	start(22, 0);
	start(30, 0);
	draw_time(&axis, 0);
	draw_time(&axis, 3);
	draw_time(&axis, 7);
	legend(20);
	close_picture(directory, "wheel-simple", LEFT + 36 * TICK_WIDTH + 20,
		      "One level of 8 slots at the ticks 0, 3 and 7");
}

static void draw_kafka(const char *directory)
{
	static const struct htw_geometry geo = { 3, { 3, 3, 3 } };
	/* Where windows of all levels begin, as Kafka's do at the first tick */
	static const struct axis axis = { 270, 36, 3, "c", false };
	static const int delays[] = { 1, 3, 4, 7, 7, 11, 16, 20, 29 };

	open_picture();
	begin(&geo, axis.from);
	for (unsigned int i = 0; i < sizeof(delays) / sizeof(*delays); i++)
		start(axis.from + (uint64_t)delays[i], 0);
	for (unsigned int i = 0; i < 4; i++)
		draw_time(&axis, axis.from + i);
	legend(20);
	close_picture(directory, "wheel-kafka", LEFT + 36 * TICK_WIDTH + 20,
		      "Three levels of 3 slots at the ticks c, c + 1, c + 2 and c + 3");
}

/* Dials: a window each on two rings, the hand at the present. */

#define DIAL		108	/* its radius */
#define BETWEEN		270
#define DIALS_WIDTH	(3 * BETWEEN + 20)

static const char *const *level_names;

static void polar(double x, double y, double r, double turn, double *px, double *py)
{
	const double circle = 6.283185307179586;

	*px = x + r * sin(circle * turn);
	*py = y - r * cos(circle * turn);
}

static double ring_radius(bool second)
{
	return DIAL * (second ? 0.71 : 0.9);
}

/* An arc of a ring, in parts of less than half a turn. */
static void draw_arc(double x, double y, double r, double from, double to)
{
	double px, py;

	polar(x, y, r, from, &px, &py);
	put("<path class=\"held\" d=\"M%.1f %.1f", px, py);
	while (from < to) {
		from = to - from > 0.4 ? from + 0.4 : to;
		polar(x, y, r, from, &px, &py);
		put("A%.1f %.1f 0 0 1 %.1f %.1f", r, r, px, py);
	}
	put("\"/>\n");
}

static void draw_dial(double x, double y, unsigned int l)
{
	const unsigned int n = shape.slots[l];
	uint64_t span = span_of(l), from = first_held(l), end = end_held(l), at = now / span;
	double px, py, turn;
	unsigned int i, each = n > 12 ? n / 4 : n > 6 ? 2 : 1;
	unsigned int in_slot[2 * HTW_WHEEL_MAX_SLOTS] = { 0 };

	for (i = 0; i < 2; i++)
		circle("ring", x, y, ring_radius(i));
	while (from < end) {
		uint64_t window = from / n, until = end < (window + 1) * n ? end : (window + 1) * n;

		draw_arc(x, y, ring_radius(window % 2), (double)(from % n) / n,
			 (double)(until - window * n) / n);
		from = until;
	}
	put("<path class=\"marks\" d=\"");
	for (i = 0; i < n; i++) {
		polar(x, y, DIAL * 0.62, (double)i / n, &px, &py);
		put("M%.1f %.1f", px, py);
		polar(x, y, DIAL * 0.99, (double)i / n, &px, &py);
		put("L%.1f %.1f", px, py);
	}
	put("\"/>\n");
	for (i = 0; i < n; i += each) {
		polar(x, y, DIAL + 11, (i + 0.5) / n, &px, &py);
		text((int)lround(px), (int)lround(py) + 4, "soft middle", "%u", i);
	}
	text((int)x, (int)y - 4, "head middle", "%s", level_names[l]);
	text((int)x, (int)y + 14, "soft middle", "level %u", l);

	turn = ((double)(at % n) + ((double)(now % span) + 0.5) / (double)span) / n;
	polar(x, y, DIAL * 0.56, turn, &px, &py);
	put("<path class=\"now\" d=\"M%.1f %.1f", px, py);
	polar(x, y, ring_radius(at / n % 2) + 9, turn, &px, &py);
	put("L%.1f %.1f\"/>\n", px, py);
	circle("tip", px, py, 3);

	for (i = 0; i < nr_timers; i++) {
		const struct timer *t = &timers[i];

		if (t->level != (int)l)
			continue;
		polar(x, y, ring_radius(t->bucket >= n) - 9.0 * in_slot[t->bucket]++,
		      (t->bucket % n + 0.5) / n, &px, &py);
		draw_timer(px, py, t);
	}
}

static void draw_dials(uint64_t tick, const char *what)
{
	advance(tick);
	top += 24;
	text(14, top, "head", "%s", what);
	top += 14 + DIAL + 12;
	for (unsigned int l = 0; l < shape.levels; l++)
		draw_dial(20 + BETWEEN / 2 + (int)l * BETWEEN - 10, top, l);
	top += DIAL + 24;
}

static void dials_legend(bool recurs)
{
	static const struct timer one, again = { .period = 1 };

	top += 14;
	draw_timer(24, top - 4, &one);
	text(36, top, "soft", "a timer");
	if (recurs) {
		draw_timer(105, top - 4, &again);
		text(117, top, "soft", "one that recurs");
	}
	circle("moved", 230, top - 4, 8.5);
	draw_timer(230, top - 4, &one);
	text(244, top, "soft", "has moved down");
	put("<path class=\"now\" d=\"M362 %dv14\"/>\n", top - 11);
	text(374, top, "soft", "the present");
	put("<path class=\"held\" d=\"M468 %dh26\"/>\n", top - 4);
	text(502, top, "soft", "slots that timers can be put into now");
}

static void draw_clock(const char *directory)
{
	static const struct htw_geometry geo = { 3, { 60, 60, 12 } };
	static const char *const names[] = { "seconds", "minutes", "hours" };

	open_picture();
	level_names = names;
	begin(&geo, 0);
	start(3, 3);
	start(2 * 3600 + 5 * 60 + 7, 0);
	draw_dials(0, "0:00:00, a timer is started for 2:05:07, and one that recurs every 3 s");
	draw_dials(3599, "0:59:59, the hand comes to hour 1, hour 2 moves down to the minutes");
	draw_dials(7439, "2:03:59, the hand comes to minute 4, minute 5 moves down to the seconds");
	draw_dials(7506, "2:05:06, one second before it fires");
	dials_legend(true);
	close_picture(directory, "wheel-clock", DIALS_WIDTH,
		      "Seconds, minutes and hours: a timer for 2:05:07 moves down twice");
}

static void draw_embedded(const char *directory)
{
	static const struct htw_geometry geo = { 3, { 10, 60, 5 } };
	static const char *const names[] = { "0.1 s", "seconds", "minutes" };

	open_picture();
	level_names = names;
	begin(&geo, 0);
	start(7, 0);
	start(123, 0);
	start(2704, 0);
	draw_dials(0, "0:00.0, timers are started for 0.7 s, 12.3 s and 4 min 30.4 s");
	draw_dials(1799, "2:59.9, two have fired, and minute 4 moves down to the seconds");
	draw_dials(2689, "4:28.9, second 30 moves down to the tenths");
	dials_legend(false);
	close_picture(directory, "wheel-embedded", DIALS_WIDTH,
		      "75 slots for 5 minutes: tenths of a second, seconds, minutes");
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: pictures DIRECTORY\n");
		return 2;
	}
	draw_simple(argv[1]);
	draw_kafka(argv[1]);
	draw_clock(argv[1]);
	draw_embedded(argv[1]);
	return 0;
}
