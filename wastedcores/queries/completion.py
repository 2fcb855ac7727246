"""Completion: what can follow the beginning of a query."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from wastedcores.queries.columns import MASK, NUMBER, TEXT, Column, columns_of
from wastedcores.queries.language import METHODS
from wastedcores.units import UNITS

_OPERATORS = {
    NUMBER: ("==", "!=", "<", "<=", ">", ">=", "in (", "is None", "not in ("),
    TEXT: ("==", "!=", "in (", "is None", "not in ("),
    MASK: ("is None",),
}
_STRING = re.compile(r"""(?P<quote>["'])(?P<begun>[^"']*)$""")
_COLUMN_BEFORE = re.compile(r"""([A-Za-z_]\w*)\s*(?:==|!=|(?:not\s+)?in\s*\((?:[^()]*,)?)\s*$""")


def complete(
    begun: str,
    *,
    columns: Mapping[str, Column] | None = None,
    values: Mapping[str, Iterable[str]] | None = None,
) -> list[str]:
    """Return continuations of the beginning of a query."""
    known = columns_of() if columns is None else columns
    inside = _STRING.search(begun) if begun.count('"') % 2 or begun.count("'") % 2 else None
    if inside:
        return _texts(begun, inside, known, values or {})
    method = re.search(r"([A-Za-z_]\w*)\.(\w*)$", begun)
    if method:
        head = begun[: method.start(2)]
        fits = method[1] in known and known[method[1]].type == TEXT
        return [f'{head}{m}("' for m in METHODS if fits and m.startswith(method[2])]
    word = re.search(r"[A-Za-z_]\w*$", begun)
    head, start = (begun[: word.start()], word[0]) if word else (begun, "")
    if start in known:
        return [f"{begun} {o}" for o in _OPERATORS.get(known[start].type, ())]
    before = head.rstrip()
    last = re.search(r"([A-Za-z_]\w*)$", before)
    if last and last[1] in known:  # a column and a space
        operators = _OPERATORS.get(known[last[1]].type, ())
        return [f"{before} {o}" for o in operators if o.startswith(start)]
    # the end of a comparison
    if re.search(r"""["')\]]\s*$|(\d|None|\b(?:ns|us|ms|s))\s+$""", head):
        return [f"{before} {o} " for o in ("and", "or") if o.startswith(start)]
    if re.search(r"\d\s*\*?\s*$", head) and start:
        return [f"{head}{u}" for u in UNITS if u.startswith(start)]
    if before.endswith(("==", "!=")):
        column = re.search(r"([A-Za-z_]\w*)\s*[=!]=$", before)
        if column and column[1] in known and known[column[1]].type == TEXT and not start:
            return [f"{before} {t}" for t in _quoted(known[column[1]], values or {})]
        return []
    return [f"{head}{n}" for n in (*known, "not ") if n.startswith(start)]


def _texts(
    begun: str, inside: re.Match[str], known: Mapping[str, Column], values: Mapping[str, Iterable[str]]
) -> list[str]:  # fmt: skip
    column = _COLUMN_BEFORE.search(begun[: inside.start()])
    if not column or column[1] not in known:
        return []
    quote, start = inside["quote"], inside["begun"]
    choices = known[column[1]].choices or tuple(values.get(column[1], ()))
    head = begun[: inside.start()]
    return [f"{head}{quote}{c}{quote}" for c in choices if c.startswith(start) and quote not in c]


def _quoted(column: Column, values: Mapping[str, Iterable[str]]) -> list[str]:
    return [
        f'"{c}"' for c in (column.choices or tuple(values.get(column.name, ()))) if '"' not in c
    ]
