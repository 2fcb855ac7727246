"""The reader of rt-app workloads (github.com/scheduler-tools/rt-app, doc/tutorial.txt).

The tasks become threads of one process: rt-app's main thread creates them, all threads meet, and each runs its phases. These
events and keys have their full meaning: ``run``, ``sleep``, ``timer`` (relative and absolute, shared and unique), ``lock``,
``unlock``, ``wait``, ``signal``, ``broad``, ``sync``, ``suspend``, ``resume``, ``barrier``, ``yield``, ``fork``; ``loop``,
``instance``, ``delay`` (but not of a forked task), ``cpus``, ``policy``, ``priority``, ``taskgroup`` and the global ``duration``.

The notes of the workload tell the differences from a real run. All CPUs of a replay have the same speed. ``runtime`` is CPU
time here, as ``run`` is; in rt-app it is wall-clock time, which includes waiting for a CPU. Memory and files are not
modelled. ``mem`` and ``iorun`` become computing if a speed for them is given; otherwise they are refused. SCHED_DEADLINE is not
modelled, so its tasks are refused. Keys that rt-app does not know are refused by name, and so are files whose tasks cannot
work. The replay reports an unlock of a lock that no task holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wastedcores.errors import WorkloadError
from wastedcores.limits import LONGEST_NS
from wastedcores.topology.machine import Machine
from wastedcores.workload.builder import Workload
from wastedcores.workload.rtapp.events import Pairs, Shared, add_event, event_of, name_in, parse
from wastedcores.workload.script import Script

#: time of a pthread_create(), as in the recordings
CREATE_NS = 28_000
SECOND = 1_000_000_000

#: the policies of rt-app that are modelled
_POLICIES = {"SCHED_OTHER": "other", "SCHED_IDLE": "idle", "SCHED_FIFO": "fifo", "SCHED_RR": "rr"}
_TASK = {"instance", "delay", "phases"}
_BOTH = {"loop", "cpus", "policy", "priority", "taskgroup"}
#: keys of rt-app that have no effect on a replay
_MUTE = {
    "util_min": "utilization clamping is not modelled",
    "util_max": "utilization clamping is not modelled",
    "nodes_membind": "memory has no place in the replay",
    "membind_nodes": "memory has no place in the replay",
}
_DEADLINE = {"dl-runtime", "dl-period", "dl-deadline", "period", "deadline"}
#: global keys that only affect how rt-app logs and measures
_LOGGING = {
    "calibration", "lock_pages", "logdir", "log_basename", "log_size", "ftrace", "gnuplot", "io_device",
    "mem_buffer_size", "cumulative_slack", "frag",
}  # fmt: skip


@dataclass
class _Reading:
    """A file that is being turned into a workload."""

    name: str
    machine: Machine
    shared: Shared
    notes: list[str] = field(default_factory=list)
    policies: bool = False  #: whether a task or a phase has another policy than SCHED_OTHER

    def bad(self, where: str, text: str) -> WorkloadError:
        return WorkloadError(f"{self.name}: {where}: {text}.")

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def read_rtapp(
    path: str | Path, machine: Machine, seed: int = 1, mem_mb_per_s: int = 0, io_mb_per_s: int = 0
) -> Workload:
    """Make a workload of an rt-app file."""
    path = Path(path)
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as e:
        why = e.strerror if isinstance(e, OSError) else "it is not text"
        raise WorkloadError(
            f"{path}: cannot be read ({why}); expected an rt-app file (JSON)."
        ) from e
    return rtapp(text, machine, seed, mem_mb_per_s, io_mb_per_s, name=path.name)


def rtapp(
    text: str,
    machine: Machine,
    seed: int = 1,
    mem_mb_per_s: int = 0,
    io_mb_per_s: int = 0,
    *,
    name: str = "rt-app",
) -> Workload:
    """Make a workload of an rt-app description."""
    root = parse(text, name)
    w = Workload("rt-app")
    r = _Reading(name, machine, Shared(w, mem_mb_per_s, io_mb_per_s))
    _unknown(r, "the file", root, {"tasks", "global", "resources"})
    policy, duration = _globals(r, root.only("global", Pairs()))
    tasks = root.only("tasks")
    if not isinstance(tasks, Pairs) or not tasks:
        raise r.bad("tasks", 'expected an object with at least one task: "tasks": {"name": {...}}')
    _resources(r, root.only("resources", Pairs()))
    session = w.session()
    specs = {}
    for title, spec in tasks:
        if title in specs:
            raise r.bad(f"task {title!r}", "occurs twice; give each task a name of its own")
        if not isinstance(spec, Pairs):
            raise r.bad(f"task {title!r}", f"expected an object, got {spec!r}")
        specs[title] = spec
    bodies = [body for s in specs.values() for body in (s, *_bodies(s))]
    r.policies = any(b.only("policy", policy) != "SCHED_OTHER" for b in bodies)
    instances = {t: _whole(r, f"task {t!r}", s, "instance", 1, 0) for t, s in specs.items()}
    _count_barriers(r, specs, instances)
    if not sum(instances.values()):
        raise r.bad("tasks", "no task has an instance, so nothing would run")
    forked = {title: Script() for title in sorted({name for _, name in _named(r, specs, "fork")})}
    for title, script in forked.items():
        if title not in specs:
            raise r.bad(
                "fork", f"of {title!r}, which is not a task; the tasks are {', '.join(specs)}"
            )
        r.shared.templates[title] = w.template(title, script, daemon=duration > 0)
    for title, script in forked.items():
        _fill(r, title, specs[title], policy, script, together=None)
    everybody = w.barrier(sum(instances.values()))
    main = Script()
    number = 0
    for title, spec in specs.items():
        group = _group(r, w, f"task {title!r}", spec)
        for _ in range(instances[title]):
            body = _fill(r, title, spec, policy, Script(), together=everybody)
            thread = w.template(f"{title}-{number}", body, daemon=duration > 0)
            main.compute(CREATE_NS).fork(thread, group)
            number += 1
    # rt-app's main() sleeps for the duration and then ends all threads; without a duration, it joins them
    main = main.sleep(duration * SECOND) if duration > 0 else main.wait_children(0)
    w.task("rt-app", main, session=session, cpu=seed * 7 % machine.cpus)
    w.notes = tuple(r.notes)
    return w


def _globals(r: _Reading, found: Any) -> tuple[str, int]:
    """Read the default policy, and the duration in seconds (-1: until all threads have finished)."""
    if not isinstance(found, Pairs):
        raise r.bad("global", f"expected an object, got {found!r}")
    _unknown(r, "global", found, {"duration", "default_policy", "pi_enabled", *_LOGGING})
    duration = _whole(r, "global", found, "duration", -1, -1, LONGEST_NS // SECOND)
    if duration == 0:
        raise r.bad("global", "duration=0; expected seconds, or -1 for no limit")
    if found.only("pi_enabled"):
        r.note("pi_enabled: priority inheritance is for real-time tasks and has no effect here")
    return str(found.only("default_policy", "SCHED_OTHER")), duration


def _resources(r: _Reading, found: Any) -> None:
    """Read the resources that old files declare. In old files, a resource that is a signal names its condition."""
    if isinstance(found, int) and not isinstance(found, bool):
        return  # in still older files, "resources" is the number of mutexes, which are named 0, 1, ...
    if not isinstance(found, Pairs):
        raise r.bad("resources", f"expected an object, got {found!r}")
    for name, spec in found:
        if not isinstance(spec, Pairs):
            raise r.bad(f"resource {name!r}", f"expected an object, got {spec!r}")
        _unknown(r, f"resource {name!r}", spec, {"type", "target"})
        target = spec.only("target")
        if isinstance(target, str):
            r.shared.alias[name] = target


def _bodies(spec: Pairs) -> list[Pairs]:
    """Return the phases of a task."""
    phases = spec.only("phases")
    return [p for _, p in phases if isinstance(p, Pairs)] if isinstance(phases, Pairs) else []


def _named(r: _Reading, specs: dict[str, Pairs], kind: str) -> list[tuple[str, str]]:
    """Return a pair for each event of a kind: its task and the name in the event."""
    return [
        (title, name_in(r.bad, f"task {title!r}", key, value))
        for title, spec in specs.items()
        for body in _bodies(spec) or [spec]
        for key, value in body
        if event_of(key) == kind
    ]


def _count_barriers(r: _Reading, specs: dict[str, Pairs], instances: dict[str, int]) -> None:
    """Make the barriers, each for as many threads as name it (rt-app counts them when it reads the file)."""
    parties: dict[str, int] = {}
    for title, name in _named(r, specs, "barrier"):
        parties[name] = parties.get(name, 0) + instances[title]
    for name, n in parties.items():
        if n < 1:
            raise r.bad(
                f"barrier {name!r}", "no thread reaches it, because its tasks have no instance"
            )
        r.shared.barriers[name] = r.shared.workload.barrier(n)


def _phases(r: _Reading, where: str, spec: Pairs) -> tuple[list[tuple[str, Any]], int]:
    """Read the phases of a task, each with a text for error messages, and how often the task repeats them (-1: no limit)."""
    phases = spec.only("phases")
    events = {key for key, _ in spec if event_of(key)}
    if phases is None:
        # the object is both the thread and its only phase. If it has a loop, the loop belongs to the phase, and the thread runs
        # the phase once; without a loop, the thread repeats the phase for ever
        _unknown(r, where, spec, _TASK | _BOTH | events | set(_MUTE) | _DEADLINE)
        return [(where, spec)], 1 if any(key == "loop" for key, _ in spec) else -1
    if not isinstance(phases, Pairs) or not phases:
        raise r.bad(where, f"phases={phases!r}; expected an object with at least one phase")
    if events:
        raise r.bad(
            where, f"has phases, but also the events {', '.join(sorted(events))} outside of them"
        )
    _unknown(r, where, spec, _TASK | _BOTH | set(_MUTE) | _DEADLINE)
    return [(f"{where}, phase {n!r}", p) for n, p in phases], _loops(r, where, spec, -1)


def _fill(
    r: _Reading, title: str, spec: Pairs, policy: str, script: Script, together: int | None
) -> Script:
    """Write the script of a thread; ``together`` is the barrier at which rt-app's threads begin, None for a forked one."""
    where = f"task {title!r}"
    bodies, rounds = _phases(r, where, spec)
    policy = _policy(r, where, spec, policy)
    forked = together is None
    if together is not None:
        script.barrier(together, "block")
    delay = _whole(r, where, spec, "delay", 0, 0)
    if delay:
        script.sleep(delay * 1000)
        if forked:
            r.note(
                f"delay of {title!r}, which is forked: counts from the fork, and in rt-app from the start of all threads"
            )
    own = r.shared.own(title, forked)
    for _, body in bodies:
        for key, value in body if isinstance(body, Pairs) else ():
            if event_of(key) == "timer":
                # the first period of the timer counts from here, not from the first use of the timer
                script.timer(own.timer(r.bad, where, value), 0)
    # rt-app's main thread is SCHED_OTHER with nice 0; a forked task begins with the policy of the thread that forks it
    if forked or policy != "SCHED_OTHER" or spec.only("priority") is not None:
        _set_policy(r, script, where, spec, policy)
    group = _group(r, r.shared.workload, where, spec) if forked else None
    if group is not None:
        script.session(group)
    cpus = _cpus(r, where, spec)
    bound = cpus is not None or any(
        isinstance(b, Pairs) and b.only("cpus") is not None for _, b in bodies
    )
    everywhere = list(range(r.machine.cpus))
    script.loop(None if rounds < 0 else rounds)
    for place, body in bodies:
        if not isinstance(body, Pairs):
            raise r.bad(place, f"expected an object, got {body!r}")
        if body is not spec:
            inside = {key for key, _ in body if event_of(key)}
            _unknown(
                r,
                place,
                body,
                _BOTH | inside | set(_MUTE) | {"dl-runtime", "dl-period", "dl-deadline"},
            )
            if body.only("taskgroup") not in (None, "", spec.only("taskgroup")):
                raise r.bad(place, "moves to another taskgroup; expected one for the whole task")
        if not any(event_of(key) for key, _ in body):
            raise r.bad(
                place, "has no event; expected at least one, such as run, sleep, timer or lock"
            )
        loops = _loops(r, place, body, 1)
        script.loop(None if loops < 0 else loops)
        if bound:
            here = _cpus(r, place, body)
            script.affinity(here if here is not None else cpus if cpus is not None else everywhere)
        if body is not spec and not {"policy", "priority"}.isdisjoint(key for key, _ in body):
            # a phase without a policy keeps the last policy
            policy = _policy(r, place, body, policy)
            _set_policy(r, script, place, body, policy)
        for key, value in body:
            if event_of(key):
                add_event(script, own, r.bad, r.note, place, key, value)
        script.end()
    return script.end()


def _unknown(r: _Reading, where: str, found: Pairs, known: set[str]) -> None:
    """Refuse by name the keys that rt-app does not have, and note the keys that have no effect."""
    wrong = [key for key, _ in found if key not in known]
    if wrong:
        raise r.bad(
            where,
            f"unknown {', '.join(map(repr, wrong))}; expected {', '.join(sorted(known - _LOGGING - set(_MUTE)))}"
            + ("" if where in ("the file", "global") else " or an event such as run, sleep, timer"),
        )
    for key, _ in found:
        if key in _MUTE:
            r.note(f"{key}: ignored, {_MUTE[key]}")


def _policy(r: _Reading, where: str, spec: Pairs, default: str) -> str:
    """Return the policy of a task or a phase; refuse SCHED_DEADLINE and unknown policies."""
    policy = spec.only("policy", default)
    if not isinstance(policy, str) or policy not in _POLICIES:
        raise r.bad(
            where,
            f"policy {policy!r}; the replay models {', '.join(_POLICIES)}. Change the policy, or leave the task out",
        )
    deadline = sorted(key for key, _ in spec if key in _DEADLINE)
    if deadline:
        raise r.bad(where, f"{', '.join(deadline)} belong to SCHED_DEADLINE, which is not modelled")
    return str(policy)


def _set_policy(r: _Reading, script: Script, where: str, spec: Pairs, policy: str) -> None:
    """Add operations that set a policy. ``priority`` is 1 to 99 for real-time tasks (default 10, as in rt-app), else nice."""
    name = _POLICIES[policy]
    if name in ("fifo", "rr"):
        script.policy(name, _whole(r, where, spec, "priority", 10, 1, 99))
        return
    if r.policies:
        script.policy(name)
    nice = _whole(r, where, spec, "priority", 0, -20, 19)
    if name == "other":
        script.nice(nice)


def _group(r: _Reading, w: Workload, where: str, spec: Pairs) -> int | None:
    """Return the session of a task's ``taskgroup``, or None for the session of rt-app."""
    name = spec.only("taskgroup") or ""
    if not isinstance(name, str) or (name and not name.startswith("/")):
        raise r.bad(where, f"taskgroup={name!r}; expected a path such as /tg1")
    if not name or name == "/":
        return 0 if name else None
    if name.count("/") > 1:
        r.note(
            f"taskgroup {name}: groups inside groups are not modelled; it is a group directly below the root"
        )
    if name not in r.shared.groups:
        r.shared.groups[name] = w.session()
    return r.shared.groups[name]


def _whole(
    r: _Reading, where: str, spec: Pairs, key: str, default: int, least: int, most: int = 10**9
) -> int:
    """Read a whole number."""
    value = spec.only(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        limit = f"a whole number from {least} to {most}"
        raise r.bad(where, f"{key}={value!r}; expected {limit}")
    return value


def _loops(r: _Reading, where: str, spec: Pairs, default: int) -> int:
    """Read the number of rounds of a ``loop``, -1 for no limit."""
    loops = _whole(r, where, spec, "loop", default, -1)
    if loops == 0:
        raise r.bad(where, "loop=0 does nothing; expected a number of rounds, or -1 for no limit")
    return loops


def _cpus(r: _Reading, where: str, spec: Pairs) -> list[int] | None:
    """Read the CPUs of ``cpus``, or return None if the key is absent."""
    cpus = spec.only("cpus")
    if cpus is None:
        return None
    good = isinstance(cpus, list) and cpus
    if not good or any(isinstance(c, bool) or not isinstance(c, int) or c < 0 for c in cpus):
        raise r.bad(where, f"cpus={cpus!r}; expected a list of CPU numbers such as [0, 2]")
    if max(cpus) >= r.machine.cpus:
        raise r.bad(
            where,
            f"cpus has {max(cpus)}, but machine {r.machine.name!r} has CPUs 0-{r.machine.cpus - 1}",
        )
    return cpus
