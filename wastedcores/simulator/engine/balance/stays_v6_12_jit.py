"""Why a task that may move stays on its CPU: can_migrate_task() and task_hot() (kernel/sched/fair.c, v6.12.107 and v6.18.15)."""

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.balance.load_balance_v4_1_jit import MIGRATION_COST
from wastedcores.simulator.engine.codes import migration_type, sd_flag
from wastedcores.simulator.engine.fair.eevdf_jit import eligible
from wastedcores.simulator.engine.world.rows_jit import cpu_rq, modern
from wastedcores.simulator.engine.world.structs import CfsRq, Kernel, LbEnv, TaskStruct


@inner
def held_back(k: Kernel, p: TaskStruct, env: LbEnv) -> bool:
    """can_migrate_task(), task_is_ineligible_on_dst_cpu(): return whether a task is left where it is, whatever its affinity.

    A sleeper that is still queued is moved only to move load. A task that had more than its share is moved after an attempt that
    failed, or to a queue that is empty.
    """
    if p.se.sched_delayed != 0 and env.migration != migration_type.BY_LOAD:
        if modern(k).sleepers_pulled == 0:
            return True
    if modern(k).ineligible_wait == 0 or env.sd.nr_balance_failed != 0:
        return False
    there = CfsRq(k, k.cfs_rq0 + p.group * k.nr_cpus + env.dst_cpu)
    return there.nr_running != 0 and eligible(k, p.se.cfs_rq, p.se) == 0


@inner
def task_hot(k: Kernel, p: TaskStruct, env: LbEnv) -> bool:
    """task_hot(): return whether a task ran so recently that its cache is probably still warm."""
    if env.sd.flags & sd_flag.SHARE_CPUCAPACITY:
        return False
    q = p.se.cfs_rq
    buddy = q.next == p.se or q.last == p.se  # EEVDF has no last buddy
    if cpu_rq(k, env.dst_cpu).nr_running > 0 and buddy:
        return True
    return k.now_ns - p.se.exec_start < MIGRATION_COST
