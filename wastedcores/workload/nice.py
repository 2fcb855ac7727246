"""Threads of different nice values that share one CPU, as recorded on guests of two CPUs."""

from __future__ import annotations

from wastedcores.errors import WorkloadError
from wastedcores.topology.machine import Machine
from wastedcores.workload.builder import Measure, Workload
from wastedcores.workload.script import Script

#: time from one fork to the next, as recorded
_FORK_NS = (40_000, 52_000)
_SECOND = 1_000_000_000
#: a thread sets its nice value after so long
_NICE_NS = 10_000


def recorded_nice(
    machine: Machine, seed: int, nice: str = "0,0,5,10,-5", seconds: int = 3
) -> Workload:
    """Make threads that compute on one CPU for some time; the result is the share of the first.

    A thread on the machine's last CPU forks them there and then leaves for CPU 0. Each sets its nice value when it first runs.
    """
    if machine.cpus < 2:
        raise WorkloadError(
            "needs a machine of two CPUs: one for the threads, one for their creator."
        )
    try:
        values = [int(value) for value in nice.split(",")]
    except ValueError:
        raise WorkloadError(
            f"nice={nice}; expected whole numbers from -20 to 19 with commas in between, such as 0,0,5."
        ) from None
    cpu = machine.cpus - 1
    w = Workload("recorded-nice", Measure("share_of_first", "start", "end", of="n"))
    creator = Script().mark("start")
    for i, value in enumerate(values):
        body = Script().compute(_NICE_NS).nice(value).loop().compute(_SECOND).end()
        thread = w.template(f"n{value}-{i}", body, daemon=True)
        creator.compute(*_FORK_NS).fork(thread, thread=True)
    creator.affinity([0]).sleep(seconds * _SECOND).mark("end")
    w.task("creator", creator, allowed=[cpu], cpu=cpu)
    return w
