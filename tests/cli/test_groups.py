"""Options that belong together are one parameter of a verb, and options of their own on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from typer import Option
from typer.testing import CliRunner

from wastedcores.cli._groups import Counted, with_groups

app = typer.Typer()
got = []


@dataclass(frozen=True)
class Paint:
    colour: Annotated[str, Option("--colour", "-c", help="The colour.")] = "red"
    layers: Annotated[list[str] | None, Option("--layer", help="A layer.")] = None


@app.command()
@with_groups
def draw(name: str, paint: Paint = Paint(), counted: Counted = Counted(), big: bool = False):
    """Draw."""
    got.append((name, paint, counted, big))


def run(*words: str):
    return CliRunner().invoke(app, list(words))


def test_options_of_a_group_are_given_one_by_one():
    done = run("x", "-c", "blue", "--layer", "a", "--layer", "b", "--between", "1", "2", "--big")
    assert done.exit_code == 0, done.output
    assert got.pop() == ("x", Paint("blue", ["a", "b"]), Counted(("1", "2"), None, False), True)


def test_defaults_are_those_of_the_group():
    assert run("x").exit_code == 0
    assert got.pop() == ("x", Paint(), Counted(), False)


def test_the_help_has_them_in_order():
    shown = run("--help").output
    places = [shown.index(o) for o in ("--colour", "--layer", "--between", "--cpus", "--big")]
    assert places == sorted(places)
    assert run("x", "--color", "blue").exit_code == 2
