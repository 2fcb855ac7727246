"""``wastedcores man``: the manual page, made from the help of all verbs."""

from __future__ import annotations

from typing import Any

import typer

from wastedcores.cli._app import app, epilog

_NOTES = "Read it with `man -l`, or put it where man looks, such as ~/.local/share/man/man1/wastedcores.1."


@app.command(epilog=epilog("man > wastedcores.1", notes=_NOTES))
def man() -> None:
    """Print the manual page, in the format of man(1)."""
    from wastedcores import __version__
    from wastedcores.cli import register_verbs

    register_verbs()
    group: Any = typer.main.get_command(app)
    context = group.make_context("wastedcores", ["--help"], resilient_parsing=True)
    lines = [
        f'.TH WASTEDCORES 1 "" "wastedcores {__version__}" "User Commands"',
        ".SH NAME",
        "wastedcores \\- find, explain and reproduce wasted cores in the Linux scheduler",
        ".SH SYNOPSIS",
        ".B wastedcores",
        "[OPTIONS] VERB ...",
        ".SH DESCRIPTION",
        _roff(group.help),
    ]
    for name in group.list_commands(context):
        lines += _verb(group.get_command(context, name), (name,), context)
    print("\n".join(lines))


def _verb(command: Any, words: tuple[str, ...], parent: Any) -> list[str]:
    """Return the lines of a verb's section and of the sections of its subcommands."""
    context = command.make_context(" ".join(words), [], parent=parent, resilient_parsing=True)
    lines = [f".SH {' '.join(words).upper()}", ".nf", _roff(command.get_help(context)), ".fi"]
    for name in getattr(command, "commands", ()):
        lines += _verb(command.commands[name], (*words, name), context)
    return lines


def _roff(text: str) -> str:
    """Escape characters that have a meaning for man: backslashes, hyphens, and dots or quotes at the beginning of a line."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").splitlines()
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in lines)
