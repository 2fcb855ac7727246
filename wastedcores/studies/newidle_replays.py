"""The replays of the study of newidle balancing, each as a flat row of a sweep."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from wastedcores.simulator import replay
from wastedcores.topology.machine import Machine
from wastedcores.workload import services
from wastedcores.workload.builder import Workload

#: the release whose newidle balancing is changed
KERNEL = "v6.12.107"


def _machine(name: str, packages: int, cores: int, smt: int) -> Machine:
    """Return packages that are a node and a last-level cache each; the threads of a core are numbered as on Intel's machines."""
    each = packages * cores
    cpus = range(each * smt)
    return Machine.from_dict(
        {
            "name": name,
            "cpus": len(cpus),
            "node_of_cpu": [c % each // cores for c in cpus],
            "core_of_cpu": [c % each for c in cpus],
            "distance": [[10 if a == b else 21 for b in range(packages)] for a in range(packages)],
        }
    )


#: long enough for its last requests not to count
_DATABASE = partial(services.database, ms=500)
#: workload -> its machine as far as the report describes it, else a machine of today, and the workload on it
CASES: dict[str, tuple[Machine, Any]] = {
    "schbench": (_machine("one socket of 26 cores", 1, 26, 2), services.schbench),
    "specjbb": (_machine("AmpereOne, 192 cores", 1, 192, 1), _DATABASE),
    "specjbb-l2": (
        replace(
            _machine("AmpereOne, 192 cores", 1, 192, 1), llc_of_cpu=np.arange(192, dtype=np.int32)
        ),
        _DATABASE,
    ),
    "unixbench": (_machine("2 Xeon Gold 6346", 2, 16, 2), services.shell16),
    "apache": (_machine("Xeon 8167M", 1, 8, 2), services.webserver),
}


def throughput(kernel: str, seed: int, case: str) -> dict[str, Any]:
    """Replay one workload under one kernel."""
    machine, make = CASES[case]
    workload: Workload = make(machine, seed)
    done = replay(workload, machine, kernel, seed=seed, load=False)
    calls = done.balance_calls.filter(pl.col("idle") == "newidle")["calls"].sum()
    return {
        "per_s": done.summary.result,
        "attempts_per_s": int(calls) / (done.summary.end_ns / 1e9),
        "busy": float(done.summary.busy_per_cpu.mean()),
        "wall_s": done.raw.wall_s,
    }
