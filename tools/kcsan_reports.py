#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Print those of KCSAN's reports in a kernel's log that concern htw; exit with 1 if there are any.

A report is ours if a function of ours is in either stack. Of a stack, only what runs in the
context of the access counts, not what an interrupt or a softirq interrupted.

What the kernel does with its own objects on our behalf, when we take a lock or wait for a
grace period, is its own affair. These are the EXCEPTIONS, each with its reason.
"""

import collections
import re
import subprocess
import sys
from pathlib import Path

Access = collections.namedtuple("Access", "kind address size stack")
Report = collections.namedtuple("Report", "title accesses lines")

# Functions whose callees are not ours: (pattern, reason). A stack counts as ours only if none of
# the functions between the access and the innermost function of ours matches.
EXCEPTIONS = (
    (r"queue_(delayed_)?work_on", "a work item may be queued by anyone at any time: its pending bit decides who does"),
    (r"pollwake", "sets what poll() reads again before it sleeps, and orders by a barrier"),
    (r"schedule_hrtimeout_range_clock", "reads whether its own timer has expired, as its interrupt says"),
    (r"kprobe_ftrace_handler", "the random delays' probes count what they missed in interrupts, not exactly"),
    (r"do_settimeofday64", "looks at the hrtimers of all CPUs without their locks, to interrupt fewer of them"),
)

TIME = re.compile(r"^\[\s*\d+\.\d+\](\[\s*[TC]\d+\])? ?")
TITLE = re.compile(r"BUG: KCSAN: (.*)")
ACCESS = re.compile(r"(?:race at unknown origin, with )?((?:assert|read|write).*) to 0x([0-9a-f]+) of (\d+) bytes by ")
FRAME = re.compile(r" (?:\? )?([\w.]+)\+0x[0-9a-f]+/0x[0-9a-f]+( \[\w+\])?")
# A function of a module of ours, as stacks here have it.
MODULE = re.compile(r".* \[htw\w*\]")
# The outermost function of an interrupt or a softirq, in a stack from inside to outside.
CONTEXT = re.compile(r"(asm_)?(sysvec|common_interrupt|exc)_\w+|handle_softirqs|__do_softirq")


def parse(text):
    """Yield the reports of a log."""
    report = stack = None
    for line in text.splitlines():
        line = TIME.sub("", line.rstrip("\r"))
        if found := TITLE.search(line):
            if report:
                yield report
            report, stack = Report(found[1], [], [line]), None
            continue
        if not report:
            continue
        if line.startswith("===="):
            yield report
            report = None
            continue
        report.lines.append(line)
        if found := ACCESS.match(line):
            stack = []
            report.accesses.append(Access(found[1], int(found[2], 16), int(found[3]), stack))
        elif (found := FRAME.match(line)) and stack is not None:
            stack.append(found[1] + (found[2] or ""))
    if report:
        yield report


def same_context(stack):
    """Return the functions of a stack that run in the context of the access."""
    for i, function in enumerate(stack):
        if CONTEXT.fullmatch(function):
            return stack[:i]
    return stack


def stack_is_ours(stack, ours):
    """Return whether the access was made on our behalf, and not by what EXCEPTIONS names."""
    for function in same_context(stack):
        if function in ours or MODULE.fullmatch(function):
            return True
        if any(re.fullmatch(pattern, function) for pattern, _ in EXCEPTIONS):
            return False
    return False


def find(text, ours):
    """Return the reports that concern htw; ours is the set of the names of its functions that are built in."""
    return [report for report in parse(text)
            if not report.accesses or any(stack_is_ours(access.stack, ours) for access in report.accesses)]


def main():
    log, *objects = sys.argv[1:]
    ours = set()
    if objects:
        symbols = subprocess.run(["nm", "--defined-only", *objects], stdout=subprocess.PIPE, text=True, check=True)
        ours = {line.split()[-1] for line in symbols.stdout.splitlines() if line}
    reports = find(Path(log).read_text(errors="replace"), ours)
    for report in reports:
        print(*report.lines, sep="\n")
    return 1 if reports else 0


if __name__ == "__main__":
    sys.exit(main())
