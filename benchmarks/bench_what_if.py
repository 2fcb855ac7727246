"""Recovering the work of a trace, and predicting what fixes would gain."""

from __future__ import annotations

import time

import wastedcores as wc
from wastedcores.recovery import recover
from wastedcores.simulator import replay
from wastedcores.topology.machine import Machine
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


def run() -> list[dict]:
    """Measure both."""
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
    ]  # fmt: skip
