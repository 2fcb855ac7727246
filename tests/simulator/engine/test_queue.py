"""The assumptions of the queues of future events, and times beyond those that their keys can hold."""

from __future__ import annotations

from support.random_runs import Case, difference

from wastedcores.kernels import KernelModel
from wastedcores.limits import LONGEST_NS
from wastedcores.simulator.engine.events.queue_jit import CPU_BITS, LAST_NS
from wastedcores.simulator.engine.world import table
from wastedcores.simulator.limits import MOST_CPUS
from wastedcores.topology.presets import grid
from wastedcores.workload import ops
from wastedcores.workload.program import Costs, Program, TaskSpec

MS = 1_000_000


def test_a_key_holds_every_cpu_and_every_time_before_the_end_of_a_replay():
    assert MOST_CPUS <= 1 << CPU_BITS
    assert table.EPOCH_NS + 1_000 * MS + LONGEST_NS < LAST_NS


def test_stretches_that_outlast_any_replay_agree_with_the_reference():
    """Two CPUs have stretches that end at different times, both later than the last that a key can hold."""
    tasks = []
    for cpu, length in enumerate((1 << 51, 1 << 58)):
        rows = ((ops.OP_COMPUTE, length, length, 0, 0), (ops.OP_EXIT, 0, 0, 0, 0))
        tasks.append(TaskSpec(f"long{cpu}", rows, 0, 0, None, cpu, 0, False))
    rows = (
        (ops.OP_COMPUTE, 3 * MS, 3 * MS, 0, 0),
        (ops.OP_SLEEP, MS, MS, 0, 0),
        (ops.OP_LOOP, 0, 0, -1, -1),
        (ops.OP_EXIT, 0, 0, 0, 0),
    )
    tasks.append(TaskSpec("short", rows, 0, 0, None, 0, 0, True))
    program = Program(tuple(tasks), (), (1024,), ())
    machine = grid("two", packages=1, nodes_per_package=1, cores_per_llc=2, threads=1)
    case = Case(machine, KernelModel.named("v4.1"), program, Costs(), 1, 60 * MS, True)
    assert not (text := difference(case)), text
