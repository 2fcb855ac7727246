"""Prints the answers of verbs as JSON or wrapped text, and checks the files that verbs write."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import textwrap
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from wastedcores.trace.header import Header

#: verdict -> exit code
EXIT_OF = {"clean": 0, "violations": 1, "unknown": 3}
EXIT_CODES = "0 clean, 1 violations, 2 bad use or input, 3 unknown because the trace cannot tell."


def print_json(value: Any) -> None:
    """Print ``value`` as JSON on one line of standard output."""
    # where a character cannot be printed, Python would write an escape sequence, such as \xfc, that is not valid JSON
    utf8 = (getattr(sys.stdout, "encoding", None) or "utf-8").lower() in ("utf-8", "utf8")
    json.dump(value, sys.stdout, separators=(",", ":"), ensure_ascii=not utf8)
    sys.stdout.write("\n")


def print_recording(path: Path, header: Header) -> None:
    """Print as JSON where a recording was written, and its header."""
    answer = {"schema": "wastedcores.recording/1", "path": str(path)}
    print_json(answer | {"header": header.model_dump(mode="json")})


def wrapped(text: str, first: str = "", rest: str = "") -> str:
    """Wrap a paragraph at the terminal's width; ``first`` stands before the first line and ``rest`` before each other line."""
    width = min(shutil.get_terminal_size().columns, 120) - 1
    return textwrap.fill(
        text, width, initial_indent=first, subsequent_indent=rest, break_long_words=False
    )


def fitted(text: str, indent: str = " " * 17) -> str:
    """Wrap long lines at the terminal's width and indent the continuation lines; in a pipe, do not change the text."""
    if not sys.stdout.isatty():
        return text
    width = shutil.get_terminal_size().columns - 1
    return "\n".join(
        line
        if len(line) <= width
        else textwrap.fill(
            bare := line.lstrip(),
            width,
            initial_indent=line[: -len(bare)],
            subsequent_indent=indent,
            break_long_words=False,
        )
        for line in text.splitlines()
    )


#: parameters that say how a trace is read and which part of it counts; the proposed next command repeats them
_ABOUT_A_TRACE = {
    "machine", "kernel", "snapshot", "session", "between", "cpus", "whole", "persist", "chronic", "ignore_affinity", "silent",
    "format",
}  # fmt: skip


def print_next(command: str, purpose: str, ctx: typer.Context | None = None) -> None:
    """Print the command that helps next, with its purpose, as the last lines of an answer.

    If ``ctx``, the context of the typed verb, is given, and the next command is about the same trace, it repeats typed options.
    """
    repeated = "" if ctx is None else _repeated(ctx, shlex.split(command))
    print(f"\n  next           {command}{repeated}   ({purpose})")


def _repeated(ctx: typer.Context, following: list[str]) -> str:
    """Return the typed options that are about the trace and that the verb of the following command takes, too."""
    from wastedcores.cli._app import app

    if following[2:3] != [str(ctx.params["trace"])]:
        return ""
    import_module(f"wastedcores.cli.{following[1]}")
    verb = typer.main.get_group(app).commands[following[1]]
    taken = {option for parameter in verb.params for option in parameter.opts}
    words: list[str] = []
    for parameter in ctx.command.params:
        value: Any = ctx.params.get(str(parameter.name))
        option = parameter.opts[0]
        if parameter.name not in _ABOUT_A_TRACE or option not in taken or option in following:
            continue
        source = ctx.get_parameter_source(parameter.name)
        if source is None or source.name != "COMMANDLINE":
            continue
        if isinstance(value, bool):
            words.append(option)
        elif parameter.nargs > 1:
            words += [option, *value]
        else:
            words += [
                w for v in (value if isinstance(value, list) else [value]) for w in (option, v)
            ]
    if "--offline" in taken:
        words += [w for what, cpus in ctx.meta.get("hotplug", ()) for w in (f"--{what}", cpus)]
    return "".join(f" {shlex.quote(word)}" for word in words)


def given_again(machine: str | None, settings: Sequence[str] | None) -> str:
    """Return the options that name the same machine and parameters in another command."""
    options = [("--machine", machine)] if machine else []
    options += [("--set", text) for text in settings or ()]
    return "".join(f" {option} {shlex.quote(value)}" for option, value in options)


def parquet_name(source: Path) -> Path:
    """Return the name that ``import`` gives its file, in the current folder.

    For ``run.txt.xz`` it is ``run.parquet``, for another tool's ``run.parquet`` it is ``run-trace.parquet``, and for the standard
    input, ``-``, it is ``trace.parquet``.
    """
    name = "" if str(source) == "-" else source.name
    for suffix in (".gz", ".xz", ".zst", ".txt", ".data", ".dat", ".json"):
        name = name.removesuffix(suffix)
    if name.endswith(".parquet"):
        name = name.removesuffix(".parquet") + "-trace"
    return Path(f"{name or 'trace'}.parquet")


def check_writable(path: Path) -> None:
    """Refuse a path for the result, before the work is done, if it is a directory or if nothing can be written there."""
    from wastedcores.errors import UsageError
    from wastedcores.files import is_special

    folder, reason = path.parent, ""
    if path.is_dir():
        reason = "it is a directory; expected the name of a file"
    elif str(path) == "-" or is_special(path):
        reason = "it is no file; expected the name of a file"
    elif not folder.is_dir():
        reason = f"there is no directory {folder}; make it first"
    elif not os.access(folder, os.W_OK):
        reason = f"writing in {folder} is not allowed"
    if reason:
        raise UsageError(f"{path}: cannot write there, {reason}.")
    tell_leftovers(folder)


def tell_leftovers(folder: Path) -> None:
    """Name on standard error what killed processes have left in a folder."""
    from wastedcores.files import leftovers, what_to_do

    for left in leftovers(folder):
        print(f"{left} was left by a process that was killed: {what_to_do(left)}.", file=sys.stderr)
