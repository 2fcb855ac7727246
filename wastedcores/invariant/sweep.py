"""The sweep: all changes of all runqueues go through compiled code, and episodes come out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.invariant import hide_jit, sweep_affinity_jit, sweep_jit
from wastedcores.invariant.longest import Longest
from wastedcores.jit.second import Ahead
from wastedcores.runqueues.runqueues import Batch, Runqueues
from wastedcores.runqueues.stream import no_changes

#: episodes written per call into the compiled sweep
_ROOM = 1 << 16
#: episodes kept in memory; if there are more, the shortest are dropped (totals stay exact, and the result says so)
_KEEP = 1 << 20

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


@dataclass
class Collected:
    """Episodes as they come out of the sweep."""

    times: list[NDArray[np.int64]] = field(default_factory=list)
    idle: list[NDArray[np.uint64]] = field(default_factory=list)
    over: list[NDArray[np.uint64]] = field(default_factory=list)
    size: int = 0

    def take(self, out: sweep_jit.Episodes, n: int) -> None:
        """Copy the episodes that a call of the sweep wrote.

        Parameters
        ----------
        out
            The arrays that were written.
        n
            How many episodes of them are valid.
        """
        if n:
            self.times.append(out.times[:n].copy())
            self.idle.append(out.idle[:n].copy())
            self.over.append(out.over[:n].copy())
            self.size += n

    def whole(self) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint64]]:
        """Return times (start, end, wasted), masks of idle CPUs, and masks of overloaded CPUs of all episodes."""
        return np.concatenate(self.times), np.concatenate(self.idle), np.concatenate(self.over)

    def shrink(self, keep: int) -> int:
        """Keep only the ``keep`` longest episodes, of equal ones the first; return how many were dropped."""
        times, idle, over = self.whole()
        longest = np.sort(np.argsort(times[:, 0] - times[:, 1], kind="stable")[:keep])
        dropped = self.size - longest.size
        self.times, self.idle, self.over = [times[longest]], [idle[longest]], [over[longest]]
        self.size = longest.size
        return dropped


def sweep(
    rq: Runqueues,
    state: sweep_jit.SweepState,
    end_ns: int,
    hidden: pl.DataFrame | None = None,
    hidden_nr: int = sweep_jit.UNKNOWN,
    longest: Longest | None = None,
) -> tuple[Collected, int, NDArray[np.bool_]]:
    """Stream all changes through the compiled sweep.

    Parameters
    ----------
    rq
        The runqueues.
    state
        The sweep's state before the first change; afterwards it holds the integrals.
    end_ns
        End of the window.
    hidden
        Spans (cpu, start_ns, end_ns; CPU -1 is all) in which what is known of a CPU does not count; None: no such span.
    hidden_nr
        Number of tasks that a CPU has in these spans instead; -1: unknown.
    longest
        Is shown every batch and the episodes that ended in it.

    Returns
    -------
    Collected, int, array
        The episodes, how many short ones were dropped, and (cpus,) which CPUs were known at some time.
    """
    out = sweep_jit.new_episodes(rq.cpus, _ROOM)
    collected = Collected()
    dropped = 0
    known = np.zeros(rq.cpus, np.bool_)
    masks = rq.affinity.masks
    pinned = masks.shape[0] > 1 or bool((rq.affinity.of_pid != 0).any())
    pairs = pinned or (rq.counted and rq.source == "tasks")
    steal = sweep_affinity_jit.new_steal_state(rq.cpus, masks) if pairs else None
    compiled = sweep_affinity_jit.sweep if pairs else sweep_jit.sweep
    # while the runqueues are rebuilt, which takes other compiled code
    ahead = (
        None
        if rq.kept
        else Ahead(compiled, "wastedcores.invariant.rehearsal", f"rehearse({pairs})")
    )
    batches = rq.batches() if hidden is None else _without(rq, hidden, hidden_nr)
    if ahead is not None:
        # the first batch is the state at the start; compiled code makes the second one
        begin = list(islice(batches, 2))
        ahead.wait()
        batches = chain(begin, batches)
    for batch in batches:
        if not known.all():
            known[batch.cpu[(batch.nr >= 0) & (batch.mask == 0)]] = True
        at = 0
        ended: list[NDArray[np.int64]] = []
        while at < batch.ts_ns.size:
            if steal is not None:
                at = sweep_affinity_jit.sweep(
                    state, steal, out, batch.ts_ns, batch.cpu, batch.nr, batch.free, batch.mask, at
                )
            else:
                at = sweep_jit.sweep(state, out, batch.ts_ns, batch.cpu, batch.nr, at)
            n = int(state.scalars[sweep_jit.N_EPISODES])
            collected.take(out, n)
            if longest is not None:
                ended.append(out.times[:n].copy())
            if collected.size > 2 * _KEEP:
                dropped += collected.shrink(_KEEP)
        if longest is not None:
            all_ended = np.concatenate(ended) if ended else out.times[:0]
            longest.add(batch, all_ended, int(state.scalars[sweep_jit.EP_START]))
    if steal is not None:
        sweep_affinity_jit.finish(state, steal, out, end_ns)
    else:
        sweep_jit.finish(state, out, end_ns)
    n = int(state.scalars[sweep_jit.N_EPISODES])
    collected.take(out, n)
    if longest is not None:
        longest.add(no_changes(), out.times[:n], -1)
    if collected.size > _KEEP:
        dropped += collected.shrink(_KEEP)
    return collected, dropped, known


def _without(rq: Runqueues, hidden: pl.DataFrame, hidden_nr: int) -> Iterator[Batch]:
    """Stream the changes of the runqueues, with ``hidden_nr`` tasks on a CPU in its hidden spans."""
    spans = merged(hidden, rq.cpus)
    ends = pl.concat(
        [
            spans.select("cpu", ts_ns="start_ns", into=pl.lit(1, pl.Int8)),
            spans.select("cpu", ts_ns="end_ns", into=pl.lit(0, pl.Int8)),
        ]
    ).sort("ts_ns", "into")
    borders = hide_jit.Borders(
        ends["ts_ns"].to_numpy(),
        ends["cpu"].to_numpy(),
        ends["into"].to_numpy(),
        np.zeros(1, np.int64),
    )
    shadow = hide_jit.new_shadow(rq.cpus)
    for batch in rq.batches():
        room = batch.ts_ns.size + ends.height - int(borders.next[0])
        ts_ns, code = np.empty(room, np.int64), np.empty(room, np.int8)
        cpu, nr, free, mask = (np.empty(room, np.int32) for _ in range(4))
        n = hide_jit.hide(
            batch.ts_ns, batch.cpu, batch.nr, batch.free, batch.mask, borders, hidden_nr, shadow,
            ts_ns, cpu, nr, free, mask,
        )  # fmt: skip
        yield Batch(ts_ns[:n], cpu[:n], nr[:n], free[:n], mask[:n], code[:n])


def merged(spans: pl.DataFrame, cpus: int) -> pl.DataFrame:
    """Merge the spans of each CPU that overlap or touch.

    Parameters
    ----------
    spans
        Table cpu, start_ns, end_ns; CPU -1 stands for all.
    cpus
        Number of CPUs.

    Returns
    -------
    polars.DataFrame
        The disjoint spans with the same columns, ordered by CPU and time.
    """
    everywhere = (
        spans.filter(pl.col("cpu") < 0)
        .drop("cpu")
        .join(pl.DataFrame({"cpu": np.arange(cpus, dtype=np.int32)}), how="cross")
    )
    columns = ("cpu", "start_ns", "end_ns")
    table = pl.concat(
        [spans.filter(pl.col("cpu") >= 0).select(columns), everywhere.select(columns)]
    )
    reached = pl.col("end_ns").cum_max().shift(1).over("cpu")
    begins = (pl.col("start_ns") > reached).fill_null(True)
    return (
        table.sort("cpu", "start_ns")
        .with_columns(span=begins.cum_sum().over("cpu"))
        .group_by("cpu", "span", maintain_order=True)
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max())
        .select(columns)
    )


def _cpu_lists(masks: NDArray[np.uint64], cpus: int) -> pl.Series:
    """Turn rows of CPU masks into lists of CPU numbers."""
    bits = np.unpackbits(masks.view(np.uint8), axis=1, bitorder="little")[:, :cpus]
    row, cpu = np.nonzero(bits)
    table = pl.DataFrame({"row": row, "cpu": cpu.astype(np.int32)})
    lists = table.group_by("row", maintain_order=True).agg("cpu")
    rows = pl.DataFrame({"row": np.arange(masks.shape[0])})
    return rows.join(lists, on="row", how="left", maintain_order="left")["cpu"].fill_null([])


def episode_table(collected: Collected, cpus: int, persist_ns: int) -> pl.DataFrame:
    """Return the episodes as a table.

    Parameters
    ----------
    collected
        The episodes as they came out of the sweep, in order.
    cpus
        CPU numbers are below this.
    persist_ns
        Episodes of at least this length are persistent, in ns.

    Returns
    -------
    polars.DataFrame
        See :class:`wastedcores.invariant.CheckResult`.
    """
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
