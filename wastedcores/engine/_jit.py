"""The one decorator for compiled functions and the one rule for their cache.

numba's cache does not notice an edit in a *callee's* file: a cached caller goes on returning the old answer. So the
cache lies in a folder named by a hash of every source file of this package: any edit, and everything is compiled
anew. Sources, numba and Python version together name the folder; the last few are kept.
``WASTEDCORES_JIT_CACHE=0`` turns it off, ``WASTEDCORES_CACHE_DIR`` moves it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import config as _config

config: Any = _config  # its settings are made at run time
F = TypeVar("F", bound=Callable[..., Any])

_KEEP = 4


def _cache_folder() -> Path | None:
    """Folder for this state of the sources, or None where nothing can be written."""
    if os.environ.get("WASTEDCORES_JIT_CACHE", "1") == "0" or config.DISABLE_JIT:
        return None
    digest = hashlib.sha256(f"{numba.__version__} {sys.version_info[:3]}".encode())
    for source in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(source.read_bytes())
    base = os.environ.get("WASTEDCORES_CACHE_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "wastedcores"
    )
    folder = Path(base) / "jit" / digest.hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        if not os.access(folder, os.W_OK):
            return None
        older = sorted(folder.parent.iterdir(), key=lambda p: p.stat().st_mtime)[:-_KEEP]
    except OSError:
        return None
    for folder_gone in older:
        shutil.rmtree(folder_gone, ignore_errors=True)
    return folder


CACHE_FOLDER = _cache_folder()


def jit(function: F) -> F:
    """Compile ``function``: no Python objects, no fast-math, same input same bytes."""
    before = config.CACHE_DIR
    config.CACHE_DIR = str(CACHE_FOLDER or before)
    try:
        return cast(
            F, numba.njit(cache=CACHE_FOLDER is not None, fastmath=False, nogil=True)(function)
        )
    finally:
        config.CACHE_DIR = before


def lean(function: F) -> F:
    """As :func:`jit`, without reference counts: for functions that make no arrays.

    numba counts references to every array that is passed on or sliced, with locked instructions. Where a helper is
    called for each field of a record, they took three quarters of the time.
    """
    before = config.CACHE_DIR
    config.CACHE_DIR = str(CACHE_FOLDER or before)
    try:
        return cast(
            F,
            numba.njit(  # type: ignore[call-overload]  # its stubs leave _nrt out
                cache=CACHE_FOLDER is not None, fastmath=False, nogil=True, _nrt=False
            )(function),
        )
    finally:
        config.CACHE_DIR = before


def inner(function: F) -> F:
    """Compile ``function`` for callers that are compiled themselves: no entry from Python, so less to compile.

    Division by zero is not checked either: the scheduler's divisors are never zero, and the check in every function
    costs a third of the compile time.
    """
    return cast(
        F,
        numba.njit(  # type: ignore[call-overload]  # its stubs leave the wrapper options out
            fastmath=False,
            nogil=True,
            error_model="numpy",
            no_cpython_wrapper=True,
            no_cfunc_wrapper=True,
        )(function),
    )
