// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who suffers from an attack: a task that counts, a program that reads timers of
 * two users, a module with callouts
 *
 * The reader has a real-time priority: when htw has delivered an event it runs, so
 * that it measures htw and not the scheduler.
 */
#include <linux/htw.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../common/clock.h"
#include "victims.h"

#define PULSE_MODULE	"/lib/htw/htw_pulse.ko"
#define PULSE		"/sys/module/htw_pulse/parameters/"

#define PERIOD		(10 * MSEC)
/* Of each of the two users, spread over the period and the tick. */
#define TIMERS		5U
#define SPREAD		2137000ULL
/* The first are due just after a tick: they have to wait for all of the next. */
#define AFTER_TICK	(10 * USEC)

#define READERS		(VICTIM_USER + 1)
/* Less than any attacker's. */
#define VICTIM_UID	1000U
#define READER_PRIORITY	50
#define SAMPLES		4096U

const char * const victim_names[VICTIMS] = {
	[VICTIM_ROOT] = "root",
	[VICTIM_USER] = "user",
	[VICTIM_CALLOUT] = "callout",
};

/**
 * struct shared - what the victims' processes tell
 * @count: how far the counting task is
 * @generation: counts victims_begin()
 * @seen: up to which of them the reader has begun anew
 * @late: what it noted since
 * @samples: how late each event was that it noted since, by when it fired, in ns
 * @sampled: how many of them there are
 * @next: when each timer is due next
 * @ready: whether it has started its timers
 */
struct shared {
	volatile uint64_t count;
	volatile uint32_t generation;
	uint32_t seen;
	struct lateness late[READERS];
	uint32_t samples[SAMPLES];
	uint32_t sampled;
	volatile uint64_t next[READERS][TIMERS];
	volatile bool ready;
};

struct victims {
	struct shared *shared;
	pid_t counter;
	pid_t reader;
};

/*
 * Counts steps of a few us. They are of instructions that do nothing: an emulator
 * that counts instructions is through with them in no time.
 */
static void count(struct shared *s)
{
	for (;;) {
		__asm__ volatile(".rept 4000\n\tnop\n\t.endr");
		s->count++;
	}
}

static int open_timers(struct shared *s, enum victim who)
{
	uint64_t first = now_ns() + PERIOD + who * MSEC;
	unsigned int i;
	int fd;

	first += MSEC - first % MSEC + AFTER_TICK;
	if (who == VICTIM_USER && setresuid(VICTIM_UID, VICTIM_UID, 0))
		die("cannot become a victim: %s", strerror(errno));
	fd = open("/dev/htw", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		die("a victim cannot open /dev/htw: %s", strerror(errno));
	for (i = 0; i < TIMERS; i++) {
		struct htw_add add = {
			.deadline = first + i * SPREAD,
			.interval = PERIOD,
			.cookie = i,
			.flags = HTW_F_ABS,
		};

		s->next[who][i] = add.deadline;
		if (ioctl(fd, HTW_ADD, &add))
			die("HTW_ADD: %s", strerror(errno));
	}
	if (who == VICTIM_USER && setresuid(0, 0, 0))
		die("cannot become root again: %s", strerror(errno));
	return fd;
}

static void grow(uint64_t *most, uint64_t from, uint64_t to)
{
	if (to > from && to - from > *most)
		*most = to - from;
}

static void note_event(struct shared *s, enum victim who, const struct htw_event *ev, uint64_t now)
{
	struct lateness *l = &s->late[who];
	const uint64_t i = ev->cookie;

	l->count++;
	if (i >= TIMERS || ev->deadline != s->next[who][i]) {
		l->wrong++;
		return;
	}
	l->early += ev->fired < ev->deadline || now < ev->fired;
	grow(&l->fired, ev->deadline, ev->fired);
	grow(&l->read, ev->deadline, now);
	if (s->sampled < SAMPLES)
		s->samples[s->sampled++] = ev->fired - ev->deadline;
	s->next[who][i] = ev->deadline + (1 + ev->missed) * PERIOD;
}

static void read_timers(struct shared *s)
{
	struct epoll_event ready[READERS];
	struct htw_event events[2 * TIMERS];
	const int epfd = epoll_create1(EPOLL_CLOEXEC);
	int fds[READERS], n, i;
	unsigned int who;
	uint64_t now;
	ssize_t got;

	for (who = 0; who < READERS; who++) {
		struct epoll_event event = { .events = EPOLLIN, .data.u32 = who };

		fds[who] = open_timers(s, who);
		if (epfd < 0 || epoll_ctl(epfd, EPOLL_CTL_ADD, fds[who], &event))
			die("epoll: %s", strerror(errno));
	}
	s->ready = true;
	for (;;) {
		n = epoll_wait(epfd, ready, READERS, -1);
		if (s->seen != s->generation) {
			memset(s->late, 0, sizeof(s->late));
			s->sampled = 0;
			s->seen = s->generation;
		}
		for (i = 0; i < n; i++) {
			who = ready[i].data.u32;
			got = read(fds[who], events, sizeof(events));
			now = now_ns();
			if (got < 0 && errno != EAGAIN)
				die("read: %s", strerror(errno));
			for (got /= (ssize_t)sizeof(events[0]); got > 0; got--)
				note_event(s, who, &events[got - 1], now);
		}
	}
}

static pid_t start(void (*run)(struct shared *s), struct shared *s, int policy, int priority)
{
	const struct sched_param param = { .sched_priority = priority };
	const pid_t parent = getpid(), pid = fork();

	if (pid < 0)
		die("cannot fork: %s", strerror(errno));
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	if (sched_setscheduler(0, policy, &param))
		die("sched_setscheduler: %s", strerror(errno));
	run(s);
	_exit(1);
}

/* It writes and reads nothing but numbers. */
static uint64_t pulse_get(const char *name)
{
	unsigned long long value;
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), PULSE "%s", name);
	file = fopen(path, "re");
	if (!file || fscanf(file, "%llu", &value) != 1)
		die("cannot read %s", path);
	fclose(file);
	return value;
}

static void pulse_begin(void)
{
	const int fd = open(PULSE "late_max_ns", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "0", 1) != 1)
		die("cannot write " PULSE "late_max_ns: %s", strerror(errno));
	close(fd);
}

static void pulse_load(void)
{
	const int fd = open(PULSE_MODULE, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST))
		die("cannot load " PULSE_MODULE ": %s", strerror(errno));
	close(fd);
}

struct victims *victims_start(void)
{
	struct victims *v = calloc(1, sizeof(*v));
	const uint64_t deadline = now_ns() + SEC;

	if (!v)
		die("no memory");
	v->shared = mmap(NULL, sizeof(*v->shared), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (v->shared == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	v->counter = start(count, v->shared, SCHED_OTHER, 0);
	victims_count(v, false);
	v->reader = start(read_timers, v->shared, SCHED_FIFO, READER_PRIORITY);
	while (!v->shared->ready) {
		if (now_ns() > deadline || waitpid(v->reader, NULL, WNOHANG))
			die("the victims do not start");
		sleep_until(now_ns() + MSEC);
	}
	pulse_load();
	return v;
}

void victims_end(struct victims *v)
{
	kill(v->counter, SIGKILL);
	kill(v->reader, SIGKILL);
	waitpid(v->counter, NULL, 0);
	waitpid(v->reader, NULL, 0);
	munmap(v->shared, sizeof(*v->shared));
	free(v);
	if (syscall(SYS_delete_module, "htw_pulse", 0))
		die("cannot unload htw_pulse: %s", strerror(errno));
}

void victims_count(struct victims *v, bool run)
{
	kill(v->counter, run ? SIGCONT : SIGSTOP);
}

uint64_t victims_counted(const struct victims *v)
{
	return v->shared->count;
}

void victims_begin(struct victims *v)
{
	v->shared->generation++;
	pulse_begin();
}

unsigned int victims_samples(const struct victims *v, uint32_t *ns, unsigned int room)
{
	const struct shared *s = v->shared;
	unsigned int n = 0;

	for (; s->seen == s->generation && n < s->sampled && n < room; n++)
		ns[n] = s->samples[n];
	return n;
}

void victims_note(struct victims *v, struct lateness late[VICTIMS])
{
	const struct shared *s = v->shared;
	uint64_t now;
	unsigned int who, i;

	for (who = 0; who < READERS; who++) {
		/* It reads at a higher priority than ours: what has come has been noted. */
		if (s->seen == s->generation)
			late[who] = s->late[who];
		else
			late[who] = (struct lateness){ 0 };
		now = now_ns();
		for (i = 0; i < TIMERS; i++) {
			grow(&late[who].fired, s->next[who][i], now);
			grow(&late[who].read, s->next[who][i], now);
		}
	}
	late[VICTIM_CALLOUT] = (struct lateness){
		.fired = pulse_get("late_max_ns"),
		.count = pulse_get("fired"),
		.early = pulse_get("early"),
	};
	late[VICTIM_CALLOUT].read = late[VICTIM_CALLOUT].fired;
	if (waitpid(v->reader, NULL, WNOHANG) || waitpid(v->counter, NULL, WNOHANG))
		die("a victim has ended");
}
