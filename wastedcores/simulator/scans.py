"""The CPUs that a search for an idle CPU examined (v6.12): one row per distinct set, behind the CPU sets of the table."""

from __future__ import annotations

import numpy as np

from wastedcores.simulator.engine.codes import log_kind
from wastedcores.simulator.engine.world import log_column


def take_scans(log: np.ndarray, masks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Give the examined CPUs of each search a row, and take the records that hold them out of the log.

    The engine writes a ``CONSIDERED`` record whose set has no row (-1), and behind it the words of the set, six per record.
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
