# SPDX-License-Identifier: GPL-2.0-only
"""A kernel of ARCH=um, linked with other objects of htw than its own.

It is built once. What changes from then on is only htw: its objects are compiled by the commands
that the kernel was built with, from a copy of the sources, and linked with the rest in a second.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from kernel_tree import TOP, progress, tree

HTW = "drivers/misc/htw"
BOOT = ["mem=1G", "console=tty", "kunit.enable=1", "kunit_shutdown=halt", "time-travel=inf-cpu"]


def kunit_kernel(build, *configs):
    """Return the kernel as kunit.py builds it with these files of options."""
    with progress(f"building {build.name}", 12, build):
        subprocess.run(
            [sys.executable, tree() / "tools/testing/kunit/kunit.py", "build", "--arch=um",
             f"--build_dir={build}", f"--jobs={os.cpu_count()}",
             *(f"--kunitconfig={TOP}/kunit/{name}.kunitconfig" for name in configs)],
            check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    return Kernel(build, tree())


class Kernel:
    """A kernel that has been built, and how it is compiled and linked."""

    def __init__(self, build, tree):
        self.build, self.tree = build, tree
        self.link = self.link_command()
        members = subprocess.run(["ar", "t", "vmlinux.a"], cwd=self.build, stdout=subprocess.PIPE, text=True, check=True)
        self.members = members.stdout.split()

    def link_command(self):
        """Learn how the kernel is linked, to do only that for a mutant: link it once more."""
        with tempfile.TemporaryDirectory() as tmp:
            log, shim = Path(tmp) / "log", Path(tmp) / "gcc"
            # Linux 7 links the first, and makes the other one of it.
            names = ("vmlinux.unstripped", "vmlinux")
            outputs = "|".join(f"*' -o {name} '*" for name in names)
            shim.write_text("#!/bin/sh\n"
                            f"case \" $* \" in {outputs}) printf '%s\\n' \"$@\" >{shlex.quote(str(log))} ;; esac\n"
                            f"exec {shutil.which('gcc')} \"$@\"\n")
            shim.chmod(0o755)
            for name in names:
                (self.build / name).unlink(missing_ok=True)
            subprocess.run(["make", "-s", "ARCH=um", f"O={self.build}", "vmlinux"], cwd=self.tree, check=True,
                           env={**os.environ, "PATH": f"{tmp}:{os.environ['PATH']}"},
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            return ["gcc", *log.read_text().splitlines()]

    def commands(self, file=""):
        """Yield htw's objects and their commands; of those compiled from a source, or with a header."""
        for name in self.members:
            if not name.startswith(f"{HTW}/"):
                continue
            text = (self.build / name).with_name(f".{Path(name).name}.cmd").read_text()
            found = re.match(r"(?:saved)?cmd_\S+ := (.*)", text)
            if not file or re.search(rf"{HTW}/(\w+/\.\./)?{re.escape(file)}(\s|$)", text):
                yield name, found[1].replace("$(pound)", "#").replace("$$", "$")


class Copy:
    """A copy of the sources of htw, to compile and link them with a kernel."""

    def __init__(self, directory, kernel):
        self.kernel, self.dir = kernel, directory
        self.htw = directory / "htw"
        self.htw.mkdir(parents=True, exist_ok=True)
        subprocess.run([TOP / "tools/sync", self.htw], check=True, stdout=subprocess.DEVNULL)

    def run(self, command):
        return subprocess.run(command, cwd=self.kernel.build, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, shell=isinstance(command, str)).returncode

    def compile(self, name, command, flags):
        """Compile an object of the kernel from our copy of the sources; return its file."""
        own = self.dir / "objects" / name
        own.parent.mkdir(parents=True, exist_ok=True)
        own.unlink(missing_ok=True)
        for tree in {self.kernel.tree, self.kernel.tree.resolve()}:
            command = command.replace(str(tree / HTW), str(self.htw))
        command = command.replace(f"-o {name}", f"-o {own} {flags}")
        command = re.sub(r"-Wp,-MMD,\S+", "", command)
        return own if self.run(command) == 0 else None

    def link(self, objects, *flags):
        """Link the kernel with these in place of its own; it is in @dir/linux."""
        words = []
        for word in self.kernel.link:
            words += [str(objects.get(m, m)) for m in self.kernel.members] if word == "vmlinux.a" else [word]
        words[words.index("-o") + 1] = str(self.dir / "linux")
        return self.run([*words, *flags]) == 0
