# SPDX-License-Identifier: GPL-2.0-only
"""Plots of a report, as SVG, by gnuplot."""

import subprocess

OPS = ("add", "rearm", "cancel", "expire")
COLOURS = {
    "htw": "#9ecae1", "htw-vector": "#08519c", "htw-batch": "#6baed6", "htw-ring": "#3182bd", "htw-table": "#00a0a0",
    "htw-kernel": "#6a51a3", "timer_list": "#bcbddc", "hrtimer": "#807dba",
    "timerfd": "#d62728", "posix": "#ff7f0e", "io_uring": "#e377c2",
    "libevent": "#8c6d31", "libev": "#2ca02c", "libuv": "#98df8a",
}
# Names are shown as they are: enhanced text sets timer_list with a subscript.
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
    """A named data block; text is quoted."""
    lines = (" ".join(f'"{v}"' if isinstance(v, str) else repr(v) for v in p) for p in points)
    return f"${name} << END\n" + "\n".join(lines) + "\nEND\n"


def named(system):
    return system.replace("-", "_")


def cost(rows, out):
    """A panel an operation: instructions against how many are pending."""
    values = {(r["system"], r["op"], r["pending"]): r["value"] for r in rows}
    systems = [s for s in COLOURS if any(k[0] == s for k in values)]
    script = HEAD + TERMINAL.format(size="1000,820", out=out / "cost.svg")
    for op in OPS:
        for s in systems:
            points = sorted((k[2], v) for k, v in values.items() if k[:2] == (s, op))
            if points:
                script += block(f"{named(s)}_{op}", points)
    script += ('set multiplot layout 2,2 margins 0.08,0.83,0.07,0.95 spacing 0.07,0.1\n'
               'set logscale xy\nset xrange [700:6e6]\nset format xy "%.0s%c"\n')
    for n, op in enumerate(OPS):
        # Some cost the same: the points tell whose a line is.
        lines = [f'${named(s)}_{op} using 1:2 with linespoints lw 2 pt {4 + i % 12} ps 0.7 '
                 f'lc rgb "{COLOURS[s]}" title "{s}"'
                 for i, s in enumerate(systems) if any(k[:2] == (s, op) for k in values)]
        script += 'set key outside right top\n' if n == 1 else 'unset key\n'
        if n == 1:
            script += 'set key at screen 0.99,0.95\n'
        script += (f'set title "{op}: instructions each"\n'
                   f'set xlabel "{"pending timers" if n > 1 else ""}"\n')
        script += "plot " + ", \\\n".join(lines) + "\n"
    gnuplot(script + "unset multiplot\n")


def lateness(rows, out):
    """From the percentiles: which part of all timers was at most so late."""
    series = {}
    for r in rows:
        what, _, percent = r["op"].rpartition("-p")
        if what.startswith("lateness"):
            series.setdefault((r["system"], what), []).append((r["value"] / 1000, float(percent)))
        elif r["op"].startswith("lateness") and r["op"].endswith("-max"):
            series.setdefault((r["system"], r["op"][:-4]), []).append((r["value"] / 1000, 100.0))
    if not series:
        return
    titles = {
        "lateness": "100,000 in 10 s", "lateness-delivered": "100,000 in 10 s, as read",
        "lateness-bucket": "a million in one bucket",
        "lateness-bucket-delivered": "a million in one bucket, as read",
    }
    colours = {("htw-vector", "lateness-bucket"): "#00a0a0"}
    script = HEAD + TERMINAL.format(size="800,440", out=out / "lateness.svg")
    lines = []
    for n, ((system, what), points) in enumerate(
            sorted(series.items(), key=lambda s: (s[0][0], s[0][1].removesuffix("-delivered"), s[0][1]))):
        script += block(f"d{n}", sorted(points, key=lambda p: p[1]))
        colour = colours.get((system, what.removesuffix("-delivered")), COLOURS[system])
        dash = 2 if what.endswith("-delivered") else 1
        lines.append(f'$d{n} using 1:2 with linespoints lw 2 pt 7 ps 0.4 dt {dash} lc rgb "{colour}" '
                     f'title "{system}: {titles.get(what, what)}"')
    # The few that come late by milliseconds must not stretch the axis.
    script += ('set title "how late, on an idle guest: the part of all timers that came by then"\n'
               'set xlabel "time after the deadline" offset 0,0.5\n'
               'set logscale x\nset xrange [1:10000]\n'
               'set xtics ("1 µs" 1, "10 µs" 10, "100 µs" 100, "1 ms, a tick" 1000, "10 ms" 10000)\n'
               'set ylabel "per cent of all timers"\nset yrange [0:100]\n'
               'set key at graph 0.24, graph 0.97 left top Left reverse\n'
               "plot " + ", \\\n".join(lines) + "\n")
    gnuplot(script)


def memory(rows, out):
    """Bytes of a timer, all counted, at the most pending that there is."""
    best = {}
    for r in rows:
        if r["op"] == "memory" and r["pending"] >= best.get(r["system"], (0, 0))[0]:
            best[r["system"]] = (r["pending"], r["value"])
    bars = sorted(((s, v) for s, (_, v) in best.items()), key=lambda b: b[1])
    if not bars:
        return
    script = HEAD + TERMINAL.format(size="800,360", out=out / "memory.svg")
    script += block("bars", [(n, v, s, int(COLOURS[s][1:], 16)) for n, (s, v) in enumerate(bars)])
    script += ('set title "memory of a pending timer, all of it, in bytes"\nset boxwidth 0.7\nset style fill solid\n'
               'unset key\nset yrange [0:*]\nset xtics rotate by -30\n'
               'plot $bars using 1:2:4:xtic(3) with boxes lc rgb variable, '
               '$bars using 1:2:(sprintf("%.0f", $2)) with labels offset 0,0.7\n')
    gnuplot(script)


def draw(rows, out):
    out.mkdir(parents=True, exist_ok=True)
    for plot in (cost, lateness, memory):
        plot(rows, out)
