"""Compiled functions as plain Python in the same process: to step through them, to debug them, and to replace some of them.

A compiled function keeps its Python source. :class:`Plain` makes functions of the same code, in whose globals the
compiled functions are replaced by their plain forms. Each :class:`Plain` has functions of its own, so that replacing one changes
no other replay.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from wastedcores.jit.structs import StructClass, kernel_of, referred


def source_of(value: Any) -> FunctionType | None:
    """Return the Python function of a compiled one (or, if numba is switched off, of one that would be compiled), or None."""
    if isinstance(value, FunctionType):
        inner = getattr(value, "__wrapped__", value)
        return inner if (value.__module__ or "").endswith("_jit") else None
    if isinstance(value, (type, ModuleType)):
        return None
    found = getattr(value, "py_func", None) or getattr(value, "__wrapped__", None)
    return found if isinstance(found, FunctionType) else None


@functools.cache
def _sources(module: str) -> dict[str, FunctionType]:
    """Return the compiled functions that a module names, as Python functions."""
    found = {name: source_of(value) for name, value in vars(sys.modules[module]).items()}
    return {name: source for name, source in found.items() if source is not None}


@functools.cache
def _others(module: str) -> dict[str, Any]:
    """Return the globals of a module except its compiled functions; for a struct, a function that makes references."""
    names = vars(sys.modules[module]).items()
    return {
        name: maker(value) if isinstance(value, StructClass) else value
        for name, value in names
        if name not in _sources(module)
    }


@functools.cache
def maker(struct: Any) -> Callable[[Any, int], Any]:
    """Return a function that makes references to a struct, and has the struct's fields as attributes."""
    name = struct.__name__

    def make(table: Any, row: int) -> Any:
        try:
            return table._tables[name][row]
        except KeyError:
            return referred(table, name, row)

    make.__dict__.update({n: getattr(struct, n) for n in getattr(struct, "__fields__", ())})
    return make


def _with_globals(source: FunctionType, names: dict[str, Any]) -> FunctionType:
    made = FunctionType(
        source.__code__, names, source.__name__, source.__defaults__, source.__closure__
    )
    made.__module__ = source.__module__
    return made


class Plain:
    """The compiled functions as plain Python; each of them can be replaced for all its callers."""

    def __init__(self) -> None:
        self._modules: dict[str, ModuleType] = {}
        self._functions: dict[FunctionType, Callable[..., Any]] = {}
        #: functions whose addresses are in tables: the address is the index in this list
        self.addresses: list[Callable[..., Any]] = []

    def of(self, function: Any) -> Callable[..., Any]:
        """Return the plain form of a compiled function, or what replaced it."""
        source = source_of(function)
        if source is None:
            raise TypeError(f"{function!r} is not a compiled function.")
        return self._plain(source)

    def _plain(self, source: FunctionType) -> Callable[..., Any]:
        if source not in self._functions:
            self.module(source.__module__)
        return self._functions[source]

    def module(self, name: str) -> ModuleType:
        """Return a module in which every compiled function has its plain form."""
        if name not in self._modules:
            self._modules[name] = made = ModuleType(name)
            made.__dict__.update(_others(name))
            for key, value in _others(name).items():
                if isinstance(value, ModuleType) and value.__name__.endswith("_jit"):
                    setattr(made, key, self.module(value.__name__))
            for source in _sources(name).values():
                if source.__module__ == name and source not in self._functions:
                    self._functions[source] = _with_globals(source, made.__dict__)
            for key, source in _sources(name).items():
                setattr(made, key, self._plain(source))
        return self._modules[name]

    def replace(self, function: Any, own: Callable[..., Any]) -> None:
        """Let all callers of a function call another one instead."""
        before = self.of(function)
        self._functions[source_of(function)] = own  # type: ignore[index]
        for module in self._modules.values():
            for key, value in vars(module).items():
                if value is before:
                    setattr(module, key, own)
        self.addresses[:] = [own if f is before else f for f in self.addresses]

    def address(self, function: Any) -> int:
        """Return the address of a function's plain form, for the tables of functions."""
        plain = self.of(function)
        if plain not in self.addresses:
            self.addresses.append(plain)
        return self.addresses.index(plain)

    def kernel(self, m: np.ndarray) -> Any:
        """Return the kernel of a table; it calls these functions, and whoever uses it has to keep a reference to it."""
        kernel = kernel_of(m)
        kernel.functions = self.addresses
        kernel.about = self
        return kernel
