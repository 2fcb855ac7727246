"""The tick-and-balance skeleton of the replay as a SimPy program: the peer of ``bench_replay``.

It is what one would write with SimPy for the same machine. A process per CPU runs tasks, and another one ticks while the CPU is
busy. Wakeups are timeouts. At each tick the CPU balances as v4.1 does: intervals and groups of every level, the designated CPU,
the busiest group by average load, its busiest queue, the tasks to move. It does less than the engine, because it leaves out load
tracking (a task's load is its weight), task groups, newidle balancing, active balancing and traces.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import simpy

from wastedcores.topology.domains import Domains

MS = 1_000_000
TICK = 4 * MS
LATENCY, MIN_GRAN = 24 * MS, 3 * MS


@dataclass(eq=False)
class Task:
    """A task that computes for ``compute`` ns (low, high), then sleeps for ``sleep`` (None: never), on the CPUs ``allowed``."""

    compute: tuple[int, int]
    sleep: tuple[int, int] | None
    allowed: frozenset[int]
    left: int = 0
    vruntime: int = 0
    ran: int = 0
    cpu: int = 0


@dataclass(eq=False)
class Level:
    """One level of one CPU."""

    groups: list[list[int]]
    flags: int
    min_interval: int
    max_interval: int
    busy_factor: int
    pct: int
    balance_cpu: int
    interval: int = 0
    last: int = 0
    local: int = 0


@dataclass(eq=False)
class Cpu:
    """A runqueue."""

    number: int
    levels: list[Level]
    siblings: list[int]
    queue: list[Task] = field(default_factory=list)
    curr: Task | None = None
    min_vruntime: int = 0
    since: int = 0
    next_balance: int = 0
    loads: list[int] = field(default_factory=lambda: [0] * 5)


def levels_of(domains: Domains, cpus: int) -> list[list[Level]]:
    """Return the levels of every CPU, from the domains as the kernel builds them."""
    a = domains.to_arrays()
    sets = [a.set_cpus[a.set_ptr[i] : a.set_ptr[i + 1]].tolist() for i in range(len(a.set_ptr) - 1)]
    out = []
    for cpu in range(cpus):
        mine = []
        for d in range(a.cpu_ptr[cpu], a.cpu_ptr[cpu + 1]):
            ring = a.ring_group[a.ring_ptr[a.domain_ring[d]] : a.ring_ptr[a.domain_ring[d] + 1]]
            groups = [sets[a.group_span[g]] for g in ring]
            level = Level(
                groups,
                int(a.domain_flags[d]),
                int(a.min_interval[d]) * MS,
                int(a.max_interval[d]) * MS,
                int(a.busy_factor[d]),
                int(a.imbalance_pct[d]),
                int(a.group_balance_cpu[ring[0]]),
            )
            level.interval = level.min_interval
            mine.append(level)
        out.append(mine)
    return out


class Skeleton:
    """The machine, its tasks and their behaviour."""

    def __init__(self, domains: Domains, cpus: int, tasks: list[Task], seed: int) -> None:
        self.env = simpy.Environment()
        self.random = random.Random(seed)
        self.ticks = self.wakeups = self.stretches = self.switches = self.passes = 0
        levels = levels_of(domains, cpus)
        self.cpus = [
            Cpu(c, levels[c], levels[c][min(1, len(levels[c]) - 1)].groups[0]) for c in range(cpus)
        ]
        self.work = [self.env.event() for _ in range(cpus)]
        self.runs = [self.env.process(self.running(c)) for c in self.cpus]
        for c in self.cpus:
            self.env.process(self.ticking(c))
        for t in tasks:
            t.left = self.random.randint(*t.compute)
            self.enqueue(self.cpus[t.cpu], t)

    @property
    def events(self) -> int:
        """The number of ticks, ends of stretches and wakeups."""
        return self.ticks + self.stretches + self.wakeups

    # --- one CPU ------------------------------------------------------------------------------------------------------

    def nr(self, c: Cpu) -> int:
        return len(c.queue) + (c.curr is not None)

    def enqueue(self, c: Cpu, t: Task) -> None:
        t.cpu = c.number
        c.queue.append(t)
        if not self.work[c.number].triggered:
            self.work[c.number].succeed()

    def account(self, c: Cpu) -> None:
        t = c.curr
        if t is None:
            return
        delta = self.env.now - c.since
        c.since = self.env.now
        t.left -= delta
        t.ran += delta
        t.vruntime += delta
        c.min_vruntime = max(c.min_vruntime, t.vruntime)

    def running(self, c: Cpu):
        env = self.env
        while True:
            while not c.queue:
                self.work[c.number] = env.event()
                yield self.work[c.number]
            t = min(c.queue, key=lambda task: task.vruntime)
            c.queue.remove(t)
            c.curr = t
            t.ran = 0
            c.since = env.now
            self.switches += 1
            while True:
                try:
                    yield env.timeout(max(t.left, 1))
                except simpy.Interrupt:
                    self.account(c)
                    c.curr = None
                    c.queue.append(t)
                    break
                self.account(c)
                self.stretches += 1
                t.left = self.random.randint(*t.compute)
                if t.sleep is not None:
                    c.curr = None
                    env.process(self.sleeping(t))
                    break

    def sleeping(self, t: Task):
        yield self.env.timeout(self.random.randint(*t.sleep))
        self.wakeups += 1
        c = self.cpus[t.cpu]
        if self.nr(c):
            for n in c.siblings:
                if n in t.allowed and not self.nr(self.cpus[n]):
                    c = self.cpus[n]
                    break
        t.vruntime = max(t.vruntime, c.min_vruntime - LATENCY // 2)
        self.enqueue(c, t)
        if c.curr is not None and c.curr.vruntime - t.vruntime > MIN_GRAN:
            self.runs[c.number].interrupt()

    # --- tick and balance ---------------------------------------------------------------------------------------------

    def ticking(self, c: Cpu):
        env = self.env
        while True:
            if not self.nr(c):
                yield self.work[c.number]
            yield env.timeout(TICK - (env.now - 50 * c.number) % TICK)
            self.ticks += 1
            self.account(c)
            load = 1024 * self.nr(c)
            for i in range(5):
                c.loads[i] = (c.loads[i] * ((1 << i) - 1) + load) >> i
            t = c.curr
            if t is not None and c.queue and t.ran > max(LATENCY // self.nr(c), MIN_GRAN):
                self.runs[c.number].interrupt()
            if env.now >= c.next_balance:
                self.rebalance(c)
            if self.nr(c) > 1:  # the kick: balance for the CPUs that do not tick
                for other in self.cpus:
                    if not self.nr(other) and env.now >= other.next_balance:
                        self.rebalance(other)

    def rebalance(self, c: Cpu) -> None:
        now = self.env.now
        busy = self.nr(c) > 0
        soonest = now + 60_000 * MS
        for level in c.levels:
            interval = level.interval * (level.busy_factor if busy else 1)
            if now >= level.last + interval:
                level.last = now
                if not self.balance(c, level, busy):
                    soonest = min(soonest, now + interval)
                    break
            soonest = min(soonest, level.last + interval)
        c.next_balance = soonest

    def balance(self, c: Cpu, level: Level, busy: bool) -> bool:
        """Do one load_balance(); return whether this CPU goes on with the levels above."""
        self.passes += 1
        designated = next(
            (n for n in level.groups[0] if not self.nr(self.cpus[n])), level.balance_cpu
        )
        if designated != c.number:
            return False
        local = busiest = None
        local_load = busiest_load = total = capacity = 0
        for group in level.groups:
            load = sum(
                max(self.cpus[n].loads[1], 1024 * len(self.cpus[n].queue)) if c.number in group else
                min(self.cpus[n].loads[1], 1024 * self.nr(self.cpus[n])) for n in group
            )  # fmt: skip
            total += load
            capacity += len(group)
            if c.number in group:
                local, local_load = group, load // len(group)
            elif load // len(group) > busiest_load:
                busiest, busiest_load = group, load // len(group)
        if (
            busiest is None
            or local is None
            or local_load >= busiest_load
            or local_load >= total // capacity
        ):
            level.interval = min(level.interval * 2, level.max_interval)
            return True
        if busy and 100 * busiest_load <= level.pct * local_load:
            level.interval = min(level.interval * 2, level.max_interval)
            return True
        imbalance = min(busiest_load - total // capacity, total // capacity - local_load)
        source = max((self.cpus[n] for n in busiest), key=self.nr)
        moved = 0
        for t in list(source.queue):
            if moved * 1024 > imbalance:
                break
            if c.number in t.allowed:
                source.queue.remove(t)
                t.vruntime += c.min_vruntime - source.min_vruntime
                self.enqueue(c, t)
                moved += 1
        level.interval = (
            level.min_interval if moved else min(level.interval * 2, level.max_interval)
        )
        return True
