"""What is said about a query that cannot be understood: one sentence, with the character that is at fault."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator

from wastedcores.errors import UsageError

EXAMPLE = 'kind == "switch" and cpu < 8'


class QueryError(UsageError):
    """A query cannot be understood; ``position`` is the index of the character that is at fault."""

    def __init__(self, position: int, message: str) -> None:
        self.position = position
        super().__init__(f"Query, character {position + 1}: {message}")


def outside_texts(pattern: str, line: str) -> Iterator[re.Match[str]]:
    """Find the matches of a pattern that are not inside quotes."""
    quoted = r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|"""
    return (found for found in re.finditer(quoted + pattern, line) if found[1] is None)


def syntax_error(line: str, indent: int, error: SyntaxError) -> QueryError:
    """Turn an error of Python's parser into a sentence about queries."""
    at = min(error.offset - 1, len(line)) if error.offset else len(line)  # 0: where the text ends
    for found in outside_texts(r"&&|\|\||!(?!=)|(?<![=<>!])=(?!=)", line):
        instead = {"&&": "and", "||": "or", "!": "not", "=": "=="}[found[0]]
        return QueryError(indent + found.start(), f"write {instead} instead of {found[0]}.")
    said = str(error.msg).partition(". ")[0].partition(" (")[0]
    if said == "invalid syntax":
        rest = line[at:].strip()
        said = f"{rest.split()[0]!r} is not expected here" if rest else "something is missing here"
    return QueryError(indent + at, f"{said}; a query looks like {EXAMPLE}.")


def listed(names: Iterable[str]) -> str:
    """Return names with commas, and "and" before the last one."""
    *most, last = names
    return f"{', '.join(most)} and {last}"


def instead_of(name: str, known: Iterable[str]) -> str:
    """Return how a sentence about an unknown name ends."""
    close = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are {listed(known)}."
