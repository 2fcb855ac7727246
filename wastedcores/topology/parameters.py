"""The flags and numbers that ``sd_init`` sets on a domain, and the test for degenerate domains."""

from __future__ import annotations

from typing import NamedTuple

from wastedcores.kernels import KernelModel
from wastedcores.topology import levels as lv
from wastedcores.topology.levels import RECLAIM_DISTANCE, Level


class Parameters(NamedTuple):
    """The numbers of a ``sched_domain``. Intervals are in ms; ``*_idx`` are indices of ``cpu_load`` (0 from v5.3)."""

    imbalance_pct: int
    cache_nice_tries: int
    busy_idx: int
    idle_idx: int
    newidle_idx: int
    wake_idx: int
    forkexec_idx: int
    min_interval: int
    max_interval: int
    busy_factor: int
    smt_gain: int
    distance: int


def sd_init(
    level: Level, weight: int, kernel: KernelModel, reclaim: int = RECLAIM_DISTANCE
) -> tuple[int, Parameters]:
    """Return the flags and numbers of a new domain.

    kernel/sched/core.c: sd_init(), v4.1; kernel/sched/topology.c: sd_init(), v6.1. PREFER_SIBLING became the default
    with v4.20 (9c63e84db29b), ``busy_factor`` 16 and ``imbalance_pct`` 117 with v5.10. SD_OVERLAP exists in
    v6.18, but no longer in v7.1.
    """
    modern, no_idx = kernel.at_least(5, 10), kernel.at_least(5, 3)
    always_sibling = kernel.at_least(4, 20)
    flags = lv.SD_BALANCE_NEWIDLE | lv.SD_BALANCE_EXEC | lv.SD_BALANCE_FORK | lv.SD_WAKE_AFFINE
    flags |= level.flags | (0 if modern else lv.SD_LOAD_BALANCE)
    flags |= lv.SD_OVERLAP if level.overlap and not kernel.at_least(7, 1) else 0
    flags |= lv.SD_PREFER_SIBLING if always_sibling else 0
    pct, tries, busy, idle, gain = (117 if modern else 125), 0, 0, 0, 0
    if level.flags & lv.SD_SHARE_CPUCAPACITY:
        flags |= lv.SD_PREFER_SIBLING
        pct, gain = 110, 0 if kernel.at_least(5, 1) else 1178
    elif level.flags & lv.SD_SHARE_PKG_RESOURCES:
        pct, tries, busy = 117, 1, 2
    elif level.flags & lv.SD_NUMA:
        tries, busy, idle = 2, 3, 2
        flags = (flags | lv.SD_SERIALIZE) & ~lv.SD_PREFER_SIBLING
        if level.distance > reclaim:
            flags &= ~(lv.SD_BALANCE_EXEC | lv.SD_BALANCE_FORK | lv.SD_WAKE_AFFINE)
    else:
        flags |= lv.SD_PREFER_SIBLING
        tries, busy, idle = 1, 2, 1
    if no_idx:
        busy = idle = 0
    return flags, Parameters(
        imbalance_pct=pct,
        cache_nice_tries=tries,
        busy_idx=busy,
        idle_idx=idle,
        newidle_idx=0,
        wake_idx=0,
        forkexec_idx=0,
        min_interval=weight,
        max_interval=2 * weight,
        busy_factor=16 if modern else 32,
        smt_gain=gain,
        distance=level.distance,
    )


_NEED_GROUPS = (
    lv.SD_LOAD_BALANCE
    | lv.SD_BALANCE_NEWIDLE
    | lv.SD_BALANCE_FORK
    | lv.SD_BALANCE_EXEC
    | lv.SD_SHARE_CPUCAPACITY
    | lv.SD_SHARE_PKG_RESOURCES
)


def degenerate(flags: int, span: int, groups: int, kernel: KernelModel) -> bool:
    """Tell whether a domain has no effect (kernel/sched/core.c: sd_degenerate(), v4.1; SDF_NEEDS_GROUPS from v5.10)."""
    if span & (span - 1) == 0:
        return True
    need = ~lv.SD_WAKE_AFFINE if kernel.at_least(5, 10) else _NEED_GROUPS
    if flags & need and groups > 1:
        return False
    return not flags & lv.SD_WAKE_AFFINE


def parent_degenerate(
    child_flags: int,
    flags: int,
    span: int,
    same_span: bool,
    groups: int,
    kernel: KernelModel,
    one_node: bool,
) -> bool:
    """Tell whether a domain adds nothing to its child (sd_parent_degenerate(), in the same files).

    If the domain has one group, the flags that need groups do not count. Before v5.10, NUMA, OVERLAP and (with several nodes)
    SERIALIZE are not among these flags, so a NUMA level with the span of its child stays. From v5.10 all three need groups.
    """
    if degenerate(flags, span, groups, kernel):
        return True
    if not same_span:
        return False
    if groups == 1:
        if kernel.at_least(5, 10):
            flags &= lv.SD_WAKE_AFFINE
        else:
            flags &= ~(_NEED_GROUPS | lv.SD_PREFER_SIBLING)
            if one_node:
                flags &= ~lv.SD_SERIALIZE
    return not flags & ~child_flags
