// SPDX-License-Identifier: GPL-2.0-only
/*
 * The victims of an attack: a task that counts, a program that reads timers of two
 * users, some when SIGIO comes, and a module with callouts
 *
 * The reader has a real-time priority and runs as soon as htw has delivered an
 * event, so that htw is measured and not the scheduler.
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
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../common/clock.h"
#include "../common/htw-client.h"
#include "../common/huge-pages.h"
#include "victims.h"

#define PULSE_MODULE	"/lib/htw/htw_pulse.ko"
#define PULSE		"/sys/module/htw_pulse/parameters/"

#define PERIOD		(10 * MSEC)
/* Timers of each descriptor, spread over the period and the tick. */
#define TIMERS		5U
#define SPREAD		2137000ULL
/* The first are due just after a tick, so they wait for nearly all of the next. */
#define AFTER_TICK	(10 * USEC)

#define ARRAY_SIZE(a)		(sizeof(a) / sizeof((a)[0]))
#define READERS			ARRAY_SIZE(readers)
/* The first victim's; all are lower than any attacker's. */
#define VICTIM_UID	900U
#define READER_PRIORITY	50
#define SAMPLES		4096U

const char * const victim_names[VICTIMS] = {
	[VICTIM_ROOT] = "root",
	[VICTIM_USER] = "user",
	[VICTIM_CALLOUT] = "callout",
	[VICTIM_SIGNAL] = "signal",
	[VICTIM_FRESH] = "fresh",
	[VICTIM_OFTEN] = "often",
};

/* Those whose timers the reader has. */
static const enum victim readers[] = {
	VICTIM_ROOT, VICTIM_USER, VICTIM_SIGNAL, VICTIM_FRESH, VICTIM_OFTEN,
};

/**
 * struct shared - results of the victims' processes
 * @count: progress of the counting task
 * @generation: number of calls of victims_begin()
 * @seen: the last generation that the reader has begun
 * @late: lateness in this generation
 * @samples: lateness of each event in this generation, in ns
 * @sampled: entries of @samples
 * @next: next deadline of each timer
 * @ready: whether the reader has started its timers
 */
struct shared {
	volatile uint64_t count;
	volatile uint32_t generation;
	uint32_t seen;
	struct lateness late[VICTIMS];
	uint32_t samples[SAMPLES];
	uint32_t sampled;
	volatile uint64_t next[VICTIMS][TIMERS];
	volatile bool ready;
};

struct victims {
	struct shared *shared;
	pid_t counter;
	pid_t reader;
};

/*
 * Count steps of a few us each. A step is a loop of instructions without
 * effect, which an emulator that counts instructions executes quickly.
 */
static void count(struct shared *s)
{
	for (;;) {
		__asm__ volatile(".rept 4000\n\tnop\n\t.endr");
		s->count++;
	}
}

/* Open the device as a victim, and start its timers if they are periodic, else the first. */
static int open_timers(struct shared *s, enum victim owner, uint64_t first)
{
	const bool fresh = owner == VICTIM_FRESH;
	const uint64_t spread = owner == VICTIM_OFTEN ? MSEC : SPREAD;
	unsigned int i;
	int fd;

	if (owner != VICTIM_ROOT && setresuid(VICTIM_UID + owner, VICTIM_UID + owner, 0))
		die("cannot become the victim's user: %s", strerror(errno));
	fd = htw_open(O_NONBLOCK);
	if (fd < 0)
		die("the victim's user cannot open /dev/htw: %s", strerror(errno));
	for (i = 0; i < (fresh ? 1 : TIMERS); i++) {
		struct htw_add_args add = {
			.deadline = first + i * spread,
			.interval = fresh ? 0 : PERIOD,
			.cookie = i,
			.flags = HTW_F_ABS,
		};

		s->next[owner][i] = add.deadline;
		if (ioctl(fd, HTW_ADD, &add))
			die("HTW_ADD: %s", strerror(errno));
	}
	if (owner != VICTIM_ROOT && setresuid(0, 0, 0))
		die("cannot return to root: %s", strerror(errno));
	return fd;
}

static uint64_t first_deadline(enum victim owner)
{
	const uint64_t first = now_ns() + PERIOD + owner * MSEC;

	return first + MSEC - first % MSEC + AFTER_TICK;
}

/* Have a descriptor's events announced by SIGIO, and return one to wait for that. */
static int open_signals(int fd)
{
	sigset_t sigio;
	int sigfd;

	sigemptyset(&sigio);
	sigaddset(&sigio, SIGIO);
	sigprocmask(SIG_BLOCK, &sigio, NULL);
	sigfd = signalfd(-1, &sigio, SFD_NONBLOCK | SFD_CLOEXEC);
	if (sigfd < 0 || fcntl(fd, F_SETOWN, getpid()) ||
	    fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK | O_ASYNC))
		die("cannot ask for SIGIO: %s", strerror(errno));
	return sigfd;
}

static void watch_victim(int epfd, int fd, enum victim victim)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = victim };

	if (epfd < 0 || epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event))
		die("epoll: %s", strerror(errno));
}

static void grow(uint64_t *most, uint64_t from, uint64_t to)
{
	if (to > from && to - from > *most)
		*most = to - from;
}

static void note_event(struct shared *s, enum victim owner, const struct htw_event *ev,
		       uint64_t now)
{
	struct lateness *l = &s->late[owner];
	const uint64_t i = ev->cookie;

	l->count++;
	if (i >= TIMERS || ev->deadline != s->next[owner][i]) {
		l->wrong++;
		return;
	}
	l->early += ev->taken < ev->deadline || now < ev->taken;
	grow(&l->late, ev->deadline, now);
	if (s->sampled < SAMPLES)
		s->samples[s->sampled++] = now - ev->deadline;
	s->next[owner][i] = ev->deadline + (1 + ev->missed) * PERIOD;
	/* It is only armed now, and must not be due when it is. */
	while (owner == VICTIM_FRESH && s->next[owner][i] <= now + MSEC)
		s->next[owner][i] += PERIOD;
}

/* Events of the descriptor whose SIGIO has come, which may have been for what was read before. */
static void take_signal(int sigfd)
{
	struct signalfd_siginfo info;

	if (read(sigfd, &info, sizeof(info)) != sizeof(info) && errno != EAGAIN)
		die("signalfd: %s", strerror(errno));
}

static void read_timers(struct shared *s)
{
	struct epoll_event ready[READERS];
	struct htw_event events[2 * TIMERS];
	const int epfd = epoll_create1(EPOLL_CLOEXEC);
	int fds[VICTIMS], sigfd = -1, n, i;
	enum victim victim;
	uint64_t now;
	ssize_t got;

	for (i = 0; i < (int)READERS; i++) {
		int fd = open_timers(s, readers[i], first_deadline(readers[i]));

		fds[readers[i]] = fd;
		if (readers[i] == VICTIM_SIGNAL)
			fd = sigfd = open_signals(fd);
		watch_victim(epfd, fd, readers[i]);
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
			victim = ready[i].data.u32;
			if (victim == VICTIM_SIGNAL)
				take_signal(sigfd);
			got = read(fds[victim], events, sizeof(events));
			now = now_ns();
			if (got < 0 && errno != EAGAIN)
				die("read: %s", strerror(errno));
			if (victim == VICTIM_FRESH && got > 0) {
				note_event(s, victim, &events[0], now);
				got = 0;
				close(fds[victim]);
				fds[victim] = open_timers(s, victim, s->next[victim][0]);
				watch_victim(epfd, fds[victim], victim);
			}
			for (got /= (ssize_t)sizeof(events[0]); got > 0; got--)
				note_event(s, victim, &events[got - 1], now);
		}
	}
}

static pid_t fork_task(void (*run)(struct shared *s), struct shared *s, int policy, int priority)
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

/* The module's parameters hold numbers only. */
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
	if (!stop_khugepaged())
		die("cannot stop khugepaged: %s", strerror(errno));
	v->shared = mmap(NULL, sizeof(*v->shared), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (v->shared == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	v->counter = fork_task(count, v->shared, SCHED_OTHER, 0);
	victims_count(v, false);
	v->reader = fork_task(read_timers, v->shared, SCHED_FIFO, READER_PRIORITY);
	while (!v->shared->ready) {
		if (now_ns() > deadline || waitpid(v->reader, NULL, WNOHANG))
			die("the victims have not started");
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

void victims_note(struct victims *v, struct lateness late[VICTIMS], struct delays *delays)
{
	const struct shared *s = v->shared;
	uint64_t now;
	enum victim victim;
	unsigned int reader, i;

	for (reader = 0; reader < READERS; reader++) {
		victim = readers[reader];
		/*
		 * The reader's priority is higher: by now it has noted all
		 * events that came.
		 */
		if (s->seen == s->generation)
			late[victim] = s->late[victim];
		else
			late[victim] = (struct lateness){ 0 };
		now = now_ns();
		for (i = 0; i < TIMERS && s->next[victim][i]; i++)
			grow(&late[victim].late, s->next[victim][i], now);
	}
	late[VICTIM_CALLOUT] = (struct lateness){
		.late = pulse_get("late_max_ns"),
		.count = pulse_get("fired"),
		.early = pulse_get("early"),
	};
	delays->irqs = pulse_get("irqs_off_max_ns");
	delays->softirqs = pulse_get("softirqs_off_max_ns");
	if (waitpid(v->reader, NULL, WNOHANG) || waitpid(v->counter, NULL, WNOHANG))
		die("a victim has ended");
}
