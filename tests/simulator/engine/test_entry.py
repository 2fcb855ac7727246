"""How a compiled function is entered: with numba's insides changed, and with a numba that this does not know."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from numba.core import types

from wastedcores.jit.entry import options


def test_the_installed_numba_is_known() -> None:
    """The benchmarks' figures are of this; a new numba has to be looked at."""
    assert options()


def test_a_numba_that_is_not_known_is_left_as_it_is() -> None:
    assert options("0.99.0") == {}


@pytest.mark.parametrize("version", [numba.__version__, "0.99.0"])
def test_entered_either_way_the_result_is_the_same(version: str) -> None:
    @numba.njit(error_model="numpy")
    def helper(a, i):
        return a[i] * 3 if i else a[0]

    signature = types.int64(types.CPointer(types.int64), types.int64)

    @numba.cfunc(signature, nogil=True, error_model="numpy", **options(version))
    def total(pointer, n):
        a = numba.carray(pointer, n)
        s = 0
        for i in range(n):
            s += helper(a, i)
        return s

    data = np.arange(7, 17)
    found = total.ctypes(data.ctypes.data_as(total.ctypes.argtypes[0]), len(data))
    assert found == 7 + 3 * sum(range(8, 17))
