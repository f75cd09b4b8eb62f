# SPDX-License-Identifier: GPL-2.0-only
"""The unpacked kernel source, with the repository copied to drivers/misc/htw."""

import contextlib
import fcntl
import os
import subprocess
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("HTW_CACHE", Path.home() / ".cache/htw")).absolute()
LINUX = CACHE / "linux-source-6.12"
MISC = LINUX / "drivers/misc"
# What adds drivers/misc/htw to the tree: file, line, and the text that the line precedes.
LINES = (("Kconfig", 'source "drivers/misc/htw/Kconfig"\n', "endmenu\n"),
         ("Makefile", "obj-y\t\t\t\t+= htw/\n", ""))


def is_in_tree():
    """Return whether the tree has the present state of the repository."""
    if (MISC / "htw").is_symlink():
        return False
    differs = subprocess.run([TOP / "tools/sync", "--dry-run", MISC / "htw"], check=True, stdout=subprocess.PIPE).stdout
    return not differs and all(line in (MISC / name).read_text() for name, line, _ in LINES)


def put_in_tree():
    """Copy the repository to drivers/misc/htw, touching only what has changed."""
    if (MISC / "htw").is_symlink():
        (MISC / "htw").unlink()
    subprocess.run([TOP / "tools/sync", MISC / "htw"], check=True, stdout=subprocess.DEVNULL)
    for name, line, before in LINES:
        text = (MISC / name).read_text()
        if line not in text:
            at = text.rindex(before) if before else len(text)
            (MISC / name).write_text(text[:at] + line + text[at:])


@contextlib.contextmanager
def building(name):
    """Yield $HTW_CACHE/NAME, to build a kernel there from the tree with the repository in it.

    The directory is locked for the caller. Others may build from the tree elsewhere, but
    cannot change the repository's copy in it meanwhile.
    """
    build = CACHE / name
    build.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f"lock.{name}", "w") as alone, open(CACHE / "lock.linux-source-6.12", "w") as tree:
        fcntl.flock(alone, fcntl.LOCK_EX)
        fcntl.flock(tree, fcntl.LOCK_SH)
        while not is_in_tree():
            fcntl.flock(tree, fcntl.LOCK_UN)
            fcntl.flock(tree, fcntl.LOCK_EX)
            put_in_tree()
            # Between these two calls another process may take the lock: check again.
            fcntl.flock(tree, fcntl.LOCK_UN)
            fcntl.flock(tree, fcntl.LOCK_SH)
        yield build
