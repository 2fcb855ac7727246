"""How long a core stays idle while the database has one worker per core (sections 1 and 3.3 of Lozi et al. 2016).

With as many workers as cores, a core without a worker means that two workers share another one. This is the symptom of figure 3:
"one core is idle while a thread that ideally should be scheduled on that core keeps waking up on other cores". An *episode* is
the time from the moment when the last worker of a core first executes elsewhere until a worker executes on that core again. A
core whose worker only sleeps at a barrier is not in an episode. The definition and both readings were written down before a
replay was looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from wastedcores.errors import WorkloadError
from wastedcores.kernels import KernelModel
from wastedcores.simulator import RawReplay, costs_of, log_column, log_kind, marks, simulate
from wastedcores.studies.attempts import Attempt, Reading, claim, column_of
from wastedcores.studies.published import Tables
from wastedcores.studies.replays import TICK_NS, machine_named
from wastedcores.studies.tpch import MACHINE, WORKLOADS
from wastedcores.sweep import Run
from wastedcores.workload.database import POOLS, resident_pools

#: stages of 2 ms, so that an episode of seconds fits in
STAGES = 5000
#: what the paper says of an episode, and from where to where it is taken to reach, in ms
FEW_HUNDREDS, FEW_HUNDREDS_MS = "a few hundreds of milliseconds", (100, 1000)
#: what the paper says of the time to recover: several milliseconds or even seconds
MS_TO_S, SHORT_MS, LONG_MS = "ms to s", 100, 1000
_WHY = (
    "An episode is the time in which a core has no worker of the database, while another has two. The typical length is the "
    "one of the episode to which half of the idle time belongs, because that is what a profile shows; the plain median stands "
    "beside. These readings were decided before the replays were looked at. In the full run each container waits for its own "
    "workers, and the paper's queries and kernel threads are not known better than in Table 2."
)


def attempts(tables: Tables, seeds: Sequence[int]) -> list[Attempt]:
    """Return the rows about the length of the episodes.

    Parameters
    ----------
    tables
        The published tables.
    seeds
        One replay per seed; the first five are used.

    Returns
    -------
    list of Attempt
        The typical length, and the range of the times to recover.
    """
    full, q18 = (
        Reading({"bug": [_run(together, s) for s in seeds[:5]]}, column_of("bug", "typical_ms"))
        for together in (WORKLOADS["full"], WORKLOADS["q18"])
    )

    def beside(column: str) -> Reading:
        return Reading(full.roles, column_of("bug", column))

    typical = claim(
        tables,
        "episode_length",
        Reading(full.roles, lambda r: _few_hundreds(r["bug"]["typical_ms"])),
        group="wakeup",
        short="length of an episode",
        others={
            "typical length in the full run, ms": full,
            "typical length in query 18, ms": q18,
            "median length in the full run, ms": beside("median_ms"),
            "episodes per second in the full run": beside("per_s"),
        },
        reason=_WHY,
    )
    recovery = claim(
        tables,
        "wakeup_idle_long",
        Reading(full.roles, lambda r: _ms_to_s(r["bug"]["short_ms"], r["bug"]["longest_ms"])),
        group="wakeup",
        short="time to recover",
        others={
            "a tenth is shorter, ms": beside("short_ms"),
            "longest, ms": beside("longest_ms"),
        },
        reason=_WHY,
    )
    return [recovery, typical]


def _few_hundreds(typical_ms: float) -> str:
    low, high = FEW_HUNDREDS_MS
    return FEW_HUNDREDS if low <= typical_ms < high else f"{typical_ms:.3g} ms"


def _ms_to_s(short_ms: float, longest_ms: float) -> str:
    spans = short_ms < SHORT_MS and longest_ms >= LONG_MS
    return MS_TO_S if spans else f"{short_ms:.3g} to {longest_ms:.3g} ms"


def _run(together: bool, seed: int) -> Run:
    return Run.of(
        f"{__name__}:episodes", kernel="v4.1", machine=MACHINE, seed=seed, pools=list(POOLS), together=together, stages=STAGES
    )  # fmt: skip


def episodes(
    kernel: str, machine: str, seed: int, *, pools: list[int], together: bool, stages: int
) -> dict[str, Any]:
    """Measure for how long cores have no worker of a database with one worker per core.

    Parameters
    ----------
    kernel, machine, seed
        Names of the kernel model and of the machine, and the seed.
    pools, together, stages
        As for :func:`wastedcores.workload.database.resident_pools`.

    Returns
    -------
    dict
        ``typical_ms``, the length that is reached by the episodes that make up half of all idle time; ``median_ms``;
        ``short_ms``, which a tenth of the episodes do not reach; ``longest_ms``; ``per_s``, episodes per second; ``lengths``,
        their number. An episode that the run cuts off counts as long as it was seen.

    Raises
    ------
    WorkloadError
        There is not one worker per CPU, or no CPU was ever without a worker.
    """
    where = machine_named(machine)
    if sum(pools) != where.cpus:
        raise WorkloadError(
            f"{sum(pools)} workers on {where.cpus} CPUs: expected one worker per CPU, because only then does a CPU without a "
            "worker mean that another has two."
        )
    program = resident_pools(where, seed, pools=tuple(pools), together=together, stages=stages)
    costs = replace(costs_of(where), tick_ns=TICK_NS)
    raw = simulate(program, where, KernelModel.named(kernel), seed=seed, costs=costs, load=False)
    at = marks(raw, program)
    begin = max(at[f"query start {i}"] for i in range(len(pools)))
    end = min(at[f"query end {i}"] for i in range(len(pools)))
    named = zip(raw.pids.tolist(), raw.comms(program), strict=True)
    workers = np.array([pid for pid, comm in named if comm.startswith("worker")])
    lengths = without_worker(raw, workers, where.cpus, begin, end) / 1e6
    if not len(lengths):
        raise WorkloadError(f"no CPU was without a worker in {(end - begin) / 1e9:.1f} s.")
    lengths.sort()
    half = int(np.searchsorted(np.cumsum(lengths), lengths.sum() / 2))
    return {
        "typical_ms": float(lengths[half]),
        "median_ms": float(np.median(lengths)),
        "short_ms": float(np.quantile(lengths, 0.1)),
        "longest_ms": float(lengths[-1]),
        "per_s": len(lengths) / ((end - begin) / 1e9),
        "lengths": len(lengths),
        "events": raw.events,
        "wall_s": raw.wall_s,
    }


def without_worker(
    raw: RawReplay, workers: np.ndarray, cpus: int, begin_ns: int, end_ns: int
) -> np.ndarray:
    """Return for how long CPUs were without a worker.

    Parameters
    ----------
    raw
        The replay.
    workers
        Process ids of the workers.
    cpus
        Number of CPUs.
    begin_ns, end_ns
        The window.

    Returns
    -------
    numpy.ndarray
        One length per episode in ns, CPU after CPU, cut to the window.
    """
    ts_ns, cpu, pid = raw.of(log_kind.SWITCH)[:, [log_column.TS, log_column.CPU, log_column.PID]].T
    mine = np.isin(pid, workers)
    ts_ns, cpu, pid = ts_ns[mine], cpu[mine], pid[mine]
    order = np.lexsort((ts_ns, pid))
    ts_ns, cpu, pid = ts_ns[order], cpu[order], pid[order]
    first = np.r_[True, pid[1:] != pid[:-1]]
    came = first | np.r_[True, cpu[1:] != cpu[:-1]]
    left = came & ~first
    before = np.r_[0, cpu[:-1]]
    found = []
    for c in range(cpus):
        arrivals, departures = ts_ns[came & (cpu == c)], ts_ns[left & (before == c)]
        times = np.r_[arrivals, departures]
        steps = np.r_[np.ones(len(arrivals), int), -np.ones(len(departures), int)]
        order = np.lexsort((-steps, times))  # an arrival at the same time comes first
        times, there = np.r_[0, times[order], end_ns], np.r_[0, np.cumsum(steps[order])]
        empty = there == 0
        since, until = times[:-1][empty], times[1:][empty]
        length = np.minimum(until, end_ns) - np.maximum(since, begin_ns)
        found.append(length[length > 0])
    return np.concatenate(found)
