# SPDX-License-Identifier: GPL-2.0-only
"""Tables, budgets and plots of a report of wheel/bench/run."""

import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "tools/bench"))
import budgets  # noqa: E402
import plots  # noqa: E402

DELAYS = ("uniform", "exponential")
FEW = (1, 8, 32, 63)
# Timers with which the wheel stands beside the peer that takes least, and up to how many it has no levels there.
DECADES = (1, 10, 100, 1000, 10000, 100000, 1000000, 4000000)
WITHOUT_LEVELS = 100
MILLION = 1000000
# Timers of all wheels of slack.c, and what a timer there may be late.
SLACK_TIMERS = 8000
SLACKS = ("slack-0ms", "slack-1ms", "slack-100ms")
# Head of a column, operation and mix.
COLUMNS = (("start", "start", "expire"), ("restart", "restart", "expire"), ("stop", "stop", "cancel"),
           ("expire", "expire", "expire"), ("expire, 95% stopped", "expire", "cancel"))
NAMES = {
    "htw": "htw_wheel, with levels", "htw-plain": "htw_wheel, without levels", "wahern": "wahern/timeout",
    "sysprog21": "sysprog21/timeout", "libev": "libev", "libevent": "libevent", "multimap": "std::multimap",
    "pqueue": "std::priority_queue", "dpdk": "DPDK rte_timer",
}
COLOURS = {
    "htw": "#111111", "htw-plain": "#888888", "wahern": "#d62728", "sysprog21": "#ff7f0e", "libev": "#2ca02c",
    "libevent": "#8c6d31", "multimap": "#08519c", "pqueue": "#6baed6", "dpdk": "#e377c2",
}
# What an operation takes at most with levels and a million pending.
LIMITS = {"start": 42, "restart": 48, "stop": 13, "expire": 75}
# An advance with nothing due, in any wheel: 20, and 9 of the loop, which sets a budget and passes five arguments.
IDLE_LIMIT = 20 + 9


class Report:
    """The figures by what they are of."""

    def __init__(self, rows):
        self.values = {(r["system"], r["op"], r["pending"], r["delays"], r["mix"], r["unit"]): r["value"] for r in rows}
        self.systems = [s for s in NAMES if any(k[0] == s for k in self.values)]
        self.pendings = sorted({k[2] for k in self.values if k[1] == "start"})

    def get(self, system, op, pending, delays, mix, unit="instructions"):
        return self.values.get((system, op, pending, delays, mix, unit))

    def late(self, system):
        """The largest lateness, in ticks."""
        return max((v for k, v in self.values.items() if k[0] == system and k[1] == "late"), default=None)

    def slack(self):
        """A row for each slack: ms, interrupts, expirations, the largest lateness in ms."""
        rows = []
        for mix in SLACKS:
            get = [self.get("htw", op, SLACK_TIMERS, "uniform", mix, unit)
                   for op, unit in (("interrupts", "interrupts"), ("expirations", "timers"), ("latest_ns", "ns"))]
            if None not in get:
                rows.append([mix[6:-2], *map(shown, get[:2]), f"{get[2] / 1e6:.3f}"])
        return rows

    def table(self, pending, delays, unit="instructions"):
        """A row for each system: its name, the columns, and bytes if it is of instructions."""
        rows = []
        for s in self.systems:
            values = [self.get(s, op, pending, delays, mix, unit) for _, op, mix in COLUMNS]
            if any(v is not None for v in values):
                more = [self.get(s, "memory", pending, delays, "expire", "bytes")] if unit == "instructions" else []
                rows.append([s, *values, *more])
        return rows

    def life(self, system, pending, delays):
        """Instructions of a timer's whole life, if 95% are stopped: a start, a restart and its end."""
        parts = [self.get(system, op, pending, delays, mix)
                 for op, mix in (("start", "expire"), ("restart", "expire"), ("stop", "cancel"), ("expire", "cancel"))]
        if None in parts:
            return None
        start, restart, stop, expire = parts
        return start + restart + 0.95 * stop + 0.05 * expire

    def dearer(self, delays):
        """
        Where a peer takes fewer instructions than the wheel: pending, column, the wheel, the peer that takes the
        fewest, both values. Few timers are in a wheel without levels.
        """
        found = []
        for pending in DECADES:
            wheel = "htw-plain" if pending <= WITHOUT_LEVELS else "htw"
            for head, op, mix in COLUMNS:
                own = self.get(wheel, op, pending, delays, mix)
                others = [(value, s) for s in self.systems if s not in ("htw", "htw-plain")
                          for value in [self.get(s, op, pending, delays, mix)] if value is not None]
                if own is not None and others and min(others)[0] < own:
                    found.append((pending, head, wheel, min(others)[1], own, min(others)[0]))
        return found


def shown(value):
    return "" if value is None else f"{value:,.0f}"


def print_tables(rows, out):
    report = Report(rows)
    for unit in ("instructions", "ns"):
        for pending in report.pendings:
            for delays in DELAYS:
                table = report.table(pending, delays, unit)
                if table:
                    heads = [f"{pending:,} pending, {delays}: {unit}", *(h for h, _, _ in COLUMNS)]
                    heads += ["bytes"] if unit == "instructions" else []
                    budgets.print_rows([heads, *([NAMES[r[0]], *map(shown, r[1:])] for r in table)], out)
                    print(file=out)
    budgets.print_rows([["slack of 8,000 timers in 1,000 wheels, ms", "interrupts in 60 s", "expirations", "latest, ms"],
                        *report.slack()], out)
    print(file=out)
    for delays in DELAYS:
        for pending, head, wheel, s, own, other in report.dearer(delays):
            print(f"{pending:,} pending, {delays}: {head} takes {shown(own)} ({NAMES[wheel]}), and {NAMES[s]} {shown(other)}",
                  file=out)


def budget_rows(rows):
    """Each budget: what it is about, the figure, the limit."""
    report = Report(rows)
    found = []
    for delays in DELAYS:
        for op, limit in LIMITS.items():
            mix = "cancel" if op == "stop" else "expire"
            found.append((f"with levels, a million pending, {delays}: {op}", report.get("htw", op, MILLION, delays, mix), limit))
        found.append((f"with levels, a million pending, {delays}: an advance with nothing due",
                      report.get("htw", "idle", MILLION, delays, "expire"), IDLE_LIMIT))
    for pending in FEW:
        for delays in DELAYS:
            for head, op, mix in COLUMNS:
                if pending == 1 and (op, mix) == ("expire", "cancel"):
                    continue
                found.append((f"without levels, {pending} pending, {delays}: {head}",
                              report.get("htw-plain", op, pending, delays, mix),
                              report.get("multimap", op, pending, delays, mix)))
            found.append((f"without levels, {pending} pending, {delays}: an advance with nothing due",
                          report.get("htw-plain", "idle", pending, delays, "expire"), IDLE_LIMIT))
    return found


def print_budgets(rows, out, some=False):
    """
    Return how many are met, and how many are not. What was not measured is not met, unless only some measurements
    were asked for.
    """
    table, passed, failed = [["budget", "instructions", "limit", "met"]], 0, 0
    for what, value, limit in budget_rows(rows):
        if some and None in (value, limit):
            continue
        good = None not in (value, limit) and value <= limit
        passed, failed = passed + good, failed + (not good)
        table.append([what, *("not measured" if v is None else f"{v:,.1f}" for v in (value, limit)), "yes" if good else "NO"])
    budgets.print_rows(table, out)
    return passed, failed


def draw(rows, out):
    """Draw a panel for each column: instructions against pending timers."""
    report = Report(rows)
    height = 900
    script = plots.HEAD + plots.TERMINAL.format(size=f"1000,{height}", out=Path(out) / "wheel.svg")
    panels = []
    for n, (head, op, mix) in enumerate(COLUMNS):
        lines = []
        for i, s in reversed(list(enumerate(report.systems))):
            points = [(p, v) for p in report.pendings if p >= 1000
                      for v in [report.get(s, op, p, DELAYS[0], mix)] if v is not None]
            if points:
                script += plots.block(f"d{n}_{i}", points)
                lines.append(f'$d{n}_{i} using 1:2 with linespoints lw {3 if s == "htw" else 2} pt {4 + i} ps 0.7 '
                             f'lc rgb "{COLOURS[s]}" title "{NAMES[s]}"')
        if lines:
            panels.append((head, lines))
    if not panels:
        return
    script += (f"set multiplot layout 3,2 margins 0.08,0.97,{62 / height:.3f},{1 - 40 / height:.3f} "
               f"spacing 0.07,{85 / height:.3f}\n"
               "set logscale xy\nset xrange [700:6e6]\nset yrange [4:20000]\n"
               'set xtics ("1,000" 1000, "10,000" 10000, "100,000" 100000, "1 million" 1000000)\n'
               'set ytics ("10" 10, "100" 100, "1,000" 1000, "10,000" 10000)\n')
    for n, (head, lines) in enumerate(panels):
        script += 'set key at screen 0.6,0.29 left top Left reverse invert samplen 2\n' if n == 0 else "unset key\n"
        script += (f'set title "{head}"\nset ylabel "{"instructions for one" if n % 2 == 0 else ""}" offset 1,0\n'
                   f'set xlabel "{"pending timers" if n > 2 else ""}"\n')
        script += "plot " + ", \\\n".join(lines) + "\n"
    plots.gnuplot(script + "unset multiplot\n")
