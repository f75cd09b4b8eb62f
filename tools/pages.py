# SPDX-License-Identifier: GPL-2.0-only
"""What the Markdown pages show: blocks of commands and programs."""

import re


def markdown_blocks(text):
    """Yield (line, language, run, code) of each block."""
    pattern = re.compile(r"^( *)```(\w+)( run)?\n(.*?)^\1```$", re.S | re.M)
    for m in pattern.finditer(text):
        indent = len(m[1])
        code = "".join(line[indent:] for line in m[4].splitlines(True))
        yield text.count("\n", 0, m.start()) + 1, m[2], bool(m[3]), code


def anchor(heading):
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
