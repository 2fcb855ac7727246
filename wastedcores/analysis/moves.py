"""How often threads move to another CPU, cache and node: the possible price of wasting no core.

A thread that moves to a CPU behind another last-level cache has to fetch its data again. Nothing in a trace tells how long that
takes, so moves are only counted, and not converted into lost time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from wastedcores.topology.machine import Machine
from wastedcores.trace.trace import Trace


def moves(
    trace: Trace, start_ns: int, end_ns: int, machine: Machine | None = None
) -> dict[str, Any]:
    """Return how often threads move per second of a window. A rate is None if the trace lacks migrations or a machine."""
    seen = (
        trace.only("migrate")
        .filter(pl.col("ts_ns").is_between(start_ns, end_ns), pl.col("cpu") != pl.col("src_cpu"))
        .select("src_cpu", "cpu")
        .drop_nulls()
        .collect()
    )
    if machine is None and trace.header.machine:
        machine = Machine.from_dict(trace.header.machine)
    return rates(
        seen["src_cpu"].to_numpy(), seen["cpu"].to_numpy(), max(end_ns - start_ns, 1), machine
    )


def rates(
    source: np.ndarray, target: np.ndarray, length_ns: int, machine: Machine | None
) -> dict[str, Any]:
    """Return the rates of moves from CPUs ``source`` to CPUs ``target``, as :func:`moves` does."""
    seconds, known = length_ns / 1e9, len(source) > 0
    out: dict[str, Any] = {"per_s": len(source) / seconds if known else None}
    for name, of_cpu in (("caches", "llc_of_cpu"), ("nodes", "node_of_cpu")):
        at = None if machine is None else getattr(machine, of_cpu)
        across = None
        if known and at is not None and max(source.max(), target.max()) < len(at):
            across = int((at[source] != at[target]).sum()) / seconds
        out[f"across_{name}_per_s"] = across
    return out


def moves_words(found: dict[str, Any]) -> str:
    """Write the rates of moves for a table: ``1,040 a second, 246 to another node``."""
    if found["per_s"] is None:
        return "no event of a migration"
    number = f"{found['per_s']:,.0f}"
    text = f"{number} migration{'s'[: number != '1']} a second"
    parts = [
        f"{found[key]:,.0f} to another {what}"
        for key, what in (
            ("across_caches_per_s", "last-level cache"),
            ("across_nodes_per_s", "node"),
        )
        if found[key] is not None
    ]
    return text + (f", {' and '.join(parts)}" if parts else "")
