"""What one call of load_balance() saw and why it gave up, for the log of decisions (docs/events.md).

Nothing here changes what the scheduler does.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wastedcores.cpulist import format_cpulist
from wastedcores.simulator.decisions import level_names
from wastedcores.simulator.vocabulary import GROUP_TYPES, GROUP_TYPES_V6_12

if TYPE_CHECKING:
    from wastedcores.simulator.reference.group_stats_v6_12 import GroupStats as GroupStatsV6_12
    from wastedcores.simulator.reference.kernel import Kernel
    from wastedcores.simulator.reference.stats import Env, GroupStats
    from wastedcores.simulator.reference.stats_v6_12 import Env as EnvV6_12


@dataclass(repr=False)
class Asked:
    """One call of load_balance(), as far as it is known.

    Attributes
    ----------
    cpu, by_cpu
        The CPU for which it was called, and the CPU that executed it.
    designated
        The CPU that may balance for the local group.
    nr_balance_failed, interval_ms
        The state of the level before the call.
    tries
        How often a busiest group was looked for.
    pinned, running, hot, heavy
        Looks at a task that stayed: affinity, it was running, it was cache-hot, its load was more than twice the imbalance.
    src_nr_running
        Length of the source before the call took anything from it.
    groups
        The groups of the last try, in the order of the ring.
    migration, reason
        What is to move, ``load``, ``util`` or ``task``, and the comparison that found the domain balanced (v6.12).
    """

    cpu: int = -1
    by_cpu: int = -1
    designated: int = -1
    nr_balance_failed: int = 0
    interval_ms: int = 0
    tries: int = 0
    prefer_sibling: bool = False
    busiest: int | None = None
    imbalance: int = 0
    average: int = 0
    pinned: int = 0
    running: int = 0
    hot: int = 0
    heavy: int = 0
    src_nr_running: int | None = None
    groups: list[dict[str, Any]] = field(default_factory=list)
    migration: str | None = None
    reason: str | None = None

    def begin_try(self, prefer_sibling: bool) -> None:
        """Look for a busiest group, once more if all tasks of the previous queue were pinned."""
        self.tries += 1
        self.prefer_sibling, self.busiest, self.imbalance = prefer_sibling, None, 0
        self.migration = self.reason = None
        self.groups = []


def group_values(s: GroupStats, local: bool) -> dict[str, Any]:
    """Return the statistics of a group at this moment; calculate_imbalance() changes them later."""
    assert s.group is not None
    return {
        "cpus": format_cpulist(s.group.cpus),
        "local": local,
        "type": GROUP_TYPES[s.type],
        "load": s.group_load,
        "avg_load": s.avg_load,
        "min_load": s.min_load if s.min_load < 1 << 62 else None,
        "max_load": s.max_load,
        "nr_running": s.nr_running,
        "idle_cpus": s.idle_cpus,
        "capacity": s.capacity,
        "usage": s.usage,
        "load_per_task": s.load_per_task,
    }


def group_values_v6_12(s: GroupStatsV6_12, local: bool) -> dict[str, Any]:
    """Return the statistics of a group at this moment, as v6.12 computes them; only overloaded groups have an avg_load."""
    assert s.group is not None
    return {
        "cpus": format_cpulist(s.group.cpus),
        "local": local,
        "type": GROUP_TYPES_V6_12[s.type],
        "load": s.load,
        "avg_load": s.avg_load,
        "nr_running": s.sum_nr,
        "h_nr_queued": s.sum_h_nr,
        "idle_cpus": s.idle_cpus,
        "capacity": s.capacity,
        "usage": s.util,
        "runnable": s.runnable,
    }


def emit_decision(k: Kernel, env: Env | EnvV6_12, result: str, moved: int) -> None:
    """Log a finished call of load_balance()."""
    a = env.asked
    if result == "failed" and a.hot and not a.pinned and not a.heavy:
        result = "hot"
    text = {
        "level": level_names(k.tree)[env.sd.level],
        "moment": k.log_op,
        "compares": "min_load" if k.model.group_imbalance else "avg_load",
        "by_cpu": a.by_cpu,
        "idle": env.idle,
        "designated": a.designated,
        "dst_cpu": env.dst_cpu,
        "busiest": a.busiest,
        "imbalance": a.imbalance,
        "average": a.average,
        "imbalance_pct": env.sd.imbalance_pct,
        "tries": a.tries,
        "nr_balance_failed": a.nr_balance_failed,
        "interval_ms": a.interval_ms,
        "src_nr_running": a.src_nr_running,
        "prefer_sibling": a.prefer_sibling,
        "pinned": a.pinned,
        "running": a.running,
        "hot": a.hot,
        "heavy": a.heavy,
        "groups": {key: [g[key] for g in a.groups] for key in a.groups[0]} if a.groups else None,
    }
    if k.model.is_modern:
        text |= {"compares": "group_type", "migration": a.migration, "reason": a.reason}
    src = None if env.src_cpu < 0 else env.src_cpu
    k.emit("decision", cpu=a.cpu, src_cpu=src, op=result, value=moved, text=json.dumps(text))
