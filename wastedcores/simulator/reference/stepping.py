"""One balancing pass of the reference, decision by decision, on queues that stand still.

The lecture notebook and its widget show these decisions. Time does not pass: every thread has the load that it would have
after it had used its share of a CPU for long, and a pass is what :func:`nohz.rebalance_domains` does on one CPU after the
other. The functions that decide are those of the reference. This module only builds the state and writes down what they say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wastedcores.errors import WorkloadError
from wastedcores.kernels import KernelModel
from wastedcores.simulator.reference import balance, fair, nohz, pelt, schedule, stats
from wastedcores.simulator.reference.arithmetic import LOAD_AVG_MAX
from wastedcores.simulator.reference.kernel import Kernel
from wastedcores.simulator.reference.load import weighted_cpuload
from wastedcores.simulator.reference.simulation import Simulation
from wastedcores.simulator.reference.state import Rq, Task, TaskGroup
from wastedcores.topology.domains import build_domains
from wastedcores.topology.lint import level_name
from wastedcores.topology.machine import Machine
from wastedcores.topology.presets import grid
from wastedcores.workload.program import Program

if TYPE_CHECKING:
    from wastedcores.simulator.reference.domains import SchedDomain, SchedGroup
    from wastedcores.simulator.reference.stats import Env, GroupStats

#: with a greater weight the load would not be exact
MAX_WEIGHT = 400
#: the slides count the use of a CPU in percent, the kernel in parts of 1
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
        It contains the CPU that balances.
    total, average, least
        The load of its CPUs, their average load, and the load of the least loaded one.
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
        The CPU that balances, and the name of its domain's level; empty before the first decision.
    line
        The line of the paper's Algorithm 1 that decided; 0 before the first decision.
    reason
        Why it decided so: ``start``, ``not first``, ``no thread``, ``average``, ``above average``, ``minimum``, ``margin``,
        ``idle rule``, ``busiest``, ``busiest minimum``, ``queue``, ``no queue``, ``moved``, ``nothing moved`` or ``tasksets``.
    groups
        The groups of the level, if their loads were compared at this level; after a move, with the loads after it.
    source
        The CPUs of the busiest group, the CPU that is (or the CPUs that were) pulled from, the excluded ones for
        ``tasksets``, or the designated one for ``not first``.
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
    machine: Machine, kernel: KernelModel | str, threads: Sequence[Thread]
) -> tuple[Kernel, list[Task]]:
    """Build a kernel of the reference whose CPUs have these threads, one running on each CPU that has any."""
    model = KernelModel.named(kernel) if isinstance(kernel, str) else kernel
    if model.tracks_load_v4_4 or model.is_modern:
        raise WorkloadError(
            f"kernel {model.name!r}: the examples have the loads of v4.1; expected v4.1, with fixes or without."
        )
    k = Kernel(machine, model, [build_domains(machine, model)])
    Simulation(k, Program(tasks=()), seed=1)  # domains and idle CPUs, as a replay begins
    tasks = []
    for i, thread in enumerate(threads):
        _check(k, i, thread)
        p = _task(k.groups[0], i, thread, machine.cpus)
        k.cpu = thread.cpu
        fair.set_task_rq(p, thread.cpu)
        fair.enqueue_task(k, k.rqs[thread.cpu], p)
        tasks.append(p)
    for rq in k.rqs:
        _settle(k, rq)
    k.log.clear()
    return k, tasks


def _check(k: Kernel, i: int, t: Thread) -> None:
    allowed = range(k.machine.cpus) if t.allowed is None else t.allowed
    if t.cpu not in k.active or t.cpu not in allowed:
        raise WorkloadError(
            f"thread {i} is on CPU {t.cpu}; expected an online CPU on which it may run. Online are {sorted(k.active)}, "
            f"and it may run on {sorted(allowed)}."
        )
    if not (1 <= t.weight <= MAX_WEIGHT and 1 <= t.percent <= 100 and t.session_threads >= 1):
        raise WorkloadError(
            f"thread {i} has weight {t.weight}, uses {t.percent} % of a CPU and shares its session with "
            f"{t.session_threads} threads; expected a weight from 1 to {MAX_WEIGHT}, 1 to 100 %, and 1 thread or more."
        )


def _task(tg: TaskGroup, number: int, t: Thread, cpus: int) -> Task:
    """Make a task whose load is its weight, times the share of a CPU that it uses, divided by the threads of its session.

    In v4.1 the division by the threads of the session comes from the weight of the autogroup's entity (calc_cfs_shares());
    here the task itself has that weight. The rest is __update_task_entity_contrib(), v4.1.
    """
    allowed = frozenset(range(cpus) if t.allowed is None else t.allowed)
    p = Task(number + 1, f"thread-{number}", tg, allowed, state="R")
    pelt.set_weight(p.se, max(t.weight * _PERCENT // t.session_threads, 1))
    p.se.avg_period = LOAD_AVG_MAX - 1
    p.se.runnable_sum = p.se.running_sum = -(-LOAD_AVG_MAX * t.percent // 100)
    pelt.update_task_contrib(p.se)
    return p


def _settle(k: Kernel, rq: Rq) -> None:
    """Let a CPU run a thread if it has one, and let its load averages follow at once."""
    k.cpu = rq.cpu
    if rq.cfs.nr_running and (rq.need_resched or rq.curr is rq.idle_task):
        schedule.schedule(k, rq)
    rq.cpu_load = [weighted_cpuload(rq)] * len(rq.cpu_load)
    rq.cfs.last_h_load_update = -1


def _groups(k: Kernel, env: Env) -> tuple[Group, ...]:
    """Return what the CPU of ``env`` knows of each group, with the index of cpu_load[] that its idleness selects."""
    sd = env.sd
    index = {
        stats.NOT_IDLE: sd.busy_idx, stats.NEWLY_IDLE: sd.newidle_idx, stats.IDLE: sd.idle_idx
    }[env.idle]  # fmt: skip
    groups = []
    for group in sd.groups:
        local = env.dst_cpu in group.cpus
        s, _ = stats.update_sg_lb_stats(k, env, group, index, local)
        # a group whose CPUs are all excluded has no least loaded CPU
        least = s.min_load if env.cpus.intersection(group.cpus) else 0
        groups.append(Group(tuple(group.cpus), local, s.group_load, s.avg_load, least))
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
    k, _ = still_kernel(machine, kernel, threads)
    idle = stats.IDLE if k.idle_cpu(cpu) else stats.NOT_IDLE
    return [
        (level_name(own), _groups(k, stats.Env(sd, cpu, idle, set(k.active), None)))
        for own, sd in zip(k.trees[0].of(cpu), k.rqs[cpu].sd, strict=True)
    ]


def cpu_after_wakeup(
    machine: Machine,
    kernel: KernelModel | str,
    threads: Sequence[Thread],
    sleeper: Thread,
    waker_cpu: int,
) -> int:
    """Return the CPU that select_task_rq() chooses for a thread that wakes."""
    k, tasks = still_kernel(machine, kernel, threads)
    p = _task(k.groups[0], len(tasks), sleeper, machine.cpus)
    p.state = "S"
    fair.set_task_rq(p, sleeper.cpu)
    k.cpu = waker_cpu
    return k.select_task_rq(p, sleeper.cpu, "wake", waker_cpu, sync=False)


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
    k, _ = still_kernel(grid("one CPU"), "v4.1", ())
    tasks = [Task(i + 1, f"thread-{i}", k.groups[0], frozenset([0]), n) for i, n in enumerate(nice)]
    for p in tasks:
        fair.set_task_rq(p, 0)
        fair.enqueue_task(k, k.rqs[0], p)
    return [(p.se.weight, fair.sched_slice(k, k.rqs[0].cfs, p.se)) for p in tasks]


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
        The CPUs that balance; default: all that are online, in ascending order.
    passes
        The most passes; they end early when one has moved nothing.
    policies
        Decisions of your own by their names in :class:`wastedcores.simulator.reference.kernel.Policies`.

    Returns
    -------
    list of Decision
        The state at the beginning, then one entry per decision.

    Raises
    ------
    WorkloadError
        A thread cannot be where it is; see :func:`still_kernel`.
    """
    k, tasks = still_kernel(machine, kernel, threads)
    for name, policy in (policies or {}).items():
        setattr(k.policies, name, policy)
    recorder = _Recorder(k, tasks)
    for _ in range(passes):
        before = recorder.queues()
        for cpu in sorted(k.active) if cpus is None else cpus:
            k.cpu, k.log_op = cpu, "periodic"
            for sd in k.rqs[cpu].sd:
                sd.last_balance = 0  # every level is due
            nohz.rebalance_domains(k, k.rqs[cpu], stats.IDLE if k.idle_cpu(cpu) else stats.NOT_IDLE)
        if recorder.queues() == before:
            break
    return recorder.decisions


class _Recorder:
    """Calls the decisions of the reference and writes down what they answered."""

    def __init__(self, k: Kernel, tasks: list[Task]) -> None:
        self.k, self.tasks = k, tasks
        self.decisions: list[Decision] = []
        self.groups: tuple[Group, ...] = ()
        self.excluded: set[int] = set()
        self.cpu, self.level = -1, ""
        self.note(0, "start")
        k.policies.load_balance = self.load_balance
        k.policies.should_we_balance = self.should_we_balance
        k.policies.find_busiest_group = self.find_busiest_group
        k.policies.find_busiest_queue = self.find_busiest_queue

    def queues(self) -> tuple[tuple[int, ...], ...]:
        """Return the numbers of the threads of each CPU."""
        return tuple(
            tuple(i for i, p in enumerate(self.tasks) if p.cpu == c)
            for c in range(self.k.machine.cpus)
        )

    def note(
        self, line: int, reason: str, source: Sequence[int] = (), moved: Sequence[int] = ()
    ) -> None:
        """Append a decision."""
        loads = tuple(p.se.load_avg_contrib for p in self.tasks)
        self.decisions.append(
            Decision(
                self.cpu, self.level, line, reason, self.groups, tuple(source), tuple(moved), self.queues(), loads
            )
        )  # fmt: skip

    def load_balance(self, k: Kernel, cpu: int, sd: SchedDomain, idle: str) -> tuple[int, bool]:
        """Balance one level (Algorithm 1, lines 2 to 22)."""
        own = k.trees[0].of(cpu)[k.rqs[cpu].sd.index(sd)]
        self.cpu, self.level, self.groups, self.excluded = cpu, level_name(own), (), set()
        before, decided = [p.cpu for p in self.tasks], len(self.decisions)
        out = balance.load_balance(k, cpu, sd, idle)
        for rq in k.rqs:
            _settle(k, rq)
        k.cpu = cpu
        moved = [i for i, p in enumerate(self.tasks) if p.cpu != before[i]]
        if moved:
            self.groups = _groups(k, stats.Env(sd, cpu, idle, set(k.active), None))
            self.note(19, "moved", sorted({before[i] for i in moved}), moved)
        elif len(self.decisions) > decided and self.decisions[-1].reason == "queue":
            self.note(19, "nothing moved", self.decisions[-1].source)
        return out

    def should_we_balance(self, k: Kernel, env: Env) -> bool:
        """Ask whether this CPU is the designated one (lines 2 to 9)."""
        answer = balance.should_we_balance(k, env)
        if not answer:
            group = env.sd.groups[0]
            idle = [c for c in group.cpus if c in group.mask and k.idle_cpu(c)]
            self.note(8, "not first", (idle[0] if idle else group.balance_cpu,))
        return answer

    def find_busiest_group(self, k: Kernel, env: Env) -> GroupStats | None:
        """Ask for the group to pull from (lines 10 to 17)."""
        if excluded := k.active - env.cpus - self.excluded:
            self.note(21, "tasksets", sorted(excluded))
            self.excluded |= excluded
        local, busiest, average = stats.update_sd_lb_stats(k, env)
        self.groups = _groups(k, env)
        chosen = stats.find_busiest_group(k, env)
        if busiest is None or not busiest.nr_running:
            self.note(16, "no thread")
            return chosen
        assert busiest.group is not None
        if chosen is not None:
            line, reason = 13, "busiest minimum" if k.model.group_imbalance else "busiest"
        elif k.model.group_imbalance:
            line, reason = 16, "minimum"
        elif local.avg_load >= busiest.avg_load:
            line, reason = 16, "average"
        elif local.avg_load >= average:
            line, reason = 16, "above average"
        else:
            line, reason = 16, "idle rule" if env.idle == stats.IDLE else "margin"
        self.note(line, reason, busiest.group.cpus)
        return chosen

    def find_busiest_queue(self, k: Kernel, env: Env, group: SchedGroup) -> Rq | None:
        """Ask for the CPU to pull from (line 18)."""
        src = stats.find_busiest_queue(k, env, group)
        self.note(18, "no queue" if src is None else "queue", () if src is None else (src.cpu,))
        return src
