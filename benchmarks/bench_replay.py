"""The replay engine: events per second, against SimPy, a large machine, and the first result with and without a cache."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from statistics import median

from benchmarks.simpy_replay import SimpyReplay
from benchmarks.simpy_skeleton import Skeleton, Task
from wastedcores.kernels import KernelModel
from wastedcores.simulator import RawReplay, replay, simulate
from wastedcores.topology.domains import build_domains
from wastedcores.topology.machine import Machine
from wastedcores.topology.presets import grid
from wastedcores.workload import Script, Workload
from wastedcores.workload.program import Program
from wastedcores.workload.recorded.workloads import recorded_gi

V41 = KernelModel.named("v4.1")
MS = 1_000_000
SECOND = 1_000_000_000
ROUNDS = 5
FIRST = (
    "from wastedcores.simulator import replay_scenario; "
    "replay_scenario('recorded-gc', machine='bd-paper-16', given={'limit_s': 0.1})"
)


def cpu_time(program: Program, machine: Machine, until_ns: int) -> tuple[float, RawReplay]:
    """Return the CPU seconds of one whole call, including the building of the world."""
    began = time.process_time()
    raw = simulate(program, machine, V41, until_ns=until_ns, load=False)
    return time.process_time() - began, raw


def group_imbalance() -> list[dict]:
    """Measure make -j64 beside two R processes on 64 CPUs for 10 simulated seconds, after compilation."""
    m = Machine.preset("bulldozer8x8")
    program = recorded_gi(m, 1, jobs=1_000_000).program()
    simulate(program, m, V41, until_ns=SECOND // 100)
    walls, raw = [], None
    for _ in range(ROUNDS):
        raw = simulate(program, m, V41, until_ns=10 * SECOND)
        walls.append(raw.wall_s)
    note = f"{raw.events:,} events; median of {ROUNDS}, least {min(walls):.3f} s" if raw else ""
    wall = median(walls)
    return [
        {
            "id": "group_imbalance", "name": "64 CPUs, group imbalance, 10 simulated seconds",
            "value": wall, "unit": "s", "goal": "< 1", "met": wall < 1, "note": note,
        }
    ]  # fmt: skip


def endless(tasks: int, compute_ns: tuple[int, int], sleep_ns: tuple[int, int] | None) -> Program:
    """Return tasks that compute (and sleep) endlessly, in the root group, with their first CPUs spread over 64."""
    w = Workload("endless", random_phase=False)
    script = Script().loop().compute(*compute_ns)
    if sleep_ns is not None:
        script = script.sleep(*sleep_ns)
    script = script.end()
    for i in range(tasks):
        w.task(f"t{i}", script, cpu=i % 64, session=0, daemon=True)
    w.task("end", Script().sleep(100 * SECOND))
    return w.program()


def ticks_and_switches() -> list[dict]:
    """Measure 128 busy tasks on 64 CPUs with stretches of 50 us."""
    m = Machine.preset("bulldozer8x8")
    program = endless(128, (50_000, 50_000), None)
    rates = []
    for _ in range(ROUNDS):
        seconds, raw = cpu_time(program, m, 5 * SECOND)
        rates.append(raw.events / seconds)
    rate = median(rates) / 1e6
    return [
        {
            "id": "event_rate", "name": "events on one core, 64 CPUs, 128 busy tasks",
            "value": rate, "unit": "M events/s", "goal": ">= 5", "met": rate >= 5,
            "note": f"CPU time, median of {ROUNDS}, best {max(rates) / 1e6:.3g}",
        }
    ]  # fmt: skip


def decisions() -> list[dict]:
    """Measure what the log of the balancer's decisions costs a whole replay, trace included, in alternate runs."""
    m = Machine.preset("bulldozer8x8")
    seconds: dict[bool, list[float]] = {False: [], True: []}
    calls = 0
    for round_ in range(ROUNDS + 1):  # the first one compiles
        for on in (False, True):
            began = time.process_time()
            r = replay(recorded_gi(m, 1, jobs=1_000_000), m, V41, until_ns=2 * SECOND, decisions=on)
            if round_:
                seconds[on].append(time.process_time() - began)
            calls = int(r.balance_calls["calls"].sum())
    ratio = median(seconds[True]) / median(seconds[False])
    note = (
        f"CPU time, median of {ROUNDS} each: {median(seconds[False]):.2f} s without and "
        f"{median(seconds[True]):.2f} s with {calls:,} decisions"
    )
    return [
        {
            "id": "decisions", "name": "64 CPUs, group imbalance, 2 simulated seconds: with the balancer's decisions",
            "value": ratio, "unit": "x the time without", "goal": "<= 2", "met": ratio <= 2, "note": note,
        }
    ]  # fmt: skip


def against_simpy() -> list[dict]:
    """Measure ticks, wakeups and balancing on 64 CPUs in the engine and in SimPy alternately, in CPU time."""
    m = Machine.preset("bulldozer8x8")
    domains = build_domains(m, V41)
    rows = []
    for what, tasks, compute, sleep in (
        ("128 busy tasks", 128, (2 * MS, 6 * MS), None),
        ("96 tasks that sleep and wake", 96, (2 * MS, 6 * MS), (1 * MS, 3 * MS)),
    ):
        program = endless(tasks, compute, sleep)
        simulate(program, m, V41, until_ns=MS)
        same, bare, per_second = [], [], (0, 0, 0)
        for _ in range(3):
            engine_s, raw = cpu_time(program, m, 40 * SECOND)
            rate = raw.events / engine_s
            peer = SimpyReplay(program, m, V41)
            began = time.process_time()
            peer.run(SECOND // 5)
            same.append(rate / (peer.events / (time.process_time() - began)))
            handled = simulate(program, m, V41, until_ns=SECOND // 5, load=False).events
            if not 0 <= handled - peer.events <= 1:  # SimPy stops before an event at the very end
                raise AssertionError(f"not the same events: {handled} and {peer.events}")
            everyone = frozenset(range(64))
            skeleton = Skeleton(
                domains, 64, [Task(compute, sleep, everyone, cpu=i % 64) for i in range(tasks)], 1
            )
            began = time.process_time()
            skeleton.env.run(until=SECOND // 2)
            bare.append((time.process_time() - began) * 2 / (engine_s / 40))
            per_second = (raw.events // 40, peer.events * 5, skeleton.events * 2)
        count = "{:,} | {:,} | {:,}".format(*per_second)
        rows += [
            {
                "id": f"simpy_{tasks}",
                "name": f"against SimPy, {what}: ticks, switches and balancing event for event the same",
                "value": median(same), "unit": "x events/s", "goal": ">= 200", "met": median(same) >= 200,
                "peer": "the same handlers as plain Python, as SimPy events",
                "note": f"events per simulated second, engine, peer, bare skeleton: {count}; median of 3",
            },
            {
                "id": f"simpy_{tasks}_skeleton",
                "name": f"against SimPy, {what}: a bare skeleton", "value": median(bare), "unit": "x less CPU time",
                "goal": "-", "met": None, "peer": "SimPy without load tracking, groups, new-idle balancing, trace",
                "note": "the same simulated time; the peer does much less than the engine",
            },
        ]  # fmt: skip
    return rows


def large_case() -> tuple[Program, Machine]:
    """Return 10 000 tasks on 1024 CPUs for 1 simulated second."""
    m = grid("large", packages=32, nodes_per_package=2, cores_per_llc=8, threads=2)
    w = Workload("large")
    group = w.session()
    work = Script().loop().compute(2 * MS, 6 * MS).sleep(1 * MS, 3 * MS).end()
    for i in range(10_000):
        w.task(f"t{i}", work, cpu=i % m.cpus, session=group, daemon=True)
    w.task("end", Script().sleep(SECOND))
    return w.program(), m


def peak_gib() -> float:
    """Replay the large case and return the peak memory of this process in GiB."""
    simulate(*large_case(), V41, load=False)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def large() -> list[dict]:
    """Measure the large case: the time of the whole call, including building, and the memory of a process of its own."""
    program, m = large_case()
    began, cpu = time.perf_counter(), time.process_time()
    raw = simulate(program, m, V41, load=False)
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    code = "from benchmarks.bench_replay import peak_gib; print(peak_gib())"
    alone = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    peak = float(alone.stdout)
    return [
        {
            "id": "large_time",
            "name": "1024 CPUs, 10 000 tasks, 1 simulated second", "value": wall, "unit": "s", "goal": "< 30",
            "met": wall < 30, "note": f"whole call, {raw.events:,} events; CPU time {cpu:.1f} s",
        },
        {
            "id": "large_memory",
            "name": "1024 CPUs, 10 000 tasks: peak memory", "value": peak, "unit": "GiB", "goal": "< 2", "met": peak < 2,
            "note": "of a process that runs only this",
        },
    ]  # fmt: skip


def first_result_of(code: str, kernel: str = "", prefix: str = "") -> list[dict]:
    """Measure the time from the start of a fresh process to the first result, with an empty and with a full cache."""
    found: dict[str, list[tuple[float, float]]] = {"no cache": [], "cache": []}
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            for times in found.values():
                times.append(_fresh(code, folder))
    rows = []
    for (name, times), goal in zip(found.items(), (30, 3), strict=True):
        walls, cpus = zip(*times, strict=True)
        wall, each = median(walls), ", ".join(f"{w:.1f}" for w in walls)
        rows.append(
            {
                "id": f"{prefix}first_result_{name.replace(' ', '_')}",
                "name": f"{kernel}import to first result, {name}", "value": wall, "unit": "s", "goal": f"< {goal}",
                "met": wall < goal,
                "note": f"wall time, median of {each}; CPU time of both compiling processes {median(cpus):.1f} s",
            }
        )  # fmt: skip
    return rows


def _fresh(code: str, folder: str) -> tuple[float, float]:
    """Run code in a new process with the cache in a folder; return its wall time and all CPU time in s."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", code], check=True, env=os.environ | {"WASTEDCORES_CACHE_DIR": folder}
    )
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run() -> list[dict]:
    """Run all benchmarks of the replay."""
    return [
        *group_imbalance(),
        *ticks_and_switches(),
        *decisions(),
        *against_simpy(),
        *large(),
        *first_result_of(FIRST),
    ]
