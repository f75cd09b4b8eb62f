# SPDX-License-Identifier: GPL-2.0-only
"""The areas of make check, make check-all and make check-arch.

An area is a command whose last line is "N passed, N failed[, N skipped]"; one that prints anything
else has failed. The longest come first, to keep all CPUs busy.
"""

import collections
import os

from host import ARCH, KERNELS, OTHER_SUITE

# minutes: after so long its processes are ended, and it has failed. Several times what it takes on a
# machine with an empty cache and two CPUs. exact: whatever fails there is a defect (tools/results.py).
Area = collections.namedtuple("Area", "name command minutes exact")
Tier = collections.namedtuple("Tier", "takes deps areas left_out")

X86, UM = "its kernel is for x86", "ARCH=um is for x86"
PC, I386 = "it boots PCs", "its programs are those of i386"
COUNTS = "its budgets are amd64's instructions"
# For areas that write-protect directories or enter other roots.
ROOT = [] if os.geteuid() == 0 else ["sudo", "--non-interactive", "--preserve-env=HOME,HTW_CACHE,HTW_RESULTS,HTW_AREA"]


class Table:
    """Areas as they are added, without those that this machine cannot have."""

    def __init__(self):
        self.areas, self.left_out = [], []

    def add(self, minutes, name, *command, exact=False, amd64="", root=False):
        if amd64 and ARCH != "amd64":
            self.left_out.append(f"{name}: {amd64}")
        else:
            self.areas.append(Area(name, [*(ROOT if root else []), *command], minutes, exact))

    def on_arm64(self, minutes, name, *command):
        """An area that stands for one that is left out there."""
        if ARCH == "arm64":
            self.add(minutes, name, *command)


def make(directory):
    return ["make", "-s", "--no-print-directory", "-C", directory, "check"]


def check():
    t = Table()
    t.add(25, "device-6.12", "tools/device-tests", "--quick", "6.12")
    t.add(35, "kunit-um", "tools/kunit", "um", amd64=UM)
    t.on_arm64(40, "kunit-arm64", "tools/kunit", "arm64")
    t.add(30, "lib", "tools/lib-tests")
    t.add(20, "lint", "tools/lint", exact=True)
    t.add(20, "bench", "tools/bench/run", "--check", exact=True, amd64=COUNTS)
    t.add(15, "bench-wheel", "wheel/bench/run", "--check", exact=True, amd64=COUNTS)
    t.add(20, "torture", "tools/torture/run", "--seconds", "30")
    t.add(30, "build", "tools/build-all", "--quick", exact=True)
    t.add(10, "wheel-states", "wheel/check-states", exact=True)
    t.add(20, "documents", "tools/doc-test")
    deps = ["6.12", "6.1", "7", "build", "clang", "tests", "lib", "kunit", "lint"]
    if ARCH == "amd64":
        deps += ["tests-32", "bench", "wheel-bench"]
    return Tier("8 minutes; 12 with an empty cache", deps, t.areas, t.left_out)


def rest():
    t = Table()
    t.add(100, "kunit-x86_64", "tools/kunit", "x86_64", amd64=X86)
    t.add(30, "packages", "tools/package-test", "bookworm", amd64=PC, root=True)
    t.add(60, "device-6.12-rt", "tools/device-tests", "6.12-rt")
    t.add(30, "device-7", "tools/device-tests", "--quick", "7")
    t.add(30, "device-6.1", "tools/device-tests", "--quick", "6.1")
    t.add(40, "device-6.12-slow", "tools/device-tests", "--slow", "6.12")
    t.add(40, "device-6.12-32", "tools/device-tests", "--32", "6.12", amd64=I386)
    t.add(30, "redis", *make("integrations/redis"))
    t.add(20, "kamailio", *make("integrations/kamailio"))
    t.add(20, "cpp", "tools/cpp-tests")
    t.add(20, "go", *make("integrations/go"))
    t.add(10, "java", *make("integrations/java"))
    t.add(20, "rust", *make("integrations/rust"))
    t.add(20, "models", "tools/model-check", exact=True)
    t.add(50, "wheel-states-all", "wheel/check-states", "all", exact=True)
    t.add(10, "wheel", "wheel/run-tests")
    t.add(10, "wheel-page", "wheel/page/run-tests")
    t.add(15, "install", "tools/install-test", root=True)
    t.add(30, "pages", "tools/page-test", "bookworm", root=True)
    t.add(20, "build-all", "tools/build-all", exact=True)
    t.add(10, "build-clang", "tools/build-all", "--clang", "7", exact=True)
    deps = ["linux-headers", *KERNELS, "build", "clang", "tests", "lib", "wheel", "wheel-page", "models",
            "redis", "kamailio", "cpp", "go", "java", "rust", "roots"]
    if ARCH == "amd64":
        deps += ["kunit", "tests-32", "packages"]
    return Tier("75 minutes", deps, t.areas, t.left_out)


def arch():
    t = Table()
    t.add(90, "kunit-kcsan", "tools/kunit", "kcsan", amd64=X86)
    t.add(90, "kunit-x86_64-7", "tools/kunit", "x86_64-7", amd64=X86)
    for seed, kernel in (("3", "kasan"), ("4", "kcsan")):
        t.add(90, f"torture-{kernel}", "tools/torture/run", "--kernel", kernel, "--seconds", "300", "--seed", seed,
              "--cpus", "4", amd64=X86)
    t.add(30, "torture-stops", "tools/torture/run", "--seconds", "600", "--seed", "2", "--cpus", "4", "--stops")
    # An input that was found is not found again by chance.
    t.add(60, "fuzz", "tools/fuzz", "600", exact=True)
    # trixie-backports have another kernel every few weeks.
    t.add(30, "packages-trixie", "tools/package-test", "trixie", amd64=PC, root=True)
    t.add(120, "device-kasan", "tools/device-tests", "kasan", amd64=X86)
    t.add(60, "kunit-um-7", "tools/kunit", "um-7", amd64=UM)
    t.on_arm64(60, "kunit-arm64-7", "tools/kunit", "arm64-7")
    t.add(60, "kunit-arm64", "tools/kunit", "arm64", amd64="it is in make check")
    t.add(90, "kunit-arm64-64k", "tools/kunit", "arm64-64k")
    t.add(60, "kunit-s390x", "tools/kunit", "s390x")
    t.add(60, "device-7-slow", "tools/device-tests", "--slow", "7")
    t.add(60, "device-6.1-slow", "tools/device-tests", "--slow", "6.1")
    t.add(120, "device-6.1-rt", "tools/device-tests", "6.1-rt")
    t.add(90, f"device-6.12-{OTHER_SUITE}", "tools/device-tests", f"6.12-{OTHER_SUITE}")
    t.add(90, "device-6.12-arm64", "tools/device-tests", "6.12-arm64", amd64="it is device-6.12 of make check")
    t.add(30, "series", "tools/series", "--check", amd64=UM)
    t.add(60, "fail-nth", "tools/fail-nth/run", amd64=X86)
    t.add(90, "kcov-fuzz", "tools/kcov-fuzz/run", amd64=UM)
    t.add(120, "torture-proof", "tools/torture/proof", amd64=UM)
    t.add(60, "tests-proof", "tools/tests/broken/run", amd64=X86)
    t.add(20, "wheel-page-proof", "wheel/page/run-tests", "--proof")
    t.add(40, "wheel-machines", "wheel/on-machines", "all")
    t.add(60, "secure-boot", "tools/secure-boot-test", amd64=PC, root=True)
    t.add(40, "lib-s390x", "tools/lib-tests", "s390x")
    t.add(10, "lib-stalls", "tools/lib-tests", "stalls")
    t.add(60, "pages-trixie", "tools/page-test", "trixie", root=True)
    t.add(180, "host-trixie", "tools/host-test", "--chroot", "trixie", root=True)
    t.add(180, "host-bookworm", "tools/host-test", "--user", "--unprivileged", "bookworm", root=True)
    return Tier("many hours", ["all", "roots"], t.areas, t.left_out)


TIERS = {"": check, "rest": rest, "arch": arch}
