"""What happened in a run, in numbers: busy and wasted CPUs, episodes, moves, wakeups, latencies, CPU time per kind of task."""

from __future__ import annotations

import re
from collections import Counter

from .reading import BIND, MIGRATE, NEW, SWITCH, WAKE, Run

#: names of the tasks of the work, with an optional number behind them
WORKERS = re.compile(r"(st|cc1|n\d+|wk|b|A|B|p\d+|t|m)(?:-\d+)?$")
#: an idle time beside a waiting thread counts as an episode from this length on, in ns
EPISODE_NS = 100_000
#: latencies are judged where there are at least this many wakeups
ENOUGH = 50


def worker(comm: str) -> str:
    """Return the kind of a task of the work by its name; empty for other tasks."""
    found = WORKERS.match(comm)
    return found[1] if found else ""


def helped(waiting: list[int], idle: int) -> int:
    """Return how many waiting threads, given by the CPUs that they may use, could have an idle CPU of their own."""
    wanted = [mask & idle for mask in waiting if mask & idle]
    if len(set(wanted)) <= 1:
        return min(len(wanted), wanted[0].bit_count()) if wanted else 0
    owner: dict[int, int] = {}

    def found(thread: int, tried: set[int]) -> bool:
        """Find a CPU for a thread, where its owner has to look for another one if need be."""
        left = wanted[thread]
        while left:
            cpu = left & -left
            left ^= cpu
            if cpu not in tried:
                tried.add(cpu)
                if cpu not in owner or found(owner[cpu], tried):
                    owner[cpu] = thread
                    return True
        return False

    return sum(found(thread, set()) for thread in range(len(wanted)))


class _State:
    """Which task runs and waits where."""

    def __init__(self, run: Run, online: list[int], first: dict[str, int]):
        self.kinds = {pid: worker(name) for pid, name in run.names.items()}
        self.every = sum(1 << cpu for cpu in online)
        self.allowed = {pid: first.get(kind, self.every) for pid, kind in self.kinds.items()}
        self.running: dict[int, int] = {}
        self.queued: dict[int, int] = {}
        self.waiting: set[int] = set()
        self.length: Counter[int] = Counter()
        self._begin(run)

    def _begin(self, run: Run) -> None:
        """A task that is switched without having been woken was there before."""
        seen = set()
        for e in run.events:
            if e.kind in (WAKE, NEW):
                seen.add(e.task)
            if e.kind == SWITCH:
                for pid, leaves in ((e.other, True), (e.task, False)):
                    if pid and pid not in seen:
                        seen.add(pid)
                        self.put(pid, e.cpu)
                        if leaves:
                            self.running.setdefault(e.cpu, pid)
                        elif self.kinds[pid]:
                            self.waiting.add(pid)

    def put(self, pid: int, cpu: int) -> None:
        self.drop(pid)
        self.queued[pid] = cpu
        self.length[cpu] += 1

    def drop(self, pid: int) -> None:
        cpu = self.queued.pop(pid, None)
        if cpu is not None:
            self.length[cpu] -= 1

    def runs(self, pid: int) -> bool:
        return pid in self.queued and self.running.get(self.queued[pid]) == pid


def measure(run: Run, online: list[int], first: dict[str, int]) -> dict[str, float]:
    """Measure a run between its marks.

    ``first`` has the CPUs that tasks of a kind may use at the beginning, as bits.
    """
    now = _State(run, online, first)
    start, end = run.window
    totals: Counter[str] = Counter()
    woken: dict[int, int] = {}
    last: dict[int, int] = {}
    latencies: list[int] = []
    episodes: list[int] = []
    began = None
    before = start
    for e in sorted(run.events, key=lambda e: e.ts_ns):
        since, until = max(before, start), min(e.ts_ns, end)
        if until > since:
            length = until - since
            idle = sum(1 << cpu for cpu in online if not now.length[cpu])
            waste = helped([now.allowed[p] for p in now.waiting], idle) if now.waiting else 0
            totals["busy"] += length * (len(online) - idle.bit_count())
            totals["wasted"] += length * waste
            totals["beside"] += length * bool(waste)
            if waste and began is None:
                began = since
            if not waste and began is not None:
                episodes.append(since - began)
                began = None
            for cpu in online:
                if kind := now.kinds.get(now.running.get(cpu, 0)):
                    totals[f"of {kind}"] += length
        before = max(before, e.ts_ns)
        inside = start <= e.ts_ns <= end
        mine = bool(now.kinds.get(e.task))
        if e.kind == SWITCH:
            if e.other and e.runnable:
                if now.queued.get(e.other) != e.cpu:
                    now.put(e.other, e.cpu)
                if now.kinds[e.other]:
                    now.waiting.add(e.other)
            elif e.other:
                now.drop(e.other)
                now.waiting.discard(e.other)
            now.running[e.cpu] = e.task
            if e.task:
                if now.queued.get(e.task) != e.cpu:
                    now.put(e.task, e.cpu)
                now.waiting.discard(e.task)
                last[e.task] = e.cpu
                at = woken.pop(e.task, None)
                if at is not None and inside and mine:
                    latencies.append(e.ts_ns - at)
        elif e.kind in (WAKE, NEW) and not now.runs(e.task):
            now.put(e.task, e.cpu)
            if mine:
                now.waiting.add(e.task)
                if e.kind == WAKE:
                    woken[e.task] = e.ts_ns
                    if inside and e.task in last:
                        totals["wakeups"] += 1
                        totals["same"] += last[e.task] == e.cpu
        elif e.kind == MIGRATE:
            totals["moves"] += mine and inside
            if e.task in now.queued and not now.runs(e.task):
                now.put(e.task, e.cpu)
        elif e.kind == BIND:
            now.allowed[e.task] = e.other
    if began is not None:
        episodes.append(max(0, end - began))
    return _numbers(totals, episodes, sorted(latencies), end - start)


def _numbers(
    totals: Counter[str], episodes: list[int], latencies: list[int], length: int
) -> dict[str, float]:
    seconds = length / 1e9
    out = {
        "seconds": seconds,
        "busy CPUs": totals["busy"] / length,
        "CPUs wasted": totals["wasted"] / length,
        "idle beside waiting": totals["beside"] / length,
        "episodes per s": sum(x >= EPISODE_NS for x in episodes) / seconds,
        "longest episode, ms": max(episodes, default=0) / 1e6,
        "moves per s": totals["moves"] / seconds,
    }
    if totals["wakeups"] >= ENOUGH:
        out["wakeups on the last CPU"] = totals["same"] / totals["wakeups"]
        for percent in (50, 95, 99):
            at = min(len(latencies) - 1, percent * len(latencies) // 100)
            out[f"latency {percent} %, us"] = latencies[at] / 1000
    # the last kind of task is what the others leave of the busy CPUs
    for kind in sorted(k for k in totals if k.startswith("of "))[:-1]:
        out[f"CPUs {kind}"] = totals[kind] / length
    return out
