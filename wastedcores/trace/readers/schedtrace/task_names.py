"""Names of tasks over time, for files that state a name only when it changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.limits import PID_MAX_LIMIT

_SPAN = 1 << 41  # ns; a batch of records is shorter

I64 = NDArray[np.int64]


class TaskNames:
    """The name of every pid, and the changes within the current batch."""

    def __init__(self) -> None:
        self._of = np.full(PID_MAX_LIMIT, -1, np.int32)
        self._ids: dict[str, int] = {}
        self._names: list[str] = []
        self._keys = np.zeros(0, np.int64)
        self._new = np.zeros(0, np.int32)
        self._base = 0
        self._after: dict[int, int] = {}

    def _id(self, name: str) -> int:
        if name not in self._ids:
            self._ids[name] = len(self._names)
            self._names.append(name)
        return self._ids[name]

    def start(self, pid: NDArray[np.uint32], comm: list[str]) -> None:
        """Set the names of tasks at the start."""
        for p, c in zip(pid.tolist(), comm, strict=True):
            if p < PID_MAX_LIMIT:
                self._of[p] = self._id(c)

    def learn(
        self,
        ts: I64,
        kind: NDArray[np.int8],
        w1: NDArray[np.uint64],
        kinds: dict[str, int],
    ) -> None:
        """Learn the names that the exec, rename and fork records of a batch state."""
        telling = [kinds["exec"], kinds["rename"], kinds["fork"]]
        at = np.flatnonzero(np.isin(kind, telling))
        at = at[np.argsort(ts[at], kind="stable")]
        self._base = int(ts.min()) if ts.size else 0
        now: dict[int, int] = {}
        changes: list[tuple[int, int, int]] = []
        for i in at.tolist():
            pid = int(w1[i]) & (PID_MAX_LIMIT - 1)
            if kind[i] == kinds["fork"]:
                parent = int(w1[i]) >> 22 & (PID_MAX_LIMIT - 1)
                name = now.get(parent, int(self._of[parent]))
            elif i + 2 < kind.size and kind[i + 1] == kind[i + 2] == kinds["name"]:
                raw = w1[i + 1 : i + 3].tobytes().split(b"\0")[0]
                name = self._id(raw[:15].decode(errors="replace"))
            else:
                continue
            now[pid] = name
            changes.append((pid, int(ts[i]), name))
        changes.sort()
        self._keys = np.array([p * _SPAN + t - self._base for p, t, _ in changes], np.int64)
        self._new = np.array([n for _, _, n in changes], np.int32)
        self._after = now

    def fill(self, columns: dict[str, Any], cpu: NDArray[np.int32]) -> None:
        """Add the columns of names; call :meth:`learn` of the same batch first."""
        for column, name in (("pid", "comm"), ("prev_pid", "prev_comm"), ("by_pid", "by_comm")):
            if column in columns:
                columns[name] = self._column(columns[column], columns["ts_ns"], cpu)

    def settle(self) -> None:
        """End the batch: its last names are valid from now on."""
        for pid, name in self._after.items():
            self._of[pid] = name
        self._after = {}

    def _column(self, pid: NDArray[np.int32], ts: I64, cpu: NDArray[np.int32]) -> pl.Series:
        ids = self._of[pid].copy()
        if self._keys.size:
            key = pid.astype(np.int64) * _SPAN + (ts - self._base)
            j = np.searchsorted(self._keys, key, "right") - 1
            hit = (j >= 0) & (self._keys[np.maximum(j, 0)] // _SPAN == pid)
            ids[hit] = self._new[j[hit]]
        idle = pid == 0
        if idle.any():
            for c in np.unique(cpu[idle]).tolist():
                ids[idle & (cpu == c)] = self._id(f"swapper/{c}")
        known = pl.Series(self._names or [""], dtype=pl.String).cast(pl.Categorical())
        index = pl.Series(ids)
        return known.gather(index.set(index < 0, None))
