# SPDX-License-Identifier: GPL-2.0-only
"""What tools/series makes patches of: for each one its message and the files that it adds.

A file may use only what its patch or an earlier one has: a line that calls a function which comes
later is left out until then (tools/series says by which rules), and so is a test that does.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Patch:
    """A patch: NAME.c and NAME.h of core/ for each word of core, and other files."""
    subject: str
    body: str
    core: str = ""
    files: tuple = ()
    # Functions of files that an earlier patch has added.
    functions: str = ""
    # C programs of tools/tests, which become selftests.
    selftests: str = ""
    # Files of the kernel that it changes, by rules of their own.
    changes: tuple = ()


FIRST = (
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
times however far away it is. Levels are memory of the caller, and the wheel
works without: few nodes are in a sorted list, many in the heap.

The KUnit suites compare the wheel with a sorted list, in every geometry
that they can think of.
""", files=("include/linux/htw_node.h", "htw_wheel.c", "htw_wheel.h", "kunit/htw_geometry_kunit.c",
            "kunit/htw_wheel_kunit.c"), changes=("MAINTAINERS", "Kconfig", "Makefile")),
    Patch("misc: htw: Bound and divide softirq time", """\
What users' timers cost is spent in softirq, which nobody pays for. So all
of it passes through a pacer on each CPU, which serves jobs for up to 200 us
and then leaves the CPU alone for as long. Within that, flows (a user on a
CPU) take turns by deficit round robin, as in fq_codel, and a flow of an
unprivileged user has a token bucket.

A job is scheduled as an interrupt schedules NAPI; the next patch has
wheels for jobs.
""", core="off_cpu clock isolation flow pacer", files=("include/trace/events/htw.h",)),
    Patch("misc: htw: Pace wheels by hrtimers", """\
A base is a wheel with its lock and its pinned soft hrtimer, which is
programmed for the wheel's next tick with work. An owner has a set of bases:
one for each CPU and clock, made when it is first used.

When a CPU goes down, another CPU's pacer adopts its bases as they are and
returns them when it comes back: no timer is moved and nothing is allocated.
""", core="base bases", files=("include/linux/htw_entry.h",)),
    Patch("misc: htw: Limit what a user may hold", """\
Memory is charged to the cgroup. Beyond that a user without CAP_SYS_RESOURCE
is limited in timers, counted as pages that hold them. A user's record
outlives the last open file until its share of the CPU is whole again, so
that reopening gains nothing. SIGIO is sent by a work item of the user, as
its recipients may be thousands; users take turns.
""", core="sigio user"),
    Patch("misc: htw: Add timers, their ids and contexts", """\
A context is what one open file will hold. A page has 63 timers of 64 bytes
and a header; an id is a slot number and a generation, so that a lookup is
arithmetic and a stale id never hits another timer. The same list links take
a timer from a free list to the wheel, to the queue of events and back:
nothing is allocated after a timer was added, so expiring cannot fail.

Define the interface for programs, of which the following patches implement
one part after the other.
""", core="timer directory ring context", files=("htw_arith.h", "include/uapi/linux/htw.h")),
    Patch("misc: htw: Allocate and give back timers", """\
Free timers are kept in lists for groups of CPUs, so that threads reuse
those in their own caches. Pages without a timer in use are given back when
a context has far more of them than it needs.
""", core="pool shrink table"),
    Patch("misc: htw: Deliver expirations", """\
Move what is due to the context's queue, a bounded number at a time, and
wake one blocked reader and the poll waiters. A periodic timer is in no
wheel while its event waits: reading computes what was missed from the
phase and arms it again, so a stalled reader causes no storm.

Waking is charged like other work, and a walk over many waiters is continued
by the pacer.
""", core="clock_sets event wake delivery advance"),
    Patch("misc: htw: Add, cancel, move and query timers", """\
An operation finds its timer without a lock. Most are pending on the base
that is locked already and are changed at once; the slow path locks where
the timer was last and looks again. What can be refused is refused before
anything changes: ids are written to the program before their timers are
armed, and arming cannot fail.

HTW_BATCH carries out an array of operations in one call.
""", core="copied section ops"),
    Patch("misc: htw: Add /dev/htw", """\
open(), ioctl(), read(), poll() and fdinfo. read() returns whole events in
the order in which the timers fired; blocked readers wait exclusively, so
that an expiration wakes one of them. The limit of a file is a parameter of
the module.
""", core="reader info contexts", files=("htw_chardev.c", "htw_chardev.h", "htw_main.c"),
          changes=("Documentation/userspace-api/ioctl/ioctl-number.rst",)),
    Patch("misc: htw: Test timers, pacers and wake-ups by KUnit", """\
With ARCH=um's time travel the clock jumps to the next timer, so the suites
assert lateness exactly. Some stage races between a call and an expiry,
which programs cannot.
""", files=("kunit/htw_kunit.h", "kunit/htw_debugfs.h", "kunit/htw_base_kunit.c", "kunit/htw_flow_kunit.c",
            "kunit/htw_pacer_kunit.c", "kunit/htw_sigio_kunit.c", "kunit/htw_wake_kunit.c",
            "kunit/htw_device_kunit.c", "kunit/htw_shrink_kunit.c")),
    Patch("selftests: htw: Test /dev/htw", """\
A program for each call, and a case for each promise and each error that
the header for programs documents.
""", selftests="add cancel mod query read poll batch expire periodic keep slack limit",
          changes=("tools/testing/selftests/Makefile",)),
    Patch("docs: userspace-api: Describe /dev/htw", """\
What the device is for and what it promises; the reference is the
kernel-doc of its header.
""", files=("docs/htw.rst",), changes=("Documentation/userspace-api/index.rst",)),
)

# In the order in which they would be posted.
LATER = (
    Patch("misc: htw: Configure a file by HTW_SETUP", """\
Clock, tick and geometry of a private wheel, limit and home CPU, and a
manual clock that only the program moves, for its tests.
""", core="setup", functions="htw_op_advance", files=("kunit/htw_context_kunit.c",)),
    Patch("misc: htw: List, harvest and cancel all timers", "\n", core="walk",
          files=("kunit/htw_walk_kunit.c",)),
    Patch("misc: htw: Carry out one operation on many timers", """\
A vector checks once what is common and copies 8 to 24 bytes for each timer,
where a batch copies 64.
""", core="vector", files=("kunit/htw_vector_kunit.c",)),
    Patch("misc: htw: Map the ring of events and the table of deadlines", """\
Expirations are read from the ring without a system call, and a deadline is
put off by storing to the table.
""", core="mmap table_enable", functions="htw_reader_flush",
          files=("kunit/htw_ring_kunit.c", "kunit/htw_table_kunit.c", "kunit/htw_rearm_kunit.c",
                 "kunit/htw_killed_kunit.c")),
    Patch("misc: htw: Expire timers when the clock is set", "\n", core="cancel_on_set",
          files=("kunit/htw_clockset_kunit.c",)),
    Patch("misc: htw: Add callouts for other modules", "\n", core="callout",
          files=("include/linux/htw.h", "kunit/htw_callout_kunit.c")),
    Patch("misc: htw: Show statistics in debugfs", "\n", core="debugfs"),
)

# The bits of enum htw_feature that come with a function.
FEATURES = {
    "HTW_FEATURE_ALL": "htw_op_cancel_all", "HTW_FEATURE_SETUP": "htw_op_setup",
    "HTW_FEATURE_MANUAL": "htw_op_advance", "HTW_FEATURE_RING": "htw_mmap",
    "HTW_FEATURE_TABLE": "htw_table_enable", "HTW_FEATURE_VECTOR": "htw_op_vector",
    "HTW_FEATURE_CANCEL_ON_SET": "htw_cancel_on_set_init", "HTW_FEATURE_RING_TAIL": "htw_mmap",
    "HTW_FEATURE_NEXT": "htw_op_next", "HTW_FEATURE_LIST_STATES": "htw_op_list",
    "HTW_FEATURE_UNREAD": "htw_table_enable",
}

# Text that the rules do not find: file, what to replace, by what, and the function with which the
# text is as in the file; "" for never.
EDITS = (
    ("htw_wheel.h", " It also compiles as part of a\n"
     " * program, for libhtw's timers in the process, with lib/port for what it uses\n"
     " * of the kernel.\n", "\n", ""),
    ("htw_main.c", "MODULE_VERSION(HTW_VERSION);\n", "", ""),
    ("htw_main.c", "\t/* Callouts of other built-in drivers may be pending, and do not need /dev/htw. */\n"
     "\tif (!__is_defined(MODULE))\n\t\tgoto err_params;\n", "", "htw_callouts_init"),
    ("core/advance.c", "static_assert(sizeof(struct htw_advance) == 32);\n\n", "", "htw_op_advance"),
    ("core/user.c", "\tcancel_work_sync(&user->clock_work);\n", "", "htw_cancel_on_set_init"),
    ("core/user.c", "\tINIT_WORK(&user->clock_work, ops->cancel_on_set);\n", "", "htw_cancel_on_set_init"),
    ("core/context.h", ": inline for that (docs/performance.md). */", ": inline for that. */", ""),
    ("core/ops.h", " (docs/performance.md). */", ". */", ""),
    ("core/section.h", ": see\n * docs/performance.md.\n", ".\n", ""),
    ("core/shrink.c", " (docs/performance.md).\n", ".\n", ""),
    ("core/timer.h", " (docs/performance.md).\n", ".\n", ""),
    ("core/vector.c", ": see docs/performance.md.\n", ".\n", ""),
    ("include/uapi/linux/htw.h", "/* Numbers 0xE7 00-1F are reserved for htw: docs/ioctl-number.rst. */\n", "", ""),
)
