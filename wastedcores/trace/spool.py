"""Copies what can be read only once, such as a pipe, to a temporary file, because readers look at a file several times."""

from __future__ import annotations

import atexit
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from wastedcores.errors import TraceFormatError, UsageError, WastedCoresError


@contextmanager
def seekable(path: str | Path) -> Iterator[Path]:
    """Provide a file that can be read several times, and name the user's file in every error."""
    copy = _copy(path)
    try:
        yield copy or Path(path)
    except WastedCoresError as e:
        if copy:
            e.args = (str(e).replace(str(copy), str(path)), *e.args[1:])
        raise


def _copy(path: str | Path) -> Path | None:
    """Return a copy of a pipe; None: the file can be read as it is, or there is none."""
    if str(path) == "-":
        if sys.stdin.isatty():
            raise UsageError(
                "-: the standard input is a terminal; expected a trace from a pipe or a file."
            )
        return _spool(sys.stdin.buffer, "stdin")
    path = Path(path)
    try:
        mode = path.stat().st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            raise TraceFormatError(
                f"{path}: this is a device; expected a file or a pipe with a trace."
            )
        if not stat.S_ISFIFO(mode):
            return None
        with path.open("rb") as pipe:
            return _spool(pipe, path.name)
    except OSError as e:
        if path.exists():
            raise WastedCoresError(f"{path}: cannot be read ({e.strerror or e}).") from e
        return None  # the reader says so


def kept_until_exit() -> Path:
    """Make a folder for temporary files that are read until the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="wastedcores-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _spool(pipe: IO[bytes], name: str) -> Path:
    folder = kept_until_exit()
    copy = folder / name
    try:
        with copy.open("wb") as out:
            shutil.copyfileobj(pipe, out, 1 << 20)
    except OSError as e:
        shutil.rmtree(folder, ignore_errors=True)
        raise WastedCoresError(
            f"{name}: copying it to {folder.parent} failed ({e.strerror or e}). Set TMPDIR to a folder with room."
        ) from e
    return copy
