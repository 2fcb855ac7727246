"""How fast the engine is; prints one JSON object.

    python benchmarks/bench_replay.py [--cold]

`--cold` measures a first result in fresh processes, without and with the compile cache (minutes on a loaded machine).
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

from wastedcores.kernels import KernelModel
from wastedcores.replay import simulate
from wastedcores.topology.machine import Machine
from wastedcores.topology.presets import grid
from wastedcores.workload import Script, Workload
from wastedcores.workload.recorded import recorded_gi

V41 = KernelModel.named("v4.1")
SECOND = 1_000_000_000
FIRST = (
    "from wastedcores.replay import replay_scenario; "
    "replay_scenario('recorded-gc', machine='bd-paper-16', given={'limit_s': 0.1})"
)


def group_imbalance() -> dict[str, float]:
    """make -j64 and two R processes on 64 CPUs, 10 simulated seconds, after compilation."""
    m = Machine.preset("bulldozer8x8")
    program = recorded_gi(m, 1, jobs=1_000_000).program()
    simulate(program, m, V41, until_ns=SECOND // 100)
    walls, events = [], 0
    for _ in range(5):
        raw = simulate(program, m, V41, until_ns=10 * SECOND)
        walls.append(raw.wall_s)
        events = raw.events
    wall = sorted(walls)[2]
    return {"wall_s": wall, "best_s": min(walls), "events": events, "events_per_s": events / wall}


def ticks_and_switches() -> dict[str, float]:
    """128 busy tasks on 64 CPUs: ticks, switches and balancing only."""
    m = Machine.preset("bulldozer8x8")
    w = Workload("ticks")
    for i in range(128):
        w.task(f"t{i}", Script().loop().compute(50_000).end(), cpu=i % 64, session=0, daemon=True)
    w.task("end", Script().sleep(5 * SECOND))
    raw = simulate(w.program(), m, V41, load=False)
    return {"wall_s": raw.wall_s, "events": raw.events, "events_per_s": raw.events / raw.wall_s}


def large() -> dict[str, float]:
    """1024 CPUs, 10 000 tasks, 1 simulated second; the whole call, building included."""
    m = grid("large", packages=32, nodes_per_package=2, cores_per_llc=8, threads=2)
    w = Workload("large")
    group = w.session()
    work = Script().loop().compute(2_000_000, 6_000_000).sleep(1_000_000, 3_000_000).end()
    for i in range(10_000):
        w.task(f"t{i}", work, cpu=i % m.cpus, session=group, daemon=True)
    w.task("end", Script().sleep(SECOND))
    program = w.program()
    began = time.perf_counter()
    raw = simulate(program, m, V41, load=False)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "cpus": m.cpus, "total_s": time.perf_counter() - began, "engine_s": raw.wall_s, "events": raw.events,
        "peak_bytes": peak,
    }  # fmt: skip


def skeleton(seconds: float = 0.5) -> dict[str, float]:
    """The same tick-and-balance skeleton as a SimPy program (or, without SimPy, on its event loop's heap alone)."""
    cpus, tick = 64, 4_000_000
    until = int(seconds * SECOND)
    nr = [2] * cpus
    count = 0

    def handle(cpu: int) -> None:
        nonlocal count
        count += 1
        busiest = max(range(cpu & ~7, (cpu & ~7) + 8), key=nr.__getitem__)
        if nr[busiest] > nr[cpu] + 1:
            nr[busiest] -= 1
            nr[cpu] += 1

    try:
        import simpy
    except ImportError:
        name = "heapq"
        queue = [(cpu * 50, cpu) for cpu in range(cpus)]
        began = time.perf_counter()
        while queue and queue[0][0] < until:
            now, cpu = heapq.heappop(queue)
            handle(cpu)
            heapq.heappush(queue, (now + tick, cpu))
    else:
        name = "simpy"
        env = simpy.Environment()

        def ticking(cpu: int):
            yield env.timeout(cpu * 50)
            while True:
                handle(cpu)
                yield env.timeout(tick)

        for cpu in range(cpus):
            env.process(ticking(cpu))
        began = time.perf_counter()
        env.run(until=until)
    wall = time.perf_counter() - began
    return {"with": name, "events": count, "events_per_s": count / wall}


def cold() -> dict[str, float]:
    """From start of a fresh process to the first result."""
    out = {}
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {"WASTEDCORES_CACHE_DIR": folder}
        for name in ("cold_s", "warm_s"):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", FIRST], check=True, env=env)
            out[name] = time.perf_counter() - began
    return out


def main() -> None:
    """Run all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cold", action="store_true")
    args = parser.parse_args()
    result: dict[str, object] = {
        "group_imbalance_10s": group_imbalance(),
        "ticks_and_switches": ticks_and_switches(),
        "skeleton": skeleton(),
        "large": large(),
    }
    if args.cold:
        result["first_result"] = cold()
    result["load_average"] = os.getloadavg()[0]
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
