"""How Linux 6.12 moves tasks: which CPU balances, and which tasks it takes (kernel/sched/fair.c, v6.12.107)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wastedcores.simulator.reference import signals_v6_12 as signals
from wastedcores.simulator.reference.balance import (
    MAX_PINNED_INTERVAL,
    attach_task,
    count_call,
)
from wastedcores.simulator.reference.decisions import Asked
from wastedcores.simulator.reference.eevdf import eligible
from wastedcores.simulator.reference.placement_v6_12 import is_per_cpu_kthread
from wastedcores.simulator.reference.state import MIGRATION_COST_NS, NR_MIGRATE, Rq, Task
from wastedcores.simulator.reference.stats import IDLE, NEWLY_IDLE
from wastedcores.simulator.reference.stats_v6_12 import (
    BY_LOAD,
    BY_TASK,
    BY_UTIL,
    Env,
)

if TYPE_CHECKING:
    from wastedcores.simulator.reference.domains import SchedDomain
    from wastedcores.simulator.reference.kernel import Kernel


# --- who balances -----------------------------------------------------------------------------------------------------


def should_we_balance(k: Kernel, env: Env) -> bool:
    """Tell whether this CPU may balance for its group (should_we_balance(), v6.12.107).

    The designated CPU is the first idle one of the group whose core is idle, else the first idle one, else the group's balance
    CPU. v6.1 does not look at cores. A newly idle CPU may balance unless a task arrived in the meantime.
    """
    rq, group = k.rqs[env.dst_cpu], env.sd.groups[0]
    if env.dst_cpu not in env.cpus:
        return False
    if env.idle == NEWLY_IDLE:
        return rq.nr_running == 0 and not rq.wake_list
    candidates = [c for c in group.cpus if c in env.cpus and c in group.mask]
    first = -1
    skipped: set[int] = set()
    for c in candidates:
        if c in skipped or not k.idle_cpu(c):
            continue
        siblings = k.caches.siblings[c]
        any_idle = env.sd.has("SHARE_CPUCAPACITY") or not k.model.rules.whole_cores_balance
        if any_idle or all(k.idle_cpu(s) for s in siblings if s != c):
            first = c
            break
        first = c if first < 0 else first
        skipped.update(siblings)
    env.asked.designated = first if first >= 0 else group.balance_cpu
    return env.asked.designated == env.dst_cpu


# --- which tasks ------------------------------------------------------------------------------------------------------


def task_hot(k: Kernel, env: Env, p: Task) -> bool:
    """Tell whether ``p`` ran so recently that its cache is probably still warm (task_hot(), v6.12.107)."""
    if env.sd.has("SHARE_CPUCAPACITY"):
        return False
    if k.rqs[env.dst_cpu].nr_running and p.se in (p.se.cfs_rq.next, p.se.cfs_rq.last):
        return True  # EEVDF has no last buddy
    return k.now_ns - p.se.exec_start < MIGRATION_COST_NS


def can_migrate_task(k: Kernel, env: Env, p: Task) -> bool:
    """Tell whether ``p`` may be moved, and note if only its affinity forbids it (can_migrate_task(), v6.12.107 and v6.18.15).

    Since v6.18 a sleeper that is still queued is moved to move load only, and one that had more than its share after an attempt
    that failed or to an empty queue.
    """
    if p.se.sched_delayed and env.migration != BY_LOAD and not k.rules.sleepers_pulled:
        return False
    if (
        k.rules.ineligible_wait
        and not env.sd.nr_balance_failed
        and p.tg.cfs_rq[env.dst_cpu].nr_running
        and not eligible(p.se.cfs_rq, p.se)
    ):
        return False
    if is_per_cpu_kthread(p):
        return False
    if env.dst_cpu not in p.allowed:
        env.some_pinned = True
        env.asked.pinned += 1
        if env.idle == NEWLY_IDLE or env.dst_pinned or env.active_lb:
            return False
        others = env.dst_grpmask & env.cpus & p.allowed
        if others:
            env.dst_pinned, env.new_dst_cpu = True, min(others)
        return False
    env.all_pinned = False
    if k.rqs[env.src_cpu].curr is p:
        env.asked.running += 1
        return False
    if env.active_lb or env.sd.nr_balance_failed > env.sd.cache_nice_tries:
        return True
    hot = task_hot(k, env, p)
    env.asked.hot += hot
    return not hot


def detach_task(k: Kernel, env: Env, p: Task) -> None:
    """Take ``p`` off the source queue (detach_task(), v6.12.107)."""
    k.fair.dequeue_task(k, k.rqs[env.src_cpu], p, sleep=False)
    k.set_task_cpu(p, env.dst_cpu)


def detach_tasks(k: Kernel, env: Env) -> list[Task]:
    """Take tasks off the source queue, the one that ran longest ago first (detach_tasks(), v6.12.107).

    A newly idle CPU takes one task, because PREEMPT_DYNAMIC sets CONFIG_PREEMPTION.
    """
    src = k.rqs[env.src_cpu]
    detached: list[Task] = []
    if src.nr_running <= 1:
        env.all_pinned = False
        return detached
    while env.imbalance > 0 and src.cfs_tasks:
        if env.is_idle and src.nr_running <= 1:
            break
        env.loop += 1
        if env.loop > env.loop_max:
            break
        p = src.cfs_tasks[-1]
        cost = _cost(k, env, p) if can_migrate_task(k, env, p) else -1
        if cost < 0:
            src.cfs_tasks.insert(0, src.cfs_tasks.pop())
            continue
        env.imbalance -= cost
        detach_task(k, env, p)
        detached.append(p)
        if env.idle == NEWLY_IDLE:
            break
    return detached


def _cost(k: Kernel, env: Env, p: Task) -> int:
    """Return by how much moving ``p`` reduces the imbalance, or -1 if ``p`` is too large (detach_tasks(), v6.12.107)."""
    if env.migration == BY_TASK:
        return 1
    cost = max(signals.task_h_load(k, p), 1) if env.migration == BY_LOAD else 0
    if env.migration == BY_UTIL:
        cost = signals.task_util_est(p)
    # shr_bound(): each failure halves what counts
    if cost >> min(env.sd.nr_balance_failed, 63) > env.imbalance:
        env.asked.heavy += 1
        return -1
    return cost


# --- one attempt ------------------------------------------------------------------------------------------------------


def load_balance(k: Kernel, cpu: int, sd: SchedDomain, idle: str) -> tuple[int, bool]:
    """Try to pull tasks to ``cpu`` at one level (sched_balance_rq(), v6.12.107)."""
    group = sd.groups[0]
    mask = frozenset(group.cpus) & group.mask
    asked = Asked(cpu, k.cpu, cpu, sd.nr_balance_failed, sd.balance_interval)
    env = Env(sd, cpu, idle, set(sd.span) & k.active, mask, asked=asked)
    while True:
        if not k.policies.should_we_balance(k, env):
            return _out_balanced(k, env, "not_designated"), False
        busiest = k.policies.find_busiest_group(k, env)
        src = None
        if busiest is not None:
            asked.imbalance = env.imbalance
            src = k.policies.find_busiest_queue(k, env, busiest)
        if src is None:
            return _out_balanced(k, env, "balanced" if busiest is None else "no_queue"), True
        asked.src_nr_running = src.nr_running
        env.src_cpu = src.cpu
        env.all_pinned = True
        several = src.nr_running > 1
        moved = _pull(k, env, src) if several else 0
        if not (several and env.all_pinned):
            break
        env.cpus.discard(src.cpu)
        if env.cpus <= env.dst_grpmask:
            sd.nr_balance_failed = 0
            count_call(k, env, "pinned")
            return _longer_interval(env), True
        env.loop = 0
    return _finish(k, env, cpu, src, moved), True


def _pull(k: Kernel, env: Env, src: Rq) -> int:
    """Move tasks from ``src``, to another CPU of the group where affinity allows only that; return how many."""
    moved = 0
    env.loop_max = min(NR_MIGRATE, src.nr_running)
    while True:
        tasks = detach_tasks(k, env)
        for p in reversed(tasks):
            attach_task(k, k.rqs[env.dst_cpu], p)
        moved += len(tasks)
        if not env.dst_pinned or env.imbalance <= 0:
            break
        env.cpus.discard(env.dst_cpu)
        env.dst_cpu, env.dst_pinned, env.loop = env.new_dst_cpu, False, 0
    if env.sd.parent is not None and env.some_pinned and env.imbalance > 0:
        env.sd.parent.groups[0].sgc.imbalance = True
    return moved


def _out_balanced(k: Kernel, env: Env, result: str) -> int:
    """Leave because there is nothing to pull (label out_balanced)."""
    count_call(k, env, result)
    if env.sd.parent is not None and not env.all_pinned:
        env.sd.parent.groups[0].sgc.imbalance = False
    env.sd.nr_balance_failed = 0
    return _longer_interval(env)


def _longer_interval(env: Env) -> int:
    """Double the interval of the level, up to its limit (label out_one_pinned)."""
    sd = env.sd
    most = MAX_PINNED_INTERVAL if env.all_pinned else 0
    if env.idle != NEWLY_IDLE and sd.balance_interval < max(most, sd.max_interval):
        sd.balance_interval *= 2
    return 0


def need_active_balance(env: Env) -> bool:
    """Tell whether the running task has to be moved (need_active_balance(), v6.12.107)."""
    return env.migration == BY_TASK and env.sd.nr_balance_failed > env.sd.cache_nice_tries + 2


def _finish(k: Kernel, env: Env, cpu: int, src: Rq, moved: int) -> int:
    """Finish sched_balance_rq(): update the failure counter, start an active balance if needed, set the interval."""
    sd = env.sd
    active = False
    if moved:
        sd.nr_balance_failed = 0
        count_call(k, env, "moved", moved)
        k.log_balance(cpu, src.cpu, k.log_op, moved)
    else:
        if env.idle != NEWLY_IDLE:
            sd.nr_balance_failed += 1
        if need_active_balance(env):
            if cpu not in src.curr.allowed:
                count_call(k, env, "pinned")
                return _longer_interval(env)
            env.all_pinned = False
            if not src.active_balance:
                active = src.active_balance = True
                src.push_cpu = cpu
                k.start_stopper(src)
        count_call(k, env, "active" if active else "failed")
    if not active or need_active_balance(env):
        sd.balance_interval = sd.min_interval
    return moved


def active_load_balance(k: Kernel, src: Rq) -> None:
    """Move one task to ``push_cpu``, in the migration thread (active_load_balance_cpu_stop(), v6.12.107)."""
    target, moved = src.push_cpu, None
    sd = next((sd for sd in k.rqs[target].sd if src.cpu in sd.span), None)
    if src.nr_running > 1 and sd is not None and target in k.active:
        env = Env(sd, target, IDLE, set(), frozenset(), src_cpu=src.cpu, active_lb=True)
        moved = next((p for p in reversed(src.cfs_tasks) if can_migrate_task(k, env, p)), None)
        if moved is not None:
            detach_task(k, env, moved)
            sd.nr_balance_failed = 0
    src.active_balance = False
    if moved is not None:
        attach_task(k, k.rqs[target], moved)
