"""Finds bundled files, writes new files so that no reader sees half of one, and computes digests."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from wastedcores.errors import DatasetError, WastedCoresError

if TYPE_CHECKING:
    import polars as pl

_PACKAGE = Path(__file__).resolve().parent


def find(*parts: str) -> Path:
    """Path of a bundled file or folder, e.g. ``find("notebooks", "01_is_my_machine_wasting.ipynb")``.

    A checkout's own file goes before a bundled copy, because an editable install may leave a stale one behind.
    """
    for base in (_PACKAGE.parent, _PACKAGE / "_bundled"):
        if base.name != "_bundled" and not (base / "pyproject.toml").exists():
            continue
        path = base.joinpath(*parts)
        if path.exists():
            return path
    raise WastedCoresError(
        f"{'/'.join(parts)}: not found in the checkout nor in the installed package {_PACKAGE}. "
        "The installation is incomplete; reinstall wastedcores."
    )


def collectors() -> Path:
    """Folder of the BCC collectors."""
    return find("collectors")


def notebooks() -> Path:
    """Folder of the notebooks."""
    return find("notebooks")


def datasets() -> Path:
    """Folder of the bundled data sets."""
    return find("datasets")


def read_table(
    name: str, schema: dict[str, type[pl.DataType]], tool: str, path: Path | str | None = None
) -> pl.DataFrame:
    """Read a table of ``datasets``, or a table that the same tool of the repository wrote elsewhere."""
    import polars as pl

    file = find("datasets", name) if path is None else Path(path)
    try:
        return pl.read_csv(file, schema=schema)
    except (OSError, pl.exceptions.PolarsError) as e:
        raise DatasetError(
            f"{file}: expected the table that {tool} writes, with columns {', '.join(schema)} "
            f"({str(e).splitlines()[0]})."
        ) from e


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A temporary name beside ``path`` to write to; it becomes ``path`` when the block ends without an error.

    Readers never see half a file, and an error leaves what stood there before. The file gets the permissions that the
    process's umask gives to new files. A device or a pipe is refused, because the file would take its place. A folder
    is refused before the block runs, so that no work is lost.
    """
    if is_special(path):
        raise WastedCoresError(f"{path}: this is a device or a pipe; expected the name of a file.")
    if path.is_dir():
        raise WastedCoresError(f"{path}: this is a directory; expected the name of a file.")
    # the name is known before the file is made, so that the file is removed whenever an interrupt comes
    part = path.with_name(f"{part_prefix(path.stem)}{secrets.token_hex(4)}.part{path.suffix}")
    try:
        part.open("xb").close()
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def is_special(path: Path) -> bool:
    """Tell whether a path is a device, a pipe, or a link to one such as ``/dev/stdout``, whatever it leads to at the moment."""
    link = path.is_symlink() and path.absolute().is_relative_to("/dev")
    return link or (path.exists() and not path.is_file() and not path.is_dir())


def text_of(path: Path | str, errors: str = "strict") -> str | None:
    """Read a text file without the white space around it; None: it cannot be read."""
    try:
        return Path(path).read_text(errors=errors).strip()
    except OSError:
        return None


def part_prefix(name: str) -> str:
    """Return the beginning of the name of an unfinished file; the process id in it tells whether it is still being written."""
    return f".{name}.{os.getpid()}-"


def leftovers(folder: Path) -> list[Path]:
    """Return what killed processes left in a folder: raw recordings of captures, and unfinished files and folders.

    Files of processes that still run are not returned.
    """
    found = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        unfinished = _UNFINISHED.search(path.name)
        if unfinished and not Path(f"/proc/{unfinished[1] or unfinished[2]}").exists():
            found.append(path)
    return found


def what_to_do(left: Path) -> str:
    """Return what to do with one of :func:`leftovers`."""
    return "import or delete it" if left.name.endswith(".raw") else "delete it"


#: a capture's raw recording, and names that begin with part_prefix()
_UNFINISHED = re.compile(r"^.+\.(\d+)\.raw$|^\..*\.(\d+)-\w+\.part(?:\.\w+)?$")


def file_digest(path: Path) -> str:
    """SHA-256 of one file, in hexadecimal."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as e:
        raise WastedCoresError(f"{path}: cannot be read ({e.strerror}).") from e


def digest_of_files(files: Sequence[Path]) -> str:
    """SHA-256 of what ``sha256sum`` prints for these files in order of their names.

    This is one number for a trace of several files, which anybody can check with ``sha256sum * | sha256sum``.
    """
    lines = [f"{file_digest(f)}  {f.name}\n" for f in sorted(files, key=lambda f: f.name)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
