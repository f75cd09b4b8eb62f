# SPDX-License-Identifier: MIT
"""The module on /dev/htw, in a VM: this machine's kernel may not have it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from server import MODULE, PROGRAM, ROOT

TOP = Path(__file__).resolve().parent.parent.parent.parent
# Of tools/vm/run: the emulator died, or the VM did not boot.
NOT_RUN_STATUS = 125


def libraries(*programs):
    """Return the files that the dynamic linker maps for the programs, and the linker."""
    enter = ["chroot", ROOT] if ROOT else []
    found = set()
    for program in programs:
        out = subprocess.run([*enter, "ldd", program], check=True, capture_output=True, text=True).stdout
        found.update(ROOT + path for path in re.findall(r"(/\S+) \(0x", out))
    return sorted(found)


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What the VM's script prints, as a list of lines."""
    # The server's client is beside it. Both get the names that the script calls: what the server is
    # depends on it, and Debian's redis-tools has it under another one.
    client = next(Path(PROGRAM).with_name(name) for name in ("redis-cli", "valkey-cli")
                  if Path(ROOT + PROGRAM).with_name(name).exists())
    directory = tmp_path_factory.mktemp("device")
    programs = [shutil.copy(ROOT + PROGRAM, directory / "redis-server"),
                shutil.copy(f"{ROOT}{client}", directory / "redis-cli")]
    # The module needs no library that the server does not need.
    files = [*programs, MODULE, Path(__file__).with_name("guest.sh"), *libraries(PROGRAM, client)]
    options = [word for file in files for word in ("--file", str(file))]
    for attempt in (1, 2, 3):
        ran = subprocess.run([TOP / "tools/vm/run", "--mem", "2G", "--timeout", "600", *options, "--", "sh", "./guest.sh"],
                             stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        print(ran.stdout, ran.stderr)
        if ran.returncode != NOT_RUN_STATUS:
            break
        print(f"attempt {attempt} of 3")
    assert ran.returncode != NOT_RUN_STATUS, "NOT RUN: the emulator died, or the VM did not boot, three times"
    assert ran.returncode == 0, "the VM failed"
    return ran.stdout.splitlines()


def test_device(printed):
    """The backend is the device; each timeout is delivered, once, also over a crash."""
    assert printed[0] == "backend device"
    assert "cancelled 1" in printed
    assert printed.count("added 1000") == 1 and printed.count("added 400") == 1
    assert "delivered 1000 different 1000" in printed
    assert "delivered 400 different 400" in printed


def test_keys_on_the_device(printed):
    """Keys with a TTL are deleted when due, and the server ends without a timer left."""
    assert "keys left: 0" in printed
    assert printed[-1] == "ended 0"
