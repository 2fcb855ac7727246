"""Who took my CPU: what became of the time in which the tasks of each control group could have run."""

from __future__ import annotations

import numpy as np
import polars as pl

from wastedcores.invariant.avoidable import AvoidableWaits
from wastedcores.invariant.result import CheckResult
from wastedcores.runqueues.runqueues import comms, runqueues
from wastedcores.trace.header import Header

#: the parts of the time in which a task could run
PARTS = ("ran_ns", "waited_ns", "wasted_ns", "throttled_ns", "stolen_ns")
SCHEMA = pl.Schema(
    {"name": pl.String(), "kind": pl.String(), "tasks": pl.UInt32()}
    | dict.fromkeys((*PARTS, "runnable_ns"), pl.Int64())
)

#: switches that are read at a time
_ROWS = 1 << 20


def who_took(result: CheckResult) -> pl.DataFrame:
    """Divide the time in which tasks could run by what became of it.

    A task is runnable from the moment at which it is woken or forked until it blocks. All of that time is in one of five parts,
    so that their sum is the runnable time. A part that is not known is null. Stolen time that is not known is in ``ran_ns``.
    Throttled time that is not known is in no column, because the trace then shows throttled tasks neither running nor waiting.

    Parameters
    ----------
    result
        A check of the trace. Its window and its CPUs are used.

    Returns
    -------
    polars.DataFrame
        One row per control group; the groups that waited longest come first. If the trace knows no group but the root, one row
        per name of a process or task. Columns: name, kind (``cgroup`` or ``process``), tasks, ran_ns (on a CPU, without stolen
        time), waited_ns (no CPU that the task may use was idle), wasted_ns (such a CPU was idle), throttled_ns (its group had
        used up its limit), stolen_ns (the hypervisor ran something else; the count of a CPU is divided among the tasks by how
        long they were on it), and runnable_ns, the sum of the parts that are known. Empty if the trace has no switch events.
    """
    rq = runqueues(result.trace, silent=result.silent, affinity=result.affinity != "ignored")
    if rq.source != "tasks":
        return pl.DataFrame(schema=SCHEMA)
    window = result.start_ns, result.end_ns
    counted = np.zeros(rq.cpus, np.uint8)
    counted[result.counted_cpus] = 1
    waits = AvoidableWaits(rq, counted, *window)
    for batch in rq.batches(waits=True):
        waits.add(batch)
    waited, wasted = waits.by_thread()
    pids = rq.tasks.pids(np.arange(waited.size))
    table = pl.DataFrame(
        {"pid": pids, "waited_ns": waited - wasted, "wasted_ns": wasted},
        schema_overrides={"pid": pl.Int32},
    )
    for more in (_ran(result, rq.start_ns, rq.end_ns), _throttled(result, rq.end_ns)):
        table = table.join(more, on="pid", how="full", coalesce=True)
    table = table.with_columns(
        pl.col("waited_ns", "wasted_ns", "on_cpu_ns", "share_ns", "throttled_ns").fill_null(0)
    ).filter(
        pl.col("pid") > 0,
        pl.sum_horizontal("waited_ns", "wasted_ns", "on_cpu_ns", "throttled_ns") > 0,
    )
    stolen = pl.col("share_ns") if _steal_known(result) else pl.lit(None, pl.Int64)
    table = table.join(_names(result), on="pid", how="left").with_columns(
        stolen_ns=stolen,
        ran_ns=pl.col("on_cpu_ns") - stolen.fill_null(0),
        throttled_ns=pl.when("limit_known").then("throttled_ns"),
    )
    known = (pl.col(p).is_not_null().all() for p in ("throttled_ns", "stolen_ns"))
    sums = table.group_by("name", "kind").agg(
        pl.len().alias("tasks"),
        *(pl.col(p).sum() for p in PARTS[:3]),
        *(
            pl.when(told).then(pl.col(p).sum()).alias(p)
            for p, told in zip(PARTS[3:], known, strict=True)
        ),
    )
    return (
        sums.with_columns(runnable_ns=pl.sum_horizontal(*PARTS))
        .sort(pl.col("waited_ns") + pl.col("wasted_ns"), "name", descending=[True, False])
        .select(SCHEMA.names())
        .cast(SCHEMA)  # type: ignore[arg-type]
    )


def _inside(start: pl.Expr, end: pl.Expr, result: CheckResult) -> pl.Expr:
    window = result.start_ns, result.end_ns
    return end.clip(*window) - start.clip(*window)


def _ran(result: CheckResult, start_ns: int, end_ns: int) -> pl.DataFrame:
    """Return the time of every task on a CPU, and its share of the time that was stolen from these CPUs."""
    last = pl.DataFrame(schema={"cpu": pl.Int32, "pid": pl.Int32, "ts_ns": pl.Int64})
    by_cpu = pl.DataFrame(schema={"pid": pl.Int32, "cpu": pl.Int32, "on_cpu_ns": pl.Int64})
    columns = ["ts_ns", "cpu", "pid", "prev_pid"]
    for every in result.trace.batches(columns, "switch", rows=_ROWS):
        batch = every.filter(pl.col("cpu").is_in(result.counted_cpus))
        before = batch.join(last, on="cpu", how="left", suffix="_before", maintain_order="left")
        stays = before.select(
            "cpu",
            pid=pl.coalesce(pl.col("pid").shift(1).over("cpu"), "pid_before", "prev_pid"),
            start=pl.coalesce(pl.col("ts_ns").shift(1).over("cpu"), "ts_ns_before", start_ns),
            end="ts_ns",
        )
        by_cpu = _with(by_cpu, stays, result)
        last = pl.concat([last, batch.select(last.columns)]).unique("cpu", keep="last")
    at_end = last.select("cpu", "pid", start="ts_ns", end=pl.lit(end_ns, pl.Int64))
    by_cpu = _with(by_cpu, at_end, result)
    stolen = result.trace.header.stolen_ns or {}
    lost = pl.col("cpu").replace_strict(
        list(stolen), list(stolen.values()), default=0, return_dtype=pl.Int64
    )
    on_cpu = pl.col("on_cpu_ns")
    share = (lost * (on_cpu / on_cpu.sum().over("cpu"))).fill_nan(0).round().cast(pl.Int64)
    by_cpu = by_cpu.with_columns(share_ns=pl.min_horizontal(share, on_cpu))
    return by_cpu.group_by("pid").agg(pl.col("on_cpu_ns", "share_ns").sum()).cast({"pid": pl.Int32})


def _with(by_cpu: pl.DataFrame, stays: pl.DataFrame, result: CheckResult) -> pl.DataFrame:
    """Add stays on CPUs to the sums of every task and CPU."""
    more = stays.select("pid", "cpu", on_cpu_ns=_inside(pl.col("start"), pl.col("end"), result))
    return pl.concat([by_cpu, more.filter(pl.col("pid") > 0)]).group_by("pid", "cpu").sum()


def _throttled(result: CheckResult, end_ns: int) -> pl.DataFrame:
    """Return for how long every task was throttled."""
    events = (
        result.trace.events.filter(pl.col("kind").is_in(["throttle", "unthrottle"]))
        .select("ts_ns", "pid", begins=pl.col("kind") == "throttle")
        .collect(engine="streaming")
        .sort("pid", "ts_ns", maintain_order=True)
    )
    following = pl.col("ts_ns").shift(-1).over("pid").fill_null(end_ns)
    already = ~pl.col("begins") & (pl.int_range(pl.len()).over("pid") == 0)
    spans = pl.concat(
        [
            events.select("pid", "begins", start="ts_ns", end=following).filter("begins"),
            events.filter(already).select(
                "pid", "begins", start=pl.lit(result.trace.header.start_ns or 0, pl.Int64), end="ts_ns"
            ),
        ]
    )  # fmt: skip
    return (
        spans.group_by("pid")
        .agg(throttled_ns=_inside(pl.col("start"), pl.col("end"), result).sum())
        .cast({"pid": pl.Int32})
    )


def _steal_known(result: CheckResult) -> bool:
    """Whether the hypervisor's share is known: it was counted, either for just this window or as 0."""
    header = result.trace.header
    whole = result.window is None and result.start_ns == (header.start_ns or 0)
    return header.stolen_ns is not None and (whole or not any(header.stolen_ns.values()))


def _names(result: CheckResult) -> pl.DataFrame:
    """Return the row of each task, and whether its throttled time is known."""
    header = result.trace.header
    tasks = (header.tasks or []) + (header.later_tasks or [])
    groups = {t.pid: t.cgroup for t in tasks if t.cgroup is not None}
    leaders = {t.pid: t.comm for t in tasks if t.comm is not None}
    names = {t.pid: leaders[t.tgid] for t in tasks if t.tgid in leaders}
    for pid, parent in _forks(result):
        if pid not in groups and parent in groups:
            groups[pid] = groups[parent]
    by_group = any(path != "/" for path in groups.values())
    told = dict(comms(result.trace).iter_rows())
    known = _tells_throttling(header)
    rows = []
    for pid in told.keys() | groups.keys():
        group = groups.get(pid)
        who = (group, "cgroup") if by_group and group is not None else None
        who = who or (names.get(pid) or told.get(pid) or f"pid {pid}", "process")
        never = header.quotas is not None and group is not None and not _limited(header, group)
        rows.append((pid, *who, known or header.quotas == {} or never))
    return pl.DataFrame(
        rows,
        {"pid": pl.Int32, "name": pl.String, "kind": pl.String, "limit_known": pl.Boolean},
        orient="row",
    )


def _forks(result: CheckResult) -> list[tuple[int, int]]:
    forks = result.trace.events.filter(pl.col("kind") == "fork").select("pid", "by_pid")
    return [(p, by) for p, by in forks.collect(engine="streaming").iter_rows() if by is not None]


def _limited(header: Header, group: str) -> bool:
    return any(group == q or group.startswith(q.rstrip("/") + "/") for q in header.quotas or ())


def _tells_throttling(header: Header) -> bool:
    """Whether the recorder follows throttled tasks, which needs Linux 6.18."""
    return bool((header.kinds or {}).get("throttle"))
