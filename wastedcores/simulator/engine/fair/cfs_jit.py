"""CFS decisions: the next task, the tick, wakeup preemption (kernel/sched/fair.c, v4.1; docs/scheduler-model.md, section 1).

The last functions are for two kinds of preemption since v6.18: lazy preemption, and a timer that ends slices (core.c, fair.c).
"""

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.codes import cpu_event
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.events.queue_jit import event_of, pending
from wastedcores.simulator.engine.fair.entity_jit import (
    clear_buddies,
    insert,
    remove,
    set_buddy,
    update_cfs_shares,
)
from wastedcores.simulator.engine.fair.pelt_jit import update_blocked_load, update_entity_load_avg
from wastedcores.simulator.engine.fair.vruntime_jit import (
    NR_LATENCY,
    SCHED_IDLE,
    calc_delta_fair,
    sched_slice,
    update_curr,
)
from wastedcores.simulator.engine.world import table
from wastedcores.simulator.engine.world.log_jit import log_load
from wastedcores.simulator.engine.world.rows_jit import (
    cpu_cfs_rq,
    cpu_rq,
    fair_class,
    modern,
    rt_class,
    runs_idle,
    task_of,
)
from wastedcores.simulator.engine.world.structs import (
    NO_ENTITY,
    CfsRq,
    Kernel,
    RqModern,
    SchedEntity,
    TaskStruct,
)


@apart(NOTHING)
def resched(k: Kernel, cpu: int) -> None:
    """resched_curr(): ask a CPU to reschedule: the executing CPU by its flag, another CPU by an IPI."""
    if cpu_rq(k, cpu).need_resched != 0:
        return
    cpu_rq(k, cpu).need_resched = 1
    if cpu != k.this_cpu:
        event = event_of(cpu_event.RESCHED, cpu)
        if not pending(k, event):
            queue_jit.push(k, event, k.now_ns + k.ipi_ns)


@inner
def wakeup_preempt_entity(k: Kernel, curr: SchedEntity, se: SchedEntity) -> int:
    """wakeup_preempt_entity(): return 1 if ``se`` should preempt ``curr``, -1 if ``se`` has no smaller vruntime, else 0."""
    vdiff = curr.vruntime - se.vruntime
    if vdiff <= 0:
        return -1
    if vdiff > calc_delta_fair(k, k.wakeup_granularity, se):
        return 1
    return 0


@inner
def next_entity(k: Kernel, q: CfsRq, curr: SchedEntity) -> SchedEntity:
    """pick_next_entity(): return the leftmost entity, or a buddy if this choice is not too unfair (v4.1 and v6.1)."""
    left = q.leftmost
    if not left or (curr and curr.vruntime < left.vruntime):
        left = curr
    se = left
    if q.skip == se:
        if se == curr:
            second = q.leftmost
        else:
            second = se.next
            if not second or (curr and curr.vruntime < second.vruntime):
                second = curr
        if second and wakeup_preempt_entity(k, second, left) < 1:
            se = second
    last = q.last
    if last and wakeup_preempt_entity(k, last, left) < 1:
        se = last
    following = q.next
    if following and wakeup_preempt_entity(k, following, left) < 1:
        se = following
    return se


@inner
def set_next_entity(k: Kernel, se: SchedEntity) -> None:
    """set_next_entity(): take the entity out of the queue, because it runs now."""
    q = se.cfs_rq
    if se.on_rq != 0:
        remove(k, q, se)
        update_entity_load_avg(k, se, True)
    se.exec_start = k.now_ns
    q.curr = se
    se.prev_sum_exec_runtime = se.sum_exec_runtime


@inner
def put_prev_entity(k: Kernel, se: SchedEntity) -> None:
    """put_prev_entity(): if the entity that ran is still runnable, put it back into the queue."""
    q = se.cfs_rq
    if se.on_rq != 0:
        update_curr(k, q)
        insert(k, q, se)
        # v4.4 does not report this update to the group
        update_entity_load_avg(k, se, k.load_v4_4 == 0)
    q.curr = NO_ENTITY


@inner
def put_prev_task(k: Kernel, p: TaskStruct) -> None:
    """put_prev_task_fair(): put_prev_entity() on all levels."""
    if k.is_modern != 0:
        fair_class(k).put_prev_task(k, p)
        return
    se = p.se
    while se:
        put_prev_entity(k, se)
        se = se.parent


@inner
def set_next_task(k: Kernel, p: TaskStruct) -> None:
    """set_next_entity() on all levels, the root first."""
    parent = p.se.parent
    if parent:
        set_next_entity(k, parent)
    set_next_entity(k, p.se)


@apart(VALUE)
def pick_task(k: Kernel, cpu: int, prev: TaskStruct) -> TaskStruct:
    """pick_next_task_fair() of a queue that is not empty.

    put_prev_entity() and set_next_entity() are called only for the levels at which ``prev`` and the next task differ. After the
    idle task or the stopper, ``prev`` is NULL.
    """
    if k.is_modern != 0:
        return fair_class(k).pick_next_task(k, cpu, prev)
    q = cpu_cfs_rq(k, cpu)
    se = NO_ENTITY
    while True:
        curr = q.curr
        if curr:
            if curr.on_rq != 0:
                update_curr(k, q)
            else:
                curr = NO_ENTITY
        se = next_entity(k, q, curr)
        clear_buddies(k, se)
        q = se.my_q
        if not q:
            break
    p = task_of(se)
    if not prev:
        set_next_task(k, p)
    elif p != prev:
        pse = prev.se
        # autogroups are one level deep, so the depth is 0 or 1
        while se.cfs_rq != pse.cfs_rq:
            depth = 1 if se.parent else 0
            pdepth = 1 if pse.parent else 0
            if depth <= pdepth:
                put_prev_entity(k, pse)
                pse = pse.parent
            if depth >= pdepth:
                set_next_entity(k, se)
                se = se.parent
        put_prev_entity(k, pse)
        set_next_entity(k, se)
    return p


@inner
def check_preempt_tick(k: Kernel, q: CfsRq, curr: SchedEntity) -> None:
    """check_preempt_tick(): reschedule if the slice is over. Slices are checked nowhere else."""
    ideal = sched_slice(k, q, curr)
    ran = curr.sum_exec_runtime - curr.prev_sum_exec_runtime
    if ran > ideal:
        resched(k, q.cpu)
        clear_buddies(k, curr)
        return
    if ran < k.min_granularity:
        return
    if curr.vruntime - q.leftmost.vruntime > ideal:
        resched(k, q.cpu)


@apart(NOTHING)
def task_tick(k: Kernel, p: TaskStruct) -> None:
    """task_tick_fair(), entity_tick(): the tick of the running task, on all levels."""
    if k.is_modern != 0:
        fair_class(k).task_tick(k, p)
        return
    se = p.se
    while se:
        q = se.cfs_rq
        update_curr(k, q)
        update_entity_load_avg(k, se, True)
        if k.load_v4_4 == 0:
            update_blocked_load(k, q, True)
        update_cfs_shares(k, q)
        if q.nr_running > 1:
            check_preempt_tick(k, q, se)
        se = se.parent
    log_load(k, p.se.cfs_rq.cpu)


@apart(NOTHING)
def check_preempt(k: Kernel, cpu: int, p: TaskStruct, new: int) -> None:
    """wakeup_preempt(): reschedule if ``p`` should preempt the running task; since v7.2 it matters whether ``p`` is new."""
    if k.is_modern != 0:
        fair_class(k).wakeup_preempt(k, cpu, p, new)
    else:
        check_preempt_wakeup(k, cpu, p, new)


@apart(NOTHING)
def check_preempt_wakeup(k: Kernel, cpu: int, p: TaskStruct, new: int) -> None:
    """check_preempt_wakeup() of v4.1 and v6.1, or the real-time class's test."""
    curr = cpu_rq(k, cpu).curr
    if not curr:
        resched(k, cpu)
        return
    if (curr.rt_priority | p.rt_priority) != 0:
        rt_class(k).check_preempt_curr(k, cpu, p)
        return
    if curr == p or cpu_rq(k, cpu).need_resched != 0:
        return
    scale = curr.se.cfs_rq.nr_running >= NR_LATENCY
    se = curr.se
    pse = p.se
    if curr.policy == SCHED_IDLE and p.policy != SCHED_IDLE:
        resched(k, cpu)  # there is no last buddy: set_last_buddy() refuses SCHED_IDLE tasks
        return
    if p.policy != 0:
        return
    if se.parent and not pse.parent:
        se = se.parent
    elif pse.parent and not se.parent:
        pse = pse.parent
    while se.cfs_rq != pse.cfs_rq:
        se = se.parent
        pse = pse.parent
    update_curr(k, se.cfs_rq)
    if wakeup_preempt_entity(k, se, pse) != 1:
        return
    set_buddy(k, pse, CfsRq.next)
    resched(k, cpu)
    # a task that just went to sleep does not become the last buddy
    if scale and se.on_rq != 0 and not se.my_q:
        set_buddy(k, se, CfsRq.last)


#: the timer that ends slices runs at least for HRTICK_LEAST_NS; it is set anew if its end changes by more than HRTICK_CLOSE_NS
HRTICK_LEAST_NS = 10_000
HRTICK_CLOSE_NS = 5_000
NICE_0_LOAD = 1 << 20

# --- lazy preemption ----------------------------------------------------------------------------------------------------


@inner
def resched_lazy(k: Kernel, cpu: int) -> None:
    """resched_curr_lazy(): let a busy CPU reschedule when it next enters the kernel, if preemption is lazy; else resched()."""
    if modern(k).lazy_preemption == 0 or cpu == k.this_cpu or runs_idle(k, cpu):
        resched(k, cpu)
    elif cpu_rq(k, cpu).need_resched == 0:
        cpu_cfs_rq(k, cpu).rq_modern.lazy_resched = 1


@inner
def enter_kernel(k: Kernel, cpu: int) -> None:
    """exit_to_user_mode_loop(): when a CPU has entered the kernel, turn a lazy request to reschedule into a normal one."""
    q = cpu_cfs_rq(k, cpu)
    if q.rq_modern.lazy_resched != 0:
        q.rq_modern.lazy_resched = 0
        cpu_rq(k, cpu).need_resched = 1


# --- the timer that ends slices (HRTICK) --------------------------------------------------------------------------------


@inner
def hrtick_of(k: Kernel, cpu: int) -> int:
    """Return the event of a CPU's slice timer."""
    return ((k.nr_cpus + cpu) << table.SHIFT) + RqModern.hrtick


@inner
def set_hrtick(k: Kernel, cpu: int, at_ns: int) -> None:
    """hrtick_needs_rearm(): set the timer, unless it is already set to about the same time."""
    event = hrtick_of(k, cpu)
    before = cpu_cfs_rq(k, cpu).rq_modern.hrtick
    if pending(k, event) and abs(at_ns - before) <= HRTICK_CLOSE_NS:
        return
    queue_jit.push(k, event, at_ns)


@apart(NOTHING)
def hrtick_start(k: Kernel, cpu: int, p: TaskStruct) -> None:
    """hrtick_start_fair(): if another task is queued, set the timer to the end of a task's slice, or let hrtick_exit() set it."""
    q = cpu_cfs_rq(k, cpu)
    if modern(k).slice_timer == 0 or q.h_nr_running <= 1:
        return
    left = p.se.deadline - p.se.vruntime
    if left < 0:
        if cpu_rq(k, cpu).curr == p:
            resched(k, cpu)
        return
    delay = max(p.se.weight * left // NICE_0_LOAD, HRTICK_LEAST_NS)
    if q.rq_modern.in_schedule != 0:
        q.rq_modern.hrtick_delay = delay
    else:
        set_hrtick(k, cpu, k.now_ns + delay)


@inner
def hrtick_update(k: Kernel, cpu: int) -> None:
    """hrtick_update(): when another task comes, start the timer for the running task, unless it was started before."""
    curr = cpu_rq(k, cpu).curr
    if not curr or curr.rt_priority != 0 or modern(k).slice_timer == 0:
        return
    if not pending(k, hrtick_of(k, cpu)):
        hrtick_start(k, cpu, curr)


@inner
def hrtick_enter(k: Kernel, cpu: int) -> None:
    """hrtick_schedule_enter(): schedule() begins, which fulfils a lazy request to reschedule."""
    q = cpu_cfs_rq(k, cpu)
    q.rq_modern.lazy_resched = 0
    q.rq_modern.in_schedule = 1


@inner
def hrtick_exit(k: Kernel, cpu: int) -> None:
    """hrtick_schedule_exit(): set the timer at the end of schedule(), or stop it if the CPU is idle."""
    q = cpu_cfs_rq(k, cpu)
    q.rq_modern.lazy_resched = 0
    q.rq_modern.in_schedule = 0
    if q.rq_modern.hrtick_delay != 0:
        set_hrtick(k, cpu, k.now_ns + q.rq_modern.hrtick_delay)
        q.rq_modern.hrtick_delay = 0
    elif runs_idle(k, cpu):
        queue_jit.cancel(k, hrtick_of(k, cpu))
