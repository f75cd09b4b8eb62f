#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Keep the figures of the wheel's benchmark in documents equal to docs/bench/wheel.json.

  wheel/bench/tables.py          rewrite the tables in docs/wheel.md and docs/bench/wheel.md
  wheel/bench/tables.py --check  change nothing; exit with 1 if a document differs

A table stands between two marks, each on a line of its own:

  <!-- wheel: cost 1000000 uniform -->
  <!-- wheel end -->
"""

import argparse
import json
import re
import sys

sys.dont_write_bytecode = True
import figures  # noqa: E402
from documents import TOP, Unknown, keep_equal, markdown  # noqa: E402

REPORT = TOP / "docs/bench/wheel.json"
DOCUMENTS = (TOP / "docs/wheel.md", TOP / "docs/bench/wheel.md")
TABLE = re.compile(r"(?P<mark>^<!-- wheel: (?P<words>[^\n]*?) -->\n).*?^<!-- wheel end -->$", re.S | re.M)


class Tables:
    """The tables of one report."""

    def __init__(self, rows):
        self.report = figures.Report(rows)
        self.heads = [head for head, _, _ in figures.COLUMNS]

    def cost(self, pending, delays):
        """Instructions of each operation, and bytes of a timer"""
        rows = self.report.table(int(pending), delays)
        return markdown(["", *self.heads, "bytes"], [[figures.NAMES[r[0]], *map(figures.shown, r[1:])] for r in rows])

    def ns(self, pending, delays):
        """The same in ns"""
        rows = self.report.table(int(pending), delays, "ns")
        return markdown(["", *self.heads], [[figures.NAMES[r[0]], *map(figures.shown, r[1:])] for r in rows])

    def few(self, delays):
        """Instructions without levels, and of a tree, with few timers"""
        rows = [[f"{pending}", *(" / ".join(figures.shown(self.report.get(s, op, pending, delays, mix)) or "-"
                                            for s in ("htw-plain", "multimap")) for _, op, mix in figures.COLUMNS)]
                for pending in figures.FEW]
        return markdown(["pending: htw_wheel / std::multimap", *self.heads], rows)

    def life(self, *pendings):
        """Instructions of a timer's whole life, if 95% are stopped"""
        heads = [f"{int(p):,}, {delays}" for p in pendings for delays in figures.DELAYS]
        rows = [[figures.NAMES[s], *(figures.shown(self.report.life(s, int(p), delays))
                                     for p in pendings for delays in figures.DELAYS)]
                for s in self.report.systems]
        return markdown(["", *heads], rows)

    def growth(self, delays):
        """Instructions with levels at each number of timers"""
        rows = [[f"{pending:,}", *(figures.shown(self.report.get("htw", op, pending, delays, mix))
                                   for _, op, mix in figures.COLUMNS)]
                for pending in self.report.pendings if pending >= 1000]
        return markdown(["pending", *self.heads], rows)

    def dearer(self, delays):
        """Where a peer takes fewer instructions than the wheel: the peer that takes the fewest"""
        rows = [[f"{pending:,}", head, figures.NAMES[wheel], figures.shown(own), figures.NAMES[s], figures.shown(other)]
                for pending, head, wheel, s, own, other in self.report.dearer(delays)]
        return markdown(["pending", "operation", "htw_wheel", "instructions", "peer", "instructions"], rows)

    def slack(self):
        """Interrupts of 8,000 timers in 1,000 wheels of mixed ticks"""
        return markdown(["slack, ms", "interrupts in 60 s", "expirations", "latest, ms"], self.report.slack())


def rewritten(text, tables):
    """Return the text with its tables as in the report, and their number."""
    found = 0

    def table(m):
        nonlocal found
        found += 1
        name, *arguments = m["words"].split()
        if name not in ("cost", "ns", "few", "life", "growth", "dearer", "slack"):
            raise Unknown(f"there is no table {name}")
        return m["mark"] + getattr(tables, name)(*arguments) + "<!-- wheel end -->"

    text = TABLE.sub(table, text)
    if len(re.findall("<!-- wheel: ", text)) != found:
        raise Unknown("a mark has no end")
    return text, found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="report documents that differ; change nothing")
    args = parser.parse_args()
    tables = Tables(json.loads(REPORT.read_text()))
    return keep_equal(DOCUMENTS, lambda text: rewritten(text, tables), args.check,
                      "docs/bench/wheel.json", "wheel/bench/tables.py")


if __name__ == "__main__":
    sys.exit(main())
