"""Slow while busy: CPUs that ran tasks although their frequency was near its lowest (Sites; fork/wait paper, Figure 1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from wastedcores.analysis.examined import Examined
from wastedcores.analysis.states import States
from wastedcores.errors import MissingEventsError, UsageError
from wastedcores.shown import Shown
from wastedcores.units import human_ns

#: a frequency up to this multiple of the lowest one is slow
NEAR_LOWEST = 1.25
#: a CPU must be slow for at least this long to be listed: a tick at 250 Hz
SLOW_NS = 4_000_000
#: a tick gives the frequency since the CPU's previous tick, if the previous tick is at most this many periods ago
_PERIODS = 1.5


@dataclass(frozen=True, repr=False)
class SlowWhileBusy(Shown):
    """The outcome of :func:`slow_while_busy`."""

    #: columns cpu, start_ns and end_ns: intervals of at least ``persist_ns`` in which a CPU was busy and slow, cut to the window
    spans: pl.DataFrame
    #: the lowest frequency, and the highest one that counts as slow
    lowest_khz: int
    limit_khz: int
    #: whether ``lowest_khz`` is only the lowest frequency in the trace, because the trace does not tell the machine's lowest one
    lowest_is_seen: bool
    #: busy time of all CPUs whose frequency is known, and the slow part of it, including times that are too short for ``spans``
    busy_ns: int
    slow_ns: int
    unknown_ns: int  #: busy time without a known frequency
    frequency: States  #: the known frequencies in kHz over time; -1 is unknown
    persist_ns: int = SLOW_NS  #: times of at least this length are in ``spans``

    @property
    def share(self) -> float:
        """The slow part of the busy time whose frequency is known."""
        return self.slow_ns / self.busy_ns if self.busy_ns else 0.0

    @property
    def longest_ns(self) -> int:
        """The longest time in which a CPU was busy and slow; 0 if ``spans`` is empty."""
        return int((self.spans["end_ns"] - self.spans["start_ns"]).max() or 0)  # type: ignore[arg-type]

    @property
    def sentence(self) -> str:
        """The outcome in one sentence."""
        if not self.busy_ns:
            return "No busy time has a known frequency, so it is not known whether a CPU was slow while it was busy."
        lowest = (
            "the lowest one of the trace" if self.lowest_is_seen else "the machine's lowest one"
        )
        known = self.busy_ns / (self.busy_ns + self.unknown_ns)
        if not self.spans.height:
            return (
                f"No CPU was busy for {human_ns(self.persist_ns)} at {self.limit_khz / 1e6:.2f} GHz or less "
                f"(1.25 times {lowest}), as far as frequencies are known: for {known:.0%} of the busy time."
            )
        return (
            f"CPUs were busy at {self.limit_khz / 1e6:.2f} GHz or less (1.25 times {lowest}) for {self.share:.0%} of their busy "
            f"time, at most for {human_ns(self.longest_ns)} on end; the frequency is known for {known:.0%} of the busy time."
        )

    def _facts(self) -> dict[str, str]:
        return {
            "slow while busy": f"{self.share:.1%} of {human_ns(self.busy_ns)}",
            "longest": human_ns(self.longest_ns),
            "limit": f"{self.limit_khz / 1e6:.2f} GHz",
            "busy, frequency unknown": human_ns(self.unknown_ns),
        }


def slow_while_busy(
    run: Examined, *, lowest_khz: int | None = None, persist_ns: int = SLOW_NS
) -> SlowWhileBusy:
    """Find the times in which a CPU was busy although its frequency was near the lowest one.

    This is no violation of the invariant, and it changes no verdict: a CPU needs time to become fast.

    Parameters
    ----------
    run
        The examined trace; only its window counts. It needs ``tick`` or ``frequency`` events.
    lowest_khz
        The lowest frequency; default: the lowest of the machine in the trace, else the lowest that the trace tells.
    persist_ns
        Times of at least this length are listed.

    Returns
    -------
    SlowWhileBusy
        The times, and their share of the busy time.

    Raises
    ------
    MissingEventsError
        The trace does not tell any frequency.
    UsageError
        ``lowest_khz`` is not above 0.
    """
    clock = _known(run)
    if lowest_khz is not None and lowest_khz <= 0:
        raise UsageError(f"lowest_khz={lowest_khz}: expected kHz above 0.")
    own = run.machine.frequency.min_khz if run.machine and run.machine.frequency else None
    lowest = int(lowest_khz or own or clock["khz"].min())  # type: ignore[arg-type]
    limit = int(NEAR_LOWEST * lowest)
    states = run.scene.states
    found, busy_ns, slow_ns, unknown_ns = [], 0, 0, 0
    for cpu in run.scene.cpus:
        busy = _busy(states, cpu, (run.result.start_ns, run.result.end_ns))
        mine = clock.filter(pl.col("cpu") == cpu).select("start_ns", "end_ns", "khz").to_numpy()
        spans, known, slow = _of_cpu(busy, np.ascontiguousarray(mine, np.int64), limit)
        columns = {
            "cpu": np.full(len(spans), cpu, np.int32),
            "start_ns": spans[:, 0],
            "end_ns": spans[:, 1],
        }
        found.append(pl.DataFrame(columns))
        busy_ns, slow_ns = busy_ns + known, slow_ns + slow
        unknown_ns += int((busy[:, 1] - busy[:, 0]).sum()) - known
    spans_table = pl.concat(found).filter(pl.col("end_ns") - pl.col("start_ns") >= persist_ns)
    seen = not (lowest_khz or own)
    return SlowWhileBusy(
        spans_table.sort("start_ns", "cpu"), lowest, limit, seen, busy_ns, slow_ns, unknown_ns,
        _changes(run, clock), persist_ns,
    )  # fmt: skip


def _of_cpu(busy: np.ndarray, clock: np.ndarray, limit: int) -> tuple[np.ndarray, int, int]:
    from wastedcores.analysis.slow_jit import busy_and_slow

    out = np.empty((len(busy) + len(clock), 2), np.int64)
    n, known, slow = busy_and_slow(busy, clock.reshape(-1, 3), limit, out)
    return out[:n], int(known), int(slow)


def _busy(states: States, cpu: int, window: tuple[int, int]) -> np.ndarray:
    """Return the beginnings and ends of the times inside a window in which a runqueue is known to hold a task."""
    part = slice(states.offsets[cpu], states.offsets[cpu + 1])
    starts, values = states.ts[part], states.values[part]
    ends = np.clip(np.r_[starts[1:], states.end_ns][: starts.size], *window)
    starts = np.clip(starts, *window)
    return np.c_[starts, ends][(values >= 1) & (ends > starts)].astype(np.int64).reshape(-1, 2)


def _known(run: Examined) -> pl.DataFrame:
    """Return cpu, start_ns, end_ns and khz of the times with a known frequency, sorted by CPU and time, without overlaps."""
    told = run.trace.only("frequency", "tick").select("ts_ns", "cpu", "value", "kind").collect()
    silent = not told.is_empty()
    told = told.filter(pl.col("value") > 0, pl.col("cpu").is_not_null())
    if told.is_empty() and silent:
        raise MissingEventsError(
            f"{run.label}: its ticks have no frequency, because the machine that was recorded has no source of it (wastedcores "
            "doctor lists the sources), so it is not known how fast a CPU was."
        )
    if told.is_empty():
        raise MissingEventsError(
            f"{run.label}: no 'tick' and no 'frequency' events, so it is not known how fast a CPU was. wastedcores doctor says "
            "whether this machine can tell it; replays on machines with frequencies have them."
        )
    end = run.scene.states.end_ns
    told = told.sort("cpu", "ts_ns", maintain_order=True)
    before, after = (pl.col("ts_ns").shift(n).over("cpu", "kind") for n in (1, -1))
    gap = pl.col("ts_ns") - before
    tick = pl.col("kind") == "tick"
    period = told.filter(tick).select(gap.median()).item()
    # a change of frequency holds until the next one; a tick tells about the time since the tick before it
    near = pl.when(gap <= _PERIODS * (period or 0)).then(before)
    pieces = told.with_columns(
        start_ns=pl.when(tick).then(pl.coalesce(near, pl.col("ts_ns") - int(period or 0))).otherwise("ts_ns"),
        end_ns=pl.when(tick).then("ts_ns").otherwise(after.fill_null(end)),
    )  # fmt: skip
    if pieces["kind"].n_unique() > 1:
        # only ticks count, because their frequencies were measured; changes only say which frequency was requested
        pieces = pieces.filter(tick)
    overlap = pl.col("end_ns").shift(1, fill_value=np.iinfo(np.int64).min).over("cpu")
    return (
        pieces.with_columns(start_ns=pl.max_horizontal("start_ns", overlap))
        .filter(pl.col("end_ns") > pl.col("start_ns"))
        .select("cpu", "start_ns", "end_ns", khz="value")
    )


def _changes(run: Examined, clock: pl.DataFrame) -> States:
    """Return the frequencies as changes; -1 where nothing is known."""
    follows = pl.col("start_ns").shift(-1).over("cpu") == pl.col("end_ns")
    ends = clock.filter(~follows.fill_null(False)).select(
        ts="end_ns", cpu="cpu", khz=pl.lit(-1, pl.Int64), order=pl.lit(0)
    )
    begins = clock.select(ts="start_ns", cpu="cpu", khz="khz", order=pl.lit(1))
    rows = pl.concat([ends, begins]).sort("ts", "order")
    states = run.scene.states
    batch = tuple(rows[c].to_numpy() for c in ("ts", "cpu", "khz"))
    return States.collect([batch], states.n_cpus, states.start_ns, states.end_ns)  # type: ignore[list-item]
