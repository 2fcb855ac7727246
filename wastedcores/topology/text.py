"""Domains and lint results as text for people, in less than 80 columns."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

from wastedcores.cpulist import format_cpulist
from wastedcores.topology import levels as lv
from wastedcores.topology.domains import Domain, Domains
from wastedcores.topology.lint import LintResult, level_name

WIDTH = 78
#: the text shows this many groups of a domain at most; --json has them all
MOST_GROUPS = 32


def describe_domains(domains: Domains, cpus: Sequence[int] | None = None) -> str:
    """Describe the domains of each CPU. CPUs with the same domains outside their cache are described together."""
    count = len(domains.cpus)
    blocks = [f"{domains.when}: {count} CPU{'s' * (count > 1)} online"]
    for same in _views(domains, cpus):
        cpu = same[0]
        title = f"CPU {cpu}" if len(same) == 1 else f"CPUs {format_cpulist(same)}, as CPU {cpu}"
        mine = domains.of(cpu)
        lines = [_fill(f"  {title}", "")]
        none = "no domains: nothing to balance with" if cpu in domains.cpus else "offline"
        lines += [_domain(d) for d in mine] or [f"    {none}"]
        blocks.append("\n".join(lines))
    return "\n".join(blocks)


def _views(domains: Domains, cpus: Sequence[int] | None) -> list[list[int]]:
    """Group CPUs by their domains outside the cache."""
    if cpus is not None:
        return [[c] for c in cpus]
    views: dict[str, list[int]] = {}
    for cpu in domains.cpus:
        outer = [d for d in domains.of(cpu) if not d.flags & lv.SD_SHARE_PKG_RESOURCES]
        inner = [(d.level, d.weight) for d in domains.of(cpu)]
        key: object = (inner, [(d.level, d.span, _ring_key(d)) for d in outer])
        if not outer:
            key = (inner, [d.span for d in domains.of(cpu)[-1:]])
        views.setdefault(repr(key), []).append(cpu)
    return list(views.values())


def _ring_key(d: Domain) -> tuple[int, ...]:
    """Return what distinguishes the rings of two views. Without overlap this is nothing, because all CPUs share one ring."""
    return tuple(g.span for g in d.groups) if d.flags & lv.SD_NUMA else ()


def _domain(d: Domain) -> str:
    groups = [_group(d, k) for k in range(min(len(d.groups), MOST_GROUPS))]
    if len(d.groups) > MOST_GROUPS:
        groups.append(f"... {len(d.groups) - MOST_GROUPS} more")
    head = f"    {level_name(d):9s} {{{format_cpulist(d.cpus)}}}"
    return _fill(head, " " * 14) + "\n" + _fill("      groups  " + " ".join(groups), " " * 14)


def _group(d: Domain, k: int) -> str:
    group = d.groups[k]
    text = "{" + format_cpulist(group.cpus) + "}"
    own = group.span & group.mask
    if d.flags & lv.SD_NUMA and own != group.span:
        text += f"[by {format_cpulist(group.mask_cpus)}]"
    return text


def _fill(text: str, indent: str) -> str:
    """Wrap a line at spaces and after the commas of a CPU list."""
    cuttable = re.sub(r",(?=\d)", ",\x1f ", text)
    lines = textwrap.wrap(cuttable, WIDTH, subsequent_indent=indent, break_on_hyphens=False)
    if len(text) <= WIDTH:
        return text
    return "\n".join(line.replace("\x1f ", "").replace("\x1f", "") for line in lines)


def describe_lint(result: LintResult) -> str:
    """Describe the findings of the linter."""
    lines = [f"{result.when}: tasks may run on {{{format_cpulist(result.pin)}}}"]
    if not result.blocked:
        lines.append("  load can get from every CPU to every other")
    for b in result.blocked:
        lines.append("  load can never move")
        lines.append(_fill(f"    from {{{format_cpulist(b.source)}}}", " " * 9))
        lines.append(_fill(f"    to   {{{format_cpulist(b.target)}}}", " " * 9))
        lines.append(_fill(f"    why  {b.reason} ({b.level}):", " " * 9))
        lines.append(_fill(f"         {b.detail}", " " * 9))
    lines += _designated(result)
    return "\n".join(lines)


def _designated(result: LintResult) -> Iterable[str]:
    """Describe the designated CPUs of the groups whose balance mask has CPUs that may not run the pinned tasks."""
    open_to_others = [d for d in result.designated if len(d.allowed) < len(d.mask)]
    if open_to_others:
        yield "  designated CPUs (the first idle one of the mask balances periodically):"
    for d in open_to_others:
        yield _fill(f"    {d.level} group {{{format_cpulist(d.group)}}}", " " * 9)
        who = f"{{{format_cpulist(d.allowed)}}}" if d.allowed else "none, newly idle CPUs only"
        yield _fill(f"      mask {{{format_cpulist(d.mask)}}}, may run the tasks: {who}", " " * 11)
