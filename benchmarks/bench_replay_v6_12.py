"""Replays of Linux 6.12.107 and 6.1.192: events per second beside those of v4.1, a large case, and the first result."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

from benchmarks.bench_replay import MS, ROUNDS, SECOND, V41, endless, first_result_of
from wastedcores.kernels import KernelModel
from wastedcores.simulator import simulate
from wastedcores.topology.machine import Machine
from wastedcores.workload.program import Program
from wastedcores.workload.recorded.workloads import recorded_db, recorded_gi

MODERN = (KernelModel.named("v6.12.107"), KernelModel.named("v6.1.192"))
#: the rates differ by a third from one run to the next on small virtual machines
TURNS = 25
FIRST = (
    "from wastedcores.simulator import replay_scenario; "
    "replay_scenario('recorded-gc', '{}', 'bd-paper-16', given={{'limit_s': 0.1}})"
)
#: name, the program on a machine, simulated seconds
WORKLOADS: list[tuple[str, Callable[[Machine], Program], int]] = [
    ("make -j64 beside two hogs", lambda m: recorded_gi(m, 1, jobs=1_000_000).program(), 5),
    ("a database", lambda m: recorded_db(m, 1, iterations=100_000).program(), 5),
    ("128 busy tasks, stretches of 50 us", lambda m: endless(128, (50_000, 50_000), None), 2),
    ("96 tasks that sleep", lambda m: endless(96, (2 * MS, 6 * MS), (MS, 3 * MS)), 20),
]


def _prefix(kernel: KernelModel) -> str:
    """Return how the ids of a kernel's rows begin: ``v6_12_``."""
    return "v{}_{}_".format(*kernel.version)


def rates() -> list[dict]:
    """Measure events per second of CPU time in the engine under all kernels, in turns, after compilation."""
    m = Machine.preset("bulldozer8x8")
    rows = []
    for number, (name, program_on, seconds) in enumerate(WORKLOADS):
        program = program_on(m)
        found: dict[str, list[float]] = {kernel.name: [] for kernel in (V41, *MODERN)}
        for round_ in range(TURNS + 1):  # the first one compiles
            for kernel in (V41, *MODERN):
                began = time.process_time()
                raw = simulate(program, m, kernel, until_ns=seconds * SECOND, load=False)
                if round_:
                    found[kernel.name].append(raw.events / (time.process_time() - began) / 1e6)
        for kernel in MODERN:
            both = list(zip(found[kernel.name], found[V41.name], strict=True))
            new, old = (median(rates) for rates in zip(*both, strict=True))
            ratio = median(a / b for a, b in both)
            rows.append(
                {
                    "id": f"{_prefix(kernel)}rate_{number}", "name": f"{kernel.name}, 64 CPUs, {name}: events per second",
                    "value": ratio, "unit": "of v4.1's", "goal": ">= 0.5", "met": ratio >= 0.5,
                    "note": f"CPU time, median of {TURNS} turns; the medians are {new:.2f} and {old:.2f} M events/s",
                }
            )  # fmt: skip
    return rows


def group_imbalance() -> list[dict]:
    """Measure 10 simulated seconds of make -j64 beside two R processes on 64 CPUs, after compilation."""
    m = Machine.preset("bulldozer8x8")
    program = recorded_gi(m, 1, jobs=1_000_000).program()
    rows = []
    for kernel in MODERN:
        walls = [simulate(program, m, kernel, until_ns=10 * SECOND).wall_s for _ in range(ROUNDS)]
        wall = median(walls)
        rows.append(
            {
                "id": f"{_prefix(kernel)}group_imbalance",
                "name": f"{kernel.name}, 64 CPUs, group imbalance, 10 simulated seconds",
                "value": wall, "unit": "s", "goal": "< 1", "met": wall < 1,
                "note": f"median of {ROUNDS}, least {min(walls):.3f} s",
            }
        )  # fmt: skip
    return rows


def run() -> list[dict]:
    """Run all benchmarks of the replays of modern kernels."""
    first = [
        row
        for kernel in MODERN
        for row in first_result_of(FIRST.format(kernel.name), f"{kernel.name}, ", _prefix(kernel))
    ]
    return [*rates(), *group_imbalance(), *first]
