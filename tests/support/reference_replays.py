"""A recording's workload replayed by the plain-Python reference, and the quantities that are compared with the recording."""

from __future__ import annotations

import numpy as np

from wastedcores.kernels import KernelModel
from wastedcores.recordings.quantities import Observed, Quantity, quantities, unhelped
from wastedcores.recordings.recording import HOG, KINDS, Recording
from wastedcores.simulator.booted import as_booted
from wastedcores.simulator.reference import Kernel, Simulation
from wastedcores.simulator.simulate import costs_of, with_steps
from wastedcores.topology.domains import domain_events

_PLACED = ("switch", "wakeup", "wakeup_new", "migrate", "exit")


def replayed(recording: Recording, kernel: KernelModel, seed: int) -> dict[str, Quantity]:
    """Return what ``Recording.replayed()`` measures with the compiled engine."""
    machine, workload = recording.machine, recording.workload(seed)
    program = as_booted(workload.program(), machine, kernel)
    trees = domain_events(with_steps(machine, program), kernel)
    k = Kernel(machine, kernel, trees, costs=costs_of(machine))
    run = Simulation(k, program, seed)
    run.run(60_000_000_000)
    columns = [(e, dict(e.columns)) for e in k.log if e.kind in (*_PLACED, "mark")]
    marks = {c["text"]: e.ts_ns for e, c in columns if e.kind == "mark"}
    rows = [(e.ts_ns, c["cpu"], c["pid"]) for e, c in columns if e.kind != "mark"]
    kinds = np.array([e.kind for e, _ in columns if e.kind != "mark"])

    def called(prefix: str) -> list[int]:
        return [task.pid for task in run.tasks if task.comm.startswith(prefix)]

    measure = workload.measure
    start, end = marks[measure.start], marks.get(measure.end, k.log[-1].ts_ns)
    seconds = (end - start) / 1e9
    units = [t.progress.units[0] for t in run.tasks if t.comm.startswith(measure.of)]
    value = seconds
    if measure.name == "cpus_of_work":
        value = sum(units) * measure.unit_ns / 1e9 / seconds
    elif measure.name == "s_per_iter":
        value = seconds / max(units)
    seen = Observed(
        *np.array(rows, np.int64).T,
        kinds == "switch",
        kinds == "exit",
        start,
        end,
        called(KINDS[recording.kind].replayed),
        called(HOG),
        Quantity(value, recording.result.unit),
    )
    lengths = [(e.ts_ns, *dict(e.columns).values()) for e in k.log if e.kind == "nr_running"]
    ts, on, nr = np.array([row[:3] for row in lengths], np.int64).T
    found = quantities(seen, recording.kind, machine, recording.pinned)
    return found | unhelped(ts, on, nr, machine.cpus, start, end)
