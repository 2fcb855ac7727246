"""A trace as plain values, and as the text of a golden file."""

from __future__ import annotations

import json
from typing import Any

from wastedcores.trace import Trace

HEADER = (
    "source_format",
    "kernel_release",
    "cpus",
    "start_ns",
    "end_ns",
    "events",
    "every_switch",
    "lost",
    "overwritten",
)


def summary(trace: Trace) -> dict[str, Any]:
    """Return header fields and events, without nulls, in types that JSON has."""
    header = json.loads(trace.header.model_dump_json())
    notes = {
        k: v for k, v in header["provenance"].items() if k not in ("source_sha256", "imported_by")
    }
    rows = [
        {k: v.hex() if isinstance(v, bytes) else v for k, v in row.items() if v is not None}
        for row in trace.events.collect().iter_rows(named=True)
    ]
    return {"header": {k: header[k] for k in HEADER}, "notes": notes, "events": rows}


def golden_text(trace: Trace) -> str:
    """Return the text of the golden file: the header in the first line, then a line per event."""
    data = summary(trace)
    rows = ",\n".join(json.dumps(r, ensure_ascii=False) for r in data.pop("events"))
    return f'{json.dumps(data, ensure_ascii=False)[:-1]}, "events": [\n{rows}\n]}}\n'
