// SPDX-License-Identifier: GPL-2.0-only
/*
 * htwctl top: the module's state on a screen, refreshed at an interval
 *
 * Everything comes from two readings of debugfs and one of /proc. The parts
 * share the lines of the screen: wheels, lateness beside users, then as many as
 * fit of the descriptors that hold most timers.
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
	bool each_wheel;	/* a line for each wheel instead of each CPU */
	bool since_load;	/* lateness since the module was loaded */
	bool paused;
	bool utf8;
	struct stats before, now;
	struct descriptors found;
} top = {
	.interval = NSEC_PER_SEC,
	.count = UINT64_MAX,
};

/* A line of the wheels: a wheel, or the sum of a CPU. */
struct row {
	uint64_t cpu;
	char what[32];
	uint64_t tick_ns;
	uint64_t pending;
	uint64_t expired;	/* this and the following: since the previous reading */
	uint64_t callbacks;
	uint64_t spent;		/* CPU time in ns; only for CPUs */
	unsigned int levels;
	struct {
		uint64_t span;
		uint64_t ring;
		uint64_t occupied;
	} level[HTW_MAX_LEVELS];
};

struct user_row {
	char user[32];
	uint64_t pending;
	uint64_t expired;
	uint64_t contexts;
	uint64_t spent;		/* ns, on all CPUs */
	uint64_t throttled;	/* ns */
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
		top.each_wheel = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ "interval", 'i', "DURATION", 0,
	  "time between refreshes, 100ms to 1h (default 1s)", 1 },
	{ "count", 'n', "N", 0, "exit after N refreshes", 1 },
	{ "wheels", 'w', NULL, 0, "start with a line for each wheel instead of each CPU", 1 },
	{ 0 }
};

static uint64_t difference(uint64_t now, uint64_t before)
{
	return now >= before ? now - before : now;
}

static uint64_t per_second(uint64_t count)
{
	const uint64_t ns = top.now.when - top.before.when;

	return ns ? (uint64_t)(count * 1e9 / ns) : 0;
}

/* Share of one CPU's time. The buffers rotate. */
static const char *percent(uint64_t ns)
{
	static char buffers[4][16];
	static unsigned int turn;
	const uint64_t whole = top.now.when - top.before.when;
	char *buf = buffers[turn++ % ARRAY_SIZE(buffers)];

	snprintf(buf, sizeof(buffers[0]), "%.1f%%", whole ? 100.0 * ns / whole : 0.0);
	return buf;
}

static uint64_t rate_of(const char *name)
{
	return per_second(difference(sum_wheels(&top.now, name), sum_wheels(&top.before, name)));
}

static uint64_t wheel_late(const struct wheel *wheel)
{
	uint64_t sum = 0;

	for (unsigned int b = 0; wheel && b < wheel->late_buckets; b++)
		sum += wheel->late[b];
	return sum;
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
	uint64_t late[LATE_BUCKETS], old[LATE_BUCKETS], expired = 0;
	char when[16], version[32] = "";
	time_t seconds = time(NULL);
	struct tm tm;

	if (!localtime_r(&seconds, &tm) || !strftime(when, sizeof(when), "%H:%M:%S", &tm))
		when[0] = '\0';
	read_module_file("version", version, sizeof(version));
	sum_late(&top.now, late);
	sum_late(&top.before, old);
	for (unsigned int b = 0; b < LATE_BUCKETS; b++) {
		late[b] = difference(late[b], old[b]);
		expired += late[b];
	}

	attron(A_BOLD);
	mvprintw(line, 0, "htw %s", version);
	attroff(A_BOLD);
	printw("  %s  every %s%s", when, show_duration(top.interval),
	       top.paused ? "  paused" : "");
	line++;
	mvprintw(line++, 0, "Pending %s  Expired %s/s  Callbacks %s/s",
		 show_grouped(sum_wheels(&top.now, "pending")), show_short(per_second(expired)),
		 show_short(rate_of("callbacks")));
	mvprintw(line++, 0, "Cascades %s/s  Out of budget %s/s", show_short(rate_of("cascades")),
		 show_short(per_second(difference(sum_exhausted(&top.now),
						  sum_exhausted(&top.before)))));
	if (expired)
		mvprintw(line, 0, "Late    half <%s  99%% <%s  all <%s",
			 show_rough(late_percentile(late, 50)),
			 show_rough(late_percentile(late, 99)),
			 show_rough(late_percentile(late, 100)));
	else
		mvprintw(line, 0, "Late    nothing has expired");
	return line + 2;
}

static void name_row(struct row *row, const struct wheel *wheel)
{
	const char *user = field(&wheel->fields, "user");

	if (user)
		snprintf(row->what, sizeof(row->what), "%.12s %s",
			 field(&wheel->fields, "clock") ?: "", show_user(user));
	else
		snprintf(row->what, sizeof(row->what), "%s",
			 field(&wheel->fields, "clock") ?: "");
}

static void add_to_row(struct row *row, unsigned int number)
{
	const struct wheel *wheel = &top.now.wheels[number];
	const struct wheel *before = same_wheel(&top.before, &top.now, number);

	row->tick_ns = field_u64(&wheel->fields, "tick_ns");
	row->pending += field_u64(&wheel->fields, "pending");
	row->expired += difference(wheel_late(wheel), wheel_late(before));
	row->callbacks += difference(field_u64(&wheel->fields, "callbacks"),
				     before ? field_u64(&before->fields, "callbacks") : 0);
	for (unsigned int l = 0; l < wheel->levels; l++) {
		row->level[l].span = field_u64(&wheel->level[l], "span");
		row->level[l].ring += field_u64(&wheel->level[l], "ring");
		row->level[l].occupied += field_u64(&wheel->level[l], "occupied");
	}
	if (wheel->levels > row->levels)
		row->levels = wheel->levels;
}

/* CPU time that this CPU's pacer has used, in ns. */
static uint64_t spent_on(uint64_t cpu)
{
	for (unsigned int i = 0; i < top.now.pacers.count; i++) {
		const struct fields *now = &top.now.pacers.r[i];
		const struct fields *before = same_record(&top.before.pacers, now);

		if (field_u64(now, "cpu") == cpu)
			return difference(field_u64(now, "spent_ns"),
					  before ? field_u64(before, "spent_ns") : 0);
	}
	return 0;
}

/* Wheels are sorted by CPU. */
static unsigned int fill_rows(struct row *rows)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < top.now.count; i++) {
		const struct wheel *wheel = &top.now.wheels[i];
		const uint64_t cpu = field_u64(&wheel->fields, "cpu");

		if (top.each_wheel || !count || rows[count - 1].cpu != cpu) {
			memset(&rows[count], 0, sizeof(rows[count]));
			rows[count].cpu = cpu;
			if (top.each_wheel)
				name_row(&rows[count], wheel);
			count++;
		}
		add_to_row(&rows[count - 1], i);
	}
	for (unsigned int i = 0; i < count && !top.each_wheel; i++)
		rows[i].spent = spent_on(rows[i].cpu);
	return count;
}

static int draw_wheels(int line, int end)
{
	struct row *rows = calloc(top.now.count + 1, sizeof(*rows));
	const int name = top.each_wheel ? 22 : 0;
	unsigned int count, levels = 0;
	int left, width = 0;
	char head[64];

	if (!rows)
		return line;
	count = fill_rows(rows);
	for (unsigned int i = 0; i < count; i++)
		if (rows[i].levels > levels)
			levels = rows[i].levels;
	left = 4 + name + 8 + 11 + 9 + 7 + 2;
	if (levels)
		width = (COLS - left) / (int)levels;
	if (width > 20)
		width = 20;

	snprintf(head, sizeof(head), "CPU %-*s%8s%11s%9s%7s", name, name ? "CLOCK USER" : "",
		 "PENDING", "EXPIRED/S", "CALLS/S", name ? "" : "USED");
	title(line, 0, head);
	for (unsigned int l = 0; l < levels && count && width > 4; l++) {
		snprintf(head, sizeof(head), "%.*s", width - 1,
			 show_rough(rows[0].level[l].span * rows[0].tick_ns));
		title(line, left + l * width, head);
	}
	line++;
	for (unsigned int i = 0; i < count; i++) {
		/* The last line has the number of those that do not fit. */
		if (line == end - 1 && i + 1 < count) {
			colour(FAINT);
			mvprintw(line++, 0, "... and %u more", count - i);
			colour(PLAIN);
			break;
		}
		mvprintw(line, 0, "%3" PRIu64 " %-*.*s%8s%11s%9s%7s", rows[i].cpu, name, name,
			 rows[i].what, show_short(rows[i].pending),
			 show_short(per_second(rows[i].expired)),
			 show_short(per_second(rows[i].callbacks)),
			 name ? "" : top.now.pacers.count ? percent(rows[i].spent) : "-");
		for (unsigned int l = 0; l < rows[i].levels && width > 4; l++)
			bar(line, left + l * width, width - 1, rows[i].level[l].occupied,
			    rows[i].level[l].ring, GOOD, true);
		line++;
	}
	free(rows);
	return line + 1;
}

static int draw_late(int line, int end, int columns)
{
	uint64_t late[LATE_BUCKETS], old[LATE_BUCKETS], most = 0, tick = 0;
	int first = -1, last = -1;

	sum_late(&top.now, late);
	sum_late(&top.before, old);
	for (unsigned int i = 0; i < top.now.count; i++)
		if (field_u64(&top.now.wheels[i].fields, "tick_ns") > tick)
			tick = field_u64(&top.now.wheels[i].fields, "tick_ns");
	for (int b = 0; b < LATE_BUCKETS; b++) {
		if (!top.since_load)
			late[b] = difference(late[b], old[b]);
		if (!late[b])
			continue;
		if (first < 0)
			first = b;
		last = b;
		if (late[b] > most)
			most = late[b];
	}
	title(line++, 0, top.since_load ? "LATE BELOW, since the module was loaded" :
					  "LATE BELOW, in this interval");
	if (first < 0) {
		mvaddstr(line++, 0, "nothing has expired");
		return line;
	}
	/* If there are too many, show the latest. */
	if (last - first >= LATE_ROWS)
		first = last - LATE_ROWS + 1;
	for (int b = first; b <= last && line < end; b++) {
		/* Up to one tick is promised; beyond that, others had the CPU. */
		int pair = late_bucket_ns(b) / 2 <= tick ? GOOD :
			   late_bucket_ns(b) / 2 <= 2 * tick ? WARN : BAD;

		mvprintw(line, 0, "%9s %6s ", show_rough(late_bucket_ns(b)),
			 show_short(late[b]));
		bar(line, 17, columns - 18, late[b], most, pair, false);
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
	memset(&users[*count], 0, sizeof(*users));
	snprintf(users[*count].user, sizeof(users[*count].user), "%s", user);
	return &users[(*count)++];
}

static void add_users_wheels(struct user_row *users, unsigned int *count)
{
	for (unsigned int i = 0; i < top.now.count; i++) {
		const struct wheel *wheel = &top.now.wheels[i];
		const char *name = field(&wheel->fields, "user");
		struct user_row *user = name ? find_user(users, count, name) : NULL;

		if (!user)
			continue;
		user->pending += field_u64(&wheel->fields, "pending");
		user->expired += difference(wheel_late(wheel),
					    wheel_late(same_wheel(&top.before, &top.now, i)));
	}
}

/* A line for each user, from the lines of each user and CPU. */
static void add_users_shares(struct user_row *users, unsigned int *count)
{
	for (unsigned int i = 0; i < top.now.users.count; i++) {
		const struct fields *now = &top.now.users.r[i];
		const struct fields *before = same_record(&top.before.users, now);
		const char *name = field(now, "user");
		struct user_row *user = name ? find_user(users, count, name) : NULL;

		if (!user)
			continue;
		user->contexts += field_u64(now, "contexts");
		user->spent += difference(field_u64(now, "spent_ns"),
					  before ? field_u64(before, "spent_ns") : 0);
		user->throttled += difference(field_u64(now, "throttled_ns"),
					      before ? field_u64(before, "throttled_ns") : 0);
	}
}

static unsigned int fill_users(struct user_row *users)
{
	unsigned int count = 0;

	add_users_wheels(users, &count);
	add_users_shares(users, &count);
	return count;
}

static int compare_users(const void *left, const void *right)
{
	const struct user_row *a = left, *b = right;

	if (a->spent != b->spent)
		return a->spent < b->spent ? 1 : -1;
	return a->pending < b->pending ? 1 : a->pending > b->pending ? -1 : 0;
}

static int draw_users(int line, int end, int column)
{
	static struct user_row users[MAX_USERS];
	unsigned int count = fill_users(users);
	char head[80];

	qsort(users, count, sizeof(*users), compare_users);
	snprintf(head, sizeof(head), "%-11s%8s%10s%5s%7s%8s", "USER", "PENDING", "EXPIRED/S",
		 "OPEN", "SHARE", "WAITED");
	title(line++, column, head);
	for (unsigned int i = 0; i < count && line < end; i++)
		mvprintw(line++, column, "%-11.10s%8s%10s%5s%7s%8s", show_user(users[i].user),
			 show_short(users[i].pending), show_short(per_second(users[i].expired)),
			 show_short(users[i].contexts), percent(users[i].spent),
			 percent(users[i].throttled));
	return line;
}

static int compare_descriptors(const void *left, const void *right)
{
	const struct descriptor *a = left, *b = right;

	if (a->timers != b->timers)
		return a->timers < b->timers ? 1 : -1;
	return a->pid < b->pid ? -1 : a->pid > b->pid;
}

static void draw_descriptors(int line, int end)
{
	struct descriptors *found = &top.found;

	if (line >= end)
		return;
	if (found->count)
		qsort(found->d, found->count, sizeof(*found->d), compare_descriptors);
	title(line++, 0, descriptor_head());
	for (unsigned int i = 0; i < found->count && line < end; i++)
		mvaddnstr(line++, 0, descriptor_line(&found->d[i]), COLS);
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
	line = draw_wheels(line, line + 1 + (end - line) / 3);
	/* The users' columns are as wide as they are; lateness gets the rest. */
	half = COLS / 2 < COLS - 52 ? COLS / 2 : COLS - 52;
	late = draw_late(line, line + 1 + LATE_ROWS < end ? line + 1 + LATE_ROWS : end,
			 half > 24 ? half : COLS);
	users = half > 24 ? draw_users(line, late > line + 4 ? late : line + 4, half + 1) : line;
	draw_descriptors((late > users ? late : users) + 1, end);
	colour(FAINT);
	mvaddnstr(LINES - 1, 0,
		  "q quit  space pause  +- interval  w wheels  l since load", COLS);
	colour(PLAIN);
	refresh();
}

/*
 * The loop
 */

static int read_all(void)
{
	struct descriptors found;
	struct stats now;
	int err;

	err = read_stats(&now);
	if (err)
		return err;
	err = find_descriptors(0, &found);
	if (err) {
		free_stats(&now);
		return err;
	}
	free_stats(&top.before);
	free_descriptors(&top.found);
	/* The first interval starts when the module was loaded. */
	top.before = top.now;
	top.now = now;
	top.found = found;
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
		top.each_wheel = !top.each_wheel;
		break;
	case 'l':
		top.since_load = !top.since_load;
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
		.doc = "Show the wheels of each CPU with a bar of the buckets in use on each level, "
		       "lateness of expirations, users and their shares of CPU time, and the descriptors "
		       "that hold most timers. Needs root.\v"
		       "Keys: q quit, space pause, + and - interval, w a line for each wheel, l "
		       "lateness since the module was loaded.\n\n"
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
	free_descriptors(&top.found);
	if (next == TERMINAL_GONE)
		return fail_with(HTWCTL_FAILED, "the terminal is gone");
	return err ? stats_failed(err) : HTWCTL_OK;
}
