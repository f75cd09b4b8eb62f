# SPDX-License-Identifier: GPL-2.0-only
"""The budgets of htw, and tables of a report with htw beside its peers."""

MILLION = 1000000
CONNECTIONS = 65536

# The attacks of tools/contain/attacks.c, with the number of timers in the keys of their
# rows: those of one unprivileged user, and those of several users or of root.
ONE_USER = (("one_context", 50000), ("two_clocks", 100000), ("three_clocks", 150000), ("private_wheels", 150000),
            ("co_prime", 64), ("waiters", 1), ("nested_waiters", 1), ("nested_contexts", 64), ("sigio", 1),
            ("sigio_contexts", 4000), ("sigio_16000", 16000), ("stall_discount", 2), ("stall_discount_short", 2),
            ("lists_1", 1), ("due_storm", 200000), ("reopening", 50000), ("many_contexts", 10000), ("subuids", 80000),
            ("table", 20000), ("bursts", MILLION), ("ten_thousand", 10000), ("hundred_thousand", 100000), ("million", MILLION))
OTHERS = (("two_users", 200000), ("many_users", 160000), ("light_users", 1920), ("private_users", 2048),
          ("aligned", 1024), ("polled_16", 64), ("polled_64", 64), ("many_readers", 160000), ("nested_users", 64), ("sigio_users", 256), ("sigio_and_timers", 80000),
          ("privileged", 250000))
# Those of one user whose waiters take as long as one of the kernel's own wakeups, each, and what
# has the same waiters without htw.
LISTS = (("lists_20", 1), ("lists_manual", 1), ("one_list", 1))
ONE_WAKEUP = ("htw-contain", "one_list_timerfd-interrupts-off", 1)
# More than that takes, in ns: wakeup_ns in attacks.c.
LIST_NS = 3000000
# One tick and 1 ms until the expiration, 0.5 ms more until it is read; how long a system call may
# keep softirqs waiting; in ns.
LATE, LATE_READ, SOFTIRQS = 2000000, 2500000, 100000


def bounded(attack, count, share):
    """What holds beside any attack."""
    what = f"beside {attack}"
    return (
        (f"a task's loss {what}, %", ("htw-contain", f"{attack}-loss", count), "<=", share, None),
        ("the same, in its burst, %", ("htw-contain", f"{attack}-loss-burst", count), "<=", 52, None),
        (f"early, lost or repeated expirations {what}", ("htw-contain", f"{attack}-broken", count), "<=", 0, None),
        (f"longest time without softirqs {what}", ("htw-contain", f"{attack}-softirqs-off", count), "<=", SOFTIRQS, None),
    )


def contained(attack, count, share, wakeup=0):
    """The budgets of an attack."""
    what = f"beside {attack}"
    return (
        *bounded(attack, count, share),
        (f"lateness of others {what}", ("htw-contain", f"{attack}-late", count), "<=", LATE + wakeup, None),
        ("the same, as read", ("htw-contain", f"{attack}-late-read", count), "<=", LATE_READ + wakeup, None),
        ("the same, of callouts", ("htw-contain", f"{attack}-late-callout", count), "<=", LATE + wakeup, None),
    )


def listed(attack, count):
    """The budgets of an attack by waiters that are lists: interrupts are off for one wakeup."""
    return (
        *contained(attack, count, 28, LIST_NS),
        (f"longest time without interrupts beside {attack}", ("htw-contain", f"{attack}-interrupts-off", count), "<=",
         1.25, ONE_WAKEUP),
    )


# Description, row of the report, relation, limit, and the row of a peer if the limit is a
# multiple of that.
BUDGETS = (
    ("add, one ioctl each", ("htw", "add", MILLION), "<=", 1000, None),
    ("add, batches of 256", ("htw-vector", "add", MILLION), "<=", 1.0, ("libev", "add", MILLION)),
    ("re-arm, batches of 256", ("htw-vector", "rearm", MILLION), "<=", 1.0, ("libev", "rearm", MILLION)),
    ("re-arm by the table: the store alone", ("htw-table", "store", CONNECTIONS), "<=", 5, None),
    ("re-arm by the table, 100 for each timeout", ("htw-table", "rearm-100-a-timeout", CONNECTIONS), "<=", 0.2,
     ("libev", "idle-connections", CONNECTIONS)),
    *((f"{what}, {where}", (system, op, CONNECTIONS), "<=", limit, None)
      for system, where in (("libhtw-device", "device"), ("libhtw", "in the process"))
      for what, op, limit in (("htw_put_off_inline()", "put-off-inline", 20), ("htw_put_off()", "put-off", 30))),
    *((f"re-arm by htw_put_off(), 100 for each timeout, {where}", (system, "put-off-100-a-timeout", CONNECTIONS), "<=", limit, peer)
      for system, where in (("libhtw-device", "device"), ("libhtw", "in the process"))
      for limit, peer in ((0.2, ("libev", "idle-connections", CONNECTIONS)), (1.2, (f"{system}-by-hand", "put-off-100-a-timeout", CONNECTIONS)))),
    ("cancel, batches of 256", ("htw-vector", "cancel", MILLION), "<=", 1.0, ("libev", "cancel", MILLION)),
    ("expire and read", ("htw-vector", "expire", MILLION), "<=", 1.0, ("libev", "expire", MILLION)),
    ("expire, delivered by the ring", ("htw-ring", "expire", MILLION), "<=", 0.7, ("libev", "expire", MILLION)),
    ("bytes for each timer", ("htw-vector", "memory", MILLION), "<=", 72, None),
    ("bytes for each timer, with the table", ("htw-table", "memory", MILLION), "<=", 80, None),
    *((f"growth of {op} to 4,000,000: {system}", (system, op, 4 * MILLION), "<=", 1.1, (system, op, 1000))
      for system in ("htw-vector", "htw-ring", "htw-table") for op in ("add", "rearm", "cancel", "expire")),
    ("in the kernel: start", ("htw-kernel", "add", MILLION), "<=", 1.0, ("timer_list", "add", MILLION)),
    ("in the kernel: re-arm", ("htw-kernel", "rearm", MILLION), "<=", 1.0, ("timer_list", "rearm", MILLION)),
    ("in the kernel: stop", ("htw-kernel", "cancel", MILLION), "<=", 1.0, ("timer_list", "cancel", MILLION)),
    *((f"libhtw in the process: {what}", ("libhtw", op, MILLION), "<=", limit, None)
      for what, op, limit in (("add", "add", 85), ("re-arm", "rearm", 72), ("cancel", "cancel", 52), ("expire", "expire", 130))),
    *((f"the wheel by itself: {what}", ("wheel", op, MILLION), "<=", limit, None)
      for what, op, limit in (("add", "add", 42), ("re-arm", "rearm", 48), ("cancel", "cancel", 13), ("expire", "expire", 75))),
    ("callbacks in 60 s, nothing pending", ("htw-vector", "callbacks-in-60s", 0), "<=", 0, None),
    ("callbacks in 60 s, a million timers half an hour away", ("htw-vector", "callbacks-in-60s", MILLION), "<=", 4, None),
    ("two threads on one descriptor, compared with one", ("htw-vector", "threads-one-fd", CONNECTIONS), ">=", 1.7, None),
    ("two threads in the process, a shard each, compared with one", ("libhtw", "threads-own-shards", 8192), ">=", 1.95, None),
    ("largest lateness, 100,000 timers in 10 s", ("htw-vector", "lateness-max", 100000), "<=", 1100000, None),
    ("early expirations, 100,000 timers in 10 s", ("htw-vector", "lateness-early", 100000), "<=", 0, None),
    ("largest lateness, a million timers in one bucket", ("htw-vector", "lateness-bucket-max", MILLION), "<=", 2000000, None),
    ("early expirations, a million timers in one bucket", ("htw-vector", "lateness-bucket-early", MILLION), "<=", 0, None),
    ("a million timers on one tick: longest callback", ("htw-vector", "burst-longest-callback", MILLION), "<=", 250000, None),
    ("a million timers on one tick: longest stall of a task", ("htw-vector", "burst-longest-stall", MILLION), "<=", 1000000, None),
    *(row for attack, count in ONE_USER for row in contained(attack, count, 28)),
    *(row for attack, count in OTHERS for row in contained(attack, count, 52)),
    *(row for attack, count in LISTS for row in listed(attack, count)),
    *((f"lateness of others, {how} from another CPU", ("htw-contain", f"meddling-{how}-beside-p99.9", 0), "<=", 1.25,
       ("htw-contain", f"meddling-{how}-alone-p99.9", 0)) for how in ("kicks", "vectors")),
    *((f"interrupts per second, {how} from another CPU", ("htw-contain", f"meddling-{how}-kicks", 0), "<=", 20000, None)
      for how in ("kicks", "vectors")),
    *((f"context switches for each expiration, 64 processes waiting: {way}", ("htw", f"waiters-{way}", 64), "<=", 1.5, None)
      for way in ("read", "epollexclusive")),
)


def number(value):
    return f"{value:,.0f}" if abs(value) >= 10000 or value == int(value) else f"{value:,.2f}"


def is_met(value, relation, bound):
    return value <= bound if relation == "<=" else value >= bound


def print_rows(rows, out):
    """Print aligned columns, the first to the left."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for n, row in enumerate(rows):
        print("  ".join(cell.ljust(w) if not i else cell.rjust(w)
                        for i, (cell, w) in enumerate(zip(row, widths))).rstrip(), file=out)
        if not n:
            print("  ".join("-" * w for w in widths), file=out)


def print_figures(rows, missing, out):
    """Print a table for each operation, with a line for each system; then all other rows."""
    cells = {(r["system"], r["op"], r["pending"]): r["value"] for r in rows}
    none = {(r["system"], r["op"], r["pending"]): r["missing"] for r in missing}
    systems = list(dict.fromkeys(k[0] for k in [*cells, *none]))
    ops = [op for op in ("add", "rearm", "cancel", "expire", "memory", "close")
           if any(k[1] == op for k in cells)]
    for op in ops:
        counts = sorted({k[2] for k in cells if k[1] == op})
        head = f"{op} ({'bytes for each timer' if op == 'memory' else 'instructions'})"
        table = [[head, *(f"{c:,}" for c in counts)]]
        for s in systems:
            values = [number(cells[s, op, c]) if (s, op, c) in cells else "-" for c in counts]
            if any(v != "-" for v in values) or any((s, op, c) in none for c in counts):
                table.append([s, *values])
        print_rows(table, out)
        print(file=out)
    others = [r for r in rows if r["op"] not in ops]
    if others:
        print_rows([["other rows", "", "pending", "value", "unit"]] +
                   [[r["system"], r["op"], f"{r['pending']:,}", number(r["value"]), r["unit"]] for r in others], out)
        print(file=out)
    reasons = dict.fromkeys((s, c, why) for (s, _, c), why in none.items())
    for system, count, why in reasons:
        print(f"- {system} at {count:,}: {why}", file=out)
    if reasons:
        print(file=out)


def print_budgets(cells, out):
    """Print each budget and whether it is met."""
    table = [["budget", "htw", "limit", "peer", "met"]]
    met = missed = unknown = 0
    for what, key, relation, limit, peer in BUDGETS:
        row, beside = cells.get(key), cells.get(peer) if peer else None
        if not row or (peer and not beside):
            unknown += 1
            table.append([what, number(row["value"]) if row else "-", "-", "-", "not measured"])
            continue
        bound = limit * beside["value"] if peer else limit
        good = is_met(row["value"], relation, bound)
        met, missed = met + good, missed + (not good)
        table.append([what, number(row["value"]), f"{relation} {number(bound)}",
                      f"{limit} x {peer[0]} {number(beside['value'])}" if peer else "", "yes" if good else "NO"])
    print_rows(table, out)
    print(f"\nbudgets: {met} met, {missed} missed, {unknown} not measured", file=out)
