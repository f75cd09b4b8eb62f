# SPDX-License-Identifier: MIT
"""The comparison with other queues, as far as nothing has to be installed for it."""

import subprocess
from pathlib import Path

from server import MODULE

PEERS = Path(__file__).resolve().parent.parent / "bench/peers.py"


def test_of_ours():
    out = subprocess.run([PEERS, "--module", MODULE, "--count", "100", "--pending", "100", "htw"], capture_output=True, text=True,
                         check=True).stdout
    columns = [column.strip() for column in out.splitlines()[-1].split("|")[1:-1]]
    assert columns[:2] == ["htw", "100"]
    # Taken again when its lease has ended, of which a part had gone when the worker was killed.
    assert 0 < float(columns[-1]) < 60
