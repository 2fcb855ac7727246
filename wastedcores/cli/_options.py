"""Arguments and options that several verbs share, each declared once, and the parsers of their texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

#: the usual endings of the names of Perfetto traces
ENDINGS = (".pftrace", ".perfetto-trace", ".pb")


def above_zero(param: typer.CallbackParam, value: float | None) -> float | None:
    """Refuse a number that is not finite or not above 0, because Python also reads "nan", "inf" and "-1" as numbers."""
    from wastedcores.errors import UsageError

    if value is not None and not 0 < value < math.inf:
        raise UsageError(f"{param.opts[0]} {value:g}: expected a number above 0.")
    return value


# ------------------------------------------------------------------------------------------- what a verb works on
_TRACE = Argument(
    metavar="TRACE",
    help="A trace (a file or a folder of any format, or - for the standard input), or the name of a data set.",
)
TraceInput = Annotated[Path, _TRACE]
OptionalTrace = Annotated[Path | None, _TRACE]
NamedTrace = Annotated[
    str | None,
    Argument(
        metavar="TRACE", help="A trace (a file or a folder of any format), or a data set's name."
    ),
]
ParquetOutput = Annotated[
    Path, Option("--output", "-o", metavar="FILE", help="The Parquet file to write.")
]
JsonOutput = Annotated[
    Path, Option("--output", "-o", metavar="FILE", help="The JSON file to write.")
]
TraceFormat = Annotated[
    str | None,
    Option(
        "--format", metavar="NAME", help="Read the file as this format instead of detecting it."
    ),
]
ScenarioName = Annotated[
    str,
    Argument(
        metavar="SCENARIO",
        help="A name that `wastedcores scenarios` lists, or an rt-app .json file.",
    ),
]
MachineName = Annotated[
    str | None,
    Option("--machine", metavar="NAME|FILE|live", help="The machine. Default: the scenario's own."),
]
Kernels = Annotated[
    list[str] | None,
    Option(
        "--kernel",
        metavar="NAME",
        help="A kernel, with fixes if wanted (v4.1+group_imbalance). Repeat the option for several kernels.",
    ),
]
Seed = Annotated[int, Option("--seed", metavar="N", min=0, help="The seed of all random draws.")]
Settings = Annotated[
    list[str] | None,
    Option(
        "--set", metavar="NAME=VALUE", help="Change a parameter. Repeat the option for several."
    ),
]
Until = Annotated[
    float | None, Option("--until", metavar="SECONDS", help="Stop after this much simulated time.")
]
RefillUs = Annotated[
    int,
    Option(
        metavar="US",
        min=0,
        max=10_000_000,
        help="The time in us that a thread loses when it moves to another last-level cache; 0 means that a move costs nothing.",
    ),
]
Offline = Annotated[
    list[str] | None,
    Option("--offline", metavar="LIST", help="Take these CPUs offline. May be repeated."),
]
Online = Annotated[
    list[str] | None,
    Option("--online", metavar="LIST", help="Bring these CPUs back. May be repeated."),
]

# ------------------------------------------------------------------------------------------- what the check counts
Persist = Annotated[
    str,
    Option(
        "--persist",
        "-M",
        metavar="TIME",
        help="An episode of at least this length is persistent (the paper's M).",
    ),
]
Chronic = Annotated[
    str,
    Option(
        "--chronic",
        metavar="SHARE|off",
        help="Waste is chronic if at least this share of the used CPU time is wasted in 5 of 10 consecutive slices, each as long "
        "as --persist.",
    ),
]
Cpus = Annotated[
    str | None, Option("--cpus", metavar="LIST", help="Count only these CPUs, for example 8-23,40.")
]
Between = Annotated[
    tuple[str, str] | None,
    Option(
        "--between",
        metavar="START END",
        help="Count only the window between START and END: two marks, each named by the beginning of its text, or two times in "
        "seconds.",
    ),
]
Whole = Annotated[
    bool,
    Option(
        "--whole",
        help="Count everything, not only the window and the CPUs that the recording names.",
    ),
]
IgnoreAffinity = Annotated[
    bool,
    Option(
        "--ignore-affinity",
        help="Also count waiting threads that may not run on the idle CPU because of their affinity.",
    ),
]

Silent = Annotated[
    str | None,
    Option(
        "--silent",
        metavar="idle|unknown",
        help="What an online CPU did if no event names it. Default: unknown, unless the trace lists what ran at its start.",
    ),
]

# ------------------------------------------------------------------------------------------- what a trace does not tell
RecordedMachine = Annotated[
    str | None,
    Option(
        "--machine",
        metavar="NAME|FILE|live",
        help="The machine on which the trace was recorded. Default: what the trace says.",
    ),
]
Sessions = Annotated[
    list[str] | None,
    Option(
        "--session",
        metavar="NAME",
        help="Each task whose name begins with NAME, even if only for a while, leads a session. Its children "
        "inherit it. May be repeated.",
    ),
]
SnapshotSource = Annotated[
    str | None,
    Option(
        "--snapshot",
        metavar="FILE|live",
        help="Take sessions, affinity and limits of the tasks from FILE, which `wastedcores snapshot` wrote, or, with `live`, "
        "from this machine as it is now.",
    ),
]

# ------------------------------------------------------------------------------------------- how a verb runs and answers
Pseudonyms = Annotated[
    Path | None,
    Option(
        "--pseudonyms",
        metavar="KEYFILE",
        help="Replace the names of tasks, hosts, groups and programs by pseudonyms, which depend on the key in this file. "
        "The file is made if it does not exist; keep it secret.",
    ),
]
AsJson = Annotated[bool, Option("--json", help="Print one JSON object instead of text.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Show no progress bar.")]
Workers = Annotated[
    int | None,
    Option("--workers", metavar="N", min=1, help="Number of processes. Default: one per CPU."),
]
Scheduler = Annotated[
    str | None,
    Option(
        "--scheduler",
        metavar="ADDRESS",
        help="Run on the Dask cluster of the scheduler at this address instead of here.",
    ),
]


# ------------------------------------------------------------------------------------------- the running machine
Seconds = Annotated[
    float | None,
    Option(
        "--seconds",
        metavar="N",
        callback=above_zero,
        help="Stop after this many seconds. Default: at Ctrl-C.",
    ),
]
Backend = Annotated[
    str,
    Option(
        "--backend",
        metavar="auto|bpf|tracefs",
        help="The way to record; `auto` takes the best one that works here.",
    ),
]


def settings(texts: Sequence[str] | None, expected: str = "NAME=VALUE") -> dict[str, str]:
    """Return the values of ``--set`` by name; if a name is given twice, the last value counts.

    ``expected`` is the form of a setting that the error message names.
    """
    from wastedcores.errors import UsageError

    given = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--set {text!r}: expected {expected}, such as jobs=500.")
        given[name.strip()] = value.strip()
    return given


def until_ns(seconds: float | None) -> int | None:
    """Return the value of ``--until`` in ns; refuse a value that cannot be the length of a replay."""
    from wastedcores.errors import UsageError

    if seconds is None:
        return None
    if not math.isfinite(seconds) or not 1e-9 <= seconds <= 1e6:
        raise UsageError(
            f"--until {seconds:g}: expected simulated seconds above 0 and at most 1000000."
        )
    return round(seconds * 1e9)


def refuse_unused(ctx: typer.Context, names: Sequence[str], why: str) -> None:
    """Refuse those options of these parameters that were typed, because they would change nothing."""
    from wastedcores.errors import UsageError

    unused = [
        parameter.opts[0]
        for parameter in ctx.command.params
        if parameter.name in names
        and getattr(ctx.get_parameter_source(parameter.name), "name", "") == "COMMANDLINE"
    ]
    if unused:
        raise UsageError(
            f"{', '.join(unused)}: this changes nothing here, because {why}. Leave it out."
        )


class HotplugCommand(typer.core.TyperCommand):
    """A command that keeps the order in which ``--offline`` and ``--online`` were typed; click does not keep it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Note the values of both options in ``ctx.meta`` and let click parse as usual."""
        typed = []
        for word, following in zip(args, [*args[1:], ""], strict=False):
            option, equals, value = word.partition("=")
            if option in ("--offline", "--online"):
                typed.append((option[2:], value if equals else following))
        ctx.meta["hotplug"] = typed
        return super().parse_args(ctx, args)


def hotplug_steps(ctx: typer.Context) -> list[tuple[str, int]]:
    """Return ("offline" or "online", CPU) in the order typed, for a :class:`HotplugCommand`."""
    from wastedcores.cpulist import parse_cpulist

    return [
        (what, cpu)
        for what, text in ctx.meta["hotplug"]
        for cpu in parse_cpulist(text, f"--{what}")
    ]
