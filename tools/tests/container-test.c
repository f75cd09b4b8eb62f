// SPDX-License-Identifier: GPL-2.0-only
/*
 * In a container: /dev/htw is bind-mounted into a root of its own, as --device does,
 * below a user namespace, and all that runs there counts as one user
 *
 * VM options: --module-args max_user_timers=1000
 */
#include "htw-test.h"

#include <grp.h>
#include <sys/mount.h>
#include <sys/prctl.h>

#define PARAMETER	HTW_MODULE "max_user_timers"
#define ALICE		2001
#define BOB		2002
/* The device's group, as the udev rule gives it. */
#define GROUP		4242
#define ROOT		"/tmp/container"
/* More than a descriptor's first timer needs, in timers. */
#define SMALLEST	30

#define STEP(cond) do {							\
	if (!(cond)) {							\
		TH_LOG("not so: %s: %s", #cond, strerror(errno));	\
		return false;						\
	}								\
} while (0)

/* A user in the initial namespace, in the device's group or in none but its own. */
static bool become(uid_t uid, bool in_group)
{
	const gid_t groups[] = { GROUP };

	/* A process that has changed its uid must be dumpable again to write its maps. */
	return !setgroups(in_group, groups) && !setresgid(uid, uid, uid) &&
	       !setresuid(uid, uid, uid) && !prctl(PR_SET_DUMPABLE, 1);
}

static bool write_map(pid_t pid, const char *name, unsigned int outside, unsigned int count)
{
	char path[64], map[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	snprintf(map, sizeof(map), "0 %u %u", outside, count);
	return !htw_write_file(path, map);
}

/* Makes a user namespace in which the caller is root, and a mount namespace below it. */
static bool unshare_as(uid_t uid)
{
	return !unshare(CLONE_NEWUSER | CLONE_NEWNS) &&
	       !htw_write_file("/proc/self/setgroups", "deny") &&
	       write_map(getpid(), "uid_map", uid, 1) && write_map(getpid(), "gid_map", uid, 1);
}

/* Goes into a root that holds the device, if it is given one, and nothing else. */
static bool enter_root(bool with_device)
{
	int fd;

	if (mount("none", ROOT, "tmpfs", 0, NULL) || mkdir(ROOT "/dev", 0755))
		return false;
	if (with_device) {
		fd = open(ROOT "/dev/htw", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		if (fd < 0 || close(fd) || mount(HTW_DEVICE, ROOT "/dev/htw", NULL, MS_BIND, NULL))
			return false;
	}
	return !chroot(ROOT) && !chdir("/");
}

/* Starts timers until the user may have no more memory for them. */
static __u64 fill(int fd)
{
	return htw_start_many(fd, ~0ULL, 0, 1 << 20, NULL);
}

/*
 * Uses up the user's limit: on a descriptor, and on others what is left when there is no room
 * for another page of timers. They stay open.
 */
static bool use_up(int fd, __u64 limit)
{
	const __u64 started = fill(fd);
	struct htw_info_args info;

	while (fill(htw_open(O_NONBLOCK)))
		;
	info = htw_info(fd);
	/* Headers of pages and the wheels of its CPUs count as well. */
	return started > limit / 2 && started < limit && info.user_limit == limit &&
	       info.user_timers <= limit && info.user_timers + SMALLEST > limit;
}

static bool over_quota(int fd)
{
	return !htw_start(fd, HOUR, 1) && errno == EDQUOT;
}

/* Timers work as they do outside. */
static bool works(struct __test_metadata *_metadata)
{
	const int fd = htw_open(O_NONBLOCK);
	struct htw_event ev[10];
	__u64 ids[10];
	int i;

	STEP(fd >= 0);
	STEP(htw_start_many(fd, now_ns() + MSEC, 0, 10, ids) == 10);
	STEP(htw_collect(fd, ev, 10) == 10);
	for (i = 0; i < 10; i++)
		STEP(ev[i].id == ids[i] && ev[i].taken >= ev[i].deadline);
	return !close(fd);
}

FIXTURE(container) {
	__u64 limit;
};

FIXTURE_SETUP(container)
{
	self->limit = htw_file_number(PARAMETER);
	ASSERT_GE(100000, self->limit);
	ASSERT_EQ(0, chown(HTW_DEVICE, 0, GROUP));
	ASSERT_EQ(0, chmod(HTW_DEVICE, 0660));
	ASSERT_TRUE(!mkdir(ROOT, 0755) || errno == EEXIST);
}

FIXTURE_TEARDOWN(container)
{
}

#define CONTAINER_TEST(name) TEST_F_TIMEOUT(container, name, TEST_SECONDS)

static bool device_in_a_container(struct __test_metadata *_metadata)
{
	STEP(become(ALICE, true));
	STEP(unshare_as(ALICE));
	STEP(enter_root(true));
	STEP(!getuid() && access("/proc", F_OK));
	return works(_metadata);
}

CONTAINER_TEST(works_in_a_container)
{
	EXPECT_TRUE(htw_in_child(device_in_a_container(_metadata)));
}

static bool group_counts(struct __test_metadata *_metadata)
{
	STEP(become(BOB, false));
	STEP(unshare_as(BOB));
	STEP(enter_root(true));
	return htw_open(O_NONBLOCK) < 0 && errno == EACCES;
}

/* To be root there does not open a device that the user outside may not open. */
CONTAINER_TEST(needs_the_group)
{
	EXPECT_TRUE(htw_in_child(group_counts(_metadata)));
}

static bool no_device(struct __test_metadata *_metadata)
{
	STEP(become(ALICE, true));
	STEP(unshare_as(ALICE));
	STEP(enter_root(false));
	return open(HTW_DEVICE, O_RDWR) < 0 && errno == ENOENT;
}

CONTAINER_TEST(is_not_there_without)
{
	EXPECT_TRUE(htw_in_child(no_device(_metadata)));
}

/* Timers in a container, and in one inside it, count for the user who made the outer one. */
static bool counts_as_the_maker(struct __test_metadata *_metadata, __u64 limit)
{
	int fd, outside, nested;

	STEP(become(ALICE, true));
	outside = htw_open(O_NONBLOCK);
	STEP(outside >= 0);
	/* Without its own root: below one that chroot() made, none may be nested. */
	STEP(unshare_as(ALICE));
	fd = htw_open(O_NONBLOCK);
	STEP(fd >= 0);
	STEP(use_up(fd, limit));
	/* Opened before, as the user outside. */
	STEP(over_quota(outside));
	STEP(!unshare(CLONE_NEWUSER));
	nested = htw_open(O_NONBLOCK);
	STEP(nested >= 0);
	STEP(over_quota(nested));
	/* Timers cancelled inside make room outside. */
	close(fd);
	STEP(fill(outside));
	return true;
}

CONTAINER_TEST(counts_as_its_maker)
{
	EXPECT_TRUE(htw_in_child(counts_as_the_maker(_metadata, self->limit)));
	/* And for no other user: BOB still has a whole limit. */
	EXPECT_TRUE(htw_in_child(become(BOB, true) &&
				 use_up(htw_open(O_NONBLOCK), self->limit)));
}

/* A child of root's in a user namespace that root made for it, mapped to ALICE and on. */
static bool container_of_roots(struct __test_metadata *_metadata, __u64 limit,
			       bool (*inside)(int, __u64))
{
	int made[2], mapped[2], status;
	pid_t pid;
	char byte;

	STEP(!pipe(made) && !pipe(mapped));
	pid = fork();
	if (!pid) {
		int fd;

		close(mapped[1]);
		if (unshare(CLONE_NEWUSER | CLONE_NEWNS) || write(made[1], "", 1) != 1 ||
		    read(mapped[0], &byte, 1) != 1 || setresgid(0, 0, 0) ||
		    setresuid(0, 0, 0) || !enter_root(true))
			_exit(2);
		fd = htw_open(O_NONBLOCK);
		_exit(fd >= 0 && inside(fd, limit) ? 0 : 1);
	}
	close(made[1]);
	STEP(read(made[0], &byte, 1) == 1);
	STEP(write_map(pid, "uid_map", ALICE, 10) && write_map(pid, "gid_map", GROUP, 10));
	STEP(write(mapped[1], "", 1) == 1);
	STEP(waitpid(pid, &status, 0) == pid);
	return !status;
}

/* Two uids of a container share one limit. */
static bool all_share_one(int fd, __u64 limit)
{
	int other;

	if (!use_up(fd, limit) || setresuid(1, 1, 1))
		return false;
	other = htw_open(O_NONBLOCK);
	return other >= 0 && over_quota(other);
}

static bool another_has_all(int fd, __u64 limit)
{
	return use_up(fd, limit);
}

/* Opened outside of the container, for which it says what it says to root. */
static int users;

static bool is_listed(int fd, __u64 limit)
{
	static char buf[1 << 16];
	unsigned int ns, contexts;
	const char *line;

	if (pread(users, buf, sizeof(buf) - 1, 0) <= 0)
		return false;
	for (line = buf; (line = strstr(line, "user ns:")); line++) {
		if (sscanf(line, "user ns:%u contexts %u", &ns, &contexts) == 2 && contexts == 1)
			return true;
	}
	return false;
}

/* debugfs names it by the namespace. */
CONTAINER_TEST(of_roots_is_listed)
{
	users = open("/sys/kernel/debug/htw/users", O_RDONLY | O_CLOEXEC);
	if (users < 0)
		SKIP(return, "no debugfs");
	EXPECT_TRUE(container_of_roots(_metadata, self->limit, is_listed));
	close(users);
}

/* A container that root made is a separate user, whichever uids it maps. */
CONTAINER_TEST(of_roots_is_a_user_of_its_own)
{
	int pair[2], status;
	char byte;
	pid_t pid;

	EXPECT_TRUE(container_of_roots(_metadata, self->limit, all_share_one));
	/* ALICE, to whose uid it is mapped, is at her limit meanwhile. */
	ASSERT_EQ(0, pipe(pair));
	pid = fork();
	if (!pid) {
		if (become(ALICE, true) &&
		    use_up(htw_open(O_NONBLOCK), self->limit) &&
		    write(pair[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	close(pair[1]);
	EXPECT_EQ(1, read(pair[0], &byte, 1));
	EXPECT_TRUE(container_of_roots(_metadata, self->limit, another_has_all));
	kill(pid, SIGKILL);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	close(pair[0]);
}

TEST_HARNESS_MAIN
