"""The replay of Linux 6.12.107: events per second beside v4.1's on the same workloads, a large case, and the first result."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from benchmarks.bench_replay import MS, ROUNDS, SECOND, V41, endless, first_result_of
from wastedcores.kernels import KernelModel
from wastedcores.simulator import simulate
from wastedcores.topology.machine import Machine
from wastedcores.workload.program import Program
from wastedcores.workload.recorded.workloads import recorded_db, recorded_gi

V6_12 = KernelModel.named("v6.12.107")
FIRST = (
    "from wastedcores.simulator import replay_scenario; "
    "replay_scenario('recorded-gc', 'v6.12.107', 'bd-paper-16', given={'limit_s': 0.1})"
)
#: name, the program on a machine, simulated seconds
WORKLOADS: list[tuple[str, Callable[[Machine], Program], int]] = [
    ("make -j64 beside two hogs", lambda m: recorded_gi(m, 1, jobs=1_000_000).program(), 5),
    ("a database", lambda m: recorded_db(m, 1, iterations=100_000).program(), 5),
    ("128 busy tasks, stretches of 50 us", lambda m: endless(128, (50_000, 50_000), None), 2),
    ("96 tasks that sleep", lambda m: endless(96, (2 * MS, 6 * MS), (MS, 3 * MS)), 20),
]


def rates() -> list[dict]:
    """Measure events per second in the engine under both kernels, in turns, after compilation."""
    m = Machine.preset("bulldozer8x8")
    rows = []
    for number, (name, program_on, seconds) in enumerate(WORKLOADS):
        program = program_on(m)
        found: dict[str, list[float]] = {V41.name: [], V6_12.name: []}
        for round_ in range(ROUNDS + 1):  # the first one compiles
            for kernel in (V41, V6_12):
                raw = simulate(program, m, kernel, until_ns=seconds * SECOND, load=False)
                if round_:
                    found[kernel.name].append(raw.events / raw.wall_s / 1e6)
        old, new = (median(found[k.name]) for k in (V41, V6_12))
        rows.append(
            {
                "id": f"v6_12_rate_{number}", "name": f"v6.12.107, 64 CPUs, {name}: events per second",
                "value": new / old, "unit": "of v4.1's", "goal": ">= 0.5", "met": new >= old / 2,
                "note": f"median of {ROUNDS} each: {new:.2f} and {old:.2f} M events/s",
            }
        )  # fmt: skip
    return rows


def group_imbalance() -> list[dict]:
    """Measure 10 simulated seconds of make -j64 beside two R processes on 64 CPUs, after compilation."""
    m = Machine.preset("bulldozer8x8")
    program = recorded_gi(m, 1, jobs=1_000_000).program()
    walls = [simulate(program, m, V6_12, until_ns=10 * SECOND).wall_s for _ in range(ROUNDS)]
    wall = median(walls)
    return [
        {
            "id": "v6_12_group_imbalance", "name": "v6.12.107, 64 CPUs, group imbalance, 10 simulated seconds",
            "value": wall, "unit": "s", "goal": "< 1", "met": wall < 1,
            "note": f"median of {ROUNDS}, least {min(walls):.3f} s",
        }
    ]  # fmt: skip


def run() -> list[dict]:
    """Run all benchmarks of the replay of v6.12.107."""
    return [*rates(), *group_imbalance(), *first_result_of(FIRST, "v6.12.107, ", "v6_12_")]
