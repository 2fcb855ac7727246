"""Structs over the table: the same functions give the same results in compiled code and in plain Python."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import struct_runs
from support.struct_runs import POINTERS, ROWS

from wastedcores.jit import TABLE_WIDTH

INT64 = st.integers(-(2**63), 2**63 - 1)
COLUMNS = (0, 3, 6, 7, 8, 9, 21, 23, 33, 34, 35, 36, 40)


class Runner:
    """A process that runs the functions."""

    def __init__(self, disable_jit: str) -> None:
        path = os.pathsep.join(sys.path)
        self.process = subprocess.Popen(
            [sys.executable, struct_runs.__file__],
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
        for column in COLUMNS:
            m[row, column] = draw(INT64)
        for column in POINTERS:
            m[row, column] = draw(st.integers(-1, ROWS - 1))
    return m


@given(tables(), st.integers(1, ROWS - 1), st.integers(1, ROWS - 1))
@settings(deadline=None, max_examples=60)
def test_plain_and_compiled_functions_do_the_same(runners, m, a, b):
    (plain, plain_table), (compiled, compiled_table) = (r.run(m, a, b) for r in runners)
    assert plain == compiled
    np.testing.assert_array_equal(plain_table, compiled_table)
