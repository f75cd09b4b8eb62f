# SPDX-License-Identifier: GPL-2.0-only
"""Plots of a report, as SVG, drawn by gnuplot."""

import subprocess
import sys

sys.dont_write_bytecode = True
import locks  # noqa: E402

OPS = {"add": "add", "rearm": "re-arm", "cancel": "cancel", "expire": "expire"}
COLOURS = {
    "htw": "#9ecae1", "htw-vector": "#08519c",
    "libhtw": "#111111", "wheel": "#666666",
    "libev": "#2ca02c", "libevent": "#8c6d31", "libuv": "#98df8a", "rte_timer": "#00a0a0",
    "timerfd": "#d62728", "posix": "#ff7f0e", "io_uring": "#e377c2",
    "htw-kernel": "#6a51a3", "timer_list": "#bcbddc", "hrtimer": "#807dba",
}
# What a program can choose between, for README.md.
CHOICE = ("htw-vector", "libhtw", "libev", "libevent", "timerfd", "io_uring")
KERNEL = ("htw-kernel", "timer_list", "hrtimer")
SCALE_COLOURS = ("#08519c", "#2ca02c", "#ff7f0e", "#e377c2", "#8c6d31", "#00a0a0")
MOST = 10000
# noenhanced: otherwise the underscores in timer_list and io_uring make subscripts.
TERMINAL = 'set terminal svg size {size} noenhanced font "sans,12" background "white"\nset output "{out}"\n'
HEAD = """set encoding utf8
set style line 100 lc rgb "#dddddd"
set grid back linestyle 100
set border 3 lc rgb "#666666"
set tics nomirror
"""


def gnuplot(script):
    subprocess.run(["gnuplot"], input=script, text=True, check=True)


def block(name, points):
    """A named data block of gnuplot; strings are quoted."""
    lines = (" ".join(f'"{v}"' if isinstance(v, str) else repr(v) for v in p) for p in points)
    return f"${name} << END\n" + "\n".join(lines) + "\nEND\n"


def block_name(system, op):
    return f"{system}_{op}".replace("-", "_")


def cost(rows, out):
    """Draw the cost of all systems, and of those of README.md."""
    cost_of(COLOURS, rows, out / "cost.svg", 860)
    cost_of(CHOICE, rows, out / "choice.svg", 640)


def cost_of(systems, rows, out, height):
    """Draw a panel for each operation: instructions against pending timers."""
    values = {(r["system"], r["op"], r["pending"]): r["value"] for r in rows}
    systems = [s for s in systems if any(k[0] == s and k[1] in OPS for k in values)]
    if not systems:
        return
    script = HEAD + TERMINAL.format(size=f"1000,{height}", out=out)
    for op in OPS:
        for s in systems:
            points = sorted((k[2], v) for k, v in values.items() if k[:2] == (s, op))
            if points:
                script += block(block_name(s, op), points)
    # One scale for all panels. io_uring's walks go far beyond it, as the label says.
    # Room for labels and a title, whatever the height.
    script += (f'set multiplot layout 2,2 margins 0.08,0.85,{62 / height:.3f},{1 - 40 / height:.3f} '
               f'spacing 0.05,{85 / height:.3f}\n'
               f'set logscale xy\nset xrange [700:6e6]\nset yrange [9:{MOST}]\n'
               'set xtics ("1,000" 1000, "10,000" 10000, "100,000" 100000, "1 million" 1000000)\n'
               'set ytics ("10" 10, "100" 100, "1,000" 1000, "10,000" 10000)\n')
    for n, (op, name) in enumerate(OPS.items()):
        lines = []
        # The first one last, on top of others that cost the same.
        for i, s in reversed(list(enumerate(systems))):
            points = [v for k, v in values.items() if k[:2] == (s, op)]
            if points:
                # Some systems cost the same: shape and size of the points tell them apart.
                lines.append(f'${block_name(s, op)} using 1:2 with linespoints lw 2 pt {4 + i % 12} '
                             f'ps {1.3 if len(points) == 1 else 0.6 + 0.03 * i:.2f} dt {2 if s in KERNEL else 1} '
                             f'lc rgb "{COLOURS[s]}" title "{s}"')
        over = [(s, [v for k, v in sorted(values.items()) if k[:2] == (s, op)]) for s in systems]
        notes = [f"{s}: {v[0]:,.0f} to {v[-1]:,.0f}" for s, v in over if v and v[-1] > MOST]
        script += "unset label\n"
        if notes:
            script += f'set label 1 "{"; ".join(notes)}" at graph 0.97,0.94 right tc rgb "{COLOURS["io_uring"]}"\n'
        script += 'set key at screen 0.995,0.955 right top Left reverse invert samplen 2\n' if n == 0 else 'unset key\n'
        script += (f'set title "{name}"\n'
                   f'set xlabel "{"pending timers" if n > 1 else ""}"\n'
                   f'set ylabel "{"instructions for one operation" if n % 2 == 0 else ""}" offset 1,0\n')
        script += "plot " + ", \\\n".join(lines) + "\n"
    gnuplot(script + "unset multiplot\n")


def lateness(rows, out):
    """Draw the percentiles: which part of all timers was at most that late."""
    titles = {
        "lateness": "100,000 in 10 s", "lateness-bucket": "a million in one bucket",
        "exact-ordinary-coarse-far": "exact, beside a million coarse", "exact-together": "exact, 200 within 10 µs",
    }
    colours = {
        ("htw-vector", "lateness-bucket"): "#00a0a0", ("htw", "exact-together"): "#6a51a3",
        ("timerfd", "exact-ordinary-coarse-far"): "#ff7f0e", ("timerfd", "exact-together"): "#e377c2",
    }
    series = {}
    for r in rows:
        what, _, percent = r["op"].rpartition("-")
        if what in titles and percent != "early":
            series.setdefault((r["system"], what), []).append(
                (r["value"] / 1000, 100.0 if percent == "max" else float(percent[1:])))
    if not series:
        return
    script = HEAD + TERMINAL.format(size="800,530", out=out / "lateness.svg")
    lines = []
    for n, ((system, what), points) in enumerate(sorted(series.items(), key=lambda s: (s[0][1], s[0][0]))):
        script += block(f"d{n}", sorted(points, key=lambda p: p[1]))
        colour = colours.get((system, what), COLOURS[system])
        lines.append(f'$d{n} using 1:2 with linespoints lw 2 pt 7 ps 0.4 lc rgb "{colour}" '
                     f'title "{system}: {titles[what]}"')
    script += ('set title "lateness of timers on an idle guest"\n'
               'set xlabel "time from the deadline until it is read" offset 0,0.3\n'
               'set logscale x\nset xrange [1:10000]\n'
               'set xtics ("1 µs" 1, "10 µs" 10, "100 µs" 100, "1 ms, one tick" 1000, "10 ms" 10000)\n'
               'set ylabel "per cent of all timers"\nset yrange [0:100]\n'
               'set bmargin at screen 0.35\nset key at screen 0.09,0.22 left top Left reverse maxrows 4 samplen 3\n'
               "plot " + ", \\\n".join(lines) + "\n")
    gnuplot(script)


def memory(rows, out):
    """Draw the bytes of a timer, everything included, at the largest number of timers."""
    best = {}
    for r in rows:
        if r["op"] == "memory" and r["pending"] >= best.get(r["system"], (0, 0))[0]:
            best[r["system"]] = (r["pending"], r["value"])
    bars = sorted(((s, v) for s, (_, v) in best.items()), key=lambda b: -b[1])
    if not bars:
        return
    script = HEAD + TERMINAL.format(size=f"800,{90 + 24 * len(bars)}", out=out / "memory.svg")
    script += block("bars", [(n, v, s, int(COLOURS[s][1:], 16)) for n, (s, v) in enumerate(bars)])
    script += ('set title "bytes for each pending timer, everything included"\nset style fill solid\nunset key\n'
               f'set xrange [0:{bars[0][1] * 1.08}]\nset yrange [-0.7:{len(bars) - 0.3}]\nset grid noytics\n'
               'plot $bars using ($2/2):1:($2/2):(0.36):4:ytic(3) with boxxyerror lc rgb variable, '
               '$bars using 2:1:(sprintf("%.0f", $2)) with labels left offset 0.5,0\n')
    gnuplot(script)


def scale(rows, out):
    """Draw how much of many CPUs' work one descriptor can do, and what was measured."""
    model = locks.Scale(rows)
    if not model.counts:
        return
    script = HEAD + TERMINAL.format(size="800,470", out=out / "scale.svg")
    cpus = [1, 2, 4, 8, 16, 32, 64, 128, 256]
    script += block("own", [(n, n) for n in cpus])
    lines = ['$own using 1:2 with lines lw 2 dt 2 lc rgb "#111111" title "a descriptor each"']
    for i, op in enumerate(model.operations()):
        most, _ = model.most(op)
        # The corner, too.
        at = sorted({*cpus, most} if 1 < most < cpus[-1] else cpus)
        script += block(f"d{i}", [(n, min(n, max(most, 1))) for n in at])
        lines.append(f'$d{i} using 1:2 with lines lw 2 lc rgb "{SCALE_COLOURS[i]}" title "{op}"')
    for i, (kind, name, point) in enumerate((("one-fd", "measured, one descriptor", 7),
                                             ("own-fds", "measured, one each", 6))):
        points = [(1, 1.0)] + sorted((r["pending"], r["value"]) for r in rows if r["op"] == f"scale-{kind}")
        points += [(2, r["value"]) for r in rows if r["op"] == f"threads-{kind}"]
        script += block(f"m{i}", points)
        lines.append(f'$m{i} using 1:2 with points pt {point} ps 0.8 lc rgb "#d62728" title "{name}"')
    script += ('set title "work that many CPUs can do on one descriptor, at most"\n'
               'set xlabel "CPUs"\nset ylabel "times the work of one CPU"\n'
               'set logscale xy 2\nset xrange [1:256]\nset yrange [1:256]\n'
               'set rmargin at screen 0.58\nset key at screen 0.6,0.9 left top Left reverse samplen 3\n'
               "plot " + ", \\\n".join(lines) + "\n")
    gnuplot(script)


def draw(rows, out):
    out.mkdir(parents=True, exist_ok=True)
    for plot in (cost, lateness, memory, scale):
        plot(rows, out)
