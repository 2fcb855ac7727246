"""The replays of the study of Sites' article, each as a flat row of a sweep."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from wastedcores.analysis.idle import exits, idle_intervals
from wastedcores.analysis.thread_groups import evenness
from wastedcores.simulator import replay
from wastedcores.topology.clocks import IdleState
from wastedcores.topology.machine import Machine
from wastedcores.topology.presets import I3_7100_C6, I3_7100_SMT_SPEED, preset
from wastedcores.workload.clones import clones
from wastedcores.workload.thread_groups import groups

MACHINE = "i3-7100"
#: the group of Figure 2
GROUP = 7


def machine(smt_speed: float = I3_7100_SMT_SPEED) -> Machine:
    """Return the article's machine with shared cores."""
    return replace(preset(MACHINE), smt_speed=smt_speed)


def thread_groups(
    kernel: str, seed: int, policy: str = "other", *, smt_speed: float = I3_7100_SMT_SPEED
) -> dict[str, Any]:
    """Replay the groups of 1 to 12 threads of one second each.

    The result has ``groups_s``, the time of all groups, and ``wall_s``. Of the group of seven, it has ``quantum_ms``,
    ``longest_ms``, ``quanta`` (the longest stay in quanta) and ``spread_percent``, which are defined in
    :func:`wastedcores.analysis.thread_groups.evenness`. ``most_percent`` and ``most_quanta`` are the largest spread and the
    longest stay among all groups with more threads than CPUs.
    """
    where = machine(smt_speed)
    done = replay(groups(where, seed, policy=policy), where, kernel, seed=seed)
    table = evenness(done.trace).filter(pl.col("group") > where.cpus)
    table = table.with_columns(quanta=pl.col("longest_ms") / pl.col("quantum_ms"))
    seven = table.row(by_predicate=pl.col("group") == GROUP, named=True)
    return {
        "groups_s": done.summary.result,
        **{
            name: float(seven[name])
            for name in ("quantum_ms", "longest_ms", "quanta", "spread_percent")
        },
        "most_percent": table["spread_percent"].max(),
        "most_quanta": table["quanta"].max(),
        "wall_s": done.raw.wall_s,
    }


def launch(
    kernel: str,
    seed: int,
    *,
    spin_ns: int | None,
    exit_ns: int = I3_7100_C6.exit_ns,
    threads: int = GROUP,
    on: Machine | None = None,
) -> dict[str, Any]:
    """Replay the start of some threads on CPUs that sleep.

    Parameters
    ----------
    kernel, seed
        Kernel model and seed.
    spin_ns
        An idle CPU spins for this time before it enters an idle state, its sleep; None: it never sleeps.
    exit_ns
        The time that a CPU needs to leave its sleep.
    threads
        Number of threads.
    on
        The machine, whose idle states are replaced; default: the article's.

    Returns
    -------
    dict
        ``startup_us``, from the first fork until all CPUs compute for good; ``delay_us``, the median time from the
        moment when a thread or its creator blocks until it executes again; ``exits``, the number of times that a CPU left its
        sleep in between; ``started_on``, the CPUs on which the first four threads start; ``wall_s``.
    """
    states = () if spin_ns is None else (IdleState("C6", exit_ns, spin_ns),)
    where = replace(on or machine(), idle_states=states)
    done = replay(clones(where, seed, threads), where, kernel, seed=seed)
    trace = done.trace
    clone = pl.col("comm").cast(pl.String).str.starts_with("clone-")
    forks = trace.only("fork").filter(clone).select("ts_ns", "pid").collect()
    children = forks["pid"].to_list()
    begin = forks["ts_ns"][0]
    switches = trace.only("switch").collect()
    ends = trace.only("exit").select(pl.col("ts_ns").min()).collect().item()
    left = exits(idle_intervals(trace), states).filter(pl.col("end_ns").is_between(begin, ends))
    left = left.with_columns(ready_ns=pl.col("end_ns") + pl.col("exit_ns"))
    firsts = switches.filter(pl.col("pid").is_in(children)).unique(
        "pid", keep="first", maintain_order=True
    )
    blocked = _blocked(switches, left, {*children, done.tasks["pid"][0]}, begin)
    return {
        "startup_us": (left["ready_ns"].max() - begin) / 1e3,
        "delay_us": float(np.median(blocked)) / 1e3 if len(blocked) else 0.0,
        "exits": int((left["exit_ns"] > 0).sum()),
        "started_on": ", ".join(str(c) for c in firsts["cpu"][:4]),
        "wall_s": done.raw.wall_s,
    }


def _blocked(switches: pl.DataFrame, left: pl.DataFrame, pids: set[int], begin: int) -> np.ndarray:
    """Return for each wakeup on an idle CPU how long the thread had slept (ns), including the CPU's exit from its idle state."""
    offs = switches.select(off_ns="ts_ns", ts="ts_ns", pid="prev_pid").sort("ts")
    woken = (
        left.filter(pl.col("pid").is_in(list(pids)))
        .select(ts="end_ns", pid="pid", on="ready_ns")
        .sort("ts")
    )
    both = woken.join_asof(
        offs, on="ts", by="pid", allow_exact_matches=False, check_sortedness=False
    )
    slept = both.filter(pl.col("off_ns") >= begin)
    return (slept["on"] - slept["off_ns"]).to_numpy()
