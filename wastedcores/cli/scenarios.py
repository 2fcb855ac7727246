"""``wastedcores scenarios``: the workloads that can be replayed by name."""

from __future__ import annotations

import json

from wastedcores.cli._app import app, epilog
from wastedcores.cli._options import AsJson


@app.command(epilog=epilog("scenarios", "scenarios --json"))
def scenarios(as_json: AsJson = False) -> None:
    """List the scenarios, their machines, fixes and parameters."""
    from wastedcores.workload.scenarios import SCENARIOS, as_text

    if as_json:
        rows = [
            {k: getattr(s, k) for k in ("name", "doc", "machine", "fix", "kernel")}
            | {"parameters": s.parameters()}
            for s in SCENARIOS.values()
        ]
        print(json.dumps({"schema": "wastedcores.scenarios/1", "scenarios": rows}))
        return
    for s in SCENARIOS.values():
        print(s.name)
        print(f"  {s.doc}")
        print(f"  on {s.machine}, {s.kernel}" + (f"; cured by {s.fix}" if s.fix else ""))
        words = [f"{k}={as_text(v)}" for k, v in s.parameters().items()]
        for i in range(0, len(words), 5):
            print(("  --set " if i == 0 else "        ") + " ".join(words[i : i + 5]))
