# SPDX-License-Identifier: GPL-2.0-only
"""What the tests report to tools/check: a line for each, in the file that $HTW_RESULTS names.

The fields are separated by tabs: area, program, case, verdict, reason, source and command. The
command runs the program alone. The source is the file or directory whose history says whether the
program is new; empty: that of the command. Shell scripts write such lines by result() of
tools/common.sh. An area that writes none is judged as a whole, by its exit status and last line.
"""

import collections
import os
import re
import shlex
from pathlib import Path

Result = collections.namedtuple("Result", "area program case verdict reason source command")

# A failure that a second run does not excuse is a defect: of style or a build, a count of
# instructions, a report of a sanitizer or of the kernel. What is not run has been tried three times:
# the emulator died, or nothing could be fetched.
VERDICTS = PASSED, SKIPPED, FAILED, DEFECT, NOT_RUN = "passed", "skipped", "failed", "defect", "not-run"

# The exit status of a command that could not be run for such a reason: as that of tools/vm/run.
NOT_RUN_STATUS = 125

# What sanitizers and valgrind print, and the tools of VMs about the kernel's log.
SANITIZER = re.compile(r"(ERROR|WARNING): \w+Sanitizer|: runtime error: |WARNING: DATA RACE|^==\d+== .|"
                       r"BUG: K[A-Z]+SAN: |the kernel log reports a defect|defects in the kernel's log|"
                       r"^not ok .*no defect in its log", re.MULTILINE)


def one_line(text, length=300):
    return re.sub(r"\s+", " ", text).strip()[:length]


def failed_lines(text):
    """Return the lines of a log that say what failed, with some around them."""
    lines = [line.rstrip("\r") for line in text.splitlines()]
    bad = re.compile(r"(not ok|FAILED|VIOLATION|FAIL:|ERROR:)|.*(: FAILED$|\[FAILED\]|ION FAILED)")
    near = {n for i, line in enumerate(lines) if bad.match(line) for n in range(i - 4, i + 6)}
    return [line for i, line in enumerate(lines) if i in near] or lines


def reason_in(log):
    """Return the first line of a log that says what failed, or else the last line."""
    lines = [line for line in failed_lines(log) if line.strip()]
    said = [line for line in lines if re.match(r"(not ok|FAILED|VIOLATION|FAIL:|ERROR:)", line)]
    return one_line((said or lines[-1:] or ["it printed nothing"])[0])


def report(program, case, verdict, reason="", source="", command=""):
    """Write a line, if tools/check or tools/steady asks for them."""
    path = os.environ.get("HTW_RESULTS")
    if not path:
        return
    fields = (os.environ.get("HTW_AREA", ""), program, case, verdict, one_line(reason), str(source), command)
    # A command is never cut: it would run less.
    with open(path, "a", encoding="utf-8") as file:
        file.write("\t".join(one_line(field, None) for field in fields) + "\n")


def is_command(text):
    try:
        return bool(shlex.split(text))
    except ValueError:
        return False


def read(path):
    """Return the results in a file; none if there is no such file."""
    if not Path(path).exists():
        return []
    found = []
    for line in re.findall(r"[^\n]*\n|[^\n]+", Path(path).read_text(encoding="utf-8", errors="replace")):
        fields = line.rstrip("\n").split("\t")
        is_whole = len(fields) == len(Result._fields) and line.endswith("\n")
        if is_whole and fields[3] in VERDICTS and is_command(fields[6]):
            found.append(Result(*fields))
        else:
            found.append(Result("", "results", "", DEFECT, f"not a line of results in {path}: {line.strip()}", "", ""))
    return found


def tap_reason(lines):
    """Return what the lines of a TAP program before "not ok" say of the failure."""
    notes = [line.lstrip("# ") for line in lines if line.startswith("#") and not re.match(r"# +(RUN|FAIL|OK)\b", line)]
    for pattern in (r"Expected|expected", r"timed? ?out|terminated", r"."):
        for note in notes:
            if re.search(pattern, note):
                return note
    return ""


def tap(lines):
    """Yield (case, verdict, reason) for each test that a TAP program reports."""
    before = []
    for line in lines:
        if found := re.match(r"(not )?ok \d+(?: -)? (\S+)(.*)", line):
            skip = re.search(r"# SKIP\s*(.*)", found[3])
            verdict = FAILED if found[1] else SKIPPED if skip else PASSED
            case = re.sub(r"^global\.", "", found[2])
            yield case, verdict, tap_reason(before) if found[1] else skip[1] if skip else ""
            before = []
        else:
            before.append(line)
