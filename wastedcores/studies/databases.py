"""A database's worker pools: what TPC-H looks like to a scheduler (paper 3.3).

A handful of container processes each have some dozens of worker threads, one a CPU in all. A query is a row of stages;
in a stage every worker computes about as long as the others and then sleeps until the last is ready. Kernel threads
run for less than a millisecond now and then, one on each CPU. The paper's experiment had autogroups off; with them on
(footnote 4) each container process is an autogroup of its own: workers of different pools weigh differently, and a
kernel thread weighs as much as a whole pool.

The times are those of the recorded workload ``db64``: stages of 1.8-2.2 ms, noise of 100-500 us every 40 ms a CPU.
"""

from __future__ import annotations

from wastedcores.errors import WorkloadError
from wastedcores.topology.machine import Machine
from wastedcores.workload.builder import Script, Workload
from wastedcores.workload.program import Program

MS = 1_000_000
#: work of one worker in a stage
STAGE_NS = (1_800_000, 2_200_000)
#: how long a kernel thread works, and sleeps on average
NOISE_NS = (100_000, 500_000)
NOISE_PERIOD_NS = 40 * MS


def database(
    machine: Machine,
    seed: int,
    *,
    pools: tuple[int, ...],
    together: bool,
    stages: int,
    autogroups: bool = False,
) -> Program:
    """One query.

    Parameters
    ----------
    machine, seed
        Where; the seed decides on which CPU the query arrives.
    pools
        Workers of each container process.
    together
        Whether all pools wait for each other at the end of a stage, or each only for its own workers.
    stages
        How many.
    autogroups
        Whether each container process is in an autogroup of its own, or all are in the root group.

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
    noise = Script().loop().sleep_exponential(NOISE_PERIOD_NS, 8 * NOISE_PERIOD_NS)
    noise.compute(*NOISE_NS).end()
    for cpu in range(machine.cpus):
        w.task(f"noise/{cpu}", noise, allowed=[cpu], cpu=cpu, daemon=True)
    front = Script().mark("query start")
    everybody = w.barrier(sum(pools)) if together else None
    for workers in pools:
        meet = everybody if everybody is not None else w.barrier(workers)
        body = Script().loop(stages).compute(*STAGE_NS).barrier(meet, "block").end()
        worker = w.template("worker", body)
        session = w.session() if autogroups else None
        front.loop(workers).compute(20_000).fork(worker, session).end()
    front.wait_children(0).mark("query end")
    w.task("frontend", front, cpu=seed * 7 % machine.cpus, start_ns=200 * MS)
    return w.program()
