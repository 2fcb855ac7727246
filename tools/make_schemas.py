"""Write the JSON Schemas of what the verbs print with --json: ``python tools/make_schemas.py``.

``tests/integrations/test_schemas.py`` compares the files with what the verbs really print.
"""

from __future__ import annotations

import json
from pathlib import Path

from answers import machines, replays, traces, verdicts
from pydantic import BaseModel

from wastedcores.capture.service import WatchConfig
from wastedcores.capture.snapshot import Snapshot

FOLDER = Path(__file__).resolve().parents[1] / "integrations" / "schemas"
#: a verb with --json, or what else is written -> the models of its answers by the names of their files
VERBS: dict[str, dict[str, type[BaseModel]]] = {
    "capture": {"recording": traces.Recording},
    "check": {"check": verdicts.Check},
    "compare": {
        "compare": replays.Compare,
        "compare-traces": traces.CompareTraces,
        "gate": verdicts.Gate,
    },
    "data": {"data": traces.Data},
    "doctor": {"doctor": machines.Doctor},
    "domains": {"domains": machines.Domains},
    "explain": {"explain": traces.Explain},
    "export": {"export": traces.Export},
    "fleet": {"fleet": verdicts.Fleet},
    "guest compare": {"guest-compare": replays.GuestCompare},
    "guest doctor": {"guest-doctor": machines.GuestDoctor},
    "guest kernels": {"guest-kernels": machines.GuestKernels},
    "guest record": {"recording": traces.Recording},
    "import": {"recording": traces.Recording},
    "info": {"info": traces.Info},
    "measure": {"measure": machines.Measure},
    "path": {"path": traces.Path},
    "recover": {"recovered": traces.Recovered},
    "replay": {"replay": replays.Replay},
    "reproduce": {"reproduce": replays.Reproduce, "proofs": replays.Proofs},
    "scenarios": {"scenarios": replays.Scenarios},
    "schedstat": {"schedstat": traces.Schedstat},
    "score": {"score": verdicts.Score},
    "snapshot": {"snapshot": Snapshot},
    "sweep": {"sweep": replays.Sweep},
    "watch": {"watch": verdicts.Watch, "watch-config": WatchConfig},
    "whatif": {"whatif": replays.WhatIf},
}


def schemas() -> dict[str, str]:
    """Return the text of every file by its name."""
    return {
        f"{name}.json": json.dumps(model.model_json_schema(), indent=1) + "\n"
        for models in VERBS.values()
        for name, model in models.items()
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in schemas().items():
        (FOLDER / name).write_text(text)
