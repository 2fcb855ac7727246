"""Pairs of an idle and an overloaded CPU: for how long one could have helped the other, and what the domains allowed it to do."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.cpulist import parse_cpulist
from wastedcores.invariant import CheckResult
from wastedcores.topology.cpumask import cpus_in
from wastedcores.topology.domains import Domains

#: what an idle CPU's domains say about an overloaded CPU
COULD_PULL, EVERY_GROUP_LOCAL, NO_DOMAIN = (
    "could pull",
    "every group is local",
    "no domain spans both",
)
RELATIONS = (COULD_PULL, EVERY_GROUP_LOCAL, NO_DOMAIN)

#: number of episodes that are looked at, longest first
_EPISODES = 64


def relation(domains: Domains, idle_cpu: int, busy_cpu: int) -> tuple[str, str]:
    """Find out what an idle CPU could have done about an overloaded one."""
    found, levels = _relations(domains, idle_cpu)
    return RELATIONS[found[busy_cpu]], levels[busy_cpu]


def related(pairs: pl.DataFrame, domains: Domains) -> pl.DataFrame:
    """Add what the domains of the idle CPU say about the overloaded one."""
    idle, busy = pairs["idle_cpu"].to_numpy(), pairs["overloaded_cpu"].to_numpy()
    found = np.empty(len(pairs), object)
    levels = np.empty(len(pairs), object)
    names = np.array(RELATIONS, object)
    for cpu in np.unique(idle):
        rows = np.flatnonzero(idle == cpu)
        own, own_levels = _relations(domains, int(cpu))
        found[rows], levels[rows] = names[own[busy[rows]]], own_levels[busy[rows]]
    return pairs.with_columns(
        relation=pl.Series(found, dtype=pl.String), level=pl.Series(levels, dtype=pl.String)
    )


def _relations(domains: Domains, idle_cpu: int) -> tuple[NDArray[np.int8], NDArray[np.object_]]:
    """Return the relation of an idle CPU to every CPU as a number, and the name of the level."""
    cpus, me = len(domains.by_cpu), 1 << idle_cpu
    found = np.full(cpus, RELATIONS.index(NO_DOMAIN), np.int8)
    levels = np.full(cpus, "", object)
    # later writes win: a possible pull replaces a shared domain without a pull, and a lower level replaces a higher one
    for what in (EVERY_GROUP_LOCAL, COULD_PULL):
        for d in reversed(domains.of(idle_cpu)):
            reached = d.span
            if what == COULD_PULL:
                reached = 0
                for group in d.groups:
                    reached |= 0 if group.span & me else group.span
            others = cpus_in(reached)
            found[others] = RELATIONS.index(what)
            levels[others] = f"{d.level} <= {d.distance}" if d.level == "NUMA" else d.level
    return found, levels


def meetings(result: CheckResult, allowed: Mapping[int, str]) -> pl.DataFrame:
    """Return the pairs of an idle CPU and an overloaded CPU that the idle CPU could have helped."""
    weights = np.zeros((result.cpus, result.cpus), np.int64)
    chosen = (
        result.details.group_by("episode")
        .agg(pl.col("idle_ns").max())
        .sort("idle_ns", "episode", descending=[True, False])
        .head(_EPISODES)["episode"]
    )
    for episode in chosen:
        rows = result.details.filter(pl.col("episode") == episode)
        idle = np.zeros(result.cpus, np.int64)
        over = np.zeros(result.cpus, np.int64)
        idle[rows["cpu"].to_numpy()] = rows["idle_ns"].to_numpy()
        over[rows["cpu"].to_numpy()] = rows["overloaded_ns"].to_numpy()
        met = np.minimum.outer(idle, over)
        if allowed:
            waited = result.waiting.filter(pl.col("episode") == episode)
            met = np.rint(met * _may_help(waited, allowed, result.cpus)).astype(np.int64)
        weights += met
    np.fill_diagonal(weights, 0)
    i, o = np.nonzero(weights)
    schema = {"idle_cpu": pl.Int32, "overloaded_cpu": pl.Int32, "met_ns": pl.Int64}
    return pl.DataFrame(
        {"idle_cpu": i, "overloaded_cpu": o, "met_ns": weights[i, o]}, schema=schema
    ).sort("met_ns", "idle_cpu", "overloaded_cpu", descending=[True, False, False])


def _may_help(waited: pl.DataFrame, allowed: Mapping[int, str], cpus: int) -> NDArray[np.float64]:
    """Return, for each pair of CPUs, how much of the waiting on the second CPU was done by threads that may run on the first.

    The array is float64 (cpus, cpus): a share from 0 to 1, by idle CPU and by overloaded CPU.
    """
    share = np.ones((cpus, cpus))
    told = waited.filter(pl.col("pid").is_in(list(allowed))).group_by("cpu", maintain_order=True)
    total = dict(waited.group_by("cpu").agg(pl.col("wait_ns").sum()).iter_rows())
    for (cpu,), threads in told:
        for pid, wait_ns in threads.select("pid", "wait_ns").iter_rows():
            elsewhere = np.ones(cpus, np.bool_)
            elsewhere[[c for c in parse_cpulist(allowed[pid]) if c < cpus]] = False
            share[elsewhere, cpu] -= wait_ns / max(total[cpu], 1)
    return share
