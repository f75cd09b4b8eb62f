// SPDX-License-Identifier: GPL-2.0-only
/*
 * Descriptors of /dev/htw: a new one, an inherited one, or another process's
 *
 * A context lives as long as a descriptor of it is open, so acting on one takes
 * a descriptor. Another process's is duplicated with pidfd_getfd(2), which
 * needs the permission to trace that process.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "htwctl.h"

#define DEVICE_NUMBER	"/sys/class/htw/htw/dev"

/* Return 0 or an errno. */
int get_info(int fd, struct htw_info_args *info)
{
	return ioctl(fd, HTW_INFO, info) ? errno : 0;
}

/* Print why a call on a descriptor failed that needs one opened for @mode; return the exit code. */
int call_failed(int err, const char *mode, const char *what)
{
	if (err == EBADF)
		return fail_with(HTWCTL_DENIED, "%s: the descriptor was not opened for %s", what,
				 mode);
	return fail(err, "%s", what);
}

/*
 * Print why a timer cannot be added, for an errno that does not depend on the
 * timer; return the exit code.
 */
int add_refused(int fd, int err)
{
	char users[32] = "?";
	struct htw_info_args info;

	switch (err) {
	case ENOSPC:
		if (get_info(fd, &info))
			break;
		return fail_with(HTWCTL_LIMIT,
				 "cannot add a timer: the context's limit is reached, %s timers; reading and cancelling make room",
				 show_grouped(info.limit));
	case EDQUOT:
		read_module_file("parameters/max_user_timers", users, sizeof(users));
		return fail_with(HTWCTL_LIMIT,
				 "cannot add a timer: the user's limit is reached (max_user_timers, %s)",
				 users);
	}
	return call_failed(err, "writing", "cannot add a timer");
}

static void take_late(uint64_t late[LATE_BUCKETS], const char *at)
{
	char *end;

	for (unsigned int b = 0; b < LATE_BUCKETS; b++, at = end) {
		late[b] = strtoull(at, &end, 10);
		if (end == at)
			return;
	}
}

static void take_level(struct descriptor *d, unsigned int level, const char *value)
{
	struct level *l;

	if (level >= HTW_MAX_LEVELS)
		return;
	l = &d->level[level];
	if (sscanf(value, "span %" SCNu64 " buckets %" SCNu64 " occupied %" SCNu64, &l->span,
		   &l->buckets, &l->occupied) == 3 && level >= d->levels)
		d->levels = level + 1;
}

/* A line of fdinfo that has no member of its own. */
static void take_counter(struct descriptor *d, const char *name, const char *value)
{
	struct counter *c = &d->counters[d->nr_counters];

	if (d->nr_counters == ARRAY_SIZE(d->counters) || !isdigit((unsigned char)*value))
		return;
	/* Its key in JSON. */
	snprintf(c->name, sizeof(c->name), "%.*s", (int)sizeof(c->name) - 1, name);
	for (char *at = c->name; *at; at++)
		if (*at == '-')
			*at = '_';
	c->value = strtoull(value, NULL, 10);
	d->nr_counters++;
}

/* A line of fdinfo, without its "htw-": a name, a colon, a tab, and a value. */
static void take_line(struct descriptor *d, const char *name, const char *value)
{
	const struct {
		const char *name;
		uint64_t *to;
	} numbers[] = {
		{ "tick-ns", &d->tick_ns },
		{ "timers", &d->timers },
		{ "limit", &d->limit },
		{ "bytes", &d->bytes },
		{ "refused", &d->refused },
		{ "pending", &d->pending },
		{ "oldest-due-ns", &d->oldest_due },
		{ "taken", &d->taken },
		{ "cancelled", &d->cancelled },
		{ "cascades", &d->cascades },
	};
	unsigned int level;

	for (unsigned int i = 0; i < ARRAY_SIZE(numbers); i++) {
		if (!strcmp(name, numbers[i].name)) {
			*numbers[i].to = strtoull(value, NULL, 10);
			return;
		}
	}
	if (!strcmp(name, "clock"))
		d->clock = atoi(value);
	else if (!strcmp(name, "flags"))
		d->flags = strtoul(value, NULL, 0);
	else if (!strcmp(name, "alarm-late"))
		take_late(d->alarm_late, value);
	else if (!strcmp(name, "taken-late"))
		take_late(d->taken_late, value);
	else if (sscanf(name, "level-%u", &level) == 1)
		take_level(d, level, value);
	else
		take_counter(d, name, value);
}

/* Whether fdinfo is that of /dev/htw: no other file has these fields. */
static bool read_fdinfo(struct descriptor *d)
{
	char path[64], line[1024];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", d->pid, d->fd);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (fgets(line, sizeof(line), file)) {
		char *colon = strchr(line, ':');

		if (strncmp(line, "htw-", 4) || !colon)
			continue;
		*colon = '\0';
		if (line[4 + strspn(line + 4, "abcdefghijklmnopqrstuvwxyz0123456789-")])
			continue;
		found = true;
		take_line(d, line + 4, colon + 1 + strspn(colon + 1, "\t "));
	}
	fclose(file);
	return found;
}

/* HTW_INFO would not do: it needs a descriptor that was opened for reading. */
static bool is_htw(int fd)
{
	struct descriptor d = { .pid = getpid(), .fd = fd };

	return read_fdinfo(&d);
}

/* Open a new context; after an error is printed, return the negative exit code. */
int open_device(void)
{
	int fd = open(opt.device, O_RDWR | O_CLOEXEC);

	if (fd >= 0 && is_htw(fd))
		return fd;
	if (fd >= 0) {
		close(fd);
		return -fail_with(HTWCTL_NO_DEVICE, "%s is not a device of htw",
				  show_text(opt.device));
	}
	switch (errno) {
	case ENOENT:
	case ENXIO:
	case ENODEV:
		return -fail_with(HTWCTL_NO_DEVICE,
				  "%s: no such device; is the module loaded (modprobe htw)?",
				  show_text(opt.device));
	case EACCES:
	case EPERM:
		return -fail_with(HTWCTL_DENIED,
				  "%s: permission denied; members of the device's group may open it (ls -l %s)",
				  show_text(opt.device), show_text(opt.device));
	default:
		return -fail(errno, "%s", show_text(opt.device));
	}
}

/* The device's number, to skip other files without opening anything. */
static bool device_number(dev_t *number)
{
	FILE *file = fopen(DEVICE_NUMBER, "re");
	unsigned int major, minor;
	bool found;

	if (!file)
		return false;
	found = fscanf(file, "%u:%u", &major, &minor) == 2;
	fclose(file);
	*number = makedev(major, minor);
	return found;
}

/*
 * Duplicate a descriptor of another process. After an error is printed, return
 * -1 with the exit code in @code.
 */
int take_descriptor(pid_t pid, int fd, int *code)
{
	int pidfd, taken, err;

	pidfd = syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0) {
		*code = errno == ENOSYS ? fail(ENOSYS, "pidfd_open") :
			fail_with(HTWCTL_NOT_FOUND, "no process %d", pid);
		return -1;
	}
	taken = syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	err = errno;
	close(pidfd);
	if (taken < 0) {
		switch (err) {
		case EBADF:
			*code = fail_with(HTWCTL_NOT_FOUND, "process %d has no descriptor %d",
					  pid, fd);
			break;
		case EPERM:
			*code = fail_with(HTWCTL_DENIED,
					  "process %d: permission denied; needs permission to trace it, see ptrace(2)",
					  pid);
			break;
		default:
			*code = fail(err, "process %d, descriptor %d", pid, fd);
		}
		return -1;
	}
	/* Check the duplicate: the number may have been reused in the meantime. */
	if (!is_htw(taken)) {
		close(taken);
		*code = fail_with(HTWCTL_NOT_FOUND,
				  "descriptor %d of process %d is not one of /dev/htw", fd, pid);
		return -1;
	}
	return taken;
}

/* The descriptor of opt.pid, if it has exactly one context. */
static int only_descriptor(int *code)
{
	struct descriptors found;
	int err, fd = -1;

	err = find_descriptors(opt.pid, &found);
	if (err) {
		*code = find_failed(opt.pid, err);
		return -1;
	}
	if (!found.count) {
		*code = fail_with(HTWCTL_NOT_FOUND, "process %d has no descriptor of /dev/htw",
				  opt.pid);
	} else if (found.count > 1) {
		*code = fail_with(HTWCTL_USAGE,
				  "process %d has %u contexts; choose one with --fd (see htwctl list --pid %d)",
				  opt.pid, found.count, opt.pid);
	} else {
		fd = take_descriptor(opt.pid, found.d[0].fd, code);
	}
	free_descriptors(&found);
	return fd;
}

/*
 * The descriptor chosen by --pid and --fd; without them a new context. After an
 * error is printed, return -1 with the exit code in @code.
 */
int open_target(int *code)
{
	int fd;

	if (opt.pid)
		return opt.fd < 0 ? only_descriptor(code) :
				    take_descriptor(opt.pid, opt.fd, code);
	if (opt.fd >= 0) {
		if (is_htw(opt.fd))
			return opt.fd;
		*code = fail_with(HTWCTL_NOT_FOUND,
				  "descriptor %d is not one of /dev/htw; a shell opens it with exec %d<>/dev/htw",
				  opt.fd, opt.fd);
		return -1;
	}
	fd = open_device();
	if (fd < 0)
		*code = -fd;
	return fd < 0 ? -1 : fd;
}

/* Call @each for each timer until it returns other than 0. Return 0 or an errno. */
int list_timers(int fd, int (*each)(const struct htw_timer_info *timer, void *arg), void *arg)
{
	struct htw_timer_info timers[256];
	struct htw_list_args list = {
		.entries = (uintptr_t)timers,
		.count = ARRAY_SIZE(timers),
	};

	for (;;) {
		if (ioctl(fd, HTW_LIST, &list)) {
			if (errno == EINTR)
				continue;
			return errno;
		}
		if (!list.done)
			return 0;
		for (uint32_t i = 0; i < list.done; i++) {
			int ret = each(&timers[i], arg);

			if (ret)
				return ret;
		}
	}
}

/* Descriptors of other processes */

static int add_descriptor(struct descriptors *found, const struct descriptor *d)
{
	struct descriptor *more;

	/* Double the array when the count reaches a power of two. */
	if (!(found->count & (found->count - 1))) {
		more = realloc(found->d, (found->count ? 2 * found->count : 1) * sizeof(*more));
		if (!more)
			return ENOMEM;
		found->d = more;
	}
	found->d[found->count++] = *d;
	return 0;
}

/* A process's name, which it has chosen itself: any bytes but NUL, at most 15. */
static void read_comm(struct descriptor *d)
{
	char path[64], comm[17];
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/comm", d->pid);
	file = fopen(path, "re");
	if (!file)
		return;
	n = fread(comm, 1, sizeof(comm) - 1, file);
	fclose(file);
	/* The kernel's newline, which is not part of the name. */
	comm[n ? n - 1 : 0] = '\0';
	make_printable(d->comm, sizeof(d->comm), comm);
}

static void read_uid(struct descriptor *d)
{
	char path[64], line[128];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", d->pid);
	file = fopen(path, "re");
	if (!file)
		return;
	/* The kernel has escaped newlines in the name, which comes before. */
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "Uid: %u", &d->uid) == 1)
			break;
	fclose(file);
}

/*
 * Skip what disappears meanwhile: a process may end at any time. Return 0 or an
 * errno.
 */
static int find_in_process(pid_t pid, dev_t device, struct descriptors *found)
{
	struct descriptor process = { .pid = pid, .holders = 1 }, d;
	bool found_any = false;
	struct dirent *entry;
	char path[320];
	struct statx st;
	int err = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	if (!dir)
		return errno;
	while (!err && (entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "/proc/%d/fd/%s", pid, entry->d_name);
		/* Another user's file system may never answer: do not ask it. */
		if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_TYPE, &st) ||
		    !S_ISCHR(st.stx_mode) ||
		    makedev(st.stx_rdev_major, st.stx_rdev_minor) != device)
			continue;
		d = process;
		d.fd = atoi(entry->d_name);
		if (!read_fdinfo(&d))
			continue;
		if (!found_any) {
			read_comm(&process);
			read_uid(&process);
			found_any = true;
			memcpy(d.comm, process.comm, sizeof(d.comm));
			d.uid = process.uid;
		}
		err = add_descriptor(found, &d);
	}
	closedir(dir);
	return err;
}

static int find_everywhere(dev_t device, struct descriptors *found)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	int err = 0;

	if (!dir)
		return errno;
	while (!err && (entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		err = find_in_process(atoi(entry->d_name), device, found);
		if (err == EACCES || err == EPERM) {
			found->hidden++;
			err = 0;
		} else if (err == ENOENT || err == ESRCH) {
			err = 0;
		}
	}
	closedir(dir);
	return err;
}

/* Sort descriptors of one open file next to each other. */
static int compare_files(const void *left, const void *right)
{
	const struct descriptor *a = left, *b = right;

	switch (syscall(SYS_kcmp, a->pid, b->pid, KCMP_FILE, a->fd, b->fd)) {
	case 0:
		return 0;
	case 1:
		return -1;
	case 2:
		return 1;
	}
	/*
	 * Without kcmp(), or if a process has ended, count each descriptor
	 * separately.
	 */
	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	return a->fd < b->fd ? -1 : a->fd > b->fd;
}

static int compare_numbers(const void *left, const void *right)
{
	const struct descriptor *a = left, *b = right;

	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	return a->fd < b->fd ? -1 : a->fd > b->fd;
}

/*
 * Show a context once, although dup(), fork() and SCM_RIGHTS give it several
 * descriptors.
 */
static void merge_shared(struct descriptors *found)
{
	unsigned int kept = 0;

	if (!found->count)
		return;
	qsort(found->d, found->count, sizeof(*found->d), compare_files);
	for (unsigned int i = 1; i < found->count; i++) {
		struct descriptor *last = &found->d[kept];

		if (compare_files(last, &found->d[i])) {
			found->d[++kept] = found->d[i];
			continue;
		}
		/* Keep the one with the lowest pid and number. */
		found->d[i].holders = last->holders + 1;
		if (compare_numbers(&found->d[i], last) < 0)
			*last = found->d[i];
		last->holders = found->d[i].holders;
	}
	found->count = kept + 1;
	qsort(found->d, found->count, sizeof(*found->d), compare_numbers);
}

int find_descriptors(pid_t pid, struct descriptors *found)
{
	dev_t device;
	int err;

	*found = (struct descriptors){ 0 };
	if (!device_number(&device))
		return ENODEV;
	err = pid ? find_in_process(pid, device, found) : find_everywhere(device, found);
	if (err) {
		free_descriptors(found);
		return err == ENOENT ? ESRCH : err;
	}
	merge_shared(found);
	return 0;
}

int find_failed(pid_t pid, int err)
{
	if (err == ENODEV)
		return fail_with(HTWCTL_NO_DEVICE, "the module is not loaded (modprobe htw)");
	return pid ? fail(err, "process %d", pid) : fail(err, "/proc");
}

/* The same descriptor in an earlier reading, or NULL if it is new. */
const struct descriptor *same_descriptor(const struct descriptors *before,
					 const struct descriptor *d)
{
	const struct descriptor *same;

	if (!before->count)
		return NULL;
	same = bsearch(d, before->d, before->count, sizeof(*d), compare_numbers);
	/* What counts less was opened since. */
	return same && same->taken <= d->taken && same->cancelled <= d->cancelled &&
	       same->cascades <= d->cascades ? same : NULL;
}

void free_descriptors(struct descriptors *found)
{
	free(found->d);
	*found = (struct descriptors){ 0 };
}
