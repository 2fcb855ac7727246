"""Finds switches that happened but were not recorded: a CPU stops another task than the task that it started last.

This was seen on a virtual machine with Linux 6.18 that hides the switches and wakeups of its agent's threads from every tracer.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.trace.readers.schedtrace.records import I64, KINDS, U64, bits

_CPUS = 1 << 16  # a record has 16 bits for a CPU


class HiddenSwitches:
    """Remembers between blocks, for each CPU, which task was started last and when, and the time of the last count."""

    def __init__(self) -> None:
        self._running = np.full(_CPUS, -1, np.int64)
        self._began_ns = np.zeros(_CPUS, np.int64)
        self._counted_ns = np.zeros(_CPUS, np.int64)

    def found(
        self, ts_ns: I64, kind: NDArray[np.int8], w1: U64, cpu: NDArray[np.int32]
    ) -> pl.DataFrame:
        """Return the hidden switches among some records, at the latest possible time, which is that of the next switch.

        The columns are ``ts_ns``, ``cpu``, ``prev_pid``, ``pid``, ``row`` (the row of the next switch) and ``uncounted``
        (whether the kernel has not told how many tasks are on the runqueue since ``prev_pid`` was started).
        """
        at = np.flatnonzero(kind == KINDS["switch"])
        at = at[np.lexsort((ts_ns[at], cpu[at]))]
        c = cpu[at].astype(np.int64)
        first, last = (np.diff(c, **{side: -1}) != 0 for side in ("prepend", "append"))
        out, new = bits(w1[at], 0, 22), bits(w1[at], 22, 22)
        running = np.where(first, self._running[c], np.roll(new, 1))
        began_ns = np.where(first, self._began_ns[c], np.roll(ts_ns[at], 1))
        self._running[c[last]], self._began_ns[c[last]] = new[last], ts_ns[at][last]
        hidden = np.flatnonzero((running >= 0) & (running != out))
        counts = np.flatnonzero(kind == KINDS["nr_running"])
        of_cpu = bits(w1[counts], 0, 16)
        found = pl.DataFrame(
            {
                "ts_ns": ts_ns[at][hidden],
                "cpu": c[hidden].astype(np.int32),
                "prev_pid": running[hidden].astype(np.int32),
                "pid": out[hidden].astype(np.int32),
                "row": at[hidden],
                "began_ns": began_ns[hidden],
                "counted_ns": self._counted_ns[c[hidden]],
            }
        )
        if hidden.size:
            told = pl.DataFrame({"ts_ns": ts_ns[counts], "cpu": of_cpu.astype(np.int32)})
            told = told.with_columns(told_ns="ts_ns").sort("ts_ns")
            found = found.sort("ts_ns", maintain_order=True).join_asof(
                told, on="ts_ns", by="cpu", check_sortedness=False
            )
            found = found.with_columns(counted_ns=pl.coalesce("told_ns", "counted_ns"))
        np.maximum.at(self._counted_ns, of_cpu, ts_ns[counts])
        uncounted = pl.col("counted_ns") <= pl.col("began_ns")
        return found.select("ts_ns", "cpu", "prev_pid", "pid", "row", uncounted=uncounted)
