"""The facts of a trace's header that decide which waiting threads could have run elsewhere, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from wastedcores.cpulist import format_cpulist, parse_cpulist
from wastedcores.trace.header import Header, TaskFacts
from wastedcores.units import human_ns
from wastedcores.words.rich_text import count, enumerated

#: at most this many groups or cpusets are named
_MOST = 6


def recorded_facts(header: Header, kinds: Mapping[str, int]) -> dict[str, str]:
    """Return what a trace tells about its tasks and about the configuration, in words, by topic."""
    facts = {
        "scheduler": f"{header.scheduler} (sched_ext), not the kernel's own"
        if header.scheduler
        else "",
        "affinity": _affinity(header, kinds),
        "policies": _policies(header.tasks or []),
        "autogroups": "switched off" if header.autogroups is False else "",
        "CPU time": _limits(header),
        "throttling": _throttling(kinds),
        "isolated CPUs": _cpus(header.isolated_cpus, "no CPU is isolated"),
        "tickless CPUs": _cpus(header.nohz_full_cpus, ""),
        "cpusets": _cpusets(header),
        "core scheduling": {
            True: "some tasks had a cookie, so they shared a core only with their own kind",
            False: "not in use",
            None: "",
        }[header.core_scheduling],
        "domains": ""
        if header.sched_domains is None
        else f"the kernel's scheduling domains are recorded for {_domain_cpus(header)}",
        "kernel command line": header.boot_parameters or "",
        "changed": f"{enumerated(header.changed)} changed while the trace was recorded"
        if header.changed
        else "",
    }
    return {topic: text for topic, text in facts.items() if text}


def _affinity(header: Header, kinds: Mapping[str, int]) -> str:
    """Say for how many tasks the trace tells on which CPUs they may run."""
    if header.source_format == "replay":
        return "every task of a replay may run where its program says"
    told = [t for t in (*(header.tasks or ()), *(header.later_tasks or ())) if t.allowed]
    cpus = header.cpus or 0
    bound = sum(len(parse_cpulist(t.allowed or "")) < cpus for t in told)
    words = []
    if told:
        words.append(f"a snapshot tells it for {count(len(told), 'task')} ({bound} bound)")
    if events := kinds.get("affinity", 0) + kinds.get("task_state", 0):
        words.append(f"{count(events, 'event')} tell it")
    return enumerated(words) or "not told, except by the names of bound kernel threads"


def _policies(tasks: list[TaskFacts]) -> str:
    """Say how many tasks have another policy or nice value than the usual ones."""
    policies = Counter(t.policy for t in tasks if t.policy not in (None, "other"))
    words = [f"{n} {policy}" for policy, n in sorted(policies.items())]
    nice = sum(bool(t.nice) for t in tasks)
    words += [f"{nice} with a nice value"] if nice else []
    groups = len({t.cgroup for t in tasks if t.cgroup not in (None, "/")})
    words += [f"tasks in {count(groups, 'control group')}"] if groups else []
    sessions = len({t.autogroup for t in tasks if t.autogroup not in (None, "/")})
    words += [f"tasks in {count(sessions, 'autogroup')}"] if sessions else []
    return enumerated(words)


def _limits(header: Header) -> str:
    """Say which control groups have a limit of CPU time."""
    if header.quotas is None:
        return "not known whether a control group has a limit"
    if not header.quotas:
        return "no control group has a limit"
    named = [
        f"{path or '/'} {human_ns(1000 * us)}" for path, us in sorted(header.quotas.items())[:_MOST]
    ]
    more = len(header.quotas) - len(named)
    named += [f"{more} more"] if more > 0 else []
    return f"limited per period: {enumerated(named)}"


def _throttling(kinds: Mapping[str, int]) -> str:
    """Say how often tasks were kept from running because their group had used up its CPU time."""
    times = kinds.get("throttle", 0)
    if not times:
        return ""
    return f"a task was throttled {count(times, 'time')}; it does not count as waiting until it may run again"


def _cpus(cpus: list[int] | None, none: str) -> str:
    return "" if cpus is None else format_cpulist(cpus) or none


def _cpusets(header: Header) -> str:
    """Name the cpusets with CPUs of their own."""
    if not header.cpusets:
        return "" if header.cpusets is None else "none has CPUs of its own"
    named = []
    for s in header.cpusets[:_MOST]:
        off = ", not balanced" if s.load_balance is False else ""
        named.append(f"{s.path} (CPUs {s.cpus}{off})")
    more = len(header.cpusets) - len(named)
    return enumerated([*named, f"{more} more"] if more > 0 else named)


def _domain_cpus(header: Header) -> str:
    cpus = {c for d in header.sched_domains or () for c in parse_cpulist(d.cpus)}
    return f"CPUs {format_cpulist(sorted(cpus))}" if cpus else "no CPU: none had any"
