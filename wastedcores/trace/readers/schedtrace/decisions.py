"""Reads the balancer's decisions, which a recording of the online checker has as a block of JSON (collectors/_decisions.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl

from wastedcores.errors import TraceFormatError

_TYPES = {
    "ts_ns": pl.Int64, "cpu": pl.Int32, "src_cpu": pl.Int32, "op": pl.String, "value": pl.Int64, "text": pl.String
}  # fmt: skip
#: functions that are probed: the name here -> the name in a sentence
FUNCTIONS = {"load_balance": "load_balance()", "find_busiest_group": "find_busiest_group()"}


def decided_rows(payload: bytes, path: Path) -> pl.DataFrame:
    """Return the decisions of a block as events."""
    try:
        rows = [(*row[:5], json.dumps(row[5])) for row in _parsed(payload)["rows"] if len(row) == 6]
        table = pl.DataFrame(rows, schema=_TYPES, orient="row")
        if table["ts_ns", "cpu", "op"].null_count().sum_horizontal().item():
            raise ValueError("a decision without a time, a CPU or a result")
    except (
        ValueError,
        TypeError,
        KeyError,
        OverflowError,
        RecursionError,
        pl.exceptions.PolarsError,
    ) as e:
        raise TraceFormatError(
            f"{path}: the block of decisions is damaged ({e}). The recording cannot be read past it."
        ) from e
    return table.with_columns(kind=pl.lit("decision")).sort("ts_ns", maintain_order=True)


def _parsed(payload: bytes) -> dict[str, Any]:
    found = json.loads(payload)
    if not isinstance(found, dict):
        raise ValueError("no JSON object")
    return found


def probes_note(payload: bytes) -> str:
    """Say how the decisions of a block were seen, and which probes the kernel refused."""
    return probes_sentence(_parsed(payload))


def probes_sentence(found: dict[str, Any]) -> str:
    """Say how the collector watches the balancer, from what it tells about its probes."""
    how, refused = (dict(found.get(key) or {}) for key in ("how", "refused"))
    seen = [f"{FUNCTIONS.get(name, name)} by {way}" for name, way in how.items()]
    no = [f"{FUNCTIONS.get(name, name)} was refused ({why})" for name, why in refused.items()]
    if not seen and found.get("sampled"):
        seen = [
            "no function could be probed, so the domains were read every millisecond: calls are known, reasons are not"
        ]
    return "; ".join([*seen, *no])
