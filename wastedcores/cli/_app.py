"""The command-line application; each verb registers itself on it from a module of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

#: modules that register verbs, in the order of the help text
VERBS = (
    "check",
    "explain",
    "measure",
    "path",
    "whatif",
    "recover",
    "info",
    "schedstat",
    "import_",
    "figure",
    "report",
    "lab",
    "capture",
    "snapshot",
    "domains",
    "replay",
    "compare",
    "scenarios",
    "sweep",
    "reproduce",
    "export",
    "data",
    "doctor",
    "warmup",
    "soak",
    "course",
)


@dataclass
class Options:
    """The options that stand before the verb."""

    debug: bool = False


class Verbs(TyperGroup):
    """The verbs in the order of :data:`VERBS`, whichever of their modules was imported first."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the verbs."""
        order = [verb.rstrip("_") for verb in VERBS]
        return sorted(super().list_commands(ctx), key=order.index)


options = Options()
app = typer.Typer(
    name="wastedcores",
    cls=Verbs,
    help="Was a core idle while a thread waited? When, where, why, and what did it cost?",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    # help texts fill the terminal up to this width
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


def epilog(*examples: str, notes: str = "", exit_codes: str = "") -> str:
    """Return the end of a verb's help: notes and exit codes, which are wrapped, and examples, which are not.

    Examples are written without the leading ``wastedcores``; paragraphs of notes are separated by an empty line.
    """
    lines = "\n".join(f"  wastedcores {example}" for example in examples)
    parts = [notes.strip(), exit_codes and f"Exit codes: {exit_codes}", f"\b\nExamples:\n{lines}"]
    return "\n\n".join(part for part in parts if part)


def _show_version(wanted: bool) -> None:
    if wanted:
        from wastedcores import __version__

        print(f"wastedcores {__version__}")
        raise typer.Exit


@app.callback()
def _wastedcores(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error, before its message.")
    ] = False,
) -> None:
    """Was a core idle while a thread waited? When, where, why, and what did it cost?"""
    options.debug = debug
