"""What else runs on the guest of the recordings: kernel threads, and the recorder that starts it all.

Properties of the guest, shared by all its runs and read off the recordings: when its kernel began to count seconds, when
the recorder came, how long a fork takes. The page counters follow mm/vmstat.c, v4.1: once a second, each CPU whose
counters changed folds them in a kworker bound to it; a CPU whose counters rest is left to the shepherd, which looks at
all CPUs once a second and wakes the kworkers of those that changed. Such a kworker is often the only thing that
runs on an idle CPU of a node, and what lets it pull tasks there (new-idle balancing has no designated CPU).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wastedcores.topology.machine import Machine
from wastedcores.workload.builder import Workload
from wastedcores.workload.script import Script

US = 1_000
MS = 1_000_000
HZ = 250
TICK_NS = 4 * MS
#: the kernel threads begin one after the other in this time, before anything else does
LEAD_NS = 40 * MS
#: jiffies were a whole number of seconds at this moment of each second of the guest's clock
WHOLE_SECOND = 230  # ticks: 0.920 s
#: page counters are folded once a second (sysctl_stat_interval)
INTERVAL = HZ
#: a grace period is asked for this long before the first thread is created, and takes this many jiffies
ASKED_NS = 12 * US
GRACE_JIFFIES = 5
#: a fork, from one to the next
FORK_NS = (43 * US, 48 * US)
#: a new process before it is in a session of its own
SETSID_NS = (50 * US, 70 * US)


@dataclass(frozen=True)
class Boot:
    """How a guest boots.

    Attributes
    ----------
    shepherds
        CPUs on which the shepherd was found, as often as found there.
    first_fold
        Ticks of the guest's clock after which the shepherd first comes: then all CPUs fold.
    began
        Ticks of the guest's clock at which each kind of run began, after a boot as fast as most.
    late
        Ticks that the boot took longer, as often as found, by kind: kernels with more fixes boot more slowly on 64 CPUs.
    phase
        When the recorder began, after the last tick, us: earliest and latest, by kind. It waits for ticks (grace
        periods, sleeps) and then does the same work each time, so it does not begin anywhere inside a tick.
    recorder
        CPUs on which the recorder was found (rcu_sched, if it has gone), as often as found there, by kind; any CPU if
        it was found all over the machine.
    """

    shepherds: tuple[int, ...]
    first_fold: int
    began: dict[str, int]
    late: dict[str, tuple[int, ...]]
    phase: dict[str, tuple[int, int]]
    recorder: dict[str, tuple[int, ...]] = field(default_factory=dict)


#: after an offline and an online, whose time follows no tick
ANY_PHASE = (0, 3_999)
#: 64 CPUs: 2.85 s, 4.04 s, ...; 16 CPUs boot faster
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


def boot_of(machine: Machine) -> Boot:
    """The guest that is nearest in size."""
    return LARGE if machine.cpus > 32 else SMALL


def recorder_cpu(machine: Machine, seed: int, kind: str) -> int:
    """Where the recorder runs; follows the seed (splitmix64's multiplier)."""
    chance = seed * 0x9E3779B97F4A7C15 >> 20
    found = boot_of(machine).recorder.get(kind) or range(machine.cpus)
    return found[chance % len(found)] % machine.cpus


def start_ns(machine: Machine, seed: int, kind: str) -> int:
    """When the recorder comes, from the start of the replay: behind the kernel threads, at its phase of a tick."""
    earliest, latest = (us * US for us in boot_of(machine).phase[kind])
    chance = (seed * 0xD1342543DE82EF95 >> 24) & 0xFFFFFFFF
    return LEAD_NS + earliest + chance % (latest - earliest + 1)


def round_jiffies(now: int, cpu: int, period: int = INTERVAL) -> int:
    """round_jiffies_relative() of one period, kernel/time/timer.c, v4.1, as the jiffy it leads to."""
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
) -> None:
    """Add the kernel threads of the guest.

    Parameters
    ----------
    w
        Workload to add to; its own tasks begin at ``LEAD_NS``.
    kind
        ``gi``, ``gc``, ``ms``, ``lu`` or ``db``: when the run begins in the life of the guest.
    cpu
        Where what is recorded begins.
    first_ns
        When it begins: the next tick of that CPU asks for a grace period (rcu_gp_kthread_wake()), and wakes rcu_sched
        where it last ran, with the recorder; a few more jiffies end it. 0: grace periods follow one another all the
        time, as they do while tasks exit. None: no grace period is asked for.
    offline
        CPU that goes and comes back. vmstat_cpuup_callback(), mm/vmstat.c, v4.1, cancels its work when it
        goes and leaves it to the shepherd when it is back; migrate_timers(), kernel/time/timer.c, hands the shepherd,
        were it there, to the CPU that took it offline.
    """
    boot = boot_of(machine)
    # jiffies of the guest when the replay begins, 0 = a whole second
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
    # fork balancing prefers the CPU that was busy last, and the overload-on-wakeup patch the one idle for longest, so
    # they begin in the order in which they last ran; the boot's CPU and the shepherd's did more than that
    ran = {c: due[c] if due[c] <= began else fold for c in range(machine.cpus)}
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
        # what asks for it comes just before the first event
        periods.sleep_jiffies(-(-(first_ns - ASKED_NS) // TICK_NS), wheel=cpu).loop(GRACE_JIFFIES)
    else:
        at = cpu
        periods.sleep_jiffies(LEAD_NS // TICK_NS // 2).loop()
    periods.compute(4 * US).sleep_jiffies(1).end()
    w.task("rcu_sched", periods, allowed=[at], cpu=at, daemon=True)
