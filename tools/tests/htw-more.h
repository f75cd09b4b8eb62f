/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the tests of HTW_MOD, HTW_QUERY, HTW_LIST and HTW_SETUP share
 */
#ifndef HTW_MORE_H
#define HTW_MORE_H

#include <sys/stat.h>
#include "htw-test.h"

#include <sys/stat.h>

#define HOUR	(3600 * SEC)

#define NEEDS(feature) do {						\
	if ((self->features & (feature)) != (feature))			\
		SKIP(return, "no " #feature);				\
} while (0)

static inline int htw_set_up(int fd, struct htw_setup setup)
{
	return htw_call(fd, HTW_SETUP, &setup);
}

static inline int htw_setup_clock(int fd, int clock)
{
	return htw_set_up(fd, (struct htw_setup){ .flags = HTW_SETUP_CLOCK, .clock = clock });
}

/* How many timers expired, or a negative errno. */
static inline long long htw_advance(int fd, __u64 ns, __u32 flags)
{
	struct htw_advance advance = { .ns = ns, .expired = POISON, .flags = flags };
	int ret = htw_call(fd, HTW_ADVANCE, &advance);

	return ret ? ret : (long long)advance.expired;
}

/* State zero, which none is, where there is no such timer. */
static inline struct htw_query htw_query(int fd, __u64 id)
{
	struct htw_query query = { .id = id };

	if (htw_call(fd, HTW_QUERY, &query))
		query.state = 0;
	return query;
}

static inline int htw_mod(int fd, struct htw_mod mod)
{
	return htw_call(fd, HTW_MOD, &mod);
}

static inline int htw_move(int fd, __u64 id, __u64 deadline, __u32 flags)
{
	return htw_mod(fd, (struct htw_mod){
		.id = id, .deadline = deadline, .flags = HTW_MOD_DEADLINE | flags,
	});
}

static inline struct htw_list htw_list_of(const struct htw_query *entries, __u32 count)
{
	return (struct htw_list){
		.entries = (uintptr_t)entries,
		.count = count,
		.done = POISON32,
	};
}

/* The time of any clock that clock_gettime() knows. */
static inline __u64 htw_time(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * SEC + ts.tv_nsec;
}

#define EXPECT_NOT_EARLY_BY(clock, event) do {				\
	EXPECT_GE((event)->fired, (event)->deadline);			\
	EXPECT_GE(htw_time(clock), (event)->fired);			\
} while (0)

/* Runs the statement in a child; true where it came to its end as true. */
#define htw_in_child(condition) ({					\
	int __status = -1;						\
	pid_t __pid = fork();						\
									\
	if (!__pid)							\
		_exit((condition) ? 0 : 1);				\
	__pid > 0 && waitpid(__pid, &__status, 0) == __pid && !__status;\
})

#define NOBODY		65534

static inline bool as_nobody(void)
{
	return !setresgid(NOBODY, NOBODY, NOBODY) && !setresuid(NOBODY, NOBODY, NOBODY);
}

/* For the programs of other users; whoever may open it is the udev rule's matter. */
static inline bool open_to_all(void)
{
	return !chmod(HTW_DEVICE, 0666);
}

/* What HTW_SETUP says to a user without privileges. */
static inline int setup_as_nobody(struct htw_setup setup)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		int fd;

		if (!as_nobody())
			_exit(255);
		fd = htw_open(O_NONBLOCK);
		if (fd < 0)
			_exit(254);
		_exit(-htw_set_up(fd, setup));
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}

#endif /* HTW_MORE_H */
