"""The command-line application; each verb registers itself on it from a module of its own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

#: modules that register verbs, in the order of the help text
VERBS = (
    "check", "score", "watch", "unit", "fleet", "explain", "measure", "path", "whatif", "recover", "info", "schedstat",
    "import_", "figure", "report", "lab", "capture", "guest", "snapshot", "domains", "replay", "compare", "scenarios",
    "sweep", "reproduce", "export", "data", "doctor", "warmup", "course", "completion", "man",
)  # fmt: skip

#: the environment variable with which a shell asks for completions
COMPLETE = "_WASTEDCORES_COMPLETE"
#: the commands that a newcomer needs first, each with its purpose
FIRST = (
    ("capture -o trace.parquet -- make -j8", "record this machine while a command runs"),
    ("check trace.parquet", "were cores idle while threads waited?"),
    ("explain trace.parquet", "why, and what would help?"),
    ("report trace.parquet -o reports/mine", "all of it as a page that opens offline"),
    (
        "compare missing-domains --kernel v4.1 --kernel v4.1+missing_domains",
        "replay a kernel and its fix",
    ),
)


@dataclass
class Options:
    """The options that stand before the verb."""

    debug: bool = False


def present(words: Sequence[str]) -> tuple[list[str], str]:
    """Replace the spellings of the previous release in typed words; also return a hint, which is empty if nothing was replaced.

    ``watch`` was spelt ``check --live``, ``fleet`` was ``check --table``, some verbs called ``--snapshot`` ``--tasks``, and
    ``watch --serve`` was ``watch --metrics``.
    """
    new = list(words)
    at = next((i for i, word in enumerate(new) if not word.startswith("-")), None)
    if at is None:
        return new, ""
    names = [word.partition("=")[0] for word in new]
    if new[at] == "check" and "--live" in names:
        new[at] = "watch"
        new.remove("--live")
        return new, "`check --live` is now called `watch`"
    if new[at] == "check" and {"--table", "--page", "--scheduler"} & set(names):
        new[at] = "fleet"
        new = [_renamed(word, "--table", "--output") for word in new]
        return new, "`check --table FILE` is now called `fleet -o FILE`"
    if new[at] in ("explain", "whatif", "recover") and "--tasks" in names:
        return [
            _renamed(word, "--tasks", "--snapshot") for word in new
        ], "`--tasks` is now called `--snapshot`"
    if new[at] == "watch" and "--metrics" in names:
        new = [_renamed(word, "--metrics", "--serve") for word in new]
        return new, "`watch --metrics` is now called `watch --serve`"
    return new, ""


def _renamed(word: str, old: str, new: str) -> str:
    name, equals, value = word.partition("=")
    return f"{new}{equals}{value}" if name == old else word


class Verbs(TyperGroup):
    """The verbs in the order of :data:`VERBS`, in whatever order their modules were imported."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse what was typed; an old spelling is replaced, and a hint is printed."""
        args, hint = present(args)
        if hint:
            print(
                f"wastedcores: {hint}; the old spelling works in this release only.",
                file=sys.stderr,
            )
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the verbs."""
        order = [verb.rstrip("_") for verb in VERBS]
        return sorted(super().list_commands(ctx), key=order.index)


options = Options()
app = typer.Typer(
    name="wastedcores",
    cls=Verbs,
    help="Was a core idle while a thread waited? When, where, why, and what did it cost?",
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    # a help text is as wide as the terminal, but at most this wide
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


def epilog(*examples: str, notes: str = "", exit_codes: str = "") -> str:
    """Return the end of a verb's help: notes, exit codes and examples. The lines of the examples are not wrapped.

    Examples are written without the leading ``wastedcores``; an empty line separates the paragraphs of notes.
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
    ctx: typer.Context,
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
    if ctx.invoked_subcommand is None:
        print("Was a core idle while a thread waited? Begin with one of these:\n")
        for command, purpose in FIRST:
            print(f"  wastedcores {command}\n      {purpose}")
        print("\nAll verbs: wastedcores --help. A verb's options: wastedcores VERB --help.")
        raise typer.Exit(2)
