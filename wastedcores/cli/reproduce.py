"""``wastedcores reproduce``: the papers' numbers beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from wastedcores.cli._app import app

_EPILOG = """Examples:

  wastedcores reproduce all -o reports/scorecard

  wastedcores reproduce table3 --json

  wastedcores reproduce claims --seeds 5 --no-page

  wastedcores reproduce --calibrate

Runs that are done are kept in the folder; the same command goes on where it was. Runs of other code are done again.
Exit code: 0 fine, 2 bad use or a run failed, 130 after Ctrl-C.
"""


@app.command(epilog=_EPILOG)
def reproduce(
    what: Annotated[
        str, typer.Argument(help="table1, table2, table3, claims, walcher or all")
    ] = "all",
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for runs, rows and page")] = Path(
        "reports/reproduce"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for machines")] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Replays a number, seeds 1 to N")] = 20,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default one a CPU")] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler to run on instead")
    ] = None,
    page: Annotated[
        bool, typer.Option("--page/--no-page", help="Write the page (when all parts are run)")
    ] = True,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate", help="Find the parameters anew from the columns that may be seen"
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No progress bar")] = False,
) -> None:
    """Lay the published numbers beside those of the replay."""
    import json
    import sys

    from wastedcores.errors import UsageError
    from wastedcores.studies import calibration, scorecard

    parts = scorecard.PARTS if what == "all" else (what,)
    if not set(parts) <= set(scorecard.PARTS):
        raise UsageError(f"part {what!r}: there are {', '.join(scorecard.PARTS)} and all.")

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise UsageError(
            f"--out {out}: the folder cannot be made ({e.strerror}). Choose another."
        ) from None
    how: dict[str, Any] = {"workers": workers, "scheduler": scheduler, "progress": not quiet}
    if calibrate:
        found = calibration.calibrate(
            out / "calibration", note=lambda t: print(t, file=sys.stderr), **how
        )
        calibration.CALIBRATION.write_text(json.dumps(found, indent=1) + "\n")
        for app_name, entry in found["nas"].items():
            worst = max(entry["residuals"].values(), key=abs)
            print(f"{app_name}: worst residual {worst:+.1%}")
        print(calibration.CALIBRATION)
        return
    result = scorecard.reproduce(
        parts, out, seeds=range(1, seeds + 1), depends=what == "all", **how
    )
    if as_json:
        print(json.dumps(result))
    else:
        _print(result)
    if page and what == "all":
        from wastedcores.reports.notebook import report

        made = report(
            notebook="08_reproduction_scorecard",
            parameters={"folder": str(out.absolute())},
            out=out / "page",
            progress=not quiet,
        )
        print(made.html, file=sys.stderr if as_json else sys.stdout)
    if result["summary"]["failed"]:
        raise typer.Exit(2)


def _print(result: dict[str, Any]) -> None:
    """Rows as a table of under 80 columns, then the verdict."""
    print(f"{'':34}{'published':>10}{'ours':>10}{'5-95 %':>16}  verdict")
    for row in result["rows"]:
        mark = {"calibrated": "c", "predicted": "p", "measured": "m"}[row["kind"]]
        span = "" if row["low"] is None else f"{row['low']:.3g}..{row['high']:.3g}"
        print(
            f"{mark} {row['id'][:32]:32}{_short(row['published']):>10}{_short(row['ours']):>10}"
            f"{span:>16}  {row['verdict']}"
        )
    s = result["summary"]
    print(
        f"\nc calibrated ({s['calibrated']}), p predicted ({s['predicted']}), m measured ({s['measured']})"
    )
    if s["predicted_median_error"] is not None:
        print(
            f"predicted: {s['predicted_within_1.5']:.0%} within a factor of 1.5, median error "
            f"{s['predicted_median_error']:.0%}; {s['predicted_reproduced']} of {s['predicted']} reproduced, "
            "changes in percent as such"
        )
    wrong = ", ".join(s["direction_wrong"]) or "none"
    none = ", ".join(s["no_effect"]) or "none"
    print(f"no effect where one is published: {none}")
    print(f"direction wrong: {wrong}; failed: {s['failed']}; not tried: {len(result['not_tried'])}")


def _short(value: Any) -> str:
    if value is None:
        return "-"
    return "text" if isinstance(value, str) else f"{value:.4g}"
