"""The background of the recorded workloads: the kernel threads of the guest, and the recorder that starts everything.

The properties of the guest are the same in all its runs and were measured on the recordings: when its kernel began to count
seconds, when the recorder began, how long a fork takes. The page counters follow mm/vmstat.c, v4.1. Once a second, each CPU
whose counters changed folds them in a kworker that is bound to it. If the counters of a CPU did not change, its kworker sleeps
until the shepherd wakes it: the shepherd examines all CPUs once a second and wakes the kworkers of the CPUs whose counters
changed. A kworker is often the only task that runs on an idle CPU of a node. When the kworker goes to sleep again, this CPU can
pull tasks, because newidle balancing needs no designated CPU.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from wastedcores.topology.machine import Machine
from wastedcores.workload.builder import Workload
from wastedcores.workload.script import Script

US = 1_000
MS = 1_000_000
HZ = 250
TICK_NS = 4 * MS
#: the kernel threads begin one after the other during this time, before all other tasks
LEAD_NS = 40 * MS
#: the moment in each second of the guest's clock at which jiffies were a whole number of seconds
WHOLE_SECOND = 230  # ticks: 0.920 s
#: page counters are folded once a second (sysctl_stat_interval)
INTERVAL = HZ
#: time from the request of a grace period to the creation of the first thread, and length of the grace period in jiffies
ASKED_NS = 12 * US
GRACE_JIFFIES = 5
#: time from one fork to the next
FORK_NS = (43 * US, 48 * US)
#: time for which a new process runs before it has a session of its own
SETSID_NS = (50 * US, 70 * US)


@dataclass(frozen=True)
class Boot:
    """The boot of a guest, as measured on the recordings. An observation that was made twice is listed twice."""

    shepherds: tuple[int, ...]  #: CPUs on which the shepherd ran
    #: the tick of the guest's clock at which the shepherd runs for the first time and all CPUs fold their counters
    first_fold: int
    #: for each kind of run, the tick of the guest's clock at which it began after a boot of the usual speed
    began: dict[str, int]
    #: for each kind of run, by how many ticks the boot was later than usual
    late: dict[str, tuple[int, ...]]
    #: for each kind of run, the earliest and the latest time from the last tick to the start of the recorder, in us. The
    #: recorder waits for ticks (grace periods, sleeps) and then always does the same work, so its phase varies little.
    phase: dict[str, tuple[int, int]]
    #: for each kind of run, the CPUs on which the recorder ran (or rcu_sched, if the recorder had ended). If the recorder ran on
    #: CPUs all over the machine, the kind is absent.
    recorder: dict[str, tuple[int, ...]] = field(default_factory=dict)
    #: for each boot whose order is known, CPUs 23 to 63 in the order in which they became idle: first the CPUs that had no
    #: counters to fold in the last second before the run, then the CPUs that folded their counters in this second.
    idle: tuple[tuple[int, ...], ...] = ((),)


#: after hotplug, the recorder starts at any phase of a tick, because the time that hotplug takes does not depend on ticks
ANY_PHASE = (0, 3_999)
#: the guest with 64 CPUs (first_fold is 2.85 s, began is 4.04 s, ...); the guest with 16 CPUs boots faster
LARGE = Boot(
    (2, 2, 2, 63),
    712,
    {"gi": 1010, "gc": 1010, "lu": 1010, "ms": 1045, "db": 1010},
    {"gi": (0, 0, 162), "gc": (0,), "lu": (0,) * 7 + (153,), "ms": (0,), "db": (0, 153, 156)},
    {
        "gi": (3_782, 3_786),
        "gc": (-16, 28),
        "lu": (-7, 36),
        "ms": ANY_PHASE,
        "db": (1_801, 2_095),
    },
    {
        "gi": (28, 30, 31),
        "gc": (16, 22, 28),
        "lu": (0, 16, 16, 16, 26, 28, 30),
        "ms": (24,),
        "db": (0, 0, 24),
    },
)


def _idle(*not_folded: int) -> tuple[int, ...]:
    """Return an entry of ``Boot.idle``: these CPUs, then the CPUs that folded their counters, in the order of folding."""
    return *not_folded, *(c for c in range(63, 22, -1) if c not in not_folded)


#: the guest with 64 CPUs under the overload-on-wakeup patch. All four recordings of patched kernels on 64 CPUs (lu60R4-alllit,
#: db64-oow, db64-all, gi-all) began late, by the ticks in ``late``; no other recording did. With the patch, a fork goes to the
#: CPU that has been idle for longest. So gi-all and lu60R4-alllit show the order in which CPUs became idle.
LARGE_PATCHED = replace(
    LARGE,
    late=dict.fromkeys(LARGE.began, (153, 153, 156, 162)),
    idle=(
        _idle(52, 51, 50, 49, 47, 45, 44, 43, 42, 41, 40, 39, 37, 36, 34, 29),
        _idle(53, 52, 51, 49, 47, 44, 43, 42, 41, 40, 39, 37, 36, 33, 32, 31),
    ),
)
SMALL = Boot(
    (3, 14, 15),
    430,
    {"gi": 682, "gc": 582, "lu": 582, "ms": 612, "db": 580},
    {"gi": (0, -35), "gc": (0, 75), "lu": (0, -2), "ms": (0, 39), "db": (0,)},
    {
        "gi": (3_454, 3_456),
        "gc": (3_628, 3_640),
        "lu": (3_637, 3_665),
        "ms": ANY_PHASE,
        "db": (3_965, 3_971),
    },
    {"gc": (5, 6), "lu": (5, 6), "ms": (0, 6), "db": (6,)},
)


def boot_of(machine: Machine, patched: bool = False) -> Boot:
    """Return the recorded guest that is nearest in size to this machine."""
    if machine.cpus <= 32:
        return SMALL
    return LARGE_PATCHED if patched else LARGE


def recorder_cpu(machine: Machine, seed: int, kind: str) -> int:
    """Let the seed choose the CPU of the recorder (with splitmix64's multiplier)."""
    chance = seed * 0x9E3779B97F4A7C15 >> 20
    found = boot_of(machine).recorder.get(kind) or range(machine.cpus)
    return found[chance % len(found)] % machine.cpus


def start_ns(machine: Machine, seed: int, kind: str) -> int:
    """Let the seed choose when the recorder starts: after the kernel threads, in the recorder's range of phases of a tick."""
    earliest, latest = (us * US for us in boot_of(machine).phase[kind])
    chance = (seed * 0xD1342543DE82EF95 >> 24) & 0xFFFFFFFF
    return LEAD_NS + earliest + chance % (latest - earliest + 1)


def round_jiffies(now: int, cpu: int, period: int = INTERVAL) -> int:
    """Return the jiffy to which round_jiffies_relative() rounds one period from now (kernel/time/timer.c, v4.1)."""
    at = now + period + 3 * cpu
    rest = at % period
    at -= rest + 3 * cpu
    if rest >= period // 4:
        at += period
    return at if at > now else now + period


def background(
    w: Workload,
    machine: Machine,
    seed: int,
    kind: str,
    cpu: int,
    first_ns: int | None = 0,
    offline: int | None = None,
    patched: bool = False,
) -> None:
    """Add the kernel threads of the guest."""
    boot = boot_of(machine, patched)
    # the guest's jiffies at the start of the replay, counted from a whole second
    found = boot.late[kind]
    late = found[(seed * 0x9E3779B97F4A7C15 >> 32 & 0xFFFFFFFF) % len(found)]
    began = boot.began[kind] + late - WHOLE_SECOND
    now = began - LEAD_NS // TICK_NS
    chance = (seed * 0xD1342543DE82EF95 >> 16) & 0xFFFFFFFF
    shepherd = boot.shepherds[chance % len(boot.shepherds)] % machine.cpus
    if shepherd == offline:
        shepherd = cpu
    fold = boot.first_fold + late - WHOLE_SECOND
    fold += (-3 * shepherd - fold) % INTERVAL
    offset = now % INTERVAL
    off = [w.semaphore() for _ in range(machine.cpus)]
    due = [round_jiffies(fold, c) for c in range(machine.cpus)]
    # Two rules depend on how long a CPU has been idle: fork balancing prefers the CPU that was busy last, and the
    # overload-on-wakeup patch prefers the CPU that has been idle for longest. To reproduce these times, the kworkers are started
    # in the order in which they last ran. The shepherd's CPU and CPU 0 come last, because they were busy after all kworkers
    ran: dict[int, float]
    ran = {c: due[c] if due[c] <= began else fold for c in range(machine.cpus)}
    idle = boot.idle[(chance >> 8) % len(boot.idle)]
    ran |= {c: fold + (place + 1) / len(idle) for place, c in enumerate(idle) if c < machine.cpus}
    last = sorted(ran, key=lambda c: (c == 0, c == shepherd, ran[c]))
    for place, c in enumerate(last):
        at = LEAD_NS * place // machine.cpus
        ticks = due[c] - now - at // TICK_NS
        rests = due[c] <= began or c == offline
        script = Script().wait(off[c]) if rests else Script().sleep_jiffies(ticks)
        script.loop().compute(4 * US, 12 * US).flush(off[c], INTERVAL, offset).end()
        w.task(f"kworker/{c}", script, allowed=[c], cpu=c, start_ns=at, daemon=True)
    ticks = (-3 * shepherd - now) % INTERVAL or INTERVAL
    script = Script().sleep_jiffies(ticks).loop().compute(4 * US, 12 * US).shepherd(off[0])
    script.sleep_round(INTERVAL, offset).end()
    w.task(f"kworker/{shepherd}", script, allowed=[shepherd], cpu=shepherd, daemon=True)
    if first_ns is None:
        return
    periods = Script().affinity(range(machine.cpus)).compute(4 * US)
    if first_ns:
        at = recorder_cpu(machine, seed, kind)
        # the grace period is requested just before the first event
        periods.sleep_jiffies(-(-(first_ns - ASKED_NS) // TICK_NS), wheel=cpu).loop(GRACE_JIFFIES)
    else:
        at = cpu
        periods.sleep_jiffies(LEAD_NS // TICK_NS // 2).loop()
    periods.compute(4 * US).sleep_jiffies(1).end()
    w.task("rcu_sched", periods, allowed=[at], cpu=at, daemon=True)
