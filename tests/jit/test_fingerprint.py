"""The folders of the cache of machine code: what a compiled function depends on, and nothing else, changes its fingerprint."""

from __future__ import annotations
import __future__

import importlib
import os
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest
from support import ROOT

import wastedcores
from wastedcores.jit import fingerprint as fingerprints
from wastedcores.jit import structs, units
from wastedcores.jit.compile import config
from wastedcores.jit.fingerprint import fingerprint

SOURCE = """
import numpy as np
from wastedcores.jit.compile import inner
from wastedcores.jit.units import VALUE, apart

LIMIT = 7
WEIGHTS = np.array([1, 2, 3])

@inner
def callee(a, by=2):
    '''Its text may change.'''
    return min(a * by, LIMIT) + WEIGHTS[0] + sum([i + 5 for i in range(3)])

@apart(VALUE)
def unit(m, a):
    return a + 11

def caller(m, a):
    return callee(a) + unit(m, a)
"""


@pytest.fixture
def fingerprint_of(monkeypatch):
    """Fingerprint of ``caller`` in a source like SOURCE, as a fresh process would compute it."""

    def compute(source: str) -> str:
        monkeypatch.setattr(fingerprints, "_known", {})
        monkeypatch.setattr(units, "_units", [])
        names: dict = {"__name__": fingerprints.__name__}
        exec(compile(source, "source", "exec", __future__.annotations.compiler_flag), names)
        return fingerprint(names["caller"])

    return compute


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("min(a * by", "min(a + by"),  # bytecode
        ("by=2", "by=3"),  # a default
        ("i + 5", "i + 6"),  # a constant inside a comprehension
        ("LIMIT = 7", "LIMIT = 8"),  # the value of a global
        ("[1, 2, 3]", "[1, 2, 4]"),
        ("def unit(m, a)", "def unit(m, a, b=0)"),  # what callers need to know of a unit
    ],
)
def test_an_edit_of_a_callee_changes_the_fingerprint_of_its_caller(fingerprint_of, old, new):
    assert old in SOURCE
    assert fingerprint_of(SOURCE.replace(old, new)) != fingerprint_of(SOURCE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a + 11", "a + 12"),  # a unit is linked by its symbol
        ("Its text may change.", "Its text has changed."),
        ("LIMIT = 7", "LIMIT = 7\nUNUSED = 8"),
    ],
)
def test_what_is_not_compiled_into_a_caller_does_not_change_its_fingerprint(
    fingerprint_of, old, new
):
    assert old in SOURCE
    assert fingerprint_of(SOURCE.replace(old, new)) == fingerprint_of(SOURCE)


STRUCTS = """
from wastedcores.jit.structs import Struct, embedded, integer, null, pointer

class Task(Struct):
    cpu: int = integer(1)
    queue: Queue = pointer("Queue", 2)

class Queue(Struct):
    load: Load = embedded("Load")

class Load(Struct):
    sum: int = integer(3)

class Other(Struct):
    cpu: int = integer(4)

NO_TASK = null(Task)

def caller(
"""

NAMING = {
    "an annotation": "p: Task):\n    return p.queue.load.sum",
    "a class": "k):\n    return Task(k, 1).queue.load.sum",
    "a NULL": "p):\n    return p != NO_TASK and p.queue.load.sum",
}


@pytest.mark.parametrize("naming", NAMING)
@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ("integer(1)", "integer(5)", True),
        ("integer(3)", "integer(5)", True),  # behind a pointer and in an embedded struct
        ("integer(4)", "integer(5)", False),
        ("class Task(Struct):", "class Task(Struct):\n    'Text.'", False),
    ],
)
def test_the_columns_of_the_structs_that_can_be_reached_count(
    fingerprint_of, monkeypatch, naming, old, new, changes
):
    monkeypatch.setattr(structs, "_declared", {})
    before = fingerprint_of(STRUCTS + NAMING[naming])
    after = fingerprint_of(STRUCTS.replace(old, new) + NAMING[naming])
    assert (before != after) == changes


def test_a_constant_that_is_read_of_a_module_counts(monkeypatch):
    from wastedcores.simulator.engine.balance import rebalance_domains_jit as user
    from wastedcores.simulator.engine.codes import sd_flag

    function = getattr(user.idle_balance, "__wrapped__", user.idle_balance)
    monkeypatch.setattr(fingerprints, "_known", {})
    before = fingerprint(function)
    monkeypatch.setattr(sd_flag, "BALANCE_NEWIDLE", 0x8000)
    monkeypatch.setattr(fingerprints, "_known", {})
    assert fingerprint(function) != before


@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
def test_no_callee_is_defined_later_than_its_caller(monkeypatch):
    """The fingerprint that named a function's folder is the one with every module imported."""
    found = {}
    for module in pkgutil.walk_packages(wastedcores.__path__, "wastedcores."):
        if module.name.endswith("_jit"):
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, numba.core.dispatcher.Dispatcher):
                    found[value.py_func] = fingerprints._known.get(value.py_func)
                elif isinstance(value, units.Unit):
                    found[value.__wrapped__] = fingerprints._known.get(value.__wrapped__)
    named = {function: digest for function, digest in found.items() if digest}
    assert len(named) > 50
    monkeypatch.setattr(fingerprints, "_known", {})
    assert {function: fingerprint(function) for function in named} == named


LIST = """
import importlib, sys
from wastedcores.jit.fingerprint import fingerprint
from wastedcores.jit.units import _in_order
importlib.import_module("wastedcores.simulator.engine.run_jit")
importlib.import_module("wastedcores.simulator.engine.design.core_jit")
scan = importlib.import_module("wastedcores.trace.readers.text.scan_jit")
for unit in _in_order():
    print(unit.symbol, fingerprint(unit.__wrapped__))
print("reader", *(fingerprint(f.py_func) for f in vars(scan).values() if hasattr(f, "py_func")))
"""


@pytest.mark.slow
@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
def test_an_edit_of_a_reader_leaves_the_simulator_as_it_is(tmp_path):
    shutil.copytree(
        ROOT / "wastedcores",
        tmp_path / "wastedcores",
        ignore=shutil.ignore_patterns("__pycache__", "*.parquet", "*.ipynb"),
    )

    def fingerprints_there() -> list[str]:
        env = os.environ | {"PYTHONPATH": str(tmp_path), "WASTEDCORES_JIT_CACHE": "0"}
        done = subprocess.run(
            [sys.executable, "-c", LIST],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.splitlines()

    before = fingerprints_there()
    reader = Path(tmp_path / "wastedcores/trace/readers/text/scan_jit.py")
    text = reader.read_text()
    edited = text.replace("return -1", "return -2")
    assert edited != text
    reader.write_text(edited)
    after = fingerprints_there()
    assert len(before) > 60
    assert after[:-1] == before[:-1]
    assert after[-1] != before[-1]
