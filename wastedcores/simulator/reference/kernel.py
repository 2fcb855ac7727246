"""The state of one simulated kernel: run queues, clock, future events, log. :mod:`simulation` drives it.

The order of events and the machine's constants follow docs/replay-semantics.md.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wastedcores.errors import WorkloadError
from wastedcores.kernels import KernelModel
from wastedcores.simulator.reference import (
    cfs_v6_1,
    eevdf_class,
    fair,
    load,
    load_v4_4,
    nohz,
    nohz_v6_12,
    pelt,
    pelt_v4_4,
    realtime,
)
from wastedcores.simulator.reference.answers import checked_modules
from wastedcores.simulator.reference.clocks import Clocks
from wastedcores.simulator.reference.core import Core, Module
from wastedcores.simulator.reference.domains import SchedDomain, runtime_domains
from wastedcores.simulator.reference.eevdf import BASE_SLICE_NS
from wastedcores.simulator.reference.idle_sibling_v6_12 import CacheSharing
from wastedcores.simulator.reference.modules import SHIPPED, make_core
from wastedcores.simulator.reference.policies import Policies
from wastedcores.simulator.reference.programs import Random
from wastedcores.simulator.reference.state import CfsRq, Entity, Rq, Task, TaskGroup
from wastedcores.topology.domains import Domains
from wastedcores.topology.machine import Machine
from wastedcores.workload.program import Costs

EPOCH_NS = 4_000_000_000


@dataclass(frozen=True)
class Event:
    """One event of the log; kinds and columns have the names of :mod:`wastedcores.trace.schema`."""

    ts_ns: int
    kind: str
    columns: tuple[tuple[str, Any], ...] = field(default=())


class Kernel:
    """The state of the scheduler of one machine.

    Parameters
    ----------
    machine, model
        The machine and the kernel to simulate.
    trees
        Domains at boot and after each hotplug step, as ``domain_events`` returns them.
    costs
        Machine constants; None for the defaults.
    policies
        Decisions; None for those of the model.
    considered
        Log the CPUs that each decision examined.
    modules
        For a design: optimisation modules, your own or names of shipped ones, instead of those of ``model``.
    decisions
        Log every call of load_balance(), what it saw and why it gave up.
    """

    def __init__(
        self,
        machine: Machine,
        model: KernelModel,
        trees: list[Domains],
        costs: Costs | None = None,
        policies: Policies | None = None,
        considered: bool = False,
        modules: Sequence[Module | str] | None = None,
        decisions: bool = False,
    ) -> None:
        if modules is not None:
            modules = checked_modules(modules, SHIPPED, Module)
            names = tuple(m.name for m in modules)
            model = replace(model, name="+".join(("core", *names)), modules=names)
        self.machine, self.model, self.trees = machine, model, trees
        #: the fair class: ``fair`` (v4.1), ``cfs_v6_1`` or ``eevdf_class`` (v6.12)
        self.fair: Any = fair
        if model.is_modern:
            self.fair = eevdf_class if model.rules.eevdf else cfs_v6_1
        #: load tracking and the loads that are compared, v4.1's or v4.4's; the modern fair classes have their own
        self.pelt: Any = pelt_v4_4 if model.tracks_load_v4_4 else pelt
        self.loads: Any = load_v4_4 if model.tracks_load_v4_4 else load
        #: NOHZ balancing: ``nohz`` (v4.1) or ``nohz_v6_12``
        self.nohz: Any = nohz_v6_12 if model.is_modern else nohz
        self.costs = costs or Costs()
        self.policies = policies or Policies.of(model)
        self.considered, self.decisions = considered, decisions
        self.tick_ns = self.costs.tick_ns
        self.hz = 1_000_000_000 // self.tick_ns
        self.preempt = False  #: CONFIG_PREEMPT
        self.now_ns = EPOCH_NS
        self.cpu = 0  #: the CPU whose event is handled
        self.in_interrupt = False  #: a timer wakes a task, and not the task that runs
        self.log: list[Event] = []
        self.log_op = ""  #: why tasks move at present, for the log
        #: calls of load_balance() by level, kind of idleness and result
        self.balance_calls: Counter[tuple[int, str, str]] = Counter()
        self._logged_weight = [0] * machine.cpus
        self._queue: list[tuple[int, int, str, Any]] = []
        self._pending: dict[tuple[str, Any], int] = {}
        self._seq = 0
        #: tasks that ever became pushable, and the CPU of the timer of the real-time tasks' period, -1 if it does not run
        self.pushed = 0
        self.rt_period_cpu = -1
        #: some CPU has several tasks (rd->overload), so newidle balancing is worth trying
        self.overload = False
        #: tickless idle CPUs (nohz.idle_cpus_mask), and the jiffy of their next balancing
        self.nohz_idle_cpus: set[int] = set()
        self.nohz_next_balance = 0
        # v6.12: averages of tickless CPUs are left to update, and when that is due; nohz_next_balance has to be computed anew
        self.nohz_has_blocked = self.nohz_needs_update = False
        self.nohz_next_blocked = 0
        #: what distinguishes this release from other modern ones; when newidle balancing tries a level, DELAY_DEQUEUE, SIS_UTIL
        self.rules: Any = model.rules if model.is_modern else None
        self.newidle = self.rules.newidle if self.rules else ""
        self.delay_dequeue = self.rules is not None and self.rules.delayed_dequeue
        self.sis_util = self.rules is not None and self.rules.scan_limited
        self.newidle_rng = [Random(0, -2 - c) for c in range(machine.cpus)]
        #: 1 if an idle CPU takes one tick before it stops its tick, as without a cpuidle governor; else 0
        self.idle_ticks_before_stop = self.rules.idle_ticks_before_stop if self.rules else 0
        root = TaskGroup("root", 1024)
        self.groups = [root]
        self.rqs = [self._new_rq(c, root) for c in range(machine.cpus)]
        self.active = set(trees[0].machine.online_cpus)  #: cpu_active_mask
        for rq in self.rqs:
            rq.online, rq.rules = rq.cpu in self.active, self.rules
        #: for each CPU the first CPU and the size of its LLC (sd_llc_id, sd_llc_size), and its levels up to the LLC
        self.llc_id = [0] * machine.cpus
        self.llc_size = [1] * machine.cpus
        self.llc_depth = [0] * machine.cpus
        self.stoppers = [
            Task(c + 1, f"migration/{c}", root, frozenset([c]), cpu=c, state="R")
            for c in range(machine.cpus)
        ]
        #: the core module of a design; None where Linux decides
        self.core: Core | None = None
        if model.modules is not None:
            self.core = make_core(self, model.modules if modules is None else modules)
            self.policies.select_task_rq = self.core.select_task_rq
        #: the speeds of the CPUs; None where all CPUs run at one constant speed
        self.clocks = Clocks(self) if machine.has_clocks else None
        #: called after every choice of a task, with the run queue, the previous task and the chosen one
        self.on_switch: Callable[[Rq, Task, Task], None] = lambda rq, prev, task: None

    @staticmethod
    def _new_rq(cpu: int, root: TaskGroup) -> Rq:
        idle = Task(0, f"swapper/{cpu}", root, frozenset([cpu]), cpu=cpu, state="idle")
        idle.se.weight = 0
        rq = Rq(cpu, idle)
        rq.cfs = CfsRq(rq, root)
        rq.curr = idle
        root.cfs_rq.append(rq.cfs)
        root.se.append(None)
        return rq

    def add_group(self, name: str, shares: int) -> TaskGroup:
        """Make an autogroup, with a queue and an entity on every CPU (init_tg_cfs_entry(), v4.1)."""
        tg = TaskGroup(name, shares)
        tg.limited = self.model.is_modern and self.model.rules.tg_load_avg_limited
        for rq in self.rqs:
            q = CfsRq(rq, tg)
            se = Entity(f"{name}/{rq.cpu}", my_q=q)
            if self.model.is_modern:
                se.weight <<= 10
            se.cfs_rq = rq.cfs
            self.pelt.new_entity(se)
            tg.cfs_rq.append(q)
            tg.se.append(se)
        self.groups.append(tg)
        return tg

    @property
    def design(self) -> Core:
        """The core module, for the optimisation modules that it asks."""
        assert self.core is not None
        return self.core

    # --- clock and tunables -------------------------------------------------------------------------------------------

    @property
    def jiffies(self) -> int:
        """Ticks since the machine's time 0."""
        return self.now_ns // self.tick_ns

    def update_tunables(self) -> None:
        """Scale the tunables with the number of online CPUs (fair.c: get_update_sysctl_factor(), v4.1)."""
        factor = min(len(self.active), 8).bit_length()
        self.latency_ns = 6_000_000 * factor
        self.min_granularity_ns = 750_000 * factor
        self.wakeup_granularity_ns = 1_000_000 * factor
        self.base_slice_ns = BASE_SLICE_NS * factor  # v6.12
        self.max_balance_interval = self.hz * len(self.active) // 10

    # --- future events ------------------------------------------------------------------------------------------------

    def push(self, time_ns: int, kind: str, subject: Any) -> None:
        """Plan an event. It replaces a pending one of the same kind and subject, but a pending RESCHED stays.

        Parameters
        ----------
        time_ns
            When the event happens.
        kind
            ``START``, ``TIMER``, ``TICK``, ``RUN``, ``RESCHED``, ``TTWU``, ``KICK``, ``SOFTIRQ``, ``STOP``, ``PERIOD``,
            ``HRTICK`` or ``HOTPLUG``.
        subject
            A task for START and TIMER, the number of a step for HOTPLUG, otherwise a CPU.
        """
        if kind == "RESCHED" and (kind, subject) in self._pending:
            return
        self._pending[kind, subject] = self._seq
        heapq.heappush(self._queue, (time_ns, self._seq, kind, subject))
        self._seq += 1

    def cancel(self, kind: str, subject: Any) -> None:
        """Cancel a planned event; there need not be one."""
        self._pending.pop((kind, subject), None)

    def is_planned(self, kind: str, subject: Any) -> bool:
        """Tell whether an event is planned."""
        return (kind, subject) in self._pending

    def pop(self) -> tuple[int, str, Any] | None:
        """Remove and return the next event that was not cancelled; None if there is none."""
        while self._queue:
            time_ns, seq, kind, subject = heapq.heappop(self._queue)
            if self._pending.get((kind, subject)) == seq:
                del self._pending[kind, subject]
                return time_ns, kind, subject
        return None

    def start_tick(self, cpu: int) -> None:
        """Plan the next tick of a CPU; each CPU has its own phase within a jiffy."""
        phase = cpu * self.costs.skew_ns
        periods = (self.now_ns - phase) // self.tick_ns + 1
        self.push(periods * self.tick_ns + phase, "TICK", cpu)

    def start_stopper(self, src: Rq) -> None:
        """Ask the migration thread of ``src`` for an active balance (stop_one_cpu_nowait())."""
        self.log_balance(src.push_cpu, src.cpu, "active", 0)
        self.push(self.now_ns + self.costs.ipi_ns, "STOP", src.cpu)

    # --- log ----------------------------------------------------------------------------------------------------------

    def emit(self, kind: str, **columns: Any) -> None:
        """Append an event to the log."""
        self.log.append(Event(self.now_ns - EPOCH_NS, kind, tuple(columns.items())))

    def log_considered(
        self, cpu: int, cpus: list[int], op: str, level: int, pid: int | None = None
    ) -> None:
        """Log, if asked to, that the kernel function ``op`` examined these CPUs on behalf of ``cpu`` (paper 4.2)."""
        if self.considered:
            mask = tuple(cpus)
            self.emit("considered", cpu=cpu, src_cpu=self.cpu, op=op, cpu_mask=mask, value=level, pid=pid)  # fmt: skip

    def emit_affinity(self, p: Task, cpu: int) -> None:
        """Log that ``cpu`` sets the CPUs on which a task may run from now on."""
        self.emit("affinity", cpu=cpu, pid=p.pid, cpu_mask=tuple(sorted(p.allowed)))

    def log_balance(self, cpu: int, src: int, op: str, moved: int) -> None:
        """Log a pull that moved tasks, or (``moved`` = 0) the start of an active balance; ``op`` is the moment."""
        self.emit("balance", cpu=cpu, src_cpu=src, op=op, value=moved)

    def log_weight(self, rq: Rq) -> None:
        """Log ``rq->load.weight`` if it differs from the value logged last."""
        if rq.load_weight != self._logged_weight[rq.cpu]:
            self._logged_weight[rq.cpu] = rq.load_weight
            self.emit("load", cpu=rq.cpu, value=rq.load_weight)

    def count_balance(self, sd: SchedDomain, idle: str, result: str) -> None:
        """Count a call of load_balance() by the domain's level, the kind of idleness and the result."""
        self.balance_calls[sd.level, idle, result] += 1

    # --- run queues ---------------------------------------------------------------------------------------------------

    def add_nr_running(self, rq: Rq, n: int) -> None:
        """Change ``rq->nr_running`` by ``n`` and log it (add_nr_running() and sub_nr_running(), v4.1).

        Two tasks on one CPU set ``overload``, without which newidle balancing does not try anything.
        """
        self.log_weight(rq)
        before = rq.nr_running
        rq.nr_running += n
        if before < 2 <= rq.nr_running:
            self.overload = True
        self.log_nr_running(rq)

    def log_nr_running(self, rq: Rq) -> None:
        """Log the number of runnable tasks: rq->nr_running without the sleepers that v6.12 keeps queued."""
        self.emit("nr_running", cpu=rq.cpu, nr_running=rq.nr_running - rq.cfs.h_nr_delayed)

    def idle_cpu(self, cpu: int) -> bool:
        """Tell whether a CPU runs its idle task and no task is queued or being woken there (idle_cpu(), v4.1)."""
        rq = self.rqs[cpu]
        return rq.curr is rq.idle_task and rq.nr_running == 0 and not rq.wake_list

    def current(self, cpu: int) -> Task:
        """Return the task that runs on a CPU; the idle task has weight 0 and belongs to the root group."""
        return self.rqs[cpu].curr

    def resched(self, rq: Rq) -> None:
        """Ask a CPU to call schedule(); another CPU gets an IPI (resched_curr(), v4.1)."""
        if rq.need_resched:
            return
        rq.need_resched = True
        if rq.cpu != self.cpu:
            self.push(self.now_ns + self.costs.ipi_ns, "RESCHED", rq.cpu)

    def check_preempt_curr(self, rq: Rq, p: Task, new: bool = False) -> None:
        """Preempt the running task if ``p`` should run first, which may be ``new`` (check_preempt_curr(), v4.1).

        The idle task is always preempted, the migration thread never.
        """
        if rq.stopper:
            return
        if rq.curr is rq.idle_task:
            self.resched(rq)
        elif p.rt_priority or rq.curr.rt_priority:
            realtime.check_preempt_curr(self, rq, p)
        else:
            self.fair.check_preempt_wakeup(self, rq, p, new)

    def set_task_cpu(self, p: Task, cpu: int) -> None:
        """Move a task that is not queued to a CPU (set_task_cpu(), v4.1)."""
        if p.cpu != cpu:
            self.emit("migrate", pid=p.pid, cpu=cpu, src_cpu=p.cpu, op=self.log_op)
            if not p.rt_priority:
                self.fair.migrate_task(self, p)
        self.fair.set_task_rq(p, cpu)

    def select_task_rq(self, p: Task, prev_cpu: int, flag: str, cpu: int, sync: bool) -> int:
        """Choose a CPU for a task (select_task_rq() and select_fallback_rq(), core.c, v4.1).

        Parameters
        ----------
        p
            The task.
        prev_cpu
            The CPU on which it ran last.
        flag
            ``wake``, ``fork`` or ``exec``.
        cpu
            The CPU on which this is executed.
        sync
            The waker is about to sleep.

        Returns
        -------
        int
            An online CPU on which the task may run.
        """
        target = prev_cpu
        if len(p.allowed) > 1 and p.rt_priority:
            target = realtime.select_task_rq(self, p, flag)
        elif len(p.allowed) > 1:
            target = self.policies.select_task_rq(self, p, prev_cpu, flag, cpu, sync)
        if target in p.allowed and target in self.active:
            return target
        return self.fallback_cpu(p)

    def fallback_cpu(self, p: Task) -> int:
        """Return the first online CPU of the task's node on which it may run, or else the first one of all nodes.

        Raises
        ------
        WorkloadError
            The task may run on no online CPU.
        """
        possible = sorted(p.allowed & self.active)
        if not possible:
            raise WorkloadError(
                f"task {p.comm!r} (pid {p.pid}) may run on no online CPU at "
                f"{(self.now_ns - EPOCH_NS) / 1e9:.6f} s: its affinity has {sorted(p.allowed)}; keep one of them online."
            )
        node = self.machine.node_of_cpu
        near = [c for c in possible if node[c] == node[p.cpu]]
        return (near or possible)[0]

    # --- domains ------------------------------------------------------------------------------------------------------

    def attach_domains(self, domains: Domains, last_balance: int) -> None:
        """Replace the domains of every CPU (build_sched_domains() and update_top_cache_domain(), v4.1).

        Every level counts as balanced at jiffy ``last_balance``.
        """
        self.tree = domains
        for rq, own in zip(self.rqs, runtime_domains(domains, last_balance), strict=True):
            rq.sd = own
            shared = [sd for sd in own if sd.has("SHARE_PKG_RESOURCES")]
            self.llc_depth[rq.cpu] = len(shared)
            self.llc_size[rq.cpu] = len(shared[-1].span) if shared else 1
            self.llc_id[rq.cpu] = min(shared[-1].span) if shared else rq.cpu
            for sd in own:
                sd.newidle_stamp_ns = self.now_ns
        self.caches = CacheSharing(self)
        self.update_tunables()
        for rq in reversed(self.rqs):
            for sd in rq.sd:
                group = sd.groups[0]
                if group.balance_cpu == rq.cpu:
                    # init_sched_groups_capacity()
                    self.update_group_capacity(sd, rq.cpu, building=True)
                    group.sgc.nr_busy_cpus = len(group.cpus)
        if not self.model.is_modern:
            for rq in self.rqs:
                nohz.set_cpu_sd_state_idle(self, rq)

    def sd_busy(self, cpu: int) -> SchedDomain | None:
        """Return the domain above the last-level cache, if there is one (update_top_cache_domain(), v4.1)."""
        own, depth = self.rqs[cpu].sd, self.llc_depth[cpu]
        return own[depth] if 0 < depth < len(own) else None

    def update_group_capacity(self, sd: SchedDomain, cpu: int, building: bool = False) -> None:
        """Update the capacity of a CPU's own group (update_group_capacity() and update_cpu_capacity(), v4.1).

        ``building`` is true while the domains are being built.
        """
        sgc = sd.groups[0].sgc
        jiffies = -(-sd.balance_interval * 1_000_000 // self.tick_ns)
        sgc.next_update = self.jiffies + min(max(jiffies, 1), self.max_balance_interval)
        if sd.child is None:
            rq = self.rqs[cpu]
            # the threads of a core have its whole capacity each from v5.1 on, which has no smt_gain
            shares = sd.has("SHARE_CPUCAPACITY") and len(sd.span) > 1 and sd.smt_gain > 0
            rq.cpu_capacity_orig = sd.smt_gain // len(sd.span) if shares else 1024
            rq.cpu_capacity = sgc.capacity = rq.cpu_capacity_orig
        elif sd.child.has("OVERLAP"):
            # rq->sd is not set yet while domains are built: then capacity_of()
            sgc.capacity = sum(
                self.rqs[c].cpu_capacity if building else self.rqs[c].sd[0].groups[0].sgc.capacity
                for c in sd.groups[0].cpus
            )
        else:
            sgc.capacity = sum(g.sgc.capacity for g in sd.child.groups)
