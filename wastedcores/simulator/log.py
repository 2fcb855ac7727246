"""The log of a replay, which is taken out of the engine's table part by part."""

from __future__ import annotations

import numpy as np

from wastedcores.simulator.engine.world import log_column

_FIRST_ROWS = 1 << 12


class Log:
    """The parts of a log in one array.

    The array grows in place, because fresh memory costs more than the copy.
    """

    def __init__(self) -> None:
        self._table = np.empty((_FIRST_ROWS, log_column.WIDTH), np.int64)
        self._rows = 0

    def add(self, part: np.ndarray, rows: int) -> None:
        """Append records."""
        room = self._rows + part.size // log_column.WIDTH
        if room > len(self._table):
            # this is realloc(), which moves pages instead of copying their content
            self._table.resize(
                (max(room, 3 * len(self._table) // 2), log_column.WIDTH), refcheck=False
            )
        self._table[self._rows : room].reshape(part.shape)[:] = part
        self._rows += rows

    def whole(self) -> np.ndarray:
        """Return everything that was added, int64 (records, 8). Nothing can be added after this."""
        self._table.resize((self._rows, log_column.WIDTH), refcheck=False)
        return self._table
