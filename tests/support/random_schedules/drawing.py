"""A schedule from a seed: its features, its machine, its threads, and how it was recorded."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from support.random_schedules import balancing, population, recording, snapshots
from support.random_schedules.events import Event
from support.random_schedules.machine import Machine, Quality
from support.random_schedules.tasks import cpus_of
from support.random_schedules.truth import Log, Truth, truth_of

#: what can be special about a schedule
FEATURES = {
    "free": "every thread may use every CPU",
    "pinned": "threads bound to one CPU",
    "bound": "threads bound to several CPUs, by affinity or cpuset",
    "affinity": "sched_setaffinity() while the trace is recorded",
    "cpuset": "a whole cpuset gets other CPUs",
    "quota": "control groups with a CPU quota",
    "fork": "fork, exec, exit, and processes with threads",
    "reuse": "pids that are used again",
    "realtime": "FIFO and RR threads",
    "deadline": "deadline threads",
    "late": "threads woken while they are about to sleep",
    "wakings": "sched_waking instead of or beside sched_wakeup",
    "no migrations": "sched_migrate_task was not recorded",
    "hotplug": "CPUs go offline and come back",
    "pairs": "clients and servers on a mostly idle machine",
    "recorder": "the recorder's own threads, whose wakeups are missing",
    "unrecorded": "CPUs that were not recorded",
    "lost": "lost events",
    "overwritten": "ring buffers that overwrote their beginnings",
    "quiet": "CPUs on which nothing happens for long, because one thread computes there or none does",
    "clocks": "clocks that differ between CPUs by up to 100 us",
    "short": "shorter than M",
    "one cpu": "a machine with one CPU",
    "isolated": "isolated CPUs",
    "apart": "two halves between which nothing is ever balanced",
}
#: features that leave nothing of the others are not combined
_ALONE = ("free", "one cpu", "short")
WARM_UP_US = 30_000


@dataclass
class Schedule:
    """A schedule with the truth about it."""

    seed: int
    features: tuple[str, ...]
    persist_us: int
    cpus: int
    text: str
    truth: Truth
    #: one from before the recording, and one from after it
    snapshot: dict[str, Any]
    last_snapshot: dict[str, Any]
    #: whether a thread's mask differed at some time from what the first snapshot says, and whether the two do not show all of
    #: these threads: a mask changed back, or the thread has ended
    stale: bool
    hidden: bool
    #: all states and all events, for the tests of the generator
    log: Log
    events: list[Event]
    #: what was recorded, whether it says that it has all CPUs, and when (CPU, from, to) events were lost
    kept: list[Event]
    every_cpu: bool
    lost: list[tuple[int, int, int]]


def features_of(seed: int) -> tuple[str, ...]:
    """Return the features of a schedule: two thirds have one of them, the others two to four."""
    rng = random.Random(f"features {seed}")
    names = list(FEATURES)
    if seed % 3:
        return (names[seed // 3 % len(names)],)
    several = [n for n in names if n not in _ALONE]
    return tuple(sorted(rng.sample(several, rng.choice((2, 2, 3, 4)))))


def schedule(
    seed: int,
    features: Iterable[str] | None = None,
    audit: Callable[[Machine], None] | None = None,
) -> Schedule:
    """Make a schedule; seed and features determine it. ``audit`` sees the machine whenever time passes."""
    names = features_of(seed) if features is None else tuple(sorted(features))
    chosen = frozenset(names)
    rng = random.Random(f"schedule {seed} {' '.join(names)}")
    persist = rng.choice((100_000, 100_000, 50_000, 20_000))
    span = int(persist * rng.choice((rng.uniform(3, 6), rng.uniform(10.1, 12))))
    if "short" in chosen:
        span = int(persist * rng.uniform(0.1, 0.95))
    m = _machine(rng, chosen, span)
    m.audit = audit
    busy = rng.random() < 0.7 and "quiet" not in chosen
    population.kernel_threads(m, busy)
    _populate(m, chosen, span)
    _start(m)
    m.run_until(m.now + WARM_UP_US)
    recorder = _recorder(m, chosen)
    if "recorder" in chosen:
        recorder.own = tuple({t.comm for t in m.tasks.values()} & {"perf", "trace-cmd"})
        recorder.missing = rng.choice((1.0, 1.0, 0.7))
    snapshot, start = snapshots.taken(m), m.now
    m.rebound.clear()
    there = {t.uid: t.mask for t in m.tasks.values()}
    m.touch_all()
    m.events.on = True
    m.run_until(start + span)
    last_snapshot = snapshots.taken(m)
    left = recorder.keep(rng, m.events.events)
    first, last = (left.kept[0].us, left.kept[-1].us) if left.kept else (start, start + span)
    if recorder.overwritten and left.written > len(left.kept):
        # nobody knows what was overwritten: the truth is that of the time which all buffers cover
        firsts = {e.cpu: e.us for e in reversed(left.kept)}
        first = max(firsts.values(), default=first)
    truth = truth_of(m.log, max(first, start), min(last, m.now), isolated=m.isolated)
    text = recording.text(recorder, left, m.online.bit_count())
    changed = m.rebound & there.keys()
    stale = bool(changed)
    hidden = not changed <= {t.uid for t in m.tasks.values() if t.mask != there.get(t.uid)}
    return Schedule(
        seed,
        names,
        persist,
        m.cpus,
        text,
        truth,
        snapshot,
        last_snapshot,
        stale,
        hidden,
        m.log,
        m.events.events,
        left.kept,
        recorder.form == "perf script" and recorder.seen == m.all,
        left.losses(),
    )


def _machine(rng: random.Random, features: frozenset[str], span: int) -> Machine:
    if "one cpu" in features:
        cpus = 1
    else:
        cpus = rng.choice((2, 3, 4, 4, 6, 8) if span < 400_000 else (2, 3, 4, 4))
    if features & {"isolated", "apart", "bound", "cpuset"}:
        cpus = max(3, cpus)
    care = rng.random()
    if care < 0.5:
        quality = Quality()
    elif care < 0.75:
        quality = Quality(0, 0, 0, 0)
    else:
        quality = Quality(*rng.choices((0.0, 0.05, 0.3, 1.0), k=4))
    half = sum(1 << c for c in range(cpus // 2)) if "apart" in features else 0
    quality = Quality(quality.newidle, quality.periodic, quality.wake_idle, quality.fork_idle, half)
    m = Machine(rng, cpus, quality, rng.choice((250, 250, 100) if span < 700_000 else (250, 100)))
    if "isolated" in features:
        m.isolated = sum(1 << c for c in rng.sample(range(cpus), rng.randrange(1, cpus - 1)))
    m.pid_reuse = 0.8 if "reuse" in features else 0.0
    m.late_wakes = 0.1 if "late" in features else 0.0
    return m


def _populate(m: Machine, features: frozenset[str], span: int) -> None:
    rng = m.rng
    if "pairs" in features:
        population.pairs(m)
        count = rng.choice((0, 0, 1))
    else:
        # quiet schedules of fewer threads have no events at all
        count = rng.randrange(m.cpus + 1 if "quiet" in features else 1, 2 * m.cpus + 1)
    style = "hogs" if "quiet" in features else rng.choice(("hogs", "workers", "mixed", "mixed"))
    chosen = population.users(m, features, count, style)
    if features & {"fork", "reuse"}:
        population.families(m, features, span)
    if "realtime" in features:
        population.realtime(m)
    if "deadline" in features:
        population.deadline(m)
    if "recorder" in features:
        population.recorder(m)
    population.administrators(m, features, chosen, span)
    if rng.random() < 0.1 and m.cpus > 1:
        m.after(rng.randrange(WARM_UP_US, span + WARM_UP_US), _active, m)


def _active(m: Machine) -> None:
    pairs = balancing.candidates(m)
    if pairs and m.quality.periodic:
        balancing.active(m, *m.rng.choice(pairs))
    m.after(m.rng.randrange(20_000, 80_000), _active, m)


def _start(m: Machine) -> None:
    """Let every thread of a program begin somewhere in the warm-up."""
    for task in list(m.tasks.values()):
        if not task.kthread:
            task.left = 4
            m.after(m.rng.randrange(1, WARM_UP_US * 2 // 3), m.timer_wake, task, 0)


def _recorder(m: Machine, features: frozenset[str]) -> recording.Recorder:
    rng = m.rng
    r = recording.Recorder(m.all, m.cpus)
    r.wakeups = rng.choice(("both", "waking")) if "wakings" in features else "wakeup"
    r.migrations = "no migrations" not in features
    r.hotplug = rng.random() < 0.5
    if "unrecorded" in features and m.cpus > 1:
        r.seen &= ~sum(1 << c for c in rng.sample(range(m.cpus), rng.randrange(1, m.cpus)))
    if "clocks" in features:
        r.clocks = [rng.randrange(-50, 51) for _ in range(m.cpus)]
    if "overwritten" in features:
        r.overwritten = [rng.choice((0.0, rng.random() / 2)) for _ in range(m.cpus)]
    r.form = rng.choices(recording.FORMS, (6, 2, 2))[0]
    if r.overwritten and r.form == "perf script":
        r.form = "ftrace"
    if "lost" in features:
        seen = cpus_of(r.seen)
        r.losses = [
            (rng.choice(seen), rng.random(), rng.choice((1, 3, 20, 100)))
            for _ in range(rng.randrange(1, 4))
        ]
    return r
