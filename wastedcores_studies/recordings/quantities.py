"""The quantities in which a recording and a replay of the same workload are compared.

Both are brought to one form (:class:`Observed`: which thread was where, and when), from which :func:`quantities` computes
everything. So if a quantity differs between the recording and the replay, what happened in them was different. No quantity
follows from the others, so each quantity is separate evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wastedcores.simulator.measure import cpus_wasted, durations_ns, over_cpus, running_ns
from wastedcores.topology.machine import Machine

#: threads are counted by node in this last part of the measured window. It is long enough that a single move at the very end
#: does not matter
LAST = 0.25
#: a node is a hog's node if a hog runs on one of its CPUs for at least this share of the window
HOG_SHARE = 0.3
#: number of idle CPUs for each of which a thread waits, even if it may not run there: what the whole project is about
WASTED = "CPUs wasted"
#: the share of the window in which some CPU is idle while a thread waits on another one
IDLE_BESIDE = "idle beside waiting"


class Quantity(NamedTuple):
    """A number and what it counts: a run's result, ``busy CPUs``, ``threads``, ``CPUs wasted`` or ``idle beside waiting``."""

    value: float
    unit: str


@dataclass(frozen=True)
class Observed:
    """Which thread was where, and when: what a recording and a replay have in common."""

    #: int64 (events,): switches (to ``pid``), wake-ups, migrations and exits in order of time
    ts_ns: np.ndarray
    cpu: np.ndarray
    pid: np.ndarray
    #: bool (events,): whether the event is a switch, and whether it is the exit of the thread
    switch: np.ndarray
    gone: np.ndarray
    #: the measured window
    start_ns: int
    end_ns: int
    #: process ids of the workload's threads, and of the hogs that run at the same time
    threads: Sequence[int]
    hogs: Sequence[int]
    result: Quantity  #: what the run measured of itself

    def running(self, cpus: int, pids: Sequence[int] | None = None) -> np.ndarray:
        """Return for each CPU the share of the window in which it ran one of these threads (None: any thread)."""
        pid = self.pid[self.switch]
        mine = pid != 0 if pids is None else np.isin(pid, pids)
        ran = running_ns(
            self.ts_ns[self.switch], self.cpu[self.switch], mine, cpus, self.start_ns, self.end_ns
        )
        return ran / max(self.end_ns - self.start_ns, 1)

    def threads_per_node(self, node_of_cpu: np.ndarray) -> np.ndarray:
        """Return the mean number of the workload's threads on each node in the last part of the window, asleep or not."""
        first = round(self.end_ns - LAST * (self.end_ns - self.start_ns))
        order = np.flatnonzero(np.isin(self.pid, self.threads))
        order = order[np.argsort(self.pid[order], kind="stable")]
        length = durations_ns(self.ts_ns[order], self.pid[order], first, self.end_ns)
        length[_since(self.gone[order], self.pid[order])] = 0
        nodes = node_of_cpu[self.cpu[order]]
        return np.bincount(nodes, length, int(node_of_cpu.max()) + 1) / max(self.end_ns - first, 1)


def _since(mark: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """Tell for each event whether a mark is set at it or at an earlier event of the same owner.

    This is needed because a task is switched to once more after its exit.
    """
    number = np.arange(len(mark))
    group = np.append(True, owner[1:] != owner[:-1])[: len(mark)]
    first = np.maximum.accumulate(np.where(group, number, 0))
    return np.maximum.accumulate(np.where(mark, number, -1)) >= first


def quantities(
    seen: Observed, kind: str, machine: Machine, pinned: bool = True
) -> dict[str, Quantity]:
    """Return by name the quantities that are compared, computed from where threads ran.

    If there are two types of nodes, only the first is compared; the second follows from the first and the whole machine. If a run
    itself measures how many CPUs' worth of work it did, its busy CPUs are not compared again. If all threads start on one node,
    this node is not compared a second time as the fullest node.
    """
    nodes = np.asarray(machine.node_of_cpu)
    busy = seen.running(machine.cpus)
    per_node = np.bincount(nodes, busy, machine.nodes)
    threads = seen.threads_per_node(nodes)
    hog_cpus = np.flatnonzero(seen.running(machine.cpus, seen.hogs) > HOG_SHARE)
    types = _types(kind, set(nodes[hog_cpus].tolist()), machine, pinned)
    out = {seen.result.unit: seen.result}
    if seen.result.unit != "cpus_of_work":
        out["busy CPUs"] = Quantity(float(busy.sum()), "busy CPUs")
    for name, of_type in types.items():
        out[f"busy CPUs, {name}"] = Quantity(float(per_node[of_type].mean()), "busy CPUs")
        out[f"threads, {name}"] = Quantity(float(threads[of_type].mean()), "threads")
    if not {"node 1", "start node"} & types.keys():
        out["threads, fullest node"] = Quantity(float(threads.max()), "threads")
    if "node 1" not in types:
        out["threads, emptiest node"] = Quantity(float(threads.min()), "threads")
    return out


def unhelped(
    ts_ns: np.ndarray, cpu: np.ndarray, nr: np.ndarray, cpus: int, start: int, end: int
) -> dict[str, Quantity]:
    """Return the wasted CPUs, and how long a CPU was idle beside a waiting thread, from the lengths of the runqueues.

    The affinity of the threads is ignored. The arguments are those of
    :func:`wastedcores.simulator.measure.cpus_wasted`.
    """
    beside = (over_cpus(cpu, nr > 0) < cpus) & (over_cpus(cpu, nr >= 2) > 0)
    length = np.diff(np.r_[np.clip(ts_ns, start, end), end])
    share = float(length[beside].sum() / max(end - start, 1))
    wasted = cpus_wasted(ts_ns, cpu, nr, cpus, start, end)
    return {WASTED: Quantity(wasted, WASTED), IDLE_BESIDE: Quantity(share, IDLE_BESIDE)}


def _types(kind: str, hog_nodes: set[int], machine: Machine, pinned: bool) -> dict[str, np.ndarray]:
    """Return the types of nodes that are compared: name -> which nodes are of this type, bool (nodes,)."""
    number = np.arange(machine.nodes)
    if hog_nodes:
        return {"hog nodes": np.isin(number, list(hog_nodes))}
    if kind in ("gc", "lu") and pinned:
        return {"node 1": number == 1}
    return {"start node": number == 2} if kind == "ms" else {}
