"""Several runs of one workload side by side: the cost of a bug and the gain of a fix.

Interface::

    c = compare({"v4.1": replay(...), "v4.1+missing_domains": replay(...)})     or traces, or both
    c.table         one row per run: makespan, result, wasted core time, waits, migrations
    c.balance       one row per run and level: load_balance() calls by result (replays only)
    c.suggestions   one row per run, module and moment: answers of a design's core to its modules (replays of designs only)
    c.gain("makespan_s")     how much lower makespan_s is in each run than in the first run, as a fraction
    c.to_json()     {"schema": "wastedcores.compare/1", ...}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from wastedcores.analysis.examined import examine
from wastedcores.analysis.moves import moves
from wastedcores.errors import UsageError
from wastedcores.invariant import PERSIST_NS, CheckResult
from wastedcores.shown import Shown
from wastedcores.trace.named import TraceLike
from wastedcores.trace.named import open as opened
from wastedcores.trace.trace import Trace
from wastedcores.units import S, human_ns

if TYPE_CHECKING:
    from wastedcores.simulator import Replay

COMPARE_SCHEMA = "wastedcores.compare/1"
#: percentiles of the time from runnable to running
PERCENTILES = (50, 90, 99)
#: results of load_balance() that left the imbalance unchanged
REFUSALS = ("not_designated", "balanced", "no_queue", "pinned", "failed")


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """The result of :func:`compare`."""

    #: One row per run: run, makespan_s, result, result_name, verdict, persistent_episodes, wasted_s (wall time with an idle
    #: and an overloaded CPU), wasted_core_s (integral of min(idle CPUs, waiting threads)), busy_cpus, waits, wait_p50_ms,
    #: wait_p90_ms, wait_p99_ms, wait_max_ms, refused_suggestions (of a design's modules), migrations, one column per kind of
    #: migration, and moves_per_s, moves_across_caches_per_s and moves_across_nodes_per_s. What a run does not tell is null.
    table: pl.DataFrame
    #: One row per run, level and kind of idleness: calls, refusals, and one column per result; empty without replays.
    balance: pl.DataFrame
    #: One row per run, module and moment: asked, silent, taken, refused (docs/design-mode.md); empty without designs.
    suggestions: pl.DataFrame
    checks: dict[str, CheckResult]  #: The check of the invariant on each run.
    waits: dict[str, np.ndarray]  #: Name of the run -> lengths of all waits in ns.

    def _facts(self) -> dict[str, str]:
        return {
            row[
                "run"
            ]: f"{row['verdict']}, {human_ns(row['wasted_core_s'] * S)} of core time wasted, "
            f"{human_ns(row['makespan_s'] * S)} long"
            for row in self.table.iter_rows(named=True)
        }

    def gain(self, column: str) -> dict[str, float | None]:
        """Return how much lower a column's number is in each run than in the first run, as a fraction of the first run's number.

        The fraction is None if one of the two numbers is not known, or if the first is 0 and the other is not.
        """
        if column not in self.table.columns or not self.table[column].dtype.is_numeric():
            numbers = [c for c in self.table.columns if self.table[c].dtype.is_numeric()]
            raise UsageError(f"compare: no column {column!r}; there are {', '.join(numbers)}.")
        values = self.table[column].to_list()
        return {run: _less(values[0], v) for run, v in zip(self.table["run"], values, strict=True)}

    def to_json(self) -> dict[str, Any]:
        """Return the object that ``wastedcores compare --json`` prints."""
        runs = []
        for row in self.table.to_dicts():
            calls = self.balance.filter(pl.col("run") == row["run"]).drop("run").to_dicts()
            asked = self.suggestions.filter(pl.col("run") == row["run"]).drop("run").to_dicts()
            runs.append({**row, "balance": calls, "suggestions": asked})
        return {"schema": COMPARE_SCHEMA, "runs": runs}


def compare(
    runs: Mapping[str, TraceLike | Replay],
    *,
    persist_ns: int = PERSIST_NS,
    whole: bool = False,
    ignore_affinity: bool = False,
) -> Comparison:
    """Compare runs of one workload with the first of them.

    Parameters
    ----------
    runs
        Name -> trace (or its file or data set), or replay. In a trace, only the window and the CPUs that the recording
        names count; in a replay, only the time of its workload counts.
    persist_ns
        Episodes of at least this length are persistent, in ns.
    whole
        Count all of each trace.
    ignore_affinity
        Treat every waiting thread as movable.

    Returns
    -------
    Comparison
        The table, the load_balance() calls, the checks and the waits.

    Raises
    ------
    UsageError
        There is no run, or one is neither a trace nor a replay.
    """
    if not runs:
        raise UsageError("compare: no run given; pass at least one trace or replay.")
    for name, run in runs.items():
        if not (isinstance(run, Trace | str | Path) or hasattr(run, "trace")):
            raise UsageError(
                f"compare: {name!r} is a {type(run).__name__}; expected a trace, its file, a data set's name or a replay."
            )
    rows, balance, asked = [], [], []
    checks: dict[str, CheckResult] = {}
    waits: dict[str, np.ndarray] = {}
    for name, run in runs.items():
        replayed, trace = (
            (None, opened(run)) if isinstance(run, Trace | str | Path) else (run, run.trace)
        )
        # the window of a replay is the time of its workload
        window = (
            (replayed.summary.start_ns, replayed.summary.end_ns) if replayed and not whole else None
        )
        found = examine(
            trace,
            name,
            persist_ns=persist_ns,
            between=window,
            whole=whole,
            ignore_affinity=ignore_affinity,
        )
        result = checks[name] = found.result
        waits[name] = found.wait_lengths
        rows.append(
            {
                "run": name,
                **_outcome(replayed, result),
                **_waste(result),
                **_percentiles(waits[name]),
                "refused_suggestions": _refused(replayed),
                **_migrations(trace, result),
                **_moves(trace, result),
            }
        )
        if replayed is not None:
            balance.append(_calls(replayed, name))
            asked.append(replayed.suggestions.select(pl.lit(name).alias("run"), pl.all()))
    table = pl.DataFrame(
        _every_reason(rows), schema_overrides={"migrations": pl.Int64}, infer_schema_length=None
    )
    return Comparison(
        table,
        pl.concat(balance) if balance else pl.DataFrame(schema=CALLS),
        pl.concat([_nothing_asked(), *asked]),
        checks,
        waits,
    )


def _less(first: float | None, value: float | None) -> float | None:
    """Return how much lower a number is than the first, as a fraction of the first; None if this is not known or defined."""
    if first is None or value is None:
        return None
    if first:
        return 1 - value / first
    return None if value else 0.0


def _every_reason(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add a 0 for each reason of moves that only other runs have, to each run that tells its reasons or had no moves."""
    reasons = dict.fromkeys(k for row in rows for k in row if k.startswith("migrations_"))
    return [
        row | {k: row.get(k, 0) for k in reasons}
        if row["migrations"] == 0 or reasons.keys() & row.keys()
        else row
        for row in rows
    ]


def _outcome(run: Replay | None, result: CheckResult) -> dict[str, Any]:
    if run is None:
        return {"makespan_s": result.duration_ns / 1e9, "result": None, "result_name": None}
    return {
        "makespan_s": run.makespan_ns / 1e9,
        "result": run.summary.result,
        "result_name": run.result_name,
    }


def _waste(result: CheckResult) -> dict[str, Any]:
    return {
        "verdict": result.verdict,
        "persistent_episodes": int(result.episodes["persistent"].sum() or 0),
        "wasted_s": result.wall_ns / 1e9,
        "wasted_core_s": result.thread_ns / 1e9,
        "busy_cpus": result.mean(result.busy_ns),
    }


def _percentiles(waits: np.ndarray) -> dict[str, Any]:
    known = waits.size > 0
    out: dict[str, Any] = {"waits": int(waits.size)}
    for p in PERCENTILES:
        out[f"wait_p{p}_ms"] = float(np.percentile(waits, p)) / 1e6 if known else None
    out["wait_max_ms"] = float(waits.max()) / 1e6 if known else None
    return out


def _migrations(trace: Trace, result: CheckResult) -> dict[str, int | None]:
    """Count the moves inside the window, in total and by reason (if told); None if the trace has no events of moves.

    A replay writes an event for every move, so a replay without events of moves had no moves.
    """
    if "migrate" not in trace.kinds() and trace.header.source_format != "replay":
        return {"migrations": None}
    inside = trace.only("migrate").filter(
        pl.col("ts_ns").is_between(result.start_ns, result.end_ns),
        pl.col("cpu") != pl.col("src_cpu"),
    )
    counts = inside.group_by(pl.col("op").cast(pl.String)).len().collect().sort("op")
    out: dict[str, int | None] = {"migrations": int(counts["len"].sum())}
    out.update({f"migrations_{op}": int(n) for op, n in counts.iter_rows() if op is not None})
    return out


def _moves(trace: Trace, result: CheckResult) -> dict[str, Any]:
    found = moves(trace, result.start_ns, result.end_ns)
    return {f"moves_{name}": rate for name, rate in found.items()}


# --- suggestions of a design's modules --------------------------------------------------------------------------------


def _nothing_asked() -> pl.DataFrame:
    texts = dict.fromkeys(("run", "module", "moment"), pl.String)
    return pl.DataFrame(
        schema=texts | dict.fromkeys(("asked", "silent", "taken", "refused"), pl.Int64)
    )


def _refused(run: Replay | None) -> int | None:
    """Return how many suggestions the core refused; None where no module is asked."""
    if run is None or not run.kernel.is_design:
        return None
    return int(run.suggestions["refused"].sum())


# --- load_balance() calls ---------------------------------------------------------------------------------------------

_CALLS = ("not_designated", "balanced", "no_queue", "pinned", "failed", "active", "moved")


#: the columns of :attr:`Comparison.balance`
CALLS = pl.Schema(
    {"run": pl.String, "level": pl.Int64, "idle": pl.String}
    | dict.fromkeys(("calls", "refusals", *_CALLS), pl.Int64)
)


def _calls(run: Replay, name: str) -> pl.DataFrame:
    """Return one row per level and kind of idleness; ``balance_calls`` has a row per result for each of these."""
    out = pl.DataFrame(schema=CALLS)
    if not run.balance_calls.height:
        return out
    wide = run.balance_calls.with_columns(pl.col("calls").cast(pl.Int64)).pivot(
        on="result", index=["level", "idle"], values="calls", aggregate_function="sum"
    )
    missing = [pl.lit(0, pl.Int64).alias(c) for c in _CALLS if c not in wide.columns]
    wide = wide.with_columns(missing).fill_null(0)
    return wide.select(
        pl.lit(name).alias("run"),
        pl.col("level").cast(pl.Int64),
        pl.col("idle").cast(pl.String),
        pl.sum_horizontal(_CALLS).alias("calls"),
        pl.sum_horizontal(REFUSALS).alias("refusals"),
        *[pl.col(c).cast(pl.Int64) for c in _CALLS],
    ).sort("level", "idle")
