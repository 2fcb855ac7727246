"""``wastedcores compare``: one scenario under several kernels, or two recorded traces."""

from __future__ import annotations

import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from wastedcores.cli._app import app, epilog
from wastedcores.cli._options import (
    AsJson,
    Kernels,
    MachineName,
    Persist,
    Seed,
    Settings,
    Until,
    refuse_unused,
    settings,
    until_ns,
)
from wastedcores.cli._output import check_writable, given_again, print_json, print_next
from wastedcores.units import result_words

if TYPE_CHECKING:
    from wastedcores.analysis.compare import Comparison

_NOTES = """With a scenario, the first kernel is compared with each of the others. Without --kernel, the scenario runs under v4.1
and under v4.1 with the fix of the bug that the scenario shows.

With two traces, both are put on one time axis. The table says better or worse only if, as far as the traces tell, machine and
workload are the same; if not, a sentence says what differs.

With --gate, each side is a trace or a folder of traces, and the exit code is 0 if all rules are kept, 1 if one is broken, and 3
if one cannot be judged. See docs/how-to/continuous-integration.md."""


class Kind(StrEnum):
    """The figures that can be drawn."""

    costs = "costs"
    calls = "calls"


_ROWS = (
    ("makespan_s", "makespan", "{:.3f} s"),
    ("result", "result", "{:.4g}"),
    ("busy_cpus", "busy CPUs", "{:.1f}"),
    ("wasted_s", "idle while a thread waited", "{:.3f} s"),
    ("wasted_core_s", "core time wasted", "{:.3f} s"),
    ("persistent_episodes", "persistent episodes", "{:d}"),
    ("wait_p50_ms", "wait, median", "{:.3f} ms"),
    ("wait_p99_ms", "wait, 99 %", "{:.3f} ms"),
    ("wait_max_ms", "wait, longest", "{:.3f} ms"),
    ("migrations", "migrations", "{:d}"),
    ("moves_across_caches_per_s", "to another cache, a second", "{:.0f}"),
    ("moves_across_nodes_per_s", "to another node, a second", "{:.0f}"),
    ("refused_suggestions", "refused suggestions", "{:d}"),
)


@app.command(
    epilog=epilog(
        "compare missing-domains --kernel v4.1 --kernel v4.1+missing_domains",
        "compare group-imbalance --set jobs=500 --json",
        "compare spmd --kernel v4.1 --kernel v4.1+all_fixes -o cost.html",
        "compare overload-on-wakeup --kernel v4.1 --kernel core+wakeup_v4_1",
        "compare before.parquet after.parquet -o pair.html",
        "compare a.txt b.txt --align 'rec: make start'",
        "compare before.parquet after.parquet -o pair.pftrace",
        "compare before/ after/ --gate rules.toml --junit gate.xml",
        notes=_NOTES,
    )
)
def compare(
    ctx: typer.Context,
    scenario: Annotated[
        str,
        Argument(
            metavar="SCENARIO|TRACE",
            help="A name that `wastedcores scenarios` lists, an rt-app .json file, or the first of two traces.",
        ),
    ],
    against: Annotated[
        Path | None, Argument(metavar="TRACE", help="The second of two recorded traces.")
    ] = None,
    kernel: Kernels = None,
    machine: MachineName = None,
    seed: Seed = 1,
    set_: Settings = None,
    persist: Persist = "100ms",
    as_json: AsJson = False,
    until: Until = None,
    whole: Annotated[
        bool,
        Option(
            "--whole",
            help="Count the whole replay, not only the window that the workload measures.",
        ),
    ] = False,
    output: Annotated[
        Path | None,
        Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Draw the comparison: .html, .json or .png; of two traces also .pftrace, for Perfetto's UI.",
        ),
    ] = None,
    kind: Annotated[
        Kind, Option(help="Draw the costs, or the calls of load_balance().")
    ] = Kind.costs,
    align: Annotated[
        str,
        Option(
            metavar="HOW",
            help="With two traces: the moment that becomes time 0 in both: the beginning of a mark's text, `first activity` or "
            "`start of the traces`. Default: the first mark that both have, else the first activity.",
        ),
    ] = "",
    shift: Annotated[
        float,
        Option(
            metavar="MS",
            min=-1e9,
            max=1e9,
            help="With two traces: shift the second one by this many ms, to later times.",
        ),
    ] = 0.0,
    gate: Annotated[
        Path | None,
        Option(
            metavar="RULES.toml",
            help="With two traces or two folders of traces: judge these rules.",
        ),
    ] = None,
    tap: Annotated[
        bool, Option("--tap", help="With --gate: print TAP, as kselftest does.")
    ] = False,
    junit: Annotated[
        Path | None, Option(metavar="FILE.xml", help="With --gate: write JUnit's XML.")
    ] = None,
    markdown: Annotated[
        Path | None, Option(metavar="FILE", help="With --gate: append a table to this file.")
    ] = None,
) -> None:
    """Show what a bug costs and a fix gains, or compare two traces."""
    from wastedcores.errors import UsageError

    if gate is None and (tap or junit or markdown):
        raise UsageError("--tap, --junit and --markdown are for --gate, which judges two traces.")
    if tap and as_json:
        raise UsageError("--tap and --json both decide what is printed; give one of them.")
    if gate is not None and (align or shift or output):
        raise UsageError("--align, --shift and -o are for two traces that no --gate judges.")
    if against is not None:
        from wastedcores.cli._compare_traces import compare_traces
        from wastedcores.units import duration_ns

        of_replays = ("kernel", "machine", "seed", "set_", "until", "kind")
        refuse_unused(ctx, of_replays, "two traces are compared as recorded")
        persist_ns = duration_ns(persist, "--persist")
        if gate is not None:
            from wastedcores.cli._gate import gate as run_gate

            run_gate(
                (Path(scenario), against), gate, persist_ns=persist_ns, whole=whole,
                as_json=as_json, tap=tap, junit=junit, markdown=markdown,
            )  # fmt: skip
        compare_traces(
            (Path(scenario), against), by=align, shift=shift, persist_ns=persist_ns, whole=whole,
            as_json=as_json, output=output,
        )  # fmt: skip
        return
    if align or shift or gate:
        raise UsageError(
            "--align, --shift and --gate are for two traces; name a second trace after the first."
        )
    _refuse_single_trace(scenario)
    _compare_kernels(
        scenario, kernel, machine, seed, set_, persist, as_json, until, whole, output, kind
    )


def _refuse_single_trace(name: str) -> None:
    """Refuse a single trace; any other single name is taken for a scenario, and refused later if there is none of that name."""
    from wastedcores.errors import UsageError, WastedCoresError
    from wastedcores.trace.io import sniff
    from wastedcores.trace.named import fetch

    try:
        sniff(fetch(name))
    except (OSError, WastedCoresError):
        return
    raise UsageError(
        f"{name}: this is a trace, and there is none to compare it with; name a second one after it."
    )


def _compare_kernels(
    scenario: str,
    kernel: list[str] | None,
    machine: str | None,
    seed: int,
    set_: list[str] | None,
    persist: str,
    as_json: bool,
    until: float | None,
    whole: bool,
    output: Path | None,
    kind: Kind,
) -> None:
    """Replay a scenario under several kernels and print how the runs differ."""
    from wastedcores.analysis.compare import compare as run_compare
    from wastedcores.cli._input import resolve_replay
    from wastedcores.errors import UsageError
    from wastedcores.simulator import replay_scenario
    from wastedcores.units import duration_ns
    from wastedcores.workload.scenarios import scenario as find

    usual = find(scenario)
    fix = usual.fix or ("all_fixes" if usual.kernel == "v4.1" else "overload_on_wakeup")
    kernels = kernel or [usual.kernel, f"{usual.kernel}+{fix}"]
    if len(set(kernels)) < 2:
        raise UsageError(
            f"--kernel {kernels[0]}: expected at least two different kernels to compare."
        )
    given, end_ns = settings(set_), until_ns(until)
    persist_ns = duration_ns(persist, "--persist")
    if output is not None:
        check_writable(output)
    _, on = resolve_replay(scenario, kernels, machine, seed, given)
    runs = {}
    for name in dict.fromkeys(kernels):
        print(f"replaying {scenario} under {name} ...", file=sys.stderr)
        runs[name] = replay_scenario(scenario, name, on, seed, given, end_ns)
    for note in next(iter(runs.values())).notes:
        print(f"wastedcores: note: {note}", file=sys.stderr)
    result = run_compare(runs, persist_ns=persist_ns, whole=whole)
    if output is not None:
        from wastedcores.figures.compare import balance_calls, costs
        from wastedcores.reports.html import write_figure

        draw = costs if kind is Kind.costs else balance_calls
        write_figure(draw(result, f"{scenario} on {on.name}, seed {seed}"), output)
        print(f"wrote {output}", file=sys.stderr)
    if as_json:
        facts = {"scenario": scenario, "machine": on.name, "seed": seed}
        facts["warnings"] = list(dict.fromkeys(w for r in runs.values() for w in r.warnings))
        print_json(result.to_json() | facts)
    else:
        _print(result)
        asked = f"{shlex.quote(scenario)} --kernel {kernels[0]}{given_again(machine, set_)}"
        print_next(
            f"wastedcores replay {asked} -o trace.parquet",
            "the first run as a trace, to look closer",
        )


def _print(found: Comparison) -> None:
    rows = found.table.to_dicts()
    for i, row in enumerate(rows):
        print(f"({i}) {row['run']}: {row['verdict']}, {_wasted(found, i)}")
    print("\n" + " " * 28 + "".join(f"{f'({i})':>14}" for i in range(len(rows))))
    for key, title, form in _ROWS:
        designs = found.suggestions.height > 0 or key != "refused_suggestions"
        if all(row[key] is None for row in rows) or not designs:
            continue
        name = result_words(str(rows[0]["result_name"])) if key == "result" else title
        cells = ["-" if row[key] is None else form.format(row[key]) for row in rows]
        print(f"{name:<28}" + "".join(f"{cell:>14}" for cell in cells))
    _print_suggestions(found)
    if not found.balance.height:
        return
    print("\nload_balance() calls, and the share of them that moved nothing")
    for (level,), part in found.balance.group_by("level", maintain_order=True):
        cells = []
        for row in rows:
            mine = part.filter(part["run"] == row["run"])
            calls, refused = int(mine["calls"].sum()), int(mine["refusals"].sum())
            cells.append(f"{calls} {100 * refused / calls:.0f} %" if calls else "none")
        print(f"  level {level:<20}" + "".join(f"{cell:>14}" for cell in cells))


def _wasted(found: Comparison, i: int) -> str:
    """Say how many CPUs a run wasted and how much less or more this is than in the first run; a verdict would hide this."""
    from wastedcores.units import number

    wasted = [r.mean(r.thread_ns) for r in found.checks.values()]
    said = f"{number(wasted[i])} CPUs wasted"
    if i == 0 or not wasted[0]:
        return said
    change = wasted[i] / wasted[0] - 1
    return f"{said}, {abs(change):.0%} {'less' if change < 0 else 'more'} than (0)"


def _print_suggestions(found: Comparison) -> None:
    """Print how many suggestions each module of a design made, and how many of them the core refused."""
    some = found.suggestions.filter(found.suggestions["silent"] < found.suggestions["asked"])
    if not some.height:
        return
    print("\nsuggestions of modules, and how many of them the core refused")
    names = found.table["run"].to_list()
    for row in some.to_dicts():
        made = row["asked"] - row["silent"]
        what = f"({names.index(row['run'])}) {row['module']}: {row['moment']}"
        print(f"  {what:<40}{made:>10}{row['refused']:>10}")
