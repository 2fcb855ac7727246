"""Scheduling domains of big machines: time and memory."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

from wastedcores.topology.domains import build_domains
from wastedcores.topology.lint import lint
from wastedcores.topology.machine import Machine
from wastedcores.topology.presets import grid, preset

KERNELS = ("v4.1", "v4.1+group_construction", "v6.1")


def big_machine() -> Machine:
    """Return 8192 CPUs on 128 nodes in an 8 x 16 torus with three distances; SMT pairs are numbered as Linux does."""
    n = np.arange(128)
    dx = np.abs((n % 16)[:, None] - n % 16)
    dy = np.abs((n // 16)[:, None] - n // 16)
    hops = np.minimum(dx, 16 - dx) + np.minimum(dy, 8 - dy)
    distance = np.select([hops == 0, hops <= 2, hops <= 5], [10, 16, 22], 32)
    return grid(
        "torus128",
        packages=128,
        cores_per_llc=32,
        threads=2,
        distance=distance.tolist(),
        numbering="threads-last",
    )


def _best(function: Any, repeat: int) -> float:
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def _peak_mb(kernel: str) -> float:
    """Return the peak memory in MB of a separate process that builds the big machine once."""
    code = f"from benchmarks.bench_domains import peak; print(peak({kernel!r}))"
    return float(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
    )


def peak(kernel: str) -> float:
    """Build the big machine and return the peak memory of this process in MB."""
    build_domains(big_machine(), kernel).to_arrays()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _row(id_: str, name: str, value: float, unit: str, below: float, note: str) -> dict[str, Any]:
    return {
        "id": id_,
        "name": name,
        "value": value,
        "unit": unit,
        "goal": f"< {below:g}",
        "met": value < below,
        "note": note,
    }


def run() -> list[dict[str, Any]]:
    """Return the rows for RESULTS.md."""
    rows: list[dict[str, Any]] = []
    small, big = preset("bulldozer8x8"), big_machine()
    for kernel in KERNELS:
        small_ms = 1e3 * _best(lambda k=kernel: build_domains(small, k), 10)
        big_s = _best(lambda k=kernel: build_domains(big, k), 3)
        of_64, of_8192 = f"domains_64_{kernel}", f"domains_8192_{kernel}"
        torus = f"domains, 8192 CPUs on 128 nodes, {kernel}"
        peak_of = f"domains and their arrays, 8192 CPUs, peak memory, {kernel}"
        rows += [
            _row(of_64, f"domains, 64 CPUs, {kernel}", small_ms, "ms", 20, "best of 10"),
            _row(of_8192, torus, big_s, "s", 2, "best of 3"),
            _row(f"memory_8192_{kernel}", peak_of, _peak_mb(kernel), "MB", 4096, "whole process"),
        ]
    doms = build_domains(small, "v4.1")
    rows.append(
        {
            "id": "lint_64",
            "name": "lint, 64 CPUs, pinned to two nodes",
            "value": 1e3 * _best(lambda: lint(doms, list(range(8, 24))), 5),
            "unit": "ms",
            "goal": "-",
            "note": "best of 5",
        }
    )
    return rows
