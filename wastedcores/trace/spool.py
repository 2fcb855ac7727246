"""Copies a trace that cannot be read several times, such as a pipe or a compressed binary file, to a temporary file."""

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
from wastedcores.trace.recognisers import PERF_DATA, TRACE_DAT

#: A file that unpacks to more than this many times its size is refused. xz packs the ring buffers of an idle machine, which are
#: mostly zeros, to a hundredth of their size.
_MOST_TIMES = 2000


@contextmanager
def seekable(path: str | Path) -> Iterator[Path]:
    """Provide a file that can be read several times; every error names the user's file and not the copy."""
    copy = _copy(path)
    try:
        yield copy or Path(path)
    except WastedCoresError as e:
        if copy:
            e.args = (str(e).replace(str(copy), str(path)), *e.args[1:])
        raise


def _copy(path: str | Path) -> Path | None:
    """Return a copy of a pipe or of a packed binary file; None if the file can be read as it is, or does not exist."""
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
            return _unpacked(path)
        with path.open("rb") as pipe:
            return _spool(pipe, path.name)
    except OSError as e:
        if path.exists():
            raise WastedCoresError(f"{path}: cannot be read ({e.strerror or e}).") from e
        return None  # the reader reports the error


def _unpacked(path: Path) -> Path | None:
    """Return an unpacked copy of a compressed trace.dat or perf.data, whose readers map their files; None for any other file."""
    from wastedcores.trace.readers.support.text_reading import head, unpacked

    if not path.is_file():
        return None
    with path.open("rb") as file:
        packed = not file.read(len(TRACE_DAT)).startswith((TRACE_DAT, PERF_DATA))
    if not packed or not head(path).startswith((TRACE_DAT, PERF_DATA)):
        return None
    with unpacked(path) as stream:
        return _spool(stream, path.stem, _MOST_TIMES * path.stat().st_size)


def kept_until_exit() -> Path:
    """Make a folder for temporary files that are read until the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="wastedcores-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _spool(pipe: IO[bytes], name: str, most: int | None = None) -> Path:
    folder = kept_until_exit()
    copy = folder / name
    try:
        with copy.open("wb") as out:
            while chunk := pipe.read(1 << 20):
                out.write(chunk)
                if most is not None and out.tell() > most:
                    shutil.rmtree(folder, ignore_errors=True)
                    raise TraceFormatError(
                        f"{name}: it unpacks to more than {_MOST_TIMES} times its size, which no trace does. Unpack it yourself "
                        "if it is one."
                    )
    except OSError as e:
        shutil.rmtree(folder, ignore_errors=True)
        raise WastedCoresError(
            f"{name}: copying it to {folder.parent} failed ({e.strerror or e}). Set TMPDIR to a folder with room."
        ) from e
    return copy
