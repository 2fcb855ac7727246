"""Recovering the work of a trace, predicting what fixes would gain, the critical path, and explaining a large machine."""

from __future__ import annotations

import time

import polars as pl

import wastedcores as wc
from wastedcores.recovery import recover
from wastedcores.simulator import replay
from wastedcores.topology.machine import Machine
from wastedcores.topology.presets import grid
from wastedcores.trace.header import CpusetFacts, Header
from wastedcores.trace.schema import conform
from wastedcores.trace.trace import Trace
from wastedcores.workload.recorded.workloads import recorded_db

KINDS = ("switch", "wakeup", "wakeup_new", "migrate", "fork", "exit", "mark")
SEEDS = 20


#: rounds of the database that make a million events
MILLION = 4850


def database(iterations: int) -> Trace:
    """Return a trace of task events: a database on 64 CPUs."""
    machine = Machine.preset("bd-paper-64")
    trace = replay(recorded_db(machine, 1, iterations=iterations), machine, load=False).trace
    events = trace.only(*KINDS).collect()
    return Trace(events.lazy(), trace.header.model_copy(update={"events": events.height}))


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
    """Measure all of it."""
    recover(wc.open_trace(wc.fetch("group-construction-buggy")))  # compiles
    trace = database(MILLION)
    began = time.perf_counter()
    found = recover(trace)
    took = time.perf_counter() - began
    recorded = wc.open_trace(wc.fetch("overload-on-wakeup-buggy"))
    wc.whatif(recorded, to=["core"], seeds=1)
    began = time.perf_counter()
    answer = wc.whatif(recorded, seeds=SEEDS)
    whole = time.perf_counter() - began
    note = f"{trace.header.events:,} events, {found.sleeps:,} sleeps"
    variants = f"{len(answer.variants)} variants and itself, {SEEDS} seeds each"
    return [
        {
            "id": "recover", "name": "recover the work of a million events", "value": took, "unit": "s", "goal": "< 3",
            "met": took < 3, "note": note,
        },
        {
            "id": "whatif", "name": "what if, overload-on-wakeup-buggy", "value": whole, "unit": "s", "goal": "< 60",
            "met": whole < 60, "note": variants,
        },
        path_row(),
        explain_row(),
    ]  # fmt: skip
