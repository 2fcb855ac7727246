"""Strings that compiled readers number, and polars' numbers of the same strings."""

from __future__ import annotations

import threading

import numpy as np
import polars as pl

from wastedcores.trace.readers.support import names_jit as nj
from wastedcores.trace.readers.support.bytes_jit import PADDING


class Vocabulary:
    """polars' own numbers of strings in categorical columns, kept alive."""

    def __init__(self) -> None:
        self._of: dict[str, int] = {}
        self._kept: list[pl.Series] = []
        self._lock = threading.Lock()

    def numbers(self, strings: list[str]) -> np.ndarray:
        """(strings,) uint32."""
        with self._lock:
            new = [s for s in dict.fromkeys(strings) if s not in self._of]
            if new:
                series = pl.Series(new, dtype=pl.Categorical())
                self._kept.append(series)
                self._of.update(zip(new, series.to_physical().to_list(), strict=True))
            return np.array([self._of[s] for s in strings], np.uint32)


class NameTable:
    """Strings of up to 16 bytes in the order in which one thread met them."""

    def __init__(self, vocabulary: Vocabulary, known: np.ndarray | None = None) -> None:
        """As told by :meth:`halves` of another one, or empty."""
        self.table = nj.new_names()
        self._vocabulary = vocabulary
        self._numbers = np.zeros(0, np.uint32)
        if known is not None:
            while 2 * len(known) >= self.table.shape[0]:
                self.grow()
            nj.intern_all(known, self.table)

    def halves(self) -> np.ndarray:
        """(names, 2) uint64: their first 8 bytes and their last, a copy."""
        return self.table[: nj.names_count(self.table), 3:5].copy()

    def number(self, name: bytes) -> int:
        """The number of a name, here."""
        padded = np.frombuffer(name.ljust(16 + PADDING, b"\0"), np.uint8)
        return int(nj.intern(padded, 0, len(name), self.table))

    def numbers(self) -> np.ndarray:
        """What polars numbers them, in order of the numbers here."""
        known, count = self._numbers.size, nj.names_count(self.table)
        if count > known:
            raw = self.table[known:count, 3:5].tobytes()
            new = [
                raw[at : at + 16].rstrip(b"\0").decode("utf-8", "replace")
                for at in range(0, len(raw), 16)
            ]
            self._numbers = np.concatenate([self._numbers, self._vocabulary.numbers(new)])
        return self._numbers

    def grow(self) -> None:
        """Make room for four times as many."""
        larger = nj.new_names(4 * self.table.shape[0])
        nj.intern_all(self.halves(), larger)
        self.table = larger
