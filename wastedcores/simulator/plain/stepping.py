"""One balancing pass of Linux v4.1, decision by decision, on queues that stand still.

The lecture notebook and its widget show these decisions. Time does not pass: every thread has the load that it would have
after using its share of a CPU for a long time. A pass calls rebalance_domains() for one CPU after the other. The engine's own
functions decide. This module only builds the state and records what they decide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wastedcores.errors import WorkloadError
from wastedcores.kernels import KernelModel
from wastedcores.simulator.engine.balance import (
    group_stats_jit,
    load_balance_v4_1_jit,
    rebalance_domains_jit,
)
from wastedcores.simulator.engine.codes import idle_type, log_op, sd_flag, stats_row, task_state
from wastedcores.simulator.engine.core import schedule_jit, wakeup_jit
from wastedcores.simulator.engine.fair import entity_jit, load_jit, pelt_jit, vruntime_jit
from wastedcores.simulator.engine.fair.decay_jit import LOAD_AVG_MAX
from wastedcores.simulator.engine.world import cpuset, cpusets_jit, rows_jit
from wastedcores.simulator.engine.world.structs import (
    NO_GROUP,
    NO_TASK,
    Kernel,
    LbEnv,
    SchedDomain,
    SchedGroup,
    SdLbStats,
    SgLbStatsV4,
    TaskStruct,
)
from wastedcores.simulator.plain.still import Still
from wastedcores.topology.domains import build_domains
from wastedcores.topology.lint import level_name
from wastedcores.topology.machine import Machine
from wastedcores.topology.presets import grid
from wastedcores.workload.program import TaskSpec

#: with a greater weight the load would not be exact
MAX_WEIGHT = 400
#: the slides count the use of a CPU in percent, the kernel as a fraction of 1
_PERCENT = 100


@dataclass(frozen=True)
class Thread:
    """A thread of the lecture.

    Attributes
    ----------
    cpu
        The CPU on whose runqueue it is.
    weight
        Its weight on the scale of the slides, where 10 stands for nice 0.
    percent
        How much of a CPU it uses, in percent.
    session_threads
        The number of threads in its session (autogroup), which share one weight.
    allowed
        The CPUs on which it may run; None: all.
    """

    cpu: int
    weight: int = 10
    percent: int = 100
    session_threads: int = 1
    allowed: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Group:
    """What a decision knew of one scheduling group.

    Attributes
    ----------
    cpus
        Its CPUs.
    local
        Whether it contains the CPU that balances.
    total, average, least
        The load of its CPUs, their average load, and the load of the least loaded CPU.
    """

    cpus: tuple[int, ...]
    local: bool
    total: int
    average: int
    least: int


@dataclass(frozen=True)
class Decision:
    """One decision of a pass, with the queues after it.

    Attributes
    ----------
    cpu, level
        The CPU that balances, and the name of its domain's level; -1 and an empty name before the first decision.
    line
        The line of the paper's Algorithm 1 that decided; 0 before the first decision.
    reason
        Why it decided so: ``start``, ``not first``, ``no thread``, ``average``, ``above average``, ``minimum``, ``margin``,
        ``idle rule``, ``busiest``, ``busiest minimum``, ``queue``, ``no queue``, ``moved``, ``nothing moved`` or ``tasksets``.
    groups
        The groups of the level, if their loads were compared. For ``moved``, the groups have their loads after the move.
    source
        For ``tasksets`` the excluded CPUs; for ``not first`` the designated CPU; otherwise the CPUs of the busiest group, the
        CPU to pull from, or the CPUs from which threads were pulled.
    moved
        Numbers of the threads that moved.
    queues
        For each CPU the numbers of its threads.
    loads
        For each thread its load.
    """

    cpu: int
    level: str
    line: int
    reason: str
    groups: tuple[Group, ...]
    source: tuple[int, ...]
    moved: tuple[int, ...]
    queues: tuple[tuple[int, ...], ...]
    loads: tuple[int, ...]

    def cpu_load(self, cpu: int) -> int:
        """Return the sum of the loads of a CPU's threads."""
        return sum(self.loads[i] for i in self.queues[cpu])

    def average(self, cpus: Sequence[int]) -> float:
        """Return the average load of some CPUs."""
        return sum(self.cpu_load(c) for c in cpus) / len(cpus)


def still_kernel(
    machine: Machine,
    kernel: KernelModel | str,
    threads: Sequence[Thread],
    sleepers: Sequence[Thread] = (),
    policies: Mapping[str, Callable[..., Any]] | None = None,
) -> Still:
    """Boot a kernel whose CPUs have these threads. A CPU that has threads runs one of them; ``sleepers`` are on no runqueue."""
    model = KernelModel.named(kernel) if isinstance(kernel, str) else kernel
    if model.tracks_load_v4_4 or model.is_modern:
        raise WorkloadError(
            f"kernel {model.name!r}: the examples have the loads of v4.1; expected v4.1, with fixes or without."
        )
    tree = build_domains(machine, model)
    for i, t in enumerate(threads):
        _check(sorted(tree.cpus), machine.cpus, i, t)
    specs = [
        TaskSpec(f"thread-{i}", (), allowed=None if t.allowed is None else frozenset(t.allowed))
        for i, t in enumerate([*threads, *sleepers])
    ]
    s = Still(machine, model, specs, trees=[tree], policies=dict(policies or {}))
    for p, t in zip(s.tasks, [*threads, *sleepers], strict=True):
        _set_load(s, p, t)
        s.call(entity_jit.set_task_rq, p, t.cpu)
    for p in s.tasks[: len(threads)]:
        p.state, s.k.this_cpu = task_state.READY, p.cpu
        s.call(entity_jit.enqueue_task, p, False, False)
    _settle(s)
    return s


def _check(online: Sequence[int], cpus: int, i: int, t: Thread) -> None:
    allowed = range(cpus) if t.allowed is None else t.allowed
    if t.cpu not in online or t.cpu not in allowed:
        raise WorkloadError(
            f"thread {i} is on CPU {t.cpu}; expected an online CPU on which it may run. Online are {online}, "
            f"and it may run on {sorted(allowed)}."
        )
    if not (1 <= t.weight <= MAX_WEIGHT and 1 <= t.percent <= 100 and t.session_threads >= 1):
        raise WorkloadError(
            f"thread {i} has weight {t.weight}, uses {t.percent} % of a CPU and shares its session with "
            f"{t.session_threads} threads; expected a weight from 1 to {MAX_WEIGHT}, 1 to 100 %, and 1 thread or more."
        )


def _set_load(s: Still, p: TaskStruct, t: Thread) -> None:
    """Set the load of a task: its weight, times the share of a CPU that it uses, divided by the number of threads of its session.

    In v4.1 the division by the threads of the session comes from the weight of the autogroup's entity (calc_cfs_shares());
    here the task itself has the divided weight. The rest is __update_task_entity_contrib(), v4.1.
    """
    p.se.weight = max(t.weight * _PERCENT // t.session_threads, 1)
    p.se.inv_weight = s.of(vruntime_jit.inverse_weight)(p.se.weight)
    p.se.avg_period = LOAD_AVG_MAX - 1
    p.se.runnable_avg_sum = p.se.running_avg_sum = -(-LOAD_AVG_MAX * t.percent // 100)
    s.call(pelt_jit.update_task_contrib, p.se)


def _settle(s: Still) -> None:
    """Let each CPU run a thread if it has one, and set its load averages to its present load."""
    k = s.k
    for rq in k.rqs:
        k.this_cpu = rq.cpu
        q = s.call(rows_jit.cpu_cfs_rq, rq.cpu)
        if q.nr_running and (rq.need_resched or rq.curr == NO_TASK):
            s.call(schedule_jit.schedule, rq.cpu)
        rq.cpu_load[:] = [q.runnable_load_avg] * len(rq.cpu_load)
        q.last_h_load_update = -1
    k.log_n = 0


def _idle(s: Still, cpu: int) -> int:
    return idle_type.IDLE if s.call(load_jit.idle_cpu, cpu) else idle_type.NOT_IDLE


def _domains(s: Still, cpu: int) -> list[SchedDomain]:
    return [s.call(rows_jit.domain_at, cpu, h) for h in range(s.k.rqs[cpu].nr_domains)]


def _items(s: Still, first: int, n: int) -> tuple[int, ...]:
    return tuple(s.call(cpusets_jit.item, i) for i in range(first, first + n))


def _cpus(s: Still, group: SchedGroup) -> tuple[int, ...]:
    return _items(s, group.cpus, group.group_weight)


def _groups(s: Still, sd: SchedDomain, cpu: int, idle: int) -> tuple[Group, ...]:
    """Return the statistics of each group as a CPU sees them. The index of cpu_load[] depends on whether the CPU is idle."""
    stats = SgLbStatsV4(s.k, s.k.scratch + stats_row.SPARE)
    index = s.call(group_stats_jit.load_index, sd, idle)
    seen = s.cpus_of(s.k.design.row + cpuset.LB)
    groups = []
    for i in range(sd.nr_groups):
        group = s.of(rows_jit.group_at)(sd, i)
        cpus = _cpus(s, group)
        s.call(group_stats_jit.update_sg_lb_stats, sd, group, cpu in cpus, index, stats, cpu)
        # if all CPUs of a group are excluded, it has no least loaded CPU
        least = stats.min_load if seen.intersection(cpus) else 0
        groups.append(Group(cpus, cpu in cpus, stats.group_load, stats.avg_load, least))
    return tuple(groups)


def groups_seen(
    machine: Machine, kernel: KernelModel | str, threads: Sequence[Thread], cpu: int
) -> list[tuple[str, tuple[Group, ...]]]:
    """Return the groups that one CPU compares, with their loads.

    Parameters
    ----------
    machine, kernel, threads
        As for :func:`still_kernel`.
    cpu
        The CPU.

    Returns
    -------
    list of tuple of str and tuple of Group
        The name of each level and its groups, the smallest domain first.
    """
    s = still_kernel(machine, kernel, threads)
    s.call(cpusets_jit.start_from_active)
    return [
        (level_name(own), _groups(s, sd, cpu, _idle(s, cpu)))
        for own, sd in zip(s.trees[0].of(cpu), _domains(s, cpu), strict=True)
    ]


def cpu_after_wakeup(
    machine: Machine,
    kernel: KernelModel | str,
    threads: Sequence[Thread],
    sleeper: Thread,
    waker_cpu: int,
) -> int:
    """Return the CPU that select_task_rq() chooses for a thread that wakes."""
    s = still_kernel(machine, kernel, threads, [sleeper])
    s.tasks[-1].state, s.k.this_cpu = task_state.SLEEPING, waker_cpu
    return int(s.call(wakeup_jit.select_task_rq, s.tasks[-1], sd_flag.BALANCE_WAKE, False))


def time_slices(nice: Sequence[int]) -> list[tuple[int, int]]:
    """Return the weight of each thread of one CPU, and its time slice in ns (sched_slice(), v4.1).

    Parameters
    ----------
    nice
        The niceness of each thread.

    Returns
    -------
    list of tuple of int
        Weight and slice of each thread.
    """
    specs = [TaskSpec(f"thread-{i}", (), nice=n) for i, n in enumerate(nice)]
    s = Still(grid("one CPU"), KernelModel.named("v4.1"), specs)
    for p in s.tasks:
        s.call(entity_jit.set_task_rq, p, 0)
        s.call(entity_jit.enqueue_task, p, False, False)
    q = s.call(rows_jit.cpu_cfs_rq, 0)
    return [(p.se.weight, s.call(vruntime_jit.sched_slice, q, p.se)) for p in s.tasks]


def balancing_pass(
    machine: Machine,
    kernel: KernelModel | str,
    threads: Sequence[Thread],
    cpus: Sequence[int] | None = None,
    passes: int = 1,
    policies: Mapping[str, Callable[..., Any]] | None = None,
) -> list[Decision]:
    """Let CPUs balance one after the other, and return every decision.

    Parameters
    ----------
    machine
        The machine with its hotplug history.
    kernel
        A kernel model or its name.
    threads
        The threads.
    cpus
        The CPUs that balance; default: all online CPUs, in ascending order.
    passes
        The greatest number of passes; no further pass begins after one that has moved nothing.
    policies
        Functions of your own by the names of the decisions, as for :func:`wastedcores.simulator.replay`.

    Returns
    -------
    list of Decision
        The state at the beginning, then one entry per decision.

    Raises
    ------
    WorkloadError
        A thread cannot be on its CPU; see :func:`still_kernel`.
    """
    s = still_kernel(machine, kernel, threads, policies=policies)
    recorder = _Recorder(s)
    for _ in range(passes):
        before = recorder.queues()
        for cpu in sorted(s.k.active) if cpus is None else cpus:
            s.k.this_cpu = cpu
            for sd in _domains(s, cpu):
                sd.last_balance = 0  # every level is due
            s.call(rebalance_domains_jit.rebalance_domains, cpu, _idle(s, cpu), log_op.PERIODIC)
        if recorder.queues() == before:
            break
    return recorder.decisions


class _Recorder:
    """Calls the decisions of the engine and writes down what they answered."""

    def __init__(self, s: Still) -> None:
        self.s = s
        self.decisions: list[Decision] = []
        self.groups: tuple[Group, ...] = ()
        self.excluded: frozenset[int] = frozenset()
        self.cpu, self.level = -1, ""
        self.note(0, "start")
        self.before = {}
        for function in (
            load_balance_v4_1_jit.load_balance,
            load_balance_v4_1_jit.should_we_balance,
            group_stats_jit.find_busiest_group,
            load_balance_v4_1_jit.find_busiest_queue,
        ):
            name = function.__name__
            self.before[name] = s.of(function)
            s.replace(function, getattr(self, name))

    def queues(self) -> tuple[tuple[int, ...], ...]:
        """Return for each CPU the numbers of its threads."""
        queues: list[list[int]] = [[] for _ in self.s.k.rqs]
        for i, p in enumerate(self.s.tasks):
            queues[p.cpu].append(i)
        return tuple(map(tuple, queues))

    def note(
        self, line: int, reason: str, source: Sequence[int] = (), moved: Sequence[int] = ()
    ) -> None:
        """Append a decision."""
        loads = tuple(p.se.load_avg_contrib for p in self.s.tasks)
        self.decisions.append(
            Decision(
                self.cpu, self.level, line, reason, self.groups, tuple(source), tuple(moved), self.queues(), loads
            )
        )  # fmt: skip

    def load_balance(self, k: Kernel, cpu: int, sd: SchedDomain, idle: int, why: int) -> int:
        """Balance one level (Algorithm 1, lines 2 to 22)."""
        own = self.s.trees[0].of(cpu)[_domains(self.s, cpu).index(sd)]
        self.cpu, self.level, self.groups, self.excluded = cpu, level_name(own), (), frozenset()
        before, decided = [p.cpu for p in self.s.tasks], len(self.decisions)
        out: int = self.before["load_balance"](k, cpu, sd, idle, why)
        _settle(self.s)
        k.this_cpu = cpu
        moved = [i for i, p in enumerate(self.s.tasks) if p.cpu != before[i]]
        if moved:
            self.s.call(cpusets_jit.start_from_active)
            self.groups = _groups(self.s, sd, cpu, idle)
            self.note(19, "moved", sorted({before[i] for i in moved}), moved)
        elif len(self.decisions) > decided and self.decisions[-1].reason == "queue":
            self.note(19, "nothing moved", self.decisions[-1].source)
        return out

    def should_we_balance(self, k: Kernel, env: LbEnv) -> bool:
        """Ask whether this CPU is the designated one (lines 2 to 9)."""
        answer: bool = self.before["should_we_balance"](k, env)
        if not answer:
            group = env.sd.groups
            mine = _items(self.s, group.balance_cpus, group.nr_balance_cpus)
            idle = [c for c in mine if self.s.call(load_jit.idle_cpu, c)]
            self.note(8, "not first", (idle[0] if idle else group.balance_cpu,))
        return answer

    def find_busiest_group(
        self, k: Kernel, sd: SchedDomain, dst: int, idle: int, st: int, out: SdLbStats
    ) -> bool:
        """Ask for the group to pull from (lines 10 to 17)."""
        left_out = k.active - self.s.cpus_of(k.design.row + cpuset.LB) - self.excluded
        if left_out:
            self.note(21, "tasksets", sorted(left_out))
            self.excluded |= left_out
        chosen: bool = self.before["find_busiest_group"](k, sd, dst, idle, st, out)
        self.groups = _groups(self.s, sd, dst, idle)
        local, busiest = (SgLbStatsV4(k, st + r) for r in (stats_row.LOCAL, stats_row.BUSIEST))
        if out.busiest == NO_GROUP or busiest.sum_nr_running == 0:
            self.note(16, "no thread")
            return chosen
        if chosen:
            line, reason = 13, "busiest minimum" if k.group_imbalance_fix else "busiest"
        elif k.group_imbalance_fix:
            line, reason = 16, "minimum"
        elif local.avg_load >= busiest.avg_load:
            line, reason = 16, "average"
        elif local.avg_load >= out.avg_load:
            line, reason = 16, "above average"
        else:
            line, reason = 16, "idle rule" if idle == idle_type.IDLE else "margin"
        self.note(line, reason, _cpus(self.s, out.busiest))
        return chosen

    def find_busiest_queue(self, k: Kernel, env: LbEnv, group: SchedGroup) -> int:
        """Ask for the CPU to pull from (line 18)."""
        src: int = self.before["find_busiest_queue"](k, env, group)
        self.note(18, "no queue" if src < 0 else "queue", () if src < 0 else (src,))
        return src
