"""Groups of threads that compute under one policy (Sites, Anomalies in Linux Processor Use, Figures 1 and 2).

A main program starts one thread, waits for it, then starts two, then three, and so on. All threads do the same work.
"""

from __future__ import annotations

from wastedcores.errors import WorkloadError
from wastedcores.topology.machine import Machine
from wastedcores.workload.builder import Measure, Workload
from wastedcores.workload.script import Script

US, MS = 1_000, 1_000_000
#: time of a pthread_create(), as in the recordings of the guests
CREATE_NS = 24 * US
#: the pause between two groups of the recorded program
REST_NS = 50 * MS
#: the priority of the recorded program under fifo and rr
PRIORITY = 50
START, END = "groups start", "groups end"


def groups(
    machine: Machine, seed: int, most: int = 12, work_ms: float = 1000.0, policy: str = "other"
) -> Workload:
    """Run groups of 1, 2, ... ``most`` threads. Each group begins when all threads of the group before it have ended.

    The seed chooses the phase of a tick at which the program begins. A thread works for ``work_ms`` on a CPU of nominal speed.
    The main program and all threads have the policy ``other``, ``batch``, ``idle``, ``fifo`` or ``rr``. The workload
    measures ``groups_s``, the time that all groups take, in seconds.
    """
    return _groups("groups", machine, most, work_ms, policy, 0, 0)


def recorded_groups(
    machine: Machine,
    seed: int,
    policy: str = "other",
    most: int = 8,
    work_ms: float = 200.0,
    cpu: int = 0,
) -> Workload:
    """Run the program of the guests' recordings, which works like :func:`groups` but sleeps for 50 ms after each group."""
    return _groups("recorded-groups", machine, most, work_ms, policy, REST_NS, cpu)


def _groups(
    name: str, machine: Machine, most: int, work_ms: float, policy: str, rest_ns: int, cpu: int
) -> Workload:
    if not 1 <= most <= 64 or work_ms <= 0:
        raise WorkloadError(
            f"most={most} threads with {work_ms} ms of work; expected 1 to 64 threads and more than 0 ms."
        )
    if not 0 <= cpu < machine.cpus:
        raise WorkloadError(
            f"cpu={cpu}; machine {machine.name!r} has CPUs 0 to {machine.cpus - 1}."
        )
    w = Workload(name, Measure("groups_s", START, END))
    # the main program joins the threads in the order of their creation
    done = [w.semaphore() for _ in range(most)]
    main = Script().affinity(range(machine.cpus))
    if policy != "other":  # a new program already has ``other``
        main.policy(policy, PRIORITY if policy in ("fifo", "rr") else 0)
    main.compute(CREATE_NS).mark(START)
    for n in range(1, most + 1):
        main.mark(f"group {n} start")
        for i in range(n):
            body = Script().compute(round(work_ms * MS)).post(done[i])
            main.compute(CREATE_NS).fork(w.template(f"g{n}-{i}", body), thread=True)
        for i in range(n):
            main.wait(done[i], "block")
        main.mark(f"group {n} end")
        if rest_ns:
            main.sleep(rest_ns)
    w.task("groups", main.mark(END), allowed=[cpu], cpu=cpu)
    return w
