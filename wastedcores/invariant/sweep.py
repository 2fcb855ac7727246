"""The sweep: all changes of all runqueues go through compiled code, and episodes come out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.invariant import hide_jit, sweep_affinity_jit, sweep_jit
from wastedcores.invariant.brief import WithoutBrief
from wastedcores.invariant.longest import Longest
from wastedcores.jit.second import Prepared
from wastedcores.runqueues.batch import no_changes
from wastedcores.runqueues.runqueues import Batch, Runqueues

#: episodes written per call into the compiled sweep
ROOM = 1 << 16
#: episodes kept in memory; if there are more, the shortest are dropped (totals stay exact, and the result says so)
KEEP = 1 << 20

#: a table of spans of CPUs
SPANS = pl.Schema({"cpu": pl.Int32(), "start_ns": pl.Int64(), "end_ns": pl.Int64()})
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
        """Copy the episodes that a call of the sweep wrote."""
        if n:
            self.times.append(out.times[:n].copy())
            self.idle.append(out.idle[:n].copy())
            self.over.append(out.over[:n].copy())
            self.size += n

    def whole(self) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint64]]:
        """Return times (start, end, wasted), masks of idle CPUs, and masks of overloaded CPUs of all episodes."""
        return np.concatenate(self.times), np.concatenate(self.idle), np.concatenate(self.over)

    def shrink(self, keep: int) -> int:
        """Keep only the ``keep`` longest episodes (of equally long ones the first); return how many were dropped."""
        times, idle, over = self.whole()
        longest = np.sort(np.argsort(times[:, 0] - times[:, 1], kind="stable")[:keep])
        dropped = self.size - longest.size
        self.times, self.idle, self.over = [times[longest]], [idle[longest]], [over[longest]]
        self.size = longest.size
        return dropped


class Swept(NamedTuple):
    """What a sweep found: all episodes, how many short ones were dropped, which CPUs were known, and the finished state."""

    episodes: Collected
    dropped: int
    known: NDArray[np.bool_]
    state: sweep_jit.SweepState
    #: the episodes and the finished state without overloads that are too brief to count; None: not computed yet, see firm_sweep()
    firm: Collected | None
    firm_state: sweep_jit.SweepState


class _Pass:
    """One sweep over changes that come batch by batch."""

    def __init__(self, rq: Runqueues, state: sweep_jit.SweepState) -> None:
        self.state, self.collected, self.dropped = state, Collected(), 0
        self._out = sweep_jit.new_episodes(rq.cpus, ROOM)
        masks = rq.affinity.masks
        pinned = masks.shape[0] > 1 or bool((rq.affinity.of_task != 0).any())
        self.pairs = pinned or rq.is_strict or (rq.counted and rq.source == "tasks")
        self._steal = sweep_affinity_jit.new_steal_state(rq.cpus, masks) if self.pairs else None

    def add(self, batch: Batch) -> NDArray[np.int64]:
        """Take changes; return start, end and waste of the episodes that ended in them."""
        at = 0
        ended = [self._out.times[:0]]
        rows = batch.ts_ns, batch.cpu, batch.nr
        while at < batch.ts_ns.size:
            if self._steal is not None:
                at = sweep_affinity_jit.sweep(
                    self.state, self._steal, self._out, *rows, batch.free, batch.mask, at
                )
            else:
                at = sweep_jit.sweep(self.state, self._out, *rows, at)
            ended.append(self._take())
        return np.concatenate(ended)

    def finish(self, end_ns: int) -> NDArray[np.int64]:
        """Account until the end; return the last episodes."""
        if self._steal is not None:
            sweep_affinity_jit.finish(self.state, self._steal, self._out, end_ns)
        else:
            sweep_jit.finish(self.state, self._out, end_ns)
        ended = self._take()
        if self.collected.size > KEEP:
            self.dropped += self.collected.shrink(KEEP)
        return ended

    def _take(self) -> NDArray[np.int64]:
        n = int(self.state.scalars[sweep_jit.N_EPISODES])
        self.collected.take(self._out, n)
        if self.collected.size > 2 * KEEP:
            self.dropped += self.collected.shrink(KEEP)
        return self._out.times[:n].copy()


def sweep(
    rq: Runqueues,
    state: sweep_jit.SweepState,
    end_ns: int,
    changes: Iterable[Batch] | None = None,
    longest: Longest | None = None,
    *,
    firm: bool = True,
    brief: WithoutBrief | None = None,
) -> Swept:
    """Stream all changes through the compiled sweep: as they are, and with ``firm`` also without brief overloads.

    * ``state``: the sweep's state before the first change; afterwards it holds the integrals.
    * ``end_ns``: end of the window.
    * ``changes``: what to stream; None: all changes of the runqueues.
    * ``longest``: gets every batch and the episodes that ended in it.
    * ``firm``: whether to look at what remains without brief overloads.
    * ``brief``: the filter that leaves out these overloads; None: the usual one.
    """
    firm_state = deepcopy(state)
    plain, other = _Pass(rq, state), _Pass(rq, firm_state)
    brief = brief or WithoutBrief(rq.cpus)
    known = np.zeros(rq.cpus, np.bool_)
    compiled = sweep_affinity_jit.sweep if plain.pairs else sweep_jit.sweep
    # loaded while other compiled code rebuilds the runqueues
    ahead = (
        None
        if rq.kept
        else Prepared(compiled, "wastedcores.invariant.rehearsal", f"rehearse({plain.pairs})")
    )
    batches = iter(rq.batches() if changes is None else changes)
    if ahead is not None:
        # the first batch is the state at the start; compiled code makes the second one
        begin = list(islice(batches, 2))
        ahead.wait()
        batches = chain(begin, batches)
    for batch in batches:
        if not known.all():
            known[batch.cpu[(batch.nr >= 0) & (batch.mask == 0)]] = True
        ended = plain.add(batch)
        if firm:
            other.add(brief.push(batch))
        if longest is not None:
            longest.add(batch, ended, int(state.scalars[sweep_jit.EP_START]))
    if firm:
        other.add(brief.rest())
        other.finish(end_ns)
    ended = plain.finish(end_ns)
    if longest is not None:
        longest.add(no_changes(), ended, -1)
    seen = (other.collected, firm_state) if firm else (None, state)
    return Swept(plain.collected, plain.dropped, known, state, *seen)


def firm_sweep(
    rq: Runqueues, first: sweep_jit.SweepState, found: Swept, enough_ns: int
) -> tuple[Swept, bool]:
    """Add the episodes without brief overloads to what a sweep found.

    This is a second pass, which takes as long as the first, so it ends as soon as an episode lasts ``enough_ns``: one long
    episode decides.
    """
    start_ns, end_ns = (int(t) for t in first.window)
    length = int(first.scalars[sweep_jit.SLICE_NS])
    state = sweep_jit.new_state(rq.cpus, first.counted, start_ns, end_ns, length)
    other, brief = _Pass(rq, state), WithoutBrief(rq.cpus)
    for batch in rq.batches():
        ended = other.add(brief.push(batch))
        begun = int(state.scalars[sweep_jit.EP_START])
        now = min(int(state.scalars[sweep_jit.LAST_TS]), end_ns)
        lengths = ended[:, 1] - ended[:, 0]
        if (lengths >= enough_ns).any() or (begun >= 0 and now - begun >= enough_ns):
            other.finish(now)
            return found._replace(firm=other.collected), True
    other.add(brief.rest())
    other.finish(end_ns)
    return found._replace(firm=other.collected, firm_state=state), False


def without(
    rq: Runqueues, hidden: pl.DataFrame, hidden_nr: int = sweep_jit.UNKNOWN
) -> Iterator[Batch]:
    """Stream the changes of the runqueues, without what is known of a CPU in its hidden spans."""
    if not hidden.height:
        yield from rq.batches()
        return
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
    # spans may begin and end after the last change
    at = int(borders.next[0])
    cpu, into = borders.cpu[at:], borders.into[at:] != 0
    nr = np.where(into, hidden_nr, shadow.nr[cpu]).astype(np.int32)
    free = np.where(into, max(hidden_nr, 0), shadow.free[cpu]).astype(np.int32)
    none = np.zeros(cpu.size, np.int32)
    yield Batch(borders.ts_ns[at:], cpu, nr, free, none, none.astype(np.int8))


def merged(spans: pl.DataFrame, cpus: int) -> pl.DataFrame:
    """Merge the spans of each CPU that overlap or touch."""
    cpu, start, end = (spans[c].to_numpy() for c in ("cpu", "start_ns", "end_ns"))
    if (cpu < 0).any():  # a span of CPU -1 counts for every CPU
        row = np.repeat(np.arange(cpu.size), np.where(cpu < 0, cpus, 1))
        start, end = start[row], end[row]
        everywhere = np.tile(np.arange(cpus, dtype=np.int32), int((cpu < 0).sum()))
        cpu = cpu[row]
        cpu[cpu < 0] = everywhere
    # depth: how many spans contain each moment; where spans begin and end at the same moment, beginnings are sorted first
    begins = np.repeat([True, False], cpu.size)
    cpu, ts_ns = np.tile(cpu, 2), np.concatenate([start, end])
    order = np.lexsort((~begins, ts_ns, cpu))
    depth = np.cumsum(np.where(begins[order], 1, -1))
    first, last = order[(depth == 1) & begins[order]], order[depth == 0]
    return pl.DataFrame(
        {"cpu": cpu[last], "start_ns": ts_ns[first], "end_ns": ts_ns[last]}, schema=SPANS
    )


def _cpu_lists(masks: NDArray[np.uint64], cpus: int) -> pl.Series:
    """Turn rows of CPU masks, in each of which there is a CPU, into lists of CPU numbers."""
    bits = np.unpackbits(masks.view(np.uint8), axis=1, bitorder="little")[:, :cpus]
    row, cpu = np.nonzero(bits)
    table = pl.DataFrame({"row": row, "cpu": cpu.astype(np.int32)})
    return table.group_by("row", maintain_order=True).agg("cpu")["cpu"]


def spans_of(collected: Collected, persist_ns: int) -> pl.DataFrame:
    """Return when each episode began and ended, whether it is persistent, and what it wasted."""
    times = np.concatenate([np.zeros((0, 3), np.int64), *collected.times])
    return pl.DataFrame(
        {
            "start_ns": times[:, 0],
            "end_ns": times[:, 1],
            "persistent": times[:, 1] - times[:, 0] >= persist_ns,
            "wasted_ns": times[:, 2],
        }
    )


def episode_table(collected: Collected, cpus: int, persist_ns: int) -> pl.DataFrame:
    """Return the episodes as a table."""
    if not collected.size:
        return pl.DataFrame(schema=_EPISODES)
    _, idle, over = collected.whole()
    lists = (
        _cpu_lists(m, cpus).alias(f"{of}_cpus") for of, m in (("idle", idle), ("overloaded", over))
    )
    return spans_of(collected, persist_ns).with_columns(*lists)
