"""The decorators for compiled functions, and where their machine code is kept.

Each cached function has a folder that is named by what it depends on (:mod:`wastedcores.jit.fingerprint`), below one that
is named by the versions of numba and Python and by the sources of this room. So an edit recompiles the functions that
it changes and no others. The last few folders of a function are kept.
``WASTEDCORES_JIT_CACHE=0`` turns the cache off, ``WASTEDCORES_CACHE_DIR`` moves it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import config as _config

from wastedcores.jit.fingerprint import fingerprint

config: Any = _config  # its settings are made at run time
F = TypeVar("F", bound=Callable[..., Any])

_KEEP = 4


def _cache_root() -> Path | None:
    """Folder for this numba, this Python and these decorators, or None where nothing can be written."""
    if os.environ.get("WASTEDCORES_JIT_CACHE", "1") == "0" or config.DISABLE_JIT:
        return None
    digest = hashlib.sha256(f"{numba.__version__} {sys.version_info[:3]}".encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    base = os.environ.get("WASTEDCORES_CACHE_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "wastedcores"
    )
    root = Path(base) / "jit" / digest.hexdigest()[:16]
    try:
        root.mkdir(parents=True, exist_ok=True)
        os.utime(root)
    except OSError:
        return None
    _keep_last(root.parent)
    return root if os.access(root, os.W_OK) else None


def _keep_last(folder: Path) -> None:
    """Remove all but the folders used last."""
    try:
        gone = sorted(folder.iterdir(), key=lambda p: p.stat().st_mtime)[:-_KEEP]
    except OSError:  # another process is removing them
        return
    for path in gone:
        shutil.rmtree(path, ignore_errors=True)


CACHE_ROOT = _cache_root()


@contextmanager
def cache_of(function: Callable[..., Any]) -> Iterator[bool]:
    """Within this, numba keeps what it compiles in the function's own folder; the value says whether it keeps anything."""
    if CACHE_ROOT is None:
        yield False
        return
    folder = CACHE_ROOT / f"{function.__module__}.{function.__name__}" / fingerprint(function)
    if not folder.exists():
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            yield False
            return
        _keep_last(folder.parent)
    before, config.CACHE_DIR = config.CACHE_DIR, str(folder)
    try:
        yield True
    finally:
        config.CACHE_DIR = before


def _compiled(function: F, **options: Any) -> F:
    with cache_of(function) as cache:
        return cast(F, numba.njit(cache=cache, fastmath=False, nogil=True, **options)(function))


def jit(function: F) -> F:
    """Compile ``function``: no Python objects, no fast-math, same input same bytes."""
    return _compiled(function)


def lean(function: F) -> F:
    """As :func:`jit`, without reference counts: for functions that make no arrays.

    numba counts references to every array that is passed on or sliced, with locked instructions. Where a helper is
    called for each field of a record, they took three quarters of the time.
    """
    return _compiled(function, _nrt=False)


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
