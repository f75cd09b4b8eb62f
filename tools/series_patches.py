# SPDX-License-Identifier: GPL-2.0-only
"""What tools/series makes patches of: for each one its message and the files that it adds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Patch:
    """A patch: NAME.c and NAME.h of core/ for each word of core, and other files."""
    subject: str
    body: str
    core: str = ""
    files: tuple = ()
    # With the programs of tools/series-first/selftests?
    selftests: bool = False
    # Files of the kernel that it changes, by rules of their own.
    changes: tuple = ()


PATCHES = (
    Patch("misc: htw: Add a hierarchical timing wheel", """\
A data structure without a clock or a lock: ticks are plain numbers and the
caller serializes all calls. Starting and stopping a node is O(1), nodes
expire at exactly their tick, and the bitmaps of occupied buckets give the
next tick with work, so that empty ticks cost nothing.

Each level has room for two windows. A bucket is moved down a whole window
ahead of its first tick, a few nodes at a time and behind those that are
due, so moving nodes down delays no expiry. The comment in htw_wheel.c
describes this.

What no level holds is in a radix heap, so that a node is looked at O(log)
times however far away it is.

The KUnit suite compares the wheel with a table of what is pending.
""", files=("htw_wheel.c", "htw_wheel.h", "kunit/htw_wheel_kunit.c"),
          changes=("MAINTAINERS", "Kconfig", "Makefile")),
    Patch("ucount: Count the pages of timers of /dev/htw", """\
A program can hold millions of timers, in pages of the kernel's. They are
charged to its cgroup, but without one a user needs a limit that user
namespaces do not multiply: as for inotify's watches a count for each user
in each namespace, with max_htw_pages in /proc/sys/user.

RLIMIT_MEMLOCK does not fit: its default is 8 MiB, it is a process's, and
others share it, which is why io_uring and BPF left it for the cgroup.

htw can be a module, as binfmt_misc can.
""", changes=("include/linux/user_namespace.h", "kernel/ucount.c", "Documentation/admin-guide/sysctl/user.rst")),
    Patch("misc: htw: Add contexts, timers in pages, and what wakes their readers", """\
A context is what one open file will hold: timers in pages, a wheel with a
lock that only tasks take, and an alarm. An id is a slot number and a
generation, so that a lookup is arithmetic and a stale id never hits
another timer. Pages stay until the file is closed.

The alarm is an hrtimer whose callback only wakes who waits; so what users
can have the kernel do in interrupts does not depend on how many timers are
due. It rings no later than the next work of the wheel, by whoever drops
the wheel's lock.

A user is charged a page at a time.

Define the interface for programs, of which the following patches implement
one part after the other.
""", core="timer ids user alarm base pages context", files=("htw_arith.h", "include/uapi/linux/htw.h"),
          changes=("Makefile",)),
    Patch("misc: htw: Read expirations", """\
What expires a timer is read(), in the task that reads. It writes the events
to the reader's memory, and only then the timers leave the wheel: there is
no queue of expired timers, nothing is allocated, and a timer can be
cancelled until its event is taken. A periodic timer is armed again then,
from its phase, so a stalled reader causes no storm. Buckets of the wheel
are moved down by the program's own calls.

Readers that block wait exclusively, so that one of them is woken; one that
does not take all, or takes nothing, wakes the next.

Times are as the reader's time namespace has them.
""", core="clock collect", changes=("Makefile",)),
    Patch("misc: htw: Add, cancel and move timers", """\
What can be refused is refused before anything changes: ids are written to
the program before their timers are armed, and arming cannot fail.

A vector does the same with many timers: it checks once what they have in
common, copies 8 to 24 bytes for each, and takes the lock once for 64.
""", core="copied calls vector", changes=("Makefile",)),
    Patch("misc: htw: Add /dev/htw", """\
open(), ioctl(), read() and poll(). read() returns whole events.

It is not a misc device: misc_open() holds a mutex of all misc devices while
it calls the driver's open(), and this one allocates memory, in tasks of any
priority.
""", files=("htw_chardev.c", "htw_chardev.h", "htw_main.c"),
          changes=("Kconfig", "Makefile", "Documentation/userspace-api/ioctl/ioctl-number.rst")),
    Patch("selftests: htw: Test /dev/htw", """\
What the header for programs promises of the calls, of events and periodic
timers, of waiting in each way, of a reader that gets no CPU, and of the
limit on pages. In one case tasks start, move and cancel timers while others
wait in each way, and each timer is accounted for.
""", selftests=True, changes=("tools/testing/selftests/Makefile",)),
    Patch("docs: userspace-api: Describe /dev/htw", """\
What the device is for and what it promises; the reference is the
kernel-doc of its header.
""", files=("docs/htw.rst",), changes=("Documentation/userspace-api/index.rst",)),
)
