"""Tables of /proc/schedstat's counters, with the lines and columns of `perf sched stats report` and `diff` (perf 7.0)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wastedcores.trace.schedstat import (
    CPU_FIELDS,
    IDLENESS,
    Counters,
    Counts,
    Cpu,
    Domain,
    domain_fields,
)

_WIDE = 100
#: a counter of a CPU -> the counter by which it is divided for its percentage
_PART_OF = {"sched_goidle": "sched_count", "ttwu_local": "ttwu_count", "run_delay": "rq_cpu_time"}
_EVERY = ("lb_count", "lb_balanced", "lb_failed", "lb_nobusyq", "lb_nobusyg")
_HEADS = {
    "busy": " <Category busy> ",
    "idle": " <Category idle> ",
    "newidle": " <Category newidle> ",
    "alb_count": " <Category active_load_balance()> ",
    "sbe_count": " <Category sched_balance_exec()> ",
    "sbf_count": " <Category sched_balance_fork()> ",
    "ttwu_wake_remote": " <Wakeup Info> ",
}
#: what the counters count (Documentation/scheduler/sched-stats.rst, kernel/sched/fair.c, 6.15)
MEANING = {
    "yld_count": "calls of sched_yield()",
    "array_exp": "always 0",
    "sched_count": "calls of schedule()",
    "sched_goidle": "calls of schedule() after which the CPU was idle, and their share",
    "ttwu_count": "wakeups by this CPU",
    "ttwu_local": "wakeups by this CPU of threads that it runs itself, and their share",
    "rq_cpu_time": "ns that threads ran on this CPU",
    "run_delay": "ns that threads waited for this CPU, and their share of the ns that they ran",
    "pcount": "times that a thread began to run",
    "lb_count": "calls of load_balance() for a CPU that is busy, idle, or about to idle (newidle)",
    "lb_balanced": "calls that found nothing to do",
    "lb_failed": "calls that found an imbalance and moved nothing",
    "lb_imbalance": "the sum of the imbalances that were found, in the unit of the balancer",
    "lb_gained": "threads that were moved",
    "lb_hot_gained": "threads that were moved although they were cache-hot",
    "lb_nobusyq": "calls that found a busier group and no queue in it",
    "lb_nobusyg": "calls that found no busier group",
    "lb_success_count": "calls that moved a thread: count less balanced and failed",
    "lb_avg_pulled": "threads moved per such call",
    "alb_count": "running threads that the migration thread was asked to push, and how that ended",
    "ttwu_wake_remote": "wakeups of threads that last ran on another CPU of the domain",
    "ttwu_move_affine": "wakeups that moved the thread to the waker's CPU or its neighbours",
}


def summary(found: Counters) -> Cpu:
    """Return the mean of all CPUs, rounded down; domains with the same index in the CPUs' lists are averaged."""
    cpus = list(found.cpus.values())
    deepest = max(cpus, key=lambda c: len(c.domains)).domains
    domains = []
    for i, domain in enumerate(deepest):
        there = [c.domains[i].counts for c in cpus if len(c.domains) > i]
        domains.append(Domain(domain.name, "", _mean(there)))
    return Cpu(_mean([c.counts for c in cpus]), tuple(domains))


def _mean(counts: Sequence[Counts]) -> Counts:
    out: Counts = {}
    for name in counts[0]:
        values = [c.get(name) for c in counts]
        known = [v for v in values if v is not None]
        out[name] = sum(known) // len(known) if known else None
    return out


def table(found: Counters, against: Counters | None = None, *, cpus: bool = False) -> Iterator[str]:
    """Yield the lines of the table for one set of counters, or for two sets and their difference; ``cpus`` adds each CPU."""
    both = [found] if against is None else [found, against]
    line = "-" * _WIDE
    yield f"{'Time elapsed (in jiffies)':<65}: " + ",".join(f"{c.jiffies:>11.0f}" for c in both)
    yield line
    parts: list[tuple[str, list[Cpu]]] = [("<ALL CPUS SUMMARY>", [summary(c) for c in both])]
    if cpus:
        shared = [n for n in found.cpus if all(n in c.cpus for c in both)]
        parts += [(str(n), [c.cpus[n] for c in both]) for n in shared]
    version = max(c.version for c in both)
    jiffies = [c.jiffies for c in both]
    for name, each in parts:
        yield ""
        yield from (line, f"CPU {name}", line)
        yield from _cpu([c.counts for c in each])
        yield line
        for i in range(min(len(c.domains) for c in each)):
            domains = [c.domains[i] for c in each]
            # of two sets of counters, only the CPUs of the first set are named, as in perf
            span = f" CPUS <{domains[0].cpus}>" if domains[0].cpus and name[0] != "<" else ""
            yield from (f"CPU {name}, DOMAIN {domains[0].name}{span}", line)
            yield from _domain([d.counts for d in domains], version, jiffies)
            yield line


def _cpu(counts: Sequence[Counts]) -> Iterator[str]:
    if len(counts) == 1:
        yield f"{'DESC':<65} {'COUNT':>12} {'PCT_CHANGE':>12}"
    else:
        yield f"{'DESC':<65} {'COUNT1':>12} {'COUNT2':>11} {'PCT_CHANGE':>12} {'PCT_CHANGE1':>14} {'PCT_CHANGE2':>10}"
    yield "-" * _WIDE
    for name in CPU_FIELDS:
        more = ""
        if whole := _PART_OF.get(name):
            shares = [f"{_percent(c.get(name), c.get(whole)):>8}%" for c in counts]
            more = f"  ( {',  '.join(shares)} )"
        yield _row(name, [c.get(name) for c in counts], more)


def _domain(counts: Sequence[Counts], version: int, jiffies: Sequence[float]) -> Iterator[str]:
    if len(counts) == 1:
        yield f"{'DESC':<65} {'COUNT':>12} {'AVG_JIFFIES':>14}"
    else:
        yield (
            f"{'DESC':<65} {'COUNT1':>12} {'COUNT2':>11} {'PCT_CHANGE':>12} {'AVG_JIFFIES1':>16} {'AVG_JIFFIES2':>12}"
        )
    kinds = IDLENESS[version]
    for name in domain_fields(version):
        kind, _, rest = name.partition("_")
        if head := _HEADS.get(kind if rest == "lb_count" else name):
            yield f"{head:-^{_WIDE}}"
        values = [c.get(name) for c in counts]
        more = ""
        if kind in kinds and rest in _EVERY:
            each = [_per(j, v) for j, v in zip(jiffies, values, strict=True)]
            more = f"  $ {', '.join(f'{text:>11}' for text in each)} $"
        yield _row(name, values, more)
        if rest == "lb_nobusyg":
            yield from _derived(kind, counts)


def _derived(kind: str, counts: Sequence[Counts]) -> Iterator[str]:
    """Yield what follows from the counters of busy, idle or newidle calls: how many moved threads, and threads per such call."""
    moved: list[int | None] = []
    for c in counts:
        called, balanced, failed = (
            c.get(f"{kind}_{n}") for n in ("lb_count", "lb_balanced", "lb_failed")
        )
        known = called is not None and balanced is not None and failed is not None
        moved.append((called or 0) - (balanced or 0) - (failed or 0) if known else None)
    yield _row(f"*{kind}_lb_success_count", moved, "")
    pulled = [
        None
        if n is None or (gained := c.get(f"{kind}_lb_gained")) is None
        else gained / n
        if n
        else 0.0
        for n, c in zip(moved, counts, strict=True)
    ]
    yield _row(f"*{kind}_lb_avg_pulled", pulled, "")


def _row(name: str, values: Sequence[float | None], more: str) -> str:
    """Return a line with one value, or with two values and their difference in per cent."""
    said = [
        f"{'-' if v is None else f'{v:.2f}' if isinstance(v, float) else v:>11}" for v in values
    ]
    change = ""
    if len(values) == 2:
        first, second = values
        known = first is not None and second is not None
        percent = 100 * ((second or 0) - (first or 0)) / first if known and first else 0.0
        change = f"  | {f'{percent:.2f}' if known else '-':>8}% |"
    return f"{name:<65}: {','.join(said)}{change}{more}"


def _percent(part: int | None, whole: int | None) -> str:
    if part is None or whole is None:
        return "-"
    return f"{100 * part / whole if whole else 0.0:.2f}"


def _per(jiffies: float, count: int | None) -> str:
    return "-" if count is None else f"{jiffies / count if count else 0.0:.2f}"


def meanings() -> Iterator[str]:
    """Yield a line about each counter."""
    for name, text in MEANING.items():
        yield f"  {name:<20} {text}"
