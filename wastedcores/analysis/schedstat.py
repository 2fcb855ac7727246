"""The counters of /proc/schedstat, computed from a trace, so that a replay can be compared with a machine that was not traced."""

from __future__ import annotations

import polars as pl

from wastedcores.analysis.decisions import decisions
from wastedcores.analysis.stated_machine import place
from wastedcores.cpulist import format_cpulist
from wastedcores.errors import MissingEventsError, UnknownKernelError
from wastedcores.runqueues.runqueues import runqueues
from wastedcores.runqueues.waits import waits
from wastedcores.topology.domains import build_domains
from wastedcores.topology.levels import SD_NUMA
from wastedcores.trace.named import TraceLike
from wastedcores.trace.named import open as opened
from wastedcores.trace.schedstat import CPU_FIELDS, Counters, Counts, Cpu, Domain, domain_fields
from wastedcores.trace.trace import Trace

#: The version whose fields are counted: like a trace, it has a single number for an imbalance.
VERSION = 16
#: How a call of load_balance() ends -> what the kernel counts (kernel/sched/fair.c:sched_balance_rq, v6.12; there, a call that
#: may not balance and a call that finds only pinned threads count as balanced).
_ENDS = {
    "not_designated": ("lb_balanced",),
    "balanced": ("lb_balanced", "lb_nobusyg"),
    "no_queue": ("lb_balanced", "lb_nobusyq"),
    "pinned": ("lb_balanced",),
    "hot": ("lb_failed",),
    "failed": ("lb_failed",),
    "active": ("lb_failed",),
    "moved": (),
}


def counted(trace: TraceLike, hz: int = 250) -> Counters:
    """Count in a trace what /proc/schedstat counts; a counter is None if the trace does not tell it.

    The trace needs switches, and the counters of domains need decisions of the balancer (``replay --decisions``). The length of
    the trace is given in jiffies, of which ``hz`` make a second.
    """
    trace = opened(trace)
    if not trace.kinds().get("switch"):
        raise MissingEventsError(
            f"{trace.name}: no 'switch' events, so what CPUs did cannot be counted. Record sched_switch."
        )
    found = runqueues(trace)
    table = _per_cpu(trace, found.end_ns)
    waited = waits(found, found.start_ns, found.end_ns, range(found.cpus))
    delays = dict(
        waited.group_by("cpu").agg((pl.col("end_ns") - pl.col("start_ns")).sum()).iter_rows()
    )
    domains, notes = _domains(trace)
    cpus: dict[int, Cpu] = {}
    for row in table.sort("cpu").iter_rows(named=True):
        counts: Counts = {
            **dict.fromkeys(CPU_FIELDS),
            **row,
            "run_delay": delays.get(row["cpu"], 0),
        }
        number = int(counts.pop("cpu") or 0)
        cpus[number] = Cpu(counts, domains.get(number, ()))
    length = (found.end_ns - found.start_ns) / 1e9
    told = "calls of schedule() that went on with the same thread are not in a trace, and sched_count lacks them"
    return Counters(trace.name, VERSION, length * hz, cpus, notes=(told, *notes))


def _per_cpu(trace: Trace, end_ns: int) -> pl.DataFrame:
    """Return the counters of each CPU that do not depend on its queue."""
    switches = trace.only("switch").select("ts_ns", "cpu", "pid").collect()
    until = pl.col("ts_ns").shift(-1).over("cpu").fill_null(end_ns)
    ran = pl.col("pid") != 0
    table = switches.group_by("cpu").agg(
        sched_count=pl.len(), sched_goidle=(~ran).sum(), pcount=ran.sum()
    )
    times = (
        switches.with_columns(ns=until - pl.col("ts_ns"))
        .filter(ran)
        .group_by("cpu")
        .agg(rq_cpu_time=pl.col("ns").sum())
    )
    table = table.join(times, on="cpu", how="left").with_columns(pl.col("rq_cpu_time").fill_null(0))
    # kernel/sched/core.c:ttwu_stat counts at the CPU of the waker; the first wakeup of a new thread does not count
    woken = (
        trace.only("wakeup")
        .select("cpu", "src_cpu")
        .filter(pl.col("src_cpu").is_not_null())
        .collect()
    )
    if woken.height:
        by = woken.group_by(cpu="src_cpu").agg(
            ttwu_count=pl.len(), ttwu_local=(pl.col("cpu") == pl.col("src_cpu")).sum()
        )
        table = table.join(by, on="cpu", how="left").with_columns(
            pl.col("ttwu_count", "ttwu_local").fill_null(0)
        )
    return table


def _domains(trace: Trace) -> tuple[dict[int, tuple[Domain, ...]], tuple[str, ...]]:
    """Return the counters of each CPU's domains, and notes about what these counters lack."""
    if "decision" not in trace.kinds():
        return {}, (
            "the trace has no decisions of the balancer, so that nothing is counted per domain (wastedcores replay --decisions)",
        )
    calls = decisions(trace).filter(
        pl.col("result").is_in(list(_ENDS)), pl.col("level").is_not_null()
    )
    calls = calls.filter(pl.col("idle").is_not_null())
    spans = _spans(trace)
    order: dict[int, dict[str, Counts]] = {
        cpu: {level: _none_yet() for level in levels} for cpu, levels in spans.items()
    }
    rows = calls.group_by("cpu", "level", "idle", "result", maintain_order=True).agg(
        pl.len(), pl.col("moved").fill_null(0).sum(), pl.col("imbalance").fill_null(0).sum()
    )
    for cpu, level, idle, result, n, moved, imbalance in rows.iter_rows():
        counts = order.setdefault(cpu, {}).setdefault(level, _none_yet())
        more = {
            "lb_count": n,
            "lb_imbalance": imbalance,
            "lb_gained": moved if result == "moved" else 0,
        }
        more |= dict.fromkeys(_ENDS[result], n)
        for name, value in more.items():
            key = f"{idle}_{name}"
            counts[key] = (counts[key] or 0) + value
        if result == "active":
            counts["alb_count"] = (counts["alb_count"] or 0) + n
    _add_wakeups(trace, order, spans)
    return {
        cpu: tuple(
            Domain(level, spans.get(cpu, {}).get(level, ""), counts)
            for level, counts in levels.items()
        )
        for cpu, levels in order.items()
    }, (
        "which threads were moved although they were cache-hot, and how active balancing ended, is not in a trace",
    )


def _none_yet() -> Counts:
    """Return counters that are 0, or None where a trace never tells them."""
    unknown = ("lb_hot_gained", "alb_failed", "alb_pushed", "ttwu_wake_remote", "ttwu_move_affine")
    return {name: None if name.endswith(unknown) else 0 for name in domain_fields(VERSION)}


def _spans(trace: Trace) -> dict[int, dict[str, str]]:
    """Return each CPU's domains, the smallest first, with their CPUs; empty for a trace without a machine or of a design."""
    if trace.header.machine is None:
        return {}
    where = place(trace, None, None)
    try:
        built = build_domains(where.machine, where.kernel)
    except UnknownKernelError:  # a design has no domains
        return {}
    # a replay names levels across nodes with their distance (simulator/decisions.py), a kernel names them without the distance
    replayed = trace.header.source_format == "replay"
    names = [
        f"{x.name}<={x.distance}" if replayed and x.flags & SD_NUMA else x.name
        for x in built.levels
    ]
    return {
        cpu: {names[d.index]: format_cpulist(d.cpus) for d in built.of(cpu)} for cpu in built.cpus
    }


def _add_wakeups(
    trace: Trace, order: dict[int, dict[str, Counts]], spans: dict[int, dict[str, str]]
) -> None:
    """Count a wakeup on another CPU in the smallest domain that contains both CPUs (kernel/sched/core.c:ttwu_stat, v6.12)."""
    from wastedcores.cpulist import parse_cpulist

    pairs = (
        trace.only("wakeup")
        .filter(pl.col("src_cpu").is_not_null(), pl.col("src_cpu") != pl.col("cpu"))
        .group_by("src_cpu", "cpu")
        .agg(pl.len())
        .collect()
    )
    inside = {
        cpu: [(level, set(parse_cpulist(span))) for level, span in levels.items()]
        for cpu, levels in spans.items()
    }
    for levels in (order[cpu] for cpu in spans):
        for counts in levels.values():
            counts["ttwu_wake_remote"] = 0
    for by, cpu, n in pairs.iter_rows():
        level = next((name for name, span in inside.get(by, []) if cpu in span), None)
        if level is not None:
            counts = order[by][level]
            counts["ttwu_wake_remote"] = (counts["ttwu_wake_remote"] or 0) + n
