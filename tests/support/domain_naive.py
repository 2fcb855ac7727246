"""build_sched_domains() in the plainest Python: sets, nothing shared, one CPU after the other as in the C code.

It was written from kernel/sched/core.c of v4.1.6 and kernel/sched/topology.c of v4.14 and v6.x, not from the package, with
which it shares only the level table (masks) and the rules for degenerate domains. Both must give the same domains.
"""

from __future__ import annotations

from wastedcores.kernels import KernelModel
from wastedcores.topology.cpumask import cpus_in
from wastedcores.topology.parameters import degenerate, parent_degenerate, sd_init


class Sd:
    def __init__(self, level, span, child):
        self.level, self.span, self.child = level, span, child
        self.parent = None
        self.groups = []
        self.flags = 0


def build(levels, cpu_map, all_cpus, kernel: KernelModel, one_node: bool):
    """Return for each CPU a list of (level name, span, [(span, mask, sgc)]), with degenerate domains removed."""
    cpu_map = set(cpu_map)
    tl = [{} for _ in levels]
    base = {}
    for i in sorted(cpu_map):
        child = None
        for k, level in enumerate(levels):
            span = set(cpus_in(level.mask_of_cpu[i])) & cpu_map
            if child is not None:
                span |= child.span
            sd = Sd(k, span, child)
            sd.flags = sd_init(level, 0, kernel)[0]
            if child is not None:
                child.parent = sd
            tl[k][i] = sd
            base.setdefault(i, sd)
            child = sd
            if span == cpu_map:
                break
    sgc_mask = {}
    for i in sorted(cpu_map):
        sd = base[i]
        while sd is not None:
            if levels[sd.level].overlap:
                _overlap(sd, i, tl, sgc_mask, kernel)
            else:
                _plain(sd, i, tl, sgc_mask, kernel, all_cpus)
            sd = sd.parent
    out = {}
    for i in sorted(cpu_map):
        kept = []
        sd = base[i]
        while sd is not None:
            if kept and parent_degenerate(
                kept[-1].flags,
                sd.flags,
                _bits(sd.span),
                sd.span == kept[-1].span,
                len(sd.groups),
                kernel,
                one_node,
            ):
                kept[-1].flags |= sd.flags & 0x1000
            else:
                kept.append(sd)
            sd = sd.parent
        if kept and degenerate(kept[0].flags, _bits(kept[0].span), len(kept[0].groups), kernel):
            kept.pop(0)
        out[i] = [
            (
                levels[sd.level].name,
                sorted(sd.span),
                [(sorted(g), sorted(sgc_mask[s]), s) for g, s in sd.groups],
            )
            for sd in kept
        ]
    return out


def _bits(cpus):
    return sum(1 << c for c in cpus)


def _plain(sd, cpu, tl, sgc_mask, kernel, all_cpus):
    at = tl[sd.level]

    def get_group(i):
        return min(at[i].child.span) if at[i].child else i

    ring, covered = [], set()
    for i in sorted(sd.span):
        if i in covered:
            continue
        key = get_group(i)
        members = {j for j in sd.span if get_group(j) == key}
        covered |= members
        sgc_mask[sd.level, key] = members if kernel.at_least(4, 13) else set(all_cpus)
        ring.append((members, (sd.level, key)))
    mine = next(k for k, (_, (_, key)) in enumerate(ring) if key == get_group(cpu))
    sd.groups = ring[mine:] + ring[:mine]


def _overlap(sd, cpu, tl, sgc_mask, kernel):
    if kernel.at_least(4, 13):
        return _overlap_wrapping(sd, cpu, tl, sgc_mask, kernel)
    at = tl[sd.level]
    order = sorted(sd.span)
    if kernel.group_construction:
        order = [cpu, *(i for i in order if i != cpu)]
    covered, ring, start = set(), [], None
    for i in order:
        if i in covered or i not in at:
            continue
        group = set(at[i].child.span) if at[i].child else {i}
        covered |= group
        sgc = (sd.level, i)
        if sgc not in sgc_mask:
            sgc_mask[sgc] = {j for j in sd.span if j in at}
        ring.append((group, sgc))
        first = min(group & sgc_mask[sgc], default=None)
        if (start is None and cpu in group) or first == cpu:
            start = len(ring) - 1
    sd.groups = ring[start:] + ring[:start]
    return None


def _overlap_wrapping(sd, cpu, tl, sgc_mask, kernel):
    at = tl[sd.level]
    order = sorted(sd.span)
    order = [i for i in order if i >= cpu] + [i for i in order if i < cpu]
    covered, ring = set(), []
    for i in order:
        if i in covered or i not in at:
            continue
        sibling = at[i]
        if kernel.at_least(5, 13) and sibling.child and not sibling.child.span <= sd.span:
            while sibling.child and not sibling.child.span <= sd.span:
                sibling = sibling.child
            while sibling.child and sibling.child.span == sibling.span:
                sibling = sibling.child
        group = set(sibling.child.span) if sibling.child else set(sibling.span)
        covered |= group
        there = tl[sibling.level]
        mask = {j for j in group if j in there and there[j].child and there[j].child.span == group}
        sgc = (sibling.level, min(mask))
        sgc_mask.setdefault(sgc, mask)
        ring.append((group, sgc))
    sd.groups = ring
