"""The decisions of a balancing pass in sentences, and the paper's Algorithm 1, whose lines the sentences name."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import polars as pl

from wastedcores.cpulist import format_cpulist
from wastedcores.topology.domains import Domains
from wastedcores.topology.lint import lint
from wastedcores.words.rich_text import RichText, count, table

if TYPE_CHECKING:
    from wastedcores.simulator.plain.stepping import Decision, Group


#: Lozi et al., EuroSys 2016, Algorithm 1, "Simplified load balancing algorithm", as a list of its lines; line 13 is shortened
ALGORITHM_1 = (
    "for all sd in sched_domains of cur_cpu do",
    "  if sd has idle cores then",
    "    first_cpu = 1st idle CPU of sd",
    "  else",
    "    first_cpu = 1st CPU of sd",
    "  end if",
    "  if cur_cpu ≠ first_cpu then",
    "    continue",
    "  end if",
    "  for all sched_group sg in sd do",
    "    sg.load = average loads of CPUs in sg",
    "  end for",
    "  busiest = sg with the highest load (overloaded first)",
    "  local = sg containing cur_cpu",
    "  if busiest.load ≤ local.load then",
    "    continue",
    "  end if",
    "  busiest_cpu = pick busiest cpu of sg",
    "  try to balance load between busiest_cpu and cur_cpu",
    "  if load cannot be balanced due to tasksets then",
    "    exclude busiest_cpu, goto line 18",
    "  end if",
    "end for",
)

_WHY = {
    "start": "No CPU has balanced yet.",
    "not first": "{source} balances for this group, so CPU {cpu} does nothing here.",
    "no thread": "No other group has a thread that could be taken.",
    "average": "The busiest group, {source}, has average load {busiest}, not above that of the local group, {local}: balanced.",
    "above average": "The local group has load {local}, not below the average of the whole level: balanced.",
    "minimum": "The least load in the local group, {least}, is not below that in the busiest group, {busiest_least}: balanced.",
    "margin": "The busiest group, {source}, has load {busiest}. The local group's {local} is within the margin: balanced.",
    "idle rule": "The busiest group, {source}, has load {busiest}, but is not overloaded and has as few idle CPUs: balanced.",
    "busiest": "The busiest group is {source}: its average load is {busiest}, that of the local group is {local}.",
    "busiest minimum": "The busiest group is {source}: its least load is {busiest_least}, that of the local group is {least}.",
    "queue": "The busiest CPU of that group is {source}.",
    "no queue": "No CPU of that group has a thread that waits.",
    "moved": "{moved} moved from {source} to CPU {cpu}.",
    "nothing moved": "No waiting thread of {source} can be moved.",
    "tasksets": "The threads of {source} may not run on CPU {cpu}: choose again without it.",
}


def decision(d: Decision) -> str:
    """Return one decision of a balancing pass in a sentence."""
    local = next((g for g in d.groups if g.local), None)
    busiest = next((g for g in d.groups if g.cpus == d.source), None)
    return _WHY[d.reason].format(
        cpu=d.cpu,
        source=f"CPU{'s' * (len(d.source) > 1)} {format_cpulist(list(d.source))}",
        moved=count(len(d.moved), "thread"),
        busiest=busiest.average if busiest else 0,
        busiest_least=busiest.least if busiest else 0,
        local=local.average if local else 0,
        least=local.least if local else 0,
    )


def decision_place(d: Decision) -> str:
    """Return who decided, at which level, and on which line of Algorithm 1."""
    if not d.line:
        return "Before balancing"
    return f"CPU {d.cpu}, level {d.level.replace('<=', ' ≤ ')}: line {d.line} of Algorithm 1"


def group_table(levels: list[tuple[str, tuple[Group, ...]]]) -> RichText:
    """Return a table of the groups that a CPU compares, with one row for each group of each level.

    ``levels`` is what :func:`wastedcores.simulator.plain.stepping.groups_seen` returned.
    """
    rows = [
        {
            "level": level.replace("<=", " ≤ "),
            "group": "CPU " + format_cpulist(list(g.cpus)),
            "local": "local" if g.local else "",
            "load": f"{g.total:,}",
            "average load": f"{g.average:,}",
        }
        for level, groups in levels
        for g in groups
    ]
    return table(pl.DataFrame(rows))


def help_sentence(domains: Domains, pin: Sequence[int] | None = None) -> RichText:
    """Say which CPUs can never help each other, as :func:`wastedcores.topology.lint.lint` finds them.

    Parameters
    ----------
    domains
        From :func:`wastedcores.topology.domains.build_domains`.
    pin
        CPUs on which the tasks may run; default: all.

    Returns
    -------
    RichText
        A sentence, and one row per pair of CPU sets between which no load can move.
    """
    result = lint(domains, None if pin is None else list(pin))
    state = f"Kernel {domains.kernel.name} on {domains.machine.name}"
    state += "" if domains.when == "boot" else f", {domains.when}"
    where = "" if pin is None else f" among CPUs {format_cpulist(result.pin)}"
    if not result.blocked:
        text = f"{state}: load can get from every CPU to every other{where}."
        return RichText(text, f"<p>{text}</p>")
    rows = [
        (format_cpulist(b.source), format_cpulist(b.target), b.reason, b.detail)
        for b in result.blocked
    ]
    head = f"{state}: load can never move{where}"
    text = "\n".join(
        [head + ":", *(f"  from {a} to {b}: {why}; {detail}" for a, b, why, detail in rows)]
    )
    cells = "".join(
        f"<tr><td>{a}</td><td>{b}</td><td>{why}: {escape(detail.replace('<=', ' ≤ '))}</td></tr>"
        for a, b, why, detail in rows
    )
    table = f"<table><tr><th>from CPUs</th><th>to CPUs</th><th>why</th></tr>{cells}</table>"
    return RichText(text, f"<p>{head}:</p>{table}")
