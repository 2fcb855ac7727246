"""The loop: next event, kernel code, reschedule (docs/replay-semantics.md, section 1); and CPU hotplug (section 8)."""

from __future__ import annotations

import numpy as np

from wastedcores.engine import queue_jit
from wastedcores.engine._apart import NOTHING, VALUE, apart
from wastedcores.engine._jit import inner
from wastedcores.engine.balance.stats_jit import update_group_capacity
from wastedcores.engine.balance.v4_1_jit import attach_task, detach_task
from wastedcores.engine.codes import (
    EV_KICK,
    EV_RESCHED,
    EV_SOFTIRQ,
    EV_STOP,
    EV_TICK,
    EV_TTWU,
    S_NEW,
    S_READY,
    SD_SHARE_CPUCAPACITY,
    SD_SHARE_PKG_RESOURCES,
    ST_DEADLOCK,
    ST_DONE,
    ST_LOG_FULL,
    ST_RUNNING,
    ST_TASKS_FULL,
    ST_UNTIL,
    W_JIFFY,
    W_NOTHING,
    WHY_HOTPLUG,
)
from wastedcores.engine.design.seam_jit import ASK_SETTLE, ask, designed
from wastedcores.engine.draw_jit import draw, stream
from wastedcores.engine.life_jit import new_task
from wastedcores.engine.load_jit import jiffies
from wastedcores.engine.memory_jit import exclude, include, item, test
from wastedcores.engine.program_jit import go_on, run_over
from wastedcores.engine.queue_jit import (
    FROM_NOWHERE,
    FROM_RUNS,
    FROM_TICKS,
    cpu_event,
    first,
    pending,
    take,
    take_run,
    take_tick,
    time_of,
)
from wastedcores.engine.rebalance_jit import (
    nohz_enter,
    nohz_exit,
    run_rebalance,
    sd_state_idle,
)
from wastedcores.engine.sched_jit import (
    fallback_cpu,
    fork_task,
    kick,
    run_stopper,
    schedule,
    stopper_begin,
    stopper_end,
    tick,
    try_to_wake_up,
    ttwu_pending,
)
from wastedcores.engine.state import (
    C_BUSY,
    C_NEXT_UPDATE,
    D_CHILD,
    D_FAILED,
    D_FLAGS,
    D_GROUPS,
    D_INTERVAL,
    D_LAST,
    D_MAX_COST,
    D_MIN_INT,
    D_NEXT_DECAY,
    D_PARENT,
    D_WEIGHT,
    EPOCH_NS,
    G_COMPUTING,
    G_CPU,
    G_CPUS,
    G_EVENTS,
    G_GROUPS,
    G_HZ,
    G_IRQ,
    G_JIFFY,
    G_LATENCY,
    G_LIVE,
    G_LOG_N,
    G_LOG_ROOM,
    G_MARGIN,
    G_MAX_INTERVAL,
    G_MIN_GRAN,
    G_NOW,
    G_OVERLOAD,
    G_Q0,
    G_SCRATCH,
    G_SE0,
    G_SEED,
    G_STATUS,
    G_STEP0,
    G_STEPS,
    G_T0,
    G_TABLE,
    G_TG0,
    G_TICK,
    G_TIMERS,
    G_UNTIL,
    G_WAKEUP_GRAN,
    GR_BAL,
    GR_N,
    GR_SGC,
    H_CPU,
    H_ONLINE,
    LOW,
    MASK_ACTIVE,
    Q_CPU,
    Q_CURR,
    Q_DECAYS,
    Q_H_JIFFY,
    Q_LAST,
    Q_LAST_DECAY,
    Q_LEFT,
    Q_NEXT,
    Q_RIGHT,
    Q_SE,
    Q_SKIP,
    Q_TG,
    R_AVG_IDLE,
    R_BUSY_SD,
    R_CAP,
    R_CAP_ORIG,
    R_CURR,
    R_EV,
    R_FRESH,
    R_IDLE_STAMP,
    R_ILB,
    R_KICK,
    R_LAST_TICK,
    R_LLC_ID,
    R_LLC_SD,
    R_LLC_SIZE,
    R_MAX_IDLE_COST,
    R_NEED,
    R_NOHZ_IDLE,
    R_NR,
    R_NSD,
    R_PUSH_CPU,
    R_SD,
    R_STOPPED,
    R_THEAD,
    R_TTAIL,
    R_WAKE,
    SE_INV,
    SE_MYQ,
    SE_PARENT,
    SE_Q,
    SE_WEIGHT,
    SHIFT,
    T_CPU,
    T_EV,
    T_KHEAD,
    T_OBJ,
    T_RNG,
    T_STATE,
    T_WAIT,
    TG_SHARES,
)

# --- domains ------------------------------------------------------------------------------------------------------------


@apart(NOTHING)
def shortcuts(m, cpu):
    """update_top_cache_domain()."""
    first = m[cpu, R_SD]
    m[cpu, R_LLC_SD] = -1
    m[cpu, R_BUSY_SD] = -1
    m[cpu, R_LLC_SIZE] = 1
    for sd in range(first, first + m[cpu, R_NSD]):
        if m[sd, D_FLAGS] & SD_SHARE_PKG_RESOURCES:
            m[cpu, R_LLC_SD] = sd
            m[cpu, R_LLC_SIZE] = m[sd, D_WEIGHT]
            m[cpu, R_BUSY_SD] = m[sd, D_PARENT]


@apart(NOTHING)
def first_capacity(m, cpu, first, number):
    """init_sched_groups_capacity() of one CPU's domains, while no CPU has its domains yet."""
    for sd in range(first, first + number):
        m[sd, D_INTERVAL] = m[sd, D_MIN_INT]
        m[sd, D_FAILED] = 0
        m[sd, D_MAX_COST] = 0
        m[sd, D_NEXT_DECAY] = 0
        group = m[sd, D_GROUPS]
        if m[group, GR_BAL] != cpu:
            continue
        if m[sd, D_CHILD] < 0:
            m[cpu, R_CAP_ORIG] = 1024
            if m[sd, D_FLAGS] & SD_SHARE_CPUCAPACITY and m[sd, D_WEIGHT] > 1:
                m[cpu, R_CAP_ORIG] = 1178 // m[sd, D_WEIGHT]  # smt_gain
        update_group_capacity(m, sd, cpu)
        m[m[group, GR_SGC], C_BUSY] = m[group, GR_N]


@apart(NOTHING)
def attach_domains(m, epoch, now):
    """build_sched_domains(), cpu_attach_domain(): every CPU gets the tree of this epoch, with fresh balance state."""
    n = m[0, G_CPUS]
    table = m[0, G_TABLE] + epoch * 3 * n
    tunables(m)
    m[0, G_OVERLOAD] = 0
    for cpu in range(n):
        m[cpu, R_SD] = -1
        m[cpu, R_NSD] = 0
        m[cpu, R_NOHZ_IDLE] = 0
        m[cpu, R_LLC_ID] = item(m, table + 3 * cpu + 2)
    for cpu in range(n - 1, -1, -1):
        first_capacity(m, cpu, item(m, table + 3 * cpu), item(m, table + 3 * cpu + 1))
    for cpu in range(n):
        first = item(m, table + 3 * cpu)
        m[cpu, R_SD] = first
        m[cpu, R_NSD] = item(m, table + 3 * cpu + 1)
        for sd in range(first, first + m[cpu, R_NSD]):
            m[sd, D_LAST] = now
        shortcuts(m, cpu)
        sd_state_idle(m, cpu)


@inner
def booted_capacity(m):
    """Each CPU has balanced since boot; who built the groups knew only some of their capacities."""
    for cpu in range(m[0, G_CPUS]):
        first = m[cpu, R_SD]
        for sd in range(first, first + m[cpu, R_NSD]):
            update_group_capacity(m, sd, cpu)
            m[m[m[sd, D_GROUPS], GR_SGC], C_NEXT_UPDATE] = 0


@apart(NOTHING)
def tunables(m):
    """get_update_sysctl_factor(), update_max_interval(): the tunables follow the number of CPUs that are up."""
    up = 0
    for cpu in range(m[0, G_CPUS]):
        if test(m, MASK_ACTIVE, cpu):
            up += 1
    factor = 1
    while (1 << factor) <= min(up, 8):
        factor += 1
    m[0, G_LATENCY] = 6_000_000 * factor
    m[0, G_MIN_GRAN] = 750_000 * factor
    m[0, G_WAKEUP_GRAN] = 1_000_000 * factor
    m[0, G_MAX_INTERVAL] = m[0, G_HZ] * up // 10


@apart(NOTHING)
def hotplug(m, step):
    """A CPU goes offline or comes back."""
    cpu = m[m[0, G_STEP0] + step, H_CPU]
    online = m[m[0, G_STEP0] + step, H_ONLINE]
    m[0, G_TIMERS] -= 1
    if online != 0:
        include(m, MASK_ACTIVE, cpu)
    else:
        exclude(m, MASK_ACTIVE, cpu)
    # the domains change at CPU_DOWN_PREPARE and CPU_ONLINE: a CPU that goes pulls nothing any more
    attach_domains(m, step + 1, jiffies(m))
    if online == 0:
        ttwu_pending(m, cpu)
        if m[cpu, R_NR] > 0:
            stopper_begin(m, cpu)
            while m[cpu, R_THEAD] >= 0 and m[0, G_STATUS] == ST_RUNNING:
                p = m[cpu, R_THEAD]
                dst = fallback_cpu(m, p, cpu)
                if m[0, G_STATUS] == ST_RUNNING:
                    detach_task(m, p, dst, WHY_HOTPLUG)
                    attach_task(m, p)
            stopper_end(m, cpu)
        queue_jit.cancel(m, cpu_event(EV_TICK, cpu))
        m[cpu, R_STOPPED] = 1
        queue_jit.cancel(m, cpu_event(EV_KICK, cpu))
        queue_jit.cancel(m, cpu_event(EV_SOFTIRQ, cpu))
        m[cpu, R_KICK] = 0
        m[cpu, R_ILB] = 0
        nohz_exit(m, cpu)
    if online != 0 and m[cpu, R_STOPPED] != 0:
        nohz_enter(m, cpu)


# --- start --------------------------------------------------------------------------------------------------------------


@apart(VALUE)
def start_state(m):
    """The machine as it is when the replay begins (docs/replay-semantics.md, section 7)."""
    n = m[0, G_CPUS]
    m[0, G_NOW] = EPOCH_NS
    m[0, G_JIFFY] = EPOCH_NS // m[0, G_TICK]
    rng = m[0, G_SCRATCH] + 5
    m[rng, T_RNG] = stream(m[0, G_SEED], -1)
    for cpu in range(n):
        m[cpu, R_CAP] = 1024
        m[cpu, R_CAP_ORIG] = 1024
    attach_domains(m, 0, 0)
    booted_capacity(m)
    for cpu in range(n):
        for column in (R_CURR, R_THEAD, R_TTAIL, R_WAKE, R_PUSH_CPU):
            m[cpu, column] = -1
        m[cpu, R_AVG_IDLE] = 1_000_000
        m[cpu, R_MAX_IDLE_COST] = 500_000
        m[cpu, R_LAST_TICK] = jiffies(m)
        m[cpu, R_STOPPED] = 1
        m[cpu, R_IDLE_STAMP] = 1 + np_mod(draw(m, rng), EPOCH_NS - 1)
        nohz_enter(m, cpu)
    for tg in range(m[0, G_GROUPS]):
        m[m[0, G_TG0] + tg, TG_SHARES] = 1024
        for cpu in range(n):
            q = m[0, G_Q0] + tg * n + cpu
            for column in (Q_CURR, Q_NEXT, Q_LAST, Q_SKIP, Q_LEFT, Q_RIGHT, Q_H_JIFFY):
                m[q, column] = -1
            m[q, Q_CPU] = cpu
            m[q, Q_TG] = m[0, G_TG0] + tg
            m[q, Q_DECAYS] = 1
            m[q, Q_LAST_DECAY] = EPOCH_NS >> 20
            m[q, Q_SE] = -1
            if tg > 0:
                se = m[0, G_SE0] + tg * n + cpu
                m[q, Q_SE] = se
                m[se, SE_Q] = n + cpu
                m[se, SE_MYQ] = q
                m[se, SE_PARENT] = -1
                m[se, SE_WEIGHT] = 1024
                m[se, SE_INV] = 4194304
    return np_mod(draw(m, rng), m[0, G_TICK])


@inner
def np_mod(value, n):
    """``value % n`` of an unsigned draw, as a signed number."""
    return np.int64(value % np.uint64(n))


@apart(NOTHING)
def add_top(m, template, group, cpu, at_ns):
    """A top-level task that starts on ``cpu`` at ``at_ns`` (engine time)."""
    p = new_task(m, template, -1, group)
    m[p, T_CPU] = cpu
    m[0, G_TIMERS] += 1
    queue_jit.push(m, (p << SHIFT) + T_EV, at_ns)


@apart(NOTHING)
def add_step(m, step, at_ns):
    """A hotplug step at ``at_ns`` (engine time)."""
    m[0, G_TIMERS] += 1
    queue_jit.push(m, (m[0, G_STEP0] + step) << SHIFT, at_ns)


# --- the loop -----------------------------------------------------------------------------------------------------------


@inner
def idle_tick(m, cpu):
    """tick_sched_timer() on a CPU whose tick is stopped: a timer of the wheel brings a whole tick with it."""
    m[cpu, R_STOPPED] = 0
    tick(m, cpu)


@apart(NOTHING)
def timer(m, p):
    """A top-level task starts, or a sleep is over."""
    m[0, G_TIMERS] -= 1
    cpu = m[p, T_OBJ] if m[p, T_WAIT] == W_JIFFY else m[p, T_CPU]
    if not test(m, MASK_ACTIVE, cpu):
        cpu = fallback_cpu(m, p, m[p, T_CPU])
    m[0, G_CPU] = cpu
    if m[p, T_STATE] == S_NEW:
        fork_task(m, p, cpu, -1)
    else:
        if m[p, T_WAIT] == W_JIFFY and m[cpu, R_STOPPED] != 0:
            idle_tick(m, cpu)
        m[p, T_WAIT] = W_NOTHING
        try_to_wake_up(m, p, False)


@inner
def ticked(m, cpu):
    """TICK."""
    m[0, G_CPU] = cpu
    tick(m, cpu)
    if m[0, G_COMPUTING] == 0 and m[0, G_TIMERS] == 0:
        m[0, G_STATUS] = ST_DEADLOCK


@apart(VALUE)
def dispatch(m, event):
    """Handle an event of the heap; whether it was a tick."""
    cpu = event >> SHIFT
    if cpu >= m[0, G_CPUS]:
        if cpu >= m[0, G_T0]:
            timer(m, cpu)
        else:
            m[0, G_CPU] = m[cpu, H_CPU]
            hotplug(m, cpu - m[0, G_STEP0])
        return False
    kind = ((event & LOW) - R_EV) >> 1
    m[0, G_CPU] = cpu
    if kind == EV_TICK:
        ticked(m, cpu)
    elif kind == EV_TTWU:
        ttwu_pending(m, cpu)
    elif kind == EV_KICK:
        kick(m, cpu)
    elif kind == EV_STOP:
        run_stopper(m, cpu)
    elif kind == EV_SOFTIRQ:
        run_rebalance(m, cpu)
    return kind == EV_TICK


@inner
def handle(m, source):
    """Handle the next event, which is at ``source``; whether it was a tick."""
    if source == FROM_TICKS:
        ticked(m, take_tick(m))
        return True
    if source == FROM_RUNS:
        cpu = take_run(m)
        m[0, G_CPU] = cpu
        run_over(m, cpu)
        return False
    return dispatch(m, take(m)) != 0


@inner
def must_schedule(m, cpu):
    """Whether the CPU is to reschedule now: asked to or its task blocked, and not in the middle of something."""
    if m[cpu, R_ILB] != 0:
        return False  # the softirq comes first
    curr = m[cpu, R_CURR]
    if curr >= 0:
        if m[curr, T_STATE] != S_READY:
            return True
        if m[curr, T_KHEAD] >= 0:
            return False
    return m[cpu, R_NEED] != 0


@inner
def after_event(m, was_tick):
    """Let the CPU whose event it was go on: the switched-in task's program, or the next schedule()."""
    cpu = m[0, G_CPU]
    if was_tick and m[0, G_IRQ] > 0:
        # schedule() runs when the interrupt returns, with a later clock
        event = cpu_event(EV_RESCHED, cpu)
        if m[cpu, R_NEED] != 0 and not pending(m, event):
            queue_jit.push(m, event, m[0, G_NOW] + m[0, G_IRQ])
        return
    while m[0, G_STATUS] == ST_RUNNING:
        if m[cpu, R_FRESH] != 0:
            go_on(m, cpu)
        elif must_schedule(m, cpu):
            schedule(m, cpu)
        else:
            break


@apart(VALUE)
def run(m):
    """Simulate until all is done, G_UNTIL is reached, the log is nearly full or something is wrong."""
    in_an_event = m[0, G_STATUS] == ST_TASKS_FULL  # where a run that was stopped for room goes on
    was_tick = False
    # a design then hands over what waits in vain, perhaps to the CPU whose event it was, so that this goes on again
    turns = 2 if designed(m) else 1
    m[0, G_STATUS] = ST_RUNNING
    while m[0, G_STATUS] == ST_RUNNING:
        if not in_an_event:
            if m[0, G_LIVE] == 0:
                m[0, G_STATUS] = ST_DONE
                break
            if m[0, G_LOG_N] + m[0, G_MARGIN] > m[0, G_LOG_ROOM]:
                m[0, G_STATUS] = ST_LOG_FULL
                break
            source = first(m)
            if source == FROM_NOWHERE:
                m[0, G_STATUS] = ST_DEADLOCK
                break
            now = time_of(m, source)
            if now > m[0, G_UNTIL]:
                m[0, G_NOW] = m[0, G_UNTIL]
                m[0, G_STATUS] = ST_UNTIL
                break
            if now != m[0, G_NOW]:
                m[0, G_NOW] = now
                m[0, G_STEPS] = 0
                if now - m[0, G_JIFFY] * m[0, G_TICK] >= m[0, G_TICK]:
                    m[0, G_JIFFY] = now // m[0, G_TICK]
            m[0, G_EVENTS] += 1
            was_tick = handle(m, source)
        in_an_event = False
        for turn in range(turns):
            if turn > 0 and m[0, G_STATUS] == ST_RUNNING:
                ask(m, ASK_SETTLE, 0, 0, 0)
            after_event(m, was_tick)
    return m[0, G_STATUS]
