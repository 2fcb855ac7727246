"""Finds bundled files, writes new files so that nobody sees half of one, and computes digests."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from wastedcores.errors import WastedCoresError

_PACKAGE = Path(__file__).resolve().parent


def find(*parts: str) -> Path:
    """Path of a bundled file or folder, e.g. ``find("notebooks", "01_is_my_machine_wasting.ipynb")``.

    The checkout's own copy wins: an editable install may leave a stale bundle behind.

    Raises
    ------
    WastedCoresError
        If neither the checkout nor the installed package has it.
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


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A temporary name beside ``path`` to write to; it becomes ``path`` when the block ends without an error.

    Readers never see half a file, and an error leaves what stood there before. The file gets the permissions that the
    process's umask gives to new files.

    Parameters
    ----------
    path
        The file that shall exist afterwards.

    Yields
    ------
    Path
        A new, empty file in the same folder and with the same ending.
    """
    # named before it is there, so that an interrupt at any moment finds what to take away
    part = path.with_name(f".{path.stem}.{secrets.token_hex(4)}.part{path.suffix}")
    try:
        part.open("xb").close()
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def file_digest(path: Path) -> str:
    """SHA-256 of one file, in hexadecimal.

    Raises
    ------
    WastedCoresError
        The file cannot be read.
    """
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
