# SPDX-License-Identifier: GPL-2.0-only
"""Tables in documents that are kept equal to a committed report."""

from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent


class Unknown(Exception):
    """A mark that asks for something that is not there."""


def markdown(head, rows):
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "".join("| " + " | ".join(line) + " |\n" for line in (head, rule, *rows))


def keep_equal(paths, rewritten, check, report, command):
    """Rewrite documents, or with check only print those that differ.

    rewritten() returns a document's text as it should be, and the number of its tables and figures.
    Return 1 if a document is wrong, or there is nothing to keep equal, else 0.
    """
    wrong = total = 0
    for path in paths:
        name, text = path.relative_to(TOP), path.read_text()
        try:
            new, found = rewritten(text)
        except Unknown as problem:
            print(f"{name}: {problem}")
            wrong += 1
            continue
        total += found
        if new != text:
            if check:
                wrong += 1
                print(f"{name}: differs from {report}; run {command}")
            else:
                path.write_text(new)
                print(f"{name}: rewritten")
    if not total:
        print(f"no document has a table of {report}")
    return 1 if wrong or not total else 0
