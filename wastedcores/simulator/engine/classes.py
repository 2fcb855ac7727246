"""What each generation of kernels, each design and each kind of machine consists of: the functions in its structs of addresses.

v4.1 is what is called directly. Everything else is imported here when a replay needs it, so that a replay of v4.1 neither
compiles nor loads it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wastedcores.jit.plain import Plain
from wastedcores.jit.units import install
from wastedcores.simulator.engine.world.class_structs import (
    Balancer,
    ClockFunctions,
    CoreModule,
    FairClass,
    RtClass,
)

Functions = dict[str, Callable[..., Any]]


def modern(row: np.ndarray, structure: str, plain: Plain | None) -> None:
    """Write the functions of a modern kernel into the row of its globals."""
    fair, balancer = STRUCTURES[structure]
    install(row, FairClass, fair(), plain)
    install(row, Balancer, balancer(), plain)


def _eevdf() -> Functions:
    from wastedcores.simulator.engine.fair import eevdf_class_jit as fair
    from wastedcores.simulator.engine.fair import pelt_v6_12_jit as pelt
    from wastedcores.simulator.engine.fair import signals_v6_12_jit as signals

    return {
        "enqueue_task": fair.enqueue_task_fair,
        "dequeue_task": fair.dequeue_task_fair,
        "pick_next_task": fair.pick_next_task,
        "put_prev_task": fair.put_prev_task,
        "task_tick": fair.task_tick,
        "wakeup_preempt": fair.wakeup_preempt,
        "wakeup_preempt_new": fair.wakeup_preempt_new,
        "task_fork": fair.task_fork,
        "post_init_entity_util_avg": fair.post_init_entity_util_avg,
        "set_user_nice": fair.set_user_nice,
        "yield_task": fair.yield_task,
        "task_change_group": fair.move_group,
        "wake_delayed": fair.wake_delayed,
        "migrate_task_rq": signals.migrate_task,
        "pick_task": fair.pick_task_fair,
        "set_picked": fair.set_picked,
        "rq_offline": fair.leave_groups,
        "task_dead": signals.remove_entity_load_avg,
        "online_sched_group": pelt.online_sched_group,
    }


def _cfs_v6_1() -> Functions:
    from wastedcores.simulator.engine.fair import cfs_jit
    from wastedcores.simulator.engine.fair import cfs_v6_1_class_jit as fair
    from wastedcores.simulator.engine.fair import pelt_v6_12_jit as pelt
    from wastedcores.simulator.engine.fair import signals_v6_12_jit as signals

    return {
        "enqueue_task": fair.enqueue_task_fair,
        "dequeue_task": fair.dequeue_task_fair,
        "pick_next_task": fair.pick_next_task,
        "put_prev_task": fair.put_prev_task,
        "task_tick": fair.task_tick,
        "wakeup_preempt": cfs_jit.check_preempt_wakeup,
        "wakeup_preempt_new": cfs_jit.check_preempt_wakeup,
        "task_fork": fair.task_fork,
        "post_init_entity_util_avg": fair.post_init_entity_util_avg,
        "set_user_nice": fair.set_user_nice,
        "yield_task": fair.yield_task,
        "task_change_group": fair.move_group,
        "wake_delayed": fair.never,
        "migrate_task_rq": fair.leave_cpu,
        "pick_task": fair.pick_task_fair,
        "set_picked": fair.set_picked,
        "rq_offline": fair.rq_offline,
        "task_dead": signals.remove_entity_load_avg,
        "online_sched_group": pelt.online_sched_group,
    }


def _balancer() -> Functions:
    from wastedcores.simulator.engine.balance import (
        idle_sibling_v6_12_jit,
        load_balance_v6_12_jit,
        nohz_v6_12_jit,
        placement_v6_12_jit,
        rebalance_domains_v6_12_jit,
    )

    return {
        "booted": nohz_v6_12_jit.booted,
        "attached": nohz_v6_12_jit.attached,
        "select_task_rq": placement_v6_12_jit.select_task_rq_fair,
        "newidle_balance": rebalance_domains_v6_12_jit.idle_balance,
        "trigger_load_balance": nohz_v6_12_jit.trigger_load_balance,
        "run_rebalance_domains": nohz_v6_12_jit.run_rebalance,
        "kick_arrives": nohz_v6_12_jit.kick_arrives,
        "active_load_balance": load_balance_v6_12_jit.active_load_balance,
        "enters_idle": nohz_v6_12_jit.enters_idle,
        "update_idle_core": idle_sibling_v6_12_jit.update_idle_core,
        "nohz_balance_enter_idle": nohz_v6_12_jit.nohz_enter,
        "idle_cpu_woken": rebalance_domains_v6_12_jit.update_wakeup_idle,
        "leaves": nohz_v6_12_jit.leaves,
    }


#: the functions of modern kernels, by what rules.py calls their structure: the fair class and the balancer
STRUCTURES: dict[str, tuple[Callable[[], Functions], Callable[[], Functions]]] = {
    "CFS": (_cfs_v6_1, _balancer),
    "EEVDF": (_eevdf, _balancer),
}


def realtime(row: np.ndarray, plain: Plain | None) -> None:
    """Write the functions of the real-time class (v4.1) into the row of what its queues share."""
    from wastedcores.simulator.engine.realtime import class_jit, queue_jit

    install(
        row,
        RtClass,
        {
            "enqueue_task": queue_jit.enqueue_rt,
            "dequeue_task": queue_jit.dequeue_rt,
            "pick_next_task": class_jit.pick_rt,
            "put_prev_task": queue_jit.put_prev,
            "task_tick": queue_jit.tick_rt,
            "select_task_rq": class_jit.select_task_rq_rt,
            "check_preempt_curr": class_jit.check_preempt_rt,
            "task_woken": class_jit.woken_rt,
            "yield_task": class_jit.yield_task_rt,
            "post_schedule": class_jit.post_schedule,
            "period_timer": queue_jit.period,
            "set_policy": class_jit.set_policy,
            "task_born": class_jit.born,
            "rq_offline": class_jit.offline,
        },
        plain,
    )


def design(row: np.ndarray, plain: Plain | None) -> None:
    """Write the functions of the core module into its row."""
    from wastedcores.simulator.engine.design import core_jit

    functions: Functions = {
        "select_cpu": core_jit.select,
        "pull": core_jit.pull,
        "task_tick": core_jit.tick,
        "settle": core_jit.settle,
    }
    install(row, CoreModule, functions, plain)


def clocks(row: np.ndarray, plain: Plain | None) -> None:
    """Write the functions of the clocks into the row of their constants."""
    from wastedcores.simulator.engine.clocks import clocks_jit

    functions: Functions = {"switched": clocks_jit.switched, "ticked": clocks_jit.ticked}
    install(row, ClockFunctions, functions, plain)
