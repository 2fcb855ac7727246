"""The log of a replay, drained from the engine part by part."""

from __future__ import annotations

import numpy as np

from wastedcores.simulator.engine.world import log_column

_FIRST_ROWS = 1 << 12


class Log:
    """Parts one behind the other, in one array that grows where it is: fresh memory costs more than what is put there."""

    def __init__(self) -> None:
        self._table = np.empty((_FIRST_ROWS, log_column.WIDTH), np.int64)
        self._rows = 0

    def add(self, part: np.ndarray, rows: int) -> None:
        """Copy the first ``rows`` records of ``part``, (any, LIST) as the engine's table has them, behind the rest."""
        room = self._rows + part.size // log_column.WIDTH
        if room > len(self._table):
            # realloc(), which moves pages and not what is in them
            self._table.resize(
                (max(room, 3 * len(self._table) // 2), log_column.WIDTH), refcheck=False
            )
        self._table[self._rows : room].reshape(part.shape)[:] = part
        self._rows += rows

    def whole(self) -> np.ndarray:
        """Everything added; nothing can be added after it."""
        self._table.resize((self._rows, log_column.WIDTH), refcheck=False)
        return self._table
