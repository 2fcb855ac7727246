"""Traces that are several files in one folder."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from wastedcores.errors import WastedCoresError


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


def digest(files: Sequence[Path]) -> str:
    """SHA-256 of what ``sha256sum`` prints of these files, in order of their names.

    One number for a trace of several files, which anybody can check: ``sha256sum * | sha256sum``.
    """
    lines = [f"{file_digest(f)}  {f.name}\n" for f in sorted(files, key=lambda f: f.name)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
