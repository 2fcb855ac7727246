"""Writes the events that the readers find in the files of golden/. Run it by hand, and check the result before committing."""

from __future__ import annotations

import json
from typing import Any

from support import TRACE_GOLDEN as HERE
from wastedcores.trace import Trace
from wastedcores.trace.io import open_trace

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


if __name__ == "__main__":
    for file in sorted(HERE.glob("*.txt")):
        data = summary(open_trace(file))
        rows = ",\n".join(json.dumps(r, ensure_ascii=False) for r in data.pop("events"))
        head = json.dumps(data, ensure_ascii=False)[:-1]
        file.with_suffix(".json").write_text(f'{head}, "events": [\n{rows}\n]}}\n')
