"""load_balance(): which CPU balances, and how tasks are moved.

Source: kernel/sched/fair.c, v4.1; docs/scheduler-model.md, sections 5.4 and 5.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wastedcores.simulator.reference.decisions import Asked, emit_decision
from wastedcores.simulator.reference.state import MIGRATION_COST_NS, NR_MIGRATE, Rq, Task
from wastedcores.simulator.reference.stats import (
    IDLE,
    NEWLY_IDLE,
    NOT_IDLE,
    Env,
    check_cpu_capacity,
)

if TYPE_CHECKING:
    from wastedcores.simulator.reference.domains import SchedDomain
    from wastedcores.simulator.reference.kernel import Kernel
    from wastedcores.simulator.reference.stats_v6_12 import Env as EnvV6_12

#: the longest interval, in ms, between attempts at a level whose tasks are all pinned
MAX_PINNED_INTERVAL = 512


# --- who balances -----------------------------------------------------------------------------------------------------


def should_we_balance(k: Kernel, env: Env) -> bool:
    """Tell whether this CPU may balance for its group (should_we_balance(), v4.1).

    Only the designated CPU may: the first idle CPU of the group's balance mask, or the mask's first CPU if none is idle. A
    newly idle CPU always may. The published group construction patch lets every CPU balance (paper 3.2 does not say so).
    """
    if k.model.every_cpu_balances or env.idle == NEWLY_IDLE:
        return True
    group = env.sd.groups[0]
    mine = [c for c in group.cpus if c in env.cpus and c in group.mask]
    for c in mine:
        if k.idle_cpu(c):
            env.asked.designated = c
            return c == env.dst_cpu
    env.asked.designated = group.balance_cpu
    return group.balance_cpu == env.dst_cpu


# --- moving tasks -----------------------------------------------------------------------------------------------------


def task_hot(k: Kernel, env: Env, p: Task) -> bool:
    """Tell whether ``p`` ran so recently that its cache is probably still warm (task_hot(), v4.1)."""
    if p.policy == "idle":
        return False
    q = p.se.cfs_rq
    if k.rqs[env.dst_cpu].nr_running and (q.next is p.se or q.last is p.se):
        return True
    # before Linux 4.11 load_balance() did not update the clock of the source: a task that has not run since that clock was
    # last updated stays as hot as it was then, until the next tick if nothing else happens on that CPU
    return k.rqs[env.src_cpu].clock_ns - p.se.exec_start < MIGRATION_COST_NS


def can_migrate_task(k: Kernel, env: Env, p: Task) -> bool:
    """Tell whether ``p`` may be moved to the CPU that pulls; note if only its affinity forbids it (can_migrate_task(), v4.1)."""
    if env.dst_cpu not in p.allowed:
        env.some_pinned = True
        env.asked.pinned += 1
        if env.dst_grpmask is None or env.dst_pinned:
            return False
        for c in sorted(env.dst_grpmask):
            if c in env.cpus and c in p.allowed:
                env.dst_pinned = True
                env.new_dst_cpu = c
                break
        return False
    env.all_pinned = False
    if k.rqs[env.src_cpu].curr is p:
        env.asked.running += 1
        return False
    if not task_hot(k, env, p) or env.sd.nr_balance_failed > env.sd.cache_nice_tries:
        return True
    env.asked.hot += 1
    return False


def detach_task(k: Kernel, env: Env, p: Task) -> None:
    """Take ``p`` off the source queue (detach_task(), v4.1)."""
    src = k.rqs[env.src_cpu]
    k.fair.dequeue_task(k, src, p, sleep=False)
    k.set_task_cpu(p, env.dst_cpu)


def detach_tasks(k: Kernel, env: Env) -> list[Task]:
    """Take tasks off the source queue until the imbalance is gone (detach_tasks(), v4.1; CONFIG_PREEMPT off)."""
    src = k.rqs[env.src_cpu]
    tasks = src.cfs_tasks
    detached: list[Task] = []
    if env.imbalance <= 0:
        return detached
    while tasks:
        if k.model.tracks_load_v4_4 and env.idle != NOT_IDLE and src.nr_running <= 1:
            break  # v4.4 never takes the last task of a queue
        p = tasks[0]
        env.loop += 1
        if env.loop > env.loop_max:
            break
        if env.loop > env.loop_break:
            env.loop_break += NR_MIGRATE
            env.need_break = True
            break
        if can_migrate_task(k, env, p):
            load = k.loads.task_h_load(k, p)
            if load // 2 <= env.imbalance:
                detach_task(k, env, p)
                detached.append(p)
                env.imbalance -= load
                if k.preempt and env.idle == NEWLY_IDLE:
                    break
                if env.imbalance <= 0:
                    break
                continue
            env.asked.heavy += 1
        tasks.append(tasks.pop(0))
    return detached


def attach_task(k: Kernel, rq: Rq, p: Task) -> None:
    """Put a detached task on a run queue (attach_task(), v4.1)."""
    k.fair.enqueue_task(k, rq, p)
    k.check_preempt_curr(rq, p)


def detach_one_task(k: Kernel, env: Env) -> Task | None:
    """Take one task off the source queue, for active balance (detach_one_task(), v4.1)."""
    for p in list(k.rqs[env.src_cpu].cfs_tasks):
        if can_migrate_task(k, env, p):
            detach_task(k, env, p)
            return p
    return None


# --- load_balance -----------------------------------------------------------------------------------------------------


def load_balance(k: Kernel, cpu: int, sd: SchedDomain, idle: str) -> tuple[int, bool]:
    """Try to pull tasks to ``cpu`` at one level (load_balance(), v4.1)."""
    mask = None if idle == NEWLY_IDLE else frozenset(sd.groups[0].cpus)
    asked = Asked(cpu, k.cpu, cpu, sd.nr_balance_failed, sd.balance_interval)
    env = Env(sd, cpu, idle, set(k.active), mask, asked=asked)
    while True:
        if not k.policies.should_we_balance(k, env):
            count_call(k, env, "not_designated")
            return _out_balanced(env), False
        busiest = k.policies.find_busiest_group(k, env)
        if busiest is None:
            count_call(k, env, "balanced")
            return _out_balanced(env), True
        assert busiest.group is not None
        src = k.policies.find_busiest_queue(k, env, busiest.group)
        asked.imbalance = env.imbalance
        if src is None:
            count_call(k, env, "no_queue")
            return _out_balanced(env), True
        asked.src_nr_running = src.nr_running
        moved, only_pinned = _pull(k, env, src)
        if not only_pinned:
            break
        env.cpus.discard(src.cpu)
        if not env.cpus:
            # out_all_pinned: the parent's imbalance flag stays as it is
            count_call(k, env, "pinned")
            return _back_off(env), True
        env.loop, env.loop_break = 0, NR_MIGRATE
    return _finish(k, env, cpu, src, moved), True


def count_call(k: Kernel, env: Env | EnvV6_12, result: str, moved: int = 0) -> None:
    """Count a call by level, idle type and result, and log what it saw if the log has decisions."""
    k.count_balance(env.sd, env.idle, result)
    if k.decisions:
        emit_decision(k, env, result, moved)


def _pull(k: Kernel, env: Env, src: Rq) -> tuple[int, bool]:
    """Move tasks from ``src``; the second value tells that all its tasks were pinned, so another queue has to be tried."""
    env.src_cpu = src.cpu
    moved = 0
    if src.nr_running <= 1:
        return 0, False
    env.all_pinned = True
    env.loop_max = min(NR_MIGRATE, src.nr_running)
    while True:
        tasks = detach_tasks(k, env)
        # env->tasks is a stack: the last one taken is attached first
        for p in reversed(tasks):
            attach_task(k, k.rqs[env.dst_cpu], p)
        moved += len(tasks)
        if env.need_break:
            env.need_break = False
        elif env.dst_pinned and env.imbalance > 0:
            env.cpus.discard(env.dst_cpu)
            env.dst_cpu = env.new_dst_cpu
            env.dst_pinned = False
            env.loop, env.loop_break = 0, NR_MIGRATE
        else:
            break
    if env.sd.parent is not None and env.some_pinned and env.imbalance > 0:
        env.sd.parent.groups[0].sgc.imbalance = True
    return moved, env.all_pinned


def _out_balanced(env: Env) -> int:
    """Leave load_balance() because there is nothing to pull (label out_balanced)."""
    if env.sd.parent is not None:
        env.sd.parent.groups[0].sgc.imbalance = False
    return _back_off(env)


def _back_off(env: Env) -> int:
    """Leave load_balance() and balance less often (label out_all_pinned)."""
    env.sd.nr_balance_failed = 0
    return _longer_interval(env)


def _longer_interval(env: Env) -> int:
    """Double the interval of the level, up to its limit (label out_one_pinned)."""
    sd = env.sd
    if (env.all_pinned and sd.balance_interval < MAX_PINNED_INTERVAL) or (
        sd.balance_interval < sd.max_interval
    ):
        sd.balance_interval *= 2
    return 0


def need_active_balance(k: Kernel, env: Env) -> bool:
    """Tell whether the running task has to be moved (need_active_balance(), v4.1; x86 has no ASYM_PACKING)."""
    src, dst = k.rqs[env.src_cpu], k.rqs[env.dst_cpu]
    if (
        env.idle != NOT_IDLE
        and src.cfs.h_nr_running == 1
        and check_cpu_capacity(src, env.sd)
        and src.cpu_capacity * env.sd.imbalance_pct < dst.cpu_capacity * 100
    ):
        return True
    return env.sd.nr_balance_failed > env.sd.cache_nice_tries + 2


def _finish(k: Kernel, env: Env, cpu: int, src: Rq, moved: int) -> int:
    """Finish load_balance(): update the failure counter, start an active balance if needed, set the interval."""
    sd = env.sd
    active = False
    if moved:
        sd.nr_balance_failed = 0
        count_call(k, env, "moved", moved)
        k.log_balance(cpu, src.cpu, k.log_op, moved)
    else:
        if env.idle != NEWLY_IDLE:
            sd.nr_balance_failed += 1
        if need_active_balance(k, env):
            if cpu not in src.curr.allowed:
                env.all_pinned = True
                count_call(k, env, "pinned")
                return _longer_interval(env)
            if not src.active_balance:
                active = src.active_balance = True
                src.push_cpu = cpu
                k.start_stopper(src)
            sd.nr_balance_failed = sd.cache_nice_tries + 1
        count_call(k, env, "active" if active else "failed")
    if not active:
        sd.balance_interval = sd.min_interval
    elif sd.balance_interval < sd.max_interval:
        sd.balance_interval *= 2
    return moved


def active_load_balance(k: Kernel, src: Rq) -> None:
    """Move one task to ``push_cpu``, in the migration thread, which itself counts in nr_running.

    active_load_balance_cpu_stop(), v4.1.
    """
    target = src.push_cpu
    moved = None
    if src.nr_running > 1:
        for sd in k.rqs[target].sd:
            if src.cpu in sd.span:
                moved = detach_one_task(k, Env(sd, target, IDLE, set(), None, src_cpu=src.cpu))
                break
    src.active_balance = False
    if moved is not None:
        attach_task(k, k.rqs[target], moved)
