"""The paper's invariant, offline: was a CPU idle while another had threads waiting that it could have run?

Algorithm 2 of the paper ("no core remains idle while another core is overloaded"), exact and streaming: every change
of every runqueue is looked at, not samples of it. Definitions: a CPU is idle with 0 tasks on its runqueue, overloaded
with 2 or more; max(nr_running - 1, 0) tasks wait. A CPU whose runqueue is not known is neither.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.engine import detail_jit, sweep_affinity_jit, sweep_jit
from wastedcores.errors import UsageError
from wastedcores.trace.runqueues import Runqueues, comms, runqueues
from wastedcores.trace.trace import Trace

CHECK_SCHEMA = "wastedcores.check/1"
#: M of the paper, section 4.1: violations shorter than this are the balancer's to repair
PERSIST_NS = 100_000_000
#: episodes written per call into the compiled sweep
_ROOM = 1 << 16
#: episodes kept in memory; beyond, the shortest go (totals stay exact, and the result says so)
_KEEP = 1 << 20
#: episodes of which per-CPU times and waiting threads are kept
_DETAILS = 256


@dataclass(frozen=True)
class CheckResult:
    """What the check found over [``start_ns``, ``end_ns``].

    Attributes
    ----------
    verdict
        ``violations`` (an episode lasted at least ``persist_ns``), ``clean``, or ``unknown`` (events were lost in the
        interval, or nothing is known of the runqueues).
    wall_ns
        Time with at least one idle and one overloaded CPU.
    cpu_ns, thread_ns
        Integral of min(idle, overloaded) CPUs, and of min(idle CPUs, waiting threads). With affinity: as many of them
        as could be paired.
    busy_ns, idle_ns, waiting_ns
        Integral of busy CPUs, of idle CPUs, of waiting threads.
    episodes
        Table start_ns, end_ns, persistent, wasted_ns, idle_cpus, overloaded_cpus (lists of CPU numbers), in order.
    details
        Of the most important episodes: table episode (row of ``episodes``), cpu, idle_ns, overloaded_ns.
    waiting
        Of the same episodes, where tasks are known: episode, pid, comm, cpu, wait_ns.
    causes
        Of the same episodes: episode, cause, overloaded_ns; how the overloaded CPUs had become so: ``wakeup``,
        ``wakeup_new`` (fork), ``migrate``, ... or ``before`` (not seen).
    """

    trace: Trace
    start_ns: int
    end_ns: int
    persist_ns: int
    verdict: str
    wall_ns: int
    cpu_ns: int
    thread_ns: int
    busy_ns: int
    idle_ns: int
    waiting_ns: int
    episodes: pl.DataFrame
    details: pl.DataFrame
    waiting: pl.DataFrame
    causes: pl.DataFrame
    episodes_dropped: int
    affinity: str
    source: str
    cpus: int
    counted_cpus: list[int]
    silent_cpus: list[int]
    unknown_cpus: list[int]
    unknown_spans: list[tuple[int, int, int]]
    oddities: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def duration_ns(self) -> int:
        """Length of the interval looked at."""
        return self.end_ns - self.start_ns

    @property
    def longest_ns(self) -> int:
        """Length of the longest episode."""
        return int((self.episodes["end_ns"] - self.episodes["start_ns"]).max() or 0)  # type: ignore[arg-type]

    def mean(self, integral_ns: int) -> float:
        """An integral over the interval as a mean."""
        return integral_ns / self.duration_ns if self.duration_ns else 0.0

    def to_json(self) -> dict[str, Any]:
        """The object that ``wastedcores check --json`` prints."""
        header = self.trace.header
        return {
            "schema": CHECK_SCHEMA,
            "trace": {
                "format": header.source_format,
                "cpus": self.cpus,
                "events": header.events,
                "start_ns": self.start_ns,
                "end_ns": self.end_ns,
                "lost": header.lost_total,
                "silent_cpus": self.silent_cpus,
            },
            "persist_ns": self.persist_ns,
            "verdict": self.verdict,
            "wall_ns": self.wall_ns,
            "cpu_ns": self.cpu_ns,
            "thread_ns": self.thread_ns,
            "busy_ns": self.busy_ns,
            "idle_while_overloaded_fraction": round(self.mean(self.wall_ns), 6),
            "mean_busy_cpus": round(self.mean(self.busy_ns), 4),
            "mean_wasted_cpus": round(self.mean(self.thread_ns), 4),
            "longest_episode_s": self.longest_ns / 1e9,
            "affinity": self.affinity,
            "counted_cpus": self.counted_cpus,
            "unknown_cpus": self.unknown_cpus,
            "unknown_spans": [
                {"start_ns": s, "end_ns": e, "cpu": None if c < 0 else c}
                for s, e, c in self.unknown_spans
            ],
            "oddities": self.oddities,
            "notes": self.notes,
            "episodes_dropped": self.episodes_dropped,
            "episodes": self.episodes.to_dicts(),
        }


def check(
    trace: Trace,
    *,
    persist_ns: int = PERSIST_NS,
    cpus: list[int] | None = None,
    between: tuple[str, str] | None = None,
    ignore_affinity: bool = False,
    silent: str = "idle",
) -> CheckResult:
    """Check the invariant over a trace.

    Parameters
    ----------
    trace
        Any trace with nr_running or switch events.
    persist_ns
        Episodes of at least this length are persistent (the paper's M).
    cpus
        Count these CPUs only; None: all.
    between
        Start and end of the window: each the beginning of a mark's text, or a time in seconds as in the trace.
    ignore_affinity
        Treat every waiting thread as movable.
    silent
        See :func:`wastedcores.trace.runqueues.runqueues`.

    Raises
    ------
    UsageError
        Unknown mark, CPU that the trace does not have, empty window.
    MissingEventsError
        The trace says nothing about runqueues.
    """
    if silent not in ("idle", "unknown"):
        raise UsageError(f"silent {silent!r}: expected idle or unknown.")
    if persist_ns < 0:
        raise UsageError(f"persist {persist_ns} ns: expected 0 or more.")
    rq = runqueues(trace, silent=silent, affinity=not ignore_affinity)
    start_ns, end_ns = window(rq, between)
    counted = _counted(rq, cpus)
    state = sweep_jit.new_state(rq.cpus, counted, start_ns, end_ns)
    collected, dropped, known = _sweep(rq, state, end_ns)
    episodes = _episode_table(collected, rq.cpus, persist_ns)
    details, waiting, causes = _details(rq, episodes, counted)
    scalars = [int(x) for x in state.scalars]
    spans = [s for s in rq.lost_spans if s[1] >= start_ns and s[0] <= end_ns]
    notes = list(rq.notes)
    cut = trace.header.provenance.get("truncated_last_line")
    if cut:
        notes.append(f"the file was cut short: {cut}")
    if dropped:
        notes.append(f"the {dropped} shortest episodes are not listed; the totals count them")
    verdict = "violations" if bool(episodes["persistent"].any()) else "clean"
    unknown = [int(c) for c in np.flatnonzero(counted.astype(bool) & ~known)]
    lost_without_place = trace.header.lost_total > 0 and not rq.lost_spans
    if spans or lost_without_place:
        verdict = "unknown"
        notes.append(f"{trace.header.lost_total} events were lost: the verdict is unknown")
    elif scalars[sweep_jit.KNOWN_NS] == 0 and end_ns > start_ns:
        verdict = "unknown"
        notes.append("no runqueue is known in the interval")
    return CheckResult(
        trace,
        start_ns,
        end_ns,
        persist_ns,
        verdict,
        scalars[sweep_jit.WALL_NS],
        scalars[sweep_jit.CPU_NS],
        scalars[sweep_jit.THREAD_NS],
        scalars[sweep_jit.BUSY_NS],
        scalars[sweep_jit.IDLE_NS],
        scalars[sweep_jit.WAITING_NS],
        episodes,
        details,
        waiting,
        causes,
        dropped,
        "ignored" if ignore_affinity else ", ".join(rq.affinity) or "none in the trace",
        rq.source,
        rq.cpus,
        [int(c) for c in np.flatnonzero(counted)],
        rq.silent_cpus,
        unknown,
        spans,
        rq.oddities,
        notes,
    )


def window(rq: Runqueues, between: tuple[str, str] | None) -> tuple[int, int]:
    """The interval to look at, in ns."""
    if between is None:
        return rq.start_ns, rq.end_ns
    start, end = (_moment(rq.trace, text) for text in between)
    if end <= start:
        raise UsageError(
            f"--between {between[0]!r} {between[1]!r}: the window ends at {end} ns, not after its start {start} ns."
        )
    return max(start, rq.start_ns), min(end, rq.end_ns)


def _moment(trace: Trace, text: str) -> int:
    """Time of the first mark that begins with ``text``, or ``text`` itself as seconds."""
    marks = trace.only("mark").select("ts_ns", "text").collect()
    hit = marks.filter(pl.col("text").str.starts_with(text))
    if hit.height:
        return int(hit["ts_ns"][0])
    try:
        whole, _, fraction = text.strip().partition(".")
        return int(whole) * 1_000_000_000 + int(fraction[:9].ljust(9, "0") or 0)
    except ValueError:
        pass
    known = ", ".join(repr(t) for t in marks["text"].head(8)) or "no marks at all"
    raise UsageError(
        f"{trace.name}: no mark begins with {text!r} (it has {known}), and it is not a time in seconds either."
    )


def _counted(rq: Runqueues, cpus: list[int] | None) -> NDArray[np.uint8]:
    counted = np.ones(rq.cpus, np.uint8)
    if cpus is None:
        return counted
    wrong = [c for c in cpus if not 0 <= c < rq.cpus]
    if wrong or not cpus:
        raise UsageError(
            f"--cpus: the trace has CPUs 0-{rq.cpus - 1}, "
            + (f"not {wrong[0]}." if wrong else "and the list names none.")
        )
    counted[:] = 0
    counted[cpus] = 1
    return counted


@dataclass
class _Collected:
    """Episodes as they come out of the sweep."""

    times: list[NDArray[np.int64]] = field(default_factory=list)
    idle: list[NDArray[np.uint64]] = field(default_factory=list)
    over: list[NDArray[np.uint64]] = field(default_factory=list)
    size: int = 0

    def take(self, out: sweep_jit.Episodes, n: int) -> None:
        if n:
            self.times.append(out.times[:n].copy())
            self.idle.append(out.idle[:n].copy())
            self.over.append(out.over[:n].copy())
            self.size += n

    def whole(self) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint64]]:
        return np.concatenate(self.times), np.concatenate(self.idle), np.concatenate(self.over)

    def shrink(self, keep: int) -> int:
        """Keep the longest; returns how many went."""
        times, idle, over = self.whole()
        longest = np.sort(np.argsort(times[:, 1] - times[:, 0], kind="stable")[-keep:])
        went = self.size - longest.size
        self.times, self.idle, self.over = [times[longest]], [idle[longest]], [over[longest]]
        self.size = longest.size
        return went


def _sweep(
    rq: Runqueues, state: sweep_jit.SweepState, end_ns: int
) -> tuple[_Collected, int, NDArray[np.bool_]]:
    """Stream all changes through the compiled sweep; returns episodes, how many were dropped, CPUs ever known."""
    out = sweep_jit.new_episodes(rq.cpus, _ROOM)
    collected = _Collected()
    dropped = 0
    known = np.zeros(rq.cpus, np.bool_)
    steal = sweep_affinity_jit.new_steal_state(rq.cpus, rq.masks) if rq.affinity else None
    for batch in rq.batches():
        known[batch.cpu[(batch.nr >= 0) & (batch.mask == 0)]] = True
        at = 0
        while at < batch.ts_ns.size:
            if steal is not None:
                at = sweep_affinity_jit.sweep(
                    state, steal, out, batch.ts_ns, batch.cpu, batch.nr, batch.free, batch.mask, at
                )
            else:
                at = sweep_jit.sweep(state, out, batch.ts_ns, batch.cpu, batch.nr, at)
            collected.take(out, int(state.scalars[sweep_jit.N_EPISODES]))
            if collected.size > 2 * _KEEP:
                dropped += collected.shrink(_KEEP)
    if steal is not None:
        sweep_affinity_jit.finish(state, steal, out, end_ns)
    else:
        sweep_jit.finish(state, out, end_ns)
    collected.take(out, int(state.scalars[sweep_jit.N_EPISODES]))
    if collected.size > _KEEP:
        dropped += collected.shrink(_KEEP)
    return collected, dropped, known


_EPISODES = pl.Schema(
    {
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "persistent": pl.Boolean(),
        "wasted_ns": pl.Int64(),
        "idle_cpus": pl.List(pl.Int32),
        "overloaded_cpus": pl.List(pl.Int32),
    }
)
_NO_DETAILS = pl.DataFrame(
    schema={"episode": pl.Int32, "cpu": pl.Int32, "idle_ns": pl.Int64, "overloaded_ns": pl.Int64}
)
_NO_WAITING = pl.DataFrame(
    schema={
        "episode": pl.Int32,
        "pid": pl.Int32,
        "comm": pl.String,
        "cpu": pl.Int32,
        "wait_ns": pl.Int64,
    }
)
_NO_CAUSES = pl.DataFrame(
    schema={"episode": pl.Int32, "cause": pl.String, "overloaded_ns": pl.Int64}
)
#: by code + 1 of wastedcores.engine.tasks_jit
CAUSES = (
    "before",
    "switch",
    "wakeup",
    "wakeup_new",
    "migrate",
    "fork",
    "exit",
    "affinity",
    "snapshot",
    "lost",
    "other",
)


def _cpu_lists(masks: NDArray[np.uint64], cpus: int) -> pl.Series:
    """Rows of CPU masks as lists of CPU numbers."""
    bits = np.unpackbits(masks.view(np.uint8), axis=1, bitorder="little")[:, :cpus]
    row, cpu = np.nonzero(bits)
    table = pl.DataFrame({"row": row, "cpu": cpu.astype(np.int32)})
    lists = table.group_by("row", maintain_order=True).agg("cpu")
    rows = pl.DataFrame({"row": np.arange(masks.shape[0])})
    return rows.join(lists, on="row", how="left", maintain_order="left")["cpu"].fill_null([])


def _episode_table(collected: _Collected, cpus: int, persist_ns: int) -> pl.DataFrame:
    if not collected.size:
        return pl.DataFrame(schema=_EPISODES)
    times, idle, over = collected.whole()
    return pl.DataFrame(
        {
            "start_ns": times[:, 0],
            "end_ns": times[:, 1],
            "persistent": times[:, 1] - times[:, 0] >= persist_ns,
            "wasted_ns": times[:, 2],
            "idle_cpus": _cpu_lists(idle, cpus),
            "overloaded_cpus": _cpu_lists(over, cpus),
        },
        schema=_EPISODES,
    )


def _details(
    rq: Runqueues, episodes: pl.DataFrame, counted: NDArray[np.uint8]
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Second pass, over the longest episodes only: times per CPU, waiting threads, causes."""
    if not episodes.height:
        return _NO_DETAILS, _NO_WAITING, _NO_CAUSES
    chosen = (
        episodes.with_row_index("episode")
        .with_columns(length=pl.col("end_ns") - pl.col("start_ns"))
        .top_k(_DETAILS, by="length")
        .sort("start_ns")
    )
    starts, ends = chosen["start_ns"].to_numpy().copy(), chosen["end_ns"].to_numpy().copy()
    number = chosen["episode"].to_numpy()
    now = np.full(rq.cpus, -1, np.int32)
    since = np.zeros(rq.cpus, np.int64)
    idle_ns = np.zeros((starts.size, rq.cpus), np.int64)
    over_ns = np.zeros((starts.size, rq.cpus), np.int64)
    cause = np.zeros(rq.cpus, np.int32)
    cause_ns = np.zeros((starts.size, len(CAUSES)), np.int64)
    tasks = rq.source == "tasks"
    parts: list[pl.DataFrame] = []
    for batch in rq.batches(waits=tasks):
        ts_ns, cpu, nr, code = batch.with_causes()
        if not counted.all():
            ours = counted[cpu] > 0
            ts_ns, cpu, nr, code = ts_ns[ours], cpu[ours], nr[ours], code[ours]
        detail_jit.cpu_times(
            ts_ns, cpu, nr, code, starts, ends, now, since, cause, idle_ns, over_ns, cause_ns
        )
        if batch.waits is not None and batch.waits.height:
            parts.append(_waits_inside(batch.waits, starts, ends))
            if len(parts) > 64:
                parts = [_sum_waits(parts)]
    detail_jit.cpu_times_end(rq.end_ns, starts, ends, now, since, cause, idle_ns, over_ns, cause_ns)
    keep = ((idle_ns > 0) | (over_ns > 0)) & (counted > 0)
    row, cpu_index = np.nonzero(keep)
    details = pl.DataFrame(
        {
            "episode": number[row],
            "cpu": cpu_index,
            "idle_ns": idle_ns[keep],
            "overloaded_ns": over_ns[keep],
        },
        schema=_NO_DETAILS.schema,
    )
    row, column = np.nonzero(cause_ns)
    causes = pl.DataFrame(
        {
            "episode": number[row],
            "cause": [CAUSES[k] for k in column],
            "overloaded_ns": cause_ns[row, column],
        },
        schema=_NO_CAUSES.schema,
    )
    if not parts:
        return details, _NO_WAITING, causes
    waiting = _sum_waits(parts).filter(pl.col("cpu").is_in(np.flatnonzero(counted).tolist()))
    waiting = waiting.with_columns(episode=pl.Series(number)[waiting["episode"]].cast(pl.Int32))
    waiting = waiting.join(comms(rq.trace), on="pid", how="left").select(*_NO_WAITING.columns)
    return details, waiting.sort("episode", "wait_ns", descending=[False, True]), causes


def _sum_waits(parts: list[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(parts).group_by("episode", "pid", "cpu").agg(pl.col("wait_ns").sum())


def _waits_inside(
    waits: pl.DataFrame, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> pl.DataFrame:
    """Cut waits to the episodes they overlap."""
    begin, end = waits["start_ns"].to_numpy(), waits["end_ns"].to_numpy()
    first = np.searchsorted(ends, begin, side="right")
    last = np.searchsorted(starts, end, side="left")
    times = np.maximum(last - first, 0)
    row = np.repeat(np.arange(begin.size), times)
    episode = np.repeat(first, times) + (
        np.arange(row.size) - np.repeat(np.cumsum(times) - times, times)
    )
    overlap = np.minimum(end[row], ends[episode]) - np.maximum(begin[row], starts[episode])
    return pl.DataFrame(
        {
            "episode": episode.astype(np.int64),
            "pid": waits["pid"].to_numpy()[row],
            "cpu": waits["cpu"].to_numpy()[row],
            "wait_ns": overlap,
        }
    )
