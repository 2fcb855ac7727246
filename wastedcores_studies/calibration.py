"""Fits the programs' parameters to the published cells that a calibration may see, and writes the parameters to a file."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wastedcores import __version__
from wastedcores.errors import UsageError, WastedCoresError
from wastedcores.files import find, written_whole
from wastedcores.sweep import Run, sweep
from wastedcores_studies import nas_fit, tpch
from wastedcores_studies.published import blanked, load

SCHEMA = "wastedcores.calibration/1"
#: parts of a calibration, by program
_PARTS = ("nas", "tpch")
_MAKE_ONE = "Make one with wastedcores reproduce --calibrate."

Note = Callable[[str], None]


def read_calibration(path: Path | None = None) -> dict[str, Any]:
    """Return the content of a calibration file."""
    path = path or find("datasets", "calibration.json")
    try:
        content: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as e:
        raise UsageError(f"{path}: the calibration cannot be read ({e}). {_MAKE_ONE}") from None
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise UsageError(f"{path}: expected a calibration with the schema {SCHEMA}. {_MAKE_ONE}")
    missing = [part for part in _PARTS if not isinstance(content.get(part), dict)]
    if missing:
        raise UsageError(f"{path}: the calibration has no {' and no '.join(missing)}. {_MAKE_ONE}")
    return content


def calibrate(
    folder: Path,
    *,
    seeds: Sequence[int] = (1, 2, 3, 4, 5),
    workers: int | None = None,
    scheduler: str | None = None,
    progress: bool = True,
    note: Note = print,
) -> dict[str, Any]:
    """Fit the parameters of all programs to the cells that a calibration may see."""
    tables = blanked(load())
    runs_folder = folder / "calibration"
    runs_folder.mkdir(parents=True, exist_ok=True)
    step = 0

    def execute(runs: list[Run]) -> list[dict[str, Any]]:
        nonlocal step
        step += 1
        note(f"calibration, step {step}: {len(runs)} replays")
        table = sweep(
            runs,
            runs_folder / f"calibration-{step}.parquet",
            workers=workers,
            scheduler=scheduler,
            progress=progress,
        )
        rows = table.to_dicts()
        for row in rows:
            if row["error"] is not None:
                raise UsageError(f"calibration: a replay failed: {row['error']}")
        return rows

    content = {
        "schema": SCHEMA,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "version": __version__,
        "commit": commit(),
        "seeds": list(seeds),
        "seen": "Table 1 (both columns), Table 3 (fixed column), Table 2 (row none)",
        "nas": nas_fit.calibrate(tables, execute, seeds=seeds),
        "tpch": tpch.calibrate(tables, execute, seeds=seeds),
    }
    with written_whole(folder / "calibration.json") as part:
        part.write_text(json.dumps(content, indent=1) + "\n")
    return content


def commit() -> str:
    """Return the short name of the checkout's commit, or an empty text in an installed package."""
    try:
        out = subprocess.run(
            ["git", "-C", str(find("pyproject.toml").parent), "describe", "--always", "--dirty"],
            capture_output=True,
            text=True,
            check=False,
        )
    except (OSError, WastedCoresError):
        return ""
    return out.stdout.strip()
