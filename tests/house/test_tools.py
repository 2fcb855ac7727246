"""What the tools and the benchmarks import from the package is there; nothing else runs all of them."""

from __future__ import annotations

import ast
from importlib import import_module
from importlib.util import find_spec

import pytest
from support import ROOT

FILES = [*sorted((ROOT / "tools").glob("*.py")), *sorted((ROOT / "benchmarks").glob("bench_*.py"))]


@pytest.mark.parametrize("file", FILES, ids=[f.name for f in FILES])
def test_imported_names_exist(file):
    for node in ast.walk(ast.parse(file.read_text())):
        module = getattr(node, "module", None) or ""
        if isinstance(node, ast.ImportFrom) and module.startswith("wastedcores"):
            for name in node.names:
                there = hasattr(import_module(module), name.name)
                assert there or find_spec(f"{module}.{name.name}"), f"{module} has no {name.name}"
