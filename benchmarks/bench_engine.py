"""The replay engine on typed structs against the one on an untyped table: replays, plain Python, compiling and a warm start.

The peer is commit cdf0c7e, the last one before structs. Both builds run in turns, in processes of their own with caches of
compiled code of their own, and CPU time counts. That commit also had a second simulator, the reference, on objects of Python;
the engine as plain Python is compared with it, without the making of the trace.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BEFORE = "cdf0c7e"
TURNS = 5
REPLAYS = {
    "recorded-db under v4.1": ("recorded-db", "v4.1", None, 4.0),
    "recorded-gi under v4.1": ("recorded-gi", "v4.1", None, 8.0),
    "hackbench under v4.1": ("hackbench", "v4.1", "bd-paper-16", 0.3),
    "hackbench under v6.1.192": ("hackbench", "v6.1.192", "bd-paper-16", 0.3),
    "recorded-db under v6.12.107": ("recorded-db", "v6.12.107", None, 4.0),
    "hackbench under v6.12.107": ("hackbench", "v6.12.107", "bd-paper-16", 0.3),
}
#: as plain Python: what takes some seconds there
PLAIN = {
    "recorded-db under v4.1": ("recorded-db", "v4.1", None, 0.3),
    "hackbench under v6.12.107": ("hackbench", "v6.12.107", "bd-paper-16", 0.02),
}
BESIDE_REFERENCE = PLAIN | {
    "hackbench under v6.1.192": ("hackbench", "v6.1.192", "bd-paper-16", 0.02)
}
_REPLAY = """
import gc, json, sys, time
from wastedcores.simulator import replay_scenario

out = {}
for name, (scenario, kernel, machine, seconds) in json.loads(sys.argv[1]).items():
    replay_scenario(scenario, kernel, machine, seed=1, until_ns=int(seconds * 1e9))
    gc.collect()  # a collection of numba's objects takes 45 ms, and whose turn it falls into is chance
    began = time.process_time()
    replay_scenario(scenario, kernel, machine, seed=2, until_ns=int(seconds * 1e9))
    out[name] = time.process_time() - began
print(json.dumps(out))
"""
#: one program for both: what differs is set before it
_SIMULATE = """
import gc, json, sys, time
from wastedcores.kernels import KernelModel
from wastedcores.simulator.replay import as_booted
from wastedcores.topology.domains import domain_events
from wastedcores.topology.source import find_machine
from wastedcores.workload.program import costs_of
from wastedcores.workload.scenarios import scenario

out = {}
for name, (which, kernel, machine, seconds) in json.loads(sys.argv[1]).items():
    found, until_ns = scenario(which), int(seconds * 1e9)
    on, model = find_machine(machine or found.machine).machine, KernelModel.named(kernel)
    for seed in (1, 2):
        program = as_booted(found.workload(on, seed).program(), on, model)
        gc.collect()
        began = time.process_time()
        simulated(program, on, model, seed, until_ns)
        out[name] = time.process_time() - began
print(json.dumps(out))
"""
_REFERENCE = """
from wastedcores.simulator.reference import Kernel, Simulation

def simulated(program, on, model, seed, until_ns):
    k = Kernel(on, model, domain_events(on, model.linux), costs_of(on))
    Simulation(k, program, seed).run(until_ns)
"""
_PLAIN = """
from wastedcores.simulator.plain.engine import PlainEngine
from wastedcores.simulator.simulate import simulate

def simulated(program, on, model, seed, until_ns):
    plain = PlainEngine(on, program)
    simulate(program, on, model, seed=seed, until_ns=until_ns, plain=plain)
"""
_PREPARE = """
import importlib, json, os, time
from pathlib import Path
from wastedcores.jit import units

for path in sorted(Path("wastedcores/simulator/engine").rglob("*_jit.py")):
    importlib.import_module(".".join(path.with_suffix("").parts))
units.prepare()
t = os.times()
print(json.dumps({"s": t.user + t.system + t.children_user + t.children_system}))
"""


def _ask(tree: Path, program: str, *args: str, cache: Path, plain: bool = False) -> dict:
    """Run a program with the sources of a tree; return the JSON that it prints."""
    env = os.environ | {
        "PYTHONPATH": str(tree),
        "NUMBA_DISABLE_JIT": str(int(plain)),
        "XDG_CACHE_HOME": str(cache),
        "WASTEDCORES_CACHE_DIR": "",  # it would go before, and both trees would share one
    }
    child = subprocess.run(
        [sys.executable, "-c", program, *args], cwd=tree, env=env, capture_output=True, text=True, check=True
    )  # fmt: skip
    return json.loads(child.stdout.splitlines()[-1])


def _before(folder: str) -> Path:
    """Write the sources of the peer into a folder."""
    before = Path(folder, "before")
    before.mkdir()
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", BEFORE], capture_output=True, check=True
    )
    subprocess.run(["tar", "x", "-C", str(before)], input=archive.stdout, check=True)
    return before


def beside_reference() -> list[dict]:
    """Return the speed of the engine as plain Python, against the reference."""
    sides = {"reference": _REFERENCE + _SIMULATE, "plain": _PLAIN + _SIMULATE}
    found: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    with tempfile.TemporaryDirectory() as folder:
        trees = {"reference": _before(folder), "plain": ROOT}
        for turn in range(TURNS):
            for side in sorted(sides, reverse=turn % 2 == 1):
                cases = json.dumps(BESIDE_REFERENCE)
                found[side].append(_ask(trees[side], sides[side], cases, cache=Path(folder)))
    return [
        _row(f"{name} as plain Python, against the reference", *([turn[name] for turn in found[s]] for s in sides))
        for name in BESIDE_REFERENCE
    ]  # fmt: skip


def run() -> list[dict]:
    """Return ratios of speed, and the CPU time of compiling and of a warm start."""
    with tempfile.TemporaryDirectory() as folder:
        before = _before(folder)
        found: dict[str, dict[Path, list[float]]] = {}
        for turn in range(TURNS):
            for tree in (ROOT, before) if turn % 2 else (before, ROOT):
                cache = Path(folder, f"cache-{tree == ROOT}-{turn}")
                cold = _ask(tree, _PREPARE, cache=cache)["s"]
                seconds = {
                    "compiling the whole engine": cold,
                    "a warm start of the whole engine": _ask(tree, _PREPARE, cache=cache)["s"],
                }
                seconds |= _ask(tree, _REPLAY, json.dumps(REPLAYS), cache=cache)
                plain = _ask(tree, _REPLAY, json.dumps(PLAIN), cache=cache, plain=True)
                seconds |= {f"{name} as plain Python": s for name, s in plain.items()}
                for name, s in seconds.items():
                    found.setdefault(name, {}).setdefault(tree, []).append(s)
    rows = [_row(name, both[before], both[ROOT]) for name, both in found.items()]
    return rows + beside_reference()


def _row(name: str, old: list[float], new: list[float]) -> dict:
    ratio = statistics.median(a / b for a, b in zip(old, new, strict=True))
    goal = 0.97 if name in REPLAYS else 1.0
    return {
        "id": name.replace(" ", "_"),
        "name": f"{name}: speed",
        "value": ratio,
        "unit": f"x of {BEFORE}",
        "goal": f">= {goal}",
        "met": ratio >= goal,
        "peer": f"{BEFORE}: {statistics.median(old):.3f} s",
        "note": f"now {statistics.median(new):.3f} s of CPU time; medians of {TURNS} turns",
    }
