"""A database whose worker pools have been there for long, in the middle of a query (paper 3.3).

A handful of container processes each have some dozens of worker threads, one a CPU in all. They are there long before
the query: each was created while the others computed, so the measured part begins with "8 threads" on each node of
8 CPUs, "cores busy" (the authors' slides). Then comes a row of stages; in a stage every worker computes about as long
as the others and sleeps until the last is ready. A kernel thread on each CPU runs for less than a millisecond now and
then. The paper's experiment had autogroups off; with them on (footnote 4) each container process is an autogroup of
its own: workers of different pools weigh differently, and a kernel thread weighs as much as a whole pool.

Stages of 1.8-2.2 ms are those of the recorded workload ``db64``. How often kernel threads run is not: the paper has
them move a worker "occasionally", with "nothing else on the machine", where db64 has 1600 a second. On the recorded
idle guests one runs on each CPU once a second (``vmstat_update()``, ``stat_interval``). ``workload/tpch.py`` is the
plainer generator of the command line: its pools are born with the query.
"""

from __future__ import annotations

from wastedcores.errors import WorkloadError
from wastedcores.topology.machine import Machine
from wastedcores.workload.background import MS, add_transients
from wastedcores.workload.builder import Workload
from wastedcores.workload.program import Program
from wastedcores.workload.script import Script

#: middle of the work of one worker in a stage; workers differ by a tenth either way
STAGE_NS = 2 * MS
SPREAD = 0.1
#: the longest that a kernel thread works: "less than a millisecond"
NOISE_NS = 1 * MS
#: and how long it sleeps on average
NOISE_PERIOD_NS = 1_000 * MS
#: a container makes a worker each millisecond, and each fills its buffers for so long: idle CPUs look for work at the
#: level of the machine every 64 ms
CREATE_NS = 1 * MS
LOAD_NS = 300 * MS
#: stages that go on after the measured ones, so that no pool's window sees another pool gone
TAIL = 20


def database(
    machine: Machine,
    seed: int,
    *,
    pools: tuple[int, ...],
    together: bool,
    stages: int,
    autogroups: bool = False,
    stage_ns: int = STAGE_NS,
    noise_ns: int = NOISE_NS,
    noise_period_ns: int = NOISE_PERIOD_NS,
) -> Program:
    """One query; the first worker of pool i marks ``query start i`` and ``query end i``.

    Parameters
    ----------
    machine, seed
        Where; the seed decides on which CPUs the containers start.
    pools
        Workers of each container process.
    together
        Whether all pools wait for each other at the end of a stage, or each only for its own workers.
    stages
        How many between the marks.
    autogroups
        Whether each container process is in an autogroup of its own, or all are in the root group.
    stage_ns, noise_ns, noise_period_ns
        As :data:`STAGE_NS`, :data:`NOISE_NS` and :data:`NOISE_PERIOD_NS`.

    Raises
    ------
    WorkloadError
        No pool, an empty pool or no stage.
    """
    if not pools or min(pools) < 1 or stages < 1:
        raise WorkloadError(
            f"database: expected pools of workers and stages, got {pools} and {stages}"
        )
    w = Workload("database")
    add_transients(w, machine, noise_period_ns, 1, noise_ns)
    work = round(stage_ns * (1 - SPREAD)), round(stage_ns * (1 + SPREAD))
    everybody = w.barrier(sum(pools)) if together else None
    for i, workers in enumerate(pools):
        meet = everybody if everybody is not None else w.barrier(workers)
        session = w.session() if autogroups else 0
        container = Script()
        for first, count in ((True, 1), (False, workers - 1)):
            if not count:
                continue
            body = Script().compute(LOAD_NS).barrier(meet, "block")
            if first:
                body.mark(f"query start {i}")
            body.loop(stages).compute(*work).barrier(meet, "block").end()
            if first:
                body.mark(f"query end {i}")
            body.loop(TAIL).compute(*work).barrier(meet, "block").end()
            worker = w.template("worker", body)
            container.loop(count).compute(20_000).fork(worker).sleep(CREATE_NS).end()
        w.task(
            f"container/{i}",
            container.wait_children(0),
            session=session,
            cpu=(seed * 7 + i * 11) % machine.cpus,
            start_ns=200 * MS,
        )
    return w.program()
