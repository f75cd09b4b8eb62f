# SPDX-License-Identifier: GPL-2.0-only
"""What gcov counted in the module's sources, and what several counts are together.

A line is compiled several times: an inline function in each object, and all of them for each kernel.
It is reached if one of these was. A branch is one way out of a condition of the machine code. Where
two compilations of a line have as many branches, these are the same ones, and a branch is taken if
it was in either. Where they have not, as a macro of the kernel differs or a function was inlined,
branches of one cannot be found in the other: the line has those of the compilation of which the
most were taken.

The branches of two kinds of lines do not count: of assertions, WARN_ON() and the like, as what is
behind them is wrong; and of tracepoints, whose condition is one of the kernel's.
"""

import json
import re
import struct
import subprocess
import tempfile
from pathlib import Path

# The branches of such lines do not count.
IGNORED = re.compile(r"\b(WARN(_ON)?(_ONCE)?|BUG_ON|trace_htw_\w+)\(")
# What has no code of its own: tests, and what tracepoints are made of.
LEFT_OUT = ("kunit/", "include/trace/")
# Of gcc's gcov-io.h, for gcc 12 and later, whose lengths are in bytes.
GCDA, FUNCTION, ARCS = 0x67636461, 0x01000000, 0x01a10000


class Counts:
    """Lines that were reached, and ways that were taken."""

    def __init__(self):
        self.sources = ""
        self.lines = {}     # {file: {line: reached}}
        self.branches = {}  # {file: {line: {number of branches: [taken]}}}

    def add_line(self, file, line, reached, taken):
        lines = self.lines.setdefault(file, {})
        lines[line] = lines.get(line, False) or reached
        if taken:
            known = self.branches.setdefault(file, {}).setdefault(line, {})
            before = known.get(len(taken), [False] * len(taken))
            known[len(taken)] = [a or b for a, b in zip(before, taken)]

    def add(self, other):
        for file, lines in other.lines.items():
            for line, reached in lines.items():
                self.add_line(file, line, reached, [])
                for taken in other.branches.get(file, {}).get(line, {}).values():
                    self.add_line(file, line, reached, taken)

    def taken(self, file, line):
        """Return for each branch of a line whether it was taken."""
        known = self.branches.get(file, {}).get(line, {}).values()
        return max(known, key=lambda taken: (sum(taken) / len(taken), len(taken)), default=[])

    def leave_out(self, file, source):
        """Forget the branches of a file that do not count."""
        for line in list(self.branches.get(file, {})):
            if IGNORED.search(source.text[line]):
                del self.branches[file][line]

    def save(self, path, sources):
        """Write them to a file, with a sum of the sources."""
        path.write_text(json.dumps([sources, self.lines, self.branches]))

    @classmethod
    def load(cls, path):
        counts = cls()
        counts.sources, lines, branches = json.loads(path.read_text())
        counts.lines = {file: {int(n): reached for n, reached in found.items()} for file, found in lines.items()}
        counts.branches = {file: {int(n): {int(k): taken for k, taken in ways.items()} for n, ways in found.items()}
                           for file, found in branches.items()}
        return counts


def write(text, directory):
    """Write what tools/tests/kernel/htw_gcov.c prints to files for gcov, and return them."""
    found = []
    for line in text.splitlines():
        kind, *words = line.split()
        if kind == "file":
            notes = Path(words[0]).with_suffix(".gcno")
            found.append(directory / f"{len(found)}.gcda")
            found[-1].with_suffix(".gcno").symlink_to(notes)
            found[-1].write_bytes(struct.pack("<4I", GCDA, *(int(word, 16) for word in words[1:])))
        else:
            numbers = [int(word, 16) for word in words]
            counts = struct.pack(f"<{len(numbers) - 3}Q", *numbers[3:])
            with open(found[-1], "ab") as out:
                out.write(struct.pack("<5I", FUNCTION, 12, *numbers[:3]))
                out.write(struct.pack("<2I", ARCS, len(counts)) + counts)
    return found


def read(counted, root):
    """Read the files *.gcda, beside each of which is its *.gcno; the sources are below @root."""
    counts = Counts()
    out = subprocess.run(["gcov", "--json-format", "--branch-probabilities", "--stdout", *counted],
                         stdout=subprocess.PIPE, check=True, text=True).stdout
    for document in filter(None, out.splitlines()):
        for found in json.loads(document)["files"]:
            file = found["file"].removeprefix(f"{root}/")
            if file == found["file"] or file.startswith(LEFT_OUT):
                continue
            for line in found["lines"]:
                counts.add_line(file, line["line_number"], line["count"] > 0,
                                [branch["count"] > 0 for branch in line["branches"]])
    return counts


def read_text(text, root):
    """The same for what tools/tests/kernel/htw_gcov.c prints."""
    with tempfile.TemporaryDirectory() as directory:
        return read(write(text, Path(directory)), root)


class Source:
    """A source, to name its lines by what stands there."""

    def __init__(self, path):
        self.text = [""] + path.read_text().split("\n")
        self.functions = [""]
        inside, begins = "", ""
        for line in self.text[1:]:
            # In the kernel's style only what is outside of functions begins in the first column.
            if found := re.match(r"(?=[A-Za-z_])(?:.*?\W)?(\w+)\(", line):
                begins = found[1]
            if line == "{":
                inside = begins
            self.functions.append(inside or begins)
            if line == "}" or line.endswith(";") and not inside:
                inside, begins = "", ""
