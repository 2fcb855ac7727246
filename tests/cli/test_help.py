"""The help texts, which a newcomer reads first."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import wastedcores.cli
from wastedcores.cli import VERBS, register_verbs
from wastedcores.cli._app import app

VERB_NAMES = [v.rstrip("_") for v in VERBS]
register_verbs()
COMMAND = typer.main.get_command(app)
#: the commands, and those of a verb that has several
COMMANDS = [
    (name, *rest)
    for name, verb in COMMAND.commands.items()
    for rest in [(), *((sub,) for sub in getattr(verb, "commands", ()))]
]


def help_of(*words: str, columns: int = 80) -> str:
    register_verbs()
    # in a terminal two columns stay free; the variable COLUMNS does not reach this runner
    run = CliRunner().invoke(
        app, [*words, "--help"], terminal_width=columns - 2, prog_name="wastedcores"
    )
    assert run.exit_code == 0
    return run.stdout


def test_every_verb_is_listed_with_a_whole_sentence():
    listed = help_of().partition("Commands:")[2].strip().splitlines()
    assert [line.split()[0] for line in listed] == VERB_NAMES
    for group in ("guest", "course"):
        listed += help_of(group).partition("Commands:")[2].strip().partition("\n\n")[0].splitlines()
    assert all(line.endswith(".") and not line.endswith("...") for line in listed)


def test_a_typed_verb_is_found_after_options_without_importing_the_others():
    code = """import sys
from wastedcores.cli import app, register_verbs
register_verbs(["--debug", "import", "--help"])
print(*(m.removeprefix("wastedcores.cli.") for m in sys.modules if m.startswith("wastedcores.cli.") and "._" not in m))
app(["--debug", "import", "--help"])"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    modules, _, shown = run.stdout.partition("\n")
    assert modules == "import_"
    assert "import [OPTIONS]" in shown


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_of_a_verb_ends_with_examples_that_can_be_copied(words):
    examples = help_of(*words).partition("Examples:")[2].strip().splitlines()
    assert examples
    assert all(line.strip().startswith(f"wastedcores {' '.join(words)}") for line in examples)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_option_is_explained_by_a_sentence(words):
    command = COMMAND
    for word in words:
        command = command.commands[word]
    for parameter in command.params:
        assert parameter.help.endswith("."), parameter.name
        assert parameter.help[0].isupper() or ": " in parameter.help, parameter.name


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_machine_can_be_this_one_wherever_one_is_named(words):
    command = COMMAND
    for word in words:
        command = command.commands[word]
    for parameter in command.params:
        if {"--machine", "--to-machine"} & set(parameter.opts):
            assert parameter.metavar == "NAME|FILE|live"


#: verbs whose options are not in groups yet (wastedcores/cli/_groups.py)
UNGROUPED = ("watch", "compare")


def test_no_verb_takes_more_than_fourteen_parameters():
    for path in sorted(Path(wastedcores.cli.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name not in UNGROUPED:
                taken = len(node.args.args) + len(node.args.kwonlyargs)
                assert taken <= 14, f"{path.name}: {node.name} takes {taken}"
