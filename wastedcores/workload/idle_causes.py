"""Small workloads, one for each cause for which Linux 6.12 leaves a CPU idle while a thread waits (docs/linux-6.12.md).

Each workload has just the threads that its cause needs. Pinned threads keep CPUs busy. A thread that has to begin on a certain
CPU is bound to this CPU at first, and is allowed to move before it waits. At the beginning every CPU runs a thread for 1 us, so
that the trace also has events of the CPUs that stay idle afterwards. Unless a docstring says otherwise, the seed decides only
the kernel's own random draws.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from wastedcores.errors import WorkloadError
from wastedcores.topology.machine import Machine
from wastedcores.workload.builder import Measure, Workload
from wastedcores.workload.script import Script

#: time from one fork to the next, as recorded
_FORK_NS = (40_000, 52_000)
_SECOND = 1_000_000_000
#: a thread sets its nice value after this time
_NICE_NS = 10_000


def recorded_nice(
    machine: Machine, seed: int, nice: str = "0,0,5,10,-5", seconds: int = 3
) -> Workload:
    """Make threads that compute on one CPU for some time. The result is the first thread's share of the CPU time.

    A creator on the machine's last CPU forks the threads there and then moves to CPU 0. Each thread sets its nice value when it
    first runs.
    """
    if machine.cpus < 2:
        raise WorkloadError(
            "needs a machine of two CPUs: one for the threads, one for their creator."
        )
    try:
        values = [int(value) for value in str(nice).split(",")]
    except ValueError:
        raise WorkloadError(
            f"nice={nice}; expected whole numbers from -20 to 19 with commas in between, such as 0,0,5."
        ) from None
    cpu = machine.cpus - 1
    w = Workload("recorded-nice", Measure("share_of_first", "start", "end", of="n"))
    creator = Script().mark("start")
    for i, value in enumerate(values):
        body = Script().compute(_NICE_NS).nice(value).loop().compute(_SECOND).end()
        thread = w.template(f"n{value}-{i}", body, daemon=True)
        creator.compute(*_FORK_NS).fork(thread, thread=True)
    creator.affinity([0]).sleep(seconds * _SECOND).mark("end")
    w.task("creator", creator, allowed=[cpu], cpu=cpu)
    return w


US, MS = 1_000, 1_000_000
#: the threads begin when every CPU has balanced once while it was idle
START_NS = 10 * MS
#: the work of a thread that outlives these replays
LONG_NS = 10_000 * MS


def _begin(name: str, machine: Machine, least: int) -> Workload:
    """Return a workload whose trace shows every CPU; the machine must have at least ``least`` CPUs."""
    if machine.cpus < least:
        raise WorkloadError(
            f"machine {machine.name!r} has {machine.cpus} CPUs; this workload needs {least}."
        )
    w = Workload(name, random_phase=False)
    for cpu in range(machine.cpus):
        w.task(f"start-{cpu}", Script().compute(US), allowed=[cpu], cpu=cpu, start_ns=MS)
    return w


def _add(w: Workload, comm: str, script: Script, cpu: int, daemon: bool = True) -> None:
    """Add a thread that begins on one CPU and is bound to it until its script says otherwise."""
    w.task(comm, script, allowed=[cpu], cpu=cpu, start_ns=START_NS, daemon=daemon)


def _pin(w: Workload, cpus: Iterable[int]) -> None:
    """Add to each of some CPUs a pinned thread that keeps it busy."""
    for cpu in cpus:
        _add(w, "pinned", Script().compute(LONG_NS), cpu)


def _bursts(w: Workload, cpu: int, work_ns: int, at_ns: int, free: Iterable[int] = ()) -> None:
    """Add a thread that computes once every 40 ms from ``at_ns`` on. From then on it may run on the CPUs ``free``, if given."""
    clock = w.timer()
    script = Script().timer(clock, at_ns)
    if free:
        script.affinity(free)
    script.loop().compute(work_ns).timer(clock, 40 * MS, absolute=True).end()
    _add(w, "burst", script, cpu)


def other_cache(machine: Machine, seed: int, workers: int = 2, rounds: int = 50) -> Workload:
    """Wake threads every 20 ms on a last-level cache whose CPUs are all busy, while the CPUs of another cache are idle."""
    w = _begin("idle-other-cache", machine, 2)
    everywhere = range(machine.cpus)
    _pin(w, (c for c in everywhere if machine.llc_of_cpu[c] == machine.llc_of_cpu[0]))
    go = w.semaphore()
    for _ in range(workers):
        back = Script().loop().affinity([0]).affinity(everywhere)
        _add(w, "worker", back.wait(go).compute(2 * MS).end(), 0)
    waker = Script().sleep(20 * MS).loop(rounds).sleep(20 * MS).post(go, workers).end()
    _add(w, "waker", waker, 0, daemon=False)
    return w


def unscanned(machine: Machine, seed: int, workers: int = 3) -> Workload:
    """Take a CPU offline, and 1 ms later wake threads of a busy CPU while all other CPUs of their cache are idle."""
    w = _begin("idle-unscanned", machine, 3)
    _pin(w, [0])
    go = w.semaphore()
    for _ in range(workers):
        _add(w, "worker", Script().affinity(range(machine.cpus)).wait(go).compute(2 * MS), 0)
    w.hotplug(START_NS + 90 * MS, machine.cpus - 1, False)
    _add(w, "waker", Script().sleep(91 * MS).post(go, workers).sleep(20 * MS), 0, daemon=False)
    return w


def requeued(machine: Machine, seed: int, rounds: int = 50) -> Workload:
    """Let a thread that had more than its share of a busy CPU sleep for 0.2 ms. It may run on every CPU when it wakes."""
    w = _begin("idle-requeued", machine, 2)
    _pin(w, [0])
    loop = Script().loop(rounds).affinity([0]).compute(5 * MS).affinity(range(machine.cpus))
    _add(w, "sleeper", loop.sleep(200 * US).compute(2 * MS).end(), 0, daemon=False)
    return w


def sleeper(machine: Machine, seed: int, pinned: bool = True, length_ms: int = 1000) -> Workload:
    """Give the first cache a thread too many, while the second has an idle CPU and a sleeping thread that is still queued.

    Every 40 ms a thread runs for 1 ms while another thread waits for the same CPU, and then it naps. So it stays queued. 0.5 ms
    after the nap began, the tick of the overloaded CPU wakes the idle CPU, which balances.
    """
    w = _begin("idle-sleeper", machine, 4)
    half, everywhere, at_ns = machine.cpus // 2, range(machine.cpus), 4 * MS + MS // 2
    clock = w.timer()
    nap = Script().timer(clock, at_ns).loop()
    if not pinned:
        nap.affinity([half]).affinity(everywhere)
    _add(w, "nap", nap.compute(MS).timer(clock, 40 * MS, absolute=True).end(), half)
    for cpu in range(machine.cpus - 1):
        _bursts(w, cpu, 5 * MS, at_ns + 10 * US)
    clock = w.timer()
    stray = Script().timer(clock, at_ns + 20 * US).affinity(everywhere).loop().compute(5 * MS)
    stray.affinity([0]).affinity(everywhere).timer(clock, 40 * MS, absolute=True).end()
    _add(w, "stray", stray, 0)
    _add(w, "end", Script().sleep(length_ms * MS), machine.cpus - 1, daemon=False)
    return w


def idle_far_away(machine: Machine, seed: int, idle: int = 1, length_ms: int = 1000) -> Workload:
    """Every 40 ms, let all CPUs compute for 4 ms except ``idle`` CPUs of node 2; two hops away, node 0 has a thread too many."""
    w = _begin("idle-far-away", machine, 4)
    far = [c for c in range(machine.cpus) if machine.node_of_cpu[c] == 2]
    if not 1 <= idle <= len(far):
        raise WorkloadError(f"idle={idle}; expected 1 to {len(far)}, the CPUs of node 2.")
    for cpu in [0, *(c for c in range(machine.cpus) if c not in far[:idle])]:
        _bursts(w, cpu, 4 * MS - (20 * US if cpu == 0 else 0), 6 * MS, range(machine.cpus))
    _add(w, "end", Script().sleep(length_ms * MS), far[0], daemon=False)
    return w


def allowance(machine: Machine, seed: int, threads: int = 2, length_ms: int = 1000) -> Workload:
    """Every 40 ms, wake all threads of CPU 0, which compute for 8 ms, while the only CPU of the other node is idle."""
    w = _begin("idle-allowance", machine, 2)
    for _ in range(threads):
        _bursts(w, 0, 8 * MS, MS, range(machine.cpus))
    _add(w, "end", Script().sleep(length_ms * MS), machine.cpus - 1, daemon=False)
    return w


def chance(machine: Machine, seed: int) -> Workload:
    """End the only thread of CPU 1 while a thread that may move waits on CPU 0."""
    w = _begin("idle-chance", machine, 2)
    _pin(w, [0])
    waiter = Script().affinity(range(machine.cpus)).compute(40 * MS)
    _add(w, "waiter", waiter, 0, daemon=False)
    _add(w, "short", Script().compute(15 * MS + MS // 2), 1)
    return w


def interval(machine: Machine, seed: int) -> Workload:
    """Start a thread on the busy CPU 0. This thread may run only there and on the first CPU of the machine's other half."""
    w = _begin("idle-interval", machine, 2)
    _pin(w, [0])
    late = Script().affinity([0, machine.cpus // 2]).compute(400 * MS)
    _add(w, "late", late, 0, daemon=False)
    return w


def pinned(machine: Machine, seed: int, pinned: int = 2) -> Workload:
    """On a CPU that pinned threads have shared for a while, start a thread that may run anywhere. Another CPU is idle."""
    w = _begin("idle-pinned", machine, 2)
    _pin(w, [0] * pinned)
    late = Script().affinity(range(machine.cpus)).compute(400 * MS)
    start_ns = 1000 * MS + Random(seed).randrange(1000 * MS)
    w.task("late", late, allowed=[0], cpu=0, start_ns=start_ns)
    return w


def confined(machine: Machine, seed: int, other: int = 2, threads: int = 3) -> Workload:
    """Confine threads to two CPUs of node 0 and two CPUs of another node, and start all threads on node 0."""
    w = _begin("idle-confined", machine, 8)
    here, there = (
        [c for c in range(machine.cpus) if machine.node_of_cpu[c] == node][:2]
        for node in (0, other)
    )
    if len(there) < 2:
        raise WorkloadError(f"machine {machine.name!r} has no node {other} with two CPUs.")
    for i in range(threads):
        confined = Script().affinity([*here, *there]).compute(400 * MS)
        _add(w, "confined", confined, here[i % 2], daemon=False)
    return w


def left_out(machine: Machine, seed: int, pinned: int = 2) -> Workload:
    """Pin a thread to each CPU of the last node (``pinned`` threads to its first CPU); start a movable thread on its last CPU."""
    if pinned < 1:
        raise WorkloadError(f"pinned={pinned}; expected 1 or more threads on the first CPU.")
    w = _begin("idle-left-out", machine, 4)
    last = [c for c in range(machine.cpus) if machine.node_of_cpu[c] == machine.nodes - 1]
    _pin(w, [*last[:1] * (pinned - 1), *last])
    late = Script().affinity(range(machine.cpus)).compute(400 * MS)
    _add(w, "late", late, last[-1], daemon=False)
    return w


def hidden(machine: Machine, seed: int, busy: bool = True, rounds: int = 3) -> Workload:
    """Wake two threads on CPU 2 after a long sleep, just before CPU 0 becomes idle. Another thread keeps CPU 1 busy."""
    w = _begin("idle-hidden", machine, 3)
    _pin(w, [1] * busy)
    clock = w.timer()
    brief = Script().timer(clock, 1000 * MS - 100 * US).loop(rounds).compute(200 * US)
    _add(w, "brief", brief.timer(clock, 1000 * MS, absolute=True).end(), 0)
    for _ in range(2):
        clock = w.timer()
        woken = Script().timer(clock, 1000 * MS).affinity([0, 2]).loop(rounds).compute(60 * MS)
        woken.affinity([2]).affinity([0, 2]).timer(clock, 1000 * MS, absolute=True).end()
        _add(w, "woken", woken, 2, daemon=False)
    return w
