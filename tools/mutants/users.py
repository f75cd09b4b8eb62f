# SPDX-License-Identifier: GPL-2.0-only
"""What a change of a header can alter: the objects of sources that name what was changed, or what
a header defines by it. All others would be compiled to what they were."""

import re
from functools import lru_cache

import rules

WORD = re.compile(r"[A-Za-z_]\w*")
DEFINE = re.compile(r"^#[ \t]*define[ \t]+(\w+)((?:.*\\\n)*.*)", re.M)


def headers(top):
    return [p for pattern in ("*.h", "core/*.h", "kunit/*.h", "include/**/*.h") for p in top.glob(pattern)]


@lru_cache
def definitions(top):
    """Return what the headers define: {function or macro: names in it}, and the names elsewhere.

    Elsewhere are types, for example. The declaration of a function makes nothing depend on it.
    """
    inside, elsewhere = {}, set()
    for path in headers(top):
        text = path.read_text()
        for found in DEFINE.finditer(text):
            inside.setdefault(found[1], set()).update(WORD.findall(found[2]))
        macros = [(len(text[:found.start()].encode()), len(text[:found.end()].encode()))
                  for found in DEFINE.finditer(text)]
        tokens = list(rules.tokens_of(path))
        bodies = set()
        for name, body in rules.functions(tokens):
            inside.setdefault(name, set()).update(t.text for t in body)
            bodies.update(t.start for t in body)
        for before, t, after in zip([None, *tokens], tokens, [*tokens[1:], None]):
            declares = after and after.text == "(" and before and (before.kind in ("IDENTIFIER", "KEYWORD") or
                                                                   before.text in ("*", ")"))
            if t.start not in bodies and not declares and not any(a <= t.start < b for a, b in macros):
                elsewhere.add(t.text)
    return inside, elsewhere


@lru_cache
def names(top, name):
    """Return the names by which sources may depend on @name, itself included; None for all sources."""
    inside, elsewhere = definitions(top)
    found = {name}
    while more := {n for n, used in inside.items() if n not in found and used & found}:
        found |= more
    return None if found & elsewhere else found


def may_change(top, mutant, source):
    """Can the object of @source be another one with the mutant of a header?"""
    found = names(top, mutant.function)
    return found is None or bool(found & set(WORD.findall((top / source).read_text())))
