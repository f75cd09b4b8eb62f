# SPDX-License-Identifier: GPL-2.0-only
"""Count what is done under each lock, with a plugin of the emulator.

The rows of the report: for each operation, on one descriptor and on one each, the instructions in
all; and for each lock of htw's the instructions while it is held, and the cache lines used then that
other CPUs use as well.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from kernel_tree import TOP  # noqa: E402

# Locks under which less is done are left out.
LEAST_INSNS = 0.05
NO_LOCK = "no lock"


def where(function, kernel):
    """Call a function of tools/common.sh that prints a kernel's directory; return that, or the machine's root."""
    script = f'. "$0" && {function} "$1"'
    text = subprocess.run(["bash", "-c", script, TOP / "tools/common.sh", kernel],
                          stdout=subprocess.PIPE, text=True, check=True).stdout
    return Path(text.strip() or "/")


def plugin_version():
    """Return the version of the plugins' interface that this QEMU accepts."""
    text = subprocess.run(["qemu-system-x86_64", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    major = int(re.search(r"version (\d+)", text).group(1))
    return 1 if major < 9 else 2


def build_plugin(path):
    subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden",
                    f"-DPLUGIN_VERSION={plugin_version()}", "-o", path, TOP / "tools/bench/qemu/locks.c"], check=True)


def lock_names(offsets, kernel):
    """Return, for offsets in the module's code, the lock that is taken there: base->lock."""
    module, root = where("module_home", kernel) / kernel / "htw.ko", where("kernel_root", kernel)
    # The place is where the call returns to.
    calls = "\n".join(hex(offset - 1) for offset in offsets)
    text = subprocess.run(["addr2line", "-a", "-i", "-j", ".text", "-e", module], input=calls,
                          stdout=subprocess.PIPE, text=True, check=True).stdout
    # Each address is followed by the places that its functions are inlined at, innermost first.
    places = [chunk.splitlines()[1:] for chunk in re.split(r"^(?=0x)", text, flags=re.MULTILINE) if chunk]
    return {offset: lock_at(chain, root) for offset, chain in zip(offsets, places)}


def lock_at(places, root):
    """Return the lock that the innermost place in htw's sources, FILE:LINE in the root, takes."""
    for place in places:
        path, line = re.match(r"(.*):(\d+|\?)", place).groups()
        path = root / path.lstrip("/")
        if not line.isdigit() or "/include/linux/" in str(path) or not path.exists():
            continue
        source = path.read_text().splitlines()[int(line) - 1]
        found = re.search(r"(?:spin|htw)_(?:try)?lock\w*\(&?([\w>.-]+)", source)
        return found.group(1) if found else f"{path.name}: {source.strip()}"
    return "?"


def lock_name(text):
    """Return the name of a lock as docs/architecture.md has it."""
    return text.replace("a->lock", "alarm->lock")


def count(cpus, run, kernel):
    """Run the workload in a VM with so many CPUs; return what the plugin wrote."""
    with tempfile.TemporaryDirectory() as directory:
        plugin, out = Path(directory, "locks.so"), Path(directory, "locks.json")
        build_plugin(plugin)
        run(["--kernel", kernel, "--icount", "--cpus", str(cpus), "--append", "nokaslr mitigations=off",
             "--plugin", f"{plugin},out={out}"])
        return [json.loads(line) for line in out.read_text().splitlines()]


def rows(phases, kernel):
    """Yield the report's rows for what the plugin wrote."""
    release = (where("kernel_dir", kernel) / "release").read_text().strip()
    offsets = sorted({s["offset"] for p in phases for s in p["sites"] if s["place"] == "module"})
    names = lock_names(offsets, kernel)
    for phase in phases:
        operation, shared, cpus = phase["name"].split()
        ops = phase["ops"]

        def row(what, value, unit):
            return {"system": f"locks-{shared}", "op": f"{operation}{what}", "pending": int(cpus),
                    "value": round(value, 4), "unit": unit, "kernel": release}

        yield row(" all", phase["insns"] / ops, "insn/op")
        held = {}
        for site in phase["sites"]:
            if site["place"] == "kernel":
                continue
            name = NO_LOCK if site["place"] == "none" else lock_name(names[site["offset"]])
            total = held.setdefault(name, {"insns": 0, "shared": 0})
            for key in total:
                total[key] += site[key]
        for name, total in sorted(held.items()):
            if total["insns"] / ops >= LEAST_INSNS:
                yield row(f" {name}", total["insns"] / ops, "insn/op")
                yield row(f" {name} lines", total["shared"] / ops, "count")


class Scale:
    """What follows from those rows for more CPUs, on one descriptor."""

    # An instruction and the transfer of a cache line between CPUs, in ns: a CPU of 3 GHz that
    # executes one in each cycle, and two sockets.
    INSN_NS, LINE_NS = 0.33, 100
    # What all users of a descriptor share. Bases and alarms belong to a CPU.
    SHARED = ("ctx->wait.lock", NO_LOCK)

    def __init__(self, report):
        self.values = {(r["op"], r["pending"]): r["value"] for r in report if r["system"] == "locks-one-fd"}
        self.counts = sorted({cpus for _, cpus in self.values})

    def operations(self):
        return [op.removesuffix(" all") for op, cpus in self.values if op.endswith(" all") and cpus == self.counts[0]]

    def value(self, op, cpus=None):
        return self.values.get((op, cpus or self.counts[-1]), 0)

    def busy_ns(self, op, what):
        """How long an operation occupies what all share."""
        lines = self.value(f"{op} {what} lines") * self.LINE_NS
        return lines + (0 if what == NO_LOCK else self.value(f"{op} {what}") * self.INSN_NS)

    def most(self, op):
        """How many CPUs' work one descriptor can do at most, and what limits it."""
        lines = sum(self.value(f"{op} {what} lines") for what in self.SHARED)
        whole = self.value(f"{op} all") * self.INSN_NS + lines * self.LINE_NS
        busy, what = max((self.busy_ns(op, what), what) for what in self.SHARED)
        return (whole / busy, what) if busy else (float("inf"), "")
