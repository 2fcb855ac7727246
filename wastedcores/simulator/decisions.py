"""The balancer's decisions in a replay: their rows in the engine's table, and their records as events of kind ``decision``.

A decision event has the CPU for which load_balance() was called, the result in ``op``, the CPU to pull from in ``src_cpu``,
the number of moved tasks in ``value``, and everything else as JSON in ``text`` (docs/events.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

from wastedcores.cpulist import format_cpulist
from wastedcores.jit.structs import fields
from wastedcores.simulator.engine.codes import log_kind
from wastedcores.simulator.engine.world import cpuset, decision_record, log_column
from wastedcores.simulator.engine.world.structs import Decision, DecisionGroup, Kernel, SchedDomain
from wastedcores.simulator.vocabulary import (
    BALANCED,
    DECISION_RESULTS,
    GROUP_TYPES,
    GROUP_TYPES_V6_12,
    IDLE_TYPES,
    MIGRATIONS,
    OPERATIONS,
)
from wastedcores.topology import levels as lv

if TYPE_CHECKING:
    from wastedcores.simulator.measure import RawReplay
    from wastedcores.topology.domains import Domains

_CALL_RECORDS = decision_record.WIDTH // decision_record.PER_RECORD
_GROUP_RECORDS = decision_record.GROUP_WIDTH // decision_record.PER_RECORD
#: for each column of a call's row: its key in the text, which is usually the column's name
_OF_A_CALL = {
    getattr(Decision, name): {"failed": "nr_balance_failed", "interval": "interval_ms", "held_back": "pinned"}.get(name, name)
    for name in (
        "by_cpu", "idle", "designated", "dst_cpu", "busiest", "imbalance", "average", "imbalance_pct", "tries", "failed",
        "interval", "src_nr_running", "prefer_sibling", "held_back", "running", "hot", "heavy",
    )
}  # fmt: skip
#: for each column of a group's row: its key in the text; under this key the text has a list with one entry per group
_OF_A_GROUP = {f: {"span": "cpus"}.get(name, name) for name, f in fields("DecisionGroup").items()}
#: under v6.12 the columns min_load and load_per_task hold other values; these are their keys under v6.12
_INSTEAD = {"min_load": "h_nr_queued", "load_per_task": "runnable"}
_OF_A_GROUP_V6_12 = {
    c: key for c, key in _OF_A_GROUP.items() if key not in ("max_load", *_INSTEAD)
} | {getattr(DecisionGroup, name): key for name, key in _INSTEAD.items()}


def rows_of(trees: Sequence[Domains], wanted: bool) -> int:
    """Return how many rows of the table hold the decision that is being made: 0 if decisions are not logged."""
    return 1 + _most_groups(trees) if wanted else 0


def records_per_event(trees: Sequence[Domains], wanted: bool) -> int:
    """Return how many records one event may need for decisions: one call per level for each CPU that balances in the event."""
    if not wanted:
        return 0
    levels = max((len(tree.of(cpu)) for tree in trees for cpu in tree.cpus), default=0)
    return 8 * levels * (1 + _CALL_RECORDS + _GROUP_RECORDS * _most_groups(trees))


def _most_groups(trees: Sequence[Domains]) -> int:
    return max(
        (len(d.groups) for tree in trees for cpu in tree.cpus for d in tree.of(cpu)), default=0
    )


@dataclass
class Decided:
    """The values of a replay's decisions, as the engine logged them."""

    calls: np.ndarray  # int64 (decisions, 18), fields of Decision
    groups: np.ndarray  # int64 (groups of all decisions, 12), in the order of the calls
    levels: list[str]  # the level of each domain, in the order of the domains' rows


def take_decisions(
    log: np.ndarray, m: np.ndarray, trees: Sequence[Domains]
) -> tuple[np.ndarray, Decided]:
    """Take the values of decisions out of the log; return the rest of the log and these values."""
    kind = log[:, log_column.KIND]
    parts = log[kind == log_kind.DECISION_PART, log_column.CPU :]
    heads = np.flatnonzero(kind == log_kind.DECISION)
    owner = np.cumsum(kind == log_kind.DECISION)[kind == log_kind.DECISION_PART] - 1
    first = np.searchsorted(owner, np.arange(len(heads)))
    rows = first[:, None] + np.arange(_CALL_RECORDS)
    calls = parts[rows].reshape(len(heads), decision_record.WIDTH)
    of_groups = np.ones(len(parts), bool)
    of_groups[rows.ravel()] = False
    groups = parts[of_groups].reshape(-1, decision_record.GROUP_WIDTH)
    return log[kind != log_kind.DECISION_PART], Decided(calls, groups, _levels(m, trees))


def _levels(m: np.ndarray, trees: Sequence[Domains]) -> list[str]:
    """Name the level of each domain row."""
    out: list[str] = []
    row = int(m[0, Kernel.domain0])
    for tree in trees:
        names = level_names(tree)
        for _ in range(len(tree.to_arrays().domain_cpu)):
            out.append(names[int(m[row, SchedDomain.index])])
            row += 1
    return out


def level_names(tree: Domains) -> list[str]:
    """Return the name of each entry of the level table, such as ``MC`` or ``NUMA<=16``."""
    return [f"{x.name}<={x.distance}" if x.flags & lv.SD_NUMA else x.name for x in tree.levels]


def with_decisions(events: pl.DataFrame, raw: RawReplay, cpus: int) -> pl.DataFrame:
    """Fill ``op`` and ``text`` of the decision events."""
    if raw.decided is None:
        return events
    at = np.flatnonzero(raw.log[:, log_column.KIND] == log_kind.DECISION)
    results = np.array(DECISION_RESULTS)[raw.log[at, log_column.OTHER]]
    return events.with_columns(
        events["op"].scatter(at, pl.Series(results)),
        events["text"].scatter(at, decision_texts(raw, cpus)),
    )


def decision_texts(raw: RawReplay, cpus: int) -> pl.Series:
    """Write the values of each decision as JSON."""
    assert raw.decided is not None
    heads = raw.of(log_kind.DECISION)
    calls, first = raw.decided.calls, int(raw.masks[0, Kernel.domain0])
    modern = bool(raw.masks[0, Kernel.is_modern])
    level = np.array(raw.decided.levels)[heads[:, log_column.PID] - first]
    compares = "min_load" if raw.masks[0, Kernel.group_imbalance_fix] else "avg_load"
    frame = pl.DataFrame(
        {
            "level": level,
            "moment": np.array(OPERATIONS)[heads[:, log_column.OP]],
            "compares": "group_type" if modern else compares,
            **{key: calls[:, column] for column, key in _OF_A_CALL.items()},
        },
        schema_overrides=dict.fromkeys(_OF_A_CALL.values(), pl.Int64),
    )
    names = {-1: ""} | {  # replace_strict() refuses a mapping without entries
        int(row): format_cpulist(cpuset.cpus_of(raw.masks[row], cpus))
        for row in np.unique(raw.decided.groups[:, DecisionGroup.span])
    }
    groups = _lists(raw.decided.groups, calls[:, Decision.nr_groups], names, modern)
    shown = frame.with_columns(
        pl.col("idle").replace_strict(dict(enumerate(IDLE_TYPES)), return_dtype=pl.String),
        pl.col("prefer_sibling").mod(1 << decision_record.MOVES_SHIFT).cast(pl.Boolean),
        pl.col("busiest", "src_nr_running").replace(-1, None),
        groups=pl.when(pl.Series(calls[:, Decision.nr_groups] > 0)).then(groups),
        **(_more_of_v6_12(calls[:, Decision.prefer_sibling]) if modern else {}),
    )
    return shown.select(pl.struct(pl.all()).struct.json_encode()).to_series()


def _more_of_v6_12(packed: np.ndarray) -> dict[str, pl.Series]:
    """Return for each decision what was to move, and the comparison that found the domain balanced."""
    moves = (packed >> decision_record.MOVES_SHIFT) & (
        (1 << decision_record.REASON_SHIFT - decision_record.MOVES_SHIFT) - 1
    )
    reasons = (None, *BALANCED[1:])
    return {
        "migration": pl.Series([(None, *MIGRATIONS)[i] for i in moves], dtype=pl.String),
        "reason": pl.Series(
            [reasons[i] for i in packed >> decision_record.REASON_SHIFT], dtype=pl.String
        ),
    }


def _lists(
    groups: np.ndarray, counts: np.ndarray, names: dict[int, str], modern: bool
) -> pl.Series:
    """Return the groups of each decision as a struct of lists."""
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int64())
    keys = _OF_A_GROUP_V6_12 if modern else _OF_A_GROUP
    columns = pl.DataFrame(
        {key: groups[:, column] for column, key in keys.items()},
        schema=dict.fromkeys(keys.values(), pl.Int64),
    )
    types = GROUP_TYPES_V6_12 if modern else GROUP_TYPES
    columns = columns.with_columns(
        pl.col("cpus").replace_strict(names, return_dtype=pl.String),
        pl.col("local").cast(pl.Boolean),
        pl.col("type").replace_strict(dict(enumerate(types)), return_dtype=pl.String),
    )
    if not modern:
        columns = columns.with_columns(pl.col("min_load").replace(-1, None))
    arrays = {
        c.name: pl.Series(pa.LargeListArray.from_arrays(offsets, c.to_arrow())) for c in columns
    }
    return pl.DataFrame(arrays).to_struct("groups")
