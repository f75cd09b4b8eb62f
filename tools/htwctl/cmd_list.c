// SPDX-License-Identifier: GPL-2.0-only
/*
 * htwctl list: all descriptors of /dev/htw, or the timers of some
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "descriptors.h"

/* The descriptor whose timers are printed; zeroes for an inherited one. */
struct listing {
	pid_t pid;
	int fd;
	bool head;
};

static void print_timer_json(const struct htw_timer_info *timer, const struct listing *listing)
{
	struct json_object *object = json_new();

	if (listing->pid)
		json_add_i64(object, "pid", listing->pid);
	json_add_i64(object, "fd", listing->fd);
	json_add_hex(object, "id", timer->id);
	json_add_hex(object, "cookie", timer->cookie);
	json_add_str(object, "state", show_state(timer->state));
	json_add_u64(object, "deadline_ns", timer->deadline);
	json_add_u64(object, "remaining_ns", timer->remaining);
	json_add_u64(object, "interval_ns", timer->interval);
	json_add_u64(object, "firings", timer->firings);
	json_add_u64(object, "missed", timer->missed);
	json_add_bool(object, "keep", timer->flags & HTW_F_KEEP);
	json_print(object);
}

static int print_timer(const struct htw_timer_info *timer, void *arg)
{
	struct listing *listing = arg;

	if (opt.json) {
		print_timer_json(timer, listing);
		return 0;
	}
	if (!listing->head)
		printf("%-20s %-20s %-8s %12s %12s %10s  %s\n", "ID", "COOKIE", "STATE", "IN",
		       "EVERY", "FIRINGS", "FLAGS");
	listing->head = true;
	printf("%-20s %-20s %-8s %12s %12s %10s  %s\n", show_hex(timer->id),
	       show_hex(timer->cookie), show_state(timer->state),
	       timer->state == HTW_STATE_PENDING ? show_duration(timer->remaining) : "-",
	       timer->interval ? show_duration(timer->interval) : "-",
	       timer->interval && timer->firings ? show_grouped(timer->firings) : "-",
	       timer->flags & HTW_F_KEEP ? "keep" : "");
	return ferror(stdout);
}

static int list_descriptor(int fd, struct listing *listing)
{
	int err = list_timers(fd, print_timer, listing);

	/* An error of stdout itself is reported by finish_output(). */
	if (err && !ferror(stdout))
		return call_failed(err, "reading", "cannot list the timers");
	if (!listing->head && !opt.json)
		puts("no timer");
	return HTWCTL_OK;
}

/* The timers of all contexts of a process. */
static int list_process(void)
{
	struct descriptors found;
	int err, code = HTWCTL_OK;

	err = find_descriptors(opt.pid, &found);
	if (err)
		return find_failed(opt.pid, err);
	if (!found.count)
		code = fail_with(HTWCTL_NOT_FOUND, "process %d has no descriptor of /dev/htw",
				 opt.pid);
	for (unsigned int i = 0; i < found.count && code == HTWCTL_OK; i++) {
		const struct descriptor *d = &found.d[i];
		struct listing listing = { .pid = d->pid, .fd = d->fd };
		int fd = take_descriptor(d->pid, d->fd, &code);

		if (fd < 0)
			break;
		if (!opt.json)
			printf("%sdescriptor %d, %s, tick %s\n", i ? "\n" : "", d->fd,
			       show_clock(d->clock), show_duration(d->tick_ns));
		code = list_descriptor(fd, &listing);
		close(fd);
	}
	free_descriptors(&found);
	return code;
}

static int list_all(void)
{
	struct descriptors found;
	int err;

	err = find_descriptors(0, &found);
	if (err)
		return find_failed(0, err);
	for (unsigned int i = 0; opt.json && i < found.count; i++)
		json_print(descriptor_json(&found.d[i]));
	if (!opt.json && found.count)
		puts(descriptor_head());
	for (unsigned int i = 0; !opt.json && i < found.count; i++)
		puts(descriptor_line(&found.d[i]));
	if (!opt.json && !found.count)
		puts("no descriptor of /dev/htw is open");
	if (found.hidden)
		fprintf(stderr, "htwctl: no permission to look into %u processes of other users\n",
			found.hidden);
	free_descriptors(&found);
	return HTWCTL_OK;
}

int cmd_list(int argc, char **argv)
{
	static const struct argp_child children[] = {
		{ &target_argp, 0, NULL, 0 }, { &format_argp, 0, NULL, 0 },
		{ &help_argp, 0, NULL, 0 }, { 0 }
	};
	static const struct argp argp = {
		.doc = "Without --pid and --fd, list all open files of /dev/htw and their timers' number. "
		       "With them, list the timers: of all contexts of a process, or of one.\v"
		       "PID and FD are one descriptor of an open file; FDS is the number of its "
		       "descriptors in all processes that htwctl may look into. Timers in a "
		       "process, without /dev/htw, cannot be seen.\n\n"
		       "Examples:\n"
		       "  sudo htwctl list\n"
		       "  htwctl list --pid 4711 --fd 5\n"
		       "  htwctl list --pid 4711 --format=json | jq -r .id\n",
		.children = children,
	};
	struct listing listing;
	int fd, code;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	if (!opt.pid && opt.fd < 0)
		return list_all();
	if (opt.fd < 0)
		return list_process();
	fd = open_target(&code);
	if (fd < 0)
		return code;
	listing = (struct listing){ .pid = opt.pid, .fd = opt.fd };
	return list_descriptor(fd, &listing);
}
