"""The critical path of a long trace, and the explanation of a large machine."""

from __future__ import annotations

import time

import polars as pl

import wastedcores as wc
from benchmarks.bench_what_if import MILLION, database
from wastedcores.topology.presets import grid
from wastedcores.trace.header import CpusetFacts, Header
from wastedcores.trace.schema import conform
from wastedcores.trace.trace import Trace


def path_row() -> dict:
    """Measure the critical path of ten million events."""
    trace = database(10 * MILLION)
    wc.critical_path(wc.open_trace(wc.fetch("overload-on-wakeup-buggy")))  # compiles
    began = time.perf_counter()
    found = wc.critical_path(trace)
    took = time.perf_counter() - began
    note = f"{trace.header.events:,} events, {found.segments.height:,} segments"
    return {
        "id": "path", "name": "critical path of ten million events", "value": took, "unit": "s", "goal": "< 10",
        "met": took < 10, "note": note,
    }  # fmt: skip


def explain_row() -> dict:
    """Measure the explanation of a machine with 1024 CPUs, half of them idle, and 128 cpusets."""
    cpus = 1024
    distance = [[10 if i == j else 16 for j in range(16)] for i in range(16)]
    machine = grid("16 nodes", packages=16, cores_per_llc=32, threads=2, distance=distance)
    lengths = [(0, c, 0 if c < cpus // 2 else 3) for c in range(cpus)] + [(300_000_000, 0, 0)]
    events = pl.DataFrame(lengths, schema=["ts_ns", "cpu", "nr_running"], orient="row")
    sets = [CpusetFacts(path="/", cpus=f"0-{cpus - 1}", load_balance=False)] + [
        CpusetFacts(path=f"/{c}", cpus=f"{c}-{c + 7}", load_balance=True) for c in range(0, cpus, 8)
    ]
    header = Header(source_format="test", cpus=cpus, start_ns=0, end_ns=300_000_000, cpusets=sets)
    table = conform(events.with_columns(kind=pl.lit("nr_running")), "benchmark")
    result = wc.check(Trace(table.lazy(), header))
    began = time.perf_counter()
    found = wc.explain(result, machine, "v4.1")
    took = time.perf_counter() - began
    note = f"{found.pairs.height:,} pairs of CPUs, {len(sets)} cpusets: {found.looks_like}"
    return {
        "id": "explain_1024", "name": "explain, 1024 CPUs with cpusets", "value": took, "unit": "s", "goal": "-",
        "note": note,
    }  # fmt: skip


def run() -> list[dict]:
    """Measure both."""
    return [path_row(), explain_row()]
