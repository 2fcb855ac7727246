"""The decorators for compiled functions, and the cache of their machine code.

Each cached function has a folder that is named by a digest of everything the function depends on
(:mod:`wastedcores.jit.fingerprint`). These folders lie in one that is named by the versions of numba and Python and by the
sources of this package. An edit therefore recompiles the functions that it changes and no others. The four folders of a
function that were used last are kept. A folder or file that somebody else owns or may write is not used (docs/security.md).
``WASTEDCORES_JIT_CACHE=0`` turns the cache off, ``WASTEDCORES_CACHE_DIR`` moves it.
"""

from __future__ import annotations

import gc
import hashlib
import os
import shutil
import stat
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import config as _config
from numba.core import event, types
from numba.core.caching import FunctionCache
from numba.core.runtime import rtsys

from wastedcores.jit.fingerprint import fingerprint

config: Any = _config  # numba defines its settings at run time
F = TypeVar("F", bound=Callable[..., Any])

_KEEP = 4


def _cache_root() -> Path | None:
    """Return the folder for this numba, this Python and these decorators, or None if nothing can be written."""
    if os.environ.get("WASTEDCORES_JIT_CACHE", "1") == "0" or config.DISABLE_JIT:
        return None
    digest = hashlib.sha256(f"{numba.__version__} {sys.version_info[:3]}".encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    base = os.environ.get("WASTEDCORES_CACHE_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "wastedcores"
    )
    root = Path(base).resolve() / "jit" / digest.hexdigest()[:16]
    try:
        root.parent.parent.mkdir(0o700, parents=True, exist_ok=True)
        root.parent.mkdir(0o700, exist_ok=True)
        root.mkdir(0o700, exist_ok=True)
        if not _trusted(root):
            return None
        os.utime(root)
    except OSError:
        return None
    _keep_last(root.parent)
    return root if os.access(root, os.W_OK) else None


def _trusted(folder: Path, *files: Path) -> bool:
    """Tell whether nobody but this user and root can write a folder, what is above it, and these files below it.

    numba's cache files are pickles, which execute whatever their writer wants. So root with a user's HOME does not load that
    user's cache. Below a folder that others cannot enter, such as most homes, only owners matter; in a sticky folder, such as
    /tmp, nobody replaces what belongs to another user.
    """
    private = False
    for path in (*reversed(folder.parents), folder, *files):
        about = path.lstat()
        mode = about.st_mode
        mine = about.st_uid in (os.geteuid(), 0)
        if mine and (private or not mode & 0o022 or (mode & stat.S_ISVTX and stat.S_ISDIR(mode))):
            private = private or (stat.S_ISDIR(mode) and not mode & 0o011)
            continue
        _warn_once(
            f"{path} is writable by others (mode {stat.S_IMODE(mode):o})"
            if mine
            else f"{path} belongs to user {about.st_uid}, and this is user {os.geteuid()}"
        )
        return False
    return True


def _warn_once(why: str) -> None:
    if not _warned:
        _warned.append(why)
        warnings.warn(
            f"{why}, so the cache of compiled code is not used, and everything is compiled again each time. Remove it, or let "
            "WASTEDCORES_CACHE_DIR name a folder of your own.",
            RuntimeWarning,
            stacklevel=2,
        )


_warned: list[str] = []


def _keep_last(folder: Path) -> None:
    """Remove all subfolders but those that were used last."""
    try:
        gone = sorted(folder.iterdir(), key=lambda p: p.stat().st_mtime)[:-_KEEP]
    except OSError:  # another process is removing them
        return
    for path in gone:
        shutil.rmtree(path, ignore_errors=True)


CACHE_ROOT = _cache_root()


@contextmanager
def cache_of(function: Callable[..., Any]) -> Iterator[bool]:
    """Let numba cache what it compiles in the function's own folder; the value tells whether it caches anything."""
    if CACHE_ROOT is None:
        yield False
        return
    folder = CACHE_ROOT / f"{function.__module__}.{function.__name__}" / fingerprint(function)
    try:
        if not folder.exists():
            folder.parent.mkdir(0o700, exist_ok=True)
            folder.mkdir(0o700, exist_ok=True)
            _keep_last(folder.parent)
        files = list(folder.rglob("*"))
        usable = _trusted(folder, *files)
    except OSError:
        usable = False
    if not usable:
        yield False
        return
    if any(path.suffix == ".nbi" for path in files):
        _found.add(f"{function.__module__}.{function.__name__}")
    before, config.CACHE_DIR = config.CACHE_DIR, str(folder)
    try:
        yield True
    finally:
        config.CACHE_DIR = before


def cached(function: Callable[..., Any]) -> bool:
    """Return whether machine code of a compiled function is in this process, or was in the cache at its module's import."""
    in_process = bool(getattr(function, "signatures", ()))
    return in_process or f"{function.__module__}.{function.__name__}" in _found


_found: set[str] = set()


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
        """Pause when a function begins to be compiled, perhaps on behalf of another."""
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


class _PromptCache(FunctionCache):  # type: ignore[misc]  # numba has no types here
    """Loads machine code without everything that numba knows about Python's and numpy's functions.

    Only the compiler needs that, and it asks for it itself. Importing it took a sixth of the time of a short command.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what was compiled for a signature, or None."""
        rtsys.initialize(target_context)  # machine code that makes arrays calls it
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


def _compiled(function: F, **options: Any) -> F:
    dispatcher: Any = numba.njit(fastmath=False, nogil=True, **options)(function)
    with cache_of(function) as cache:
        if cache:
            dispatcher._cache = _PromptCache(function)
    return cast(F, dispatcher)


def jit(function: F) -> F:
    """Compile ``function`` without Python objects and without fast-math, so that the same input gives the same bytes."""
    return _compiled(function)


def lean(function: F) -> F:
    """Compile as :func:`jit` does, but without reference counts, for functions that make no arrays.

    numba counts references to every array that is passed on or sliced, with locked instructions. In a helper that is
    called for each field of a record, they took three quarters of the time.
    """
    return _compiled(function, _nrt=False)


def callee(function: F) -> F:
    """Compile ``function`` for callers that are compiled themselves; LLVM decides where it is inlined.

    It cannot be called from Python, so there is no wrapper to compile, and it makes no arrays (see :func:`lean`). It takes every
    integer as int64 and is compiled once; numba would compile it anew for each width and for each constant.
    """
    dispatcher: Any = numba.njit(  # type: ignore[call-overload]  # its stubs leave some options out
        fastmath=False,
        nogil=True,
        error_model="numpy",
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
        _nrt=False,
    )(function)
    if not config.DISABLE_JIT:
        template = dispatcher.get_call_template
        dispatcher.get_call_template = lambda args, kws: template(
            tuple(map(_wide, args)), {k: _wide(v) for k, v in kws.items()}
        )
    return cast(F, dispatcher)


def _wide(kind: Any) -> Any:
    kind = types.unliteral(kind)
    return types.int64 if kind in (types.int8, types.int16, types.int32) else kind


def inner(function: F) -> F:
    """Compile ``function`` into its callers, which are compiled themselves.

    It cannot be called from Python and is never a function of its own in the machine code, so there is less to compile. Division
    by zero is not checked: the scheduler's divisors are never zero, and the check costs a third of the compile time. numba's
    rewrites are left out, which fuse expressions of whole arrays. These functions have none, and looking for them takes an eighth
    of the function calls that numba makes when it compiles the engine.
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
