"""Why a task that may move stays on its CPU: can_migrate_task() and task_hot() (kernel/sched/fair.c, v6.12.107 and v6.18.15)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.balance.load_balance_v4_1_jit import MIGRATION_COST
from wastedcores.simulator.engine.codes import sd_flag
from wastedcores.simulator.engine.fair.eevdf_jit import eligible
from wastedcores.simulator.engine.world import (
    cfs_rq,
    domain,
    eevdf,
    entity,
    lb_env,
    rq,
    sim,
    task,
    v6_12,
)
from wastedcores.simulator.engine.world.rules_jit import rule


@inner
def held_back(m, p, env):
    """can_migrate_task(), task_is_ineligible_on_dst_cpu(): return whether a task is left where it is, whatever its affinity.

    A sleeper that is still queued is moved only to move load. A task that had more than its share is moved after an attempt that
    failed, or to a queue that is empty.
    """
    if m[p, eevdf.SCHED_DELAYED] != 0 and m[env, lb_env.MIGRATION] != lb_env.BY_LOAD:
        if not rule(m, v6_12.SLEEPERS_PULLED):
            return True
    if not rule(m, v6_12.INELIGIBLE_WAIT) or m[m[env, lb_env.SD], domain.NR_BALANCE_FAILED] != 0:
        return False
    there = m[0, sim.CFS_RQ0] + m[p, task.GROUP] * m[0, sim.CPUS] + m[env, lb_env.DST_CPU]
    return m[there, cfs_rq.NR_RUNNING] != 0 and eligible(m, m[p, entity.CFS_RQ], p) == 0


@inner
def task_hot(m, p, env):
    """task_hot(): return whether a task ran so recently that its cache is probably still warm."""
    if m[m[env, lb_env.SD], domain.FLAGS] & sd_flag.SHARE_CPUCAPACITY:
        return False
    q = m[p, entity.CFS_RQ]
    buddy = m[q, cfs_rq.NEXT] == p or m[q, cfs_rq.LAST] == p  # EEVDF has no last buddy
    if m[m[env, lb_env.DST_CPU], rq.NR_RUNNING] > 0 and buddy:
        return True
    return m[0, sim.NOW] - m[p, entity.EXEC_START] < MIGRATION_COST
