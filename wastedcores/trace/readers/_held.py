"""A file that is closed when its reading ends, however it ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import IO, Any


@dataclass
class Held:
    """What keeps a file open between the blocks it hands out.

    A generator that an error left suspended is closed when the error is forgotten, at some collection of garbage; until
    then its file would stay open. Whoever began the reading calls :meth:`close`.
    """

    _file: IO[Any] | None = field(default=None, init=False, repr=False)

    def hold(self, file: IO[bytes]) -> IO[bytes]:
        """Remember what is to be closed."""
        self._file = file
        return file

    def close(self) -> None:
        """Close it, if it was opened; twice does no harm."""
        if self._file is not None:
            self._file.close()
