"""A database whose worker pools answer a query: what TPC-H looks like to a scheduler (paper 3.3).

A handful of container processes have some dozens of worker threads each, about one worker per CPU in total. A query is
a sequence of stages. In a stage every worker computes for about the same time and then sleeps until the last worker has
finished. On each CPU, a kernel thread runs for less than a millisecond now and then. The paper's experiment
had autogroups off. With autogroups on (footnote 4) each container process is an autogroup of its own, so workers of
different pools have different weights and a kernel thread weighs as much as a whole pool.

There are two generators. :func:`tpch` creates the workers when the query arrives; it is the scenario of the command
line. :func:`resident_pools` creates them long before the query, as in the paper; the studies use it. Both have stages
of 1.8 to 2.2 ms, like the recorded workload ``db64``. They differ in their kernel threads. ``tpch`` has the kernel threads of
``db64`` (100 to 500 us every 40 ms on each CPU, 1600 a second on 64 CPUs). But the paper says that kernel threads move a worker
"occasionally", with "nothing else on the machine". Therefore ``resident_pools`` has the kernel threads of the recorded idle
guests: each CPU has one kernel thread, which runs once a second (``vmstat_update()``, ``stat_interval``).
"""

from __future__ import annotations

from collections.abc import Sequence

from wastedcores.errors import WorkloadError
from wastedcores.topology.machine import Machine
from wastedcores.workload.background import MS, add_transients
from wastedcores.workload.builder import Measure, Workload
from wastedcores.workload.program import Program
from wastedcores.workload.script import Script

#: "a handful of container processes each provide several dozens of worker threads", 64 in all (paper 3.3, footnote 4)
POOLS = (28, 20, 16)
#: CPU time that the creation of a worker takes
CREATE_NS = 20_000
#: the time at which the frontend or the containers start
START_NS = 200 * MS

#: ``tpch``: range of the time for which a kernel thread computes
TPCH_NOISE_NS = (100_000, 500_000)

#: ``resident_pools``: mean work of one worker in a stage; workers differ by up to a tenth in both directions
STAGE_NS = 2 * MS
SPREAD = 0.1
#: the longest time for which a kernel thread computes ("less than a millisecond"), and its mean sleep
NOISE_NS = 1 * MS
NOISE_PERIOD_NS = 1_000 * MS
#: a container creates one worker per millisecond, and each worker first computes for LOAD_NS to fill its buffers. So a new
#: worker finds the earlier workers busy, and idle CPUs balance across the machine every 64 ms
CREATE_EVERY_NS = 1 * MS
LOAD_NS = 300 * MS
#: the number of stages after the measured stages, so that every pool still works while another pool is being measured
TAIL = 20


def tpch(
    machine: Machine,
    seed: int,
    *,
    pools: Sequence[int] = POOLS,
    together: bool = True,
    stages: int = 300,
    autogroups: bool = True,
    lo_us: int = 1800,
    hi_us: int = 2200,
    noise_period_ms: float = 40.0,
) -> Workload:
    """Make a query whose workers are created when it arrives."""
    w = Workload("tpch", Measure("db_s", "query start", "query end", "worker"))
    barriers = _barriers(w, pools, together, stages)
    if noise_period_ms:
        add_transients(w, machine, round(noise_period_ms * MS), *TPCH_NOISE_NS)
    front = Script().mark("query start")
    for workers, meet in zip(pools, barriers, strict=True):
        worker = w.template("worker", _stages(Script(), stages, (lo_us * 1000, hi_us * 1000), meet))
        session = w.session() if autogroups else None
        front.loop(workers).compute(CREATE_NS).fork(worker, session).end()
    front.wait_children(0).mark("query end")
    w.task("frontend", front, cpu=seed * 7 % machine.cpus, start_ns=START_NS)
    return w


def resident_pools(
    machine: Machine,
    seed: int,
    *,
    pools: Sequence[int],
    together: bool,
    stages: int,
    autogroups: bool = False,
    stage_ns: int = STAGE_NS,
    noise_ns: int = NOISE_NS,
    noise_period_ns: int = NOISE_PERIOD_NS,
    pin: bool = False,
) -> Program:
    """Make a query for workers that have existed for a long time.

    Each worker was created while the other workers computed. The measured part therefore begins with "8 threads" on each node
    of 8 CPUs and all "cores busy" (the authors' slides). The first worker of pool ``i`` writes the marks
    ``query start i`` and ``query end i``.
    """
    w = Workload("database")
    barriers = _barriers(w, pools, together, stages)
    add_transients(w, machine, noise_period_ns, 1, noise_ns)
    work = round(stage_ns * (1 - SPREAD)), round(stage_ns * (1 + SPREAD))
    for i, (workers, meet) in enumerate(zip(pools, barriers, strict=True)):
        session = w.session() if autogroups else 0
        container = Script()
        first = sum(pools[:i])
        # each pinned worker has its own template; workers that are not pinned share two: one for the worker that writes the
        # marks, and one for all others
        counts = [1] * workers if pin else [1, workers - 1]
        for j, count in enumerate(counts):
            if not count:
                continue
            marks = j == 0
            body = Script().compute(LOAD_NS).barrier(meet, "block")
            if marks:
                body.mark(f"query start {i}")
            _stages(body, stages, work, meet)
            if marks:
                body.mark(f"query end {i}")
            home = [(first + j) % machine.cpus] if pin else None
            worker = w.template("worker", _stages(body, TAIL, work, meet), home)
            container.loop(count).compute(CREATE_NS).fork(worker).sleep(CREATE_EVERY_NS).end()
        w.task(
            f"container/{i}",
            container.wait_children(0),
            session=session,
            cpu=(seed * 7 + i * 11) % machine.cpus,
            start_ns=START_NS,
        )
    return w.program()


def _barriers(w: Workload, pools: Sequence[int], together: bool, stages: int) -> list[int]:
    """Make a barrier for each pool, or one barrier for all pools if they work together."""
    if not pools or min(pools) < 1 or stages < 1:
        raise WorkloadError(
            f"{w.name}: expected pools of workers and stages, got pools {'+'.join(map(str, pools)) or 'none'} and "
            f"{stages} stages."
        )
    if together:
        return [w.barrier(sum(pools))] * len(pools)
    return [w.barrier(workers) for workers in pools]


def _stages(script: Script, count: int, work_ns: tuple[int, int], meet: int) -> Script:
    """Add ``count`` stages: compute, then sleep at the barrier until the last worker arrives."""
    return script.loop(count).compute(*work_ns).barrier(meet, "block").end()
