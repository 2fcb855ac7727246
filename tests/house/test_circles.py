"""Inside a room, too, no module imports another that imports it, except where two things are one; these circles are listed."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator
from functools import cache

import pytest
from support import ROOT

MODULES = {
    ".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p
    for package in ROOT.glob("wastedcores*/")
    for p in package.rglob("*.py")
}
#: an import inside a function that closes a circle -> why the two are one thing
ONE_THING = {
    (
        "wastedcores.topology.machine",
        "wastedcores.topology.sysfs",
    ): "a machine has constructors for everything that describes one",
    ("wastedcores.topology.machine", "wastedcores.topology.presets"): "the same",
    ("wastedcores.topology.machine", "wastedcores.topology.describe"): "the same",
}


@cache
def imported(name: str) -> frozenset[tuple[str, bool]]:
    """The modules that a module imports when it runs, and whether only inside of a function."""
    return frozenset(_imports(ast.parse(MODULES[name].read_text()), False))


def _imports(node: ast.AST, inside: bool) -> Iterator[tuple[str, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        names = []
        if isinstance(child, ast.ImportFrom) and child.module:
            names = [f"{child.module}.{a.name}" for a in child.names]
            names = [n if n in MODULES else child.module for n in names]
        elif isinstance(child, ast.Import):
            names = [a.name for a in child.names]
        yield from ((n, inside) for n in names if n in MODULES)
        yield from _imports(
            child, inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        )


def in_order(edges: dict[str, set[str]]) -> None:
    """Fail with the circle, if there is one."""
    try:
        graphlib.TopologicalSorter(edges).prepare()
    except graphlib.CycleError as e:
        raise AssertionError(f"modules import each other: {' <- '.join(e.args[1])}") from None


@pytest.mark.slow
def test_no_circle_is_imported():
    in_order({m: {n for n, inside in imported(m) if not inside and n != m} for m in MODULES})


def test_circles_that_wait_for_a_call_are_listed():
    def counts(a: str, b: str, inside: bool) -> bool:
        return a != b and ((a, b) not in ONE_THING or not inside)

    in_order({m: {n for n, inside in imported(m) if counts(m, n, inside)} for m in MODULES})


def test_no_exception_is_left_over():
    for a, b in ONE_THING:
        assert (b, True) in imported(a), (a, b)
