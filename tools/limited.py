# SPDX-License-Identifier: GPL-2.0-only
"""Commands that have a limit of time, and say where they stood when they are ended."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

from results import one_line

# How long a process may take to end its own VMs and files.
GRACE = 20


def members(session, mark):
    """Return the processes of a session, and those in others with a mark in their environment: (pid, words)."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text(errors="replace")
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
            ours = int(stat.rpartition(")")[2].split()[3]) == session or mark in (entry / "environ").read_bytes()
        except OSError:
            continue
        if ours and words:
            found.append((int(entry.name), words))
    return found


def kill(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
    except PermissionError:
        # It was run by sudo.
        subprocess.run(["sudo", "--non-interactive", "kill", f"-{int(number)}", str(pid)], stderr=subprocess.DEVNULL,
                       check=False)


def last_lines(path, number=8):
    try:
        lines = Path(path).read_text(errors="replace").splitlines()
    except OSError as problem:
        return [str(problem)]
    return [line.rstrip("\r")[:160] for line in lines if line.strip()][-number:]


class Command:
    """A command that runs in a session of its own, with its output in a file.

    Python programs in it print where they are when they get SIGABRT. What is ended has the status of
    timeout(1), whatever it says itself. env(1) says why a command cannot be run, and fails.
    """

    running = set()

    def __init__(self, words, log, seconds, env=(), cwd=None):
        self.words, self.log, self.limit = words, Path(log), seconds
        self.began, self.ended, self.status, self.stood = time.monotonic(), None, None, []
        self._mark = f"HTW_COMMAND_{os.getpid()}_{time.monotonic_ns()}"
        with open(self.log, "wb") as output:
            self._process = subprocess.Popen(
                ["env", *words], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True, cwd=cwd, env={**os.environ, "PYTHONFAULTHANDLER": "1", self._mark: "1", **dict(env)})
        Command.running.add(self)

    def _members(self):
        return members(self._process.pid, f"{self._mark}=".encode())

    def text(self):
        """Return its output, or why that cannot be read."""
        try:
            return self.log.read_text(errors="replace")
        except OSError as problem:
            return str(problem)

    def seconds(self):
        return int((self.ended or time.monotonic()) - self.began)

    def is_over(self):
        """Return whether it has ended, after ending it if its time is up."""
        if self.ended is None:
            self.status = self._process.poll()
            if self.status is None and self.seconds() >= self.limit:
                self.end()
            elif self.status is not None:
                self._over()
        return self.ended is not None

    def wait(self):
        try:
            self.status = self._process.wait(max(0.0, self.limit - (time.monotonic() - self.began)))
            self._over()
        except subprocess.TimeoutExpired:
            self.end()
        return self.status

    def _over(self):
        self.ended = time.monotonic()
        Command.running.discard(self)

    @staticmethod
    def end_all(*signals):
        """End all commands; on a signal the program as well."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        for command in list(Command.running):
            command.end()
        if signals:
            os._exit(130)

    def end(self):
        """End all of its processes, and note where they stood."""
        running = self._members()
        self.stood = [f"ended after {self.seconds()} s, its limit; it stood at:"]
        for _, words in running:
            self.stood.append(f"  {one_line(' '.join(words))[:140]}")
            if "qemu-system" in words[0] and (console := re.search(r"file,id=log,path=(\S+)", " ".join(words))):
                self.stood += [f"    | {line}" for line in last_lines(console[1])]
        # SIGABRT ends them, too; a SIGTERM that comes before they run would end them without a word.
        printing = {pid for pid, words in running if "python" in words[0]}
        # Programs first, then the scripts that wait for them.
        for pid, _ in reversed(running):
            kill(pid, signal.SIGABRT if pid in printing else signal.SIGTERM)
            # One may be stopped.
            kill(pid, signal.SIGCONT)
        over = time.monotonic() + GRACE
        while time.monotonic() < over:
            left = self._members()
            if self._process.poll() is not None and printing.isdisjoint(pid for pid, _ in left):
                break
            for pid, _ in left:
                if pid not in printing or time.monotonic() > over - GRACE / 2:
                    kill(pid, signal.SIGTERM)
            time.sleep(0.2)
        for pid, _ in self._members():
            kill(pid, signal.SIGKILL)
        try:
            self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self.stood.append("  it cannot be ended")
        self.status = 124
        self._over()
        with open(self.log, "a", encoding="utf-8") as log:
            log.write("\n".join(["", *self.stood, ""]))
