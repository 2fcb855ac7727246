"""The machine and its tasks at the beginning of a replay (docs/replay-semantics.md, section 7)."""

from __future__ import annotations

import numpy as np

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.core.hotplug_jit import attach_domains, booted_capacity
from wastedcores.simulator.engine.core.schedule_jit import enter_nohz
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.fair.load_jit import jiffies
from wastedcores.simulator.engine.fair.pelt_v4_4_jit import new_entity
from wastedcores.simulator.engine.tasks.lifecycle_jit import new_task
from wastedcores.simulator.engine.world import table
from wastedcores.simulator.engine.world.random_jit import draw, stream
from wastedcores.simulator.engine.world.rows_jit import balancer, cpu_cfs_rq, cpu_rq, fair_class
from wastedcores.simulator.engine.world.structs import (
    NO_ENTITY,
    NO_TASK,
    CfsRq,
    HotplugStep,
    Kernel,
    RandomState,
    Rq,
    SchedEntity,
    TaskGroup,
    TaskStruct,
)


@apart(VALUE, entry=True)
def start_state(k: Kernel) -> int:
    """Boot the machine, and return how far into a tick the workload begins, in ns (docs/replay-semantics.md, section 7)."""
    n = k.nr_cpus
    k.now_ns = table.EPOCH_NS
    k.jiffies = table.EPOCH_NS // k.tick_ns
    rng = RandomState(k, k.scratch + 5)
    rng.state = stream(k.seed, -1)
    for cpu in range(n):
        cpu_rq(k, cpu).cpu_capacity = 1024
        cpu_rq(k, cpu).cpu_capacity_orig = 1024
    attach_domains(k, 0, 0)
    booted_capacity(k)
    for cpu in range(n):
        for column in (Rq.curr, Rq.cfs_tasks, Rq.cfs_tasks_tail, Rq.wake_list, Rq.push_cpu):
            k[cpu, column] = -1
        cpu_rq(k, cpu).avg_idle = 1_000_000
        cpu_rq(k, cpu).max_idle_balance_cost = 500_000
        cpu_rq(k, cpu).last_load_update_tick = jiffies(k)
        cpu_rq(k, cpu).tick_stopped = 1
        cpu_rq(k, cpu).idle_stamp = 1 + np_mod(draw(k, rng), table.EPOCH_NS - 1)
        enter_nohz(k, cpu)
    if k.is_modern != 0:
        balancer(k).booted(k)
    for tg in range(k.task_groups):
        TaskGroup(k, k.task_group0 + tg).shares = 1024
        for cpu in range(n):
            q = CfsRq(k, k.cfs_rq0 + tg * n + cpu)
            for column in (
                CfsRq.curr,
                CfsRq.next,
                CfsRq.last,
                CfsRq.skip,
                CfsRq.leftmost,
                CfsRq.rightmost,
                CfsRq.last_h_load_update,
            ):
                q[column] = -1
            q.cpu = cpu
            q.task_group = TaskGroup(k, k.task_group0 + tg)
            q.decay_counter = 1
            q.last_decay = table.EPOCH_NS >> 20
            q.entity = NO_ENTITY
            q.zero_vruntime = -(1 << 20)
            if tg > 0:
                se = SchedEntity(k, k.entity0 + tg * n + cpu)
                q.entity = se
                se.cfs_rq = cpu_cfs_rq(k, cpu)
                se.my_q = q
                se.parent = NO_ENTITY
                se.weight = 1 << 20 if k.is_modern != 0 else 1024
                se.inv_weight = 4194304
                if k.load_v4_4 != 0:
                    new_entity(k, se)
                if k.is_modern != 0:
                    fair_class(k).online_sched_group(k, se)
    return np_mod(draw(k, rng), k.tick_ns)


@inner
def np_mod(value, n):
    """Return ``value % n`` of an unsigned draw as a signed number."""
    return int(np.int64(value % np.uint64(n)))


@apart(NOTHING, entry=True)
def add_top(k: Kernel, template: int, group: int, cpu: int, at_ns: int) -> None:
    """Make a top-level task that starts on ``cpu`` at ``at_ns`` (engine time)."""
    p = new_task(k, template, NO_TASK, group)
    p.cpu = cpu
    k.timers += 1
    queue_jit.push(k, (p.row << table.SHIFT) + TaskStruct.timer, at_ns)


@apart(NOTHING, entry=True)
def add_step(k: Kernel, step: int, at_ns: int) -> None:
    """Plan a hotplug step for ``at_ns`` (engine time)."""
    k.timers += 1
    queue_jit.push(k, ((k.step0 + step) << table.SHIFT) + HotplugStep.event, at_ns)
