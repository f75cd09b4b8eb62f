# SPDX-License-Identifier: GPL-2.0-only
"""The unpacked kernel source, in which the repository is drivers/misc/htw."""

import os
import subprocess
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("HTW_CACHE", Path.home() / ".cache/htw")).absolute()
LINUX = CACHE / "linux-source-6.12"
# The source tree and the build directories are for one run at a time.
LOCK = CACHE / "lock.kunit"


def put_in_tree():
    """Makes the repository drivers/misc/htw; touches what changed, no more."""
    misc = LINUX / "drivers/misc"
    if (misc / "htw").is_symlink():
        (misc / "htw").unlink()
    subprocess.run([TOP / "tools/sync", misc / "htw"], check=True)
    for name, old, new in (
        ("Kconfig", "endmenu\n", 'source "drivers/misc/htw/Kconfig"\nendmenu\n'),
        ("Makefile", "", "obj-y\t\t\t\t+= htw/\n"),
    ):
        text = (misc / name).read_text()
        if "htw/" not in text:
            text = text[: text.rindex(old)] + new if old else text + new
            (misc / name).write_text(text)
