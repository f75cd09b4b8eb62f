#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Keep the figures in the documents equal to the benchmark's committed report.

  tools/bench/tables.py          rewrite the tables and figures in *.md and docs/*.md
  tools/bench/tables.py --check  change nothing; exit with 1 if a document differs
  tools/bench/tables.py --list   print each table's name, meaning and current text

A table stands between two marks, each on a line of its own:

  <!-- table: cost -->
  <!-- table end -->

"cost", "growth" and "workloads" accept the systems to show, in order:
<!-- table: cost wheel libhtw libev htw-vector -->

A figure within a sentence precedes a mark that names its row of the report, by
system, operation and number of pending timers; another unit and a number of
decimals may follow ("0.1 us", "0.01 ms"):

  A re-arm takes 90<!-- = htw-vector rearm 1000000 --> instructions, a burst
  stalls a task for 14<!-- = htw-vector burst-longest-stall 1000000 us --> us.
"""

import argparse
import json
import re
import sys

sys.dont_write_bytecode = True
import budgets  # noqa: E402
import locks  # noqa: E402
from documents import TOP, Unknown, keep_equal, markdown  # noqa: E402

REPORT = TOP / "docs/bench/report.json"
# A part of it, measured on Linux 7.
REPORT_7 = TOP / "docs/bench/report-7.json"
ATTACKS = TOP / "tools/contain/attacks.c"
DOCUMENTS = sorted([*TOP.glob("*.md"), *TOP.glob("docs/*.md")])

MILLION = budgets.MILLION
CONNECTIONS = budgets.CONNECTIONS
OPERATIONS = {"add": "add", "rearm": "re-arm", "cancel": "cancel", "expire": "expire"}
IN_PROCESS = ("wheel", "libhtw", "libev", "libevent", "libuv", "rte_timer")
# Measured where its packages are installed.
OPTIONAL = ("rte_timer",)
MODULE = ("htw", "htw-vector")
KERNEL = ("timerfd", "posix", "io_uring")
CALLOUTS = ("htw-kernel", "timer_list", "hrtimer")
SYSTEMS = (*MODULE, *IN_PROCESS, *KERNEL, *CALLOUTS)
MET = {True: "met", False: "**missed**"}
NS = {"ns": 1, "us": 1000, "ms": 1000000}


def code(system):
    return f"`{system}`"


def shown(value, decimals=0):
    return f"{value:,.{decimals}f}"


class Tables:
    """The tables of one report; @newer has those of a newer kernel's."""

    def __init__(self, report, newer=None):
        self.newer = newer
        self.values = {(r["system"], r["op"], r["pending"]): r["value"] for r in report}
        self.report = report
        self.units = {(r["system"], r["op"], r["pending"]): r["unit"] for r in report}

    def value(self, *key):
        if key not in self.values:
            raise Unknown(f"the report has no row {' '.join(map(str, key))}")
        return self.values[key]

    def cell(self, *key, decimals=0):
        """A figure, or nothing where it was not measured."""
        value = self.values.get(key)
        return "" if value is None else shown(value, decimals)

    def pendings(self, system, op):
        return sorted(k[2] for k in self.values if k[:2] == (system, op))

    def known(self, systems, op="add"):
        for system in systems:
            if not self.pendings(system, op) and system not in OPTIONAL:
                raise Unknown(f"the report has no rows of {system} {op}")
        return [s for s in systems if self.pendings(s, op)]

    def cost(self, *systems):
        """Instructions for each operation and bytes of a timer, a million pending"""
        rows = []
        for s in self.known(systems or SYSTEMS):
            count = max(c for c in self.pendings(s, "add") if c <= MILLION)
            rows.append([code(s), f"{count:,}", *(self.cell(s, op, count) for op in OPERATIONS),
                         self.cell(s, "memory", count)])
        return markdown(["system", "pending", *OPERATIONS.values(), "bytes"], rows)

    def growth(self, *systems):
        """Instructions at the fewest and at the most pending timers"""
        rows = []
        systems = systems or ("htw", "htw-vector", "libev", "libevent", "libuv", "timerfd", "io_uring")
        for s in self.known(systems):
            counts = self.pendings(s, "add")
            few, many = counts[0], counts[-1]
            rows.append([code(s), f"{few:,} → {many:,}",
                         *(f"{self.cell(s, op, few)} → {self.cell(s, op, many)}" for op in OPERATIONS)])
        return markdown(["system", "pending", *OPERATIONS.values()], rows)

    def kernels(self):
        """Instructions and bytes on Linux 6.12 and 7, 100,000 pending"""
        rows = [[code(s), *(" → ".join(shown(t.value(s, op, 100000)) for t in (self, self.newer))
                            for op in (*OPERATIONS, "memory"))]
                for s in ("timerfd", "io_uring", "hrtimer", "timer_list", *MODULE, "htw-kernel")]
        return markdown(["6.12 → 7", *OPERATIONS.values(), "bytes"], rows)

    def kernels_late(self):
        """From the deadline until the program has the event, on Linux 6.12 and 7, in us"""
        rows = [[code(s), what, *(" → ".join(shown(t.value(s, f"{op}-{p}", count) / 1000, 1)
                                             for t in (self, self.newer)) for p in ("p50", "p99.9", "max"))]
                for op, count, what, systems in (
                    ("lateness", 100000, "100,000 in 10 s", ("timerfd", "htw-vector")),
                    ("exact-ordinary-coarse-far", 2000, "exact, 2,000 in 4 s", ("timerfd", "htw")),
                    ("exact-ordinary-coarse-due", 2000, "the same, a million others due", ("timerfd", "htw")),
                    ("exact-together", 2000, "exact, 200 within 10 us", ("timerfd", "htw")))
                for s in systems]
        return markdown(["6.12 → 7", "timers", "median", "99.9%", "longest"], rows)

    def put_off(self):
        """htw_put_off(), 65,536 connections: instructions of the call, and of the whole guest for a re-arm"""
        rows = [[where, self.cell(s, "put-off-inline", CONNECTIONS, decimals=1), self.cell(s, "put-off", CONNECTIONS, decimals=1),
                 *(self.cell(way, "put-off-100-a-timeout", CONNECTIONS, decimals=1) for way in (s, f"{s}-by-hand"))]
                for s, where in (("libhtw-device", "device"), ("libhtw", "in the process"))]
        return markdown(["timers", "`htw_put_off_inline()`", "`htw_put_off()`", "100 for each timeout, whole guest",
                         "the same by hand"], rows)

    def workloads(self, *systems):
        """Instructions for an operation of a workload"""
        names = {"idle-connections": CONNECTIONS, "reconciliations": MILLION, "buffs": 100000}
        systems = self.known(systems or ("htw-vector", "libev", "libevent", "libuv", "timerfd"), "idle-connections")
        rows = [[code(s), *(self.cell(s, op, count) for op, count in names.items())] for s in systems]
        return markdown(["system", *(f"`{n}`" for n in names)], rows)

    def native(self):
        """Timers of the kernel and of modules, at the machine's own speed, in ns"""
        ops = {"add": "start", "rearm": "re-arm", "cancel": "stop"}
        rows = [[code(s), f"{count:,}", *(shown(self.value(s, f"{op}-native", count)) for op in ops)]
                for count in (1000, 4 * MILLION) for s in CALLOUTS]
        return markdown(["system", "pending", *ops.values()], rows)

    def lateness(self):
        """From the deadline until the program has the event, in us"""
        series = (("htw-vector", "lateness", 100000, "100,000 in 10 s"),
                  ("htw-vector", "lateness-bucket", MILLION, "a million in one bucket"),
                  ("timerfd", "lateness", 100000, "100,000 in 10 s"))
        points = ("p50", "p99", "p99.9", "max")
        rows = [[code(s), what, *(shown(self.value(s, f"{op}-{p}", count) / 1000) for p in points)]
                for s, op, count, what in series]
        return markdown(["system", "timers", "median", "99%", "99.9%", "longest"], rows)

    def exact(self):
        """2,000 deadlines on a tick of 10 us, beside a million coarse timers, in us"""
        far, due, ordinary = "an hour away", "due meanwhile, read by an ordinary task", "ordinary"
        rows = [[deadlines, coarse, reader, *(
            " / ".join(shown(self.value(s, f"exact-{op}-{p}", 2000) / 1000, 1) for p in ("p50", "p99.9", "max"))
            for s in ("htw", "timerfd"))] for op, deadlines, coarse, reader in (
                ("ordinary-coarse-far", "random", far, ordinary), ("fifo-coarse-far", "random", far, "`SCHED_FIFO` 1"),
                ("ordinary-coarse-due", "random", due, ordinary), ("fifo-coarse-due", "random", due, "`SCHED_FIFO` 1"),
                ("together", "200 within 10 us", far, ordinary))]
        return markdown(["deadlines", "the million", "reader", "htw: median / 99.9% / latest", "timerfds"], rows)

    def contexts(self):
        """100,000 descriptors of a program, a timer each, on one tick"""
        rows = [[what, *(shown(self.value(s, f"contexts-{op}", 100000) / scale, decimals) for s in ("htw", "timerfd"))]
                for what, op, scale, decimals in (
                    ("first read, ms", "first-read", 1e6, 2), ("all read, ms", "all-read", 1e6, 0),
                    ("exit of the program, ms", "exit", 1e6, 0), ("bytes each", "memory", 1, 0),
                    ("with the entry of the epoll set", "memory-watched", 1, 0))]
        return markdown(["", "`/dev/htw`", "timerfds"], rows)

    def burst(self):
        """A million timers due on one tick"""
        def get(op):
            return self.value("htw-vector", f"burst-{op}", MILLION)
        rows = [["nobody reads: longest time that a task is kept from the CPU", self.quantity(get("longest-stall"), "ns")],
                ["an ordinary task reads: longest wait of one with a real-time priority", self.quantity(get("longest-wait"), "ns")],
                ["their memory is given back: the same", self.quantity(get("give-back-wait"), "ns")],
                ["64 MiB are unmapped: the same", self.quantity(self.value("munmap", "burst-give-back-wait", MILLION), "ns")],
                ["longest callback, traced", self.quantity(get("longest-callback"), "ns")],
                ["callbacks", shown(get("callbacks"))],
                ["instructions to read one event", shown(get("collect"))]]
        return markdown(["a million timers due on one tick", "`htw-vector`"], rows)

    def threads(self):
        """The work of two threads on two CPUs, divided by that of one"""
        few = 8192
        kinds = (("in a VM: both on one descriptor", "htw-vector", "threads-one-fd", CONNECTIONS),
                 ("in a VM: a descriptor each", "htw-vector", "threads-own-fds", CONNECTIONS),
                 ("in a VM: loops over registers", "machine", "threads", CONNECTIONS),
                 ("in the process: a shard each", "libhtw", "threads-own-shards", few),
                 ("in the process: a shard each", "libhtw", "threads-own-shards", CONNECTIONS),
                 ("in the process: loops over memory of their own", "machine", "threads-memory-native", few),
                 ("in the process: loops over memory of their own", "machine", "threads-memory-native", CONNECTIONS),
                 ("in the process: loops over registers", "machine", "threads-native", few))
        rows = [[what, f"{timers:,}", shown(self.value(system, op, timers), 2)] for what, system, op, timers in kinds]
        return markdown(["two threads", "timers, or as many objects, of each", "work, compared with one thread"], rows)

    def waiters(self):
        """Context switches for each expiration, 64 processes waiting for one descriptor"""
        rows = [[what, self.cell(s, "waiters-read", 64, decimals=1),
                 self.cell(s, "waiters-epollexclusive", 64, decimals=1)]
                for s, what in (("htw", "`/dev/htw`"), ("timerfd", "a timerfd"),
                                ("pipe", "a pipe that one process writes to"))]
        return markdown(["64 processes wait for", "in `read()`", "in `epoll_wait()`, `EPOLLEXCLUSIVE`"], rows)

    def containment(self):
        """What is left to a task, and how late others' timers are, beside users who take all they can get"""
        rows = []
        for name, what in re.findall(r'\.name = "(\w+)",\n\t*\.what = "([^"]+)"', ATTACKS.read_text()):
            counts = self.pendings("htw-contain", f"{name}-left")
            if not counts:
                continue
            get = {op: self.value("htw-contain", f"{name}-{op}", counts[0])
                   for op in ("loss", "left", "left-least", "late", "late-bound")}
            rows.append([what, *(f"{shown(max(get[op], 0), 1)}%" for op in ("loss", "left", "left-least")),
                         *(shown(get[op] / 1e6, 2) for op in ("late", "late-bound"))])
        return markdown(["attack", "its timers take", "left to a task", "at least", "others late, ms", "at most"], rows)

    def interrupts(self):
        """Interrupts of a CPU beside users with ticks of 10 us, a second"""
        rows = [[what, *(shown(self.value("htw-contain", f"{name}{of}-{op}", count))
                         for op, of in (("interrupts", ""), ("interrupts", "_timerfd"), ("interrupts-alone", ""),
                                        ("interrupts-disarmed", ""))),
                 shown(self.value("htw-contain", f"{name}-late", count) / 1e6, 2)]
                for name, count, what in (
                    ("one_fine", 1, "one descriptor with a timer of 10 us"),
                    ("fine_16", 16, "16 descriptors, one due each 10 us"),
                    ("primes", 1000, "1,000 descriptors, one due each 15 us"),
                    ("fine_users_16", 1024, "64 users with 16 each"), ("fine_users_1000", 64000, "64 users with 1,000 each"))]
        return markdown(["prime ticks of 10 us and more, read all the time", "interrupts", "of timerfds", "without them",
                         "with none due", "others late, ms"], rows)

    def locks(self):
        """What is done under the locks of one descriptor that two CPUs use, and the bound for more"""
        model = locks.Scale(self.report)
        rows = []
        for op in model.operations():
            most, what = model.most(op)
            rows.append([f"`{op}`", shown(model.value(f"{op} all"), 1), shown(model.value(f"{op} ctx->wait.lock"), 1),
                         shown(sum(model.value(f"{op} {where} lines") for where in model.SHARED), 3),
                         *(shown(min(n, most), 1) for n in (16, 64, 256)),
                         "lines that no lock guards" if what == locks.NO_LOCK else f"`{what}`"])
        return markdown(["operation", "instructions", "under `ctx->wait.lock`", "shared lines",
                         "16 CPUs", "64", "256", "limited by"], rows)

    def budgets(self):
        """Each budget but those of containment, what htw takes of it, and whether it is met"""
        rows, worst = [], {}
        for what, key, relation, limit, peer in budgets.BUDGETS:
            if key[0] == "htw-contain":
                continue
            if key not in self.values:
                rows.append([what, "not measured", f"{limit:g}", ""])
                continue
            value = self.value(*key)
            beside = self.value(*peer) if peer else 1
            met = budgets.is_met(value, relation, limit * beside)
            if peer and peer[0] == key[0]:
                # Growth: of each operation, show the system with the largest ratio.
                worst[key[1]] = max(worst.get(key[1], (0,)), (value / beside, key[0], limit, met))
                continue
            of = f" ({'' if limit == 1 else f'{limit:g} of '}`{peer[0]}`)" if peer else ""
            rows.append([what, self.quantity(value, self.units[key]),
                         ("at least " if relation == ">=" else "") +
                         self.quantity(limit * beside, self.units[key]) + of, MET[met]])
        for op, (ratio, system, limit, met) in worst.items():
            rows.append([f"growth of {OPERATIONS[op]} from 1,000 to 4,000,000 pending (the most: `{system}`)",
                         shown(ratio, 2), shown(limit, 1), MET[met]])
        return markdown(["budget", "htw", "limit", ""], rows)

    @staticmethod
    def quantity(value, unit):
        if unit == "ns":
            return f"{shown(value / 1e3)} us" if value < 1e6 else f"{value / 1e6:.4g} ms"
        if value >= 50 or abs(value - round(value)) < 0.005:
            return shown(value)
        return f"{value:.3g}"

    def figure(self, words):
        """A single value, as the words of its mark ask for it."""
        if words.startswith("7 "):
            return self.newer.figure(words[2:])
        *key, last = words.split()
        factor, decimals = 1, 0
        if last in NS:
            factor = NS[last]
            last = key.pop()
        if re.fullmatch(r"0\.0*1", last):
            decimals = len(last) - 2
            last = key.pop()
        if len(key) != 2 or not last.isdigit():
            raise Unknown(f"'= {words}' is not '= SYSTEM OPERATION PENDING [DECIMALS] [us|ms]'")
        return shown(self.value(*key, int(last)) / factor, decimals)


TABLES = ("cost", "growth", "kernels", "kernels_late", "put_off", "workloads", "lateness", "exact", "contexts", "burst", "threads", "native",
          "waiters", "containment", "interrupts", "locks", "budgets")
TABLE = re.compile(r"(?P<mark>^<!-- table: (?P<words>[^\n]*?) -->\n).*?^<!-- table end -->$", re.S | re.M)
FIGURE = re.compile(r"[\d,.]*\d(?P<mark><!-- = (?P<words>[^>]*?) -->)")


def rewritten(text, tables):
    """Return the text with its tables and figures as in the report, and their number."""
    found = 0

    def table(m):
        nonlocal found
        found += 1
        name, *arguments = m["words"].split()
        if name not in TABLES:
            raise Unknown(f"there is no table {name}")
        return m["mark"] + getattr(tables, name)(*arguments) + "<!-- table end -->"

    def figure(m):
        nonlocal found
        found += 1
        return tables.figure(m["words"]) + m["mark"]

    text = FIGURE.sub(figure, TABLE.sub(table, text))
    marks = len(re.findall(r"<!-- (?:table:|=)", text))
    if marks != found:
        raise Unknown(f"{marks - found} marks without an end, or without a figure before them")
    return text, found


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="report documents that differ; change nothing")
    parser.add_argument("--list", action="store_true", help="print all tables")
    args = parser.parse_args()

    tables = Tables(json.loads(REPORT.read_text()), Tables(json.loads(REPORT_7.read_text())))
    if args.list:
        for name in TABLES:
            print(f"{name}: {getattr(Tables, name).__doc__}\n\n{getattr(tables, name)()}")
        return 0
    return keep_equal(DOCUMENTS, lambda text: rewritten(text, tables), args.check,
                      "docs/bench/report.json", "tools/bench/tables.py")


if __name__ == "__main__":
    sys.exit(main())
