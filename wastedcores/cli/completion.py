"""``wastedcores completion``: the script with which a shell completes verbs and options at the Tab key."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from typer import Argument

from wastedcores.cli._app import COMPLETE, app, epilog

_NOTES = """bash: put `eval "$(wastedcores completion bash)"` into ~/.bashrc. zsh: put `eval "$(wastedcores completion zsh)"` into
~/.zshrc, after compinit. fish: write the output to ~/.config/fish/completions/wastedcores.fish."""


class Shell(StrEnum):
    """The shells that have completion."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


@app.command(epilog=epilog("completion bash", "completion fish", notes=_NOTES))
def completion(
    shell: Annotated[Shell, Argument(metavar="bash|zsh|fish", help="The shell.")],
) -> None:
    """Print the script that completes commands in a shell."""
    from typer.completion import get_completion_script

    print(get_completion_script(prog_name="wastedcores", complete_var=COMPLETE, shell=shell.value))


def answer() -> None:
    """Answer a shell that asks what may follow the typed words, which are in environment variables, and exit."""
    from typer.completion import completion_init

    completion_init()
    app(prog_name="wastedcores")
