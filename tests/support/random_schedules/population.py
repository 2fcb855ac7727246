"""The threads that the features of a schedule ask for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from support.random_schedules import bandwidth, programs
from support.random_schedules.machine import Machine
from support.random_schedules.programs import Run, SetAffinity, SetCpuset, Sleep
from support.random_schedules.tasks import DEADLINE, STOP, Group, Task, cpus_of

NAMES = ("cc1", "java", "node", "Web Content", "tmux: server", "ffmpeg", "a-b-7")


def kernel_threads(m: Machine, busy: bool) -> None:
    """Add the kernel's threads: stoppers, hotplug threads, and if they are busy, workers and ksoftirqd."""
    rng = m.rng
    for c in range(m.cpus):
        bit = 1 << c
        facts: dict[str, Any] = {"cpu": c, "kthread": True, "left": 4}
        stopper = m.add(
            f"migration/{c}", bit, pid=20 + 6 * c, prio=0, rank=STOP, policy="fifo", **facts
        )
        stopper.program = _stopper(m, c)
        m.stoppers.append(stopper)
        m.hotplug_threads.append(m.add(f"cpuhp/{c}", bit, pid=21 + 6 * c, **facts))
        if not busy:
            continue
        worker = m.add(f"kworker/{c}:1", bit, pid=22 + 6 * c, **facts)
        worker.program = programs.periodic(rng, 15, rng.randrange(40_000, 200_000), "I")
        softirqs = m.add(f"ksoftirqd/{c}", bit, pid=23 + 6 * c, **facts)
        m.softirq_threads.append(softirqs)
        softirqs.program = programs.periodic(rng, 10, rng.randrange(100_000, 300_000))
        for task in (worker, softirqs):
            m.after(rng.randrange(1, 60_000), m.timer_wake, task, 0)
    if busy:
        rcu = m.add("rcu_preempt", m.all & ~m.isolated, pid=15, kthread=True, left=4)
        rcu.program = programs.periodic(rng, 5, rng.randrange(20_000, 60_000), "I")
        m.after(rng.randrange(1, 20_000), m.timer_wake, rcu, 0)


def _stopper(m: Machine, cpu: int) -> Iterator[Any]:
    """Do what was asked for, one thing after the other (cpu_stopper_thread(), kernel/stop_machine.c, v6.12)."""
    while True:
        while m.works[cpu]:
            yield Run(m.rng.randrange(2, 6))
            m.works[cpu].pop(0)()
        yield Sleep(None, "P" if m.parked >> cpu & 1 else "S")


def masks(m: Machine, features: frozenset[str]) -> list[tuple[int, str]]:
    """Return some (mask, cpuset) from which the threads draw theirs."""
    rng, free = m.rng, m.all & ~m.isolated
    usable = cpus_of(free)
    found: list[tuple[int, str]] = []
    if "pinned" in features:
        few = rng.sample(usable, rng.randrange(1, max(2, len(usable))))
        found += [(1 << c, "/") for c in few]
    if ("bound" in features or "cpuset" in features) and len(usable) > 2:
        for number in range(rng.choice((1, 1, 2))):
            size = rng.randrange(2, len(usable))
            first = rng.randrange(len(usable))
            chosen = [usable[(first + k) % len(usable)] for k in range(size)]
            if rng.random() < 0.3:
                chosen = rng.sample(usable, size)
            mask = sum(1 << c for c in chosen)
            path = f"/set{number}" if "cpuset" in features or rng.random() < 0.6 else "/"
            if path != "/":
                m.cpusets[path] = mask
            found.append((mask, path))
    if "isolated" in features and m.isolated and rng.random() < 0.5:
        found.append((rng.choice([1 << c for c in cpus_of(m.isolated)]), "/"))
    if not found or rng.random() < 0.4:
        found.append((free, "/"))
    return found


def groups(m: Machine) -> list[Group]:
    """Return control groups with a quota, between 5 and 95 % of one or more CPUs."""
    rng, found = m.rng, []
    for number in range(rng.choice((1, 1, 2))):
        period = rng.choice((100_000, 100_000, 100_000, 50_000, 20_000, 10_000))
        cpus = rng.choice((1, 1, 2, m.cpus))
        group = Group(
            f"/limited{number}", max(1_000, int(period * cpus * rng.uniform(0.05, 0.95))), period
        )
        bandwidth.begin(m, group)
        found.append(group)
    return found


def users(m: Machine, features: frozenset[str], count: int, style: str) -> list[Task]:
    """Add threads that compute and sleep, as many as asked for."""
    rng, found = m.rng, []
    choices = masks(m, features)
    limited: list[Group | None] = [*groups(m)] if "quota" in features else [None]
    if "quota" in features and rng.random() < 0.5:
        limited.append(None)
    leader: Task | None = None
    for number in range(count):
        mask, path = rng.choice(choices)
        task = m.add(rng.choice(NAMES), mask, cpuset=path, group=rng.choice(limited))
        task.wanted = None if path != "/" or mask == m.all & ~m.isolated else mask
        if leader is not None and rng.random() < 0.3:  # a thread of the same process
            task.tgid, task.comm = leader.tgid, leader.comm
        leader = task
        if style == "hogs" or (style == "mixed" and number % 2):
            task.program = programs.hog(rng)
        else:
            task.program = programs.worker(
                rng, rng.choice((1_500, 4_000, 15_000)), rng.choice((2_000, 8_000, 30_000))
            )
        found.append(task)
    return found


def families(m: Machine, features: frozenset[str], span: int) -> None:
    """Add shells that fork and exec, and processes that start threads."""
    rng = m.rng
    choices = masks(m, features)
    usable = cpus_of(m.all & ~m.isolated)
    for _ in range(rng.randrange(1, 4)):
        mask, path = rng.choice(choices)
        shell = m.add(rng.choice(("sh", "make", "bash")), mask, cpuset=path)
        burst, rounds = rng.choice((2_000, 8_000, 25_000)), rng.randrange(1, 4)
        plain = rng.random() < 0.4
        bind = rng.random() < (0.5 if "affinity" in features else 0.15)

        def child(
            burst: int = burst, rounds: int = rounds, plain: bool = plain, bind: bool = bind
        ) -> programs.Program:
            if plain:
                return programs.worker(rng, burst, burst / 2, rounds)
            to = 1 << rng.choice(usable) if bind else None
            return programs.command(rng, rng.choice(NAMES), burst, rounds, to)

        children = rng.randrange(5, 25)
        shell.program = programs.shell(rng, children, span / children, child)


def realtime(m: Machine) -> None:
    """Add real-time threads, which run seldom enough that the kernel's limit (95 %) is never reached."""
    rng = m.rng
    for _ in range(rng.randrange(1, 4)):
        policy, level = rng.choice(("fifo", "rr")), rng.choice((1, 10, 50, 90))
        mask = (
            m.all & ~m.isolated
            if rng.random() < 0.6
            else 1 << rng.choice(cpus_of(m.all & ~m.isolated))
        )
        task = m.add("rtloop", mask, policy=policy, rank=99 - level, prio=99 - level)
        burst = rng.choice((300, 2_000, 8_000))
        task.program = programs.periodic(rng, burst, burst * rng.randrange(3, 9))


def deadline(m: Machine) -> None:
    """Add deadline threads, of which some want more than their budget and are throttled until the next period."""
    rng = m.rng
    for _ in range(rng.randrange(1, 3)):
        period = rng.choice((10_000, 30_000, 100_000))
        runtime = int(period * rng.uniform(0.1, 0.4))
        task = m.add("dlloop", m.all & ~m.isolated, policy="deadline", rank=DEADLINE, prio=-1)
        task.dl_runtime = task.dl_budget = runtime
        task.dl_period = period
        task.program = programs.periodic(rng, int(runtime * rng.choice((0.5, 0.9, 2.5))), period)


def pairs(m: Machine) -> None:
    """Add clients with servers on a mostly idle machine; the server is woken on the client's CPU."""
    rng = m.rng
    for _ in range(rng.randrange(1, min(4, m.cpus) + 1)):
        server = m.add(rng.choice(("dbus-daemon", "Xorg", "redis")), m.all & ~m.isolated, left=50)
        server.program = programs.server(rng)
        client = m.add(rng.choice(("bash", "gtk", "worker")), m.all & ~m.isolated, cpu=server.cpu)
        client.program = programs.client(
            rng, server, rng.choice((5_000, 15_000, 40_000)), rng.random() < 0.85
        )


def recorder(m: Machine) -> tuple[str, ...]:
    """Add the threads of a recorder, and return their names."""
    rng = m.rng
    if rng.random() < 0.6:
        task = m.add("perf", m.all)
        task.program = programs.worker(rng, rng.choice((200, 1_500)), rng.choice((5_000, 30_000)))
        return ("perf",)
    for c in range(m.cpus):  # trace-cmd has a reader for every CPU, which is not bound
        task = m.add("trace-cmd", m.all, cpu=c)
        task.program = programs.worker(rng, 150, rng.choice((10_000, 50_000)))
    return ("trace-cmd",)


def administrators(m: Machine, features: frozenset[str], chosen: list[Task], span: int) -> None:
    """Add threads that change affinities, cpusets, and the set of online CPUs at random moments."""
    rng = m.rng
    usable = cpus_of(m.all & ~m.isolated)
    requests: list[Any] = []
    if "affinity" in features and chosen:
        style = rng.choice(("single", "single", "several", "together"))
        target = 1 << rng.choice(usable)
        for _ in range(rng.randrange(1, 7)):
            some = rng.sample(chosen, min(len(chosen), rng.randrange(1, 4)))
            mask = 1 << rng.choice(usable) if style == "single" else target
            if style == "several":
                mask = sum(1 << c for c in rng.sample(usable, rng.randrange(1, len(usable) + 1)))
            requests.append(SetAffinity(lambda some=some: some, mask))  # type: ignore[misc]
        if rng.random() < 0.4:
            requests.append(SetAffinity(None, 1 << rng.choice(usable)))
    if "cpuset" in features:
        for path in [*m.cpusets] or []:
            for _ in range(rng.randrange(1, 3)):
                size = rng.randrange(1, len(usable) + 1)
                requests.append(SetCpuset(path, sum(1 << c for c in rng.sample(usable, size))))
    if "hotplug" in features and m.cpus > 1:
        for cpu in rng.sample(range(m.cpus), rng.randrange(1, m.cpus)):
            requests.append(programs.Plug(cpu, False))
            if rng.random() < 0.6:
                requests.append(programs.Plug(cpu, True))
    if not requests:
        return
    if "hotplug" not in features:
        rng.shuffle(requests)
    pauses = [int(span / len(requests) * rng.uniform(0.1, 1.2)) for _ in requests]
    task = m.add(rng.choice(("systemd", "taskset", "tuned")), m.all & ~m.isolated)
    task.program = programs.administrator(rng, pauses, requests)
