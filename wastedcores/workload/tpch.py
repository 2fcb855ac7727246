"""A database's worker pools: what TPC-H looks like to a scheduler (paper 3.3).

A handful of container processes each have some dozens of worker threads, one a CPU in all. A query is a row of stages;
in a stage every worker computes about as long as the others and then sleeps until the last is ready. Kernel threads
run for less than a millisecond now and then, one on each CPU. The paper's experiment had autogroups off; with them on
(footnote 4) each container process is an autogroup of its own: workers of different pools weigh differently, and a
kernel thread weighs as much as a whole pool.

The times are those of the recorded workload ``db64``: stages of 1.8-2.2 ms, noise of 100-500 us every 40 ms a CPU.
"""

from __future__ import annotations

from collections.abc import Sequence

from wastedcores.errors import WorkloadError
from wastedcores.topology.machine import Machine
from wastedcores.workload.background import MS, add_transients
from wastedcores.workload.builder import Measure, Workload
from wastedcores.workload.script import Script

#: "a handful of container processes each provide several dozens of worker threads", 64 in all (paper 3.3, footnote 4)
POOLS = (28, 20, 16)
#: how long a kernel thread works
NOISE_NS = (100_000, 500_000)
#: the frontend starts a worker
START_NS = 20_000


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
    lo_us, hi_us
        Work of one worker in a stage, in us, drawn uniformly.
    noise_period_ms
        Mean sleep of a kernel thread, in ms; 0: there are none.

    Raises
    ------
    WorkloadError
        No pool, an empty pool or no stage; a time below 0.
    """
    if not pools or min(pools) < 1 or stages < 1:
        raise WorkloadError(
            f"tpch: expected pools of workers and stages, got pools {'+'.join(map(str, pools)) or 'none'} and "
            f"{stages} stages"
        )
    w = Workload("tpch", Measure("db_s", "query start", "query end", "worker"))
    if noise_period_ms:
        add_transients(w, machine, round(noise_period_ms * MS), *NOISE_NS)
    front = Script().mark("query start")
    everybody = w.barrier(sum(pools)) if together else None
    for workers in pools:
        meet = everybody if everybody is not None else w.barrier(workers)
        body = Script().loop(stages).compute(lo_us * 1000, hi_us * 1000).barrier(meet, "block")
        worker = w.template("worker", body.end())
        session = w.session() if autogroups else None
        front.loop(workers).compute(START_NS).fork(worker, session).end()
    front.wait_children(0).mark("query end")
    w.task("frontend", front, cpu=seed * 7 % machine.cpus, start_ns=200 * MS)
    return w
