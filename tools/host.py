# SPDX-License-Identifier: GPL-2.0-only
"""The architecture of this machine."""

import subprocess
import sys
from pathlib import Path

# Debian's name of it.
ARCH = subprocess.run(["dpkg", "--print-architecture"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def need_amd64(reason):
    """End the program if this machine has another architecture."""
    if ARCH != "amd64":
        sys.exit(f"{Path(sys.argv[0]).name}: this needs a machine with amd64: {reason}")
