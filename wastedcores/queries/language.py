"""The query language: a condition on one event, written as text, as a polars expression.

A query is read by Python's parser, and only what is listed here is accepted: ``and``, ``or``, ``not``, comparisons, ``in``,
``is None``, arithmetic on numbers, the text functions of :data:`METHODS`, columns, constants, and the units ``ns``, ``us``,
``ms`` and ``s``. Nothing of it is executed as Python. A comparison with a value that an event does not have is false, as in
Python, so ``not comm == "cc1"`` is true of an event without a name.
"""

from __future__ import annotations

import ast
import difflib
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from wastedcores.errors import UsageError
from wastedcores.queries.columns import CONDITION, MASK, NUMBER, TEXT, Column, columns_of
from wastedcores.units import UNITS

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
    """Return the end of a sentence about an unknown name: the names that are like it."""
    close = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are {listed(known)}."


#: most characters in a query; for much longer queries, Python's parser takes longer than a person can wait
LONGEST = 4000
#: most levels of nesting in a query; expressions of polars are evaluated recursively
DEEPEST = 200
#: numbers beyond this do not fit the columns
LARGEST = 2**63 - 1
METHODS: dict[str, Callable[[pl.Expr, str], pl.Expr]] = {
    "startswith": lambda column, text: column.str.starts_with(text),
    "endswith": lambda column, text: column.str.ends_with(text),
    "contains": lambda column, text: column.str.contains(text, literal=True),
    "matches": lambda column, text: column.str.contains(text),
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Mod: lambda a, b: a % b,
}
_ORDER: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
}
_MIRRORED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}


@dataclass(frozen=True)
class Query:
    """A query that was understood."""

    text: str  #: the query as it was written
    where: pl.Expr  #: the condition; it is true or false for every event, never null
    columns: frozenset[str]  #: the names of the columns that it uses


@dataclass(frozen=True)
class _Value:
    """A part of a query: its type, its expression, its value if it is a constant, and its column if it is a column."""

    type: str
    expr: pl.Expr
    constant: Any = None
    column: Column | None = None

    @property
    def what(self) -> str:
        return f"the column {self.column.name!r}" if self.column else f"this {self.type}"


def parse(text: str, *, schema: Mapping[str, pl.DataType] | None = None) -> Query:
    """Read a query."""
    if len(text) > LONGEST:
        raise QueryError(LONGEST, f"a query has at most {LONGEST:,} characters.")
    if not text.strip():
        raise QueryError(0, f"there is no query; write one such as {EXAMPLE}.")
    reader = _Reader(text, columns_of(schema))
    for comment in outside_texts("#", reader.line):
        raise QueryError(reader.indent + comment.start(), "a query has no comments.")
    try:
        with warnings.catch_warnings():
            # Python warns of "\d", which is right in a regular expression
            warnings.simplefilter("ignore")
            tree = ast.parse(reader.line, mode="eval")
        if _depth(tree) > DEEPEST:
            raise RecursionError
        condition = reader.condition(tree.body)
    except SyntaxError as e:
        raise syntax_error(reader.line, reader.indent, e) from None
    except (RecursionError, MemoryError):
        raise QueryError(0, "the query is nested too deeply.") from None
    except (ValueError, OverflowError) as e:
        raise QueryError(0, f"it cannot be read ({e}).") from None
    return Query(text, condition, frozenset(reader.used))


class _Reader:
    """Turns the tree of Python's parser into expressions."""

    def __init__(self, text: str, columns: dict[str, Column]) -> None:
        self.indent = len(text) - len(text.lstrip())
        self.line = re.sub(r"[\s\0]", " ", text).strip()
        self.columns = columns
        self.used: set[str] = set()

    def error(self, node: ast.AST, message: str) -> QueryError:
        # Python counts bytes of UTF-8
        before = self.line.encode()[: getattr(node, "col_offset", 0)]
        return QueryError(self.indent + len(before.decode(errors="replace")), message)

    def condition(self, node: ast.expr) -> pl.Expr:
        """Return a part of the query that is true or false."""
        if isinstance(node, ast.BoolOp):
            parts = [self.condition(n) for n in node.values]
            both = isinstance(node.op, ast.And)
            return pl.all_horizontal(parts) if both else pl.any_horizontal(parts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ~self.condition(node.operand)
        if isinstance(node, ast.Compare):
            return self.comparisons(node)
        if isinstance(node, ast.Call):
            return self.call(node)
        if isinstance(node, ast.Constant) and isinstance(node.value, bool):
            return pl.lit(node.value)
        value = self.value(node)
        if value.type == CONDITION:
            return value.expr.fill_null(False)
        raise self.error(
            node, f"{value.what} is no condition; compare it with something, as in {EXAMPLE}."
        )

    def comparisons(self, node: ast.Compare) -> pl.Expr:
        parts, left = [], node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            parts.append(self.comparison(left, operator, right))
            left = right
        return pl.all_horizontal(parts) if len(parts) > 1 else parts[0]

    def comparison(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> pl.Expr:
        if isinstance(operator, ast.In | ast.NotIn):
            found = self.member(left, right)
            return found if isinstance(operator, ast.In) else ~found
        if isinstance(operator, ast.Is | ast.IsNot) and not _is_none(right):
            raise self.error(right, "after is and is not there must be None.")
        if _is_none(right) or _is_none(left):
            if type(operator) in _ORDER:
                raise self.error(right, "None is neither less nor greater than anything.")
            absent = self.value(left if _is_none(right) else right).expr.is_null()
            return absent if isinstance(operator, ast.Is | ast.Eq) else absent.not_()
        a, b = self.value(left), self.value(right)
        self.comparable(left, a, right, b)
        x, y = _texts(a, b, ordered=type(operator) in _ORDER)
        swapped = a.constant is not None
        if swapped:  # polars 2.1 gives a literal before a column of nulls one row
            x, y = y, x
        if isinstance(operator, ast.Eq):
            return x.eq_missing(y)
        if isinstance(operator, ast.NotEq):
            return x.ne_missing(y)
        order = _MIRRORED[type(operator)] if swapped else type(operator)
        return _ORDER[order](x, y).fill_null(False)

    def comparable(self, left: ast.expr, a: _Value, right: ast.expr, b: _Value) -> None:
        """Refuse comparisons that can never be true."""
        for node, value in ((left, a), (right, b)):
            if value.type == MASK:
                raise self.error(node, "a mask of CPUs is asked as in 3 in cpu_mask.")
        if a.type != b.type:
            raise self.error(
                right, f"{a.what} is a {a.type} and is compared with a {b.type}; give a {a.type}."
            )
        for one, other, node in ((a, b, right), (b, a, left)):
            self.known_choice(one, other.constant, node)

    def known_choice(self, column: _Value, constant: Any, node: ast.expr) -> None:
        choices = column.column.choices if column.column else ()
        if choices and isinstance(constant, str) and constant not in choices:
            name = column.column.name if column.column else ""
            raise self.error(
                node, f"there is no {name} {constant!r}{instead_of(constant, choices)}"
            )

    def member(self, left: ast.expr, right: ast.expr) -> pl.Expr:
        if isinstance(right, ast.Tuple | ast.List | ast.Set):
            value = self.value(left)
            if value.type == MASK:
                raise self.error(left, "a mask of CPUs is asked as in 3 in cpu_mask.")
            constants = [self.constant_of(n, value) for n in right.elts]
            given = [c for c in constants if c is not None]
            if value.type == TEXT and given:
                found = value.expr.is_in(given).fill_null(False)
            else:  # whole numbers and fractions may be mixed
                found = pl.any_horizontal(pl.lit(False), *(value.expr.eq_missing(c) for c in given))
            return found | value.expr.is_null() if None in constants else found
        held = self.value(right)
        asked = self.value(left)
        if held.type == MASK and asked.type == NUMBER and isinstance(asked.constant, int):
            return self.in_mask(left, held.expr, asked.constant)
        if held.type == TEXT and asked.type == TEXT and isinstance(asked.constant, str):
            return _plain(held.expr).str.contains(asked.constant, literal=True).fill_null(False)
        raise self.error(
            right,
            'after in there must be a list of values, as in ("a", "b") or ("a",), a text column, or cpu_mask.',
        )

    def in_mask(self, node: ast.expr, mask: pl.Expr, cpu: int) -> pl.Expr:
        if not 0 <= cpu < 1 << 16:
            raise self.error(node, f"{cpu} is no number of a CPU.")
        having = [bytes([b]) for b in range(256) if b >> cpu % 8 & 1]
        return mask.bin.slice(cpu // 8, 1).is_in(having).fill_null(False)

    def constant_of(self, node: ast.expr, column: _Value) -> Any:
        if _is_none(node):
            return None
        value = self.value(node)
        if value.constant is None:
            raise self.error(node, "in a list there can only be constants.")
        if value.type != column.type:
            raise self.error(node, f"{column.what} is a {column.type}, and this is a {value.type}.")
        self.known_choice(column, value.constant, node)
        return value.constant

    def call(self, node: ast.Call) -> pl.Expr:
        method = node.func
        if not isinstance(method, ast.Attribute) or method.attr not in METHODS:
            raise self.error(
                node, f"there are only the functions {listed(METHODS)} of a text column."
            )
        held = self.value(method.value)
        arguments = [self.value(a) for a in node.args]
        if held.type != TEXT or len(arguments) != 1 or node.keywords:
            raise self.error(
                node, f'{method.attr} is asked of one text, as in comm.{method.attr}("k").'
            )
        pattern = arguments[0].constant
        if not isinstance(pattern, str):
            raise self.error(node.args[0], f"{method.attr} needs a text in quotes.")
        if method.attr == "matches":
            self.regular(node.args[0], pattern)
        return METHODS[method.attr](_plain(held.expr), pattern).fill_null(False)

    def regular(self, node: ast.expr, pattern: str) -> None:
        try:
            pl.Series([""]).str.contains(pattern)
        except pl.exceptions.PolarsError:
            raise self.error(node, f"{pattern!r} is no regular expression.") from None

    def value(self, node: ast.expr) -> _Value:
        """Return a part of the query that has a value."""
        if isinstance(node, ast.Constant):
            return self.constant(node)
        if isinstance(node, ast.Name):
            return self.name(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self.number(node.operand)
            return self.made(node, -value.expr, lambda: -value.constant, value)
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            return self.arithmetic(node)
        raise self.error(
            node, "this is not part of the query language; see docs/events.md for what is."
        )

    def constant(self, node: ast.Constant) -> _Value:
        value = node.value
        if isinstance(value, str):
            return _Value(TEXT, pl.lit(value), value)
        if isinstance(value, bool):
            return _Value(CONDITION, pl.lit(value), value)
        if isinstance(value, int | float):
            if not abs(value) <= LARGEST:
                raise self.error(node, "this number is too large; a column has 63 bits.")
            return _Value(NUMBER, pl.lit(value), value)
        raise self.error(node, "a constant is a number, a text in quotes, True, False or None.")

    def name(self, node: ast.Name) -> _Value:
        if node.id in self.columns:
            column = self.columns[node.id]
            self.used.add(column.name)
            return _Value(column.type, pl.col(column.name), column=column)
        if node.id in UNITS:
            return _Value(NUMBER, pl.lit(UNITS[node.id]), UNITS[node.id])
        if any(node.id in c.choices for c in self.columns.values()):
            raise self.error(node, f'write "{node.id}" in quotes.')
        raise self.error(
            node, f"there is no column {node.id!r}{instead_of(node.id, sorted(self.columns))}"
        )

    def number(self, node: ast.expr) -> _Value:
        value = self.value(node)
        if value.type != NUMBER:
            raise self.error(node, f"{value.what} is no number.")
        return value

    def arithmetic(self, node: ast.BinOp) -> _Value:
        a, b = self.number(node.left), self.number(node.right)
        apply = _ARITHMETIC[type(node.op)]
        x, y = _numeric(a.expr), _numeric(b.expr)
        if isinstance(node.op, ast.Div | ast.Mod):
            if b.constant == 0:
                raise self.error(node.right, "nothing can be divided by 0.")
            y = pl.when(y != 0).then(y)  # the result has no value if the divisor is 0
        if isinstance(node.op, ast.Mult | ast.Div):  # a product of times does not fit 63 bits
            x, y = x.cast(pl.Float64), y.cast(pl.Float64)
        return self.made(node, apply(x, y), lambda: apply(a.constant, b.constant), a, b)

    def made(
        self, node: ast.expr, expr: pl.Expr, constant: Callable[[], Any], *of: _Value
    ) -> _Value:
        """Return the result of an operation on numbers; constants are computed at once, so that they stay exact."""
        if any(v.constant is None for v in of):
            return _Value(NUMBER, expr)
        return self.constant(ast.copy_location(ast.Constant(constant()), node))


def _depth(tree: ast.AST) -> int:
    level, depth = [tree], 0
    while level:
        level, depth = [child for node in level for child in ast.iter_child_nodes(node)], depth + 1
    return depth


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _numeric(column: pl.Expr) -> pl.Expr:
    """Widen whole numbers, so that sums of 32-bit columns do not overflow."""
    return column + pl.lit(0, pl.Int64)


def _plain(column: pl.Expr) -> pl.Expr:
    return column.cast(pl.String)


def _texts(a: _Value, b: _Value, *, ordered: bool) -> tuple[pl.Expr, pl.Expr]:
    """Return two operands; categories are compared as texts, except when one is tested for equality with a constant."""
    if a.type != TEXT or (not ordered and (a.constant is None) != (b.constant is None)):
        return a.expr, b.expr
    return _plain(a.expr), _plain(b.expr)
