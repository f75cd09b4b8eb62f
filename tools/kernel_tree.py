# SPDX-License-Identifier: GPL-2.0-only
"""Kernel sources with this checkout's htw in them, and directories to build kernels in.

What is fetched is shared by all checkouts on a machine, $HTW_CACHE/linux-source-VERSION among it, and
is not changed. What is built from a checkout is in $HTW_CACHE/trees, in a directory of its own.
"""

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("HTW_CACHE", Path.home() / ".cache/htw")).absolute()
TREES = CACHE / "trees"
# As in tools/common.sh.
TREE = TREES / str(TOP)[1:].replace("/", "+")
# What adds drivers/misc/htw to the tree: file, line, and the text that the line precedes.
LINES = (("Kconfig", 'source "drivers/misc/htw/Kconfig"\n', "endmenu\n"),
         ("Makefile", "obj-y\t\t\t\t+= htw/\n", ""))
# Directories of the source whose entries are links: the tree has files of its own below them; and
# one that is copied, because its kunit.py resolves links to find the kernel.
OPEN = ("", "drivers", "drivers/misc", "tools", "tools/testing")
COPIED = "tools/testing/kunit"


class Failed(Exception):
    """A kernel cannot be built."""


def say(*words):
    print(f"{Path(sys.argv[0]).name}:", *words, file=sys.stderr, flush=True)


def source(version="6.12"):
    """Return the directory of a kernel's source, as it was fetched."""
    return CACHE / f"linux-source-{version}"


def tree(version="6.12"):
    """Return the same with htw in it: links to the source, except for what differs."""
    return TREE / f"linux-{version}"


def with_line(text, line, before):
    """Return a file of drivers/misc with one of LINES, which an older htw has put into the source."""
    if line in text:
        return text
    at = text.rindex(before) if before else len(text)
    return text[:at] + line + text[at:]


def link_source(version):
    """Fill tree(), beside it first: another run may have been stopped."""
    new = tree(version).with_name(f"{tree(version).name}.new")
    shutil.rmtree(new, ignore_errors=True)
    for name in OPEN:
        (new / name).mkdir(parents=True)
        for path in (source(version) / name).iterdir():
            inside = path.relative_to(source(version))
            if str(inside) not in (*OPEN, COPIED, "drivers/misc/htw"):
                (new / inside).symlink_to(path)
    shutil.copytree(source(version) / COPIED, new / COPIED, symlinks=True)
    for name, line, before in LINES:
        path = new / "drivers/misc" / name
        text = path.read_text()
        path.unlink()
        path.write_text(with_line(text, line, before))
    # When the source was unpacked, to notice another one in its place.
    (new / ".source").write_text(stamp(version))
    shutil.rmtree(tree(version), ignore_errors=True)
    new.rename(tree(version))


def stamp(version):
    return f"{(source(version) / 'Makefile').stat()}\n"


def has_links(version):
    made = tree(version) / ".source"
    return made.exists() and made.read_text() == stamp(version)


def is_in_tree(version):
    """Return whether tree() has the present state of the checkout."""
    return has_links(version) and not subprocess.run(
        [TOP / "tools/sync", "--dry-run", tree(version) / "drivers/misc/htw"], check=True, stdout=subprocess.PIPE).stdout


def put_in_tree(version):
    """Bring it there, touching only what has changed."""
    if not has_links(version):
        link_source(version)
    subprocess.run([TOP / "tools/sync", tree(version) / "drivers/misc/htw"], check=True, stdout=subprocess.DEVNULL)


def lock_of(path):
    """Open the lock of a directory, which is beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return open(path.with_name(f"lock.{path.name}"), "a+")


def take(lock, how):
    """Take a lock; if it must be waited for, say who has it. Like lock() of tools/common.sh."""
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        say(f"waiting for {lock.read() or 'another process'}, which has {lock.name}")
        fcntl.flock(lock, how)
    lock.truncate(0)
    lock.write(f"process {os.getpid()}, {Path(sys.argv[0]).name} in {TOP}, since {time.strftime('%H:%M')}")
    lock.flush()


@contextlib.contextmanager
def alone(path):
    """Hold the lock of a directory."""
    with lock_of(path) as lock:
        take(lock, fcntl.LOCK_EX)
        yield path


def is_idle(lock):
    """Take the lock of a directory that nobody uses, to read it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def adopt(build, version):
    """Begin a directory to build a kernel in with a copy of another checkout's, if there is one.

    What differs is only htw, so that nothing else is compiled: objects are compiled again if their
    command changes, which names the tree, and that of objtool, for which all others wait, the directory.
    An older htw has built in the cache, from the source itself.
    """
    others = [(CACHE / build.name, source(version)),
              *((other / build.name, other / tree(version).name) for other in TREES.iterdir())]
    others = [(path, linux) for path, linux in others if path.is_dir()]
    for path, linux in sorted(others, key=lambda other: other[0].stat().st_mtime, reverse=True):
        with lock_of(path) as lock:
            if not is_idle(lock):
                continue
            say(f"beginning with a copy of {path}")
            new = build.with_name(f"{build.name}.new")
            shutil.rmtree(new, ignore_errors=True)
            subprocess.run(["cp", "-a", "--reflink=auto", path, new], check=True)
        for command in new.rglob("*.cmd"):
            text = command.read_bytes()
            for old, now in ((linux, tree(version)), (path, build)):
                text = text.replace(bytes(old) + b"/", bytes(now) + b"/")
            command.write_bytes(text)
        new.rename(build)
        return


@contextlib.contextmanager
def building(name, version="6.12"):
    """Yield a directory to build a kernel in from tree(), which the caller has alone.

    Others may build from the tree elsewhere, but cannot change htw in it meanwhile.
    """
    build = TREE / name
    with alone(build), lock_of(tree(version)) as linux:
        if not build.is_dir():
            adopt(build, version)
        build.mkdir(exist_ok=True)
        take(linux, fcntl.LOCK_SH)
        while not is_in_tree(version):
            fcntl.flock(linux, fcntl.LOCK_UN)
            take(linux, fcntl.LOCK_EX)
            put_in_tree(version)
            # Between these two calls another process may take the lock: check again.
            fcntl.flock(linux, fcntl.LOCK_UN)
            take(linux, fcntl.LOCK_SH)
        yield build


@contextlib.contextmanager
def progress(what, minutes, build):
    """Say what is built in @build, and about how long that takes; then each minute how far it is."""
    # Not rglob(): make removes directories meanwhile.
    def count():
        return sum(name.endswith(".o") for _, _, names in os.walk(build) for name in names)

    def watch():
        before = count()
        while not over.wait(60):
            now = count()
            # Nothing is compiled: it has been built, and runs.
            if now == before:
                continue
            say(f"{what}: {now:,} files compiled in {(time.monotonic() - began) / 60:.0f} min")
            before = now

    over, began = threading.Event(), time.monotonic()
    first = not count()
    say(f"{what}: " + (f"the first time about {minutes} min with two CPUs" if first else "what has changed"))
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def options(text):
    """Return the options of a configuration and their values; what comes later overrides."""
    found = re.findall(r"^(?:(CONFIG_\w+)=(.*)|# (CONFIG_\w+) is not set)$", text, re.MULTILINE)
    return {name or unset: value or "n" for name, value, unset in found}


def make(build, arch, targets, configs, linux, minutes=12):
    """Build the kernel of these files of options in @build, which the caller has alone, from @linux."""
    command = ["make", "-s", "-C", linux, f"ARCH={arch}", f"O={build}", f"-j{os.cpu_count()}"]
    wanted = options("\n".join(config.read_text() for config in configs))
    (build / ".config").write_text("".join(f"{name}={value}\n" for name, value in wanted.items()))
    with open(build / "build.log", "w") as log, progress(f"building {build.name}", minutes, build):
        for target in ("olddefconfig", *targets):
            if subprocess.run([*command, target], stdin=subprocess.DEVNULL, stdout=log, stderr=log).returncode:
                raise Failed(f"cannot build the kernel: see {build}/build.log")
            # Kconfig drops without a word what it cannot have.
            has = options((build / ".config").read_text())
            missing = [f"{name}={value}" for name, value in wanted.items() if value not in ("n", has.get(name))]
            if missing:
                raise Failed(f"{linux} cannot have {' '.join(missing)} of {' '.join(map(str, configs))}")
