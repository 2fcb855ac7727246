"""Lay replays beside the recordings of real kernels: docs/recorded-vs-replayed.md.

    python tools/compare_with_recordings.py SHARED/traces/guest [--seeds 20] [--only RUN ...] [-o FILE]

A recorded figure agrees if it is within 10 % of the replays' median, or inside their 5-95 % range.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

import wastedcores
from wastedcores.engine import state
from wastedcores.kernels import KernelModel
from wastedcores.replay import _with_steps, simulate, summarize
from wastedcores.scenarios import scenario
from wastedcores.topology.domains import domain_events
from wastedcores.topology.machine import Machine

RESULTS = {
    "make_s": "make_s",
    "cpus_worth": "cpus_of_work",
    "s_per_iter": "s_per_iter",
    "db_s": "db_s",
}
#: busy CPUs below which the guest's own kernel threads decide
FLOOR = 0.05
START = {"gi": "make start", "gc": "threads start", "ms": "start n", "lu": "lu start", "db": "db"}


@dataclass
class Figures:
    """One run: its result, busy CPUs, busy CPUs a node of each type."""

    result: float
    busy: float
    node_types: dict[str, float]


def parameters(meta: dict) -> dict[str, object]:
    """The recorder's parameters as the scenario's."""
    p, kind = meta["params"], meta["scenario"]
    if kind == "gi":
        return {"jobs": int(p["jobs"])} if "jobs" in p else {}
    if kind == "ms":
        return {"hotplug": p["hp"]} if "hp" in p else {}
    if kind == "lu":
        out = {"work_us": int(p["us"]), "iterations": int(p["k"]), "limit_s": float(p["limit"])}
        out |= {name: int(p[name]) for name in ("n", "hogs") if name in p}
        return out | ({"pinned": False} if p.get("na") == "-1" else {})
    if kind == "db":
        return {
            "iterations": int(p["k"]),
            "group": int(p.get("grp", 8)),
            "lo_us": int(p.get("lo", 1000)),
            "hi_us": int(p.get("hi", 3000)),
            "noise_period_ms": float(p.get("nper", 10)),
        }
    return {}


def recorded(folder: Path, meta: dict, machine: Machine) -> Figures:
    """Figures of a recording."""
    trace = wastedcores.open_trace(folder / "trace.txt.xz")
    marks = trace.only("mark").select("ts_ns", "text").collect()
    texts = marks["text"].to_list()
    first = next(
        i for i, t in enumerate(texts) if START[meta["scenario"]] in t and "trace" not in t
    )
    start = int(marks["ts_ns"][first])
    after = [i for i in range(first + 1, len(texts)) if "trace" not in texts[i]]
    end = int(marks["ts_ns"][after[0] if after else len(texts) - 1])
    switches = trace.only("switch").select("ts_ns", "cpu", "pid", "comm").collect()
    busy = np.zeros(machine.cpus)
    hogs: set[int] = set()
    for (cpu,), own in switches.group_by("cpu", maintain_order=True):
        ts = own["ts_ns"].to_numpy().clip(start, end)
        length = np.diff(np.r_[ts, end])
        runs = own["pid"].to_numpy() != 0
        busy[cpu] = length[runs].sum() / (end - start)
        is_hog = own["comm"].cast(pl.String).str.starts_with("R-").to_numpy()
        if (length * is_hog).sum() > 0.3 * (end - start):
            hogs.add(cpu)
    result = next(
        meta["results_measured_in_guest"][k]
        for k in RESULTS
        if k in meta["results_measured_in_guest"]
    )
    return Figures(result, float(busy.sum()), by_type(busy, hogs, meta, machine))


def by_type(busy: np.ndarray, hog_cpus: set[int], meta: dict, machine: Machine) -> dict[str, float]:
    """Mean busy CPUs a node: of nodes with hogs and the others, of pinned nodes and the others."""
    nodes = np.asarray(machine.node_of_cpu)
    per_node = np.array([busy[nodes == n].sum() for n in range(machine.nodes)])
    if hog_cpus:
        special = {int(nodes[c]) for c in hog_cpus}
        names = ("hog nodes", "other nodes")
    elif meta["scenario"] in ("gc", "lu"):
        return {"node 1": float(per_node[1]), "node 2": float(per_node[2])}
    elif meta["scenario"] == "ms":
        special, names = {2}, ("start node", "other nodes")
    else:
        return {"all nodes": float(per_node.mean())}
    inside = np.array([n in special for n in range(machine.nodes)])
    return {names[0]: float(per_node[inside].mean()), names[1]: float(per_node[~inside].mean())}


def replayed(meta: dict, machine: Machine, seeds: int) -> tuple[list[Figures], int, float]:
    """Figures of the replays, engine events, seconds in the engine."""
    found = scenario(f"recorded-{meta['scenario']}")
    kernel = KernelModel.of_guest_variant(meta["variant"])
    out, events, wall, trees = [], 0, 0.0, None
    for seed in range(1, seeds + 1):
        w = found.workload(machine, seed, parameters(meta))
        program = w.program()
        trees = trees or domain_events(_with_steps(machine, program), kernel)
        raw = simulate(program, machine, kernel, seed=seed, trees=trees, load=False)
        q = summarize(raw, program, machine, w.measure, w.counted_nodes)
        specs = (*program.templates, *program.tasks)
        hogs = {
            int(row[state.T_CPU])
            for row in raw.tasks
            if specs[row[state.T_TEMPLATE]].comm.startswith("R-")
        }
        out.append(
            Figures(
                float(q.result or 0),
                float(q.busy_per_cpu.sum()),
                by_type(q.busy_per_cpu, hogs, meta, machine),
            )
        )
        events += raw.events
        wall += raw.wall_s
    return out, events, wall


def verdict(value: float, replays: list[float], busy: bool) -> tuple[str, str]:
    """Text of the replays' figures, and whether the recorded one agrees."""
    median = float(np.median(replays))
    low, high = (float(x) for x in np.percentile(replays, [5, 95]))
    close = max(0.1 * median, FLOOR if busy else 0.0)
    agrees = abs(value - median) <= close or low <= value <= high
    scale = "{:.4f}" if abs(median) < 1 else "{:.2f}"
    return (
        f"{scale.format(median)} [{scale.format(low)}, {scale.format(high)}]",
        "yes" if agrees else "**no**",
    )


def main() -> int:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("guest", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("-o", "--output", type=Path, default=Path("docs/recorded-vs-replayed.md"))
    args = parser.parse_args()
    rows, agree, total, events, wall = [], 0, 0, 0, 0.0
    began = time.perf_counter()
    for folder in sorted(p.parent for p in args.guest.glob("*/meta.json")):
        meta = json.loads((folder / "meta.json").read_text())
        if meta["variant"] == "6.1" or (args.only and folder.name not in args.only):
            continue
        machine = Machine.preset(f"bd-paper-{meta['cpus']}")
        real = recorded(folder, meta, machine)
        sims, n, seconds = replayed(meta, machine, args.seeds)
        events, wall = events + n, wall + seconds
        name = next(RESULTS[k] for k in RESULTS if k in meta["results_measured_in_guest"])
        lines = [
            (name, real.result, [s.result for s in sims]),
            ("busy CPUs", real.busy, [s.busy for s in sims]),
        ]
        lines += [(k, v, [s.node_types[k] for s in sims]) for k, v in real.node_types.items()]
        for label, value, replays in lines:
            text, yes = verdict(value, replays, label != name)
            agree, total = agree + (yes == "yes"), total + 1
            shown = f"{value:.4f}" if abs(value) < 1 else f"{value:.2f}"
            rows.append(f"| {folder.name} | {label} | {shown} | {text} | {yes} |")
        print("\n".join(rows[-len(lines) :]), file=sys.stderr)
    head = [
        "# Recorded and replayed",
        "",
        "Every 4.1.3 recording beside replays of the same workload on the same machine under the same fixes.",
        f"Made by `python tools/compare_with_recordings.py SHARED/traces/guest --seeds {args.seeds}`;",
        f"{events} engine events in {wall:.1f} s of engine time, {time.perf_counter() - began:.0f} s in all.",
        "A figure agrees if the recorded value is within 10 % of the",
        f"median of the replays (or within {FLOOR} busy CPUs), or inside their 5-95 % range:",
        f"**{agree} of {total} agree**.",
        "",
        "The recordings are one run each; replays differ by seed. 'hog nodes' are those where an R process",
        "runs, 'node 1' and 'node 2' those the threads are pinned to; figures of node types are busy CPUs a node.",
        "",
        "| run | figure | recorded | replayed: median [5 %, 95 %] | agrees |",
        "|---|---|---|---|---|",
    ]
    args.output.write_text("\n".join(head + rows) + "\n")
    print(f"{agree} of {total} agree; wrote {args.output}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
