"""The log of a replay, which is taken out of the engine's table part by part.

Under v6.12, the sets of CPUs that searches examined are then split off from the log.
"""

from __future__ import annotations

import numpy as np

from wastedcores.simulator.engine.codes import log_kind
from wastedcores.simulator.engine.world import log_column

_FIRST_ROWS = 1 << 12


class Log:
    """The parts of a log in one array.

    The array grows in place. In a new array, the first use of its memory would take longer than the copy of the records.
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


def take_scans(log: np.ndarray, masks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Give a row to each search's set of examined CPUs, and remove from the log the records that hold these sets.

    For each search the engine writes a ``CONSIDERED`` record whose PID column has -1 instead of a row. The records after it hold
    the words of the set, six words per record.
    """
    kind = log[:, log_column.KIND]
    is_part = kind == log_kind.CONSIDERED_PART
    if not is_part.any():
        return log, masks
    heads = np.flatnonzero((kind == log_kind.CONSIDERED) & (log[:, log_column.PID] == -1))
    words = log[is_part, log_column.CPU :]
    sets, number = np.unique(words.reshape(len(heads), -1), axis=0, return_inverse=True)
    rows = np.zeros((len(sets), masks.shape[1]), dtype=masks.dtype)
    width = min(sets.shape[1], masks.shape[1])
    rows[:, :width] = sets[:, :width]
    log[heads, log_column.PID] = len(masks) + number.ravel()
    return log[~is_part], np.concatenate([masks, rows])
