# SPDX-License-Identifier: GPL-2.0-only
"""The architecture of this machine, and the kernels of its tests."""

import platform
import subprocess
import sys
from pathlib import Path

# The same as in tools/common.sh: Debian's name of the architecture, the other suite than this
# machine's, and the kernels that the module is tested on.
ARCH = subprocess.run(["dpkg", "--print-architecture"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
OTHER_SUITE = "bookworm" if platform.freedesktop_os_release().get("VERSION_CODENAME") == "trixie" else "trixie"
KERNELS = ["6.1", "6.1-rt", "6.12", "6.12-rt", f"6.12-{OTHER_SUITE}", *(["6.12-arm64"] if ARCH == "amd64" else []), "7"]


def need_amd64(reason):
    """End the program if this machine has another architecture."""
    if ARCH != "amd64":
        sys.exit(f"{Path(sys.argv[0]).name}: this needs a machine with amd64: {reason}")
