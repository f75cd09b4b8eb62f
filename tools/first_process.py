# SPDX-License-Identifier: GPL-2.0-only
"""Tests that are the first process of a kernel built for them: what their runners have in common."""

import re
import subprocess

from kernel_tree import CACHE, TOP, TREE


def build_program(name, to):
    """Build a program of tools/ and copy it, without its symbols."""
    subprocess.run(["make", "-s", "-C", TOP / "tools", f"HTW_CACHE={CACHE}", f"HTW_TREE={TREE}", name], check=True)
    subprocess.run(["strip", "-o", to, TREE / "bin" / name], check=True)


def printed(log):
    """Return the lines that the program has printed: the kernel's begin with the time."""
    lines = log.read_text(errors="replace").replace("\r", "").splitlines()
    return [line for line in lines if not re.match(r"\[ *\d+\.\d+\]|\s*$", line)]


def report(name, log, ended, *problems, leave_out=None):
    """Print what the program printed, and what is wrong with the run; return the exit status.

    Lines that match @leave_out are not printed. Whatever the program says, the kernel must have
    ended by itself, with a clean log. The last line has the counts.
    """
    defects = subprocess.run([TOP / "tools/kernel-log", log], stdout=subprocess.PIPE, text=True, errors="replace")
    ours = printed(log)
    found = re.fullmatch(r"(\d+) passed, (\d+) failed", ours[-1]) if ours else None
    print(*(line for line in (ours[:-1] if found else ours) if not (leave_out and re.match(leave_out, line))), sep="\n")
    passed, failed = map(int, found.groups()) if found else (0, 1)
    problems = [*problems, *(problem for problem, is_so in (
        ("the kernel did not end by itself", not ended), ("it did not finish", not found),
        ("defects in the kernel's log:\n" + defects.stdout, defects.returncode)) if is_so)]
    for problem in problems:
        print(f"FAILED: {problem}")
        failed = failed or 1
    if failed:
        print(f"{name}: the kernel's log is {log}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0
