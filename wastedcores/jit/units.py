"""Functions that are compiled apart: callers jump to them by name and link nothing in.

numba links the library of each callee into its caller and optimises the whole again, so in a deep call tree every function
is optimised once for each level above it: the engine took 80 s to compile and takes 21 s now (CPU time, 2026-11-21; the bare
table of ``_table`` is part of it). A function marked :func:`apart` is a unit of its own, with one signature (the table, then
integers), its own entry in the cache and its own symbol. Because a caller only needs the callee's signature, two processes
can compile half of the units each.
"""

from __future__ import annotations

import ctypes
import inspect
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from numba.core import types
from numba.extending import typeof_impl

from wastedcores.jit.compile import CACHE_ROOT, cache_of, config
from wastedcores.jit.entry import options
from wastedcores.jit.fingerprint import referenced
from wastedcores.jit.table import table_type

_units: list[Unit] = []
_lock = threading.RLock()


class Unit:
    """One function compiled apart; called from Python with an array, from compiled code with the table."""

    def __init__(self, function: Callable[..., Any], result: Any) -> None:
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__wrapped__ = function
        self.symbol = f"{function.__module__}.{function.__name__}"
        numbers = len(inspect.signature(function).parameters) - 1
        self.signature = result(table_type, *(types.int64,) * numbers)
        self.external = types.ExternalFunction(self.symbol, self.signature)
        self._ctype = ctypes.CFUNCTYPE(
            None if result == types.void else ctypes.c_int64,
            ctypes.c_void_p,
            *(ctypes.c_int64,) * numbers,
        )
        self._compiled: Any = None
        self._entry: Any = None
        _units.append(self)

    def compile(self) -> None:
        """Compile, or load from the cache, and make the symbol known."""
        with cache_of(self.__wrapped__) as cache:
            self._compiled = numba.cfunc(
                self.signature, cache=cache, nogil=True, error_model="numpy", **options()
            )(self.__wrapped__)

    def publish(self) -> None:
        """Let callers find the compiled function."""
        llvm.add_symbol(self.symbol, self._compiled.address)

    @property
    def address(self) -> int:
        """Of the compiled function, after :func:`prepare`."""
        return int(self._compiled.address)

    def __call__(self, m: np.ndarray, *numbers: int) -> Any:
        """Run on the world ``m``."""
        if self._entry is None:
            prepare()
            self._entry = self._ctype(self._compiled.address)
        if m.dtype != np.int64 or not m.flags.c_contiguous:
            raise TypeError(f"{self.__name__}: not a table of the engine: {m.dtype}, {m.strides}")
        return self._entry(m.ctypes.data, *(int(n) for n in numbers))


@typeof_impl.register(Unit)
def _typeof_unit(value: Unit, context: Any) -> Any:
    return value.external


def apart(result: Any) -> Callable[[Callable[..., Any]], Any]:
    """Mark a function of the table and integers as compiled apart; ``result``: VALUE (an integer or truth) or NOTHING."""

    def mark(function: Callable[..., Any]) -> Any:
        return function if config.DISABLE_JIT else Unit(function, result)

    return mark


VALUE = types.int64
NOTHING = types.void


def _in_order() -> list[Unit]:
    """All units, each behind those it calls: a symbol must be known when its caller is loaded."""
    out: dict[Unit, None] = {}
    seen: set[Any] = set()

    def visit(function: Callable[..., Any]) -> None:
        if function in seen:
            return
        seen.add(function)
        for _, callee in referenced(function):
            if isinstance(callee, Unit):
                visit(callee.__wrapped__)
                out[callee] = None
            elif hasattr(callee, "py_func"):
                visit(callee.py_func)

    for unit in _units:
        visit(unit.__wrapped__)
        out[unit] = None
    return list(out)


def prepare() -> None:
    """Have every unit compiled: from the cache, else here and in a second process from the other end."""
    with _lock:
        missing = [u for u in _in_order() if u._compiled is None]
        helper = None
        for unit in missing:
            unit.compile()
            unit.publish()
            if helper is None and unit._compiled.cache_hits == 0:
                helper = _helper()
        if helper:
            helper.kill()
            helper.wait()


def _helper() -> subprocess.Popen[bytes] | None:
    if CACHE_ROOT is None or len(os.sched_getaffinity(0)) < 2:
        return None
    modules = list(dict.fromkeys(u.__wrapped__.__module__ for u in _units))
    code = (
        f"import sys; sys.path[:] = {sys.path!r}\n"
        "from wastedcores.jit.units import compile_from_the_end\n"
        f"compile_from_the_end({modules!r})"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def compile_from_the_end(modules: list[str]) -> None:
    """The second process: the last unit first, into the cache only; no unit is ever run here."""
    for module in modules:
        __import__(module)
    for unit in _units:
        llvm.add_symbol(unit.symbol, 1)
    for unit in reversed(_in_order()):
        unit.compile()
