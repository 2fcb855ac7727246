"""The cache of machine code: a file for each signature of each function, in a folder for each version of the function.

A function's folder is named by a digest of everything that the function depends on (:mod:`wastedcores.jit.fingerprint`). These
folders lie in a folder that is named by the versions of numba and Python and by the sources of this package. An edit therefore
recompiles the functions that it changes. Of each function, the four folders that were used last are kept. A folder or file that
somebody else owns or may write is not used (docs/security.md). ``WASTEDCORES_JIT_CACHE=0`` turns the cache off,
``WASTEDCORES_CACHE_DIR`` moves it.

numba's own cache has an index per function that gives its files numbers. Two processes that compile a function for different
types at the same time give both files the same number, and one of them later runs the other's machine code. Here the name of a
file is a digest of the function and of the signature, so files that processes and threads write at the same time never collide.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import pickle
import secrets
import shutil
import stat
import sys
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import config as _config
from numba.core.caching import NullCache, _cache_log
from numba.core.compiler import CompileResult
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

from wastedcores.jit.fingerprint import fingerprint

config: Any = _config  # numba defines its settings at run time

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
    """Tell whether nobody but this user and root can write a folder, the folders above it, and these files below it.

    The files are pickles, which execute whatever their writer wants. So root with a user's HOME does not load that user's
    cache. Below a folder that others cannot enter (such as most home folders), only the owner of each file and folder is checked,
    and not its permissions. A sticky folder that others can write, such as /tmp, is accepted, because there nobody can replace
    another user's files.
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


@cache
def _source_digest(file: str) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


class FileCache(NullCache):  # type: ignore[misc]  # numba has no types here
    """Keeps the machine code that numba makes of one function; numba calls its methods.

    Machine code is loaded without numba's definitions of Python's and numpy's functions. Only the compiler needs these
    definitions, and it loads them itself; importing them took a sixth of the time of a short command.
    """

    def __init__(self, folder: Path, function: Callable[..., Any]) -> None:
        self._folder = folder
        self._source = _source_digest(inspect.getfile(function))

    @property
    def cache_path(self) -> str:
        """The folder."""
        return str(self._folder)

    def _file(self, signature: Any, codegen: Any) -> tuple[Path, bytes]:
        """Return the file of a signature on this processor, and what its contents begin with."""
        key = repr((signature, codegen.magic_tuple(), self._source)).encode()
        return self._folder / f"{hashlib.sha256(key).hexdigest()[:32]}.nbc", key

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return what was compiled for a signature, or None."""
        rtsys.initialize(target_context)  # machine code that allocates arrays needs numba's runtime
        path, key = self._file(signature, target_context.codegen())
        try:
            data = path.read_bytes()
        except OSError:
            return None
        if not data.startswith(key):
            return None
        _cache_log("[cache] data loaded from %r", str(path))
        return CompileResult._rebuild(target_context, *pickle.loads(memoryview(data)[len(key) :]))

    def save_overload(self, signature: Any, result: Any) -> None:
        """Write what was compiled for a signature; readers see the whole file or none. If the disk is full, nothing is kept."""
        if result.library.has_dynamic_globals or not all(x.can_cache for x in result.lifted):
            return
        path, key = self._file(signature, result.codegen)
        part = path.with_suffix(f".{secrets.token_hex(8)}.tmp")
        try:
            part.write_bytes(key + dumps(result._reduce()))
            part.replace(path)
            _cache_log("[cache] data saved to %r", str(path))
        except OSError:
            part.unlink(missing_ok=True)


def cache_of(function: Callable[..., Any]) -> FileCache | None:
    """Return the cache of a function, or None if nothing can be cached."""
    if CACHE_ROOT is None:
        return None
    folder = CACHE_ROOT / f"{function.__module__}.{function.__name__}" / fingerprint(function)
    try:
        if not folder.exists():
            folder.parent.mkdir(0o700, exist_ok=True)
            folder.mkdir(0o700, exist_ok=True)
            _keep_last(folder.parent)
        files = list(folder.iterdir())
        if not _trusted(folder, *files):
            return None
        found = FileCache(folder, function)
    except OSError:
        return None
    if any(path.suffix == ".nbc" for path in files):
        _found.add(f"{function.__module__}.{function.__name__}")
    return found


def cached(function: Callable[..., Any]) -> bool:
    """Return whether machine code of a compiled function is in this process, or was in the cache at its module's import."""
    in_process = bool(getattr(function, "signatures", ()))
    return in_process or f"{function.__module__}.{function.__name__}" in _found


_found: set[str] = set()
