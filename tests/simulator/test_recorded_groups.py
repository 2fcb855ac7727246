"""Groups of threads in the replay against recordings of Linux 6.1 and 6.12 (tests/simulator/recordings/README.md)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
from support.thread_groups import Group, groups_of, in_order

import wastedcores as wc
from wastedcores.kernels import KernelModel
from wastedcores.simulator import replay_scenario, simulate
from wastedcores.simulator.to_trace import to_trace
from wastedcores.topology.source import find_machine
from wastedcores.workload.scenarios import scenario

HERE = Path(__file__).parent / "recordings"
#: the seconds of all groups as the recorded program measured them
RUNS = {
    "fifo-6.1-2cpu": 4.404444,
    "fifo-6.12-2cpu": 4.404976,
    "fifo-6.1-4cpu": 6.606674,
    "fifo-6.12-4cpu": 6.606599,
    "rr-6.1-4cpu": 6.348286,
    "rr-6.12-4cpu": 6.348364,
}
#: 65 ms after its start the only thread of the first group was moved by a stop_machine() that interrupted all CPUs
DISTURBED = {"fifo-6.12-4cpu": {1}}


def _replayed(run: str, start_cpu: int) -> tuple[float, dict[int, Group]]:
    policy, _, cpus = run.split("-")
    small = cpus == "2cpu"
    given = {"policy": policy, "cpu": start_cpu} | (
        {"most": 8, "work_ms": 200} if small else {"most": 12, "work_ms": 250}
    )
    replay = replay_scenario("recorded-groups", machine=f"guest-{cpus[0]}", given=given)
    assert replay.summary.result is not None
    return replay.summary.result, groups_of(replay.trace)


@pytest.mark.parametrize("run", RUNS)
def test_recorded_groups(run):
    """All groups, and the completions of each, within 2 %; per CPU 99 % of the switches in order."""
    recorded = groups_of(wc.open_trace(HERE / f"groups-{run}.txt.xz"))
    groups_s, replayed = _replayed(run, recorded[1].cpu)
    assert groups_s == pytest.approx(RUNS[run], rel=0.02)
    for n, group in recorded.items():
        assert replayed[n].first_s == pytest.approx(group.first_s, rel=0.02), n
        assert replayed[n].last_s == pytest.approx(group.last_s, rel=0.02), n
    kept = {n: g for n, g in recorded.items() if n not in DISTURBED.get(run, ())}
    shares = in_order(kept, replayed)
    assert len(shares) == int(run[-4])
    assert min(shares.values()) >= 0.99, shares


def test_another_policy_is_noticed():
    """The comparison can fail: what SCHED_FIFO does is not in the order that SCHED_RR was recorded in."""
    recorded = groups_of(wc.open_trace(HERE / "groups-rr-6.1-4cpu.txt.xz"))
    _, replayed = _replayed("fifo-6.1-4cpu", recorded[1].cpu)
    assert min(in_order(recorded, replayed).values()) < 0.9
    assert replayed[6].last_s != pytest.approx(recorded[6].last_s, rel=0.02)


#: SCHED_OTHER on 4 CPUs, as the recorded program measured it: the seconds of all groups, and when the last thread of each ended.
#: Under 6.12.107 all threads are in one autogroup, and under 6.1.192 there are none.
FAIR = {
    ("v6.12.107", 1): (6.071622, (
        0.250376, 0.250359, 0.250346, 0.250497, 0.374583, 0.412728,
        0.466709, 0.525064, 0.593417, 0.640989, 0.698655, 0.755954,
    )),
    ("v6.1.192", 0): (6.021052, (
        0.250268, 0.250288, 0.25027, 0.250292, 0.384434, 0.394469,
        0.460494, 0.510584, 0.571167, 0.641827, 0.69435, 0.76067,
    )),
}  # fmt: skip
#: the first completion of 12 threads under 6.12.107; with equal shares it would be close to the last
FIRST_OF_12_S = 0.550399


def _fair(kernel: str, group: int, seed: int) -> tuple[float, dict[int, Group]]:
    machine, model = find_machine("guest-4").machine, KernelModel.named(kernel)
    given = {"most": 12, "work_ms": 250}
    program = scenario("recorded-groups").workload(machine, seed, given).program()
    tasks = tuple(replace(t, group=group) for t in program.tasks)
    program = replace(program, tasks=tasks, shares=(1024,) * (group + 1))
    raw = simulate(program, machine, model, seed=seed)
    trace = to_trace(raw, program, machine, model, "groups", seed)
    marks = trace.only("mark").select("ts_ns").collect()["ts_ns"]
    return (marks[-1] - marks[0]) / 1e9, groups_of(trace)


@pytest.mark.parametrize(("kernel", "group"), FAIR)
def test_recorded_groups_of_the_fair_class(kernel, group):
    """All groups take as long as recorded within 5 %, and no last completion is 5 % outside the range of the replays."""
    recorded_s, lasts = FAIR[kernel, group]
    runs = [_fair(kernel, group, seed) for seed in range(1, 6)]
    assert median(total for total, _ in runs) == pytest.approx(recorded_s, rel=0.05)
    for n, recorded in enumerate(lasts, 1):
        last = [groups[n].last_s for _, groups in runs]
        assert 0.95 * min(last) < recorded < 1.05 * max(last), n
    if group:
        # three threads per CPU, but the queues are unequal for the first 200 ms: forks see the load of the autogroup
        first = [groups[12].first_s for _, groups in runs]
        assert min(first) < FIRST_OF_12_S < max(first)
