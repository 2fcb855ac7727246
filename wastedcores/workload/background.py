"""Background load of a workload: kernel threads on every CPU, and hogs."""

from __future__ import annotations

from wastedcores.topology.machine import Machine
from wastedcores.workload.builder import Workload
from wastedcores.workload.script import Script

MS = 1_000_000
SECOND = 1_000_000_000
#: CPU time of a kworker, and the time between the kworkers of neighbouring CPUs, measured on the recorded idle guests
KWORKER_NS = 8_000
KWORKER_APART_NS = 12 * MS


def add_kworkers(
    w: Workload,
    machine: Machine,
    seed: int,
    parked: int | None = None,
    period_ns: int = SECOND,
) -> None:
    """Add a kworker that runs for 8 us once a second to each online CPU except ``parked``, as on the recorded idle guests."""
    offset = (seed * 0xD1342543DE82EF95 >> 16) % SECOND
    work = Script().loop().compute(KWORKER_NS).sleep(period_ns).end()
    for cpu in machine.online_cpus:
        if cpu != parked:
            at = (offset + (machine.cpus - 1 - cpu) * KWORKER_APART_NS) % period_ns
            w.task(f"kworker/{cpu}", work, allowed=[cpu], cpu=cpu, start_ns=at, daemon=True)


def add_transients(
    w: Workload,
    machine: Machine,
    period_ns: int,
    low_ns: int,
    high_ns: int,
    comm: str = "noise",
) -> None:
    """Add to each online CPU a kernel thread that runs for a short time now and then, even if a user thread is running there.

    These are the transient threads of paper 3.3 ("logging or irq handlers"). Each makes its CPU busy for less than a
    millisecond, but moves that balancing makes in this time are hard to undo.
    """
    noise = Script().loop().sleep_exponential(period_ns, 8 * period_ns)
    noise.compute(low_ns, high_ns).end()
    for cpu in machine.online_cpus:
        w.task(f"{comm}/{cpu}", noise, allowed=[cpu], cpu=cpu, daemon=True)


def add_hogs(w: Workload, count: int, cpu: int = 0, apart_ns: int = 0) -> None:
    """Add single-threaded programs that never stop computing, like the paper's R (3.1)."""
    hog = Script().loop().compute(SECOND).end()
    for i in range(count):
        session = w.session()
        w.task(f"R-{i}", hog, session=session, cpu=cpu, start_ns=i * apart_ns, daemon=True)
