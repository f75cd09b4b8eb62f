// SPDX-License-Identifier: GPL-2.0-only
/*
 * htw-screenshot - a picture of htwctl top, as SVG
 *
 * Keeps /dev/htw as busy as a few servers would, runs htwctl top on a terminal
 * (a pty with libvterm), and prints the screen after several refreshes.
 * tools/screenshot runs it in the VM.
 */
#include <linux/htw.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/stat.h>

#include "../common/htw-client.h"
#include "../common/random.h"
#include "../common/screen.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

#define ROWS		27
#define COLUMNS		100
#define CELL_WIDTH	8
#define CELL_HEIGHT	17

__attribute__((noreturn))
static void die(const char *what)
{
	fprintf(stderr, "htw-screenshot: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* The load: named processes, each with one kind of timers */

struct load {
	const char *name;
	const char *user;
	uid_t uid;
	unsigned int timers;
	uint64_t first;		/* deadlines are at least this far ahead, in ns */
	uint64_t last;		/* and at most this far */
	uint64_t interval;	/* period in ns; 0: added again after each expiration */
};

static const struct load loads[] = {
	{ "broker", "root", 0, 400000, SEC, 3000 * SEC, 0 },
	{ "gateway", "www-data", 33, 120000, 2 * SEC, 60 * SEC, 0 },
	{ "game", "games", 5, 3000, 0, SEC, 1000 * MSEC },
	{ "jobs", "daemon", 1, 60, SEC, 86400 * SEC, 0 },
};

static uint64_t random_below(uint64_t limit)
{
	static __u64 state = 88172645463325252ULL;
	const uint64_t random = xorshift64(&state);

	return limit ? random % limit : 0;
}

static void add_timer(int fd, const struct load *load)
{
	struct htw_add_args add = {
		.deadline = load->first + random_below(load->last - load->first),
		.interval = load->interval,
	};

	if (ioctl(fd, HTW_ADD, &add))
		die("HTW_ADD");
}

__attribute__((noreturn))
static void run_load(const struct load *load, int ready)
{
	struct htw_event events[64];
	int fd = htw_open(0);

	/* Exit together with htw-screenshot. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, load->name);
	if (fd < 0)
		die(HTW_DEVICE);
	close(fd);
	/* A context belongs to the user who opens it. */
	if (load->uid && setuid(load->uid))
		die("setuid");
	fd = htw_open(0);
	if (fd < 0)
		die(HTW_DEVICE);
	for (unsigned int i = 0; i < load->timers; i++)
		add_timer(fd, load);
	if (write(ready, "", 1) != 1)
		die("write");
	for (;;) {
		ssize_t n = read(fd, events, sizeof(events));

		if (n < 0)
			die("read");
		for (n /= sizeof(events[0]); n && !load->interval; n--)
			add_timer(fd, load);
	}
}

/* Give the users names, for this program and those it starts. */
static void name_users(void)
{
	char path[] = "/tmp/htw-screenshot.XXXXXX";
	int fd = mkstemp(path);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

	if (!file || unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL))
		die("users");
	fputs("root:x:0:0:root:/root:/bin/sh\n", file);
	for (size_t i = 0; i < ARRAY_SIZE(loads); i++)
		if (loads[i].uid)
			fprintf(file, "%s:x:%u:%u::/:/bin/sh\n", loads[i].user, loads[i].uid,
				loads[i].uid);
	if (fchmod(fd, 0644) || fclose(file) || mount(path, "/etc/passwd", NULL, MS_BIND, NULL))
		die("users");
	unlink(path);
}

static void start_loads(void)
{
	int ready[2];
	char byte;

	/* Let all users open the device, as a udev rule could. */
	if (pipe(ready) || chmod(HTW_DEVICE, 0666))
		die("start");
	for (size_t i = 0; i < ARRAY_SIZE(loads); i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (!pid)
			run_load(&loads[i], ready[1]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(loads); i++)
		if (read(ready[0], &byte, 1) != 1)
			die("a load has exited");
}

/* The picture */

static const char *colour_of(VTermColor colour, const char *other)
{
	static const char * const palette[] = {
		"#1c1f26", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2",
		"#d7dae0", "#5c6370", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd",
		"#56b6c2", "#ffffff",
	};

	if (VTERM_COLOR_IS_INDEXED(&colour) && colour.indexed.idx < 16)
		return palette[colour.indexed.idx];
	return other;
}

static void print_character(uint32_t c)
{
	switch (c) {
	case '<':
		fputs("&lt;", stdout);
		return;
	case '>':
		fputs("&gt;", stdout);
		return;
	case '&':
		fputs("&amp;", stdout);
		return;
	}
	if (c < 0x80)
		putchar(c);
	else
		printf("&#%" PRIu32 ";", c);
}

/* Block characters are drawn in eighths, because fonts leave gaps between them. */
static bool is_block(uint32_t c)
{
	return c >= 0x2588 && c <= 0x258f;
}

static void print_block(int row, int column, const VTermScreenCell *cell)
{
	printf("<rect x=\"%d\" y=\"%d\" width=\"%g\" height=\"%d\" fill=\"%s\"/>\n",
	       (column + 1) * CELL_WIDTH, (row + 1) * CELL_HEIGHT + 3,
	       CELL_WIDTH * (0x2590 - cell->chars[0]) / 8.0, CELL_HEIGHT - 5,
	       colour_of(cell->fg, "#d7dae0"));
}

/* Whether a cell continues the element: same colours and attributes. */
static bool goes_on(const VTermScreenCell *first, const VTermScreenCell *cell)
{
	return cell->chars[0] >= ' ' && cell->chars[0] < 0x110000 && !is_block(cell->chars[0]) &&
	       first->attrs.bold == cell->attrs.bold &&
	       !strcmp(colour_of(first->fg, ""), colour_of(cell->fg, ""));
}

static bool get_cell(struct screen *s, int row, int column, VTermScreenCell *cell)
{
	const VTermPos pos = { .row = row, .col = column };

	return column < s->columns && vterm_screen_get_cell(s->screen, pos, cell);
}

/* Print a word with an explicit width, as fonts differ. Return the column after it. */
static int print_word(struct screen *s, int row, int column)
{
	VTermScreenCell first, cell;
	int end = column;

	get_cell(s, row, column, &first);
	while (get_cell(s, row, end, &cell) && cell.chars[0] != ' ' && goes_on(&first, &cell))
		end++;
	printf("<text x=\"%d\" y=\"%d\" textLength=\"%d\" fill=\"%s\"%s>",
	       (column + 1) * CELL_WIDTH, (row + 1) * CELL_HEIGHT + 13,
	       (end - column) * CELL_WIDTH, colour_of(first.fg, "#d7dae0"),
	       first.attrs.bold ? " font-weight=\"bold\"" : "");
	for (; column < end; column++) {
		get_cell(s, row, column, &cell);
		print_character(cell.chars[0]);
	}
	puts("</text>");
	return end;
}

static void print_row(struct screen *s, int row)
{
	VTermScreenCell cell;
	int column = 0;

	while (get_cell(s, row, column, &cell)) {
		if (is_block(cell.chars[0]))
			print_block(row, column++, &cell);
		else if (cell.chars[0] <= ' ' || !goes_on(&cell, &cell))
			column++;
		else
			column = print_word(s, row, column);
	}
}

static void print_svg(struct screen *s)
{
	const int width = (s->columns + 2) * CELL_WIDTH, height = (s->rows + 2) * CELL_HEIGHT;

	printf("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"13\">\n",
	       width, height, width, height);
	puts("<title>htwctl top</title>");
	printf("<rect width=\"%d\" height=\"%d\" rx=\"8\" fill=\"#1c1f26\"/>\n", width, height);
	for (int row = 0; row < s->rows; row++)
		print_row(s, row);
	puts("</svg>");
}

static void print_text(struct screen *s)
{
	char buf[2048];

	for (int row = 0; row < s->rows; row++)
		puts(screen_line(s, row, buf, sizeof(buf)));
}

int main(int argc, char **argv)
{
	static const char * const command[] = { "htwctl", "top", "--interval", "1s", NULL };
	const bool text = argc > 1 && !strcmp(argv[1], "--text");
	struct screen screen;
	uint64_t end;

	if (argc > 1 && !text) {
		fputs("usage: htw-screenshot [--text]\n", stderr);
		return 2;
	}
	name_users();
	start_loads();
	if (!screen_start(&screen, ROWS, COLUMNS, "xterm-256color", command))
		die("no terminal");
	/* All processes are listed, and some intervals have passed. */
	for (size_t i = 0; i < ARRAY_SIZE(loads); i++)
		if (!screen_until(&screen, screen_find(&screen, 0, loads[i].name) >= 0))
			die(loads[i].name);
	end = now_ns() + 5500 * MSEC;
	if (!screen_until(&screen, now_ns() >= end))
		die("htwctl top has exited");
	if (text)
		print_text(&screen);
	else
		print_svg(&screen);
	if (!screen_type(&screen, "q") || screen_end(&screen))
		die("htwctl top failed");
	return ferror(stdout) || fflush(stdout);
}
