"""What a compiled function depends on, as a digest: its own code and that of every function it calls.

numba's cache does not notice an edit in a callee's file: a cached caller goes on returning the old answer. So each
cached function has a folder that is named by this digest. It covers the bytecode, the constants and the values of the
globals that the function reads, and the same of all functions that are compiled into it. A function that is linked by
its symbol (:mod:`wastedcores.jit.units`) contributes its signature only, because its code lies elsewhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

_PACKAGE = __name__.partition(".")[0] + "."
_known: dict[Callable[..., Any], str] = {}


def fingerprint(function: Callable[..., Any]) -> str:
    """16 hexadecimal digits for a function and all that is compiled with it."""
    if function not in _known:
        _known[function] = ""  # a function that calls itself
        digest = hashlib.sha256()
        for part in _code(function.__code__, function.__doc__):
            digest.update(part)
        for name, value in referenced(function):
            digest.update(f"{name}={_value(value)};".encode())
        _known[function] = digest.hexdigest()[:16]
    return _known[function]


def referenced(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Names and values of the globals that a function reads, and of what it reads in the modules among them."""
    names = function.__code__.co_names
    for name in names:
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType):
            yield from ((f"{name}.{n}", getattr(value, n)) for n in names if hasattr(value, n))
        elif name in function.__globals__:
            yield name, value


def _code(code: CodeType, doc: str | None) -> Iterator[bytes]:
    yield code.co_code
    yield repr((code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars)).encode()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code(constant, None)
        elif constant is None or constant != doc:
            yield repr(constant).encode()


def _value(value: Any) -> str:
    """A compiled function by its fingerprint, a unit by its signature, a constant by its value."""
    inner = getattr(value, "py_func", None) or getattr(value, "_defn", None)
    value = inner if isinstance(inner, FunctionType) else value
    if isinstance(value, FunctionType) and value.__module__.startswith(_PACKAGE):
        return fingerprint(value)
    if hasattr(value, "signature") and hasattr(value, "symbol"):
        return f"{value.symbol}{value.signature}"
    if isinstance(value, (int, float, str, bytes, tuple, list, dict)):
        return repr(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return f"{value.dtype}{value.shape}{value.tobytes().hex()}"
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"
