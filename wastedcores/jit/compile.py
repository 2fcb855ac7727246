"""The decorators for compiled functions; :mod:`wastedcores.jit.cache` keeps their machine code."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core import event, types

from wastedcores.jit.cache import cache_of, config

F = TypeVar("F", bound=Callable[..., Any])


class _NoCollection(event.Listener):  # type: ignore[misc]  # numba has no types here
    """Pauses the garbage collector while numba compiles.

    numba makes millions of objects that live until the end, so the collector searches in vain. Without it, the first check
    takes 14.6 to 15.5 s of CPU time instead of 16.7 to 19.9 s, and 120 MB more memory (measured 2026-11-22).
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.depth = 0
        self.was_enabled = False

    def on_start(self, event: Any) -> None:
        """Pause when a function begins to be compiled, perhaps because another function calls it."""
        with self.lock:
            if not self.depth:
                _announce()
                self.was_enabled = gc.isenabled()
                gc.disable()
            self.depth += 1

    def on_end(self, event: Any) -> None:
        """Go on when no function is being compiled any more."""
        with self.lock:
            self.depth -= 1
            if not self.depth and self.was_enabled:
                gc.enable()


_announced: list[bool] = []


def _announce() -> None:
    """Tell a person at a terminal once why a command pauses; numba compiles only what the cache lacks."""
    if not _announced and sys.stderr is not None and sys.stderr.isatty():
        print(
            "wastedcores: compiling for the first use, which takes some seconds (`wastedcores warmup` compiles "
            "everything at once)",
            file=sys.stderr,
        )
    _announced.append(True)


event.register("numba:compile", _NoCollection())


def _compiled(function: F, **options: Any) -> F:
    dispatcher: Any = numba.njit(fastmath=False, nogil=True, **options)(function)
    files = cache_of(function)
    if files:
        dispatcher._cache = files
    return cast(F, dispatcher)


def jit(function: F) -> F:
    """Compile ``function`` without Python objects and without fast-math, so that the same input gives the same bytes."""
    return _compiled(function)


def lean(function: F) -> F:
    """Compile as :func:`jit` does, but without reference counts, for functions that make no arrays.

    numba counts references to every array that is passed on or sliced, with locked instructions. In a helper that is
    called for each field of a record, these instructions took three quarters of the time.
    """
    return _compiled(function, _nrt=False)


def callee(function: F, *, inline: bool = True) -> F:
    """Compile ``function`` into callers that are compiled themselves.

    A call would copy the callers' state, which has ten arrays or more of some nine words each: where runqueues are rebuilt, calls
    took four fifths of the time. The function cannot be called from Python, so there is no wrapper to compile, and it makes no
    arrays (see :func:`lean`). It takes every integer as int64 and is compiled once; numba would compile it anew for each width
    and for each constant.
    """
    dispatcher: Any = numba.njit(  # type: ignore[call-overload]  # its stubs leave some options out
        fastmath=False,
        nogil=True,
        error_model="numpy",
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
        forceinline=inline,
        _nrt=False,
    )(function)
    if not config.DISABLE_JIT:
        template = dispatcher.get_call_template
        dispatcher.get_call_template = lambda args, kws: template(
            tuple(map(_wide, args)), {k: _wide(v) for k, v in kws.items()}
        )
    return cast(F, dispatcher)


def rare(function: F) -> F:
    """Compile as :func:`callee` does, but without inlining, for functions that run rarely or are called from many places."""
    return callee(function, inline=False)


def _wide(kind: Any) -> Any:
    kind = types.unliteral(kind)
    return types.int64 if kind in (types.int8, types.int16, types.int32) else kind


def inner(function: F) -> F:
    """Compile ``function`` into its callers, which are compiled themselves.

    It cannot be called from Python and is never a function of its own in the machine code, so there is less to compile. Division
    by zero is not checked: the scheduler's divisors are never zero, and the check costs a third of the compile time. numba's
    rewrites, which fuse expressions of whole arrays, are left out: these functions have no such expressions, and looking for them
    takes an eighth of the function calls that numba makes when it compiles the engine.
    """
    return cast(
        F,
        numba.njit(  # type: ignore[call-overload]  # its stubs leave some options out
            fastmath=False,
            nogil=True,
            error_model="numpy",
            forceinline=True,
            no_rewrites=True,
            no_cpython_wrapper=True,
            no_cfunc_wrapper=True,
        )(function),
    )
