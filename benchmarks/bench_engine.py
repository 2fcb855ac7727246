"""The replay engine on typed structs against the one on an untyped table: replays, plain Python, compiling and a warm start.

The peer is commit cdf0c7e, the last one before structs. Both builds run in turns, in processes of their own with caches of
compiled code of their own, and CPU time counts.
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
    }
    child = subprocess.run(
        [sys.executable, "-c", program, *args], cwd=tree, env=env, capture_output=True, text=True, check=True
    )  # fmt: skip
    return json.loads(child.stdout.splitlines()[-1])


def run() -> list[dict]:
    """Return ratios of speed, and the CPU time of compiling and of a warm start."""
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder, "before")
        before.mkdir()
        archive = subprocess.run(
            ["git", "-C", str(ROOT), "archive", BEFORE], capture_output=True, check=True
        )
        subprocess.run(["tar", "x", "-C", str(before)], input=archive.stdout, check=True)
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
    return [_row(name, both[before], both[ROOT]) for name, both in found.items()]


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
