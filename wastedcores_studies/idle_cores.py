"""How long a core stays idle while the database has one worker per core (sections 1 and 3.3 of Lozi et al. 2016).

With as many workers as cores, a core without a worker means that two workers share another core. This is the symptom of figure 3:
"one core is idle while a thread that ideally should be scheduled on that core keeps waking up on other cores". An *episode* is
the time from the moment when the last worker of a core first executes elsewhere until a worker executes on that core again. A
core whose worker only sleeps at a barrier is not in an episode.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from wastedcores.errors import WorkloadError
from wastedcores.kernels import KernelModel
from wastedcores.simulator import costs_of, log_column, log_kind, marks, simulate
from wastedcores.sweep import Run
from wastedcores.workload.database import POOLS, resident_pools
from wastedcores_studies.attempts import Attempt, Reading, claim, column_of
from wastedcores_studies.published import Tables
from wastedcores_studies.replays import TICK_NS, machine_named
from wastedcores_studies.tpch import MACHINE, WORKLOADS

#: a replay has this many stages of 2 ms, so that an episode of seconds fits in it
STAGES = 5000
#: the lengths that stand for "a few hundreds of milliseconds" and for "even seconds" (the shortest that this can mean)
FEW_HUNDREDS_MS, SECONDS_MS = 300, 1000
_WHY = (
    "An episode is the time in which a core has no worker of the database, while another has two. The typical length is the "
    "one of the episode to which half of the idle time belongs, because that is what a profile shows. This definition was "
    "written down before a replay was looked at. That the paper's words are taken as 300 ms and as 1 s "
    "was decided afterwards; compared as words, both rows miss, too. The replay recovers sooner than the paper says, and so does "
    "the kernel that was recorded: in db64-buggy (Linux 4.1.3 on a guest of 64 CPUs) the typical length is 56 ms and the longest "
    "151 ms. With the wakeup fix it is 2.2 ms there (db64-oow). The paper's queries and its kernel threads are not known."
)


def attempts(tables: Tables, seeds: Sequence[int]) -> list[Attempt]:
    """Return the rows about the length of the episodes."""
    full, q18, fixed = (
        {"only": [_run(kernel, together, s) for s in seeds[:5]]}
        for kernel, together in (
            ("v4.1", WORKLOADS["full"]),
            ("v4.1", WORKLOADS["q18"]),
            ("v4.1+overload_on_wakeup:patch", WORKLOADS["full"]),
        )
    )
    typical, longest, middle = (
        column_of("only", c) for c in ("typical_ms", "longest_ms", "median_ms")
    )
    common = {"group": "wakeup", "reason": _WHY, "afterwards": True}
    recovery = claim(
        tables,
        "wakeup_idle_long",
        Reading(full, longest),
        short="longest time to recover",
        others={"query 18": Reading(q18, longest), "with the fix": Reading(fixed, longest)},
        **common,
    )
    length = claim(
        tables,
        "episode_length",
        Reading(full, typical),
        short="length of an episode",
        others={
            "query 18": Reading(q18, typical),
            "with the fix": Reading(fixed, typical),
            "median of all episodes": Reading(full, middle),
        },
        **common,
    )
    return [
        _taken_as(recovery, SECONDS_MS, "the longest, printed as seconds and taken as 1 s"),
        _taken_as(length, FEW_HUNDREDS_MS, "printed as a few hundreds, taken as 300"),
    ]


def _taken_as(attempt: Attempt, published_ms: int, how: str) -> Attempt:
    """Return an attempt at a statement in words that has a number in place of the words."""
    return replace(
        attempt, published=str(published_ms), unit="ms", quantity=f"{attempt.quantity} ({how})"
    )


def _run(kernel: str, together: bool, seed: int) -> Run:
    return Run.of(
        f"{__name__}:episodes", kernel=kernel, machine=MACHINE, seed=seed, pools=list(POOLS), together=together, stages=STAGES
    )  # fmt: skip


def episodes(
    kernel: str, machine: str, seed: int, *, pools: list[int], together: bool, stages: int
) -> dict[str, Any]:
    """Replay a database with one worker per core, and measure for how long cores have no worker.

    * ``kernel``, ``machine``, ``seed``: names of the kernel model and of the machine, and the seed.
    * Returns ``typical_ms`` (episodes of at least this length make up half of all idle time); ``median_ms``; ``short_ms`` (a
      tenth of the episodes are shorter); ``longest_ms``; ``per_s``, the episodes per second; and ``episodes``, their number. Of
      an episode that the run cuts off, only the length inside the run counts.
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
    switches = raw.of(log_kind.SWITCH)[:, [log_column.TS, log_column.CPU, log_column.PID]]
    switches = switches[np.isin(switches[:, 2], workers)]
    ts_ns, cpu, pid = switches.T
    found = lengths(ts_ns, cpu, pid, where.cpus, begin, end)
    return found | {"events": raw.events, "wall_s": raw.wall_s}


def lengths(
    ts_ns: np.ndarray, cpu: np.ndarray, pid: np.ndarray, cpus: int, begin_ns: int, end_ns: int
) -> dict[str, float]:
    """Measure the episodes of a recording or of a replay."""
    ms = np.sort(without_worker(ts_ns, cpu, pid, cpus, begin_ns, end_ns)) / 1e6
    if not len(ms):
        raise WorkloadError(f"no CPU was without a worker in {(end_ns - begin_ns) / 1e9:.1f} s.")
    half = int(np.searchsorted(np.cumsum(ms), ms.sum() / 2))
    return {
        "typical_ms": float(ms[half]),
        "median_ms": float(np.median(ms)),
        "short_ms": float(np.quantile(ms, 0.1)),
        "longest_ms": float(ms[-1]),
        "per_s": len(ms) / ((end_ns - begin_ns) / 1e9),
        "episodes": len(ms),
    }


def without_worker(
    ts_ns: np.ndarray, cpu: np.ndarray, pid: np.ndarray, cpus: int, begin_ns: int, end_ns: int
) -> np.ndarray:
    """Return the lengths, in ns, of the times in which a CPU had no worker."""
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
        order = np.lexsort((-steps, times))  # at the same time, an arrival comes before a departure
        times, there = np.r_[0, times[order], end_ns], np.r_[0, np.cumsum(steps[order])]
        empty = there == 0
        since, until = times[:-1][empty], times[1:][empty]
        length = np.minimum(until, end_ns) - np.maximum(since, begin_ns)
        found.append(length[length > 0])
    return np.concatenate(found)
