/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A program on a terminal: a pty, and libvterm, which keeps the contents of its
 * screen
 */
#ifndef SCREEN_H
#define SCREEN_H

#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vterm.h>
#include "clock.h"

/* A timeout for slow, emulated machines; never a measurement. */
#define SCREEN_SECONDS	90

struct screen {
	int pty;
	pid_t pid;
	VTerm *vt;
	VTermScreen *screen;
	int rows;
	int columns;
};

/* Run @argv with TERM=@term on a terminal of this size. */
static inline bool screen_start(struct screen *s, int rows, int columns, const char *term,
				const char * const argv[])
{
	const struct winsize size = { .ws_row = rows, .ws_col = columns };

	s->rows = rows;
	s->columns = columns;
	s->vt = vterm_new(rows, columns);
	if (!s->vt)
		return false;
	vterm_set_utf8(s->vt, 1);
	s->screen = vterm_obtain_screen(s->vt);
	vterm_screen_enable_altscreen(s->screen, 1);
	vterm_screen_reset(s->screen, 1);
	s->pid = forkpty(&s->pty, NULL, NULL, &size);
	if (s->pid == 0) {
		setenv("TERM", term, 1);
		setenv("LC_CTYPE", "C.UTF-8", 1);
		execvp(argv[0], (char **)argv);
		_exit(127);
	}
	return s->pid > 0;
}

/* Read output for at most @milliseconds; false at its end. */
static inline bool screen_read(struct screen *s, int milliseconds)
{
	struct pollfd poll_fd = { .fd = s->pty, .events = POLLIN };
	char buf[4096];
	ssize_t n;

	if (poll(&poll_fd, 1, milliseconds) <= 0)
		return true;
	n = read(s->pty, buf, sizeof(buf));
	if (n <= 0)
		return n < 0 && errno == EINTR;
	vterm_input_write(s->vt, buf, n);
	/* libvterm's replies to what the program asked the terminal. */
	n = vterm_output_read(s->vt, buf, sizeof(buf));
	return n == 0 || write(s->pty, buf, n) == n;
}

/* A line in UTF-8, without trailing blanks. */
static inline const char *screen_line(struct screen *s, int row, char *buf, size_t size)
{
	const VTermRect rect = {
		.start_row = row, .end_row = row + 1, .start_col = 0, .end_col = s->columns,
	};
	size_t n = vterm_screen_get_text(s->screen, buf, size - 1, rect);

	while (n && buf[n - 1] == ' ')
		n--;
	buf[n] = '\0';
	return buf;
}

/* The first line at or below @from that contains @text; -1 if none does. */
static inline int screen_find(struct screen *s, int from, const char *text)
{
	char buf[2048];

	for (int row = from; row < s->rows; row++)
		if (strstr(screen_line(s, row, buf, sizeof(buf)), text))
			return row;
	return -1;
}

/* Read output until the condition holds; false if it never does. */
#define screen_until(s, condition) ({					\
	uint64_t __end = now_ns() + SCREEN_SECONDS * SEC;		\
	bool __ok, __more = true;					\
									\
	while (!(__ok = (condition)) && __more && now_ns() < __end)	\
		__more = screen_read(s, 100);				\
	__ok || (condition);						\
})

static inline bool screen_type(struct screen *s, const char *keys)
{
	return write(s->pty, keys, strlen(keys)) == (ssize_t)strlen(keys);
}

static inline void screen_resize(struct screen *s, int rows, int columns)
{
	const struct winsize size = { .ws_row = rows, .ws_col = columns };

	s->rows = rows;
	s->columns = columns;
	vterm_set_size(s->vt, rows, columns);
	ioctl(s->pty, TIOCSWINSZ, &size);
}

/* Wait for the program to end; return its exit status, or -1. */
static inline int screen_end(struct screen *s)
{
	const uint64_t end = now_ns() + SCREEN_SECONDS * SEC;
	int status;

	while (screen_read(s, 100) && now_ns() < end)
		;
	if (now_ns() >= end)
		kill(s->pid, SIGKILL);
	if (waitpid(s->pid, &status, 0) != s->pid)
		return -1;
	close(s->pty);
	vterm_free(s->vt);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#endif /* SCREEN_H */
