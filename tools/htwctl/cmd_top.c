// SPDX-License-Identifier: GPL-2.0-only
/*
 * htwctl top: the module's state on a screen, refreshed at an interval
 *
 * Everything comes from two readings of debugfs and /proc. The parts share the
 * lines of the screen: lateness beside users, then as many as fit of the
 * descriptors that hold most timers, or the levels of their wheels.
 */
#include <errno.h>
#include <inttypes.h>
#include <langinfo.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Included last: curses.h defines macros with common names. */
#include <curses.h>

#include "descriptors.h"

#define MIN_LINES	12
#define MIN_COLUMNS	60
#define LATE_ROWS	10
#define MAX_USERS	256
#define LEVELS_COLUMN	20
/* Lateness that is green, and that is yellow. */
#define LATE_GOOD	(2 * NSEC_PER_MSEC)
#define LATE_WARN	(10 * NSEC_PER_MSEC)

enum {
	PLAIN,
	TITLE,
	GOOD,
	WARN,
	BAD,
	FAINT,
};

static struct {
	uint64_t interval;
	uint64_t count;
	bool levels;		/* the descriptors' levels in place of their numbers */
	bool since_open;	/* lateness since the descriptors were opened */
	bool paused;
	bool utf8;
	struct stats before, now;
} top = {
	.interval = NSEC_PER_SEC,
	.count = UINT64_MAX,
};

struct user_row {
	const char *user;
	uint64_t timers;
	uint64_t contexts;
	uint64_t refused;
	uint64_t rings;		/* this and the following: since the previous reading */
	uint64_t wakes;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'i':
		top.interval = parse_interval_arg(arg, 100 * NSEC_PER_MSEC, 3600 * NSEC_PER_SEC,
						  state);
		return 0;
	case 'n':
		top.count = parse_number_arg("--count", arg, 1, UINT64_MAX - 1, state);
		return 0;
	case 'w':
		top.levels = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ "interval", 'i', "DURATION", 0,
	  "time between refreshes, 100ms to 1h (default 1s)", 1 },
	{ "count", 'n', "N", 0, "exit after N refreshes", 1 },
	{ "wheels", 'w', NULL, 0, "start with the levels of each descriptor's wheels", 1 },
	{ 0 }
};

static uint64_t per_second(uint64_t count)
{
	const uint64_t ns = top.now.when - top.before.when;

	return ns ? (uint64_t)(count * 1e9 / ns) : 0;
}

/*
 * Drawing
 */

static void init_colours(void)
{
	if (!has_colors())
		return;
	start_color();
	use_default_colors();
	init_pair(TITLE, COLOR_CYAN, -1);
	init_pair(GOOD, COLOR_GREEN, -1);
	init_pair(WARN, COLOR_YELLOW, -1);
	init_pair(BAD, COLOR_RED, -1);
	init_pair(FAINT, COLOR_BLUE, -1);
}

static void colour(int pair)
{
	attrset(has_colors() ? COLOR_PAIR(pair) : A_NORMAL);
}

static void title(int line, int column, const char *text)
{
	colour(TITLE);
	attron(A_BOLD);
	mvaddnstr(line, column, text, COLS - column > 0 ? COLS - column : 0);
	colour(PLAIN);
}

/*
 * Draw a bar of @width characters that is full for part / whole, to an eighth
 * of a character with UTF-8. With @track the empty part is drawn, too.
 */
static void bar(int line, int column, int width, uint64_t part, uint64_t whole, int pair,
		bool track)
{
	static const char * const eighths[] = {
		" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉",
	};
	int filled = 0, rest = 0;

	if (width <= 0)
		return;
	if (whole) {
		double eighth = 8.0 * width * (part < whole ? part : whole) / whole;

		/* A value above zero shows. */
		if (part && eighth < 1)
			eighth = 1;
		filled = (int)eighth / 8;
		rest = (int)eighth % 8;
	}
	move(line, column);
	colour(pair);
	for (int i = 0; i < filled; i++)
		addstr(top.utf8 ? "█" : "#");
	if (rest)
		addstr(top.utf8 ? eighths[rest] : ":");
	colour(FAINT);
	for (int i = filled + !!rest; i < width && track; i++)
		addstr(top.utf8 ? "·" : ".");
	colour(PLAIN);
}

/*
 * The parts of the screen. Each draws from @line on, up to before @end, and
 * returns the line after it.
 */

static int draw_head(int line)
{
	char when[16], version[32] = "";
	time_t seconds = time(NULL);
	struct counts counts;
	struct tm tm;

	if (!localtime_r(&seconds, &tm) || !strftime(when, sizeof(when), "%H:%M:%S", &tm))
		when[0] = '\0';
	read_module_file("version", version, sizeof(version));
	count_since(&counts, &top.now, &top.before);

	attron(A_BOLD);
	mvprintw(line, 0, "htw %s", version);
	attroff(A_BOLD);
	printw("  %s  every %s%s", when, show_duration(top.interval),
	       top.paused ? "  paused" : "");
	line++;
	mvprintw(line++, 0, "Pending %s  Taken %s/s  Cancelled %s/s",
		 show_grouped(counts.pending), show_short(per_second(counts.taken)),
		 show_short(per_second(counts.cancelled)));
	mvprintw(line++, 0, "Cascades %s/s  Alarms %s/s  Deferred wake-ups %s/s",
		 show_short(per_second(counts.cascades)),
		 show_short(per_second(records_since(&top.before.users, &top.now.users, "rings"))),
		 show_short(per_second(records_since(&top.before.lanes, &top.now.lanes, "wakes"))));
	if (counts.taken)
		mvprintw(line, 0, "Late    half <%s  99%% <%s  all <%s",
			 show_rough(late_percentile(counts.taken_late, 50)),
			 show_rough(late_percentile(counts.taken_late, 99)),
			 show_rough(late_percentile(counts.taken_late, 100)));
	else
		mvprintw(line, 0, "Late    nothing was taken");
	if (counts.oldest_due)
		printw("  not taken for %s", show_rough(counts.oldest_due));
	return line + 2;
}

static int draw_late(int line, int end, int columns)
{
	struct counts counts;
	uint64_t most = 0;
	int first = -1, last = -1;

	count_since(&counts, &top.now, top.since_open ? NULL : &top.before);
	for (int b = 0; b < LATE_BUCKETS; b++) {
		const uint64_t more = counts.alarm_late[b] > counts.taken_late[b] ?
			counts.alarm_late[b] : counts.taken_late[b];

		if (!more)
			continue;
		if (first < 0)
			first = b;
		last = b;
		if (counts.taken_late[b] > most)
			most = counts.taken_late[b];
	}
	title(line++, 0, top.since_open ? "LATE <    ALARM  TAKEN, since opened" :
					  "LATE <    ALARM  TAKEN");
	if (first < 0) {
		mvaddstr(line++, 0, "nothing was due");
		return line;
	}
	/* If there are too many, show the latest. */
	if (last - first >= LATE_ROWS)
		first = last - LATE_ROWS + 1;
	for (int b = first; b <= last && line < end; b++) {
		const bool open = b == LATE_BUCKETS - 1;

		mvprintw(line, 0, "%8s%s %6s %6s ", show_rough(late_bucket_ns(b) >> open),
			 open ? "+" : " ", show_short(counts.alarm_late[b]),
			 show_short(counts.taken_late[b]));
		bar(line, 25, columns - 26, counts.taken_late[b], most,
		    late_bucket_ns(b) < LATE_GOOD ? GOOD :
		    late_bucket_ns(b) < LATE_WARN ? WARN : BAD, false);
		line++;
	}
	return line;
}

static struct user_row *find_user(struct user_row *users, unsigned int *count, const char *user)
{
	for (unsigned int i = 0; i < *count; i++)
		if (!strcmp(users[i].user, user))
			return &users[i];
	if (*count == MAX_USERS)
		return NULL;
	users[*count] = (struct user_row){ .user = user };
	return &users[(*count)++];
}

/* A line for each user, from those of the user and of its alarms. */
static unsigned int fill_users(struct user_row *users)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < top.now.users.count; i++) {
		const struct fields *now = &top.now.users.r[i];
		const char *name = field(now, "user");
		struct user_row *user = name ? find_user(users, &count, name) : NULL;

		if (!user)
			continue;
		user->timers += field_u64(now, "timers");
		user->contexts += field_u64(now, "contexts");
		user->refused += field_u64(now, "refused");
		user->rings += record_since(&top.before.users, now, "rings");
		user->wakes += record_since(&top.before.users, now, "wakes");
	}
	return count;
}

static int compare_users(const void *left, const void *right)
{
	const struct user_row *a = left, *b = right;

	if (a->rings != b->rings)
		return a->rings < b->rings ? 1 : -1;
	return a->timers < b->timers ? 1 : a->timers > b->timers ? -1 : 0;
}

static int draw_users(int line, int end, int column)
{
	static struct user_row users[MAX_USERS];
	unsigned int count = fill_users(users);
	char head[80];

	qsort(users, count, sizeof(*users), compare_users);
	snprintf(head, sizeof(head), "%-11s%8s%7s%8s%8s%8s", "USER", "TIMERS", "OPEN", "RINGS/S",
		 "WAKES/S", "REFUSED");
	title(line++, column, head);
	for (unsigned int i = 0; i < count && line < end; i++)
		mvprintw(line++, column, "%-11.10s%8s%7s%8s%8s%8s", show_user(users[i].user),
			 show_short(users[i].timers), show_short(users[i].contexts),
			 show_short(per_second(users[i].rings)),
			 show_short(per_second(users[i].wakes)), show_short(users[i].refused));
	return line;
}

/* Pointers to descriptors: the reading itself stays in order. */
static int compare_descriptors(const void *left, const void *right)
{
	const struct descriptor *a = *(struct descriptor * const *)left;
	const struct descriptor *b = *(struct descriptor * const *)right;

	if (a->timers != b->timers)
		return a->timers < b->timers ? 1 : -1;
	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	return a->fd < b->fd ? -1 : 1;
}

/* A bar for each level: buckets that hold a timer. */
static void draw_levels(int line, const struct descriptor *d)
{
	int width;

	mvprintw(line, 0, "%7d %3d %7s ", d->pid, d->fd, show_short(d->timers));
	if (!d->levels) {
		colour(FAINT);
		addstr("few: no levels");
		colour(PLAIN);
		return;
	}
	width = (COLS - LEVELS_COLUMN) / (int)d->levels;
	if (width > 20)
		width = 20;
	for (unsigned int l = 0; l < d->levels; l++) {
		const int column = LEVELS_COLUMN + l * width;

		mvprintw(line, column, "%6s ", show_rough(d->level[l].span * d->tick_ns));
		bar(line, column + 7, width - 8, d->level[l].occupied, d->level[l].buckets, GOOD,
		    true);
	}
}

static void draw_descriptors(int line, int end)
{
	const unsigned int count = top.now.found.count;
	const struct descriptor **d = calloc(count + 1, sizeof(*d));

	if (line >= end || !d) {
		free(d);
		return;
	}
	for (unsigned int i = 0; i < count; i++)
		d[i] = &top.now.found.d[i];
	qsort(d, count, sizeof(*d), compare_descriptors);
	title(line++, 0, top.levels ? "    PID  FD  TIMERS BUCKETS IN USE ON EACH LEVEL" :
				      descriptor_head());
	for (unsigned int i = 0; i < count && line < end; i++, line++) {
		if (top.levels)
			draw_levels(line, d[i]);
		else
			mvaddnstr(line, 0, descriptor_line(d[i]), COLS);
	}
	free(d);
}

static void draw(void)
{
	int line, late, users, half, end;

	erase();
	if (LINES < MIN_LINES || COLS < MIN_COLUMNS) {
		mvprintw(0, 0, "needs %d x %d", MIN_COLUMNS, MIN_LINES);
		refresh();
		return;
	}
	end = LINES - 1;
	line = draw_head(0);
	/* The users' columns are as wide as they are; lateness gets the rest. */
	half = COLS / 2 < COLS - 52 ? COLS / 2 : COLS - 52;
	late = draw_late(line, line + 1 + LATE_ROWS < end ? line + 1 + LATE_ROWS : end,
			 half > 24 ? half : COLS);
	users = half > 24 ? draw_users(line, late > line + 4 ? late : line + 4, half + 1) : line;
	draw_descriptors((late > users ? late : users) + 1, end);
	colour(FAINT);
	mvaddnstr(LINES - 1, 0,
		  "q quit  space pause  +- interval  w levels  l since open", COLS);
	colour(PLAIN);
	refresh();
}

/*
 * The loop
 */

static int read_all(void)
{
	struct stats now;
	int err;

	err = read_stats(&now);
	if (err)
		return err;
	free_stats(&top.before);
	/* The first interval starts when the module was loaded. */
	top.before = top.now;
	top.now = now;
	return 0;
}

/* Return false to quit. */
static bool take_key(int key)
{
	switch (key) {
	case 'q':
	case 'Q':
		return false;
	case ' ':
		top.paused = !top.paused;
		break;
	case '+':
		if (top.interval < 60 * NSEC_PER_SEC)
			top.interval *= 2;
		break;
	case '-':
		if (top.interval >= 200 * NSEC_PER_MSEC)
			top.interval /= 2;
		break;
	case 'w':
		top.levels = !top.levels;
		break;
	case 'l':
		top.since_open = !top.since_open;
		break;
	}
	return true;
}

enum next {
	READ_AGAIN,
	QUIT,
	TERMINAL_GONE,
};

/*
 * Wait for a key until @end, or without end while paused. getch() alone would
 * not do: it returns the same for a terminal that is gone, where every call
 * returns at once, as for none.
 */
static enum next wait_for_key(uint64_t end, int *key)
{
	struct pollfd fds[] = {
		{ .fd = STDIN_FILENO, .events = POLLIN },
		{ .fd = STDOUT_FILENO },
	};
	const uint64_t now = now_ns();
	int ready, wait = -1;

	if (!top.paused)
		wait = now < end ? (int)((end - now - 1) / NSEC_PER_MSEC + 1) : 0;
	ready = poll(fds, ARRAY_SIZE(fds), wait);
	/* After a signal, which may be about the size of the screen, a key may be pending. */
	*key = getch();
	if (ready > 0 && ((fds[0].revents | fds[1].revents) & (POLLERR | POLLHUP | POLLNVAL) ||
			  *key == ERR))
		return TERMINAL_GONE;
	return READ_AGAIN;
}

/* Handle keys until the next reading is due. */
static enum next wait_for_next(uint64_t begin)
{
	int key;

	while (top.paused || now_ns() < begin + top.interval) {
		if (wait_for_key(begin + top.interval, &key) == TERMINAL_GONE)
			return TERMINAL_GONE;
		if (key == ERR)
			continue;
		if (!take_key(key))
			return QUIT;
		draw();
	}
	return READ_AGAIN;
}

static int refresh_until_quit(enum next *next)
{
	for (uint64_t n = 0; ; n++) {
		uint64_t begin = now_ns();
		int err = read_all();

		if (err)
			return err;
		draw();
		*next = n + 1 < top.count ? wait_for_next(begin) : QUIT;
		if (*next != READ_AGAIN)
			return 0;
	}
}

int cmd_top(int argc, char **argv)
{
	static const struct argp_child children[] = {
		{ &help_argp, 0, NULL, 0 }, { 0 }
	};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.children = children,
		.doc = "Show how late alarms rang and expirations were taken, users, and the "
		       "descriptors that hold most timers, or the levels of their wheels. Needs "
		       "root.\v"
		       "Keys: q quit, space pause, + and - interval, w the levels of each "
		       "descriptor's wheels, l lateness since descriptors were opened.\n\n"
		       "Examples:\n"
		       "  sudo htwctl top\n"
		       "  sudo htwctl top --interval 250ms --wheels\n",
	};
	enum next next = QUIT;
	SCREEN *screen;
	int err;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return fail_with(HTWCTL_USAGE, "top needs a terminal; without one, use htwctl stat --interval");
	/* Before the screen is set up, so that an error message stays visible. */
	err = read_all();
	if (err)
		return stats_failed(err);
	top.utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
	screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return fail_with(HTWCTL_FAILED, "unknown terminal %s (TERM)",
				 show_text(getenv("TERM") ?: ""));
	init_colours();
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	curs_set(0);
	err = refresh_until_quit(&next);
	endwin();
	delscreen(screen);
	free_stats(&top.before);
	free_stats(&top.now);
	if (next == TERMINAL_GONE)
		return fail_with(HTWCTL_FAILED, "the terminal is gone");
	return err ? stats_failed(err) : HTWCTL_OK;
}
