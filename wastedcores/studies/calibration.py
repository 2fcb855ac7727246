"""The programs' parameters: found from the published cells that may be seen, and kept in a small file."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wastedcores import __version__
from wastedcores.errors import UsageError, WastedCoresError
from wastedcores.files import find
from wastedcores.studies import nas_fit, tpch
from wastedcores.studies.published import blanked, load
from wastedcores.sweep import Run, sweep

CALIBRATION = Path(__file__).with_name("calibration.json")

Note = Callable[[str], None]


def calibration(path: Path = CALIBRATION) -> dict[str, Any]:
    """The stored result of :func:`calibrate`.

    Raises
    ------
    UsageError
        There is none.
    """
    if not path.exists():
        raise UsageError(
            f"{path}: there is no calibration; make one with wastedcores reproduce --calibrate."
        )
    content: dict[str, Any] = json.loads(path.read_text())
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
    """Find the parameters of all programs from the cells that may be seen, and say how well they fit.

    Parameters
    ----------
    folder
        Where the replays are kept, so that a calibration that was interrupted goes on.
    seeds, workers, scheduler, progress
        As for :func:`reproduce`.
    note
        Is told what happens.
    """
    tables = blanked(load())
    folder.mkdir(parents=True, exist_ok=True)
    step = 0

    def execute(runs: list[Run]) -> list[dict[str, Any]]:
        nonlocal step
        step += 1
        note(f"calibration, step {step}: {len(runs)} replays")
        table = sweep(
            runs,
            folder / f"calibration-{step}.parquet",
            workers=workers,
            scheduler=scheduler,
            progress=progress,
        )
        rows = table.to_dicts()
        for row in rows:
            if row["error"] is not None:
                raise UsageError(f"calibration: a replay of {row['kind']} failed: {row['error']}")
        return rows

    return {
        "schema": "wastedcores.calibration/1",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "version": __version__,
        "commit": commit(),
        "seeds": list(seeds),
        "seen": "Table 1 (both columns), Table 3 (fixed column), Table 2 (row none)",
        "nas": nas_fit.calibrate(tables, execute, seeds=seeds),
        "tpch": tpch.calibrate(tables, execute, seeds=seeds),
    }


def commit() -> str:
    """Short name of the commit of a checkout; empty in an installed package."""
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
