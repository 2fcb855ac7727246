"""The optimisation modules that come with the workbench, one class each (names: wastedcores.kernels.MODULES).

Some are wise, some are wrong in the way Linux was: the core refuses what would leave a core idle, so none can do harm.
The compiled ones, wastedcores/simulator/engine/design/modules_jit.py, say the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from wastedcores.simulator.reference import nohz, placement, stats
from wastedcores.simulator.reference.core import REST, Core, Module
from wastedcores.simulator.reference.state import MIGRATION_COST_NS, Task

if TYPE_CHECKING:
    from wastedcores.simulator.reference.kernel import Kernel


def busy_on_node(k: Kernel, node: int) -> int:
    """CPUs of a node whose runqueue is not empty."""
    return sum(rq.nr_running > 0 and k.machine.node_of_cpu[rq.cpu] == node for rq in k.rqs)


def nearest(k: Kernel, p: Task, start: int, node: int, idle: bool) -> int | None:
    """Of a node's CPUs where ``p`` may run, seen from ``start``: the nearest idle one, or the shortest queue."""
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
    """A cache affinity module "might suggest waking up a thread on a core where it recently ran" (paper, section 5)."""

    name = "cache_affinity"

    def suggest_cpu(self, k: Kernel, p: Task, waker_cpu: int, why: str) -> int | None:
        """Its last CPU, busy or not."""
        return p.cpu if why == "wakeup" else None


class WakerLocality(Module):
    """Wake a thread near the data that its waker has just written."""

    name = "waker_locality"

    def suggest_cpu(self, k: Kernel, p: Task, waker_cpu: int, why: str) -> int | None:
        """The idle CPU nearest to the waker on its node, else the waker's own CPU."""
        if why not in ("wakeup", "fork"):
            return None
        idle = nearest(k, p, waker_cpu, int(k.machine.node_of_cpu[waker_cpu]), True)
        return waker_cpu if idle is None else idle


class LoadBalance(Module):
    """Even queues out, as often as a CPU ticks."""

    name = "load_balance"

    def suggest_pull(self, k: Kernel, cpu: int) -> int | None:
        """From the longest queue, if it has two threads more."""
        longest = cpu
        for c in k.design.near[cpu]:
            if k.rqs[c].nr_running > k.rqs[longest].nr_running:
                longest = c
        return longest if k.rqs[longest].nr_running >= k.rqs[cpu].nr_running + 2 else None


class Numa(Module):
    """Keep a thread on its home node, the one where it was placed when it was born and where its memory is."""

    name = "numa"

    def suggest_cpu(self, k: Kernel, p: Task, waker_cpu: int, why: str) -> int | None:
        """An idle CPU of the home node, else its shortest queue."""
        if why == "fork":
            return None
        idle = nearest(k, p, p.cpu, p.home_node, True)
        return nearest(k, p, p.cpu, p.home_node, False) if idle is None else idle

    def suggest_source(self, k: Kernel, cpu: int) -> int | None:
        """A CPU of its own node; leave the other nodes' threads with their memory."""
        for src in k.design.near[cpu]:
            if k.machine.node_of_cpu[src] != k.machine.node_of_cpu[cpu]:
                continue
            if Core.waiting_thread(k, src, cpu) is not None:
                return src
        return REST


class Contention(Module):
    """A "placement of threads that reduces the chances of contention-induced performance degradation" (section 5)."""

    name = "contention"

    def suggest_cpu(self, k: Kernel, p: Task, waker_cpu: int, why: str) -> int | None:
        """An idle CPU of the last-level cache with the fewest busy CPUs, the nearest of equals."""
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
        """Busy CPUs that share the cache."""
        return sum(rq.nr_running > 0 and k.llc_id[rq.cpu] == k.llc_id[cpu] for rq in k.rqs)


class Power(Module):
    """Race to idle: fill the nodes that are awake, so that the others can sleep."""

    name = "power"

    def suggest_cpu(self, k: Kernel, p: Task, waker_cpu: int, why: str) -> int | None:
        """An idle CPU of the busiest node that has one, else the shortest queue of the busiest node."""
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
        """Nothing, if its node would sleep then."""
        return None if busy_on_node(k, int(k.machine.node_of_cpu[cpu])) else REST


class WakeupV41(Module):
    """Linux v4.1's own placement, with the Overload-on-Wakeup bug (paper, section 3.3)."""

    name = "wakeup_v4_1"

    def suggest_cpu(self, k: Kernel, p: Task, waker_cpu: int, why: str) -> int | None:
        """select_task_rq_fair(), fair.c, v4.1."""
        if why == "handover":
            return None
        flag = "wake" if why == "wakeup" else why
        return placement.select_task_rq_fair(k, p, p.cpu, flag, waker_cpu, k.design.sync)


class BalanceV41(Module):
    """Linux v4.1's newly-idle balancing, with the bugs of its loads and domains (paper, sections 3.1, 3.2 and 3.4)."""

    name = "balance_v4_1"

    def suggest_source(self, k: Kernel, cpu: int) -> int | None:
        """idle_balance() and the first steps of load_balance(), fair.c, v4.1; without their limit of cost."""
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


SHIPPED: dict[str, type[Module]] = {
    m.name: m
    for m in (
        CacheAffinity, WakerLocality, LoadBalance, Numa, Contention, Power, WakeupV41, BalanceV41,
    )
}  # fmt: skip


def make_core(k: Kernel, modules: Iterable[Module | str]) -> Core:
    """A core that asks these modules, own ones or names of shipped ones.

    Parameters
    ----------
    k
        Whose machine gives the order of nearness: own core, own LLC, own node, then nodes by distance, then CPU number.
    modules
        In the order in which they are asked.
    """
    m = k.machine
    near = []
    for cpu in range(m.cpus):
        away = m.distance[m.node_of_cpu[cpu]][m.node_of_cpu]
        order = [
            (o != cpu, m.core_of_cpu[o] != m.core_of_cpu[cpu], m.llc_of_cpu[o] != m.llc_of_cpu[cpu], away[o], o)
            for o in range(m.cpus)
        ]  # fmt: skip
        near.append([o for *_, o in sorted(order)])
    return Core([SHIPPED[x]() if isinstance(x, str) else x for x in modules], near)
