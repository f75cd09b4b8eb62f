// SPDX-License-Identifier: GPL-2.0-only
#include "machine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../common/clock.h"
#include "../common/random.h"
#include "report.h"

/* As far as the clock is set, so that what is due soon stays so. */
#define MOST_NS		(700 * MSEC)

static int cpu_file(unsigned int cpu, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/online", cpu);
	return open(path, flags | O_CLOEXEC);
}

unsigned int machine_cpus(void)
{
	return sysconf(_SC_NPROCESSORS_CONF);
}

bool machine_can_hotplug(void)
{
	int fd = cpu_file(1, O_WRONLY);

	return fd >= 0 && !close(fd);
}

/* Return whether the CPU is on, or -1. */
static int cpu_is_on(unsigned int cpu)
{
	int fd = cpu_file(cpu, O_RDONLY);
	char c = 0;

	if (fd < 0 || read(fd, &c, 1) != 1)
		return -1;
	close(fd);
	return c == '1';
}

static void switch_cpu(unsigned int cpu, bool on)
{
	int fd = cpu_file(cpu, O_WRONLY);

	/* Busy while another change is under way. */
	if (fd < 0 || (write(fd, on ? "1" : "0", 1) != 1 && errno != EBUSY))
		report_broken("CPU %u: %s", cpu, strerror(errno));
	close(fd);
}

static void set_clock_by(__s64 ns)
{
	__u64 to = clock_ns(CLOCK_REALTIME) + ns;
	struct timespec ts = { .tv_sec = to / SEC, .tv_nsec = to % SEC };

	if (clock_settime(CLOCK_REALTIME, &ts))
		report_broken("clock_settime: %s", strerror(errno));
}

void machine_step(struct machine *m)
{
	unsigned int cpu;
	__s64 offset;

	if (m->set_clock && xorshift64(&m->random) % 2) {
		offset = (__s64)(xorshift64(&m->random) % (2 * MOST_NS)) - (__s64)MOST_NS;
		set_clock_by(offset - m->clock_offset);
		m->clock_offset = offset;
		m->clock_sets++;
	} else if (m->hotplug) {
		cpu = 1 + xorshift64(&m->random) % (m->cpus - 1);
		switch_cpu(cpu, !cpu_is_on(cpu));
		m->hotplugs++;
	}
}

void machine_restore_clock(struct machine *m)
{
	if (m->clock_offset)
		set_clock_by(-m->clock_offset);
	m->clock_offset = 0;
}

void machine_restore_cpus(struct machine *m)
{
	for (unsigned int cpu = 1; m->hotplug && cpu < m->cpus; cpu++)
		if (!cpu_is_on(cpu))
			switch_cpu(cpu, true);
}
