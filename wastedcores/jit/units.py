"""Compiled functions that are separate compilation units: callers jump to them by name and link nothing in.

numba links the library of each callee into its caller and optimises the whole again. In a deep call tree every function is
therefore optimised once for each level above it. A function marked :func:`apart` is a unit of its own instead. It has one
signature, its own entry in the cache and its own symbol. The signature is the table and then integers, unless an annotation
names a struct (:mod:`wastedcores.jit.structs`). With units, and with the bare table of
:mod:`wastedcores.jit.table`, the engine takes 21 s of CPU time to compile instead of 80 s (measured 2026-11-21). Because a
caller needs only the callee's signature, two processes can compile half of the units each.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any, TypeVar, overload

import llvmlite.binding as llvm
import numba
import numpy as np
from numba.core import cgutils, types
from numba.extending import lower_builtin, type_callable

from wastedcores.jit.cache import cache_of, config
from wastedcores.jit.fingerprint import referenced
from wastedcores.jit.plain import Plain
from wastedcores.jit.second import second_process
from wastedcores.jit.struct_types import method_signature, reference
from wastedcores.jit.structs import (
    KERNEL,
    Struct,
    fields,
    kernel_of,
    plain_functions,
    structs_named,
)
from wastedcores.jit.table import table_type

#: the type of what a unit returns: an integer, a truth value, or nothing
VALUE = types.int64
NOTHING = types.void

_NO_STRUCTS = ("int", "bool", "None", int, bool, None)

F = TypeVar("F", bound=Callable[..., Any])

_units: list[Unit] = []
_lock = threading.RLock()


class Unit:
    """One separately compiled function, called from compiled code with the table and, if it is an entry, from Python."""

    def __init__(self, function: Callable[..., Any], result: Any, entry: bool) -> None:
        self.__doc__ = function.__doc__
        self.is_entry = entry
        self.__name__ = function.__name__
        self.__wrapped__ = function
        self.symbol = f"{function.__module__}.{function.__name__}"
        self.signature = _signature(function, result)
        if entry and any(kind != types.int64 for kind in self.signature.args[1:]):
            raise TypeError(
                f"{self.__name__}: Python gives an entry the table and integers, not {self.signature}."
            )
        self._compiled: Any = None
        self._entry: Any = None
        _units.append(self)
        _let_compiled_code_call(self)

    @property
    def compiled(self) -> bool:
        """Whether the machine code is there."""
        return self._compiled is not None

    def compile(self) -> bool:
        """Compile, or load from the cache; return whether it had to be compiled."""
        dispatcher: Any = numba.njit(  # type: ignore[call-overload]  # its stubs leave the wrapper options out
            nogil=True,
            error_model="numpy",
            no_rewrites=True,
            no_cpython_wrapper=True,
            no_cfunc_wrapper=not self.is_entry,
        )(self.__wrapped__)
        files = cache_of(self.__wrapped__)
        if files:
            dispatcher._cache = files
        dispatcher.compile(self.signature)
        self._compiled = dispatcher.overloads[self.signature.args]
        return not dispatcher.stats.cache_hits

    def publish(self) -> None:
        """Let callers find the compiled function by its symbol."""
        llvm.add_symbol(self.symbol, self.native_address)

    @property
    def native_address(self) -> int:
        """Address of the compiled function for callers that use numba's calling convention, after :func:`prepare`."""
        return self._pointer(self._compiled.fndesc.llvm_func_name)

    def _pointer(self, name: str) -> int:
        return int(self._compiled.library.get_pointer_to_function(name))

    @property
    def address(self) -> int:
        """Address of a compiled entry for callers that use the calling convention of C, after :func:`prepare`."""
        if not self.is_entry:
            raise TypeError(f"{self.__name__} is no entry: it can be called only by compiled code.")
        return self._pointer(self._compiled.fndesc.llvm_cfunc_wrapper_name)

    def __call__(self, m: np.ndarray, *numbers: int) -> Any:
        """Run on the world ``m``."""
        if self._entry is None:
            prepare()
            numbers_ctypes = (ctypes.c_int64,) * (len(self.signature.args) - 1)
            result = None if self.signature.return_type == types.void else ctypes.c_int64
            self._entry = ctypes.CFUNCTYPE(result, ctypes.c_void_p, *numbers_ctypes)(self.address)
        if m.dtype != np.int64 or not m.flags.c_contiguous:
            raise TypeError(
                f"{self.__name__}: expected the engine's table, C-contiguous int64, "
                f"got {m.dtype} with strides {m.strides}."
            )
        return self._entry(m.ctypes.data, *(int(n) for n in numbers))


def _signature(function: Callable[..., Any], result: Any) -> Any:
    """Return the signature of a unit: an annotation that names a struct gives the type, everything else is an integer."""
    parameters = list(inspect.signature(function).parameters)
    structs = structs_named(function)
    for name, annotation in function.__annotations__.items():
        if name not in structs and annotation not in _NO_STRUCTS:
            raise TypeError(
                f"{function.__name__}: expected int, bool, None or a declared struct as the annotation of {name}, "
                f"got {annotation}. If it is a struct, import the module that declares it."
            )
    kinds = [reference(structs[p]) if p in structs else types.int64 for p in parameters]
    if parameters[0] not in structs:
        kinds[0] = table_type
    return (reference(structs["return"]) if "return" in structs else result)(*kinds)


def _let_compiled_code_call(unit: Unit) -> None:
    """Tell numba the type of a unit, and how to call it by its symbol.

    The call does not go through numba's C callback, which checks whether the function failed. A unit cannot fail. With
    that check at each of the ten units that a tick goes through, an event took 20 to 30 % longer (measured 2026-11-22).
    """
    signature = unit.signature

    @type_callable(unit)
    def _typer_of(context: Any) -> Any:
        def typer(*args: Any) -> Any:
            return signature

        typer.__signature__ = inspect.signature(unit.__wrapped__)  # type: ignore[attr-defined]
        return typer

    @lower_builtin(unit, *signature.args)
    def _call(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        convention = context.call_conv
        kind = convention.get_function_type(sig.return_type, sig.args)
        function = cgutils.get_or_insert_function(builder.module, kind, unit.symbol)
        _, result = convention.call_function(builder, function, sig.return_type, sig.args, args)
        return result


@overload
def apart(result: Any) -> Callable[[F], F]: ...


@overload
def apart(result: Any, *, entry: bool) -> Callable[[Callable[..., Any]], Any]: ...


def apart(result: Any, *, entry: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Mark a function to be compiled and linked separately; ``result`` is what it returns unless its annotation is a struct."""

    def mark(function: Callable[..., Any]) -> Any:
        if not config.DISABLE_JIT:
            return Unit(function, result, entry)
        return (
            _taking_arrays(function)
            if entry and KERNEL in structs_named(function).values()
            else function
        )

    return mark


def install(
    row: np.ndarray,
    struct: type[Struct],
    functions: dict[str, Callable[..., Any]],
    plain: Plain | None = None,
) -> None:
    """Write the addresses of functions into the fields of a row that :func:`wastedcores.jit.structs.method` declares.

    With ``plain``, these are the addresses of the plain forms.

    Raises
    ------
    TypeError
        A function has another signature than its field, or a function is missing.
    """
    wanted = {n: f for n, f in fields(struct.__name__).items() if f.kind == "function"}
    if wanted.keys() != functions.keys():
        raise TypeError(
            f"{struct.__name__}: expected the functions {sorted(wanted)}, got {sorted(functions)}."
        )
    if not config.DISABLE_JIT and plain is None:
        prepare()
    for name, function in functions.items():
        if plain is not None:
            row[wanted[name]] = plain.address(function)
        elif isinstance(function, Unit):
            have, want = function.signature, method_signature(struct.__name__, name)
            if (have.return_type, have.args) != want:
                raise TypeError(
                    f"{struct.__name__}.{name}: expected {want}, got {have} of {function.symbol}."
                )
            row[wanted[name]] = function.native_address
        else:
            if function not in plain_functions:
                plain_functions.append(function)
            row[wanted[name]] = plain_functions.index(function)


def _taking_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return an entry in plain Python, which accepts the kernel (from other functions) or a NumPy table (from outside)."""

    @functools.wraps(function)
    def call(k: Any, *numbers: Any) -> Any:
        if isinstance(k, np.ndarray):
            return function(kernel_of(k), *map(int, numbers))
        return function(k, *numbers)

    return call


def _in_order() -> list[Unit]:
    """Return all units, each after the units that it calls: a symbol must be known when its caller is loaded."""
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
    """Load every unit from the cache or compile it; a second process compiles the list from its other end."""
    with _lock:
        helper = None
        missing = [] if all(u.compiled for u in _units) else _in_order()
        for unit in (u for u in missing if not u.compiled):
            missed = unit.compile()
            unit.publish()
            if missed and helper is None:
                modules = list(dict.fromkeys(u.__wrapped__.__module__ for u in _units))
                helper = second_process(__name__, f"compile_from_the_end({modules!r})")
        if helper:
            helper.kill()
            helper.wait()


def compile_from_the_end(modules: list[str]) -> None:
    """Compile the units of these modules into the cache, the last one first. The second process calls this; it runs no unit."""
    for module in modules:
        __import__(module)
    for unit in _units:
        llvm.add_symbol(unit.symbol, 1)
    for unit in reversed(_in_order()):
        unit.compile()
