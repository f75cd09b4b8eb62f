# SPDX-License-Identifier: GPL-2.0-only
"""The budgets of htw, and tables of a report with htw beside its peers."""

MILLION = 1000000
CONNECTIONS = 65536

# The attacks of tools/contain/attacks.c, with the number of timers in the keys of their rows.
ATTACKS = (("one_context", 50000), ("two_clocks", 100000), ("three_clocks", 150000), ("two_users", 200000),
           ("million_read", MILLION), ("million_unread", MILLION), ("bursts", MILLION), ("due_storm", 200000),
           ("reopening", 50000), ("subuids", 80000), ("privileged", 150000), ("many_users", 160000), ("light_users", 1920),
           ("aligned", 1024), ("many_contexts", 10000), ("unread_contexts", 10000), ("contexts_100000", 100000),
           ("exits", 100000), ("co_prime_users", 2048), ("fine_users_16", 1024), ("fine_users_1000", 64000), ("polled_16", 64), ("polled_64", 64),
           ("unread_polls", 1), ("unread_waiters", 64), ("requests", 1), ("loop", 1), ("sigio", 1), ("sigio_contexts", 4000), ("sigio_16000", 16000), ("sigio_users", 256),
           ("sigio_and_timers", 80000))
# Those whose waiters take long to wake: they may take 3% of a CPU.
COSTLY = (("waiters", 1), ("nested_waiters", 1), ("nested_contexts", 64), ("lists_1", 1), ("lists_20", 1),
          ("lists_manual", 1), ("one_list", 1), ("exchanged", 1), ("long_and_short", 2))
# Those with fine ticks, or many users with waiters, and the rows of timerfds that do the same.
FINE = (("one_fine", 1, "one_fine_timerfd", 1), ("co_prime", 64, "co_prime_timerfd", 16),
        ("fine_16", 16, "fine_16_timerfd", 16), ("primes", 1000, "primes_timerfd", 1000),
        ("staggered", 50000, "staggered_timerfd", 50000), ("nested_users", 64, "nested_users_timerfd", 64),
        ("lists_of_users", 64, "lists_of_users_timerfd", 64))
# Those that have interrupts off for as long as timerfds with the same waiters.
LONG = (("lists_20", 1, "lists_20_timerfd", 1), ("one_list", 1, "one_list_timerfd", 1),
        ("lists_of_users", 64, "lists_of_users_timerfd", 64))
# How long a system call may keep softirqs waiting, in ns.
SOFTIRQS = 100000


def row(attack, count, what):
    """The key of a figure of an attack."""
    return ("htw-contain", f"{attack}-{what}", count)


def contained(attack, count):
    """What holds beside any attack."""
    what = f"beside {attack}"
    return (
        (f"early, lost or repeated expirations {what}", row(attack, count, "broken"), "<=", 0, None),
        (f"longest time without softirqs {what}", row(attack, count, "softirqs-off"), "<=", SOFTIRQS, None),
        (f"lateness of others {what}", row(attack, count, "late"), "<=", 1.0, row(attack, count, "late-bound")),
        ("the same, of callouts", row(attack, count, "late-callout"), "<=", 1.0, row(attack, count, "late-bound")),
    )


def fair(attack, count):
    """What is left to a task that has its fair share."""
    return (f"left to a task beside {attack}, %", row(attack, count, "left"), ">=", 1.0, row(attack, count, "left-least"))


# Description, row of the report, relation, limit, and the row of a peer if the limit is a
# multiple of that.
BUDGETS = (
    *((f"{what}, one ioctl each", ("htw", op, MILLION), "<=", limit, None)
      for what, op, limit in (("add", "add", 985), ("re-arm", "rearm", 960), ("cancel", "cancel", 940))),
    *((f"{what}, vectors of 256", ("htw-vector", op, MILLION), "<=", 1.0, ("libev", op, MILLION))
      for what, op in (("add", "add"), ("re-arm", "rearm"), ("cancel", "cancel"), ("expire and read", "expire"))),
    *((f"{what} as an SQE, 256 in a submission", ("htw-uring", op, MILLION), "<=", 0.6, ("htw", op, MILLION))
      for what, op in (("add", "add"), ("re-arm", "rearm"), ("cancel", "cancel"))),
    *((f"{what} as an SQE, beside io_uring's own", ("htw-uring", op, MILLION), "<=", 1.0, ("io_uring", op, MILLION))
      for what, op in (("add", "add"), ("re-arm", "rearm"), ("cancel", "cancel"))),
    *((f"{what}, 16 in a vector as an SQE", ("htw-uring-16", op, MILLION), "<=", 140, None)
      for what, op in (("add", "add"), ("re-arm", "rearm"), ("cancel", "cancel"))),
    ("a million on one tick, each: expire and read", ("htw-vector", "burst-collect", MILLION), "<=", 115, None),
    *((f"{what}, {where}", (system, op, CONNECTIONS), "<=", limit, None)
      for system, where in (("libhtw-device", "device"), ("libhtw", "in the process"))
      for what, op, limit in (("htw_put_off_inline()", "put-off-inline", 20), ("htw_put_off()", "put-off", 30))),
    *((f"re-arm by htw_put_off(), 100 for each timeout, {where}", (system, "put-off-100-a-timeout", CONNECTIONS), "<=", limit, peer)
      for system, where in (("libhtw-device", "device"), ("libhtw", "in the process"))
      for limit, peer in ((0.2, ("libev", "idle-connections", CONNECTIONS)), (1.2, (f"{system}-by-hand", "put-off-100-a-timeout", CONNECTIONS)))),
    ("bytes for each timer", ("htw-vector", "memory", MILLION), "<=", 72, None),
    *((f"growth of {op} to 4,000,000", ("htw-vector", op, 4 * MILLION), "<=", 1.1, ("htw-vector", op, 1000))
      for op in ("add", "rearm", "cancel", "expire")),
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
    *((f"a tick of 10 us, reader {reader}, a million coarse timers beside: {what}", ("htw", f"exact-{reader}-coarse-far-{op}", 2000), "<=", limit, None)
      for reader in ("ordinary", "fifo")
      for what, op, limit in (("median", "p50", 13000), ("99.9%", "p99.9", 25000), ("early expirations", "early", 0))),
    *((f"the same while those are due, reader {reader}: 99.9%", ("htw", f"exact-{reader}-coarse-due-p99.9", 2000), "<=", 1.1,
       ("timerfd", f"exact-{reader}-coarse-due-p99.9", 2000)) for reader in ("ordinary", "fifo")),
    ("200 of them at a time, within 10 us: 99.9%", ("htw", "exact-together-p99.9", 2000), "<=", 1.0,
     ("timerfd", "exact-together-p99.9", 2000)),
    ("a million timers on one tick: longest callback", ("htw-vector", "burst-longest-callback", MILLION), "<=", 60000, None),
    ("a million timers on one tick: longest wait of another task beside the reader", ("htw-vector", "burst-longest-wait", MILLION), "<=", 60000, None),
    ("the same while their memory is given back", ("htw-vector", "burst-give-back-wait", MILLION), "<=", 1.0,
     ("munmap", "burst-give-back-wait", MILLION)),
    ("100,000 descriptors: first read", ("htw", "contexts-first-read", 100000), "<=", 2000000, None),
    ("100,000 descriptors: all read", ("htw", "contexts-all-read", 100000), "<=", 300000000, None),
    ("100,000 descriptors: bytes each", ("htw", "contexts-memory", 100000), "<=", 3000, None),
    ("100,000 descriptors: exit", ("htw", "contexts-exit", 100000), "<=", 1.5, ("timerfd", "contexts-exit", 100000)),
    *(budget for attack, count in (*ATTACKS, *COSTLY, *((a, c) for a, c, _, _ in FINE)) for budget in contained(attack, count)),
    *(fair(attack, count) for attack, count in ATTACKS),
    *((f"{attack} takes, %", row(attack, count, "loss"), "<=", 1.0, row(attack, count, "loss-most")) for attack, count in COSTLY),
    # Two points: of about 50.
    *((f"left to a task beside {attack}, %", row(attack, count, "left"), ">=", 0.96, row(peer, of, "left")) for attack, count, peer, of in FINE),
    *((f"longest time without interrupts beside {attack}", row(attack, count, "interrupts-off"), "<=", 1.25, row(peer, of, "interrupts-off"))
      for attack, count, peer, of in LONG),
    *((f"lateness of others, {how} from another CPU", row("meddling", 0, f"{how}-beside-p99.9"), "<=", 1.25,
       row("meddling", 0, f"{how}-alone-p99.9")) for how in ("now", "later", "vectors")),
    *((f"context switches for each expiration, 64 processes waiting: {way}", ("htw", f"waiters-{way}", 64), "<=", limit, None)
      for way, limit in (("read", 1.5), ("epollexclusive", 2.5))),
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
