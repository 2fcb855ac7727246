"""The balancer's decisions in a trace: a table of all calls, why they moved nothing, and the answers that one CPU got.

A call is an event of kind ``decision`` (docs/events.md). Replays have these events on request, and the online checker adds the
events of the 20 ms after a violation, as the paper's checker does (section 4.1).
"""

from __future__ import annotations

import polars as pl

from wastedcores.errors import MissingEventsError, TraceFormatError
from wastedcores.trace.named import TraceLike
from wastedcores.trace.named import open as opened
from wastedcores.units import human_ns

#: result of a call -> the end of a sentence that says what the balancer did
RESULTS = {
    "not_designated": "another CPU balances for this group",
    "balanced": "balanced",
    "no_queue": "no CPU of the busiest group had a waiting thread",
    "pinned": "the threads there may not run on this CPU",
    "hot": "the threads there were cache-hot",
    "failed": "no thread there could be moved",
    "active": "the running thread there was pushed",
    "moved": "threads moved",
    "no_domain": "the CPU has no scheduling domain, so there was no level at which it could ask",
    "nothing_moved": "nothing moved, and no probe could tell why",
}
#: the results after which no thread moved, in the order of Algorithm 1
REFUSALS = (
    "no_domain", "not_designated", "balanced", "no_queue", "pinned", "hot", "failed", "nothing_moved",
)  # fmt: skip

#: why nothing was pulled although the busiest group has the higher load
_WHY = {
    "above average": "but the local group is above the average of the level, ",
    "idle rule": "but the busiest group is not overloaded and has as many idle CPUs, ",
    "margin": "but the difference is within the margin, ",
    "local type": "and the local group is fuller by its type, ",
    "busy": "but no CPU here is idle and the busiest group is not overloaded, ",
    "idle CPUs": "but the busiest group has as many idle CPUs, ",
    "single task": "but a single thread is there, ",
    "no imbalance": "but nothing would be gained, ",
}
_GROUPS = {
    "cpus": pl.String(), "local": pl.Boolean(), "type": pl.String(), "load": pl.Int64(),
    "avg_load": pl.Int64(), "min_load": pl.Int64(), "max_load": pl.Int64(), "nr_running": pl.Int64(),
    "idle_cpus": pl.Int64(), "capacity": pl.Int64(), "usage": pl.Int64(), "load_per_task": pl.Int64(),
}  # fmt: skip
_TEXT = pl.Struct(
    {
        "level": pl.String, "moment": pl.String, "compares": pl.String, "by_cpu": pl.Int64, "idle": pl.String,
        "designated": pl.Int64, "dst_cpu": pl.Int64, "busiest": pl.Int64, "imbalance": pl.Int64, "average": pl.Int64,
        "imbalance_pct": pl.Int64, "tries": pl.Int64, "nr_balance_failed": pl.Int64, "interval_ms": pl.Int64,
        "src_nr_running": pl.Int64, "prefer_sibling": pl.Boolean, "pinned": pl.Int64, "running": pl.Int64,
        "hot": pl.Int64, "heavy": pl.Int64, "reason": pl.String, "migration": pl.String,
        "groups": pl.Struct({key: pl.List(dtype) for key, dtype in _GROUPS.items()}),
    }
)  # fmt: skip


def decisions(trace: TraceLike, window: tuple[int, int] | None = None) -> pl.DataFrame:
    """Return the balancer's decisions of a trace, one row per call of load_balance().

    Parameters
    ----------
    trace
        The trace or its name.
    window
        First and last ns; None: the whole trace.

    Returns
    -------
    polars.DataFrame
        Columns ts_ns, cpu, src_cpu, result, moved, the columns of docs/events.md, local_load and busiest_load (the loads that
        were compared, null if none were), and why: how the comparison ended if the result is ``balanced``.

    Raises
    ------
    MissingEventsError
        The trace has no decisions.
    TraceFormatError
        The text of a decision is not what docs/events.md describes.
    """
    trace = opened(trace)
    if "decision" not in trace.kinds():
        raise MissingEventsError(
            f"{trace.name}: has no decisions of the balancer. `wastedcores replay SCENARIO --decisions` and violations that "
            "`wastedcores watch` finds have them."
        )
    found = trace.only("decision")
    if window is not None:
        found = found.filter(pl.col("ts_ns").is_between(*window))
    table = found.select(
        "ts_ns", "cpu", "src_cpu", result=pl.col("op").cast(pl.String), moved="value", text="text"
    ).collect()
    try:
        texts = table["text"].str.json_decode(_TEXT)
    except pl.exceptions.PolarsError as e:
        raise TraceFormatError(
            f"{trace.name}: the text of a decision is not the JSON object that docs/events.md describes: {e}"
        ) from e
    whole = pl.concat([table.drop("text"), texts.struct.unnest()], how="horizontal")
    return _with_loads(whole.with_columns(groups=_whole_lists(whole["groups"], trace.name)))


def _whole_lists(groups: pl.Series, name: str) -> pl.Series:
    """Give each list an entry per group, null where a recording lacks the value."""
    lists = groups.struct.unnest()
    wanted = lists["cpus"].list.len()
    for key, dtype in _GROUPS.items():
        if (lists[key].is_null() & wanted.is_not_null()).any():
            nothing = lists["cpus"].list.eval(pl.when(pl.lit(False)).then(pl.element()))
            whole = lists[key].fill_null(nothing.cast(pl.List(dtype)))
            lists = lists.with_columns(whole.alias(key))
        if not lists[key].list.len().eq_missing(wanted).all():
            raise TraceFormatError(
                f"{name}: the groups of a decision have {key!r} of another number than CPUs; docs/events.md describes them."
            )
    packed = lists.to_struct("groups")
    return packed.zip_with(
        wanted.is_not_null(), pl.Series([None], dtype=packed.dtype).new_from_index(0, len(packed))
    )


def _with_loads(table: pl.DataFrame) -> pl.DataFrame:
    """Add the loads that were compared, and how the comparison ended."""
    groups = pl.col("groups").struct
    by_least = pl.col("compares") == "min_load"
    local_at = groups.field("local").list.eval(pl.element().arg_true()).list.last()

    def of(field: str, at: pl.Expr) -> pl.Expr:
        return groups.field(field).list.get(at, null_on_oob=True)

    def compared(at: pl.Expr) -> pl.Expr:
        return pl.when(by_least).then(of("min_load", at)).otherwise(of("avg_load", at))

    table = table.with_columns(_local=local_at.cast(pl.Int64))
    local, busiest = pl.col("_local"), pl.col("busiest")
    table = table.with_columns(
        local_load=compared(local),
        busiest_load=compared(busiest),
        _nr=of("nr_running", busiest),
        _idle_rule=(pl.col("idle") == "idle") & (of("type", busiest) != "overloaded"),
    )
    why = (
        # since v5.5 the kernel compares more than loads. A replay tells what was compared; a recording does not
        pl.when((pl.col("result") != "balanced") | pl.col("moment").is_null()).then(None)
        .when((pl.col("compares") == "group_type").fill_null(False)).then(pl.col("reason"))
        .when(busiest.is_null() | (pl.col("_nr") == 0)).then(pl.lit("no thread"))
        .when(by_least).then(pl.lit("minimum"))
        .when(pl.col("local_load") >= pl.col("busiest_load")).then(pl.lit("average"))
        .when(pl.col("local_load") >= pl.col("average")).then(pl.lit("above average"))
        .when(pl.col("_idle_rule")).then(pl.lit("idle rule"))
        .otherwise(pl.lit("margin"))
    )  # fmt: skip
    return table.with_columns(why=why).drop("_local", "_nr", "_idle_rule")


def refused_calls(table: pl.DataFrame) -> pl.DataFrame:
    """Count the calls by level and result, with the loads that were compared."""
    size = pl.col("groups").struct.field("capacity").list.sum().mean()
    order = dict(table.group_by("level").agg(size).iter_rows())
    counted = table.group_by("level", "result", "why").agg(
        calls=pl.len(),
        cpus=pl.col("cpu").n_unique(),
        moved=pl.col("moved").sum(),
        local_load=pl.col("local_load").median(),
        busiest_load=pl.col("busiest_load").median(),
    )
    rank = pl.col("level").replace_strict(order, default=0, return_dtype=pl.Float64).fill_null(0)
    return (
        counted.with_columns(_rank=rank)
        .sort(
            "_rank",
            "level",
            "calls",
            "result",
            "why",
            descending=[False, False, True, False, False],
        )
        .drop("_rank")
    )


def refused(trace: TraceLike) -> dict[str, int]:
    """Count the calls of a trace after which no thread moved, by their results; empty if it has no decisions."""
    trace = opened(trace)
    if "decision" not in trace.kinds():
        return {}
    counted = decisions(trace)["result"].value_counts().iter_rows()
    return {result: calls for result, calls in counted if result in REFUSALS}


def asked(table: pl.DataFrame, cpu: int, level: str = "") -> list[str]:
    """Say in sentences which answers a CPU got when it asked for work."""
    if table.is_empty():
        return []
    ts_ns = table["ts_ns"].to_numpy()
    length = human_ns(float(ts_ns.max() - ts_ns.min()))
    mine = table.filter(pl.col("cpu") == cpu)
    if "no_domain" in mine["result"]:
        return [
            f"In these {length} {RESULTS['no_domain'].replace('the CPU has', f'CPU {cpu} had')}."
        ]
    at = mine.filter(pl.col("level") == level) if level else mine
    if at.is_empty():
        where = f" at {level}" if level else ""
        asks = "" if mine.is_empty() else f", but {_times(mine.height)} at other levels"
        return [f"In these {length} CPU {cpu} never asked for work{where}{asks}."]
    out = [_asked(part, cpu, length) for part in at.partition_by("level", maintain_order=True)]
    others = at.filter(pl.col("result") == "not_designated")["designated"].drop_nulls()
    if others.len() == at.height and others.len():
        other = int(others.mode().sort()[0])
        theirs = table.filter(
            (pl.col("cpu") == other) & pl.col("level").is_in(at["level"].unique())
        )
        out += [
            _asked(part, other, length)
            for part in theirs.partition_by("level", maintain_order=True)
        ]
    return out


def _asked(part: pl.DataFrame, cpu: int, length: str) -> str:
    """Say which answers a CPU got at one level."""
    level = part["level"][0]
    reasons = (
        part.group_by("result", "why")
        .agg(pl.len())
        .sort("len", "result", "why", descending=[True, False, False])
    )
    said = []
    for result, why, calls in reasons.iter_rows():
        chosen = part.filter((pl.col("result") == result) & pl.col("why").eq_missing(why))
        row = chosen.row(chosen.height // 2, named=True)
        said.append(("" if reasons.height == 1 else f"{_times(calls)} ") + _example(row))
    where = f" at {level}" if level else ""
    return f"In these {length} CPU {cpu} asked {_times(part.height)}{where}: {'; '.join(said)}."


def _example(row: dict) -> str:
    """Say how a call ended, with the loads if they decided."""
    if row["result"] == "not_designated" and row["designated"] is not None:
        return f"CPU {row['designated']} balances for its group"
    if row["why"] in ("no thread", "no task"):
        return "no other group had a thread, balanced"
    if row["result"] == "moved":
        source = "" if row["src_cpu"] is None else f" from CPU {row['src_cpu']}"
        return f"moved {row['moved']}{source}"
    if row["local_load"] is None or row["busiest_load"] is None:
        return RESULTS.get(row["result"], row["result"])
    least = "least loads " if row["compares"] == "min_load" else ""
    why = _WHY.get(row["why"] or "", "")
    result = RESULTS.get(row["result"], row["result"])
    return f"{least}local {row['local_load']}, busiest {row['busiest_load']}, {why}{result}"


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")
