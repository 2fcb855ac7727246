"""How a verb is put on the command line: its examples, and a table with a row for each of its options.

A row names a parameter of the verb, whose annotation and default are the option's type and default. Then come the names of the
option, unless they follow from the parameter's, and what it takes; then the help. Two spaces or more separate the three, and a
row goes on in lines that are indented further. ``argument`` makes it an argument; ``min=1``, ``max=9`` and ``>0`` are bounds.
A parameter that the verb's own table lacks has its row in :data:`SHARED`.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer
from typer import Argument, Option

from wastedcores.cli._app import app

#: endings by which people know a file of Perfetto's
ENDINGS = (".pftrace", ".perfetto-trace", ".pb")


def above_zero(param: typer.CallbackParam, value: float | None) -> float | None:
    """Refuse a number that is not finite or not above 0, which Python reads from "nan", "inf" and "-1"."""
    from wastedcores.errors import UsageError

    if value is not None and not 0 < value < math.inf:
        raise UsageError(f"{param.opts[0]} {value:g}: expected a number above 0.")
    return value


def settings(texts: Sequence[str] | None, expected: str = "NAME=VALUE") -> dict[str, str]:
    """Return the values of ``--set`` by name; if a name is given twice, the last value counts.

    ``expected`` is the form that the error message asks for.
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
    """Return the value of ``--until`` in ns; refuse what is not a time that a replay can last."""
    from wastedcores.errors import UsageError

    if seconds is None:
        return None
    if not math.isfinite(seconds) or not 1e-9 <= seconds <= 1e6:
        raise UsageError(
            f"--until {seconds:g}: expected simulated seconds above 0 and at most 1000000."
        )
    return round(seconds * 1e9)


class HotplugCommand(typer.core.TyperCommand):
    """A command that keeps the order in which ``--offline`` and ``--online`` were typed, which click does not."""

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


#: the options that several verbs have
SHARED = """
    trace            argument TRACE     A trace (a file or a folder of any format, or - for the standard input), or the name of
        a data set.
    format           NAME               Read the file as this format instead of detecting it.
    scenario         argument SCENARIO  A name that `wastedcores scenarios` lists, or an rt-app .json file.
    machine          NAME|FILE|live     The machine. Default: the scenario's own.
    kernel           NAME               A kernel with fixes. Repeat the option for several kernels.
    seed             min=0 N            The seed of all random draws.
    set_             --set NAME=VALUE   Change a parameter. Repeat the option for several.
    until            SECONDS            Stop after this much simulated time.
    offline          LIST               Take these CPUs offline. May be repeated.
    online           LIST               Bring these CPUs back. May be repeated.
    persist          --persist -M TIME  An episode of at least this length is persistent (the paper's M).
    chronic          SHARE|off          Call waste chronic when 5 of 10 consecutive slices, each --persist long, waste at least
        this share of the CPU time used.
    cpus             LIST               Count only these CPUs, for example 8-23,40.
    between          START END          Count only this window: the beginnings of two marks' texts, or two times in seconds.
    whole                               Count everything, not only the window and the CPUs that the recording names.
    ignore_affinity                     Also count waiting threads that their affinity keeps off the idle CPU.
    silent           idle|unknown       Take online CPUs without any event as this. Default: unknown, unless the trace lists
        what ran at its start.
    session          NAME               A task that is ever called NAME... leads a session, which its children inherit. May be
        repeated.
    snapshot         FILE|live          Take sessions, affinity and limits of the tasks from this output of `wastedcores
        snapshot`, or from this machine.
    pseudonyms       KEYFILE            Replace the names of tasks, hosts, groups and programs by pseudonyms, the same ones
        whenever this file is given. It is made if there is none; keep it secret.
    as_json          --json             Print one JSON object instead of text.
    quiet            --quiet -q         Show no progress bar.
    workers          min=1 N            Number of processes. Default: one per CPU.
    scheduler        ADDRESS            Run on the Dask scheduler at this address instead.
    seconds          >0 N               Stop after this many seconds. Default: at Ctrl-C.
    backend          auto|bpf|tracefs   How to record; `auto` takes the best that works.
"""

Verb = Callable[..., None]


@dataclass(frozen=True)
class Counted:
    """What of a trace counts."""

    between: tuple[str, str] | None = None
    cpus: str | None = None
    whole: bool = False


@dataclass(frozen=True)
class Told:
    """What is told about the tasks of a trace beside the trace itself."""

    session: list[str] | None = None
    snapshot: str | None = None


def verb(
    *examples: str,
    options: str = "",
    notes: str = "",
    exit_codes: str = "",
    common: str = "",
    on: typer.Typer = app,
    **how: Any,
) -> Callable[[Verb], Verb]:
    """Register a function as a verb of ``on``, with the options of a table, which ``common`` completes; ``how`` goes to typer."""

    def register(function: Verb) -> Verb:
        declared = with_options(function, options, common)
        on.command(epilog=epilog(*examples, notes=notes, exit_codes=exit_codes), **how)(declared)
        return function

    return register


def epilog(*examples: str, notes: str = "", exit_codes: str = "") -> str:
    """Return the end of a verb's help: notes and exit codes, which are wrapped, and examples, which are not.

    Examples are written without the leading ``wastedcores``; paragraphs of notes are separated by an empty line.
    """
    lines = "\n".join(f"  wastedcores {example}" for example in examples)
    parts = [notes.strip(), exit_codes and f"Exit codes: {exit_codes}", f"\b\nExamples:\n{lines}"]
    return "\n\n".join(part for part in parts if part)


def with_options(function: Verb, table: str = "", common: str = "") -> Verb:
    """Give a verb the options of a table; of a parameter that is a dataclass, one for each of its fields."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    own, shared = _rows(table), _rows(SHARED + common)
    parameters: list[inspect.Parameter] = []

    def add(parameter: inspect.Parameter, kind: Any) -> None:
        known = hasattr(kind, "__metadata__") or kind is typer.Context
        name = parameter.name
        option = kind if known else _option(kind, name, *(own.pop(name, None) or shared[name]))
        parameters.append(parameter.replace(annotation=option))

    for parameter in inspect.signature(function).parameters.values():
        if parameter.name not in groups:
            add(parameter, hints[parameter.name])
            continue
        group = groups[parameter.name]
        kinds = get_type_hints(group, include_extras=True)
        for f in fields(group):
            add(
                parameter.replace(name=f.name, default=getattr(parameter.default, f.name)),
                kinds[f.name],
            )
    if own:
        raise KeyError(f"{function.__name__} has no parameters {', '.join(own)}")

    @wraps(function)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{f.name: given.pop(f.name) for f in fields(group)})
        function(**given)

    run.__annotations__ = {p.name: p.annotation for p in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads both
    return run


def _rows(table: str) -> dict[str, tuple[str, str]]:
    """Read a table: parameter -> what the option is called and takes, and its help."""
    rows: dict[str, tuple[str, str]] = {}
    for line in re.sub(r"\n {8,}", " ", table).strip("\n").splitlines():
        if line.strip():
            name, *between, text = re.split(r" {2,}", line.strip())
            rows[name] = " ".join(between), text
    return rows


def _option(kind: Any, name: str, asked: str, text: str) -> Any:
    """Make the annotation that typer reads of a row."""
    words = asked.split()
    flags = [w for w in words if w.startswith("-") and w != "--"]
    bounds = dict(re.findall(r"\b(min|max)=(\d+)", asked))
    takes = [
        w
        for w in words
        if w not in (*flags, "argument", ">0") and w.partition("=")[0] not in bounds
    ]
    how: dict[str, Any] = {"help": text, "metavar": " ".join(takes) or None}
    how |= {bound: int(value) for bound, value in bounds.items()}
    if ">0" in words:
        how["callback"] = above_zero
    if "argument" in words:
        return Annotated[kind, Argument(**how)]
    if not flags and (
        kind is bool or name.endswith("_")
    ):  # otherwise typer adds --no-NAME, or writes --NAME-
        flags = [f"--{name.rstrip('_').replace('_', '-')}"]
    return Annotated[kind, Option(*flags, **how)]
