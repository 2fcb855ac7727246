"""``wastedcores reproduce``: the papers' numbers and those of the replay, side by side."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from wastedcores.cli._app import app, epilog
from wastedcores.cli._options import AsJson, Quiet, Scheduler, Workers, refuse_unused
from wastedcores.cli._output import tell_leftovers

if TYPE_CHECKING:
    from wastedcores_studies.registry import Checks

_NOTES = """The folder keeps the runs that are done, so the same command continues after an interruption. Runs of another
version of the code are run again."""
_EXIT_CODES = "0 fine, 2 bad use or a run failed, 130 after Ctrl-C."


@app.command(
    epilog=epilog(
        "reproduce all -o reports/scorecard",
        "reproduce table3 --json",
        "reproduce claims --seeds 5 --no-page",
        "reproduce carver --seeds 5",
        "reproduce sites",
        "reproduce newidle",
        "reproduce proofs",
        "reproduce --calibrate -o fit",
        "reproduce table3 --calibration fit/calibration.json",
        notes=_NOTES,
        exit_codes=_EXIT_CODES,
    )
)
def reproduce(
    ctx: typer.Context,
    what: Annotated[
        str,
        Argument(
            metavar="PART",
            help="The part: table1, table2, table3, claims, walcher, carver, sites, newidle, proofs (checks of small machines), "
            "or all (the first five).",
        ),
    ] = "all",
    output: Annotated[
        Path,
        Option("--output", "-o", metavar="DIR", help="The folder for runs, rows and the page."),
    ] = Path("reports/reproduce"),
    as_json: AsJson = False,
    seeds: Annotated[
        int, Option(min=1, metavar="N", help="Replay each case with the seeds 1 to N.")
    ] = 20,
    workers: Workers = None,
    scheduler: Scheduler = None,
    page: Annotated[
        bool, Option("--page/--no-page", help="Write the page, if all parts are run.")
    ] = True,
    calibrate: Annotated[
        bool,
        Option(
            "--calibrate",
            help="Fit the parameters to the published columns that are reserved for this, and write them to "
            "DIR/calibration.json.",
        ),
    ] = False,
    calibration: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Use the parameters that --calibrate wrote instead of the bundled ones.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Compare the published numbers with those of the replay."""
    from wastedcores.errors import UsageError
    from wastedcores_studies import scorecard
    from wastedcores_studies.registry import parts_of, study_of

    parts = parts_of(what)
    if calibrate and what != "all":
        raise UsageError(f"--calibrate is about no single part; leave {what} out.")
    if calibrate:
        fixed = "--calibrate replays five seeds and writes calibration.json"
        refuse_unused(ctx, ("as_json", "seeds", "calibration"), fixed)
    if len(parts) == 1 and (make := study_of(parts[0]).checks):
        of_replays = ("output", "seeds", "workers", "scheduler", "calibration")
        refuse_unused(ctx, of_replays, f"{what} replays nothing and only prints its rows")
        _check(make(), as_json)
        return
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise UsageError(
            f"-o {output}: the folder cannot be made ({e.strerror}). Choose another."
        ) from None
    tell_leftovers(output)
    how: dict[str, Any] = {"workers": workers, "scheduler": scheduler, "progress": not quiet}
    if calibrate:
        _calibrate(output, how)
        return
    result = scorecard.reproduce(
        parts,
        output,
        seeds=range(1, seeds + 1),
        depends=what == "all",
        calibration=calibration,
        **how,
    )
    if as_json:
        print(json.dumps(result))
    else:
        _print(result)
    if page and what == "all":
        from wastedcores.reports.notebook import report

        made = report(
            notebook="08_reproduction_scorecard",
            parameters={"folder": str(output.absolute())},
            out=output / "page",
            progress=not quiet,
        )
        print(made.html, file=sys.stderr if as_json else sys.stdout)
    if result["summary"]["failed"]:
        raise typer.Exit(2)


def _calibrate(output: Path, how: dict[str, Any]) -> None:
    """Fit the parameters, write them to ``output``, and print the largest error of each program."""
    from wastedcores_studies.calibration import calibrate

    found = calibrate(output, note=lambda t: print(t, file=sys.stderr), **how)
    for program, entry in found["nas"].items():
        worst = max(entry["residuals"].values(), key=abs)
        print(f"{program}: worst residual {worst:+.1%}")
    written = output / "calibration.json"
    print(f"{written}\nUse it with: wastedcores reproduce all --calibration {written}")


def _check(checks: Checks, as_json: bool) -> None:
    """Run the checks of a study and print each row, for example a claim with its smallest counterexample."""
    rows = []
    for row in checks.rows():
        rows.append(row)
        if not as_json:
            print("\n".join(checks.sentences(row)), flush=True)
    if as_json:
        print(json.dumps({"schema": checks.schema, "rows": rows}))


def _print(result: dict[str, Any]) -> None:
    """Print the rows as a table, then the verdict."""
    print(f"{'':34}{'published':>10}{'replayed':>12}{'5-95 %':>16}  verdict")
    for row in result["rows"]:
        mark = {
            "calibrated": "c",
            "predicted": "p",
            "measured": "m",
            "computed": "w",
            "assumed": "a",
        }[row["kind"]]
        span = "" if row["low"] is None else f"{row['low']:.3g}..{row['high']:.3g}"
        print(
            f"{mark} {row['id'][:32]:32}{_short(row['published']):>10}{_short(row['ours']):>12}"
            f"{span:>16}  {row['verdict']}{' =' * bool(row['restates'])}{' *' * row['afterwards']}"
        )
    s = result["summary"]
    print(
        f"\nc calibrated ({s['calibrated']}), p predicted ({s['predicted']}), m measured ({s['measured']}), "
        f"w worked examples ({s['computed']}), "
        f"a assumed ({s['assumed']}); * the reading was chosen after a result had been seen"
    )
    if s["predicted_median_error"] is not None:
        print(
            f"predicted: {s['predicted_reproduced']} of {s['predicted']} reproduced within a factor of 1.5, median error "
            f"{s['predicted_median_error']:.0%}; changes in percent are compared as such, and {s['restated']} rows that state a "
            "prediction again (=) do not count"
        )
    wrong = ", ".join(s["direction_wrong"]) or "none"
    none = ", ".join(s["no_effect"]) or "none"
    print(f"no effect where one is published: {none}")
    print(
        f"wrong direction: {wrong}; failed: {s['failed']}; not attempted: {len(result['not_tried'])}"
    )


def _short(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value if len(value) <= 10 else "text"
    return f"{value:.4g}"
