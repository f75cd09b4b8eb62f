# SPDX-License-Identifier: GPL-2.0-only
"""The small wrong changes that tools/mutate makes, as rules over the tokens of a C file.

libclang finds the tokens. Changes are made in functions, and to the numbers in #define. Each is
the kind of mistake that compiles: a comparison that is off by one, a wrong number, a missing
call, lock or barrier. What only checks or helps (assertions, tracepoints, prefetches) is left
alone: no test of results can find it missing.
"""

import re
from dataclasses import dataclass

import clang.cindex as cindex

SWAP = {
    "compare": {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="},
    "logic": {"&&": "||", "||": "&&"},
    "arithmetic": {"+": "-", "-": "+", "+=": "-=", "-=": "+=", "++": "--", "--": "++",
                   "/": "*", "%": "/", "<<": ">>", ">>": "<<", "&": "|", "|": "&",
                   "|=": "=", "&=": "="},
    "constant": {"true": "false", "false": "true"},
    "name": {"min": "max", "max": "min", "min_t": "max_t", "max_t": "min_t",
             "list_add": "list_add_tail", "list_add_tail": "list_add"},
    "barrier": {"atomic_read_acquire": "atomic_read", "clear_bit_unlock": "clear_bit",
                "atomic_set_release": "atomic_set"},
}
# Those with the address of what they access: without the barrier it is the access itself.
UNORDERED = {"smp_load_acquire": "READ_ONCE", "smp_store_release": "WRITE_ONCE"}
# Operators that also exist with one operand: they have two after one of these.
BINARY = {"+", "-", "&"}
BARRIER = re.compile(r"(smp_\w*mb\w*|barrier|synchronize_rcu\w*)$")
LOCK = re.compile(r"(\w*_)?(un)?lock(_\w+)?$|local_bh_(dis|en)able$|preempt_(dis|en)able$|guard$")
UNLOCK = {"lock": "unlock", "disable": "enable"}
# Calls without effect on what a program or another module can see.
QUIET = re.compile(r"(trace_\w+|lockdep_\w+|prefetchw?|might_sleep|might_lock\w*|cond_resched|WARN\w*|"
                   r"BUILD_BUG_ON\w*|static_assert|cpu_relax|touch_\w+|pr_\w+|instrument_\w+|htw_delay(_atomic)?)$")
NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|0|[1-9]\d*)([uUlL]*)$")
ASSIGN = {"=", "+=", "-=", "|=", "&=", "<<=", ">>=", "*=", "/=", "^="}


@dataclass(frozen=True)
class Mutant:
    """One wrong change. Edits are (start, end, text) in bytes of the file."""

    file: str
    function: str
    line: int
    rule: str
    edits: tuple

    def apply(self, source):
        for start, end, text in sorted(self.edits, reverse=True):
            source = source[:start] + text.encode() + source[end:]
        return source

    def diff(self, source):
        """Return the changed lines, as "-old" and "+new"."""
        old, new = (s.decode().split("\n") for s in (source, self.apply(source)))
        return [line for a, b in zip(old, new) if a != b for line in (f"-{a}", f"+{b}")]


@dataclass
class Token:
    text: str
    kind: str
    line: int
    column: int
    start: int
    end: int


def tokens_of(path):
    unit = cindex.Index.create().parse(str(path), args=["-x", "c"],
                                       options=cindex.TranslationUnit.PARSE_INCOMPLETE)
    for t in unit.get_tokens(extent=unit.cursor.extent):
        if t.kind != cindex.TokenKind.COMMENT:
            yield Token(t.spelling, t.kind.name, t.location.line, t.location.column,
                        t.extent.start.offset, t.extent.end.offset)


def functions(tokens):
    """Yield the name and the tokens of the body of each function.

    In the kernel's style only a function's braces are in the first column.
    """
    begin = None
    for i, t in enumerate(tokens):
        if t.column == 1 and t.text == "{" and i and tokens[i - 1].text == ")":
            begin = i
        elif t.column == 1 and t.text == "}" and begin is not None:
            at = matching(tokens, begin - 1)
            yield tokens[at - 1].text, tokens[begin:i + 1]
            begin = None


def matching(tokens, at):
    """Return where the other parenthesis of the pair is of which one is at @at."""
    step = 1 if tokens[at].text == "(" else -1
    depth = 0
    while True:
        depth += {"(": 1, ")": -1}.get(tokens[at].text, 0)
        if not depth:
            return at
        at += step


def number(text):
    """Return the numbers to put in place of a literal."""
    found = NUMBER.match(text)
    if not found:
        return []
    value = int(found[1], 0)
    return [f"{value + d}{found[2]}" for d in (1, -1) if value + d >= 0]


def lines_of(tokens):
    """Yield the changes of single tokens: (rule, token, text)."""
    for i, t in enumerate(tokens):
        before = tokens[i - 1] if i else None
        after = tokens[i + 1].text if i + 1 < len(tokens) else ""
        two = before and (before.kind in ("IDENTIFIER", "LITERAL") or before.text in (")", "]"))
        if t.kind == "LITERAL":
            for text in number(t.text):
                yield "constant", t, text
        if t.text == "!":
            yield "logic", t, ""
        for rule, swap in SWAP.items():
            if t.text not in swap or (t.text in BINARY and not two):
                continue
            if rule in ("name", "barrier") and after != "(":
                continue
            yield rule, t, swap[t.text]


def statements(tokens):
    """Yield the simple statements of a function, as lists of tokens that end with ";"."""
    i = 0
    while i < len(tokens):
        before = tokens[i - 1].text if i else ""
        starts = before in (";", "{", "}", "else", "do", ":")
        if before == ")":
            at = matching(tokens, i - 1)
            word = tokens[at - 1].text
            starts = word in ("if", "while", "for", "switch") or "for_each" in word
        if starts and tokens[i].kind in ("IDENTIFIER", "KEYWORD") or starts and tokens[i].text == "*":
            end, depth = i, 0
            while end < len(tokens) and (depth or tokens[end].text not in (";", "{", "}")):
                depth += {"(": 1, ")": -1, "[": 1, "]": -1}.get(tokens[end].text, 0)
                end += 1
            if end < len(tokens) and tokens[end].text == ";":
                yield tokens[i:end + 1]
        i += 1


def spell(tokens):
    return " ".join(t.text for t in tokens)


def call_of(statement):
    """Return the name and arguments of a statement that is only a call."""
    if len(statement) < 4 or statement[0].kind != "IDENTIFIER" or statement[1].text != "(":
        return None, None
    end = matching(statement, 1)
    name = statement[0].text
    if name == "guard" and statement[end + 1].text == "(":
        end = matching(statement, end + 1)
    return (name, spell(statement[2:end])) if end == len(statement) - 2 else (None, None)


def drop(statement):
    return (statement[0].start, statement[-1].end, "{}")


def is_store(statement):
    """Is it an assignment to something that exists already?"""
    if statement[0].kind == "KEYWORD" or len(statement) < 4:
        return False
    if statement[1].kind == "IDENTIFIER" or statement[1].text == "*":
        return False
    depth = 0
    for t in statement:
        depth += {"(": 1, ")": -1, "[": 1, "]": -1}.get(t.text, 0)
        if not depth and t.text in ASSIGN:
            return True
    return False


def drops(body):
    """Yield the changes that drop statements: (rule, line, edits)."""
    found = list(statements(body))
    calls = [(s, *call_of(s)) for s in found]
    for statement, name, args in calls:
        if name:
            if QUIET.match(name):
                continue
            rule = "barrier" if BARRIER.match(name) else "lock" if LOCK.match(name) else "call"
            yield rule, statement[0].line, [drop(statement)]
            # The lock is not taken at all.
            for word, inverse in UNLOCK.items():
                other = name.replace(word, inverse)
                pair = [s for s, n, a in calls if n == other and a.split(" , ")[0] == args.split(" , ")[0]]
                if rule == "lock" and f"un{word}" not in name and other != name and pair:
                    yield "lock", statement[0].line, [drop(s) for s in (statement, *pair)]
        elif is_store(statement):
            yield "store", statement[0].line, [drop(statement)]
        elif statement[0].text in ("break", "continue"):
            yield "jump", statement[0].line, [drop(statement)]
        elif spell(statement).startswith("return - E"):
            yield "errno", statement[0].line, [(statement[1].start, statement[-1].end, "0;")]


def accesses(body):
    """Yield the ordered accesses without their order: (rule, line, edits)."""
    for t, after in zip(body, body[1:]):
        if t.text in UNORDERED and after.text == "(":
            yield "barrier", t.line, [(t.start, t.end, UNORDERED[t.text]), (after.end, after.end, "*")]


def conditions(body):
    """Yield each condition turned round: (rule, line, edits)."""
    for i, t in enumerate(body):
        if t.text == "if" and body[i + 1].text == "(":
            end = matching(body, i + 1)
            yield "condition", t.line, [(body[i + 1].start, body[end].end,
                                         None)]


def mutants(top, file):
    """Return all mutants of a file."""
    path = top / file
    source = path.read_bytes()
    tokens = list(tokens_of(path))
    result = []

    def add(function, rule, line, edits):
        edits = [(a, b, f"(!{source[a:b].decode()})" if text is None else text) for a, b, text in edits]
        # Lines stay where they are.
        edits = tuple((a, b, text + "\n" * (source[a:b].count(b"\n") - text.count("\n"))) for a, b, text in edits)
        result.append(Mutant(str(file), function, line, rule, edits))

    for name, body in functions(tokens):
        quiet = {t.start for s in statements(body) if QUIET.match(call_of(s)[0] or "") for t in s}
        for rule, t, text in lines_of(body):
            if t.start not in quiet:
                add(name, rule, t.line, [(t.start, t.end, text)])
        for rule, line, edits in (*drops(body), *accesses(body), *conditions(body)):
            add(name, rule, line, edits)
    for line, found in defines(tokens):
        for t in found[3:]:
            for text in number(t.text) if t.kind == "LITERAL" else []:
                add(found[2].text, "constant", line, [(t.start, t.end, text)])
    return result


def defines(tokens):
    """Yield the tokens of each #define of a constant."""
    for i, t in enumerate(tokens):
        if t.text == "#" and t.column == 1 and tokens[i + 1].text == "define":
            name, value = tokens[i + 2], tokens[i + 3]
            if value.line != t.line or value.start == name.end:
                continue
            end = i
            while end < len(tokens) and tokens[end].line == t.line:
                end += 1
            yield t.line, tokens[i:end]
