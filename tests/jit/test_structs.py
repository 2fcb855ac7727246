"""Structs over the table: the same functions give the same results in compiled code and in plain Python."""

from __future__ import annotations

import gc
import os
import pickle
import runpy
import subprocess
import sys
import weakref
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import TESTS

from wastedcores.jit import TABLE_WIDTH, structs, units
from wastedcores.jit.compile import config
from wastedcores.jit.struct_types import reference

FUNCTIONS = str(TESTS / "support" / "struct_runs.py")
ROWS = 12
POINTERS = (1, 2, 5, 22, 41)
INTEGERS = (0, 3, 6, 7, 8, 9, 21, 23, 33, 34, 35, 36, 40)
INT64 = st.integers(-(2**63), 2**63 - 1)


class Runner:
    """A process that runs the functions."""

    def __init__(self, disable_jit: str) -> None:
        path = os.pathsep.join(sys.path)
        self.process = subprocess.Popen(
            [sys.executable, FUNCTIONS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"NUMBA_DISABLE_JIT": disable_jit, "PYTHONPATH": path},
        )

    def run(self, table, a, b):
        self.process.stdin.write(pickle.dumps((table, a, b)))
        self.process.stdin.flush()
        return pickle.load(self.process.stdout)


@pytest.fixture(scope="module")
def runners():
    both = [Runner("1"), Runner("0")]
    yield both
    for runner in both:
        runner.process.kill()
        runner.process.communicate()


@st.composite
def tables(draw):
    m = np.zeros((ROWS, TABLE_WIDTH), np.int64)
    for row in range(ROWS):
        for column in INTEGERS:
            m[row, column] = draw(INT64)
        for column in POINTERS:
            m[row, column] = draw(st.integers(-1, ROWS - 1))
    return m


@pytest.mark.slow
@given(tables(), st.integers(1, ROWS - 1), st.integers(1, ROWS - 1))
@settings(deadline=None, max_examples=60)
def test_plain_and_compiled_functions_do_the_same(runners, m, a, b):
    (plain, plain_table), (compiled, compiled_table) = (r.run(m, a, b) for r in runners)
    assert plain == compiled
    np.testing.assert_array_equal(plain_table, compiled_table)


@pytest.fixture
def here(monkeypatch):
    """The declarations of the program in this process, apart from those of the simulator, and an empty table."""
    for name in ("_declared", "_classes", "_nulls"):
        monkeypatch.setattr(structs, name, {})
    monkeypatch.setattr(units, "_units", [])
    m = np.zeros((ROWS, TABLE_WIDTH), np.int64)
    m[:, list(POINTERS)] = -1
    names = runpy.run_path(FUNCTIONS)
    return SimpleNamespace(**names, m=m, k=names["Kernel"].of(m))


def test_a_row_of_a_struct_is_one_object_and_null_is_one(here):
    k, TaskStruct, NO_TASK = here.k, here.TaskStruct, here.NO_TASK
    p = TaskStruct(k, 7)
    assert here.Kernel.of(here.m) is k
    assert TaskStruct(p.se, np.int64(7)) is p
    assert p.se.task is p
    assert k.curr is NO_TASK
    assert TaskStruct(k, -1) is NO_TASK
    assert structs.null(TaskStruct) is NO_TASK
    assert not NO_TASK
    assert p != NO_TASK
    assert (p.row, NO_TASK.row, k.row) == (7, -1, 0)
    k.curr = p
    assert here.m[0, here.Kernel.curr] == 7
    k.curr = NO_TASK
    assert here.m[0, here.Kernel.curr] == -1


def test_what_is_stored_wraps_as_int64_does(here):
    p = here.TaskStruct(here.k, 3)
    p.cpu = 2**63 + 5
    p.slot[1] = -(2**63) - 1
    p[50] = 2**64 + 9
    here.k[4, 51] = np.uint64(2**64 - 2)
    assert here.m[3, [21, 34, 50]].tolist() == [-(2**63) + 5, 2**63 - 1, 9]
    assert here.m[4, 51] == -2
    assert type(p.cpu) is type(p[50]) is type(here.k[3, 21]) is int


def test_what_others_write_into_the_table_is_read(here):
    TaskStruct = here.TaskStruct
    p = TaskStruct(here.k, 3)
    here.m[3, TaskStruct.timer] = 8
    here.m[3, TaskStruct.slot.column + 2] = 9
    here.m[3, TaskStruct.se.avg.load_sum] = 10
    assert (p.timer, p.wait_object, p.slot[2], p.se.avg.load_sum) == (8, 8, 9, 10)


@pytest.mark.parametrize(
    ("use", "error", "words"),
    [
        ("NO_TASK.cpu", AttributeError, "NULL pointer to TaskStruct was followed to cpu"),
        ("setattr(NO_TASK, 'cpu', 1)", AttributeError, "NULL pointer to TaskStruct"),
        ("NO_TASK[3]", AttributeError, "NULL pointer to TaskStruct was followed to 3"),
        ("setattr(TaskStruct(k, 1), 'cpus', 1)", AttributeError, "cpus"),
        ("TaskStruct(k, 12)", IndexError, "expected a row from 0 to 11 or -1 .* got 12"),
        ("TaskStruct(k, -2)", IndexError, "got -2"),
        ("TaskStruct(k, 1).slot[4]", IndexError, "invalid index"),
        ("k[-1, 3]", IndexError, r"expected a row and a column of the table, got \(-1, 3\)"),
        ("k.__setitem__((3, -1), 5)", IndexError, r"got \(3, -1\)"),
        ("TaskStruct(k, 1)[136]", IndexError, "invalid index"),
        ("Kernel(k, 0)", TypeError, "Kernel is row 0"),
        ("TaskStruct.of(m)", TypeError, r"only Kernel has of\(\)"),
        ("Kernel.of(m[:, :4])", TypeError, r"136 columns, got int64 of shape \(12, 4\)"),
        ("embedded('Nothing').__get__(None, None)", LookupError, "import the module that declares"),
        ("type(Struct)('Wide', (Struct,), {'a': array(130, 7)})", TypeError, r"Wide\.a: .* to 135"),
    ],
)  # fmt: skip
def test_mistakes_are_named(here, use, error, words):
    with pytest.raises(error, match=words):
        eval(use, vars(here))


def test_a_table_that_nobody_uses_is_freed(here):
    m = np.zeros((ROWS, TABLE_WIDTH), np.int64)
    here.TaskStruct(here.Kernel.of(m), 3).cpu = 1
    gone = weakref.ref(m)
    here.Kernel.of(here.m)
    del m
    gc.collect()
    assert gone() is None


compiled_only = pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")


@compiled_only
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("p.cpus = 1", "cpus"),
        ("p.row = 1", r"row cannot be assigned"),
        ("p.se = q", r"se cannot be assigned"),
        ("p.se.cfs_rq = p", r"Cannot cast Reference\(TaskStruct\) to Reference\(CfsRq\)"),
        ("return p == q", "No implementation of function .*eq"),
        ("return p == 3", "No implementation of function .*eq"),
        ("return p.missing", "Unknown attribute 'missing' of type"),
    ],
)
def test_compiled_code_with_a_wrong_type_is_refused(here, body, words):
    names: dict = {}
    exec(f"def function(p, q):\n    {body}", names)
    kinds = reference("TaskStruct"), reference("SchedEntity")
    with pytest.raises(numba.core.errors.NumbaError, match=words):
        numba.njit(names["function"], no_cpython_wrapper=True).compile(kinds)


@compiled_only
@pytest.mark.parametrize(
    ("annotation", "entry", "words"),
    [
        ("float", False, "expected int, bool, None or a declared struct as the annotation of p, got float"),
        ("TaskStrukt", False, "import the module that declares it"),
        ("TaskStruct", True, "Python gives an entry the table and integers"),
    ],
)  # fmt: skip
def test_a_unit_says_which_annotation_it_cannot_take(here, annotation, entry, words):
    def unit(k, p):
        """Do nothing."""

    unit.__annotations__ = {"k": "Kernel", "p": annotation}
    with pytest.raises(TypeError, match=words):
        units.apart(units.NOTHING, entry=entry)(unit)


METHODS = """
from __future__ import annotations
import numpy as np
from wastedcores.jit import TABLE_WIDTH
from wastedcores.jit.structs import Struct, integer, method, pointer
from wastedcores.jit.units import NOTHING, VALUE, apart, install

class Task(Struct):
    cpu = integer(3)

class Choice(Struct):
    @method(0)
    def pick(self, k: Kernel, p: Task, n: int) -> Task: ...

    @method(1)
    def tell(self, k: Kernel, n: int) -> None: ...

class Kernel(Struct):
    now = integer(5)
    choice: Pointer[Choice] = pointer("Choice", 6)

@apart(VALUE)
def pick(k: Kernel, p: Task, n: int) -> Task:
    return Task(k, p.row + n)

@apart(NOTHING)
def tell(k: Kernel, n: int) -> None:
    k.now += n

@apart(VALUE, entry=True)
def main(k: Kernel, row: int) -> int:
    p = k.choice.pick(k, Task(k, row), 2)
    k.choice.tell(k, p.cpu)
    return p.row

m = np.zeros((20, TABLE_WIDTH), dtype=np.int64)
m[0, 6], m[5, 3] = 1, 77
functions = {"pick": pick, "tell": tell}
"""
RUN = "install(m[1], Choice, functions)\nprint(main(m, 3), m[0, 5])"


@pytest.mark.slow
@pytest.mark.parametrize("disabled", ["0", "1"])
@pytest.mark.parametrize(
    ("then", "said"),
    [
        (RUN, "5 77"),
        ("del functions['tell']\n" + RUN, "expected the functions ['pick', 'tell'], got ['pick']"),
    ],
)
def test_functions_are_called_by_their_addresses(tmp_path, disabled, then, said):
    child = python(tmp_path, METHODS + then, disabled)
    assert said in child.stdout + child.stderr


@pytest.mark.skipif(config.DISABLE_JIT, reason="plain Python does not know the types")
def test_a_function_of_another_type_is_refused(tmp_path):
    child = python(tmp_path, METHODS + "functions['tell'] = pick\n" + RUN, "0")
    assert "Choice.tell: expected" in child.stderr


def python(folder, text: str, disabled: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, compiled or not."""
    file = folder / "program.py"
    file.write_text(text)
    return subprocess.run(
        [sys.executable, file],
        env=os.environ | {"NUMBA_DISABLE_JIT": disabled, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
