# SPDX-License-Identifier: GPL-2.0-only
"""The unpacked kernel sources, with the repository copied to drivers/misc/htw."""

import contextlib
import fcntl
import os
import re
import subprocess
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("HTW_CACHE", Path.home() / ".cache/htw")).absolute()
# What adds drivers/misc/htw to the tree: file, line, and the text that the line precedes.
LINES = (("Kconfig", 'source "drivers/misc/htw/Kconfig"\n', "endmenu\n"),
         ("Makefile", "obj-y\t\t\t\t+= htw/\n", ""))


class Failed(Exception):
    """A kernel cannot be built."""


def source(version="6.12"):
    """Return the directory of a kernel's source."""
    return CACHE / f"linux-source-{version}"


def is_in_tree(misc):
    """Return whether the tree has the present state of the repository."""
    if (misc / "htw").is_symlink():
        return False
    differs = subprocess.run([TOP / "tools/sync", "--dry-run", misc / "htw"], check=True, stdout=subprocess.PIPE).stdout
    return not differs and all(line in (misc / name).read_text() for name, line, _ in LINES)


def put_in_tree(misc):
    """Copy the repository to drivers/misc/htw, touching only what has changed."""
    if (misc / "htw").is_symlink():
        (misc / "htw").unlink()
    subprocess.run([TOP / "tools/sync", misc / "htw"], check=True, stdout=subprocess.DEVNULL)
    for name, line, before in LINES:
        text = (misc / name).read_text()
        if line not in text:
            at = text.rindex(before) if before else len(text)
            (misc / name).write_text(text[:at] + line + text[at:])


@contextlib.contextmanager
def building(name, version="6.12"):
    """Yield $HTW_CACHE/NAME, to build a kernel there from source() with the repository in it.

    The directory is locked for the caller. Others may build from the tree elsewhere, but
    cannot change the repository's copy in it meanwhile.
    """
    build = CACHE / name
    build.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f"lock.{name}", "w") as alone, open(CACHE / f"lock.{source(version).name}", "w") as tree:
        fcntl.flock(alone, fcntl.LOCK_EX)
        fcntl.flock(tree, fcntl.LOCK_SH)
        misc = source(version) / "drivers/misc"
        while not is_in_tree(misc):
            fcntl.flock(tree, fcntl.LOCK_UN)
            fcntl.flock(tree, fcntl.LOCK_EX)
            put_in_tree(misc)
            # Between these two calls another process may take the lock: check again.
            fcntl.flock(tree, fcntl.LOCK_UN)
            fcntl.flock(tree, fcntl.LOCK_SH)
        yield build


def options(text):
    """Return the options of a configuration and their values; what comes later overrides."""
    found = re.findall(r"^(?:(CONFIG_\w+)=(.*)|# (CONFIG_\w+) is not set)$", text, re.MULTILINE)
    return {name or unset: value or "n" for name, value, unset in found}


def make(build, arch, targets, configs, version="6.12"):
    """Build the kernel of these files of options in @build, as building() yields it."""
    command = ["make", "-s", "-C", source(version), f"ARCH={arch}", f"O={build}", f"-j{os.cpu_count()}"]
    wanted = options("\n".join(config.read_text() for config in configs))
    (build / ".config").write_text("".join(f"{name}={value}\n" for name, value in wanted.items()))
    with open(build / "build.log", "w") as log:
        for target in ("olddefconfig", *targets):
            if subprocess.run([*command, target], stdin=subprocess.DEVNULL, stdout=log, stderr=log).returncode:
                raise Failed(f"cannot build the kernel: see {build}/build.log")
            # Kconfig drops without a word what it cannot have.
            has = options((build / ".config").read_text())
            missing = [f"{name}={value}" for name, value in wanted.items() if value not in ("n", has.get(name))]
            if missing:
                raise Failed(f"{source(version)} cannot have {' '.join(missing)} of {' '.join(map(str, configs))}")
