"""Workloads: tasks as small programs, generators of common workloads, and the recorded workloads.

Interface::

    w = Workload("mine")                        tasks, barriers, locks, semaphores, sessions, hotplug
    w.task("t", Script().compute(1_000_000))    a task and its script, one operation after the other
    background.add_hogs(w, 2)                   hogs like R; add_kworkers and add_transients: kernel threads
    make.add_make(w, jobs=500, parallel=64)     make -j64
    hackbench.hackbench(machine, seed, groups=10)
    database.tpch(machine, seed, pools=(28, 20, 16))
    spmd.spmd(machine, seed, kind="pipeline")   parallel programs like NPB's: barrier, lock, pipeline, none
    rtapp.read_rtapp("file.json", machine)      a workload written for rt-app
    recorded.recorded_gi(machine, seed)         the workloads of the recordings
"""

from wastedcores.workload.builder import Measure, Workload
from wastedcores.workload.program import GUEST, Costs, Program, TaskSpec
from wastedcores.workload.script import Script

__all__ = ["GUEST", "Costs", "Measure", "Program", "Script", "TaskSpec", "Workload"]
