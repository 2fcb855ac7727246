"""The optimisation modules that wastedcores ships, one class each (their names are in wastedcores.kernels.MODULES).

Some are sensible and some have the bugs of Linux. None can do harm, because the core refuses every suggestion that would
leave a core idle. The compiled modules in wastedcores/simulator/engine/design/modules_jit.py make the same suggestions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from wastedcores.simulator.reference import nohz, placement, stats
from wastedcores.simulator.reference.answers import checked_modules
from wastedcores.simulator.reference.core import REST, Core, Module
from wastedcores.simulator.reference.state import MIGRATION_COST_NS, Task
from wastedcores.workload import ops

if TYPE_CHECKING:
    from wastedcores.simulator.reference.kernel import Kernel


def busy_on_node(k: Kernel, node: int) -> int:
    """Return the number of CPUs of a node whose run queue is not empty."""
    return sum(rq.nr_running > 0 and k.machine.node_of_cpu[rq.cpu] == node for rq in k.rqs)


def nearest(k: Kernel, p: Task, start: int, node: int, idle: bool) -> int | None:
    """Return a CPU of a node on which ``p`` may run, or None if there is none.

    It is the idle CPU nearest to ``start`` if ``idle`` is true, else the CPU with the shortest queue.
    """
    best = None
    for cpu in k.design.near[start]:
        if k.machine.node_of_cpu[cpu] != node or cpu not in p.allowed or cpu not in k.active:
            continue
        nr = k.rqs[cpu].nr_running
        if idle and nr == 0:
            return cpu
        if not idle and (best is None or nr < k.rqs[best].nr_running):
            best = cpu
    return best


class CacheAffinity(Module):
    """A module that "might suggest waking up a thread on a core where it recently ran" (paper, section 5)."""

    name = "cache_affinity"

    def suggest_cpu(self, k: Kernel, p: Task, waker_cpu: int, why: str) -> int | None:
        """Suggest the CPU on which the thread ran last, busy or not."""
        return p.cpu if why == "wakeup" else None


class WakerLocality(Module):
    """A module that wakes a thread near the data that its waker has just written."""

    name = "waker_locality"

    def suggest_cpu(self, k: Kernel, p: Task, waker_cpu: int, why: str) -> int | None:
        """Suggest the idle CPU nearest to the waker on its node, or else the waker's own CPU."""
        if why not in ("wakeup", "fork"):
            return None
        idle = nearest(k, p, waker_cpu, int(k.machine.node_of_cpu[waker_cpu]), True)
        return waker_cpu if idle is None else idle


class LoadBalance(Module):
    """A module that evens out the lengths of the queues at every tick."""

    name = "load_balance"

    def suggest_pull(self, k: Kernel, cpu: int) -> int | None:
        """Suggest the CPU with the longest queue if it has at least two threads more than this one."""
        longest = cpu
        for c in k.design.near[cpu]:
            if k.rqs[c].nr_running > k.rqs[longest].nr_running:
                longest = c
        return longest if k.rqs[longest].nr_running >= k.rqs[cpu].nr_running + 2 else None


class Numa(Module):
    """A module that keeps a thread on its home node, where it was placed when it was created and where its memory is."""

    name = "numa"

    def suggest_cpu(self, k: Kernel, p: Task, waker_cpu: int, why: str) -> int | None:
        """Suggest an idle CPU of the home node, or else the shortest queue of that node."""
        if why == "fork":
            return None
        idle = nearest(k, p, p.cpu, p.home_node, True)
        return nearest(k, p, p.cpu, p.home_node, False) if idle is None else idle

    def suggest_source(self, k: Kernel, cpu: int) -> int | None:
        """Suggest a CPU of the same node; threads of other nodes stay with their memory."""
        for src in k.design.near[cpu]:
            if k.machine.node_of_cpu[src] != k.machine.node_of_cpu[cpu]:
                continue
            if Core.waiting_thread(k, src, cpu) is not None:
                return src
        return REST


class Contention(Module):
    """A module for a "placement of threads that reduces the chances of contention-induced performance degradation".

    The quotation is from section 5 of the paper.
    """

    name = "contention"

    def suggest_cpu(self, k: Kernel, p: Task, waker_cpu: int, why: str) -> int | None:
        """Suggest an idle CPU of the last-level cache with the fewest busy CPUs; of equal ones the nearest."""
        best, fewest = None, 0
        for cpu in k.design.near[p.cpu]:
            if cpu not in p.allowed or not Core.is_idle(k, cpu):
                continue
            busy = self.busy_in_cache(k, cpu)
            if best is None or busy < fewest:
                best, fewest = cpu, busy
        return best

    @staticmethod
    def busy_in_cache(k: Kernel, cpu: int) -> int:
        """Return the number of busy CPUs that share the cache with ``cpu``."""
        return sum(rq.nr_running > 0 and k.llc_id[rq.cpu] == k.llc_id[cpu] for rq in k.rqs)


class Power(Module):
    """A module that fills the nodes that are awake, so that the other nodes can sleep (race to idle)."""

    name = "power"

    def suggest_cpu(self, k: Kernel, p: Task, waker_cpu: int, why: str) -> int | None:
        """Suggest an idle CPU of the busiest node that has one, or else the shortest queue of the busiest node."""
        if why not in ("wakeup", "fork"):
            return None
        nodes = [(busy_on_node(k, n), n) for n in range(k.machine.nodes)]
        order = [n for busy, n in sorted(nodes, key=lambda b: (-b[0], b[1])) if busy]
        for idle in (True, False):
            for node in order:
                found = nearest(k, p, p.cpu, node, idle)
                if found is not None:
                    return found
        return None

    def suggest_source(self, k: Kernel, cpu: int) -> int | None:
        """Suggest to stay idle if no CPU of the node is busy, so that the node can sleep."""
        return None if busy_on_node(k, int(k.machine.node_of_cpu[cpu])) else REST


class WakeupV41(Module):
    """The placement of Linux v4.1, with the Overload-on-Wakeup bug (paper, section 3.3)."""

    name = "wakeup_v4_1"

    def suggest_cpu(self, k: Kernel, p: Task, waker_cpu: int, why: str) -> int | None:
        """Suggest the CPU that select_task_rq_fair() chooses (fair.c, v4.1)."""
        if why == "handover":
            return None
        flag = "wake" if why == "wakeup" else why
        return placement.select_task_rq_fair(k, p, p.cpu, flag, waker_cpu, k.design.sync)


class BalanceV41(Module):
    """The newidle balancing of Linux v4.1, with the bugs of its loads and domains (paper, sections 3.1, 3.2 and 3.4)."""

    name = "balance_v4_1"

    def suggest_source(self, k: Kernel, cpu: int) -> int | None:
        """Suggest the CPU that idle_balance() and load_balance() choose (fair.c, v4.1), without their limit on cost."""
        rq = k.rqs[cpu]
        if rq.avg_idle < MIGRATION_COST_NS or not k.overload:
            return REST
        nohz.update_blocked_averages(k, rq)
        for sd in rq.sd:
            if not sd.has("BALANCE_NEWIDLE"):
                continue
            env = stats.Env(sd, cpu, stats.NEWLY_IDLE, set(k.active), None)
            busiest = stats.find_busiest_group(k, env)
            if busiest is None or busiest.group is None:
                continue
            src = stats.find_busiest_queue(k, env, busiest.group)
            if src is not None and src.nr_running > 1:
                return src.cpu
        return REST


class ForkFlag(Module):
    """A fork with a flag that tells that the parent waits at once, which the fork/wait paper proposes (section 4.2).

    A replay knows the programs, so it knows which forks would have the flag: those that are followed by a wait for children.
    """

    name = "fork_flag"

    def suggest_cpu(self, k: Kernel, p: Task, waker_cpu: int, why: str) -> int | None:
        """Suggest the parent's CPU for a child whose parent waits at once."""
        if why != "fork" or p.progress.parent is None:
            return None
        run = p.progress.parent.progress
        return waker_cpu if run.spec.rows[run.pc + 1][0] == ops.OP_WAIT_CHILDREN else None


class FastCore(Module):
    """A module that locates high-frequency cores, the future work of the fork/wait paper (section 6)."""

    name = "fast_core"

    def suggest_cpu(self, k: Kernel, p: Task, waker_cpu: int, why: str) -> int | None:
        """Suggest the idle CPU whose core has the highest frequency; of equal ones the nearest to the waker."""
        if why not in ("wakeup", "fork") or k.clocks is None:
            return None
        idle = [c for c in k.design.near[waker_cpu] if c in p.allowed and Core.is_idle(k, c)]
        return max(idle, key=k.clocks.khz, default=None)


SHIPPED: dict[str, type[Module]] = {
    m.name: m
    for m in (
        CacheAffinity, WakerLocality, LoadBalance, Numa, Contention, Power, WakeupV41, BalanceV41,
        ForkFlag, FastCore,
    )
}  # fmt: skip


def make_core(k: Kernel, modules: Iterable[Module | str]) -> Core:
    """Make a core module that asks these optimisation modules."""
    m = k.machine
    near = []
    for cpu in range(m.cpus):
        away = m.distance[m.node_of_cpu[cpu]][m.node_of_cpu]
        order = [
            (o != cpu, m.core_of_cpu[o] != m.core_of_cpu[cpu], m.llc_of_cpu[o] != m.llc_of_cpu[cpu], away[o], o)
            for o in range(m.cpus)
        ]  # fmt: skip
        near.append([o for *_, o in sorted(order)])
    return Core(checked_modules(modules, SHIPPED, Module), near)
