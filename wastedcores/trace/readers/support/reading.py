"""The protocol of all readers: one pass over a trace file, and then the facts that the file states about itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, TypeVar

import polars as pl

from wastedcores.errors import TraceContentError

#: How far time may step back within a file. sched_profiler takes a slot in its buffer before it reads the time, so its time steps
#: back by microseconds. perf's time steps back by the time that lies between its buffers. If time steps back by more than this,
#: the times come from different clocks.
SLACK_NS = 1_000_000_000
#: In most files, time steps back by less than this.
USUAL_SLACK_NS = 1_000_000


class StepsBackError(Exception):
    """An event is older than one that :func:`in_order` has already yielded."""


def in_order(
    frames: Iterable[pl.DataFrame], path: Path, slack_ns: int = SLACK_NS
) -> Iterator[pl.DataFrame]:
    """Yield the events sorted by time. Time may step back, so an event is held until one comes that is ``slack_ns`` later.

    Raises
    ------
    TraceContentError
        Time steps back by more than :data:`SLACK_NS`.
    StepsBackError
        Time steps back by less than :data:`SLACK_NS`, to before an event that was yielded. A larger ``slack_ns`` prevents this.
    """
    held: list[pl.DataFrame] = []
    newest: int | None = None
    given_ns: int | None = None
    coming = iter(frame for frame in frames if frame.height)
    frame = next(coming, None)
    while frame is not None:
        newest = _check(frame, newest, path)
        held.append(frame)
        if given_ns is not None and frame["ts_ns"].min() < given_ns:  # type: ignore[operator]
            raise StepsBackError
        frame = next(coming, None)
        if frame is None:
            break
        if held[0]["ts_ns"][0] >= newest - slack_ns and sum(f.height for f in held) < 1 << 22:
            continue
        table = _sorted(held)
        safe = int(table["ts_ns"].search_sorted(newest - slack_ns, side="left"))
        if safe:
            given_ns = int(table["ts_ns"][safe - 1])
            yield table.head(safe)
        held = [table.tail(table.height - safe)] if safe < table.height else []
    if held:
        yield _sorted(held)


def _sorted(frames: list[pl.DataFrame]) -> pl.DataFrame:
    table = pl.concat(frames, how="diagonal_relaxed") if len(frames) > 1 else frames[0]
    if table["ts_ns"].is_sorted():
        return table
    return table.sort("ts_ns", maintain_order=True)


def _check(frame: pl.DataFrame, newest: int | None, path: Path) -> int:
    ts = frame["ts_ns"]
    if newest is None:
        newest = int(ts[0])
    if ts[0] >= newest and ts.is_sorted():
        return int(ts[-1])
    top = ts.cum_max()
    if newest > top[0]:
        top = pl.select(pl.max_horizontal(pl.lit(top), pl.lit(newest))).to_series()
    back = top - ts
    if back.max() > SLACK_NS:  # type: ignore[operator]
        row = int((back > SLACK_NS).arg_max() or 0)
        where = f"{path}, line {frame['line'][row]}" if "line" in frame.columns else str(path)
        raise TraceContentError(
            f"{where}: time goes back by {back[row] / 1e9:.6f} s, from {top[row] / 1e9:.9f} s to "
            f"{ts[row] / 1e9:.9f} s. Steps back of up to {SLACK_NS / 1e9:.0f} s are sorted. The file probably holds two "
            "recordings, or the clock was changed: split it there, or record with a monotonic clock."
        )
    return int(top[-1])


T = TypeVar("T")
R = TypeVar("R")

_END = object()


def ordered_map(
    work: Callable[[T], R], items: Iterator[T], workers: int = 2
) -> Generator[R, None, None]:
    """Yield ``work(item)`` for every item, in order, while threads compute the next results.

    An error in ``items`` or ``work`` is raised once the earlier results were yielded. Closing the generator ends the threads.
    """
    reader, pool = ThreadPoolExecutor(1), ThreadPoolExecutor(workers)
    running: deque[Future[R]] = deque()
    error: Exception | None = None
    try:
        coming: Future[Any] | None = reader.submit(next, items, _END)
        while coming or running:
            while coming and len(running) <= workers:
                if running:
                    ready, _ = wait((coming, running[0]), return_when=FIRST_COMPLETED)
                    if coming not in ready:
                        break
                try:
                    item = coming.result()
                except Exception as e:
                    item, error = _END, e
                coming = None
                if item is not _END:
                    coming = reader.submit(next, items, _END)
                    running.append(pool.submit(work, item))
            if running:
                yield running.popleft().result()
        if error is not None:
            raise error
    finally:
        reader.shutdown(cancel_futures=True)
        pool.shutdown(cancel_futures=True)


@dataclass(frozen=True)
class Facts:
    """The facts that a trace file states about itself; parts of its :class:`~wastedcores.trace.header.Header`."""

    #: as in the header. ``cpus`` is the number that the file states.
    source_format: str
    kernel_release: str | None
    host: str | None
    clock: str | None
    cpus: int | None
    #: the CPUs that were online, if the file lists them; empty: some were offline, and nothing says which CPUs
    online: tuple[int, ...] | None
    every_switch: bool  #: whether all sched_switch events were recorded, which any one shows
    #: as in the header
    wakings: bool
    follows_affinity: bool | None
    #: lost and overwritten events per CPU. CPU -1: the file does not say which CPU. A count of -1: an unknown number.
    lost: Mapping[int, int]
    overwritten: Mapping[int, int]
    #: number of events that were left out because the schema has no kind for them, by their name in the file
    skipped: Mapping[str, int]
    notes: Mapping[str, str]  #: anything else worth keeping. It goes to the header's provenance.
    lines: int  #: lines or records that were read; 0 if the format has none
    #: describes what was left out because the end of the file is cut; None if the file is whole
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
    online: tuple[int, ...] | None = None
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

    :meth:`frames` yields the events. Once they are exhausted, :attr:`facts` is complete. Leaving the ``with`` block ends the
    reader's threads and closes its files, even if the generator of :meth:`frames` still exists, because an error refers to it.
    """

    #: whether ``prev_state`` is what the kernel's sched_switch wrote
    kernel_states = False

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
