"""A digest of everything that a compiled function depends on: its own code and that of every function it calls.

numba's own cache does not notice an edit in a callee's file, so a cached caller would go on returning the old answer. Each
cached function therefore has a folder that is named by this digest. The digest covers the bytecode, the constants, the
defaults and the values of the globals that the function reads, and the same of all functions that are compiled into it. A
function that is linked by its symbol (:mod:`wastedcores.jit.units`) contributes only its signature, because its machine code is
elsewhere. The columns of the structs that a function names, and of all structs that their pointers reach, count too.
"""

from __future__ import annotations

import dis
import hashlib
from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from wastedcores.jit.structs import Null, StructClass, layout, structs_named

_LOAD_GLOBAL, _EXTENDED_ARG = dis.opmap["LOAD_GLOBAL"], dis.opmap["EXTENDED_ARG"]
_PACKAGE = __name__.partition(".")[0] + "."
_known: dict[Callable[..., Any], str] = {}


def fingerprint(function: Callable[..., Any]) -> str:
    """Return 16 hexadecimal digits for a function and everything that is compiled with it."""
    if function not in _known:
        _known[function] = ""  # ends the recursion of a function that calls itself
        digest = hashlib.sha256(repr(function.__defaults__).encode())
        for code in _codes(function.__code__):
            digest.update(code.co_code)
            digest.update(repr((code.co_names, code.co_varnames, code.co_freevars)).encode())
            constants = [c for c in code.co_consts if not isinstance(c, CodeType)]
            if code is function.__code__ and function.__doc__ is not None:
                constants = [c for c in constants if c != function.__doc__]
            digest.update(repr(constants).encode())
        # compiled code takes the fields of a named tuple by their position
        for name in sorted({str(a) for a in function.__annotations__.values()}):
            fields = getattr(function.__globals__.get(name), "_fields", ())
            digest.update(f"{name}{fields}".encode())
        if structs := set(structs_named(function).values()):
            digest.update(layout(structs).encode())
        for name, value in referenced(function):
            digest.update(f"{name}={_value(value)};".encode())
        _known[function] = digest.hexdigest()[:16]
    return _known[function]


def referenced(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Yield the name and the value of each global that a function reads, also those that it reads as ``module.name``."""
    names = dict.fromkeys(n for code in _codes(function.__code__) for n in code.co_names)
    for name in dict.fromkeys(n for code in _codes(function.__code__) for n in _globals(code)):
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType):
            yield from ((f"{name}.{n}", getattr(value, n)) for n in names if hasattr(value, n))
        elif name in function.__globals__:
            yield name, value
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, cell.cell_contents


@cache
def _globals(code: CodeType) -> tuple[str, ...]:
    """Return the names of the globals that some code reads, without the names of attributes, which are in the same table.

    ``dis.get_instructions()`` would take 77 ms for the engine, whose warm start takes one second.
    """
    out, high = [], 0
    for opcode, low in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        argument = high << 8 | low
        high = argument if opcode == _EXTENDED_ARG else 0
        if opcode == _LOAD_GLOBAL:
            out.append(code.co_names[argument >> 1])
    return tuple(out)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a function's code and that of the functions and comprehensions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _value(value: Any) -> str:
    """Return a text for a value: the fingerprint of a function, the signature of a unit, the value of a constant."""
    inner = getattr(value, "py_func", None) or getattr(value, "_defn", None)
    value = inner if isinstance(inner, FunctionType) else value
    if isinstance(value, FunctionType) and value.__module__.startswith(_PACKAGE):
        return fingerprint(value)
    if hasattr(value, "signature") and hasattr(value, "symbol"):
        return f"{value.symbol}{value.signature}"
    if isinstance(value, (StructClass, Null)):
        struct = value.struct if isinstance(value, Null) else value.__name__
        return f"{type(value).__name__}{struct}{layout([struct])}"
    if isinstance(value, (int, float, str, bytes, tuple, list, dict)):
        return repr(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return f"{value.dtype}{value.shape}{value.tobytes().hex()}"
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"
