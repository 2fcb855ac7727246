"""The command-line application object; one file per verb registers itself on it."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(
    name="wastedcores",
    help="Was a core idle while a thread waited? When, where, why, and what did it cost?",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from wastedcores import __version__

        print(f"wastedcores {__version__}")
        raise typer.Exit


@app.callback()
def _everything(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Say it and exit"),
    ] = False,
) -> None:
    """Was a core idle while a thread waited? When, where, why, and what did it cost?"""
