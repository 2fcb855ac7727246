"""A program that starts threads on an idle machine (Sites, Anomalies in Linux Processor Use, Figure 3)."""

from __future__ import annotations

from wastedcores.errors import WorkloadError
from wastedcores.topology.machine import Machine
from wastedcores.workload.builder import Creation, Measure, Workload
from wastedcores.workload.script import Script

MS = 1_000_000
#: the machine is idle for this time before the program begins, so that every CPU is in its deepest idle state
QUIET_NS = 20 * MS
START, END = "clones start", "clones end"


def clones(machine: Machine, seed: int, threads: int = 7, work_ms: float = 5.0) -> Workload:
    """Start some threads one after the other. Each thread first contends with its creator for the process's mmap_sem."""
    if not 1 <= threads <= 64 or work_ms <= 0:
        raise WorkloadError(
            f"threads={threads} with {work_ms} ms of work; expected 1 to 64 threads and more than 0 ms."
        )
    w = Workload("clones", Measure("clones_s", START, END))
    creation = Creation(w)
    done = w.semaphore()
    main = Script().sleep(QUIET_NS).affinity(range(machine.cpus)).mark(START)
    for i in range(threads):
        body = Script().mark(f"thread {i} computes").compute(round(work_ms * MS)).post(done)
        creation.create(main, creation.template(f"clone-{i}", body))
    for _ in range(threads):
        main.wait(done, "block")
    w.task("main", main.mark(END), allowed=[0], cpu=0)
    return w
