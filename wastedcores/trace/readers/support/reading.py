"""The protocol of all readers: one pass over a trace file, and then the facts that the file states about itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import polars as pl


@dataclass(frozen=True)
class Facts:
    """The facts that a trace file states about itself; parts of its :class:`~wastedcores.trace.header.Header`."""

    #: as in the header. ``cpus`` is the number that the file states.
    source_format: str
    kernel_release: str | None
    host: str | None
    clock: str | None
    cpus: int | None
    every_switch: bool  #: the recording has every sched_switch, because one was seen
    #: as in the header
    wakings: bool
    follows_affinity: bool | None
    #: lost and overwritten events per CPU. CPU -1: the file does not say which. A count of -1: an unknown number.
    lost: Mapping[int, int]
    overwritten: Mapping[int, int]
    #: number of events of kinds that the schema has no place for, by their name in the file
    skipped: Mapping[str, int]
    notes: Mapping[str, str]  #: anything else worth keeping. It goes to the header's provenance.
    lines: int  #: lines or records that were read; 0 if the format has none
    #: describes an end of the file that is cut and was left out; None if the file is whole
    truncated: str | None
    sha256: str | None  #: digest of the file, or of all its files; None if it was not asked for


@dataclass
class FactsBuilder:
    """The same fields as :class:`Facts`, filled in by a reader during its pass."""

    source_format: str
    kernel_release: str | None = None
    host: str | None = None
    clock: str | None = None
    cpus: int | None = None
    every_switch: bool = False
    wakings: bool = False
    follows_affinity: bool | None = None
    lost: Counter[int] = field(default_factory=Counter)
    overwritten: Counter[int] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    notes: dict[str, str] = field(default_factory=dict)
    lines: int = 0
    truncated: str | None = None
    sha256: str | None = None

    def add_lost(self, cpu: int, n: int) -> None:
        """Count a loss of events."""
        if n < 0 or self.lost[cpu] < 0:
            self.lost[cpu] = -1
        else:
            self.lost[cpu] += n

    def build(self) -> Facts:
        """Return an immutable copy."""
        values: dict[str, Any] = {
            name: MappingProxyType({**value}) if isinstance(value, dict) else value
            for name, value in vars(self).items()
        }
        return Facts(**values)


class Reading(ABC):
    """One pass over one trace file, used as a context manager.

    :meth:`frames` yields the events. Once they are exhausted, :attr:`facts` is complete. Leaving the ``with`` block ends
    the reader's threads and closes its files, even if an error that is still held keeps the generator of
    :meth:`frames` alive.
    """

    def __init__(self, path: Path, source_format: str) -> None:
        self.path = path
        self.found = FactsBuilder(source_format)
        self.resources = ExitStack()

    @abstractmethod
    def frames(self) -> Iterator[pl.DataFrame]:
        """Yield event tables in the order of the file."""

    @property
    def facts(self) -> Facts:
        """The facts that the file states about itself; complete once :meth:`frames` is exhausted."""
        return self.found.build()

    def close(self) -> None:
        """End all threads, then close all files. Closing twice does no harm."""
        self.resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
