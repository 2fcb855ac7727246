"""The events of a trace as arrays for compiled code, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.errors import TraceContentError
from wastedcores.runqueues import state as st
from wastedcores.runqueues import task_row
from wastedcores.trace.schema import KINDS
from wastedcores.trace.trace import Trace
from wastedcores.trace.window import parks

Part = TypeVar("Part")


def ahead(stream: Iterable[Part]) -> Iterator[Part]:
    """Yield the parts of a stream, while a thread already makes the next part.

    Decoding and compiled code do not hold Python's lock, so both run at once. This keeps one more part in memory.
    """
    coming = iter(stream)
    end = object()
    with ThreadPoolExecutor(1) as pool:
        part = pool.submit(next, coming, end)
        while (present := part.result()) is not end:
            part = pool.submit(next, coming, end)
            yield present  # type: ignore[misc]  # it is not the end


def tables(frame: pl.LazyFrame, rows: int, most: int | None) -> Iterator[pl.DataFrame]:
    """Yield a table of at most ``most`` rows (None: not known) in parts of ``rows``; a single part needs no thread."""
    if most is not None and most <= rows:
        yield frame.collect()
    else:
        yield from ahead(frame.collect_batches(chunk_size=rows, maintain_order=True))


#: kind of event -> its code in the compiled state machine
CODES = {
    "switch": st.SWITCH,
    "wakeup": st.WAKEUP,
    "wakeup_new": st.WAKEUP_NEW,
    "migrate": st.MIGRATE,
    "fork": st.FORK,
    "exit": st.EXIT,
    "affinity": st.AFFINITY,
    "task_state": st.SNAPSHOT,
    "lost": st.FORGET,
    "nr_running": st.COUNT,
    "cpu_online": st.HOTPLUG,
    "throttle": st.THROTTLE,
    "unthrottle": st.UNTHROTTLE,
    "mark": st.CONTEXT,
    "exec": st.CONTEXT,
    "cpu_idle": st.CONTEXT,  # these events happen in the context of the idle task
}
_LUT = np.full(len(KINDS), -1, np.int8)
for _kind, _code in CODES.items():
    _LUT[KINDS.index(_kind)] = _code


#: codes of events that change the state of the CPU they name
_NAMES_A_CPU = (
    st.SWITCH, st.WAKEUP, st.WAKEUP_NEW, st.MIGRATE, st.SNAPSHOT, st.COUNT, st.HOTPLUG, st.THROTTLE, st.UNTHROTTLE,
)  # fmt: skip
_STATE_WORDS = {
    "running": task_row.RUNNING,
    "waiting": task_row.WAITING,
    "sleeping": task_row.ASLEEP,
}


def _aux(mask_ids: dict[bytes, int]) -> pl.Expr:
    """The number that an event carries beside CPUs and pids, see :class:`wastedcores.runqueues.state.Events`."""
    state = pl.col("prev_state")  # the few distinct texts are examined, not every row
    stays = state.cat.starts_with("R") | state.cat.ends_with("+")
    mask = pl.lit(0, pl.Int32)
    if mask_ids:
        mask = pl.col("cpu_mask").replace_strict(mask_ids, default=0, return_dtype=pl.Int32)
    return (
        pl.when(pl.col("kind") == "switch")
        .then(stays.cast(pl.Int32) * st.STAYS + parks().cast(pl.Int32) * st.PARKED)
        .when(pl.col("kind") == "task_state")
        .then(pl.sum_horizontal((state == word) * code for word, code in _STATE_WORDS.items()))
        .when(pl.col("kind") == "nr_running")
        .then(pl.col("nr_running").fill_null(-1))
        .when(pl.col("kind") == "cpu_online")
        .then((pl.col("value") != 0).cast(pl.Int32))
        .when(pl.col("kind") == "affinity")
        .then(mask)
        .otherwise(0)
        .cast(pl.Int32)
    )


def events(
    trace: Trace, mask_ids: dict[bytes, int], cpus: int, pids: int, rows: int
) -> Iterator[st.Events]:
    """Stream the events of a trace that say anything about tasks or runqueues.

    * ``mask_ids``: the id of each affinity mask, by the mask as the events write it.
    * ``cpus``, ``pids``: CPU numbers and pids are below these.
    * ``rows``: events that are in memory at a time.
    * Yields events in order of time; -1 stands for null.
    """
    columns = ("cpu", "src_cpu", "pid", "prev_pid", "by_pid")
    frame = trace.events.select(
        "ts_ns",
        *(pl.col(c).fill_null(-1) for c in columns),
        kind=pl.col("kind").to_physical().cast(pl.Int32),
        aux=_aux(mask_ids),
    )
    for table in tables(frame, rows, trace.header.events):
        require_times(trace.name, table["ts_ns"], table["kind"])
        a = {c: table[c].to_numpy().astype(np.int32) for c in table.columns if c != "ts_ns"}
        kind = a.pop("kind")
        code = _LUT[kind]
        context = (code == st.CONTEXT) | (code == st.EXIT)
        a["by_pid"] = np.where(context, a["pid"], a["by_pid"]).astype(np.int32)
        a["by_pid"][kind == KINDS.index("cpu_idle")] = 0
        found = st.Events(code=code, ts_ns=table["ts_ns"].to_numpy().astype(np.int64), **a)
        used = (code >= 0) & ((code != st.FORGET) | (found.cpu >= 0))
        if not used.all():
            found = st.Events(*(x[used] for x in found))
        if (found.cpu[np.isin(found.code, _NAMES_A_CPU)] < 0).any():
            raise TraceContentError(
                f"{trace.name}: an event that changes a runqueue names no CPU; the file is damaged."
            )
        require_inside(trace.name, [found.cpu, found.src_cpu], cpus, "CPU")
        require_inside(trace.name, [found.pid, found.prev_pid, found.by_pid], pids, "pid")
        yield found


def require_times(name: str, *columns: pl.Series) -> None:
    """Refuse a trace in which an event has no time or no kind."""
    for column in columns:
        if column.null_count():
            raise TraceContentError(
                f"{name}: {column.name!r} of an event is empty; every event needs it. The file is damaged."
            )


def require_inside(
    name: str, arrays: Iterable[NDArray[np.int32]], limit: int, what: str, low: int = -1
) -> None:
    """Refuse CPUs or pids outside of the announced range, because compiled code does not check its indices."""
    for a in arrays:
        if a.size and (int(a.min()) < low or int(a.max()) >= limit):
            bad = int(a.max()) if int(a.max()) >= limit else int(a.min())
            raise TraceContentError(
                f"{name}: {what} {bad} is outside of the range that the header announces (below {limit}); the file is damaged."
            )
